//! Connects switches and keeps them connected, for the loads that measure connections instead of
//! packet-ins. One thread drives all of them.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use openflow::Dpid;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use slab::Slab;

use super::failure::{Failure, FailureKind};
use super::{Plan, Progress};
use crate::connection::{BUFFER, Connection, ReadResult, cut};
use crate::switch::{Identity, Switch};

/// Maximum number of events per epoll call.
const EVENTS: usize = 256;

/// Number of handshakes in progress at a time; listen queues are short.
pub(super) const MAX_HANDSHAKES: usize = 64;

/// The connection of one switch.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) connection: Connection,
    pub(super) switch: Switch,
    pub(super) began: Instant,
    hello_sent: bool,
    watched: EventFlags,
}

/// Connects switches; see the module's documentation.
#[derive(Debug)]
pub(super) struct Connector<'p> {
    plan: &'p Plan,
    epoll: OwnedFd,
    pub(super) sessions: Slab<Session>,
    next_dpid: u64,
    buffer: Box<[u8]>,
}

fn unwatched(why: rustix::io::Errno) -> Failure {
    Failure::new(FailureKind::System { what: "cannot watch sockets", why: why.into() })
}

impl<'p> Connector<'p> {
    /// Creates a connector without connections. The first switch gets this datapath id, the others
    /// the following ones.
    pub(super) fn new(plan: &'p Plan, first_dpid: u64) -> Result<Self, Failure> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(unwatched)?;
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Ok(Self { plan, epoll, sessions: Slab::new(), next_dpid: first_dpid, buffer })
    }

    /// Connects `switches` switches; returns how long it took until all were settled.
    pub(super) fn connect_all(
        &mut self,
        switches: usize,
        progress: &mut impl FnMut(Progress),
    ) -> Result<Duration, Failure> {
        let began = Instant::now();
        let mut settled = 0;
        while settled < switches {
            progress(Progress::Connecting(settled));
            while self.sessions.len() < switches && self.sessions.len() - settled < MAX_HANDSHAKES {
                self.connect()?;
            }
            settled += self.poll(TICK, |_, _| {})?.len();
            if began.elapsed() > self.plan.patience {
                let after = self.plan.patience;
                return Err(Failure::new(FailureKind::NotSettled { settled, of: switches, after }));
            }
        }
        Ok(began.elapsed())
    }

    /// Starts to connect one switch; returns its key.
    pub(super) fn connect(&mut self) -> Result<usize, Failure> {
        let plan = self.plan;
        let to = plan.controller;
        let connection = Connection::open(to, plan.tls.as_ref())
            .map_err(|why| Failure::new(FailureKind::Unreachable { to, why }))?;
        let identity = Identity {
            dpid: Dpid(self.next_dpid),
            version: plan.version,
            ports: plan.ports,
            n_buffers: 0,
            max_flows: plan.max_flows,
        };
        self.next_dpid = self.next_dpid.wrapping_add(1);
        let entry = self.sessions.vacant_entry();
        let key = entry.key();
        let watched = EventFlags::OUT | EventFlags::IN;
        epoll::add(&self.epoll, connection.socket(), EventData::new_u64(key as u64), watched)
            .map_err(unwatched)?;
        let (began, switch) = (Instant::now(), Switch::new(identity));
        entry.insert(Session { connection, switch, began, hello_sent: false, watched });
        Ok(key)
    }

    /// Disconnects a switch.
    pub(super) fn disconnect(&mut self, key: usize) {
        self.sessions.remove(key).connection.reset();
    }

    /// Waits for at most `wait` and serves the ready connections; returns the switches that
    /// settled. `on_message` receives each message with the key of its switch.
    pub(super) fn poll(
        &mut self,
        wait: Duration,
        mut on_message: impl FnMut(usize, &[u8]),
    ) -> Result<Vec<usize>, Failure> {
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS];
        let timeout: Timespec = wait.min(TICK).try_into().expect("a tick is short");
        let ready = match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
            Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Err(why) => return Err(unwatched(why)),
            Ok((ready, _)) => ready,
        };
        let mut settled = Vec::new();
        for event in ready {
            let key = usize::try_from(event.data.u64()).expect("it is an index of ours");
            let Some(session) = self.sessions.get_mut(key) else { continue };
            let before = session.switch.is_settled();
            let served =
                session.serve(&mut self.buffer, self.plan, |message| on_message(key, message));
            served.map_err(|kind| session.fail(kind))?;
            if session.switch.is_settled() && !before {
                settled.push(key);
            }
            self.watch(key)?;
        }
        Ok(settled)
    }

    /// Sends bytes to the controller on behalf of a switch.
    pub(super) fn send(&mut self, key: usize, bytes: &[u8]) -> Result<(), Failure> {
        let session = &mut self.sessions[key];
        let sent = session.connection.write(bytes);
        sent.map_err(|why| session.fail(FailureKind::Broken { when: " under load", why }))?;
        self.watch(key)
    }

    fn watch(&mut self, key: usize) -> Result<(), Failure> {
        let session = &mut self.sessions[key];
        let mut wanted = EventFlags::IN;
        wanted.set(EventFlags::OUT, !session.connection.is_output_empty());
        if wanted != session.watched {
            let data = EventData::new_u64(key as u64);
            epoll::modify(&self.epoll, session.connection.socket(), data, wanted)
                .map_err(unwatched)?;
            session.watched = wanted;
        }
        Ok(())
    }

    /// Fails if a handshake exceeds its time limit.
    pub(super) fn check_deadlines(&self) -> Result<(), Failure> {
        let (of, after) = (self.sessions.len(), self.plan.patience);
        let late =
            |session: &Session| !session.switch.is_settled() && session.began.elapsed() > after;
        let late = self.sessions.iter().filter(|(_, session)| late(session)).count();
        if late == 0 {
            return Ok(());
        }
        Err(Failure::new(FailureKind::NotSettled { settled: of - late, of, after }))
    }
}

/// Longest wait, so that deadlines are checked while nothing happens.
pub(super) const TICK: Duration = Duration::from_millis(20);

impl Session {
    fn fail(&self, kind: FailureKind) -> Failure {
        match kind {
            FailureKind::Unreachable { .. } => Failure::new(kind),
            kind => Failure::of(self.switch.identity().dpid, kind),
        }
    }

    fn serve(
        &mut self,
        buffer: &mut [u8],
        plan: &Plan,
        mut on_message: impl FnMut(&[u8]),
    ) -> Result<(), FailureKind> {
        let settled = self.switch.is_settled();
        let when = if settled { "" } else { " during the handshake" };
        let io_failure = |why| FailureKind::Broken { when, why };
        if !self.hello_sent {
            let to = plan.controller;
            self.connection.connected().map_err(|why| FailureKind::Unreachable { to, why })?;
            self.hello_sent = true;
            self.switch.send_hello(self.connection.out());
        }
        // Read before writing: the last message before a connection breaks may name the reason.
        match self.connection.read(buffer).map_err(io_failure)? {
            ReadResult::Bytes(size) => {
                let Self { connection, switch, .. } = self;
                let rest = cut(&buffer[..size], |message| -> Result<(), FailureKind> {
                    on_message(message);
                    let heard = switch.receive(message, connection.out()).map(|_| ());
                    heard.map_err(FailureKind::from)
                });
                if rest.is_err() {
                    // Send the error reply if the controller still reads; the fault below is the
                    // result either way.
                    let _ = connection.flush();
                }
                connection.keep(rest?);
                if connection.is_output_full() {
                    return Err(FailureKind::NotReading(connection.out().len()));
                }
            }
            ReadResult::WouldBlock => {}
            ReadResult::Closed if settled => {
                return Err(FailureKind::Closed { last_message: String::new() });
            }
            ReadResult::Closed => {
                return Err(FailureKind::ClosedEarly { last_message: String::new() });
            }
        }
        self.connection.flush().map_err(io_failure)
    }
}
