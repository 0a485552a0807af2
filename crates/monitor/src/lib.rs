//! The resource monitor: the external process that starts, watches, restarts and stops the others.
//!
//! It owns the process tree, the listening sockets, the lock that keeps a second instance out and
//! the admin socket. It is the one program of Rosemary that must not die, so it does as little as
//! that: one thread, one loop ([`run`]), no call that waits for anybody. When it does die, all its
//! children die with it.
//!
//! | file | what it is |
//! | --- | --- |
//! | `house.rs` | the loop, and what each event does to the others |
//! | `supervise.rs` | when a program is started, ended and started again; no clock, no processes |
//! | `program.rs`, `zone.rs` | a process in step with its supervision; an app in its zone |
//! | `attachment.rs` | which of the kernel's rings a zone holds |
//! | `admin.rs`, `reception.rs` | what operators ask; where they come in |
//! | `listen.rs`, `keys.rs`, `runtime.rs`, `places.rs`, `users.rs`, `signals.rs`, `options.rs` | what is there before the loop begins |
//!
//! What it will never do: speak OpenFlow, parse packets, load code, wait on a child, or answer for
//! the kernel.

#![forbid(unsafe_code)]

pub mod admin;
mod attachment;
pub mod error;
mod house;
pub mod keys;
mod listen;
pub mod options;
pub mod places;
mod program;
mod reception;
mod runtime;
mod signals;
pub mod supervise;
mod users;
mod zone;

use kernel::control::Plain;
use tracing::{info, warn};

use crate::error::StartError;
use crate::house::{Entrance, House};
use crate::options::Options;
use crate::places::Places;
use crate::reception::{Admitted, Reception};
use crate::runtime::RuntimeDir;
use crate::signals::Signals;
use crate::users::Users;

/// Runs Rosemary until SIGTERM, SIGINT or a closed terminal; says whether everything could be stopped.
///
/// # Errors
/// [`StartError`] if it cannot start. Nothing is left behind then.
pub fn run(options: &Options) -> Result<bool, StartError> {
    let system = |what| move |source| StartError::System { what, source };
    let places = Places::find()?;
    // Before anything is made that a signal's default action would leave behind.
    let signals = Signals::catch().map_err(system("catch signals"))?;
    sys::process::forbid_new_privileges().map_err(system("forbid new privileges"))?;
    let dir = options.place.resolve()?;
    let runtime = RuntimeDir::claim(&dir)?;
    if runtime.took_over() {
        warn!(dir = %dir.display(), "took over from an instance that had been killed");
    }
    let keys = keys::load(&options.tls)?;
    if options.plain == Plain::Never && keys.is_none() {
        return Err(StartError::NobodyCouldConnect);
    }
    if options.plain == Plain::Any {
        warn!("plain TCP was allowed from anywhere: who reaches the port can be any switch");
    }
    let listeners = listen::bind_all(&options.listen, runtime.took_over())?;
    let (admin, group) = runtime.bind_admin()?;
    let admitted = Admitted { uid: rustix::process::geteuid().as_raw(), group };
    let reception = Reception::new(admin, admitted);
    let listen = listeners.iter().map(|it| it.address().to_string()).collect::<Vec<_>>().join(" ");
    info!(pid = std::process::id(), listen, dir = %dir.display(), "Rosemary started");
    let entrance = Entrance { listeners, plain: options.plain, keys };
    let mut house = House::new(places, entrance, Users::find(), reception, signals);
    house.tell_users();
    house.run().map_err(system("wait for events"))
}
