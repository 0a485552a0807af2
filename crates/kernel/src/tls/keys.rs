//! What the controller shows switches and what it holds their certificates against, from PEM
//! (RFC 7468) as it stands in files.
//!
//! The monitor reads the files and calls [`Keys::check`], so that a mistake is told at once and to
//! the operator; the bytes then go to each kernel in sealed memory ([`Keys::to_fds`],
//! [`Keys::from_fds`]), because the kernel opens no files. The key is overwritten when a value
//! that holds it goes, and stands in no `Debug` output.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::sign::{CertifiedKey, SigningKey};
use thiserror::Error;
use webpki::{EndEntityCert, KeyUsage};
use zeroize::{Zeroize as _, Zeroizing};

use super::Server;

/// The longest file, in bytes: hundreds of certificates.
pub const MAX_FILE: usize = 1 << 20;

/// How long before it expires the controller's certificate is worth a word.
const SOON: Duration = Duration::from_secs(30 * 24 * 3600);

/// The three files, as they are.
pub struct Keys {
    /// The controller's certificate, followed by those between it and its authority, if any.
    pub certificate: Vec<u8>,
    /// The certificate's private key.
    pub key: Zeroizing<Vec<u8>>,
    /// The authorities whose certificates switches may show.
    pub authorities: Vec<u8>,
}

/// Which of the three files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The controller's certificate.
    Certificate,
    /// Its private key.
    Key,
    /// The authorities for switches.
    Authorities,
}

/// Why keys cannot be used.
#[derive(Debug, Error)]
#[error("{why}")]
pub struct KeysError {
    /// Which file is to blame.
    pub which: Which,
    /// What is wrong with it, and what to do, as a phrase about "it".
    pub why: String,
}

impl KeysError {
    fn new(which: Which, why: impl Into<String>) -> Self {
        Self { which, why: why.into() }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl Keys {
    /// Makes of them what the kernel needs to serve.
    ///
    /// # Errors
    /// [`KeysError`]: a file does not hold what it should, or the key is of another certificate.
    pub fn check(&self) -> Result<Server, KeysError> {
        let chain = certificates(&self.certificate, Which::Certificate)?;
        let own = chain.first().ok_or_else(|| no_certificate(Which::Certificate))?;
        EndEntityCert::try_from(own).map_err(|error| {
            KeysError::new(Which::Certificate, format!("its certificate is not one: {error}"))
        })?;
        let key = signing_key(&self.key)?;
        let authorities = certificates(&self.authorities, Which::Authorities)?;
        if authorities.is_empty() {
            return Err(no_certificate(Which::Authorities));
        }
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority).map_err(|error| {
                KeysError::new(Which::Authorities, format!("a certificate is not one: {error}"))
            })?;
        }
        let own = CertifiedKey::new(chain, key);
        own.keys_match()
            .map_err(|_| KeysError::new(Which::Key, "it is not the key of the certificate"))?;
        Server::new(own, roots)
            .map_err(|error| KeysError::new(Which::Authorities, error.to_string()))
    }

    /// What the operator should know about the controller's certificate at `now`, if anything:
    /// switches will refuse it, or will do so soon.
    ///
    /// Not an error: switches that speak plain TCP, or whose clocks differ, can still be served.
    pub fn doubts(&self, now: SystemTime) -> Option<String> {
        let chain = certificates(&self.certificate, Which::Certificate).ok()?;
        let own = EndEntityCert::try_from(chain.first()?).ok()?;
        let at = |time: SystemTime| {
            let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            // Without authorities it is never verified, but what concerns the certificate alone
            // is looked at before its issuer.
            let time = UnixTime::since_unix_epoch(since);
            let usage = KeyUsage::server_auth();
            own.verify_for_usage(&[], &[], &[], time, usage, None, None).err()
        };
        match (at(now), at(now + SOON)) {
            (Some(webpki::Error::CertExpired { .. }), _) => Some("it has expired".into()),
            (Some(webpki::Error::CertNotValidYet { .. }), _) => {
                Some("it is not valid yet; is the clock of this machine right?".into())
            }
            (Some(webpki::Error::RequiredEkuNotFoundContext(_)), _) => {
                Some("it is not meant for servers (extended key usage)".into())
            }
            (_, Some(webpki::Error::CertExpired { not_after, .. })) => {
                let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let days = not_after.as_secs().saturating_sub(now.as_secs()) / (24 * 3600);
                Some(format!("it expires in {days} days"))
            }
            _ => None,
        }
    }

    /// Copies them into sealed memory: certificate, key, authorities.
    ///
    /// # Errors
    /// The system is out of memory or descriptors.
    pub fn to_fds(&self) -> io::Result<[OwnedFd; Self::DESCRIPTORS]> {
        Ok([
            sys::shm::sealed_copy("rosemary-certificate", &self.certificate)?,
            sys::shm::sealed_copy("rosemary-key", &self.key)?,
            sys::shm::sealed_copy("rosemary-authorities", &self.authorities)?,
        ])
    }

    /// How many descriptors [`to_fds`](Self::to_fds) makes.
    pub const DESCRIPTORS: usize = 3;

    /// Takes them from what [`to_fds`](Self::to_fds) made.
    ///
    /// # Errors
    /// Something else was passed.
    pub fn from_fds(
        [certificate, key, authorities]: [OwnedFd; Self::DESCRIPTORS],
    ) -> io::Result<Self> {
        Ok(Self {
            certificate: std::mem::take(&mut *read(certificate)?),
            key: read(key)?,
            authorities: std::mem::take(&mut *read(authorities)?),
        })
    }
}

/// Reads sealed memory, whose offset others share, from its beginning.
fn read(fd: OwnedFd) -> io::Result<Zeroizing<Vec<u8>>> {
    let file = File::from(fd);
    let size = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    if size > MAX_FILE {
        return Err(io::Error::other("it is longer than keys are"));
    }
    let mut bytes = Zeroizing::new(vec![0; size]);
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// All certificates of a file; whatever else stands in it is left out (RFC 7468 §2).
fn certificates(pem: &[u8], which: Which) -> Result<Vec<CertificateDer<'static>>, KeysError> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| KeysError::new(which, not_pem(&error)))
}

/// What keeps a file from being PEM (RFC 7468), without what stands in it: that may be a secret, and
/// the library prints it as numbers.
fn not_pem(error: &PemError) -> String {
    let why = match error {
        PemError::MissingSectionEnd { .. } => "a -----BEGIN has no -----END; is it cut off?",
        PemError::IllegalSectionStart { .. } => "a line with -----BEGIN is not whole",
        PemError::Base64Decode(_) => "between -----BEGIN and -----END stands what is not base64",
        PemError::SectionTooLarge => "what stands between -----BEGIN and -----END is too long",
        _ => "it cannot be read to its end",
    };
    format!("it is not readable as PEM: {why}")
}

fn no_certificate(which: Which) -> KeysError {
    KeysError::new(which, "there is no certificate in it (-----BEGIN CERTIFICATE-----)")
}

fn signing_key(pem: &[u8]) -> Result<Arc<dyn SigningKey>, KeysError> {
    let unusable = |why| KeysError::new(Which::Key, why);
    let key = PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        PemError::NoItemsFound if encrypted(pem) => unusable(
            "it is encrypted, and nobody is there to type the passphrase; decrypt it with \
             `openssl pkey -in KEY -out PLAIN-KEY`"
                .into(),
        ),
        PemError::NoItemsFound => {
            unusable("there is no private key in it (-----BEGIN PRIVATE KEY-----)".into())
        }
        error => unusable(not_pem(&error)),
    })?;
    let mut key = key;
    let signing = aws_lc_rs::sign::any_supported_type(&key);
    key.zeroize();
    signing.map_err(|_| {
        unusable(
            "its key is of no kind that is known here (ECDSA P-256, P-384, P-521, Ed25519, RSA, ML-DSA)"
                .into(),
        )
    })
}

fn encrypted(pem: &[u8]) -> bool {
    let label = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
    pem.windows(label.len()).any(|window| window == label)
}
