//! Services: only apps that name them can use them, each runs in its own process, and a killed one
//! restarts.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Rosemary};
use cli::status::Report;
use control::operator::ProgramState;
use control::operator::ProgramUsage;
use rosemary_tests::apps::{configure, in_c, in_rust};
use rosemary_tests::greeter::Greeter;
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, kill, rosemary_binary};

/// The complete sandbox, also for services.
const FULL: &str = "[zones]\nrequire = \"full\"\n\n";

const STORAGE: &str = "services = [\"storage\"]";

fn start<'lab>(lab: &'lab Lab, keeper: &str) -> anyhow::Result<Rosemary<'lab>> {
    let observer = in_rust("observer", "stage = \"observe\"\nservices = [\"storage\"]");
    configure(&[FULL, &in_rust("keeper", keeper), &observer])?;
    Ok(Rosemary::start(lab, &rosemary_binary(), &[])?)
}

fn service(status: &Report, name: &str) -> Option<(u32, u64)> {
    let service = status.programs.services.iter().find(|it| it.name == name)?;
    (service.state == ProgramState::Running).then_some((service.pid?, service.restarts))
}

fn app(status: &Report, name: &str) -> Option<u32> {
    status.app(name).filter(|app| app.state == ProgramState::Running)?.pid
}

#[test]
fn stored_data_survives_restarts() {
    in_a_lab(|lab| {
        let mut rosemary = start(lab, STORAGE)?;
        rosemary.wait_for_log(&["keeper", "start 1 is kept"], SOON)?;
        let status = rosemary.status()?.context("it answers")?;
        kill(app(&status, "keeper").context("it runs")?)?;
        rosemary.wait_for_log(&["keeper", "start 2 is kept"], SOON)?;
        // The surviving app counts the arrival of the new storage process as a start too.
        let (pid, _) = service(&status, "storage").context("it runs")?;
        kill(pid)?;
        rosemary.wait_for_log(&["keeper", "start 3 is kept"], SOON)?;
        let after = rosemary.status()?.context("it answers")?;
        ensure!(service(&after, "storage").is_some_and(|(it, times)| it != pid && times == 1));
        ensure!(after.programs.kernel == status.programs.kernel, "the kernel is as it was");
        ensure!(app(&after, "observer") == app(&status, "observer"), "the others are, too");
        rosemary.stop(rustix::process::Signal::TERM)?;
        let mut rosemary = start(lab, STORAGE)?;
        rosemary.wait_for_log(&["keeper", "start 4 is kept"], SOON)?;
        Ok(())
    });
}

#[test]
fn unnamed_service_does_not_run() {
    in_a_lab(|lab| {
        configure(&[FULL, &in_rust("keeper", ""), &in_rust("observer", "stage = \"observe\"")])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_log(&["keeper", "not asked: the service is not named"], SOON)?;
        let status = rosemary.status()?.context("it answers")?;
        let services: Vec<&str> =
            status.programs.services.iter().map(|it| it.name.as_str()).collect();
        ensure!(services == ["log", "northbound"], "{services:?}");
        ensure!(!rosemary.log().contains("is there"), "{}", rosemary.log());
        rosemary.stop(rustix::process::Signal::TERM)?;

        // A service named by one app is not available to others.
        let observer = in_rust("observer", &format!("stage = \"observe\"\n{STORAGE}"));
        configure(&[FULL, &in_rust("keeper", ""), &observer])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_log(&["clients: app was connected", "observer"], SOON)?;
        rosemary.wait_for_log(&["keeper", "not asked: the service is not named"], SOON)?;
        let log = rosemary.log();
        ensure!(!log.contains("is there"), "{log}");
        Ok(())
    });
}

#[test]
fn foreign_data_requires_a_grant() {
    in_a_lab(|lab| {
        let mut rosemary = start(lab, STORAGE)?;
        for what in ["reading", "writing"] {
            let refused = format!("{what} data of observer: Refused(NotGranted)");
            rosemary.wait_for_log(&["keeper", &refused], SOON)?;
            let record = format!("{what} another app's data");
            let right = "storage.";
            let words = ["denied", "app=\"keeper\"", &record, right, "observer"];
            println!("{}", rosemary.wait_for_log(&words, SOON)?);
        }
        rosemary.stop(rustix::process::Signal::TERM)?;

        let granted = format!(
            "{STORAGE}\ncapabilities = [\"storage.read:observer\", \"storage.write:observer\"]"
        );
        let mut rosemary = start(lab, &granted)?;
        rosemary.wait_for_log(&["keeper", "reading data of observer: Nothing"], SOON)?;
        rosemary.wait_for_log(&["keeper", "writing data of observer: Done"], SOON)?;
        Ok(())
    });
}

#[test]
fn broker_connects_only_to_granted_hosts() {
    in_a_lab(|lab| {
        let greeter = Greeter::listen()?;
        let keys = "services = [\"broker\"]\ncapabilities = [\"net.connect:127.0.0.1:7007\"]";
        let mut rosemary = start(lab, keys)?;
        greeter.welcome()?;
        rosemary.wait_for_log(&["keeper", "heard", "welcome"], SOON)?;
        rosemary.wait_for_log(&["keeper", "broker: Ok(NotGranted)"], SOON)?;
        let words = ["denied", "app=\"keeper\"", "net.connect:localhost:7007"];
        println!("{}", rosemary.wait_for_log(&words, SOON)?);
        let log = rosemary.log();
        ensure!(!log.contains("refused a system call"), "{log}");
        Ok(())
    });
}

#[test]
fn kernel_app_keeps_its_data_over_restarts_and_demotion() {
    in_a_lab(|lab| {
        fs::write("/etc/rosemary/last-start", "7\n")?;
        let keys = format!("host = \"kernel\"\nconfig = \"last-start\"\n{STORAGE}");
        let observer = in_rust("observer", &format!("stage = \"observe\"\n{STORAGE}"));
        configure(&["[controller]\nworkers = 2\n\n", FULL, &in_rust("keeper", &keys), &observer])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        // Each worker has an instance with a socket of its own, and all have one namespace.
        rosemary.wait_for_log(&["keeper", "start 1 is kept"], SOON)?;
        rosemary.wait_for_log(&["keeper", "start 2 is kept"], SOON)?;
        let refused = "reading data of observer: Refused(NotGranted)";
        rosemary.wait_for_log(&["keeper", refused], SOON)?;
        rosemary.wait_for_log(&["denied", "app=\"keeper\"", "storage.read:observer"], SOON)?;
        let status = rosemary.status()?.context("it answers")?;
        ensure!(app(&status, "keeper") == status.programs.kernel.pid, "the kernel hosts it");

        kill(service(&status, "storage").context("it runs")?.0)?;
        rosemary.wait_for_log(&["keeper", "start 4 is kept"], SOON)?;
        let after = rosemary.status()?.context("it answers")?;
        ensure!(after.programs.kernel == status.programs.kernel, "the kernel is as it was");

        kill(status.programs.kernel.pid.context("it runs")?)?;
        rosemary.wait_for_log(&["keeper", "start 6 is kept"], SOON)?;
        let after = rosemary.status()?.context("it answers")?;
        ensure!(app(&after, "keeper") == after.programs.kernel.pid, "the kernel hosts it again");

        // With start 7, an instance panics: the app moves to a zone, and has the same data there.
        kill(service(&after, "storage").context("it runs")?.0)?;
        rosemary.wait_for_log(&["keeper", "continues as a user app"], SOON)?;
        rosemary.wait_for_log(&["app: keeper:", "is kept"], SOON)?;
        let log = rosemary.log();
        let in_zone = log.lines().find(|it| it.contains("app: keeper:") && it.contains("is kept"));
        let counted =
            |number: u32| in_zone.is_some_and(|it| it.contains(&format!("start {number} ")));
        ensure!((8..=10).any(counted), "{in_zone:?}");
        let moved = rosemary.status()?.context("it answers")?;
        ensure!(moved.programs.kernel == after.programs.kernel, "the kernel goes on");
        ensure!(moved.app("keeper").is_some_and(|it| it.host == "user"), "it is a user app");
        ensure!(!log.contains("refused a system call"), "{log}");
        Ok(())
    });
}

#[test]
fn kernel_app_connects_through_the_broker() {
    in_a_lab(|lab| {
        let greeter = Greeter::listen()?;
        let keys = "host = \"kernel\"\nservices = [\"broker\"]\n\
                    capabilities = [\"net.connect:127.0.0.1:7007\"]";
        configure(&["[controller]\nworkers = 1\n\n", FULL, &in_rust("keeper", keys)])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        greeter.welcome()?;
        rosemary.wait_for_log(&["keeper", "heard", "welcome"], SOON)?;
        rosemary.wait_for_log(&["denied", "app=\"keeper\"", "net.connect:localhost:7007"], SOON)?;
        let log = rosemary.log();
        ensure!(!log.contains("refused a system call"), "{log}");
        Ok(())
    });
}

#[test]
fn state_is_private_to_its_service() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    in_a_lab(|lab| {
        let mut rosemary = start(lab, STORAGE)?;
        rosemary.wait_for_log(&["keeper", "start 1 is kept"], SOON)?;
        let status = rosemary.status()?.context("it answers")?;
        let services = &status.programs.services[..2];
        ensure!(services.len() == 2 && services[0].uid != services[1].uid, "{services:?}");
        for service in services {
            let file = fs::metadata(format!("/var/lib/rosemary/{}.redb", service.name))?;
            ensure!(file.uid() == service.uid, "{file:?}");
            ensure!(file.permissions().mode() & 0o777 == 0o600, "{file:?}");
            ensure!(service.uid >= 0x7001_0000, "a user of its own: {service:?}");
        }
        Ok(())
    });
}

#[test]
fn damaged_storage_is_held_unchanged() {
    in_a_lab(|lab| {
        configure(&[FULL, &in_rust("keeper", STORAGE)])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_log(&["keeper", "start 1 is kept"], SOON)?;
        let status = rosemary.status()?.context("it answers")?;
        let (pid, _) = service(&status, "storage").context("it runs")?;
        let path = "/var/lib/rosemary/storage.redb";
        let file = fs::OpenOptions::new().write(true).open(path)?;
        file.write_all_at(&[0; 4096], 0)?;
        let before = fs::read(path)?;
        kill(pid)?;
        rosemary.wait_for_log(&["service was held", path, "stop Rosemary", "backup"], SOON)?;
        lab.pause(Duration::from_secs(3))?;
        let status = rosemary.status()?.context("it answers")?;
        let services = &status.programs.services;
        let storage = services.iter().find(|it| it.name == "storage").context("it is named")?;
        ensure!((storage.state, storage.restarts) == (ProgramState::Held, 1), "{storage:?}");
        let why = storage.last_exit.as_deref().unwrap_or_default();
        ensure!(why.contains(path) && why.contains("stop Rosemary"), "{storage:?}");
        ensure!(rosemary.log().matches("service was held").count() == 1, "{}", rosemary.log());
        ensure!(fs::read(path)? == before, "nothing was written over it");

        rosemary.stop(rustix::process::Signal::TERM)?;
        fs::rename(path, "/var/lib/rosemary/damaged")?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_log(&["keeper", "start 1 is kept"], SOON)?;
        Ok(())
    });
}

#[test]
fn full_disk_loses_nothing_and_recovers() {
    in_a_lab(|lab| {
        let state = lab.files().join("small");
        fs::create_dir(&state)?;
        let dir = state.display().to_string();
        lab.run("mount", &["-t", "tmpfs", "-o", "size=8m", "tmpfs", &dir])?;
        let ballast = state.join("ballast");
        fs::write(&ballast, vec![7; 1 << 20])?;
        configure(&[FULL, &in_rust("filler", STORAGE)])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &["--state-dir", &dir])?;
        let line = rosemary.wait_for_log(&["filler", "refused DiskFull after"], SOON)?;
        println!("{line}");
        rosemary.wait_for_log(&["could not use the disk", "free space"], SOON)?;
        rosemary.wait_for("the status says so", SOON, |status| {
            let is_it = |it: &String| {
                it.starts_with("data of apps cannot be stored: the disk is full; free")
            };
            status.health.reasons.iter().any(is_it).then_some(())
        })?;
        let full = rosemary.wait_for_log(&["filler", "values are there"], SOON)?;
        println!("{full}");
        let service = |status: &Report| service(status, "storage");
        let before = rosemary.status()?.context("it answers")?;
        fs::remove_file(&ballast)?;
        lab.wait_for("it goes on in the larger room", SOON, |evidence| {
            let log = rosemary.log();
            let counts = log.lines().filter_map(count);
            let (least, most) = (counts.clone().min(), counts.max());
            evidence.0 = format!("{least:?} {most:?}");
            Ok((most > least.map(|least| least + 10)).then_some(()))
        })?;
        let log = rosemary.log();
        ensure!(!log.contains("ERROR app: filler"), "{log}");
        let after = rosemary.status()?.context("it answers")?;
        ensure!(service(&before) == service(&after) && service(&after).is_some(), "it lives on");
        Ok(())
    });
}

/// Parses the number of values that the app found.
fn count(line: &str) -> Option<u32> {
    let (_, rest) = line.split_once("filler: all ")?;
    rest.split_once(" values are there")?.0.parse().ok()
}

#[test]
fn quota_is_reported_to_app_and_operator() {
    in_a_lab(|lab| {
        let quota = "[storage]\nbytes-per-app = \"100 KiB\"\n";
        configure(&[quota, FULL, &in_rust("filler", STORAGE)])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        // Each value has 16 KiB.
        rosemary.wait_for_log(&["filler", "refused Quota after 6 values"], SOON)?;
        rosemary.wait_for_log(&["filler", "all 6 values are there"], SOON)?;
        rosemary.wait_for_log(&["app=\"filler\"", "quota", "bytes-per-app"], SOON)?;
        Ok(())
    });
}

#[test]
fn disconnected_app_is_served_after_a_restart() {
    in_a_lab(|lab| {
        let offender = in_c(lab, "offender", "apps/offender.c", STORAGE)?;
        configure(&[FULL, &offender])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let times = |count: usize, what: &str| {
            lab.wait_for(format!("{what}, {count} times"), SOON, |evidence| {
                evidence.0 = rosemary.log();
                let lines = evidence.0.matches(&format!("offender: {what}")).count();
                Ok((lines == count).then_some(()))
            })
        };
        times(1, "was answered")?;
        times(1, "was cut off")?;
        let pid = |name: &str| -> anyhow::Result<u32> {
            let status = rosemary.status()?.context("it answers")?;
            let pid = app(&status, name).or_else(|| Some(service(&status, name)?.0));
            pid.context("it runs")
        };
        kill(pid("offender")?)?;
        times(2, "was answered")?;
        times(2, "was cut off")?;
        kill(pid("storage")?)?;
        times(3, "was answered")?;
        times(3, "was cut off")?;
        rosemary
            .wait_for_log(&["app=\"offender\"", "disconnected an app", "invalid request"], SOON)?;
        Ok(())
    });
}

#[test]
fn services_are_among_the_programs_of_top() {
    in_a_lab(|lab| {
        let mut rosemary = start(lab, STORAGE)?;
        rosemary.wait_for_log(&["keeper", "start 1 is kept"], SOON)?;
        lab.wait_for("they are seen", SOON, |evidence| {
            let json = lab.run(&rosemary_binary().display().to_string(), &["top", "--json"])?;
            let all: Vec<ProgramUsage> = serde_json::from_str(&json).unwrap_or_default();
            let seen = ["log", "storage"].into_iter().all(|name| {
                let it = all.iter().find(|it| it.name == name && it.kind == "service");
                let memory = it.and_then(|it| it.amount("memory")?.value);
                memory.is_some_and(|memory| (256 << 10..64 << 20).contains(&memory))
            });
            evidence.0 = json;
            Ok(seen.then_some(()))
        })?;
        Ok(())
    });
}
