//! Rosemary's cli.
#![forbid(unsafe_code)]

pub mod demo;
pub mod lab;
