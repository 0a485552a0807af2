//! All messages of OpenFlow 1.3. OpenFlow 1.3.5 §7.1.
//!
//! [`Body`] is the table of OpenFlow 1.1 to 1.5 (1.1 and 1.2 §A.1, 1.4.1 and 1.5.1 §7.1). The paragraphs are those of 1.3.5; of
//! later messages those of 1.4.1 or 1.5.1.

use super::flow_mod::{FlowMod, FlowRemoved};
use super::group::GroupMod;
use super::meter::MeterMod;
use super::multipart::{MultipartReply, MultipartRequest};
use super::packet::{PacketIn, PacketOut};
use super::port::{PortMod, PortStatus};
use super::queue::{QueueGetConfigReply, QueueGetConfigRequest};
use super::role::{AsyncConfig, Role};
use super::switch::{Features, SwitchConfig};
use super::symmetric::{ErrorMsg, Experimenter, Hello};
use super::table::TableMod;
use crate::message_enum::message_enum;
use crate::wire::Empty;
use crate::{v1_1, v1_2, v1_4, v1_5};

/// Returns what a message of the version byte must have as its version, for errors.
const fn expected(version: u8) -> &'static str {
    match version {
        2 => "2 (OpenFlow 1.1)",
        3 => "3 (OpenFlow 1.2)",
        4 => "4 (OpenFlow 1.3)",
        5 => "5 (OpenFlow 1.4)",
        _ => "6 (OpenFlow 1.5)",
    }
}

message_enum! {
    V, expected(V), versions V;
    /// §7.5.1.
    Hello(Hello<'a>) = 0 in 4..=6,
    /// Before OpenFlow 1.3 it may carry arbitrary data without meaning.
    #[cfg_attr(feature = "serde", serde(rename = "hello"))]
    HelloV1_1(&'a [u8]) = 0 in 2..=3,
    /// `ofp_error_msg`.
    Error(ErrorMsg<'a>) = 1,
    /// §7.5.2.
    EchoRequest(&'a [u8]) = 2,
    /// §7.5.3.
    EchoReply(&'a [u8]) = 3,
    /// §7.5, `ofp_experimenter_header`.
    Experimenter(Experimenter<'a>) = 4,
    /// §7.3.1.
    FeaturesRequest(Empty) = 5,
    /// §7.3.1.
    FeaturesReply(Features) = 6 in 4..=6,
    /// The same in OpenFlow 1.1 and 1.2.
    #[cfg_attr(feature = "serde", serde(rename = "features_reply"))]
    FeaturesReplyV1_1(v1_1::switch::Features<'a>) = 6 in 2..=3,
    /// §7.3.2.
    GetConfigRequest(Empty) = 7,
    /// §7.3.2.
    GetConfigReply(SwitchConfig) = 8,
    /// §7.3.2.
    SetConfig(SwitchConfig) = 9,
    /// §7.4.1.
    PacketIn(PacketIn<'a>) = 10 in 4..=6,
    /// The same in OpenFlow 1.1.
    #[cfg_attr(feature = "serde", serde(rename = "packet_in"))]
    PacketInV1_1(v1_1::packet::PacketIn<'a>) = 10 in 2..=2,
    /// The same in OpenFlow 1.2.
    #[cfg_attr(feature = "serde", serde(rename = "packet_in"))]
    PacketInV1_2(v1_2::packet::PacketIn<'a>) = 10 in 3..=3,
    /// §7.4.2.
    FlowRemoved(FlowRemoved<'a>) = 11 in 3..=5,
    /// The same in OpenFlow 1.1.
    #[cfg_attr(feature = "serde", serde(rename = "flow_removed"))]
    FlowRemovedV1_1(v1_1::flow_mod::FlowRemoved) = 11 in 2..=2,
    /// The same from OpenFlow 1.5 on.
    #[cfg_attr(feature = "serde", serde(rename = "flow_removed"))]
    FlowRemovedV1_5(v1_5::flow_removed::FlowRemoved<'a>) = 11 in 6..=6,
    /// §7.4.3.
    PortStatus(PortStatus) = 12 in 2..=4,
    /// The same from OpenFlow 1.4 on.
    #[cfg_attr(feature = "serde", serde(rename = "port_status"))]
    PortStatusV1_4(v1_4::port::PortStatus<'a, V>) = 12 in 5..=6,
    /// §7.3.7.
    PacketOut(PacketOut<'a, V>) = 13 in 2..=5,
    /// The same from OpenFlow 1.5 on.
    #[cfg_attr(feature = "serde", serde(rename = "packet_out"))]
    PacketOutV1_5(v1_5::packet::PacketOut<'a>) = 13 in 6..=6,
    /// §7.3.4.1.
    FlowMod(FlowMod<'a, V>) = 14 in 3..=4,
    /// The same in OpenFlow 1.1.
    #[cfg_attr(feature = "serde", serde(rename = "flow_mod"))]
    FlowModV1_1(v1_1::flow_mod::FlowMod<'a>) = 14 in 2..=2,
    /// The same from OpenFlow 1.4 on.
    #[cfg_attr(feature = "serde", serde(rename = "flow_mod"))]
    FlowModV1_4(v1_4::flow_mod::FlowMod<'a, V>) = 14 in 5..=6,
    /// §7.3.4.2.
    GroupMod(GroupMod<'a, V>) = 15 in 2..=5,
    /// The same from OpenFlow 1.5 on.
    #[cfg_attr(feature = "serde", serde(rename = "group_mod"))]
    GroupModV1_5(v1_5::group::GroupMod<'a>) = 15 in 6..=6,
    /// §7.3.4.3.
    PortMod(PortMod) = 16 in 2..=4,
    /// The same from OpenFlow 1.4 on.
    #[cfg_attr(feature = "serde", serde(rename = "port_mod"))]
    PortModV1_4(v1_4::port::PortMod<'a>) = 16 in 5..=6,
    /// §7.3.3.
    TableMod(TableMod) = 17 in 2..=4,
    /// The same from OpenFlow 1.4 on.
    #[cfg_attr(feature = "serde", serde(rename = "table_mod"))]
    TableModV1_4(v1_4::table::TableMod<'a>) = 17 in 5..=6,
    /// §7.3.5.
    MultipartRequest(MultipartRequest<'a, V>) = 18,
    /// §7.3.5.
    MultipartReply(MultipartReply<'a, V>) = 19,
    /// §7.3.8.
    BarrierRequest(Empty) = 20,
    /// §7.3.8.
    BarrierReply(Empty) = 21,
    /// §7.3.6.
    QueueGetConfigRequest(QueueGetConfigRequest) = 22 in 2..=4,
    /// §7.3.6.
    QueueGetConfigReply(QueueGetConfigReply<'a>) = 23 in 3..=4,
    /// The same in OpenFlow 1.1.
    #[cfg_attr(feature = "serde", serde(rename = "queue_get_config_reply"))]
    QueueGetConfigReplyV1_1(v1_1::queue::QueueGetConfigReply<'a>) = 23 in 2..=2,
    /// §7.3.9.
    RoleRequest(Role) = 24 in 3..=5,
    /// The same from OpenFlow 1.5 on.
    #[cfg_attr(feature = "serde", serde(rename = "role_request"))]
    RoleRequestV1_5(v1_5::controller::Role) = 24 in 6..=6,
    /// §7.3.9.
    RoleReply(Role) = 25 in 3..=5,
    /// The same from OpenFlow 1.5 on.
    #[cfg_attr(feature = "serde", serde(rename = "role_reply"))]
    RoleReplyV1_5(v1_5::controller::Role) = 25 in 6..=6,
    /// §7.3.10.
    GetAsyncRequest(Empty) = 26 in 4..=6,
    /// §7.3.10.
    GetAsyncReply(AsyncConfig) = 27 in 4..=4,
    /// The same from OpenFlow 1.4 on.
    #[cfg_attr(feature = "serde", serde(rename = "get_async_reply"))]
    GetAsyncReplyV1_4(v1_4::role::AsyncConfig<'a, V>) = 27 in 5..=6,
    /// §7.3.10.
    SetAsync(AsyncConfig) = 28 in 4..=4,
    /// The same from OpenFlow 1.4 on.
    #[cfg_attr(feature = "serde", serde(rename = "set_async"))]
    SetAsyncV1_4(v1_4::role::AsyncConfig<'a, V>) = 28 in 5..=6,
    /// §7.3.4.4.
    MeterMod(MeterMod<'a>) = 29 in 4..=6,
    /// 1.4.1 §7.4.4.
    RoleStatus(v1_4::role::RoleStatus<'a>) = 30 in 5..=6,
    /// 1.4.1 §7.4.5.
    TableStatus(v1_4::table::TableStatus<'a>) = 31 in 5..=6,
    /// 1.4.1 §7.4.6.
    RequestForward(v1_4::forward::RequestForward<'a>) = 32 in 5..=6,
    /// 1.4.1 §7.3.9.
    BundleControl(v1_4::bundle::BundleControl<'a, V>) = 33 in 5..=6,
    /// 1.4.1 §7.3.9.
    BundleAdd(v1_4::bundle::BundleAdd<'a, V>) = 34 in 5..=6,
    /// 1.5.1 §7.4.6.
    ControllerStatus(v1_5::controller::ControllerStatus<'a>) = 35 in 6..=6,
}
