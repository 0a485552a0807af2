//! Admits the change sets of apps, and passes messages and time to the state machine of each switch ([`crate::changes`]).
//!
//! A set is admitted as a whole: each of its messages passes the checks of single messages, and the first refusal refuses
//! all.

use std::ops::Range;
use std::time::Instant;

use control::flight::{EventKind, Noted};
use control::policy::Stage;
use openflow::{Dpid, ErrorMessage, Version};
use sdk::changes::divide;
use sdk::{Applied, CommitId, Committed, Guarantee, NotApplied, Refusal};
use tracing::warn;

use super::Worker;
use super::answers::{Replies, living};
use super::flows::table_usage::count_flows;
use super::roster::RosterEntry;
use super::sending::{may_add, take_effect};
use crate::app_port::{AppPort, Metered};
use crate::changes::{ChangeSet, Finished, Outcome, Output};
use crate::check::{Allowed, Checked, allow};
use crate::connection::{Connection, OwnOutput, Up};
use crate::ids::{AppSlot, ConnId};
use crate::outcomes::Purpose;
use crate::pool::Head;
use crate::switch::Switch;
use crate::transactions::Sender;

/// Most seconds for which the pace of an app may delay one set of it: meanwhile no other app changes the switch by a set.
const MOST_PACED_S: u32 = 10;

/// A change set in the kernel's private memory.
struct Set<'m> {
    commit: CommitId,
    bytes: &'m mut [u8],
    /// The places of its messages.
    messages: Vec<Range<usize>>,
}

/// The index of the refused change of a set, and why it was refused.
type Refused = (usize, Refusal);

impl Worker {
    /// Admits a change set of an app, or reports to the app why not.
    pub(super) fn send_change_set(
        &mut self,
        slot: AppSlot,
        to: (u64, u32),
        bytes: &mut [u8],
        now: Instant,
    ) {
        let (dpid, epoch) = to;
        let Some((commit, messages)) = divide(bytes) else {
            return self.refuse(slot, dpid, epoch, Refusal::Shape, bytes, now);
        };
        let mut set = Set { commit, bytes, messages };
        let admitted = match self.switches.roster.find(dpid) {
            Some(RosterEntry { key, epoch: current }) if current == epoch => {
                self.admit_set((slot, key), &mut set, now)
            }
            Some(_) => Err((0, Refusal::Epoch)),
            None => {
                let app = self.dispatch.app_ports[slot].app;
                let head = Head { app, dpid, epoch, is_set: true };
                let forwarded = self.forwarder.forward(&self.channels, head, set.bytes);
                forwarded.map_err(|why| (0, why))
            }
        };
        if let Err(refused) = admitted {
            self.refuse_set(slot, to, &set, refused, now);
        }
    }

    /// Reports a refused set to its app.
    fn refuse_set(
        &mut self,
        slot: AppSlot,
        to: (u64, u32),
        set: &Set<'_>,
        (index, why): Refused,
        now: Instant,
    ) {
        let Some(message) = set.messages.get(index).map(|range| &set.bytes[range.clone()]) else {
            return;
        };
        let Ok(version) = Version::from_wire(message[0]) else {
            return self.refuse(slot, to.0, to.1, why, message, now); // no record could name its switch
        };
        let remedy = self.note_refusal(slot, to, why, message, now);
        let switch = sdk::Switch { dpid: Dpid(to.0), epoch: to.1, version };
        let refused = NotApplied::Refused { index, why: Some(why), remedy: remedy.as_deref() };
        let committed = Committed { switch, commit: set.commit, outcome: Err(refused) };
        self.dispatch.app_ports[slot].committed(&committed, &[]);
    }

    /// Admits a set for a switch of this worker.
    fn admit_set(
        &mut self,
        (slot, key): (AppSlot, ConnId),
        set: &mut Set<'_>,
        now: Instant,
    ) -> Result<(), Refused> {
        let connection = &mut self.switches[key];
        let app_port = &mut self.dispatch.app_ports[slot];
        let pace = app_port.policy.pace;
        let run = connection.begin_run(slot, (pace, app_port.output_turn), now);
        let is_full = connection.out.len() > run.limit;
        connection.end_run(&run);
        let Some(switch) = connection.switch_mut() else { return Err((0, Refusal::NoSwitch)) };
        let checked = check_set(app_port, slot, switch, set);
        if matches!(checked, Err((_, Refusal::Flows))) {
            count_flows(connection, (slot, app_port.app), (app_port.policy.flows, 1), now);
        }
        let checked = checked?;
        let Some(switch) = connection.switch_mut() else { return Err((0, Refusal::NoSwitch)) };
        let count = u32::try_from(checked.len()).unwrap_or(u32::MAX);
        let is_slow = pace.is_some_and(|pace| count > pace.saturating_mul(MOST_PACED_S));
        let has_room = !is_full && !is_slow && switch.changes.has_room(slot, set.bytes.len());
        allow(has_room, Refusal::Full).map_err(|why| (0, why))?;
        app_port.quota.refresh(now);
        let is_within = app_port.quota.allows_all(Metered::FlowMods, count, app_port.policy.quota);
        allow(is_within, Refusal::Quota).map_err(|why| (0, why))?;
        for (range, checked) in set.messages.iter().zip(&checked) {
            checked.mark(app_port.app, &mut set.bytes[range.clone()]);
            if let Allowed::FlowMod { adds_to: Some(table), .. } = checked.allowed {
                switch.added(slot, (table, 1));
            }
        }
        app_port.quota.count(Metered::FlowMods, count);
        app_port.counts.sent(count, set.messages.iter().map(ExactSizeIterator::len).sum());
        switch.counters.flow_mods += u64::from(count);
        switch.senders.add(slot, u64::from(count));
        let first = set.messages.first().map(|range| &set.bytes[range.clone()]);
        if let (Some(recorder), Some(messages)) = (&mut self.calls.flight_slot, first) {
            let count = u16::try_from(count).unwrap_or(u16::MAX);
            let (dpid, app) = (switch.dpid.0, app_port.app.0);
            recorder.note_event(EventKind::Sent, &Noted { messages, count, dpid, app });
        }
        let sender = Sender { app: slot, life: app_port.life, xid: set.commit.0 };
        let messages = set.messages.iter().cloned().zip(checked.iter().map(|it| it.allowed));
        let admitted = ChangeSet::new(sender, pace, switch.version, set.bytes, messages)
            .ok_or((0, Refusal::Kind))?; // `check_set` has refused other kinds
        switch.changes.push(admitted);
        self.advance_changes(key, now);
        Ok(())
    }

    /// Continues with the change sets for a switch, and reports the finished ones.
    pub(super) fn advance_changes(&mut self, key: ConnId, now: Instant) {
        loop {
            let Some(connection) = self.switches.get_mut(key) else { return };
            let Some(switch) = connection.switch_mut() else { return };
            let Some((slot, pace)) = switch.changes.next() else { return };
            let turn = self.dispatch.app_ports[slot].output_turn;
            let run = connection.begin_run(slot, (pace, turn), now);
            if !run.is_queued() {
                self.output.spare.lend(&mut connection.out);
            }
            let app_port = &mut self.dispatch.app_ports[slot];
            let Connection { phase, session, out, .. } = &mut *connection;
            let Some(Up { switch, .. }) = phase.up_mut() else { return };
            let xids = |count| session.xids(count);
            let mut output = Output { version: switch.version, xids, out };
            let (effects, finished) = switch.changes.advance(&mut output, now);
            let own = &mut OwnOutput::new(&mut **session, out);
            take_effect((effects.deletes, effects.sweeps), app_port, switch, own, now);
            if connection.end_run(&run) {
                self.output.note(key, connection);
            }
            self.output.spare.take_back(&mut connection.out); // if nothing was appended
            if let Some(finished) = finished {
                self.report_set(key, &finished, now);
            }
        }
    }

    /// Reports the outcome of a set to its app, if the instance that sent it still runs.
    fn report_set(&mut self, key: ConnId, finished: &Finished, now: Instant) {
        let Finished { sender, adds, outcome } = finished;
        let (app, most) = {
            let app_port = &self.dispatch.app_ports[sender.app];
            (app_port.app, app_port.policy.flows)
        };
        if let (Some(connection), true) = (self.switches.get_mut(key), *adds > 0) {
            count_flows(connection, (sender.app, app), (most, *adds), now);
        }
        let Some(switch) = self.switches.switch_mut(key) else { return };
        let (dpid, epoch, version) = (switch.dpid, switch.epoch, switch.version);
        let app = self.dispatch.app_ports[sender.app].name.clone();
        let is_guard = matches!(self.dispatch.app_ports[sender.app].policy.stage, Stage::Guard(_));
        let decoded = match outcome {
            Outcome::Failed { error, .. } => ErrorMessage::decode(error).ok(),
            _ => None,
        };
        if let Some(why) = problem(outcome, decoded.as_ref()) {
            if is_guard {
                switch.outcomes.fail(Purpose::Guard(sender.app), &why, now);
            }
            if let Some(suppressed) = self.log_limits.errors.admit(now) {
                warn!(%dpid, app, why, suppressed, "switch did not apply a change set of an app");
            }
        }
        let (body, outcome) = match outcome {
            Outcome::Atomic { outside } => (&[][..], Ok((Guarantee::Atomic, *outside))),
            Outcome::Ordered => (&[][..], Ok((Guarantee::Ordered, 0))),
            Outcome::Failed { index, error, is_partial } => {
                let Some(decoded) = decoded else { return };
                let (index, is_partial) = (*index, *is_partial);
                (&error[..], Err(NotApplied::Failed { index, error: decoded, is_partial }))
            }
            Outcome::Unanswered { is_partial } => {
                (&[][..], Err(NotApplied::Unanswered { is_partial: *is_partial }))
            }
        };
        let outcome = outcome.map(|(guarantee, outside)| Applied { guarantee, outside });
        let switch = sdk::Switch { dpid, epoch, version };
        let committed = Committed { switch, commit: CommitId(sender.xid), outcome };
        if let Some(app_port) = living(&mut self.dispatch.app_ports, *sender) {
            app_port.committed(&committed, body);
        }
    }

    /// Ends the waiting for switches that do not answer.
    pub(super) fn expire_changes(&mut self, now: Instant) {
        let mut due = Vec::new();
        for (id, connection) in self.switches.iter_mut() {
            let app = connection.switch_mut().and_then(|switch| switch.changes.waits());
            let is_unsent = app.is_some_and(|app| connection.has_unsent_of(app));
            let Some(switch) = connection.switch_mut() else { continue };
            if is_unsent {
                switch.changes.postpone(now);
            }
            switch.changes.expire(now);
            if switch.changes.next().is_some() {
                due.push(id);
            }
        }
        for id in due {
            self.advance_changes(id, now);
        }
    }
}

impl Replies<'_> {
    /// Handles an error about a message of a change set. `false` if it is about another message.
    pub(super) fn change_refused(&mut self, xid: u32, error: &ErrorMessage<'_>) -> bool {
        let Some(switch) = self.connection.switch_mut() else { return false };
        let is_ours = !switch.changes.is_idle() && switch.changes.error(xid, error);
        switch.counters.errors += u64::from(is_ours && !switch.changes.shows_bundle_limit());
        is_ours
    }
}

/// Checks each message of a set as a single one.
fn check_set(
    app_port: &AppPort,
    slot: AppSlot,
    switch: &Switch,
    set: &Set<'_>,
) -> Result<Vec<Checked>, Refused> {
    let rights = app_port.rights.at(switch.dpid.0);
    let may_add = may_add(switch, app_port, slot);
    let check = |range: &Range<usize>| {
        let message = &set.bytes[range.clone()];
        let checked = rights.check_message(message)?;
        allow(checked.version == switch.version, Refusal::Shape)?;
        match checked.allowed {
            Allowed::FlowMod { adds_to: Some(_), .. } => may_add?,
            Allowed::FlowMod { .. } | Allowed::GroupMod { .. } | Allowed::MeterMod { .. } => {}
            Allowed::Config | Allowed::PacketOut | Allowed::Request(_) | Allowed::Experimenter => {
                return Err(Refusal::Kind);
            }
        }
        // The flow is added later, when the buffer may be another packet's.
        allow(checked.buffer_id(message).is_none(), Refusal::Buffer)?;
        Ok(checked)
    };
    let numbered = set.messages.iter().enumerate();
    numbered.map(|(index, range)| check(range).map_err(|why| (index, why))).collect()
}

/// Says what went wrong with a set; `None` if the switch has applied it.
fn problem(outcome: &Outcome, error: Option<&ErrorMessage<'_>>) -> Option<String> {
    match outcome {
        Outcome::Atomic { .. } | Outcome::Ordered => None,
        Outcome::Unanswered { .. } => Some("it did not answer".to_owned()),
        Outcome::Failed { index, .. } => {
            let error = error.map_or_else(|| "an error".to_owned(), ToString::to_string);
            Some(match index {
                Some(index) => format!("it refused change {index} with {error}"),
                None => format!("it refused the set with {error}"),
            })
        }
    }
}
