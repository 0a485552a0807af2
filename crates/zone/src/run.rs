//! The zone's life: confine, load, then batch after batch.
//!
//! ```text
//!   Load            Rings
//!    |                |        +--------------------------------------------+
//!    v                v        v                                            |
//! confine, load --> wait --> batch --> app --> messages, Done, one store ---+
//!                              \--- nothing: sleep on doorbell and control -/
//! ```
//!
//! The rule that keeps it right: what an application sends for a batch and the batch's being done
//! become visible in the same store, or, if it fails, neither does.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use sdk::abi::host::{Answer as Answered, Failed, HostedApp, LoadError};
use sys::channel::{Channel, ChannelError};
use sys::doorbell::{Doorbell, Ringer};
use sys::object::Object;
use sys::ring::{DownWriter, MAX_BATCH, PeerFault, RingFds, UpReader, ZoneEnd};
use thiserror::Error;
use tracing::info;

use crate::control::{Answer, Request};
use crate::host::ZoneHost;

/// Batches after which a busy zone looks at its control socket.
const LOOK_EVERY: u32 = 256;

/// Why a zone ends by itself.
#[derive(Debug, Error)]
pub enum ZoneError {
    /// The monitor is gone, or does not say what it should.
    #[error("the monitor: {0}; rosemary-zone is started by the monitor, see `rosemary up`")]
    Monitor(#[from] ChannelError),
    /// The monitor said something out of order.
    #[error("the monitor said {0}")]
    OutOfOrder(&'static str),
    /// Privileges could not be given up; the application was not loaded.
    #[error("could not become an unprivileged user: {0}")]
    Confine(io::Error),
    /// The object could not be loaded.
    #[error("could not load the app's object: {0}")]
    Load(io::Error),
    /// The object is not an application for this host.
    #[error(transparent)]
    NotAnApp(#[from] LoadError),
    /// The application cannot go on.
    #[error(transparent)]
    App(#[from] Failed),
    /// The rings given by the kernel are not such.
    #[error("the kernel's rings: {0}")]
    Rings(io::Error),
    /// The kernel broke the ring's contract: a mistake of ours.
    #[error("the kernel broke the ring's contract: {0}")]
    Kernel(#[from] PeerFault),
}

/// Runs a zone until the monitor says stop or the application fails; the monitor is told why.
///
/// # Errors
/// [`ZoneError`]: the process is to end.
pub fn run(monitor: &Channel) -> Result<(), ZoneError> {
    let result = load(monitor).and_then(|mut zone| zone.live(monitor));
    if let Err(error) = &result {
        // The monitor may be what is gone; it sees our exit in any case.
        let _ = monitor.send(&Answer::Failed { why: error.to_string() }, &[]);
    }
    result
}

/// A zone whose application is loaded.
#[derive(Debug)]
struct Zone {
    app: HostedApp<ZoneHost>,
    rings: Option<Rings>,
    wake_at_ns: Option<u64>,
}

/// What the kernel has given, but for the writing half, which the application's calls use.
#[derive(Debug)]
struct Rings {
    records: UpReader,
    up_bell: Doorbell,
    down_bell: Ringer,
}

/// What a turn of the loop came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// The application was called.
    Worked,
    /// There is nothing for it to do.
    Idle,
    /// It needs more room for messages than the `had` bytes there are.
    NeedsRoom { had: usize },
}

fn load(monitor: &Channel) -> Result<Zone, ZoneError> {
    let (request, fds) = next(monitor)?;
    let Request::Load { name, run_as, numbers } = request else {
        return Err(ZoneError::OutOfOrder("something else than Load first"));
    };
    let object = fds.into_iter().next().ok_or(ZoneError::OutOfOrder("Load without an object"))?;
    let confined = match run_as {
        Some(id) => sys::process::drop_privileges(id),
        None => sys::process::forbid_new_privileges(),
    };
    confined.map_err(ZoneError::Confine)?;
    let object = Object::load(object).map_err(ZoneError::Load)?;
    let app = HostedApp::create(&object, ZoneHost::new(name.clone(), numbers))?;
    let version = app.version().to_owned();
    info!(app = name, version, "app loaded");
    monitor.send(&Answer::Loaded { version }, &[])?;
    Ok(Zone { app, rings: None, wake_at_ns: None })
}

/// Waits for the monitor's next request.
fn next(monitor: &Channel) -> Result<(Request, Vec<OwnedFd>), ZoneError> {
    loop {
        match monitor.receive() {
            Err(ChannelError::WouldBlock) => {
                let mut fds = [PollFd::new(monitor, PollFlags::IN)];
                let _ = poll(&mut fds, None); // interrupted: look again
            }
            result => return Ok(result?),
        }
    }
}

impl Zone {
    fn live(&mut self, monitor: &Channel) -> Result<(), ZoneError> {
        let mut until_look = 0_u32;
        loop {
            if until_look == 0 {
                until_look = LOOK_EVERY;
                if !self.obey(monitor)? {
                    return Ok(());
                }
            }
            until_look -= 1;
            let turn = self.turn()?;
            if turn != Turn::Worked {
                self.sleep(monitor, turn);
                until_look = 0;
            }
        }
    }

    /// Calls the application if there is something for it.
    fn turn(&mut self) -> Result<Turn, ZoneError> {
        let Some(rings) = &mut self.rings else { return Ok(Turn::Idle) };
        // Before the application looks: room that comes while it runs is more than it had.
        let had = self.app.host().messages.as_ref().map_or(0, DownWriter::free);
        if had == 0 {
            return Ok(Turn::NeedsRoom { had }); // a batch could not be closed
        }
        let batch = rings.records.batch(MAX_BATCH)?;
        let now_ns = now_ns();
        if batch.is_empty() && self.wake_at_ns.is_none_or(|wake_at| now_ns < wake_at) {
            return Ok(Turn::Idle);
        }
        let (count, answered) = (batch.len(), self.app.on_batch(now_ns, &batch));
        let messages = self.app.host().messages.as_mut();
        let messages = messages.ok_or(ZoneError::OutOfOrder("rings in halves"))?;
        let Answered { handled, wake_at_ns } = match answered {
            Ok(answered) => answered,
            Err(failed) => {
                messages.roll_back();
                return Err(failed.into());
            }
        };
        self.wake_at_ns = wake_at_ns;
        if handled == 0 && !messages.is_open() {
            // A wake-up that led to nothing, or records that found no room.
            return Ok(if count == 0 { Turn::Worked } else { Turn::NeedsRoom { had } });
        }
        if messages.done(&mut rings.records, handled) {
            rings.down_bell.ring();
        }
        Ok(Turn::Worked)
    }

    /// Sleeps until there is something to do, as far as `turn` says what it waits for.
    fn sleep(&mut self, monitor: &Channel, turn: Turn) {
        let messages = self.app.host().messages.as_mut();
        let (Some(rings), Some(messages)) = (&mut self.rings, messages) else {
            let _ = poll(&mut [PollFd::new(monitor, PollFlags::IN)], None);
            return;
        };
        let waiting = match turn {
            Turn::NeedsRoom { had } => messages.prepare_to_wait_for_room(had),
            Turn::Worked | Turn::Idle => messages.prepare_to_sleep(&rings.records),
        };
        if !waiting {
            // Without any room the application would not be called when it is time, either.
            let wake_at_ns = self.wake_at_ns.filter(|_| turn != Turn::NeedsRoom { had: 0 });
            let timeout = wake_at_ns.map(|wake_at| {
                let wait = Duration::from_nanos(wake_at.saturating_sub(now_ns()));
                wait.try_into().unwrap_or(Timespec { tv_sec: 3600, tv_nsec: 0 })
            });
            let mut fds =
                [PollFd::new(monitor, PollFlags::IN), PollFd::new(&rings.up_bell, PollFlags::IN)];
            let _ = poll(&mut fds, timeout.as_ref()); // interrupted: look again
            if !fds[1].revents().is_empty() {
                rings.up_bell.silence();
            }
        }
        messages.awake();
    }

    /// Does what the monitor asks. `false` when that is to stop.
    fn obey(&mut self, monitor: &Channel) -> Result<bool, ZoneError> {
        loop {
            match monitor.receive() {
                Ok((Request::Stop, _)) => return Ok(false),
                Ok((Request::Rings { capacity }, fds)) => self.take_rings(capacity, fds)?,
                Ok((Request::Load { .. }, _)) => {
                    return Err(ZoneError::OutOfOrder("Load twice"));
                }
                Err(ChannelError::WouldBlock) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Starts to use the rings of a new kernel; the snapshot that it begins with tells the
    /// application that all it knew is void.
    fn take_rings(&mut self, capacity: u32, fds: Vec<OwnedFd>) -> Result<(), ZoneError> {
        let Ok([up, down, up_bell, down_bell]) = <[OwnedFd; 4]>::try_from(fds) else {
            return Err(ZoneError::OutOfOrder("Rings without their four descriptors"));
        };
        let ZoneEnd { records, messages } =
            ZoneEnd::map(&RingFds { up, down }, capacity).map_err(ZoneError::Rings)?;
        self.app.host().messages = Some(messages);
        let (up_bell, down_bell) = (Doorbell::from_fd(up_bell), Ringer::from_fd(down_bell));
        self.rings = Some(Rings { records, up_bell, down_bell });
        Ok(())
    }
}

/// Monotonic time in nanoseconds.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    seconds * 1_000_000_000 + nanos
}
