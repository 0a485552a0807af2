//! Recognises loops in the network: [`Loops`] sees the packets that the learning switch is about to flood.
//!
//! In a loop, one packet of a host comes back again and again at other ports of the switch, because other switches flood
//! it, too. A host that moves sends packets at one other port only, and few of them are equal. A reflection in the network
//! returns a packet once. So there is a loop at a switch if, within a second, equal packets came in
//!
//! * at two other ports at least 8 times each, and in all more than 8 times as often as at their first port; or
//! * at other ports 200 times, and more than 8 times as often as at their first port; or
//! * at two ports 500 times each: the loop began before this app.
//!
//! For a while the switch then floods nothing, and packets that enter through the other ports count for nothing: hosts seem to
//! be there whose packets circle.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use rosemary_sdk::{Dpid, PortNo};

/// The time in which equal packets are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// How long a switch does not flood after a loop.
const PAUSE: Duration = Duration::from_secs(30);

/// Copies at a port from which on it counts as a port of the loop.
const COPIES: u32 = 8;
/// How many times more copies than originals there are in a loop.
const FACTOR: u32 = 8;
/// Copies at other ports that a host which moves does not send in a window.
const MANY: u32 = 200;
/// Copies at each of two ports that no reflection explains.
const VERY_MANY: u32 = 500;

/// Different packets that are counted for a switch; then counting begins again.
const MOST_PACKETS: usize = 1024;
/// Ports that are counted for a packet.
const MOST_PORTS: usize = 8;

/// Bytes of a packet that are compared.
const COMPARED: usize = 192;

/// What to do with a packet that is about to be flooded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Flood it.
    Flood,
    /// Drop it: the switch does not flood now.
    Paused,
    /// Drop it and report a loop. The text is the evidence.
    Loop(String),
}

/// The packets that each switch has flooded.
#[derive(Debug)]
pub(super) struct Loops {
    hasher: RandomState,
    switches: HashMap<Dpid, Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    since: Duration,
    paused_until: Duration,
    /// The ports of the loop, until then.
    blocked: Vec<PortNo>,
    /// Copies by port, the first port first.
    packets: HashMap<u64, Vec<(PortNo, u32)>>,
}

impl Loops {
    pub(super) fn new() -> Self {
        Self { hasher: RandomState::new(), switches: HashMap::new() }
    }

    /// Forgets a switch.
    pub(super) fn remove(&mut self, dpid: Dpid) {
        self.switches.remove(&dpid);
    }

    pub(super) fn clear(&mut self) {
        self.switches.clear();
    }

    /// Returns whether packets that enter through a port are to be ignored, because the port belongs to a loop.
    pub(super) fn is_blocked(&self, dpid: Dpid, in_port: PortNo, now: Duration) -> bool {
        let switch = self.switches.get(&dpid).filter(|switch| now < switch.paused_until);
        switch.is_some_and(|switch| switch.blocked.contains(&in_port))
    }

    /// Counts a packet that is about to be flooded.
    pub(super) fn count(
        &mut self,
        dpid: Dpid,
        in_port: PortNo,
        packet: &[u8],
        now: Duration,
    ) -> Verdict {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(packet.get(..COMPARED).unwrap_or(packet));
        hasher.write_usize(packet.len());
        let switch = self.switches.entry(dpid).or_default();
        if now < switch.paused_until {
            return Verdict::Paused;
        }
        if now.saturating_sub(switch.since) >= WINDOW || switch.packets.len() >= MOST_PACKETS {
            switch.packets.clear();
            switch.since = now;
        }
        let ports = switch.packets.entry(hasher.finish()).or_default();
        match ports.iter().position(|(port, _)| *port == in_port) {
            Some(at) => ports[at].1 += 1,
            None if ports.len() < MOST_PORTS => ports.push((in_port, 1)),
            None => {}
        }
        if !is_loop(ports) {
            return Verdict::Flood;
        }
        let from = usize::from(ports[0].1 < VERY_MANY);
        switch.blocked = ports.iter().skip(from).map(|(port, _)| *port).collect();
        let ports: Vec<String> =
            ports.iter().map(|(port, copies)| format!("{copies} at port {port}")).collect();
        switch.packets.clear();
        switch.paused_until = now + PAUSE;
        Verdict::Loop(format!(
            "copies of one packet within a second: {}; floods stop for {} s",
            ports.join(", "),
            PAUSE.as_secs()
        ))
    }
}

fn is_loop(ports: &[(PortNo, u32)]) -> bool {
    let Some(((_, first), others)) = ports.split_first() else { return false };
    let copies: u32 = others.iter().map(|(_, copies)| copies).sum();
    let at_least =
        |ports: &[(PortNo, u32)], most| ports.iter().filter(|(_, it)| *it >= most).count();
    let comes_back = copies > first.saturating_mul(FACTOR);
    comes_back && (at_least(others, COPIES) >= 2 || copies >= MANY)
        || at_least(ports, VERY_MANY) >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Dpid = Dpid(1);

    /// Counts packets, each with its port, content and time in milliseconds; returns the verdicts other than flood.
    fn count(
        loops: &mut Loops,
        packets: impl IntoIterator<Item = (u32, u32, u64)>,
    ) -> Vec<Verdict> {
        let count = |(port, content, at): (u32, u32, u64)| {
            loops.count(AT, PortNo(port), &content.to_be_bytes(), Duration::from_millis(at))
        };
        packets.into_iter().map(count).filter(|it| *it != Verdict::Flood).collect()
    }

    #[test]
    fn packet_that_circles_both_ways_is_a_loop() {
        let mut loops = Loops::new();
        let copies = (0..20_u32).map(|at| (2 + at % 2, 7, 1 + u64::from(at)));
        let verdicts = count(&mut loops, [(1, 7, 0)].into_iter().chain(copies));
        assert!(
            matches!(&verdicts[0], Verdict::Loop(text) if text.contains("8 at port 2")),
            "{verdicts:?}"
        );
        assert!(verdicts[1..].iter().all(|it| *it == Verdict::Paused));
        let now = Duration::from_millis(30);
        let blocked = [1, 2, 3].map(|port| loops.is_blocked(AT, PortNo(port), now));
        assert_eq!(blocked, [false, true, true]);
        assert!(!loops.is_blocked(AT, PortNo(2), Duration::from_secs(31)));
        let later = Duration::from_secs(31);
        assert_eq!(loops.count(AT, PortNo(1), &[8], later), Verdict::Flood, "it tries again");
        assert_eq!(loops.count(Dpid(2), PortNo(1), &[8], Duration::ZERO), Verdict::Flood);
    }

    #[test]
    fn packet_that_one_port_returns_endlessly_is_a_loop() {
        let copies = (0..300_u32).map(|at| (2, 7, u64::from(at) * 3));
        let verdicts = count(&mut Loops::new(), [(1, 7, 0)].into_iter().chain(copies));
        assert!(matches!(verdicts[0], Verdict::Loop(_)));
    }

    #[test]
    fn loop_from_before_the_start_is_found() {
        let copies = (0..1100_u32).map(|at| (1 + at % 2, 7, u64::from(at) / 2));
        assert!(matches!(count(&mut Loops::new(), copies)[0], Verdict::Loop(_)));
    }

    #[test]
    fn reflected_packets_are_no_loop() {
        // 200 packets per second, each reflected at two other ports; equal or not.
        for is_equal in [false, true] {
            let packets = (0..1000_u32).flat_map(|number| {
                let content = if is_equal { 0 } else { number };
                [1, 2, 3].map(|port| (port, content, u64::from(number) * 5))
            });
            assert_eq!(count(&mut Loops::new(), packets), []);
        }
    }

    #[test]
    fn hosts_that_move_are_no_loop() {
        // Three equal packets at the old port, then a burst at the new one; and a host that changes its port every 100 ms.
        let mut loops = Loops::new();
        let old = (0..3).map(|at| (1, 7, at));
        let new = (0..100).map(|at| (2, 7, 5 + at * 9));
        assert_eq!(count(&mut loops, old.chain(new)), []);
        let restless = (0..100_u32).map(|at| (1 + at % 5, 7, 10_000 + u64::from(at) * 100));
        assert_eq!(count(&mut loops, restless), []);
    }

    #[test]
    fn many_packets_take_bounded_memory() {
        let mut loops = Loops::new();
        count(&mut loops, (0..100_000_u32).map(|number| (number % 50, number, 0)));
        assert!(loops.switches[&AT].packets.len() <= MOST_PACKETS);
        count(&mut loops, (0..100_000_u32).map(|number| (number % 50, 7, 0)));
        assert!(loops.switches[&AT].packets.values().all(|ports| ports.len() <= MOST_PORTS));
    }
}
