//! Start and stop: how long they take, and what remains.
//!
//! The promises, for a release build: 500 ms from the start until all programs run, and 2 s for a stop by signal. The
//! tests print the times and assert several times the figures.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::processes;
use cli::lab::{Lab, Rosemary};
use rosemary_tests::apps::configure;
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::traces::{Traces, cgroups_of};
use rosemary_tests::{in_a_lab, rosemary_binary};
use rustix::process::Signal;

use crate::stopping::Below;

/// Ten times the promise for a start.
const STARTS_WITHIN: Duration = Duration::from_secs(5);

/// Five times the promise for a stop, after which the lab gives up.
const STOPS_WITHIN: Duration = Duration::from_secs(10);

const SWITCH: &str = "[[app]]\nname = \"learning-switch\"\n";

/// Apps that ship with Rosemary. The last one needs the service of another.
const SHIPPED: [&str; 3] = [
    SWITCH,
    "[[app]]\nname = \"firewall\"\nstage = \"guard\"\nconfig = \"firewall.toml\"\n\
     capabilities = [\"flow.write\", \"stats.read\"]\n",
    "[[app]]\nname = \"link-monitor\"\nstage = \"observe\"\n",
];

/// The number of starts in each test, which reports the fastest and the slowest.
const ROUNDS: usize = 5;

/// Starts and stops Rosemary several times, and checks each time that these apps run and nothing remains.
fn start_and_stop(lab: &Lab, apps: &[&str]) -> anyhow::Result<()> {
    let (mut starts, mut stops) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let traces = Traces::look();
        let began = Instant::now();
        let rosemary = Rosemary::start_with(lab, &rosemary_binary(), &["--allow-unsigned"])?;
        starts.push(began.elapsed());
        let status = rosemary.status()?.context("it answers")?;
        ensure!(status.programs.apps.iter().map(|app| &app.name).eq(apps));
        let (below, pid) = (Below::look(rosemary.pid()), rosemary.pid());
        let stopped = rosemary.stop(Signal::TERM)?;
        stops.push(stopped.took);
        ensure!(stopped.status.success(), "{stopped:?}");
        below.assert_gone();
        ensure!(traces.new_since().is_empty(), "{:?}", traces.new_since());
        ensure!(cgroups_of(pid).is_empty(), "{:?}", cgroups_of(pid));
    }
    report("start", &mut starts, "500 ms");
    report("stop", &mut stops, "2 s");
    ensure!(starts.iter().all(|time| *time < STARTS_WITHIN), "{starts:?}");
    ensure!(stops.iter().all(|time| *time < STOPS_WITHIN), "{stops:?}");
    Ok(())
}

fn report(what: &str, times: &mut [Duration], promised: &str) {
    times.sort_unstable();
    println!("{what}: {:?} to {:?} (promised: {promised})", times[0], times[times.len() - 1]);
}

#[test]
fn learning_switch_starts_and_stops_in_time() {
    in_a_lab(|lab| {
        configure(&[SWITCH])?;
        start_and_stop(lab, &["learning-switch"])
    });
}

#[test]
fn shipped_apps_start_and_stop_in_time() {
    in_a_lab(|lab| {
        configure(&SHIPPED)?;
        fs::write("/etc/rosemary/firewall.toml", "[[deny]]\nto = \"10.0.0.99\"\n")?;
        start_and_stop(lab, &["learning-switch", "firewall", "link-monitor", "topology"])
    });
}

#[test]
fn default_apps_start_and_stop_in_time() {
    in_a_lab(|lab| start_and_stop(lab, &["forwarding", "stats", "topology", "hosts"]));
}

#[test]
fn start_follows_a_killed_monitor_at_once() {
    in_a_lab(|lab| {
        configure(&[SWITCH])?;
        let traces = Traces::look();
        let Net { lab, rosemary, s1, h1, h2, h3 } = Net::start(lab, cli::lab::Of::V1_3)?;
        let killed = rosemary.pid();
        let below = Below::look(killed);
        rosemary.stop(Signal::KILL)?;
        below.assert_gone();
        ensure!(Path::new("/run/rosemary/rosemary.lock").exists(), "nobody could remove it");

        let began = Instant::now();
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let took = began.elapsed();
        println!("start after a killed monitor: {took:?} (promised: 500 ms)");
        ensure!(took < STARTS_WITHIN, "{took:?}");
        ensure!(cgroups_of(killed).is_empty(), "{:?}", cgroups_of(killed));
        rosemary.wait_for_switch(&s1)?;
        lab.wait_for("the network works", SOON, |_| {
            Ok((h1.ping(&h2, 3, INTERVAL)?.received == 3).then_some(()))
        })?;
        drop((s1, h1, h2, h3));
        let pid = rosemary.pid();
        let running = processes::tree(pid);
        rosemary.stop(Signal::TERM)?;
        let left: Vec<_> = running.iter().filter(|process| process.runs()).collect();
        ensure!(left.is_empty(), "{left:?}");
        let left: Vec<String> =
            traces.new_since().into_iter().filter(|it| it.contains("rosemary")).collect();
        ensure!(left.is_empty() && cgroups_of(pid).is_empty(), "{left:?}");
        Ok(())
    });
}
