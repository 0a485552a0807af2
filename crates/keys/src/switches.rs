//! TLS of a client that connects to a switch, such as to its database.
//!
//! The switch presents the certificate with which it also connects to the controller. Such a certificate names datapaths, not the host, and
//! is for clients only (extended key usage), so that a thief of a switch's key cannot pose as the controller. So it is verified as the
//! kernel verifies it when the switch connects. The caller compares its datapaths ([`CertifiedDatapaths`]).
//!
//! [`CertifiedDatapaths`]: crate::datapaths::CertifiedDatapaths

use std::sync::Arc;

use control::security::KeyFile;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use crate::{Keys, KeysError};

impl Keys {
    /// Builds the TLS configuration of a client that presents the controller's certificate and accepts the certificates of switches.
    ///
    /// # Errors
    /// [`KeysError`]: a file lacks its contents, or the key belongs to another certificate.
    pub fn client_config(&self) -> Result<ClientConfig, KeysError> {
        let own = self.certified_key()?;
        let provider = Arc::new(aws_lc_rs::default_provider());
        let roots = Arc::new(self.root_store()?);
        let unusable = |error: String| KeysError::new(KeyFile::Authorities, error);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone()).build();
        let verifier = SwitchVerifier(verifier.map_err(|error| unusable(error.to_string()))?);
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(|error| unusable(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own)));
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(config)
    }
}

/// Verifies that an authority has issued a certificate to a switch; its name is not compared.
#[derive(Debug)]
struct SwitchVerifier(Arc<dyn ClientCertVerifier>);

impl ServerCertVerifier for SwitchVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.0
            .verify_client_cert(end_entity, intermediates, now)
            .map(|_| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
