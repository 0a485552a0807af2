//! Kills the kernel with `SIGKILL`: the flows remain on the switches, and the kernel restarts.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of};
use cli::status::Report;
use rosemary_tests::apps::configure;
use rosemary_tests::net::{APP, INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, in_a_lab_for, kill, over_versions};

/// Number of kernels that are killed one after the other in `make test`; `make soak` sets more with `ROSEMARY_DEATHS`.
const DEATHS: u32 = 5;

/// A kernel that ran shorter is restarted only after this time.
const MIN_RUN: Duration = Duration::from_secs(1);

over_versions!(killed_kernel_loses_no_ping, |of| in_a_lab(move |lab| kernel_killed_during_pings(
    lab, of
)));

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

/// Kills one kernel after the other under traffic that needs no controller and traffic that does.
#[test]
fn killed_kernels_lose_no_established_ping() {
    let deaths =
        std::env::var("ROSEMARY_DEATHS").ok().and_then(|it| it.parse().ok()).unwrap_or(DEATHS);
    in_a_lab_for(SOON * (deaths + 6), move |lab| {
        let switch = format!("[[app]]\nname = \"{APP}\"\n");
        configure(&["[safe-mode]\nkernel-restarts = 100000\n", &switch])?;
        let mut net = Net::start(lab, Of::V1_3)?;
        assert_eq!(net.h1.ping(&net.h2, 3, INTERVAL)?.lost(), 0);
        let first = net.status()?;
        let (mut pid, dpid) = (first.programs.kernel.pid, net.s1.dpid());
        let mut times = Vec::new();
        for death in 1..=deaths {
            lab.pause(MIN_RUN)?;
            let mut established = net.h1.ping_in_background(&net.h2, 60, INTERVAL)?;
            established.wait_for(2, SOON)?;
            let killed = Instant::now();
            kill(pid.context("the kernel does not run")?)?;
            let before = pid;
            pid = net.rosemary.wait_for("the switch is back", SOON, |status| {
                let kernel = &status.programs.kernel;
                let is_back = kernel.pid != before && status.switch(&dpid).is_some();
                is_back.then_some(kernel.pid)
            })?;
            times.push(killed.elapsed());
            // Traffic that the controller must forward.
            let new = net.h1.ping(&net.h3, 10, INTERVAL)?;
            ensure!(new.received > 0, "death {death}: {new:?}");
            let established = established.finish()?;
            ensure!(established.lost() == 0, "death {death}: {established:?}");
        }
        times.sort_unstable();
        let middle = times.get(times.len() / 2).context("one at least")?;
        println!(
            "{deaths} kernels killed: switch back after {middle:?}, {:?} at most",
            times.last()
        );
        let last = net.status()?;
        assert_eq!(last.programs.kernel.restarts, u64::from(deaths));
        let app = |status: &Report| status.app(APP).map(|app| (app.pid, app.restarts));
        assert_eq!(app(&last), app(&first), "the app's process went on");
        assert_eq!(last.programs.monitor.pid, first.programs.monitor.pid);
        Ok(())
    });
}
