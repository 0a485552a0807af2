//! The resource monitor: the external process that starts, watches, restarts and stops the others.
//!
//! It owns the process tree, the listening sockets, the lock that keeps a second instance out and
//! the admin socket. It is the one program of Rosemary that must not die, so it does as little as
//! that: one thread, one loop ([`run`]), no call that waits for anybody (the thread that writes the
//! log does nothing else). When it does die, all its
//! children die with it.
//!
//! | file | what it is |
//! | --- | --- |
//! | `house.rs`, `house/` | the loop, and what each event does to the others; what operators are told |
//! | `supervise.rs` | when a program is started, ended and started again; no clock, no processes |
//! | `program.rs`, `zone.rs` | a process in step with its supervision; an app in its zone |
//! | `service.rs`, `rights.rs` | a service that apps use; what each app may ask of it |
//! | `object.rs` | an app's object: out of its package, or a file that is read again when it has changed |
//! | `packages/`, `child.rs` | installed packages, and who looks into them; asking a child one thing |
//! | `config_file.rs` | an app's own configuration |
//! | `progress.rs` | whether an app's calls come back |
//! | `hosting.rs` | which apps the kernel hosts, and until when |
//! | `output.rs`, `journal.rs` | what a program writes, on its way into the log; to the service that keeps it |
//! | `sandbox.rs`, `sandbox_probe.rs` | how each app is confined, and what is heard of it; trying that out |
//! | `usage/` | how much each program uses, and who keeps it below its limits |
//! | `attachment.rs` | which of the kernel's rings a zone holds |
//! | `admin.rs`, `reception.rs` | what operators ask; where they come in |
//! | `config/`, `choice.rs`, `numbers.rs` | `rosemary.toml`; which apps run; their numbers |
//! | `listen.rs`, `keys.rs`, `runtime.rs`, `state.rs`, `lock.rs`, `places.rs`, `users.rs`, `signals.rs`, `options.rs` | what is there before the loop begins |
//!
//! What it will never do: speak OpenFlow, parse packets, load code, wait on a child, or answer for
//! the kernel.

#![forbid(unsafe_code)]

pub mod admin;
mod attachment;
mod child;
mod choice;
mod config_file;
pub mod error;
mod hosting;
mod house;
mod journal;
pub mod keys;
mod listen;
mod lock;
mod numbers;
mod object;
pub mod options;
mod output;
pub mod packages;
pub mod places;
mod program;
mod progress;
mod reception;
mod rights;
mod runtime;
pub mod sandbox;
pub mod sandbox_probe;
mod service;
mod signals;
mod state;
pub mod supervise;
pub mod usage;
mod users;
mod zone;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::zone::Limit;
use kernel::control::Plain;
use tracing::{info, warn};

/// The meaning of `rosemary.toml`.
pub use ::config;

pub use crate::output::shown;

use crate::choice::App;
use crate::config::Config;
use crate::error::StartError;
use crate::house::{Entrance, House, Services};
use crate::options::Options;
use crate::packages::Store;
use crate::places::Places;
use crate::reception::{Admitted, Reception};
use crate::runtime::RuntimeDir;
use crate::sandbox::Require;
use crate::signals::Signals;
use crate::state::StateDir;
use crate::usage::{Keeper, Kept};

/// Keeps a line of our own log, as [`sys::log::in_background`] gives it, for the service that keeps it.
pub fn log_own(line: &[u8]) {
    journal::add_own(line);
}

/// Says, before anything is started, that the wall cannot be as high as the operator wants it.
fn check_wall(options: &Options, require: Require, zone: &Path) -> Result<(), StartError> {
    if options.unconfined {
        if require == Require::Full {
            return Err(StartError::NoWall("--unconfined was given".into()));
        }
        for _ in 0..3 {
            warn!("UNCONFINED: each app may do all that Rosemary may; this is for tests alone");
        }
        return Ok(());
    }
    if require == Require::Full {
        let report = sandbox_probe::run(zone)
            .map_err(|source| StartError::System { what: "try a wall around an app", source })?;
        if let Some(gaps) = report.gaps_text() {
            return Err(StartError::NoWall(gaps));
        }
    }
    Ok(())
}

/// Who keeps the limits of programs; says which are kept less than they could be.
fn keeper(options: &Options) -> Keeper {
    let keeper = match () {
        () if options.unconfined => Keeper::without_groups("--unconfined was given"),
        () if options.no_cgroups => Keeper::without_groups("--no-cgroups was given"),
        () => Keeper::find(),
    };
    if let Kept::GroupWithoutSwap { .. } = keeper.kept(Limit::Memory) {
        let hint = "boot with swapaccount=1";
        warn!(
            hint,
            "this machine does not count swap: an app's /tmp may be there beyond its limit"
        );
    }
    for limit in [Limit::Memory, Limit::Cpu] {
        if let Kept::Looking { why } = keeper.kept(limit) {
            let limit = limit.name();
            warn!(
                limit,
                why, "no cgroups: apps above it are ended, when they are seen; see rosemary doctor"
            );
        }
    }
    keeper
}

/// Says, before anything is started, that an app would see what is Rosemary's `own`.
fn check_reads(apps: &[App], own: &[PathBuf]) -> Result<(), StartError> {
    for app in apps {
        if let Some(why) = app.read.iter().find_map(|path| config::fs_read::why_not(path, own)) {
            return Err(StartError::Granted { app: app.name.clone(), why });
        }
    }
    Ok(())
}

/// Runs Rosemary until SIGTERM, SIGINT or a closed terminal; says whether everything could be stopped.
///
/// # Errors
/// [`StartError`] if it cannot start. Nothing but a state directory is left behind then.
pub fn run(options: &Options) -> Result<bool, StartError> {
    let system = |what| move |source| StartError::System { what, source };
    let config = Config::load(options.place.config.as_deref())?;
    let places = Places::find()?;
    let state_dir = options.state.resolve(&config)?;
    let dir = options.place.resolve(&config)?;
    // Before anything is made that a signal's default action would leave behind.
    let signals = Signals::catch().map_err(system("catch signals"))?;
    sys::process::forbid_new_privileges().map_err(system("forbid new privileges"))?;
    let runtime = RuntimeDir::claim(&dir)?;
    // Before the apps: what cannot be read there is not their fault.
    let state = StateDir::claim(&state_dir)?;
    let mut apps = choice::apps(&config, options, &places, &Store::of(state.path()))?;
    let own = [Some(dir.clone()), Some(state_dir.clone()), options.tls.resolve(&config)];
    let own: Vec<PathBuf> = own.into_iter().flatten().collect();
    check_reads(&apps, &own)?;
    if runtime.took_over() {
        warn!(dir = %dir.display(), "took over from an instance that had been killed");
    }
    let keys = keys::load(&options.tls, &config)?;
    let plain = options.plain(&config);
    if plain == Plain::Never && keys.is_none() {
        return Err(StartError::NobodyCouldConnect);
    }
    if options.allow_unsigned && plain == Plain::Any {
        return Err(StartError::UnsignedFromAnywhere);
    }
    if plain == Plain::Any {
        warn!("plain TCP was allowed from anywhere: who reaches the port can be any switch");
    }
    let listeners = listen::bind_all(&options.listen(&config), runtime.took_over())?;
    let numbers = numbers::of(&state, apps.iter().map(|app| (app.name.as_str(), app.key())))?;
    check_wall(options, config.require, &places.zone)?;
    let (admin, group) = runtime.bind_admin()?;
    let admitted = Admitted { uid: rustix::process::geteuid().as_raw(), group };
    let reception = Reception::new(admin, admitted);
    let listen = listeners.iter().map(|it| it.address().to_string()).collect::<Vec<_>>().join(" ");
    let file = config.file.as_deref().unwrap_or(Path::new("none")).display();
    let (pid, dir) = (std::process::id(), dir.display());
    info!(pid, listen, %dir, config = %file, apps = apps.len(), "Rosemary started");
    if apps.is_empty() {
        warn!("no app runs: nobody answers the switches; name some with [[app]] or --app");
    }
    choice::warn_of_unsigned(&apps);
    // Here, as all of them are there now.
    let never: Arc<[PathBuf]> = own.iter().map(|dir| config::fs_read::real(dir)).collect();
    for app in &mut apps {
        app.never = never.clone();
    }
    let apps = numbers.into_iter().zip(apps);
    let workers = options.workers(&config);
    let entrance = Entrance { listeners, plain, keys, workers, tuning: config.tuning };
    let keeper = keeper(options);
    let wall = (!options.unconfined).then_some(config.require);
    let services = Services { state_dir, quotas: config.quotas };
    let mut house =
        House::new(places, apps, entrance, reception, signals, (wall, keeper), &services)?;
    house.tell_users();
    house.run().map_err(system("wait for events"))
}
