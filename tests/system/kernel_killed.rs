//! Kills the kernel with `SIGKILL`: the flows remain on the switches, and the kernel restarts.

use std::time::Instant;

use anyhow::Context as _;
use cli::lab::{Lab, Of};
use cli::status::Report;
use rosemary_tests::net::{APP, INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, kill};

#[test]
fn killed_kernel_loses_no_ping_over_openflow_1_0() {
    in_a_lab(|lab| kernel_killed_during_pings(lab, Of::V1_0));
}

#[test]
fn killed_kernel_loses_no_ping_over_openflow_1_3() {
    in_a_lab(|lab| kernel_killed_during_pings(lab, Of::V1_3));
}

fn kernel_killed_during_pings(lab: &Lab, of: Of) -> anyhow::Result<()> {
    let mut net = Net::start(lab, of)?;
    assert_eq!(net.h1.ping(&net.h2, 3, INTERVAL)?.lost(), 0);
    let before = net.status()?;
    let pid = before.programs.kernel.pid.context("the kernel does not run")?;
    let mut established = net.h1.ping_in_background(&net.h2, 250, INTERVAL)?;
    established.wait_for(10, SOON)?;

    let killed = Instant::now();
    kill(pid)?;
    let dpid = net.s1.dpid();
    let after = net.rosemary.wait_for("the switch is back", SOON, |status| {
        let other = status.programs.kernel.pid.is_some_and(|now| now != pid);
        (other && status.switch(&dpid).is_some()).then(|| status.clone())
    })?;
    println!("over OpenFlow {of}: kernel and switch back after {:?}", killed.elapsed());
    assert_eq!(after.programs.kernel.restarts, 1, "{after:?}");
    assert_eq!(after.programs.monitor.pid, before.programs.monitor.pid);
    let app_pid = |status: &Report| status.app(APP).and_then(|app| app.pid);
    assert_eq!(app_pid(&after), app_pid(&before), "the app's process went on");

    // The surviving app serves the new kernel.
    let new = net.h1.ping(&net.h3, 20, INTERVAL)?;
    assert!(new.received > 0, "{new:?}");
    let established = established.finish()?;
    assert_eq!(established.lost(), 0, "{established:?}");
    Ok(())
}
