//! Queues the messages of apps that wait for a switch, and serves the queues in turns. It is the one place where they wait.
//!
//! An app's messages wait while the switch does not accept its output at once, or for the app's [pace](crate::pacing). Each app
//! has a queue of its own. They are emptied by deficit round robin over whole messages: in each round an app may send
//! [`QUANTUM`] bytes, and the rest that was too short for its next message is added to its next round. So an app waits for at
//! most one round of another app's messages, however many there are. If sessions reserve bytes to switches, a session sends its
//! part of [`ROUND`] in each round, and its apps divide that part evenly. A paced app sends in its turn the messages for which it
//! has tokens. The messages of one app keep their order.
//!
//! All output of the switch shares one bound. Beyond it each app still has [`GUARANTEED`] bytes, which no other app can use
//! up ([`AppQueues::limit`]). A paced app has at most [`MOST_PACED`].
//!
//! The queues belong to the connection. Their messages were admitted, so they are sent even if their app dies.

use std::collections::VecDeque;
use std::time::Instant;

use control::session::{MOST_SESSIONS, SessionId, SessionShares};

use crate::ids::AppSlot;
use crate::pacing::{Bucket, first_message};

/// Bytes that an app may send in a round.
const QUANTUM: usize = 16 * 1024;

/// Bytes that all sessions together may send in a round, if some reserve bytes.
const ROUND: usize = 64 * 1024;

/// The weight of an app without a session for bytes without a reservation.
const ORDINARY: u32 = 100;

/// The longest message, in bytes: an idle app keeps the right to send one.
const LONGEST: usize = 64 * 1024;

/// Bytes that an app may always queue, whatever other apps have queued.
const GUARANTEED: usize = 32 * 1024;

/// Bytes above which the next message of a paced app is refused. They hold over 1,000 flow-mods of usual size.
pub(crate) const MOST_PACED: usize = 128 * 1024;

/// An app's turns in the queues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OutputTurn {
    /// The place of the app's session among those with a part of the round; 0 for best effort.
    session: u8,
    /// The session's part of [`ROUND`] in thousandths; 0 if no session reserves bytes, so that each app has a [`QUANTUM`].
    thousandths: u16,
}

/// The turns of the apps of each session.
#[derive(Debug, Default)]
pub(crate) struct OutputShares {
    turns: Vec<(SessionId, OutputTurn)>,
}

impl OutputShares {
    /// The turns for these shares. Sessions without reserved bytes belong to best effort.
    pub(crate) fn new(shares: &SessionShares) -> Self {
        let reserving = || shares.sessions.iter().filter(|it| it.sent_percent > 0);
        if reserving().next().is_none() {
            return Self::default();
        }
        let reserved = reserving().map(|it| u32::from(it.sent_percent)).sum::<u32>();
        let left = 100_u32.saturating_sub(reserved + u32::from(shares.best_effort_percent));
        let weights = ORDINARY + reserving().map(|it| u32::from(it.extra)).sum::<u32>();
        let turn = |session: usize, percent: u8, weight: u32| {
            let thousandths = u32::from(percent) * 10 + left * 10 * weight / weights;
            OutputTurn {
                session: u8::try_from(session).unwrap_or(0),
                thousandths: u16::try_from(thousandths.clamp(1, 1_000)).unwrap_or(1),
            }
        };
        let best_effort = turn(0, shares.best_effort_percent, ORDINARY);
        let sessions = reserving().take(MOST_SESSIONS).enumerate();
        let sessions = sessions
            .map(|(place, it)| (it.session, turn(place + 1, it.sent_percent, it.extra.into())));
        Self {
            turns: [(SessionId::BEST_EFFORT, best_effort)].into_iter().chain(sessions).collect(),
        }
    }

    /// The turns of an app of this session.
    pub(crate) fn turn_of(&self, session: SessionId) -> OutputTurn {
        let turn = self.turns.iter().find(|(id, _)| *id == session).or(self.turns.first());
        turn.map(|(_, turn)| *turn).unwrap_or_default()
    }
}

/// The queues of one connection. Apps without a pace and with nothing to send have none.
#[derive(Debug, Default)]
pub(crate) struct AppQueues {
    /// The queues, in the order of their turns.
    queues: VecDeque<Queue>,
    /// Bytes in the queues of apps without a pace.
    size: usize,
}

#[derive(Debug)]
struct Queue {
    app: AppSlot,
    /// Whole messages, from `start` on.
    bytes: Vec<u8>,
    start: usize,
    /// Bytes that it may send in addition to its next quantum.
    deficit: usize,
    turn: OutputTurn,
    /// The app's pace.
    bucket: Option<Bucket>,
    /// Bytes before this place were counted as delayed by the pace or were sent without delay.
    seen: usize,
}

impl Queue {
    fn new(app: AppSlot, bucket: Option<Bucket>) -> Self {
        let turn = OutputTurn::default();
        Self { app, bytes: Vec::new(), start: 0, deficit: 0, turn, bucket, seen: 0 }
    }

    fn size(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Takes the tokens for the messages that it may send now. Returns the size of these messages, and whether the next one waits
    /// for a token.
    fn take_due(&mut self) -> (usize, bool) {
        let (waiting, mut end) = (&self.bytes[self.start..], 0);
        while let Some((size, is_flow_mod)) = first_message(&waiting[end..]) {
            if end + size > self.deficit {
                break;
            }
            if is_flow_mod && self.bucket.as_mut().is_some_and(|bucket| !bucket.take()) {
                return (end, true);
            }
            end += size;
        }
        (end, false)
    }

    /// Frees the memory of messages that were sent.
    fn compact(&mut self) {
        if self.start >= self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.seen = self.seen.saturating_sub(self.start);
            self.start = 0;
        }
        if self.bytes.is_empty() {
            self.bytes.shrink_to(4096);
        }
    }

    /// Counts the flow-mods that were added since the last call and wait for the pace.
    fn count_delayed(&mut self) -> u64 {
        let (mut at, mut count) = (self.seen.max(self.start), 0);
        while let Some((size, is_flow_mod)) = first_message(&self.bytes[at..]) {
            count += u64::from(is_flow_mod);
            at += size;
        }
        self.seen = at;
        count
    }
}

impl AppQueues {
    /// Bytes in the queues of apps without a pace: they are sent as soon as the switch accepts them.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Whether messages wait.
    pub(crate) fn has_messages(&self) -> bool {
        self.queues.iter().any(|queue| queue.size() > 0)
    }

    /// Whether the messages of an app without a pace must join its queue, behind its own messages or those of other such apps.
    pub(crate) fn delays(&self, app: AppSlot) -> bool {
        self.size > 0 || self.has(app)
    }

    /// Whether messages of an app wait.
    pub(crate) fn has(&self, app: AppSlot) -> bool {
        self.queues.iter().any(|queue| queue.app == app && queue.size() > 0)
    }

    /// Whether no messages wait and no app is paced.
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Bytes of memory of the queues.
    pub(crate) fn capacity(&self) -> usize {
        self.queues.iter().map(|queue| queue.bytes.capacity()).sum()
    }

    /// The apps without a pace that have queued messages, and the bytes of these.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = (AppSlot, usize)> {
        let unpaced = self.queues.iter().filter(|queue| queue.bucket.is_none());
        unpaced.map(|queue| (queue.app, queue.size()))
    }

    /// The paced apps with waiting messages, and the bytes of these.
    pub(crate) fn paced_sizes(&self) -> impl Iterator<Item = (AppSlot, usize)> {
        let paced = self.queues.iter().filter(|it| it.bucket.is_some() && it.size() > 0);
        paced.map(|queue| (queue.app, queue.size()))
    }

    /// The app without a pace with the most queued bytes, and their number.
    pub(crate) fn largest(&self) -> Option<(AppSlot, usize)> {
        self.sizes().max_by_key(|(_, size)| *size)
    }

    /// Returns the pace of an app if its queue is full, which is due to the pace unless the switch does not read.
    pub(crate) fn exceeded_pace(&self, app: AppSlot) -> Option<u32> {
        let queue = self.queues.iter().find(|queue| queue.app == app)?;
        queue.bucket.as_ref().filter(|_| queue.size() > MOST_PACED).map(Bucket::rate)
    }

    /// Sets the pace of an app. Messages that wait keep their order before later ones.
    pub(crate) fn set_pace(&mut self, app: AppSlot, pace: Option<u32>, now: Instant) {
        let Some(number) = self.queues.iter().position(|queue| queue.app == app) else {
            let bucket = pace.map(|rate| Bucket::new(rate, now));
            self.queues.extend(bucket.map(|bucket| Queue::new(app, Some(bucket))));
            return;
        };
        let queue = &mut self.queues[number];
        match (&mut queue.bucket, pace) {
            (Some(bucket), Some(rate)) if bucket.rate() == rate => {}
            (Some(bucket), Some(rate)) => bucket.set_rate(rate, now),
            (None, Some(rate)) => {
                queue.bucket = Some(Bucket::new(rate, now));
                self.size -= queue.size();
            }
            (Some(_), None) => {
                queue.bucket = None;
                self.size += queue.size();
                self.remove_if_idle(number);
            }
            (None, None) => {}
        }
    }

    fn remove_if_idle(&mut self, place: usize) {
        if self.queues[place].size() == 0 && self.queues[place].bucket.is_none() {
            self.queues.remove(place);
        }
    }

    /// Returns the limit of an app's queue: the app's next message is refused if the queue has more bytes.
    ///
    /// The app may use the part of `shared` that neither the `ahead` bytes in front of the queues nor the queues of other
    /// apps take, and at least [`GUARANTEED`].
    pub(crate) fn limit(&self, app: AppSlot, ahead: usize, shared: usize) -> usize {
        let own = self.queues.iter().find(|queue| queue.app == app);
        if own.is_some_and(|queue| queue.bucket.is_some()) {
            return MOST_PACED;
        }
        let of_others = self.size - own.map_or(0, Queue::size);
        shared.saturating_sub(ahead + of_others).max(GUARANTEED)
    }

    /// Swaps `out` with the queue of an app, so that the caller appends messages to it, until
    /// [`give_back`](Self::give_back). Returns the number of bytes at the front of `out` that are sent already: they do not
    /// count against its [`limit`](Self::limit).
    pub(crate) fn lend(&mut self, (app, turn): (AppSlot, OutputTurn), out: &mut Vec<u8>) -> usize {
        let place = self.queues.iter().position(|queue| queue.app == app).unwrap_or_else(|| {
            self.queues.push_back(Queue::new(app, None));
            self.queues.len() - 1
        });
        let queue = &mut self.queues[place];
        queue.turn = turn;
        queue.compact();
        std::mem::swap(out, &mut queue.bytes);
        queue.start
    }

    /// Undoes [`lend`](Self::lend): swaps the app's queue in `out` with the connection's output. `appended` is the
    /// number of bytes that the caller has added to the queue.
    pub(crate) fn give_back(&mut self, app: AppSlot, out: &mut Vec<u8>, appended: usize) {
        let Some(place) = self.queues.iter().position(|queue| queue.app == app) else { return };
        let queue = &mut self.queues[place];
        std::mem::swap(out, &mut queue.bytes);
        if queue.bucket.is_none() {
            self.size += appended;
        }
        self.remove_if_idle(place);
    }

    /// Moves messages to `out`, app after app, until these are `most` bytes or no app may send more now. `false` if there was
    /// nothing to move.
    pub(crate) fn take_turns(&mut self, out: &mut Vec<u8>, most: usize, now: Instant) -> bool {
        for bucket in self.queues.iter_mut().filter_map(|queue| queue.bucket.as_mut()) {
            bucket.refill(now);
        }
        let apps = self.apps_of_sessions();
        let (before, end) = (out.len(), out.len() + most);
        let mut idle = 0;
        while out.len() < end && idle < self.queues.len() {
            let Some(mut queue) = self.queues.pop_front() else { break };
            queue.deficit += quantum(queue.turn, &apps);
            let (due, waits_for_pace) = queue.take_due();
            out.extend_from_slice(&queue.bytes[queue.start..][..due]);
            queue.start += due;
            queue.deficit -= due;
            if queue.bucket.is_none() {
                self.size -= due;
            } else if queue.size() == 0 || waits_for_pace {
                queue.deficit = queue.deficit.min(LONGEST); // an app without messages that may leave gathers no more
            }
            let is_idle = due == 0 && (waits_for_pace || queue.size() == 0);
            idle = if is_idle { idle + 1 } else { 0 };
            if queue.size() > 0 || queue.bucket.is_some() {
                self.queues.push_back(queue);
            }
        }
        self.queues.iter_mut().filter(|queue| queue.bucket.is_some()).for_each(Queue::compact);
        out.len() > before
    }

    /// The number of queues with messages, by the place of the session.
    fn apps_of_sessions(&self) -> [u8; 1 + MOST_SESSIONS] {
        let mut apps = [0; 1 + MOST_SESSIONS];
        for queue in self.queues.iter().filter(|queue| queue.size() > 0) {
            apps[usize::from(queue.turn.session)] += 1;
        }
        apps
    }

    /// Returns the paced apps with flow-mods that have begun to wait since the last call, and their number.
    pub(crate) fn take_delayed(&mut self) -> impl Iterator<Item = (AppSlot, u64)> {
        let paced = self.queues.iter_mut().filter(|queue| queue.bucket.is_some());
        paced.map(|queue| (queue.app, queue.count_delayed())).filter(|(_, count)| *count > 0)
    }

    /// Returns when messages of paced apps may leave next; `None` if none wait.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let waiting = self.queues.iter().filter(|queue| queue.size() > 0);
        waiting.filter_map(|queue| queue.bucket.as_ref()).map(|bucket| bucket.due(now)).min()
    }
}

/// Bytes that an app may send in a round. `apps` has the number of apps of each session that send in it.
fn quantum(turn: OutputTurn, apps: &[u8; 1 + MOST_SESSIONS]) -> usize {
    if turn.thousandths == 0 {
        return QUANTUM;
    }
    let apps = usize::from(apps[usize::from(turn.session)].max(1));
    (ROUND * usize::from(turn.thousandths) / 1_000 / apps).max(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use control::session::SessionShare;

    use super::*;

    const MOST: usize = 1 << 20;

    /// A message of `size` bytes that contains the app and its own number.
    fn message(app: u8, number: u32, size: u16) -> Vec<u8> {
        let mut message = vec![app; usize::from(size)];
        message[..4].copy_from_slice(&[4, 13, 0, 0]);
        message[2..4].copy_from_slice(&size.to_be_bytes());
        message[4..8].copy_from_slice(&number.to_be_bytes());
        message
    }

    /// Queues a message; `false` if there is no room for it.
    fn push(queue: &mut AppQueues, app: u8, message: &[u8]) -> bool {
        let (mut out, app) = (b"ahead".to_vec(), AppSlot::new(app.into()));
        let limit = queue.limit(app, out.len(), MOST);
        let sent = queue.lend((app, OutputTurn::default()), &mut out);
        let has_room = out.len() - sent <= limit;
        if has_room {
            out.extend_from_slice(message);
        }
        queue.give_back(app, &mut out, if has_room { message.len() } else { 0 });
        assert_eq!(out, b"ahead");
        has_room
    }

    fn size_of(queue: &AppQueues, app: usize) -> usize {
        queue.sizes().find(|(of, _)| of.index() == app).map_or(0, |(_, size)| size)
    }

    /// The app and the number of each message of `bytes`, which must be whole, and its size.
    fn read(mut bytes: &[u8]) -> Vec<(u8, u32, usize)> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let size = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
            let (message, rest) = bytes.split_at(size);
            assert!(message[8..].iter().all(|byte| *byte == message[8]), "whole");
            all.push((message[8], u32::from_be_bytes(*message[4..].first_chunk().unwrap()), size));
            bytes = rest;
        }
        all
    }

    #[test]
    fn flooding_app_does_not_delay_others() {
        let mut queue = AppQueues::default();
        let mut flood = (0..).take_while(|number| push(&mut queue, 1, &message(1, *number, 1000)));
        let accepted = flood.by_ref().count();
        assert!((MOST - 2000..=MOST + 1000).contains(&(accepted * 1000)), "{accepted}");
        for app in 2..66 {
            let accepted = (0..).take_while(|it| push(&mut queue, app, &message(app, *it, 1000)));
            assert_eq!(accepted.count(), GUARANTEED / 1000 + 1, "app {app}");
        }
        assert_eq!(queue.largest(), Some((AppSlot::new(1), size_of(&queue, 1))));
        assert!(queue.size() <= MOST + 66 * (GUARANTEED + 1000), "{}", queue.size());
        // The first messages of all apps are among those of one round.
        let mut out = Vec::new();
        queue.take_turns(&mut out, 65 * QUANTUM, Instant::now());
        let sent = read(&out);
        for app in 1..66 {
            let numbers: Vec<u32> =
                sent.iter().filter(|(by, ..)| *by == app).map(|(_, number, _)| *number).collect();
            assert!(numbers.len() >= 15, "app {app}: {}", numbers.len());
            assert!(numbers.iter().copied().eq(0..u32::try_from(numbers.len()).unwrap()));
        }
        assert!(push(&mut queue, 2, &message(2, 0, 1000)), "there is room again");
    }

    #[test]
    fn apps_share_output_by_bytes() {
        let mut queue = AppQueues::default();
        let sizes = [(1, 60_000), (2, 100), (3, 9)];
        let (mut queued, mut sent) = (vec![Vec::new(); 4], vec![Vec::new(); 4]);
        let mut bytes = [0; 4];
        for round in 0..400 {
            for (app, size) in sizes {
                while size_of(&queue, app.into()) < 70_000 {
                    let number = u32::try_from(queued[usize::from(app)].len()).unwrap();
                    assert!(push(&mut queue, app, &message(app, number, size)));
                    queued[usize::from(app)].push(number);
                }
            }
            let mut out = vec![0; round % 7];
            queue.take_turns(&mut out, 30_000, Instant::now());
            for (app, number, size) in read(&out[round % 7..]) {
                sent[usize::from(app)].push(number);
                bytes[usize::from(app)] += size;
            }
        }
        let [_, a, b, c] = bytes;
        assert!(a.abs_diff(b) < 100_000 && b.abs_diff(c) < 100_000, "{bytes:?}");
        let mut out = Vec::new();
        queue.take_turns(&mut out, usize::MAX - 1, Instant::now());
        for (app, number, _) in read(&out) {
            sent[usize::from(app)].push(number);
        }
        assert_eq!((sent, queue.size(), queue.largest()), (queued, 0, None));
    }

    fn paced() -> AppSlot {
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

    fn wait(queues: &mut AppQueues, message: &[u8]) {
        let mut out = b"other".to_vec();
        queues.lend((paced(), OutputTurn::default()), &mut out);
        out.extend_from_slice(message);
        queues.give_back(paced(), &mut out, message.len());
        assert_eq!(out, b"other");
    }

    /// The numbers of the messages that leave at `now`.
    fn leave(queues: &mut AppQueues, now: Instant) -> Vec<u32> {
        let (mut out, mut all) = (Vec::new(), Vec::new());
        let has_moved = queues.take_turns(&mut out, 1 << 30, now);
        assert_eq!(has_moved, !out.is_empty());
        let mut left = &out[..];
        while let Some((size, _)) = first_message(left) {
            all.push(u32::from_be_bytes(*left[4..].first_chunk().unwrap()));
            left = &left[size..];
        }
        all
    }

    #[test]
    fn full_queue_of_a_paced_app_is_due_to_its_pace() {
        let start = Instant::now();
        let mut queues = AppQueues::default();
        queues.set_pace(paced(), Some(100), start);
        assert_eq!(queues.limit(paced(), 0, MOST), MOST_PACED);
        (0..MOST_PACED / 80).for_each(|_| wait(&mut queues, &flow_mod(0)));
        assert_eq!(queues.exceeded_pace(paced()), None, "there is room for one more");
        (0..100).for_each(|_| wait(&mut queues, &flow_mod(0)));
        assert_eq!(queues.exceeded_pace(paced()), Some(100));
        assert_eq!(queues.exceeded_pace(AppSlot::new(4)), None);
        assert!(!queues.delays(AppSlot::new(4)), "others do not wait for it");
        assert_eq!((queues.size(), queues.largest()), (0, None));
    }

    #[test]
    fn flow_mods_leave_at_the_pace_in_order() {
        let (mut queues, start) = (AppQueues::default(), Instant::now());
        queues.set_pace(paced(), Some(100), start);
        (0..300).for_each(|number| wait(&mut queues, &flow_mod(number)));
        wait(&mut queues, &barrier(300));
        let mut left = leave(&mut queues, start);
        assert_eq!(left, [0, 1], "20 ms of flow-mods leave at once");
        assert_eq!(queues.take_delayed().collect::<Vec<_>>(), [(paced(), 298)]);
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
        assert!(!queues.has_messages() && queues.due(now).is_none());
    }

    #[test]
    fn messages_other_than_flow_mods_need_no_token() {
        let (mut queues, start) = (AppQueues::default(), Instant::now());
        queues.set_pace(paced(), Some(1), start);
        wait(&mut queues, &flow_mod(0));
        (1..50).for_each(|number| wait(&mut queues, &barrier(number)));
        wait(&mut queues, &flow_mod(50));
        assert!(leave(&mut queues, start).into_iter().eq(0..50));
        assert_eq!(leave(&mut queues, start + Duration::from_millis(990)), [0; 0]);
        assert_eq!(leave(&mut queues, start + Duration::from_millis(1_001)), [50]);
    }

    #[test]
    fn bucket_stays_when_the_queue_is_empty() {
        let (mut queues, start) = (AppQueues::default(), Instant::now());
        queues.set_pace(paced(), Some(10), start);
        let mut left = 0;
        for ms in 0..1_000 {
            let now = start + Duration::from_millis(ms);
            if !queues.has_messages() {
                wait(&mut queues, &flow_mod(0));
            }
            queues.set_pace(paced(), Some(10), now);
            left += leave(&mut queues, now).len();
        }
        assert!((10..=11).contains(&left), "{left} flow-mods in a second");
    }

    #[test]
    fn app_without_a_pace_sends_the_rest_at_once() {
        let (mut queues, start) = (AppQueues::default(), Instant::now());
        queues.set_pace(paced(), Some(1), start);
        (0..5).for_each(|number| wait(&mut queues, &flow_mod(number)));
        assert_eq!(leave(&mut queues, start), [0]);
        queues.set_pace(paced(), None, start);
        assert_eq!(queues.size(), 4 * 80);
        wait(&mut queues, &flow_mod(5));
        assert_eq!(leave(&mut queues, start), [1, 2, 3, 4, 5], "in order, with a later one");
        assert!(queues.is_empty());
    }

    /// Messages that need no token leave at once, whatever their size.
    #[test]
    fn long_packet_outs_of_a_paced_app_leave_at_once() {
        let (mut queues, start) = (AppQueues::default(), Instant::now());
        queues.set_pace(paced(), Some(1), start);
        (0..10).for_each(|number| wait(&mut queues, &message(3, number, 60_000)));
        let mut out = Vec::new();
        assert!(queues.take_turns(&mut out, MOST, start));
        assert_eq!((out.len(), queues.has_messages()), (600_000, false));
    }

    /// A paced app that waits for a token delays no other, and does not keep the worker busy.
    #[test]
    fn paced_app_takes_its_turn_among_others() {
        let (mut queues, start) = (AppQueues::default(), Instant::now());
        queues.set_pace(paced(), Some(1), start);
        (0..3).for_each(|number| wait(&mut queues, &flow_mod(number)));
        (0..100).for_each(|number| assert!(push(&mut queues, 1, &message(1, number, 1000))));
        let mut out = Vec::new();
        assert!(queues.take_turns(&mut out, MOST, start));
        assert_eq!(out.len(), 100 * 1000 + 80);
        assert!(!queues.take_turns(&mut out, MOST, start), "only the paced app's messages wait");
        assert_eq!(queues.paced_sizes().collect::<Vec<_>>(), [(paced(), 160)]);
    }

    /// Reads the bytes of each app among those of 2,000 rounds in which all apps always have messages.
    fn sent_by(turns: &[(u8, OutputTurn)]) -> Vec<usize> {
        let (mut queue, mut out) = (AppQueues::default(), Vec::new());
        let mut sent = vec![0; turns.len()];
        for _ in 0..2_000 {
            for (app, turn) in turns {
                while size_of(&queue, (*app).into()) < 140_000 {
                    let mut lent = Vec::new();
                    queue.lend((AppSlot::new((*app).into()), *turn), &mut lent);
                    lent.extend(message(*app, 0, 1_000 + 500 * u16::from(*app)));
                    queue.give_back(
                        AppSlot::new((*app).into()),
                        &mut lent,
                        1_000 + 500 * usize::from(*app),
                    );
                }
            }
            out.clear();
            queue.take_turns(&mut out, 64 * 1024, Instant::now());
            for (app, _, size) in read(&out) {
                let place = turns.iter().position(|(of, _)| *of == app).unwrap();
                sent[place] += size;
            }
        }
        sent
    }

    #[test]
    fn sessions_share_output_by_reserved_bytes() {
        let share = |name: &str, sent_percent, extra| SessionShare {
            session: SessionId::of(name),
            packet_ins_percent: 0,
            sent_percent,
            extra,
        };
        let sessions =
            vec![share("a", 25, 0), share("b", 45, 0), share("c", 0, 0), share("d", 5, 300)];
        let shares = OutputShares::new(&SessionShares { best_effort_percent: 5, sessions });
        let turn = |name| shares.turn_of(SessionId::of(name));
        assert_eq!(turn("c"), shares.turn_of(SessionId::BEST_EFFORT), "it reserves no bytes");
        let turns = [
            (1, turn("a")),
            (2, turn("b")),
            (3, turn("b")),
            (4, turn("c")),
            (5, turn("other")),
            (6, turn("d")),
        ];
        let sent = sent_by(&turns);
        let all: usize = sent.iter().sum();
        // 20 % are left: a quarter for best effort, the rest for d.
        for (sent, thousandths) in sent.iter().zip([250, 225, 225, 50, 50, 200]) {
            let expected = all * thousandths / 1_000;
            assert!(sent.abs_diff(expected) * 50 <= expected, "{sent} for {expected}");
        }
    }

    #[test]
    fn without_reserved_bytes_apps_have_equal_turns() {
        let shares = OutputShares::new(&SessionShares::default());
        assert_eq!(shares.turn_of(SessionId::of("a")), OutputTurn::default());
        let sent = sent_by(&[(1, OutputTurn::default()), (2, OutputTurn::default())]);
        assert!(sent[0].abs_diff(sent[1]) * 50 <= sent[0], "{sent:?}");
    }
}
