//! Changes of what runs, at the request of operators.
//!
//! | files | contents |
//! | --- | --- |
//! | `changes.rs` | makes one change at a time, and keeps the reports |
//! | `deployment.rs` | what changes need from the disk |
//! | `difference.rs` | compares what runs with what is wanted |
//! | `facts.rs` | the state of programs before and after a change |
//! | `applying.rs` | starts, replaces and stops these programs, and undoes that |
//! | `history.rs` | the configurations that were applied |
//! | `confirmation.rs` | takes a configuration back that nobody confirms |
//! | `purpose.rs` | why a change is made, and what its plan follows from |
//! | `verbs.rs` | start, stop and restart of one app, and the level of its log |

mod applying;
pub(crate) mod changes;
mod confirmation;
pub mod deployment;
pub mod difference;
mod facts;
pub mod history;
mod purpose;
mod verbs;

pub use self::applying::cannot_run;
pub use self::changes::{Basis, Requester};
pub use self::confirmation::{AtStart, ITSELF, Unconfirmed, at_start};
