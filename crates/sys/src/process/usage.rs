//! What a process has used, from `/proc`, for whom no group counts it: `proc_pid_stat(5)`,
//! `proc_pid_status(5)`, `proc_pid_fd(5)`.

use std::fs;
use std::io;
use std::time::Duration;

/// What a process has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time of all its threads since its start.
    pub cpu: Duration,
    /// Its memory now.
    pub memory: Memory,
    /// Threads it has now.
    pub threads: u64,
    /// Descriptors it has open now; `None` if the system tells them to root alone.
    pub descriptors: Option<u64>,
}

/// What memory a process has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes that are its own, shared ones and page tables included, wherever they are.
    pub all: u64,
    /// Bytes of these that are in swap.
    pub swap: u64,
    /// Bytes of these that are in memory and shared, such as rings and files in `/tmp`.
    pub shared: u64,
}

impl Memory {
    /// Of the process with that number.
    ///
    /// # Errors
    /// There is none, or `/proc` is not as the manual says.
    pub fn of(pid: u32) -> io::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        Self::of_status(&status).ok_or_else(strange)
    }

    /// Page tables too: memory that was only read has pages of them, and none of its own. Not pages of files, which
    /// the system can take back. A process that has just ended has none of these.
    fn of_status(status: &str) -> Option<Self> {
        let bytes = |key| field(status, key).unwrap_or(0).checked_mul(1024);
        let swap = bytes("VmSwap")?;
        let shared = bytes("RssShmem")?;
        let own = bytes("RssAnon")?.checked_add(bytes("VmPTE")?)?;
        let all = own.checked_add(swap)?.checked_add(shared)?;
        Some(Self { all, swap, shared })
    }

    /// Bytes of all but the rings, of which the process maps at most `rings` bytes.
    pub fn without_rings(self, rings: u64) -> u64 {
        self.all - self.shared.min(rings)
    }
}

impl Usage {
    /// Of the process with that number.
    ///
    /// # Errors
    /// There is none, or `/proc` is not as the manual says.
    pub fn of(pid: u32) -> io::Result<Self> {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}"));
        let cpu = processor_time(pid)?;
        let status = read("status")?;
        let memory = Memory::of_status(&status).ok_or_else(strange)?;
        let threads = field(&status, "Threads").ok_or_else(strange)?;
        Ok(Self { cpu, memory, threads, descriptors: descriptors(pid) })
    }
}

/// The main thread of process `pid`.
///
/// # Errors
/// There is none, or `/proc` is not as the manual says.
pub fn main_thread(pid: u32) -> io::Result<Thread> {
    Thread::of(&fs::read_to_string(format!("/proc/{pid}/task/{pid}/stat"))?)
}

/// The processor time that all threads of process `pid` have used since its start, also those that have ended.
///
/// # Errors
/// There is none, or `/proc` is not as the manual says.
pub fn processor_time(pid: u32) -> io::Result<Duration> {
    time(&fs::read_to_string(format!("/proc/{pid}/stat"))?)
}

/// Tries to read of another process, the first one, what [`Usage::of`] reads.
///
/// # Errors
/// The system hides it, as it does where `/proc` is mounted with `hidepid`. It then also hides a process of the own user
/// that has given up being dumped.
pub fn read_other() -> io::Result<()> {
    fs::read("/proc/1/status").map(drop)
}

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    /// Processor time that it has used since its start.
    pub used: Duration,
    /// Whether it runs, or could if it got a processor: one that waits for anything else does not.
    pub runs: bool,
    /// Whether a signal has stopped it, or it has ended and other threads of its process go on. A thread that a debugger
    /// holds (`t`) is not stopped in this sense: it does not run.
    pub stopped: bool,
}

impl Thread {
    fn of(stat: &str) -> io::Result<Self> {
        let (_, fields) = stat.rsplit_once(") ").ok_or_else(strange)?;
        let is = |states: &[char]| fields.starts_with(states);
        Ok(Self { used: time(stat)?, runs: is(&['R']), stopped: is(&['T', 'Z', 'X']) })
    }
}

/// The thread of process `pid` with that name; the first, if there are more.
///
/// # Errors
/// There is none, or `/proc` is not as the manual says.
pub fn named_thread(pid: u32, name: &str) -> io::Result<Thread> {
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?.path();
        if fs::read_to_string(thread.join("comm")).is_ok_and(|comm| comm.trim_end() == name) {
            return Thread::of(&fs::read_to_string(thread.join("stat"))?);
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

fn strange() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "/proc is not as usual")
}

/// The processor time that `stat` is about.
fn time(stat: &str) -> io::Result<Duration> {
    let each = rustix::param::clock_ticks_per_second().max(1);
    let ticks = ticks(stat).ok_or_else(strange)?;
    Ok(Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / each)))
}

/// Of `stat`: the times in the process and in the system for it, in ticks.
fn ticks(stat: &str) -> Option<u64> {
    // "42 (a name (with parentheses)) S 1 ...": field 3 comes after the last ')'.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut time = || fields.next()?.parse::<u64>().ok();
    time()?.checked_add(time()?)
}

/// Of `status`: the number behind a key.
fn field(status: &str, key: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

/// How many descriptors a process has open.
fn descriptors(pid: u32) -> Option<u64> {
    let dir = format!("/proc/{pid}/fd");
    // Since Linux 6.2 it is the directory's size, told to everybody.
    match fs::metadata(&dir).ok()?.len() {
        0 => Some(fs::read_dir(&dir).ok()?.count() as u64),
        size => Some(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_has_memory_threads_and_descriptors() {
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        let before = Usage::of(std::process::id()).unwrap();
        let files: Vec<_> = (0..20).map(|_| fs::File::open("/proc/self/stat").unwrap()).collect();
        let after = Usage::of(std::process::id()).unwrap();
        assert!(before.memory.all > 64 << 20 && before.threads >= 2, "{before:?} {}", block.len());
        // Other tests open and close theirs meanwhile.
        assert!(after.descriptors.unwrap() > files.len() as u64, "{after:?}");
        assert!(after.cpu >= before.cpu);
    }

    #[test]
    fn threads_are_told_apart() {
        let busy = std::thread::Builder::new().name("busy-thread".into());
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = stop.clone();
        let busy = busy.spawn(move || while !stopped.load(std::sync::atomic::Ordering::Relaxed) {});
        let pid = std::process::id();
        let of = |name| named_thread(pid, name);
        let most = Duration::from_millis(200);
        let main_before = main_thread(pid).unwrap().used;
        while !of("busy-thread").is_ok_and(|it| it.used >= most && !it.stopped) {
            std::thread::sleep(Duration::from_millis(10));
        }
        // The main thread waits for the tests and says what came of them, no more.
        assert!(main_thread(pid).unwrap().used.saturating_sub(main_before) < most);
        assert!(processor_time(pid).unwrap() >= most);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        busy.unwrap().join().unwrap();
        assert_eq!(of("no such name").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn process_that_is_not_there_is_an_error() {
        let gone = (2..1 << 22).find(|pid| fs::metadata(format!("/proc/{pid}")).is_err()).unwrap();
        assert_eq!(Usage::of(gone).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(main_thread(gone).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn names_of_programs_do_not_confuse_and_nonsense_is_nothing() {
        let stat = "42 (a) b) 7) S 1 42 42 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1";
        assert_eq!(ticks(stat), Some(200));
        let state = |name_and_state: &str| {
            let rest = " 1 42 42 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1";
            let thread = Thread::of(&format!("42 {name_and_state}{rest}")).unwrap();
            (thread.runs, thread.stopped)
        };
        assert_eq!((state("(a) T) S"), state("(a) R")), ((false, false), (true, false)));
        for stopped in ["(a) T", "(a) b) T", "(a) Z"] {
            assert_eq!(state(stopped), (false, true), "{stopped}");
        }
        assert_eq!(state("(a) t"), (false, false), "held by a debugger");
        assert!(Thread::of("").is_err() && Thread::of("42 (a) T").is_err());
        for text in ["", "42 (a", "42 (a) S 1", ") a b c d e f g h i j k -1 5"] {
            assert_eq!(ticks(text), None, "{text}");
        }
        let status = "RssAnon:\t    8 kB\nRssFile:\t 9 kB\nRssShmem:\t 4 kB\nVmPTE:\t 2 kB\n\
                      VmSwap:\t 1 kB\nThreads:\t3\n";
        let memory = Memory { all: 15 << 10, swap: 1 << 10, shared: 4 << 10 };
        assert_eq!(Memory::of_status(status), Some(memory));
        assert_eq!([0, 3 << 10, 9 << 10].map(|it| memory.without_rings(it) >> 10), [15, 12, 11]);
        assert_eq!((field(status, "Threads"), field(status, "RssAno")), (Some(3), None));
        assert_eq!(Memory::of_status("Threads:\t1\n"), Some(Memory::default()));
        assert_eq!(Memory::of_status("RssAnon:\t 18446744073709551615 kB\n"), None);
    }
}
