//! Runs the real Rosemary binary in the lab: starts, queries and stops it as an operator would.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use control::operator::ProgramState;
use rustix::process::Signal;

use control::query::SwitchStatus;

use super::{Lab, LabError, Running, Switch, child};
use crate::status::Report;

/// How long a start may take. On a machine that is not busy it takes less than a second.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// Result of [`Rosemary::stop`].
#[derive(Debug, Clone, Copy)]
pub struct Stopped {
    /// Exit status of `rosemary up`.
    pub status: ExitStatus,
    /// Time from the signal to the exit.
    pub took: Duration,
}

/// A running `rosemary up` in the lab; dropping it kills it.
#[derive(Debug)]
pub struct Rosemary<'lab> {
    lab: &'lab Lab,
    up: Running,
    binary: PathBuf,
}

impl<'lab> Rosemary<'lab> {
    /// Starts `binary up --allow-unsigned ARGS...`, because the apps of most tests are not signed.
    /// Waits until it answers and all its programs run, in safe mode all but the apps.
    ///
    /// The learning switch runs unless `args` or the configuration names apps: one program, and no probes of its own.
    ///
    /// # Errors
    /// [`LabError::Ended`] with the end of its log if it ends.
    pub fn start(lab: &'lab Lab, binary: &Path, args: &[&str]) -> Result<Self, LabError> {
        let config = fs::read_to_string(config::SYSTEM_CONFIG).unwrap_or_default();
        let names_apps = config.contains("[[app]]")
            || args.iter().any(|arg| ["--app", "--config"].contains(arg));
        let app: &[&str] = if names_apps { &[] } else { &["--app", "learning-switch"] };
        Self::start_with(lab, binary, &[&["--allow-unsigned"], args, app].concat())
    }

    /// Starts `binary up ARGS...` and waits until it answers and all its programs run, in safe mode all but the apps.
    ///
    /// # Errors
    /// Like [`start`](Self::start).
    pub fn start_with(lab: &'lab Lab, binary: &Path, args: &[&str]) -> Result<Self, LabError> {
        Self::start_by(lab, binary, &[&["up"], args].concat())
    }

    /// Starts `binary COMMAND...`, which runs Rosemary, and waits as [`start_with`](Self::start_with) does.
    ///
    /// # Errors
    /// Like [`start`](Self::start).
    pub fn start_by(lab: &'lab Lab, binary: &Path, command: &[&str]) -> Result<Self, LabError> {
        let mut up = lab.command(binary);
        up.args(command);
        let up = lab.start("rosemary", up)?;
        let mut rosemary = Self { lab, up, binary: binary.to_owned() };
        rosemary.wait_for("Rosemary is up", STARTS_WITHIN, |status| {
            let services = &status.programs.services;
            let apps = &status.programs.apps;
            // In safe mode apps follow one at a time, or not at all.
            let running = status.programs.kernel.state == ProgramState::Running
                && services.iter().all(|service| service.state == ProgramState::Running)
                && (status.programs.safe_mode.is_some()
                    || apps.iter().all(|app| {
                        // An app whose files cannot be used is held from the start.
                        app.state == ProgramState::Running || app.origin == "unknown"
                    }));
            running.then_some(())
        })?;
        Ok(rosemary)
    }

    /// Returns the process id of `rosemary up`.
    pub fn pid(&self) -> u32 {
        self.up.pid()
    }

    /// Checks that it still runs.
    ///
    /// # Errors
    /// [`LabError::Ended`] with the end of its log.
    pub fn must_run(&mut self) -> Result<(), LabError> {
        self.up.must_run()
    }

    /// Returns its log so far.
    pub fn log(&self) -> String {
        self.up.stderr()
    }

    /// Queries its status; `None` if it does not answer with one.
    ///
    /// # Errors
    /// [`LabError::Output`] if the answer is not valid JSON.
    pub fn status(&self) -> Result<Option<Report>, LabError> {
        let mut command = self.lab.command(&self.binary);
        command.args(["status", "--json"]).stdin(Stdio::null());
        let output = command.output().map_err(LabError::io("start rosemary status"))?;
        if !matches!(output.status.code(), Some(0 | 3)) {
            return Ok(None); // 3: it answered, and is degraded
        }
        let status = serde_json::from_slice(&output.stdout).map_err(|error| LabError::Output {
            program: "rosemary status --json",
            reason: error.to_string(),
            output: String::from_utf8_lossy(&output.stdout).into_owned(),
        })?;
        Ok(Some(status))
    }

    /// Polls its status until `look` returns a value.
    ///
    /// # Errors
    /// [`LabError::TooLate`] with the end of its log; [`LabError::Ended`].
    pub fn wait_for<T>(
        &mut self,
        what: &str,
        limit: Duration,
        mut look: impl FnMut(&Report) -> Option<T>,
    ) -> Result<T, LabError> {
        self.lab.wait_for(what, limit, |evidence| {
            self.up.must_run()?;
            let status = self.status()?;
            let state = match &status {
                Some(status) if status.health.reasons.is_empty() => "it is healthy".to_owned(),
                Some(status) => status.health.reasons.join("\n"),
                None => "it does not answer".to_owned(),
            };
            let log = child::last_lines(&self.up.stderr(), 12);
            evidence.0 = format!("{state}\nthe end of its log:\n{log}");
            Ok(status.as_ref().and_then(&mut look))
        })
    }

    /// Waits until `switch` is connected; returns its status.
    ///
    /// # Errors
    /// Like [`Rosemary::wait_for`].
    pub fn wait_for_switch(&mut self, switch: &Switch<'_>) -> Result<SwitchStatus, LabError> {
        let dpid = switch.dpid();
        // Open vSwitch reconnects after one second; the rest is slack for a busy machine.
        self.wait_for(&format!("{} connects", switch.name()), Duration::from_secs(15), |status| {
            status.switch(&dpid).cloned()
        })
    }

    /// Waits for a log line that contains all `words`.
    ///
    /// # Errors
    /// [`LabError::TooLate`] with the end of the log.
    pub fn wait_for_log(&mut self, words: &[&str], limit: Duration) -> Result<String, LabError> {
        let what = format!("a line with {} is logged", words.join(", "));
        self.lab.wait_for(what, limit, |evidence| {
            let log = self.up.stderr();
            let line = log.lines().find(|line| words.iter().all(|word| line.contains(word)));
            let line = line.map(ToOwned::to_owned);
            evidence.0 = child::last_lines(&log, 12);
            Ok(line)
        })
    }

    /// Sends it `signal` and waits until it has ended.
    ///
    /// # Errors
    /// [`LabError::TooLate`] with the end of its log; it is then killed.
    pub fn stop(mut self, signal: Signal) -> Result<Stopped, LabError> {
        let start = Instant::now();
        self.up.signal(signal);
        // Not the lab's `wait_for`: an interrupted lab must still stop in order.
        let limit = Duration::from_secs(10);
        let status = self.up.wait(limit).ok_or_else(|| LabError::TooLate {
            what: "Rosemary stops".to_owned(),
            limit,
            evidence: super::Evidence(child::last_lines(&self.up.stderr(), 12)),
        })?;
        Ok(Stopped { status, took: start.elapsed() })
    }
}

impl Drop for Rosemary<'_> {
    fn drop(&mut self) {
        // Gracefully first, because it knows its own programs; `Running` kills what is left.
        self.up.signal(Signal::TERM);
        self.up.wait(Duration::from_secs(3));
    }
}
