//! Kills the app's process with `SIGKILL`: the network is not affected.
//!
//! The promise is 1 s until new flows work. The test prints the time, and asserts it with a margin
//! for a busy machine.

use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use cli::lab::{Lab, Of};
use cli::status::Report;
use control::operator::ProgramState;
use rosemary_tests::net::{APP, INTERVAL, Net, Over, SOON};
use rosemary_tests::{in_a_lab, kill, over_versions};

/// Five times the promise.
const NEW_FLOWS_WORK_WITHIN: Duration = Duration::from_secs(5);

over_versions!(killed_app_loses_no_ping, |of| in_a_lab(move |lab| app_killed_during_pings(
    lab,
    of,
    Over::Tcp
)));

over_versions!(killed_app_loses_no_ping_and_tls, |of| in_a_lab(
    move |lab| app_killed_during_pings(lab, of, Over::Tls)
));

#[test]
fn repeatedly_killed_app_restarts_every_time() {
    in_a_lab(|lab| {
        let mut net = Net::start(lab, Of::V1_3)?;
        let kernel = net.status()?.programs.kernel;
        for round in 1..=3 {
            let pid = app_pid(&net.status()?)?;
            kill(pid)?;
            let start = Instant::now();
            net.rosemary.wait_for("the app is back", SOON, |status| back(status, pid))?;
            println!("round {round}: back after {:?}", start.elapsed());
        }
        let status = net.status()?;
        assert_eq!(status.app(APP).map(|app| app.restarts), Some(3), "{status:?}");
        assert_eq!(status.programs.kernel.pid, kernel.pid);
        assert_eq!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost(), 0);
        Ok(())
    });
}

fn app_killed_during_pings(lab: &Lab, of: Of, over: Over) -> anyhow::Result<()> {
    let mut net = Net::start_over(lab, of, over)?;
    let transport = net.switch_status()?.transport;
    assert_eq!(transport.starts_with("tls"), over == Over::Tls, "{transport}");
    assert_eq!(net.h1.ping(&net.h2, 3, INTERVAL)?.lost(), 0);
    // A static ARP entry avoids ARP requests for h3, which are repeated only once a second.
    net.h1.knows(&net.h3)?;
    net.h3.knows(&net.h1)?;
    let before = net.status()?;
    let epoch = net.switch_status()?.epoch;
    let pid = app_pid(&before)?;
    let mut established = net.h1.ping_in_background(&net.h2, 300, INTERVAL)?;
    established.wait_for(10, SOON)?;

    let (killed, killed_at) = (Instant::now(), SystemTime::now());
    kill(pid)?;
    let new = net.h1.ping_in_background(&net.h3, 250, INTERVAL)?;
    let after = net.rosemary.wait_for("the app is back", SOON, |status| back(status, pid))?;
    let back_after = killed.elapsed();
    let (established, new) = (established.finish()?, new.finish()?);
    let works_after = new.first_reply_after(killed_at);
    println!(
        "over OpenFlow {of} and {transport}: app back after {back_after:?}, new flow after {works_after:?} \
         (promised: 1 s), {} of {} pings on it; {} of {} on the established one",
        new.received, new.sent, established.received, established.sent
    );
    assert_eq!(established.lost(), 0, "{established:?}");
    assert!(works_after.is_some_and(|time| time < NEW_FLOWS_WORK_WITHIN), "{works_after:?}");
    assert!(!net.flows_to(&net.h3)?.is_empty(), "{:#?}", net.s1.dump_flows()?);

    assert_eq!(after.programs.kernel, before.programs.kernel, "the kernel was not restarted");
    assert_eq!(net.switch_status()?.epoch, epoch, "on the same connection");
    let app = after.app(APP).context("the app has gone")?;
    assert_eq!((app.restarts, app.last_exit.as_deref()), (1, Some("killed by SIGKILL")));
    net.rosemary.wait_for_log(&[APP, "SIGKILL"], SOON)?;
    Ok(())
}

fn app_pid(status: &Report) -> anyhow::Result<u32> {
    status.app(APP).and_then(|app| app.pid).with_context(|| format!("it does not run: {status:?}"))
}

/// Returns the report once the app runs in another process than `pid`.
fn back(status: &Report, pid: u32) -> Option<Report> {
    let app = status.app(APP)?;
    (app.state == ProgramState::Running && app.pid.is_some_and(|now| now != pid))
        .then(|| status.clone())
}
