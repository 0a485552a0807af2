//! Stores packages of apps, and admits them by the operator's trust policy.
//!
//! ```text
//! STATE/apps/                        0755, writable by the owner only
//!     NAME.rosemary                  an installed package (crate `package`)
//!     NAME.rosemary.minisig          its signature
//!     NAME.rosemary.next[.minisig]   a package that is to replace it
//!     NAME.rosemary.previous[.minisig]   the package before the last upgrade
//!     NAME.rosemary.older[.minisig]  the package before that
//!     guards.json                    the apps of packages that are guards and fail closed
//! ```
//!
//! At each start of Rosemary a separate confined process, `rosemary-security`, checks each package. The monitor
//! copies the package into sealed memory first, so that the checked bytes are the executed ones. That process reads
//! hostile bytes, so it does not decide: the monitor itself compares its report with the trust policy.

mod admit;
mod error;
mod lock;
mod store;

pub use admit::{Admitted, Gate};
pub use error::Refused;
pub use store::{Store, read_package, signature_of};
pub use supervisor::change::deployment::{PackageFiles, Version};
