//! An app's policy.

pub use control::policy::{Band, Capability, Fail, Filter, Policy, Quota, Stage};
