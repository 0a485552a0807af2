//! Decides by which means the kernel knows the flows of a switch: by the reports of its flow monitor, or by requests.
//!
//! ```text
//!  Waiting ---whole list---> Current ---pause---> Paused ---whole list---> Current
//!     \---refused, no answer, no room---> Off
//! ```
//!
//! While the state is `Current`, the [image](super::image) answers all questions about flows, and no request is sent for them. While
//! it is `Waiting`, the list is on its way. In all other states the kernel polls. `OthersOnly` is for a switch that reports the
//! changes of others and abbreviates the kernel's own: losses are noticed at once, and numbers are requested.
//!
//! An image could differ from the switch by a fault of either side. So each hour all flows are requested and counted
//! ([`CHECK_EVERY`]). If the numbers differ, the switch lists its flows again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dal::FlowMonitor;

use super::image::FlowImage;
use super::reader::ImageCheck;
use crate::memory::Share;
use control::app::AppId;
use control::query::FlowMonitorState;

/// Time between two comparisons of an image with the flows of the switch.
pub(crate) const CHECK_EVERY: Duration = Duration::from_secs(3600);

/// How the kernel knows the flows of a switch.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    state: WatchState,
    image: Option<Box<FlowImage>>,
    /// When the image is compared next.
    check: Option<Instant>,
    /// Whether the switch was asked for a monitor.
    was_asked: bool,
    /// Whether the switch must list its flows again.
    wants_list: bool,
    /// Number of comparisons that have found a difference.
    pub(crate) differences: u64,
}

/// The means by which the flows are known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum WatchState {
    /// By requests.
    #[default]
    Unwatched,
    /// A list of all flows is awaited.
    Waiting,
    /// By reports of all changes.
    Current,
    /// By reports of the changes of others, and requests.
    OthersOnly,
    /// By requests, until the switch resumes its reports.
    Paused,
    /// By requests, for this reason: a phrase about the switch.
    Off(String),
}

impl From<&WatchState> for FlowMonitorState {
    fn from(state: &WatchState) -> Self {
        match state {
            WatchState::Unwatched | WatchState::Off(_) => Self::Off,
            WatchState::Waiting => Self::Waiting,
            WatchState::Current => Self::On,
            WatchState::OthersOnly => Self::Others,
            WatchState::Paused => Self::Paused,
        }
    }
}

/// Numbers of flows by table and owner.
pub(crate) type Tally = BTreeMap<(u8, AppId), u32>;

impl Watch {
    /// Prepares an image, because the switch is asked for its flows.
    pub(crate) fn begin(&mut self, room: Share) {
        self.image = Some(Box::new(FlowImage::new(room)));
        self.state = WatchState::Waiting;
        self.was_asked = true;
    }

    /// Whether the switch has answered the request for a monitor, or stays connected without; `None` if it was not asked.
    pub(crate) fn has_answered(&self) -> Option<bool> {
        self.was_asked.then(|| !self.is_waiting())
    }

    /// Notes that the switch is not asked. `why` is a phrase about it.
    pub(crate) fn refrain(&mut self, why: &str) {
        self.state = WatchState::Off(why.to_owned());
    }

    /// Applies the state of the session's monitor. Returns whether the state is another one now. The first comparison follows
    /// an hour after the first whole list, and up to half an hour later by `dpid`, because many switches connect at once.
    pub(crate) fn observe(&mut self, monitor: FlowMonitor<'_>, dpid: u64, now: Instant) -> bool {
        let Some(image) = &mut self.image else { return false };
        let next = match monitor {
            FlowMonitor::Off(why) => WatchState::Off(why.to_owned()),
            FlowMonitor::On if image.is_complete() => WatchState::Current,
            FlowMonitor::OthersOnly if image.is_complete() => WatchState::OthersOnly,
            // The image stays right until the list ends, unless reports are missing.
            FlowMonitor::Listing if self.state != WatchState::Paused && image.is_complete() => {
                return false;
            }
            FlowMonitor::Listing if self.state == WatchState::Paused => WatchState::Paused,
            FlowMonitor::Listing | FlowMonitor::On | FlowMonitor::OthersOnly => WatchState::Waiting,
            FlowMonitor::Paused => WatchState::Paused,
        };
        match next {
            WatchState::Off(_) => self.image = None,
            WatchState::OthersOnly => image.sees_others_only = true,
            _ => {}
        }
        if next == WatchState::Current && self.check.is_none() {
            let part = u32::from(dpid.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]);
            self.check = Some(now + CHECK_EVERY + CHECK_EVERY * part / 512);
        }
        std::mem::replace(&mut self.state, next.clone()) != next
    }

    /// The state.
    pub(crate) fn state(&self) -> &WatchState {
        &self.state
    }

    /// Why the switch does not report changes, as a phrase about it.
    pub(crate) fn off_reason(&self) -> Option<&str> {
        match &self.state {
            WatchState::Off(why) => Some(why),
            _ => None,
        }
    }

    /// The image, as it is filled.
    pub(crate) fn image_mut(&mut self) -> Option<&mut FlowImage> {
        self.image.as_deref_mut()
    }

    /// The image, while it has all flows of the switch.
    #[inline]
    pub(crate) fn current(&self) -> Option<&FlowImage> {
        self.image.as_deref().filter(|_| self.state == WatchState::Current)
    }

    /// The same, to take changes from it.
    pub(crate) fn current_mut(&mut self) -> Option<&mut FlowImage> {
        self.image.as_deref_mut().filter(|_| self.state == WatchState::Current)
    }

    /// Whether a list of all flows is awaited, so that no other request for flows is needed now.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.state == WatchState::Waiting
    }

    /// Whether the flow monitor reports losses, so that other signs of them do not count.
    #[inline]
    pub(crate) fn reports_losses(&self) -> bool {
        matches!(self.state, WatchState::Current | WatchState::OthersOnly)
    }

    /// Returns the comparison of the image with the flows of the switch that begins now, if one is due.
    pub(crate) fn take_check(&mut self, now: Instant) -> Option<ImageCheck> {
        self.check.filter(|check| now >= *check)?;
        let image = self.current()?;
        let most = image.owners().count() * image.tables().count();
        let check = ImageCheck { tally: Tally::new(), most, reports: image.reports };
        self.check = Some(now + CHECK_EVERY);
        Some(check)
    }

    /// Whether the switch must list its flows again, because the last comparison has shown a difference. Once.
    pub(crate) fn take_wants_list(&mut self) -> bool {
        std::mem::take(&mut self.wants_list)
    }

    /// Compares the image with the numbers of flows that the switch has listed. Returns whether they differ although no flow has
    /// changed since `reports`. The switch lists its flows again after any difference.
    pub(crate) fn differs(&mut self, listed: &Tally, reports: u64) -> bool {
        let Some(image) = self.current() else { return false };
        let mut known = Tally::new();
        for flow in image.flows() {
            *known.entry((flow.table, flow.owner)).or_default() += 1;
        }
        if known == *listed {
            return false;
        }
        let is_sure = image.reports == reports;
        self.wants_list = true;
        self.differences += u64::from(is_sure);
        is_sure
    }
}

#[cfg(test)]
mod tests {
    use openflow::{FlowEntryView, FlowEvent, FlowRemovedReason};

    use super::*;
    use crate::memory::Memory;

    /// A watch whose switch has listed one flow of an app.
    fn watch(now: Instant) -> Watch {
        let mut watch = Watch::default();
        watch.begin(Memory::new(0).flows());
        assert!(watch.is_waiting() && watch.current().is_none());
        let image = watch.image_mut().unwrap();
        image.begin_list();
        image.report(&flow(1)).unwrap();
        image.end_list();
        assert!(watch.observe(FlowMonitor::On, 7, now));
        watch
    }

    fn flow(priority: u16) -> FlowEntryView<'static> {
        let (event, reason) = (FlowEvent::Added, FlowRemovedReason::Delete);
        FlowEntryView { event, reason, table_id: 2, priority, cookie: 9 << 48, match_fields: b"x" }
    }

    #[test]
    fn image_counts_only_while_all_reports_arrive() {
        let now = Instant::now();
        let mut watch = watch(now);
        assert!(watch.current().is_some() && watch.reports_losses());
        assert!(!watch.observe(FlowMonitor::Listing, 7, now) && watch.current().is_some());
        assert!(watch.observe(FlowMonitor::Paused, 7, now));
        assert!(watch.current().is_none() && !watch.reports_losses() && !watch.is_waiting());
        assert!(!watch.observe(FlowMonitor::Listing, 7, now), "it polls until the end of the list");
        assert!(watch.observe(FlowMonitor::On, 7, now) && watch.current().is_some());
        assert!(watch.observe(FlowMonitor::Off("it is full"), 7, now));
        assert!(watch.image_mut().is_none() && !watch.is_waiting());
        assert!(!watch.observe(FlowMonitor::Off("it is full"), 7, now), "once");
    }

    #[test]
    fn switch_without_monitor_is_never_current() {
        let (mut watch, now) = (Watch::default(), Instant::now());
        assert!(!watch.observe(FlowMonitor::On, 7, now));
        assert!(watch.current().is_none() && !watch.is_waiting());
        assert!(watch.take_check(now).is_none() && watch.has_answered().is_none());
    }

    #[test]
    fn image_is_compared_once_an_hour() {
        let start = Instant::now();
        let mut watch = watch(start);
        let minute = Duration::from_secs(60);
        let is_check = |it: &u32| watch.take_check(start + minute * *it).is_some();
        let checks = (0..24 * 60).filter(is_check).count();
        assert!((22..=24).contains(&checks), "{checks} in a day");
    }

    #[test]
    fn difference_counts_only_if_nothing_has_changed_meanwhile() {
        let mut watch = watch(Instant::now());
        let reports = watch.current().unwrap().reports;
        let listed = |flows| Tally::from([((2, AppId(9)), flows)]);
        assert!(!watch.differs(&listed(1), reports) && !watch.take_wants_list());
        assert!(watch.differs(&listed(2), reports));
        assert!(watch.take_wants_list() && !watch.take_wants_list());
        watch.image_mut().unwrap().report(&flow(3)).unwrap();
        assert!(!watch.differs(&listed(1), reports) && watch.take_wants_list());
        assert_eq!(watch.differences, 1);
    }
}
