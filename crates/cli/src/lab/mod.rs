//! A miniature network with real switches and hosts and with Rosemary on its default paths and
//! ports. Nothing of it remains on the machine.
//!
//! ```text
//!  a thread, in a network and a mount namespace of its own (/run is empty in there)
//!  |
//!  |-- ovsdb-server, ovs-vswitchd   Open vSwitch in user space; bridges s1, s2, ...
//!  |-- rosemary up                  127.0.0.1:6653 and /run/rosemary, as on any machine
//!  `-- ping, tcpdump                each in the network namespace of a host
//!
//!   h1 (10.0.0.1) ----veth---- port 1 \
//!   h2 (10.0.0.2) ----veth---- port 2 -- s1
//!   h3 (10.0.0.3) ----veth---- port 3 /
//! ```
//!
//! Two rules keep the machine clean. Everything that the lab creates is a process, a file in its
//! own directories (`/run`, `/etc/rosemary`, `/var/lib/rosemary`), or an interface, all inside the
//! namespaces. And every process dies with the thread that entered. When that thread ends, for
//! whatever reason, the kernel removes everything.
//!
//! `rosemary demo` and the system tests use it.

mod child;
mod error;
mod host;
mod ovs;
mod ping;
pub mod processes;
mod programs;
mod rosemary;
mod user;

use std::cell::{Cell, OnceCell};
use std::env;
use std::fs;
use std::marker::PhantomData;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use child::Running;
pub use error::{Evidence, LabError};
pub use host::{Host, Watch};
pub use ovs::{Of, Switch, database, ovs_name};
pub use ping::{PingReport, Pinging, Reply};
pub use programs::require;
pub use rosemary::{Rosemary, Stopped};
pub use user::become_root;

use ovs::OpenVSwitch;

/// Default directories of Rosemary and Open vSwitch, which the lab covers with empty ones, whether
/// or not the machine has them.
const COVERED: [&str; 3] = ["/run", "/var/lib/rosemary", "/etc/rosemary"];

/// Returns the covered directory that contains `path` and hides it in the lab.
pub fn covering(path: &Path) -> Option<&'static Path> {
    COVERED.iter().map(Path::new).find(|covered| path.starts_with(covered))
}

/// The lab's own files, below a covered directory.
const FILES: &str = "/run/lab";

/// Set by a signal handler or another thread to end all waits in a lab.
pub type Interrupt = Arc<AtomicBool>;

/// A miniature network, entered by the calling thread.
///
/// It cannot be sent to another thread: its namespaces belong to the thread that entered, and its
/// processes die with that thread. A thread cannot leave a lab.
#[derive(Debug)]
pub struct Lab {
    ovs: OnceCell<OpenVSwitch>,
    switches: Cell<u16>,
    hosts: Cell<u8>,
    files: Cell<u32>,
    interrupt: Interrupt,
    stays_on_its_thread: PhantomData<*const ()>,
}

impl Lab {
    /// Moves the calling thread into a new lab that contains only `lo`.
    ///
    /// # Errors
    /// [`LabError::NotRoot`] (see [`become_root`]), [`LabError::Missing`], [`LabError::Namespace`].
    pub fn enter() -> Result<Self, LabError> {
        Self::enter_until(Interrupt::default())
    }

    /// Like [`Lab::enter`]; once `interrupt` is true, every wait ends with
    /// [`LabError::Interrupted`].
    ///
    /// # Errors
    /// Like [`Lab::enter`].
    pub fn enter_until(interrupt: Interrupt) -> Result<Self, LabError> {
        if !sys::process::is_root() {
            return Err(LabError::NotRoot { command: this_command() });
        }
        programs::check()?;
        sys::namespace::enter_private(&COVERED.map(Path::new)).map_err(user::enter_error)?;
        fs::create_dir_all(FILES).map_err(LabError::io(format!("make {FILES}")))?;
        let lab = Self {
            ovs: OnceCell::new(),
            switches: Cell::new(0),
            hosts: Cell::new(0),
            files: Cell::new(0),
            interrupt,
            stays_on_its_thread: PhantomData,
        };
        lab.run("ip", &["link", "set", "lo", "up"])?;
        Ok(lab)
    }

    /// Adds a switch that speaks `of` and connects to a controller on `127.0.0.1:6653`. Datapath
    /// ids count from 1.
    ///
    /// # Errors
    /// Open vSwitch failed.
    pub fn switch(&self, name: &str, of: Of) -> Result<Switch<'_>, LabError> {
        let switch = self.switch_without_controller(name, of)?;
        switch.connect()?;
        Ok(switch)
    }

    /// Like [`Lab::switch`], without a controller until [`Switch::connect`].
    ///
    /// # Errors
    /// Open vSwitch failed.
    pub fn switch_without_controller(&self, name: &str, of: Of) -> Result<Switch<'_>, LabError> {
        self.start_open_vswitch()?;
        self.switches.set(self.switches.get() + 1);
        Switch::add(self, name, of, self.switches.get())
    }

    /// Starts Open vSwitch unless it runs, for programs that add switches themselves.
    ///
    /// # Errors
    /// Open vSwitch failed.
    pub fn start_open_vswitch(&self) -> Result<(), LabError> {
        if self.ovs.get().is_none() {
            let started = OpenVSwitch::start(self)?;
            self.ovs.get_or_init(|| started);
        }
        Ok(())
    }

    /// Adds a host on the next port of `switch`. Addresses count from `10.0.0.1`.
    ///
    /// # Errors
    /// `ip` or Open vSwitch failed.
    pub fn host<'lab>(
        &'lab self,
        name: &str,
        switch: &Switch<'lab>,
    ) -> Result<Host<'lab>, LabError> {
        self.hosts.set(self.hosts.get() + 1);
        Host::add(self, name, switch, self.hosts.get())
    }

    /// Creates a command that runs in the lab, uses the lab's Open vSwitch and dies with this
    /// thread.
    ///
    /// It has its own process group, so that Ctrl-C reaches only this process, which then stops
    /// things in order.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("LC_ALL", "C").env("TMPDIR", FILES).process_group(0);
        for variable in ovs::DIRECTORIES {
            command.env(variable, FILES);
        }
        for variable in ["ROSEMARY_CONFIG", "ROSEMARY_STATE_DIR", "ROSEMARY_RUNTIME_DIR"] {
            command.env_remove(variable); // they refer to the machine's Open vSwitch
        }
        sys::process::die_with_parent(&mut command);
        command
    }

    /// Runs a short command of the lab and returns its output.
    ///
    /// # Errors
    /// [`LabError::Command`] if it fails.
    pub fn run(&self, program: &str, args: &[&str]) -> Result<String, LabError> {
        let mut command = self.command(program);
        command.args(args).stdin(Stdio::null());
        let output = command.output().map_err(LabError::io(format!("start {program}")))?;
        if !output.status.success() {
            return Err(LabError::Command {
                command: [&[program], args].concat().join(" "),
                status: output.status,
                stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Starts a program that runs until the returned value is dropped.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&self, name: &str, command: Command) -> Result<Running, LabError> {
        Running::start(self, name, command)
    }

    /// Polls `look` until it returns a value.
    ///
    /// # Errors
    /// [`LabError::TooLate`] after `limit`, with the last evidence from `look`;
    /// [`LabError::Interrupted`]; or the error of `look`.
    pub fn wait_for<T>(
        &self,
        what: impl Into<String>,
        limit: Duration,
        mut look: impl FnMut(&mut Evidence) -> Result<Option<T>, LabError>,
    ) -> Result<T, LabError> {
        let start = Instant::now();
        let mut evidence = Evidence::default();
        loop {
            self.check_interrupt()?;
            if let Some(answer) = look(&mut evidence)? {
                return Ok(answer);
            }
            if start.elapsed() >= limit {
                return Err(LabError::TooLate { what: what.into(), limit, evidence });
            }
            thread::sleep(child::POLL);
        }
    }

    /// Sleeps, unless interrupted.
    ///
    /// # Errors
    /// [`LabError::Interrupted`].
    pub fn pause(&self, time: Duration) -> Result<(), LabError> {
        let start = Instant::now();
        while start.elapsed() < time {
            self.check_interrupt()?;
            thread::sleep(child::POLL);
        }
        self.check_interrupt()
    }

    /// Checks the interrupt flag.
    ///
    /// # Errors
    /// [`LabError::Interrupted`] if the operator interrupted the lab.
    pub fn check_interrupt(&self) -> Result<(), LabError> {
        if self.interrupt.load(Ordering::Relaxed) { Err(LabError::Interrupted) } else { Ok(()) }
    }

    /// Returns the version of Open vSwitch (such as `3.1.0`); empty before the first switch.
    pub fn open_vswitch_version(&self) -> &str {
        self.ovs.get().map_or("", OpenVSwitch::version)
    }

    /// Returns the directory of the lab's files, which vanish with the lab.
    pub fn files(&self) -> &Path {
        Path::new(FILES)
    }

    /// Returns a path for a new file of the lab.
    fn new_file(&self, name: &str) -> PathBuf {
        self.files.set(self.files.get() + 1);
        self.files().join(format!("{:03}-{name}", self.files.get()))
    }
}

/// Returns the command line of this process, quoted for a shell.
fn this_command() -> String {
    let program = env::current_exe().map_or("rosemary".into(), |path| path.display().to_string());
    env::args().skip(1).fold(program, |line, arg| line + " " + &arg)
}
