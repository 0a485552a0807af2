//! The admin socket's connections.
//!
//! Nothing here waits, and a silent connection never delays another. Each user has at most
//! [`PER_USER`] connections and all users together have [`MOST`]; a connection beyond that takes the
//! place of the one that has been silent longest. It is the same user's first; else it belongs to the
//! user with the most connections, and to root only if no other user has any. A connection that says nothing
//! for [`PATIENCE`], or does not read what it asked for, is dropped.
//!
//! After [`PER_PERIOD`] connections in one [`PERIOD`] no more are accepted until it ends, so a user who connects
//! in a loop costs little. Who waits meanwhile is accepted in the order in which they came.
//!
//! A user without permission is refused when the first question arrives, and not before: closing a
//! socket that holds unread data discards the answer.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use sys::channel::{Channel, ChannelError};
use sys::named::{Listener, Peer};
use sys::rate::Rate;
use tracing::{debug, warn};

use crate::admin::{Ask, Tell};

/// Most connections of all users together.
pub(crate) const MOST: usize = 32;

/// Most connections of one user.
pub(crate) const PER_USER: usize = 16;

/// Connections that are accepted in one turn of the monitor's loop. It is less than [`PER_USER`]: in
/// the next turn, what these have asked is heard before others take their places.
const PER_TURN: usize = PER_USER / 4;

/// Connections that are accepted in one [`PERIOD`].
const PER_PERIOD: u32 = 64;

/// How long the listener is left alone at most after a flood of connections.
const PERIOD: Duration = Duration::from_millis(100);

/// How long a connection may be silent.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// How long nobody is let in after the system refused to.
const PAUSE: Duration = Duration::from_secs(1);

/// A connection, for as long as it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OperatorId(u64);

/// Who may ask besides root.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Admitted {
    /// This user.
    pub uid: u32,
    /// Members of this group.
    pub group: Option<u32>,
}

impl Admitted {
    fn includes(self, peer: &Peer) -> bool {
        [0, self.uid].contains(&peer.uid)
            || self.group.is_some_and(|group| peer.gid == group || peer.groups.contains(&group))
    }
}

/// The admin socket and its connections.
#[derive(Debug)]
pub(crate) struct Reception {
    listener: Listener,
    admitted: Admitted,
    operators: BTreeMap<OperatorId, Operator>,
    next: u64,
    closed_until: Option<Instant>,
    connects: Connects,
}

/// Counts connections, to notice a flood of them.
#[derive(Debug)]
struct Connects {
    period_ends: Instant,
    in_period: u32,
    /// Since the last log line.
    unreported: u64,
    log_lines: Rate,
}

impl Connects {
    fn new(now: Instant) -> Self {
        let log_lines = Rate::seldom(now);
        Self { period_ends: now + PERIOD, in_period: 0, unreported: 0, log_lines }
    }

    /// Counts a connection; if it is the last that may be accepted in this period, returns when that ends.
    fn count(&mut self, peer: &Peer, now: Instant) -> Option<Instant> {
        if now >= self.period_ends {
            (self.period_ends, self.in_period) = (now + PERIOD, 0);
        }
        self.in_period += 1;
        self.unreported += 1;
        if self.in_period < PER_PERIOD {
            return None;
        }
        if self.log_lines.admit(now).is_some() {
            let (pid, uid) = (peer.pid, peer.uid);
            let connections = std::mem::take(&mut self.unreported);
            warn!(
                pid,
                uid,
                connections,
                "too many connect to the admin socket: others wait; end that process"
            );
        }
        Some(self.period_ends)
    }
}

#[derive(Debug)]
struct Operator {
    channel: Channel,
    peer: Peer,
    drop_at: Instant,
}

impl Reception {
    /// Receives who connects to `listener`.
    pub(crate) fn new(listener: Listener, admitted: Admitted) -> Self {
        Self {
            listener,
            admitted,
            operators: BTreeMap::new(),
            next: 0,
            closed_until: None,
            connects: Connects::new(Instant::now()),
        }
    }

    /// The listener, unless the system has just refused a connection, or too many came.
    pub(crate) fn door(&self) -> Option<BorrowedFd<'_>> {
        self.closed_until.is_none().then(|| self.listener.as_fd())
    }

    /// The connections, to wait for what they say.
    pub(crate) fn operators(&self) -> impl Iterator<Item = (OperatorId, BorrowedFd<'_>)> {
        self.operators.iter().map(|(id, operator)| (*id, operator.channel.as_fd()))
    }

    /// Accepts connections that wait, a few at a time.
    pub(crate) fn admit(&mut self, now: Instant) {
        for _ in 0..PER_TURN {
            match self.listener.accept() {
                Ok(Some((channel, peer))) => {
                    self.closed_until = self.connects.count(&peer, now);
                    self.add(channel, peer, now);
                    if self.closed_until.is_some() {
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    // It stays readable: without a pause the loop would spin.
                    warn!(%error, "could not accept an operator's connection");
                    self.closed_until = Some(now + PAUSE);
                    return;
                }
            }
        }
    }

    /// Adds a connection. Another one gives way if there are too many.
    fn add(&mut self, channel: Channel, peer: Peer, now: Instant) {
        debug!(pid = peer.pid, uid = peer.uid, "operator connected");
        if let Some(silent) = self.who_gives_way(peer.uid)
            && let Some(Operator { peer, .. }) = self.operators.remove(&silent)
        {
            debug!(pid = peer.pid, uid = peer.uid, "a silent operator gave way to another");
        }
        let operator = Operator { channel, peer, drop_at: now + PATIENCE };
        self.operators.insert(OperatorId(self.next), operator);
        self.next += 1;
    }

    /// The connection that gives way to a new one of user `uid`; `None` if there is room.
    fn who_gives_way(&self, uid: u32) -> Option<OperatorId> {
        let count = |uid| self.operators.values().filter(|it| it.peer.uid == uid).count();
        let user = if count(uid) >= PER_USER {
            uid
        } else if self.operators.len() >= MOST {
            let users = self.operators.values().map(|it| it.peer.uid);
            users.max_by_key(|uid| (*uid != 0, count(*uid)))?
        } else {
            return None;
        };
        let of_user = self.operators.iter().filter(|(_, it)| it.peer.uid == user);
        of_user.min_by_key(|(id, it)| (it.drop_at, **id)).map(|(id, _)| *id)
    }

    /// What operator `id` asks, if he asks something and may.
    pub(crate) fn hear(&mut self, id: OperatorId, now: Instant) -> Option<Ask> {
        let operator = self.operators.get_mut(&id)?;
        operator.drop_at = now + PATIENCE;
        let may = self.admitted.includes(&operator.peer);
        let (pid, uid) = (operator.peer.pid, operator.peer.uid);
        match operator.channel.receive::<Ask>() {
            Ok((ask, _)) if may => return Some(ask),
            Ok(_) => {
                warn!(pid, uid, "refused an operator who is not in the group");
                let why = "only root, the user who started Rosemary and the group rosemary may ask";
                self.answer(id, &Tell::Refused { why: why.into() }, &[]);
                self.operators.remove(&id);
            }
            Err(ChannelError::WouldBlock) => {}
            Err(ChannelError::Malformed(why)) => {
                debug!(pid, uid, why, "operator sent something that is not a question");
                let why = "that is not a question of this version".into();
                self.answer(id, &Tell::Refused { why }, &[]);
                self.operators.remove(&id);
            }
            Err(error) => {
                debug!(pid, uid, %error, "operator left");
                self.operators.remove(&id);
            }
        }
        None
    }

    /// Whose process operator `id` is, by the user's number.
    pub(crate) fn uid(&self, id: OperatorId) -> Option<u32> {
        self.operators.get(&id).map(|operator| operator.peer.uid)
    }

    /// Answers operator `id`, who is dropped if he does not read.
    pub(crate) fn answer(&mut self, id: OperatorId, tell: &Tell, fds: &[BorrowedFd<'_>]) {
        let Some(operator) = self.operators.get(&id) else { return };
        if let Err(error) = operator.channel.send(tell, fds) {
            debug!(pid = operator.peer.pid, %error, "dropped an operator");
            self.operators.remove(&id);
        }
    }

    /// Drops who was silent for too long.
    pub(crate) fn drop_silent(&mut self, now: Instant) {
        self.operators.retain(|_, operator| now < operator.drop_at);
        self.closed_until = self.closed_until.filter(|until| now < *until);
    }

    /// When [`drop_silent`](Self::drop_silent) will next do something, if nobody speaks before.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.operators.values().map(|it| it.drop_at).chain(self.closed_until).min()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    struct Door {
        reception: Reception,
        path: PathBuf,
        now: Instant,
        _dir: tempfile::TempDir,
    }

    fn door(admitted: Admitted) -> Door {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        let listener = Listener::bind(&path, 64).unwrap();
        let now = Instant::now();
        Door { reception: Reception::new(listener, admitted), path, now, _dir: dir }
    }

    fn ours() -> Admitted {
        Admitted { uid: rustix::process::geteuid().as_raw(), group: None }
    }

    impl Door {
        fn connect(&mut self) -> Channel {
            let channel = sys::named::connect_to(&self.path).unwrap();
            self.reception.admit(self.now);
            channel
        }

        fn last(&self) -> OperatorId {
            OperatorId(self.reception.next - 1)
        }

        fn hear(&mut self) -> Option<Ask> {
            self.reception.hear(self.last(), self.now)
        }
    }

    #[test]
    fn operator_is_heard_and_answered() {
        let mut door = door(ours());
        let operator = door.connect();
        assert_eq!(door.hear(), None);
        operator.send(&Ask::Status, &[]).unwrap();
        assert_eq!(door.hear(), Some(Ask::Status));
        let unavailable = Tell::Unavailable { why: "test".into() };
        door.reception.answer(door.last(), &unavailable, &[]);
        assert_eq!(operator.receive::<Tell>().unwrap().0, unavailable);
    }

    #[test]
    fn only_root_the_own_user_and_the_group_may_ask() {
        let admitted = Admitted { uid: 7, group: Some(42) };
        let peer = |uid, gid, groups: &[u32]| Peer { pid: 1, uid, gid, groups: groups.to_vec() };
        assert!(admitted.includes(&peer(0, 0, &[])));
        assert!(admitted.includes(&peer(7, 1, &[])));
        assert!(admitted.includes(&peer(8, 42, &[])));
        assert!(admitted.includes(&peer(8, 1, &[5, 42])));
        assert!(!admitted.includes(&peer(8, 1, &[5, 7])));
        assert!(!Admitted { group: None, ..admitted }.includes(&peer(8, 42, &[42])));
    }

    #[test]
    fn silent_connections_of_one_user_give_way_to_its_next() {
        let mut door = door(ours());
        let mut silent: Vec<Channel> = (0..PER_USER).map(|_| door.connect()).collect();
        let first = OperatorId(0);
        silent[0].send(&Ask::Status, &[]).unwrap();
        door.now += Duration::from_secs(1);
        assert_eq!(door.reception.hear(first, door.now), Some(Ask::Status));
        silent.push(door.connect());
        assert_eq!(door.reception.operators.len(), PER_USER);
        assert!(matches!(silent[1].receive::<Tell>(), Err(ChannelError::Closed)));
        for held in [&silent[0], &silent[2], &silent[PER_USER]] {
            assert!(matches!(held.receive::<Tell>(), Err(ChannelError::WouldBlock)));
        }
    }

    #[test]
    fn waiting_connections_are_heard_before_all_are_replaced() {
        let mut door = door(ours());
        let waiting: Vec<Channel> =
            (0..MOST).map(|_| sys::named::connect_to(&door.path).unwrap()).collect();
        door.reception.admit(door.now);
        assert_eq!(door.reception.operators.len(), PER_TURN);
        for _ in 0..MOST {
            door.reception.admit(door.now);
        }
        assert_eq!(door.reception.operators.len(), PER_USER);
        assert!(matches!(waiting[0].receive::<Tell>(), Err(ChannelError::Closed)));
        assert!(door.reception.door().is_some());
    }

    #[test]
    fn user_with_most_silent_connections_gives_way_and_root_last() {
        let mut door = door(ours());
        let mut others = Vec::new();
        let mut connect = |door: &mut Door, uid| {
            let (channel, other) = Channel::pair().unwrap();
            others.push(other);
            door.reception.add(
                channel,
                Peer { pid: 1, uid, gid: uid, groups: Vec::new() },
                door.now,
            );
        };
        let count = |door: &Door, uid| {
            door.reception.operators.values().filter(|it| it.peer.uid == uid).count()
        };
        connect(&mut door, 0);
        (0..100).for_each(|_| connect(&mut door, 7));
        (0..100).for_each(|_| connect(&mut door, 8));
        assert_eq!([0, 7, 8].map(|uid| count(&door, uid)), [1, MOST - PER_USER - 1, PER_USER]);
        connect(&mut door, 9);
        assert_eq!(count(&door, 8), PER_USER - 1, "the user with the most");
        (1_000..2_000).for_each(|uid| connect(&mut door, uid));
        assert_eq!((count(&door, 0), door.reception.operators.len()), (1, MOST));
        (0..PER_USER).for_each(|_| connect(&mut door, 0));
        connect(&mut door, 10);
        assert_eq!((count(&door, 0), count(&door, 10)), (PER_USER, 1), "root, which has the most");
        assert_eq!(door.reception.operators.len(), MOST);
    }

    #[test]
    fn flood_of_connections_is_accepted_a_few_in_each_period() {
        let mut door = door(ours());
        door.now = Instant::now();
        for accepted in 0..PER_PERIOD {
            assert!(door.reception.door().is_some(), "{accepted}");
            drop(door.connect());
        }
        assert!(door.reception.door().is_none());
        let due = door.reception.next_due().unwrap();
        assert!(due <= door.now + PERIOD, "{:?}", due - door.now);
        door.reception.drop_silent(door.now);
        assert!(door.reception.door().is_none());
        door.now = due;
        door.reception.drop_silent(due);
        assert!(door.reception.door().is_some());
        drop(door.connect());
        assert!(door.reception.door().is_some(), "a new period has begun");
    }

    #[test]
    fn connection_that_stays_silent_is_dropped() {
        let mut door = door(ours());
        let silent = door.connect();
        assert_eq!(door.reception.next_due(), Some(door.now + PATIENCE));
        door.reception.drop_silent(door.now + PATIENCE);
        assert!(matches!(silent.receive::<Tell>(), Err(ChannelError::Closed)));
    }

    #[test]
    fn operator_who_does_not_read_is_dropped() {
        let mut door = door(ours());
        let _operator = door.connect();
        let long = Tell::Refused { why: "x".repeat(60_000) };
        for _ in 0..1_000 {
            door.reception.answer(door.last(), &long, &[]);
        }
        assert_eq!(door.reception.operators().count(), 0);
    }

    #[test]
    fn nonsense_is_refused_and_the_operator_dropped() {
        let mut door = door(ours());
        let operator = door.connect();
        operator.send(&"nonsense", &[]).unwrap();
        assert_eq!(door.hear(), None);
        assert!(matches!(operator.receive::<Tell>(), Ok((Tell::Refused { .. }, _))));
        assert_eq!(door.reception.operators().count(), 0);
    }
}
