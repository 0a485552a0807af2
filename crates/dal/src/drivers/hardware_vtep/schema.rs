//! Names the tables and columns of the schema `hardware_vtep` that the driver reads and writes (vtep(5)).

use ovsdb::{AtomKind, Wanted, WantedColumn, WantedTable};

pub(super) const PHYSICAL_SWITCH: &str = "Physical_Switch";
pub(super) const PHYSICAL_PORT: &str = "Physical_Port";
pub(super) const LOGICAL_SWITCH: &str = "Logical_Switch";
pub(super) const UNICAST_REMOTE: &str = "Ucast_Macs_Remote";
pub(super) const UNICAST_LOCAL: &str = "Ucast_Macs_Local";
pub(super) const MULTICAST_REMOTE: &str = "Mcast_Macs_Remote";
pub(super) const MULTICAST_LOCAL: &str = "Mcast_Macs_Local";
pub(super) const LOGICAL_ROUTER: &str = "Logical_Router";
pub(super) const LOCATOR: &str = "Physical_Locator";
pub(super) const LOCATOR_SET: &str = "Physical_Locator_Set";

/// The only encapsulation of the schema.
pub(super) const VXLAN: &str = "vxlan_over_ipv4";

/// The address of the entry for frames to unknown and to group addresses.
pub(super) const UNKNOWN: &str = "unknown-dst";

const fn text(name: &'static str) -> WantedColumn {
    WantedColumn::set(name, AtomKind::String)
}

const fn row(name: &'static str) -> WantedColumn {
    WantedColumn::set(name, AtomKind::Uuid)
}

const OTHER_CONFIG: WantedColumn =
    WantedColumn::map("other_config", AtomKind::String, AtomKind::String);

/// The columns of a table of addresses; `to` refers to a locator or a set of them.
const fn addresses(to: &'static str) -> [WantedColumn; 4] {
    [text("MAC"), row("logical_switch"), row(to), text("ipaddr")]
}

const ONE: [WantedColumn; 4] = addresses("locator");
const MANY: [WantedColumn; 4] = addresses("locator_set");

/// The tables and columns that a device's database must have. A device whose schema lacks `other_config` is refused.
pub(super) const WANTED: Wanted = Wanted {
    database: "hardware_vtep",
    tables: &[
        WantedTable {
            name: PHYSICAL_SWITCH,
            columns: &[row("ports"), text("name"), text("description"), text("tunnel_ips")],
        },
        WantedTable {
            name: PHYSICAL_PORT,
            columns: &[
                text("name"),
                WantedColumn::map("vlan_bindings", AtomKind::Integer, AtomKind::Uuid),
                OTHER_CONFIG,
            ],
        },
        WantedTable {
            name: LOGICAL_SWITCH,
            columns: &[
                text("name"),
                text("description"),
                WantedColumn::set("tunnel_key", AtomKind::Integer),
                OTHER_CONFIG,
            ],
        },
        WantedTable { name: UNICAST_LOCAL, columns: &ONE },
        WantedTable { name: UNICAST_REMOTE, columns: &ONE },
        WantedTable { name: MULTICAST_REMOTE, columns: &MANY },
        // These two tell only whether a logical switch is used. Old schemas lack routers.
        WantedTable { name: MULTICAST_LOCAL, columns: &[row("logical_switch").or_absent()] },
        WantedTable {
            name: LOGICAL_ROUTER,
            columns: &[
                WantedColumn::map("switch_binding", AtomKind::String, AtomKind::Uuid).or_absent()
            ],
        },
        WantedTable { name: LOCATOR_SET, columns: &[row("locators")] },
        WantedTable {
            name: LOCATOR,
            columns: &[
                text("encapsulation_type"),
                text("dst_ip"),
                WantedColumn::set("tunnel_key", AtomKind::Integer).or_absent(),
            ],
        },
    ],
};
