//! Finds the entries that a packet takes across the network, and who wrote them.
//!
//! The tables of each switch are read through the kernel when the packet reaches the switch. The links are those of the
//! topology service. No packet is sent.
//!
//! | file | purpose |
//! | --- | --- |
//! | `packet.rs` | the fields of the packet |
//! | `prerequisites.rs` | the ethertype and protocol that its fields need |
//! | `pipeline.rs` | simulates the tables of one switch |
//! | `nicira.rs` | actions, registers and other fields of Open vSwitch |
//! | `way.rs` | follows the packet from switch to switch |

mod nicira;
mod packet;
mod pipeline;
mod prerequisites;
mod way;

use std::collections::HashMap;

use control::app::AppId;
use control::query::{EntryPart, SwitchStatus};
use openflow::{DecodeError, Dpid, Header, MultipartReply, PortNo, ReplyBody, Version};
use sdk::services::topology::Endpoint;
use sdk::topology::Graph;
use thiserror::Error;

pub use self::packet::{InPort, Packet};
use self::pipeline::{FlowEntry, Port, Tables};
pub use self::way::Way;
use self::way::{Hop, Network, follow};
use crate::client::{ClientError, Kernel};

/// The number in the cookies of the kernel's own flows, in the place of an app's.
const KERNEL: u16 = 0xffff;

/// Why a packet could not be traced.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The kernel did not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The switch that the packet enters could not be read.
    #[error("{0}")]
    Failed(String),
}

/// Follows `packet` from the switch `from`, one of `switches`. Without a `graph` the way ends at that switch.
///
/// # Errors
/// The first switch is not connected, does not answer, or reports malformed entries.
pub fn trace(
    from: Dpid,
    packet: &Packet,
    kernel: Kernel,
    switches: Vec<SwitchStatus>,
    graph: Option<Graph>,
) -> Result<Way, TraceError> {
    let mut network = Live { kernel, switches, graph, read: HashMap::new() };
    follow(from, packet, &mut network).map_err(TraceError::Failed)
}

/// The report of a switch.
#[derive(Debug)]
struct Report {
    version: Version,
    flows: Vec<u8>,
    groups: Vec<u8>,
    owners: HashMap<AppId, String>,
    ports: Vec<Port>,
}

/// The running network. Each switch is read once.
struct Live {
    kernel: Kernel,
    switches: Vec<SwitchStatus>,
    graph: Option<Graph>,
    read: HashMap<Dpid, Report>,
}

impl Live {
    fn read(&self, at: Dpid) -> Result<Report, TraceError> {
        let name = at.to_string();
        let status = self.switches.iter().find(|it| it.dpid == name);
        let status = status.ok_or_else(|| TraceError::Failed(format!("{at} is not connected")))?;
        let version = status.version.parse().unwrap_or(Version::PREFERRED);
        let gone = || TraceError::Failed(format!("{at} has disconnected"));
        let (flows, owners) = self.kernel.entries(at.0, EntryPart::Flows)?.ok_or_else(gone)?;
        let groups = if version.features().groups {
            self.kernel.entries(at.0, EntryPart::Groups)?.ok_or_else(gone)?.0
        } else {
            Vec::new()
        };
        let ports = self.kernel.ports(at.0)?.ok_or_else(gone)?;
        let ports = ports
            .iter()
            .filter_map(|port| Some(Port { number: port.port.parse().ok()?, is_up: port.up }));
        let owners = owners.into_iter().collect();
        Ok(Report { version, flows, groups, owners, ports: ports.collect() })
    }
}

impl Network for Live {
    fn trace(&mut self, at: Dpid, packet: &Packet) -> Result<Hop, String> {
        if !self.read.contains_key(&at) {
            let report = self.read(at).map_err(|error| format!("cannot read {at}: {error}"))?;
            self.read.insert(at, report);
        }
        let Some(report) = self.read.get(&at) else { return Err(format!("cannot read {at}")) };
        let tables =
            report.tables().map_err(|error| format!("{at} reports what is malformed: {error}"))?;
        Ok(Hop::through(&tables, at, packet))
    }

    fn link(&self, from: Dpid, port: u32) -> Option<(Dpid, u32)> {
        let at = Endpoint { dpid: from, port: PortNo(port) };
        let link = self.graph.as_ref()?.link_from(at)?;
        Some((link.to.dpid, link.to.port.0))
    }

    fn is_shared(&self, dpid: Dpid, port: u32) -> bool {
        let at = Endpoint { dpid, port: PortNo(port) };
        self.graph.as_ref().and_then(|graph| graph.port(at)).is_some_and(|port| port.shared)
    }
}

impl Report {
    /// Decodes the messages.
    fn tables(&self) -> Result<Tables<'_>, DecodeError> {
        let mut entries = Vec::new();
        for message in messages(&self.flows) {
            if let ReplyBody::Flow(flows) = MultipartReply::decode(message?)?.body {
                entries.extend(flows.into_iter().map(|flow| self.entry(flow)));
            }
        }
        let mut groups = Vec::new();
        for message in messages(&self.groups) {
            if let ReplyBody::GroupDesc(more) = MultipartReply::decode(message?)?.body {
                groups.extend(more);
            }
        }
        Ok(Tables::new(self.version, entries, groups, self.ports.clone()))
    }

    fn entry<'m>(&self, flow: openflow::FlowStats<'m>) -> FlowEntry<'m> {
        let [high, low, ..] = flow.cookie.to_be_bytes();
        let number = u16::from_be_bytes([high, low]);
        let own = flow.cookie & ((1 << 48) - 1);
        let (owner, cookie) = match self.owners.get(&AppId(number)) {
            Some(name) => (name.clone(), own),
            None if number == KERNEL => ("kernel".to_owned(), own),
            None => ("other".to_owned(), flow.cookie),
        };
        FlowEntry { flow, owner, cookie }
    }
}

/// Splits bytes into OpenFlow messages by the lengths in their headers.
pub(crate) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Result<&[u8], DecodeError>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let size = Header::decode(bytes).map(|header| usize::from(header.length));
        let split = size.ok().filter(|size| *size >= Header::SIZE);
        let Some((message, rest)) = split.and_then(|size| bytes.split_at_checked(size)) else {
            let have = bytes.len();
            bytes = &[];
            let (offset, need) = (0, size.unwrap_or(Header::SIZE));
            let field = "message";
            return Some(Err(DecodeError::Truncated { field, offset, need, have }));
        };
        bytes = rest;
        Some(Ok(message))
    })
}
