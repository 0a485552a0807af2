//! Repeats the reports of learned hosts in rotation, a bounded number in each tick.
//!
//! The service `hosts` forgets silent hosts, and an app whose ring is full loses reports. So each host is reported again about once in
//! [`REPEAT`]. With more hosts than [`MOST_PER_TICK`] allows, a round takes longer. The first round, which begins when the device is up,
//! sends the most in each tick.

use std::ops::Bound;
use std::time::{Duration, Instant};

use openflow::MacAddr;

use super::device::Device;
use crate::session::HostReport;

/// The interval at which a host is reported again.
const REPEAT: Duration = Duration::from_secs(30);

/// The most reports of a tick: 640 in a second.
pub(super) const MOST_PER_TICK: usize = 64;

/// See the module's description.
#[derive(Debug)]
pub(super) struct Rotation {
    /// The host that was reported last; `None` before the first host.
    last: Option<(u32, MacAddr)>,
    is_first_round: bool,
    /// The time of the last call.
    ticked: Instant,
    /// The time since the last report, once for each host: [`REPEAT`] of it is worth a report.
    credit: Duration,
}

impl Rotation {
    pub(super) fn new(now: Instant) -> Self {
        Self { last: None, is_first_round: true, ticked: now, credit: Duration::ZERO }
    }

    /// Returns the reports of this tick.
    pub(super) fn next(&mut self, device: &Device, now: Instant) -> Vec<HostReport> {
        let elapsed = now.saturating_duration_since(self.ticked);
        self.ticked = now;
        let count = u32::try_from(device.hosts.len()).unwrap_or(u32::MAX);
        let most = REPEAT * u32::try_from(MOST_PER_TICK).unwrap_or(u32::MAX);
        self.credit = self.credit.saturating_add(elapsed.saturating_mul(count)).min(most);
        let mut reports = Vec::new();
        while reports.len() < MOST_PER_TICK.min(device.hosts.len())
            && (self.is_first_round || self.credit >= REPEAT)
        {
            let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
            if let Some((name, host)) = device.hosts.range((after, Bound::Unbounded)).next() {
                self.last = Some(*name);
                self.credit = self.credit.saturating_sub(REPEAT);
                reports.push(*host);
            } else {
                (self.last, self.is_first_round) = (None, false);
            }
        }
        self.is_first_round &= !device.hosts.is_empty();
        reports
    }
}
