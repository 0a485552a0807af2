//! Implements the application's side of the ABI: the functions behind [`export_app!`](crate::export_app).
//!
//! They turn the C structures into [`Event`](crate::Event)s, call the [`App`], and turn a panic
//! into [`FAILED`], because a panic must not cross into the host.

use std::any::Any;
use std::ffi::{CStr, c_char, c_void};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use openflow::FlowModTemplate;
use series::{BLANKS_SIZE, FlowAndPacket, MAX_SERIES, PACKET_SIZE, Written};

use super::records::Records;
use super::{ABI, AnswerTable, AppTable, BatchTable, FAILED, HostFunctions, Level};
use crate::app::{ANSWER_ROOM, App, Batch};
use crate::changes::CHANGE_SET;
use crate::event::Switch;
use crate::network::Network;
use crate::own::Own;
use crate::services::table::Slot;
use crate::services::{AskError, RequestId, Service};
use crate::serving::ClientRequest;
use crate::timers::Timers;

/// Makes an application's table, for `export_app!`.
pub const fn table<A: App>(name: &'static CStr, version: &'static CStr) -> AppTable {
    AppTable {
        abi: ABI,
        #[expect(clippy::cast_possible_truncation, reason = "a small structure")]
        size: size_of::<AppTable>() as u32,
        name: name.as_ptr(),
        version: version.as_ptr(),
        create: Some(create::<A>),
        on_batch: Some(on_batch::<A>),
        destroy: Some(destroy::<A>),
    }
}

/// Converts a literal that ends with its only NUL, for `export_app!`.
///
/// # Panics
/// At compile time, if the literal has another NUL.
pub const fn text(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("names and versions of applications contain no NUL"),
    }
}

/// The instance that `create` returns.
struct Instance<A> {
    app: A,
    host: Host,
}

/// Calls the host through its table, and keeps what lasts from call to call.
#[derive(Debug)]
pub(crate) struct Host {
    table: *const HostFunctions,
    /// The transaction id of the last message.
    xid: u32,
    /// The series that the application writes in the room reserved last, if it does.
    series: Option<OpenSeries>,
    /// The timers with names.
    pub(crate) timers: Timers,
    /// When the timer without a name expires, in nanoseconds; `u64::MAX` if it is not set.
    wake_at_ns: u64,
    /// Bytes that there is certainly room for; see [`has_room`](Self::has_room).
    room_at_least: usize,
}

/// Bytes that a message takes beyond its size, as `rosemary_app.h` says.
const HEAD: usize = 24;

/// The same with the padding before the next message.
const MOST_HEAD: usize = 32;

/// The time after which timers that wait for room are tried again, in nanoseconds.
const RETRY_NS: u64 = 1_000_000;

/// Most bytes of the flows and packets of a series with packets. Longer packets go out in messages of their own.
const WITH_PACKETS: usize = 8192;

/// A series that more flow-mods may be added to.
#[derive(Debug)]
struct OpenSeries {
    /// The number of its template, and its switch.
    of: (u64, Switch),
    /// Where its flow-mod begins.
    start: *mut u8,
    rest: Rest,
}

/// Where the next flow-mod of a series goes.
#[derive(Debug, Clone, Copy)]
struct Rest {
    /// The room is from here to `end`.
    next: *mut u8,
    end: *mut u8,
    /// How many flow-mods there are.
    count: usize,
    /// Whether each has a packet.
    has_packets: bool,
}

impl Rest {
    /// No room: there is no series.
    const NONE: Self = Self {
        next: std::ptr::null_mut(),
        end: std::ptr::null_mut(),
        count: 0,
        has_packets: false,
    };

    /// Returns whether a flow-mod with this packet, which takes `size` bytes, can be the next.
    #[inline]
    fn takes(&self, packet: &[u8], size: usize) -> bool {
        if packet.is_empty() {
            // Without packets the room is for exactly `MAX_SERIES` blanks (`begin_series`), all of one size.
            return !self.has_packets && self.next != self.end;
        }
        self.has_packets && self.end.addr() - self.next.addr() >= size && self.count < MAX_SERIES
    }
}

impl Host {
    fn new(table: *const HostFunctions) -> Self {
        let timers = Timers::default();
        Self { table, xid: 0, series: None, timers, wake_at_ns: u64::MAX, room_at_least: 0 }
    }

    /// Takes the table that the host has passed to `create`, or returns `None` after it has logged that the application was
    /// built for another version of the ABI. The table outlives the result.
    pub(super) fn open(table: *const HostFunctions) -> Option<Self> {
        let host = Self::new(table);
        let (abi, size) = (host.table().abi, host.table().size);
        if abi == ABI && size as usize >= size_of::<HostFunctions>() {
            return Some(host);
        }
        host.log(Level::Error, "it is built for a newer Rosemary; build it with this one's SDK");
        None
    }

    /// Goes on after the message with this transaction id. The table outlives the result.
    #[cfg(feature = "host")]
    pub(super) fn after(table: *const HostFunctions, xid: u32) -> Self {
        Self { xid, ..Self::new(table) }
    }

    /// Begins a batch. One that panicked may have left a series, whose room has gone.
    pub(super) fn begin_batch(&mut self) {
        (self.series, self.room_at_least) = (None, 0);
    }

    fn table(&self) -> &HostFunctions {
        // SAFETY: the ABI's contract: the table lives from `create` to the return of `destroy`,
        // and so does this.
        unsafe { &*self.table }
    }

    /// Returns the application's ranges of numbers on switches.
    #[inline]
    pub(crate) fn own(&self) -> Own {
        let table = self.table();
        Own {
            priorities: (table.lowest_priority, table.highest_priority),
            groups: (table.first_group, table.last_group),
            meters: (table.first_meter, table.last_meter),
        }
    }

    /// Returns the application's configuration, or a phrase about bytes that are no text.
    fn config(&self) -> Result<&str, String> {
        let table = self.table();
        let bytes = if table.config_size == 0 {
            &[]
        } else {
            // SAFETY: the ABI's contract: this number of bytes, for as long as the table.
            unsafe {
                std::slice::from_raw_parts(table.config.cast::<u8>(), table.config_size as usize)
            }
        };
        std::str::from_utf8(bytes).map_err(|error| {
            let line = bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
            format!("line {line}: not text in UTF-8")
        })
    }

    /// Returns the transaction id of the last message sent; 0 before the first.
    #[inline]
    pub(crate) fn last_xid(&self) -> u32 {
        self.xid
    }

    /// States the transaction id of the last message sent.
    #[inline]
    pub(crate) fn sent(&mut self, xid: u32) {
        self.xid = xid;
    }

    /// Reserves room for a message inside the ring; returns `None` if there is none now.
    #[inline]
    pub(crate) fn reserve(&mut self, size: usize) -> Option<&mut [u8]> {
        self.end_series();
        // Twice, because a message that would cross the ring's end leaves up to its size unused before the end.
        let taken = 2 * (size + MOST_HEAD);
        self.room_at_least = self.room_at_least.saturating_sub(taken);
        let size = u32::try_from(size).ok()?;
        // SAFETY: the ABI's contract: called with its own table, during `on_batch` only, from its
        // thread: a `Network` exists no longer.
        let room = unsafe { (self.table().reserve)(self.table, size) }.cast::<u8>();
        if room.is_null() {
            return None;
        }
        // SAFETY: the ABI's contract: room of that many bytes, ours until `commit`, the next
        // `reserve` or the end of the batch; `&mut self` keeps us from the first two.
        Some(unsafe { std::slice::from_raw_parts_mut(room, size as usize) })
    }

    /// Sends the first `size` bytes of the room.
    #[inline]
    pub(crate) fn commit(&mut self, dpid: u64, epoch: u32, size: usize) -> bool {
        let Ok(size) = u32::try_from(size) else { return false };
        // SAFETY: as in `reserve`.
        unsafe { (self.table().commit)(self.table, dpid, epoch, size) == 0 }
    }

    /// Sends the first `size` bytes of the room as a change set.
    pub(crate) fn commit_changes(&mut self, to: Switch, size: usize) -> bool {
        let Ok(size) = u32::try_from(size) else { return false };
        let (dpid, epoch) = (to.dpid.0, to.epoch);
        // SAFETY: as in `reserve`.
        unsafe { (self.table().commit_series)(self.table, dpid, epoch, size, CHANGE_SET) == 0 }
    }

    /// Sends flow-mods of a template, one for each of `flows`, with its packet, as parts of series. Returns how many:
    /// fewer if there is no room for a long series now, or a series cannot express the next.
    #[inline]
    pub(crate) fn send_series<'p>(
        &mut self,
        of: (u64, Switch),
        template: &FlowModTemplate,
        flows: impl IntoIterator<Item = FlowAndPacket<'p>>,
    ) -> usize {
        let (mut sent, last_port) = (0, template.last_port());
        // A copy, which stays in registers: the series itself would be written to memory for each flow.
        let mut rest = match &self.series {
            Some(series) if series.of == of => series.rest,
            _ => Rest::NONE,
        };
        for FlowAndPacket { flow, packet } in flows {
            if flow.in_port > last_port || flow.output > last_port {
                break;
            }
            let size = match packet.len() {
                0 => BLANKS_SIZE,
                size => BLANKS_SIZE + PACKET_SIZE + size,
            };
            if !rest.takes(packet, size) {
                sent += self.go_on_at(of, rest);
                match self.begin_series(of, template, size) {
                    Some(begun) => rest = begun,
                    None => break,
                }
            }
            let next = rest.next;
            // SAFETY: there is room for `size` bytes from `next` on, as `takes` says; it is ours until `end_series`,
            // which every `reserve` and the batch's end begin with.
            unsafe { next.cast::<Written>().write_unaligned((&flow).into()) };
            if !packet.is_empty() {
                let next = next.wrapping_add(BLANKS_SIZE);
                // SAFETY: as above.
                unsafe { next.cast::<u32>().write_unaligned(few(packet.len()).to_le()) };
                let next = next.wrapping_add(PACKET_SIZE);
                // SAFETY: as above; nobody has a reference into the room.
                unsafe { std::ptr::copy_nonoverlapping(packet.as_ptr(), next, packet.len()) };
            }
            rest.next = next.wrapping_add(size);
            rest.count += 1;
        }
        sent + self.go_on_at(of, rest)
    }

    /// Notes that the present series, if it is this one, is written up to here; returns by how many flow-mods.
    fn go_on_at(&mut self, of: (u64, Switch), rest: Rest) -> usize {
        let Some(series) = self.series.as_mut().filter(|series| series.of == of) else { return 0 };
        let flow_mods = rest.count - series.rest.count;
        let messages = if rest.has_packets { 2 * flow_mods } else { flow_mods };
        self.xid = self.xid.wrapping_add(few(messages));
        series.rest = rest;
        flow_mods
    }

    /// Begins a series of a template with the next transaction id; returns where its first flow-mod goes, which takes
    /// `first` bytes. `None` if there is no room for a long series now, or the packet is too long for one.
    #[inline(never)]
    fn begin_series(
        &mut self,
        of: (u64, Switch),
        template: &FlowModTemplate,
        first: usize,
    ) -> Option<Rest> {
        let has_packets = first > BLANKS_SIZE;
        let size = if has_packets { WITH_PACKETS } else { MAX_SERIES * BLANKS_SIZE };
        if first > size {
            return None;
        }
        let xid = self.xid.wrapping_add(1);
        let flow_mod = template.message();
        let room = self.reserve(flow_mod.len() + size)?;
        let to = &mut room[..flow_mod.len()];
        to.copy_from_slice(flow_mod);
        to[4..8].copy_from_slice(&xid.to_be_bytes());
        let start = room.as_mut_ptr();
        let next = start.wrapping_add(flow_mod.len());
        let rest = Rest { next, end: next.wrapping_add(size), count: 0, has_packets };
        self.series = Some(OpenSeries { of, start, rest });
        Some(rest)
    }

    /// Sends the present series, if there is one.
    #[inline]
    pub(crate) fn end_series(&mut self) {
        if let Some(series) = self.series.take() {
            self.commit_series(&series);
        }
    }

    #[inline(never)]
    fn commit_series(&mut self, series: &OpenSeries) {
        let OpenSeries { of: (_, to), start, rest } = *series;
        if rest.count == 0 {
            return;
        }
        let (size, count) = (few(rest.next.addr() - start.addr()), few(rest.count));
        // SAFETY: as in `reserve`.
        let sent =
            unsafe { (self.table().commit_series)(self.table, to.dpid.0, to.epoch, size, count) };
        assert!(sent == 0, "the host accepts a series in the room that it reserved");
    }

    /// Returns how many bytes of messages there is room for.
    pub(crate) fn room(&self) -> usize {
        // SAFETY: as in `reserve`.
        let room = unsafe { (self.table().room)(self.table) as usize };
        let taken = |series: &OpenSeries| HEAD + series.rest.end.addr() - series.start.addr();
        room.saturating_sub(self.series.as_ref().map_or(0, taken))
    }

    /// Returns whether there is room for `size` bytes. It calls the host only if `room_at_least` does not suffice.
    #[inline]
    pub(crate) fn has_room(&mut self, size: usize) -> bool {
        if self.room_at_least < size {
            self.room_at_least = self.room();
        }
        self.room_at_least >= size
    }

    /// Stops a record of the batch: the applications behind this one do not get it.
    pub(crate) fn stop(&mut self, number: usize) {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        // SAFETY: as in `reserve`.
        unsafe { (self.table().stop)(self.table, number) };
    }

    /// Sends a request to a service.
    pub(crate) fn ask(&mut self, service: Service, request: &[u8]) -> Result<RequestId, AskError> {
        let size = u32::try_from(request.len()).map_err(|_| AskError::TooLong)?;
        let start = request.as_ptr().cast();
        // SAFETY: as in `reserve`; the request has that many bytes.
        let code = unsafe { (self.table().ask)(self.table, service.number(), start, size) };
        match u64::try_from(code) {
            Ok(id) if id > 0 => Ok(RequestId(id)),
            _ => Err(AskError::from_code(code)),
        }
    }

    /// Returns the descriptor that came with an answer.
    pub(crate) fn take(&mut self, request: RequestId) -> Option<OwnedFd> {
        // SAFETY: as in `reserve`.
        let fd = unsafe { (self.table().take)(self.table, request.0) };
        // SAFETY: the ABI's contract: an open descriptor that is the application's from now on; it
        // is given once.
        (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Copies records of a service's table, from slot `first` on. Returns the table's version, or `None` if there is no
    /// table.
    pub(crate) fn read_table(
        &self,
        service: Service,
        first: u32,
        records: &mut [Slot],
    ) -> Option<u64> {
        let count = u32::try_from(records.len()).ok()?;
        let start = records.as_mut_ptr().cast::<u64>();
        // SAFETY: as in `reserve`; there is room for that many records of `WORDS` words.
        let version =
            unsafe { (self.table().read_table)(self.table, service.number(), first, count, start) };
        u64::try_from(version).ok()
    }

    /// Writes a record of the application's own table.
    pub(crate) fn publish(&mut self, slot: u32, record: &Slot) -> bool {
        // SAFETY: as in `reserve`; a record has `WORDS` words.
        unsafe { (self.table().publish)(self.table, slot, record.as_ptr()) == 0 }
    }

    /// Answers a request of a client.
    pub(crate) fn answer(&mut self, request: ClientRequest, more: bool, body: &[u8]) {
        let size = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let (start, ClientRequest { client, id }) = (body.as_ptr().cast(), request);
        // SAFETY: as in `reserve`; the answer has that many bytes.
        unsafe {
            (self.table().answer)(self.table, client.0, id, u32::from(more), start, size);
        };
    }

    /// States a problem.
    pub(crate) fn set_problem(&mut self, text: &str) {
        let size = u32::try_from(text.len()).unwrap_or(u32::MAX);
        // SAFETY: as in `reserve`; the text has that many bytes.
        unsafe { (self.table().set_problem)(self.table, text.as_ptr().cast::<c_char>(), size) };
    }

    /// Records an incident.
    pub(crate) fn report_incident(&mut self, summary: &str, evidence: &str) {
        let size = |text: &str| u32::try_from(text.len()).unwrap_or(u32::MAX);
        let start = |text: &str| text.as_ptr().cast::<c_char>();
        // SAFETY: as in `reserve`; the texts have that many bytes.
        unsafe {
            (self.table().report_incident)(
                self.table,
                start(summary),
                size(summary),
                start(evidence),
                size(evidence),
            );
        };
    }

    /// Writes a line to the operator's log.
    pub(crate) fn log(&self, level: Level, text: &str) {
        let size = u32::try_from(text.len()).unwrap_or(u32::MAX);
        // SAFETY: as in `reserve`, and `create` may call it too; the text has that many bytes.
        unsafe {
            (self.table().log)(self.table, level as u32, text.as_ptr().cast::<c_char>(), size);
        };
    }
}

/// Converts a number that is at most a series' size.
#[expect(clippy::cast_possible_truncation, reason = "a series is short")]
fn few(size: usize) -> u32 {
    size as u32
}

/// Logs why the application ends.
pub(super) fn report(host: &Host, what: &str, panic: &(dyn Any + Send)) {
    let why = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "with no message".to_owned());
    host.log(Level::Error, &format!("panicked in {what}: {why}"));
}

unsafe extern "C" fn create<A: App>(host: *const HostFunctions) -> *mut c_void {
    let Some(host) = Host::open(host) else { return std::ptr::null_mut() };
    let created = catch_unwind(|| {
        let mut app = A::create();
        let configured = host.config().and_then(|config| app.configure(config));
        configured.map(|()| app)
    });
    match created {
        Ok(Ok(app)) => return Box::into_raw(Box::new(Instance { app, host })).cast(),
        Ok(Err(why)) => host.log(Level::Error, &format!("its configuration: {why}")),
        Err(panic) => report(&host, "create", &*panic),
    }
    std::ptr::null_mut()
}

unsafe extern "C" fn on_batch<A: App>(
    app: *mut c_void,
    batch: *const BatchTable,
    answer: *mut AnswerTable,
) -> i32 {
    // SAFETY: the ABI's contract: what `create` returned, not destroyed, in no other call.
    let instance = unsafe { &mut *app.cast::<Instance<A>>() };
    // SAFETY: the ABI's contract: valid during this call.
    let batch = unsafe { &*batch };
    // SAFETY: as above.
    let answer = unsafe { &mut *answer };
    // SAFETY: the ABI's contract: the batch is as it says during this call.
    let records = unsafe { Records::of(batch) };
    let Instance { app, host } = instance;
    host.begin_batch();
    let now_ns = batch.now_ns;
    let called = catch_unwind(AssertUnwindSafe(|| {
        // A wake-up for timers with names alone leaves the application's timer without a name.
        let (mut is_for_app, mut wake_at_ns) = (true, u64::MAX);
        if host.timers.next_ns() <= now_ns {
            is_for_app = batch.count > 0 || host.wake_at_ns <= now_ns;
            wake_at_ns = call_timers(app, host, now_ns);
        }
        let mut handled = 0;
        if is_for_app {
            let mut network = Network::new(host, now_ns);
            handled = app.on_batch(&Batch::new(records), &mut network);
            wake_at_ns = wake_at_ns.min(network.wake_at_ns());
        } else {
            wake_at_ns = wake_at_ns.min(host.wake_at_ns);
        }
        host.end_series();
        host.wake_at_ns = wake_at_ns;
        // Timers that wait for room are tried again soon.
        let next_ns = host.timers.next_ns();
        let next_ns = if next_ns <= now_ns { now_ns.saturating_add(RETRY_NS) } else { next_ns };
        (handled, wake_at_ns.min(next_ns))
    }));
    match called {
        Ok((handled, wake_at_ns)) => {
            answer.handled = u32::try_from(handled).unwrap_or(u32::MAX);
            answer.wake_at_ns = wake_at_ns;
            0
        }
        Err(panic) => {
            report(host, "on_batch", &*panic);
            FAILED
        }
    }
}

/// Calls the application for each timer with a name that has expired, if there is room for messages. Returns when the timer
/// without a name that it set expires, in nanoseconds.
#[cold]
fn call_timers<A: App>(app: &mut A, host: &mut Host, now_ns: u64) -> u64 {
    if !host.has_room(ANSWER_ROOM) {
        return u64::MAX;
    }
    let expired = host.timers.expired(now_ns);
    let mut network = Network::new(host, now_ns);
    for name in expired {
        app.on_timer(&name, &mut network);
    }
    network.wake_at_ns()
}

unsafe extern "C" fn destroy<A: App>(app: *mut c_void) {
    // SAFETY: the ABI's contract: called once, with what `create` returned.
    let instance = unsafe { Box::from_raw(app.cast::<Instance<A>>()) };
    let Instance { app, host } = *instance;
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(app))) {
        report(&host, "destroy", &*panic);
    }
}
