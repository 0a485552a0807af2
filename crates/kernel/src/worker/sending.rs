//! Admits messages of apps, and appends them to the output of their switches.
//!
//! [`Sending::admit`] decides for every message, wherever it comes from: the ring of a zone, an app in this process, or
//! another worker. It alone knows the order of refusals. The content of the message was checked when it was copied out of the
//! ring (`app_port::messages`).
//!
//! Apps answer a batch of one switch's records at a time, so messages come in runs for one switch. The switch is looked up
//! once per run, and the admitted messages of a run that lie side by side are appended together.

use std::ops::Range;
use std::time::Instant;

use control::flight::{EventKind, FlightSlot, Noted};
use control::policy::Stage;
use dal::Session;
use sdk::Refusal;

use super::Worker;
use super::flows::table_usage::count_flows;
use super::own_messages::table_miss;
use super::roster::RosterEntry;
use crate::app_port::{Alike, AppPort, Messages, Metered};
use crate::check::{Allowed, Checked, Sweep, allow};
use crate::connection::{Connection, OwnOutput, Up};
use crate::ids::{AppSlot, ConnId};
use crate::pool::Head;
use crate::rewrite;
use crate::switch::Switch;
use crate::transactions::{Run, Sender, TransactionTable};

/// A message that was refused, its place in the bytes of the portion, and why.
#[derive(Debug, Clone)]
pub(super) struct Refused {
    range: Range<usize>,
    why: Refusal,
}

impl Worker {
    /// Sends the messages of an app to their switches; the app receives a refusal for each that must not be sent.
    pub(super) fn send_all(&mut self, slot: AppSlot, messages: &mut Messages, now: Instant) {
        let (messages, bytes) = messages.parts();
        let is_same = |a: &Alike, b: &Alike| a.dpid == b.dpid && a.epoch == b.epoch;
        for run in messages.chunk_by(is_same) {
            self.send_run(slot, run, bytes, now);
        }
    }

    /// Sends messages of an app for one connection of one switch.
    pub(super) fn send_run(
        &mut self,
        slot: AppSlot,
        run: &[Alike],
        bytes: &mut [u8],
        now: Instant,
    ) {
        let [Alike { dpid, epoch, .. }, ..] = *run else { return };
        let mut refused = std::mem::take(&mut self.calls.refused);
        match self.switches.roster.find(dpid) {
            Some(RosterEntry { key, epoch: current }) if current == epoch => {
                self.admit_run((slot, key), run, (bytes, &mut refused), now);
            }
            Some(_) => {
                let all = run.iter().flat_map(Alike::ranges);
                refused.extend(all.map(|range| Refused { range, why: Refusal::Epoch }));
            }
            None => {
                let head =
                    Head { app: self.dispatch.app_ports[slot].app, dpid, epoch, is_set: false };
                for alike in run {
                    for range in alike.ranges() {
                        let message = &bytes[range.clone()];
                        let forwarded = alike
                            .checked
                            .and_then(|_| self.forwarder.forward(&self.channels, head, message));
                        refused.extend(forwarded.err().map(|why| Refused { range, why }));
                    }
                }
            }
        }
        for Refused { range, why } in refused.drain(..) {
            self.refuse(slot, dpid, epoch, why, &bytes[range], now);
        }
        self.calls.refused = refused;
    }

    /// Appends those messages of a run that are admitted to the output of the connection with this key.
    fn admit_run(
        &mut self,
        (slot, key): (AppSlot, ConnId),
        run: &[Alike],
        (bytes, refused): (&mut [u8], &mut Vec<Refused>),
        now: Instant,
    ) {
        let connection = &mut self.switches[key];
        let app_port = &self.dispatch.app_ports[slot];
        let (pace, turn) = (app_port.policy.pace, app_port.output_turn);
        let app_run = connection.begin_run(slot, (pace, turn), now);
        if !app_run.is_queued() {
            self.output.spare.lend(&mut connection.out);
        }
        let app_port = &mut self.dispatch.app_ports[slot];
        let to = (&mut *app_port, slot, app_run.limit);
        let recorder = self.calls.flight_slot.as_mut();
        let Some(mut sending) = Sending::new(connection, to, (bytes, refused), recorder, now)
        else {
            return;
        };
        for alike in run {
            sending.admit(alike);
        }
        let wanted_flows = sending.finish();
        if wanted_flows > 0 {
            let counted = (app_port.policy.flows, wanted_flows);
            count_flows(connection, (slot, app_port.app), counted, now);
        }
        if connection.end_run(&app_run) {
            self.output.note(key, connection);
        }
        self.output.spare.take_back(&mut connection.out); // if nothing was appended
    }
}

/// Messages of one app that are being sent to one switch.
struct Sending<'r> {
    switch: &'r mut Switch,
    session: &'r mut (dyn Session + 'static),
    transactions: &'r mut TransactionTable,
    out: &'r mut Vec<u8>,
    app_port: &'r mut AppPort,
    slot: AppSlot,
    /// Bytes of output above which the next message is refused.
    limit: usize,
    /// Whether the app may add a flow to this switch, and otherwise why not: by its quota of flows there, and while guards
    /// restore theirs.
    may_add: Result<(), Refusal>,
    now: Instant,
    /// The messages.
    bytes: &'r mut [u8],
    /// Those that are admitted and not appended to `out` yet; they lie side by side.
    pending: Range<usize>,
    refused: &'r mut Vec<Refused>,
    /// Notes the messages that are admitted.
    recorder: Option<&'r mut FlightSlot>,
    counts: RunCounts,
}

/// Decides whether an app may add flows to a switch: by its quota of flows there, and while guards restore theirs.
pub(super) fn may_add(switch: &Switch, app_port: &AppPort, slot: AppSlot) -> Result<(), Refusal> {
    let most = app_port.policy.flows;
    let has_flows = most == u32::MAX
        || match switch.watch.current() {
            Some(image) => image.count_of(app_port.app) < most,
            None => switch.occupancy.has_room(slot, most),
        };
    let is_held_back = switch.healing.holds_back(&app_port.policy);
    allow(!is_held_back, Refusal::Healing).and(allow(has_flows, Refusal::Flows))
}

/// Handles the effect of an app's messages on the flows of others: whether they delete flows, and what they do to the table-miss
/// entry.
#[inline]
pub(super) fn take_effect(
    (deletes, sweeps): (bool, Option<Sweep>),
    app_port: &AppPort,
    switch: &mut Switch,
    own: &mut OwnOutput<'_>,
    now: Instant,
) {
    let is_guard = matches!(app_port.policy.stage, Stage::Guard(_));
    if deletes && (sweeps.is_some() || is_guard) {
        switch.healing.note_delete(now);
    }
    if sweeps.is_some() || is_guard {
        switch.healing.note_write();
    }
    if let Some(sweep) = sweeps {
        table_miss(switch, own);
        // Where others have flows, they lose them too and must put them back.
        if sweep == Sweep::Certain && app_port.rights.is_alone() {
            switch.healing.expect_removal(now);
        }
    }
}

/// Counts the messages of a run for the switch's counters.
#[derive(Debug, Default)]
struct RunCounts {
    flow_mods: u64,
    packet_outs: u64,
    /// Flow-mods that add flows to `table`.
    adds: u32,
    table: u8,
    /// Flow-mods that add flows to any table, with those that the quota of flows refused.
    wanted: u32,
}

impl<'r> Sending<'r> {
    /// `None` if the connection is not a switch.
    fn new(
        connection: &'r mut Connection,
        (app_port, slot, limit): (&'r mut AppPort, AppSlot, usize),
        (bytes, refused): (&'r mut [u8], &'r mut Vec<Refused>),
        recorder: Option<&'r mut FlightSlot>,
        now: Instant,
    ) -> Option<Self> {
        app_port.quota.refresh(now);
        let Connection { phase, session, out, .. } = connection;
        let Up { switch, transactions, .. } = phase.up_mut()?;
        let may_add = may_add(switch, app_port, slot);
        Some(Self {
            switch,
            session: &mut **session,
            transactions,
            out,
            app_port,
            slot,
            limit,
            may_add,
            now,
            bytes,
            pending: 0..0,
            refused,
            recorder,
            counts: RunCounts::default(),
        })
    }

    /// Admits messages, or refuses them. Those that are alike are decided about together; if not all of them can be sent,
    /// each is decided about alone.
    #[inline]
    fn admit(&mut self, alike: &Alike) {
        match self.decide(alike) {
            Ok(checked) => self.take(alike, &checked),
            Err(why) if alike.count == 1 => self.refuse(alike, why),
            Err(_) => alike.each().for_each(|one| self.admit(&one)),
        }
    }

    /// Decides in the order of refusals: first the content of the messages, then the state of the switch, then the app's
    /// quotas. Buffers come last, in [`take`](Self::take): no other difference between messages that are alike counts.
    #[inline]
    fn decide(&mut self, alike: &Alike) -> Result<Checked, Refusal> {
        let checked = alike.checked?;
        allow(checked.version == self.switch.version, Refusal::Shape)?;
        let before_last = self.pending.len() + (alike.count as usize - 1) * alike.size;
        allow(self.out.len() + before_last <= self.limit, Refusal::Full)?;
        let adds = matches!(checked.allowed, Allowed::FlowMod { adds_to: Some(_), .. });
        if adds {
            self.may_add?;
        }
        let is_request = matches!(checked.allowed, Allowed::Request(_));
        let has_room = !is_request || self.transactions.has_room(self.sender(alike));
        allow(has_room, Refusal::Unanswered)?;
        let (kind, quota) = (Metered::from(checked.allowed), self.app_port.policy.quota);
        allow(self.app_port.quota.allows(kind, alike.count, quota), Refusal::Quota)?;
        Ok(checked)
    }

    /// Makes messages about which was decided ready for the output, but refuses those whose buffer the app may not use.
    #[inline]
    fn take(&mut self, alike: &Alike, checked: &Checked) {
        let ids = self.take_ids(alike);
        let refused_before = self.refused.len();
        for (range, number) in alike.ranges().zip(0..) {
            let message = &mut self.bytes[range.clone()];
            if let Some(buffer) = checked.buffer_id(message) {
                let Some(usable) = self.switch.buffer_table.usable(buffer, self.slot) else {
                    self.refused.push(Refused { range, why: Refusal::Buffer });
                    continue;
                };
                if checked.uses_buffer() {
                    self.switch.buffer_table.use_up(usable);
                }
            }
            checked.mark(self.app_port.app, message);
            rewrite::set_xid(message, ids.xid.wrapping_add(number));
            if range.start != self.pending.end {
                self.append_pending();
                self.pending = range.start..range.start;
            }
            self.pending.end = range.end;
        }
        let refused = u32::try_from(self.refused.len() - refused_before).unwrap_or(alike.count);
        if refused == alike.count {
            return self.transactions.skipped(ids);
        }
        self.transactions.sent(ids);
        self.note(alike, alike.count - refused);
        if let Allowed::Request(expects) = checked.allowed {
            self.transactions.begin(ids.xid, ids.sender, expects, self.now);
        }
        self.count(checked.allowed, alike.count - refused);
        let admitted = alike.count - refused;
        self.app_port.counts.sent(admitted, admitted as usize * alike.size);
        let (deletes, sweeps) = checked.allowed.removals();
        let writes = matches!(checked.allowed, Allowed::FlowMod { .. });
        let is_guard = || matches!(self.app_port.policy.stage, Stage::Guard(_));
        if deletes || sweeps.is_some() || writes && is_guard() {
            if sweeps.is_some() {
                self.append_pending();
            }
            let own = &mut OwnOutput::new(self.session, self.out);
            take_effect((deletes, sweeps), self.app_port, self.switch, own, self.now);
        }
    }

    /// Notes the `admitted` messages among these in the flight recorder.
    #[inline]
    fn note(&mut self, alike: &Alike, admitted: u32) {
        if let (Some(recorder), Some(first)) = (&mut self.recorder, alike.ranges().next()) {
            let count = u16::try_from(admitted).unwrap_or(u16::MAX);
            let (dpid, app) = (self.switch.dpid.0, self.app_port.app.0);
            let messages = self.bytes.get(first).unwrap_or_default();
            recorder.note_event(EventKind::Sent, &Noted { messages, count, dpid, app });
        }
    }

    fn refuse(&mut self, message: &Alike, why: Refusal) {
        let ids = self.take_ids(message);
        self.transactions.skipped(ids);
        self.counts.wanted += u32::from(why == Refusal::Flows);
        self.refused.extend(message.ranges().map(|range| Refused { range, why }));
    }

    /// Gives messages their transaction ids in the connection, which are the kernel's: two apps may choose the same. A
    /// refused message takes one too, so that an app's ids and the kernel's go on counting up together
    /// (`transactions::recent`).
    #[inline]
    fn take_ids(&mut self, alike: &Alike) -> Run {
        let (count, sender) = (alike.count, self.sender(alike));
        Run { xid: self.session.xids(count), count, sender }
    }

    /// The sender of messages, with the transaction id of the first.
    #[inline]
    fn sender(&self, alike: &Alike) -> Sender {
        Sender { app: self.slot, life: self.app_port.life, xid: alike.xid }
    }

    #[inline]
    fn count(&mut self, allowed: Allowed, messages: u32) {
        let kind = Metered::from(allowed);
        self.app_port.quota.count(kind, messages);
        match kind {
            Metered::FlowMods => self.counts.flow_mods += u64::from(messages),
            Metered::PacketOuts => self.counts.packet_outs += u64::from(messages),
            Metered::Requests => {}
        }
        if let Allowed::FlowMod { adds_to: Some(table), .. } = allowed {
            if table != self.counts.table {
                self.flush_adds();
                self.counts.table = table;
            }
            self.counts.adds += messages;
            self.counts.wanted += messages;
        }
    }

    /// Adds the flows that were added to one table to the switch's estimate.
    fn flush_adds(&mut self) {
        let adds = std::mem::take(&mut self.counts.adds);
        if adds > 0 {
            self.switch.added(self.slot, (self.counts.table, adds));
        }
    }

    #[inline]
    fn append_pending(&mut self) {
        let pending = std::mem::replace(&mut self.pending, 0..0);
        self.out.extend_from_slice(&self.bytes[pending]);
    }

    /// Appends what is pending, and adds the messages of the run to the switch's counters. Returns how many flows the app
    /// has added, or was refused.
    fn finish(mut self) -> u32 {
        self.append_pending();
        self.flush_adds();
        self.switch.counters.flow_mods += self.counts.flow_mods;
        self.switch.senders.add(self.slot, self.counts.flow_mods);
        self.switch.counters.packet_outs += self.counts.packet_outs;
        self.counts.wanted
    }
}
