//! Who asked what of a switch: whose message an answer or an error of it is about.
//!
//! Every message goes out with a transaction id of the kernel's, because two apps may choose the
//! same. Two tables of each connection lead back:
//!
//! * the last messages of apps, for errors ([`recent`]);
//! * the requests that are not answered yet. None is dropped for another one: who asks too much is
//!   refused. One that the switch does not answer for a minute is given up, and its app told.
//!
//! Each app has a share of its own in both, which no other app can use up. The share is the app's, not the instance's: an
//! app that ends and is started again does not get another one.
//!
//! Answers go to the instance that transactions: an app that was started anew did not ask.

mod recent;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use openflow::Kind;

use crate::check::Expects;
use crate::control::AppId;

use self::recent::Recent;

/// Requests without an answer, per app and switch.
const PER_APP: u8 = 64;

/// Requests of operators without an answer, per switch.
const OPERATORS: usize = 4;

/// How long a switch may be silent before a request is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// The same for an operator, who waits for it.
pub(crate) const OPERATORS_PATIENCE: Duration = Duration::from_secs(4);

/// How long an answer to an operator may take as a whole.
pub(crate) const LONGEST_ANSWER: Duration = Duration::from_secs(20);

// The kernel gives up before the operator's command does.
const _: () = assert!(
    LONGEST_ANSWER.as_secs() + OPERATORS_PATIENCE.as_secs()
        < crate::query::FLOWS_PATIENCE.as_secs()
);

/// Bytes of an answer to an operator, at most: more than a hundred thousand flows.
const LARGEST_ANSWER: usize = 16 << 20;

/// Who sent a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sender {
    /// Its place among the app ports.
    pub(crate) app_port: u16,
    /// Which instance of the app.
    pub(crate) life: u16,
    /// The transaction id that the app gave it.
    pub(crate) xid: u32,
}

/// Who waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// An app.
    App(Sender),
    /// An operator, by the number that the server gave the question.
    Operator(u64),
    /// The kernel, for how many flows an app has.
    Kernel(AppId),
}

/// The tables of one connection.
#[derive(Debug, Default)]
pub(crate) struct TransactionTable {
    recent: Recent,
    /// Requests without an answer, by the kernel's transaction id.
    open: BTreeMap<u32, Open>,
    /// How many of these are each app's, by its place among the app ports.
    of_apps: Vec<u8>,
}

/// A request without an answer.
#[derive(Debug)]
struct Open {
    by: By,
    expects: Expects,
    began: Instant,
    /// When the last part of its answer came.
    heard: Instant,
    /// Bytes of the parts that came.
    size: usize,
    /// A part of its answer was not delivered: the others will not be either.
    broken: bool,
}

/// Whom an answer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) by: By,
    /// No more parts follow.
    pub(crate) last: bool,
    /// The answer has a hole already.
    pub(crate) broken: bool,
    /// It has become longer than an operator can be told.
    pub(crate) too_long: bool,
    /// The message is no answer: what was asked, and what came instead. The request is closed.
    pub(crate) mismatch: Option<(Expects, Expects)>,
}

impl Answers {
    /// A whole answer.
    fn last(by: By) -> Self {
        Self { by, last: true, broken: false, too_long: false, mismatch: None }
    }
}

impl TransactionTable {
    /// Whether an app may ask one thing more.
    pub(crate) fn has_room(&self, sender: Sender) -> bool {
        self.of_apps.get(usize::from(sender.app_port)).is_none_or(|own| *own < PER_APP)
    }

    /// Notes a message that an app sends, by the transaction id that it goes out with.
    #[inline]
    pub(crate) fn sent(&mut self, xid: u32, sender: Sender) {
        self.recent.sent(xid, sender);
    }

    /// Notes the transaction ids of a refused message, so that the messages before and behind it stay one run.
    pub(crate) fn skipped(&mut self, xid: u32, sender: Sender) {
        self.recent.skipped(xid, sender);
    }

    /// Notes a request of an app, for which there [`has_room`](Self::has_room).
    pub(crate) fn asks(&mut self, xid: u32, sender: Sender, expects: Expects, now: Instant) {
        self.push(xid, By::App(sender), expects, now);
    }

    /// Notes a request for an operator. `false` if there are too many.
    pub(crate) fn operator_asks(
        &mut self,
        xid: u32,
        question: u64,
        expects: Expects,
        now: Instant,
    ) -> bool {
        let others = self.open.values().filter(|it| matches!(it.by, By::Operator(_))).count();
        let room = others < OPERATORS;
        if room {
            self.push(xid, By::Operator(question), expects, now);
        }
        room
    }

    /// Notes a request of the kernel itself, of which there is one at a time for each app.
    pub(crate) fn kernel_asks(&mut self, xid: u32, app: AppId, expects: Expects, now: Instant) {
        self.open.retain(|_, open| open.by != By::Kernel(app)); // one that was never answered
        self.push(xid, By::Kernel(app), expects, now);
    }

    fn push(&mut self, xid: u32, by: By, expects: Expects, now: Instant) {
        self.close(xid); // of 2^32 messages ago
        if let By::App(sender) = by {
            let app_port = usize::from(sender.app_port);
            if self.of_apps.len() <= app_port {
                self.of_apps.resize(app_port + 1, 0);
            }
            self.of_apps[app_port] += 1;
        }
        let open = Open { by, expects, began: now, heard: now, size: 0, broken: false };
        self.open.insert(xid, open);
    }

    /// Forgets a request; returns who transactions.
    fn close(&mut self, xid: u32) -> Option<By> {
        let by = self.open.remove(&xid)?.by;
        if let By::App(sender) = by {
            self.of_apps[usize::from(sender.app_port)] -= 1;
        }
        Some(by)
    }

    /// Whom a reply, or a part of one, is for; `None` if nobody asked for it.
    pub(crate) fn reply(
        &mut self,
        xid: u32,
        kind: Kind,
        message: &[u8],
        now: Instant,
    ) -> Option<Answers> {
        if kind == Kind::Experimenter {
            // Whether it is an answer only the experimenter knows.
            let by = By::App(self.recent.sender(xid)?);
            return Some(Answers::last(by));
        }
        let is = match kind {
            Kind::MultipartReply => Expects::multipart(message)?,
            other => Expects::only(other),
        };
        let open = self.open.get_mut(&xid)?;
        if open.expects != is {
            let mismatch = Some((open.expects, is));
            return self.close(xid).map(|by| Answers { mismatch, ..Answers::last(by) });
        }
        open.heard = now;
        open.size += message.len();
        let last = kind != Kind::MultipartReply || !more(message);
        let too_long = matches!(open.by, By::Operator(_)) && open.size > LARGEST_ANSWER;
        let answers = Answers { last, broken: open.broken, too_long, ..Answers::last(open.by) };
        if last || too_long {
            self.close(xid);
        }
        Some(answers)
    }

    /// The answer with this transaction id has a hole now.
    pub(crate) fn breaks(&mut self, xid: u32) {
        if let Some(open) = self.open.get_mut(&xid) {
            open.broken = true;
        }
    }

    /// Who sent what an error is about, or asked it; that is not answered any more.
    pub(crate) fn error(&mut self, xid: u32) -> Option<By> {
        self.close(xid).or_else(|| self.recent.sender(xid).map(By::App))
    }

    /// The apps that may have sent the message with this transaction id, which is forgotten; by their places among the
    /// app ports.
    pub(crate) fn may_have_sent(&self, xid: u32) -> impl Iterator<Item = usize> {
        self.recent.may_have_sent(xid)
    }

    /// Gives up what the switch has not answered for too long.
    pub(crate) fn give_up(&mut self, now: Instant, mut told: impl FnMut(By)) {
        let of_apps = &mut self.of_apps;
        self.open.retain(|_, open| {
            let silence = now.saturating_duration_since(open.heard);
            let over = match open.by {
                By::App(_) | By::Kernel(_) => silence >= PATIENCE,
                By::Operator(_) => {
                    silence >= OPERATORS_PATIENCE
                        || now.saturating_duration_since(open.began) >= LONGEST_ANSWER
                }
            };
            if let (true, By::App(sender)) = (over, open.by) {
                of_apps[usize::from(sender.app_port)] -= 1;
            }
            if over && !open.broken {
                told(open.by);
            }
            !over
        });
    }

    /// The operators' questions that are open: the switch is gone.
    pub(crate) fn questions(&self) -> impl Iterator<Item = u64> {
        self.open.values().filter_map(|open| match open.by {
            By::App(_) | By::Kernel(_) => None,
            By::Operator(question) => Some(question),
        })
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

    fn sender(app_port: u16, xid: u32) -> Sender {
        Sender { app_port, life: 1, xid }
    }

    /// A part of an answer about flows.
    fn part(more: bool) -> [u8; 16] {
        [4, 19, 0, 16, 0, 0, 0, 9, 0, 1, 0, u8::from(more), 0, 0, 0, 0]
    }

    #[test]
    fn answer_goes_to_who_asked_for_one_of_its_kind_until_its_last_part() {
        let (mut transactions, now) = (TransactionTable::default(), Instant::now());
        let by = sender(1, 77);
        transactions.asks(9, by, FLOWS, now);
        let table = [4, 19, 0, 16, 0, 0, 0, 9, 0, 3, 0, 0, 0, 0, 0, 0];
        transactions.asks(8, by, FLOWS, now);
        let is = Expects { what: 3, ..FLOWS };
        let mismatch = Answers { mismatch: Some((FLOWS, is)), ..Answers::last(By::App(by)) };
        assert_eq!(transactions.reply(8, Kind::MultipartReply, &table, now), Some(mismatch));
        assert_eq!(
            transactions.reply(8, Kind::MultipartReply, &part(false), now),
            None,
            "it is closed"
        );
        transactions.asks(8, by, FLOWS, now);
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
        transactions.breaks(9);
        let last = transactions.reply(9, Kind::MultipartReply, &part(false), now).unwrap();
        assert_eq!(last, Answers { last: true, broken: true, ..expected });
        assert_eq!(transactions.reply(9, Kind::MultipartReply, &part(false), now), None);
    }

    #[test]
    fn error_about_a_request_ends_it() {
        let (mut transactions, now) = (TransactionTable::default(), Instant::now());
        transactions.sent(9, sender(1, 77));
        transactions.asks(9, sender(1, 77), BARRIER, now);
        assert_eq!(transactions.error(9), Some(By::App(sender(1, 77))));
        assert_eq!(transactions.reply(9, Kind::BarrierReply, &[], now), None);
    }

    #[test]
    fn app_at_its_bound_is_refused_and_others_are_not() {
        let (mut transactions, now) = (TransactionTable::default(), Instant::now());
        let mut xid = 0;
        for app_port in 0..64_u16 {
            for _ in 0..PER_APP {
                assert!(transactions.has_room(sender(app_port, 0)), "{app_port}");
                transactions.asks(xid, sender(app_port, xid), BARRIER, now);
                xid += 1;
            }
            assert!(!transactions.has_room(sender(app_port, 0)), "{app_port}");
            let next_instance = Sender { life: 2, ..sender(app_port, 0) };
            assert!(!transactions.has_room(next_instance), "its requests are still the app's");
        }
        assert!(transactions.operator_asks(xid, 1, FLOWS, now), "apps do not keep operators out");
        for answered in 0..xid {
            let answers = transactions.reply(answered, Kind::BarrierReply, &[], now).unwrap();
            let By::App(by) = answers.by else { panic!("an app asked") };
            assert_eq!(by.xid, answered);
        }
        assert_eq!(transactions.of_apps, [0; 64]);
        transactions.asks(xid + 1, sender(3, 0), BARRIER, now);
        transactions.give_up(now + PATIENCE, |_| {});
        assert!(transactions.open.is_empty() && transactions.has_room(sender(3, 0)));
        assert_eq!(transactions.of_apps, [0; 64]);
    }

    #[test]
    fn operators_questions_are_few_and_none_longer_than_can_be_told() {
        let (mut transactions, now) = (TransactionTable::default(), Instant::now());
        for question in 0..4 {
            let xid = u32::try_from(question).unwrap();
            assert!(transactions.operator_asks(xid, question, FLOWS, now));
        }
        assert!(!transactions.operator_asks(4, 4, FLOWS, now));
        assert!(transactions.questions().eq(0..4));
        let mut transactions = TransactionTable::default();
        transactions.operator_asks(9, 1, FLOWS, now);
        let mut whole = part(true).to_vec();
        whole.resize(65_535, 0);
        let parts = (0..).map_while(|_| transactions.reply(9, Kind::MultipartReply, &whole, now));
        let parts: Vec<Answers> = parts.collect();
        let too_long = parts.iter().position(|part| part.too_long);
        assert_eq!(too_long, Some(LARGEST_ANSWER / 65_535));
        assert_eq!(parts.len(), LARGEST_ANSWER / 65_535 + 1, "and nothing after it");
    }

    #[test]
    fn what_is_not_answered_is_given_up_once_and_told() {
        let (mut transactions, start) = (TransactionTable::default(), Instant::now());
        transactions.asks(1, sender(0, 1), FLOWS, start);
        transactions.asks(2, sender(0, 2), FLOWS, start);
        transactions.operator_asks(3, 7, FLOWS, start);
        transactions.reply(2, Kind::MultipartReply, &part(true), start + PATIENCE / 2);
        let mut told = |after| {
            let mut told = Vec::new();
            transactions.give_up(start + after, |by| told.push(by));
            told
        };
        assert_eq!(told(OPERATORS_PATIENCE / 2), []);
        assert_eq!(told(OPERATORS_PATIENCE), [By::Operator(7)]);
        assert_eq!(told(PATIENCE), [By::App(sender(0, 1))]);
        assert_eq!(told(2 * PATIENCE), [By::App(sender(0, 2))]);
        assert_eq!(told(3 * PATIENCE), []);
    }

    #[test]
    fn answer_that_drips_in_is_not_waited_for_without_end() {
        let (mut transactions, start) = (TransactionTable::default(), Instant::now());
        transactions.operator_asks(3, 7, FLOWS, start);
        let mut given_up = None;
        for second in 1..60 {
            let now = start + Duration::from_secs(second);
            transactions.reply(3, Kind::MultipartReply, &part(true), now);
            transactions.give_up(now, |_| given_up = given_up.or(Some(second)));
        }
        assert_eq!(given_up, Some(LONGEST_ANSWER.as_secs()));
    }
}
