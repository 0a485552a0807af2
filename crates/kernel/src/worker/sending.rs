//! What apps sent goes out: checked one by one, gathered per switch.
//!
//! Apps answer a batch of one switch's records at a time, so messages come in runs for one switch. What is
//! the same for all of a run is looked at once. And so is a series (`sdk::abi::series`), of which the flow-mod
//! is checked once and written out for each of its blanks.

use std::cell::Cell;
use std::time::Instant;

use sdk::Refusal;
use sdk::abi::series::Series;

use super::Worker;
use super::gate::Gate;
use super::inbound::table_miss;
use super::roster::Entry;
use super::table_usage::count_flows;
use crate::app_port::{AppPort, Messages, Sent};
use crate::buffer_table::Buffers;
use crate::check::Allowed;
use crate::connection::{Connection, Up};
use crate::occupancy;
use crate::pool::Head;
use crate::rewrite;
use crate::transactions::Sender;

/// What comes behind a message that goes out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Behind {
    /// The table-miss entry, which the message may have changed.
    table_miss: bool,
    /// The question how many flows the app has, if it is time to ask: it adds so many, or would.
    adds: u32,
}

/// What must not go out, and why.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refused {
    sent: Sent,
    /// Which of a series; `None` for all that was sent.
    number: Option<usize>,
    why: Refusal,
}

impl Worker {
    /// Checks what an app sent and appends what passes to what goes to its switches; the app is told of the
    /// rest.
    pub(super) fn send_all(&mut self, index: usize, messages: &mut Messages, now: Instant) {
        let (sent, bytes) = messages.parts();
        let is_same = |a: &Sent, b: &Sent| a.dpid == b.dpid && a.epoch == b.epoch;
        for run in sent.chunk_by(is_same) {
            self.send_run(index, run, bytes, now);
        }
    }

    /// The same of messages for one connection of one switch, which lie one behind the other.
    pub(super) fn send_run(&mut self, index: usize, run: &[Sent], bytes: &mut [u8], now: Instant) {
        let [Sent { dpid, epoch, start, .. }, ..] = *run else { return };
        let Some(Entry { key, epoch: current }) = self.switches.roster.find(dpid) else {
            for sent in run {
                sent.each_message(bytes, |message, can_be_said| {
                    let forwarded = if can_be_said {
                        {
                            let head =
                                Head { app: self.dispatch.app_ports[index].app, dpid, epoch };
                            self.forwarder.forward(&self.channels, head, message)
                        }
                    } else {
                        Err(Refusal::Shape)
                    };
                    if let Err(why) = forwarded {
                        self.refuse(index, dpid, epoch, why, message, now);
                    }
                });
            }
            return;
        };
        if current != epoch {
            for sent in run {
                sent.each_message(bytes, |message, _| {
                    self.refuse(index, dpid, epoch, Refusal::Epoch, message, now);
                });
            }
            return;
        }
        let mut refused = std::mem::take(&mut self.calls.refused);
        let connection = &mut self.switches[key];
        let app_port = &mut self.dispatch.app_ports[index];
        app_port.spent.refresh(now);
        let app_run = connection.begin_run(index);
        if !app_run.is_queued() {
            self.output.spare.lend(&mut connection.out);
        }
        let limit = app_run.limit;
        let mut sending =
            Sending { connection, app_port, index, limit, now, tally: Tally::default() };
        // Passed and not appended yet: from here up to the message in hand.
        let mut from = start;
        for sent in run {
            let message = &mut bytes[sent.start..sent.end];
            if sent.series > 0 {
                sending.connection.out.extend_from_slice(&bytes[from..sent.start]);
                from = sent.end;
                sending.series(sent, &bytes[sent.start..sent.end], &mut refused);
                continue;
            }
            match sending.admit(sent.start - from, message) {
                Ok(Behind { table_miss: false, adds: 0 }) => {}
                Ok(behind) => {
                    sending.connection.out.extend_from_slice(&bytes[from..sent.end]);
                    from = sent.end;
                    sending.add(behind);
                }
                Err(why) => {
                    sending.connection.out.extend_from_slice(&bytes[from..sent.start]);
                    from = sent.end;
                    if why == Refusal::Flows {
                        sending.add(Behind { adds: 1, ..Behind::default() });
                    }
                    refused.push(Refused { sent: *sent, number: None, why });
                }
            }
        }
        let [.., Sent { end, .. }] = *run else { return };
        sending.connection.out.extend_from_slice(&bytes[from..end]);
        let connection = sending.settle();
        if connection.end_run(&app_run) {
            self.output.note(key, connection);
        }
        self.output.spare.take_back(&mut connection.out); // if nothing passed
        for of_one in refused.chunk_by(|a, b| a.sent == b.sent) {
            let [Refused { sent: Sent { start, end, series, .. }, .. }, ..] = *of_one else {
                continue;
            };
            let said = &bytes[start..end];
            let series = Series::read(said, series);
            let mut quotes = series.iter().flat_map(|series| {
                series.quotes(of_one.iter().filter_map(|refused| refused.number))
            });
            for Refused { number, why, .. } in of_one {
                let quote = number.and_then(|_| quotes.next());
                self.refuse(index, dpid, epoch, *why, quote.as_deref().unwrap_or(said), now);
            }
        }
        refused.clear();
        self.calls.refused = refused;
    }
}

/// What is the same for all messages of a run.
struct Sending<'r> {
    connection: &'r mut Connection,
    app_port: &'r mut AppPort,
    /// Where the app port is.
    index: usize,
    /// Bytes of output above which the app's next message is refused.
    limit: usize,
    now: Instant,
    tally: Tally,
}

/// What went out and is not counted yet.
#[derive(Debug, Default)]
struct Tally {
    flow_mods: u64,
    packet_outs: u64,
    /// How many of these add flows to the table.
    adds: u32,
    table: u8,
}

impl<'r> Sending<'r> {
    /// Checks a message and makes it one that can go out, behind `waits` bytes that are not appended to the
    /// output yet.
    #[inline]
    fn admit(&mut self, waits: usize, message: &mut [u8]) -> Result<Behind, Refusal> {
        let Self { connection, app_port, index, limit, now, .. } = self;
        let (index, now) = (*index, *now);
        let full = connection.out.len() + waits > *limit;
        let Up { switch, transactions, .. } = connection.phase.up_mut().ok_or(Refusal::NoSwitch)?;
        let version = switch.version;
        let used = Cell::new(None);
        let was_given = |buffer| {
            used.set(Some(buffer));
            switch.buffer_table.has(buffer, index)
        };
        let allowed = app_port.rights.check(version, message, was_given)?;
        let sender =
            Sender { app_port: app_port.slot(), life: app_port.life, xid: rewrite::xid(message) };
        let asks = match allowed {
            Allowed::Request(expects) => Some(expects),
            _ => None,
        };
        let adds = match allowed {
            Allowed::FlowMod { .. } => occupancy::adds(version, message),
            _ => None,
        };
        let most = app_port.policy.flows;
        let counts = adds.is_some() && most != u32::MAX;
        let why_not = if full {
            Some(Refusal::Full)
        } else if counts && !switch.occupancy.has_room(index, most) {
            Some(Refusal::Flows)
        } else if asks.is_some() && !transactions.has_room(sender) {
            Some(Refusal::Unanswered)
        } else if !app_port.spent.spend(allowed, app_port.policy.quota) {
            Some(Refusal::Quota)
        } else {
            None
        };
        if let Some(why_not) = why_not {
            rewrite::own_words(version, message); // as the app wrote it
            return Err(why_not);
        }
        let is_delete =
            || matches!(allowed, Allowed::FlowMod { .. }) && occupancy::deletes(version, message);
        if let Some(buffer) = used.get()
            && !is_delete()
        {
            switch.buffer_table.take(buffer, index);
        }
        // Transaction ids are the kernel's: two apps may choose the same.
        let xid = connection.session.xid();
        rewrite::set_xid(message, xid);
        transactions.sent(xid, sender);
        if let Some(expects) = asks {
            transactions.asks(xid, sender, expects, now);
        }
        match allowed {
            Allowed::FlowMod { .. } | Allowed::GroupMod | Allowed::MeterMod | Allowed::Config => {
                self.tally.flow_mods += 1;
            }
            Allowed::PacketOut => self.tally.packet_outs += 1,
            Allowed::Request(_) | Allowed::Experimenter => {}
        }
        if let Some(table) = adds {
            self.adds_to(table, 1);
        }
        let table_miss = allowed == Allowed::FlowMod { sweeps: true };
        Ok(Behind { table_miss, adds: u32::from(counts) })
    }

    /// Checks a series, and appends of it what may go out.
    fn series(&mut self, sent: &Sent, said: &[u8], refused: &mut Vec<Refused>) {
        let Self { connection, app_port, index, limit, .. } = self;
        let Connection { phase, session, out, .. } = &mut **connection;
        let mut refuse = |number, why| refused.push(Refused { sent: *sent, number, why });
        let Some(mut series) = Series::read(said, sent.series) else {
            return refuse(None, Refusal::Shape);
        };
        let Some(Up { switch, transactions, .. }) = phase.up_mut() else {
            return (0..series.len()).for_each(|number| refuse(Some(number), Refusal::NoSwitch));
        };
        let is_of_its_version = series.template().version() == switch.version;
        // Which buffer it uses is said by its blanks.
        let checked = app_port.rights.check(switch.version, series.flow_mod_mut(), |_| true);
        let table = occupancy::adds(switch.version, series.template().message());
        let most = app_port.policy.flows;
        let count = u32::try_from(series.len()).expect("a series is short");
        let sender =
            Sender { app_port: app_port.slot(), life: app_port.life, xid: series.first_xid() };
        let has_flows = most == u32::MAX || switch.occupancy.has_room(*index, most);
        // Each has a transaction id, also if it does not go out.
        let first = session.xids(count);
        let [flow_mods, packet_outs] = app_port.spent.accounts(app_port.policy.quota);
        let mut gate = Gate {
            refused: checked.err(),
            flow_mods,
            packet_outs,
            limit: *limit,
            has_flows,
            buffers: Buffers::of(&mut switch.buffer_table, *index),
            outputs: app_port.rights.outputs,
            packet: |packet: &[u8]| {
                if is_of_its_version { app_port.rights.packet(packet) } else { Err(Refusal::Shape) }
            },
        };
        let passed = gate.append(&series, first, out, |number, why| refuse(Some(number), why));
        if passed.flow_mods + passed.packet_outs > 0 {
            transactions.sent_all(first, count, sender);
        } else {
            transactions.skipped(first, count, sender);
        }
        self.tally.flow_mods += u64::from(passed.flow_mods);
        self.tally.packet_outs += u64::from(passed.packet_outs);
        self.adds_to(table.unwrap_or_default(), passed.flow_mods);
        if most != u32::MAX {
            self.add(Behind { adds: passed.flow_mods + passed.kept, ..Behind::default() });
        }
    }

    #[inline]
    fn adds_to(&mut self, table: u8, adds: u32) {
        if table != self.tally.table {
            self.count();
            self.tally.table = table;
        }
        self.tally.adds += adds;
    }

    /// Counts what went out.
    fn count(&mut self) {
        let Tally { flow_mods, packet_outs, adds, table } = std::mem::take(&mut self.tally);
        let Some(switch) = self.connection.switch_mut() else { return };
        switch.counters.flow_mods += flow_mods;
        switch.counters.packet_outs += packet_outs;
        if adds > 0 {
            switch.added(self.index, (table, adds));
        }
    }

    /// Appends what comes behind a message.
    fn add(&mut self, behind: Behind) {
        let Self { connection, app_port, index, now, .. } = self;
        if let (true, Some(switch)) = (behind.table_miss, connection.switch()) {
            let (version, xid) = (switch.version, connection.session.xid());
            table_miss(version, xid, &mut connection.out);
        }
        if behind.adds > 0 {
            let counted = (app_port.policy.flows, behind.adds);
            count_flows(connection, (*index, app_port.app), counted, *now);
        }
    }

    /// All of the run is appended.
    fn settle(mut self) -> &'r mut Connection {
        self.count();
        self.connection
    }
}
