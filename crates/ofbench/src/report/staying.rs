//! What is told of switches that stay: idle ones, and quiet ones beside one that floods.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::{Spread, Times};
use crate::load::flood::{Flooded, Served};
use crate::load::idle::Idle;
use crate::load::rate;

/// One run with idle switches, and what the controller's processes used meanwhile.
#[derive(Debug, Clone)]
pub struct Sitting {
    /// What was measured.
    pub idle: Idle,
    /// The processor time in the intervals, if it was asked for.
    pub cpu: Option<Duration>,
    /// Bytes in RAM before the first connection and at the end, if that was asked for.
    pub resident: Option<(u64, u64)>,
}

/// What idle switches cost a controller.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Staying {
    /// From the first connection until all switches were settled, in seconds.
    pub all_settled_seconds: f64,
    /// Messages of the controller a second, over all switches, of each interval.
    pub messages_per_second: Spread,
    /// Processor time of the controller by time, in percent of a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<f64>,
    /// Bytes in RAM that each switch added to the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_bytes_per_switch: Option<f64>,
}

impl Staying {
    /// What several runs with so many switches came to. Of memory the first counts: a controller keeps
    /// what it had.
    pub fn of(runs: &[Sitting], switches: usize) -> Self {
        let length: Duration = runs.iter().map(|run| run.idle.length).sum();
        let cpu = runs.iter().map(|run| run.cpu).sum::<Option<Duration>>();
        let resident = runs.first().and_then(|run| run.resident);
        Self {
            all_settled_seconds: runs
                .iter()
                .map(|run| run.idle.all_settled.as_secs_f64())
                .fold(0.0, f64::max),
            messages_per_second: Spread::of(
                runs.iter().flat_map(|run| run.idle.messages_per_second.iter().copied()),
            ),
            cpu_percent: cpu
                .map(|cpu| 100.0 * cpu.as_secs_f64() / length.as_secs_f64().max(f64::MIN_POSITIVE)),
            #[expect(clippy::cast_precision_loss, reason = "there are few switches")]
            resident_bytes_per_switch: resident
                .map(|(before, with)| rate(with.saturating_sub(before), switches.max(1) as f64)),
        }
    }
}

/// How long switches waited that want little.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reactions {
    /// From echo request to reply.
    pub echo_us: Option<Times>,
    /// From the packet-in of an ARP request to its being flooded.
    pub arp_us: Option<Times>,
    /// From a port's going down to the flow-mod that deletes what leads there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_us: Option<Times>,
    /// From the begin of a connection to the switch that is settled.
    pub handshake_us: Option<Times>,
    /// What was given up as unanswered.
    pub unanswered: u64,
}

impl Reactions {
    fn of(runs: &[&Served]) -> Self {
        let times = |of: fn(&Served) -> &Histogram<u64>| {
            let mut all = crate::load::times();
            for run in runs {
                all += of(run); // all have the same bounds
            }
            Times::of(&all)
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

/// What a controller did for quiet switches while another flooded it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fairness {
    /// Without the flood.
    pub alone: Reactions,
    /// Beside it.
    pub beside: Reactions,
    /// Packet-ins of the flood a second, of each interval.
    pub flood_per_second: Spread,
    /// Packet-outs a second that answered them.
    pub flood_answered_per_second: Spread,
    /// ARP requests of the switch that floods, among its flood.
    pub flood_arps: u64,
    /// Those of them that were flooded.
    pub flood_arps_answered: u64,
}

impl Fairness {
    /// What several runs came to.
    pub fn of(runs: &[Flooded]) -> Self {
        let spread = |of: fn(&Flooded) -> &[f64]| Spread::of(runs.iter().flat_map(of).copied());
        Self {
            alone: Reactions::of(&runs.iter().map(|run| &run.alone).collect::<Vec<_>>()),
            beside: Reactions::of(&runs.iter().map(|run| &run.beside).collect::<Vec<_>>()),
            flood_per_second: spread(|run| &run.sent_per_second),
            flood_answered_per_second: spread(|run| &run.answered_per_second),
            flood_arps: runs.iter().map(|run| run.arps).sum(),
            flood_arps_answered: runs.iter().map(|run| run.arps_answered).sum(),
        }
    }
}
