//! The whole app on a bench: what it sends, publishes, stores and answers.

use rosemary_sdk::abi::RecordKind;
use rosemary_sdk::openflow::{PacketOut as Decoded, Version};
use rosemary_sdk::packet::lldp::NEAREST_BRIDGE;
use rosemary_sdk::services::storage::{Answer, KeysWriter, Request as StorageRequest};
use rosemary_sdk::services::topology::{Record, Refused, Request, decode_answer};
use rosemary_sdk::services::{Outcome, Service};
use rosemary_sdk::serving::{ClientEvent, ClientId, ClientNews, ClientRequest};
use rosemary_sdk::testing::{AlignedRecord, Bench};
use rosemary_sdk::{Dpid, Switch};

use super::*;

fn switch(dpid: u64) -> Switch {
    Bench::switch(dpid, Version::V1_3)
}

/// Two switches; port 2 of the first leads to port 1 of the second, one way.
fn bench() -> Bench {
    let mut bench = Bench::new::<Topology>();
    bench.event(AlignedRecord::about(RecordKind::SnapshotBegin, switch(0)));
    bench.event(AlignedRecord::about(RecordKind::SnapshotEnd, switch(0)));
    let mut sent = Vec::new();
    for dpid in [1, 2] {
        sent.extend(bench.event(AlignedRecord::about(RecordKind::SwitchUp, switch(dpid))));
        for port in [1, 2] {
            sent.extend(bench.event(AlignedRecord::port(switch(dpid), 0, PortNo(port), 0)));
        }
    }
    for _ in 0..120 {
        sent.extend(bench.batch(&[]).unwrap().1);
    }
    let mut frames = sent.iter().filter_map(|sent| {
        let packet_out = Decoded::decode(&sent.message).ok()?;
        let is_out = packet_out.actions.iter().next() == Some(Action::output(PortNo(2)))
            && packet_out.data.starts_with(&NEAREST_BRIDGE.0);
        (sent.dpid == Dpid(1) && is_out).then(|| packet_out.data.to_vec())
    });
    let frame = frames.next_back().expect("each port is probed");
    bench.event(AlignedRecord::packet_in(switch(2), PortNo(1), &frame));
    bench
}

fn records(bench: &mut Bench) -> Vec<Record> {
    bench.published().values().filter_map(Record::decode).collect()
}

fn is_drained(bench: &mut Bench, dpid: u64) -> bool {
    records(bench)
        .iter()
        .any(|it| matches!(it, Record::Switch(it) if it.dpid.0 == dpid && it.drained))
}

fn request(id: u64) -> ClientRequest {
    ClientRequest { client: ClientId(7), id }
}

/// Connects a client with these rights, and sends a request of it.
fn ask(bench: &mut Bench, rights: &str, body: &[u8]) {
    let connected = ClientEvent::connected_body("operator", rights);
    bench.event(AlignedRecord::client(ClientNews::Connected, request(0), 0, &connected));
    bench.event(AlignedRecord::client(ClientNews::Request, request(5), 0, body));
}

fn answer_of(bench: &mut Bench) -> Option<Result<(), Refused>> {
    let answers = bench.answers();
    let [answer] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((answer.request, answer.more), (request(5), false));
    decode_answer(&answer.body)
}

/// A port-status message of a switch that adds port 100, and then further ones.
const PORT_ADDED: &str = "040c005000000001000000000000000000000064000000000200000000640000700000000000000000000000000000\
                          000000000000000004000008400000000000000000000000000098968000989680";

#[test]
fn endless_ports_are_one_report() {
    let byte = |at: usize| u8::from_str_radix(&PORT_ADDED[at..at + 2], 16).unwrap();
    let message: Vec<u8> = (0..PORT_ADDED.len()).step_by(2).map(byte).collect();
    let added = openflow::PortStatus::decode(&message).unwrap();
    assert_eq!(added.desc.port_no, PortNo(100));
    let mut bench = Bench::new::<Topology>();
    bench.event(AlignedRecord::about(RecordKind::SnapshotBegin, switch(0)));
    bench.event(AlignedRecord::about(RecordKind::SnapshotEnd, switch(0)));
    bench.event(AlignedRecord::about(RecordKind::SwitchUp, switch(1)));
    for number in 0..4096 + 1000 {
        let port = PortNo(added.desc.port_no.0 + number);
        bench.event(AlignedRecord::port(switch(1), 0, port, 0));
    }
    let incidents = bench.incidents();
    let [(summary, _)] = &incidents[..] else { panic!("{incidents:?}") };
    assert!(summary.contains("more than 4096 ports"), "{summary}");
    let log = bench.log();
    assert!(log.iter().filter(|line| line.contains("ports")).count() <= 1, "{log:?}");
}

#[test]
fn link_of_a_packet_in_is_published() {
    let mut bench = bench();
    let links = records(&mut bench).into_iter().filter_map(|record| match record {
        Record::Link(link) => {
            Some((link.from.dpid.0, link.from.port.0, link.to.dpid.0, link.to.port.0))
        }
        _ => None,
    });
    assert_eq!(links.collect::<Vec<_>>(), [(1, 2, 2, 1)]);
    bench.event(AlignedRecord::about(RecordKind::SwitchDown, switch(1)));
    let left = records(&mut bench);
    assert!(!left.iter().any(|it| matches!(it, Record::Link(_))));
    assert_eq!(left.len(), 1 + 1 + 2 + 1, "the status, a switch, its ports, the link that is down");
}

#[test]
fn drain_counts_when_it_is_stored() {
    let mut bench = bench();
    ask(&mut bench, "operator", &Request::Drain { dpid: Dpid(2), on: true }.encode());
    let asked = bench.asked();
    let [asked] = &asked[..] else { panic!("{asked:?}") };
    let Some(StorageRequest::Put { key, .. }) = StorageRequest::decode(&asked.request) else {
        panic!()
    };
    assert_eq!(key, b"drain/0000000000000002");
    assert!(!is_drained(&mut bench, 2) && bench.answers().is_empty());
    let done = Answer::Done { version: 1 }.encode();
    bench.event(AlignedRecord::service(Service::Storage, Outcome::Answered, asked.id, &done));
    assert!(is_drained(&mut bench, 2) && !is_drained(&mut bench, 1));
    assert_eq!(answer_of(&mut bench), Some(Ok(())));
    let record = "Audit: operator: drain 00:00:00:00:00:00:00:02: not drained -> drained";
    assert!(bench.log().iter().any(|it| it == record));

    ask(
        &mut bench,
        "topology.read topology.drain",
        &Request::Drain { dpid: Dpid(2), on: false }.encode(),
    );
    let id = bench.asked()[0].id;
    bench.event(AlignedRecord::service(Service::Storage, Outcome::Unavailable, id, &[]));
    assert_eq!(answer_of(&mut bench), Some(Err(Refused::NotStored)));
    assert!(is_drained(&mut bench, 2));
}

#[test]
fn drain_needs_the_right_and_a_valid_request() {
    let mut bench = bench();
    let drain = Request::Drain { dpid: Dpid(2), on: true }.encode();
    ask(&mut bench, "topology.read", &drain);
    assert_eq!(answer_of(&mut bench), Some(Err(Refused::NotGranted)));
    ask(&mut bench, "operator", &drain[..5]);
    assert_eq!(answer_of(&mut bench), Some(Err(Refused::Malformed)));
    bench.event(AlignedRecord::client(ClientNews::Disconnected, request(0), 0, &[]));
    bench.event(AlignedRecord::client(ClientNews::Request, request(5), 0, &drain));
    assert_eq!(answer_of(&mut bench), Some(Err(Refused::NotGranted)));
    assert!(bench.asked().is_empty());
}

#[test]
fn drains_are_read_from_the_storage() {
    let mut bench = bench();
    let up = AlignedRecord::service(
        Service::Storage,
        Outcome::Up,
        rosemary_sdk::services::RequestId(0),
        &[],
    );
    bench.event(up);
    for (key, more) in [(&b"drain/0000000000000001"[..], true), (b"drain/what", false)] {
        let asked = bench.asked();
        let mut keys = KeysWriter::default();
        assert!(keys.push(key, 1));
        let answer = keys.finish(more);
        bench.event(AlignedRecord::service(
            Service::Storage,
            Outcome::Answered,
            asked[0].id,
            &answer,
        ));
    }
    assert!(is_drained(&mut bench, 1) && !is_drained(&mut bench, 2));
    assert!(bench.asked().is_empty());
}

#[test]
fn probe_of_another_rosemary_is_an_incident() {
    let mut bench = bench();
    (0..6000).for_each(|_| drop(bench.batch(&[])));
    let from = rosemary_sdk::services::topology::Endpoint { dpid: Dpid(1), port: PortNo(1) };
    let other = probe::Probe { reach: probe::Reach::Link, from, nonce: 1 }
        .write(rosemary_sdk::MacAddr([2; 6]), &Seal::random());
    bench.event(AlignedRecord::packet_in(switch(2), PortNo(2), &other));
    let incidents = bench.incidents();
    assert_eq!(incidents.len(), 1);
    assert!(incidents[0].0.contains("LLDP of another Rosemary"), "{incidents:?}");
}

#[test]
fn missing_capability_is_logged_once() {
    let mut bench = bench();
    bench.log();
    for _ in 0..3 {
        let at = switch(1);
        let head = rosemary_sdk::abi::Record {
            reason: Refusal::Capability as u8,
            ..rosemary_sdk::abi::Record::new(
                RecordKind::Refused,
                at.version.wire(),
                at.dpid.0,
                at.epoch,
            )
        };
        bench.event(AlignedRecord::new(head, &[4; 16]));
    }
    let log = bench.log();
    assert_eq!(log.iter().filter(|line| line.contains("topology.probe")).count(), 1, "{log:?}");
}
