//! The connection to one app: sends it requests, and reads its answers.
//!
//! The app may be hostile. Its answers are matched by the numbers of requests, each is bounded in parts, bytes and time, and the
//! app can send no more packets than answers to its requests may have. An app that breaks these rules loses the connection, until
//! its process or this one starts again.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixDatagram as StdUnixDatagram;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use routes::{BadAnswer, Collector, MOST_PARTS, Response};
use sdk::http::{HTTP_REQUEST, MOST_REQUESTS};
use sdk::services::{ANSWER_HEAD, MAX_MESSAGE};
use sys::packets::{PacketError, Packets};
use thiserror::Error;
use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::sync::oneshot;

use crate::state::lock;

/// How long an app may take for an answer.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(10);

/// The most packets that an app may send ahead of requests: late answers among them.
const MOST_AHEAD: u32 = 4_096;

/// Packets after which other tasks have a turn.
const PACKETS_PER_TURN: usize = 16;

/// Why an app did not answer a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// It has too many requests already.
    Busy,
    /// It does not read its requests.
    Unread,
    /// It has ended.
    Gone,
    /// It did not answer in time.
    Late,
    /// Its answer is not valid.
    Bad(BadAnswer),
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum EndOfLink {
    /// The app has ended, or got a new connection.
    #[error("the app has ended")]
    Closed,
    /// The app broke the protocol.
    #[error("the app broke the protocol of its routes: {0}")]
    Broken(&'static str),
}

/// A connection to an app.
#[derive(Debug)]
pub(super) struct Link {
    socket: Packets,
    /// A duplicate, by which the runtime only waits.
    waiting: UnixDatagram,
    requests: Mutex<Requests>,
}

/// The requests that wait for answers.
#[derive(Debug, Default)]
struct Requests {
    /// The number of the next request.
    next: u64,
    waiting: HashMap<u64, Waiting>,
    /// The number of packets that the app may still send.
    packets: u32,
    has_ended: bool,
}

/// A request that waits. It stays here until its time is over although its client has gone, so that clients that come and go
/// cannot send an app more than [`MOST_REQUESTS`] requests in [`ANSWER_TIME`] that it does not answer.
#[derive(Debug)]
struct Waiting {
    until: Instant,
    collector: Collector,
    done: oneshot::Sender<Result<Response, BadAnswer>>,
}

impl Requests {
    /// Adds a request. Returns its number.
    fn begin(
        &mut self,
        done: oneshot::Sender<Result<Response, BadAnswer>>,
        now: Instant,
    ) -> Result<u64, NoAnswer> {
        if self.has_ended {
            return Err(NoAnswer::Gone);
        }
        self.waiting.retain(|_, waiting| waiting.until > now);
        if self.waiting.len() >= MOST_REQUESTS {
            return Err(NoAnswer::Busy);
        }
        let id = self.next;
        self.next += 1;
        self.packets = (self.packets + MOST_PARTS).min(MOST_AHEAD);
        let collector = Collector::default();
        self.waiting.insert(id, Waiting { until: now + ANSWER_TIME, collector, done });
        Ok(id)
    }

    /// Handles a packet of the app.
    fn receive(&mut self, packet: &[u8]) -> Result<(), &'static str> {
        self.packets = self.packets.checked_sub(1).ok_or("it sends answers without requests")?;
        let (id, rest) = packet.split_first_chunk().ok_or("it sent a packet without a number")?;
        let id = u64::from_le_bytes(*id);
        let (more, part) = match rest.split_first() {
            Some((0, part)) => (false, part),
            Some((1, part)) => (true, part),
            _ => return Err("it sent a packet that is no answer"),
        };
        if id >= self.next {
            return Err("it answered a request that it did not get");
        }
        // Otherwise the answer is late, or the second one: nobody waits for it.
        let Some(waiting) = self.waiting.get_mut(&id) else { return Ok(()) };
        let result = match waiting.collector.add(part, more) {
            Ok(None) => return Ok(()),
            Ok(Some(response)) => Ok(response),
            Err(bad) => Err(bad),
        };
        if let Some(waiting) = self.waiting.remove(&id) {
            let _ = waiting.done.send(result); // the client may have gone
        }
        Ok(())
    }

    /// Fails all requests.
    fn end(&mut self) {
        self.has_ended = true;
        self.waiting.clear();
    }
}

impl Link {
    /// Takes the socket of a connection.
    ///
    /// # Errors
    /// The runtime cannot wait for it.
    pub(super) fn new(socket: OwnedFd) -> io::Result<Arc<Self>> {
        let socket = Packets::from_fd(socket);
        let waiting = StdUnixDatagram::from(socket.as_fd().try_clone_to_owned()?);
        let waiting = UnixDatagram::from_std(waiting)?;
        Ok(Arc::new(Self { socket, waiting, requests: Mutex::default() }))
    }

    /// Sends a request, and waits for the answer.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub(super) async fn ask(&self, request: &[u8]) -> Result<Response, NoAnswer> {
        let (done, answer) = oneshot::channel();
        let id = lock(&self.requests).begin(done, Instant::now())?;
        let packet = [&id.to_le_bytes()[..], &[HTTP_REQUEST], request].concat();
        let sent = self.socket.send(&packet);
        if let Err(error) = sent {
            lock(&self.requests).waiting.remove(&id);
            let is_full = matches!(error, PacketError::WouldBlock);
            return Err(if is_full { NoAnswer::Unread } else { NoAnswer::Gone });
        }
        match tokio::time::timeout(ANSWER_TIME, answer).await {
            Ok(Ok(answer)) => answer.map_err(NoAnswer::Bad),
            // A later request may have removed this one just before its time was over.
            Ok(Err(_)) if lock(&self.requests).has_ended => Err(NoAnswer::Gone),
            Ok(Err(_)) => Err(NoAnswer::Late),
            Err(_) => {
                lock(&self.requests).waiting.remove(&id);
                Err(NoAnswer::Late)
            }
        }
    }

    /// Receives answers until the connection ends. All requests that wait then fail.
    pub(super) async fn run(&self) -> EndOfLink {
        let end = self.receive_all().await;
        lock(&self.requests).end();
        end
    }

    async fn receive_all(&self) -> EndOfLink {
        let mut room = vec![0; ANSWER_HEAD + MAX_MESSAGE];
        loop {
            if self.waiting.readable().await.is_err() {
                return EndOfLink::Closed;
            }
            for _ in 0..PACKETS_PER_TURN {
                // The monitor has made the system refuse descriptors. An older Linux passes them, and they are closed here.
                match self.socket.receive(&mut room) {
                    Ok((size, _)) => {
                        let packet = room.get(..size).unwrap_or_default();
                        if let Err(why) = lock(&self.requests).receive(packet) {
                            return EndOfLink::Broken(why);
                        }
                    }
                    Err(PacketError::WouldBlock) => {
                        // All packets are received: the runtime must wait for the next.
                        let empty = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
                        let _ = self.waiting.try_io(Interest::READABLE, empty);
                        break;
                    }
                    Err(PacketError::TooLong) => {
                        return EndOfLink::Broken("it sent a packet that is too long");
                    }
                    Err(_) => return EndOfLink::Closed,
                }
            }
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Answer = oneshot::Receiver<Result<Response, BadAnswer>>;

    fn begin(requests: &mut Requests, now: Instant) -> Result<(u64, Answer), NoAnswer> {
        let (done, answer) = oneshot::channel();
        Ok((requests.begin(done, now)?, answer))
    }

    fn packet(id: u64, more: u8, part: &[u8]) -> Vec<u8> {
        [&id.to_le_bytes()[..], &[more], part].concat()
    }

    const EMPTY: [u8; 4] = [200, 0, 0, 0];

    #[test]
    fn answers_in_any_order_reach_their_requests() {
        let (mut requests, now) = (Requests::default(), Instant::now());
        let (first, mut of_first) = begin(&mut requests, now).unwrap();
        let (second, mut of_second) = begin(&mut requests, now).unwrap();
        requests.receive(&packet(second, 1, &EMPTY)).unwrap();
        requests.receive(&packet(first, 0, &[&EMPTY[..], b"1"].concat())).unwrap();
        requests.receive(&packet(second, 0, b"2")).unwrap();
        assert_eq!(of_first.try_recv().unwrap().unwrap().body, b"1");
        assert_eq!(of_second.try_recv().unwrap().unwrap().body, b"2");
        requests.receive(&packet(first, 0, &EMPTY)).unwrap(); // a second answer is ignored
        assert!(requests.waiting.is_empty());
    }

    #[test]
    fn waiting_requests_are_bounded_although_clients_leave() {
        let (mut requests, now) = (Requests::default(), Instant::now());
        for _ in 0..MOST_REQUESTS {
            drop(begin(&mut requests, now).unwrap()); // the client goes at once
        }
        assert_eq!(begin(&mut requests, now).unwrap_err(), NoAnswer::Busy);
        requests.receive(&packet(3, 0, &EMPTY)).unwrap();
        assert!(begin(&mut requests, now).is_ok());
        assert_eq!(begin(&mut requests, now).unwrap_err(), NoAnswer::Busy);
        assert!(begin(&mut requests, now + ANSWER_TIME).is_ok(), "the others are late");
    }

    #[test]
    fn invalid_packets_end_the_connection() {
        for bad in [&[][..], &[0; 7], &[0; 8], &packet(0, 2, &EMPTY), &packet(1, 0, &EMPTY)] {
            let mut requests = Requests::default();
            let _answer = begin(&mut requests, Instant::now()).unwrap();
            assert!(requests.receive(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn flood_of_answers_ends_the_connection() {
        let (mut requests, now) = (Requests::default(), Instant::now());
        assert!(requests.receive(&packet(0, 0, &EMPTY)).is_err(), "there was no request");
        let mut requests_2 = Requests::default();
        for _ in 0..1_000 {
            let (id, _answer) = begin(&mut requests_2, now).unwrap();
            requests_2.receive(&packet(id, 0, &EMPTY)).unwrap();
        }
        let accepted =
            (0..1_000_000).take_while(|_| requests_2.receive(&packet(0, 0, &[])).is_ok());
        assert!(accepted.count() <= MOST_AHEAD as usize);
    }

    #[test]
    fn bad_answer_fails_its_request_alone() {
        let (mut requests, now) = (Requests::default(), Instant::now());
        let (first, mut of_first) = begin(&mut requests, now).unwrap();
        let (second, mut of_second) = begin(&mut requests, now).unwrap();
        requests.receive(&packet(first, 0, &[0, 0, 0, 0])).unwrap();
        requests.receive(&packet(first, 0, &[0, 0, 0, 0])).unwrap();
        requests.receive(&packet(second, 0, &EMPTY)).unwrap();
        assert_eq!(of_first.try_recv().unwrap().unwrap_err(), BadAnswer::Status(0));
        assert!(of_second.try_recv().unwrap().is_ok());
    }

    #[test]
    fn end_of_the_app_fails_its_requests() {
        let (mut requests, now) = (Requests::default(), Instant::now());
        let (_, mut answer) = begin(&mut requests, now).unwrap();
        requests.end();
        assert!(answer.try_recv().is_err());
        assert_eq!(begin(&mut requests, now).unwrap_err(), NoAnswer::Gone);
    }
}
