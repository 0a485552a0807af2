//! Runs the real monitor in an installation of its own, with fake programs (`fake.rs`).

use std::fs;
use std::io::PipeReader;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use control::operator::ProgramState;
use control::operator::{OperatorReply, OperatorRequest, Status};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use sys::channel::Channel;

use super::fake;

/// The timeout of all waits, for a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(15);

/// An installation of its own, with a monitor that runs in it.
pub(crate) struct Instance {
    pub(crate) dir: tempfile::TempDir,
    /// The runtime directory, which is separate because the path of a socket must be short.
    pub(crate) run: tempfile::TempDir,
    pub(crate) monitor: Option<Child>,
    /// The configuration, which is empty unless a test writes one.
    pub(crate) config: PathBuf,
    /// The command that executes the monitor.
    pub(crate) command: &'static str,
}

impl Instance {
    pub(crate) fn build() -> Self {
        let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let dir = tempfile::tempdir_in(tmp).unwrap();
        let monitor = env!("CARGO_BIN_EXE_rosemary-monitor");
        for program in ["kernel", "zone", "log", "storage", "broker", "ovsdb"] {
            fake::link(tmp, &dir.path().join(format!("rosemary-{program}")));
        }
        fs::hard_link(monitor, dir.path().join("rosemary-monitor")).unwrap();
        fs::create_dir(dir.path().join("examples")).unwrap();
        fs::write(dir.path().join("examples/liblearning_switch.so"), "an object").unwrap();
        Self {
            dir,
            run: tempfile::tempdir().unwrap(),
            monitor: None,
            config: "/dev/null".into(),
            command: "env",
        }
    }

    /// An installation with this configuration.
    pub(crate) fn build_with(config: &str) -> Self {
        let mut instance = Self::build();
        instance.config = instance.path("rosemary.toml");
        fs::write(&instance.config, config).unwrap();
        instance
    }

    /// Sets the behaviour of a fake program.
    pub(crate) fn set_behaviour(&self, program: &str, how: &str) {
        fs::write(self.path(program).with_extension("behaviour"), how).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn runtime_dir(&self) -> PathBuf {
        self.run.path().join("rosemary")
    }

    pub(crate) fn command(&self, listen: &str) -> Command {
        let mut command = Command::new(self.command);
        command
            .arg(self.path("rosemary-monitor"))
            .args(["--allow-unsigned", "--no-northbound", "--listen", listen, "--runtime-dir"])
            .arg(self.runtime_dir())
            .arg("--config")
            .arg(&self.config)
            .arg("--state-dir")
            .arg(self.path("state"));
        // The only app with a fake object.
        if !fs::read_to_string(&self.config).is_ok_and(|text| text.contains("[[app]]")) {
            command.args(["--app", "learning-switch"]);
        }
        command.env("ROSEMARY_LOG", "debug").stdin(Stdio::null());
        command
    }

    pub(crate) fn start(&mut self) -> &mut Self {
        self.start_at("127.0.0.1:0")
    }

    pub(crate) fn start_at(&mut self, listen: &str) -> &mut Self {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path("log")).unwrap();
        self.monitor = Some(self.command(listen).stderr(log).spawn().unwrap());
        self
    }

    /// Starts the monitor with a log that is not read while the returned reader lives.
    pub(crate) fn start_unread(&mut self) -> PipeReader {
        let (reader, writer) = std::io::pipe().unwrap();
        self.monitor = Some(self.command("127.0.0.1:0").stderr(writer).spawn().unwrap());
        reader
    }

    pub(crate) fn running() -> (Self, Status) {
        let mut instance = Self::build();
        instance.start();
        let status = instance.until_connected(1);
        (instance, status)
    }

    /// Waits until the zone has received rings `times` times in all, and the zone and the kernel run.
    pub(crate) fn until_connected(&self, times: usize) -> Status {
        self.until("connected", || {
            let status = self.status()?;
            let runs = status.apps[0].state == ProgramState::Running;
            (runs && status.kernel.state == ProgramState::Running).then_some(())?;
            (self.received("rosemary-zone", "rings 4") >= times).then_some(status)
        })
    }

    pub(crate) fn until<T>(&self, what: &str, condition: impl Fn() -> Option<T>) -> T {
        let give_up = Instant::now() + LONG;
        loop {
            if let Some(value) = condition() {
                return value;
            }
            assert!(Instant::now() < give_up, "never {what}; the log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub(crate) fn until_logged(&self, text: &str) {
        self.until(text, || self.log().contains(text).then_some(()));
    }

    /// How often a fake program has received `what`.
    pub(crate) fn received(&self, program: &str, what: &str) -> usize {
        let text = fs::read_to_string(self.path(program).with_extension("received"));
        text.unwrap_or_default().lines().filter(|line| *line == what).count()
    }

    pub(crate) fn connect(&self) -> Option<Channel> {
        sys::named::connect_to(&self.runtime_dir().join("admin.sock")).ok()
    }

    pub(crate) fn status(&self) -> Option<Status> {
        let channel = self.connect()?;
        channel.send(&OperatorRequest::Status, &[]).ok()?;
        match receive(&channel)? {
            (OperatorReply::Status(status), _) => Some(status),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.monitor.as_ref().unwrap()), signal).unwrap();
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let monitor = self.monitor.as_mut().unwrap();
        let give_up = Instant::now() + LONG;
        loop {
            if let Some(status) = monitor.try_wait().unwrap() {
                self.monitor = None;
                return status;
            }
            assert!(Instant::now() < give_up, "the monitor did not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(mut monitor) = self.monitor.take() {
            monitor.kill().unwrap();
            monitor.wait().unwrap();
        }
    }
}

pub(crate) fn receive<T: DeserializeOwned>(
    channel: &Channel,
) -> Option<(T, Vec<std::os::fd::OwnedFd>)> {
    let time = Timespec { tv_sec: 10, tv_nsec: 0 };
    poll(&mut [PollFd::new(channel, PollFlags::IN)], Some(&time)).unwrap();
    channel.receive().ok()
}

pub(crate) fn kill(pid: Option<u32>) {
    let pid = Pid::from_raw(pid.unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
}

/// Returns whether the process exists and is not a zombie, which its new parent has not reaped yet.
pub(crate) fn runs(pid: Option<u32>) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.unwrap())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
