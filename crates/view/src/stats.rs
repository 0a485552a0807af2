//! Counters and rates as operators see them. The JSON of these types is a stable interface.

use openflow::Dpid;
use sdk::services::stats::{
    PortCounters, PortRates, Quality, Record, Sample, SwitchStats, TableStats, Traffic,
};
use serde::Serialize;

/// The figures of all switches.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// The switches.
    pub switches: Vec<SwitchLine>,
    /// The ports.
    pub ports: Vec<PortLine>,
    /// The tables.
    pub tables: Vec<TableLine>,
    /// The groups.
    pub groups: Vec<TrafficLine>,
    /// The meters.
    pub meters: Vec<TrafficLine>,
}

/// Figures of a switch.
#[derive(Debug, Serialize)]
pub struct SwitchLine {
    /// The switch.
    pub dpid: String,
    /// `current`, `stale` or `implausible`.
    pub state: &'static str,
    /// Time since the figures were read; `None` if never.
    pub age_ms: Option<u64>,
    /// Flows.
    pub flows: Option<u32>,
    /// Packets.
    pub packets: Option<u64>,
    /// Bytes.
    pub bytes: Option<u64>,
    /// Polls without an answer since the last one.
    pub unanswered: u32,
    /// Time from a poll to its answer, in microseconds.
    pub answer_us: Option<u64>,
}

/// Counters and rates of a port.
#[derive(Debug, Serialize)]
pub struct PortLine {
    /// The switch.
    pub dpid: String,
    /// The port's number.
    pub port: String,
    /// `current`, `stale` or `implausible`.
    pub state: &'static str,
    /// Time since the figures were read; `None` if never.
    pub age_ms: Option<u64>,
    /// Bits received per second.
    pub rx_bps: Option<u64>,
    /// Bits sent per second.
    pub tx_bps: Option<u64>,
    /// Packets received per second.
    pub rx_pps: Option<u32>,
    /// Packets sent per second.
    pub tx_pps: Option<u32>,
    /// Packets received.
    pub rx_packets: Option<u64>,
    /// Packets sent.
    pub tx_packets: Option<u64>,
    /// Bytes received.
    pub rx_bytes: Option<u64>,
    /// Bytes sent.
    pub tx_bytes: Option<u64>,
    /// Received packets that were dropped.
    pub rx_dropped: Option<u32>,
    /// Packets to be sent that were dropped.
    pub tx_dropped: Option<u32>,
    /// Errors on reception.
    pub rx_errors: Option<u32>,
    /// Errors on sending.
    pub tx_errors: Option<u32>,
}

/// Counters of a table.
#[derive(Debug, Serialize)]
pub struct TableLine {
    /// The switch.
    pub dpid: String,
    /// The table's number.
    pub table: u8,
    /// `current`, `stale` or `implausible`.
    pub state: &'static str,
    /// Time since the figures were read; `None` if never.
    pub age_ms: Option<u64>,
    /// Flows.
    pub flows: Option<u64>,
    /// Packets looked up.
    pub lookups: Option<u64>,
    /// Packets that matched.
    pub matches: Option<u64>,
    /// Packets looked up per second.
    pub lookups_per_second: Option<u64>,
}

/// Counters of a group or meter.
#[derive(Debug, Serialize)]
pub struct TrafficLine {
    /// The switch.
    pub dpid: String,
    /// The number of the group or meter.
    pub number: u32,
    /// `current`, `stale` or `implausible`.
    pub state: &'static str,
    /// Time since the figures were read; `None` if never.
    pub age_ms: Option<u64>,
    /// Packets.
    pub packets: Option<u64>,
    /// Bytes.
    pub bytes: Option<u64>,
    /// Packets per second.
    pub pps: Option<u64>,
    /// Bits per second.
    pub bps: Option<u64>,
}

/// Rates of a port at one time.
#[derive(Debug, Serialize)]
pub struct SampleLine {
    /// Age of the sample.
    pub age_seconds: u64,
    /// Kilobits received per second.
    pub rx_kbps: u32,
    /// Kilobits sent per second.
    pub tx_kbps: u32,
    /// Packets received per second.
    pub rx_pps: u32,
    /// Packets sent per second.
    pub tx_pps: u32,
}

/// Turns a sample of a history into a line.
pub fn sample(sample: &Sample, now_s: u64) -> SampleLine {
    let Sample { at_s, rx_kbps, tx_kbps, rx_pps, tx_pps } = *sample;
    SampleLine { age_seconds: now_s.saturating_sub(at_s.into()), rx_kbps, tx_kbps, rx_pps, tx_pps }
}

/// Sorts the records into lists, those of one switch if `only` names it.
pub fn report(mut records: Vec<Record>, only: Option<Dpid>, now_ms: u64) -> Report {
    let key = |record: &Record| record.name().map(|word| word);
    records.retain(|record| only.is_none_or(|dpid| record.name()[1] == dpid.0));
    // By switch, then by kind and number.
    records.sort_by_key(|record| {
        let [head, dpid, _] = key(record);
        (dpid, head & 0xff, head >> 32, head)
    });
    let mut report = Report::default();
    for record in records {
        match record {
            Record::Switch(it) => report.switches.push(switch(&it, now_ms)),
            Record::Port(it) => report.ports.push(port(&it, now_ms)),
            Record::Rates(rates) => {
                // The counters of a switch's ports stand before the rates.
                let of = (rates.dpid.to_string(), rates.port.to_string());
                let line = report.ports.iter_mut().rev().find(|it| {
                    (it.dpid.as_str(), it.port.as_str()) == (of.0.as_str(), of.1.as_str())
                });
                if let Some(line) = line {
                    line.add(&rates);
                }
            }
            Record::Table(it) => report.tables.push(table_line(&it, now_ms)),
            Record::Group(it) => report.groups.push(traffic_line(&it, now_ms)),
            Record::Meter(it) => report.meters.push(traffic_line(&it, now_ms)),
        }
    }
    report
}

fn state(quality: Quality) -> &'static str {
    match quality {
        Quality { is_stale: true, .. } => "stale",
        Quality { is_implausible: true, .. } => "implausible",
        Quality { .. } => "current",
    }
}

/// Returns how old figures are; `None` if none were read.
fn age(read_ms: u64, now_ms: u64) -> Option<u64> {
    (read_ms != 0).then(|| now_ms.saturating_sub(read_ms))
}

fn switch(it: &SwitchStats, now_ms: u64) -> SwitchLine {
    SwitchLine {
        dpid: it.dpid.to_string(),
        state: state(it.quality),
        age_ms: age(it.read_ms, now_ms),
        flows: it.flows,
        packets: it.packets,
        bytes: it.bytes,
        unanswered: it.unanswered,
        answer_us: it.answer_us,
    }
}

fn port(it: &PortCounters, now_ms: u64) -> PortLine {
    PortLine {
        dpid: it.dpid.to_string(),
        port: it.port.to_string(),
        state: state(it.quality),
        age_ms: age(it.read_ms, now_ms),
        rx_bps: None,
        tx_bps: None,
        rx_pps: None,
        tx_pps: None,
        rx_packets: it.rx_packets,
        tx_packets: it.tx_packets,
        rx_bytes: it.rx_bytes,
        tx_bytes: it.tx_bytes,
        rx_dropped: None,
        tx_dropped: None,
        rx_errors: None,
        tx_errors: None,
    }
}

impl PortLine {
    fn add(&mut self, rates: &PortRates) {
        (self.rx_bps, self.tx_bps) = (rates.rx_bps, rates.tx_bps);
        (self.rx_pps, self.tx_pps) = (rates.rx_pps, rates.tx_pps);
        (self.rx_dropped, self.tx_dropped) = (rates.rx_dropped, rates.tx_dropped);
        (self.rx_errors, self.tx_errors) = (rates.rx_errors, rates.tx_errors);
    }
}

fn table_line(it: &TableStats, now_ms: u64) -> TableLine {
    TableLine {
        dpid: it.dpid.to_string(),
        table: it.table,
        state: state(it.quality),
        age_ms: age(it.read_ms, now_ms),
        flows: it.flows,
        lookups: it.lookups,
        matches: it.matches,
        lookups_per_second: it.lookups_per_s,
    }
}

fn traffic_line(it: &Traffic, now_ms: u64) -> TrafficLine {
    TrafficLine {
        dpid: it.dpid.to_string(),
        number: it.number,
        state: state(it.quality),
        age_ms: age(it.read_ms, now_ms),
        packets: it.packets,
        bytes: it.bytes,
        pps: it.pps,
        bps: it.bps,
    }
}
