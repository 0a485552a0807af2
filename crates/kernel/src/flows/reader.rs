//! Decides when the kernel reads the flows of a switch, and sorts them by owner.
//!
//! One reading serves these purposes:
//!
//! * **orphans**: flows, groups and meters of apps that have a number but do not run here any more. They are counted by
//!   owner, and removed if the operator's policy or a command says so.
//! * **kept flows**: each app that writes flows and may read statistics learns which of its flows a switch has after the
//!   switch, the app or the kernel has started.
//! * **foreign flows**: flows of no app of this installation are counted, and removed if an operator says so for the switch. They are
//!   those of another controller, or of an installation whose state was lost.
//! * **a check**: all flows are counted, to compare the image that a flow monitor keeps ([`watch`](super::watch)).
//! * **moved bands**: flows that apps wrote before their priority bands moved are removed (`worker/flows/moved_bands.rs`).
//!
//! ```text
//!  flows ---> groups ---> meters      OpenFlow 1.3, while there are absent apps
//!  flows                              otherwise
//! ```
//!
//! Where a flow monitor keeps an image of the flows, the step for flows is left out unless the flows themselves are needed
//! ([`Reading::needs_flows`]): to inform apps, to remove flows one by one, or for the check.
//!
//! The parts of a reply are handled as they arrive and not kept, so memory does not grow with the number of flows. A worker
//! reads [`AT_ONCE`] switches at a time. A switch that does not answer gives up its place after [`HESITATION`], and one whose
//! reply continues after [`TURN`], so that neither delays others. A reply longer than [`LONGEST`] is given up.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use openflow::Version;

use super::requests::Reason;
use super::watch::Tally;
use crate::ids::AppSlot;
use crate::plan::Set;
use control::app::{AbsentApp, AppId};

/// Most switches of a worker that answer at the same time.
pub(crate) const AT_ONCE: usize = 16;

/// Time without a part after which a switch no longer counts as answering.
const HESITATION: Duration = Duration::from_millis(250);

/// Time after which a switch that is still answering gives up its place: the reply of a hostile switch has no end.
const TURN: Duration = Duration::from_secs(1);

/// Longest duration of a reading: a switch with a hundred thousand flows that sends a thousand in a second needs less.
const LONGEST: Duration = Duration::from_secs(300);

/// Time without a part after which a reading has failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Least time before a reading for apps that have been informed before, so that an app that restarts again and again does not load
/// switches. An app is informed for the first time at once: it cannot move its flows before.
const INTERVAL: Duration = Duration::from_secs(2);

/// Time in which an app writes the flows again that it wrote before its band moved. Then its earlier ones are removed.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// Time after which a failed reading is repeated.
const RETRY: Duration = Duration::from_secs(60);

/// The apps that have a number and do not run here; `true` if what they own is removed.
#[derive(Debug, Default)]
pub(crate) struct AbsentApps(BTreeMap<AppId, bool>);

impl AbsentApps {
    /// Adds apps.
    pub(crate) fn add(&mut self, apps: &[AbsentApp]) {
        self.0.extend(apps.iter().map(|absent| (absent.app, absent.remove)));
    }

    /// Removes an app, because it runs.
    pub(crate) fn runs(&mut self, app: AppId) {
        self.0.remove(&app);
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is one of them.
    pub(crate) fn has(&self, app: AppId) -> bool {
        self.0.contains_key(&app)
    }

    /// The app that this meter belongs to. Apps of different installations share the numbers of meters.
    pub(crate) fn owner_of_meter(&self, meter_id: u32) -> Option<AppId> {
        self.0.keys().copied().find(|app| app.meters().contains(&meter_id))
    }

    /// Whether what this app owns is removed, `all` if the operator removes what all absent apps own.
    pub(crate) fn loses(&self, app: AppId, all: bool) -> bool {
        self.0.get(&app).is_some_and(|remove| *remove || all)
    }
}

/// The numbers of flows, groups and meters of an app in a switch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) flows: u32,
    pub(crate) groups: u32,
    pub(crate) meters: u32,
}

/// The possessions of each app in a switch.
pub(crate) type ByOwner = BTreeMap<AppId, Owned>;

/// The step of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Flows,
    Groups,
    Meters,
}

/// A reading in progress.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) step: Step,
    /// The only app whose flows were requested; `None` for all flows.
    pub(crate) only: Option<AppId>,
    /// The apps that learn which flows they have, each with its instance.
    pub(crate) inform: Vec<Informed>,
    /// Whether all absent apps lose what they own.
    pub(crate) removes_all: bool,
    /// Whether foreign flows are removed.
    pub(crate) removes_foreign: bool,
    /// Number of flows of no app of this installation.
    pub(crate) foreign: u32,
    /// Apps lose the flows that they wrote before their bands moved, if this reading is for that.
    pub(crate) band_check: Option<BandCheck>,
    /// The flows are counted to compare the image, if this reading is for that.
    pub(crate) check: Option<ImageCheck>,
    pub(crate) found: ByOwner,
    pub(crate) removed: ByOwner,
    /// The switch has more to remove than fits into its output.
    pub(crate) is_cut_short: bool,
    began: Instant,
    last_part: Instant,
}

/// The removal of flows that apps wrote before their bands moved.
#[derive(Debug, Default)]
pub(crate) struct BandCheck {
    /// The number of flows that were removed from each app.
    pub(crate) removed: BTreeMap<AppId, u32>,
    /// An app whose band has moved does not run, so its earlier flows stay until a later check.
    pub(crate) waits_for_app: bool,
}

/// The numbers of flows, to compare the image of the flows with them.
#[derive(Debug, Default)]
pub(crate) struct ImageCheck {
    /// The numbers of flows in the parts of the reply so far.
    pub(crate) tally: Tally,
    /// Most tables and owners in the tally. The image has no more, so more make a difference in any case.
    pub(crate) most: usize,
    /// The number of reports of the flow monitor before the request.
    pub(crate) reports: u64,
}

impl ImageCheck {
    /// Counts a flow of the switch.
    pub(crate) fn count(&mut self, table: u8, owner: AppId) {
        if self.tally.len() <= self.most || self.tally.contains_key(&(table, owner)) {
            *self.tally.entry((table, owner)).or_default() += 1;
        }
    }
}

/// The possessions of apps by the image of a switch's flows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KnownFlows {
    /// Flows of no app of this installation.
    pub(crate) foreign: u32,
    /// Whether an absent app that loses its flows has some.
    pub(crate) has_lost: bool,
    /// Whether an app may have flows that it wrote before its band moved.
    pub(crate) has_earlier: bool,
}

impl Reading {
    /// Whether the switch must list its flows. `known` is what the image of its flows says; `None` if there is no whole image.
    pub(crate) fn needs_flows(&self, version: Version, known: Option<KnownFlows>) -> bool {
        let Some(known) = known else { return true };
        self.check.is_some()
            || !self.inform.is_empty()
            || self.removes_foreign && known.foreign > 0
            || known.has_lost && !version.features().cookie_masks
            || self.band_check.is_some() && known.has_earlier
    }

    /// Why the switch must list its flows.
    pub(crate) fn reason(&self) -> Reason {
        if self.check.is_some() {
            Reason::Check
        } else if !self.inform.is_empty() {
            Reason::Apps
        } else if self.band_check.is_some() {
            Reason::Bands
        } else {
            Reason::Orphans
        }
    }
}

/// An app that receives its flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Informed {
    pub(crate) slot: AppSlot,
    pub(crate) life: u16,
    /// A part did not reach it.
    pub(crate) has_gap: bool,
}

/// The flows that a reading removes.
#[derive(Debug, Clone, Copy, Default)]
struct Removals {
    /// Whether all absent apps lose what they own.
    all: bool,
    /// Whether foreign flows are removed.
    foreign: bool,
}

impl Removals {
    fn add(&mut self, more: Self) {
        self.all |= more.all;
        self.foreign |= more.foreign;
    }
}

/// The readings of one switch.
#[derive(Debug, Default)]
pub(crate) struct FlowReader {
    pub(crate) reading: Option<Reading>,
    /// All flows must be read, at this time.
    due: Option<Instant>,
    /// All flows must be read at this time, because the band of an app has moved.
    band_check: Option<Instant>,
    /// All flows must be read for this comparison with the image.
    check: Option<ImageCheck>,
    /// Whether an operator waits for it.
    pub(crate) is_awaited: bool,
    /// Removals of the next reading.
    removes: Removals,
    /// Removals of the last reading that removed something.
    removed: Removals,
    /// Whether the last band check removed flows.
    removed_earlier: bool,
    /// The apps that have not been informed yet.
    pub(crate) uninformed: Set,
    /// The apps for which there was a reading on this connection.
    informed: Set,
    /// When the last reading ended.
    ended: Option<Instant>,
    /// Whether it failed.
    pub(crate) has_failed: bool,
    /// What absent apps have here, by the last whole reading.
    pub(crate) found: ByOwner,
    /// Number of foreign flows, by the last whole reading.
    pub(crate) foreign: u32,
}

impl FlowReader {
    /// Requests a reading of all flows.
    pub(crate) fn request(&mut self, now: Instant) {
        self.due = Some(now);
    }

    /// Requests a reading at this time, which removes the flows that apps wrote before their bands moved.
    pub(crate) fn request_band_check(&mut self, at: Instant) {
        self.band_check = Some(at);
    }

    /// Requests a reading to compare the image of the flows. `reports` is the number of its reports.
    pub(crate) fn request_check(&mut self, check: ImageCheck) {
        self.check = Some(check);
    }

    /// Whether an app would be informed by a reading now.
    pub(crate) fn may_inform(&self, ready: Set) -> bool {
        !self.to_inform(ready).is_empty()
    }

    /// Requests a reading that repeats removals that the switch has refused or lost.
    pub(crate) fn repeat_removal(&mut self, now: Instant) {
        self.request(now);
        self.removes.add(self.removed);
        if self.removed_earlier {
            self.request_band_check(now);
        }
    }

    /// Requests a reading for an operator, which removes what all absent apps own if `removes_all`, and also foreign flows if
    /// `removes_foreign`.
    pub(crate) fn request_for_operator(
        &mut self,
        removes_all: bool,
        removes_foreign: bool,
        now: Instant,
    ) {
        self.request(now);
        self.is_awaited = true;
        self.removes.add(Removals { all: removes_all, foreign: removes_foreign });
    }

    /// Whether the switch answers a request now, so that it takes one of the worker's places.
    pub(crate) fn takes_place(&self, now: Instant) -> bool {
        let since = |at: Instant| now.saturating_duration_since(at);
        let takes = |it: &Reading| since(it.last_part) < HESITATION && since(it.began) < TURN;
        self.reading.as_ref().is_some_and(takes)
    }

    /// Whether a reading is due. `ready` are the apps that can be informed now.
    pub(crate) fn is_due(&self, ready: Set, now: Instant) -> bool {
        let to_inform = self.to_inform(ready);
        let may_inform = !to_inform.without(self.informed).is_empty()
            || !to_inform.is_empty()
                && self.ended.is_none_or(|ended| now.saturating_duration_since(ended) >= INTERVAL);
        let is_time = |due: Option<Instant>| due.is_some_and(|due| now >= due);
        let is_wanted =
            is_time(self.due) || is_time(self.band_check) || self.check.is_some() || may_inform;
        self.reading.is_none() && is_wanted
    }

    fn to_inform(&self, ready: Set) -> Set {
        Set(self.uninformed.0 & ready.0)
    }

    /// Begins a reading. `identify` names the app and the instance in a slot.
    pub(crate) fn begin(
        &mut self,
        version: Version,
        ready: Set,
        identify: impl Fn(AppSlot) -> (AppId, u16),
        now: Instant,
    ) -> &Reading {
        let to_inform = self.to_inform(ready);
        self.uninformed = self.uninformed.without(to_inform);
        self.informed = self.informed.with(to_inform);
        let inform = to_inform.iter().map(|slot| {
            let (_, life) = identify(slot);
            Informed { slot, life, has_gap: false }
        });
        let inform: Vec<Informed> = inform.collect();
        // Apps that learn now which flows they have need time to write them with their present priorities.
        if !inform.is_empty() {
            self.band_check = self.band_check.map(|at| at.max(now + GRACE));
        }
        let checks_bands = self.band_check.take_if(|at| now >= *at).is_some();
        let check = self.check.take();
        let is_due = self.due.take().is_some();
        let all = is_due || checks_bands || check.is_some() || !version.features().cookie_masks;
        let only = match inform[..] {
            [Informed { slot, .. }] if !all => Some(identify(slot).0),
            _ => None,
        };
        let removes = std::mem::take(&mut self.removes);
        self.reading.insert(Reading {
            step: Step::Flows,
            only,
            inform,
            removes_all: removes.all,
            removes_foreign: removes.foreign,
            foreign: 0,
            band_check: checks_bands.then(BandCheck::default),
            check,
            found: ByOwner::new(),
            removed: ByOwner::new(),
            is_cut_short: false,
            began: now,
            last_part: now,
        })
    }

    /// Notes that a part has arrived, or that the next step was requested.
    pub(crate) fn progress(&mut self, now: Instant) {
        if let Some(reading) = &mut self.reading {
            reading.last_part = now;
        }
    }

    /// Returns why the reading has failed, as a phrase about the switch, if its reply is overdue or too long.
    pub(crate) fn failure(&self, now: Instant) -> Option<&'static str> {
        let reading = self.reading.as_ref()?;
        let since = |at: Instant| now.saturating_duration_since(at);
        if since(reading.last_part) >= PATIENCE {
            Some("it did not answer")
        } else {
            (since(reading.began) >= LONGEST).then_some("its answer has no end")
        }
    }

    /// Ends the reading; returns it. `keeps_removed`: the switch has not carried out earlier removals, so what was removed
    /// still counts as found.
    pub(crate) fn end(
        &mut self,
        has_failed: bool,
        keeps_removed: bool,
        now: Instant,
    ) -> Option<Reading> {
        let mut reading = self.reading.take()?;
        self.ended = Some(now);
        if !reading.removed.is_empty() {
            self.removed = Removals { all: reading.removes_all, foreign: reading.removes_foreign };
        }
        if let Some(check) = &reading.band_check {
            self.removed_earlier = !check.removed.is_empty();
        }
        if reading.only.is_none() {
            self.is_awaited &= self.due.is_some(); // a later request waits for the next reading
            self.has_failed = has_failed;
            if has_failed {
                self.due = self.due.or(Some(now + RETRY));
            } else {
                self.found = std::mem::take(&mut reading.found);
                self.foreign = reading.foreign;
                if keeps_removed && let Some(kept) = reading.removed.get(&AppId::OTHER) {
                    self.foreign = self.foreign.saturating_add(kept.flows);
                }
                for app in reading.removed.keys().filter(|_| !keeps_removed) {
                    self.found.remove(app);
                }
            }
            let again = reading.band_check.as_ref().and_then(|check| {
                if reading.is_cut_short && !has_failed {
                    return Some(now + INTERVAL);
                }
                (has_failed || check.waits_for_app).then_some(now + RETRY)
            });
            self.band_check = self.band_check.or(again);
            if reading.is_cut_short {
                self.due = self.due.or(Some(now + INTERVAL));
            }
        }
        Some(reading)
    }
}

#[cfg(test)]
mod tests;
