//! Many apps that fill the storage at once, beside one whose writes must last.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use cli::status::Report;
use rosemary_tests::apps::{configure, in_c_with, in_python};
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::verdicts::{Verdicts, served};
use rosemary_tests::{in_a_lab_without_capture_for, rosemary_binary};
use rustix::process::Signal;

use super::beside::pid;

const LIMIT: Duration = Duration::from_secs(500);

const SWITCH: &str = "[[app]]\nname = \"learning-switch\"\n\n";

/// Time in which apps fill the storage.
const FILLING: Duration = Duration::from_secs(20);

/// The longest time of a write beside them, in milliseconds.
const SLOWEST_WRITE: u64 = 4000;

/// Largest file of the storage: the quotas are 9 times 97 KiB, and a tree keeps old pages for a while.
const LARGEST_FILE: u64 = 32 << 20;

const STORAGE: &str = "/var/lib/rosemary/storage.redb";

#[test]
#[ignore = "an attack of `make hostile`"]
fn apps_that_fill_the_storage_harm_no_other() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let mut verdicts = Verdicts::default();
        verdicts.judge("8 apps that fill the storage at once", filled(lab));
        verdicts.finish()
    });
}

/// The numbers in the last line of the log that `steady` wrote with this word.
fn last(log: &str, word: &str) -> Vec<u64> {
    let line = log.lines().rfind(|line| line.contains("steady") && line.contains(word));
    let rest = line.and_then(|line| line.split(word).last()).unwrap_or_default();
    rest.split_whitespace().map_while(|it| it.parse().ok()).collect()
}

fn filled(lab: &Lab) -> anyhow::Result<String> {
    let keys = "stage = \"observe\"\nservices = [\"storage\"]\ncapabilities = [\"packet-in\"]";
    let filling = (0..8).map(|number| {
        let how = if number % 2 == 0 { "-DKEYS" } else { "-DCHURN" };
        in_c_with(lab, &format!("filling{number}"), "system/outside/apps/filling.c", keys, &[how])
    });
    let filling = filling.collect::<Result<Vec<_>, _>>()?.join("\n");
    let quota = "[storage]\nbytes-per-app = \"97 KiB\"\n\n";
    let steady = in_python(
        "steady",
        "system/outside/apps/steady.py",
        "stage = \"observe\"\nservices = [\"storage\"]\ncapabilities = [\"packet-in\"]",
    );
    configure(&[quota, SWITCH, &filling, "\n", &steady])?;
    let mut net = Net::start(lab, Of::V1_3)?;
    ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.received > 0, "there is a flow");
    let before = net.status()?;
    let storage = |status: &Report| {
        status.programs.services.iter().find(|it| it.name == "storage").and_then(|it| it.pid)
    };
    let mut counts = Vec::new();
    let seen = served(&mut net, |net| {
        for _ in 0..4 {
            lab.pause(FILLING / 4)?;
            counts.push(last(&net.rosemary.log(), "KEPT ").first().copied().unwrap_or(0));
        }
        let log = net.rosemary.log();
        let slowest = *last(&log, "KEPT ").get(1).context("it writes")?;
        ensure!(slowest < SLOWEST_WRITE, "a write took {slowest} ms");
        let wrong = log.lines().find(|line| line.contains("steady") && line.contains("WRONG"));
        ensure!(wrong.is_none(), "{wrong:?}");
        ensure!(counts.windows(2).all(|it| it[0] < it[1]), "its writes stop: {counts:?}");
        let full = (0..8).filter(|number| {
            let name = format!("filling{number}");
            log.lines().any(|line| line.contains(&name) && line.contains("REFUSED after"))
        });
        let full = full.count();
        ensure!(full >= 4, "{full} apps have reached their quotas");
        Ok(format!(
            "{full} of 8 are full, {counts:?} writes of another app, the slowest {slowest} ms"
        ))
    })?;
    let after = net.status()?;
    ensure!(storage(&after) == storage(&before), "the storage was restarted");
    ensure!(pid(&after, "steady")? == pid(&before, "steady")?, "the other app was restarted");
    let size = fs::metadata(STORAGE)?.len();
    ensure!(size < LARGEST_FILE, "the file has {size} bytes");
    let kept = *last(&net.rosemary.log(), "KEPT ").first().context("it writes")?;
    // Acknowledged writes survive every end.
    net.rosemary.stop(Signal::KILL)?;
    configure(&[quota, SWITCH, &steady])?;
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
    rosemary.wait_for_log(&["steady", "READ"], SOON * 2)?;
    let log = rosemary.log();
    let read = *last(&log, "READ ").first().context("it reads")?;
    ensure!(read >= kept, "{read} values after {kept} acknowledged writes");
    rosemary.wait_for_log(&["steady", "KEPT"], SOON * 2)?;
    let wrong = rosemary.log();
    let wrong = wrong.lines().find(|line| line.contains("steady") && line.contains("WRONG"));
    ensure!(wrong.is_none(), "{wrong:?}");
    Ok(format!("{seen}; {size} bytes; after a kill {read} values, {kept} were acknowledged"))
}
