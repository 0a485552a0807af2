//! Keeps a monitor of all flows at a switch, with the form of the switch's version ([`openflow::monitor_flows`]).
//!
//! ```text
//!              no reply, or refused in each way
//!        +-------------------------------------------> Off
//!        |                                              ^ no room
//!  Off -----> Listing ---last part of the list---> On --+
//!               ^                                  | paused
//!               +--- resumed, or the caller ---- Paused
//!                    wants the list again
//! ```
//!
//! A list of all flows replaces what the caller knew. The session asks for it by a new monitor: it ends the old one first. A
//! switch that pauses its updates may have dropped some, so a list follows when it resumes, but at most one in
//! [`LIST_INTERVAL`]: a switch that resumes again and again costs no more than that.

use std::time::{Duration, Instant};

use openflow::{
    ErrorMessage, FlowUpdateView, FlowUpdates, OwnChanges, Version, end_monitor, monitor_flows,
};

use super::session::send;
use crate::session::{FlowMonitor, FlowNews};

/// Time without a part of the list after which the switch counts as one without flow monitors.
const PATIENCE: Duration = Duration::from_secs(3);

/// Longest time for a whole list.
const LONGEST: Duration = Duration::from_secs(60);

/// Least time between two lists that the switch has caused.
const LIST_INTERVAL: Duration = Duration::from_secs(10);

/// Most errors that are expected: about messages that end a monitor which the switch does not know.
const MOST_ENDS: usize = 4;

/// The monitor of one switch.
#[derive(Debug, Default)]
pub(super) struct Monitor {
    state: State,
    /// The ways to ask for own changes that are left.
    ways: &'static [OwnChanges],
    /// The way of the last request.
    own: Option<OwnChanges>,
    /// Whether the switch names the messages that caused own changes, instead of the changes.
    is_abbreviated: bool,
    /// The transaction ids of the last messages that ended a monitor.
    ends: Vec<u32>,
    /// A list was requested at this time, or shortly before.
    listed: Option<Instant>,
    /// A list is wanted.
    wants_list: bool,
    /// The switch has paused its reports and not resumed them.
    is_paused: bool,
}

#[derive(Debug)]
enum State {
    /// There is no monitor, for this reason; none was wanted yet if the reason is empty.
    Off(String),
    /// The monitor was requested.
    Listing {
        xid: u32,
        /// Whether a part of the list has come.
        has_begun: bool,
        /// When the next tick after the request was.
        since: Option<Instant>,
        /// When the next tick after the last part was.
        part: Option<Instant>,
    },
    On,
    Paused,
}

impl Default for State {
    fn default() -> Self {
        Self::Off(String::new())
    }
}

/// The output of a session: transaction ids, and room for messages.
pub(super) struct Outgoing<'o> {
    pub(super) version: Version,
    pub(super) next_xid: &'o mut u32,
    pub(super) out: &'o mut Vec<u8>,
}

impl Outgoing<'_> {
    fn xid(&mut self) -> u32 {
        let xid = *self.next_xid;
        *self.next_xid = xid.wrapping_add(1);
        xid
    }
}

impl Monitor {
    /// Whether the switch may send updates.
    pub(super) fn is_wanted(&self) -> bool {
        !matches!(self.state, State::Off(_))
    }

    /// The state for the caller.
    pub(super) fn state(&self) -> FlowMonitor<'_> {
        match &self.state {
            State::Off(why) => FlowMonitor::Off(why),
            State::Listing { .. } => FlowMonitor::Listing,
            State::On if self.is_abbreviated => FlowMonitor::OthersOnly,
            State::On => FlowMonitor::On,
            State::Paused => FlowMonitor::Paused,
        }
    }

    /// Requests the monitor, or another list of all flows.
    pub(super) fn request(&mut self, to: &mut Outgoing<'_>) {
        if let Some(way) = self.own {
            return self.ask(way, to);
        }
        self.ways = OwnChanges::to_try(to.version);
        self.next_way("", to);
    }

    /// Ends the monitor, if there is one, and requests one in this way.
    fn ask(&mut self, way: OwnChanges, to: &mut Outgoing<'_>) {
        self.end(to);
        let xid = to.xid();
        let version = to.version;
        send(to.out, |out| monitor_flows(version, way, xid, out));
        self.own = Some(way);
        self.wants_list = false;
        self.state = State::Listing { xid, has_begun: false, since: None, part: None };
    }

    /// Ends the monitor if one was requested.
    fn end(&mut self, to: &mut Outgoing<'_>) {
        let Some(way) = self.own else { return };
        let (version, xid) = (to.version, to.xid());
        send(to.out, |out| end_monitor(version, way, xid, out));
        if self.ends.len() == MOST_ENDS {
            self.ends.remove(0);
        }
        self.ends.push(xid);
    }

    /// Ends the monitor for good. `why` is a phrase about the switch.
    pub(super) fn give_up(&mut self, why: &str, to: &mut Outgoing<'_>) {
        if self.is_wanted() {
            self.end(to);
            self.state = State::Off(why.to_owned());
        }
    }

    /// Handles an error. Returns whether it is about a message of the monitor, and nothing follows for others.
    pub(super) fn refused(
        &mut self,
        xid: u32,
        error: &ErrorMessage<'_>,
        to: &mut Outgoing<'_>,
    ) -> bool {
        if let Some(at) = self.ends.iter().position(|end| *end == xid) {
            self.ends.remove(at);
            return true;
        }
        if !matches!(self.state, State::Listing { xid: asked, .. } if asked == xid) {
            return false;
        }
        self.next_way(&format!("it refused the request with {error}"), to);
        true
    }

    /// Asks in the next way, or gives up.
    fn next_way(&mut self, why: &str, to: &mut Outgoing<'_>) {
        match self.ways {
            [way, rest @ ..] => {
                self.ways = rest;
                self.ask(*way, to);
            }
            [] => self.state = State::Off(why.to_owned()),
        }
    }

    /// Handles a message with updates. Returns what it tells the caller.
    pub(super) fn updates<'m>(
        &mut self,
        xid: u32,
        updates: FlowUpdates<'m>,
        to: &mut Outgoing<'_>,
    ) -> FlowNews<'m> {
        let mut news = FlowNews { updates, begins_list: false, ends_list: false };
        if let State::Listing { xid: asked, has_begun, part, .. } = &mut self.state
            && *asked == xid
        {
            news.begins_list = !std::mem::replace(has_begun, true);
            news.ends_list = !news.updates.more;
            *part = None;
            if news.ends_list {
                // Reports are missing since the pause, also if it has ended.
                let is_whole = !self.is_paused && !self.wants_list;
                self.state = if is_whole { State::On } else { State::Paused };
            }
        }
        for update in news.updates.clone() {
            match update {
                FlowUpdateView::Entry(_) => {}
                FlowUpdateView::Abbreviated(_) => self.abbreviated(to),
                FlowUpdateView::Paused => {
                    (self.is_paused, self.wants_list) = (true, false);
                    if matches!(self.state, State::On) {
                        self.state = State::Paused;
                    }
                }
                FlowUpdateView::Resumed => {
                    self.wants_list |= std::mem::take(&mut self.is_paused);
                }
            }
        }
        news
    }

    /// Notes that a message with updates could not be read: another list shows what it reported.
    pub(super) fn malformed(&mut self) {
        self.wants_list |= matches!(self.state, State::On);
    }

    /// Notes that the switch abbreviates own changes, although it was asked for them: asks in the next way, if there is one.
    fn abbreviated(&mut self, to: &mut Outgoing<'_>) {
        if self.is_abbreviated || !matches!(self.state, State::On) {
            return;
        }
        if let [way, rest @ ..] = self.ways {
            self.ways = rest;
            self.ask(*way, to);
        } else {
            self.is_abbreviated = true;
        }
    }

    /// Gives up an overdue list, and requests a due one.
    pub(super) fn tick(&mut self, now: Instant, to: &mut Outgoing<'_>) {
        if let State::Listing { since, part, .. } = &mut self.state {
            let since = *since.get_or_insert(now);
            let silent = now.saturating_duration_since(*part.get_or_insert(now)) >= PATIENCE;
            self.listed = Some(since);
            let why = if silent {
                "it did not answer the request"
            } else if now.saturating_duration_since(since) >= LONGEST {
                "its list of flows has no end"
            } else {
                return;
            };
            return self.give_up(why, to);
        }
        let is_due =
            self.listed.is_none_or(|at| now.saturating_duration_since(at) >= LIST_INTERVAL);
        if self.wants_list && is_due {
            self.listed = Some(now);
            self.request(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use openflow::Header;

    use super::super::framing;
    use super::*;

    /// A monitor, and the messages that it has sent.
    struct Script {
        monitor: Monitor,
        version: Version,
        next_xid: u32,
        out: Vec<u8>,
        start: Instant,
    }

    impl Script {
        fn new(version: Version) -> Self {
            let (monitor, out, start) = (Monitor::default(), Vec::new(), Instant::now());
            let mut script = Self { monitor, version, next_xid: 100, out, start };
            script.with(Monitor::request);
            script
        }

        fn with<T>(&mut self, act: impl FnOnce(&mut Monitor, &mut Outgoing<'_>) -> T) -> T {
            let Self { monitor, version, next_xid, out, .. } = self;
            act(monitor, &mut Outgoing { version: *version, next_xid, out })
        }

        /// The transaction ids and sizes of the messages since the last call.
        fn sent(&mut self) -> Vec<(u32, usize)> {
            let (mut sent, mut rest) = (Vec::new(), &self.out[..]);
            while let Some((message, after)) = framing::cut(rest).unwrap() {
                sent.push((Header::decode(message).unwrap().xid, message.len()));
                rest = after;
            }
            self.out.clear();
            sent
        }

        fn refuse(&mut self, xid: u32) -> bool {
            let error = ErrorMessage { version: self.version, kind: 1, code: 2, data: &[] };
            self.with(|monitor, to| monitor.refused(xid, &error, to))
        }

        /// Sends a message of OpenFlow 1.4 with these updates. Returns whether it begins or ends a list.
        fn send(&mut self, xid: u32, more: bool, updates: &[u8]) -> (bool, bool) {
            let mut message = vec![5, 19, 0, 0, 0, 0, 0, 0, 0, 16, 0, u8::from(more), 0, 0, 0, 0];
            message.extend_from_slice(updates);
            let size = u16::try_from(message.len()).unwrap();
            message[2..4].copy_from_slice(&size.to_be_bytes());
            let updates = FlowUpdates::decode(&message).unwrap().unwrap();
            let news = self.with(|monitor, to| monitor.updates(xid, updates, to));
            (news.begins_list, news.ends_list)
        }

        fn tick(&mut self, ms: u64) {
            let now = self.start + Duration::from_millis(ms);
            self.with(|monitor, to| monitor.tick(now, to));
        }
    }

    const ABBREVIATED: [u8; 8] = [0, 8, 0, 4, 0, 0, 0, 7];
    const PAUSED: [u8; 8] = [0, 8, 0, 5, 0, 0, 0, 0];
    const RESUMED: [u8; 8] = [0, 8, 0, 6, 0, 0, 0, 0];

    #[test]
    fn list_of_more_parts_begins_and_ends_once() {
        let mut script = Script::new(Version::V1_4);
        assert_eq!(script.sent(), [(100, 64)]);
        assert_eq!(script.monitor.state(), FlowMonitor::Listing);
        assert_eq!(script.send(0, false, &[]), (false, false), "of an earlier monitor");
        assert_eq!(script.send(100, true, &[]), (true, false));
        assert_eq!(script.send(100, false, &[]), (false, true));
        assert_eq!(script.monitor.state(), FlowMonitor::On);
        assert_eq!(script.send(100, false, &[]), (false, false), "it is a change");
        assert!(!script.refuse(100), "the request was answered");
    }

    #[test]
    fn refused_way_is_followed_by_the_next_and_then_by_none() {
        let mut script = Script::new(Version::V1_5);
        assert!(script.refuse(100));
        assert_eq!(script.sent(), [(100, 64), (101, 64), (102, 40)]);
        assert!(script.refuse(101), "there was nothing to end");
        assert!(script.refuse(102));
        let why = "it refused the request with BAD_REQUEST/BAD_MULTIPART";
        assert_eq!(script.monitor.state(), FlowMonitor::Off(why));
        assert!(script.sent().is_empty() && !script.refuse(102));
        let mut script = Script::new(Version::V1_0);
        assert!(script.refuse(100) && !script.monitor.is_wanted());
    }

    #[test]
    fn switch_that_abbreviates_own_changes_reports_others_only() {
        let mut script = Script::new(Version::V1_4);
        script.send(100, false, &[]);
        script.sent();
        script.send(0, false, &ABBREVIATED);
        assert_eq!(script.sent(), [(101, 64), (102, 40)], "the way of the specification");
        script.send(0, false, &ABBREVIATED);
        assert_eq!(script.monitor.state(), FlowMonitor::Listing, "of the first monitor");
        script.send(102, false, &[]);
        script.send(0, false, &ABBREVIATED);
        assert_eq!(script.monitor.state(), FlowMonitor::OthersOnly);
        script.send(0, false, &ABBREVIATED);
        assert!(script.sent().is_empty());
    }

    #[test]
    fn list_follows_once_when_updates_resume() {
        let mut script = Script::new(Version::V1_4);
        script.tick(0);
        script.send(100, false, &[]);
        script.sent();
        script.send(0, false, &RESUMED);
        script.send(0, false, &PAUSED);
        assert_eq!(script.monitor.state(), FlowMonitor::Paused);
        script.tick(20_000);
        assert!(script.sent().is_empty(), "it has not resumed");
        for _ in 0..1000 {
            script.send(0, false, &RESUMED);
        }
        script.tick(20_100);
        assert_eq!(script.sent().len(), 2, "one end and one request");
        script.send(102, false, &[]);
        assert_eq!(script.monitor.state(), FlowMonitor::On);
        for ms in (20_200..40_000).step_by(100) {
            script.send(0, false, &[PAUSED, RESUMED].concat());
            script.tick(ms);
            let asked = script.next_xid - 1;
            script.send(asked, false, &[]);
        }
        assert_eq!(script.sent().len(), 2, "in twenty seconds");
    }

    #[test]
    fn missing_or_endless_list_is_given_up() {
        let mut script = Script::new(Version::V1_4);
        script.tick(0);
        script.tick(2_900);
        assert!(script.monitor.is_wanted());
        script.tick(3_000);
        assert_eq!(script.monitor.state(), FlowMonitor::Off("it did not answer the request"));
        assert_eq!(script.sent().len(), 2, "the request and its end");
        let mut script = Script::new(Version::V1_4);
        let mut ms = 0;
        while script.monitor.is_wanted() {
            script.send(100, true, &[]);
            script.tick(ms);
            ms += 100;
        }
        assert_eq!(ms, 60_100);
        assert_eq!(script.monitor.state(), FlowMonitor::Off("its list of flows has no end"));
    }
}
