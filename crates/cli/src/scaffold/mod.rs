//! `rosemary app new`: creates an app that builds and runs without changes.
//!
//! An app in Rust uses the SDK in the source tree from which this program was built. It gets a copy of that
//! tree's `Cargo.lock`, so that Cargo downloads no further versions of the same packages. An app in C is a
//! copy of `sdk/c/hub.c`, which the SDK's tests compile, with `rosemary_app.h`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use config::{NAME_FORM, is_name};

use crate::say;

/// The SDK in the source tree of this program.
const SDK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../sdk");

/// Options of `rosemary app new`.
#[derive(Debug, Clone, Args)]
pub struct NewArgs {
    /// Name of the app: lower-case letters, digits and hyphens
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// Create an app in C instead of Rust
    #[arg(long)]
    pub c: bool,
    /// Directory to create [default: NAME in the current directory]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Directory of Rosemary's SDK for Rust [default: in the source tree of this program]
    #[arg(long, value_name = "DIR", conflicts_with = "c")]
    pub sdk: Option<PathBuf>,
}

/// Creates the app.
///
/// # Errors
/// The directory is not empty or cannot be written, or the SDK is missing.
pub fn run(args: &NewArgs) -> anyhow::Result<()> {
    let dir = args.dir.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    let (files, build) = if args.c {
        (c(&args.name), "make")
    } else {
        (rust(&args.name, args.sdk.as_deref())?, "cargo build")
    };
    write(&dir, &files)?;
    say::note(format_args!(
        "created the app {} in {dir}; to build and run it:\n  cd {dir}\n  {build}\n  rosemary up --allow-unsigned --config rosemary.toml",
        args.name,
        dir = dir.display()
    ));
    Ok(())
}

fn parse_name(text: &str) -> Result<String, String> {
    if is_name(text) { Ok(text.to_owned()) } else { Err(format!("expected {NAME_FORM}")) }
}

/// A file's path in the app's directory, and its content.
type File = (String, String);

fn rust(name: &str, sdk: Option<&Path>) -> anyhow::Result<Vec<File>> {
    let sdk = sdk.unwrap_or(Path::new(SDK));
    let sdk = match fs::canonicalize(sdk) {
        Ok(found) if found.join("Cargo.toml").is_file() => found,
        _ => bail!(
            "the SDK is not in {}; name the directory crates/sdk of Rosemary's source tree with --sdk",
            sdk.display()
        ),
    };
    let path = sdk.to_str().context("the path of the SDK is not valid UTF-8")?;
    let quoted = serde_json::to_string(path).context("cannot write the path of the SDK")?;
    let fill = |template: &str| filled(template, name, "target/debug/").replace("@SDK@", &quoted);
    let mut files = vec![
        ("Cargo.toml".into(), fill(include_str!("Cargo.toml.txt"))),
        ("src/lib.rs".into(), fill(include_str!("lib.rs.txt"))),
        ("app.toml".into(), fill(include_str!("app.toml.txt"))),
        ("rosemary.toml".into(), fill(include_str!("rosemary.toml.txt"))),
        ("README.md".into(), fill(include_str!("README.rust.txt"))),
        (".gitignore".into(), "/target\n*.rosemary\n*.minisig\n".into()),
    ];
    if let Ok(lock) = fs::read_to_string(sdk.join("../../Cargo.lock")) {
        files.push(("Cargo.lock".into(), lock));
    }
    Ok(files)
}

fn c(name: &str) -> Vec<File> {
    let fill = |template: &str| filled(template, name, "");
    let lib = lib(name);
    let hub = include_str!("../../../sdk/c/hub.c");
    let hub = hub
        .replace("\"hub\"", &format!("\"{name}\""))
        .replace("    cc -shared -fPIC -o libhub.so hub.c", "    make")
        .replace("A hub in C:", &format!("{name}:"));
    vec![
        (format!("{lib}.c"), hub),
        ("rosemary_app.h".into(), include_str!("../../../sdk/c/rosemary_app.h").into()),
        ("Makefile".into(), fill(include_str!("Makefile.txt"))),
        ("app.toml".into(), fill(include_str!("app.toml.txt"))),
        ("rosemary.toml".into(), fill(include_str!("rosemary.toml.txt"))),
        ("README.md".into(), fill(include_str!("README.c.txt"))),
        (".gitignore".into(), "*.so\n*.rosemary\n*.minisig\n".into()),
    ]
}

/// Returns the name of the app's library, without prefix and suffix.
fn lib(name: &str) -> String {
    name.replace('-', "_")
}

fn filled(template: &str, name: &str, built_in: &str) -> String {
    let lib = lib(name);
    template
        .replace("@NAME@", name)
        .replace("@OBJECT@", &format!("{built_in}lib{lib}.so"))
        .replace("@LIB@", &lib)
}

/// Writes `files` into `dir`, which must be empty or not exist.
fn write(dir: &Path, files: &[File]) -> anyhow::Result<()> {
    let used = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        entries => {
            let entries = entries.with_context(|| format!("cannot list {}", dir.display()));
            entries?.next().is_some()
        }
    };
    if used {
        bail!("{} is not empty; name another directory with --dir", dir.display());
    }
    for (path, text) in files {
        let path = dir.join(path);
        let write = || {
            fs::create_dir_all(path.parent().unwrap_or(dir))?;
            OpenOptions::new().write(true).create_new(true).open(&path)?.write_all(text.as_bytes())
        };
        write().with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use config::Manifest;

    use super::*;

    #[test]
    fn every_placeholder_is_replaced() {
        let rust = rust("my-app", None).unwrap();
        for (path, text) in
            rust.into_iter().filter(|(path, _)| path != "Cargo.lock").chain(c("my-app"))
        {
            assert!(!text.contains("@N") && !text.contains("@L") && !text.contains("@O"), "{path}");
            assert!(!text.contains("@SDK"), "{path}");
            assert!(!text.contains("\"hub\"") && !text.contains("libhub"), "{path}:\n{text}");
        }
    }

    #[test]
    fn created_configuration_is_valid() {
        for files in [rust("my-app", None).unwrap(), c("my-app")] {
            let (_, text) = files.iter().find(|(path, _)| path == "rosemary.toml").unwrap();
            let file = PathBuf::from("/apps/my-app/rosemary.toml");
            let config = config::Config::parse(file, text.clone()).unwrap();
            let object = config.app("my-app").unwrap().object.clone().unwrap();
            assert!(object.starts_with("/apps/my-app") && object.ends_with("libmy_app.so"));
        }
    }

    #[test]
    fn created_manifest_is_valid() {
        for files in [rust("my-app", None).unwrap(), c("my-app")] {
            let (_, text) = files.iter().find(|(path, _)| path == "app.toml").unwrap();
            assert_eq!(Manifest::parse(text).unwrap().app.name, "my-app");
        }
    }

    #[test]
    fn missing_sdk_error_names_the_option() {
        let error = rust("a", Some(Path::new("/nowhere"))).unwrap_err().to_string();
        assert!(error.contains("/nowhere") && error.contains("--sdk"), "{error}");
    }
}
