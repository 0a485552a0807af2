//! Polls descriptors of the app itself, such as connections of its clients, and a doorbell that its threads ring.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sys::doorbell::{Doorbell, DoorbellSender};

/// The most descriptors that an app watches at a time.
pub const MOST_WATCHED: usize = 256;

/// The descriptors that the app waits for.
#[derive(Debug, Default)]
pub struct Watched {
    entries: Vec<WatchedDescriptor>,
    /// Descriptors with news that the app has not received: their numbers and events.
    ready: Vec<(i32, PollFlags)>,
    bell: Option<(Doorbell, OwnedFd, DoorbellSender)>,
    has_rung: bool,
}

#[derive(Debug)]
struct WatchedDescriptor {
    number: i32,
    /// A duplicate: the app may close its own at any time.
    fd: OwnedFd,
    events: PollFlags,
}

impl Watched {
    /// Watches nothing except a doorbell of its own.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn with_bell() -> io::Result<Self> {
        let (bell, sender) = Doorbell::new()?;
        let ringer = DoorbellSender::from_fd(sender.try_clone()?);
        Ok(Self { bell: Some((bell, sender, ringer)), ..Self::default() })
    }

    /// The descriptors of the doorbell, which the confinement must keep.
    pub fn own_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.bell.iter().flat_map(|(bell, sender, ringer)| {
            bell.fds().chain([sender.as_fd()]).chain(ringer.fds()).collect::<Vec<_>>()
        })
    }

    /// Returns what wakes the zone from any thread.
    ///
    /// # Errors
    /// There is no doorbell, or the system is out of descriptors.
    pub fn ringer(&self) -> io::Result<DoorbellSender> {
        let (_, _, ringer) = self.bell.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        ringer.try_clone()
    }

    /// Watches the descriptor `number` for `events`. `fd` is a duplicate of it. Replaces an earlier watch of this number.
    ///
    /// # Errors
    /// The app watches too many.
    pub fn watch(&mut self, number: i32, fd: OwnedFd, events: PollFlags) -> io::Result<()> {
        self.forget(number);
        if self.entries.len() >= MOST_WATCHED {
            return Err(io::Error::other(format!(
                "an app can watch at most {MOST_WATCHED} descriptors"
            )));
        }
        self.entries.push(WatchedDescriptor { number, fd, events });
        Ok(())
    }

    /// Stops to watch this descriptor.
    pub fn forget(&mut self, number: i32) {
        self.entries.retain(|entry| entry.number != number);
        self.ready.retain(|(ready, _)| *ready != number);
    }

    /// Whether the app must be called: a descriptor has news, or the doorbell rang.
    pub fn has_news(&self) -> bool {
        self.has_rung || !self.ready.is_empty()
    }

    /// Takes the news: the numbers of descriptors and their events.
    pub fn take_news(&mut self) -> Vec<(i32, PollFlags)> {
        self.has_rung = false;
        std::mem::take(&mut self.ready)
    }

    /// What to poll. [`polled`](Self::polled) takes the results in this order.
    pub fn fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let bell = self.bell.iter().map(|(bell, ..)| PollFd::new(bell, PollFlags::IN));
        bell.chain(self.entries.iter().map(|entry| PollFd::new(&entry.fd, entry.events)))
    }

    /// Takes the results of a poll of [`fds`](Self::fds).
    pub fn polled(&mut self, results: &[PollFlags]) {
        let (bell, entries) = results.split_at(results.len().min(usize::from(self.bell.is_some())));
        if bell.iter().any(|events| !events.is_empty())
            && let Some((bell, ..)) = &self.bell
        {
            bell.silence();
            self.has_rung = true;
        }
        let news = self.entries.iter().zip(entries).filter(|(_, events)| !events.is_empty());
        self.ready = news.map(|(entry, events)| (entry.number, *events)).collect();
    }

    /// Polls without waiting.
    pub fn poll_now(&mut self) {
        if self.entries.is_empty() && self.bell.is_none() {
            return;
        }
        let mut fds: Vec<_> = self.fds().collect();
        if poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok() {
            let results: Vec<_> = fds.iter().map(PollFd::revents).collect();
            drop(fds);
            self.polled(&results);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readable_descriptor_and_bell_are_news() {
        let mut watched = Watched::with_bell().unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        watched.watch(40, reader, PollFlags::IN).unwrap();
        watched.poll_now();
        assert!(!watched.has_news());
        rustix::io::write(&writer, b"x").unwrap();
        watched.poll_now();
        assert_eq!(watched.take_news(), [(40, PollFlags::IN)]);
        watched.forget(40);
        watched.poll_now();
        assert!(!watched.has_news());
        watched.ringer().unwrap().ring();
        watched.poll_now();
        assert!(watched.has_news());
        assert_eq!(watched.take_news(), []);
        watched.poll_now();
        assert!(!watched.has_news(), "the bell was silenced");
    }

    #[test]
    fn number_of_watched_descriptors_is_bounded() {
        let mut watched = Watched::default();
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        for number in 0..i32::try_from(MOST_WATCHED).unwrap() {
            let fd = reader.try_clone().expect("descriptors for the test");
            watched.watch(number, fd, PollFlags::IN).unwrap();
        }
        assert!(watched.watch(-5, reader, PollFlags::IN).is_err());
    }
}
