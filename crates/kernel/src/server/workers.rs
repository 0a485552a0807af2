//! The threads: how many workers there are, where each runs, and that all of them end.

use std::io;
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use sys::doorbell::Doorbell;
use sys::flight::Recorder;
use tracing::{error, warn};

use crate::control::{self, Tuning};
use crate::crew::{Crew, MAX_WORKERS};
use crate::tls::Entrance;
use crate::worker::{Apps, Command, Known, Notice, Office, Worker, connect};

/// The workers, as the server sees them.
#[derive(Debug)]
pub(super) struct Workers {
    pub(super) crew: Arc<Crew>,
    pub(super) notices: Receiver<Notice>,
    pub(super) notices_bell: Doorbell,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Workers {
    /// Starts as many as are said, or one for each CPU; the first accepts on `listeners`.
    /// Each notes what it does in its seat of `recorder`.
    pub(super) fn start(
        (count, tuning): (Option<u16>, Tuning),
        listeners: Vec<TcpListener>,
        apps: &[Known],
        recorder: &Recorder,
        entrance: &Entrance,
    ) -> io::Result<Self> {
        let cpus = cpus();
        let count = count.map_or(cpus.len(), usize::from).clamp(1, MAX_WORKERS.into());
        let (wires, Office { crew, notices, notices_bell }) = connect(count, tuning)?;
        let mut listeners = Some(listeners);
        let mut threads = Vec::new();
        for wires in wires {
            let number = wires.me;
            // One alone has no other to keep away from: the system knows better.
            let cpu = cpus
                .get(number)
                .copied()
                .filter(|_| tuning.pin && count > 1 && cpus.len() >= count);
            let ended = (wires.notices.clone(), wires.notices_bell.try_clone()?);
            let listeners = listeners.take().unwrap_or_default();
            let seat = Some(recorder.seat(number));
            let (apps, entrance) = (Apps { apps: apps.to_vec(), seat }, entrance.clone());
            let thread = std::thread::Builder::new().name(control::worker_name(number));
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
    use super::*;

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
