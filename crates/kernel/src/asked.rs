//! Who asked what of a switch: whose message an answer or an error of it is about.
//!
//! Every message goes out with a transaction id of the kernel's, because two apps may choose the
//! same. Two tables of each connection lead back:
//!
//! * the last messages of apps, for errors: what one sent without a gap between, in the kernel's
//!   numbers and in its own, is one entry of at most 1024, which is nearly always so;
//! * the requests that are not answered yet. None is dropped for another one: who asks too much is
//!   refused. One that the switch does not answer for a minute is given up, and its app told.
//!
//! Answers go to the instance that asked: an app that was started anew did not ask.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use openflow::Kind;

use crate::check::Expects;
use crate::control::AppId;

/// Entries by which errors are led back, per connection.
const RECENT: usize = 1024;

/// Transaction ids in one of them, at most, and in all: numbers that begin anew must not mean an older one.
const LONGEST: u32 = 1 << 29;
const OLDEST: u32 = 1 << 31;

/// Requests without an answer, per app and switch.
const PER_APP: usize = 64;

/// Requests of apps without an answer, per switch.
const PER_SWITCH: usize = 256;

/// Requests of operators without an answer, per switch.
const OPERATORS: usize = 4;

/// How long a switch may be silent before a request is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// The same for an operator, who waits for it.
pub(crate) const OPERATORS_PATIENCE: Duration = Duration::from_secs(4);

/// How long an answer to an operator may take as a whole.
pub(crate) const LONGEST_ANSWER: Duration = Duration::from_secs(20);

/// Bytes of an answer to an operator, at most: more than a hundred thousand flows.
const LARGEST_ANSWER: usize = 16 << 20;

/// Who sent a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sender {
    /// Its place among the links.
    pub(crate) link: u16,
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
pub(crate) struct Asked {
    /// The oldest first.
    recent: VecDeque<Recent>,
    open: Vec<Open>,
}

/// Messages that one instance of an app sent, one after the other.
#[derive(Debug, Clone, Copy)]
struct Recent {
    /// The transaction id of the first.
    xid: u32,
    count: u32,
    /// Who sent the first.
    sender: Sender,
}

impl Recent {
    /// Who sent the message with this transaction id, if it is one of these.
    #[inline]
    fn sender_of(&self, xid: u32) -> Option<Sender> {
        let number = xid.wrapping_sub(self.xid);
        let xid = self.sender.xid.wrapping_add(number);
        (number < self.count).then_some(Sender { xid, ..self.sender })
    }

    /// Takes in the next `count` messages; `false` if they are no next ones.
    #[inline]
    fn go_on(&mut self, xid: u32, count: u32, sender: Sender) -> bool {
        let next = Self { count: self.count + count, ..*self };
        let is = next.count <= LONGEST && next.sender_of(xid) == Some(sender);
        let is = is && xid.wrapping_sub(self.xid) == self.count;
        if is {
            *self = next;
        }
        is
    }
}

/// A request without an answer.
#[derive(Debug)]
struct Open {
    xid: u32,
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
}

impl Asked {
    /// Whether an app may ask one thing more.
    pub(crate) fn has_room(&self, sender: Sender) -> bool {
        let apps = self.open.iter().filter_map(|open| match open.by {
            By::App(other) => Some(other),
            By::Operator(_) | By::Kernel(_) => None,
        });
        let (all, own) = apps.fold((0, 0), |(all, own), other| {
            let is_own = other.link == sender.link && other.life == sender.life;
            (all + 1, own + usize::from(is_own))
        });
        all < PER_SWITCH && own < PER_APP
    }

    /// Notes a message that an app sends, by the transaction id that it goes out with.
    #[inline]
    pub(crate) fn sent(&mut self, xid: u32, sender: Sender) {
        self.sent_all(xid, 1, sender);
    }

    /// Notes `count` messages, of which this is the first; the transaction ids of the others count up, for the
    /// app and for the switch.
    #[inline]
    pub(crate) fn sent_all(&mut self, xid: u32, count: u32, sender: Sender) {
        if !self.recent.back_mut().is_some_and(|last| last.go_on(xid, count, sender)) {
            self.begin(xid, count, sender);
        }
    }

    /// The same of messages of which none went out, so that those behind them are led back together with those before.
    pub(crate) fn skipped(&mut self, xid: u32, count: u32, sender: Sender) {
        if let Some(last) = self.recent.back_mut() {
            last.go_on(xid, count, sender);
        }
    }

    #[inline(never)]
    fn begin(&mut self, xid: u32, count: u32, sender: Sender) {
        let is_over = |first: &Recent| xid.wrapping_sub(first.xid) >= OLDEST;
        while self.recent.len() == RECENT || self.recent.front().is_some_and(is_over) {
            self.recent.pop_front();
        }
        self.recent.push_back(Recent { xid, count, sender });
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
        let others = self.open.iter().filter(|open| matches!(open.by, By::Operator(_))).count();
        let room = others < OPERATORS;
        if room {
            self.push(xid, By::Operator(question), expects, now);
        }
        room
    }

    /// Notes a request of the kernel itself, of which there is one at a time for each app.
    pub(crate) fn kernel_asks(&mut self, xid: u32, app: AppId, expects: Expects, now: Instant) {
        self.open.retain(|open| open.by != By::Kernel(app)); // one that was never answered
        self.push(xid, By::Kernel(app), expects, now);
    }

    fn push(&mut self, xid: u32, by: By, expects: Expects, now: Instant) {
        let open = Open { xid, by, expects, began: now, heard: now, size: 0, broken: false };
        self.open.push(open);
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
            let by = By::App(self.sender(xid)?);
            return Some(Answers { by, last: true, broken: false, too_long: false });
        }
        let is = match kind {
            Kind::MultipartReply => Expects::multipart(message)?,
            other => Expects::only(other),
        };
        let at = self.open.iter().position(|open| open.xid == xid && open.expects == is)?;
        let open = &mut self.open[at];
        open.heard = now;
        open.size += message.len();
        let last = kind != Kind::MultipartReply || !more(message);
        let too_long = matches!(open.by, By::Operator(_)) && open.size > LARGEST_ANSWER;
        let answers = Answers { by: open.by, last, broken: open.broken, too_long };
        if last || too_long {
            self.open.swap_remove(at);
        }
        Some(answers)
    }

    /// The answer with this transaction id has a hole now.
    pub(crate) fn breaks(&mut self, xid: u32) {
        if let Some(open) = self.open.iter_mut().find(|open| open.xid == xid) {
            open.broken = true;
        }
    }

    /// Who sent what an error is about, or asked it; that is not answered any more.
    pub(crate) fn error(&mut self, xid: u32) -> Option<By> {
        if let Some(at) = self.open.iter().position(|open| open.xid == xid) {
            return Some(self.open.swap_remove(at).by);
        }
        self.sender(xid).map(By::App)
    }

    fn sender(&self, xid: u32) -> Option<Sender> {
        let first = self.recent.front()?.xid;
        let behind = |recent: &Recent| recent.xid.wrapping_sub(first) <= xid.wrapping_sub(first);
        let place = self.recent.partition_point(behind).checked_sub(1)?;
        self.recent.get(place)?.sender_of(xid)
    }

    /// Gives up what the switch has not answered for too long.
    pub(crate) fn give_up(&mut self, now: Instant, mut told: impl FnMut(By)) {
        self.open.retain(|open| {
            let silence = now.saturating_duration_since(open.heard);
            let over = match open.by {
                By::App(_) | By::Kernel(_) => silence >= PATIENCE,
                By::Operator(_) => {
                    silence >= OPERATORS_PATIENCE
                        || now.saturating_duration_since(open.began) >= LONGEST_ANSWER
                }
            };
            if over && !open.broken {
                told(open.by);
            }
            !over
        });
    }

    /// The operators' questions that are open: the switch is gone.
    pub(crate) fn questions(&self) -> impl Iterator<Item = u64> {
        self.open.iter().filter_map(|open| match open.by {
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

    fn sender(link: u16, xid: u32) -> Sender {
        Sender { link, life: 1, xid }
    }

    /// A part of an answer about flows.
    fn part(more: bool) -> [u8; 16] {
        [4, 19, 0, 16, 0, 0, 0, 9, 0, 1, 0, u8::from(more), 0, 0, 0, 0]
    }

    #[test]
    fn error_finds_the_sender_among_the_last_messages_and_no_other() {
        let (mut asked, now) = (Asked::default(), Instant::now());
        assert_eq!(asked.error(0), None);
        // The kernel's own have numbers between; so have messages of other apps, and of other instances.
        let sent = [(1, 77), (1, 78), (1, 79), (1, 81), (2, 82), (1, 83), (1, 84), (1, 5)];
        let sent = || sent.into_iter().zip([u32::MAX, 0, 1, 2, 3, 4, 6, 7]);
        sent().for_each(|((link, own), xid)| asked.sent(xid, sender(link, own)));
        for ((link, own), xid) in sent() {
            assert_eq!(asked.error(xid), Some(By::App(sender(link, own))), "{xid}");
        }
        assert_eq!([5, 8, u32::MAX - 1].map(|xid| asked.error(xid)), [None; 3]);
        assert_eq!(asked.recent.len(), 6);
        assert_eq!(asked.reply(7, Kind::BarrierReply, &[], now), None, "was no request");
    }

    #[test]
    fn messages_of_long_ago_are_forgotten() {
        let mut asked = Asked::default();
        for number in 0..=u32::try_from(RECENT).unwrap() {
            asked.sent(2 * number, sender(1, number));
        }
        assert_eq!(asked.recent.len(), RECENT);
        assert_eq!((asked.error(0), asked.error(2)), (None, Some(By::App(sender(1, 1)))));
        asked.sent(1 << 31, sender(1, 0));
        assert_eq!(asked.error(4), Some(By::App(sender(1, 2))));
        asked.sent((1 << 31) + 4, sender(1, 0));
        assert_eq!((asked.error(4), asked.error(6)), (None, Some(By::App(sender(1, 3)))));
        asked.recent.back_mut().unwrap().count = LONGEST;
        asked.sent((1 << 31) + 4 + LONGEST, sender(1, LONGEST));
        assert_eq!(asked.recent.back().unwrap().count, 1);
    }

    #[test]
    fn answer_goes_to_who_asked_for_one_of_its_kind_until_its_last_part() {
        let (mut asked, now) = (Asked::default(), Instant::now());
        let by = sender(1, 77);
        asked.asks(9, by, FLOWS, now);
        let table = [4, 19, 0, 16, 0, 0, 0, 9, 0, 3, 0, 0, 0, 0, 0, 0];
        assert_eq!(asked.reply(9, Kind::MultipartReply, &table, now), None, "another type");
        assert_eq!(asked.reply(9, Kind::BarrierReply, &[], now), None, "another kind");
        assert_eq!(asked.reply(9, Kind::MultipartReply, &[4, 19], now), None, "no reply at all");
        let first = asked.reply(9, Kind::MultipartReply, &part(true), now).unwrap();
        let expected = Answers { by: By::App(by), last: false, broken: false, too_long: false };
        assert_eq!(first, expected);
        asked.breaks(9);
        let last = asked.reply(9, Kind::MultipartReply, &part(false), now).unwrap();
        assert_eq!(last, Answers { last: true, broken: true, ..expected });
        assert_eq!(asked.reply(9, Kind::MultipartReply, &part(false), now), None);
    }

    #[test]
    fn error_about_a_request_ends_it() {
        let (mut asked, now) = (Asked::default(), Instant::now());
        asked.sent(9, sender(1, 77));
        asked.asks(9, sender(1, 77), BARRIER, now);
        assert_eq!(asked.error(9), Some(By::App(sender(1, 77))));
        assert_eq!(asked.reply(9, Kind::BarrierReply, &[], now), None);
    }

    #[test]
    fn request_without_room_is_refused_and_none_is_dropped() {
        let (mut asked, now) = (Asked::default(), Instant::now());
        let mut xid = 0;
        for link in 0..5_u16 {
            let room = if link < 4 { PER_APP } else { 0 };
            for _ in 0..room {
                assert!(asked.has_room(sender(link, 0)));
                asked.asks(xid, sender(link, xid), BARRIER, now);
                xid += 1;
            }
            assert!(!asked.has_room(sender(link, 0)), "{link}");
        }
        assert!(asked.operator_asks(xid, 1, FLOWS, now), "apps do not keep operators out");
        for answered in 0..xid {
            let answers = asked.reply(answered, Kind::BarrierReply, &[], now).unwrap();
            let By::App(by) = answers.by else { panic!("an app asked") };
            assert_eq!(by.xid, answered);
        }
        assert!(asked.has_room(sender(0, 0)));
    }

    #[test]
    fn operators_questions_are_few_and_none_longer_than_can_be_told() {
        let (mut asked, now) = (Asked::default(), Instant::now());
        for question in 0..4 {
            assert!(asked.operator_asks(9, question, FLOWS, now));
        }
        assert!(!asked.operator_asks(9, 4, FLOWS, now));
        assert!(asked.questions().eq(0..4));
        let mut asked = Asked::default();
        asked.operator_asks(9, 1, FLOWS, now);
        let mut whole = part(true).to_vec();
        whole.resize(65_535, 0);
        let parts = (0..).map_while(|_| asked.reply(9, Kind::MultipartReply, &whole, now));
        let parts: Vec<Answers> = parts.collect();
        let too_long = parts.iter().position(|part| part.too_long);
        assert_eq!(too_long, Some(LARGEST_ANSWER / 65_535));
        assert_eq!(parts.len(), LARGEST_ANSWER / 65_535 + 1, "and nothing after it");
    }

    #[test]
    fn what_is_not_answered_is_given_up_once_and_told() {
        let (mut asked, start) = (Asked::default(), Instant::now());
        asked.asks(1, sender(0, 1), FLOWS, start);
        asked.asks(2, sender(0, 2), FLOWS, start);
        asked.operator_asks(3, 7, FLOWS, start);
        asked.reply(2, Kind::MultipartReply, &part(true), start + PATIENCE / 2);
        let mut told = |after| {
            let mut told = Vec::new();
            asked.give_up(start + after, |by| told.push(by));
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
        let (mut asked, start) = (Asked::default(), Instant::now());
        asked.operator_asks(3, 7, FLOWS, start);
        let mut given_up = None;
        for second in 1..60 {
            let now = start + Duration::from_secs(second);
            asked.reply(3, Kind::MultipartReply, &part(true), now);
            asked.give_up(now, |_| given_up = given_up.or(Some(second)));
        }
        assert_eq!(given_up, Some(LONGEST_ANSWER.as_secs()));
    }
}
