//! Gathers the output of a connection in one buffer, and writes it with one system call per turn of the worker.
//!
//! While the switch accepts all output at once, messages of apps are appended to that buffer in the order of arrival.
//! While the socket is full, or much output waits, or if the app has a pace, they join a queue per app ([`AppQueues`]). As the
//! socket accepts output, the queues are emptied in turns. The kernel's own messages are always appended to the buffer.

use std::io;
use std::time::{Duration, Instant};

use super::Connection;
use crate::app_queues::{AppQueues, OutputTurn};
use crate::ids::AppSlot;

/// Output above which messages of apps are refused, in bytes.
pub(crate) const FULL: usize = 1 << 20;

/// Output above which messages of apps wait in a queue per app, in bytes. A switch rarely accepts as much at once.
const DIRECT: usize = FULL / 2;

/// Queued messages that become output at once, in bytes.
const PORTION: usize = 64 * 1024;

/// Output above which the connection of a switch that does not read is closed, in bytes.
const TOO_MUCH: usize = 4 << 20;

/// Time for which a full socket may accept no byte before the connection is closed.
const STUCK: Duration = Duration::from_secs(15);

/// The reason for disconnecting a switch that does not read its output.
pub(crate) const DOES_NOT_READ: &str = "it does not read what is sent to it";

/// Messages of one app that are being appended to the output, until [`Connection::end_run`].
#[derive(Debug)]
#[must_use = "the output is the app's queue until the run is ended"]
pub(crate) struct AppRun {
    /// Bytes of `out` above which the app's next message is refused.
    pub(crate) limit: usize,
    /// Bytes of `out` before the run.
    before: usize,
    /// The app whose queue `out` is; `None` for the output itself.
    queue: Option<AppSlot>,
}

impl AppRun {
    /// Whether the messages wait in the app's queue.
    pub(crate) fn is_queued(&self) -> bool {
        self.queue.is_some()
    }
}

/// The state of a connection's output beside the bytes themselves.
#[derive(Debug, Default)]
pub(crate) struct OutputState {
    /// Bytes at the front of `out` that are sent.
    sent: usize,
    /// Bytes at the front of `out` that the driver has translated; OpenFlow messages follow.
    sealed: usize,
    /// Messages of apps that follow `out`; `None` if there are none and no app of this connection is paced.
    queues: Option<Box<AppQueues>>,
    /// Whether the worker's list of connections with output names this one.
    pub(crate) is_listed: bool,
    /// When the full socket last accepted a byte, while epoll watches it.
    blocked: Option<Instant>,
    /// Whether the last flush wrote anything.
    wrote: bool,
}

impl OutputState {
    /// Resets what the previous worker noted.
    pub(super) fn arrive(&mut self) {
        (self.is_listed, self.blocked) = (false, None);
    }

    /// The capacity of the queues of apps, in bytes.
    pub(super) fn queue_capacity(&self) -> usize {
        self.queues.as_ref().map_or(0, |queues| queues.capacity())
    }

    /// Since when the socket has been full.
    pub(super) fn blocked_since(&self) -> Option<Instant> {
        self.blocked
    }
}

impl Connection {
    /// Writes the output. `Ok(false)` if the socket accepted only a part.
    pub(crate) fn flush(&mut self, now: Instant) -> io::Result<bool> {
        let before = self.waiting();
        let result = loop {
            let result = self.write_out();
            if !matches!(result, Ok(true)) || !self.take_from_queues(now) {
                break result;
            }
        };
        self.output.wrote = self.waiting() < before;
        result
    }

    /// Whether there are bytes to write.
    pub(crate) fn has_output(&self) -> bool {
        match self.phase.tls() {
            Some(tls) => tls.has_output() || !tls.is_handshaking() && self.unsent() > 0,
            None => self.unsent() > 0,
        }
    }

    /// Bytes that wait to be sent, without those of paced apps.
    pub(crate) fn unsent(&self) -> usize {
        self.out.len() - self.output.sent
            + self.output.queues.as_ref().map_or(0, |queues| queues.size())
    }

    /// Bytes that wait to be sent, with those of paced apps.
    fn waiting(&self) -> usize {
        let paced = self.queues().into_iter().flat_map(AppQueues::paced_sizes);
        self.unsent() + paced.map(|(_, size)| size).sum::<usize>()
    }

    /// Moves messages from the queues to the output; `false` if none may leave now.
    fn take_from_queues(&mut self, now: Instant) -> bool {
        let Some(queues) = &mut self.output.queues else { return false };
        let has_moved = queues.take_turns(&mut self.out, PORTION, now);
        if queues.is_empty() {
            self.output.queues = None;
        }
        has_moved
    }

    /// Sets the pace of an app that has messages here or will send some; `None` if it has none.
    #[cold]
    pub(crate) fn set_pace(&mut self, slot: AppSlot, pace: Option<u32>, now: Instant) {
        if pace.is_some() || self.output.queues.is_some() {
            self.output.queues.get_or_insert_default().set_pace(slot, pace, now);
        }
    }

    /// The queues of apps; `None` if they are empty and no app is paced.
    pub(crate) fn queues(&self) -> Option<&AppQueues> {
        self.output.queues.as_deref()
    }

    /// The queues of apps; `None` if they are empty and no app is paced.
    pub(crate) fn queues_mut(&mut self) -> Option<&mut AppQueues> {
        self.output.queues.as_deref_mut()
    }

    /// Whether messages of apps wait.
    pub(crate) fn has_queued(&self) -> bool {
        self.output.queues.as_ref().is_some_and(|queues| queues.has_messages())
    }

    /// Whether the socket or the queue of an app still has messages for the switch.
    pub(crate) fn has_unsent_of(&self, app: AppSlot) -> bool {
        !self.out.is_empty() || self.queues().is_some_and(|queues| queues.has(app))
    }

    /// Returns the pace of an app if its queue is full because of it; `None` if there is room, or if the switch does not read.
    pub(crate) fn exceeded_pace(&self, slot: AppSlot) -> Option<u32> {
        self.queues().filter(|_| !self.is_blocked())?.exceeded_pace(slot)
    }

    /// Prepares `out` for messages of the app in `slot`: if the app has a pace, or if the switch does not accept all
    /// output at once, `out` is that app's queue until [`end_run`](Self::end_run).
    #[inline]
    pub(crate) fn begin_run(
        &mut self,
        slot: AppSlot,
        (pace, turn): (Option<u32>, OutputTurn),
        now: Instant,
    ) -> AppRun {
        if pace.is_some() || self.output.queues.is_some() {
            self.set_pace(slot, pace, now);
        }
        let waits = pace.is_some() || self.queues().is_some_and(|queues| queues.delays(slot));
        if !waits && self.output.blocked.is_none() && self.out.len() < DIRECT {
            return AppRun { limit: FULL, before: self.out.len(), queue: None };
        }
        let queues = self.output.queues.get_or_insert_default();
        let limit = queues.limit(slot, self.out.len(), FULL);
        let sent = queues.lend((slot, turn), &mut self.out);
        AppRun { limit: sent + limit, before: self.out.len(), queue: Some(slot) }
    }

    /// Ends the run after all its messages were appended. `true` if there are some.
    #[inline]
    pub(crate) fn end_run(&mut self, run: &AppRun) -> bool {
        let appended = self.out.len() - run.before;
        if let (Some(slot), Some(queues)) = (run.queue, &mut self.output.queues) {
            queues.give_back(slot, &mut self.out, appended);
            if queues.is_empty() {
                self.output.queues = None;
            }
        }
        appended > 0
    }

    /// Notes whether the socket is full. `true` if that has changed.
    pub(crate) fn note_blocked(&mut self, full: bool, now: Instant) -> bool {
        let was = self.output.blocked;
        self.output.blocked = match was {
            Some(since) if full && !self.output.wrote => Some(since),
            _ => full.then_some(now),
        };
        was.is_some() != full
    }

    /// Whether the socket is full.
    pub(crate) fn is_blocked(&self) -> bool {
        self.output.blocked.is_some()
    }

    /// Whether the switch has read nothing for [`STUCK`] while the socket was full, so that it must be disconnected
    /// even if it still sends.
    pub(crate) fn is_stuck(&self, now: Instant) -> bool {
        self.output.blocked.is_some_and(|since| now.saturating_duration_since(since) >= STUCK)
    }

    fn write_out(&mut self) -> io::Result<bool> {
        self.session.seal(&mut self.out, self.output.sealed);
        self.output.sealed = self.out.len();
        let result = self.write_sealed();
        self.output.sealed = self.out.len(); // the sent bytes were removed
        result
    }

    fn write_sealed(&mut self) -> io::Result<bool> {
        if let Some(tls) = self.phase.tls_mut() {
            if !tls.send(&mut self.socket, &self.out, &mut self.output.sent)? {
                self.out.drain(..self.output.sent);
                self.output.sent = 0;
                return Ok(false);
            }
            if tls.is_handshaking() {
                return Ok(true);
            }
        }
        while self.output.sent < self.out.len() {
            match io::Write::write(&mut self.socket, &self.out[self.output.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.output.sent += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Moving the rest to the front once per full socket keeps the buffer bounded.
                    self.out.drain(..self.output.sent);
                    self.output.sent = 0;
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.output.sent = 0;
        if self.out.capacity() > FULL {
            self.out = Vec::new();
        }
        Ok(true)
    }

    /// Whether too much output waits for further requests.
    pub(crate) fn is_full(&self) -> bool {
        self.unsent() > FULL
    }

    /// Whether the waiting output exceeds the bound at which the connection is closed.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.out.len() > TOO_MUCH
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::super::tests::pair;
    use super::*;

    #[test]
    fn output_of_an_unread_connection_is_kept_up_to_the_bound() {
        let (mut connection, mut peer) = pair();
        let chunk: Vec<u8> = (0..=255).collect();
        let mut written = 0;
        while !connection.is_hopeless() {
            connection.out.extend_from_slice(&chunk);
            written += chunk.len();
            connection.flush(Instant::now()).unwrap();
        }
        assert!(connection.is_full());
        let mut got = vec![0; 1 << 16];
        let mut read = 0;
        while read < written {
            let n = peer.read(&mut got).unwrap();
            for (at, byte) in got[..n].iter().enumerate() {
                assert_eq!(usize::from(*byte), (read + at) % 256);
            }
            read += n;
            connection.flush(Instant::now()).unwrap();
        }
        assert!(connection.flush(Instant::now()).unwrap());
        assert!(connection.out.is_empty());
    }

    /// Sends a message of `size` bytes as the app in `slot`; `false` if it is refused.
    fn send(connection: &mut Connection, slot: u8, size: u16) -> bool {
        let terms = (None, OutputTurn::default());
        let run = connection.begin_run(AppSlot::new(slot.into()), terms, Instant::now());
        let has_room = connection.out.len() <= run.limit;
        if has_room {
            let mut message = vec![slot; size.into()];
            message[2..4].copy_from_slice(&size.to_be_bytes());
            connection.out.extend_from_slice(&message);
        }
        connection.end_run(&run);
        has_room
    }

    #[test]
    fn flood_to_an_unread_connection_excludes_no_other_app() {
        let (mut connection, mut peer) = pair();
        let now = Instant::now();
        let mut flooded = 0;
        loop {
            let accepted = send(&mut connection, 1, 1000);
            flooded += usize::from(accepted);
            let all = connection.flush(Instant::now()).unwrap();
            connection.note_blocked(!all, now);
            if !accepted {
                break;
            }
        }
        assert!(connection.is_blocked());
        assert!(send(&mut connection, 2, 1000), "another app's message is accepted");
        assert!(!send(&mut connection, 1, 1000));
        assert_eq!(
            connection.queues().and_then(AppQueues::largest).map(|(slot, _)| slot.index()),
            Some(1)
        );
        connection.out.extend_from_slice(&[9, 0, 0, 8, 0, 0, 0, 0]); // the kernel's own
        let (mut got, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        while got.len() < flooded * 1000 + 1008 {
            let size = peer.read(&mut buffer).unwrap();
            got.extend_from_slice(&buffer[..size]);
            connection.flush(Instant::now()).unwrap();
        }
        let mut order = Vec::new();
        let mut rest = &got[..];
        while let Some(length) = rest.get(2..4) {
            order.push(rest[0]);
            rest = &rest[usize::from(u16::from_be_bytes([length[0], length[1]]))..];
        }
        let behind = |which| order.iter().rev().take_while(|slot| **slot != which).count() * 1000;
        assert!(behind(9) > FULL / 2, "the kernel's own passes what waits: {}", behind(9));
        assert!(behind(2) > FULL / 2, "so does the other app's: {}", behind(2));
        assert!(connection.queues().is_none() && connection.unsent() == 0);
    }
}
