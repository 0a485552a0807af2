//! Emulated switches and a load generator for any OpenFlow controller.
//!
//! The command `ofbench` puts load on a controller and checks its answers; `docs/ofbench.md`
//! describes its use and its figures. Tests and other tools can use its parts:
//!
//! * [`switch`]: a switch without sockets that completes any controller's handshake, with flow
//!   tables that answer where a packet would go;
//! * [`fabric`], [`topology`]: a network of such switches connected by links;
//! * [`load`]: many switches that send packet-ins, and the measured result;
//! * [`checker`], [`packet_ins`], [`hosts`]: generates packet-ins and checks their answers;
//! * [`null`]: a controller that answers without learning;
//! * [`figure`]: line charts as SVG.
//!
//! This crate depends on no controller; the codec is the crate `openflow`.
#![forbid(unsafe_code)]

mod answer;
pub mod args;
pub mod checker;
pub mod command;
pub mod connection;
pub mod emulate;
pub mod fabric;
pub mod figure;
pub mod hosts;
pub mod load;
pub mod null;
pub mod packet_ins;
pub mod pin;
pub mod process;
pub mod report;
pub mod switch;
pub mod terminal;
pub mod tls;
pub mod topology;
