//! The memory charged to the apps in the process: one word for each app.
//!
//! ```text
//! word      the number of the app, 16 bits; the charged bytes, 48 bits. 0 for a free word
//! ```
//!
//! A charge is the memory that the thread touched for the first time during calls of the app. It includes memory that the
//! app has returned to the system since, so a charge names a leak only together with the growth of the process.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::atomic::Ordering;

use sys::shm::Word;

use crate::app::AppId;

/// The words of all charges: a page. Apps beyond this number are not charged.
pub(super) const WORDS: usize = 512;

/// The bits of a charge below the app's number.
const BITS: u32 = 48;

/// The greatest charge, in bytes.
const LARGEST_CHARGE: u64 = (1 << BITS) - 1;

/// The memory charged to apps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Charges(BTreeMap<AppId, u64>);

impl Charges {
    /// Reads all charges through `word`. Any content is valid.
    pub(super) fn read(word: impl Fn(usize) -> u64) -> Self {
        let mut charges = BTreeMap::new();
        for word in (0..WORDS).map(word) {
            if let Some(app) = app_of(word) {
                charges.insert(AppId(app.get()), word & LARGEST_CHARGE);
            }
        }
        Self(charges)
    }

    /// Charges of these apps.
    pub fn of(apps: impl IntoIterator<Item = (AppId, u64)>) -> Self {
        Self(apps.into_iter().collect())
    }

    /// The bytes charged to each app.
    pub fn apps(&self) -> impl Iterator<Item = (AppId, u64)> {
        self.0.iter().map(|(app, bytes)| (*app, *bytes))
    }

    /// The bytes charged since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let earlier = |app| before.0.get(&app).copied().unwrap_or_default();
        Self::of(self.apps().map(|(app, bytes)| (app, bytes.saturating_sub(earlier(app)))))
    }
}

/// Adds `bytes` to the word of `app`. Several threads may add at the same time.
pub(super) fn add(words: &[Word], app: NonZeroU16, bytes: u64) {
    let start = usize::from(app.get()) % WORDS;
    let (before, after) = words.split_at(start.min(words.len()));
    for word in after.iter().chain(before) {
        let update = |old: u64| match app_of(old) {
            None => Some(charged(app, bytes)),
            Some(owner) if owner == app => {
                Some(charged(app, (old & LARGEST_CHARGE).saturating_add(bytes)))
            }
            Some(_) => None,
        };
        if word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update).is_ok() {
            return;
        }
    }
}

fn charged(app: NonZeroU16, bytes: u64) -> u64 {
    u64::from(app.get()) << BITS | bytes.min(LARGEST_CHARGE)
}

fn app_of(word: u64) -> Option<NonZeroU16> {
    u16::try_from(word >> BITS).ok().and_then(NonZeroU16::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(number: u16) -> NonZeroU16 {
        NonZeroU16::new(number).unwrap()
    }

    fn read(words: &[Word]) -> Charges {
        Charges::read(|word| words[word].load(Ordering::Relaxed))
    }

    #[test]
    fn charges_of_apps_add_up() {
        let words: Vec<Word> = (0..WORDS).map(|_| Word::default()).collect();
        // The three share their first word.
        for (number, bytes) in [(511, 10), (1023, 20), (1535, 30), (511, 1), (1535, LARGEST_CHARGE)]
        {
            add(&words, app(number), bytes);
        }
        let charges: Vec<_> = read(&words).apps().collect();
        assert_eq!(charges, [(AppId(511), 11), (AppId(1023), 20), (AppId(1535), LARGEST_CHARGE)]);
        let before = read(&words);
        add(&words, app(511), 5);
        assert_eq!(read(&words).since(&before).apps().next(), Some((AppId(511), 5)));
    }

    #[test]
    fn full_page_charges_no_more_apps() {
        let words: Vec<Word> = (0..WORDS).map(|_| Word::default()).collect();
        (1..=600).for_each(|number| add(&words, app(number), 1));
        assert_eq!(read(&words).apps().count(), WORDS);
    }
}
