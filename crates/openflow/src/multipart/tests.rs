//! Encodes and decodes statistics in every version that has them.

use super::*;
use crate::wire::List;
use crate::{
    Action, Bucket, DescText, EncodeError, FlowModFlags, GroupKind, Instructions, MacAddr, Match,
    MeterBand, MeterFlags, PortDesc, PortNo, Text, Version, append,
};
use core::time::Duration;

fn flow(actions: &[Action]) -> FlowStats<'_> {
    FlowStats {
        table_id: 3,
        duration: Duration::new(70, 5),
        priority: 9,
        idle_timeout: 10,
        hard_timeout: 20,
        flags: FlowModFlags::default(),
        importance: 0,
        cookie: 0xdead_beef,
        packet_count: 1 << 40,
        byte_count: 1 << 50,
        match_: Match::new().in_port(PortNo(1)).eth_type(0x806),
        instructions: Instructions { apply: actions.into(), ..Instructions::default() },
    }
}

fn port(duration: Option<Duration>) -> PortStats {
    PortStats {
        port_no: PortNo::LOCAL,
        rx_packets: 1,
        tx_packets: 2,
        rx_bytes: 3,
        tx_bytes: 4,
        rx_dropped: 5,
        tx_dropped: 6,
        rx_errors: 7,
        tx_errors: 8,
        rx_frame_err: 9,
        rx_over_err: 10,
        rx_crc_err: 11,
        collisions: u64::MAX,
        duration,
    }
}

/// Encodes, decodes, compares, and truncates at every byte.
fn holds(body: ReplyBody<'_>, version: Version) {
    let reply = MultipartReply { more: true, body };
    let mut out = Vec::new();
    append(&mut out, |room| reply.encode(version, 9, room)).unwrap();
    assert_eq!(MultipartReply::decode(&out), Ok(reply));
    for len in 0..out.len() {
        assert!(MultipartReply::decode(&out[..len]).is_err());
    }
}

#[test]
fn shared_replies_round_trip_in_both_versions() {
    let actions = [Action::output(PortNo(2)), Action::PopVlan];
    for version in [Version::V1_0, Version::V1_3] {
        let old = version == Version::V1_0;
        let age = (!old).then(|| Duration::new(1, 2));
        holds(
            ReplyBody::Desc(Box::new(DescText {
                mfr_desc: Text::new("Nicira, Inc."),
                dp_desc: Text::new("None"),
                ..DescText::default()
            })),
            version,
        );
        holds(ReplyBody::Flow(vec![flow(&actions), flow(&[])]), version);
        holds(
            ReplyBody::Aggregate(AggregateStats { packet_count: 1, byte_count: 2, flow_count: 3 }),
            version,
        );
        let table = TableStats {
            table_id: 1,
            name: old.then(|| Text::new("classifier")),
            wildcards: if old { 0x3f_ffff } else { 0 },
            max_entries: if old { 1000 } else { 0 },
            active_count: 4,
            lookup_count: 5,
            matched_count: 6,
        };
        holds(ReplyBody::Table(vec![table, table]), version);
        holds(ReplyBody::PortStats(vec![port(age)]), version);
        let queue = QueueStats {
            port_no: PortNo(1),
            queue_id: 2,
            tx_bytes: 3,
            tx_packets: 4,
            tx_errors: 5,
            duration: age,
        };
        holds(ReplyBody::Queue(vec![queue, queue]), version);
        let data = &[0, 0, 0, 1, 2, 3];
        holds_uncut(ReplyBody::Experimenter { experimenter: 0x2320, data }, version);
    }
}

/// Like [`holds`], for bodies that are valid at any length.
fn holds_uncut(body: ReplyBody<'_>, version: Version) {
    let reply = MultipartReply { more: false, body };
    let mut out = Vec::new();
    append(&mut out, |room| reply.encode(version, 9, room)).unwrap();
    assert_eq!(MultipartReply::decode(&out), Ok(reply));
}

#[test]
fn replies_of_1_3_are_rejected_in_1_0() {
    let counter = Counter { packet_count: 1, byte_count: 2 };
    let bodies = [
        ReplyBody::Group(vec![GroupStats {
            group_id: 1,
            ref_count: 2,
            packet_count: 3,
            byte_count: 4,
            duration: Some(Duration::new(5, 6)),
            buckets: vec![counter, counter],
        }]),
        ReplyBody::GroupDesc(vec![GroupDesc {
            kind: GroupKind::Select,
            group_id: 8,
            buckets: vec![Bucket { weight: 3, ..Bucket::new([Action::Group(9)]) }],
        }]),
        ReplyBody::GroupFeatures(GroupFeatures {
            types: 0xf,
            capabilities: 7,
            max_groups: [1, 2, 3, 4],
            actions: [5, 6, 7, 8],
        }),
        ReplyBody::Meter(vec![MeterStats {
            meter_id: 1,
            flow_count: 2,
            packet_in_count: 3,
            byte_in_count: 4,
            duration: Some(Duration::new(5, 6)),
            bands: vec![counter],
        }]),
        ReplyBody::MeterConfig(vec![MeterConfig {
            flags: MeterFlags::KBPS | MeterFlags::STATS,
            meter_id: 1,
            bands: vec![
                MeterBand::Drop { rate: 1, burst_size: 2 },
                MeterBand::DscpRemark { rate: 3, burst_size: 4, prec_level: 1 },
            ],
        }]),
        ReplyBody::MeterFeatures(MeterFeatures {
            max_meter: 1,
            band_types: 2,
            capabilities: 3,
            max_bands: 4,
            max_color: 5,
            features: 0,
        }),
        ReplyBody::TableFeatures(List::default()),
        ReplyBody::PortDesc(vec![PortDesc::new(PortNo(1), MacAddr::BROADCAST, "p1")]),
    ];
    for body in bodies {
        let reply = MultipartReply { more: false, body: body.clone() };
        let refused = reply.encode(Version::V1_0, 0, &mut [0; 64]);
        assert!(matches!(refused, Err(EncodeError::Unsupported { .. })), "{refused:?}");
        holds(body, Version::V1_3);
    }
}

#[test]
fn requests_round_trip_in_their_versions() {
    let flows = FlowStatsRequest {
        table_id: 1,
        out_port: PortNo(3),
        ..FlowStatsRequest::new(Match::new().eth_type(0x800))
    };
    let both = [
        MultipartRequest::Desc,
        MultipartRequest::Flow(flows.clone()),
        MultipartRequest::Aggregate(flows),
        MultipartRequest::Table,
        MultipartRequest::PortStats(PortNo::ANY),
        MultipartRequest::Queue { port_no: PortNo::ANY, queue_id: None },
        MultipartRequest::Queue { port_no: PortNo(1), queue_id: Some(2) },
        MultipartRequest::Experimenter { experimenter: 1, data: &[0; 8] },
    ];
    let new = [
        MultipartRequest::Group(1),
        MultipartRequest::GroupDesc,
        MultipartRequest::GroupFeatures,
        MultipartRequest::Meter(1),
        MultipartRequest::MeterConfig(1),
        MultipartRequest::MeterFeatures,
        MultipartRequest::TableFeatures(List::default()),
        MultipartRequest::PortDesc,
    ];
    for request in both.iter().chain(&new) {
        let mut out = [0; 80];
        let size = request.encode(Version::V1_3, 1, &mut out).unwrap();
        assert_eq!(MultipartRequest::decode(&out[..size]).as_ref(), Ok(request));
    }
    for request in &both {
        let mut out = [0; 80];
        let size = request.encode(Version::V1_0, 1, &mut out).unwrap();
        assert_eq!(MultipartRequest::decode(&out[..size]).as_ref(), Ok(request));
    }
    for request in &new {
        let refused = request.encode(Version::V1_0, 1, &mut [0; 80]);
        assert!(matches!(refused, Err(EncodeError::Unsupported { .. })), "{refused:?}");
    }
}

#[test]
fn flow_listed_in_1_1_may_have_a_list_of_fields() {
    let actions = [Action::output(PortNo(2))];
    let reply =
        MultipartReply { more: false, body: ReplyBody::Flow(vec![flow(&actions), flow(&[])]) };
    let mut out = Vec::new();
    append(&mut out, |room| reply.encode(Version::V1_2, 9, room)).unwrap();
    out[0] = Version::V1_1.wire(); // as Open vSwitch writes it
    assert_eq!(MultipartReply::decode(&out), Ok(reply));
}
