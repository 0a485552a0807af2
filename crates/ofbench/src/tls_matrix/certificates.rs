//! Makes certificates of each kind that a peer may accept or refuse.

use anyhow::Context as _;
use rcgen::{
    CertificateParams, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384,
    PKCS_ED25519, PKCS_RSA_SHA256, RsaKeySize, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A kind of certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    EcdsaP256,
    EcdsaP384,
    Rsa2048,
    Rsa3072,
    Ed25519,
    /// Valid until yesterday's century.
    Expired,
    /// Of another authority.
    Foreign,
    /// Its own authority.
    SelfSigned,
}

impl Kind {
    pub(super) const ALL: [Self; 8] = [
        Self::EcdsaP256,
        Self::EcdsaP384,
        Self::Rsa2048,
        Self::Rsa3072,
        Self::Ed25519,
        Self::Expired,
        Self::Foreign,
        Self::SelfSigned,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::EcdsaP256 => "ECDSA P-256",
            Self::EcdsaP384 => "ECDSA P-384",
            Self::Rsa2048 => "RSA 2048",
            Self::Rsa3072 => "RSA 3072",
            Self::Ed25519 => "Ed25519",
            Self::Expired => "expired",
            Self::Foreign => "of another authority",
            Self::SelfSigned => "self-signed",
        }
    }

    fn key(self) -> anyhow::Result<KeyPair> {
        let key = match self {
            Self::EcdsaP384 => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
            Self::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
            Self::Rsa3072 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_3072),
            Self::Ed25519 => KeyPair::generate_for(&PKCS_ED25519),
            _ => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
        };
        key.with_context(|| format!("cannot make a key for a certificate {}", self.name()))
    }
}

/// A certificate with its private key.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

/// An authority.
pub(super) struct Authority {
    certificate: String,
    key: String,
}

impl Authority {
    /// Takes the texts of `ca-cert.pem` and `ca-key.pem`.
    pub(super) fn new(certificate: String, key: String) -> Self {
        Self { certificate, key }
    }

    /// Makes a certificate of a kind.
    ///
    /// # Errors
    /// The authority's files are invalid.
    pub(super) fn issue(&self, kind: Kind) -> anyhow::Result<Identity> {
        let key = kind.key()?;
        let mut params = CertificateParams::new(vec!["ofbench".to_owned()])?;
        if kind == Kind::Expired {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        }
        let own = || -> anyhow::Result<Issuer<'static, KeyPair>> {
            let key = KeyPair::from_pem(&self.key).context("the authority's key cannot be used")?;
            Issuer::from_ca_cert_pem(&self.certificate, key)
                .context("the authority's certificate cannot be used")
        };
        let issued = match kind {
            Kind::SelfSigned => params.self_signed(&key)?,
            Kind::Foreign => {
                let issuer = KeyPair::generate()?;
                let mut authority = CertificateParams::new(vec!["another authority".to_owned()])?;
                authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
                params.signed_by(&key, &Issuer::new(authority, issuer))?
            }
            _ => params.signed_by(&key, &own()?)?,
        };
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
        Ok(Identity { chain: vec![issued.der().clone()], key })
    }
}
