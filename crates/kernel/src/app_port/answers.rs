//! What comes back to an app about what it sent: replies, errors, flows that went.
//!
//! They use of a ring what packet-ins may use, so that an app that asks much, or a switch that tells
//! much, leaves room for what happens to switches and ports. What finds none is counted, and the
//! count is told as soon as there is room. After an app's death nothing of it is told again: the
//! instance that asked is gone; flows that went meanwhile are counted too.

use openflow::FlowRemoved;
use sdk::abi::{Record, RecordKind};
use sys::ring::Room;

use super::{AppPort, Phase};
use crate::check::OWN_BITS;
use crate::record::{lost_record, switch_record};
use crate::switch::Switch;

impl AppPort {
    /// Its place among the app ports.
    pub(crate) fn slot(&self) -> u16 {
        u16::try_from(self.slot).expect("there are few app_ports")
    }

    /// Gives the app a reply or an error, already in its own words. `false` if it was lost.
    pub(crate) fn answer(&mut self, kind: RecordKind, switch: &mut Switch, message: &[u8]) -> bool {
        let record = switch_record(kind, switch);
        self.tell(switch, record, message)
    }

    /// Tells the app that a flow of its is gone. `false` if that was lost.
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
        self.tell(switch, record, message)
    }

    fn tell(&mut self, switch: &mut Switch, record: Record, message: &[u8]) -> bool {
        let told = u16::try_from(message.len()).is_ok_and(|body_size| {
            let record = Record { body_size, ..record };
            self.announce(switch) && self.push(&record.words(), message, Room::AllButReserve)
        });
        if !told {
            self.lose();
        }
        told
    }

    /// Counts one thing that did not reach the app.
    pub(crate) fn lose(&mut self) {
        self.counts.lost += 1;
        self.lost = self.lost.saturating_add(1);
    }

    /// Whether there is something lost to be told now.
    pub(super) fn has_lost(&self) -> bool {
        self.lost > 0 && matches!(self.phase, Phase::Replay | Phase::Live)
    }

    /// Tells the app how much it has lost since it was told last.
    pub(super) fn tell_lost(&mut self) {
        let (record, body) = lost_record(self.lost);
        if self.has_lost() && self.push(&record.words(), &body, Room::All) {
            self.lost = 0;
        }
    }
}
