//! `rosemary trace`: shows the entries that a packet takes across the network, and who wrote them.
//!
//! The tables of each switch are read through the kernel, as `rosemary flows` does, when the packet reaches the switch. The
//! links are those of the topology service. No packet is sent.
//!
//! | file | purpose |
//! | --- | --- |
//! | `packet.rs` | the fields of the packet |
//! | `pipeline.rs` | simulates the tables of one switch |
//! | `way.rs` | follows the packet from switch to switch |

mod packet;
mod pipeline;
mod way;

use std::collections::HashMap;

use anyhow::{Context as _, anyhow};
use clap::Args;
use control::app::AppId;
use control::query::{EntryPart, SwitchStatus};
use monitor::options::InstancePaths;
use openflow::{Dpid, Header, MultipartReply, PortNo, ReplyBody, Version};
use sdk::services::Service;
use sdk::services::table::Table as _;
use sdk::services::topology::Endpoint;
use sdk::topology::Graph;

use self::packet::Packet;
use self::pipeline::{Entry, Port, Tables};
use self::way::{Hop, Network, follow};
use crate::client::{Kernel, Monitor};
use crate::flows::not_connected;
use crate::say;

/// The number in the cookies of the kernel's own flows, in the place of an app's.
const KERNEL: u16 = 0xffff;

const AFTER_HELP: &str = "\
PACKET is key=value text with the names of OpenFlow or of ovs-ofctl, such as \
in_port=1,dl_src=02:00:00:00:00:01,icmp,nw_dst=10.0.0.2, or the hexadecimal digits of a frame with --in-port. Fields that are \
left out are 0.

Each look-up is a line: the table, the owner of the entry, its priority, cookie, match and actions. The owner is the app \
that wrote it, \"kernel\" or \"other\". The packet follows the links that the topology service has found; without that \
service the trace ends at this switch. A bucket of a select group is the switch's choice, and meters may drop: notes say \
where.

Exit codes: 0 the switch was traced; 1 it did not answer or is not connected, or Rosemary does not run; 2 wrong usage.";

/// Options of `rosemary trace`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct TraceArgs {
    /// Datapath id of the switch that the packet enters, such as 00:00:00:00:00:00:00:01, 0x1 or 1
    pub switch: Dpid,
    /// The packet as key=value text, or the hexadecimal digits of a frame
    pub packet: String,
    /// The port that the packet comes in through
    #[arg(long, value_name = "PORT")]
    pub in_port: Option<u32>,
    /// Print JSON: an object with the switches that the packet reaches
    #[arg(long)]
    pub json: bool,
    /// The instance of Rosemary to ask
    #[command(flatten)]
    pub instance: InstancePaths,
}

/// Reads the switches, simulates the packet and prints its way.
///
/// # Errors
/// The packet is malformed, Rosemary is not running, or the first switch is not connected or does not answer.
pub fn run(args: &TraceArgs) -> anyhow::Result<()> {
    let packet = Packet::read(&args.packet, args.in_port).map_err(|why| anyhow!("{why}"))?;
    let monitor = Monitor::connect(&args.instance)?;
    let kernel = monitor.kernel()?;
    let switches = kernel.switches()?;
    if !switches.iter().any(|it| it.dpid == args.switch.to_string()) {
        return Err(not_connected(&kernel, args.switch));
    }
    let topology = monitor.service(Service::Topology);
    let graph = topology.ok().map(|table| {
        Graph::of((0..table.slots()).map(|slot| table.read(slot)).filter(|slot| slot[0] != 0))
    });
    let has_links = graph.is_some();
    let mut network = Live { kernel, switches, graph, read: HashMap::new() };
    let way = follow(args.switch, &packet, &mut network);
    let way = way.map_err(|why| anyhow!("{why}"))?;
    if !has_links {
        say::note(
            "links are not known, because the topology service does not run; this is the way through one switch",
        );
    }
    if args.json {
        let json = serde_json::to_string(&way).context("cannot write JSON")?;
        return say::data(format_args!("{json}\n"));
    }
    say::data(way)
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
    fn read(&self, at: Dpid) -> anyhow::Result<Report> {
        let name = at.to_string();
        let status = self.switches.iter().find(|it| it.dpid == name);
        let status = status.with_context(|| format!("{at} is not connected"))?;
        let version = if status.version == "1.0" { Version::V1_0 } else { Version::V1_3 };
        let gone = || anyhow!("{at} has disconnected");
        let (flows, owners) = self.kernel.entries(at.0, EntryPart::Flows)?.ok_or_else(gone)?;
        let groups = if version == Version::V1_0 {
            Vec::new()
        } else {
            self.kernel.entries(at.0, EntryPart::Groups)?.ok_or_else(gone)?.0
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
            let report = self.read(at).map_err(|error| format!("cannot read {at}: {error:#}"))?;
            self.read.insert(at, report);
        }
        let Some(report) = self.read.get(&at) else { return Err(format!("cannot read {at}")) };
        let tables = report
            .tables()
            .map_err(|error| format!("{at} reports what is malformed: {error:#}"))?;
        Ok(Hop::through(&tables, at, packet))
    }

    fn link(&self, from: Dpid, port: u32) -> Option<(Dpid, u32)> {
        let at = Endpoint { dpid: from, port: PortNo(port) };
        let link = self.graph.as_ref()?.link_from(at)?;
        Some((link.to.dpid, link.to.port.0))
    }
}

impl Report {
    /// Decodes the messages.
    fn tables(&self) -> anyhow::Result<Tables<'_>> {
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

    fn entry<'m>(&self, flow: openflow::FlowStats<'m>) -> Entry<'m> {
        let [high, low, ..] = flow.cookie.to_be_bytes();
        let number = u16::from_be_bytes([high, low]);
        let own = flow.cookie & ((1 << 48) - 1);
        let (owner, cookie) = match self.owners.get(&AppId(number)) {
            Some(name) => (name.clone(), own),
            None if number == KERNEL => ("kernel".to_owned(), own),
            None => ("other".to_owned(), flow.cookie),
        };
        Entry { flow, owner, cookie }
    }
}

/// Splits bytes into OpenFlow messages by the lengths in their headers.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = anyhow::Result<&[u8]>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let size = Header::decode(bytes).map(|header| usize::from(header.length));
        let split = size.ok().filter(|size| *size >= Header::SIZE);
        let Some((message, rest)) = split.and_then(|size| bytes.split_at_checked(size)) else {
            bytes = &[];
            return Some(Err(anyhow!("the messages end within one")));
        };
        bytes = rest;
        Some(Ok(message))
    })
}
