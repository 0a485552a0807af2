//! Defines the records of the topology service's table, and the requests that it answers.
//!
//! A record fills one slot; the low byte of its first word is its kind, an empty slot is all zero.
//!
//! ```text
//! switch  w0 = 1 | flags << 8              w1 = dpid  w2 = connection epoch  w3 = number of ports
//! port    w0 = 2 | flags << 8 | port << 32 w1 = dpid  w2 = address  w3 = speed, kbit/s  w4, w5 = name
//! link    w0 = 3 | flags << 8 | port << 32 w1 = dpid, with the port of w0: where packets enter the link
//!                                          w2 = dpid  w3 = port | metric << 32: where they leave it
//!                                          w4 = latency, ns  w5 = found at, ns
//! status  w0 = 4 | flags << 8
//! down    w0 = 5 | flags << 8 | port << 32 w1 = dpid, with the port of w0: where packets entered the link
//!                                          w2 = dpid  w3 = port: where they left it
//!                                          w4 = why   w5 = down since, ns
//!
//! request  what u8 | dpid u64 | on u8      1: drain
//! answer   what u8                         0: done, else the number of a `Refused`
//! ```
//!
//! The address of a port stands in the low 48 bits of its word, its first byte highest. The bytes of a name are in little
//! endian order. Names come from switches and can have any content: escape them before you print them.

use openflow::{Dpid, MacAddr, PortNo};
use thiserror::Error;

pub use super::table::Slot;
use super::wire::{Reader, Writer};

/// A port of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// The switch.
    pub dpid: Dpid,
    /// The number of its port.
    pub port: PortNo,
}

impl std::fmt::Display for Endpoint {
    /// Writes the datapath identifier and the port: `00:00:00:00:00:00:00:01 port 3`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} port {}", self.dpid, self.port)
    }
}

/// A connected switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchRecord {
    /// Its datapath identifier.
    pub dpid: Dpid,
    /// The number of its connection, as in [`Switch`](crate::Switch).
    pub epoch: u32,
    /// How many ports it has that can have a link.
    pub ports: u32,
    /// Whether an operator or an application wants no traffic through it, except to and from its own hosts.
    pub drained: bool,
}

/// A port of a connected switch.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the record")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRecord {
    /// The switch and the number.
    pub at: Endpoint,
    /// Its address.
    pub hw_addr: MacAddr,
    /// Its present speed in kbit/s; 0 if the switch does not tell it.
    pub speed_kbps: u64,
    /// Its name, up to the first zero byte.
    pub name: [u8; 16],
    /// Whether packets can leave through it.
    pub live: bool,
    /// Whether no switch is behind it: its probe window has passed without a link, so floods may leave through it.
    pub edge: bool,
    /// Whether a link enters or leaves there.
    pub link: bool,
    /// Whether a bridge without OpenFlow joins it with other ports. If it is no edge and has no link, another port of the
    /// bridge is used in its place, and packets that enter here are to be dropped. With a link, the bridge joins two parts of
    /// the network, and hosts of the bridge are known at the port that is also an edge.
    pub shared: bool,
}

/// One direction of a link between two switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkRecord {
    /// The port through which packets enter the link.
    pub from: Endpoint,
    /// The port at which they arrive.
    pub to: Endpoint,
    /// The cost of its use, at least 1.
    pub metric: u32,
    /// Estimated time of a packet on the link, in nanoseconds; 0 if unknown.
    pub latency_ns: u64,
    /// When it was found, in the service's time, in nanoseconds.
    pub found_ns: u64,
    /// Whether its latency is that of a relay rather than of a cable.
    pub suspicious: bool,
}

/// Why a link is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum WhyDown {
    /// A port is down.
    PortDown = 1,
    /// A switch has removed a port.
    PortRemoved = 2,
    /// A switch is not connected.
    SwitchGone = 3,
    /// Both ports are up, and no probe crosses the link.
    Silent = 4,
}

impl WhyDown {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::PortDown, Self::PortRemoved, Self::SwitchGone, Self::Silent];

    /// Returns the reason with this number in a record.
    pub fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|it| *it as u64 == number)
    }
}

impl std::fmt::Display for WhyDown {
    /// Writes the reason as a phrase about a port: `port down`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::PortDown => "port down",
            Self::PortRemoved => "port removed",
            Self::SwitchGone => "switch not connected",
            Self::Silent => "no probe crosses it",
        })
    }
}

/// One direction of a link that was there and is down. The service remembers it until one of its ports has a link again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkDownRecord {
    /// The port through which packets entered the link.
    pub from: Endpoint,
    /// The port at which they arrived.
    pub to: Endpoint,
    /// The reason.
    pub why: WhyDown,
    /// Whether the reason is about `to` rather than `from`.
    pub is_far_end: bool,
    /// Since when it is down, in the service's time, in nanoseconds.
    pub since_ns: u64,
}

impl LinkDownRecord {
    /// Returns the port that the reason is about.
    pub fn cause(&self) -> Endpoint {
        if self.is_far_end { self.to } else { self.from }
    }
}

/// A record of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// A switch is connected.
    Switch(SwitchRecord),
    /// A connected switch has this port.
    Port(PortRecord),
    /// Packets cross this link.
    Link(LinkRecord),
    /// The state of discovery.
    Status {
        /// Whether the first probe windows after the service's start have passed. Before, links can be missing.
        settled: bool,
    },
    /// A link that was there is down.
    LinkDown(LinkDownRecord),
}

const SWITCH: u64 = 1;
const PORT: u64 = 2;
const LINK: u64 = 3;
const STATUS: u64 = 4;
const LINK_DOWN: u64 = 5;

/// Flags of a record, in the second byte of its first word.
mod flag {
    pub(super) const DRAINED: u64 = 1 << 8;
    pub(super) const LIVE: u64 = 1 << 8;
    pub(super) const EDGE: u64 = 2 << 8;
    pub(super) const LINK: u64 = 4 << 8;
    pub(super) const SHARED: u64 = 8 << 8;
    pub(super) const SUSPICIOUS: u64 = 1 << 8;
    pub(super) const SETTLED: u64 = 1 << 8;
    pub(super) const FAR_END: u64 = 1 << 8;
}

/// The low 32 bits of a word.
#[expect(clippy::cast_possible_truncation, reason = "the other half is another field")]
fn low(word: u64) -> u32 {
    word as u32
}

/// The high 32 bits of a word.
fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

impl Record {
    /// Encodes the record as a slot.
    pub fn encode(&self) -> Slot {
        let flag = |set: bool, bit: u64| if set { bit } else { 0 };
        match self {
            Self::Switch(it) => {
                let head = SWITCH | flag(it.drained, flag::DRAINED);
                [head, it.dpid.0, it.epoch.into(), it.ports.into(), 0, 0, 0]
            }
            Self::Port(it) => {
                let flags = flag(it.live, flag::LIVE)
                    | flag(it.edge, flag::EDGE)
                    | flag(it.link, flag::LINK)
                    | flag(it.shared, flag::SHARED);
                let bytes = it.hw_addr.0.iter();
                let address = bytes.fold(0, |word, byte| word << 8 | u64::from(*byte));
                let word =
                    |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| it.name[at + byte]));
                let head = PORT | flags | u64::from(it.at.port.0) << 32;
                [head, it.at.dpid.0, address, it.speed_kbps, word(0), word(8), 0]
            }
            Self::Link(it) => {
                let head =
                    LINK | flag(it.suspicious, flag::SUSPICIOUS) | u64::from(it.from.port.0) << 32;
                let end = u64::from(it.to.port.0) | u64::from(it.metric) << 32;
                [head, it.from.dpid.0, it.to.dpid.0, end, it.latency_ns, it.found_ns, 0]
            }
            Self::LinkDown(it) => {
                let head = LINK_DOWN
                    | flag(it.is_far_end, flag::FAR_END)
                    | u64::from(it.from.port.0) << 32;
                let (to, why) = (it.to, it.why as u64);
                [head, it.from.dpid.0, to.dpid.0, to.port.0.into(), why, it.since_ns, 0]
            }
            Self::Status { settled } => [STATUS | flag(*settled, flag::SETTLED), 0, 0, 0, 0, 0, 0],
        }
    }

    /// Decodes a slot; `None` if it is empty or of a kind that this SDK does not know.
    pub fn decode(slot: &Slot) -> Option<Self> {
        let [head, w1, w2, w3, w4, w5, _] = *slot;
        let has = |bit| head & bit != 0;
        let at = Endpoint { dpid: Dpid(w1), port: PortNo(high(head)) };
        Some(match head & 0xff {
            SWITCH => Self::Switch(SwitchRecord {
                dpid: Dpid(w1),
                epoch: low(w2),
                ports: low(w3),
                drained: has(flag::DRAINED),
            }),
            PORT => {
                let [_, _, address @ ..] = w2.to_be_bytes();
                let mut name = [0; 16];
                name[..8].copy_from_slice(&w4.to_le_bytes());
                name[8..].copy_from_slice(&w5.to_le_bytes());
                Self::Port(PortRecord {
                    at,
                    hw_addr: MacAddr(address),
                    speed_kbps: w3,
                    name,
                    live: has(flag::LIVE),
                    edge: has(flag::EDGE),
                    link: has(flag::LINK),
                    shared: has(flag::SHARED),
                })
            }
            LINK => Self::Link(LinkRecord {
                from: at,
                to: Endpoint { dpid: Dpid(w2), port: PortNo(low(w3)) },
                metric: high(w3),
                latency_ns: w4,
                found_ns: w5,
                suspicious: has(flag::SUSPICIOUS),
            }),
            LINK_DOWN => Self::LinkDown(LinkDownRecord {
                from: at,
                to: Endpoint { dpid: Dpid(w2), port: PortNo(low(w3)) },
                why: WhyDown::from_number(w4)?,
                is_far_end: has(flag::FAR_END),
                since_ns: w5,
            }),
            STATUS => Self::Status { settled: has(flag::SETTLED) },
            _ => return None,
        })
    }
}

impl PortRecord {
    /// Returns the bytes of the name before the first zero.
    pub fn name(&self) -> &[u8] {
        self.name.split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

/// A request to the topology service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Begins or ends the drain of a switch; needs the capability `topology.drain`. The switch need not be connected.
    Drain {
        /// The switch.
        dpid: Dpid,
        /// Whether the drain begins.
        on: bool,
    },
}

impl Request {
    /// Encodes the request.
    pub fn encode(&self) -> Vec<u8> {
        let Self::Drain { dpid, on } = self;
        let mut out = Writer::default();
        out.u8(1).u64(dpid.0).u8(u8::from(*on));
        out.0
    }

    /// Decodes a request; `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let (1, dpid, on @ 0..=1) = (from.u8()?, from.u64()?, from.u8()?) else { return None };
        from.end()?;
        Some(Self::Drain { dpid: Dpid(dpid), on: on == 1 })
    }
}

/// Why the service refused a request; nothing was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[repr(u8)]
#[non_exhaustive]
pub enum Refused {
    /// The request is malformed.
    #[error("malformed request")]
    Malformed = 1,
    /// The sender may not change the topology.
    #[error("the operator has not granted topology.drain")]
    NotGranted = 2,
    /// The change could not be stored.
    #[error("the storage did not keep the change: see `rosemary status` and try again")]
    NotStored = 3,
    /// Too many switches are drained.
    #[error("too many switches are drained: undrain some that no longer exist")]
    TooMany = 4,
}

/// Encodes the answer to a request.
pub fn encode_answer(answer: Result<(), Refused>) -> Vec<u8> {
    vec![answer.err().map_or(0, |refused| refused as u8)]
}

/// Decodes the answer to a request; `None` if it is malformed.
pub fn decode_answer(bytes: &[u8]) -> Option<Result<(), Refused>> {
    let [number] = bytes else { return None };
    let all = [Refused::Malformed, Refused::NotGranted, Refused::NotStored, Refused::TooMany];
    match number {
        0 => Some(Ok(())),
        number => all.into_iter().find(|it| *it as u8 == *number).map(Err),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn endpoint() -> impl Strategy<Value = Endpoint> {
        (any::<u64>(), any::<u32>())
            .prop_map(|(dpid, port)| Endpoint { dpid: Dpid(dpid), port: PortNo(port) })
    }

    fn record() -> impl Strategy<Value = Record> {
        let switch = (any::<(u64, u32, u32, bool)>()).prop_map(|(dpid, epoch, ports, drained)| {
            Record::Switch(SwitchRecord { dpid: Dpid(dpid), epoch, ports, drained })
        });
        let port = (endpoint(), any::<([u8; 6], u64, [u8; 16], bool, bool, bool, bool)>())
            .prop_map(|(at, (address, speed_kbps, name, live, edge, link, shared))| {
                let hw_addr = MacAddr(address);
                Record::Port(PortRecord { at, hw_addr, speed_kbps, name, live, edge, link, shared })
            });
        let link = (endpoint(), endpoint(), any::<(u32, u64, u64, bool)>()).prop_map(
            |(from, to, (metric, latency_ns, found_ns, suspicious))| {
                Record::Link(LinkRecord { from, to, metric, latency_ns, found_ns, suspicious })
            },
        );
        let status = any::<bool>().prop_map(|settled| Record::Status { settled });
        let why = proptest::sample::select(WhyDown::ALL.to_vec());
        let down = (endpoint(), endpoint(), why, any::<(bool, u64)>()).prop_map(
            |(from, to, why, (is_far_end, since_ns))| {
                Record::LinkDown(LinkDownRecord { from, to, why, is_far_end, since_ns })
            },
        );
        prop_oneof![switch, port, link, status, down]
    }

    proptest! {
        #[test]
        fn records_survive(record in record()) {
            let slot = record.encode();
            prop_assert_eq!(Record::decode(&slot), Some(record));
            prop_assert_ne!(slot[0], 0);
        }

        #[test]
        fn any_slot_is_read(slot: Slot) {
            if let Some(record) = Record::decode(&slot) {
                prop_assert_eq!(Record::decode(&record.encode()), Some(record));
            }
        }
    }

    #[test]
    fn requests_survive_and_malformed_ones_are_refused() {
        let request = Request::Drain { dpid: Dpid(7), on: true };
        let bytes = request.encode();
        assert_eq!(Request::decode(&bytes), Some(request));
        for cut in 0..bytes.len() {
            assert_eq!(Request::decode(&bytes[..cut]), None);
        }
        for (at, value) in [(0, 2), (9, 2)] {
            let mut changed = bytes.clone();
            changed[at] = value;
            assert_eq!(Request::decode(&changed), None);
        }
        for answer in [Ok(()), Err(Refused::NotStored), Err(Refused::TooMany)] {
            assert_eq!(decode_answer(&encode_answer(answer)), Some(answer));
        }
        assert_eq!(decode_answer(&[200]), None);
        assert_eq!(decode_answer(&[]), None);
    }
}
