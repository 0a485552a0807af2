//! The functions that an app can call, as `docs/wasm.md` describes them. Addresses are those of the app's own memory.
//!
//! Each function copies at most what the host accepts: an address or a size that is not inside the memory ends the instance.

use sdk::abi::Level;
use sdk::abi::host::Host;
use sdk::services::table::{Slot, WORDS};
use sdk::services::{AskError, MAX_MESSAGE, RequestId, Service};
use sdk::serving::{ClientId, ClientRequest};
use wasmtime::{Caller, Error, Linker, Memory, Result, StoreLimits};

use crate::budget::Budget;

/// The module of the imports. Its number is that of the interface: a new one has other imports or other meanings.
pub(crate) const MODULE: &str = "rosemary:app@1";

/// The names of the functions.
pub(crate) const NAMES: [&str; 11] = [
    "reserve",
    "commit",
    "room",
    "stop",
    "log",
    "ask",
    "read-table",
    "publish",
    "answer",
    "report-incident",
    "set-problem",
];

/// The most bytes of a log line, and of each text of an incident.
const LONGEST_TEXT: u32 = 1024;

/// Bytes of a record of a table.
#[expect(clippy::cast_possible_truncation, reason = "a few words")]
const SLOT: u32 = 8 * WORDS as u32;

/// The most records of a table in one call.
const MOST_RECORDS: u32 = 4096;

/// The host's side of an instance.
#[derive(Debug)]
pub(crate) struct Calls<H> {
    pub(crate) host: H,
    /// The app's memory, once there is an instance.
    pub(crate) memory: Option<Memory>,
    pub(crate) limits: StoreLimits,
    /// The processor time of the present call.
    pub(crate) budget: Budget,
    /// Records of the present batch; 0 outside of one.
    pub(crate) count: u32,
    /// Which of them were stopped, a bit each.
    pub(crate) stopped: u64,
    /// The last error that it logged while it was created.
    pub(crate) complaint: Option<String>,
    pub(crate) is_creating: bool,
}

impl<H> Calls<H> {
    pub(crate) fn new(host: H, limits: StoreLimits, budget: Budget) -> Self {
        Self {
            host,
            memory: None,
            limits,
            budget,
            count: 0,
            stopped: 0,
            complaint: None,
            is_creating: true,
        }
    }
}

/// Returns the app's memory and the host.
fn parts<'c, H: Host>(
    caller: &'c mut Caller<'_, Calls<H>>,
) -> Result<(&'c mut [u8], &'c mut Calls<H>)> {
    let memory =
        caller.data().memory.ok_or_else(|| Error::msg("a call before the instance is whole"))?;
    Ok(memory.data_and_store_mut(caller))
}

/// The `size` bytes at `address`.
fn range(memory: &[u8], address: u32, size: u32) -> Result<&[u8]> {
    let range = address as usize..address as usize + size as usize;
    memory.get(range).ok_or_else(|| Error::msg("an address outside of its memory"))
}

/// The beginning of a text.
fn text(memory: &[u8], address: u32, size: u32) -> Result<String> {
    let bytes = range(memory, address, size.min(LONGEST_TEXT))?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// Returns a linker with all functions.
///
/// # Errors
/// The process is out of memory.
pub(crate) fn linker<H: Host>(engine: &wasmtime::Engine) -> Result<Linker<Calls<H>>> {
    let mut linker = Linker::new(engine);
    linker.func_wrap(MODULE, "reserve", reserve::<H>)?;
    linker.func_wrap(MODULE, "commit", commit::<H>)?;
    linker.func_wrap(MODULE, "room", room::<H>)?;
    linker.func_wrap(MODULE, "stop", stop::<H>)?;
    linker.func_wrap(MODULE, "log", log::<H>)?;
    linker.func_wrap(MODULE, "ask", ask::<H>)?;
    linker.func_wrap(MODULE, "read-table", read_table::<H>)?;
    linker.func_wrap(MODULE, "publish", publish::<H>)?;
    linker.func_wrap(MODULE, "answer", answer::<H>)?;
    linker.func_wrap(MODULE, "report-incident", report_incident::<H>)?;
    linker.func_wrap(MODULE, "set-problem", set_problem::<H>)?;
    Ok(linker)
}

fn reserve<H: Host>(mut caller: Caller<'_, Calls<H>>, size: u32) -> u32 {
    u32::from(caller.data_mut().host.reserve(size as usize).is_some())
}

fn commit<H: Host>(
    mut caller: Caller<'_, Calls<H>>,
    dpid: u64,
    epoch: u32,
    message: u32,
    size: u32,
    series: u32,
) -> Result<i32> {
    let (memory, calls) = parts(&mut caller)?;
    let message = range(memory, message, size)?;
    let Some(room) = calls.host.reserve(message.len()) else { return Ok(-1) };
    room.copy_from_slice(message);
    let is_sent = calls.host.commit(dpid, epoch, message.len(), series);
    Ok(if is_sent { 0 } else { -1 })
}

#[expect(clippy::needless_pass_by_value, reason = "wasmtime passes it so")]
fn room<H: Host>(caller: Caller<'_, Calls<H>>) -> u32 {
    u32::try_from(caller.data().host.room()).unwrap_or(u32::MAX)
}

fn stop<H: Host>(mut caller: Caller<'_, Calls<H>>, number: u32) {
    let calls = caller.data_mut();
    if number < calls.count {
        calls.stopped |= 1 << number;
    }
}

fn log<H: Host>(
    mut caller: Caller<'_, Calls<H>>,
    level: u32,
    address: u32,
    size: u32,
) -> Result<()> {
    let (memory, calls) = parts(&mut caller)?;
    let text = text(memory, address, size)?;
    let level = match level {
        1 => Level::Error,
        2 => Level::Warn,
        3 => Level::Info,
        5 => Level::Audit,
        _ => Level::Debug,
    };
    calls.host.log(level, &text);
    if level == Level::Error && calls.is_creating {
        calls.complaint = Some(text);
    }
    Ok(())
}

fn ask<H: Host>(
    mut caller: Caller<'_, Calls<H>>,
    service: u32,
    request: u32,
    size: u32,
) -> Result<i64> {
    let (memory, calls) = parts(&mut caller)?;
    let asked = match Service::from_number(service) {
        None => Err(AskError::NotNamed),
        Some(_) if size as usize > MAX_MESSAGE => Err(AskError::TooLong),
        Some(service) => calls.host.ask(service, range(memory, request, size)?),
    };
    Ok(match asked {
        Ok(RequestId(id)) => i64::try_from(id).unwrap_or(i64::MAX),
        Err(error) => error.code(),
    })
}

fn read_table<H: Host>(
    mut caller: Caller<'_, Calls<H>>,
    service: u32,
    first: u32,
    count: u32,
    records: u32,
) -> Result<i64> {
    let (memory, calls) = parts(&mut caller)?;
    let Some(service) = Service::from_number(service) else { return Ok(-1) };
    let mut slots = vec![Slot::default(); count.min(MOST_RECORDS) as usize];
    let Some(version) = calls.host.read_table(service, first, &mut slots) else { return Ok(-1) };
    let begin = records as usize;
    let size = count as usize * size_of::<Slot>();
    let target = begin.checked_add(size).and_then(|end| memory.get_mut(begin..end));
    let target = target.ok_or_else(|| Error::msg("an address outside of its memory"))?;
    // Slots beyond `MOST_RECORDS` are zeroes, like slots behind the table.
    target.fill(0);
    for (to, word) in target.chunks_exact_mut(8).zip(slots.iter().flatten()) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    Ok(i64::try_from(version).unwrap_or(i64::MAX))
}

fn publish<H: Host>(mut caller: Caller<'_, Calls<H>>, slot: u32, record: u32) -> Result<i32> {
    let (memory, calls) = parts(&mut caller)?;
    let bytes = range(memory, record, SLOT)?;
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Ok(if calls.host.publish(slot, &words) { 0 } else { -1 })
}

fn answer<H: Host>(
    mut caller: Caller<'_, Calls<H>>,
    client: u64,
    request: u64,
    more: u32,
    body: u32,
    size: u32,
) -> Result<i32> {
    if size as usize > MAX_MESSAGE {
        return Ok(-1);
    }
    let (memory, calls) = parts(&mut caller)?;
    let request = ClientRequest { client: ClientId(client), id: request };
    calls.host.answer(request, more != 0, range(memory, body, size)?);
    Ok(0)
}

fn report_incident<H: Host>(
    mut caller: Caller<'_, Calls<H>>,
    summary: u32,
    summary_size: u32,
    evidence: u32,
    evidence_size: u32,
) -> Result<()> {
    let (memory, calls) = parts(&mut caller)?;
    let summary = text(memory, summary, summary_size)?;
    let evidence = text(memory, evidence, evidence_size)?;
    calls.host.report_incident(&summary, &evidence);
    Ok(())
}

fn set_problem<H: Host>(mut caller: Caller<'_, Calls<H>>, address: u32, size: u32) -> Result<()> {
    let (memory, calls) = parts(&mut caller)?;
    let text = text(memory, address, size)?;
    calls.host.set_problem(&text);
    Ok(())
}
