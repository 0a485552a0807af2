//! OpenFlow 1.3, as it stands on the wire: every field and every byte of padding.
//!
//! The types here mirror the structures of the OpenFlow 1.3.5 specification and give a message
//! back byte for byte. They borrow from the message; none of them allocates.

pub mod action;
pub(crate) mod convert;
pub mod flow_mod;
pub mod instruction;
pub mod matching;
pub mod packet;
pub mod port;
pub mod switch;

pub use action::Action;
pub use flow_mod::FlowMod;
pub use instruction::Instruction;
pub use matching::Match;
pub use packet::{PacketIn, PacketOut};
pub use port::{Port, PortStatus};
pub use switch::{Features, SwitchConfig};
