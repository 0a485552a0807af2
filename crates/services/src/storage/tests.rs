//! Tests the storage service on a file, with simulated apps.

use std::fs::File;

use sdk::services::storage::Expect;
use sys::packets::Packets;

use super::*;
use control::service::{ClientRights, Namespace, ServiceClient, ServiceQuotas};

struct Bench {
    storage: Storage,
    clients: Clients,
    apps: Vec<(ClientId, Packets)>,
    asked: Vec<ClientRequest>,
}

/// Creates apps `a` (1) and `b` (2); `b` has the rights `read` and `write` in `a`'s namespace.
fn bench(read: bool, write: bool) -> Bench {
    let file: File = tempfile::tempfile().unwrap();
    let storage = Storage::of(Redb::open(file, ServiceQuotas::default()).unwrap());
    let mut clients = Clients::default();
    let granted = Namespace { name: "a".into(), app: 1, read, write };
    let rights = [vec![], vec![granted]];
    let apps = rights.into_iter().zip([(1, "a"), (2, "b")]).map(|(namespaces, (app, name))| {
        let (ours, theirs) = Packets::pair().unwrap();
        let rights = ClientRights { namespaces, ..ClientRights::default() };
        (clients.add(ServiceClient { app, name: name.into(), rights }, theirs.into_fd()), ours)
    });
    let apps = apps.collect();
    Bench { storage, clients, apps, asked: Vec::new() }
}

impl Bench {
    fn ask(&mut self, app: usize, id: u64, request: &Request<'_>) {
        self.asked.push(ClientRequest { client: self.apps[app].0, id, request: request.encode() });
    }

    fn serve(&mut self) {
        let asked = std::mem::take(&mut self.asked);
        self.storage.serve(asked, &mut self.clients);
    }

    /// Returns the next reply to an app: request id, whether more follow, and body.
    fn next_reply(&self, app: usize) -> Option<(u64, bool, Vec<u8>)> {
        let mut room = vec![0; 64 * 1024];
        let (size, _) = self.apps[app].1.receive(&mut room).ok()?;
        let id = u64::from_le_bytes(*room.first_chunk().unwrap());
        Some((id, room[8] == 1, room[9..size].to_vec()))
    }

    fn now(&mut self, app: usize, request: &Request<'_>) -> Vec<u8> {
        self.ask(app, 99, request);
        self.serve();
        let (id, more, answer) = self.next_reply(app).unwrap();
        assert_eq!((id, more), (99, false));
        answer
    }
}

fn put<'a>(namespace: &'a str, key: &'a [u8]) -> Request<'a> {
    Request::Put { namespace, key, expect: Expect::Anything, value: b"v" }
}

#[test]
fn foreign_namespace_requires_a_grant() {
    for (read, write) in [(false, false), (true, false), (false, true)] {
        let mut bench = bench(read, write);
        assert_eq!(bench.now(0, &put("", b"k")), Answer::Done { version: 1 }.encode());
        let refused = Answer::Refused(Refused::NotGranted).encode();
        let delete = Request::Delete { namespace: "a", key: b"k", expect: Expect::Nothing };
        for request in [put("a", b"x"), delete] {
            assert_eq!(bench.now(1, &request) != refused, write, "{request:?}");
        }
        for request in [
            Request::Get { namespace: "a", key: b"k" },
            Request::List { namespace: "a", prefix: b"", after: b"" },
        ] {
            assert_eq!(bench.now(1, &request) != refused, read, "{request:?}");
        }
        bench.ask(1, 5, &Request::Watch { namespace: "a", prefix: b"" });
        bench.serve();
        assert_eq!(bench.next_reply(1).unwrap().1, read, "the watch continues");
        // Neither a nonexistent namespace, nor one's own by name.
        for name in ["nobody", "b"] {
            assert_eq!(bench.now(1, &put(name, b"k")), refused);
        }
        // Its own namespace does not contain the other's data.
        let own = bench.now(1, &Request::Get { namespace: "", key: b"k" });
        assert_eq!(own, Answer::Nothing.encode());
    }
}

#[test]
fn watch_reports_later_changes_only() {
    let mut bench = bench(true, false);
    bench.ask(0, 1, &put("", b"x/before"));
    bench.ask(1, 2, &Request::Watch { namespace: "a", prefix: b"x/" });
    bench.ask(0, 3, &put("", b"x/after"));
    bench.ask(0, 4, &put("", b"y"));
    bench.ask(1, 5, &put("", b"x/own namespace"));
    let nothing_there =
        Request::Delete { namespace: "", key: b"x/nothing there", expect: Expect::Anything };
    bench.ask(0, 6, &nothing_there);
    bench.ask(0, 7, &Request::Delete { namespace: "", key: b"x/after", expect: Expect::Anything });
    bench.serve();
    let replies: Vec<_> = std::iter::from_fn(|| bench.next_reply(1)).collect();
    let changed = |version| Answer::Changed { version, key: b"x/after" }.encode();
    let expected = [
        (2, true, Answer::Watching.encode()),
        (2, true, changed(2)),
        (5, false, Answer::Done { version: 1 }.encode()),
        (2, true, changed(0)),
    ];
    assert_eq!(replies, expected);
    bench.ask(1, 8, &Request::Unwatch { request: 2 });
    bench.ask(0, 9, &put("", b"x/after"));
    bench.serve();
    let done = Answer::Done { version: 0 }.encode();
    assert_eq!(bench.next_reply(1), Some((2, false, done.clone())));
    assert_eq!(bench.next_reply(1), Some((8, false, done)));
    assert_eq!(bench.next_reply(1), None);
}

#[test]
fn watches_are_bounded_and_end_with_the_client() {
    let mut bench = bench(false, false);
    for id in 0..=MAX_WATCHES as u64 {
        bench.ask(0, id, &Request::Watch { namespace: "", prefix: b"" });
    }
    bench.serve();
    let replies: Vec<_> = std::iter::from_fn(|| bench.next_reply(0)).collect();
    let last = (MAX_WATCHES as u64, false, Answer::Refused(Refused::TooManyWatches).encode());
    assert_eq!(replies.last(), Some(&last));
    assert!(replies.iter().rev().skip(1).all(|(_, more, _)| *more));
    let client = bench.apps[0].0;
    bench.storage.disconnected(client);
    assert!(bench.storage.watches.is_empty());
}

#[test]
fn invalid_requests_are_rejected_with_a_reason() {
    let mut bench = bench(false, false);
    bench.asked.push(ClientRequest { client: bench.apps[0].0, id: 1, request: vec![9; 50] });
    bench.serve();
    let malformed = Answer::Refused(Refused::Malformed).encode();
    assert_eq!(bench.next_reply(0), Some((1, false, malformed)));
    let value = vec![0; 32 * 1024];
    let mut refused = false;
    for key in 0..=ServiceQuotas::default().storage_bytes / value.len() as u64 {
        let key = key.to_be_bytes();
        let request =
            Request::Put { namespace: "", key: &key, expect: Expect::Anything, value: &value };
        refused = bench.now(0, &request) == Answer::Refused(Refused::Quota).encode();
    }
    assert!(refused, "the last one");
}

/// An engine whose disk may be full.
#[derive(Debug)]
struct Disk {
    is_full: bool,
}

impl Engine for Disk {
    fn run(&mut self, ops: &[Op<'_>]) -> Result<Vec<Outcome>, DiskError> {
        let outcome = |op: &Op<'_>| match op {
            Op::Get { .. } | Op::List { .. } => Outcome::Nothing,
            Op::Put { .. } | Op::Delete { .. } => Outcome::Done { version: 1, changed: true },
        };
        if self.is_full { Err(DiskError::Full) } else { Ok(ops.iter().map(outcome).collect()) }
    }
}

#[test]
fn disk_fails_until_a_write_succeeds() {
    let Bench { mut clients, apps, .. } = bench(false, false);
    let mut storage = Storage::of(Disk { is_full: true });
    let mut serve = |storage: &mut Storage<Disk>, request: Request<'_>| {
        let asked = ClientRequest { client: apps[0].0, id: 1, request: request.encode() };
        storage.serve_all(&[asked], &mut clients);
        storage.fails.as_ref().map(|(why, _)| why.clone())
    };
    let why = serve(&mut storage, put("", b"k")).unwrap();
    assert!(why.contains("free space"), "{why}");
    storage.engine.is_full = false;
    let get = Request::Get { namespace: "", key: b"k" };
    assert_eq!(serve(&mut storage, get), Some(why), "a read needs no space");
    assert_eq!(serve(&mut storage, put("", b"k")), None);
}

#[test]
fn full_disk_rejects_the_turn_without_notifications() {
    let Bench { mut clients, apps, .. } = bench(false, false);
    let mut storage = Storage::of(Disk { is_full: true });
    let asked = |id, request: Request<'_>| ClientRequest {
        client: apps[0].0,
        id,
        request: request.encode(),
    };
    let turn = [
        asked(1, Request::Watch { namespace: "", prefix: b"" }),
        asked(2, put("", b"k")),
        asked(3, put("", b"l")),
    ];
    storage.serve_all(&turn, &mut clients);
    let replies: Vec<u8> = (0..3)
        .map(|_| {
            let mut room = [0; 64];
            apps[0].1.receive(&mut room).unwrap();
            room[10]
        })
        .collect();
    assert_eq!(replies[1..], [Refused::DiskFull as u8; 2]);
    assert!(apps[0].1.receive(&mut [0; 64]).is_err());
}
