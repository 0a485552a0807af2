//! Removes flows that an app wrote before its priority band moved.
//!
//! A flow keeps its priority when the operator changes the band of its app, for example by adding a second app that writes
//! flows. It could then outrank a guard, or the app's own newer flows. The app starts again with its new band and writes the
//! flows that it needs. [`GRACE`] later the worker reads each switch and removes the app's earlier flows. Packets of
//! established traffic then reach the app, which answers them.
//!
//! A kernel that starts after the change does not know when a band has moved. It removes the flows outside of the bands in
//! the same way: each switch is checked once, [`GRACE`] after it has connected.
//!
//! An app that learns which flows a switch has sees its earlier ones with [`rewrite::EARLIER`] as priority. It can write
//! them again before they are removed.

use std::time::{Duration, Instant};

use openflow::{FlowMod, FlowModCommand, MultipartReply, ReplyBody, Version};

use super::reading::Removals;
use crate::app_port::AppPort;
use crate::flows::reader::{GRACE, Reading};
use crate::ids::AppSlot;
use crate::rewrite;
use crate::switch::Switch;
use crate::worker::Worker;
use control::policy::Band;

impl Worker {
    /// Notes that the band of an app has moved.
    pub(in crate::worker) fn band_moved(&mut self, slot: AppSlot, now: Instant) {
        self.dispatch.app_ports[slot].band_moved = Some(now);
        let switches = self.switches.all().0;
        switches.for_each(|switch| switch.flow_reader.request_band_check(now + GRACE));
    }
}

/// Prepares the check of a switch that has just connected. The same reading counts foreign flows.
pub(in crate::worker) fn new_switch(switch: &mut Switch, now: Instant) {
    switch.flow_reader.request_band_check(now + GRACE);
}

/// Writes the messages that remove earlier flows of apps whose band has moved. If `is_full`, because much output waits, or an
/// app does not run, a later reading does so.
pub(in crate::worker) fn remove_earlier_flows(
    reading: &mut Reading,
    (version, message): (Version, &[u8]),
    app_ports: &[AppPort],
    removals: &mut Removals<'_>,
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
        let Some(port) = port.filter(|port| is_earlier(port, (flow.priority, flow.duration), now))
        else {
            continue;
        };
        reading.is_cut_short |= removals.is_full;
        check.waits_for_app |= !port.can_be_informed();
        if removals.is_full || !port.can_be_informed() {
            continue;
        }
        let delete = FlowMod::new(FlowModCommand::DeleteStrict, flow.match_);
        let mut delete = delete.priority(flow.priority);
        if version.features().cookie_masks {
            delete = delete.table(flow.table_id).only_cookie(flow.cookie, u64::MAX);
        }
        if !removals.send(|xid, out| delete.encode(version, xid, out)) {
            continue;
        }
        *check.removed.entry(owner).or_default() += 1;
    }
}

/// Whether the app wrote a flow with this priority and this age before its band moved.
pub(in crate::worker) fn is_earlier(port: &AppPort, flow: (u16, Duration), now: Instant) -> bool {
    let since = port.band_moved.map(|moved| now.saturating_duration_since(moved));
    is_earlier_than(port.policy.band, since, flow)
}

/// Whether the app may have written a flow with this priority, whose age is unknown, before its band moved.
pub(in crate::worker) fn may_be_earlier(port: &AppPort, priority: u16) -> bool {
    let band = port.policy.band;
    port.band_moved.is_some() || !(band.lowest..=band.highest).contains(&priority)
}

/// Whether a flow is outside of `band`, or older than the move of the band, if it has moved.
fn is_earlier_than(band: Band, moved: Option<Duration>, (priority, age): (u16, Duration)) -> bool {
    let is_in_band = (band.lowest..=band.highest).contains(&priority);
    !is_in_band || moved.is_some_and(|moved| age >= moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_outside_of_the_band_or_older_than_the_move_is_earlier() {
        let band = Band { lowest: 100, highest: 200 };
        let age = Duration::from_secs;
        let is_earlier =
            |priority, seconds| is_earlier_than(band, Some(age(5)), (priority, age(seconds)));
        assert!(is_earlier(99, 1) && is_earlier(201, 1));
        assert!(is_earlier(100, 5) && is_earlier(200, 60));
        assert!(!is_earlier(100, 4) && !is_earlier(200, 0));
        let is_earlier = |priority| is_earlier_than(band, None, (priority, age(60)));
        assert!(is_earlier(99) && is_earlier(201));
        assert!(!is_earlier(100) && !is_earlier(200));
    }
}
