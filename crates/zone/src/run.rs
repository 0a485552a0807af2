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
//! There is a pair of rings with each of the kernel's workers. A batch comes by one of them, and what
//! the application sends for it goes by that one's other half; they take turns. Only the snapshot is
//! read ring after ring, so that the application sees one.
//!
//! What services answer comes between the kernel's batches, as a batch of its own, which no ring counts.
//!
//! The rule that keeps it right: what an application sends for a batch and the batch's being done
//! become visible in the same store, or, if it fails, neither does.

mod aside;

use std::io;
use std::num::NonZeroU16;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sdk::Alert;
use sdk::abi::host::{
    Answer as Answered, Failed, Gathered, Host as _, HostedApp, LoadError, WholeRecord,
};
use sdk::abi::{MAX_BATCH as MAX_ALERTS, MAX_CONFIG, RecordKind};
use sys::channel::{Channel, ChannelError};
use sys::clock::now_ns;
use sys::doorbell::{Doorbell, Ringer};
use sys::flight::Recorder;
use sys::object::Object;
use sys::ring::{DownWriter, MAX_BATCH, PeerFault, RingFds, UpReader, ZoneEnd};
use thiserror::Error;
use tracing::info;

use crate::control::{Answer, Request};
use crate::host::ZoneHost;
use crate::sandbox;
use crate::services::Services;

/// Batches after which a busy zone looks at its control socket, and nanoseconds, if these are fewer.
const LOOK_EVERY: u32 = 256;
const LOOK_EVERY_NS: u64 = 10_000_000;

/// How long a kernel that sleeps is left asleep over what an application has said, in nanoseconds, while
/// the application goes on with more records. Woken for each batch it would do little else than wake up,
/// and where both share a core, take it from the zone in the middle of its work.
const ASLEEP_NS: u64 = 100_000;

/// Why a zone ends by itself.
#[derive(Debug, Error)]
pub enum ZoneError {
    /// The monitor is gone, or does not say what it should.
    #[error("the monitor: {0}; rosemary-zone is started by the monitor, see `rosemary up`")]
    Monitor(#[from] ChannelError),
    /// The monitor said something out of order.
    #[error("the monitor said {0}")]
    OutOfOrder(&'static str),
    /// Privileges could not be given up, or a path that is granted cannot be; the application was not
    /// loaded.
    #[error("could not be confined: {0}")]
    Confine(io::Error),
    /// Parts of the wall are missing, and the operator wants them all.
    #[error("the wall has gaps, and zones.require is \"full\": {0}")]
    Gaps(String),
    /// The object is another one than the monitor meant.
    #[error("the object's SHA-256 is {found}, not {expected}: it was not loaded")]
    OtherObject {
        /// What the monitor said.
        expected: String,
        /// What was found.
        found: String,
    },
    /// The object could not be loaded.
    #[error("could not load the app's object: {0}")]
    Load(io::Error),
    /// The configuration could not be read.
    #[error("could not read the app's configuration: {0}")]
    Config(io::Error),
    /// The object is not an application for this host.
    #[error(transparent)]
    NotAnApp(#[from] LoadError),
    /// The application cannot go on.
    #[error(transparent)]
    App(#[from] Failed),
    /// The memory that the monitor gave to be watched by is not such.
    #[error("the monitor's flight recorder: {0}")]
    Watch(io::Error),
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
    let result = load(monitor).and_then(|zone| zone.map_or(Ok(()), |mut it| it.live(monitor)));
    if let Err(error) = &result {
        let why = error.to_string();
        let answer = match error {
            ZoneError::NotAnApp(_) => Answer::Unfit { why },
            ZoneError::Load(_) => Answer::NotLoaded { why },
            _ => Answer::Failed { why },
        };
        // The monitor may be what is gone; it sees our exit in any case.
        let _ = monitor.send(&answer, &[]);
    }
    result
}

/// A zone whose application is loaded.
#[derive(Debug)]
struct Zone {
    app: HostedApp<ZoneHost>,
    /// One for each of the kernel's workers; none until the kernel has given them.
    rings: Vec<Ring>,
    /// Most records that the application is called with.
    batch: usize,
    /// Rung by every worker.
    up_bell: Option<Doorbell>,
    /// The ring whose turn is next.
    next: usize,
    /// The ring that is telling its part of the snapshot; the others wait.
    telling: Option<usize>,
    /// What the monitor has to tell the application of its limits.
    alerts: Gathered,
    times: Times,
    /// Whether the last turn was one because it was time: then others come before the next such.
    has_woken: bool,
}

/// Of the application's calls.
#[derive(Debug, Default)]
struct Times {
    /// When it wants to be called though nothing has come.
    wake_at_ns: Option<u64>,
    /// When it last came back.
    back_ns: u64,
}

/// What a worker has given, but for the writing half, which the application's calls use.
#[derive(Debug)]
struct Ring {
    records: UpReader,
    down_bell: Ringer,
    /// Since when the kernel sleeps over what it is still to be woken for, in nanoseconds.
    unrung_ns: Option<u64>,
    /// What its last turn came to.
    turn: Turn,
}

/// What a ring's turn came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// The application was called.
    Worked,
    /// There is nothing for it to do.
    Idle,
    /// It needs more room for messages than the `had` bytes there are.
    NeedsRoom { had: usize },
}

/// Confines this process and loads the application; `None` if the first was all it was to do.
fn load(monitor: &Channel) -> Result<Option<Zone>, ZoneError> {
    let (request, fds) = monitor.wait()?;
    if let Request::Try { wall } = request {
        let objects: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let confined = sandbox::confine(monitor, &objects, &wall).map_err(ZoneError::Confine)?;
        monitor.send(&Answer::Confined { report: confined.report }, &[])?;
        return Ok(None);
    }
    let Request::Load { name, wall, sha256, numbers, services } = request else {
        return Err(ZoneError::OutOfOrder("something else than Load first"));
    };
    let [object, config] = <[OwnedFd; 2]>::try_from(fds)
        .map_err(|_| ZoneError::OutOfOrder("Load without an object and a configuration"))?;
    let config = sys::shm::read_sealed(config, MAX_CONFIG).map_err(ZoneError::Config)?;
    let object = match wall {
        Some(wall) => sandbox::confine_and_load(monitor, object, &wall, &sha256)?,
        None => Object::load(object).map_err(ZoneError::Load)?,
    };
    let services = Services::named(&services);
    let host = ZoneHost::new(name.clone(), numbers, config, services);
    let app = HostedApp::create(&object, host)?;
    let version = app.version().to_owned();
    info!(app = name, version, "app loaded");
    monitor.send(&Answer::Loaded { version }, &[])?;
    Ok(Some(Zone::of(app)))
}

impl Zone {
    fn of(app: HostedApp<ZoneHost>) -> Self {
        Self {
            app,
            rings: Vec::new(),
            batch: MAX_BATCH,
            up_bell: None,
            next: 0,
            telling: None,
            alerts: Gathered::default(),
            times: Times::default(),
            has_woken: false,
        }
    }

    fn live(&mut self, monitor: &Channel) -> Result<(), ZoneError> {
        let (mut until_look, mut looked_ns) = (0_u32, 0);
        loop {
            if until_look == 0 || self.times.back_ns.saturating_sub(looked_ns) >= LOOK_EVERY_NS {
                (until_look, looked_ns) = (LOOK_EVERY, now_ns());
                if !self.obey(monitor)? {
                    return Ok(());
                }
                self.app.host().services.hear();
            }
            until_look -= 1;
            if self.turn()? {
                self.app.host().services.send();
            } else {
                self.sleep(monitor);
                until_look = 0;
            }
        }
    }

    /// Calls the application, because it is time, or with what came by the next ring that has something
    /// for it; in turns, if there is always something. `false` if there is nothing to do.
    fn turn(&mut self) -> Result<bool, ZoneError> {
        if self.tell_alerts()? {
            return Ok(true);
        }
        let has_woken = std::mem::take(&mut self.has_woken);
        if !has_woken && self.telling.is_none() && self.wake()? {
            return Ok(true);
        }
        let count = self.rings.len();
        let (first, count) = self.telling.map_or((self.next, count), |ring| (ring, 1));
        for number in first..first + count {
            let number = number % self.rings.len();
            let turn = self.turn_of(number)?;
            if let Some(ring) = self.rings.get_mut(number) {
                ring.turn = turn;
            }
            if turn == Turn::Worked {
                self.next = (number + 1) % self.rings.len();
                return Ok(true);
            }
        }
        Ok(self.turn_of_services()? || self.wake()?)
    }

    /// Calls the application if there is something for it in ring `number`.
    fn turn_of(&mut self, number: usize) -> Result<Turn, ZoneError> {
        let waits = self.rings.get(number).is_some_and(|ring| ring.records.is_waiting());
        if waits {
            // How long the application will take nobody knows: no other worker waits for that.
            let others = self.rings.iter_mut().enumerate().filter(|(other, _)| *other != number);
            others.for_each(|(_, ring)| ring.settle());
        }
        let Some(ring) = self.rings.get_mut(number) else { return Ok(Turn::Idle) };
        self.app.host().ring = number;
        // Before the application looks: room that comes while it runs is more than it had.
        let had = self.app.host().room();
        if had == 0 {
            ring.settle();
            return Ok(Turn::NeedsRoom { had }); // a batch could not be closed
        }
        let batch = ring.records.batch(self.batch)?;
        let (mut count, mut part_is_over) = (batch.len(), false);
        if self.telling.is_some()
            && let Some(end) = batch.iter().position(ends_part)
        {
            // What is behind it is later than what other rings have to tell.
            (count, part_is_over) = (end + 1, true);
        }
        if count == 0 {
            return Ok(Turn::Idle);
        }
        let records = &WholeRecord::all(&batch)[..count];
        let began_ns = now_ns();
        let handled = call(&mut self.app, &mut self.times, began_ns, records)?;
        let back_ns = self.times.back_ns;
        let messages = self.app.host().messages.get_mut(number);
        let messages = messages.ok_or(ZoneError::OutOfOrder("rings in halves"))?;
        if handled == 0 && !messages.is_open() {
            ring.settle();
            return Ok(Turn::NeedsRoom { had });
        }
        if messages.done(&mut ring.records, handled) {
            ring.unrung_ns.get_or_insert(back_ns);
        }
        let more = ring.records.is_waiting() && handled == count && self.telling.is_none();
        // The next batch will take as long as this one.
        let then_ns = back_ns + (back_ns - began_ns);
        if !more || ring.unrung_ns.is_some_and(|since| then_ns - since > ASLEEP_NS) {
            ring.settle();
        }
        if part_is_over && handled == count {
            self.telling = Some(number + 1).filter(|next| *next < self.rings.len());
        }
        Ok(Turn::Worked)
    }

    /// Sleeps until there is something to do, as far as the rings' turns say what each waits for.
    fn sleep(&mut self, monitor: &Channel) {
        let Some(up_bell) = &self.up_bell else {
            let _ = poll(&mut [PollFd::new(monitor, PollFlags::IN)], None);
            return;
        };
        let mut waiting = false;
        // What a ring has while another tells its part is looked at when that is over.
        let counts = |number: usize, turn: Turn| {
            self.telling.is_none_or(|telling| telling == number)
                || turn == Turn::NeedsRoom { had: 0 }
        };
        let ZoneHost { messages, services, .. } = self.app.host();
        for (number, (ring, messages)) in self.rings.iter().zip(&mut *messages).enumerate() {
            waiting |= match ring.turn {
                turn if !counts(number, turn) => false,
                Turn::NeedsRoom { had } => messages.prepare_to_wait_for_room(had),
                Turn::Worked | Turn::Idle => messages.prepare_to_sleep(&ring.records),
            };
        }
        if !waiting {
            // Without any room the application would not be called when it is time, either.
            let no_room =
                self.rings.first().is_some_and(|ring| ring.turn == Turn::NeedsRoom { had: 0 });
            let timeout = self.times.wake_at_ns.filter(|_| !no_room).map(|wake_at| {
                let wait = Duration::from_nanos(wake_at.saturating_sub(now_ns()));
                wait.try_into().unwrap_or(Timespec { tv_sec: 3600, tv_nsec: 0 })
            });
            let mut fds =
                vec![PollFd::new(up_bell, PollFlags::IN), PollFd::new(monitor, PollFlags::IN)];
            fds.extend(services.fds());
            let _ = poll(&mut fds, timeout.as_ref()); // interrupted: look again
            if fds.first().is_some_and(|bell| !bell.revents().is_empty()) {
                up_bell.silence();
            }
        }
        messages.iter_mut().for_each(DownWriter::awake);
    }

    /// Does what the monitor asks. `false` when that is to stop.
    fn obey(&mut self, monitor: &Channel) -> Result<bool, ZoneError> {
        loop {
            match monitor.receive() {
                Ok((Request::Stop, _)) => return Ok(false),
                Ok((Request::Rings { capacity, batch }, fds)) => {
                    self.batch = usize::from(batch).clamp(1, MAX_BATCH);
                    self.take_rings(capacity, fds)?;
                }
                Ok((Request::Alert { limit, numbers }, _)) => {
                    // More of them than there are limits wait only while the kernel is away.
                    if self.alerts.len() == MAX_ALERTS {
                        self.alerts.drop_oldest(1);
                    }
                    let (head, body) = Alert::to_record(limit, numbers);
                    self.alerts.push(&head.words(), &body);
                }
                Ok((Request::Watch, fds)) => self.be_watched(fds)?,
                Ok((Request::Service { name }, fds)) => {
                    let socket = fds.into_iter().next();
                    let socket = socket.ok_or(ZoneError::OutOfOrder("Service without a socket"))?;
                    self.app.host().services.connect(&name, socket);
                }
                Ok((Request::Load { .. } | Request::Try { .. }, _)) => {
                    return Err(ZoneError::OutOfOrder("Load twice"));
                }
                Err(ChannelError::WouldBlock) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Notes from now on when the application is called.
    fn be_watched(&mut self, fds: Vec<OwnedFd>) -> Result<(), ZoneError> {
        let fd = fds.into_iter().next().ok_or(ZoneError::OutOfOrder("Watch without its memory"))?;
        let recorder = Recorder::map(&fd).map_err(ZoneError::Watch)?;
        self.app.host().seat = Some(recorder.seat(0));
        Ok(())
    }

    /// Starts to use the rings of a new kernel; the snapshot that it begins with tells the
    /// application that all it knew is void.
    fn take_rings(&mut self, capacity: u32, fds: Vec<OwnedFd>) -> Result<(), ZoneError> {
        // Unmaps the old kernel's rings first: the bound on address space has room for one kernel's.
        self.rings.clear();
        self.app.host().messages.clear();
        let mut fds = fds.into_iter();
        self.up_bell = fds.next().map(Doorbell::from_fd);
        let (mut rings, mut writers) = (Vec::new(), Vec::new());
        while let Some(up) = fds.next() {
            let (Some(down), Some(down_bell)) = (fds.next(), fds.next()) else {
                return Err(ZoneError::OutOfOrder("Rings without all their descriptors"));
            };
            let ZoneEnd { records, messages } =
                ZoneEnd::map(&RingFds { up, down }, capacity).map_err(ZoneError::Rings)?;
            let down_bell = Ringer::from_fd(down_bell);
            rings.push(Ring { records, down_bell, unrung_ns: None, turn: Turn::Idle });
            writers.push(messages);
        }
        if rings.is_empty() {
            return Err(ZoneError::OutOfOrder("Rings without any"));
        }
        (self.rings, self.app.host().messages) = (rings, writers);
        (self.next, self.telling) = (0, Some(0));
        Ok(())
    }
}

impl Ring {
    /// Wakes the kernel, if that is still to be done.
    fn settle(&mut self) {
        if self.unrung_ns.take().is_some() {
            self.down_bell.ring();
        }
    }
}

/// Calls the application with records of one ring, or with none because it is time; returns how
/// many it handled. If it fails, what it has sent is void.
fn call(
    app: &mut HostedApp<ZoneHost>,
    times: &mut Times,
    called_ns: u64,
    records: &[WholeRecord<'_>],
) -> Result<usize, ZoneError> {
    let mut seat = app.host().seat.take();
    let noted = seat.as_mut().map(|seat| seat.call(NonZeroU16::MIN)); // there is one app
    let answered = app.on_records(called_ns, records);
    drop(noted);
    times.back_ns = now_ns();
    app.host().seat = seat;
    match answered {
        Ok(Answered { handled, wake_at_ns: again }) => {
            times.wake_at_ns = again;
            Ok(handled)
        }
        Err(failed) => {
            app.host().messages.iter_mut().for_each(DownWriter::roll_back);
            Err(failed.into())
        }
    }
}

/// Whether a record ends a worker's part of the snapshot.
fn ends_part(record: &[u8]) -> bool {
    const ENDS: [[u8; 2]; 2] = [
        (RecordKind::SnapshotEnd as u16).to_le_bytes(),
        (RecordKind::SnapshotPart as u16).to_le_bytes(),
    ];
    record.get(4..6).is_some_and(|kind| ENDS.iter().any(|end| end == kind))
}

#[cfg(test)]
mod tests;
