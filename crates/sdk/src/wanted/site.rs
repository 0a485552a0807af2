//! Reconciles one switch: reads what it has, and sends what differs from what is wanted.
//!
//! ```text
//!  switch up      kernel's listing (FlowsKept)              nothing left to send
//!  ---------> Waiting ------------+--> compare --> send ----------------------> Idle
//!                |                |                                              |
//!                +--> Reading ----+<------ check is due, flows were lost --------+
//!                 (own request)
//! ```
//!
//! The listing that the kernel delivers may be older than messages of the library. An entry that was sent and is not
//! listed is therefore sent again only if the library's own, later request does not list it either.

mod outcome;
mod plan;
mod reading;
mod sending;
mod sets;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use super::Settings;
use super::difference::{Listing, Plan, Stray};
use super::entry::{Key, flow_key};
use super::notice::Notice;
use super::set::{EntryId, WantedSet};
use super::window::{Op, Window};
use openflow::FlowMod;

use self::sets::Sets;

use crate::Switch;
use crate::event::FlowRemoved;
use crate::network::{Network, Xid};

/// Room for messages that the library leaves to the application, in bytes.
const ROOM_LEFT: usize = 8 * 1024;

/// Time after which a reply counts as lost.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time after which the library reads the flows itself if the kernel has delivered none.
const KERNEL_PATIENCE: Duration = Duration::from_secs(15);

/// Longest time for which a guard that starts waits for the flows of a switch. It then sends what is wanted without them.
const FIRST_LOOK: Duration = Duration::from_millis(500);

/// Time until the next attempt if a switch has no room.
const FULL_PAUSE: Duration = Duration::from_secs(30);

/// Time until the next attempt to read a switch that did not answer.
const READ_PAUSE: Duration = Duration::from_secs(30);

/// Shortest and longest pause after the kernel has refused a message because of a limit.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Time between two attempts to use the ring while it has no room.
const RING_PAUSE: Duration = Duration::from_millis(1);

/// Time after which entries that may or may not be in a switch are looked for.
const CHECK_SOON: Duration = Duration::from_millis(200);

/// Time after which a switch is read because it removed a flow that may have been wanted.
const CHECK_UNSURE: Duration = Duration::from_secs(1);

/// Most bytes of a listing, and of notes about failures.
const MOST_LISTED: usize = 64 << 20;
const MOST_FAILURES: usize = 100;

/// The library's state that a site uses while it works.
pub(super) struct Turn<'t, 'n, 'h> {
    pub(super) set: &'t WantedSet,
    pub(super) settings: &'t Settings,
    pub(super) network: &'n mut Network<'h>,
    pub(super) notices: &'t mut Vec<Notice>,
    /// Number of messages that may still be sent in this turn.
    pub(super) budget: &'t mut usize,
    /// Whether all entries are known, so that others are strays.
    pub(super) is_loaded: bool,
}

impl Turn<'_, '_, '_> {
    fn now(&self) -> Duration {
        self.network.now()
    }
}

/// A reading with the library's own requests.
#[derive(Debug)]
struct Reading {
    xid: Xid,
    step: Step,
    listing: Listing,
    size: usize,
    since: Duration,
    is_own: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Flows,
    Groups,
    Meters,
}

#[derive(Debug)]
enum Phase {
    /// The kernel's listing is expected until this time.
    Waiting(Duration),
    Reading(Box<Reading>),
    Idle,
}

/// The counts of a reconciliation.
#[derive(Debug, Default)]
struct Work {
    is_open: bool,
    since: Duration,
    restored: usize,
    changed: usize,
    removed: usize,
    kept: usize,
    missing: HashSet<EntryId>,
}

/// How a switch lists an entry that it has confirmed, if otherwise than it was sent.
#[derive(Debug, PartialEq, Eq)]
enum Listed {
    /// With another match.
    Flow(Stray),
    /// With other instructions, bands or buckets, which have this fingerprint.
    Content(u64),
}

impl Listed {
    fn key(&self) -> Option<&Key> {
        match self {
            Self::Flow(stray) => Some(&stray.key),
            Self::Content(_) => None,
        }
    }
}

/// The library's knowledge about single entries in a switch.
#[derive(Debug, Default)]
struct EntryStates {
    /// Entries that were sent and that a listing underway may lack.
    unlisted: HashSet<EntryId>,
    /// Entries that the switch confirmed and lists in another form than they were sent.
    as_listed: HashMap<EntryId, Listed>,
    /// Forms that were seen once.
    suspected: HashMap<EntryId, Listed>,
    failed: HashSet<EntryId>,
    doubtful: HashSet<EntryId>,
}

/// The library's view of one connected switch.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(super) struct Site {
    pub(super) switch: Switch,
    at_once: bool,
    phase: Phase,
    /// The parts of the kernel's listing so far, and their size.
    kept: (Vec<Box<[u8]>>, usize),
    queue: VecDeque<Op>,
    window: Window,
    sets: Sets,
    /// The end of [`look_first`](Self::look_first)'s wait for the switch.
    first_look: Option<Duration>,
    known: EntryStates,
    failures: usize,
    /// Number of entries without room since the last comparison.
    no_room: (usize, String),
    check_at: Option<Duration>,
    resume_at: Duration,
    pause: Duration,
    work: Work,
    is_blind: bool,
    has_reported: bool,
    /// The kernel has delivered its listing.
    has_kept: bool,
    /// The kernel does not let this application modify in OpenFlow 1.0.
    only_add: bool,
}

impl Site {
    pub(super) fn new(switch: Switch, settings: &Settings, now: Duration) -> Self {
        let patience = settings.check_every.unwrap_or(KERNEL_PATIENCE).min(KERNEL_PATIENCE);
        Self {
            switch,
            at_once: settings.at_once,
            phase: Phase::Waiting(now + patience),
            kept: (Vec::new(), 0),
            queue: VecDeque::new(),
            window: Window::default(),
            sets: Sets::default(),
            first_look: None,
            known: EntryStates::default(),
            failures: 0,
            no_room: (0, String::new()),
            check_at: None,
            resume_at: Duration::ZERO,
            pause: PAUSE,
            work: Work::default(),
            is_blind: false,
            has_reported: false,
            has_kept: false,
            only_add: false,
        }
    }

    /// Sends everything that is wanted without reading the switch first, and looks again afterwards.
    pub(super) fn put_all(&mut self, turn: &mut Turn<'_, '_, '_>) {
        self.known.failed.clear();
        self.queue.clear();
        self.resume_at = Duration::ZERO;
        let missing = turn.set.all_at(self.switch.dpid);
        self.enqueue(Plan { missing, ..Plan::default() }, turn.set);
    }

    /// Reads the switch before anything is sent: it may have what an earlier instance wanted. Its flows stay in force until the
    /// difference replaces them.
    pub(super) fn look_first(&mut self, turn: &mut Turn<'_, '_, '_>) {
        self.first_look = Some(turn.now() + FIRST_LOOK);
        self.read_as(false, turn);
    }

    /// Handles the loss of flows: what was confirmed is in doubt.
    pub(super) fn lost(&mut self, turn: &mut Turn<'_, '_, '_>) {
        self.forget();
        self.phase = Phase::Idle;
        if turn.settings.at_once {
            self.put_all(turn);
            self.sets.join();
        }
        self.check_at = Some(turn.now());
    }

    fn forget(&mut self) {
        self.queue.clear();
        self.known = EntryStates::default();
        self.resume_at = Duration::ZERO;
        self.sets = Sets::default();
        self.first_look = None;
    }

    /// Whether no message waits to be sent or to be confirmed.
    pub(super) fn is_settled(&self) -> bool {
        let waits = matches!(self.phase, Phase::Waiting(_)) && !self.at_once;
        !waits && self.first_look.is_none() && self.has_sent_all()
    }

    /// Whether no message waits to be sent, and no outcome is outstanding.
    pub(super) fn has_sent_all(&self) -> bool {
        self.queue.is_empty() && self.window.is_empty() && self.sets.is_idle()
    }

    /// Reads the switch as soon as nothing else is underway.
    pub(super) fn check(&mut self, now: Duration) {
        self.check_by(now);
    }

    /// Handles the removal of a flow: reads the switch if the flow is wanted, and so was not removed by the library.
    pub(super) fn removed(&mut self, removed: &FlowRemoved<'_>, turn: &Turn<'_, '_, '_>) {
        let Ok(flow) = removed.decode() else { return self.check_by(turn.now()) };
        let own = turn.network.own_priority(flow.priority);
        let stated = [own, Some(FlowMod::DEFAULT_PRIORITY)].into_iter().flatten();
        let mut keys = stated.map(|it| flow_key(removed.table_id, it, flow.match_.clone()));
        let is_wanted = keys.any(|key| {
            let mut as_listed = self.known.as_listed.values().filter_map(Listed::key);
            turn.set.at(self.switch.dpid, &key).is_some() || as_listed.any(|listed| *listed == key)
        });
        if is_wanted {
            self.check_by(turn.now());
        } else if !self.switch.version.features().oxm {
            // The version cannot express all matches, so it may be a wanted flow. An application that removes many flows
            // must not read all others each time.
            self.check_by(turn.now() + CHECK_UNSURE);
        }
    }

    fn check_by(&mut self, at: Duration) {
        self.check_at = Some(self.check_at.map_or(at, |before| before.min(at)));
    }

    /// Sends an entry that is wanted from now on. Before the first comparison, that comparison finds it.
    pub(super) fn want(&mut self, id: EntryId, is_flow: bool, replaced: Option<EntryId>) {
        if let Some(replaced) = replaced {
            self.known.failed.remove(&replaced);
            self.known.as_listed.remove(&replaced);
            self.known.suspected.remove(&replaced);
        }
        let sends_now = self.at_once && self.first_look.is_none();
        if sends_now || matches!(self.phase, Phase::Idle) {
            if replaced.is_some() {
                self.sets.join();
            }
            let is_there = replaced.is_some() && !is_flow;
            self.queue.push_back(if is_there { Op::Modify(id) } else { Op::Put(id) });
        }
    }

    /// Removes an entry that is no longer wanted. Before the first comparison, that comparison finds it.
    pub(super) fn unwant(&mut self, id: EntryId, key: Key) {
        self.known.failed.remove(&id);
        self.known.suspected.remove(&id);
        let key = match self.known.as_listed.remove(&id) {
            Some(Listed::Flow(stray)) => stray.key,
            _ => key,
        };
        if matches!(self.phase, Phase::Idle) {
            self.sets.join();
            self.queue.push_back(Op::Remove(Stray { key, cookie: 0 }));
        }
    }

    /// Sends what may be sent now. Returns the time of the next call.
    pub(super) fn drive(&mut self, turn: &mut Turn<'_, '_, '_>) -> Option<Duration> {
        let now = turn.now();
        let is_overdue = self.window.is_overdue(PATIENCE, now) && self.window.clear();
        if self.sets.expire(now) || is_overdue {
            self.check_by(now);
        }
        if self.first_look.take_if(|until| now >= *until).is_some() {
            self.phase = Phase::Idle;
            self.put_all(turn);
            self.check_by(now + CHECK_SOON);
        }
        match &self.phase {
            Phase::Reading(reading) if now >= reading.since + PATIENCE => {
                self.cannot_read("it does not answer".into(), turn);
            }
            Phase::Waiting(until) if now >= *until => {
                self.phase = Phase::Idle;
                self.check_by(now);
            }
            _ => {}
        }
        let mut wake = if self.resume_at > now { Some(self.resume_at) } else { self.send(turn) };
        let is_done = self.has_sent_all();
        if is_done {
            self.report(turn);
            let is_due = self.check_at.is_some_and(|at| now >= at);
            if is_due && matches!(self.phase, Phase::Idle | Phase::Waiting(_)) {
                self.read(turn);
            }
        }
        let mut by = |at: Option<Duration>| wake = [wake, at].into_iter().flatten().min();
        match &self.phase {
            Phase::Waiting(until) => by(Some(*until)),
            Phase::Reading(reading) => by(Some(reading.since + PATIENCE)),
            Phase::Idle => {}
        }
        if is_done && !matches!(self.phase, Phase::Reading(_)) {
            by(self.check_at);
        }
        if self.window.is_closed() {
            by(Some(now + PATIENCE));
        }
        by(self.sets.until());
        by(self.first_look);
        wake
    }

    /// Reports the end of a reconciliation.
    fn report(&mut self, turn: &mut Turn<'_, '_, '_>) {
        let (missing, why) = std::mem::take(&mut self.no_room);
        if missing > 0 {
            let (switch, again_in) = (self.switch, FULL_PAUSE);
            turn.notices.push(Notice::Full { switch, missing, why, again_in });
            self.check_at = Some(turn.now() + FULL_PAUSE);
        }
        let is_full = missing > 0;
        if std::mem::take(&mut self.work.is_open) {
            let Work { since, restored, changed, removed, kept, .. } =
                std::mem::take(&mut self.work);
            let (switch, took) = (self.switch, turn.now().saturating_sub(since));
            // After a lack of room, the application learns when it is over.
            let has_reported = std::mem::replace(&mut self.has_reported, !is_full);
            if (has_reported || is_full) && restored + changed + removed == 0 {
                return;
            }
            turn.notices.push(Notice::Reconciled {
                switch,
                restored,
                changed,
                removed,
                kept,
                took,
            });
        }
    }
}
