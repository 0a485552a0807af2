//! Counts the kernel's system calls under load: none per message, and one write per switch and turn
//! of the event loop.
//!
//! strace records every call of the kernel process while two switches flood it and an app answers
//! every packet. Between two waits for events, a thread may write once to each socket. A second
//! write is allowed only after a partial one, or for the messages of a tick.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::Rosemary;
use rosemary_tests::capture::is_installed;
use rosemary_tests::emulated::{Emulated, Flood};
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab, rosemary_binary, skip};
use rustix::process::Signal;

/// Duration of the recording.
const WATCHED: Duration = Duration::from_secs(3);

/// Interval of the ticks that advance session timers, each in a separate turn.
const TICK: Duration = Duration::from_millis(100);

#[test]
fn kernel_makes_no_system_call_per_message() {
    in_a_lab(|lab| {
        if !is_installed("strace") {
            skip(&anyhow::anyhow!("strace is not installed"));
            return Ok(());
        }
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let kernel = rosemary.wait_for("the kernel runs", SOON, |it| it.programs.kernel.pid)?;
        let switches = [Emulated::connect(1)?, Emulated::connect(2)?];
        // The destination does not exist, so the app floods the packet and nothing is learned.
        let frame = [&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xb5][..], &[0; 50]].concat();
        let floods: Vec<_> =
            switches.iter().map(|switch| switch.flood(&frame)).collect::<Result<_, _>>()?;
        lab.wait_for("packet-outs come", SOON, |_| {
            Ok(switches.iter().all(|switch| switch.packet_outs() > 100).then_some(()))
        })?;

        let file = lab.files().join("calls.strace");
        let mut command = lab.command("strace");
        // -s 0: without the messages' content; -y: with the type of descriptors.
        command.args(["-f", "-s", "0", "-yy", "-p", &kernel.to_string(), "-o"]).arg(&file);
        let mut strace = lab.start("strace", command)?;
        lab.wait_for("strace has begun", SOON, |_| {
            strace.must_run()?;
            Ok(fs::metadata(&file).is_ok_and(|file| file.len() > 0).then_some(()))
        })?;
        let count = || {
            let outs: u64 = switches.iter().map(Emulated::packet_outs).sum();
            let ins: u64 = floods.iter().map(Flood::sent).sum();
            (ins, outs)
        };
        let (start, before) = (Instant::now(), count());
        lab.pause(WATCHED)?;
        let (took, after) = (start.elapsed(), count());
        strace.signal(Signal::INT);
        strace.wait(SOON).context("strace does not end")?;
        for flood in floods {
            drop(flood.stop());
        }

        let calls = Calls::read(&file)?;
        let (ins, outs) = (after.0 - before.0, after.1 - before.1);
        println!(
            "in {took:?}: {ins} packet-ins, {outs} packet-outs; {} turns, {} writes to switches, {} of \
             them second ones in a turn; {} calls in all: {:?}",
            calls.turns, calls.writes, calls.second, calls.all, calls.names
        );
        ensure!(calls.writes > 0 && outs > 1000, "there was a load");
        // Twice per tick, because there are two switches.
        let ticks = took.as_millis() / TICK.as_millis() + 1;
        ensure!(u128::from(calls.second) <= 2 * ticks, "{} second writes", calls.second);
        // One call per incoming and outgoing message would be twice as many.
        ensure!(calls.all < outs, "{} calls for {outs} packet-outs", calls.all);
        Ok(())
    });
}

/// Counters of the recorded calls.
#[derive(Debug, Default)]
struct Calls {
    all: u64,
    turns: u64,
    writes: u64,
    second: u64,
    names: BTreeMap<String, u64>,
}

impl Calls {
    /// Parses lines such as `4711 sendto(14<TCP:[...]>, ""..., 126, MSG_NOSIGNAL, NULL, 0) = 126`.
    /// A call interrupted by another thread has a second line with `<... sendto resumed>`.
    fn read(file: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(file)?;
        let mut calls = Self::default();
        let mut written: BTreeMap<(&str, &str), Write> = BTreeMap::new();
        for line in text.lines() {
            let (thread, call) = line.split_once(' ').context("a thread and a call")?;
            let call = call.trim_start();
            if let Some((name, rest)) = resumed(call) {
                // The result of a call that was counted at its start.
                if name == "sendto" {
                    let mut last =
                        written.range_mut((thread, "")..).take_while(|it| it.0.0 == thread);
                    if let Some((_, write)) = last.find(|(_, write)| write.unfinished) {
                        write.finish(rest);
                    }
                }
                continue;
            }
            let Some((name, arguments)) = call.split_once('(') else { continue };
            calls.all += 1;
            *calls.names.entry(name.to_owned()).or_default() += 1;
            if name.starts_with("epoll_") && name.contains("wait") {
                calls.turns += 1;
                written.retain(|(of, _), _| *of != thread);
            }
            let Some((socket, rest)) = arguments.split_once(',') else { continue };
            if name != "sendto" || !socket.contains("TCP") {
                continue;
            }
            calls.writes += 1;
            let write = written.entry((thread, socket)).or_insert(Write::NOTHING);
            calls.second += u64::from(write.whole);
            *write = Write { unfinished: call.contains("<unfinished"), ..Write::NOTHING };
            write.asked = asked(rest);
            write.finish(rest);
        }
        Ok(calls)
    }
}

/// The last write of a turn to a socket.
#[derive(Debug, Clone, Copy)]
struct Write {
    asked: Option<u64>,
    whole: bool,
    unfinished: bool,
}

impl Write {
    const NOTHING: Self = Self { asked: None, whole: false, unfinished: false };

    /// Handles the result: `... = 126`.
    fn finish(&mut self, line: &str) {
        if let Some((_, result)) = line.rsplit_once(" = ") {
            let result = result.split(' ').next().and_then(|number| number.parse().ok());
            self.whole = result.is_some() && result == self.asked;
            self.unfinished = false;
        }
    }
}

/// Returns the number of bytes requested by a `sendto`: the third argument.
fn asked(rest: &str) -> Option<u64> {
    rest.split(", ").nth(1)?.split([',', ' ', ')']).next()?.parse().ok()
}

/// Returns name and rest of a line `<... sendto resumed>) = 126`.
fn resumed(call: &str) -> Option<(&str, &str)> {
    let (name, rest) = call.strip_prefix("<... ")?.split_once(" resumed>")?;
    Some((name, rest))
}
