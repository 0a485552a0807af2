//! Many switches reconnect at once after the kernel was killed: none of them starves.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Rosemary, Running};
use rosemary_tests::emulated::Emulated;
use rosemary_tests::net::SOON;
use rosemary_tests::pki::{Pki, SwitchKeys};
use rosemary_tests::{in_a_lab_for, in_a_lab_without_capture_for, kill, rosemary_binary};

/// Number of switches in `make test`; `make soak` sets more with `ROSEMARY_SWITCHES`.
const SWITCHES: u64 = 100;

/// Ten times the time in which 1,000 switches are expected to be served.
const LIMIT: Duration = Duration::from_secs(50);

fn count() -> u64 {
    std::env::var("ROSEMARY_SWITCHES").map_or(SWITCHES, |n| n.parse().expect("a number"))
}

/// Connects all switches at once. Returns them, and the time until each was served: it had its table-miss entry, and an
/// echo came back.
fn connect_all(count: u64) -> anyhow::Result<(Vec<Emulated>, Vec<Duration>)> {
    let start = Instant::now();
    let connect = |dpid| {
        thread::spawn(move || -> anyhow::Result<(Emulated, Duration)> {
            let mut switch = Emulated::connect(dpid)?;
            switch.echo()?;
            Ok((switch, start.elapsed()))
        })
    };
    let threads: Vec<_> = (1..=count).map(connect).collect();
    let mut all = Vec::new();
    for thread in threads {
        all.push(thread.join().map_err(|_| anyhow::anyhow!("a switch panicked"))??);
    }
    Ok(all.into_iter().unzip())
}

#[test]
fn no_switch_starves_when_all_reconnect_at_once() {
    let count = count();
    in_a_lab_for(LIMIT * 2 + SOON, move |lab| {
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let pid =
            rosemary.wait_for("the kernel runs", SOON, |status| status.programs.kernel.pid)?;
        let (before, times) = connect_all(count)?;
        println!("{count} switches: the last was served after {:?}", times.iter().max());
        kill(pid)?;
        drop(before);
        let (_after, times) = connect_all(count)?;
        let last = times.iter().max().context("there are switches")?;
        println!("{count} switches after a kill: the last was served after {last:?}");
        ensure!(*last < LIMIT, "{last:?}");
        rosemary.wait_for("all are listed", SOON, |status| {
            (status.switches.as_ref()?.len() as u64 == count).then_some(())
        })?;
        Ok(())
    });
}

/// Starts as many switches as `count` in a process of their own, which connect over TLS at once.
fn start_over_tls(lab: &Lab, keys: &SwitchKeys, count: u64) -> anyhow::Result<Running> {
    let mut switches = lab.command(rosemary_binary().with_file_name("ofbench"));
    switches.args(["switches", "127.0.0.1:6653", "--topology", &format!("line:{count}")]);
    switches.arg("--tls-ca").arg(&keys.ca_cert).arg("--tls-cert").arg(&keys.cert);
    switches.arg("--tls-key").arg(&keys.key);
    Ok(lab.start("ofbench", switches)?)
}

#[test]
fn no_switch_starves_when_all_reconnect_at_once_over_tls() {
    let count = count();
    in_a_lab_without_capture_for(LIMIT * 2 + SOON, move |lab| {
        let pki = Pki::init(lab, "pki")?;
        let keys = pki.switch("all", &[])?;
        let args = ["--tls-dir", pki.dir(), "--plain", "never"];
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &args)?;
        let all_are_served = |rosemary: &mut Rosemary<'_>| {
            let start = Instant::now();
            rosemary.wait_for("all switches are listed", LIMIT, |status| {
                let switches = status.switches.as_ref()?;
                (switches.len() as u64 == count).then_some(())
            })?;
            anyhow::Ok(start.elapsed())
        };
        let before = start_over_tls(lab, &keys, count)?;
        println!(
            "{count} switches over TLS: the last was listed after {:?}",
            all_are_served(&mut rosemary)?
        );
        kill(rosemary.wait_for("the kernel runs", SOON, |status| status.programs.kernel.pid)?)?;
        drop(before);
        let _after = start_over_tls(lab, &keys, count)?;
        let took = all_are_served(&mut rosemary)?;
        println!("{count} switches over TLS after a kill: the last was listed after {took:?}");
        Ok(())
    });
}
