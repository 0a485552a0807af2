//! Rosemary's cli.
#![forbid(unsafe_code)]

pub mod lab;
