//! The structures of OpenFlow 1.3: every field and every byte of padding.
//!
//! The types mirror the OpenFlow 1.3.5 specification and encode a decoded message to the same
//! bytes. They borrow from the message and do not allocate.
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
mod message;
pub mod meter;
pub mod multipart;
pub mod packet;
pub mod port;
pub mod queue;
pub mod role;
pub mod switch;
pub mod symmetric;
pub mod table;

pub use action::Action;
pub use flow_mod::{FlowMod, FlowRemoved};
pub use group::{Bucket, GroupMod};
pub use instruction::Instruction;
pub use matching::Match;
pub use message::{Body, Message};
pub use meter::{MeterBand, MeterMod};
pub use multipart::{MultipartReply, MultipartRequest, ReplyBody, RequestBody};
pub use packet::{PacketIn, PacketOut};
pub use port::{Port, PortMod, PortStatus};
pub use queue::{QueueGetConfigReply, QueueGetConfigRequest};
pub use role::{AsyncConfig, Role};
pub use switch::{Features, SwitchConfig};
pub use symmetric::{ErrorMsg, Experimenter, Hello};
pub use table::{TableFeatures, TableMod};
