//! Emulated switches, and load for any OpenFlow controller.
//!
//! The command `ofbench` puts load on a controller and checks its answers; `docs/ofbench.md` says how
//! it is used and what its figures mean. What it is made of can be used by tests and other tools:
//!
//! * [`switch`]: a switch without sockets, that completes any controller's handshake, and flow
//!   tables that can be asked where a packet would go;
//! * [`fabric`], [`topology`]: a network of such switches, in which frames cross links;
//! * [`load`]: many switches that ask, and what came of it;
//! * [`ledger`], [`question`], [`hosts`]: what is asked, and whether an answer fits;
//! * [`null`]: a controller that answers without thinking.
//!
//! Nothing here depends on a controller; the codec is the crate `openflow`.
#![forbid(unsafe_code)]

mod answer;
pub mod args;
pub mod command;
pub mod connection;
pub mod emulate;
pub mod fabric;
pub mod hosts;
pub mod ledger;
pub mod load;
pub mod null;
pub mod pin;
pub mod process;
pub mod question;
pub mod report;
pub mod say;
pub mod switch;
pub mod tls;
pub mod topology;
