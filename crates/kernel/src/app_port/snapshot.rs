//! Announces switches and ports to an app: all of them in a snapshot after each start, then their changes.
//!
//! ```text
//!            attach              all announced          backlog empty
//!   Down ------------> Snapshot --------------> Replay ---------------> Live
//!     ^                  |                         |                     |
//!     \--- the zone dies +-------------------------+---------------------/
//! ```
//!
//! Two rules keep an app's view consistent. **No record about a switch precedes the announcement of that switch.** And
//! an announcement that finds the ring full is not queued: it is noted ([`Announced`], [`Snapshot::gone`]) and made
//! later from the switch's state at that time.

use std::collections::VecDeque;

use openflow::PortDesc;
use sdk::abi::{Record, RecordKind, Words};
use sys::ring::Room;

use super::delivery::Delivery;
use crate::ids::AppSlot;
use crate::record::{port_record, switch_record};
use crate::switch::{Announced, Switch};

/// `reason` of a port record in an announcement (`OFPPR_ADD`).
const PORT_ADD: u8 = 0;

/// The phase of an app since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The app does not run.
    Down,
    /// Switches are being announced. `begun` once the snapshot's first record is in the ring, or if another worker
    /// writes that record.
    Snapshot { begun: bool },
    /// The backlog is being delivered.
    Replay,
    /// Packet-ins are written straight into the ring.
    Live,
}

/// The announcements to one app: those made, and those that still wait for room.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// The app's slot in [`Switch::announced`].
    slot: AppSlot,
    pub(super) phase: Phase,
    /// Whether an announcement is pending.
    is_pending: bool,
    /// Pending announcements of closed connections. Their number is at most that of the announced connections, as no
    /// new one is announced before them ([`Snapshot::announce_gone`]).
    gone: VecDeque<Record>,
}

impl Snapshot {
    pub(super) fn new(slot: AppSlot) -> Self {
        Self { slot, phase: Phase::Down, is_pending: true, gone: VecDeque::new() }
    }

    /// Begins a snapshot after a start of the app.
    pub(super) fn begin(&mut self) {
        self.phase = Phase::Snapshot { begun: false };
        self.gone.clear();
        self.is_pending = true;
    }

    /// Whether the app runs.
    pub(super) fn is_up(&self) -> bool {
        self.phase != Phase::Down
    }

    /// Whether announcements wait for room.
    pub(super) fn is_pending(&self) -> bool {
        self.is_pending && self.is_up()
    }

    /// Whether the snapshot has begun. No announcement precedes it.
    fn has_begun(&self) -> bool {
        !matches!(self.phase, Phase::Down | Phase::Snapshot { begun: false })
    }

    /// Announces a switch and its ports while the ring has room, continuing after the last announced port. Returns
    /// `true` once all are announced.
    pub(super) fn announce(&mut self, to: &mut Delivery, switch: &mut Switch) -> bool {
        let mut announced = switch.announced.get(self.slot);
        if announced == Announced::All {
            return true;
        }
        if !self.has_begun() {
            return false;
        }
        if !self.announce_gone(to) {
            // Otherwise its past connection would seem to end after this one began.
            self.is_pending = true;
            return false;
        }
        if matches!(announced, Announced::Nothing | Announced::Stale) {
            let record = switch_record(RecordKind::SwitchUp, switch);
            if to.push(&record.words(), &switch.features(), Room::All) {
                announced = Announced::PortsBelow(0);
            }
        }
        if let Announced::PortsBelow(first) = announced {
            announced = Announced::All;
            for (number, port) in switch.ports.range(first..) {
                let (record, body) = port_record(switch, PORT_ADD, port);
                if !to.push(&record.words(), &body, Room::All) {
                    announced = Announced::PortsBelow(*number);
                    break;
                }
            }
        }
        switch.announced.set(self.slot, announced);
        self.is_pending |= announced != Announced::All;
        announced == Announced::All
    }

    /// Announces a change of a port, which `switch.ports` contains already.
    pub(super) fn port(
        &mut self,
        to: &mut Delivery,
        switch: &mut Switch,
        reason: u8,
        port: &PortDesc,
    ) {
        match switch.announced.get(self.slot) {
            Announced::All => {}
            Announced::PortsBelow(first) if port.port_no.0 < first => {}
            _ => return, // the pending announcement will contain the change
        }
        if !self.has_begun() {
            return; // the new snapshot replaces the announcements of the previous start
        }
        let (record, body) = port_record(switch, reason, port);
        if !to.push(&record.words(), &body, Room::All) {
            switch.announced.set(self.slot, Announced::Stale);
            self.is_pending = true;
        }
    }

    /// Announces a switch once more when there is room.
    pub(super) fn announce_again(&mut self, switch: &mut Switch) {
        switch.announced.set(self.slot, Announced::Stale);
        self.is_pending = true;
    }

    /// Announces that a switch is gone.
    pub(super) fn switch_down(&mut self, to: &mut Delivery, switch: &Switch) {
        if switch.announced.get(self.slot) == Announced::Nothing {
            return; // this connection was not announced to the app
        }
        if self.has_begun() {
            self.gone.push_back(switch_record(RecordKind::SwitchDown, switch));
            self.is_pending |= !self.announce_gone(to);
        }
    }

    /// Announces closed connections while the ring has room; `true` once all are announced.
    fn announce_gone(&mut self, to: &mut Delivery) -> bool {
        while let Some(record) = self.gone.pop_front() {
            if !to.push(&record.words(), &[], Room::All) {
                self.gone.push_front(record);
                return false;
            }
        }
        true
    }

    /// Continues with pending announcements. After the snapshot's end, the replay begins.
    pub(super) fn announce_all<'s>(
        &mut self,
        to: &mut Delivery,
        switches: impl Iterator<Item = &'s mut Switch>,
    ) {
        let is_new = self.phase == (Phase::Snapshot { begun: false });
        if is_new {
            let begins = to.rings().is_none_or(|rings| rings.role.begins());
            if begins && !to.push(&bare(RecordKind::SnapshotBegin), &[], Room::All) {
                return;
            }
            self.phase = Phase::Snapshot { begun: true };
        }
        if !self.announce_gone(to) {
            return;
        }
        let is_snapshot = self.phase == (Phase::Snapshot { begun: true });
        let (mut complete, mut stale) = (true, false);
        for switch in switches {
            let announced = switch.announced.get(self.slot);
            if is_new {
                switch.announced.set(self.slot, Announced::Nothing);
            } else if is_snapshot && announced == Announced::Stale {
                // Only after the snapshot: otherwise a switch that keeps changing would delay its end for ever.
                stale = true;
                continue;
            }
            complete = complete && self.announce(to, switch);
        }
        if !complete {
            return;
        }
        if is_snapshot {
            let end = to.rings().map_or(RecordKind::SnapshotEnd, |rings| rings.role.end());
            if !to.push(&bare(end), &[], Room::All) {
                return;
            }
            self.phase = Phase::Replay;
        }
        self.is_pending = stale;
    }
}

/// The head of a record that is about no switch.
pub(super) fn bare(kind: RecordKind) -> Words {
    Record::new(kind, 0, 0, 0).words()
}

#[cfg(test)]
mod tests {
    use dal::SwitchInfo;
    use openflow::{Dpid, Version};

    use super::super::{part, rings::Rings};
    use super::*;
    use crate::pool::idle;

    #[test]
    fn snapshot_ends_once_all_switches_are_announced() {
        let (mut parts, _fds) = part::make(&idle(1), 4096).unwrap();
        let mut to = Delivery::Rings(Rings::new(parts.pop().unwrap()));
        let (version, dpid) = (Version::V1_3, Dpid(7));
        let info = SwitchInfo {
            version,
            dpid,
            n_tables: 1,
            n_buffers: 0,
            capabilities: openflow::Capabilities(0),
            actions: 0,
            no_packets: None,
            ports: Vec::new(),
        };
        let (mut snapshot, mut switch) = (Snapshot::new(AppSlot::new(0)), Switch::new(info, 1));
        let records = |to: &Delivery| to.rings().unwrap().ring.outstanding();
        assert!(!snapshot.announce(&mut to, &mut switch), "the app is down");
        snapshot.begin();
        assert!(!snapshot.announce(&mut to, &mut switch), "the snapshot has not begun");
        assert_eq!((records(&to), snapshot.is_pending()), (0, true));
        snapshot.announce_all(&mut to, std::iter::once(&mut switch));
        assert_eq!((records(&to), snapshot.phase), (3, Phase::Replay));
        assert!(snapshot.announce(&mut to, &mut switch) && !snapshot.is_pending());
        snapshot.switch_down(&mut to, &switch);
        assert_eq!(records(&to), 4);
        snapshot.phase = Phase::Down;
        snapshot.switch_down(&mut to, &switch);
        assert_eq!(records(&to), 4, "a snapshot comes first");
    }

    #[test]
    fn announcement_without_room_stays_pending() {
        let (mut parts, _fds) = part::make(&idle(1), 4096).unwrap();
        let mut to = Delivery::Rings(Rings::new(parts.pop().unwrap()));
        let (version, dpid) = (Version::V1_3, Dpid(7));
        let info = SwitchInfo {
            version,
            dpid,
            n_tables: 1,
            n_buffers: 0,
            capabilities: openflow::Capabilities(0),
            actions: 0,
            no_packets: None,
            ports: Vec::new(),
        };
        let (mut snapshot, mut switch) = (Snapshot::new(AppSlot::new(0)), Switch::new(info, 1));
        snapshot.begin();
        while to.push(&bare(RecordKind::SnapshotEnd), &[], Room::All) {}
        snapshot.announce_all(&mut to, std::iter::once(&mut switch));
        assert_eq!(snapshot.phase, Phase::Snapshot { begun: false });
        assert!(
            snapshot.is_pending() && switch.announced.get(AppSlot::new(0)) == Announced::Nothing
        );
    }
}
