//! Manages the packages of an operator: `rosemary app verify`, `install`, `remove` and `list`.
//!
//! A package is *admitted* if a developer whom the operator trusts has signed it and it requests no more than that developer
//! may. Otherwise it is *refused*. [`Gate`] decides, here as at each start of Rosemary.

use std::cmp::Ordering;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use config::instance::{InstancePaths, StateDir};
use config::{Config, NAME_FORM, is_name, stage_name};
use control::change::{AppVerb, Change};
use monitor::packages::{Admitted, Gate, PackageFiles, Refused, Store, read_package};
use serde::Serialize;

use super::version;
use crate::change::{self, ChangeArgs};
use crate::client;
use crate::say;
use crate::table::{Table, output_width};

/// Paths of the operator's configuration and packages.
#[derive(Debug, Clone, Default, Args)]
pub struct OperatorPaths {
    /// The configuration; `None` for the default one.
    #[arg(
        long,
        value_name = "FILE",
        env = "ROSEMARY_CONFIG",
        hide_env_values = true,
        help = "Configuration; its [[trust]] tables list the trusted developers [default: that of the running Rosemary, \
                otherwise as for `rosemary up`]"
    )]
    pub config: Option<PathBuf>,
    /// The directory of a running Rosemary's sockets; `None` for the default ones.
    #[arg(
        long,
        value_name = "DIR",
        env = "ROSEMARY_RUNTIME_DIR",
        hide_env_values = true,
        help = "Directory of the sockets of the running Rosemary [default: as for `rosemary up`]"
    )]
    pub runtime_dir: Option<PathBuf>,
    /// The state directory, in which the installed packages are.
    #[command(flatten)]
    pub state: StateDir,
}

/// Options of `rosemary app install`.
#[derive(Debug, Clone, Args)]
pub struct InstallArgs {
    /// The package, the configuration and the form of the output.
    #[command(flatten)]
    pub package: PackageArgs,
    /// Install an older version, or replace a different package of the same version, without asking
    #[arg(long, short)]
    pub yes: bool,
}

/// Options of `rosemary app verify`, and of `rosemary app install` among others.
#[derive(Debug, Clone, Args)]
pub struct PackageArgs {
    /// The package; its signature is in the file next to it with the suffix .minisig
    pub package: PathBuf,
    /// Configuration and packages.
    #[command(flatten)]
    pub operator: OperatorPaths,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `rosemary app upgrade`.
#[derive(Debug, Clone, Args)]
pub struct UpgradeArgs {
    /// The package; its signature is in the file next to it with the suffix .minisig
    pub package: PathBuf,
    /// The state directory, in which the installed packages are.
    #[command(flatten)]
    pub state: StateDir,
    /// How to make the change.
    #[command(flatten)]
    pub how: ChangeArgs,
}

/// Options of `rosemary app remove`.
#[derive(Debug, Clone, Args)]
pub struct RemoveArgs {
    /// Name of the app
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// Configuration and packages.
    #[command(flatten)]
    pub operator: OperatorPaths,
}

/// Options of `rosemary app list`.
#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    /// Configuration and packages.
    #[command(flatten)]
    pub operator: OperatorPaths,
    /// Show whole reasons, however wide
    #[arg(long)]
    pub wide: bool,
    /// Print JSON: a list with an object per package
    #[arg(long)]
    pub json: bool,
}

/// An admitted package; its JSON is a stable interface.
#[derive(Debug, Serialize)]
struct PackageReport {
    name: String,
    version: String,
    signed_by: String,
    key: String,
    stage: &'static str,
    capabilities: Vec<String>,
    services: Vec<String>,
    /// The SHA-256 of the package.
    sha256: String,
    /// The SHA-256 of the object in it, which is the app's code.
    object_sha256: String,
}

impl PackageReport {
    fn of(admitted: &Admitted<'_>) -> Self {
        let app = &admitted.manifest.app;
        Self {
            name: app.name.clone(),
            version: admitted.manifest.version.clone(),
            signed_by: admitted.developer().to_owned(),
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
/// The package is refused, with the reason.
pub fn verify(args: &PackageArgs) -> anyhow::Result<()> {
    let config = args.operator.config()?;
    let files = read_package(&args.package)?;
    let admitted = admit_new(&config, args, &files)?;
    PackageReport::of(&admitted).print(args.json)
}

/// Runs `rosemary app install`.
///
/// # Errors
/// The package is refused, with the reason, or cannot be written, or the operator does not confirm.
pub fn install(args: &InstallArgs) -> anyhow::Result<()> {
    let InstallArgs { package: args, yes } = args;
    let config = args.operator.config()?;
    let files = read_package(&args.package)?;
    let admitted = admit_new(&config, args, &files)?;
    let store = args.operator.store(&config)?;
    let name = &admitted.manifest.app.name;
    let gate = Gate::new(&config.trust)?;
    let installed = installed(&store, &gate, name);
    if let Some(other) = other_developer(installed.as_ref(), &admitted) {
        bail!(
            "the installed app {name} was signed by {other}, and this package by {}. To replace an app by that of \
             another developer, remove it first: rosemary app remove {name}",
            admitted.developer()
        );
    }
    if let Some(question) = installed.and_then(|installed| question(&installed, &admitted))
        && !yes
    {
        confirm(&question)?;
    }
    store
        .install(name, &files)
        .with_context(|| format!("cannot install it as {}", store.path(name).display()))?;
    let report = PackageReport::of(&admitted);
    let by = config.file.iter().map(|file| format!(" by the [[trust]] in {}", file.display()));
    say::note(format_args!("installed {name} {}{}", report.version, by.collect::<String>()));
    if config.app(name).is_none() {
        let file = config.file.clone().or_else(config::default_file);
        say::note(format_args!("{}", how_to_run(name, file.as_deref())));
    }
    say::note("a running Rosemary uses it after `rosemary reload`");
    report.print(args.json)
}

/// Runs `rosemary app upgrade`.
///
/// # Errors
/// The package is refused, with the reason, the operator does not confirm, or the running Rosemary did not replace the app.
pub fn upgrade(args: &UpgradeArgs) -> anyhow::Result<()> {
    let config = in_force(&args.how.instance)?;
    let files = read_package(&args.package)?;
    let gate = Gate::new(&config.trust)?;
    let admitted = gate.admit_new(&files).with_context(|| refusal(&args.package, &config))?;
    let store = Store::of(&args.state.resolve(&config)?);
    let name = &admitted.manifest.app.name;
    let installed = installed(&store, &gate, name);
    if let Some(other) = other_developer(installed.as_ref(), &admitted) {
        bail!(
            "the installed app {name} was signed by {other}, and this package by {}",
            admitted.developer()
        );
    }
    if let Some(question) = installed.and_then(|installed| question(&installed, &admitted))
        && !args.how.yes
    {
        confirm(&question)?;
    }
    // Before anything is written, to learn whether Rosemary runs.
    client::connect(&args.how.instance)?;
    store.stage(name, &files).with_context(|| {
        format!("cannot write into the directory of {}", store.path(name).display())
    })?;
    change::make(Change::App { app: name.clone(), verb: AppVerb::Upgrade }, &args.how)
}

/// Runs `rosemary app remove`.
///
/// # Errors
/// The app is not installed or cannot be removed.
pub fn remove(args: &RemoveArgs) -> anyhow::Result<()> {
    let config = args.operator.config()?;
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
struct ListedPackage {
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
    let config = args.operator.config()?;
    let store = args.operator.store(&config)?;
    let names = store.names().context("cannot list the installed packages")?;
    let gate = Gate::new(&config.trust)?;
    let listed = |name: &String| match admit_installed(&store, &gate, name) {
        Ok(it) => ListedPackage {
            name: name.clone(),
            signed_by: Some(it.developer().to_owned()),
            version: Some(it.manifest.version),
            sha256: Some(it.sha256),
            refused: None,
        },
        Err(why) => ListedPackage {
            name: name.clone(),
            version: None,
            signed_by: None,
            sha256: None,
            refused: Some(why.to_string()),
        },
    };
    let packages: Vec<ListedPackage> = names.iter().map(listed).collect();
    if args.json {
        return print_json(&packages);
    }
    if packages.is_empty() {
        say::note("no package is installed; `rosemary app install PACKAGE` installs one");
        return Ok(());
    }
    let mut table = Table::new(["APP", "VERSION", "SIGNED BY", "STATE"])
        .expendable(&["SIGNED BY"])
        .prose("STATE");
    for it in &packages {
        let state = it.refused.as_ref().map_or("good".into(), |why| format!("REFUSED: {why}"));
        let [version, by] = [&it.version, &it.signed_by].map(|it| it.as_deref().unwrap_or("-"));
        table.row([&it.name, version, by, &state]);
    }
    say::table(&table.format(output_width(args.wide)))
}

/// Admits an installed package, as a start of Rosemary would.
fn admit_installed<'a>(
    store: &Store,
    gate: &Gate<'a>,
    name: &str,
) -> Result<Admitted<'a>, Refused> {
    gate.admit_installed(&store.read(name)?, name)
}

/// Admits the package that the command names.
fn admit_new<'a>(
    config: &'a Config,
    args: &PackageArgs,
    files: &PackageFiles,
) -> anyhow::Result<Admitted<'a>> {
    let gate = Gate::new(&config.trust)?;
    gate.admit_new(files).with_context(|| refusal(&args.package, config))
}

/// Returns the installed app of this name.
///
/// Returns `None` if the installed package is refused: another developer may replace it. That is safe, as a refused package
/// does not run, and as an app of another key gets another number, so that it cannot use the flows and data of the former.
fn installed<'a>(store: &Store, gate: &Gate<'a>, name: &str) -> Option<Admitted<'a>> {
    if store.has(name) { admit_installed(store, gate, name).ok() } else { None }
}

/// Returns the developer of the installed app, if another one signed `new`.
fn other_developer(installed: Option<&Admitted<'_>>, new: &Admitted<'_>) -> Option<String> {
    // By key: the name of a developer is only the operator's word for a key.
    let other = installed.filter(|installed| installed.trust.key != new.trust.key);
    other.map(|installed| installed.developer().to_owned())
}

/// Returns what the operator must confirm before `new` replaces the installed app; `None` for a newer version and for the same
/// package again.
fn question(installed: &Admitted<'_>, new: &Admitted<'_>) -> Option<String> {
    let (name, before, after) =
        (&new.manifest.app.name, &installed.manifest.version, &new.manifest.version);
    if installed.sha256 == new.sha256 {
        return None;
    }
    match version::compare(after, before) {
        Ordering::Greater => None,
        Ordering::Equal => Some(format!(
            "a different package of {name} {before} is installed, and this one would replace it"
        )),
        Ordering::Less => {
            Some(format!("{name} {before} is installed, and {after} is an older version"))
        }
    }
}

/// Asks on the terminal whether to go on.
///
/// # Errors
/// The answer is no, or there is no terminal to ask on.
fn confirm(question: &str) -> anyhow::Result<()> {
    let (stdin, mut stderr) = (std::io::stdin(), std::io::stderr());
    if !stdin.is_terminal() {
        bail!("{question}; confirm that with --yes");
    }
    write!(stderr, "{question}. Install it? [y/N] ")?;
    let mut answer = String::new();
    stdin.lock().read_line(&mut answer)?;
    if !["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) {
        bail!("nothing was installed");
    }
    Ok(())
}

/// The heading of a refusal, which names the file that decides.
fn refusal(package: &Path, config: &Config) -> String {
    let package = package.display();
    match &config.file {
        Some(file) => format!("{package} is refused by the [[trust]] in {}", file.display()),
        None => format!("{package} is refused, because no configuration has a [[trust]]"),
    }
}

/// Reads the configuration that `paths` name, otherwise that of the running Rosemary, otherwise the default one.
///
/// # Errors
/// It cannot be read, or has a mistake.
fn in_force(paths: &InstancePaths) -> anyhow::Result<Config> {
    let running = || {
        let monitor = client::connect(paths).ok()?; // none runs, or none that this user may ask
        // The default file need not exist.
        monitor.config().ok()?.file.filter(|file| Some(file) != config::default_file().as_ref())
    };
    let file = paths.config.clone().or_else(running);
    Ok(Config::load(file.as_deref())?)
}

impl OperatorPaths {
    fn config(&self) -> anyhow::Result<Config> {
        let Self { config, runtime_dir, .. } = self.clone();
        in_force(&InstancePaths { config, runtime_dir })
    }

    fn store(&self, config: &Config) -> anyhow::Result<Store> {
        Ok(Store::of(&self.state.resolve(config)?))
    }
}

/// The hint after the installation of an app that `file`, the configuration, does not name.
fn how_to_run(name: &str, file: Option<&Path>) -> String {
    let to = match file {
        Some(file) => format!("add this to {}", file.display()),
        // Neither the home directory nor another place of the default configuration is known.
        None => "write this to a file and name that with `rosemary up --config`".into(),
    };
    format!("to run it, {to}:\n\n[[app]]\nname = \"{name}\"\n")
}

fn print_json(it: &impl Serialize) -> anyhow::Result<()> {
    let json = serde_json::to_string(it).context("cannot write JSON")?;
    say::data(format_args!("{json}\n"))
}

fn parse_name(text: &str) -> Result<String, String> {
    if is_name(text) { Ok(text.to_owned()) } else { Err(format!("expected {NAME_FORM}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_names_a_file_or_the_option() {
        let hint = how_to_run("hub", Some(Path::new("/etc/rosemary/rosemary.toml")));
        assert!(hint.starts_with("to run it, add this to /etc/rosemary/rosemary.toml:"), "{hint}");
        assert!(hint.ends_with("name = \"hub\"\n"), "{hint}");
        let hint = how_to_run("hub", None);
        assert!(hint.contains("--config") && !hint.contains(" :"), "{hint}");
    }
}
