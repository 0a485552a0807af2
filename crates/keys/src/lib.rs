//! Reads the controller's TLS keys from PEM (RFC 7468) and checks that they can be used.
//!
//! | module | purpose |
//! | --- | --- |
//! | [`datapaths`] | the datapaths that a switch's certificate names |
//! | [`switches`] | TLS of a client that connects to a switch |
//! | [`users`] | the user that a certificate for the HTTP interface names |
//! | [`fault`] | explains failed connections |
//!
//! There are two sets of keys: those for switches, and those for users of the HTTP interface. Each has an authority of its own.
//!
//! The monitor copies the key files into sealed memory and does not parse them. `rosemary-security`, a
//! confined process, checks them once at the start ([`Keys::server_config`]), so that an error reaches the
//! operator at once. Each kernel, and each process of the HTTP interface, then reads the same memory ([`Keys::from_fds`]).
//!
//! The private key is overwritten when a [`Keys`] is dropped. It appears in no `Debug` output and no error.

#![forbid(unsafe_code)]

pub mod datapaths;
pub mod fault;
mod names;
pub mod switches;
pub mod users;

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use control::security::{KeyFile, KeyPurpose};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{Error as PemError, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};
use thiserror::Error;
use webpki::{EndEntityCert, KeyUsage};
use zeroize::{Zeroize as _, Zeroizing};

/// The longest key file in bytes, which holds hundreds of certificates.
pub const MAX_FILE: usize = 1 << 20;

/// How long before the controller's certificate expires a warning is due.
const EXPIRES_SOON: Duration = Duration::from_secs(30 * 24 * 3600);

/// The contents of the three key files.
pub struct Keys {
    /// The controller's certificate, followed by any intermediate certificates.
    pub certificate: Vec<u8>,
    /// The private key of the certificate.
    pub key: Zeroizing<Vec<u8>>,
    /// The certificates of the authorities that issue certificates to clients.
    pub authorities: Vec<u8>,
}

/// The keys cannot be used.
#[derive(Debug, Error)]
#[error("{why}")]
pub struct KeysError {
    /// The file at fault.
    pub file: KeyFile,
    /// The fault and its remedy, as a phrase about "it".
    pub why: String,
}

impl KeysError {
    fn new(file: KeyFile, why: impl Into<String>) -> Self {
        Self { file, why: why.into() }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl Keys {
    /// The number of files, and of descriptors that [`from_fds`](Self::from_fds) takes.
    pub const FILES: usize = 3;

    /// Reads keys from sealed memory: certificate, key, authorities.
    ///
    /// # Errors
    /// A descriptor cannot be read, or holds more than [`MAX_FILE`] bytes.
    pub fn from_fds([certificate, key, authorities]: [OwnedFd; Self::FILES]) -> io::Result<Self> {
        Ok(Self {
            certificate: std::mem::take(&mut *read(certificate)?),
            key: read(key)?,
            authorities: std::mem::take(&mut *read(authorities)?),
        })
    }

    /// Builds the TLS configuration of a server that presents the controller's certificate and accepts those that an authority
    /// has issued. A switch must present one, a user may.
    ///
    /// # Errors
    /// [`KeysError`]: a file lacks its contents, or the key belongs to another certificate.
    pub fn server_config(&self, purpose: KeyPurpose) -> Result<ServerConfig, KeysError> {
        let own = self.certified_key()?;
        let roots = self.root_store()?;
        server_config(own, roots, purpose)
            .map_err(|error| KeysError::new(KeyFile::Authorities, error.to_string()))
    }

    fn certified_key(&self) -> Result<CertifiedKey, KeysError> {
        let chain = certificates(&self.certificate, KeyFile::Certificate)?;
        let own = chain.first().ok_or_else(|| no_certificate(KeyFile::Certificate))?;
        EndEntityCert::try_from(own).map_err(|error| {
            KeysError::new(KeyFile::Certificate, format!("its certificate is not one: {error}"))
        })?;
        let key = signing_key(&self.key)?;
        let own = CertifiedKey::new(chain, key);
        own.keys_match()
            .map_err(|_| KeysError::new(KeyFile::Key, "it is not the key of the certificate"))?;
        Ok(own)
    }

    fn root_store(&self) -> Result<RootCertStore, KeysError> {
        let authorities = certificates(&self.authorities, KeyFile::Authorities)?;
        if authorities.is_empty() {
            return Err(no_certificate(KeyFile::Authorities));
        }
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority).map_err(|error| {
                KeysError::new(KeyFile::Authorities, format!("a certificate is not one: {error}"))
            })?;
        }
        Ok(roots)
    }

    /// Returns a reason why clients refuse the certificate at `now`, or will refuse it soon.
    ///
    /// The controller starts all the same: it can serve clients that speak plain TCP, or whose clocks differ.
    pub fn warning(&self, now: SystemTime) -> Option<String> {
        let chain = certificates(&self.certificate, KeyFile::Certificate).ok()?;
        let own = EndEntityCert::try_from(chain.first()?).ok()?;
        let fault_at = |time: SystemTime| {
            let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let time = UnixTime::since_unix_epoch(since);
            // Without trust anchors the verification always fails, but it checks the certificate's own
            // validity first and its issuer last.
            own.verify_for_usage(&[], &[], &[], time, KeyUsage::server_auth(), None, None).err()
        };
        match (fault_at(now), fault_at(now + EXPIRES_SOON)) {
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
}

fn server_config(
    own: CertifiedKey,
    roots: RootCertStore,
    purpose: KeyPurpose,
) -> Result<ServerConfig, Box<dyn std::error::Error>> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let (verifier, versions): (_, &[_]) = match purpose {
        KeyPurpose::Switches => (verifier, &[&rustls::version::TLS13, &rustls::version::TLS12]),
        // A user may show a token instead.
        KeyPurpose::Users => (verifier.allow_unauthenticated(), &[&rustls::version::TLS13]),
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .with_client_cert_verifier(verifier.build()?)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(own)));
    if purpose == KeyPurpose::Users {
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
    }
    // A resumed session would count as verified for as long as its ticket lives.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Reads sealed memory from its beginning. Its file offset is shared with other processes.
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

/// Returns all certificates of a file and ignores everything else in it (RFC 7468 §2).
fn certificates(pem: &[u8], file: KeyFile) -> Result<Vec<CertificateDer<'static>>, KeysError> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| KeysError::new(file, not_pem(&error)))
}

/// Explains why a file is not PEM, without quoting it: it may hold a secret, and the library's own message
/// prints the bytes as numbers.
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

fn no_certificate(file: KeyFile) -> KeysError {
    KeysError::new(file, "there is no certificate in it (-----BEGIN CERTIFICATE-----)")
}

fn signing_key(pem: &[u8]) -> Result<Arc<dyn SigningKey>, KeysError> {
    let unusable = |why| KeysError::new(KeyFile::Key, why);
    let mut key = PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        PemError::NoItemsFound if is_encrypted(pem) => unusable(
            "it is encrypted, and nobody is there to type the passphrase; decrypt it with \
             `openssl pkey -in KEY -out PLAIN-KEY`"
                .into(),
        ),
        PemError::NoItemsFound => {
            unusable("there is no private key in it (-----BEGIN PRIVATE KEY-----)".into())
        }
        error => unusable(not_pem(&error)),
    })?;
    let signing = aws_lc_rs::sign::any_supported_type(&key);
    key.zeroize();
    signing.map_err(|_| {
        unusable(
            "its key is of no kind that is known here (ECDSA P-256, P-384, P-521, Ed25519, RSA, ML-DSA)"
                .into(),
        )
    })
}

fn is_encrypted(pem: &[u8]) -> bool {
    let label = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
    pem.windows(label.len()).any(|window| window == label)
}

#[cfg(test)]
mod tests;
