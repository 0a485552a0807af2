//! Sessions: the system schedules the threads of apps as the sessions say, over-commitment is refused, and nothing outlasts Rosemary.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use control::operator::ProgramState;
use rosemary_tests::apps::{configure, in_c};
use rosemary_tests::developer::rosemary;
use rosemary_tests::net::{APP, INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, kill, rosemary_binary, skip};
use rustix::process::Signal;
use sys::sched::deadline::{self, Reservation};

/// The root of the cpusets of version 1.
const CPUSETS: &str = "/sys/fs/cgroup/cpuset";

fn app(name: &str, session: &str) -> String {
    format!("[[app]]\nname = \"{name}\"\nsession = \"{session}\"\n")
}

fn session(name: &str, runtime_us: u64, period_us: u64) -> String {
    format!("[session.{name}]\nruntime-us = {runtime_us}\nperiod-us = {period_us}\n")
}

fn reservation(runtime_us: u64, period_us: u64) -> Reservation {
    let us = Duration::from_micros;
    Reservation { runtime: us(runtime_us), period: us(period_us) }
}

/// Held by tests that reserve processor time: the sum of all reservations on the machine is limited.
static RESERVATIONS: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    RESERVATIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this machine reserves processor time for threads; prints why not.
fn can_reserve() -> bool {
    match deadline::probe() {
        Ok(_) => true,
        Err(why) => {
            skip(&anyhow::anyhow!("no reservation of processor time: {why}"));
            false
        }
    }
}

/// The process number of a running app.
fn pid(rosemary: &mut Rosemary<'_>, app: &str) -> anyhow::Result<u32> {
    Ok(rosemary.wait_for(&format!("{app} runs"), SOON, |status| {
        status.app(app).filter(|app| app.state == ProgramState::Running)?.pid
    })?)
}

/// The apps' sessions with the reasons, for a failure.
fn rosemary_shown(lab: &Lab) -> String {
    rosemary(lab, &["session", "show", "switching"]).unwrap_or_else(|error| error.to_string())
}

/// Waits until the main thread of an app has this reservation, or none.
fn wait_for_reservation(
    lab: &Lab,
    rosemary: &mut Rosemary<'_>,
    app: &str,
    expected: Option<Reservation>,
) -> anyhow::Result<u32> {
    let tid = pid(rosemary, app)?;
    // A reservation that the system refused is requested again after 10 s.
    lab.wait_for("the system schedules it so", SOON * 3, |evidence| {
        let found = deadline::reservation(tid).ok();
        let own = fs::read_to_string(format!("/proc/{tid}/cpuset")).unwrap_or_default();
        let shown = rosemary_shown(lab);
        evidence.0 = format!("{app} has {found:?} in the cpuset {own}{shown}");
        Ok((found == Some(expected)).then_some(()))
    })?;
    Ok(tid)
}

#[test]
fn session_is_held_adjusted_and_ended() {
    let _alone = alone();
    if !can_reserve() {
        return;
    }
    in_a_lab(|lab| {
        let spin = in_c(lab, "spin", "apps/gluttons/spin.c", "stage = \"observe\"")?;
        let apps = [&app(APP, "switching"), &spin].map(String::as_str).concat();
        let video = session("switching", 2_000, 10_000);
        configure(&[&video, &apps])?;
        let mut net = Net::start(lab, Of::V1_3)?;
        let tid =
            wait_for_reservation(lab, &mut net.rosemary, APP, Some(reservation(2_000, 10_000)))?;
        wait_for_reservation(lab, &mut net.rosemary, "spin", None)?;
        ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost() == 0);
        let shown = rosemary(lab, &["session", "list"])?;
        ensure!(shown.contains("deadline") && shown.contains("admission"), "{shown}");
        let shown = rosemary(lab, &["session", "show", "switching"])?;
        ensure!(shown.contains("held by SCHED_DEADLINE, 2 ms in each 10 ms"), "{shown}");

        over_commitment_changes_nothing(lab, &[&video, &apps])?;
        assert_eq!(deadline::reservation(tid)?, Some(reservation(2_000, 10_000)));

        rosemary(lab, &["session", "set", "switching", "runtime-us=3000"])?;
        wait_for_reservation(lab, &mut net.rosemary, APP, Some(reservation(3_000, 10_000)))?;
        rosemary(lab, &["session", "set", "switching", "runtime-us=0"])?;
        let same = wait_for_reservation(lab, &mut net.rosemary, APP, None)?;
        assert_eq!(same, tid, "the app was not restarted");

        configure(&[&session("switching", 4_000, 20_000), &apps])?;
        rosemary(lab, &["reload"])?;
        let expected = Some(reservation(4_000, 20_000));
        wait_for_reservation(lab, &mut net.rosemary, APP, expected)?;
        kill(tid)?;
        net.rosemary.wait_for("another process serves", SOON, |status| {
            status.app(APP)?.pid.filter(|pid| *pid != tid)
        })?;
        wait_for_reservation(lab, &mut net.rosemary, APP, expected)?;
        ensure!(net.h1.ping(&net.h3, 5, INTERVAL)?.lost() == 0);
        Ok(())
    });
}

/// Runs `rosemary`, which must fail; returns its error.
fn refused(lab: &Lab, args: &[&str]) -> anyhow::Result<String> {
    let output = lab.command(rosemary_binary()).args(args).output()?;
    let error = String::from_utf8(output.stderr)?;
    ensure!(!output.status.success() && !error.contains("panicked"), "{args:?}: {error}");
    println!("{args:?}: {}{error}", String::from_utf8_lossy(&output.stdout));
    Ok(error)
}

/// Reserves more than the machine has, by a reload and at run time.
fn over_commitment_changes_nothing(lab: &Lab, before: &[&str]) -> anyhow::Result<()> {
    let too_much = "[session.greedy]\nruntime-us = 8000\nperiod-us = 10000\nprocessors = 64\n";
    configure(&[&[too_much], before].concat())?;
    let error = refused(lab, &["reload"])?;
    ensure!(error.contains("the session greedy wants 51.200 processors of cpu"), "{error}");
    ensure!(error.contains("reserve less"), "{error}");
    configure(before)?;
    let processors = "processors=64";
    let error = refused(lab, &["session", "set", "switching", "runtime-us=8000", processors])?;
    ensure!(error.contains("wants 51.200 processors of cpu"), "{error}");
    let shown = rosemary(lab, &["session", "list"])?;
    ensure!(!shown.contains("greedy") && shown.contains("2 ms"), "{shown}");
    Ok(())
}

#[test]
fn nothing_is_scheduled_without_sessions() {
    in_a_lab(|lab| {
        let mut net = Net::start(lab, Of::V1_3)?;
        let tid = pid(&mut net.rosemary, APP)?;
        assert_eq!(deadline::reservation(tid)?, None);
        assert_eq!(deadline::reservation(net.rosemary.pid())?, None);
        ensure!(!net.rosemary.log().contains("reserved processor time"));
        let shown = rosemary(lab, &["session", "list"])?;
        assert_eq!(shown.lines().count(), 3, "a heading, system and best-effort: {shown}");
        Ok(())
    });
}

/// Rosemary's cpusets.
fn cpusets() -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(CPUSETS)?.map(|entry| Ok(entry?.path()));
    let entries: Vec<PathBuf> = entries.collect::<std::io::Result<_>>()?;
    let is_ours = |path: &PathBuf| path.display().to_string().contains("/rosemary-");
    Ok(entries.into_iter().filter(is_ours).collect())
}

fn balances() -> anyhow::Result<bool> {
    let text = fs::read_to_string(Path::new(CPUSETS).join("cpuset.sched_load_balance"));
    Ok(text.context("a cpuset of version 1")?.trim() == "1")
}

/// Checks that the thread is in the partition.
fn must_be_inside(tid: u32) -> anyhow::Result<()> {
    let own = fs::read_to_string(format!("/proc/{tid}/cpuset"))?;
    ensure!(own.contains("-partition."), "{own}");
    let status = fs::read_to_string(format!("/proc/{tid}/status"))?;
    let allowed = status.lines().find(|line| line.starts_with("Cpus_allowed_list:"));
    let allowed = allowed.context("proc_pid_status(5)")?;
    let first = allowed.split_whitespace().nth(1).and_then(|list| list.split(['-', ',']).next());
    ensure!(first.is_some_and(|first| first != "0"), "{allowed}");
    Ok(())
}

/// The root of the cpusets belongs to the whole machine, and every process of it notices: other tests cannot run beside it.
#[test]
#[ignore = "divides the machine's processors: make soak runs it"]
fn partition_is_restored_at_the_end_and_after_a_kill() {
    let _alone = alone();
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let is_root = Path::new(CPUSETS).join("release_agent").exists();
    if !can_reserve() || processors < 2 || !is_root {
        return skip(&anyhow::anyhow!("no root of cpusets of version 1, or one processor"));
    }
    in_a_lab(|lab| {
        ensure!(balances()? && cpusets()?.is_empty(), "nothing is divided before");
        let apps = [session("switching", 2_000, 10_000), app(APP, "switching")].concat();
        let divided = format!("[sessions]\npartition = true\n{apps}");
        let expected = Some(reservation(2_000, 10_000));

        configure(&[&divided])?;
        let mut first = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let tid = wait_for_reservation(lab, &mut first, APP, expected)?;
        must_be_inside(tid)?;
        ensure!(!balances()? && cpusets()?.len() == 2);
        rosemary(lab, &["session", "set", "switching", "runtime-us=0"])?;
        wait_for_reservation(lab, &mut first, APP, None)?;
        assert_eq!(fs::read_to_string(format!("/proc/{tid}/cpuset"))?.trim(), "/");
        first.stop(Signal::TERM)?;
        ensure!(balances()? && cpusets()?.is_empty(), "restored: {:?}", cpusets()?);

        let mut second = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let tid = wait_for_reservation(lab, &mut second, APP, expected)?;
        kill(second.pid())?;
        drop(second);
        lab.wait_for("the app ends with the monitor", SOON, |_| {
            Ok((!Path::new(&format!("/proc/{tid}")).exists()).then_some(()))
        })?;
        ensure!(!balances()?, "a killed monitor restores nothing");

        // Also without a partition of its own.
        configure(&[&apps])?;
        let mut third = Rosemary::start(lab, &rosemary_binary(), &[])?;
        third.wait_for_log(&["restored the cpusets"], SOON)?;
        ensure!(balances()? && cpusets()?.is_empty(), "restored: {:?}", cpusets()?);
        wait_for_reservation(lab, &mut third, APP, expected)?;
        third.stop(Signal::TERM)?;
        Ok(())
    });
}
