//! Rosemary's sys.

pub mod namespace;
pub mod process;
