//! `rosemary ryu`: starts Rosemary with apps of Ryu or os-ken, each in a zone of its own, and takes the options of `ryu-manager`.
//!
//! The command writes a configuration for these apps and executes the monitor with it. `--print-config` prints it instead, as the
//! beginning of a permanent one.

mod inspection;
mod request;
mod written;

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, ensure};
use clap::Args;
use monitor::installation;
use monitor::python::{self, Interpreter};

use self::inspection::Inspection;
use self::request::Request;
pub(crate) use self::request::{LIMITS, quoted};
use self::written::Written;
use crate::readable::ensure_readable;
use crate::say;

/// The arguments of `rosemary ryu`.
#[derive(Debug, Clone, Args)]
pub struct RyuArgs {
    /// Apps, as files or as names of modules, and options of `ryu-manager`; or `check` and files
    ///
    /// --app-lists NAME,NAME names further apps. --config-file FILE has values of options, and the apps may read it.
    /// --observe-links lets the apps send LLDP. --wsapi-host and --wsapi-port give the first app with a web interface an address, and each
    /// further app the next port. --env NAME passes an environment variable on, and --env NAME=VALUE sets one. --ofp-listen-host and --ofp-tcp-listen-port name the address for switches. --python-path DIR joins
    /// the import path, and --print-config prints the configuration. --runtime-dir, --state-dir, --tls-dir, --plain, --openflow and --watch are
    /// those of `rosemary up`; without --openflow, switches speak a version that all apps support. The apps receive all others that `ryu-manager` has.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub arguments: Vec<String>,
}

/// Executes the monitor, or the check. Returns only if it prints something.
///
/// # Errors
/// The arguments are wrong, `rosemary-ryu` is not installed, or a program cannot be executed.
pub fn run(args: &RyuArgs) -> anyhow::Result<ExitCode> {
    if let [command, files @ ..] = args.arguments.as_slice()
        && command == "check"
    {
        return check(files);
    }
    if args.arguments.iter().any(|argument| argument == "--version") {
        say::data(format_args!("rosemary {}\n", env!("CARGO_PKG_VERSION")))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut request = Request::parse(&args.arguments)?;
    request.config()?; // a mistake is reported before the source is read
    match interpreter() {
        Ok(interpreter) => {
            let found = inspect(&request, &interpreter)?;
            found.refuse_beside()?;
            request.web.clone_from(&found.web);
            if !request.names_versions() {
                request.openflow = found.openflow()?;
            }
            let is_set = |name: &str| std::env::var_os(name).is_some();
            found.withheld(|name| request.has_variable(name), is_set).for_each(say::note);
        }
        Err(_) if request.prints => {} // the configuration may be for another machine
        Err(error) => return Err(error),
    }
    let config = request.config()?;
    request.about_ports()?.into_iter().for_each(say::note);
    request.about_versions().into_iter().for_each(say::note);
    if request.prints {
        say::data(format_args!("{config}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    for path in request.python_path.iter().chain(&request.read) {
        ensure_readable(path)?;
    }
    execute(&config, &request.up)
}

/// Executes the monitor with this configuration and further arguments. Returns only if it fails.
///
/// # Errors
/// `rosemary-ryu` is not installed, or the monitor cannot be executed.
pub(crate) fn execute(config: &str, up: &[OsString]) -> anyhow::Result<ExitCode> {
    interpreter()?;
    let program = installation::program("rosemary-monitor", &installation::own_dir()?)?;
    let written = Written::new(&std::env::temp_dir(), config)?;
    let mut command = Command::new(&program);
    command.args(["--allow-unsigned", "--remove-config", "--config"]).arg(written.file()).args(up);
    if !up.iter().any(|option| option == "--watch") {
        // With it, a held app starts again when its file is corrected.
        command.arg("--end-with-apps");
    }
    let error = command.exec();
    written.remove();
    Err(error).with_context(|| format!("cannot execute {}", program.display()))
}

fn check(files: &[String]) -> anyhow::Result<ExitCode> {
    ensure!(!files.is_empty(), "name the files to check: rosemary ryu check app.py");
    let interpreter = interpreter()?;
    let mut command = Command::new(&interpreter.program);
    let error = command.args(["-I", "-m", "rosemary_ryu.check"]).args(files).exec();
    Err(error).with_context(|| format!("cannot execute {}", interpreter.program.display()))
}

/// Has the interpreter read the source of the apps: it knows which modules it has itself.
fn inspect(request: &Request, interpreter: &Interpreter) -> anyhow::Result<Inspection> {
    let mut command = Command::new(&interpreter.program);
    command.args(["-I", "-m", "rosemary_ryu.beside"]);
    for dir in &request.python_path {
        command.arg("--python-path").arg(dir);
    }
    let output = command.arg("--").args(request.apps()).stderr(Stdio::inherit()).output();
    let output =
        output.with_context(|| format!("cannot execute {}", interpreter.program.display()))?;
    ensure!(output.status.success(), "rosemary-ryu could not read the apps; type: make python");
    serde_json::from_slice(&output.stdout)
        .context("rosemary-ryu is of another version; type: make python")
}

fn interpreter() -> anyhow::Result<Interpreter> {
    let interpreter = python::interpreter()?;
    ensure!(interpreter.ryu, "rosemary-ryu is not installed; type: make python");
    Ok(interpreter)
}
