//! Translates the JSON of Ryu's `ofctl_rest` (version 4.34) to OpenFlow messages and back. No I/O.
//!
//! The first direction makes flow-mods, group-mods, meter-mods, port-mods and requests ([`flow_mod`], [`group_mod`], [`meter_mod`],
//! [`port_mod`], [`Question`]); the second makes JSON of a switch's replies ([`Question::json`]).
//!
//! What differs from Ryu: a field, an action, a flag or a type that the version does not have is an error here, while Ryu logs it
//! and leaves it out. A match without one of its conditions would apply to other packets.
//!
//! | module | purpose |
//! | --- | --- |
//! | `number` | numbers in the forms that Ryu accepts, and reserved numbers by their names |
//! | `matching` | matches of OpenFlow 1.3 |
//! | `matching_1_0` | matches of OpenFlow 1.0 |
//! | `action` | actions and instructions of every version |
//! | `change` | flow-mods, group-mods, meter-mods, port-mods |
//! | `question` | requests for statistics |
//! | `reply` | replies as JSON, in the owner's own numbers |
//! | `table_features` | the features of tables as JSON |

#![forbid(unsafe_code)]

mod action;
mod change;
mod matching;
mod matching_1_0;
mod number;
mod question;
mod reply;
mod table_features;

pub use self::change::{PortNow, flow_mod, group_mod, meter_mod, port_mod};
pub use self::number::{Own, integer, port};
pub use self::question::Question;
pub use self::reply::port_desc;

use openflow::{DecodeError, EncodeError, Version};
use thiserror::Error;

/// Why JSON was not translated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OfctlError {
    /// The request is wrong.
    #[error("{0}")]
    Invalid(String),
    /// The OpenFlow version of the switch does not have it.
    #[error("{0}: the switch's OpenFlow version does not have it")]
    Unsupported(String),
    /// The switch's reply is malformed.
    #[error("the switch's reply is malformed: {0}")]
    Reply(#[from] DecodeError),
}

impl From<EncodeError> for OfctlError {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::Unsupported { .. } => Self::Unsupported(error.to_string()),
            error => Self::Invalid(error.to_string()),
        }
    }
}

/// Whether Ryu translates a version by its module `ofctl_v1_0`, whose JSON has other names than that of later versions. A version
/// with OXM names fields and actions as OXM does.
fn has_old_names(version: Version) -> bool {
    !version.features().oxm
}

/// Makes an [`OfctlError::Invalid`].
fn invalid<T>(why: impl Into<String>) -> Result<T, OfctlError> {
    Err(OfctlError::Invalid(why.into()))
}
