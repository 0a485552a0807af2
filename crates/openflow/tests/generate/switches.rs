//! Generates messages about switches, ports, roles and queues, and symmetric messages.

use super::flows::{mac, port, some_of};
use super::{bytes, comes_back};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use rosemary_openflow::{
    AsyncConfig, Capabilities, ControllerRole, Dpid, Echo, ErrorMessage, Experimenter, Features,
    Hello, Kind, PortConfig, PortDesc, PortDescReply, PortFeatures, PortMod, PortName, PortNo,
    PortReason, PortState, PortStatus, Queue, QueueConfig, Role, SwitchConfig, TableMod, Version,
};

/// The features that both versions have.
const SHARED_FEATURES: &[u32] =
    &[1, 2, 4, 8, 16, 32, 64, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15];
const CAPABILITIES: &[u32] = &[1, 2, 4, 1 << 5, 1 << 6];

fn features(version: Version) -> BoxedStrategy<PortFeatures> {
    match version {
        Version::V1_0 => some_of(SHARED_FEATURES).prop_map(PortFeatures).boxed(),
        Version::V1_3 => any::<u32>().prop_map(PortFeatures).boxed(),
    }
}

pub(super) fn port_desc(version: Version) -> impl Strategy<Value = PortDesc> {
    let new = version == Version::V1_3;
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
    let new = version == Version::V1_3;
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
                actions: if new { 0 } else { actions },
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

fn port_desc_reply() -> impl Strategy<Value = Vec<u8>> {
    (vec(port_desc(Version::V1_3), 0..4), any::<bool>()).prop_map(|(ports, more)| {
        let encode = |out: &mut [u8]| PortDescReply::encode(&ports, more, Version::V1_3, 1, out);
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
    let new = version == Version::V1_3;
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
        let bitmap = bitmap.filter(|_| version == Version::V1_3);
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

fn controllers() -> impl Strategy<Value = Vec<u8>> {
    let version = Version::V1_3;
    let roles = vec![
        ControllerRole::NoChange,
        ControllerRole::Equal,
        ControllerRole::Master,
        ControllerRole::Slave,
    ];
    let role =
        (select(roles), any::<(u64, bool)>()).prop_map(move |(role, (generation_id, is_reply))| {
            let value = Role { role, generation_id };
            if is_reply {
                comes_back!(value, Role::decode_reply, |v, out| v.encode_reply(version, 1, out))
            } else {
                comes_back!(value, Role::decode_request, |v, out| v.encode_request(version, 1, out))
            }
        });
    let masks = any::<([u32; 2], [u32; 2], [u32; 2], bool)>();
    let config = masks.prop_map(move |(packet_in_mask, port_status_mask, removed, is_reply)| {
        let value = AsyncConfig { packet_in_mask, port_status_mask, flow_removed_mask: removed };
        if is_reply {
            comes_back!(value, AsyncConfig::decode_reply, |v, out| v.encode_reply(version, 1, out))
        } else {
            comes_back!(value, AsyncConfig::decode_set, |v, out| v.encode_set(version, 1, out))
        }
    });
    let table = any::<(u8, u32)>().prop_map(move |(table_id, config)| {
        let value = TableMod { table_id, config };
        comes_back!(value, TableMod::decode, |value, out| value.encode(version, 1, out))
    });
    prop_oneof![role, config, table]
}

/// Generates the messages of this file.
pub(super) fn messages(version: Version) -> BoxedStrategy<Vec<u8>> {
    let both = prop_oneof![
        features_reply(version),
        port_status(version),
        port_mod(version),
        config(version),
        queue_config(version),
        symmetric(version),
    ];
    match version {
        Version::V1_0 => both.boxed(),
        Version::V1_3 => prop_oneof![6 => both, 2 => controllers(), 1 => port_desc_reply()].boxed(),
    }
}
