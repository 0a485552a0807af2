//! `rosemary app build`, `sign`, `verify`, `install`, `remove` and `list`; `rosemary key new`: an app's
//! way from its developer to an operator.
//!
//! | module | whose | what it is |
//! | --- | --- | --- |
//! | [`key`] | the developer's | the pair of keys |
//! | [`build`] | the developer's | the app's sources, and a package of them |
//! | [`sign`] | the developer's | the package's signature |
//! | [`install`] | the operator's | who lets a package in, and where it goes |
//! | `password` | | asking for the key's password |
//!
//! An operator's command looks into a package as `rosemary up` does: by a confined process of its own.

pub mod build;
pub mod install;
pub mod key;
mod password;
pub mod sign;
