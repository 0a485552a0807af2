//! Apps in Python that attack the monitor with its own means: messages, descriptors, signals, refused calls. The verdict is how long
//! `rosemary status` takes beside each. `make hostile` runs each alone, too.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of};
use rosemary_tests::in_a_lab;
use rosemary_tests::net::{INTERVAL, Net};

use super::super::example;
use super::CONFIG;

/// The storms of `python/hostile/storms.py`.
const STORMS: [&str; 11] = [
    "descriptors",
    "huge",
    "endless",
    "incidents",
    "wrong",
    "options",
    "forks",
    "signals",
    "unread",
    "refused",
    "prints",
];

/// How long a storm is watched: its own time.
const WATCHED: Duration = Duration::from_secs(4);

/// The longest answer of the monitor. Without a storm it takes some 20 ms, on a busy machine 200 ms.
const LONGEST: Duration = Duration::from_secs(1);

/// How much the monitor's memory may grow, in bytes.
const GROWTH: u64 = 32 << 20;

/// Bytes of memory and number of descriptors of a process.
fn holdings(pid: u32) -> anyhow::Result<(u64, usize)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok((kib << 10, fs::read_dir(format!("/proc/{pid}/fd"))?.count()))
}

/// Runs storms, each in an app of its own, beside the learning switch.
fn storm(lab: &Lab, names: &[&str]) -> anyhow::Result<()> {
    let object = format!("{}/../python/hostile/storms.py", env!("CARGO_MANIFEST_DIR"));
    let switch = example("learning_switch");
    let mut config = format!("[[app]]\nname = \"learning\"\nobject = \"{switch}\"\n");
    for (name, port) in names.iter().zip(8090..) {
        fs::write(format!("/etc/rosemary/{name}"), name)?;
        write!(
            config,
            "[[app]]\nname = \"{name}\"\nobject = \"{object}\"\nconfig = \"{name}\"\nstage = \"observe\"\n\
             listen = [\"web=127.0.0.1:{port}\"]\n"
        )?;
    }
    fs::write(CONFIG, config)?;
    let name = names.join(", ");
    let mut net = Net::start_with(lab, Of::V1_3, &[])?;
    let [h4, h5] = ["h4", "h5"].map(|name| lab.host(name, &net.s1));
    let (_h4, h5) = (h4?, h5?);
    assert_eq!(net.h1.ping(&net.h2, 3, INTERVAL)?.lost(), 0);
    let before = net.status()?;
    let monitor = net.rosemary.pid();
    let (memory, descriptors) = holdings(monitor)?;
    let established = net.h1.ping_in_background(&net.h2, 100, INTERVAL)?;
    h5.ping(&net.h1, 1, INTERVAL)?;
    for name in names {
        net.rosemary.wait_for_log(&["storm begins", name], Duration::from_secs(10))?;
    }
    let began = Instant::now();
    let mut answers = Vec::new();
    while began.elapsed() < WATCHED {
        let asked = Instant::now();
        net.rosemary.status()?.context("the monitor answers")?;
        answers.push(asked.elapsed());
        lab.pause(Duration::from_millis(50))?;
    }
    answers.sort_unstable();
    let (median, longest) = (answers[answers.len() / 2], answers[answers.len() - 1]);
    let (now_memory, now_descriptors) = holdings(monitor)?;
    let grown = now_memory.saturating_sub(memory);
    println!(
        "storm {name}: {} answers of the monitor, median {median:?}, longest {longest:?}, {} KiB more",
        answers.len(),
        grown >> 10
    );
    let log = net.rosemary.log();
    ensure!(!log.contains("Exception in thread"), "{name}: a storm ended itself: {log}");
    ensure!(longest < LONGEST, "{name}: `rosemary status` took {longest:?}");
    ensure!(grown < GROWTH, "{name}: the monitor grew by {grown} bytes");
    ensure!(now_descriptors <= descriptors + 16, "{name}: {descriptors}, then {now_descriptors}");
    assert_eq!(established.finish()?.lost(), 0, "{name}: established flows stay");
    let status = net.status()?;
    assert_eq!(status.app("learning").map(|app| app.restarts), Some(0), "{name}: {status:?}");
    assert_eq!(status.programs.kernel.pid, before.programs.kernel.pid, "{name}: the kernel stays");
    net.rosemary.must_run()?;
    Ok(())
}

#[test]
fn storms_of_an_app_in_python_do_not_delay_the_monitor() {
    in_a_lab(|lab| storm(lab, &STORMS));
}

/// Runs in `make hostile`: each takes ten seconds.
#[test]
#[ignore = "two minutes; make hostile runs it"]
fn each_storm_alone_does_not_delay_the_monitor() {
    for name in STORMS {
        in_a_lab(move |lab| storm(lab, &[name]));
    }
}
