//! What operators see of a running Rosemary.
//!
//! [`client`] sends requests to the monitor, the kernel, the log and history services and the apps that provide services. The other modules
//! turn answers into the types whose JSON is a stable interface (`docs/schemas`). The `rosemary` command and the HTTP
//! interface use both, so that they show the same.
//!
//! Nothing here opens a socket: the caller passes a connection to the monitor.

#![forbid(unsafe_code)]

pub mod accounts;
pub mod apps;
pub mod carriers;
pub mod client;
pub mod drain;
pub mod groups;
pub mod history;
pub mod hosts;
pub mod stats;
pub mod status;
pub mod topology;
pub mod trace;
