//! Limits the packet-ins that each port and each host may cause: [`Storm`].
//!
//! An offender gets a flow of the lowest priority of this app's band, which drops packets that no other flow of this app
//! and no flow of an app before it matches. Traffic that has flows therefore goes on, and others' flows are untouched. The
//! flow has a timeout. An offender that goes on gets another, for twice the time.

use std::collections::HashMap;
use std::time::Duration;

use rosemary_sdk::openflow::Match;
use rosemary_sdk::{MacAddr, PortNo};

use super::config::StormControl;
use super::net::End;
use super::routes::{KIND_SHIFT, STORM};
use super::world::{Act, Flow};

/// Most ports, and most hosts, whose budgets are known. Without room for a host, only the budget of its port counts.
const MOST_PORTS: usize = 65_536;
const MOST_HOSTS: usize = 65_536;

/// Priority of the flows that drop packets: below those of routes.
const PRIORITY: u16 = 0;

/// Times that the hold can double.
const MOST_DOUBLINGS: u32 = 5;

/// How long a bucket stays known after its last use.
const KEPT: Duration = Duration::from_secs(60);

/// Seconds of its rate that an offender may send at once.
const BURST_SECONDS: u32 = 2;

/// A token bucket with the times that it was empty.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// Thousandths of a packet-in.
    tokens: u64,
    filled: Duration,
    held_until: Duration,
    times: u32,
}

impl Bucket {
    fn new(rate: u32, now: Duration) -> Self {
        Self { tokens: most(rate), filled: now, held_until: Duration::ZERO, times: 0 }
    }

    /// Takes a packet-in; returns false if there is none.
    fn take(&mut self, rate: u32, now: Duration) -> bool {
        let passed = now.saturating_sub(self.filled);
        let new = u64::try_from(passed.as_micros()).unwrap_or(u64::MAX).saturating_mul(rate.into());
        if new >= 1000 {
            self.tokens = self.tokens.saturating_add(new / 1000).min(most(rate));
            self.filled = now;
        }
        let left = self.tokens.checked_sub(1000);
        self.tokens = left.unwrap_or(self.tokens);
        left.is_some()
    }
}

fn most(rate: u32) -> u64 {
    u64::from(rate) * u64::from(BURST_SECONDS) * 1000
}

/// What happens to a packet-in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is within the budgets.
    Pass,
    /// It is ignored: its sender's flow is under way, or has just expired.
    Drop,
    /// It is ignored, and this flow drops those that follow.
    Hold {
        /// The flow.
        flow: Box<Flow>,
        /// The offender, for an incident: `host 02:...:01` or `port`.
        who: String,
        /// Its budget, packet-ins per second.
        rate: u32,
        /// How long the flow stays.
        seconds: u16,
    },
}

/// The budgets of all ports and hosts.
#[derive(Debug)]
pub(crate) struct Storm {
    limits: StormControl,
    ports: HashMap<End, Bucket>,
    hosts: HashMap<(End, MacAddr), Bucket>,
    swept: Duration,
}

impl Storm {
    /// Makes full budgets.
    pub(crate) fn new(limits: StormControl) -> Self {
        Self { limits, ports: HashMap::new(), hosts: HashMap::new(), swept: Duration::ZERO }
    }

    /// Returns whether there are limits.
    pub(crate) fn is_enabled(&self) -> bool {
        self.limits.enabled
    }

    /// Counts a packet-in from a port of hosts.
    pub(crate) fn count(&mut self, at: End, src: MacAddr, now: Duration) -> Verdict {
        if !self.limits.enabled {
            return Verdict::Pass;
        }
        self.sweep(now);
        let rate = self.limits.packet_ins_per_host;
        let has_room = self.hosts.len() < MOST_HOSTS || self.hosts.contains_key(&(at, src));
        if has_room {
            let bucket = self.hosts.entry((at, src)).or_insert_with(|| Bucket::new(rate, now));
            if !bucket.take(rate, now) {
                return hold(bucket, (at, Some(src)), rate, self.limits.hold_seconds, now);
            }
        }
        let rate = self.limits.packet_ins_per_port;
        if self.ports.len() >= MOST_PORTS && !self.ports.contains_key(&at) {
            return Verdict::Pass;
        }
        let bucket = self.ports.entry(at).or_insert_with(|| Bucket::new(rate, now));
        if bucket.take(rate, now) {
            return Verdict::Pass;
        }
        hold(bucket, (at, None), rate, self.limits.hold_seconds, now)
    }

    /// Forgets budgets that were not used for a while.
    fn sweep(&mut self, now: Duration) {
        if now.saturating_sub(self.swept) < KEPT {
            return;
        }
        self.swept = now;
        let is_used =
            |bucket: &Bucket| now.saturating_sub(bucket.filled.max(bucket.held_until)) < KEPT;
        self.ports.retain(|_, bucket| is_used(bucket));
        self.hosts.retain(|_, bucket| is_used(bucket));
    }
}

fn hold(
    bucket: &mut Bucket,
    (at, host): (End, Option<MacAddr>),
    rate: u32,
    hold_seconds: u16,
    now: Duration,
) -> Verdict {
    if now < bucket.held_until {
        return Verdict::Drop; // it was sent before the flow was there
    }
    let seconds = u32::from(hold_seconds) << bucket.times.min(MOST_DOUBLINGS);
    let seconds = u16::try_from(seconds).unwrap_or(u16::MAX);
    bucket.times += 1;
    // Two seconds: the switch counts from when it gets the flow.
    bucket.held_until = now + Duration::from_secs(u64::from(seconds) + 2);
    let match_ = Match::new().in_port(at.1);
    let (match_, who) = match host {
        Some(mac) => (match_.eth_src(mac), format!("host {mac}")),
        None => (match_, "all hosts".to_owned()),
    };
    let mut flow = Flow::add(match_, PRIORITY, STORM << KIND_SHIFT, Act::Drop);
    flow.hard_timeout = seconds;
    Verdict::Hold {
        flow: Box::new(flow),
        who: format!("{who} at port {} of {}", port(at.1), at.0),
        rate,
        seconds,
    }
}

fn port(port: PortNo) -> String {
    port.to_string()
}

#[cfg(test)]
mod tests {
    use rosemary_sdk::Dpid;

    use super::*;

    const AT: End = (Dpid(1), PortNo(3));

    fn limits(port: u32, host: u32) -> StormControl {
        let packet_ins_per_port = port;
        StormControl { packet_ins_per_port, packet_ins_per_host: host, ..StormControl::default() }
    }

    fn mac(last: u8) -> MacAddr {
        MacAddr([2, 0, 0, 0, 0, last])
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn host_above_its_budget_is_held_and_others_pass() {
        let mut storm = Storm::new(limits(1000, 10));
        let verdicts: Vec<_> = (0..100).map(|at| storm.count(AT, mac(1), ms(at))).collect();
        let passed = verdicts.iter().filter(|it| **it == Verdict::Pass).count();
        assert_eq!(passed, 20, "two seconds of ten, at once");
        let holds: Vec<_> =
            verdicts.iter().filter(|it| matches!(it, Verdict::Hold { .. })).collect();
        let [Verdict::Hold { flow, who, seconds: 10, .. }] = &holds[..] else {
            panic!("{holds:?}")
        };
        assert_eq!(flow.match_, Match::new().in_port(AT.1).eth_src(mac(1)));
        assert_eq!((flow.priority, flow.hard_timeout, flow.act), (0, 10, Act::Drop));
        assert!(who.starts_with("host 02:00:00:00:00:01 at port 3"), "{who}");
        assert_eq!(storm.count(AT, mac(2), ms(100)), Verdict::Pass);
    }

    #[test]
    fn port_with_invented_addresses_is_held() {
        let mut storm = Storm::new(limits(50, 10));
        let mut held = 0;
        for number in 0..200_u8 {
            if let Verdict::Hold { flow, .. } = storm.count(AT, mac(number), ms(1)) {
                assert_eq!(flow.match_, Match::new().in_port(AT.1));
                held += 1;
            }
        }
        assert_eq!(held, 1);
        assert_eq!(storm.count((AT.0, PortNo(4)), mac(1), ms(2)), Verdict::Pass);
    }

    #[test]
    fn offender_that_goes_on_is_held_longer() {
        let mut storm = Storm::new(limits(1000, 10));
        let mut seconds = Vec::new();
        for at in 0..600_u64 {
            for _ in 0..100 {
                if let Verdict::Hold { seconds: it, .. } = storm.count(AT, mac(1), ms(at * 100)) {
                    seconds.push(it);
                }
            }
        }
        assert_eq!(seconds, [10, 20, 40]);
    }

    #[test]
    fn budget_refills_at_its_rate() {
        let mut storm = Storm::new(limits(1_000_000, 100));
        let passed =
            (0..10_000_u64).filter(|at| storm.count(AT, mac(1), ms(at * 5)) == Verdict::Pass);
        let passed = passed.count();
        assert!((5190..=5200).contains(&passed), "half of them, and the burst: {passed}");
    }

    #[test]
    fn invented_addresses_take_bounded_memory() {
        let mut storm = Storm::new(limits(10_000_000, 10_000_000));
        for number in 0..200_000_u32 {
            let [a, b, c, d] = number.to_be_bytes();
            storm.count(AT, MacAddr([2, 0, a, b, c, d]), ms(1));
        }
        assert_eq!(storm.hosts.len(), MOST_HOSTS);
        storm.count(AT, mac(1), Duration::from_secs(200));
        assert_eq!(storm.hosts.len(), 1);
    }
}
