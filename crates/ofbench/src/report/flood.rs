//! The report of switches beside one that floods.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::{Percentiles, Spread};
use crate::load::flood::{FloodResult, ReactionHistograms};

/// Reaction times of a controller.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReactionTimes {
    /// Time from echo request to reply.
    pub echo_us: Option<Percentiles>,
    /// Time from the packet-in of an ARP request until the controller floods it.
    pub arp_us: Option<Percentiles>,
    /// Time from a port going down until the controller deletes flows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_us: Option<Percentiles>,
    /// Time from the start of a connection until the switch is settled.
    pub handshake_us: Option<Percentiles>,
    /// Number of requests given up without a reaction.
    pub unanswered: u64,
}

impl ReactionTimes {
    fn of(runs: &[&ReactionHistograms]) -> Self {
        let times = |of: fn(&ReactionHistograms) -> &Histogram<u64>| {
            let mut all = crate::load::histogram();
            for run in runs {
                all += of(run); // all have the same bounds
            }
            Percentiles::of(&all)
        };
        Self {
            echo_us: times(|served| &served.echo),
            arp_us: times(|served| &served.arp),
            port_us: times(|served| &served.port),
            handshake_us: times(|served| &served.handshake),
            unanswered: runs.iter().map(|served| served.unanswered).sum(),
        }
    }
}

/// Report of quiet switches while another switch floods the controller.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FloodReport {
    /// Without the flood.
    pub alone: ReactionTimes,
    /// During the flood.
    pub beside: ReactionTimes,
    /// Packet-ins of the flood per second, over the intervals.
    pub flood_per_second: Spread,
    /// Packet-outs per second that answer the flood.
    pub flood_answered_per_second: Spread,
    /// ARP requests in the flood, sent by the flooding switch.
    pub flood_arps: u64,
    /// Number of those that the controller flooded.
    pub flood_arps_answered: u64,
}

impl FloodReport {
    /// Summarises several runs with the same controller.
    pub fn of(runs: &[FloodResult]) -> Self {
        let spread = |of: fn(&FloodResult) -> &[f64]| Spread::of(runs.iter().flat_map(of).copied());
        Self {
            alone: ReactionTimes::of(&runs.iter().map(|run| &run.alone).collect::<Vec<_>>()),
            beside: ReactionTimes::of(&runs.iter().map(|run| &run.beside).collect::<Vec<_>>()),
            flood_per_second: spread(|run| &run.sent_per_second),
            flood_answered_per_second: spread(|run| &run.answered_per_second),
            flood_arps: runs.iter().map(|run| run.arps).sum(),
            flood_arps_answered: runs.iter().map(|run| run.arps_answered).sum(),
        }
    }
}
