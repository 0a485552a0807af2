//! Deletes all flows of a live switch: the network heals, guards' flows first, and no denied packet passes meanwhile.

use std::fs;
use std::time::Instant;

use anyhow::ensure;
use cli::lab::Of;
use rosemary_tests::apps::configure;
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, rosemary_binary};

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
        let rosemary = rosemary_binary().display().to_string();
        let incidents = lab.run(&rosemary, &["incidents", "--wide"])?;
        ensure!(
            incidents.contains("1 flow missing on switch 00:00:00:00:00:00:00:01"),
            "{incidents}"
        );
        Ok(())
    });
}

#[test]
fn deleted_flows_come_back_in_1_0() {
    deleted_flows_come_back(Of::V1_0);
}

#[test]
fn deleted_flows_come_back_in_1_3() {
    deleted_flows_come_back(Of::V1_3);
}
