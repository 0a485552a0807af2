//! The flight recorder: shared memory in which a process notes the app that it calls, its last events, and how it crashes.
//!
//! The monitor makes the memory for each kernel and each zone. After a kernel has died, the monitor reads
//! in which apps it died, on which thread and where. While processes run, the monitor looks for a call that
//! lasts too long, which is a hang, and for a kernel worker that stays too long in one turn of its loop.
//!
//! ```text
//! page 0    slot 0   u64: the number of the app that the thread calls, 0 for none
//!                    u64: the calls that the thread has begun
//!                    u64: the turns that its loop has begun, 0 for a thread without a loop; 40 bytes unused
//!           slot 1   the same
//!           ...      64 slots, a cache line each, so that threads do not contend
//! page 1    module 0 u64: where its code begins, u64: where it ends, u64: its bias (sys::object::Module)
//!                    u64: the number of the app whose object it is, otherwise 0
//!                    32 bytes: the name of its file, filled up with zeros; empty for the kernel's own program
//!           ...      64 modules
//! page 2..6 the last events of 16 workers (flight::recent)
//! page 6    the memory charged to apps (flight::charges)
//! page 7..  the messages of apps, a page for each worker (flight::traffic)
//! page 23.. the crash (sys::crash)
//! ```
//!
//! Apps run in the process that writes the memory and can write anything into it. The reader therefore
//! takes it as a claim of that process about itself.

mod charges;
mod recent;
mod traffic;

use std::io;
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

use sys::crash::{self, CrashRecord};
use sys::object::Module;
use sys::shm::{Shared, SharedView};

pub use self::charges::Charges;
pub use self::recent::{EVENTS, EventKind, Noted, RecentEvent};
use self::recent::{RING_WORDS, RecentWriter};
pub use self::traffic::{Messages, Traffic};
use crate::app::AppId;
use crate::kernel::MAX_WORKERS;

/// Words of a page.
const PAGE: usize = 512;

/// The first word of the modules.
const MODULES: usize = PAGE;

/// Words from one module to the next.
const MODULE_WORDS: usize = 8;

/// The word of a module with the app's number, after start, end and bias.
const MODULE_APP: usize = 3;

/// The first word of a module's name.
const MODULE_NAME: usize = 4;

/// The most bytes of a module's name.
const NAME_SIZE: usize = 8 * (MODULE_WORDS - MODULE_NAME);

/// The most modules.
const MOST_MODULES: usize = PAGE / MODULE_WORDS;

/// The first word of the last events.
const RECENT: usize = 2 * PAGE;

/// The first word of the memory charged to apps.
const CHARGES: usize = RECENT + MAX_WORKERS as usize * RING_WORDS;

/// The first word of the messages of apps.
const TRAFFIC: usize = CHARGES + charges::WORDS;

/// The first word of the crash.
const CRASH: usize = TRAFFIC + MAX_WORKERS as usize * traffic::WORDS;

/// The memory's size in bytes: whole pages.
const SIZE: usize = (8 * (CRASH + crash::WORDS)).next_multiple_of(8 * PAGE);

/// Words from one slot to the next: a cache line.
const STRIDE: usize = 8;

/// The word of a slot that counts calls. The app's number is word 0.
const CALLS: usize = 1;

/// The word of a slot that counts turns.
const TURNS: usize = 2;

/// The number of threads that can note their calls.
pub const SLOTS: usize = PAGE / STRIDE;

/// The reading end, which the monitor holds.
#[derive(Debug)]
pub struct FlightReader(SharedView);

impl FlightReader {
    /// Makes an empty recorder. The descriptor is for the process that writes ([`FlightRecorder::map`]).
    ///
    /// # Errors
    /// The system is out of memory or descriptors.
    pub fn new() -> io::Result<(Self, OwnedFd)> {
        let (view, fd) = SharedView::written_by_peer("flight recorder", SIZE)?;
        Ok((Self(view), fd))
    }

    /// The apps that are being called, or were when the process died, in ascending order without duplicates.
    pub fn apps(&self) -> Vec<u16> {
        let slots = (0..SLOTS).map(|slot| self.0.load_acquire(slot * STRIDE));
        // A value that is no app number is a lie and names nobody.
        let mut apps: Vec<u16> =
            slots.filter_map(|app| u16::try_from(app).ok()).filter(|app| *app != 0).collect();
        apps.sort_unstable();
        apps.dedup();
        apps
    }

    /// The present turn of each thread that has a loop and calls no app.
    pub fn turns(&self) -> impl Iterator<Item = OngoingTurn> {
        (0..SLOTS).filter_map(|slot| {
            let number = self.0.load_acquire(slot * STRIDE + TURNS);
            let calls_app = self.0.load_acquire(slot * STRIDE) != 0;
            (number != 0 && !calls_app).then_some(OngoingTurn { slot, number })
        })
    }

    /// How the process crashed, or which thread ended it; `None` if it noted neither.
    pub fn crash(&self) -> Option<CrashRecord> {
        CrashRecord::read(|word| self.0.load_acquire(CRASH + word))
    }

    /// The loaded modules, as the process noted them with [`FlightRecorder::note_modules`].
    pub fn modules(&self) -> Vec<LoadedModule> {
        let module = |number: usize| {
            let word = |word| self.0.load_acquire(MODULES + number * MODULE_WORDS + word);
            let name: Vec<u8> =
                (MODULE_NAME..MODULE_WORDS).flat_map(|it| word(it).to_ne_bytes()).collect();
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_SIZE);
            let name = String::from_utf8_lossy(&name[..end]).into_owned();
            let module = Module { name, range: word(0)..word(1), bias: word(2) };
            let app = u16::try_from(word(MODULE_APP)).ok().and_then(NonZeroU16::new);
            (!module.range.is_empty()).then_some(LoadedModule { module, app })
        };
        (0..MOST_MODULES).filter_map(module).collect()
    }

    /// The last events of each worker that has noted some, the oldest first, with the worker's number.
    pub fn recent(&self) -> Vec<(usize, Vec<RecentEvent>)> {
        let ring = |worker: usize| {
            recent::read(|word| self.0.load_acquire(RECENT + worker * RING_WORDS + word))
        };
        let all = (0..usize::from(MAX_WORKERS)).map(|worker| (worker, ring(worker)));
        all.filter(|(_, events)| !events.is_empty()).collect()
    }

    /// The memory that was charged to apps since the process started.
    pub fn charges(&self) -> Charges {
        Charges::read(|word| self.0.load_acquire(CHARGES + word))
    }

    /// The messages of apps since the process started, of all its workers.
    pub fn traffic(&self) -> Traffic {
        let mut all = Traffic::default();
        for worker in 0..usize::from(MAX_WORKERS) {
            let first = TRAFFIC + worker * traffic::WORDS;
            all.read(|word| self.0.load_acquire(first + word));
        }
        all
    }

    /// The calls that have not returned yet.
    pub fn calls(&self) -> impl Iterator<Item = OngoingCall> {
        (0..SLOTS).filter_map(|slot| {
            let app = u16::try_from(self.0.load_acquire(slot * STRIDE)).ok();
            let app = app.and_then(NonZeroU16::new)?;
            Some(OngoingCall { slot, app, number: self.0.load(slot * STRIDE + CALLS) })
        })
    }
}

/// A program, library or object that the process has loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedModule {
    /// Where its code lies, and its name.
    pub module: Module,
    /// The app whose object it is.
    pub app: Option<NonZeroU16>,
}

/// A turn of a thread's loop. Two turns differ in slot or number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OngoingTurn {
    /// The thread's slot.
    pub slot: usize,
    /// The turns that the thread had begun, this one included.
    pub number: u64,
}

/// A call that has not returned. Two calls differ in slot or number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OngoingCall {
    /// The thread's slot.
    pub slot: usize,
    /// The app.
    pub app: NonZeroU16,
    /// The calls that the thread had begun, this one included.
    pub number: u64,
}

/// The writing end, which the kernel or a zone holds.
#[derive(Debug, Clone)]
pub struct FlightRecorder(Arc<Shared>);

impl FlightRecorder {
    /// Maps the memory that [`FlightReader::new`] made.
    ///
    /// # Errors
    /// The descriptor is not of such memory, or the system refuses.
    pub fn map(fd: &OwnedFd) -> io::Result<Self> {
        Ok(Self(Arc::new(Shared::map(fd, SIZE)?)))
    }

    /// Records the first crash of this process from now on. `fd` is the descriptor that was mapped. See
    /// [`crash::watch_thread`] for its threads.
    ///
    /// # Errors
    /// The system refuses the handler of a signal, or crashes are recorded already.
    pub fn record_crash(&self, fd: OwnedFd) -> io::Result<()> {
        // The memory stays mapped until the process ends, because a signal may arrive until then.
        let memory: &'static Arc<Shared> = Box::leak(Box::new(Arc::clone(&self.0)));
        crash::install(memory, CRASH, fd)
    }

    /// Notes what this process has loaded. Those that exceed the room are left out.
    pub fn note_modules<'m>(&self, modules: impl IntoIterator<Item = &'m LoadedModule>) {
        for (number, LoadedModule { module, app }) in
            modules.into_iter().take(MOST_MODULES).enumerate()
        {
            let first = MODULES + number * MODULE_WORDS;
            let set = |word: usize, value: u64| {
                if let Some(word) = self.0.words().get(first + word) {
                    word.store(value, Ordering::Relaxed);
                }
            };
            let mut name = [0; NAME_SIZE];
            let file_name = module.file_name().as_bytes();
            let size = file_name.len().min(NAME_SIZE);
            name[..size].copy_from_slice(&file_name[..size]);
            for (word, bytes) in (MODULE_NAME..).zip(name.as_chunks::<8>().0) {
                set(word, u64::from_ne_bytes(*bytes));
            }
            set(MODULE_APP, app.map_or(0, |app| app.get().into()));
            set(2, module.bias);
            set(0, module.range.start);
            set(1, module.range.end);
        }
    }

    /// The slot of one thread. Two threads with the same slot would overwrite each other's notes.
    ///
    /// # Panics
    /// If `number` is not below [`SLOTS`].
    pub fn slot(&self, number: usize) -> FlightSlot {
        assert!(number < SLOTS, "there are {SLOTS} slots");
        FlightSlot {
            memory: Arc::clone(&self.0),
            word: number * STRIDE,
            calls: 0,
            turns: 0,
            recent: RecentWriter::starting_at(sys::clock::now_ns()),
        }
    }
}

/// The slot in which one thread notes its calls and turns.
#[derive(Debug)]
pub struct FlightSlot {
    memory: Arc<Shared>,
    word: usize,
    calls: u64,
    turns: u64,
    recent: RecentWriter,
}

impl FlightSlot {
    /// Notes that the thread's loop begins another turn.
    pub fn begin_turn(&mut self) {
        self.turns += 1;
        self.recent.time_ns = sys::clock::now_ns();
        if let Some(word) = self.memory.words().get(self.word + TURNS) {
            word.store(self.turns, Ordering::Relaxed);
        }
    }

    /// Notes an event with the header of the first of its OpenFlow messages.
    #[inline]
    pub fn note_event(&mut self, kind: EventKind, noted: &Noted<'_>) {
        let first = RECENT + self.word / STRIDE * RING_WORDS;
        // A slot behind the workers' has no ring, and would write into the charges.
        if first < CHARGES
            && let Some(ring) = self.memory.words().get(first..first + RING_WORDS)
        {
            self.recent.note(ring, kind, noted);
        }
    }

    /// Notes that the thread calls `app`, until the returned guard is dropped.
    ///
    /// Unwinding drops the guard too. A call that never returns stays noted.
    pub fn begin_call(&mut self, app: NonZeroU16) -> CallGuard<'_> {
        self.calls += 1;
        self.note_event(EventKind::Called, &Noted { app: app.get(), ..Noted::default() });
        if let Some(word) = self.memory.words().get(self.word + CALLS) {
            word.store(self.calls, Ordering::Relaxed); // visible with the app's number at the latest
        }
        self.note(app.get());
        CallGuard(self)
    }

    /// Charges `bytes` of memory to `app`, whose call has returned.
    pub fn charge(&self, app: NonZeroU16, bytes: u64) {
        if let Some(words) = self.memory.words().get(CHARGES..TRAFFIC) {
            charges::add(words, app, bytes);
        }
    }

    /// Notes the messages of the app in this slot of the thread's worker, since the process started.
    pub fn note_messages(&self, app_slot: usize, app: AppId, messages: &Messages) {
        let first = TRAFFIC + self.word / STRIDE * traffic::WORDS;
        // A slot behind the workers' has no rows, and would write into the crash.
        if first < CRASH
            && let Some(words) = self.memory.words().get(first..first + traffic::WORDS)
        {
            traffic::write(words, app_slot, app, messages);
        }
    }

    fn note(&self, app: u16) {
        // A signal ends the process in the order of its own instructions, so no other thread has to be
        // held back. Only the compiler must keep the note on its side of the call.
        compiler_fence(Ordering::SeqCst);
        if let Some(word) = self.memory.words().get(self.word) {
            word.store(u64::from(app), Ordering::Release);
        }
        compiler_fence(Ordering::SeqCst);
    }
}

/// A noted call. Dropping it notes that the app has returned.
#[derive(Debug)]
pub struct CallGuard<'slot>(&'slot FlightSlot);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.note(0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::process::Command;

    use super::*;

    fn app(number: u16) -> NonZeroU16 {
        NonZeroU16::new(number).unwrap()
    }

    #[test]
    fn called_app_is_named_until_it_returns() {
        let (reader, fd) = FlightReader::new().unwrap();
        let recorder = FlightRecorder::map(&fd).unwrap();
        let (mut first, mut last) = (recorder.slot(0), recorder.slot(SLOTS - 1));
        assert_eq!(reader.apps(), [0; 0]);
        let one = first.begin_call(app(7));
        let other = last.begin_call(app(3));
        assert_eq!(reader.apps(), [3, 7]);
        drop(one);
        assert_eq!(reader.apps(), [3]);
        drop(other);
        assert_eq!(reader.apps(), [0; 0]);
    }

    #[test]
    fn ongoing_call_keeps_its_number() {
        let (reader, fd) = FlightReader::new().unwrap();
        let mut slot = FlightRecorder::map(&fd).unwrap().slot(2);
        let first = slot.begin_call(app(7));
        let seen: Vec<OngoingCall> = reader.calls().collect();
        assert_eq!(seen, [OngoingCall { slot: 2, app: app(7), number: 1 }]);
        assert_eq!(reader.calls().collect::<Vec<_>>(), seen);
        drop(first);
        assert_eq!(reader.calls().count(), 0);
        let _second = slot.begin_call(app(7));
        assert_ne!(reader.calls().collect::<Vec<_>>(), seen);
    }

    #[test]
    fn ongoing_turn_keeps_its_number() {
        let (reader, fd) = FlightReader::new().unwrap();
        let recorder = FlightRecorder::map(&fd).unwrap();
        let (mut worker, _server) = (recorder.slot(1), recorder.slot(SLOTS - 1));
        let turns = || reader.turns().collect::<Vec<_>>();
        assert_eq!(turns(), []);
        worker.begin_turn();
        assert_eq!(turns(), [OngoingTurn { slot: 1, number: 1 }]);
        assert_eq!(turns(), [OngoingTurn { slot: 1, number: 1 }]);
        let call = worker.begin_call(app(7));
        assert_eq!(turns(), []);
        drop(call);
        worker.begin_turn();
        assert_eq!(turns(), [OngoingTurn { slot: 1, number: 2 }]);
    }

    #[test]
    fn app_of_several_threads_is_named_once() {
        let (reader, fd) = FlightReader::new().unwrap();
        let recorder = FlightRecorder::map(&fd).unwrap();
        let mut slots: Vec<FlightSlot> = (0..SLOTS).map(|number| recorder.slot(number)).collect();
        let _calls: Vec<CallGuard<'_>> =
            slots.iter_mut().map(|slot| slot.begin_call(app(9))).collect();
        assert_eq!(reader.apps(), [9]);
    }

    #[test]
    fn panicking_call_counts_as_returned() {
        let (reader, fd) = FlightReader::new().unwrap();
        let mut slot = FlightRecorder::map(&fd).unwrap().slot(0);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _call = slot.begin_call(app(7));
            panic!("it does");
        }));
        assert!(panicked.is_err());
        assert_eq!(reader.apps(), [0; 0]);
    }

    #[test]
    fn invalid_app_number_names_nobody() {
        let (reader, fd) = FlightReader::new().unwrap();
        let memory = Shared::map(&fd, SIZE).unwrap();
        for word in memory.words() {
            word.store(0x1_0001, Ordering::Relaxed);
        }
        memory.words()[1].store(5, Ordering::Relaxed); // not a slot
        assert_eq!(reader.apps(), [0; 0]);
    }

    #[test]
    fn recent_events_are_of_their_worker() {
        let (reader, fd) = FlightReader::new().unwrap();
        let recorder = FlightRecorder::map(&fd).unwrap();
        for number in [3, 15, 16, SLOTS - 1] {
            let mut slot = recorder.slot(number);
            slot.begin_turn();
            slot.note_event(EventKind::Received, &Noted { dpid: 9, ..Noted::default() });
            drop(slot.begin_call(app(7)));
        }
        let recent = reader.recent();
        let workers: Vec<usize> = recent.iter().map(|(worker, _)| *worker).collect();
        assert_eq!(workers, [3, 15], "other threads have no ring");
        let [received, called] = &*recent[0].1 else { panic!("{recent:?}") };
        assert_eq!((received.kind, received.dpid), (EventKind::Received, 9));
        assert_eq!((called.kind, called.app), (EventKind::Called, Some(app(7))));
        assert!(received.time_ns > 0 && reader.crash().is_none());
    }

    #[test]
    fn messages_of_workers_are_added() {
        let (reader, fd) = FlightReader::new().unwrap();
        let recorder = FlightRecorder::map(&fd).unwrap();
        let messages = Messages { received: 2, received_bytes: 120, sent: 1, sent_bytes: 80 };
        for worker in [0, 15, 16, SLOTS - 1] {
            recorder.slot(worker).note_messages(63, AppId(7), &messages);
        }
        let both = Messages { received: 4, received_bytes: 240, sent: 2, sent_bytes: 160 };
        assert_eq!(reader.traffic(), Traffic::of([(AppId(7), both)]), "other threads have no rows");
        assert!(reader.crash().is_none() && reader.charges().apps().count() == 0);
    }

    #[test]
    fn noted_modules_are_read() {
        let (reader, fd) = FlightReader::new().unwrap();
        let recorder = FlightRecorder::map(&fd).unwrap();
        assert_eq!(reader.modules(), []);
        let module = |name: &str, start: u64, app| LoadedModule {
            module: Module { name: name.into(), range: start..start + 9, bias: start - 1 },
            app: NonZeroU16::new(app),
        };
        let noted = [module("", 10, 0), module("object.so", 1 << 40, 7)];
        recorder.note_modules(&noted);
        assert_eq!(reader.modules(), noted);
        recorder.note_modules(&[module("/usr/lib/libc.so.6", 10, 0)]);
        assert_eq!(reader.modules()[0].module.name, "libc.so.6");
        recorder.note_modules(&vec![module(&"x".repeat(99), 10, 0); 99]);
        let read = reader.modules();
        assert_eq!((read.len(), read[0].module.name.len()), (MOST_MODULES, NAME_SIZE));
        assert_eq!(reader.crash(), None);
    }

    #[test]
    fn hostile_memory_is_readable() {
        for filler in [1 << 48, 1, 2, 0xffff, 0x8080_8080_8080_8080, u64::MAX] {
            let (reader, fd) = FlightReader::new().unwrap();
            let memory = Shared::map(&fd, SIZE).unwrap();
            let fill = |word: &sys::shm::Word| word.store(filler, Ordering::Relaxed);
            memory.words().iter().for_each(fill);
            assert!(reader.modules().len() <= MOST_MODULES && reader.apps().len() <= 1);
            assert_eq!(reader.crash().is_some(), filler <= 2);
            let events = reader.recent().iter().map(|(_, events)| events.len()).sum::<usize>();
            assert_eq!(events, if filler >> 48 == 1 { 16 * EVENTS } else { 0 });
            assert!(reader.charges().apps().count() <= 1);
            assert_eq!(reader.calls().count(), if filler <= 0xffff { SLOTS } else { 0 });
        }
    }

    #[test]
    fn other_memory_is_refused() {
        let other = sys::shm::sealed_copy("object", &vec![0; SIZE]).unwrap();
        assert!(FlightRecorder::map(&other).is_err(), "it cannot be written");
        let (_view, small) = SharedView::written_by_peer("small", 64).unwrap();
        assert!(FlightRecorder::map(&small).is_err());
    }

    /// The variable that makes this test program the process that dies.
    const DIES: &str = "ROSEMARY_TEST_FLIGHT";

    #[test]
    #[ignore = "executed by another test, in a process of its own"]
    fn die_in_a_call() {
        if std::env::var_os(DIES).is_none() {
            return;
        }
        let fd = io::stdin().as_fd().try_clone_to_owned().unwrap();
        let mut slot = FlightRecorder::map(&fd).unwrap().slot(5);
        let _call = slot.begin_call(app(11));
        let own = rustix::process::getpid();
        rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
    }

    #[test]
    fn app_of_a_dead_process_is_named() {
        let (reader, fd) = FlightReader::new().unwrap();
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "flight::tests::die_in_a_call"])
            .env(DIES, "1")
            .stdin(fd)
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.code(), None, "it died");
        assert_eq!(reader.apps(), [11]);
    }
}
