//! Creates an app of each template in each language, compiles it and runs its test on the bench. The apps in Rust share one
//! target directory and are built offline.

use std::path::Path;
use std::process::Command;

/// Runs a command, which must succeed; returns what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().expect("it is installed");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}\n{}", text(&output.stderr));
    text(&output.stdout)
}

/// Creates an app from a template.
fn create(dir: &Path, name: &str, options: &[&str]) {
    let mut new = Command::new(env!("CARGO_BIN_EXE_rosemary"));
    run(new.args(["app", "new", name, "--template", name, "--dir"]).arg(dir).args(options));
}

#[test]
fn templates_in_c_pass_their_tests() {
    let dir = tempfile::tempdir().expect("there is room");
    for name in ["hub", "switch", "firewall", "stats"] {
        let dir = dir.path().join(name);
        create(&dir, name, &["--c"]);
        let mut make = Command::new("make");
        run(make.arg("-C").arg(&dir).args(["CFLAGS=-O1 -Werror -Wconversion", "all", "test"]));
        assert!(dir.join(format!("lib{name}.so")).is_file());
    }
}

#[test]
fn templates_in_rust_pass_their_tests() {
    let dir = tempfile::tempdir().expect("there is room");
    // One workspace of all, so that Cargo compiles the SDK once.
    let names = ["hub", "switch", "firewall", "stats"];
    for name in names {
        let app = dir.path().join(name);
        create(&app, name, &[]);
        let manifest = std::fs::read_to_string(app.join("Cargo.toml")).expect("it was created");
        let (package, _) = manifest.split_once("# Keeps it out").expect("it ends with [workspace]");
        std::fs::write(app.join("Cargo.toml"), package).expect("there is room");
        std::fs::copy(app.join("Cargo.lock"), dir.path().join("Cargo.lock"))
            .expect("it was created");
    }
    let workspace = format!("[workspace]\nresolver = \"3\"\nmembers = {names:?}\n");
    std::fs::write(dir.path().join("Cargo.toml"), workspace).expect("there is room");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../apps");
    let mut test = Command::new(env!("CARGO"));
    test.args(["test", "--offline", "--lib", "--manifest-path"]).arg(dir.path().join("Cargo.toml"));
    let printed = run(test.env("CARGO_TARGET_DIR", target));
    assert_eq!(printed.matches("test result: ok").count(), names.len(), "{printed}");
}
