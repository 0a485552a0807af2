//! Apps in WebAssembly, in a zone and in the kernel: the template of a switch in C forwards, and a faulty app ends alone.
//!
//! Needs the programs of `make wasm`, clang and lld.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, LabError, Of};
use control::incident::{Cause, Incident, Program};
use control::operator::ProgramState;
use rosemary_tests::apps::{configure, in_c};
use rosemary_tests::net::{APP, INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, over_versions, rosemary_binary};

/// The key of an app in the kernel.
const IN_KERNEL: &str = "host = \"kernel\"\n";

/// Compiles an app in C to a module; returns its configuration entry.
fn module(lab: &Lab, name: &str, source: &Path, more: &[&str]) -> Result<String, LabError> {
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/sdk/c");
    let [own, wasm, shim] =
        ["", "wasm", "wasm/rosemary_wasm.c"].map(|it| headers.join(it).display().to_string());
    let object = lab.files().join(format!("{name}.wasm")).display().to_string();
    let flags = [
        "--target=wasm32",
        "-O1",
        "-mbulk-memory",
        "-nostdlib",
        "-Wall",
        "-Wextra",
        "-Wl,--no-entry,--stack-first",
    ];
    let paths = ["-I", &wasm, "-I", &own, "-o", &object, &source.display().to_string(), &shim];
    lab.run("clang", &[&flags[..], more, &paths].concat())?;
    Ok(format!("[[app]]\nname = \"{name}\"\nobject = \"{object}\"\n"))
}

/// Compiles the template of a switch to a module; returns its configuration entry.
fn switch(lab: &Lab) -> anyhow::Result<String> {
    let template = include_str!("../../crates/cli/src/scaffold/switch/app.c.txt");
    let source = lab.files().join("switch.c");
    fs::write(&source, template.replace("@NAME@", "switch").replace("@VERSION@", "0.1.0"))?;
    Ok(module(lab, "switch", &source, &[])?)
}

/// Compiles `faulty.c`, which fails in one way; returns its configuration entry.
fn faulty(lab: &Lab, name: &str, way: u8) -> Result<String, LabError> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps/faulty.c");
    let entry = module(lab, name, &source, &[&format!("-DWAY={way}")])?;
    Ok(format!("{entry}stage = \"observe\"\noptions = {{ memory-mib = \"1\" }}\n"))
}

/// The address of a host that is not connected, so that each packet to it is a packet-in.
fn absent(net: &Net<'_>) -> Result<&'static str, LabError> {
    let (address, mac) = ("10.0.0.99", "02:00:00:00:00:99");
    net.h1.run("ip", &["neighbour", "replace", address, "lladdr", mac, "dev", "eth0"])?;
    Ok(address)
}

/// The recorded incidents of a program.
fn incidents(lab: &Lab, program: &Program) -> anyhow::Result<Vec<Incident>> {
    let json = lab.run(&rosemary_binary().display().to_string(), &["incidents", "--json"])?;
    let all: Vec<Incident> = serde_json::from_str(&json)?;
    Ok(all.into_iter().filter(|it| it.program == *program).collect())
}

fn forwards(lab: &Lab, of: Of, keys: &str, host: &str) -> anyhow::Result<()> {
    configure(&[&switch(lab)?, keys])?;
    let mut net = Net::start(lab, of)?;
    assert_eq!(net.h1.ping(&net.h2, 10, INTERVAL)?.lost(), 0);
    assert_eq!(net.flows_to(&net.h2)?.len(), 1, "{:#?}", net.s1.dump_flows()?);
    let status = net.status()?;
    let app = status.app("switch").context("it runs")?;
    assert_eq!((app.host.as_str(), app.restarts), (host, 0));
    let sum = lab.run("sha256sum", &[&lab.files().join("switch.wasm").display().to_string()])?;
    assert_eq!(app.sha256.as_deref(), sum.split_whitespace().next(), "the digest of the module");
    Ok(())
}

over_versions!(switch_in_c_forwards_as_a_module, |of| in_a_lab(move |lab| {
    forwards(lab, of, "", "user")
}));

over_versions!(module_in_the_kernel_forwards, |of| in_a_lab(move |lab| {
    forwards(lab, of, IN_KERNEL, "kernel")
}));

#[test]
fn faulty_modules_in_the_kernel_are_replaced() {
    let ways = [
        ("trap", "trapped: wasm trap: wasm `unreachable` instruction executed"),
        ("loop", "used more than 10 ms of processor time in one call"),
        ("memory", "trapped: wasm trap: wasm `unreachable` instruction executed"),
        ("stack", "trapped: wasm trap: out of bounds memory access"),
    ];
    in_a_lab(move |lab| {
        let mut entries = vec![
            format!("[[app]]\nname = \"{APP}\"\n{IN_KERNEL}"),
            in_c(lab, "zone", "apps/moody.c", "stage = \"observe\"")?,
        ];
        for (way, (name, _)) in (1..).zip(ways) {
            entries.push(faulty(lab, name, way)? + IN_KERNEL);
        }
        configure(&[&entries.concat()])?;
        let mut net = Net::start(lab, Of::V1_3)?;
        net.h1.knows(&net.h2)?;
        net.h2.knows(&net.h1)?;
        assert_eq!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost(), 0, "the switch is not delayed");
        for (name, why) in ways {
            // Once with the batch of the record, and once with the record alone.
            net.rosemary.wait_for("two instances have ended", SOON, |status| {
                (status.app(name)?.restarts >= 2).then_some(())
            })?;
            net.rosemary.wait_for_log(&[name, why, "instance"], SOON)?;
            net.rosemary.wait_for_log(&[name, "set a record aside"], SOON)?;
            let incidents = incidents(lab, &Program::app(name))?;
            ensure!(incidents.len() >= 2, "{incidents:#?}");
            ensure!(
                incidents.iter().all(|it| it.cause == Cause::Panic && !it.open),
                "{incidents:#?}"
            );
            ensure!(incidents[0].evidence.facts.join(" ").contains(why), "{incidents:#?}");
        }
        assert_eq!(net.h1.ping(&net.h2, 10, INTERVAL)?.lost(), 0);
        let status = net.status()?;
        assert_eq!(status.programs.kernel.restarts, 0);
        for (name, _) in ways {
            assert!(status.app(name).is_some_and(|it| it.host == "kernel"), "{status:#?}");
        }
        for other in [APP, "zone"] {
            assert_eq!(status.app(other).map(|it| it.restarts), Some(0), "{other}");
        }
        Ok(())
    });
}

#[test]
fn module_that_traps_too_often_is_held() {
    in_a_lab(|lab| {
        let faulty = faulty(lab, "faulty", 1)? + IN_KERNEL + "restart = { restarts = 2 }\n";
        configure(&[&faulty, &format!("[[app]]\nname = \"{APP}\"\n")])?;
        let mut net = Net::start(lab, Of::V1_3)?;
        let absent = absent(&net)?;
        net.h1.run("bash", &["-c", &format!("ping -q -i 0.01 -c 20 -W 1 {absent}; true")])?;
        let held = net.rosemary.wait_for("it is held", SOON, |status| {
            status.app("faulty").filter(|it| it.state == ProgramState::Held).cloned()
        })?;
        let why = held.last_exit.clone().unwrap_or_default();
        ensure!(why.contains("it ended 3 times in 3600 s"), "{held:?}");
        ensure!(why.contains("rosemary app start faulty"), "{held:?}");
        ensure!(held.demoted.as_deref().is_some_and(|it| it.contains("trapped")), "{held:?}");
        let incidents = incidents(lab, &Program::app("faulty"))?;
        ensure!(incidents.iter().any(|it| it.cause == Cause::TooManyRestarts), "{incidents:#?}");
        assert_eq!(net.h1.ping(&net.h2, 10, INTERVAL)?.lost(), 0);
        assert_eq!(net.status()?.programs.kernel.restarts, 0);
        Ok(())
    });
}

#[test]
fn native_app_that_faults_beside_a_module_is_blamed() {
    in_a_lab(|lab| {
        let keys = format!("stage = \"observe\"\n{IN_KERNEL}");
        let moody = in_c(lab, "moody", "apps/moody.c", &keys)?;
        configure(&[&switch(lab)?, IN_KERNEL, &moody])?;
        let mut net = Net::start(lab, Of::V1_3)?;
        ensure!(net.h1.ping(&net.h2, 3, INTERVAL)?.received > 0);
        let before = net.status()?.programs.kernel.pid;
        let datagram = format!("echo x > /dev/udp/{}/7001", absent(&net)?);
        net.h1.run("bash", &["-c", &datagram])?;
        let after = net.rosemary.wait_for("another kernel runs", SOON, |status| {
            let kernel = &status.programs.kernel;
            let is_new = kernel.pid != before && kernel.state == ProgramState::Running;
            let serves = status.app("switch")?.state == ProgramState::Running;
            (is_new && serves).then(|| status.clone())
        })?;
        let incidents = incidents(lab, &Program::kernel())?;
        let crash = incidents.first().context("it is recorded")?;
        ensure!(crash.evidence.blamed.as_deref() == Some("moody"), "{crash:#?}");
        ensure!(crash.cause == Cause::Signal { signal: 11 }, "{crash:#?}");
        ensure!(crash.evidence.crash.is_some(), "our handler recorded it: {crash:#?}");
        ensure!(after.app("moody").is_some_and(|it| it.host == "user"), "{after:#?}");
        ensure!(after.app("switch").is_some_and(|it| it.host == "kernel"), "{after:#?}");
        assert_eq!(net.h1.ping(&net.h2, 10, INTERVAL)?.lost(), 0);
        Ok(())
    });
}

#[test]
fn faulty_module_ends_alone() {
    for (way, why) in [
        (1, "trapped: wasm trap: wasm `unreachable` instruction executed"),
        (2, "used more than 10 ms of processor time in one call"),
        (3, "trapped: wasm trap: wasm `unreachable` instruction executed"),
        (4, "trapped: wasm trap: out of bounds memory access"),
    ] {
        in_a_lab(move |lab| {
            let switch = format!("[[app]]\nname = \"{APP}\"\n");
            configure(&[&faulty(lab, "faulty", way)?, &switch])?;
            let mut net = Net::start(lab, Of::V1_3)?;
            net.h1.knows(&net.h2)?;
            net.h2.knows(&net.h1)?;
            assert!(net.h1.ping(&net.h2, 5, INTERVAL)?.received > 0);
            let after = net.rosemary.wait_for("it is started again", SOON, |status| {
                (status.app("faulty")?.restarts >= 1).then(|| status.clone())
            })?;
            let ended = after.app("faulty").and_then(|it| it.last_exit.clone());
            println!("{way}: {ended:?}");
            net.rosemary.wait_for_log(&["faulty", why, "fail"], SOON)?;
            assert_eq!(after.programs.kernel.restarts, 0);
            assert_eq!(after.app(APP).map(|it| it.restarts), Some(0));
            assert_eq!(net.h1.ping(&net.h2, 10, INTERVAL)?.lost(), 0);
            Ok(())
        });
    }
}
