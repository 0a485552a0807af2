//! Runs a worker: the event loop that owns switches as long as they are connected.
//!
//! In one turn, the worker sleeps in epoll until there is work. It reads switches and writes records for apps
//! (`connections`, `inbound`). It receives the messages of apps, checks them and gathers them per switch, and wakes the
//! apps that sleep (`apps`, `sending`). Then it writes once per switch (`output`). The worker takes no lock, waits for
//! no app and allocates nothing per message once its buffers have grown.
//!
//! | part | state |
//! | --- | --- |
//! | `acceptor` | listeners and the rules for new connections |
//! | `switches` | connections, switches by datapath, unfinished handshakes |
//! | `reading` | which connections are read, in which order and how much |
//! | [`Dispatch`](crate::dispatch) | app ports, and packets that wait for apps |
//! | `output` | connections with output, spare buffers |
//! | `forwarder` | messages for switches of other workers |
//!
//! The [`server`](crate::server) thread commands the workers and receives their events ([`WorkerChannels`]). Workers
//! share only what is in [`pool`](crate::pool).

mod acceptor;
mod answers;
mod apps;
mod changes;
mod channels;
mod connections;
mod fair_reading;
mod flows;
mod forwarder;
mod hosted;
mod inbound;
mod log_limits;
mod output;
mod own_messages;
mod pace;
mod questions;
mod reading;
mod roster;
mod sending;
mod switches;

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::flight::FlightSlot;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use tracing::warn;

use crate::app_port::{AppPort, Messages, Verdict};
use crate::app_queues::OutputShares;
use crate::dispatch::Dispatch;
use crate::flows::reader::AbsentApps;
use crate::ids::{AppSlot, ConnId};
use crate::tls::{self, TransportPolicy};
use control::kernel::{AnnouncedApp, Tuning};

use self::acceptor::Acceptor;
pub use self::acceptor::Listening;
use self::flows::{heal, news, table_usage};
use self::forwarder::Forwarder;
use self::log_limits::{LogLimits, report_drops};
use self::output::Output;
use self::pace::Pace;
use self::reading::Reader;
use self::sending::Refused;
use self::switches::Switches;

pub use self::questions::Subject;
pub use crate::answer_part::Part;
pub use channels::{
    Command, Commander, MovedConnection, ServerChannels, WorkerChannels, WorkerEvent, connect,
};
pub use hosted::Loaded;
pub(crate) use hosted::note;
#[cfg(feature = "bench")]
pub(crate) use hosted::note_received;

/// Size of the shared input buffer beyond `read-bytes`. With TLS, ciphertext is read into one half of the buffer, and
/// plaintext goes into the other, behind a partial message. So a turn with TLS reads as much as fits into one half:
/// with the default a fifth less than a turn with plain TCP.
const BEYOND: usize = 192 * 1024;

const _: () = assert!(
    *Tuning::READ.start() as usize + BEYOND > 2 * (u16::MAX as usize + tls::RECORD),
    "there is room to read a record behind all but the end of the longest message"
);

/// Interval of session timeouts and other periodic work.
const TICK: Duration = Duration::from_millis(100);

/// Events taken from epoll at once.
const EVENTS: usize = 256;

// Epoll's user data: the kind in the upper half, the index in the lower.
const COMMANDS: u64 = 0;
const LISTENER: u64 = 1 << 32;
const APP_PORT: u64 = 2 << 32;
const CONNECTION: u64 = 3 << 32;
const SERVICE: u64 = 4 << 32;
const WHICH: u64 = 0xffff_ffff;

/// A known app.
#[derive(Debug, Clone)]
pub struct Known {
    /// The monitor's description of the app.
    pub app: AnnouncedApp,
    /// The app's code, if it runs in this process.
    pub object: Option<Arc<Loaded>>,
}

/// The apps of a worker.
#[derive(Debug)]
pub struct Apps {
    /// All apps, in this process and in zones.
    pub apps: Vec<Known>,
    /// The worker's slot in the flight recorder, if there is one.
    pub flight_slot: Option<FlightSlot>,
}

/// A worker; see the module's description.
#[derive(Debug)]
pub struct Worker {
    epoll: OwnedFd,
    channels: WorkerChannels,
    acceptor: Acceptor,
    switches: Switches,
    reader: Reader,
    dispatch: Dispatch,
    output: Output,
    forwarder: Forwarder,
    calls: Calls,
    scratch: Scratch,
    timers: Timers,
    log_limits: LogLimits,
    /// The apps that have a number and do not run here.
    absent: AbsentApps,
    /// The turns of apps in the queues of switches, by their sessions.
    output_shares: OutputShares,
    /// The switches whose guards restore their flows now.
    restoring: Vec<ConnId>,
}

/// Calls of apps: the flight recorder, and buffers for apps' messages that are kept for their capacity.
#[derive(Debug, Default)]
struct Calls {
    /// Records the turns of the worker, and the app in this process that is being called.
    flight_slot: Option<FlightSlot>,
    /// Whether calls of apps in this process are charged with the memory that they take.
    charges_memory: bool,
    verdicts: Vec<Verdict>,
    /// The portion of an app's messages that is being sent.
    messages: Messages,
    /// Messages of one run that were refused.
    refused: Vec<Refused>,
}

/// Buffers for one message each, kept for their capacity.
#[derive(Debug, Default)]
struct Scratch {
    /// A message that is rewritten for an app.
    copy: Vec<u8>,
    /// An OpenFlow message into which a driver translates.
    translated: Vec<u8>,
}

/// When the worker wakes up.
#[derive(Debug)]
struct Timers {
    next_tick: Instant,
    pace: Pace,
}

impl Worker {
    /// Makes a worker that accepts connections on `listeners`, for itself and for the others of its pool. Apps with an object run in this process, and in the thread that calls this.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn new(
        listeners: Vec<Listening>,
        apps: Apps,
        transport: TransportPolicy,
        channels: WorkerChannels,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &channels.commands_bell, EventData::new_u64(COMMANDS), EventFlags::IN)?;
        let (now, pool) = (Instant::now(), &channels.pool);
        let mut worker = Self {
            acceptor: Acceptor::new(listeners, transport, pool.workers(), &epoll)?,
            switches: Switches::new(pool.workers(), pool.first_epoch(channels.me)),
            reader: Reader::new(pool.tuning().read as usize),
            dispatch: Dispatch::default(),
            output: Output::default(),
            forwarder: Forwarder::default(),
            calls: Calls { flight_slot: apps.flight_slot, ..Calls::default() },
            scratch: Scratch::default(),
            timers: Timers { next_tick: now + TICK, pace: Pace::new() },
            log_limits: LogLimits::new(now),
            absent: AbsentApps::default(),
            output_shares: OutputShares::default(),
            restoring: Vec::new(),
            epoll,
            channels,
        };
        for Known { app: AnnouncedApp { app, name, policy, log_level, services, .. }, object } in
            apps.apps
        {
            worker.know(app, name, policy, now)?;
            if let Some(object) = object {
                worker.host(app, &object, log_level, &services);
            }
        }
        worker.pump(now); // gives the apps in this process their empty snapshot
        Ok(worker)
    }

    /// Works until [`Command::Stop`].
    ///
    /// # Errors
    /// Epoll failed, which does not happen on supported systems.
    pub fn run(mut self) -> io::Result<()> {
        let read = self.channels.pool.tuning().read as usize;
        let mut buffer = vec![0; read + BEYOND].into_boxed_slice();
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS];
        loop {
            let timeout = self.prepare_to_sleep();
            let (ready, _) = match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
                Err(rustix::io::Errno::INTR) => continue,
                result => result?,
            };
            let now = Instant::now();
            self.calls.flight_slot.iter_mut().for_each(FlightSlot::begin_turn);
            for app_port in &mut self.dispatch.app_ports {
                app_port.awake();
            }
            if !self.handle_events(ready, now) {
                return Ok(());
            }
            let is_cut_short = self.read_ready(&mut buffer, now) || ready.len() == EVENTS;
            self.serve_apps(now);
            self.move_on(now); // before the calls, so that these include the packets
            self.call_apps(now);
            self.move_on(now);
            self.advance_restorations(now);
            self.pump(now);
            self.record_messages();
            self.reader.resume(&mut self.switches, &mut self.dispatch, now);
            self.flush(now);
            self.reader.end_turn(is_cut_short, self.timers.next_tick, now);
            if now >= self.reader.tick_due(self.timers.next_tick) {
                self.tick(now);
            }
        }
    }

    /// Writes the counts of apps' messages into the flight recorder, before the messages of the turn leave this process.
    fn record_messages(&mut self) {
        let Some(recorder) = &self.calls.flight_slot else { return };
        for (slot, app_port) in self.dispatch.app_ports.iter_mut().enumerate() {
            if let Some(messages) = app_port.counts.unrecorded() {
                recorder.note_messages(slot, app_port.app, &messages);
            }
        }
    }

    /// Handles the events that epoll reported. `false` if the worker must stop.
    fn handle_events(&mut self, events: &[epoll::Event], now: Instant) -> bool {
        let mut commands = false;
        for event in events {
            let data = event.data.u64();
            let which = (data & WHICH) as usize;
            match data & !WHICH {
                LISTENER => {} // below
                APP_PORT => self.doorbell_rang(AppSlot::new(which)),
                SERVICE => self.exchange_with_services(AppSlot::new(which)),
                CONNECTION => self.note_event(ConnId(which), event.flags),
                _ => commands = true,
            }
        }
        // Events of existing connections come first: a new connection may get the id of a closed one.
        for event in events {
            let data = event.data.u64();
            if data & !WHICH == LISTENER {
                self.accept((data & WHICH) as usize, now);
            }
        }
        !commands || self.obey(now)
    }

    /// Returns how long epoll may wait.
    fn prepare_to_sleep(&mut self) -> Timespec {
        if self.reader.has_ready() {
            return Timespec { tv_sec: 0, tv_nsec: 0 };
        }
        let mut work = false;
        let mut slowed = None;
        for slot in AppSlot::first(self.dispatch.app_ports.len()) {
            let app_port = &mut self.dispatch.app_ports[slot];
            if let Some(until) = app_port.throttle.until() {
                slowed = Some(slowed.map_or(until, |other: Instant| other.min(until)));
                continue; // not announced as asleep, so its zone does not ring
            }
            match app_port.prepare_to_sleep() {
                Ok(waiting) => work |= waiting,
                Err(fault) => self.fault(slot, fault),
            }
        }
        let now = Instant::now();
        let paced = self.output.paced_due();
        let due = [
            self.dispatch.next_deadline(),
            self.next_wake(now),
            self.next_successor(),
            self.reader.until(),
            slowed,
            paced,
        ];
        let tick = self.reader.tick_due(self.timers.next_tick);
        let due = due.into_iter().flatten().fold(tick, Instant::min);
        let rest = due.saturating_duration_since(now);
        let wait = if work { Duration::ZERO } else { rest };
        if !wait.is_zero() {
            self.timers.pace.waits();
        }
        wait.try_into().expect("a tick is short")
    }

    /// Does the periodic work.
    fn tick(&mut self, now: Instant) {
        self.timers.next_tick = now + TICK;
        self.timers.pace.tick(self.dispatch.app_ports.iter().any(AppPort::is_in_zone));
        self.acceptor.tick(&self.epoll);
        let (mut over, mut stuck) = (Vec::new(), Vec::new());
        for (id, connection) in self.switches.iter_mut() {
            if let Err(why) = connection.tick(now) {
                over.push((id, why.to_string()));
            } else if connection.is_stuck(now) {
                stuck.push(id);
            }
            news::observe(connection, &mut self.log_limits, now);
            table_usage::update_tables(connection, (&self.dispatch, &self.absent), now);
            heal::check_entry(connection, now);
            heal::advance(
                connection,
                &mut self.dispatch,
                &self.channels,
                &mut self.log_limits,
                now,
            );
            own_messages::advance(
                connection,
                &mut self.dispatch,
                &self.channels,
                &mut self.log_limits,
                now,
            );
            if let Some(switch) = connection.switch_mut() {
                switch.buffer_table.tick();
            }
            if !connection.is_blocked() {
                self.output.note_if_any(id, connection);
            }
        }
        over.extend(stuck.into_iter().map(|id| (id, self.does_not_read(id))));
        for (id, why) in over {
            self.close(id, &why, now);
        }
        self.messages_of_sessions(now);
        self.read_flows(now);
        self.expire_changes(now);
        let app_ports = &mut self.dispatch.app_ports;
        let (channels, log_limits) = (&self.channels, &mut self.log_limits);
        answers::expire_requests(&mut self.switches, app_ports, channels, log_limits, now);
        self.settle_claims(now);
        report_drops(&mut self.dispatch.app_ports, now);
        self.dispatch.app_ports.iter_mut().for_each(AppPort::arm_latency);
        self.log_limits.report_late(&mut self.dispatch, now);
        self.log_limits.report_skipped(&mut self.dispatch, now);
        self.log_limits.report_suppressed(&mut self.dispatch.app_ports, now);
        self.flush(now);
        self.channels.pool.memory().freed(self.output.spare.tick());
    }

    /// Carries out commands. `false` at [`Command::Stop`].
    fn obey(&mut self, now: Instant) -> bool {
        self.channels.commands_bell.silence();
        self.take_forwarded(now);
        while let Ok(command) = self.channels.commands.try_recv() {
            match command {
                Command::Attach { attempt, app, name, policy, part } => {
                    let attached = self.attach(app, name, policy, *part, now);
                    let why = |error| format!("could not use its rings: {error}");
                    let result = attached.map_err(why);
                    self.channels.notify(WorkerEvent::Attached { attempt, result });
                }
                Command::Adopt(moved) => self.adopt(moved, now),
                Command::Detach { app } => self.detach(app, now),
                Command::Know { app, name, policy } => {
                    if let Err(error) = self.know(app, name, policy, now) {
                        warn!(app = app.0, %error, "could not add an app");
                    }
                }
                Command::Sessions { shares } => self.set_shares(&shares),
                Command::ChargeMemory { charge } => self.calls.charges_memory = charge,
                Command::LogLevel { app, level } => {
                    if let Some(slot) = self.slot_of(app) {
                        self.dispatch.app_ports[slot].set_log_level(level);
                    }
                }
                Command::Forget { app } => self.forget(app, now),
                Command::Disable { app } => self.disable(app),
                Command::Service { app, name, socket, table } => {
                    self.connect_service(app, &name, socket, table.as_deref());
                }
                Command::Switches { after, reply } => {
                    // The receiver may be gone.
                    let _ = reply.send(self.switches.status(after, &self.dispatch, now));
                }
                Command::Flows { dpid, question, subject } => {
                    let Self { switches, output, channels, .. } = self;
                    questions::request((dpid, question, subject), switches, output, channels, now);
                }
                Command::Apps { reply } => {
                    let _ = reply.send(self.app_counters());
                }
                Command::Senders { after, reply } => {
                    let _ = reply.send(self.senders(after));
                }
                Command::Absent { apps } => self.learn_absent(&apps, now),
                Command::ReadOrphans { dpid, remove, reply } => {
                    let _ = reply.send(self.read_orphans(dpid, remove, now));
                }
                Command::Orphans { dpid, reply } => {
                    let _ = reply.send(self.orphans(dpid));
                }
                Command::Stop => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
