//! All messages of OpenFlow 1.3. OpenFlow 1.3.5 §7.1.

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
use crate::Version;
use crate::message_enum::message_enum;
use crate::wire::Empty;

message_enum! {
    Version::V1_3, "4 (OpenFlow 1.3)";
    /// §7.5.1.
    Hello(Hello<'a>) = 0,
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
    FeaturesReply(Features) = 6,
    /// §7.3.2.
    GetConfigRequest(Empty) = 7,
    /// §7.3.2.
    GetConfigReply(SwitchConfig) = 8,
    /// §7.3.2.
    SetConfig(SwitchConfig) = 9,
    /// §7.4.1.
    PacketIn(PacketIn<'a>) = 10,
    /// §7.4.2.
    FlowRemoved(FlowRemoved<'a>) = 11,
    /// §7.4.3.
    PortStatus(PortStatus) = 12,
    /// §7.3.7.
    PacketOut(PacketOut<'a>) = 13,
    /// §7.3.4.1.
    FlowMod(FlowMod<'a>) = 14,
    /// §7.3.4.2.
    GroupMod(GroupMod<'a>) = 15,
    /// §7.3.4.3.
    PortMod(PortMod) = 16,
    /// §7.3.3.
    TableMod(TableMod) = 17,
    /// §7.3.5.
    MultipartRequest(MultipartRequest<'a>) = 18,
    /// §7.3.5.
    MultipartReply(MultipartReply<'a>) = 19,
    /// §7.3.8.
    BarrierRequest(Empty) = 20,
    /// §7.3.8.
    BarrierReply(Empty) = 21,
    /// §7.3.6.
    QueueGetConfigRequest(QueueGetConfigRequest) = 22,
    /// §7.3.6.
    QueueGetConfigReply(QueueGetConfigReply<'a>) = 23,
    /// §7.3.9.
    RoleRequest(Role) = 24,
    /// §7.3.9.
    RoleReply(Role) = 25,
    /// §7.3.10.
    GetAsyncRequest(Empty) = 26,
    /// §7.3.10.
    GetAsyncReply(AsyncConfig) = 27,
    /// §7.3.10.
    SetAsync(AsyncConfig) = 28,
    /// §7.3.4.4.
    MeterMod(MeterMod<'a>) = 29,
}
