use rosemary_sdk::services::Service;
use rosemary_sdk::services::table::{Change, EMPTY, NewsKind, Slot};
use rosemary_sdk::services::topology::{Endpoint, LinkRecord, Record, SwitchRecord};
use rosemary_sdk::testing::{AlignedRecord, Bench};
use rosemary_sdk::{Dpid, MacAddr, PortNo};

use super::*;

fn switch(dpid: u64) -> Slot {
    Record::Switch(SwitchRecord { dpid: Dpid(dpid), epoch: 1, ports: 1, drained: false }).encode()
}

fn port(dpid: u64, live: bool) -> Slot {
    let mut name = [0; 16];
    name[..4].copy_from_slice(b"eth\n");
    let at = Endpoint { dpid: Dpid(dpid), port: PortNo(1) };
    let hw_addr = MacAddr([2; 6]);
    let (speed_kbps, edge, link, shared) = (10_000_000, false, true, false);
    Record::Port(PortRecord { at, hw_addr, speed_kbps, name, live, edge, link, shared }).encode()
}

fn link(from: u64, to: u64) -> Slot {
    let end = |dpid| Endpoint { dpid: Dpid(dpid), port: PortNo(1) };
    let (from, to, suspicious) = (end(from), end(to), false);
    let (metric, latency_ns, found_ns) = (1, 0, 0);
    Record::Link(LinkRecord { from, to, metric, latency_ns, found_ns, suspicious }).encode()
}

fn settled() -> Slot {
    Record::Status { settled: true }.encode()
}

fn attach(bench: &mut Bench, table: Vec<Slot>) {
    bench.set_table(Service::Topology, table);
    bench.event(AlignedRecord::table(Service::Topology, NewsKind::Attached, &[]));
}

/// A bench that has attached to the table of two switches with a link from 1 to 2.
fn bench() -> Bench {
    let mut bench = Bench::new::<LinkMonitor>();
    attach(&mut bench, vec![settled(), switch(1), switch(2), port(1, true), link(1, 2)]);
    bench
}

fn change(bench: &mut Bench, slot: u32, before: Slot, after: Slot) -> Vec<String> {
    let change = Change { slot, before, after };
    bench.event(AlignedRecord::table(Service::Topology, NewsKind::Changed, &[change]));
    bench.log()
}

#[test]
fn network_of_the_service_is_logged() {
    assert_eq!(
        bench().log(),
        [
            "Info: link from 00:00:00:00:00:00:00:01 port 1 to 00:00:00:00:00:00:00:02 port 1 is there",
            "Info: port 1 (eth\\n) of 00:00:00:00:00:00:00:01 is up, 10000 Mbit/s",
            "Info: switch 00:00:00:00:00:00:00:01 is there",
            "Info: switch 00:00:00:00:00:00:00:02 is there",
        ]
    );
}

#[test]
fn changes_are_logged_once() {
    let mut bench = bench();
    bench.log();
    let said = change(&mut bench, 3, port(1, true), port(1, false));
    assert_eq!(said, ["Info: port 1 (eth\\n) of 00:00:00:00:00:00:00:01 is down"]);
    let said = change(&mut bench, 4, link(1, 2), EMPTY);
    assert_eq!(
        said,
        [
            "Info: link from 00:00:00:00:00:00:00:01 port 1 to 00:00:00:00:00:00:00:02 port 1 is gone"
        ]
    );
    assert_eq!(change(&mut bench, 4, EMPTY, EMPTY), [""; 0]);
}

#[test]
fn restart_of_the_service_logs_only_differences() {
    let mut bench = bench();
    bench.log();
    bench.event(AlignedRecord::table(Service::Topology, NewsKind::Gone, &[]));
    assert_eq!(bench.log(), ["Warn: the service topology has ended"]);
    attach(&mut bench, vec![settled(), switch(1), port(1, true)]);
    assert_eq!(
        bench.log(),
        [
            "Info: link from 00:00:00:00:00:00:00:01 port 1 to 00:00:00:00:00:00:00:02 port 1 is gone",
            "Info: switch 00:00:00:00:00:00:00:02 is gone",
        ]
    );
}
