//! What waited for an app that comes back: the order in which it gets it.

use sdk::abi::{self, RecordKind};
use sys::ring::Room;

use super::part::Turn;
use super::tracked::Tracked;
use super::{AppPort, Hosting, Phase, low_half, split};

const PACKET_IN: u64 = RecordKind::PacketIn as u64;
const FLOW_REMOVED: u64 = RecordKind::FlowRemoved as u64;

impl AppPort {
    /// Has what the app left undone wait before everything else.
    ///
    /// What stands before the first packet-in is left out here, as the backlog would: an app that
    /// ends again and again before it is its turn to get packets must not leave a ring each time.
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

    /// Delivers the backlog: what a dead zone may have seen one at a time, so that the record
    /// that ends the app is known, and the rest as it fits. With that the workers take turns.
    pub(super) fn replay(&mut self, is_current: impl Fn(u64, u32) -> bool) {
        let mut record = Vec::new();
        loop {
            let oldest = self.backlog.oldest(&mut record);
            if let Hosting::Zone(rings) = &self.hosting
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
            // The records of a kernel app go to its zone, never the other way.
            let Hosting::Zone(rings) = &mut self.hosting else { return };
            if rings.in_flight {
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
                    if rings.ring.outstanding() > 0 {
                        return; // alone
                    }
                    rings.in_flight = rings.ring.push(&words, body, Room::All, ticket);
                    return;
                }
                Some((words, body)) => {
                    if !rings.ring.push(&words, body, Room::AllButReserve, ticket) {
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
