//! Encodes the switch's replies to description and statistics requests.

use openflow::{
    AggregateStats, Capabilities, DescText, Features, FlowStats, FlowStatsRequest, GroupFeatures,
    Header, MacAddr, MeterFeatures, MultipartReply, MultipartRequest, PortDesc, PortNo, PortStats,
    QueueConfig, ReplyBody, TableMod, TableStats, Text, Version,
};

use super::table::{FlowEntry, FlowTables};
use super::{Identity, reply};

/// Size of a multipart reply after which the next part starts.
const PART: usize = 32 * 1024;

/// Actions that an OpenFlow 1.0 switch announces: all of the specification.
const ACTIONS: u32 = 0xfff;

/// Appends the features reply.
pub(super) fn features(identity: &Identity, xid: u32, out: &mut Vec<u8>) {
    let version = identity.version.features();
    let ports = if version.port_desc { Vec::new() } else { ports(identity) };
    let features = Features {
        dpid: identity.dpid,
        n_buffers: identity.n_buffers,
        n_tables: identity.n_tables(),
        auxiliary_id: 0,
        capabilities: Capabilities::FLOW_STATS
            | Capabilities::TABLE_STATS
            | Capabilities::PORT_STATS,
        // From OpenFlow 1.1 on, the abilities of the tables are elsewhere (1.1.0 §A.3.5.3).
        actions: if version.multiple_tables { 0 } else { ACTIONS },
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
    let Some(bodies) = parts(identity, tables, request) else { return false };
    let mut bodies = bodies.into_iter().peekable();
    while let Some(body) = bodies.next() {
        let part = MultipartReply { more: bodies.peek().is_some(), body };
        reply(out, |room| part.encode(identity.version, xid, room));
    }
    true
}

/// Returns the parts of the reply to a request; `None` if the request is not supported.
fn parts<'a>(
    identity: &Identity,
    tables: &'a FlowTables,
    request: &MultipartRequest<'_>,
) -> Option<Vec<ReplyBody<'a>>> {
    let body = match request {
        MultipartRequest::Desc => ReplyBody::Desc(Box::new(DescText {
            mfr_desc: Text::new("ofbench"),
            hw_desc: Text::new("emulated"),
            sw_desc: Text::new(env!("CARGO_PKG_VERSION")),
            serial_num: Text::new("none"),
            dp_desc: Text::new(&format!("ofbench switch {}", identity.dpid)),
        })),
        MultipartRequest::Flow(wanted) => {
            return Some(flows(tables, wanted, |found| {
                ReplyBody::Flow(found.iter().map(|entry| entry.to_stats()).collect())
            }));
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
        MultipartRequest::GroupDesc | MultipartRequest::OneGroupDesc(_) => {
            ReplyBody::GroupDesc(Vec::new())
        }
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
            return Some(in_parts(&all, PART / 64, |ports| ReplyBody::PortDesc(ports.to_vec())));
        }
        MultipartRequest::OnePortDesc(port) => {
            let mut all = ports(identity);
            all.retain(|desc| desc.port_no == *port);
            ReplyBody::PortDesc(all)
        }
        MultipartRequest::TableDesc => ReplyBody::TableDesc(
            (0..identity.n_tables()).map(|table_id| TableMod::new(table_id, 0)).collect(),
        ),
        MultipartRequest::QueueDesc { .. } => ReplyBody::QueueDesc(Vec::new()),
        MultipartRequest::FlowCounters(wanted) => {
            return Some(flows(tables, wanted, |found| {
                ReplyBody::FlowCounters(found.iter().map(|entry| entry.to_counters()).collect())
            }));
        }
        // Table features are optional, and their reply is long. There are no bundles and no flow monitors.
        _ => return None,
    };
    Some(vec![body])
}

/// Returns the requested flows in parts; `body` makes the body of a part.
fn flows<'a>(
    tables: &'a FlowTables,
    wanted: &FlowStatsRequest,
    body: impl Fn(&[&'a FlowEntry]) -> ReplyBody<'a>,
) -> Vec<ReplyBody<'a>> {
    let found: Vec<&FlowEntry> =
        tables.entries().filter(|entry| is_requested(entry, wanted)).collect();
    // Parts are cut by the size of the largest entry.
    let largest = found.iter().map(|entry| size_of_entry(&entry.to_stats())).max();
    in_parts(&found, PART / largest.unwrap_or(PART), body)
}

/// Returns the bodies of at most `per_part` items each, and one if there are no items.
fn in_parts<'a, T>(
    items: &[T],
    per_part: usize,
    body: impl Fn(&[T]) -> ReplyBody<'a>,
) -> Vec<ReplyBody<'a>> {
    if items.is_empty() {
        return vec![body(items)];
    }
    items.chunks(per_part.max(1)).map(body).collect()
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
    let version = identity.version.features();
    let has_sizes = !version.table_features;
    (0..identity.n_tables())
        .map(|table_id| {
            let active = tables.entries().filter(|entry| entry.table_id == table_id).count();
            let most = u32::try_from(identity.max_flows).unwrap_or(u32::MAX);
            TableStats {
                table_id,
                name: has_sizes.then(|| Text::new("flows")),
                // The word of OpenFlow 1.0: all fields (`OFPFW_ALL`).
                wildcards: if version.multiple_tables { 0 } else { 0x003f_ffff },
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
