//! Finds the directories of an instance: its options of the command line, the configuration, then the defaults.
//!
//! The monitor and the command have the same options, so both find the same instance.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use thiserror::Error;

use super::config::Config;
use super::file::user_dir;

/// The runtime directory of an instance that root started.
pub const SYSTEM_RUNTIME_DIR: &str = "/run/rosemary";

/// The state directory of an instance that root started.
const SYSTEM_STATE_DIR: &str = "/var/lib/rosemary";

/// The directory of the TLS keys of an instance that root started.
const SYSTEM_TLS_DIR: &str = "/etc/rosemary/pki";

/// Why a directory of the instance cannot be determined.
#[derive(Debug, Error)]
pub enum DirectoryError {
    /// Without root, sockets belong into the directory of the login session, and there is no such session.
    #[error(
        "there is no directory for the sockets, as XDG_RUNTIME_DIR is not set; set it, or name a \
         directory of your own with --runtime-dir"
    )]
    NoRuntimeDir,
    /// Without root, the state belongs into the home directory, and no variable names that.
    #[error(
        "there is no directory for the state, as neither XDG_STATE_HOME nor HOME is set; name a \
         directory of your own with --state-dir"
    )]
    NoStateDir,
    /// The path cannot be made absolute.
    #[error("cannot use the directory {path}; {hint}")]
    Relative {
        /// The path.
        path: PathBuf,
        /// A remedy.
        hint: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

/// The options that identify an instance: its configuration and its runtime directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct InstancePaths {
    /// The configuration, unless the default.
    #[arg(
        long,
        value_name = "FILE",
        env = "ROSEMARY_CONFIG",
        hide_env_values = true,
        help = "Configuration; optional [default: /etc/rosemary/rosemary.toml for root, \
                $XDG_CONFIG_HOME/rosemary/rosemary.toml for others]"
    )]
    pub config: Option<PathBuf>,
    /// The directory, unless the default.
    #[arg(
        long,
        value_name = "DIR",
        env = "ROSEMARY_RUNTIME_DIR",
        hide_env_values = true,
        help = "Directory of Rosemary's sockets [default: /run/rosemary for root, \
                $XDG_RUNTIME_DIR/rosemary for others]"
    )]
    pub runtime_dir: Option<PathBuf>,
}

impl InstancePaths {
    /// The runtime directory, as an absolute path.
    ///
    /// # Errors
    /// [`DirectoryError::NoRuntimeDir`] if no option, configuration or environment variable names one.
    pub fn resolve(&self, config: &Config) -> Result<PathBuf, DirectoryError> {
        let dir = match self.runtime_dir.as_ref().or(config.runtime_dir.as_ref()) {
            Some(dir) => dir.clone(),
            None if sys::process::is_root() => SYSTEM_RUNTIME_DIR.into(),
            None => session_dir(std::env::var_os("XDG_RUNTIME_DIR"))?,
        };
        absolute(dir, "name another directory with --runtime-dir")
    }
}

/// The option for the state directory, whose files outlive a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct StateDir {
    /// The directory, unless the default.
    #[arg(
        long,
        value_name = "DIR",
        env = "ROSEMARY_STATE_DIR",
        hide_env_values = true,
        help = "Directory of the state that outlives a run [default: /var/lib/rosemary for root, \
                $XDG_STATE_HOME/rosemary for others]"
    )]
    pub state_dir: Option<PathBuf>,
}

impl StateDir {
    /// The directory, as an absolute path.
    ///
    /// # Errors
    /// [`DirectoryError::NoStateDir`] if no option, configuration or environment variable names one.
    pub fn resolve(&self, config: &Config) -> Result<PathBuf, DirectoryError> {
        let dir = match self.state_dir.as_ref().or(config.state_dir.as_ref()) {
            Some(dir) => dir.clone(),
            None if sys::process::is_root() => SYSTEM_STATE_DIR.into(),
            None => user_dir("XDG_STATE_HOME", ".local/state").ok_or(DirectoryError::NoStateDir)?,
        };
        absolute(dir, "name another directory with --state-dir")
    }
}

/// The option for the directory of the TLS keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct TlsDir {
    /// The directory, unless the default.
    #[arg(
        long,
        value_name = "DIR",
        help = "Directory of the TLS keys, as `rosemary pki init` creates it; used if it exists \
                [default: /etc/rosemary/pki for root, $XDG_CONFIG_HOME/rosemary/pki for \
                others]"
    )]
    pub tls_dir: Option<PathBuf>,
}

impl TlsDir {
    /// The directory that an option or the configuration names, if any.
    pub fn named<'a>(&'a self, config: &'a Config) -> Option<&'a Path> {
        self.tls_dir.as_deref().or(config.tls_dir.as_deref())
    }

    /// The directory, as an absolute path; `None` if no option, configuration or environment variable names one.
    pub fn resolve(&self, config: &Config) -> Option<PathBuf> {
        let dir = match self.named(config) {
            Some(dir) => dir.to_owned(),
            None if sys::process::is_root() => SYSTEM_TLS_DIR.into(),
            None => user_dir("XDG_CONFIG_HOME", ".config")?.join("pki"),
        };
        Some(std::path::absolute(&dir).unwrap_or(dir))
    }
}

fn absolute(dir: PathBuf, hint: &'static str) -> Result<PathBuf, DirectoryError> {
    std::path::absolute(&dir).map_err(|source| DirectoryError::Relative { path: dir, hint, source })
}

fn session_dir(xdg: Option<OsString>) -> Result<PathBuf, DirectoryError> {
    match xdg {
        // The XDG Base Directory Specification says to ignore a relative path.
        Some(dir) if Path::new(&dir).is_absolute() => Ok(Path::new(&dir).join("rosemary")),
        _ => Err(DirectoryError::NoRuntimeDir),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_runtime_directory_error_names_remedies() {
        for xdg in [None, Some("relative".into())] {
            let error = session_dir(xdg).unwrap_err().to_string();
            assert!(
                error.contains("XDG_RUNTIME_DIR") && error.contains("--runtime-dir"),
                "{error}"
            );
        }
        assert_eq!(
            session_dir(Some("/run/user/7".into())).unwrap(),
            Path::new("/run/user/7/rosemary")
        );
    }
}
