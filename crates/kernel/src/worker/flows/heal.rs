//! Restores the flows of a switch that has lost those of the kernel or of a guard: guards' flows first
//! ([`healing`](crate::flows::healing)).

use std::time::Instant;

use control::kernel::{FlowLoss, MissingFlows};
use control::policy::Stage;
use openflow::{FlowStatsRequest, Match, MultipartReply, MultipartRequest, PortNo, ReplyBody};

use crate::app_port::AppPort;
use crate::check::{APP_SHIFT, OWN_BITS};
use crate::connection::{Connection, Up};
use crate::dispatch::Dispatch;
use crate::flows::healing::{Listing, Loss, Restored, Waiting};
use crate::flows::image::FlowImage;
use crate::flows::requests::Reason;
use crate::ids::{AppSlot, ConnId};
use crate::outcomes::Purpose;
use crate::plan::Set;
use crate::rewrite::{KERNEL, owner};
use crate::switch::Switch;
use crate::transactions::By;
use crate::worker::answers::Replies;
use crate::worker::channels::WorkerChannels;
use crate::worker::log_limits::LogLimits;
use crate::worker::own_messages::{barrier, request, table_miss};
use crate::worker::{Worker, WorkerEvent};

impl Worker {
    /// Notes the restoration of a switch's flows, if one is under way: it ends as soon as the guards have answered.
    pub(in crate::worker) fn note_restoration(&mut self, id: ConnId) {
        let switch = self.switches.get(id).and_then(Connection::switch);
        if switch.is_some_and(|switch| switch.healing.is_under_way())
            && !self.restoring.contains(&id)
        {
            self.restoring.push(id);
        }
    }

    /// Ends the restorations whose guards have answered.
    pub(in crate::worker) fn advance_restorations(&mut self, now: Instant) {
        let Self { switches, dispatch, channels, log_limits, output, restoring, .. } = self;
        restoring.retain(|id| {
            let Some(connection) = switches.get_mut(*id) else { return false };
            advance(connection, dispatch, channels, log_limits, now);
            output.note_if_any(*id, connection);
            connection.switch().is_some_and(|switch| switch.healing.is_under_way())
        });
    }
}

impl Replies<'_> {
    /// Handles the loss of the kernel's own entry or of a guard's flow.
    pub(in crate::worker) fn flow_lost(&mut self, loss: Loss) {
        if let Some(switch) = self.connection.switch_mut() {
            switch.healing.note_loss(loss, self.now);
        }
        advance(self.connection, self.dispatch, self.channels, self.log_limits, self.now);
    }

    /// Applies a part of the reply to [`check_entry`].
    pub(in crate::worker) fn entry_part(&mut self, message: &[u8], is_last: bool) {
        let lists_entry = match MultipartReply::decode(message).map(|reply| reply.body) {
            Ok(ReplyBody::Flow(flows)) => {
                self.look_for_other(&flows);
                flows.iter().any(|flow| owner(flow.cookie) == KERNEL && flow.priority == 0)
            }
            _ => false,
        };
        let Some(switch) = self.connection.switch_mut() else { return };
        if is_last {
            switch.outcomes.done(Purpose::EntryCheck);
        }
        if entry_listed(switch, (lists_entry, is_last), self.now) {
            let (channels, log_limits) = (self.channels, &mut *self.log_limits);
            advance(self.connection, self.dispatch, channels, log_limits, self.now);
        }
    }
}

/// Applies what is known of the kernel's entry: whether a part of the switch's flows has it, and whether that is the last part.
/// Returns whether it is lost.
fn entry_listed(switch: &mut Switch, (lists_entry, is_last): (bool, bool), now: Instant) -> bool {
    let listing = switch.healing.check.part(lists_entry, is_last, now);
    match listing {
        Listing::Listed => switch.outcomes.done(Purpose::TableMiss),
        Listing::Gone => switch.healing.note_loss(Loss::NotListed, now),
        Listing::NeverListed => {
            let why = "it does not list it, although it has not refused it";
            switch.outcomes.deny(Purpose::TableMiss, why, now);
        }
        Listing::Unknown => {}
    }
    listing == Listing::Gone
}

/// Looks for the kernel's entry, if a check is due: in the image of the switch's flows, or by a request for the flows that output to
/// the controller, and in OpenFlow 1.3 of these only the kernel's. [`advance`] follows.
pub(in crate::worker) fn check_entry(connection: &mut Connection, now: Instant) {
    let Some(switch) = connection.switch_mut() else { return };
    let version = switch.version;
    if switch.no_packets.is_some()
        || switch.watch.is_waiting()
        || !switch.healing.check.is_due(switch.dpid.0, now)
    {
        return;
    }
    if let Some(has_entry) = switch.watch.current().map(FlowImage::has_entry) {
        entry_listed(switch, (has_entry, true), now);
        return;
    }
    if connection.is_full() {
        return;
    }
    let all = FlowStatsRequest::new(Match::new());
    let mut wanted = FlowStatsRequest { out_port: PortNo::CONTROLLER, ..all };
    if version.features().cookie_masks {
        (wanted.cookie, wanted.cookie_mask) = (u64::from(KERNEL.0) << APP_SHIFT, !OWN_BITS);
    }
    let why = (By::EntryCheck, Some(Reason::Heal));
    request(connection, why, &MultipartRequest::Flow(wanted), now);
}

/// Begins or ends the restoration of a switch's flows, if that is due.
pub(in crate::worker) fn advance(
    connection: &mut Connection,
    dispatch: &mut Dispatch,
    channels: &WorkerChannels,
    log_limits: &mut LogLimits,
    now: Instant,
) {
    let is_queued = connection.has_queued();
    let (phase, mut own) = connection.split();
    let Some(Up { switch, transactions, .. }) = phase.up_mut() else { return };
    if is_queued {
        switch.healing.delay_delete(now);
    } else if switch.watch.reports_losses() && switch.healing.take_own_barrier(now) {
        barrier(switch.version, &mut own, transactions, By::OwnWrites, now);
    }
    report(switch, &dispatch.app_ports, channels, log_limits, now);
    if switch.healing.begin(now) {
        barrier(switch.version, &mut own, transactions, By::Healing, now);
        for slot in AppSlot::first(dispatch.app_ports.len()) {
            let app_port = &mut dispatch.app_ports[slot];
            if app_port.rights.writes_flows()
                && matches!(app_port.policy.stage, Stage::Guard(_))
                && let Some(handled) = app_port.flows_missing(switch)
            {
                switch.healing.wait_for(Waiting { slot, life: app_port.life, handled });
            }
        }
    }
    // The queued messages of guards must precede the kernel's, which join no queue, and their change sets must be applied.
    let senders = switch.changes.senders().map(Set::of).fold(Set::EMPTY, Set::with);
    let has_answered = |guard: &Waiting| {
        let app_port = &dispatch.app_ports[guard.slot];
        let is_same = app_port.life == guard.life && app_port.is_attached();
        let is_pending = is_queued || senders.has(guard.slot);
        !is_same || app_port.has_handled(guard.handled) && !is_pending
    };
    if !switch.healing.end(has_answered, now) {
        return;
    }
    table_miss(switch, &mut own);
    for app_port in &mut dispatch.app_ports {
        if app_port.rights.writes_flows() && !matches!(app_port.policy.stage, Stage::Guard(_)) {
            app_port.flows_missing(switch);
        }
    }
}

/// Reports the restorations after which the switch has stayed connected.
fn report(
    switch: &mut Switch,
    app_ports: &[AppPort],
    channels: &WorkerChannels,
    log_limits: &mut LogLimits,
    now: Instant,
) {
    while let Some(restored) = switch.healing.take_report(now) {
        let (flows, Restored { loss, time, .. }) = (restored.flows(), restored);
        if let Some(suppressed) = log_limits.missing.admit(now) {
            let loss = match loss {
                Loss::Reported => FlowLoss::EntryReported,
                Loss::NotListed => FlowLoss::EntryNotListed,
                Loss::Guard(slot) => {
                    let guard = app_ports.get(slot.index()).map(|port| port.name.clone());
                    FlowLoss::OfGuard(guard.unwrap_or_default())
                }
            };
            let dpid = switch.dpid.to_string();
            let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            let missing = MissingFlows { dpid, loss, flows, ms, suppressed };
            channels.notify(WorkerEvent::FlowsMissing(missing));
        }
    }
}
