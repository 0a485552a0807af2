//! Remembers links that were there and are down, with the reason: [`LinksDown`].
//!
//! A link is forgotten when one of its ports has a link again, or after [`KEPT`]: a cable that was unplugged for good looks like
//! a broken one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rosemary_sdk::services::topology::{Endpoint, LinkDownRecord, WhyDown};

/// Most directions of links that are remembered; beyond it the oldest is forgotten.
const MOST_LINKS: usize = 4096;

/// How long a link is remembered.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// A direction of a link that is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Down {
    pub(super) to: Endpoint,
    pub(super) why: WhyDown,
    /// The port that the reason is about.
    pub(super) cause: Endpoint,
    pub(super) since: Duration,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct LinksDown {
    /// By the port where the direction began.
    from: BTreeMap<Endpoint, Down>,
    /// The port where the direction began that ended at a port.
    to: BTreeMap<Endpoint, Endpoint>,
    by_age: BTreeSet<(Duration, Endpoint)>,
}

impl LinksDown {
    /// Remembers a direction. Returns the ports where the directions began that have changed.
    pub(super) fn add(&mut self, from: Endpoint, down: Down) -> Vec<Endpoint> {
        let mut changed = vec![from];
        changed.extend(self.forget_from(from));
        changed.extend(self.to.get(&down.to).copied().and_then(|other| self.forget_from(other)));
        if self.from.len() >= MOST_LINKS
            && let Some((_, oldest)) = self.by_age.first().copied()
        {
            changed.extend(self.forget_from(oldest));
        }
        self.from.insert(from, down);
        self.to.insert(down.to, from);
        self.by_age.insert((down.since, from));
        changed
    }

    /// Forgets the directions that began or ended at a port. Returns the ports where they began.
    pub(super) fn forget(&mut self, at: Endpoint) -> Vec<Endpoint> {
        let other = self.to.get(&at).copied();
        [Some(at), other].into_iter().flatten().filter_map(|from| self.forget_from(from)).collect()
    }

    /// Forgets old directions. Returns the ports where they began.
    pub(super) fn expire(&mut self, now: Duration) -> Vec<Endpoint> {
        let mut old = Vec::new();
        while let Some((since, from)) = self.by_age.first().copied()
            && now.saturating_sub(since) >= KEPT
        {
            old.extend(self.forget_from(from));
        }
        old
    }

    /// Returns the record of a direction.
    pub(super) fn record(&self, from: Endpoint) -> Option<LinkDownRecord> {
        let Down { to, why, cause, since } = *self.from.get(&from)?;
        let since_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        Some(LinkDownRecord { from, to, why, is_far_end: cause == to, since_ns })
    }

    /// Returns whether the direction from a port to another is down.
    pub(super) fn has(&self, from: Endpoint, to: Endpoint) -> bool {
        self.from.get(&from).is_some_and(|down| down.to == to)
    }

    fn forget_from(&mut self, from: Endpoint) -> Option<Endpoint> {
        let down = self.from.remove(&from)?;
        self.to.remove(&down.to);
        self.by_age.remove(&(down.since, from));
        Some(from)
    }
}

#[cfg(test)]
mod tests {
    use rosemary_sdk::{Dpid, PortNo};

    use super::*;

    fn at(dpid: u64, port: u32) -> Endpoint {
        Endpoint { dpid: Dpid(dpid), port: PortNo(port) }
    }

    fn down(to: Endpoint, seconds: u64) -> Down {
        Down { to, why: WhyDown::Silent, cause: to, since: Duration::from_secs(seconds) }
    }

    #[test]
    fn link_is_forgotten_with_either_port() {
        let mut links = LinksDown::default();
        assert_eq!(links.add(at(1, 1), down(at(2, 1), 5)), [at(1, 1)]);
        links.add(at(2, 1), down(at(1, 1), 5));
        let record = links.record(at(1, 1)).unwrap();
        assert_eq!((record.cause(), record.since_ns), (at(2, 1), 5_000_000_000));
        let mut gone = links.forget(at(2, 1));
        gone.sort();
        assert_eq!(gone, [at(1, 1), at(2, 1)]);
        assert!(links.record(at(1, 1)).is_none() && links.forget(at(1, 1)).is_empty());
        assert!(links.to.is_empty() && links.by_age.is_empty());
    }

    #[test]
    fn links_of_invented_ports_take_bounded_memory() {
        let mut links = LinksDown::default();
        for port in 0..10_000 {
            links.add(at(1, port), down(at(2, port), u64::from(port)));
        }
        assert_eq!(
            (links.from.len(), links.to.len(), links.by_age.len()),
            (MOST_LINKS, MOST_LINKS, MOST_LINKS)
        );
        assert!(links.record(at(1, 0)).is_none() && links.record(at(1, 9999)).is_some());
        let old = links.expire(Duration::from_secs(9000) + KEPT);
        assert_eq!((old.len(), links.from.len()), (MOST_LINKS - 999, 999));
    }
}
