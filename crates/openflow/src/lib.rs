//! Encodes and decodes messages of OpenFlow 1.0 to 1.5 without loss.
//!
//! # Two layers
//!
//! * [`v1_0`] to [`v1_5`] mirror the structures of the specifications (OpenFlow 1.0.2, 1.1.0, 1.2, 1.3.5, 1.4.1
//!   and 1.5.1), including padding. Decoded structures encode to the same bytes; [`Message`] holds a message of
//!   any version. A structure that versions share exists once: the head of each module says where.
//! * The types of this page are version-independent: [`Match`], [`Action`], [`FlowMod`],
//!   [`PacketIn`], [`PortDesc`], [`MultipartReply`], ... They are encoded for and decoded from a
//!   given [`Version`]. A feature that the version cannot express is an error that names the field.
//!   Repeated fields and undefined numbers are rejected.
//!
//! The features of a version are a row of [`ProtocolFeatures`], and of [`Layout`] for fields that are read in place. Support for another
//! version is a row of both and a folder beside these. `CONTRIBUTING.md` lists the places outside this crate.
//! [`OfferedVersions`] chooses the version for a switch.
//!
//! # From bytes to a flow-mod
//!
//! A switch's bytes arrive in pieces. The header contains the length and the type of a message:
//!
//! ```
//! use rosemary_openflow::{
//!     Action, FlowMod, Header, Kind, MacAddr, Match, PacketIn, PortNo, Version,
//! };
//!
//! // A packet-in from port 1, as a switch of OpenFlow 1.3 sends it, and the start of the next.
//! let received = [
//!     4, 10, 0, 56, 0, 0, 0, 0, // header: version 4, type 10, 56 bytes, xid 0
//!     0xff, 0xff, 0xff, 0xff, 0, 14, 0, 0, // no buffer, 14 bytes, no match, table 0
//!     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, // no cookie
//!     0, 1, 0, 12, 0x80, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, // match: in_port=1
//!     0, 0, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, // padding, and an Ethernet header
//!     4, 10, 0, // ... more to come
//! ];
//! let header = Header::decode(&received)?;
//! let (message, _next) = received.split_at(header.length.into());
//! let version = Version::from_wire(header.version)?;
//! assert_eq!(Kind::from_wire(version, header.kind)?, Kind::PacketIn);
//!
//! // Decoding borrows the packet; nothing is allocated.
//! let packet_in = PacketIn::decode(message)?;
//! assert_eq!(packet_in.in_port, PortNo(1));
//! let destination = MacAddr(*packet_in.data.first_chunk().ok_or("a short packet")?);
//!
//! // Packets to this address go out through port 2 from now on.
//! let actions = [Action::output(PortNo(2))];
//! let flow_mod = FlowMod::add(Match::new().eth_dst(destination))
//!     .priority(100)
//!     .idle_timeout(60)
//!     .apply(&actions);
//! let mut buffer = [0; 256];
//! let size = flow_mod.encode(version, 1, &mut buffer)?;
//! assert_eq!(&buffer[..8], [4, 14, 0, 88, 0, 0, 0, 1]);
//! assert_eq!(size, 88);
//!
//! // The same for a switch of OpenFlow 1.0.
//! assert_eq!(flow_mod.encode(Version::V1_0, 1, &mut buffer)?, 80);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Buffers
//!
//! Every message encodes into a buffer of the caller. If it is too small, [`EncodeError::NoRoom`]
//! reports the needed size. [`append`] encodes to the end of a `Vec`.
//!
//! Header, packet-in, packet-out, flow-mod and echo do not allocate in either direction, as long as
//! a match fits into 96 bytes and contains no experimenter data. Lists in a decoded message are
//! validated once, stay in place, and are read by iterators.
//!
//! # Hostile bytes
//!
//! The crate has no I/O, no clock, no `unsafe`, and no indexing that can fail. Every length is
//! checked against zero, its own header, its alignment and the enclosing bytes. An error names the
//! field, its byte offset in the message, the value found and the value expected:
//!
//! ```
//! use rosemary_openflow::Message;
//!
//! let set_config_cut_short = [4, 9, 0, 10, 0, 0, 0, 1, 0, 0];
//! let error = Message::decode(&set_config_cut_short).unwrap_err();
//! assert_eq!(
//!     error.to_string(),
//!     "switch_config.miss_send_len at byte 10 needs 2 bytes, 0 are left"
//! );
//! ```
//!
//! # Output for people
//!
//! [`Message`] and most types print as one line in the style of `ovs-ofctl`. With the feature
//! `serde` they serialise, for tools that print JSON.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod action;
mod address;
mod async_config;
mod available;
mod bundle;
mod controller;
mod desc;
mod display;
mod echo;
mod error;
mod error_message;
pub mod ethernet;
mod experimenter;
mod features;
mod flow_mod;
mod flow_removed;
mod flow_updates;
mod forward;
mod group;
mod header;
mod hello;
mod instruction;
pub mod ip;
#[cfg(feature = "serde")]
mod json;
pub mod matching;
mod message;
mod message_enum;
mod meter;
mod multipart;
pub mod nicira;
pub mod oxm;
pub mod oxs;
mod packet_in;
mod packet_out;
mod port;
mod port_mod;
mod port_no;
mod queue;
mod read;
mod role;
mod table;
mod text;
mod tlv;
pub mod v1_0;
pub mod v1_1;
pub mod v1_2;
pub mod v1_3;
pub mod v1_4;
pub mod v1_5;
mod version;
pub mod wire;
mod write;

pub use action::{Action, Actions, CopiedField};
pub use address::{Dpid, MacAddr, ParseError};
pub use async_config::{AsyncConfig, AsyncMasks};
pub use available::Available;
pub use bundle::{BundleAdd, BundleCommand, BundleControl, BundleFailed, BundleFlags};
pub use controller::ControllerStatus;
pub use desc::DescText;
pub use echo::{Echo, echo_reply};
pub use error::{DecodeError, EncodeError};
pub use error_message::{ErrorMessage, FlowModFailed};
pub use experimenter::{Experimenter, ONF};
pub use features::{Capabilities, Features, SwitchConfig};
pub use flow_mod::{
    Blanks, FlowMod, FlowModCommand, FlowModFlags, FlowModTemplate, FlowModView,
    deletes_table_miss, precedes_all_priorities,
};
pub use flow_removed::{FlowRemoved, FlowRemovedReason};
pub use flow_updates::{
    FlowEntryView, FlowUpdateView, FlowUpdates, OwnChanges, end_monitor, monitor_flows,
};
pub use forward::RequestForward;
pub use group::{Bucket, GroupKind, GroupMod, GroupModCommand};
pub use header::{Header, Kind};
pub use hello::{Hello, NegotiationError};
pub use instruction::{Instructions, Lists, OfVersion, OtherInstructions};
pub use matching::{Field, Masked, Match};
pub use message::Message;
pub use meter::{MeterBand, MeterFlags, MeterMod, MeterModCommand};
pub use multipart::{
    AggregateStats, BundleFeatures, BundleFeaturesRequest, Counter, FlowChange, FlowCounters,
    FlowEvent, FlowMonitorCommand, FlowMonitorFlags, FlowMonitorRequest, FlowStats,
    FlowStatsRequest, FlowUpdate, GroupDesc, GroupFeatures, GroupStats, MeterConfig, MeterFeatures,
    MeterStats, MultipartReply, MultipartRequest, PortStats, QueueStats, ReplyBody,
    ScheduleFeatures, TableStats, flow_entry_duration,
};
pub use nicira::NiciraAction;
pub use packet_in::{PacketIn, PacketInMatch, PacketInReason};
pub use packet_out::PacketOut;
pub use port::{
    PortConfig, PortDesc, PortDescReply, PortFeatures, PortName, PortReason, PortState, PortStatus,
    port_desc_request,
};
pub use port_mod::PortMod;
pub use port_no::PortNo;
pub use queue::{Queue, QueueConfig};
pub use read::Reader;
pub use role::{ControllerRole, Role, RoleReason, RoleStatus};
pub use table::{Eviction, TableMod, TableReason, TableStatus, Vacancy};
pub use text::Text;
pub use version::{
    InvalidVersions, Layout, OfferedVersions, ProtocolFeatures, UnknownVersion, Version,
};
pub use write::{Writer, append};
