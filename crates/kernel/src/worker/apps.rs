//! From and to apps: what they said is checked and sent, what is for them is shown.

use std::io;
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use sdk::Refusal;
use sys::rate::Rate;
use sys::ring::PeerFault;
use tracing::{debug, warn};

use super::{APP_PORT, Worker, WorkerEvent};
use crate::app_port::part::Part;
use crate::app_port::{AppPort, Slowed};
use crate::check::Rights;
use crate::connection::DOES_NOT_READ;
use crate::control::AppId;
use crate::ids::ConnId;
use crate::plan::MAX_LINKS;
use crate::policy::Policy;
use crate::query::AppCounters;

/// Things that one app said that are taken per turn, about, so that a talkative app delays nobody else.
const TAKES: usize = 4096;

impl Worker {
    /// Takes what apps said, checks it, and gathers it per switch.
    pub(super) fn hear_apps(&mut self, now: Instant) {
        for index in 0..self.dispatch.app_ports.len() {
            let app_port = &mut self.dispatch.app_ports[index];
            let Some(most) = app_port.throttle.hears(TAKES, now) else { continue };
            if app_port.throttle.is_deaf {
                self.listen(index, true);
            }
            if let Err(fault) = self.hear(index, most, now) {
                self.fault(index, fault);
            }
        }
    }

    /// An app's doorbell has rung.
    pub(super) fn rang(&mut self, index: usize) {
        let app_port = &mut self.dispatch.app_ports[index];
        if app_port.throttle.until().is_some() {
            self.listen(index, false);
        } else if let Some(bell) = app_port.down_bell() {
            bell.silence();
            app_port.throttle.ring();
        }
    }

    /// Listens to an app's doorbell from now on, or does not: the app is slowed down.
    fn listen(&mut self, index: usize, listen: bool) {
        let app_port = &mut self.dispatch.app_ports[index];
        app_port.throttle.is_deaf = !listen;
        let Some(bell) = app_port.down_bell() else { return };
        let flags = if listen { EventFlags::IN } else { EventFlags::empty() };
        if listen {
            bell.silence();
        }
        // Fails only for a doorbell that is not in the set; this one is.
        let _ =
            epoll::modify(&self.epoll, bell, EventData::new_u64(APP_PORT | index as u64), flags);
    }

    fn hear(&mut self, index: usize, most: usize, now: Instant) -> Result<(), PeerFault> {
        let mut messages = std::mem::take(&mut self.calls.messages);
        let mut verdicts = std::mem::take(&mut self.calls.verdicts);
        let (mut left, mut result) = (most, Ok(()));
        while left > 0 {
            let received = self.dispatch.app_ports[index].receive(&mut messages, &mut verdicts);
            // Its messages before a fault are sent all the same.
            self.send_all(index, &mut messages, now);
            match received {
                Ok(0) => break,
                Ok(taken) => left = left.saturating_sub(taken),
                Err(fault) => {
                    result = Err(fault);
                    break;
                }
            }
        }
        let app_port = &mut self.dispatch.app_ports[index];
        app_port.release();
        if app_port.is_in_zone()
            && let Some(Slowed { offences, rings }) =
                app_port.throttle.heard(most - left, app_port.counts.delivered, now)
        {
            app_port.counts.slowed += 1;
            warn!(
                app = app_port.name,
                offences,
                rings,
                "slowed an app down for the rest of this second: too many of its messages were refused, or it rang for \
                 nothing"
            );
        }
        self.dispatch.verdicts(index, &mut verdicts, now);
        (self.calls.messages, self.calls.verdicts) = (messages, verdicts);
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
        let place = self.switches.roster.get(dpid);
        let switch = place.and_then(|entry| self.switches.switch_mut(entry.key));
        if let Some(switch) = switch {
            switch.counters.refused += 1;
        }
        let app_port = &mut self.dispatch.app_ports[index];
        app_port.counts.refused += 1;
        app_port.refused(dpid, epoch, why, message);
        app_port.quota.charge(message, app_port.policy.quota, now);
        app_port.throttle.refused();
        // Apps answer packet-ins of a switch that has just gone: these refusals are counted, and not logged.
        let gone = matches!(why, Refusal::NoSwitch | Refusal::Epoch);
        if gone && self.switches.roster.has_just_gone(dpid, epoch, now) {
            return;
        }
        let app = app_port.app;
        let rate = self.log_limits.refused.entry(app).or_insert_with(|| Rate::new(now));
        if let Some(suppressed) = rate.admit(now) {
            let most =
                place.filter(|_| why == Refusal::Full).and_then(|it| self.most_queued(it.key));
            let (most_queued_by, bytes) = most.unzip();
            let app_port = &self.dispatch.app_ports[index];
            let (app, dpid) = (&app_port.name, openflow::Dpid(dpid));
            let missing = (why == Refusal::Capability).then(|| app_port.rights.missing(message));
            let capability = missing.flatten().map(tracing::field::display);
            warn!(
                app, %dpid, epoch, %why, capability, most_queued_by, bytes, suppressed,
                "refused a message of an app"
            );
        }
    }

    /// The app with the most bytes in the output of a switch that does not take all at once, and how many these are.
    pub(super) fn most_queued(&self, key: ConnId) -> Option<(&str, usize)> {
        let (slot, bytes) = self.switches.get(key)?.queued()?.largest()?;
        Some((self.dispatch.app_ports.get(slot)?.name.as_str(), bytes))
    }

    /// Why a switch is dropped that does not read, with the app that has queued most for it.
    pub(super) fn does_not_read(&self, key: ConnId) -> String {
        match self.most_queued(key) {
            Some((app, bytes)) => {
                format!("{DOES_NOT_READ}; {bytes} bytes wait of the app {app}, which has sent most")
            }
            None => DOES_NOT_READ.to_owned(),
        }
    }

    /// An app's zone lied: nothing more is taken from it, and the monitor ends it.
    pub(super) fn fault(&mut self, index: usize, fault: PeerFault) {
        let app_port = &self.dispatch.app_ports[index];
        warn!(app = app_port.name, %fault, "the app's zone broke the ring's contract");
        self.channels.notify(WorkerEvent::Fault { app: app_port.app, fault: fault.to_string() });
        self.cut_off(index);
    }

    /// Forgets an app's rings; what it had not done waits for its next zone.
    fn cut_off(&mut self, index: usize) {
        let app_port = &mut self.dispatch.app_ports[index];
        if let Some(bell) = app_port.down_bell() {
            // Fails only for a doorbell that is not in the set; this one is.
            let _ = epoll::delete(&self.epoll, bell);
        }
        let app = app_port.app;
        if let Some(record) = app_port.detach() {
            self.channels.notify(WorkerEvent::SetAside { app, record });
        }
    }

    /// Moves packets on whose apps have spoken, or have been silent for too long.
    pub(super) fn move_on(&mut self, now: Instant) {
        self.dispatch.expire(now);
        while let Some(key) = self.dispatch.next_moved() {
            if let Some(switch) = self.switches.switch_mut(key) {
                self.dispatch.advance(switch, now);
            }
        }
    }

    /// Goes on with snapshots and replays, and shows the zones and the other workers what was
    /// written.
    pub(super) fn pump(&mut self) {
        for index in 0..self.dispatch.app_ports.len() {
            let app_port = &mut self.dispatch.app_ports[index];
            if app_port.has_work() {
                let (switches, roster) = self.switches.all();
                app_port.pump(switches, |dpid, epoch| {
                    roster.get(dpid).is_some_and(|entry| entry.epoch == epoch)
                });
            }
            app_port.publish();
        }
        self.forwarder.wake(&self.channels.pool);
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
        let app_port = &mut self.dispatch.app_ports[index];
        let data = EventData::new_u64(APP_PORT | index as u64);
        epoll::add(&self.epoll, part.down_bell(), data, EventFlags::IN)?;
        app_port.attach(part);
        Ok(())
    }

    /// Makes sure that an app has a place, connected or not; returns which.
    pub(super) fn know(&mut self, app: AppId, name: String, policy: Policy) -> io::Result<usize> {
        let known = self.place_of(app);
        let app_ports = &mut self.dispatch.app_ports;
        let index = known.unwrap_or(app_ports.len());
        if index == MAX_LINKS {
            return Err(io::Error::other(format!("there are {MAX_LINKS} apps already")));
        }
        if known.is_none() {
            let shared_quota = self.channels.pool.shared_quota(app);
            app_ports.push(AppPort::new(
                app,
                name,
                index,
                self.channels.pool.tuning(),
                shared_quota,
            ));
        }
        app_ports[index].rights = Rights::of(app, &policy);
        app_ports[index].policy = policy;
        self.dispatch.replan();
        Ok(index)
    }

    /// How the apps fare, in the order in which they came to be known.
    pub(super) fn app_counters(&self) -> Vec<AppCounters> {
        let mut unsent = vec![0; self.dispatch.app_ports.len()];
        for queued in self.switches.iter().filter_map(|(_, connection)| connection.queued()) {
            queued.sizes().for_each(|(slot, size)| unsent[slot] += size as u64);
        }
        let counters = |((place, app_port), unsent): ((usize, &AppPort), u64)| {
            let (skipped, passed_over) = self.dispatch.skips(place);
            let [flow_mods, packet_outs, requests] = app_port.quota.sent();
            AppCounters {
                name: app_port.name.clone(),
                delivered: app_port.counts.delivered,
                dropped: app_port.counts.dropped,
                refused: app_port.counts.refused,
                lost: app_port.counts.lost,
                flow_mods,
                packet_outs,
                requests,
                queued: app_port.queued() as u64,
                skipped,
                passed_over,
                handled: app_port.counts.handled,
                waiting: app_port.waiting().into(),
                slowed: app_port.counts.slowed,
                unsent,
            }
        };
        self.dispatch.app_ports.iter().enumerate().zip(unsent).map(counters).collect()
    }

    /// Where an app's app port is.
    pub(super) fn place_of(&self, app: AppId) -> Option<usize> {
        self.dispatch.app_ports.iter().position(|app_port| app_port.app == app)
    }

    /// The app's zone is dead.
    pub(super) fn detach(&mut self, app: AppId, now: Instant) {
        let Some(index) = self.place_of(app) else { return };
        if !self.dispatch.app_ports[index].is_attached() {
            return;
        }
        // All that it published before it died has happened: as many messages as a ring can hold, as a
        // process that the zone left behind may go on writing.
        let ring_full = self.channels.pool.tuning().ring as usize / 16;
        if let Err(fault) = self.hear(index, ring_full, now) {
            debug!(%fault, "the dead zone's ring was broken");
        }
        self.forwarder.wake(&self.channels.pool);
        self.cut_off(index);
    }
}
