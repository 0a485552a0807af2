//! Tests `rosemary demo`: it passes, and leaves nothing behind, however it ends.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::Context as _;
use cli::lab::Lab;
use rosemary_tests::net::SOON;
use rosemary_tests::traces::Traces;
use rosemary_tests::{in_a_lab, programs_for_all, rosemary_binary};
use rustix::process::{Pid, Signal, kill_process};

use crate::stopping::Below;

#[test]
fn demo_passes_over_openflow_1_0() {
    in_a_lab(|lab| demo_passes(lab, "1.0"));
}

#[test]
fn demo_passes_over_openflow_1_3() {
    in_a_lab(|lab| demo_passes(lab, "1.3"));
}

#[test]
fn interrupted_demo_leaves_nothing() {
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
fn killed_demo_leaves_nothing() {
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

#[test]
fn kept_demo_of_ordinary_user_can_be_inspected() {
    in_a_lab(|lab| demo_is_kept(lab, true, Demo::press_enter));
}

#[test]
fn kept_demo_ends_on_a_signal() {
    in_a_lab(|lab| demo_is_kept(lab, false, |demo| demo.signal(Signal::INT).map(drop)));
}

/// Runs a kept demo as root or an ordinary user, inspects it with the printed commands, and ends it
/// with `end`.
fn demo_is_kept(
    lab: &Lab,
    ordinary: bool,
    end: impl FnOnce(&mut Demo) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut command =
        if ordinary { as_ordinary_user(lab)? } else { lab.command(rosemary_binary()) };
    let traces = Traces::look();
    command.args(["demo", "--keep"]);
    let mut demo = Demo::spawn(command, "ping -c 3 10.0.0.2\n")?;
    let below = Below::look(demo.child.id());
    let lines: Vec<String> = demo.story.lines().map(ToOwned::to_owned).collect();
    let paste: Vec<_> = lines.iter().filter(|line| line.starts_with("nsenter ")).collect();
    assert_eq!(paste.len(), 4, "{}", demo.story);
    let seen = ["app forwarding", "STAGE", "actions=output", "3 received"];
    for (line, seen) in paste.into_iter().zip(seen) {
        let mut shell = if ordinary { ordinary_user(lab) } else { lab.command("env") };
        let output = shell.args(["sh", "-c", line]).stdin(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("$ {line}\n{text}");
        assert!(text.contains(seen), "{line}: {text}{}", String::from_utf8_lossy(&output.stderr));
    }
    end(&mut demo)?;
    let (code, story, error) = demo.end()?;
    assert_eq!(code, Some(0), "{story}{error}");
    assert!(!story.contains("FAILED"), "{story}");
    assert_eq!(ordinary, story.contains("As you are not root"), "{story}");
    below.assert_gone();
    assert_eq!(traces.new_since(), [""; 0]);
    Ok(())
}

/// Returns `rosemary` as an unprivileged user.
fn as_ordinary_user(lab: &Lab) -> anyhow::Result<Command> {
    let programs = programs_for_all()?;
    let mut command = ordinary_user(lab);
    // It does not die with this thread, because it changes its user.
    command
        .args(["timeout", "--foreground", "--kill-after=1", "60"])
        .arg(programs.join("rosemary"));
    Ok(command)
}

fn ordinary_user(lab: &Lab) -> Command {
    let mut command = lab.command("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command
}

fn demo_passes(lab: &Lab, of: &str) -> anyhow::Result<()> {
    let traces = Traces::look();
    let demo = Demo::start(lab, of, "")?;
    let (code, story, error) = demo.end()?;
    println!("{story}{error}");
    assert_eq!(code, Some(0), "{story}{error}");
    assert!(!story.contains("FAILED") && !story.contains('\x1b'), "{story}");
    assert_eq!(traces.new_since(), [""; 0]);
    Ok(())
}

/// A `rosemary demo` in the lab, which creates a nested lab.
struct Demo {
    child: Child,
    story: String,
}

impl Demo {
    /// Starts it and waits until its output contains `step`.
    fn start(lab: &Lab, of: &str, step: &str) -> anyhow::Result<Self> {
        let mut command = lab.command(rosemary_binary());
        command.args(["demo", "--of", of]);
        Self::spawn(command, step)
    }

    fn spawn(mut command: Command, step: &str) -> anyhow::Result<Self> {
        let child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
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

    fn press_enter(&mut self) -> anyhow::Result<()> {
        Ok(self.child.stdin.as_mut().context("it is piped")?.write_all(b"\n")?)
    }

    /// Sends it a signal; returns its descendants at that time.
    fn signal(&mut self, signal: Signal) -> anyhow::Result<Below> {
        let below = Below::look(self.child.id());
        kill_process(Pid::from_child(&self.child), signal)?;
        Ok(below)
    }

    /// Waits for its end; returns exit code, standard output and standard error.
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
