//! Reads the resource usage of processes and threads from `/proc`, where no cgroup counts it.
//!
//! Sources: `proc_pid_stat(5)`, `proc_pid_status(5)`, `proc_pid_fd(5)`.

use std::fs;
use std::io;
use std::time::Duration;

/// The resource usage of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time of all its threads since its start.
    pub cpu: Duration,
    /// Its current memory.
    pub memory: Memory,
    /// Its current number of threads.
    pub threads: u64,
    /// Its current number of open descriptors; `None` if only root may read it.
    pub descriptors: Option<u64>,
}

/// The memory of a process in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// Private and shared memory and page tables, resident or swapped.
    pub all: u64,
    /// The part of it in swap.
    pub swap: u64,
    /// The part of it that is resident and shared, such as rings and files in `/tmp`.
    pub shared: u64,
}

impl Memory {
    /// The memory of the process with the number `pid`.
    ///
    /// # Errors
    /// There is no such process, or `/proc` has another format than the manual says.
    pub fn of(pid: u32) -> io::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        Self::of_status(&status).ok_or_else(strange)
    }

    /// Parses `status`. The sum includes page tables, because untouched memory that was read costs only those. It leaves
    /// out pages of files, which the system can reclaim. A process that has just ended has no such lines.
    fn of_status(status: &str) -> Option<Self> {
        let bytes = |key| field(status, key).unwrap_or(0).checked_mul(1024);
        let swap = bytes("VmSwap")?;
        let shared = bytes("RssShmem")?;
        let own = bytes("RssAnon")?.checked_add(bytes("VmPTE")?)?;
        let all = own.checked_add(swap)?.checked_add(shared)?;
        Some(Self { all, swap, shared })
    }

    /// All bytes without the rings; the process maps at most `rings` bytes of those.
    pub fn without_rings(self, rings: u64) -> u64 {
        self.all - self.shared.min(rings)
    }
}

impl Usage {
    /// The usage of the process with the number `pid`.
    ///
    /// # Errors
    /// There is no such process, or `/proc` has another format than the manual says.
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
/// There is no such process, or `/proc` has another format than the manual says.
pub fn main_thread(pid: u32) -> io::Result<Thread> {
    Thread::of(&fs::read_to_string(format!("/proc/{pid}/task/{pid}/stat"))?)
}

/// The processor time of all threads of process `pid` since its start, including ended ones.
///
/// # Errors
/// There is no such process, or `/proc` has another format than the manual says.
pub fn processor_time(pid: u32) -> io::Result<Duration> {
    time(&fs::read_to_string(format!("/proc/{pid}/stat"))?)
}

/// Checks that this process may read the usage of others, by reading that of process 1.
///
/// # Errors
/// The system hides other processes, because `/proc` is mounted with `hidepid`. It then also hides processes of the same
/// user that cannot be dumped.
pub fn read_other() -> io::Result<()> {
    fs::read("/proc/1/status").map(drop)
}

/// The state of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    /// Its processor time since its start.
    pub used: Duration,
    /// Whether it runs or waits only for a processor.
    pub runs: bool,
    /// Whether a signal has stopped it, or it has ended before other threads of its process. A thread that a debugger
    /// holds (state `t`) counts neither as stopped nor as running.
    pub stopped: bool,
}

impl Thread {
    fn of(stat: &str) -> io::Result<Self> {
        let (_, fields) = stat.rsplit_once(") ").ok_or_else(strange)?;
        let is = |states: &[char]| fields.starts_with(states);
        Ok(Self { used: time(stat)?, runs: is(&['R']), stopped: is(&['T', 'Z', 'X']) })
    }
}

/// The first thread of process `pid` with that name.
///
/// # Errors
/// There is no such thread, or `/proc` has another format than the manual says.
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
    io::Error::new(io::ErrorKind::InvalidData, "/proc has another format than proc(5) says")
}

/// The processor time in `stat`.
fn time(stat: &str) -> io::Result<Duration> {
    let each = rustix::param::clock_ticks_per_second().max(1);
    let ticks = ticks(stat).ok_or_else(strange)?;
    Ok(Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / each)))
}

/// The sum of user and system time in `stat`, in ticks.
fn ticks(stat: &str) -> Option<u64> {
    // "42 (a name (with parentheses)) S 1 ...": field 3 comes after the last ')'.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut time = || fields.next()?.parse::<u64>().ok();
    time()?.checked_add(time()?)
}

/// The number behind a key of `status`.
fn field(status: &str, key: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

/// The number of open descriptors of a process.
fn descriptors(pid: u32) -> Option<u64> {
    let dir = format!("/proc/{pid}/fd");
    // Since Linux 6.2 it is the size of the directory, which every user may read.
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
    fn threads_are_distinguished() {
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
        // The main thread only waits for the tests and prints their results.
        assert!(main_thread(pid).unwrap().used.saturating_sub(main_before) < most);
        assert!(processor_time(pid).unwrap() >= most);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        busy.unwrap().join().unwrap();
        assert_eq!(of("no such name").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn unknown_process_is_an_error() {
        let gone = (2..1 << 22).find(|pid| fs::metadata(format!("/proc/{pid}")).is_err()).unwrap();
        assert_eq!(Usage::of(gone).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(main_thread(gone).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn names_with_parentheses_and_nonsense_are_handled() {
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
