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
    /// Bytes of memory that it has now, shared ones included.
    pub memory: u64,
    /// Threads it has now.
    pub threads: u64,
    /// Descriptors it has open now; `None` if the system tells them to root alone.
    pub descriptors: Option<u64>,
}

impl Usage {
    /// Of the process with that number.
    ///
    /// # Errors
    /// There is none, or `/proc` is not as the manual says.
    pub fn of(pid: u32) -> io::Result<Self> {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}"));
        let cpu = time(&read("stat")?)?;
        let (memory, threads) = of_status(&read("status")?).ok_or_else(strange)?;
        Ok(Self { cpu, memory, threads, descriptors: descriptors(pid) })
    }
}

/// Processor time that the main thread of process `pid` has used.
///
/// # Errors
/// There is none, or `/proc` is not as the manual says.
pub fn main_thread_time(pid: u32) -> io::Result<Duration> {
    time(&fs::read_to_string(format!("/proc/{pid}/task/{pid}/stat"))?)
}

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    /// Processor time that it has used since its start.
    pub used: Duration,
    /// Whether a signal or a debugger has stopped it.
    pub stopped: bool,
}

/// The thread of process `pid` with that name; the first, if there are more.
///
/// # Errors
/// There is none, or `/proc` is not as the manual says.
pub fn named_thread(pid: u32, name: &str) -> io::Result<Thread> {
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let thread = thread?.path();
        if fs::read_to_string(thread.join("comm")).is_ok_and(|comm| comm.trim_end() == name) {
            let stat = fs::read_to_string(thread.join("stat"))?;
            return Ok(Thread { used: time(&stat)?, stopped: is_stopped(&stat) });
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

/// Of `stat`: whether the state, field 3, is T, or t for a debugger.
fn is_stopped(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

/// Of `stat`: the times in the process and in the system for it, in ticks.
fn ticks(stat: &str) -> Option<u64> {
    // "42 (a name (with parentheses)) S 1 ...": field 3 comes after the last ')'.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut time = || fields.next()?.parse::<u64>().ok();
    time()?.checked_add(time()?)
}

/// Of `status`: bytes of memory, and threads.
fn of_status(status: &str) -> Option<(u64, u64)> {
    let field = |key: &str| {
        let rest = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        rest.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    // One that has just ended has no memory any more.
    // Not pages of files, which the system can take back.
    let own = field("RssAnon").unwrap_or(0).checked_add(field("RssShmem").unwrap_or(0))?;
    Some((own.checked_mul(1024)?, field("Threads")?))
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
        assert!(before.memory > 64 << 20 && before.threads >= 2, "{before:?} {}", block.len());
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
        let main_before = main_thread_time(pid).unwrap();
        while !of("busy-thread").is_ok_and(|it| it.used >= most && !it.stopped) {
            std::thread::sleep(Duration::from_millis(10));
        }
        // The main thread waits for the tests and says what came of them, no more.
        assert!(main_thread_time(pid).unwrap().saturating_sub(main_before) < most);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        busy.unwrap().join().unwrap();
        assert_eq!(of("no such name").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn process_that_is_not_there_is_an_error() {
        let gone = (2..1 << 22).find(|pid| fs::metadata(format!("/proc/{pid}")).is_err()).unwrap();
        assert_eq!(Usage::of(gone).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(main_thread_time(gone).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn names_of_programs_do_not_confuse_and_nonsense_is_nothing() {
        let stat = "42 (a) b) 7) S 1 42 42 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 1";
        assert_eq!(ticks(stat), Some(200));
        assert!(!is_stopped(stat) && !is_stopped("") && !is_stopped("42 (a) T) S 1"));
        assert!(is_stopped("42 (a) T 1") && is_stopped("42 (a) b) t 1"));
        for text in ["", "42 (a", "42 (a) S 1", ") a b c d e f g h i j k -1 5"] {
            assert_eq!(ticks(text), None, "{text}");
        }
        assert_eq!(
            of_status("RssAnon:\t    8 kB\nRssFile:\t 9 kB\nRssShmem:\t 4 kB\nThreads:\t3\n"),
            Some((12_288, 3))
        );
        assert_eq!(of_status("Threads:\t1\n"), Some((0, 1)));
        assert_eq!(of_status("RssAnon:\t 1 kB\n"), None);
        assert_eq!(of_status("RssAnon:\t 18446744073709551615 kB\nThreads:\t3\n"), None);
    }
}
