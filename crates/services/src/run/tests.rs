//! Runs each service with clients that send arbitrary packets: none may end it, make it grow, or
//! block another client.

use std::net::TcpListener;

use rustix::process::{Resource, Rlimit, WaitOptions, setrlimit, waitpid};
use sdk::services::{MAX_MESSAGE, REQUEST_HEAD, broker, storage};
use sys::packets::Packets;

use super::*;
use crate::broker::Broker;
use crate::log::Log;
use crate::storage::Storage;
use control::clients::MAX_QUEUED;
use control::service::{ClientRights, Destination, LogRight, Namespace, ServiceClient};

/// Number of turns with hostile clients.
const TURNS: u32 = 150;

/// Number of hostile clients at a time.
const HOSTILE: usize = 6;

/// `SplitMix64` with a fixed seed, so that failures repeat.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    fn bytes(&mut self, size: usize) -> Vec<u8> {
        (0..size).map(|_| self.next().to_le_bytes()[0]).collect()
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// Returns a number close to a boundary value.
    fn number(&mut self) -> u64 {
        let near = self.one_of(&[0, 1, 7, 1 << 16, 1 << 32, 1 << 63, u64::MAX]);
        near.wrapping_add(self.next() % 3).wrapping_sub(1)
    }
}

/// Returns a packet: a valid request, a damaged one, or random bytes.
fn packet(random: &mut Random, valid: &impl Fn(&mut Random) -> Vec<u8>) -> Vec<u8> {
    let mut body = valid(random);
    match random.below(8) {
        0..=3 => {}
        4 => body.truncate(random.below(body.len() + 1)),
        5 => {
            for _ in 0..=random.below(4) {
                let place = random.below(body.len().max(1));
                if let Some(byte) = body.get_mut(place) {
                    *byte = random.next().to_le_bytes()[0];
                }
            }
        }
        6 => {
            let size = random.below(2_000);
            body.extend(random.bytes(size));
        }
        _ => {
            let size = random.one_of(&[0, 1, 100, MAX_MESSAGE, MAX_MESSAGE + 1]);
            body = random.bytes(size);
        }
    }
    let mut packet = random.next().to_le_bytes().to_vec();
    packet.extend(body);
    if random.below(200) == 0 {
        packet.truncate(random.below(REQUEST_HEAD));
    }
    packet
}

/// Runs hostile clients with `rights` that send packets derived from `valid`. A well-behaved client
/// sends `honest` regularly; returns its last reply.
fn storm<S: Service>(
    service: &mut S,
    rights: &ClientRights,
    valid: impl Fn(&mut Random) -> Vec<u8>,
    honest: &[u8],
) -> Vec<u8> {
    let mut random = Random(42);
    let mut clients = Clients::default();
    let connect = |clients: &mut Clients, app| {
        // The older Linux lets clients pass descriptors.
        let (theirs, ours) = Packets::passing_pair().unwrap();
        let client = ServiceClient { app, name: format!("app {app}"), rights: rights.clone() };
        (clients.add(client, theirs.into_fd()), ours)
    };
    let mut hostile: Vec<_> = (0..HOSTILE).map(|_| connect(&mut clients, 1)).collect();
    let mut asks = connect(&mut clients, 2);
    let mut room = vec![0; 2 * MAX_MESSAGE];
    for number in 0..TURNS {
        for (id, socket) in &mut hostile {
            match random.below(10) {
                0 => (*id, *socket) = connect(&mut clients, 1), // closes the one before
                1 => while socket.receive(&mut room).is_ok() {},
                2 => drop(socket.send_with(&packet(&mut random, &valid), socket.as_fd())),
                3 => while socket.send(&packet(&mut random, &valid)).is_ok() {},
                _ => drop(socket.send(&packet(&mut random, &valid))),
            }
        }
        if number % 50 == 0 {
            asks = connect(&mut clients, 2); // closes the one before, whose answers may be unread
            asks.1.send(&[&[9; REQUEST_HEAD], honest].concat()).unwrap();
        }
        let ready = hostile.iter().map(|(id, _)| *id).chain([asks.0]).collect();
        serve_ready(service, &mut clients, ready);
        assert!(clients.waiting() <= HOSTILE * (MAX_QUEUED + MAX_MESSAGE), "{number}");
        assert!(clients.fds().count() <= 40, "closed clients are removed and bounded");
    }
    drop(hostile);
    let (id, socket) = connect(&mut clients, 3);
    socket.send(&[&[9; REQUEST_HEAD], honest].concat()).unwrap();
    for _ in 0..10_000 {
        let ready = clients.fds().map(|(id, _)| id).collect();
        serve_ready(service, &mut clients, ready);
        if let Ok((size, _)) = socket.receive(&mut room) {
            return room[9..size].to_vec();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("client {id:?} was not answered");
}

#[test]
fn log_survives_hostile_operators() {
    use control::log::{LogFilter, LogLevel, LogLine, LogReply, LogRequest};
    let file = tempfile::tempfile().unwrap().into();
    let mut log = Log::open(Startup { fds: vec![file], ..Startup::default() }).unwrap();
    let rights = ClientRights { log: Some(LogRight::Read), ..ClientRights::default() };
    let valid = |random: &mut Random| {
        let named = random.one_of(&[0, 1, 500]);
        let programs = (0..named).map(|number| format!("app {number}")).collect();
        let filter =
            LogFilter { programs, since: random.number(), level: random.one_of(&LogLevel::ALL) };
        let request = match random.below(5) {
            0 => LogRequest::Next,
            1 => LogRequest::Programs,
            2 => LogRequest::Last { count: u32::MAX, before: random.number(), filter },
            3 => LogRequest::Read { from: random.number(), filter },
            _ => {
                let (program, text) = ("monitor".into(), "forged".into());
                let (number, time, level) = (random.number(), random.number(), LogLevel::Error);
                LogRequest::Keep(vec![LogLine { number, time, level, program, text }])
            }
        };
        serde_json::to_vec(&request).unwrap()
    };
    let honest = serde_json::to_vec(&LogRequest::Programs).unwrap();
    let answer = storm(&mut log, &rights, valid, &honest);
    assert_eq!(
        serde_json::from_slice::<LogReply>(&answer).unwrap(),
        LogReply::Programs(Vec::new())
    );
}

#[test]
fn storage_survives_hostile_apps() {
    use storage::{Answer, Expect, Request};
    let file = tempfile::tempfile().unwrap().into();
    let mut storage = Storage::open(Startup { fds: vec![file], ..Startup::default() }).unwrap();
    let namespace = Namespace { name: "other".into(), app: 9, read: true, write: true };
    let rights = ClientRights { namespaces: vec![namespace], ..ClientRights::default() };
    let valid = |random: &mut Random| {
        let namespace = random.one_of(&["", "other", "nobody's", "\u{202e}"]);
        let (size, long) = (random.one_of(&[0, 1, 512, 513]), random.one_of(&[0, 9, 32 * 1024]));
        let (key, value, after) = (random.bytes(size), random.bytes(long), random.bytes(size));
        let expect = random.one_of(&[Expect::Anything, Expect::Nothing, Expect::Version(1)]);
        match random.below(6) {
            0 => Request::Get { namespace, key: &key },
            1 => Request::Put { namespace, key: &key, expect, value: &value },
            2 => Request::Delete { namespace, key: &key, expect },
            3 => Request::List { namespace, prefix: &key, after: &after },
            4 => Request::Watch { namespace, prefix: &key },
            _ => Request::Unwatch { request: random.number() },
        }
        .encode()
    };
    let honest = Request::Get { namespace: "", key: b"key" }.encode();
    let answer = storm(&mut storage, &rights, valid, &honest);
    assert_eq!(Answer::decode(&answer), Some(Answer::Nothing));
}

#[test]
fn broker_survives_hostile_apps() {
    use broker::{Answer, Request};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut broker = Broker::open(Startup::default()).unwrap();
    let hosts = vec![Destination { name: "127.0.0.1".into(), port }];
    let rights = ClientRights { hosts, ..ClientRights::default() };
    let valid = |random: &mut Random| {
        while listener.accept().is_ok() {}
        let host = random.one_of(&["127.0.0.1", "127.0.0.2", "", "\u{feff}127.0.0.1"]);
        Request { host, port: random.one_of(&[port, 0, 1]) }.encode()
    };
    let honest = Request { host: "127.0.0.1", port: 0 }.encode();
    let answer = storm(&mut broker, &rights, valid, &honest);
    assert_eq!(Answer::decode(&answer), Some(Answer::NotGranted));
}

#[test]
fn service_without_descriptors_rejects_clients() {
    let (monitor, service) = Channel::passing_pair().unwrap();
    for _ in 0..10 {
        let client =
            ServiceClient { app: 0, name: "operator 7".into(), rights: ClientRights::default() };
        let (_, theirs) = Packets::pair().unwrap();
        monitor.send(&ServiceRequest::Client(client), &[theirs.as_fd()]).unwrap();
    }
    let mut broker = Broker::open(Startup::default()).unwrap();
    let child = sys::testing::in_a_child(|| {
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        setrlimit(Resource::Nofile, none).unwrap();
        let mut clients = Clients::default();
        let handled = handle_monitor(&service, &mut broker, &mut clients);
        u8::from(!(matches!(handled, Ok(true)) && clients.fds().count() == 0))
    });
    let ended = waitpid(Some(child.unwrap()), WaitOptions::empty()).unwrap().unwrap();
    assert_eq!(ended.1.exit_status(), Some(0));
}
