//! Reads the path or address of a waiting call from its caller's memory.
//!
//! A caller can make such a read block: its memory may be a file on an unreachable network, or locked by its other
//! threads. So a thread of its own reads, and the monitor waits for it only for a bounded time. While that thread
//! blocks, it gets no further work.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::Target;

/// Most bytes of a path to read.
const MAX_PATH: usize = 256;

/// Most bytes of an address to read.
const MAX_ADDRESS: usize = 128;

/// Time for all reads between two calls of [`refill`](TargetReader::refill).
const BUDGET: Duration = Duration::from_millis(10);

/// Bytes of the reading thread's stack: it reads a path and makes a string of it.
const STACK: usize = 128 * 1024;

/// Reads the memory of one program's threads. It may outlive them.
#[derive(Debug)]
pub struct TargetReader {
    thread: Option<Thread>,
    /// Time for all reads between two refills.
    budget: Duration,
    /// The part of the budget that is left.
    left: Duration,
}

/// The reading thread. It ends after its current read when this is dropped.
#[derive(Debug)]
struct Thread {
    addresses: SyncSender<TargetAddress>,
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

    /// Reads the target of a system call of thread `pid`.
    pub(super) fn read(&mut self, pid: u32, call: &str, arguments: [u64; 6]) -> Target {
        let Some(address) = TargetAddress::of(pid, call, arguments) else { return Target::None };
        if self.left.is_zero() {
            return Target::NotRead;
        }
        let begun = Instant::now();
        let text = self.read_in_thread(address);
        self.left = self.left.saturating_sub(begun.elapsed());
        text.map_or(Target::Unreadable, Target::Path)
    }

    fn read_in_thread(&mut self, address: TargetAddress) -> Option<String> {
        let thread = match &mut self.thread {
            Some(thread) => thread,
            none => none.insert(Thread::start().ok()?),
        };
        if thread.is_reading {
            thread.texts.try_recv().ok()?; // the result of an earlier read that came too late
        }
        thread.addresses.try_send(address).ok()?;
        thread.is_reading = true;
        let text = thread.texts.recv_timeout(self.left).ok()?;
        thread.is_reading = false;
        text
    }
}

impl Thread {
    fn start() -> std::io::Result<Self> {
        let (addresses, requests) = sync_channel::<TargetAddress>(1);
        let (replies, texts) = sync_channel(1);
        let read = move || {
            for address in requests {
                if replies.send(address.read()).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("callers-memory".into()).stack_size(STACK).spawn(read)?;
        Ok(Self { addresses, texts, is_reading: false })
    }
}

/// The address of a path or a socket address in a thread's memory.
#[derive(Debug, Clone, Copy)]
struct TargetAddress {
    pid: u32,
    address: u64,
    /// The size of a socket address; `None` for a path, which ends with a zero byte.
    size: Option<u64>,
}

impl TargetAddress {
    /// The address that a call's arguments point to; `None` if the call takes neither a path nor an address.
    fn of(pid: u32, call: &str, arguments: [u64; 6]) -> Option<Self> {
        let [first, second, third, ..] = arguments;
        match call {
            "open" | "creat" | "execve" | "chroot" | "pivot_root" | "umount2" | "mknod"
            | "swapon" | "swapoff" | "acct" | "chmod" | "chown" | "lchown" | "mq_open" => {
                Some(Self { pid, address: first, size: None })
            }
            "openat" | "execveat" | "mount" | "mknodat" | "symlink" | "link" | "fchmodat"
            | "fchownat" => Some(Self { pid, address: second, size: None }),
            "connect" | "bind" => Some(Self { pid, address: second, size: Some(third) }),
            _ => None,
        }
    }

    /// Reads it as text. The thread that owns the memory can make this block for as long as it likes.
    fn read(self) -> Option<String> {
        if let Some(size) = self.size {
            let size = usize::try_from(size).ok()?.min(MAX_ADDRESS);
            return address(&read(self.pid, self.address, size)?);
        }
        let bytes = read(self.pid, self.address, MAX_PATH)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(bytes.get(..end)?).into_owned())
    }
}

/// Formats a `struct sockaddr` in the usual notation.
fn address(bytes: &[u8]) -> Option<String> {
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
            let path = String::from_utf8_lossy(bytes.get(2..)?);
            Some(path.trim_end_matches('\0').replace('\0', "@"))
        }
        family => Some(format!("address family {family}")),
    }
}

/// Reads up to `size` bytes of the memory of thread `pid`, fewer if the next page is not mapped.
fn read(pid: u32, address: u64, size: usize) -> Option<Vec<u8>> {
    const PAGE: usize = 4096;
    let mut bytes = vec![0; size];
    let address = usize::try_from(address).ok()?;
    // In two pieces: if the second page were not mapped, one read of both would return nothing.
    let first = size.min(PAGE - address % PAGE);
    let mut filled = read_piece(pid, address, bytes.get_mut(..first)?)?;
    if filled == first && first < size {
        filled +=
            read_piece(pid, address.checked_add(first)?, bytes.get_mut(first..)?).unwrap_or(0);
    }
    bytes.truncate(filled);
    Some(bytes)
}

fn read_piece(pid: u32, address: usize, into: &mut [u8]) -> Option<usize> {
    let ours = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let theirs =
        libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: into.len() };
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
    fn addresses_are_formatted_in_the_usual_notation() {
        let of = |family: i32, rest: &[u8]| {
            let family = u16::try_from(family).unwrap().to_ne_bytes();
            address(&[&family, rest].concat())
        };
        let inet = of(libc::AF_INET, &[0x19, 0xfd, 127, 0, 0, 1]);
        assert_eq!(inet.as_deref(), Some("127.0.0.1:6653"));
        assert_eq!(of(libc::AF_UNIX, b"/run/x\0").as_deref(), Some("/run/x"));
        assert_eq!(of(libc::AF_UNIX, b"\0abstract").as_deref(), Some("@abstract"));
        assert_eq!(of(libc::AF_INET, &[1]), None);
        assert_eq!(of(libc::AF_NETLINK, &[]).as_deref(), Some("address family 16"));
    }

    #[test]
    fn memory_is_read_up_to_its_end() {
        let text = b"/etc/passwd\0";
        let read = read(std::process::id(), text.as_ptr().addr() as u64, 12);
        assert_eq!(read.as_deref(), Some(&text[..]));
        assert_eq!(super::read(std::process::id(), 16, 12), None);
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
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let (size, modes) = (4096, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: new memory, which nothing else uses.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), size, modes, flags, -1, 0) };
        let start = memory.addr() as u64;
        let mut version = [0xaa_u64, 0, 0]; // struct uffdio_api
        // SAFETY: the system reads and writes three numbers.
        let made = unsafe { libc::ioctl(fd.as_raw_fd(), UFFDIO_API, version.as_mut_ptr()) };
        let mut missing = [start, size as u64, 1, 0]; // struct uffdio_register
        // SAFETY: the system reads and writes four numbers.
        let set = unsafe { libc::ioctl(fd.as_raw_fd(), UFFDIO_REGISTER, missing.as_mut_ptr()) };
        (made == 0 && set == 0).then_some((start, fd))
    }

    #[test]
    fn blocked_read_is_waited_for_once_and_briefly() {
        let Some((address, blocker)) = memory_that_blocks() else {
            println!(
                "SKIPPED: this system cannot block reads of memory: {}",
                std::io::Error::last_os_error()
            );
            return;
        };
        let (me, text) = (std::process::id(), c"/etc/passwd");
        let open = |reader: &mut TargetReader, at| reader.read(me, "open", [at, 0, 0, 0, 0, 0]);
        let mapped = text.as_ptr().addr() as u64;
        let with_time = || TargetReader::with_budget(Duration::from_secs(1)); // for a busy machine
        let mut reader = with_time();
        assert_eq!(open(&mut reader, mapped), Target::Path("/etc/passwd".into()));
        assert_eq!(open(&mut reader, address), Target::Unreadable);
        assert!(reader.left.is_zero());
        assert_eq!(open(&mut reader, mapped), Target::NotRead);
        reader.refill();
        assert_eq!(open(&mut reader, mapped), Target::Unreadable, "its thread still blocks");
        assert!(!reader.left.is_zero(), "and is not waited for again");
        assert_eq!(open(&mut with_time(), mapped), Target::Path("/etc/passwd".into()));
        drop(blocker);
        while open(&mut reader, mapped) == Target::Unreadable {
            reader.refill();
        }
    }

    #[test]
    fn call_without_a_path_is_not_read() {
        let mut reader = TargetReader::default();
        assert_eq!(reader.read(std::process::id(), "kill", [16; 6]), Target::None);
        assert!(reader.thread.is_none());
        assert_eq!(reader.read(std::process::id(), "execve", [16; 6]), Target::Unreadable);
    }
}
