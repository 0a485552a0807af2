//! The rules of supervision with real services: a service that hangs is restarted alone, several that fail restart
//! Rosemary, and established flows are untouched.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::Of;
use cli::status::Report;
use control::incident::{Cause, Incident};
use control::operator::ProgramState;
use rosemary_tests::apps::{configure, in_c, in_rust};
use rosemary_tests::net::{APP, INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab_for, kill, rosemary_binary};
use rustix::process::{Pid, Signal, kill_process};

/// Rosemary's apps: one that uses services, and the learning switch.
fn configure_with(rules: &str) -> anyhow::Result<()> {
    let keys = "ethertypes = [0x88b5]\nservices = [\"storage\", \"broker\"]\n\
                capabilities = [\"net.connect:127.0.0.1:7007\"]";
    let switch = format!("[[app]]\nname = \"{APP}\"\n");
    Ok(configure(&[rules, &in_rust("keeper", keys), &switch])?)
}

/// The process of a service that runs, and its restarts.
fn service(status: &Report, name: &str) -> Option<(u32, u64)> {
    let service = status.programs.services.iter().find(|it| it.name == name)?;
    (service.state == ProgramState::Running).then_some((service.pid?, service.restarts))
}

#[test]
fn several_failed_services_restart_rosemary() {
    in_a_lab_for(SOON * 8, |lab| {
        configure_with("")?;
        let mut net = Net::start(lab, Of::V1_3)?;
        ensure!(net.h1.ping(&net.h2, 3, INTERVAL)?.received > 0);
        let before = net.status()?;
        let dpid = net.s1.dpid();
        let mut established = net.h1.ping_in_background(&net.h2, 200, INTERVAL)?;
        established.wait_for(2, SOON)?;
        for name in ["storage", "broker"] {
            kill(service(&before, name).context("it runs")?.0)?;
        }
        println!(
            "{}",
            net.rosemary.wait_for_log(&["restarted Rosemary", "storage", "broker"], SOON)?
        );
        let after = net.rosemary.wait_for("all programs run again", SOON * 2, |status| {
            let programs = &status.programs;
            let services = ["log", "storage", "broker"].map(|name| service(status, name));
            let run = services.iter().all(|it| it.is_some_and(|(_, restarts)| restarts >= 1))
                && programs.kernel.state == ProgramState::Running
                && programs
                    .apps
                    .iter()
                    .all(|app| app.state == ProgramState::Running && app.restarts >= 1);
            run.then(|| status.clone())
        })?;
        ensure!(after.programs.monitor.pid == before.programs.monitor.pid);
        ensure!(after.programs.kernel.restarts == 1, "{after:?}");
        net.rosemary.wait_for("the switch connects again", SOON * 2, |status| {
            status.switch(&dpid).map(|_| ())
        })?;
        let established = established.finish()?;
        ensure!(established.lost() == 0, "{established:?}");
        net.h3.ping(&net.h1, 1, INTERVAL)?;
        let died = net.rosemary.log().lines().filter(|line| line.contains(" died ")).count();
        ensure!(died == 2, "only the services died: {}", net.rosemary.log());
        Ok(())
    });
}

#[test]
fn stopped_storage_is_restarted_alone() {
    in_a_lab_for(SOON * 6, |lab| {
        configure_with("[supervision]\nhang-seconds = 1\n")?;
        let mut net = Net::start(lab, Of::V1_3)?;
        let before = net.status()?;
        let (pid, _) = service(&before, "storage").context("it runs")?;
        let pid = Pid::from_raw(pid.try_into()?).context("it has a pid")?;
        kill_process(pid, Signal::STOP)?;
        let words = ["killed the program", "service storage", "main thread stopped", "allows 1"];
        println!("{}", net.rosemary.wait_for_log(&words, Duration::from_secs(20))?);
        let after = net.rosemary.wait_for("it runs again", SOON, |status| {
            (service(status, "storage")?.1 == 1).then(|| status.clone())
        })?;
        ensure!(after.programs.kernel == before.programs.kernel, "the kernel is as it was");
        ensure!(after.app("keeper").map(|it| it.pid) == before.app("keeper").map(|it| it.pid));
        ensure!(service(&after, "broker") == service(&before, "broker"));
        Ok(())
    });
}

#[test]
fn stopped_kernel_is_restarted() {
    in_a_lab_for(SOON * 6, |lab| {
        configure(&["[supervision]\nhang-seconds = 1\n", &format!("[[app]]\nname = \"{APP}\"\n")])?;
        let mut net = Net::start(lab, Of::V1_3)?;
        ensure!(net.h1.ping(&net.h2, 3, INTERVAL)?.received > 0);
        let before = net.status()?;
        let mut established = net.h1.ping_in_background(&net.h2, 200, INTERVAL)?;
        established.wait_for(2, SOON)?;
        let pid = before.programs.kernel.pid.context("the kernel runs")?;
        let pid = Pid::from_raw(pid.try_into()?).context("it has a pid")?;
        kill_process(pid, Signal::STOP)?;
        let words = ["killed the program", "kernel", "it hung: it was stopped for", "allows 1"];
        println!("{}", net.rosemary.wait_for_log(&words, Duration::from_secs(20))?);
        let dpid = net.s1.dpid();
        let after = net.rosemary.wait_for("another kernel serves the switch", SOON, |status| {
            let is_new = status.programs.kernel.restarts == 1 && status.switch(&dpid).is_some();
            is_new.then(|| status.clone())
        })?;
        ensure!(before.app(APP) == after.app(APP), "no app is blamed: {:?}", after.app(APP));
        ensure!(established.finish()?.lost() == 0);
        net.h3.ping(&net.h1, 1, INTERVAL)?;
        Ok(())
    });
}

/// A UDP port that makes the app of `tests/apps/moody.c` leak with every later call.
const DRIP: u16 = 7006;

/// A UDP port that makes the same app end the process from a thread of its own.
const BOMB: u16 = 7007;

/// Sends a UDP packet to the app, in front of a ping of ten seconds at most. Nobody answers, so each packet is a call of the app.
fn provoke(net: &Net<'_>, port: u16, seconds: u32) -> anyhow::Result<()> {
    let (nobody, ether) = ("10.0.0.99", "02:00:00:00:00:99");
    net.h1.run("ip", &["neighbour", "replace", nobody, "lladdr", ether, "dev", "eth0"])?;
    let flood =
        format!("echo x > /dev/udp/{nobody}/{port}; ping -q -i 0.01 -w {seconds} {nobody}; true");
    net.h1.run("bash", &["-c", &flood])?;
    Ok(())
}

#[test]
fn app_that_leaks_in_the_kernel_is_named_and_moved() {
    in_a_lab_for(SOON * 8, |lab| {
        let moody = in_c(lab, "moody", "apps/moody.c", "host = \"kernel\"\nstage = \"observe\"")?;
        let switch = format!("[[app]]\nname = \"{APP}\"\nhost = \"kernel\"\n");
        let rules = "[supervision]\nleak-growth = \"2 MiB\"\nleak-window-seconds = 4\n";
        configure(&[rules, &switch, &moody])?;
        let mut net = Net::start(lab, Of::V1_3)?;
        ensure!(net.h1.ping(&net.h2, 3, INTERVAL)?.received > 0);
        let before = net.status()?;
        let mut established = net.h1.ping_in_background(&net.h2, 400, INTERVAL)?;
        established.wait_for(2, SOON)?;
        provoke(&net, DRIP, 9)?;
        let after = net.rosemary.wait_for("another kernel runs", SOON * 2, |status| {
            let kernel = &status.programs.kernel;
            let is_new = kernel.pid != before.programs.kernel.pid;
            (is_new && kernel.state == ProgramState::Running).then(|| status.clone())
        })?;
        ensure!(after.programs.kernel.restarts == 1, "{after:?}");
        let incidents = |more: &[&str]| -> anyhow::Result<Vec<Incident>> {
            let args = [&["incidents", "--json"], more].concat();
            Ok(serde_json::from_str(&lab.run(&rosemary_binary().display().to_string(), &args)?)?)
        };
        let [leak] = &incidents(&["--since", "1h"])?[..] else {
            anyhow::bail!("not one incident: {:#?}", incidents(&[])?);
        };
        ensure!(leak.program.to_string() == "kernel" && leak.cause == Cause::Leak, "{leak:#?}");
        let samples = leak.evidence.facts.join(" ");
        ensure!(samples.contains("MiB, ") && samples.contains("leak-growth"), "{samples}");
        ensure!(samples.contains("calls of its app moody took"), "{samples}");
        ensure!(leak.evidence.blamed.as_deref() == Some("moody"), "{leak:#?}");
        // An incident of the kernel is none of an app that is not to blame, and what is past is left out.
        ensure!(incidents(&["--app", APP])?.is_empty());
        ensure!(incidents(&["--since", "0s"])?.is_empty());
        ensure!(after.app("moody").is_some_and(|it| it.host == "user"), "{after:?}");
        let other = after.app(APP).context("it is there")?;
        ensure!(other.host == "kernel" && other.last_exit.is_none(), "{other:?}");
        let established = established.finish()?;
        ensure!(established.lost() == 0, "{established:?}");
        Ok(())
    });
}

#[test]
fn app_that_ends_the_kernel_in_its_own_thread_is_named() {
    in_a_lab_for(SOON * 6, |lab| {
        let moody = in_c(lab, "moody", "apps/moody.c", "host = \"kernel\"\nstage = \"observe\"")?;
        let switch = format!("[[app]]\nname = \"{APP}\"\nhost = \"kernel\"\n");
        configure(&[&switch, &moody])?;
        let mut net = Net::start(lab, Of::V1_3)?;
        ensure!(net.h1.ping(&net.h2, 3, INTERVAL)?.received > 0);
        let before = net.status()?;
        provoke(&net, BOMB, 1)?;
        let after = net.rosemary.wait_for("another kernel runs", SOON * 2, |status| {
            let kernel = &status.programs.kernel;
            let is_new = kernel.pid != before.programs.kernel.pid;
            (is_new && kernel.state == ProgramState::Running).then(|| status.clone())
        })?;
        let app = after.app("moody").context("it is there")?;
        let why = "the kernel ended in it: killed by SIGABRT";
        ensure!(app.host == "user" && app.demoted.as_deref() == Some(why), "{app:?}");
        ensure!(after.app(APP).is_some_and(|it| it.host == "kernel"), "{after:?}");
        let json = lab.run(&rosemary_binary().display().to_string(), &["incidents", "--json"])?;
        let incidents: Vec<Incident> = serde_json::from_str(&json)?;
        let [crash] = &incidents[..] else { anyhow::bail!("not one incident: {incidents:#?}") };
        ensure!(crash.evidence.blamed.as_deref() == Some("moody"), "{crash:#?}");
        let facts = crash.evidence.facts.join(" ");
        ensure!(facts.contains("SIGABRT on a thread that is no worker"), "{facts}");
        Ok(())
    });
}
