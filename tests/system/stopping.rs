//! Stopping by any signal leaves nothing behind.
//!
//! The promise is 2 s for a stop by signal. The test prints the time, and asserts it with a margin.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use cli::lab::processes::{self, Process};
use cli::lab::{Lab, Of, Rosemary};
use rosemary_tests::net::INTERVAL;
use rosemary_tests::traces::Traces;
use rosemary_tests::{in_a_lab, rosemary_binary};
use rustix::process::Signal;

/// More than twice the promise.
const STOPS_WITHIN: Duration = Duration::from_secs(5);

#[test]
fn sigterm_stops_everything_and_leaves_nothing() {
    in_a_lab(|lab| signal_stops_everything(lab, Signal::TERM));
}

#[test]
fn sigint_stops_everything_and_leaves_nothing() {
    in_a_lab(|lab| signal_stops_everything(lab, Signal::INT));
}

#[test]
fn killed_monitor_leaves_nothing() {
    in_a_lab(|lab| {
        let rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let below = Below::look(rosemary.pid());
        assert!(below.processes.len() >= 3, "monitor, kernel and zone: {below:?}");
        rosemary.stop(Signal::KILL)?;
        below.assert_gone();
        // Files left in /run after SIGKILL do not prevent the next start.
        Rosemary::start(lab, &rosemary_binary(), &[])?;
        Ok(())
    });
}

fn signal_stops_everything(lab: &Lab, signal: Signal) -> anyhow::Result<()> {
    let s1 = lab.switch("s1", Of::V1_3)?;
    let (h1, h2) = (lab.host("h1", &s1)?, lab.host("h2", &s1)?);
    let traces = Traces::look();
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
    rosemary.wait_for_switch(&s1)?;
    assert_eq!(h1.ping(&h2, 3, INTERVAL)?.lost(), 0);
    let running = processes::tree(rosemary.pid());
    assert!(running.len() >= 3, "monitor, kernel and zone: {running:?}");

    let stopped = rosemary.stop(signal)?;
    println!("{} after {:?} (promised: 2 s)", stopped.status, stopped.took);
    assert!(stopped.took < STOPS_WITHIN, "{stopped:?}");
    assert!(stopped.status.success(), "{stopped:?}");
    let left: Vec<_> = running.iter().filter(|process| process.runs()).collect();
    assert!(left.is_empty(), "processes remain: {left:?}");
    assert_eq!(traces.new_since(), [""; 0]);
    Ok(())
}

/// A process with its descendants and their network namespaces.
#[derive(Debug)]
pub(crate) struct Below {
    pub(crate) processes: Vec<Process>,
    networks: Vec<PathBuf>,
}

impl Below {
    pub(crate) fn look(pid: u32) -> Self {
        let processes = processes::tree(pid);
        let here = fs::read_link("/proc/thread-self/ns/net").ok();
        let mut networks: Vec<_> = processes.iter().filter_map(|p| p.namespace("net")).collect();
        networks.retain(|network| Some(network) != here.as_ref());
        Self { processes, networks }
    }

    /// Checks that all processes ended and that no process is in those namespaces, so the kernel
    /// has removed them.
    pub(crate) fn assert_gone(&self) {
        let left = processes::wait_until_gone(&self.processes, STOPS_WITHIN);
        assert!(left.is_empty(), "{left:?}");
        let inside = |p: &Process| p.namespace("net").is_some_and(|n| self.networks.contains(&n));
        let mut unseen = processes::all();
        unseen.retain(inside);
        let left = processes::wait_until_gone(&unseen, STOPS_WITHIN);
        assert!(left.is_empty(), "{left:?} is still in one of {:?}", self.networks);
    }
}
