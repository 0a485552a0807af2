//! Which apps answer too late to be waited for.
//!
//! ```text
//! waited for --[ ROUNDS rounds without an answer in time ]--> skipped
//! skipped ----[ a probe is answered in time ]--------------> waited for
//! ```
//!
//! A guard has [`PATIENCE`](super::PATIENCE) for an answer. So has a control app, and it is late already with an
//! answer after [`PROMPT`]: else an app could delay every packet by nearly that time for ever.
//!
//! An app that is skipped still gets each packet, and nobody waits for its verdict: a packet goes on at once,
//! or ends at once where the app is a guard that fails closed. A guard is skipped only after rounds in which it
//! said nothing, so what becomes of its packets is what became of them before, sooner. One packet at a time carries a
//! ticket of its own, the probe. A guard that fails closed is waited for again however late it answers its
//! probe: its silence costs packets, and a wait costs a moment.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{PATIENCE, Ticket};
use crate::plan::Set;

/// Rounds in a row without an answer in time, after which an app is skipped. A round lasts [`PATIENCE`]: packets
/// that wait at the same time are one round.
const ROUNDS: u32 = 3;

/// After this time, the answer of a control app is late.
pub(super) const PROMPT: Duration = Duration::from_millis(50);

/// After this time without an answer, another packet becomes the probe: the app may have been restarted.
const PROBE_AGAIN: Duration = Duration::from_secs(1);

/// A change to be logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// The app is skipped from now on.
    Skipped {
        /// Its place.
        link: usize,
    },
    /// The app is waited for again.
    WaitedFor {
        /// Its place.
        link: usize,
        /// Packets for which it was not waited.
        packets: u64,
        /// How long it was skipped.
        took: Duration,
    },
}

/// An app that was not answering in time when it was last asked.
#[derive(Debug)]
struct Silence {
    /// Rounds in a row without an answer in time, and when the last of them ended.
    rounds: u32,
    round_ended: Instant,
    /// Since when it is skipped, if it is.
    since: Option<Instant>,
    /// Packets for which it was not waited since then.
    packets: u64,
    /// The probe that it has not answered, and when it was sent.
    probe: Option<(Ticket, Instant)>,
    /// After this time, the answer to a probe is late.
    bound: Duration,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    skipped: Set,
    /// By place; those that answer are not here.
    silent: BTreeMap<usize, Silence>,
    /// Two for each app at most between two calls of [`take_news`](Self::take_news).
    news: Vec<News>,
    /// Packets for which an app was not waited, by its place.
    packets: BTreeMap<usize, u64>,
}

impl Patience {
    /// Whether an app is skipped.
    #[inline]
    pub(crate) fn skips(&self, link: usize) -> bool {
        self.skipped.has(link)
    }

    /// Packets for which an app was not waited so far.
    pub(crate) fn packets(&self, link: usize) -> u64 {
        self.packets.get(&link).copied().unwrap_or_default()
    }

    /// The changes since the last call.
    pub(crate) fn take_news(&mut self) -> impl Iterator<Item = News> {
        self.news.drain(..)
    }

    /// An app has not answered in time, as is known at `now`. It is to answer a probe within `bound`.
    pub(super) fn late(&mut self, link: usize, bound: Duration, now: Instant) {
        let silence = self.silent.entry(link).or_insert(Silence {
            rounds: 0,
            round_ended: now.checked_sub(PATIENCE).unwrap_or(now),
            since: None,
            packets: 0,
            probe: None,
            bound,
        });
        silence.bound = bound;
        if silence.since.is_some() || now < silence.round_ended + PATIENCE {
            return;
        }
        (silence.rounds, silence.round_ended) = (silence.rounds + 1, now);
        if silence.rounds == ROUNDS {
            silence.since = Some(now);
            self.skipped = self.skipped.with(Set::of(link));
            self.news.push(News::Skipped { link });
        }
    }

    /// An app has answered in time.
    #[inline]
    pub(super) fn answered(&mut self, link: usize, now: Instant) {
        if !self.silent.is_empty() {
            self.end(link, now);
        }
    }

    /// A packet goes to an app that is skipped: `probe` if that is to be its ticket, else none.
    pub(super) fn pass_over(&mut self, link: usize, probe: Ticket, now: Instant) -> Ticket {
        let Some(silence) = self.silent.get_mut(&link) else { return Ticket::NONE };
        silence.packets += 1;
        *self.packets.entry(link).or_default() += 1;
        if silence.probe.is_some_and(|(_, sent)| now < sent + PROBE_AGAIN) {
            return Ticket::NONE;
        }
        silence.probe = Some((probe, now));
        probe
    }

    /// An app has answered a probe.
    pub(super) fn probe_answered(&mut self, link: usize, probe: Ticket, now: Instant) {
        let Some(silence) = self.silent.get_mut(&link) else { return };
        let Some((_, sent)) = silence.probe.take_if(|(ticket, _)| *ticket == probe) else { return };
        if now.saturating_duration_since(sent) < silence.bound {
            self.end(link, now);
        }
    }

    fn end(&mut self, link: usize, now: Instant) {
        let Some(silence) = self.silent.remove(&link) else { return };
        self.skipped = self.skipped.without(Set::of(link));
        if let Some(since) = silence.since {
            let took = now.saturating_duration_since(since);
            self.news.push(News::WaitedFor { link, packets: silence.packets, took });
        }
    }
}
