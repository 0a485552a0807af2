//! Decides whether a switch can be drained: whether the others reach each other without it.

use std::collections::{BTreeMap, BTreeSet};

use rosemary_sdk::Dpid;
use rosemary_sdk::topology::Graph;

/// Checks whether the network has other paths than those over `dpid`.
///
/// # Errors
/// Why the switch must not be drained, as a phrase.
pub(crate) fn may_drain(graph: &Graph, dpid: Dpid) -> Result<(), String> {
    if graph.is_drained(dpid) {
        return Err("it is drained already, by somebody else".into());
    }
    let links: Vec<(Dpid, Dpid)> =
        graph.links().map(|link| (link.from.dpid, link.to.dpid)).collect();
    let drained = graph.switches().filter(|switch| switch.drained).map(|switch| switch.dpid);
    is_avoidable(&links, &drained.collect(), dpid)
}

/// The same for links in one direction each.
fn is_avoidable(
    links: &[(Dpid, Dpid)],
    drained: &BTreeSet<Dpid>,
    dpid: Dpid,
) -> Result<(), String> {
    let mut neighbours: BTreeMap<Dpid, Vec<Dpid>> = BTreeMap::new();
    for (from, to) in links {
        neighbours.entry(*from).or_default().push(*to);
    }
    let Some(first) = neighbours.get(&dpid).and_then(|it| it.first().copied()) else {
        return Err("no link of it is known, so a drain would change nothing".into());
    };
    // A drained switch carries the traffic of its own hosts only: it is reached, and passes nothing on.
    let reach = |start: Dpid, without: Option<Dpid>| {
        let mut seen = BTreeSet::from([start]);
        let mut next = vec![start];
        while let Some(at) = next.pop() {
            if Some(at) == without || at != start && drained.contains(&at) {
                continue;
            }
            for other in neighbours.get(&at).into_iter().flatten() {
                if seen.insert(*other) {
                    next.push(*other);
                }
            }
        }
        seen
    };
    let before = reach(dpid, None);
    let after = reach(first, Some(dpid));
    let cut: Vec<Dpid> = before.difference(&after).copied().filter(|it| *it != dpid).collect();
    match cut.first() {
        None => Ok(()),
        Some(one) => Err(format!("{} switches, such as {one}, have no other path", cut.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(links: &[(u64, u64)]) -> Vec<(Dpid, Dpid)> {
        links.iter().flat_map(|(a, b)| [(Dpid(*a), Dpid(*b)), (Dpid(*b), Dpid(*a))]).collect()
    }

    #[test]
    fn switch_of_a_ring_can_be_drained_once() {
        let ring = both(&[(1, 2), (2, 3), (3, 4), (4, 1)]);
        let none = BTreeSet::new();
        assert_eq!(is_avoidable(&ring, &none, Dpid(2)), Ok(()));
        let drained = BTreeSet::from([Dpid(4)]);
        let why = is_avoidable(&ring, &drained, Dpid(2)).unwrap_err();
        assert!(why.contains("no other path"), "{why}");
    }

    #[test]
    fn switch_of_a_line_cannot_be_drained() {
        let line = both(&[(1, 2), (2, 3)]);
        let why = is_avoidable(&line, &BTreeSet::new(), Dpid(2)).unwrap_err();
        assert!(why.starts_with("1 switches, such as 00:00:00:00:00:00:00:0"), "{why}");
        assert_eq!(
            is_avoidable(&line, &BTreeSet::new(), Dpid(1)),
            Ok(()),
            "an end carries nothing"
        );
        assert!(is_avoidable(&line, &BTreeSet::new(), Dpid(9)).is_err());
    }
}
