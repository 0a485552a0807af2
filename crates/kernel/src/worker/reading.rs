//! Chooses which connections are read, in which order and how much, and applies back-pressure: it leaves switches unread
//! while the apps that they feed are full.
//!
//! ```text
//!           epoll reports bytes              apps are full
//!   drained -----------------> ready -----------------------> paused
//!      ^                       |   ^                            |
//!      +-----------------------+   +----------------------------+
//!           all bytes are read       apps have room, or timeout
//! ```
//!
//! Epoll reports new bytes once, when they come (`EPOLLET`), so that neither a paused switch nor one with more bytes
//! costs a system call. Ready connections are read in turns, each so short that a round over all of them takes
//! their apps some milliseconds. [`BackPressure`](crate::back_pressure::BackPressure) decides how long a switch is
//! paused, from how full its apps are ([`Dispatch::pressure`]).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;

use super::switches::Switches;
use crate::back_pressure::Full;
use crate::connection::{Connection, Peer, Reading, Up};
use crate::dispatch::Dispatch;
use crate::ids::ConnId;

/// The events of a connection that epoll reports.
pub(super) const INTEREST: EventFlags =
    EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);

/// Reads per turn that may cost a signature (0.1 ms, or 1 ms for RSA), so that
/// handshakes delay no connected switch.
const HANDSHAKES: u32 = 4;

/// What may still be read in a turn of the worker: some milliseconds of work, after which apps' messages are taken.
#[derive(Debug, Clone, Copy)]
struct CutTurn {
    connections: usize,
    bytes: usize,
}

impl CutTurn {
    /// At the beginning of a turn.
    const ALL: Self = Self { connections: 256, bytes: 8 << 20 };

    /// Notes that a connection was read, which brought `size` bytes.
    fn spend(&mut self, size: usize) {
        self.connections = self.connections.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
    }

    /// Whether the turn is over.
    fn is_none(self) -> bool {
        self.connections == 0 || self.bytes == 0
    }
}

/// Extra delay before session timeouts while more is to be read than one turn can, and after the worker itself was late
/// by as much.
const CROWDED: Duration = Duration::from_secs(1);

/// How much may be read of a connection at once.
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

/// Since when there may be unread bytes of switches.
///
/// A worker that was late must not take its own delay for silence of the switches that it has still to read. A crowd that
/// stays is read in turns, so its switches are heard in spite of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Overload {
    since: Option<Instant>,
}

impl Overload {
    /// Notes the end of a turn. `crowded`: it left connections unread. The next tick was due at `next`.
    pub(super) fn note(&mut self, crowded: bool, next: Instant, now: Instant) {
        let was_away = now.saturating_duration_since(next) >= CROWDED;
        self.since = match self.since {
            Some(since) if was_away && since + CROWDED <= next => Some(now), // again
            since if crowded || was_away => since.or(Some(now)),
            _ => None,
        };
    }

    /// When the tick that was due at `next` is due now.
    pub(super) fn due(&self, next: Instant) -> Instant {
        self.since.map_or(next, |since| next.max(since + CROWDED))
    }
}

/// The result of reading a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Served {
    /// Bytes that were handled, the partial message of earlier reads included.
    pub(super) size: usize,
    /// Whether there may be more. If nothing was handled, its handshake waits for the next turn.
    pub(super) more: bool,
}

/// The connections with unread bytes.
#[derive(Debug, Default)]
struct Ready {
    /// Those that may be read, in the order of their turns.
    queue: VecDeque<ConnId>,
    /// Those that are paused.
    paused: Vec<ConnId>,
    /// When the first of these must be read.
    until: Option<Instant>,
}

impl Ready {
    /// How many there are.
    fn len(&self) -> usize {
        self.queue.len() + self.paused.len()
    }

    /// Removes a connection from the list that `reading` names.
    fn forget(&mut self, key: ConnId, reading: Reading) {
        match reading {
            Reading::Drained => {}
            Reading::Ready => self.queue.retain(|other| *other != key),
            Reading::Paused => self.paused.retain(|other| *other != key),
        }
    }

    fn pause(&mut self, key: ConnId, until: Instant) {
        self.paused.push(key);
        self.until = Some(self.until.map_or(until, |other| other.min(until)));
    }
}

/// Decides what is read; see the module's description.
#[derive(Debug)]
pub(super) struct Reader {
    ready: Ready,
    /// The rest of the worker's turn.
    left: CutTurn,
    /// Connections that are still to be read once in this turn.
    turns: usize,
    /// Reads of handshakes that are left in this turn.
    handshakes: u32,
    /// Bytes read of one switch before the next one is read, at most.
    most: usize,
    crowd: Overload,
}

impl Reader {
    /// A reader that reads at most `most` bytes of a switch at once.
    pub(super) fn new(most: usize) -> Self {
        Self {
            ready: Ready::default(),
            left: CutTurn::ALL,
            turns: 0,
            handshakes: HANDSHAKES,
            most,
            crowd: Overload::default(),
        }
    }

    /// Whether a connection may be read at once.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.queue.is_empty()
    }

    /// When [`resume`](Self::resume) is due if no app gets room before.
    pub(super) fn until(&self) -> Option<Instant> {
        self.ready.until
    }

    /// The end of a turn of the worker; see [`Overload::note`].
    pub(super) fn end_turn(&mut self, crowded: bool, next_tick: Instant, now: Instant) {
        self.crowd.note(crowded, next_tick, now);
    }

    /// When the tick is due that was to be at `next`.
    pub(super) fn tick_due(&self, next: Instant) -> Instant {
        self.crowd.due(next)
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
            self.ready.forget(id, connection.reading);
            connection.reading = Reading::Ready;
            self.ready.queue.push_back(id);
        }
    }

    /// Forgets a connection that is being closed.
    pub(super) fn forget(&mut self, id: ConnId, connection: &Connection) {
        self.ready.forget(id, connection.reading);
    }

    /// Begins a round: each connection that is ready now is read once, as far as the turn allows.
    pub(super) fn begin_round(&mut self) {
        (self.left, self.turns) = (CutTurn::ALL, self.ready.queue.len());
        self.handshakes = HANDSHAKES;
    }

    /// The connection to be read next; `None` at the end of the round.
    pub(super) fn next(&mut self) -> Option<ConnId> {
        if self.turns == 0 || self.left.is_none() {
            return None;
        }
        let id = self.ready.queue.pop_front();
        self.turns = if id.is_some() { self.turns - 1 } else { 0 };
        id
    }

    /// Whether the round ended before each connection was read.
    pub(super) fn is_cut_short(&self) -> bool {
        self.turns > 0
    }

    /// Lists a connection again that was read, if it may have more.
    pub(super) fn put_back(
        &mut self,
        id: ConnId,
        connection: Option<&mut Connection>,
        served: Served,
    ) {
        self.left.spend(served.size);
        let Some(connection) = connection.filter(|_| served.more) else { return };
        connection.reading = Reading::Ready;
        if connection.phase.up().is_some_and(|up| up.turn > 0) {
            self.ready.queue.push_front(id); // its turn goes on
            self.turns += 1;
        } else {
            self.ready.queue.push_back(id);
        }
    }

    /// Takes one of the turn's reads of handshakes; `false` if none is left.
    pub(super) fn take_handshake(&mut self) -> bool {
        let left = self.handshakes.checked_sub(1);
        self.handshakes = left.unwrap_or_default();
        left.is_some()
    }

    /// How much may be read of a connection that has sent something; `None` if it is paused.
    ///
    /// A connection whose other side is gone is read to its end.
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
        let active = self.ready.len() + 1;
        let pressure = dispatch.pressure(switch, active, self.most, now);
        if connection.peer != Peer::Gone
            && let Some(until) = back_pressure.wait(pressure.full, now)
        {
            // Unread bytes are a sign of life too.
            connection.session.heard(now);
            connection.reading = Reading::Paused;
            switch.counters.pauses += 1;
            dispatch.hold_back(switch.dpid.0);
            self.ready.pause(id, until);
            return None;
        }
        back_pressure.read();
        switch.vital.refresh(now);
        let most = if pressure.full == Full::None {
            // Half a turn at least, as turns may have become shorter.
            pressure.turn.saturating_sub(*turn).max(pressure.turn / 2)
        } else {
            // After a pause, a whole buffer: behind what waited stand the switch's echo requests.
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
        let active = self.ready.len();
        for id in std::mem::take(&mut self.ready.paused) {
            let Some(connection) = switches.get_mut(id) else { continue };
            let Some(Up { switch, back_pressure, .. }) = connection.phase.up_mut() else {
                continue;
            };
            let full = dispatch.pressure(switch, active, self.most, now).full;
            if let Some(until) = back_pressure.wait(full, now) {
                self.ready.pause(id, until);
            } else {
                // Those that have waited longest come first.
                connection.reading = Reading::Ready;
                self.ready.queue.push_back(id);
            }
        }
    }
}

impl Share {
    /// Notes that `size` bytes were read of `connection`, and whether there are more. A turn that the apps' lack of
    /// room has cut short goes on as soon as they have some, so that all switches get as much.
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

/// Returns the used part of a turn of `all` bytes, `turn` of which were used before a read of `size` bytes out of `most`
/// allowed; 0 if the turn is over.
fn after(turn: usize, (size, most): (usize, usize), all: usize) -> usize {
    let is_cut_short = turn.saturating_add(most) < all;
    if is_cut_short { turn + size.min(most) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn_is_over_after_so_many_connections_or_bytes() {
        for (size, reads) in [(0, 256), (1, 256), (32 << 10, 256), (256 << 10, 32), (9 << 20, 1)] {
            let mut left = CutTurn::ALL;
            for _ in 1..reads {
                left.spend(size);
                assert!(!left.is_none(), "{size}");
            }
            left.spend(size);
            assert!(left.is_none(), "{size}");
        }
    }

    #[test]
    fn crowd_and_absence_put_a_tick_off_from_when_they_were_noticed() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let due = |crowd: &mut Overload, crowded, next, now| {
            crowd.note(crowded, start + ms(next), start + ms(now));
            crowd.due(start + ms(next)).duration_since(start)
        };
        let crowd = &mut Overload::default();
        assert_eq!(due(crowd, false, 100, 50), ms(100));
        assert_eq!(due(crowd, true, 100, 150), ms(1150));
        assert_eq!(due(crowd, true, 100, 900), ms(1150), "from its beginning");
        assert_eq!(due(crowd, true, 1300, 1200), ms(1300), "it has lasted");
        assert_eq!(due(crowd, false, 1300, 1250), ms(1300));
        assert_eq!(due(crowd, false, 1300, 17_000), ms(18_000), "we were away");
        assert_eq!(due(crowd, false, 1300, 17_500), ms(18_000));
        assert_eq!(due(crowd, true, 19_000, 18_990), ms(19_000));
        assert_eq!(due(crowd, true, 19_000, 40_000), ms(41_000), "away from a crowd");
        assert_eq!(due(crowd, true, 19_000, 41_100), ms(41_000), "turns are long, and it ticks");
    }

    #[test]
    fn turn_goes_on_where_the_lack_of_room_has_cut_it_short_and_is_no_longer_than_another() {
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
