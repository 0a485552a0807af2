//! Keeps the state of a usable switch: its description, counters, held packets, and announcements to apps.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Instant;

use dal::{SwitchInfo, Table};
use openflow::{Capabilities, Dpid, Features, PortDesc, PortNo, Version};

use crate::back_pressure::PERIOD;
use crate::buffer_table::BufferTable;
use crate::changes::Changes;
use crate::flows::healing::Healing;
use crate::flows::occupancy::{Change, Occupancy};
use crate::flows::reader::FlowReader;
use crate::flows::requests::Requests;
use crate::flows::watch::Watch;
use crate::ids::AppSlot;
use crate::outcomes::Outcomes;
use control::query::{FailingMessage, Fullest, SwitchStatus};

/// A switch that can be used.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) dpid: Dpid,
    pub(crate) version: Version,
    pub(crate) epoch: u32,
    /// By number.
    pub(crate) ports: BTreeMap<u32, PortDesc>,
    /// Number of its flow tables.
    pub(crate) n_tables: u8,
    /// Why it exchanges no packets with a controller; `None` if it does.
    pub(crate) no_packets: Option<&'static str>,
    /// The number of packets that it can buffer.
    n_buffers: u32,
    capabilities: Capabilities,
    /// The actions that it supports, in OpenFlow 1.0.
    actions: u32,
    /// Their descriptions, by number.
    pub(crate) tables: BTreeMap<u8, Table>,
    /// The announcements to each app.
    pub(crate) announced: AnnouncedTo,
    pub(crate) counters: Counters,
    /// The flow-mods of each app.
    pub(crate) senders: Senders,
    /// Its packets and port changes that wait for verdicts, oldest first; see [`Holds`](crate::hold_queue::Holds).
    pub(crate) queue: VecDeque<usize>,
    pub(crate) vital: Vital,
    /// The packets that it buffers, and the apps that may use them.
    pub(crate) buffer_table: BufferTable,
    pub(crate) occupancy: Occupancy,
    pub(crate) healing: Healing,
    /// The means by which its flows are known.
    pub(crate) watch: Watch,
    /// The requests for its flows and tables.
    pub(crate) requests: Requests,
    /// The cookie of the kernel's table-miss entry.
    pub(crate) entry_cookie: u64,
    /// When a sign of another controller was reported last.
    pub(crate) other_seen: Option<Instant>,
    /// The outcomes of the kernel's own messages.
    pub(crate) outcomes: Outcomes,
    pub(crate) flow_reader: FlowReader,
    /// The change sets of apps.
    pub(crate) changes: Changes,
}

/// A switch's quota of vital packet-ins in the room that full apps reserve for these.
///
/// All switches share that room: a storm of ARP requests in one switch must not keep out those of others.
#[derive(Debug)]
pub(crate) struct Vital {
    left: u32,
    /// When the quota was last refilled.
    since: Instant,
}

impl Vital {
    /// Quota per [`PERIOD`]: a third of the reserved room of a ring.
    const MOST: u32 = 64;

    /// The full quota.
    pub(crate) fn new(now: Instant) -> Self {
        Self { left: Self::MOST, since: now }
    }

    /// Takes one from the quota. `false` if it is used up.
    pub(crate) fn spend(&mut self) -> bool {
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or_default();
        left.is_some()
    }

    /// Refills the quota when that is due.
    pub(crate) fn refresh(&mut self, now: Instant) {
        if now.saturating_duration_since(self.since) >= PERIOD {
            *self = Self::new(now);
        }
    }
}

/// The announcements of a switch's present connection to each app.
#[derive(Debug, Default)]
pub(crate) struct AnnouncedTo(Vec<Announced>);

impl AnnouncedTo {
    #[inline]
    pub(crate) fn get(&self, app: AppSlot) -> Announced {
        self.0.get(app.index()).copied().unwrap_or_default()
    }

    pub(crate) fn set(&mut self, app: AppSlot, announced: Announced) {
        if self.0.len() <= app.index() {
            self.0.resize(app.index() + 1, Announced::Nothing);
        }
        self.0[app.index()] = announced;
    }
}

/// The part of a switch's present connection that was announced to an app.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Announced {
    /// Nothing.
    #[default]
    Nothing,
    /// The switch, and its ports below this number.
    PortsBelow(u32),
    /// The switch and all its ports.
    All,
    /// A state that has changed since, so that it must be announced again.
    Stale,
}

/// Counts each app's messages that change the switch, over this connection.
#[derive(Debug, Default)]
pub(crate) struct Senders(Vec<u64>);

impl Senders {
    /// Counts messages that were sent.
    #[inline]
    pub(crate) fn add(&mut self, app: AppSlot, flow_mods: u64) {
        if flow_mods == 0 {
            return;
        }
        if self.0.len() <= app.index() {
            self.0.resize(app.index() + 1, 0);
        }
        self.0[app.index()] += flow_mods;
    }

    /// Returns the number of messages that an app has sent.
    pub(crate) fn of(&self, app: AppSlot) -> u64 {
        self.0.get(app.index()).copied().unwrap_or_default()
    }

    /// Returns the apps that have sent some, and their number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().copied().enumerate().filter(|(_, flow_mods)| *flow_mods > 0)
    }
}

/// Counters of this connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counters {
    pub(crate) packet_ins: u64,
    pub(crate) dropped: u64,
    /// Times when it was left unread because of full apps.
    pub(crate) pauses: u64,
    /// Packet-ins that were dropped because a guard was silent or away.
    pub(crate) guarded: u64,
    pub(crate) flow_mods: u64,
    pub(crate) packet_outs: u64,
    pub(crate) refused: u64,
    pub(crate) errors: u64,
}

impl Switch {
    /// Makes the state of a switch that has completed the handshake.
    pub(crate) fn new(info: SwitchInfo, epoch: u32) -> Self {
        Self {
            buffer_table: BufferTable::default(),
            occupancy: Occupancy::default(),
            healing: Healing::default(),
            watch: Watch::default(),
            requests: Requests::default(),
            other_seen: None,
            entry_cookie: 0, // until it has won its datapath
            outcomes: Outcomes::default(),
            flow_reader: FlowReader::default(),
            changes: Changes::default(),
            dpid: info.dpid,
            version: info.version,
            epoch,
            ports: info.ports.into_iter().map(|port| (port.port_no.0, port)).collect(),
            n_tables: info.n_tables,
            no_packets: info.no_packets,
            n_buffers: info.n_buffers,
            capabilities: info.capabilities,
            actions: info.actions,
            tables: BTreeMap::new(),
            announced: AnnouncedTo::default(),
            counters: Counters::default(),
            senders: Senders::default(),
            queue: VecDeque::new(),
            vital: Vital::new(Instant::now()),
        }
    }

    /// Returns its features reply with its present ports, and with transaction id 0. Empty if no message can hold it.
    pub(crate) fn features(&self) -> Vec<u8> {
        let has_ports = !self.version.features().port_desc;
        let features = Features {
            dpid: self.dpid,
            n_buffers: self.n_buffers,
            n_tables: self.n_tables,
            auxiliary_id: 0, // other connections are refused
            capabilities: self.capabilities,
            actions: self.actions,
            ports: self.ports.values().filter(|_| has_ports).copied().collect(),
        };
        let mut reply = Vec::new();
        let encoded = openflow::append(&mut reply, |out| features.encode(self.version, 0, out));
        if encoded.is_ok() { reply } else { Vec::new() }
    }

    /// Applies descriptions of some tables. Returns the tables that became nearly full or have room again. `ages` is whether
    /// earlier adds of apps count less from now on.
    pub(crate) fn tables(&mut self, tables: Vec<Table>, ages: bool) -> Vec<(u8, Change)> {
        let mut changes = Vec::new();
        for table in tables {
            let known = self.tables.entry(table.table_id).or_insert(table);
            known.max_entries = table.max_entries.or(known.max_entries);
            known.active_count = table.active_count.or(known.active_count);
            if let Some(flows) = known.active_count {
                let count = (flows, known.max_entries);
                let change = self.occupancy.note_count(table.table_id, count, ages);
                changes.extend(change.map(|change| (table.table_id, change)));
            }
        }
        changes
    }

    /// Counts adds of an app to a table.
    pub(crate) fn added(&mut self, slot: AppSlot, (table, adds): (u8, u32)) {
        let Self { tables, occupancy, .. } = self;
        occupancy.added(slot, (table, adds), || {
            let known = tables.get(&table);
            (known.and_then(|it| it.active_count), known.and_then(|it| it.max_entries))
        });
    }

    /// Returns the number, flows and size of the table with the highest fill level.
    pub(crate) fn fullest(&self) -> Option<(u8, u64, u32)> {
        let tables = self.tables.values().filter_map(|table| {
            let size = table.max_entries.filter(|size| *size > 0)?;
            let flows = table.active_count.filter(|flows| *flows > 0)?;
            Some((table.table_id, u64::from(flows), size))
        });
        tables.max_by_key(|(_, flows, size)| flows.saturating_mul(1 << 32) / u64::from(*size))
    }

    /// Returns the number of its ports without reserved ones such as `LOCAL`.
    pub(crate) fn physical_ports(&self) -> usize {
        self.ports.values().filter(|port| port.port_no.is_physical()).count()
    }

    /// Returns the name of its local port; `None` without a local port.
    fn name(&self) -> Option<String> {
        let name = self.ports.get(&PortNo::LOCAL.0)?.name.to_string();
        (!name.is_empty()).then_some(name)
    }

    /// Returns its status for operators.
    pub(crate) fn status(
        &self,
        address: SocketAddr,
        transport: &str,
        (fullest, failing): (Option<Fullest>, Vec<FailingMessage>),
        unsent: usize,
    ) -> SwitchStatus {
        let Counters {
            packet_ins,
            dropped,
            pauses,
            guarded,
            flow_mods,
            packet_outs,
            refused,
            errors,
        } = self.counters;
        SwitchStatus {
            dpid: self.dpid.to_string(),
            name: self.name(),
            version: self.version.to_string(),
            address: address.to_string(),
            transport: transport.to_owned(),
            epoch: self.epoch,
            ports: self.physical_ports(),
            n_tables: self.n_tables,
            table_size: self.tables.get(&0).and_then(|table| table.max_entries),
            flows: self
                .tables
                .values()
                .filter_map(|table| table.active_count.map(u64::from))
                .reduce(u64::saturating_add),
            foreign_flows: self.flow_reader.foreign,
            fullest,
            failing,
            no_packets: None, // the caller knows the apps
            flow_monitor: self.watch.state().into(),
            flow_monitor_off: self.watch.off_reason().map(str::to_owned),
            requests: self.requests.by_name(),
            role: None,
            packet_ins,
            dropped,
            pauses,
            guarded,
            flow_mods,
            packet_outs,
            refused,
            unsent: unsent as u64,
            errors,
        }
    }
}

#[cfg(test)]
mod tests {
    use openflow::MacAddr;

    use super::*;

    #[test]
    fn two_descriptions_of_a_table_are_merged() {
        let info = SwitchInfo {
            version: Version::V1_3,
            dpid: Dpid(1),
            n_tables: 2,
            n_buffers: 0,
            capabilities: Capabilities(0),
            actions: 0,
            no_packets: None,
            ports: Vec::new(),
        };
        let mut switch = Switch::new(info, 1);
        let status = |switch: &Switch| {
            switch.status(([127, 0, 0, 1], 1).into(), "tcp", (None, Vec::new()), 0)
        };
        assert_eq!((status(&switch).table_size, status(&switch).flows), (None, None));
        let table =
            |table_id, max_entries, active_count| Table { table_id, max_entries, active_count };
        switch.tables(vec![table(0, None, Some(3)), table(1, None, Some(4))], true);
        switch.tables(vec![table(0, Some(1000), None), table(1, Some(50), None)], true);
        let status = status(&switch);
        assert_eq!((status.n_tables, status.table_size, status.flows), (2, Some(1000), Some(7)));
    }

    #[test]
    fn repeated_add_counts_as_the_switch_reports() {
        let (version, dpid) = (Version::V1_3, Dpid(1));
        let info = SwitchInfo {
            version,
            dpid,
            n_tables: 1,
            n_buffers: 0,
            capabilities: Capabilities(0),
            actions: 0,
            no_packets: None,
            ports: Vec::new(),
        };
        let mut switch = Switch::new(info, 1);
        let table = Table { table_id: 0, max_entries: Some(10), active_count: Some(2) };
        switch.tables(vec![table], true);
        (0..100).for_each(|_| switch.added(AppSlot::new(0), (0, 1)));
        let flows = switch.status(([127, 0, 0, 1], 1).into(), "tcp", (None, Vec::new()), 0).flows;
        assert_eq!((flows, switch.fullest()), (Some(2), Some((0, 2, 10))));
    }

    #[test]
    fn local_port_is_not_counted_and_names_the_switch() {
        let port = |number, name| PortDesc::new(PortNo(number), MacAddr([2; 6]), name);
        let named = |ports| {
            let info = SwitchInfo {
                version: Version::V1_3,
                dpid: Dpid(1),
                n_tables: 1,
                n_buffers: 0,
                capabilities: Capabilities(0),
                actions: 0,
                no_packets: None,
                ports,
            };
            let switch = Switch::new(info, 1);
            (switch.physical_ports(), switch.name())
        };
        let local = PortNo::LOCAL.0;
        assert_eq!(
            named(vec![port(1, "eth1"), port(2, "eth2"), port(local, "br0")]),
            (2, Some("br0".into()))
        );
        assert_eq!(named(vec![port(1, "eth1"), port(local, "")]), (1, None));
        assert_eq!(named(vec![port(1, "eth1")]), (1, None));
    }
}
