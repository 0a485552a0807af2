//! Tests the TLS files, and full handshakes with a server that requests a client certificate.
#![expect(clippy::unwrap_used, reason = "a test may")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ofbench::connection::{Connection, ReadResult};
use ofbench::tls::{Files, Tls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

/// A CA that issues certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn issue(&self, name: &str) -> (String, KeyPair, CertificateDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let issued = params.signed_by(&key, &self.0).unwrap();
        (issued.pem(), key, issued.der().clone())
    }

    /// Writes a switch's files.
    fn write(&self, dir: &Path) {
        let (certificate, key, _) = self.issue("switch");
        std::fs::write(dir.join("ca-cert.pem"), self.0.pem()).unwrap();
        std::fs::write(dir.join("cert.pem"), certificate).unwrap();
        std::fs::write(dir.join("key.pem"), key.serialize_pem()).unwrap();
    }
}

/// Starts a server that echoes one byte string over TLS; returns its address.
fn server(authority: &Authority, own: &Authority) -> std::net::SocketAddr {
    let mut roots = RootCertStore::empty();
    roots.add(authority.0.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .unwrap();
    let (_, key, certificate) = own.issue("anything.example");
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let (listener, config) = (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::new(config));
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let session = ServerConnection::new(config).unwrap();
        let mut stream = StreamOwned::new(session, socket);
        let mut bytes = [0; 5];
        if stream.read_exact(&mut bytes).is_ok() {
            stream.write_all(&bytes).unwrap();
            stream.flush().unwrap();
        }
    });
    address
}

/// Sends `hello` and returns the reply.
fn talk(address: std::net::SocketAddr, tls: &Tls) -> std::io::Result<Vec<u8>> {
    let mut connection = Connection::open(address, Some(tls))?;
    let mut buffer = vec![0; 256 * 1024];
    connection.out().extend_from_slice(b"hello");
    for _ in 0..2000 {
        thread::sleep(Duration::from_millis(5));
        // Read before writing, like the workers, so that no alert is lost.
        if let ReadResult::Bytes(size) = connection.read(&mut buffer)? {
            return Ok(buffer[..size].to_vec());
        }
        connection.flush()?;
    }
    panic!("the server did not answer");
}

#[test]
fn both_sides_present_certificates_of_any_name() {
    let authority = Authority::new();
    let dir = tempfile::tempdir().unwrap();
    authority.write(dir.path());
    let tls = Tls::load(&Files::in_dir(dir.path())).unwrap();
    assert_eq!(talk(server(&authority, &authority), &tls).unwrap(), b"hello");
}

#[test]
fn controller_of_another_ca_is_rejected() {
    let authority = Authority::new();
    let dir = tempfile::tempdir().unwrap();
    authority.write(dir.path());
    let tls = Tls::load(&Files::in_dir(dir.path())).unwrap();
    let error = talk(server(&authority, &Authority::new()), &tls).unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
}

#[test]
fn invalid_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let files = Files::in_dir(dir.path());
    let why = |files: &Files| Tls::load(files).unwrap_err().to_string();
    assert!(why(&files).contains("ca-cert.pem"));
    Authority::new().write(dir.path());
    assert!(Tls::load(&files).is_ok());
    std::fs::write(&files.key, "no key").unwrap();
    assert!(why(&files).contains("key.pem"), "{}", why(&files));
    std::fs::write(&files.cert, "").unwrap();
    assert!(why(&files).contains("cert.pem"), "{}", why(&files));
}
