//! Reports to systemd, as `sd_notify(3)` describes: readiness, reloads, the stop, and that the monitor's loop turns.
//!
//! Systemd names a datagram socket in `NOTIFY_SOCKET`. Without it nothing is sent. A report that the socket does not take is
//! sent again in a later turn of the loop, which never waits for it.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tracing::warn;

/// How far Rosemary is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its programs start for the first time.
    Starting,
    /// It serves.
    Ready,
    /// It serves, and applies a changed configuration.
    Reloading,
    /// Its programs end.
    Stopping,
}

/// What systemd is to know.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) stage: Stage,
    /// Whether systemd need not restart Rosemary.
    pub(crate) is_alive: bool,
    /// One line for `systemctl status`.
    pub(crate) text: String,
}

/// The connection to systemd.
#[derive(Debug)]
pub(crate) struct ServiceManager {
    socket: UnixDatagram,
    /// The period of the watchdog: without a report for this time systemd restarts Rosemary.
    watchdog: Option<Duration>,
    /// The last stage that was sent.
    stage: Stage,
    text: String,
    alive_at: Option<Instant>,
    /// Whether the log says that a report could not be sent.
    has_warned: bool,
}

impl ServiceManager {
    /// Connects to the socket that the environment names; `None` if it names none.
    ///
    /// # Errors
    /// The socket cannot be reached, or a variable is invalid.
    pub(crate) fn from_environment() -> io::Result<Option<Self>> {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(None) };
        let number = |name: &str| {
            let Some(text) = std::env::var_os(name) else { return Ok(None) };
            let number = text.to_str().and_then(|text| text.parse::<u64>().ok());
            number.map(Some).ok_or_else(|| io::Error::other(format!("{name} is no number")))
        };
        let is_for_us =
            number("WATCHDOG_PID")?.is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC")?.filter(|us| *us > 0 && is_for_us);
        Self::connect(&name, watchdog.map(Duration::from_micros)).map(Some)
    }

    /// Connects to the socket `name`: a path, or an abstract address that begins with `@`.
    fn connect(name: &OsStr, watchdog: Option<Duration>) -> io::Result<Self> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => return Err(io::Error::other("NOTIFY_SOCKET names no path and no @address")),
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        socket.set_nonblocking(true)?;
        let (stage, text) = (Stage::Starting, String::new());
        Ok(Self { socket, watchdog, stage, text, alive_at: None, has_warned: false })
    }

    /// Sends what has changed since the last report. The loop calls this in each turn, at least twice a second.
    pub(crate) fn update(&mut self, condition: Condition, now: Instant) {
        let Condition { stage, is_alive, text } = condition;
        let stage = match (self.stage, stage) {
            // Systemd waits for readiness once. A restart of the kernel later does not end it.
            (Stage::Ready | Stage::Reloading, Stage::Starting) => Stage::Ready,
            // It knows no reload before.
            (Stage::Starting, Stage::Reloading) => Stage::Starting,
            (_, stage) => stage,
        };
        let mut report = String::new();
        if stage != self.stage {
            report += &assignments(stage);
        }
        if text != self.text {
            let line = text.replace(|c: char| c.is_control(), " ");
            report.extend(["STATUS=", &line, "\n"]);
        }
        let is_due = self
            .watchdog
            .is_some_and(|period| self.alive_at.is_none_or(|at| at + period / 2 <= now));
        let feeds = is_due && is_alive;
        if feeds {
            report += "WATCHDOG=1\n";
        }
        if report.is_empty() {
            return;
        }
        match self.socket.send(report.as_bytes()) {
            Ok(_) => {
                (self.stage, self.text) = (stage, text);
                if feeds {
                    self.alive_at = Some(now);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                if !std::mem::replace(&mut self.has_warned, true) {
                    warn!(%error, "could not report to systemd; it may restart Rosemary");
                }
            }
        }
    }
}

/// What to send when `stage` begins.
fn assignments(stage: Stage) -> String {
    match stage {
        Stage::Starting => String::new(),
        Stage::Ready => "READY=1\n".into(),
        Stage::Reloading => {
            let time = clock_gettime(ClockId::Monotonic);
            let us = time.tv_sec * 1_000_000 + time.tv_nsec / 1_000;
            format!("RELOADING=1\nMONOTONIC_USEC={us}\n")
        }
        Stage::Stopping => "STOPPING=1\n".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(30);

    fn manager() -> (tempfile::TempDir, UnixDatagram, ServiceManager) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let systemd = UnixDatagram::bind(&path).unwrap();
        systemd.set_nonblocking(true).unwrap();
        let manager = ServiceManager::connect(path.as_os_str(), Some(PERIOD)).unwrap();
        (dir, systemd, manager)
    }

    fn condition(stage: Stage, is_alive: bool) -> Condition {
        Condition { stage, is_alive, text: "the kernel runs".into() }
    }

    fn received(systemd: &UnixDatagram) -> Option<String> {
        let mut buffer = [0; 1024];
        let size = systemd.recv(&mut buffer).ok()?;
        Some(String::from_utf8(buffer[..size].to_vec()).unwrap())
    }

    #[test]
    fn each_stage_is_reported_once() {
        let (_dir, systemd, mut manager) = manager();
        let now = Instant::now();
        manager.update(condition(Stage::Reloading, true), now);
        assert_eq!(received(&systemd).unwrap(), "STATUS=the kernel runs\nWATCHDOG=1\n");
        manager.update(condition(Stage::Ready, true), now);
        assert_eq!(received(&systemd).unwrap(), "READY=1\n");
        for stage in [Stage::Ready, Stage::Starting] {
            manager.update(condition(stage, true), now);
            assert_eq!(received(&systemd), None);
        }
        manager.update(condition(Stage::Reloading, true), now);
        assert!(received(&systemd).unwrap().starts_with("RELOADING=1\nMONOTONIC_USEC="));
        manager.update(condition(Stage::Ready, true), now);
        assert_eq!(received(&systemd).unwrap(), "READY=1\n");
        manager.update(condition(Stage::Stopping, true), now);
        assert_eq!(received(&systemd).unwrap(), "STOPPING=1\n");
    }

    #[test]
    fn watchdog_is_fed_each_half_period_only_while_alive() {
        let (_dir, systemd, mut manager) = manager();
        let start = Instant::now();
        let fed: Vec<u64> = (0..60)
            .filter(|second| {
                let is_alive = !(20..50).contains(second);
                manager.update(
                    condition(Stage::Starting, is_alive),
                    start + Duration::from_secs(*second),
                );
                received(&systemd).is_some_and(|report| report.contains("WATCHDOG=1"))
            })
            .collect();
        assert_eq!(fed, [0, 15, 50]);
    }

    #[test]
    fn report_that_was_not_taken_is_sent_again() {
        let (_dir, systemd, mut manager) = manager();
        while manager.socket.send(b"X=1\n").is_ok() {}
        manager.update(condition(Stage::Ready, true), Instant::now());
        while received(&systemd).is_some() {}
        manager.update(condition(Stage::Ready, true), Instant::now());
        assert!(received(&systemd).unwrap().starts_with("READY=1\n"));
    }

    #[test]
    fn a_name_that_is_no_address_is_refused() {
        assert!(ServiceManager::connect(OsStr::new("vsock:2:1234"), None).is_err());
    }

    #[test]
    fn abstract_addresses_work() {
        let name = format!("rosemary-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let systemd = UnixDatagram::bind_addr(&address).unwrap();
        let mut manager = ServiceManager::connect(OsStr::new(&format!("@{name}")), None).unwrap();
        manager.update(condition(Stage::Ready, true), Instant::now());
        assert_eq!(received(&systemd).unwrap(), "READY=1\nSTATUS=the kernel runs\n");
    }
}
