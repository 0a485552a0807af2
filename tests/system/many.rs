//! Many emulated switches that ask as fast as they are answered: all answers go out, and no switch waits long beside
//! another.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Rosemary};
use control::query::AppCounters;
use monitor::supervise::State;
use ofbench::hosts::Addresses;
use ofbench::ledger::AnsweredBy;
use ofbench::load::{Measured, Pace, Plan, run};
use ofbench::question::MOST_IDS;
use openflow::Version;
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, rosemary_binary};

/// Beside the port whose traffic is captured: these are millions of messages.
const ADDRESS: &str = "127.0.0.1:6654";

/// Where root's configuration is.
const CONFIG: &str = "/etc/rosemary/rosemary.toml";

/// Of the answers in a span, the least of a switch by the most of another (`ofbench throughput --fairness`).
const FAIR: f64 = 0.5;

/// Runs of which one has to be [`FAIR`] and complete. A busy machine can stop the app for longer than a span lasts, or for
/// longer than switches may be left unread (50 ms); then packet-ins are dropped.
const RUNS: usize = 3;

#[test]
fn user_app_may_use_more_buffers_than_switches_claim() {
    in_a_lab(|lab| more_buffers_than_claimed(lab, "user"));
}

#[test]
fn kernel_app_may_use_more_buffers_than_switches_claim() {
    in_a_lab(|lab| more_buffers_than_claimed(lab, "kernel"));
}

#[test]
fn switches_of_a_fast_user_app_are_served_alike() {
    in_a_lab(|lab| served_alike(lab, "user", 0));
}

#[test]
fn switches_of_a_fast_kernel_app_are_served_alike() {
    in_a_lab(|lab| served_alike(lab, "kernel", 0));
}

#[test]
fn switches_of_a_slow_user_app_are_served_alike() {
    in_a_lab(|lab| served_alike(lab, "user", SLOW_US));
}

#[test]
fn switches_of_a_slow_kernel_app_are_served_alike() {
    in_a_lab(|lab| served_alike(lab, "kernel", SLOW_US));
}

/// Processor time of a slow app for each packet, in microseconds.
const SLOW_US: u32 = 100;

/// Switches with 1,000 hosts each that keep their packets.
fn plan(version: Version, switches: usize) -> anyhow::Result<Plan> {
    Ok(Plan {
        controller: ADDRESS.parse()?,
        tls: None,
        version,
        switches,
        first_dpid: 1,
        ports: 8,
        macs: 1000,
        addresses: Addresses::Random,
        seed: 1,
        buffered: true,
        buffer_ids: MOST_IDS,
        claimed_buffers: None,
        frame: 64,
        answered_by: AnsweredBy::PacketOut,
        pace: Pace::Window(1800),
        fairness: false,
        timed: false,
        keep_flows: false,
        max_flows: 0,
        threads: 1,
        pin: false,
        patience: SOON,
        give_up: SOON,
        settle: Duration::from_millis(100),
        interval: Duration::from_millis(500),
        intervals: 1,
    })
}

/// Puts the load on. Nothing may be lost.
fn load(plan: &Plan) -> anyhow::Result<Measured> {
    let measured = run(plan, |_| {})?;
    println!(
        "{} with {} switches: {:.0} answers a second, {} in all",
        plan.version,
        plan.switches,
        measured.intervals[0].answered_per_second,
        measured.total.answered
    );
    ensure!(measured.total.unanswered == 0, "{:?}", measured.total);
    ensure!(measured.errors.0 == 0, "{:?}", measured.errors);
    Ok(measured)
}

fn start<'lab>(lab: &'lab Lab, app: &str) -> anyhow::Result<Rosemary<'lab>> {
    let mut rosemary =
        Rosemary::start(lab, &rosemary_binary(), &["--listen", ADDRESS, "--workers", "1"])?;
    rosemary.wait_for("the app runs", SOON, |status| {
        status.app(app).filter(|app| app.state == State::Running).map(|_| ())
    })?;
    Ok(rosemary)
}

fn more_buffers_than_claimed(lab: &Lab, host: &str) -> anyhow::Result<()> {
    fs::write(CONFIG, format!("[[app]]\nname = \"learning-switch\"\nhost = \"{host}\"\n"))?;
    let _rosemary = start(lab, "learning-switch")?;
    for switches in [1, 16, 64] {
        let plan = plan(Version::V1_0, switches)?;
        load(&Plan { buffer_ids: 100_000, claimed_buffers: Some(256), ..plan })?;
        let json = lab.run(&rosemary_binary().display().to_string(), &["apps", "--json"])?;
        let apps: Vec<AppCounters> = serde_json::from_str(&json)?;
        ensure!(apps.iter().all(|app| app.refused + app.dropped == 0), "{apps:?}");
    }
    Ok(())
}

fn served_alike(lab: &Lab, host: &str, slow_us: u32) -> anyhow::Result<()> {
    let object = rosemary_binary().with_file_name("examples").join("liblearner.so");
    let config = lab.files().join("learner.conf");
    fs::write(&config, slow_us.to_string())?;
    fs::write(
        CONFIG,
        format!(
            "[[app]]\nname = \"learner\"\nobject = \"{}\"\nconfig = \"{}\"\nhost = \"{host}\"\n",
            object.display(),
            config.display()
        ),
    )?;
    let _rosemary = start(lab, "learner")?;
    for version in [Version::V1_0, Version::V1_3] {
        let interval = Duration::from_millis(1200);
        let plan = Plan { fairness: true, interval, macs: 200, ..plan(version, 16)? };
        let mut runs = Vec::new();
        while !matches!(runs.last(), Some(Ok(FAIR..))) {
            ensure!(runs.len() < RUNS, "no run was complete and fair: {runs:?}");
            let run = load(&plan).and_then(|measured| {
                let worst = measured.fairness.context("the app answers too little")?;
                println!("{worst:?}");
                Ok(worst.ratio)
            });
            runs.push(run);
        }
    }
    Ok(())
}
