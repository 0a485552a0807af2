//! Assigns slots of the table to records.

use std::collections::HashMap;

use rosemary_sdk::Dpid;
use rosemary_sdk::services::topology::{Endpoint, Record, Slot};

/// A thing that has a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    Status,
    Switch(Dpid),
    Port(Endpoint),
    /// The link that begins at a port.
    Link(Endpoint),
    /// The link that began at a port and is down.
    LinkDown(Endpoint),
}

/// The slots in use.
#[derive(Debug)]
pub(super) struct Publication {
    slots: HashMap<Key, (u32, Slot)>,
    free: Vec<u32>,
    next: u32,
    capacity: u32,
    /// Whether a record found no free slot before.
    was_full: bool,
}

/// There is no free slot.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full {
    /// Whether this is so for the first time.
    pub(super) is_first: bool,
}

impl Publication {
    pub(super) fn new(capacity: u32) -> Self {
        Self { slots: HashMap::new(), free: Vec::new(), next: 0, capacity, was_full: false }
    }

    /// Gives the present record of a thing, or its absence; returns the slot to write, if it changes.
    ///
    /// # Errors
    /// [`Full`]: the record is not in the table.
    pub(super) fn set(
        &mut self,
        key: Key,
        record: Option<Record>,
    ) -> Result<Option<(u32, Slot)>, Full> {
        let Some(record) = record.map(|record| record.encode()) else {
            let slot = self.slots.remove(&key).map(|(slot, _)| slot);
            self.free.extend(slot);
            return Ok(slot.map(|slot| (slot, Slot::default())));
        };
        if let Some((slot, present)) = self.slots.get_mut(&key) {
            let is_new = std::mem::replace(present, record) != record;
            return Ok(is_new.then_some((*slot, record)));
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.next < self.capacity => {
                self.next += 1;
                self.next - 1
            }
            None => {
                let is_first = !std::mem::replace(&mut self.was_full, true);
                return Err(Full { is_first });
            }
        };
        self.slots.insert(key, (slot, record));
        Ok(Some((slot, record)))
    }
}

#[cfg(test)]
mod tests {
    use rosemary_sdk::services::topology::SwitchRecord;

    use super::*;

    fn switch(dpid: u64, ports: u32) -> (Key, Option<Record>) {
        let dpid = Dpid(dpid);
        let record = SwitchRecord { dpid, epoch: 1, ports, drained: false };
        (Key::Switch(dpid), Some(Record::Switch(record)))
    }

    #[test]
    fn slots_are_written_once_and_used_again() {
        let mut publication = Publication::new(2);
        let mut set = |(key, record)| {
            publication.set(key, record).map(|write| write.map(|(slot, record)| (slot, record[3])))
        };
        assert_eq!(set(switch(1, 4)), Ok(Some((0, 4))));
        assert_eq!(set(switch(1, 4)), Ok(None));
        assert_eq!(set(switch(1, 5)), Ok(Some((0, 5))));
        assert_eq!(set(switch(2, 1)), Ok(Some((1, 1))));
        assert_eq!(set(switch(3, 1)), Err(Full { is_first: true }));
        assert_eq!(set((Key::Switch(Dpid(1)), None)), Ok(Some((0, 0))));
        assert_eq!(set((Key::Switch(Dpid(1)), None)), Ok(None));
        assert_eq!(set(switch(3, 1)), Ok(Some((0, 1))));
    }
}
