//! Runs the zone: confines the process, loads the app, and calls it with one batch of records after the other.
//!
//! ```text
//!   Load            Rings
//!    |                |        +--------------------------------------------+
//!    v                v        v                                            |
//! confine, load --> wait --> batch --> app --> messages, Done, one store ---+
//!                              \--- no records: sleep until a doorbell or --/
//!                                   the control socket has something
//! ```
//!
//! The zone shares a pair of rings with each of the kernel's workers. A batch comes by one of them, and the app's
//! messages for it go into the other half of that pair. The rings take turns. The snapshot is the exception: the zone
//! reads it ring after ring, so that the app sees a single one.
//!
//! Answers of services form batches of their own between those of the kernel, and no ring counts them.
//!
//! The app is a [`Guest`]: a shared object behind the C ABI, or Python code in this interpreter.
//!
//! The invariant: the messages for a batch and its `Done` become visible by one store, or, if the app fails, none of
//! them does.

mod aside;
mod error;
mod guest;
mod load;
mod monitor_messages;
mod sleep;

use std::num::NonZeroU16;

use control::hosting::Hosting;
use control::log::LogLevel;
use control::zone::ZoneReply;
pub use sdk::abi::host::{Answer, WholeRecord};
use sdk::abi::host::{Gathered, Host as _, HostedApp};
use sdk::abi::{Level, RecordKind};
use sys::channel::Channel;
use sys::clock::now_ns;
use sys::doorbell::{Doorbell, DoorbellSender};
use sys::ring::{MAX_BATCH, UpReader};
use sys::sandbox::seccomp::Profile;
use tracing::info;

pub use self::error::{ZoneError, reported};
pub use self::guest::Guest;
pub use self::load::{Code, Confined, GuestParts, ZoneProgram, confine};
use crate::host::{ZoneHost, log};
use crate::outgoing::Outgoing;

/// A busy zone reads its control socket after this many batches or this many nanoseconds, whichever comes first.
const CONTROL_BATCHES: u32 = 256;
const CONTROL_NS: u64 = 10_000_000;

/// Longest time, in nanoseconds, that a busy zone lets the kernel sleep on messages of finished batches. Woken after
/// each batch, the kernel would spend its time on wake-ups, and on a shared core it would interrupt the zone.
const MAX_UNRUNG_NS: u64 = 100_000;

/// The program whose apps are shared objects.
const OF_SHARED_OBJECTS: ZoneProgram = ZoneProgram {
    profile: Profile::Zone,
    hosts: &[Hosting::USER],
    has_watched: false,
    maps_sealed: false,
};

/// Runs a zone until the monitor stops it or the app fails. Sends the error to the monitor.
///
/// # Errors
/// [`ZoneError`]: the process must end.
pub fn run(monitor: &Channel) -> Result<(), ZoneError> {
    let result = load(monitor).and_then(|zone| zone.map_or(Ok(()), |mut it| it.serve(monitor)));
    reported(monitor, result)
}

/// A zone with a loaded app.
#[derive(Debug)]
pub struct Zone<A = HostedApp<ZoneHost>> {
    app: A,
    /// One for each of the kernel's workers; empty until the kernel has passed them.
    rings: Vec<Ring>,
    /// Most records in a call of the app.
    batch: usize,
    /// The doorbell that every worker rings.
    up_bell: Option<Doorbell>,
    /// The ring whose turn is next.
    next: usize,
    /// The ring whose part of the snapshot the zone is reading; the other rings wait.
    snapshot_of: Option<usize>,
    /// Alerts of the monitor that the app has not handled.
    alerts: Gathered,
    /// The zone's own records about lost requests that the app has not handled.
    lost: Gathered,
    /// The requests of clients while the app handles them.
    requests: Gathered,
    times: Times,
    /// Whether the timer caused the last call. Then every other cause comes before the next timer.
    has_woken: bool,
    /// Whether services and clients have a turn before the rings.
    others_are_due: bool,
    /// Whether the rings were looked at since then.
    rings_had_a_turn: bool,
}

/// Times of the app's calls.
#[derive(Debug, Default)]
struct Times {
    /// When the app's timer expires.
    wake_at_ns: Option<u64>,
    /// When the last call returned.
    returned_ns: u64,
}

/// The rings that the zone shares with a worker, without the writing half, which [`ZoneHost`] has.
#[derive(Debug)]
struct Ring {
    records: UpReader,
    down_bell: DoorbellSender,
    /// Since when the kernel sleeps on messages for which the zone has not rung its doorbell, in nanoseconds.
    unrung_ns: Option<u64>,
    /// The result of the ring's last turn.
    turn: Turn,
}

/// The result of a ring's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// The app was called.
    Worked,
    /// There are no records.
    Idle,
    /// The app needs more room for messages than the `had` free bytes.
    NeedsRoom { had: usize },
}

/// Confines this process and loads the app's object. Returns `None` if the monitor requested only the first.
fn load(monitor: &Channel) -> Result<Option<Zone>, ZoneError> {
    let Some(Confined { host, code, .. }) = confine(monitor, &OF_SHARED_OBJECTS)? else {
        return Ok(None);
    };
    let object = code.load().map_err(ZoneError::Load)?;
    let app = HostedApp::create(&object, host)?;
    let version = app.version().to_owned();
    info!(app = app.name(), version, "app loaded");
    monitor.send(&ZoneReply::Loaded { version }, &[])?;
    Ok(Some(Zone::of(app)))
}

impl<A: Guest> Zone<A> {
    /// A zone of an app that is loaded, without rings.
    pub fn of(app: A) -> Self {
        Self {
            app,
            rings: Vec::new(),
            batch: MAX_BATCH,
            up_bell: None,
            next: 0,
            snapshot_of: None,
            alerts: Gathered::default(),
            lost: Gathered::default(),
            requests: Gathered::default(),
            times: Times::default(),
            has_woken: false,
            others_are_due: false,
            rings_had_a_turn: true,
        }
    }

    /// Returns the app.
    pub fn into_app(self) -> A {
        self.app
    }

    /// Calls the app until the monitor stops it.
    ///
    /// # Errors
    /// [`ZoneError`]: the process must end.
    pub fn serve(&mut self, monitor: &Channel) -> Result<(), ZoneError> {
        let (mut batches_left, mut read_control_ns) = (0_u32, 0);
        loop {
            let busy_ns = self.times.returned_ns.saturating_sub(read_control_ns);
            if batches_left == 0 || busy_ns >= CONTROL_NS {
                (batches_left, read_control_ns) = (CONTROL_BATCHES, now_ns());
                if !self.read_control(monitor)? {
                    return Ok(());
                }
                self.app.host().watched.poll_now();
                self.app.host().services.exchange();
                self.app.host().server.exchange();
                self.note_exchange();
            }
            batches_left -= 1;
            if self.turn()? {
                self.app.host().services.send();
                self.finish_turn(monitor);
            } else {
                self.sleep(monitor);
                batches_left = 0;
            }
        }
    }

    /// Gives services and clients the next turn, as under constant load the rings are never idle; but not two turns in sequence,
    /// as under constant requests the services and clients are never idle either.
    fn note_exchange(&mut self) {
        self.others_are_due = std::mem::take(&mut self.rings_had_a_turn);
    }

    /// Calls the app for the next cause: lost requests, alerts, its timer, records of the next ring in turn, or answers of services.
    /// Returns `false` if there is none.
    fn turn(&mut self) -> Result<bool, ZoneError> {
        if self.deliver(|zone| &mut zone.lost)? || self.deliver(|zone| &mut zone.alerts)? {
            return Ok(true);
        }
        let has_woken = std::mem::take(&mut self.has_woken);
        if !has_woken && self.snapshot_of.is_none() && self.wake()? {
            return Ok(true);
        }
        if std::mem::take(&mut self.others_are_due) {
            let (services, clients) = (self.turn_of_services()?, self.turn_of_clients()?);
            if services || clients {
                return Ok(true);
            }
        }
        self.rings_had_a_turn = true;
        let count = self.rings.len();
        let (first, count) = self.snapshot_of.map_or((self.next, count), |ring| (ring, 1));
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
        Ok(self.turn_of_services()? || self.turn_of_clients()? || self.wake()?)
    }

    /// Notifies clients of changes, and the monitor of incidents and of audit records.
    fn finish_turn(&mut self, monitor: &Channel) {
        let host = self.app.host();
        host.server.notify();
        for (summary, evidence) in host.incidents.drain(..) {
            // The monitor reads few messages per turn of its loop. A report that it does not accept now is only logged.
            if monitor.send(&ZoneReply::Incident { summary, evidence }, &[]).is_err() {
                tracing::warn!("could not report an incident, as the monitor does not read");
            }
        }
        if let Some(text) = host.problem.take()
            && monitor.send(&ZoneReply::Problem { text: text.clone() }, &[]).is_err()
        {
            host.problem = Some(text); // the next turn tries again
        }
        for record in std::mem::take(&mut host.audits) {
            if monitor.send(&ZoneReply::Audit { record: record.clone() }, &[]).is_err() {
                let text = format!("the monitor did not accept an audit record: {record}");
                log(host.name(), LogLevel::Debug, Level::Warn, &text);
            }
        }
    }

    /// Calls the app with the records of ring `number`, if there are any.
    fn turn_of(&mut self, number: usize) -> Result<Turn, ZoneError> {
        let waits = self.rings.get(number).is_some_and(|ring| ring.records.is_waiting());
        if waits {
            // The app may take any time, and the other workers must not wait for that.
            let others = self.rings.iter_mut().enumerate().filter(|(other, _)| *other != number);
            others.for_each(|(_, ring)| ring.ring_if_due());
        }
        let Some(ring) = self.rings.get_mut(number) else { return Ok(Turn::Idle) };
        self.app.host().ring = number;
        // Read before the call, so that room which the kernel frees meanwhile counts as more than `had`.
        let had = self.app.host().room();
        if had == 0 {
            ring.ring_if_due();
            return Ok(Turn::NeedsRoom { had }); // a batch could not be closed
        }
        let batch = ring.records.batch(self.batch)?;
        let (mut count, mut part_is_over) = (batch.len(), false);
        if self.snapshot_of.is_some()
            && let Some(end) = batch.iter().position(ends_part)
        {
            // The records behind it are later than the other rings' parts of the snapshot.
            (count, part_is_over) = (end + 1, true);
        }
        if count == 0 {
            return Ok(Turn::Idle);
        }
        let records = &WholeRecord::all(&batch)[..count];
        let began_ns = now_ns();
        let handled = call(&mut self.app, &mut self.times, began_ns, records)?;
        let returned_ns = self.times.returned_ns;
        let pending = &mut self.app.host().pending;
        if !pending.is_empty() {
            pending.handled(batch.iter().take(handled));
        }
        let messages = self.app.host().messages.get_mut(number);
        let messages = messages.ok_or(ZoneError::OutOfOrder("rings in halves"))?;
        if handled == 0 && !messages.is_open() {
            ring.ring_if_due();
            return Ok(Turn::NeedsRoom { had });
        }
        if messages.done(&mut ring.records, handled) {
            ring.unrung_ns.get_or_insert(returned_ns);
        }
        let more = ring.records.is_waiting() && handled == count && self.snapshot_of.is_none();
        // Assumes that the next batch takes as long as this one.
        let then_ns = returned_ns + (returned_ns - began_ns);
        if !more || ring.unrung_ns.is_some_and(|since| then_ns - since > MAX_UNRUNG_NS) {
            ring.ring_if_due();
        }
        if part_is_over && handled == count {
            self.snapshot_of = Some(number + 1).filter(|next| *next < self.rings.len());
        }
        Ok(Turn::Worked)
    }
}

impl Ring {
    /// Rings the kernel's doorbell if it sleeps on messages.
    fn ring_if_due(&mut self) {
        if self.unrung_ns.take().is_some() {
            self.down_bell.ring();
        }
    }
}

/// Calls the app with the records of one batch, or with none for its timer. Returns how many records it handled. If it
/// fails, its messages are discarded.
fn call<A: Guest>(
    app: &mut A,
    times: &mut Times,
    called_ns: u64,
    records: &[WholeRecord<'_>],
) -> Result<usize, ZoneError> {
    let mut flight_slot = app.host().flight_slot.take();
    let noted = flight_slot.as_mut().map(|flight_slot| flight_slot.begin_call(NonZeroU16::MIN)); // there is one app
    let answered = app.on_records(called_ns, records);
    drop(noted);
    times.returned_ns = now_ns();
    app.host().flight_slot = flight_slot;
    match answered {
        Ok(Answer { handled, wake_at_ns: again }) => {
            times.wake_at_ns = again;
            Ok(handled)
        }
        Err(failed) => {
            app.host().messages.iter_mut().for_each(Outgoing::roll_back);
            Err(failed)
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
