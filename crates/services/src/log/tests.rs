//! The log before a disk, with the monitor and an operator, who are played.

use std::sync::atomic::Ordering;

use sys::packets::Packets;

use super::messages::{Filter, Level, Line};
use super::*;
use crate::clients::ClientId;
use crate::control::{Client, Rights};
use crate::disk::small::Small;

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
        self.log
            .serve_all(&[Asked { client, id: 7, request: request.to_vec() }], &mut self.clients);
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
fn monitor_writes_and_operators_read_and_nobody_does_the_others_part() {
    let mut bench = bench(tempfile::tempfile().unwrap());
    assert_eq!(bench.monitor(&Request::Next), Answer::Next(0));
    assert_eq!(bench.monitor(&Request::Keep(vec![line(0)])), Answer::Next(1));
    let lines = Answer::Lines { lines: vec![line(0)], next: 1, end: true };
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
fn disk_that_is_full_from_the_start_is_told_and_the_log_begins_when_there_is_room() {
    let (disk, room) = Small::new(0);
    let mut bench = bench(disk);
    assert_eq!(bench.monitor(&Request::Next), Answer::NotKept);
    let Answer::Refused { why } = bench.operator(&read()) else { panic!("it has nothing") };
    assert!(why.contains("make room"), "{why}");
    room.store(u64::MAX, Ordering::Relaxed);
    assert_eq!(bench.monitor(&Request::Next), Answer::Next(0));
    assert_eq!(bench.monitor(&Request::Keep(vec![line(0)])), Answer::Next(1));
}

#[test]
fn operator_means_a_program_by_its_name_and_what_is_said_of_an_app_by_both() {
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
