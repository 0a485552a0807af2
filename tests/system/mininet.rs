//! Mininet as a new user would try it: every host reaches every other with the first ping.

use std::process::Stdio;

use anyhow::{bail, ensure};
use cli::lab::{Lab, Rosemary};
use rosemary_tests::capture::is_installed;
use rosemary_tests::{in_a_lab, rosemary_binary, skip};

#[test]
fn hosts_of_a_tree_reach_each_other_over_openflow_1_3() {
    in_a_lab(|lab| nothing_is_dropped(lab, ",protocols=OpenFlow13", "tree,2", "(12/12 received)"));
}

#[test]
fn eight_hosts_of_a_switch_reach_each_other_over_openflow_1_3() {
    in_a_lab(|lab| {
        nothing_is_dropped(lab, ",protocols=OpenFlow13", "single,8", "(56/56 received)")
    });
}

#[test]
fn hosts_of_a_tree_reach_each_other_over_openflow_1_0() {
    in_a_lab(|lab| nothing_is_dropped(lab, ",protocols=OpenFlow10", "tree,2", "(12/12 received)"));
}

#[test]
fn hosts_of_a_tree_reach_each_other_over_openflow_1_4() {
    in_a_lab(|lab| nothing_is_dropped(lab, ",protocols=OpenFlow14", "tree,2", "(12/12 received)"));
}

#[test]
fn hosts_of_a_tree_reach_each_other_over_openflow_1_5() {
    in_a_lab(|lab| nothing_is_dropped(lab, ",protocols=OpenFlow15", "tree,2", "(12/12 received)"));
}

fn nothing_is_dropped(lab: &Lab, of: &str, topo: &str, received: &str) -> anyhow::Result<()> {
    if !is_installed("mn") {
        skip(&anyhow::anyhow!("Mininet is not installed; type: apt-get install mininet"));
        return Ok(());
    }
    lab.start_open_vswitch()?;
    let rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
    // A separate process namespace: after an error, mn kills processes of the machine by name.
    let mut command = lab.command("timeout");
    command.args(["--kill-after=1", "100"]);
    command.args(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "mn"]);
    command.args(["--controller=remote,ip=127.0.0.1", "--topo", topo, "--test", "pingall"]);
    command.arg("--switch").arg(format!("ovsk,datapath=user{of}"));
    let output = command.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stderr); // mn writes everything there
    println!("{said}");
    if !output.status.success() {
        bail!("mn: {}: {said}", output.status);
    }
    let result = format!("0% dropped {received}");
    ensure!(said.contains(&result), "not {result}: {said}\n{}", rosemary.log());
    // Mininet has removed the bridges, which is no fault.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let log = rosemary.log();
    let warnings = log.lines().filter(|line| line.contains("WARN") || line.contains("ERROR"));
    let warnings: Vec<&str> = warnings.collect();
    ensure!(warnings.is_empty(), "a run of Mininet: {warnings:#?}");
    Ok(())
}
