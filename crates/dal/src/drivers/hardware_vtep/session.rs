//! Runs the session with one device: an OVSDB client below, an OpenFlow switch above.
//!
//! ```text
//!  bytes --> Client --> image --> Device --> Up, port status, flow-removed, hosts
//!  OpenFlow messages --> Queue --> transactions --> Client --> bytes
//! ```
//!
//! The session's own messages leave by [`Session::seal`] as all others do: a [marker](nudge) in the output causes the call.
//!
//! Invariants: the device is read from the image, never kept beside it; what is read costs at most [`ROWS_PER_TICK`] rows in a tick
//! on average, so that a device with many changes does not take the worker from others.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use openflow::{
    Capabilities, ErrorMessage, Features, FlowMod, FlowModCommand, FlowModFlags, FlowRemoved,
    FlowRemovedReason, Header, Kind, PortReason, PortStatus,
};
use ovsdb::{Client, Event as ClientEvent, Operation, TransactionId};

use super::answers::Facts;
use super::device::Device;
use super::ownership::Owner;
use super::refusal::Refusal;
use super::rule::{Key, Rule};
use super::selection::Selection;
use super::work::{Queue, Step, Work};
use super::{LIMITS, MOST_SESSIONS, NO_PACKETS, OF, SessionCount, schema, transaction};
use crate::closed::Closed;
use crate::drivers::openflow::framing;
use crate::session::{
    self, Description, Event, HostReport, Inbound, SwitchInfo, Table, Taken, Timing,
};

/// Rows of the image that may be read in a tick, on average.
const ROWS_PER_TICK: usize = 4_000;

/// The cost of reading an image beside its rows, in rows.
const READING: usize = 50;

/// The interval at which learned hosts are reported again, since the service `hosts` forgets silent hosts.
const REPEAT: Duration = Duration::from_secs(30);

/// How long the database may take for a transaction.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pause between two attempts to remove what is not needed any more.
const CLEANING: Duration = Duration::from_secs(2);

/// See the module's description.
#[derive(Debug)]
pub struct Session {
    client: Client,
    /// The number of places that devices have taken.
    places: Arc<AtomicUsize>,
    /// The place of this device.
    place: Option<SessionCount>,
    timing: Timing,
    opened: Instant,
    heard: Instant,
    /// The time of the last call that had it.
    now: Instant,
    has_greeted: bool,
    /// `None` until the image shows a device.
    device: Option<Device>,
    /// When each flow was seen first.
    since: BTreeMap<Key, Instant>,
    /// The image has changed since the device was read.
    is_stale: bool,
    /// Rows that may be read; see [`ROWS_PER_TICK`].
    budget: i64,
    queue: Queue,
    in_flight: Option<(TransactionId, Purpose)>,
    probe: Probe,
    inbox: VecDeque<Own>,
    next_xid: u32,
    clean_at: Instant,
    repeat_at: Instant,
    closed: Option<Closed>,
}

/// The purpose of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// The edits of the queue.
    Edits,
    /// The removal of what is not needed.
    Cleaning,
}

/// The last [`probe`](session::Session::probe).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    /// There was none, or it is answered.
    Answered,
    /// It waits for this transaction.
    Waits(TransactionId),
    /// It could not be sent, so it has no answer.
    NotSent,
}

/// Something for the caller.
#[derive(Debug)]
enum Own {
    Up(SwitchInfo, Vec<u8>),
    Message(Vec<u8>),
    Host(HostReport),
    Tables(Table),
}

impl Session {
    /// A session whose connection was opened at `now`. It takes one of the places with the first bytes, which come after the
    /// handshake of TLS, and ends if there is none.
    pub(super) fn new(now: Instant, timing: Timing, places: Arc<AtomicUsize>) -> Self {
        let mut client = Client::new(schema::WANTED, LIMITS, now);
        client.connected(now);
        Self {
            client,
            places,
            place: None,
            timing,
            opened: now,
            heard: now,
            now,
            has_greeted: false,
            device: None,
            since: BTreeMap::new(),
            is_stale: false,
            budget: 0,
            queue: Queue::default(),
            in_flight: None,
            probe: Probe::Answered,
            inbox: VecDeque::new(),
            next_xid: 1,
            clean_at: now,
            repeat_at: now + REPEAT,
            closed: None,
        }
    }

    fn check_open(&mut self) -> Result<(), Closed> {
        self.closed.take().map_or(Ok(()), Err)
    }

    fn take_place(&mut self) -> Result<(), Closed> {
        if self.place.is_none() {
            self.place = SessionCount::take(&self.places);
        }
        if self.place.is_none() {
            let why = format!(
                "{MOST_SESSIONS} devices are connected, the most at once; connect the others to another controller"
            );
            return Err(closed(&why));
        }
        Ok(())
    }

    /// Handles what the client reports.
    fn client_events(&mut self, events: Vec<ClientEvent>) {
        for event in events {
            match event {
                ClientEvent::Synchronized(_) | ClientEvent::Changed(_) => self.is_stale = true,
                ClientEvent::Transacted(id, outcome) => {
                    if self.probe == Probe::Waits(id) {
                        self.probe = Probe::Answered;
                    }
                    let Some((_, purpose)) = self.in_flight.take_if(|(its, _)| *its == id) else {
                        continue;
                    };
                    match (purpose, outcome) {
                        (Purpose::Cleaning, _) => self.clean_at = self.now + CLEANING,
                        (Purpose::Edits, Ok(_)) => self.queue.done(),
                        (Purpose::Edits, Err(failure)) => {
                            let why = Refusal::Database(failure.to_string());
                            self.transaction_failed(why);
                        }
                    }
                }
            }
        }
    }

    fn transaction_failed(&mut self, why: Refusal) {
        if let Some((xid, refusal)) = self.queue.failed(why) {
            self.refuse(xid, &refusal);
        }
    }

    /// Reads the device from the image, if that has changed and was not read too often.
    fn refresh(&mut self) -> Result<(), Closed> {
        if !self.is_stale || self.budget <= 0 || !self.client.is_synchronized() {
            return Ok(());
        }
        self.is_stale = false;
        self.budget -= i64::try_from(self.client.image().len() + READING).unwrap_or(i64::MAX);
        let device = Device::read(self.client.image()).map_err(|why| closed(&why.to_string()))?;
        match self.device.take() {
            None => self.up(&device),
            Some(before) if before.dpid != device.dpid => {
                let (old, new) = (before.name, &device.name);
                return Err(closed(&format!(
                    "its name was {old} and is {new} now, so it is another datapath"
                )));
            }
            Some(before) => self.changed(&before, &device),
        }
        self.since.retain(|key, _| device.entries.contains_key(key));
        for key in device.entries.keys() {
            self.since.entry(*key).or_insert(self.now);
        }
        self.device = Some(device);
        Ok(())
    }

    fn up(&mut self, device: &Device) {
        let features = Features {
            dpid: device.dpid,
            n_buffers: 0,
            n_tables: 1,
            auxiliary_id: 0,
            capabilities: Capabilities::FLOW_STATS
                | Capabilities::TABLE_STATS
                | Capabilities::PORT_STATS,
            actions: 0,
            ports: Vec::new(),
        };
        let message = encoded(|out| features.encode(OF, 0, out));
        let info = SwitchInfo {
            version: OF,
            dpid: device.dpid,
            n_tables: features.n_tables,
            n_buffers: features.n_buffers,
            capabilities: features.capabilities,
            actions: 0,
            ports: device.ports.values().copied().collect(),
            no_packets: Some(NO_PACKETS),
        };
        self.inbox.push_back(Own::Up(info, message));
        self.inbox.extend(device.hosts.values().copied().map(Own::Host));
    }

    /// Reports the differences between two states of the device.
    fn changed(&mut self, before: &Device, after: &Device) {
        let status = |reason, desc| Own::Message(port_status(PortStatus { reason, desc }));
        for (number, desc) in &before.ports {
            if !after.ports.contains_key(number) {
                self.inbox.push_back(status(PortReason::Delete, *desc));
            }
        }
        for (number, desc) in &after.ports {
            match before.ports.get(number) {
                None => self.inbox.push_back(status(PortReason::Add, *desc)),
                Some(old) if old != desc => {
                    self.inbox.push_back(status(PortReason::Modify, *desc));
                }
                Some(_) => {}
            }
        }
        for (entry, owner) in before.own_entries() {
            let key = entry.rule.key();
            let is_there = after.entries.get(&key).is_some_and(|it| it.owner.is_some());
            if !is_there && owner.flags.contains(FlowModFlags::SEND_FLOW_REM) {
                self.inbox.push_back(Own::Message(self.flow_removed(key, owner)));
            }
        }
        for (name, host) in &before.hosts {
            if after.hosts.get(name).is_none_or(|now| now.port != host.port) {
                self.inbox.push_back(Own::Host(HostReport { is_gone: true, ..*host }));
            }
        }
        for (name, host) in &after.hosts {
            if before.hosts.get(name) != Some(host) {
                self.inbox.push_back(Own::Host(*host));
            }
        }
    }

    fn flow_removed(&self, key: Key, owner: Owner) -> Vec<u8> {
        let since = self.since.get(&key).copied().unwrap_or(self.now);
        let removed = FlowRemoved {
            match_: key.to_match(),
            cookie: owner.cookie,
            priority: owner.priority,
            reason: FlowRemovedReason::Delete,
            table_id: 0,
            duration: self.now.saturating_duration_since(since),
            idle_timeout: 0,
            hard_timeout: 0,
            packet_count: u64::MAX,
            byte_count: u64::MAX,
        };
        encoded(|out| removed.encode(OF, 0, out))
    }

    /// Handles the caller's messages.
    fn outgoing(&mut self, messages: &[u8]) {
        let mut rest = messages;
        while let Ok(Some((message, after))) = framing::cut(rest) {
            rest = after;
            let Ok(header) = Header::decode(message) else { continue };
            let kind = Kind::from_wire(OF, header.kind);
            let done = match kind {
                Ok(Kind::Hello | Kind::SetConfig) => Ok(()), // a marker; packets are not sent, whatever their size
                Ok(Kind::EchoRequest) => {
                    let mut reply = Vec::new();
                    openflow::append(&mut reply, |out| openflow::echo_reply(message, out))
                        .map(|_| self.inbox.push_back(Own::Message(reply)))
                        .map_err(|error| Refusal::Malformed(error.to_string()))
                }
                Ok(Kind::BarrierRequest) => self.queue.push(header.xid, Work::Barrier, 8),
                Ok(Kind::MultipartRequest) => {
                    self.queue.push(header.xid, Work::Request(message.to_vec()), message.len())
                }
                Ok(Kind::FlowMod) => {
                    work(message).and_then(|work| self.queue.push(header.xid, work, message.len()))
                }
                Ok(Kind::PacketOut) => Err(Refusal::Packets),
                Ok(kind) => Err(Refusal::Kind(kind.name().to_owned())),
                Err(error) => Err(Refusal::Malformed(error.to_string())),
            };
            if let Err(refusal) = done {
                self.refuse(header.xid, &refusal);
            }
        }
    }

    fn refuse(&mut self, xid: u32, refusal: &Refusal) {
        self.inbox.push_back(Own::Message(refusal.message(xid)));
    }

    /// Sends and answers what can be sent and answered now.
    fn advance(&mut self) {
        while !self.is_stale && self.in_flight.is_none() && self.budget > 0 {
            let Some(device) = &self.device else { return };
            match self.queue.step(device) {
                Step::Nothing => return,
                Step::Transact(operations) => self.transact(&operations, Purpose::Edits),
                Step::Refuse(xid, refusal) => self.refuse(xid, &refusal),
                Step::Barrier(xid) => {
                    let reply = encoded(|out| Kind::BarrierReply.encode_empty(OF, xid, out));
                    self.inbox.push_back(Own::Message(reply));
                }
                Step::Answer(xid, request) => {
                    self.budget -= i64::try_from(device.entries.len()).unwrap_or(i64::MAX);
                    let facts = Facts { device, since: &self.since, now: self.now };
                    match facts.answer(xid, &request) {
                        Ok(parts) => self.inbox.extend(parts.into_iter().map(Own::Message)),
                        Err(refusal) => self.refuse(xid, &refusal),
                    }
                }
            }
        }
    }

    fn transact(&mut self, operations: &[Operation], purpose: Purpose) {
        match self.client.transact(operations, self.now + PATIENCE) {
            Ok(id) => self.in_flight = Some((id, purpose)),
            Err(error) if purpose == Purpose::Edits => {
                self.transaction_failed(Refusal::Database(error.to_string()));
            }
            Err(_) => self.clean_at = self.now + CLEANING,
        }
    }

    /// Removes what is not needed, while nothing else happens.
    fn clean(&mut self) {
        let is_due = self.now >= self.clean_at && !self.is_stale && self.in_flight.is_none();
        let Some(device) = self.device.as_ref().filter(|_| is_due && self.queue.is_idle()) else {
            return;
        };
        self.clean_at = self.now + CLEANING;
        let operations = transaction::clean(device);
        if !operations.is_empty() {
            self.transact(&operations, Purpose::Cleaning);
        }
    }

    /// Lets the caller call [`seal`](session::Session::seal), if there are bytes for the device.
    fn nudge(&mut self, out: &mut Vec<u8>) {
        if self.has_greeted {
            let marker = encoded(|out| Kind::Hello.encode_empty(OF, 0, out));
            out.extend(marker);
        }
    }
}

impl session::Session for Session {
    fn take<'m>(
        &mut self,
        bytes: &'m mut [u8],
        room: &'m mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Taken<'m>>, Closed> {
        self.check_open()?;
        if !bytes.is_empty() {
            self.take_place()?;
            self.has_greeted = true; // the transport is known
            let mut events = Vec::new();
            let handled = self.client.handle(bytes, self.now, &mut events);
            self.client_events(events);
            handled.map_err(|why| closed(&why.to_string()))?;
            self.refresh()?;
            self.advance();
            self.nudge(out);
            return Ok(Some(Taken { size: Some(bytes.len()), inbound: Inbound::Nothing }));
        }
        let Some(own) = self.inbox.pop_front() else { return Ok(None) };
        room.clear();
        let inbound = match own {
            Own::Up(info, message) => {
                *room = message;
                Inbound::Message(Event::Up(info), room)
            }
            Own::Host(host) => Inbound::Message(Event::Host(host), room),
            Own::Tables(table) => {
                let description = Description::Tables(vec![table]);
                Inbound::Message(Event::Described(description), room)
            }
            Own::Message(message) => {
                *room = message;
                Inbound::Message(event(room), room)
            }
        };
        Ok(Some(Taken { size: Some(0), inbound }))
    }

    fn has_messages(&self) -> bool {
        !self.inbox.is_empty()
    }

    fn seal(&mut self, out: &mut Vec<u8>, from: usize) {
        let messages = out.split_off(from);
        self.outgoing(&messages);
        self.advance();
        out.extend(self.client.take_output());
    }

    fn tick(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<(), Closed> {
        self.now = now;
        self.check_open()?;
        self.check_deadline(now)?;
        if now.saturating_duration_since(self.opened) >= self.timing.hello {
            self.has_greeted = true;
        }
        self.client.tick(now).map_err(|why| closed(&why.to_string()))?;
        let most = i64::try_from(ROWS_PER_TICK).unwrap_or(i64::MAX);
        self.budget = (self.budget + most).min(most);
        self.refresh()?;
        self.advance();
        self.clean();
        if now >= self.repeat_at {
            self.repeat_at = now + REPEAT;
            if self.inbox.is_empty() {
                let hosts = self.device.iter().flat_map(|it| it.hosts.values());
                self.inbox.extend(hosts.copied().map(Own::Host));
            }
        }
        self.nudge(out);
        Ok(())
    }

    fn check_deadline(&self, now: Instant) -> Result<(), Closed> {
        let age = now.saturating_duration_since(self.opened);
        if self.device.is_none() && age >= self.timing.handshake {
            return Err(Closed::Handshake(self.timing.handshake));
        }
        Ok(())
    }

    fn note_received(&mut self, now: Instant) {
        (self.now, self.heard) = (now, now);
    }

    fn last_received(&self) -> Instant {
        self.heard
    }

    fn has_greeted(&self) -> bool {
        self.has_greeted
    }

    fn described_ports(&self) -> usize {
        0 // the image is bounded by itself
    }

    fn probe(&mut self, out: &mut Vec<u8>) {
        if matches!(self.probe, Probe::Waits(_)) {
            return; // a second question would take the place of an edit
        }
        let question = Operation::Select {
            table: schema::PHYSICAL_SWITCH.to_owned(),
            conditions: Vec::new(),
            columns: vec!["name".to_owned()],
        };
        let sent = self.client.transact(&[question], self.now + PATIENCE);
        self.probe = sent.map_or(Probe::NotSent, Probe::Waits);
        self.nudge(out);
    }

    fn has_answered(&self) -> bool {
        self.probe == Probe::Answered
    }

    fn configure(&mut self, out: &mut Vec<u8>) -> u32 {
        self.request_tables(out);
        self.xids(1)
    }

    fn request_tables(&mut self, _out: &mut Vec<u8>) {
        let Some(device) = &self.device else { return };
        let active_count = u32::try_from(device.entries.len()).ok();
        self.inbox.push_back(Own::Tables(Table { table_id: 0, max_entries: None, active_count }));
    }

    fn xids(&mut self, count: u32) -> u32 {
        let xid = self.next_xid;
        self.next_xid = self.next_xid.wrapping_add(count);
        xid
    }
}

/// Reads a flow-mod.
fn work(message: &[u8]) -> Result<Work, Refusal> {
    let flow_mod =
        FlowMod::decode(message).map_err(|error| Refusal::Malformed(error.to_string()))?;
    let command = flow_mod.command;
    if command.is_delete() {
        let is_strict = command == FlowModCommand::DeleteStrict;
        return Ok(Work::Delete(Selection::of_flow_mod(&flow_mod, is_strict)));
    }
    if flow_mod.table_id != 0 {
        return Err(Refusal::Table(flow_mod.table_id));
    }
    if flow_mod.buffer_id.is_some() {
        return Err(Refusal::Buffer);
    }
    if command != FlowModCommand::Add {
        let is_strict = command == FlowModCommand::ModifyStrict;
        let selection = Selection::of_flow_mod(&flow_mod, is_strict);
        return Ok(Work::Modify(selection, message.to_vec()));
    }
    if (flow_mod.idle_timeout, flow_mod.hard_timeout) != (0, 0) {
        return Err(Refusal::Timeouts);
    }
    if flow_mod.flags.contains(FlowModFlags::CHECK_OVERLAP) {
        return Err(Refusal::CheckOverlap);
    }
    let rule = Rule::new(Key::of(&flow_mod.match_)?, &flow_mod.instructions)?;
    // That counters begin again is no property of the flow.
    let flags = FlowModFlags(flow_mod.flags.0 & !FlowModFlags::RESET_COUNTS.0);
    let owner = Owner { cookie: flow_mod.cookie, priority: flow_mod.priority, flags };
    Ok(Work::Put(rule, owner))
}

/// The meaning of one of the session's own messages.
fn event(message: &[u8]) -> Event<'_> {
    let kind = Header::decode(message).and_then(|it| Kind::from_wire(OF, it.kind));
    match kind {
        Ok(Kind::Error) => {
            ErrorMessage::decode(message).map_or_else(Event::Malformed, Event::Error)
        }
        Ok(Kind::PortStatus) => {
            PortStatus::decode(message).map_or_else(Event::Malformed, Event::PortStatus)
        }
        Ok(Kind::FlowRemoved) => {
            FlowRemoved::decode(message).map_or_else(Event::Malformed, Event::FlowRemoved)
        }
        Ok(kind) => Event::Reply(kind),
        Err(error) => Event::Malformed(error),
    }
}

fn port_status(status: PortStatus) -> Vec<u8> {
    encoded(|out| status.encode(OF, 0, out))
}

/// Returns a message of the session's own.
fn encoded(encode: impl Fn(&mut [u8]) -> Result<usize, openflow::EncodeError>) -> Vec<u8> {
    let mut message = Vec::new();
    let result = openflow::append(&mut message, encode);
    debug_assert!(result.is_ok(), "OpenFlow 1.3 has each of them");
    message
}

fn closed(why: &str) -> Closed {
    Closed::Protocol { protocol: "hardware_vtep", why: why.to_owned() }
}
