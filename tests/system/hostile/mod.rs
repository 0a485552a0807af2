//! Hostile apps (`crates/apps/hostile`) and the sandbox around them.
//!
//! Each app tries its attacks and reports `GOT` or `REFUSED` for each. Inside the sandbox every
//! attempt must be refused, and the monitor must log the system calls. The same apps without a
//! sandbox must succeed: otherwise they would prove nothing.

mod all;
mod fuzz;
mod list;
mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use cli::lab::{Lab, Rosemary};
use control::operator::ProgramState;
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, in_a_lab_for, programs_for_all, rosemary_binary};
use sys::cgroup::Tree;
use sys::sandbox::seccomp::{Condition, EMULATED, Profile, SyscallRule};

/// The configuration of root's Rosemary.
const CONFIG: &str = "/etc/rosemary/rosemary.toml";

/// Attempts that fail without a sandbox: the rings' memory seals prevent them.
const SEALED: [&str; 4] = [
    "mapping the kernel's memory for writing",
    "sealing shared memory",
    "resizing shared memory",
    "making the kernel's records writable",
];

/// Time for about thirty processes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time to also compile about thirty apps, on an emulated machine.
const LONG: Duration = Duration::from_secs(360);

/// The attempts of an app and their results.
pub(crate) type Attempts = BTreeMap<String, String>;

#[test]
fn sandboxed_hostile_apps_fail_and_are_logged() {
    in_a_lab_for(LONG, |lab| {
        let apps = build(lab)?;
        fs::write(CONFIG, format!("[zones]\nrequire = \"full\"\n\n{}", config(&apps)))?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        contained(lab, &mut rosemary, &apps)?;
        // As root, the monitor also sees the arguments of a call. It logs ten calls per second, so
        // the logged paths depend on the speed of the app.
        for about in ["mount\" about=\"/nowhere", "openat\" about=\"/"] {
            println!("{}", rosemary.wait_for_log(&["refused a system call", about], SOON)?);
        }
        Ok(())
    });
}

#[test]
fn sandbox_without_root_contains_hostile_apps() {
    in_a_lab_for(LONG, |lab| {
        let apps = build(lab)?;
        let rosemary = as_user(lab, "exec \"$@\"")?;
        let file = lab.files().join("rosemary.toml");
        fs::write(&file, format!("[zones]\nrequire = \"full\"\n\n{}", config(&apps)))?;
        let file = file.display().to_string();
        let mut rosemary = Rosemary::start(lab, &rosemary, &["--config", &file])?;
        contained(lab, &mut rosemary, &apps)
    });
}

#[test]
fn descriptor_flood_kills_the_app_only() {
    in_a_lab(|lab| {
        let apps = build_all_of(lab, "hostile/flood")?;
        fs::write(CONFIG, config(&apps))?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let before = rosemary.status()?.context("it answers")?;
        let words =
            ["killed the program", "control-flood", "it sent a message after it had failed"];
        println!("{}", rosemary.wait_for_log(&words, SOON)?);
        let after = rosemary.wait_for("its restart is delayed", SOON, |status| {
            let app = status.app("control-flood")?;
            (app.restarts > 1).then(|| status.clone())
        })?;
        assert_eq!(before.programs.kernel, after.programs.kernel);
        let held = fs::read_dir(format!("/proc/{}/fd", after.programs.monitor.pid))?.count();
        println!("the monitor holds {held} descriptors");
        assert!(held < 60, "{held}");
        Ok(())
    });
}

#[test]
fn missing_namespaces_are_reported() {
    in_a_lab(|lab| {
        // A user namespace that allows no nested one and has no capability.
        let none = "exec unshare -r sh -c 'echo 0 > /proc/sys/user/max_user_namespaces && \
                    exec setpriv --bounding-set=-all --inh-caps=-all \"$0\" \"$@\"' \"$@\"";
        let rosemary = as_user(lab, none)?;
        let mut running = Rosemary::start(lab, &rosemary, &[])?;
        let line = running.wait_for_log(&["confined as far as", "learning-switch"], SOON)?;
        println!("{line}");
        assert!(line.contains("mount namespace (") && !line.contains("system calls ("), "{line}");
        running.stop(rustix::process::Signal::TERM)?;

        let file = lab.files().join("rosemary.toml");
        fs::write(&file, "[zones]\nrequire = \"full\"\n")?;
        let program = rosemary.display().to_string();
        let refused = lab.run(&program, &["up", "--config", &file.display().to_string()]);
        let refused = refused.expect_err("it does not start").to_string();
        assert!(refused.contains("zones.require is \"full\""), "{refused}");
        assert!(refused.contains("mount namespace (") && refused.contains("doctor"), "{refused}");

        let told = lab.run(&program, &["doctor", "--json"]);
        assert!(told.is_err(), "the exit code says that there are gaps: {told:?}");
        Ok(())
    });
}

/// Returns a command that runs `rosemary` as an unprivileged user; `how` is a shell wrapper for
/// `$@`.
pub(crate) fn as_user(lab: &Lab, how: &str) -> anyhow::Result<PathBuf> {
    const USER: u32 = 61_234;
    for dir in ["runtime", "state"] {
        let dir = lab.files().join(dir);
        fs::create_dir(&dir)?;
        std::os::unix::fs::chown(&dir, Some(USER), Some(USER))?;
    }
    let (files, rosemary) = (lab.files().display(), programs_for_all()?.join("rosemary"));
    let script = lab.files().join("rosemary-of-user.sh");
    let text = format!(
        "#!/bin/sh\nexport HOME={files} ROSEMARY_RUNTIME_DIR={files}/runtime ROSEMARY_STATE_DIR={files}/state\n\
         set -- '{}' \"$@\"\n\
         exec setpriv --reuid={USER} --regid={USER} --clear-groups sh -c '{}' sh \"$@\"\n",
        rosemary.display(),
        how.replace('\'', "'\\''"),
    );
    fs::write(&script, text)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    Ok(script)
}

/// Checks that every attempt of every app is refused, logged, and without effect on others.
fn contained(
    lab: &Lab,
    rosemary: &mut Rosemary<'_>,
    apps: &BTreeMap<String, PathBuf>,
) -> anyhow::Result<()> {
    let before = rosemary.status()?.context("it answers")?;
    let said = listen(lab, rosemary, apps)?;
    let log = rosemary.log();
    let mut escaped = Vec::new();
    for (app, attempts) in &said {
        for (what, how) in attempts.iter().filter(|(_, how)| how.starts_with("GOT")) {
            escaped.push(format!("{app}: {how} {what}"));
        }
    }
    let attempts: usize = said.values().map(BTreeMap::len).sum();
    let tallied = format!("{} contained, {} escaped", said.len(), escaped.len());
    println!("{attempts} attempts of {} apps: {tallied}", said.len());
    assert!(escaped.is_empty(), "{escaped:#?}");
    for (app, call) in [
        ("ptrace", "call=\"ptrace\""),
        ("kill-parent", "call=\"tgkill\""),
        ("mount", "call=\"mount\""),
        ("exec", "call=\"execve\""),
        ("bpf", "call=\"bpf\""),
        ("raw-socket", "call=\"socket\""),
    ] {
        let told = log.lines().any(|line| {
            line.contains("refused a system call")
                && line.contains(&format!("app=\"{app}\""))
                && line.contains(call)
        });
        assert!(told, "{app} {call}:\n{log}");
    }
    let after = rosemary.wait_for("it answers", SOON, |status| Some(status.clone()))?;
    assert_eq!(before.programs.kernel, after.programs.kernel);
    for app in &after.programs.apps {
        assert_eq!((app.state, app.restarts), (ProgramState::Running, 0), "{app:?}");
    }
    Ok(())
}

#[test]
fn unsandboxed_hostile_apps_succeed() {
    in_a_lab(|lab| {
        let apps = build(lab)?;
        fs::write(CONFIG, config(&apps))?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &["--unconfined"])?;
        rosemary.wait_for_log(&["UNCONFINED"], SOON)?;
        let said = listen(lab, &rosemary, &apps)?;
        let mut nothing = Vec::new();
        let mut kept = Vec::new();
        for (app, attempts) in &said {
            for (what, how) in attempts.iter().filter(|(_, how)| !how.starts_with("GOT")) {
                println!("without a sandbox: {app}: {what}: {how}");
                if !SEALED.contains(&what.as_str()) {
                    kept.push(what.clone());
                }
            }
            if !attempts.values().any(|how| how.starts_with("GOT")) {
                nothing.push(app);
            }
        }
        let escaped = said.values().filter(|it| it.values().any(|how| how.starts_with("GOT")));
        println!("{} of {} escape", escaped.count(), said.len());
        assert!(nothing.is_empty(), "got nothing at all: {nothing:?}");
        // A machine may lack one or the other: modules, x32.
        assert!(kept.len() <= 4, "{kept:?}");
        Ok(())
    });
}

#[test]
fn zone_can_make_exactly_the_listed_system_calls() {
    in_a_lab(|lab| {
        let apps = build_all_of(lab, "hostile/probe")?;
        fs::write(CONFIG, format!("[zones]\nrequire = \"full\"\n\n{}", config(&apps)))?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_log(&["probe: DONE"], PATIENCE)?;
        let log = rosemary.log();
        let numbers = |word: &str| -> BTreeSet<i64> {
            let lines = log.lines().filter_map(|line| line.split_once(&format!("probe: {word} ")));
            let numbers = |(_, rest): (_, &'_ str)| {
                rest.split(' ').map_while(|number| number.parse().ok()).collect::<Vec<i64>>()
            };
            lines.flat_map(numbers).collect()
        };
        let (made, left) = (numbers("MADE"), numbers("LEFT"));
        // Calls filtered by argument were first made with wrong arguments, then with permitted
        // ones. A file opened for writing may be in /tmp, which a null path does not show.
        let is_counted = Tree::find().counts_swap();
        let whatever = |entry: &&SyscallRule| match entry.condition {
            Condition::Always | Condition::ToRead(_) | Condition::OwnRoot => true,
            Condition::Counted => is_counted,
            _ => false,
        };
        let decided = Profile::Zone.allowed().filter(|entry| {
            !matches!(entry.condition, Condition::Always | Condition::OwnRoot | Condition::Counted)
        });
        let decided: BTreeSet<i64> = decided.map(|entry| entry.number).collect();
        assert_eq!(numbers("SUITED"), decided, "with arguments that may be");
        let listed = Profile::Zone.allowed().filter(whatever).map(|entry| entry.number);
        // The app takes EPERM and ENOSYS for a refusal.
        let absent = rustix::io::Errno::NOSYS.raw_os_error();
        let done =
            EMULATED.iter().filter(|(_, _, error)| *error != absent).map(|(_, number, _)| *number);
        let listed: BTreeSet<i64> = listed.chain(done).collect();
        let expected: BTreeSet<i64> = listed.difference(&left).copied().collect();
        let name = |number: &i64| {
            let entry = Profile::Zone.allowed().find(|entry| entry.number == *number);
            entry.map_or_else(|| number.to_string(), |entry| entry.name.to_owned())
        };
        let names = |set: &mut dyn Iterator<Item = &i64>| set.map(name).collect::<Vec<_>>();
        let (too_many, too_few) =
            (names(&mut made.difference(&expected)), names(&mut expected.difference(&made)));
        let left = names(&mut left.iter());
        println!("{} calls can be made, all of them listed; left out: {left:?}", made.len());
        assert!(too_many.is_empty() && too_few.is_empty(), "{too_many:?} {too_few:?}");
        assert!(made.len() > 50, "{made:?}");
        Ok(())
    });
}

/// Builds every app; returns names and objects.
fn build(lab: &Lab) -> anyhow::Result<BTreeMap<String, PathBuf>> {
    build_all_of(lab, "hostile")
}

pub(crate) fn build_all_of(lab: &Lab, folder: &str) -> anyhow::Result<BTreeMap<String, PathBuf>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = here.join("../crates/apps").join(folder);
    let headers = here.join("../crates/sdk/c");
    let mut apps = BTreeMap::new();
    for entry in fs::read_dir(&sources)? {
        let source = entry?.path();
        if source.extension().is_none_or(|it| it != "c") {
            continue;
        }
        let name = source.file_stem().context("a file has a name")?.to_string_lossy();
        let name = name.replace('_', "-");
        let object = lab.files().join(format!("{name}.so"));
        let [source, object_text, headers] =
            [&source, &object, &headers].map(|path| path.display().to_string());
        let flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"];
        lab.run("cc", &[&flags[..], &[&headers, "-o", &object_text, &source]].concat())?;
        apps.insert(name, object);
    }
    Ok(apps)
}

pub(crate) fn config(apps: &BTreeMap<String, PathBuf>) -> String {
    apps.iter().fold(String::new(), |mut text, (name, object)| {
        let object = object.display();
        let _ = writeln!(
            text,
            "[[app]]\nname = \"{name}\"\nobject = \"{object}\"\nstage = \"observe\"\n"
        );
        text
    })
}

/// Waits for the reports of all apps; returns them.
pub(crate) fn listen(
    lab: &Lab,
    rosemary: &Rosemary<'_>,
    apps: &BTreeMap<String, PathBuf>,
) -> anyhow::Result<BTreeMap<String, Attempts>> {
    let said = |log: &str| {
        let mut said: BTreeMap<String, Attempts> = BTreeMap::new();
        let mut done = Vec::new();
        for line in log.lines() {
            let Some((_, rest)) = line.split_once("app=\"") else { continue };
            let Some((app, _)) = rest.split_once('"') else { continue };
            if line.ends_with(" DONE") || line.contains(" DONE ") {
                done.push(app.to_owned());
            }
            for how in ["GOT ", "REFUSED "] {
                let Some((_, what)) = line.split_once(how) else { continue };
                let what = what.split(" app=").next().unwrap_or(what);
                let (what, why) = what.split_once(": ").unwrap_or((what, ""));
                let what = what.split(" (").next().unwrap_or(what);
                let attempts = said.entry(app.to_owned()).or_default();
                attempts.insert(what.replace("\\'", "'"), format!("{how}{why}"));
            }
        }
        done.sort();
        done.dedup();
        (said, done)
    };
    let done = lab.wait_for("every hostile app is done", PATIENCE, |evidence| {
        let log = rosemary.log();
        let (_, done) = said(&log);
        let missing: Vec<&String> = apps.keys().filter(|app| !done.contains(app)).collect();
        evidence.0 = format!("not done: {missing:?}\n{}", tail(&log));
        Ok(missing.is_empty().then_some(()))
    });
    done?;
    let (said, _) = said(&rosemary.log());
    anyhow::ensure!(said.len() == apps.len(), "some said nothing: {:?}", said.keys());
    Ok(said)
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
