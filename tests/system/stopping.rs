//! Stopping, gently or not: nothing is left.
//!
//! Promised is 2 s for a stop by signal; the figure is printed, and asserted with a margin.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use cli::lab::processes::{self, Process};
use cli::lab::{Lab, Of, Rosemary};
use rosemary_tests::net::{INTERVAL, SOON};
use rosemary_tests::traces::Traces;
use rosemary_tests::{in_a_lab, rosemary_binary};
use rustix::process::{Pid, Signal, kill_process};

/// The promise is less than half of it.
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
fn monitor_killed_takes_everything_along_and_the_next_one_starts() {
    in_a_lab(|lab| {
        let rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let below = Below::look(rosemary.pid());
        assert!(below.processes.len() >= 3, "monitor, kernel and zone: {below:?}");
        rosemary.stop(Signal::KILL)?;
        below.assert_gone();
        // What SIGKILL had to leave in /run does not keep the next one from starting.
        Rosemary::start(lab, &rosemary_binary(), &[])?;
        Ok(())
    });
}

#[test]
fn demo_over_openflow_1_0_shows_all_it_should() {
    in_a_lab(|lab| demo_shows_all_it_should(lab, "1.0"));
}

#[test]
fn demo_over_openflow_1_3_shows_all_it_should() {
    in_a_lab(|lab| demo_shows_all_it_should(lab, "1.3"));
}

#[test]
fn demo_interrupted_leaves_nothing() {
    in_a_lab(|lab| {
        for (signal, step) in [(Signal::INT, "\n1."), (Signal::TERM, "\n3."), (Signal::INT, "\n4.")]
        {
            let traces = Traces::look();
            let mut demo = Demo::start(lab, "1.3", step)?;
            let below = demo.signal(signal)?;
            let (code, _, error) = demo.end()?;
            assert_eq!(code, Some(1), "{error}");
            assert!(error.contains("interrupted"), "{error}");
            below.assert_gone();
            assert_eq!(traces.new_since(), [""; 0]);
        }
        Ok(())
    });
}

#[test]
fn demo_killed_leaves_no_process_no_namespace_no_interface_and_no_file() {
    in_a_lab(|lab| {
        let traces = Traces::look();
        let mut demo = Demo::start(lab, "1.3", "\n4.")?;
        let below = demo.signal(Signal::KILL)?;
        demo.end()?;
        below.assert_gone();
        assert_eq!(traces.new_since(), [""; 0]);
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
    assert!(left.is_empty(), "when it has ended, all have: {left:?}");
    assert_eq!(traces.new_since(), [""; 0]);
    Ok(())
}

fn demo_shows_all_it_should(lab: &Lab, of: &str) -> anyhow::Result<()> {
    let traces = Traces::look();
    let demo = Demo::start(lab, of, "")?;
    let (code, story, error) = demo.end()?;
    println!("{story}{error}");
    assert_eq!(code, Some(0), "{story}{error}");
    assert!(!story.contains("FAILED") && !story.contains('\x1b'), "{story}");
    assert_eq!(traces.new_since(), [""; 0]);
    Ok(())
}

/// A process and those below it, and the networks they are in.
#[derive(Debug)]
struct Below {
    processes: Vec<Process>,
    networks: Vec<PathBuf>,
}

impl Below {
    fn look(pid: u32) -> Self {
        let processes = processes::tree(pid);
        let here = fs::read_link("/proc/thread-self/ns/net").ok();
        let mut networks: Vec<_> = processes.iter().filter_map(|p| p.namespace("net")).collect();
        networks.retain(|network| Some(network) != here.as_ref());
        Self { processes, networks }
    }

    /// Nobody is left, and nobody in those networks: so the kernel has removed them.
    fn assert_gone(&self) {
        let left = processes::wait_until_gone(&self.processes, STOPS_WITHIN);
        assert!(left.is_empty(), "{left:?}");
        let inside = |p: &Process| p.namespace("net").is_some_and(|n| self.networks.contains(&n));
        let mut unseen = processes::all();
        unseen.retain(inside);
        let left = processes::wait_until_gone(&unseen, STOPS_WITHIN);
        assert!(left.is_empty(), "{left:?} is still in one of {:?}", self.networks);
    }
}

/// A `rosemary demo` in the lab, which makes a lab of its own in there.
struct Demo {
    child: Child,
    story: String,
}

impl Demo {
    /// Starts it and waits until its story has come to `step`.
    fn start(lab: &Lab, of: &str, step: &str) -> anyhow::Result<Self> {
        let mut command = lab.command(rosemary_binary());
        command.args(["demo", "--of", of]).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut demo = Self { child, story: String::new() };
        let start = Instant::now();
        let mut byte = [0];
        while !demo.story.contains(step) {
            anyhow::ensure!(start.elapsed() < SOON * 3, "never came to {step}: {}", demo.story);
            let stdout = demo.child.stdout.as_mut().context("it is piped")?;
            if stdout.read(&mut byte)? == 0 {
                let (_, story, error) = demo.end()?;
                anyhow::bail!("ended before {step}: {story}{error}");
            }
            demo.story.push(char::from(byte[0]));
        }
        Ok(demo)
    }

    /// Sends it a signal; returns what was running below it.
    fn signal(&mut self, signal: Signal) -> anyhow::Result<Below> {
        let below = Below::look(self.child.id());
        kill_process(Pid::from_child(&self.child), signal)?;
        Ok(below)
    }

    /// Waits for its end; its exit code, its story and what it said on standard error.
    fn end(mut self) -> anyhow::Result<(Option<i32>, String, String)> {
        let stdout = self.child.stdout.take();
        let output = self.child.wait_with_output()?;
        let mut story = self.story.into_bytes();
        if let Some(mut stdout) = stdout {
            stdout.read_to_end(&mut story)?;
        }
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok((output.status.code(), String::from_utf8_lossy(&story).into_owned(), error))
    }
}
