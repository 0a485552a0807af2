//! Connects to a running Rosemary as an operator. The clients themselves are in `view`.

use std::io;
use std::path::{Path, PathBuf};

use config::instance::{DirectoryError, InstancePaths, SYSTEM_RUNTIME_DIR};
use config::{Config, ConfigError, SYSTEM_CONFIG};
use control::operator::ADMIN_SOCKET;
use thiserror::Error;
use view::client::REPLY_TIMEOUT;
pub use view::client::{ClientError, Kernel, Log, Monitor, Provided};

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// No admin socket exists at any of these paths.
    #[error("Rosemary does not run here (no {}); start it with `rosemary up`", list(.0))]
    NotRunning(Vec<PathBuf>),
    /// The admin socket exists, but the connection failed.
    #[error("cannot connect to {path}; {hint}")]
    Connect {
        /// The admin socket.
        path: PathBuf,
        /// A remedy.
        hint: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The runtime directory is unknown.
    #[error(transparent)]
    RuntimeDir(#[from] DirectoryError),
}

/// Connects to the instance at `paths`.
///
/// Without a runtime directory in `paths`, the user's own instance is tried first, then the system's.
/// The latter accepts root and members of the group `rosemary`.
///
/// # Errors
/// [`ConnectError`].
pub fn connect(paths: &InstancePaths) -> Result<Monitor, ConnectError> {
    connect_in(paths).map(|(monitor, _)| monitor)
}

/// Connects like [`connect`], and returns the runtime directory as well.
///
/// # Errors
/// [`ConnectError`].
pub(crate) fn connect_in(paths: &InstancePaths) -> Result<(Monitor, PathBuf), ConnectError> {
    let (dirs, mistake) = runtime_dirs(paths)?;
    let sockets: Vec<PathBuf> = dirs.iter().map(|dir| dir.join(ADMIN_SOCKET)).collect();
    for (dir, path) in dirs.into_iter().zip(&sockets) {
        match sys::named::connect_patiently(path, REPLY_TIMEOUT) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                let (path, hint) = (path.clone(), hint(&source));
                return Err(ConnectError::Connect { path, hint, source });
            }
            Ok(channel) => {
                if let Some(mistake) = mistake {
                    crate::say::note(format_args!(
                        "Rosemary runs on with its last good configuration: {mistake}"
                    ));
                }
                return Ok((Monitor::over(channel), dir));
            }
        }
    }
    Err(mistake.map_or_else(|| ConnectError::NotRunning(sockets), ConnectError::Config))
}

/// Returns the possible runtime directories, in the order in which to try them, and a mistake in the configuration that was
/// named.
fn runtime_dirs(
    paths: &InstancePaths,
) -> Result<(Vec<PathBuf>, Option<ConfigError>), ConnectError> {
    let mut mistake = None;
    // The file is of no use if an option names the directory, and may have been damaged since the instance started.
    let config = match (&paths.runtime_dir, &paths.config) {
        (Some(_), _) => Config::default(),
        (None, named) => match (Config::load(named.as_deref()), named) {
            (Ok(config), _) => config,
            (Err(error @ ConfigError::Unreadable { .. }), Some(_)) => return Err(error.into()),
            (Err(error), Some(file)) => {
                mistake = Some(error);
                let mut config = Config::default();
                config.runtime_dir = config::runtime_dir_of(file);
                config
            }
            (Err(_), None) => Config::default(),
        },
    };
    let mut dirs = Vec::new();
    match paths.resolve(&config) {
        Ok(dir) => dirs.push(dir),
        Err(error) if paths.runtime_dir.is_some() => return Err(error.into()),
        Err(_) => {} // the system's instance is reachable without a login session
    }
    if paths.runtime_dir.is_none() {
        // A user other than root may lack the permission to read this file.
        let system = Config::load(Some(Path::new(SYSTEM_CONFIG))).unwrap_or_default();
        dirs.extend(system.runtime_dir);
        dirs.push(SYSTEM_RUNTIME_DIR.into());
    }
    let mut different: Vec<PathBuf> = Vec::new();
    for dir in dirs {
        if !different.contains(&dir) {
            different.push(dir);
        }
    }
    Ok((different, mistake))
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "only root, the user who started Rosemary and members of the group rosemary may connect"
        }
        io::ErrorKind::ConnectionRefused => {
            "Rosemary was killed; start it again with `rosemary up`"
        }
        io::ErrorKind::WouldBlock => "too many clients connect at the same time; try again",
        _ => "start Rosemary with `rosemary up`, or name its directory with --runtime-dir",
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", no ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_instance_error_names_remedy() {
        let paths = InstancePaths { runtime_dir: Some("/nowhere".into()), config: None };
        let error = connect(&paths).unwrap_err().to_string();
        assert_eq!(
            error,
            "Rosemary does not run here (no /nowhere/admin.sock); start it with `rosemary up`"
        );
    }
}
