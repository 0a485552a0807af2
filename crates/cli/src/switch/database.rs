//! Connects to the database of a switch, and names the tables that the commands read.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::ovsdb::AtomKind::{Boolean, Integer, String as Text, Uuid};
use ::ovsdb::driver::{Address, Connection, DriverError, Server};
use ::ovsdb::{Settings, Wanted, WantedColumn, WantedTable};
use anyhow::{Context as _, bail};
use clap::Args;
use config::Config;
use config::instance::{InstancePaths, TlsDir};
use control::security::KeyPurpose;
use keys::{Keys, fault};
use monitor::keys::{CA_CERT, CONTROLLER_CERT, CONTROLLER_KEY};

use crate::pki;

/// How long a transaction of the command may take.
pub(super) const TRANSACTION: Duration = Duration::from_secs(10);

/// The options for a connection to the database of a switch.
#[derive(Debug, Clone, Args)]
pub struct DatabaseArgs {
    /// The switch's database: ssl:HOST:PORT, tcp:HOST:PORT or unix:PATH; the default port is 6640
    #[arg(value_name = "ADDRESS")]
    pub address: Address,
    /// How long the database may take to answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub timeout: u64,
    /// The keys that the command presents to the switch.
    #[command(flatten)]
    pub tls_dir: TlsDir,
    /// The instance whose configuration names the keys.
    #[command(flatten)]
    pub instance: InstancePaths,
}

impl DatabaseArgs {
    /// Connects, and waits until the tables are read.
    ///
    /// # Errors
    /// There are no keys for TLS, the database does not answer, or it lacks a column.
    pub(super) fn connect(&self, config: &Config) -> anyhow::Result<Connection> {
        let tls = match self.address {
            Address::Tls(_) => Some(Arc::new(self.keys(config)?.client_config()?)),
            Address::Tcp(_) | Address::Unix(_) => None,
        };
        let server = Server { address: self.address.clone(), tls };
        let limit = Duration::from_secs(self.timeout);
        let settings = Settings { answer: limit, ..Settings::default() };
        Connection::open(server, WANTED, settings, limit).map_err(explained)
    }

    /// Reads the controller's keys.
    fn keys(&self, config: &Config) -> anyhow::Result<Keys> {
        let dir = self.tls_dir.resolve(config);
        let dir = dir.context("there is no directory for the keys; name one with --tls-dir")?;
        if !dir.join(CONTROLLER_CERT).exists() {
            bail!(
                "{} has no keys; make them with `rosemary pki init`, or name another directory with --tls-dir",
                dir.display()
            );
        }
        let read = |name: &str| pki::read(&Path::new(&dir).join(name));
        Ok(Keys {
            certificate: read(CONTROLLER_CERT)?.as_bytes().to_vec(),
            key: read(CONTROLLER_KEY)?.as_bytes().to_vec().into(),
            authorities: read(CA_CERT)?.as_bytes().to_vec(),
        })
    }
}

/// Returns the error, with the reason of a failed TLS connection in plain words.
pub(super) fn explained(error: DriverError) -> anyhow::Error {
    match &error {
        DriverError::Io { address: address @ Address::Tls(_), source } => {
            let why = fault::explain_io(source, KeyPurpose::Switches);
            anyhow::anyhow!(
                "the TLS connection to {address} failed: {why}. A certificate of the controller that is not for clients, as earlier \
                 versions made it, is replaced by `rosemary pki controller --force`"
            )
        }
        _ => error.into(),
    }
}

/// The tables and columns that the commands read (ovs-vswitchd.conf.db(5)). Columns that came with later versions than Open vSwitch 2.5
/// may be absent.
pub(super) const WANTED: Wanted = Wanted { database: "Open_vSwitch", tables: TABLES };

const fn set(name: &'static str, kind: ::ovsdb::AtomKind) -> WantedColumn {
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
            numbers("statistics"),
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
            numbers("statistics"),
            texts("external_ids").or_absent(),
        ],
    },
    WantedTable {
        name: "NetFlow",
        columns: &[
            set("targets", Text),
            set("active_timeout", Integer),
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
