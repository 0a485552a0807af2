//! Resource limits: an app near a limit receives an alert, and is then restricted or ended. The log
//! record names the limit and its value, and nothing else is affected.
//!
//! The apps are in `apps/gluttons`: each consumes more and more of one resource and logs its
//! alerts.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use control::operator::ProgramState;
use control::operator::ProgramUsage;
use rosemary_tests::apps::{configure, in_c};
use rosemary_tests::net::{APP, INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, rosemary_binary};
use sys::cgroup::{Controller, Tree};
use sys::process::Memory;

/// Time for the slowest app to reach its limit on a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);

/// Prefixes of the apps' log lines about alerts, by limit.
const MEMORY: &str = "ALERT limit 1 ";
const CPU: &str = "ALERT limit 2 ";
const DESCRIPTORS: &str = "ALERT limit 3 ";
const THREADS: &str = "ALERT limit 4 ";

/// Starts a glutton beside the learning switch.
fn with<'lab>(
    lab: &'lab Lab,
    glutton: &str,
    limits: &str,
    args: &[&str],
) -> anyhow::Result<Rosemary<'lab>> {
    let source = format!("apps/gluttons/{glutton}.c");
    let keys = format!("stage = \"observe\"\nlimits = {{ {limits} }}");
    let glutton = in_c(lab, glutton, &source, &keys)?;
    configure(&[&glutton, &format!("[[app]]\nname = \"{APP}\"\n")])?;
    Ok(Rosemary::start(lab, &rosemary_binary(), args)?)
}

/// Returns the `rosemary top --json` entry of a program.
fn top(lab: &Lab, name: &str) -> anyhow::Result<ProgramUsage> {
    let json = lab.run(&rosemary_binary().display().to_string(), &["top", "--json"])?;
    let all: Vec<ProgramUsage> = serde_json::from_str(&json).context(json)?;
    all.into_iter().find(|it| it.name == name).context("it is there")
}

/// Reports whether the machine has cgroups with this controller.
fn has(controller: Controller) -> bool {
    let tree = Tree::find();
    if let Some((_, why)) = tree.missing().iter().find(|(missing, _)| *missing == controller) {
        rosemary_tests::skip(&anyhow::anyhow!("without groups: {why}"));
        return false;
    }
    true
}

#[test]
fn leaking_app_is_alerted_then_ended() {
    if !has(Controller::Memory) {
        return;
    }
    in_a_lab(|lab| {
        let mut rosemary = with(lab, "leak", "memory = \"64 MiB\"", &[])?;
        let told = rosemary.wait_for_log(&["leak: ", MEMORY], PATIENCE)?;
        println!("{told}");
        rosemary.wait_for_log(&["app=\"leak\"", "limit=\"memory\"", "hard=\"64 MiB\""], SOON)?;
        let mut most = 0;
        lab.wait_for("it is ended", PATIENCE, |_| {
            let uses = top(lab, "leak").ok().and_then(|it| it.amount("memory")?.value);
            most = most.max(uses.unwrap_or(0));
            let died = rosemary.log();
            Ok(died.lines().any(|it| it.contains("died") && it.contains("zone leak")).then_some(()))
        })?;
        println!("it was seen with {most} bytes at most");
        ensure!((40 << 20..=64 << 20).contains(&most), "{most}");
        let died = rosemary.wait_for_log(&["zone leak", "died"], SOON)?;
        ensure!(died.contains("memory limit of 64 MiB"), "{died}");
        rosemary.wait_for("it is started again", SOON, |status| {
            let app = status.app("leak")?;
            let again = app.restarts > 0 && app.state == ProgramState::Running;
            let why = app.last_exit.as_deref().is_some_and(|it| it.contains("limit of 64 MiB"));
            (again && why).then_some(())
        })?;
        let status = rosemary.status()?.context("it answers")?;
        ensure!(status.app(APP).is_some_and(|app| app.restarts == 0), "{status:?}");
        ensure!(status.programs.kernel.restarts == 0, "{status:?}");
        Ok(())
    });
}

#[test]
fn without_groups_memory_is_limited() {
    in_a_lab(|lab| {
        let mut rosemary = with(lab, "leak", "memory = \"64 MiB\"", &["--no-cgroups"])?;
        rosemary.wait_for_log(&["limit=\"memory\"", "no cgroups"], SOON)?;
        rosemary.wait_for_log(&["leak: ", MEMORY], PATIENCE)?;
        // The system rejects the allocation, or the monitor sees the limit first and ends it.
        lab.wait_for("it gets no more", PATIENCE, |_| {
            let log = rosemary.log();
            let is_end = |line: &str| {
                line.contains("leak: KEPT at ") && line.contains("Cannot allocate memory")
                    || line.contains("zone leak")
                        && line.contains("above its memory limit of 64 MiB")
            };
            Ok(log.lines().any(is_end).then_some(()))
        })?;
        drop(rosemary);

        for uncounted in ["stack", "share"] {
            let mut rosemary = with(lab, uncounted, "memory = \"64 MiB\"", &["--no-cgroups"])?;
            let kept = rosemary.wait_for_log(&[&format!("{uncounted}: "), "KEPT at "], PATIENCE)?;
            ensure!(kept.contains("KEPT at 0: Operation not permitted"), "{kept}");
        }
        Ok(())
    });
}

#[test]
fn without_groups_all_memory_is_detected() {
    for glutton in ["tables", "frozen"] {
        in_a_lab(move |lab| {
            let rosemary = with(lab, glutton, "memory = \"64 MiB\"", &["--no-cgroups"])?;
            let mut most = 0;
            let zone = format!("zone {glutton}");
            // Not with `wait_for`, whose polling interval is too long to observe the peak.
            let begun = Instant::now();
            let died = loop {
                let pid = rosemary.status()?.and_then(|status| status.app(glutton)?.pid);
                for _ in 0..200 {
                    let memory = pid.and_then(|pid| Memory::of(pid).ok()).unwrap_or_default();
                    most = most.max(memory.all);
                    lab.pause(Duration::from_millis(2))?;
                }
                let log = rosemary.log();
                let died = |line: &&str| line.contains(&zone) && line.contains("died");
                if let Some(line) = log.lines().find(died) {
                    break line.to_owned();
                }
                ensure!(begun.elapsed() < PATIENCE, "it was not ended, with {most} bytes:\n{log}");
            };
            println!("it was seen with {} KiB at most: {died}", most >> 10);
            ensure!(died.contains("above its memory limit of 64 MiB"), "{died}");
            ensure!((16 << 20..=128 << 20).contains(&most), "{most}");
            Ok(())
        });
    }
}

/// The rings take 128 MiB of address space, and those of the next kernel the same again.
#[test]
fn without_groups_small_app_maps_large_rings() {
    in_a_lab(|lab| {
        let controller = "[controller]\nworkers = 16\nring-bytes = \"4 MiB\"\n";
        let app = format!("[[app]]\nname = \"{APP}\"\nlimits = {{ memory = \"8 MiB\" }}\n");
        configure(&[controller, &app])?;
        let mut net = Net::start_with(lab, Of::V1_3, &["--no-cgroups"])?;
        ensure!(net.h1.ping(&net.h2, 3, INTERVAL)?.received > 0);
        let kernel = net.status()?.programs.kernel.pid.context("it runs")?;
        rosemary_tests::kill(kernel)?;
        net.rosemary.wait_for("another kernel runs", SOON, |status| {
            let kernel = &status.programs.kernel;
            (kernel.restarts == 1 && kernel.state == ProgramState::Running).then_some(())
        })?;
        net.switch_status()?;
        ensure!(net.h1.ping(&net.h3, 5, INTERVAL)?.received > 0);
        let status = net.status()?;
        ensure!(status.app(APP).is_some_and(|app| app.restarts == 0), "{status:?}");
        Ok(())
    });
}

/// Each thread reserves a stack of 8 MiB and an allocator arena, and uses little of both.
#[test]
fn without_groups_app_with_threads_runs_in_64_mib() {
    in_a_lab(|lab| {
        let limits = "memory = \"64 MiB\", threads = 8";
        let mut rosemary = with(lab, "threads", limits, &["--no-cgroups"])?;
        let kept = rosemary.wait_for_log(&["threads: ", "KEPT at "], PATIENCE)?;
        ensure!(kept.contains("KEPT at 7:"), "the first is the app's own: {kept}");
        let status = rosemary.status()?.context("it answers")?;
        ensure!(status.app("threads").is_some_and(|app| app.restarts == 0), "{status:?}");
        Ok(())
    });
}

#[test]
fn spinning_app_is_limited_to_its_cpu_share() {
    if !has(Controller::Cpu) {
        return;
    }
    in_a_lab(|lab| {
        let mut rosemary = with(lab, "spin", "cpu = { soft = 0.1, hard = 0.3 }", &[])?;
        let s1 = lab.switch("s1", Of::V1_3)?;
        let (h1, h2) = (lab.host("h1", &s1)?, lab.host("h2", &s1)?);
        rosemary.wait_for_switch(&s1)?;
        rosemary.wait_for_log(&["spin: ", CPU], PATIENCE)?;
        rosemary.wait_for_log(&["app=\"spin\"", "limit=\"cpu\"", "hard=\"0.3\""], SOON)?;
        let mut seen = Vec::new();
        for _ in 0..10 {
            lab.pause(Duration::from_millis(300))?;
            seen.extend(top(lab, "spin")?.amount("cpu").and_then(|it| it.value));
        }
        println!("thousandths of a processor: {seen:?}");
        // Samples that fall within a period add a little to the granted share.
        ensure!(seen.iter().all(|it| *it <= 350), "{seen:?}");
        let pings = h1.ping(&h2, 50, INTERVAL)?;
        println!(
            "beside it: {} of {}, median {:?}",
            pings.received,
            pings.sent,
            pings.median_rtt()
        );
        ensure!(pings.lost() <= 1, "the first may wait for the flows: {pings:?}");
        let status = rosemary.status()?.context("it answers")?;
        ensure!(status.app("spin").is_some_and(|app| app.restarts == 0), "{status:?}");
        Ok(())
    });
}

#[test]
fn without_groups_spinning_app_is_ended() {
    in_a_lab(|lab| {
        let mut rosemary = with(lab, "spin", "cpu = 0.1", &["--no-cgroups"])?;
        rosemary.wait_for_log(&["spin: ", CPU], PATIENCE)?;
        let died = rosemary.wait_for_log(&["zone spin", "died"], PATIENCE)?;
        ensure!(died.contains("above its cpu limit of 0.1"), "{died}");
        Ok(())
    });
}

#[test]
fn thread_limit_is_enforced_with_an_alert() {
    for args in [&[][..], &["--no-cgroups"]] {
        in_a_lab(move |lab| {
            let mut rosemary = with(lab, "threads", "threads = 10", args)?;
            let kept = rosemary.wait_for_log(&["threads: ", "KEPT at "], PATIENCE)?;
            println!("{kept}");
            ensure!(kept.contains("KEPT at 9:"), "the first is the app's own: {kept}");
            rosemary.wait_for_log(&["threads: ", THREADS], SOON)?;
            let hard = ["app=\"threads\"", "limit=\"threads\"", "reached a hard limit"];
            rosemary.wait_for_log(&hard, SOON)?;
            Ok(())
        });
    }
}

#[test]
fn app_with_one_thread_starts() {
    for args in [&[][..], &["--no-cgroups"]] {
        in_a_lab(move |lab| {
            let mut rosemary = with(lab, "threads", "threads = 1", args)?;
            let kept = rosemary.wait_for_log(&["threads: ", "KEPT at "], PATIENCE)?;
            ensure!(kept.contains("KEPT at 0:"), "{kept}");
            // The sandbox probe runs in a child process, before the zone changes its user.
            let status = rosemary.status()?.context("it answers")?;
            let pid = status.app("threads").and_then(|app| app.pid).context("it runs")?;
            let users = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/user"));
            ensure!(users(&pid.to_string())? != users("self")?, "its sandbox is complete");
            Ok(())
        });
    }
}

#[test]
fn descriptor_limit_is_enforced_with_an_alert() {
    in_a_lab(|lab| {
        let mut rosemary = with(lab, "descriptors", "descriptors = 64", &[])?;
        let kept = rosemary.wait_for_log(&["descriptors: ", "KEPT at "], PATIENCE)?;
        ensure!(kept.contains("Too many open files"), "{kept}");
        rosemary.wait_for_log(&["descriptors: ", DESCRIPTORS], SOON)?;
        let hard = ["app=\"descriptors\"", "limit=\"descriptors\"", "uses=\"64\""];
        rosemary.wait_for_log(&hard, SOON)?;
        Ok(())
    });
}

#[test]
fn log_limit_is_enforced_with_an_alert() {
    in_a_lab(|lab| {
        let mut rosemary = with(lab, "chatter", "log-bytes-per-second = 1000", &[])?;
        rosemary.wait_for_log(&["app=\"chatter\"", "limit=\"log-bytes-per-second\""], PATIENCE)?;
        rosemary.wait_for_log(&["chatter: ", "lines that exceeded its log limit"], PATIENCE)?;
        lab.pause(Duration::from_secs(3))?;
        let log = rosemary.log();
        let size: usize = log.lines().filter(|it| it.contains("chatter ")).map(str::len).sum();
        println!("{size} bytes of the log are its own");
        ensure!(size < 30_000, "{size}");
        Ok(())
    });
}

#[test]
fn cgroups_are_removed_even_after_a_kill() {
    if !has(Controller::Memory) {
        return;
    }
    in_a_lab(|lab| {
        let tree = Tree::find();
        let (_, dir) = tree.place(Controller::Memory).context("there are groups")?;
        let groups = |dir: &Path, pid: u32| -> anyhow::Result<usize> {
            let names = std::fs::read_dir(dir)?.flatten().map(|it| it.file_name());
            let begin = format!("rosemary-{pid}-");
            Ok(names.filter(|name| name.to_string_lossy().starts_with(&begin)).count())
        };
        let rosemary = with(lab, "leak", "", &[])?;
        let pid = rosemary.pid();
        ensure!(groups(dir, pid)? == 5, "a kernel, the log, northbound and two zones");
        rosemary.stop(rustix::process::Signal::TERM)?;
        ensure!(groups(dir, pid)? == 0, "they are removed");

        let rosemary = with(lab, "leak", "", &[])?;
        let pid = rosemary.pid();
        rosemary_tests::kill(pid)?;
        drop(rosemary);
        let _next = with(lab, "leak", "", &[])?;
        lab.wait_for("what it left is removed", SOON, |_| {
            // The programs die shortly after the kill; the next instance removes the remaining
            // groups.
            drop(Tree::find());
            Ok(groups(dir, pid).is_ok_and(|count| count == 0).then_some(()))
        })?;
        Ok(())
    });
}

#[test]
fn top_lists_every_program_and_doctor_every_limit() {
    in_a_lab(|lab| {
        let mut rosemary = with(lab, "spin", "memory = \"64 MiB\", cpu = 0.2", &[])?;
        rosemary.wait_for_log(&["spin: ", CPU], PATIENCE)?;
        let monitor = top(lab, "monitor")?;
        ensure!(monitor.pid == Some(rosemary.pid()) && monitor.kind == "monitor", "{monitor:?}");
        for name in ["monitor", "kernel", "spin", APP] {
            let program = top(lab, name)?;
            for limit in ["memory", "cpu", "descriptors", "threads"] {
                let amount = program.amount(limit).context("it is there")?;
                ensure!(amount.value.is_some_and(|it| it > 0 || limit == "cpu"), "{program:?}");
            }
        }
        let spin = top(lab, "spin")?;
        let memory = spin.amount("memory").context("it is there")?;
        ensure!(memory.hard == Some(64 << 20) && memory.soft < memory.hard, "{spin:?}");
        // It exceeded the limit when the alert was sent; on a busy machine its use varies.
        lab.wait_for("it is above its soft limit", PATIENCE, |_| {
            Ok(top(lab, "spin").ok().filter(|spin| spin.above == ["cpu"]))
        })?;
        let table = lab.run(&rosemary_binary().display().to_string(), &["top"])?;
        println!("{table}");
        ensure!(table.lines().count() == 7 && table.starts_with("PROGRAM "), "{table}");

        let doctor = lab.run(&rosemary_binary().display().to_string(), &["doctor"])?;
        println!("{doctor}");
        for word in ["The limits of an app", "memory ", "512 MiB", "log-bytes-per-second"] {
            ensure!(doctor.contains(word), "{doctor}");
        }
        Ok(())
    });
}
