//! Generates statistics and description requests and replies.

use super::flows::{band, bucket, instructions, match_, port};
use super::switches::{controller_status, port_desc, table_mod, time};
use super::{comes_back, leak};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use rosemary_openflow::{
    AggregateStats, BundleFeatures, BundleFeaturesRequest, BundleFlags, Counter, DescText,
    FlowChange, FlowCounters, FlowEvent, FlowModFlags, FlowMonitorCommand, FlowMonitorFlags,
    FlowMonitorRequest, FlowRemovedReason, FlowStats, FlowStatsRequest, FlowUpdate, GroupDesc,
    GroupFeatures, GroupKind, GroupStats, MeterConfig, MeterFeatures, MeterFlags, MeterStats,
    MultipartReply, MultipartRequest, PortNo, PortStats, Queue, QueueStats, ReplyBody,
    ScheduleFeatures, TableStats, Text, Version,
};
use std::time::Duration;

fn age() -> impl Strategy<Value = Option<Duration>> {
    option::of((any::<u32>(), 0..1_000_000_000_u32))
        .prop_map(|age| age.map(|(sec, nsec)| Duration::new(sec.into(), nsec)))
}

fn request(version: Version) -> BoxedStrategy<MultipartRequest<'static>> {
    let new = version != Version::V1_0;
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
    let in_1_1 = prop_oneof![
        both,
        any::<u32>().prop_map(MultipartRequest::Group),
        Just(MultipartRequest::GroupDesc),
    ];
    if version == Version::V1_1 {
        return in_1_1.boxed();
    }
    let in_1_2 = prop_oneof![3 => in_1_1, 1 => Just(MultipartRequest::GroupFeatures)];
    if version == Version::V1_2 {
        return in_1_2.boxed();
    }
    let in_1_3 = prop_oneof![
        2 => in_1_2,
        1 => any::<u32>().prop_map(MultipartRequest::Meter),
        1 => any::<u32>().prop_map(MultipartRequest::MeterConfig),
        1 => Just(MultipartRequest::MeterFeatures),
        1 => Just(MultipartRequest::PortDesc),
    ];
    if version == Version::V1_3 {
        return in_1_3.boxed();
    }
    let queues = (port(version), option::of(0..u32::MAX))
        .prop_map(|(port_no, queue_id)| MultipartRequest::QueueDesc { port_no, queue_id });
    let monitor = (match_(version), port(version), any::<(u32, u32, u16, u8, u8)>()).prop_map(
        |(match_, out_port, (monitor_id, out_group, flags, table_id, command))| {
            let command = match command % 3 {
                0 => FlowMonitorCommand::Add,
                1 => FlowMonitorCommand::Modify,
                _ => FlowMonitorCommand::Delete,
            };
            let all = FlowMonitorRequest::add(monitor_id, FlowMonitorFlags(flags), match_);
            FlowMonitorRequest { command, table_id, out_port, out_group, ..all }
        },
    );
    let in_1_4 = prop_oneof![
        3 => in_1_3,
        1 => Just(MultipartRequest::TableDesc),
        1 => queues,
        1 => vec(monitor, 0..3).prop_map(MultipartRequest::FlowMonitor),
    ];
    if version == Version::V1_4 {
        return in_1_4.boxed();
    }
    let features = (any::<u32>(), option::of(schedule()))
        .prop_map(|(flags, schedule)| BundleFeaturesRequest { flags, schedule });
    prop_oneof![
        3 => in_1_4,
        1 => (0..0xffff_0000_u32).prop_map(MultipartRequest::OneGroupDesc),
        1 => (0..0xffff_0000_u32).prop_map(|port| MultipartRequest::OnePortDesc(PortNo(port))),
        1 => flows().prop_map(MultipartRequest::FlowCounters),
        1 => Just(MultipartRequest::ControllerStatus),
        1 => features.prop_map(MultipartRequest::BundleFeatures),
    ]
    .boxed()
}

fn schedule() -> impl Strategy<Value = ScheduleFeatures> {
    [time(), time(), time(), time()].prop_map(|[accuracy, max_future, max_past, timestamp]| {
        ScheduleFeatures { accuracy, max_future, max_past, timestamp }
    })
}

fn flow(version: Version) -> impl Strategy<Value = FlowStats<'static>> {
    let numbers = any::<(u8, u16, u16, u16, u16, u64, u64, u64, u16)>();
    let duration = (any::<u32>(), 0..1_000_000_000_u32);
    (numbers, duration, match_(version), instructions(version)).prop_map(
        move |(numbers, (sec, nsec), match_, instructions)| {
            let (table_id, priority, idle_timeout, hard_timeout, flags, cookie, p, b, i) = numbers;
            let new = version >= Version::V1_3;
            FlowStats {
                table_id,
                duration: Duration::new(sec.into(), nsec),
                priority,
                idle_timeout,
                hard_timeout,
                flags: if new { FlowModFlags(flags) } else { FlowModFlags::default() },
                importance: if version >= Version::V1_4 { i } else { 0 },
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
            let old = version <= Version::V1_2;
            TableStats {
                table_id,
                name: old.then(|| Text::from(name)),
                wildcards: if version == Version::V1_0 { wildcards } else { 0 },
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
            duration: age.filter(|_| version >= Version::V1_3),
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
            duration: age.filter(|_| version >= Version::V1_3),
        },
    )
}

fn counters() -> impl Strategy<Value = Vec<Counter>> {
    let counter = any::<(u64, u64)>()
        .prop_map(|(packet_count, byte_count)| Counter { packet_count, byte_count });
    vec(counter, 0..4)
}

/// Replies about groups.
fn groups(version: Version) -> impl Strategy<Value = ReplyBody<'static>> {
    let group = (any::<(u32, u32, u64, u64)>(), age(), counters()).prop_map(
        move |((group_id, ref_count, packet_count, byte_count), duration, buckets)| GroupStats {
            group_id,
            ref_count,
            packet_count,
            byte_count,
            duration: duration.filter(|_| version >= Version::V1_3),
            buckets,
        },
    );
    let group_desc =
        (any::<(u8, u32)>(), vec(bucket(version), 0..3)).prop_map(|((kind, group_id), buckets)| {
            GroupDesc { kind: GroupKind::from_wire(kind), group_id, buckets }
        });
    prop_oneof![
        vec(group, 0..3).prop_map(ReplyBody::Group),
        vec(group_desc, 0..3).prop_map(ReplyBody::GroupDesc),
    ]
}

fn group_features() -> impl Strategy<Value = ReplyBody<'static>> {
    any::<(u32, u32, [u32; 4], [u32; 4])>().prop_map(
        |(types, capabilities, max_groups, actions)| {
            ReplyBody::GroupFeatures(GroupFeatures { types, capabilities, max_groups, actions })
        },
    )
}

/// Replies that OpenFlow 1.3 introduces.
fn new_in_1_3(version: Version) -> impl Strategy<Value = ReplyBody<'static>> {
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
    let meter_features = any::<(u32, u32, u32, u8, u8, u32)>().prop_map(
        move |(max_meter, band_types, capabilities, max_bands, max_color, features)| {
            MeterFeatures {
                max_meter,
                band_types,
                capabilities,
                max_bands,
                max_color,
                features: if version == Version::V1_5 { features } else { 0 },
            }
        },
    );
    prop_oneof![
        vec(meter, 0..3).prop_map(ReplyBody::Meter),
        vec(meter_config, 0..3).prop_map(ReplyBody::MeterConfig),
        meter_features.prop_map(ReplyBody::MeterFeatures),
        vec(port_desc(version), 0..3).prop_map(ReplyBody::PortDesc),
    ]
}

/// Replies that OpenFlow 1.4 introduces.
fn new_in_1_4(version: Version) -> impl Strategy<Value = ReplyBody<'static>> {
    let queue = (any::<(u32, u32)>(), option::of(any::<u16>()), option::of(any::<u16>())).prop_map(
        |((queue_id, port), min_rate, max_rate)| Queue {
            queue_id,
            port: PortNo(port),
            min_rate,
            max_rate,
        },
    );
    let change =
        (any::<(u8, u8, u8, u16, u16, u16, u64)>(), match_(version), instructions(version))
            .prop_map(|(numbers, match_, instructions)| {
                let (event, table_id, reason, idle_timeout, hard_timeout, priority, cookie) =
                    numbers;
                let event = match event % 4 {
                    0 => FlowEvent::Initial,
                    1 => FlowEvent::Added,
                    2 => FlowEvent::Removed,
                    _ => FlowEvent::Modified,
                };
                FlowUpdate::Full(Box::new(FlowChange {
                    event,
                    table_id,
                    reason: FlowRemovedReason::from_wire(reason),
                    idle_timeout,
                    hard_timeout,
                    priority,
                    cookie,
                    match_,
                    instructions,
                }))
            });
    let update = prop_oneof![
        3 => change,
        1 => any::<u32>().prop_map(FlowUpdate::Abbreviated),
        1 => Just(FlowUpdate::Paused),
        1 => Just(FlowUpdate::Resumed),
    ];
    prop_oneof![
        vec(table_mod(version), 0..3).prop_map(ReplyBody::TableDesc),
        vec(queue, 0..3).prop_map(ReplyBody::QueueDesc),
        vec(update, 0..4).prop_map(ReplyBody::FlowMonitor),
    ]
}

/// Replies that OpenFlow 1.5 introduces.
fn new_in_1_5() -> impl Strategy<Value = ReplyBody<'static>> {
    let numbers = any::<(u8, u8, u16, u64, u64)>();
    let counters = (numbers, match_(Version::V1_5), age(), age()).prop_map(
        |((table_id, reason, priority, packet_count, byte_count), match_, duration, idle_time)| {
            FlowCounters {
                table_id,
                reason,
                priority,
                match_,
                duration,
                idle_time,
                packet_count,
                byte_count,
            }
        },
    );
    let features = (any::<u16>(), option::of(schedule())).prop_map(|(flags, schedule)| {
        ReplyBody::BundleFeatures(BundleFeatures { capabilities: BundleFlags(flags), schedule })
    });
    prop_oneof![
        vec(counters, 0..3).prop_map(ReplyBody::FlowCounters),
        vec(controller_status(), 0..3).prop_map(ReplyBody::ControllerStatus),
        features,
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
    ]
    .boxed();
    let with_groups = || prop_oneof![both.clone(), groups(version)];
    let in_1_3 =
        || prop_oneof![3 => with_groups(), 1 => group_features(), 2 => new_in_1_3(version)];
    match version {
        Version::V1_0 => both.boxed(),
        Version::V1_1 => with_groups().boxed(),
        Version::V1_2 => prop_oneof![3 => with_groups(), 1 => group_features()].boxed(),
        Version::V1_3 => in_1_3().boxed(),
        Version::V1_4 => prop_oneof![in_1_3(), new_in_1_4(version)].boxed(),
        Version::V1_5 => {
            prop_oneof![2 => in_1_3(), 1 => new_in_1_4(version), 1 => new_in_1_5()].boxed()
        }
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
