//! Defines capabilities: which messages an app may exchange with switches, and with which switches and tables.
//!
//! A [`Grant`] is a capability with its scope. Several grants of one capability add up. The configuration writes a
//! grant without a scope as a string, and a scope as a table:
//!
//! ```toml
//! capabilities = ["packet-in", { flow.write = { dpids = ["00:00:00:00:00:00:00:01"], tables = [0, 1] } }]
//! ```

use std::fmt;

use openflow::Dpid;
use serde::{Deserialize, Serialize};

/// A right of an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Capability {
    /// `packet-in`: receive the packet-ins of its filter.
    PacketIn,
    /// `packet-out`: send packets out of ports of a switch.
    PacketOut,
    /// `packet-out.reserved`: with `packet-out`, send packets to `CONTROLLER` and through the flow tables
    /// (`TABLE`); also in flows and groups, pass packets to the switch's own forwarding (`NORMAL`).
    PacketOutReserved,
    /// `flow.read`: read statistics of flows, groups and meters of other apps too.
    FlowRead,
    /// `flow.write`: add, modify and delete flows of its own.
    FlowWrite,
    /// `flow.write.any`: modify and delete flows of other apps.
    FlowWriteAny,
    /// `group.write`: write groups in its own range.
    GroupWrite,
    /// `meter.write`: write meters in its own range.
    MeterWrite,
    /// `stats.read`: request statistics, descriptions, configuration and queues.
    StatsRead,
    /// `switch.config`: send port-mod and table-mod.
    SwitchConfig,
    /// `topology.probe`: send LLDP packets, and write flows for them.
    TopologyProbe,
    /// `experimenter`: use messages and actions of this experimenter.
    #[serde(rename = "x")] // the kernel receives many of them in one message of limited size
    Experimenter(u32),
}

impl Capability {
    /// The capabilities without an id, by their names in the configuration.
    pub const NAMED: [(&str, Self); 11] = [
        ("packet-in", Self::PacketIn),
        ("packet-out", Self::PacketOut),
        ("packet-out.reserved", Self::PacketOutReserved),
        ("flow.read", Self::FlowRead),
        ("flow.write", Self::FlowWrite),
        ("flow.write.any", Self::FlowWriteAny),
        ("group.write", Self::GroupWrite),
        ("meter.write", Self::MeterWrite),
        ("stats.read", Self::StatsRead),
        ("switch.config", Self::SwitchConfig),
        ("topology.probe", Self::TopologyProbe),
    ];

    /// Whether a grant can name flow tables: the capability is about flows.
    pub fn has_tables(self) -> bool {
        matches!(self, Self::FlowRead | Self::FlowWrite | Self::FlowWriteAny)
    }
}

impl fmt::Display for Capability {
    /// Writes the name that the configuration uses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Experimenter(id) = self {
            return write!(f, "experimenter:{id:#010x}");
        }
        match Self::NAMED.iter().find(|(_, known)| known == self) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{self:?}"), // unreachable: a test checks that every capability has a name
        }
    }
}

/// A capability with its scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grant {
    /// The capability.
    #[serde(rename = "c")]
    pub capability: Capability,
    /// The switches, by datapath identifier; an empty list matches all.
    #[serde(rename = "d", default, skip_serializing_if = "Vec::is_empty")]
    pub dpids: Vec<u64>,
    /// The flow tables, below [`TableSet::ALL`]; an empty list matches all.
    #[serde(rename = "t", default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<u8>,
}

impl Grant {
    /// Returns grants of these capabilities without a scope.
    pub fn unscoped(capabilities: &[Capability]) -> Vec<Self> {
        capabilities.iter().copied().map(Self::from).collect()
    }

    /// Whether it has a scope.
    pub fn is_scoped(&self) -> bool {
        !(self.dpids.is_empty() && self.tables.is_empty())
    }

    /// Whether `most` together grant all of this.
    pub fn is_within(&self, most: &[Self]) -> bool {
        let covers = |dpid| {
            let tables = tables_of(most, self.capability, dpid);
            TableSet::of(&self.tables).is_within(tables)
        };
        match &self.dpids[..] {
            [] => covers(None),
            dpids => dpids.iter().all(|dpid| covers(Some(*dpid))),
        }
    }

    /// Returns the element of `capabilities` in the configuration: `"packet-in"` with the quotes, or a table.
    pub fn toml(&self) -> String {
        if self.is_scoped() { self.to_string() } else { format!("\"{self}\"") }
    }
}

impl From<Capability> for Grant {
    /// Grants a capability without a scope.
    fn from(capability: Capability) -> Self {
        Self { capability, dpids: Vec::new(), tables: Vec::new() }
    }
}

impl fmt::Display for Grant {
    /// Writes the name of the capability, or the table of the configuration if the grant has a scope.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { capability, dpids, tables } = self;
        if !self.is_scoped() {
            return capability.fmt(f);
        }
        let mut keys = Vec::new();
        let name = match capability {
            Capability::Experimenter(id) => {
                keys.push(format!("ids = [{id:#010x}]"));
                "experimenter".to_owned()
            }
            other => other.to_string(),
        };
        if !dpids.is_empty() {
            let dpids: Vec<String> = dpids.iter().map(|it| format!("\"{}\"", Dpid(*it))).collect();
            keys.push(format!("dpids = [{}]", dpids.join(", ")));
        }
        if !tables.is_empty() {
            let tables: Vec<String> = tables.iter().map(ToString::to_string).collect();
            keys.push(format!("tables = [{}]", tables.join(", ")));
        }
        write!(f, "{{ {name} = {{ {} }} }}", keys.join(", "))
    }
}

/// Returns the tables of the switch `dpid` for which `grants` have `capability`; with `None`, of a switch that no scope
/// names.
pub fn tables_of(grants: &[Grant], capability: Capability, dpid: Option<u64>) -> TableSet {
    let applies = |grant: &&Grant| {
        let is_in_scope = || dpid.is_some_and(|dpid| grant.dpids.contains(&dpid));
        grant.capability == capability && (grant.dpids.is_empty() || is_in_scope())
    };
    let sets = grants.iter().filter(applies).map(|grant| TableSet::of(&grant.tables));
    sets.fold(TableSet::EMPTY, TableSet::with)
}

/// A set of flow tables of a switch, with a bit for each number. The bit of [`ALL`](Self::ALL) is set only in the set
/// of all tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSet([u64; 4]);

impl TableSet {
    /// No table.
    pub const EMPTY: Self = Self([0; 4]);

    /// All tables.
    pub const WHOLE: Self = Self([u64::MAX; 4]);

    /// `OFPTT_ALL`, OpenFlow 1.3.5 §7.3.4.1: a message with this number is about all tables.
    pub const ALL: u8 = 0xff;

    /// Returns the set of these tables; an empty list stands for all.
    pub fn of(tables: &[u8]) -> Self {
        if tables.is_empty() {
            return Self::WHOLE;
        }
        let mut set = Self::EMPTY;
        for table in tables {
            set.0[usize::from(table >> 6)] |= 1 << (table & 63);
        }
        set
    }

    /// Whether the set has this table; with [`ALL`](Self::ALL), whether it is the set of all.
    #[inline]
    pub fn has(self, table: u8) -> bool {
        self.0[usize::from(table >> 6)] >> (table & 63) & 1 != 0
    }

    /// Whether the set has a table that a message with this number is about.
    pub fn meets(self, table: u8) -> bool {
        if table == Self::ALL { !self.is_empty() } else { self.has(table) }
    }

    /// Whether the set has no table.
    pub fn is_empty(self) -> bool {
        self == Self::EMPTY
    }

    /// Returns the tables of either set.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    fn is_within(self, other: Self) -> bool {
        self.with(other) == other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(dpids: &[u64], tables: &[u8]) -> Grant {
        let (dpids, tables) = (dpids.to_vec(), tables.to_vec());
        Grant { capability: Capability::FlowWrite, dpids, tables }
    }

    #[test]
    fn grants_of_one_capability_add_up() {
        let most = [grant(&[1, 2], &[0]), grant(&[2], &[1]), grant(&[], &[7])];
        for (asked, is_within) in [
            (grant(&[1], &[0]), true),
            (grant(&[1, 2], &[0, 7]), true),
            (grant(&[2], &[0, 1, 7]), true),
            (grant(&[1, 2], &[1]), false),
            (grant(&[3], &[7]), true),
            (grant(&[], &[7]), true),
            (grant(&[], &[0]), false),
            (grant(&[3], &[0]), false),
            (grant(&[2], &[]), false),
            (Grant::from(Capability::FlowWriteAny), false),
        ] {
            assert_eq!(asked.is_within(&most), is_within, "{asked}");
        }
        assert!(grant(&[5], &[]).is_within(&[Capability::FlowWrite.into()]));
    }

    #[test]
    fn only_the_whole_set_has_all_tables() {
        let some: Vec<u8> = (0..TableSet::ALL).collect();
        let set = TableSet::of(&some);
        assert!(set.has(0) && set.has(63) && set.has(64) && set.has(254));
        assert!(!set.has(TableSet::ALL) && set.meets(TableSet::ALL));
        assert!(TableSet::WHOLE.has(TableSet::ALL) && TableSet::of(&[]) == TableSet::WHOLE);
        assert!(!TableSet::EMPTY.meets(TableSet::ALL) && !TableSet::of(&[3]).meets(2));
    }

    #[test]
    fn grants_print_as_the_configuration_has_them() {
        let dpid = "\"00:00:00:00:00:00:00:01\"";
        assert_eq!(Grant::from(Capability::PacketIn).toml(), "\"packet-in\"");
        let both = format!("{{ flow.write = {{ dpids = [{dpid}], tables = [0, 1] }} }}");
        assert_eq!(grant(&[1], &[0, 1]).toml(), both);
        let capability = Capability::Experimenter(0x2320);
        let scoped = Grant { capability, ..grant(&[1], &[]) };
        let expected = format!("{{ experimenter = {{ ids = [0x00002320], dpids = [{dpid}] }} }}");
        assert_eq!(scoped.toml(), expected);
    }
}
