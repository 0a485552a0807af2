//! Attacks where the walls are thinner: apps inside the kernel, and Rosemary without root, without cgroups and without namespaces.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use control::operator::ProgramState;
use rosemary_tests::apps::{configure, in_c};
use rosemary_tests::net::{APP, INTERVAL, Net, SOON};
use rosemary_tests::verdicts::Verdicts;
use rosemary_tests::{in_a_lab_without_capture_for, rosemary_binary};

use super::beside::run;
use crate::hostile::{as_user, build_all_of, listen};

const LIMIT: Duration = Duration::from_secs(500);

/// The first four end the process that they are in: there is a test for each in `kernel_app.rs`. The kernel may not call statfs(2), which
/// `setuid` counts as success, and the last line of `files` does not come from a kernel.
const LEFT_OUT: [&str; 6] = ["stop", "kill-all", "kill-parent", "core", "setuid", "files"];

/// Number of hostile apps in a kernel: the kernel's log has room for their lines.
const AT_ONCE: usize = 8;

/// The kernel writes these records itself, so an app in it may, too.
const OWN: &str = "making the kernel's records writable";

/// The walls around the attempts of the hostile apps that no other wall holds. An app without a root directory of its own may make
/// itself dumpable, which it needs to load its object by `/proc`.
const FILES: &[&str] = &["root directory", "mount namespace", "Landlock: files"];
const PROCESSES: &[&str] = &["process namespace", "user namespace"];

/// Limit of memory of each greedy app, and what it may have for a moment where no cgroup bounds it (SECURITY.md): six times that.
const MEMORY_MIB: u64 = 64;

/// The entries of apps, each with these keys.
fn entries(apps: &BTreeMap<String, PathBuf>, keys: &str) -> String {
    let entry = |(name, object): (&String, &PathBuf)| {
        format!(
            "[[app]]\nname = \"{name}\"\nobject = \"{}\"\nstage = \"observe\"\n{keys}\n",
            object.display()
        )
    };
    apps.iter().map(entry).collect()
}

#[test]
#[ignore = "an attack of `make hostile`"]
fn hostile_apps_in_the_kernel_leave_it_not() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let mut apps = build_all_of(lab, "hostile")?;
        apps.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
        let mut verdicts = Verdicts::default();
        let names: Vec<String> = apps.keys().cloned().collect();
        for group in names.chunks(AT_ONCE) {
            let some = apps.iter().filter(|(name, _)| group.contains(name));
            let some = some.map(|(name, object)| (name.clone(), object.clone())).collect();
            let name = format!("in the kernel: {}", group.join(", "));
            verdicts.judge(&name, in_the_kernel(lab, &some));
        }
        verdicts.judge("spoilt sockets of the kernel", spoilt_sockets(lab));
        verdicts.judge("a flood to the monitor from the kernel", flooded_monitor(lab));
        verdicts.finish()
    });
}

/// An app in the kernel is trusted with the kernel's privileges; these are neither files nor programs nor other processes.
fn in_the_kernel(lab: &Lab, apps: &BTreeMap<String, PathBuf>) -> anyhow::Result<String> {
    let config = entries(apps, "host = \"kernel\"");
    configure(&["[controller]\nworkers = 1\n\n[zones]\nrequire = \"full\"\n\n", &config])?;
    let rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
    let said = listen(lab, &rosemary, apps)?;
    let (mut got, mut refused) = (Vec::new(), 0);
    for (app, attempts) in &said {
        for (what, how) in attempts {
            if how.starts_with("GOT") && what != OWN {
                got.push(format!("{app}: {what} {how}"));
            } else {
                refused += 1;
            }
        }
    }
    println!("in the kernel: {got:#?}");
    let mut rosemary = rosemary;
    rosemary.must_run()?;
    let status = rosemary.status()?.context("it answers")?;
    ensure!(status.programs.kernel.restarts == 0, "{:?}", status.programs.kernel);
    ensure!(got.is_empty(), "{got:#?}");
    Ok(format!("{refused} attempts of {} apps refused", said.len()))
}

/// After the app has spoilt the listening sockets and ended the kernel, the next kernel serves all switches, and the app is in a zone.
fn spoilt_sockets(lab: &Lab) -> anyhow::Result<String> {
    let keys = "stage = \"observe\"\nhost = \"kernel\"\n";
    let app = in_c(lab, "sockets", "system/outside/apps/sockets.c", keys)?;
    configure(&["[[app]]\nname = \"learning-switch\"\n\n", &app])?;
    let mut net = Net::start(lab, Of::V1_3)?;
    ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.received > 0, "there is a flow");
    let before = net.status()?;
    let mut pings = net.h1.ping_in_background(&net.h2, 10_000, INTERVAL)?;
    pings.wait_for(3, SOON)?;
    net.h3.ping(&net.h1, 1, INTERVAL)?;
    let began = Instant::now();
    let dpid = net.s1.dpid();
    let after = net.rosemary.wait_for("the kernel is back", SOON * 2, |status| {
        let is_new = status.programs.kernel.pid != before.programs.kernel.pid;
        let is_there = status.switch(&dpid).is_some();
        let app = status.app("sockets").filter(|it| it.state == ProgramState::Running)?;
        (is_new && is_there && app.host == "user").then(|| status.clone())
    })?;
    let took = began.elapsed();
    let s2 = lab.switch("s2", Of::V1_3)?;
    net.rosemary.wait_for_switch(&s2)?;
    ensure!(net.h1.ping(&net.h3, 20, INTERVAL)?.received > 10, "new flows work");
    ensure!(pid_of(&after, APP) == pid_of(&before, APP), "the learning switch was restarted");
    ensure!(after.programs.monitor.pid == before.programs.monitor.pid, "the monitor runs");
    let report = pings.end()?;
    let last = report.replies.last().map_or(0, |reply| reply.seq);
    ensure!(last as usize == report.replies.len(), "{report:?}");
    let (_, incidents) = run(lab, &["incidents", "--json"])?;
    ensure!(incidents.contains("sockets"), "no incident names the app: {incidents}");
    Ok(format!("a kernel served again after {took:?}, the app is in a zone"))
}

fn pid_of(status: &cli::status::Report, app: &str) -> Option<u32> {
    status.app(app).and_then(|app| app.pid)
}

/// The app sends messages without end to the monitor, by the kernel's control socket.
fn flooded_monitor(lab: &Lab) -> anyhow::Result<String> {
    let apps = build_all_of(lab, "hostile/flood")?;
    let config = entries(&apps, "host = \"kernel\"");
    configure(&["[[app]]\nname = \"learning-switch\"\n\n", &config])?;
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
    let before = rosemary.status()?.context("it answers")?;
    let slowest = (0..40).map(|_| {
        let begin = Instant::now();
        let answers = rosemary.status().is_ok();
        lab.pause(INTERVAL * 5).map(|()| (answers, begin.elapsed()))
    });
    let slowest = slowest.collect::<Result<Vec<_>, _>>()?;
    let slowest = slowest.iter().map(|(_, took)| *took).max().context("some")?;
    rosemary.must_run()?;
    let after = rosemary.wait_for("the kernel and the app run", SOON * 2, |status| {
        let app = status.app("control-flood")?;
        let is_calm = app.host == "user" || status.programs.kernel.restarts == 0;
        (status.programs.kernel.state == ProgramState::Running && is_calm).then(|| status.clone())
    })?;
    ensure!(after.programs.monitor.pid == before.programs.monitor.pid, "the monitor runs");
    ensure!(pid_of(&after, APP) == pid_of(&before, APP), "the learning switch was restarted");
    ensure!(slowest < SOON / 4, "a status took {slowest:?}");
    let app = after.app("control-flood").context("it is there")?;
    Ok(format!(
        "the kernel restarted {} times, the app is in the {}, a status took {slowest:?}",
        after.programs.kernel.restarts, app.host
    ))
}

#[test]
#[ignore = "an attack of `make hostile`"]
fn walls_without_root_stand_or_are_reported() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let mut verdicts = Verdicts::default();
        let program = as_user(lab, "exec \"$@\"")?;
        verdicts.judge("greedy apps without root and cgroups", greedy(lab, &program));
        verdicts.judge("without root, /proc hides processes", hidden_processes(lab, &program));
        verdicts.finish()
    });
}

/// Each greedy app gets no more than it may, or what it may get is said; the learning switch runs on.
fn greedy(lab: &Lab, program: &std::path::Path) -> anyhow::Result<String> {
    let apps = build_all_of(lab, "hostile/greedy")?;
    let file = lab.files().join("greedy.toml");
    let mut seen = Vec::new();
    for (name, object) in &apps {
        let one = BTreeMap::from([(name.clone(), object.clone())]);
        let limits = format!("limits = {{ memory = \"{MEMORY_MIB} MiB\" }}\n");
        let text = format!("[[app]]\nname = \"{APP}\"\n\n{}", entries(&one, &limits));
        fs::write(&file, text)?;
        let mut rosemary =
            Rosemary::start(lab, program, &["--config", &file.display().to_string()])?;
        let before = rosemary.status()?.context("it answers")?;
        let (begin, mut most, mut slowest) = (Instant::now(), 0, Duration::ZERO);
        while begin.elapsed() < Duration::from_secs(5) {
            let asked = Instant::now();
            let status = rosemary.status()?;
            slowest = slowest.max(asked.elapsed());
            let pid = status.and_then(|status| pid_of(&status, name));
            most = most.max(pid.map_or(0, tree_kib) / 1024);
            lab.pause(INTERVAL)?;
        }
        rosemary.must_run()?;
        let after = rosemary.wait_for("it answers", SOON, |status| Some(status.clone()))?;
        ensure!(
            after.programs.kernel == before.programs.kernel,
            "{name}: the kernel was restarted"
        );
        ensure!(
            pid_of(&after, APP) == pid_of(&before, APP),
            "{name}: the learning switch was restarted"
        );
        ensure!(slowest < SOON / 2, "{name}: a status took {slowest:?}");
        ensure!(most < 6 * MEMORY_MIB, "{name} had {most} MiB");
        let log = rosemary.log();
        let marks = [
            "reached a hard limit",
            "exceeded a",
            "refused a system call",
            "memory limit",
            "handled none",
        ];
        let records = log.lines().filter(|line| {
            line.contains(name.as_str()) && marks.iter().any(|it| line.contains(it))
        });
        let records = records.count();
        seen.push(format!("{name}: {most} MiB, {records} records, status {slowest:.0?}"));
        rosemary.stop(rustix::process::Signal::TERM)?;
    }
    Ok(seen.join("; "))
}

/// Resident memory of a process and its descendants, in KiB.
fn tree_kib(pid: u32) -> u64 {
    let all = cli::lab::processes::tree(pid);
    all.iter().filter_map(|it| super::beside::memory_kib(it.pid).ok()).sum()
}

/// Where the monitor cannot see the memory of its children, the log and `rosemary doctor` say so.
fn hidden_processes(lab: &Lab, program: &std::path::Path) -> anyhow::Result<String> {
    lab.run("mount", &["-t", "proc", "-o", "hidepid=2", "proc", "/proc"])?;
    let file = lab.files().join("hidden.toml");
    fs::write(&file, format!("[[app]]\nname = \"{APP}\"\n"))?;
    let outcome = (|| {
        let mut rosemary =
            Rosemary::start(lab, program, &["--config", &file.display().to_string()])?;
        let line = rosemary.wait_for_log(&["hidepid"], SOON)?;
        let doctor = lab.command(program).arg("doctor").output()?;
        let text = String::from_utf8_lossy(&doctor.stdout).into_owned();
        ensure!(text.contains("hidepid"), "the doctor does not say it: {text}");
        Ok(line)
    })();
    lab.run("umount", &["/proc"])?;
    outcome
}

/// Without namespaces, what a hostile app gets is behind a wall that the log names as missing.
#[test]
#[ignore = "an attack of `make hostile`"]
fn walls_without_namespaces_stand_or_are_reported() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let none = "exec unshare -r sh -c 'echo 0 > /proc/sys/user/max_user_namespaces && \
                    exec setpriv --bounding-set=-all --inh-caps=-all \"$0\" \"$@\"' \"$@\"";
        let program = as_user(lab, none)?;
        let apps = build_all_of(lab, "hostile")?;
        let file = lab.files().join("rosemary.toml");
        fs::write(&file, entries(&apps, ""))?;
        let mut rosemary =
            Rosemary::start(lab, &program, &["--config", &file.display().to_string()])?;
        let said = listen(lab, &rosemary, &apps)?;
        let missing = rosemary.wait_for_log(&["as far as this system allows"], SOON)?;
        let (mut unexplained, mut explained) = (Vec::new(), Vec::new());
        for (app, attempts) in &said {
            for (what, _) in attempts.iter().filter(|(_, how)| how.starts_with("GOT")) {
                let walls = match app.as_str() {
                    "core" | "files" | "proc" | "shm" | "disk" | "inodes" | "locks"
                    | "descriptors" | "root" | "setuid" => FILES,
                    "kill-all" | "kill-parent" | "processes" | "stop" | "scheduling" => PROCESSES,
                    _ => &[],
                };
                let is_named = walls.iter().any(|wall| missing.contains(wall));
                let list = if is_named { &mut explained } else { &mut unexplained };
                list.push(format!("{app}: {what}"));
            }
        }
        println!("outside: behind walls that are missing: {explained:#?}");
        let mut verdicts = Verdicts::default();
        let outcome = (|| {
            ensure!(unexplained.is_empty(), "{unexplained:#?}; the log says {missing}");
            let attempts: usize = said.values().map(BTreeMap::len).sum();
            Ok(format!(
                "{} of {attempts} attempts succeeded, all behind walls that the log names",
                explained.len()
            ))
        })();
        verdicts.judge("hostile apps without namespaces", outcome);
        verdicts.finish()
    });
}
