//! Removes flows that an app wrote before its priority band moved.
//!
//! A flow keeps its priority when the operator changes the band of its app, for example by adding a second app that writes
//! flows. It could then outrank a guard, or the app's own newer flows. The app starts again with its new band and writes the
//! flows that it needs. After [`GRACE`] the worker reads each switch and removes the app's earlier flows. Packets of
//! established traffic then reach the app, which answers them.

use std::time::{Duration, Instant};

use openflow::{FlowMod, FlowModCommand, FlowStats, MultipartReply, ReplyBody, Version};
use tracing::warn;

use super::Worker;
use crate::app_port::AppPort;
use crate::flow_reader::Reading;
use crate::ids::AppSlot;
use crate::rewrite;
use crate::switch::Switch;
use control::policy::Band;

/// The time from the start of an app with its new band until its earlier flows are removed.
const GRACE: Duration = Duration::from_secs(2);

impl Worker {
    /// Notes that the band of an app has moved.
    pub(super) fn band_moved(&mut self, slot: AppSlot, now: Instant) {
        self.dispatch.app_ports[slot].band_moved = Some(now);
        let switches = self.switches.all().0;
        switches.for_each(|switch| switch.flow_reader.request_band_check(now + GRACE));
    }
}

/// Prepares the check of a switch that has just connected.
pub(super) fn new_switch(switch: &mut Switch, app_ports: &[AppPort], now: Instant) {
    if app_ports.iter().any(|port| port.band_moved.is_some()) {
        switch.flow_reader.request_band_check(now + GRACE);
    }
}

/// Writes the messages that remove earlier flows of apps whose band has moved. If `is_full`, because much output waits, or an
/// app does not run, a later reading does so.
pub(super) fn remove_earlier_flows(
    reading: &mut Reading,
    (version, message): (Version, &[u8]),
    app_ports: &[AppPort],
    (out, is_full): (&mut Vec<u8>, bool),
    mut next_xid: impl FnMut() -> u32,
    now: Instant,
) {
    let Ok(MultipartReply { body: ReplyBody::Flow(flows), .. }) = MultipartReply::decode(message)
    else {
        return;
    };
    let Some(check) = &mut reading.band_check else { return };
    for flow in flows {
        let owner = rewrite::owner(flow.cookie);
        let port = app_ports.iter().find(|port| port.app == owner && !port.is_absent);
        let Some((port, moved)) = port.and_then(|port| Some((port, port.band_moved?))) else {
            continue;
        };
        if !is_earlier(&flow, port.policy.band, now.saturating_duration_since(moved)) {
            continue;
        }
        reading.is_cut_short |= is_full;
        check.waits_for_app |= !port.can_be_informed();
        if is_full || !port.can_be_informed() {
            continue;
        }
        let delete = FlowMod::new(FlowModCommand::DeleteStrict, flow.match_);
        let mut delete = delete.priority(flow.priority);
        if version > Version::V1_0 {
            delete = delete.table(flow.table_id).only_cookie(flow.cookie, u64::MAX);
        }
        let xid = next_xid();
        if let Err(error) = openflow::append(out, |out| delete.encode(version, xid, out)) {
            warn!(%error, "could not encode the removal of a flow");
            continue;
        }
        *check.removed.entry(owner).or_default() += 1;
    }
}

/// Whether the app wrote the flow before its band moved to `band`, this long ago.
fn is_earlier(flow: &FlowStats<'_>, band: Band, since: Duration) -> bool {
    let is_in_band = (band.lowest..=band.highest).contains(&flow.priority);
    !is_in_band || flow.duration >= since
}

#[cfg(test)]
mod tests {
    use openflow::{Instructions, Match};

    use super::*;

    #[test]
    fn flow_outside_of_the_band_or_older_than_the_move_is_earlier() {
        let band = Band { lowest: 100, highest: 200 };
        let flow = |priority, seconds| FlowStats {
            table_id: 0,
            duration: Duration::from_secs(seconds),
            priority,
            idle_timeout: 0,
            hard_timeout: 0,
            flags: openflow::FlowModFlags::default(),
            cookie: 0,
            packet_count: 0,
            byte_count: 0,
            match_: Match::new(),
            instructions: Instructions::default(),
        };
        let is_earlier =
            |priority, age| is_earlier(&flow(priority, age), band, Duration::from_secs(5));
        assert!(is_earlier(99, 1) && is_earlier(201, 1));
        assert!(is_earlier(100, 5) && is_earlier(200, 60));
        assert!(!is_earlier(100, 4) && !is_earlier(200, 0));
    }
}
