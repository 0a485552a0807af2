//! Exports [`Wanted`] to apps in C: `librosemary_wanted.a`, whose functions `rosemary_wanted.h` declares and documents.
//!
//! This file converts pointers to references and slices, and results to numbers. All decisions about flows are those of
//! `rosemary_sdk::wanted`. Each function goes through [`call`], which checks the pointer to the library, catches a panic, and
//! logs mistakes of the app:
//!
//! | result | when |
//! | --- | --- |
//! | 0 or above | the function has done its work |
//! | [`WRONG`] | the app passed something that cannot be used; nothing has changed |
//! | [`BROKEN`] | the library has panicked, now or before; its state is not used any more |
//!
//! The callback for notices runs when no reference to the library exists, so that it may call the library.

use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use rosemary_sdk::Dpid;
use rosemary_sdk::abi::foreign::{self, ForeignHost};
use rosemary_sdk::abi::{HostFunctions, Level, Record};
use rosemary_sdk::openflow::{DecodeError, FlowMod, GroupMod, MeterMod};
use rosemary_sdk::wanted::{At, WantError, Wanted};

use convert::{CSettings, Callback, OwnedNotice, log, read_settings};

mod convert;

/// `ROSEMARY_WRONG`.
const WRONG: i32 = -2;

/// `ROSEMARY_BROKEN`.
const BROKEN: i32 = -3;

/// `ROSEMARY_EVERY_SWITCH`.
const EVERY_SWITCH: u64 = u64::MAX;

/// Bytes of the longest message of OpenFlow.
const LONGEST_MESSAGE: u32 = 0xffff;

/// `struct rosemary_wanted`: the wanted entries of an app, with its host.
#[derive(Debug)]
pub struct Library {
    host: ForeignHost,
    wanted: Wanted,
    /// `None` if the library logs its notices itself.
    on_notice: Option<Callback>,
    /// A function has panicked, so the state may be inconsistent.
    is_broken: bool,
    /// The reason of the last [`WRONG`].
    error: CString,
    /// The text that `rosemary_wanted_save_failure` returned last.
    failure: CString,
}

/// Calls `with` with the library, and returns its result or a negative number. `what` names the function.
///
/// # Safety
/// The pointer is NULL, or `rosemary_wanted_create` returned it and it is not freed; there is no other reference to the library
/// during this call.
pub(crate) unsafe fn call(
    library: *mut Library,
    what: &str,
    with: impl FnOnce(&mut Library) -> Result<i32, String>,
) -> i32 {
    // SAFETY: the caller's promise.
    let Some(library) = (unsafe { library.as_mut() }) else { return WRONG };
    if library.is_broken {
        return BROKEN;
    }
    match catch_unwind(AssertUnwindSafe(|| with(library))) {
        Ok(Ok(result)) => result,
        Ok(Err(why)) => {
            library.host.log(Level::Error, &format!("{what}: {why}"));
            library.error = c_text(&why);
            WRONG
        }
        Err(panic) => {
            library.is_broken = true;
            library.error = c_text("it has panicked; return ROSEMARY_BROKEN from on_record");
            library.host.report_panic(what, &*panic);
            BROKEN
        }
    }
}

/// Converts a text for C; it has no NUL except the one at its end.
fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

fn at(dpid: u64) -> At {
    if dpid == EVERY_SWITCH { At::All } else { At::One(Dpid(dpid)) }
}

/// Returns the datapath id of one switch.
fn one(dpid: u64) -> Result<Dpid, String> {
    if dpid == EVERY_SWITCH {
        return Err("ROSEMARY_EVERY_SWITCH is not possible here; call it for each switch".into());
    }
    Ok(Dpid(dpid))
}

/// Returns the bytes of a message.
///
/// # Safety
/// A pointer that is not NULL points to that many bytes, which stay unchanged for `'a`.
unsafe fn bytes<'a>(message: *const c_void, size: u32) -> Result<&'a [u8], String> {
    if message.is_null() {
        return Err("the message is NULL; pass an encoded message of OpenFlow".into());
    }
    if size > LONGEST_MESSAGE {
        return Err(format!(
            "{size} bytes are more than a message of OpenFlow has; pass its size in bytes"
        ));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(message.cast(), size as usize) })
}

/// Describes a message that cannot be decoded.
fn malformed(kind: &str, error: &DecodeError) -> String {
    format!("{error}; pass exactly one {kind} of OpenFlow, and its size")
}

fn declared(result: Result<bool, WantError>) -> Result<i32, String> {
    result.map(i32::from).map_err(|error| format!("{error}; correct the message"))
}

/// Creates the library; returns NULL after it has logged why it cannot.
///
/// # Safety
/// The host is NULL or the app's own, from `create`. The settings are as for [`read_settings`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rosemary_wanted_create(
    host: *const HostFunctions,
    settings: *const CSettings,
) -> *mut Library {
    // SAFETY: the caller's promise.
    let host = catch_unwind(|| unsafe { ForeignHost::new(host) });
    let Ok(Some(host)) = host else { return std::ptr::null_mut() };
    let created = catch_unwind(|| {
        // SAFETY: the caller's promise.
        let (settings, on_notice) = unsafe { read_settings(settings) }?;
        Ok::<_, String>((Wanted::new(settings), on_notice))
    });
    match created {
        Ok(Ok((wanted, on_notice))) => {
            let (error, failure) = (CString::default(), CString::default());
            let library = Library { host, wanted, on_notice, is_broken: false, error, failure };
            return Box::into_raw(Box::new(library));
        }
        Ok(Err(why)) => host.log(Level::Error, &format!("rosemary_wanted_create: {why}")),
        Err(panic) => host.report_panic("rosemary_wanted_create", &*panic),
    }
    std::ptr::null_mut()
}

/// Frees the library; NULL is allowed.
///
/// # Safety
/// `rosemary_wanted_create` returned the pointer, or it is NULL; it is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rosemary_wanted_free(library: *mut Library) {
    if library.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    let library = unsafe { Box::from_raw(library) };
    let Library { host, wanted, .. } = *library;
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(wanted))) {
        host.report_panic("rosemary_wanted_free", &*panic);
    }
}

/// Declares a flow by the flow-mod that adds it.
///
/// # Safety
/// As for [`call`]; the message is NULL or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rosemary_wanted_flow(
    library: *mut Library,
    dpid: u64,
    message: *const c_void,
    size: u32,
) -> i32 {
    // SAFETY: the caller's promise.
    let message = unsafe { bytes(message, size) };
    let with = |library: &mut Library| {
        let flow = FlowMod::decode(message?).map_err(|error| malformed("flow-mod", &error))?;
        declared(library.wanted.flow(at(dpid), &flow))
    };
    // SAFETY: the caller's promise.
    unsafe { call(library, "rosemary_wanted_flow", with) }
}

/// Declares a group by the group-mod that adds it.
///
/// # Safety
/// As for [`rosemary_wanted_flow`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rosemary_wanted_group(
    library: *mut Library,
    dpid: u64,
    message: *const c_void,
    size: u32,
) -> i32 {
    // SAFETY: the caller's promise.
    let message = unsafe { bytes(message, size) };
    let with = |library: &mut Library| {
        let group = GroupMod::decode(message?).map_err(|error| malformed("group-mod", &error))?;
        declared(library.wanted.group(at(dpid), &group))
    };
    // SAFETY: the caller's promise.
    unsafe { call(library, "rosemary_wanted_group", with) }
}

/// Declares a meter by the meter-mod that adds it.
///
/// # Safety
/// As for [`rosemary_wanted_flow`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rosemary_wanted_meter(
    library: *mut Library,
    dpid: u64,
    message: *const c_void,
    size: u32,
) -> i32 {
    // SAFETY: the caller's promise.
    let message = unsafe { bytes(message, size) };
    let with = |library: &mut Library| {
        let meter = MeterMod::decode(message?).map_err(|error| malformed("meter-mod", &error))?;
        declared(library.wanted.meter(at(dpid), &meter))
    };
    // SAFETY: the caller's promise.
    unsafe { call(library, "rosemary_wanted_meter", with) }
}

/// No longer wants the flow with the table, priority and match of a flow-mod. Returns whether it was wanted.
///
/// # Safety
/// As for [`rosemary_wanted_flow`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rosemary_wanted_drop_flow(
    library: *mut Library,
    dpid: u64,
    message: *const c_void,
    size: u32,
) -> i32 {
    // SAFETY: the caller's promise.
    let message = unsafe { bytes(message, size) };
    let with = |library: &mut Library| {
        let flow = FlowMod::decode(message?).map_err(|error| malformed("flow-mod", &error))?;
        let FlowMod { table_id, priority, match_, .. } = &flow;
        Ok(i32::from(library.wanted.drop_flow(at(dpid), *table_id, *priority, match_)))
    };
    // SAFETY: the caller's promise.
    unsafe { call(library, "rosemary_wanted_drop_flow", with) }
}

/// Defines functions that pass numbers to the library.
macro_rules! functions {
    ($(
        $(#[doc = $doc:literal])*
        fn $name:ident(library $(, $argument:ident: $type:ty)*) = $with:expr;
    )*) => {
        $(
            $(#[doc = $doc])*
            ///
            /// # Safety
            /// As for [`call`].
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(library: *mut Library $(, $argument: $type)*) -> i32 {
                let with: fn(&mut Library $(, $type)*) -> Result<i32, String> = $with;
                // SAFETY: the caller's promise.
                unsafe { call(library, stringify!($name), |library| with(library $(, $argument)*)) }
            }
        )*
    };
}

functions! {
    /// No longer wants a group. Returns whether it was wanted.
    fn rosemary_wanted_drop_group(library, dpid: u64, number: u32) =
        |library, dpid, number| Ok(library.wanted.drop_group(at(dpid), number).into());

    /// No longer wants a meter. Returns whether it was wanted.
    fn rosemary_wanted_drop_meter(library, dpid: u64, number: u32) =
        |library, dpid, number| Ok(library.wanted.drop_meter(at(dpid), number).into());

    /// No longer wants the entries that the app has not declared since it started.
    fn rosemary_wanted_keep_only_declared(library) = |library| {
        library.wanted.keep_only_declared();
        Ok(0)
    };

    /// Whether the switch is connected and has confirmed all messages of the library.
    fn rosemary_wanted_is_settled(library, dpid: u64) =
        |library, dpid| Ok(library.wanted.is_settled(one(dpid)?).into());

    /// Whether the entries of earlier instances are known.
    fn rosemary_wanted_is_loaded(library) = |library| Ok(library.wanted.is_loaded().into());

    /// Whether every declaration is in the storage.
    fn rosemary_wanted_is_saved(library) = |library| Ok(library.wanted.is_saved().into());

    /// Returns the number of wanted entries.
    fn rosemary_wanted_count(library) =
        |library| Ok(i32::try_from(library.wanted.len()).unwrap_or(i32::MAX));

    /// Reads a switch soon, and restores the difference.
    fn rosemary_wanted_check(library, dpid: u64, now_ns: u64) = |library, dpid, now_ns| {
        let Library { host, wanted, .. } = library;
        let dpid = one(dpid)?;
        host.network(now_ns, |network| wanted.check(dpid, network));
        Ok(0)
    };
}

/// Returns why the storage refused the last request; NULL if it did not. The text lives until the next call with the library.
///
/// # Safety
/// As for [`call`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rosemary_wanted_save_failure(library: *mut Library) -> *const c_char {
    let mut text = std::ptr::null();
    let with = |library: &mut Library| {
        if let Some(failure) = library.wanted.save_failure() {
            library.failure = c_text(failure);
            text = library.failure.as_ptr();
        }
        Ok(0)
    };
    // SAFETY: the caller's promise.
    unsafe { call(library, "rosemary_wanted_save_failure", with) };
    text
}

/// Returns the reason of the last `ROSEMARY_WRONG` or `ROSEMARY_BROKEN`; an empty text if there was none. The text lives until
/// the next call with the library.
///
/// # Safety
/// As for [`call`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rosemary_wanted_error(library: *mut Library) -> *const c_char {
    const NO_LIBRARY: &CStr = c"the library is NULL; rosemary_wanted_create has logged why";
    // SAFETY: the caller's promise.
    let library = unsafe { library.as_ref() };
    library.map_or(NO_LIBRARY.as_ptr(), |library| library.error.as_ptr())
}

/// Handles a record of the app, or continues waiting work if it is NULL, and calls the callback with the notices.
///
/// # Safety
/// As for [`call`]; the app has received the record in the present call of `on_batch`; `wake_at_ns` is NULL or its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rosemary_wanted_on_record(
    library: *mut Library,
    record: *const Record,
    now_ns: u64,
    wake_at_ns: *mut u64,
) -> i32 {
    let mut notices: Vec<OwnedNotice> = Vec::new();
    let mut callback = None;
    let with = |library: &mut Library| {
        if wake_at_ns.is_null() || !wake_at_ns.is_aligned() {
            return Err("wake_at_ns is no pointer; pass turn->wake_at_ns".into());
        }
        let event = if record.is_null() {
            None
        } else {
            // SAFETY: the caller's promise.
            let event = unsafe { foreign::event(record) };
            event.map_err(
                |_| "the record is shorter than its head, or not aligned; pass one of the batch",
            )?
        };
        let Library { host, wanted, on_notice, .. } = library;
        let (all, mut wake_ns) = host.network(now_ns, |network| match &event {
            Some(event) => wanted.on_event(event, network),
            // A record of an unknown kind wakes the library like a timer, so that the library sets its next timer.
            None => wanted.on_wake(network),
        });
        match on_notice {
            None => all.iter().for_each(|notice| log(host, notice)),
            Some(on_notice) if !all.is_empty() => {
                callback = Some(*on_notice);
                notices.extend(all.into_iter().map(OwnedNotice::from));
                // The callback may declare entries, which are sent in the next call.
                wake_ns = now_ns;
            }
            Some(_) => {}
        }
        // SAFETY: the caller's promise.
        let wake_at_ns = unsafe { &mut *wake_at_ns };
        *wake_at_ns = wake_ns.min(*wake_at_ns);
        Ok(0)
    };
    // SAFETY: the caller's promise.
    let result = unsafe { call(library, "rosemary_wanted_on_record", with) };
    for notice in notices {
        if let Some(on_notice) = callback {
            // SAFETY: the caller's promise; no reference to the library exists now.
            unsafe { on_notice.call(&notice) };
        }
    }
    // A call of the callback may have panicked.
    // SAFETY: the caller's promise; the callback does not free the library.
    let is_broken = unsafe { library.as_ref() }.is_some_and(|library| library.is_broken);
    if is_broken { BROKEN } else { result }
}
