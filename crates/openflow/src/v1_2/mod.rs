//! The structures of OpenFlow 1.2: every field and every byte of padding.
//!
//! The types mirror the OpenFlow 1.2 specification and encode a decoded message to the same bytes. They borrow from the
//! message and do not allocate. What 1.2 shares with other versions is in [`crate::v1_1`] and [`crate::v1_3`].
//!
//! | structure | like |
//! | --- | --- |
//! | action, instruction, bucket, flow-mod, group-mod, packet-out, statistics messages | the table of `v1_3`, with `V` = 3 |
//! | match, flow-removed, port, port-status, port-mod, table-mod, queues, role, configuration | `v1_3` |
//! | features, statistics of ports, queues and groups, hello | `v1_1` |
//! | packet-in, statistics of flows and tables | here |

pub mod packet;
pub mod stats;

pub use crate::v1_1::Features;
pub use crate::v1_3::{
    ErrorMsg, Experimenter, FlowRemoved, Match, Port, PortMod, PortStatus, QueueGetConfigReply,
    QueueGetConfigRequest, Role, SwitchConfig, TableMod,
};
pub use packet::PacketIn;

use crate::v1_3::{
    action, flow_mod, group, instruction, message, multipart, packet as shared_packet,
};

crate::v1_3::version_names! {
    3;
    Action = action::Action,
    FlowMod = flow_mod::FlowMod,
    Bucket = group::Bucket,
    GroupMod = group::GroupMod,
    Instruction = instruction::Instruction,
    Body = message::Body,
    Message = message::Message,
    StatsReply = multipart::MultipartReply,
    StatsRequest = multipart::MultipartRequest,
    ReplyBody = multipart::ReplyBody,
    RequestBody = multipart::RequestBody,
    PacketOut = shared_packet::PacketOut,
}
