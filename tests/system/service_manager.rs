//! What Rosemary reports to systemd: the test listens on the socket that `NOTIFY_SOCKET` names. `make v2` uses a real systemd.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Running};
use rosemary_tests::apps::configure;
use rosemary_tests::developer::rosemary;
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, rosemary_binary};
use rustix::process::Signal;

const SWITCH: &str = "[[app]]\nname = \"learning-switch\"\n";

const FIREWALL: &str = "[[app]]\nname = \"firewall\"\nstage = \"guard\"\nconfig = \"firewall.toml\"\n\
     capabilities = [\"flow.write\", \"stats.read\"]\n";

/// The period of the watchdog.
const WATCHDOG: Duration = Duration::from_secs(2);

/// Takes the place of systemd.
struct Systemd {
    socket: UnixDatagram,
    path: PathBuf,
    /// All lines so far.
    lines: Vec<String>,
}

impl Systemd {
    fn listen(lab: &Lab) -> anyhow::Result<Self> {
        let path = lab.files().join("notify");
        let socket = UnixDatagram::bind(&path)?;
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        Ok(Self { socket, path, lines: Vec::new() })
    }

    fn start(&self, lab: &Lab) -> anyhow::Result<Running> {
        let mut up = lab.command(rosemary_binary());
        up.args(["up", "--allow-unsigned"]).env("NOTIFY_SOCKET", &self.path);
        up.env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
        Ok(lab.start("rosemary", up)?)
    }

    /// Receives until a line after the first `from` lines begins with `start`, or the time is over.
    fn receive(&mut self, start: &str, from: usize, limit: Duration) -> Option<String> {
        let until = Instant::now() + limit;
        loop {
            let found = self.lines.iter().skip(from).find(|line| line.starts_with(start));
            if found.is_some() || until <= Instant::now() {
                return found.cloned();
            }
            let mut buffer = [0; 4096];
            if let Ok(size) = self.socket.recv(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..size]);
                self.lines.extend(text.lines().map(ToOwned::to_owned));
            }
        }
    }

    fn wait_for(&mut self, start: &str, from: usize) -> anyhow::Result<String> {
        let line = self.receive(start, from, SOON);
        line.with_context(|| format!("{start} was not reported: {:?}", self.lines))
    }
}

#[test]
fn start_reload_and_stop_are_reported() {
    in_a_lab(|lab| {
        configure(&[SWITCH])?;
        let mut systemd = Systemd::listen(lab)?;
        let mut up = systemd.start(lab)?;
        systemd.wait_for("READY=1", 0)?;
        // It reports this only when the app runs, so that `status` succeeds.
        rosemary(lab, &["status"])?;
        systemd.wait_for("STATUS=kernel running; 1 of 1 apps running", 0)?;

        let before = systemd.lines.len();
        fs::write(
            "/etc/rosemary/rosemary.toml",
            format!("{SWITCH}capabilities = [\"flow.write\", \"packet-in\"]\n"),
        )?;
        rosemary(lab, &["reload"])?;
        systemd.wait_for("RELOADING=1", before)?;
        systemd.wait_for("MONOTONIC_USEC=", before)?;
        systemd.wait_for("READY=1", before)?;

        let before = systemd.lines.len();
        systemd.wait_for("WATCHDOG=1", before)?;
        up.signal(Signal::TERM);
        systemd.wait_for("STOPPING=1", before)?;
        ensure!(up.wait(SOON).is_some_and(|status| status.success()));
        Ok(())
    });
}

#[test]
fn failed_app_does_not_delay_readiness() {
    in_a_lab(|lab| {
        configure(&[SWITCH, FIREWALL])?;
        fs::write("/etc/rosemary/firewall.toml", "[[deny]]\nto = \"nowhere\"\n")?;
        let mut systemd = Systemd::listen(lab)?;
        let _up = systemd.start(lab)?;
        systemd.wait_for("READY=1", 0)?;
        systemd.wait_for("STATUS=kernel running; 1 of 2 apps running", 0)?;
        Ok(())
    });
}

#[test]
fn stopped_monitor_does_not_feed_the_watchdog() {
    in_a_lab(|lab| {
        configure(&[SWITCH])?;
        let mut systemd = Systemd::listen(lab)?;
        let up = systemd.start(lab)?;
        systemd.wait_for("READY=1", 0)?;
        up.signal(Signal::STOP);
        // Receives the reports from before the signal.
        systemd.receive("never", 0, Duration::from_millis(200));
        let before = systemd.lines.len();
        let fed = systemd.receive("WATCHDOG=1", before, 2 * WATCHDOG);
        up.signal(Signal::CONT);
        ensure!(fed.is_none(), "{:?}", systemd.lines);
        systemd.wait_for("WATCHDOG=1", before)?;
        Ok(())
    });
}
