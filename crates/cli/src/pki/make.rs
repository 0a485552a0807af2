//! Creates a certificate authority and issues certificates: X.509 (RFC 5280) with keys on the curve P-256.
//!
//! | | authority | controller | switch | HTTP interface | user |
//! | --- | --- | --- | --- | --- | --- |
//! | valid | 10 years | 825 days | 825 days | 825 days | 825 days |
//! | key usage | sign certificates and lists | sign | sign | sign | sign |
//! | extended | | serverAuth, clientAuth | clientAuth | serverAuth | clientAuth |
//! | names | `Rosemary CA` or `Rosemary API CA`, and a number | `rosemary-controller` | its name, its datapaths | names and addresses | its name and role |
//!
//! The authority of the HTTP interface and its users is another one than that of switches and controller.
//!
//! The extended key usages keep a thief of a switch's key from posing as the controller. The controller itself is also a client, of the
//! databases of switches (`rosemary switch adopt`); the kernel refuses its certificate from a switch by its name. A certificate is
//! valid from an hour before its creation, for switches whose clocks are slow. Its serial number is the hash
//! of its public key, so no two certificates have the same one.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use control::northbound::Role;
use keys::{datapaths, users};
use openflow::Dpid;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType,
    SignatureAlgorithm, SigningKey,
};
use zeroize::Zeroizing;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Validity of an authority, in days.
const AUTHORITY_DAYS: u32 = 3650;

/// Default validity of an issued certificate, in days.
pub(crate) const DAYS: u32 = 825;

/// How far the begin of a certificate may be ahead of the clock: a few revocations within a second each count a second more.
const AHEAD: Duration = Duration::from_secs(300);

/// A name by which clients call the HTTP interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerName {
    /// An address.
    Address(IpAddr),
    /// A host name.
    Host(String),
}

/// A certificate and its key, as PEM.
pub(crate) struct Issued {
    pub(crate) certificate: String,
    pub(crate) key: Zeroizing<String>,
}

impl Issued {
    fn new(certificate: &Certificate, key: &KeyPair) -> Self {
        Self { certificate: certificate.pem(), key: Zeroizing::new(key.serialize_pem()) }
    }
}

/// A private key, overwritten on drop.
struct Key(Zeroizing<KeyPair>);

impl PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        self.0.der_bytes()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.0.algorithm()
    }
}

impl SigningKey for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        self.0.sign(message)
    }
}

/// A certificate authority. Its key is overwritten on drop.
pub(crate) struct Authority {
    issuer: Issuer<'static, Key>,
}

impl Authority {
    /// Creates an authority, whose name begins with `name`. Returns it with its certificate and key, for storage.
    ///
    /// # Errors
    /// The system cannot provide random numbers.
    pub(crate) fn create(name: &str) -> anyhow::Result<(Self, Issued)> {
        let key = new_key()?;
        let mut params = params("", AUTHORITY_DAYS);
        // The number distinguishes authorities in error messages.
        let number = key.der_bytes().iter().skip(1).take(4);
        let number = number.fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        params.distinguished_name.push(DnType::CommonName, format!("{name} {number:08x}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?;
        let issued = Issued::new(&certificate, &key.0);
        Ok((Self { issuer: Issuer::new(params, key) }, issued))
    }

    /// Loads a stored authority.
    ///
    /// # Errors
    /// The certificate or the key is invalid.
    pub(crate) fn open(certificate: &str, key: &str) -> anyhow::Result<Self> {
        let key = KeyPair::from_pem(key).context("its key cannot be used")?;
        let issuer = Issuer::from_ca_cert_pem(certificate, Key(Zeroizing::new(key)))
            .context("its certificate cannot be used")?;
        Ok(Self { issuer })
    }

    /// Issues a certificate for the controller.
    ///
    /// # Errors
    /// The system cannot provide random numbers.
    pub(crate) fn controller(&self, days: u32) -> anyhow::Result<Issued> {
        let mut params = params(datapaths::CONTROLLER, days);
        params.subject_alt_names = vec![SanType::DnsName(datapaths::CONTROLLER.try_into()?)];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params)
    }

    /// Issues a certificate with which a switch may claim each datapath id in `dpids`, or any datapath id if
    /// the list is empty.
    ///
    /// # Errors
    /// The system cannot provide random numbers.
    pub(crate) fn switch(&self, name: &str, dpids: &[Dpid], days: u32) -> anyhow::Result<Issued> {
        let mut params = params(name, days);
        params.subject_alt_names = dpids
            .iter()
            .map(|dpid| Ok(SanType::URI(datapaths::uri(*dpid).try_into()?)))
            .collect::<anyhow::Result<_>>()?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params)
    }

    /// Issues a certificate for the HTTP interface, which clients call by these names and addresses.
    ///
    /// # Errors
    /// A name is none, or the system cannot provide random numbers.
    pub(crate) fn interface(&self, names: &[ServerName], days: u32) -> anyhow::Result<Issued> {
        let mut params = params("rosemary-api", days);
        params.subject_alt_names = names
            .iter()
            .map(|name| {
                Ok(match name {
                    ServerName::Address(address) => SanType::IpAddress(*address),
                    ServerName::Host(name) => SanType::DnsName(name.as_str().try_into()?),
                })
            })
            .collect::<anyhow::Result<_>>()?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue(params)
    }

    /// Issues a certificate for a user of the HTTP interface. It begins no earlier than `revoked`, in seconds since 1970, if earlier
    /// ones were revoked.
    ///
    /// # Errors
    /// The revocation is ahead of the clock, or the system cannot provide random numbers.
    pub(crate) fn user(
        &self,
        name: &str,
        role: Role,
        days: u32,
        revoked: Option<u64>,
    ) -> anyhow::Result<Issued> {
        let mut params = params(name, days);
        if let Some(seconds) = revoked {
            let begin = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
            let begin = begin.filter(|begin| *begin <= SystemTime::now() + AHEAD);
            // Earlier certificates of the user may begin at any time before the revocation, so a new one must not.
            let begin = begin.with_context(|| {
                format!(
                    "the certificates of {name} that begin before {seconds} (seconds since 1970) were revoked, and the clock has not come \
                     so far: it is wrong now, or it was then. If it is wrong now, set it. Otherwise choose another name for the user"
                )
            })?;
            let begin = begin.into();
            params.not_before = params.not_before.max(begin);
        }
        params.subject_alt_names = vec![SanType::URI(users::uri(role, name).try_into()?)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(params)
    }

    fn issue(&self, mut params: CertificateParams) -> anyhow::Result<Issued> {
        let key = new_key()?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Issued::new(&certificate, &key.0))
    }
}

fn new_key() -> anyhow::Result<Key> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).context("cannot create a key")?;
    Ok(Key(Zeroizing::new(key)))
}

fn params(name: &str, days: u32) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    if !name.is_empty() {
        params.distinguished_name.push(DnType::CommonName, name);
    }
    let now = SystemTime::now();
    params.not_before = (now - DAY / 24).into();
    params.not_after = (now + DAY * days).into();
    params
}
