//! Reads the user that a certificate names, and writes such names.
//!
//! A certificate for the HTTP interface names its user and role by a subject alternative name (RFC 5280 §4.2.1.6) that is a URI:
//!
//! ```text
//! rosemary:user:operator:alice
//! ```
//!
//! It has exactly one such name and none that could be meant as one, nor as the name of a datapath
//! ([`datapaths`](crate::datapaths)). The certificate of a switch therefore never names a user, and that of a user is refused as a switch's,
//! even if one authority has issued both. The comparison of similar names ignores case, percent-encoding, white space, punctuation
//! and the position in the certificate.

use std::time::{Duration, SystemTime};

use control::northbound::{RevokedUser, Role};
use rustls::pki_types::{CertificateDer, UnixTime};
use thiserror::Error;
use webpki::{EndEntityCert, KeyUsage};

use crate::datapaths;
use crate::names::{Kind, NamesFault, letters, occurrences};

/// The beginning of a user's URI.
pub const PREFIX: &str = "rosemary:user:";

/// The letters of the prefix.
const SCHEME: &[u8] = b"rosemary";
const BOTH: &[u8] = b"rosemaryuser";

const NAMES: Kind<(Role, String)> = Kind {
    resembles,
    parse_exactly,
    letters: BOTH,
    elsewhere: "rosemary:user in a place where it names no user",
};

/// The longest name in bytes, that of a common name in X.509.
pub const LONGEST_NAME: usize = 64;

/// The last second of the year 9999, which a certificate without an end has (RFC 5280 §4.1.2.5).
const NEVER: Duration = Duration::from_secs(253_402_300_799);

/// The URI that names a user in a certificate.
pub fn uri(role: Role, name: &str) -> String {
    format!("{PREFIX}{role}:{name}")
}

/// Whether a certificate that contains `text`, other than in a user's URI, is refused.
pub fn is_misleading(text: &str) -> bool {
    occurrences(text.as_bytes(), BOTH) > 0 || datapaths::is_misleading(text)
}

/// Whether a user can have this name: letters, digits, dots, hyphens and underscores, a letter or digit first.
pub fn is_name(text: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=LONGEST_NAME).contains(&text.len())
        && text.bytes().all(good)
        && !text.starts_with(['.', '-', '_'])
        && !is_misleading(text)
}

/// The certificate does not say clearly whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UserNameError {
    /// It is not a certificate. The TLS handshake would have refused it earlier.
    #[error("the certificate cannot be read")]
    Unreadable,
    /// It names nobody.
    #[error("the certificate names no user; make one with `rosemary pki user NAME --role ROLE`")]
    Nobody,
    /// It names several users.
    #[error(
        "the certificate names {0} users, and may name one; make one with `rosemary pki user NAME --role ROLE`"
    )]
    Several(usize),
    /// A name resembles that of a user or a datapath.
    #[error(
        "the certificate has {0}, which is not exactly the name of a user; that is a URI such as {PREFIX}viewer:alice, with the role \
         viewer, operator or admin; make one with `rosemary pki user NAME --role ROLE`"
    )]
    Malformed(String),
}

impl From<NamesFault> for UserNameError {
    fn from(fault: NamesFault) -> Self {
        match fault {
            NamesFault::Unreadable => Self::Unreadable,
            NamesFault::Malformed(what) => Self::Malformed(what),
        }
    }
}

/// The user of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertifiedUser {
    /// The user's name.
    pub name: String,
    /// The user's role.
    pub role: Role,
    /// When the certificate begins to be valid.
    pub not_before: SystemTime,
    /// When the certificate expires; `None` for never.
    pub not_after: Option<SystemTime>,
}

impl CertifiedUser {
    /// Reads the user from `certificate`, which must have been verified.
    ///
    /// # Errors
    /// [`UserNameError`]: the certificate is nobody's.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, UserNameError> {
        let (own, mut users) = NAMES.read(certificate)?;
        if occurrences(certificate, b"rosemarydpid") > 0 {
            return Err(UserNameError::Malformed("the name of a datapath".to_owned()));
        }
        let count = users.len();
        match (users.pop(), count) {
            (Some((role, name)), 1) => {
                let (not_before, not_after) = (not_before(&own), not_after(&own));
                Ok(Self { name, role, not_before, not_after })
            }
            (None, _) => Err(UserNameError::Nobody),
            (Some(_), count) => Err(UserNameError::Several(count)),
        }
    }

    /// Whether the certificate is still valid at `now`.
    pub fn is_valid_at(&self, now: SystemTime) -> bool {
        self.not_after.is_none_or(|end| now <= end)
    }

    /// Whether the certificate is among those that `revoked` has revoked.
    pub fn is_revoked_by(&self, revoked: &RevokedUser) -> bool {
        let since = self.not_before.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.name == revoked.name && since < Duration::from_secs(revoked.before)
    }
}

/// Whether the URI `name` could be meant as the name of a user, correctly spelt or not: its letters and digits begin with
/// `rosemary` or contain `rosemaryuser`, or it is one of the roles behind `user`.
fn resembles(name: &str) -> bool {
    let letters = letters(name.as_bytes());
    let contains = |what: &[u8]| letters.windows(what.len()).any(|part| part == what);
    let has_role = || Role::ALL.iter().any(|role| contains(format!("user{role}").as_bytes()));
    letters.starts_with(SCHEME) || contains(BOTH) || has_role()
}

/// Parses a name that has exactly the form of [`uri`].
fn parse_exactly(name: &str) -> Option<(Role, String)> {
    let (role, user) = name.strip_prefix(PREFIX)?.split_once(':')?;
    let role = role.parse().ok()?;
    (is_name(user) && uri(role, user) == name).then(|| (role, user.to_owned()))
}

/// When the certificate begins to be valid. A certificate without a beginning after 1970 counts as the oldest.
fn not_before(certificate: &EndEntityCert<'_>) -> SystemTime {
    match fault_at(certificate, Duration::ZERO) {
        Some(webpki::Error::CertNotValidYet { not_before, .. }) => moment(not_before),
        _ => SystemTime::UNIX_EPOCH,
    }
}

/// When the certificate expires; `None` for never.
fn not_after(certificate: &EndEntityCert<'_>) -> Option<SystemTime> {
    match fault_at(certificate, NEVER)? {
        webpki::Error::CertExpired { not_after, .. } => Some(moment(not_after)),
        _ => None,
    }
}

/// Returns the fault of the certificate at a time since 1970. Without trust anchors the verification always fails, but it checks the
/// certificate's own validity first.
fn fault_at(certificate: &EndEntityCert<'_>, since: Duration) -> Option<webpki::Error> {
    let time = UnixTime::since_unix_epoch(since);
    certificate.verify_for_usage(&[], &[], &[], time, KeyUsage::client_auth(), None, None).err()
}

fn moment(time: UnixTime) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(time.as_secs())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn certificate(uris: &[&str], common_name: &str) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.subject_alt_names =
            uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap())).collect();
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    fn read(uris: &[&str]) -> Result<(Role, String), UserNameError> {
        CertifiedUser::of(&certificate(uris, "alice")).map(|it| (it.role, it.name))
    }

    #[test]
    fn user_and_role_are_read() {
        for role in Role::ALL {
            assert_eq!(read(&[&uri(role, "alice-2.ops")]), Ok((role, "alice-2.ops".to_owned())));
        }
        let other = ["https://example.org/rosemary", "rosemary:user:viewer:bob"];
        assert_eq!(read(&other).unwrap().1, "bob");
    }

    #[test]
    fn nearly_right_names_are_refused() {
        for wrong in [
            "rosemary:user:admin",
            "rosemary:user:admin:",
            "rosemary:user::alice",
            "rosemary:user:root:alice",
            "rosemary:user:Admin:alice",
            "Rosemary:user:admin:alice",
            "rosemary:user:admin:alice:bob",
            "rosemary:user:admin:al%69ce",
            "rosemary:user:admin:.alice",
            "rosemary:user:admin:alice/",
            "rosemary:users:admin:alice",
            "rosemary::user:admin:alice",
            "rosemary-user:admin:alice",
            "rosem%61ry:user:admin:alice",
            "urn:rosemary:user:admin:alice",
            "user:admin:alice",
            "rosemary:admin:alice",
            "rosemary:user:admin:rosemary-user",
        ] {
            let error = read(&[wrong]).unwrap_err();
            assert!(matches!(error, UserNameError::Malformed(_)), "{wrong}: {error}");
        }
    }

    #[test]
    fn certificate_names_exactly_one_user() {
        assert_eq!(read(&[]), Err(UserNameError::Nobody));
        assert_eq!(read(&["https://example.org/"]), Err(UserNameError::Nobody));
        let two = ["rosemary:user:viewer:alice", "rosemary:user:admin:alice"];
        assert_eq!(read(&two), Err(UserNameError::Several(2)));
        let right = "rosemary:user:viewer:alice";
        for name in ["rosemary:user:admin:alice", "Rosemary user", "rosemary:dpid:1"] {
            let error = CertifiedUser::of(&certificate(&[right], name)).unwrap_err();
            assert!(matches!(error, UserNameError::Malformed(_)), "{name}: {error}");
        }
    }

    #[test]
    fn switches_and_users_never_have_the_same_certificate() {
        let switch = "rosemary:dpid:00:00:00:00:00:00:00:01";
        assert!(matches!(read(&[switch]), Err(UserNameError::Malformed(_))));
        let both = [switch, "rosemary:user:viewer:alice"];
        assert!(matches!(read(&both), Err(UserNameError::Malformed(_))));
        for uris in [&both[..], &both[1..]] {
            let user = certificate(uris, "alice");
            datapaths::CertifiedDatapaths::of(&user).unwrap_err();
        }
    }

    #[test]
    fn certificate_expires() {
        let user = certificate(&["rosemary:user:viewer:alice"], "alice");
        let user = CertifiedUser::of(&user).unwrap();
        // The years of certificates without a stated validity, in rcgen.
        assert!(user.is_valid_at(SystemTime::now()));
        let mut params = CertificateParams::default();
        let name = "rosemary:user:viewer:alice".try_into().unwrap();
        params.subject_alt_names = vec![SanType::URI(name)];
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        params.not_after = end.into();
        let old = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let old = CertifiedUser::of(old.der()).unwrap();
        assert_eq!(old.not_after, Some(end));
        assert!(old.is_valid_at(end) && !old.is_valid_at(end + Duration::from_secs(1)));
    }

    #[test]
    fn certificates_from_before_the_revocation_are_revoked() {
        let mut params = CertificateParams::default();
        let name = "rosemary:user:viewer:alice".try_into().unwrap();
        params.subject_alt_names = vec![SanType::URI(name)];
        params.not_before = (SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)).into();
        let user = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let user = CertifiedUser::of(user.der()).unwrap();
        let is_revoked =
            |name: &str, before| user.is_revoked_by(&RevokedUser { name: name.to_owned(), before });
        assert!(is_revoked("alice", 1_700_000_001));
        assert!(!is_revoked("alice", 1_700_000_000), "it was made after the revocation");
        assert!(!is_revoked("bob", u64::MAX) && !is_revoked("Alice", u64::MAX));
        params.not_before = (SystemTime::UNIX_EPOCH - Duration::from_secs(1)).into();
        let old = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let old = CertifiedUser::of(old.der()).unwrap();
        assert!(old.is_revoked_by(&RevokedUser { name: "alice".into(), before: 1 }));
    }
}
