//! Explains to the operator why a TLS connection failed.
//!
//! The switch receives an alert from rustls at the same time (RFC 8446 §6).

use std::io;

use keys::datapaths::DatapathNamesError;
use rustls::{AlertDescription, CertificateError, Error as TlsError};
use thiserror::Error;

/// The reason why a TLS connection failed.
#[derive(Debug, Error)]
pub enum Fault {
    /// The switch violated the protocol, or has no valid certificate.
    #[error("{}", explain(.0))]
    Tls(TlsError),
    /// It closed the connection during the handshake.
    #[error("it closed the connection during the TLS handshake")]
    Interrupted,
    /// Its handshake is longer than any valid one.
    #[error("its TLS handshake was longer than {0} bytes")]
    TooLong(usize),
    /// The handshake is complete without a certificate, which rustls does not allow.
    #[error("it showed no certificate")]
    Nameless,
    /// Its certificate has an invalid name of a datapath.
    #[error(transparent)]
    Names(DatapathNamesError),
    /// The socket failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// A reason why a TLS connection is closed and, where possible, the remedy.
fn explain(error: &TlsError) -> String {
    match error {
        TlsError::NoCertificatesPresented => {
            "it showed no certificate; make one with `rosemary pki switch NAME`".into()
        }
        TlsError::InvalidCertificate(why) => explain_certificate(why),
        TlsError::AlertReceived(alert) => match alert {
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::UnsupportedCertificate => format!(
                "it does not accept this controller's certificate (alert {alert:?}); does its CA \
                 file hold the authority that issued the controller's?"
            ),
            alert => format!("it ended the TLS connection with the alert {alert:?}"),
        },
        TlsError::InvalidMessage(_)
        | TlsError::DecryptError
        | TlsError::PeerSentOversizedRecord
        | TlsError::InappropriateMessage { .. }
        | TlsError::InappropriateHandshakeMessage { .. }
        | TlsError::PeerMisbehaved(_) => {
            format!("it sent invalid TLS: {error}")
        }
        TlsError::PeerIncompatible(why) => {
            format!(
                "it supports no version or cipher of TLS that this controller supports (1.2 or 1.3): {why:?}"
            )
        }
        error => format!("TLS: {error}"),
    }
}

fn explain_certificate(why: &CertificateError) -> String {
    match why {
        CertificateError::ExpiredContext { time, not_after } => {
            let ago = time.as_secs().saturating_sub(not_after.as_secs());
            format!("its certificate expired {} ago", span(ago))
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            let to_come = not_before.as_secs().saturating_sub(time.as_secs());
            format!(
                "its certificate is not valid before {} from now; is the clock of this machine \
                 right?",
                span(to_come)
            )
        }
        CertificateError::UnknownIssuer => {
            "its certificate was not issued by an authority that this controller knows".into()
        }
        CertificateError::BadSignature => {
            "its certificate was not signed by the authority that it names".into()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its certificate is not meant for switches (extended key usage clientAuth)".into()
        }
        CertificateError::Other(error) if is_authority(error.0.as_ref()) => {
            "its certificate is an authority's, not a switch's".into()
        }
        why => format!("its certificate is not accepted: {why}"),
    }
}

fn is_authority(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}
