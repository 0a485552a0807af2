//! `rosemary trace`: shows the entries that a packet takes across the network, and who wrote them.

use anyhow::{Context as _, anyhow};
use clap::Args;
use config::instance::InstancePaths;
use sdk::services::Service;
use sdk::services::table::Table as _;
use sdk::topology::Graph;
use view::trace::{InPort, Packet, trace};

use crate::client;
use crate::say;
use crate::switch_name::{SwitchName, not_connected};

const AFTER_HELP: &str = "\
PACKET is key=value text with the names of OpenFlow or of ovs-ofctl, such as \
in_port=1,dl_src=02:00:00:00:00:01,icmp,nw_dst=10.0.0.2, or the hexadecimal digits of a frame with --in-port. Fields that are \
left out are 0. The ethertype and the protocol follow from the other fields where only one kind of packet has them; otherwise \
state them, as in tcp or udp6.

Each look-up is a line: the table, the owner of the entry, its priority, cookie, match and actions. The owner is the app \
that wrote it, \"kernel\" or \"other\". The packet follows the links that the topology service has found; without that \
service the trace ends at this switch. A bucket of a select group is the switch's choice, and meters may drop: notes say \
where.

Exit codes: 0 the switch was traced; 1 it did not answer or is not connected, or Rosemary does not run; 2 wrong usage.";

/// Options of `rosemary trace`.
#[derive(Debug, Clone, Args)]
#[command(after_help = AFTER_HELP)]
pub struct TraceArgs {
    /// The switch that the packet enters: its datapath id, such as 00:00:00:00:00:00:00:01, 0x1 or 1, or its name
    pub switch: SwitchName,
    /// The packet as key=value text, or the hexadecimal digits of a frame
    pub packet: String,
    /// The port that the packet comes in through: its number, or LOCAL for the switch itself
    #[arg(long, value_name = "PORT")]
    pub in_port: Option<InPort>,
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
    let monitor = client::connect(&args.instance)?;
    let kernel = monitor.kernel()?;
    let switch = args.switch.dpid_of(&kernel)?;
    let switches = kernel.switches()?;
    if !switches.iter().any(|it| it.dpid == switch.to_string()) {
        return Err(not_connected(&kernel, switch));
    }
    let topology = monitor.service(Service::Topology);
    let graph = topology.ok().map(|table| Graph::of(table.records().map(|(_, record)| record)));
    let has_links = graph.is_some();
    let way = trace(switch, &packet, kernel, switches, graph)?;
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
