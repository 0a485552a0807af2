//! The event loop that owns switches for their whole life.
//!
//! One turn: sleep in epoll until something is to be done; read what switches sent and write
//! records for apps; take what apps said, check it and gather it per switch; write once per
//! switch; wake the apps that sleep. No lock is taken, no app is waited for, and nothing is
//! allocated for a message once the buffers have grown.
//!
//! Another thread, [`server`](crate::server), tells it what the monitor wants by a channel and a
//! doorbell, and is told by another channel what the monitor must know.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use dal::drivers::openflow::{Closed, Event, SwitchInfo};
use openflow::{Action, ErrorMessage, FlowMod, Header, Match, PortNo, PortStatus, Version};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::Timespec;
use sdk::Refusal;
use slab::Slab;
use sys::doorbell::Doorbell;
use sys::ring::{DEFAULT_CAPACITY, Down, PeerFault};
use tracing::{debug, info, warn};

use crate::check::{Allowed, check};
use crate::connection::{Connection, Counters, Input, Switch};
use crate::control::AppId;
use crate::dispatch;
use crate::link::{Attached, Link};
use crate::query::{PAGE, SwitchStatus};
use crate::rate::Rate;

/// The shared input buffer, in bytes: the longest message, and what a switch sends in a burst.
const BUFFER: usize = 256 * 1024;

/// How often sessions are asked whether they have lost patience.
const TICK: Duration = Duration::from_millis(100);

/// Most connections, handshaking ones included.
const MAX_CONNECTIONS: usize = 16 * 1024;

/// Connections accepted per turn and listener, so that a crowd at the door delays nobody inside.
const ACCEPTS: usize = 64;

/// Messages taken from one app per turn, so that a talkative app delays nobody else.
const TAKES: usize = 4096;

/// Most apps: a bit of a switch's memory each.
const MAX_LINKS: usize = 64;

// Epoll's user data: what it is in the upper half, which one in the lower.
const COMMANDS: u64 = 0;
const LISTENER: u64 = 1 << 32;
const LINK: u64 = 2 << 32;
const CONNECTION: u64 = 3 << 32;
const WHICH: u64 = 0xffff_ffff;

/// What the server's thread asks of a worker.
#[derive(Debug)]
pub enum Command {
    /// Make rings for an app, new ones if it had some.
    Attach {
        /// Which app.
        app: AppId,
        /// Its name, for messages.
        name: String,
    },
    /// The app's zone is dead.
    Detach {
        /// Which app.
        app: AppId,
    },
    /// Tell about switches with a greater DPID, at most [`PAGE`], and whether there are more.
    Switches {
        /// `None`: from the start.
        after: Option<u64>,
        /// Where to.
        reply: Sender<(Vec<SwitchStatus>, bool)>,
    },
    /// Close everything and return.
    Stop,
}

/// What a worker tells the server's thread.
#[derive(Debug)]
pub enum Notice {
    /// An app has rings; the descriptors are the zone's, in the order of
    /// [`Answer::Attached`](crate::control::Answer::Attached).
    Attached {
        /// Which app.
        app: AppId,
        /// Bytes each ring holds.
        capacity: u32,
        /// The zone's descriptors.
        fds: Vec<OwnedFd>,
    },
    /// An app's zone lied about its ring.
    Fault {
        /// Which app.
        app: AppId,
        /// How.
        fault: String,
    },
    /// A record ended an app twice.
    SetAside {
        /// Which app.
        app: AppId,
        /// The record.
        record: Vec<u8>,
    },
}

/// One end of the pair of channels between a worker and the server.
#[derive(Debug)]
pub struct Wires {
    /// What the server asks.
    pub commands: Receiver<Command>,
    /// Rung after a command was sent.
    pub commands_bell: Arc<Doorbell>,
    /// What the server is told.
    pub notices: Sender<Notice>,
    /// To be rung after a notice was sent.
    pub notices_bell: Arc<Doorbell>,
}

/// A worker; see the module's description.
#[derive(Debug)]
pub struct Worker {
    epoll: OwnedFd,
    wires: Wires,
    listeners: Vec<TcpListener>,
    /// Whether listeners are left alone until the next tick, after accepting failed.
    listeners_paused: bool,
    connections: Slab<Connection>,
    /// Where the switch with a DPID is. Keys come from switches; the hash is keyed.
    by_dpid: HashMap<u64, usize>,
    /// How often each datapath has been connected.
    epochs: HashMap<u64, u32>,
    links: Vec<Link>,
    dirty: Vec<usize>,
    scratch: Vec<u8>,
    next_tick: Instant,
    rates: Rates,
}

/// One for each kind of event that outsiders can repeat.
#[derive(Debug)]
struct Rates {
    accepted: Rate,
    closed: Rate,
    refused: Rate,
    errors: Rate,
    malformed: Rate,
}

impl Worker {
    /// A worker that accepts switches on `listeners`.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn new(listeners: Vec<TcpListener>, wires: Wires) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &*wires.commands_bell, EventData::new_u64(COMMANDS), EventFlags::IN)?;
        for (number, listener) in listeners.iter().enumerate() {
            listener.set_nonblocking(true)?;
            let data = EventData::new_u64(LISTENER | number as u64);
            epoll::add(&epoll, listener, data, EventFlags::IN)?;
        }
        let now = Instant::now();
        let rate = || Rate::new(now);
        Ok(Self {
            epoll,
            wires,
            listeners,
            listeners_paused: false,
            connections: Slab::new(),
            by_dpid: HashMap::new(),
            epochs: HashMap::new(),
            links: Vec::new(),
            dirty: Vec::new(),
            scratch: Vec::new(),
            next_tick: now + TICK,
            rates: Rates {
                accepted: rate(),
                closed: rate(),
                refused: rate(),
                errors: rate(),
                malformed: rate(),
            },
        })
    }

    /// Works until told to stop.
    ///
    /// # Errors
    /// Epoll failed, which it does not on any supported system.
    pub fn run(mut self) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER].into_boxed_slice();
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); 256];
        loop {
            let timeout = self.prepare_to_sleep();
            let (ready, _) = match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
                Err(rustix::io::Errno::INTR) => continue,
                result => result?,
            };
            let now = Instant::now();
            for link in &mut self.links {
                link.awake();
            }
            let mut commands = false;
            for event in ready {
                let data = event.data.u64();
                let which = usize::try_from(data & WHICH).expect("32 bits");
                match data & !WHICH {
                    LISTENER => self.accept(which, now),
                    LINK => self.links[which].down_bell.silence(),
                    CONNECTION => self.serve(which, event.flags, &mut buffer, now),
                    _ => commands = true,
                }
            }
            if commands && !self.obey(now) {
                return Ok(());
            }
            self.hear_apps(now);
            self.pump();
            self.flush(now);
            if now >= self.next_tick {
                self.tick(now);
            }
        }
    }

    /// How long epoll may wait.
    fn prepare_to_sleep(&mut self) -> Timespec {
        let mut work = false;
        for index in 0..self.links.len() {
            match self.links[index].prepare_to_sleep() {
                Ok(waiting) => work |= waiting,
                Err(fault) => self.fault(index, fault),
            }
        }
        let rest = self.next_tick.saturating_duration_since(Instant::now());
        let wait = if work { Duration::ZERO } else { rest };
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
                    if let Some(suppressed) = self.rates.accepted.admit(now) {
                        warn!(%error, suppressed, "could not accept a connection; trying again shortly");
                    }
                    self.pause_listeners(true);
                    return;
                }
            };
            let why_not = if !address.ip().to_canonical().is_loopback() {
                "plain TCP is accepted from loopback only"
            } else if self.connections.len() >= MAX_CONNECTIONS {
                "there are too many connections"
            } else {
                match self.admit(socket, address, now) {
                    Ok(()) => continue,
                    Err(_) => "the system refused to watch it",
                }
            };
            if let Some(suppressed) = self.rates.accepted.admit(now) {
                warn!(%address, why = why_not, suppressed, "connection refused");
            }
        }
    }

    fn admit(
        &mut self,
        socket: std::net::TcpStream,
        address: SocketAddr,
        now: Instant,
    ) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let entry = self.connections.vacant_entry();
        let data = EventData::new_u64(CONNECTION | entry.key() as u64);
        epoll::add(&self.epoll, &socket, data, EventFlags::IN | EventFlags::RDHUP)?;
        debug!(%address, "connection accepted");
        entry.insert(Connection::new(socket, address, now));
        Ok(())
    }

    /// A connection is readable or writable.
    fn serve(&mut self, key: usize, flags: EventFlags, buffer: &mut [u8], now: Instant) {
        let Some(connection) = self.connections.get_mut(key) else {
            return; // closed earlier in this turn
        };
        if flags.contains(EventFlags::OUT) && !connection.dirty {
            connection.dirty = true;
            self.dirty.push(key);
        }
        if !flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP)
        {
            return;
        }
        match connection.read(buffer) {
            Ok(Input::Bytes(size)) => {
                connection.session.heard(now);
                if let Err(why) = self.messages(key, &buffer[..size], now) {
                    self.close(key, &why.to_string(), now);
                }
            }
            Ok(Input::Nothing) => {}
            Ok(Input::End) => self.close(key, "the switch closed the connection", now),
            Err(error) => self.close(key, &error.to_string(), now),
        }
    }

    /// Handles all whole messages of `bytes` and keeps the rest.
    fn messages(&mut self, key: usize, mut bytes: &[u8], now: Instant) -> Result<(), Closed> {
        if self.connections[key].session.is_new() {
            dal::drivers::openflow::recognise(bytes)?;
        }
        while let Some((message, rest)) = Connection::cut(bytes)? {
            bytes = rest;
            self.message(key, message, now)?;
        }
        self.connections[key].keep(bytes);
        Ok(())
    }

    fn message(&mut self, key: usize, message: &[u8], now: Instant) -> Result<(), Closed> {
        let connection = &mut self.connections[key];
        let event = connection.session.receive(message, &mut connection.out);
        if !connection.out.is_empty() && !connection.dirty {
            connection.dirty = true;
            self.dirty.push(key);
        }
        let Some(event) = event? else { return Ok(()) };
        match (event, &mut connection.switch) {
            (Event::PacketIn(view), Some(switch)) => {
                dispatch::packet_in(&mut self.links, switch, &view, message);
            }
            (Event::PortStatus(status), Some(switch)) => {
                port_status(&mut self.links, switch, status);
            }
            (Event::Up(info), None) => return self.switch_up(key, info),
            (Event::Error(error), switch) => {
                if let Some(switch) = switch {
                    switch.counters.errors += 1;
                }
                self.switch_error(key, &error, now);
            }
            (Event::Malformed(error), _) => {
                if let Some(suppressed) = self.rates.malformed.admit(now) {
                    let address = self.connections[key].address;
                    warn!(%address, %error, suppressed, "left out a malformed message");
                }
            }
            (Event::Unasked(kind), _) => debug!(?kind, "left out a message nobody asked for"),
            (Event::Up(_), Some(_)) | (_, None) => {}
        }
        Ok(())
    }

    /// A switch has completed the handshake.
    fn switch_up(&mut self, key: usize, info: SwitchInfo) -> Result<(), Closed> {
        let (dpid, version) = (info.dpid, info.version);
        if let Some(other) = self.by_dpid.get(&dpid.0) {
            let address = self.connections[*other].address;
            return Err(Closed::Duplicate { dpid, address: address.to_string() });
        }
        let connection = &mut self.connections[key];
        if version >= Version::V1_3 {
            let xid = connection.session.xid();
            table_miss(version, xid, &mut connection.out);
        }
        let epoch = self.epochs.entry(dpid.0).or_insert(0);
        *epoch += 1;
        let ports = info.ports.len();
        let address = connection.address;
        let counters = Counters::default();
        let mut switch = Switch { info, epoch: *epoch, announced: Vec::new(), counters };
        for link in &mut self.links {
            link.announce(&mut switch);
        }
        info!(%dpid, %version, %address, ports, epoch, "switch connected");
        connection.switch = Some(switch);
        self.by_dpid.insert(dpid.0, key);
        Ok(())
    }

    fn switch_error(&mut self, key: usize, error: &ErrorMessage<'_>, now: Instant) {
        if let Some(suppressed) = self.rates.errors.admit(now) {
            let address = self.connections[key].address;
            let dpid = self.connections[key].switch.as_ref().map(|switch| switch.info.dpid);
            let about = Header::decode(error.data).ok().map(|header| header.xid);
            warn!(?dpid, %address, %error, xid = about, suppressed, "switch sent an error");
        }
    }

    /// Ends a connection; apps hear of it if it was a switch.
    fn close(&mut self, key: usize, why: &str, now: Instant) {
        let mut connection = self.connections.remove(key);
        let _ = connection.flush(); // what we had to say about it
        let address = connection.address;
        let Some(switch) = connection.switch else {
            if let Some(suppressed) = self.rates.closed.admit(now) {
                warn!(%address, why, suppressed, "connection closed before it was a switch");
            }
            return;
        };
        let dpid = switch.info.dpid;
        self.by_dpid.remove(&dpid.0);
        for link in &mut self.links {
            link.switch_down(&switch);
        }
        if let Some(suppressed) = self.rates.closed.admit(now) {
            info!(%dpid, %address, why, suppressed, "switch disconnected");
        }
    }

    /// Takes what apps said, checks it, and gathers it per switch.
    fn hear_apps(&mut self, now: Instant) {
        for index in 0..self.links.len() {
            if let Err(fault) = self.hear(index, TAKES, now) {
                self.fault(index, fault);
            }
        }
    }

    fn hear(&mut self, index: usize, takes: usize, now: Instant) -> Result<(), PeerFault> {
        let mut copy = std::mem::take(&mut self.scratch);
        let mut result = Ok(());
        for _ in 0..takes {
            match self.links[index].take(&mut copy) {
                Ok(Some(Down::Send { epoch, dpid, .. })) => {
                    if let Err(why) = self.send(dpid, epoch, &copy) {
                        self.refuse(index, dpid, epoch, why, &copy, now);
                    }
                }
                // With one app there is nobody behind it to keep a record from.
                Ok(Some(Down::Stop(_) | Down::Done(_))) => {}
                Ok(None) => break,
                Err(fault) => {
                    result = Err(fault);
                    break;
                }
            }
        }
        self.links[index].release();
        self.scratch = copy;
        result
    }

    /// Checks a message of an app and appends it to what goes to its switch.
    fn send(&mut self, dpid: u64, epoch: u32, message: &[u8]) -> Result<(), Refusal> {
        let key = *self.by_dpid.get(&dpid).ok_or(Refusal::NoSwitch)?;
        let connection = &mut self.connections[key];
        let switch = connection.switch.as_mut().ok_or(Refusal::NoSwitch)?;
        if switch.epoch != epoch {
            return Err(Refusal::Epoch);
        }
        let allowed = check(switch.info.version, message)?;
        if connection.out.len() > crate::connection::FULL {
            return Err(Refusal::Full);
        }
        match allowed {
            Allowed::FlowMod => switch.counters.flow_mods += 1,
            Allowed::PacketOut => switch.counters.packet_outs += 1,
        }
        let start = connection.out.len();
        connection.out.extend_from_slice(message);
        // Transaction ids are the kernel's: two apps may choose the same.
        let xid = connection.session.xid();
        connection.out[start + 4..start + 8].copy_from_slice(&xid.to_be_bytes());
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(key);
        }
        Ok(())
    }

    fn refuse(
        &mut self,
        index: usize,
        dpid: u64,
        epoch: u32,
        why: Refusal,
        message: &[u8],
        now: Instant,
    ) {
        let switch = self.by_dpid.get(&dpid).and_then(|key| self.connections.get_mut(*key));
        if let Some(switch) = switch.and_then(|connection| connection.switch.as_mut()) {
            switch.counters.refused += 1;
        }
        let link = &mut self.links[index];
        link.refused(dpid, epoch, why, message);
        if let Some(suppressed) = self.rates.refused.admit(now) {
            let (app, dpid) = (&link.name, openflow::Dpid(dpid));
            warn!(app, %dpid, epoch, %why, suppressed, "refused a message of an app");
        }
    }

    /// An app's zone lied: nothing more is taken from it, and the monitor ends it.
    fn fault(&mut self, index: usize, fault: PeerFault) {
        let link = &mut self.links[index];
        warn!(app = link.name, %fault, "the app's zone broke the ring's contract");
        let app = link.app;
        let record = link.detach();
        self.notify(Notice::Fault { app, fault: fault.to_string() });
        self.set_aside(app, record);
    }

    fn set_aside(&mut self, app: AppId, record: Option<Vec<u8>>) {
        if let Some(record) = record {
            self.notify(Notice::SetAside { app, record });
        }
    }

    /// Goes on with snapshots and replays, and shows the zones what was written.
    fn pump(&mut self) {
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            if link.has_work() {
                let by_dpid = &self.by_dpid;
                let epochs = &self.epochs;
                let switches = self.connections.iter_mut();
                link.pump(
                    switches.filter_map(|(_, connection)| connection.switch.as_mut()),
                    |dpid, epoch| {
                        by_dpid.contains_key(&dpid) && epochs.get(&dpid) == Some(&epoch)
                    },
                );
            }
            link.publish();
        }
    }

    /// Writes what was gathered, once per switch.
    fn flush(&mut self, now: Instant) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for key in dirty.drain(..) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            connection.dirty = false;
            match connection.flush() {
                Ok(all) => {
                    if connection.is_hopeless() {
                        self.close(key, "it does not read what is sent to it", now);
                    } else if connection.blocked == all {
                        connection.blocked = !all;
                        let mut flags = EventFlags::IN | EventFlags::RDHUP;
                        flags.set(EventFlags::OUT, !all);
                        let data = EventData::new_u64(CONNECTION | key as u64);
                        // Fails only for a socket that is not in the set; ours is.
                        let _ = epoll::modify(&self.epoll, &connection.socket, data, flags);
                    }
                }
                Err(error) => self.close(key, &error.to_string(), now),
            }
        }
        // Closing may have made others dirty; they are written in the next turn.
        dirty.append(&mut self.dirty);
        self.dirty = dirty;
    }

    /// Lets time pass for every session.
    fn tick(&mut self, now: Instant) {
        self.next_tick = now + TICK;
        if self.listeners_paused {
            self.pause_listeners(false);
        }
        let mut over = Vec::new();
        for (key, connection) in &mut self.connections {
            if let Err(why) = connection.session.tick(now, &mut connection.out) {
                over.push((key, why.to_string()));
            }
            if !connection.out.is_empty() && !connection.dirty && !connection.blocked {
                connection.dirty = true;
                self.dirty.push(key);
            }
        }
        for (key, why) in over {
            self.close(key, &why, now);
        }
        self.flush(now);
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
        self.wires.commands_bell.silence();
        while let Ok(command) = self.wires.commands.try_recv() {
            match command {
                Command::Attach { app, name } => {
                    if let Err(error) = self.attach(app, name, now) {
                        let fault = format!("could not make its rings: {error}");
                        self.notify(Notice::Fault { app, fault });
                    }
                }
                Command::Detach { app } => self.detach(app, now),
                Command::Switches { after, reply } => {
                    let _ = reply.send(self.status(after)); // who asked may have gone
                }
                Command::Stop => return false,
            }
        }
        true
    }

    fn attach(&mut self, app: AppId, name: String, now: Instant) -> io::Result<()> {
        self.detach(app, now);
        let index = match self.links.iter().position(|link| link.app == app) {
            Some(index) => index,
            None if self.links.len() == MAX_LINKS => {
                return Err(io::Error::other(format!("there are {MAX_LINKS} apps already")));
            }
            None => {
                let slot = self.links.len();
                self.links.push(Link::new(app, name, slot, DEFAULT_CAPACITY)?);
                slot
            }
        };
        let link = &mut self.links[index];
        let Attached { fds, up_bell, down_bell } = link.attach()?;
        let data = EventData::new_u64(LINK | index as u64);
        epoll::add(&self.epoll, &link.down_bell, data, EventFlags::IN)?;
        let fds = vec![fds.up, fds.down, up_bell.into_fd(), down_bell.into_fd()];
        self.notify(Notice::Attached { app, capacity: DEFAULT_CAPACITY, fds });
        Ok(())
    }

    fn detach(&mut self, app: AppId, now: Instant) {
        let Some(index) = self.links.iter().position(|link| link.app == app) else { return };
        if !self.links[index].is_attached() {
            return;
        }
        // All that it published before it died has happened.
        if let Err(fault) = self.hear(index, usize::MAX, now) {
            debug!(%fault, "the dead zone's ring was broken");
        }
        let _ = epoll::delete(&self.epoll, &self.links[index].down_bell);
        let record = self.links[index].detach();
        self.set_aside(app, record);
    }

    fn status(&self, after: Option<u64>) -> (Vec<SwitchStatus>, bool) {
        let mut dpids: Vec<(u64, usize)> = self
            .by_dpid
            .iter()
            .map(|(dpid, key)| (*dpid, *key))
            .filter(|(dpid, _)| after.is_none_or(|after| *dpid > after))
            .collect();
        dpids.sort_unstable();
        let more = dpids.len() > PAGE;
        let page = dpids.iter().take(PAGE).filter_map(|(_, key)| {
            let connection = self.connections.get(*key)?;
            connection.switch.as_ref().map(|switch| switch.status(connection.address))
        });
        (page.collect(), more)
    }

    fn notify(&self, notice: Notice) {
        // The server lives as long as the process; without it there is nobody to tell.
        let _ = self.wires.notices.send(notice);
        self.wires.notices_bell.ring();
    }
}

/// Takes in a change of a port and tells the apps.
fn port_status(links: &mut [Link], switch: &mut Switch, status: PortStatus) {
    let PortStatus { reason, desc } = status;
    let ports = &mut switch.info.ports;
    let place = ports.iter().position(|port| port.port_no == desc.port_no);
    match (reason, place) {
        (openflow::PortReason::Delete, Some(place)) => {
            ports.remove(place);
        }
        (openflow::PortReason::Delete, None) => return,
        (_, Some(place)) => ports[place] = desc.clone(),
        (_, None) if ports.len() >= usize::from(u16::MAX) => return,
        (_, None) => ports.push(desc.clone()),
    }
    info!(dpid = %switch.info.dpid, port = %desc.port_no, up = desc.is_up(), ?reason, "port changed");
    for link in links {
        link.port(switch, reason.to_wire(), &desc);
    }
}

/// The table-miss entry, which is the kernel's: what no flow matches comes to us, whole
/// (OpenFlow 1.3.5 §5.4). In 1.0 that is what a switch does by itself (OpenFlow 1.0.2 §3.4).
fn table_miss(version: Version, xid: u32, out: &mut Vec<u8>) {
    const SIZE: usize = 128;
    let to_us = [Action::Output { port: PortNo::CONTROLLER, max_len: 0xffff }];
    let miss = FlowMod::add(Match::new()).priority(0).apply(&to_us);
    let start = out.len();
    out.resize(start + SIZE, 0);
    let size = miss.encode(version, xid, &mut out[start..]).expect("it fits and can be said");
    out.truncate(start + size);
}
