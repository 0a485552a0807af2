//! What a Rosemary application is written with.
//!
//! An application implements [`App`]: it is handed [`Event`]s and a [`Network`] to answer on, and
//! [`export_app!`] makes a shared object of it that runs in an App Zone or in the kernel. Matches,
//! actions and flow-mods are those of the crate `openflow`, the same for every OpenFlow version,
//! and are encoded for the version of the switch they go to.
//!
//! ```text
//! crate-type = ["cdylib"]    the object that `rosemary` loads
//! ```
//!
//! What it asks of other processes, as to keep state, is in [`services`].
//!
//! The module [`abi`] is the C ABI underneath (`c/rosemary_app.h`), for hosts and for tests.
//!
//! What it will never do: open a socket, start a thread, read a clock, or offer an application
//! anything that its host did not hand in.

#![deny(unsafe_code)] // the module `abi` alone may, with its reasons

pub mod abi;
mod alert;
mod app;
mod event;
mod network;
mod own;
pub mod services;
mod template;
#[cfg(feature = "host")]
pub mod testing;

pub use abi::Refusal;
pub use alert::{Alert, Limit};
pub use app::{App, Batch};
pub use event::{Event, FlowRemoved, PacketIn, Port, PortChange, Reply, Switch, SwitchError};
pub use network::{Network, SendError, Xid};
/// What the rest of OpenFlow is said with: groups, meters, statistics, ports.
pub use openflow;
pub use openflow::{
    Action, Blanks, Dpid, EncodeError, FlowMod, MacAddr, Match, PacketOut, PortNo, Version,
};
pub use template::{FlowAndPacket, Template};

/// Exports an [`App`] as the application of this shared object.
///
/// `export_app!(LearningSwitch, name = "learning-switch");` The version is the package's.
#[macro_export]
macro_rules! export_app {
    ($app:ty, name = $name:literal) => {
        #[doc(hidden)]
        #[allow(non_upper_case_globals, reason = "the name of the C ABI")]
        #[unsafe(no_mangle)]
        pub static rosemary_app: $crate::abi::AppTable = $crate::abi::guest::table::<$app>(
            $crate::abi::guest::text(concat!($name, "\0")),
            $crate::abi::guest::text(concat!(env!("CARGO_PKG_VERSION"), "\0")),
        );
    };
}
