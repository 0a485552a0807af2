//! Tests the app with records of its host: switches, ports, answers and clients.

use openflow::{MultipartReply, PortStats, Version, append};
use rosemary_sdk::Dpid;
use rosemary_sdk::abi::RecordKind;
use rosemary_sdk::services::stats::{Record, find_port, find_rates};
use rosemary_sdk::services::table::{EMPTY, Slot};
use rosemary_sdk::serving::{ClientId, ClientNews, ClientRequest};
use rosemary_sdk::testing::{AlignedRecord, Bench, Sent};

use super::*;

fn switch() -> Switch {
    Bench::switch(1, Version::V1_3)
}

fn bench(config: &str) -> Bench {
    let mut bench = Bench::configured::<Stats>(config).unwrap();
    let mut sent = bench.event(AlignedRecord::about(RecordKind::SwitchUp, switch()));
    sent.extend(bench.event(AlignedRecord::port(switch(), 0, PortNo(1), 0)));
    answer(&mut bench, sent, 0);
    bench
}

/// Answers requests for ports; the others are not supported. Returns how many were for ports.
fn answer(bench: &mut Bench, mut sent: Vec<Sent>, packets: u64) -> usize {
    let mut ports = 0;
    while let Some(request) = sent.pop() {
        let xid = Xid::of(&request.message).unwrap();
        let is_ports = matches!(
            MultipartRequest::decode(&request.message),
            Ok(MultipartRequest::PortStats(PortNo::ANY))
        );
        let record = if is_ports {
            ports += 1;
            let reply =
                MultipartReply { more: false, body: ReplyBody::PortStats(vec![stats(packets)]) };
            let mut message = Vec::new();
            append(&mut message, |out| reply.encode(Version::V1_3, xid.0, out)).unwrap();
            AlignedRecord::answer(RecordKind::Reply, switch(), &message)
        } else {
            let error = [&[4, 1, 0, 12][..], &xid.0.to_be_bytes(), &[0, 1, 0, 2]].concat();
            AlignedRecord::answer(RecordKind::Error, switch(), &error)
        };
        sent.extend(bench.event(record));
    }
    ports
}

fn stats(packets: u64) -> PortStats {
    PortStats {
        port_no: PortNo(1),
        rx_packets: packets,
        tx_packets: packets,
        rx_bytes: packets * 100,
        tx_bytes: packets * 100,
        rx_dropped: 0,
        tx_dropped: 0,
        rx_errors: 0,
        tx_errors: 0,
        rx_frame_err: 0,
        rx_over_err: 0,
        rx_crc_err: 0,
        collisions: 0,
        duration: None,
    }
}

/// Lets this many milliseconds pass and answers requests; returns how many were for ports.
fn pass(bench: &mut Bench, ms: u64, packets: u64) -> usize {
    let mut ports = 0;
    for _ in 0..ms {
        let (_, sent) = bench.batch(&[]).unwrap();
        ports += answer(bench, sent, packets);
    }
    ports
}

fn published(bench: &mut Bench) -> Vec<Slot> {
    let mut table = vec![EMPTY; Service::Stats.table_slots().unwrap() as usize];
    for (slot, record) in bench.published() {
        table[*slot as usize] = *record;
    }
    table
}

#[test]
fn answers_are_published_with_rates() {
    let mut bench = bench("interval = 1");
    assert_eq!(pass(&mut bench, 20, 0), 1);
    assert_eq!(pass(&mut bench, 1000, 100), 1);
    let table = published(&mut bench);
    let counters = find_port(&table, Dpid(1), PortNo(1)).unwrap();
    assert_eq!(counters.rx_packets, Some(100));
    let rates = find_rates(&table, Dpid(1), PortNo(1)).unwrap();
    assert!(rates.rx_bps.is_some_and(|bps| (70_000..90_000).contains(&bps)), "{rates:?}");
    bench.event(AlignedRecord::about(RecordKind::SwitchDown, switch()));
    assert_eq!(published(&mut bench).iter().filter_map(Record::of_slot).count(), 0);
}

#[test]
fn unsupported_counters_are_asked_for_once() {
    let mut bench = bench("interval = 1");
    pass(&mut bench, 200, 0);
    let mut requests = 0;
    for _ in 0..10_000 {
        let (_, sent) = bench.batch(&[]).unwrap();
        requests += sent.len();
        let ports = answer(&mut bench, sent, 0);
        requests -= ports;
    }
    assert_eq!(requests, 0, "all others were answered with an error");
}

#[test]
fn client_receives_the_history_of_a_port() {
    let mut bench = bench("interval = 1");
    for packets in 0..5 {
        pass(&mut bench, 1000, packets * 100);
    }
    let request = ClientRequest { client: ClientId(4), id: 9 };
    let known = HistoryRequest { dpid: Dpid(1), port: PortNo(1) }.encode();
    let unknown = HistoryRequest { dpid: Dpid(1), port: PortNo(2) }.encode();
    for body in [&known[..], &unknown, b"?"] {
        bench.event(AlignedRecord::client(ClientNews::Request, request, 7, body));
    }
    let answers = bench.answers();
    let [known, unknown, malformed] = &answers[..] else { panic!("three: {answers:?}") };
    let Some(History::Samples(samples)) = History::decode(&known.body) else { panic!("samples") };
    assert!(samples.len() >= 4 && samples.iter().any(|it| it.rx_pps > 50), "{samples:?}");
    assert_eq!((known.request, known.more), (request, false));
    assert_eq!(History::decode(&unknown.body), Some(History::Unknown));
    assert_eq!(History::decode(&malformed.body), Some(History::Malformed));
}

#[test]
fn silent_switch_is_stale() {
    let mut bench = bench("interval = 1");
    pass(&mut bench, 2000, 10);
    for _ in 0..30_000 {
        bench.batch(&[]).unwrap();
    }
    let rates = find_rates(&published(&mut bench), Dpid(1), PortNo(1)).unwrap();
    assert!(rates.quality.is_stale && rates.rx_bps.is_none());
}

#[test]
fn mistake_in_the_configuration_names_its_line() {
    for (text, expected) in
        [("interval = 0", "line 1: interval is 1"), ("\nx = 1", "line 2: unknown")]
    {
        let error = interval(text).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
    assert_eq!(interval(""), Ok(INTERVAL));
}
