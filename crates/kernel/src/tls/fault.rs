//! Explains to the operator why a TLS connection failed.
//!
//! The switch receives an alert from rustls at the same time (RFC 8446 §6).

use std::io;

use control::security::KeyPurpose;
use keys::datapaths::DatapathNamesError;
use keys::fault::explain;
use rustls::Error as TlsError;
use thiserror::Error;

/// The reason why a TLS connection failed.
#[derive(Debug, Error)]
pub enum Fault {
    /// The switch violated the protocol, or has no valid certificate.
    #[error("{}", explain(.0, KeyPurpose::Switches))]
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
