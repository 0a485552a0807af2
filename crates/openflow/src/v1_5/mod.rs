//! The structures of OpenFlow 1.5: every field and every byte of padding.
//!
//! The types mirror the OpenFlow 1.5.1 specification and encode a decoded message to the same bytes. They borrow from the
//! message and do not allocate. What 1.5 shares with other versions is in [`crate::v1_3`] and [`crate::v1_4`].
//!
//! | structure | like |
//! | --- | --- |
//! | action, instruction, multipart messages | the table of `v1_3`, with `V` = 6 |
//! | match, packet-in, features, configuration, meters, counters of tables, groups and meters | `v1_3` |
//! | flow-mod, ports, table-mod, queues, bundles, monitors, role-status, filter of asynchronous messages | `v1_4` |
//! | statistics of flows, flow-removed, packet-out, groups, table features, roles, controller-status | here |

pub mod action;
pub mod bundle;
pub mod controller;
pub mod flow_removed;
pub mod group;
pub mod instruction;
pub mod multipart;
pub mod packet;
pub mod table;

pub use crate::oxs::Stats;
pub use crate::v1_3::{
    ErrorMsg, Experimenter, Features, Hello, Match, MeterMod, PacketIn, SwitchConfig,
};
pub use crate::v1_4::{
    FlowMonitorRequest, PortMod, RequestForward, RoleStatus, TableDesc, TableMod, TableStatus,
};
pub use controller::{ControllerStatus, Role};
pub use flow_removed::FlowRemoved;
pub use group::{Bucket, GroupMod};
pub use packet::PacketOut;
pub use table::TableFeatures;

use crate::v1_3::{
    action as shared_action, instruction as shared_instruction, message,
    multipart as shared_multipart,
};
use crate::v1_4::{bundle as shared_bundle, flow_mod, monitor, port, role};

crate::v1_3::version_names! {
    6;
    Action = shared_action::Action,
    AsyncConfig = role::AsyncConfig,
    BundleAdd = shared_bundle::BundleAdd,
    BundleControl = shared_bundle::BundleControl,
    FlowMod = flow_mod::FlowMod,
    FlowUpdate = monitor::FlowUpdate,
    Instruction = shared_instruction::Instruction,
    Body = message::Body,
    Message = message::Message,
    MultipartReply = shared_multipart::MultipartReply,
    MultipartRequest = shared_multipart::MultipartRequest,
    ReplyBody = shared_multipart::ReplyBody,
    RequestBody = shared_multipart::RequestBody,
    Port = port::Port,
    PortStatus = port::PortStatus,
}
