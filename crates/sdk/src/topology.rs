//! Finds paths through the network that the topology service has discovered.
//!
//! [`Topology`] follows the service's table for an application that names `topology` in its `services`. [`Graph`] holds the switches, ports and links of the service's table. It follows the table change by change, and
//! computes distances and the spanning tree when an application asks for them.
//!
//! | question | method |
//! | --- | --- |
//! | the shortest path | [`Graph::path`] |
//! | the best few paths | [`Graph::paths`] |
//! | paths that share no link | [`Graph::disjoint_paths`] |
//! | all first hops of shortest paths | [`Graph::next_hops`] |
//! | ports through which a flood reaches each switch once | [`Graph::flood_ports`] |
//!
//! These hold for all of them:
//!
//! * A link counts if both of its directions are known and both of its switches are connected. A forged link of one
//!   direction attracts no traffic.
//! * A drained switch is an end of paths, never between their ends.
//! * The result depends on the content of the table alone, so two applications get the same one.

mod client;
mod disjoint;
mod graph;
mod search;
#[cfg(test)]
mod tests;
mod tree;

pub use self::client::{Topology, TopologyEvent};
pub use self::graph::{Graph, RecordChange};
use crate::services::topology::Endpoint;

/// A link in the direction in which a path uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hop {
    /// The port through which packets leave a switch.
    pub from: Endpoint,
    /// The port through which they enter the next.
    pub to: Endpoint,
    /// The cost of the link, at least 1.
    pub metric: u32,
}

/// A path between two switches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Path {
    /// The sum of the metrics.
    pub cost: u64,
    /// The links in order; none from a switch to itself.
    pub hops: Vec<Hop>,
}

impl Path {
    fn of(hops: Vec<Hop>) -> Self {
        Self { cost: hops.iter().map(|hop| u64::from(hop.metric)).sum(), hops }
    }
}
