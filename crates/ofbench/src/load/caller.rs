//! Switches that call a controller and keep the line: what the loads have in common that are about
//! connections, not about packets. One thread drives them.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use openflow::Dpid;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use slab::Slab;

use super::failure::{Failure, Trouble};
use super::{Plan, Progress};
use crate::connection::{BUFFER, Connection, Input, cut};
use crate::switch::{Identity, Switch};

/// Events taken from epoll at once.
const EVENTS: usize = 256;

/// Switches that connect at once: listeners have short queues.
pub(super) const CALLING: usize = 64;

/// A switch that calls.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) connection: Connection,
    pub(super) switch: Switch,
    pub(super) began: Instant,
    greeted: bool,
    watched: EventFlags,
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Caller<'p> {
    plan: &'p Plan,
    epoll: OwnedFd,
    pub(super) calls: Slab<Call>,
    next_dpid: u64,
    buffer: Box<[u8]>,
}

fn unwatched(why: rustix::io::Errno) -> Failure {
    Failure::new(Trouble::System { what: "cannot watch sockets", why: why.into() })
}

impl<'p> Caller<'p> {
    /// Nobody has called yet; the first will have the datapath-id that is given, the others' follow.
    pub(super) fn new(plan: &'p Plan, first_dpid: u64) -> Result<Self, Failure> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(unwatched)?;
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Ok(Self { plan, epoll, calls: Slab::new(), next_dpid: first_dpid, buffer })
    }

    /// Connects so many switches; returns how long it took until all were settled.
    pub(super) fn all(
        &mut self,
        switches: usize,
        progress: &mut impl FnMut(Progress),
    ) -> Result<Duration, Failure> {
        let began = Instant::now();
        let mut settled = 0;
        while settled < switches {
            progress(Progress::Connecting(settled));
            while self.calls.len() < switches && self.calls.len() - settled < CALLING {
                self.call()?;
            }
            settled += self.turn(TICK, |_, _| {})?.len();
            if began.elapsed() > self.plan.patience {
                let after = self.plan.patience;
                return Err(Failure::new(Trouble::NotSettled { settled, of: switches, after }));
            }
        }
        Ok(began.elapsed())
    }

    /// A switch begins to connect; returns which.
    pub(super) fn call(&mut self) -> Result<usize, Failure> {
        let plan = self.plan;
        let to = plan.controller;
        let connection = Connection::open(to, plan.tls.as_ref())
            .map_err(|why| Failure::new(Trouble::NotThere { to, why }))?;
        let identity = Identity {
            dpid: Dpid(self.next_dpid),
            version: plan.version,
            ports: plan.ports,
            n_buffers: 0,
            max_flows: plan.max_flows,
        };
        self.next_dpid = self.next_dpid.wrapping_add(1);
        let entry = self.calls.vacant_entry();
        let key = entry.key();
        let watched = EventFlags::OUT | EventFlags::IN;
        epoll::add(&self.epoll, connection.socket(), EventData::new_u64(key as u64), watched)
            .map_err(unwatched)?;
        let (began, switch) = (Instant::now(), Switch::new(identity));
        entry.insert(Call { connection, switch, began, greeted: false, watched });
        Ok(key)
    }

    /// Hangs up.
    pub(super) fn hang_up(&mut self, key: usize) {
        self.calls.remove(key).connection.abandon();
    }

    /// Waits, at most so long, and serves what is ready; returns the switches that settled. `hear`
    /// gets each message, and which switch it is for.
    pub(super) fn turn(
        &mut self,
        wait: Duration,
        mut hear: impl FnMut(usize, &[u8]),
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
            let Some(call) = self.calls.get_mut(key) else { continue };
            let before = call.switch.is_settled();
            let served = call.serve(&mut self.buffer, self.plan, |message| hear(key, message));
            served.map_err(|trouble| call.fail(trouble))?;
            if call.switch.is_settled() && !before {
                settled.push(key);
            }
            self.watch(key)?;
        }
        Ok(settled)
    }

    /// Says something to the controller for a switch.
    pub(super) fn say(&mut self, key: usize, bytes: &[u8]) -> Result<(), Failure> {
        let call = &mut self.calls[key];
        let said = call.connection.write(bytes);
        said.map_err(|why| call.fail(Trouble::Broken { when: " under load", why }))?;
        self.watch(key)
    }

    fn watch(&mut self, key: usize) -> Result<(), Failure> {
        let call = &mut self.calls[key];
        let mut wanted = EventFlags::IN;
        wanted.set(EventFlags::OUT, !call.connection.is_drained());
        if wanted != call.watched {
            let data = EventData::new_u64(key as u64);
            epoll::modify(&self.epoll, call.connection.socket(), data, wanted)
                .map_err(unwatched)?;
            call.watched = wanted;
        }
        Ok(())
    }

    /// Fails if a handshake takes too long.
    pub(super) fn check_patience(&self) -> Result<(), Failure> {
        let (of, after) = (self.calls.len(), self.plan.patience);
        let late = |call: &Call| !call.switch.is_settled() && call.began.elapsed() > after;
        let late = self.calls.iter().filter(|(_, call)| late(call)).count();
        if late == 0 {
            return Ok(());
        }
        Err(Failure::new(Trouble::NotSettled { settled: of - late, of, after }))
    }
}

/// How often it looks at the clock where nothing happens.
pub(super) const TICK: Duration = Duration::from_millis(20);

impl Call {
    fn fail(&self, trouble: Trouble) -> Failure {
        match trouble {
            Trouble::NotThere { .. } => Failure::new(trouble),
            trouble => Failure::of(self.switch.identity().dpid, trouble),
        }
    }

    fn serve(
        &mut self,
        buffer: &mut [u8],
        plan: &Plan,
        mut hear: impl FnMut(&[u8]),
    ) -> Result<(), Trouble> {
        let settled = self.switch.is_settled();
        let when = if settled { "" } else { " during the handshake" };
        let broken = |why| Trouble::Broken { when, why };
        if !self.greeted {
            let to = plan.controller;
            self.connection.connected().map_err(|why| Trouble::NotThere { to, why })?;
            self.greeted = true;
            self.switch.greet(self.connection.out());
        }
        // Read first: what is said before the connection breaks may say why.
        match self.connection.read(buffer).map_err(broken)? {
            Input::Bytes(size) => {
                let Self { connection, switch, .. } = self;
                let rest = cut(&buffer[..size], |message| -> Result<(), Trouble> {
                    hear(message);
                    let heard = switch.receive(message, connection.out()).map(|_| ());
                    heard.map_err(Trouble::from)
                });
                if rest.is_err() {
                    // What we have to say about it is said as well as may be.
                    let _ = connection.flush();
                }
                connection.keep(rest?);
                if connection.is_stuck() {
                    return Err(Trouble::DoesNotRead(connection.out().len()));
                }
            }
            Input::Nothing => {}
            Input::End if settled => return Err(Trouble::Closed { said: String::new() }),
            Input::End => return Err(Trouble::ClosedEarly { said: String::new() }),
        }
        self.connection.flush().map_err(broken)
    }
}
