//! Runs programs in the lab, captures their output and ends them.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{Lab, LabError};

/// Polling interval of waits.
pub(super) const POLL: Duration = Duration::from_millis(5);

/// A long-running program of the lab; dropping it kills the program.
#[derive(Debug)]
pub struct Running {
    child: Child,
    name: String,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Running {
    /// Starts `command` with its output in two files of the lab named after `name`.
    pub(super) fn start(lab: &Lab, name: &str, mut command: Command) -> Result<Self, LabError> {
        let [stdout, stderr] = ["out", "err"].map(|kind| lab.new_file(&format!("{name}.{kind}")));
        let create = |path: &PathBuf| {
            File::create(path).map_err(LabError::io(format!("write {}", path.display())))
        };
        let child = command
            .stdin(Stdio::null())
            .stdout(create(&stdout)?)
            .stderr(create(&stderr)?)
            .spawn()
            .map_err(LabError::io(format!("start {}", command.get_program().display())))?;
        Ok(Self { child, name: name.to_owned(), stdout, stderr })
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its standard output so far.
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// Returns its standard error so far.
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    /// Returns its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        // Only this value waits for the child, so waiting cannot fail.
        self.child.try_wait().ok().flatten()
    }

    /// Checks that it still runs.
    ///
    /// # Errors
    /// [`LabError::Ended`] with the end of its log.
    pub fn must_run(&mut self) -> Result<(), LabError> {
        match self.ended() {
            None => Ok(()),
            Some(status) => {
                let log = last_lines(&self.stderr(), 12);
                Err(LabError::Ended { name: self.name.clone(), status, log })
            }
        }
    }

    /// Sends it a signal; does nothing if it has ended.
    pub fn signal(&self, signal: Signal) {
        // The child is reaped only by `ended` or on drop, so the id is still the child's.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Waits until it ends; `None` if it still runs after `limit`.
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        let start = Instant::now();
        loop {
            let status = self.ended();
            if status.is_some() || start.elapsed() >= limit {
                return status;
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a file of the lab; a missing file is empty.
fn read(path: &PathBuf) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Returns the last `n` lines of `text`.
pub(super) fn last_lines(text: &str, n: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(n)..].join("\n")
}
