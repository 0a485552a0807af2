//! Wakes a peer that announced in the ring that it sleeps.
//!
//! A doorbell is a pipe. Its bytes carry no meaning: the ring holds the records. One side rings by a [`DoorbellSender`],
//! the other waits on a [`Doorbell`], and each end is an open file description of its own. (An eventfd would be one
//! description for both: a hostile peer could make it block, and a sender would wait for ever.)
//!
//! A peer can cause a spurious wake-up on our side or a missed one on its own, and nothing else. It cannot make our end
//! block, and it cannot hang up on us, because we keep its end open as well.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// Size of the pipe in bytes: the rings that it holds before the receiver reads them. Further rings are dropped.
const SIZE: usize = 4096;

/// The receiving end, which becomes readable when the peer rings.
#[derive(Debug)]
pub struct Doorbell {
    ours: OwnedFd,
    /// The peer's end: while it is open here, the peer cannot hang up.
    theirs: Option<OwnedFd>,
}

/// The sending end, which wakes the peer.
#[derive(Debug)]
pub struct DoorbellSender {
    ours: OwnedFd,
    /// As for [`Doorbell`].
    theirs: Option<OwnedFd>,
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (receiver, sender) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    fcntl_setpipe_size(&sender, SIZE)?;
    Ok((receiver, sender))
}

impl Doorbell {
    /// Makes a silent doorbell for this process to wait on. The descriptor is the sending end, for the peer.
    ///
    /// # Errors
    /// The system is out of descriptors or memory.
    pub fn new() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = pipe()?;
        Ok((Self { ours, theirs: Some(theirs.try_clone()?) }, theirs))
    }

    /// Uses the receiving end that a peer made.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self { ours: fd, theirs: None }
    }

    /// The descriptors that it holds.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [Some(&self.ours), self.theirs.as_ref()].into_iter().flatten().map(AsFd::as_fd)
    }

    /// Reads all rings, so that the next wait sleeps.
    pub fn silence(&self) {
        let mut rings = [0_u8; SIZE];
        // Fails only where there is nothing to read.
        let _ = rustix::io::read(&self.ours, &mut rings);
    }
}

impl DoorbellSender {
    /// Makes a silent doorbell for this process to ring. The descriptor is the receiving end, for the peer.
    ///
    /// # Errors
    /// The system is out of descriptors or memory.
    pub fn new() -> io::Result<(Self, OwnedFd)> {
        let (theirs, ours) = pipe()?;
        Ok((Self { ours, theirs: Some(theirs.try_clone()?) }, theirs))
    }

    /// Uses the sending end that a peer made.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self { ours: fd, theirs: None }
    }

    /// Makes another sending end of the same doorbell.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        let theirs = self.theirs.as_ref().map(OwnedFd::try_clone).transpose()?;
        Ok(Self { ours: self.ours.try_clone()?, theirs })
    }

    /// The descriptors that it holds.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [Some(&self.ours), self.theirs.as_ref()].into_iter().flatten().map(AsFd::as_fd)
    }

    /// Wakes the peer.
    pub fn ring(&self) {
        // Fails if the pipe is full, so the peer wakes anyway, or if the peer is gone.
        let _ = rustix::io::write(&self.ours, &[1]);
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ours.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::{OFlags, fcntl_setfl};

    use super::*;

    fn rings(bell: &Doorbell) -> bool {
        let mut fds = [PollFd::new(bell, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn doorbell_rings_until_it_is_silenced() {
        let (bell, fd) = Doorbell::new().unwrap();
        let sender = DoorbellSender::from_fd(fd);
        assert!(!rings(&bell));
        sender.ring();
        sender.ring();
        assert!(rings(&bell));
        bell.silence();
        assert!(!rings(&bell));
    }

    #[test]
    fn peer_with_a_blocking_end_does_not_block_ours() {
        let (sender, theirs) = DoorbellSender::new().unwrap();
        fcntl_setfl(&theirs, OFlags::empty()).unwrap();
        for _ in 0..=2 * SIZE {
            sender.ring();
        }
        let (bell, theirs) = Doorbell::new().unwrap();
        fcntl_setfl(&theirs, OFlags::empty()).unwrap();
        bell.silence();
        bell.silence();
    }

    #[test]
    fn closed_peer_does_not_ring() {
        let (bell, theirs) = Doorbell::new().unwrap();
        drop(theirs);
        assert!(!rings(&bell));
        let (sender, theirs) = DoorbellSender::new().unwrap();
        drop(theirs);
        sender.ring();
    }
}
