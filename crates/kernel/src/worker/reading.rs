//! Chooses which connections are read, in which order and how much, and applies back-pressure: it leaves switches
//! unread while the apps that they feed are full.
//!
//! ```text
//!           epoll reports bytes              apps are full
//!   drained -----------------> ready -----------------------> paused
//!      ^                       |   ^                            |
//!      +-----------------------+   +----------------------------+
//!           all bytes are read       apps have room, or timeout
//! ```
//!
//! Epoll reports new bytes once, when they arrive (`EPOLLET`), so that neither a paused switch nor one with more bytes
//! costs a system call. Ready connections are read in turns, each so short that the apps need only some milliseconds
//! for a round over all of them. [`BackPressure`](crate::back_pressure::BackPressure) decides how long a switch is
//! paused, from how full its apps are ([`Dispatch::pressure`]).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use super::fair_reading::FairQueues;
use super::switches::Switches;
use crate::back_pressure::FullApps;
use crate::connection::{Connection, Peer, Reading, Up};
use crate::dispatch::Dispatch;
use crate::ids::{AppSlot, ConnId};
use crate::session_shares::{Payer, ROUND, Shares};

/// The events of a connection that epoll reports.
pub(super) const INTEREST: EventFlags =
    EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);

/// Reads per turn that may cost a signature (0.1 ms, or 1 ms for RSA): more would delay connected switches.
const HANDSHAKES: u32 = 4;

/// The connections and bytes that the worker may still read in this turn: some milliseconds of work, after which it
/// takes the apps' messages.
#[derive(Debug, Clone, Copy)]
struct TurnBudget {
    connections: usize,
    bytes: usize,
}

impl TurnBudget {
    /// At the beginning of a turn.
    const ALL: Self = Self { connections: 256, bytes: 8 << 20 };

    /// The same while sessions reserve packet-ins: so short that a flood delays another session by about a round.
    const FAIR: Self = Self { bytes: 2 * ROUND, ..Self::ALL };

    /// Subtracts one connection, from which `size` bytes were read.
    fn spend(&mut self, size: usize) {
        self.connections = self.connections.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
    }

    /// Whether the turn is over.
    fn is_spent(self) -> bool {
        self.connections == 0 || self.bytes == 0
    }
}

/// Extra delay before session timeouts while switches have more unread bytes than one turn can read, and after the
/// worker itself was late by as much.
const OVERLOAD_DELAY: Duration = Duration::from_secs(1);

/// How much may be read from a connection at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// In bytes.
    pub(super) most: usize,
    /// The length of its whole turn, in bytes.
    turn: usize,
}

impl Share {
    /// No bound.
    const ALL: Self = Self { most: usize::MAX, turn: 0 };
}

/// When the worker began to leave bytes of switches unread at the end of its turns.
///
/// A worker that was late must not mistake its own delay for silence of switches that it has not read yet. The delay is
/// granted once: in a lasting overload switches are read in turns, so the worker does receive their messages.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Overload {
    since: Option<Instant>,
}

impl Overload {
    /// Notes the end of a turn. `is_cut_short`: connections remained unread. The next tick was due at `next`.
    pub(super) fn note(&mut self, is_cut_short: bool, next: Instant, now: Instant) {
        let was_away = now.saturating_duration_since(next) >= OVERLOAD_DELAY;
        self.since = match self.since {
            Some(since) if was_away && since + OVERLOAD_DELAY <= next => Some(now), // again
            since if is_cut_short || was_away => since.or(Some(now)),
            _ => None,
        };
    }

    /// Returns when the tick that was due at `next` is due now.
    pub(super) fn due(&self, next: Instant) -> Instant {
        self.since.map_or(next, |since| next.max(since + OVERLOAD_DELAY))
    }
}

/// The result of reading a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Served {
    /// Bytes that were handled, including the partial message of earlier reads.
    pub(super) size: usize,
    /// Whether there may be more. If no bytes were handled, the handshake waits for the next turn.
    pub(super) more: bool,
}

/// The connections with unread bytes.
#[derive(Debug, Default)]
struct Ready {
    /// Those that may be read, in the order of their turns; empty if there are [`fair`](Self::fair) queues.
    queue: VecDeque<ConnId>,
    /// Those that may be read, if sessions reserve packet-ins.
    fair: Option<Box<FairQueues>>,
    /// Those that are paused.
    paused: Vec<ConnId>,
    /// When the first of the paused connections must be read.
    until: Option<Instant>,
}

impl Ready {
    /// The number of connections among which turns are divided: the ready ones, of the same payer if there are several, and
    /// the paused ones.
    fn active(&self, payer: Payer) -> usize {
        let ready = self.fair.as_ref().map_or(self.queue.len(), |fair| fair.ready_of(payer));
        ready + self.paused.len()
    }

    /// Removes a connection from the list that `reading` names.
    fn forget(&mut self, key: ConnId, reading: Reading, payer: Payer) {
        match (reading, &mut self.fair) {
            (Reading::Drained, _) => {}
            (Reading::Ready, None) => self.queue.retain(|other| *other != key),
            (Reading::Ready, Some(fair)) => fair.forget(key, payer),
            (Reading::Paused, _) => self.paused.retain(|other| *other != key),
        }
    }

    /// Lists a connection behind the others that may be read.
    #[inline]
    fn push_back(&mut self, key: ConnId, payer: Payer) {
        match &mut self.fair {
            None => self.queue.push_back(key),
            Some(fair) => fair.push_back(key, payer),
        }
    }

    fn pause(&mut self, key: ConnId, until: Instant) {
        self.paused.push(key);
        self.until = Some(self.until.map_or(until, |other| other.min(until)));
    }
}

/// Chooses the connections to read; see the module's description.
#[derive(Debug)]
pub(super) struct Reader {
    ready: Ready,
    /// The rest of the worker's turn.
    budget: TurnBudget,
    /// Connections that this turn has yet to read once.
    turns: usize,
    /// Reads of handshakes that are left in this turn.
    handshakes: u32,
    /// Most bytes that are read from one switch before the next one.
    most: usize,
    overload: Overload,
}

impl Reader {
    /// A reader that reads at most `most` bytes from a switch at once.
    pub(super) fn new(most: usize) -> Self {
        Self {
            ready: Ready::default(),
            budget: TurnBudget::ALL,
            turns: 0,
            handshakes: HANDSHAKES,
            most,
            overload: Overload::default(),
        }
    }

    /// Whether a connection may be read at once.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.queue.is_empty() || self.ready.fair.as_ref().is_some_and(|it| it.has_ready())
    }

    /// Divides the reading by the shares of sessions from now on, or in plain turns without any.
    pub(super) fn set_shares(
        &mut self,
        shares: Option<Shares>,
        switches: &mut Switches,
        dispatch: &Dispatch,
    ) {
        let mut ready = std::mem::take(&mut self.ready.queue);
        ready.extend(self.ready.fair.iter_mut().flat_map(|fair| fair.drain()));
        self.ready.fair = shares.map(|shares| Box::new(FairQueues::new(shares)));
        for id in ready {
            let payer = switches.get(id).map_or(Payer::NONE, |connection| connection.payer);
            self.ready.push_back(id, payer);
        }
        self.assign(switches, dispatch);
    }

    /// Names the payers of all switches, after the plan or the sessions of apps have changed.
    pub(super) fn assign(&mut self, switches: &mut Switches, dispatch: &Dispatch) {
        if let Some(fair) = &mut self.ready.fair {
            fair.assign(switches, dispatch);
        }
    }

    /// Names the payer of a switch that is up now.
    pub(super) fn classify(
        &mut self,
        id: ConnId,
        connection: &mut Connection,
        dispatch: &Dispatch,
    ) {
        if let Some(fair) = &mut self.ready.fair {
            fair.classify(id, connection, dispatch);
        }
    }

    /// The part of `all` records that an app of `members` may have handled in a turn of the worker.
    pub(super) fn portion(&self, slot: AppSlot, members: usize, all: usize) -> usize {
        self.ready.fair.as_ref().map_or(all, |fair| fair.portion(slot, members, all))
    }

    /// Notes that a connection is read now.
    #[inline]
    pub(super) fn begin_read(&mut self, dispatch: &Dispatch) {
        if let Some(fair) = &mut self.ready.fair {
            fair.begin_read(&dispatch.app_ports);
        }
    }

    /// Charges the apps for a read of `size` bytes.
    #[inline]
    pub(super) fn charge(&mut self, payer: Payer, size: usize, dispatch: &Dispatch) {
        if let Some(fair) = &mut self.ready.fair {
            fair.charge(payer, size, &dispatch.app_ports);
        }
    }

    /// When [`resume`](Self::resume) is due if no app gets room before.
    pub(super) fn until(&self) -> Option<Instant> {
        self.ready.until
    }

    /// Ends a turn of the worker; see [`Overload::note`].
    pub(super) fn end_turn(&mut self, is_cut_short: bool, next_tick: Instant, now: Instant) {
        self.overload.note(is_cut_short, next_tick, now);
    }

    /// Returns when the tick is due that was planned for `next`.
    pub(super) fn tick_due(&self, next: Instant) -> Instant {
        self.overload.due(next)
    }

    /// Applies what epoll reported about a connection.
    pub(super) fn note_event(
        &mut self,
        id: ConnId,
        connection: &mut Connection,
        flags: EventFlags,
    ) {
        if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            connection.peer = Peer::Gone;
        } else if flags.contains(EventFlags::RDHUP) {
            connection.peer = connection.peer.max(Peer::HasEnded);
        }
        let input = EventFlags::IN | EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP;
        let listed = match connection.reading {
            Reading::Drained => !flags.intersects(input),
            Reading::Ready => true,
            Reading::Paused => connection.peer != Peer::Gone,
        };
        if !listed {
            self.ready.forget(id, connection.reading, connection.payer);
            connection.reading = Reading::Ready;
            self.ready.push_back(id, connection.payer);
        }
    }

    /// Forgets a connection that is being closed.
    pub(super) fn forget(&mut self, id: ConnId, connection: &Connection) {
        self.ready.forget(id, connection.reading, connection.payer);
    }

    /// Begins a round: each connection that is ready now is read once, as far as the turn allows.
    pub(super) fn begin_round(&mut self) {
        (self.budget, self.turns) = (TurnBudget::ALL, self.ready.queue.len());
        self.handshakes = HANDSHAKES;
        if let Some(fair) = &mut self.ready.fair {
            self.budget = TurnBudget::FAIR;
            fair.begin_round();
        }
    }

    /// The connection to be read next; `None` at the end of the round.
    pub(super) fn next(&mut self) -> Option<ConnId> {
        if let Some(fair) = &mut self.ready.fair {
            return if self.budget.is_spent() { None } else { fair.next() };
        }
        if self.turns == 0 || self.budget.is_spent() {
            return None;
        }
        let id = self.ready.queue.pop_front();
        self.turns = if id.is_some() { self.turns - 1 } else { 0 };
        id
    }

    /// Whether the round ended before each connection was read.
    pub(super) fn is_cut_short(&self) -> bool {
        self.turns > 0 || self.ready.fair.as_ref().is_some_and(|fair| fair.is_cut_short())
    }

    /// Lists a connection that was read again, if it may have more bytes.
    pub(super) fn put_back(
        &mut self,
        id: ConnId,
        connection: Option<&mut Connection>,
        served: Served,
    ) {
        self.budget.spend(served.size);
        let Some(connection) = connection.filter(|_| served.more) else { return };
        connection.reading = Reading::Ready;
        if connection.phase.up().is_none_or(|up| up.turn == 0) {
            self.ready.push_back(id, connection.payer);
        } else if let Some(fair) = &mut self.ready.fair {
            fair.push_front(id, connection.payer);
        } else {
            self.ready.queue.push_front(id); // its turn goes on
            self.turns += 1;
        }
    }

    /// Takes one of the turn's reads of handshakes; `false` if none is left.
    pub(super) fn take_handshake(&mut self) -> bool {
        let left = self.handshakes.checked_sub(1);
        self.handshakes = left.unwrap_or_default();
        left.is_some()
    }

    /// Returns how much may be read from a connection that has sent something; `None` if it is paused.
    ///
    /// A connection whose peer is gone is never paused.
    pub(super) fn may_read(
        &mut self,
        id: ConnId,
        connection: &mut Connection,
        dispatch: &mut Dispatch,
        now: Instant,
    ) -> Option<Share> {
        let Some(Up { switch, back_pressure, turn, .. }) = connection.phase.up_mut() else {
            return Some(Share::ALL);
        };
        let active = self.ready.active(connection.payer) + 1;
        let pressure = dispatch.pressure(switch, active, self.most, now);
        if connection.peer != Peer::Gone
            && let Some(until) = back_pressure.pause_until(pressure.full, now)
        {
            // Unread bytes show that the switch lives, too.
            connection.session.note_received(now);
            connection.reading = Reading::Paused;
            switch.counters.pauses += 1;
            dispatch.hold_back(switch.dpid.0);
            self.ready.pause(id, until);
            return None;
        }
        back_pressure.end_pause();
        switch.vital.refresh(now);
        let most = if pressure.full == FullApps::NotWorthWaiting {
            // At least half a turn, as turns may have become shorter.
            let rest = pressure.turn.saturating_sub(*turn).max(pressure.turn / 2);
            let fair = self.ready.fair.as_ref();
            fair.map_or(rest, |fair| rest.min(fair.allowance(connection.payer)))
        } else {
            // After a pause, a whole buffer: the switch's echo requests are behind the bytes that waited.
            usize::MAX
        };
        Some(Share { most: pressure.room.min(most), turn: pressure.turn })
    }

    /// Moves paused connections to the ready ones if their timeout has passed or their apps have room.
    pub(super) fn resume(
        &mut self,
        switches: &mut Switches,
        dispatch: &mut Dispatch,
        now: Instant,
    ) {
        let room_came = dispatch.room_came(now);
        let Some(until) = self.ready.until else { return };
        if !room_came && now < until {
            return;
        }
        self.ready.until = None;
        let plain = self.ready.active(Payer::NONE);
        let is_fair = self.ready.fair.is_some();
        for id in std::mem::take(&mut self.ready.paused) {
            let Some(connection) = switches.get_mut(id) else { continue };
            let active = if is_fair { self.ready.active(connection.payer) } else { plain };
            let Some(Up { switch, back_pressure, .. }) = connection.phase.up_mut() else {
                continue;
            };
            let full = dispatch.pressure(switch, active, self.most, now).full;
            if let Some(until) = back_pressure.pause_until(full, now) {
                self.ready.pause(id, until);
            } else {
                // Those that have waited longest come first.
                connection.reading = Reading::Ready;
                self.ready.push_back(id, connection.payer);
            }
        }
    }
}

impl Share {
    /// Notes that `size` bytes were read from `connection`, and whether there are more. A turn that ended early because
    /// the apps had no room continues as soon as they have some, so that all switches receive equal shares.
    pub(super) fn note(
        self,
        connection: &mut Connection,
        dispatch: &mut Dispatch,
        size: usize,
        more: bool,
    ) {
        let Some(Up { switch, turn, .. }) = connection.phase.up_mut() else { return };
        let most = if more { self.most } else { usize::MAX };
        *turn = after(*turn, (size, most), self.turn);
        if more {
            dispatch.hold_back(switch.dpid.0);
        }
    }
}

/// Returns how many bytes of a turn of `all` bytes are used, or 0 if the turn is over. `turn` bytes were used before a
/// read of `size` bytes, which was limited to `most`.
fn after(turn: usize, (size, most): (usize, usize), all: usize) -> usize {
    let is_cut_short = turn.saturating_add(most) < all;
    if is_cut_short { turn + size.min(most) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn_ends_after_256_connections_or_8_mib() {
        for (size, reads) in [(0, 256), (1, 256), (32 << 10, 256), (256 << 10, 32), (9 << 20, 1)] {
            let mut budget = TurnBudget::ALL;
            for _ in 1..reads {
                budget.spend(size);
                assert!(!budget.is_spent(), "{size}");
            }
            budget.spend(size);
            assert!(budget.is_spent(), "{size}");
        }
    }

    #[test]
    fn overload_and_absence_delay_a_tick_once() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let due = |overload: &mut Overload, is_cut_short, next, now| {
            overload.note(is_cut_short, start + ms(next), start + ms(now));
            overload.due(start + ms(next)).duration_since(start)
        };
        let overload = &mut Overload::default();
        assert_eq!(due(overload, false, 100, 50), ms(100));
        assert_eq!(due(overload, true, 100, 150), ms(1150));
        assert_eq!(due(overload, true, 100, 900), ms(1150), "from its beginning");
        assert_eq!(due(overload, true, 1300, 1200), ms(1300), "it has lasted");
        assert_eq!(due(overload, false, 1300, 1250), ms(1300));
        assert_eq!(due(overload, false, 1300, 17_000), ms(18_000), "we were away");
        assert_eq!(due(overload, false, 1300, 17_500), ms(18_000));
        assert_eq!(due(overload, true, 19_000, 18_990), ms(19_000));
        assert_eq!(due(overload, true, 19_000, 40_000), ms(41_000), "away during an overload");
        assert_eq!(due(overload, true, 19_000, 41_100), ms(41_000), "turns are long, and it ticks");
    }

    #[test]
    fn turn_cut_short_by_full_apps_continues() {
        let mut turn = 0;
        for (room, used) in [(30, 30), (50, 80), (10, 90), (70, 0), (100, 0), (120, 0), (99, 99)] {
            let most = room.min(100 - turn);
            turn = after(turn, (most, most), 100);
            assert_eq!(turn, used, "{room}");
        }
        assert_eq!(after(20, (90, 30), 100), 50, "a message that was cut before is not read again");
        assert_eq!(after(20, (9, usize::MAX), 100), 0, "nothing is left to be read");
    }
}
