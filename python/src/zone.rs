//! `Zone`: the app's view of its zone.

use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};
use std::time::Duration;

use control::log::LogLevel;
use control::zone::{GuestSettings, ObjectForm, ZoneReply};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rustix::event::PollFlags;
use sdk::abi::host::Host;
use sdk::abi::{Level, MAX_BATCH};
use sdk::timers::Timers;
use sys::channel::Channel;
use sys::doorbell::DoorbellSender;
use zone::host::ZoneHost;
use zone::run::{self, Code, GuestParts, ZoneError};

use crate::Full;
use crate::flow::value_error;
use crate::guest::PythonGuest;
use crate::services::Batch;

/// Most bytes of an app's code that are read into memory; an archive is not read but imported from.
const MAX_SOURCE: usize = 16 << 20;

/// Bytes that answers to one event may need in addition to twice the event's own size.
const ANSWER_ROOM: usize = 2048;

/// The numbers on switches that belong to the app: the lowest and the highest of each.
#[pyclass(frozen, get_all, module = "rosemary")]
#[derive(Debug, Clone)]
pub(crate) struct Numbers {
    /// Priorities of flows.
    band: (u16, u16),
    /// Groups.
    groups: (u32, u32),
    /// Meters.
    meters: (u32, u32),
}

/// A listening TCP socket that the monitor has bound.
#[pyclass(frozen, get_all, module = "rosemary")]
#[derive(Debug, Clone)]
pub(crate) struct Listener {
    /// Its name in the configuration.
    name: String,
    /// Its address.
    host: String,
    /// Its port.
    port: u16,
    /// Its descriptor.
    fd: i32,
}

/// The state that the app's calls change.
#[derive(Debug, Default)]
pub(crate) struct ZoneState {
    /// Present while the app runs nothing or handles a batch; the event loop has it in between.
    pub(crate) host: Option<Box<ZoneHost>>,
    /// Whether a batch is being handled.
    pub(crate) in_batch: bool,
    /// How many records of the batch the app has handled, if it said so.
    pub(crate) handled: Option<usize>,
    /// Which records of the batch it stopped, a bit each.
    pub(crate) stopped: u64,
    /// The bytes of the batch's records.
    pub(crate) sizes: Vec<usize>,
    /// The record that the app handles now.
    pub(crate) handling: usize,
    /// The events of the batch, for clients of services.
    pub(crate) batch: Batch,
    /// When the app's timer without a name expires.
    pub(crate) wake_at_ns: Option<u64>,
    /// The timers with names.
    pub(crate) timers: Timers,
    /// When the timer without a name expires that was set before this call.
    pub(crate) earlier_wake_ns: Option<u64>,
    /// Whether a thread has asked for a call of the handler.
    woken: bool,
    /// The last transaction id of the SDK's own messages.
    pub(crate) xid: u32,
    version: Option<String>,
}

/// The zone of an app: this process.
#[pyclass(frozen, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct Zone {
    monitor: Arc<Channel>,
    /// The thread that calls the handler.
    thread: ThreadId,
    pub(crate) state: Mutex<ZoneState>,
    ringer: DoorbellSender,
    log_level: Mutex<LogLevel>,
    settings: GuestSettings,
    name: String,
    config: Vec<u8>,
    numbers: Numbers,
    listeners: Vec<Listener>,
    env: Vec<(String, String)>,
    source: Option<Vec<u8>>,
    archive: Option<String>,
    // Keeps the sockets open; their numbers are in `listeners`.
    _sockets: Vec<std::os::fd::OwnedFd>,
}

impl Zone {
    pub(crate) fn new(
        _py: Python<'_>,
        monitor: Arc<Channel>,
        host: ZoneHost,
        code: &Code,
        guest: GuestParts,
    ) -> PyResult<Self> {
        use std::os::fd::AsRawFd as _;
        let GuestParts { settings, listeners: sockets, env } = guest;
        let load = |error: std::io::Error| {
            let result = run::reported::<()>(&monitor, Err(ZoneError::Load(error)));
            PyRuntimeError::new_err(
                result.map_or_else(|error| error.to_string(), |()| String::new()),
            )
        };
        let (source, archive) = match (settings.form, code) {
            (ObjectForm::File | ObjectForm::Module, code) => {
                (Some(code.read(MAX_SOURCE).map_err(load)?), None)
            }
            (ObjectForm::Archive, Code::Copy(path)) => {
                (None, Some(path.to_string_lossy().into_owned()))
            }
            (ObjectForm::Archive, Code::Sealed(_)) => {
                return Err(load(std::io::Error::other(
                    "a package in Python needs a private root directory, see rosemary doctor",
                )));
            }
        };
        let listeners =
            settings.listeners.iter().zip(&sockets).map(|((name, address), fd)| Listener {
                name: name.clone(),
                host: address.ip().to_string(),
                port: address.port(),
                fd: fd.as_raw_fd(),
            });
        let numbers = host.numbers();
        Ok(Self {
            ringer: host.watched.ringer()?,
            log_level: Mutex::new(host.log_level),
            name: host.name().to_owned(),
            config: host.config().to_vec(),
            numbers: Numbers { band: numbers.band, groups: numbers.groups, meters: numbers.meters },
            listeners: listeners.collect(),
            env,
            source,
            archive,
            monitor,
            thread: thread::current().id(),
            state: Mutex::new(ZoneState { host: Some(Box::new(host)), ..ZoneState::default() }),
            settings,
            _sockets: sockets,
        })
    }

    /// The app's lowest and highest priority on switches.
    pub(crate) fn band(&self) -> (u16, u16) {
        self.numbers.band
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, ZoneState> {
        self.state.lock().unwrap_or_else(|_| {
            // The app can catch the exception that stands for a panic, but the state is half changed and may lack the host.
            tracing::error!(app = self.name, "a fault of the native module; the zone ends");
            std::process::abort()
        })
    }

    /// Checks that the zone's own thread calls: messages and requests of another would belong to a batch by chance.
    pub(crate) fn check_thread(&self) -> PyResult<()> {
        if thread::current().id() == self.thread {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(
            "another thread uses the network; only the thread that handles events may, and wake() has it called",
        ))
    }

    /// Writes a line to the app's log.
    fn write(&self, level: Level, text: &str) {
        zone::host::log(&self.name, *self.log_level(), level, text);
    }

    fn log_level(&self) -> MutexGuard<'_, LogLevel> {
        self.log_level.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Notes the level of the app's log, which an operator may have changed.
    pub(crate) fn set_log_level(&self, level: LogLevel) {
        *self.log_level() = level;
    }

    /// Calls `with` with the host, if the app may send messages now.
    pub(crate) fn sending<T>(
        &self,
        with: impl FnOnce(&mut ZoneHost, &mut u32) -> PyResult<T>,
    ) -> PyResult<T> {
        self.check_thread()?;
        let mut state = self.state();
        let ZoneState { host, in_batch, xid, .. } = &mut *state;
        match host.as_mut().filter(|_| *in_batch) {
            Some(host) => with(host, xid),
            None => Err(PyRuntimeError::new_err(
                "messages can be sent only while an event or the timer is handled",
            )),
        }
    }
}

#[pymethods]
impl Zone {
    /// The app's name in the configuration.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The framework: "python" or "ryu".
    #[getter]
    fn host(&self) -> &'static str {
        self.settings.host.name
    }

    /// The content of the app's configuration file.
    #[getter]
    fn config<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.config)
    }

    /// The app's options.
    #[getter]
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let options = PyDict::new(py);
        for (key, value) in &self.settings.options {
            options.set_item(key, value)?;
        }
        Ok(options)
    }

    /// The environment variables that the operator grants.
    #[getter]
    fn env(&self) -> Vec<(String, String)> {
        self.env.clone()
    }

    /// What to load: the path of a file, or the name of a module.
    #[getter]
    fn objects(&self) -> Vec<String> {
        vec![self.settings.object.clone()]
    }

    /// The form of the object: "source", "module" or "archive".
    #[getter]
    fn form(&self) -> &'static str {
        match self.settings.form {
            ObjectForm::File => "source",
            ObjectForm::Module => "module",
            ObjectForm::Archive => "archive",
        }
    }

    /// The source of a file, as the monitor checked it.
    #[getter]
    fn source<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.source.as_ref().map(|source| PyBytes::new(py, source))
    }

    /// The path of an archive.
    #[getter]
    fn archive(&self) -> Option<&str> {
        self.archive.as_deref()
    }

    /// Directories that join the import path.
    #[getter]
    fn python_path(&self) -> Vec<String> {
        self.settings.path.iter().map(|it| it.to_string_lossy().into_owned()).collect()
    }

    /// The names of the capabilities that the operator granted.
    #[getter]
    fn capabilities(&self) -> Vec<String> {
        self.settings.capabilities.clone()
    }

    /// The numbers on switches that belong to the app.
    #[getter]
    fn numbers(&self) -> Numbers {
        self.numbers.clone()
    }

    /// The listening sockets.
    #[getter]
    fn listeners(&self) -> Vec<Listener> {
        self.listeners.clone()
    }

    /// Imports the app's objects.
    fn load<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("rosemary._runner")?.call_method1("load", (slf,))
    }

    /// Whether `loaded` was called.
    #[getter]
    fn is_loaded(&self) -> bool {
        self.state().version.is_some()
    }

    /// Reports that the app is imported. Call it once, before `run`.
    fn loaded(&self, version: String) -> PyResult<()> {
        let version: String = version.chars().take(64).collect();
        self.monitor
            .send(&ZoneReply::Loaded { version: version.clone() }, &[])
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        tracing::info!(app = self.name, version, "app loaded");
        self.state().version = Some(version);
        Ok(())
    }

    /// Reports that the app cannot be imported. The monitor holds it until its files change.
    fn import_failed(&self, why: String) {
        let _ = run::reported::<()>(&self.monitor, Err(ZoneError::Import(why)));
    }

    /// Reports that the app ended by an exception.
    fn raised(&self, why: String) {
        let _ = run::reported::<()>(&self.monitor, Err(ZoneError::Raised(why)));
    }

    /// Calls `handler` with lists of events until the monitor stops the zone.
    fn run(slf: Py<Self>, py: Python<'_>, handler: Py<PyAny>) -> PyResult<()> {
        let for_calls = slf.clone_ref(py);
        let zone = slf.get();
        zone.check_thread()?;
        let host = {
            let mut state = zone.state();
            if state.version.is_none() {
                return Err(PyRuntimeError::new_err("call loaded() before run()"));
            }
            state.host.take().ok_or_else(|| PyRuntimeError::new_err("it runs already"))?
        };
        let monitor = zone.monitor.clone();
        let mut raised = None;
        let result = py.detach(|| {
            let guest = PythonGuest::new(host, for_calls, handler);
            let mut zone = run::Zone::of(guest);
            let result = zone.serve(&monitor);
            raised = zone.into_app().take_raised();
            result
        });
        match (result, raised) {
            (Ok(()), _) => Ok(()),
            (Err(_), Some(raised)) => Err(raised),
            (Err(error), None) => {
                let text = error.to_string();
                let _ = run::reported::<()>(&zone.monitor, Err(error));
                Err(PyRuntimeError::new_err(text))
            }
        }
    }

    /// Sends one raw `OpenFlow` message, with its own transaction id and the numbers of the switch.
    fn send(&self, dpid: u64, epoch: u32, message: &[u8]) -> PyResult<()> {
        let stated = message.get(2..4).map(|it| usize::from(it[0]) << 8 | usize::from(it[1]));
        if message.len() < 8 || stated != Some(message.len()) {
            return Err(PyValueError::new_err(format!(
                "a message of {} bytes whose header says {}",
                message.len(),
                stated.unwrap_or_default()
            )));
        }
        self.sending(|host, _| {
            let Some(room) = host.reserve(message.len()) else { return Err(full()) };
            room[..message.len()].copy_from_slice(message);
            if host.commit(dpid, epoch, message.len(), 0) { Ok(()) } else { Err(full()) }
        })
    }

    /// Bytes of messages that there is room for in this batch.
    fn room(&self) -> usize {
        let state = self.state();
        state.host.as_ref().filter(|_| state.in_batch).map_or(0, Host::room)
    }

    /// Begins to handle event `number` of the batch. Returns `False` if there is no room for answers.
    fn begin(&self, number: usize) -> bool {
        let mut state = self.state();
        state.handling = number;
        let size = state.sizes.get(number).copied().unwrap_or_default();
        let room = state.host.as_ref().map_or(0, Host::room);
        room >= 2 * size + ANSWER_ROOM
    }

    /// Stops event `number` of the batch, or the one that is being handled: the apps behind this one do not get it.
    #[pyo3(signature = (number = None))]
    fn stop(&self, number: Option<usize>) {
        let mut state = self.state();
        let number = number.unwrap_or(state.handling);
        if number < MAX_BATCH {
            state.stopped |= 1 << number;
        }
    }

    /// Sets a timer: the app is called at this time of `now`, in seconds, at the latest. The earliest of several counts, and
    /// the next call clears it.
    fn wake_at(&self, seconds: f64) -> PyResult<()> {
        let time = Duration::try_from_secs_f64(seconds).map_err(|it| value_error(&it))?;
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let mut state = self.state();
        state.wake_at_ns = Some(state.wake_at_ns.map_or(time_ns, |it| it.min(time_ns)));
        Ok(())
    }

    /// Sets the timer `name` to expire once at this time of `now`, in seconds: `on_timer` is then called. Replaces a timer of
    /// this name. Other events do not change it.
    fn set_timer(&self, name: &str, seconds: f64) -> PyResult<()> {
        let at = Duration::try_from_secs_f64(seconds).map_err(|it| value_error(&it))?;
        self.check_thread()?;
        self.state().timers.set(name, at).map_err(|it| value_error(&it))
    }

    /// Sets the timer `name` to expire after each period of this many seconds. As `set_timer`.
    fn repeat_timer(&self, name: &str, seconds: f64) -> PyResult<()> {
        let every = Duration::try_from_secs_f64(seconds).map_err(|it| value_error(&it))?;
        self.check_thread()?;
        let now = Duration::from_nanos(sys::clock::now_ns());
        self.state().timers.repeat(name, every, now).map_err(|it| value_error(&it))
    }

    /// Cancels the timer `name`. Returns whether it was set.
    fn cancel_timer(&self, name: &str) -> PyResult<bool> {
        self.check_thread()?;
        Ok(self.state().timers.cancel(name))
    }

    /// The timers with names that have expired, and whether this call is a wake-up for the app as well if it has no events. The
    /// dispatch of events calls it once in each call.
    fn begin_wake(&self) -> (Vec<String>, bool) {
        let now_ns = sys::clock::now_ns();
        let mut state = self.state();
        let expired = state.timers.expired(now_ns);
        let is_due = state.earlier_wake_ns.is_some_and(|at| at <= now_ns);
        let is_woken = std::mem::take(&mut state.woken) || is_due || expired.is_empty();
        if !is_woken && state.sizes.is_empty() {
            // A call for timers with names alone leaves the timer without a name.
            state.wake_at_ns = state.earlier_wake_ns;
        }
        (expired.into_iter().map(Into::into).collect(), is_woken)
    }

    /// The time in seconds since an arbitrary moment, `time.monotonic()`.
    #[staticmethod]
    fn now() -> f64 {
        Duration::from_nanos(sys::clock::now_ns()).as_secs_f64()
    }

    /// Logs that someone must act.
    fn error(&self, text: &str) {
        self.write(Level::Error, text);
    }

    /// Logs that something went wrong and the app coped.
    fn warn(&self, text: &str) {
        self.write(Level::Warn, text);
    }

    /// Logs a change.
    fn info(&self, text: &str) {
        self.write(Level::Info, text);
    }

    /// Logs what helps a developer.
    fn debug(&self, text: &str) {
        self.write(Level::Debug, text);
    }

    /// States that only the first `count` events of the batch were handled; the others come again.
    fn set_handled(&self, count: usize) {
        self.state().handled = Some(count);
    }

    /// Writes a line to the app's log: 1 error, 2 warning, 3 information, 4 details.
    fn log(&self, level: u32, text: &str) -> PyResult<()> {
        let level = match level {
            1 => Level::Error,
            2 => Level::Warn,
            3 => Level::Info,
            4 => Level::Debug,
            _ => return Err(PyValueError::new_err("a level is 1 to 4")),
        };
        self.write(level, text);
        Ok(())
    }

    /// Reports an incident of the network: what happened, and the evidence. The monitor accepts a few per minute.
    fn incident(&self, summary: &str, evidence: &str) -> PyResult<()> {
        self.sending(|host, _| {
            host.report_incident(summary, evidence);
            Ok(())
        })
    }

    /// States a problem that stops the app's work, as a phrase that says what to do. `None` ends it.
    ///
    /// It is an incident, and a reason for which `rosemary status` calls Rosemary degraded, until the app states `None` or ends. At
    /// most 1024 characters of it are kept.
    fn set_problem(&self, text: Option<&str>) -> PyResult<()> {
        self.sending(|host, _| {
            host.set_problem(text.unwrap_or_default());
            Ok(())
        })
    }

    /// Watches a descriptor for these events of poll(2); 0 stops that.
    fn watch(&self, fd: i32, events: u16) -> PyResult<()> {
        self.check_thread()?;
        let mut state = self.state();
        let host = state.host.as_mut();
        let host = host.ok_or_else(|| {
            PyRuntimeError::new_err("watch() belongs before run(), or into a call of the handler")
        })?;
        if events == 0 {
            host.watched.forget(fd);
            return Ok(());
        }
        let duplicate = sys::descriptor::duplicate(fd).map_err(PyOSError::new_err_of)?;
        let events = PollFlags::from_bits_truncate(events);
        host.watched.watch(fd, duplicate, events).map_err(PyOSError::new_err_of)
    }

    /// The time of the events, `time.monotonic_ns()`.
    #[staticmethod]
    fn now_ns() -> u64 {
        sys::clock::now_ns()
    }

    /// Has the handler called soon. Any thread may call this.
    fn wake(&self) {
        self.state().woken = true;
        self.ringer.ring();
    }
}

/// The error for a full ring.
pub(crate) fn full() -> PyErr {
    Full::new_err("no room for more messages in this batch")
}

/// Makes Python's `OSError` of a system error.
trait OfSystem {
    fn new_err_of(error: std::io::Error) -> PyErr;
}

impl OfSystem for PyOSError {
    fn new_err_of(error: std::io::Error) -> PyErr {
        error.into()
    }
}

/// Adds the classes to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Zone>()?;
    module.add_class::<Numbers>()?;
    module.add_class::<Listener>()?;
    Ok(())
}
