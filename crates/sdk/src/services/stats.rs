//! Reads the table of the service `stats`: counters and rates of ports, tables, groups and meters.
//!
//! The service polls the switches once for all its clients. The table has the [layout](super::layout) of a hash table. A
//! port has two records, so that each fits a slot.
//!
//! ```text
//! w0        kind | flags << 8 | table << 16 | port, group or meter << 32
//! w1        datapath
//! switch 1  w2 = flows | polls without an answer << 32   w3 = packets of flows   w4 = bytes of flows   w5 = answer time, us
//! port 2    w2 = packets in   w3 = packets out   w4 = bytes in   w5 = bytes out
//! rates 3   w2 = bit/s in   w3 = bit/s out   w4 = packets/s in | out << 32
//!           w5 = dropped in | out << 32      w6 = errors in | out << 32
//! table 4   w2 = flows   w3 = look-ups   w4 = matches   w5 = look-ups/s
//! group 5   w2 = packets   w3 = bytes   w4 = packets/s   w5 = bit/s
//! meter 6   as group
//! w6        when the figures were read, in ms of the monotonic clock; not of rates
//! flags     1: stale, 2: implausible; see `Quality`
//! ```
//!
//! A figure of all ones is not known: the switch does not count it, or there is no rate yet. In w4 to w6 of rates, each half
//! is a figure, which stops at the highest one.
//!
//! ```text
//! request   1 u8 | dpid u64 | port u32                    the history of a port
//! answer    0 u8 | sample ...     the oldest first         sample: time s u32 | kbit/s in, out u32 | packets/s in, out u32
//!           1 u8                                           the port is not known
//!           2 u8                                           the request is malformed
//! ```

#[cfg(test)]
mod tests;

use openflow::{Dpid, PortNo};

use super::layout::{self, Name};
use super::table::{Slot, Table};
use super::wire::{Reader, Writer};

const SWITCH: u64 = 1;
const PORT: u64 = 2;
const RATES: u64 = 3;
const TABLE: u64 = 4;
const GROUP: u64 = 5;
const METER: u64 = 6;

const STALE: u64 = 1;
const IMPLAUSIBLE: u64 = 2;

/// A figure that is not known.
const UNKNOWN: u64 = u64::MAX;

/// The same in half a word.
const UNKNOWN_HALF: u32 = u32::MAX;

/// Most samples in an answer.
pub const MOST_SAMPLES: usize = 1024;

/// How far a record's figures can be trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Quality {
    /// The switch did not answer the last polls: the counters are old, and there are no rates.
    pub is_stale: bool,
    /// The last answer contradicts the one before, as when a counter went back: there are no rates.
    pub is_implausible: bool,
}

/// Sums of a switch's flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchStats {
    /// The switch.
    pub dpid: Dpid,
    /// See there.
    pub quality: Quality,
    /// Number of flows, of all apps.
    pub flows: Option<u32>,
    /// Packets that matched present flows.
    pub packets: Option<u64>,
    /// Bytes of these packets.
    pub bytes: Option<u64>,
    /// Polls in sequence that the switch did not answer.
    pub unanswered: u32,
    /// Time from the last request to its answer, in microseconds.
    pub answer_us: Option<u64>,
    /// When the figures were read, in milliseconds of the monotonic clock.
    pub read_ms: u64,
}

/// Counters of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortCounters {
    /// The switch.
    pub dpid: Dpid,
    /// The port.
    pub port: PortNo,
    /// See there.
    pub quality: Quality,
    /// Packets received.
    pub rx_packets: Option<u64>,
    /// Packets sent.
    pub tx_packets: Option<u64>,
    /// Bytes received.
    pub rx_bytes: Option<u64>,
    /// Bytes sent.
    pub tx_bytes: Option<u64>,
    /// When the figures were read, in milliseconds of the monotonic clock.
    pub read_ms: u64,
}

/// Rates of a port between the last two polls, and its rarer counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRates {
    /// The switch.
    pub dpid: Dpid,
    /// The port.
    pub port: PortNo,
    /// See there.
    pub quality: Quality,
    /// Bits received per second.
    pub rx_bps: Option<u64>,
    /// Bits sent per second.
    pub tx_bps: Option<u64>,
    /// Packets received per second.
    pub rx_pps: Option<u32>,
    /// Packets sent per second.
    pub tx_pps: Option<u32>,
    /// Packets dropped on reception.
    pub rx_dropped: Option<u32>,
    /// Packets dropped on sending.
    pub tx_dropped: Option<u32>,
    /// Errors on reception.
    pub rx_errors: Option<u32>,
    /// Errors on sending.
    pub tx_errors: Option<u32>,
}

/// Counters of a flow table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableStats {
    /// The switch.
    pub dpid: Dpid,
    /// The table.
    pub table: u8,
    /// See there.
    pub quality: Quality,
    /// Number of flows.
    pub flows: Option<u64>,
    /// Packets looked up.
    pub lookups: Option<u64>,
    /// Packets that matched a flow.
    pub matches: Option<u64>,
    /// Packets looked up per second.
    pub lookups_per_s: Option<u64>,
    /// When the figures were read, in milliseconds of the monotonic clock.
    pub read_ms: u64,
}

/// Traffic of a group or meter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// The switch.
    pub dpid: Dpid,
    /// The number of the group or meter at the switch.
    pub number: u32,
    /// See there.
    pub quality: Quality,
    /// Packets.
    pub packets: Option<u64>,
    /// Bytes.
    pub bytes: Option<u64>,
    /// Packets per second.
    pub pps: Option<u64>,
    /// Bits per second.
    pub bps: Option<u64>,
    /// When the figures were read, in milliseconds of the monotonic clock.
    pub read_ms: u64,
}

/// A record of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// Sums of a switch's flows.
    Switch(SwitchStats),
    /// Counters of a port.
    Port(PortCounters),
    /// Rates of a port.
    Rates(PortRates),
    /// Counters of a flow table.
    Table(TableStats),
    /// Traffic of a group.
    Group(Traffic),
    /// Traffic of a meter.
    Meter(Traffic),
}

impl Record {
    /// Encodes it.
    pub fn to_slot(&self) -> Slot {
        let [head, dpid, _] = self.name();
        let (quality, [w2, w3, w4, w5, w6]) = match self {
            Self::Switch(it) => {
                let flows = halves(it.flows, Some(it.unanswered));
                let [packets, bytes, answer] = [it.packets, it.bytes, it.answer_us].map(known);
                (it.quality, [flows, packets, bytes, answer, it.read_ms])
            }
            Self::Port(it) => {
                let counters = [it.rx_packets, it.tx_packets, it.rx_bytes, it.tx_bytes].map(known);
                let [rx_packets, tx_packets, rx_bytes, tx_bytes] = counters;
                (it.quality, [rx_packets, tx_packets, rx_bytes, tx_bytes, it.read_ms])
            }
            Self::Rates(it) => {
                let words = [
                    known(it.rx_bps),
                    known(it.tx_bps),
                    halves(it.rx_pps, it.tx_pps),
                    halves(it.rx_dropped, it.tx_dropped),
                    halves(it.rx_errors, it.tx_errors),
                ];
                (it.quality, words)
            }
            Self::Table(it) => {
                let counters = [it.flows, it.lookups, it.matches, it.lookups_per_s].map(known);
                let [flows, lookups, matches, rate] = counters;
                (it.quality, [flows, lookups, matches, rate, it.read_ms])
            }
            Self::Group(it) | Self::Meter(it) => {
                let [packets, bytes, pps, bps] = [it.packets, it.bytes, it.pps, it.bps].map(known);
                (it.quality, [packets, bytes, pps, bps, it.read_ms])
            }
        };
        let flag = |set: bool, flag: u64| if set { flag << 8 } else { 0 };
        let flags = flag(quality.is_stale, STALE) | flag(quality.is_implausible, IMPLAUSIBLE);
        [head | flags, dpid, w2, w3, w4, w5, w6]
    }

    /// Decodes a slot; `None` if it is empty or of another kind.
    pub fn of_slot(slot: &Slot) -> Option<Self> {
        let [head, dpid, w2, w3, w4, w5, read_ms] = *slot;
        let (dpid, [_, number]) = (Dpid(dpid), parts(head));
        let has = |flag: u64| head >> 8 & flag != 0;
        let quality = Quality { is_stale: has(STALE), is_implausible: has(IMPLAUSIBLE) };
        let port = PortNo(number);
        let traffic = || Traffic {
            dpid,
            number,
            quality,
            packets: figure(w2),
            bytes: figure(w3),
            pps: figure(w4),
            bps: figure(w5),
            read_ms,
        };
        Some(match head & 0xff {
            SWITCH => {
                let [flows, unanswered] = parts(w2);
                Self::Switch(SwitchStats {
                    dpid,
                    quality,
                    flows: half(flows),
                    packets: figure(w3),
                    bytes: figure(w4),
                    unanswered,
                    answer_us: figure(w5),
                    read_ms,
                })
            }
            PORT => Self::Port(PortCounters {
                dpid,
                port,
                quality,
                rx_packets: figure(w2),
                tx_packets: figure(w3),
                rx_bytes: figure(w4),
                tx_bytes: figure(w5),
                read_ms,
            }),
            RATES => {
                let [rx_pps, tx_pps] = parts(w4).map(half);
                let [rx_dropped, tx_dropped] = parts(w5).map(half);
                let [rx_errors, tx_errors] = parts(read_ms).map(half);
                Self::Rates(PortRates {
                    dpid,
                    port,
                    quality,
                    rx_bps: figure(w2),
                    tx_bps: figure(w3),
                    rx_pps,
                    tx_pps,
                    rx_dropped,
                    tx_dropped,
                    rx_errors,
                    tx_errors,
                })
            }
            TABLE => Self::Table(TableStats {
                dpid,
                table: table_of(head),
                quality,
                flows: figure(w2),
                lookups: figure(w3),
                matches: figure(w4),
                lookups_per_s: figure(w5),
                read_ms,
            }),
            GROUP => Self::Group(traffic()),
            METER => Self::Meter(traffic()),
            _ => return None,
        })
    }

    /// Returns what it is found by.
    pub fn name(&self) -> Name {
        match self {
            Self::Switch(it) => switch_name(it.dpid),
            Self::Port(it) => port_name(it.dpid, it.port),
            Self::Rates(it) => rates_name(it.dpid, it.port),
            Self::Table(it) => table_name(it.dpid, it.table),
            Self::Group(it) => group_name(it.dpid, it.number),
            Self::Meter(it) => meter_name(it.dpid, it.number),
        }
    }
}

/// Finds the sums of a switch's flows.
pub fn find_switch(table: &impl Table, dpid: Dpid) -> Option<SwitchStats> {
    match find(table, switch_name(dpid))? {
        Record::Switch(it) => Some(it),
        _ => None,
    }
}

/// Finds the counters of a port.
pub fn find_port(table: &impl Table, dpid: Dpid, port: PortNo) -> Option<PortCounters> {
    match find(table, port_name(dpid, port))? {
        Record::Port(it) => Some(it),
        _ => None,
    }
}

/// Finds the rates of a port.
pub fn find_rates(table: &impl Table, dpid: Dpid, port: PortNo) -> Option<PortRates> {
    match find(table, rates_name(dpid, port))? {
        Record::Rates(it) => Some(it),
        _ => None,
    }
}

fn find(table: &impl Table, name: Name) -> Option<Record> {
    const FLAGS: u64 = 0xff00;
    let is_it = |slot: &Slot| [slot[0] & !FLAGS, slot[1], 0] == name;
    Record::of_slot(&layout::find(table, name, is_it)?)
}

/// A request for the history of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryRequest {
    /// The switch.
    pub dpid: Dpid,
    /// The port.
    pub port: PortNo,
}

impl HistoryRequest {
    /// Encodes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.u8(1).u64(self.dpid.0);
        out.0.extend(self.port.0.to_le_bytes());
        out.0
    }

    /// Decodes it; `None` if the bytes are malformed.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let (1, dpid, port) = (from.u8()?, from.u64()?, from.u32()?) else { return None };
        from.end().map(|()| Self { dpid: Dpid(dpid), port: PortNo(port) })
    }
}

/// The rates of a port at a time in the past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When they were read, in seconds of the monotonic clock.
    pub at_s: u32,
    /// Thousands of bits received per second.
    pub rx_kbps: u32,
    /// Thousands of bits sent per second.
    pub tx_kbps: u32,
    /// Packets received per second.
    pub rx_pps: u32,
    /// Packets sent per second.
    pub tx_pps: u32,
}

/// An answer about the history of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum History {
    /// The samples, the oldest first; polls without a rate are left out.
    Samples(Vec<Sample>),
    /// The service does not know the port.
    Unknown,
    /// The request was malformed.
    Malformed,
}

impl History {
    /// Encodes it, with the newest [`MOST_SAMPLES`].
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Samples(samples) => {
                let mut bytes = vec![0];
                for it in samples.iter().skip(samples.len().saturating_sub(MOST_SAMPLES)) {
                    for value in [it.at_s, it.rx_kbps, it.tx_kbps, it.rx_pps, it.tx_pps] {
                        bytes.extend(value.to_le_bytes());
                    }
                }
                bytes
            }
            Self::Unknown => vec![1],
            Self::Malformed => vec![2],
        }
    }

    /// Decodes it; `None` if the bytes are malformed.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        match from.u8()? {
            0 => {
                let mut samples = Vec::new();
                while !from.0.is_empty() && samples.len() < MOST_SAMPLES {
                    samples.push(Sample {
                        at_s: from.u32()?,
                        rx_kbps: from.u32()?,
                        tx_kbps: from.u32()?,
                        rx_pps: from.u32()?,
                        tx_pps: from.u32()?,
                    });
                }
                from.end().map(|()| Self::Samples(samples))
            }
            1 => from.end().map(|()| Self::Unknown),
            2 => from.end().map(|()| Self::Malformed),
            _ => None,
        }
    }
}

/// Returns what the sums of a switch's flows are found by.
pub fn switch_name(dpid: Dpid) -> Name {
    name(SWITCH, dpid, 0, 0)
}

/// Returns what the counters of a port are found by.
pub fn port_name(dpid: Dpid, port: PortNo) -> Name {
    name(PORT, dpid, 0, port.0)
}

/// Returns what the rates of a port are found by.
pub fn rates_name(dpid: Dpid, port: PortNo) -> Name {
    name(RATES, dpid, 0, port.0)
}

/// Returns what the counters of a flow table are found by.
pub fn table_name(dpid: Dpid, table: u8) -> Name {
    name(TABLE, dpid, table, 0)
}

/// Returns what the traffic of a group is found by.
pub fn group_name(dpid: Dpid, number: u32) -> Name {
    name(GROUP, dpid, 0, number)
}

/// Returns what the traffic of a meter is found by.
pub fn meter_name(dpid: Dpid, number: u32) -> Name {
    name(METER, dpid, 0, number)
}

fn name(kind: u64, dpid: Dpid, table: u8, number: u32) -> Name {
    [kind | u64::from(table) << 16 | u64::from(number) << 32, dpid.0, 0]
}

fn known(figure: Option<u64>) -> u64 {
    figure.unwrap_or(UNKNOWN)
}

fn figure(word: u64) -> Option<u64> {
    (word != UNKNOWN).then_some(word)
}

fn half(value: u32) -> Option<u32> {
    (value != UNKNOWN_HALF).then_some(value)
}

fn halves(low: Option<u32>, high: Option<u32>) -> u64 {
    let word = |value: Option<u32>| u64::from(value.unwrap_or(UNKNOWN_HALF));
    word(low) | word(high) << 32
}

/// Returns the low and the high half of a word.
#[expect(clippy::cast_possible_truncation, reason = "one half each")]
fn parts(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

#[expect(clippy::cast_possible_truncation, reason = "the byte of the table")]
fn table_of(head: u64) -> u8 {
    (head >> 16) as u8
}
