//! Tests the poller and the figures with requests, answers and times.

use std::time::Duration;

use proptest::prelude::*;
use rosemary_sdk::openflow::{AggregateStats, GroupStats, PortStats, TableStats};
use rosemary_sdk::services::stats::{
    PortCounters, PortRates, Record, find_port, find_rates, find_switch,
};
use rosemary_sdk::services::table::Slot;
use rosemary_sdk::{Dpid, PortNo, Switch, Version, Xid};

use super::figures::Store;
use super::poller::{Part, Poller, Subject};
use super::rates::Moment;

const INTERVAL: Duration = Duration::from_secs(5);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn switch(dpid: u64) -> Switch {
    Switch { dpid: Dpid(dpid), epoch: 1, version: Version::V1_3 }
}

/// Sends all requests that are due; returns them.
fn send(poller: &mut Poller, now: Duration, xid: &mut u32) -> Vec<(Switch, Subject, Xid)> {
    let mut sent = Vec::new();
    while let Some((switch, subject)) = poller.next(now) {
        *xid += 1;
        poller.sent(switch.dpid, Xid(*xid), now);
        sent.push((switch, subject, Xid(*xid)));
    }
    sent
}

#[test]
fn one_request_at_a_time_is_sent_to_a_switch() {
    let mut poller = Poller::new(INTERVAL);
    let (mut now, mut xid) = (ms(1000), 0);
    poller.add(switch(1), now);
    let mut subjects = Vec::new();
    while now < ms(10_900) {
        let sent = send(&mut poller, now, &mut xid);
        assert!(sent.len() <= 1);
        now += ms(10);
        for (switch, subject, xid) in sent {
            subjects.push((now.as_secs(), subject));
            let part = poller.answered(switch, xid, false, now);
            assert_eq!(part.map(|it| (it.subject, it.is_last)), Some((subject, true)));
        }
    }
    let first = [Subject::Ports, Subject::Flows, Subject::Tables, Subject::Groups, Subject::Meters];
    let first = first.map(|subject| (1, subject));
    assert_eq!(subjects, [&first[..], &[(6, Subject::Ports)]].concat());
}

#[test]
fn requests_to_many_switches_are_paced() {
    let mut poller = Poller::new(INTERVAL);
    let (mut now, mut xid, mut sent) = (ms(1000), 0, 0);
    for dpid in 1..=2000 {
        poller.add(switch(dpid), now);
    }
    while now < ms(3000) {
        let requests = send(&mut poller, now, &mut xid);
        assert!(requests.len() <= 40, "a burst is bounded");
        sent += requests.len();
        for (switch, _, xid) in requests {
            poller.answered(switch, xid, false, now);
        }
        now += ms(5);
    }
    assert!((780..=860).contains(&sent), "{sent} in two seconds");
}

#[test]
fn silent_switch_is_asked_less_often_and_delays_no_other() {
    let mut poller = Poller::new(INTERVAL);
    let (mut now, mut xid) = (ms(0), 0);
    poller.add(switch(1), now);
    poller.add(switch(2), now);
    let (mut to_silent, mut to_other, mut last) = (0, 0, 0);
    while now < Duration::from_secs(300) {
        for (switch, subject, xid) in send(&mut poller, now, &mut xid) {
            if switch.dpid == Dpid(1) {
                to_silent += 1;
                continue;
            }
            to_other += u32::from(subject == Subject::Ports);
            poller.answered(switch, xid, false, now);
        }
        for (dpid, unanswered) in poller.late(now) {
            assert_eq!(dpid, Dpid(1));
            assert_eq!(unanswered, last + 1);
            last = unanswered;
        }
        now += ms(100);
    }
    assert!((5..=9).contains(&to_silent), "{to_silent}");
    assert!((59..=61).contains(&to_other), "{to_other}");
}

#[test]
fn answers_to_nothing_are_ignored() {
    let mut poller = Poller::new(INTERVAL);
    let mut xid = 0;
    poller.add(switch(1), ms(0));
    let sent = send(&mut poller, ms(200), &mut xid);
    let of =
        |poller: &mut Poller, switch: Switch, xid| poller.answered(switch, xid, false, ms(300));
    assert_eq!(of(&mut poller, switch(1), Xid(99)), None);
    assert_eq!(of(&mut poller, switch(2), sent[0].2), None);
    assert_eq!(of(&mut poller, Switch { epoch: 2, ..switch(1) }, sent[0].2), None);
    assert!(of(&mut poller, switch(1), sent[0].2).is_some());
    assert_eq!(of(&mut poller, switch(1), sent[0].2), None, "it was answered");
}

#[test]
fn endless_answer_is_given_up() {
    let mut poller = Poller::new(INTERVAL);
    let mut xid = 0;
    poller.add(switch(1), ms(0));
    let xid = send(&mut poller, ms(200), &mut xid)[0].2;
    let parts = (0..10_000).map_while(|_| poller.answered(switch(1), xid, true, ms(300)));
    let parts: Vec<Part> = parts.collect();
    assert!(parts.len() < 300 && parts[0].is_first && !parts[1].is_first);
    assert!(!parts.iter().any(|part| part.is_last));
}

#[test]
fn subject_with_an_error_is_not_asked_for_again() {
    let mut poller = Poller::new(INTERVAL);
    let (mut now, mut xid, mut groups) = (ms(0), 0, 0);
    poller.add(switch(1), now);
    while now < Duration::from_secs(100) {
        for (switch, subject, xid) in send(&mut poller, now, &mut xid) {
            if subject == Subject::Groups {
                groups += 1;
                assert_eq!(poller.rejected(switch, xid, now), Some(subject));
            } else {
                poller.answered(switch, xid, false, now);
            }
        }
        now += ms(50);
    }
    assert_eq!(groups, 1);
}

#[test]
fn subjects_of_1_3_are_not_asked_of_1_0() {
    let mut poller = Poller::new(INTERVAL);
    let (mut now, mut xid) = (ms(0), 0);
    poller.add(Switch { version: Version::V1_0, ..switch(1) }, now);
    while now < Duration::from_secs(100) {
        for (switch, subject, xid) in send(&mut poller, now, &mut xid) {
            assert!(!matches!(subject, Subject::Groups | Subject::Meters));
            poller.answered(switch, xid, false, now);
        }
        now += ms(50);
    }
}

fn stats(port: u32, packets: u64, bytes: u64) -> PortStats {
    PortStats {
        port_no: PortNo(port),
        rx_packets: packets,
        tx_packets: 2 * packets,
        rx_bytes: bytes,
        tx_bytes: 2 * bytes,
        rx_dropped: 1,
        tx_dropped: u64::MAX,
        rx_errors: 1 << 40,
        tx_errors: 0,
        rx_frame_err: 0,
        rx_over_err: 0,
        rx_crc_err: 0,
        collisions: 0,
        duration: None,
    }
}

/// A store with switch 1, which has ports 1 and 2, and the table that it writes.
struct Bench {
    store: Store,
    table: Vec<Slot>,
}

impl Bench {
    fn new() -> Self {
        let mut store = Store::new(1024).unwrap();
        store.add_switch(Dpid(1));
        store.add_port(Dpid(1), PortNo(1));
        store.add_port(Dpid(1), PortNo(2));
        let mut bench = Self { store, table: vec![[0; 7]; 1024] };
        bench.write();
        bench
    }

    fn write(&mut self) {
        for (slot, record) in self.store.writes.drain(..) {
            self.table[slot as usize] = record;
        }
    }

    fn ports(&mut self, at_ms: u64, stats: &[PortStats]) {
        self.store.begin(Dpid(1));
        let at = Moment { asked: ms(at_ms), answered: ms(at_ms + 10) };
        self.store.answered(Dpid(1), at);
        self.store.ports(Dpid(1), stats, at);
        self.write();
    }

    fn port(&self, port: u32) -> (PortCounters, PortRates) {
        let port = PortNo(port);
        let counters = find_port(&self.table, Dpid(1), port).expect("counters");
        (counters, find_rates(&self.table, Dpid(1), port).expect("rates"))
    }

    fn records(&self) -> Vec<Record> {
        self.table.iter().filter_map(Record::of_slot).collect()
    }
}

#[test]
fn port_has_counters_and_rates() {
    let mut bench = Bench::new();
    bench.ports(1000, &[stats(1, 100, 10_000), stats(2, 0, 0)]);
    let (counters, rates) = bench.port(1);
    assert_eq!((counters.rx_packets, counters.tx_bytes), (Some(100), Some(20_000)));
    assert_eq!((counters.read_ms, rates.rx_bps), (1010, None), "one reading makes no rate");
    assert_eq!((rates.rx_dropped, rates.tx_dropped), (Some(1), None));
    assert_eq!(rates.rx_errors, Some(u32::MAX - 1), "the highest figure");
    bench.ports(6000, &[stats(1, 600, 60_000), stats(2, 0, 0)]);
    let (_, rates) = bench.port(1);
    assert_eq!((rates.rx_pps, rates.tx_pps), (Some(100), Some(200)));
    assert_eq!((rates.rx_bps, rates.tx_bps), (Some(80_000), Some(160_000)));
    assert_eq!(bench.port(2).1.rx_bps, Some(0));
    let history = bench.store.history(Dpid(1), PortNo(1)).unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!((history[0].at_s, history[0].rx_kbps, history[0].tx_pps), (6, 80, 200));
    assert_eq!(bench.store.history(Dpid(1), PortNo(3)), None);
}

#[test]
fn counter_that_goes_back_has_no_rate() {
    let mut bench = Bench::new();
    bench.ports(1000, &[stats(1, 100, 10_000)]);
    bench.ports(6000, &[stats(1, 50, 5_000)]);
    let (counters, rates) = bench.port(1);
    assert_eq!((counters.rx_packets, rates.rx_bps, rates.tx_bps), (Some(50), None, None));
    assert!(counters.quality.is_implausible && rates.quality.is_implausible);
    bench.ports(11_000, &[stats(1, 150, 15_000)]);
    assert_eq!(bench.port(1).1.rx_pps, Some(20), "the next readings agree");
    assert!(!bench.port(1).1.quality.is_implausible);
}

#[test]
fn ports_that_do_not_exist_or_repeat_are_ignored() {
    let mut bench = Bench::new();
    bench.ports(1000, &[stats(1, 1, 100), stats(1, 7, 700), stats(9, 5, 500)]);
    assert_eq!(bench.port(1).0.rx_packets, Some(1));
    assert_eq!(find_port(&bench.table, Dpid(1), PortNo(9)), None);
    bench.store.ports(Dpid(2), &[stats(1, 1, 100)], Moment { asked: ms(0), answered: ms(0) });
    bench.write();
    assert_eq!(bench.records().len(), 3);
}

#[test]
fn silent_switch_has_no_rates() {
    let mut bench = Bench::new();
    bench.ports(1000, &[stats(1, 100, 10_000)]);
    bench.ports(6000, &[stats(1, 600, 60_000)]);
    bench.store.silent(Dpid(1), 1);
    bench.write();
    assert!(!bench.port(1).0.quality.is_stale, "one answer may be late");
    bench.store.silent(Dpid(1), 2);
    bench.write();
    let (counters, rates) = bench.port(1);
    assert!(counters.quality.is_stale && rates.quality.is_stale);
    assert_eq!((counters.rx_packets, counters.read_ms), (Some(600), 6010), "with their time");
    assert_eq!((rates.rx_bps, rates.tx_pps), (None, None));
    let switch = find_switch(&bench.table, Dpid(1)).unwrap();
    assert_eq!((switch.unanswered, switch.quality.is_stale), (2, true));
    bench.ports(60_000, &[stats(1, 1600, 160_000)]);
    let (counters, rates) = bench.port(1);
    assert_eq!(
        (counters.quality.is_stale, rates.rx_bps),
        (false, None),
        "the pause is no interval"
    );
}

#[test]
fn late_answer_makes_no_rate() {
    let mut bench = Bench::new();
    bench.ports(1000, &[stats(1, 100, 10_000)]);
    let late = Moment { asked: ms(6000), answered: ms(10_500) };
    bench.store.begin(Dpid(1));
    bench.store.ports(Dpid(1), &[stats(1, 600, 60_000)], late);
    bench.write();
    assert_eq!((bench.port(1).0.rx_packets, bench.port(1).1.rx_bps), (Some(600), None));
}

#[test]
fn figures_go_with_port_and_switch() {
    let mut bench = Bench::new();
    bench.ports(1000, &[stats(1, 100, 10_000), stats(2, 0, 0)]);
    let sums = AggregateStats { packet_count: 5, byte_count: u64::MAX, flow_count: 3 };
    let at = Moment { asked: ms(1000), answered: ms(1000) };
    bench.store.flows(Dpid(1), &sums, at);
    bench.write();
    let switch = find_switch(&bench.table, Dpid(1)).unwrap();
    assert_eq!((switch.flows, switch.packets, switch.bytes), (Some(3), Some(5), None));
    bench.store.remove_port(Dpid(1), PortNo(1));
    bench.write();
    assert_eq!(find_port(&bench.table, Dpid(1), PortNo(1)), None);
    assert!(find_port(&bench.table, Dpid(1), PortNo(2)).is_some());
    bench.store.remove_switch(Dpid(1));
    bench.write();
    assert_eq!(bench.records(), []);
}

#[test]
fn group_that_is_gone_has_no_figures() {
    let mut bench = Bench::new();
    let group = |group_id, packet_count| GroupStats {
        group_id,
        ref_count: 0,
        packet_count,
        byte_count: packet_count * 100,
        duration: None,
        buckets: Vec::new(),
    };
    let moment = |at_ms| Moment { asked: ms(at_ms), answered: ms(at_ms) };
    bench.store.begin(Dpid(1));
    bench.store.groups(Dpid(1), &[group(1, 10), group(2, 10)], moment(0));
    bench.store.end(Dpid(1), Subject::Groups);
    bench.store.begin(Dpid(1));
    bench.store.groups(Dpid(1), &[group(2, 60)], moment(5000));
    bench.store.end(Dpid(1), Subject::Tables);
    bench.write();
    assert_eq!(bench.records().len(), 2, "the answer was about groups");
    bench.store.begin(Dpid(1));
    bench.store.groups(Dpid(1), &[group(2, 110)], moment(10_000));
    bench.store.end(Dpid(1), Subject::Groups);
    bench.write();
    let records = bench.records();
    let [Record::Group(left)] = &records[..] else { panic!("{records:?}") };
    assert_eq!((left.number, left.pps, left.bps), (2, Some(10), Some(8000)));
}

#[test]
fn unused_tables_are_left_out() {
    let mut bench = Bench::new();
    let table = |table_id, active_count| TableStats {
        table_id,
        name: None,
        wildcards: 0,
        max_entries: 0,
        active_count,
        lookup_count: u64::from(active_count) * 7,
        matched_count: 1,
    };
    bench.store.begin(Dpid(1));
    let moment = Moment { asked: ms(0), answered: ms(0) };
    bench.store.tables(Dpid(1), &[table(0, 4), table(1, 0)], moment);
    bench.write();
    let records = bench.records();
    let [Record::Table(used)] = &records[..] else { panic!("{records:?}") };
    assert_eq!((used.table, used.flows, used.lookups), (0, Some(4), Some(28)));
}

#[test]
fn history_is_bounded() {
    let mut bench = Bench::new();
    for round in 0..200 {
        bench.ports(round * 5000, &[stats(1, round, round * 100)]);
    }
    let history = bench.store.history(Dpid(1), PortNo(1)).unwrap();
    assert_eq!(history.len(), 60);
    assert_eq!(history.last().map(|sample| sample.at_s), Some(995));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a switch answers: the table holds records of its ports only, and rates only of plausible readings.
    #[test]
    fn any_answers_are_handled(steps in prop::collection::vec((0_u8..6, 0_u32..4, any::<[u64; 2]>(), 0_u64..20_000), 0..200)) {
        let mut bench = Bench::new();
        let mut now = 0;
        for (what, port, [packets, bytes], wait) in steps {
            now += wait;
            match what {
                0..=2 => bench.ports(now, &[stats(port, packets >> 2, bytes >> 2)]),
                3 => bench.store.silent(Dpid(1), port),
                4 => bench.store.remove_port(Dpid(1), PortNo(port)),
                _ => bench.store.add_port(Dpid(1), PortNo(port.min(2))),
            }
            bench.write();
            for record in bench.records() {
                match record {
                    Record::Rates(rates) => {
                        prop_assert!(rates.port.0 <= 2);
                        prop_assert!(rates.rx_bps.is_none_or(|bps| bps <= 100_000_000_000_000));
                        if rates.quality.is_stale || rates.quality.is_implausible {
                            prop_assert_eq!((rates.rx_bps, rates.tx_bps), (None, None));
                        }
                    }
                    Record::Port(counters) => prop_assert!(counters.port.0 <= 2),
                    _ => {}
                }
            }
        }
    }
}
