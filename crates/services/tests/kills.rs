//! Kills the storage process repeatedly while it writes. Afterwards every acknowledged value is
//! present and intact, and only pending writes may be present in addition.
//!
//! Runs 30 times, or as often as `ROSEMARY_KILLS` says, as in `make soak`.

#![expect(clippy::unwrap_used, reason = "it is a test")]

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use control::service::{ClientRights, ServiceClient, ServiceQuotas, ServiceReply, ServiceRequest};
use rustix::event::{PollFd, PollFlags, poll};
use sdk::services::storage::{Answer, Expect, Request};
use sys::channel::Channel;
use sys::packets::Packets;

/// Number of keys that are written in rotation.
const KEYS: u64 = 40;

/// Number of pending requests, the maximum for an app.
const PENDING: usize = 32;

/// A storage process with one app.
struct Storage {
    process: Child,
    _control: Channel,
    app: Packets,
}

impl Storage {
    fn start(path: &Path) -> Self {
        let (ours, theirs) = Channel::passing_pair().unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_rosemary-storage"))
            .stdin(Stdio::from(theirs.into_fd()))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
        ours.send(
            &ServiceRequest::Start { sandbox: None, quotas: ServiceQuotas::default(), ovsdb: None },
            &[file.unwrap().as_fd()],
        )
        .unwrap();
        assert_eq!(ours.wait::<ServiceReply>().unwrap().0, ServiceReply::Ready);
        let (app, socket) = Packets::pair().unwrap();
        let client = ServiceClient { app: 1, name: "app".into(), rights: ClientRights::default() };
        ours.send(&ServiceRequest::Client(client), &[socket.as_fd()]).unwrap();
        Self { process, _control: ours, app }
    }

    fn ask(&self, id: u64, request: &Request<'_>) {
        let packet = [&id.to_le_bytes()[..], &request.encode()].concat();
        while self.app.send(&packet).is_err() {
            wait(&self.app, PollFlags::OUT, None);
        }
    }

    /// Returns the next reply; `None` at the deadline or if the storage has ended.
    fn answer(&self, until: Option<Instant>) -> Option<(u64, Vec<u8>)> {
        let mut room = vec![0; 64 * 1024];
        loop {
            match self.app.receive(&mut room) {
                Ok((size, _)) => {
                    let id = u64::from_le_bytes(*room.first_chunk().unwrap());
                    return Some((id, room[9..size].to_vec()));
                }
                Err(sys::packets::PacketError::WouldBlock) => {
                    if until.is_some_and(|until| until <= Instant::now()) {
                        return None;
                    }
                    wait(&self.app, PollFlags::IN, until);
                }
                Err(_) => return None,
            }
        }
    }
}

fn wait(socket: &Packets, what: PollFlags, until: Option<Instant>) {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let left = left.map(|left| left.try_into().unwrap());
    poll(&mut [PollFd::new(socket, what)], left.as_ref()).unwrap();
}

/// Returns a value that reveals truncation: its number, repeated, with a size that depends on it.
fn value(number: u64) -> Vec<u8> {
    let len = 1 + usize::try_from(number.wrapping_mul(7919) % 700).unwrap();
    number.to_le_bytes().repeat(len)
}

/// State of a key: the last acknowledged value, and later requests.
#[derive(Debug, Default)]
struct Known {
    /// Number of the value (0 if none) and version.
    acknowledged: (u64, u64),
    /// Numbers of values that may have been written since, in order.
    asked: Vec<u64>,
}

#[test]
fn killed_storage_keeps_acknowledged_values_intact() {
    let kills: u32 = match std::env::var("ROSEMARY_KILLS") {
        Ok(number) => number.parse().expect("ROSEMARY_KILLS is a number"),
        Err(_) => 30,
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("storage.redb");
    let mut known: BTreeMap<u64, Known> = (0..KEYS).map(|key| (key, Known::default())).collect();
    let (mut number, mut acknowledged, mut lost_underway) = (0_u64, 0_u64, 0_usize);
    for round in 0..kills {
        let mut storage = Storage::start(&path);
        lost_underway += look(&storage, &mut known);
        // The kill comes at a different moment each time.
        let kill_at = Instant::now() + Duration::from_micros(u64::from(round * 7_919 % 300_000));
        let mut pending: BTreeMap<u64, u64> = BTreeMap::new();
        loop {
            while pending.len() < PENDING && Instant::now() < kill_at {
                number += 1;
                let key = number % KEYS;
                pending.insert(number, key);
                known.get_mut(&key).unwrap().asked.push(number);
                let (key, value) = (key.to_le_bytes(), value(number));
                let expect = Expect::Anything;
                let put = Request::Put { namespace: "", key: &key, expect, value: &value };
                storage.ask(number, &put);
            }
            let Some((id, body)) = storage.answer(Some(kill_at)) else { break };
            let Some(Answer::Done { version }) = Answer::decode(&body) else { panic!("{body:?}") };
            let known = known.get_mut(&pending.remove(&id).unwrap()).unwrap();
            known.acknowledged = (id, version);
            known.asked.retain(|asked| *asked > id);
            acknowledged += 1;
        }
        storage.process.kill().unwrap();
        storage.process.wait().unwrap();
        // Replies sent before the kill count.
        while let Some((id, body)) = storage.answer(None) {
            let Some(Answer::Done { version }) = Answer::decode(&body) else { panic!("{body:?}") };
            let known = known.get_mut(&pending.remove(&id).unwrap()).unwrap();
            known.acknowledged = (id, version);
            known.asked.retain(|asked| *asked > id);
            acknowledged += 1;
        }
    }
    let mut storage = Storage::start(&path);
    look(&storage, &mut known);
    storage.process.kill().unwrap();
    storage.process.wait().unwrap();
    println!(
        "{kills} kills: {acknowledged} acknowledged writes, none lost or torn; of those pending \
         {lost_underway} were there"
    );
    assert!(acknowledged > u64::from(kills), "hardly any write was acknowledged: {acknowledged}");
}

/// Compares the stored values with the known state; returns how many pending writes are present.
fn look(storage: &Storage, known: &mut BTreeMap<u64, Known>) -> usize {
    let mut later = 0;
    for (key, known) in known {
        storage.ask(*key, &Request::Get { namespace: "", key: &key.to_le_bytes() });
        let (id, body) = storage.answer(None).expect("it runs");
        assert_eq!(id, *key);
        let (found, version) = match Answer::decode(&body) {
            Some(Answer::Nothing) => (0, 0),
            Some(Answer::Value { version, value: found }) => {
                let number = u64::from_le_bytes(*found.first_chunk().expect("it is not torn"));
                assert!(found == value(number), "key {key}: torn, it begins with {number}");
                (number, version)
            }
            other => panic!("{other:?}"),
        };
        if found == known.acknowledged.0 {
            assert_eq!(version, known.acknowledged.1, "key {key}");
        } else {
            assert!(known.asked.contains(&found), "key {key} has {found}: {known:?}");
            assert!(version > known.acknowledged.1, "key {key}: {known:?}");
            later += 1;
        }
        known.acknowledged = (found, version);
        known.asked.clear();
    }
    later
}
