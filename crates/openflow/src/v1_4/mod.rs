//! The structures of OpenFlow 1.4: every field and every byte of padding.
//!
//! The types mirror the OpenFlow 1.4.1 specification and encode a decoded message to the same bytes. They borrow from the
//! message and do not allocate. What 1.4 shares with other versions is in [`crate::v1_3`]; structures with the version
//! byte `V` here are those of 1.4 and 1.5.
//!
//! | structure | like |
//! | --- | --- |
//! | action, instruction, bucket, group-mod, packet-out, multipart messages, table features | the table of `v1_3`, with `V` = 5 |
//! | match, packet-in, flow-removed, features, configuration, role, meters | `v1_3` |
//! | flow-mod, properties of ports, tables and queues, filter of asynchronous messages, bundles, monitors | here |

pub mod bundle;
pub mod flow_mod;
pub mod forward;
pub mod monitor;
pub mod multipart;
pub mod port;
pub mod property;
pub mod queue;
pub mod role;
pub mod table;

pub use crate::v1_3::{
    ErrorMsg, Experimenter, Features, FlowRemoved, Hello, Match, MeterMod, PacketIn, Role,
    SwitchConfig,
};
pub use forward::RequestForward;
pub use monitor::FlowMonitorRequest;
pub use port::PortMod;
pub use role::RoleStatus;
pub use table::{TableDesc, TableMod, TableStatus};

use crate::v1_3::{
    action, group, instruction, message, multipart as shared_multipart, packet,
    table as shared_table,
};

crate::v1_3::version_names! {
    5;
    Action = action::Action,
    AsyncConfig = role::AsyncConfig,
    Bucket = group::Bucket,
    BundleAdd = bundle::BundleAdd,
    BundleControl = bundle::BundleControl,
    FlowMod = flow_mod::FlowMod,
    FlowUpdate = monitor::FlowUpdate,
    GroupMod = group::GroupMod,
    Instruction = instruction::Instruction,
    Body = message::Body,
    Message = message::Message,
    MultipartReply = shared_multipart::MultipartReply,
    MultipartRequest = shared_multipart::MultipartRequest,
    ReplyBody = shared_multipart::ReplyBody,
    RequestBody = shared_multipart::RequestBody,
    PacketOut = packet::PacketOut,
    Port = port::Port,
    PortStatus = port::PortStatus,
    TableFeatures = shared_table::TableFeatures,
}
