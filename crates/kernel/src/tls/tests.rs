//! Tests TLS with switches in memory, which use rustls's client.

use std::io::{Cursor, Read as _};
use std::time::{Duration, SystemTime};

use keys::datapaths;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, DnValue, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA512,
    PKCS_ED25519, PKCS_RSA_SHA256, SanType,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};

use super::*;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// The certificate that a switch presents.
struct Presented {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

fn params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

fn named(uris: &[&str]) -> CertificateParams {
    let mut params = params();
    params.subject_alt_names =
        uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap())).collect();
    params
}

fn issued(authority: &Authority, params: &CertificateParams) -> Presented {
    issued_for(&KeyPair::generate().unwrap(), authority, params)
}

fn issued_for(key: &KeyPair, authority: &Authority, params: &CertificateParams) -> Presented {
    let certificate = params.signed_by(key, authority).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    Presented { chain: vec![certificate.der().clone()], key }
}

fn server(authority: &Authority) -> Server {
    server_with(&KeyPair::generate().unwrap(), authority)
}

fn server_with(key: &KeyPair, authority: &Authority) -> Server {
    let mut params = CertificateParams::default();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let keys = Keys {
        certificate: params.signed_by(key, authority).unwrap().pem().into_bytes(),
        key: key.serialize_pem().into_bytes().into(),
        authorities: authority.pem().into_bytes(),
    };
    Server::new(&keys).unwrap()
}

/// A switch that accepts any controller: these tests are about the other direction.
#[derive(Debug)]
struct AcceptsAnyCertificate;

impl ServerCertVerifier for AcceptsAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

static BOTH: [&rustls::SupportedProtocolVersion; 2] =
    [&rustls::version::TLS12, &rustls::version::TLS13];

fn client(
    shown: Option<Presented>,
    version: &'static rustls::SupportedProtocolVersion,
) -> ClientConnection {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptsAnyCertificate));
    let config = match shown {
        Some(Presented { chain, key }) => config.with_client_auth_cert(chain, key).unwrap(),
        None => config.with_no_client_auth(),
    };
    ClientConnection::new(Arc::new(config), "controller".try_into().unwrap()).unwrap()
}

/// Passes bytes to the session, in pieces of at most `piece` bytes, and collects the plaintext.
fn take(session: &mut Session, bytes: &[u8], piece: usize) -> Result<Vec<u8>, Fault> {
    let (mut scratch, mut plain) = (vec![0; piece], vec![0; 64 * 1024]);
    let mut socket = Cursor::new(bytes);
    let mut all = Vec::new();
    while socket.position() < bytes.len() as u64 {
        match session.take_in(&mut socket, &mut scratch, &mut plain, usize::MAX)? {
            Taken::Plaintext { size, .. } => all.extend_from_slice(&plain[..size]),
            Taken::Nothing | Taken::End => break,
        }
    }
    Ok(all)
}

/// Exchanges bytes until neither side has more to send. `Err` is the controller's reason for closing.
fn exchange(
    session: &mut Session,
    client: &mut ClientConnection,
    piece: usize,
) -> Result<Vec<u8>, String> {
    let mut all = Vec::new();
    loop {
        let mut up = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut up).unwrap();
        }
        let taken = take(session, &up, piece);
        let mut down = Vec::new();
        session.send(&mut down, &[], &mut 0).unwrap();
        client.read_tls(&mut down.as_slice()).unwrap();
        let received = client.process_new_packets();
        match taken {
            Ok(bytes) => all.extend(bytes),
            Err(fault) => {
                let received = received.map(|_| ()).unwrap_err();
                assert!(
                    matches!(received, rustls::Error::AlertReceived(_)),
                    "no alert: {received:?}"
                );
                return Err(fault.to_string());
            }
        }
        if up.is_empty() && down.is_empty() {
            return Ok(all);
        }
    }
}

/// Returns the controller's reason to refuse a switch with this certificate, the same in both versions of TLS.
fn refusal(authority: &Authority, shown: impl Fn() -> Option<Presented>) -> String {
    let [one, other] = BOTH.map(|version| {
        let mut session = server(authority).session().unwrap();
        exchange(&mut session, &mut client(shown(), version), 4096).unwrap_err()
    });
    assert_eq!(one, other);
    one
}

#[test]
fn both_sides_receive_all_bytes_in_pieces_of_any_size() {
    let authority = authority("ours");
    for (version, name) in BOTH.into_iter().zip(["tls 1.2", "tls 1.3"]) {
        for piece in [1, 7, 4096, 32 * 1024] {
            let mut session = server(&authority).session().unwrap();
            let mut client = client(Some(issued(&authority, &params())), version);
            assert!(session.is_handshaking());
            assert_eq!(exchange(&mut session, &mut client, piece).unwrap(), [0; 0]);
            assert!(!session.is_handshaking());
            assert_eq!(session.version(), name);

            let sent_bytes: Vec<u8> = (0..100_000_u32).map(|at| at.to_be_bytes()[3]).collect();
            let mut received = Vec::new();
            for part in sent_bytes.chunks(10_000) {
                io::Write::write_all(&mut client.writer(), part).unwrap();
                received.extend(exchange(&mut session, &mut client, piece).unwrap());
            }
            assert!(received == sent_bytes, "from the switch");

            let (mut wire, mut sent) = (Vec::new(), 0);
            assert!(session.send(&mut wire, &sent_bytes, &mut sent).unwrap());
            assert_eq!(sent, sent_bytes.len());
            let (mut wire, mut received) = (wire.as_slice(), Vec::new());
            while !wire.is_empty() {
                client.read_tls(&mut wire).unwrap();
                client.process_new_packets().unwrap();
                let _ = client.reader().read_to_end(&mut received); // until it would block
            }
            assert!(received == sent_bytes, "from the controller");
        }
    }
}

#[test]
fn usual_kinds_of_keys_are_accepted() {
    let authority = authority("ours");
    for kind in [
        &PKCS_ECDSA_P256_SHA256,
        &PKCS_ECDSA_P384_SHA384,
        &PKCS_ECDSA_P521_SHA512,
        &PKCS_ED25519,
        &PKCS_RSA_SHA256,
    ] {
        for version in BOTH {
            let [ours, theirs] = [(); 2].map(|()| KeyPair::generate_for(kind).unwrap());
            let mut session = server_with(&ours, &authority).session().unwrap();
            let mut client = client(Some(issued_for(&theirs, &authority, &params())), version);
            assert_eq!(exchange(&mut session, &mut client, 4096).unwrap(), [0; 0], "{kind:?}");
            assert!(!session.is_handshaking(), "{kind:?}");
        }
    }
}

#[test]
fn unfinished_record_is_tracked_in_pieces_of_any_size() {
    let record = |size: u16| {
        let mut record = vec![23, 3, 3, 0, 0];
        record[3..].copy_from_slice(&size.to_be_bytes());
        record.extend(vec![7; size.into()]);
        record
    };
    let sizes = [1, 0, 5, 300, 0, 0, 16_640, 2];
    let ends: Vec<usize> = sizes
        .iter()
        .scan(0, |end, size| {
            *end += 5 + usize::from(*size);
            Some(*end)
        })
        .collect();
    let all: Vec<u8> = sizes.into_iter().flat_map(record).collect();
    for piece in [1, 2, 5, 7, 305, 4096, all.len()] {
        let (mut unfinished, mut at) = (Unfinished::default(), 0);
        for part in all.chunks(piece) {
            unfinished.pass(part);
            at += part.len();
            let begin = ends.iter().rev().find(|end| **end <= at).unwrap_or(&0);
            assert_eq!(unfinished.come, at - begin, "{piece}");
        }
    }
}

#[test]
fn read_size_stays_within_the_limit() {
    let authority = authority("ours");
    let mut session = server(&authority).session().unwrap();
    let mut client = client(Some(issued(&authority, &params())), &rustls::version::TLS13);
    exchange(&mut session, &mut client, 4096).unwrap();
    let mut wire = Vec::new();
    for _ in 0..4 {
        io::Write::write_all(&mut client.writer(), &[9; 16_384]).unwrap();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
    }
    let (mut scratch, mut plain) = (vec![0; 64 * 1024], vec![0; 128 * 1024]);
    let (mut socket, mut all) = (Cursor::new(&wire), 0);
    while socket.position() < wire.len() as u64 {
        let most = 20_000;
        let taken = session.take_in(&mut socket, &mut scratch, &mut plain, most).unwrap();
        let Taken::Plaintext { size, .. } = taken else { panic!("{taken:?}") };
        assert!(size <= most, "{size}");
        all += size;
    }
    assert_eq!(all, 4 * 16_384);
}

#[test]
fn plaintext_waits_for_a_verified_certificate() {
    let mut session = server(&authority("ours")).session().unwrap();
    let (mut wire, mut sent) = (Vec::new(), 0);
    assert!(session.send(&mut wire, b"secret", &mut sent).unwrap());
    assert_eq!((wire.len(), sent), (0, 0));
}

/// A socket that accepts some bytes and then would block.
struct Narrow(Vec<u8>, usize);

impl io::Write for Narrow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let size = bytes.len().min(self.1);
        if size == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.0.extend_from_slice(&bytes[..size]);
        self.1 -= size;
        Ok(size)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn unread_output_stays_plaintext_and_is_not_lost() {
    let authority = authority("ours");
    let mut session = server(&authority).session().unwrap();
    let mut client = client(Some(issued(&authority, &params())), BOTH[1]);
    exchange(&mut session, &mut client, 4096).unwrap();
    let sent_bytes = vec![7; 1 << 20];
    let (mut socket, mut sent) = (Narrow(Vec::new(), 0), 0);
    assert!(!session.send(&mut socket, &sent_bytes, &mut sent).unwrap());
    assert!(sent <= MAX_UNSENT, "no more was encrypted than may wait: {sent}");
    let mut received = Vec::new();
    while received.len() < sent_bytes.len() {
        socket.1 = 10_000;
        let _ = session.send(&mut socket, &sent_bytes, &mut sent).unwrap();
        let wire = std::mem::take(&mut socket.0);
        let mut wire = wire.as_slice();
        while !wire.is_empty() {
            client.read_tls(&mut wire).unwrap();
            client.process_new_packets().unwrap();
            let _ = client.reader().read_to_end(&mut received); // until it would block
        }
    }
    assert!(received == sent_bytes);
}

#[test]
fn switch_without_a_certificate_is_refused() {
    let error = refusal(&authority("ours"), || None);
    assert!(error.starts_with("it showed no certificate"), "{error}");
}

#[test]
fn certificate_of_another_authority_with_our_name_is_refused() {
    let ours = authority("ours");
    for name in ["ours", "theirs"] {
        let theirs = authority(name);
        let error = refusal(&ours, || Some(issued(&theirs, &params())));
        assert!(error.contains("authority"), "{name}: {error}");
    }
}

#[test]
fn certificate_outside_its_validity_is_refused() {
    let ours = authority("ours");
    let day = Duration::from_secs(24 * 3600);
    let mut past = params();
    past.not_after = (SystemTime::now() - 3 * day).into();
    let error = refusal(&ours, || Some(issued(&ours, &past)));
    assert_eq!(error, "its certificate expired 3 days ago");
    let mut future = params();
    // Not whole hours: a second can begin between the handshakes that are compared.
    future.not_before = (SystemTime::now() + day * 3 / 2 + day / 48).into();
    let error = refusal(&ours, || Some(issued(&ours, &future)));
    assert!(error.starts_with("its certificate is not valid before 36 h"), "{error}");
}

#[test]
fn certificate_for_another_purpose_is_refused() {
    let ours = authority("ours");
    let mut controllers = params();
    controllers.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let error = refusal(&ours, || Some(issued(&ours, &controllers)));
    assert!(error.contains("not meant for switches"), "{error}");
    let mut authoritys = params();
    authoritys.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let error = refusal(&ours, || Some(issued(&ours, &authoritys)));
    assert!(error.contains("authority's"), "{error}");
}

#[test]
fn certificate_without_a_purpose_is_accepted() {
    let ours = authority("ours");
    let mut session = server(&ours).session().unwrap();
    let shown = issued(&ours, &CertificateParams::default());
    exchange(&mut session, &mut client(Some(shown), BOTH[1]), 4096).unwrap();
    assert_eq!(session.may_claim(Dpid(1)), Ok(()));
}

#[test]
fn certificate_binds_the_switch_to_its_datapaths() {
    let ours = authority("ours");
    let mut session = server(&ours).session().unwrap();
    let shown =
        issued(&ours, &named(&[&datapaths::uri(Dpid(7)), "https://x", &datapaths::uri(Dpid(2))]));
    exchange(&mut session, &mut client(Some(shown), BOTH[0]), 4096).unwrap();
    assert_eq!(session.may_claim(Dpid(2)), Ok(()));
    assert_eq!(session.may_claim(Dpid(7)), Ok(()));
    let named = "00:00:00:00:00:00:00:02, 00:00:00:00:00:00:00:07";
    assert_eq!(session.may_claim(Dpid(1)), Err(named.to_owned()));
}

#[test]
fn invalid_datapath_name_is_refused() {
    let ours = authority("ours");
    for name in [
        "rosemary:dpid:",
        "rosemary:dpid:1",
        "rosemary:dpid:00:00:00:00:00:00:00:0g",
        "rosemary:dpid:00:00:00:00:00:00:00:0A",
        "rosemary:dpid:00:00:00:00:00:00:00:00:01",
        "rosemary:dpid:0000000000000001",
        "rosemary:dpid:00:00:00:00:00:00:00:01 ",
        " rosemary:dpid:00:00:00:00:00:00:00:01",
        "ROSEMARY:DPID:00:00:00:00:00:00:00:01",
        "Rosemary:dpid:00:00:00:00:00:00:00:01",
        "rosemary:DPID:00:00:00:00:00:00:00:01",
        "rosemary:%64pid:00:00:00:00:00:00:00:01",
        "rosemary%3Adpid%3A00:00:00:00:00:00:00:01",
        "%2572osemary:dpid:00:00:00:00:00:00:00:01",
        "rosemary:\tdpid:00:00:00:00:00:00:00:01",
        "rosemary://dpid:00:00:00:00:00:00:00:01",
        "rosemary:rosemary:dpid:00:00:00:00:00:00:00:01",
        "uri:rosemary:dpid:00:00:00:00:00:00:00:01",
        "https://rosemary:dpid:00:00:00:00:00:00:00:01",
        "rosemary:00:00:00:00:00:00:00:01",
        "dpid:00:00:00:00:00:00:00:01",
        "urn:dpid:1",
    ] {
        // Beside a valid name: the invalid one must not be ignored.
        for names in [&[name][..], &[&datapaths::uri(Dpid(7)), name]] {
            let certificate = issued(&ours, &named(names)).chain.remove(0);
            let error = CertifiedDatapaths::of(&certificate).expect_err(name).to_string();
            assert!(error.contains("rosemary:dpid:00:00:00:00:00:00:00:01,"), "{error}");
            assert!(error.contains("rosemary pki switch"), "{error}");
        }
    }
}

#[test]
fn datapath_name_in_another_field_is_refused() {
    let ours = authority("ours");
    let name = "rosemary:dpid:00:00:00:00:00:00:00:01";
    let ia5 = |name: &str| name.try_into().unwrap();
    let mut places: Vec<CertificateParams> = ["", "ROSEMARY:DPID:1"].map(|_| params()).into();
    places[0].distinguished_name.push(DnType::CommonName, name);
    let utf_16 = rcgen::string::BmpString::try_from("ROSEMARY:DPID:1").unwrap();
    places[1].distinguished_name.push(DnType::CommonName, DnValue::BmpString(utf_16));
    for san in [
        SanType::DnsName(ia5("rosemary.dpid.1")),
        SanType::Rfc822Name(ia5("rosemary@dpid.example")),
    ] {
        let mut params = params();
        params.subject_alt_names = vec![san];
        places.push(params);
    }
    for params in places {
        let certificate = issued(&ours, &params).chain.remove(0);
        assert!(CertifiedDatapaths::of(&certificate).is_err(), "{params:?}");
    }
}

#[test]
fn foreign_names_are_ignored() {
    let ours = authority("ours");
    for name in ["https://example.org/dpid/1", "urn:uuid:1", "spiffe://rosemary/switch"] {
        let certificate = issued(&ours, &named(&[name])).chain.remove(0);
        assert!(CertifiedDatapaths::of(&certificate).is_ok(), "{name}");
    }
}

#[test]
fn garbage_in_a_handshake_is_a_fault() {
    let ours = authority("ours");
    let mut hello = Vec::new();
    client(None, BOTH[1]).write_tls(&mut hello).unwrap();
    for beginning in [0, 1, 5, 50, hello.len()] {
        let mut session = server(&ours).session().unwrap();
        let bytes = [&hello[..beginning], &vec![0x16; 40_000]].concat();
        let error = take(&mut session, &bytes, 4096).unwrap_err().to_string();
        assert!(error.contains("it sent invalid TLS"), "{beginning}: {error}");
    }
}

#[test]
fn too_long_handshake_is_cut_off() {
    let ours = authority("ours");
    let mut session = server(&ours).session().unwrap();
    // A ClientHello that announces 60,000 bytes, in records of 16 KiB.
    let mut bytes = vec![0x16, 3, 1, 0x40, 0, 1, 0, 0xea, 0x60];
    bytes.resize(5 + 0x4000, 0);
    for _ in 0..2 {
        bytes.extend([0x16, 3, 1, 0x40, 0]);
        bytes.resize(bytes.len() + 0x4000, 0);
    }
    let error = take(&mut session, &bytes, 4096).unwrap_err();
    assert!(matches!(error, Fault::TooLong(_)), "{error}");
}

#[test]
fn end_during_the_handshake_is_a_fault() {
    let ours = authority("ours");
    let (mut scratch, mut plain) = (vec![0; 4096], vec![0; 64 * 1024]);
    let mut session = server(&ours).session().unwrap();
    let nothing: &mut &[u8] = &mut &[][..];
    assert!(matches!(
        session.take_in(nothing, &mut scratch, &mut plain, 1),
        Err(Fault::Interrupted)
    ));

    let mut client = client(Some(issued(&ours, &params())), BOTH[1]);
    exchange(&mut session, &mut client, 4096).unwrap();
    client.send_close_notify();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    let taken =
        session.take_in(&mut bytes.as_slice(), &mut scratch, &mut plain, usize::MAX).unwrap();
    assert_eq!(taken, Taken::End);
}
