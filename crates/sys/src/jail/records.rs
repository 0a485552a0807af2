//! What confined processes tried and were refused: seccomp user notification, `seccomp_unotify(2)`.
//!
//! The caller of a watched call stands still until its [`Listener`] has answered; so one that tries
//! again and again waits for the monitor, not the monitor for it. The answer is EPERM. The one
//! exception is a file that a zone opens in its `/tmp` to write: it goes on, and the file system and
//! Landlock decide, as they do about every call; what is read here of the caller's memory decides
//! nothing, since the caller could change it.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use libc::c_long;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::seccomp::watched;

/// Bytes of a path that are read at most.
const LONGEST: usize = 256;

/// How long the memory of callers is looked at between two [rests](Listener::rest). The caller can make
/// each look last: its other threads change that memory, and keep it locked so long.
const PATIENCE: Duration = Duration::from_millis(10);

/// A call that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its name.
    pub call: &'static str,
    /// Its arguments, as numbers.
    pub arguments: [u64; 6],
    /// The path or address it was about, where it was about one that could be read. Any bytes: to be
    /// escaped before it is shown.
    pub about: Option<String>,
}

impl Refused {
    /// The arguments, all six, as a list of hexadecimal numbers.
    pub fn arguments_in_hex(&self) -> String {
        let arguments: Vec<String> = self.arguments.iter().map(|it| format!("{it:#x}")).collect();
        arguments.join(" ")
    }
}

/// What was answered to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// That it may not.
    Refused(Refused),
    /// That the file system decides: a file in a zone's `/tmp`, or one whose path could not be read.
    WentOn,
}

/// Is told of the calls of one confined process.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    /// Whether it is a zone's, which may write to its `/tmp`.
    has_tmp: bool,
    /// Room for what the running system tells, which may be more than we know of.
    room: Vec<u64>,
    reply: Vec<u64>,
    /// How long its callers' memory has been looked at.
    looked: Duration,
}

impl Listener {
    /// Takes what [`confine`](super::Jail::confine) returned, in another process.
    ///
    /// # Errors
    /// The system has no user notification.
    pub fn new(fd: OwnedFd, has_tmp: bool) -> io::Result<Self> {
        let mut sizes = [0_u16; 3]; // struct seccomp_notif_sizes
        // SAFETY: the system writes three 16-bit numbers there.
        let result = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_GET_NOTIF_SIZES,
                0_u32,
                sizes.as_mut_ptr(),
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        let words = |size: u16, ours: usize| usize::from(size).max(ours).div_ceil(8);
        let room = vec![0; words(sizes[0], size_of::<libc::seccomp_notif>())];
        let reply = vec![0; words(sizes[1], size_of::<libc::seccomp_notif_resp>())];
        Ok(Self { fd, has_tmp, room, reply, looked: Duration::ZERO })
    }

    /// The oldest call that waits, answered; `None` if none does. Never waits.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`]: the process and all it started are gone.
    pub fn answer_next(&mut self) -> io::Result<Option<Told>> {
        loop {
            let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut fds, Some(&at_once))?;
            let found = fds[0].revents();
            if !found.contains(PollFlags::IN) {
                let over = found.intersects(PollFlags::HUP | PollFlags::ERR);
                return if over { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(None) };
            }
            // One that is readable has something: only we take from it.
            let Some(told) = self.receive()? else { continue };
            let call = watched().find(|it| it.number == c_long::from(told.data.nr));
            let name = call.map_or("unknown", |it| it.name);
            let about = self.look(&told, name).filter(|_| self.is_valid(told.id));
            let goes_on = self.has_tmp
                && ["open", "openat"].contains(&name)
                && about.as_ref().is_none_or(|path| {
                    path.starts_with("/tmp/") && !path.split('/').any(|part| part == "..")
                });
            self.answer(told.id, goes_on);
            return Ok(Some(if goes_on {
                Told::WentOn
            } else {
                Told::Refused(Refused { call: name, arguments: told.data.args, about })
            }));
        }
    }

    /// Has patience again with callers whose memory is slow to look at; to be called once a second or so.
    pub fn rest(&mut self) {
        self.looked = Duration::ZERO;
    }

    /// What the call is about, as far as there is patience.
    fn look(&mut self, told: &libc::seccomp_notif, name: &str) -> Option<String> {
        if self.looked >= PATIENCE {
            return None;
        }
        let begun = Instant::now();
        let about = look(told, name);
        self.looked += begun.elapsed();
        about
    }

    /// Takes the oldest; `None` if its caller was killed meanwhile.
    fn receive(&mut self) -> io::Result<Option<libc::seccomp_notif>> {
        self.room.fill(0);
        let room = self.room.as_mut_ptr();
        // SAFETY: the room is as big as what the system writes, and zeroed, as it demands.
        let result =
            unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, room) };
        if result != 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::ENOENT | libc::EINTR) => Ok(None),
                _ => Err(error),
            };
        }
        // SAFETY: the room begins with this structure, is as big at least, and aligned to 8.
        Ok(Some(unsafe { room.cast::<libc::seccomp_notif>().read() }))
    }

    /// Whether the caller still waits: if not, its number may be another's, and what was read too.
    fn is_valid(&self, id: u64) -> bool {
        let fd = self.fd.as_raw_fd();
        // SAFETY: the system reads one number.
        unsafe { libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
    }

    fn answer(&mut self, id: u64, goes_on: bool) {
        let goes_on_flag = 1; // SECCOMP_USER_NOTIF_FLAG_CONTINUE
        let response = libc::seccomp_notif_resp {
            id,
            val: 0,
            error: if goes_on { 0 } else { -libc::EPERM },
            flags: if goes_on { goes_on_flag } else { 0 },
        };
        self.reply.fill(0);
        let reply = self.reply.as_mut_ptr();
        // SAFETY: the reply has room for the structure, and is aligned to 8.
        unsafe { reply.cast::<libc::seccomp_notif_resp>().write(response) };
        let fd = self.fd.as_raw_fd();
        // SAFETY: the reply is as big as what the system reads. It fails if the caller was killed.
        unsafe { libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_SEND, reply) };
    }
}

impl AsFd for Listener {
    /// Readable when a call waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What the call is about, if that is a path or an address and can be read.
fn look(told: &libc::seccomp_notif, name: &str) -> Option<String> {
    let argument = |index: usize| told.data.args.get(index).copied();
    let path = match name {
        "open" | "creat" | "execve" | "chroot" | "pivot_root" | "umount2" | "mknod" | "swapon"
        | "swapoff" | "acct" | "chmod" | "chown" | "lchown" | "mq_open" => argument(0),
        "openat" | "execveat" | "mount" | "mknodat" | "symlink" | "link" | "fchmodat"
        | "fchownat" => argument(1),
        "connect" | "bind" => {
            let size = usize::try_from(argument(2)?).ok()?.min(128);
            return address(&read(told.pid, argument(1)?, size)?);
        }
        _ => None,
    };
    let bytes = read(told.pid, path?, LONGEST)?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    Some(String::from_utf8_lossy(bytes.get(..end)?).into_owned())
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
}
