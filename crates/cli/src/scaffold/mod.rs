//! `rosemary app new`: creates an app that builds and runs without changes.
//!
//! An app in Rust uses the SDK's sources that are installed along with this program, or those of the source tree in whose `target`
//! directory this program is. It gets a copy of their `Cargo.lock`, so that Cargo downloads no further versions of the
//! same packages. An app in C gets copies of the headers. Each template has a test that needs no Rosemary.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use config::{NAME_FORM, is_name};

use crate::say;

mod template;

use template::Template;

/// The sources of the SDK below the directory that has the installed programs in `bin`.
const INSTALLED_SDK: &str = "share/rosemary/sdk/crates/sdk";

/// Options of `rosemary app new`.
#[derive(Debug, Clone, Args)]
pub struct NewArgs {
    /// Name of the app: lower-case letters, digits and hyphens
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// Create an app in C instead of Rust
    #[arg(long)]
    pub c: bool,
    /// Create an app in Python, a learning switch, instead of Rust
    #[arg(long, conflicts_with_all = ["c", "sdk", "template"])]
    pub python: bool,
    /// Template of the code
    #[arg(long, value_enum, value_name = "TEMPLATE", default_value_t = Template::Switch)]
    pub template: Template,
    /// Directory to create [default: NAME in the current directory]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Directory of Rosemary's SDK for Rust [default: the one installed with this program]
    #[arg(long, value_name = "DIR", conflicts_with = "c")]
    pub sdk: Option<PathBuf>,
}

/// Creates the app.
///
/// # Errors
/// The directory is not empty or cannot be written, or the SDK is missing.
pub fn run(args: &NewArgs) -> anyhow::Result<()> {
    let dir = args.dir.clone().unwrap_or_else(|| PathBuf::from(&args.name));
    let (files, build) = if args.python {
        (python(&args.name), "")
    } else if args.c {
        (c(&args.name, args.template), "\n  make")
    } else {
        (rust(&args.name, args.template, args.sdk.as_deref())?, "\n  cargo build")
    };
    write(&dir, &files)?;
    say::note(format_args!(
        "created the app {} in {dir}; to build and run it:\n  cd {dir}{build}\n  rosemary up --allow-unsigned --config rosemary.toml",
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

fn rust(name: &str, template: Template, sdk: Option<&Path>) -> anyhow::Result<Vec<File>> {
    let sdk = match sdk {
        Some(sdk) => sdk.to_owned(),
        None => find_sdk(&std::env::current_exe().context("cannot find this program")?)
            .context("the SDK is not installed with this program; name its directory with --sdk: crates/sdk of Rosemary's source tree")?,
    };
    let sdk = match fs::canonicalize(&sdk) {
        Ok(found) if found.join("Cargo.toml").is_file() => found,
        _ => bail!(
            "the SDK is not in {}; name the directory crates/sdk of Rosemary's source tree with --sdk",
            sdk.display()
        ),
    };
    let path = sdk.to_str().context("the path of the SDK is not valid UTF-8")?;
    let quoted = serde_json::to_string(path).context("cannot write the path of the SDK")?;
    let fill = |text: &str| filled(text, name, template, "target/debug/").replace("@SDK@", &quoted);
    let mut files = vec![
        ("Cargo.toml".into(), fill(include_str!("Cargo.toml.txt"))),
        ("src/lib.rs".into(), fill(template.rust())),
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

/// Finds the SDK of this program: installed beside it, or in the source tree in whose `target` directory the program is.
fn find_sdk(program: &Path) -> Option<PathBuf> {
    let is_sdk = |dir: &PathBuf| dir.join("Cargo.toml").is_file();
    let installed = program.parent()?.parent().map(|prefix| prefix.join(INSTALLED_SDK));
    let target = program.ancestors().find(|dir| dir.ends_with("target"));
    let in_tree = target.and_then(Path::parent).map(|root| root.join("crates/sdk"));
    installed.into_iter().chain(in_tree).find(is_sdk)
}

fn c(name: &str, template: Template) -> Vec<File> {
    let fill = |text: &str| filled(text, name, template, "");
    let (app, test) = template.c();
    vec![
        (format!("{}.c", lib(name)), fill(app)),
        ("test.c".into(), fill(test)),
        ("rosemary_app.h".into(), include_str!("../../../sdk/c/rosemary_app.h").into()),
        ("rosemary_packet.h".into(), include_str!("../../../sdk/c/rosemary_packet.h").into()),
        ("rosemary_messages.h".into(), include_str!("../../../sdk/c/rosemary_messages.h").into()),
        ("rosemary_changes.h".into(), include_str!("../../../sdk/c/rosemary_changes.h").into()),
        ("rosemary_nicira.h".into(), include_str!("../../../sdk/c/rosemary_nicira.h").into()),
        ("rosemary_tables.h".into(), include_str!("../../../sdk/c/rosemary_tables.h").into()),
        ("rosemary_http.h".into(), include_str!("../../../sdk/c/rosemary_http.h").into()),
        ("rosemary_services.h".into(), include_str!("../../../sdk/c/rosemary_services.h").into()),
        ("rosemary_ovsdb.h".into(), include_str!("../../../sdk/c/rosemary_ovsdb.h").into()),
        ("rosemary_timers.h".into(), include_str!("../../../sdk/c/rosemary_timers.h").into()),
        ("rosemary_topology.h".into(), include_str!("../../../sdk/c/rosemary_topology.h").into()),
        ("rosemary_wanted.h".into(), include_str!("../../../sdk/c/rosemary_wanted.h").into()),
        ("rosemary_bench.h".into(), include_str!("../../../sdk/c/rosemary_bench.h").into()),
        ("Makefile".into(), fill(include_str!("Makefile.txt"))),
        ("app.toml".into(), fill(include_str!("app.toml.txt"))),
        ("rosemary.toml".into(), fill(include_str!("rosemary.toml.txt"))),
        ("README.md".into(), fill(include_str!("README.c.txt"))),
        (".gitignore".into(), "*.so\ntest-*\n*.rosemary\n*.minisig\n".into()),
    ]
}

fn python(name: &str) -> Vec<File> {
    let fill = |text: &str| filled(&text.replace("@OBJECT@", "app.py"), name, Template::Switch, "");
    vec![
        ("app.py".into(), fill(include_str!("app.py.txt"))),
        ("test_app.py".into(), fill(include_str!("test_app.py.txt"))),
        ("app.toml".into(), fill(include_str!("app.toml.txt"))),
        ("rosemary.toml".into(), fill(include_str!("rosemary.toml.txt"))),
        ("requirements.txt".into(), "# Locked wheels: NAME==VERSION --hash=sha256:...\n".into()),
        ("README.md".into(), fill(include_str!("README.python.txt"))),
        (".gitignore".into(), "__pycache__\n*.rosemary\n*.minisig\n".into()),
    ]
}

/// Returns the name of the app's library, without prefix and suffix.
fn lib(name: &str) -> String {
    name.replace('-', "_")
}

fn filled(text: &str, name: &str, template: Template, built_in: &str) -> String {
    let lib = lib(name);
    text.replace("@DOES@", template.does())
        .replace("@REQUEST@", template.request())
        .replace("@BEHIND@", template.behind())
        .replace("@OBJECT@", &format!("{built_in}lib{lib}.so"))
        .replace("@LIB@", &lib)
        .replace("@NAME@", name)
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
    use clap::ValueEnum as _;
    use config::Manifest;

    use super::*;

    /// The files of each template in each language.
    fn all() -> impl Iterator<Item = Vec<File>> {
        Template::value_variants()
            .iter()
            .flat_map(|it| [rust("my-app", *it, None).unwrap(), c("my-app", *it)])
            .chain([python("my-app")])
    }

    fn text<'a>(files: &'a [File], name: &str) -> &'a str {
        &files.iter().find(|(path, _)| path == name).unwrap().1
    }

    #[test]
    fn every_placeholder_is_replaced() {
        for (path, text) in all().flatten().filter(|(path, _)| path != "Cargo.lock") {
            let at = text.split('@').nth(1).unwrap_or_default();
            assert!(
                at.is_empty() || at.contains(|it: char| !it.is_ascii_uppercase()),
                "{path}: @{at}@"
            );
        }
    }

    #[test]
    fn readme_in_python_names_the_interpreter_of_apps() {
        let files = python("my-app");
        let readme = text(&files, "README.md");
        for root in ["target", "/usr/local/lib/rosemary", "/usr/lib/rosemary"] {
            assert!(readme.contains(&format!("{root}/python/bin/python3")), "{root}: {readme}");
        }
        assert!(text(&files, "test_app.py").contains("PYTHON -m unittest"));
    }

    #[test]
    fn created_configuration_is_valid() {
        for files in all() {
            let file = PathBuf::from("/apps/my-app/rosemary.toml");
            let text = text(&files, "rosemary.toml").to_owned();
            let config = config::Config::parse(file, text).unwrap();
            let app = config.app("my-app").unwrap();
            let object = app.object.clone().unwrap();
            let is_object = object.ends_with("libmy_app.so") || object.ends_with("app.py");
            assert!(object.starts_with("/apps/my-app") && is_object);
        }
    }

    #[test]
    fn created_manifest_is_valid() {
        for files in all() {
            assert_eq!(Manifest::parse(text(&files, "app.toml")).unwrap().app.name, "my-app");
        }
    }

    #[test]
    fn templates_have_at_most_sixty_lines() {
        for it in Template::value_variants() {
            let (rust, _) = it.rust().split_once("#[cfg(test)]").unwrap();
            for text in [rust, it.c().0] {
                let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
                assert!((5..=60).contains(&lines), "{it:?}: {lines}");
            }
        }
    }

    #[test]
    fn sdk_is_found_relative_to_the_program() {
        let dir = tempfile::tempdir().unwrap();
        let make = |sdk: &str| {
            let sdk = dir.path().join(sdk);
            fs::create_dir_all(&sdk).unwrap();
            fs::write(sdk.join("Cargo.toml"), "").unwrap();
            sdk
        };
        assert_eq!(find_sdk(&dir.path().join("usr/bin/rosemary")), None);
        let installed = make("usr/share/rosemary/sdk/crates/sdk");
        assert_eq!(find_sdk(&dir.path().join("usr/bin/rosemary")), Some(installed));
        let in_tree = make("tree/crates/sdk");
        assert_eq!(find_sdk(&dir.path().join("tree/target/debug/rosemary")), Some(in_tree));
        assert_eq!(find_sdk(&dir.path().join("tree/elsewhere/rosemary")), None);
    }

    #[test]
    fn missing_sdk_error_names_the_option() {
        let error = rust("a", Template::Hub, Some(Path::new("/nowhere"))).unwrap_err().to_string();
        assert!(error.contains("/nowhere") && error.contains("--sdk"), "{error}");
    }
}
