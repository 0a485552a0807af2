//! Runs TLS 1.3 with clients on other machines, by rustls.
//!
//! A client may show a certificate that the users' authority has issued. rustls verifies that, and refuses the connection otherwise.
//! [`keys::users`] reads the user and the role in it. A client without a certificate shows a token. Sessions are never resumed, so every
//! connection is verified at the time when it is made; a request over it counts only while the certificate has neither expired nor been
//! revoked.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use control::northbound::RevokedUser;
use control::security::KeyPurpose;
use keys::fault::explain_io;
use keys::users::{CertifiedUser, UserNameError};
use keys::{Keys, KeysError};
use sha2::{Digest as _, Sha256};
use sys::text::hex;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tracing::info;

use crate::accept::{Connections, Impatient, Kind, Slot, accept, serve_one};
use crate::auth::{How, Principal};
use crate::guard::From;
use crate::limits::{self, Payer};
use crate::problem::Problem;
use crate::state::{Api, lock};

/// Bytes of a certificate's hash that audit records show.
const SHOWN: usize = 8;

/// The server side of TLS.
#[derive(Clone)]
pub(crate) struct Tls(TlsAcceptor);

impl Tls {
    /// Presents the certificate of `keys`, and accepts the certificates of users that its authorities have issued.
    ///
    /// # Errors
    /// The keys cannot be used.
    pub(crate) fn new(keys: &Keys) -> Result<Self, KeysError> {
        Ok(Self(TlsAcceptor::from(Arc::new(keys.server_config(KeyPurpose::Users)?))))
    }
}

/// The certificate that a client has shown.
#[derive(Debug)]
pub(crate) struct Certificate {
    user: Result<CertifiedUser, UserNameError>,
    /// The beginning of its SHA-256, which tells certificates of one user apart.
    id: String,
}

impl Certificate {
    /// Who the client is at `now`.
    ///
    /// # Errors
    /// The certificate names nobody, was revoked, or has expired since the connection was made.
    pub(crate) fn principal(
        &self,
        revoked: &[RevokedUser],
        now: SystemTime,
    ) -> Result<Principal, Problem> {
        let refused = |why: String| {
            Problem::unauthorized(
                why,
                "make another with `rosemary pki user NAME --role ROLE`, or show a token and no certificate",
            )
        };
        let user = self.user.as_ref().map_err(|error| refused(error.to_string()))?;
        if !user.is_valid_at(now) {
            return Err(refused(format!("the certificate of {} has expired", user.name)));
        }
        if revoked.iter().any(|revoked| user.is_revoked_by(revoked)) {
            return Err(refused(format!("the certificate of {} was revoked", user.name)));
        }
        Ok(Principal {
            who: format!("certificate {} ({})", user.name, self.id),
            role: Some(user.role),
            how: How::Certificate,
            session: None,
            expires: user.not_after,
        })
    }
}

/// Serves a TCP listener over TLS for ever.
pub(crate) async fn serve_tls(
    api: Arc<Api>,
    listener: TcpListener,
    all: Arc<Connections>,
    tls: Tls,
) {
    let kind = |client: SocketAddr, _| Kind::Tls(limits::source(client.ip()));
    loop {
        let Some((stream, client, slot)) = accept(&listener, &all, kind).await else { continue };
        tokio::spawn(handshake(api.clone(), tls.clone(), stream, client, slot));
    }
}

/// Makes the TLS session of a connection, and serves it.
async fn handshake(api: Arc<Api>, tls: Tls, stream: TcpStream, client: SocketAddr, slot: Slot) {
    let payer = Payer::Source(limits::source(client.ip()));
    if lock(&api.rates).admit(payer, std::time::Instant::now()).is_err() {
        return; // a handshake costs more than a request
    }
    let stream = Impatient::new(stream, slot).reading_at_most(limits::HANDSHAKE_SIZE);
    let made = tokio::time::timeout(limits::HEAD_TIME, tls.0.accept(stream)).await;
    let mut stream = match made {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            let why = explain_io(&error, KeyPurpose::Users);
            return refused(&api, client, &why);
        }
        Err(_) => return refused(&api, client, "it did not complete the TLS handshake in time"),
    };
    let (socket, session) = stream.get_mut();
    socket.read_freely();
    let shown = session.peer_certificates().and_then(<[_]>::first);
    let certificate = shown.map(|shown| {
        let hash = Sha256::digest(shown);
        let id = hex(hash.get(..SHOWN).unwrap_or_default());
        Arc::new(Certificate { user: CertifiedUser::of(shown), id })
    });
    serve_one(api, From::Tls { client, certificate }, stream).await;
}

/// Counts a refused connection as a failed authentication, and logs why it was refused, some times per second.
fn refused(api: &Api, client: SocketAddr, why: &str) {
    let now = std::time::Instant::now();
    lock(&api.rates).failed(Payer::Source(limits::source(client.ip())), now);
    if lock(&api.refusals).admit(now) {
        info!(%client, why, "TLS connection to the HTTP interface refused");
    }
}

/// Bounds the lines about refused connections.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    since: Option<std::time::Instant>,
    count: u32,
}

impl Refusals {
    /// The most lines per second.
    const MOST: u32 = 10;

    /// Whether another line may be logged.
    fn admit(&mut self, now: std::time::Instant) -> bool {
        let is_new = self.since.is_none_or(|since| now - since >= Duration::from_secs(1));
        if is_new {
            (self.since, self.count) = (Some(now), 0);
        }
        self.count += 1;
        self.count <= Self::MOST
    }
}

#[cfg(test)]
mod tests {
    use control::northbound::Role;

    use super::*;

    #[test]
    fn expired_revoked_and_nameless_certificates_are_nobody() {
        let now = SystemTime::now();
        let name = "alice".to_owned();
        let user = CertifiedUser {
            name: name.clone(),
            role: Role::Operator,
            not_before: SystemTime::UNIX_EPOCH,
            not_after: Some(now),
        };
        let certificate = Certificate { user: Ok(user), id: "0123".into() };
        let principal = certificate.principal(&[], now).unwrap();
        assert_eq!(principal.who, "certificate alice (0123)");
        assert_eq!((principal.role, principal.how), (Some(Role::Operator), How::Certificate));
        let later = now + Duration::from_secs(1);
        assert_eq!(certificate.principal(&[], later).unwrap_err().status(), 401);
        let others = RevokedUser { name: "bob".into(), before: u64::MAX };
        certificate.principal(std::slice::from_ref(&others), now).unwrap();
        let revoked = [others, RevokedUser { name, before: 1 }];
        assert_eq!(certificate.principal(&revoked, now).unwrap_err().status(), 401);
        let nobody = Certificate { user: Err(UserNameError::Nobody), id: String::new() };
        assert_eq!(nobody.principal(&[], now).unwrap_err().status(), 401);
    }

    #[test]
    fn refusals_are_logged_ten_times_per_second() {
        let (mut refusals, now) = (Refusals::default(), std::time::Instant::now());
        assert_eq!((0..100).filter(|_| refusals.admit(now)).count(), 10);
        assert!(refusals.admit(now + Duration::from_secs(1)));
    }
}
