//! Accounts: they agree with the kernel's counters and with the system's, and survive the end of every program.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use cli::status::Report;
use rosemary_tests::apps::{configure, in_c};
use rosemary_tests::developer::rosemary;
use rosemary_tests::net::{APP, INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, kill, rosemary_binary};
use rustix::process::Signal;
use serde_json::Value;

/// Several times the interval at which programs are measured.
const MEASURED: Duration = Duration::from_secs(2);

/// Returns the accounts, each as JSON.
fn accounts(lab: &Lab) -> anyhow::Result<Vec<Value>> {
    let all: Value = serde_json::from_str(&rosemary(lab, &["accounts", "--json"])?)?;
    Ok(all["accounts"].as_array().context("a list")?.clone())
}

/// An amount of one member.
fn amount(accounts: &[Value], member: &str, key: &str) -> anyhow::Result<u64> {
    let account = accounts.iter().find(|it| it["member"] == member);
    account.and_then(|it| it[key].as_u64()).with_context(|| format!("{member} {key}: {accounts:?}"))
}

/// The packet-ins and the messages of an app by the kernel's counters, which begin at 0 with each kernel.
fn counted(lab: &Lab, app: &str) -> anyhow::Result<u64> {
    let all: Value = serde_json::from_str(&rosemary(lab, &["apps", "--json"])?)?;
    let line = all.as_array().context("a list")?.iter().find(|it| it["name"] == app);
    line.and_then(|it| it["delivered"].as_u64()).context("counters of the app")
}

/// Waits until the account of the app has as many packet-ins more than `before` as this kernel has delivered. Returns the account's.
fn wait_until_counted(lab: &Lab, before: u64) -> anyhow::Result<u64> {
    Ok(lab.wait_for("the account has every packet-in", SOON, |evidence| {
        // The kernel answers no request while it restarts.
        let now = counted(lab, APP).unwrap_or(0);
        let received = accounts(lab).and_then(|all| amount(&all, APP, "received_messages"));
        let received = received.unwrap_or(0);
        evidence.0 = format!("{received} on the account, {before} before this kernel, {now} by it");
        Ok((now > 0 && received == before + now).then_some(received))
    })?)
}

fn kernel(status: &Report) -> Option<u32> {
    status.programs.kernel.pid
}

#[test]
fn accounts_survive_every_end() {
    in_a_lab(|lab| {
        configure(&["[session.office]\nmemory = \"64 MiB\"\n", &app_in("office")])?;
        let mut net = Net::start(lab, Of::V1_3)?;
        ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost() == 0);
        let first = wait_until_counted(lab, 0)?;
        let all = accounts(lab)?;
        ensure!(all.iter().any(|it| it["member"] == APP && it["session"] == "office"), "{all:?}");
        ensure!(amount(&all, APP, "sent_messages")? > 0 && amount(&all, APP, "sent_bytes")? > 0);
        ensure!(amount(&all, APP, "received_bytes")? > 60 * first);

        let status = net.status()?;
        kill(kernel(&status).context("the kernel runs")?)?;
        net.rosemary.wait_for("another kernel serves the switch", SOON, |it| {
            let is_other = kernel(it).is_some() && kernel(it) != kernel(&status);
            (is_other && it.switch(&net.s1.dpid()).is_some()).then_some(())
        })?;
        net.h1.ping(&net.h3, 5, INTERVAL)?;
        let second = wait_until_counted(lab, first)?;

        let zone = status.app(APP).and_then(|app| app.pid).context("the app runs")?;
        let before = amount(&accounts(lab)?, APP, "cpu_ns")?;
        kill(zone)?;
        net.rosemary.wait_for("the app runs again", SOON, |it| {
            it.app(APP)?.pid.filter(|pid| *pid != zone)
        })?;
        std::thread::sleep(MEASURED);
        ensure!(amount(&accounts(lab)?, APP, "cpu_ns")? > before, "the account continues");

        let before = accounts(lab)?;
        net.rosemary.stop(Signal::TERM)?;
        let _again = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let after = accounts(lab)?;
        for account in &before {
            let member = account["member"].as_str().context("a name")?;
            for key in ["cpu_ns", "received_messages", "sent_bytes", "memory_byte_seconds"] {
                let (before, after) = (amount(&before, member, key)?, amount(&after, member, key)?);
                ensure!(after >= before, "{member} {key}: {before}, then {after}");
            }
        }
        ensure!(amount(&after, APP, "received_messages")? >= second);
        let csv = rosemary(lab, &["accounts", "--csv", "--since", "1h"])?;
        ensure!(csv.lines().any(|line| line.starts_with(&format!("office,{APP},"))), "{csv}");
        Ok(())
    });
}

fn app_in(session: &str) -> String {
    format!("[[app]]\nname = \"{APP}\"\nsession = \"{session}\"\n")
}

/// Nanoseconds of processor time of all threads of these processes, by the scheduler (`/proc/PID/task/TID/schedstat`).
fn scheduled(pids: &[u32]) -> anyhow::Result<u64> {
    let mut sum = 0;
    for pid in pids {
        for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
            let text = fs::read_to_string(thread?.path().join("schedstat"))?;
            let time = text.split_whitespace().next().context("schedstat")?;
            sum += time.parse::<u64>()?;
        }
    }
    Ok(sum)
}

#[test]
fn processor_time_agrees_with_the_system() {
    in_a_lab(|lab| {
        let spin = in_c(lab, "spin", "apps/gluttons/spin.c", "stage = \"observe\"")?;
        configure(&[&app_in("best-effort"), &spin])?;
        let mut net = Net::start(lab, Of::V1_3)?;
        ensure!(net.h1.ping(&net.h2, 3, INTERVAL)?.lost() == 0);
        let status = net.status()?;
        let programs = &status.programs;
        let apps = programs.apps.iter().filter_map(|it| it.pid);
        let services = programs.services.iter().filter_map(|it| it.pid);
        let others = [programs.kernel.pid, Some(programs.monitor.pid)].into_iter().flatten();
        let pids: Vec<u32> = apps.chain(services).chain(others).collect();
        let sum = |all: &[Value]| all.iter().filter_map(|it| it["cpu_ns"].as_u64()).sum::<u64>();
        // The system's figures before and after those of the accounts, as they cannot be read at the same moment.
        let reading = || -> anyhow::Result<[u64; 3]> {
            Ok([scheduled(&pids)?, sum(&accounts(lab)?), scheduled(&pids)?])
        };
        let [first, account, second] = reading()?;
        let mut pings = net.h1.ping_in_background(&net.h2, 1_000, INTERVAL)?;
        pings.wait_for(500, SOON * 10)?;
        let [third, later, fourth] = reading()?;
        let (least, account, most) = (third - second, later - account, fourth - first);
        println!("{account} ns on the accounts; {least} to {most} ns by the scheduler");
        ensure!(least > 2_000_000_000, "the machine was busy: {least}");
        let within = least - least / 100..=most + most / 100;
        ensure!(within.contains(&account), "{account} is outside of {within:?}");
        Ok(())
    });
}
