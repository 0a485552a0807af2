//! Puts the zone to sleep until there is something to do.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sys::channel::Channel;
use sys::clock::now_ns;

use super::{Guest, Turn, Zone};
use crate::host::ZoneHost;
use crate::outgoing::Outgoing;

impl<A: Guest> Zone<A> {
    /// Sleeps until there is something to do. The last turn of each ring says what that ring waits for.
    pub(super) fn sleep(&mut self, monitor: &Channel) {
        let Some(up_bell) = &self.up_bell else {
            let _ = poll(&mut [PollFd::new(monitor, PollFlags::IN)], None);
            return;
        };
        let mut waiting = false;
        // While the zone reads another ring's part of the snapshot, records of this ring wait.
        let counts = |number: usize, turn: Turn| {
            self.snapshot_of.is_none_or(|ring| ring == number) || turn == Turn::NeedsRoom { had: 0 }
        };
        let ZoneHost { messages, services, server, watched, .. } = self.app.host();
        for (number, (ring, messages)) in self.rings.iter().zip(&mut *messages).enumerate() {
            waiting |= match ring.turn {
                turn if !counts(number, turn) => false,
                Turn::NeedsRoom { had } => messages.prepare_to_wait_for_room(had),
                Turn::Worked | Turn::Idle => messages.prepare_to_sleep(&ring.records),
            };
        }
        if !waiting {
            // Without room, the zone would not call the app when its timer expires either.
            let no_room =
                self.rings.first().is_some_and(|ring| ring.turn == Turn::NeedsRoom { had: 0 });
            let timeout = self.times.wake_at_ns.filter(|_| !no_room).map(|wake_at| {
                let wait = Duration::from_nanos(wake_at.saturating_sub(now_ns()));
                wait.try_into().unwrap_or(Timespec { tv_sec: 3600, tv_nsec: 0 })
            });
            let mut fds =
                vec![PollFd::new(up_bell, PollFlags::IN), PollFd::new(monitor, PollFlags::IN)];
            fds.extend(services.fds());
            fds.extend(server.fds());
            let own = fds.len();
            fds.extend(watched.fds().filter(|_| !no_room));
            let polled = poll(&mut fds, timeout.as_ref()); // interrupted: look again
            if fds.first().is_some_and(|bell| !bell.revents().is_empty()) {
                up_bell.silence();
            }
            if polled.is_ok() && fds.len() > own {
                let results: Vec<_> = fds[own..].iter().map(PollFd::revents).collect();
                drop(fds);
                watched.polled(&results);
            }
        }
        messages.iter_mut().for_each(Outgoing::awake);
    }
}
