//! Reads the datapaths that a certificate names, and writes such names.
//!
//! A certificate names a datapath by a subject alternative name (RFC 5280 §4.2.1.6) that is a URI:
//!
//! ```text
//! rosemary:dpid:00:00:00:00:00:00:00:01
//! ```
//!
//! A certificate may name several datapaths, because one Open vSwitch has one certificate for all its
//! bridges. A switch may claim these datapaths and no other. A certificate without such a name may claim
//! any: `ovs-pki` makes such certificates, and the operator's authority has issued it.
//!
//! A misspelt name must not count as no name, because its certificate would then be good for any datapath.
//! So a certificate is refused if anything in it resembles the form above without having exactly this
//! form. The comparison ignores case, percent-encoding (RFC 3986 §2.1), white space, punctuation and the
//! position in the certificate.

use openflow::Dpid;
use rustls::pki_types::CertificateDer;
use thiserror::Error;

use crate::names::{Kind, NamesFault, letters, occurrences};

/// The beginning of a datapath's URI.
pub const PREFIX: &str = "rosemary:dpid:";

/// The name of the controller in its certificate, which is for clients too. No switch may present such a certificate.
pub const CONTROLLER: &str = "rosemary-controller";

/// The letters of the prefix.
const SCHEME: &[u8] = b"rosemary";
const KIND: &[u8] = b"dpid";
const BOTH: &[u8] = b"rosemarydpid";

const NAMES: Kind<Dpid> = Kind {
    resembles,
    parse_exactly,
    letters: BOTH,
    elsewhere: "rosemary:dpid in a place where it names no datapath",
};

/// The URI that names `dpid` in a certificate.
pub fn uri(dpid: Dpid) -> String {
    format!("{PREFIX}{dpid}")
}

/// Whether a certificate that contains `text`, other than as a datapath's URI, is refused.
pub fn is_misleading(text: &str) -> bool {
    occurrences(text.as_bytes(), BOTH) > 0
}

/// The certificate's statement about datapaths cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DatapathNamesError {
    /// It is not a certificate. The TLS handshake would have refused it earlier.
    #[error("its certificate cannot be read")]
    Unreadable,
    /// A name resembles a datapath's and is none.
    #[error(
        "its certificate has {0}, which is not exactly the name of a datapath; that is a URI such as \
         {PREFIX}00:00:00:00:00:00:00:01, in lower case, with 16 digits and a colon behind each pair; make \
         another with `rosemary pki switch NAME --dpid DPID`"
    )]
    Malformed(String),
    /// It is the certificate with which the controller itself connects to databases of switches.
    #[error(
        "its certificate is the controller's; make one for the switch with `rosemary pki switch NAME --dpid DPID`"
    )]
    Controller,
}

impl From<NamesFault> for DatapathNamesError {
    fn from(fault: NamesFault) -> Self {
        match fault {
            NamesFault::Unreadable => Self::Unreadable,
            NamesFault::Malformed(what) => Self::Malformed(what),
        }
    }
}

/// The datapaths that a certificate names, in ascending order. An empty list permits all datapaths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertifiedDatapaths(Vec<Dpid>);

impl CertifiedDatapaths {
    /// Reads them from `certificate`, which must have been verified.
    ///
    /// # Errors
    /// [`DatapathNamesError`]: the caller must close the connection.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, DatapathNamesError> {
        let (own, mut dpids) = NAMES.read(certificate)?;
        if own.valid_dns_names().any(|name| name.eq_ignore_ascii_case(CONTROLLER)) {
            return Err(DatapathNamesError::Controller);
        }
        dpids.sort_unstable();
        Ok(Self(dpids))
    }

    /// Checks whether a switch with this certificate may claim `dpid`.
    ///
    /// # Errors
    /// The datapaths that it may claim instead, as text.
    pub fn may_claim(&self, dpid: Dpid) -> Result<(), String> {
        if self.0.is_empty() || self.0.contains(&dpid) {
            return Ok(());
        }
        let shown: Vec<String> = self.0.iter().take(4).map(Dpid::to_string).collect();
        let more = if self.0.len() > 4 { ", ..." } else { "" };
        Err(shown.join(", ") + more)
    }
}

/// Whether the URI `name` could be meant as the name of a datapath, correctly spelt or not: its letters and
/// digits begin with `rosemary` or `dpid`, or contain `rosemarydpid`, or contain `dpid` in a URI without
/// `://`.
fn resembles(name: &str) -> bool {
    let letters = letters(name.as_bytes());
    let contains = |what: &[u8]| letters.windows(what.len()).any(|part| part == what);
    let is_url = name.contains("://");
    letters.starts_with(SCHEME)
        || letters.starts_with(KIND)
        || contains(BOTH)
        || !is_url && contains(KIND)
}

/// Parses a name that has exactly the form of [`uri`], so that nobody has to guess the base of a number.
fn parse_exactly(name: &str) -> Option<Dpid> {
    name.strip_prefix(PREFIX)?.parse().ok().filter(|dpid| uri(*dpid) == name)
}
