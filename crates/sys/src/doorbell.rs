//! A doorbell: wakes a peer that said it would sleep.
//!
//! A pipe, whose bytes say nothing: what there is to do stands in the ring. One side rings, the
//! other hears, and each holds an open file description of its own. (An eventfd would be one
//! description for both: a hostile peer could make it block, and whoever rings would wait for
//! ever.) A peer can cost us a spurious wake-up, or itself a missed one, and nothing else: it cannot
//! make our end block, and because we keep its end open as well it cannot hang up on us.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// Bytes that a doorbell holds: rings that were not heard yet, beyond which it is loud enough.
const SIZE: usize = 4096;

/// The end that hears.
#[derive(Debug)]
pub struct Doorbell {
    ours: OwnedFd,
    /// The peer's end: while we have it open, the peer cannot hang up.
    _theirs: Option<OwnedFd>,
}

/// The end that rings.
#[derive(Debug)]
pub struct Ringer {
    ours: OwnedFd,
    /// As for [`Doorbell`].
    theirs: Option<OwnedFd>,
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (hears, rings) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    fcntl_setpipe_size(&rings, SIZE)?;
    Ok((hears, rings))
}

impl Doorbell {
    /// Makes a silent doorbell that we hear; the descriptor is for the peer to ring it by.
    ///
    /// # Errors
    /// The system is out of descriptors or memory.
    pub fn new() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = pipe()?;
        Ok((Self { ours, _theirs: Some(theirs.try_clone()?) }, theirs))
    }

    /// Takes the hearing end that a peer made.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self { ours: fd, _theirs: None }
    }

    /// Silences it, so that the next wait sleeps.
    pub fn silence(&self) {
        let mut rings = [0_u8; SIZE];
        // Nothing there is silence, too.
        let _ = rustix::io::read(&self.ours, &mut rings);
    }
}

impl Ringer {
    /// Makes a silent doorbell that we ring; the descriptor is for the peer to hear it by.
    ///
    /// # Errors
    /// The system is out of descriptors or memory.
    pub fn new() -> io::Result<(Self, OwnedFd)> {
        let (theirs, ours) = pipe()?;
        Ok((Self { ours, theirs: Some(theirs.try_clone()?) }, theirs))
    }

    /// Takes the ringing end that a peer made.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self { ours: fd, theirs: None }
    }

    /// Another ringer of the same doorbell.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        let theirs = self.theirs.as_ref().map(OwnedFd::try_clone).transpose()?;
        Ok(Self { ours: self.ours.try_clone()?, theirs })
    }

    /// Wakes the peer. A doorbell that is already as loud as it gets stays so.
    pub fn ring(&self) {
        // A full pipe rings already; one whose reader is gone has nobody to wake.
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
        let ringer = Ringer::from_fd(fd);
        assert!(!rings(&bell));
        ringer.ring();
        ringer.ring();
        assert!(rings(&bell));
        bell.silence();
        assert!(!rings(&bell));
    }

    #[test]
    fn peer_that_makes_its_end_block_and_fills_the_doorbell_does_not_block_ours() {
        let (ringer, theirs) = Ringer::new().unwrap();
        fcntl_setfl(&theirs, OFlags::empty()).unwrap();
        for _ in 0..=2 * SIZE {
            ringer.ring();
        }
        let (bell, theirs) = Doorbell::new().unwrap();
        fcntl_setfl(&theirs, OFlags::empty()).unwrap();
        bell.silence();
        bell.silence();
    }

    #[test]
    fn peer_that_closes_its_end_is_silent_not_loud() {
        let (bell, theirs) = Doorbell::new().unwrap();
        drop(theirs);
        assert!(!rings(&bell));
        let (ringer, theirs) = Ringer::new().unwrap();
        drop(theirs);
        ringer.ring();
    }
}
