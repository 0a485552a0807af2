//! Defines the events that an application gets: [`Event`].

use std::fmt;

use openflow::{
    DecodeError, Dpid, ErrorMessage, FlowRemovedReason, Kind, MacAddr, MultipartReply, PortNo,
    QueueConfig, SwitchConfig, Version,
};

use crate::abi::{self, Record, RecordKind, Refusal};
use crate::alert::Alert;
use crate::changes::Committed;
use crate::http::{HttpRequest, Request};
use crate::learned::LearnedHost;
use crate::network::Xid;
use crate::services::table::{NewsKind, TableNews};
use crate::services::{Outcome, RequestId, Service, Unavailable, broker, storage};
use crate::serving::{ClientEvent, ClientId, ClientRequest};

/// A connected switch. Events carry it, and messages to the switch name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Switch {
    /// Its datapath identifier.
    pub dpid: Dpid,
    /// The number of its connection; the kernel refuses a message for an earlier connection.
    pub epoch: u32,
    /// The OpenFlow version that it speaks.
    pub version: Version,
}

impl Switch {
    /// Returns the switch of a record, or `None` if this SDK does not know its version.
    #[inline]
    fn of(record: &Record) -> Option<Self> {
        let version = Version::from_wire(record.version).ok()?;
        Some(Self { dpid: Dpid(record.dpid), epoch: record.epoch, version })
    }
}

/// Something that happened in the network, or that a service answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A snapshot begins: the events up to [`SnapshotEnd`](Self::SnapshotEnd) list all switches and ports, and the
    /// application forgets those that it knew. The first event of every start, and of every kernel.
    SnapshotBegin,
    /// The snapshot is complete.
    SnapshotEnd,
    /// A switch is connected, or its state is repeated; its ports follow.
    SwitchUp(Switch),
    /// A switch has disconnected. It answers no earlier request any more.
    SwitchDown(Switch),
    /// A port was added, changed or deleted.
    Port {
        /// Its switch.
        switch: Switch,
        /// What happened to it.
        change: PortChange,
        /// Its present state, or the last one if it was deleted.
        port: Port,
    },
    /// A packet reached the controller.
    PacketIn(PacketIn<'a>),
    /// The kernel refused a message of this application.
    Refused {
        /// The switch that it was for.
        switch: Switch,
        /// The reason; `None` if this SDK does not know it.
        why: Option<Refusal>,
        /// The first bytes of the message, at most 64.
        message: &'a [u8],
        /// The kind of the message, the missing capability and the line of the configuration that grants it; `None` if
        /// no capability would admit the message, and for all but some of many refusals.
        remedy: Option<&'a str>,
    },
    /// A switch answered a request of this application.
    Reply(Reply<'a>),
    /// A switch answered a message of this application with an error.
    Error(SwitchError<'a>),
    /// A switch removed a flow of this application that was added with `FlowModFlags::SEND_FLOW_REM`.
    FlowRemoved(FlowRemoved<'a>),
    /// The switch has lost flows, most likely all: someone deleted them. An application that needs its flows there adds
    /// them again. Guards get this event first. The kernel refuses flows of others ([`Refusal::Healing`]) until the guards
    /// have handled it, at most for a second; then the others get it, too.
    FlowsMissing(Switch),
    /// Flows of this application that a switch has, some time after the switch, the application or the kernel has started.
    /// Only for applications with the capabilities `flow.write` and `stats.read`.
    FlowsKept(FlowsKept<'a>),
    /// A switch that sends no packet-ins has learned a host by itself, or has forgotten one. Only for applications that receive
    /// packet-ins of the switch, since those say the same.
    Host(LearnedHost),
    /// The request is not answered any more. The switch may or may not have carried it out. After a restart of the kernel,
    /// each request without a whole reply gets one such event, after the new kernel's snapshot.
    RequestLost {
        /// The switch of the request, on its connection at that time.
        switch: Switch,
        /// The request's transaction id.
        xid: Xid,
        /// The reason.
        why: LostRequest,
    },
    /// The outcome of a change set that this application sent with [`Network::commit`](crate::Network::commit). It does not
    /// come if the switch disconnects or the kernel ends before; then the set was applied wholly, partly or not at all.
    Committed(Committed<'a>),
    /// This number of replies, errors, outcomes of change sets and flow-removed messages were lost: there was no room for them, the application
    /// was restarting, or the switch did not answer in time. A reply that misses a part counts once; its later parts are
    /// not delivered.
    Lost(u64),
    /// This application exceeds a soft limit or has reached a hard one.
    Alert(Alert),
    /// A service of this application has started or restarted. Its earlier watches and requests have ended.
    ServiceUp(Service),
    /// The storage answered a request, or ended before it did.
    Storage {
        /// The request.
        request: RequestId,
        /// The answer.
        answer: Result<storage::Answer<'a>, Unavailable>,
    },
    /// The broker answered a request, or ended before it did.
    Broker {
        /// The request.
        request: RequestId,
        /// The answer.
        answer: Result<broker::Answer<'a>, Unavailable>,
    },
    /// The table of a service of this application was attached, or changed.
    Table(TableNews<'a>),
    /// Another service answered a request, or ended before it did.
    Served {
        /// The service.
        service: Service,
        /// The request.
        request: RequestId,
        /// The answer, in the format of the service.
        answer: Result<&'a [u8], Unavailable>,
    },
    /// A client of the service that this application provides did something.
    Client(ClientEvent<'a>),
    /// An HTTP request to this application. [`App::on_batch`](crate::App::on_batch) passes it to
    /// [`on_http_request`](crate::App::on_http_request) and not to `on_event`.
    Http(HttpRequest<'a>),
}

/// What happened to a port (OpenFlow 1.3.5 §7.4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortChange {
    /// It was added.
    Added,
    /// It was deleted.
    Deleted,
    /// Its state or configuration changed.
    Modified,
}

/// A port of a switch (OpenFlow 1.3.5 §7.2.1), its bits as in 1.3 in every version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// Its number.
    pub port_no: PortNo,
    /// Its hardware address.
    pub hw_addr: MacAddr,
    /// Its name, filled with NULs.
    pub name: [u8; 16],
    /// `OFPPC_*` bits.
    pub config: u32,
    /// `OFPPS_*` bits.
    pub state: u32,
    /// Its speed in kbit/s; 0 if not known.
    pub curr_speed: u32,
}

impl Port {
    /// Returns whether packets can leave through the port: it is neither switched off (`OFPPC_PORT_DOWN`) nor without a
    /// link (`OFPPS_LINK_DOWN`).
    pub fn is_up(&self) -> bool {
        self.config & 1 == 0 && self.state & 1 == 0
    }
}

/// A packet that a switch sent to the controller (OpenFlow 1.3.5 §7.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketIn<'a> {
    /// The switch that sent it.
    pub switch: Switch,
    /// The port that it came in through.
    pub in_port: PortNo,
    /// The buffer in which the switch keeps it, if it does.
    pub buffer_id: Option<u32>,
    /// The reason, `OFPR_*`.
    pub reason: u8,
    /// The table that sent it.
    pub table_id: u8,
    /// The cookie of the flow that sent it; all ones in OpenFlow 1.0.
    pub cookie: u64,
    /// The packet from its Ethernet header on, or only its beginning.
    pub data: &'a [u8],
    /// The size of the packet at the switch, in bytes.
    pub total_len: u16,
    /// The OpenFlow message as the switch sent it.
    pub message: &'a [u8],
    /// An earlier instance of this application may have handled it before it died.
    pub repeated: bool,
}

impl<'a> PacketIn<'a> {
    /// Reads a record, or returns `None` if it is of another kind or malformed.
    #[inline]
    pub(crate) fn of(record: &Record, body: &'a [u8]) -> Option<Self> {
        if record.kind != RecordKind::PacketIn as u16 {
            return None;
        }
        let start = usize::from(record.data_offset);
        Some(Self {
            switch: Switch::of(record)?,
            in_port: PortNo(record.in_port),
            buffer_id: (record.buffer_id != u32::MAX).then_some(record.buffer_id),
            reason: record.reason,
            table_id: record.table_id,
            cookie: record.cookie,
            data: body.get(start..start + usize::from(record.data_size))?,
            total_len: record.total_len,
            message: body,
            repeated: record.flags & abi::REPEATED != 0,
        })
    }

    /// Returns whether `data` is the whole packet.
    pub fn is_whole(&self) -> bool {
        self.data.len() >= usize::from(self.total_len)
    }

    /// Returns the destination and source of the Ethernet frame, or `None` if it is too short.
    #[inline]
    pub fn addresses(&self) -> Option<(MacAddr, MacAddr)> {
        let (eth_dst, rest) = self.data.split_first_chunk::<6>()?;
        let (eth_src, _) = rest.split_first_chunk::<6>()?;
        Some((MacAddr(*eth_dst), MacAddr(*eth_src)))
    }
}

/// A reply of a switch, or a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The switch that replies.
    pub switch: Switch,
    /// The request's transaction id.
    pub xid: Xid,
    /// The kind: multipart, barrier, configuration or queue configuration reply, or an experimenter's message.
    pub kind: Kind,
    /// The OpenFlow message. Its priorities, groups and meters have the switch's numbers, which
    /// [`Network::own_priority`](crate::Network::own_priority) and its neighbours convert. Cookies of this application's
    /// flows are as it wrote them, 48 bits.
    pub message: &'a [u8],
}

impl<'a> Reply<'a> {
    /// Decodes statistics or descriptions, and whether more parts follow.
    ///
    /// # Errors
    /// The reply is of another kind, or malformed.
    pub fn multipart(&self) -> Result<MultipartReply<'a>, DecodeError> {
        MultipartReply::decode(self.message)
    }

    /// Decodes the switch's configuration.
    ///
    /// # Errors
    /// The reply is of another kind, or malformed.
    pub fn config(&self) -> Result<SwitchConfig, DecodeError> {
        SwitchConfig::decode(self.message)
    }

    /// Decodes the queues of a port.
    ///
    /// # Errors
    /// The reply is of another kind, or malformed.
    pub fn queue_config(&self) -> Result<QueueConfig, DecodeError> {
        QueueConfig::decode(self.message)
    }
}

/// Flows of this application that a switch has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowsKept<'a> {
    /// The switch that has them.
    pub switch: Switch,
    /// In the last part: whether all flows were delivered. Otherwise there was no room for some, or the switch did not
    /// answer.
    pub is_complete: bool,
    /// The OpenFlow message, a multipart reply with flow statistics. Cookies are as this application wrote them.
    pub message: &'a [u8],
}

impl<'a> FlowsKept<'a> {
    /// Decodes the flows, and whether more parts follow. The last part has no flows. Priorities have the switch's numbers,
    /// see [`Network::own_priority`](crate::Network::own_priority).
    ///
    /// A flow that this application wrote before the operator moved its band has priority 0, which is outside of each band.
    /// The kernel removes it 2 s later, so write it again if it is still needed.
    ///
    /// # Errors
    /// The message is malformed. The kernel delivers no such message from a switch that keeps to its protocol.
    pub fn decode(&self) -> Result<MultipartReply<'a>, DecodeError> {
        MultipartReply::decode(self.message)
    }
}

/// An error that a switch sent about a message of this application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchError<'a> {
    /// The switch that sent it.
    pub switch: Switch,
    /// The transaction id of the message that failed.
    pub xid: Xid,
    /// The error; its data is the beginning of the message as this application sent it.
    pub error: ErrorMessage<'a>,
    /// The OpenFlow message.
    pub message: &'a [u8],
}

/// A flow of this application that a switch removed (OpenFlow 1.3.5 §7.4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowRemoved<'a> {
    /// The switch that removed it.
    pub switch: Switch,
    /// Its cookie.
    pub cookie: u64,
    /// Why the switch removed it.
    pub reason: FlowRemovedReason,
    /// Its table; 0 in OpenFlow 1.0.
    pub table_id: u8,
    /// The OpenFlow message.
    pub message: &'a [u8],
}

impl FlowRemoved<'_> {
    /// Decodes the whole message. Its priority has the switch's number, see
    /// [`Network::own_priority`](crate::Network::own_priority).
    ///
    /// # Errors
    /// The message is malformed. The kernel delivers no such message.
    pub fn decode(&self) -> Result<openflow::FlowRemoved, DecodeError> {
        openflow::FlowRemoved::decode(self.message)
    }
}

/// Why a request is not answered any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum LostRequest {
    /// The kernel was restarted.
    Restarted = 0,
    /// The switch has answered with a malformed message, or with one of another type.
    Malformed = 1,
    /// The switch did not answer in time.
    Unanswered = 2,
    /// The switch's answer is longer than 256 MiB. Request less, such as the flows of one table.
    TooLong = 3,
}

impl LostRequest {
    fn of(reason: u8) -> Self {
        match reason {
            1 => Self::Malformed,
            2 => Self::Unanswered,
            3 => Self::TooLong,
            _ => Self::Restarted,
        }
    }
}

impl fmt::Display for LostRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Restarted => "the kernel was restarted",
            Self::Malformed => "the switch's answer is malformed",
            Self::Unanswered => "the switch did not answer in time",
            Self::TooLong => "the switch's answer is longer than 256 MiB; request less",
        })
    }
}

impl<'a> Event<'a> {
    /// Reads a record about a service: `reason` is the service's number, `table_id` the outcome of the request.
    fn of_service(record: &Record, body: &'a [u8]) -> Option<Self> {
        let service = Service::from_number(u32::from(record.reason))?;
        let body = match Outcome::from_number(record.table_id)? {
            Outcome::Up => return Some(Self::ServiceUp(service)),
            Outcome::Answered => Some(body),
            Outcome::Unavailable => None,
        };
        let request = RequestId(record.cookie);
        Some(match service {
            Service::Storage => {
                let answer = read(body, storage::Answer::decode)?;
                Self::Storage { request, answer }
            }
            Service::Broker => {
                let answer = read(body, broker::Answer::decode)?;
                Self::Broker { request, answer }
            }
            Service::Topology
            | Service::Hosts
            | Service::Stats
            | Service::Apps
            | Service::Ovsdb
            | Service::Operator
            | Service::Ofctl => Self::Served { service, request, answer: body.ok_or(Unavailable) },
        })
    }

    fn of_port(switch: Switch, record: &Record, body: &'a [u8]) -> Option<Self> {
        let port = abi::Port::from_bytes(body.first_chunk()?);
        let change = match record.reason {
            0 => PortChange::Added,
            1 => PortChange::Deleted,
            _ => PortChange::Modified,
        };
        let port = Port {
            port_no: PortNo(port.port_no),
            hw_addr: MacAddr(port.hw_addr),
            name: port.name,
            config: port.config,
            state: port.state,
            curr_speed: port.curr_speed,
        };
        Some(Self::Port { switch, change, port })
    }

    /// Reads the bytes of a record, or returns `None` if it is of an unknown kind or malformed. For hosts that call an
    /// application without the C ABI.
    pub fn of_bytes(record: &'a [u8]) -> Option<Self> {
        let (head, body) = record.split_first_chunk()?;
        Self::of(&Record::from_bytes(head), body)
    }

    /// Reads a record, or returns `None` if it is of an unknown kind or malformed.
    pub(crate) fn of(record: &Record, body: &'a [u8]) -> Option<Self> {
        let is = |kind: RecordKind| record.kind == kind as u16;
        if is(RecordKind::PacketIn) {
            return PacketIn::of(record, body).map(Self::PacketIn);
        }
        if is(RecordKind::SnapshotBegin) {
            return Some(Self::SnapshotBegin);
        }
        if is(RecordKind::SnapshotEnd) {
            return Some(Self::SnapshotEnd);
        }
        if is(RecordKind::Lost) {
            return Some(Self::Lost(u64::from_le_bytes(*body.first_chunk()?)));
        }
        if is(RecordKind::Service) {
            return Self::of_service(record, body);
        }
        if is(RecordKind::Table) {
            let service = Service::from_number(u32::from(record.reason))?;
            let kind = NewsKind::from_number(record.table_id)?;
            return Some(Self::Table(TableNews::new(service, kind, body)));
        }
        if is(RecordKind::Client) {
            let head = (record.reason, record.dpid, record.epoch, record.cookie);
            return ClientEvent::of(head, body).map(Self::Client);
        }
        if is(RecordKind::Http) {
            let id = ClientRequest { client: ClientId(record.dpid), id: record.cookie };
            return Some(Self::Http(HttpRequest { id, request: Request::decode(body)? }));
        }
        if is(RecordKind::Alert) {
            return Some(Self::Alert(Alert::of(record, body)?));
        }
        let switch = Switch::of(record)?;
        if is(RecordKind::SwitchUp) {
            return Some(Self::SwitchUp(switch));
        }
        if is(RecordKind::RequestLost) {
            let (xid, why) = (Xid::of(body)?, LostRequest::of(record.reason));
            return Some(Self::RequestLost { switch, xid, why });
        }
        if is(RecordKind::Committed) {
            return Committed::of(switch, record, body).map(Self::Committed);
        }
        if is(RecordKind::Host) {
            return LearnedHost::of(switch, record, body).map(Self::Host);
        }
        if is(RecordKind::FlowsMissing) {
            return Some(Self::FlowsMissing(switch));
        }
        if is(RecordKind::FlowsKept) {
            let is_complete = record.reason == 0;
            return Some(Self::FlowsKept(FlowsKept { switch, is_complete, message: body }));
        }
        if is(RecordKind::SwitchDown) {
            return Some(Self::SwitchDown(switch));
        }
        if is(RecordKind::Port) {
            return Self::of_port(switch, record, body);
        }
        if is(RecordKind::Reply) {
            let kind = Kind::from_wire(switch.version, *body.get(1)?).ok()?;
            return Some(Self::Reply(Reply { switch, xid: Xid::of(body)?, kind, message: body }));
        }
        if is(RecordKind::Error) {
            let error = ErrorMessage::decode(body).ok()?;
            let xid = Xid::of(body)?;
            return Some(Self::Error(SwitchError { switch, xid, error, message: body }));
        }
        if is(RecordKind::FlowRemoved) {
            return Some(Self::FlowRemoved(FlowRemoved {
                switch,
                cookie: record.cookie,
                reason: FlowRemovedReason::from_wire(record.reason),
                table_id: record.table_id,
                message: body,
            }));
        }
        if !is(RecordKind::Refused) {
            return None;
        }
        let why = Refusal::from_wire(record.reason);
        let (message, remedy) = match usize::from(record.data_offset) {
            0 => (body, None),
            offset => body.split_at_checked(offset).map(|(message, text)| (message, Some(text)))?,
        };
        let remedy = remedy.and_then(|text| std::str::from_utf8(text).ok());
        Some(Self::Refused { switch, why, message, remedy })
    }
}

/// Decodes a service's answer, if there is one; `None` if it is malformed.
fn read<'a, T>(
    body: Option<&'a [u8]>,
    decode: impl Fn(&'a [u8]) -> Option<T>,
) -> Option<Result<T, Unavailable>> {
    match body {
        Some(body) => decode(body).map(Ok),
        None => Some(Err(Unavailable)),
    }
}

#[cfg(test)]
mod tests {
    use openflow::{ReplyBody, append};

    use super::*;

    #[test]
    fn records_about_flows_and_lost_requests_become_events() {
        let head = |kind| Record::new(kind, Version::V1_3.wire(), 7, 2);
        let switch = Switch { dpid: Dpid(7), epoch: 2, version: Version::V1_3 };
        let missing = Event::of(&head(RecordKind::FlowsMissing), &[]);
        assert_eq!(missing, Some(Event::FlowsMissing(switch)));
        let lost = Event::of(&head(RecordKind::RequestLost), &[4, 20, 0, 8, 0, 0, 1, 2]);
        let why = LostRequest::Restarted;
        assert_eq!(lost, Some(Event::RequestLost { switch, xid: Xid(0x102), why }));
        let head = Record { reason: LostRequest::Malformed as u8, ..head(RecordKind::RequestLost) };
        let lost = Event::of(&head, &[4, 18, 0, 8, 0, 0, 1, 2]);
        let why = LostRequest::Malformed;
        assert_eq!(lost, Some(Event::RequestLost { switch, xid: Xid(0x102), why }));
        let head = |kind| Record::new(kind, Version::V1_3.wire(), 7, 2);
        let reply = MultipartReply { more: false, body: ReplyBody::Flow(Vec::new()) };
        let mut message = Vec::new();
        append(&mut message, |out| reply.encode(Version::V1_3, 0, out)).unwrap();
        for (reason, is_complete) in [(0, true), (1, false)] {
            let record = Record { reason, ..head(RecordKind::FlowsKept) };
            let Some(Event::FlowsKept(kept)) = Event::of(&record, &message) else {
                panic!("an event")
            };
            assert_eq!((kept.switch, kept.is_complete), (switch, is_complete));
            assert_eq!(kept.decode(), Ok(reply.clone()));
        }
    }
}
