//! Keeps the last readings of the switches, and writes the records of the table.
//!
//! Records exist only for ports that the kernel has announced, and for tables, groups and meters of the last whole answer.
//! An answer that names others, or one twice, changes nothing else.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use rosemary_sdk::openflow::{
    AggregateStats, Available as _, GroupStats, MeterStats, PortStats, TableStats,
};
use rosemary_sdk::services::layout::{Name, Placement, Writes};
use rosemary_sdk::services::stats::{
    self as table, PortCounters, PortRates, Quality, Record, Sample, SwitchStats, Traffic,
};
use rosemary_sdk::services::table::Slot;
use rosemary_sdk::{Dpid, PortNo};

use super::poller::Subject;
use super::rates::{Flow, Implausible, Moment, Rate};

/// Samples of a port's history.
const HISTORY: usize = 60;

/// Samples of all ports; if there are many, each has a shorter history.
const SAMPLES: usize = 600_000;

/// The shortest history.
const SHORTEST_HISTORY: usize = 8;

/// Most groups, and most meters, of a switch.
const MOST_NUMBERS: usize = 1024;

/// Ports that the kernel has announced.
const MOST_PORTS: usize = 65_536;

#[derive(Debug, Default)]
struct PortFigures {
    /// The last reading, with the counters in and out.
    last: Option<(Moment, [Flow; 2])>,
    history: VecDeque<Sample>,
}

/// A table, group or meter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Table(u8),
    Group(u32),
    Meter(u32),
}

impl Part {
    fn subject(self) -> Subject {
        match self {
            Self::Table(_) => Subject::Tables,
            Self::Group(_) => Subject::Groups,
            Self::Meter(_) => Subject::Meters,
        }
    }

    fn name(self, dpid: Dpid) -> Name {
        match self {
            Self::Table(table) => table::table_name(dpid, table),
            Self::Group(number) => table::group_name(dpid, number),
            Self::Meter(number) => table::meter_name(dpid, number),
        }
    }
}

#[derive(Debug, Default)]
struct Figures {
    ports: HashMap<PortNo, PortFigures>,
    /// Packets and bytes, or look-ups, of the last reading.
    parts: HashMap<Part, (Moment, Flow)>,
    /// Ports and parts that the answer underway has named.
    named_ports: HashSet<PortNo>,
    named_parts: HashSet<Part>,
    switch: Option<SwitchStats>,
    is_stale: bool,
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Store {
    switches: HashMap<Dpid, Figures>,
    placement: Placement,
    slots: HashMap<Name, (u32, Slot)>,
    ports: usize,
    /// Records that wait to be published.
    pub(super) writes: Writes,
}

impl Store {
    /// Starts an empty table of this many slots; `None` if it is too small.
    pub(super) fn new(slots: u32) -> Option<Self> {
        let mut writes = Writes::new();
        let placement = Placement::new(slots, &mut writes)?;
        let (switches, slots) = (HashMap::new(), HashMap::new());
        Some(Self { switches, placement, slots, ports: 0, writes })
    }

    /// Returns how many records found no room.
    pub(super) fn without_room(&self) -> u64 {
        self.placement.without_room()
    }

    pub(super) fn add_switch(&mut self, dpid: Dpid) {
        self.remove_switch(dpid);
        self.switches.insert(dpid, Figures::default());
    }

    /// Removes all figures of a switch.
    pub(super) fn remove_switch(&mut self, dpid: Dpid) {
        let Some(figures) = self.switches.remove(&dpid) else { return };
        self.ports -= figures.ports.len();
        for port in figures.ports.keys() {
            self.clear_port(dpid, *port);
        }
        for part in figures.parts.keys() {
            self.clear(part.name(dpid));
        }
        self.clear(table::switch_name(dpid));
    }

    pub(super) fn clear_all(&mut self) {
        let all: Vec<Dpid> = self.switches.keys().copied().collect();
        for dpid in all {
            self.remove_switch(dpid);
        }
    }

    pub(super) fn add_port(&mut self, dpid: Dpid, port: PortNo) {
        let Some(figures) = self.switches.get_mut(&dpid) else { return };
        if self.ports < MOST_PORTS && !figures.ports.contains_key(&port) {
            figures.ports.insert(port, PortFigures::default());
            self.ports += 1;
        }
    }

    pub(super) fn remove_port(&mut self, dpid: Dpid, port: PortNo) {
        let Some(figures) = self.switches.get_mut(&dpid) else { return };
        if figures.ports.remove(&port).is_some() {
            self.ports -= 1;
            self.clear_port(dpid, port);
        }
    }

    /// Begins an answer.
    pub(super) fn begin(&mut self, dpid: Dpid) {
        if let Some(figures) = self.switches.get_mut(&dpid) {
            figures.named_ports.clear();
            figures.named_parts.clear();
        }
    }

    /// Notes that the switch has answered.
    pub(super) fn answered(&mut self, dpid: Dpid, at: Moment) {
        let answer_us = u64::try_from(at.latency().as_micros()).ok();
        self.change_switch(dpid, |it| (it.answer_us, it.unanswered) = (answer_us, 0));
        if let Some(figures) = self.switches.get_mut(&dpid) {
            figures.is_stale = false;
        }
    }

    /// Notes that the switch has not answered this many requests: after the second, its figures are stale.
    pub(super) fn silent(&mut self, dpid: Dpid, unanswered: u32) {
        self.change_switch(dpid, |it| {
            it.unanswered = unanswered;
            it.quality.is_stale |= unanswered > 1;
        });
        let Some(figures) = self.switches.get_mut(&dpid) else { return };
        if unanswered < 2 || std::mem::replace(&mut figures.is_stale, true) {
            return;
        }
        let mut names: Vec<Name> = Vec::new();
        for (port, known) in &mut figures.ports {
            known.last = None; // no rate over the time of silence
            names.extend([table::port_name(dpid, *port), table::rates_name(dpid, *port)]);
        }
        names.extend(figures.parts.keys().map(|part| part.name(dpid)));
        figures.parts.values_mut().for_each(|(_, flow)| *flow = Flow::default());
        for name in names {
            if let Some(record) = self.slots.get(&name).and_then(|(_, slot)| Record::of_slot(slot))
            {
                self.write(stale(record));
            }
        }
    }

    /// Takes the counters of ports; the rest of an answer that names a port twice is not used.
    pub(super) fn ports(&mut self, dpid: Dpid, stats: &[PortStats], at: Moment) {
        let most = (SAMPLES / self.ports.max(1)).clamp(SHORTEST_HISTORY, HISTORY);
        for stats in stats {
            let Some(figures) = self.switches.get_mut(&dpid) else { return };
            let port = stats.port_no;
            let Some(known) = figures.ports.get_mut(&port) else { continue };
            if !figures.named_ports.insert(port) {
                continue;
            }
            for record in known.read(dpid, stats, at, most) {
                self.write(record);
            }
        }
    }

    pub(super) fn flows(&mut self, dpid: Dpid, stats: &AggregateStats, at: Moment) {
        let (packets, bytes) = (stats.packet_count.available(), stats.byte_count.available());
        self.change_switch(dpid, |it| {
            it.quality = Quality::default();
            (it.flows, it.packets, it.bytes) = (stats.flow_count.available(), packets, bytes);
            it.read_ms = millis(at.answered);
        });
    }

    pub(super) fn tables(&mut self, dpid: Dpid, stats: &[TableStats], at: Moment) {
        for stats in stats {
            // OpenFlow 1.3 lists all 254 tables of Open vSwitch; those that nobody uses are left out.
            let (flows, lookups) = (stats.active_count.available(), stats.lookup_count.available());
            if flows.unwrap_or(0) == 0 && lookups.unwrap_or(0) == 0 {
                continue;
            }
            let lookups = Flow { packets: lookups, bytes: None };
            let Some((rate, quality)) = self.part(dpid, Part::Table(stats.table_id), lookups, at)
            else {
                continue;
            };
            self.write(Record::Table(table::TableStats {
                dpid,
                table: stats.table_id,
                quality,
                flows: flows.map(u64::from),
                lookups: lookups.packets,
                matches: stats.matched_count.available(),
                lookups_per_s: rate.packets,
                read_ms: millis(at.answered),
            }));
        }
    }

    pub(super) fn groups(&mut self, dpid: Dpid, stats: &[GroupStats], at: Moment) {
        for it in stats {
            let flow =
                Flow { packets: it.packet_count.available(), bytes: it.byte_count.available() };
            self.traffic(dpid, Part::Group(it.group_id), flow, at);
        }
    }

    pub(super) fn meters(&mut self, dpid: Dpid, stats: &[MeterStats], at: Moment) {
        for it in stats {
            let (packets, bytes) = (it.packet_in_count.available(), it.byte_in_count.available());
            self.traffic(dpid, Part::Meter(it.meter_id), Flow { packets, bytes }, at);
        }
    }

    /// Ends the answer about a subject: the tables, groups or meters that it did not name are gone.
    pub(super) fn end(&mut self, dpid: Dpid, subject: Subject) {
        let Some(figures) = self.switches.get_mut(&dpid) else { return };
        let named = std::mem::take(&mut figures.named_parts);
        let is_gone = |part: &Part| part.subject() == subject && !named.contains(part);
        for (part, _) in figures.parts.extract_if(|part, _| is_gone(part)).collect::<Vec<_>>() {
            self.clear(part.name(dpid));
        }
    }

    /// Returns the history of a port.
    pub(super) fn history(&self, dpid: Dpid, port: PortNo) -> Option<Vec<Sample>> {
        let port = self.switches.get(&dpid)?.ports.get(&port)?;
        Some(port.history.iter().copied().collect())
    }

    fn traffic(&mut self, dpid: Dpid, part: Part, flow: Flow, at: Moment) {
        let Some((rate, quality)) = self.part(dpid, part, flow, at) else { return };
        let traffic = |number| Traffic {
            dpid,
            number,
            quality,
            packets: flow.packets,
            bytes: flow.bytes,
            pps: rate.packets,
            bps: rate.bits(),
            read_ms: millis(at.answered),
        };
        match part {
            Part::Group(number) => self.write(Record::Group(traffic(number))),
            Part::Meter(number) => self.write(Record::Meter(traffic(number))),
            Part::Table(_) => {}
        }
    }

    /// Notes a reading of a part and returns its rate; `None` if it is not to be used.
    fn part(&mut self, dpid: Dpid, part: Part, flow: Flow, at: Moment) -> Option<(Rate, Quality)> {
        let figures = self.switches.get_mut(&dpid)?;
        let is_room = figures.parts.len() < 2 * MOST_NUMBERS + 256;
        if !is_room && !figures.parts.contains_key(&part) || !figures.named_parts.insert(part) {
            return None;
        }
        let before = figures.parts.insert(part, (at, flow));
        let time = before.and_then(|(before, flow)| Some((at.since(before)?, flow)));
        Some(match time {
            Some((time, before)) => rated(flow.since(before, time)),
            None => Default::default(),
        })
    }

    fn change_switch(&mut self, dpid: Dpid, change: impl FnOnce(&mut SwitchStats)) {
        let Some(figures) = self.switches.get_mut(&dpid) else { return };
        let stats = figures.switch.get_or_insert_with(|| no_stats(dpid));
        change(stats);
        let record = Record::Switch(*stats);
        self.write(record);
    }

    fn clear_port(&mut self, dpid: Dpid, port: PortNo) {
        self.clear(table::port_name(dpid, port));
        self.clear(table::rates_name(dpid, port));
    }

    fn write(&mut self, record: Record) {
        let (name, slot) = (record.name(), record.to_slot());
        if let Some((at, before)) = self.slots.get_mut(&name) {
            if *before != slot {
                *before = slot;
                self.writes.push((*at, slot));
            }
        } else if let Some(at) = self.placement.insert(name, slot, &mut self.writes) {
            self.slots.insert(name, (at, slot));
        }
    }

    fn clear(&mut self, name: Name) {
        if let Some((at, _)) = self.slots.remove(&name) {
            self.placement.remove(name, at, &mut self.writes);
        }
    }
}

impl PortFigures {
    /// Notes a reading; returns the records of the port.
    fn read(&mut self, dpid: Dpid, stats: &PortStats, at: Moment, most: usize) -> [Record; 2] {
        let port = stats.port_no;
        let received =
            Flow { packets: stats.rx_packets.available(), bytes: stats.rx_bytes.available() };
        let sent =
            Flow { packets: stats.tx_packets.available(), bytes: stats.tx_bytes.available() };
        let before = self.last.replace((at, [received, sent]));
        let time = before.and_then(|(before, flows)| Some((at.since(before)?, flows)));
        let mut quality = Quality::default();
        let [rx, tx] = match time {
            Some((time, [received_before, sent_before])) => {
                let rates = received
                    .since(received_before, time)
                    .and_then(|rx| Ok([rx, sent.since(sent_before, time)?]));
                quality.is_implausible = rates.is_err();
                rates.unwrap_or_default()
            }
            None => [Rate::default(); 2],
        };
        if let (Some(rx_bps), Some(tx_bps)) = (rx.bits(), tx.bits()) {
            while self.history.len() >= most {
                self.history.pop_front();
            }
            self.history.push_back(Sample {
                at_s: low(at.answered.as_secs()),
                rx_kbps: low(rx_bps / 1000),
                tx_kbps: low(tx_bps / 1000),
                rx_pps: low(rx.packets.unwrap_or_default()),
                tx_pps: low(tx.packets.unwrap_or_default()),
            });
        }
        let counters = PortCounters {
            dpid,
            port,
            quality,
            rx_packets: received.packets,
            tx_packets: sent.packets,
            rx_bytes: received.bytes,
            tx_bytes: sent.bytes,
            read_ms: millis(at.answered),
        };
        let half = |counter: u64| counter.available().map(low);
        let rates = PortRates {
            dpid,
            port,
            quality,
            rx_bps: rx.bits(),
            tx_bps: tx.bits(),
            rx_pps: rx.packets.map(low),
            tx_pps: tx.packets.map(low),
            rx_dropped: half(stats.rx_dropped),
            tx_dropped: half(stats.tx_dropped),
            rx_errors: half(stats.rx_errors),
            tx_errors: half(stats.tx_errors),
        };
        [Record::Port(counters), Record::Rates(rates)]
    }
}

fn rated(rate: Result<Rate, Implausible>) -> (Rate, Quality) {
    let quality = Quality { is_stale: false, is_implausible: rate.is_err() };
    (rate.unwrap_or_default(), quality)
}

/// Returns a record as it is after its switch has become silent: the counters stay, the rates are unknown.
fn stale(mut record: Record) -> Record {
    let quality = Quality { is_stale: true, is_implausible: false };
    match &mut record {
        Record::Switch(it) => it.quality = quality,
        Record::Port(it) => it.quality = quality,
        Record::Rates(it) => {
            it.quality = quality;
            (it.rx_bps, it.tx_bps, it.rx_pps, it.tx_pps) = (None, None, None, None);
        }
        Record::Table(it) => (it.quality, it.lookups_per_s) = (quality, None),
        Record::Group(it) | Record::Meter(it) => {
            (it.quality, it.pps, it.bps) = (quality, None, None);
        }
    }
    record
}

fn no_stats(dpid: Dpid) -> SwitchStats {
    SwitchStats {
        dpid,
        quality: Quality::default(),
        flows: None,
        packets: None,
        bytes: None,
        unanswered: 0,
        answer_us: None,
        read_ms: 0,
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a number as a half of a word, at most the highest that is no [unknown figure](table).
fn low(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX).min(u32::MAX - 1)
}
