//! Tests the bundled link monitor with real switches: it reports switches, ports and links.

use anyhow::ensure;
use cli::lab::{Lab, Of, Rosemary};
use rosemary_tests::apps::configure;
use rosemary_tests::in_a_lab;
use rosemary_tests::net::{INTERVAL, SOON};
use rosemary_tests::over_versions;
use rosemary_tests::rosemary_binary;

const MONITOR: &str = "[[app]]\nname = \"link-monitor\"\n";

const LEARNING_SWITCH: &str = "[[app]]\nname = \"learning-switch\"\n";

fn finds_links(lab: &Lab, of: Of) -> anyhow::Result<()> {
    configure(&[MONITOR, LEARNING_SWITCH])?;
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
    let (s1, s2) = (lab.switch("s1", of)?, lab.switch("s2", of)?);
    let (h1, h2) = (lab.host("h1", &s1)?, lab.host("h2", &s2)?);
    s1.link_to(&s2)?;
    for switch in [&s1, &s2] {
        rosemary.wait_for_switch(switch)?;
        rosemary.wait_for_log(&["link-monitor: switch", "is there"], SOON)?;
    }
    rosemary
        .wait_for_log(&["link-monitor: port 1 (s1-h1) of 00:00:00:00:00:00:00:01 is up"], SOON)?;
    let (from, to) = ("00:00:00:00:00:00:00:01 port", "00:00:00:00:00:00:00:02 port");
    for (from, to) in [(from, to), (to, from)] {
        let link = format!("link from {from}");
        println!("{}", rosemary.wait_for_log(&[&link, &format!("to {to}"), "is there"], SOON)?);
    }
    // The probes do not disturb other traffic.
    ensure!(h1.ping(&h2, 20, INTERVAL)?.received >= 19);
    s1.unlink_from(&s2)?;
    rosemary.wait_for_log(&["port", "(s1-s2) of 00:00:00:00:00:00:00:01 is gone"], SOON)?;
    rosemary.wait_for_log(&["link from 00:00:00:00:00:00:00:01", "is gone"], SOON)?;
    rosemary.wait_for_log(&["link from 00:00:00:00:00:00:00:02", "is gone"], SOON)?;
    Ok(())
}

over_versions!(link_changes_are_reported, |of| in_a_lab(move |lab| finds_links(lab, of)));
