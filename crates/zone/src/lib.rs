//! Hosts one app in a process of its own: confines itself, loads the app, and runs it.
//!
//! | module | content |
//! | --- | --- |
//! | [`control`] | the messages between monitor and zone |
//! | [`host`] | serves the app's calls |
//! | [`outgoing`] | writes the app's messages into the down ring |
//! | [`pending`] | the app's requests that switches have not answered |
//! | [`server`] | serves the clients of a service that the app provides |
//! | [`sandbox`] | confines the process, and loads the object that the monitor named |
//! | [`watched`] | descriptors that the app itself waits for |
//! | [`run`](mod@run) | the event loop: one batch of records after the other |
//!
//! A zone holds its control socket, the app's object and the rings of the running kernel, and nothing else. It
//! confines itself before it reads a byte of the object.
//!
//! A zone never opens a file or a socket of its own, never restarts itself, and keeps no privilege that it can give
//! up. It does not decide whether the app may do something: the kernel does.

#![forbid(unsafe_code)]

pub mod host;
pub mod outgoing;
pub mod pending;
pub mod run;
pub mod sandbox;
pub mod server;
pub mod watched;

pub use sdk::Limit;
