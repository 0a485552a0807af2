//! Computes how the packets from one switch to another travel: the output of each switch on the way, with all next hops of
//! equal cost, and a backup for each link that has no such alternative.
//!
//! The output at a switch depends on the port through which the packet came in. So a packet may return through the switch
//! that it came from: with a backup it goes back until it finds another path, and the flows for the in-port at which it
//! returns lead it there. A backup is part of the plan only if every packet arrives with the link down, which
//! [`Builder::delivers`] checks.

use std::collections::{BTreeMap, BTreeSet};

use rosemary_sdk::PortNo;

use super::net::{Distances, Net};

/// Most next hops of equal cost at a switch.
const MOST_NEXT: usize = 8;

/// Most steps of a plan; one that would need more has a single path without backups.
const MOST_STEPS: usize = 64;

/// A packet at a switch: the switch's index, and the port through which it came; `None` is the port of the host that sent
/// it.
pub(crate) type Place = (usize, Option<PortNo>);

/// Where a switch sends packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) at: Place,
    /// Ports towards next hops, all of equal cost; none at the destination's switch, which delivers.
    pub(crate) next: Vec<PortNo>,
    /// The port to use while the only one of `next` is down.
    pub(crate) backup: Option<PortNo>,
}

/// The steps from one switch to another; those nearer to the source come first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
}

/// Computes a plan, or `None` if no path is known. `salt` chooses between next hops of equal cost at switches without
/// groups.
pub(crate) fn plan(net: &Net, from: usize, to: usize, salt: u64) -> Option<Plan> {
    let distances = net.distances(to, None);
    if !distances.reaches(from) {
        return None;
    }
    let mut builder = Builder { net, to, steps: BTreeMap::new(), order: Vec::new() };
    if builder.walk((from, None), &distances, &Choice::Equal(salt)) {
        builder.add_backups();
        return Some(builder.finish());
    }
    let mut builder = Builder { net, to, steps: BTreeMap::new(), order: Vec::new() };
    let is_whole = builder.walk((from, None), &distances, &Choice::One(salt));
    is_whole.then(|| builder.finish())
}

/// Returns the plan along the spanning tree, without alternatives; `None` if no path is known.
pub(crate) fn tree_plan(net: &Net, from: usize, to: usize) -> Option<Plan> {
    let (mut steps, mut at) = (Vec::new(), (from, None));
    for link in net.tree_path(from, to)? {
        steps.push(Step { at, next: vec![link.port], backup: None });
        at = (link.to, Some(link.to_port));
    }
    steps.push(Step { at, next: Vec::new(), backup: None });
    Some(Plan { steps })
}

/// Returns the port towards `to` for one packet at `from`.
pub(crate) fn next_hop(net: &Net, from: usize, distances: &Distances, salt: u64) -> Option<PortNo> {
    let ports: Vec<PortNo> = net.next(from, distances).map(|link| link.port).collect();
    pick(&ports, salt)
}

fn pick(ports: &[PortNo], salt: u64) -> Option<PortNo> {
    let count = u64::try_from(ports.len()).ok().filter(|count| *count > 0)?;
    ports.get(usize::try_from(salt % count).ok()?).copied()
}

/// Which next hops a walk takes.
enum Choice {
    /// All of equal cost where the switch has groups, otherwise one.
    Equal(u64),
    /// One.
    One(u64),
}

struct Out {
    next: Vec<PortNo>,
    backup: Option<PortNo>,
}

struct Builder<'n> {
    net: &'n Net,
    to: usize,
    steps: BTreeMap<Place, Out>,
    /// The places in the order in which they were found.
    order: Vec<Place>,
}

impl Builder<'_> {
    /// Adds the steps from a place on; stops at steps that are there. Returns false if there would be too many.
    fn walk(&mut self, from: Place, distances: &Distances, choice: &Choice) -> bool {
        let mut open = std::collections::VecDeque::from([from]);
        while let Some(place) = open.pop_front() {
            if self.steps.contains_key(&place) {
                continue;
            }
            if self.order.len() >= MOST_STEPS {
                return false;
            }
            let next =
                if place.0 == self.to { Vec::new() } else { self.choose(place, distances, choice) };
            open.extend(next.iter().filter_map(|port| self.behind(place.0, *port)));
            self.order.push(place);
            self.steps.insert(place, Out { next, backup: None });
        }
        true
    }

    fn choose(&self, (at, _): Place, distances: &Distances, choice: &Choice) -> Vec<PortNo> {
        let next = self.net.next(at, distances).map(|link| link.port);
        let mut next: Vec<PortNo> = next.take(MOST_NEXT).collect();
        let (Choice::Equal(salt) | Choice::One(salt)) = choice;
        if !(matches!(choice, Choice::Equal(_)) && self.net.node(at).has_groups) {
            next = pick(&next, *salt).into_iter().collect();
        }
        next
    }

    /// The place that a packet reaches through a port.
    fn behind(&self, at: usize, port: PortNo) -> Option<Place> {
        self.net.link(at, port).map(|link| (link.to, Some(link.to_port)))
    }

    /// Adds a backup to each step with a single next hop, where there is one.
    fn add_backups(&mut self) {
        for place in self.order.clone() {
            let Some(Out { next, .. }) = self.steps.get(&place) else { continue };
            let &[only] = &next[..] else { continue };
            if self.net.node(place.0).has_groups {
                self.add_backup(place, only);
            }
        }
    }

    fn add_backup(&mut self, place: Place, only: PortNo) {
        let dead = (place.0, only);
        let distances = self.net.distances(self.to, Some(dead));
        if distances.are_poor(place.0) {
            return; // through a drained switch, which may be switched off soon
        }
        let Some(link) = self.net.next(place.0, &distances).next() else { return };
        let (backup, behind) = (link.port, (link.to, Some(link.to_port)));
        let before = self.order.len();
        let is_whole = self.walk(behind, &distances, &Choice::One(0));
        if let Some(out) = self.steps.get_mut(&place) {
            out.backup = Some(backup);
        }
        if is_whole && self.delivers(place, dead) {
            return;
        }
        if let Some(out) = self.steps.get_mut(&place) {
            out.backup = None;
        }
        for added in self.order.split_off(before) {
            self.steps.remove(&added);
        }
    }

    /// Returns whether every packet at a place arrives while a link is down, whichever next hops the switches choose.
    fn delivers(&self, from: Place, dead: (usize, PortNo)) -> bool {
        let peer = self.net.link(dead.0, dead.1).map(|link| (link.to, link.to_port));
        let is_dead = |at: usize, port: PortNo| (at, port) == dead || Some((at, port)) == peer;
        self.arrives(from, &is_dead, &mut BTreeSet::new(), &mut BTreeSet::new())
    }

    /// Depth-first search: `path` are the places on the way here, `good` those from which packets arrive.
    fn arrives(
        &self,
        place: Place,
        is_dead: &impl Fn(usize, PortNo) -> bool,
        path: &mut BTreeSet<Place>,
        good: &mut BTreeSet<Place>,
    ) -> bool {
        if place.0 == self.to || good.contains(&place) {
            return true;
        }
        let Some(out) = self.steps.get(&place) else { return false };
        if !path.insert(place) {
            return false; // a loop
        }
        let is_live = |port: &PortNo| !is_dead(place.0, *port);
        let mut ports: Vec<PortNo> = out.next.iter().copied().filter(is_live).collect();
        if ports.is_empty() {
            ports.extend(out.backup.filter(is_live));
        }
        let arrive = !ports.is_empty()
            && ports.into_iter().all(|port| {
                let behind = self.behind(place.0, port);
                behind.is_some_and(|behind| self.arrives(behind, is_dead, path, good))
            });
        path.remove(&place);
        if arrive {
            good.insert(place);
        }
        arrive
    }

    fn finish(mut self) -> Plan {
        let steps = self.order.iter().filter_map(|place| {
            let Out { next, backup } = self.steps.remove(place)?;
            Some(Step { at: *place, next, backup })
        });
        Plan { steps: steps.collect() }
    }
}
