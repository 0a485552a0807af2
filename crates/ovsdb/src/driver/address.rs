//! The address of a server, in the notation of Open vSwitch.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

/// The port of OVSDB (RFC 7047 §7).
const PORT: u16 = 6640;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A socket of this machine: `unix:PATH`.
    Unix(PathBuf),
    /// `tcp:HOST:PORT`, without protection.
    Tcp(Host),
    /// `ssl:HOST:PORT`, with TLS.
    Tls(Host),
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// A name or an address; IPv6 without brackets.
    pub name: String,
    /// The port.
    pub port: u16,
}

/// A text is no address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "expected unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT; an IPv6 address stands in brackets, and the default port is 6640"
)]
pub struct AddressError;

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (kind, rest) = text.split_once(':').ok_or(AddressError)?;
        match kind {
            "unix" if !rest.is_empty() && !rest.contains('\0') => Ok(Self::Unix(rest.into())),
            "tcp" => rest.parse().map(Self::Tcp),
            "ssl" => rest.parse().map(Self::Tls),
            _ => Err(AddressError),
        }
    }
}

impl FromStr for Host {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (name, rest) = rest.split_once(']').ok_or(AddressError)?;
                name.parse::<std::net::Ipv6Addr>().map_err(|_| AddressError)?;
                (
                    name,
                    if rest.is_empty() {
                        None
                    } else {
                        Some(rest.strip_prefix(':').ok_or(AddressError)?)
                    },
                )
            }
            None => match text.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (text, None),
            },
        };
        let is_host = |it: char| it.is_ascii_alphanumeric() || ".-_:".contains(it);
        if name.is_empty() || name.len() > 253 || !name.chars().all(is_host) {
            return Err(AddressError);
        }
        let port = port.map_or(Ok(PORT), str::parse).map_err(|_| AddressError)?;
        if port == 0 {
            return Err(AddressError);
        }
        Ok(Self { name: name.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(host) => write!(f, "tcp:{host}"),
            Self::Tls(host) => write!(f, "ssl:{host}"),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, port } = self;
        if name.contains(':') { write!(f, "[{name}]:{port}") } else { write!(f, "{name}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_open_vswitch_writes_them() {
        for (text, shown) in [
            ("unix:/run/openvswitch/db.sock", "unix:/run/openvswitch/db.sock"),
            ("tcp:192.0.2.1:6641", "tcp:192.0.2.1:6641"),
            ("ssl:switch.example", "ssl:switch.example:6640"),
            ("ssl:[2001:db8::1]:6640", "ssl:[2001:db8::1]:6640"),
            ("tcp:[::1]", "tcp:[::1]:6640"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown);
        }
        for text in [
            "",
            "unix:",
            "tcp:",
            "tcp:a:0",
            "tcp:a:b",
            "udp:a:1",
            "tcp:[::1]6640",
            "tcp:[x]",
            "ssl:a b:1",
            "tcp:::1",
        ] {
            assert_eq!(text.parse::<Address>(), Err(AddressError), "{text}");
        }
    }
}
