//! Ryu's own apps for tests. They are fetched below `target/` and never become part of the project.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// What `rosemary ryu --observe-links` grants an app of Ryu.
pub const CAPABILITIES: &str = r#"["packet-in", "packet-out", "packet-out.reserved", "flow.write", "group.write", "meter.write", "stats.read", "switch.config", "topology.probe"]"#;

/// Returns the directory that contains Ryu's package; fetches it if it is missing, which requires a network.
///
/// Must be called outside of a lab, whose root directory is read-only.
///
/// # Errors
/// The virtual environment is missing, or the installation failed.
pub fn install() -> anyhow::Result<PathBuf> {
    run("etc/make-ryu.sh", "target/ryu")
}

/// Installs Faucet where `rosemary faucet` looks for it. Otherwise like [`install`].
///
/// # Errors
/// Like [`install`].
pub fn install_faucet() -> anyhow::Result<PathBuf> {
    run("etc/make-faucet.sh", "target/faucet")
}

/// Returns the directory of `ryurest`, a client library of Ryu's REST interface, and what it needs. Otherwise like [`install`].
///
/// # Errors
/// Like [`install`].
pub fn install_client() -> anyhow::Result<PathBuf> {
    run("etc/make-ryurest.sh", "target/ryurest")
}

fn run(script: &str, dir: &str) -> anyhow::Result<PathBuf> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let status = Command::new(project.join(script))
        .args([dir, "target/python/bin/python3"])
        .current_dir(&project)
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("{script} could not be run"))?;
    ensure!(status.success(), "{script} failed; is there `target/python` (make python)?");
    Ok(project.join(dir).canonicalize()?)
}

/// Returns the entry in `rosemary.toml` of one of Ryu's apps, with further lines.
pub fn entry(ryu: &Path, name: &str, more: &str) -> String {
    let ryu = ryu.display();
    format!(
        "[[app]]\nname = \"{}\"\nobject = \"ryu.app.{name}\"\nhost = \"ryu\"\npython-path = [\"{ryu}\"]\n\
         capabilities = {CAPABILITIES}\n{more}\n",
        name.replace('_', "-")
    )
}

/// Notes that an app passed its test, and what that shows.
///
/// # Errors
/// The file cannot be written.
pub fn note(ryu: &Path, name: &str, version: &str, shows: &str) -> anyhow::Result<()> {
    let dir = ryu.join("passed");
    std::fs::create_dir_all(&dir)?;
    let row = format!("| `{name}` | {version} | {shows} |\n");
    std::fs::write(dir.join(name), row).with_context(|| format!("{name} was not noted"))
}
