//! `rosemary app build`: compiles an app and packages it with its manifest.
//!
//! The package depends on the manifest and the object only: the same object gives the same bytes.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use clap::Args;
use config::{Manifest, ManifestMistake};
use monitor::python;
use package::EXTENSION;
use serde::Deserialize;

use super::descriptor::Descriptor;
use crate::say;

/// The extension of an archive of modules in Python.
const ARCHIVE: &str = "pyz";

/// Options of `rosemary app build`.
#[derive(Debug, Clone, Args)]
pub struct BuildArgs {
    /// Directory of the app, which contains app.toml
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// Prebuilt object
    #[arg(long, value_name = "FILE")]
    pub object: Option<PathBuf>,
    /// Output directory
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub out: PathBuf,
    /// Arguments for cargo or make, such as `-- --offline`
    #[arg(last = true, value_name = "ARGUMENT")]
    pub arguments: Vec<OsString>,
}

/// Builds and writes the package.
///
/// # Errors
/// The manifest is invalid, the app does not compile, or the package cannot be written.
pub fn run(args: &BuildArgs) -> anyhow::Result<()> {
    let file = args.dir.join("app.toml");
    let text = fs::read_to_string(&file).with_context(|| {
        format!("cannot read {}; `rosemary app new` creates an app that has one", file.display())
    })?;
    let manifest = Manifest::parse(&text).map_err(|ManifestMistake { line, column, what }| {
        anyhow::anyhow!("{}:{line}:{column}: {what}", file.display())
    })?;
    if let Some(notice) = &manifest.notice {
        say::note(notice);
    }
    let name = manifest.app.name.as_str();
    let object = match &args.object {
        Some(object) => object.clone(),
        None => compile(args, &manifest)?,
    };
    let bytes = monitor::installation::read_object(&object);
    if args.object.is_none() && object.extension().is_some_and(|it| it == ARCHIVE) {
        // The package has all of it.
        let removed = fs::remove_file(&object);
        removed.with_context(|| format!("cannot remove {}", object.display()))?;
    }
    let bytes = bytes.with_context(|| {
        format!(
            "cannot read the object {} of the app {name}, which app.toml names; correct the name or name the object with \
             --object",
            object.display()
        )
    })?;
    if package::is_archive(&bytes) {
        return write(args, &manifest, &text, &bytes);
    }
    let stated = Descriptor::read(&bytes)
        .with_context(|| format!("{} is not the object of an app", object.display()))?;
    let is_rust = args.dir.join("Cargo.toml").is_file();
    let in_source = if is_rust { "Cargo.toml" } else { "the source of the object" };
    let of_name = if is_rust { "export_app!(..., name = ...) in the source" } else { in_source };
    for (what, in_manifest, in_object, place) in [
        ("name", name, &stated.name, of_name),
        ("version", &manifest.version, &stated.version, in_source),
    ] {
        if in_manifest != in_object {
            bail!(
                "the {what} in app.toml is {in_manifest}, and in the object {in_object}; write the same into app.toml and \
                 into {place}"
            );
        }
    }
    write(args, &manifest, &text, &bytes)
}

/// Writes the package of this manifest and this object.
fn write(args: &BuildArgs, manifest: &Manifest, text: &str, object: &[u8]) -> anyhow::Result<()> {
    let name = manifest.app.name.as_str();
    let package = package::pack(text, object)?;
    let path = args.out.join(format!("{name}-{}.{EXTENSION}", manifest.version));
    fs::write(&path, package).with_context(|| format!("cannot write {}", path.display()))?;
    say::note(format_args!("next: rosemary app sign {}", path.display()));
    say::data(format_args!("{}\n", path.display()))
}

/// Compiles the app; returns the path of its object.
fn compile(args: &BuildArgs, manifest: &Manifest) -> anyhow::Result<PathBuf> {
    let name = manifest.app.name.as_str();
    let cargo = args.dir.join("Cargo.toml");
    if cargo.is_file() {
        return by_cargo(&cargo, &manifest.version, &args.arguments);
    }
    if args.dir.join("Makefile").is_file() {
        let mut make = Command::new("make");
        make.arg("-C").arg(&args.dir).args(&args.arguments).stdout(std::io::stderr());
        let status = make.status().context("cannot start make")?;
        if !status.success() {
            bail!("make: {status}");
        }
        return Ok(args.dir.join(format!("lib{}.so", name.replace('-', "_"))));
    }
    if args.dir.join("app.py").is_file() || args.dir.join("app/__init__.py").is_file() {
        return by_python(args, name);
    }
    bail!(
        "neither Cargo.toml nor Makefile nor app.py is in {}; build the object and name it with --object",
        args.dir.display()
    )
}

/// Makes the archive of an app in Python, with the interpreter that runs it. No code of the app or of its wheels runs.
fn by_python(args: &BuildArgs, name: &str) -> anyhow::Result<PathBuf> {
    let interpreter = python::interpreter()?;
    let archive = args.out.join(format!("{name}.{ARCHIVE}"));
    let mut command = Command::new(&interpreter.program);
    command.args(["-I", "-m", "rosemary._package"]).arg(&args.dir).arg(&archive);
    let status = command.stdout(std::io::stderr()).status().context("cannot start Python")?;
    if !status.success() {
        bail!("the app was not packaged; correct what the lines above say");
    }
    Ok(archive)
}

/// A line of cargo's JSON output.
#[derive(Debug, Deserialize)]
struct Message {
    reason: String,
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

/// The part of cargo's metadata that names the version of each package.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<CargoPackage>,
}

#[derive(Debug, Deserialize)]
struct CargoPackage {
    manifest_path: PathBuf,
    version: String,
}

/// Returns the version in the file `manifest`, which may inherit it from its workspace.
fn cargo_version(manifest: &Path) -> anyhow::Result<Option<String>> {
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"]).arg(manifest);
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", output.status);
    }
    let metadata: Metadata =
        serde_json::from_slice(&output.stdout).context("cargo metadata did not print JSON")?;
    let ours = metadata.packages.into_iter().find(|it| it.manifest_path == manifest);
    Ok(ours.map(|it| it.version))
}

/// Returns the path of the object that cargo built. Before it compiles, it compares the version with that of app.toml.
fn by_cargo(manifest: &Path, version: &str, arguments: &[OsString]) -> anyhow::Result<PathBuf> {
    let manifest = fs::canonicalize(manifest)?;
    if let Some(other) = cargo_version(&manifest)?.filter(|other| other != version) {
        bail!(
            "the version in app.toml is {version}, and in Cargo.toml {other}; write the same into both"
        );
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--lib", "--message-format=json-render-diagnostics"]);
    cargo.arg("--manifest-path").arg(&manifest).args(arguments).stderr(Stdio::inherit());
    let output = cargo.output().context("cannot start cargo")?;
    if !output.status.success() {
        bail!("cargo: {}", output.status);
    }
    object(&String::from_utf8_lossy(&output.stdout), &manifest).with_context(|| {
        let manifest = manifest.display();
        format!("{manifest} builds no shared object; set crate-type = [\"cdylib\"] in its [lib]")
    })
}

/// Finds the shared object of the package `manifest` in cargo's output.
fn object(said: &str, manifest: &Path) -> Option<PathBuf> {
    let messages = said.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    let mut ours =
        messages.filter(|it| it.reason == "compiler-artifact" && it.manifest_path == manifest);
    ours.find_map(|it| {
        let is_object = |file: &PathBuf| file.extension().is_some_and(|it| it == "so");
        it.filenames.into_iter().find(is_object)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::descriptor;

    fn app(manifest: &str, (name, version): (&str, &str)) -> (tempfile::TempDir, BuildArgs) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("app.toml"), manifest).unwrap();
        fs::write(dir.path().join("a.so"), descriptor::tests::object(name, version)).unwrap();
        let args = BuildArgs {
            dir: dir.path().to_owned(),
            object: Some(dir.path().join("a.so")),
            out: dir.path().to_owned(),
            arguments: Vec::new(),
        };
        (dir, args)
    }

    const MANIFEST: &str = "name = \"my-app\"\nversion = \"1.2.3\"\n";

    #[test]
    fn package_has_name_version_and_both_files() {
        let (dir, args) = app(MANIFEST, ("my-app", "1.2.3"));
        run(&args).unwrap();
        let package = fs::read(dir.path().join("my-app-1.2.3.rosemary")).unwrap();
        let contents = package::open(&package).unwrap();
        assert_eq!(contents.manifest, MANIFEST);
        assert_eq!(package[contents.object], fs::read(dir.path().join("a.so")).unwrap());
    }

    #[test]
    fn manifest_and_object_must_agree() {
        for (object, expected) in [
            (("my-app", "1.2.4"), "the version in app.toml is 1.2.3, and in the object 1.2.4"),
            (("other", "1.2.3"), "the name in app.toml is my-app, and in the object other"),
        ] {
            let (dir, args) = app(MANIFEST, object);
            let error = run(&args).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(error.ends_with("into the source of the object"), "{error}");
            assert!(!dir.path().join("my-app-1.2.3.rosemary").exists());
        }
    }

    #[test]
    fn name_of_an_app_in_rust_is_in_its_source() {
        let (dir, args) = app(MANIFEST, ("other", "1.2.3"));
        fs::write(dir.path().join("Cargo.toml"), "").unwrap();
        let error = run(&args).unwrap_err().to_string();
        assert!(error.ends_with("into export_app!(..., name = ...) in the source"), "{error}");
    }

    #[test]
    fn versions_are_compared_before_the_compilation() {
        let (dir, args) = app(MANIFEST, ("my-app", "1.2.3"));
        let cargo =
            "[package]\nname = \"my-app\"\nversion = \"1.2.4\"\nedition = \"2024\"\n[workspace]\n";
        fs::write(dir.path().join("Cargo.toml"), cargo).unwrap();
        fs::create_dir(dir.path().join("src")).unwrap();
        fs::write(dir.path().join("src/lib.rs"), "this does not compile").unwrap();
        let error = run(&BuildArgs { object: None, ..args }).unwrap_err().to_string();
        let expected = "the version in app.toml is 1.2.3, and in Cargo.toml 1.2.4";
        assert!(error.starts_with(expected), "{error}");
        assert!(!dir.path().join("target").exists(), "nothing was compiled");
    }

    #[test]
    fn build_errors_name_a_remedy() {
        let (dir, args) = app("name = \"my-app\"\n", ("my-app", "1"));
        let error = run(&args).unwrap_err().to_string();
        assert!(error.contains("app.toml:1:1: version is missing"), "{error}");
        fs::write(dir.path().join("app.toml"), MANIFEST).unwrap();
        fs::write(dir.path().join("a.so"), "text").unwrap();
        let error = format!("{:#}", run(&args).unwrap_err());
        assert!(error.contains("a.so is not the object of an app"), "{error}");
        let without = BuildArgs { object: None, ..args };
        assert!(run(&without).unwrap_err().to_string().contains("--object"));
        fs::remove_file(dir.path().join("app.toml")).unwrap();
        assert!(run(&without).unwrap_err().to_string().contains("rosemary app new"));
    }

    #[test]
    fn object_belongs_to_the_app_not_a_dependency() {
        let said = r#"{"reason":"compiler-artifact","manifest_path":"/dep/Cargo.toml","filenames":["/t/libdep.so"]}
not json
{"reason":"compiler-artifact","manifest_path":"/app/Cargo.toml","filenames":["/t/libapp.rlib","/t/libapp.so"]}
{"reason":"build-finished","success":true}"#;
        assert_eq!(object(said, Path::new("/app/Cargo.toml")), Some("/t/libapp.so".into()));
        assert_eq!(object(said, Path::new("/other/Cargo.toml")), None);
    }
}
