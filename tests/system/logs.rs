//! The log service: lines survive the end of any program, each program has its own quota, and only
//! permitted users can read.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Rosemary, Running};
use control::log::{LogLevel, LogLine};
use control::operator::ProgramState;
use rosemary_tests::apps::{configure, in_c, in_rust};
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, kill, rosemary_binary, schema};
use rustix::process::{Pid, Signal};

/// The complete sandbox, also for the log service.
const FULL: &str = "[zones]\nrequire = \"full\"\n\n";

/// A limit that no app reaches.
const UNLIMITED: &str = "stage = \"observe\"\nlimits = { log-bytes-per-second = \"1 GiB\" }";

/// The app that numbers its lines.
const TELLER: &str = "app teller";

fn teller(lab: &Lab) -> anyhow::Result<String> {
    Ok(in_c(lab, "teller", "apps/gluttons/teller.c", UNLIMITED)?)
}

/// Returns the output of `rosemary ARGS...`.
fn rosemary(lab: &Lab, args: &[&str]) -> anyhow::Result<String> {
    Ok(lab.run(&rosemary_binary().display().to_string(), args)?)
}

/// Returns the status as JSON, which has the exit code 3 while Rosemary is degraded.
fn rosemary_status(lab: &Lab) -> anyhow::Result<String> {
    let output = lab.command(rosemary_binary()).args(["status", "--json"]).output()?;
    ensure!(output.status.code() == Some(3), "{output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns all lines of the log.
fn all(lab: &Lab) -> anyhow::Result<Vec<LogLine>> {
    let json = rosemary(lab, &["logs", "--json", "--since", "1d"])?;
    json.lines().map(|line| serde_json::from_str(line).context(line.to_owned())).collect()
}

/// Waits until the log has a line of this program with this text.
fn wait_for(lab: &Lab, program: &str, text: &str) -> anyhow::Result<Vec<LogLine>> {
    Ok(lab.wait_for(format!("{program} says {text}"), SOON, |evidence| match all(lab) {
        Ok(lines) => {
            let is_it = |it: &LogLine| it.program == program && it.text.contains(text);
            evidence.0 = format!("{:?}", lines.last());
            Ok(lines.iter().any(is_it).then_some(lines))
        }
        Err(error) => {
            evidence.0 = format!("{error:#}");
            Ok(None)
        }
    })?)
}

/// Returns the pid of the log service once it serves.
fn log_pid(rosemary: &mut Rosemary<'_>) -> anyhow::Result<u32> {
    Ok(rosemary.wait_for("the log serves", SOON, |status| {
        let log = status.programs.services.iter().find(|it| it.name == "log")?;
        (log.state == ProgramState::Running).then_some(log.pid?)
    })?)
}

/// Parses the number in a line of the teller.
fn told(line: &LogLine) -> Option<u64> {
    let (number, _) = line.text.strip_prefix("line ")?.split_once(' ')?;
    number.parse().ok().filter(|_| line.program == TELLER)
}

#[test]
fn log_survives_a_restart() {
    in_a_lab(|lab| {
        let keeper = in_rust("keeper", "services = [\"storage\"]");
        configure(&[FULL, &keeper, &in_rust("observer", "stage = \"observe\"")])?;
        let mut first = Rosemary::start(lab, &rosemary_binary(), &[])?;
        first.wait_for_log(&["keeper", "start 1 is kept"], SOON)?;
        let stopped = first.stop(Signal::TERM)?;
        ensure!(stopped.status.success() && stopped.took < Duration::from_secs(2), "{stopped:?}");
        let mut again = Rosemary::start(lab, &rosemary_binary(), &[])?;
        again.wait_for_log(&["keeper", "start 2 is kept"], SOON)?;
        let lines = wait_for(lab, "app keeper", "start 2 is kept")?;
        for (program, text, level) in [
            ("monitor", "Rosemary started", LogLevel::Info),
            ("monitor", "ready: switches at ", LogLevel::Info),
            ("monitor", "asked to stop", LogLevel::Info),
            ("monitor", "stopped program=\"kernel\"", LogLevel::Info),
            ("kernel", "kernel", LogLevel::Info),
            ("service storage", "service was ready", LogLevel::Info),
            ("service log", "service was ready", LogLevel::Info),
            ("app keeper", "storage is there", LogLevel::Info),
            ("app keeper", "start 1 is kept", LogLevel::Info),
        ] {
            let found = lines
                .iter()
                .any(|it| it.program == program && it.text.contains(text) && it.level == level);
            ensure!(found, "{program} did not say {text}: {lines:#?}");
        }
        let numbers: Vec<u64> = lines.iter().map(|line| line.number).collect();
        ensure!(numbers.iter().copied().eq(0..numbers.len() as u64), "{numbers:?}");

        let text = rosemary(lab, &["app", "logs", "keeper", "-n", "1000"])?;
        ensure!(text.contains("app keeper: start 1 is kept"), "{text}");
        ensure!(text.lines().all(|line| line.contains(" app keeper: ")), "{text}");
        let text = rosemary(lab, &["logs", "storage", "kernel", "--level", "info", "-n", "3"])?;
        ensure!(text.lines().count() == 3, "{text}");
        println!("{text}");
        let error = rosemary(lab, &["logs", "nobody"]).unwrap_err().to_string();
        ensure!(
            error.contains("no lines of nobody; it has lines of: ") && error.contains("app keeper")
        );
        let error = rosemary(lab, &["app", "logs", "nobody"]).unwrap_err().to_string();
        ensure!(error.contains("running apps: keeper, observer"), "{error}");
        Ok(())
    });
}

#[test]
fn killed_log_keeps_each_line_once() {
    in_a_lab(|lab| {
        configure(&["[log]\nbytes-per-program = \"1 GiB\"\n", FULL, &teller(lab)?])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let mut seen: BTreeMap<u64, LogLine> = BTreeMap::new();
        for round in 0..5_u64 {
            let log = log_pid(&mut rosemary)?;
            wait_for(lab, TELLER, "line ")?;
            lab.pause(Duration::from_millis(300 + round * 70))?;
            for line in all(lab)? {
                let known = seen.insert(line.number, line.clone());
                ensure!(known.as_ref().is_none_or(|known| *known == line), "{known:?}, {line:?}");
            }
            kill(log)?;
            // Below its minimum run time it would not restart immediately.
            rosemary.wait_for("another log serves", SOON, |status| {
                let log_now = status.programs.services.iter().find(|it| it.name == "log")?;
                (log_now.state == ProgramState::Running && log_now.pid != Some(log)).then_some(())
            })?;
        }
        lab.pause(Duration::from_secs(1))?;
        let lines = all(lab)?;
        for (number, line) in &seen {
            let found = lines.iter().find(|it| it.number == *number);
            ensure!(found == Some(line), "line {number} was {line:?}, is {found:?}");
        }
        let numbers: Vec<u64> = lines.iter().map(|line| line.number).collect();
        ensure!(
            numbers.iter().copied().eq(0..numbers.len() as u64),
            "a number is missing or twice"
        );
        let (mut last, mut missing) = (None, 0);
        let mut noted = false;
        for line in lines.iter().filter(|it| it.program == TELLER) {
            noted |= line.text.contains("are missing here");
            let Some(number) = told(line) else { continue };
            ensure!(last.is_none_or(|last| last < number), "{last:?} then {number}");
            let next = last.map_or(0, |last| last + 1);
            ensure!(next == number || noted, "{next} to {number} are missing, and nobody says so");
            missing += number - next;
            (last, noted) = (Some(number), false);
        }
        let last = last.context("it told something")?;
        println!(
            "5 kills: {} lines seen before, all there; of {last} {missing} missing",
            seen.len()
        );
        ensure!(seen.len() > 100, "{}", seen.len());
        Ok(())
    });
}

#[test]
fn hung_log_is_replaced() {
    in_a_lab(|lab| {
        // The monitor's queue must fill before the log service counts as hung.
        let keeper = in_rust("keeper", "services = [\"storage\"]");
        configure(&["[supervision]\nhang-seconds = 30\n", FULL, &keeper, &teller(lab)?])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_log(&["keeper", "start 1 is kept"], SOON)?;
        let log = log_pid(&mut rosemary)?;
        let pid = Pid::from_raw(log.cast_signed()).context("a process")?;
        rustix::process::kill_process(pid, Signal::STOP)?;
        let patience = Duration::from_secs(60);
        rosemary.wait_for_log(&["dropped lines that wait for the log service"], patience)?;
        let words = ["killed the program", "service log", "it did not answer"];
        rosemary.wait_for_log(&words, patience)?;
        ensure!(rosemary.log().matches("dropped lines that wait").count() == 1);
        let lines = wait_for(lab, "monitor", "it did not answer")?;
        let missing = |line: &LogLine| line.text.contains("are missing here");
        ensure!(lines.iter().any(|it| it.program == TELLER && missing(it)));
        ensure!(!lines.iter().any(|it| it.program != TELLER && missing(it)));
        Ok(())
    });
}

#[test]
fn verbose_app_displaces_only_its_own_lines() {
    in_a_lab(|lab| {
        let quiet = in_rust("observer", "stage = \"observe\"\nservices = [\"storage\"]");
        let keeper = in_rust("keeper", "services = [\"storage\"]");
        let log = "[log]\nbytes-per-program = \"64 KiB\"\n";
        configure(&[log, FULL, &keeper, &quiet, &teller(lab)?])?;
        let _rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        wait_for(lab, "app keeper", "start 1 is kept")?;
        let patience = Duration::from_secs(30);
        let lines = lab.wait_for("the teller has said much", patience, |evidence| {
            let lines = all(lab).unwrap_or_default();
            let last = lines.iter().filter_map(told).max().unwrap_or(0);
            evidence.0 = format!("{last}");
            Ok((last > 4_000).then_some(lines))
        })?;
        let of = |program: &str| -> Vec<&LogLine> {
            lines.iter().filter(|line| line.program == program).collect()
        };
        let bytes: usize = of(TELLER).iter().map(|line| line.text.len()).sum();
        // In pages, while lines are added and removed.
        ensure!((10_000..=128 << 10).contains(&bytes), "{bytes}");
        ensure!(!of(TELLER).iter().any(|line| told(line) == Some(0)), "the oldest went");
        ensure!(of("app keeper").iter().any(|line| line.text.contains("start 1 is kept")));
        ensure!(of("monitor").iter().any(|line| line.text.contains("Rosemary started")));
        let size = fs::metadata("/var/lib/rosemary/log.redb")?.len();
        println!("{bytes} bytes of the teller's are kept; the file has {size}");
        ensure!(size < 8 << 20, "{size}");
        Ok(())
    });
}

#[test]
fn denial_records_displace_only_records_of_the_app() {
    in_a_lab(|lab| {
        let keeper = in_rust("keeper", "services = [\"storage\"]");
        let knocker = in_c(lab, "knocker", "apps/gluttons/knocker.c", UNLIMITED)?;
        configure(&["[log]\nbytes-per-program = \"64 KiB\"\n", FULL, &keeper, &knocker])?;
        let running = Rosemary::start(lab, &rosemary_binary(), &[])?;
        wait_for(lab, "app keeper", "start 1 is kept")?;
        let status = running.status()?.context("it answers")?;
        kill(status.app("keeper").and_then(|app| app.pid).context("it runs")?)?;
        let about = "monitor on knocker";
        let lines = wait_for(lab, about, "refused a system call")?;
        let first = lines.iter().find(|it| it.program == about).context("a first")?.number;
        let patience = Duration::from_secs(90);
        let lines = lab.wait_for("its first record is pushed out", patience, |evidence| {
            let lines = all(lab).unwrap_or_default();
            let of: Vec<&LogLine> = lines.iter().filter(|it| it.program == about).collect();
            evidence.0 = format!("{} records of it", of.len());
            let gone = of.first().is_some_and(|it| it.number > first + 200);
            Ok(gone.then_some(lines))
        })?;
        for (program, text) in [
            ("monitor", "Rosemary started"),
            ("monitor", "started program=\"kernel\""),
            ("monitor on keeper", "died program=\"zone keeper\""),
        ] {
            let found = lines.iter().any(|it| it.program == program && it.text.contains(text));
            ensure!(found, "{program} no longer says {text}");
        }
        // A query for the monitor and one for the app both return these lines.
        for name in ["monitor", "keeper"] {
            let text = rosemary(lab, &["logs", name, "-n", "10000"])?;
            ensure!(text.contains("monitor on keeper: died program="), "{name}: {text}");
        }
        Ok(())
    });
}

#[test]
fn full_disk_is_reported_once_and_log_recovers() {
    in_a_lab(|lab| {
        let state = lab.files().join("small");
        fs::create_dir(&state)?;
        let dir = state.display().to_string();
        lab.run("mount", &["-t", "tmpfs", "-o", "size=8m", "tmpfs", &dir])?;
        configure(&["[log]\nbytes-per-program = \"1 GiB\"\n", FULL, &teller(lab)?])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &["--state-dir", &dir])?;
        wait_for(lab, TELLER, "line ")?;
        let ballast = state.join("ballast");
        let mut file = OpenOptions::new().create_new(true).append(true).open(&ballast)?;
        while file.write_all(&[7; 4096]).is_ok() {}
        drop(file); // open files keep their space
        rosemary.wait_for_log(&["could not store log lines", "free space"], SOON)?;
        let before = rosemary.status()?.context("it answers")?;
        lab.pause(Duration::from_secs(3))?;
        let after = rosemary.status()?.context("it answers")?;
        ensure!(before.programs.kernel == after.programs.kernel, "{after:?}");
        ensure!(before.programs.apps == after.programs.apps, "{after:?}");
        ensure!(before.programs.services == after.programs.services, "it lives on: {after:?}");
        ensure!(rosemary.log().matches("could not store log lines").count() == 1);
        let kept = all(lab)?;
        ensure!(!kept.is_empty(), "what was kept can be read");
        let told = lab.command(rosemary_binary()).args(["logs", "-n", "1"]).output()?.stderr;
        let told = String::from_utf8_lossy(&told);
        ensure!(told.contains("newer lines are missing") && told.contains("free space"), "{told}");

        kill(after.app("teller").and_then(|app| app.pid).context("it runs")?)?;
        let remedies = [
            "lines of the log cannot be stored: the disk is full; free space",
            "incidents cannot be stored: ",
        ];
        rosemary.wait_for("the status says what is not stored", SOON, |status| {
            let reasons = status.health.reasons.join("\n");
            remedies.iter().all(|it| reasons.contains(it)).then_some(())
        })?;
        schema::check("status", &rosemary_status(lab)?)?;

        fs::remove_file(&ballast)?;
        rosemary.wait_for("all is stored again", SOON, |status| {
            let is_reason = |it: &String| it.contains("cannot be stored");
            (!status.health.reasons.iter().any(is_reason)).then_some(())
        })?;
        lab.wait_for("stored log lines again", SOON, |evidence| {
            let log = rosemary.log();
            let others: Vec<&str> = log.lines().filter(|it| !it.contains("app: teller")).collect();
            evidence.0 = others.join("\n");
            Ok(evidence.0.contains("stored log lines again").then_some(()))
        })?;
        let lines = wait_for(lab, TELLER, "are missing here")?;
        for line in &kept {
            ensure!(lines.contains(line), "{line:?}");
        }
        Ok(())
    });
}

#[test]
fn follow_continues_across_a_restart_of_the_log() {
    in_a_lab(|lab| {
        configure(&[FULL, &in_rust("keeper", "services = [\"storage\"]")])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let mut command = lab.command(rosemary_binary());
        command.args(["app", "logs", "keeper", "--follow"]);
        let mut follower = lab.start("rosemary app logs", command)?;
        let shows = |rosemary: &Rosemary<'_>, follower: &Running, text: &str| {
            lab.wait_for(format!("{text} is followed"), SOON, |evidence| {
                evidence.0 =
                    format!("{}\n{}\n{}", follower.stdout(), follower.stderr(), rosemary.log());
                Ok(follower.stdout().contains(text).then_some(()))
            })
        };
        shows(&rosemary, &follower, "start 1 is kept")?;
        kill(log_pid(&mut rosemary)?)?;
        let status = rosemary.status()?.context("it answers")?;
        kill(status.app("keeper").and_then(|app| app.pid).context("it runs")?)?;
        shows(&rosemary, &follower, "start 2 is kept")?;
        follower.must_run()?;
        let text = follower.stdout();
        ensure!(text.matches("start 1 is kept").count() == 1, "{text}");
        Ok(())
    });
}

#[test]
fn second_instance_with_same_state_is_rejected() {
    in_a_lab(|lab| {
        let mut first = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let pid = first.status()?.context("it answers")?.programs.monitor.pid;
        let dir = lab.files().join("second").display().to_string();
        let program = rosemary_binary().display().to_string();
        let args = ["up", "--listen", "127.0.0.1:7653", "--runtime-dir", &dir];
        let error = lab.run(&program, &args).unwrap_err().to_string();
        let process =
            format!("another instance of Rosemary, process {pid}, uses the state directory ");
        ensure!(error.contains(&process) && error.contains("--state-dir"), "{error}");
        first.must_run()?;
        Ok(())
    });
}
