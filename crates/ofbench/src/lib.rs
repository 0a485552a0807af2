//! Measures any OpenFlow controller, by emulated switches that put load on it, and any OpenFlow switch.
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
//! * [`measure`]: measures a switch, in the role of its controller;
//! * [`tls_matrix`]: probes the TLS of a controller or a switch;
//! * [`figure`], [`box_plot`]: charts as SVG.
//!
//! This crate depends on no controller; the codec is the crate `openflow`.
#![forbid(unsafe_code)]

mod answer;
pub mod args;
pub mod box_plot;
pub mod chart;
pub mod checker;
pub mod command;
pub mod connection;
pub mod emulate;
pub mod fabric;
pub mod figure;
pub mod hosts;
pub mod load;
pub mod measure;
pub mod null;
pub mod packet_ins;
pub mod pin;
pub mod process;
pub mod report;
pub mod switch;
pub mod terminal;
pub mod tls;
pub mod tls_matrix;
pub mod topology;
