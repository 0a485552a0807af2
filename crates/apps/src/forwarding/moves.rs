//! Moves routes to new hops, make before break: [`Moves`].
//!
//! 1. New hops are added, and each of their switches gets a barrier.
//! 2. When all barriers are answered, hops that lead to the new ones are changed, in waves: the hops of a route change from the
//!    destination on, one switch after the other. If a switch nearer to the source changed first, packets could reach the next
//!    one by its old hop and return. The hops that change at a switch in one wave are one change set.
//! 3. After that and a pause for packets under way, hops that are not used any more are deleted.
//!
//! A route whose old path is broken does not wait before step 2, nor between waves: its packets are lost until then. A packet that
//! arrives before a hop is added becomes a packet-in and is forwarded by the app. An answer that does not come in time is not
//! waited for.
//!
//! A single hop, and a switch whose version has no bundles, get flow-mods and a barrier. A set that a switch does not apply is sent
//! again as flow-mods. Messages may overtake a set: when its outcome has come, hops that the route has otherwise by then are sent
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rosemary_sdk::{Dpid, Switch};

use super::net::End;
use super::peers::Peers;
use super::routes::{Hops, Key, PRIORITY, Routes};
use super::world::{Act, Flow, Message, World};

/// Longest wait for the answers to a stage.
const PATIENCE: Duration = Duration::from_millis(500);

/// Longest time from the loss of outcomes to a later outcome: longer than the kernel waits for a switch.
const OUTCOME_PATIENCE: Duration = Duration::from_secs(15);

/// Time for packets under way on the old path.
const UNDER_WAY: Duration = Duration::from_millis(200);

/// Most hops in a change set, except for further hops of the last route: they fit into the smallest ring.
const MOST_IN_SET: usize = 384;

/// A hop of a route.
type HopOf = (Key, End);

/// The differences between the former hops of some routes and the present ones.
#[derive(Debug, Default)]
pub(crate) struct Move {
    adds: Vec<HopOf>,
    /// The hops that change, in waves.
    changes: Vec<Vec<HopOf>>,
    removes: Vec<HopOf>,
}

impl Move {
    /// Adds the differences of one route. `order` lists the present hops from the source on.
    pub(crate) fn add(&mut self, key: Key, before: &Hops, order: &[(End, Act)]) {
        let (mut wave, mut last) = (0, None);
        // From the destination on: a switch gets its hop before the switch that sends to it.
        for (at, act) in order.iter().rev() {
            match before.get(at) {
                None => self.adds.push((key, *at)),
                Some(old) if old != act => {
                    wave += usize::from(last.is_some_and(|dpid| dpid != at.0));
                    last = Some(at.0);
                    if self.changes.len() <= wave {
                        self.changes.push(Vec::new());
                    }
                    self.changes[wave].push((key, *at));
                }
                Some(_) => {}
            }
        }
        let is_kept = |at: &End| order.iter().any(|(kept, _)| kept == at);
        self.removes.extend(before.keys().filter(|at| !is_kept(at)).map(|at| (key, *at)));
    }

    /// Adds hops that are not used any more.
    pub(crate) fn add_removes(&mut self, key: Key, hops: impl IntoIterator<Item = End>) {
        self.removes.extend(hops.into_iter().map(|at| (key, at)));
    }

    /// Returns whether nothing differs.
    pub(crate) fn is_empty(&self) -> bool {
        self.adds.is_empty() && self.changes.is_empty() && self.removes.is_empty()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Adding,
    Changing,
    Settling,
}

/// An answer that a stage waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Barrier(Dpid, u64),
    Set(u64),
}

#[derive(Debug)]
struct Job {
    rest: Move,
    stage: Stage,
    waits: Vec<Awaited>,
    /// When the stage ends at the latest.
    until: Duration,
}

/// A change set whose outcome is outstanding: its hops, as they were sent.
#[derive(Debug)]
struct Sent {
    switch: Switch,
    hops: Vec<(HopOf, Act)>,
    /// The time at which the outcome counts as lost, if outcomes were lost since the set was sent.
    until: Option<Duration>,
}

/// The moves under way.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    jobs: Vec<Job>,
    sets: Sets,
}

/// The change sets whose outcomes are outstanding, by their numbers.
#[derive(Debug, Default)]
struct Sets {
    sent: BTreeMap<u64, Sent>,
    /// The number of the last set.
    last: u64,
}

impl Sets {
    /// Whether a set waits for its outcome at this switch.
    fn is_pending_at(&self, dpid: Dpid) -> bool {
        self.sent.values().any(|sent| sent.switch.dpid == dpid)
    }

    /// Sends flows as a change set, and returns its number.
    fn send(
        &mut self,
        switch: Switch,
        hops: Vec<(HopOf, Act)>,
        flows: Vec<Flow>,
        world: &mut impl World,
    ) -> u64 {
        self.last += 1;
        self.sent.insert(self.last, Sent { switch, hops, until: None });
        world.send(switch, Message::Changes(self.last, flows));
        self.last
    }
}

impl Moves {
    /// Begins a move.
    pub(crate) fn begin(
        &mut self,
        mut what: Move,
        is_urgent: bool,
        routes: &Routes,
        peers: &mut Peers,
        world: &mut impl World,
    ) {
        if what.is_empty() {
            return;
        }
        let adds = std::mem::take(&mut what.adds);
        send(&adds, routes, peers, world);
        let until = world.now() + PATIENCE;
        let waits = if is_urgent { Vec::new() } else { barriers(&adds, peers, world) };
        what.changes.reverse(); // the last wave is taken first
        if is_urgent && what.changes.len() > 1 {
            let all = what.changes.drain(..).rev().flatten().collect();
            what.changes.push(all);
        }
        self.jobs.push(Job { rest: what, stage: Stage::Adding, waits, until });
        self.go_on(routes, peers, world);
    }

    /// Goes on with moves whose answers have come or whose time has come.
    pub(crate) fn go_on(&mut self, routes: &Routes, peers: &mut Peers, world: &mut impl World) {
        let now = world.now();
        let Self { jobs, sets } = self;
        sets.sent.retain(|_, sent| peers.switch(sent.switch.dpid) == Some(sent.switch));
        jobs.retain_mut(|job| {
            loop {
                job.waits.retain(|awaited| match awaited {
                    Awaited::Barrier(dpid, barrier) => !peers.is_answered(*dpid, *barrier),
                    Awaited::Set(set) => sets.sent.contains_key(set),
                });
                let is_done = job.waits.is_empty() && job.stage != Stage::Settling;
                if !is_done && now < job.until {
                    return true;
                }
                match job.stage {
                    Stage::Adding | Stage::Changing if !job.rest.changes.is_empty() => {
                        let wave = job.rest.changes.pop().unwrap_or_default();
                        let is_last = job.rest.changes.is_empty() && job.rest.removes.is_empty();
                        job.waits = change(&wave, !is_last, (routes, peers, sets), world);
                        job.until = now + PATIENCE;
                        job.stage = Stage::Changing;
                    }
                    Stage::Adding | Stage::Changing if job.rest.removes.is_empty() => return false,
                    Stage::Adding | Stage::Changing => {
                        job.until = now + UNDER_WAY;
                        job.stage = Stage::Settling;
                    }
                    Stage::Settling => {
                        remove(&job.rest.removes, routes, peers, world);
                        return false;
                    }
                }
            }
        });
    }

    /// Handles the outcome of a change set: sends its hops again if the switch has not applied it, and sends the hops that the
    /// routes have changed since.
    pub(crate) fn on_changed(
        &mut self,
        (switch, set, is_applied): (Switch, u64, bool),
        routes: &Routes,
        peers: &mut Peers,
        world: &mut impl World,
    ) {
        let is_of_connection = self.sets.sent.get(&set).is_some_and(|it| it.switch == switch);
        if is_of_connection && let Some(Sent { hops, .. }) = self.sets.sent.remove(&set) {
            let is_as_sent = |(key, at): &HopOf, act: &Act| {
                routes.get(key).is_some_and(|route| route.hops.get(at) == Some(act))
            };
            let differs = |(hop, act): &&(HopOf, Act)| !is_applied || !is_as_sent(hop, act);
            let again: Vec<HopOf> = hops.iter().filter(differs).map(|(hop, _)| *hop).collect();
            send(&again, routes, peers, world);
            remove(&again, routes, peers, world);
            let waits = if again.is_empty() { Vec::new() } else { barriers(&again, peers, world) };
            let job = self.jobs.iter_mut().find(|job| job.waits.contains(&Awaited::Set(set)));
            if let Some(job) = job {
                job.waits.extend(waits);
            }
        }
        self.go_on(routes, peers, world);
    }

    /// Handles the loss of outcomes, perhaps of the change sets under way. A set whose outcome does not come in time is sent again.
    /// Until then it stays under way, because it can still be applied: messages must not overtake it.
    pub(crate) fn on_lost(&mut self, now: Duration) {
        for sent in self.sets.sent.values_mut() {
            sent.until.get_or_insert(now + OUTCOME_PATIENCE);
        }
    }

    /// Handles the change sets whose outcomes count as lost.
    pub(crate) fn expire(&mut self, routes: &Routes, peers: &mut Peers, world: &mut impl World) {
        let now = world.now();
        let is_lost = |sent: &Sent| sent.until.is_some_and(|until| until <= now);
        let lost = self.sets.sent.iter().filter(|(_, sent)| is_lost(sent));
        let lost: Vec<(u64, Switch)> = lost.map(|(set, sent)| (*set, sent.switch)).collect();
        for (set, switch) in lost {
            self.on_changed((switch, set, false), routes, peers, world);
        }
    }

    /// Returns when [`go_on`](Self::go_on) is to be called at the latest.
    pub(crate) fn wake_at(&self) -> Option<Duration> {
        let sets = self.sets.sent.values().filter_map(|sent| sent.until);
        self.jobs.iter().map(|job| job.until).chain(sets).min()
    }
}

/// Changes the hops of a wave: those of a switch in one step, if there are several, and behind a set that the switch has not
/// answered. Returns the awaited answers, if the move `waits` for them.
fn change(
    wave: &[HopOf],
    waits: bool,
    (routes, peers, sets): (&Routes, &mut Peers, &mut Sets),
    world: &mut impl World,
) -> Vec<Awaited> {
    let mut at_switch: BTreeMap<Dpid, Vec<HopOf>> = BTreeMap::new();
    for hop in wave {
        at_switch.entry(hop.1.0).or_default().push(*hop);
    }
    let mut awaited = Vec::new();
    for (dpid, hops) in at_switch {
        let Some(switch) = peers.switch(dpid) else { continue };
        let may_have_bundles = switch.version.features().may_have_bundles();
        if !may_have_bundles || hops.len() < 2 && !sets.is_pending_at(dpid) {
            send(&hops, routes, peers, world);
            if waits {
                awaited.extend(barriers(&hops, peers, world));
            }
            continue;
        }
        for hops in parts(&hops) {
            let present = hops.iter().filter_map(|(key, at)| {
                let route = routes.get(key)?;
                let act = *route.hops.get(at)?;
                Some((((*key, *at), act), route.flow(key, *at, act)))
            });
            let (hops, flows): (Vec<_>, Vec<Flow>) = present.unzip();
            if flows.is_empty() {
                continue;
            }
            awaited.push(Awaited::Set(sets.send(switch, hops, flows, world)));
        }
    }
    awaited
}

/// Divides hops into parts for a change set each. The hops of a route stay together.
fn parts(hops: &[HopOf]) -> Vec<&[HopOf]> {
    let (mut parts, mut start) = (Vec::new(), 0);
    for route in hops.chunk_by(|a, b| a.0 == b.0).scan(0, |end, route| {
        *end += route.len();
        Some(*end)
    }) {
        if route - start >= MOST_IN_SET {
            parts.push(&hops[start..route]);
            start = route;
        }
    }
    if start < hops.len() {
        parts.push(&hops[start..]);
    }
    parts
}

/// Sends the hops as the routes have them now: a later move may have changed them.
fn send(hops: &[HopOf], routes: &Routes, peers: &Peers, world: &mut impl World) {
    for (key, at) in hops {
        let Some(route) = routes.get(key) else { continue };
        let (Some(act), Some(switch)) = (route.hops.get(at), peers.switch(at.0)) else { continue };
        world.send(switch, Message::Flow(route.flow(key, *at, *act)));
    }
}

/// Deletes hops that the routes do not have now.
pub(crate) fn remove(hops: &[HopOf], routes: &Routes, peers: &Peers, world: &mut impl World) {
    for (key, at) in hops {
        let is_used = routes.get(key).is_some_and(|route| route.hops.contains_key(at));
        if let Some(switch) = peers.switch(at.0).filter(|_| !is_used) {
            let flow = Flow::delete_strict(key.match_at(at.1), PRIORITY);
            world.send(switch, Message::Flow(flow));
        }
    }
}

fn barriers(hops: &[HopOf], peers: &mut Peers, world: &mut impl World) -> Vec<Awaited> {
    let switches: BTreeSet<Dpid> = hops.iter().map(|(_, at)| at.0).collect();
    let barrier = |dpid| Some(Awaited::Barrier(dpid, peers.barrier(dpid, world)?));
    switches.into_iter().filter_map(barrier).collect()
}

#[cfg(test)]
mod tests {
    use rosemary_sdk::{MacAddr, PortNo};

    use super::*;

    fn key(number: u8) -> Key {
        Key { src: MacAddr([number; 6]), dst: MacAddr([0; 6]), tag: None }
    }

    fn end(dpid: u64, port: u32) -> End {
        (Dpid(dpid), PortNo(port))
    }

    #[test]
    fn hops_change_from_the_destination_on() {
        let act = |port| Act::Port(PortNo(port));
        let before: Hops =
            [(end(1, 1), act(2)), (end(2, 1), act(2)), (end(2, 3), act(2)), (end(4, 1), act(2))]
                .into();
        let order =
            [(end(1, 1), act(9)), (end(2, 1), act(9)), (end(2, 3), act(9)), (end(3, 1), act(2))];
        let mut what = Move::default();
        what.add(key(1), &before, &order);
        let hop = |dpid, port| (key(1), end(dpid, port));
        assert_eq!(what.adds, [hop(3, 1)]);
        assert_eq!(what.changes, [vec![hop(2, 3), hop(2, 1)], vec![hop(1, 1)]]);
        assert_eq!(what.removes, [hop(4, 1)]);
    }

    #[test]
    fn hops_of_a_route_are_in_one_set() {
        let hops: Vec<HopOf> = (0..=255)
            .flat_map(|number| (0..5).map(move |port| (key(number), end(1, port))))
            .collect();
        let parts = parts(&hops);
        assert!(parts.len() > 1 && parts.concat() == hops);
        for part in &parts {
            assert!(part.len() % 5 == 0 && part.len() < MOST_IN_SET + 5, "{}", part.len());
        }
    }
}
