//! Encodes the switch's replies to description and statistics requests.

use openflow::{
    AggregateStats, Capabilities, DescText, Features, FlowStats, FlowStatsRequest, GroupFeatures,
    Header, MacAddr, MeterFeatures, MultipartReply, MultipartRequest, PortDesc, PortNo, PortStats,
    QueueConfig, ReplyBody, TableStats, Text, Version,
};

use super::table::{FlowEntry, FlowTables};
use super::{Identity, reply};

/// Size of a multipart reply after which the next part starts.
const PART: usize = 32 * 1024;

/// Actions that an OpenFlow 1.0 switch announces: all of the specification.
const ACTIONS: u32 = 0xfff;

/// Appends the features reply.
pub(super) fn features(identity: &Identity, xid: u32, out: &mut Vec<u8>) {
    let has_ports = !identity.version.features().port_desc;
    let (actions, ports) = if has_ports { (ACTIONS, ports(identity)) } else { (0, Vec::new()) };
    let features = Features {
        dpid: identity.dpid,
        n_buffers: identity.n_buffers,
        n_tables: identity.n_tables(),
        auxiliary_id: 0,
        capabilities: Capabilities::FLOW_STATS
            | Capabilities::TABLE_STATS
            | Capabilities::PORT_STATS,
        actions,
        ports,
    };
    reply(out, |room| features.encode(identity.version, xid, room));
}

/// Returns the ports. All are up; their addresses derive from datapath id and port number.
pub(super) fn ports(identity: &Identity) -> Vec<PortDesc> {
    let [.., a, b, c] = identity.dpid.0.to_be_bytes();
    (1..=identity.ports)
        .map(|number| {
            let [high, low] = number.to_be_bytes();
            let address = MacAddr([0x06, a, b, c, high, low]);
            PortDesc::new(PortNo(number.into()), address, &format!("port{number}"))
        })
        .collect()
}

/// Appends the reply to a request; returns `false` if the request is not supported.
pub(super) fn answer(
    identity: &Identity,
    tables: &FlowTables,
    request: &MultipartRequest<'_>,
    xid: u32,
    out: &mut Vec<u8>,
) -> bool {
    let version = identity.version;
    let body = match request {
        MultipartRequest::Desc => ReplyBody::Desc(Box::new(DescText {
            mfr_desc: Text::new("ofbench"),
            hw_desc: Text::new("emulated"),
            sw_desc: Text::new(env!("CARGO_PKG_VERSION")),
            serial_num: Text::new("none"),
            dp_desc: Text::new(&format!("ofbench switch {}", identity.dpid)),
        })),
        MultipartRequest::Flow(wanted) => {
            flows(version, tables, wanted, xid, out);
            return true;
        }
        MultipartRequest::Aggregate(wanted) => {
            let found = tables.entries().filter(|entry| is_requested(entry, wanted)).count();
            ReplyBody::Aggregate(AggregateStats {
                packet_count: 0,
                byte_count: 0,
                flow_count: u32::try_from(found).unwrap_or(u32::MAX),
            })
        }
        MultipartRequest::Table => ReplyBody::Table(table_stats(identity, tables)),
        MultipartRequest::PortStats(port) => {
            let all = ports(identity).into_iter().map(|desc| desc.port_no);
            ReplyBody::PortStats(
                all.filter(|number| [PortNo::ANY, *number].contains(port)).map(nothing).collect(),
            )
        }
        MultipartRequest::Queue { .. } => ReplyBody::Queue(Vec::new()),
        MultipartRequest::Group(_) => ReplyBody::Group(Vec::new()),
        MultipartRequest::GroupDesc => ReplyBody::GroupDesc(Vec::new()),
        MultipartRequest::GroupFeatures => ReplyBody::GroupFeatures(GroupFeatures {
            types: 0,
            capabilities: 0,
            max_groups: [0; 4],
            actions: [0; 4],
        }),
        MultipartRequest::Meter(_) => ReplyBody::Meter(Vec::new()),
        MultipartRequest::MeterConfig(_) => ReplyBody::MeterConfig(Vec::new()),
        MultipartRequest::MeterFeatures => ReplyBody::MeterFeatures(MeterFeatures {
            max_meter: 0,
            band_types: 0,
            capabilities: 0,
            max_bands: 0,
            max_color: 0,
            features: 0,
        }),
        MultipartRequest::PortDesc => {
            let all = ports(identity);
            let mut rest = all.chunks(PART / 64).peekable();
            while let Some(ports) = rest.next() {
                let body = ReplyBody::PortDesc(ports.to_vec());
                part(version, rest.peek().is_some(), body, xid, out);
            }
            return true;
        }
        // Table features are optional, and their reply is long.
        _ => return false,
    };
    part(version, false, body, xid, out);
    true
}

fn part(version: Version, more: bool, body: ReplyBody<'_>, xid: u32, out: &mut Vec<u8>) {
    let message = MultipartReply { more, body };
    reply(out, |room| message.encode(version, xid, room));
}

/// Appends the requested flows, in parts.
fn flows(
    version: Version,
    tables: &FlowTables,
    wanted: &FlowStatsRequest,
    xid: u32,
    out: &mut Vec<u8>,
) {
    let found: Vec<FlowStats<'_>> = tables
        .entries()
        .filter(|entry| is_requested(entry, wanted))
        .map(FlowEntry::to_stats)
        .collect();
    // Parts are cut by the size of the largest entry.
    let per_part = (PART / found.iter().map(size_of_entry).max().unwrap_or(PART)).max(1);
    let parts = found.len().div_ceil(per_part);
    for (number, flows) in found.chunks(per_part).enumerate() {
        part(version, number + 1 < parts, ReplyBody::Flow(flows.to_vec()), xid, out);
    }
    if parts == 0 {
        part(version, false, ReplyBody::Flow(Vec::new()), xid, out);
    }
}

/// Returns an upper bound of an entry's size in a reply.
fn size_of_entry(stats: &FlowStats<'_>) -> usize {
    let match_: usize = stats.match_.oxms().map(|oxm| 4 + oxm.payload.len()).sum();
    let actions = stats.instructions.apply.iter().count() + stats.instructions.write.iter().count();
    200 + match_ + 40 * actions
}

fn is_requested(entry: &FlowEntry, wanted: &FlowStatsRequest) -> bool {
    let everywhere = wanted.table_id == openflow::FlowMod::ALL_TABLES;
    (everywhere || wanted.table_id == entry.table_id)
        && entry.is_covered_by(&wanted.match_)
        && (entry.cookie ^ wanted.cookie) & wanted.cookie_mask == 0
        && (wanted.out_port == PortNo::ANY || entry.outputs_to(wanted.out_port))
}

fn table_stats(identity: &Identity, tables: &FlowTables) -> Vec<TableStats> {
    let has_sizes = !identity.version.features().table_features;
    (0..identity.n_tables())
        .map(|table_id| {
            let active = tables.entries().filter(|entry| entry.table_id == table_id).count();
            let most = u32::try_from(identity.max_flows).unwrap_or(u32::MAX);
            TableStats {
                table_id,
                name: has_sizes.then(|| Text::new("flows")),
                // OpenFlow 1.0 can wildcard all fields (`OFPFW_ALL`).
                wildcards: if has_sizes { 0x003f_ffff } else { 0 },
                max_entries: if has_sizes { most } else { 0 },
                active_count: u32::try_from(active).unwrap_or(u32::MAX),
                lookup_count: 0,
                matched_count: 0,
            }
        })
        .collect()
}

/// Returns the statistics of a port without traffic.
fn nothing(port_no: PortNo) -> PortStats {
    PortStats {
        port_no,
        rx_packets: 0,
        tx_packets: 0,
        rx_bytes: 0,
        tx_bytes: 0,
        rx_dropped: 0,
        tx_dropped: 0,
        rx_errors: 0,
        tx_errors: 0,
        rx_frame_err: 0,
        rx_over_err: 0,
        rx_crc_err: 0,
        collisions: 0,
        duration: None,
    }
}

/// Appends the reply that the requested port has no queues.
pub(super) fn no_queues(version: Version, message: &[u8], out: &mut Vec<u8>) {
    let xid = Header::decode(message).map_or(0, |header| header.xid);
    let port = QueueConfig::decode_request(message).ok();
    let Some(port) = port.filter(|port| port.0 < 0xff00) else { return };
    let config = QueueConfig { port, queues: Vec::new() };
    reply(out, |room| config.encode(version, xid, room));
}
