//! Sets the wake-up policy of a thread: whether it may interrupt another thread when it wakes up. [`deadline`] reserves processor time.

pub mod deadline;

use std::io;

/// When a thread that wakes up gets a processor on which another thread runs, sched(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waking {
    /// At once, which is the default: `SCHED_OTHER`.
    AtOnce,
    /// When the other thread sleeps or has used its time slice of some milliseconds: `SCHED_BATCH`.
    InTurn,
}

impl Waking {
    /// The policy of the calling thread; `None` if it has another one, such as `SCHED_FIFO`.
    ///
    /// # Errors
    /// The system refuses.
    pub fn get() -> io::Result<Option<Self>> {
        // SAFETY: it takes a number and accesses no memory; 0 is the calling thread.
        match unsafe { libc::sched_getscheduler(0) } {
            libc::SCHED_OTHER => Ok(Some(Self::AtOnce)),
            libc::SCHED_BATCH => Ok(Some(Self::InTurn)),
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(None),
        }
    }

    /// Sets the policy of the calling thread.
    ///
    /// # Errors
    /// The system refuses.
    pub fn set(self) -> io::Result<()> {
        let policy = match self {
            Self::AtOnce => libc::SCHED_OTHER,
            Self::InTurn => libc::SCHED_BATCH,
        };
        let parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: the parameters live until the call returns; 0 is the calling thread.
        let code = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
        if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "makes system calls")]
    fn policy_that_is_set_is_returned() {
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
