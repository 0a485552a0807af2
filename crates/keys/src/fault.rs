//! Explains to the operator why a TLS connection with a client failed.
//!
//! The client receives an alert from rustls at the same time (RFC 8446 §6).

use std::io;

use control::security::KeyPurpose;
use rustls::{AlertDescription, CertificateError, Error as TlsError};

/// The reason why reading or writing failed: that of the TLS session, or that of the system.
pub fn explain_io(error: &io::Error, purpose: KeyPurpose) -> String {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    tls.map_or_else(|| error.to_string(), |tls| explain(tls, purpose))
}

/// The reason why a TLS connection with a client is closed and, where possible, the remedy, as a phrase about "it".
pub fn explain(error: &TlsError, purpose: KeyPurpose) -> String {
    match error {
        TlsError::NoCertificatesPresented => {
            format!("it showed no certificate; make one with `{}`", command(purpose))
        }
        TlsError::InvalidCertificate(why) => explain_certificate(why, purpose),
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
            let versions = match purpose {
                KeyPurpose::Switches => "1.2 or 1.3",
                KeyPurpose::Users => "1.3",
            };
            format!(
                "it supports no version or cipher of TLS that this controller supports ({versions}): {why:?}"
            )
        }
        error => format!("TLS: {error}"),
    }
}

/// The command that makes a certificate.
fn command(purpose: KeyPurpose) -> &'static str {
    match purpose {
        KeyPurpose::Switches => "rosemary pki switch NAME",
        KeyPurpose::Users => "rosemary pki user NAME --role ROLE",
    }
}

fn explain_certificate(why: &CertificateError, purpose: KeyPurpose) -> String {
    let (authorities, owners, owner) = match purpose {
        KeyPurpose::Switches => ("an authority", "switches", "a switch's"),
        KeyPurpose::Users => ("an authority of users", "clients", "a user's"),
    };
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
            format!("its certificate was not issued by {authorities} that this controller knows")
        }
        CertificateError::BadSignature => {
            "its certificate was not signed by the authority that it names".into()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            format!("its certificate is not meant for {owners} (extended key usage clientAuth)")
        }
        CertificateError::Other(error) if is_authority(error.0.as_ref()) => {
            format!("its certificate is an authority's, not {owner}")
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
