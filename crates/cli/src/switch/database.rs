//! Connects to the database of a switch.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::ovsdb::Settings;
use ::ovsdb::driver::{Address, Connection, DriverError, Server};
use ::ovsdb::open_vswitch::WANTED;
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
