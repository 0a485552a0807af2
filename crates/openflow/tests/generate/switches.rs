//! Generates messages about switches, ports, roles and queues, and symmetric messages.

use super::flows::{mac, port, some_of};
use super::{bytes, comes_back};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use rosemary_openflow::{
    AsyncConfig, AsyncMasks, BundleAdd, BundleCommand, BundleControl, BundleFlags, Capabilities,
    ControllerRole, ControllerStatus, Dpid, Echo, ErrorMessage, Eviction, Experimenter, Features,
    Hello, Kind, PortConfig, PortDesc, PortDescReply, PortFeatures, PortMod, PortName, PortNo,
    PortReason, PortState, PortStatus, Queue, QueueConfig, RequestForward, Role, RoleReason,
    RoleStatus, SwitchConfig, TableMod, TableReason, TableStatus, Vacancy, Version,
};
use std::time::Duration;

/// The features that all versions have.
const SHARED_FEATURES: &[u32] =
    &[1, 2, 4, 8, 16, 32, 64, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15];
const CAPABILITIES: &[u32] = &[1, 2, 4, 1 << 5, 1 << 6];

fn features(version: Version) -> BoxedStrategy<PortFeatures> {
    match version {
        Version::V1_0 => some_of(SHARED_FEATURES).prop_map(PortFeatures).boxed(),
        _ => any::<u32>().prop_map(PortFeatures).boxed(),
    }
}

pub(super) fn port_desc(version: Version) -> impl Strategy<Value = PortDesc> {
    let new = version != Version::V1_0;
    let four = [features(version), features(version), features(version), features(version)];
    let numbers = any::<(u32, u32, u32, u32)>();
    (port(version), mac(), any::<[u8; 16]>(), numbers, four).prop_map(
        move |(port_no, hw_addr, name, numbers, [curr, advertised, supported, peer])| {
            let (config, state, curr_speed, max_speed) = numbers;
            PortDesc {
                port_no,
                hw_addr,
                name: PortName::from(name),
                config: PortConfig(config),
                state: PortState(state),
                curr,
                advertised,
                supported,
                peer,
                curr_speed: if new { curr_speed } else { 0 },
                max_speed: if new { max_speed } else { 0 },
            }
        },
    )
}

fn features_reply(version: Version) -> impl Strategy<Value = Vec<u8>> {
    let new = version >= Version::V1_3;
    let most = if new { 1 } else { 4 };
    let numbers = any::<(u64, u32, u8, u8, u32)>();
    (numbers, some_of(CAPABILITIES), vec(port_desc(version), 0..most)).prop_map(
        move |((dpid, n_buffers, n_tables, aux, actions), capabilities, ports)| {
            let value = Features {
                dpid: Dpid(dpid),
                n_buffers,
                n_tables,
                auxiliary_id: if new { aux } else { 0 },
                capabilities: Capabilities(capabilities),
                actions: if version == Version::V1_0 { actions } else { 0 },
                ports,
            };
            comes_back!(value, Features::decode, |value, out| value.encode(version, 1, out))
        },
    )
}

fn port_status(version: Version) -> impl Strategy<Value = Vec<u8>> {
    let reasons = vec![PortReason::Add, PortReason::Delete, PortReason::Modify];
    (select(reasons), port_desc(version)).prop_map(move |(reason, desc)| {
        let value = PortStatus { reason, desc };
        comes_back!(value, PortStatus::decode, |value, out| value.encode(version, 1, out))
    })
}

fn port_desc_reply(version: Version) -> impl Strategy<Value = Vec<u8>> {
    (vec(port_desc(version), 0..4), any::<bool>()).prop_map(move |(ports, more)| {
        let encode = |out: &mut [u8]| PortDescReply::encode(&ports, more, version, 1, out);
        let bytes = super::encoded(encode);
        assert_eq!(PortDescReply::decode(&bytes), Ok((ports, more)));
        bytes
    })
}

fn port_mod(version: Version) -> impl Strategy<Value = Vec<u8>> {
    (port(version), mac(), any::<(u32, u32)>(), features(version)).prop_map(
        move |(port_no, hw_addr, (config, mask), advertise)| {
            let (config, mask) = (PortConfig(config), PortConfig(mask));
            let value = PortMod { port_no, hw_addr, config, mask, advertise };
            comes_back!(value, PortMod::decode, |value, out| value.encode(version, 1, out))
        },
    )
}

fn config(version: Version) -> impl Strategy<Value = Vec<u8>> {
    any::<(bool, u16, u16)>().prop_map(move |(set, flags, miss_send_len)| {
        let value = SwitchConfig { flags, miss_send_len };
        if set {
            comes_back!(value, SwitchConfig::decode_set, |v, out| v.encode_set(version, 1, out))
        } else {
            comes_back!(value, SwitchConfig::decode, |v, out| v.encode_reply(version, 1, out))
        }
    })
}

fn queue_config(version: Version) -> impl Strategy<Value = Vec<u8>> {
    let new = version >= Version::V1_2;
    let queue = (any::<(u32, u32)>(), option::of(any::<u16>()), option::of(any::<u16>()));
    (port(version), vec(queue, 0..4)).prop_map(move |(port, queues)| {
        let queue = |((queue_id, other), min_rate, max_rate)| Queue {
            queue_id,
            port: if new { PortNo(other) } else { port },
            min_rate,
            max_rate: if new { max_rate } else { None },
        };
        let value = QueueConfig { port, queues: queues.into_iter().map(queue).collect() };
        comes_back!(value, QueueConfig::decode, |value, out| value.encode(version, 1, out))
    })
}

fn symmetric(version: Version) -> impl Strategy<Value = Vec<u8>> {
    let hello = option::of(any::<u32>()).prop_map(move |bitmap| {
        let bitmap = bitmap.filter(|_| version >= Version::V1_3);
        let value = Hello { version: version.wire(), bitmap };
        comes_back!(value, Hello::decode, |value, out| value.encode(1, out))
    });
    let error = (any::<(u16, u16)>(), bytes(80)).prop_map(move |((kind, code), data)| {
        let value = ErrorMessage { version, kind, code, data: &data };
        comes_back!(value, ErrorMessage::decode, |value, out| value.encode(1, out))
    });
    let echo = (any::<(bool, u32)>(), bytes(80)).prop_map(move |((is_reply, xid), data)| {
        let value = Echo { is_reply, xid, data: &data };
        comes_back!(value, Echo::decode, |value, out| value.encode(version, out))
    });
    let experimenter =
        (any::<u32>(), vec(any::<u8>(), 4..40)).prop_map(move |(experimenter, data)| {
            let value = Experimenter { experimenter, data: &data };
            comes_back!(value, Experimenter::decode, |value, out| value.encode(version, 1, out))
        });
    let empty = select(vec![
        Kind::FeaturesRequest,
        Kind::GetConfigRequest,
        Kind::BarrierRequest,
        Kind::BarrierReply,
    ])
    .prop_map(move |kind| super::encoded(|out| kind.encode_empty(version, 1, out)));
    prop_oneof![hello, error, echo, experimenter, empty]
}

fn role() -> impl Strategy<Value = ControllerRole> {
    select(vec![
        ControllerRole::NoChange,
        ControllerRole::Equal,
        ControllerRole::Master,
        ControllerRole::Slave,
    ])
}

fn roles(version: Version) -> impl Strategy<Value = Vec<u8>> {
    let rest = (any::<(u64, bool)>(), option::of(0..0xffff_u16));
    (role(), rest).prop_map(move |(role, ((generation_id, is_reply), short_id))| {
        let short_id = short_id.filter(|_| version == Version::V1_5);
        let value = Role { role, generation_id, short_id };
        if is_reply {
            comes_back!(value, Role::decode_reply, |v, out| v.encode_reply(version, 1, out))
        } else {
            comes_back!(value, Role::decode_request, |v, out| v.encode_request(version, 1, out))
        }
    })
}

fn async_config(version: Version) -> impl Strategy<Value = Vec<u8>> {
    let masks = || [option::of(any::<u32>()), option::of(any::<u32>())];
    let first = [masks(), masks(), masks()];
    let later = [masks(), masks(), masks(), masks(), masks()];
    (first, later, any::<bool>()).prop_map(move |(first, later, is_reply)| {
        let all = |masks: AsyncMasks| match version {
            Version::V1_3 => masks.map(|mask| Some(mask.unwrap_or(0))),
            _ => masks,
        };
        let since = |first: Version, masks| if version < first { [None; 2] } else { masks };
        let [packet_in, port_status, flow_removed] = first.map(all);
        let [role_status, table_status, request_forward, flow_stats, controller_status] = later;
        let value = AsyncConfig {
            packet_in,
            port_status,
            flow_removed,
            role_status: since(Version::V1_4, role_status),
            table_status: since(Version::V1_4, table_status),
            request_forward: since(Version::V1_4, request_forward),
            flow_stats: since(Version::V1_5, flow_stats),
            controller_status: since(Version::V1_5, controller_status),
        };
        if is_reply {
            comes_back!(value, AsyncConfig::decode_reply, |v, out| v.encode_reply(version, 1, out))
        } else {
            comes_back!(value, AsyncConfig::decode_set, |v, out| v.encode_set(version, 1, out))
        }
    })
}

pub(super) fn table_mod(version: Version) -> impl Strategy<Value = TableMod> {
    let vacancy = any::<(u8, u8, u8)>().prop_map(|(down, up, now)| Vacancy { down, up, now });
    let eviction = any::<u32>().prop_map(Eviction);
    (any::<(u8, u32)>(), option::of(eviction), option::of(vacancy)).prop_map(
        move |((table_id, config), eviction, vacancy)| {
            let new = version >= Version::V1_4;
            TableMod {
                table_id,
                config,
                eviction: eviction.filter(|_| new),
                vacancy: vacancy.filter(|_| new),
            }
        },
    )
}

fn table_mods(version: Version) -> impl Strategy<Value = Vec<u8>> {
    table_mod(version).prop_map(move |value| {
        comes_back!(value, TableMod::decode, |value, out| value.encode(version, 1, out))
    })
}

pub(super) fn controller_status() -> impl Strategy<Value = ControllerStatus> {
    (role(), any::<(u16, u8, bool)>(), bytes(40)).prop_map(
        |(role, (short_id, reason, is_up), uri)| ControllerStatus {
            short_id,
            role,
            reason,
            is_up,
            uri,
        },
    )
}

/// A time that has its own encoding.
pub(super) fn time() -> impl Strategy<Value = Duration> {
    (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(sec, nsec)| Duration::new(sec, nsec))
}

/// The messages that OpenFlow 1.4 introduces.
fn new_in_1_4(version: Version) -> impl Strategy<Value = Vec<u8>> {
    let status = (role(), any::<(u8, u64)>()).prop_map(move |(role, (reason, generation_id))| {
        let value = RoleStatus { role, reason: RoleReason::from_wire(reason), generation_id };
        comes_back!(value, RoleStatus::decode, |value, out| value.encode(version, 1, out))
    });
    let reason = select(vec![TableReason::VacancyDown, TableReason::VacancyUp]);
    let table = (reason, table_mod(version)).prop_map(move |(reason, table)| {
        let value = TableStatus { reason, table };
        comes_back!(value, TableStatus::decode, |value, out| value.encode(version, 1, out))
    });
    let forward = bytes(40).prop_map(move |data| {
        let inner = Echo { is_reply: false, xid: 1, data: &data };
        let request = super::encoded(|out| inner.encode(version, out));
        let value = RequestForward { request: &request };
        comes_back!(value, RequestForward::decode, |value, out| value.encode(version, 1, out))
    });
    let commands = vec![
        BundleCommand::OpenRequest,
        BundleCommand::CloseReply,
        BundleCommand::CommitRequest,
        BundleCommand::DiscardReply,
    ];
    let control = (select(commands), any::<(u32, u16)>(), option::of(time())).prop_map(
        move |(command, (bundle_id, flags), time)| {
            let time = time.filter(|_| version == Version::V1_5);
            let value = BundleControl { bundle_id, command, flags: BundleFlags(flags), time };
            comes_back!(value, BundleControl::decode, |value, out| value.encode(version, 1, out))
        },
    );
    let add = (any::<(u32, u16)>(), bytes(40), option::of(time())).prop_map(
        move |((bundle_id, flags), data, time)| {
            let inner = Echo { is_reply: false, xid: 1, data: &data };
            let message = super::encoded(|out| inner.encode(version, out));
            let time = time.filter(|_| version == Version::V1_5);
            let flags = BundleFlags(flags);
            let value = BundleAdd { bundle_id, flags, message: &message, time };
            comes_back!(value, BundleAdd::decode, |value, out| value.encode(version, 1, out))
        },
    );
    prop_oneof![status, table, forward, control, add]
}

fn controller_statuses() -> impl Strategy<Value = Vec<u8>> {
    controller_status().prop_map(|value| {
        let version = Version::V1_5;
        comes_back!(value, ControllerStatus::decode, |value, out| value.encode(version, 1, out))
    })
}

/// Generates the messages of this file.
pub(super) fn messages(version: Version) -> BoxedStrategy<Vec<u8>> {
    let all = prop_oneof![
        features_reply(version),
        port_status(version),
        port_mod(version),
        config(version),
        symmetric(version),
    ];
    let tables = table_mods(version);
    match version {
        Version::V1_0 => prop_oneof![5 => all, 1 => queue_config(version)].boxed(),
        Version::V1_1 => prop_oneof![5 => all, 1 => queue_config(version), 1 => tables].boxed(),
        Version::V1_2 => {
            prop_oneof![5 => all, 1 => queue_config(version), 1 => tables, 1 => roles(version)]
                .boxed()
        }
        Version::V1_3 => prop_oneof![
            5 => all,
            1 => queue_config(version),
            1 => tables,
            1 => roles(version),
            1 => async_config(version),
            1 => port_desc_reply(version),
        ]
        .boxed(),
        Version::V1_4 => prop_oneof![
            5 => all,
            1 => tables,
            1 => roles(version),
            1 => async_config(version),
            1 => port_desc_reply(version),
            4 => new_in_1_4(version),
        ]
        .boxed(),
        Version::V1_5 => prop_oneof![
            5 => all,
            1 => tables,
            1 => roles(version),
            1 => async_config(version),
            1 => port_desc_reply(version),
            4 => new_in_1_4(version),
            1 => controller_statuses(),
        ]
        .boxed(),
    }
}
