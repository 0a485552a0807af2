//! Decides what happens to the programs of Rosemary: when each is started, restarted and held, who is to blame for an end, and what
//! follows from what it uses.
//!
//! Nothing here does I/O or reads a clock: the caller passes what it sees and the time, and carries out what is decided.

#![forbid(unsafe_code)]

pub mod app;
pub mod attachment;
mod attribution;
pub mod audit;
pub mod change;
pub mod comeback;
pub mod contract;
pub mod effects;
pub mod files;
pub mod hang;
pub mod incidents;
pub mod interface;
pub mod kernel;
pub mod lifecycle;
pub mod program;
pub mod programs;
pub mod restart_policy;
pub mod rights;
pub mod safe_mode;
pub mod service_failures;
pub mod services;
pub mod sessions;
pub mod spec;
pub mod supervisor;
pub mod system;
pub mod text;
pub mod usage;

pub use self::supervisor::{Event, Supervisor};
