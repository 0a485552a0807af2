//! Generates messages that only a version's own types can represent: table features, hello
//! elements, queue properties, non-zero padding, and unspecified types.

use super::{bytes, comes_back, leak};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use rosemary_openflow::v1_3::queue::{self, PacketQueue, QueueProperty};
use rosemary_openflow::v1_3::symmetric::HelloElement;
use rosemary_openflow::v1_3::table::{self, FeatureId, OxmId};
use rosemary_openflow::v1_3::{
    Body, Hello, Message, MultipartReply, MultipartRequest, QueueGetConfigReply, ReplyBody,
    RequestBody, TableFeatures, TableProperty,
};
use rosemary_openflow::wire::{List, Pad, Padded};
use rosemary_openflow::{PortNo, Text, v1_0};

fn pad<const N: usize>() -> impl Strategy<Value = Pad<N>> {
    prop_oneof![Just(Pad::default()), any::<[u8; N]>().prop_map(Pad)]
}

fn list<T: std::fmt::Debug + 'static>(
    item: impl Strategy<Value = T>,
) -> impl Strategy<Value = &'static [T]> {
    vec(item, 0..4).prop_map(leak)
}

fn ids() -> impl Strategy<Value = List<'static, FeatureId<'static>>> {
    let known = (0..0xffff_u16).prop_map(|kind| FeatureId { kind, data: &[] });
    let experimenter =
        vec(any::<u8>(), 4..12).prop_map(|data| FeatureId { kind: 0xffff, data: leak(data) });
    list(prop_oneof![known, experimenter]).prop_map(List::from)
}

fn oxm_ids() -> impl Strategy<Value = List<'static, OxmId>> {
    let id = (any::<(u16, bool, u8, u32)>(), 0..128_u8).prop_map(
        |((class, has_mask, length, experimenter), field)| OxmId {
            class,
            field,
            has_mask,
            length,
            experimenter: (class == 0xffff).then_some(experimenter),
        },
    );
    list(id).prop_map(List::from)
}

fn property() -> impl Strategy<Value = TableProperty<'static>> {
    let tables = || list(any::<u8>()).prop_map(List::from);
    let experimenter = || {
        (any::<(u32, u32)>(), bytes(20)).prop_map(|((experimenter, exp_type), data)| {
            table::Experimenter { experimenter, exp_type, data: leak(data) }
        })
    };
    let unknown = (100..0xfff0_u16, bytes(20))
        .prop_map(|(kind, body)| TableProperty::Unknown { kind, body: leak(body) });
    prop_oneof![
        ids().prop_map(TableProperty::Instructions),
        ids().prop_map(TableProperty::InstructionsMiss),
        tables().prop_map(TableProperty::NextTables),
        tables().prop_map(TableProperty::NextTablesMiss),
        ids().prop_map(TableProperty::WriteActions),
        ids().prop_map(TableProperty::WriteActionsMiss),
        ids().prop_map(TableProperty::ApplyActions),
        ids().prop_map(TableProperty::ApplyActionsMiss),
        oxm_ids().prop_map(TableProperty::Match),
        oxm_ids().prop_map(TableProperty::Wildcards),
        oxm_ids().prop_map(TableProperty::WriteSetField),
        oxm_ids().prop_map(TableProperty::WriteSetFieldMiss),
        oxm_ids().prop_map(TableProperty::ApplySetField),
        oxm_ids().prop_map(TableProperty::ApplySetFieldMiss),
        experimenter().prop_map(TableProperty::Experimenter),
        experimenter().prop_map(TableProperty::ExperimenterMiss),
        unknown,
    ]
}

fn tables() -> impl Strategy<Value = List<'static, TableFeatures<'static>>> {
    let properties = list(property().prop_map(Padded::from)).prop_map(List::from);
    let table = (any::<(u8, [u8; 32], u64, u64, u32, u32)>(), pad(), properties).prop_map(
        |(
            (table_id, name, metadata_match, metadata_write, config, max_entries),
            pad,
            properties,
        )| {
            TableFeatures {
                table_id,
                pad,
                name: Text::from(name),
                metadata_match,
                metadata_write,
                config,
                max_entries,
                properties,
            }
        },
    );
    list(table).prop_map(List::from)
}

fn hello() -> impl Strategy<Value = Body<'static>> {
    let element = prop_oneof![
        list(any::<u32>()).prop_map(|words| HelloElement::VersionBitmap(words.into())),
        (2..u16::MAX, bytes(20))
            .prop_map(|(kind, body)| HelloElement::Unknown { kind, body: leak(body) }),
    ];
    list(element.prop_map(Padded::from))
        .prop_map(|elements| Body::Hello(Hello { elements: elements.into() }))
}

fn queues() -> impl Strategy<Value = Body<'static>> {
    let rate = || {
        (pad(), any::<u16>(), pad()).prop_map(|(pad, rate, pad2)| queue::Rate { pad, rate, pad2 })
    };
    let experimenter =
        (pad(), any::<u32>(), pad(), bytes(20)).prop_map(|(pad, experimenter, pad2, data)| {
            queue::Experimenter { pad, experimenter, pad2, data: leak(data) }
        });
    let property = prop_oneof![
        rate().prop_map(QueueProperty::MinRate),
        rate().prop_map(QueueProperty::MaxRate),
        experimenter.prop_map(QueueProperty::Experimenter),
        (3..0xffff_u16, bytes(20))
            .prop_map(|(kind, body)| QueueProperty::Unknown { kind, body: leak(body) }),
    ];
    let queue = (any::<(u32, u32)>(), pad(), list(property)).prop_map(
        |((queue_id, port), pad, properties)| PacketQueue {
            queue_id,
            port: PortNo(port),
            pad,
            properties: properties.into(),
        },
    );
    (any::<u32>(), pad(), list(queue)).prop_map(|(port, pad, queues)| {
        let port = PortNo(port);
        Body::QueueGetConfigReply(QueueGetConfigReply { port, pad, queues: queues.into() })
    })
}

/// Generates the messages of this file.
pub(super) fn messages() -> BoxedStrategy<Vec<u8>> {
    let reply = (any::<u16>(), pad(), option::of(tables())).prop_map(|(flags, pad, tables)| {
        let body = ReplyBody::TableFeatures(tables.unwrap_or_default());
        Body::MultipartReply(MultipartReply { flags, pad, body })
    });
    let request = (any::<u16>(), pad(), tables()).prop_map(|(flags, pad, tables)| {
        let body = RequestBody::TableFeatures(tables);
        Body::MultipartRequest(MultipartRequest { flags, pad, body })
    });
    let unknown_part =
        (any::<u16>(), pad(), 100..0xff00_u16, bytes(40)).prop_map(|(flags, pad, kind, body)| {
            let body = ReplyBody::Unknown { kind, body: leak(body) };
            Body::MultipartReply(MultipartReply { flags, pad, body })
        });
    let unknown = (100..=u8::MAX, bytes(40))
        .prop_map(|(kind, body)| Body::Unknown { kind, body: leak(body) });
    let new = (any::<u32>(), prop_oneof![reply, request, unknown_part, unknown, hello(), queues()])
        .prop_map(|(xid, body)| {
            let value = Message { xid, body };
            comes_back!(value, Message::decode, |value, out| value.encode(out))
        });
    let old = (any::<u32>(), 100..=u8::MAX, bytes(40)).prop_map(|(xid, kind, body)| {
        let body = v1_0::Body::Unknown { kind, body: leak(body) };
        let value = v1_0::Message { xid, body };
        comes_back!(value, v1_0::Message::decode, |value, out| value.encode(out))
    });
    prop_oneof![6 => new, 1 => old].boxed()
}
