//! Tests the app with records of its host: switches, packets, and the table of the topology service.

use openflow::{PacketOut, Version};
use rosemary_sdk::MacAddr;
use rosemary_sdk::abi::RecordKind;
use rosemary_sdk::packet::Packet;
use rosemary_sdk::services::hosts::{UNTAGGED, find_address, find_host};
use rosemary_sdk::services::table::{EMPTY, NewsKind};
use rosemary_sdk::services::topology::Endpoint;
use rosemary_sdk::services::{Outcome, RequestId};
use rosemary_sdk::testing::{AlignedRecord, Bench, Sent};

use super::tests::{ALICE, IP, MALLORY, arp};
use super::*;

fn switch(dpid: u64) -> Switch {
    Bench::switch(dpid, Version::V1_3)
}

fn port_record(port: u32, edge: bool, link: bool) -> Slot {
    let at = Endpoint { dpid: Dpid(1), port: PortNo(port) };
    let (hw_addr, name, live, shared) = (MacAddr([2; 6]), [0; 16], true, false);
    Record::Port(PortRecord { at, hw_addr, speed_kbps: 0, name, live, edge, link, shared }).encode()
}

/// A switch with three ports: an edge, a link and one that is not decided.
fn bench() -> Bench {
    let mut bench = Bench::new::<Hosts>();
    bench.event(AlignedRecord::about(RecordKind::SwitchUp, switch(1)));
    for port in 1..=3 {
        bench.event(AlignedRecord::port(switch(1), 0, PortNo(port), 0));
    }
    let table = vec![
        EMPTY,
        port_record(1, true, false),
        port_record(2, false, true),
        port_record(3, false, false),
    ];
    bench.set_table(Service::Topology, table);
    bench.event(AlignedRecord::table(Service::Topology, NewsKind::Attached, &[]));
    bench
}

fn packet(bench: &mut Bench, port: u32, frame: &[u8]) -> Vec<Sent> {
    bench.event(AlignedRecord::packet_in(switch(1), PortNo(port), frame))
}

/// The table as the clients see it.
fn published(bench: &mut Bench) -> Vec<Slot> {
    let slots = Service::Hosts.table_slots().unwrap();
    let mut table = vec![EMPTY; slots as usize];
    for (slot, record) in bench.published() {
        table[*slot as usize] = *record;
    }
    table
}

fn port_of(bench: &mut Bench, mac: MacAddr) -> Option<u32> {
    find_host(&published(bench), mac, UNTAGGED).map(|host| host.port.0)
}

#[test]
fn host_at_an_edge_is_published() {
    let mut bench = bench();
    packet(&mut bench, 1, &arp(ALICE, IP));
    packet(&mut bench, 2, &arp(MALLORY, IP));
    assert_eq!(port_of(&mut bench, ALICE), Some(1));
    assert_eq!(port_of(&mut bench, MALLORY), None, "behind a link");
    let owner = find_address(&published(&mut bench), IP.into(), UNTAGGED).unwrap();
    assert_eq!(owner.mac, ALICE);
}

#[test]
fn host_is_published_when_its_port_becomes_an_edge() {
    let mut bench = bench();
    packet(&mut bench, 3, &arp(ALICE, IP));
    assert_eq!(port_of(&mut bench, ALICE), None);
    let (before, after) = (port_record(3, false, false), port_record(3, true, false));
    let change = Change { slot: 3, before, after };
    bench.event(AlignedRecord::table(Service::Topology, NewsKind::Changed, &[change]));
    assert_eq!(port_of(&mut bench, ALICE), Some(3));
    let change = Change { slot: 3, before: after, after: EMPTY };
    bench.event(AlignedRecord::table(Service::Topology, NewsKind::Changed, &[change]));
    packet(&mut bench, 3, &arp(MALLORY, IP));
    assert_eq!(port_of(&mut bench, MALLORY), None, "the port is undecided again");
}

#[test]
fn claim_sends_a_probe_and_its_answer_reports_an_incident() {
    let mut bench = bench();
    let (before, after) = (port_record(3, false, false), port_record(3, true, false));
    let change = Change { slot: 3, before, after };
    bench.event(AlignedRecord::table(Service::Topology, NewsKind::Changed, &[change]));
    packet(&mut bench, 1, &arp(ALICE, IP));
    let sent = packet(&mut bench, 3, &arp(ALICE, IP));
    let [probe] = &sent[..] else { panic!("one probe: {sent:?}") };
    let probe = PacketOut::decode(&probe.message).unwrap();
    assert!(probe.actions.iter().eq([Action::output(PortNo(1))]));
    let request = Packet::parse(probe.data).unwrap().arp().unwrap();
    packet(&mut bench, 1, &request.reply(ALICE));
    assert_eq!(port_of(&mut bench, ALICE), Some(1));
    let incidents = bench.incidents();
    let [(summary, evidence)] = &incidents[..] else { panic!("one: {incidents:?}") };
    assert_eq!(summary, "a second port claimed the Ethernet address of a host");
    assert!(evidence.contains("00:00:00:00:00:00:00:01 port 3"), "{evidence}");
}

#[test]
fn missing_topology_is_logged() {
    let mut bench = Bench::new::<Hosts>();
    bench.event(AlignedRecord::about(RecordKind::SwitchUp, switch(1)));
    for _ in 0..10_100 {
        bench.batch(&[]).unwrap(); // a millisecond each
    }
    let log = bench.log();
    assert!(log.iter().any(|line| line.contains("`topology` is not available")), "{log:?}");
    assert_eq!(log.len(), 2, "that, and the storage: {log:?}");
}

#[test]
fn services_that_come_in_time_are_not_logged() {
    let mut bench = bench();
    storage_is_up(&mut bench);
    store(&mut bench, &mut BTreeMap::new());
    for _ in 0..10_100 {
        bench.batch(&[]).unwrap();
    }
    assert_eq!(bench.log(), [""; 0]);
}

/// Answers requests to the storage like the service, until there are none.
fn store(bench: &mut Bench, stored: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    use rosemary_sdk::services::storage::{Answer, KeysWriter, Request};
    for _ in 0..20 {
        for asked in bench.asked() {
            let answer = match Request::decode(&asked.request).unwrap() {
                Request::List { .. } => {
                    let mut keys = KeysWriter::default();
                    for key in stored.keys() {
                        keys.push(key, 1);
                    }
                    keys.finish(false)
                }
                Request::Get { key, .. } => match stored.get(key) {
                    Some(value) => Answer::Value { version: 1, value }.encode(),
                    None => Answer::Nothing.encode(),
                },
                Request::Put { key, value, .. } => {
                    stored.insert(key.to_vec(), value.to_vec());
                    Answer::Done { version: 1 }.encode()
                }
                other => panic!("{other:?}"),
            };
            let storage = Service::Storage;
            bench.event(AlignedRecord::service(storage, Outcome::Answered, asked.id, &answer));
        }
        for _ in 0..20 {
            bench.batch(&[]).unwrap(); // a millisecond each
        }
    }
}

fn storage_is_up(bench: &mut Bench) {
    bench.event(AlignedRecord::service(Service::Storage, Outcome::Up, RequestId(0), &[]));
}

#[test]
fn host_is_published_by_the_next_process_before_it_sends_anything() {
    let mut stored = BTreeMap::new();
    let mut first = bench();
    storage_is_up(&mut first);
    packet(&mut first, 1, &arp(ALICE, IP));
    store(&mut first, &mut stored);
    assert_eq!(stored.len(), 1, "one host is in one value");

    let mut second = bench();
    storage_is_up(&mut second);
    store(&mut second, &mut stored);
    let host = find_host(&published(&mut second), ALICE, UNTAGGED).unwrap();
    assert_eq!((host.port, host.is_doubted), (PortNo(1), true));
    assert_eq!(find_address(&published(&mut second), IP.into(), UNTAGGED).unwrap().mac, ALICE);
    packet(&mut second, 1, &arp(ALICE, IP));
    assert!(!find_host(&published(&mut second), ALICE, UNTAGGED).unwrap().is_doubted);
}

#[test]
fn nothing_is_written_before_all_is_read() {
    let mut bench = bench();
    packet(&mut bench, 1, &arp(ALICE, IP));
    storage_is_up(&mut bench);
    let asked = bench.asked();
    assert_eq!(asked.len(), 1, "the list of values alone: {asked:?}");
    for _ in 0..300 {
        bench.batch(&[]).unwrap();
    }
    assert!(bench.asked().is_empty());
}

#[test]
fn storage_that_ends_is_asked_again() {
    let mut stored = BTreeMap::new();
    let mut bench = bench();
    storage_is_up(&mut bench);
    let list = bench.asked().pop().unwrap();
    bench.event(AlignedRecord::service(Service::Storage, Outcome::Unavailable, list.id, &[]));
    storage_is_up(&mut bench);
    store(&mut bench, &mut stored);
    packet(&mut bench, 1, &arp(ALICE, IP));
    for _ in 0..150 {
        bench.batch(&[]).unwrap();
    }
    let put = bench.asked().pop().expect("a write");
    bench.event(AlignedRecord::service(Service::Storage, Outcome::Unavailable, put.id, &[]));
    for _ in 0..150 {
        bench.batch(&[]).unwrap();
    }
    assert!(bench.asked().is_empty(), "until it is up again");
    storage_is_up(&mut bench);
    store(&mut bench, &mut stored);
    assert_eq!(stored.len(), 1);
}

#[test]
fn missing_storage_is_logged() {
    let mut bench = bench();
    for _ in 0..10_100 {
        bench.batch(&[]).unwrap();
    }
    let log = bench.log();
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(log[0].contains("`storage` is not available"));
}
