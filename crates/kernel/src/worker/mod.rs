//! The event loop that owns switches for their whole life.
//!
//! One turn: sleep in epoll until something is to be done; read what switches sent and write
//! records for apps (`switches`); take what apps said, check it and gather it per switch, wake
//! the apps that sleep (`apps`); write once per switch. No lock is taken, no app is waited for,
//! and nothing is allocated for a message once the buffers have grown.
//!
//! Another thread, [`server`](crate::server), tells it what the monitor wants and is told what
//! the monitor must know ([`WorkerChannels`]). There may be several workers, each with switches of its own
//! (`migration`); what they share is in [`pool`](crate::pool).

mod answers;
mod apps;
mod buffers;
mod channels;
mod flows;
mod gate;
mod hosted;
mod log_limits;
mod migration;
mod pace;
mod reading;
mod roster;
mod sending;
mod switches;
mod table_usage;
mod writing;

use std::io;
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use slab::Slab;
use sys::flight::Seat;
use tracing::{info, warn};

use crate::admission::Admission;
use crate::app_port::{AppPort, Messages, Verdict};
use crate::connection::{Connection, Input, Peer, Up};
use crate::control::{App, Tuning};
use crate::dispatch::Dispatch;
use crate::ids::ConnId;
use crate::pool::ForwardQueue;
use crate::tls::{self, TransportPolicy};

use self::log_limits::LogLimits;
use self::migration::most_connections;
use self::pace::Pace;
use self::reading::{Crowd, Ready, Served};
use self::roster::Roster;
use self::sending::Refused;
use self::writing::Spare;

pub use crate::flows::Part;
pub use channels::{
    Command, MovedConnection, ServerChannels, WorkerChannels, WorkerEvent, connect,
};
pub use hosted::Loaded;
pub(crate) use hosted::note;

/// What the shared input buffer holds beyond what is read at once, in bytes: of TLS one half of all is read
/// into, and the other holds what comes of it, behind the beginning of a message that was cut before. A turn of TLS
/// brings what fits into that half, which with the default is a fifth less than one of TCP.
const BEYOND: usize = 192 * 1024;

const _: () = assert!(
    *Tuning::READ.start() as usize + BEYOND > 2 * (u16::MAX as usize + tls::RECORD),
    "there is room to read a record behind all but the end of the longest message"
);

/// How often sessions are asked whether they have lost patience.
const TICK: Duration = Duration::from_millis(100);

/// Events taken from epoll at once.
const EVENTS: usize = 256;
/// Reads per turn that may cost a signature (a tenth of a millisecond, or one for RSA), so that
/// handshakes delay no switch that is connected.
const HANDSHAKES: u32 = 4;

/// Connections accepted per turn and listener, so that a crowd at admission delays nobody inside.
const ACCEPTS: usize = 64;

// Epoll's user data: what it is in the upper half, which one in the lower.
const COMMANDS: u64 = 0;
const LISTENER: u64 = 1 << 32;
const APP_PORT: u64 = 2 << 32;
const CONNECTION: u64 = 3 << 32;
const WHICH: u64 = 0xffff_ffff;

/// An app that there is.
#[derive(Debug, Clone)]
pub struct Known {
    /// What the monitor said of it.
    pub app: App,
    /// What runs, if it runs in this process.
    pub object: Option<Arc<Loaded>>,
}

/// The apps that there are.
#[derive(Debug)]
pub struct Apps {
    /// Each, wherever it runs.
    pub apps: Vec<Known>,
    /// The worker's place in the flight recorder, if there is one.
    pub seat: Option<Seat>,
}

/// A worker; see the module's description.
#[derive(Debug)]
pub struct Worker {
    epoll: OwnedFd,
    channels: WorkerChannels,
    listeners: Vec<TcpListener>,
    transport: TransportPolicy,
    /// Whether listeners are left alone until the next tick, after accepting failed.
    listeners_paused: bool,
    connections: Slab<Connection>,
    /// Those of them that are not switches yet.
    admission: Admission,
    /// How many more handshakes may be gone on with in this turn.
    handshakes: u32,
    roster: Roster,
    /// Of the next connection that becomes a switch.
    epoch: u32,
    dispatch: Dispatch,
    /// As many for all workers as the descriptors allow.
    most_connections: usize,
    /// A bit for each worker for whom something was posted.
    posted: u32,
    forward_queue: ForwardQueue,
    ready: Ready,
    dirty: Vec<ConnId>,
    spare: Spare,
    scratch: Vec<u8>,
    verdicts: Vec<Verdict>,
    /// Those of the app in this process that was called last.
    messages: Messages,
    /// Those of the zone that was heard last.
    heard: Messages,
    /// Those of one switch that must not go out.
    refused: Vec<Refused>,
    /// Where turns are noted, and which app in this process is being called.
    seat: Option<Seat>,
    /// What is read of one switch before it is another's turn, in bytes.
    read: usize,
    next_tick: Instant,
    pace: Pace,
    crowd: Crowd,
    log_limits: LogLimits,
}

impl Worker {
    /// A worker that accepts connections on `listeners`, for itself and for the others of its
    /// pool, and serves its switches for these apps; those with an object run in this process, and
    /// in the thread that calls this.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn new(
        listeners: Vec<TcpListener>,
        apps: Apps,
        transport: TransportPolicy,
        channels: WorkerChannels,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &channels.commands_bell, EventData::new_u64(COMMANDS), EventFlags::IN)?;
        for (number, listener) in listeners.iter().enumerate() {
            listener.set_nonblocking(true)?;
            let data = EventData::new_u64(LISTENER | number as u64);
            epoll::add(&epoll, listener, data, EventFlags::IN)?;
        }
        let now = Instant::now();
        let mut worker = Self {
            epoll,
            listeners,
            transport,
            listeners_paused: false,
            connections: Slab::new(),
            admission: Admission::new(channels.pool.workers()),
            handshakes: HANDSHAKES,
            roster: Roster::default(),
            epoch: channels.pool.first_epoch(channels.me),
            dispatch: Dispatch::default(),
            most_connections: most_connections(channels.pool.workers()),
            posted: 0,
            forward_queue: ForwardQueue::default(),
            ready: Ready::default(),
            dirty: Vec::new(),
            spare: Spare::default(),
            scratch: Vec::new(),
            verdicts: Vec::new(),
            messages: Messages::default(),
            heard: Messages::default(),
            refused: Vec::new(),
            seat: apps.seat,
            read: channels.pool.tuning().read as usize,
            next_tick: now + TICK,
            pace: Pace::new(),
            crowd: Crowd::default(),
            log_limits: LogLimits::new(now),
            channels,
        };
        for Known { app: App { app, name, policy, .. }, object } in apps.apps {
            worker.know(app, name, policy)?;
            if let Some(object) = object {
                worker.host(app, &object);
            }
        }
        worker.pump(); // what runs here is told that there is no switch yet
        Ok(worker)
    }

    /// Works until told to stop.
    ///
    /// # Errors
    /// Epoll failed, which it does not on any supported system.
    pub fn run(mut self) -> io::Result<()> {
        let mut buffer = vec![0; self.read + BEYOND].into_boxed_slice();
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS];
        loop {
            let timeout = self.prepare_to_sleep();
            let (ready, _) = match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
                Err(rustix::io::Errno::INTR) => continue,
                result => result?,
            };
            let now = Instant::now();
            self.seat.iter_mut().for_each(Seat::turn);
            for app_port in &mut self.dispatch.app_ports {
                app_port.awake();
            }
            self.handshakes = HANDSHAKES;
            let mut commands = false;
            for event in &*ready {
                let data = event.data.u64();
                let which = (data & WHICH) as usize;
                match data & !WHICH {
                    LISTENER => {} // below
                    APP_PORT => self.rang(which),
                    CONNECTION => self.told(ConnId(which), event.flags),
                    _ => commands = true,
                }
            }
            // After what was told of those that are in: a newcomer may get the place of one that left.
            for event in &*ready {
                let data = event.data.u64();
                if data & !WHICH == LISTENER {
                    self.accept((data & WHICH) as usize, now);
                }
            }
            if commands && !self.obey(now) {
                return Ok(());
            }
            let crowded = self.read_ready(&mut buffer, now) || ready.len() == EVENTS;
            self.hear_apps(now);
            self.move_on(now); // also to apps that are now called
            self.call_apps(now);
            self.move_on(now);
            self.pump();
            self.resume(now);
            self.flush(now);
            self.crowd.note(crowded, self.next_tick, now);
            if now >= self.crowd.due(self.next_tick) {
                self.tick(now);
            }
        }
    }

    /// How long epoll may wait.
    fn prepare_to_sleep(&mut self) -> Timespec {
        if self.ready.any() {
            return Timespec { tv_sec: 0, tv_nsec: 0 };
        }
        let mut work = false;
        let mut slowed = None;
        for index in 0..self.dispatch.app_ports.len() {
            let app_port = &mut self.dispatch.app_ports[index];
            if let Some(until) = app_port.throttle.until() {
                slowed = Some(slowed.map_or(until, |other: Instant| other.min(until)));
                continue; // nor does its zone ring, as it takes us to be awake
            }
            match app_port.prepare_to_sleep() {
                Ok(waiting) => work |= waiting,
                Err(fault) => self.fault(index, fault),
            }
        }
        let now = Instant::now();
        let due = [self.dispatch.next_deadline(), self.next_wake(now), self.ready.until(), slowed];
        let tick = self.crowd.due(self.next_tick);
        let due = due.into_iter().flatten().fold(tick, Instant::min);
        let rest = due.saturating_duration_since(now);
        let wait = if work { Duration::ZERO } else { rest };
        if !wait.is_zero() {
            self.pace.waits();
        }
        wait.try_into().expect("a tick is short")
    }

    /// Takes in new connections.
    fn accept(&mut self, which: usize, now: Instant) {
        for _ in 0..ACCEPTS {
            let (socket, address) = match self.listeners[which].accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    // Most likely out of descriptors: the listener would be ready for ever.
                    if let Some(suppressed) = self.log_limits.not_accepted.admit(now) {
                        warn!(%error, suppressed, "could not accept a connection; trying again shortly");
                    }
                    self.pause_listeners(true);
                    return;
                }
            };
            let (to, connections) = self.channels.pool.least_busy();
            let plain = self.transport.plain.allows(address.ip());
            let why_not = if !plain && self.transport.tls.is_none() {
                "plain TCP is not allowed from there, and for TLS there are no keys: run `rosemary pki init`"
            } else if connections >= self.most_connections {
                "there are too many connections"
            } else {
                match self.admit(to, socket, address, now) {
                    Ok(()) => continue,
                    Err(_) => "the system refused to watch it",
                }
            };
            if let Some(suppressed) = self.log_limits.accepted.admit(now) {
                warn!(%address, why = why_not, suppressed, "connection refused");
            }
        }
    }

    /// Reads a connection once, and does what it says.
    fn serve(&mut self, key: ConnId, buffer: &mut [u8], now: Instant) -> Served {
        let Some(connection) = self.connections.get_mut(key.0) else { return Served::default() };
        if connection.phase.is_laborious() {
            if self.handshakes == 0 {
                return Served { size: 0, more: true };
            }
            self.handshakes -= 1;
        }
        let Some(share) = self.may_read(key, now) else { return Served::default() };
        let connection = &mut self.connections[key.0];
        let input = connection.read(buffer, share.most);
        let progress = connection.phase.progress();
        if connection.phase.up().is_none() {
            self.admission.advance(key, progress);
        }
        if connection.has_output() && !connection.output.is_listed {
            connection.output.is_listed = true;
            self.dirty.push(key);
        }
        match input {
            Ok(Input::Bytes { size, all }) => {
                self.pace.read(size);
                connection.session.heard(now);
                let mut more = !all || connection.peer != Peer::Talks;
                if let Err(why) = self.messages(key, &mut buffer[..size], now) {
                    self.close(key, &why.to_string(), now);
                    more = false;
                } else if let Some(home) = self.leads_away(key) {
                    self.hand_over(key, home);
                    more = false;
                } else {
                    self.write_much(key, now);
                    self.hold_buffers(key, now);
                    self.note_turn(key, size, share, more);
                }
                return Served { size, more };
            }
            Ok(Input::Nothing) => self.note_turn(key, 0, share, false),
            Ok(Input::End) => self.close(key, "the switch closed the connection", now),
            Err(error) => self.close(key, &error.to_string(), now),
        }
        Served::default()
    }

    /// Ends a connection; apps hear of it if it was a switch.
    fn close(&mut self, key: ConnId, why: &str, now: Instant) {
        let connection = self.connections.remove(key.0);
        self.ready.forget(key, connection.reading);
        self.admission.leave(key);
        let address = connection.address;
        let Some(Up { mut switch, transactions, .. }) = connection.close() else {
            if let Some(suppressed) = self.log_limits.closed.admit(now) {
                warn!(%address, why, suppressed, "connection closed before it was a switch");
            }
            return;
        };
        for question in transactions.questions() {
            self.failed(question, format!("the switch was disconnected: {why}"));
        }
        let dpid = switch.dpid;
        self.roster.remove(dpid.0, now);
        self.dispatch.switch_down(&mut switch);
        if let Some(suppressed) = self.log_limits.disconnected.admit(now) {
            info!(%dpid, %address, why, suppressed, "switch disconnected");
        }
    }

    /// Lets time pass for every session.
    fn tick(&mut self, now: Instant) {
        self.next_tick = now + TICK;
        self.pace.tick(self.dispatch.app_ports.iter().any(AppPort::is_in_zone));
        if self.listeners_paused {
            self.pause_listeners(false);
        }
        let (mut over, mut stuck) = (Vec::new(), Vec::new());
        for (index, connection) in &mut self.connections {
            let key = ConnId(index);
            if let Err(why) = connection.tick(now) {
                over.push((key, why.to_string()));
            } else if connection.is_stuck(now) {
                stuck.push(key);
            }
            table_usage::ask_tables(connection, now);
            if let Some(switch) = connection.switch_mut() {
                switch.buffer_table.tick();
            }
            if connection.has_output() && !connection.output.is_listed && !connection.is_blocked() {
                connection.output.is_listed = true;
                self.dirty.push(key);
            }
        }
        over.extend(stuck.into_iter().map(|key| (key, self.does_not_read(key))));
        for (key, why) in over {
            self.close(key, &why, now);
        }
        self.give_up(now);
        self.settle_claims(now);
        self.tell_drops(now);
        self.tell_late(now);
        self.tell_skipped(now);
        self.tell_left_out(now);
        self.flush(now);
        self.channels.pool.memory().freed(self.spare.tick());
    }

    fn pause_listeners(&mut self, pause: bool) {
        self.listeners_paused = pause;
        let flags = if pause { EventFlags::empty() } else { EventFlags::IN };
        for (number, listener) in self.listeners.iter().enumerate() {
            let data = EventData::new_u64(LISTENER | number as u64);
            let _ = epoll::modify(&self.epoll, listener, data, flags);
        }
    }

    /// Carries out commands. `false` when told to stop.
    fn obey(&mut self, now: Instant) -> bool {
        self.channels.commands_bell.silence();
        self.take_mail(now);
        while let Ok(command) = self.channels.commands.try_recv() {
            match command {
                Command::Attach { attempt, app, name, policy, part } => {
                    let attached = self.attach(app, name, policy, *part, now);
                    let why = |error| format!("could not use its rings: {error}");
                    let result = attached.map_err(why);
                    self.notify(WorkerEvent::Attached { attempt, result });
                }
                Command::Adopt(moved) => self.adopt(moved, now),
                Command::Detach { app } => self.detach(app, now),
                Command::Disable { app } => self.disable(app),
                Command::Switches { after, reply } => {
                    let _ = reply.send(self.status(after)); // who asked may have gone
                }
                Command::Flows { dpid, question } => self.ask_flows(dpid, question, now),
                Command::Apps { reply } => {
                    let _ = reply.send(self.app_counters());
                }
                Command::Stop => return false,
            }
        }
        true
    }

    fn notify(&self, notice: WorkerEvent) {
        // The server lives as long as the process; without it there is nobody to tell.
        let _ = self.channels.events.send(notice);
        self.channels.events_bell.ring();
    }
}

#[cfg(test)]
mod tests;
