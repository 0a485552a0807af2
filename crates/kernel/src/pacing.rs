//! Holds back the flow-mods of paced apps, so that a switch receives at most a number of them per second.
//!
//! A paced app has a queue and a token bucket for each switch. A flow-mod leaves the queue when the bucket has a token for
//! it; other messages need no token, and the app's messages keep their order. What leaves the queue is ordinary output of
//! the app: it passes the [`FairQueue`](crate::fair_queue::FairQueue) next. Connections without paced apps have none of
//! this state.
//!
//! The queue belongs to the connection. Its messages were admitted, so they are sent even if their app dies.

use std::time::{Duration, Instant};

use openflow::{Header, Kind, Version};

use crate::ids::AppSlot;

/// Bytes above which the next message of a paced app is refused. They hold over 1,000 flow-mods of usual size.
pub(crate) const MOST_WAITING: usize = 128 * 1024;

/// Time whose flow-mods may leave at once after a pause.
const BURST: Duration = Duration::from_millis(20);

/// Shortest time until the worker looks at a queue again, so that a fast pace does not wake it for each message.
const PORTION: Duration = Duration::from_millis(5);

/// Units of a token: nanoseconds in a second, so that a rate per second adds `rate` units in each nanosecond.
const TOKEN: u64 = 1_000_000_000;

/// The queues of one connection.
#[derive(Debug, Default)]
pub(crate) struct PacedQueues {
    queues: Vec<PacedQueue>,
}

/// The queue and the bucket of one app.
#[derive(Debug)]
struct PacedQueue {
    app: AppSlot,
    /// Flow-mods per second; `None` if the app is paced no longer and only the rest of the queue must be sent.
    pace: Option<u32>,
    /// Whole messages, from `start` on.
    bytes: Vec<u8>,
    start: usize,
    /// Bytes before this place were counted as delayed or were sent without delay.
    seen: usize,
    /// Parts of tokens.
    credit: u64,
    refilled: Instant,
    /// Whether messages had tokens when the queue was looked at last, and the output did not take them.
    is_held_back: bool,
}

impl PacedQueue {
    fn new(app: AppSlot, pace: u32, now: Instant) -> Self {
        let (bytes, start, seen) = (Vec::new(), 0, 0);
        let (pace, credit) = (Some(pace), most(pace));
        Self { app, pace, bytes, start, seen, credit, refilled: now, is_held_back: false }
    }

    fn size(&self) -> usize {
        self.bytes.len() - self.start
    }

    fn refill(&mut self, now: Instant) {
        let Some(pace) = self.pace else { return };
        let passed = now.saturating_duration_since(self.refilled).min(Duration::from_secs(1));
        let passed = u64::try_from(passed.as_nanos()).unwrap_or(TOKEN);
        self.credit = (self.credit + passed * u64::from(pace)).min(most(pace));
        self.refilled = now;
    }

    /// Returns the end of the messages that may leave, and takes the tokens for them.
    fn take_due(&mut self) -> usize {
        let mut end = self.start;
        while let Some((size, is_flow_mod)) = message(&self.bytes[end..]) {
            if is_flow_mod && self.pace.is_some() {
                let Some(rest) = self.credit.checked_sub(TOKEN) else { break };
                self.credit = rest;
            }
            end += size;
        }
        end
    }

    /// Returns when the first message may leave.
    fn due(&self, now: Instant) -> Option<Instant> {
        if self.size() == 0 {
            return None;
        }
        let missing = TOKEN.saturating_sub(self.credit);
        let pace = self.pace.map_or(TOKEN, |pace| pace.max(1).into());
        let wait = Duration::from_nanos(missing.div_ceil(pace));
        Some(now + wait.max(PORTION))
    }

    /// Counts the flow-mods that were added since the last call and wait.
    fn count_delayed(&mut self) -> u64 {
        let (mut at, mut count) = (self.seen.max(self.start), 0);
        while let Some((size, is_flow_mod)) = message(&self.bytes[at..]) {
            count += u64::from(is_flow_mod);
            at += size;
        }
        self.seen = at;
        count
    }
}

/// The most credit of a bucket.
fn most(pace: u32) -> u64 {
    let burst = u64::try_from(BURST.as_nanos()).unwrap_or(TOKEN);
    (burst * u64::from(pace)).max(TOKEN)
}

/// Returns the size of the first message, and whether it is a flow-mod; `None` if there is none.
fn message(bytes: &[u8]) -> Option<(usize, bool)> {
    let head = bytes.first_chunk::<{ Header::SIZE }>()?;
    let size = usize::from(u16::from_be_bytes([head[2], head[3]])).max(Header::SIZE);
    let version = Version::from_wire(head[0]).ok();
    let kind = version.and_then(|version| Kind::from_wire(version, head[1]).ok());
    (size <= bytes.len()).then_some((size, kind == Some(Kind::FlowMod)))
}

impl PacedQueues {
    /// Bytes in all queues.
    pub(crate) fn size(&self) -> usize {
        self.queues.iter().map(PacedQueue::size).sum()
    }

    /// Bytes of memory of the queues.
    pub(crate) fn capacity(&self) -> usize {
        self.queues.iter().map(|queue| queue.bytes.capacity()).sum()
    }

    /// The apps with waiting messages, and the bytes of these.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (AppSlot, usize)> {
        let sizes = self.queues.iter().map(|queue| (queue.app, queue.size()));
        sizes.filter(|(_, size)| *size > 0)
    }

    /// Returns the pace of an app if its queue is full because of it; `None` if there is room, or if the switch does not read.
    pub(crate) fn exceeded_pace(&self, app: AppSlot) -> Option<u32> {
        let queue = self.queues.iter().find(|queue| queue.app == app)?;
        queue.pace.filter(|_| queue.size() > MOST_WAITING && !queue.is_held_back)
    }

    /// Whether no queue has messages and no app is paced.
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.iter().all(|queue| queue.pace.is_none() && queue.size() == 0)
    }

    /// Sets the pace of an app. Messages that wait keep their order before later ones.
    pub(crate) fn set_pace(&mut self, app: AppSlot, pace: Option<u32>, now: Instant) {
        match (self.queues.iter_mut().find(|queue| queue.app == app), pace) {
            (Some(queue), _) if queue.pace == pace => {}
            (Some(queue), _) => {
                queue.refill(now);
                queue.pace = pace;
                queue.credit = queue.credit.min(pace.map_or(0, most));
            }
            (None, Some(pace)) => self.queues.push(PacedQueue::new(app, pace, now)),
            (None, None) => {}
        }
    }

    /// Swaps `out` with the queue of an app, so that the caller appends messages to it, until
    /// [`give_back`](Self::give_back). Returns the bytes at the front of `out` that have left; `None` if the app's messages
    /// need not wait.
    pub(crate) fn lend(&mut self, app: AppSlot, out: &mut Vec<u8>) -> Option<usize> {
        let queue = self.queues.iter_mut().find(|queue| queue.app == app)?;
        if queue.pace.is_none() && queue.size() == 0 {
            return None;
        }
        if queue.start >= queue.bytes.len() / 2 {
            queue.bytes.drain(..queue.start);
            queue.seen = queue.seen.saturating_sub(queue.start);
            queue.start = 0;
        }
        std::mem::swap(out, &mut queue.bytes);
        Some(queue.start)
    }

    /// Undoes [`lend`](Self::lend).
    pub(crate) fn give_back(&mut self, app: AppSlot, out: &mut Vec<u8>) {
        if let Some(queue) = self.queues.iter_mut().find(|queue| queue.app == app) {
            std::mem::swap(out, &mut queue.bytes);
        }
    }

    /// Passes the messages of each app that may leave now to `send`, which returns whether it has taken them.
    pub(crate) fn release(&mut self, now: Instant, mut send: impl FnMut(AppSlot, &[u8]) -> bool) {
        for queue in &mut self.queues {
            queue.refill(now);
            let credit = queue.credit;
            let end = queue.take_due();
            if end == queue.start {
                continue;
            }
            queue.is_held_back = !send(queue.app, &queue.bytes[queue.start..end]);
            if queue.is_held_back {
                queue.credit = credit; // the output is full: they stay
            } else {
                queue.start = end;
            }
            if queue.size() == 0 {
                (queue.start, queue.seen) = (0, 0);
                queue.bytes.clear();
                queue.bytes.shrink_to(4096);
            }
        }
        self.queues.retain(|queue| queue.pace.is_some() || queue.size() > 0);
    }

    /// Returns the apps with flow-mods that have begun to wait since the last call, and their number.
    pub(crate) fn take_delayed(&mut self) -> impl Iterator<Item = (AppSlot, u64)> {
        let delayed = self.queues.iter_mut().map(|queue| (queue.app, queue.count_delayed()));
        delayed.filter(|(_, count)| *count > 0)
    }

    /// Returns when messages may leave next; `None` if none wait.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        self.queues.iter().filter_map(|queue| queue.due(now)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app() -> AppSlot {
        AppSlot::new(3)
    }

    fn flow_mod(number: u32) -> Vec<u8> {
        let mut message = vec![4, 14, 0, 80];
        message.extend(number.to_be_bytes());
        message.resize(80, 0);
        message
    }

    fn barrier(number: u32) -> Vec<u8> {
        [vec![4, 20, 0, 8], number.to_be_bytes().to_vec()].concat()
    }

    #[test]
    fn full_queue_is_due_to_the_pace_or_to_the_switch() {
        let start = Instant::now();
        let mut queues = PacedQueues::default();
        queues.set_pace(app(), Some(100), start);
        let most = MOST_WAITING / 80;
        (0..most).for_each(|_| push(&mut queues, &flow_mod(0)));
        assert_eq!(queues.exceeded_pace(app()), None, "there is room for one more");
        (0..100).for_each(|_| push(&mut queues, &flow_mod(0)));
        assert_eq!(queues.exceeded_pace(app()), Some(100));
        assert_eq!(queues.exceeded_pace(AppSlot::new(4)), None);
        let later = start + Duration::from_millis(50);
        queues.release(later, |_, _| false);
        assert_eq!(queues.exceeded_pace(app()), None, "the output does not take them");
        queues.release(later + Duration::from_millis(50), |_, _| true);
        assert_eq!(queues.exceeded_pace(app()), Some(100));
    }

    fn push(queues: &mut PacedQueues, message: &[u8]) {
        let mut out = b"other".to_vec();
        queues.lend(app(), &mut out).unwrap();
        out.extend_from_slice(message);
        queues.give_back(app(), &mut out);
        assert_eq!(out, b"other");
    }

    /// The numbers of the messages that leave at `now`.
    fn leave(queues: &mut PacedQueues, now: Instant) -> Vec<u32> {
        let mut all = Vec::new();
        queues.release(now, |slot, mut bytes| {
            assert_eq!(slot, app());
            while let Some((size, _)) = message(bytes) {
                all.push(u32::from_be_bytes(*bytes[4..].first_chunk().unwrap()));
                bytes = &bytes[size..];
            }
            true
        });
        all
    }

    #[test]
    fn flow_mods_leave_at_the_pace_in_order() {
        let (mut queues, start) = (PacedQueues::default(), Instant::now());
        queues.set_pace(app(), Some(100), start);
        (0..300).for_each(|number| push(&mut queues, &flow_mod(number)));
        push(&mut queues, &barrier(300));
        let mut left = leave(&mut queues, start);
        assert_eq!(left, [0, 1], "20 ms of flow-mods leave at once");
        assert_eq!(queues.take_delayed().collect::<Vec<_>>(), [(app(), 298)]);
        assert_eq!(queues.take_delayed().count(), 0, "each is counted once");
        let (mut now, mut turns) = (start, 0);
        while let Some(due) = queues.due(now) {
            assert!(due > now);
            (now, turns) = (due, turns + 1);
            left.extend(leave(&mut queues, now));
        }
        assert!(left.iter().copied().eq(0..301), "nothing is lost or reordered");
        let took = (now - start).as_millis();
        assert!((2_900..3_100).contains(&took), "{took} ms");
        assert!(turns <= 301, "{turns}");
        assert_eq!((queues.size(), queues.due(now)), (0, None));
    }

    #[test]
    fn other_messages_need_no_token() {
        let (mut queues, start) = (PacedQueues::default(), Instant::now());
        queues.set_pace(app(), Some(1), start);
        push(&mut queues, &flow_mod(0));
        (1..50).for_each(|number| push(&mut queues, &barrier(number)));
        push(&mut queues, &flow_mod(50));
        assert!(leave(&mut queues, start).into_iter().eq(0..50));
        assert_eq!(leave(&mut queues, start + Duration::from_millis(990)), [0; 0]);
        assert_eq!(leave(&mut queues, start + Duration::from_millis(1_001)), [50]);
    }

    #[test]
    fn bucket_stays_when_the_queue_is_empty() {
        let (mut queues, start) = (PacedQueues::default(), Instant::now());
        queues.set_pace(app(), Some(10), start);
        let mut left = 0;
        for ms in 0..1_000 {
            let now = start + Duration::from_millis(ms);
            if queues.size() == 0 {
                push(&mut queues, &flow_mod(0));
            }
            queues.set_pace(app(), Some(10), now);
            left += leave(&mut queues, now).len();
        }
        assert!((10..=11).contains(&left), "{left} flow-mods in a second");
    }

    #[test]
    fn app_without_a_pace_sends_the_rest_at_once() {
        let (mut queues, start) = (PacedQueues::default(), Instant::now());
        queues.set_pace(app(), Some(1), start);
        (0..5).for_each(|number| push(&mut queues, &flow_mod(number)));
        assert_eq!(leave(&mut queues, start), [0]);
        queues.set_pace(app(), None, start);
        push(&mut queues, &flow_mod(5));
        assert_eq!(leave(&mut queues, start), [1, 2, 3, 4, 5], "in order, with a later one");
        assert!(queues.is_empty() && queues.lend(app(), &mut Vec::new()).is_none());
    }

    #[test]
    fn messages_stay_while_the_output_is_full() {
        let (mut queues, start) = (PacedQueues::default(), Instant::now());
        queues.set_pace(app(), Some(1_000), start);
        (0..3).for_each(|number| push(&mut queues, &flow_mod(number)));
        queues.release(start, |_, _| false);
        assert_eq!(queues.size(), 240);
        assert_eq!(leave(&mut queues, start), [0, 1, 2], "no token was lost");
    }
}
