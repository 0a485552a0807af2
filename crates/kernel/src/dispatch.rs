//! Delivers the packet-ins and port changes of switches to apps, stage after stage.
//!
//! The plan names the apps for a packet and their stages. The hold queue keeps packets that wait for an app's verdict.
//! App ports write the records.

use std::time::Instant;

use dal::{MAX_PORTS, whole_packet_in};
use openflow::{DecodeError, PacketIn, PortReason, PortStatus};
use sdk::abi::Record;

use control::query::NoPackets;

use crate::app_port::{AppPort, Fill, Verdict};
use crate::back_pressure::{FullApps, WORTH_WAITING};
use crate::hold_queue::{Deliver, Held, Holds, News, Ticket};
use crate::ids::{AppSlot, ConnId};
use crate::plan::{Plan, Set, Wanted};
use crate::record::packet_in_record;
use crate::rewrite;
use crate::switch::Switch;

/// The apps, and the packets on their way to them.
#[derive(Debug, Default)]
pub(crate) struct Dispatch {
    pub(crate) app_ports: Vec<AppPort>,
    plan: Plan,
    holds: Holds,
    /// Switches whose packets may go on to the next app.
    moved: Vec<ConnId>,
    /// Whether an app that was full has room again since the last call of [`room_came`](Self::room_came).
    room_came: bool,
    /// Whether the hold queue was nearly full at that call.
    crowded: bool,
}

/// Back-pressure on a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pressure {
    /// Which of the apps that it feeds are full.
    pub(crate) full: FullApps,
    /// Bytes of packet-ins that the other apps can take.
    pub(crate) room: usize,
    /// Bytes to read before the next switch's turn.
    pub(crate) turn: usize,
}

/// The least turn, in bytes: a tenth of 128 packet-ins.
const LEAST_TURN: usize = 1024;

/// The least assumed number of active switches: when load begins, most have not sent yet.
const FEW_SWITCHES: usize = 16;

/// Room for held packets, in bytes of messages, below which switches are left unread.
const HARDLY_ANY: usize = 8 * 1024;

/// The part of a run of packet-ins that was dispatched.
#[derive(Debug)]
pub(crate) struct Dispatched {
    /// The number of bytes that were dispatched.
    pub(crate) size: usize,
    /// The reason for which the dispatch ended.
    pub(crate) end: End,
}

/// Why the dispatch of a run of packet-ins has ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The run has ended.
    Run,
    /// An app in this process must be called first.
    Batch,
    /// The last packet-in was ignored.
    Malformed(DecodeError),
}

/// Delivers held entries of a switch.
struct To<'d> {
    app_ports: &'d mut Vec<AppPort>,
    switch: &'d mut Switch,
}

impl Deliver for To<'_> {
    fn deliver(&mut self, app: AppSlot, held: &Held, ticket: Ticket) -> bool {
        let (app_port, switch) = (&mut self.app_ports[app], &mut *self.switch);
        match held {
            Held::Packet(record, message) => {
                let taken = app_port.packet_in(switch, record, message, ticket);
                switch.counters.dropped += u64::from(!taken);
                taken
            }
            Held::Port(reason, port) => {
                app_port.port(switch, *reason, port);
                true
            }
        }
    }
}

impl Dispatch {
    /// Makes a new plan after an app was added or its policy changed.
    pub(crate) fn replan(&mut self) {
        let present = self.app_ports.iter().map(|it| (!it.is_absent).then_some(&it.policy));
        self.plan = Plan::of(present);
        // Absent apps count: their flows may still be in the switches, and no other app may change them.
        let writers =
            self.app_ports.iter().filter(|app_port| app_port.rights.writes_flows()).count();
        for app_port in &mut self.app_ports {
            let is_alone = writers <= usize::from(app_port.rights.writes_flows());
            app_port.rights.set_alone(is_alone);
        }
    }

    /// Returns the back-pressure on a switch, which is one of `active` switches that have sent something. A turn is at
    /// most `most` bytes.
    ///
    /// The slowest pacing app needs some 16 ms for a round of turns over all of these: a record is about twice as long
    /// as its message, and two thirds of the pace are shared. So in any 100 ms all switches have about the same number
    /// of turns (deficit round robin: Shreedhar, Varghese, SIGCOMM 1995).
    pub(crate) fn pressure(
        &mut self,
        switch: &Switch,
        active: usize,
        most: usize,
        now: Instant,
    ) -> Pressure {
        let feeds = self.plan.feeds(switch.dpid.0);
        let pacing = self.plan.pacing(feeds);
        // Packets that guards and control apps have no room for are not read for observers alone.
        let waited_for = if pacing.is_empty() { feeds } else { pacing };
        let (mut all, mut some) = (!feeds.is_empty(), false);
        let (mut behind, mut busy) = (false, false);
        let (mut room, mut pace) = (usize::MAX, usize::MAX);
        for slot in feeds.iter() {
            let fill = self.fill(slot, now);
            let is_pacing = pacing.has(slot);
            busy |= is_pacing && self.app_ports[slot].is_busy(now);
            match fill {
                Fill::Behind(bytes) if is_pacing => {
                    (behind, room) = (true, room.min(bytes / 2));
                }
                // A record is at most twice as long as its message, if that carries a whole frame.
                Fill::Room(bytes) | Fill::Behind(bytes) => {
                    (all, room) = (all && !waited_for.has(slot), room.min(bytes / 2));
                }
                Fill::Full(since) => {
                    // An app that stays full after one wait delays its switches no longer.
                    some |= now.saturating_duration_since(since) < WORTH_WAITING;
                }
            }
            if is_pacing && !matches!(fill, Fill::Full(_)) {
                pace = pace.min(self.app_ports[slot].pace());
            }
        }
        let turn = (pace / (3 * active.max(FEW_SWITCHES))).max(LEAST_TURN).min(most);
        if !switch.queue.is_empty() || self.plan.holds(feeds) {
            // A packet that cannot be held reaches no app.
            let held = self.holds.room(switch.queue.len());
            (all, room) = (all || held < HARDLY_ANY, room.min(held));
        }
        match (all, some) {
            (true, _) => {
                let full = if busy { FullApps::AllAndBusy } else { FullApps::All };
                // Never 0: an empty read would look as if the switch had closed the connection.
                let room = if behind { room.min(turn).max(LEAST_TURN) } else { usize::MAX };
                Pressure { full, room, turn }
            }
            (false, true) => Pressure { full: FullApps::OnlySome, room, turn },
            (false, false) => Pressure { full: FullApps::NotWorthWaiting, room, turn },
        }
    }

    /// The apps that are to receive packets of a switch.
    pub(crate) fn feeds(&self, dpid: u64) -> Set {
        self.plan.feeds(dpid)
    }

    /// Notes that a switch has sent more than one turn allows.
    pub(crate) fn hold_back(&mut self, dpid: u64) {
        for slot in self.plan.feeds(dpid).iter() {
            self.app_ports[slot].hold_back();
        }
    }

    /// How full an app is now.
    fn fill(&mut self, slot: AppSlot, now: Instant) -> Fill {
        let app_port = &mut self.app_ports[slot];
        let was_waited_for = app_port.is_waited_for();
        let fill = app_port.fill(now);
        self.room_came |= was_waited_for && !app_port.is_waited_for();
        fill
    }

    /// Whether, since the last call, an app that was full has room again, or the hold queue has.
    pub(crate) fn room_came(&mut self, now: Instant) -> bool {
        for slot in AppSlot::first(self.app_ports.len()) {
            self.fill(slot, now);
        }
        let crowded = self.holds.room(usize::MAX) < HARDLY_ANY;
        self.room_came |= self.crowded && !crowded;
        self.crowded = crowded;
        std::mem::take(&mut self.room_came)
    }

    /// Whether an app in this process must be called before more records are written for it.
    #[inline]
    pub(crate) fn batch_waits(&self) -> bool {
        self.app_ports.iter().any(AppPort::batch_waits)
    }

    /// Dispatches the packet-ins that `run` begins with: at least one if there is one, then more until an app in this process must be
    /// called. `owner` is the switch's connection.
    ///
    /// For the sole, unfiltered subscriber, the app port writes several packet-ins at once.
    pub(crate) fn packet_ins(
        &mut self,
        owner: ConnId,
        switch: &mut Switch,
        run: &mut [u8],
        now: Instant,
    ) -> Dispatched {
        let mut size = 0;
        loop {
            if let Some(only) = self.plan.only().filter(|_| switch.queue.is_empty()) {
                let written = self.app_ports[only].packet_ins(switch, &mut run[size..]);
                size += written;
                if written > 0 && self.batch_waits() {
                    return Dispatched { size, end: End::Batch };
                }
            }
            // At least one each time, as an app may be called with a batch and handle none of it.
            let Some(message) = whole_packet_in(switch.version, &mut run[size..]) else {
                return Dispatched { size, end: End::Run };
            };
            size += message.len();
            let cookie = rewrite::take_cookie(switch.version, message);
            let mut view = match PacketIn::decode(message) {
                Ok(view) => view,
                Err(error) => return Dispatched { size, end: End::Malformed(error) },
            };
            view.cookie = cookie.unwrap_or(view.cookie);
            self.packet_in(owner, switch, &view, message, now);
            if self.batch_waits() {
                return Dispatched { size, end: End::Batch };
            }
        }
    }

    /// Delivers one packet-in to its apps, or holds it for their verdicts. `packet_in` is a view of `message`, the
    /// whole OpenFlow message.
    #[inline]
    fn packet_in(
        &mut self,
        owner: ConnId,
        switch: &mut Switch,
        packet_in: &PacketIn<'_>,
        message: &[u8],
        now: Instant,
    ) {
        switch.counters.packet_ins += 1;
        let Some(record) = packet_in_record(switch, packet_in, message) else {
            switch.counters.dropped += 1;
            return;
        };
        if let Some(buffer) = packet_in.buffer_id {
            switch.buffer_table.kept(buffer, Set::EMPTY);
        }
        let wanted = self.plan.wanted(switch.dpid.0, packet_in.data);
        for observer in wanted.observers.iter() {
            let taken = self.app_ports[observer].packet_in(switch, &record, message, Ticket::NONE);
            switch.counters.dropped += u64::from(!taken);
        }
        let alone = wanted.guards.is_empty() && wanted.controls.is_at_most_one();
        if alone && switch.queue.is_empty() {
            // The only copy is the one into the ring.
            for control in wanted.controls.iter() {
                let taken =
                    self.app_ports[control].packet_in(switch, &record, message, Ticket::NONE);
                switch.counters.dropped += u64::from(!taken);
            }
            return;
        }
        self.hold(owner, switch, record, message, wanted, now);
    }

    /// Holds a packet-in until every guard, and every control app except the last, has sent its verdict.
    #[inline(never)]
    fn hold(
        &mut self,
        owner: ConnId,
        switch: &mut Switch,
        record: Record,
        message: &[u8],
        wanted: Wanted,
        now: Instant,
    ) {
        let held = Held::Packet(record, self.holds.copy(message));
        let Some(ticket) = self.holds.hold(&mut switch.queue, owner, held, wanted, now) else {
            switch.counters.dropped += 1;
            for slot in wanted.guards.with(wanted.controls).iter() {
                self.app_ports[slot].counts.packet_in(false, message.len());
            }
            return;
        };
        for guard in wanted.guards.iter() {
            let app_port = &mut self.app_ports[guard];
            let skipped = self.holds.patience.skips(guard);
            let awaited = app_port.is_attached() && !skipped;
            let answers_to = match (awaited, skipped) {
                (true, _) => ticket,
                (false, true) => self.holds.pass_over(guard, now),
                (false, false) => Ticket::NONE,
            };
            let taken = app_port.packet_in(switch, &record, message, answers_to);
            if !(awaited && taken) {
                let stop = !self.plan.goes_on_without(guard);
                switch.counters.guarded += u64::from(stop);
                self.holds.decide(ticket, guard, stop);
            }
        }
        self.will_advance(owner);
    }

    /// Applies a change of a port and announces it to the apps. For apps with held packets it waits behind these.
    pub(crate) fn port_status(
        &mut self,
        owner: ConnId,
        switch: &mut Switch,
        status: PortStatus,
        now: Instant,
    ) {
        let PortStatus { reason, desc } = status;
        let number = desc.port_no.0;
        let reason = match reason {
            PortReason::Add => 0,
            PortReason::Delete => 1,
            PortReason::Modify => 2,
        };
        let known = switch.ports.contains_key(&number);
        if reason == 1 {
            if switch.ports.remove(&number).is_none() {
                return;
            }
        } else if known || switch.ports.len() < MAX_PORTS {
            switch.ports.insert(number, desc);
        } else {
            return;
        }
        let mut later = Set::EMPTY;
        if !switch.queue.is_empty() {
            let controls = self.plan.controls();
            let wanted = Wanted { guards: Set::EMPTY, controls, observers: Set::EMPTY };
            let held = Held::Port(reason, desc);
            if self.holds.hold(&mut switch.queue, owner, held, wanted, now).is_some() {
                later = controls;
            }
        }
        for slot in AppSlot::first(self.app_ports.len()) {
            if !later.has(slot) {
                self.app_ports[slot].port(switch, reason, &desc);
            }
        }
        if !switch.queue.is_empty() {
            self.will_advance(owner);
        }
    }

    /// Notes that a switch's queue may advance. It does so once per turn of the worker, not once per packet, as each
    /// time the whole queue is walked.
    fn will_advance(&mut self, owner: ConnId) {
        if self.moved.last() != Some(&owner) {
            self.moved.push(owner);
        }
    }

    /// Announces a new switch to the apps.
    pub(crate) fn switch_up(&mut self, switch: &mut Switch) {
        for app_port in &mut self.app_ports {
            app_port.announce(switch);
        }
    }

    /// Returns which apps do not get the switch because it exchanges no packets; `None` if it does.
    pub(crate) fn no_packets(&self, switch: &Switch) -> Option<NoPackets> {
        let why = switch.no_packets?.to_owned();
        let left_out = self.app_ports.iter().filter(|it| !it.is_absent && !it.takes(switch));
        Some(NoPackets { why, apps: left_out.map(|app_port| app_port.name.clone()).collect() })
    }

    /// Drops the held packets of a switch that is gone, and announces its end to the apps.
    pub(crate) fn switch_down(&mut self, switch: &mut Switch) {
        self.holds.forget(&mut switch.queue);
        for app_port in &mut self.app_ports {
            app_port.switch_down(switch);
        }
    }

    /// Applies verdicts of an app.
    pub(crate) fn verdicts(&mut self, app: AppSlot, verdicts: &mut Vec<Verdict>, now: Instant) {
        for (ticket, stop) in verdicts.drain(..) {
            self.moved.extend(self.holds.verdict(ticket, app, stop, now));
        }
    }

    /// Calls `report` for each app that began or ceased to be skipped, with whether packets go on without it.
    pub(crate) fn skipped(&mut self, mut report: impl FnMut(&AppPort, News, bool)) {
        for news in self.holds.patience.take_news() {
            let (News::Skipped { app } | News::WaitedFor { app, .. }) = news;
            if let Some(app_port) = self.app_ports.get(app.index()) {
                report(app_port, news, self.plan.goes_on_without(app));
            }
        }
    }

    /// Returns whether an app is skipped because it answers too late, and the number of packets that did not wait for
    /// it.
    pub(crate) fn skips(&self, app: AppSlot) -> (bool, u64) {
        (self.holds.patience.skips(app), self.holds.patience.packets(app))
    }

    /// Returns the deadline of the next verdict.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.holds.next_deadline()
    }

    /// Decides about packets whose verdicts are late.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.holds.expire(now, &self.plan, &mut self.moved);
        self.moved.sort_unstable();
        self.moved.dedup();
    }

    /// Calls `report` for each app with late verdicts: with the number of packets that were decided without it, and
    /// whether they went on. Packets for which `report` returns `false` are reported again later.
    pub(crate) fn late(&mut self, mut report: impl FnMut(&AppPort, u64, bool) -> bool) {
        let (app_ports, plan) = (&self.app_ports, &self.plan);
        self.holds.late.retain(|app, packets| {
            let app_port = app_ports.get(app.index());
            app_port.is_some_and(|app_port| !report(app_port, *packets, plan.goes_on_without(*app)))
        });
    }

    /// Returns a switch whose queue may [advance](Self::advance). After an [`expire`](Self::expire) each is returned
    /// once.
    pub(crate) fn next_moved(&mut self) -> Option<ConnId> {
        self.moved.pop()
    }

    /// Delivers the held packets of a switch as far as verdicts allow.
    pub(crate) fn advance(&mut self, switch: &mut Switch, now: Instant) {
        if switch.queue.is_empty() {
            return;
        }
        let mut queue = std::mem::take(&mut switch.queue);
        let mut to = To { app_ports: &mut self.app_ports, switch };
        self.holds.advance(&mut queue, &self.plan, now, &mut to);
        to.switch.queue = queue;
    }
}

#[cfg(test)]
mod tests;
