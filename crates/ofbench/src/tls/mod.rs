//! TLS towards the controller: trusted CAs, and the switches' own certificate.

mod server;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};

pub(crate) use server::provider;
pub use server::{Server, TlsVersion};

/// The files of a switch, in the layout of `rosemary pki switch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// CA certificates that may have issued the controller's certificate.
    pub ca: PathBuf,
    /// Certificate of the switches.
    pub cert: PathBuf,
    /// Private key of that certificate.
    pub key: PathBuf,
}

impl Files {
    /// Returns the paths of `ca-cert.pem`, `cert.pem` and `key.pem` in a directory.
    pub fn in_dir(dir: &Path) -> Self {
        Self { ca: dir.join("ca-cert.pem"), cert: dir.join("cert.pem"), key: dir.join("key.pem") }
    }
}

/// TLS client settings. Cheap to clone.
#[derive(Clone)]
pub struct Tls(Arc<ClientConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read or has invalid content.
    pub fn load(files: &Files) -> anyhow::Result<Self> {
        let roots = authorities(&files.ca)?;
        let own = certificates(&files.cert)?;
        let key = PrivateKeyDer::from_pem_file(&files.key)
            .with_context(|| not_that(&files.key, "a private key"))?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = AnyNameVerifier {
            algorithms: provider.signature_verification_algorithms,
            by_name: WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .build()?,
        };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_auth_cert(own, key)
            .with_context(|| not_that(&files.cert, "the certificate of the private key"))?;
        // Without resumption every connection costs a full handshake, as a switch's first one does.
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Self(Arc::new(config)))
    }

    /// Creates the session of one connection.
    pub(crate) fn session(&self) -> io::Result<ClientConnection> {
        // Switches know the controller's address and CA, not its name.
        let name = ServerName::try_from("controller").map_err(io::Error::other)?;
        ClientConnection::new(self.0.clone(), name).map_err(io::Error::other)
    }
}

fn authorities(path: &Path) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(path)? {
        roots.add(authority).with_context(|| not_that(path, "a CA certificate"))?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| not_that(path, "certificates"))?;
    if found.is_empty() {
        bail!("{} contains no certificate", path.display());
    }
    Ok(found)
}

fn not_that(path: &Path, what: &str) -> String {
    format!("{} cannot be used as {what}", path.display())
}

/// Returns a verifier that accepts every certificate of a controller, for probes that exchange nothing worth protecting.
pub(crate) fn any_server(provider: &CryptoProvider) -> Arc<dyn ServerCertVerifier> {
    Arc::new(AnyCertificate(provider.signature_verification_algorithms))
}

/// Accepts every certificate; see [`any_server`].
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// Verifies the controller's certificate except for its name. Any certificate of the CA identifies
/// a controller, as in Open vSwitch.
#[derive(Debug)]
struct AnyNameVerifier {
    algorithms: WebPkiSupportedAlgorithms,
    by_name: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for AnyNameVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The name is checked last, so a certificate that fails only by name has passed all other
        // checks.
        match self.by_name.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        ) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
