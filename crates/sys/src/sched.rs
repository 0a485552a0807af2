//! How a thread that wakes up gets a processor.

use std::io;

/// How a thread gets the processor on which another runs, when it wakes up (sched(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waking {
    /// It may take it at once, as threads do: `SCHED_OTHER`.
    AtOnce,
    /// It gets it when the other sleeps, or has had its slice of time, which is some milliseconds: `SCHED_BATCH`.
    InTurn,
}

impl Waking {
    /// How it is for the calling thread; `None` if it is scheduled in another way, such as `SCHED_FIFO`.
    ///
    /// # Errors
    /// The system refuses.
    pub fn get() -> io::Result<Option<Self>> {
        // SAFETY: it takes a number and touches no memory of ours; 0 is the calling thread.
        match unsafe { libc::sched_getscheduler(0) } {
            libc::SCHED_OTHER => Ok(Some(Self::AtOnce)),
            libc::SCHED_BATCH => Ok(Some(Self::InTurn)),
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(None),
        }
    }

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
    fn thread_is_woken_as_it_says_and_another_way_is_told() {
        for waking in [Waking::InTurn, Waking::AtOnce] {
            waking.set().unwrap();
            assert_eq!(Waking::get().unwrap(), Some(waking));
        }
        let parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: as in `set`; the test has a thread of its own.
        let code = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
        assert_eq!(code, 0);
        assert_eq!(Waking::get().unwrap(), None);
    }
}
