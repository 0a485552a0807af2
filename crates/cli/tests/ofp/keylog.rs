//! Tests the decryption of captures. `data/tls.pcap` is a connection over TLS 1.3 whose secrets are in `data/tls.keys`.

use std::path::Path;
use std::process::Command;

use super::{Run, ofp};

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ofp/data").join(name);
    path.to_str().unwrap().to_owned()
}

fn decode(capture: &str, keys: &str) -> Run {
    ofp(&["decode", "--keylog", keys, capture], b"")
}

fn has_tshark() -> bool {
    Command::new("tshark").arg("--version").output().is_ok()
}

#[test]
fn captured_tls_is_decrypted_or_the_missing_program_named() {
    let run = decode(&data("tls.pcap"), &data("tls.keys"));
    if !has_tshark() {
        assert_eq!(run.code, Some(1));
        assert!(
            run.err.contains("--keylog needs tshark") && run.err.contains("apt-get install tshark"),
            "{}",
            run.err
        );
        return;
    }
    let without_time = |line: &str| line.split_once(' ').unwrap().1.to_owned();
    let lines: Vec<String> = run.out.lines().map(without_time).collect();
    let (to, from) = ("10.0.0.1:40000 > 10.0.0.2:6653", "10.0.0.2:6653 > 10.0.0.1:40000");
    let beginnings = [
        format!("{to} OFPT_HELLO (OF1.3) (xid=0x1)"),
        format!("{from} OFPT_HELLO (OF1.3) (xid=0x1)"),
        format!("{to} OFPT_ECHO_REQUEST (OF1.3) (xid=0x3)"),
        // In two records.
        format!("{from} OFPT_FEATURES_REQUEST (OF1.3) (xid=0x2)"),
        format!("{from} OFPT_ECHO_REPLY (OF1.3) (xid=0x3)"),
    ];
    assert_eq!(lines.len(), beginnings.len(), "{lines:#?}{}", run.err);
    for (line, beginning) in lines.iter().zip(&beginnings) {
        assert!(line.starts_with(beginning), "{line}");
    }
    assert_eq!((run.err.as_str(), run.code), ("", Some(0)));
}

#[test]
fn key_log_that_does_not_help_is_named() {
    let missing = decode(&data("tls.pcap"), "/nowhere/keys");
    assert!(missing.err.contains("cannot open the key log /nowhere/keys"), "{}", missing.err);
    assert_eq!(missing.code, Some(1));
    if has_tshark() {
        let others = decode(&data("tls.pcap"), "/dev/null");
        assert!(others.err.contains("decrypted nothing: the key log must have"), "{}", others.err);
        assert_eq!((others.out.as_str(), others.code), ("", Some(1)));
        let no_capture = decode(&data("tls.keys"), &data("tls.keys"));
        assert!(no_capture.err.contains("tshark failed"), "{}", no_capture.err);
    }
}
