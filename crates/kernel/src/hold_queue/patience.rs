//! Decides which apps answer too late and are skipped.
//!
//! ```text
//! waited for --[ ROUNDS rounds without an answer in time ]--> skipped
//! skipped ----[ a probe is answered in time ]--------------> waited for
//! ```
//!
//! A packet waits [`PATIENCE`](super::PATIENCE) for the answer of a guard or a control app. A control app's answer
//! counts as late after [`PROMPT`] already: otherwise an app could delay every packet by nearly `PATIENCE` for ever.
//!
//! A busy app is not late: while a host floods the network, many packets wait for an app that works all the time. So
//! the time for an answer is measured from the delivery or from the app's previous answer, whichever is later. Answers
//! that arrive together have the same previous answer. A zone answers a batch at once, so a round in which the app
//! answered [`BUSY`] packets does not count as late either. An app that is slow with single packets answers fewer.
//!
//! A skipped app still receives each packet, but the packet does not wait for its verdict: it goes on at once, or is
//! dropped at once if the app is a guard that fails closed. A guard is skipped only after rounds without any verdict,
//! so its packets have the same fate as before, only sooner. Each packet to a skipped app carries a ticket, which shows
//! whether the app answers. One of these packets at a time is the probe. A guard that fails closed is waited for again
//! after any answer to its probe, even a late one: skipping it drops packets, while waiting for it only delays them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{PATIENCE, Ticket};
use crate::ids::AppSlot;
use crate::plan::Set;

/// Rounds in a row without an answer in time, after which an app is skipped. A round lasts [`PATIENCE`]: packets
/// that wait at the same time are one round.
const ROUNDS: u32 = 3;

/// After this time, the answer of a control app is late.
pub(super) const PROMPT: Duration = Duration::from_millis(50);

/// Least number of answers in a round by which an app counts as busy.
const BUSY: u32 = 8;

/// After this time without an answer, another packet becomes the probe: the app may have been restarted.
const PROBE_AGAIN: Duration = Duration::from_secs(1);

/// A change to be logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// The app is skipped from now on.
    Skipped {
        /// The app.
        app: AppSlot,
    },
    /// The app is waited for again.
    WaitedFor {
        /// The app.
        app: AppSlot,
        /// Packets that did not wait for it.
        packets: u64,
        /// How long it was skipped.
        took: Duration,
    },
}

/// An app that did not answer in time when it was last waited for or probed.
#[derive(Debug)]
struct Silence {
    /// Rounds in a row without an answer in time, and when the last of them ended.
    rounds: u32,
    round_ended: Instant,
    /// When it last sent a late answer.
    late_answer: Option<Instant>,
    /// Packets that it has answered since the last round ended.
    answers: u32,
    /// Since when it is skipped, if it is.
    since: Option<Instant>,
    /// Packets that did not wait for it since then.
    packets: u64,
    /// The probe that it has not answered, and when it was sent.
    probe: Option<(Ticket, Instant)>,
    /// Packets that it has answered since then.
    since_probe: u32,
    /// After this time, the answer to a probe is late.
    bound: Duration,
}

/// When an app last answered, and when it had answered before that.
#[derive(Debug, Clone, Copy)]
struct Answered {
    last: Instant,
    before: Option<Instant>,
}

/// The answer times of all apps, and the apps that are skipped.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// The latest answers, by slot.
    answered: Vec<Option<Answered>>,
    skipped: Set,
    /// Apps that do not answer in time.
    silent: BTreeMap<AppSlot, Silence>,
    /// Unreported changes: at most two for each app between two calls of [`take_news`](Self::take_news).
    news: Vec<News>,
    /// Packets that did not wait for an app.
    packets: BTreeMap<AppSlot, u64>,
}

impl Patience {
    /// Whether an app is skipped.
    #[inline]
    pub(crate) fn skips(&self, app: AppSlot) -> bool {
        self.skipped.has(app)
    }

    /// Packets that have not waited for an app so far.
    pub(crate) fn packets(&self, app: AppSlot) -> u64 {
        self.packets.get(&app).copied().unwrap_or_default()
    }

    /// Removes the changes since the last call.
    pub(crate) fn take_news(&mut self) -> impl Iterator<Item = News> {
        self.news.drain(..)
    }

    /// Notes that an app has not answered a packet that it received `PATIENCE` before `at`. It must answer a probe
    /// within `bound`.
    pub(super) fn expired(&mut self, app: AppSlot, bound: Duration, at: Instant) {
        let last = self.answered.get(app.index()).copied().flatten().map(|answered| answered.last);
        let given = at.checked_sub(PATIENCE).unwrap_or(at);
        let waited = at.saturating_duration_since(last.map_or(given, |last| last.max(given)));
        if waited >= bound.min(PATIENCE) {
            self.late(app, bound, at);
        }
    }

    /// Notes the answer to a packet that the app received at `given`, if that is still known. It had to answer within
    /// `bound`.
    #[inline]
    pub(super) fn answered(
        &mut self,
        app: AppSlot,
        given: Option<Instant>,
        bound: Duration,
        now: Instant,
    ) {
        let before = self.note_answer(app, now);
        let Some(given) = given else { return };
        let is_prompt = |since| now.saturating_duration_since(since) < bound;
        if is_prompt(given) {
            let was_late =
                self.silent.get(&app).is_some_and(|silence| silence.late_answer == Some(now));
            if !was_late && !self.silent.is_empty() {
                self.end(app, now);
            }
        } else if !before.is_some_and(is_prompt) {
            self.late(app, bound, now).late_answer = Some(now);
        }
    }

    /// Notes an answer. Returns when the app answered before; answers at the same time count as one.
    fn note_answer(&mut self, app: AppSlot, now: Instant) -> Option<Instant> {
        if self.answered.len() <= app.index() {
            self.answered.resize(app.index() + 1, None);
        }
        let first = Answered { last: now, before: None };
        let answered = self.answered[app.index()].get_or_insert(first);
        if answered.last != now {
            *answered = Answered { last: now, before: Some(answered.last) };
        }
        let before = answered.before;
        if let Some(silence) = self.silent.get_mut(&app) {
            silence.answers = silence.answers.saturating_add(1);
            silence.since_probe = silence.since_probe.saturating_add(1);
        }
        before
    }

    /// Notes at `now` that an app has not answered in time.
    fn late(&mut self, app: AppSlot, bound: Duration, now: Instant) -> &mut Silence {
        let silence = self.silent.entry(app).or_insert(Silence {
            rounds: 0,
            round_ended: now.checked_sub(PATIENCE).unwrap_or(now),
            late_answer: None,
            answers: 0,
            since: None,
            packets: 0,
            probe: None,
            since_probe: 0,
            bound,
        });
        silence.bound = bound;
        if silence.since.is_some() || now < silence.round_ended + PATIENCE {
            return silence;
        }
        let is_busy = std::mem::take(&mut silence.answers) >= BUSY;
        silence.rounds = if is_busy { 0 } else { silence.rounds + 1 };
        silence.round_ended = now;
        if silence.rounds == ROUNDS {
            silence.since = Some(now);
            self.skipped = self.skipped.with(Set::of(app));
            self.news.push(News::Skipped { app });
        }
        silence
    }

    /// Counts a packet that is delivered to a skipped app with this ticket. It becomes the probe, if there is none.
    pub(super) fn pass_over(&mut self, app: AppSlot, ticket: Ticket, now: Instant) -> Ticket {
        let Some(silence) = self.silent.get_mut(&app) else { return Ticket::NONE };
        silence.packets += 1;
        *self.packets.entry(app).or_default() += 1;
        if silence.probe.is_none_or(|(_, sent)| now >= sent + PROBE_AGAIN) {
            (silence.probe, silence.since_probe) = (Some((ticket, now)), 0);
        }
        ticket
    }

    /// Notes the answer of a skipped app to a packet with this ticket.
    pub(super) fn probe_answered(&mut self, app: AppSlot, ticket: Ticket, now: Instant) {
        let before = self.note_answer(app, now);
        let Some(silence) = self.silent.get_mut(&app) else { return };
        let Some((probe, sent)) = silence.probe else { return };
        // As many answers as in a busy round count, as the probe itself may be far behind in the app's queue.
        let took = now.saturating_duration_since(sent);
        let answers = silence.since_probe;
        let is_busy = answers >= BUSY && PATIENCE.saturating_mul(answers) >= took * BUSY;
        let since = before.map_or(sent, |before| before.max(sent));
        let is_prompt = now.saturating_duration_since(since) < silence.bound;
        if probe == ticket {
            silence.probe = None;
        }
        if is_busy || probe == ticket && is_prompt {
            self.end(app, now);
        }
    }

    fn end(&mut self, app: AppSlot, now: Instant) {
        let Some(silence) = self.silent.remove(&app) else { return };
        self.skipped = self.skipped.without(Set::of(app));
        if let Some(since) = silence.since {
            let took = now.saturating_duration_since(since);
            self.news.push(News::WaitedFor { app, packets: silence.packets, took });
        }
    }
}
