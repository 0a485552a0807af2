//! A doorbell: wakes a peer that said it would sleep.
//!
//! An eventfd in non-blocking mode. It carries no data: what there is to do stands in the ring.
//! Whoever holds it may ring it or silence it, so a hostile peer can cost its holder a spurious
//! wake-up, or itself a missed one, and nothing else.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// One end of a doorbell; the other process holds a duplicate of the same eventfd.
#[derive(Debug)]
pub struct Doorbell(OwnedFd);

impl Doorbell {
    /// Makes a silent doorbell.
    ///
    /// # Errors
    /// The system is out of descriptors or memory.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Takes a doorbell that was passed in.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Another handle to the same doorbell, to pass to the peer.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// Gives up the handle, to pass it on.
    pub fn into_fd(self) -> OwnedFd {
        self.0
    }

    /// Wakes the peer. A doorbell that is already as loud as it gets stays so.
    pub fn ring(&self) {
        // The only failures are a full counter, in which case it rings already, and a
        // descriptor that is not an eventfd, which a peer cannot bring about.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Silences it, so that the next wait sleeps.
    pub fn silence(&self) {
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn rings(bell: &Doorbell) -> bool {
        let mut fds = [PollFd::new(bell, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn doorbell_rings_until_it_is_silenced() {
        let bell = Doorbell::new().unwrap();
        assert!(!rings(&bell));
        bell.ring();
        bell.ring();
        assert!(rings(&bell));
        bell.silence();
        assert!(!rings(&bell));
    }

    #[test]
    fn doorbell_filled_to_the_brim_does_not_block_who_rings_it() {
        let bell = Doorbell::new().unwrap();
        rustix::io::write(&bell, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        bell.ring();
        assert!(rings(&bell));
    }
}
