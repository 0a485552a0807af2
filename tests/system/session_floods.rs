//! Packet-ins that one session floods cost that session: another one keeps its reserved part of a worker.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Rosemary};
use control::operator::ProgramState;
use ofbench::checker::AnsweredBy;
use ofbench::hosts::Addresses;
use ofbench::load::{LoadResult, Pace, Plan, run};
use ofbench::packet_ins::MAX_IDS;
use openflow::Version;
use rosemary_tests::developer::rosemary;
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, rosemary_binary};

/// Not the captured port, because the load is millions of messages.
const ADDRESS: &str = "127.0.0.1:6654";

/// The configuration of root's Rosemary.
const CONFIG: &str = "/etc/rosemary/rosemary.toml";

/// The switches of the app in best effort.
const FLOODING: usize = 16;

/// The only switch of the app with a reservation.
const STEADY: u64 = 101;

fn plan(first_dpid: u64, switches: usize, interval_ms: u64) -> anyhow::Result<Plan> {
    Ok(Plan {
        controller: ADDRESS.parse()?,
        tls: None,
        version: Version::V1_3,
        switches,
        first_dpid,
        ports: 8,
        macs: 200,
        addresses: Addresses::Random,
        seed: first_dpid,
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
        interval: Duration::from_millis(interval_ms),
        intervals: 1,
    })
}

/// Apps in the kernel, so that the worker is what they compete for: one app without a session for many switches, and one for a
/// single switch.
fn config(lab: &Lab) -> anyhow::Result<String> {
    let learner = lab.files().join("learner.conf");
    fs::write(&learner, "0")?; // microseconds for each packet
    let object = rosemary_binary().with_file_name("examples").join("liblearner.so");
    let app = |name: &str, dpids: &str| {
        format!(
            "[[app]]\nname = \"{name}\"\nobject = \"{}\"\nconfig = \"{}\"\nhost = \"kernel\"\ndpids = [{dpids}]\n",
            object.display(),
            learner.display()
        )
    };
    let flooding: Vec<String> = (1..=FLOODING).map(|dpid| dpid.to_string()).collect();
    let steady = app("steady", &STEADY.to_string());
    Ok(format!(
        "[session.steady]\npacket-ins-percent = 50\n{}{steady}session = \"steady\"\n",
        app("flooding", &flooding.join(", "))
    ))
}

/// Loads both apps at once; returns the part of all answers that the app with the single switch gave.
fn part_of_steady() -> anyhow::Result<f64> {
    let flood = plan(1, FLOODING, 1_000)?;
    let flood = thread::spawn(move || run(&flood, |_| {}));
    let steady = run(&plan(STEADY, 1, 700)?, |_| {})?;
    let flood = flood.join().ok().context("the flood panicked")??;
    let rate = |it: &LoadResult| it.intervals[0].answered_per_second;
    let part = rate(&steady) / (rate(&steady) + rate(&flood));
    println!("{:.0} and {:.0} answers a second: {part:.2}", rate(&steady), rate(&flood));
    ensure!(steady.total.unanswered == 0 && steady.errors.0 == 0, "{:?}", steady.total);
    Ok(part)
}

#[test]
fn flood_leaves_another_session_its_part() {
    in_a_lab(|lab: &Lab| {
        fs::write(CONFIG, config(lab)?)?;
        let mut daemon =
            Rosemary::start(lab, &rosemary_binary(), &["--listen", ADDRESS, "--workers", "1"])?;
        for app in ["flooding", "steady"] {
            daemon.wait_for("the app runs", SOON, |status| {
                status.app(app).filter(|app| app.state == ProgramState::Running).map(|_| ())
            })?;
        }
        let shown = rosemary(lab, &["session", "show", "steady"])?;
        let row = shown.lines().find(|line| line.contains("packet-ins-percent"));
        ensure!(
            row.is_some_and(|row| row.contains("50 %") && row.trim_end().ends_with("yes")),
            "{shown}"
        );
        // Without a reservation it would be one of 17 switches. Generators on the same processors take some of its half.
        let reserved = part_of_steady()?;
        ensure!(reserved > 0.25, "{reserved}");
        rosemary(lab, &["session", "set", "steady", "packet-ins-percent=0"])?;
        let unreserved = part_of_steady()?;
        ensure!(unreserved < 0.2, "{unreserved}");
        Ok(())
    });
}
