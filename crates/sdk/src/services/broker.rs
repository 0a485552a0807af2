//! Defines the broker's messages: it opens TCP connections to the hosts that `net.connect` grants.
//!
//! ```text
//! request     host text | port u16
//! answer      0                              connected; the descriptor is with the zone's host
//!             1 | why text                   failed: unknown name, nobody listens, timeout
//!             2                              the operator has not granted this host and port
//!             3                              not a request, or too many are underway
//! ```

pub use names::LONGEST_HOST;

use super::wire::{Reader, Writer};

/// A request for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// A name or an address, exactly as the operator has granted it.
    pub host: &'a str,
    /// The TCP port.
    pub port: u16,
}

/// An answer of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer<'a> {
    /// The connection is open: [`Network::take`](crate::Network::take) returns it.
    Connected,
    /// The connection failed, for this reason.
    Failed(&'a str),
    /// The operator has not granted this host and port: `net.connect:HOST:PORT`.
    NotGranted,
    /// The request was malformed, or too many of this application's requests are underway.
    Refused,
}

impl<'a> Request<'a> {
    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.short(self.host.as_bytes()).u16(self.port);
        out.0
    }

    /// Decodes it; `None` if the bytes are malformed.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let host = from.text().filter(|host| (1..=LONGEST_HOST).contains(&host.len()))?;
        let request = Self { host, port: from.u16()? };
        from.end().map(|()| request)
    }
}

impl<'a> Answer<'a> {
    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        match self {
            Self::Connected => out.u8(0),
            Self::Failed(why) => out.u8(1).short(why.as_bytes()),
            Self::NotGranted => out.u8(2),
            Self::Refused => out.u8(3),
        };
        out.0
    }

    /// Decodes it; `None` if the bytes are malformed.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let answer = match from.u8()? {
            0 => Self::Connected,
            1 => Self::Failed(from.text()?),
            2 => Self::NotGranted,
            3 => Self::Refused,
            _ => return None,
        };
        from.end().map(|()| answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_and_cut_ones_are_refused() {
        let request = Request { host: "example.org", port: 443 };
        let bytes = request.encode();
        assert_eq!(Request::decode(&bytes), Some(request));
        for cut in 0..bytes.len() {
            assert_eq!(Request::decode(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(Request::decode(&[&bytes[..], &[0]].concat()), None);
        assert_eq!(Request::decode(&Request { host: "", port: 1 }.encode()), None);
        for answer in [Answer::Connected, Answer::Failed("no"), Answer::NotGranted, Answer::Refused]
        {
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
    }
}
