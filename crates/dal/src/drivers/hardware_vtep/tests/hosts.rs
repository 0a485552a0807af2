//! Learned hosts are reported when they come and go, and again in rotation.

use std::collections::BTreeSet;

use openflow::MacAddr;
use serde_json::json;

use super::super::HardwareVtep;
use super::super::hosts::MOST_PER_TICK;
use super::fake::{Bench, Seen, reference, uuid};
use super::{VLAN, with_flows};
use crate::session::HostReport;

#[test]
fn learned_hosts_are_reported_and_repeated() {
    let (mut bench, _) = Bench::up(with_flows());
    let local = json!({"MAC": "02:00:00:00:00:0a", "logical_switch": reference(3),
        "locator": reference(4), "ipaddr": "10.1.0.1"});
    let seen = bench.change(&json!({"Ucast_Macs_Local": { uuid(8): {"new": local} }}));
    let host = HostReport {
        port: VLAN,
        mac: MacAddr([2, 0, 0, 0, 0, 0xa]),
        vlan: 100,
        ip: "10.1.0.1".parse().ok(),
        is_gone: false,
    };
    assert_eq!(seen, [Seen::Host(host)]);
    let repeated = bench.pass(610).unwrap();
    assert_eq!(repeated, vec![Seen::Host(host); 2]);
    let seen = bench.change(&json!({"Ucast_Macs_Local": { uuid(8): {"old": local} }}));
    assert_eq!(seen, [Seen::Host(HostReport { is_gone: true, ..host })]);
}

/// Lets a tick pass, and returns the reported addresses.
fn tick(bench: &mut Bench) -> Vec<MacAddr> {
    let of = |seen| match seen {
        Seen::Host(host) => Some(host.mac),
        _ => None,
    };
    bench.pass(1).unwrap().into_iter().filter_map(of).collect()
}

#[test]
fn many_hosts_are_reported_in_rotation() {
    const COUNT: usize = 3_000;
    let mut rows = with_flows();
    for host in 0..COUNT {
        let number = u32::try_from(host).unwrap();
        rows["Ucast_Macs_Local"][uuid(10_000 + number)] = json!({
            "MAC": format!("02:00:00:01:{:02x}:{:02x}", number >> 8, number & 0xff),
            "logical_switch": reference(3), "locator": reference(4), "ipaddr": "" });
    }
    let mut bench = Bench::open(&HardwareVtep::default(), rows);
    // The first round is short.
    let mut seen = BTreeSet::new();
    for _ in 0..60 {
        let reported = tick(&mut bench);
        assert!(reported.len() <= MOST_PER_TICK, "{}", reported.len());
        seen.extend(reported);
    }
    assert_eq!(seen.len(), COUNT);
    // A later round takes 30 s, without a burst.
    seen.clear();
    let (mut most, mut reports) = (0, 0);
    for _ in 0..300 {
        let reported = tick(&mut bench);
        most = most.max(reported.len());
        reports += reported.len();
        seen.extend(reported);
    }
    assert!(most <= 12, "{most}");
    assert!((COUNT - 100..=COUNT + 100).contains(&reports), "{reports}");
    assert!(seen.len() > COUNT - 100, "{}", seen.len());
}
