//! Delivers answers to an app's messages: replies, errors, removed flows.
//!
//! Answers use the part of the ring that packet-ins may use, so that an app with many requests, or a switch with long
//! replies, leaves room for announcements of switches and ports. Answers that find no room are counted, and the app
//! receives the count with the next free space. After an app's death no answer is delivered again: the instance that sent
//! the request is gone. Flows that were removed meanwhile are counted too.

use openflow::FlowRemoved;
use sdk::abi::{Record, RecordKind};
use sdk::{Committed, LearnedHost, LostRequest, NotApplied};
use sys::ring::Room;

use super::{AppPort, Phase};
use crate::check::OWN_BITS;
use crate::record::{lost_record, switch_record};
use crate::switch::Switch;

/// Most bytes of a text for the app.
const MOST_TEXT: usize = 1024;

impl AppPort {
    /// Delivers a reply or an error, with the app's own ids; `false` if it was lost.
    pub(crate) fn answer(&mut self, kind: RecordKind, switch: &mut Switch, message: &[u8]) -> bool {
        let record = switch_record(kind, switch);
        self.deliver(switch, record, message)
    }

    /// Reports that a request of the app's is not answered any more. `xid` is the app's.
    pub(crate) fn request_lost(&mut self, switch: &mut Switch, xid: u32, why: LostRequest) {
        let record = Record { reason: why as u8, ..switch_record(RecordKind::RequestLost, switch) };
        let header = [&[switch.version.wire(), 0, 0, 8][..], &xid.to_be_bytes()].concat();
        if self.deliver(switch, record, &header) {
            self.lose(); // apps that follow no transaction ids count
        }
    }

    /// Reports a removed flow of the app's; `false` if the report was lost.
    pub(crate) fn flow_removed(
        &mut self,
        switch: &mut Switch,
        removed: &FlowRemoved,
        message: &[u8],
    ) -> bool {
        let record = Record {
            cookie: removed.cookie & OWN_BITS,
            reason: removed.reason.wire(),
            table_id: removed.table_id,
            ..switch_record(RecordKind::FlowRemoved, switch)
        };
        self.deliver(switch, record, message)
    }

    /// Reports a host that a switch has learned by itself, if the app may receive packet-ins of the switch. The switch repeats the
    /// report, so one without room is not counted as lost.
    pub(crate) fn learned_host(&mut self, switch: &mut Switch, host: &LearnedHost) {
        if self.rights.at(switch.dpid.0).packet_in && self.announce(switch) {
            let (record, body) = host.to_record();
            let _ = self.delivery.push(&record.words(), &body, Room::Ordinary);
        }
    }

    /// Reports that a switch has lost flows. Returns the number of records that the app has handled once it has handled
    /// this one; `None` if the app learns it from an announcement of the switch instead.
    pub(crate) fn flows_missing(&mut self, switch: &mut Switch) -> Option<u64> {
        if !self.announce(switch) {
            return None; // the pending announcement causes the same
        }
        let record = switch_record(RecordKind::FlowsMissing, switch);
        if !self.delivery.push(&record.words(), &[], Room::All) {
            self.snapshot.announce_again(switch);
            return None;
        }
        Some(self.counts.handled + u64::from(self.waiting()))
    }

    /// Delivers flows of the app that a switch has, as a part of a multipart reply; `false` if there was no room. They use
    /// the room of ordinary packet-ins, since there can be any number of them.
    pub(crate) fn flows_kept(
        &mut self,
        switch: &mut Switch,
        message: &[u8],
        is_complete: bool,
    ) -> bool {
        u16::try_from(message.len()).is_ok_and(|body_size| {
            let reason = u8::from(!is_complete);
            let head = switch_record(RecordKind::FlowsKept, switch);
            let record = Record { body_size, reason, ..head };
            self.announce(switch) && self.delivery.push(&record.words(), message, Room::Ordinary)
        })
    }

    /// Whether the app has received its snapshot, so that it can be informed of its flows.
    pub(crate) fn can_be_informed(&self) -> bool {
        matches!(self.snapshot.phase, Phase::Replay | Phase::Live)
    }

    /// Delivers the outcome of a change set of the app's. `body` is the head of the switch's error, if the outcome has one.
    pub(crate) fn committed(&mut self, committed: &Committed<'_>, body: &[u8]) {
        let at = committed.switch;
        let head = (at.version.wire(), at.dpid.0, at.epoch);
        let mut record = Record::new(RecordKind::Committed, head.0, head.1, head.2);
        // An app may cause any number of refusals, but few sets wait for a switch.
        let is_refusal = matches!(committed.outcome, Err(NotApplied::Refused { .. }));
        let room = if is_refusal { Room::AllButReserve } else { Room::All };
        let text = committed.write(&mut record).map(str::as_bytes);
        let body = text.map_or(body, |text| text.get(..MOST_TEXT).unwrap_or(text));
        let is_delivered = u16::try_from(body.len()).is_ok_and(|body_size| {
            let record = Record { body_size, ..record };
            self.delivery.push(&record.words(), body, room)
        });
        if !is_delivered && self.is_attached() {
            self.lose();
        }
    }

    fn deliver(&mut self, switch: &mut Switch, record: Record, message: &[u8]) -> bool {
        let is_delivered = u16::try_from(message.len()).is_ok_and(|body_size| {
            let record = Record { body_size, ..record };
            self.announce(switch)
                && self.delivery.push(&record.words(), message, Room::AllButReserve)
        });
        if !is_delivered {
            self.lose();
        }
        is_delivered
    }

    /// Counts a message that did not reach the app.
    pub(crate) fn lose(&mut self) {
        self.counts.lost += 1;
        self.lost = self.lost.saturating_add(1);
    }

    /// Whether lost messages can be reported to the app now.
    pub(super) fn has_lost(&self) -> bool {
        self.lost > 0 && matches!(self.snapshot.phase, Phase::Replay | Phase::Live)
    }

    /// Reports to the app how many messages it has lost since the last report.
    pub(super) fn report_lost(&mut self) {
        let (record, body) = lost_record(self.lost);
        if self.has_lost() && self.delivery.push(&record.words(), &body, Room::All) {
            self.lost = 0;
        }
    }
}
