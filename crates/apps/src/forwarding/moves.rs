//! Moves routes to new hops, make before break: [`Moves`].
//!
//! 1. New hops are added, and each of their switches gets a barrier.
//! 2. When all barriers are answered, hops that lead to the new ones are changed, with barriers again.
//! 3. After that and a pause for packets under way, hops that are not used any more are deleted.
//!
//! A route whose old path is broken does not wait before step 2: its packets are lost meanwhile. A packet that arrives before
//! a hop is added becomes a packet-in and is forwarded by the app. A barrier that is not answered in time is not waited for.

use std::collections::BTreeSet;
use std::time::Duration;

use rosemary_sdk::Dpid;

use super::net::End;
use super::peers::Peers;
use super::routes::{Hops, Key, PRIORITY, Routes};
use super::world::{Act, Flow, Message, World};

/// Longest wait for the answer to a barrier.
const PATIENCE: Duration = Duration::from_millis(500);

/// Time for packets under way on the old path.
const UNDER_WAY: Duration = Duration::from_millis(200);

/// A hop of a route.
type HopOf = (Key, End);

/// The differences between the former hops of some routes and the present ones.
#[derive(Debug, Default)]
pub(crate) struct Move {
    adds: Vec<HopOf>,
    changes: Vec<HopOf>,
    removes: Vec<HopOf>,
}

impl Move {
    /// Adds the differences of one route. `order` lists the present hops from the source on.
    pub(crate) fn add(&mut self, key: Key, before: &Hops, order: &[(End, Act)]) {
        // From the destination on: a hop is there before one that leads to it.
        for (at, act) in order.iter().rev() {
            match before.get(at) {
                None => self.adds.push((key, *at)),
                Some(old) if old != act => self.changes.push((key, *at)),
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

#[derive(Debug)]
struct Job {
    rest: Move,
    stage: Stage,
    /// Switches with the barrier that is to be answered.
    waits: Vec<(Dpid, u64)>,
    /// When the stage ends at the latest.
    until: Duration,
}

/// The moves under way.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    jobs: Vec<Job>,
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
        self.jobs.push(Job { rest: what, stage: Stage::Adding, waits, until });
        self.go_on(routes, peers, world);
    }

    /// Goes on with moves whose barriers are answered or whose time has come.
    pub(crate) fn go_on(&mut self, routes: &Routes, peers: &mut Peers, world: &mut impl World) {
        let now = world.now();
        self.jobs.retain_mut(|job| {
            loop {
                job.waits.retain(|(dpid, barrier)| !peers.is_answered(*dpid, *barrier));
                let is_done = job.waits.is_empty() && job.stage != Stage::Settling;
                if !is_done && now < job.until {
                    return true;
                }
                match job.stage {
                    Stage::Adding => {
                        let changes = std::mem::take(&mut job.rest.changes);
                        send(&changes, routes, peers, world);
                        job.waits = if job.rest.removes.is_empty() {
                            Vec::new()
                        } else {
                            barriers(&changes, peers, world)
                        };
                        job.until = now + PATIENCE;
                        job.stage = Stage::Changing;
                    }
                    Stage::Changing if job.rest.removes.is_empty() => return false,
                    Stage::Changing => {
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

    /// Returns when [`go_on`](Self::go_on) is to be called at the latest.
    pub(crate) fn wake_at(&self) -> Option<Duration> {
        self.jobs.iter().map(|job| job.until).min()
    }
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

fn barriers(hops: &[HopOf], peers: &mut Peers, world: &mut impl World) -> Vec<(Dpid, u64)> {
    let switches: BTreeSet<Dpid> = hops.iter().map(|(_, at)| at.0).collect();
    switches.into_iter().filter_map(|dpid| Some((dpid, peers.barrier(dpid, world)?))).collect()
}
