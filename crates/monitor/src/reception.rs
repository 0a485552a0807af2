//! Where operators come in: the admin socket's connections.
//!
//! Nothing here waits. A connection that says nothing for [`PATIENCE`], or does not read what it
//! asked for, is dropped; while [`MOST`] are open the others wait in the socket's backlog, and
//! never for longer than that. Who may not ask is told so when he asks, not before: a socket that
//! is closed with something unread in it loses what was sent.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use sys::channel::{Channel, ChannelError};
use sys::named::{Listener, Peer};
use tracing::{debug, warn};

use crate::admin::{Ask, Tell};

/// Connections at the same time.
pub(crate) const MOST: usize = 16;

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
        Self { listener, admitted, operators: BTreeMap::new(), next: 0, closed_until: None }
    }

    /// The listener, while another connection can be taken.
    pub(crate) fn door(&self) -> Option<BorrowedFd<'_>> {
        (self.operators.len() < MOST && self.closed_until.is_none()).then(|| self.listener.as_fd())
    }

    /// The connections, to wait for what they say.
    pub(crate) fn operators(&self) -> impl Iterator<Item = (OperatorId, BorrowedFd<'_>)> {
        self.operators.iter().map(|(id, operator)| (*id, operator.channel.as_fd()))
    }

    /// Takes the connection that waits.
    pub(crate) fn admit(&mut self, now: Instant) {
        match self.listener.accept() {
            Ok(Some((channel, peer))) => {
                debug!(pid = peer.pid, uid = peer.uid, "operator connected");
                let operator = Operator { channel, peer, drop_at: now + PATIENCE };
                self.operators.insert(OperatorId(self.next), operator);
                self.next += 1;
            }
            Ok(None) => {}
            Err(error) => {
                // It stays readable: without a pause the loop would spin.
                warn!(%error, "could not accept an operator's connection");
                self.closed_until = Some(now + PAUSE);
            }
        }
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
        let listener = Listener::bind(&path, 32).unwrap();
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
    fn silent_operators_do_not_keep_others_out_for_long() {
        let mut door = door(ours());
        let silent: Vec<Channel> = (0..MOST).map(|_| door.connect()).collect();
        assert!(door.reception.door().is_none());
        assert_eq!(door.reception.next_due(), Some(door.now + PATIENCE));
        door.reception.drop_silent(door.now + PATIENCE);
        assert!(door.reception.door().is_some());
        assert!(matches!(silent[0].receive::<Tell>(), Err(ChannelError::Closed)));
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
