//! Actions and fields of Open vSwitch: an app with the capability forwards by registers, resubmit and connection tracking; the same
//! app without it is refused.
//!
//! The app is `apps/tracker.rs`.

use anyhow::ensure;
use cli::lab::Of;
use rosemary_tests::apps::{configure, in_rust};
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, rosemary_binary};

/// The app has flows in three tables.
const FLOWS: usize = 7;

#[test]
fn app_with_the_capability_forwards_by_registers_and_tracking() {
    in_a_lab(|lab| {
        let keys =
            "capabilities = [\"packet-in\", \"flow.write\", { experimenter = [\"nicira\"] }]";
        configure(&[&in_rust("tracker", keys)])?;
        let net = Net::start(lab, Of::V1_3)?;
        let of_app =
            |line: &&String| ["reg0", "NXM_NX_REG0", "ct("].iter().any(|it| line.contains(it));
        let flows = lab.wait_for("the app's flows are in the switch", SOON, |_| {
            let flows = net.s1.dump_flows()?;
            Ok((flows.iter().filter(of_app).count() == FLOWS).then_some(flows))
        });
        let flows = flows.inspect_err(|_| println!("{:#?}", net.s1.dump_flows()))?;
        ensure!(
            flows.iter().any(|it| it.contains("load:0x2->NXM_NX_REG0[],resubmit(,1)")),
            "{flows:#?}"
        );
        let ping = net.h1.ping(&net.h2, 5, INTERVAL)?;
        ensure!(ping.lost() == 0, "{ping:?}");

        // The command shows the same flows, and follows a packet up to the connection tracking.
        let rosemary = rosemary_binary().display().to_string();
        let shown = lab.run(&rosemary, &["flows", &net.s1.dpid()])?;
        for part in
            ["load:0x2->NXM_NX_REG0[],resubmit(,1)", "ct(commit,table=2,zone=5)", "reg0=0x1"]
        {
            ensure!(shown.contains(part), "{part} in {shown}");
        }
        let packet = "in_port=1,icmp,nw_src=10.0.0.1,nw_dst=10.0.0.2";
        let way = lab.run(&rosemary, &["trace", &net.s1.dpid(), packet])?;
        ensure!(way.contains("ct(commit,table=2,zone=5) is not followed"), "{way}");
        let packet = "in_port=1,arp,arp_op=1,arp_spa=10.0.0.1,arp_tpa=10.0.0.2";
        let way = lab.run(&rosemary, &["trace", &net.s1.dpid(), packet])?;
        ensure!(way.contains("reg0=2"), "{way}");
        Ok(())
    });
}

#[test]
fn app_without_the_capability_is_refused() {
    in_a_lab(|lab| {
        configure(&[&in_rust("tracker", "capabilities = [\"packet-in\", \"flow.write\"]")])?;
        let mut net = Net::start(lab, Of::V1_3)?;
        let line = "experimenter:0x00002320";
        let record = ["refused a message of an app", "kind=flow_mod", "missing=experimenter", line];
        println!("{}", net.rosemary.wait_for_log(&record, SOON)?);
        let flows = net.s1.dump_flows()?;
        ensure!(!flows.iter().any(|it| it.contains("reg0") || it.contains("ct(")), "{flows:#?}");
        Ok(())
    });
}
