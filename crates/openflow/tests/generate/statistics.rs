//! Generates statistics and description requests and replies.

use super::flows::{band, bucket, instructions, match_, port};
use super::switches::port_desc;
use super::{comes_back, leak};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use rosemary_openflow::{
    AggregateStats, Counter, DescText, FlowModFlags, FlowStats, FlowStatsRequest, GroupDesc,
    GroupFeatures, GroupKind, GroupStats, MeterConfig, MeterFeatures, MeterFlags, MeterStats,
    MultipartReply, MultipartRequest, PortNo, PortStats, QueueStats, ReplyBody, TableStats, Text,
    Version,
};
use std::time::Duration;

fn age() -> impl Strategy<Value = Option<Duration>> {
    option::of((any::<u32>(), 0..1_000_000_000_u32))
        .prop_map(|age| age.map(|(sec, nsec)| Duration::new(sec.into(), nsec)))
}

fn request(version: Version) -> BoxedStrategy<MultipartRequest<'static>> {
    let new = version == Version::V1_3;
    let flows = || {
        (match_(version), port(version), any::<(u8, u32, u64, u64)>()).prop_map(
            move |(match_, out_port, (table_id, out_group, cookie, cookie_mask))| {
                let all = FlowStatsRequest { table_id, out_port, ..FlowStatsRequest::new(match_) };
                if new { FlowStatsRequest { out_group, cookie, cookie_mask, ..all } } else { all }
            },
        )
    };
    let queue = (port(version), option::of(0..u32::MAX))
        .prop_filter("1.0 has one word for every port", |(port, _)| *port != PortNo::ALL)
        .prop_map(|(port_no, queue_id)| MultipartRequest::Queue { port_no, queue_id });
    let experimenter = (any::<u32>(), vec(any::<u8>(), 4..40)).prop_map(|(experimenter, data)| {
        MultipartRequest::Experimenter { experimenter, data: leak(data) }
    });
    let both = prop_oneof![
        Just(MultipartRequest::Desc),
        flows().prop_map(MultipartRequest::Flow),
        flows().prop_map(MultipartRequest::Aggregate),
        Just(MultipartRequest::Table),
        port(version).prop_map(MultipartRequest::PortStats),
        queue,
        experimenter,
    ];
    if !new {
        return both.boxed();
    }
    prop_oneof![
        both,
        any::<u32>().prop_map(MultipartRequest::Group),
        Just(MultipartRequest::GroupDesc),
        Just(MultipartRequest::GroupFeatures),
        any::<u32>().prop_map(MultipartRequest::Meter),
        any::<u32>().prop_map(MultipartRequest::MeterConfig),
        Just(MultipartRequest::MeterFeatures),
        Just(MultipartRequest::PortDesc),
    ]
    .boxed()
}

fn flow(version: Version) -> impl Strategy<Value = FlowStats<'static>> {
    let new = version == Version::V1_3;
    let numbers = any::<(u8, u16, u16, u16, u16, u64, u64, u64)>();
    let duration = (any::<u32>(), 0..1_000_000_000_u32);
    (numbers, duration, match_(version), instructions(version)).prop_map(
        move |(numbers, (sec, nsec), match_, instructions)| {
            let (table_id, priority, idle_timeout, hard_timeout, flags, cookie, p, b) = numbers;
            FlowStats {
                table_id,
                duration: Duration::new(sec.into(), nsec),
                priority,
                idle_timeout,
                hard_timeout,
                flags: if new { FlowModFlags(flags) } else { FlowModFlags::default() },
                cookie,
                packet_count: p,
                byte_count: b,
                match_,
                instructions,
            }
        },
    )
}

fn table(version: Version) -> impl Strategy<Value = TableStats> {
    any::<(u8, [u8; 32], u32, u32, u32, u64, u64)>().prop_map(
        move |(table_id, name, wildcards, max_entries, active_count, lookup, matched)| {
            let old = version == Version::V1_0;
            TableStats {
                table_id,
                name: old.then(|| Text::from(name)),
                wildcards: if old { wildcards } else { 0 },
                max_entries: if old { max_entries } else { 0 },
                active_count,
                lookup_count: lookup,
                matched_count: matched,
            }
        },
    )
}

fn ports(version: Version) -> impl Strategy<Value = PortStats> {
    (port(version), any::<[(u64, u64, u64, u64); 3]>(), age()).prop_map(
        move |(port_no, [rx, tx, errors], age)| PortStats {
            port_no,
            rx_packets: rx.0,
            tx_packets: rx.1,
            rx_bytes: rx.2,
            tx_bytes: rx.3,
            rx_dropped: tx.0,
            tx_dropped: tx.1,
            rx_errors: tx.2,
            tx_errors: tx.3,
            rx_frame_err: errors.0,
            rx_over_err: errors.1,
            rx_crc_err: errors.2,
            collisions: errors.3,
            duration: age.filter(|_| version == Version::V1_3),
        },
    )
}

fn queues(version: Version) -> impl Strategy<Value = QueueStats> {
    (port(version), any::<(u32, u64, u64, u64)>(), age()).prop_map(
        move |(port_no, (queue_id, tx_bytes, tx_packets, tx_errors), age)| QueueStats {
            port_no,
            queue_id,
            tx_bytes,
            tx_packets,
            tx_errors,
            duration: age.filter(|_| version == Version::V1_3),
        },
    )
}

fn counters() -> impl Strategy<Value = Vec<Counter>> {
    let counter = any::<(u64, u64)>()
        .prop_map(|(packet_count, byte_count)| Counter { packet_count, byte_count });
    vec(counter, 0..4)
}

/// Replies that OpenFlow 1.0 does not have.
fn new_body() -> impl Strategy<Value = ReplyBody<'static>> {
    let group = (any::<(u32, u32, u64, u64)>(), age(), counters()).prop_map(
        |((group_id, ref_count, packet_count, byte_count), duration, buckets)| GroupStats {
            group_id,
            ref_count,
            packet_count,
            byte_count,
            duration,
            buckets,
        },
    );
    let group_desc =
        (any::<(u8, u32)>(), vec(bucket(), 0..3)).prop_map(|((kind, group_id), buckets)| {
            GroupDesc { kind: GroupKind::from_wire(kind), group_id, buckets }
        });
    let group_features = any::<(u32, u32, [u32; 4], [u32; 4])>().prop_map(
        |(types, capabilities, max_groups, actions)| GroupFeatures {
            types,
            capabilities,
            max_groups,
            actions,
        },
    );
    let meter =
        (any::<(u32, u32, u64, u64)>(), age(), counters()).prop_map(
            |((meter_id, flow_count, packet_in_count, byte_in_count), duration, bands)| {
                MeterStats { meter_id, flow_count, packet_in_count, byte_in_count, duration, bands }
            },
        );
    let meter_config =
        (any::<(u16, u32)>(), vec(band(), 0..3)).prop_map(|((flags, meter_id), bands)| {
            MeterConfig { flags: MeterFlags(flags), meter_id, bands }
        });
    let meter_features = any::<(u32, u32, u32, u8, u8)>().prop_map(
        |(max_meter, band_types, capabilities, max_bands, max_color)| MeterFeatures {
            max_meter,
            band_types,
            capabilities,
            max_bands,
            max_color,
        },
    );
    prop_oneof![
        vec(group, 0..3).prop_map(ReplyBody::Group),
        vec(group_desc, 0..3).prop_map(ReplyBody::GroupDesc),
        group_features.prop_map(ReplyBody::GroupFeatures),
        vec(meter, 0..3).prop_map(ReplyBody::Meter),
        vec(meter_config, 0..3).prop_map(ReplyBody::MeterConfig),
        meter_features.prop_map(ReplyBody::MeterFeatures),
        vec(port_desc(Version::V1_3), 0..3).prop_map(ReplyBody::PortDesc),
    ]
}

fn body(version: Version) -> BoxedStrategy<ReplyBody<'static>> {
    let text = || "[a-zA-Z0-9 .,-]{0,31}";
    let desc = (text(), text(), any::<[u8; 32]>()).prop_map(|(mfr, sw, serial)| {
        ReplyBody::Desc(Box::new(DescText {
            mfr_desc: Text::new(&mfr),
            sw_desc: Text::new(&sw),
            serial_num: Text::from(serial),
            ..DescText::default()
        }))
    });
    let aggregate = any::<(u64, u64, u32)>().prop_map(|(packet_count, byte_count, flow_count)| {
        ReplyBody::Aggregate(AggregateStats { packet_count, byte_count, flow_count })
    });
    let experimenter = (any::<u32>(), vec(any::<u8>(), 4..40)).prop_map(|(experimenter, data)| {
        ReplyBody::Experimenter { experimenter, data: leak(data) }
    });
    let both = prop_oneof![
        1 => desc,
        3 => vec(flow(version), 0..4).prop_map(ReplyBody::Flow),
        1 => aggregate,
        1 => vec(table(version), 0..3).prop_map(ReplyBody::Table),
        1 => vec(ports(version), 0..3).prop_map(ReplyBody::PortStats),
        1 => vec(queues(version), 0..3).prop_map(ReplyBody::Queue),
        1 => experimenter,
    ];
    match version {
        Version::V1_0 => both.boxed(),
        Version::V1_3 => prop_oneof![both, new_body()].boxed(),
    }
}

/// Generates the messages of this file.
pub(super) fn messages(version: Version) -> BoxedStrategy<Vec<u8>> {
    let asked = request(version).prop_map(move |value| {
        comes_back!(value, MultipartRequest::decode, |value, out| value.encode(version, 1, out))
    });
    let told = (any::<bool>(), body(version)).prop_map(move |(more, body)| {
        let value = MultipartReply { more, body };
        comes_back!(value, MultipartReply::decode, |value, out| value.encode(version, 1, out))
    });
    prop_oneof![1 => asked, 2 => told].boxed()
}
