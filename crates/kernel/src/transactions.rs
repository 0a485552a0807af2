//! Finds the sender of the message that a reply or an error of a switch is about.
//!
//! Every message is sent with a transaction id of the kernel's, because two apps may choose the same. Two tables of each
//! connection lead back from it:
//!
//! * the last messages of each app, for errors ([`recent`]);
//! * the pending transactions: requests whose reply is outstanding. None is dropped for another one: a request beyond an
//!   app's share is refused. After a minute without a reply, a transaction is given up and its app gets a report.
//!
//! Each app has a share of its own in both tables, which no other app can use up. The share belongs to the app, not to the
//! instance: an app that is restarted does not get another one.
//!
//! A reply goes only to the instance that sent the request.

mod recent;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use openflow::Kind;

use crate::check::Expects;
use crate::ids::AppSlot;
use control::app::AppId;

use self::recent::Recent;
pub(crate) use self::recent::Run;

/// Most pending transactions of an app with a switch.
const PER_APP: u8 = 64;

/// Most pending transactions of operators with a switch.
const OPERATORS: usize = 4;

/// Time without a part of the reply after which a transaction is given up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The same for an operator, who waits for the reply.
pub(crate) const OPERATORS_PATIENCE: Duration = Duration::from_secs(4);

/// Longest duration of a whole reply to an operator.
pub(crate) const LONGEST_ANSWER: Duration = Duration::from_secs(20);

// The kernel gives up before the operator's command does.
const _: () = assert!(
    LONGEST_ANSWER.as_secs() + OPERATORS_PATIENCE.as_secs()
        < control::query::FLOWS_TIMEOUT.as_secs()
);

/// Most bytes of a reply to an operator: more than a hundred thousand flows.
const LARGEST_ANSWER: usize = 16 << 20;

/// Most bytes of a reply to an app: more than a million flows. A switch whose reply never ends would occupy the app for ever.
const LARGEST_REPLY: usize = 256 << 20;

/// The sender of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sender {
    /// The app.
    pub(crate) app: AppSlot,
    /// The instance of the app.
    pub(crate) life: u16,
    /// The transaction id that the app gave it.
    pub(crate) xid: u32,
}

/// The recipient of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// An app.
    App(Sender),
    /// An operator, by the number of the question.
    Operator(u64),
    /// The kernel, which counts the flows of an app.
    Kernel(AppId),
    /// The kernel, which checks that its own entry is there.
    EntryCheck,
    /// The kernel, which restores the switch's flows.
    Healing,
    /// The kernel, which wants to know when the switch has carried out changes of guards' flows.
    OwnWrites,
    /// The kernel, which reads the switch's flows.
    FlowReader,
    /// The kernel, which waits for the outcomes of its own messages.
    Outcomes,
}

/// The tables of one connection.
#[derive(Debug, Default)]
pub(crate) struct TransactionTable {
    recent: Recent,
    /// By the kernel's transaction id.
    pending: BTreeMap<u32, Pending>,
    /// Number of pending transactions of each app, by its slot.
    of_apps: Vec<u8>,
}

/// A request whose reply is outstanding.
#[derive(Debug)]
struct Pending {
    by: By,
    expects: Expects,
    began: Instant,
    /// When the last part of the reply came.
    last_part: Instant,
    /// Bytes of the parts so far.
    size: usize,
    /// A part of the reply was not delivered, so the others will not be either.
    broken: bool,
}

/// The transaction that a reply belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) by: By,
    /// No more parts follow.
    pub(crate) last: bool,
    /// An earlier part of the reply was not delivered.
    pub(crate) broken: bool,
    /// The reply is longer than its recipient may get. The transaction is closed.
    pub(crate) too_long: bool,
    /// The message does not answer the request: the expected reply, and the actual one. The transaction is closed.
    pub(crate) mismatch: Option<(Expects, Expects)>,
}

impl Answers {
    /// A reply in one part.
    fn last(by: By) -> Self {
        Self { by, last: true, broken: false, too_long: false, mismatch: None }
    }
}

impl TransactionTable {
    /// Whether an app may send another request.
    pub(crate) fn has_room(&self, sender: Sender) -> bool {
        self.of_apps.get(sender.app.index()).is_none_or(|own| *own < PER_APP)
    }

    /// Notes messages that an app sends, by the transaction ids that they are sent with. Some of them may have been refused
    /// for their buffers.
    #[inline]
    pub(crate) fn sent(&mut self, run: Run) {
        self.recent.sent(run);
    }

    /// Notes the transaction ids of refused messages, so that the messages before and behind them stay one run.
    pub(crate) fn skipped(&mut self, run: Run) {
        self.recent.skipped(run);
    }

    /// Begins a transaction of an app, for which there [is room](Self::has_room).
    pub(crate) fn begin(&mut self, xid: u32, sender: Sender, expects: Expects, now: Instant) {
        self.push(xid, By::App(sender), expects, now);
    }

    /// Begins a transaction of an operator; `false` if there are too many.
    pub(crate) fn begin_for_operator(
        &mut self,
        xid: u32,
        question: u64,
        expects: Expects,
        now: Instant,
    ) -> bool {
        let others = self.pending.values().filter(|it| matches!(it.by, By::Operator(_))).count();
        let room = others < OPERATORS;
        if room {
            self.push(xid, By::Operator(question), expects, now);
        }
        room
    }

    /// Begins a transaction of the kernel itself. There is one of each kind at a time. Returns whether an earlier one has
    /// waited for a reply until now, which is forgotten.
    pub(crate) fn begin_for_kernel(
        &mut self,
        xid: u32,
        by: By,
        expects: Expects,
        now: Instant,
    ) -> bool {
        let before = self.pending.len();
        self.pending.retain(|_, pending| pending.by != by);
        let was_unanswered = self.pending.len() < before;
        self.push(xid, by, expects, now);
        was_unanswered
    }

    fn push(&mut self, xid: u32, by: By, expects: Expects, now: Instant) {
        self.close(xid); // of 2^32 messages ago
        if let By::App(sender) = by {
            let app = sender.app.index();
            if self.of_apps.len() <= app {
                self.of_apps.resize(app + 1, 0);
            }
            self.of_apps[app] += 1;
        }
        let pending = Pending { by, expects, began: now, last_part: now, size: 0, broken: false };
        self.pending.insert(xid, pending);
    }

    /// Forgets a transaction; returns its recipient.
    fn close(&mut self, xid: u32) -> Option<By> {
        let by = self.pending.remove(&xid)?.by;
        if let By::App(sender) = by {
            self.of_apps[sender.app.index()] -= 1;
        }
        Some(by)
    }

    /// Finds the transaction that a reply, or a part of one, belongs to.
    pub(crate) fn reply(
        &mut self,
        xid: u32,
        kind: Kind,
        message: &[u8],
        now: Instant,
    ) -> Option<Answers> {
        if kind == Kind::Experimenter {
            // Only the experimenter knows whether the message is a reply.
            let by = By::App(self.recent.sender(xid)?);
            return Some(Answers::last(by));
        }
        let is = match kind {
            Kind::MultipartReply => Expects::multipart(message)?,
            other => Expects::only(other),
        };
        let pending = self.pending.get_mut(&xid)?;
        if pending.expects != is {
            let mismatch = Some((pending.expects, is));
            return self.close(xid).map(|by| Answers { mismatch, ..Answers::last(by) });
        }
        pending.last_part = now;
        pending.size += message.len();
        let last = kind != Kind::MultipartReply || !more(message);
        let too_long = pending.size > most_bytes(pending.by);
        let answers =
            Answers { last, broken: pending.broken, too_long, ..Answers::last(pending.by) };
        if last || too_long {
            self.close(xid);
        }
        Some(answers)
    }

    /// Notes that a part of a reply was not delivered.
    pub(crate) fn break_reply(&mut self, xid: u32) {
        if let Some(pending) = self.pending.get_mut(&xid) {
            pending.broken = true;
        }
    }

    /// Finds the sender of the message that an error is about; a request gets no reply any more.
    pub(crate) fn error(&mut self, xid: u32) -> Option<By> {
        self.close(xid).or_else(|| self.recent.sender(xid).map(By::App))
    }

    /// The apps that may have sent the message with this transaction id, which is forgotten.
    pub(crate) fn may_have_sent(&self, xid: u32) -> impl Iterator<Item = AppSlot> {
        self.recent.may_have_sent(xid)
    }

    /// Gives up transactions that have waited too long, and calls `given_up` for each whose recipient has lost nothing yet, with
    /// the reply that did not come.
    pub(crate) fn give_up(&mut self, now: Instant, mut given_up: impl FnMut(By, Expects)) {
        let of_apps = &mut self.of_apps;
        self.pending.retain(|_, pending| {
            let silence = now.saturating_duration_since(pending.last_part);
            let over = match pending.by {
                By::App(_)
                | By::Kernel(_)
                | By::EntryCheck
                | By::Healing
                | By::OwnWrites
                | By::FlowReader
                | By::Outcomes => silence >= PATIENCE,
                By::Operator(_) => {
                    silence >= OPERATORS_PATIENCE
                        || now.saturating_duration_since(pending.began) >= LONGEST_ANSWER
                }
            };
            if let (true, By::App(sender)) = (over, pending.by) {
                of_apps[sender.app.index()] -= 1;
            }
            if over && !pending.broken {
                given_up(pending.by, pending.expects);
            }
            !over
        });
    }

    /// The pending questions of operators.
    pub(crate) fn questions(&self) -> impl Iterator<Item = u64> {
        self.pending.values().filter_map(|pending| match pending.by {
            By::App(_)
            | By::Kernel(_)
            | By::EntryCheck
            | By::Healing
            | By::OwnWrites
            | By::FlowReader
            | By::Outcomes => None,
            By::Operator(question) => Some(question),
        })
    }
}

/// Most bytes of a reply, by its recipient.
fn most_bytes(by: By) -> usize {
    match by {
        By::Operator(_) => LARGEST_ANSWER,
        By::App(_) => LARGEST_REPLY,
        // The kernel reads each part and keeps counts alone.
        By::Kernel(_)
        | By::EntryCheck
        | By::Healing
        | By::OwnWrites
        | By::FlowReader
        | By::Outcomes => usize::MAX,
    }
}

/// Whether more parts follow a multipart reply: bit 0 of its flags, in every version.
fn more(message: &[u8]) -> bool {
    message.get(11).is_some_and(|flags| flags & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARRIER: Expects = Expects { kind: Kind::BarrierReply, what: 0 };
    const FLOWS: Expects = Expects { kind: Kind::MultipartReply, what: 1 };

    fn sender(app: usize, xid: u32) -> Sender {
        Sender { app: AppSlot::new(app), life: 1, xid }
    }

    /// A part of an answer about flows.
    fn part(more: bool) -> [u8; 16] {
        [4, 19, 0, 16, 0, 0, 0, 9, 0, 1, 0, u8::from(more), 0, 0, 0, 0]
    }

    #[test]
    fn reply_of_the_expected_kind_reaches_its_sender() {
        let (mut transactions, now) = (TransactionTable::default(), Instant::now());
        let by = sender(1, 77);
        transactions.begin(9, by, FLOWS, now);
        let table = [4, 19, 0, 16, 0, 0, 0, 9, 0, 3, 0, 0, 0, 0, 0, 0];
        transactions.begin(8, by, FLOWS, now);
        let is = Expects { what: 3, ..FLOWS };
        let mismatch = Answers { mismatch: Some((FLOWS, is)), ..Answers::last(By::App(by)) };
        assert_eq!(transactions.reply(8, Kind::MultipartReply, &table, now), Some(mismatch));
        assert_eq!(
            transactions.reply(8, Kind::MultipartReply, &part(false), now),
            None,
            "it is closed"
        );
        transactions.begin(8, by, FLOWS, now);
        let mismatch = Answers { mismatch: Some((FLOWS, BARRIER)), ..mismatch };
        assert_eq!(transactions.reply(8, Kind::BarrierReply, &[], now), Some(mismatch));
        let words = "multipart_reply of type 3 (tables) or barrier_reply";
        assert_eq!(format!("{is} or {BARRIER}"), words);
        assert_eq!(
            transactions.reply(9, Kind::MultipartReply, &[4, 19], now),
            None,
            "no reply at all"
        );
        let first = transactions.reply(9, Kind::MultipartReply, &part(true), now).unwrap();
        let expected = Answers { last: false, ..Answers::last(By::App(by)) };
        assert_eq!(first, expected);
        transactions.break_reply(9);
        let last = transactions.reply(9, Kind::MultipartReply, &part(false), now).unwrap();
        assert_eq!(last, Answers { last: true, broken: true, ..expected });
        assert_eq!(transactions.reply(9, Kind::MultipartReply, &part(false), now), None);
    }

    #[test]
    fn error_ends_a_transaction() {
        let (mut transactions, now) = (TransactionTable::default(), Instant::now());
        transactions.sent(Run { xid: 9, count: 1, sender: sender(1, 77) });
        transactions.begin(9, sender(1, 77), BARRIER, now);
        assert_eq!(transactions.error(9), Some(By::App(sender(1, 77))));
        assert_eq!(transactions.reply(9, Kind::BarrierReply, &[], now), None);
    }

    #[test]
    fn app_at_its_bound_does_not_affect_others() {
        let (mut transactions, now) = (TransactionTable::default(), Instant::now());
        let mut xid = 0;
        for app in 0..64 {
            for _ in 0..PER_APP {
                assert!(transactions.has_room(sender(app, 0)), "{app}");
                transactions.begin(xid, sender(app, xid), BARRIER, now);
                xid += 1;
            }
            assert!(!transactions.has_room(sender(app, 0)), "{app}");
            let next_instance = Sender { life: 2, ..sender(app, 0) };
            assert!(!transactions.has_room(next_instance), "its requests are still the app's");
        }
        assert!(
            transactions.begin_for_operator(xid, 1, FLOWS, now),
            "apps do not keep operators out"
        );
        for answered in 0..xid {
            let answers = transactions.reply(answered, Kind::BarrierReply, &[], now).unwrap();
            let By::App(by) = answers.by else { panic!("an app asked") };
            assert_eq!(by.xid, answered);
        }
        assert_eq!(transactions.of_apps, [0; 64]);
        transactions.begin(xid + 1, sender(3, 0), BARRIER, now);
        transactions.give_up(now + PATIENCE, |_, _| {});
        assert!(transactions.pending.is_empty() && transactions.has_room(sender(3, 0)));
        assert_eq!(transactions.of_apps, [0; 64]);
    }

    #[test]
    fn questions_and_replies_are_bounded() {
        let (mut transactions, now) = (TransactionTable::default(), Instant::now());
        for question in 0..4 {
            let xid = u32::try_from(question).unwrap();
            assert!(transactions.begin_for_operator(xid, question, FLOWS, now));
        }
        assert!(!transactions.begin_for_operator(4, 4, FLOWS, now));
        assert!(transactions.questions().eq(0..4));
        let mut transactions = TransactionTable::default();
        transactions.begin_for_operator(9, 1, FLOWS, now);
        let mut whole = part(true).to_vec();
        whole.resize(65_535, 0);
        let parts = (0..).map_while(|_| transactions.reply(9, Kind::MultipartReply, &whole, now));
        let parts: Vec<Answers> = parts.collect();
        let too_long = parts.iter().position(|part| part.too_long);
        assert_eq!(too_long, Some(LARGEST_ANSWER / 65_535));
        assert_eq!(parts.len(), LARGEST_ANSWER / 65_535 + 1, "and nothing after it");
        let by = sender(0, 1);
        transactions.begin(9, by, FLOWS, now);
        let parts = (0..).map_while(|_| transactions.reply(9, Kind::MultipartReply, &whole, now));
        let parts: Vec<Answers> = parts.collect();
        assert_eq!(parts.iter().position(|part| part.too_long), Some(LARGEST_REPLY / 65_535));
        assert_eq!(parts.len(), LARGEST_REPLY / 65_535 + 1);
        assert_eq!(transactions.of_apps, [0], "the app has room for another request");
    }

    #[test]
    fn unanswered_transaction_is_given_up_once() {
        let (mut transactions, start) = (TransactionTable::default(), Instant::now());
        transactions.begin(1, sender(0, 1), FLOWS, start);
        transactions.begin(2, sender(0, 2), FLOWS, start);
        transactions.begin(4, sender(0, 4), BARRIER, start + PATIENCE);
        transactions.begin_for_operator(3, 7, FLOWS, start);
        transactions.reply(2, Kind::MultipartReply, &part(true), start + PATIENCE / 2);
        let mut told = |after| {
            let mut told = Vec::new();
            transactions.give_up(start + after, |by, expects| told.push((by, expects)));
            told
        };
        assert_eq!(told(OPERATORS_PATIENCE / 2), []);
        assert_eq!(told(OPERATORS_PATIENCE), [(By::Operator(7), FLOWS)]);
        assert_eq!(told(PATIENCE), [(By::App(sender(0, 1)), FLOWS)]);
        let late = [(By::App(sender(0, 2)), FLOWS), (By::App(sender(0, 4)), BARRIER)];
        assert_eq!(told(2 * PATIENCE), late);
        assert_eq!(told(3 * PATIENCE), []);
    }

    #[test]
    fn reply_that_drips_in_is_given_up() {
        let (mut transactions, start) = (TransactionTable::default(), Instant::now());
        transactions.begin_for_operator(3, 7, FLOWS, start);
        let mut given_up = None;
        for second in 1..60 {
            let now = start + Duration::from_secs(second);
            transactions.reply(3, Kind::MultipartReply, &part(true), now);
            transactions.give_up(now, |_, _| given_up = given_up.or(Some(second)));
        }
        assert_eq!(given_up, Some(LONGEST_ANSWER.as_secs()));
    }
}
