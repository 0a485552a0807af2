//! Reads and builds messages of DHCP for IPv4 (RFC 2131 §2, options: RFC 2132).
//!
//! Options that overflow into the fields of the server's name and the boot file (option 52) are not read.

use std::net::Ipv4Addr;

use openflow::MacAddr;

/// Size of the fixed part: up to the magic cookie, which ends it.
const HEAD: usize = 240;

/// What stands before the options (RFC 2131 §3).
const COOKIE: [u8; 4] = [99, 130, 83, 99];

/// Codes of options (RFC 2132).
pub mod option {
    /// The client's subnet mask, 4 bytes.
    pub const SUBNET_MASK: u8 = 1;
    /// The client's routers, 4 bytes each.
    pub const ROUTER: u8 = 3;
    /// The client's name servers, 4 bytes each.
    pub const DNS: u8 = 6;
    /// The address that the client requests, 4 bytes.
    pub const REQUESTED_IP: u8 = 50;
    /// How long the address is the client's, in seconds, 4 bytes.
    pub const LEASE_SECONDS: u8 = 51;
    /// The kind of message, one byte: [`DISCOVER`](super::DISCOVER) and the others.
    pub const MESSAGE_TYPE: u8 = 53;
    /// The server that is meant, 4 bytes.
    pub const SERVER_ID: u8 = 54;
}

/// Kind of message: the client looks for servers (RFC 2132 §9.6).
pub const DISCOVER: u8 = 1;
/// Kind of message: a server offers an address.
pub const OFFER: u8 = 2;
/// Kind of message: the client takes an offer.
pub const REQUEST: u8 = 3;
/// Kind of message: the server confirms.
pub const ACK: u8 = 5;
/// Kind of message: the server refuses.
pub const NAK: u8 = 6;
/// Kind of message: the client returns its address.
pub const RELEASE: u8 = 7;

/// A message of DHCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dhcp<'a> {
    /// 1 from a client, 2 from a server.
    pub op: u8,
    /// The number by which the client knows its answers.
    pub xid: u32,
    /// 0x8000: the server must broadcast its answer.
    pub flags: u16,
    /// The address that the client has.
    pub client_ip: Ipv4Addr,
    /// The address that the server gives.
    pub your_ip: Ipv4Addr,
    /// The server of the next step.
    pub server_ip: Ipv4Addr,
    /// The relay that forwarded the message.
    pub relay_ip: Ipv4Addr,
    /// The client's Ethernet address.
    pub client_mac: MacAddr,
    /// The options as they stand in the message.
    pub options: &'a [u8],
}

impl<'a> Dhcp<'a> {
    /// Reads the payload of a UDP datagram, or returns `None` if it is no DHCP message for Ethernet.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (head, options) = bytes.split_first_chunk::<HEAD>()?;
        let at = |start: usize| head.get(start..)?.first_chunk::<4>().copied();
        let ip = |start| at(start).map(Ipv4Addr::from);
        if !head.ends_with(&COOKIE) || head[1..3] != [1, 6] {
            return None; // an older protocol, or hardware other than Ethernet with 6 bytes of address
        }
        Some(Self {
            op: head[0],
            xid: u32::from_be_bytes(at(4)?),
            flags: u16::from_be_bytes(*head.get(10..)?.first_chunk()?),
            client_ip: ip(12)?,
            your_ip: ip(16)?,
            server_ip: ip(20)?,
            relay_ip: ip(24)?,
            client_mac: MacAddr(*head.get(28..)?.first_chunk()?),
            options,
        })
    }

    /// Returns the value of the first option with this code.
    pub fn option(&self, code: u8) -> Option<&'a [u8]> {
        self.options().find(|(it, _)| *it == code).map(|(_, value)| value)
    }

    /// Returns the kind of message.
    pub fn message_type(&self) -> Option<u8> {
        self.option(option::MESSAGE_TYPE)?.first().copied()
    }

    /// Returns the codes and values of all options, up to the end or the first that is cut off.
    pub fn options(&self) -> Options<'a> {
        Options { rest: self.options }
    }

    /// Builds the message with these options in place of its own; the payload of a UDP datagram. Returns `None` if a value
    /// is longer than 255 bytes, or a code is that of padding (0) or of the end (255).
    pub fn encode(&self, options: &[(u8, &[u8])]) -> Option<Vec<u8>> {
        let mut bytes = [&[self.op, 1, 6, 0][..], &self.xid.to_be_bytes(), &[0; 2]].concat();
        bytes.extend(self.flags.to_be_bytes());
        for ip in [self.client_ip, self.your_ip, self.server_ip, self.relay_ip] {
            bytes.extend(ip.octets());
        }
        bytes.extend(self.client_mac.0);
        bytes.resize(HEAD - COOKIE.len(), 0);
        bytes.extend(COOKIE);
        for (code, value) in options {
            let size = u8::try_from(value.len()).ok().filter(|_| !matches!(code, 0 | 255))?;
            bytes.extend([*code, size]);
            bytes.extend(*value);
        }
        bytes.push(255);
        Some(bytes)
    }
}

/// Iterates over options.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Options<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.rest.iter().position(|code| *code != 0)?; // 0 is padding
        let ([code, size], behind) = self.rest.get(start..)?.split_first_chunk()?;
        if *code == 255 {
            self.rest = &[];
            return None;
        }
        let (value, rest) = behind.split_at_checked(usize::from(*size))?;
        self.rest = rest;
        Some((*code, value))
    }
}
