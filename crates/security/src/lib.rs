//! The process that looks into an app's package before anybody else does.
//!
//! A package is a file that anybody may have made. So whoever is asked to install or to start one (the
//! monitor, `rosemary app`) starts this program, gives it the file and the keys that are trusted, and is
//! told what is in it, or why it is refused. One process for one package: confined before a byte of
//! it is looked at, without files, network or anything else to lose, and gone afterwards.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`control`] | what it is asked and what it answers |
//! | [`verify`](mod@verify) | the order in which a package is doubted |
//! | [`run`](mod@run) | confine, verify, answer |
//!
//! What it will never do: decide what a developer's apps may ask for. That is the operator's word, which
//! the monitor holds against what is said here.

#![forbid(unsafe_code)]

pub mod control;
pub mod run;
pub mod verify;
