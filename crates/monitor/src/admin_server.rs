//! Serves the admin socket: accepts operators' connections, receives their requests, sends replies.
//!
//! Nothing here waits, and a silent connection never delays another. Each user has at most [`PER_USER`] connections, and
//! all users together have at most [`MOST`]. A new connection beyond that replaces the one that has been silent longest.
//! The replaced connection belongs to the same user if that user has the most allowed, otherwise to the user with the most
//! connections, and to root only if no other user has any. A connection is dropped if it sends nothing for [`TIMEOUT`], or
//! does not read its replies.
//!
//! After [`PER_PERIOD`] connections in one [`PERIOD`] the server accepts none until the period ends, so a user who connects
//! in a loop costs little. Connections that wait meanwhile are accepted in the order in which they were made.
//!
//! A user without permission is refused at the first request and not before: a socket that is closed with unread data
//! loses the reply.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use sys::channel::{Channel, ChannelError};
use sys::named::{Listener, Peer};
use sys::rate::Rate;
use tracing::{debug, warn};

use control::operator::{OperatorReply, OperatorRequest};

/// The most connections of all users together.
pub(crate) const MOST: usize = 32;

/// The most connections of one user.
pub(crate) const PER_USER: usize = 16;

/// The most connections that are accepted in one turn of the loop. It is less than [`PER_USER`], so that their requests
/// are read in the next turn before other connections replace them.
const PER_TURN: usize = PER_USER / 4;

/// The most connections that are accepted in one [`PERIOD`].
const PER_PERIOD: u32 = 64;

/// The longest time for which a flood of connections closes the listener.
const PERIOD: Duration = Duration::from_millis(100);

/// How long a connection may be silent.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// How long no connection is accepted after the system refused to accept one.
const PAUSE: Duration = Duration::from_secs(1);

/// Identifies a connection. No number is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OperatorId(u64);

/// The users that may send requests, besides root.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AllowedUsers {
    /// This user.
    pub uid: u32,
    /// Members of this group.
    pub group: Option<u32>,
}

impl AllowedUsers {
    fn includes(self, peer: &Peer) -> bool {
        [0, self.uid].contains(&peer.uid)
            || self.group.is_some_and(|group| peer.gid == group || peer.groups.contains(&group))
    }
}

/// The admin socket and its connections.
#[derive(Debug)]
pub(crate) struct AdminServer {
    listener: Listener,
    allowed: AllowedUsers,
    operators: BTreeMap<OperatorId, Operator>,
    next: u64,
    closed_until: Option<Instant>,
    rate: ConnectionRate,
}

/// Counts new connections, to detect a flood of them.
#[derive(Debug)]
struct ConnectionRate {
    period_ends: Instant,
    in_period: u32,
    /// The number since the last log line.
    unreported: u64,
    log_lines: Rate,
}

impl ConnectionRate {
    fn new(now: Instant) -> Self {
        let log_lines = Rate::seldom(now);
        Self { period_ends: now + PERIOD, in_period: 0, unreported: 0, log_lines }
    }

    /// Counts a connection. If it is the last of this period, returns when the period ends.
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
                "delayed connections to the admin socket, as there were too many; end that process"
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

impl AdminServer {
    /// Serves the connections of `listener`.
    pub(crate) fn new(listener: Listener, allowed: AllowedUsers) -> Self {
        Self {
            listener,
            allowed,
            operators: BTreeMap::new(),
            next: 0,
            closed_until: None,
            rate: ConnectionRate::new(Instant::now()),
        }
    }

    /// The listener, unless the system has just refused a connection, or too many were made.
    pub(crate) fn listener(&self) -> Option<BorrowedFd<'_>> {
        self.closed_until.is_none().then(|| self.listener.as_fd())
    }

    /// The connections, to poll for requests.
    pub(crate) fn operators(&self) -> impl Iterator<Item = (OperatorId, BorrowedFd<'_>)> {
        self.operators.iter().map(|(id, operator)| (*id, operator.channel.as_fd()))
    }

    /// Accepts waiting connections, a few at a time.
    pub(crate) fn accept(&mut self, now: Instant) {
        for _ in 0..PER_TURN {
            match self.listener.accept() {
                Ok(Some((channel, peer))) => {
                    self.closed_until = self.rate.count(&peer, now);
                    self.add(channel, peer, now);
                    if self.closed_until.is_some() {
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    // The listener stays readable: without a pause the loop would spin.
                    warn!(%error, "could not accept an operator's connection");
                    self.closed_until = Some(now + PAUSE);
                    return;
                }
            }
        }
    }

    /// Adds a connection, and drops another one if there are too many.
    fn add(&mut self, channel: Channel, peer: Peer, now: Instant) {
        debug!(pid = peer.pid, uid = peer.uid, "operator connected");
        if let Some(silent) = self.to_replace(peer.uid)
            && let Some(Operator { peer, .. }) = self.operators.remove(&silent)
        {
            debug!(pid = peer.pid, uid = peer.uid, "dropped a silent operator for a new one");
        }
        let operator = Operator { channel, peer, drop_at: now + TIMEOUT };
        self.operators.insert(OperatorId(self.next), operator);
        self.next += 1;
    }

    /// The connection that a new one of user `uid` replaces; `None` if there is room.
    fn to_replace(&self, uid: u32) -> Option<OperatorId> {
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

    /// Receives the request of operator `id`, if there is one and the user may send it.
    pub(crate) fn receive(&mut self, id: OperatorId, now: Instant) -> Option<OperatorRequest> {
        let operator = self.operators.get_mut(&id)?;
        operator.drop_at = now + TIMEOUT;
        let is_allowed = self.allowed.includes(&operator.peer);
        let (pid, uid) = (operator.peer.pid, operator.peer.uid);
        match operator.channel.receive_alone::<OperatorRequest>() {
            Ok(request) if is_allowed => return Some(request),
            Ok(_) => {
                warn!(pid, uid, "refused a user who is not in the group");
                let why = "only root, the user who started Rosemary and members of the group rosemary may send requests";
                self.send(id, &OperatorReply::Refused { why: why.into() }, &[]);
                self.operators.remove(&id);
            }
            Err(ChannelError::WouldBlock) => {}
            Err(ChannelError::Malformed(why)) => {
                debug!(pid, uid, why, "received a malformed request from an operator");
                let why = "this version does not know the request".into();
                self.send(id, &OperatorReply::Refused { why }, &[]);
                self.operators.remove(&id);
            }
            Err(error) => {
                debug!(pid, uid, %error, "operator disconnected");
                self.operators.remove(&id);
            }
        }
        None
    }

    /// The user of operator `id`.
    pub(crate) fn uid(&self, id: OperatorId) -> Option<u32> {
        self.operators.get(&id).map(|operator| operator.peer.uid)
    }

    /// Sends a reply to operator `id`, who is dropped if it does not read.
    pub(crate) fn send(&mut self, id: OperatorId, reply: &OperatorReply, fds: &[BorrowedFd<'_>]) {
        let Some(operator) = self.operators.get(&id) else { return };
        if let Err(error) = operator.channel.send(reply, fds) {
            debug!(pid = operator.peer.pid, %error, "dropped an operator who did not read");
            self.operators.remove(&id);
        }
    }

    /// Drops connections that were silent for too long, and opens the listener again when its pause is over.
    pub(crate) fn drop_silent(&mut self, now: Instant) {
        self.operators.retain(|_, operator| now < operator.drop_at);
        self.closed_until = self.closed_until.filter(|until| now < *until);
    }

    /// When [`drop_silent`](Self::drop_silent) is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.operators.values().map(|it| it.drop_at).chain(self.closed_until).min()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A server with its socket's path and a simulated clock.
    struct Fixture {
        server: AdminServer,
        path: PathBuf,
        now: Instant,
        _dir: tempfile::TempDir,
    }

    fn fixture(allowed: AllowedUsers) -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        let listener = Listener::bind(&path, 64).unwrap();
        let now = Instant::now();
        Fixture { server: AdminServer::new(listener, allowed), path, now, _dir: dir }
    }

    fn ours() -> AllowedUsers {
        AllowedUsers { uid: rustix::process::geteuid().as_raw(), group: None }
    }

    impl Fixture {
        fn connect(&mut self) -> Channel {
            let channel = sys::named::connect_to(&self.path).unwrap();
            self.server.accept(self.now);
            channel
        }

        fn last(&self) -> OperatorId {
            OperatorId(self.server.next - 1)
        }

        fn receive(&mut self) -> Option<OperatorRequest> {
            self.server.receive(self.last(), self.now)
        }
    }

    #[test]
    fn request_is_received_and_answered() {
        let mut fixture = fixture(ours());
        let operator = fixture.connect();
        assert_eq!(fixture.receive(), None);
        operator.send(&OperatorRequest::Status, &[]).unwrap();
        assert_eq!(fixture.receive(), Some(OperatorRequest::Status));
        let unavailable = OperatorReply::Unavailable { why: "test".into() };
        fixture.server.send(fixture.last(), &unavailable, &[]);
        assert_eq!(operator.receive::<OperatorReply>().unwrap().0, unavailable);
    }

    #[test]
    fn only_root_own_user_and_group_are_allowed() {
        let allowed = AllowedUsers { uid: 7, group: Some(42) };
        let peer = |uid, gid, groups: &[u32]| Peer { pid: 1, uid, gid, groups: groups.to_vec() };
        assert!(allowed.includes(&peer(0, 0, &[])));
        assert!(allowed.includes(&peer(7, 1, &[])));
        assert!(allowed.includes(&peer(8, 42, &[])));
        assert!(allowed.includes(&peer(8, 1, &[5, 42])));
        assert!(!allowed.includes(&peer(8, 1, &[5, 7])));
        assert!(!AllowedUsers { group: None, ..allowed }.includes(&peer(8, 42, &[42])));
    }

    #[test]
    fn silent_connection_of_user_is_replaced() {
        let mut fixture = fixture(ours());
        let mut silent: Vec<Channel> = (0..PER_USER).map(|_| fixture.connect()).collect();
        let first = OperatorId(0);
        silent[0].send(&OperatorRequest::Status, &[]).unwrap();
        fixture.now += Duration::from_secs(1);
        assert_eq!(fixture.server.receive(first, fixture.now), Some(OperatorRequest::Status));
        silent.push(fixture.connect());
        assert_eq!(fixture.server.operators.len(), PER_USER);
        assert!(matches!(silent[1].receive::<OperatorReply>(), Err(ChannelError::Closed)));
        for held in [&silent[0], &silent[2], &silent[PER_USER]] {
            assert!(matches!(held.receive::<OperatorReply>(), Err(ChannelError::WouldBlock)));
        }
    }

    #[test]
    fn waiting_connections_are_read_before_replaced() {
        let mut fixture = fixture(ours());
        let waiting: Vec<Channel> =
            (0..MOST).map(|_| sys::named::connect_to(&fixture.path).unwrap()).collect();
        fixture.server.accept(fixture.now);
        assert_eq!(fixture.server.operators.len(), PER_TURN);
        for _ in 0..MOST {
            fixture.server.accept(fixture.now);
        }
        assert_eq!(fixture.server.operators.len(), PER_USER);
        assert!(matches!(waiting[0].receive::<OperatorReply>(), Err(ChannelError::Closed)));
        assert!(fixture.server.listener().is_some());
    }

    #[test]
    fn user_with_most_connections_is_replaced_first() {
        let mut fixture = fixture(ours());
        let mut others = Vec::new();
        let mut connect = |fixture: &mut Fixture, uid| {
            let (channel, other) = Channel::passing_pair().unwrap();
            others.push(other);
            fixture.server.add(
                channel,
                Peer { pid: 1, uid, gid: uid, groups: Vec::new() },
                fixture.now,
            );
        };
        let count = |fixture: &Fixture, uid| {
            fixture.server.operators.values().filter(|it| it.peer.uid == uid).count()
        };
        connect(&mut fixture, 0);
        (0..100).for_each(|_| connect(&mut fixture, 7));
        (0..100).for_each(|_| connect(&mut fixture, 8));
        assert_eq!([0, 7, 8].map(|uid| count(&fixture, uid)), [1, MOST - PER_USER - 1, PER_USER]);
        connect(&mut fixture, 9);
        assert_eq!(count(&fixture, 8), PER_USER - 1, "the user with the most");
        (1_000..2_000).for_each(|uid| connect(&mut fixture, uid));
        assert_eq!((count(&fixture, 0), fixture.server.operators.len()), (1, MOST));
        (0..PER_USER).for_each(|_| connect(&mut fixture, 0));
        connect(&mut fixture, 10);
        assert_eq!(
            (count(&fixture, 0), count(&fixture, 10)),
            (PER_USER, 1),
            "root, which has the most"
        );
        assert_eq!(fixture.server.operators.len(), MOST);
    }

    #[test]
    fn flood_of_connections_is_limited_per_period() {
        let mut fixture = fixture(ours());
        fixture.now = Instant::now();
        for accepted in 0..PER_PERIOD {
            assert!(fixture.server.listener().is_some(), "{accepted}");
            drop(fixture.connect());
        }
        assert!(fixture.server.listener().is_none());
        let due = fixture.server.next_due().unwrap();
        assert!(due <= fixture.now + PERIOD, "{:?}", due - fixture.now);
        fixture.server.drop_silent(fixture.now);
        assert!(fixture.server.listener().is_none());
        fixture.now = due;
        fixture.server.drop_silent(due);
        assert!(fixture.server.listener().is_some());
        drop(fixture.connect());
        assert!(fixture.server.listener().is_some(), "a new period has begun");
    }

    #[test]
    fn silent_connection_is_dropped() {
        let mut fixture = fixture(ours());
        let silent = fixture.connect();
        assert_eq!(fixture.server.next_due(), Some(fixture.now + TIMEOUT));
        fixture.server.drop_silent(fixture.now + TIMEOUT);
        assert!(matches!(silent.receive::<OperatorReply>(), Err(ChannelError::Closed)));
    }

    #[test]
    fn operator_that_does_not_read_is_dropped() {
        let mut fixture = fixture(ours());
        let _operator = fixture.connect();
        let long = OperatorReply::Refused { why: "x".repeat(60_000) };
        for _ in 0..1_000 {
            fixture.server.send(fixture.last(), &long, &[]);
        }
        assert_eq!(fixture.server.operators().count(), 0);
    }

    #[test]
    fn malformed_request_is_refused() {
        let mut fixture = fixture(ours());
        let operator = fixture.connect();
        operator.send(&"nonsense", &[]).unwrap();
        assert_eq!(fixture.receive(), None);
        assert!(matches!(
            operator.receive::<OperatorReply>(),
            Ok((OperatorReply::Refused { .. }, _))
        ));
        assert_eq!(fixture.server.operators().count(), 0);
    }
}
