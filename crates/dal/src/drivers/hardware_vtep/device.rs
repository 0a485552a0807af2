//! The device that a database describes: ports, logical switches, flows and learned hosts.
//!
//! It is read from the image of the database after each change, so that the image is the only state that can be wrong. Rows that OpenFlow
//! cannot express are left out: logical switches without a tunnel key, groups other than `unknown-dst`, addresses that are none.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use openflow::{Dpid, FlowModFlags, MacAddr, PortDesc};
use ovsdb::{Image, Uuid, Value};
use thiserror::Error;

use super::numbering::{Numbers, dpid_of};
use super::ownership::Owner;
use super::reader::Reader;
use super::rule::{Key, Rule};
use super::schema::PHYSICAL_SWITCH;
use crate::session::{HostReport, MAX_PORTS};

/// A database that describes no device.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum NoDevice {
    #[error("its database has no Physical_Switch; add one with `vtep-ctl add-ps`")]
    None,
    #[error(
        "its database has {0} rows of Physical_Switch, and this controller serves one for each connection; give each a database"
    )]
    Several(usize),
    #[error("the name of its Physical_Switch is empty; set it, as the datapath id depends on it")]
    NoName,
    #[error(
        "it has more than {MAX_PORTS} ports, VLAN bindings and tunnels, the most of one switch"
    )]
    TooManyPorts,
}

/// A flow of the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) rule: Rule,
    /// `None` if another manager has written it.
    pub(super) owner: Option<Owner>,
    /// Its row in a table of addresses; `None` for a binding.
    pub(super) row: Option<Uuid>,
}

/// A logical switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Network {
    pub(super) row: Uuid,
    pub(super) name: String,
    /// Whether this controller made it.
    pub(super) is_ours: bool,
    /// Whether another row has the same tunnel key.
    pub(super) is_ambiguous: bool,
    /// Whether a row refers to it.
    pub(super) is_used: bool,
}

/// A physical port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Physical {
    pub(super) row: Uuid,
    /// Its column `vlan_bindings`.
    pub(super) bindings: Value,
    /// Whether the database keeps its number.
    pub(super) is_kept: bool,
}

/// A change of an entry of `other_config` that makes the entry agree with the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Correction {
    pub(super) table: &'static str,
    pub(super) row: Uuid,
    pub(super) key: String,
    /// The new text; `None` removes the entry.
    pub(super) text: Option<String>,
}

/// See the module's description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) dpid: Dpid,
    pub(super) ports: BTreeMap<u32, PortDesc>,
    /// The physical ports, by number.
    pub(super) physical: BTreeMap<u32, Physical>,
    /// By tunnel key.
    pub(super) networks: BTreeMap<u32, Network>,
    /// The locators without a tunnel key of their own.
    pub(super) locators: BTreeMap<Ipv4Addr, Uuid>,
    /// Its own ends of tunnels.
    pub(super) own: BTreeSet<Ipv4Addr>,
    pub(super) entries: BTreeMap<Key, Entry>,
    /// Learned hosts, by tunnel key and address.
    pub(super) hosts: BTreeMap<(u32, MacAddr), HostReport>,
    pub(super) corrections: Vec<Correction>,
}

impl Device {
    /// Reads the device. `numbers` are the numbers of ports in the session.
    ///
    /// # Errors
    /// [`NoDevice`].
    pub(super) fn read(image: &Image, numbers: &mut Numbers) -> Result<Self, NoDevice> {
        let mut rows = image.rows(PHYSICAL_SWITCH);
        let Some((_, switch)) = rows.next() else { return Err(NoDevice::None) };
        let more = rows.count();
        if more > 0 {
            return Err(NoDevice::Several(more + 1));
        }
        let name = switch.text("name").filter(|name| !name.is_empty()).ok_or(NoDevice::NoName)?;
        let own = switch.texts("tunnel_ips").into_iter().filter_map(|ip| ip.parse().ok()).collect();
        let mut device = Self {
            name: name.to_owned(),
            description: switch.text("description").unwrap_or_default().to_owned(),
            dpid: dpid_of(name),
            ports: BTreeMap::new(),
            physical: BTreeMap::new(),
            networks: BTreeMap::new(),
            locators: BTreeMap::new(),
            own,
            entries: BTreeMap::new(),
            hosts: BTreeMap::new(),
            corrections: Vec::new(),
        };
        Reader::new(image).read(switch, numbers, &mut device)?;
        if device.ports.len() > MAX_PORTS {
            return Err(NoDevice::TooManyPorts);
        }
        Ok(device)
    }

    /// Returns the flows of this controller.
    pub(super) fn own_entries(&self) -> impl Iterator<Item = (&Entry, Owner)> {
        self.entries.values().filter_map(|entry| Some((entry, entry.owner?)))
    }

    /// Returns the logical switches that this controller made and no row refers to.
    pub(super) fn unused_networks(&self) -> impl Iterator<Item = Uuid> {
        let unused = |it: &&Network| it.is_ours && !it.is_used && !it.is_ambiguous;
        self.networks.values().filter(unused).map(|network| network.row)
    }
}

impl Entry {
    /// Returns what OpenFlow lists beside match and instructions: of another manager's entry a cookie of 0.
    pub(super) fn listed(&self) -> Owner {
        let foreign = Owner {
            cookie: 0,
            priority: openflow::FlowMod::DEFAULT_PRIORITY,
            flags: FlowModFlags::default(),
        };
        self.owner.unwrap_or(foreign)
    }
}
