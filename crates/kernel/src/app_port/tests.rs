//! An app port and the zone's end of its rings, through attach, death and back.

use dal::SwitchInfo;
use openflow::{Dpid, MacAddr, PortDesc, PortNo, Version};
use sdk::abi::RecordKind;
use sys::ring::{MAX_BATCH, RingFds, ZoneEnd};

use super::snapshot::bare;
use super::*;
use crate::hold_queue::Ticket;
use crate::pool::idle;
use crate::record::switch_record;
use crate::switch::Announced;

mod answers;
mod packets;

const CAPACITY: u32 = 4096;

/// An app port, the zone that holds its rings, if any, and the switches of its worker.
struct Bench {
    app_port: AppPort,
    zone: Option<ZoneEnd>,
    switches: Vec<Switch>,
}

/// A record as the zone sees it: its kind, its subject, its flags.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Begin,
    End,
    Up(u64),
    Down(u64),
    Port(u32),
    Packet(u8),
    Again(u8),
}

impl Bench {
    fn new(switches: Vec<Switch>) -> Self {
        let shared_quota = idle(1).shared_quota(AppId(1));
        let app_port = AppPort::new(
            AppId(1),
            "app".into(),
            AppSlot::new(0),
            Tuning { ring: CAPACITY, ..Tuning::default() },
            shared_quota,
        );
        Self { app_port, zone: None, switches }
    }

    /// One whose app is live, with the snapshot of its switches.
    fn live(switches: Vec<Switch>) -> Self {
        let mut bench = Self::new(switches);
        bench.attach();
        while !bench.seen().is_empty() {}
        bench
    }

    fn attach(&mut self) {
        let (parts, fds) = part::make(&idle(1), CAPACITY).unwrap();
        let [part] = <[part::Part; 1]>::try_from(parts).unwrap();
        let [_, up, down, _] = <[_; 4]>::try_from(fds).unwrap();
        self.app_port.attach(part);
        self.zone = Some(ZoneEnd::map(&RingFds { up, down }, CAPACITY).unwrap());
    }

    fn catch_up(&mut self) {
        while self.app_port.take(&mut Vec::new(), &mut Vec::new()).unwrap().is_some() {}
        self.app_port.release();
    }

    fn pump(&mut self) {
        self.catch_up();
        self.app_port.pump(self.switches.iter_mut(), |dpid, epoch| (dpid, epoch) != (9, 9));
        self.app_port.publish();
    }

    fn packet(&mut self, number: u8) -> bool {
        self.packet_with(&[number; 8])
    }

    fn packet_with(&mut self, body: &[u8]) -> bool {
        let record = switch_record(RecordKind::PacketIn, &self.switches[0]);
        self.app_port.packet_in(&mut self.switches[0], &record, body, Ticket::NONE)
    }

    /// Lets the zone see up to `most` records without being done with them.
    fn peek(&mut self, most: usize) -> Vec<Seen> {
        self.pump();
        let zone = self.zone.as_mut().unwrap();
        zone.records.batch(most).unwrap().iter().map(seen).collect()
    }

    /// Lets the zone handle all that there is.
    fn seen(&mut self) -> Vec<Seen> {
        let seen = self.peek(MAX_BATCH);
        let zone = self.zone.as_mut().unwrap();
        zone.messages.done(&mut zone.records, seen.len());
        seen
    }

    /// Ends the zone.
    fn die(&mut self) -> Option<Vec<u8>> {
        self.zone = None;
        while self.app_port.take(&mut Vec::new(), &mut Vec::new()).unwrap().is_some() {}
        self.app_port.detach()
    }
}

fn seen(record: &[u8]) -> Seen {
    let [head, dpid, ..] = split(record).unwrap().0;
    let body = &record[abi::RECORD_HEAD..];
    match (head >> 32 & 0xffff, head >> 56) {
        (1, _) => Seen::Begin,
        (2, _) => Seen::End,
        (3, _) => Seen::Up(dpid),
        (4, _) => Seen::Down(dpid),
        (5, _) => Seen::Port(abi::Port::from_bytes(body.first_chunk().unwrap()).port_no),
        (6, 0) => Seen::Packet(body[0]),
        (6, _) => Seen::Again(body[0]),
        (kind, _) => panic!("a record of kind {kind}"),
    }
}

fn switch(dpid: u64, ports: u32) -> Switch {
    let port = |number| PortDesc::new(PortNo(number), MacAddr([2, 0, 0, 0, 0, 1]), "eth");
    let info = SwitchInfo {
        version: Version::V1_3,
        dpid: Dpid(dpid),
        n_tables: 1,
        n_buffers: 0,
        capabilities: openflow::Capabilities(0),
        actions: 0,
        no_packets: None,
        ports: (1..=ports).map(port).collect(),
    };
    Switch::new(info, 1)
}

#[test]
fn every_start_begins_with_a_snapshot() {
    let mut bench = Bench::new(vec![switch(7, 2), switch(8, 0)]);
    bench.attach();
    let snapshot = [Seen::Begin, Seen::Up(7), Seen::Port(1), Seen::Port(2), Seen::Up(8), Seen::End];
    assert_eq!(bench.seen(), snapshot);
    assert!(bench.packet(1));
    assert_eq!(bench.seen(), [Seen::Packet(1)]);
    bench.die();
    bench.attach();
    assert_eq!(bench.seen(), snapshot);
}

#[test]
fn packets_wait_behind_the_snapshot() {
    let mut bench = Bench::new(vec![switch(7, 0)]);
    bench.attach();
    assert!(bench.packet(1));
    assert!(bench.packet(2));
    let records = [Seen::Begin, Seen::Up(7), Seen::End, Seen::Packet(1), Seen::Packet(2)];
    assert_eq!(bench.seen(), records);
}

#[test]
fn dead_zones_records_are_delivered_again_one_by_one() {
    let mut bench = Bench::live(vec![switch(7, 0)]);
    (1..=3).for_each(|number| assert!(bench.packet(number)));
    assert_eq!(bench.peek(MAX_BATCH).len(), 3);
    let zone = bench.zone.as_mut().unwrap();
    zone.messages.done(&mut zone.records, 1);
    assert_eq!(bench.die(), None);
    assert!(bench.packet(4), "comes while nobody is there");

    bench.attach();
    assert_eq!(bench.seen(), [Seen::Begin, Seen::Up(7), Seen::End]);
    assert_eq!(bench.seen(), [Seen::Again(2)]);
    assert!(bench.packet(5), "comes while others wait");
    assert_eq!(bench.seen(), [Seen::Again(3)]);
    assert_eq!(bench.seen(), [Seen::Packet(4), Seen::Packet(5)], "nobody has seen them yet");
    assert_eq!(bench.seen(), []);
    assert!(bench.packet(6));
    assert!(bench.packet(7));
    assert_eq!(bench.seen(), [Seen::Packet(6), Seen::Packet(7)], "live again");
}

#[test]
fn record_that_ends_an_app_twice_is_set_aside() {
    let mut bench = Bench::live(vec![switch(7, 0)]);
    (1..=3).for_each(|number| assert!(bench.packet(number)));
    bench.peek(MAX_BATCH);
    assert_eq!(bench.die(), None, "which of the three it was cannot be known");
    bench.attach();
    bench.seen();
    assert_eq!(bench.peek(MAX_BATCH), [Seen::Again(1)]);
    let record = bench.die().expect("it ended the app alone");
    assert_eq!(seen(&record), Seen::Again(1).without_flag());
    bench.attach();
    bench.seen();
    assert_eq!(bench.seen(), [Seen::Again(2)]);
    assert_eq!(bench.seen(), [Seen::Again(3)]);
}

impl Seen {
    /// The record as it was when it was new.
    fn without_flag(self) -> Self {
        match self {
            Self::Again(number) => Self::Packet(number),
            other => other,
        }
    }
}

#[test]
fn replayed_record_that_was_done_is_not_set_aside() {
    let mut bench = Bench::live(vec![switch(7, 0)]);
    (1..=2).for_each(|number| assert!(bench.packet(number)));
    bench.peek(MAX_BATCH);
    bench.die();
    bench.attach();
    bench.seen();
    bench.pump();
    let zone = bench.zone.as_mut().unwrap();
    assert_eq!(zone.records.batch(MAX_BATCH).unwrap().len(), 1);
    zone.messages.done(&mut zone.records, 1);
    assert_eq!(bench.die(), None);
    bench.attach();
    bench.seen();
    assert_eq!(bench.seen(), [Seen::Again(2)], "the first has had its effects");
}

#[test]
fn packets_of_a_past_connection_are_not_delivered_again() {
    let mut gone = switch(9, 0);
    gone.epoch = 9;
    let mut bench = Bench::live(vec![switch(7, 0)]);
    let record = switch_record(RecordKind::PacketIn, &gone);
    assert!(bench.app_port.packet_in(&mut gone, &record, &[1; 8], Ticket::NONE));
    assert!(bench.packet(2));
    bench.peek(0);
    bench.die();
    bench.attach();
    bench.seen();
    assert_eq!(bench.seen(), [Seen::Again(2)]);
}

#[test]
fn many_ports_are_announced_in_parts() {
    let mut bench = Bench::new(vec![switch(7, 500)]);
    bench.attach();
    let mut all = Vec::new();
    for _ in 0..100 {
        all.extend(bench.seen());
    }
    assert_eq!(all.len(), 3 + 500);
    assert_eq!(all.last(), Some(&Seen::End));
    let ports = (1..=500).map(Seen::Port);
    assert!(all.iter().skip(2).take(500).eq(ports.collect::<Vec<_>>().iter()));
}

#[test]
fn lost_port_change_announces_the_switch_again() {
    let mut bench = Bench::live(vec![switch(7, 1)]);
    while bench.app_port.delivery.push(&bare(RecordKind::SnapshotEnd), &[], Room::All) {}
    let port = bench.switches[0].ports[&1];
    bench.app_port.port(&mut bench.switches[0], 2, &port);
    let mut records = Vec::new();
    for _ in 0..10 {
        bench.pump();
        let zone = bench.zone.as_mut().unwrap();
        let batch = zone.records.batch(MAX_BATCH).unwrap();
        let count = batch.len();
        let news = batch.iter().filter(|record| record[4] != 2);
        records.extend(news.map(seen));
        zone.messages.done(&mut zone.records, count);
    }
    assert_eq!(records, [Seen::Up(7), Seen::Port(1)]);
}

#[test]
fn end_of_a_switch_waits_for_room() {
    let mut bench = Bench::live(vec![switch(7, 0), switch(8, 0)]);
    while bench.app_port.delivery.push(&bare(RecordKind::SnapshotEnd), &[], Room::All) {}
    let gone = bench.switches.remove(0);
    bench.app_port.switch_down(&gone);
    let mut records = Vec::new();
    for _ in 0..10 {
        records.extend(bench.seen());
    }
    records.retain(|seen| *seen != Seen::End);
    assert_eq!(records, [Seen::Down(7)], "and nothing else is announced again");
}

#[test]
fn reconnect_with_a_full_ring_is_announced_in_order() {
    let mut bench = Bench::live(vec![switch(7, 1), switch(8, 0)]);
    while bench.app_port.delivery.push(&bare(RecordKind::SnapshotEnd), &[], Room::All) {}
    let gone = bench.switches.remove(0);
    bench.app_port.switch_down(&gone);
    let mut back = switch(7, 1);
    back.epoch = 2;
    assert!(!bench.app_port.announce(&mut back));
    bench.switches.push(back);
    let mut records = Vec::new();
    for _ in 0..10 {
        records.extend(bench.seen());
    }
    records.retain(|seen| *seen != Seen::End);
    assert_eq!(records, [Seen::Down(7), Seen::Up(7), Seen::Port(1)]);
}

#[test]
fn full_app_still_gets_announcements() {
    let mut bench = Bench::live(vec![switch(7, 0)]);
    while bench.packet(1) {}
    let gone = bench.switches.remove(0);
    bench.app_port.switch_down(&gone);
    let mut records = Vec::new();
    for _ in 0..10 {
        records.extend(bench.seen());
    }
    assert_eq!(records.last(), Some(&Seen::Down(7)));
}

#[test]
fn app_back_under_load_becomes_live() {
    let mut bench = Bench::live(vec![switch(7, 0)]);
    (0..20).for_each(|number| assert!(bench.packet(number)));
    bench.peek(MAX_BATCH);
    bench.die();
    bench.attach();
    let mut number = 20;
    for _ in 0..40 {
        // Two come while one is handled.
        (0..2).for_each(|_| number += u8::from(bench.packet(number)));
        bench.seen();
    }
    assert_eq!(bench.app_port.snapshot.phase, Phase::Live);
}

#[test]
fn unseen_packet_is_not_blamed_for_a_death() {
    let mut bench = Bench::new(vec![switch(7, 0)]);
    bench.attach();
    assert!(bench.packet(1));
    bench.peek(MAX_BATCH);
    assert_eq!(bench.die(), None);
    bench.attach();
    assert_eq!(bench.seen(), [Seen::Begin, Seen::Up(7), Seen::End]);
    assert_eq!(bench.seen(), [Seen::Again(1)]);
}

#[test]
fn replayed_record_is_not_blamed_for_a_later_event() {
    let mut bench = Bench::live(vec![switch(7, 1)]);
    assert!(bench.packet(1));
    bench.peek(MAX_BATCH);
    bench.die();
    bench.attach();
    bench.seen();
    assert_eq!(bench.seen(), [Seen::Again(1)]);
    let port = bench.switches[0].ports[&1];
    bench.app_port.port(&mut bench.switches[0], 2, &port);
    assert_eq!(bench.peek(MAX_BATCH), [Seen::Port(1)]);
    assert_eq!(bench.die(), None);
}

#[test]
fn death_before_a_pending_announcement_loses_nothing() {
    let mut bench = Bench::live(vec![switch(7, 0), switch(8, 0)]);
    assert!(bench.packet(1));
    while bench.app_port.delivery.push(&bare(RecordKind::SnapshotEnd), &[], Room::All) {}
    let gone = bench.switches.pop().unwrap();
    bench.app_port.switch_down(&gone);
    assert!(!bench.packet(2), "the ring is full");
    bench.peek(MAX_BATCH);
    bench.die();
    bench.attach();
    let mut records = Vec::new();
    for _ in 0..10 {
        records.extend(bench.seen());
    }
    let packets: Vec<_> = records.into_iter().filter(|seen| !matches!(seen, Seen::End)).collect();
    assert_eq!(packets, [Seen::Begin, Seen::Up(7), Seen::Again(1)]);
}

#[test]
fn early_deaths_leave_no_rings_behind() {
    let mut bench = Bench::new(vec![switch(7, 500)]);
    for _ in 0..3 {
        bench.attach();
        assert!(bench.packet(1));
        assert!(bench.peek(MAX_BATCH).contains(&Seen::Up(7)), "more than the ring holds");
        assert_eq!(bench.die(), None);
        assert!(!bench.app_port.backlog.has_seen(), "the next snapshot announces all of it");
    }
    assert_eq!(bench.app_port.counts.delivered, 3, "these wait");
}

#[test]
fn changing_switch_does_not_delay_the_snapshot() {
    let mut bench = Bench::new(vec![switch(7, 500)]);
    bench.attach();
    let port = bench.switches[0].ports[&1];
    let ended = (0..200).any(|_| {
        bench.app_port.port(&mut bench.switches[0], 2, &port);
        bench.seen().contains(&Seen::End)
    });
    assert!(ended);
}

#[test]
fn stale_switch_that_ends_is_announced() {
    let mut bench = Bench::live(vec![switch(7, 1)]);
    while bench.app_port.delivery.push(&bare(RecordKind::SnapshotEnd), &[], Room::All) {}
    let port = bench.switches[0].ports[&1];
    bench.app_port.port(&mut bench.switches[0], 2, &port);
    let gone = bench.switches.pop().unwrap();
    bench.app_port.switch_down(&gone);
    let mut records = Vec::new();
    for _ in 0..10 {
        records.extend(bench.seen());
    }
    records.retain(|seen| *seen != Seen::End);
    assert_eq!(records, [Seen::Down(7)]);
}

#[test]
fn port_changed_amid_announcement_is_announced_as_it_is() {
    let mut bench = Bench::new(vec![switch(7, 500)]);
    bench.attach();
    bench.seen();
    let Announced::PortsBelow(next) = bench.switches[0].announced.get(AppSlot::new(0)) else {
        panic!("announced in parts")
    };
    bench.catch_up(); // there is room again
    for number in [1, next] {
        let port = bench.switches[0].ports.remove(&number).unwrap();
        bench.app_port.port(&mut bench.switches[0], 1, &port);
    }
    let mut records = Vec::new();
    for _ in 0..100 {
        records.extend(bench.seen());
    }
    let of = |number| records.iter().filter(|seen| **seen == Seen::Port(number)).count();
    assert_eq!((of(1), of(next)), (1, 0), "its end is announced; the other was never announced");
}

#[test]
fn full_app_gets_a_share_of_arp_per_switch() {
    let (mut arp, ip) = ([7; 42], [7; 42]);
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    for away in [false, true] {
        let mut bench = Bench::live(vec![switch(7, 0)]);
        if away {
            assert_eq!(bench.die(), None);
        }
        while bench.packet_with(&ip) {}
        let vital = (0..100).filter(|_| bench.packet_with(&arp)).count();
        let places = if away { 36..=46 } else { 4..=6 };
        assert!(places.contains(&vital), "{vital} in an eighth of the last ring");
        assert_eq!(bench.app_port.counts.dropped, 1 + 100 - u64::try_from(vital).unwrap());
    }
    let mut bench = Bench::live(vec![switch(7, 0)]);
    while bench.packet_with(&ip) {}
    while bench.switches[0].vital.spend() {}
    assert!(!bench.packet_with(&arp));
    bench.switches[0].vital.refresh(Instant::now() + crate::back_pressure::PERIOD);
    assert!(bench.packet_with(&arp));
}

#[test]
fn full_app_gets_packets_once_half_is_free() {
    let (mut bench, now) = (Bench::live(vec![switch(7, 0)]), Instant::now());
    let is_full = |bench: &mut Bench| matches!(bench.app_port.fill(now), Fill::Full(_));
    while bench.packet(1) {}
    let given = bench.app_port.counts.delivered;
    assert!(is_full(&mut bench));
    let mut done = 0;
    while is_full(&mut bench) {
        assert!(!bench.packet(1), "{done} of {given} are done");
        assert_eq!(bench.peek(1).len(), 1);
        let zone = bench.zone.as_mut().unwrap();
        zone.messages.done(&mut zone.records, 1);
        bench.catch_up();
        done += 1;
    }
    assert!((given / 3..=given * 2 / 3).contains(&done), "{done} of {given}");
    assert!(bench.packet(1));
}
