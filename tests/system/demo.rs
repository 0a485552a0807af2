//! `rosemary demo`: it shows what it should, and leaves nothing, however it ends.

use std::io::Read as _;
use std::process::{Child, Stdio};
use std::time::Instant;

use anyhow::Context as _;
use cli::lab::Lab;
use rosemary_tests::net::SOON;
use rosemary_tests::traces::Traces;
use rosemary_tests::{in_a_lab, rosemary_binary};
use rustix::process::{Pid, Signal, kill_process};

use crate::stopping::Below;

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
