//! Calls the apps that run in this process (*Rosemary §3.2.7*).
//!
//! Each worker has its own instance of each app. It calls an instance when a batch of records is complete, and at the
//! end of every turn with the remaining records. Messages of these apps pass the same checks as messages from a zone.
//! An app that panics is disabled on every worker, and continues in a zone as a user app. If a failure of the app leaves this process
//! whole ([`Artifact::is_contained`](crate::app_port::Artifact::is_contained)), another instance takes its place on the same worker.

use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::flight::{CallGuard, EventKind, FlightSlot, Noted};
use rustix::event::epoll::{self, EventData, EventFlags};
use sys::clock::now_ns;
use sys::memory::touched_by_thread;
use tracing::error;

use super::{SERVICE, Worker, WorkerEvent};
use crate::app_port::Artifact;
use crate::ids::AppSlot;
use control::app::AppId;
use control::log::LogLevel;

/// An app's code, and the configuration of its instances.
#[derive(Debug)]
pub struct Loaded {
    /// The code.
    pub(crate) code: Arc<dyn Artifact>,
    /// The operator's configuration.
    pub(crate) config: Box<[u8]>,
}

/// Why an app is called.
#[derive(Debug, Clone, Copy)]
enum Cause {
    /// Records of switches wait, or its timer has expired.
    Records,
    /// Services have answered.
    Answers,
}

impl Worker {
    /// Makes this worker's instance of an app, whose log has this level, and which may use these services.
    pub(super) fn host(
        &mut self,
        app: AppId,
        loaded: &Loaded,
        log_level: LogLevel,
        services: &[String],
    ) {
        let Some(slot) = self.slot_of(app) else { return };
        let app_port = &mut self.dispatch.app_ports[slot];
        let noted = note(&mut self.calls.flight_slot, app);
        let hosted = app_port.host(&loaded.code, &loaded.config, log_level, services);
        drop(noted);
        if let Err(why) = hosted {
            self.demote(slot, why);
            return;
        }
        let version = app_port.version().unwrap_or_default().to_owned();
        self.channels.notify(WorkerEvent::Hosted { app, version });
    }

    /// Connects this worker's instance of an app with a service that has started.
    pub(super) fn connect_service(
        &mut self,
        app: AppId,
        name: &str,
        socket: OwnedFd,
        table: Option<&OwnedFd>,
    ) {
        let Some(slot) = self.slot_of(app) else { return };
        let data = EventData::new_u64(SERVICE | slot.index() as u64);
        // Edge-triggered: while the app does not handle answers, further ones stay in the socket and must not wake the worker.
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
        match epoll::add(&self.epoll, &socket, data, flags) {
            Ok(()) => self.dispatch.app_ports[slot].connect_service(name, socket, table),
            Err(error) => {
                let app = &self.dispatch.app_ports[slot].name;
                error!(app, service = name, %error, "could not connect an app in the kernel to a service");
            }
        }
    }

    /// Receives answers of services for an app in this process, and sends its requests that waited for room.
    pub(super) fn exchange_with_services(&mut self, slot: AppSlot) {
        if let Some(app_port) = self.dispatch.app_ports.get_mut(slot.index()) {
            app_port.exchange_with_services();
        }
    }

    /// Calls the apps for which a whole batch waits, in the middle of a turn.
    pub(super) fn call_full(&mut self, now: Instant) {
        if !self.dispatch.batch_waits() {
            return;
        }
        for slot in AppSlot::first(self.dispatch.app_ports.len()) {
            if self.dispatch.app_ports[slot].batch_waits() {
                self.call_once(slot, Cause::Records, now);
            }
        }
    }

    /// Calls the apps for which records wait, or whose timer has expired.
    pub(super) fn call_apps(&mut self, now: Instant) {
        for slot in AppSlot::first(self.dispatch.app_ports.len()) {
            if self.dispatch.app_ports[slot].successor_due().is_some_and(|due| due <= now) {
                self.host_successor(slot, now);
                continue; // its snapshot comes first
            }
            let app_port = &self.dispatch.app_ports[slot];
            // Records that the calls themselves cause wait for the next turn.
            let mut left = app_port.waiting_here();
            let is_due = left > 0 || app_port.wake_at_ns().is_some_and(|at| at <= now_ns());
            while is_due && let Some(handled) = self.call_once(slot, Cause::Records, now) {
                left = left.saturating_sub(handled);
                if left == 0 || handled == 0 {
                    break; // an app that only sends must not occupy the worker
                }
            }
            // The records come first: the snapshot among them precedes every other event.
            let app_port = &mut self.dispatch.app_ports[slot];
            if left == 0 && app_port.has_snapshot() && app_port.has_answers() {
                self.call_once(slot, Cause::Answers, now);
            }
        }
    }

    /// Calls an app. If it fails, it is demoted, or another instance is made. Returns how many records it handled; `None` if it is not here, or no
    /// longer.
    fn call_once(&mut self, slot: AppSlot, cause: Cause, now: Instant) -> Option<usize> {
        match self.call(slot, cause, now)? {
            Ok(handled) => Some(handled),
            Err(why) => {
                self.fail(slot, why, now);
                None
            }
        }
    }

    /// Handles the failure of an app in this process.
    #[cold]
    fn fail(&mut self, slot: AppSlot, why: String, now: Instant) {
        let app_port = &mut self.dispatch.app_ports[slot];
        let (app, noted) = (app_port.app, note(&mut self.calls.flight_slot, app_port.app));
        let Some(culprit) = app_port.end_instance(now) else {
            drop(noted);
            return self.demote(slot, why);
        };
        drop(noted);
        if let Some(record) = culprit {
            self.channels.notify(WorkerEvent::SetAside { app, record });
        }
        self.channels.notify(WorkerEvent::InstanceEnded { app, why });
        if self.dispatch.app_ports[slot].successor_due().is_some_and(|due| due <= now) {
            self.host_successor(slot, now);
        }
    }

    /// Makes the next instance of a contained app. If that fails, the app leaves this process.
    fn host_successor(&mut self, slot: AppSlot, now: Instant) {
        let app_port = &mut self.dispatch.app_ports[slot];
        let app = app_port.app;
        let noted = note(&mut self.calls.flight_slot, app);
        let hosted = app_port.host_successor(now);
        drop(noted);
        if let Err(why) = hosted {
            self.demote(slot, why);
        }
    }

    /// Returns when the next instance of an app in this process is due, if one does not run.
    pub(super) fn next_successor(&self) -> Option<Instant> {
        self.dispatch.app_ports.iter().filter_map(crate::app_port::AppPort::successor_due).min()
    }

    /// Calls an app once; `None` if it is not here.
    fn call(&mut self, slot: AppSlot, cause: Cause, now: Instant) -> Option<Result<usize, String>> {
        let mut messages = std::mem::take(&mut self.calls.messages);
        let mut verdicts = std::mem::take(&mut self.calls.verdicts);
        let app_port = &mut self.dispatch.app_ports[slot];
        let app = app_port.app;
        let touched = self.calls.charges_memory.then(touched_by_thread);
        let noted = note(&mut self.calls.flight_slot, app);
        let called = match cause {
            Cause::Records => app_port.call(now_ns(), &mut verdicts, now),
            Cause::Answers => app_port.call_with_answers(now_ns()),
        };
        drop(noted);
        if let Some(touched) = touched {
            self.charge(app, touched_by_thread().saturating_sub(touched));
        }
        if let Some(Ok(_)) = called {
            // Fails only for apps in zones.
            while let Ok(1..) = self.dispatch.app_ports[slot].receive(&mut messages, &mut verdicts)
            {
                self.send_all(slot, &mut messages, now);
            }
            self.dispatch.verdicts(slot, &mut verdicts, now);
        }
        (self.calls.messages, self.calls.verdicts) = (messages, verdicts);
        called
    }

    /// Charges the memory that a call took to its app.
    #[cold]
    fn charge(&self, app: AppId, bytes: u64) {
        if bytes > 0
            && let (Some(flight_slot), Some(app)) =
                (&self.calls.flight_slot, NonZeroU16::new(app.0))
        {
            flight_slot.charge(app, bytes);
        }
    }

    /// Returns when the next timer of an app in this process expires.
    pub(super) fn next_wake(&self, now: Instant) -> Option<Instant> {
        let at_ns = self
            .dispatch
            .app_ports
            .iter()
            .filter_map(crate::app_port::AppPort::wake_at_ns)
            .min()?;
        Some(now + Duration::from_nanos(at_ns.saturating_sub(now_ns())))
    }

    /// Disables an app in this process that has failed: a zone takes over its records.
    fn demote(&mut self, slot: AppSlot, why: String) {
        let app_port = &mut self.dispatch.app_ports[slot];
        app_port.disable();
        let app = app_port.app;
        error!(app = app_port.name, why, "an app in the kernel failed; it continues as a user app");
        self.channels.notify(WorkerEvent::Demoted { app, why });
    }

    /// Disables this worker's instance of an app whose instance on another worker has failed.
    pub(super) fn disable(&mut self, app: AppId) {
        if let Some(slot) = self.slot_of(app) {
            self.dispatch.app_ports[slot].disable();
        }
    }
}

/// Notes in the flight recorder `count` messages of a switch. `messages` begins with the first.
#[inline]
pub(crate) fn note_received(
    flight_slot: &mut Option<FlightSlot>,
    dpid: u64,
    messages: &[u8],
    count: u64,
) {
    if let Some(flight_slot) = flight_slot {
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        flight_slot.note_event(EventKind::Received, &Noted { messages, count, dpid, app: 0 });
    }
}

/// Notes in the flight recorder that an app is being called, until the returned value is dropped.
pub(crate) fn note(flight_slot: &mut Option<FlightSlot>, app: AppId) -> Option<CallGuard<'_>> {
    Some(flight_slot.as_mut()?.begin_call(NonZeroU16::new(app.0)?))
}
