//! The others, beside whom an attack runs: two hosts that ping each other on a flow, a good switch whose answers are timed, and the
//! kernel with its memory.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of};
use cli::status::Report;
use control::operator::ProgramState;
use rosemary_tests::apps::configure;
use rosemary_tests::emulated::Emulated;
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::rosemary_binary;
use rosemary_tests::verdicts::Verdicts;

use super::rogue::frame;

/// Limit of the kernel's growth during an attack, in KiB.
const GROWTH: u64 = 48 * 1024;

/// Medians below this count as equal, because the attacker itself uses the two processors.
const NOISE: Duration = Duration::from_millis(4);

/// Time after which the controller has noticed and logged.
const NOTICED: Duration = Duration::from_secs(20);

/// Time for which the others are observed in an attack.
const TIME: Duration = Duration::from_secs(3);

/// Times of the good switch: of its echoes, and of its packet-ins until an app has answered.
#[derive(Debug, Clone, Copy)]
struct Times {
    echo: Duration,
    packet: Duration,
    longest: Duration,
}

/// The network beside an attack.
pub(super) struct Beside<'lab> {
    pub(super) net: Net<'lab>,
    good: Option<Emulated>,
    quiet: Times,
    verdicts: Verdicts,
}

impl<'lab> Beside<'lab> {
    /// Starts Rosemary with one worker, so that all switches share it.
    pub(super) fn start(lab: &'lab Lab, config: &str) -> anyhow::Result<Self> {
        sys::process::raise_descriptor_limit()?;
        configure(&["[controller]\nworkers = 1\n\n", config])?;
        let net = Net::start(lab, Of::V1_3)?;
        ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.received > 0, "there is a flow");
        let mut good = Emulated::connect(0x600d)?;
        let quiet = times(&mut good, TIME)?;
        println!("outside: quiet: {quiet:?}");
        Ok(Self { net, good: Some(good), quiet, verdicts: Verdicts::default() })
    }

    /// Runs an attack: `begin` starts it, the others are observed for a while, and `harm` looks at what the attack would change and
    /// returns what was seen. An error of either, or harm to the others, is an escape.
    pub(super) fn attacked<A>(
        &mut self,
        name: &str,
        begin: impl FnOnce(&mut Net<'lab>) -> anyhow::Result<A>,
        harm: impl FnOnce(&mut Net<'lab>, &mut A) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        let outcome = self.observed(begin, harm);
        self.verdicts.judge(name, outcome);
        Ok(self.net.rosemary.must_run()?)
    }

    fn observed<A>(
        &mut self,
        begin: impl FnOnce(&mut Net<'lab>) -> anyhow::Result<A>,
        harm: impl FnOnce(&mut Net<'lab>, &mut A) -> anyhow::Result<String>,
    ) -> anyhow::Result<String> {
        let net = &mut self.net;
        let kernel = net.status()?.programs.kernel;
        let (epoch, pid) = (net.switch_status()?.epoch, kernel.pid.context("it runs")?);
        let before = memory_kib(pid)?;
        let mut pings = net.h1.ping_in_background(&net.h2, 10_000, INTERVAL)?;
        pings.wait_for(3, SOON)?;
        let mut good = match self.good.take() {
            Some(good) => good,
            None => Emulated::connect(0x600d)?,
        };
        let mut attack = begin(net)?;
        let probing = thread::spawn(move || {
            let measured = times(&mut good, TIME);
            measured.map(|measured| (good, measured))
        });
        let measured = probing.join().ok().context("the probing thread panicked")?;
        let seen = harm(net, &mut attack);
        drop(attack);
        let report = pings.end()?;
        let seen = seen?;
        let (good, measured) = measured.context("the good switch is not served")?;
        self.good = Some(good);
        let sent = report.replies.last().map_or(0, |reply| reply.seq);
        let lost = sent.saturating_sub(u32::try_from(report.replies.len())?);
        let after = memory_kib(pid)?;
        ensure!(lost == 0 && sent > 20, "{lost} of {sent} pings were lost");
        ensure!(net.status()?.programs.kernel == kernel, "the kernel was restarted");
        ensure!(net.switch_status()?.epoch == epoch, "the switch was disconnected");
        ensure!(after < before + GROWTH, "the kernel has {after} KiB after {before} KiB");
        let ratio = |now: Duration, quiet: Duration| now.as_secs_f64() / quiet.as_secs_f64();
        let (echo, packet) =
            (ratio(measured.echo, self.quiet.echo), ratio(measured.packet, self.quiet.packet));
        let figures = format!(
            "{seen}; good switch: echo {:?} ({echo:.1}x), packet {:?} ({packet:.1}x), longest {:?}; kernel {} KiB more",
            measured.echo,
            measured.packet,
            measured.longest,
            after.saturating_sub(before)
        );
        let slow = |now: Duration, quiet: Duration| now > 2 * quiet && now > NOISE;
        ensure!(
            !slow(measured.echo, self.quiet.echo) && !slow(measured.packet, self.quiet.packet),
            "the good switch is slow: {figures}"
        );
        Ok(figures)
    }

    /// Fails if an attack has escaped.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        self.verdicts.finish()
    }
}

/// Times echoes and packet-ins of the good switch for this time.
fn times(good: &mut Emulated, time: Duration) -> anyhow::Result<Times> {
    let (begin, mut echoes, mut packets) = (Instant::now(), Vec::new(), Vec::new());
    let mut number = 0_u32;
    while begin.elapsed() < time {
        echoes.push(good.echo()?);
        number += 1;
        let (frame, sent) = (frame(0xffff_0000, number % 4), Instant::now());
        let frame = [&frame[..56], &number.to_be_bytes()].concat();
        good.packet_in(&frame)?;
        packets.push(good.wait_for_packet_out(&frame)?.saturating_duration_since(sent));
        thread::sleep(Duration::from_millis(8));
    }
    let longest = *echoes.iter().chain(&packets).max().context("some")?;
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    Ok(Times { echo: median(echoes), packet: median(packets), longest })
}

/// Number of lines of the log that contain all words.
pub(super) fn lines(net: &Net<'_>, words: &[&str]) -> usize {
    net.rosemary.log().lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
}

/// Waits until `rosemary status` names the switch among the reasons.
pub(super) fn named(net: &mut Net<'_>, dpid: &str) -> anyhow::Result<String> {
    let reason = net.rosemary.wait_for("the status names the switch", NOTICED, |status| {
        status.health.reasons.iter().find(|reason| reason.contains(dpid)).cloned()
    });
    Ok(reason?)
}

/// Private memory of a process in KiB, from `/proc` (`proc_pid_status(5)`).
pub(super) fn memory_kib(pid: u32) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).context("no VmRSS")
}

/// Runs `rosemary` with these arguments; returns its exit code, and both its outputs.
pub(super) fn run(lab: &Lab, args: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
    let output = lab.command(rosemary_binary()).args(args).output()?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8_lossy(&text).into_owned()))
}

/// Returns the process of an app that runs.
pub(super) fn pid(status: &Report, app: &str) -> anyhow::Result<u32> {
    let running = status.app(app).filter(|app| app.state == ProgramState::Running);
    running.and_then(|app| app.pid).with_context(|| format!("{app} does not run"))
}

/// The first line that begins like a forged one, or has a control character.
pub(super) fn raw_characters(text: &str) -> Option<&str> {
    let is_raw = |it: char| it.is_control() && it != '\t' || it == '\u{202e}' || it == '\u{200b}';
    text.lines().find(|line| line.starts_with("forged") || line.contains(is_raw))
}
