//! Admits messages of apps, and appends them to the output of their switches.
//!
//! [`Sending::admit`] decides for every message, wherever it comes from: the ring of a zone, an app in this process, or
//! another worker. It alone knows the order of refusals. The content of the message was checked when it was copied out of the
//! ring (`app_port::messages`).
//!
//! Apps answer a batch of one switch's records at a time, so messages come in runs for one switch. The switch is looked up
//! once per run, and the admitted messages of a run that lie side by side are appended together.

use std::time::Instant;

use dal::AnySession;
use sdk::Refusal;

use super::Worker;
use super::inbound::table_miss;
use super::roster::Entry;
use super::table_usage::count_flows;
use crate::app_port::{AppPort, Message, Messages, Metered};
use crate::buffer_table::Usable;
use crate::check::{Allowed, Checked};
use crate::connection::{Connection, Up};
use crate::ids::{AppSlot, ConnId};
use crate::occupancy;
use crate::pool::Head;
use crate::rewrite;
use crate::switch::Switch;
use crate::transactions::{Sender, TransactionTable};

/// A message that was refused, and why.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refused {
    message: Message,
    why: Refusal,
}

impl Worker {
    /// Sends the messages of an app to their switches; the app receives a refusal for each that must not be sent.
    pub(super) fn send_all(&mut self, slot: AppSlot, messages: &mut Messages, now: Instant) {
        let (messages, bytes) = messages.parts();
        let is_same = |a: &Message, b: &Message| a.dpid == b.dpid && a.epoch == b.epoch;
        for run in messages.chunk_by(is_same) {
            self.send_run(slot, run, bytes, now);
        }
    }

    /// Sends messages of an app for one connection of one switch.
    pub(super) fn send_run(
        &mut self,
        slot: AppSlot,
        run: &[Message],
        bytes: &mut [u8],
        now: Instant,
    ) {
        let [Message { dpid, epoch, .. }, ..] = *run else { return };
        let mut refused = std::mem::take(&mut self.calls.refused);
        match self.switches.roster.find(dpid) {
            Some(Entry { key, epoch: current }) if current == epoch => {
                self.admit_run((slot, key), run, bytes, &mut refused, now);
            }
            Some(_) => {
                let why = Refusal::Epoch;
                refused.extend(run.iter().map(|message| Refused { message: *message, why }));
            }
            None => {
                let head = Head { app: self.dispatch.app_ports[slot].app, dpid, epoch };
                for message in run {
                    let forwarded = message.checked.and_then(|_| {
                        let bytes = &bytes[message.start..message.end];
                        self.forwarder.forward(&self.channels, head, bytes)
                    });
                    refused.extend(forwarded.err().map(|why| Refused { message: *message, why }));
                }
            }
        }
        for Refused { message, why } in refused.drain(..) {
            self.refuse(slot, dpid, epoch, why, &bytes[message.start..message.end], now);
        }
        self.calls.refused = refused;
    }

    /// Appends those messages of a run that are admitted to the output of the connection with this key.
    fn admit_run(
        &mut self,
        (slot, key): (AppSlot, ConnId),
        run: &[Message],
        bytes: &mut [u8],
        refused: &mut Vec<Refused>,
        now: Instant,
    ) {
        let connection = &mut self.switches[key];
        let app_run = connection.begin_run(slot);
        if !app_run.is_queued() {
            self.output.spare.lend(&mut connection.out);
        }
        let app_port = &mut self.dispatch.app_ports[slot];
        let to = (&mut *app_port, slot);
        let Some(mut sending) = Sending::new(connection, to, app_run.limit, now) else { return };
        // Admitted and not appended yet.
        let mut pending = 0..0;
        for message in run {
            if message.start != pending.end {
                sending.append(&bytes[pending]);
                pending = message.start..message.start;
            }
            match sending.admit(message, &mut bytes[message.start..message.end], pending.len()) {
                Ok(changes_table_miss) => {
                    pending.end = message.end;
                    if changes_table_miss {
                        sending.append(&bytes[pending]);
                        pending = message.end..message.end;
                        sending.append_table_miss();
                    }
                }
                Err(why) => refused.push(Refused { message: *message, why }),
            }
        }
        sending.append(&bytes[pending]);
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
    session: &'r mut AnySession,
    transactions: &'r mut TransactionTable,
    out: &'r mut Vec<u8>,
    app_port: &'r mut AppPort,
    slot: AppSlot,
    /// The app's present instance; the transaction id is that of each message.
    sender: Sender,
    /// Bytes of output above which the next message is refused.
    limit: usize,
    /// Whether the app's quota of flows in this switch allows one more.
    has_flows: bool,
    now: Instant,
    counts: RunCounts,
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

/// The result of [`Sending::decide`] for a message that may be sent.
struct Decided {
    checked: Checked,
    buffer: Option<Usable>,
    /// The table to which it adds flows.
    adds_to: Option<u8>,
}

impl<'r> Sending<'r> {
    /// `None` if the connection is not a switch.
    fn new(
        connection: &'r mut Connection,
        (app_port, slot): (&'r mut AppPort, AppSlot),
        limit: usize,
        now: Instant,
    ) -> Option<Self> {
        app_port.quota.refresh(now);
        let Connection { phase, session, out, .. } = connection;
        let Up { switch, transactions, .. } = phase.up_mut()?;
        let most = app_port.policy.flows;
        let has_flows = most == u32::MAX || switch.occupancy.has_room(slot, most);
        let sender = Sender { app: slot, life: app_port.life, xid: 0 };
        let counts = RunCounts::default();
        Some(Self {
            switch,
            session,
            transactions,
            out,
            app_port,
            slot,
            sender,
            limit,
            has_flows,
            now,
            counts,
        })
    }

    /// Decides whether a message may be sent behind `pending` bytes that are not appended to the output yet, and makes
    /// it ready for that. Returns whether it may change the table-miss entry.
    #[inline]
    fn admit(
        &mut self,
        message: &Message,
        bytes: &mut [u8],
        pending: usize,
    ) -> Result<bool, Refusal> {
        // Transaction ids are the kernel's: two apps may choose the same. A refused message takes one too, so that an
        // app's ids and the kernel's go on counting up together (`transactions::recent`).
        let xid = self.session.xid();
        let sender = Sender { xid: rewrite::xid(bytes), ..self.sender };
        let decided = match self.decide(message, bytes, pending) {
            Ok(decided) => decided,
            Err(why) => {
                self.counts.wanted += u32::from(why == Refusal::Flows);
                self.transactions.skipped(xid, sender);
                return Err(why);
            }
        };
        let Decided { checked, buffer, adds_to } = decided;
        if let Some(buffer) = buffer {
            // The buffer of a delete has no meaning for the switch.
            let is_delete = matches!(checked.allowed, Allowed::FlowMod { .. })
                && occupancy::deletes(self.switch.version, bytes);
            if !is_delete {
                self.switch.buffer_table.use_up(buffer);
            }
        }
        checked.mark(self.app_port.app, bytes);
        rewrite::set_xid(bytes, xid);
        self.transactions.sent(xid, sender);
        if let Allowed::Request(expects) = checked.allowed {
            self.transactions.begin(xid, sender, expects, self.now);
        }
        self.count(checked.allowed, adds_to);
        Ok(checked.allowed == Allowed::FlowMod { sweeps: true })
    }

    /// Decides in the order of refusals: first the content of the message, then the state of the switch, then the app's
    /// quotas.
    #[inline]
    fn decide(
        &mut self,
        message: &Message,
        bytes: &[u8],
        pending: usize,
    ) -> Result<Decided, Refusal> {
        let Self { switch, app_port, .. } = self;
        refuse_unless(bytes.first() == Some(&switch.version.wire()), Refusal::Shape)?;
        let checked = message.checked?;
        let buffer = match checked.buffer_id {
            Some(id) => Some(switch.buffer_table.usable(id, self.slot).ok_or(Refusal::Buffer)?),
            None => None,
        };
        refuse_unless(self.out.len() + pending <= self.limit, Refusal::Full)?;
        let adds_to = match checked.allowed {
            Allowed::FlowMod { .. } => occupancy::adds(switch.version, bytes),
            _ => None,
        };
        refuse_unless(self.has_flows || adds_to.is_none(), Refusal::Flows)?;
        let is_request = matches!(checked.allowed, Allowed::Request(_));
        let has_room = !is_request || self.transactions.has_room(self.sender);
        refuse_unless(has_room, Refusal::Unanswered)?;
        let kind = Metered::from(checked.allowed);
        refuse_unless(app_port.quota.allows(kind, app_port.policy.quota), Refusal::Quota)?;
        Ok(Decided { checked, buffer, adds_to })
    }

    #[inline]
    fn count(&mut self, allowed: Allowed, adds_to: Option<u8>) {
        let kind = Metered::from(allowed);
        self.app_port.quota.count(kind);
        match kind {
            Metered::FlowMods => self.counts.flow_mods += 1,
            Metered::PacketOuts => self.counts.packet_outs += 1,
            Metered::Requests => {}
        }
        if let Some(table) = adds_to {
            if table != self.counts.table {
                self.flush_adds();
                self.counts.table = table;
            }
            self.counts.adds += 1;
            self.counts.wanted += 1;
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
    fn append(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends the table-miss entry, which the message before it may have changed.
    fn append_table_miss(&mut self) {
        table_miss(self.switch.version, self.session.xid(), self.out);
    }

    /// Adds the messages of the run, which are all appended, to the switch's counters. Returns how many flows the app has
    /// added, or was refused.
    fn finish(mut self) -> u32 {
        self.flush_adds();
        self.switch.counters.flow_mods += self.counts.flow_mods;
        self.switch.counters.packet_outs += self.counts.packet_outs;
        self.counts.wanted
    }
}

fn refuse_unless(allowed: bool, why: Refusal) -> Result<(), Refusal> {
    if allowed { Ok(()) } else { Err(why) }
}
