//! Decides from a switch's own counters whether traffic of others still passes it.
//!
//! A packet that passes enters through the port of a link and leaves through the port of a link. A packet for a host of the
//! switch enters through a link's port and leaves through another; one from such a host the other way round. So no more
//! packets pass than links bring beyond those that hosts' ports send, and than links send beyond those that hosts' ports
//! receive. Floods make the first difference smaller, never greater.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use control::details::PortDetails;
use openflow::Dpid;
use sdk::services::topology::Endpoint;
use sdk::topology::Graph;

/// Packets in a second that pass a link's port for the topology's probes, in each direction.
const PROBES_PER_SECOND: f64 = 2.0;

/// Time between two readings of the counters, and the readings without traffic of others after which a switch is drained: it may
/// update its counters late.
pub const BETWEEN: Duration = Duration::from_secs(1);
const QUIET: u32 = 2;

/// How long traffic may take to move away.
const PATIENCE: Duration = Duration::from_secs(5);

/// Follows the counters of a switch that is to be drained until they show whether traffic of others still passes it.
#[derive(Debug)]
pub struct Watch {
    links: Vec<String>,
    began: Instant,
    last: (Instant, Vec<PortDetails>),
    quiet: u32,
}

/// The result of a watch.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// No packet of others has passed it for two readings.
    Empty,
    /// Packets of others still pass it after five seconds.
    Passing(Passing),
}

impl Watch {
    /// Begins with the first reading of the ports. `links` are the [`link_ports`].
    pub fn new(links: Vec<String>, now: Instant, ports: Vec<PortDetails>) -> Self {
        Self { links, began: now, last: (now, ports), quiet: 0 }
    }

    /// Compares a further reading with the one before; they are taken [`BETWEEN`] apart. Returns `None` if one more is needed.
    ///
    /// # Errors
    /// A phrase: the switch does not count the packets of a port that has a link.
    pub fn read(
        &mut self,
        now: Instant,
        ports: Vec<PortDetails>,
    ) -> Result<Option<Verdict>, String> {
        let seconds = now.saturating_duration_since(self.last.0).max(Duration::from_millis(1));
        let passing = Passing::between(&self.last.1, &ports, seconds.as_secs_f64(), &self.links)?;
        self.last = (now, ports);
        self.quiet = if passing.is_none() { self.quiet + 1 } else { 0 };
        Ok(match passing {
            None => (self.quiet >= QUIET).then_some(Verdict::Empty),
            Some(passing) => {
                let is_late = now.saturating_duration_since(self.began) >= PATIENCE;
                is_late.then_some(Verdict::Passing(passing))
            }
        })
    }
}

/// The traffic of others at a switch, in packets per second.
#[derive(Debug, Clone, PartialEq)]
pub struct Passing {
    /// Packets that pass.
    pub per_second: f64,
    /// The packets that the ports of links received and sent, by their numbers.
    ports: Vec<(String, f64, f64)>,
}

impl Passing {
    /// Compares two readings of a switch's ports, taken `seconds` apart; `None` if nothing but probes passed.
    ///
    /// # Errors
    /// A phrase: the switch does not count the packets of a port that has a link.
    pub fn between(
        before: &[PortDetails],
        after: &[PortDetails],
        seconds: f64,
        links: &[String],
    ) -> Result<Option<Self>, String> {
        let earlier: BTreeMap<&str, &PortDetails> =
            before.iter().map(|port| (port.port.as_str(), port)).collect();
        let (mut entered, mut left, mut ports) = (0.0, 0.0, Vec::new());
        for now in after {
            let is_link = links.contains(&now.port);
            let then = earlier.get(now.port.as_str());
            let rate = |of: fn(&PortDetails) -> Option<u64>| {
                let grown = of(now)?.saturating_sub(then.map_or(Some(0), |it| of(it))?);
                #[expect(clippy::cast_precision_loss, reason = "a rate that is shown")]
                Some(grown as f64 / seconds)
            };
            match (rate(|port| port.rx_packets), rate(|port| port.tx_packets)) {
                (Some(received), Some(sent)) if is_link => {
                    entered += received;
                    left += sent;
                    ports.push((now.port.clone(), received, sent));
                }
                (Some(received), Some(sent)) => {
                    entered -= sent;
                    left -= received;
                }
                _ if is_link => {
                    return Err(format!("it does not count the packets of port {}", now.port));
                }
                _ => {}
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a switch has few ports")]
        let probes = PROBES_PER_SECOND * links.len() as f64;
        let per_second = f64::min(entered, left);
        Ok((per_second > probes).then_some(Self { per_second, ports }))
    }

    /// Returns what passes, as a phrase that names the ports.
    pub fn phrase(&self) -> String {
        let port = |(port, received, sent): &(String, f64, f64)| {
            format!("port {port} receives {received:.0} and sends {sent:.0}")
        };
        let ports: Vec<String> = self.ports.iter().map(port).collect();
        format!(
            "{:.0} packets per second of others pass it ({} per second)",
            self.per_second,
            ports.join(", ")
        )
    }
}

/// Returns the ports of a switch that lead to other switches, as the kernel names them.
pub fn link_ports(dpid: Dpid, graph: &Graph) -> Vec<String> {
    let is_link = |at: Endpoint| graph.link_from(at).is_some();
    graph.ports(dpid).filter(|port| is_link(port.at)).map(|port| port.at.port.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(port: u32, received: u64, sent: u64) -> PortDetails {
        PortDetails {
            port: port.to_string(),
            name: String::new(),
            hw_addr: String::new(),
            up: true,
            speed_kbps: None,
            rx_packets: Some(received),
            tx_packets: Some(sent),
            rx_bytes: None,
            tx_bytes: None,
            rx_dropped: None,
            tx_dropped: None,
            rx_errors: None,
            tx_errors: None,
        }
    }

    /// A switch with a host at port 1 and links at ports 2 and 3. Each pair is what a port received and sent in a second.
    fn passing(ports: [(u64, u64); 3]) -> Option<Passing> {
        let before: Vec<PortDetails> = (1..=3).map(|it| port(it, 1000, 5000)).collect();
        let after: Vec<PortDetails> = (1..=3)
            .zip(ports)
            .map(|(it, (received, sent))| port(it, 1000 + received, 5000 + sent))
            .collect();
        Passing::between(&before, &after, 1.0, &["2".to_owned(), "3".to_owned()]).unwrap()
    }

    /// The number of the reading, taken once a second, at which a watch ends while these packets per second pass from link to link, and its verdict.
    fn watched(passing: &[u64]) -> Option<(usize, Verdict)> {
        let began = Instant::now();
        let mut total = 1000;
        let ports = |total| vec![port(1, 0, 0), port(2, total, 0), port(3, 0, total)];
        let links = vec!["2".to_owned(), "3".to_owned()];
        let mut watch = Watch::new(links, began, ports(total));
        passing.iter().enumerate().find_map(|(at, packets)| {
            total += packets;
            let now = began + BETWEEN * u32::try_from(at + 1).unwrap();
            Some((at + 1, watch.read(now, ports(total)).unwrap()?))
        })
    }

    #[test]
    fn switch_is_empty_after_two_readings_without_traffic_of_others() {
        assert_eq!(watched(&[0, 0, 0]), Some((2, Verdict::Empty)));
        assert_eq!(watched(&[100, 0, 100, 0, 0]), Some((5, Verdict::Empty)));
        assert_eq!(watched(&[100, 100, 100]), None, "one more reading is needed");
    }

    #[test]
    fn traffic_that_stays_is_named_after_five_seconds() {
        let Some((5, Verdict::Passing(passing))) = watched(&[100; 6]) else { panic!() };
        assert!((passing.per_second - 100.0).abs() < 0.1);
    }

    #[test]
    fn packets_from_link_to_link_pass() {
        let both_ways = passing([(0, 0), (100, 100), (100, 100)]).unwrap();
        assert!((both_ways.per_second - 200.0).abs() < 0.1);
        let phrase = both_ways.phrase();
        assert!(phrase.starts_with("200 packets per second of others pass it"), "{phrase}");
        assert!(phrase.contains("port 2 receives 100 and sends 100"), "{phrase}");
        let one_way = passing([(0, 0), (100, 0), (0, 100)]).unwrap();
        assert!((one_way.per_second - 100.0).abs() < 0.1);
        assert!(passing([(50, 50), (150, 50), (0, 100)]).is_some(), "beside those of its own host");
    }

    #[test]
    fn packets_of_own_hosts_and_probes_do_not_pass() {
        assert_eq!(passing([(0, 0), (1, 1), (1, 2)]), None, "probes");
        assert_eq!(passing([(100, 100), (100, 50), (0, 50)]), None, "a ping of the host");
        assert_eq!(passing([(0, 300), (300, 0), (0, 0)]), None, "a flood to the host");
        assert_eq!(passing([(0, 0), (300, 0), (0, 0)]), None, "a flood without a receiver");
    }

    #[test]
    fn port_without_counters_is_named() {
        let silent = PortDetails { rx_packets: None, ..port(2, 0, 0) };
        let why = Passing::between(
            std::slice::from_ref(&silent),
            std::slice::from_ref(&silent),
            1.0,
            &["2".to_owned()],
        );
        assert_eq!(why, Err("it does not count the packets of port 2".to_owned()));
    }
}
