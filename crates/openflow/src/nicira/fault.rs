//! Why a message or an action of Open vSwitch is malformed.

use thiserror::Error;

/// The rule that bytes or a value broke, as a phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("expected {0}")]
pub struct Fault(pub &'static str);
