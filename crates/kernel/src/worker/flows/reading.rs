//! Reads the flows of switches: counts and removes what absent apps own, and informs apps of the flows that they have
//! ([`flow_reader`](crate::flows::reader)).

use std::time::Instant;

use openflow::{
    EncodeError, FlowMod, FlowModCommand, FlowStatsRequest, GroupKind, GroupMod, GroupModCommand,
    Match, MeterFlags, MeterMod, MeterModCommand, MultipartReply, MultipartRequest, ReplyBody,
    Version,
};
use tracing::{debug, info, warn};

use super::moved_bands::{self, is_earlier, may_be_earlier, remove_earlier_flows};
use crate::app_port::AppPort;
use crate::check::{APP_SHIFT, OWN_BITS};
use crate::connection::{OwnOutput, Up};
use crate::flows::image::{Flow, FlowImage};
use crate::flows::reader::{
    AT_ONCE, AbsentApps, ByOwner, Informed, KnownFlows, Owned, Reading, Step,
};
use crate::ids::AppSlot;
use crate::outcomes::{Outcomes, Purpose};
use crate::plan::Set;
use crate::rewrite::{self, KERNEL};
use crate::switch::Switch;
use crate::transactions::By;
use crate::worker::Worker;
use crate::worker::answers::Replies;
use crate::worker::log_limits::LogLimits;
use crate::worker::own_messages::request;
use control::app::{AbsentApp, AppId};
use control::query::{Orphan, Orphans};

impl Worker {
    /// Begins readings that are due, and ends those of switches that do not answer.
    pub(in crate::worker) fn read_flows(&mut self, now: Instant) {
        let switches = self.switches.iter().filter_map(|(_, connection)| connection.switch());
        let running = switches.filter(|switch| switch.flow_reader.takes_place(now)).count();
        let mut places = AT_ONCE.saturating_sub(running);
        let app_ports = &mut self.dispatch.app_ports;
        let ready = AppSlot::first(app_ports.len())
            .filter(|slot| app_ports[*slot].can_be_informed())
            .fold(Set::EMPTY, |ready, slot| ready.with(Set::of(slot)));
        let mut from_images = Vec::new();
        for (id, connection) in self.switches.iter_mut() {
            let is_full = connection.is_full();
            let Some(switch) = connection.switch_mut() else { continue };
            if let Some(check) = switch.watch.take_check(now) {
                switch.flow_reader.request_check(check);
            }
            if let Some(failure) = switch.flow_reader.failure(now) {
                end(switch, app_ports, &mut self.log_limits, Some(failure), now);
            }
            if places == 0 || is_full || !switch.flow_reader.is_due(ready, now) {
                continue;
            }
            if switch.watch.is_waiting() && !switch.flow_reader.may_inform(ready) {
                continue; // the list of the flow monitor is on its way
            }
            places -= 1;
            let identify = |slot: AppSlot| (app_ports[slot].app, app_ports[slot].life);
            let Switch { version, watch, flow_reader, .. } = switch;
            let reading = flow_reader.begin(*version, ready, identify, now);
            let to_remove = (&self.absent, reading.removes_all);
            let known = watch.current().map(|image| known_flows(image, app_ports, to_remove));
            if !reading.needs_flows(*version, known) {
                from_images.push(id);
                continue;
            }
            let (only, reason) = (reading.only, reading.reason());
            let mut wanted = FlowStatsRequest::new(Match::new());
            if let Some(app) = only {
                (wanted.cookie, wanted.cookie_mask) = (first_cookie(app), !OWN_BITS);
            }
            let why = (By::FlowReader, Some(reason));
            request(connection, why, &MultipartRequest::Flow(wanted), now);
            self.output.note(id, connection);
        }
        for id in from_images {
            self.replies(id, now).read_image();
            self.output.note_if_any(id, &mut self.switches[id]);
        }
    }

    /// Learns of apps that have a number and do not run here, and reads all switches again.
    pub(in crate::worker) fn learn_absent(&mut self, apps: &[AbsentApp], now: Instant) {
        self.absent.add(apps);
        self.switches.all().0.for_each(|switch| switch.flow_reader.request(now));
    }

    /// Requests a reading of all switches, or of one, for an operator. `false` if there is no such switch.
    pub(in crate::worker) fn read_orphans(
        &mut self,
        dpid: Option<u64>,
        remove: bool,
        now: Instant,
    ) -> bool {
        let mut is_known = dpid.is_none();
        for switch in self.switches.all().0 {
            if dpid.is_none_or(|dpid| switch.dpid.0 == dpid) {
                let removes_foreign = remove && dpid.is_some();
                switch.flow_reader.request_for_operator(remove, removes_foreign, now);
                is_known = true;
            }
        }
        is_known
    }

    /// Returns what absent apps own in the switches, or in one. The server thread adds the names.
    pub(in crate::worker) fn orphans(&mut self, dpid: Option<u64>) -> Orphans {
        let mut orphans = Orphans::default();
        let is_meant = |switch: &&mut Switch| dpid.is_none_or(|dpid| switch.dpid.0 == dpid);
        for switch in self.switches.all().0.filter(is_meant) {
            let mut found = switch.flow_reader.found.clone();
            if let Some(image) = switch.watch.current() {
                found_in(image, &self.absent, &mut found);
            }
            let reader = &switch.flow_reader;
            orphans.awaited += usize::from(reader.is_awaited);
            orphans.failed += usize::from(reader.has_failed);
            if reader.foreign > 0 {
                let (dpid, owner) = (switch.dpid.to_string(), String::new());
                let (app, flows, groups, meters) = (AppId::OTHER, reader.foreign, 0, 0);
                orphans.found.push(Orphan { dpid, app, owner, flows, groups, meters });
            }
            orphans.found.extend(found.iter().map(|(app, owned)| Orphan {
                dpid: switch.dpid.to_string(),
                app: *app,
                owner: String::new(),
                flows: owned.flows,
                groups: owned.groups,
                meters: owned.meters,
            }));
        }
        orphans
    }

    /// Prepares that an app that has started learns which flows it has in each switch.
    pub(in crate::worker) fn inform_of_flows(&mut self, slot: AppSlot) {
        let app_port = &self.dispatch.app_ports[slot];
        self.absent.runs(app_port.app);
        for switch in self.switches.all().0 {
            if app_port.learns_its_flows(switch) {
                let reader = &mut switch.flow_reader;
                reader.uninformed = reader.uninformed.with(Set::of(slot));
            }
        }
    }
}

/// Prepares the readings of a switch that has just connected.
pub(in crate::worker) fn new_switch(
    switch: &mut Switch,
    app_ports: &[AppPort],
    absent: &AbsentApps,
    now: Instant,
) {
    for (index, app_port) in app_ports.iter().enumerate() {
        if app_port.learns_its_flows(switch) {
            let reader = &mut switch.flow_reader;
            reader.uninformed = reader.uninformed.with(Set::of(AppSlot::new(index)));
        }
    }
    if !absent.is_empty() {
        switch.flow_reader.request(now);
    }
    moved_bands::new_switch(switch, now);
}

impl Replies<'_> {
    /// Takes the flows of a reading from the image of the switch's flows, and continues with the next step.
    fn read_image(&mut self) {
        let Some(switch) = self.connection.switch_mut() else { return };
        let Switch { watch, flow_reader, .. } = switch;
        let (Some(image), Some(reading)) = (watch.current(), &mut flow_reader.reading) else {
            return; // this is called for a current image only
        };
        found_in(image, self.absent, &mut reading.found);
        reading.foreign = foreign(image, &self.dispatch.app_ports, self.absent);
        self.next_step();
    }

    /// Handles a part of the reply to a reading's request.
    pub(in crate::worker) fn reading_part(&mut self, message: &[u8], is_last: bool) {
        let is_full = self.connection.is_full();
        let (phase, own) = self.connection.split();
        let Some(Up { switch, .. }) = phase.up_mut() else { return };
        switch.flow_reader.progress(self.now);
        let version = switch.version;
        let mut removals = Removals { own, outcomes: &mut switch.outcomes, is_full, count: 0 };
        let Some(mut reading) = switch.flow_reader.reading.take() else { return };
        let mut removal = Removal {
            absent: self.absent,
            reading: &mut reading,
            version,
            removals: &mut removals,
        };
        let is_sound = match removal.reading.step {
            Step::Flows => match rewrite::places(version, message) {
                Ok(places) => {
                    let owners: Vec<AppId> = places.iter().map(|(_, owner)| *owner).collect();
                    removal.flows(&owners, message);
                    let app_ports = &mut self.dispatch.app_ports;
                    if reading.only.is_none() {
                        let part = (&owners[..], version, message);
                        let known = (&app_ports[..], self.absent);
                        foreign_flows(&mut reading, part, known, &mut removals);
                    }
                    if reading.band_check.is_some() {
                        let before = removals.count;
                        let part = (version, message);
                        remove_earlier_flows(
                            &mut reading,
                            part,
                            app_ports,
                            &mut removals,
                            self.now,
                        );
                        if removals.count > before {
                            switch.healing.note_delete(self.now);
                        }
                    }
                    if let Some(check) = &mut reading.check {
                        for (table, owner) in &places {
                            check.count(*table, *owner);
                        }
                    }
                    let part = (&owners[..], message);
                    inform(switch, &mut reading.inform, app_ports, part, (self.copy, self.now));
                    true
                }
                Err(_) => false,
            },
            Step::Groups | Step::Meters => removal.groups_or_meters(message),
        };
        switch.flow_reader.reading = Some(reading);
        if !is_sound {
            self.reading_failed("its answer is malformed");
        } else if is_last {
            self.next_step();
        }
    }

    /// Continues without the reply to a reading's request. `why` is a phrase about the switch.
    pub(in crate::worker) fn reading_failed(&mut self, why: &str) {
        let Some(switch) = self.connection.switch_mut() else { return };
        match switch.flow_reader.reading.as_ref().map(|reading| reading.step) {
            // It has none, or does not know what these are.
            Some(Step::Groups | Step::Meters) => self.next_step(),
            Some(Step::Flows) => {
                end(switch, &mut self.dispatch.app_ports, self.log_limits, Some(why), self.now);
            }
            None => {}
        }
    }

    /// Requests the next step of a reading, or ends it.
    fn next_step(&mut self) {
        let (phase, own) = self.connection.split();
        let Some(Up { switch, .. }) = phase.up_mut() else { return };
        let version = switch.version;
        let mut removals =
            Removals { own, outcomes: &mut switch.outcomes, is_full: false, count: 0 };
        let Some(reading) = &mut switch.flow_reader.reading else { return };
        let features = version.features();
        let has_more = reading.only.is_none() && !self.absent.is_empty();
        let next = match reading.step {
            Step::Flows if has_more && features.groups => {
                Some((Step::Groups, MultipartRequest::GroupDesc))
            }
            Step::Groups if features.meters => {
                Some((Step::Meters, MultipartRequest::MeterConfig(MeterMod::ALL_METERS)))
            }
            Step::Flows | Step::Groups | Step::Meters => None,
        };
        if reading.step == Step::Flows && features.cookie_masks {
            let lost = reading.found.iter().map(|(app, owned)| (*app, owned.flows));
            let lost = lost.filter(|(app, _)| self.absent.loses(*app, reading.removes_all));
            for (app, flows) in lost.collect::<Vec<_>>() {
                reading.removed.entry(app).or_default().flows += flows;
                let delete = FlowMod::delete(Match::new()).table(FlowMod::ALL_TABLES);
                let delete = delete.only_cookie(first_cookie(app), !OWN_BITS);
                removals.send(|xid, out| delete.encode(version, xid, out));
            }
        }
        match next {
            Some((step, wanted)) => {
                reading.step = step;
                switch.flow_reader.progress(self.now);
                request(self.connection, (By::FlowReader, None), &wanted, self.now);
            }
            None => end(switch, &mut self.dispatch.app_ports, self.log_limits, None, self.now),
        }
    }
}

/// The messages that remove flows, groups and meters of a switch.
pub(in crate::worker) struct Removals<'r> {
    own: OwnOutput<'r>,
    outcomes: &'r mut Outcomes,
    /// Whether too much output waits to add to it.
    pub(in crate::worker) is_full: bool,
    /// The number of messages so far.
    count: usize,
}

impl Removals<'_> {
    /// Sends a message. Returns `false` and logs the reason if the message cannot be encoded.
    pub(in crate::worker) fn send(
        &mut self,
        encode: impl Fn(u32, &mut [u8]) -> Result<usize, EncodeError>,
    ) -> bool {
        match self.own.send(encode) {
            Ok(sent) => {
                self.outcomes.sent(Purpose::Removal, sent.xid);
                self.count += 1;
                true
            }
            // A match that was decoded in a version can be encoded in it.
            Err(error) => {
                warn!(%error, "could not encode a message of the kernel's own");
                false
            }
        }
    }
}

/// A part of a reply in which owners are counted, and the messages that remove what some of them own.
struct Removal<'r, 'o> {
    absent: &'r AbsentApps,
    reading: &'r mut Reading,
    version: Version,
    removals: &'r mut Removals<'o>,
}

impl Removal<'_, '_> {
    /// Counts the flows of absent apps. In OpenFlow 1.0, removes those of apps that lose theirs one by one, because that
    /// version cannot select them by cookie.
    fn flows(&mut self, owners: &[AppId], message: &[u8]) {
        let absent = self.absent;
        let mut loses_some = false;
        for owner in owners.iter().filter(|owner| absent.has(**owner)) {
            self.reading.found.entry(*owner).or_default().flows += 1;
            loses_some |= absent.loses(*owner, self.reading.removes_all);
        }
        if !loses_some || self.version.features().cookie_masks {
            return;
        }
        let Ok(MultipartReply { body: ReplyBody::Flow(flows), .. }) =
            MultipartReply::decode(message)
        else {
            return;
        };
        for flow in flows {
            let owner = rewrite::owner(flow.cookie);
            if self.may_remove(owner) {
                let delete = FlowMod::new(FlowModCommand::DeleteStrict, flow.match_);
                let delete = delete.priority(flow.priority);
                let version = self.version;
                self.removals.send(|xid, out| delete.encode(version, xid, out));
                self.reading.removed.entry(owner).or_default().flows += 1;
            }
        }
    }

    /// Counts groups or meters of absent apps, and removes those of apps that lose theirs. `false` if the message is
    /// malformed.
    fn groups_or_meters(&mut self, message: &[u8]) -> bool {
        match MultipartReply::decode(message).map(|reply| reply.body) {
            Ok(ReplyBody::GroupDesc(groups)) => {
                for it in groups {
                    self.group(it.group_id);
                }
            }
            Ok(ReplyBody::MeterConfig(meters)) => {
                for it in meters {
                    self.meter(it.meter_id);
                }
            }
            _ => return false,
        }
        true
    }

    fn group(&mut self, group_id: u32) {
        let owner = AppId::of_group(group_id);
        let Some(owner) = owner.filter(|owner| self.absent.has(*owner)) else { return };
        self.reading.found.entry(owner).or_default().groups += 1;
        if self.may_remove(owner) {
            let (command, kind) = (GroupModCommand::Delete, GroupKind::All);
            let delete = GroupMod { command, kind, group_id, buckets: Vec::new() };
            let version = self.version;
            self.removals.send(|xid, out| delete.encode(version, xid, out));
            self.reading.removed.entry(owner).or_default().groups += 1;
        }
    }

    fn meter(&mut self, meter_id: u32) {
        let Some(owner) = self.absent.owner_of_meter(meter_id) else { return };
        self.reading.found.entry(owner).or_default().meters += 1;
        if self.may_remove(owner) {
            let (command, flags) = (MeterModCommand::Delete, MeterFlags::default());
            let delete = MeterMod { command, flags, meter_id, bands: Vec::new() };
            let version = self.version;
            self.removals.send(|xid, out| delete.encode(version, xid, out));
            self.reading.removed.entry(owner).or_default().meters += 1;
        }
    }

    /// Whether something of this app is removed now. If only the output has no room, the next reading removes it.
    fn may_remove(&mut self, owner: AppId) -> bool {
        let loses = self.absent.loses(owner, self.reading.removes_all);
        self.reading.is_cut_short |= loses && self.removals.is_full;
        loses && !self.removals.is_full
    }
}

/// Whether a flow with this owner is of no app of this installation.
fn is_foreign(owner: AppId, app_ports: &[AppPort], absent: &AbsentApps) -> bool {
    owner != KERNEL && !absent.has(owner) && !app_ports.iter().any(|port| port.app == owner)
}

/// Returns the number of flows of no app of this installation, by the image of a switch's flows.
pub(in crate::worker) fn foreign(
    image: &FlowImage,
    app_ports: &[AppPort],
    absent: &AbsentApps,
) -> u32 {
    let foreign = image.owners().filter(|(owner, _)| is_foreign(*owner, app_ports, absent));
    foreign.fold(0, |sum, (_, count)| sum.saturating_add(count))
}

/// Returns what the image of a switch's flows says about foreign flows, and the flows that a reading may remove.
fn known_flows(
    image: &FlowImage,
    app_ports: &[AppPort],
    (absent, removes_all): (&AbsentApps, bool),
) -> KnownFlows {
    let is_earlier = |flow: &Flow| {
        let port = app_ports.iter().find(|port| port.app == flow.owner && !port.is_absent);
        port.is_some_and(|port| may_be_earlier(port, flow.priority))
    };
    KnownFlows {
        foreign: foreign(image, app_ports, absent),
        has_lost: image.owners().any(|(owner, _)| absent.loses(owner, removes_all)),
        has_earlier: image.flows().any(is_earlier),
    }
}

/// Puts the numbers of flows that absent apps have by the image into `found`.
fn found_in(image: &FlowImage, absent: &AbsentApps, found: &mut ByOwner) {
    for owned in found.values_mut() {
        owned.flows = 0;
    }
    for (owner, flows) in image.owners().filter(|(owner, _)| absent.has(*owner)) {
        found.entry(owner).or_default().flows = flows;
    }
    found.retain(|_, owned| *owned != Owned::default());
}

/// Counts the flows of no app of this installation, and removes them if the reading is for that.
fn foreign_flows(
    reading: &mut Reading,
    (owners, version, message): (&[AppId], Version, &[u8]),
    (app_ports, absent): (&[AppPort], &AbsentApps),
    removals: &mut Removals<'_>,
) {
    let is_foreign = |owner: AppId| is_foreign(owner, app_ports, absent);
    let count = owners.iter().filter(|owner| is_foreign(**owner)).count();
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    if count == 0 || !reading.removes_foreign || removals.is_full {
        reading.foreign = reading.foreign.saturating_add(count);
        return;
    }
    let Ok(MultipartReply { body: ReplyBody::Flow(flows), .. }) = MultipartReply::decode(message)
    else {
        return;
    };
    for flow in flows.into_iter().filter(|flow| is_foreign(rewrite::owner(flow.cookie))) {
        let delete = FlowMod::new(FlowModCommand::DeleteStrict, flow.match_);
        let mut delete = delete.priority(flow.priority);
        if version.features().cookie_masks {
            delete = delete.table(flow.table_id).only_cookie(flow.cookie, u64::MAX);
        }
        removals.send(|xid, out| delete.encode(version, xid, out));
        reading.removed.entry(AppId::OTHER).or_default().flows += 1;
    }
}

/// Delivers a part of a switch's flows to the apps that have some in it. `owners` are those of each flow.
fn inform(
    switch: &mut Switch,
    inform: &mut [Informed],
    app_ports: &mut [AppPort],
    (owners, message): (&[AppId], &[u8]),
    (copy, now): (&mut Vec<u8>, Instant),
) {
    for informed in inform {
        let app_port = &mut app_ports[informed.slot.index()];
        if app_port.life != informed.life || !owners.contains(&app_port.app) {
            continue;
        }
        copy.clear();
        copy.extend_from_slice(message);
        let is_earlier = |priority, age| is_earlier(app_port, (priority, age), now);
        let is_sound = rewrite::own_flows(app_port.app, switch.version, copy, is_earlier).is_ok();
        informed.has_gap |= !is_sound || !app_port.flows_kept(switch, copy, true);
    }
}

/// Ends a reading: informs its apps of the end, and logs what was removed. `failure` is why it has failed, as a phrase about
/// the switch.
fn end(
    switch: &mut Switch,
    app_ports: &mut [AppPort],
    log_limits: &mut LogLimits,
    failure: Option<&str>,
    now: Instant,
) {
    let has_failed = failure.is_some();
    let keeps_removed = switch.outcomes.is_failing(Purpose::Removal);
    let Some(reading) = switch.flow_reader.end(has_failed, keeps_removed, now) else { return };
    match failure {
        Some(why) => switch.outcomes.fail(Purpose::Reading, why, now),
        None => switch.outcomes.done(Purpose::Reading),
    }
    if let Some(check) = reading.check.as_ref().filter(|_| !has_failed)
        && switch.watch.differs(&check.tally, check.reports)
        && let Some(suppressed) = log_limits.watch.admit(now)
    {
        let (dpid, differences) = (switch.dpid, switch.watch.differences);
        warn!(%dpid, differences, suppressed, "switch has other flows than its flow monitor reported; it lists them again");
    }
    let removes_earlier = reading.band_check.as_ref().is_some_and(|it| !it.removed.is_empty());
    let removes_nothing = reading.removed.is_empty() && !removes_earlier;
    if removes_nothing && reading.only.is_none() && !has_failed {
        switch.outcomes.done(Purpose::Removal); // somebody else has removed the rest
    }
    let mut none = Vec::new();
    let reply = MultipartReply { more: false, body: ReplyBody::Flow(Vec::new()) };
    openflow::append(&mut none, |out| reply.encode(switch.version, 0, out))
        .expect("every version has this message");
    for Informed { slot, life, has_gap } in reading.inform {
        let app_port = &mut app_ports[slot.index()];
        if app_port.life == life {
            app_port.flows_kept(switch, &none, !has_gap && !has_failed);
        }
    }
    let dpid = switch.dpid;
    if has_failed {
        debug!(%dpid, "could not read the flows of a switch");
    }
    for (app, flows) in reading.band_check.unwrap_or_default().removed {
        if let Some(suppressed) = log_limits.removed.admit(now) {
            info!(
                %dpid, app = app.0, flows, suppressed,
                "removed flows that an app wrote before its priority band moved"
            );
        }
    }
    for (app, owned) in reading.removed {
        if app == AppId::OTHER {
            info!(%dpid, flows = owned.flows, "removed flows of others for an operator");
        } else if let Some(suppressed) = log_limits.removed.admit(now) {
            info!(
                %dpid, app = app.0, flows = owned.flows, groups = owned.groups,
                meters = owned.meters, suppressed,
                "removed what an absent app owned in a switch"
            );
        }
    }
}

/// The lowest cookie of an app's flows.
fn first_cookie(app: AppId) -> u64 {
    u64::from(app.0) << APP_SHIFT
}
