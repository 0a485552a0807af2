//! A late control app before the learning switch delays a few packets and is then skipped, until it
//! answers again.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Host, Lab, LabError, Of, Rosemary, Switch};
use control::operator::ProgramState;
use rosemary_tests::apps::{configure, in_rust};
use rosemary_tests::net::{INTERVAL, SOON};
use rosemary_tests::{in_a_lab, rosemary_binary};
use rustix::process::{Pid, Signal, kill_process};

const SWITCH: &str = "[[app]]\nname = \"learning-switch\"\n";

/// A ping that requires two flows takes a few milliseconds, and 200 ms with each packet delayed.
const AT_ONCE: Duration = Duration::from_millis(80);

/// Number of new flows whose first packets are timed.
const FIRST_PACKETS: usize = 15;

struct Scene<'lab> {
    rosemary: Rosemary<'lab>,
    s1: Switch<'lab>,
    h1: Host<'lab>,
    h2: Host<'lab>,
}

impl<'lab> Scene<'lab> {
    /// Starts the learning switch behind the app `first`.
    fn set(lab: &'lab Lab, first: &str) -> anyhow::Result<Self> {
        let s1 = lab.switch("s1", Of::V1_3)?;
        let (h1, h2) = (lab.host("h1", &s1)?, lab.host("h2", &s1)?);
        h1.knows(&h2)?;
        h2.knows(&h1)?;
        configure(&[first, SWITCH])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_switch(&s1)?;
        Ok(Self { rosemary, s1, h1, h2 })
    }

    /// Deletes the flows between the hosts.
    fn forget(&self) -> Result<(), LabError> {
        for (from, to) in [(&self.h1, &self.h2), (&self.h2, &self.h1)] {
            let pair = format!("dl_src={},dl_dst={}", from.mac(), to.mac());
            self.s1.ofctl(&["del-flows", &pair])?;
        }
        Ok(())
    }

    /// Returns the median time of first packets of new flows.
    fn first_packets(&self) -> anyhow::Result<Duration> {
        let mut times = Vec::new();
        for _ in 0..FIRST_PACKETS {
            self.forget()?;
            times.extend(self.h1.ping(&self.h2, 1, INTERVAL)?.rtts());
        }
        times.sort_unstable();
        times.get(times.len() / 2).copied().context("no first packet came through")
    }
}

#[test]
fn late_control_app_is_skipped() {
    in_a_lab(|lab| {
        let mut scene = Scene::set(lab, &in_rust("slow", "stage = \"control\""))?;
        let took = scene.first_packets()?;
        println!("first packets behind an app that takes 200 ms for each: {took:?}");
        ensure!(took < AT_ONCE, "{took:?}");
        scene.rosemary.wait_for_log(&["app answers too late and is skipped", "slow"], SOON)?;
        let program = rosemary_binary().display().to_string();
        let apps = lab.run(&program, &["apps"])?;
        ensure!(apps.contains("running, skipped"), "{apps}");
        Ok(())
    });
}

#[test]
fn recovered_control_app_is_used_again() {
    in_a_lab(|lab| {
        let keys = "stage = \"control\"\nhang-seconds = 60"; // the stopped app must not count as hung
        let mut scene = Scene::set(lab, &in_rust("guard", keys))?;
        let before = scene.first_packets()?;
        let pid = scene.rosemary.wait_for("the app runs", SOON, |status| {
            status.app("guard").filter(|app| app.state == ProgramState::Running)?.pid
        })?;
        let pid = Pid::from_raw(i32::try_from(pid)?).context("a process")?;
        kill_process(pid, Signal::STOP)?;
        let stopped = scene.first_packets()?;
        println!("first packets: {before:?}, and {stopped:?} behind an app that was stopped");
        ensure!(stopped < AT_ONCE, "{stopped:?}");
        kill_process(pid, Signal::CONT)?;
        let words = ["app answers again and is waited for", "guard", "packets="];
        lab.wait_for("the app is waited for again", SOON, |_| {
            scene.forget()?;
            scene.h1.ping(&scene.h2, 1, INTERVAL)?;
            let log = scene.rosemary.log();
            let told = log.lines().any(|line| words.iter().all(|word| line.contains(word)));
            Ok(told.then_some(()))
        })
        .map_err(anyhow::Error::from)
    });
}
