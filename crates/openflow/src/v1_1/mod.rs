//! The structures of OpenFlow 1.1: every field and every byte of padding.
//!
//! The types mirror the OpenFlow 1.1.0 specification and encode a decoded message to the same bytes. They borrow from
//! the message and do not allocate. What 1.1 shares with later versions is in [`crate::v1_3`].
//!
//! | structure | like |
//! | --- | --- |
//! | action, instruction, bucket, group-mod, packet-out, statistics messages | the table of `v1_3`, with `V` = 2 |
//! | hello, echo, vendor's body, error, configuration | `v1_3` |
//! | port, port-status, port-mod, table-mod, requests for statistics of ports, queues, groups | `v1_3` |
//! | match, flow-mod, flow-removed, packet-in, features, statistics of all kinds, queues | here |

pub(crate) mod convert;
pub mod flow_mod;
pub mod matching;
pub mod packet;
pub mod queue;
pub mod stats;
pub mod switch;

pub use crate::v1_3::{
    ErrorMsg, Experimenter, Port, PortMod, PortStatus, QueueGetConfigRequest, SwitchConfig,
    TableMod,
};
pub use flow_mod::{FlowMod, FlowRemoved};
pub use matching::Match;
pub use packet::PacketIn;
pub use queue::QueueGetConfigReply;
pub use switch::Features;

use crate::v1_3::{action, group, instruction, message, multipart, packet as shared_packet};

crate::v1_3::version_names! {
    2;
    Action = action::Action,
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
