//! Remembers the last messages of each app, so that an error of the switch leads back to its sender.
//!
//! Messages that one instance of an app sends without a gap, in the kernel's transaction ids and in its own, are one
//! run. A message that continues the run in hand costs one comparison. The runs that are over are kept per app, a fixed
//! number of each: an app whose transaction ids follow no order fills its own share and forgets its own messages only.

use std::collections::VecDeque;

use super::Sender;
use crate::ids::AppSlot;

/// Runs that are kept of each app.
pub(super) const RUNS: usize = 256;

/// Transaction ids in one run at most, and between the newest and the oldest: an id that was used 2^32 messages ago must not
/// lead to that message.
const LONGEST: u32 = 1 << 29;
const OLDEST: u32 = 1 << 31;

/// The last messages of the apps to one switch.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// The run in hand.
    current: Run,
    shares: Vec<Share>,
}

/// Messages of one instance without a gap; none if `count` is 0.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Run {
    /// The transaction id of the first.
    pub(crate) xid: u32,
    pub(crate) count: u32,
    /// Who sent the first.
    pub(crate) sender: Sender,
}

impl Run {
    /// Who sent the message with this transaction id, if it is one of these.
    #[inline]
    fn sender_of(&self, xid: u32) -> Option<Sender> {
        let number = xid.wrapping_sub(self.xid);
        let xid = self.sender.xid.wrapping_add(number);
        (number < self.count).then_some(Sender { xid, ..self.sender })
    }

    /// Adds the messages of a run that follows; `false` if it does not continue this one.
    #[inline]
    pub(crate) fn continue_with(&mut self, next: Self) -> bool {
        let count = self.count + next.count; // both are at most `LONGEST`
        let next_sender = Sender { xid: self.sender.xid.wrapping_add(self.count), ..self.sender };
        let is = count <= LONGEST && next.xid == self.end() && next.sender == next_sender;
        if is {
            self.count = count;
        }
        is
    }

    /// The transaction id behind the last.
    fn end(&self) -> u32 {
        self.xid.wrapping_add(self.count)
    }
}

/// The runs of one app, of all its instances.
#[derive(Debug)]
struct Share {
    app: AppSlot,
    /// The oldest first.
    runs: VecDeque<Run>,
    /// The transaction id behind the last message of the app that is forgotten.
    forgotten: Option<u32>,
}

impl Share {
    fn push(&mut self, run: Run) {
        if self.runs.len() == RUNS {
            self.forgotten = self.runs.pop_front().map(|oldest| oldest.end());
        }
        self.runs.push_back(run);
    }

    /// Removes the runs and the `forgotten` id that are at least [`OLDEST`] transaction ids behind `newest`.
    fn forget_before(&mut self, newest: u32) {
        let is_over = |xid: u32| newest.wrapping_sub(xid) >= OLDEST;
        while self.runs.front().is_some_and(|oldest| is_over(oldest.xid)) {
            self.runs.pop_front();
        }
        self.forgotten = self.forgotten.filter(|end| !is_over(*end));
    }

    fn sender_of(&self, xid: u32) -> Option<Sender> {
        let first = self.runs.front()?.xid;
        let behind = |run: &Run| run.xid.wrapping_sub(first) <= xid.wrapping_sub(first);
        let place = self.runs.partition_point(behind).checked_sub(1)?;
        self.runs.get(place)?.sender_of(xid)
    }
}

impl Recent {
    /// Notes messages that are sent.
    #[inline]
    pub(super) fn sent(&mut self, run: Run) {
        if !self.current.continue_with(run) {
            self.begin(run);
        }
    }

    /// Notes the transaction ids of messages that are not sent, so that a run continues behind them.
    pub(super) fn skipped(&mut self, run: Run) {
        self.current.continue_with(run);
    }

    #[inline(never)]
    fn begin(&mut self, run: Run) {
        let ended = std::mem::replace(&mut self.current, run);
        if ended.count > 0 {
            self.share(ended.sender.app).push(ended);
        }
        self.shares.iter_mut().for_each(|share| share.forget_before(run.xid));
    }

    fn share(&mut self, app: AppSlot) -> &mut Share {
        let place = self.shares.iter().position(|share| share.app == app);
        let place = place.unwrap_or_else(|| {
            self.shares.reserve_exact(1); // most switches hear of one app or two
            self.shares.push(Share { app, runs: VecDeque::new(), forgotten: None });
            self.shares.len() - 1
        });
        &mut self.shares[place]
    }

    /// Who sent the message with this transaction id, if that is remembered.
    pub(super) fn sender(&self, xid: u32) -> Option<Sender> {
        let ended = || self.shares.iter().find_map(|share| share.sender_of(xid));
        self.current.sender_of(xid).or_else(ended)
    }

    /// The apps that may have sent a forgotten message with this transaction id, by their places among the app ports.
    pub(super) fn may_have_sent(&self, xid: u32) -> impl Iterator<Item = AppSlot> {
        let may_have = move |share: &&Share| {
            share.forgotten.is_some_and(|end| (1..OLDEST).contains(&end.wrapping_sub(xid)))
        };
        self.shares.iter().filter(may_have).map(|share| share.app)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(app: usize, xid: u32) -> Sender {
        Sender { app: AppSlot::new(app), life: 1, xid }
    }

    /// Notes one message.
    fn send(recent: &mut Recent, xid: u32, sender: Sender) {
        recent.sent(Run { xid, count: 1, sender });
    }

    fn runs(recent: &Recent) -> usize {
        recent.shares.iter().map(|share| share.runs.len()).sum()
    }

    #[test]
    fn sender_of_a_recent_message_is_found() {
        let mut recent = Recent::default();
        assert_eq!(recent.sender(0), None);
        // The kernel's own have numbers between; so have messages of other apps.
        let sent = [(1, 77), (1, 78), (1, 79), (1, 81), (2, 82), (1, 83), (1, 84), (1, 5)];
        let sent = || sent.into_iter().zip([u32::MAX, 0, 1, 2, 3, 4, 6, 7]);
        sent().for_each(|((app, own), xid)| send(&mut recent, xid, sender(app, own)));
        for ((app, own), xid) in sent() {
            assert_eq!(recent.sender(xid), Some(sender(app, own)), "{xid}");
        }
        assert_eq!([5, 8, u32::MAX - 1].map(|xid| recent.sender(xid)), [None; 3]);
        assert_eq!(runs(&recent), 5, "and the run in hand");
    }

    #[test]
    fn random_ids_evict_only_own_messages() {
        let mut recent = Recent::default();
        send(&mut recent, 0, sender(1, 7));
        let many = u32::try_from(10 * RUNS).unwrap();
        for xid in 1..many {
            send(&mut recent, xid, Sender { life: 5, ..sender(2, xid.wrapping_mul(0x9e37_79b1)) });
        }
        assert_eq!(recent.sender(0), Some(sender(1, 7)));
        assert_eq!(runs(&recent), RUNS + 1);
        let kept = (1..many).filter(|xid| recent.sender(*xid).is_some()).count();
        assert_eq!(kept, RUNS + 1, "its own last ones");
        assert!(recent.may_have_sent(1).eq([AppSlot::new(2)]), "its first is forgotten");
        assert!(recent.may_have_sent(many).next().is_none(), "nothing with this id was sent");
    }

    #[test]
    fn messages_of_long_ago_are_forgotten() {
        let mut recent = Recent::default();
        for number in 0..=u32::try_from(RUNS + 1).unwrap() {
            send(&mut recent, 2 * number, sender(1, number));
        }
        assert_eq!((recent.sender(0), recent.sender(2)), (None, Some(sender(1, 1))));
        assert!(recent.may_have_sent(0).eq([AppSlot::new(1)]));
        send(&mut recent, 1 << 31, sender(2, 0));
        assert!(recent.may_have_sent(0).eq([AppSlot::new(1)]));
        send(&mut recent, (1 << 31) + 4, sender(2, 0));
        assert_eq!((recent.sender(4), recent.sender(6)), (None, Some(sender(1, 3))));
        assert!(
            recent.may_have_sent(0).next().is_none(),
            "by now another message may have this id"
        );
        recent.current.count = LONGEST;
        send(&mut recent, (1 << 31) + 4 + LONGEST, sender(2, LONGEST));
        assert_eq!(recent.current.count, 1);
    }
}
