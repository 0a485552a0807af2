//! Tests that slow apps and flooding switches do not delay other apps and switches.
//!
//! ```text
//!  h1 -- timed broadcasts --> s1 --> learning switch: at h2 when it has flooded them
//!  h3 -- load --------------> s1 --\-> slow: 200 ms for each
//! ```
//!
//! The promise is that the fast app answers within twice its time alone. The test prints the times,
//! and asserts what a busy machine does not change.

use std::env;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Host, Lab, Of, Rosemary};
use control::query::AppCounters;
use rosemary_tests::broadcast::{self, Load, Times};
use rosemary_tests::emulated::Emulated;
use rosemary_tests::net::{APP, SOON};
use rosemary_tests::pki::Pki;
use rosemary_tests::{in_a_lab, rosemary_binary};
use rustix::process::Signal;

/// The configuration of root's Rosemary.
const CONFIG: &str = "/etc/rosemary/rosemary.toml";

const FAST: &str = "[[app]]\nname = \"learning-switch\"\n";

/// Duration of a flood.
const FLOOD: Duration = Duration::from_secs(4);

/// Limit of the kernel's growth during a flood, in KiB: rings, held packets, buffers, and one
/// socket's output.
const MORE_MEMORY: u64 = 32 * 1024;

#[test]
fn slow_observer_does_not_delay_the_learning_switch() {
    in_a_lab(|lab| slow_beside_fast(lab, &[FAST, &slow("stage = \"observe\"")], false));
}

#[test]
fn slow_control_app_delays_no_other_over_tls() {
    in_a_lab(|lab| slow_beside_fast(lab, &[&slow(""), FAST], true));
}

#[test]
fn flood_of_one_switch_affects_no_other() {
    in_a_lab(|lab| {
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let (kernel, before) = memory(&mut rosemary)?;
        let loud = Emulated::connect(1)?;
        let mut quiet = Emulated::connect(2)?;
        let flood = loud.flood(&frame([2, 0, 0, 0, 0, 1], 0x0800, 0))?;
        let (mut echoes, mut answers) = (Vec::new(), Vec::new());
        let start = Instant::now();
        for number in 0.. {
            if start.elapsed() >= FLOOD {
                break;
            }
            echoes.push(quiet.echo()?);
            let (arp, sent) = (frame([2, 0, 0, 0, 0, 2], 0x0806, number), Instant::now());
            quiet.packet_in(&arp)?;
            answers.push(quiet.wait_for_packet_out(&arp)?.saturating_duration_since(sent));
        }
        quiet.add_port(7)?;
        rosemary.wait_for("the new port is known", SOON, |status| {
            let quiet = status.switch("00:00:00:00:00:00:00:02")?;
            (quiet.ports == 5).then_some(())
        })?;
        let sent = flood.stop()?;
        let apps = counters(lab)?;
        println!(
            "{sent} packet-ins in {:?}, {} packet-outs; echo: median {:?}, longest {:?}; ARP answered: \
             median {:?}, longest {:?}; {apps:?}",
            start.elapsed(),
            loud.packet_outs(),
            median(&mut echoes),
            echoes.last(),
            median(&mut answers),
            answers.last(),
        );
        println!("{:#?}", rosemary.status()?.and_then(|status| status.switches));
        ensure!(sent > 10_000, "too little load: {sent}");
        // Without load none is dropped; without back-pressure most are.
        let fast = count(&apps, APP);
        ensure!(fast.dropped < fast.delivered, "{fast:?}");
        grown(&mut rosemary, kernel, before)
    });
}

#[test]
fn back_pressure_pauses_switches_but_not_echo() {
    in_a_lab(|lab| {
        fs::write(CONFIG, slow(""))?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let (kernel, before) = memory(&mut rosemary)?;
        let mut loud = Emulated::connect(1)?;
        let mut quiet = Emulated::connect(2)?;
        let start = Instant::now();
        let flood = loud.flood(&frame([2, 0, 0, 0, 0, 1], 0x0800, 0))?;
        let (mut echoes, mut last) = (Vec::new(), 0);
        while start.elapsed() < FLOOD {
            echoes.push(quiet.echo()?);
            last += 1;
            quiet.packet_in(&frame([2, 0, 0, 0, 0, 2], 0x0800, last))?;
        }
        let behind_the_flood = loud.echo()?;
        quiet.add_port(7)?;
        let status = rosemary.wait_for("the new port is known", SOON, |status| {
            let quiet = status.switch("00:00:00:00:00:00:00:02")?;
            (quiet.ports == 5).then(|| status.clone())
        })?;
        let (elapsed, cpu) = (start.elapsed(), cpu_time(kernel)?);
        let sent = flood.stop()?;
        let loud = status.switch("00:00:00:00:00:00:00:01").context("it is connected")?;
        println!(
            "{sent} packet-ins sent in {elapsed:?}, {} read, {} dropped, {} pauses; echo of the quiet \
             switch: median {:?}, longest {:?}; of the other, behind its flood: {behind_the_flood:?}; \
             the kernel's CPU time: {cpu:?}",
            loud.packet_ins,
            loud.dropped,
            loud.pauses,
            median(&mut echoes),
            echoes.last(),
        );
        ensure!(loud.dropped > 0 && loud.pauses > 0, "{loud:?}");
        // The app frees hardly any space in this time, so each pause has its full length.
        let most = elapsed.as_millis() / 49 + 10;
        ensure!(u128::from(loud.pauses) <= most, "{} pauses, {most} are whole ones", loud.pauses);
        let apps = counters(lab)?;
        let dropped: u64 = status.switches.iter().flatten().map(|switch| switch.dropped).sum();
        ensure!(apps.len() == 1 && apps[0].dropped >= dropped, "{apps:?}, {dropped} of switches");
        rosemary.wait_for_log(&["slow", "does not keep up"], SOON)?;
        grown(&mut rosemary, kernel, before)
    });
}

fn slow_beside_fast(lab: &Lab, apps: &[&str], tls: bool) -> anyhow::Result<()> {
    let pki = if tls { Some(Pki::init(lab, "pki")?) } else { None };
    let dir = pki.as_ref().map(|pki| ["--tls-dir", pki.dir(), "--plain", "never"]);
    let args: &[&str] = dir.as_ref().map_or(&[], |args| args);
    fs::write(CONFIG, FAST)?;
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), args)?;
    let s1 = lab.switch("s1", Of::V1_3)?;
    if let Some(pki) = &pki {
        pki.switch("s1", &["--dpid", &s1.dpid()])?.give_to(&s1)?;
    }
    let [h1, h2, h3] = ["h1", "h2", "h3"].map(|name| lab.host(name, &s1));
    let (h1, h2, h3) = (h1?, h2?, h3?);
    rosemary.wait_for_switch(&s1)?;
    let alone = under_load(&h1, &h2, &h3, 9, || Ok(()))?;
    ensure!(rosemary.stop(Signal::TERM)?.status.success());

    fs::write(CONFIG, apps.concat())?;
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), args)?;
    let epoch = rosemary.wait_for_switch(&s1)?.epoch;
    let (kernel, before) = memory(&mut rosemary)?;
    let beside = under_load(&h1, &h2, &h3, 10, || {
        lab.wait_for("the slow app is full", SOON, |evidence| {
            let apps = counters(lab);
            evidence.0 = format!("{apps:?}");
            Ok(apps.ok().filter(|apps| count(apps, "slow").dropped > 0))
        })?;
        rosemary.wait_for_log(&["slow", "does not keep up"], SOON)?;
        Ok(())
    })?;
    let apps = lab.wait_for("each app got or lost each packet-in", SOON, |evidence| {
        let apps = counters(lab).unwrap_or_default();
        evidence.0 = format!("{apps:?}");
        let count = |name| apps.iter().find(|app| app.name == name);
        let same = count(APP).zip(count("slow")).is_some_and(|(fast, slow)| {
            fast.delivered + fast.dropped == slow.delivered + slow.dropped
        });
        Ok(same.then_some(apps))
    })?;
    let (fast, slow) = (count(&apps, APP), count(&apps, "slow"));
    println!(
        "alone: {}; beside the slow app: {}; ratio of the medians {:.2}",
        said(&alone),
        said(&beside),
        beside.median().as_secs_f64() / alone.median().as_secs_f64(),
    );
    println!("{}", lab.run(&rosemary_binary().display().to_string(), &["apps"])?);
    println!("{}", lab.run(&rosemary_binary().display().to_string(), &["switches"])?);
    for times in [&alone, &beside] {
        ensure!(times.times.len() * 2 > times.sent as usize, "{times:?}");
    }
    ensure!(fast.dropped == 0 && fast.delivered > slow.delivered, "{apps:?}");

    // Port events arrive, and the switch stays connected.
    lab.host("h4", &s1)?;
    let switch = rosemary.wait_for("the new port is known", SOON, |status| {
        let switch = status.switch(&s1.dpid())?;
        (switch.ports == 4).then(|| switch.clone())
    })?;
    ensure!(switch.epoch == epoch && switch.dropped >= slow.dropped, "{switch:?}, {apps:?}");
    ensure!(switch.transport.starts_with("tls") == tls, "{switch:?}");
    rosemary.wait_for_log(&["slow", "no longer dropped", "dropped="], SOON)?;
    grown(&mut rosemary, kernel, before)
}

/// Times broadcasts under other load; `ready` waits for the effects of the load first.
fn under_load(
    from: &Host<'_>,
    to: &Host<'_>,
    other: &Host<'_>,
    port: u16,
    ready: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Times> {
    let load = Load::start(other, port + 100, Duration::from_millis(2))?;
    ready()?;
    let times = broadcast::time(from, to, port, 400, Duration::from_millis(10))?;
    println!("{} of load", load.sent());
    Ok(times)
}

fn said(times: &Times) -> String {
    let (quartile, median, longest) = (times.lower_quartile(), times.median(), times.longest());
    let (arrived, sent) = (times.times.len(), times.sent);
    format!("{arrived} of {sent}, quartile {quartile:?}, median {median:?}, longest {longest:?}")
}

/// Returns the `[[app]]` entry of the slow app.
fn slow(keys: &str) -> String {
    let test = env::current_exe().expect("/proc is mounted");
    let profile_dir = test.ancestors().nth(2).expect("a test is in target/PROFILE/deps");
    let object = profile_dir.join("examples/libslow.so");
    assert!(object.is_file(), "{} is missing; type: cargo build --examples", object.display());
    format!("[[app]]\nname = \"slow\"\nobject = \"{}\"\n{keys}\n", object.display())
}

/// Returns the counters of `rosemary apps --json`.
fn counters(lab: &Lab) -> anyhow::Result<Vec<AppCounters>> {
    let json = lab.run(&rosemary_binary().display().to_string(), &["apps", "--json"])?;
    Ok(serde_json::from_str(&json)?)
}

fn count<'a>(apps: &'a [AppCounters], name: &str) -> &'a AppCounters {
    apps.iter().find(|app| app.name == name).expect("it is configured")
}

/// Returns the kernel's pid and resident memory in KiB.
fn memory(rosemary: &mut Rosemary<'_>) -> anyhow::Result<(u32, u64)> {
    let pid = rosemary.wait_for("the kernel runs", SOON, |status| status.programs.kernel.pid)?;
    Ok((pid, resident(pid)?))
}

fn resident(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    let number = line.split_whitespace().nth(1).context("VmRSS without a number")?;
    Ok(number.parse()?)
}

/// Prints the kernel's growth and checks that it was not restarted.
fn grown(rosemary: &mut Rosemary<'_>, kernel: u32, before: u64) -> anyhow::Result<()> {
    let (pid, after) = memory(rosemary)?;
    println!("the kernel's memory: {before} KiB before, {after} KiB after");
    ensure!(pid == kernel, "the kernel was restarted:\n{}", rosemary.log());
    ensure!(after < before + MORE_MEMORY, "{before} KiB before, {after} KiB after");
    Ok(())
}

/// Returns the CPU time of a process.
fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields = stat.rsplit_once(") ").context("no name in it")?.1;
    let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u32>);
    let ticks = ticks.sum::<Result<u32, _>>()?;
    Ok(Duration::from_secs(ticks.into()) / 100)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Builds a broadcast of this host with this ethertype and number.
fn frame(from: [u8; 6], ethertype: u16, number: u32) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend(from);
    frame.extend(ethertype.to_be_bytes());
    frame.extend([0; 42]);
    frame.extend(number.to_be_bytes());
    frame
}
