//! From and to apps: what they said is checked and sent, what is for them is shown.

use std::io;
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use sdk::Refusal;
use sys::rate::Rate;
use sys::ring::PeerFault;
use tracing::{debug, warn};

use super::{LINK, Notice, Worker};
use crate::check::Rights;
use crate::connection::DOES_NOT_READ;
use crate::control::AppId;
use crate::link::part::Part;
use crate::link::{Link, Slowed};
use crate::plan::MAX_LINKS;
use crate::policy::Policy;
use crate::query::AppCounters;

/// Things that one app said that are taken per turn, about, so that a talkative app delays nobody else.
const TAKES: usize = 4096;

impl Worker {
    /// Takes what apps said, checks it, and gathers it per switch.
    pub(super) fn hear_apps(&mut self, now: Instant) {
        for index in 0..self.dispatch.links.len() {
            let link = &mut self.dispatch.links[index];
            let Some(most) = link.throttle.hears(TAKES, now) else { continue };
            if link.throttle.is_deaf {
                self.listen(index, true);
            }
            if let Err(fault) = self.hear(index, most, now) {
                self.fault(index, fault);
            }
        }
    }

    /// An app's doorbell has rung.
    pub(super) fn rang(&mut self, index: usize) {
        let link = &mut self.dispatch.links[index];
        if link.throttle.until().is_some() {
            self.listen(index, false);
        } else if let Some(bell) = link.down_bell() {
            bell.silence();
            link.throttle.ring();
        }
    }

    /// Listens to an app's doorbell from now on, or does not: the app is slowed down.
    fn listen(&mut self, index: usize, listen: bool) {
        let link = &mut self.dispatch.links[index];
        link.throttle.is_deaf = !listen;
        let Some(bell) = link.down_bell() else { return };
        let flags = if listen { EventFlags::IN } else { EventFlags::empty() };
        if listen {
            bell.silence();
        }
        // Fails only for a doorbell that is not in the set; this one is.
        let _ = epoll::modify(&self.epoll, bell, EventData::new_u64(LINK | index as u64), flags);
    }

    fn hear(&mut self, index: usize, most: usize, now: Instant) -> Result<(), PeerFault> {
        let mut heard = std::mem::take(&mut self.heard);
        let mut verdicts = std::mem::take(&mut self.verdicts);
        let (mut left, mut result) = (most, Ok(()));
        while left > 0 {
            let gathered = self.dispatch.links[index].gather(&mut heard, &mut verdicts);
            // What it said before it lied is taken all the same.
            self.send_all(index, &mut heard, now);
            match gathered {
                Ok(0) => break,
                Ok(taken) => left = left.saturating_sub(taken),
                Err(fault) => {
                    result = Err(fault);
                    break;
                }
            }
        }
        let link = &mut self.dispatch.links[index];
        link.release();
        if link.is_in_zone()
            && let Some(Slowed { offences, rings }) =
                link.throttle.heard(most - left, link.counts.delivered, now)
        {
            link.counts.slowed += 1;
            warn!(
                app = link.name,
                offences,
                rings,
                "slowed an app down for the rest of this second: too many of its messages were refused, or it rang for \
                 nothing"
            );
        }
        self.dispatch.verdicts(index, &mut verdicts, now);
        (self.heard, self.verdicts) = (heard, verdicts);
        result
    }

    pub(super) fn refuse(
        &mut self,
        index: usize,
        dpid: u64,
        epoch: u32,
        why: Refusal,
        message: &[u8],
        now: Instant,
    ) {
        let place = self.roster.get(dpid);
        let switch = place.and_then(|entry| self.connections.get_mut(entry.key));
        if let Some(switch) = switch.and_then(|connection| connection.switch.as_mut()) {
            switch.counters.refused += 1;
        }
        let link = &mut self.dispatch.links[index];
        link.counts.refused += 1;
        link.refused(dpid, epoch, why, message);
        link.spent.charge(message, link.policy.quota, now);
        link.throttle.refused();
        // Apps answer packet-ins of a switch that has just gone: these refusals are counted, and not logged.
        let gone = matches!(why, Refusal::NoSwitch | Refusal::Epoch);
        if gone && self.roster.has_just_gone(dpid, epoch, now) {
            return;
        }
        let app = link.app;
        let rate = self.rates.refused.entry(app).or_insert_with(|| Rate::new(now));
        if let Some(suppressed) = rate.admit(now) {
            let most =
                place.filter(|_| why == Refusal::Full).and_then(|it| self.most_queued(it.key));
            let (most_queued_by, bytes) = most.unzip();
            let link = &self.dispatch.links[index];
            let (app, dpid) = (&link.name, openflow::Dpid(dpid));
            let missing = (why == Refusal::Capability).then(|| link.rights.missing(message));
            let capability = missing.flatten().map(tracing::field::display);
            warn!(
                app, %dpid, epoch, %why, capability, most_queued_by, bytes, suppressed,
                "refused a message of an app"
            );
        }
    }

    /// The app with the most bytes in the output of a switch that does not take all at once, and how many these are.
    pub(super) fn most_queued(&self, key: usize) -> Option<(&str, usize)> {
        let (slot, bytes) = self.connections.get(key)?.queued()?.largest()?;
        Some((self.dispatch.links.get(slot)?.name.as_str(), bytes))
    }

    /// Why a switch is dropped that does not read, with the app that has queued most for it.
    pub(super) fn does_not_read(&self, key: usize) -> String {
        match self.most_queued(key) {
            Some((app, bytes)) => {
                format!("{DOES_NOT_READ}; {bytes} bytes wait of the app {app}, which has sent most")
            }
            None => DOES_NOT_READ.to_owned(),
        }
    }

    /// An app's zone lied: nothing more is taken from it, and the monitor ends it.
    pub(super) fn fault(&mut self, index: usize, fault: PeerFault) {
        let link = &self.dispatch.links[index];
        warn!(app = link.name, %fault, "the app's zone broke the ring's contract");
        self.notify(Notice::Fault { app: link.app, fault: fault.to_string() });
        self.cut_off(index);
    }

    /// Forgets an app's rings; what it had not done waits for its next zone.
    fn cut_off(&mut self, index: usize) {
        let link = &mut self.dispatch.links[index];
        if let Some(bell) = link.down_bell() {
            // Fails only for a doorbell that is not in the set; this one is.
            let _ = epoll::delete(&self.epoll, bell);
        }
        let app = link.app;
        if let Some(record) = link.detach() {
            self.notify(Notice::SetAside { app, record });
        }
    }

    /// Moves packets on whose apps have spoken, or have been silent for too long.
    pub(super) fn move_on(&mut self, now: Instant) {
        self.dispatch.expire(now);
        while let Some(key) = self.dispatch.next_moved() {
            let connection = self.connections.get_mut(key);
            if let Some(switch) = connection.and_then(|connection| connection.switch.as_mut()) {
                self.dispatch.advance(switch, now);
            }
        }
    }

    /// Goes on with snapshots and replays, and shows the zones and the other workers what was
    /// written.
    pub(super) fn pump(&mut self) {
        for index in 0..self.dispatch.links.len() {
            let link = &mut self.dispatch.links[index];
            if link.has_work() {
                let roster = &self.roster;
                let switches = self.connections.iter_mut();
                link.pump(
                    switches.filter_map(|(_, connection)| connection.switch.as_mut()),
                    |dpid, epoch| roster.get(dpid).is_some_and(|entry| entry.epoch == epoch),
                );
            }
            link.publish();
        }
        self.ring_posted();
    }

    /// Uses these rings for an app.
    pub(super) fn attach(
        &mut self,
        app: AppId,
        name: String,
        policy: Policy,
        part: Part,
        now: Instant,
    ) -> io::Result<()> {
        self.detach(app, now);
        let index = self.know(app, name, policy)?;
        let link = &mut self.dispatch.links[index];
        let data = EventData::new_u64(LINK | index as u64);
        epoll::add(&self.epoll, part.down_bell(), data, EventFlags::IN)?;
        link.attach(part);
        Ok(())
    }

    /// Makes sure that an app has a place, connected or not; returns which.
    pub(super) fn know(&mut self, app: AppId, name: String, policy: Policy) -> io::Result<usize> {
        let known = self.place_of(app);
        let links = &mut self.dispatch.links;
        let index = known.unwrap_or(links.len());
        if index == MAX_LINKS {
            return Err(io::Error::other(format!("there are {MAX_LINKS} apps already")));
        }
        if known.is_none() {
            let purse = self.wires.crew.purse(app);
            links.push(Link::new(app, name, index, self.wires.crew.tuning(), purse));
        }
        links[index].rights = Rights::of(app, &policy);
        links[index].policy = policy;
        self.dispatch.replan();
        Ok(index)
    }

    /// How the apps fare, in the order in which they came to be known.
    pub(super) fn app_counters(&self) -> Vec<AppCounters> {
        let mut unsent = vec![0; self.dispatch.links.len()];
        for queued in self.connections.iter().filter_map(|(_, connection)| connection.queued()) {
            queued.sizes().for_each(|(slot, size)| unsent[slot] += size as u64);
        }
        let counters = |((place, link), unsent): ((usize, &Link), u64)| {
            let (skipped, passed_over) = self.dispatch.skips(place);
            let [flow_mods, packet_outs, requests] = link.spent.sent();
            AppCounters {
                name: link.name.clone(),
                delivered: link.counts.delivered,
                dropped: link.counts.dropped,
                refused: link.counts.refused,
                lost: link.counts.lost,
                flow_mods,
                packet_outs,
                requests,
                queued: link.queued() as u64,
                skipped,
                passed_over,
                handled: link.counts.handled,
                waiting: link.waiting().into(),
                slowed: link.counts.slowed,
                unsent,
            }
        };
        self.dispatch.links.iter().enumerate().zip(unsent).map(counters).collect()
    }

    /// Where an app's link is.
    pub(super) fn place_of(&self, app: AppId) -> Option<usize> {
        self.dispatch.links.iter().position(|link| link.app == app)
    }

    /// The app's zone is dead.
    pub(super) fn detach(&mut self, app: AppId, now: Instant) {
        let Some(index) = self.place_of(app) else { return };
        if !self.dispatch.links[index].is_attached() {
            return;
        }
        // All that it published before it died has happened: as many messages as a ring can hold, as a
        // process that the zone left behind may go on writing.
        let ring_full = self.wires.crew.tuning().ring as usize / 16;
        if let Err(fault) = self.hear(index, ring_full, now) {
            debug!(%fault, "the dead zone's ring was broken");
        }
        self.ring_posted();
        self.cut_off(index);
    }
}
