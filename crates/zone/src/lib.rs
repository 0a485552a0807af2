//! The App Zone's host program: confines itself, loads one application, runs it.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`control`] | what the monitor asks and is told |
//! | [`host`] | what the application's calls lead to: the down ring |
//! | [`services`] | what the application asks of services, and is answered |
//! | [`sandbox`] | how it confines itself, and loads what is meant and nothing else |
//! | [`run`](mod@run) | the zone's life: confine, load, then batch after batch |
//!
//! It holds nothing but what it was given: its control socket, the application's object, and the
//! rings of the running kernel. It confines itself before a single byte of the object is looked at.
//!
//! What it will never do: open a file or a socket of its own, restart itself, decide whether the
//! application may do something (the kernel does), or keep a privilege it could give up.

#![forbid(unsafe_code)]

pub mod control;
pub mod host;
pub mod run;
pub mod sandbox;
pub mod services;

pub use sdk::Limit;
