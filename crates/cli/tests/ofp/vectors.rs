//! Runs public test vectors, which are not part of this repository; the environment variable
//! `OPENFLOW_VECTORS` names their folder.

use std::path::PathBuf;

use super::ofp;

/// Checks a file of vectors; every output line must start with `wanted`.
fn check(file: &str, wanted: &str) {
    let Some(folder) = std::env::var_os("OPENFLOW_VECTORS") else {
        println!("SKIPPED: OPENFLOW_VECTORS is not set, {file} was not tried");
        return;
    };
    let path = PathBuf::from(folder).join(file);
    let lines = std::fs::read_to_string(&path).unwrap().lines().count();
    let run = ofp(&["check", path.to_str().unwrap()], b"");
    let others: Vec<_> = run.out.lines().filter(|line| !line.starts_with(wanted)).collect();
    assert!(others.is_empty(), "{file}: {others:#?}");
    assert_eq!(run.out.lines().count(), lines, "{file}: {}", run.err);
    assert_eq!(run.code, Some(0), "{file}: {}", run.err);
    println!("{file}: {lines} lines begin with \"{wanted}\"");
}

#[test]
fn valid_vectors_reencode_identically() {
    for version in ["10", "11", "12", "13", "14", "15"] {
        check(&format!("valid-of{version}.tsv"), "same");
    }
}

#[test]
fn malformed_vectors_check_as_errors() {
    for version in ["10", "11", "12", "13", "14"] {
        check(&format!("malformed-of{version}.tsv"), "error: ");
    }
}
