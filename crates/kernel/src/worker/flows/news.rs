//! Handles the reports of flow monitors ([`watch`](crate::flows::watch)): keeps the image of a switch's flows, and passes losses to
//! the decision about healing that requests lead to as well ([`heal`](super::heal)).

use std::time::Instant;

use control::kernel::OtherSign;
use control::policy::Stage;
use dal::FlowNews;
use openflow::{FlowEntryView, FlowEvent, FlowUpdateView};
use tracing::info;

use super::heal;
use super::other_controllers::installation_of;
use crate::app_port::AppPort;
use crate::connection::{Connection, OwnOutput, Up};
use crate::flows::healing::Loss;
use crate::flows::image::{FlowImage, Judgement, NoRoom};
use crate::flows::requests::Reason;
use crate::flows::watch::WatchState;
use crate::ids::AppSlot;
use crate::memory::Memory;
use crate::rewrite::{KERNEL, owner};
use crate::switch::Switch;
use crate::worker::answers::Replies;
use crate::worker::log_limits::LogLimits;
use crate::worker::own_messages::table_miss;
use control::app::AppId;

/// Requests a monitor of the flows of a switch that has just connected. `ended` is whether its last connection ended before the
/// switch answered such a request: some switches disconnect on a message that they do not know.
pub(in crate::worker) fn begin(
    switch: &mut Switch,
    own: &mut OwnOutput<'_>,
    (memory, ended): (&Memory, bool),
) {
    if ended {
        return switch
            .watch
            .refrain("its last connection ended when it was asked for a flow monitor");
    }
    switch.watch.begin(memory.flows());
    own.monitor_flows();
}

/// Applies the state of the session's flow monitor, and logs a change that an operator should know.
pub(in crate::worker) fn observe(
    connection: &mut Connection,
    log_limits: &mut LogLimits,
    now: Instant,
) {
    let Connection { phase, session, out, .. } = connection;
    let Some(Up { switch, .. }) = phase.up_mut() else { return };
    if switch.watch.take_wants_list() {
        session.monitor_flows(out);
    }
    let before = switch.watch.is_waiting();
    if !switch.watch.observe(session.flow_monitor(), switch.dpid.0, now) {
        return;
    }
    let dpid = switch.dpid;
    let flows = switch.watch.current().map(|image| image.tables().map(|(_, it)| it).sum::<u32>());
    match switch.watch.state() {
        WatchState::Off(why) => {
            if let Some(suppressed) = log_limits.watch.admit(now) {
                info!(%dpid, why, suppressed, "switch does not report changes of its flows, so they are requested");
            }
        }
        WatchState::Current if before => {
            if let Some(suppressed) = log_limits.watch.admit(now) {
                info!(%dpid, flows, suppressed, "switch reports changes of its flows");
            }
        }
        WatchState::Paused => {
            if let Some(suppressed) = log_limits.watch.admit(now) {
                info!(%dpid, suppressed, "switch has paused the reports about its flows");
            }
        }
        WatchState::Current
        | WatchState::OthersOnly
        | WatchState::Waiting
        | WatchState::Unwatched => {}
    }
}

/// Whether a message that deletes flows of this guard may wait in a queue with a pace, longer than such a message counts: a message
/// of the guard itself, or of an app that may change the flows of others.
pub(in crate::worker) fn may_wait_to_delete(
    connection: &Connection,
    app_ports: &[AppPort],
    guard: AppSlot,
) -> bool {
    let may_delete = |slot: AppSlot| {
        slot == guard || app_ports.get(slot.index()).is_some_and(|it| it.rights.writes_any_flow())
    };
    connection.queues().is_some_and(|queues| queues.paced_sizes().any(|(slot, _)| may_delete(slot)))
}

impl Replies<'_> {
    /// Handles a message of a flow monitor.
    pub(in crate::worker) fn flow_news(&mut self, news: FlowNews<'_>) {
        let Connection { phase, .. } = &mut *self.connection;
        let Some(Up { switch, .. }) = phase.up_mut() else { return };
        if news.begins_list {
            switch.requests.count(Reason::Monitor);
            switch.watch.image_mut().into_iter().for_each(FlowImage::begin_list);
        }
        let mut has_lost = false;
        for update in news.updates {
            let FlowUpdateView::Entry(entry) = update else { continue };
            match self.flow_report(&entry) {
                Ok(is_loss) => has_lost |= is_loss,
                Err(NoRoom) => return self.no_room(),
            }
        }
        let Some(switch) = self.connection.switch_mut() else { return };
        if news.ends_list
            && let Some(image) = switch.watch.image_mut()
        {
            for owner in image.end_list() {
                has_lost |= self.lost(owner, true);
            }
        }
        observe(self.connection, self.log_limits, self.now);
        if has_lost {
            let (channels, log_limits) = (self.channels, &mut *self.log_limits);
            heal::advance(self.connection, self.dispatch, channels, log_limits, self.now);
        }
    }

    /// Applies a report about a flow. Returns whether something was lost.
    fn flow_report(&mut self, entry: &FlowEntryView<'_>) -> Result<bool, NoRoom> {
        let Some(switch) = self.connection.switch_mut() else { return Ok(false) };
        let reports_losses = switch.watch.reports_losses();
        let Some(image) = switch.watch.image_mut() else { return Ok(false) };
        let judgement = image.report(entry)?;
        let is_entry = owner(entry.cookie) == KERNEL && entry.priority == 0;
        if is_entry && entry.cookie != switch.entry_cookie && entry.event != FlowEvent::Removed {
            self.other_entry(entry.cookie);
        }
        if !reports_losses {
            return Ok(false);
        }
        Ok(match judgement {
            Judgement::Nothing => false,
            Judgement::Removed(owner) => self.lost(owner, true),
            Judgement::Changed(owner) => self.lost(owner, false),
        })
    }

    /// Notes that a flow of this owner was removed or changed, unless the kernel's own messages can have done that. Returns whether
    /// healing concerns this owner.
    fn lost(&mut self, owner: AppId, is_removed: bool) -> bool {
        let loss = if owner == KERNEL {
            Loss::Reported
        } else {
            let app_ports = &self.dispatch.app_ports;
            let port = app_ports.iter().position(|port| port.app == owner);
            let Some(slot) = port.map(AppSlot::new) else { return false };
            let port = &app_ports[slot.index()];
            let is_guard = matches!(port.policy.stage, Stage::Guard(_)) && port.is_attached();
            if !is_guard || may_wait_to_delete(self.connection, app_ports, slot) {
                return false;
            }
            Loss::Guard(slot)
        };
        let Some(switch) = self.connection.switch_mut() else { return false };
        if is_removed {
            switch.healing.note_loss(loss, self.now);
        } else {
            switch.healing.note_change(loss, self.now);
        }
        true
    }

    /// Writes the kernel's entry again if it has the cookie of another installation, and reports that.
    pub(in crate::worker) fn other_entry(&mut self, cookie: u64) {
        let Some(other) = installation_of(cookie) else { return };
        if self.other_controller(OtherSign::Entry(other)) {
            let (phase, mut own) = self.connection.split();
            let Some(Up { switch, .. }) = phase.up_mut() else { return };
            table_miss(switch, &mut own);
        }
    }

    /// Ends the flow monitor, because the switch has more flows than the kernel keeps.
    fn no_room(&mut self) {
        let Connection { session, out, .. } = &mut *self.connection;
        session.end_monitor("it has more flows than Rosemary keeps", out);
        observe(self.connection, self.log_limits, self.now);
    }
}
