//! Deletes all flows of a live switch: the network heals, guards' flows first, and no denied packet passes meanwhile. Deletes
//! a guard's flows alone: they come back at once, with an incident.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of};
use openflow::{FlowMod, Match, Version};
use rosemary_tests::apps::{configure, in_c};
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, over_versions, rosemary_binary};

use super::forbidden_messages::Order;
use super::lldp::send;

const APPS: &str = "[[app]]\nname = \"firewall\"\nstage = \"guard\"\nconfig = \"firewall.toml\"\n\
                    capabilities = [\"flow.write\", \"stats.read\"]\n\
                    [[app]]\nname = \"learning-switch\"\n";

/// Between hosts whose other packets pass, so that the learning switch's flows would let these pass, too.
const RULES: &str = "[[deny]]\nto = \"10.0.0.2\"\nprotocol = \"udp\"\nto-port = [9000]\n";

/// Sends denied packets without end.
const DENIED: &str = "while :; do echo x >/dev/udp/10.0.0.2/9000; sleep 0.002; done";

fn deleted_flows_come_back(of: Of) {
    in_a_lab(move |lab| {
        configure(&[APPS])?;
        fs::write("/etc/rosemary/firewall.toml", RULES)?;
        let mut net = Net::start(lab, of)?;
        let is_whole = |net: &Net<'_>| -> anyhow::Result<bool> {
            let flows = net.s1.dump_flows()?;
            let has = |words: [&str; 2]| {
                flows.iter().any(|flow| words.iter().all(|word| flow.contains(word)))
            };
            Ok(has(["tp_dst=9000", "actions=drop"]) && has(["priority=0", "CONTROLLER"]))
        };
        let healed = |net: &Net<'_>| {
            lab.wait_for("the flows are there", SOON, |_| Ok(is_whole(net).ok().filter(|it| *it)))
        };
        healed(&net)?;
        ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.received >= 4);
        let watch = net.h2.watch()?;
        let mut denied = net.h1.command("bash");
        denied.args(["-c", DENIED]);
        let denied = lab.start("denied", denied)?;
        for _ in 0..3 {
            let mut pings = net.h1.ping_in_background(&net.h2, 1000, INTERVAL)?;
            pings.wait_for(5, SOON)?;
            lab.wait_for("the learning switch has a flow for this pair", SOON, |_| {
                Ok((!net.flows_to(&net.h2)?.is_empty()).then_some(()))
            })?;
            let before = pings.received_so_far();
            net.s1.ofctl(&["del-flows"])?;
            let deleted = Instant::now();
            healed(&net)?;
            println!("flows are back after {:?}", deleted.elapsed());
            lab.wait_for("pings are answered", SOON, |_| {
                Ok((pings.received_so_far() > before + 5).then_some(()))
            })?;
            println!("pings are answered after {:?}", deleted.elapsed());
            drop(pings);
        }
        drop(denied);
        ensure!(!watch.seen(&["ICMP echo request"]).is_empty(), "the capture works");
        let passed = watch.seen(&[".9000"]);
        ensure!(passed.is_empty(), "{} denied packets passed: {:?}", passed.len(), passed.first());
        net.rosemary.wait_for_log(
            &["flows were missing on a switch", "reported the removal of the table-miss entry"],
            SOON,
        )?;
        wait_for_losses(lab, 3)?; // the kernel's flow, and the guard's
        Ok(())
    });
}

over_versions!(deleted_flows_come_back_in_each_version, |of| deleted_flows_come_back(of));

/// Waits for the incidents about this many deletes of two flows each, and for no more.
///
/// One delete has one incident. It has two if the switch reports the second flow only after it has answered the kernel's
/// barrier: Open vSwitch does both in different threads.
fn wait_for_losses(lab: &Lab, deletes: u64) -> anyhow::Result<()> {
    let rosemary = rosemary_binary().display().to_string();
    let losses = || -> anyhow::Result<(u64, String)> {
        let incidents = lab.run(&rosemary, &["incidents", "--wide"])?;
        let words = incidents.lines().filter_map(|line| line.split_once(" missing on switch"));
        let number =
            |(line, _): (&str, &str)| line.split_whitespace().rev().nth(1)?.parse::<u64>().ok();
        let flows: Option<u64> = words.map(number).sum();
        Ok((flows.context("each incident has a number of flows")?, incidents))
    };
    lab.wait_for("the incidents are recorded", SOON, |evidence| {
        let (flows, incidents) = losses().unwrap_or_default();
        evidence.0 = incidents;
        Ok((flows >= 2 * deletes).then_some(()))
    })?;
    let (flows, incidents) = losses()?;
    ensure!(flows == 2 * deletes, "{flows} lost flows: {incidents}");
    Ok(())
}

/// Deletes the flows of the firewall, and leaves those of the learning switch and of the kernel.
fn deleted_flows_of_a_guard_come_back(of: Of) {
    in_a_lab(move |lab| {
        configure(&[APPS])?;
        let rules =
            format!("{RULES}[[deny]]\nto = \"10.0.0.2\"\nprotocol = \"udp\"\nto-port = [9001]\n");
        fs::write("/etc/rosemary/firewall.toml", &rules)?;
        let mut net = Net::start(lab, of)?;
        let drops = |net: &Net<'_>| -> anyhow::Result<usize> {
            let flows = net.s1.dump_flows()?;
            let is_drop = |flow: &&String| flow.contains("tp_dst=900") && flow.ends_with("drop");
            Ok(flows.iter().filter(is_drop).count())
        };
        let wait_for = |net: &Net<'_>, count| {
            let what = "the rules' flows, and no others, are in the switch";
            lab.wait_for(what, SOON, |_| Ok((drops(net).ok() == Some(count)).then_some(())))
        };
        wait_for(&net, 2)?;
        ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.received >= 4);
        let mut pings = net.h1.ping_in_background(&net.h2, 1000, INTERVAL)?;
        pings.wait_for(5, SOON)?;
        for number in 1..=2 {
            lab.pause(Duration::from_millis(2500))?; // longer than a delete of the guard's own counts
            net.s1.ofctl(&["del-flows", "udp"])?;
            let deleted = Instant::now();
            wait_for(&net, 2)?;
            let time = deleted.elapsed();
            ensure!(time < Duration::from_secs(2), "they are back after {time:?}");
            println!("flows are back after {time:?}");
            wait_for_losses(lab, number)?;
        }
        net.rosemary.wait_for_log(&["removal of flows of the guard firewall"], SOON)?;
        // The firewall itself deletes the flow of a rule that is gone.
        fs::write("/etc/rosemary/firewall.toml", RULES)?;
        lab.run(&rosemary_binary().display().to_string(), &["reload"])?;
        wait_for(&net, 1)?;
        lab.pause(Duration::from_millis(2500))?;
        wait_for_losses(lab, 2)?;
        let before = pings.received_so_far();
        lab.wait_for("pings are answered", SOON, |_| {
            Ok((pings.received_so_far() > before + 5).then_some(()))
        })?;
        Ok(())
    });
}

over_versions!(deleted_flows_of_a_guard_come_back_in_each_version, |of| {
    deleted_flows_of_a_guard_come_back(of);
});

/// The log message after the flows of a switch were restored.
const MISSING: &str = "flows were missing on a switch";

/// A flow that shows whether the switch has applied a delete of all flows.
const MARK: &str = "priority=5,in_port=9,actions=drop";

/// Starts Rosemary with the app `parrot` and these, and has `parrot` delete all flows of the switch.
fn swept<'lab>(lab: &'lab Lab, of: Of, keys: &str, others: &str) -> anyhow::Result<Net<'lab>> {
    configure(&[&in_c(lab, "parrot", "apps/parrot.c", keys)?, others])?;
    let net = Net::start(lab, of)?;
    net.s1.ofctl(&["add-flow", MARK])?;
    let version = if of == Of::V1_0 { Version::V1_0 } else { Version::V1_3 };
    let delete = FlowMod::delete(Match::new());
    let order = Order::to_say(|out| delete.encode(version, 1, out));
    send(&net.s1, &order.frame(), "controller")?;
    lab.wait_for("only the kernel's flow is left", SOON, |evidence| {
        let flows = net.s1.dump_flows()?;
        evidence.0 = format!("{flows:#?}");
        let is_swept = flows.iter().all(|flow| !flow.contains("in_port=9"));
        let is_whole = flows.iter().any(|flow| flow.contains("CONTROLLER"));
        Ok((is_swept && is_whole).then_some(()))
    })?;
    Ok(net)
}

#[test]
fn delete_by_the_only_app_of_1_0_is_no_loss() {
    in_a_lab(|lab| {
        let keys = "capabilities = [\"packet-out\", \"flow.write\"]";
        let mut net = swept(lab, Of::V1_0, keys, "")?;
        lab.pause(Duration::from_millis(2500))?; // longer than a report of the switch is expected
        ensure!(!net.rosemary.log().contains(MISSING), "{}", net.rosemary.log());
        net.s1.ofctl(&["del-flows"])?;
        net.rosemary.wait_for_log(&[MISSING], SOON)?;
        Ok(())
    });
}

#[test]
fn delete_of_others_flows_is_a_loss() {
    for of in [Of::V1_0, Of::V1_3] {
        in_a_lab(move |lab| {
            let keys = "capabilities = [\"packet-out\", \"flow.write\", \"flow.write.any\"]";
            let others = "[[app]]\nname = \"learning-switch\"\nethertypes = [0x0800]\n";
            let mut net = swept(lab, of, keys, others)?;
            net.rosemary.wait_for_log(&[MISSING], SOON)?;
            Ok(())
        });
    }
}
