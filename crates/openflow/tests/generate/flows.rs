//! Generates flow entries, groups, meters, and packets.

use super::{bytes, bytes_mod_8, comes_back};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use rosemary_openflow::matching::{Isid, OpaqueField};
use rosemary_openflow::oxs::{Oxs, Stats};
use rosemary_openflow::v1_3::table::OxmId;
use rosemary_openflow::v1_5::instruction::StatTrigger;
use rosemary_openflow::{
    Action, Bucket, CopiedField, Field, FlowMod, FlowModCommand, FlowModFlags, FlowRemoved,
    FlowRemovedReason, GroupKind, GroupMod, GroupModCommand, Instructions, MacAddr, Masked, Match,
    MeterBand, MeterFlags, MeterMod, MeterModCommand, PacketIn, PacketInReason, PacketOut, PortNo,
    Version,
};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

pub(super) fn port(version: Version) -> BoxedStrategy<PortNo> {
    let reserved = select(vec![
        PortNo::IN_PORT,
        PortNo::TABLE,
        PortNo::NORMAL,
        PortNo::FLOOD,
        PortNo::ALL,
        PortNo::CONTROLLER,
        PortNo::LOCAL,
        PortNo::ANY,
    ]);
    match version {
        Version::V1_0 => prop_oneof![(0..0xff00_u32).prop_map(PortNo), reserved].boxed(),
        _ => prop_oneof![any::<u32>().prop_map(PortNo), reserved].boxed(),
    }
}

pub(super) fn mac() -> impl Strategy<Value = MacAddr> + Clone {
    any::<[u8; 6]>().prop_map(MacAddr)
}

fn ipv4() -> impl Strategy<Value = Ipv4Addr> + Clone {
    any::<u32>().prop_map(Ipv4Addr::from)
}

fn ipv6() -> impl Strategy<Value = Ipv6Addr> {
    any::<u128>().prop_map(Ipv6Addr::from)
}

/// A value, with a mask in half of the cases.
fn masked<T: std::fmt::Debug + Clone>(
    value: impl Strategy<Value = T> + Clone,
) -> impl Strategy<Value = Masked<T>> {
    (value.clone(), option::of(value)).prop_map(|(value, mask)| Masked { value, mask })
}

fn opaque() -> impl Strategy<Value = Field> {
    let class = select(vec![0x0000_u16, 0x0001, 0x8001, 0xffff]);
    (class, 0..128_u8, any::<bool>(), vec(any::<u8>(), 4..60)).prop_map(
        |(class, field, has_mask, payload)| {
            Field::Opaque(OpaqueField { class, field, has_mask, payload: payload.into() })
        },
    )
}

/// Any field with any value and mask.
pub(super) fn field() -> impl Strategy<Value = Field> {
    let mac = || any::<[u8; 6]>().prop_map(MacAddr);
    let v4 = || any::<u32>().prop_map(Ipv4Addr::from);
    let v6 = || any::<u128>().prop_map(Ipv6Addr::from);
    let plain = prop_oneof![
        any::<u32>().prop_map(|v| Field::InPort(PortNo(v))),
        any::<u32>().prop_map(|v| Field::InPhyPort(PortNo(v))),
        any::<u16>().prop_map(Field::EthType),
        any::<u8>().prop_map(Field::VlanPcp),
        any::<u8>().prop_map(Field::IpDscp),
        any::<u8>().prop_map(Field::IpEcn),
        any::<u8>().prop_map(Field::IpProto),
        any::<u16>().prop_map(Field::TcpSrc),
        any::<u16>().prop_map(Field::TcpDst),
        any::<u16>().prop_map(Field::UdpSrc),
        any::<u16>().prop_map(Field::UdpDst),
        any::<u16>().prop_map(Field::SctpSrc),
        any::<u16>().prop_map(Field::SctpDst),
        any::<u8>().prop_map(Field::Icmpv4Type),
        any::<u8>().prop_map(Field::Icmpv4Code),
        any::<u16>().prop_map(Field::ArpOp),
        any::<u8>().prop_map(Field::Icmpv6Type),
        any::<u8>().prop_map(Field::Icmpv6Code),
        ipv6().prop_map(Field::Ipv6NdTarget),
        mac().prop_map(Field::Ipv6NdSll),
        mac().prop_map(Field::Ipv6NdTll),
        any::<u32>().prop_map(Field::MplsLabel),
        any::<u8>().prop_map(Field::MplsTc),
        any::<u8>().prop_map(Field::MplsBos),
        any::<u8>().prop_map(Field::PbbUca),
        any::<u32>().prop_map(|v| Field::ActsetOutput(PortNo(v))),
        any::<u32>().prop_map(Field::PacketType),
    ];
    let maskable = prop_oneof![
        masked(any::<u64>()).prop_map(Field::Metadata),
        masked(mac()).prop_map(Field::EthDst),
        masked(mac()).prop_map(Field::EthSrc),
        masked(any::<u16>()).prop_map(Field::VlanVid),
        masked(v4()).prop_map(Field::Ipv4Src),
        masked(v4()).prop_map(Field::Ipv4Dst),
        masked(v4()).prop_map(Field::ArpSpa),
        masked(v4()).prop_map(Field::ArpTpa),
        masked(mac()).prop_map(Field::ArpSha),
        masked(mac()).prop_map(Field::ArpTha),
        masked(v6()).prop_map(Field::Ipv6Src),
        masked(v6()).prop_map(Field::Ipv6Dst),
        masked(any::<u32>()).prop_map(Field::Ipv6Flabel),
        masked((0..1_u32 << 24).prop_map(Isid)).prop_map(Field::PbbIsid),
        masked(any::<u64>()).prop_map(Field::TunnelId),
        masked(any::<u16>()).prop_map(Field::Ipv6Exthdr),
        masked(any::<u16>()).prop_map(Field::TcpFlags),
    ];
    prop_oneof![10 => plain, 10 => maskable, 1 => opaque()]
}

fn prefix() -> impl Strategy<Value = Masked<Ipv4Addr>> {
    (any::<u32>(), 1..=32_u32).prop_map(|(address, bits)| {
        let mask = u32::MAX << (32 - bits);
        Masked { value: address.into(), mask: Some(mask.into()) }
    })
}

/// Any match that the version can express.
pub(super) fn match_(version: Version) -> BoxedStrategy<Match> {
    if version.features().oxm {
        return vec(field(), 0..8)
            .prop_map(|fields| fields.iter().fold(Match::new(), Match::with))
            .boxed();
    }
    if version == Version::V1_1 {
        return match_1_1().boxed();
    }
    let layer_2 = vec(
        prop_oneof![
            port(version).prop_map(Field::InPort),
            mac().prop_map(|mac| Field::EthSrc(mac.into())),
            mac().prop_map(|mac| Field::EthDst(mac.into())),
            (0..0x1000_u16).prop_map(|vid| Field::VlanVid((0x1000 | vid).into())),
            (0..8_u8).prop_map(Field::VlanPcp),
        ],
        0..5,
    );
    let arp = (any::<u8>(), prefix(), prefix()).prop_map(|(op, spa, tpa)| {
        vec![Field::EthType(0x806), Field::ArpOp(op.into()), Field::ArpSpa(spa), Field::ArpTpa(tpa)]
    });
    let ip = (prefix(), prefix(), 0..64_u8).prop_map(|(src, dst, dscp)| {
        vec![Field::EthType(0x800), Field::Ipv4Src(src), Field::Ipv4Dst(dst), Field::IpDscp(dscp)]
    });
    let transport = prop_oneof![
        any::<u16>().prop_map(|port| vec![Field::IpProto(6), Field::TcpSrc(port)]),
        any::<u16>().prop_map(|port| vec![Field::IpProto(17), Field::UdpDst(port)]),
        any::<u8>().prop_map(|kind| vec![Field::IpProto(1), Field::Icmpv4Type(kind)]),
        any::<u8>().prop_map(|proto| vec![Field::IpProto(proto)]),
    ];
    let other = any::<u16>().prop_map(|ethertype| vec![Field::EthType(ethertype)]);
    let layer_3 = prop_oneof![
        Just(Vec::new()),
        arp,
        other,
        (ip, transport).prop_map(|(ip, transport)| [ip, transport].concat()),
    ];
    (layer_2, layer_3)
        .prop_map(|(low, high)| low.iter().chain(&high).fold(Match::new(), Match::with))
        .boxed()
}

/// Any match that OpenFlow 1.1 can express.
fn match_1_1() -> impl Strategy<Value = Match> {
    let vlan = prop_oneof![
        Just(vec![Field::VlanVid(0.into())]),
        Just(vec![Field::VlanVid(Masked::new(0x1000, 0x1000))]),
        (0..0x0ffe_u16, 0..8_u8).prop_map(|(vid, pcp)| {
            vec![Field::VlanVid((0x1000 | vid).into()), Field::VlanPcp(pcp)]
        }),
    ];
    let layer_2 = vec(
        prop_oneof![
            port(Version::V1_1).prop_map(|port| vec![Field::InPort(port)]),
            masked(mac()).prop_map(|mac| vec![Field::EthSrc(mac)]),
            masked(mac()).prop_map(|mac| vec![Field::EthDst(mac)]),
            masked(any::<u64>()).prop_map(|metadata| vec![Field::Metadata(metadata)]),
        ],
        0..5,
    );
    // At most once: a priority does not go with another VLAN id than its own.
    let vlan = option::of(vlan).prop_map(Option::unwrap_or_default);
    let arp = (any::<u8>(), masked(ipv4()), masked(ipv4())).prop_map(|(op, spa, tpa)| {
        vec![Field::EthType(0x806), Field::ArpOp(op.into()), Field::ArpSpa(spa), Field::ArpTpa(tpa)]
    });
    let ip = (masked(ipv4()), masked(ipv4()), 0..64_u8).prop_map(|(src, dst, dscp)| {
        vec![Field::EthType(0x800), Field::Ipv4Src(src), Field::Ipv4Dst(dst), Field::IpDscp(dscp)]
    });
    let transport = prop_oneof![
        any::<u16>().prop_map(|port| vec![Field::IpProto(6), Field::TcpSrc(port)]),
        any::<u16>().prop_map(|port| vec![Field::IpProto(17), Field::UdpDst(port)]),
        any::<u16>().prop_map(|port| vec![Field::IpProto(132), Field::SctpDst(port)]),
        any::<u8>().prop_map(|kind| vec![Field::IpProto(1), Field::Icmpv4Type(kind)]),
    ];
    let mpls = (any::<u32>(), any::<u8>()).prop_map(|(label, class)| {
        vec![Field::EthType(0x8847), Field::MplsLabel(label), Field::MplsTc(class)]
    });
    let other = any::<u16>().prop_map(|ethertype| vec![Field::EthType(ethertype)]);
    let layer_3 = prop_oneof![
        Just(Vec::new()),
        arp,
        mpls,
        other,
        (ip, transport).prop_map(|(ip, transport)| [ip, transport].concat()),
    ];
    (layer_2, vlan, layer_3).prop_map(|(low, vlan, high)| {
        low.concat().iter().chain(&vlan).chain(&high).fold(Match::new(), Match::with)
    })
}

/// Any action that the version can express.
pub(super) fn action(version: Version) -> BoxedStrategy<Action> {
    let output =
        (port(version), any::<u16>()).prop_map(|(port, max_len)| Action::Output { port, max_len });
    let experimenter = (any::<u32>(), bytes_mod_8(0))
        .prop_map(|(experimenter, data)| Action::Experimenter { experimenter, data });
    let unknown =
        (200..0xfff0_u16, bytes_mod_8(4)).prop_map(|(kind, body)| Action::Unknown { kind, body });
    if version == Version::V1_0 {
        let set = prop_oneof![
            (0..0x1000_u16).prop_map(|vid| Field::VlanVid((0x1000 | vid).into())),
            (0..8_u8).prop_map(Field::VlanPcp),
            mac().prop_map(|mac| Field::EthSrc(mac.into())),
            mac().prop_map(|mac| Field::EthDst(mac.into())),
            ipv4().prop_map(|ip| Field::Ipv4Src(ip.into())),
            ipv4().prop_map(|ip| Field::Ipv4Dst(ip.into())),
            (0..64_u8).prop_map(Field::IpDscp),
        ];
        return prop_oneof![
            output,
            set.prop_map(Action::SetField),
            any::<u16>().prop_map(Action::SetTpSrc),
            any::<u16>().prop_map(Action::SetTpDst),
            Just(Action::PopVlan),
            (port(version), any::<u32>())
                .prop_map(|(port, queue_id)| Action::Enqueue { port, queue_id }),
            experimenter,
            unknown,
        ]
        .boxed();
    }
    let set = match version {
        Version::V1_1 => set_1_1().boxed(),
        Version::V1_5 => field().prop_map(Action::SetField).boxed(),
        _ => field()
            .prop_filter("a mask cannot be sent", |field| !field.to_string().contains('/'))
            .prop_map(Action::SetField)
            .boxed(),
    };
    let special =
        match version {
            Version::V1_1 => prop_oneof![
                any::<u16>().prop_map(Action::SetTpSrc),
                any::<u16>().prop_map(Action::SetTpDst),
            ]
            .boxed(),
            Version::V1_5 => {
                let place = || {
                    (0..0xffff_u16, 0..128_u8, any::<(bool, u8, u16)>()).prop_map(
                        |(class, field, (has_mask, length, offset))| CopiedField {
                            field: OxmId { class, field, has_mask, length, experimenter: None },
                            offset,
                        },
                    )
                };
                prop_oneof![
                    any::<u32>().prop_map(Action::Meter),
                    (any::<u16>(), place(), place())
                        .prop_map(|(n_bits, from, to)| Action::CopyField { n_bits, from, to }),
                ]
                .boxed()
            }
            _ => Just(Action::DecNwTtl).boxed(),
        };
    let pbb = match version {
        Version::V1_1 | Version::V1_2 => Just(Action::PopVlan).boxed(),
        _ => prop_oneof![any::<u16>().prop_map(Action::PushPbb), Just(Action::PopPbb)].boxed(),
    };
    prop_oneof![
        output,
        set,
        special,
        pbb,
        any::<u16>().prop_map(Action::PushVlan),
        Just(Action::PopVlan),
        any::<u16>().prop_map(Action::PushMpls),
        any::<u16>().prop_map(Action::PopMpls),
        any::<u32>().prop_map(Action::SetQueue),
        any::<u32>().prop_map(Action::Group),
        any::<u8>().prop_map(Action::SetNwTtl),
        Just(Action::DecNwTtl),
        any::<u8>().prop_map(Action::SetMplsTtl),
        Just(Action::DecMplsTtl),
        Just(Action::CopyTtlOut),
        Just(Action::CopyTtlIn),
        experimenter,
        unknown,
    ]
    .boxed()
}

/// A field that OpenFlow 1.1 can set.
fn set_1_1() -> impl Strategy<Value = Action> {
    prop_oneof![
        (0..0x1000_u16).prop_map(|vid| Field::VlanVid((0x1000 | vid).into())),
        (0..8_u8).prop_map(Field::VlanPcp),
        mac().prop_map(|mac| Field::EthSrc(mac.into())),
        ipv4().prop_map(|ip| Field::Ipv4Dst(ip.into())),
        (0..64_u8).prop_map(Field::IpDscp),
        (0..4_u8).prop_map(Field::IpEcn),
        any::<u32>().prop_map(Field::MplsLabel),
        any::<u8>().prop_map(Field::MplsTc),
    ]
    .prop_map(Action::SetField)
}

/// Statistics with any fields.
pub(super) fn stats() -> impl Strategy<Value = Stats<'static>> {
    let known = select(vec![(0_u8, 8_usize), (1, 8), (3, 4), (4, 8), (5, 8)]).prop_flat_map(
        |(field, size)| {
            vec(any::<u8>(), size).prop_map(move |payload| Oxs {
                class: 0x8002,
                field,
                reserved: false,
                payload: super::leak(payload),
            })
        },
    );
    let unknown = (0..0x8000_u16, 0..128_u8, any::<bool>(), bytes(40)).prop_map(
        |(class, field, reserved, payload)| Oxs {
            class,
            field,
            reserved,
            payload: super::leak(payload),
        },
    );
    vec(prop_oneof![3 => known, 1 => unknown], 0..5)
        .prop_map(|fields| Stats { fields: super::leak(fields).into(), ..Stats::default() })
}

pub(super) fn actions(version: Version) -> impl Strategy<Value = &'static [Action]> {
    vec(action(version), 0..4).prop_map(super::leak)
}

/// Any instructions that the version can express.
pub(super) fn instructions(version: Version) -> BoxedStrategy<Instructions<'static>> {
    // A meter at the beginning of the applied actions is the field `meter`.
    let begins = |actions: &&[Action]| !matches!(actions.first(), Some(Action::Meter(_)));
    let apply = actions(version)
        .prop_filter("the meter is apart", begins)
        .prop_map(|actions| Instructions { apply: actions.into(), ..Instructions::default() });
    if version == Version::V1_0 {
        return apply.boxed();
    }
    let rest = (
        option::of(any::<u32>()),
        any::<bool>(),
        actions(version),
        option::of(any::<(u64, u64)>()),
        option::of(any::<u8>()),
        option::of((any::<u32>(), stats())),
    );
    let has_meter = version.features().meters;
    (apply, rest)
        .prop_map(move |(apply, (meter, clear, write, metadata, goto_table, trigger))| {
            Instructions {
                meter: meter.filter(|_| has_meter),
                stat_trigger: trigger
                    .filter(|_| version == Version::V1_5)
                    .map(|(flags, thresholds)| StatTrigger { flags, thresholds }),
                clear,
                write: write.into(),
                metadata,
                goto_table,
                ..apply
            }
        })
        .boxed()
}

fn flow_mod(version: Version) -> impl Strategy<Value = Vec<u8>> {
    let new = version != Version::V1_0;
    let commands = vec![
        FlowModCommand::Add,
        FlowModCommand::Modify,
        FlowModCommand::ModifyStrict,
        FlowModCommand::Delete,
        FlowModCommand::DeleteStrict,
    ];
    let old_flags = vec![
        FlowModFlags::default(),
        FlowModFlags::SEND_FLOW_REM,
        FlowModFlags::CHECK_OVERLAP | FlowModFlags::EMERGENCY,
    ];
    let flags = match version {
        Version::V1_0 => select(old_flags).boxed(),
        Version::V1_1 => (0..4_u16).prop_map(FlowModFlags).boxed(),
        Version::V1_2 => (0..8_u16).prop_map(FlowModFlags).boxed(),
        _ => (0..0x20_u16).prop_map(FlowModFlags).boxed(),
    };
    let head = (select(commands), any::<(u8, u64, u64, u32)>(), match_(version));
    let numbers = any::<(u16, u16, u16, u16)>();
    let rest = (option::of(0..u32::MAX), port(version), flags, instructions(version));
    (head, numbers, rest).prop_map(move |(head, numbers, rest)| {
        let (command, (table_id, cookie, cookie_mask, out_group), match_) = head;
        let (priority, idle_timeout, hard_timeout, importance) = numbers;
        let (buffer_id, out_port, flags, instructions) = rest;
        let value = FlowMod {
            command,
            table_id: if new { table_id } else { 0 },
            cookie,
            cookie_mask: if new { cookie_mask } else { 0 },
            match_,
            priority,
            idle_timeout,
            hard_timeout,
            buffer_id,
            out_port,
            out_group: if new { out_group } else { FlowMod::ANY_GROUP },
            flags,
            importance: if version >= Version::V1_4 { importance } else { 0 },
            instructions,
        };
        comes_back!(value, FlowMod::decode, |value, out| value.encode(version, 1, out))
    })
}

fn flow_removed(version: Version) -> impl Strategy<Value = Vec<u8>> {
    let new = version != Version::V1_0;
    let reason = (0..if new { 4_u8 } else { 3 }).prop_map(FlowRemovedReason::from_wire);
    let duration = (any::<u32>(), 0..1_000_000_000_u32);
    (match_(version), reason, duration, any::<(u64, u16, u8, u16, u16, u64, u64)>()).prop_map(
        move |(match_, reason, (sec, nsec), numbers)| {
            let (cookie, priority, table, idle_timeout, hard, packet_count, byte_count) = numbers;
            let value = FlowRemoved {
                match_,
                cookie,
                priority,
                reason,
                table_id: if new { table } else { 0 },
                duration: Duration::new(sec.into(), nsec),
                idle_timeout,
                hard_timeout: if version >= Version::V1_2 { hard } else { 0 },
                packet_count,
                byte_count,
            };
            comes_back!(value, FlowRemoved::decode, |value, out| value.encode(version, 1, out))
        },
    )
}

fn packet_in(version: Version) -> impl Strategy<Value = Vec<u8>> {
    let new = version != Version::V1_0;
    (option::of(0..u32::MAX), any::<(u16, u8, u8, u64)>(), port(version), bytes(80)).prop_map(
        move |(buffer_id, (total_len, reason, table_id, cookie), in_port, data)| {
            let value = PacketIn {
                buffer_id,
                total_len,
                reason: PacketInReason::from_wire(reason),
                table_id: if new { table_id } else { 0 },
                cookie: if version >= Version::V1_3 { cookie } else { PacketIn::NO_COOKIE },
                ..PacketIn::new(in_port, &data)
            };
            let bytes = super::encoded(|out| value.encode(version, 1, out));
            let decoded = PacketIn::decode(&bytes).expect("it was encoded");
            let has_match = version >= Version::V1_2;
            assert_eq!(decoded.match_.fields().count(), usize::from(has_match));
            assert_eq!(PacketIn { match_: value.match_, ..decoded }, value);
            bytes
        },
    )
}

fn packet_out(version: Version) -> impl Strategy<Value = Vec<u8>> {
    (option::of(0..u32::MAX), port(version), actions(version), bytes(80)).prop_map(
        move |(buffer_id, in_port, actions, data)| {
            let value = PacketOut { buffer_id, ..PacketOut::new(in_port, actions, &data) };
            comes_back!(value, PacketOut::decode, |value, out| value.encode(version, 1, out))
        },
    )
}

pub(super) fn bucket(version: Version) -> impl Strategy<Value = Bucket> {
    (any::<(u16, u32, u32, u32)>(), vec(action(version), 0..3)).prop_map(
        move |((weight, watch_port, watch_group, bucket_id), actions)| Bucket {
            bucket_id: (version == Version::V1_5).then_some(bucket_id),
            weight,
            watch_port: PortNo(watch_port),
            watch_group,
            actions,
        },
    )
}

fn group_mod(version: Version) -> impl Strategy<Value = Vec<u8>> {
    let mut commands = vec![GroupModCommand::Add, GroupModCommand::Modify, GroupModCommand::Delete];
    if version == Version::V1_5 {
        commands.push(GroupModCommand::InsertBucket(Bucket::LAST));
        commands.push(GroupModCommand::RemoveBucket(7));
    }
    (select(commands), any::<(u8, u32)>(), vec(bucket(version), 0..4)).prop_map(
        move |(command, (kind, group_id), buckets)| {
            let kind = GroupKind::from_wire(kind);
            let value = GroupMod { command, kind, group_id, buckets };
            comes_back!(value, GroupMod::decode, |value, out| value.encode(version, 1, out))
        },
    )
}

pub(super) fn band() -> impl Strategy<Value = MeterBand> {
    prop_oneof![
        any::<(u32, u32)>().prop_map(|(rate, burst_size)| MeterBand::Drop { rate, burst_size }),
        any::<(u32, u32, u8)>().prop_map(|(rate, burst_size, prec_level)| {
            MeterBand::DscpRemark { rate, burst_size, prec_level }
        }),
        (any::<(u32, u32, u32)>(), bytes_mod_8(0)).prop_map(
            |((rate, burst_size, experimenter), data)| MeterBand::Experimenter {
                rate,
                burst_size,
                experimenter,
                data
            }
        ),
        (3..0xfff0_u16, bytes_mod_8(4)).prop_map(|(kind, body)| MeterBand::Unknown { kind, body }),
    ]
}

fn meter_mod(version: Version) -> impl Strategy<Value = Vec<u8>> {
    let commands = vec![MeterModCommand::Add, MeterModCommand::Modify, MeterModCommand::Delete];
    (select(commands), any::<(u16, u32)>(), vec(band(), 0..4)).prop_map(
        move |(command, (flags, meter_id), bands)| {
            let value = MeterMod { command, flags: MeterFlags(flags), meter_id, bands };
            comes_back!(value, MeterMod::decode, |value, out| value.encode(version, 1, out))
        },
    )
}

/// Generates the messages of this file.
pub(super) fn messages(version: Version) -> BoxedStrategy<Vec<u8>> {
    let both = prop_oneof![
        3 => flow_mod(version),
        1 => flow_removed(version),
        1 => packet_in(version),
        1 => packet_out(version),
    ];
    match version {
        Version::V1_0 => both.boxed(),
        Version::V1_1 | Version::V1_2 => prop_oneof![4 => both, 1 => group_mod(version)].boxed(),
        _ => prop_oneof![3 => both, 1 => group_mod(version), 1 => meter_mod(version)].boxed(),
    }
}

/// A random subset of bits.
pub(super) fn some_of(bits: &'static [u32]) -> impl Strategy<Value = u32> {
    subsequence(bits, 0..=bits.len()).prop_map(|bits| bits.iter().fold(0, |all, bit| all | bit))
}
