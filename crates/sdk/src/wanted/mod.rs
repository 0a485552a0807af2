//! Keeps the flows, groups and meters that an application wants in its switches: [`Wanted`].
//!
//! An application declares an entry once, for one switch or for all. The library adds it to the switches, keeps it in the
//! service `storage`, and restores it after a restart of a switch, of the application, of the kernel or of Rosemary:
//!
//! ```
//! use rosemary_sdk::wanted::{At, Settings, Wanted};
//! use rosemary_sdk::{Action, App, Event, FlowMod, Match, Network, PortNo, export_app};
//!
//! struct Mirror {
//!     wanted: Wanted,
//! }
//!
//! impl App for Mirror {
//!     fn create() -> Self {
//!         Self { wanted: Wanted::new(Settings::default()) }
//!     }
//!
//!     fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
//!         if event == Event::SnapshotBegin {
//!             let out = [Action::output(PortNo(2))];
//!             let flow = FlowMod::add(Match::new().in_port(PortNo(1))).priority(7).apply(&out);
//!             if let Err(error) = self.wanted.flow(At::All, &flow) {
//!                 network.error(&error.to_string());
//!             }
//!         }
//!         for notice in self.wanted.on_event(&event, network) {
//!             network.info(&notice.to_string());
//!         }
//!     }
//!
//!     fn on_wake(&mut self, network: &mut Network<'_>) {
//!         for notice in self.wanted.on_wake(network) {
//!             network.info(&notice.to_string());
//!         }
//!     }
//! }
//!
//! export_app!(Mirror, name = "mirror");
//! ```
//!
//! * **Missing** entries are restored. The library adds its flows with `SEND_FLOW_REM`, so that it learns at once that
//!   somebody deleted one; the application receives that event, too. An entry that the switch has as wanted is not touched: its counters and its age go
//!   on.
//! * **Stray** entries are removed: flows that the library itself once added, which it recognises by [`MARK`] in their
//!   cookies, and groups and meters that were wanted once. With [`Owns::All`] these are all entries of the application.
//!   [`Settings::exceptions`] leaves flows alone by table and cookie. Reactive flows, which the application sends itself,
//!   are never restored, and with [`Owns::Declared`] never removed.
//! * **Whole**: changes that replace or remove several entries of a switch are one [change set](crate::changes), so that no
//!   packet meets a part of them. It has at most 2048 changes; more, and switches without bundles, get single messages,
//!   additions first.
//! * **Paced**: at most [`Settings::messages_per_turn`] messages in each call, only while the ring has room, and no window
//!   of messages before the switch has confirmed the one before.
//! * **Errors** reach the application as [`Notice`]s in words.
//!
//! The application needs the capabilities `flow.write` and `stats.read`, `group.write` and `meter.write` for groups and
//! meters, and `services = ["storage"]`. Without the storage it declares its entries again at each start; without
//! `stats.read` entries are added and never removed.
//!
//! | file | purpose |
//! | --- | --- |
//! | `entry.rs` | an entry and its bytes in the storage |
//! | `set.rs` | all entries, and those of a switch |
//! | `difference.rs` | compares what is wanted with what a switch lists |
//! | `site.rs` | reconciles one switch |
//! | `site/sets.rs` | messages that are sent as one change set |
//! | `window.rs` | messages that a switch has not confirmed yet |
//! | `keeper.rs` | the pages of entries in the storage |
//! | `notice.rs` | the notices that the application receives |

mod difference;
mod entry;
mod keeper;
mod notice;
mod set;
mod site;
mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openflow::{Dpid, FlowMod, GroupMod, Match, MeterMod};

pub use self::difference::Difference;
pub use self::entry::{At, MARK, WantError};

pub use self::notice::Notice;

use self::entry::{Content, Key, WantedEntry, flow_key};
use self::keeper::Keeper;
use self::set::{EntryId, WantedSet};
use self::site::{Site, Turn};
use crate::services::Service;
use crate::{Event, Network};

/// Most entries that an application can want, with notes about earlier groups and meters.
pub const MOST_ENTRIES: usize = 262_144;

/// Which flows of the application the library removes if they are not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owns {
    /// Flows that the library has added itself; [`MARK`] in their cookies says so. Groups and meters that were wanted once.
    Declared,
    /// All flows of the application, whoever added them. Groups and meters, too, with [`Settings::groups_and_meters`].
    All,
}

/// Returns the name by which a [`Notice`] names a wanted flow: `flow table=0,priority=3,in_port=1`.
pub fn flow_name(flow: &FlowMod<'_>) -> String {
    flow_key(flow.table_id, flow.priority, flow.match_.clone()).to_string()
}

/// Flows that are never removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exception {
    /// Those of this table; `None` for all tables.
    pub table: Option<u8>,
    /// Those whose cookie has this value under this mask; `None` for all cookies.
    pub cookie: Option<(u64, u64)>,
}

impl Exception {
    fn covers(&self, table: u8, cookie: u64) -> bool {
        self.table.is_none_or(|it| it == table)
            && self.cookie.is_none_or(|(value, mask)| (cookie ^ value) & mask == 0)
    }
}

/// How [`Wanted`] works.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of the application")]
pub struct Settings {
    /// Which flows are removed if they are not wanted.
    pub owns: Owns,
    /// Flows that are never removed.
    pub exceptions: Vec<Exception>,
    /// With [`Owns::All`]: whether groups and meters that are not wanted are removed, too.
    pub groups_and_meters: bool,
    /// Whether the entries are kept in the service `storage`.
    pub keep: bool,
    /// Time between two readings of a switch without any reason; `None` reads only after something has happened.
    pub check_every: Option<Duration>,
    /// Whether all entries are sent to a switch that has connected or lost flows before it is read, and without a limit. For
    /// guards, whose flows must precede those of other applications. A flow that is there keeps its counters. A switch that was
    /// connected when the application started is read first: the flows of the earlier instance stay in force until one change
    /// set replaces them.
    pub at_once: bool,
    /// Whether the difference is only reported ([`Notice::Difference`]) and nothing is sent.
    pub dry_run: bool,
    /// Most messages that one call sends. A change set counts as its messages, and is not divided.
    pub messages_per_turn: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            owns: Owns::Declared,
            exceptions: Vec::new(),
            groups_and_meters: false,
            keep: true,
            check_every: None,
            at_once: false,
            dry_run: false,
            messages_per_turn: 256,
        }
    }
}

/// The entries that an application wants, and the switches that shall have them.
///
/// The application passes every event to [`on_event`](Self::on_event) and calls [`on_wake`](Self::on_wake).
#[derive(Debug)]
pub struct Wanted {
    settings: Settings,
    set: WantedSet,
    sites: BTreeMap<Dpid, Site>,
    keeper: Keeper,
    keeper_at: Option<Duration>,
    /// When each switch must be served next, earliest first.
    due: BTreeSet<(Duration, Dpid)>,
    due_of: BTreeMap<Dpid, Duration>,
    notices: Vec<Notice>,
    /// Whether the kernel is listing the switches.
    in_snapshot: bool,
}

impl Wanted {
    /// Creates it without entries.
    pub fn new(settings: Settings) -> Self {
        Self {
            keeper: Keeper::new(settings.keep),
            settings,
            set: WantedSet::default(),
            sites: BTreeMap::new(),
            keeper_at: Some(Duration::ZERO),
            due: BTreeSet::new(),
            due_of: BTreeMap::new(),
            notices: Vec::new(),
            in_snapshot: false,
        }
    }

    /// Declares a flow by the flow-mod that adds it; replaces a wanted flow of the same table, priority and match. Returns
    /// whether that changes anything.
    ///
    /// # Errors
    /// [`WantError`]; nothing has changed.
    pub fn flow(&mut self, at: At, flow: &FlowMod<'_>) -> Result<bool, WantError> {
        WantedEntry::flow(at, flow, self.is_marked()).and_then(|entry| self.declare(entry))
    }

    /// Declares a group by the group-mod that adds it; replaces a wanted group of the same number. Returns whether that
    /// changes anything.
    ///
    /// # Errors
    /// [`WantError`]; nothing has changed.
    pub fn group(&mut self, at: At, group: &GroupMod) -> Result<bool, WantError> {
        WantedEntry::group(at, group).and_then(|entry| self.declare(entry))
    }

    /// Declares a meter by the meter-mod that adds it; replaces a wanted meter of the same number. Returns whether that
    /// changes anything.
    ///
    /// # Errors
    /// [`WantError`]; nothing has changed.
    pub fn meter(&mut self, at: At, meter: &MeterMod) -> Result<bool, WantError> {
        WantedEntry::meter(at, meter).and_then(|entry| self.declare(entry))
    }

    /// No longer wants a flow; the library removes it from the switches. Returns whether it was wanted.
    pub fn drop_flow(&mut self, at: At, table: u8, priority: u16, match_: &Match) -> bool {
        self.forget(at, &flow_key(table, priority, match_.clone()))
    }

    /// No longer wants a group; the library removes it from the switches. A switch removes the flows that use it, too.
    /// Returns whether it was wanted.
    pub fn drop_group(&mut self, at: At, number: u32) -> bool {
        self.forget(at, &Key::Group(number))
    }

    /// No longer wants a meter; the library removes it from the switches. A switch removes the flows that use it, too.
    /// Returns whether it was wanted.
    pub fn drop_meter(&mut self, at: At, number: u32) -> bool {
        self.forget(at, &Key::Meter(number))
    }

    /// No longer wants the entries that the application has not declared since it started. For an application that
    /// declares everything at its start; it calls this after [`Notice::Loaded`].
    pub fn keep_only_declared(&mut self) {
        for id in self.set.undeclared() {
            let Some(entry) = self.set.get(id) else { continue };
            let (at, key) = (entry.at, entry.key.clone());
            self.forget(at, &key);
        }
    }

    /// Returns the number of wanted entries, with notes about earlier groups and meters.
    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// Whether nothing is wanted.
    pub fn is_empty(&self) -> bool {
        self.set.len() == 0
    }

    /// Returns the wanted flows of a switch, as they were declared. Flows for all switches are among them.
    pub fn flows(&self, dpid: Dpid) -> impl Iterator<Item = (At, FlowMod<'_>)> {
        let entries = self.set.all_at(dpid).into_iter().filter_map(|id| self.set.get(id));
        entries.filter_map(|entry| match entry.content() {
            Content::Flow(mut flow) => {
                flow.cookie &= !MARK;
                Some((entry.at, flow))
            }
            _ => None,
        })
    }

    /// Returns the wanted groups of a switch, as they were declared. Groups for all switches are among them.
    pub fn groups(&self, dpid: Dpid) -> impl Iterator<Item = GroupMod> {
        let entries = self.set.all_at(dpid).into_iter().filter_map(|id| self.set.get(id));
        entries.filter_map(|entry| match entry.content() {
            Content::Group(group) => Some(group),
            _ => None,
        })
    }

    /// Returns the wanted meters of a switch, as they were declared. Meters for all switches are among them.
    pub fn meters(&self, dpid: Dpid) -> impl Iterator<Item = MeterMod> {
        let entries = self.set.all_at(dpid).into_iter().filter_map(|id| self.set.get(id));
        entries.filter_map(|entry| match entry.content() {
            Content::Meter(meter) => Some(meter),
            _ => None,
        })
    }

    /// Whether the switch is connected, and no message of the library waits to be sent to it or to be confirmed by it.
    pub fn is_settled(&self, dpid: Dpid) -> bool {
        self.sites.get(&dpid).is_some_and(Site::is_settled)
    }

    /// Whether the entries that earlier instances have kept are known.
    pub fn is_loaded(&self) -> bool {
        self.keeper.is_loaded()
    }

    /// Whether every declaration is in the storage.
    pub fn is_saved(&self) -> bool {
        self.keeper.is_saved()
    }

    /// Why the storage refused the last request, as a phrase; `None` if it did not. It is asked again from time to time.
    pub fn save_failure(&self) -> Option<&str> {
        self.keeper.failure()
    }

    /// Reads a switch as soon as nothing else is underway there, and restores or, in a dry run, reports the difference.
    pub fn check(&mut self, dpid: Dpid, network: &Network<'_>) {
        if let Some(site) = self.sites.get_mut(&dpid) {
            site.check(network.now());
            self.serve_at(dpid, Some(network.now()));
        }
    }

    /// Handles an event; the application passes each. Returns what it may want to know.
    pub fn on_event(&mut self, event: &Event<'_>, network: &mut Network<'_>) -> Vec<Notice> {
        self.handle(event, network);
        self.drive(network)
    }

    /// Continues the work that waited for room or time.
    pub fn on_wake(&mut self, network: &mut Network<'_>) -> Vec<Notice> {
        self.drive(network)
    }

    fn is_marked(&self) -> bool {
        self.settings.owns == Owns::Declared
    }

    fn declare(&mut self, entry: WantedEntry) -> Result<bool, WantError> {
        let present = self.set.find(entry.at, &entry.key);
        if let Some(id) = present
            && self.set.get(id).is_some_and(|present| present.is_same(&entry))
        {
            self.set.declare(id);
            return Ok(false);
        }
        if self.set.len() >= MOST_ENTRIES {
            return Err(WantError::TooMany(MOST_ENTRIES));
        }
        if let Some(note) = WantedEntry::note(&entry.key)
            && let Some(id) = self.set.find(At::All, &note.key)
        {
            self.remove(id);
        }
        let (at, size, is_flow) = (entry.at, entry.size(), matches!(entry.key, Key::Flow { .. }));
        let before = present.and_then(|id| self.set.get(id)).map_or(0, WantedEntry::size);
        let (id, replaced) = self.set.insert(entry);
        if let Some(replaced) = replaced {
            self.keeper.remove(replaced, before);
        }
        self.keeper.add(id, size);
        self.keeper_at = Some(Duration::ZERO);
        for dpid in self.sites_of(at) {
            // An entry for one switch counts more than one for all.
            if self.set.get(id).is_some_and(|entry| self.set.at(dpid, &entry.key) == Some(id)) {
                self.with_dpid(dpid, |site| site.want(id, is_flow, replaced));
            }
        }
        Ok(true)
    }

    fn forget(&mut self, at: At, key: &Key) -> bool {
        self.keeper.unwant(at, key);
        let Some(id) = self.set.find(at, key) else { return false };
        self.remove(id);
        // With an entry for one switch, the one for all switches holds there again.
        let other = self.set.find(At::All, key);
        if let Some(note) = WantedEntry::note(key).filter(|_| other.is_none()) {
            let size = note.size();
            let (id, _) = self.set.insert(note);
            self.keeper.add(id, size);
        }
        self.keeper_at = Some(Duration::ZERO);
        let is_flow = matches!(key, Key::Flow { .. });
        self.each_site(at, |site| match other {
            Some(other) => site.want(other, is_flow, Some(id)),
            None => site.unwant(id, key.clone()),
        });
        true
    }

    fn remove(&mut self, id: EntryId) {
        if let Some(entry) = self.set.remove(id) {
            self.keeper.remove(id, entry.size());
        }
    }

    /// Calls `with` for the connected switches of a scope, and serves them in the next turn.
    fn each_site(&mut self, at: At, mut with: impl FnMut(&mut Site)) {
        for dpid in self.sites_of(at) {
            self.with_dpid(dpid, &mut with);
        }
    }

    fn sites_of(&self, at: At) -> Vec<Dpid> {
        match at {
            At::All => self.sites.keys().copied().collect(),
            At::One(dpid) => vec![dpid],
        }
    }

    fn with_dpid(&mut self, dpid: Dpid, with: impl FnOnce(&mut Site)) {
        if let Some(site) = self.sites.get_mut(&dpid) {
            with(site);
            self.serve_at(dpid, Some(Duration::ZERO));
        }
    }

    fn serve_at(&mut self, dpid: Dpid, at: Option<Duration>) {
        let before = match at {
            Some(at) => self.due_of.insert(dpid, at),
            None => self.due_of.remove(&dpid),
        };
        if let Some(before) = before {
            self.due.remove(&(before, dpid));
        }
        if let Some(at) = at {
            self.due.insert((at, dpid));
        }
    }

    fn handle(&mut self, event: &Event<'_>, network: &mut Network<'_>) {
        match event {
            Event::SnapshotEnd => self.in_snapshot = false,
            Event::SnapshotBegin => {
                self.in_snapshot = true;
                self.sites.clear();
                self.due.clear();
                self.due_of.clear();
            }
            Event::SwitchUp(switch) => {
                let is_known = self.sites.get(&switch.dpid).is_some_and(|it| it.switch == *switch);
                if !is_known {
                    self.sites
                        .insert(switch.dpid, Site::new(*switch, &self.settings, network.now()));
                    if self.settings.at_once && !self.settings.dry_run {
                        // A switch of the snapshot has been connected before, and has the flows of an earlier instance.
                        let put = if self.in_snapshot { Site::look_first } else { Site::put_all };
                        self.with_site(switch.dpid, network, put);
                    }
                    self.serve_at(switch.dpid, Some(network.now()));
                }
            }
            Event::SwitchDown(switch)
                if self.sites.get(&switch.dpid).is_some_and(|site| site.switch == *switch) =>
            {
                self.sites.remove(&switch.dpid);
                self.serve_at(switch.dpid, None);
            }
            Event::FlowsMissing(switch) => {
                self.with_site(switch.dpid, network, Site::lost);
            }
            Event::FlowsKept(kept) => {
                let is_it = |site: &Site| site.switch == kept.switch;
                if self.sites.get(&kept.switch.dpid).is_some_and(is_it) {
                    self.with_site(kept.switch.dpid, network, |site, turn| site.kept(kept, turn));
                }
            }
            Event::FlowRemoved(removed) if removed.cookie & MARK != 0 || !self.is_marked() => {
                self.with_site(removed.switch.dpid, network, |site, turn| {
                    site.removed(removed, turn);
                });
            }
            Event::Reply(reply) => {
                self.with_site(reply.switch.dpid, network, |site, turn| {
                    site.reply(reply, turn);
                });
            }
            Event::Error(error) => {
                self.with_site(error.switch.dpid, network, |site, turn| {
                    site.error(error, turn);
                });
            }
            Event::Committed(committed) => {
                self.with_site(committed.switch.dpid, network, |site, turn| {
                    site.committed(committed, turn);
                });
            }
            Event::Refused { switch, why, message, remedy } => {
                self.with_site(switch.dpid, network, |site, turn| {
                    site.refused(*why, message, *remedy, turn);
                });
            }
            Event::Lost(_) => {
                let now = network.now();
                self.each_site(At::All, |site| site.answers_lost(now));
            }
            Event::ServiceUp(Service::Storage) => {
                self.keeper.service_up(network.now());
                self.keeper_at = Some(Duration::ZERO);
            }
            Event::Storage { request, answer } => {
                let (is_marked, context) = (self.is_marked(), (network.now(), &mut self.notices));
                let known = self.keeper.answer(*request, answer, &mut self.set, is_marked, context);
                if known.is_some() {
                    self.keeper_at = Some(Duration::ZERO);
                }
                if known == Some(true) {
                    // Flows of earlier instances are known now, so that others are strays.
                    let now = network.now();
                    self.each_site(At::All, |site| site.check(now));
                }
            }
            _ => {}
        }
    }

    /// Calls `with` for a connected switch, and serves that switch in this turn.
    fn with_site(
        &mut self,
        dpid: Dpid,
        network: &mut Network<'_>,
        with: impl FnOnce(&mut Site, &mut Turn<'_, '_, '_>),
    ) {
        let is_loaded = self.keeper.is_loaded();
        let Some(site) = self.sites.get_mut(&dpid) else { return };
        let (set, settings, notices) = (&self.set, &self.settings, &mut self.notices);
        let budget = &mut settings.messages_per_turn.clone();
        let now = network.now();
        with(site, &mut Turn { set, settings, network, notices, budget, is_loaded });
        self.serve_at(dpid, Some(now));
    }

    /// Serves the switches that are due, sets the timer, and returns the notices.
    fn drive(&mut self, network: &mut Network<'_>) -> Vec<Notice> {
        let now = network.now();
        let mut budget =
            if self.settings.at_once { usize::MAX } else { self.settings.messages_per_turn.max(1) };
        if self.keeper_at.is_some_and(|at| now >= at) {
            self.keeper_at = self.keeper.drive(&self.set, network, &mut self.notices);
        }
        let is_due = |(at, _): &&(Duration, Dpid)| *at <= now;
        let due: Vec<_> = self.due.iter().take_while(is_due).copied().collect();
        for (_, dpid) in due {
            let Some(site) = self.sites.get_mut(&dpid) else { continue };
            let wake = site.drive(&mut Turn {
                set: &self.set,
                settings: &self.settings,
                network,
                notices: &mut self.notices,
                budget: &mut budget,
                is_loaded: self.keeper.is_loaded(),
            });
            self.serve_at(dpid, wake);
        }
        let next = [self.due.first().map(|(at, _)| *at), self.keeper_at];
        if let Some(next) = next.into_iter().flatten().min() {
            network.wake_at(next);
        }
        std::mem::take(&mut self.notices)
    }
}
