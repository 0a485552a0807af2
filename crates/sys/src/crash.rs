//! Records a crash of this process in shared memory, for the process that reads it afterwards.
//!
//! The handler of a fatal signal writes the signal, the registers and a piece of the stack into memory that the parent
//! made. It calls only functions that signal-safety(7) permits and allocates nothing. Then the signal ends the process as
//! it would have done without the handler. A record without registers is written when the process exits without a signal.
//!
//! The system copies the stack, by write(2) into the file of that memory. The handler knows no bounds for the stack of a
//! thread that an app has started, and the system ends the copy at memory that cannot be read, where a load would fault.
//!
//! ```text
//! word 0    what the record contains: 0 nothing, 1 the words up to 63, 2 also the stack
//!      1    the signal, 0 for an exit
//!      2    si_code, as 32 bits
//!      3    the address of the fault
//!      4    1 if this process itself sent the signal
//!      5    the slot of the thread and 1, 0 for a thread without a slot
//!      6    the number of words of the stack
//!      7    the address of the first of them, which is the stack pointer
//!      8    the number of registers
//!      9    the registers, in the order of REGISTERS
//!      64   the stack
//! ```
//!
//! Code in the process can write anything into the memory, so the reader treats the record as a claim.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::SeekFrom;

use crate::shm::{Shared, Word};

/// The words of a record.
pub const WORDS: usize = STACK + STACK_WORDS;

/// The most words of the stack in a record: 16 KiB.
const STACK_WORDS: usize = 2048;

const STATE: usize = 0;
const SIGNAL: usize = 1;
const CODE: usize = 2;
const ADDRESS: usize = 3;
const SENT_ITSELF: usize = 4;
const SLOT: usize = 5;
const STACK_SIZE: usize = 6;
const STACK_START: usize = 7;
const REGISTER_COUNT: usize = 8;
const REGISTER: usize = 9;
const STACK: usize = 64;

/// [`STATE`] of a record whose stack is missing.
const WITHOUT_STACK: u64 = 1;
/// [`STATE`] of a complete record.
const COMPLETE: u64 = 2;

/// The signals that are recorded: those by which faulty code ends.
const SIGNALS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT, libc::SIGTRAP];

/// The bytes of a thread's stack for the handler. The standard library's own is too small on processors with large registers.
const HANDLER_STACK: usize = 64 * 1024;

/// The names of the registers. The first is the instruction pointer, the second the stack pointer, the third the frame
/// pointer, on aarch64 the fourth the link register.
#[cfg(target_arch = "x86_64")]
pub const REGISTERS: &[&str] = &[
    "rip", "rsp", "rbp", "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
    "r13", "r14", "r15", "eflags",
];
/// The names of the registers. The first is the instruction pointer, the second the stack pointer, the third the frame
/// pointer, on aarch64 the fourth the link register.
#[cfg(target_arch = "aarch64")]
pub const REGISTERS: &[&str] = &[
    "pc", "sp", "x29", "x30", "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10",
    "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23",
    "x24", "x25", "x26", "x27", "x28", "pstate",
];
/// The names of the registers, which are not recorded on this kind of machine.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub const REGISTERS: &[&str] = &[];

const _: () = assert!(REGISTER + REGISTERS.len() <= STACK, "the registers have room");

/// A crash, or an exit, as the process recorded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrashRecord {
    /// The signal; `None` for an exit.
    pub signal: Option<i32>,
    /// Why the signal was sent, as sigaction(2) lists for `si_code`. Above 0 it is a fault of the running instruction.
    pub code: i32,
    /// The address of the fault, meaningful if `code` is above 0.
    pub address: u64,
    /// Whether the process itself sent the signal, meaningful if `code` is not above 0.
    pub sent_itself: bool,
    /// The slot of the thread, as it was given to [`watch_thread`]; `None` for another thread.
    pub slot: Option<usize>,
    /// The values of [`REGISTERS`], or nothing.
    pub registers: Vec<u64>,
    /// The recorded part of the stack, from the stack pointer on; of an exit, from a frame of the exit handlers on.
    pub stack: Vec<u64>,
}

impl CrashRecord {
    /// Reads a record of [`WORDS`] words through `word`; `None` if there is none. Any content is valid.
    pub fn read(word: impl Fn(usize) -> u64) -> Option<Self> {
        let state = word(STATE);
        if state != WITHOUT_STACK && state != COMPLETE {
            return None;
        }
        let signal = i32::try_from(word(SIGNAL)).unwrap_or_default();
        let has_registers = word(REGISTER_COUNT) == REGISTERS.len() as u64;
        let registers = if has_registers { REGISTERS.len() } else { 0 };
        let words = if state == COMPLETE { word(STACK_SIZE) } else { 0 };
        let words = usize::try_from(words).map_or(STACK_WORDS, |words| words.min(STACK_WORDS));
        let slot = usize::try_from(word(SLOT)).unwrap_or_default();
        Some(Self {
            signal: (signal != 0).then_some(signal),
            code: u32::try_from(word(CODE)).unwrap_or_default().cast_signed(),
            address: word(ADDRESS),
            sent_itself: word(SENT_ITSELF) == 1,
            slot: slot.checked_sub(1),
            registers: (REGISTER..REGISTER + registers).map(&word).collect(),
            stack: (STACK..STACK + words).map(&word).collect(),
        })
    }

    /// Whether another process sent the signal, so that the code that ran did not cause it.
    pub fn is_from_outside(&self) -> bool {
        self.signal.is_some() && self.code <= 0 && !self.sent_itself
    }
}

/// A thread whose crash is recorded with its slot and its stack.
#[derive(Debug, Clone, Copy)]
struct Watched {
    slot: usize,
    /// The lowest address of its stack, and the first one above it.
    stack: (usize, usize),
}

thread_local! {
    /// Constant and without a destructor, so a signal handler can read it.
    static WATCHED: Cell<Option<Watched>> = const { Cell::new(None) };
}

/// The record, once [`install`] has succeeded.
static RECORD: OnceLock<&'static [Word]> = OnceLock::new();

/// The file of the record's memory. Its position is that of the record's stack.
static FILE: OnceLock<OwnedFd> = OnceLock::new();

/// Whether a thread has begun to write the record. Only the first crash is recorded.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The earlier actions of [`SIGNALS`]: the standard library's handler, which reports stack overflows.
static EARLIER: [OnceLock<libc::sigaction>; SIGNALS.len()] = [const { OnceLock::new() }; _];

/// Names this thread in a later record, and gives the handler a stack of its own there.
///
/// # Errors
/// The system does not report where the thread's stack is, or refuses the handler's.
pub fn watch_thread(slot: usize) -> io::Result<()> {
    let stack = stack_of_this_thread()?;
    // It is never freed: the thread can receive a signal until its very end.
    let handlers = Box::leak(vec![0u8; HANDLER_STACK].into_boxed_slice());
    let handlers =
        libc::stack_t { ss_sp: handlers.as_mut_ptr().cast(), ss_flags: 0, ss_size: HANDLER_STACK };
    // SAFETY: the memory is of the given size, is used for nothing else and stays.
    check(unsafe { libc::sigaltstack(&raw const handlers, null_mut()) })?;
    WATCHED.set(Some(Watched { slot, stack }));
    Ok(())
}

/// Records the first fatal signal of this process, or its exit, in the [`WORDS`] words of `memory` from word `first` on.
/// `file` is the file of that memory.
///
/// # Errors
/// The system refuses a handler, or there is a record already.
///
/// # Panics
/// If the words do not lie inside.
pub fn install(memory: &'static Shared, first: usize, file: OwnedFd) -> io::Result<()> {
    let record = &memory.words()[first..first + WORDS];
    RECORD.set(record).map_err(|_| io::ErrorKind::AlreadyExists)?;
    rustix::fs::seek(&file, SeekFrom::Start(8 * (first + STACK) as u64))?;
    FILE.set(file).map_err(|_| io::ErrorKind::AlreadyExists)?;
    for (signal, earlier) in SIGNALS.into_iter().zip(&EARLIER) {
        let mut old = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: all fields of the structure may be zero.
        let mut action = unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() };
        action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: it writes a set of signals into the structure.
        unsafe { libc::sigfillset(&raw mut action.sa_mask) };
        // SAFETY: the handler does only what signal-safety(7) permits; both structures live during the call.
        check(unsafe { libc::sigaction(signal, &raw const action, old.as_mut_ptr()) })?;
        // SAFETY: the call above has filled it in.
        let _ = earlier.set(unsafe { old.assume_init() });
    }
    // SAFETY: the function may be called at any time, and stays.
    check(unsafe { libc::atexit(on_exit) })
}

/// Writes the record and lets the signal end the process.
extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes a valid structure to a handler with SA_SIGINFO.
    let info = unsafe { &*info };
    let code = info.si_code;
    if let Some(record) = RECORD.get() {
        if IS_TAKEN.swap(true, Ordering::AcqRel) {
            wait_for(record);
        } else {
            put(record, SIGNAL, u64::from(signal.cast_unsigned()));
            put(record, CODE, u64::from(code.cast_unsigned()));
            if code > 0 {
                // SAFETY: the signal is a fault, so the system has set this field.
                put(record, ADDRESS, unsafe { info.si_addr() } as u64);
            } else {
                // SAFETY: a process sent the signal, so the system has set this field.
                let sender = unsafe { info.si_pid() };
                put(
                    record,
                    SENT_ITSELF,
                    u64::from(sender == rustix::process::getpid().as_raw_pid()),
                );
            }
            // SAFETY: the system passes a valid context to a handler with SA_SIGINFO.
            let registers = registers(unsafe { &*context.cast::<libc::ucontext_t>() });
            put_thread(record);
            put_registers(record, &registers);
            record[STATE].store(WITHOUT_STACK, Ordering::Release);
            put_stack(record, registers.get(1).copied().unwrap_or_default());
            record[STATE].store(COMPLETE, Ordering::Release);
        }
    }
    let earlier = SIGNALS.iter().position(|it| *it == signal);
    let earlier = earlier.and_then(|index| EARLIER[index].get());
    if let Some(earlier) = earlier.filter(|it| it.sa_sigaction > libc::SIG_IGN && code > 0) {
        // The instruction faults again, and the earlier handler reports a stack overflow or ends the process.
        // SAFETY: it is the action that the system itself returned.
        unsafe { libc::sigaction(signal, std::ptr::from_ref(earlier), null_mut()) };
    } else {
        // SAFETY: it is a valid action. The signal is blocked and takes effect when the handler returns.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        // SAFETY: it sends a signal to this thread.
        unsafe { libc::raise(signal) };
    }
}

/// Records which thread ends the process without a signal.
extern "C" fn on_exit() {
    if let Some(record) = RECORD.get()
        && !IS_TAKEN.swap(true, Ordering::AcqRel)
    {
        put_thread(record);
        let here = 0_u64;
        put_stack(record, (&raw const here).expose_provenance() as u64);
        record[STATE].store(COMPLETE, Ordering::Release);
    }
}

/// Waits for the thread that is writing the record, but not for ever: it may be gone.
fn wait_for(record: &[Word]) {
    for _ in 0..10_000 {
        if record[STATE].load(Ordering::Acquire) == COMPLETE {
            return;
        }
        // SAFETY: a system call without arguments.
        unsafe { libc::sched_yield() };
    }
}

fn put(record: &[Word], word: usize, value: u64) {
    if let Some(word) = record.get(word) {
        word.store(value, Ordering::Relaxed);
    }
}

fn put_thread(record: &[Word]) {
    let slot = WATCHED.get().map_or(0, |watched| watched.slot as u64 + 1);
    put(record, SLOT, slot);
}

fn put_registers(record: &[Word], registers: &[u64]) {
    for (word, value) in (REGISTER..).zip(registers) {
        put(record, word, *value);
    }
    put(record, REGISTER_COUNT, registers.len() as u64);
}

/// Copies the stack of this thread from `pointer` on: up to its end if the thread is watched, otherwise up to memory that
/// cannot be read.
fn put_stack(record: &[Word], pointer: u64) {
    put(record, STACK_START, pointer);
    let (Some(file), Ok(pointer)) = (FILE.get(), usize::try_from(pointer)) else { return };
    let (low, high) = WATCHED.get().map_or((0, usize::MAX), |watched| watched.stack);
    if pointer < low || !pointer.is_multiple_of(8) {
        return;
    }
    let words = (high.saturating_sub(pointer) / 8).min(STACK_WORDS);
    let at: *const c_void = std::ptr::with_exposed_provenance(pointer);
    // SAFETY: the system reads the memory, and returns early where it cannot.
    let copied = unsafe { libc::write(file.as_raw_fd(), at, 8 * words) };
    put(record, STACK_SIZE, u64::try_from(copied).unwrap_or(0) / 8);
}

#[cfg(target_arch = "x86_64")]
fn registers(context: &libc::ucontext_t) -> [u64; REGISTERS.len()] {
    const ORDER: [c_int; REGISTERS.len()] = [
        libc::REG_RIP,
        libc::REG_RSP,
        libc::REG_RBP,
        libc::REG_RAX,
        libc::REG_RBX,
        libc::REG_RCX,
        libc::REG_RDX,
        libc::REG_RSI,
        libc::REG_RDI,
        libc::REG_R8,
        libc::REG_R9,
        libc::REG_R10,
        libc::REG_R11,
        libc::REG_R12,
        libc::REG_R13,
        libc::REG_R14,
        libc::REG_R15,
        libc::REG_EFL,
    ];
    let all = &context.uc_mcontext.gregs;
    ORDER.map(|register| {
        let index = usize::try_from(register).unwrap_or_default();
        all.get(index).copied().unwrap_or_default().cast_unsigned()
    })
}

#[cfg(target_arch = "aarch64")]
fn registers(context: &libc::ucontext_t) -> [u64; REGISTERS.len()] {
    let all = &context.uc_mcontext;
    let mut values = [0; REGISTERS.len()];
    (values[0], values[1], values[2], values[3]) = (all.pc, all.sp, all.regs[29], all.regs[30]);
    values[4..33].copy_from_slice(&all.regs[..29]);
    values[33] = all.pstate;
    values
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn registers(_: &libc::ucontext_t) -> [u64; REGISTERS.len()] {
    []
}

/// The lowest address of this thread's stack, and the first one above it.
fn stack_of_this_thread() -> io::Result<(usize, usize)> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: it names the calling thread.
    let thread = unsafe { libc::pthread_self() };
    // SAFETY: the thread runs; the call fills the structure in or fails.
    let error = unsafe { libc::pthread_getattr_np(thread, attributes.as_mut_ptr()) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    let (mut low, mut size, mut guard) = (null_mut(), 0, 0);
    let attributes = attributes.as_mut_ptr();
    // SAFETY: the structure was filled in above.
    let error = unsafe { libc::pthread_attr_getstack(attributes, &raw mut low, &raw mut size) };
    // SAFETY: as above.
    unsafe { libc::pthread_attr_getguardsize(attributes, &raw mut guard) };
    // SAFETY: as above, and it is not used afterwards.
    unsafe { libc::pthread_attr_destroy(attributes) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    let low = low.expose_provenance();
    // Some versions of the C library count the guard page as a part of the stack.
    Ok((low.saturating_add(guard), low.saturating_add(size)))
}

fn check(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd as _, OwnedFd};
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, ExitStatus, Stdio};

    use super::*;
    use crate::shm::SharedView;

    /// The variable that makes this test program a process that dies, and says how.
    const DIES: &str = "ROSEMARY_TEST_CRASH";
    const SIZE: usize = 8 * WORDS;

    fn record_of(how: &str) -> (Option<CrashRecord>, ExitStatus, String) {
        let (view, fd) = SharedView::written_by_peer("crash", SIZE).unwrap();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "crash::tests::die", "--nocapture"])
            .env(DIES, how)
            .stdin(Stdio::from(fd))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (CrashRecord::read(|word| view.load_acquire(word)), output.status, said)
    }

    #[test]
    #[ignore = "executed by another test, in a process of its own"]
    fn die() {
        let Ok(how) = std::env::var(DIES) else { return };
        let fd: OwnedFd = io::stdin().as_fd().try_clone_to_owned().unwrap();
        let memory = Box::leak(Box::new(Shared::map(&fd, SIZE).unwrap()));
        install(memory, 0, fd).unwrap();
        std::thread::spawn(move || {
            if !how.starts_with("unwatched") {
                watch_thread(3).unwrap();
            }
            match how.trim_start_matches("unwatched ") {
                "reads" => {
                    let null: *const u64 = std::ptr::with_exposed_provenance(24);
                    // SAFETY: it is not sound, and ends this process.
                    let _ = unsafe { null.read_volatile() };
                }
                "aborts" => std::process::abort(),
                // SAFETY: it ends this process, whose other threads only wait.
                "exits" => unsafe { libc::exit(7) },
                "overflows" => assert_ne!(overflow(1), 0),
                _ => loop {
                    std::thread::park();
                },
            }
        })
        .join()
        .unwrap();
    }

    #[expect(unconditional_recursion, reason = "it overflows the stack")]
    fn overflow(depth: u64) -> u64 {
        let filler = std::hint::black_box([depth; 64]);
        overflow(depth + 1) + filler[3]
    }

    #[test]
    fn fault_is_recorded_with_registers_and_stack() {
        let (record, status, _) = record_of("reads");
        let record = record.unwrap();
        assert_eq!(status.signal(), Some(libc::SIGSEGV));
        assert_eq!((record.signal, record.address), (Some(libc::SIGSEGV), 24));
        assert_eq!((record.slot, record.is_from_outside()), (Some(3), false));
        assert_eq!(record.registers.len(), REGISTERS.len());
        assert!(record.stack.len() > 8, "{}", record.stack.len());
    }

    #[test]
    fn abort_and_exit_name_their_thread() {
        let (record, status, _) = record_of("aborts");
        let record = record.unwrap();
        assert_eq!(status.signal(), Some(libc::SIGABRT));
        assert_eq!((record.signal, record.slot), (Some(libc::SIGABRT), Some(3)));
        assert!(!record.is_from_outside());
        let (record, status, _) = record_of("exits");
        let record = record.unwrap();
        assert_eq!(status.code(), Some(7));
        assert_eq!((record.signal, record.slot), (None, Some(3)));
    }

    #[test]
    fn thread_without_slot_has_a_stack() {
        let (record, status, _) = record_of("unwatched aborts");
        let record = record.unwrap();
        assert_eq!((record.signal, record.slot), (status.signal(), None));
        assert!(record.stack.len() > 8 && record.stack.iter().any(|word| *word != 0));
        let (record, _, _) = record_of("unwatched exits");
        let record = record.unwrap();
        assert_eq!((record.signal, record.slot, record.registers.len()), (None, None, 0));
        assert!(record.stack.len() > 8);
    }

    #[test]
    fn stack_overflow_is_still_reported() {
        let (record, status, said) = record_of("overflows");
        assert_eq!(status.signal(), Some(libc::SIGABRT), "{said}");
        assert!(said.contains("overflowed its stack"), "{said}");
        let record = record.unwrap();
        assert_eq!((record.signal, record.slot), (Some(libc::SIGSEGV), Some(3)));
    }

    #[test]
    fn hostile_record_is_bounded() {
        for filler in [1, 2, u64::from(u32::MAX), u64::MAX] {
            for state in [WITHOUT_STACK, COMPLETE] {
                let read = |word| if word == STATE { state } else { filler };
                let record = CrashRecord::read(read).unwrap();
                assert!(record.stack.len() <= STACK_WORDS);
                assert!(record.registers.len() <= REGISTERS.len());
            }
            assert_eq!(CrashRecord::read(|word| if word == STATE { 3 } else { filler }), None);
        }
        assert_eq!(CrashRecord::read(|_| 0), None);
    }
}
