//! Calls the functions of `rosemary_wanted.h` in this process, as an app in C does: with pointers that are none, and with a
//! panic, which no input of an app causes.
#![cfg(feature = "host")]
#![allow(clippy::unwrap_used, reason = "a test has a library")]

#[path = "../c/wanted/lib.rs"]
#[allow(unreachable_pub, dead_code, reason = "the library exports more to apps in C")]
mod library;

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use openflow::{FlowMod, Match, PortNo, Version, append};
use rosemary_sdk::abi::{ABI, HostFunctions, Record, RecordKind};
use rosemary_sdk::testing::{AlignedRecord, Bench};

use library::{
    Library, rosemary_wanted_check, rosemary_wanted_count, rosemary_wanted_create,
    rosemary_wanted_error, rosemary_wanted_flow, rosemary_wanted_free, rosemary_wanted_on_record,
    rosemary_wanted_save_failure,
};

const WRONG: i32 = -2;
const BROKEN: i32 = -3;
const EVERY_SWITCH: u64 = u64::MAX;

thread_local! {
    /// The messages that the library has sent, and the lines that it has logged.
    static SENT: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static LOG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

unsafe extern "C" fn reserve(_: *const HostFunctions, size: u32) -> *mut c_void {
    ROOM.with_borrow_mut(|room| {
        *room = vec![0; size as usize];
        room.as_mut_ptr().cast()
    })
}

unsafe extern "C" fn commit(_: *const HostFunctions, _: u64, _: u32, size: u32) -> i32 {
    let message = ROOM.with_borrow(|room| room[..size as usize].to_vec());
    SENT.with_borrow_mut(|sent| sent.push(message));
    0
}

unsafe extern "C" fn commit_series(_: *const HostFunctions, _: u64, _: u32, _: u32, _: u32) -> i32 {
    -1
}

unsafe extern "C" fn room(_: *const HostFunctions) -> u32 {
    1 << 20
}

unsafe extern "C" fn stop(_: *const HostFunctions, _: u32) {}

unsafe extern "C" fn log(_: *const HostFunctions, _: u32, text: *const c_char, size: u32) {
    // SAFETY: the library passes a text of this size.
    let text = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), size as usize) };
    LOG.with_borrow_mut(|log| log.push(String::from_utf8_lossy(text).into_owned()));
}

unsafe extern "C" fn ask(_: *const HostFunctions, _: u32, _: *const c_void, _: u32) -> i64 {
    -1
}

unsafe extern "C" fn take(_: *const HostFunctions, _: u64) -> i32 {
    -1
}

unsafe extern "C" fn read_table(
    _: *const HostFunctions,
    _: u32,
    _: u32,
    _: u32,
    _: *mut u64,
) -> i64 {
    -1
}

unsafe extern "C" fn publish(_: *const HostFunctions, _: u32, _: *const u64) -> i32 {
    -1
}

unsafe extern "C" fn answer(
    _: *const HostFunctions,
    _: u64,
    _: u64,
    _: u32,
    _: *const c_void,
    _: u32,
) -> i32 {
    -1
}

unsafe extern "C" fn report_incident(
    _: *const HostFunctions,
    _: *const c_char,
    _: u32,
    _: *const c_char,
    _: u32,
) {
}

unsafe extern "C" fn set_problem(_: *const HostFunctions, _: *const c_char, _: u32) {}

fn host() -> HostFunctions {
    HostFunctions {
        abi: ABI,
        size: u32::try_from(size_of::<HostFunctions>()).unwrap(),
        context: ptr::null_mut(),
        lowest_priority: 1,
        highest_priority: 100,
        reserved: 0,
        reserve,
        commit,
        room,
        stop,
        log,
        first_group: 0,
        last_group: 9,
        first_meter: 1,
        last_meter: 9,
        config: ptr::null(),
        config_size: 0,
        reserved2: 0,
        ask,
        take,
        commit_series,
        read_table,
        publish,
        answer,
        report_incident,
        set_problem,
    }
}

fn log_lines() -> Vec<String> {
    LOG.take()
}

fn flow() -> Vec<u8> {
    let mut message = Vec::new();
    let flow = FlowMod::add(Match::new().in_port(PortNo(1))).priority(7);
    append(&mut message, |out| flow.encode(Version::V1_3, 0, out)).unwrap();
    message
}

fn declare(library: *mut Library, message: &[u8]) -> i32 {
    let size = u32::try_from(message.len()).unwrap();
    // SAFETY: the library of the test, and a message of this size.
    unsafe { rosemary_wanted_flow(library, EVERY_SWITCH, message.as_ptr().cast(), size) }
}

/// Passes a record, or a wake-up; returns the result and the timer.
fn pass(library: *mut Library, record: Option<&AlignedRecord>, now_ns: u64) -> (i32, u64) {
    let mut wake_at_ns = u64::MAX;
    let record = record.map_or(ptr::null(), |record| {
        #[expect(clippy::cast_ptr_alignment, reason = "an aligned record")]
        record.bytes().as_ptr().cast::<Record>()
    });
    // SAFETY: the library of the test, and a whole record.
    let result = unsafe { rosemary_wanted_on_record(library, record, now_ns, &raw mut wake_at_ns) };
    (result, wake_at_ns)
}

#[test]
fn declared_flow_is_sent_to_a_switch() {
    let host = host();
    // SAFETY: the host lives as long as the library.
    let library = unsafe { rosemary_wanted_create(&raw const host, ptr::null()) };
    assert!(!library.is_null());
    let flow = flow();
    assert_eq!((declare(library, &flow), declare(library, &flow)), (1, 0));
    let up = AlignedRecord::about(RecordKind::SwitchUp, Bench::switch(1, Version::V1_3));
    let (result, mut wake_at_ns) = pass(library, Some(&up), 1_000_000);
    assert_eq!(result, 0);
    // No listing of the kernel comes, so that the library adds the flow after a while.
    for _ in 0..100 {
        if wake_at_ns == u64::MAX || SENT.with_borrow(|sent| sent.iter().any(|it| it[1] == 14)) {
            break;
        }
        (_, wake_at_ns) = pass(library, None, wake_at_ns);
    }
    // SAFETY: the library of the test.
    assert_eq!(unsafe { rosemary_wanted_check(library, 1, wake_at_ns) }, 0);
    // SAFETY: as above.
    assert!(unsafe { rosemary_wanted_save_failure(library) }.is_null());
    // SAFETY: as above; it is not used any more.
    unsafe { rosemary_wanted_free(library) };
    let sent = SENT.take();
    assert!(sent.iter().any(|it| it[1] == 14), "{sent:?}");
    assert!(sent.iter().all(|it| it[4] & 0x80 != 0), "{sent:?}");
    let lines = log_lines();
    assert!(lines.iter().any(|line| line.contains("not in the storage")), "{lines:?}");
}

#[test]
fn panic_breaks_the_library_and_nothing_else() {
    let host = host();
    // SAFETY: the host lives as long as the library.
    let library = unsafe { rosemary_wanted_create(&raw const host, ptr::null()) };
    // SAFETY: the library of the test.
    let result = unsafe { library::call(library, "a_function", |_| panic!("on purpose")) };
    assert_eq!((result, log_lines()), (BROKEN, vec!["panicked in a_function: on purpose".into()]));
    assert_eq!(declare(library, &flow()), BROKEN);
    assert_eq!(pass(library, None, 1), (BROKEN, u64::MAX));
    // SAFETY: the library of the test.
    assert_eq!(unsafe { rosemary_wanted_count(library) }, BROKEN);
    // SAFETY: as above.
    let text = unsafe { rosemary_wanted_error(library) };
    // SAFETY: the text ends with a NUL and lives until the next call.
    let text = unsafe { CStr::from_ptr(text) }.to_str().unwrap();
    assert!(text.contains("return ROSEMARY_BROKEN"), "{text}");
    // SAFETY: the library of the test, which is not used any more.
    unsafe { rosemary_wanted_free(library) };
}

#[test]
fn pointers_that_are_none_are_refused() {
    let host = host();
    // SAFETY: NULL is allowed.
    assert!(unsafe { rosemary_wanted_create(ptr::null(), ptr::null()) }.is_null());
    let older = HostFunctions { abi: ABI + 1, ..self::host() };
    // SAFETY: the host lives as long as the call.
    assert!(unsafe { rosemary_wanted_create(&raw const older, ptr::null()) }.is_null());
    assert!(log_lines().concat().contains("newer Rosemary"));
    assert_eq!(
        (declare(ptr::null_mut(), &flow()), pass(ptr::null_mut(), None, 1).0),
        (WRONG, WRONG)
    );
    // SAFETY: the host lives as long as the library.
    let library = unsafe { rosemary_wanted_create(&raw const host, ptr::null()) };
    for cut in 0..flow().len() {
        assert_eq!(declare(library, &flow()[..cut]), WRONG, "{cut}");
    }
    let record = [u64::MAX; 8];
    let odd = record.as_ptr().wrapping_byte_add(4).cast::<Record>();
    let mut wake_at_ns = u64::MAX;
    // SAFETY: the library refuses a record that is not aligned before it reads it.
    let result = unsafe { rosemary_wanted_on_record(library, odd, 1, &raw mut wake_at_ns) };
    assert_eq!((result, wake_at_ns), (WRONG, u64::MAX));
    let short = [47_u64; 6];
    // SAFETY: the record has the four bytes of its size, and says that it is too short.
    let result = unsafe {
        rosemary_wanted_on_record(library, short.as_ptr().cast(), 1, &raw mut wake_at_ns)
    };
    assert_eq!(result, WRONG);
    // SAFETY: the library of the test, which is not used any more.
    unsafe { rosemary_wanted_free(library) };
}
