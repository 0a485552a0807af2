//! Sends the kernel's own messages to switches, and again if a switch does not carry them out
//! ([`outcomes`](crate::outcomes)).

use std::time::Instant;

use openflow::{
    Action, ErrorMessage, FlowMod, FlowModFlags, Header, Kind, Match, MultipartRequest, PortNo,
    SwitchConfig, Version,
};
use tracing::{info, warn};

use super::WorkerEvent;
use super::answers::Replies;
use super::channels::WorkerChannels;
use super::log_limits::LogLimits;
use crate::app_port::AppPort;
use crate::check::Expects;
use crate::connection::{Connection, OwnOutput, Up};
use crate::dispatch::Dispatch;
use crate::flows::requests::Reason;
use crate::ids::AppSlot;
use crate::outcomes::{Purpose, Report};
use crate::switch::Switch;
use crate::transactions::{By, TransactionTable};
use control::kernel::FailedMessage;
use control::policy::Stage;

/// Appends the kernel's table-miss entry: the switch sends whole packets that match no flow to the controller (OpenFlow
/// 1.3.5 §5.4). In 1.0 that is a switch's default (OpenFlow 1.0.2 §3.4), but Open vSwitch may continue to drop packets
/// that it dropped without a controller until its flows change. The switch reports the entry's removal
/// ([`heal`](super::flows::heal)). A switch without packet-ins gets none.
pub(super) fn table_miss(switch: &mut Switch, own: &mut OwnOutput<'_>) {
    if switch.no_packets.is_some() {
        return;
    }
    let to_us = [Action::Output { port: PortNo::CONTROLLER, max_len: 0xffff }];
    let miss = FlowMod::add(Match::new()).priority(0).cookie(switch.entry_cookie).apply(&to_us);
    let miss = miss.flags(FlowModFlags::SEND_FLOW_REM);
    let sent = own.send(|xid, out| miss.encode(switch.version, xid, out));
    switch.outcomes.sent(Purpose::TableMiss, sent.expect("every version has this message").xid);
    switch.healing.note_write();
}

/// Asks a switch for whole packets and for its description.
pub(super) fn configure(switch: &mut Switch, own: &mut OwnOutput<'_>) {
    let xid = own.configure();
    switch.outcomes.sent(Purpose::Config, xid);
}

/// Sends a request of the kernel's own, for `by`. A request for flows or tables has a reason. The former request for it has failed if it has no reply yet.
pub(super) fn request(
    connection: &mut Connection,
    (by, reason): (By, Option<Reason>),
    wanted: &MultipartRequest<'_>,
    now: Instant,
) {
    let (phase, mut own) = connection.split();
    let Some(Up { switch, transactions, .. }) = phase.up_mut() else { return };
    let sent = own.send(|xid, out| wanted.encode(switch.version, xid, out));
    let sent = sent.expect("every version has the requests of the kernel");
    let expects = Expects::multipart(sent.message).expect("it is one");
    if let Some(reason) = reason {
        switch.requests.count(reason);
    }
    if transactions.begin_for_kernel(sent.xid, by, expects, now) {
        unanswered(switch, by, now);
    }
}

/// Sends a barrier request for `by`.
pub(super) fn barrier(
    version: Version,
    own: &mut OwnOutput<'_>,
    transactions: &mut TransactionTable,
    by: By,
    now: Instant,
) {
    let sent = own.send(|xid, out| Kind::BarrierRequest.encode_empty(version, xid, out));
    let xid = sent.expect("every version has this message").xid;
    transactions.begin_for_kernel(xid, by, Expects::only(Kind::BarrierReply), now);
}

/// Notes that a switch has not answered a request of the kernel's own.
pub(super) fn unanswered(switch: &mut Switch, by: By, now: Instant) {
    if let Some(purpose) = purpose_of(by) {
        switch.outcomes.fail(purpose, "it did not answer", now);
    }
}

/// The purpose of a request of the kernel's own.
fn purpose_of(by: By) -> Option<Purpose> {
    match by {
        By::Kernel(_) => Some(Purpose::Count),
        By::EntryCheck => Some(Purpose::EntryCheck),
        By::FlowReader => Some(Purpose::Reading),
        By::App(_) | By::Operator(_) | By::Healing | By::OwnWrites | By::Outcomes => None,
    }
}

impl Replies<'_> {
    /// Handles an error about a message of the kernel's own that has no reply. `false` if it is about another message.
    pub(super) fn own_refused(&mut self, xid: u32, error: &ErrorMessage<'_>) -> bool {
        let Some(switch) = self.connection.switch_mut() else { return false };
        let why = refusal(error);
        let Some(purpose) = switch.outcomes.refused(xid, &why, self.now) else { return false };
        switch.counters.errors += 1;
        if let Some(suppressed) = self.log_limits.errors.admit(self.now) {
            let ((message, _), dpid) = (purpose.text(""), switch.dpid);
            warn!(%dpid, message, %error, suppressed, "switch refused a message of the kernel's own");
        }
        true
    }

    /// Handles a request of the kernel's own that the switch has refused or answered with something else. `why` is a phrase
    /// about the switch.
    pub(super) fn own_failed(&mut self, by: By, why: &str) {
        if by == By::FlowReader {
            return self.reading_failed(why); // it may have no groups or meters
        }
        let Some(switch) = self.connection.switch_mut() else { return };
        match purpose_of(by) {
            Some(purpose) => switch.outcomes.fail(purpose, why, self.now),
            None if by == By::Outcomes => {
                let why = format!("its reply to the barrier behind it is missing: {why}");
                switch.outcomes.barrier_failed(&why, self.now);
            }
            None => {} // the end of a restoration is as far away as after no reply
        }
    }

    /// Notes that a switch has refused a flow of a guard, if the error says so.
    pub(super) fn guard_refused(&mut self, slot: AppSlot, error: &ErrorMessage<'_>) {
        let is_guard = matches!(self.dispatch.app_ports[slot].policy.stage, Stage::Guard(_));
        let cause = Header::decode(error.data).ok();
        let is_flow_mod = cause
            .is_some_and(|cause| Kind::from_wire(error.version, cause.kind) == Ok(Kind::FlowMod));
        if let Some(switch) = self.connection.switch_mut()
            && (is_guard && is_flow_mod)
        {
            switch.outcomes.fail(Purpose::Guard(slot), &refusal(error), self.now);
        }
    }

    /// Compares the configuration that a switch reports with the kernel's.
    pub(super) fn configured(&mut self, config: SwitchConfig) {
        let Some(switch) = self.connection.switch_mut() else { return };
        if config != SwitchConfig::WHOLE_PACKETS {
            let SwitchConfig { flags, miss_send_len } = config;
            let why = format!(
                "it reports flags {flags:#x} and miss_send_len {miss_send_len} instead of 0x0 and {}",
                SwitchConfig::WHOLE_PACKETS.miss_send_len
            );
            switch.outcomes.deny(Purpose::Config, &why, self.now);
        }
    }
}

fn refusal(error: &ErrorMessage<'_>) -> String {
    format!("it refused it with {error}")
}

/// Repeats messages that are due, sends a barrier behind messages without a reply, and reports failures.
pub(super) fn advance(
    connection: &mut Connection,
    dispatch: &mut Dispatch,
    channels: &WorkerChannels,
    log_limits: &mut LogLimits,
    now: Instant,
) {
    let is_full = connection.is_full();
    let (phase, mut own) = connection.split();
    let Some(Up { switch, transactions, .. }) = phase.up_mut() else { return };
    if switch.outcomes.is_idle() {
        return;
    }
    let Switch { outcomes, senders, .. } = switch;
    outcomes.tick(|slot| senders.of(slot), now);
    if !is_full {
        for purpose in switch.outcomes.take_due(now) {
            repeat(purpose, switch, &mut own, &mut dispatch.app_ports, now);
        }
        if switch.outcomes.take_barrier(now) {
            barrier(switch.version, &mut own, transactions, By::Outcomes, now);
        }
    }
    for report in switch.outcomes.take_reports(now) {
        publish(report, switch, &dispatch.app_ports, channels, log_limits, now);
    }
}

/// Sends a message again.
fn repeat(
    purpose: Purpose,
    switch: &mut Switch,
    own: &mut OwnOutput<'_>,
    app_ports: &mut [AppPort],
    now: Instant,
) {
    match purpose {
        Purpose::TableMiss => table_miss(switch, own),
        Purpose::Config => configure(switch, own),
        Purpose::Removal => switch.flow_reader.repeat_removal(now),
        Purpose::Guard(slot) => {
            let app_port = &mut app_ports[slot.index()];
            if app_port.is_absent || !matches!(app_port.policy.stage, Stage::Guard(_)) {
                return switch.outcomes.done(purpose);
            }
            app_port.flows_missing(switch);
            let flow_mods = switch.senders.of(slot);
            switch.outcomes.asked_guard(slot, flow_mods, now);
        }
        Purpose::EntryCheck | Purpose::Reading | Purpose::Count => {} // requested by their users
    }
}

/// Logs and reports that a switch does not carry out a message, or does so again.
fn publish(
    report: Report,
    switch: &Switch,
    app_ports: &[AppPort],
    channels: &WorkerChannels,
    log_limits: &mut LogLimits,
    now: Instant,
) {
    let dpid = switch.dpid.to_string();
    let (Report::Fails(purpose, _) | Report::Recovered(purpose)) = report;
    let (message, effect) = purpose.text(&guard_name(purpose, app_ports));
    match report {
        Report::Fails(_, why) => {
            if let Some(suppressed) = log_limits.failing.admit(now) {
                warn!(
                    dpid,
                    message,
                    why,
                    effect,
                    suppressed,
                    "switch does not carry out a message of Rosemary, which is repeated"
                );
                let failed = FailedMessage { dpid, message, why, effect: effect.to_owned() };
                channels.notify(WorkerEvent::MessageFailed(failed));
            }
        }
        Report::Recovered(_) => {
            if let Some(suppressed) = log_limits.failing.admit(now) {
                info!(
                    dpid,
                    message,
                    suppressed,
                    "switch has carried out a message that it had refused or lost"
                );
            }
            channels.notify(WorkerEvent::MessageRecovered { dpid, message });
        }
    }
}

/// Ends the reports about a switch that has disconnected.
pub(super) fn end_reports(switch: &mut Switch, app_ports: &[AppPort], channels: &WorkerChannels) {
    for purpose in switch.outcomes.take_reported() {
        let (message, _) = purpose.text(&guard_name(purpose, app_ports));
        let dpid = switch.dpid.to_string();
        channels.notify(WorkerEvent::MessageRecovered { dpid, message });
    }
}

/// The name of the guard that a purpose is about; empty for another one.
pub(super) fn guard_name(purpose: Purpose, app_ports: &[AppPort]) -> String {
    let Purpose::Guard(slot) = purpose else { return String::new() };
    app_ports.get(slot.index()).map_or_else(String::new, |app_port| app_port.name.clone())
}
