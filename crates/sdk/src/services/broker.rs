//! The broker: TCP connections to the hosts that `net.connect` grants.
//!
//! ```text
//! request     host text | port u16
//! answer      0                              connected; the descriptor is with the zone's host
//!             1 | why text                   could not: the name is not known, nobody listens, it took too long
//!             2                              the operator has not granted this host and port
//!             3                              not a request, or too many are underway
//! ```

use super::wire::{Reader, Writer};

/// Letters of a host's name, at most (RFC 1035 §2.3.4).
pub const LONGEST_HOST: usize = 253;

/// A connection that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// A name or an address, exactly as the operator has granted it.
    pub host: &'a str,
    /// The TCP port.
    pub port: u16,
}

/// What the broker answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer<'a> {
    /// There is a connection: [`Network::take`](crate::Network::take) it.
    Connected,
    /// There is none, for this reason.
    Failed(&'a str),
    /// The operator has not granted this host and port: `net.connect:HOST:PORT`.
    NotGranted,
    /// It was no request, or too many of this application's are underway.
    Refused,
}

impl<'a> Request<'a> {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.short(self.host.as_bytes()).u16(self.port);
        out.0
    }

    /// From bytes; `None` if they are none.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let host = from.text().filter(|host| (1..=LONGEST_HOST).contains(&host.len()))?;
        let request = Self { host, port: from.u16()? };
        from.end().map(|()| request)
    }
}

impl<'a> Answer<'a> {
    /// As bytes.
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

    /// From bytes; `None` if they are none.
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
    fn requests_and_answers_survive_and_every_cut_of_them_is_refused() {
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
