//! A program running in the lab: its log, its end, and that it has one.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{Lab, LabError};

/// How often a condition that is waited for is looked at.
pub(super) const POLL: Duration = Duration::from_millis(5);

/// A long-running program of the lab, killed when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    name: String,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Running {
    /// Starts `command`; what it writes goes to two files of the lab named after `name`.
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

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to its standard output.
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// What it has written to its standard error.
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        // It is our child and nobody else waits for it, so the only answers are these two.
        self.child.try_wait().ok().flatten()
    }

    /// Says so if it has ended.
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

    /// Sends it a signal; nothing happens if it has ended.
    pub fn signal(&self, signal: Signal) {
        // Not reaped before `self` is gone or `ended` said so: the id is still the child's.
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
        // Both fail only if it has ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A file of the lab as text; a file that has gone is an empty one.
fn read(path: &PathBuf) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// The last `n` lines of `text`.
pub(super) fn last_lines(text: &str, n: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(n)..].join("\n")
}
