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

use openflow::Dpid;
use rustls::pki_types::CertificateDer;
use thiserror::Error;
use webpki::EndEntityCert;

/// What the URI of a datapath begins with.
pub const PREFIX: &str = "rosemary:dpid:";

/// The URI that names `dpid` in a certificate.
pub fn uri(dpid: Dpid) -> String {
    format!("{PREFIX}{dpid}")
}

/// Why what a certificate says about datapaths cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NamesError {
    /// It is not a certificate, which the verification would have said.
    #[error("its certificate cannot be read")]
    Unreadable,
    /// A URI of ours names no datapath: better refused than taken for none.
    #[error("its certificate has a name that begins with {PREFIX} and is no datapath-id")]
    Malformed,
}

/// The datapaths that a certificate speaks for, in ascending order; all if there are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dpids(Vec<Dpid>);

impl Dpids {
    /// Those of `certificate`, which has been verified.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Result<Self, NamesError> {
        let certificate =
            EndEntityCert::try_from(certificate).map_err(|_| NamesError::Unreadable)?;
        let mut dpids = Vec::new();
        for uri in certificate.valid_uri_names() {
            if let Some(dpid) = uri.strip_prefix(PREFIX) {
                // One form, so that nobody wonders in which base another one is.
                let named = dpid.parse::<Dpid>().ok().filter(|it| it.to_string() == dpid);
                dpids.push(named.ok_or(NamesError::Malformed)?);
            }
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
