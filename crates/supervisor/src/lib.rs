//! Decides what happens to the programs of Rosemary: when each is started, restarted and held, who is to blame for an end, and what
//! follows from what it uses.
//!
//! [`Supervisor`] decides about all programs together: it handles an [`Event`] and appends [`effects`], which the monitor carries
//! out in their order. Its parts can be used alone. Every program has a [`lifecycle`]:
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use rosemary_supervisor::lifecycle::{Due, Lifecycle, Limits, Next};
//!
//! let start = Instant::now();
//! let mut program = Lifecycle::new(Limits::default());
//! program.start(start);
//! assert_eq!(program.due(start, || None), Some(Due::Start));
//! program.started(start);
//! assert!(program.ready());
//!
//! // It runs for a minute and crashes: it starts again at once.
//! let crash = start + Duration::from_secs(60);
//! assert_eq!(program.ended(crash, "signal 11".to_owned()).next, Next::StartAtOnce);
//! assert_eq!(program.due(crash, || None), Some(Due::Start));
//! program.started(crash);
//! assert_eq!(program.starts(), 2);
//! ```
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
