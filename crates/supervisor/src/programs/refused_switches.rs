//! Records that connections of switches were refused: they claimed datapaths that they may not have, or did not complete their
//! handshake although a switch was connected from their address before.
//!
//! A refused switch connects again and again. Its claim is one incident until it has been quiet for [`WINDOW`], and the
//! status shows it that long. A switch that itself closes one connection, as it restarts or loses its link, is not recorded; the second
//! one in that time is. At most [`MOST`] claims are kept at once, so an attacker with many addresses or
//! datapath ids cannot cause more incidents in that time.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use control::incident::{Cause, Evidence, Program};
use control::kernel::RefusedSwitch;
use control::operator::RefusedConnection;

use super::Programs;

/// How long a claim is kept after its last attempt.
const WINDOW: Duration = Duration::from_secs(5 * 60);

/// The most claims that are kept.
const MOST: usize = 16;

/// The claims that were refused lately, the last one first.
#[derive(Debug, Default)]
pub(super) struct RefusedSwitches(VecDeque<Claim>);

/// The claim of a datapath by an address.
#[derive(Debug)]
struct Claim {
    dpid: String,
    address: IpAddr,
    why: String,
    last: Instant,
    /// Whether the switch closed the connection.
    closed_by_switch: bool,
    /// Whether it has an incident.
    is_recorded: bool,
}

impl Claim {
    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.last)
    }
}

impl RefusedSwitches {
    /// Keeps a claim, and returns whether it needs an incident.
    fn note(&mut self, claim: Claim) -> bool {
        let Self(claims) = self;
        claims.retain(|it| it.age(claim.last) < WINDOW);
        let known =
            claims.iter().position(|it| it.dpid == claim.dpid && it.address == claim.address);
        let known = known.and_then(|at| claims.remove(at));
        if known.is_none() && claims.len() >= MOST {
            return false;
        }
        let was_recorded = known.as_ref().is_some_and(|it| it.is_recorded);
        let needs_record = known.is_some() || !claim.closed_by_switch;
        claims.push_front(Claim { is_recorded: needs_record, ..claim });
        needs_record && !was_recorded
    }

    fn recent(&self, now: Instant) -> Vec<RefusedConnection> {
        let recent = self.0.iter().filter(|it| it.is_recorded && it.age(now) < WINDOW);
        let recent = recent.map(|it| RefusedConnection {
            dpid: it.dpid.clone(),
            address: it.address,
            why: it.why.clone(),
            seconds_ago: it.age(now).as_secs(),
        });
        recent.collect()
    }
}

impl Programs {
    /// Records that a connection was refused, unless the same claim was recorded a short time ago. The kernel has logged it.
    pub(super) fn switch_was_refused(&mut self, refused: RefusedSwitch, now: Instant) {
        let RefusedSwitch { dpid, address, why, closed_by_switch } = refused;
        let address = address.ip().to_canonical();
        let claim = Claim {
            dpid: dpid.clone(),
            address,
            why: why.clone(),
            last: now,
            closed_by_switch,
            is_recorded: false,
        };
        if self.refused_switches.note(claim) {
            let cause = Cause::RefusedSwitch { switch: dpid, address };
            let incident = self.incidents.open(Program::kernel(), cause, Evidence::fact(why));
            let reaction = if closed_by_switch {
                "the kernel waits for the next connection"
            } else {
                "the kernel closed the connection"
            };
            self.incidents.reaction(incident, reaction);
            self.incidents.close(incident, None);
        }
    }

    /// The connections that were refused lately, the last one first.
    pub fn refused_switches(&self, now: Instant) -> Vec<RefusedConnection> {
        self.refused_switches.recent(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(dpid: &str, host: u8, last: Instant) -> Claim {
        Claim {
            dpid: dpid.into(),
            address: [10, 0, 0, host].into(),
            why: "why".into(),
            last,
            closed_by_switch: false,
            is_recorded: false,
        }
    }

    #[test]
    fn switch_that_closes_one_connection_is_not_recorded() {
        let (mut refused, start) = (RefusedSwitches::default(), Instant::now());
        let closed = |last| Claim { closed_by_switch: true, ..claim("1", 1, last) };
        assert!(!refused.note(closed(start)), "it restarts");
        let second = start + WINDOW / 2;
        assert!(refused.note(closed(second)), "it does so again");
        assert!(!refused.note(closed(second)), "one incident");
        assert!(!refused.note(claim("1", 1, second)), "one incident");
        assert!(!refused.note(closed(second + WINDOW)), "it was quiet");
        assert!(refused.note(claim("1", 1, second + WINDOW)), "the kernel closed this one");
    }

    #[test]
    fn repeated_claim_is_one_incident() {
        let (mut refused, start) = (RefusedSwitches::default(), Instant::now());
        assert!(refused.note(claim("1", 1, start)));
        for minute in 1..60 {
            let now = start + Duration::from_secs(60 * minute);
            assert!(!refused.note(claim("1", 1, now)), "it was never quiet");
        }
        let last = start + Duration::from_secs(60 * 59);
        assert!(refused.note(claim("2", 1, last)), "another datapath");
        assert!(refused.note(claim("1", 2, last)), "another address");
        assert!(refused.note(claim("1", 1, last + WINDOW)), "it was quiet");
    }

    #[test]
    fn flood_of_claims_has_few_incidents() {
        let (mut refused, start) = (RefusedSwitches::default(), Instant::now());
        let incidents = (0..=255).flat_map(|host| ["1", "2"].map(|dpid| (dpid, host)));
        let incidents = incidents.filter(|(dpid, host)| refused.note(claim(dpid, *host, start)));
        assert_eq!(incidents.count(), MOST);
        assert_eq!(refused.0.len(), MOST);
        assert!(refused.note(claim("1", 200, start + WINDOW)), "the flood is over");
        assert_eq!(refused.0.len(), 1);
    }

    #[test]
    fn status_shows_recent_claims_last_first() {
        let (mut refused, start) = (RefusedSwitches::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        refused.note(claim("1", 1, start));
        refused.note(claim("1", 2, after(1)));
        refused.note(claim("1", 1, after(3)));
        let shown = |now| {
            let shown = refused.recent(now).into_iter();
            shown.map(|it| (it.address.to_string(), it.seconds_ago)).collect::<Vec<_>>()
        };
        assert_eq!(shown(after(5)), [("10.0.0.1".into(), 2), ("10.0.0.2".into(), 4)]);
        assert_eq!(shown(after(1) + WINDOW), [("10.0.0.1".into(), WINDOW.as_secs() - 2)]);
        assert_eq!(shown(after(3) + WINDOW), []);
    }
}
