//! Tests connections that claim the datapath of another connection.

use std::sync::mpsc::TryRecvError;

use openflow::{MacAddr, PortDesc, PortReason, PortStatus};

use super::*;

#[test]
fn port_change_during_a_claim_is_kept() {
    for workers in [1, 2] {
        let bench = Bench::new(workers);
        let mut stays_away = bench.connect([7]);
        // Before the other one connects: on a busy machine it can have the datapath soon.
        let before = bench.switches()[0].epoch;
        let mut status = Vec::new();
        let desc = PortDesc::new(PortNo(3), MacAddr([2, 0, 0, 0, 0, 3]), "eth3");
        let added = PortStatus { reason: PortReason::Add, desc };
        append(&mut status, |out| added.encode(OF, 0, out)).unwrap();
        // A live switch would answer the echo request; this one disconnects instead.
        stays_away[0].is_mute.store(true, Ordering::Relaxed);
        let comes = FakeSwitch::connect_and_send(bench.address, 7, &status);
        wait_for("the known connection is probed", || {
            let message = stays_away[0].received.try_recv().ok()?;
            (Kind::from_wire(OF, message[1]) == Ok(Kind::EchoRequest)).then_some(())
        });
        // The last words of a switch do not show that it stays.
        stays_away[0].send_packet_in(1);
        wait_for("its packet is read", || (bench.switches()[0].packet_ins == 1).then_some(()));
        drop(stays_away);
        let switch = wait_for("the other one has the datapath", || {
            bench.switches().into_iter().find(|switch| switch.epoch != before)
        });
        assert_eq!((switch.dpid, switch.ports), (Dpid(7).to_string(), 1), "{workers} workers");
        drop(comes);
        bench.stop();
    }
}

#[test]
fn second_of_two_claims_waits_for_the_first() {
    let bench = Bench::new(1);
    let known = bench.connect([7]);
    let before = bench.switches()[0].epoch;
    known[0].is_mute.store(true, Ordering::Relaxed);
    let claims = [(); 2].map(|()| FakeSwitch::connect(bench.address, 7));
    for _ in &claims {
        wait_for("the known connection is probed for each", || {
            let message = known[0].received.try_recv().ok()?;
            (Kind::from_wire(OF, message[1]) == Ok(Kind::EchoRequest)).then_some(())
        });
    }
    for claim in &claims {
        claim.is_mute.store(true, Ordering::Relaxed);
    }
    drop(known);
    wait_for("a claim has the datapath", || {
        bench.switches().iter().any(|it| it.epoch != before).then_some(())
    });
    std::thread::sleep(Duration::from_millis(200));
    for claim in &claims {
        while claim.received.try_recv().is_ok() {}
        let end = claim.received.try_recv();
        assert_eq!(end, Err(TryRecvError::Empty), "its connection is open");
    }
    bench.stop();
}
