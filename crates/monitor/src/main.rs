//! `rosemary-monitor`: the program that `rosemary up` executes. See the library.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use rosemary_monitor::options::Options;
use rustix::fs::{FlockOperation, flock};
use tracing::warn;

/// The time that a reader of the log has for its last lines.
const FLUSH_TIME: Duration = Duration::from_millis(500);

/// The exit code of a start that fails for a mistake in the configuration: `EX_CONFIG` of sysexits(3).
/// `etc/rosemary.service` relies on it.
const MISCONFIGURED: u8 = 78;

/// Starts, watches, restarts and stops Rosemary; `rosemary up` executes this program.
#[derive(Debug, Parser)]
#[command(name = "rosemary-monitor", version)]
struct Command {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    sys::program::name_process();
    let command = Command::parse();
    let confined =
        if command.options.unconfined { Ok(()) } else { sys::sandbox::confine_monitor() };
    sys::log::in_background(rosemary_monitor::log_own);
    if let Err(error) = confined {
        warn!(%error, "could not drop privileges that the monitor does not need");
    }
    let config = command.options.instance.config.clone();
    let temporary = config.filter(|_| command.options.remove_config).map(Temporary::new);
    let code = run(&command.options);
    if let Some(temporary) = temporary {
        temporary.remove();
    }
    sys::log::flush(FLUSH_TIME);
    code
}

/// A configuration in a directory of its own, which a command has made for this instance.
struct Temporary {
    file: PathBuf,
    /// Shows other commands that the directory is used.
    lock: io::Result<File>,
}

impl Temporary {
    fn new(file: PathBuf) -> Self {
        let lock = File::open(dir_of(&file)).and_then(|dir| {
            flock(&dir, FlockOperation::LockShared)?;
            Ok(dir)
        });
        if let Err(error) = &lock {
            warn!(file = %file.display(), %error, "could not lock the directory of the temporary configuration");
        }
        Self { file, lock }
    }

    fn remove(self) {
        let dir = dir_of(&self.file);
        let removed = std::fs::remove_file(&self.file).and_then(|()| std::fs::remove_dir(dir));
        if let Err(error) = removed {
            warn!(file = %self.file.display(), %error, "could not remove the temporary configuration");
        }
        drop(self.lock);
    }
}

fn dir_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("/"))
}

fn run(options: &Options) -> ExitCode {
    match rosemary_monitor::run(options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            sys::log::pass_on(format!("rosemary: {error}\n").as_bytes());
            let mut cause = error.source();
            while let Some(error) = cause {
                sys::log::pass_on(format!("  because: {error}\n").as_bytes());
                cause = error.source();
            }
            if error.is_of_configuration() {
                ExitCode::from(MISCONFIGURED)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}
