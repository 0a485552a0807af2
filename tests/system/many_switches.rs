//! Many emulated switches at full load: every packet-in is answered, and service is fair.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Rosemary};
use control::operator::ProgramState;
use control::query::AppCounters;
use ofbench::checker::AnsweredBy;
use ofbench::hosts::Addresses;
use ofbench::load::{LoadResult, Pace, Plan, run};
use ofbench::packet_ins::MAX_IDS;
use openflow::Version;
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, rosemary_binary};

/// Not the captured port, because the load is millions of messages.
const ADDRESS: &str = "127.0.0.1:6654";

/// The configuration of root's Rosemary.
const CONFIG: &str = "/etc/rosemary/rosemary.toml";

/// Minimum fairness: fewest by most answers of a switch in a span (`ofbench throughput
/// --fairness`).
const FAIR: f64 = 0.5;

/// Number of runs. At least one must reach [`FAIR`] and lose nothing. A busy machine can suspend the
/// app for longer than a span, or for longer than back-pressure may last (50 ms); packet-ins are then
/// dropped.
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
fn fast_user_app_serves_switches_fairly() {
    in_a_lab(|lab| served_alike(lab, "user", 0));
}

#[test]
fn fast_kernel_app_serves_switches_fairly() {
    in_a_lab(|lab| served_alike(lab, "kernel", 0));
}

#[test]
fn slow_user_app_serves_switches_fairly() {
    in_a_lab(|lab| served_alike(lab, "user", SLOW_US));
}

#[test]
fn slow_kernel_app_serves_switches_fairly() {
    in_a_lab(|lab| served_alike(lab, "kernel", SLOW_US));
}

/// CPU time of a slow app per packet, in microseconds.
const SLOW_US: u32 = 100;

/// Plan with switches that have 1,000 hosts each and buffer their packets.
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
        buffer_ids: MAX_IDS,
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

/// Runs the load; every packet-in must be answered.
fn load(plan: &Plan) -> anyhow::Result<LoadResult> {
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
        status.app(app).filter(|app| app.state == ProgramState::Running).map(|_| ())
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
