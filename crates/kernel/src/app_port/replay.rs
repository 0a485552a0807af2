//! Delivers the records that waited for a restarted app, in order.

use sdk::abi::{self, RecordKind};
use sys::ring::Room;

use super::part::Turn;
use super::tracked::Tracked;
use super::{AppPort, Delivery, Phase, low_half, split};

const PACKET_IN: u64 = RecordKind::PacketIn as u64;
const FLOW_REMOVED: u64 = RecordKind::FlowRemoved as u64;

impl AppPort {
    /// Puts the records that the app's last instance has not handled at the front of the backlog.
    ///
    /// Records before the first packet-in are dropped, as in [`replay`](Self::replay): an app that repeatedly ends
    /// before its replay must not add a ring each time.
    pub(super) fn put_first(&mut self, mut undone: Tracked) {
        let mut record = Vec::new();
        while undone.oldest(&mut record).is_some() {
            let kind = kind(&record);
            if kind == Some(PACKET_IN) {
                break;
            }
            self.lost += u64::from(kind == Some(FLOW_REMOVED));
            undone.drop_oldest();
        }
        self.backlog.put_first(undone);
    }

    /// Delivers the backlog. Records that a dead zone or instance may have seen are delivered one at a time, so that the kernel
    /// knows which record ends the app. The workers take turns with these if one zone gets the records of all. The
    /// other records follow while they fit.
    pub(super) fn replay(&mut self, is_current: impl Fn(u64, u32) -> bool) {
        let mut record = Vec::new();
        loop {
            let oldest = self.backlog.oldest(&mut record);
            if let Delivery::Rings(rings) = &self.delivery
                && !rings.in_flight
            {
                match rings.role.turn() {
                    Turn::Wait => return,
                    Turn::Repeat if !oldest.is_some_and(|(_, seen)| seen) => {
                        rings.role.repeated();
                        continue;
                    }
                    Turn::Repeat | Turn::Go => {}
                }
            }
            let Some((ticket, seen)) = oldest else {
                self.snapshot.phase = Phase::Live;
                return;
            };
            if self.delivery.is_in_flight() {
                return;
            }
            let kind = kind(&record);
            let current = split(&record)
                .filter(|_| kind == Some(PACKET_IN))
                .filter(|(words, _)| is_current(words[1], low_half(words[2])));
            match current {
                // The snapshot announces other events; packets of past connections have no effect.
                None => {
                    self.lost += u64::from(kind == Some(FLOW_REMOVED));
                    self.backlog.drop_oldest();
                }
                Some((mut words, body)) if seen => {
                    words[0] |= u64::from(abi::REPEATED) << 56;
                    if self.delivery.outstanding() > 0 {
                        return; // until the app has handled it
                    }
                    let is_pushed = self.delivery.push_ticket(&words, body, Room::All, ticket);
                    self.delivery.set_in_flight(is_pushed);
                    return;
                }
                Some((words, body)) => {
                    if !self.delivery.push_ticket(&words, body, Room::AllButReserve, ticket) {
                        return;
                    }
                    self.backlog.drop_oldest();
                }
            }
        }
    }
}

/// The kind of a whole record.
fn kind(record: &[u8]) -> Option<u64> {
    split(record).map(|(words, _)| words[0] >> 32 & 0xffff)
}
