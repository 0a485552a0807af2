//! Defines the messages between Rosemary's processes: one file per pair, with the request enum, the reply
//! enum and the processes that may send each.
//!
//! | module | requests from | requests to |
//! | --- | --- | --- |
//! | [`kernel`] | monitor | kernel |
//! | [`zone`] | monitor | zone |
//! | [`service`] | monitor | service |
//! | [`security`] | monitor, `rosemary app` | `rosemary-security` |
//! | [`wasm`] | monitor | `rosemary-compile` |
//! | [`northbound`] | monitor | northbound |
//! | [`operator`] | operator's command, northbound, history service | monitor |
//! | [`query`] | operator's command, northbound, history service | kernel |
//! | [`log`] | monitor, operator's command, northbound | log service |
//! | [`history`] | operator's command, northbound | history service |
//!
//! Enums are named after the receiver: `KernelRequest` goes to the kernel, `KernelReply` comes from it.
//! Messages are JSON in packets of a [`sys::channel::Channel`]; those of log and history travel in packets of
//! `sdk::services`. Both ends of a pair are programs of the same release.
//!
//! Eight modules hold types that several pairs share: [`app`] (an app's number), [`hosting`] (what hosts an app), [`change`]
//! (changes while Rosemary runs), [`session`] (reserved resources), [`policy`] and [`capability`] (an app's rights), [`flight`] (the
//! layout of the flight recorder, which one process writes and the monitor reads) and [`incident`] (records of what went wrong).
//! [`clients`] is the end of a service that its clients' sockets reach. [`sabotage`] breaks Rosemary on purpose, in a test build only.

#![forbid(unsafe_code)]

pub mod account;
pub mod app;
pub mod app_report;
pub mod capability;
pub mod change;
pub mod clients;
pub mod details;
pub mod flight;
pub mod history;
pub mod hosting;
pub mod incident;
pub mod kernel;
pub mod log;
pub mod northbound;
pub mod operator;
pub mod policy;
pub mod query;
pub mod sabotage;
pub mod security;
pub mod service;
pub mod session;
pub mod wasm;
pub mod zone;
