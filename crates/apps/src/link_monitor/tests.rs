use openflow::Version;
use rosemary_sdk::MacAddr;
use rosemary_sdk::abi::{Record, RecordKind};
use rosemary_sdk::testing::{AlignedRecord, Bench, Sent};

use super::*;

const DOWN: u32 = 1;

fn switch(dpid: u64) -> Switch {
    Bench::switch(dpid, Version::V1_3)
}

/// Two switches with two ports each.
fn bench() -> Bench {
    let mut bench = Bench::new::<LinkMonitor>();
    for dpid in [1, 2] {
        bench.event(AlignedRecord::about(RecordKind::SwitchUp, switch(dpid)));
        for port in [1, 2] {
            bench.event(AlignedRecord::port(switch(dpid), 0, PortNo(port), 0));
        }
    }
    bench
}

/// The frames of a whole round, with where each is to go out.
fn round(bench: &mut Bench) -> Vec<(Dpid, PortNo, Vec<u8>)> {
    let sent = |bench: &mut Bench| -> Vec<Sent> { bench.batch(&[]).unwrap().1 };
    let first = (0..10_000).map(|_| sent(bench)).find(|sent| !sent.is_empty()).expect("a round");
    first
        .iter()
        .map(|sent| {
            let packet_out = PacketOut::decode(&sent.message).unwrap();
            let Some(Action::Output { port, .. }) = packet_out.actions.iter().next() else {
                panic!("it goes out of a port")
            };
            (sent.dpid, port, packet_out.data.to_vec())
        })
        .collect()
}

/// The frames that leave switch 1 by port 2 come in at switch 2 by port 1.
fn carry(bench: &mut Bench, frames: &[(Dpid, PortNo, Vec<u8>)]) {
    let (_, _, frame) =
        frames.iter().find(|(dpid, port, _)| (dpid.0, port.0) == (1, 2)).expect("each is probed");
    bench.event(AlignedRecord::packet_in(switch(2), PortNo(1), frame));
}

fn told(bench: &mut Bench, what: &str) -> Vec<String> {
    bench.log().into_iter().filter(|line| line.contains(what)).collect()
}

const LINK: &str =
    "link from 00:00:00:00:00:00:00:01 port 2 (port) to 00:00:00:00:00:00:00:02 port 1 (port)";

#[test]
fn switch_and_port_changes_are_logged() {
    let mut bench = bench();
    assert_eq!(told(&mut bench, "is up").len(), 4);
    bench.event(AlignedRecord::port(switch(1), 2, PortNo(2), 0));
    assert_eq!(bench.log(), [""; 0], "nothing of it has changed");
    bench.event(AlignedRecord::port(switch(1), 2, PortNo(2), DOWN));
    bench.event(AlignedRecord::port(switch(1), 1, PortNo(1), 0));
    bench.event(AlignedRecord::about(RecordKind::SwitchDown, switch(2)));
    assert_eq!(
        bench.log(),
        [
            "Info: port 2 (port) of 00:00:00:00:00:00:00:01 is down",
            "Info: port 1 (port) of 00:00:00:00:00:00:00:01 is gone",
            "Info: switch 00:00:00:00:00:00:00:02 is gone"
        ]
    );
}

#[test]
fn link_is_logged_once_per_change() {
    let mut bench = bench();
    let frames = round(&mut bench);
    assert_eq!(frames.len(), 4);
    carry(&mut bench, &frames);
    assert_eq!(told(&mut bench, "link"), [format!("Info: {LINK} is there")]);
    let frames = round(&mut bench);
    carry(&mut bench, &frames);
    assert_eq!(told(&mut bench, "link"), [""; 0]);
    for _ in 0..PATIENCE {
        round(&mut bench);
    }
    assert_eq!(told(&mut bench, "link"), [""; 0]);
    round(&mut bench);
    assert_eq!(told(&mut bench, "link"), [format!("Info: {LINK} is gone")]);
}

#[test]
fn link_goes_with_its_port_and_with_its_switch() {
    for gone in [
        AlignedRecord::port(switch(1), 2, PortNo(2), DOWN),
        AlignedRecord::port(switch(2), 1, PortNo(1), 0),
        AlignedRecord::about(RecordKind::SwitchDown, switch(1)),
        AlignedRecord::about(RecordKind::SwitchUp, switch(2)),
    ] {
        let mut bench = bench();
        let frames = round(&mut bench);
        carry(&mut bench, &frames);
        bench.log();
        bench.event(gone);
        assert_eq!(told(&mut bench, "link").len(), 1);
    }
}

#[test]
fn forged_frame_makes_no_link() {
    let mut bench = bench();
    let forged = Probe { from: (Dpid(1), PortNo(2)) }.write(MacAddr([2; 6]), &Seal::new());
    bench.event(AlignedRecord::packet_in(switch(2), PortNo(1), &forged));
    bench.event(AlignedRecord::packet_in(switch(2), PortNo(1), b"short"));
    let frames = round(&mut bench);
    bench.event(AlignedRecord::port(switch(1), 1, PortNo(2), 0));
    carry(&mut bench, &frames);
    assert_eq!(told(&mut bench, "link"), [""; 0]);
}

#[test]
fn missing_capability_is_logged_once() {
    let mut bench = bench();
    let frames = round(&mut bench);
    bench.log();
    for (_, _, frame) in &frames {
        let at = switch(1);
        let head = Record {
            reason: Refusal::Capability as u8,
            ..Record::new(RecordKind::Refused, at.version.wire(), at.dpid.0, at.epoch)
        };
        bench.event(AlignedRecord::new(head, &frame[..16]));
    }
    assert_eq!(told(&mut bench, "topology.probe").len(), 1);
    let sent: usize = (0..10_000).map(|_| bench.batch(&[]).unwrap().1.len()).sum();
    assert_eq!(sent, 0);
}
