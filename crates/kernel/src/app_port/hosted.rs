//! Runs an app in the kernel's process: queues its records, and calls it.
//!
//! This takes the place of rings and a zone: records wait in the same order and under the same bounds, and a batch has
//! all its effects or none. Nothing is shared with another process: the app's messages are complete when its call
//! returns.
//!
//! The app's code is trusted with this process, not with the network: its messages pass the same checks as those of a
//! zone.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use sdk::abi::host::{Gathered, Writer};
use sdk::abi::{MAX_BATCH, Words};
use sdk::services::host::Services;
use sys::rate::Rate;
use sys::ring::{Down, Room};

use super::AppPort;
use super::delivery::Delivery;
use super::guest::{Artifact, Guest, KernelHost};
use super::outbox::Outbox;
use super::successor::{Runs, Successor};
use super::tickets::{Tickets, Verdict};
use super::tracked::Tracked;
use crate::hold_queue::Ticket;
use control::app::AppId;
use control::log::LogLevel;

/// An instance of an app, with the records that wait for it.
#[derive(Debug)]
pub(super) struct Hosted {
    app: Box<dyn Guest>,
    records: Gathered,
    tickets: Tickets,
    capacity: u32,
    /// Most records in one call.
    batch: usize,
    wake_at_ns: Option<u64>,
    /// Whether its only record is also the backlog's oldest: it is delivered alone and not handled yet.
    pub(super) in_flight: bool,
}

impl Hosted {
    /// Makes an instance by `create`; records of up to `capacity` bytes wait for it, and it is called with at most
    /// `batch` of them.
    fn create(
        app: AppId,
        name: &str,
        band: (u16, u16),
        (capacity, batch): (u32, usize),
        create: impl FnOnce(KernelHost) -> Result<Box<dyn Guest>, String>,
    ) -> Result<Self, String> {
        let host = KernelHost {
            app,
            name: name.to_owned(),
            band,
            config: Box::default(),
            outbox: Outbox::default(),
            stopped: Vec::new(),
            log_level: LogLevel::default(),
            lines: Rate::new(Instant::now()),
            services: Services::default(),
        };
        Ok(Self {
            app: create(host)?,
            records: Gathered::default(),
            tickets: Tickets::default(),
            capacity,
            batch: batch.min(MAX_BATCH),
            wake_at_ns: None,
            in_flight: false,
        })
    }

    /// The version that the object states.
    pub(super) fn version(&self) -> &str {
        self.app.version()
    }

    /// As [`Tracked::push`].
    pub(super) fn push(&mut self, head: &Words, body: &[u8], room: Room, ticket: Ticket) -> bool {
        let size = size_of_val(head) + body.len().next_multiple_of(8);
        if self.records.size() + size > room.of(self.capacity) {
            return false;
        }
        self.records.push(head, body);
        self.tickets.push(ticket);
        true
    }

    /// Lets `write` write records that have no ticket, until the app must be called; longer records need
    /// [`push`](Self::push). Returns the result of `write`.
    #[inline]
    pub(super) fn write<T>(&mut self, write: impl for<'w> FnOnce(&mut Writer<'w>) -> T) -> T {
        let before = self.records.len();
        let room = self.nearly_full().saturating_sub(self.records.size());
        let written = self.records.write(self.batch.saturating_sub(before), room, write);
        self.tickets.push_none(self.records.len() - before);
        written
    }

    /// Number of records that wait.
    pub(super) fn waiting(&self) -> usize {
        self.records.len()
    }

    /// Whether a whole batch waits, or the records nearly fill the queue.
    pub(super) fn batch_waits(&self) -> bool {
        self.records.len() >= self.batch || self.records.size() >= self.nearly_full()
    }

    /// Bytes of records with which the queue is nearly full: less than the part for ordinary records.
    fn nearly_full(&self) -> usize {
        self.capacity as usize / 4
    }

    /// Whether answers of services wait.
    pub(super) fn has_answers(&mut self) -> bool {
        !self.app.host().services.answers().is_empty()
    }

    /// When the app's timer expires, in nanoseconds of the monotonic clock.
    pub(super) fn wake_at_ns(&self) -> Option<u64> {
        self.wake_at_ns
    }

    /// Calls the app with the oldest records, or with none as a wake-up. If its timer has expired, it is called with
    /// none first, as records may always wait. Appends its verdicts to `verdicts`; the caller then [takes](Self::take)
    /// its messages. Returns how many records it handled.
    ///
    /// # Errors
    /// The reason why it must not be called again. Its messages of this call are void.
    pub(super) fn call(
        &mut self,
        now_ns: u64,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<usize, String> {
        self.app.host().outbox.clear();
        let count = self.records.len().min(self.batch);
        if count > 0 && self.wake_at_ns.is_some_and(|wake_at| wake_at <= now_ns) {
            self.app.on_batch(now_ns, &self.records, 0)?;
        }
        let answer = self.app.on_batch(now_ns, &self.records, count);
        let KernelHost { outbox, stopped, .. } = self.app.host();
        let answer = answer?;
        let handled = answer.handled;
        if handled == 0 && count > 0 && outbox.is_empty() {
            return Err(format!("the app handled none of {count} records, though it had room"));
        }
        self.wake_at_ns = answer.wake_at_ns;
        for number in stopped.drain(..) {
            self.tickets.stop(number as u64);
        }
        self.tickets.done(handled as u64, verdicts);
        self.records.drop_oldest(handled);
        self.app.host().services.send();
        Ok(handled)
    }

    /// Calls the app with the oldest answers of services; the caller then [takes](Self::take) its messages. Returns how many
    /// answers it handled.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    fn call_with_answers(&mut self, now_ns: u64) -> Result<usize, String> {
        self.app.host().outbox.clear();
        // Taken out of the host, which the app uses during the call to take descriptors of answers.
        let answers = self.app.host().services.lend_answers();
        let count = answers.len().min(self.batch);
        let answer = self.app.on_batch(now_ns, &answers, count)?;
        let handled = answer.handled;
        let host = self.app.host();
        // No other app gets these records, so that none can be stopped.
        host.stopped.clear();
        if handled == 0 && count > 0 && host.outbox.is_empty() {
            return Err(format!("the app handled none of {count} answers, though it had room"));
        }
        host.services.give_back(answers, handled);
        host.services.send();
        // Answers for which there was no room may wait in the sockets, and no event announces them again.
        host.services.exchange();
        self.wake_at_ns = answer.wake_at_ns;
        Ok(handled)
    }

    /// Takes the next message of the last call.
    pub(super) fn take<'o>(&mut self, out: &'o mut Vec<u8>) -> Option<Down<'o>> {
        self.app.host().outbox.take(out)
    }

    /// Ends the app without another call into it; returns the records that it had not handled, as the ring of a dead
    /// zone, and the app's services.
    pub(super) fn disable(self) -> (Option<Tracked>, Services) {
        let Self { mut app, records, mut tickets, capacity, .. } = self;
        let services = std::mem::take(&mut app.host().services);
        app.abandon();
        (Self::undone(&records, &mut tickets, capacity), services)
    }

    fn undone(records: &Gathered, tickets: &mut Tickets, capacity: u32) -> Option<Tracked> {
        if records.is_empty() {
            return None;
        }
        let (mut ring, _) = Tracked::create(capacity).ok()?;
        for record in records.iter() {
            if let Some((words, body)) = super::split(record) {
                ring.push(&words, body, Room::All, tickets.oldest());
            }
            tickets.drop_oldest();
        }
        Some(ring)
    }
}

impl AppPort {
    /// Makes an instance of the app in this process, with its configuration, the level of its log and its services.
    ///
    /// # Errors
    /// Why its code makes none, as a phrase.
    pub(crate) fn host(
        &mut self,
        code: &Arc<dyn Artifact>,
        config: &[u8],
        log_level: LogLevel,
        services: &[String],
    ) -> Result<(), String> {
        let services = Services::from_names(services);
        let successor = code.is_contained().then(|| {
            let (code, config, runs) = (code.clone(), config.into(), Runs::begin(Instant::now()));
            Box::new(Successor { code, config, log_level, services: Services::default(), runs })
        });
        let config = config.into();
        self.host_by(|host| code.instance(KernelHost { config, log_level, services, ..host }))?;
        self.successor = successor;
        Ok(())
    }

    /// Ends the instance of a contained app in this process, which must not be called again. The records that it had not handled wait
    /// for the next instance, which is made when it is [due](Self::successor_due). Returns the record that has ended an instance twice,
    /// if there is one; it is not delivered again. `None` if the app is not contained.
    pub(crate) fn end_instance(&mut self, now: Instant) -> Option<Option<Vec<u8>>> {
        self.successor.as_ref()?;
        let (mut undone, mut culprit, mut services) = (None, None, None);
        if let Delivery::Calls(hosted) = self.stop() {
            let in_flight = hosted.in_flight;
            let (ring, of_instance) = hosted.disable();
            (undone, services) = (ring, Some(of_instance));
            if in_flight {
                let mut record = Vec::new();
                culprit = self.backlog.oldest(&mut record).map(|_| record);
                self.backlog.drop_oldest();
                undone.iter_mut().for_each(Tracked::drop_oldest); // the same record
            }
        }
        if let Some(undone) = undone {
            self.put_first(undone);
        }
        if let Some(successor) = &mut self.successor {
            successor.services = services.unwrap_or_default();
            successor.runs.end(now);
        }
        Some(culprit)
    }

    /// When the next instance of a contained app must be made, if none runs.
    pub(crate) fn successor_due(&self) -> Option<Instant> {
        self.successor.as_ref().and_then(|it| it.runs.due())
    }

    /// Makes the next instance of a contained app.
    ///
    /// # Errors
    /// Why its code makes none, as a phrase.
    pub(crate) fn host_successor(&mut self, now: Instant) -> Result<(), String> {
        let Some(mut successor) = self.successor.take() else { return Ok(()) };
        let mut services = std::mem::take(&mut successor.services);
        services.renew();
        let (config, log_level) = (successor.config.clone(), successor.log_level);
        let code = successor.code.clone();
        successor.runs.begin_again(now);
        self.successor = Some(successor);
        self.host_by(|host| code.instance(KernelHost { config, log_level, services, ..host }))?;
        // The sockets announce an event once, which may have been before.
        self.exchange_with_services();
        Ok(())
    }

    /// Changes the level of the log of the app in this process.
    pub(crate) fn set_log_level(&mut self, level: LogLevel) {
        if let Some(successor) = &mut self.successor {
            successor.log_level = level;
        }
        if let Some(hosted) = self.delivery.hosted_mut() {
            hosted.app.host().log_level = level;
        }
    }

    /// Connects the app in this process with a service that has started. Closes the socket if the app does not run here.
    pub(crate) fn connect_service(&mut self, name: &str, socket: OwnedFd, table: Option<&OwnedFd>) {
        if let Some(hosted) = self.delivery.hosted_mut() {
            hosted.app.host().services.connect(name, socket, table);
        } else if let Some(successor) = &mut self.successor {
            successor.services.connect(name, socket, table);
        }
    }

    /// Receives answers of services for the app in this process, and sends the requests that waited for room.
    pub(crate) fn exchange_with_services(&mut self) {
        if let Some(hosted) = self.delivery.hosted_mut() {
            hosted.app.host().services.exchange();
        }
    }

    /// Whether answers of services wait for the app in this process.
    pub(crate) fn has_answers(&mut self) -> bool {
        self.delivery.hosted_mut().is_some_and(Hosted::has_answers)
    }

    /// Calls the app in this process with answers of services. `None` if it does not run here.
    pub(crate) fn call_with_answers(&mut self, now_ns: u64) -> Option<Result<usize, String>> {
        Some(self.delivery.hosted_mut()?.call_with_answers(now_ns))
    }

    fn host_by(
        &mut self,
        create: impl FnOnce(KernelHost) -> Result<Box<dyn Guest>, String>,
    ) -> Result<(), String> {
        let band = (self.policy.band.lowest, self.policy.band.highest);
        let bounds = (self.capacity, self.batch);
        let hosted = Hosted::create(self.app, &self.name, band, bounds, create)?;
        self.start(Delivery::Calls(Box::new(hosted)));
        Ok(())
    }

    /// The version that the app in this process states.
    pub(crate) fn version(&self) -> Option<&str> {
        self.delivery.hosted().map(Hosted::version)
    }

    /// Ends the app in this process, which must not be called again, and makes no further instance of it. The records that it had not
    /// handled wait for a zone, which gets sockets of services of its own.
    pub(crate) fn disable(&mut self) {
        self.successor = None;
        if let Delivery::Calls(hosted) = self.stop()
            && let (Some(undone), _) = hosted.disable()
        {
            self.put_first(undone);
        }
    }

    /// Number of records that wait for the app in this process.
    pub(crate) fn waiting_here(&self) -> usize {
        self.delivery.hosted().map_or(0, Hosted::waiting)
    }

    /// Whether the app in this process must be called before more records are written for it.
    pub(crate) fn batch_waits(&self) -> bool {
        self.delivery.hosted().is_some_and(Hosted::batch_waits)
    }

    /// When the timer of the app in this process expires.
    pub(crate) fn wake_at_ns(&self) -> Option<u64> {
        self.delivery.hosted().and_then(Hosted::wake_at_ns)
    }

    /// Number of log lines of the app in this process that were suppressed in a flood that has ended.
    pub(crate) fn suppressed_lines(&mut self, now: Instant) -> Option<u64> {
        self.delivery.hosted_mut()?.app.host().lines.rest(now)
    }

    /// Calls the app in this process, in a turn that began at `turn`; see [`Hosted::call`]. `None` if it does not run here.
    pub(crate) fn call(
        &mut self,
        now_ns: u64,
        verdicts: &mut Vec<Verdict>,
        turn: Instant,
    ) -> Option<Result<usize, String>> {
        let is_timed = self.latency.times_call(self.counts.delivered);
        let hosted = self.delivery.hosted_mut()?;
        let before = hosted.records.size();
        let called = hosted.call(now_ns, verdicts);
        if matches!(called, Ok(1..)) && std::mem::take(&mut hosted.in_flight) {
            self.backlog.drop_oldest();
        }
        let handled = before.saturating_sub(hosted.records.size());
        self.load.throughput_mut().handled_in_kernel(handled);
        if is_timed {
            self.latency.add(turn.elapsed());
        }
        Some(called)
    }
}

#[cfg(test)]
mod tests;
