//! Serves the apps: receives their messages in turns, attaches and detaches their rings, reports refusals.

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
use crate::app_queues::OutputShares;
use crate::check::{AppRights, Expects};
use crate::connection::DOES_NOT_READ;
use crate::ids::{AppSlot, ConnId};
use crate::plan::MAX_APPS;
use crate::session_shares::Shares;
use crate::switch::Switch;
use control::app::AppId;
use control::policy::Policy;
use control::query::{AppCounters, SENDERS, SwitchSender};
use control::session::SessionShares;

/// Approximate number of records of one app in one turn, so that a busy app delays no other.
const TURN: usize = 4096;

/// What admits more messages of an app whose queue is full because of its pace.
const PACED: &str = "its messages to this switch wait for its pace in flow-mods per second: send fewer, or raise `pace` in its [[app]]";

impl Worker {
    /// Gives each app a turn: receives its messages and sends them.
    pub(super) fn serve_apps(&mut self, now: Instant) {
        let members = self.dispatch.app_ports.len();
        for slot in AppSlot::first(members) {
            let turn = self.reader.portion(slot, members, TURN);
            let app_port = &mut self.dispatch.app_ports[slot];
            let Some(most) = app_port.throttle.portion(turn, now) else { continue };
            if app_port.throttle.is_deaf {
                self.listen(slot, true);
            }
            if let Err(fault) = self.serve_app(slot, most, now) {
                self.fault(slot, fault);
            }
        }
    }

    /// Handles a ring of an app's doorbell.
    pub(super) fn doorbell_rang(&mut self, slot: AppSlot) {
        let app_port = &mut self.dispatch.app_ports[slot];
        if app_port.throttle.until().is_some() {
            self.listen(slot, false);
        } else if let Some(bell) = app_port.down_bell() {
            bell.silence();
            app_port.throttle.note_ring();
        }
    }

    /// Begins to watch an app's doorbell, or to ignore it because the app is slowed down.
    fn listen(&mut self, slot: AppSlot, listen: bool) {
        let app_port = &mut self.dispatch.app_ports[slot];
        app_port.throttle.is_deaf = !listen;
        let Some(bell) = app_port.down_bell() else { return };
        let flags = if listen { EventFlags::IN } else { EventFlags::empty() };
        if listen {
            bell.silence();
        }
        // Fails only if the doorbell is not in epoll's set, and it is.
        let _ = epoll::modify(
            &self.epoll,
            bell,
            EventData::new_u64(APP_PORT | slot.index() as u64),
            flags,
        );
    }

    /// Receives about `most` records of an app, and sends its messages.
    fn serve_app(&mut self, slot: AppSlot, most: usize, now: Instant) -> Result<(), PeerFault> {
        let mut messages = std::mem::take(&mut self.calls.messages);
        let mut verdicts = std::mem::take(&mut self.calls.verdicts);
        let (mut left, mut result) = (most, Ok(()));
        while left > 0 {
            let received = self.dispatch.app_ports[slot].receive(&mut messages, &mut verdicts);
            // Messages before a fault are sent, too.
            self.send_all(slot, &mut messages, now);
            if let Some((set, bytes)) = messages.take_change_set() {
                self.send_change_set(slot, (set.dpid, set.epoch), bytes, now);
            }
            match received {
                Ok(0) => break,
                Ok(taken) => left = left.saturating_sub(taken),
                Err(fault) => {
                    result = Err(fault);
                    break;
                }
            }
        }
        let app_port = &mut self.dispatch.app_ports[slot];
        app_port.release();
        if app_port.is_in_zone()
            && let Some(Slowed { offences, rings }) =
                app_port.throttle.end_turn(most - left, app_port.counts.delivered, now)
        {
            app_port.counts.slowed += 1;
            warn!(
                app = app_port.name,
                offences,
                rings,
                "slowed an app down for the rest of this second: too many of its messages were refused, or its doorbell \
                 rang without records"
            );
        }
        self.dispatch.verdicts(slot, &mut verdicts, now);
        (self.calls.messages, self.calls.verdicts) = (messages, verdicts);
        result
    }

    /// Counts a refused message, and reports it to the app and, at a limited rate, in the log.
    pub(super) fn refuse(
        &mut self,
        slot: AppSlot,
        dpid: u64,
        epoch: u32,
        why: Refusal,
        message: &[u8],
        now: Instant,
    ) {
        let remedy = self.note_refusal(slot, (dpid, epoch), why, message, now);
        self.dispatch.app_ports[slot].refused((dpid, epoch), why, message, remedy.as_deref());
    }

    /// Counts a refused message, and reports it in the log at a limited rate. Returns what would admit the message, if that
    /// is known, for the app.
    pub(super) fn note_refusal(
        &mut self,
        slot: AppSlot,
        (dpid, epoch): (u64, u32),
        why: Refusal,
        message: &[u8],
        now: Instant,
    ) -> Option<String> {
        let entry = self.switches.roster.get(dpid);
        let switch = entry.and_then(|entry| self.switches.switch_mut(entry.key));
        if let Some(switch) = switch {
            switch.counters.refused += 1;
        }
        let app_port = &mut self.dispatch.app_ports[slot];
        app_port.counts.refused += 1;
        app_port.quota.charge(message, app_port.policy.quota, now);
        app_port.throttle.note_refusal();
        // Apps still answer packet-ins of a switch that has just gone: these refusals are counted but not logged.
        let gone = matches!(why, Refusal::NoSwitch | Refusal::Epoch);
        if gone && self.switches.roster.has_just_gone(dpid, epoch, now) {
            return None;
        }
        let app = app_port.app;
        let rate = self.log_limits.refused.entry(app).or_insert_with(|| Rate::new(now));
        let admitted = rate.admit(now);
        // The search takes many checks: the worker makes it only for refusals that it logs.
        let missing = admitted.and_then(|_| app_port.rights.missing(dpid, why, message));
        let connection = entry.and_then(|it| self.switches.get(it.key));
        let full = connection.filter(|_| why == Refusal::Full);
        let pace = full.and_then(|it| it.exceeded_pace(slot));
        let paced = pace.map(|_| PACED.to_owned());
        let told = missing.as_ref().map(ToString::to_string).or(paced);
        if let Some(suppressed) = admitted {
            let most =
                entry.filter(|_| why == Refusal::Full).and_then(|it| self.most_queued(it.key));
            let (most_queued_by, bytes) = most.unzip();
            let app_port = &self.dispatch.app_ports[slot];
            let (app, dpid) = (&app_port.name, openflow::Dpid(dpid));
            let kind = Expects::of(message).map(tracing::field::display);
            // Displayed without quotes, so that the operator can copy the line.
            let display = tracing::field::display::<String>;
            let (missing, remedy) = match pace {
                Some(_) => (None, Some(display(PACED.to_owned()))),
                None => missing.map(|it| (display(it.names()), display(it.line))).unzip(),
            };
            warn!(
                app, %dpid, epoch, %why, kind, most_queued_by, bytes, suppressed, missing, pace, remedy,
                "refused a message of an app"
            );
        }
        told
    }

    /// Returns the app with the most bytes in the queues of a switch, and their number.
    pub(super) fn most_queued(&self, key: ConnId) -> Option<(&str, usize)> {
        let (slot, bytes) = self.switches.get(key)?.queues()?.largest()?;
        Some((self.dispatch.app_ports.get(slot.index())?.name.as_str(), bytes))
    }

    /// Returns the reason for disconnecting a switch that does not read, with the app that has queued most for it.
    pub(super) fn does_not_read(&self, key: ConnId) -> String {
        match self.most_queued(key) {
            Some((app, bytes)) => {
                format!("{DOES_NOT_READ}; the app {app} has queued most: {bytes} bytes")
            }
            None => DOES_NOT_READ.to_owned(),
        }
    }

    /// Handles a broken ring: the worker receives no more records from the zone, and the monitor ends it.
    pub(super) fn fault(&mut self, slot: AppSlot, fault: PeerFault) {
        let app_port = &self.dispatch.app_ports[slot];
        warn!(app = app_port.name, %fault, "the app's zone broke the ring's contract");
        self.channels.notify(WorkerEvent::Fault { app: app_port.app, fault: fault.to_string() });
        self.cut_off(slot);
    }

    /// Drops an app's rings. The records that it had not handled wait for its next zone.
    fn cut_off(&mut self, slot: AppSlot) {
        let app_port = &mut self.dispatch.app_ports[slot];
        if let Some(bell) = app_port.down_bell() {
            // Fails only if the doorbell is not in epoll's set, and it is.
            let _ = epoll::delete(&self.epoll, bell);
        }
        let app = app_port.app;
        if let Some(record) = app_port.detach() {
            self.channels.notify(WorkerEvent::SetAside { app, record });
        }
    }

    /// Delivers pending packet-ins to the next app, once the apps before it have answered or taken too long.
    pub(super) fn move_on(&mut self, now: Instant) {
        self.dispatch.expire(now);
        while let Some(key) = self.dispatch.next_moved() {
            if let Some(switch) = self.switches.switch_mut(key) {
                self.dispatch.advance(switch, now);
            }
        }
    }

    /// Continues snapshots and replays, and publishes the records for zones and the messages for other workers, at the end of a turn
    /// that began `now`.
    pub(super) fn pump(&mut self, now: Instant) {
        for slot in AppSlot::first(self.dispatch.app_ports.len()) {
            let app_port = &mut self.dispatch.app_ports[slot];
            if app_port.has_work() {
                let (switches, roster) = self.switches.all();
                app_port.pump(switches, |dpid, epoch| {
                    roster.get(dpid).is_some_and(|entry| entry.epoch == epoch)
                });
            }
            app_port.note_latency(now);
            app_port.publish();
        }
        self.forwarder.wake(&self.channels.pool);
    }

    /// Attaches the rings of an app's new zone.
    pub(super) fn attach(
        &mut self,
        app: AppId,
        name: String,
        policy: Policy,
        part: Part,
        now: Instant,
    ) -> io::Result<()> {
        self.detach(app, now);
        let slot = self.know(app, name, policy, now)?;
        let app_port = &mut self.dispatch.app_ports[slot];
        let data = EventData::new_u64(APP_PORT | slot.index() as u64);
        epoll::add(&self.epoll, part.down_bell(), data, EventFlags::IN)?;
        app_port.attach(part);
        self.inform_of_flows(slot);
        Ok(())
    }

    /// Returns the slot of an app, and makes its app port if it has none. The app need not run.
    pub(super) fn know(
        &mut self,
        app: AppId,
        name: String,
        policy: Policy,
        now: Instant,
    ) -> io::Result<AppSlot> {
        let known = self.slot_of(app);
        let app_ports = &mut self.dispatch.app_ports;
        if known.is_none() && app_ports.len() == MAX_APPS {
            return Err(io::Error::other(format!("there are {MAX_APPS} apps already")));
        }
        let slot = known.unwrap_or(AppSlot::new(app_ports.len()));
        if known.is_none() {
            let shared_quota = self.channels.pool.shared_quota(app);
            app_ports.push(AppPort::new(
                app,
                name,
                slot,
                self.channels.pool.tuning(),
                shared_quota,
            ));
        }
        app_ports[slot].is_absent = false;
        app_ports[slot].rights = AppRights::of(app, &policy);
        let has_moved = known.is_some() && app_ports[slot].policy.band != policy.band;
        let pace = policy.pace;
        let has_another_pace = app_ports[slot].policy.pace != pace;
        app_ports[slot].policy = policy;
        self.replan();
        if has_another_pace {
            self.set_pace(slot, pace, now);
        }
        if has_moved {
            self.band_moved(slot, now);
        }
        Ok(slot)
    }

    /// Leaves an app out of the plan until it is attached again. Its slot and its number stay its own.
    pub(super) fn forget(&mut self, app: AppId, now: Instant) {
        self.detach(app, now);
        let Some(slot) = self.slot_of(app) else { return };
        self.dispatch.app_ports[slot].forget();
        self.replan();
    }

    /// Makes a new plan after an app was added or its policy changed.
    fn replan(&mut self) {
        self.dispatch.replan();
        self.share_output();
        self.reader.assign(&mut self.switches, &self.dispatch);
    }

    /// Divides the work of this worker by these shares of sessions.
    pub(super) fn set_shares(&mut self, shares: &SessionShares) {
        self.output_shares = OutputShares::new(shares);
        self.share_output();
        self.reader.set_shares(Shares::new(shares), &mut self.switches, &self.dispatch);
    }

    /// Gives each app its turn in the queues of switches that do not accept all output.
    fn share_output(&mut self) {
        for app_port in &mut self.dispatch.app_ports {
            app_port.output_turn = self.output_shares.turn_of(app_port.policy.session);
        }
    }

    /// Returns the counters of the apps, in the order of their slots.
    pub(super) fn app_counters(&self) -> Vec<AppCounters> {
        let mut unsent = vec![0; self.dispatch.app_ports.len()];
        let mut paced = unsent.clone();
        for (_, connection) in self.switches.iter() {
            let Some(queues) = connection.queues() else { continue };
            queues.sizes().for_each(|(slot, size)| unsent[slot.index()] += size as u64);
            queues.paced_sizes().for_each(|(slot, size)| paced[slot.index()] += size as u64);
        }
        let counters = |((index, app_port), (unsent, paced)): ((usize, &AppPort), (u64, u64))| {
            let (skipped, passed_over) = self.dispatch.skips(AppSlot::new(index));
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
                delayed: app_port.counts.delayed,
                paced,
                latencies: app_port.latencies(),
            }
        };
        let unsent = unsent.into_iter().zip(paced);
        self.dispatch.app_ports.iter().enumerate().zip(unsent).map(counters).collect()
    }

    /// Returns the flow-mods of each app in each switch after the one with datapath id `after`: of at most [`SENDERS`]
    /// pairs and one switch more, in the order of the switches.
    pub(super) fn senders(&self, after: Option<u64>) -> Vec<SwitchSender> {
        let mut switches: Vec<&Switch> =
            self.switches.iter().filter_map(|(_, it)| it.switch()).collect();
        switches.retain(|switch| after.is_none_or(|after| switch.dpid.0 > after));
        switches.sort_unstable_by_key(|switch| switch.dpid.0);
        let mut senders = Vec::new();
        for switch in switches {
            if senders.len() > SENDERS {
                break;
            }
            let of = |(slot, flow_mods): (usize, u64)| {
                let app = self.dispatch.app_ports.get(slot)?.app;
                Some(SwitchSender { dpid: switch.dpid.0, epoch: switch.epoch, app, flow_mods })
            };
            senders.extend(switch.senders.iter().filter_map(of));
        }
        senders
    }

    /// The slot of an app.
    pub(super) fn slot_of(&self, app: AppId) -> Option<AppSlot> {
        let slot = self.dispatch.app_ports.iter().position(|app_port| app_port.app == app)?;
        Some(AppSlot::new(slot))
    }

    /// Detaches the rings of an app's dead zone.
    pub(super) fn detach(&mut self, app: AppId, now: Instant) {
        let Some(slot) = self.slot_of(app) else { return };
        if !self.dispatch.app_ports[slot].is_attached() {
            return;
        }
        // Messages that the zone published before its death are sent, at most as many as fit into a ring: a process
        // that the zone has forked may continue to write.
        let ring_full = self.channels.pool.tuning().ring as usize / 16;
        if let Err(fault) = self.serve_app(slot, ring_full, now) {
            debug!(%fault, "found the ring of a dead zone broken");
        }
        self.forwarder.wake(&self.channels.pool);
        self.cut_off(slot);
    }
}
