//! The threads: how many workers there are, where each runs, and that all of them end.

use std::io;
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use sys::doorbell::Doorbell;
use sys::flight::Recorder;
use tracing::{error, warn};

use crate::crew::{Crew, MAX_WORKERS};
use crate::query::{PAGE, SwitchStatus};
use crate::tls::Entrance;
use crate::worker::{Apps, Command, Known, Notice, Office, Worker, connect};

/// How long workers may take to answer an operator.
const PATIENCE: Duration = Duration::from_secs(1);

/// The workers, as the server sees them.
#[derive(Debug)]
pub(super) struct Workers {
    pub(super) crew: Arc<Crew>,
    pub(super) notices: Receiver<Notice>,
    pub(super) notices_bell: Doorbell,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Workers {
    /// Starts as many as `count` says, or one for each CPU; the first accepts on `listeners`.
    /// `recorder` is there if some app runs in this process.
    pub(super) fn start(
        count: Option<u16>,
        listeners: Vec<TcpListener>,
        apps: &[Known],
        recorder: Option<&Recorder>,
        entrance: &Entrance,
    ) -> io::Result<Self> {
        let cpus = cpus();
        let count = count.map_or(cpus.len(), usize::from).clamp(1, MAX_WORKERS);
        let (wires, Office { crew, notices, notices_bell }) = connect(count)?;
        let mut listeners = Some(listeners);
        let mut threads = Vec::new();
        for wires in wires {
            let number = wires.me;
            // One alone has no other to keep away from: the system knows better.
            let cpu = cpus.get(number).copied().filter(|_| count > 1 && cpus.len() >= count);
            let ended = (wires.notices.clone(), wires.notices_bell.try_clone()?);
            let listeners = listeners.take().unwrap_or_default();
            let seat = recorder.map(|recorder| recorder.seat(number));
            let (apps, entrance) = (Apps { apps: apps.to_vec(), seat }, entrance.clone());
            let thread = std::thread::Builder::new().name(format!("worker-{number}"));
            threads.push(thread.spawn(move || {
                if let Some(cpu) = cpu {
                    pin(cpu);
                }
                // Made in its own thread: instances of apps never leave the thread that made them.
                let work = || Worker::new(listeners, apps, entrance, wires).and_then(Worker::run);
                // A panic is one of ours; the server ends the process over it.
                let result = catch_unwind(AssertUnwindSafe(work));
                if let Ok(Err(error)) = &result {
                    error!(%error, "a worker ended");
                }
                let (notices, bell) = ended;
                let _ = notices.send(Notice::Ended);
                bell.ring();
                result.unwrap_or_else(|_| Err(io::Error::other("it panicked")))
            })?);
        }
        Ok(Self { crew, notices, notices_bell, threads })
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.crew.workers()
    }

    /// Asks the same of each.
    pub(super) fn command(&self, command: impl Fn() -> Command) {
        (0..self.count()).for_each(|worker| self.crew.command(worker, command()));
    }

    /// The switches with a greater DPID, a page of them, and whether there are more. `None` if
    /// some worker did not answer.
    pub(super) fn switches(&self, after: Option<u64>) -> Option<(Vec<SwitchStatus>, bool)> {
        let (reply, answers) = channel();
        self.command(|| Command::Switches { after, reply: reply.clone() });
        let give_up = Instant::now() + PATIENCE;
        let mut pages = Vec::new();
        for _ in 0..self.count() {
            let rest = give_up.saturating_duration_since(Instant::now());
            pages.push(answers.recv_timeout(rest).ok()?);
        }
        Some(merge(pages))
    }

    /// Has all of them end.
    pub(super) fn stop(self) -> io::Result<()> {
        self.command(|| Command::Stop);
        // All of them, whatever the first says.
        let ended: Vec<_> = self.threads.into_iter().map(JoinHandle::join).collect();
        ended
            .into_iter()
            .try_for_each(|thread| thread.unwrap_or_else(|_| Err(io::Error::other("it panicked"))))
    }
}

/// Makes one page of a page of each worker.
fn merge(pages: Vec<(Vec<SwitchStatus>, bool)>) -> (Vec<SwitchStatus>, bool) {
    let mut more = pages.iter().any(|(_, more)| *more);
    let mut all: Vec<_> = pages.into_iter().flat_map(|(switches, _)| switches).collect();
    // As numbers and as texts they have the same order. What is left out of this page, and what
    // a worker has left out, comes behind the page's end, so it is in the next.
    all.sort_unstable_by(|one, other| one.dpid.cmp(&other.dpid));
    more |= all.len() > PAGE;
    all.truncate(PAGE);
    (all, more)
}

/// The CPUs that this process may use.
fn cpus() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
        Err(error) => {
            warn!(%error, "could not find out which CPUs there are; there will be one worker");
            Vec::new()
        }
    }
}

/// Keeps this thread on a CPU, so that its caches stay its own.
fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    if let Err(error) = sched_setaffinity(None, &set) {
        warn!(cpu, %error, "could not keep a worker on its CPU");
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use dal::drivers::openflow::SwitchInfo;
    use openflow::{Dpid, Version};

    use super::*;
    use crate::switch::Switch;

    fn switch(dpid: u64) -> SwitchStatus {
        let (version, dpid) = (Version::V1_3, Dpid(dpid));
        let info = SwitchInfo { version, dpid, n_tables: 1, n_buffers: 0, ports: Vec::new() };
        Switch::new(info, 1).status((Ipv4Addr::LOCALHOST, 6653).into(), "tcp")
    }

    /// What a worker says that has these switches.
    fn page(dpids: &[u64], after: Option<u64>) -> (Vec<SwitchStatus>, bool) {
        let left = dpids.iter().filter(|dpid| after.is_none_or(|after| **dpid > after));
        let left: Vec<_> = left.copied().map(switch).collect();
        (left.iter().take(PAGE).cloned().collect(), left.len() > PAGE)
    }

    #[test]
    fn pages_of_workers_make_pages_of_all_switches_in_order() {
        let count = 3 * PAGE as u64;
        let (few, many): (Vec<u64>, Vec<u64>) = (0..count).partition(|dpid| dpid % 5 == 0);
        let (mut after, mut seen, mut pages) = (None, Vec::new(), 0);
        loop {
            let (switches, more) = merge(vec![page(&few, after), page(&many, after)]);
            seen.extend(switches.into_iter().map(|switch| switch.dpid));
            pages += 1;
            if !more {
                break;
            }
            after = seen
                .last()
                .map(|dpid| u64::from_str_radix(&dpid.replace(':', ""), 16).expect("a DPID"));
        }
        let all: Vec<String> = (0..count).map(|dpid| Dpid(dpid).to_string()).collect();
        assert_eq!((seen, pages), (all, 3));
    }

    #[test]
    fn worker_runs_on_the_cpu_that_it_is_pinned_to() {
        let Some(cpu) = cpus().last().copied() else { panic!("there is a CPU") };
        let seen = std::thread::spawn(move || {
            pin(cpu);
            cpus()
        });
        assert_eq!(seen.join().unwrap(), [cpu]);
    }
}
