//! The tables and columns of Open vSwitch that Rosemary reads and writes (ovs-vswitchd.conf.db(5)).

use crate::AtomKind::{self, Boolean, Integer, String as Text, Uuid};
use crate::{Wanted, WantedColumn, WantedTable};

/// The tables and columns. Columns that came with later versions than Open vSwitch 2.5 may be absent.
pub const WANTED: Wanted = Wanted { database: "Open_vSwitch", tables: TABLES };

const fn set(name: &'static str, kind: AtomKind) -> WantedColumn {
    WantedColumn::set(name, kind)
}

const fn texts(name: &'static str) -> WantedColumn {
    WantedColumn::map(name, Text, Text)
}

const fn numbers(name: &'static str) -> WantedColumn {
    WantedColumn::map(name, Text, Integer)
}

const TABLES: &[WantedTable] = &[
    WantedTable {
        name: "Open_vSwitch",
        columns: &[
            set("bridges", Uuid),
            set("ssl", Uuid),
            set("next_cfg", Integer),
            set("cur_cfg", Integer),
            set("ovs_version", Text),
        ],
    },
    WantedTable {
        name: "Bridge",
        columns: &[
            set("name", Text),
            set("datapath_id", Text),
            set("datapath_type", Text),
            set("ports", Uuid),
            set("mirrors", Uuid),
            set("netflow", Uuid),
            set("sflow", Uuid),
            set("controller", Uuid),
            set("protocols", Text),
            set("fail_mode", Text),
            set("stp_enable", Boolean),
            set("rstp_enable", Boolean).or_absent(),
            texts("other_config"),
            texts("external_ids"),
        ],
    },
    WantedTable {
        name: "Controller",
        columns: &[
            set("target", Text),
            set("is_connected", Boolean),
            set("role", Text),
            texts("status"),
            texts("external_ids"),
        ],
    },
    WantedTable {
        name: "SSL",
        columns: &[set("private_key", Text), set("certificate", Text), set("ca_cert", Text)],
    },
    WantedTable {
        name: "Port",
        columns: &[
            set("name", Text),
            set("interfaces", Uuid),
            set("tag", Integer),
            set("trunks", Integer),
            set("vlan_mode", Text),
            set("bond_mode", Text),
            set("lacp", Text),
            set("qos", Uuid),
            texts("status"),
            texts("rstp_status").or_absent(),
            texts("other_config"),
            texts("external_ids"),
        ],
    },
    WantedTable {
        name: "Interface",
        columns: &[
            set("name", Text),
            set("type", Text),
            set("ofport", Integer),
            set("admin_state", Text),
            set("link_state", Text),
            set("link_speed", Integer),
            set("duplex", Text),
            set("mtu", Integer),
            set("mac_in_use", Text),
            set("error", Text).or_absent(),
            set("lacp_current", Boolean),
            texts("options"),
            numbers("statistics"),
            texts("external_ids"),
        ],
    },
    WantedTable {
        name: "QoS",
        columns: &[
            set("type", Text),
            WantedColumn::map("queues", Integer, Uuid),
            texts("other_config"),
            texts("external_ids").or_absent(),
        ],
    },
    WantedTable {
        name: "Queue",
        columns: &[set("dscp", Integer), texts("other_config"), texts("external_ids").or_absent()],
    },
    WantedTable {
        name: "Mirror",
        columns: &[
            set("name", Text),
            set("select_all", Boolean),
            set("select_src_port", Uuid),
            set("select_dst_port", Uuid),
            set("select_vlan", Integer),
            set("output_port", Uuid),
            set("output_vlan", Integer),
            set("snaplen", Integer).or_absent(),
            numbers("statistics"),
            texts("external_ids").or_absent(),
        ],
    },
    WantedTable {
        name: "NetFlow",
        columns: &[
            set("targets", Text),
            set("active_timeout", Integer),
            set("engine_type", Integer),
            set("engine_id", Integer),
            set("add_id_to_interface", Boolean),
            texts("external_ids").or_absent(),
        ],
    },
    WantedTable {
        name: "sFlow",
        columns: &[
            set("targets", Text),
            set("sampling", Integer),
            set("polling", Integer),
            set("header", Integer),
            set("agent", Text),
            texts("external_ids").or_absent(),
        ],
    },
];
