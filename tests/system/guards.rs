//! Packets stopped by a guard do not pass, whatever the control apps do with them and whatever
//! happens to the guard.
//!
//! ```text
//!  h1 --- marked packets and pings ---> guard --- pings alone ---> hub, which floods ---> h2
//! ```
//!
//! There are no flows, so every packet takes this path.

use std::env;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Host, Lab, LabError, Of, Rosemary, Switch};
use control::operator::ProgramState;
use rosemary_tests::apps::{configure, in_c, in_rust};
use rosemary_tests::net::{INTERVAL, SOON};
use rosemary_tests::random::Random;
use rosemary_tests::stream::Stream;
use rosemary_tests::{in_a_lab, in_a_lab_for, kill, rosemary_binary};
use rustix::process::{Pid, Signal, kill_process};

/// Interval between marked packets.
const EVERY: Duration = Duration::from_millis(2);

/// Number of deaths in `make test`; `make soak` sets more with `ROSEMARY_DEATHS`.
const DEATHS: u32 = 10;

/// Time limit of a round on a busy machine.
const ROUND: Duration = Duration::from_secs(8);

#[test]
fn guard_in_rust_stops_every_marked_packet() {
    in_a_lab(|lab| obeyed(lab, Of::V1_3, &in_rust("guard", CLOSED)));
}

#[test]
fn guard_in_c_stops_every_marked_packet() {
    in_a_lab(|lab| obeyed(lab, Of::V1_0, &in_c(lab, "guard", "apps/guard.c", CLOSED)?));
}

#[test]
fn killed_guard_that_fails_closed_passes_nothing() {
    let rounds = env::var("ROSEMARY_DEATHS").map_or(DEATHS, |n| n.parse().expect("a number"));
    in_a_lab_for(ROUND * rounds + SOON * 3, move |lab| {
        let mut random = Random::seeded();
        // The deaths are the test's: they neither delay the guard's restart much nor hold it.
        let restart = "restart = { longest-pause-seconds = 1, restarts = 100000 }";
        let guard = in_rust("guard", &format!("{CLOSED}\n{restart}"));
        let mut scene = Scene::set(lab, Of::V1_3, &guard)?;
        for _ in 0..rounds {
            lab.pause(random.up_to(Duration::from_millis(300)))?;
            scene.kill_guard()?;
            scene.wait_for_guard()?;
            // The guard decides again: packets that it does not stop pass.
            let pings = scene.h1.ping_in_background(&scene.h2, 500, INTERVAL)?;
            lab.wait_for("a ping is answered", SOON, |_| {
                Ok((pings.received_so_far() > 0).then_some(()))
            })?;
        }
        let switch = scene.rosemary.wait_for_switch(&scene.s1)?;
        println!("{} packets while the guard was away or silent", switch.guarded);
        ensure!(switch.guarded > 0, "there was traffic meanwhile: {switch:?}");
        scene.nothing_arrived()
    });
}

#[test]
fn silent_guard_is_logged_at_a_bounded_rate() {
    in_a_lab(|lab| {
        // The stopped guard must not count as hung, however slow the machine is.
        let keys = format!("{CLOSED}\nhang-seconds = 60");
        let mut scene = Scene::set(lab, Of::V1_3, &in_rust("guard", &keys))?;
        let pid = scene.rosemary.wait_for("the guard runs", SOON, |status| {
            status.app("guard").filter(|app| app.state == ProgramState::Running)?.pid
        })?;
        let pid = Pid::from_raw(i32::try_from(pid)?).context("a process")?;
        let said = ["the guard did not answer in time", "app=\"guard\"", "packets="];
        kill_process(pid, Signal::STOP)?;
        scene.rosemary.wait_for_log(&said, SOON)?;
        lab.pause(Duration::from_millis(1_500))?; // hundreds of packets
        kill_process(pid, Signal::CONT)?;
        let lines = scene.rosemary.log().matches(said[0]).count();
        ensure!(lines <= 8, "{lines} lines for one switch, which one worker has");
        scene.nothing_arrived()
    });
}

/// Shows that the tests above can fail.
#[test]
fn killed_guard_that_fails_open_passes_packets() {
    in_a_lab(|lab| {
        let guard = in_rust("guard", "stage = \"guard\"\nfail = \"open\"");
        let mut scene = Scene::set(lab, Of::V1_3, &guard)?;
        scene.kill_guard()?;
        lab.wait_for("marked packets arrive", SOON, |_| {
            Ok((scene.stream.arrived() > 0).then_some(()))
        })?;
        Ok(())
    });
}

const CLOSED: &str = "stage = \"guard\"\nfail = \"closed\"";

fn obeyed(lab: &Lab, of: Of, guard: &str) -> anyhow::Result<()> {
    let mut scene = Scene::set(lab, of, guard)?;
    let pings = scene.h1.ping(&scene.h2, 100, INTERVAL)?;
    let switch = scene.rosemary.wait_for_switch(&scene.s1)?;
    println!("{} of {} pings; {switch:?}", pings.received, pings.sent);
    // On a busy machine not all: a guard that is silent for 100 ms is bypassed.
    ensure!(pings.received > pings.sent / 2, "what it lets go comes through: {pings:?}");
    scene.nothing_arrived()
}

/// All participants.
struct Scene<'lab> {
    lab: &'lab Lab,
    rosemary: Rosemary<'lab>,
    s1: Switch<'lab>,
    h1: Host<'lab>,
    h2: Host<'lab>,
    stream: Stream,
}

impl<'lab> Scene<'lab> {
    fn set(lab: &'lab Lab, of: Of, guard: &str) -> anyhow::Result<Self> {
        configure(&[guard, &in_c(lab, "hub", "../crates/sdk/c/hub.c", "")?])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let s1 = lab.switch("s1", of)?;
        let (h1, h2) = (lab.host("h1", &s1)?, lab.host("h2", &s1)?);
        h1.knows(&h2)?;
        h2.knows(&h1)?;
        rosemary.wait_for_switch(&s1)?;
        ensure!(h1.ping(&h2, 5, INTERVAL)?.received > 0, "the hub floods");
        let stream = Stream::start(&h1, &h2, EVERY)?;
        Ok(Self { lab, rosemary, s1, h1, h2, stream })
    }

    fn kill_guard(&mut self) -> anyhow::Result<()> {
        let pid = self.rosemary.wait_for("the guard runs", SOON, |status| {
            status.app("guard").filter(|app| app.state == ProgramState::Running)?.pid
        })?;
        kill(pid)?;
        self.rosemary.wait_for("it is dead", SOON, |status| {
            (status.app("guard")?.pid != Some(pid)).then_some(())
        })?;
        Ok(())
    }

    fn wait_for_guard(&mut self) -> Result<(), LabError> {
        self.rosemary.wait_for("the guard is back", SOON, |status| {
            (status.app("guard")?.state == ProgramState::Running).then_some(())
        })
    }

    /// Checks that none of many marked packets arrived.
    fn nothing_arrived(&mut self) -> anyhow::Result<()> {
        self.stream.stop();
        self.lab.pause(Duration::from_millis(500))?; // longer than any packet is held
        let sent = self.stream.sent();
        let switch = self.rosemary.wait_for_switch(&self.s1)?;
        let (arrived, _) = self.stream.finish();
        println!("{sent} marked packets sent, {} arrived; {switch:?}", arrived.different);
        ensure!(sent > 500 && switch.packet_ins > sent / 2, "there was enough traffic");
        ensure!(arrived.different == 0, "{} marked packets passed", arrived.different);
        Ok(())
    }
}
