//! TLS towards switches: the side of a controller, for `ofbench null` and `ofbench measure-switch`.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};

use super::{Files, authorities, certificates, not_that};

/// A version of TLS that this program speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[value(name = "1.2")]
    Tls12,
    /// TLS 1.3.
    #[value(name = "1.3")]
    Tls13,
}

impl TlsVersion {
    /// Returns the version as the TLS library names it.
    pub fn protocol(self) -> &'static SupportedProtocolVersion {
        match self {
            Self::Tls12 => &rustls::version::TLS12,
            Self::Tls13 => &rustls::version::TLS13,
        }
    }
}

/// TLS server settings. Cheap to clone.
#[derive(Clone)]
pub struct Server(Arc<ServerConfig>);

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Files {
    /// Returns the paths of `ca-cert.pem`, `controller-cert.pem` and `controller-key.pem` in a directory, as
    /// `rosemary pki init` makes them.
    pub fn of_controller(dir: &Path) -> Self {
        let path = |name: &str| -> PathBuf { dir.join(name) };
        Self {
            ca: path("ca-cert.pem"),
            cert: path("controller-cert.pem"),
            key: path("controller-key.pem"),
        }
    }
}

impl Server {
    /// Reads the files. Switches have to present a certificate of the CA. `suite` limits the suites to one, by its name
    /// in the registry, such as `TLS13_AES_128_GCM_SHA256`.
    ///
    /// # Errors
    /// A file cannot be read or has invalid content, or there is no such suite.
    pub fn load(
        files: &Files,
        version: Option<TlsVersion>,
        suite: Option<&str>,
    ) -> anyhow::Result<Self> {
        let provider = Arc::new(provider(suite)?);
        let roots = Arc::new(authorities(&files.ca)?);
        let own = certificates(&files.cert)?;
        let key = PrivateKeyDer::from_pem_file(&files.key)
            .with_context(|| not_that(&files.key, "a private key"))?;
        let verifier =
            WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build()?;
        let both = [&rustls::version::TLS13, &rustls::version::TLS12];
        let versions = version.map_or(both.to_vec(), |version| vec![version.protocol()]);
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .context("the suite is not one of the TLS version")?
            .with_client_cert_verifier(verifier)
            .with_single_cert(own, key)
            .with_context(|| not_that(&files.cert, "the certificate of the private key"))?;
        // Every connection has a whole handshake, as that of a restarted switch.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self(Arc::new(config)))
    }

    /// Creates the session of one connection.
    pub(crate) fn session(&self) -> io::Result<ServerConnection> {
        ServerConnection::new(self.0.clone()).map_err(io::Error::other)
    }
}

/// Returns the cryptography with all suites, or with one.
pub(crate) fn provider(suite: Option<&str>) -> anyhow::Result<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    if let Some(name) = suite {
        let names: Vec<String> =
            provider.cipher_suites.iter().map(|it| format!("{:?}", it.suite())).collect();
        provider.cipher_suites.retain(|it| format!("{:?}", it.suite()) == name);
        if provider.cipher_suites.is_empty() {
            bail!("there is no suite {name}; there are {}", names.join(", "));
        }
    }
    Ok(provider)
}
