//! Packages of apps: where they are installed, who looks into them, and what they may be.
//!
//! ```text
//! STATE/apps/                        closed to writing by others
//!     NAME.rosemary                  an installed package (crate `package`)
//!     NAME.rosemary.minisig          its signature
//! ```
//!
//! A package is looked into by a process of its own, `rosemary-security`, each time that Rosemary
//! starts; its bytes were copied into sealed memory before, so that what is run is what was looked
//! into. What that process says about the package is held here against what the operator trusts the
//! developer with: a process that has read hostile bytes does not decide that.

mod admit;
mod error;
mod store;

pub use admit::{Admitted, Gate};
pub use error::Refused;
pub use store::{Files, Store, signature_of};
