//! Which datapaths a certificate speaks for.
//!
//! A certificate names a datapath by a subject alternative name (RFC 5280 §4.2.1.6) that is a URI:
//!
//! ```text
//! rosemary:dpid:00:00:00:00:00:00:00:01
//! ```
//!
//! It may name several, as one Open vSwitch has one certificate for all its bridges. A switch may
//! then call itself by these and by no other. One that names none may claim any: certificates
//! made by `ovs-pki` are such, and it was the operator's authority that issued it.
//!
//! A name that is nearly right must not count as none, as its certificate would then be good for any
//! datapath. So each name that resembles the form above must have exactly this form, else the
//! certificate is refused. Case, percent-encoding (RFC 3986 §2.1), white space and punctuation do not
//! matter for the resemblance, nor does the place in the certificate.

use openflow::Dpid;
use rustls::pki_types::CertificateDer;
use thiserror::Error;
use webpki::EndEntityCert;

/// What the URI of a datapath begins with.
pub const PREFIX: &str = "rosemary:dpid:";

/// The letters of its parts.
const SCHEME: &[u8] = b"rosemary";
const KIND: &[u8] = b"dpid";
const BOTH: &[u8] = b"rosemarydpid";

/// Characters of a name that an error shows.
const LONGEST: usize = 100;

/// How often a name may be percent-encoded and is still recognised.
const ENCODINGS: usize = 3;

/// The URI that names `dpid` in a certificate.
pub fn uri(dpid: Dpid) -> String {
    format!("{PREFIX}{dpid}")
}

/// Whether the URI `name` could be meant as the name of a datapath, rightly written or not.
///
/// It could if its letters and digits begin with `rosemary` or `dpid`, or contain `rosemarydpid`; or contain
/// `dpid`, unless it is a URL, with `://`.
fn resembles(name: &str) -> bool {
    let letters = letters(name.as_bytes());
    let contains = |what: &[u8]| letters.windows(what.len()).any(|part| part == what);
    let is_url = name.contains("://");
    letters.starts_with(SCHEME)
        || letters.starts_with(KIND)
        || contains(BOTH)
        || !is_url && contains(KIND)
}

/// The datapath that `name` names; `None` if it is not exactly in the form of [`uri`], so that nobody wonders
/// in which base a number is.
fn exactly(name: &str) -> Option<Dpid> {
    name.strip_prefix(PREFIX)?.parse().ok().filter(|dpid| uri(*dpid) == name)
}

fn malformed(name: &str) -> NamesError {
    let shown: String = name.chars().take(LONGEST).collect();
    NamesError::Malformed(format!("the URI {shown:?}"))
}

/// Whether a certificate with `text` in it, other than as the URI of a datapath, is refused.
pub fn is_misleading(text: &str) -> bool {
    occurrences(text.as_bytes()) > 0
}

/// How often bytes have letters and digits like [`PREFIX`].
fn occurrences(bytes: &[u8]) -> usize {
    letters(bytes).windows(BOTH.len()).filter(|part| *part == BOTH).count()
}

/// ASCII letters, in lower case, and digits, without percent-encoding, and nothing else. So text in
/// UTF-16 becomes the same as in UTF-8.
fn letters(bytes: &[u8]) -> Vec<u8> {
    let mut text = bytes.to_vec();
    // A bound: nobody means a name that is encoded more often.
    for _ in 0..ENCODINGS {
        text = percent_decoded(&text);
    }
    text.retain(u8::is_ascii_alphanumeric);
    text.make_ascii_lowercase();
    text
}

fn percent_decoded(mut bytes: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|it| u8::try_from(it).ok());
    let mut decoded = Vec::with_capacity(bytes.len());
    while let Some((first, rest)) = bytes.split_first() {
        let encoded = match (first, rest) {
            (b'%', [high, low, rest @ ..]) => {
                digit(*high).zip(digit(*low)).map(|(high, low)| (high << 4 | low, rest))
            }
            _ => None,
        };
        let (byte, rest) = encoded.unwrap_or((*first, rest));
        decoded.push(byte);
        bytes = rest;
    }
    decoded
}

/// Why what a certificate says about datapaths cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NamesError {
    /// It is not a certificate, which the verification would have said.
    #[error("its certificate cannot be read")]
    Unreadable,
    /// A name resembles that of a datapath and is none: better refused than taken for none.
    #[error(
        "its certificate has {0}, which is not exactly the name of a datapath; that is a URI such as \
         {PREFIX}00:00:00:00:00:00:00:01, in lower case, with 16 digits and a colon behind each pair; make \
         another with `rosemary pki switch NAME --dpid DPID`"
    )]
    Malformed(String),
}

/// The datapaths that a certificate speaks for, in ascending order; all if there are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dpids(Vec<Dpid>);

impl Dpids {
    /// Those of `certificate`, which has been verified.
    ///
    /// # Errors
    /// [`NamesError`]: the caller must close the connection.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Result<Self, NamesError> {
        let der: &[u8] = certificate;
        let certificate =
            EndEntityCert::try_from(certificate).map_err(|_| NamesError::Unreadable)?;
        let mut dpids = Vec::new();
        for name in certificate.valid_uri_names() {
            if resembles(name) {
                dpids.push(exactly(name).ok_or_else(|| malformed(name))?);
            }
        }
        // This also covers names that are not valid UTF-8, and other fields, as the common name.
        if occurrences(der) != dpids.len() {
            let what = "rosemary:dpid in a place where it names no datapath";
            return Err(NamesError::Malformed(what.to_owned()));
        }
        dpids.sort_unstable();
        Ok(Self(dpids))
    }

    /// Whether a switch with this certificate may call itself `dpid`.
    ///
    /// # Errors
    /// The datapaths that it may call itself.
    pub(crate) fn may_claim(&self, dpid: Dpid) -> Result<(), String> {
        if self.0.is_empty() || self.0.contains(&dpid) {
            return Ok(());
        }
        let shown: Vec<String> = self.0.iter().take(4).map(Dpid::to_string).collect();
        let more = if self.0.len() > 4 { ", ..." } else { "" };
        Err(shown.join(", ") + more)
    }
}
