//! Packaging of apps: `rosemary app build`, `sign`, `verify`, `install`, `remove` and `list`, and
//! `rosemary key new`.
//!
//! | module | whose | what it is |
//! | --- | --- | --- |
//! | [`key`] | the developer's | the pair of keys |
//! | [`build`] | the developer's | the app's sources, and a package of them |
//! | [`sign`] | the developer's | the package's signature |
//! | [`install`] | the operator's | who lets a package in, and where it goes |
//! | `password` | | asking for the key's password |
//!
//! An operator's command inspects a package like `rosemary up` does, in a separate confined
//! process.

pub mod build;
pub mod install;
pub mod key;
mod password;
pub mod sign;
