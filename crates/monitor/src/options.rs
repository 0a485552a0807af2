//! What the monitor is started with, for its own command line and for that of `rosemary up`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use kernel::control::Plain;

use crate::error::StartError;

/// Where the monitor listens and where it keeps its sockets.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Options {
    /// Address and port at which switches connect; may be given several times.
    #[arg(
        long = "listen",
        value_name = "ADDR:PORT",
        value_parser = parse_address,
        default_value = "127.0.0.1:6653"
    )]
    pub listen: Vec<SocketAddr>,
    /// From where switches may speak plain TCP: from this machine, from anywhere, or not at all.
    #[arg(
        long,
        value_name = "WHO",
        value_parser = PossibleValuesParser::new(["loopback", "any", "never"])
            .try_map(|text| text.parse::<Plain>()),
        default_value = "loopback"
    )]
    pub plain: Plain,
    /// Where the keys for TLS are.
    #[command(flatten)]
    pub tls: TlsDir,
    /// Where the sockets are.
    #[command(flatten)]
    pub place: Place,
}

/// The runtime directory, for who makes it and for who looks for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct Place {
    /// The directory, if it is not the default.
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

/// The directory of the keys for TLS, for who makes them and for who uses them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct TlsDir {
    /// The directory, if it is not the default.
    #[arg(
        long,
        value_name = "DIR",
        help = "Directory of the keys for TLS, as `rosemary pki init` makes it; used if it is \
                there [default: /etc/rosemary/pki for root, $XDG_CONFIG_HOME/rosemary/pki for \
                others]"
    )]
    pub tls_dir: Option<PathBuf>,
}

/// Where root's keys are.
pub const SYSTEM_TLS_DIR: &str = "/etc/rosemary/pki";

impl TlsDir {
    /// The directory that is meant, as an absolute path; `None` if nothing says which it is.
    pub fn resolve(&self) -> Option<PathBuf> {
        let dir = match &self.tls_dir {
            Some(dir) => dir.clone(),
            None if sys::process::is_root() => SYSTEM_TLS_DIR.into(),
            None => config_dir(std::env::var_os("XDG_CONFIG_HOME"), std::env::var_os("HOME"))?,
        };
        Some(std::path::absolute(&dir).unwrap_or(dir))
    }
}

/// As the XDG Base Directory Specification says: relative paths are to be taken as not set.
fn config_dir(xdg: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |dir: OsString| Some(PathBuf::from(dir)).filter(|dir| dir.is_absolute());
    let base = xdg.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".config")))?;
    Some(base.join("rosemary/pki"))
}

/// The directory of an instance that root started.
pub const SYSTEM_RUNTIME_DIR: &str = "/run/rosemary";

/// The name of the admin socket in the runtime directory.
pub const ADMIN_SOCKET: &str = "admin.sock";

/// The name of the lock file in the runtime directory.
pub const LOCK_FILE: &str = "rosemary.lock";

impl Options {
    /// The arguments that give these options again.
    pub fn to_args(&self) -> Vec<OsString> {
        let mut args = Vec::new();
        for address in &self.listen {
            args.extend(["--listen".into(), address.to_string().into()]);
        }
        args.extend(["--plain".into(), self.plain.to_string().into()]);
        if let Some(dir) = &self.tls.tls_dir {
            args.extend(["--tls-dir".into(), dir.into()]);
        }
        if let Some(dir) = &self.place.runtime_dir {
            args.extend(["--runtime-dir".into(), dir.into()]);
        }
        args
    }
}

impl Place {
    /// The directory that is meant, as an absolute path.
    ///
    /// # Errors
    /// [`StartError::NoRuntimeDir`] if nothing says which it is.
    pub fn resolve(&self) -> Result<PathBuf, StartError> {
        let dir = match &self.runtime_dir {
            Some(dir) => dir.clone(),
            None if sys::process::is_root() => SYSTEM_RUNTIME_DIR.into(),
            None => session_dir(std::env::var_os("XDG_RUNTIME_DIR"))?,
        };
        std::path::absolute(&dir).map_err(|source| StartError::Path {
            what: "use the directory",
            path: dir,
            hint: "name another one with --runtime-dir",
            source,
        })
    }
}

fn session_dir(xdg: Option<OsString>) -> Result<PathBuf, StartError> {
    match xdg {
        // A relative path is to be taken as not set (XDG Base Directory Specification).
        Some(dir) if Path::new(&dir).is_absolute() => Ok(Path::new(&dir).join("rosemary")),
        _ => Err(StartError::NoRuntimeDir),
    }
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "give an address and a port, as 127.0.0.1:6653, 0.0.0.0:6653 (everywhere) or [::1]:6653"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    fn parse(args: &[&str]) -> Result<Options, String> {
        let args = std::iter::once("test").chain(args.iter().copied());
        Command::try_parse_from(args).map(|it| it.options).map_err(|error| error.to_string())
    }

    #[test]
    fn no_argument_means_the_openflow_port_on_loopback() {
        assert_eq!(parse(&[]).unwrap().listen, ["127.0.0.1:6653".parse().unwrap()]);
    }

    #[test]
    fn arguments_survive_being_passed_on() {
        let listen = ["--listen", "127.0.0.1:6653", "--listen", "[::1]:6633"];
        let tls = ["--plain", "never", "--tls-dir", "/tmp/k", "--runtime-dir", "/tmp/r"];
        let args = [&listen[..], &tls].concat();
        let options = parse(&args).unwrap();
        assert_eq!(options.plain, Plain::Never);
        assert_eq!(options.listen.len(), 2);
        assert_eq!(options.to_args(), args);
    }

    #[test]
    fn address_without_a_port_is_refused_with_an_example() {
        let error = parse(&["--listen", "6653"]).unwrap_err();
        assert!(error.contains("as 127.0.0.1:6653"), "{error}");
    }

    #[test]
    fn plain_tcp_is_for_this_machine_unless_said_otherwise() {
        assert_eq!(parse(&[]).unwrap().plain, Plain::Loopback);
        assert!(parse(&["--plain", "yes"]).unwrap_err().contains("loopback, any, never"));
    }

    #[test]
    fn keys_of_a_user_are_with_the_users_configuration() {
        let some = |dir: &str| Some(OsString::from(dir));
        let dir = config_dir(some("/x"), some("/home/u"));
        assert_eq!(dir.unwrap(), Path::new("/x/rosemary/pki"));
        let dir = config_dir(some("x"), some("/home/u"));
        assert_eq!(dir.unwrap(), Path::new("/home/u/.config/rosemary/pki"));
        assert_eq!(config_dir(None, None), None);
    }

    #[test]
    fn session_without_a_runtime_directory_is_told_what_to_set() {
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
