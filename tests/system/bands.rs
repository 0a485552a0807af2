//! A reload or a restart that moves the priority band of an app: no earlier flow of the app stays, no packet is lost, and none
//! that a guard denies passes.

use std::fs;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use rosemary_tests::apps::configure;
use rosemary_tests::developer::rosemary;
use rosemary_tests::net::{APP, INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, over_versions, rosemary_binary};
use rustix::process::Signal;

const SWITCH: &str = "[[app]]\nname = \"learning-switch\"\n";

const FIREWALL: &str = "[[app]]\nname = \"firewall\"\nstage = \"guard\"\nconfig = \"firewall.toml\"\n\
                        capabilities = [\"flow.write\", \"stats.read\"]\n";

const DENY_H3: &str = "[[deny]]\nto = \"10.0.0.3\"\nboth-ways = true\n";

over_versions!(moved_band_leaves_no_earlier_flow_in_each_version, |of| in_a_lab(move |lab| {
    moved_band_leaves_no_earlier_flow(lab, of)
}));

fn moved_band_leaves_no_earlier_flow(lab: &Lab, of: Of) -> anyhow::Result<()> {
    configure(&[SWITCH])?;
    fs::write("/etc/rosemary/firewall.toml", DENY_H3)?;
    let mut net = Net::start(lab, of)?;
    ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost() == 0);
    let alone = band(&mut net)?;
    assert_eq!(alone, [1, 65_535]);
    let before = priorities(&net)?;
    ensure!(!before.is_empty(), "there are flows");
    let mut established = net.h1.ping_in_background(&net.h2, 600, INTERVAL)?;
    established.wait_for(3, SOON)?;

    configure(&[SWITCH, FIREWALL])?;
    rosemary(lab, &["reload"])?;
    let beside = band(&mut net)?;
    ensure!(beside != alone, "{beside:?}");
    let is_in = |band: [u16; 2]| move |it: &u16| (band[0]..=band[1]).contains(it);
    ensure!(!before.iter().any(is_in(beside)), "{before:?}");
    let words = ["removed flows that an app wrote before its priority band moved", "flows="];
    println!("{}", net.rosemary.wait_for_log(&words, SOON)?);
    only_flows_in(&net, beside)?;
    assert_eq!(net.h1.ping(&net.h3, 5, INTERVAL)?.received, 0, "the firewall denies it");

    configure(&[SWITCH])?;
    rosemary(lab, &["reload"])?;
    assert_eq!(band(&mut net)?, alone);
    lab.wait_for("the flows are where they were", SOON, |evidence| {
        let now = priorities(&net).unwrap_or_default();
        evidence.0 = format!("{now:?}");
        Ok((!now.is_empty() && now.iter().all(|it| before.contains(it))).then_some(()))
    })?;
    assert_eq!(established.finish()?.lost(), 0, "the app answered while it had no flows");
    Ok(())
}

#[test]
fn band_moved_by_a_restart_leaves_no_earlier_flow() {
    for of in [Of::V1_0, Of::V1_3] {
        // This app does not look at its kept flows.
        in_a_lab(move |lab| {
            fs::write("/etc/rosemary/firewall.toml", DENY_H3)?;
            moved_by_a_restart(lab, of, APP, (&[SWITCH], &[SWITCH, FIREWALL]))
        });
        in_a_lab(move |lab| {
            let (before, after) = (forwarding([200, 300]), forwarding([100, 199]));
            moved_by_a_restart(lab, of, "forwarding", (&[&before], &[&after]))
        });
    }
}

/// The app `forwarding` with this band.
fn forwarding(band: [u16; 2]) -> String {
    format!("[[app]]\nname = \"forwarding\"\nband = {band:?}\n")
}

fn moved_by_a_restart(
    lab: &Lab,
    of: Of,
    app: &str,
    (before, after): (&[&str], &[&str]),
) -> anyhow::Result<()> {
    configure(before)?;
    let net = Net::start(lab, of)?;
    net.h1.ping(&net.h2, 20, INTERVAL)?; // they may be unknown
    ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost() == 0);
    let earlier = priorities(&net)?;
    ensure!(!earlier.is_empty(), "there are flows");
    let mut established = net.h1.ping_in_background(&net.h2, 400, INTERVAL)?;
    established.wait_for(3, SOON)?;

    let Net { lab, rosemary, s1, h1, h2, h3 } = net;
    rosemary.stop(Signal::TERM)?;
    configure(after)?;
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
    rosemary.wait_for_switch(&s1)?;
    let mut net = Net { lab, rosemary, s1, h1, h2, h3 };
    let status = net.status()?;
    let now = status.app(app).and_then(|app| app.band).context("it writes flows")?;
    ensure!(!earlier.iter().any(|it| (now[0]..=now[1]).contains(it)), "{earlier:?}");
    let words = ["removed flows that an app wrote before its priority band moved", "flows="];
    net.rosemary.wait_for_log(&words, SOON)?;
    only_flows_in(&net, now)?;
    assert_eq!(established.finish()?.lost(), 0, "{app} answered while it had no flows");
    Ok(())
}

/// The band of the learning switch.
fn band(net: &mut Net<'_>) -> anyhow::Result<[u16; 2]> {
    let status = net.status()?;
    status.app(APP).and_then(|app| app.band).context("it writes flows")
}

/// The priorities of the flows between h1 and h2.
fn priorities(net: &Net<'_>) -> anyhow::Result<Vec<u16>> {
    let flows = [net.flows_to(&net.h1)?, net.flows_to(&net.h2)?].concat();
    let priority = |flow: &String| -> anyhow::Result<u16> {
        let (_, rest) = flow.split_once("priority=").context("it states a priority")?;
        let digits = rest.split(|it: char| !it.is_ascii_digit()).next().unwrap_or_default();
        Ok(digits.parse()?)
    };
    flows.iter().map(priority).collect()
}

/// Waits until the flows between h1 and h2 have priorities of this band.
fn only_flows_in(net: &Net<'_>, band: [u16; 2]) -> anyhow::Result<()> {
    Ok(net.lab.wait_for("all flows are in the band", SOON, |evidence| {
        let now = priorities(net).unwrap_or_default();
        evidence.0 = format!("{now:?}, not in {band:?}");
        let is_in = |it: &u16| (band[0]..=band[1]).contains(it);
        Ok((!now.is_empty() && now.iter().all(is_in)).then_some(()))
    })?)
}
