//! The tests' own apps, and their entries in `rosemary.toml`.

use std::env;
use std::fs;
use std::path::Path;

use cli::lab::{Lab, LabError};

/// The configuration of root's Rosemary.
const CONFIG: &str = "/etc/rosemary/rosemary.toml";

/// Returns the `[[app]]` entry of a Rust app in `tests/apps`; `keys` are further lines.
///
/// # Panics
/// If it was not built: cargo builds examples together with the tests.
pub fn in_rust(name: &str, keys: &str) -> String {
    let test = env::current_exe().expect("/proc is mounted");
    let profile_dir = test.ancestors().nth(2).expect("a test is in target/PROFILE/deps");
    let object = profile_dir.join("examples").join(format!("lib{name}.so"));
    assert!(object.is_file(), "{} is missing; type: cargo build --examples", object.display());
    entry(name, &object, keys)
}

/// Returns the `[[app]]` entry of an app in Python; `source` is relative to `tests`, `keys` are further lines.
pub fn in_python(name: &str, source: &str, keys: &str) -> String {
    entry(name, &Path::new(env!("CARGO_MANIFEST_DIR")).join(source), keys)
}

/// Compiles a C app and returns its `[[app]]` entry; `source` is relative to `tests`.
///
/// # Errors
/// The compiler failed.
pub fn in_c(lab: &Lab, name: &str, source: &str, keys: &str) -> Result<String, LabError> {
    in_c_with(lab, name, source, keys, &[])
}

/// Like [`in_c`], with further compiler arguments behind the source.
///
/// # Errors
/// The compiler failed.
pub fn in_c_with(
    lab: &Lab,
    name: &str,
    source: &str,
    keys: &str,
    more: &[&str],
) -> Result<String, LabError> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let object = lab.files().join(format!("{name}.so"));
    let headers = here.join("../crates/sdk/c").display().to_string();
    let flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I", &headers];
    let (to, from) = (object.display().to_string(), here.join(source).display().to_string());
    lab.run("cc", &[&flags[..], &["-o", &to, &from], more].concat())?;
    Ok(entry(name, &object, keys))
}

/// Writes the lab's configuration.
///
/// # Errors
/// It cannot be written.
pub fn configure(apps: &[&str]) -> std::io::Result<()> {
    fs::write(CONFIG, apps.concat())
}

fn entry(name: &str, object: &Path, keys: &str) -> String {
    format!("[[app]]\nname = \"{name}\"\nobject = \"{}\"\n{keys}\n", object.display())
}
