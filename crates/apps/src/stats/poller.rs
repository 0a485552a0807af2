//! Decides which switch is asked for what, and when.
//!
//! Each switch has at most one request underway. A round asks for ports, and in some rounds also for flows, tables, groups
//! and meters. The next round begins an interval after the last one, later if there are more switches than the pace
//! allows. A switch that does not answer is asked less and less often.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rosemary_sdk::{Dpid, Switch, Version, Xid};

/// Most requests per second to all switches together.
const PACE: u32 = 400;

/// Requests that may be sent at once after a pause.
const BURST: u32 = 40;

/// Most requests underway.
const UNDERWAY: usize = 128;

/// Time that a switch has for the next part of an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time from one look for late answers to the next.
const LOOK: Duration = Duration::from_millis(250);

/// Most parts of an answer.
const MOST_PARTS: u32 = 256;

/// The interval of a silent switch is multiplied by two at most this often.
const SLOWEST: u32 = 4;

/// The subject of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Subject {
    Ports = 0,
    Flows = 1,
    Tables = 2,
    Groups = 3,
    Meters = 4,
}

impl Subject {
    const ALL: [Self; 5] = [Self::Ports, Self::Flows, Self::Tables, Self::Groups, Self::Meters];

    /// In which rounds it is asked for.
    fn is_in(self, round: u32) -> bool {
        match self {
            Self::Ports => true,
            Self::Flows | Self::Tables => round.is_multiple_of(2),
            Self::Groups | Self::Meters => round.is_multiple_of(6),
        }
    }

    fn is_in_version(self, version: Version) -> bool {
        match self {
            Self::Ports | Self::Flows | Self::Tables => true,
            Self::Groups => version.features().groups,
            Self::Meters => version.features().meters,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    subject: Subject,
    xid: Xid,
    asked: Duration,
    /// When the last part came in, or the request was sent.
    heard: Duration,
    parts: u32,
}

#[derive(Debug)]
struct Target {
    switch: Switch,
    due: Duration,
    round: u32,
    round_began: Duration,
    /// Subjects of this round that are still to be asked for.
    left: Vec<Subject>,
    underway: Option<Pending>,
    /// Requests in sequence without an answer.
    silent: u32,
    /// Subjects about which the switch has answered with an error.
    without: Vec<Subject>,
}

/// The request that a part of an answer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) subject: Subject,
    pub(super) asked: Duration,
    /// Whether it is the first part of the answer.
    pub(super) is_first: bool,
    /// Whether it is the last one.
    pub(super) is_last: bool,
}

/// See the module's description.
#[derive(Debug)]
pub(super) struct Poller {
    interval: Duration,
    targets: BTreeMap<Dpid, Target>,
    /// Switches that have nothing underway, by when they are due.
    queue: BTreeSet<(Duration, Dpid)>,
    underway: usize,
    /// Requests that may be sent now, in billionths.
    tokens: u64,
    filled: Duration,
    /// When it looks for late answers next.
    look_at: Duration,
}

const TOKEN: u64 = 1_000_000_000;

impl Poller {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval,
            targets: BTreeMap::new(),
            queue: BTreeSet::new(),
            underway: 0,
            tokens: 0,
            filled: Duration::ZERO,
            look_at: Duration::ZERO,
        }
    }

    /// Begins to poll a switch.
    pub(super) fn add(&mut self, switch: Switch, now: Duration) {
        self.remove(switch.dpid);
        let target = Target {
            switch,
            due: now,
            round: 0,
            round_began: now,
            left: Vec::new(),
            underway: None,
            silent: 0,
            without: Vec::new(),
        };
        self.targets.insert(switch.dpid, target);
        self.queue.insert((now, switch.dpid));
    }

    pub(super) fn remove(&mut self, dpid: Dpid) {
        if let Some(target) = self.targets.remove(&dpid) {
            self.queue.remove(&(target.due, dpid));
            self.underway -= usize::from(target.underway.is_some());
        }
    }

    pub(super) fn clear(&mut self) {
        self.targets.clear();
        self.queue.clear();
        self.underway = 0;
    }

    /// Returns the next request that may be sent now. The caller then calls [`sent`](Self::sent) or
    /// [`not_sent`](Self::not_sent).
    pub(super) fn next(&mut self, now: Duration) -> Option<(Switch, Subject)> {
        self.fill(now);
        if self.underway >= UNDERWAY || self.tokens < TOKEN {
            return None;
        }
        let (due, dpid) = *self.queue.first()?;
        if due > now {
            return None;
        }
        let target = self.targets.get_mut(&dpid)?;
        if target.left.is_empty() {
            target.begin_round(now);
        }
        let subject = target.left.last().copied()?;
        Some((target.switch, subject))
    }

    /// Notes that the request was sent.
    pub(super) fn sent(&mut self, dpid: Dpid, xid: Xid, now: Duration) {
        self.tokens = self.tokens.saturating_sub(TOKEN);
        let Some(target) = self.targets.get_mut(&dpid) else { return };
        let Some(subject) = target.left.pop() else { return };
        self.queue.remove(&(target.due, dpid));
        let (asked, heard, parts) = (now, now, 0);
        target.underway = Some(Pending { subject, xid, asked, heard, parts });
        self.underway += 1;
    }

    /// Leaves out a request that cannot be sent.
    pub(super) fn not_sent(&mut self, dpid: Dpid, now: Duration) {
        let Some(target) = self.targets.get_mut(&dpid) else { return };
        self.queue.remove(&(target.due, dpid));
        if let Some(subject) = target.left.pop() {
            target.without.push(subject);
        }
        target.schedule(self.interval, now);
        self.queue.insert((target.due, dpid));
    }

    /// Notes a part of an answer; `None` if it answers nothing that is underway.
    pub(super) fn answered(
        &mut self,
        switch: Switch,
        xid: Xid,
        more: bool,
        now: Duration,
    ) -> Option<Part> {
        let target = self.targets.get_mut(&switch.dpid).filter(|it| it.switch == switch)?;
        let underway = target.underway.as_mut().filter(|it| it.xid == xid)?;
        underway.parts += 1;
        underway.heard = now;
        let (subject, asked, is_first) = (underway.subject, underway.asked, underway.parts == 1);
        if more && underway.parts >= MOST_PARTS {
            self.fail(switch.dpid, now);
            return None;
        }
        if !more {
            target.silent = 0;
            self.done(switch.dpid, now);
        }
        Some(Part { subject, asked, is_first, is_last: !more })
    }

    /// Notes that the switch answered with an error, or that the request was refused: it is not sent again on this
    /// connection.
    pub(super) fn rejected(&mut self, switch: Switch, xid: Xid, now: Duration) -> Option<Subject> {
        let target = self.targets.get_mut(&switch.dpid).filter(|it| it.switch == switch)?;
        let subject = target.underway.filter(|it| it.xid == xid)?.subject;
        target.without.push(subject);
        self.done(switch.dpid, now);
        Some(subject)
    }

    /// Notes that no answer will come, because it was lost on the way: that is not the switch's fault.
    pub(super) fn lost(&mut self, switch: Switch, xid: Xid, now: Duration) {
        let is_it = |target: &Target| {
            target.switch == switch && target.underway.is_some_and(|it| it.xid == xid)
        };
        if self.targets.get(&switch.dpid).is_some_and(is_it) {
            self.done(switch.dpid, now);
        }
    }

    /// Gives up on answers that are late; returns the switches, and how many requests each has not answered in sequence.
    pub(super) fn late(&mut self, now: Duration) -> Vec<(Dpid, u32)> {
        if now < self.look_at {
            return Vec::new(); // it walks over all switches
        }
        self.look_at = now + LOOK;
        let is_late =
            |target: &Target| target.underway.is_some_and(|it| now >= it.heard + PATIENCE);
        let late: Vec<Dpid> =
            self.targets.iter().filter(|(_, it)| is_late(it)).map(|(dpid, _)| *dpid).collect();
        late.into_iter().map(|dpid| (dpid, self.fail(dpid, now))).collect()
    }

    /// Returns when to call again.
    pub(super) fn wake_at(&self, now: Duration) -> Duration {
        let idle = now + Duration::from_secs(1); // for answers that are late
        match self.queue.first() {
            Some((due, _)) if self.underway < UNDERWAY => {
                let pace = Duration::from_secs(1) / PACE;
                let soonest = if self.tokens < TOKEN { now + pace } else { now };
                (*due).max(soonest).min(idle)
            }
            _ => idle,
        }
    }

    fn fill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.filled).as_nanos();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        self.filled = now;
        let most = u64::from(BURST) * TOKEN;
        self.tokens = self.tokens.saturating_add(passed.saturating_mul(PACE.into())).min(most);
    }

    /// Ends the request that is underway, and the round without an answer; returns the number of silent requests.
    fn fail(&mut self, dpid: Dpid, now: Duration) -> u32 {
        let Some(target) = self.targets.get_mut(&dpid) else { return 0 };
        target.silent = target.silent.saturating_add(1);
        target.left.clear();
        let silent = target.silent;
        self.done(dpid, now);
        silent
    }

    fn done(&mut self, dpid: Dpid, now: Duration) {
        let Some(target) = self.targets.get_mut(&dpid) else { return };
        self.underway -= usize::from(target.underway.take().is_some());
        target.schedule(self.interval, now);
        self.queue.insert((target.due, dpid));
    }
}

impl Target {
    fn begin_round(&mut self, now: Duration) {
        let version = self.switch.version;
        let is_asked = |it: &Subject| {
            it.is_in(self.round) && it.is_in_version(version) && !self.without.contains(it)
        };
        // The last one is asked for first.
        self.left = Subject::ALL.into_iter().rev().filter(is_asked).collect();
        self.round = self.round.wrapping_add(1);
        self.round_began = now;
        if self.left.is_empty() {
            self.left.push(Subject::Ports); // an error may have been about that one time
            self.without.clear();
        }
    }

    fn schedule(&mut self, interval: Duration, now: Duration) {
        self.due = if self.left.is_empty() {
            let wait = interval * (1 << self.silent.min(SLOWEST));
            (self.round_began + wait).max(now)
        } else {
            now
        };
    }
}
