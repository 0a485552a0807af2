//! How a thread that wakes up gets a processor.

use std::io;

/// How a thread gets the processor on which another runs, when it wakes up (sched(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waking {
    /// It may take it at once, as threads do: `SCHED_OTHER`.
    AtOnce,
    /// It gets it when the other sleeps, or has had its time: `SCHED_BATCH`.
    InTurn,
}

impl Waking {
    /// Makes it so for the calling thread.
    ///
    /// # Errors
    /// The system refuses.
    pub fn set(self) -> io::Result<()> {
        let policy = match self {
            Self::AtOnce => libc::SCHED_OTHER,
            Self::InTurn => libc::SCHED_BATCH,
        };
        let parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: the parameters are those of sched_setscheduler(2) and live until it returns; 0 is the calling
        // thread.
        let code = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
        if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "asks the system")]
    fn thread_is_woken_as_it_says() {
        for (waking, policy) in
            [(Waking::InTurn, libc::SCHED_BATCH), (Waking::AtOnce, libc::SCHED_OTHER)]
        {
            waking.set().unwrap();
            // SAFETY: it takes a number and touches no memory of ours.
            assert_eq!(unsafe { libc::sched_getscheduler(0) }, policy);
        }
    }
}
