//! The kernel's workers: switches are distributed over them, and an app sees them as one network.

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use cli::lab::{Host, Lab, Of, Rosemary, Switch};
use cli::status::Report;
use control::operator::ProgramState;
use control::query::SwitchStatus;
use rosemary_tests::net::{APP, INTERVAL, SOON};
use rosemary_tests::{in_a_lab, kill, rosemary_binary};
use rustix::process::Signal;

const SWITCHES: usize = 8;

/// More than twice the promise.
const STOPS_WITHIN: Duration = Duration::from_secs(5);

#[test]
fn switches_are_distributed_over_workers() {
    in_a_lab(|lab| {
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &["--workers", "2"])?;
        let workers = count_workers(&mut rosemary)?;
        assert_eq!(workers, 2);
        let switches = eight_switches(lab, &mut rosemary)?;
        let before = statuses(&mut rosemary, &switches)?;
        let busy: BTreeSet<usize> =
            before.iter().map(|switch| switch.epoch as usize % workers).collect();
        println!("{SWITCHES} switches on {} of {workers} workers", busy.len());
        assert_eq!(busy.len(), workers.min(SWITCHES), "{before:?}");

        let mut pairs: Vec<(Host<'_>, Host<'_>)> = Vec::new();
        for switch in &switches {
            let host = |end| lab.host(&format!("h{end}{}", switch.name()), switch);
            pairs.push((host("a")?, host("b")?));
        }
        for (one, other) in &pairs {
            assert_eq!(one.ping(other, 3, INTERVAL)?.lost(), 0, "{}", one.name());
        }
        let pinging: Result<Vec<_>, _> =
            pairs.iter().map(|(one, other)| one.ping_in_background(other, 200, INTERVAL)).collect();
        let mut pinging = pinging?;
        pinging.iter_mut().try_for_each(|one| one.wait_for(10, SOON))?;
        let pid = app_pid(&mut rosemary)?;
        let killed = Instant::now();
        kill(pid)?;
        rosemary.wait_for("the app is back", SOON, |status| {
            let app = status.app(APP)?;
            (app.state == ProgramState::Running && app.pid != Some(pid)).then_some(())
        })?;
        println!("the app of {SWITCHES} switches was back after {:?}", killed.elapsed());
        for one in pinging {
            let report = one.finish()?;
            assert_eq!(report.lost(), 0, "{report:?}");
        }
        let after = statuses(&mut rosemary, &switches)?;
        let epochs = |all: &[SwitchStatus]| all.iter().map(|it| it.epoch).collect::<Vec<_>>();
        assert_eq!(epochs(&after), epochs(&before), "on the same connections");
        // New hosts require new flows, which the new process installs on each switch.
        for (switch, (_, other)) in switches.iter().zip(&pairs) {
            let new = lab.host(&format!("hn{}", switch.name()), switch)?;
            assert_eq!(new.ping(other, 3, INTERVAL)?.lost(), 0, "{}", new.name());
        }
        let stopped = rosemary.stop(Signal::TERM)?;
        println!("stopped with {SWITCHES} switches in {:?}", stopped.took);
        assert!(stopped.status.success() && stopped.took < STOPS_WITHIN, "{stopped:?}");
        Ok(())
    });
}

#[test]
fn app_reaches_switches_of_all_workers() {
    in_a_lab(|lab| {
        let test = std::env::current_exe()?;
        let profile_dir = test.ancestors().nth(2).context("a test is in target/PROFILE/deps")?;
        let object = profile_dir.join("examples/libneighbours.so");
        let config = format!("[[app]]\nname = \"neighbours\"\nobject = \"{}\"\n", object.display());
        fs::write("/etc/rosemary/rosemary.toml", config)?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &["--workers", "3"])?;
        assert_eq!(count_workers(&mut rosemary)?, 3);
        let switches = eight_switches(lab, &mut rosemary)?;
        for switch in &switches {
            let host = lab.host(&format!("h{}", switch.name()), switch)?;
            // The destination does not exist; only the packet-ins of the switch matter.
            let mut ping = host.command("ping");
            ping.args(["-c", "1", "-W", "1", "10.0.0.254"]);
            ping.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        }
        for (number, switch) in switches.iter().enumerate() {
            let others: BTreeSet<usize> =
                (1..=SWITCHES).filter(|other| *other != number + 1).collect();
            lab.wait_for("each switch has a flow for each other", SOON, |evidence| {
                let flows = switch.dump_flows()?;
                evidence.0 = format!("{flows:#?}");
                let marked = |flow: &String, other: &usize| {
                    flow.contains(&format!("in_port={} ", 1000 + other))
                        && flow.contains(&format!("000000{other:x},"))
                };
                let has = |other: &usize| flows.iter().any(|flow| marked(flow, other));
                Ok(others.iter().all(has).then_some(()))
            })?;
        }
        let refused: u64 =
            statuses(&mut rosemary, &switches)?.iter().map(|switch| switch.refused).sum();
        assert_eq!(refused, 0, "{}", rosemary.log());
        Ok(())
    });
}

/// Returns the number of the kernel's workers.
fn count_workers(rosemary: &mut Rosemary<'_>) -> anyhow::Result<usize> {
    let pid = rosemary.wait_for("the kernel runs", SOON, |status| status.programs.kernel.pid)?;
    let mut workers = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let name = fs::read_to_string(task?.path().join("comm"))?;
        workers += usize::from(name.starts_with("worker-"));
    }
    Ok(workers)
}

fn eight_switches<'lab>(
    lab: &'lab Lab,
    rosemary: &mut Rosemary<'_>,
) -> anyhow::Result<Vec<Switch<'lab>>> {
    let mut switches = Vec::new();
    for number in 1..=SWITCHES {
        let of = if number % 4 == 0 { Of::V1_0 } else { Of::V1_3 };
        switches.push(lab.switch(&format!("s{number}"), of)?);
    }
    statuses(rosemary, &switches)?;
    Ok(switches)
}

/// Returns the status of each switch, once all are connected.
fn statuses(
    rosemary: &mut Rosemary<'_>,
    switches: &[Switch<'_>],
) -> anyhow::Result<Vec<SwitchStatus>> {
    let status = |switch| Ok(rosemary.wait_for_switch(switch)?);
    switches.iter().map(status).collect()
}

fn app_pid(rosemary: &mut Rosemary<'_>) -> anyhow::Result<u32> {
    let pid = |status: &Report| status.app(APP).and_then(|app| app.pid);
    Ok(rosemary.wait_for("the app runs", SOON, pid)?)
}
