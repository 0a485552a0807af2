//! One emulated switch under a worker: its connection, its conversation, its ledger.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use openflow::{Dpid, Kind};
use rustix::event::epoll::EventFlags;

use super::failure::{Failure, Trouble};
use super::result::note;
use super::{Pace, Plan};
use crate::connection::{Connection, Input, cut};
use crate::hosts::SwitchHosts;
use crate::ledger::{Counts, Heard, Ledger};
use crate::question::{Open, Template};
use crate::switch::{Event, Identity, Switch};

/// How far the conversation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Connecting,
    Handshaking,
    Settled,
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) connection: Connection,
    switch: Switch,
    pub(super) ledger: Ledger,
    pub(super) stage: Stage,
    /// What epoll was asked to tell.
    pub(super) watched: EventFlags,
    /// When it began to connect.
    pub(super) began: Instant,
    /// When an answer came last, or the first question was asked.
    pub(super) last_answer: Instant,
    /// What was counted when the interval began.
    pub(super) marked: Counts,
    pub(super) warm: bool,
    /// When each question that waits should have been asked, by its place. Empty if nobody asks.
    asked_at: Box<[Option<Instant>]>,
    /// When questions that are not asked yet should have been, at a rate.
    pub(super) due: VecDeque<Instant>,
    /// When the first flow-mod since the last barrier came.
    flow_mod_at: Option<Instant>,
    keeps_flows: bool,
    /// What the controller did not like: how often, and the first.
    pub(super) errors: (u64, Option<String>),
    last: Option<String>,
}

/// Times that are measured.
#[derive(Debug)]
pub(super) struct Times {
    pub(super) latency: Histogram<u64>,
    pub(super) barrier: Histogram<u64>,
}

impl Lane {
    pub(super) fn new(
        number: usize,
        plan: &Plan,
        template: &Template,
        hosts: SwitchHosts,
        connection: Connection,
    ) -> Self {
        let dpid = Dpid(plan.first_dpid.wrapping_add(number as u64));
        let open = Open::with_ids(plan.window(), plan.buffer_ids);
        let ledger = Ledger::new(plan.version, template, plan.answered_by, hosts, open);
        let places = ledger.open().places();
        let identity = Identity {
            dpid,
            version: plan.version,
            ports: plan.ports,
            n_buffers: match plan.claimed_buffers {
                Some(claimed) => claimed,
                // Of the questions that wait, the numbers lie less than this apart.
                None if plan.buffered => u32::try_from(places).unwrap_or(u32::MAX),
                None => 0,
            },
            max_flows: plan.max_flows,
        };
        let timed = if plan.timed { places } else { 0 };
        let now = Instant::now();
        Self {
            connection,
            switch: Switch::new(identity),
            ledger,
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

    pub(super) fn fail(&self, trouble: Trouble) -> Failure {
        Failure::of(self.dpid(), trouble)
    }

    /// Flows in the switch's tables.
    pub(super) fn flows(&self) -> usize {
        self.switch.tables().len()
    }

    /// What epoll is to tell.
    pub(super) fn wanted(&self) -> EventFlags {
        let mut wanted = EventFlags::IN;
        let out = self.stage == Stage::Connecting || !self.connection.is_drained();
        wanted.set(EventFlags::OUT, out);
        wanted
    }

    /// The socket is ready.
    pub(super) fn serve(&mut self, buffer: &mut [u8], times: &mut Times) -> Result<(), Failure> {
        if self.stage == Stage::Connecting {
            if let Err(why) = self.connection.connected() {
                let to = self.connection.socket().peer_addr();
                return Err(self.fail(match to {
                    Ok(_) => Trouble::Broken { when: " at once", why },
                    Err(_) => Trouble::System { what: "cannot connect", why },
                }));
            }
            self.stage = Stage::Handshaking;
            self.switch.greet(self.connection.out());
        }
        // Read first: what is said before the connection breaks may say why.
        let input = self.connection.read(buffer).map_err(|why| self.broken(why))?;
        match input {
            Input::Bytes(size) => self.take_in(&buffer[..size], times)?,
            Input::Nothing => {}
            Input::End if self.stage == Stage::Settled => {
                return Err(self.fail(Trouble::Closed { said: self.said() }));
            }
            Input::End => return Err(self.fail(Trouble::ClosedEarly { said: self.said() })),
        }
        if !self.connection.is_drained() {
            self.flush()?;
        }
        Ok(())
    }

    fn take_in(&mut self, input: &[u8], times: &mut Times) -> Result<(), Failure> {
        let version = self.switch.identity().version;
        let packet_out = Kind::PacketOut.to_wire(version).unwrap_or_default();
        let flow_mod = Kind::FlowMod.to_wire(version).unwrap_or_default();
        // One look at the clock for a read: what it brought was there by then.
        let now = Instant::now();
        let answered = self.ledger.answered();
        let settled = self.stage == Stage::Settled;
        let rest = cut(input, |message| -> Result<(), Trouble> {
            let kind = message[1];
            if settled && message[0] == version.wire() && (kind == packet_out || kind == flow_mod) {
                let heard = if kind == flow_mod {
                    self.ledger.flow_mod(message)?
                } else {
                    self.ledger.packet_out(message)?
                };
                if let (Heard::Answer(question), false) = (heard, self.asked_at.is_empty()) {
                    let place = self.ledger.open().place(question);
                    if let Some(asked) = self.asked_at[place].take() {
                        note(&mut times.latency, now.saturating_duration_since(asked));
                    }
                }
                if !self.keeps_flows {
                    return Ok(());
                }
            }
            self.converse(message, now, times)
        });
        let rest = rest.map_err(|trouble| self.fail(trouble))?;
        self.connection.keep(rest);
        if self.connection.is_stuck() {
            let waiting = self.connection.out().len();
            return Err(self.fail(Trouble::DoesNotRead(waiting)));
        }
        if self.ledger.answered() != answered {
            self.last_answer = now;
        }
        Ok(())
    }

    /// Takes in what is not an answer, or more than one.
    #[cold]
    fn converse(&mut self, message: &[u8], now: Instant, times: &mut Times) -> Result<(), Trouble> {
        let event = self.switch.receive(message, self.connection.out());
        if event.is_err() {
            // What we have to say about it is said as well as may be.
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
                    note(&mut times.barrier, now.saturating_duration_since(first));
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

    /// Whether the switch has settled just now.
    pub(super) fn has_settled(&mut self) -> bool {
        let settles = self.stage == Stage::Handshaking && self.switch.is_settled();
        if settles {
            self.stage = Stage::Settled;
        }
        settles
    }

    /// Asks as many questions as there is room for, and at most `most`.
    pub(super) fn ask(&mut self, template: &mut Template, most: u64) -> Result<(), Failure> {
        let mut most = usize::try_from(most).unwrap_or(usize::MAX);
        while most > 0 && self.ledger.open().room() > 0 && self.connection.is_drained() {
            let (asked_before, now) = (self.ledger.counts().asked, self.now_if_timed());
            // Each question has a time of its own only if each is asked alone.
            let count = if now.is_some() { 1 } else { most };
            let bytes = self.ledger.ask(template, count);
            if bytes.is_empty() {
                break;
            }
            if let Err(why) = self.connection.write(bytes) {
                return Err(self.broken(why));
            }
            if let Some(now) = now {
                let place = self.ledger.open().place(self.ledger.open().asked() - 1);
                self.asked_at[place] = Some(now);
            }
            let asked = self.ledger.counts().asked - asked_before;
            most -= usize::try_from(asked).unwrap_or(usize::MAX).min(most);
        }
        Ok(())
    }

    fn now_if_timed(&self) -> Option<Instant> {
        (!self.asked_at.is_empty()).then(Instant::now)
    }

    /// Asks what is due, as far as there is room, in one write.
    pub(super) fn ask_due(&mut self, template: &mut Template) -> Result<(), Failure> {
        if self.due.is_empty() || !self.connection.is_drained() {
            return Ok(());
        }
        while self.ledger.open().room() > 0
            && let Some(due) = self.due.pop_front()
        {
            let bytes = self.ledger.ask(template, 1);
            self.connection.out().extend_from_slice(bytes);
            let place = self.ledger.open().place(self.ledger.open().asked() - 1);
            if let Some(at) = self.asked_at.get_mut(place) {
                *at = Some(due);
            }
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.connection.flush().map_err(|why| self.broken(why))
    }

    fn broken(&self, why: io::Error) -> Failure {
        let handshaking = self.stage != Stage::Settled;
        if matches!(why.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) {
            let said = self.said();
            return self.fail(if handshaking {
                Trouble::ClosedEarly { said }
            } else {
                Trouble::Closed { said }
            });
        }
        let when = if handshaking { " during the handshake" } else { " under load" };
        self.fail(Trouble::Broken { when, why })
    }

    /// What the controller said last, as a clause.
    fn said(&self) -> String {
        match &self.last {
            Some(last) => format!("; the last that it said was {last}"),
            None if self.connection.kept().is_empty() => "; it said nothing".into(),
            None => {
                let begin = self.connection.kept();
                let begin = begin.get(..24).unwrap_or(begin).escape_ascii();
                format!("; what it sent is no whole message, and begins \"{begin}\"")
            }
        }
    }

    /// Gives up what waits too long.
    pub(super) fn give_up(&mut self, now: Instant, after: Duration) {
        if self.ledger.open().count() > 0 && now.saturating_duration_since(self.last_answer) > after
        {
            self.ledger.give_up();
            self.last_answer = now;
        }
    }

    /// How many more questions the warm-up has for it.
    pub(super) fn cold(&self, macs: usize) -> u64 {
        (macs as u64).saturating_sub(self.ledger.counts().asked)
    }
}

impl Pace {
    /// Whether questions are asked by the clock.
    pub(super) fn is_rate(self) -> bool {
        matches!(self, Self::Rate(_))
    }
}
