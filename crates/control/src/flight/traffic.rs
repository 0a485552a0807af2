//! The messages of apps: a row of words for each app of each worker.
//!
//! ```text
//! word 0    the number of the app; 0 for a free row
//! word 1    packet-ins that it received
//! word 2    the bytes of these
//! word 3    its messages to switches
//! word 4    the bytes of these; 3 words unused
//! ```
//!
//! Only the row's worker writes it, so each store replaces the last value. The memory outlives a kernel that is killed, so the
//! monitor loses no count.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use sys::shm::Word;

use crate::app::AppId;

/// The apps that each worker can have.
const MOST_APPS: usize = 64;

/// Words from one row to the next: a cache line.
const ROW: usize = 8;

/// The words of one worker.
pub(super) const WORDS: usize = MOST_APPS * ROW;

/// The messages of one app since the kernel started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Messages {
    /// Packet-ins that it received.
    pub received: u64,
    /// The bytes of these.
    pub received_bytes: u64,
    /// Its messages to switches.
    pub sent: u64,
    /// The bytes of these.
    pub sent_bytes: u64,
}

impl Messages {
    fn words(&self) -> [u64; 4] {
        let Self { received, received_bytes, sent, sent_bytes } = *self;
        [received, received_bytes, sent, sent_bytes]
    }

    fn of_words([received, received_bytes, sent, sent_bytes]: [u64; 4]) -> Self {
        Self { received, received_bytes, sent, sent_bytes }
    }

    /// Combines each amount with that of `other`.
    fn with(&self, other: &Self, combine: fn(u64, u64) -> u64) -> Self {
        let mut words = self.words();
        for (word, other) in words.iter_mut().zip(other.words()) {
            *word = combine(*word, other);
        }
        Self::of_words(words)
    }
}

/// The messages of all apps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traffic(BTreeMap<AppId, Messages>);

impl Traffic {
    /// Adds the rows of a worker, which `word` reads. Any content is valid.
    pub(super) fn read(&mut self, word: impl Fn(usize) -> u64) {
        for row in (0..MOST_APPS).map(|app| app * ROW) {
            let Some(app) = u16::try_from(word(row)).ok().filter(|app| *app != 0) else { continue };
            let messages = Messages::of_words([1, 2, 3, 4].map(|at| word(row + at)));
            let sum = self.0.entry(AppId(app)).or_default();
            *sum = sum.with(&messages, u64::saturating_add);
        }
    }

    /// The messages of these apps.
    pub fn of(apps: impl IntoIterator<Item = (AppId, Messages)>) -> Self {
        Self(apps.into_iter().collect())
    }

    /// The messages of each app.
    pub fn apps(&self) -> impl Iterator<Item = (AppId, Messages)> {
        self.0.iter().map(|(app, messages)| (*app, *messages))
    }

    /// The messages since `before`. A hostile kernel cannot make them negative.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let earlier = |app| before.0.get(&app).copied().unwrap_or_default();
        Self::of(self.apps().map(|(app, it)| (app, it.with(&earlier(app), u64::saturating_sub))))
    }
}

/// Writes the row of the app in this slot of the worker with these words.
pub(super) fn write(words: &[Word], slot: usize, app: AppId, messages: &Messages) {
    let Some(row) = words.get(slot * ROW..).and_then(|words| words.get(..ROW)) else { return };
    let Some((number, counts)) = row.split_first() else { return };
    for (word, count) in counts.iter().zip(messages.words()) {
        word.store(count, Ordering::Relaxed);
    }
    number.store(app.0.into(), Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(received: u64) -> Messages {
        Messages { received, received_bytes: 10 * received, sent: 1, sent_bytes: 2 }
    }

    #[test]
    fn rows_of_workers_add_up() {
        let workers: Vec<Vec<Word>> =
            (0..2).map(|_| (0..WORDS).map(|_| Word::default()).collect()).collect();
        write(&workers[0], 0, AppId(7), &messages(1));
        write(&workers[0], 0, AppId(7), &messages(3));
        write(&workers[0], 63, AppId(9), &messages(5));
        write(&workers[1], 0, AppId(7), &messages(4));
        write(&workers[1], 64, AppId(8), &messages(4));
        let mut traffic = Traffic::default();
        for words in &workers {
            traffic.read(|word| words[word].load(Ordering::Relaxed));
        }
        let seven = Messages { received: 7, received_bytes: 70, sent: 2, sent_bytes: 4 };
        assert_eq!(traffic, Traffic::of([(AppId(7), seven), (AppId(9), messages(5))]));
        let later = Traffic::of([(AppId(7), messages(9))]);
        let since: Vec<_> = later.since(&traffic).apps().collect();
        let expected = Messages { received: 2, received_bytes: 20, sent: 0, sent_bytes: 0 };
        assert_eq!(since, [(AppId(7), expected)]);
    }

    #[test]
    fn hostile_rows_name_no_app() {
        let mut traffic = Traffic::default();
        traffic.read(|_| u64::MAX);
        assert_eq!(traffic, Traffic::default());
        traffic.read(|_| 3);
        assert_eq!(traffic.apps().count(), 1);
    }
}
