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
use crate::ids::AppSlot;
use crate::outcomes::Purpose;
use crate::plan::Set;
use crate::rewrite::{KERNEL, owner};
use crate::switch::Switch;
use crate::transactions::By;
use crate::worker::WorkerEvent;
use crate::worker::answers::Replies;
use crate::worker::channels::WorkerChannels;
use crate::worker::log_limits::LogLimits;
use crate::worker::own_messages::{barrier, request, table_miss};

impl Replies<'_> {
    /// Handles the loss of the kernel's own entry or of a guard's flow.
    pub(in crate::worker) fn flow_lost(&mut self, loss: Loss) {
        if let Some(switch) = self.connection.switch_mut() {
            switch.healing.note_loss(loss, self.now);
        }
        advance(self.connection, self.dispatch, self.channels, self.log_limits, self.now);
    }

    /// Applies a part of the reply to [`request_entry`].
    pub(in crate::worker) fn entry_part(&mut self, message: &[u8], is_last: bool) {
        let lists_entry = match MultipartReply::decode(message).map(|reply| reply.body) {
            Ok(ReplyBody::Flow(flows)) => {
                self.look_for_other(&flows);
                flows.iter().any(|flow| owner(flow.cookie) == KERNEL && flow.priority == 0)
            }
            _ => false,
        };
        let Some(switch) = self.connection.switch_mut() else { return };
        let listing = switch.healing.check.part(lists_entry, is_last, self.now);
        if is_last {
            switch.outcomes.done(Purpose::EntryCheck);
        }
        match listing {
            Listing::Listed => switch.outcomes.done(Purpose::TableMiss),
            Listing::Gone => self.flow_lost(Loss::NotListed),
            Listing::NeverListed => {
                let why = "it does not list it, although it has not refused it";
                switch.outcomes.deny(Purpose::TableMiss, why, self.now);
            }
            Listing::Unknown => {}
        }
    }
}

/// Requests the kernel's entry from the switch, if a check is due: the flows that output to the controller, and in
/// OpenFlow 1.3 of these only the kernel's.
pub(in crate::worker) fn request_entry(connection: &mut Connection, now: Instant) {
    let Some(switch) = connection.switch_mut() else { return };
    let version = switch.version;
    if !switch.healing.check.is_due(switch.dpid.0, now) || connection.is_full() {
        return;
    }
    let all = FlowStatsRequest::new(Match::new());
    let mut wanted = FlowStatsRequest { out_port: PortNo::CONTROLLER, ..all };
    if version.features().cookie_masks {
        (wanted.cookie, wanted.cookie_mask) = (u64::from(KERNEL.0) << APP_SHIFT, !OWN_BITS);
    }
    request(connection, By::EntryCheck, &MultipartRequest::Flow(wanted), now);
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
