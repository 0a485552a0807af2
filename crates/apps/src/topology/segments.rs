//! Finds ports that a bridge without OpenFlow joins, and decides which of them are used.
//!
//! Such a bridge drops the probes that find links, and forwards the second probe of a port. Ports that hear each other's
//! second probes are one *segment*. [`Segments::assign`] adds the segments to the links of the network, port by port in
//! ascending order, and leaves out each port that would close a loop. So exactly one port of a segment is used in each
//! connected part of the network, and a segment that is the only connection of two parts carries their traffic.
//!
//! A segment carries the traffic of two parts at most: a third part is not connected over it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rosemary_sdk::Dpid;
use rosemary_sdk::services::topology::Endpoint;

/// How long two ports belong to a segment after the last probe.
const MEMORY: Duration = Duration::from_secs(20);

/// Other ports that a port can hear; further ones are joined by what those hear.
const MOST_HEARD: usize = 64;

/// The use of a port of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// For the hosts of the segment.
    Open,
    /// For nothing: another port serves the segment.
    Blocked,
    /// For the traffic of two parts of the network.
    Bridge {
        /// The port of the other part.
        to: Endpoint,
        /// Whether the hosts of the segment are known at this port.
        has_hosts: bool,
        /// When the service found it.
        found: Duration,
    },
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Segments {
    /// The ports that each port has heard, and when it did last.
    heard: BTreeMap<Endpoint, BTreeMap<Endpoint, Duration>>,
    roles: BTreeMap<Endpoint, Role>,
    /// The lowest port of each port's segment.
    lowest: BTreeMap<Endpoint, Endpoint>,
    is_stale: bool,
    /// Ports whose present role is not reported yet.
    unreported: BTreeSet<Endpoint>,
}

impl Segments {
    /// Notes that a port heard the second probe of another.
    pub(super) fn hear(&mut self, from: Endpoint, at: Endpoint, now: Duration) {
        let heard = self.heard.entry(at).or_default();
        if heard.len() < MOST_HEARD || heard.contains_key(&from) {
            self.is_stale |= heard.insert(from, now).is_none();
        }
    }

    /// Forgets a port: it is down, or it has a link.
    pub(super) fn forget(&mut self, end: Endpoint) {
        if self.heard.is_empty() {
            return;
        }
        self.is_stale |= self.heard.remove(&end).is_some();
        for heard in self.heard.values_mut() {
            self.is_stale |= heard.remove(&end).is_some();
        }
        self.heard.retain(|_, heard| !heard.is_empty());
    }

    /// Forgets what was heard too long ago. Returns ports that belong to no segment any more.
    pub(super) fn expire(&mut self, now: Duration) -> Vec<Endpoint> {
        let before = self.members();
        for heard in self.heard.values_mut() {
            let count = heard.len();
            heard.retain(|_, last| now.saturating_sub(*last) < MEMORY);
            // Also if the ports stay members: a segment may have become two.
            self.is_stale |= heard.len() < count;
        }
        self.heard.retain(|_, heard| !heard.is_empty());
        before.difference(&self.members()).copied().collect()
    }

    /// Notes that links have changed.
    pub(super) fn links_changed(&mut self) {
        self.is_stale |= !self.heard.is_empty();
    }

    pub(super) fn role(&self, at: Endpoint) -> Option<Role> {
        self.roles.get(&at).copied()
    }

    /// Whether two ports belong to the same segment.
    pub(super) fn are_joined(&self, one: Endpoint, other: Endpoint) -> bool {
        self.lowest.get(&one).is_some_and(|lowest| self.lowest.get(&other) == Some(lowest))
    }

    /// Decides again if anything has changed. `links` are pairs of switches with a link in both directions. Returns the
    /// ports whose role has changed.
    pub(super) fn assign(
        &mut self,
        links: impl FnOnce() -> Vec<(Dpid, Dpid)>,
        now: Duration,
    ) -> Vec<Endpoint> {
        if !std::mem::take(&mut self.is_stale) {
            return Vec::new();
        }
        let mut segments = Sets::default();
        for (at, heard) in &self.heard {
            for from in heard.keys() {
                segments.join(*at, *from);
            }
        }
        let members = self.members();
        self.lowest = members.iter().map(|end| (*end, segments.find(*end))).collect();
        let mut parts = Sets::default();
        for (one, other) in links() {
            parts.join(Node::Switch(one), Node::Switch(other));
        }
        let mut used: BTreeMap<Endpoint, Vec<Endpoint>> = BTreeMap::new();
        for (end, lowest) in &self.lowest {
            let used = used.entry(*lowest).or_default();
            if used.len() < 2 && parts.join(Node::Segment(*lowest), Node::Switch(end.dpid)) {
                used.push(*end);
            }
        }
        let before = std::mem::take(&mut self.roles);
        for (end, lowest) in &self.lowest {
            let role = match used.get(lowest).map_or(&[][..], Vec::as_slice) {
                [one, other] if end == one || end == other => {
                    let (to, has_hosts) = if end == one { (*other, true) } else { (*one, false) };
                    let found = match before.get(end) {
                        Some(Role::Bridge { to: known, found, .. }) if *known == to => *found,
                        _ => now,
                    };
                    Role::Bridge { to, has_hosts, found }
                }
                used if used.contains(end) => Role::Open,
                _ => Role::Blocked,
            };
            self.roles.insert(*end, role);
        }
        let ends: BTreeSet<Endpoint> = before.keys().chain(self.roles.keys()).copied().collect();
        let changed: Vec<Endpoint> =
            ends.into_iter().filter(|end| before.get(end) != self.roles.get(end)).collect();
        self.unreported.extend(&changed);
        changed
    }

    /// Returns ports with a new role that is to be reported, and keeps those for which it is too early.
    pub(super) fn take_unreported(
        &mut self,
        is_early: impl Fn(Endpoint) -> bool,
    ) -> Vec<(Endpoint, Role)> {
        let (early, ready): (BTreeSet<_>, BTreeSet<_>) =
            std::mem::take(&mut self.unreported).into_iter().partition(|end| is_early(*end));
        self.unreported = early;
        ready.into_iter().filter_map(|end| Some((end, self.role(end)?))).collect()
    }

    /// Returns the lowest port of a port's segment that is used.
    pub(super) fn used(&self, at: Endpoint) -> Option<Endpoint> {
        let lowest = self.lowest.get(&at)?;
        let mut ends = self.roles.iter().filter(|(_, role)| **role != Role::Blocked);
        ends.find(|(end, _)| self.lowest.get(end) == Some(lowest)).map(|(end, _)| *end)
    }

    fn members(&self) -> BTreeSet<Endpoint> {
        self.heard.iter().flat_map(|(at, heard)| heard.keys().chain([at])).copied().collect()
    }
}

/// A part of the network, for [`Segments::assign`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Switch(Dpid),
    Segment(Endpoint),
}

/// Disjoint sets. The lowest member names its set.
#[derive(Debug)]
struct Sets<T>(BTreeMap<T, T>);

impl<T> Default for Sets<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Copy + Ord> Sets<T> {
    fn find(&mut self, of: T) -> T {
        let mut root = of;
        while let Some(next) = self.0.get(&root) {
            root = *next;
        }
        let mut at = of;
        while let Some(next) = self.0.get_mut(&at) {
            at = std::mem::replace(next, root);
        }
        root
    }

    /// Unites two sets. Returns false if they were one.
    fn join(&mut self, one: T, other: T) -> bool {
        let (one, other) = (self.find(one), self.find(other));
        if one != other {
            self.0.insert(one.max(other), one.min(other));
        }
        one != other
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rosemary_sdk::PortNo;

    use super::*;

    fn at(dpid: u64, port: u32) -> Endpoint {
        Endpoint { dpid: Dpid(dpid), port: PortNo(port) }
    }

    /// Makes segments of these ports. Each port hears only the one before it.
    fn segments(of: &[&[Endpoint]]) -> Segments {
        let mut segments = Segments::default();
        for ends in of {
            for pair in ends.windows(2) {
                segments.hear(pair[0], pair[1], Duration::ZERO);
            }
        }
        segments
    }

    fn assign(segments: &mut Segments, links: &[(u64, u64)]) -> Vec<Endpoint> {
        let links = || links.iter().map(|(one, other)| (Dpid(*one), Dpid(*other))).collect();
        segments.assign(links, Duration::ZERO)
    }

    #[test]
    fn one_port_of_a_connected_part_is_used() {
        let ends = [at(2, 1), at(1, 7), at(1, 5)];
        let mut segments = segments(&[&ends]);
        assert_eq!(assign(&mut segments, &[(1, 2)]).len(), 3);
        let roles = [at(1, 5), at(1, 7), at(2, 1)].map(|end| segments.role(end));
        assert_eq!(roles, [Some(Role::Open), Some(Role::Blocked), Some(Role::Blocked)]);
        assert_eq!(segments.used(at(2, 1)), Some(at(1, 5)));
        assert_eq!(assign(&mut segments, &[(1, 2)]), [], "nothing has changed");
    }

    #[test]
    fn only_connection_of_two_parts_carries_their_traffic() {
        let mut segments = segments(&[&[at(1, 1), at(2, 1)]]);
        assign(&mut segments, &[]);
        let bridge = |to, has_hosts| Some(Role::Bridge { to, has_hosts, found: Duration::ZERO });
        assert_eq!(segments.role(at(1, 1)), bridge(at(2, 1), true));
        assert_eq!(segments.role(at(2, 1)), bridge(at(1, 1), false));
        // A link makes it superfluous.
        segments.links_changed();
        assign(&mut segments, &[(1, 2)]);
        let roles = [at(1, 1), at(2, 1)].map(|end| segments.role(end));
        assert_eq!(roles, [Some(Role::Open), Some(Role::Blocked)]);
    }

    #[test]
    fn segment_is_forgotten_without_probes_and_with_its_ports() {
        let mut segments = segments(&[&[at(1, 1), at(2, 1)]]);
        assign(&mut segments, &[]);
        assert!(segments.are_joined(at(1, 1), at(2, 1)));
        assert_eq!(segments.expire(MEMORY / 2), []);
        segments.hear(at(2, 1), at(1, 1), MEMORY / 2);
        assert_eq!(segments.expire(MEMORY), [], "one direction is enough");
        assert_eq!(segments.expire(MEMORY * 2), [at(1, 1), at(2, 1)]);
        assign(&mut segments, &[]);
        assert_eq!(segments.role(at(1, 1)), None);
        segments.hear(at(1, 1), at(2, 1), MEMORY * 2);
        assign(&mut segments, &[]);
        segments.forget(at(1, 1));
        assert_eq!(assign(&mut segments, &[]), [at(1, 1), at(2, 1)]);
        assert!(!segments.are_joined(at(1, 1), at(2, 1)));
    }

    #[test]
    fn segment_that_splits_is_used_in_each_half() {
        let ends = [at(1, 1), at(1, 2), at(1, 3), at(1, 4)];
        let mut segments = segments(&[&ends]);
        assign(&mut segments, &[]);
        assert_eq!(ends.map(|end| segments.used(end)), [Some(at(1, 1)); 4]);
        segments.hear(at(1, 1), at(1, 2), MEMORY);
        segments.hear(at(1, 3), at(1, 4), MEMORY);
        assert_eq!(segments.expire(MEMORY), [], "each port has heard another");
        assert_eq!(assign(&mut segments, &[]), [at(1, 3)]);
        let roles = ends.map(|end| segments.role(end).unwrap());
        assert_eq!(roles, [Role::Open, Role::Blocked, Role::Open, Role::Blocked]);
    }

    proptest! {
        /// Switches, links of their spanning tree and used ports of segments form a network without a loop, and each port
        /// that is not used leads to a segment that its part uses.
        #[test]
        fn used_ports_close_no_loop(
            ends in proptest::collection::vec((0..4_usize, 1..6_u64, 1..5_u32), 1..20),
            links in proptest::collection::vec((1..6_u64, 1..6_u64), 0..5),
        ) {
            let mut by_segment = vec![BTreeSet::new(); 4];
            let mut taken = BTreeSet::new();
            for (segment, dpid, port) in ends {
                if taken.insert(at(dpid, port)) {
                    by_segment[segment].insert(at(dpid, port));
                }
            }
            let lists: Vec<Vec<Endpoint>> =
                by_segment.iter().map(|ends| ends.iter().copied().collect()).collect();
            let slices: Vec<&[Endpoint]> = lists.iter().map(Vec::as_slice).collect();
            let mut segments = segments(&slices);
            assign(&mut segments, &links);
            let mut parts = Sets::default();
            for (one, other) in links {
                parts.join(Node::Switch(Dpid(one)), Node::Switch(Dpid(other)));
            }
            for ends in lists.iter().filter(|ends| ends.len() > 1) {
                let used: Vec<_> = ends
                    .iter()
                    .filter(|end| segments.role(**end) != Some(Role::Blocked))
                    .collect();
                prop_assert!((1..=2).contains(&used.len()), "{used:?}");
                for end in used {
                    prop_assert!(parts.join(Node::Segment(ends[0]), Node::Switch(end.dpid)));
                }
            }
        }
    }
}
