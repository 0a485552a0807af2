//! The structures of OpenFlow 1.3: every field and every byte of padding.
//!
//! The types mirror the OpenFlow 1.3.5 specification and encode a decoded message to the same
//! bytes. They borrow from the message and do not allocate.
//!
//! Structures and tables that other versions share are here, too. They have the version byte as the parameter `V`:
//! `action::Action<'a, 3>` is an action of OpenFlow 1.2. The names at the top of each version's module are those of
//! that version.
//!
//! ```
//! use rosemary_openflow::v1_3::{Body, Message};
//!
//! let bytes = [4, 20, 0, 8, 0, 0, 0, 9];
//! let message = Message::decode(&bytes)?;
//! assert!(matches!(message.body, Body::BarrierRequest(_)));
//!
//! let mut out = [0; 8];
//! message.encode(&mut out)?;
//! assert_eq!(out, bytes);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod action;
pub(crate) mod convert;
pub mod flow_mod;
pub mod group;
pub mod instruction;
pub mod matching;
pub mod message;
pub mod meter;
pub mod multipart;
pub mod packet;
pub mod port;
pub mod queue;
pub mod role;
pub mod switch;
pub mod symmetric;
pub mod table;

pub use flow_mod::FlowRemoved;
pub use matching::Match;
pub use meter::{MeterBand, MeterMod};
pub use packet::PacketIn;
pub use port::{Port, PortMod, PortStatus};
pub use queue::{QueueGetConfigReply, QueueGetConfigRequest};
pub use role::{AsyncConfig, Role};
pub use switch::{Features, SwitchConfig};
pub use symmetric::{ErrorMsg, Experimenter, Hello};
pub use table::TableMod;

/// Names the structures of a version that several versions share.
macro_rules! version_names {
    ($v:literal; $($name:ident = $($of:ident)::+,)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of this version.")]
        pub type $name<'a> = $($of)::+<'a, $v>;
    )*};
}
pub(crate) use version_names;

version_names! {
    4;
    Action = action::Action,
    FlowMod = flow_mod::FlowMod,
    Bucket = group::Bucket,
    GroupMod = group::GroupMod,
    Instruction = instruction::Instruction,
    Body = message::Body,
    Message = message::Message,
    MultipartReply = multipart::MultipartReply,
    MultipartRequest = multipart::MultipartRequest,
    ReplyBody = multipart::ReplyBody,
    RequestBody = multipart::RequestBody,
    PacketOut = packet::PacketOut,
    TableFeatures = table::TableFeatures,
    TableProperty = table::TableProperty,
}
