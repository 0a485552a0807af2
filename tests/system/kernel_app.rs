//! Apps inside the kernel: they use the same object as in a zone. Tests the effects of their
//! faults.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of};
use cli::status::Report;
use control::incident::{Frame, Incident, Program, WorkerEvent, WorkerEventKind};
use control::operator::ProgramState;
use rosemary_tests::net::{APP, INTERVAL, Net, Over, SOON};
use rosemary_tests::{in_a_lab, kill, over_versions, rosemary_binary, schema};

/// The fault of an app in the kernel, as in `misfit.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bad {
    Fails = 1,
    Exits = 2,
    Aborts = 3,
    Hangs = 4,
    Faults = 5,
}

over_versions!(same_object_works_in_the_kernel_in_each_version, |of| in_a_lab(move |lab| {
    same_object_works_in_the_kernel(lab, of, Over::Tcp)
}));

over_versions!(same_object_works_in_the_kernel_and_tls, |of| in_a_lab(move |lab| {
    same_object_works_in_the_kernel(lab, of, Over::Tls)
}));

#[test]
fn panicking_kernel_app_moves_to_a_zone() {
    in_a_lab(|lab| bad_app_gets_a_zone(lab, Bad::Fails));
}

#[test]
fn exiting_kernel_app_moves_to_a_zone() {
    in_a_lab(|lab| bad_app_gets_a_zone(lab, Bad::Exits));
}

#[test]
fn aborting_kernel_app_moves_to_a_zone() {
    in_a_lab(|lab| bad_app_gets_a_zone(lab, Bad::Aborts));
}

#[test]
fn faulting_kernel_app_moves_to_a_zone() {
    in_a_lab(|lab| bad_app_gets_a_zone(lab, Bad::Faults));
}

#[test]
fn hung_kernel_app_moves_to_a_zone() {
    in_a_lab(|lab| bad_app_gets_a_zone(lab, Bad::Hangs));
}

fn same_object_works_in_the_kernel(lab: &Lab, of: Of, over: Over) -> anyhow::Result<()> {
    let mut net = Net::start_over_with(lab, of, over, &["--app", "learning-switch:kernel"])?;
    let before = net.status()?;
    let app = before.app(APP).context("it is told")?;
    assert_eq!((app.host.as_str(), app.pid), ("kernel", before.programs.kernel.pid));
    let object = rosemary_binary().with_file_name("examples/liblearning_switch.so");
    let sum = lab.run("sha256sum", &[&object.display().to_string()])?;
    assert_eq!(app.sha256.as_deref(), sum.split_whitespace().next());
    assert!(app.version.is_some());
    assert_eq!(net.h1.ping(&net.h2, 10, INTERVAL)?.lost(), 0);
    assert_eq!(net.flows_to(&net.h2)?.len(), 1, "{:#?}", net.s1.dump_flows()?);

    let pid = before.programs.kernel.pid.context("it runs")?;
    kill(pid)?; // between two packets, so no app is blamed
    let dpid = net.s1.dpid();
    let after = net.rosemary.wait_for("the switch is back", SOON, |status| {
        let other = status.programs.kernel.pid.is_some_and(|now| now != pid);
        (other && status.switch(&dpid).is_some() && runs(status, APP)).then(|| status.clone())
    })?;
    let app = after.app(APP).context("it is told")?;
    assert_eq!((app.host.as_str(), app.pid), ("kernel", after.programs.kernel.pid));
    assert_eq!((app.restarts, &app.demoted), (1, &None));
    assert!(net.h1.ping(&net.h3, 20, INTERVAL)?.received > 0);
    Ok(())
}

fn bad_app_gets_a_zone(lab: &Lab, bad: Bad) -> anyhow::Result<()> {
    let misfit = misfit(lab, bad)?;
    fs::write("/etc/rosemary/rosemary.toml", format!("[[app]]\nname = \"{APP}\"\n{misfit}"))?;
    let mut net = Net::start(lab, Of::V1_3)?;
    assert_eq!(net.h1.ping(&net.h2, 3, INTERVAL)?.lost(), 0);
    net.rosemary.wait_for_log(&["misfit", "saw a packet on port 1 in the kernel"], SOON)?;
    let before = net.status()?;
    let pid = before.app("misfit").and_then(|app| app.pid);
    assert_eq!(pid, before.programs.kernel.pid);

    net.h3.knows(&net.h1)?;
    net.h1.knows(&net.h3)?;
    let mut established = net.h1.ping_in_background(&net.h2, 100, INTERVAL)?;
    established.wait_for(3, SOON)?;
    net.h3.ping(&net.h1, 1, INTERVAL)?;
    let dpid = net.s1.dpid();
    let after = net.rosemary.wait_for("it has a zone", SOON, |status| {
        let app = status.app("misfit").filter(|app| app.host == "user")?;
        (app.state == ProgramState::Running && status.switch(&dpid).is_some() && runs(status, APP))
            .then(|| status.clone())
    })?;
    let app = after.app("misfit").context("it is told")?;
    println!("{bad:?}: {:?}", app.demoted);
    let why = app.demoted.as_deref().unwrap_or_default();
    let (kernel_restarts, said) = match bad {
        Bad::Fails => (0, ""),
        Bad::Exits => (1, "the kernel ended in it: exited with code 7"),
        Bad::Faults => (1, "the kernel ended in it: killed by SIGSEGV"),
        Bad::Aborts => (1, "the kernel ended in it: killed by SIGABRT"),
        Bad::Hangs => (1, "the kernel ended in it: its app misfit hung: one call lasted 1."),
    };
    assert!(!why.is_empty() && why.contains(said), "{why}");
    assert_eq!(after.programs.kernel.restarts, kernel_restarts);
    assert_ne!(app.pid, after.programs.kernel.pid);
    let text = lab.run(&rosemary_binary().display().to_string(), &["apps", "--wide"])?;
    assert!(text.contains(&format!("user (was kernel: {why})")), "{text}");
    if bad == Bad::Fails {
        net.rosemary.wait_for_log(&["misfit", "saw a packet on port 3 in a zone"], SOON)?;
    }
    assert_eq!(established.finish()?.lost(), 0, "flows stay in the switch");
    if matches!(bad, Bad::Faults | Bad::Aborts) {
        crash_is_recorded(lab, bad)?;
    }

    // The next kernel also hosts it in a zone.
    let pid = after.programs.kernel.pid.context("it runs")?;
    kill(pid)?;
    let last = net.rosemary.wait_for("the kernel is back", SOON, |status| {
        let other = status.programs.kernel.pid.is_some_and(|now| now != pid);
        (other && status.switch(&dpid).is_some()).then(|| status.clone())
    })?;
    let app = last.app("misfit").context("it is told")?;
    assert_eq!(app.pid, after.app("misfit").and_then(|app| app.pid), "its zone runs on");
    Ok(())
}

/// Checks the incident of the kernel that ended in a signal.
fn crash_is_recorded(lab: &Lab, bad: Bad) -> anyhow::Result<()> {
    let rosemary = rosemary_binary().display().to_string();
    let incident = lab.wait_for("the backtrace is made", SOON, |_| {
        let json = lab.run(&rosemary, &["incidents", "--json"])?;
        let incidents: Vec<Incident> = serde_json::from_str(&json).expect("it prints incidents");
        let crash = |it: &Incident| it.evidence.crash.as_ref().map(|it| it.backtrace.clone());
        let names_app = |it: &Incident| {
            let frames = crash(it).unwrap_or_default();
            frames.iter().any(|frame| frame.function.as_deref() == Some("on_batch"))
        };
        let kernel = incidents.into_iter().find(|it| it.program == Program::kernel());
        println!("{bad:?}: {:?}", kernel.as_ref().map(crash));
        Ok(kernel.filter(names_app))
    })?;
    ensure!(incident.evidence.blamed.as_deref() == Some("misfit"), "{incident:?}");
    let shown = lab.run(&rosemary, &["incidents", "show", &incident.id.to_string()])?;
    println!("{shown}");
    let crash = incident.evidence.crash.context("it is there")?;
    ensure!(crash.thread.starts_with("worker "), "{crash:?}");
    let names = |number: usize| {
        let frame = crash.backtrace.get(number);
        frame.map(|it| (it.module.as_deref(), it.function.as_deref(), it.guess))
    };
    if bad == Bad::Faults {
        ensure!((&*crash.signal, crash.address.as_deref()) == ("SIGSEGV", Some("0x8")));
        ensure!(names(0) == Some((Some("misfit"), Some("add_value_at"), false)), "{crash:?}");
        ensure!(names(1) == Some((Some("misfit"), Some("on_batch"), false)), "{crash:?}");
        ensure!(shown.contains("SIGSEGV at address 0x8 on worker"), "{shown}");
    } else {
        ensure!((&*crash.signal, crash.address.as_deref()) == ("SIGABRT", None));
    }
    let events = incident.evidence.recent.iter();
    let mut events = events.filter(|it| crash.thread == format!("worker {}", it.worker));
    let events = &events.next().context("the worker's events")?.events;
    let last = events.last().context("the last event")?;
    ensure!((last.kind, last.app.as_deref()) == (WorkerEventKind::Called, Some("misfit")));
    let is = |event: &WorkerEvent, kind, wire_type| {
        let types = event.message.map(|it| (it.version, it.message_type));
        event.kind == kind && types == Some((4, wire_type)) && event.switch.is_some()
    };
    ensure!(events.iter().any(|it| is(it, WorkerEventKind::Received, 10)), "{events:?}");
    ensure!(events.iter().any(|it| is(it, WorkerEventKind::Sent, 14)), "{events:?}");
    ensure!(shown.contains("received packet_in") && shown.contains("called misfit"), "{shown}");
    let in_kernel = |frame: &Frame| frame.module.as_deref() == Some("kernel") && !frame.guess;
    ensure!(crash.backtrace.iter().any(in_kernel), "the caller is found: {crash:?}");
    ensure!(crash.registers.keys().any(|it| it == "rip" || it == "pc"), "{crash:?}");
    let json = lab.run(&rosemary, &["incidents", "show", &incident.id.to_string(), "--json"])?;
    schema::check("incident", &json)
}

fn runs(status: &Report, app: &str) -> bool {
    status.app(app).is_some_and(|app| app.state == ProgramState::Running)
}

/// Builds the faulty app; returns its configuration entry.
fn misfit(lab: &Lab, bad: Bad) -> anyhow::Result<String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (source, headers) = (here.join("system/misfit.c"), here.join("../crates/sdk/c"));
    let object = lab.files().join("misfit.so").display().to_string();
    let bad = format!("-DBAD={}", bad as u8);
    let flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", &bad, "-I"];
    let paths = [&headers.display().to_string(), "-o", &object, &source.display().to_string()];
    lab.run("cc", &[&flags[..], &paths].concat())?;
    let keys = "stage = \"observe\"\nhost = \"kernel\"\nhang-seconds = 1";
    Ok(format!("[[app]]\nname = \"misfit\"\nobject = \"{object}\"\n{keys}\n"))
}
