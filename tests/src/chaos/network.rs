//! The network that suffers the faults: a switch with three hosts, the firewall, the app that forwards and an app that
//! misbehaves on demand.
//!
//! The firewall denies packets from `h1` to `h2`. `h1` and `h3` ping each other all the time on established flows.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use cli::lab::{Lab, Of, Rosemary, Watch};
use cli::status::Report;
use control::incident::{Cause, Incident};
use rustix::process::{Pid, Signal, kill_process};

use super::fault::{FIREWALL, Fault, Forwarder, Program, UPGRADED};
use super::observation::{Resources, is_idle, lasting_flows, programs};
use crate::apps::in_c;
use crate::developer::{Developer, Quality, rosemary};
use crate::net::{INTERVAL, Net, SOON};
use crate::rosemary_binary;

/// The state directory, on a small disk of its own.
const STATE: &str = "/var/lib/rosemary";

/// Size of that disk.
const DISK: &str = "size=64m";

/// The library that shifts the clock of the programs that it is loaded into.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// An address behind which no host is, so that each packet to it reaches the apps.
const NOBODY: &str = "10.0.0.99";

/// The configuration.
const CONFIG: &str = "/etc/rosemary/rosemary.toml";

/// The packets that the firewall denies, in the notation of `ovs-ofctl`.
const DENIED: &str = "ip,nw_src=10.0.0.1,nw_dst=10.0.0.2";

/// A UDP port that no app cares about.
const NO_HARM: u16 = 7000;

/// Time after which a fault without an effect is injected again.
const INSIST: Duration = Duration::from_secs(1);

/// A running network.
pub(super) struct Network<'lab> {
    lab: &'lab Lab,
    net: Net<'lab>,
    denied: Watch<'lab>,
    binary: PathBuf,
    config: String,
    versions: Versions,
    limit: Duration,
    start: Start,
    /// The controller's address in two forms, the present one first. With the other one the switch connects again.
    addresses: [&'static str; 2],
}

/// The packages of the app that is upgraded.
struct Versions {
    /// Two that work, with their version.
    good: [(&'static str, String); 2],
    unfit: String,
    crashing: String,
}

impl Versions {
    /// Makes the packages and installs the first one.
    fn make(lab: &Lab, developer: &Developer) -> anyhow::Result<Self> {
        developer.package(lab, UPGRADED, "")?;
        let make = |version, quality| developer.version(lab, version, quality);
        let [first, second] = ["0.1.0", "0.2.0"];
        let versions = Self {
            good: [(first, make(first, Quality::Good)?), (second, make(second, Quality::Good)?)],
            unfit: make("0.3.0", Quality::Unfit)?,
            crashing: make("0.4.0", Quality::Crashing)?,
        };
        rosemary(lab, &["app", "install", &versions.good[0].1])?;
        Ok(versions)
    }

    /// The working version that does not run before the fault.
    fn other(&self, before: &Report) -> &(&'static str, String) {
        let [first, second] = &self.good;
        if version(before) == Some(first.0) { second } else { first }
    }
}

/// The state of the undisturbed network.
struct Start {
    flows: Vec<String>,
    monitor: Resources,
    kernel: Resources,
}

impl<'lab> Network<'lab> {
    /// Builds the network and waits until it works. `limit` bounds the duration of a step.
    ///
    /// # Errors
    /// A step failed.
    pub(super) fn start(
        lab: &'lab Lab,
        (forwarder, of): (Forwarder, Of),
        limit: Duration,
    ) -> anyhow::Result<Self> {
        lab.run("mount", &["-t", "tmpfs", "-o", DISK, "chaos", STATE])?;
        let keys = "stage = \"observe\"\nhang-seconds = 1\nservices = [\"storage\", \"broker\"]\n\
                    capabilities = [\"net.connect:127.0.0.1:9\"]\n\
                    [app.limits]\nmemory = \"64 MiB\"";
        let moody = in_c(lab, "moody", "apps/moody.c", keys)?;
        let rules = "[supervision]\nrestarts = 100000\nhang-seconds = 2\nfailed-services = 3\nfailed-services-seconds = 1\n\
                     [safe-mode]\nkernel-restarts = 100000\n";
        let apps = "[[app]]\nname = \"firewall\"\nstage = \"guard\"\nconfig = \"firewall.toml\"\n\
                    capabilities = [\"flow.write\", \"stats.read\"]\nhang-seconds = 1\n";
        let forwards = forwarder.names().iter();
        let forwards: Vec<_> = forwards
            .map(|name| format!("[[app]]\nname = \"{name}\"\nhang-seconds = 1\n"))
            .collect();
        let forwards = forwards.concat();
        let developer = Developer::new(lab, "joe")?;
        let upgraded = format!("[[app]]\nname = \"{UPGRADED}\"\n");
        let config = [rules, &developer.trust(""), apps, &forwards, &moody, &upgraded].concat();
        fs::write(CONFIG, &config)?;
        let versions = Versions::make(lab, &developer)?;
        fs::write(
            "/etc/rosemary/firewall.toml",
            "[[deny]]\nfrom = \"10.0.0.1\"\nto = \"10.0.0.2\"\n",
        )?;
        let binary = with_a_clock(lab)?;
        let net = Net::of(lab, of, Rosemary::start(lab, &binary, &[])?)?;
        for (one, other) in [(&net.h1, &net.h2), (&net.h1, &net.h3), (&net.h3, &net.h1)] {
            one.knows(other)?;
        }
        net.h1.run(
            "ip",
            &["neighbour", "replace", NOBODY, "lladdr", "02:00:00:00:00:99", "dev", "eth0"],
        )?;
        let denied = net.h2.watch()?;
        let nothing = Resources::of(std::process::id())?;
        let start = Start { flows: Vec::new(), monitor: nothing, kernel: nothing };
        let addresses = ["tcp:127.0.0.1:6653", "tcp:127.0.0.1"];
        let mut network =
            Self { lab, net, denied, binary, config, versions, limit, start, addresses };
        network.note_start()?;
        Ok(network)
    }

    /// Notes the state of the undisturbed network.
    fn note_start(&mut self) -> anyhow::Result<()> {
        self.lab.wait_for("the firewall's flows are in the switch", SOON, |_| {
            let flows = lasting_flows(&self.net.s1).unwrap_or_default();
            Ok(flows.iter().any(|flow| flow.ends_with("actions=drop")).then_some(()))
        })?;
        self.lab.wait_for("the hosts reach each other", SOON, |_| {
            Ok(self
                .net
                .h1
                .ping(&self.net.h3, 3, INTERVAL)
                .is_ok_and(|it| it.lost() == 0)
                .then_some(()))
        })?;
        // Open vSwitch may send packets to the controller for a moment after their flow is there, and the flow is added again.
        self.lab.wait_for("the flows of pings are not added again", SOON, |_| {
            self.net.h1.ping(&self.net.h3, 1, INTERVAL)?;
            let ages = self.ages_of_established_flows().unwrap_or_default();
            let is_old = |(age, _): &(Duration, String)| *age >= Duration::from_secs(1);
            Ok((!ages.is_empty() && ages.iter().all(is_old)).then_some(()))
        })?;
        let status = self.net.status()?;
        let kernel = status.programs.kernel.pid.context("the kernel does not run")?;
        self.start = Start {
            flows: lasting_flows(&self.net.s1)?,
            monitor: Resources::of(status.programs.monitor.pid)?,
            kernel: Resources::of(kernel)?,
        };
        Ok(())
    }

    /// Injects a fault and checks the invariants; returns what was observed.
    ///
    /// # Errors
    /// An invariant does not hold.
    pub(super) fn suffer(&mut self, fault: Fault) -> anyhow::Result<String> {
        let began = Instant::now();
        let before = self.net.status()?;
        let newest = self.incidents()?.iter().map(|incident| incident.id.0).max().unwrap_or(0);
        let mut established = self.net.h1.ping_in_background(&self.net.h3, 40, INTERVAL)?;
        let denied = self.net.h1.ping_in_background(&self.net.h2, 40, INTERVAL)?;
        established.wait_for(2, SOON)?;
        self.inject(fault, &before)?;
        let (after, took) = self.recovered(fault, &before)?;
        right_blame(fault, &before, &after)?;
        self.right_incident(fault, newest)?;
        let established = established.finish()?;
        ensure!(
            established.lost() == 0,
            "{} of {} established pings were lost",
            established.lost(),
            established.sent
        );
        let denied = denied.finish()?;
        let passed = self.denied.seen(&["10.0.0.1 > 10.0.0.2"]);
        ensure!(denied.received == 0 && passed.is_empty(), "denied packets passed: {passed:?}");
        self.hosts_reach_each_other()?;
        self.flows_are_as_before()?;
        self.established_flows_were_kept(began)?;
        self.resources_are_back(&after)?;
        ensure!(began.elapsed() <= self.limit, "the step took {:?}", began.elapsed());
        Ok(format!("recovered within {} ms", took.as_millis()))
    }

    fn inject(&mut self, fault: Fault, before: &Report) -> anyhow::Result<()> {
        match fault {
            Fault::Kill(program, signal) => send(before, program, signal),
            Fault::Stop(program) => send(before, program, Signal::STOP),
            Fault::Misbehave(harm) => self.packet_in(harm as u16),
            Fault::Disconnect => {
                self.addresses.reverse();
                Ok(self.net.s1.connect_to(self.addresses[0])?)
            }
            Fault::Unguard => {
                send(before, FIREWALL, Signal::STOP)?;
                Ok(self.net.s1.ofctl(&["del-flows", DENIED]).map(drop)?)
            }
            Fault::FullDisk(program) => {
                fill(&Path::new(STATE).join("chaos-filler"))?;
                send(before, program, Signal::KILL)
            }
            Fault::Upgrade(quality) => self.upgrade(quality, before),
            Fault::Reload => self.reload(),
            Fault::ClockJump(seconds) => Ok(fs::write(clock(self.lab), format!("{seconds:+}s\n"))?),
        }
    }

    /// Upgrades the app. A version that is good or crashing starts, and a packet then makes the latter crash.
    fn upgrade(&self, quality: Quality, before: &Report) -> anyhow::Result<()> {
        let package = match quality {
            Quality::Good => &self.versions.other(before).1,
            Quality::Unfit => &self.versions.unfit,
            Quality::Crashing => &self.versions.crashing,
        };
        let binary = self.binary.display().to_string();
        let upgraded = self.lab.run(&binary, &["app", "upgrade", "--yes", package]);
        if quality == Quality::Unfit {
            ensure!(upgraded.is_err(), "an unfit version was accepted");
            return Ok(());
        }
        upgraded?;
        if quality == Quality::Crashing { self.packet_in(NO_HARM) } else { Ok(()) }
    }

    /// Whether the app has the version that it must have after this fault: a failed upgrade changes nothing.
    fn has_the_right_version(&self, fault: Fault, before: &Report, status: &Report) -> bool {
        let expected = match fault {
            Fault::Upgrade(Quality::Good) => Some(self.versions.other(before).0),
            _ => version(before),
        };
        version(status) == expected
    }

    /// Reloads the configuration with a mistake, then with another app, then as it was.
    fn reload(&self) -> anyhow::Result<()> {
        let rosemary = self.binary.display().to_string();
        let reload = |more: &str| {
            fs::write(CONFIG, [&*self.config, more].concat())?;
            anyhow::Ok(self.lab.run(&rosemary, &["reload"]))
        };
        ensure!(reload("[[app]]\nnome = \"stats\"\n")?.is_err(), "a mistake was accepted");
        reload("[[app]]\nname = \"stats\"\nstage = \"observe\"\n")??;
        reload("")??;
        Ok(())
    }

    /// Injects a fault again that had no effect yet.
    fn insist(&self, fault: Fault, status: &Report, victim_is_idle: bool) -> anyhow::Result<()> {
        match fault {
            // Rust's runtime catches the first SIGSEGV and restores the default action.
            Fault::Kill(program, Signal::SEGV) => send(status, program, Signal::SEGV),
            // A version that crashes on packets runs without them.
            Fault::Upgrade(Quality::Crashing) => self.packet_in(NO_HARM),
            // The packet can be lost while the switch connects. A second one would strike the next process of an app that is
            // busy with the first, or was ended because of it.
            Fault::Misbehave(harm) if victim_is_idle => self.packet_in(harm as u16),
            _ => Ok(()),
        }
    }

    /// Sends a UDP packet that no flow matches to this port.
    fn packet_in(&self, port: u16) -> anyhow::Result<()> {
        let send = format!("echo x > /dev/udp/{NOBODY}/{port}");
        self.net.h1.run("bash", &["-c", &send])?;
        Ok(())
    }

    /// Waits until all programs run, the victim of the fault has been restarted, and the switch is connected.
    fn recovered(&mut self, fault: Fault, before: &Report) -> anyhow::Result<(Report, Duration)> {
        let began = Instant::now();
        let dpid = self.net.s1.dpid();
        let were = programs(before);
        let mut filled = matches!(fault, Fault::FullDisk(_));
        let victim = fault.victim().and_then(|victim| were.get(&victim.to_string())?.pid);
        let mut again = Instant::now();
        let earlier = before.switch(&dpid).map(|switch| switch.epoch);
        let is_connected =
            |now: Option<_>| now.is_some() && (fault != Fault::Disconnect || now != earlier);
        loop {
            let status = self.net.status()?;
            let are = programs(&status);
            let restarted = fault.victim().is_none_or(|victim| {
                let name = victim.to_string();
                were.get(&name)
                    .zip(are.get(&name))
                    .is_some_and(|(was, is)| is.restarts > was.restarts)
            }) && self.has_the_right_version(fault, before, &status);
            if filled && began.elapsed() >= Duration::from_millis(500) {
                fs::remove_file(Path::new(STATE).join("chaos-filler"))?;
                filled = false;
            }
            if restarted
                && !filled
                && are.values().all(|is| is.runs)
                && is_connected(status.switch(&dpid).map(|it| it.epoch))
            {
                return Ok((status, began.elapsed()));
            }
            if !restarted && again.elapsed() >= INSIST {
                let is_idle = victim.is_some_and(is_idle);
                self.insist(fault, &status, is_idle)?;
                again = Instant::now();
            }
            if began.elapsed() >= self.limit {
                let _ = fs::remove_file(Path::new(STATE).join("chaos-filler"));
                let waiting: Vec<_> = are.iter().filter(|(_, is)| !is.runs).collect();
                bail!("not recovered: restarted: {restarted}, do not run: {waiting:?}");
            }
            self.lab.pause(INTERVAL)?;
        }
    }

    fn incidents(&self) -> anyhow::Result<Vec<Incident>> {
        let rosemary = self.binary.display().to_string();
        let json = self.lab.run(&rosemary, &["incidents", "--json"])?;
        Ok(serde_json::from_str(&json)?)
    }

    /// Checks that the incidents after number `before` name the victim once, and no other program.
    fn right_incident(&self, fault: Fault, before: u64) -> anyhow::Result<()> {
        let mut new = self.incidents()?;
        new.retain(|incident| incident.id.0 > before);
        new.retain(|incident| !matches!(incident.cause, Cause::MissingFlows { .. }));
        if fault == Fault::Upgrade(Quality::Crashing) {
            let rollback = |incident: &Incident| incident.cause == Cause::Rollback;
            ensure!(new.iter().any(rollback), "no incident of a rollback: {new:#?}");
            new.retain(|incident| incident.program.to_string() != format!("app {UPGRADED}"));
        }
        let victim = fault.victim().map(|victim| victim.to_string());
        let names: Vec<_> = new.iter().map(|incident| incident.program.to_string()).collect();
        ensure!(
            names.iter().map(String::as_str).eq(victim.as_deref()),
            "the incidents name {names:?}: {new:#?}"
        );
        let blamed = new.iter().find_map(|incident| incident.evidence.blamed.as_ref());
        ensure!(blamed.is_none(), "a fault from outside is blamed on {blamed:?}");
        Ok(())
    }

    fn hosts_reach_each_other(&self) -> anyhow::Result<()> {
        self.lab.wait_for("hosts reach each other", self.limit, |_| {
            Ok(self
                .net
                .h3
                .ping(&self.net.h1, 2, INTERVAL)
                .is_ok_and(|it| it.lost() == 0)
                .then_some(()))
        })?;
        Ok(())
    }

    fn flows_are_as_before(&self) -> anyhow::Result<()> {
        self.lab.wait_for("the flows are as before", SOON, |evidence| {
            let flows = lasting_flows(&self.net.s1).unwrap_or_default();
            evidence.0 = format!("{flows:#?}, before: {:#?}", self.start.flows);
            Ok((flows == self.start.flows).then_some(()))
        })?;
        Ok(())
    }

    /// Checks that the flows of the pings are older than the step.
    fn established_flows_were_kept(&self, since: Instant) -> anyhow::Result<()> {
        for (age, flow) in self.ages_of_established_flows()? {
            let step = since.elapsed();
            ensure!(age >= step, "this flow is {age:?} old, the step {step:?}: {flow}");
        }
        Ok(())
    }

    /// Returns the flows of the pings and how old each is.
    fn ages_of_established_flows(&self) -> anyhow::Result<Vec<(Duration, String)>> {
        let mut ages = Vec::new();
        for host in [&self.net.h1, &self.net.h3] {
            for flow in self.net.flows_to(host)? {
                ages.push((age(&flow).with_context(|| format!("no duration in {flow}"))?, flow));
            }
        }
        Ok(ages)
    }

    fn resources_are_back(&self, after: &Report) -> anyhow::Result<()> {
        let kernel = after.programs.kernel.pid.context("the kernel does not run")?;
        let of = [
            ("the monitor", after.programs.monitor.pid, self.start.monitor),
            ("the kernel", kernel, self.start.kernel),
        ];
        for (name, pid, start) in of {
            let began = Instant::now();
            while let Some(growth) = Resources::of(pid)?.growth(start) {
                ensure!(began.elapsed() < Duration::from_secs(3), "{name} has {growth}");
                self.lab.pause(INTERVAL)?;
            }
        }
        Ok(())
    }

    /// Stops Rosemary, if it still runs, and starts it again.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn restart(&mut self) -> anyhow::Result<()> {
        let _ = fs::remove_file(Path::new(STATE).join("chaos-filler"));
        // The old one holds the lock until it has ended.
        if let Ok(pid) = i32::try_from(self.net.rosemary.pid())
            && let Some(pid) = Pid::from_raw(pid)
        {
            let _ = kill_process(pid, Signal::TERM);
        }
        let gone = |lab: &Lab, rosemary: &mut Rosemary<'_>| {
            lab.wait_for("Rosemary has ended", SOON, |_| {
                Ok(rosemary.must_run().is_err().then_some(()))
            })
        };
        gone(self.lab, &mut self.net.rosemary)?;
        self.net.rosemary = Rosemary::start(self.lab, &self.binary, &[])?;
        self.net.rosemary.wait_for_switch(&self.net.s1)?;
        self.denied = self.net.h2.watch()?;
        self.note_start()
    }

    /// Stops Rosemary.
    ///
    /// # Errors
    /// It did not stop in time or not successfully.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        let stopped = self.net.rosemary.stop(Signal::TERM)?;
        ensure!(stopped.status.success(), "Rosemary ended with {}", stopped.status);
        Ok(())
    }
}

/// Checks that the victim was restarted for the right reason and no other program was restarted.
fn right_blame(fault: Fault, before: &Report, after: &Report) -> anyhow::Result<()> {
    let victim = fault.victim().map(|victim| victim.to_string());
    let is_replaced = matches!(fault, Fault::Upgrade(Quality::Good | Quality::Crashing));
    let replaced = is_replaced.then(|| Program::App(UPGRADED).to_string());
    let (were, are) = (programs(before), programs(after));
    ensure!(before.programs.monitor.pid == after.programs.monitor.pid, "the monitor was replaced");
    for (name, was) in &were {
        let is = are.get(name).with_context(|| format!("{name} is gone"))?;
        if Some(name) == victim.as_ref() {
            let exit = is.last_exit.as_deref().unwrap_or("nothing");
            ensure!(
                fault.evidence().iter().any(|word| exit.contains(word)),
                "{name} is said to have ended with: {exit}"
            );
            ensure!(is.restarts == was.restarts + 1, "{name} was restarted more than once");
        } else if replaced.as_ref() != Some(name) {
            ensure!(
                is.pid == was.pid && is.restarts == was.restarts,
                "{name} was restarted too: {:?}",
                is.last_exit
            );
        }
    }
    Ok(())
}

/// The version of the app that is upgraded.
fn version(report: &Report) -> Option<&str> {
    report.app(UPGRADED)?.version.as_deref()
}

/// Sends a signal to the process of a program.
fn send(before: &Report, program: Program, signal: Signal) -> anyhow::Result<()> {
    let name = program.to_string();
    let pid = programs(before).get(&name).and_then(|is| is.pid);
    let pid = pid.with_context(|| format!("{name} does not run"))?;
    let pid = Pid::from_raw(pid.try_into()?).context("a process has a number")?;
    Ok(kill_process(pid, signal)?)
}

/// Returns the age of a flow, as `ovs-ofctl` prints it: `duration=1.234s`.
fn age(flow: &str) -> Option<Duration> {
    let seconds = flow.split_once("duration=")?.1.split_once("s,")?.0;
    Duration::try_from_secs_f64(seconds.parse().ok()?).ok()
}

/// Writes until the disk is full.
fn fill(path: &Path) -> anyhow::Result<()> {
    use std::io::{ErrorKind, Write as _};
    let mut file = fs::File::create(path)?;
    let chunk = vec![0; 64 << 10];
    for size in [chunk.len(), 512] {
        loop {
            match file.write_all(&chunk[..size]) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

/// The file with the shift of the clock.
fn clock(lab: &Lab) -> PathBuf {
    lab.files().join("clock")
}

/// Makes a program that runs Rosemary with a clock that can be shifted; returns its path.
fn with_a_clock(lab: &Lab) -> anyhow::Result<PathBuf> {
    fs::write(clock(lab), "+0s\n")?;
    let path = lab.files().join("rosemary-with-a-clock");
    let (clock, rosemary) = (clock(lab), rosemary_binary());
    let script = format!(
        "#!/bin/sh\nexport FAKETIME_TIMESTAMP_FILE={} FAKETIME_CACHE_DURATION=1 FAKETIME_DONT_FAKE_MONOTONIC=1\n\
         [ \"$1\" != up ] || export LD_PRELOAD={FAKETIME}\nexec {} \"$@\"\n",
        clock.display(),
        rosemary.display()
    );
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}
