//! Tests the log service with a simulated monitor and operator.

use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering;

use sys::packets::Packets;

use super::messages::{Filter, Level, Line};
use super::*;
use crate::clients::ClientId;
use crate::control::{Client, Rights};
use crate::disk::small::SmallDisk;

struct Bench<D> {
    log: Log<D>,
    clients: Clients,
    sockets: Vec<(ClientId, Packets)>,
}

fn bench<D: Disk>(disk: D) -> Bench<D> {
    let mut clients = Clients::default();
    let rights = [Some(LogRight::Write), Some(LogRight::Read), None];
    let sockets = rights.map(|log| {
        let (ours, theirs) = Packets::pair().unwrap();
        let rights = Rights { log, ..Rights::default() };
        (clients.add(Client { app: 0, name: "test".into(), rights }, theirs.into_fd()), ours)
    });
    Bench { log: Log::of(disk, Quotas::default()), clients, sockets: sockets.into() }
}

impl<D: Disk> Bench<D> {
    fn ask(&mut self, who: usize, request: &[u8]) -> Answer {
        let (client, ref socket) = self.sockets[who];
        self.log.serve_all(
            &[ClientRequest { client, id: 7, request: request.to_vec() }],
            &mut self.clients,
        );
        let mut room = vec![0; 64 * 1024];
        let (size, _) = socket.receive(&mut room).unwrap();
        assert_eq!(room[..9], [7, 0, 0, 0, 0, 0, 0, 0, 0]);
        serde_json::from_slice(&room[9..size]).unwrap()
    }

    fn monitor(&mut self, request: &Request) -> Answer {
        self.ask(0, &serde_json::to_vec(request).unwrap())
    }

    fn operator(&mut self, request: &Request) -> Answer {
        self.ask(1, &serde_json::to_vec(request).unwrap())
    }
}

fn line(number: u64) -> Line {
    let (program, text) = ("kernel".into(), "text".into());
    Line { number, time: 1, level: Level::Info, program, text }
}

fn read() -> Request {
    Request::Read { from: 0, filter: Filter { programs: vec![], since: 0, level: Level::Debug } }
}

#[test]
fn monitor_may_only_write_and_operators_only_read() {
    let mut bench = bench(tempfile::tempfile().unwrap());
    assert_eq!(bench.monitor(&Request::Next), Answer::Next(0));
    assert_eq!(bench.monitor(&Request::Keep(vec![line(0)])), Answer::Next(1));
    let lines = Answer::Lines { lines: vec![line(0)], next: 1, end: true, not_kept: None };
    assert_eq!(bench.operator(&read()), lines);
    assert_eq!(bench.operator(&Request::Programs), Answer::Programs(vec!["kernel".into()]));
    let refused = |answer| matches!(answer, Answer::Refused { .. });
    assert!(refused(bench.operator(&Request::Keep(vec![line(1)]))));
    assert!(refused(bench.monitor(&read())));
    assert!(refused(bench.ask(2, &serde_json::to_vec(&read()).unwrap())));
    assert!(refused(bench.ask(0, b"{")));
    assert_eq!(bench.operator(&read()), lines);
}

#[test]
fn log_starts_once_a_full_disk_has_space() {
    let (disk, room) = SmallDisk::new(0);
    let mut bench = bench(disk);
    assert_eq!(bench.monitor(&Request::Next), Answer::NotKept);
    let Answer::Refused { why } = bench.operator(&read()) else { panic!("it has nothing") };
    assert!(why.contains("free space"), "{why}");
    room.store(u64::MAX, Ordering::Relaxed);
    assert_eq!(bench.monitor(&Request::Next), Answer::Next(0));
    assert_eq!(bench.monitor(&Request::Keep(vec![line(0)])), Answer::Next(1));
}

#[test]
fn reader_learns_why_newer_lines_are_missing() {
    let (disk, room) = SmallDisk::new(3 << 20);
    let mut bench = bench(disk);
    let not_kept = |answer| match answer {
        Answer::Lines { not_kept, .. } => not_kept,
        other => panic!("{other:?}"),
    };
    let long = |number| vec![Line { text: "x".repeat(4_000), ..line(number) }];
    let missing = (0..1_000).find(|it| bench.monitor(&Request::Keep(long(*it))) == Answer::NotKept);
    let why = not_kept(bench.operator(&read()));
    assert!(why.as_ref().is_some_and(|why| why.contains("free space")), "{why:?}");
    room.store(u64::MAX, Ordering::Relaxed);
    let missing = missing.expect("3 MiB are less than 4");
    assert_eq!(bench.monitor(&Request::Keep(long(missing))), Answer::Next(missing + 1));
    assert_eq!(not_kept(bench.operator(&read())), None);
}

#[test]
fn damaged_file_is_reported_with_a_remedy() {
    const PAGE: usize = 4096;
    let file = tempfile::tempfile().unwrap();
    let mut whole = bench(file.try_clone().unwrap());
    let text = "x".repeat(1_000);
    let lines = |from: u64| (from..from + 20).map(|it| Line { text: text.clone(), ..line(it) });
    for batch in 0..5 {
        let lines: Vec<Line> = lines(batch * 20).collect();
        assert_eq!(whole.monitor(&Request::Keep(lines)), Answer::Next(batch * 20 + 20));
    }
    drop(whole);
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let (mut kept, mut not_kept, mut refused) = (0, 0, 0);
    for page in bytes.chunks(PAGE).enumerate().filter(|(_, it)| it.iter().any(|byte| *byte != 0)) {
        let damaged = tempfile::tempfile().unwrap();
        damaged.write_all_at(&bytes, 0).unwrap();
        let junk: Vec<u8> = page.1.iter().map(|byte| byte ^ 0x5a).collect();
        damaged.write_all_at(&junk, (page.0 * PAGE) as u64).unwrap();
        let mut bench = bench(damaged);
        match bench.monitor(&Request::Keep(vec![line(100)])) {
            Answer::Next(_) => kept += 1,
            Answer::NotKept => not_kept += 1,
            other => panic!("{other:?}"),
        }
        match bench.operator(&read()) {
            Answer::Lines { .. } => {}
            Answer::Refused { why } => {
                refused += 1;
                assert!(why.contains("move log.redb away"), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(kept > 0 && not_kept > 0 && refused > 0, "{kept}, {not_kept}, {refused}");
}

#[test]
fn name_selects_program_and_reports_about_it() {
    for name in ["kernel", "firewall"] {
        assert!(messages::is_meant(&messages::program_on("kernel", "firewall"), name));
    }
    for (program, name, meant) in [
        ("service storage", "storage", true),
        ("service storage", "service storage", true),
        ("service storage on keeper", "storage", true),
        ("service storage on keeper", "service storage", true),
        ("service storage on keeper", "service storage on keeper", true),
        ("app on", "on", true),
        ("app firewall", "wall", false),
        ("kernel on firewall", "app firewall", false),
    ] {
        assert_eq!(messages::is_meant(program, name), meant, "{program}, {name}");
    }
}
