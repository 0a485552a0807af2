//! What a call that waits is about, read from its caller's memory.
//!
//! Who calls can make that last: its memory may be of a file on a network that is down, or its other threads
//! keep it locked. So a thread reads that does nothing else, and who asks waits for it for a bounded time
//! and goes on without. As long as it stands still nothing more is asked of it.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::Target;

/// Bytes of a path that are read at most.
const LONGEST: usize = 256;

/// Bytes of an address.
const LONGEST_ADDRESS: usize = 128;

/// How long memory is waited for between two [rests](TargetReader::rest).
const PATIENCE: Duration = Duration::from_millis(10);

/// Bytes of the reading thread's stack: it reads a path and makes a text of it.
const STACK: usize = 128 * 1024;

/// Reads memory of the callers of one program. It may be kept for longer than they live.
#[derive(Debug)]
pub struct TargetReader {
    thread: Option<Thread>,
    /// How long it is waited for between two rests.
    most: Duration,
    /// How long it may still be waited for.
    patience: Duration,
}

/// A thread that reads. It ends when it is let go of and does not stand still.
#[derive(Debug)]
struct Thread {
    places: SyncSender<Place>,
    texts: Receiver<Option<String>>,
    /// Whether it has not answered yet what it was asked before.
    is_reading: bool,
}

impl Default for TargetReader {
    fn default() -> Self {
        Self::with_patience(PATIENCE)
    }
}

impl TargetReader {
    /// One that waits for memory so long between two rests, for who has time.
    pub fn with_patience(most: Duration) -> Self {
        Self { thread: None, most, patience: most }
    }

    /// Has patience again with callers whose memory is slow to read; to be called once a second or so.
    pub fn rest(&mut self) {
        self.patience = self.most;
    }

    /// What that `call` of thread `pid` is about.
    pub(super) fn look(&mut self, pid: u32, call: &str, arguments: [u64; 6]) -> Target {
        let Some(place) = Place::of(pid, call, arguments) else { return Target::None };
        if self.patience.is_zero() {
            return Target::NotRead;
        }
        let begun = Instant::now();
        let text = self.ask(place);
        self.patience = self.patience.saturating_sub(begun.elapsed());
        text.map_or(Target::Unreadable, Target::Path)
    }

    fn ask(&mut self, place: Place) -> Option<String> {
        let thread = match &mut self.thread {
            Some(thread) => thread,
            none => none.insert(Thread::start().ok()?),
        };
        if thread.is_reading {
            thread.texts.try_recv().ok()?; // what nobody waits for any more
        }
        thread.places.try_send(place).ok()?;
        thread.is_reading = true;
        let text = thread.texts.recv_timeout(self.patience).ok()?;
        thread.is_reading = false;
        text
    }
}

impl Thread {
    fn start() -> std::io::Result<Self> {
        let (places, asked) = sync_channel::<Place>(1);
        let (answers, texts) = sync_channel(1);
        let read = move || {
            for place in asked {
                if answers.send(place.read()).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("callers-memory".into()).stack_size(STACK).spawn(read)?;
        Ok(Self { places, texts, is_reading: false })
    }
}

/// Where in whose memory it is.
#[derive(Debug, Clone, Copy)]
struct Place {
    pid: u32,
    address: u64,
    /// Of an address, its size; a path ends with a zero.
    size: Option<u64>,
}

impl Place {
    /// Of a call that is about a path or an address.
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

    /// What is there, as a text. May last as long as the caller likes.
    fn read(self) -> Option<String> {
        if let Some(size) = self.size {
            let size = usize::try_from(size).ok()?.min(LONGEST_ADDRESS);
            return address(&read(self.pid, self.address, size)?);
        }
        let bytes = read(self.pid, self.address, LONGEST)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(bytes.get(..end)?).into_owned())
    }
}

/// An address as people write it, `struct sockaddr`.
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

/// Up to `size` bytes of the memory of thread `pid`, as far as its page goes on.
fn read(pid: u32, address: u64, size: usize) -> Option<Vec<u8>> {
    const PAGE: usize = 4096;
    let mut bytes = vec![0; size];
    let address = usize::try_from(address).ok()?;
    // In two pieces: the second page need not be there, and then nothing would be read at all.
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
    // SAFETY: `ours` is the slice, which the system writes; `theirs` is another process's, about which
    // it promises nothing and checks all.
    let size = unsafe { libc::process_vm_readv(pid, &raw const ours, 1, &raw const theirs, 1, 0) };
    usize::try_from(size).ok().filter(|size| *size > 0)
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

    use super::*;

    #[test]
    fn addresses_are_told_as_people_write_them() {
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
    fn memory_is_read_up_to_the_end_of_what_is_there() {
        let text = b"/etc/passwd\0";
        let read = read(std::process::id(), text.as_ptr().addr() as u64, 12);
        assert_eq!(read.as_deref(), Some(&text[..]));
        assert_eq!(super::read(std::process::id(), 16, 12), None);
    }

    /// Memory of this process that does not come until what is returned with it is dropped.
    fn memory_that_does_not_come() -> Option<(u64, OwnedFd)> {
        const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
        const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
        // SAFETY: a call on numbers.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        // SAFETY: the system has just made it for us.
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
    fn memory_that_does_not_come_is_waited_for_once_and_not_long() {
        let Some((address, keeper)) = memory_that_does_not_come() else {
            println!(
                "SKIPPED: no memory can be kept from coming: {}",
                std::io::Error::last_os_error()
            );
            return;
        };
        let (me, text) = (std::process::id(), c"/etc/passwd");
        let open = |reader: &mut TargetReader, at| reader.look(me, "open", [at, 0, 0, 0, 0, 0]);
        let there = text.as_ptr().addr() as u64;
        let patient = || TargetReader::with_patience(Duration::from_secs(1)); // for a busy machine
        let mut reader = patient();
        assert_eq!(open(&mut reader, there), Target::Path("/etc/passwd".into()));
        assert_eq!(open(&mut reader, address), Target::Unreadable);
        assert!(reader.patience.is_zero());
        assert_eq!(open(&mut reader, there), Target::NotRead);
        reader.rest();
        assert_eq!(open(&mut reader, there), Target::Unreadable, "its thread stands still");
        assert!(!reader.patience.is_zero(), "which is not waited for again");
        assert_eq!(open(&mut patient(), there), Target::Path("/etc/passwd".into()));
        drop(keeper);
        while open(&mut reader, there) == Target::Unreadable {
            reader.rest();
        }
    }

    #[test]
    fn call_that_is_about_no_path_is_not_looked_at() {
        let mut reader = TargetReader::default();
        assert_eq!(reader.look(std::process::id(), "kill", [16; 6]), Target::None);
        assert!(reader.thread.is_none());
        assert_eq!(reader.look(std::process::id(), "execve", [16; 6]), Target::Unreadable);
    }
}
