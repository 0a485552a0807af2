//! Generates messages of OpenFlow 1.4 and 1.5 that only these versions' own types can represent: properties that the
//! version-independent types leave out, statistics with unknown fields, and packet-outs with several pipeline fields.

use super::flows::stats;
use super::{bytes, comes_back, leak};
use proptest::collection::vec;
use proptest::prelude::*;
use rosemary_openflow::oxm::Oxm;
use rosemary_openflow::v1_3::multipart;
use rosemary_openflow::v1_3::table::{OxmId, TableProperty};
use rosemary_openflow::v1_4::bundle::{BundleControl, BundleProperty};
use rosemary_openflow::v1_4::multipart::{OpticalStats, PortStats, PortStatsProperty, QueueStats};
use rosemary_openflow::v1_4::port::{OpticalMod, OpticalPort, Port, PortModProperty, PortProperty};
use rosemary_openflow::v1_4::property::{Experimenter, Properties, Property};
use rosemary_openflow::v1_4::role::{AsyncConfig, AsyncProperty, RoleStatus};
use rosemary_openflow::v1_4::table::{TableMod, TableModProperty};
use rosemary_openflow::v1_5::group::{Bucket, BucketProperty, GroupMod, Weight};
use rosemary_openflow::v1_5::{self, PacketOut, TableFeatures};
use rosemary_openflow::wire::{List, Pad, Padded, WireFormat};
use rosemary_openflow::{MacAddr, PortName, PortNo, Text, v1_4};

fn experimenter() -> impl Strategy<Value = Experimenter<'static>> {
    (any::<(u32, u32)>(), bytes(20)).prop_map(|((experimenter, exp_type), data)| Experimenter {
        experimenter,
        exp_type,
        data: leak(data),
    })
}

/// Any of these properties, each with its padding.
fn properties<P: WireFormat<'static> + std::fmt::Debug + 'static>(
    property: impl Strategy<Value = P>,
) -> impl Strategy<Value = Properties<'static, P>> {
    vec(property.prop_map(Padded::from), 0..4).prop_map(|list| List::from(leak(list)))
}

fn alone() -> impl Strategy<Value = Properties<'static>> {
    properties(experimenter().prop_map(Property::Experimenter))
}

fn oxm_ids() -> impl Strategy<Value = List<'static, OxmId>> {
    let id = (0..0xffff_u16, 0..128_u8, any::<(bool, u8)>()).prop_map(
        |(class, field, (has_mask, length))| OxmId {
            class,
            field,
            has_mask,
            length,
            experimenter: None,
        },
    );
    vec(id, 0..4).prop_map(|list| List::from(leak(list)))
}

fn oxms() -> impl Strategy<Value = List<'static, Oxm<'static>>> {
    let oxm = (0..0x8000_u16, 0..128_u8, any::<bool>(), bytes(20)).prop_map(
        |(class, field, has_mask, payload)| Oxm { class, field, has_mask, payload: leak(payload) },
    );
    vec(oxm, 0..4).prop_map(|list| List::from(leak(list)))
}

fn optical_port() -> impl Strategy<Value = OpticalPort> {
    any::<([u32; 7], u16, u16)>().prop_map(|(numbers, tx_pwr_min, tx_pwr_max)| OpticalPort {
        pad: Pad::default(),
        supported: numbers[0],
        tx_min_freq_lmda: numbers[1],
        tx_max_freq_lmda: numbers[2],
        tx_grid_freq_lmda: numbers[3],
        rx_min_freq_lmda: numbers[4],
        rx_max_freq_lmda: numbers[5],
        rx_grid_freq_lmda: numbers[6],
        tx_pwr_min,
        tx_pwr_max,
    })
}

fn optical_stats() -> impl Strategy<Value = OpticalStats> {
    any::<([u32; 7], [u16; 4])>().prop_map(|(long, short)| OpticalStats {
        pad: Pad::default(),
        flags: long[0],
        tx_freq_lmda: long[1],
        tx_offset: long[2],
        tx_grid_span: long[3],
        rx_freq_lmda: long[4],
        rx_offset: long[5],
        rx_grid_span: long[6],
        tx_pwr: short[0],
        rx_pwr: short[1],
        bias_current: short[2],
        temperature: short[3],
    })
}

fn ports() -> impl Strategy<Value = v1_5::ReplyBody<'static>> {
    let property = prop_oneof![
        optical_port().prop_map(PortProperty::Optical),
        oxm_ids().prop_map(PortProperty::PipelineInput),
        oxm_ids().prop_map(PortProperty::PipelineOutput),
        vec(any::<u32>(), 0..4)
            .prop_map(|ports| PortProperty::Recirculate(List::from(leak(ports)))),
        experimenter().prop_map(PortProperty::Experimenter),
    ];
    let port = (any::<(u32, [u8; 6], [u8; 16], u32, u32)>(), properties(property)).prop_map(
        |((port_no, hw_addr, name, config, state), properties)| Port {
            port_no: PortNo(port_no),
            pad: Pad::default(),
            hw_addr: MacAddr(hw_addr),
            pad2: Pad::default(),
            name: PortName::from(name),
            config,
            state,
            properties,
        },
    );
    vec(port, 0..3).prop_map(|ports| multipart::ReplyBody::PortDescV1_4(List::from(leak(ports))))
}

fn counters() -> impl Strategy<Value = v1_5::ReplyBody<'static>> {
    let property = prop_oneof![
        optical_stats().prop_map(PortStatsProperty::Optical),
        experimenter().prop_map(PortStatsProperty::Experimenter),
    ];
    let port = (any::<(u32, [u32; 2], [u64; 8])>(), properties(property)).prop_map(
        |((port_no, [duration_sec, duration_nsec], counts), properties)| PortStats {
            pad: Pad::default(),
            port_no: PortNo(port_no),
            duration_sec,
            duration_nsec,
            rx_packets: counts[0],
            tx_packets: counts[1],
            rx_bytes: counts[2],
            tx_bytes: counts[3],
            rx_dropped: counts[4],
            tx_dropped: counts[5],
            rx_errors: counts[6],
            tx_errors: counts[7],
            properties,
        },
    );
    let queue = (any::<([u32; 4], [u64; 3])>(), alone()).prop_map(
        |(([port, queue_id, duration_sec, duration_nsec], counts), properties)| QueueStats {
            pad: Pad::default(),
            port_no: PortNo(port),
            queue_id,
            tx_bytes: counts[0],
            tx_packets: counts[1],
            tx_errors: counts[2],
            duration_sec,
            duration_nsec,
            properties,
        },
    );
    prop_oneof![
        vec(port, 0..3).prop_map(|it| multipart::ReplyBody::PortStatsV1_4(List::from(leak(it)))),
        vec(queue, 0..3).prop_map(|it| multipart::ReplyBody::QueueV1_4(List::from(leak(it)))),
        stats().prop_map(multipart::ReplyBody::AggregateV1_5),
    ]
}

fn tables() -> impl Strategy<Value = v1_5::ReplyBody<'static>> {
    let property = prop_oneof![
        vec(any::<u8>(), 0..9).prop_map(|it| TableProperty::TableSyncFrom(List::from(leak(it)))),
        oxm_ids().prop_map(TableProperty::WriteCopyField),
        oxm_ids().prop_map(TableProperty::WriteCopyFieldMiss),
        oxm_ids().prop_map(TableProperty::ApplyCopyField),
        oxm_ids().prop_map(TableProperty::ApplyCopyFieldMiss),
        oxms().prop_map(TableProperty::PacketTypes),
    ];
    let numbers = any::<(u8, u8, u32, [u8; 32], u64, u64, u32, u32)>();
    let table = (numbers, properties(property)).prop_map(|(numbers, properties)| TableFeatures {
        table_id: numbers.0,
        command: numbers.1,
        features: numbers.2,
        name: Text::from(numbers.3),
        metadata_match: numbers.4,
        metadata_write: numbers.5,
        capabilities: numbers.6,
        max_entries: numbers.7,
        properties,
    });
    vec(table, 0..3).prop_map(|it| multipart::ReplyBody::TableFeaturesV1_5(List::from(leak(it))))
}

fn replies() -> impl Strategy<Value = v1_5::Body<'static>> {
    let body = prop_oneof![ports(), counters(), tables()];
    (any::<u16>(), body).prop_map(|(flags, body)| {
        let reply = multipart::MultipartReply { flags, pad: Pad::default(), body };
        v1_5::Body::MultipartReply(reply)
    })
}

fn packet_out() -> impl Strategy<Value = v1_5::Body<'static>> {
    (any::<u32>(), oxms(), bytes(40)).prop_map(|(buffer_id, fields, data)| {
        v1_5::Body::PacketOutV1_5(PacketOut {
            buffer_id,
            pad: Pad::default(),
            match_: v1_5::Match { fields, ..v1_5::Match::default() },
            actions: List::default(),
            data: leak(data),
        })
    })
}

fn group_mod() -> impl Strategy<Value = v1_5::Body<'static>> {
    let property = prop_oneof![
        any::<u16>().prop_map(|weight| BucketProperty::Weight(Weight { weight, pad: Pad([0; 2]) })),
        any::<u32>().prop_map(|port| BucketProperty::WatchPort(PortNo(port))),
        any::<u32>().prop_map(BucketProperty::WatchGroup),
        experimenter().prop_map(BucketProperty::Experimenter),
    ];
    let bucket = (any::<u32>(), properties(property)).prop_map(|(bucket_id, properties)| Bucket {
        bucket_id,
        actions: List::default(),
        properties,
    });
    (any::<(u16, u8, u32, u32)>(), vec(bucket, 0..3), alone()).prop_map(
        |((command, kind, group_id, command_bucket_id), buckets, properties)| {
            v1_5::Body::GroupModV1_5(GroupMod {
                command,
                kind,
                pad: Pad::default(),
                group_id,
                pad2: Pad::default(),
                command_bucket_id,
                buckets: List::from(leak(buckets)),
                properties,
            })
        },
    )
}

/// Messages of OpenFlow 1.4 with experimenters' properties.
fn of_1_4() -> impl Strategy<Value = v1_4::Body<'static>> {
    let optical =
        any::<[u32; 5]>().prop_map(|[configure, freq_lmda, fl_offset, grid_span, tx_pwr]| {
            PortModProperty::Optical(OpticalMod {
                configure,
                freq_lmda,
                fl_offset,
                grid_span,
                tx_pwr,
            })
        });
    let property = prop_oneof![optical, experimenter().prop_map(PortModProperty::Experimenter)];
    let port_mod = (any::<(u32, [u8; 6], u32, u32)>(), properties(property)).prop_map(
        |((port_no, hw_addr, config, mask), properties)| {
            v1_4::Body::PortModV1_4(v1_4::PortMod {
                port_no: PortNo(port_no),
                pad: Pad::default(),
                hw_addr: MacAddr(hw_addr),
                pad2: Pad::default(),
                config,
                mask,
                properties,
            })
        },
    );
    let property = experimenter().prop_map(TableModProperty::Experimenter);
    let table_mod =
        (any::<(u8, u32)>(), properties(property)).prop_map(|((table_id, config), properties)| {
            v1_4::Body::TableModV1_4(TableMod { table_id, pad: Pad::default(), config, properties })
        });
    let property = prop_oneof![
        experimenter().prop_map(AsyncProperty::ExperimenterSlave),
        experimenter().prop_map(AsyncProperty::ExperimenterMaster),
        // The statistics of flow entries: OpenFlow 1.5 defines it.
        any::<u32>().prop_map(|mask| AsyncProperty::Unknown {
            kind: 12,
            body: leak(mask.to_be_bytes().to_vec()),
        }),
    ];
    let set_async = properties(property)
        .prop_map(|properties| v1_4::Body::SetAsyncV1_4(AsyncConfig { properties }));
    let property = experimenter().prop_map(BundleProperty::Experimenter);
    let control = (any::<(u32, u16, u16)>(), properties(property)).prop_map(
        |((bundle_id, kind, flags), properties)| {
            v1_4::Body::BundleControl(BundleControl { bundle_id, kind, flags, properties })
        },
    );
    let status = (any::<(u32, u8, u64)>(), alone()).prop_map(
        |((role, reason, generation_id), properties)| {
            let pad = Pad::default();
            v1_4::Body::RoleStatus(RoleStatus { role, reason, pad, generation_id, properties })
        },
    );
    prop_oneof![port_mod, table_mod, set_async, control, status]
}

/// Generates the messages of this file.
pub(super) fn messages() -> BoxedStrategy<Vec<u8>> {
    let of_1_5 = (any::<u32>(), prop_oneof![3 => replies(), 1 => packet_out(), 1 => group_mod()])
        .prop_map(|(xid, body)| {
            let value = v1_5::Message { xid, body };
            comes_back!(value, v1_5::Message::decode, |value, out| value.encode(out))
        });
    let of_1_4 = (any::<u32>(), of_1_4()).prop_map(|(xid, body)| {
        let value = v1_4::Message { xid, body };
        comes_back!(value, v1_4::Message::decode, |value, out| value.encode(out))
    });
    prop_oneof![3 => of_1_5, 2 => of_1_4].boxed()
}
