//! `rosemary faucet`: starts Rosemary with Faucet, unmodified, in a zone of its own.
//!
//! The command writes a configuration and executes the monitor with it, as `rosemary ryu` does. Faucet may read the directory of its
//! `faucet.yaml` and accept connections for its metrics. It reads the file again when it changes.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use control::hosting::Hosting;
use control::policy::Capability;
use monitor::installation;
use monitor::python;

use crate::readable::{ensure_grantable, ensure_readable};
use crate::ryu::{LIMITS, execute, quoted};
use crate::say;

/// Faucet's main module, below a directory of the import path.
const FAUCET: &str = "faucet/faucet.py";

/// The arguments of `rosemary faucet`.
#[derive(Debug, Clone, Args)]
pub struct FaucetArgs {
    /// Faucet's configuration; Faucet may read the whole directory
    #[arg(long, value_name = "FILE", default_value = "/etc/faucet/faucet.yaml")]
    pub config: PathBuf,
    /// The address of Faucet's metrics for Prometheus
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9302")]
    pub prometheus: SocketAddr,
    /// The directory that contains Faucet's package, if `make faucet` has not installed it
    #[arg(long, value_name = "DIR")]
    pub python_path: Option<PathBuf>,
    /// Prints the configuration, as the beginning of a permanent one
    #[arg(long)]
    pub print_config: bool,
    /// Further arguments for `rosemary up`
    #[arg(last = true)]
    pub up: Vec<OsString>,
}

/// Executes the monitor. Returns only if it prints the configuration.
///
/// # Errors
/// `faucet.yaml`, Faucet or `rosemary-ryu` is missing, or the monitor cannot be executed.
pub fn run(args: &FaucetArgs) -> anyhow::Result<ExitCode> {
    let config = config(args, package(args)?.as_deref())?;
    if args.print_config {
        say::data(format_args!("{config}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let (dir, file) = directory(args)?;
    ensure_readable(&dir)?;
    ensure_readable(&file)?;
    say::note(notice(args)?);
    execute(&config, &args.up)
}

/// States what Faucet may read.
fn notice(args: &FaucetArgs) -> anyhow::Result<String> {
    let dir = directory(args)?.0;
    Ok(format!(
        "Faucet may read all files of {} and below, as {} may include others",
        dir.display(),
        args.config.display()
    ))
}

/// Returns the directory that contains Faucet; `None` if the interpreter finds it by itself.
fn package(args: &FaucetArgs) -> anyhow::Result<Option<PathBuf>> {
    if let Some(dir) = &args.python_path {
        let dir = std::path::absolute(dir)?;
        ensure!(dir.join(FAUCET).is_file(), "{} does not contain {FAUCET}", dir.display());
        return Ok(Some(dir));
    }
    let dirs: Vec<PathBuf> = installation::faucet_dirs()?;
    if let Some(dir) = dirs.iter().find(|dir| dir.join(FAUCET).is_file()) {
        return Ok(Some(dir.clone()));
    }
    if python::has_file(&python::interpreter()?, Path::new(FAUCET)) {
        return Ok(None);
    }
    let dirs: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
    bail!(
        "Faucet is not installed in {}; type in the source tree: make faucet, and make install if Rosemary is installed; or name the \
         directory of another Faucet with --python-path",
        dirs.join(" or ")
    )
}

/// Returns the directory that Faucet may read, and `faucet.yaml`.
fn directory(args: &FaucetArgs) -> anyhow::Result<(PathBuf, PathBuf)> {
    let file = std::path::absolute(&args.config)?;
    ensure!(file.is_file(), "{} is missing; name the file with --config", file.display());
    let file = file.canonicalize().with_context(|| format!("cannot follow {}", file.display()))?;
    let dir = file.parent().unwrap_or(Path::new("/"));
    ensure_grantable(dir, &file)?;
    Ok((dir.to_owned(), file))
}

/// The configuration of Rosemary for Faucet in this directory.
fn config(args: &FaucetArgs, package: Option<&Path>) -> anyhow::Result<String> {
    let (dir, file) = directory(args)?;
    let read = format!("fs.read:{}", dir.display());
    // Faucet finds the links of a stack with LLDP.
    let capabilities = Hosting::RYU.capabilities.iter().copied();
    let capabilities = capabilities.chain([Capability::TopologyProbe]);
    let capabilities = capabilities.map(|it| it.to_string()).chain([read]);
    let capabilities = capabilities.map(|it| quoted(&it)).collect::<Vec<_>>().join(", ");
    let path = package.map_or(String::new(), |path| {
        format!("python-path = [{}]\n", quoted(&path.to_string_lossy()))
    });
    let (address, port) = (args.prometheus.ip().to_string(), args.prometheus.port().to_string());
    let environment = [
        ("FAUCET_CONFIG", &*file.to_string_lossy()),
        ("FAUCET_CONFIG_STAT_RELOAD", "1"),
        ("FAUCET_LOG", "STDOUT"),
        ("FAUCET_EXCEPTION_LOG", "STDERR"),
        ("FAUCET_PROMETHEUS_ADDR", &address),
        ("FAUCET_PROMETHEUS_PORT", &port),
    ]
    .map(|(name, value)| format!("{name} = {}\n", quoted(value)));
    Ok(format!(
        "# Made by `rosemary faucet`.\n\n[[app]]\nname = \"faucet\"\nhost = \"ryu\"\nobject = \"faucet.faucet\"\n\
         band = [1, 65535]\ncapabilities = [{capabilities}]\nlisten = [{}]\n{LIMITS}{path}options = {{ renew-flows = \"true\" }}\n\n[app.env]\n{}",
        quoted(&format!("prometheus={}", args.prometheus)),
        environment.concat(),
    ))
}

#[cfg(test)]
mod tests {
    use config::{Config, Limit};

    use super::*;

    fn args(config: &Path) -> FaucetArgs {
        FaucetArgs {
            config: config.into(),
            prometheus: "127.0.0.1:9302".parse().unwrap(),
            python_path: None,
            print_config: false,
            up: Vec::new(),
        }
    }

    /// A directory that can be granted, unlike one below /tmp, with a file.
    fn grantable() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let file = dir.path().canonicalize().unwrap().join("faucet.yaml");
        std::fs::write(&file, "").unwrap();
        (dir, file)
    }

    #[test]
    fn faucet_may_read_its_directory_and_serve_metrics() {
        let (_dir, file) = grantable();
        let dir = file.parent().unwrap().display();
        let text = config(&args(&file), Some(Path::new("/opt/faucet"))).unwrap();
        let read = Config::parse("/rosemary.toml".into(), text.clone());
        let read = read.unwrap_or_else(|error| panic!("{error}: {text}"));
        let apps = read.apps.unwrap();
        let python = &apps[0].host_keys;
        assert_eq!(python.module.as_deref(), Some("faucet.faucet"));
        assert_eq!(python.path, [Path::new("/opt/faucet")]);
        assert_eq!(python.listen[0].1.port(), 9302);
        let has = |name: &str| apps[0].capabilities.iter().any(|it| it.to_string() == name);
        let notice = notice(&args(&file)).unwrap();
        assert!(notice.contains(&format!("all files of {dir}")), "{notice}");
        assert!(text.contains(&format!("fs.read:{dir}")) && has("topology.probe"), "{text}");
        assert_eq!(apps[0].env["FAUCET_PROMETHEUS_PORT"], "9302");
        assert_eq!(python.options["renew-flows"], "true");
        assert_eq!(apps[0].limits.of(Limit::Log).hard, 64 << 10);
        assert_eq!(read.notices, [""; 0]);
    }

    #[test]
    fn faucet_of_the_interpreter_needs_no_path() {
        let (_dir, file) = grantable();
        assert!(!config(&args(&file), None).unwrap().contains("python-path"));
    }

    #[test]
    fn mistakes_name_what_is_missing() {
        let missing = config(&args(Path::new("/nowhere/faucet.yaml")), None).unwrap_err();
        assert!(missing.to_string().contains("/nowhere/faucet.yaml is missing"), "{missing}");
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let wrong = FaucetArgs { python_path: Some(here.into()), ..args(here) };
        let wrong = package(&wrong).unwrap_err().to_string();
        assert!(wrong.contains("does not contain faucet/faucet.py"), "{wrong}");
        // Its directory is /tmp.
        let file = tempfile::NamedTempFile::new_in("/tmp").unwrap();
        let hidden = config(&args(file.path()), None).unwrap_err().to_string();
        assert!(hidden.contains("to another directory"), "{hidden}");
    }
}
