//! Schedules threads of processes as the sessions demand: reservations from outside, weights, and the partition.
//!
//! A thread is named by a number, which another program can receive when the thread ends. So each process is held by a pidfd while its
//! threads are scheduled, and a reservation that may have met another program is undone at once.

use control::kernel::worker_name;
use supervisor::effects::{ProgramId, Schedule, Threads};
use sys::process::HeldProgram;
use sys::sched::deadline::{self, Refused, Reservation};
use tracing::debug;

use super::Processes;

/// Threads of a program that exists.
#[derive(Debug)]
struct Found {
    tids: Vec<u32>,
    /// The program; `None` for the monitor itself.
    program: Option<HeldProgram>,
}

impl Found {
    /// Whether the number is still that of a thread of the program.
    fn has(&self, tid: u32) -> bool {
        self.program.as_ref().is_none_or(|it| it.has_thread(tid))
    }
}

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
        let held = || running?.process.child.hold();
        let found = match request.threads {
            Threads::Own => Ok(Found { tids: vec![std::process::id()], program: None }),
            // The number of the main thread is that of the process.
            Threads::Main => {
                let program = held()?;
                Ok(Found { tids: vec![program.pid()], program: Some(program) })
            }
            Threads::Workers(count) => {
                let program = held()?;
                let tids = workers(program.pid(), count);
                tids.map(|tids| Found { tids, program: Some(program) })
            }
        };
        let is_zone = request.threads == Threads::Main;
        let reserved = found.and_then(|found| {
            if let Some(it) = request.deadline {
                let reservation = Reservation { runtime: it.runtime, period: it.period };
                self.reserve(&found, reservation, is_zone)
            } else {
                self.release(&found, is_zone);
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
        found: &Found,
        reservation: Reservation,
        is_zone: bool,
    ) -> Result<(), String> {
        for &tid in &found.tids {
            let result = self.reserve_one(tid, reservation, is_zone);
            // If the thread has ended, its number may already be that of a thread of another program.
            let result = match result {
                Ok(()) if !found.has(tid) => {
                    self.release_one(tid, is_zone);
                    Err(Refused::Gone.to_string())
                }
                result => result,
            };
            if result.is_err() {
                self.release(found, is_zone);
                return result;
            }
        }
        Ok(())
    }

    fn reserve_one(&self, tid: u32, reservation: Reservation, is_zone: bool) -> Result<(), String> {
        let partition = self.partition.as_ref().filter(|_| is_zone);
        let moved = |is_member| {
            let moved = partition.map_or(Ok(()), |it| it.set_member(tid, is_member));
            moved.map_err(|error| format!("the partition does not take the thread: {error}"))
        };
        // A sleeping thread counts as one of the processor where it ran last, and Linux refuses a reservation to a thread that may not
        // use that one. So the thread receives it outside, where it may use all, and moves with it.
        moved(false)?;
        deadline::reserve(tid, reservation).map_err(|refused| refused.to_string())?;
        moved(true)
    }

    /// Makes threads ordinary ones. A thread that has ended needs nothing.
    fn release(&self, found: &Found, is_zone: bool) {
        for &tid in found.tids.iter().filter(|tid| found.has(**tid)) {
            self.release_one(tid, is_zone);
        }
    }

    fn release_one(&self, tid: u32, is_zone: bool) {
        if deadline::reservation(tid).is_ok_and(|it| it.is_some())
            && let Err(error) = deadline::release(tid)
        {
            debug!(%error, tid, "could not end the reservation of a thread");
        }
        if let Some(partition) = self.partition.as_ref().filter(|_| is_zone)
            && let Err(error) = partition.set_member(tid, false)
        {
            debug!(%error, tid, "could not move a thread out of the partition");
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
