//! Which connections are read, and back-pressure: switches are left unread while the apps that they
//! feed are full (design §5).
//!
//! ```text
//!             epoll tells once              apps are full
//!   drained -----------------> ready -----------------------> paused
//!      ^                       |   ^                            |
//!      +-----------------------+   +----------------------------+
//!             all was read            apps have room, or time is up
//! ```
//!
//! Epoll tells of new bytes once, when they come (`EPOLLET`), so that neither a switch that waits nor
//! one that has more to be read costs a system call. Those that are ready are read in turns, a little
//! each: so little that a round takes their apps some milliseconds. [`BackPressure`](crate::back_pressure::BackPressure) decides how long one is
//! paused, from how full its apps are ([`Dispatch`](crate::dispatch)).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use tracing::{info, warn};

use super::Worker;
use crate::app_port::News;
use crate::back_pressure::Full;
use crate::connection::{Peer, Reading, Up};
use crate::ids::ConnId;

/// What epoll is to tell of a connection.
pub(super) const INTEREST: EventFlags =
    EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);

/// What may still be read in a turn, so that apps are heard soon: some milliseconds' work.
#[derive(Debug, Clone, Copy)]
struct Left {
    connections: usize,
    bytes: usize,
}

impl Left {
    /// At the beginning of a turn.
    const ALL: Self = Self { connections: 256, bytes: 8 << 20 };

    /// A connection was read, which brought so many bytes.
    fn spend(&mut self, size: usize) {
        self.connections = self.connections.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(size);
    }

    /// Whether the turn is over.
    fn is_none(self) -> bool {
        self.connections == 0 || self.bytes == 0
    }
}

/// How much later than else sessions are asked whether they have lost patience, while more is to be read than a turn
/// can, and after an absence that is as long.
const CROWDED: Duration = Duration::from_secs(1);

/// What may be read of a connection at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    /// How many bytes.
    pub(super) most: usize,
    /// How many bytes its whole turn is.
    turn: usize,
}

impl Share {
    /// Whatever there is.
    const ALL: Self = Self { most: usize::MAX, turn: 0 };
}

/// Since when there may be more that was sent than was read.
///
/// A long absence of ours must not count as silence of those who are still to be read, of whom epoll may have told a
/// few before it began; but a crowd that stays is read in turns.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Crowd {
    since: Option<Instant>,
}

impl Crowd {
    /// A turn has ended, with more to be read than it could, if `crowded`; the next tick was to be at `next`.
    pub(super) fn note(&mut self, crowded: bool, next: Instant, now: Instant) {
        let was_away = now.saturating_duration_since(next) >= CROWDED;
        self.since = match self.since {
            Some(since) if was_away && since + CROWDED <= next => Some(now), // again
            since if crowded || was_away => since.or(Some(now)),
            _ => None,
        };
    }

    /// When the tick is due that was to be at `next`.
    pub(super) fn due(&self, next: Instant) -> Instant {
        self.since.map_or(next, |since| next.max(since + CROWDED))
    }
}

/// What came of reading a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Served {
    /// Bytes that were handled, with the beginning of a message that was kept from before.
    pub(super) size: usize,
    /// Whether there may be more. If nothing was handled, its handshake waits for another turn.
    pub(super) more: bool,
}

/// The connections that have something to be read.
#[derive(Debug, Default)]
pub(super) struct Ready {
    /// Those that may be read, in the order of their turns.
    queue: VecDeque<ConnId>,
    /// Those that are paused.
    paused: Vec<ConnId>,
    /// When the first of these has waited long enough.
    until: Option<Instant>,
}

impl Ready {
    /// How many there are.
    fn len(&self) -> usize {
        self.queue.len() + self.paused.len()
    }

    /// Whether there is one that may be read.
    pub(super) fn any(&self) -> bool {
        !self.queue.is_empty()
    }

    /// When [`Worker::resume`] has something to do, whatever else happens.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Forgets a connection that is read so.
    pub(super) fn forget(&mut self, key: ConnId, reading: Reading) {
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

impl Worker {
    /// Epoll tells of a connection.
    pub(super) fn told(&mut self, key: ConnId, flags: EventFlags) {
        let Some(connection) = self.connections.get_mut(key.0) else { return };
        if flags.contains(EventFlags::OUT)
            && connection.is_blocked()
            && !connection.output.is_listed
        {
            connection.output.is_listed = true;
            self.dirty.push(key);
        }
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
            self.ready.forget(key, connection.reading);
            connection.reading = Reading::Ready;
            self.ready.queue.push_back(key);
        }
    }

    /// Reads those that are ready, each once. `true` if there were more than a turn can read.
    pub(super) fn read_ready(&mut self, buffer: &mut [u8], now: Instant) -> bool {
        let (mut left, mut turns) = (Left::ALL, self.ready.queue.len());
        while turns > 0 {
            if left.is_none() {
                return true;
            }
            let Some(key) = self.ready.queue.pop_front() else { break };
            // Not in the queue: whoever closes it need not look for it there.
            if let Some(connection) = self.connections.get_mut(key.0) {
                connection.reading = Reading::Drained;
            }
            let served = self.serve(key, buffer, now);
            left.spend(served.size);
            if served.more
                && let Some(connection) = self.connections.get_mut(key.0)
            {
                connection.reading = Reading::Ready;
                if connection.phase.up().is_some_and(|up| up.turn > 0) {
                    self.ready.queue.push_front(key); // its turn goes on
                    continue;
                }
                self.ready.queue.push_back(key);
            }
            turns -= 1;
        }
        false
    }

    /// How many bytes may be read of a connection that has sent something; `None` if it is to wait.
    ///
    /// One whose other side is gone is read to its end.
    pub(super) fn may_read(&mut self, key: ConnId, now: Instant) -> Option<Share> {
        let connection = &mut self.connections[key.0];
        let Some(Up { switch, back_pressure, turn, .. }) = connection.phase.up_mut() else {
            return Some(Share::ALL);
        };
        let active = self.ready.len() + 1;
        let pressure = self.dispatch.pressure(switch, active, self.read, now);
        if connection.peer != Peer::Gone
            && let Some(until) = back_pressure.wait(pressure.full, now)
        {
            // What it has sent is a sign of life, read or not.
            connection.session.heard(now);
            connection.reading = Reading::Paused;
            switch.counters.pauses += 1;
            self.dispatch.hold_back(switch.dpid.0);
            self.ready.pause(key, until);
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

    /// Notes that `size` bytes were read of a connection, and whether there are more. A turn that the apps' lack of
    /// room has cut short goes on as soon as they have some, so that all get as much.
    pub(super) fn note_turn(&mut self, key: ConnId, size: usize, share: Share, more: bool) {
        let Some(connection) = self.connections.get_mut(key.0) else { return };
        let Some(Up { switch, turn, .. }) = connection.phase.up_mut() else { return };
        let most = if more { share.most } else { usize::MAX };
        *turn = after(*turn, (size, most), share.turn);
        if more {
            self.dispatch.hold_back(switch.dpid.0);
        }
    }

    /// Lets those be read that have waited long enough, or whose apps have room.
    pub(super) fn resume(&mut self, now: Instant) {
        let room_came = self.dispatch.room_came(now);
        let Some(until) = self.ready.until else { return };
        if !room_came && now < until {
            return;
        }
        self.ready.until = None;
        let active = self.ready.len();
        for key in std::mem::take(&mut self.ready.paused) {
            let Some(connection) = self.connections.get_mut(key.0) else { continue };
            let Some(Up { switch, back_pressure, .. }) = connection.phase.up_mut() else {
                continue;
            };
            let full = self.dispatch.pressure(switch, active, self.read, now).full;
            if let Some(until) = back_pressure.wait(full, now) {
                self.ready.pause(key, until);
            } else {
                // Those that have waited longest come first.
                connection.reading = Reading::Ready;
                self.ready.queue.push_back(key);
            }
        }
    }

    /// Tells the operator which apps have begun to lose packet-ins, and which no longer do.
    pub(super) fn tell_drops(&mut self, now: Instant) {
        for app_port in &mut self.dispatch.app_ports {
            let app = &app_port.name;
            match app_port.counts.news(now) {
                Some(News::Began) if app_port.is_attached() => {
                    warn!(app, "the app does not keep up; packet-ins for it are dropped");
                }
                Some(News::Began) => {
                    warn!(
                        app,
                        "the app is away and too many wait for it; packet-ins for it are dropped"
                    );
                }
                Some(News::Ended { dropped, took }) => {
                    info!(app, dropped, ?took, "packet-ins for the app are no longer dropped");
                }
                None => {}
            }
        }
    }
}

/// How much of a turn of `all` bytes is used, of which `turn` were, when `size` of `most` that might be were read;
/// 0 if it is over.
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
            let mut left = Left::ALL;
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
        let due = |crowd: &mut Crowd, crowded, next, now| {
            crowd.note(crowded, start + ms(next), start + ms(now));
            crowd.due(start + ms(next)).duration_since(start)
        };
        let crowd = &mut Crowd::default();
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
        assert_eq!(after(20, (90, 30), 100), 50, "a message that was cut before is not read anew");
        assert_eq!(after(20, (9, usize::MAX), 100), 0, "nothing is left to be read");
    }
}
