//! Schedules threads of processes as the sessions demand: reservations from outside, weights, and the partition.

use control::kernel::worker_name;
use supervisor::effects::{ProgramId, Schedule, Threads};
use sys::sched::deadline::{self, Refused, Reservation};
use tracing::debug;

use super::Processes;

impl Processes {
    /// Schedules threads. Returns `None` if the process has ended.
    ///
    /// # Errors
    /// Why a request was refused, as a phrase. The threads have no reservation then.
    pub(super) fn schedule(
        &self,
        program: ProgramId,
        request: Schedule,
    ) -> Option<Result<(), String>> {
        let running = self.running.get(&program);
        let threads = match request.threads {
            Threads::Own => Ok(vec![std::process::id()]),
            // The number of the main thread is that of the process.
            Threads::Main => Ok(vec![running?.process.child.pid()]),
            Threads::Workers(count) => workers(running?.process.child.pid(), count),
        };
        let is_zone = request.threads == Threads::Main;
        let reserved = threads.and_then(|threads| match request.deadline {
            Some(it) => {
                let reservation = Reservation { runtime: it.runtime, period: it.period };
                self.reserve(&threads, reservation, is_zone)
            }
            None => {
                self.release(&threads, is_zone);
                Ok(())
            }
        });
        let weight = match (request.weight, running) {
            (Some(weight), Some(running)) => running.process.set_weight(weight),
            _ => Ok(()),
        };
        if request.deadline.is_some() {
            // The weight concerns the other threads of the process only.
            if let Err(why) = weight {
                debug!(why, "could not set the weight of a program with a reservation");
            }
            return Some(reserved);
        }
        Some(reserved.and(weight))
    }

    fn reserve(
        &self,
        threads: &[u32],
        reservation: Reservation,
        is_zone: bool,
    ) -> Result<(), String> {
        for tid in threads {
            if let Some(partition) = self.partition.as_ref().filter(|_| is_zone)
                && let Err(error) = partition.set_member(*tid, true)
            {
                self.release(threads, is_zone);
                return Err(format!("the partition does not take the thread: {error}"));
            }
            if let Err(refused) = deadline::reserve(*tid, reservation) {
                self.release(threads, is_zone);
                return Err(refused.to_string());
            }
        }
        Ok(())
    }

    /// Makes threads ordinary ones. A thread that has ended needs nothing.
    fn release(&self, threads: &[u32], is_zone: bool) {
        for tid in threads {
            if deadline::reservation(*tid).is_ok_and(|it| it.is_some())
                && let Err(error) = deadline::release(*tid)
            {
                debug!(%error, tid, "could not end the reservation of a thread");
            }
            if let Some(partition) = self.partition.as_ref().filter(|_| is_zone)
                && let Err(error) = partition.set_member(*tid, false)
            {
                debug!(%error, tid, "could not move a thread out of the partition");
            }
        }
    }
}

/// The threads of the workers of a kernel, which has `count` of them.
fn workers(kernel: u32, count: u16) -> Result<Vec<u32>, String> {
    let names: Vec<String> = (0..usize::from(count)).map(worker_name).collect();
    let threads = deadline::threads_named(kernel, |name| names.iter().any(|it| it == name));
    let threads = threads.map_err(|_| Refused::Gone.to_string())?;
    if threads.len() == names.len() {
        return Ok(threads);
    }
    Err(format!("the kernel has {} of {count} workers", threads.len()))
}
