//! The functions of the host table, by which an application calls its host.

use std::ffi::{c_char, c_void};
use std::os::fd::{IntoRawFd as _, OwnedFd};
use std::ptr;

use super::{Host, Inner};
use crate::abi::{HostFunctions, Level};
use crate::services::table::{Slot, WORDS};
use crate::services::{AskError, MAX_MESSAGE, RequestId, Service};
use crate::serving::{ClientId, ClientRequest};

/// Returns the state behind a host table.
///
/// # Safety
/// `host` must be the table of a live `HostedApp<H>` whose application is in a call, or of
/// [`lend`](crate::abi::lent::lend) in its call.
unsafe fn inner<'a, H>(host: *const HostFunctions) -> &'a mut Inner<H> {
    // SAFETY: the caller's promise; `context` was set to the `UnsafeCell`'s content.
    let context = unsafe { (*host).context }.cast::<Inner<H>>();
    // SAFETY: as above; the host itself does not touch it during a call, and calls come from
    // one thread, one at a time, by the ABI's contract.
    unsafe { &mut *context }
}

pub(super) unsafe extern "C" fn reserve<H: Host>(
    host: *const HostFunctions,
    size: u32,
) -> *mut c_void {
    // SAFETY: called by the application with the table that it was given.
    let inner = unsafe { inner::<H>(host) };
    match inner.host.reserve(size as usize) {
        Some(room) => room.as_mut_ptr().cast(),
        None => ptr::null_mut(),
    }
}

pub(super) unsafe extern "C" fn commit<H: Host>(
    host: *const HostFunctions,
    dpid: u64,
    epoch: u32,
    size: u32,
) -> i32 {
    // SAFETY: called by the application with the table that it was given.
    let inner = unsafe { inner::<H>(host) };
    if inner.host.commit(dpid, epoch, size as usize, 0) { 0 } else { -1 }
}

pub(super) unsafe extern "C" fn commit_series<H: Host>(
    host: *const HostFunctions,
    dpid: u64,
    epoch: u32,
    size: u32,
    count: u32,
) -> i32 {
    // SAFETY: called by the application with the table that it was given.
    let inner = unsafe { inner::<H>(host) };
    // A series of none is not one message.
    let sent = count > 0 && inner.host.commit(dpid, epoch, size as usize, count);
    if sent { 0 } else { -1 }
}

pub(super) unsafe extern "C" fn room<H: Host>(host: *const HostFunctions) -> u32 {
    // SAFETY: called by the application with the table that it was given.
    let inner = unsafe { inner::<H>(host) };
    u32::try_from(inner.host.room()).unwrap_or(u32::MAX)
}

pub(super) unsafe extern "C" fn stop<H: Host>(host: *const HostFunctions, number: u32) {
    // SAFETY: called by the application with the table that it was given.
    let inner = unsafe { inner::<H>(host) };
    if (number as usize) < inner.count {
        inner.stopped |= 1 << number;
    }
}

pub(super) unsafe extern "C" fn ask<H: Host>(
    host: *const HostFunctions,
    service: u32,
    request: *const c_void,
    size: u32,
) -> i64 {
    // SAFETY: called by the application with the table that it was given.
    let inner = unsafe { inner::<H>(host) };
    let asked = match Service::from_number(service) {
        None => Err(AskError::NotNamed),
        Some(_) if request.is_null() || size as usize > MAX_MESSAGE => Err(AskError::TooLong),
        Some(service) => {
            // SAFETY: the ABI's contract: `size` bytes.
            let bytes = unsafe { std::slice::from_raw_parts(request.cast::<u8>(), size as usize) };
            inner.host.ask(service, bytes)
        }
    };
    match asked {
        Ok(RequestId(id)) => i64::try_from(id).unwrap_or(i64::MAX),
        Err(error) => error.code(),
    }
}

pub(super) unsafe extern "C" fn take<H: Host>(host: *const HostFunctions, request: u64) -> i32 {
    // SAFETY: called by the application with the table that it was given.
    let inner = unsafe { inner::<H>(host) };
    inner.host.take(RequestId(request)).map_or(-1, OwnedFd::into_raw_fd)
}

pub(super) unsafe extern "C" fn read_table<H: Host>(
    host: *const HostFunctions,
    service: u32,
    first: u32,
    count: u32,
    records: *mut u64,
) -> i64 {
    // SAFETY: called by the application with the table that it was given.
    let inner = unsafe { inner::<H>(host) };
    let Some(service) = Service::from_number(service) else { return -1 };
    let records: &mut [Slot] = if count == 0 || records.is_null() {
        &mut []
    } else {
        // SAFETY: the ABI's contract: room for `count` records; an array of words is aligned as a word is.
        unsafe { std::slice::from_raw_parts_mut(records.cast::<Slot>(), count as usize) }
    };
    let version = inner.host.read_table(service, first, records);
    version.map_or(-1, |version| i64::try_from(version).unwrap_or(i64::MAX))
}

pub(super) unsafe extern "C" fn publish<H: Host>(
    host: *const HostFunctions,
    slot: u32,
    record: *const u64,
) -> i32 {
    if record.is_null() {
        return -1;
    }
    // SAFETY: called by the application with the table that it was given.
    let inner = unsafe { inner::<H>(host) };
    // SAFETY: the ABI's contract: a record.
    let record = unsafe { record.cast::<[u64; WORDS]>().read_unaligned() };
    if inner.host.publish(slot, &record) { 0 } else { -1 }
}

pub(super) unsafe extern "C" fn answer<H: Host>(
    host: *const HostFunctions,
    client: u64,
    request: u64,
    more: u32,
    body: *const c_void,
    size: u32,
) -> i32 {
    if (body.is_null() && size != 0) || size as usize > MAX_MESSAGE {
        return -1;
    }
    // SAFETY: called by the application with the table that it was given.
    let inner = unsafe { inner::<H>(host) };
    let body = if size == 0 {
        &[]
    } else {
        // SAFETY: the ABI's contract: `size` bytes.
        unsafe { std::slice::from_raw_parts(body.cast::<u8>(), size as usize) }
    };
    let request = ClientRequest { client: ClientId(client), id: request };
    inner.host.answer(request, more != 0, body);
    0
}

pub(super) unsafe extern "C" fn report_incident<H: Host>(
    host: *const HostFunctions,
    summary: *const c_char,
    summary_size: u32,
    evidence: *const c_char,
    evidence_size: u32,
) {
    // SAFETY: called by the application with the table that it was given.
    let inner = unsafe { inner::<H>(host) };
    // SAFETY: the ABI's contract: text of that many bytes.
    let summary = unsafe { short_text(summary, summary_size) };
    // SAFETY: as above.
    let evidence = unsafe { short_text(evidence, evidence_size) };
    inner.host.report_incident(&summary, &evidence);
}

pub(super) unsafe extern "C" fn set_problem<H: Host>(
    host: *const HostFunctions,
    text: *const c_char,
    size: u32,
) {
    // SAFETY: called by the application with the table that it was given.
    let inner = unsafe { inner::<H>(host) };
    // SAFETY: the ABI's contract: text of that many bytes.
    let text = unsafe { short_text(text, size) };
    inner.host.set_problem(&text);
}

/// Copies the beginning of a text of the application.
///
/// # Safety
/// `text` is NULL or points to `size` bytes.
unsafe fn short_text(text: *const c_char, size: u32) -> String {
    const LONGEST: usize = 1024;
    if text.is_null() {
        return String::new();
    }
    let size = (size as usize).min(LONGEST);
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), size) };
    String::from_utf8_lossy(bytes).into_owned()
}

pub(super) unsafe extern "C" fn log<H: Host>(
    host: *const HostFunctions,
    level: u32,
    text: *const c_char,
    size: u32,
) {
    const LONGEST: usize = 1024;
    if text.is_null() {
        return;
    }
    // SAFETY: called by the application with the table that it was given.
    let inner = unsafe { inner::<H>(host) };
    // SAFETY: the ABI's contract: `size` bytes of text.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), size as usize) };
    let level = match level {
        1 => Level::Error,
        2 => Level::Warn,
        3 => Level::Info,
        5 => Level::Audit,
        _ => Level::Debug,
    };
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]);
    inner.host.log(level, &text);
    if level == Level::Error && inner.creating {
        inner.complaint = Some(text.into_owned());
    }
}
