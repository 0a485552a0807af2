//! Runs the session with one device: an OVSDB client below, an OpenFlow switch above.
//!
//! ```text
//!  bytes --> Client --> image --> Device --> reports
//!  OpenFlow messages --> tasks --> Queue --> transactions --> Client --> bytes
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

use openflow::{Header, Kind};
use ovsdb::{Client, Event as ClientEvent, Operation, TransactionId};

use super::answers::Facts;
use super::cleaning::Cleaning;
use super::device::Device;
use super::hosts::Rotation;
use super::messages::Task;
use super::numbering::Numbers;
use super::refusal::Refusal;
use super::reports::{self, Report, encoded};
use super::rule::Key;
use super::work::{Queue, Step};
use super::{LIMITS, MOST_SESSIONS, OF, SessionCount, schema};
use crate::closed::Closed;
use crate::drivers::openflow::framing;
use crate::session::{self, Inbound, Taken, Timing};

/// Rows of the image that may be read in a tick, on average.
const ROWS_PER_TICK: usize = 4_000;

/// The cost of reading an image beside its rows, in rows.
const READING: usize = 50;

/// How long the database may take for a transaction.
const PATIENCE: Duration = Duration::from_secs(10);

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
    numbers: Numbers,
    /// When each flow was seen first.
    since: BTreeMap<Key, Instant>,
    /// The image has changed since the device was read.
    is_stale: bool,
    /// Rows that may be read; see [`ROWS_PER_TICK`].
    budget: i64,
    queue: Queue,
    in_flight: Option<(TransactionId, Purpose)>,
    probe: Probe,
    inbox: VecDeque<Report>,
    next_xid: u32,
    cleaning: Cleaning,
    rotation: Rotation,
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
            numbers: Numbers::default(),
            since: BTreeMap::new(),
            is_stale: false,
            budget: 0,
            queue: Queue::default(),
            in_flight: None,
            probe: Probe::Answered,
            inbox: VecDeque::new(),
            next_xid: 1,
            cleaning: Cleaning::new(now),
            rotation: Rotation::new(now),
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
                        (Purpose::Cleaning, outcome) => {
                            self.cleaning.finished(self.now, outcome.is_ok());
                        }
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
        let device = Device::read(self.client.image(), &mut self.numbers)
            .map_err(|why| closed(&why.to_string()))?;
        match self.device.take() {
            None => {
                self.inbox.push_back(Report::up(&device));
                self.rotation = Rotation::new(self.now);
            }
            Some(before) if before.dpid != device.dpid => {
                let (old, new) = (before.name, &device.name);
                return Err(closed(&format!(
                    "its name was {old} and is {new} now, so it is another datapath"
                )));
            }
            Some(before) => {
                let before = Facts { device: &before, since: &self.since, now: self.now };
                self.inbox.extend(reports::changes(&before, &device));
            }
        }
        self.since.retain(|key, _| device.entries.contains_key(key));
        for key in device.entries.keys() {
            self.since.entry(*key).or_insert(self.now);
        }
        self.device = Some(device);
        Ok(())
    }

    /// Handles the caller's messages.
    fn outgoing(&mut self, messages: &[u8]) {
        let mut rest = messages;
        while let Ok(Some((message, after))) = framing::cut(rest) {
            rest = after;
            let Ok(header) = Header::decode(message) else { continue };
            let done = Task::of(header, message).and_then(|task| match task {
                Task::None => Ok(()),
                Task::Answer(reply) => {
                    self.inbox.push_back(Report::Message(reply));
                    Ok(())
                }
                Task::Queue(work) => self.queue.push(header.xid, work, message.len()),
            });
            if let Err(refusal) = done {
                self.refuse(header.xid, &refusal);
            }
        }
    }

    fn refuse(&mut self, xid: u32, refusal: &Refusal) {
        self.inbox.push_back(Report::Message(refusal.message(xid)));
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
                    self.inbox.push_back(Report::Message(reply));
                }
                Step::Answer(xid, request) => {
                    self.budget -= i64::try_from(device.entries.len()).unwrap_or(i64::MAX);
                    let facts = Facts { device, since: &self.since, now: self.now };
                    match facts.answer(xid, &request) {
                        Ok(parts) => self.inbox.extend(parts.into_iter().map(Report::Message)),
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
            Err(_) => self.cleaning.finished(self.now, false),
        }
    }

    /// Removes what is not needed, while nothing else happens.
    fn clean(&mut self) {
        if self.is_stale || self.in_flight.is_some() || !self.queue.is_idle() {
            return;
        }
        let Some(device) = &self.device else { return };
        if let Some(operations) = self.cleaning.next(device, self.now) {
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
        let Some(report) = self.inbox.pop_front() else { return Ok(None) };
        let inbound = report.into_inbound(room);
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
        // A caller that is behind gets no further reports.
        if let Some(device) = self.device.as_ref().filter(|_| self.inbox.is_empty()) {
            let reports = self.rotation.next(device, now);
            self.inbox.extend(reports.into_iter().map(Report::Host));
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
        self.inbox.push_back(Report::tables(device));
    }

    fn xids(&mut self, count: u32) -> u32 {
        let xid = self.next_xid;
        self.next_xid = self.next_xid.wrapping_add(count);
        xid
    }
}

fn closed(why: &str) -> Closed {
    Closed::Protocol { protocol: "hardware_vtep", why: why.to_owned() }
}
