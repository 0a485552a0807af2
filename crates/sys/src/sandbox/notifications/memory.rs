//! Reads the path or socket address that a watched system call refers to from the memory of its caller.
//!
//! The caller waits for an answer meanwhile (seccomp user notification, `seccomp_unotify(2)`), but it can make the read
//! block: its memory may be a file on an unreachable network, or locked by its other threads. Therefore a separate thread
//! reads, and the monitor waits for it only for a bounded time. While that thread blocks, it gets no further work.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::Target;

/// Most bytes of a path to read.
const MAX_PATH: usize = 256;

/// Most bytes of a socket address to read.
const MAX_SOCKET_ADDRESS: usize = 128;

/// Time for all reads between two calls of [`refill`](TargetReader::refill).
const BUDGET: Duration = Duration::from_millis(10);

/// Stack size of the reading thread, in bytes: it reads a path and makes a string of it.
const STACK: usize = 128 * 1024;

/// The bytes of a page, or a fraction of them: memory is mapped in multiples of this.
const PAGE: usize = 4096;

/// Reads the memory of one program's threads.
///
/// A reader may outlive these threads: reads of their memory then fail.
#[derive(Debug)]
pub struct TargetReader {
    thread: Option<ReaderThread>,
    /// Time for all reads between two refills.
    budget: Duration,
    /// The part of the budget that is left.
    left: Duration,
}

/// The reading thread. It ends after its current read when this is dropped.
#[derive(Debug)]
struct ReaderThread {
    locations: SyncSender<TargetLocation>,
    texts: Receiver<Option<String>>,
    /// Whether its last read has not returned yet.
    is_reading: bool,
}

impl Default for TargetReader {
    fn default() -> Self {
        Self::with_budget(BUDGET)
    }
}

impl TargetReader {
    /// A reader with this much time for all reads between two refills.
    pub fn with_budget(budget: Duration) -> Self {
        Self { thread: None, budget, left: budget }
    }

    /// Starts a new budget of time. Call this about once a second.
    pub fn refill(&mut self) {
        self.left = self.budget;
    }

    /// Reads the target of the system call `call` of thread `pid`.
    pub(super) fn read_target(&mut self, pid: u32, call: &str, arguments: [u64; 6]) -> Target {
        let Some(location) = TargetLocation::of(pid, call, arguments) else { return Target::None };
        if self.left.is_zero() {
            return Target::NotRead;
        }
        let begun = Instant::now();
        let text = self.read_in_thread(location);
        self.left = self.left.saturating_sub(begun.elapsed());
        text.map_or(Target::Unreadable, Target::Text)
    }

    fn read_in_thread(&mut self, location: TargetLocation) -> Option<String> {
        let thread = match &mut self.thread {
            Some(thread) => thread,
            none => none.insert(ReaderThread::start().ok()?),
        };
        if thread.is_reading {
            // The monitor gave up waiting for an earlier read. If its result is there now, the thread is free again, and
            // the result is discarded. Otherwise the thread still blocks, and this read fails at once.
            thread.texts.try_recv().ok()?;
        }
        thread.locations.try_send(location).ok()?;
        thread.is_reading = true;
        let text = thread.texts.recv_timeout(self.left).ok()?;
        thread.is_reading = false;
        text
    }
}

impl ReaderThread {
    fn start() -> io::Result<Self> {
        let (locations, requests) = sync_channel::<TargetLocation>(1);
        let (replies, texts) = sync_channel(1);
        let serve = move || {
            for location in requests {
                if replies.send(location.read_text()).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("callers-memory".into()).stack_size(STACK).spawn(serve)?;
        Ok(Self { locations, texts, is_reading: false })
    }
}

/// Where the path or socket address of a call lies in the memory of its caller.
#[derive(Debug, Clone, Copy)]
struct TargetLocation {
    /// The thread that made the call.
    pid: u32,
    /// The address of its first byte.
    start: u64,
    /// The size of a socket address; `None` for a path, which ends with a zero byte.
    size: Option<u64>,
}

impl TargetLocation {
    /// Finds the location in a call's arguments; `None` if the call is not among those below, so that its report has only
    /// the numbers.
    ///
    /// These are the watched calls (`seccomp/lists/watched.rs`) in which the path or address tells the operator most. In
    /// the `...at` calls it is the second argument, behind the descriptor of a directory. `mount`, `symlink` and `link` have
    /// two paths: the second is the one that the call would change.
    fn of(pid: u32, call: &str, arguments: [u64; 6]) -> Option<Self> {
        let [first, second, third, ..] = arguments;
        match call {
            "open" | "creat" | "execve" | "chroot" | "pivot_root" | "umount2" | "mknod"
            | "swapon" | "swapoff" | "acct" | "chmod" | "chown" | "lchown" | "mq_open" => {
                Some(Self { pid, start: first, size: None })
            }
            "openat" | "execveat" | "mount" | "mknodat" | "symlink" | "link" | "fchmodat"
            | "fchownat" => Some(Self { pid, start: second, size: None }),
            "connect" | "bind" => Some(Self { pid, start: second, size: Some(third) }),
            _ => None,
        }
    }

    /// Reads it as text. The thread that owns the memory can make this block for any time.
    fn read_text(self) -> Option<String> {
        if let Some(size) = self.size {
            let size = usize::try_from(size).ok()?.min(MAX_SOCKET_ADDRESS);
            return socket_address(&read_memory(self.pid, self.start, size)?);
        }
        let bytes = read_memory(self.pid, self.start, MAX_PATH)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(bytes.get(..end)?).into_owned())
    }
}

/// Formats a `struct sockaddr` in the usual notation.
fn socket_address(bytes: &[u8]) -> Option<String> {
    let family = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
    let port = || Some(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?));
    match i32::from(family) {
        libc::AF_INET => {
            let ip: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            Some(format!("{}:{}", Ipv4Addr::from(ip), port()?))
        }
        libc::AF_INET6 => {
            let ip: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            Some(format!("[{}]:{}", Ipv6Addr::from(ip), port()?))
        }
        libc::AF_UNIX => {
            // A path may end with zero bytes. An abstract address begins with one, which is shown as @ (`unix(7)`).
            let path = String::from_utf8_lossy(bytes.get(2..)?);
            Some(path.trim_end_matches('\0').replace('\0', "@"))
        }
        family => Some(format!("address family {family}")),
    }
}

/// Reads up to `size` bytes, at most a page, of the memory of thread `pid`: fewer if the next page is not mapped.
fn read_memory(pid: u32, start: u64, size: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; size];
    let start = usize::try_from(start).ok()?;
    // Page by page: if the second one is not mapped, a read of both returns nothing.
    let first = size.min(PAGE - start % PAGE);
    let mut filled = read_within_page(pid, start, bytes.get_mut(..first)?)?;
    if filled == first && first < size {
        let rest = bytes.get_mut(first..)?;
        filled += read_within_page(pid, start.checked_add(first)?, rest).unwrap_or(0);
    }
    bytes.truncate(filled);
    Some(bytes)
}

/// Fills the beginning of `into` from memory that does not cross a page; returns the number of bytes, `None` for none.
fn read_within_page(pid: u32, start: usize, into: &mut [u8]) -> Option<usize> {
    let ours = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let theirs =
        libc::iovec { iov_base: std::ptr::without_provenance_mut(start), iov_len: into.len() };
    let pid = libc::pid_t::try_from(pid).ok()?;
    // SAFETY: `ours` is the slice, which the system writes; `theirs` lies in another process, and the system checks
    // it.
    let size = unsafe { libc::process_vm_readv(pid, &raw const ours, 1, &raw const theirs, 1, 0) };
    usize::try_from(size).ok().filter(|size| *size > 0)
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

    use super::*;

    #[test]
    fn socket_addresses_have_the_usual_notation() {
        let of = |family: i32, rest: &[u8]| {
            let family = u16::try_from(family).unwrap().to_ne_bytes();
            socket_address(&[&family, rest].concat())
        };
        let inet = of(libc::AF_INET, &[0x19, 0xfd, 127, 0, 0, 1]);
        assert_eq!(inet.as_deref(), Some("127.0.0.1:6653"));
        assert_eq!(of(libc::AF_UNIX, b"/run/x\0").as_deref(), Some("/run/x"));
        assert_eq!(of(libc::AF_UNIX, b"\0abstract").as_deref(), Some("@abstract"));
        assert_eq!(of(libc::AF_INET, &[1]), None);
        assert_eq!(of(libc::AF_NETLINK, &[]).as_deref(), Some("address family 16"));
    }

    /// New zeroed memory of this process at the beginning of a page; its address.
    fn map_pages(pages: usize) -> *mut u8 {
        let (modes, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, which nothing else uses.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), pages * PAGE, modes, flags, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED);
        memory.cast()
    }

    #[test]
    fn memory_is_read_up_to_an_unmapped_page() {
        let pages = map_pages(2);
        // SAFETY: the second of the two pages, to which there is no reference.
        assert_eq!(unsafe { libc::munmap(pages.wrapping_add(PAGE).cast(), PAGE) }, 0);
        // SAFETY: the last bytes of the first page, to which there is no reference.
        unsafe { pages.wrapping_add(PAGE - 4).cast::<[u8; 4]>().write(*b"/etc") };
        let (me, start) = (std::process::id(), pages.addr() as u64);
        let read = read_memory(me, start + PAGE as u64 - 4, 12);
        assert_eq!(read.as_deref(), Some(&b"/etc"[..]));
        assert_eq!(read_memory(me, start + PAGE as u64, 12), None);
    }

    #[test]
    fn memory_is_read_across_a_page_boundary() {
        let pages = map_pages(2);
        // SAFETY: bytes around the boundary of the two pages, to which there is no reference.
        unsafe { pages.wrapping_add(PAGE - 4).cast::<[u8; 11]>().write(*b"/etc/passwd") };
        let start = pages.addr() + PAGE - 4;
        let read = read_memory(std::process::id(), start as u64, 11);
        assert_eq!(read.as_deref(), Some(&b"/etc/passwd"[..]));
    }

    /// Memory of this process on which reads block until the returned descriptor is dropped.
    fn memory_that_blocks() -> Option<(u64, OwnedFd)> {
        const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
        const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
        // SAFETY: a call on numbers.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        // SAFETY: the system has just returned it to us.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let start = map_pages(1).addr() as u64;
        let mut version = [0xaa_u64, 0, 0]; // struct uffdio_api
        // SAFETY: the system reads and writes three numbers.
        let made = unsafe { libc::ioctl(fd.as_raw_fd(), UFFDIO_API, version.as_mut_ptr()) };
        let mut missing = [start, PAGE as u64, 1, 0]; // struct uffdio_register
        // SAFETY: the system reads and writes four numbers.
        let set = unsafe { libc::ioctl(fd.as_raw_fd(), UFFDIO_REGISTER, missing.as_mut_ptr()) };
        (made == 0 && set == 0).then_some((start, fd))
    }

    #[test]
    fn blocked_read_is_waited_for_once_and_briefly() {
        let Some((address, blocker)) = memory_that_blocks() else {
            println!(
                "SKIPPED: this system cannot block reads of memory: {}",
                io::Error::last_os_error()
            );
            return;
        };
        let (me, text) = (std::process::id(), c"/etc/passwd");
        let open =
            |reader: &mut TargetReader, at| reader.read_target(me, "open", [at, 0, 0, 0, 0, 0]);
        let mapped = text.as_ptr().addr() as u64;
        let with_time = || TargetReader::with_budget(Duration::from_secs(1)); // for a busy machine
        let mut reader = with_time();
        assert_eq!(open(&mut reader, mapped), Target::Text("/etc/passwd".into()));
        assert_eq!(open(&mut reader, address), Target::Unreadable);
        assert!(reader.left.is_zero());
        assert_eq!(open(&mut reader, mapped), Target::NotRead);
        reader.refill();
        assert_eq!(open(&mut reader, mapped), Target::Unreadable, "its thread still blocks");
        assert!(!reader.left.is_zero(), "and is not waited for again");
        assert_eq!(open(&mut with_time(), mapped), Target::Text("/etc/passwd".into()));
        drop(blocker);
        while open(&mut reader, mapped) == Target::Unreadable {
            reader.refill();
        }
    }

    #[test]
    fn call_without_a_path_starts_no_thread() {
        let mut reader = TargetReader::default();
        assert_eq!(reader.read_target(std::process::id(), "kill", [16; 6]), Target::None);
        assert!(reader.thread.is_none());
    }

    #[test]
    fn path_in_unmapped_memory_is_unreadable() {
        let mut reader = TargetReader::with_budget(Duration::from_secs(1));
        // The lowest pages are never mapped (`vm.mmap_min_addr`).
        let target = reader.read_target(std::process::id(), "execve", [16; 6]);
        assert_eq!(target, Target::Unreadable);
    }
}
