//! Messages between the history service and those who read it, and the names of its series.
//!
//! One JSON value per packet. A series is one figure of one subject. Its text is `SUBJECT METRIC`, such as
//! `port 00:00:00:00:00:00:00:01 3 rx-bits`, and is also its key in the store.

use std::fmt;
use std::str::FromStr;

use openflow::{Dpid, PortNo};
use serde::{Deserialize, Serialize};

/// Most points in one reply; a reply fits a packet.
pub const MAX_POINTS: usize = 400;

/// Most points that one question may have, over all its replies.
pub const MAX_POINTS_IN_ALL: u64 = 10_000;

/// Most series in one reply.
pub const MAX_SERIES: usize = 200;

/// The greatest value of a sample. Sums of a whole hour of such samples fit 64 bits.
pub const MAX_VALUE: u64 = (1 << 50) - 1;

/// Longest name of a program or app, in bytes.
const MAX_NAME: usize = 128;

/// The subject of a series.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// The whole network.
    Network,
    /// A switch.
    Switch(Dpid),
    /// A port of a switch.
    Port(Dpid, PortNo),
    /// One direction of a link: from this port to that one.
    Link((Dpid, PortNo), (Dpid, PortNo)),
    /// An app.
    App(String),
    /// A program of Rosemary other than an app.
    Program(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network => f.write_str("network"),
            Self::Switch(dpid) => write!(f, "switch {dpid}"),
            Self::Port(dpid, port) => write!(f, "port {dpid} {}", port.0),
            Self::Link(from, to) => {
                write!(f, "link {} {} {} {}", from.0, from.1.0, to.0, to.1.0)
            }
            Self::App(name) => write!(f, "app {name}"),
            Self::Program(name) => write!(f, "program {name}"),
        }
    }
}

impl FromStr for Subject {
    type Err = UnknownSeries;

    fn from_str(text: &str) -> Result<Self, UnknownSeries> {
        let mut words = text.split(' ');
        let kind = words.next();
        let rest: Vec<&str> = words.collect();
        let dpid = |text: &str| text.parse::<Dpid>().map_err(|_| UnknownSeries);
        let port = |text: &str| text.parse().map(PortNo).map_err(|_| UnknownSeries);
        let name = |text: &str| {
            let is_name = !text.is_empty()
                && text.len() <= MAX_NAME
                && text
                    .chars()
                    .all(|it| !it.is_control() && !it.is_whitespace() && !",\"".contains(it));
            is_name.then(|| text.to_owned()).ok_or(UnknownSeries)
        };
        match (kind, rest.as_slice()) {
            (Some("network"), []) => Ok(Self::Network),
            (Some("switch"), [at]) => Ok(Self::Switch(dpid(at)?)),
            (Some("port"), [at, number]) => Ok(Self::Port(dpid(at)?, port(number)?)),
            (Some("link"), [from, out, to, into]) => {
                Ok(Self::Link((dpid(from)?, port(out)?), (dpid(to)?, port(into)?)))
            }
            (Some("app"), [text]) => Ok(Self::App(name(text)?)),
            (Some("program"), [text]) => Ok(Self::Program(name(text)?)),
            _ => Err(UnknownSeries),
        }
    }
}

/// The text names no series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownSeries;

impl fmt::Display for UnknownSeries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this is no name of a series")
    }
}

impl std::error::Error for UnknownSeries {}

/// How the samples of a metric are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    /// Each sample is the value at its time: averages, minima and maxima are useful.
    Level,
    /// Each sample is the number of events since the sample before: sums are useful.
    Count,
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $unit:literal, $nature:ident;)*) => {
        /// A figure of a subject.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Metric { $($(#[$doc])* $variant,)* }

        impl Metric {
            /// All metrics.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Its unit.
            pub fn unit(self) -> &'static str {
                match self { $(Self::$variant => $unit,)* }
            }

            /// How its samples are read.
            pub fn nature(self) -> Nature {
                match self { $(Self::$variant => Nature::$nature,)* }
            }
        }
    };
}

metrics! {
    /// Connected switches.
    Switches = "switches", "switches", Level;
    /// Directions of links.
    Links = "links", "directions", Level;
    /// Known hosts.
    Hosts = "hosts", "hosts", Level;
    /// Incidents that began.
    Incidents = "incidents", "incidents", Count;
    /// Bits received per second.
    RxBits = "rx-bits", "bit/s", Level;
    /// Bits sent per second.
    TxBits = "tx-bits", "bit/s", Level;
    /// Packets received per second.
    RxPackets = "rx-packets", "packets/s", Level;
    /// Packets sent per second.
    TxPackets = "tx-packets", "packets/s", Level;
    /// Errors of both directions.
    Errors = "errors", "errors", Count;
    /// Dropped packets of both directions.
    Drops = "drops", "packets", Count;
    /// The busier direction, in thousandths of the port's speed.
    Utilisation = "utilisation", "thousandths", Level;
    /// Packet-ins.
    PacketIns = "packet-ins", "packet-ins", Count;
    /// Flow-mods.
    FlowMods = "flow-mods", "flow-mods", Count;
    /// Refused messages.
    Refused = "refused", "messages", Count;
    /// Flows in all tables.
    Flows = "flows", "flows", Level;
    /// Fill of the fullest table, in thousandths.
    TableFill = "table-fill", "thousandths", Level;
    /// Latency, in microseconds: of a link; of a switch's answers; of an app's answers to packet-ins.
    Latency = "latency", "us", Level;
    /// Processor time, in thousandths of a processor.
    Cpu = "cpu", "thousandths", Level;
    /// Memory in bytes.
    Memory = "memory", "bytes", Level;
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Metric {
    type Err = UnknownSeries;

    fn from_str(text: &str) -> Result<Self, UnknownSeries> {
        Self::ALL.iter().copied().find(|it| it.name() == text).ok_or(UnknownSeries)
    }
}

/// One figure of one subject.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeriesName {
    /// The subject.
    pub subject: Subject,
    /// The figure.
    pub metric: Metric,
}

impl fmt::Display for SeriesName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.subject, self.metric)
    }
}

impl FromStr for SeriesName {
    type Err = UnknownSeries;

    fn from_str(text: &str) -> Result<Self, UnknownSeries> {
        let (subject, metric) = text.rsplit_once(' ').ok_or(UnknownSeries)?;
        Ok(Self { subject: subject.parse()?, metric: metric.parse()? })
    }
}

/// Sent by an operator's program to the history service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HistoryRequest {
    /// Lists series in the order of their texts. Answered by [`HistoryReply::Series`].
    Series {
        /// The text of the series after which the reply starts; empty for the first.
        after: String,
    },
    /// Reads a series. Answered by [`HistoryReply::Points`].
    Read {
        /// The text of the series.
        series: String,
        /// The first second, since 1970.
        from: u64,
        /// The second after the last one.
        to: u64,
        /// The seconds of one point. The reply may have longer ones.
        step: u64,
    },
}

/// The sums of the samples in a span of time: time of its first second since 1970, number of samples, minimum, maximum and sum.
pub type PointRow = (u64, u64, u64, u64, u64);

/// Sent by the history service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HistoryReply {
    /// A part of the series.
    Series {
        /// Their texts.
        series: Vec<String>,
        /// Whether further ones follow.
        more: bool,
    },
    /// A part of a series. Times without samples have no point.
    Points {
        /// The seconds of each point.
        step: u64,
        /// The points, the oldest first.
        points: Vec<PointRow>,
        /// The time from which to ask for the rest; `None` if there is none.
        next: Option<u64>,
    },
    /// There is no such series.
    NoSeries,
    /// The request was refused.
    Refused {
        /// The reason, as a phrase.
        why: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let (here, there) = ((Dpid(1), PortNo(2)), (Dpid(0xff), PortNo(0xffff_fffe)));
        let subjects = [
            Subject::Network,
            Subject::Switch(Dpid(1)),
            Subject::Port(Dpid(1), PortNo(7)),
            Subject::Link(here, there),
            Subject::App("learning-switch".into()),
            Subject::Program("kernel".into()),
        ];
        for subject in subjects {
            for metric in Metric::ALL {
                let name = SeriesName { subject: subject.clone(), metric: *metric };
                assert_eq!(name.to_string().parse(), Ok(name));
            }
        }
    }

    #[test]
    fn other_texts_name_no_series() {
        for text in [
            "",
            "network",
            "network ",
            "network x hosts",
            "switch hosts",
            "port 1 x rx-bits",
            "link 1 2 3 rx-bits",
            "app  cpu",
            "app a\tb cpu",
            "app a b cpu",
            "network cpus",
        ] {
            assert_eq!(text.parse::<SeriesName>(), Err(UnknownSeries), "{text}");
        }
    }

    #[test]
    fn full_reply_fits_a_packet() {
        let largest = (u64::MAX, u64::from(u32::MAX), MAX_VALUE, MAX_VALUE, u64::MAX);
        let points = HistoryReply::Points {
            step: u64::MAX,
            points: vec![largest; MAX_POINTS],
            next: Some(u64::MAX),
        };
        let name =
            SeriesName { subject: Subject::App("a".repeat(MAX_NAME)), metric: Metric::Utilisation };
        let series =
            HistoryReply::Series { series: vec![name.to_string(); MAX_SERIES], more: true };
        for reply in [points, series] {
            let size = serde_json::to_vec(&reply).unwrap().len();
            assert!(size <= names::MAX_MESSAGE, "{size}");
        }
    }
}
