//! Probes the TLS of the null controller.
#![expect(clippy::unwrap_used, reason = "a test may")]

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ofbench::null::NullController;
use ofbench::tls::{Files, Server, TlsVersion};
use openflow::Version;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::Value;

/// Writes the files of an authority and a controller, as `rosemary pki init` does.
fn write_keys(dir: &Path) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    std::fs::write(dir.join("ca-cert.pem"), authority.pem()).unwrap();
    std::fs::write(dir.join("ca-key.pem"), authority.key().serialize_pem()).unwrap();
    for name in ["controller-", ""] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["any".to_owned()]).unwrap();
        let issued = params.signed_by(&key, &authority).unwrap();
        std::fs::write(dir.join(format!("{name}cert.pem")), issued.pem()).unwrap();
        std::fs::write(dir.join(format!("{name}key.pem")), key.serialize_pem()).unwrap();
    }
}

/// Passes the address of a null controller over TLS to `with`.
fn with_null(dir: &Path, version: Option<TlsVersion>, with: impl FnOnce(&str)) {
    let server = Server::load(&Files::of_controller(dir), version, None).unwrap();
    let listen = "127.0.0.1:0".parse().unwrap();
    let null = NullController::bind_with(listen, Version::ALL, Some(server)).unwrap();
    let address = null.address().unwrap().to_string();
    let stop = Arc::new(AtomicBool::new(false));
    let its = stop.clone();
    let thread = thread::spawn(move || null.run(&its));
    with(&address);
    stop.store(true, Ordering::Relaxed);
    thread.join().unwrap().unwrap();
}

fn json(words: &[&str]) -> Value {
    let output = Command::new(env!("CARGO_BIN_EXE_ofbench")).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the verdict on a cell.
fn verdict<'a>(result: &'a Value, list: &str, with: &str, name: &str) -> &'a str {
    let cells = result[list].as_array().unwrap();
    let cell = cells.iter().find(|cell| cell["with"] == with && cell["name"] == name);
    cell.unwrap_or_else(|| panic!("{with} {name}: {result:#}"))["verdict"].as_str().unwrap()
}

#[test]
fn matrix_shows_what_a_controller_accepts() {
    let dir = tempfile::tempdir().unwrap();
    write_keys(dir.path());
    let keys = dir.path().to_str().unwrap();
    with_null(dir.path(), None, |address| {
        let result = json(&["tls-matrix", address, "--pki", keys, "--seconds", "0.2", "--json"]);
        let ecdsa = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
        assert_eq!(verdict(&result, "suites", "TLS 1.3", "TLS_AES_128_GCM_SHA256"), "accepted");
        assert_eq!(verdict(&result, "suites", "TLS 1.2", ecdsa), "accepted");
        assert_eq!(verdict(&result, "suites", "TLS 1.2", "TLS_RSA_WITH_RC4_128_SHA"), "refused");
        let old = "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA";
        assert_eq!(verdict(&result, "suites", "TLS 1.0", old), "refused");
        for version in ["TLS 1.2", "TLS 1.3"] {
            for (kind, expected) in [
                ("ECDSA P-256", "accepted"),
                ("ECDSA P-384", "accepted"),
                ("RSA 2048", "accepted"),
                ("Ed25519", "accepted"),
                ("expired", "refused"),
                ("of another authority", "refused"),
                ("self-signed", "refused"),
                ("none", "refused"),
            ] {
                assert_eq!(verdict(&result, "certificates", version, kind), expected, "{kind}");
            }
        }
        let rates = result["rates"].as_array().unwrap();
        let rate = |handshake: &str| {
            rates.iter().filter(|it| it["handshake"] == handshake).collect::<Vec<_>>()
        };
        assert!(
            rate("whole").iter().all(|it| it["per_second"].as_f64().unwrap() > 1.0),
            "{rates:?}"
        );
        // The null controller does not resume, so there must be no rate.
        assert!(rate("resumed").iter().all(|it| it["per_second"].is_null()), "{rates:?}");
        assert_eq!(result["echoes"].as_array().unwrap().len(), 5, "{result:#}");
        let records = result["records"].as_array().unwrap();
        assert!(records.iter().any(|it| it["aes_instructions"] == false), "{records:?}");
    });
}

#[test]
fn version_of_the_null_controller_can_be_restricted() {
    let dir = tempfile::tempdir().unwrap();
    write_keys(dir.path());
    with_null(dir.path(), Some(TlsVersion::Tls13), |address| {
        let result = json(&["tls-matrix", address, "--json"]);
        let ecdsa = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
        assert_eq!(verdict(&result, "suites", "TLS 1.2", ecdsa), "refused");
        assert_eq!(verdict(&result, "suites", "TLS 1.3", "TLS_AES_256_GCM_SHA384"), "accepted");
        // Loads on it work as on any controller.
        let dir = dir.path().to_str().unwrap();
        let words =
            ["latency", address, "--tls-dir", dir, "--macs", "20", "--seconds", "0.1", "--json"];
        assert!(json(&words)["answered"].as_u64().unwrap() > 0);
    });
}

#[test]
fn peer_without_tls_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ofbench"));
    let output = command.args(["tls-matrix", &address]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot connect"));
}
