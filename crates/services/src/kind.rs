//! The services, by the name they had before.

pub use control::service::ServiceKind as Kind;
