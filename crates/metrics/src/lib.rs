//! Writes Rosemary's metrics as the text that Prometheus reads (text format 0.0.4). No I/O.
//!
//! [`text`] is a function from a [`Snapshot`] of the answers of monitor and kernel. [`METRICS`] lists all metrics; `docs/metrics.md`
//! explains them, and a test compares the two.
//!
//! The number of series is bounded: labels come from switches (at most [`MOST_SWITCHES`] of them), their ports (at most
//! [`MOST_PORTS`]), links that are down (at most [`MOST_LINKS_DOWN`]), programs of the configuration, names of limits, and causes of incidents. Nothing that packets or clients choose is a label.
//!
//! | module | purpose |
//! | --- | --- |
//! | `catalogue` | names, types and explanations of all metrics |
//! | `exposition` | writes families of samples |
//! | `histogram` | counts durations in buckets |
//! | `incidents` | counts incidents by program and cause |
//! | `network` | ports, links and hosts, as services know them |
//! | `snapshot` | which figures the metrics show |

#![forbid(unsafe_code)]

mod catalogue;
mod exposition;
mod histogram;
mod incidents;
mod network;
mod snapshot;

pub use self::catalogue::{METRICS, Metric, MetricKind};
pub use self::histogram::Histogram;
pub use self::incidents::IncidentCounts;
pub use self::network::{LinkDown, Links, MOST_LINKS_DOWN, MOST_PORTS, Network, PortTraffic};
pub use self::snapshot::{MOST_SWITCHES, Snapshot, text};

/// The media type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
