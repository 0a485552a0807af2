//! The summary of `make test` counts no skipped test as passed, and no test returns silently.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a file that cannot be read fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const LOG: &str = "\
running 5 tests
test forwarding::ring ... ok
test forwarding::torus ... ignored, half a minute or more: make soak runs it
test vectors::valid ... ok
test vectors::other ... ok
SKIPPED: lab::net: not root: run it with sudo
test lab::net ... ok

successes:

---- vectors::valid stdout ----
SKIPPED: OPENFLOW_VECTORS is not set, a.tsv was not tried
SKIPPED: OPENFLOW_VECTORS is not set, b.tsv was not tried

---- vectors::other stdout ----
SKIPPED: this needs root

test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s

test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn skipped_tests_are_listed_and_not_counted() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("test-summary.log");
    fs::write(&file, LOG).unwrap();
    let script = root().join("etc/test-summary.sh");
    let output = Command::new(script).arg("unit tests").arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "8 unit tests passed, 4 skipped:",
            "  forwarding::torus: half a minute or more: make soak runs it",
            "  lab::net: not root: run it with sudo",
            "  vectors::valid: OPENFLOW_VECTORS is not set, a.tsv was not tried",
            "  vectors::other: this needs root",
        ]
    );
}

/// The sources of Rust below a directory.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            found.push(path);
        }
    }
}

/// A system test that returns when a variable is missing would count as passed: `#[ignore]` has the reason instead.
#[test]
fn no_system_test_returns_for_a_missing_variable() {
    let mut files = Vec::new();
    sources(&root().join("tests/system"), &mut files);
    assert!(files.len() > 50);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (number, pair) in lines.windows(2).enumerate() {
            let asks = pair[0].starts_with("if ") && pair[0].contains("var_os(");
            let returns = asks && pair[1].starts_with("return;");
            assert!(!returns, "{}:{}: {}", file.display(), number + 1, pair[0]);
        }
    }
}

/// The error of a `main` that returns it has a backtrace with `RUST_BACKTRACE=1`.
#[test]
fn no_program_prints_its_error_with_a_backtrace() {
    let mut files = Vec::new();
    for dir in ["crates", "tests", "experiments"] {
        sources(&root().join(dir), &mut files);
    }
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let returned =
            text.lines().find(|line| line.starts_with("fn main() -> ") && line.contains("Result"));
        assert_eq!(returned, None, "{}", file.display());
    }
}

#[test]
fn page_of_errors_is_that_of_the_source() {
    let output = Command::new("python3").arg(root().join("docs/errors.py")).arg("--check").output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A crate for other projects may use only crates that are published, too.
#[test]
fn published_crates_use_published_crates() {
    let manifest = |name: &str| {
        fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap()
    };
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let make = fs::read_to_string(root().join("Makefile")).unwrap();
    let list = make.lines().find_map(|line| line.strip_prefix("PUBLISHED := ")).unwrap();
    let published: Vec<&str> =
        list.split(' ').map(|it| it.trim_start_matches("rosemary-")).collect();
    for name in &published {
        let text = manifest(name);
        assert!(text.contains("\npublish = true\n"), "{name}");
        let dependencies = text.split("[dependencies]").nth(1).unwrap_or_default();
        let dependencies = dependencies.split("\n[").next().unwrap();
        for line in dependencies.lines() {
            let Some(used) = line.split(['.', ' ', '=']).next().filter(|it| !it.is_empty()) else {
                continue;
            };
            let entry =
                workspace.lines().find(|line| line.starts_with(&format!("{used} = {{ package")));
            if let Some(entry) = entry {
                assert!(
                    published.contains(&used) && entry.contains("version = "),
                    "{name} uses {used}"
                );
            }
        }
    }
}
