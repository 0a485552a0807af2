//! What the network tells an application.

use openflow::{Dpid, MacAddr, PortNo, Version};

use crate::abi::{self, Record, RecordKind, Refusal};

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

impl PacketIn<'_> {
    /// Whether `data` is the whole packet.
    pub fn is_whole(&self) -> bool {
        self.data.len() >= usize::from(self.total_len)
    }

    /// Destination and source of the Ethernet frame; `None` if it is too short to have them.
    pub fn addresses(&self) -> Option<(MacAddr, MacAddr)> {
        let (eth_dst, rest) = self.data.split_first_chunk::<6>()?;
        let (eth_src, _) = rest.split_first_chunk::<6>()?;
        Some((MacAddr(*eth_dst), MacAddr(*eth_src)))
    }
}

impl<'a> Event<'a> {
    /// From a record; `None` if it is of a kind that is not known here, or broken.
    pub(crate) fn of(record: &Record, body: &'a [u8]) -> Option<Self> {
        let is = |kind: RecordKind| record.kind == kind as u16;
        if is(RecordKind::SnapshotBegin) {
            return Some(Self::SnapshotBegin);
        }
        if is(RecordKind::SnapshotEnd) {
            return Some(Self::SnapshotEnd);
        }
        let switch = Switch {
            dpid: Dpid(record.dpid),
            epoch: record.epoch,
            version: Version::from_wire(record.version).ok()?,
        };
        if is(RecordKind::PacketIn) {
            let start = usize::from(record.data_offset);
            let data = body.get(start..start + usize::from(record.data_size))?;
            return Some(Self::PacketIn(PacketIn {
                switch,
                in_port: PortNo(record.in_port),
                buffer_id: (record.buffer_id != u32::MAX).then_some(record.buffer_id),
                reason: record.reason,
                table_id: record.table_id,
                cookie: record.cookie,
                data,
                total_len: record.total_len,
                message: body,
                repeated: record.flags & abi::REPEATED != 0,
            }));
        }
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
        let why = Refusal::from_wire(record.reason);
        is(RecordKind::Refused).then_some(Self::Refused { switch, why, message: body })
    }
}
