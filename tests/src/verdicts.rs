//! Verdicts on attacks, and the other users, who have to be served.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::net::{INTERVAL, Net, SOON};
use crate::rosemary_binary;

/// The longest time of `rosemary status` on a busy machine.
const SLOWEST: Duration = Duration::from_secs(4);

/// Pause between two of them.
const PAUSE: Duration = Duration::from_millis(100);

/// The attacks whose harm was seen.
#[derive(Debug, Default)]
pub struct Verdicts {
    escaped: Vec<String>,
}

impl Verdicts {
    /// Prints the outcome of an attack. An error is an escape.
    #[expect(clippy::print_stdout, reason = "make hostile shows the outcomes")]
    pub fn judge(&mut self, name: &str, outcome: anyhow::Result<String>) {
        match outcome {
            Ok(seen) => println!("outside: {name}: contained ({seen})"),
            Err(error) => {
                println!("outside: {name}: escaped ({error:#})");
                self.escaped.push(format!("{name}: {error:#}"));
            }
        }
    }

    /// Runs an attack beside others and judges it.
    pub fn beside<'lab>(
        &mut self,
        net: &mut Net<'lab>,
        name: &str,
        attack: impl FnOnce(&mut Net<'lab>) -> anyhow::Result<String>,
    ) {
        let outcome = served(net, attack);
        self.judge(name, outcome);
    }

    /// Fails if an attack has escaped.
    ///
    /// # Errors
    /// One has.
    pub fn finish(self) -> anyhow::Result<()> {
        ensure!(self.escaped.is_empty(), "{:#?}", self.escaped);
        Ok(())
    }
}

/// Runs an attack while a host pings another one on a flow and `rosemary status` is asked. Returns what was seen of the attack and of the
/// others.
///
/// # Errors
/// The attack failed, a ping was lost, the kernel or the monitor is another process, or a status was late.
pub fn served<'lab>(
    net: &mut Net<'lab>,
    attack: impl FnOnce(&mut Net<'lab>) -> anyhow::Result<String>,
) -> anyhow::Result<String> {
    let before = net.status()?.programs;
    let mut pings = net.h1.ping_in_background(&net.h2, 100_000, INTERVAL)?;
    pings.wait_for(3, SOON)?;
    let is_over = Arc::new(AtomicBool::new(false));
    let asking = thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || slowest_status(&is_over)
    });
    let seen = attack(net);
    is_over.store(true, Ordering::Relaxed);
    let slowest = asking.join().ok().context("the asking thread panicked")?;
    let report = pings.end()?;
    let (seen, slowest) = (seen?, slowest?);
    let sent = report.replies.last().map_or(0, |reply| reply.seq) as usize;
    ensure!(sent == report.replies.len(), "{} of {sent} pings were answered", report.replies.len());
    let after = net.status()?.programs;
    ensure!(after.kernel.pid == before.kernel.pid, "the kernel is another process");
    ensure!(after.monitor.pid == before.monitor.pid, "the monitor is another process");
    Ok(format!("{seen}; {sent} pings, status in at most {slowest:.0?}"))
}

fn slowest_status(is_over: &AtomicBool) -> anyhow::Result<Duration> {
    let mut slowest = Duration::ZERO;
    loop {
        let begin = Instant::now();
        let mut command = Command::new(rosemary_binary());
        let output = command.args(["status", "--json"]).stdin(Stdio::null()).output()?;
        slowest = slowest.max(begin.elapsed());
        // 3: degraded
        ensure!(matches!(output.status.code(), Some(0 | 3)), "no status: {output:?}");
        ensure!(slowest < SLOWEST, "a status took {slowest:?}");
        if is_over.load(Ordering::Relaxed) {
            return Ok(slowest);
        }
        thread::sleep(PAUSE);
    }
}
