//! All messages of OpenFlow 1.0. OpenFlow 1.0.2 §5.1.

use super::flow_mod::{FlowMod, FlowRemoved};
use super::packet::{PacketIn, PacketOut};
use super::port::{PortMod, PortStatus};
use super::queue::{QueueGetConfigReply, QueueGetConfigRequest};
use super::stats::{StatsReply, StatsRequest};
use super::switch::{Features, SwitchConfig};
use super::symmetric::{ErrorMsg, Vendor};
use crate::message_enum::message_enum;
use crate::wire::Empty;

message_enum! {
    1, "1 (OpenFlow 1.0)";
    /// §5.5.1; may carry arbitrary data without meaning.
    Hello(&'a [u8]) = 0,
    /// §5.4.4.
    Error(ErrorMsg<'a>) = 1,
    /// §5.5.2.
    EchoRequest(&'a [u8]) = 2,
    /// §5.5.3.
    EchoReply(&'a [u8]) = 3,
    /// §5.5.4.
    Vendor(Vendor<'a>) = 4,
    /// §5.3.1.
    FeaturesRequest(Empty) = 5,
    /// §5.3.1.
    FeaturesReply(Features<'a>) = 6,
    /// §5.3.2.
    GetConfigRequest(Empty) = 7,
    /// §5.3.2.
    GetConfigReply(SwitchConfig) = 8,
    /// §5.3.2.
    SetConfig(SwitchConfig) = 9,
    /// §5.4.1.
    PacketIn(PacketIn<'a>) = 10,
    /// §5.4.2.
    FlowRemoved(FlowRemoved) = 11,
    /// §5.4.3.
    PortStatus(PortStatus) = 12,
    /// §5.3.6.
    PacketOut(PacketOut<'a>) = 13,
    /// §5.3.3.
    FlowMod(FlowMod<'a>) = 14,
    /// §5.3.3.
    PortMod(PortMod) = 15,
    /// §5.3.5.
    StatsRequest(StatsRequest<'a>) = 16,
    /// §5.3.5.
    StatsReply(StatsReply<'a>) = 17,
    /// §5.3.7.
    BarrierRequest(Empty) = 18,
    /// §5.3.7.
    BarrierReply(Empty) = 19,
    /// §5.3.4.
    QueueGetConfigRequest(QueueGetConfigRequest) = 20,
    /// §5.3.4.
    QueueGetConfigReply(QueueGetConfigReply<'a>) = 21,
}
