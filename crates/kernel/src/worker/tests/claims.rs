//! Connections that claim a datapath which another one has.

use openflow::{MacAddr, PortDesc, PortReason, PortStatus};

use super::*;

#[test]
fn port_that_comes_while_the_other_connection_is_asked_is_known_when_that_is_gone() {
    for workers in [1, 2] {
        let bench = Bench::new(workers);
        let stays_away = bench.connect([7]);
        // Before the other one comes: on a busy machine it can have the datapath soon.
        let before = bench.switches()[0].epoch;
        let mut status = Vec::new();
        let desc = PortDesc::new(PortNo(3), MacAddr([2, 0, 0, 0, 0, 3]), "eth3");
        let added = PortStatus { reason: PortReason::Add, desc };
        append(&mut status, |out| added.encode(OF, 0, out)).unwrap();
        // A switch answers an echo at once; this one goes instead.
        stays_away[0].is_mute.store(true, Ordering::Relaxed);
        let comes = Fake::connect_and_say(bench.address, 7, &status);
        wait_for("the known connection is asked", || {
            let message = stays_away[0].received.try_recv().ok()?;
            (Kind::from_wire(OF, message[1]) == Ok(Kind::EchoRequest)).then_some(())
        });
        drop(stays_away);
        let switch = wait_for("the other one has the datapath", || {
            bench.switches().into_iter().find(|switch| switch.epoch != before)
        });
        assert_eq!((switch.dpid, switch.ports), (Dpid(7).to_string(), 1), "{workers} workers");
        drop(comes);
        bench.stop();
    }
}
