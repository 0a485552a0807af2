//! `rosemary app verify`, `install`, `remove` and `list`: manages the packages of an operator.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use config::{Config, NAME_FORM, is_name, stage_name};
use monitor::options::StateDir;
use monitor::packages::{Admitted, Files, Gate, Refused, Store};
use serde::Serialize;

use crate::say;
use crate::table::Table;

/// Selects the operator's configuration and packages.
#[derive(Debug, Clone, Default, Args)]
pub struct Operator {
    /// The configuration, unless the default.
    #[arg(
        long,
        value_name = "FILE",
        env = "ROSEMARY_CONFIG",
        hide_env_values = true,
        help = "Configuration; its [[trust]] tables list the trusted developers [default: as for `rosemary up`]"
    )]
    pub config: Option<PathBuf>,
    /// Directory of the packages.
    #[command(flatten)]
    pub state: StateDir,
}

/// Options of `rosemary app verify` and `rosemary app install`.
#[derive(Debug, Clone, Args)]
pub struct PackageArgs {
    /// The package; its signature is in the file next to it with the suffix .minisig
    pub package: PathBuf,
    /// Configuration and packages.
    #[command(flatten)]
    pub operator: Operator,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `rosemary app remove`.
#[derive(Debug, Clone, Args)]
pub struct RemoveArgs {
    /// Name of the app
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// Configuration and packages.
    #[command(flatten)]
    pub operator: Operator,
}

/// Options of `rosemary app list`.
#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    /// Configuration and packages.
    #[command(flatten)]
    pub operator: Operator,
    /// Print JSON: a list with an object per package
    #[arg(long)]
    pub json: bool,
}

/// An accepted package; its JSON is a stable interface.
#[derive(Debug, Serialize)]
struct PackageReport {
    name: String,
    version: String,
    signed_by: String,
    key: String,
    stage: &'static str,
    capabilities: Vec<String>,
    services: Vec<String>,
    /// Digests of the package and of its object.
    sha256: String,
    object_sha256: String,
}

impl PackageReport {
    fn of(admitted: &Admitted<'_>) -> Self {
        let app = &admitted.manifest.app;
        Self {
            name: app.name.clone(),
            version: admitted.manifest.version.clone(),
            signed_by: admitted.trust.name.clone(),
            key: admitted.trust.key.id().to_string(),
            stage: stage_name(app.stage),
            capabilities: app.granted().names(),
            services: app.granted().service_names(),
            sha256: admitted.sha256.clone(),
            object_sha256: admitted.object_sha256.clone(),
        }
    }

    fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            return print_json(self);
        }
        let list = |names: &[String]| match names {
            [] => "none".into(),
            some => some.join(", "),
        };
        say::data(format_args!(
            "app           {} {}\nsigned by     {}, key {}\nstage         {}\ncapabilities  {}\nservices      {}\n\
             package       sha256 {}\nobject        sha256 {}\n",
            self.name,
            self.version,
            self.signed_by,
            self.key,
            self.stage,
            list(&self.capabilities),
            list(&self.services),
            self.sha256,
            self.object_sha256
        ))
    }
}

/// Runs `rosemary app verify`.
///
/// # Errors
/// The package is rejected, with the reason.
pub fn verify(args: &PackageArgs) -> anyhow::Result<()> {
    let config = Config::load(args.operator.config.as_deref())?;
    let files = Files::read(&args.package)?;
    let admitted = admit(&config, args, &files)?;
    PackageReport::of(&admitted).print(args.json)
}

/// Runs `rosemary app install`.
///
/// # Errors
/// The package is rejected, with the reason, or cannot be written.
pub fn install(args: &PackageArgs) -> anyhow::Result<()> {
    let config = Config::load(args.operator.config.as_deref())?;
    let files = Files::read(&args.package)?;
    let admitted = admit(&config, args, &files)?;
    let store = args.operator.store(&config)?;
    let name = &admitted.manifest.app.name;
    if let Some(other) = of_another(&store, &config, &admitted)? {
        bail!(
            "the installed app {name} was signed by {other}, and this package by {}. To replace an app by that of \
             another developer, remove it first: rosemary app remove {name}",
            admitted.trust.name
        );
    }
    store
        .install(name, &files)
        .with_context(|| format!("cannot install it as {}", store.path(name).display()))?;
    let report = PackageReport::of(&admitted);
    say::note(format_args!("installed {name} {}", report.version));
    if config.app(name).is_none() {
        let file = config.file.clone().or_else(config::default_file).unwrap_or_default();
        say::note(format_args!(
            "to run it, add this to {}:\n\n[[app]]\nname = \"{name}\"\n",
            file.display()
        ));
    }
    say::note("a running Rosemary uses it after its next start");
    report.print(args.json)
}

/// Runs `rosemary app remove`.
///
/// # Errors
/// The app is not installed or cannot be removed.
pub fn remove(args: &RemoveArgs) -> anyhow::Result<()> {
    let config = Config::load(args.operator.config.as_deref())?;
    let (store, name) = (args.operator.store(&config)?, &args.name);
    let removed = store.remove(name);
    let path = store.path(name);
    if !removed.with_context(|| format!("cannot remove {}", path.display()))? {
        bail!("the app {name} is not installed; `rosemary app list` shows the installed ones");
    }
    say::note(format_args!("removed {}", path.display()));
    if config.app(name).is_some() {
        say::note(format_args!("its [[app]] is still in the configuration; remove that, too"));
    }
    Ok(())
}

/// A package in the list; its JSON is a stable interface.
#[derive(Debug, Serialize)]
struct Line {
    name: String,
    version: Option<String>,
    signed_by: Option<String>,
    sha256: Option<String>,
    /// Why it would not run.
    refused: Option<String>,
}

/// Runs `rosemary app list`.
///
/// # Errors
/// The packages cannot be listed.
pub fn list(args: &ListArgs) -> anyhow::Result<()> {
    let config = Config::load(args.operator.config.as_deref())?;
    let store = args.operator.store(&config)?;
    let names = store.names().context("cannot list the installed packages")?;
    let gate = Gate::new(&config.trust)?;
    let line = |name: &String| match look(&store, &gate, name) {
        Ok(it) => Line {
            name: name.clone(),
            version: Some(it.manifest.version),
            signed_by: Some(it.trust.name.clone()),
            sha256: Some(it.sha256),
            refused: None,
        },
        Err(why) => Line {
            name: name.clone(),
            version: None,
            signed_by: None,
            sha256: None,
            refused: Some(why.to_string()),
        },
    };
    let lines: Vec<Line> = names.iter().map(line).collect();
    if args.json {
        return print_json(&lines);
    }
    if lines.is_empty() {
        say::note("no package is installed; `rosemary app install PACKAGE` installs one");
        return Ok(());
    }
    let mut table = Table::new(["APP", "VERSION", "SIGNED BY", "STATE"]);
    for it in &lines {
        let state = it.refused.as_ref().map_or("good".into(), |why| format!("REFUSED: {why}"));
        let [version, by] = [&it.version, &it.signed_by].map(|it| it.as_deref().unwrap_or("-"));
        table.row([&it.name, version, by, &state]);
    }
    say::data(table.text())
}

fn look<'a>(store: &Store, gate: &Gate<'a>, name: &str) -> Result<Admitted<'a>, Refused> {
    gate.admit(&store.read(name)?, Some(name), true)
}

fn admit<'a>(
    config: &'a Config,
    args: &PackageArgs,
    files: &Files,
) -> anyhow::Result<Admitted<'a>> {
    let gate = Gate::new(&config.trust)?;
    let refused = || format!("{} is rejected", args.package.display());
    gate.admit(files, None, false).with_context(refused)
}

/// Returns the signer of the installed app of this name if it is another developer. An installed
/// package that would be rejected may be replaced by anyone's.
fn of_another(
    store: &Store,
    config: &Config,
    new: &Admitted<'_>,
) -> anyhow::Result<Option<String>> {
    let name = &new.manifest.app.name;
    if !store.has(name) {
        return Ok(None);
    }
    let there = look(store, &Gate::new(&config.trust)?, name).ok();
    let other = there.filter(|there| there.trust.key != new.trust.key);
    Ok(other.map(|there| there.trust.name.clone()))
}

impl Operator {
    fn store(&self, config: &Config) -> anyhow::Result<Store> {
        Ok(Store::of(&self.state.resolve(config)?))
    }
}

fn print_json(it: &impl Serialize) -> anyhow::Result<()> {
    let json = serde_json::to_string(it).context("cannot write JSON")?;
    say::data(format_args!("{json}\n"))
}

fn parse_name(text: &str) -> Result<String, String> {
    if is_name(text) { Ok(text.to_owned()) } else { Err(format!("expected {NAME_FORM}")) }
}
