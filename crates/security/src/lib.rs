//! Parses files that the monitor and `rosemary app` must not parse themselves, in a confined process.
//!
//! A package comes from anybody, the keys for TLS need a cryptographic library, and a backtrace needs the tables in the
//! objects of apps. The monitor, the most
//! trusted program, links none of these parsers. It starts this program, passes it the files in sealed memory, and
//! receives the result or the reason for a refusal ([`control::security`]). The process handles one request:
//! it confines itself before it reads a byte, holds no files, network or secrets but those of the request,
//! and exits.
//!
//! | module | purpose |
//! | --- | --- |
//! | [`backtrace`](mod@backtrace) | finds the functions that a crashed kernel was calling |
//! | [`package_check`] | verifies a package's signature and contents |
//! | [`run`](mod@run) | confines the process, handles the request, replies |
//!
//! The program never decides what a developer's apps may ask for. The monitor compares the reply with the
//! operator's trust policy.

#![forbid(unsafe_code)]

pub mod backtrace;
pub mod package_check;
pub mod run;
