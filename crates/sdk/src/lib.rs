//! The API of Rosemary's applications.
//!
//! An application implements [`App`]: it gets [`Event`]s and answers through a [`Network`]. This one learns where hosts are, and
//! installs a flow to each:
//!
//! ```
//! use std::collections::HashMap;
//!
//! use rosemary_sdk::{Action, App, Dpid, Event, FlowMod, MacAddr, Match, Network, PortNo, export_app};
//!
//! struct Learner {
//!     ports: HashMap<(Dpid, MacAddr), PortNo>,
//! }
//!
//! impl App for Learner {
//!     fn create() -> Self {
//!         Self { ports: HashMap::new() }
//!     }
//!
//!     fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
//!         let Event::PacketIn(packet_in) = event else { return };
//!         let Some((&to, rest)) = packet_in.data.split_first_chunk() else { return };
//!         let Some(&from) = rest.first_chunk() else { return };
//!         let dpid = packet_in.switch.dpid;
//!         self.ports.insert((dpid, MacAddr(from)), packet_in.in_port);
//!         let sent = match self.ports.get(&(dpid, MacAddr(to))) {
//!             None => network.packet_out_for(&packet_in, &[Action::output(PortNo::FLOOD)]),
//!             Some(&port) => {
//!                 let actions = [Action::output(port)];
//!                 let flow = FlowMod::add(Match::new().eth_dst(MacAddr(to))).idle_timeout(60).apply(&actions);
//!                 let sent = network.flow_mod(packet_in.switch, &flow);
//!                 sent.and_then(|_| network.packet_out_for(&packet_in, &actions))
//!             }
//!         };
//!         if let Err(error) = sent {
//!             network.warn(&format!("could not answer: {error}"));
//!         }
//!     }
//! }
//!
//! export_app!(Learner, name = "learner");
//! ```
//!
//! [`export_app!`] makes a shared object of a crate with `crate-type = ["cdylib"]`. The object runs in an App Zone or in the kernel.
//! Matches, actions and flow-mods are those of the crate `openflow`, the same for every OpenFlow version; the SDK encodes them for
//! the version of each switch.
//!
//! [`timers`] last across other events. [`topology`] finds paths. [`wanted`] keeps flows, groups and meters in the switches.
//! [`packet`] reads and builds packets. [`hosts`] remembers where hosts are. [`services`] sends requests to other processes, such as
//! the storage, and reads the tables that they publish; [`serving`] provides such a service. [`http`] answers HTTP requests.
//! [`abi`] is the C ABI underneath (`c/rosemary_app.h`), for hosts and for tests.
//!
//! This crate never opens a socket, starts a thread or reads a clock. An application gets only what its host passes to it.

#![deny(unsafe_code)] // only the module `abi` may, and states its reasons

pub mod abi;
mod alert;
mod app;
pub mod changes;
mod event;
pub mod hosts;
pub mod http;
mod learned;
mod network;
pub mod own;
pub mod packet;
mod repeats;
pub mod services;
pub mod serving;
mod template;
#[cfg(feature = "host")]
pub mod testing;
pub mod timers;
pub mod topology;
pub mod wanted;

pub use abi::Refusal;
pub use alert::Alert;
pub use app::{App, Batch};
pub use changes::{Applied, Change, CommitId, Committed, Guarantee, NotApplied};
pub use event::{
    Event, FlowRemoved, FlowsKept, LostRequest, PacketIn, Port, PortChange, Reply, Switch,
    SwitchError,
};
pub use learned::LearnedHost;
pub use names::Limit;
pub use network::{Network, SendError, Xid};
/// The types of the rest of OpenFlow: groups, meters, statistics, ports.
pub use openflow;
/// Actions and match fields of Open vSwitch, for apps with the capability `experimenter:nicira`.
pub use openflow::nicira::{self, NiciraAction};
pub use openflow::{
    Action, Blanks, Dpid, EncodeError, FlowMod, MacAddr, Match, PacketOut, PortNo, Version,
};
pub use repeats::Repeats;
pub use series::FlowAndPacket;
pub use template::Template;
pub use timers::TimerError;

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
