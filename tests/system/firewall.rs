//! Tests the bundled firewall: it blocks what its rules deny, whatever the learning switch does,
//! and keeps its flows up to date.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use cli::lab::{Host, Lab, Of};
use control::operator::ProgramState;
use rosemary_tests::apps::configure;
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, kill, over_versions, rosemary_binary};
use serde_json::Value;

/// The apps in rosemary.toml. The firewall's band is above the learning switch's: 63488 to 65535.
const APPS: &str = "[[app]]\nname = \"firewall\"\nstage = \"guard\"\nconfig = \"firewall.toml\"\n\
                    capabilities = [\"flow.write\", \"stats.read\"]\n\
                    [[app]]\nname = \"learning-switch\"\n";

/// The lowest priority of its flows on the switch.
const LOWEST: &str = "priority=63488";

fn rules_file() -> PathBuf {
    "/etc/rosemary/firewall.toml".into()
}

fn start<'lab>(lab: &'lab Lab, of: Of, rules: &str) -> anyhow::Result<Net<'lab>> {
    configure(&[APPS])?;
    fs::write(rules_file(), rules)?;
    Ok(Net::start(lab, of)?)
}

fn deny_h2(net: &Net<'_>) -> String {
    format!("[[deny]]\nto = \"{}\"\nboth-ways = true\n", net.h2.address())
}

/// Returns the switch's drop flows.
fn drops(net: &Net<'_>) -> anyhow::Result<Vec<String>> {
    let mut flows = net.s1.dump_flows()?;
    flows.retain(|flow| flow.ends_with("actions=drop"));
    Ok(flows)
}

/// Waits until the switch drops packets to exactly these addresses.
fn wait_for_drops(net: &Net<'_>, to: [&str; 2]) -> anyhow::Result<()> {
    net.lab.wait_for("the rules' flows, and no others, are in the switch", SOON, |_| {
        let flows = drops(net).unwrap_or_default();
        let is_there = |rule: &str| flows.iter().any(|flow| flow.contains(rule));
        Ok((flows.len() == to.len() && to.into_iter().all(is_there)).then_some(()))
    })?;
    Ok(())
}

/// Whether a host can reach the other's port: a connection attempt to a closed port is answered in
/// this time.
fn reaches(from: &Host<'_>, to: &Host<'_>, port: u16) -> anyhow::Result<bool> {
    let connect = format!("exec 3<>/dev/tcp/{}/{port}", to.address());
    let output = from.command("timeout").args(["2", "bash", "-c", &connect]).output()?;
    Ok(match output.status.code() {
        Some(124) => false,
        _ => String::from_utf8_lossy(&output.stderr).contains("refused"),
    })
}

fn blocks(of: Of) {
    in_a_lab(move |lab| {
        let rules = "[[deny]]\nto = \"10.0.0.2\"\nboth-ways = true\n\
                     [[deny]]\nto = \"10.0.0.0/28\"\nprotocol = \"tcp\"\nto-port = [80, 443]\n";
        let mut net = start(lab, of, rules)?;
        assert_eq!(net.h2.address(), "10.0.0.2");
        net.rosemary.wait_for_log(&["rules in force: 2, flows at each switch: 4"], SOON)?;
        lab.wait_for("the flows are there", SOON, |_| {
            Ok(drops(&net).is_ok_and(|flows| flows.len() == 4).then_some(()))
        })?;
        let flows = drops(&net)?;
        ensure!(flows.iter().all(|flow| flow.contains(LOWEST)), "{flows:#?}");
        let denied = net.h1.ping(&net.h2, 20, INTERVAL)?;
        assert_eq!((denied.sent, denied.received), (20, 0));
        assert_eq!(net.h2.ping(&net.h3, 10, INTERVAL)?.received, 0, "both ways");
        let allowed = net.h1.ping(&net.h3, 50, INTERVAL)?;
        ensure!(allowed.received >= 49, "{allowed:?}"); // the first may be flooded twice
        // By now the learning switch has flows for all packets between these two.
        ensure!(net.flows_to(&net.h3)?.len() == 1);
        for (port, open) in [(80, false), (81, true), (443, false)] {
            assert_eq!(reaches(&net.h1, &net.h3, port)?, open, "port {port}");
        }
        assert_eq!(net.switch_status()?.errors, 0);
        Ok(())
    });
}

over_versions!(firewall_blocks_only_denied_packets, |of| blocks(of));

#[test]
fn firewall_with_invalid_rules_keeps_its_last_ones() {
    in_a_lab(|lab| {
        let mut net = start(lab, Of::V1_3, "[[deny]]\nto = \"10.0.0.2\"\nboth-ways = true\n")?;
        fs::write(rules_file(), "[[deny]]\nto = \"10.0.0.2\"\n\n[[deny]]\nform = \"x\"\n")?;
        let pid = net.rosemary.wait_for("it runs", SOON, |status| status.app("firewall")?.pid)?;
        kill(pid)?;
        let why = net.rosemary.wait_for("it runs again", SOON, |status| {
            let app = status.app("firewall").filter(|app| app.state == ProgramState::Running)?;
            app.kept.clone()
        })?;
        println!("{why}");
        ensure!(
            why.contains("line 5: rule 2: unknown field `form`, expected one of `from`"),
            "{why}"
        );
        net.rosemary.wait_for_log(&["app was held", "firewall.toml", "line 5: rule 2"], SOON)?;
        assert_eq!(net.h1.ping(&net.h2, 10, INTERVAL)?.received, 0, "it still denies");
        lab.wait_for("what is not denied passes", SOON, |_| {
            Ok(net.h1.ping(&net.h3, 5, INTERVAL).is_ok_and(|it| it.received > 0).then_some(()))
        })?;
        fs::write(rules_file(), deny_h2(&net))?;
        let pid = net.rosemary.wait_for("it runs", SOON, |status| status.app("firewall")?.pid)?;
        kill(pid)?;
        net.rosemary.wait_for("it runs with the corrected rules", SOON, |status| {
            let app = status.app("firewall").filter(|app| app.pid != Some(pid))?;
            (app.state == ProgramState::Running && app.kept.is_none()).then_some(())
        })?;
        assert_eq!(net.h1.ping(&net.h2, 10, INTERVAL)?.received, 0);
        Ok(())
    });
}

fn looks_after_its_flows(of: Of) {
    in_a_lab(move |lab| {
        let mut net = start(lab, of, "[[deny]]\nto = \"10.0.0.2\"\n[[deny]]\nto = \"10.0.0.9\"\n")?;
        wait_for_drops(&net, ["nw_dst=10.0.0.2 ", "nw_dst=10.0.0.9 "])?;
        net.s1.ofctl(&["del-flows", "ip,nw_dst=10.0.0.2"])?;
        wait_for_drops(&net, ["nw_dst=10.0.0.2 ", "nw_dst=10.0.0.9 "])?;
        let words = ["flows were missing on a switch", "flows of the guard firewall"];
        net.rosemary.wait_for_log(&words, SOON)?;

        // The operator changes the rules and ends the app, so that it reads them again.
        fs::write(rules_file(), "[[deny]]\nto = \"10.0.0.2\"\n[[deny]]\nto = \"10.0.0.8\"\n")?;
        let pid = net.rosemary.wait_for("it runs", SOON, |status| status.app("firewall")?.pid)?;
        kill(pid)?;
        wait_for_drops(&net, ["nw_dst=10.0.0.2 ", "nw_dst=10.0.0.8 "])?;
        net.rosemary.wait_for_log(&["and deleted 1 that no rule wants"], SOON)?;
        assert_eq!(net.h1.ping(&net.h2, 10, INTERVAL)?.received, 0);
        ensure!(net.h1.ping(&net.h3, 10, INTERVAL)?.received > 0);
        Ok(())
    });
}

over_versions!(firewall_restores_and_cleans_its_flows, |of| looks_after_its_flows(of));

#[test]
fn rule_without_room_is_an_incident_until_there_is_room() {
    in_a_lab(|lab| {
        let mut net = start(lab, Of::V1_3, "[[deny]]\nto = \"10.0.0.2\"\n")?;
        lab.wait_for("the rule's flow is there", SOON, |_| {
            Ok(drops(&net).is_ok_and(|flows| flows.len() == 1).then_some(()))
        })?;
        net.s1.hold_flows(1)?; // the flows that are there stay
        fs::write(rules_file(), "[[deny]]\nto = \"10.0.0.2\"\n[[deny]]\nto = \"10.0.0.8\"\n")?;
        let pid = net.rosemary.wait_for("it runs", SOON, |status| status.app("firewall")?.pid)?;
        kill(pid)?;
        let reason = net.rosemary.wait_for("the status names the problem", SOON, |status| {
            let mut reasons = status.health.reasons.iter();
            reasons.find(|reason| reason.contains("the app firewall: ")).cloned()
        })?;
        println!("{reason}");
        ensure!(reason.contains("switch 00:00:00:00:00:00:00:01 has no room for "), "{reason}");
        ensure!(
            reason.contains("the flow table is full") && reason.contains("remove flows"),
            "{reason}"
        );
        let is_open = || -> anyhow::Result<bool> {
            let binary = rosemary_binary().display().to_string();
            let text = lab.run(&binary, &["incidents", "--json"])?;
            let all: Vec<Value> = serde_json::from_str(&text)?;
            let mut own = all.iter().filter(|it| it.to_string().contains("has no room for"));
            let own = own.next_back().with_context(|| text.clone())?;
            own["open"].as_bool().context("open or not")
        };
        // The reason may be that of the process that was killed, whose incident ends with it.
        lab.wait_for("the incident is open", SOON, |_| {
            Ok(is_open().unwrap_or(false).then_some(()))
        })?;
        net.s1.hold_flows(100)?;
        // The switch reconnects: without it nothing lacks room, so its flows are awaited first.
        lab.wait_for("the rules' flows are there", SOON * 4, |_| {
            Ok(drops(&net).is_ok_and(|flows| flows.len() == 2).then_some(()))
        })?;
        net.rosemary.wait_for("Rosemary is healthy", SOON, |status| {
            status.health.reasons.is_empty().then_some(())
        })?;
        ensure!(!is_open()?, "the incident ended with its reason");
        Ok(())
    });
}
