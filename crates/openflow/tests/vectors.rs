//! Runs public test vectors, which are not part of this repository. The environment variable
//! `OPENFLOW_VECTORS` names their folder, with files such as `valid-of13.tsv`. A line contains
//! source, kind, detail and the message in hexadecimal, separated by tabs.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that says what it skips"
)]

mod checks;

use rosemary_openflow::DecodeError;
use std::path::PathBuf;

struct Vector {
    line: String,
    bytes: Vec<u8>,
}

/// Reads the vectors of a file; empty, with a note, if this machine has none.
fn vectors(file: &str) -> Vec<Vector> {
    let Some(folder) = std::env::var_os("OPENFLOW_VECTORS") else {
        println!("SKIPPED: OPENFLOW_VECTORS is not set, {file} was not tried");
        return Vec::new();
    };
    let path = PathBuf::from(folder).join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines()
        .map(|line| {
            let hex = line.rsplit('\t').next().unwrap();
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            Vector {
                line: line.chars().take(400).collect(),
                bytes: (0..hex.len()).step_by(2).map(byte).collect(),
            }
        })
        .collect()
}

/// Fails if `check` reports a fault in any vector of the files.
fn all(files: &[&str], check: impl Fn(&[u8]) -> Option<String>) {
    for file in files {
        let vectors = vectors(file);
        let wrong = vectors.iter().filter_map(|vector| Some((check(&vector.bytes)?, &vector.line)));
        let wrong: Vec<_> = wrong.inspect(|(what, line)| println!("{what}: {line}")).collect();
        assert!(wrong.is_empty(), "{file}: {} of {} are wrong", wrong.len(), vectors.len());
        println!("{file}: {} vectors hold", vectors.len());
    }
}

#[test]
fn valid_vectors_reencode_byte_for_byte() {
    all(&["valid-of10.tsv", "valid-of13.tsv"], |bytes| {
        checks::raw_comes_back(bytes).err().map(|error| error.to_string())
    });
}

#[test]
fn valid_vectors_keep_their_meaning() {
    all(&["valid-of10.tsv", "valid-of13.tsv"], |bytes| {
        // Some contain numbers that no specification defines; these are rejected as values.
        match checks::meaning_comes_back(bytes) {
            Ok(()) | Err(DecodeError::BadValue { .. } | DecodeError::UnknownKind { .. }) => None,
            Err(error) => Some(error.to_string()),
        }
    });
}

#[test]
fn malformed_vectors_are_errors() {
    all(&["malformed-of10.tsv", "malformed-of13.tsv"], |bytes| {
        let decoded = checks::raw_comes_back(bytes).or(checks::meaning_comes_back(bytes));
        decoded.is_ok().then(|| "decoded".to_owned())
    });
}

#[test]
fn vectors_of_other_versions_are_of_an_unsupported_version() {
    let files = [
        "valid-of11.tsv",
        "valid-of12.tsv",
        "valid-of14.tsv",
        "valid-of15.tsv",
        "malformed-of11.tsv",
        "malformed-of12.tsv",
        "malformed-of14.tsv",
    ];
    all(&files, |bytes| match checks::raw_comes_back(bytes) {
        Err(DecodeError::UnsupportedVersion { .. }) => None,
        other => Some(format!("{other:?}")),
    });
}

#[cfg(feature = "serde")]
#[test]
fn valid_vectors_serialize_as_json() {
    all(&["valid-of10.tsv", "valid-of13.tsv"], |bytes| {
        let message = rosemary_openflow::Message::decode(bytes).unwrap();
        serde_json::to_string(&message).err().map(|error| error.to_string())
    });
}
