//! Two connections with the same datapath id: a live one is kept, and the other is an incident; a dead one is replaced.

use std::time::{Duration, Instant};

use anyhow::ensure;
use cli::lab::{Lab, LabError, Rosemary};
use openflow::{Dpid, Version};
use rosemary_tests::fake::Fake;
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, rosemary_binary, schema};
use serde_json::Value;

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

/// Waits until the status shows that `address` was refused with this datapath id. Returns the incidents about refused switches.
pub(crate) fn refused(
    rosemary: &mut Rosemary<'_>,
    lab: &Lab,
    (address, dpid): (&str, &str),
) -> anyhow::Result<Vec<Value>> {
    let status = rosemary.wait_for("the status shows the refused connection", SOON, |report| {
        let mut refused = report.programs.refused.iter();
        let is_there = refused.any(|it| it.address.to_string() == address && it.dpid == dpid);
        is_there.then(|| report.clone())
    })?;
    schema::check("status", &serde_json::to_string(&status)?)?;
    let binary = rosemary_binary().display().to_string();
    // The exit status says that a switch is refused.
    let text = lab.command(&binary).args(["status", "--wide"]).output()?;
    let text = String::from_utf8(text.stdout)?;
    let is_named =
        |line: &str| line.starts_with("Refused ") && line.contains(&format!(" from {address} "));
    ensure!(text.lines().any(is_named), "{text}");
    let json = lab.run(&binary, &["incidents", "--json"])?;
    schema::check("incidents", &json)?;
    let mut incidents: Vec<Value> = serde_json::from_str(&json)?;
    incidents.retain(|incident| incident["cause"]["kind"] == "refused-switch");
    Ok(incidents)
}

/// Connects a second switch with the datapath id of `first`, and returns whether it was refused.
fn is_refused_beside(first: &mut Fake) -> anyhow::Result<bool> {
    let mut second = Fake::connect(OF, DPID)?;
    let refused = (0..100).any(|_| {
        assert!(first.answer_for(Duration::from_millis(30)), "the first stays");
        !second.answer_for(Duration::from_millis(30))
    });
    Ok(refused)
}

#[test]
fn duplicate_datapath_replaces_only_a_dead_connection() {
    in_a_lab(|lab| {
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let mut first = Fake::connect(OF, DPID)?;
        assert!(first.answer_for(Duration::from_millis(300)));
        let known = epoch(&mut rosemary)?;

        assert!(is_refused_beside(&mut first)?, "the first answered the keepalive");
        let line = rosemary.wait_for_log(&["is connected already"], SOON)?;
        println!("{line}");
        assert_eq!(epoch(&mut rosemary)?, known, "on the same connection");
        let dpid = Dpid(DPID).to_string();
        let incidents = refused(&mut rosemary, lab, ("127.0.0.1", &dpid))?;
        ensure!(incidents.len() == 1, "{incidents:?}");
        let (cause, facts) =
            (&incidents[0]["cause"], incidents[0]["evidence"]["facts"].to_string());
        ensure!(cause["address"] == "127.0.0.1" && cause["switch"] == dpid.as_str(), "{cause}");
        ensure!(facts.contains("is connected already, from 127.0.0.1:"), "{facts}");

        // The first connection is silent from now on.
        let start = Instant::now();
        let mut third = Fake::connect(OF, DPID)?;
        let taken = (0..200).any(|_| {
            assert!(third.answer_for(Duration::from_millis(50)), "the third waits");
            epoch(&mut rosemary).is_ok_and(|epoch| epoch != known)
        });
        assert!(taken, "the first was replaced");
        println!("the dead connection gave way after {:?}", start.elapsed());
        let incidents = refused(&mut rosemary, lab, ("127.0.0.1", &dpid))?;
        ensure!(incidents.len() == 1, "the third was not refused: {incidents:?}");
        Ok(())
    });
}

#[test]
fn repeated_claim_of_a_datapath_is_one_incident() {
    in_a_lab(|lab| {
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let mut first = Fake::connect(OF, DPID)?;
        assert!(first.answer_for(Duration::from_millis(300)));
        epoch(&mut rosemary)?;
        for _ in 0..5 {
            assert!(is_refused_beside(&mut first)?);
        }
        let incidents = refused(&mut rosemary, lab, ("127.0.0.1", &Dpid(DPID).to_string()))?;
        ensure!(incidents.len() == 1, "{incidents:?}");
        Ok(())
    });
}
