//! OpenFlow 1.0 and 1.3 on the wire, in both directions, to the last byte.
//!
//! Two floors:
//!
//! * [`v1_0`] and [`v1_3`] mirror the structures of the specifications, padding included; a
//!   message that they decode encodes to the same bytes.
//! * Above them, the types of this page say the same thing once for every version: [`Match`],
//!   [`Action`], [`FlowMod`], [`PacketIn`], [`PortDesc`], ... They are encoded for and decoded
//!   from a given [`Version`]; what a version cannot express is an error that names the field.
//!
//! Everything decodes from borrowed bytes, and encodes into a buffer of the caller's or, with
//! [`append`], onto a `Vec`. There is no I/O, no clock and no `unsafe`; bytes from a peer never
//! cause a panic, and every error says what stood where and what was expected.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod action;
mod address;
mod desc;
mod display;
mod echo;
mod error;
mod error_message;
mod experimenter;
mod features;
mod flow_mod;
mod flow_removed;
mod group;
mod header;
mod hello;
mod instruction;
#[cfg(feature = "serde")]
mod json;
pub mod matching;
mod message;
mod message_enum;
mod meter;
mod multipart;
pub mod oxm;
mod packet_in;
mod packet_out;
mod port;
mod port_mod;
mod port_no;
mod queue;
mod read;
mod role;
mod text;
mod tlv;
pub mod v1_0;
pub mod v1_3;
mod version;
pub mod wire;
mod write;

pub use action::{Action, Actions};
pub use address::{Dpid, MacAddr, ParseError};
pub use desc::DescText;
pub use echo::{Echo, echo_reply};
pub use error::{DecodeError, EncodeError};
pub use error_message::ErrorMessage;
pub use experimenter::Experimenter;
pub use features::{Capabilities, Features, SwitchConfig};
pub use flow_mod::{FlowMod, FlowModCommand, FlowModFlags};
pub use flow_removed::{FlowRemoved, FlowRemovedReason};
pub use group::{Bucket, GroupKind, GroupMod, GroupModCommand};
pub use header::{Header, Kind};
pub use hello::{Hello, NegotiationError};
pub use instruction::{Instructions, OtherInstructions};
pub use matching::{Field, Masked, Match};
pub use message::Message;
pub use meter::{MeterBand, MeterFlags, MeterMod, MeterModCommand};
pub use multipart::{
    AggregateStats, Counter, FlowStats, FlowStatsRequest, GroupDesc, GroupFeatures, GroupStats,
    MeterConfig, MeterFeatures, MeterStats, MultipartReply, MultipartRequest, PortStats,
    QueueStats, ReplyBody, TableStats,
};
pub use packet_in::{PacketIn, PacketInMatch, PacketInReason};
pub use packet_out::PacketOut;
pub use port::{
    PortConfig, PortDesc, PortDescReply, PortFeatures, PortName, PortReason, PortState, PortStatus,
    port_desc_request,
};
pub use port_mod::{PortMod, TableMod};
pub use port_no::PortNo;
pub use queue::{Queue, QueueConfig};
pub use read::Reader;
pub use role::{AsyncConfig, ControllerRole, Role};
pub use text::Text;
pub use version::Version;
pub use write::{Writer, append};
