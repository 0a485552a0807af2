//! Drives one emulated switch: its connection, its protocol state, its answer checker.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use openflow::{Dpid, Kind};
use rustix::event::epoll::EventFlags;

use super::failure::{Failure, FailureKind};
use super::result::record;
use super::{Pace, Plan};
use crate::checker::{AnswerChecker, Counts, Verdict};
use crate::connection::{Connection, ReadResult, cut};
use crate::hosts::SwitchHosts;
use crate::packet_ins::{PacketInTemplate, PendingPacketIns};
use crate::switch::{Event, Identity, Switch};

/// State of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Connecting,
    Handshaking,
    Settled,
}

/// One switch under load; see the module's documentation.
#[derive(Debug)]
pub(super) struct LoadSwitch {
    pub(super) connection: Connection,
    switch: Switch,
    pub(super) checker: AnswerChecker,
    pub(super) stage: Stage,
    /// Events registered with epoll.
    pub(super) watched: EventFlags,
    /// When it started to connect.
    pub(super) began: Instant,
    /// Time of the last answer, or of the first packet-in.
    pub(super) last_answer: Instant,
    /// Counters at the start of the interval.
    pub(super) marked: Counts,
    pub(super) warm: bool,
    /// Scheduled time of each pending packet-in, by slot. Empty if latency is not measured.
    asked_at: Box<[Option<Instant>]>,
    /// In rate mode, scheduled times of packet-ins that are not sent yet.
    pub(super) due: VecDeque<Instant>,
    /// Time of the first flow-mod since the last barrier.
    flow_mod_at: Option<Instant>,
    keeps_flows: bool,
    /// Number of error messages from the controller, and the first one.
    pub(super) errors: (u64, Option<String>),
    last: Option<String>,
}

/// Histograms of one interval.
#[derive(Debug)]
pub(super) struct Histograms {
    pub(super) latency: Histogram<u64>,
    pub(super) barrier: Histogram<u64>,
}

impl LoadSwitch {
    pub(super) fn new(
        number: usize,
        plan: &Plan,
        template: &PacketInTemplate,
        hosts: SwitchHosts,
        connection: Connection,
    ) -> Self {
        let dpid = Dpid(plan.first_dpid.wrapping_add(number as u64));
        let open = PendingPacketIns::with_ids(plan.window(), plan.buffer_ids);
        let checker = AnswerChecker::new(plan.version, template, plan.answered_by, hosts, open);
        let slots = checker.pending().slots();
        let identity = Identity {
            dpid,
            version: plan.version,
            ports: plan.ports,
            n_buffers: match plan.claimed_buffers {
                Some(claimed) => claimed,
                // The numbers of pending packet-ins differ by less than this.
                None if plan.buffered => u32::try_from(slots).unwrap_or(u32::MAX),
                None => 0,
            },
            max_flows: plan.max_flows,
        };
        let timed = if plan.timed { slots } else { 0 };
        let now = Instant::now();
        Self {
            connection,
            switch: Switch::new(identity),
            checker,
            stage: Stage::Connecting,
            watched: EventFlags::empty(),
            began: now,
            last_answer: now,
            marked: Counts::default(),
            warm: false,
            asked_at: vec![None; timed].into_boxed_slice(),
            due: VecDeque::new(),
            flow_mod_at: None,
            keeps_flows: plan.keep_flows,
            errors: (0, None),
            last: None,
        }
    }

    fn dpid(&self) -> Dpid {
        self.switch.identity().dpid
    }

    pub(super) fn fail(&self, kind: FailureKind) -> Failure {
        Failure::of(self.dpid(), kind)
    }

    /// Returns the number of flows in the switch's tables.
    pub(super) fn flows(&self) -> usize {
        self.switch.tables().len()
    }

    /// Returns the events to register with epoll.
    pub(super) fn wanted(&self) -> EventFlags {
        let mut wanted = EventFlags::IN;
        let out = self.stage == Stage::Connecting || !self.connection.is_output_empty();
        wanted.set(EventFlags::OUT, out);
        wanted
    }

    /// Serves a ready socket.
    pub(super) fn serve(
        &mut self,
        buffer: &mut [u8],
        histograms: &mut Histograms,
    ) -> Result<(), Failure> {
        if self.stage == Stage::Connecting {
            if let Err(why) = self.connection.connected() {
                let to = self.connection.socket().peer_addr();
                return Err(self.fail(match to {
                    Ok(_) => FailureKind::Broken { when: " at once", why },
                    Err(_) => FailureKind::System { what: "cannot connect", why },
                }));
            }
            self.stage = Stage::Handshaking;
            self.switch.send_hello(self.connection.out());
        }
        // Read before writing: the last message before a connection breaks may name the reason.
        let input = self.connection.read(buffer).map_err(|why| self.io_failure(why))?;
        match input {
            ReadResult::Bytes(size) => self.receive(&buffer[..size], histograms)?,
            ReadResult::WouldBlock => {}
            ReadResult::Closed if self.stage == Stage::Settled => {
                return Err(self.fail(FailureKind::Closed { last_message: self.last_message() }));
            }
            ReadResult::Closed => {
                return Err(
                    self.fail(FailureKind::ClosedEarly { last_message: self.last_message() })
                );
            }
        }
        if !self.connection.is_output_empty() {
            self.flush()?;
        }
        Ok(())
    }

    fn receive(&mut self, input: &[u8], histograms: &mut Histograms) -> Result<(), Failure> {
        let version = self.switch.identity().version;
        let packet_out = Kind::PacketOut.to_wire(version).unwrap_or_default();
        let flow_mod = Kind::FlowMod.to_wire(version).unwrap_or_default();
        // One clock read per socket read: every message in the buffer had arrived by then.
        let now = Instant::now();
        let answered = self.checker.answered();
        let settled = self.stage == Stage::Settled;
        let rest = cut(input, |message| -> Result<(), FailureKind> {
            let kind = message[1];
            if settled && message[0] == version.wire() && (kind == packet_out || kind == flow_mod) {
                let heard = if kind == flow_mod {
                    self.checker.flow_mod(message)?
                } else {
                    self.checker.packet_out(message)?
                };
                if let (Verdict::Answer(packet_in), false) = (heard, self.asked_at.is_empty()) {
                    let slot = self.checker.pending().slot(packet_in);
                    if let Some(asked) = self.asked_at[slot].take() {
                        record(&mut histograms.latency, now.saturating_duration_since(asked));
                    }
                }
                if !self.keeps_flows {
                    return Ok(());
                }
            }
            self.handle_message(message, now, histograms)
        });
        let rest = rest.map_err(|kind| self.fail(kind))?;
        self.connection.keep(rest);
        if self.connection.is_output_full() {
            let waiting = self.connection.out().len();
            return Err(self.fail(FailureKind::NotReading(waiting)));
        }
        if self.checker.answered() != answered {
            self.last_answer = now;
        }
        Ok(())
    }

    /// Handles a message that is no answer, or that the flow tables need as well.
    #[cold]
    fn handle_message(
        &mut self,
        message: &[u8],
        now: Instant,
        histograms: &mut Histograms,
    ) -> Result<(), FailureKind> {
        let event = self.switch.receive(message, self.connection.out());
        if event.is_err() {
            // Send the error reply if the controller still reads; the fault below is the result
            // either way.
            let _ = self.connection.flush();
        }
        match event? {
            Event::Error(error) => {
                let text = error.to_string();
                self.errors.0 += 1;
                self.errors.1.get_or_insert_with(|| text.clone());
                self.last = Some(format!("error {text}"));
            }
            Event::FlowMod { .. } => {
                self.flow_mod_at.get_or_insert(now);
            }
            Event::Barrier => {
                if let Some(first) = self.flow_mod_at.take() {
                    record(&mut histograms.barrier, now.saturating_duration_since(first));
                }
            }
            Event::PacketOut(_) | Event::Nothing => {}
        }
        if self.stage != Stage::Settled {
            let kind = Kind::from_wire(self.switch.identity().version, message[1]);
            let kind = kind.map_or("a message of no known type", Kind::name);
            if !matches!(self.last, Some(ref last) if last.starts_with("error ")) {
                self.last = Some(kind.into());
            }
        }
        Ok(())
    }

    /// Moves to [`Stage::Settled`] if the switch has settled; returns whether it did.
    pub(super) fn has_settled(&mut self) -> bool {
        let settles = self.stage == Stage::Handshaking && self.switch.is_settled();
        if settles {
            self.stage = Stage::Settled;
        }
        settles
    }

    /// Sends packet-ins while slots are free, at most `most`.
    pub(super) fn send_packet_ins(
        &mut self,
        template: &mut PacketInTemplate,
        most: u64,
    ) -> Result<(), Failure> {
        let mut most = usize::try_from(most).unwrap_or(usize::MAX);
        while most > 0
            && self.checker.pending().available() > 0
            && self.connection.is_output_empty()
        {
            let (asked_before, now) = (self.checker.counts().asked, self.now_if_timed());
            // With timestamps, each packet-in is sent by itself so that it gets its own.
            let count = if now.is_some() { 1 } else { most };
            let bytes = self.checker.ask(template, count);
            if bytes.is_empty() {
                break;
            }
            if let Err(why) = self.connection.write(bytes) {
                return Err(self.io_failure(why));
            }
            if let Some(now) = now {
                let slot = self.checker.pending().slot(self.checker.pending().asked() - 1);
                self.asked_at[slot] = Some(now);
            }
            let asked = self.checker.counts().asked - asked_before;
            most -= usize::try_from(asked).unwrap_or(usize::MAX).min(most);
        }
        Ok(())
    }

    fn now_if_timed(&self) -> Option<Instant> {
        (!self.asked_at.is_empty()).then(Instant::now)
    }

    /// Sends the due packet-ins in one write, while slots are free.
    pub(super) fn send_due(&mut self, template: &mut PacketInTemplate) -> Result<(), Failure> {
        if self.due.is_empty() || !self.connection.is_output_empty() {
            return Ok(());
        }
        while self.checker.pending().available() > 0
            && let Some(due) = self.due.pop_front()
        {
            let bytes = self.checker.ask(template, 1);
            self.connection.out().extend_from_slice(bytes);
            let slot = self.checker.pending().slot(self.checker.pending().asked() - 1);
            if let Some(at) = self.asked_at.get_mut(slot) {
                *at = Some(due);
            }
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.connection.flush().map_err(|why| self.io_failure(why))
    }

    fn io_failure(&self, why: io::Error) -> Failure {
        let handshaking = self.stage != Stage::Settled;
        if matches!(why.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) {
            let last_message = self.last_message();
            return self.fail(if handshaking {
                FailureKind::ClosedEarly { last_message }
            } else {
                FailureKind::Closed { last_message }
            });
        }
        let when = if handshaking { " during the handshake" } else { " under load" };
        self.fail(FailureKind::Broken { when, why })
    }

    /// Describes the controller's last message, as a clause.
    fn last_message(&self) -> String {
        match &self.last {
            Some(last) => format!("; its last message was {last}"),
            None if self.connection.kept().is_empty() => "; it sent nothing".into(),
            None => {
                let begin = self.connection.kept();
                let begin = begin.get(..24).unwrap_or(begin).escape_ascii();
                format!("; it sent an incomplete message that begins \"{begin}\"")
            }
        }
    }

    /// Gives up pending packet-ins if there was no answer for `after`.
    pub(super) fn give_up(&mut self, now: Instant, after: Duration) {
        if self.checker.pending().count() > 0
            && now.saturating_duration_since(self.last_answer) > after
        {
            self.checker.give_up();
            self.last_answer = now;
        }
    }

    /// Returns how many packet-ins remain of its warm-up.
    pub(super) fn warm_up_left(&self, macs: usize) -> u64 {
        (macs as u64).saturating_sub(self.checker.counts().asked)
    }
}

impl Pace {
    /// Whether packet-ins are sent at a fixed rate.
    pub(super) fn is_rate(self) -> bool {
        matches!(self, Self::Rate(_))
    }
}
