//! Queues the messages of apps for a switch that does not accept its output at once, and serves the queues in turns.
//!
//! Each app has a queue of its own. They are emptied by deficit round robin over whole messages: in each round an app
//! may send [`QUANTUM`] bytes, and the rest that was too short for its next message is added to its next round. So an
//! app waits for at most one round of another app's messages, however many there are. The messages of one app keep
//! their order.
//!
//! All output of the switch shares one bound. Beyond it each app still has [`GUARANTEED`] bytes, which no other app can use
//! up ([`FairQueue::limit`]).

use std::collections::VecDeque;

use openflow::Header;

use crate::ids::AppSlot;

/// Bytes that an app may send in a round.
const QUANTUM: usize = 16 * 1024;

/// Bytes that an app may always queue, whatever other apps have queued.
const GUARANTEED: usize = 32 * 1024;

/// The queues of one connection; those of apps with nothing to send do not exist.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    /// The queues, in the order of their turns.
    queues: VecDeque<Queue>,
    /// Bytes in all queues.
    size: usize,
}

#[derive(Debug)]
struct Queue {
    app: AppSlot,
    /// Whole messages, from `start` on.
    bytes: Vec<u8>,
    start: usize,
    /// Bytes that it may send in addition to its next quantum.
    deficit: usize,
}

impl Queue {
    fn size(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Returns the size of the whole messages that it may send now.
    fn due(&self) -> &[u8] {
        let (waiting, mut end) = (&self.bytes[self.start..], 0);
        while let Some(length) = waiting.get(end + 2..end + 4) {
            let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
            let next = end + length.max(Header::SIZE);
            if next > self.deficit || next > waiting.len() {
                break;
            }
            end = next;
        }
        &waiting[..end]
    }
}

impl FairQueue {
    /// Bytes in all queues.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Bytes of memory of the queues.
    pub(crate) fn capacity(&self) -> usize {
        self.queues.iter().map(|queue| queue.bytes.capacity()).sum()
    }

    /// The apps with queued messages, and the bytes of these.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (AppSlot, usize)> {
        self.queues.iter().map(|queue| (queue.app, queue.size()))
    }

    /// The app with the most queued bytes, and their number.
    pub(crate) fn largest(&self) -> Option<(AppSlot, usize)> {
        self.sizes().max_by_key(|(_, size)| *size)
    }

    /// Returns the limit of an app's queue: the app's next message is refused if the queue has more bytes.
    ///
    /// The app may use the part of `shared` that neither the `ahead` bytes in front of the queues nor the queues of other
    /// apps take, and at least [`GUARANTEED`].
    pub(crate) fn limit(&self, app: AppSlot, ahead: usize, shared: usize) -> usize {
        let of_app = self.sizes().find(|(of, _)| *of == app).map_or(0, |(_, size)| size);
        let of_others = self.size - of_app;
        shared.saturating_sub(ahead + of_others).max(GUARANTEED)
    }

    /// Swaps `out` with the queue of an app, so that the caller appends messages to it, until
    /// [`give_back`](Self::give_back). Returns the number of bytes at the front of `out` that are sent already: they do not
    /// count against its [`limit`](Self::limit).
    pub(crate) fn lend(&mut self, app: AppSlot, out: &mut Vec<u8>) -> usize {
        let place = self.queues.iter().position(|queue| queue.app == app).unwrap_or_else(|| {
            self.queues.push_back(Queue { app, bytes: Vec::new(), start: 0, deficit: 0 });
            self.queues.len() - 1
        });
        let queue = &mut self.queues[place];
        if queue.start >= queue.bytes.len() / 2 {
            queue.bytes.drain(..queue.start);
            queue.start = 0;
        }
        std::mem::swap(out, &mut queue.bytes);
        queue.start
    }

    /// Undoes [`lend`](Self::lend): swaps the app's queue in `out` with the connection's output. `appended` is the
    /// number of bytes that the caller has added to the queue.
    pub(crate) fn give_back(&mut self, app: AppSlot, out: &mut Vec<u8>, appended: usize) {
        let Some(place) = self.queues.iter().position(|queue| queue.app == app) else { return };
        std::mem::swap(out, &mut self.queues[place].bytes);
        self.size += appended;
        if self.queues[place].size() == 0 {
            self.queues.remove(place);
        }
    }

    /// Moves messages to `out`, app after app, until these are `most` bytes or the queues are empty.
    pub(crate) fn take_turns(&mut self, out: &mut Vec<u8>, most: usize) {
        let end = out.len() + most;
        while out.len() < end {
            let Some(mut queue) = self.queues.pop_front() else { break };
            queue.deficit += QUANTUM;
            let due = queue.due();
            out.extend_from_slice(due);
            let sent = due.len();
            queue.start += sent;
            queue.deficit -= sent;
            self.size -= sent;
            if queue.size() > 0 {
                self.queues.push_back(queue);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 1 << 20;

    /// A message of `size` bytes that contains the app and its own number.
    fn message(app: u8, number: u32, size: u16) -> Vec<u8> {
        let mut message = vec![app; usize::from(size)];
        message[..4].copy_from_slice(&[4, 13, 0, 0]);
        message[2..4].copy_from_slice(&size.to_be_bytes());
        message[4..8].copy_from_slice(&number.to_be_bytes());
        message
    }

    /// Queues a message; `false` if there is no room for it.
    fn push(queue: &mut FairQueue, app: u8, message: &[u8]) -> bool {
        let (mut out, app) = (b"ahead".to_vec(), AppSlot::new(app.into()));
        let limit = queue.limit(app, out.len(), MOST);
        let sent = queue.lend(app, &mut out);
        let has_room = out.len() - sent <= limit;
        if has_room {
            out.extend_from_slice(message);
        }
        queue.give_back(app, &mut out, if has_room { message.len() } else { 0 });
        assert_eq!(out, b"ahead");
        has_room
    }

    fn size_of(queue: &FairQueue, app: usize) -> usize {
        queue.sizes().find(|(of, _)| of.index() == app).map_or(0, |(_, size)| size)
    }

    /// The app and the number of each message of `bytes`, which must be whole, and its size.
    fn read(mut bytes: &[u8]) -> Vec<(u8, u32, usize)> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let size = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
            let (message, rest) = bytes.split_at(size);
            assert!(message[8..].iter().all(|byte| *byte == message[8]), "whole");
            all.push((message[8], u32::from_be_bytes(*message[4..].first_chunk().unwrap()), size));
            bytes = rest;
        }
        all
    }

    #[test]
    fn flooding_app_does_not_delay_others() {
        let mut queue = FairQueue::default();
        let mut flood = (0..).take_while(|number| push(&mut queue, 1, &message(1, *number, 1000)));
        let accepted = flood.by_ref().count();
        assert!((MOST - 2000..=MOST + 1000).contains(&(accepted * 1000)), "{accepted}");
        for app in 2..66 {
            let accepted = (0..).take_while(|it| push(&mut queue, app, &message(app, *it, 1000)));
            assert_eq!(accepted.count(), GUARANTEED / 1000 + 1, "app {app}");
        }
        assert_eq!(queue.largest(), Some((AppSlot::new(1), size_of(&queue, 1))));
        assert!(queue.size() <= MOST + 66 * (GUARANTEED + 1000), "{}", queue.size());
        // The first messages of all apps are among those of one round.
        let mut out = Vec::new();
        queue.take_turns(&mut out, 65 * QUANTUM);
        let sent = read(&out);
        for app in 1..66 {
            let numbers: Vec<u32> =
                sent.iter().filter(|(by, ..)| *by == app).map(|(_, number, _)| *number).collect();
            assert!(numbers.len() >= 15, "app {app}: {}", numbers.len());
            assert!(numbers.iter().copied().eq(0..u32::try_from(numbers.len()).unwrap()));
        }
        assert!(push(&mut queue, 2, &message(2, 0, 1000)), "there is room again");
    }

    #[test]
    fn apps_share_output_by_bytes() {
        let mut queue = FairQueue::default();
        let sizes = [(1, 60_000), (2, 100), (3, 9)];
        let (mut queued, mut sent) = (vec![Vec::new(); 4], vec![Vec::new(); 4]);
        let mut bytes = [0; 4];
        for round in 0..400 {
            for (app, size) in sizes {
                while size_of(&queue, app.into()) < 70_000 {
                    let number = u32::try_from(queued[usize::from(app)].len()).unwrap();
                    assert!(push(&mut queue, app, &message(app, number, size)));
                    queued[usize::from(app)].push(number);
                }
            }
            let mut out = vec![0; round % 7];
            queue.take_turns(&mut out, 30_000);
            for (app, number, size) in read(&out[round % 7..]) {
                sent[usize::from(app)].push(number);
                bytes[usize::from(app)] += size;
            }
        }
        let [_, a, b, c] = bytes;
        assert!(a.abs_diff(b) < 100_000 && b.abs_diff(c) < 100_000, "{bytes:?}");
        let mut out = Vec::new();
        queue.take_turns(&mut out, usize::MAX - 1);
        for (app, number, _) in read(&out) {
            sent[usize::from(app)].push(number);
        }
        assert_eq!((sent, queue.size(), queue.largest()), (queued, 0, None));
    }
}
