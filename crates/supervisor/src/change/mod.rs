//! Changes of what runs.

pub mod difference;
