//! Tests an application without processes: [`Bench`] feeds it events and returns the messages that it sends.

use std::collections::BTreeMap;

use openflow::{Dpid, MacAddr, PortNo, Version};
use routes::Collector;
use series::{Limits, Series};

use crate::abi::host::{Answer, Failed, Host, HostedApp, LoadError, WholeRecord};
use crate::abi::{Level, PORT_SIZE, Port, RECORD_HEAD, Record, RecordKind};
use crate::changes::{CHANGE_SET, CommitId, Committed, divide};
use crate::http::{Request, Response};
use crate::services::table::{Change, EMPTY, NewsKind, Slot, Table as _};
use crate::services::{AskError, Outcome, RequestId, Service};
use crate::serving::{ClientId, ClientNews, ClientRequest};
use crate::{App, NotApplied, Switch};

/// A message that the application sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The datapath that it is for.
    pub dpid: Dpid,
    /// The number of the datapath's connection.
    pub epoch: u32,
    /// The OpenFlow message.
    pub message: Vec<u8>,
}

/// A change set that the application sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentChanges {
    /// The datapath that it is for.
    pub dpid: Dpid,
    /// The number of the datapath's connection.
    pub epoch: u32,
    /// The number of the set.
    pub commit: CommitId,
    /// The OpenFlow messages.
    pub messages: Vec<Vec<u8>>,
}

/// A request that the application sent to a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRequest {
    /// The service.
    pub service: Service,
    /// The request's number.
    pub id: RequestId,
    /// The request.
    pub request: Vec<u8>,
}

/// The former name of [`ServiceRequest`].
#[deprecated = "use `ServiceRequest`"]
pub type Asked = ServiceRequest;

/// The host of an application on a bench: it records messages and log lines.
#[derive(Debug, Default)]
pub struct Recorder {
    room: Vec<u8>,
    sent: Vec<Sent>,
    commits: Vec<SentChanges>,
    stopped: Vec<usize>,
    log: Vec<String>,
    asked: Vec<ServiceRequest>,
    last_request: u64,
    /// Bytes of messages that there is room for.
    left: usize,
    config: String,
    most_in_a_series: usize,
    tables: BTreeMap<Service, Vec<Slot>>,
    published: BTreeMap<u32, Slot>,
    answers: Vec<ClientAnswer>,
    incidents: Vec<(String, String)>,
    problem: Option<String>,
}

/// An answer of the application to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAnswer {
    /// The request.
    pub request: ClientRequest,
    /// Whether a further answer to the request follows.
    pub more: bool,
    /// The answer.
    pub body: Vec<u8>,
}

impl Recorder {
    /// Makes a recorder with this configuration for the application.
    pub fn with_config(config: &str) -> Self {
        Self { config: config.to_owned(), ..Self::default() }
    }
}

/// The limits of an application that may send everything.
struct AllAllowed;

impl Limits for AllAllowed {
    fn may_output(&self, _: PortNo) -> bool {
        true
    }

    fn may_send(&self, _: PortNo, _: PortNo, _: &[u8]) -> bool {
        true
    }
}

impl Host for Recorder {
    fn reserve(&mut self, size: usize) -> Option<&mut [u8]> {
        self.room = vec![0; size];
        (size <= self.left).then_some(&mut self.room)
    }

    fn commit(&mut self, dpid: u64, epoch: u32, size: usize, series: u32) -> bool {
        let Some(said) = self.room.get(..size) else { return false };
        self.left -= size;
        let sent = |message| Sent { dpid: Dpid(dpid), epoch, message };
        if series == 0 {
            self.sent.push(sent(said.to_vec()));
            return true;
        }
        if series == CHANGE_SET {
            let Some((commit, ranges)) = divide(said) else {
                self.log.push("Warn: the kernel would refuse this change set".into());
                return true;
            };
            let messages = ranges.into_iter().map(|range| said[range].to_vec()).collect();
            self.commits.push(SentChanges { dpid: Dpid(dpid), epoch, commit, messages });
            return true;
        }
        match Series::read(said, series) {
            Some(series) => {
                let (mut out, mut messages) = (Vec::new(), 0);
                let sent = |message: &[u8]| sent(message.to_vec());
                series.expand(&AllAllowed, &mut out, |expanded, bytes| {
                    messages += expanded.count as usize;
                    if expanded.problem.is_none() {
                        self.sent.extend(bytes.chunks_exact(expanded.size).map(sent));
                    }
                });
                self.most_in_a_series = self.most_in_a_series.max(messages);
            }
            None => self.log.push("Warn: the kernel would refuse this series".into()),
        }
        true
    }

    fn room(&self) -> usize {
        self.left
    }

    fn band(&self) -> (u16, u16) {
        (1, u16::MAX)
    }

    fn groups(&self) -> (u32, u32) {
        (1 << 16, (1 << 16) + 0xffff)
    }

    fn meters(&self) -> (u32, u32) {
        (1 << 8, (1 << 8) + 0xff)
    }

    fn config(&self) -> &[u8] {
        self.config.as_bytes()
    }

    fn stop(&mut self, number: usize) {
        self.stopped.push(number);
    }

    fn log(&mut self, level: Level, text: &str) {
        self.log.push(format!("{level:?}: {text}"));
    }

    fn ask(&mut self, service: Service, request: &[u8]) -> Result<RequestId, AskError> {
        self.last_request += 1;
        let id = RequestId(self.last_request);
        self.asked.push(ServiceRequest { service, id, request: request.to_vec() });
        Ok(id)
    }

    fn read_table(&self, service: Service, first: u32, records: &mut [Slot]) -> Option<u64> {
        let table = self.tables.get(&service)?;
        for (slot, record) in (first..).zip(records) {
            *record = table.read(slot);
        }
        Some(0)
    }

    fn publish(&mut self, slot: u32, record: &Slot) -> bool {
        let is_empty = *record == EMPTY;
        if is_empty {
            self.published.remove(&slot)
        } else {
            self.published.insert(slot, *record)
        };
        true
    }

    fn answer(&mut self, request: ClientRequest, more: bool, body: &[u8]) {
        self.answers.push(ClientAnswer { request, more, body: body.to_vec() });
    }

    fn report_incident(&mut self, summary: &str, evidence: &str) {
        self.incidents.push((summary.to_owned(), evidence.to_owned()));
    }

    fn set_problem(&mut self, text: &str) {
        self.problem = (!text.is_empty()).then(|| text.to_owned());
    }
}

/// An application on a bench.
#[derive(Debug)]
pub struct Bench {
    app: HostedApp<Recorder>,
    now_ns: u64,
    /// Bytes of messages that there is room for in each batch.
    pub room: usize,
}

impl Bench {
    /// Creates the application.
    ///
    /// # Panics
    /// If it cannot be created.
    pub fn new<A: App>() -> Self {
        Self::of(HostedApp::linked::<A>(Recorder::default()).expect("the app is created"))
    }

    /// Creates the application with a configuration.
    ///
    /// # Errors
    /// Why the application does not accept the configuration.
    pub fn configured<A: App>(config: &str) -> Result<Self, LoadError> {
        HostedApp::linked::<A>(Recorder::with_config(config)).map(Self::of)
    }

    /// Takes an application that was loaded from an object.
    pub fn of(app: HostedApp<Recorder>) -> Self {
        Self { app, now_ns: 0, room: 1 << 20 }
    }

    /// Returns the number of messages of the longest series so far.
    pub fn most_in_a_series(&mut self) -> usize {
        self.app.host().most_in_a_series
    }

    /// Makes a switch for events.
    pub fn switch(dpid: u64, version: Version) -> Switch {
        Switch { dpid: Dpid(dpid), epoch: 1, version }
    }

    /// Calls the application with records; returns its answer and messages.
    ///
    /// # Errors
    /// [`Failed`]: the application panicked.
    pub fn batch(&mut self, records: &[AlignedRecord]) -> Result<(Answer, Vec<Sent>), Failed> {
        self.app.host().left = self.room;
        self.now_ns += 1_000_000;
        let records = records.iter().map(AlignedRecord::bytes).map(WholeRecord::of);
        let answer = self.app.on_batch(self.now_ns, records)?;
        Ok((answer, std::mem::take(&mut self.app.host().sent)))
    }

    /// Calls the application with one record; returns its messages.
    ///
    /// # Panics
    /// If the application panics or does not handle the record.
    pub fn event(&mut self, record: AlignedRecord) -> Vec<Sent> {
        let (answer, sent) = self.batch(&[record]).expect("the app goes on");
        assert_eq!(answer.handled, 1, "the record was handled");
        sent
    }

    /// Returns the change sets that the application sent. Their messages are not among those of [`batch`](Self::batch).
    pub fn commits(&mut self) -> Vec<SentChanges> {
        std::mem::take(&mut self.app.host().commits)
    }

    /// Returns the numbers, in their batches, of the records that the application stopped.
    pub fn stopped(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.app.host().stopped)
    }

    /// Returns the requests that the application sent to services.
    pub fn asked(&mut self) -> Vec<ServiceRequest> {
        std::mem::take(&mut self.app.host().asked)
    }

    /// Sets the table of a service, which the application reads from now on. [`AlignedRecord::table`] notifies it.
    pub fn set_table(&mut self, service: Service, table: Vec<Slot>) {
        self.app.host().tables.insert(service, table);
    }

    /// Returns the records that the application publishes now, by their slots.
    pub fn published(&mut self) -> &BTreeMap<u32, Slot> {
        &self.app.host().published
    }

    /// Returns the answers that the application gave to its clients.
    pub fn answers(&mut self) -> Vec<ClientAnswer> {
        std::mem::take(&mut self.app.host().answers)
    }

    /// Sends an HTTP request to the application. Returns its answer; `None` if it has given none yet.
    ///
    /// # Panics
    /// If the application panics, or its answer or the request is not valid.
    pub fn http(&mut self, method: &str, target: &str, body: &[u8]) -> Option<Response> {
        let record = AlignedRecord::http(
            ClientRequest { client: ClientId(0), id: 0 },
            &Request::encode(method, target, &[], body).expect("a short request"),
        );
        self.event(record);
        let (mut collector, mut response) = (Collector::default(), None);
        for answer in self.answers() {
            response = collector.add(&answer.body, answer.more).expect("a valid answer");
        }
        response
    }

    /// Returns the incidents that the application reported: summary and evidence.
    pub fn incidents(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.app.host().incidents)
    }

    /// Returns what keeps the application from doing its work, as it has stated.
    pub fn problem(&mut self) -> Option<String> {
        self.app.host().problem.clone()
    }

    /// Returns the lines that the application logged.
    pub fn log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.app.host().log)
    }
}

/// A record, aligned as in a ring.
#[derive(Debug)]
pub struct AlignedRecord {
    /// The record, after the bytes that alignment needs.
    bytes: Vec<u8>,
    start: usize,
}

impl AlignedRecord {
    /// Makes a record of a head and a body; fills in the sizes in the head.
    ///
    /// # Panics
    /// If the body is longer than an OpenFlow message.
    pub fn new(mut record: Record, body: &[u8]) -> Self {
        let size = RECORD_HEAD + body.len();
        record.size = u32::try_from(size).expect("a short body");
        record.body_size = u16::try_from(body.len()).expect("a short body");
        let mut bytes = vec![0; size + size_of::<u64>()];
        let start = bytes.as_ptr().align_offset(size_of::<u64>());
        bytes.truncate(start + size);
        let (head, rest) = bytes[start..].split_at_mut(RECORD_HEAD);
        for (place, word) in head.chunks_exact_mut(8).zip(record.words()) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        rest.copy_from_slice(body);
        Self { bytes, start }
    }

    /// Makes an event without a body.
    pub fn about(kind: RecordKind, switch: Switch) -> Self {
        Self::new(Record::new(kind, switch.version.wire(), switch.dpid.0, switch.epoch), &[])
    }

    /// Makes a packet-in of a whole, unbuffered frame. Its body is only the frame.
    ///
    /// # Panics
    /// If the frame is longer than an OpenFlow message.
    pub fn packet_in(switch: Switch, in_port: PortNo, frame: &[u8]) -> Self {
        let size = u16::try_from(frame.len()).expect("a short frame");
        let head = Record {
            in_port: in_port.0,
            data_size: size,
            total_len: size,
            ..Record::new(RecordKind::PacketIn, switch.version.wire(), switch.dpid.0, switch.epoch)
        };
        Self::new(head, frame)
    }

    /// States the size of the whole packet. The frame is its beginning.
    #[must_use]
    pub fn of_total(mut self, size: u16) -> Self {
        let at = self.start + std::mem::offset_of!(Record, total_len);
        self.bytes[at..at + 2].copy_from_slice(&size.to_le_bytes());
        self
    }

    /// States the buffer in which the switch keeps the packet.
    #[must_use]
    pub fn with_buffer(mut self, buffer_id: u32) -> Self {
        let at = self.start + std::mem::offset_of!(Record, buffer_id);
        self.bytes[at..at + 4].copy_from_slice(&buffer_id.to_le_bytes());
        self
    }

    /// Makes a port event; `reason` is `OFPPR_*`, `state` `OFPPS_*`.
    pub fn port(switch: Switch, reason: u8, port_no: PortNo, state: u32) -> Self {
        let port = Port {
            port_no: port_no.0,
            config: 0,
            state,
            hw_addr: MacAddr([2, 0, 0, 0, 0, 1]).0,
            reserved: [0; 2],
            name: *b"port\0\0\0\0\0\0\0\0\0\0\0\0",
            curr_speed: 0,
            reserved2: [0; 2],
        };
        let body: [u8; PORT_SIZE] = port.to_bytes();
        let head = Record {
            reason,
            ..Record::new(RecordKind::Port, switch.version.wire(), switch.dpid.0, switch.epoch)
        };
        Self::new(head, &body)
    }

    /// Makes a reply or an error of a whole OpenFlow message.
    ///
    /// # Panics
    /// If the message is longer than an OpenFlow message.
    pub fn answer(kind: RecordKind, switch: Switch, message: &[u8]) -> Self {
        let head = Record::new(kind, switch.version.wire(), switch.dpid.0, switch.epoch);
        Self::new(head, message)
    }

    /// Makes a flow-removed event of a whole OpenFlow message.
    ///
    /// # Panics
    /// If the message is longer than an OpenFlow message.
    pub fn flow_removed(switch: Switch, cookie: u64, reason: u8, message: &[u8]) -> Self {
        let head = Record {
            cookie,
            reason,
            ..Record::new(
                RecordKind::FlowRemoved,
                switch.version.wire(),
                switch.dpid.0,
                switch.epoch,
            )
        };
        Self::new(head, message)
    }

    /// Makes an event of a service.
    ///
    /// # Panics
    /// If the answer is longer than an OpenFlow message.
    pub fn service(service: Service, outcome: Outcome, request: RequestId, body: &[u8]) -> Self {
        let mut head = Record::new(RecordKind::Service, 0, 0, 0);
        head.cookie = request.0;
        (head.reason, head.table_id) = (service as u8, outcome as u8);
        Self::new(head, body)
    }

    /// Makes news of a service's table.
    pub fn table(service: Service, kind: NewsKind, changes: &[Change]) -> Self {
        let mut head = Record::new(RecordKind::Table, 0, 0, 0);
        (head.reason, head.table_id) = (service as u8, kind as u8);
        let body: Vec<u8> = changes.iter().flat_map(Change::to_bytes).collect();
        Self::new(head, &body)
    }

    /// Makes an event about a client: its kind, the client, the number of its application, the request and the body.
    pub fn client(kind: ClientNews, request: ClientRequest, app: u16, body: &[u8]) -> Self {
        let mut head = Record::new(RecordKind::Client, 0, request.client.0, u32::from(app));
        (head.reason, head.cookie) = (kind as u8, request.id);
        Self::new(head, body)
    }

    /// Makes an HTTP request: its number, and its [encoding](Request::encode).
    pub fn http(id: ClientRequest, request: &[u8]) -> Self {
        let mut head = Record::new(RecordKind::Http, 0, id.client.0, 0);
        head.cookie = id.id;
        Self::new(head, request)
    }

    /// Makes the outcome of a change set.
    ///
    /// # Panics
    /// If a message of the kernel cannot hold the error of the outcome.
    pub fn committed(committed: &Committed<'_>) -> Self {
        let Switch { dpid, epoch, version } = committed.switch;
        let mut head = Record::new(RecordKind::Committed, version.wire(), dpid.0, epoch);
        let text = committed.write(&mut head).unwrap_or_default();
        let mut body = text.as_bytes().to_vec();
        if let Err(NotApplied::Failed { error, .. }) = committed.outcome {
            openflow::append(&mut body, |out| error.encode(committed.commit.0, out))
                .expect("a short error");
        }
        Self::new(head, &body)
    }

    /// Makes an event about this number of lost answers.
    pub fn lost(count: u64) -> Self {
        Self::new(Record::new(RecordKind::Lost, 0, 0, 0), &count.to_le_bytes())
    }

    /// Returns the record.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}
