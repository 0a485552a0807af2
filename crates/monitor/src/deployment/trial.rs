//! Tries whether the apps that a dry run would start can be loaded, in a thread of its own.
//!
//! Only an app can interpret its own configuration. A real change loads it in a process that then takes over; a dry run loads it
//! in a sandbox that is connected to nothing, and ends it at once.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use config::Require;

use super::planner::{PlannedApp, Planner};
use crate::trial_load;
use supervisor::change::cannot_run;
use supervisor::text::with_own_file;

/// The trial of some apps.
#[derive(Debug)]
pub(crate) struct Trial {
    result: Receiver<Result<(), String>>,
    wake: UnixStream,
}

impl Trial {
    /// Begins to try these apps, in their order, until one cannot be loaded.
    ///
    /// # Errors
    /// The system is out of descriptors or threads.
    pub(crate) fn begin(
        planner: &Planner,
        apps: Vec<PlannedApp>,
        require: Require,
    ) -> io::Result<Self> {
        let (wake, mut waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let (sender, result) = sync_channel(1);
        let own = planner.own.clone();
        std::thread::Builder::new().name("trial".into()).spawn(move || {
            let mut apps = apps.into_iter();
            let tried = apps.try_for_each(|app| try_app(app, &own, require));
            let _ = sender.send(tried); // the receiver may be gone, if Rosemary stops
            let _ = waker.write_all(&[1]);
        })?;
        Ok(Self { result, wake })
    }

    /// Whether all apps can be loaded, once that is known.
    pub(crate) fn take(&self) -> Option<Result<(), String>> {
        match self.result.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                Some(Err("the trial of the apps ended unexpectedly".into()))
            }
        }
    }
}

impl AsFd for Trial {
    /// Readable when the apps were tried.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

fn try_app(planned: PlannedApp, own: &[PathBuf], require: Require) -> Result<(), String> {
    let mut app = planned.chosen;
    let loaded = trial_load::load(&mut app, own, require);
    let own_file = app.spec.keys.config.as_deref();
    loaded.map_err(|why| cannot_run(app.name(), &with_own_file(why, own_file)))
}
