//! Starts the worker threads, pins them to CPUs, and ends them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;

use control::app::Installation;
use control::flight::FlightRecorder;
use control::kernel::{Tuning, worker_name};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use sys::doorbell::Doorbell;
use tracing::{error, warn};

use crate::pool::{MAX_WORKERS, WorkerPool};
use crate::tls::TransportPolicy;
use crate::worker::{
    Apps, Command, Commander, Known, Listening, ServerChannels, Worker, WorkerEvent, connect,
};

/// The workers, as the server sees them.
#[derive(Debug)]
pub(super) struct Workers {
    pub(super) pool: Arc<WorkerPool>,
    pub(super) commander: Commander,
    pub(super) events: Receiver<WorkerEvent>,
    pub(super) events_bell: Doorbell,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Workers {
    /// Starts the given number of workers, or one for each CPU; the first accepts connections on `listeners`. Each
    /// worker notes its calls in its slot of `recorder`.
    pub(super) fn start(
        (count, tuning, installation): (Option<u16>, Tuning, Installation),
        listeners: Vec<Listening>,
        apps: &[Known],
        recorder: &FlightRecorder,
        transport: &TransportPolicy,
    ) -> io::Result<Self> {
        let cpus = cpus();
        let count = count.map_or(cpus.len(), usize::from).clamp(1, MAX_WORKERS.into());
        let (channels, ends) = connect(count, tuning, installation)?;
        let mut listeners = Some(listeners);
        let mut threads = Vec::new();
        for channels in channels {
            let number = channels.me.0;
            // A single worker is not pinned: the system finds a better CPU.
            let cpu = cpus
                .get(number)
                .copied()
                .filter(|_| tuning.pin && count > 1 && cpus.len() >= count);
            let ended = (channels.events.clone(), channels.events_bell.try_clone()?);
            let listeners = listeners.take().unwrap_or_default();
            let flight_slot = Some(recorder.slot(number));
            let (apps, transport) = (Apps { apps: apps.to_vec(), flight_slot }, transport.clone());
            let thread = std::thread::Builder::new().name(worker_name(number));
            threads.push(thread.spawn(move || {
                record_crashes_of_thread(number);
                if let Some(cpu) = cpu {
                    pin(cpu);
                }
                // The thread makes its worker, as instances of apps never leave the thread that made them.
                let work =
                    || Worker::new(listeners, apps, transport, channels).and_then(Worker::run);
                // A panic is a fault of the kernel: the server ends the process.
                let result = catch_unwind(AssertUnwindSafe(work));
                if let Ok(Err(error)) = &result {
                    error!(%error, "a worker failed");
                }
                let (events, bell) = ended;
                let _ = events.send(WorkerEvent::Ended);
                bell.ring();
                result.unwrap_or_else(|_| Err(io::Error::other("it panicked")))
            })?);
        }
        let ServerChannels { pool, commander, events, events_bell } = ends;
        Ok(Self { pool, commander, events, events_bell, threads })
    }

    /// Number of workers.
    pub(super) fn count(&self) -> usize {
        self.pool.workers()
    }

    /// Sends a command to each worker.
    pub(super) fn command(&self, command: impl Fn() -> Command) {
        self.commander.send_all(command);
    }

    /// Ends all workers.
    pub(super) fn stop(self) -> io::Result<()> {
        self.command(|| Command::Stop);
        // All are joined, whatever the first returns.
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
            warn!(%error, "could not find out the available CPUs; started one worker");
            Vec::new()
        }
    }
}

/// Records a crash of this thread with its slot in the flight recorder and with its stack.
pub(super) fn record_crashes_of_thread(slot: usize) {
    if let Err(error) = sys::crash::watch_thread(slot) {
        warn!(slot, %error, "could not prepare to record a crash of a thread");
    }
}

/// Pins this thread to a CPU, so that it keeps its caches.
fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    if let Err(error) = sched_setaffinity(None, &set) {
        warn!(cpu, %error, "could not pin a worker to its CPU");
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
