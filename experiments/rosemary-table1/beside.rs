//! The same three faults in Rosemary and in the controllers that packages provide: an app crashes, leaks, or deletes all
//! flows (*Rosemary* Figs. 2 to 9). `ovs-testcontroller` has no apps; it is killed.

use std::fmt::Write as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use cli::lab::{Host, Lab, Of, Rosemary, Running, Switch};
use rosemary_tests::apps::{configure, in_c};
use rosemary_tests::experiment::note;
use rosemary_tests::net::{INTERVAL, SOON};
use rosemary_tests::{kill, os_ken, rosemary_binary};

use super::{NOBODY, send};

/// The port of the other controllers.
const PORT: u16 = 6654;

/// The UDP port that triggers the fault of `faulty.py`.
const TRIGGER: u16 = 7000;

/// From the fault until the result is looked at.
const AFTERWARDS: Duration = Duration::from_secs(4);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Crash,
    Leak,
    Rogue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Controller {
    Rosemary,
    OsKen,
    Testcontroller,
}

const TRIALS: [(Controller, Fault); 7] = [
    (Controller::Rosemary, Fault::Crash),
    (Controller::OsKen, Fault::Crash),
    (Controller::Testcontroller, Fault::Crash),
    (Controller::Rosemary, Fault::Leak),
    (Controller::OsKen, Fault::Leak),
    (Controller::Rosemary, Fault::Rogue),
    (Controller::OsKen, Fault::Rogue),
];

/// Runs all trials, those of other controllers if `os_ken` is the program of one. Returns a table.
///
/// # Errors
/// A controller could not be started, or a step failed.
pub(super) fn table(os_ken: Option<&Path>) -> anyhow::Result<String> {
    let mut text = String::from(
        "| fault of an app | controller | established pings lost | new flows 4 s later | growth of memory |\n\
         | --- | --- | ---: | --- | ---: |\n",
    );
    let is_measured = |controller| controller == Controller::Rosemary || os_ken.is_some();
    for (controller, fault) in TRIALS.into_iter().filter(|(it, _)| is_measured(*it)) {
        note(format_args!("{controller:?}: {fault:?}"));
        let os_ken = os_ken.map(Path::to_owned).unwrap_or_default();
        // A thread cannot leave its lab.
        let row = thread::spawn(move || trial(controller, fault, &os_ken)).join();
        text += &row.map_err(|_| anyhow!("a trial failed"))??;
    }
    Ok(text)
}

/// A running controller.
enum Run<'lab> {
    Rosemary(Box<Rosemary<'lab>>),
    Other(Running),
}

impl Run<'_> {
    /// The process that suffers from a leak of the app.
    fn process(&self) -> anyhow::Result<u32> {
        match self {
            Self::Rosemary(rosemary) => {
                let status = rosemary.status()?.context("Rosemary does not answer")?;
                status.programs.kernel.pid.context("the kernel does not run")
            }
            Self::Other(controller) => Ok(controller.pid()),
        }
    }

    fn must_run(&mut self) -> bool {
        match self {
            Self::Rosemary(rosemary) => rosemary.must_run().is_ok(),
            Self::Other(controller) => controller.must_run().is_ok(),
        }
    }
}

fn trial(controller: Controller, fault: Fault, os_ken: &Path) -> anyhow::Result<String> {
    let lab = Lab::enter()?;
    let s1 = lab.switch("s1", Of::V1_3)?;
    let mut run = start(&lab, &s1, controller, fault, os_ken)?;
    let [h1, h2, h3] = ["h1", "h2", "h3"].map(|name| lab.host(name, &s1));
    let (h1, h2, h3) = (h1?, h2?, h3?);
    for (one, other) in [(&h1, &h3), (&h3, &h1), (&h2, &h1), (&h1, &h2)] {
        one.knows(other)?;
    }
    for host in [&h1, &h2] {
        let neighbour = ["neighbour", "replace", NOBODY, "lladdr", "02:00:00:00:00:99"];
        host.run("ip", &[&neighbour[..], &["dev", "eth0"]].concat())?;
    }
    lab.wait_for("the hosts reach each other", SOON, |_| {
        Ok(h1.ping(&h3, 3, INTERVAL).is_ok_and(|it| it.lost() == 0).then_some(()))
    })?;
    let mut flood = h2.command("ping");
    flood.args(["-n", "-q", "-i", "0.005", NOBODY]);
    let flood = lab.start("flood", flood)?;
    let mut established = h1.ping_in_background(&h3, 250, INTERVAL)?;
    established.wait_for(3, SOON)?;
    let process = run.process()?;
    let before = resident_kib(process);
    inject(&run, &h1, controller, fault)?;
    lab.pause(AFTERWARDS)?;
    let growth = match (resident_kib(process), before) {
        (Some(now), Some(before)) => format!("{} MiB", now.saturating_sub(before) / 1024),
        _ => "-".into(),
    };
    // This pair has not talked before, so that its first packets need the controller.
    let new_flows = h2.ping(&h1, 5, INTERVAL)?.received > 0;
    drop(flood);
    let established = established.finish()?;
    let name = match controller {
        Controller::Rosemary => "Rosemary".into(),
        Controller::OsKen => format!("os-ken {}", os_ken::VERSION),
        Controller::Testcontroller => "ovs-testcontroller (killed)".into(),
    };
    let new_flows = match (new_flows, run.must_run()) {
        (true, _) => "work",
        (false, true) => "do not work",
        (false, false) => "do not work: the controller is gone",
    };
    let fault = match fault {
        Fault::Crash => "crashes",
        Fault::Leak => "leaks",
        Fault::Rogue => "deletes all flows",
    };
    let mut row = String::new();
    let (lost, sent) = (established.lost(), established.sent);
    let _ = writeln!(row, "| {fault} | {name} | {lost} of {sent} | {new_flows} | {growth} |");
    Ok(row)
}

fn start<'lab>(
    lab: &'lab Lab,
    s1: &Switch<'lab>,
    controller: Controller,
    fault: Fault,
    os_ken: &Path,
) -> anyhow::Result<Run<'lab>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments");
    match controller {
        Controller::Rosemary => {
            let keys = "stage = \"observe\"\n[app.limits]\nmemory = \"64 MiB\"\n";
            let app = match fault {
                Fault::Crash | Fault::Leak => in_c(lab, "moody", "apps/moody.c", keys)?,
                Fault::Rogue => {
                    let rogue = "../experiments/rosemary-table1/rogue.c";
                    let keys =
                        "stage = \"observe\"\ncapabilities = [\"packet-in\", \"flow.write\"]\n";
                    in_c(lab, "rogue", rogue, keys)?
                }
            };
            configure(&["[[app]]\nname = \"learning-switch\"\n", &app])?;
            let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
            rosemary.wait_for_switch(s1)?;
            Ok(Run::Rosemary(Box::new(rosemary)))
        }
        Controller::OsKen => {
            let word = match fault {
                Fault::Crash => "crash",
                Fault::Leak => "leak",
                Fault::Rogue => "rogue",
            };
            let mut command = lab.command(os_ken);
            command.env("FAULT", word).args(["--ofp-listen-host", "127.0.0.1"]);
            command.args(["--ofp-tcp-listen-port", &PORT.to_string()]);
            command.arg(here.join("peers/learning_switch.py"));
            command.arg(here.join("rosemary-table1/faulty.py"));
            let running = lab.start("os-ken", command)?;
            s1.connect_to(&format!("tcp:127.0.0.1:{PORT}"))?;
            Ok(Run::Other(running))
        }
        Controller::Testcontroller => {
            let mut command = lab.command("ovs-testcontroller");
            command.arg(format!("ptcp:{PORT}"));
            let running = lab.start("ovs-testcontroller", command)?;
            s1.connect_to(&format!("tcp:127.0.0.1:{PORT}"))?;
            Ok(Run::Other(running))
        }
    }
}

fn inject(
    run: &Run<'_>,
    from: &Host<'_>,
    controller: Controller,
    fault: Fault,
) -> anyhow::Result<()> {
    match (controller, fault) {
        (Controller::Testcontroller, _) => kill(run.process()?),
        (Controller::Rosemary, Fault::Crash) => send(from, 7001),
        (Controller::Rosemary, Fault::Leak) => send(from, 7006),
        (Controller::Rosemary, Fault::Rogue) => Ok(()), // it deletes with every packet
        (Controller::OsKen, _) => send(from, TRIGGER),
    }
}

/// The resident memory of a process; `None` if it has ended.
fn resident_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}
