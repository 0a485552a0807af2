//! Tests the log service with a simulated monitor and operator.

use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering;

use sys::packets::Packets;

use super::*;
use crate::disk::small::SmallDisk;
use control::clients::ClientId;
use control::log::{self, LogFilter, LogLevel, LogLine};
use control::service::{ClientRights, ServiceClient};

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
        let rights = ClientRights { log, ..ClientRights::default() };
        (clients.add(ServiceClient { app: 0, name: "test".into(), rights }, theirs.into_fd()), ours)
    });
    Bench { log: Log::of(disk, ServiceQuotas::default()), clients, sockets: sockets.into() }
}

impl<D: Disk> Bench<D> {
    fn ask(&mut self, who: usize, request: &[u8]) -> LogReply {
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

    fn monitor(&mut self, request: &LogRequest) -> LogReply {
        self.ask(0, &serde_json::to_vec(request).unwrap())
    }

    fn operator(&mut self, request: &LogRequest) -> LogReply {
        self.ask(1, &serde_json::to_vec(request).unwrap())
    }
}

fn line(number: u64) -> LogLine {
    let (program, text) = ("kernel".into(), "text".into());
    LogLine { number, time: 1, level: LogLevel::Info, program, text }
}

fn read() -> LogRequest {
    LogRequest::Read {
        from: 0,
        filter: LogFilter { programs: vec![], since: 0, level: LogLevel::Debug },
    }
}

#[test]
fn monitor_may_only_write_and_operators_only_read() {
    let mut bench = bench(tempfile::tempfile().unwrap());
    assert_eq!(bench.monitor(&LogRequest::Next), LogReply::Next(0));
    assert_eq!(bench.monitor(&LogRequest::Keep(vec![line(0)])), LogReply::Next(1));
    let lines = LogReply::Lines { lines: vec![line(0)], next: 1, end: true, not_kept: None };
    assert_eq!(bench.operator(&read()), lines);
    assert_eq!(bench.operator(&LogRequest::Programs), LogReply::Programs(vec!["kernel".into()]));
    let refused = |answer| matches!(answer, LogReply::Refused { .. });
    assert!(refused(bench.operator(&LogRequest::Keep(vec![line(1)]))));
    assert!(refused(bench.monitor(&read())));
    assert!(refused(bench.ask(2, &serde_json::to_vec(&read()).unwrap())));
    assert!(refused(bench.ask(0, b"{")));
    assert_eq!(bench.operator(&read()), lines);
}

#[test]
fn log_starts_once_a_full_disk_has_space() {
    let (disk, capacity) = SmallDisk::new(0);
    let mut bench = bench(disk);
    assert_eq!(bench.monitor(&LogRequest::Next), LogReply::NotKept);
    let LogReply::Refused { why } = bench.operator(&read()) else { panic!("it has nothing") };
    assert!(why.contains("free space"), "{why}");
    capacity.store(u64::MAX, Ordering::Relaxed);
    assert_eq!(bench.monitor(&LogRequest::Next), LogReply::Next(0));
    assert_eq!(bench.monitor(&LogRequest::Keep(vec![line(0)])), LogReply::Next(1));
}

#[test]
fn reader_learns_why_newer_lines_are_missing() {
    let (disk, capacity) = SmallDisk::new(3 << 20);
    let mut bench = bench(disk);
    let not_kept = |answer| match answer {
        LogReply::Lines { not_kept, .. } => not_kept,
        other => panic!("{other:?}"),
    };
    let long = |number| vec![LogLine { text: "x".repeat(4_000), ..line(number) }];
    let missing =
        (0..1_000).find(|it| bench.monitor(&LogRequest::Keep(long(*it))) == LogReply::NotKept);
    let why = not_kept(bench.operator(&read()));
    assert!(why.as_ref().is_some_and(|why| why.contains("free space")), "{why:?}");
    capacity.store(u64::MAX, Ordering::Relaxed);
    let missing = missing.expect("3 MiB are less than 4");
    assert_eq!(bench.monitor(&LogRequest::Keep(long(missing))), LogReply::Next(missing + 1));
    assert_eq!(not_kept(bench.operator(&read())), None);
}

#[test]
fn damaged_file_is_reported_with_a_remedy() {
    const PAGE: usize = 4096;
    let file = tempfile::tempfile().unwrap();
    let mut whole = bench(file.try_clone().unwrap());
    let text = "x".repeat(1_000);
    let lines = |from: u64| (from..from + 20).map(|it| LogLine { text: text.clone(), ..line(it) });
    for batch in 0..5 {
        let lines: Vec<LogLine> = lines(batch * 20).collect();
        assert_eq!(whole.monitor(&LogRequest::Keep(lines)), LogReply::Next(batch * 20 + 20));
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
        match bench.monitor(&LogRequest::Keep(vec![line(100)])) {
            LogReply::Next(_) => kept += 1,
            LogReply::NotKept => not_kept += 1,
            other => panic!("{other:?}"),
        }
        match bench.operator(&read()) {
            LogReply::Lines { .. } => {}
            LogReply::Refused { why } => {
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
        assert!(log::is_named(&log::program_on("kernel", "firewall"), name));
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
        assert_eq!(log::is_named(program, name), meant, "{program}, {name}");
    }
}
