//! Turns what the programs report into samples.
//!
//! Counters become the number of events since the round before. A counter that went back has begun again at 0, as after a restart. The
//! first round has no counts.

use std::collections::{HashMap, HashSet};

use control::history::{Metric, SeriesName, Subject};
use control::operator::ProgramUsage;
use control::query::{AppCounters, SwitchStatus};
use sdk::services::{stats, topology};
use sdk::{Dpid, PortNo};

use super::directory::Sample;

/// The programs' reports of one round. A program that did not answer has `None`, and its figures have a gap.
#[derive(Debug, Default)]
pub struct Report {
    /// The use of resources, of the monitor.
    pub usage: Option<Vec<ProgramUsage>>,
    /// Number of incidents that began since the round before.
    pub incidents: Option<u64>,
    /// The switches, of the kernel.
    pub switches: Option<Vec<SwitchStatus>>,
    /// The apps' counters, of the kernel.
    pub apps: Option<Vec<AppCounters>>,
    /// The records of the service `stats`.
    pub stats: Option<Vec<stats::Record>>,
    /// The records of the service `topology`.
    pub topology: Option<Vec<topology::Record>>,
    /// Number of hosts, of the service `hosts`.
    pub hosts: Option<u64>,
}

/// Remembers counters from one round to the next.
#[derive(Debug, Default)]
pub struct Sampler {
    counters: HashMap<(SeriesName, u8), u64>,
    /// The counters of this round; others are forgotten.
    seen: HashSet<(SeriesName, u8)>,
    samples: Vec<Sample>,
}

impl Sampler {
    /// Returns the samples of a round.
    pub fn round(&mut self, report: &Report) -> Vec<Sample> {
        if let Some(usage) = &report.usage {
            usage.iter().for_each(|it| self.program(it));
        }
        if let Some(apps) = &report.apps {
            apps.iter().for_each(|it| self.app(it));
        }
        if let Some(switches) = &report.switches {
            self.switches(switches);
        }
        if let Some(records) = &report.stats {
            self.stats(records, &speeds(report.topology.as_deref().unwrap_or_default()));
        }
        if let Some(records) = &report.topology {
            self.topology(records);
        }
        self.add(Subject::Network, Metric::Hosts, report.hosts);
        self.add(Subject::Network, Metric::Incidents, report.incidents);
        let seen = std::mem::take(&mut self.seen);
        self.counters.retain(|key, _| seen.contains(key));
        std::mem::take(&mut self.samples)
    }

    fn program(&mut self, usage: &ProgramUsage) {
        let subject = match usage.kind.as_str() {
            "app" => Subject::App(usage.name.clone()),
            "kernel app" => return, // its use is the kernel's
            _ => Subject::Program(usage.name.clone()),
        };
        for (limit, metric) in [("cpu", Metric::Cpu), ("memory", Metric::Memory)] {
            let value = usage.amount(limit).and_then(|it| it.value);
            self.add(subject.clone(), metric, value);
        }
    }

    fn app(&mut self, app: &AppCounters) {
        let subject = Subject::App(app.name.clone());
        let counts = [
            (Metric::PacketIns, app.delivered),
            (Metric::FlowMods, app.flow_mods),
            (Metric::Refused, app.refused),
        ];
        for (metric, count) in counts {
            let count = self.count(&subject, metric, 0, count);
            self.add(subject.clone(), metric, count);
        }
        let samples = app.latencies.counts.iter().fold(0_u64, |sum, it| sum.saturating_add(*it));
        let number = self.count(&subject, Metric::Latency, 0, samples);
        let time = self.count(&subject, Metric::Latency, 1, app.latencies.sum_us);
        // Without a packet-in there is no latency: a gap.
        let latency = number.zip(time).filter(|it| it.0 > 0).map(|(number, time)| time / number);
        self.add(subject, Metric::Latency, latency);
    }

    fn switches(&mut self, switches: &[SwitchStatus]) {
        let mut sums = [None, None];
        for switch in switches {
            let Ok(dpid) = switch.dpid.parse() else { continue };
            let subject = Subject::Switch(dpid);
            let counts =
                [(Metric::PacketIns, switch.packet_ins), (Metric::FlowMods, switch.flow_mods)];
            for ((metric, count), sum) in counts.into_iter().zip(&mut sums) {
                let count = self.count(&subject, metric, 0, count);
                self.add(subject.clone(), metric, count);
                if let Some(count) = count {
                    *sum = Some(sum.unwrap_or(0_u64).saturating_add(count));
                }
            }
            self.add(subject.clone(), Metric::Flows, switch.flows);
            let fill = switch.fullest.as_ref().filter(|it| it.size > 0);
            let fill = fill.map(|it| it.flows.saturating_mul(1000) / u64::from(it.size));
            // A switch that states sizes and has no flows has no fullest table.
            let is_empty = switch.flows == Some(0) && switch.table_size.is_some_and(|it| it > 0);
            self.add(subject, Metric::TableFill, fill.or(is_empty.then_some(0)));
        }
        self.add(Subject::Network, Metric::Switches, Some(switches.len() as u64));
        for (metric, sum) in [Metric::PacketIns, Metric::FlowMods].into_iter().zip(sums) {
            self.add(Subject::Network, metric, sum);
        }
    }

    fn stats(&mut self, records: &[stats::Record], speeds: &HashMap<(Dpid, PortNo), u64>) {
        let is_sound = |it: stats::Quality| !it.is_stale && !it.is_implausible;
        let (mut rx_all, mut tx_all) = (None, None);
        for record in records {
            match record {
                stats::Record::Switch(it) if is_sound(it.quality) => {
                    self.add(Subject::Switch(it.dpid), Metric::Latency, it.answer_us);
                }
                stats::Record::Rates(it) if is_sound(it.quality) => {
                    self.port(it, speeds.get(&(it.dpid, it.port)).copied());
                    for (sum, rate) in [(&mut rx_all, it.rx_bps), (&mut tx_all, it.tx_bps)] {
                        if let Some(rate) = rate {
                            *sum = Some(sum.unwrap_or(0_u64).saturating_add(rate));
                        }
                    }
                }
                _ => {}
            }
        }
        self.add(Subject::Network, Metric::RxBits, rx_all);
        self.add(Subject::Network, Metric::TxBits, tx_all);
    }

    fn port(&mut self, rates: &stats::PortRates, speed_kbps: Option<u64>) {
        let subject = Subject::Port(rates.dpid, rates.port);
        let bits = rates.rx_bps.max(rates.tx_bps);
        let is_used = bits.is_some_and(|it| it > 0);
        let speed = speed_kbps.filter(|it| *it > 0);
        // Thousandths of a number of thousands.
        let utilisation = bits.zip(speed).map(|(bits, speed)| bits / speed);
        let sum = |a: Option<u32>, b: Option<u32>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(u64::from(a.unwrap_or(0)) + u64::from(b.unwrap_or(0))),
        };
        let mut count = |metric, total: Option<u64>| self.count(&subject, metric, 0, total?);
        let errors = count(Metric::Errors, sum(rates.rx_errors, rates.tx_errors));
        let drops = count(Metric::Drops, sum(rates.rx_dropped, rates.tx_dropped));
        let figures = [
            (Metric::RxBits, rates.rx_bps),
            (Metric::TxBits, rates.tx_bps),
            (Metric::RxPackets, rates.rx_pps.map(u64::from)),
            (Metric::TxPackets, rates.tx_pps.map(u64::from)),
            (Metric::Errors, errors),
            (Metric::Drops, drops),
            (Metric::Utilisation, utilisation),
        ];
        for (metric, value) in figures {
            let Some(value) = value else { continue };
            let name = SeriesName { subject: subject.clone(), metric };
            self.samples.push(Sample { name, value, is_used });
        }
    }

    fn topology(&mut self, records: &[topology::Record]) {
        let mut links = 0;
        for record in records {
            let topology::Record::Link(link) = record else { continue };
            links += 1;
            let subject =
                Subject::Link((link.from.dpid, link.from.port), (link.to.dpid, link.to.port));
            let latency = (link.latency_ns > 0).then_some(link.latency_ns / 1_000);
            self.add(subject, Metric::Latency, latency);
        }
        self.add(Subject::Network, Metric::Links, Some(links));
    }

    /// Returns by how much a counter has grown since the round before; `None` in the first one.
    fn count(&mut self, subject: &Subject, metric: Metric, which: u8, count: u64) -> Option<u64> {
        let key = (SeriesName { subject: subject.clone(), metric }, which);
        self.seen.insert(key.clone());
        let before = self.counters.insert(key, count)?;
        Some(count.checked_sub(before).unwrap_or(count))
    }

    fn add(&mut self, subject: Subject, metric: Metric, value: Option<u64>) {
        let Some(value) = value else { return };
        self.samples.push(Sample { name: SeriesName { subject, metric }, value, is_used: true });
    }
}

/// Returns the speeds of ports in kbit/s.
fn speeds(records: &[topology::Record]) -> HashMap<(Dpid, PortNo), u64> {
    let speed = |record: &topology::Record| match record {
        topology::Record::Port(port) => Some(((port.at.dpid, port.at.port), port.speed_kbps)),
        _ => None,
    };
    records.iter().filter_map(speed).collect()
}

#[cfg(test)]
mod tests {
    use sdk::MacAddr;
    use sdk::services::topology::{Endpoint, LinkRecord, PortRecord};

    use super::*;

    const AT: Endpoint = Endpoint { dpid: Dpid(1), port: PortNo(2) };

    fn rates(rx_bps: u64, errors: u32) -> stats::Record {
        stats::Record::Rates(stats::PortRates {
            dpid: AT.dpid,
            port: AT.port,
            quality: stats::Quality::default(),
            rx_bps: Some(rx_bps),
            tx_bps: Some(1_000),
            rx_pps: Some(9),
            tx_pps: None,
            rx_dropped: None,
            tx_dropped: None,
            rx_errors: Some(errors),
            tx_errors: Some(1),
        })
    }

    fn topology() -> Vec<topology::Record> {
        let port = PortRecord {
            at: AT,
            hw_addr: MacAddr([0; 6]),
            speed_kbps: 10_000,
            name: [0; 16],
            live: true,
            edge: false,
            link: true,
            shared: false,
        };
        let to = Endpoint { dpid: Dpid(2), port: PortNo(1) };
        let link = LinkRecord {
            from: AT,
            to,
            metric: 1,
            latency_ns: 250_000,
            found_ns: 0,
            suspicious: false,
        };
        vec![topology::Record::Port(port), topology::Record::Link(link)]
    }

    fn texts(samples: &[Sample]) -> Vec<String> {
        let mut texts: Vec<String> =
            samples.iter().map(|it| format!("{} = {}", it.name, it.value)).collect();
        texts.sort();
        texts
    }

    #[test]
    fn ports_and_links_have_samples() {
        let mut sampler = Sampler::default();
        let report = |errors| Report {
            stats: Some(vec![rates(2_500_000, errors)]),
            topology: Some(topology()),
            hosts: Some(4),
            ..Report::default()
        };
        let first = sampler.round(&report(3));
        assert!(
            !texts(&first).iter().any(|it| it.contains("errors")),
            "there is no earlier counter"
        );
        let second = sampler.round(&report(5));
        assert_eq!(
            texts(&second),
            [
                "link 00:00:00:00:00:00:00:01 2 00:00:00:00:00:00:00:02 1 latency = 250",
                "network hosts = 4",
                "network links = 1",
                "network rx-bits = 2500000",
                "network tx-bits = 1000",
                "port 00:00:00:00:00:00:00:01 2 errors = 2",
                "port 00:00:00:00:00:00:00:01 2 rx-bits = 2500000",
                "port 00:00:00:00:00:00:00:01 2 rx-packets = 9",
                "port 00:00:00:00:00:00:00:01 2 tx-bits = 1000",
                "port 00:00:00:00:00:00:00:01 2 utilisation = 250",
            ]
        );
        // A counter that went back has begun again.
        let third = sampler.round(&report(0));
        assert!(texts(&third).contains(&"port 00:00:00:00:00:00:00:01 2 errors = 1".to_owned()));
    }

    #[test]
    fn stale_figures_are_gaps() {
        let mut record = rates(5, 0);
        if let stats::Record::Rates(it) = &mut record {
            it.quality.is_stale = true;
        }
        let report = Report { stats: Some(vec![record]), ..Report::default() };
        assert_eq!(Sampler::default().round(&report), []);
        assert_eq!(Sampler::default().round(&Report::default()), []);
    }

    #[test]
    fn counters_of_what_is_gone_are_forgotten() {
        let mut sampler = Sampler::default();
        let with = Report { stats: Some(vec![rates(1, 1)]), ..Report::default() };
        sampler.round(&with);
        sampler.round(&Report { stats: Some(Vec::new()), ..Report::default() });
        assert!(sampler.counters.is_empty());
        assert!(!texts(&sampler.round(&with)).iter().any(|it| it.contains("errors")));
    }
}
