//! Writes replies of switches as the JSON of Ryu.

use std::time::Duration;

use openflow::{
    Counter, FlowStats, GroupDesc, GroupFeatures, GroupKind, Header, Kind, MeterBand, MeterConfig,
    MeterFeatures, MeterFlags, MultipartReply, PortDesc, PortStats, QueueConfig, ReplyBody,
    TableStats, Version,
};
use serde_json::{Map, Value, json};

use crate::number::{GROUPS, METERS, Own, QUEUES, TABLES, port_json, port_number};
use crate::{OfctlError, action, has_old_names, matching, matching_1_0, table_features};

/// Where the entries of a multipart reply of OpenFlow 1.3 begin, in bytes.
const ENTRIES: usize = 16;

/// Names of actions by their types, 0 and 11 to 27 (OpenFlow 1.3.5 §7.2.5).
const ACTIONS: [(u32, &str); 16] = [
    (0, "OUTPUT"),
    (11, "COPY_TTL_OUT"),
    (12, "COPY_TTL_IN"),
    (15, "SET_MPLS_TTL"),
    (16, "DEC_MPLS_TTL"),
    (17, "PUSH_VLAN"),
    (18, "POP_VLAN"),
    (19, "PUSH_MPLS"),
    (20, "POP_MPLS"),
    (21, "SET_QUEUE"),
    (22, "GROUP"),
    (23, "SET_NW_TTL"),
    (24, "DEC_NW_TTL"),
    (25, "SET_FIELD"),
    (26, "PUSH_PBB"),
    (27, "POP_PBB"),
];

/// The names that Ryu shows for set wildcard bits of a table of OpenFlow 1.0, by the number of the bit.
const WILDCARDS: [(u32, &str); 7] = [
    (1, "IN_PORT"),
    (2, "DL_VLAN"),
    (4, "DL_SRC"),
    (8, "NW_SRC_SHIFT"),
    (16, "DL_TYPE"),
    (6, "NW_DST_BITS"),
    (14, "NW_DST_SHIFT"),
];

const METER_FLAGS: [(u16, &str); 4] = [
    (MeterFlags::KBPS.0, "KBPS"),
    (MeterFlags::PKTPS.0, "PKTPS"),
    (MeterFlags::BURST.0, "BURST"),
    (MeterFlags::STATS.0, "STATS"),
];

const GROUP_TYPES: [&str; 4] = ["ALL", "SELECT", "INDIRECT", "FF"];

/// Writes the messages of a reply, which stand one behind the other. Of flows, only those with `priority` are shown.
pub(crate) fn json(
    version: Version,
    mut messages: &[u8],
    own: &Own,
    priority: Option<u16>,
) -> Result<Value, OfctlError> {
    let (mut list, mut description) = (Vec::new(), None);
    while !messages.is_empty() {
        let header = Header::decode(messages)?;
        let size = usize::from(header.length).clamp(Header::SIZE, messages.len());
        let (message, rest) = messages.split_at(size);
        messages = rest;
        if Kind::from_wire(version, header.kind) == Ok(Kind::QueueGetConfigReply) {
            list.push(queue_config(&QueueConfig::decode(message)?, version));
            continue;
        }
        let reply = MultipartReply::decode(message)?;
        let mut writer = Writer { version, own, priority, message, list: &mut list };
        if let Some(it) = writer.write(&reply.body) {
            description = Some(it);
        }
    }
    Ok(description.unwrap_or(Value::Array(list)))
}

/// Writes the messages of one reply.
struct Writer<'w> {
    version: Version,
    own: &'w Own,
    priority: Option<u16>,
    message: &'w [u8],
    list: &'w mut Vec<Value>,
}

impl Writer<'_> {
    /// Adds the entries of a message to the list; returns a description, which is no list.
    fn write(&mut self, body: &ReplyBody<'_>) -> Option<Value> {
        let (version, own) = (self.version, self.own);
        match body {
            ReplyBody::Desc(it) => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                return Some(json!({
                    "mfr_desc": text(it.mfr_desc.as_bytes()),
                    "hw_desc": text(it.hw_desc.as_bytes()),
                    "sw_desc": text(it.sw_desc.as_bytes()),
                    "serial_num": text(it.serial_num.as_bytes()),
                    "dp_desc": text(it.dp_desc.as_bytes()),
                }));
            }
            ReplyBody::Flow(flows) => {
                let lengths = lengths(self.message, 0);
                for (flow, length) in flows.iter().zip(lengths.chain(std::iter::repeat(0))) {
                    let flow = flow_json(flow, length, version, own);
                    let shown = self.priority.is_none_or(|it| flow["priority"] == it);
                    if shown {
                        self.list.push(flow);
                    }
                }
            }
            ReplyBody::Aggregate(it) => self.list.push(json!({
                "packet_count": it.packet_count, "byte_count": it.byte_count, "flow_count": it.flow_count,
            })),
            ReplyBody::Table(tables) => {
                self.list.extend(tables.iter().map(|it| table(it, version)));
            }
            ReplyBody::PortStats(ports) => {
                self.list.extend(ports.iter().map(|it| port_stats(it, version)));
            }
            ReplyBody::Queue(queues) => self.list.extend(queues.iter().map(|it| {
                let queue = json!({
                    "port_no": port_number(it.port_no, version), "queue_id": it.queue_id,
                    "tx_bytes": it.tx_bytes, "tx_errors": it.tx_errors, "tx_packets": it.tx_packets,
                });
                with_duration(queue, it.duration.filter(|_| version.features().durations))
            })),
            ReplyBody::Group(groups) => {
                let lengths = lengths(self.message, 0).chain(std::iter::repeat(0));
                self.list.extend(groups.iter().zip(lengths).map(|(it, length)| {
                    let group = json!({
                        "length": length, "ref_count": it.ref_count, "packet_count": it.packet_count,
                        "byte_count": it.byte_count, "group_id": GROUPS.write(own.group(it.group_id)),
                        "bucket_stats": counters(&it.buckets, ["packet_count", "byte_count"]),
                    });
                    with_duration(group, Some(it.duration.unwrap_or_default()))
                }));
            }
            ReplyBody::GroupDesc(groups) => self.list.extend(groups.iter().map(|it| group(it, version, own))),
            ReplyBody::GroupFeatures(it) => self.list.push(group_features(it)),
            ReplyBody::Meter(meters) => {
                let lengths = lengths(self.message, 4).chain(std::iter::repeat(0));
                self.list.extend(meters.iter().zip(lengths).map(|(it, length)| {
                    let bands = ["packet_band_count", "byte_band_count"];
                    let meter = json!({
                        "len": length, "flow_count": it.flow_count,
                        "packet_in_count": it.packet_in_count, "byte_in_count": it.byte_in_count,
                        "meter_id": METERS.write(own.meter(it.meter_id)),
                        "band_stats": counters(&it.bands, bands),
                    });
                    with_duration(meter, Some(it.duration.unwrap_or_default()))
                }));
            }
            ReplyBody::MeterConfig(meters) => {
                self.list.extend(meters.iter().map(|it| meter(it, own)));
            }
            ReplyBody::MeterFeatures(it) => self.list.push(meter_features(it)),
            ReplyBody::TableFeatures(tables) => {
                self.list.extend(tables.iter().map(|it| table_features::json(&it)));
            }
            ReplyBody::PortDesc(ports) => {
                self.list.extend(ports.iter().map(|it| port_desc(it, version)));
            }
            _ => {}
        }
        None
    }
}

/// Returns the lengths that the entries of a message of OpenFlow 1.3 state, each at `at` in its entry.
fn lengths(message: &[u8], at: usize) -> impl Iterator<Item = u16> {
    let mut rest = message.get(ENTRIES..).unwrap_or_default();
    std::iter::from_fn(move || {
        let length = u16::from_be_bytes(*rest.get(at..)?.first_chunk()?);
        rest = rest.get(usize::from(length).max(1)..)?;
        Some(length)
    })
}

fn with_duration(mut value: Value, duration: Option<Duration>) -> Value {
    if let (Some(duration), Some(object)) = (duration, value.as_object_mut()) {
        object.insert("duration_sec".into(), duration.as_secs().into());
        object.insert("duration_nsec".into(), duration.subsec_nanos().into());
    }
    value
}

fn counters(counters: &[Counter], [packets, bytes]: [&str; 2]) -> Value {
    let counter = |it: &Counter| json!({packets: it.packet_count, bytes: it.byte_count});
    counters.iter().map(counter).collect()
}

fn flow_json(flow: &FlowStats<'_>, length: u16, version: Version, own: &Own) -> Value {
    let match_ = if has_old_names(version) {
        matching_1_0::json(&flow.match_, version)
    } else {
        matching::json(&flow.match_, version)
    };
    let mut value = json!({
        "priority": own.priority(flow.priority),
        "cookie": flow.cookie,
        "idle_timeout": flow.idle_timeout,
        "hard_timeout": flow.hard_timeout,
        "byte_count": flow.byte_count,
        "packet_count": flow.packet_count,
        "table_id": TABLES.write(flow.table_id.into()),
        "actions": action::json(&flow.instructions, version, own),
        "match": match_,
    });
    if version.features().flow_stats_flags {
        value["length"] = length.into();
        value["flags"] = flow.flags.0.into();
    }
    with_duration(value, Some(flow.duration))
}

fn table(table: &TableStats, version: Version) -> Value {
    let mut value = json!({
        "table_id": TABLES.write(table.table_id.into()), "active_count": table.active_count,
        "lookup_count": table.lookup_count, "matched_count": table.matched_count,
    });
    if !version.features().table_features {
        let set = |bit: &u32| table.wildcards & (1 << bit) != 0;
        let names = WILDCARDS.iter().filter(|(bit, _)| set(bit)).map(|(_, name)| *name);
        let name = table.name.as_ref().map_or(&[][..], |name| name.as_bytes());
        value["name"] = String::from_utf8_lossy(name).into();
        value["wildcards"] = names.collect();
        value["max_entries"] = table.max_entries.into();
    }
    value
}

fn port_stats(port: &PortStats, version: Version) -> Value {
    let value = json!({
        "port_no": port_json(port.port_no, version),
        "rx_packets": port.rx_packets, "tx_packets": port.tx_packets, "rx_bytes": port.rx_bytes,
        "tx_bytes": port.tx_bytes, "rx_dropped": port.rx_dropped, "tx_dropped": port.tx_dropped,
        "rx_errors": port.rx_errors, "tx_errors": port.tx_errors,
        "rx_frame_err": port.rx_frame_err, "rx_over_err": port.rx_over_err,
        "rx_crc_err": port.rx_crc_err, "collisions": port.collisions,
    });
    let duration = Some(port.duration.unwrap_or_default());
    with_duration(value, duration.filter(|_| version.features().durations))
}

/// Writes the description of a port. The features of OpenFlow 1.0 are shown with the bits of 1.3.
pub fn port_desc(port: &PortDesc, version: Version) -> Value {
    let mut value = json!({
        "port_no": port_json(port.port_no, version), "hw_addr": port.hw_addr.to_string(),
        "name": String::from_utf8_lossy(port.name.as_bytes()), "config": port.config.0,
        "state": port.state.0, "curr": port.curr.0, "advertised": port.advertised.0,
        "supported": port.supported.0, "peer": port.peer.0,
    });
    if version.features().port_speeds {
        value["curr_speed"] = port.curr_speed.into();
        value["max_speed"] = port.max_speed.into();
    }
    value
}

fn queue_config(config: &QueueConfig, version: Version) -> Value {
    let queues = config.queues.iter().map(|queue| {
        let rates = [("MIN_RATE", queue.min_rate), ("MAX_RATE", queue.max_rate)];
        let rates = rates.into_iter().filter_map(|(name, rate)| Some((name, rate?)));
        let properties: Vec<Value> =
            rates.map(|(name, rate)| json!({"property": name, "rate": rate})).collect();
        json!({
            "properties": properties, "port": port_json(queue.port, version),
            "queue_id": QUEUES.write(queue.queue_id),
        })
    });
    let queues: Vec<Value> = queues.collect();
    json!({"queues": queues, "port": port_json(config.port, version)})
}

fn group(group: &GroupDesc, version: Version, own: &Own) -> Value {
    let kind = match group.kind {
        GroupKind::All => json!("ALL"),
        GroupKind::Select => json!("SELECT"),
        GroupKind::Indirect => json!("INDIRECT"),
        GroupKind::FastFailover => json!("FF"),
        GroupKind::Other(_) => Value::Null,
    };
    let buckets = group.buckets.iter().map(|bucket| {
        let actions = bucket.actions.iter();
        let actions: Vec<String> =
            actions.map(|it| action::action_text(it, version, own)).collect();
        json!({
            "weight": bucket.weight, "watch_port": bucket.watch_port.0,
            "watch_group": own.group(bucket.watch_group), "actions": actions,
        })
    });
    let buckets: Vec<Value> = buckets.collect();
    json!({"buckets": buckets, "group_id": GROUPS.write(own.group(group.group_id)), "type": kind})
}

fn group_features(features: &GroupFeatures) -> Value {
    let capabilities = ["SELECT_WEIGHT", "SELECT_LIVENESS", "CHAINING", "CHAINING_CHECKS"];
    let set = |bits: u32, names: &[&'static str]| -> Vec<&'static str> {
        let names = names.iter().enumerate();
        names.filter(|(bit, _)| bits & 1 << bit != 0).map(|(_, name)| *name).collect()
    };
    let by_type = |value: &dyn Fn(usize) -> Value| -> Vec<Value> {
        let one = |(at, name): (usize, &&str)| json!({*name: value(at)});
        GROUP_TYPES.iter().enumerate().map(one).collect()
    };
    let actions = |at: usize| {
        let bits = features.actions.get(at).copied().unwrap_or(0);
        ACTIONS.iter().filter(|(bit, _)| bits & 1 << bit != 0).map(|(_, name)| *name).collect()
    };
    json!({
        "types": set(features.types, &GROUP_TYPES),
        "capabilities": set(features.capabilities, &capabilities),
        "max_groups": by_type(&|at| features.max_groups.get(at).copied().into()),
        "actions": by_type(&actions),
    })
}

fn meter(meter: &MeterConfig, own: &Own) -> Value {
    let bands = meter.bands.iter().map(|band| match band {
        MeterBand::Drop { rate, burst_size } => {
            json!({"type": "DROP", "rate": rate, "burst_size": burst_size})
        }
        MeterBand::DscpRemark { rate, burst_size, prec_level } => json!({
            "type": "DSCP_REMARK", "rate": rate, "burst_size": burst_size, "prec_level": prec_level,
        }),
        MeterBand::Experimenter { rate, burst_size, experimenter, .. } => json!({
            "type": "EXPERIMENTER", "rate": rate, "burst_size": burst_size,
            "experimenter": experimenter,
        }),
        _ => json!({"type": ""}),
    });
    let bands: Vec<Value> = bands.collect();
    json!({
        "flags": flags(meter.flags.0.into()), "bands": bands,
        "meter_id": METERS.write(own.meter(meter.meter_id)),
    })
}

fn flags(bits: u32) -> Vec<&'static str> {
    let set = METER_FLAGS.iter().filter(|(bit, _)| bits & u32::from(*bit) != 0);
    set.map(|(_, name)| *name).collect()
}

fn meter_features(features: &MeterFeatures) -> Value {
    let types = [(1, "DROP"), (2, "DSCP_REMARK")];
    let types = types.iter().filter(|(bit, _)| features.band_types & 1 << bit != 0);
    let types: Vec<&str> = types.map(|(_, name)| *name).collect();
    let mut object = Map::new();
    object.insert("max_meter".into(), features.max_meter.into());
    object.insert("band_types".into(), types.into());
    object.insert("capabilities".into(), flags(features.capabilities).into());
    object.insert("max_bands".into(), features.max_bands.into());
    object.insert("max_color".into(), features.max_color.into());
    Value::Object(object)
}

#[cfg(test)]
mod tests;
