//! Makes the rings of a zone: gives each worker its part, and sends the zone's ends to the monitor once all workers use
//! theirs.
//!
//! **Attempts are answered in their order**, as the monitor counts answers. An event about the previous zone that a worker
//! reported before it used the new rings is sent before the answer for the new zone.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use super::workers::Workers;
use crate::app_port::part;
use crate::ids::WorkerId;
use crate::worker::Command;
use control::app::AppId;
use control::policy::Policy;

/// The pending attempts.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// The oldest first; its number is `answered`.
    pending: VecDeque<Attempt>,
    answered: u64,
}

#[derive(Debug)]
struct Attempt {
    app: AppId,
    /// The zone's descriptors, or the reason why there are none.
    rings: Result<Vec<OwnedFd>, String>,
    /// Number of workers that have not reported.
    silent: usize,
}

/// The answer to an attempt.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) app: AppId,
    /// The zone's descriptors, or the reason why there are none.
    pub(super) rings: Result<Vec<OwnedFd>, String>,
    /// Whether no later attempt for this app is pending.
    pub(super) last: bool,
}

impl Attempts {
    /// Makes rings for an app and gives each worker its part.
    pub(super) fn begin(&mut self, workers: &Workers, app: AppId, name: &str, policy: &Policy) {
        let attempt = self.answered + self.pending.len() as u64;
        let (rings, silent) = match part::make(&workers.pool, workers.pool.tuning().ring) {
            Ok((parts, fds)) => {
                for (worker, part) in parts.into_iter().enumerate() {
                    let (name, policy, part) = (name.to_owned(), policy.clone(), Box::new(part));
                    let attach = Command::Attach { attempt, app, name, policy, part };
                    workers.commander.send(WorkerId(worker), attach);
                }
                (Ok(fds), workers.count())
            }
            Err(error) => (Err(format!("could not make its rings: {error}")), 0),
        };
        self.pending.push_back(Attempt { app, rings, silent });
    }

    /// Notes that a worker uses its part, or could not.
    pub(super) fn note_result(&mut self, attempt: u64, result: Result<(), String>) {
        let place = attempt.checked_sub(self.answered).and_then(|it| usize::try_from(it).ok());
        if let Some(attempt) = place.and_then(|place| self.pending.get_mut(place)) {
            attempt.silent = attempt.silent.saturating_sub(1);
            if let Err(why) = result {
                attempt.rings = Err(why);
            }
        }
    }

    /// The next attempt that can be answered.
    pub(super) fn next_answered(&mut self) -> Option<Answered> {
        if self.pending.front()?.silent > 0 {
            return None;
        }
        let Attempt { app, rings, .. } = self.pending.pop_front()?;
        self.answered += 1;
        let last = self.pending.iter().all(|later| later.app != app);
        Some(Answered { app, rings, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(app: u16, silent: usize) -> Attempt {
        Attempt { app: AppId(app), rings: Ok(Vec::new()), silent }
    }

    #[test]
    fn attempts_are_answered_in_order() {
        let mut attempts = Attempts { pending: [open(1, 2), open(1, 2)].into(), answered: 7 };
        attempts.note_result(7, Ok(()));
        attempts.note_result(8, Ok(()));
        attempts.note_result(8, Err("no".into()));
        assert!(attempts.next_answered().is_none(), "the first is still pending");
        attempts.note_result(7, Ok(()));
        let first = attempts.next_answered().unwrap();
        assert!(first.rings.is_ok() && !first.last);
        let second = attempts.next_answered().unwrap();
        assert!(second.rings.is_err_and(|why| why == "no") && second.last);
        assert!(attempts.next_answered().is_none());
        attempts.note_result(8, Ok(()));
        attempts.note_result(9, Ok(()));
        assert_eq!((attempts.answered, attempts.pending.len()), (9, 0));
    }
}
