//! Decides which port is probed next.
//!
//! Each port has a time at which it is due. Among the switches with due ports, each gets one probe in turn. So a switch
//! with thousands of ports, or with one that flaps, does not delay the ports of others. A token bucket bounds the rate of
//! all probes. The later their packet-ins come, the lower the rate: probes must not overload the controller.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use rosemary_sdk::services::topology::Endpoint;
use rosemary_sdk::{Dpid, PortNo};

/// Most and least probes per second of all switches.
const RATE: u32 = 20_000;
const LEAST_RATE: u32 = 1000;

/// The rate until the first probe has arrived.
const FIRST_RATE: u32 = 5000;

/// Probes that may be sent at once.
const BURST: u32 = 256;

/// The time from a probe to its packet-in up to which probes are sent at the highest rate.
const USUAL_DELAY: Duration = Duration::from_millis(20);

/// The due times of all ports; see the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Pacer {
    switches: HashMap<Dpid, Queue>,
    /// The switches that are not in `ready`, by the time at which their first port is due.
    waiting: BTreeSet<(Duration, Dpid)>,
    /// The switches with ports that were due at the last look.
    ready: VecDeque<Dpid>,
    bucket: Bucket,
}

#[derive(Debug, Default)]
struct Queue {
    due: HashMap<PortNo, Duration>,
    order: BTreeSet<(Duration, PortNo)>,
    is_ready: bool,
}

impl Pacer {
    /// Sets when a port is due; an earlier time for it is void.
    pub(super) fn schedule(&mut self, at: Endpoint, due: Duration) {
        let queue = self.switches.entry(at.dpid).or_default();
        let before = queue.first();
        if let Some(earlier) = queue.due.insert(at.port, due) {
            queue.order.remove(&(earlier, at.port));
        }
        queue.order.insert((due, at.port));
        self.moved(at.dpid, before);
    }

    /// Sets the usual time from a probe to its packet-in, which decides about the rate.
    pub(super) fn set_delay(&mut self, delay: Duration) {
        let usual = u64::try_from(USUAL_DELAY.as_micros()).unwrap_or(u64::MAX);
        let delay = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX).max(usual);
        let rate = u64::from(RATE) * usual / delay;
        self.bucket.token =
            Duration::from_secs(1) / u32::try_from(rate).unwrap_or(RATE).max(LEAST_RATE);
    }

    /// Forgets a port.
    pub(super) fn forget(&mut self, at: Endpoint) {
        let Some(queue) = self.switches.get_mut(&at.dpid) else { return };
        let before = queue.first();
        if let Some(due) = queue.due.remove(&at.port) {
            queue.order.remove(&(due, at.port));
            self.moved(at.dpid, before);
        }
    }

    /// Forgets the ports of a switch.
    pub(super) fn forget_switch(&mut self, dpid: Dpid) {
        let Some(queue) = self.switches.remove(&dpid) else { return };
        if queue.is_ready {
            self.ready.retain(|ready| *ready != dpid);
        } else if let Some(first) = queue.first() {
            self.waiting.remove(&(first, dpid));
        }
    }

    /// Takes the next port that is due, or returns `None` if there is none or the bucket is empty.
    pub(super) fn next(&mut self, now: Duration) -> Option<Endpoint> {
        while let Some((_, dpid)) = self.waiting.first().copied().filter(|(due, _)| *due <= now) {
            self.waiting.pop_first();
            self.ready.push_back(dpid);
            self.switches.entry(dpid).or_default().is_ready = true;
        }
        loop {
            let dpid = *self.ready.front()?;
            let Some(queue) = self.switches.get_mut(&dpid) else {
                self.ready.pop_front();
                continue;
            };
            let first = queue.order.first().copied().filter(|(due, _)| *due <= now);
            if first.is_some() && !self.bucket.take(now) {
                return None;
            }
            self.ready.pop_front();
            if let Some((due, port)) = first {
                queue.order.remove(&(due, port));
                queue.due.remove(&port);
            }
            queue.is_ready = false;
            match queue.first() {
                Some(next) if next <= now => {
                    queue.is_ready = true;
                    self.ready.push_back(dpid);
                }
                Some(next) => drop(self.waiting.insert((next, dpid))),
                None => drop(self.switches.remove(&dpid)),
            }
            if let Some((_, port)) = first {
                return Some(Endpoint { dpid, port });
            }
        }
    }

    /// Returns when [`next`](Self::next) has something, or `None` if no port is known.
    pub(super) fn next_time(&self, now: Duration) -> Option<Duration> {
        if self.ready.is_empty() {
            return self.waiting.first().map(|(due, _)| *due);
        }
        Some(self.bucket.ready_at(now))
    }

    /// Keeps `waiting` right after a change of a switch's first due time.
    fn moved(&mut self, dpid: Dpid, before: Option<Duration>) {
        let Some(queue) = self.switches.get(&dpid).filter(|queue| !queue.is_ready) else { return };
        let first = queue.first();
        if first != before {
            if let Some(before) = before {
                self.waiting.remove(&(before, dpid));
            }
            self.waiting.extend(first.map(|first| (first, dpid)));
        }
        if first.is_none() {
            self.switches.remove(&dpid);
        }
    }
}

impl Queue {
    fn first(&self) -> Option<Duration> {
        self.order.first().map(|(due, _)| *due)
    }
}

/// A token bucket.
#[derive(Debug)]
struct Bucket {
    /// The time for which a token stands.
    token: Duration,
    tokens: u32,
    /// Until when the time has been made into tokens.
    filled: Duration,
}

impl Default for Bucket {
    fn default() -> Self {
        Self { token: Duration::from_secs(1) / FIRST_RATE, tokens: BURST, filled: Duration::ZERO }
    }
}

impl Bucket {
    fn take(&mut self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.filled);
        let whole = passed.as_nanos() / self.token.as_nanos();
        let new = u32::try_from(whole).unwrap_or(BURST);
        if self.tokens.saturating_add(new) >= BURST {
            (self.tokens, self.filled) = (BURST, now);
        } else {
            self.tokens += new;
            self.filled += self.token * new;
        }
        let has = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        has
    }

    fn ready_at(&self, now: Duration) -> Duration {
        if self.tokens > 0 { now } else { self.filled + self.token }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(dpid: u64, port: u32) -> Endpoint {
        Endpoint { dpid: Dpid(dpid), port: PortNo(port) }
    }

    #[test]
    fn switches_take_turns() {
        let mut pacer = Pacer::default();
        for port in 1..=500 {
            pacer.schedule(at(1, port), Duration::ZERO);
        }
        pacer.schedule(at(2, 1), MS);
        pacer.schedule(at(3, 1), MS);
        let first: Vec<_> = (0..4).filter_map(|_| pacer.next(MS)).map(|it| it.dpid.0).collect();
        assert_eq!(first, [1, 2, 3, 1]);
    }

    #[test]
    fn port_that_comes_again_and_again_delays_nobody() {
        let mut pacer = Pacer::default();
        for dpid in 2..102 {
            pacer.schedule(at(dpid, 1), MS);
        }
        let mut others = 0;
        for turn in 0..210 {
            pacer.schedule(at(1, turn % 5), Duration::ZERO);
            others += usize::from(pacer.next(MS).unwrap().dpid.0 != 1);
        }
        assert_eq!(others, 100);
    }

    #[test]
    fn rate_is_bounded() {
        let mut pacer = Pacer::default();
        for port in 0..50_000 {
            pacer.schedule(at(u64::from(port % 7), port), Duration::ZERO);
        }
        let mut sent_in = |second: u32| {
            let mut sent = 0;
            for now in (1..=1000).map(|ms| Duration::from_secs(1) * second + MS * ms) {
                sent += std::iter::from_fn(|| pacer.next(now)).count();
                assert!(pacer.next_time(now).unwrap() > now);
            }
            pacer.set_delay(MS);
            sent
        };
        for (second, rate) in [(1, FIRST_RATE), (2, RATE)] {
            let most = (rate + BURST) as usize;
            let sent = sent_in(second);
            assert!((most - 300..=most).contains(&sent), "{sent} of {most}");
        }
    }

    #[test]
    fn late_answers_lower_the_rate() {
        let mut pacer = Pacer::default();
        (0..50_000).for_each(|port| pacer.schedule(at(1, port), Duration::ZERO));
        let mut sent_in = |delay, second: u32| {
            pacer.set_delay(delay);
            let times = (0..1000).map(|ms| Duration::from_secs(1) * second + MS * ms);
            times.map(|now| std::iter::from_fn(|| pacer.next(now)).count()).sum::<usize>()
        };
        let counts = [sent_in(MS, 1), sent_in(MS * 40, 2), sent_in(MS * 10_000, 3)];
        assert!((19_000..21_000).contains(&counts[0]), "{counts:?}");
        assert!((9000..11_000).contains(&counts[1]), "{counts:?}");
        assert!((900..1300).contains(&counts[2]), "{counts:?}");
    }

    proptest! {
        /// Whatever is scheduled and forgotten, each port comes once, at its last time and not before.
        #[test]
        fn each_port_comes_at_its_time(
            steps in proptest::collection::vec((0_u8..5, 0_u64..3, 0_u32..3, 0_u32..20), 0..100),
        ) {
            let mut pacer = Pacer::default();
            let mut model: HashMap<Endpoint, Duration> = HashMap::new();
            let mut now = Duration::ZERO;
            for (what, dpid, port, ms) in steps {
                match what {
                    0 | 1 => {
                        pacer.schedule(at(dpid, port), MS * ms);
                        model.insert(at(dpid, port), MS * ms);
                    }
                    2 => {
                        pacer.forget(at(dpid, port));
                        model.remove(&at(dpid, port));
                    }
                    3 => {
                        pacer.forget_switch(Dpid(dpid));
                        model.retain(|end, _| end.dpid.0 != dpid);
                    }
                    _ => now = now.max(MS * ms),
                }
                if what == 4 {
                    while let Some(end) = pacer.next(now) {
                        prop_assert!(model.remove(&end).is_some_and(|due| due <= now));
                    }
                    prop_assert!(model.values().all(|due| *due > now));
                    prop_assert_eq!(pacer.next_time(now), model.values().min().copied());
                }
            }
        }
    }
}
