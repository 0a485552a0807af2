//! What an app has used of what it may: messages in this second, buffers that it was given.

use std::time::{Duration, Instant};

use crate::check::Allowed;
use crate::policy::Quota;

const SECOND: Duration = Duration::from_secs(1);

/// Messages of the second that runs.
#[derive(Debug)]
pub(crate) struct Spent {
    began: Instant,
    flow_mods: u32,
    packet_outs: u32,
    requests: u32,
}

impl Spent {
    pub(super) fn new(now: Instant) -> Self {
        Self { began: now, flow_mods: 0, packet_outs: 0, requests: 0 }
    }

    /// Counts a message. `false` if it is above the quota.
    pub(crate) fn spend(&mut self, what: Allowed, quota: Quota, now: Instant) -> bool {
        if now.saturating_duration_since(self.began) >= SECOND {
            *self = Self::new(now);
        }
        let (spent, most) = match what {
            Allowed::FlowMod { .. } | Allowed::GroupMod | Allowed::MeterMod | Allowed::Config => {
                (&mut self.flow_mods, quota.flow_mods)
            }
            Allowed::PacketOut => (&mut self.packet_outs, quota.packet_outs),
            Allowed::Request(_) | Allowed::Experimenter => (&mut self.requests, quota.requests),
        };
        let within = *spent < most;
        *spent += u32::from(within);
        within
    }
}

/// Buffers of switches whose packets the app was given: the last of each place.
///
/// Switches number their buffers from a small range, so a table by the number's low bits keeps
/// those that can still be there.
#[derive(Debug, Default)]
pub(crate) struct Given(Vec<(u64, u32, u32)>);

const PLACES: usize = 4096;

impl Given {
    /// Notes a buffer of this connection of a datapath.
    pub(super) fn note(&mut self, dpid: u64, epoch: u32, buffer: u32) {
        if self.0.is_empty() {
            self.0 = vec![(0, 0, 0); PLACES];
        }
        self.0[buffer as usize % PLACES] = (dpid, epoch, buffer);
    }

    /// Whether it was noted, and no other in its place since.
    pub(crate) fn has(&self, dpid: u64, epoch: u32, buffer: u32) -> bool {
        self.0.get(buffer as usize % PLACES) == Some(&(dpid, epoch, buffer))
    }
}

#[cfg(test)]
mod tests {
    use openflow::Kind;

    use super::*;
    use crate::check::Expects;

    #[test]
    fn quota_is_full_after_its_messages_and_new_in_the_next_second() {
        let (now, quota) = (Instant::now(), Quota { flow_mods: 2, packet_outs: 1, requests: 1 });
        let mut spent = Spent::new(now);
        let flow_mod = Allowed::FlowMod { sweeps: false };
        let said: Vec<bool> = (0..3).map(|_| spent.spend(flow_mod, quota, now)).collect();
        assert_eq!(said, [true, true, false]);
        assert!(!spent.spend(Allowed::GroupMod, quota, now));
        assert!(!spent.spend(Allowed::MeterMod, quota, now));
        assert!(!spent.spend(Allowed::Config, quota, now));
        assert!(spent.spend(Allowed::PacketOut, quota, now));
        assert!(spent.spend(Allowed::Experimenter, quota, now));
        let barrier = Allowed::Request(Expects::only(Kind::BarrierReply));
        assert!(!spent.spend(barrier, quota, now));
        assert!(spent.spend(flow_mod, quota, now + SECOND));
    }

    #[test]
    fn buffer_is_known_by_its_datapath_connection_and_number() {
        let mut given = Given::default();
        assert!(!given.has(0, 0, 0));
        given.note(1, 2, 5);
        assert!(given.has(1, 2, 5));
        assert!(!given.has(1, 3, 5) && !given.has(2, 2, 5) && !given.has(1, 2, 5 + 4096));
        given.note(1, 2, 5 + 4096);
        assert!(!given.has(1, 2, 5));
    }
}
