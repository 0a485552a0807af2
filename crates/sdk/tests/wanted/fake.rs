//! A switch with flow, group and meter tables, and a storage, both without processes.

use std::collections::BTreeMap;

use openflow::{
    ErrorMessage, Field, FlowMod, FlowModCommand, FlowModFlags, FlowRemoved, FlowRemovedReason,
    FlowStats, GroupDesc, GroupMod, GroupModCommand, Header, Kind, Match, MeterBand, MeterConfig,
    MeterFlags, MeterMod, MeterModCommand, MultipartReply, MultipartRequest, ReplyBody, Version,
    append,
};
use rosemary_sdk::abi::{RECORD_HEAD, RecordKind};
use rosemary_sdk::services::storage::{Answer, KeysWriter, Request};
use rosemary_sdk::services::{Outcome, Service};
use rosemary_sdk::testing::{AlignedRecord, Bench, SentChanges, ServiceRequest};
use rosemary_sdk::{Action, Applied, Committed, Guarantee, NotApplied, Switch};

/// A flow in the table. It is the flow-mod that added it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flow {
    key: (u8, u16, Match),
    pub(crate) message: Vec<u8>,
    pub(crate) packets: u64,
    /// When it was added; a new flow has a new number.
    pub(crate) born: u64,
}

impl Flow {
    pub(crate) fn flow_mod(&self) -> FlowMod<'_> {
        FlowMod::decode(&self.message).unwrap()
    }
}

/// A switch.
#[derive(Debug)]
pub(crate) struct FakeSwitch {
    pub(crate) at: Switch,
    pub(crate) flows: Vec<Flow>,
    pub(crate) groups: BTreeMap<u32, GroupMod>,
    pub(crate) meters: BTreeMap<u32, MeterMod>,
    pub(crate) capacity: usize,
    /// Lists matches without VLANs.
    pub(crate) hides_vlans: bool,
    /// Lists the flags of flows.
    pub(crate) lists_flags: bool,
    /// Number of flow-mods, group-mods and meter-mods.
    pub(crate) changes: usize,
    /// Number of requests for a listing of the flows.
    pub(crate) readings: usize,
    /// The numbers of changes in the sets that it has applied.
    pub(crate) sets: Vec<usize>,
    /// Lacks an answer to sets.
    pub(crate) is_silent: bool,
    clock: u64,
}

impl FakeSwitch {
    pub(crate) fn new(dpid: u64, version: Version) -> Self {
        Self {
            at: Bench::switch(dpid, version),
            flows: Vec::new(),
            groups: BTreeMap::new(),
            meters: BTreeMap::new(),
            capacity: usize::MAX,
            hides_vlans: false,
            lists_flags: true,
            changes: 0,
            readings: 0,
            sets: Vec::new(),
            is_silent: false,
            clock: 0,
        }
    }

    /// Forgets everything, as after a restart.
    pub(crate) fn wipe(&mut self) {
        self.flows.clear();
        self.groups.clear();
        self.meters.clear();
    }

    /// Handles a message; returns the answers.
    pub(crate) fn handle(&mut self, message: &[u8]) -> Vec<AlignedRecord> {
        let header = Header::decode(message).unwrap();
        match Kind::from_wire(self.at.version, header.kind).unwrap() {
            Kind::FlowMod => {
                self.changes += 1;
                self.flow_mod(message)
            }
            Kind::GroupMod => {
                self.changes += 1;
                self.group_mod(message)
            }
            Kind::MeterMod => {
                self.changes += 1;
                self.meter_mod(message)
            }
            Kind::BarrierRequest => {
                let mut reply = vec![0; Header::SIZE];
                let at = self.at;
                Kind::BarrierReply.encode_empty(at.version, header.xid, &mut reply).unwrap();
                vec![AlignedRecord::answer(RecordKind::Reply, at, &reply)]
            }
            Kind::MultipartRequest => {
                let request = MultipartRequest::decode(message).unwrap();
                self.readings += usize::from(matches!(request, MultipartRequest::Flow(_)));
                self.list(&request, header.xid, RecordKind::Reply)
            }
            other => panic!("{other} is not expected"),
        }
    }

    /// Applies a change set wholly or not at all; returns the answers.
    pub(crate) fn commit(&mut self, set: &SentChanges) -> Vec<AlignedRecord> {
        if self.is_silent {
            return Vec::new();
        }
        let before = (self.flows.clone(), self.groups.clone(), self.meters.clone());
        let mut answers = Vec::new();
        let mut outcome = Ok(Applied { guarantee: Guarantee::Atomic, outside: 0 });
        for (index, message) in set.messages.iter().enumerate() {
            let answered = self.handle(message);
            let is_error = |it: &&AlignedRecord| it.bytes()[4] == RecordKind::Error as u8;
            if let Some(error) = answered.iter().find(is_error) {
                let body = &error.bytes()[RECORD_HEAD..];
                let (kind, code) = (two(body, 8), two(body, 10));
                let error = ErrorMessage { version: self.at.version, kind, code, data: &[] };
                let index = Some(index);
                outcome = Err(NotApplied::Failed { index, error, is_partial: false });
                (self.flows, self.groups, self.meters) = before;
                answers.clear();
                break;
            }
            answers.extend(answered);
        }
        if outcome.is_ok() {
            self.sets.push(set.messages.len());
        }
        let (switch, commit) = (self.at, set.commit);
        answers.push(AlignedRecord::committed(&Committed { switch, commit, outcome }));
        answers
    }

    fn shown(&self, match_: &Match) -> Match {
        let mut shown = Match::new();
        let is_vlan = |field: &Field| matches!(field, Field::VlanVid(_));
        match_
            .fields()
            .filter(|it| !self.hides_vlans || !is_vlan(it))
            .for_each(|it| shown.set(&it));
        shown
    }

    /// The kernel's delivery of the application's flows.
    pub(crate) fn kept(&self) -> Vec<AlignedRecord> {
        let all = openflow::FlowStatsRequest::new(Match::new());
        let mut records = self.list(&MultipartRequest::Flow(all), 0, RecordKind::FlowsKept);
        records.push(self.part(ReplyBody::Flow(Vec::new()), false, 0, RecordKind::FlowsKept));
        records
    }

    fn error(&self, message: &[u8], (kind, code): (u16, u16)) -> Vec<AlignedRecord> {
        let data = &message[..message.len().min(64)];
        let error = ErrorMessage { version: self.at.version, kind, code, data };
        let mut out = vec![0; 256];
        let size = error.encode(Header::decode(message).unwrap().xid, &mut out).unwrap();
        vec![AlignedRecord::answer(RecordKind::Error, self.at, &out[..size])]
    }

    fn flow_mod(&mut self, message: &[u8]) -> Vec<AlignedRecord> {
        let flow_mod = FlowMod::decode(message).unwrap();
        let old = self.at.version.features().modify_adds;
        let key = (flow_mod.table_id, flow_mod.priority, self.shown(&flow_mod.match_));
        let place = self.flows.iter().position(|flow| flow.key == key);
        let uses = |action: Action| match action {
            Action::Group(group) => !self.groups.contains_key(&group),
            _ => false,
        };
        if !flow_mod.command.is_delete()
            && (flow_mod.instructions.apply.iter().any(uses)
                || flow_mod.instructions.meter.is_some_and(|it| !self.meters.contains_key(&it)))
        {
            return self.error(message, (2, 9));
        }
        match (flow_mod.command, place) {
            (FlowModCommand::ModifyStrict, Some(place)) => {
                let mut new = flow_mod.clone();
                new.command = FlowModCommand::Add;
                if !old {
                    new.cookie = self.flows[place].flow_mod().cookie;
                    new.cookie_mask = 0;
                }
                let mut bytes = Vec::new();
                append(&mut bytes, |out| new.encode(self.at.version, 0, out)).unwrap();
                self.flows[place].message = bytes;
            }
            (FlowModCommand::ModifyStrict, None) if !old => {}
            (FlowModCommand::Add | FlowModCommand::ModifyStrict, place) => {
                if place.is_none() && self.flows.len() >= self.capacity {
                    return self.error(
                        message,
                        if self.at.version == Version::V1_0 { (3, 0) } else { (5, 1) },
                    );
                }
                let mut new = flow_mod.clone();
                new.command = FlowModCommand::Add;
                let mut bytes = Vec::new();
                append(&mut bytes, |out| new.encode(self.at.version, 0, out)).unwrap();
                self.clock += 1;
                // OpenFlow 1.3 copies the counters of a flow that is replaced, 1.0 does not.
                let packets = place.filter(|_| !old).map_or(0, |place| self.flows[place].packets);
                let flow = Flow { key, message: bytes, packets, born: self.clock };
                match place {
                    Some(place) => self.flows[place] = flow,
                    None => self.flows.push(flow),
                }
            }
            (FlowModCommand::DeleteStrict, Some(place)) => {
                return self.remove(place).into_iter().collect();
            }
            (FlowModCommand::DeleteStrict, None) => {}
            (FlowModCommand::Modify | FlowModCommand::Delete, _) => {
                panic!("the library touches one flow at a time")
            }
        }
        Vec::new()
    }

    /// Has no flow whose removal is reported.
    pub(crate) fn report_none(&mut self) {
        for flow in &mut self.flows {
            let silent = FlowMod { flags: FlowModFlags::default(), ..flow.flow_mod() };
            let mut message = Vec::new();
            append(&mut message, |out| silent.encode(self.at.version, 0, out)).unwrap();
            flow.message = message;
        }
    }

    /// Removes a flow as a delete does; returns the report if the flow asks for it.
    pub(crate) fn remove(&mut self, place: usize) -> Option<AlignedRecord> {
        let removed = self.flows.remove(place);
        let flow = removed.flow_mod();
        let is_reported = flow.flags.contains(FlowModFlags::SEND_FLOW_REM);
        let report = FlowRemoved {
            match_: self.shown(&flow.match_),
            cookie: flow.cookie,
            priority: flow.priority,
            reason: FlowRemovedReason::Delete,
            table_id: flow.table_id,
            duration: std::time::Duration::ZERO,
            idle_timeout: 0,
            hard_timeout: 0,
            packet_count: removed.packets,
            byte_count: 0,
        };
        let mut message = Vec::new();
        append(&mut message, |out| report.encode(self.at.version, 0, out)).unwrap();
        let reason = FlowRemovedReason::Delete.wire();
        is_reported.then(|| AlignedRecord::flow_removed(self.at, flow.cookie, reason, &message))
    }

    fn group_mod(&mut self, message: &[u8]) -> Vec<AlignedRecord> {
        let group_mod = GroupMod::decode(message).unwrap();
        let (number, is_there) =
            (group_mod.group_id, self.groups.contains_key(&group_mod.group_id));
        match (group_mod.command, is_there) {
            (GroupModCommand::Add, true) => return self.error(message, (6, 0)),
            (GroupModCommand::Modify, false) => return self.error(message, (6, 8)),
            (GroupModCommand::Delete, _) => {
                self.groups.remove(&number);
                let uses = |action: Action| action == Action::Group(number);
                self.flows.retain(|flow| !flow.flow_mod().instructions.apply.iter().any(uses));
            }
            _ => {
                self.groups.insert(number, group_mod);
            }
        }
        Vec::new()
    }

    fn meter_mod(&mut self, message: &[u8]) -> Vec<AlignedRecord> {
        let meter_mod = MeterMod::decode(message).unwrap();
        let (number, is_there) =
            (meter_mod.meter_id, self.meters.contains_key(&meter_mod.meter_id));
        match (meter_mod.command, is_there) {
            (MeterModCommand::Add, true) => return self.error(message, (12, 1)),
            (MeterModCommand::Modify, false) => return self.error(message, (12, 3)),
            (MeterModCommand::Delete, _) => {
                self.meters.remove(&number);
                self.flows.retain(|flow| flow.flow_mod().instructions.meter != Some(number));
            }
            _ => {
                self.meters.insert(number, meter_mod);
            }
        }
        Vec::new()
    }

    fn part(&self, body: ReplyBody<'_>, more: bool, xid: u32, kind: RecordKind) -> AlignedRecord {
        let mut message = Vec::new();
        let reply = MultipartReply { more, body };
        append(&mut message, |out| reply.encode(self.at.version, xid, out)).unwrap();
        AlignedRecord::answer(kind, self.at, &message)
    }

    fn list(
        &self,
        request: &MultipartRequest<'_>,
        xid: u32,
        kind: RecordKind,
    ) -> Vec<AlignedRecord> {
        match request {
            MultipartRequest::Flow(wanted) => {
                let flows: Vec<FlowMod<'_>> = self.flows.iter().map(Flow::flow_mod).collect();
                let has_flags = self.at.version.features().flow_stats_flags;
                let hides_flags = !has_flags || !self.lists_flags;
                let shown = flows
                    .iter()
                    .zip(&self.flows)
                    .filter(|(flow, _)| (flow.cookie ^ wanted.cookie) & wanted.cookie_mask == 0);
                let shown: Vec<_> = shown
                    .map(|(flow, kept)| FlowStats {
                        table_id: flow.table_id,
                        duration: std::time::Duration::ZERO,
                        priority: flow.priority,
                        idle_timeout: flow.idle_timeout,
                        hard_timeout: flow.hard_timeout,
                        flags: if hides_flags { FlowModFlags::default() } else { flow.flags },
                        importance: 0,
                        cookie: flow.cookie,
                        packet_count: kept.packets,
                        byte_count: 0,
                        match_: self.shown(&flow.match_),
                        instructions: flow.instructions,
                    })
                    .collect();
                if kind == RecordKind::FlowsKept {
                    let parts = shown.chunks(100);
                    return parts
                        .map(|part| self.part(ReplyBody::Flow(part.to_vec()), true, xid, kind))
                        .collect();
                }
                let count = shown.len().div_ceil(100).max(1);
                (0..count)
                    .map(|number| {
                        let part = shown.iter().skip(number * 100).take(100).cloned().collect();
                        self.part(ReplyBody::Flow(part), number + 1 < count, xid, kind)
                    })
                    .collect()
            }
            MultipartRequest::GroupDesc => {
                let of = |it: &GroupMod| GroupDesc {
                    kind: it.kind,
                    group_id: it.group_id,
                    buckets: it.buckets.clone(),
                };
                let groups = self.groups.values().map(of).collect();
                vec![self.part(ReplyBody::GroupDesc(groups), false, xid, kind)]
            }
            MultipartRequest::MeterConfig(_) => {
                // As Open vSwitch does, it lists the rate as the burst size of a meter without bursts.
                let band = |flags: MeterFlags, band: &MeterBand| match band {
                    MeterBand::Drop { rate, .. } if flags.0 & MeterFlags::BURST.0 == 0 => {
                        MeterBand::Drop { rate: *rate, burst_size: *rate }
                    }
                    other => other.clone(),
                };
                let of = |it: &MeterMod| MeterConfig {
                    flags: it.flags,
                    meter_id: it.meter_id,
                    bands: it.bands.iter().map(|it_band| band(it.flags, it_band)).collect(),
                };
                let meters = self.meters.values().map(of).collect();
                vec![self.part(ReplyBody::MeterConfig(meters), false, xid, kind)]
            }
            other => panic!("{other:?} is not expected"),
        }
    }
}

/// A storage that outlives applications.
#[derive(Debug, Default)]
pub(crate) struct FakeStorage {
    pub(crate) values: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) writes: usize,
}

impl FakeStorage {
    /// Carries out a request; returns the answer.
    pub(crate) fn handle(&mut self, asked: &ServiceRequest) -> AlignedRecord {
        let answer = match Request::decode(&asked.request).expect("it is well formed") {
            Request::Get { key, .. } => match self.values.get(key) {
                Some(value) => Answer::Value { version: 1, value }.encode(),
                None => Answer::Nothing.encode(),
            },
            Request::Put { key, value, .. } => {
                self.writes += 1;
                self.values.insert(key.to_vec(), value.to_vec());
                Answer::Done { version: 1 }.encode()
            }
            Request::Delete { key, .. } => {
                self.writes += 1;
                self.values.remove(key);
                Answer::Done { version: 0 }.encode()
            }
            Request::List { prefix, after, .. } => {
                let mut keys = KeysWriter::default();
                let found = self.values.keys().filter(|key| key.starts_with(prefix));
                let mut found = found.filter(|key| key.as_slice() > after).peekable();
                // Few keys in each answer, so that it takes several.
                for key in found.by_ref().take(3) {
                    assert!(keys.push(key, 1));
                }
                keys.finish(found.peek().is_some())
            }
            other => panic!("{other:?} is not expected"),
        };
        AlignedRecord::service(Service::Storage, Outcome::Answered, asked.id, &answer)
    }
}

fn two(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}
