//! How fast a controller takes in switches: connections, TLS, handshakes.
//!
//! First all switches connect, a few dozens at a time, and stay until the last is settled. Then each
//! hangs up and calls again, under a new datapath-id, as often as it can. One thread does it.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use openflow::Dpid;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use slab::Slab;

use super::failure::{Failure, Trouble};
use super::result::{note, rate, times};
use super::{Plan, Progress};
use crate::connection::{BUFFER, Connection, Input, cut};
use crate::switch::{Identity, Switch};

/// Events taken from epoll at once.
const EVENTS: usize = 256;

/// Switches that connect at once: listeners have short queues.
const CALLING: usize = 64;

/// How often it looks at the clock where nothing happens.
const TICK: Duration = Duration::from_millis(20);

/// What came of it.
#[derive(Debug, Clone)]
pub struct Connected {
    /// From the first connection until all switches were settled.
    pub all_settled: Duration,
    /// Handshakes completed a second afterwards, in each interval.
    pub per_second: Vec<f64>,
    /// Handshakes completed in all intervals.
    pub handshakes: u64,
    /// From the begin of a connection to the switch that is settled, in nanoseconds.
    pub times: Histogram<u64>,
}

/// A switch that calls.
#[derive(Debug)]
struct Call {
    connection: Connection,
    switch: Switch,
    began: Instant,
    greeted: bool,
    watched: EventFlags,
}

struct Caller<'p> {
    plan: &'p Plan,
    epoll: OwnedFd,
    calls: Slab<Call>,
    next_dpid: u64,
    buffer: Box<[u8]>,
}

/// Connects switches, all and then again and again.
///
/// # Errors
/// [`Failure`]: the controller is not there, or a handshake went wrong.
pub fn run(plan: &Plan, mut progress: impl FnMut(Progress)) -> Result<Connected, Failure> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(unwatched)?;
    let mut caller = Caller {
        plan,
        epoll,
        calls: Slab::new(),
        next_dpid: plan.first_dpid,
        buffer: vec![0; BUFFER].into_boxed_slice(),
    };
    let all_settled = caller.all(&mut progress)?;
    for call in std::mem::take(&mut caller.calls) {
        call.1.connection.abandon();
    }
    let (mut per_second, mut handshakes, mut spent) = (Vec::new(), 0, times());
    for interval in 0..plan.intervals {
        let began = Instant::now();
        let mut completed = 0;
        while began.elapsed() < plan.interval {
            progress(Progress::Measuring(interval, handshakes + completed));
            while caller.calls.len() < plan.switches.min(CALLING) {
                caller.call()?;
            }
            for key in caller.turn()? {
                let call = caller.calls.remove(key);
                note(&mut spent, call.began.elapsed());
                completed += 1;
                call.connection.abandon();
            }
            caller.check_patience()?;
        }
        per_second.push(rate(completed, began.elapsed().as_secs_f64()));
        handshakes += completed;
    }
    progress(Progress::Measured);
    Ok(Connected { all_settled, per_second, handshakes, times: spent })
}

fn unwatched(why: rustix::io::Errno) -> Failure {
    Failure::new(Trouble::System { what: "cannot watch sockets", why: why.into() })
}

impl Caller<'_> {
    /// Connects all switches; returns how long it took.
    fn all(&mut self, progress: &mut impl FnMut(Progress)) -> Result<Duration, Failure> {
        let (began, of) = (Instant::now(), self.plan.switches);
        let mut settled = 0;
        while settled < of {
            progress(Progress::Connecting(settled));
            while self.calls.len() < of && self.calls.len() - settled < CALLING {
                self.call()?;
            }
            settled += self.turn()?.len();
            if began.elapsed() > self.plan.patience {
                let after = self.plan.patience;
                return Err(Failure::new(Trouble::NotSettled { settled, of, after }));
            }
        }
        Ok(began.elapsed())
    }

    /// A switch begins to connect.
    fn call(&mut self) -> Result<(), Failure> {
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
        let data = EventData::new_u64(entry.key() as u64);
        let watched = EventFlags::OUT | EventFlags::IN;
        epoll::add(&self.epoll, connection.socket(), data, watched).map_err(unwatched)?;
        let (began, switch) = (Instant::now(), Switch::new(identity));
        entry.insert(Call { connection, switch, began, greeted: false, watched });
        Ok(())
    }

    /// Serves what is ready; returns the switches that settled.
    fn turn(&mut self) -> Result<Vec<usize>, Failure> {
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS];
        let timeout: Timespec = TICK.try_into().expect("a tick is short");
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
            let served = call.serve(&mut self.buffer, self.plan);
            served.map_err(|trouble| match trouble {
                Trouble::NotThere { .. } => Failure::new(trouble),
                trouble => Failure::of(call.switch.identity().dpid, trouble),
            })?;
            let wanted = call.wanted();
            if wanted != call.watched {
                let data = EventData::new_u64(key as u64);
                epoll::modify(&self.epoll, call.connection.socket(), data, wanted)
                    .map_err(unwatched)?;
                call.watched = wanted;
            }
            if call.switch.is_settled() && !before {
                settled.push(key);
            }
        }
        Ok(settled)
    }

    /// Fails if a handshake takes too long.
    fn check_patience(&self) -> Result<(), Failure> {
        let (of, after) = (self.calls.len(), self.plan.patience);
        let late = self.calls.iter().filter(|(_, call)| call.began.elapsed() > after).count();
        if late == 0 {
            return Ok(());
        }
        Err(Failure::new(Trouble::NotSettled { settled: of - late, of, after }))
    }
}

impl Call {
    fn wanted(&self) -> EventFlags {
        let mut wanted = EventFlags::IN;
        wanted.set(EventFlags::OUT, !self.connection.is_drained());
        wanted
    }

    fn serve(&mut self, buffer: &mut [u8], plan: &Plan) -> Result<(), Trouble> {
        let broken = |why| Trouble::Broken { when: " during the handshake", why };
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
            Input::End => return Err(Trouble::ClosedEarly { said: String::new() }),
        }
        self.connection.flush().map_err(broken)
    }
}
