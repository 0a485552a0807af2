//! Two connections with the same datapath id: a live one is kept, a dead one is replaced.

use std::time::{Duration, Instant};

use cli::lab::{LabError, Rosemary};
use openflow::{Dpid, Version};
use rosemary_tests::fake::Fake;
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, rosemary_binary};

const OF: Version = Version::V1_3;
const DPID: u64 = 0x2a;

/// Returns the epoch of the datapath's connection.
fn epoch(rosemary: &mut Rosemary<'_>) -> Result<u32, LabError> {
    rosemary.wait_for("the datapath is connected", SOON, |report| {
        let switches = report.switches.as_ref()?;
        let dpid = Dpid(DPID).to_string();
        switches.iter().find(|switch| switch.dpid == dpid).map(|switch| switch.epoch)
    })
}

#[test]
fn duplicate_datapath_replaces_only_a_dead_connection() {
    in_a_lab(|lab| {
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let mut first = Fake::connect(OF, DPID)?;
        assert!(first.answer_for(Duration::from_millis(300)));
        let known = epoch(&mut rosemary)?;

        let mut second = Fake::connect(OF, DPID)?;
        let refused = (0..100).any(|_| {
            assert!(first.answer_for(Duration::from_millis(30)), "the first stays");
            !second.answer_for(Duration::from_millis(30))
        });
        assert!(refused, "the first answered the keepalive");
        let line = rosemary.wait_for_log(&["is connected already"], SOON)?;
        println!("{line}");
        assert_eq!(epoch(&mut rosemary)?, known, "on the same connection");

        // The first connection is silent from now on.
        let start = Instant::now();
        let mut third = Fake::connect(OF, DPID)?;
        let taken = (0..200).any(|_| {
            assert!(third.answer_for(Duration::from_millis(50)), "the third waits");
            epoch(&mut rosemary).is_ok_and(|epoch| epoch != known)
        });
        assert!(taken, "the first was replaced");
        println!("the dead connection gave way after {:?}", start.elapsed());
        Ok(())
    });
}
