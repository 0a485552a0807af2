//! Flows of apps that are gone are found and removed; apps learn which flows they still have.

use std::thread;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use control::app::AppId;
use control::query::Orphan;
use openflow::Version;
use rosemary_tests::apps::{configure, in_rust};
use rosemary_tests::fake::Fake;
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, kill, over_versions, rosemary_binary};
use rustix::process::Signal;

const SWITCH: &str = "[[app]]\nname = \"learning-switch\"\n";
const FIREWALL: &str = "[[app]]\nname = \"firewall\"\nstage = \"guard\"\nconfig = \"firewall.toml\"\n\
                        capabilities = [\"flow.write\", \"stats.read\"]\n";
const ASKER: &str =
    "capabilities = [\"flow.write\", \"group.write\", \"meter.write\", \"stats.read\"]";

/// Grants what the returner app does.
const RETURNER: &str = "capabilities = [\"flow.write\", \"stats.read\"]";

/// More than a worker reads at once.
const SILENT: u64 = 40;

/// Restarts Rosemary with these apps.
fn restart<'lab>(net: Net<'lab>, apps: &[&str]) -> anyhow::Result<Net<'lab>> {
    let Net { lab, rosemary, s1, h1, h2, h3 } = net;
    rosemary.stop(Signal::TERM)?;
    configure(apps)?;
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
    // Switches that answer no question about flows delay the others' reading little.
    let silent: Vec<Fake> =
        (100..100 + SILENT).filter_map(|dpid| Fake::connect(Version::V1_3, dpid).ok()).collect();
    for mut silent in silent {
        thread::spawn(move || while silent.answer_for(SOON) {});
    }
    rosemary.wait_for_switch(&s1)?;
    Ok(Net { lab, rosemary, s1, h1, h2, h3 })
}

fn removed_firewall_drops_nothing(of: Of) {
    in_a_lab(move |lab| {
        configure(&[FIREWALL, SWITCH])?;
        std::fs::write("/etc/rosemary/firewall.toml", "[[deny]]\nto = \"10.0.0.2\"\n")?;
        let net = Net::start(lab, of)?;
        let drops = |net: &Net<'_>| -> anyhow::Result<usize> {
            let flows = net.s1.dump_flows()?;
            Ok(flows.iter().filter(|flow| flow.ends_with("actions=drop")).count())
        };
        lab.wait_for("the rule is there", SOON, |_| {
            Ok(drops(&net).is_ok_and(|drops| drops == 1).then_some(()))
        })?;
        ensure!(net.h1.ping(&net.h3, 5, INTERVAL)?.received >= 4);
        assert_eq!(net.h1.ping(&net.h2, 3, INTERVAL)?.received, 0);
        let mut net = restart(net, &[SWITCH])?;
        lab.wait_for("the rule is gone", SOON, |_| {
            Ok(drops(&net).is_ok_and(|drops| drops == 0).then_some(()))
        })?;
        ensure!(!net.flows_to(&net.h3)?.is_empty(), "flows of other apps stay");
        ensure!(net.h1.ping(&net.h2, 10, INTERVAL)?.received > 5);
        net.rosemary.wait_for_log(&["removed what an absent app owned", "flows=1"], SOON)?;
        Ok(())
    });
}

over_versions!(
    removed_firewall_drops_nothing_in_each_version,
    |of| removed_firewall_drops_nothing(of)
);

/// A firewall that was disabled keeps its flows. They leave with its `[[app]]`, also while Rosemary runs.
fn disabled_firewall_loses_flows_with_its_entry(of: Of) {
    in_a_lab(move |lab| {
        configure(&[FIREWALL, SWITCH])?;
        std::fs::write("/etc/rosemary/firewall.toml", "[[deny]]\nto = \"10.0.0.2\"\n")?;
        let mut net = Net::start(lab, of)?;
        let drops = |net: &Net<'_>| -> anyhow::Result<usize> {
            let flows = net.s1.dump_flows()?;
            Ok(flows.iter().filter(|flow| flow.ends_with("actions=drop")).count())
        };
        let wait_for = |net: &Net<'_>, count: usize| {
            lab.wait_for(format!("{count} rules"), SOON, |_| {
                Ok(drops(net).is_ok_and(|drops| drops == count).then_some(()))
            })
        };
        wait_for(&net, 1)?;
        ensure!(net.h1.ping(&net.h3, 5, INTERVAL)?.received >= 4);
        let rosemary = |args: &[&str]| lab.run(&rosemary_binary().display().to_string(), args);
        rosemary(&["app", "disable", "firewall"])?;
        rosemary(&["reload"])?;
        lab.pause(INTERVAL * 25)?;
        assert_eq!(drops(&net)?, 1, "it is configured, so its flows stay");

        configure(&[SWITCH])?;
        let plan = rosemary(&["reload", "--dry-run", "--json"])?;
        ensure!(
            plan.contains("firewall left the configuration; switches lose its flows"),
            "{plan}"
        );
        assert_eq!(drops(&net)?, 1, "a dry run changes nothing");
        let mut established = net.h1.ping_in_background(&net.h3, 100, INTERVAL)?;
        established.wait_for(2, SOON)?;
        rosemary(&["reload"])?;
        wait_for(&net, 0)?;
        net.rosemary.wait_for_log(&["removed what an absent app owned", "flows=1"], SOON)?;
        assert_eq!(established.finish()?.lost(), 0, "flows of other apps stay");
        Ok(())
    });
}

over_versions!(disabled_firewall_loses_flows_with_its_entry_in_each_version, |of| {
    disabled_firewall_loses_flows_with_its_entry(of);
});

/// Runs `rosemary flows --orphans --json` with further arguments.
fn orphans(lab: &Lab, args: &[&str]) -> anyhow::Result<Vec<Orphan>> {
    let args = [&["flows"], args, &["--json"]].concat();
    Ok(serde_json::from_str(&lab.run(&rosemary_binary().display().to_string(), &args)?)?)
}

#[test]
fn operator_sees_and_removes_kept_orphans() {
    in_a_lab(|lab| {
        configure(&[SWITCH, &in_rust("asker", ASKER)])?;
        let mut net = Net::start(lab, Of::V1_3)?;
        net.rosemary.wait_for_log(&["asker", "round 2: "], SOON)?;
        let Net { lab, rosemary, s1, h1, h2, h3 } = net;
        rosemary.stop(Signal::TERM)?;
        configure(&["[controller]\norphans = \"keep\"\n", SWITCH])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_switch(&s1)?;
        let net = Net { lab, rosemary, s1, h1, h2, h3 };
        let found = orphans(lab, &["--orphans"])?;
        println!("{found:?}");
        let [orphan] = &found[..] else { anyhow::bail!("one owner: {found:?}") };
        assert_eq!(orphan.owner.as_str(), "asker");
        assert_eq!((orphan.flows, orphan.groups, orphan.meters), (2, 1, 1));
        let count = |command: &str, what: &str| -> anyhow::Result<usize> {
            Ok(net.s1.ofctl(&[command])?.matches(what).count())
        };
        assert_eq!((count("dump-groups", "group_id=")?, count("dump-meters", "meter=")?), (1, 1));
        assert_eq!(orphans(lab, &["1", "--orphans", "remove"])?, found, "it shows what it removed");
        assert_eq!((count("dump-groups", "group_id=")?, count("dump-meters", "meter=")?), (0, 0));
        ensure!(!net.s1.dump_flows()?.iter().any(|flow| flow.contains(":ee:")), "no flows either");
        assert_eq!(orphans(lab, &["--orphans"])?, []);
        flows_of_a_lost_installation_are_foreign(net)
    });
}

/// An installation whose state was lost had numbers from 1 on. Its flows belong to no present app.
fn flows_of_a_lost_installation_are_foreign(mut net: Net<'_>) -> anyhow::Result<()> {
    let lab = net.lab;
    let own = net.flows_to(&net.h3)?;
    net.s1.ofctl(&["add-flow", "cookie=0x1000000000000,priority=40000,udp,actions=NORMAL"])?;
    let [other] = &orphans(lab, &["--orphans"])?[..] else { anyhow::bail!("one owner") };
    assert_eq!((other.owner.as_str(), other.app, other.flows), ("other", AppId::OTHER, 1));
    let warnings = net.status()?.programs.warnings;
    ensure!(warnings.len() == 1 && warnings[0].contains("has 1 flow of others"), "{warnings:?}");
    assert_eq!(orphans(lab, &["--orphans", "remove"])?, [], "no switch is named");
    let named = orphans(lab, &["1", "--orphans", "remove"])?;
    assert_eq!(named.iter().map(|it| it.flows).collect::<Vec<_>>(), [1]);
    ensure!(!net.s1.dump_flows()?.iter().any(|flow| flow.contains("NORMAL")), "it is gone");
    assert_eq!(net.flows_to(&net.h3)?, own);
    assert_eq!(net.status()?.programs.warnings, [""; 0]);
    Ok(())
}

fn app_learns_kept_flows(of: Of) {
    in_a_lab(move |lab| {
        configure(&[SWITCH, &in_rust("returner", RETURNER)])?;
        let mut net = Net::start(lab, of)?;
        net.rosemary.wait_for_log(&["returner", "complete: true"], SOON)?;
        lab.wait_for("its flows are there", SOON, |_| {
            let flows = net.s1.dump_flows().unwrap_or_default();
            Ok((flows.iter().filter(|flow| flow.contains(":dd:")).count() == 3).then_some(()))
        })?;
        // The first list may have had some of them already.
        let lists = net.rosemary.log().matches("kept [1, 2, 3], complete: true").count();
        let before = net.status()?.programs.kernel.pid.context("the kernel runs")?;
        net.s1.ofctl(&["del-flows", "dl_dst=02:00:00:00:dd:02"])?;
        kill(before)?;
        net.rosemary.wait_for_log(&["returner", "kept [1, 3], complete: true"], SOON)?;
        assert_eq!(net.rosemary.log().matches("kept [1, 2, 3], complete: true").count(), lists);
        Ok(())
    });
}

over_versions!(app_learns_kept_flows_after_kernel_restart, |of| app_learns_kept_flows(of));
