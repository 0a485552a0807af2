//! The operator writes flows: they are the operator's own, survive restarts, and pass the checks of every app.

use std::time::Duration;

use anyhow::ensure;
use cli::lab::{Lab, Of, Rosemary, Switch};
use rosemary_tests::net::{Net, SOON};
use rosemary_tests::{in_a_lab, kill, over_versions, rosemary_binary};
use rustix::process::Signal;

const LATER: Duration = Duration::from_secs(60);

/// Runs `rosemary` with these arguments. Returns its output.
fn rosemary(lab: &Lab, args: &[&str]) -> anyhow::Result<String> {
    Ok(lab.run(&rosemary_binary().display().to_string(), args)?)
}

/// Runs `rosemary`, which must fail. Returns its error.
fn refused(lab: &Lab, args: &[&str]) -> anyhow::Result<String> {
    match rosemary(lab, args) {
        Ok(output) => anyhow::bail!("{args:?} should fail: {output}"),
        Err(error) => Ok(format!("{error:#}")),
    }
}

/// Flows of `ovs-ofctl` with this text, once there are `count`.
fn wait_for_flows(lab: &Lab, s1: &Switch<'_>, text: &str, count: usize) -> anyhow::Result<()> {
    lab.wait_for("the flows are in the switch", LATER, |evidence| {
        let flows = s1.dump_flows().unwrap_or_default();
        evidence.0 = flows.join("\n");
        Ok((flows.iter().filter(|flow| flow.contains(text)).count() == count).then_some(()))
    })?;
    Ok(())
}

fn flows_survive(of: Of) {
    in_a_lab(move |lab| {
        let mut net = Net::start(lab, of)?;
        let error = refused(lab, &["flows", "add", "1"])?;
        ensure!(error.contains("rosemary app enable operator"), "{error}");
        rosemary(lab, &["app", "enable", "operator"])?;
        let add =
            ["flows", "add", "1", "--match", "in_port=1,eth_type=0x800,ip_proto=17,udp_dst=9"];
        rosemary(lab, &[&add[..], &["--actions", "output:2", "--priority", "49600"]].concat())?;
        wait_for_flows(lab, &net.s1, "priority=49600,udp,in_port=", 1)?;
        let listed = rosemary(lab, &["flows", "1", "--json"])?;
        ensure!(listed.contains("\"owner\":\"operator\""), "{listed}");

        // Others' priorities, unknown switches, and actions that the switch does not have.
        for (args, words) in [
            (&["--priority", "7"][..], "49536 to 49663"),
            (&["--cookie", "0x800000000000"], "47 bits"),
        ] {
            let error = refused(lab, &[&add[..], args].concat())?;
            ensure!(error.contains(words), "{error}");
        }
        let absent = refused(lab, &["flows", "add", "77"])?;
        ensure!(absent.contains("no switch 00:00:00:00:00:00:00:4d"), "{absent}");

        // A kernel that is killed, a switch that loses everything, and Rosemary that is killed.
        let pid =
            net.rosemary.wait_for("the kernel runs", SOON, |status| status.programs.kernel.pid)?;
        kill(pid)?;
        wait_for_flows(lab, &net.s1, "priority=49600,", 1)?;
        net.rosemary.wait_for_switch(&net.s1)?;
        net.s1.ofctl(&["del-flows"])?;
        wait_for_flows(lab, &net.s1, "priority=49600,", 1)?;
        net.rosemary.stop(Signal::KILL)?;
        net.s1.ofctl(&["del-flows"])?;
        let again = Rosemary::start(lab, &rosemary_binary(), &[])?;
        wait_for_flows(lab, &net.s1, "priority=49600,", 1)?;

        rosemary(lab, &["flows", "delete", "1", "--match", "eth_type=0x800"])?;
        wait_for_flows(lab, &net.s1, "priority=49600,", 0)?;
        again.stop(Signal::TERM)?;
        Ok(())
    });
}

over_versions!(operators_flows_survive_restarts, |of| flows_survive(of));
