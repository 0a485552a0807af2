//! Chooses the exit code of a command that failed.

use std::process::ExitCode;

use config::ConfigError;
use monitor::error::StartError;

use crate::change::Misconfigured;
use crate::client::ConnectError;

/// The exit code for a mistake in the configuration: `EX_CONFIG` of sysexits(3).
pub const MISCONFIGURED: u8 = 78;

/// Returns the exit code for `error`: [`MISCONFIGURED`] for a mistake in the configuration, otherwise 1.
pub fn code(error: &anyhow::Error) -> ExitCode {
    let is_of_configuration = error.chain().any(|cause| {
        cause.is::<ConfigError>()
            || cause.downcast_ref().is_some_and(StartError::is_of_configuration)
            || matches!(cause.downcast_ref(), Some(ConnectError::Config(_)))
            || cause.is::<Misconfigured>()
    });
    if is_of_configuration { MISCONFIGURED.into() } else { ExitCode::FAILURE }
}
