//! Tests of [`Keys`] with generated certificates.

use openflow::Dpid;
use rcgen::{CertificateParams, KeyPair};

use super::*;
use crate::datapaths::{CONTROLLER, CertifiedDatapaths, DatapathNamesError};

/// Keys whose authority is the certificate itself.
fn keys() -> Keys {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::default().self_signed(&key).unwrap().pem();
    Keys {
        certificate: certificate.clone().into_bytes(),
        key: key.serialize_pem().into_bytes().into(),
        authorities: certificate.into_bytes(),
    }
}

fn with(file: KeyFile, bytes: &[u8]) -> Keys {
    let mut keys = keys();
    match file {
        KeyFile::Certificate => keys.certificate = bytes.to_vec(),
        KeyFile::Key => keys.key = bytes.to_vec().into(),
        KeyFile::Authorities => keys.authorities = bytes.to_vec(),
    }
    keys
}

const FILES: [KeyFile; 3] = [KeyFile::Certificate, KeyFile::Key, KeyFile::Authorities];

#[test]
fn sealed_keys_are_usable_and_never_printed() {
    let keys = keys();
    let sealed = [&keys.certificate, &keys.key, &keys.authorities]
        .map(|bytes| sys::shm::sealed_copy("keys", bytes).unwrap());
    let again = Keys::from_fds(sealed).unwrap();
    again.server_config(KeyPurpose::Switches).unwrap();
    assert!(!format!("{again:?}").contains("PRIVATE"));
}

#[test]
fn file_without_its_contents_is_named() {
    for file in FILES {
        for bytes in ["", "-----BEGIN NOTHING-----\n", "\0\x01"] {
            let error =
                with(file, bytes.as_bytes()).server_config(KeyPurpose::Switches).unwrap_err();
            assert_eq!(error.file, file, "{bytes:?}: {error}");
        }
    }
}

#[test]
fn key_of_another_certificate_is_refused() {
    let other = KeyPair::generate().unwrap().serialize_pem();
    let error =
        with(KeyFile::Key, other.as_bytes()).server_config(KeyPurpose::Switches).unwrap_err();
    assert_eq!(error.file, KeyFile::Key);
    assert_eq!(error.why, "it is not the key of the certificate");
}

#[test]
fn encrypted_key_is_refused_with_a_remedy() {
    let pem = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let error = with(KeyFile::Key, pem.as_bytes()).server_config(KeyPurpose::Switches).unwrap_err();
    assert!(error.why.contains("openssl pkey"), "{error}");
}

#[test]
fn damaged_pem_is_explained_without_quoting_it() {
    for file in FILES {
        let good = keys();
        let whole = match file {
            KeyFile::Certificate => &good.certificate,
            KeyFile::Key => &*good.key,
            KeyFile::Authorities => &good.authorities,
        };
        let spoilt = String::from_utf8(whole.clone()).unwrap().replacen('\n', "\n%s3cret%", 1);
        for (bytes, why) in
            [(&whole[..whole.len() / 2], "cut off"), (spoilt.as_bytes(), "not base64")]
        {
            let error = with(file, bytes).server_config(KeyPurpose::Switches).unwrap_err();
            assert_eq!(error.file, file);
            assert!(error.why.contains(why), "{error}");
            assert!(!error.why.contains("s3cret") && !error.why.contains("115, 51, 99"), "{error}");
        }
    }
}

#[test]
fn controllers_certificate_is_no_switchs() {
    let key = KeyPair::generate().unwrap();
    let of = |name: &str| {
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        CertifiedDatapaths::of(certificate.der()).map(|it| it.may_claim(Dpid(1)))
    };
    assert_eq!(of("switch.example"), Ok(Ok(())));
    for name in [CONTROLLER, "Rosemary-Controller"] {
        assert_eq!(of(name), Err(DatapathNamesError::Controller), "{name}");
    }
}
