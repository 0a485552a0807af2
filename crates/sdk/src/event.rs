//! What the network tells an application.

use openflow::{
    DecodeError, Dpid, ErrorMessage, FlowRemovedReason, Kind, MacAddr, MultipartReply, PortNo,
    QueueConfig, SwitchConfig, Version,
};

use crate::abi::{self, Record, RecordKind, Refusal};
use crate::alert::Alert;
use crate::network::Xid;
use crate::services::{Outcome, RequestId, Service, Unavailable, broker, storage};

/// A connected switch, as messages to it need it: events carry it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Switch {
    /// Its datapath identifier.
    pub dpid: Dpid,
    /// Which of its connections; a message for a past one is refused.
    pub epoch: u32,
    /// The OpenFlow version that it speaks.
    pub version: Version,
}

impl Switch {
    /// Of whom a record tells; `None` if its version is not known here.
    #[inline]
    fn of(record: &Record) -> Option<Self> {
        let version = Version::from_wire(record.version).ok()?;
        Some(Self { dpid: Dpid(record.dpid), epoch: record.epoch, version })
    }
}

/// What the network tells an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Forget all that you knew of switches and ports: what follows is all there is. The first
    /// event of every start, and of every kernel.
    SnapshotBegin,
    /// The snapshot is complete.
    SnapshotEnd,
    /// A switch is connected, or its state is told anew: its ports follow.
    SwitchUp(Switch),
    /// A switch is gone.
    SwitchDown(Switch),
    /// A port appeared, changed or went.
    Port {
        /// Its switch.
        switch: Switch,
        /// What happened to it.
        change: PortChange,
        /// As it is now, or was last.
        port: Port,
    },
    /// A packet reached the controller.
    PacketIn(PacketIn<'a>),
    /// A message that this application sent did not go out.
    Refused {
        /// The switch it was for.
        switch: Switch,
        /// Why; `None` for a reason that this SDK does not know.
        why: Option<Refusal>,
        /// Its first bytes, at most 64.
        message: &'a [u8],
    },
    /// A switch answered a request of this application.
    Reply(Reply<'a>),
    /// A switch could not do what this application sent.
    Error(SwitchError<'a>),
    /// A flow of this application is gone; told of those that were added with
    /// `FlowModFlags::SEND_FLOW_REM`.
    FlowRemoved(FlowRemoved<'a>),
    /// So many replies, errors and flow-removed messages did not reach this application: there was
    /// no room for them, it was away, or the switch did not answer for too long. A reply of
    /// which a part is missing counts once, and ends there.
    Lost(u64),
    /// This application uses more than its soft limit of something, or as much as its hard one.
    Alert(Alert),
    /// A service that is named for this application is there, for the first time or anew: watches
    /// and requests that were made before are over.
    ServiceUp(Service),
    /// The storage answered.
    Storage {
        /// What was asked.
        request: RequestId,
        /// What it says.
        answer: Result<storage::Answer<'a>, Unavailable>,
    },
    /// The broker answered.
    Broker {
        /// What was asked.
        request: RequestId,
        /// What it says.
        answer: Result<broker::Answer<'a>, Unavailable>,
    },
}

/// What happened to a port (OpenFlow 1.3.5 §7.4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortChange {
    /// It is there now.
    Added,
    /// It is not there any more.
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
    /// Whether packets can leave by it: neither switched off (`OFPPC_PORT_DOWN`) nor without a
    /// link (`OFPPS_LINK_DOWN`).
    pub fn is_up(&self) -> bool {
        self.config & 1 == 0 && self.state & 1 == 0
    }
}

/// A packet that a switch handed to the controller (OpenFlow 1.3.5 §7.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketIn<'a> {
    /// The switch that sent it.
    pub switch: Switch,
    /// The port it came in by.
    pub in_port: PortNo,
    /// The switch's own copy of it, if it kept one.
    pub buffer_id: Option<u32>,
    /// Why it was sent: `OFPR_*`.
    pub reason: u8,
    /// The table that sent it.
    pub table_id: u8,
    /// The cookie of the flow that sent it; all ones in OpenFlow 1.0.
    pub cookie: u64,
    /// The packet, from its Ethernet header on, or its beginning.
    pub data: &'a [u8],
    /// Bytes the packet had at the switch.
    pub total_len: u16,
    /// The OpenFlow message as the switch sent it.
    pub message: &'a [u8],
    /// An instance that died before may have seen it already.
    pub repeated: bool,
}

impl<'a> PacketIn<'a> {
    /// From its record; `None` if that is another's, or broken.
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

    /// Whether `data` is the whole packet.
    pub fn is_whole(&self) -> bool {
        self.data.len() >= usize::from(self.total_len)
    }

    /// Destination and source of the Ethernet frame; `None` if it is too short to have them.
    #[inline]
    pub fn addresses(&self) -> Option<(MacAddr, MacAddr)> {
        let (eth_dst, rest) = self.data.split_first_chunk::<6>()?;
        let (eth_src, _) = rest.split_first_chunk::<6>()?;
        Some((MacAddr(*eth_dst), MacAddr(*eth_src)))
    }
}

/// An answer of a switch, or a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Who answers.
    pub switch: Switch,
    /// The request's transaction id.
    pub xid: Xid,
    /// Multipart, barrier, configuration or queue configuration reply, or an experimenter's message.
    pub kind: Kind,
    /// The OpenFlow message. Priorities, groups and meters in it are those on the switch, see
    /// [`Network::own_priority`](crate::Network::own_priority); cookies of this application's
    /// flows have its 48 bits.
    pub message: &'a [u8],
}

impl<'a> Reply<'a> {
    /// The statistics or descriptions in it, and whether more follow.
    ///
    /// # Errors
    /// It is another kind of reply, or malformed.
    pub fn multipart(&self) -> Result<MultipartReply<'a>, DecodeError> {
        MultipartReply::decode(self.message)
    }

    /// The switch's configuration.
    ///
    /// # Errors
    /// It is another kind of reply, or malformed.
    pub fn config(&self) -> Result<SwitchConfig, DecodeError> {
        SwitchConfig::decode(self.message)
    }

    /// A port's queues.
    ///
    /// # Errors
    /// It is another kind of reply, or malformed.
    pub fn queue_config(&self) -> Result<QueueConfig, DecodeError> {
        QueueConfig::decode(self.message)
    }
}

/// What a switch could not do, of what this application sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchError<'a> {
    /// Who could not.
    pub switch: Switch,
    /// The transaction id of what was sent.
    pub xid: Xid,
    /// Why; its data is the beginning of what was sent, as this application sent it.
    pub error: ErrorMessage<'a>,
    /// The OpenFlow message.
    pub message: &'a [u8],
}

/// A flow of this application that is gone (OpenFlow 1.3.5 §7.4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowRemoved<'a> {
    /// The switch that had it.
    pub switch: Switch,
    /// Its cookie.
    pub cookie: u64,
    /// Why it went.
    pub reason: FlowRemovedReason,
    /// Its table; 0 in OpenFlow 1.0.
    pub table_id: u8,
    /// The OpenFlow message.
    pub message: &'a [u8],
}

impl FlowRemoved<'_> {
    /// All that was told of it. The priority is that on the switch, see
    /// [`Network::own_priority`](crate::Network::own_priority).
    ///
    /// # Errors
    /// It is malformed, which the kernel has excluded.
    pub fn decode(&self) -> Result<openflow::FlowRemoved, DecodeError> {
        openflow::FlowRemoved::decode(self.message)
    }
}

impl<'a> Event<'a> {
    /// From a record about a service; the service's number is where other records have a reason, what
    /// came of the request where they have a table.
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
        })
    }

    /// From a record; `None` if it is of a kind that is not known here, or broken.
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
        if is(RecordKind::Alert) {
            return Some(Self::Alert(Alert::of(record, body)?));
        }
        let switch = Switch::of(record)?;
        if is(RecordKind::SwitchUp) {
            return Some(Self::SwitchUp(switch));
        }
        if is(RecordKind::SwitchDown) {
            return Some(Self::SwitchDown(switch));
        }
        if is(RecordKind::Port) {
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
            return Some(Self::Port { switch, change, port });
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
        let why = Refusal::from_wire(record.reason);
        is(RecordKind::Refused).then_some(Self::Refused { switch, why, message: body })
    }
}

/// A service's answer, if there is one; `None` if it cannot be read.
fn read<'a, T>(
    body: Option<&'a [u8]>,
    decode: impl Fn(&'a [u8]) -> Option<T>,
) -> Option<Result<T, Unavailable>> {
    match body {
        Some(body) => decode(body).map(Ok),
        None => Some(Err(Unavailable)),
    }
}
