//! The abilities of each version of OpenFlow, a row per version.
//!
//! These are abilities of the protocol. Those of a switch are in its features reply ([`crate::Capabilities`]).

/// The abilities of a version of OpenFlow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an ability, present or not")]
pub struct ProtocolFeatures {
    /// There are groups, and a flow-mod's `out_group`. OpenFlow 1.3.5 §5.6.
    pub groups: bool,
    /// There are meters. OpenFlow 1.3.5 §5.7.
    pub meters: bool,
    /// A flow-mod names its table, and packets can go from one table to another. OpenFlow 1.3.5 §5.1.
    pub multiple_tables: bool,
    /// A cookie and its mask select flows in modifies, deletes and requests for statistics. OpenFlow 1.3.5 §6.4.
    pub cookie_masks: bool,
    /// A modify that finds no flow adds one. OpenFlow 1.0.2 §4.6.
    pub modify_adds: bool,
    /// An add that replaces a flow always resets the flow's counters, and a modify adds the flow without that. OpenFlow 1.0.2
    /// §4.6; 1.3 has a flag for that (OpenFlow 1.3.5 §6.4). In 1.1 an add resets them too, but a modify with a cookie mask
    /// adds nothing in Open vSwitch.
    pub add_resets_counters: bool,
    /// A packet that no flow matches goes to the controller (OpenFlow 1.0.2 §3.4). Otherwise the switch drops it, unless there
    /// is a table-miss entry (OpenFlow 1.3.5 §5.4).
    pub miss_to_controller: bool,
    /// A flow can replace all others while the controller is unreachable. OpenFlow 1.0.2 §4.3.
    pub emergency_flows: bool,
    /// Matches and set-field actions are lists of extensible fields (OXM). OpenFlow 1.3.5 §7.2.3. Otherwise a match has a fixed
    /// set of fields (OpenFlow 1.0.2 §5.2.3).
    pub oxm: bool,
    /// Setting a field of the VLAN tag adds a tag to a packet without one. OpenFlow 1.0.2 §3.3.
    pub set_vlan_pushes: bool,
    /// Port numbers have 32 bits, otherwise 16. OpenFlow 1.3.5 §7.2.1.
    pub wide_ports: bool,
    /// A packet-in has the cookie of the flow that sent it. OpenFlow 1.3.5 §7.4.1.
    pub packet_in_cookie: bool,
    /// A request returns the ports (OpenFlow 1.3.5 §7.3.5.7). Otherwise the features reply has them (OpenFlow 1.0.2 §5.3.1).
    pub port_desc: bool,
    /// The description of a port has its speeds. OpenFlow 1.3.5 §7.2.1.
    pub port_speeds: bool,
    /// A request returns sizes and abilities of the tables (OpenFlow 1.3.5 §7.3.5.5). Otherwise the statistics of tables have
    /// them (OpenFlow 1.0.2 §5.3.5).
    pub table_features: bool,
    /// The statistics of flows have the flags of the flow-mod. OpenFlow 1.3.5 §7.3.5.2.
    pub flow_stats_flags: bool,
    /// The statistics of ports and queues have the time for which they were counted. OpenFlow 1.3.5 §5.8.
    pub durations: bool,
    /// A controller can be master, slave or equal. OpenFlow 1.3.5 §6.3.
    pub roles: bool,
    /// There are extensions of the ONF as experimenter's messages, such as bundles (extension 230).
    pub onf_extensions: bool,
    /// Bundles, flow monitors, and eviction from full tables are messages of the version itself. OpenFlow 1.4.1 §6.8, §6.9,
    /// §5.11.
    pub bundles: bool,
    /// A controller chooses which asynchronous messages it gets. OpenFlow 1.3.5 §7.3.10.
    pub async_config: bool,
    /// There are egress tables, types of packets, and a match in packet-outs. OpenFlow 1.5.1 §5.1.2, §7.2.3.12.
    pub egress_tables: bool,
}

impl ProtocolFeatures {
    /// Whether a switch of this version may have bundles: as messages of the version, or of the ONF.
    pub fn may_have_bundles(&self) -> bool {
        self.bundles || self.onf_extensions
    }
}

/// OpenFlow 1.0.2.
pub(super) const V1_0: ProtocolFeatures = ProtocolFeatures {
    groups: false,
    meters: false,
    multiple_tables: false,
    cookie_masks: false,
    modify_adds: true,
    add_resets_counters: true,
    miss_to_controller: true,
    emergency_flows: true,
    oxm: false,
    set_vlan_pushes: true,
    wide_ports: false,
    packet_in_cookie: false,
    port_desc: false,
    port_speeds: false,
    table_features: false,
    flow_stats_flags: false,
    durations: false,
    roles: false,
    onf_extensions: false,
    bundles: false,
    async_config: false,
    egress_tables: false,
};

/// OpenFlow 1.1.0.
pub(super) const V1_1: ProtocolFeatures = ProtocolFeatures {
    groups: true,
    meters: false,
    multiple_tables: true,
    cookie_masks: true,
    modify_adds: true,
    add_resets_counters: false,
    miss_to_controller: true,
    emergency_flows: false,
    oxm: false,
    set_vlan_pushes: false,
    wide_ports: true,
    packet_in_cookie: false,
    port_desc: false,
    port_speeds: true,
    table_features: false,
    flow_stats_flags: false,
    durations: false,
    roles: false,
    onf_extensions: false,
    bundles: false,
    async_config: false,
    egress_tables: false,
};

/// OpenFlow 1.2.
pub(super) const V1_2: ProtocolFeatures =
    ProtocolFeatures { modify_adds: false, oxm: true, roles: true, ..V1_1 };

/// OpenFlow 1.3.5.
pub(super) const V1_3: ProtocolFeatures = ProtocolFeatures {
    meters: true,
    miss_to_controller: false,
    packet_in_cookie: true,
    port_desc: true,
    table_features: true,
    flow_stats_flags: true,
    durations: true,
    onf_extensions: true,
    async_config: true,
    ..V1_2
};

/// OpenFlow 1.4.1.
pub(super) const V1_4: ProtocolFeatures =
    ProtocolFeatures { onf_extensions: false, bundles: true, ..V1_3 };

/// OpenFlow 1.5.1.
pub(super) const V1_5: ProtocolFeatures = ProtocolFeatures { egress_tables: true, ..V1_4 };
