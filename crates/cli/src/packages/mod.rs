//! Packaging of apps: `rosemary app build`, `sign`, `verify`, `install`, `remove` and `list`, and
//! `rosemary key`.
//!
//! | module | used by | content |
//! | --- | --- | --- |
//! | [`key`] | developers | creates and shows a key pair |
//! | [`build`] | developers | compiles an app and packages it |
//! | [`sign`] | developers | signs a package |
//! | [`release`] | makers of releases | makes and signs the manifest of an installation |
//! | [`install`] | operators | verifies, installs, removes and lists packages |
//! | `descriptor` | developers | reads the name and the version that an object states |
//! | `password` | | reads a key's password, refuses a weak new one |
//! | `version` | | compares versions of apps |
//!
//! An operator's command inspects a package like `rosemary up` does, in a separate confined
//! process.

pub mod build;
mod descriptor;
pub mod install;
pub mod key;
pub(crate) mod password;
pub mod release;
pub mod sign;
mod version;
