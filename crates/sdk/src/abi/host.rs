//! Implements the host's side of the ABI: checks an object's table, makes an instance, calls it.
//!
//! The host does not trust the object's code. It checks the object's table before use, and the
//! object's calls reach only [`Host`]. The sandbox, which the process has entered before, limits
//! everything else that the code can do.

mod calls;

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_void};
use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};

use sys::object::Object;
use thiserror::Error;

use super::{
    ABI, AnswerTable, AppTable, BatchTable, HostFunctions, Level, MAX_BATCH, MAX_CONFIG, Record,
    SYMBOL, guest,
};

use crate::services::table::Slot;
use crate::services::{AskError, RequestId, Service};
use crate::serving::ClientRequest;

pub use super::gathered::{Gathered, WholeRecord, Writer};

/// Carries out the calls of an application.
pub trait Host: 'static {
    /// Reserves room for a message of up to `size` bytes; returns `None` if there is none now.
    fn reserve(&mut self, size: usize) -> Option<&mut [u8]>;
    /// Makes the first `size` bytes of that room a message, or a [`Series`](series::Series) of `series` flow-mods
    /// if that is not 0. Returns `false` if there was no such room.
    fn commit(&mut self, dpid: u64, epoch: u32, size: usize, series: u32) -> bool;
    /// Returns how many bytes of messages there is room for.
    fn room(&self) -> usize;
    /// Returns the band of priorities on the switch that the application's flows may have.
    fn band(&self) -> (u16, u16);
    /// Returns the first and last number on the switch of the application's groups.
    fn groups(&self) -> (u32, u32);
    /// Returns the first and last number on the switch of the application's meters.
    fn meters(&self) -> (u32, u32);
    /// Returns the application's configuration, at most [`MAX_CONFIG`] bytes; empty if there is none.
    fn config(&self) -> &[u8];
    /// Stops record `number` of the present batch: the applications behind do not get it. Called after the
    /// application has returned, at most once per record, and only for records that it handled.
    fn stop(&mut self, number: usize);
    /// Writes a line to the operator's log.
    fn log(&mut self, level: Level, text: &str);
    /// Sends a request to a service.
    ///
    /// # Errors
    /// [`AskError`]: no request was sent. Where there are no services, this is always the result.
    fn ask(&mut self, service: Service, request: &[u8]) -> Result<RequestId, AskError> {
        let _ = (service, request);
        Err(AskError::NotNamed)
    }
    /// Returns the descriptor that came with the answer to a request; `None` if there
    /// is none, as where there are no services.
    fn take(&mut self, request: RequestId) -> Option<OwnedFd> {
        let _ = request;
        None
    }
    /// Copies records of a service's table into `records`, from slot `first` on. Returns the table's version; `None` if there
    /// is no table, as where there are no services.
    fn read_table(&self, service: Service, first: u32, records: &mut [Slot]) -> Option<u64> {
        let _ = (service, first, records);
        None
    }
    /// Writes a record of the table that the application publishes. Returns `false` if there is no such slot.
    fn publish(&mut self, slot: u32, record: &Slot) -> bool {
        let _ = (slot, record);
        false
    }
    /// Answers a request of a client of the application.
    fn answer(&mut self, request: ClientRequest, more: bool, body: &[u8]) {
        let _ = (request, more, body);
    }
    /// Reports an incident to the operator.
    fn report_incident(&mut self, summary: &str, evidence: &str) {
        self.log(Level::Warn, &format!("{summary}: {evidence}"));
    }
    /// States a problem that stops the application's work; an empty `text` ends it.
    fn set_problem(&mut self, text: &str) {
        match text {
            "" => self.log(Level::Info, "the problem is over"),
            text => self.log(Level::Error, text),
        }
    }
}

/// Why the host cannot run an object.
#[derive(Debug, Error)]
pub enum LoadError {
    /// It exports no `rosemary_app`.
    #[error(
        "the object exports no symbol `{SYMBOL}`: {0}; is it built with export_app! or against rosemary_app.h?"
    )]
    NoSymbol(std::io::Error),
    /// The object was built for another ABI.
    #[error(
        "the object is built for version {abi} of the app ABI with a table of {size} bytes, this host runs version {ABI} with {expected}; build it again"
    )]
    Abi {
        /// Version it states.
        abi: u32,
        /// Size of its table in bytes.
        size: u32,
        /// Size of ours in bytes.
        expected: usize,
    },
    /// A member of its table is missing or not text.
    #[error("the object's table has no usable `{0}`")]
    Member(&'static str),
    /// `create` returned NULL or panicked.
    #[error("the app could not create its instance: {0}")]
    Create(
        /// The reason that it logged.
        String,
    ),
    /// The configuration is too long.
    #[error("its configuration has {0} bytes, at most {MAX_CONFIG} are allowed; shorten it")]
    Config(usize),
}

/// The application cannot go on: it returned that it has failed, or broke the ABI. It is not called again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Failed {
    /// `on_batch` returned `ROSEMARY_FAILED`; from Rust, this is a panic.
    #[error("the app panicked or gave up in on_batch")]
    GaveUp,
    /// It claims to have handled more than it was given.
    #[error("the app claims to have handled {handled} of {count} records")]
    Handled {
        /// Its claim.
        handled: u32,
        /// Records in the batch.
        count: usize,
    },
}

/// An application's answer to a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// How many of the records it handled.
    pub handled: usize,
    /// When its timer expires, in nanoseconds of the monotonic clock.
    pub wake_at_ns: Option<u64>,
}

/// An instance of an application. Never moved to another thread; never unloaded.
///
/// The application keeps a pointer to its host table as long as it lives and uses it during calls.
/// Both sides therefore reach the state behind the table only through raw pointers from one allocation.
/// A box, or a reference kept over a call, would claim the state for itself each time that this
/// structure is moved or borrowed, and the application's pointer would become invalid.
#[derive(Debug)]
pub struct HostedApp<H: Host> {
    on_batch: unsafe extern "C" fn(*mut c_void, *const BatchTable, *mut AnswerTable) -> i32,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    app: *mut c_void,
    name: String,
    version: String,
    /// From a box; freed in `drop`.
    state: NonNull<HostState<H>>,
}

/// The allocation that holds the host table and the state behind it.
#[derive(Debug)]
struct HostState<H> {
    table: HostFunctions,
    /// The configuration that the table points to.
    config: Box<[u8]>,
    inner: UnsafeCell<Inner<H>>,
}

/// The state that the functions of a table reach through its context.
#[derive(Debug)]
pub(super) struct Inner<H> {
    pub(super) host: H,
    /// Records of the present batch; 0 outside of one.
    count: usize,
    /// Which of them were stopped, a bit each.
    stopped: u64,
    /// Whether `create` is running.
    creating: bool,
    /// The last error that it logged.
    complaint: Option<String>,
}

impl<H: Host> Inner<H> {
    /// Outside of a batch.
    pub(super) fn new(host: H) -> Self {
        Self { host, count: 0, stopped: 0, creating: false, complaint: None }
    }
}

const _: () = assert!(MAX_BATCH <= u64::BITS as usize, "a bit for each record");

impl<H: Host> HostedApp<H> {
    /// Checks the object's table and creates an instance that will call `host`.
    ///
    /// # Errors
    /// [`LoadError`]: it is not an application, or not one for this host.
    pub fn create(object: &Object, host: H) -> Result<Self, LoadError> {
        let table = object.symbol(SYMBOL).map_err(LoadError::NoSymbol)?.cast::<AppTable>();
        Self::create_from(check(table)?, host)
    }

    /// Creates an instance of an application that is linked into this program, for tests.
    ///
    /// # Errors
    /// [`LoadError::Create`]: it panicked.
    pub fn linked<A: crate::App>(host: H) -> Result<Self, LoadError> {
        Self::create_from(const { &guest::table::<A>(c"linked", c"0") }, host)
    }

    fn create_from(table: &'static AppTable, host: H) -> Result<Self, LoadError> {
        let on_batch = table.on_batch.ok_or(LoadError::Member("on_batch"))?;
        let create = table.create.ok_or(LoadError::Member("create"))?;
        let name = text(table.name).ok_or(LoadError::Member("name"))?;
        let version = text(table.version).ok_or(LoadError::Member("version"))?;
        let config: Box<[u8]> = host.config().into();
        if config.len() > MAX_CONFIG {
            return Err(LoadError::Config(config.len()));
        }
        let state = NonNull::from(Box::leak(Box::new(HostState {
            table: functions(&host),
            config,
            inner: UnsafeCell::new(Inner { creating: true, ..Inner::new(host) }),
        })));
        // From here on dropping it frees the state.
        let mut hosted =
            Self { on_batch, destroy: None, app: ptr::null_mut(), name, version, state };
        let context = hosted.inner().cast();
        // SAFETY: the state is alive, and the app has no pointer to it yet.
        unsafe { (*state.as_ptr()).table.context = context };
        // SAFETY: as above.
        let config = unsafe { &(*state.as_ptr()).config };
        let config_size = u32::try_from(config.len()).expect("at most MAX_CONFIG");
        let config = config.as_ptr().cast();
        // SAFETY: as above.
        let functions = unsafe { &mut (*state.as_ptr()).table };
        (functions.config, functions.config_size) = (config, config_size);
        // SAFETY: the state is alive; only an address is taken.
        let host_table = unsafe { &raw const (*state.as_ptr()).table };
        // SAFETY: the ABI's contract: the function takes a host table that outlives the
        // instance, which it does: the state is freed after `destroy`. Nothing here borrows from
        // it during the call.
        hosted.app = unsafe { create(host_table) };
        // SAFETY: as in `host`.
        let inner = unsafe { &mut *hosted.inner() };
        inner.creating = false;
        let complaint = inner.complaint.take();
        if hosted.app.is_null() {
            return Err(LoadError::Create(
                complaint.unwrap_or_else(|| "it did not say why".into()),
            ));
        }
        hosted.destroy = table.destroy;
        Ok(hosted)
    }

    /// Returns the pointer through which both sides reach the host. A reference made of it must not live
    /// over a call into the application.
    fn inner(&self) -> *mut Inner<H> {
        // SAFETY: the state lives until `drop`; only an address is taken.
        let cell = unsafe { &raw const (*self.state.as_ptr()).inner };
        UnsafeCell::raw_get(cell)
    }

    /// Returns the name that the object states.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the version that the object states.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns what carries out the application's calls.
    pub fn host(&mut self) -> &mut H {
        // SAFETY: the state lives until `drop`; the application looks at it in calls only, and
        // `&mut self` keeps us from making one while the reference lives.
        unsafe { &mut (*self.inner()).host }
    }

    /// Calls the application with a batch of whole records, or with none as a wake-up.
    ///
    /// # Errors
    /// [`Failed`]: it must not be called again, and the messages of this call must not be sent.
    ///
    /// # Panics
    /// If there are more than [`MAX_BATCH`] records.
    pub fn on_batch<'r>(
        &mut self,
        now_ns: u64,
        records: impl IntoIterator<Item = WholeRecord<'r>>,
    ) -> Result<Answer, Failed> {
        let mut pointers = [ptr::null::<Record>(); MAX_BATCH];
        let mut given = 0;
        for record in records {
            pointers[given] = record.start();
            given += 1;
        }
        // SAFETY: each is of a whole record that outlives this call.
        unsafe { self.call(now_ns, &pointers[..given]) }
    }

    /// Does the same with records that are in a slice already.
    ///
    /// # Errors
    /// As [`on_batch`](Self::on_batch).
    ///
    /// # Panics
    /// As [`on_batch`](Self::on_batch).
    pub fn on_records(
        &mut self,
        now_ns: u64,
        records: &[WholeRecord<'_>],
    ) -> Result<Answer, Failed> {
        // SAFETY: each is of a whole record that outlives this call.
        unsafe { self.call(now_ns, WholeRecord::pointers(records)) }
    }

    /// Calls the application with records.
    ///
    /// # Safety
    /// Each is whole, and nobody changes it during the call.
    unsafe fn call(&mut self, now_ns: u64, records: &[*const Record]) -> Result<Answer, Failed> {
        let given = records.len();
        assert!(given <= MAX_BATCH, "a batch has at most {MAX_BATCH} records");
        let count = u32::try_from(given).expect("at most MAX_BATCH");
        let batch = BatchTable { now_ns, count, reserved: 0, records: records.as_ptr() };
        let mut answer = AnswerTable { handled: count, reserved: 0, wake_at_ns: u64::MAX };
        self.begin(given);
        // SAFETY: the ABI's contract: `app` is what `create` returned and was not destroyed;
        // the batch's pointers are to whole records, as the caller promises; nothing here borrows
        // `inner` during it.
        let result = unsafe { (self.on_batch)(self.app, &raw const batch, &raw mut answer) };
        let stopped = self.begin(0);
        if result != 0 {
            return Err(Failed::GaveUp);
        }
        let handled = answer.handled;
        if handled > count {
            return Err(Failed::Handled { handled, count: given });
        }
        // Not during its calls of `stop`: they may come between a `reserve` and its `commit`, or more than once for a
        // record, and a record that the app did not handle comes again and may be stopped again.
        let mut left = stopped;
        while left.trailing_zeros() < handled {
            self.host().stop(left.trailing_zeros() as usize);
            left &= left - 1;
        }
        let wake_at_ns = (answer.wake_at_ns != u64::MAX).then_some(answer.wake_at_ns);
        Ok(Answer { handled: handled as usize, wake_at_ns })
    }

    /// Begins a batch of `count` records; returns which records of the one before were stopped.
    fn begin(&mut self, count: usize) -> u64 {
        // SAFETY: as in `host`.
        let inner = unsafe { &mut *self.inner() };
        inner.count = count;
        std::mem::take(&mut inner.stopped)
    }
}

impl<H: Host> Drop for HostedApp<H> {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the ABI's contract: called once, with what `create` returned.
            unsafe { destroy(self.app) };
        }
        // SAFETY: it came from a box, the application is gone, and this is the only place that
        // frees it.
        drop(unsafe { Box::from_raw(self.state.as_ptr()) });
    }
}

/// Returns the table of a host, still without its context and its configuration.
pub(super) fn functions<H: Host>(host: &H) -> HostFunctions {
    let (lowest_priority, highest_priority) = host.band();
    let ((first_group, last_group), (first_meter, last_meter)) = (host.groups(), host.meters());
    HostFunctions {
        abi: ABI,
        size: u32::try_from(size_of::<HostFunctions>()).expect("a small structure"),
        context: ptr::null_mut(),
        lowest_priority,
        highest_priority,
        reserved: 0,
        reserve: calls::reserve::<H>,
        commit: calls::commit::<H>,
        room: calls::room::<H>,
        stop: calls::stop::<H>,
        log: calls::log::<H>,
        first_group,
        last_group,
        first_meter,
        last_meter,
        config: ptr::null(),
        config_size: 0,
        reserved2: 0,
        ask: calls::ask::<H>,
        take: calls::take::<H>,
        commit_series: calls::commit_series::<H>,
        read_table: calls::read_table::<H>,
        publish: calls::publish::<H>,
        answer: calls::answer::<H>,
        report_incident: calls::report_incident::<H>,
        set_problem: calls::set_problem::<H>,
    }
}

/// Checks the table as far as possible before anything of it is used.
fn check(table: NonNull<AppTable>) -> Result<&'static AppTable, LoadError> {
    let expected = size_of::<AppTable>();
    // SAFETY: two numbers stand first in every version of the table; objects are never unloaded,
    // so what the symbol points to stays.
    let [abi, size] = unsafe { table.cast::<[u32; 2]>().read_unaligned() };
    if abi != ABI || (size as usize) < expected || !table.is_aligned() {
        return Err(LoadError::Abi { abi, size, expected });
    }
    // SAFETY: it states this version and a size of at least ours, and is aligned.
    Ok(unsafe { table.as_ref() })
}

fn text(pointer: *const c_char) -> Option<String> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: the ABI's contract: a constant string that ends with a NUL.
    let text = unsafe { CStr::from_ptr(pointer) };
    let text = text.to_str().ok()?;
    (!text.is_empty() && text.len() <= 64).then(|| text.to_owned())
}
