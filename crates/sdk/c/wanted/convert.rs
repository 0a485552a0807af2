//! Converts the settings and notices of `rosemary_wanted.h`.

use std::ffi::{CString, c_char, c_void};
use std::time::Duration;

use rosemary_sdk::abi::Level;
use rosemary_sdk::abi::foreign::ForeignHost;
use rosemary_sdk::wanted::{Exception, Notice, Owns, Settings};

use super::c_text;

/// `ROSEMARY_EVERY_TABLE`.
const EVERY_TABLE: u32 = 0xff;

/// Most exceptions of an app.
const MOST_EXCEPTIONS: u32 = 1024;

/// The function of an app that receives notices.
type OnNotice = unsafe extern "C" fn(context: *mut c_void, notice: *const CNotice);

/// `struct rosemary_wanted_exception`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct CException {
    cookie: u64,
    cookie_mask: u64,
    table: u32,
    reserved: u32,
}

/// `struct rosemary_wanted_settings`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CSettings {
    size: u32,
    owns: u32,
    exceptions: *const CException,
    exception_count: u32,
    messages_per_turn: u32,
    check_every_ns: u64,
    groups_and_meters: u8,
    keep: u8,
    at_once: u8,
    dry_run: u8,
    reserved: u32,
    on_notice: Option<OnNotice>,
    context: *mut c_void,
}

/// `struct rosemary_wanted_notice`.
#[derive(Debug)]
#[repr(C)]
pub(super) struct CNotice {
    kind: u32,
    reserved: u32,
    dpid: u64,
    text: *const c_char,
}

// As in the header, where pointers have eight bytes.
const _: () = assert!(
    size_of::<*const u8>() != 8
        || size_of::<CSettings>() == 56
            && size_of::<CException>() == 24
            && size_of::<CNotice>() == 24
);

/// A callback for notices, and its context.
#[derive(Debug, Clone, Copy)]
pub(super) struct Callback {
    function: OnNotice,
    context: *mut c_void,
}

impl CSettings {
    /// Converts the settings.
    ///
    /// # Safety
    /// If `exceptions` is not NULL, `exception_count` exceptions are there.
    unsafe fn settings(&self) -> Result<Settings, String> {
        let owns = match self.owns {
            0 => Owns::Declared,
            1 => Owns::All,
            other => {
                return Err(format!(
                    "owns is {other}; set ROSEMARY_OWNS_DECLARED or ROSEMARY_OWNS_ALL"
                ));
            }
        };
        let switch = |name: &str, value: u8| match value {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(format!("{name} is {other}; set 0 or 1")),
        };
        if self.reserved != 0 {
            return Err("a reserved field is not 0; begin with rosemary_wanted_usual()".into());
        }
        let check_every = Duration::from_nanos(self.check_every_ns);
        Ok(Settings {
            owns,
            // SAFETY: the caller's promise.
            exceptions: unsafe { self.exceptions() }?,
            groups_and_meters: switch("groups_and_meters", self.groups_and_meters)?,
            keep: switch("keep", self.keep)?,
            check_every: (!check_every.is_zero()).then_some(check_every),
            at_once: switch("at_once", self.at_once)?,
            dry_run: switch("dry_run", self.dry_run)?,
            messages_per_turn: self.messages_per_turn as usize,
        })
    }

    /// Converts the exceptions.
    ///
    /// # Safety
    /// As [`settings`](Self::settings).
    unsafe fn exceptions(&self) -> Result<Vec<Exception>, String> {
        let count = self.exception_count;
        if count == 0 {
            return Ok(Vec::new());
        }
        if count > MOST_EXCEPTIONS {
            return Err(format!("{count} exceptions; pass {MOST_EXCEPTIONS} at most"));
        }
        if self.exceptions.is_null() || !self.exceptions.is_aligned() {
            return Err(format!(
                "exceptions is no array; pass {count} or set exception_count to 0"
            ));
        }
        // SAFETY: the caller's promise.
        let all = unsafe { std::slice::from_raw_parts(self.exceptions, count as usize) };
        all.iter().map(CException::exception).collect()
    }
}

impl CException {
    fn exception(&self) -> Result<Exception, String> {
        let table = match u8::try_from(self.table) {
            Ok(_) if self.table == EVERY_TABLE => None,
            Ok(table) => Some(table),
            Err(_) => {
                return Err(format!(
                    "an exception has table {}; set 0 to 254, or ROSEMARY_EVERY_TABLE",
                    self.table
                ));
            }
        };
        if self.reserved != 0 {
            return Err("the reserved field of an exception is not 0; set it to 0".into());
        }
        let cookie = (self.cookie_mask != 0).then_some((self.cookie, self.cookie_mask));
        Ok(Exception { table, cookie })
    }
}

/// Reads the settings, or the usual ones for NULL, and the callback, if there is one.
///
/// # Safety
/// A pointer that is not NULL points to as many bytes as the first four of them state, and `exceptions` in them to
/// `exception_count` exceptions.
pub(super) unsafe fn read_settings(
    settings: *const CSettings,
) -> Result<(Settings, Option<Callback>), String> {
    if settings.is_null() {
        return Ok((Settings::default(), None));
    }
    if !settings.is_aligned() {
        return Err("the settings are no structure; begin with rosemary_wanted_usual()".into());
    }
    // SAFETY: the caller's promise: the first four bytes are there.
    let size = unsafe { settings.cast::<u32>().read() };
    let expected = size_of::<CSettings>();
    if size as usize != expected {
        return Err(format!(
            "the settings have {size} bytes, expected {expected}; begin with rosemary_wanted_usual(), \
             and use the header and the library of one version"
        ));
    }
    // SAFETY: the caller's promise: as many bytes are there.
    let settings = unsafe { settings.read() };
    // SAFETY: the caller's promise.
    let converted = unsafe { settings.settings() }?;
    let context = settings.context;
    Ok((converted, settings.on_notice.map(|function| Callback { function, context })))
}

impl Callback {
    /// Calls the function with a notice.
    ///
    /// # Safety
    /// The app is in a call of its host, and no reference to the library exists, because the function may call the library.
    pub(super) unsafe fn call(self, notice: &OwnedNotice) {
        let OwnedNotice { kind, dpid, text } = notice;
        let notice = CNotice { kind: *kind, reserved: 0, dpid: *dpid, text: text.as_ptr() };
        // SAFETY: the app's own function, with the context that the app gave for it.
        unsafe { (self.function)(self.context, &raw const notice) };
    }
}

/// A notice without a reference to the library.
#[derive(Debug)]
pub(super) struct OwnedNotice {
    kind: u32,
    /// The switch; 0 if the notice is about none.
    dpid: u64,
    text: CString,
}

impl From<Notice> for OwnedNotice {
    fn from(notice: Notice) -> Self {
        let (kind, dpid) = match &notice {
            Notice::Reconciled { switch, .. } => (1, switch.dpid.0),
            Notice::Difference { switch, .. } => (2, switch.dpid.0),
            Notice::Failed { switch, .. } => (3, switch.dpid.0),
            Notice::Full { switch, .. } => (4, switch.dpid.0),
            Notice::Blind { switch, .. } => (5, switch.dpid.0),
            Notice::NotKept { .. } => (6, 0),
            Notice::Loaded { .. } => (7, 0),
            _ => (0, 0),
        };
        Self { kind, dpid, text: c_text(&notice.to_string()) }
    }
}

/// Logs a notice for an app without a callback.
pub(super) fn log(host: &ForeignHost, notice: &Notice) {
    let level = match notice {
        Notice::Reconciled { .. } | Notice::Difference { .. } | Notice::Loaded { .. } => {
            Level::Info
        }
        _ => Level::Warn,
    };
    host.log(level, &notice.to_string());
}
