//! Answers and reports the watched system calls of confined processes by seccomp user notification,
//! `seccomp_unotify(2)`.
//!
//! The caller of a watched call waits until its [`Listener`] has answered, so a process that repeats such calls waits
//! for the monitor and not the reverse. The answer is EPERM, with one exception. A zone may open a file for writing in its
//! `/tmp`, which is its working directory, or a file whose path cannot be read. The file system and Landlock decide about every
//! open in any case. The path that is read here decides nothing, because the caller could change it meanwhile.

mod memory;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::c_long;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub use self::memory::TargetReader;
use super::seccomp::watched;

/// Stands for the working directory in the place of a descriptor.
const AT_FDCWD: u32 = libc::AT_FDCWD.cast_unsigned();

/// A watched call and the answer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedCall {
    /// Its name.
    pub call: &'static str,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// The path or socket address in its arguments.
    pub target: Target,
    /// Whether the call continued, so that the file system decided; otherwise it failed with EPERM.
    pub continued: bool,
}

impl WatchedCall {
    /// All six arguments as hexadecimal numbers, separated by spaces.
    pub fn arguments_in_hex(&self) -> String {
        let arguments: Vec<String> = self.arguments.iter().map(|it| format!("{it:#x}")).collect();
        arguments.join(" ")
    }
}

/// The path or socket address in a call's arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The call takes none.
    None,
    /// The read failed: the memory is not mapped or not accessible, or the read took too long.
    Unreadable,
    /// No read was attempted, because earlier reads used up the time of the [`TargetReader`].
    NotRead,
    /// A path or socket address as text. The caller chose its characters, so they must be escaped before display.
    Text(String),
}

/// Receives and answers the watched calls of one confined process.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    /// Whether the process is a zone with a private `/tmp`, to which it may write.
    has_tmp: bool,
    /// Room for `struct seccomp_notif` and its answer. The running system may know longer ones than libc.
    room: Vec<u64>,
    reply: Vec<u64>,
}

impl Listener {
    /// Takes the listener that [`confine`](super::Sandbox::confine) returned in another process.
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
        Ok(Self { fd, has_tmp, room, reply })
    }

    /// Answers the oldest waiting call and returns it; `None` if no call waits. Blocks only for `reader`, and no
    /// longer than that allows.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`]: the process and its children have ended.
    pub fn answer_next(&mut self, reader: &mut TargetReader) -> io::Result<Option<WatchedCall>> {
        loop {
            let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut fds, Some(&at_once))?;
            let found = fds[0].revents();
            if !found.contains(PollFlags::IN) {
                let over = found.intersects(PollFlags::HUP | PollFlags::ERR);
                return if over { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(None) };
            }
            // This does not block: no other process receives from this listener.
            let Some(notification) = self.receive()? else { continue };
            let (arguments, id) = (notification.data.args, notification.id);
            let call = watched().find(|it| it.number == c_long::from(notification.data.nr));
            let call = call.map_or("unknown", |it| it.name);
            let mut target = reader.read_target(notification.pid, call, arguments);
            if !self.is_valid(id) && matches!(target, Target::Text(_)) {
                target = Target::Unreadable; // another process may have the caller's number by now
            }
            let is_allowed = match &target {
                Target::None => false,
                Target::Unreadable | Target::NotRead => true,
                Target::Text(path) => is_in_tmp(path, call, arguments),
            };
            let continued = self.has_tmp && ["open", "openat"].contains(&call) && is_allowed;
            self.answer(id, continued);
            return Ok(Some(WatchedCall { call, arguments, target, continued }));
        }
    }

    /// Receives the oldest notification; `None` if its caller was killed meanwhile.
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

    /// Whether the caller still waits. If not, another process may have got its number.
    fn is_valid(&self, id: u64) -> bool {
        let fd = self.fd.as_raw_fd();
        // SAFETY: the system reads one number.
        unsafe { libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
    }

    fn answer(&mut self, id: u64, continues: bool) {
        let continue_flag = 1; // SECCOMP_USER_NOTIF_FLAG_CONTINUE
        let response = libc::seccomp_notif_resp {
            id,
            val: 0,
            error: if continues { 0 } else { -libc::EPERM },
            flags: if continues { continue_flag } else { 0 },
        };
        self.reply.fill(0);
        let reply = self.reply.as_mut_ptr();
        // SAFETY: the reply has room for the structure, and is aligned to 8.
        unsafe { reply.cast::<libc::seccomp_notif_resp>().write(response) };
        let fd = self.fd.as_raw_fd();
        // SAFETY: the reply is as big as the structure that the system reads. The call fails if the caller was killed.
        unsafe { libc::ioctl(fd, libc::SECCOMP_IOCTL_NOTIF_SEND, reply) };
    }
}

/// Whether a zone opens a path in its `/tmp`, which is also its working directory.
fn is_in_tmp(path: &str, call: &str, arguments: [u64; 6]) -> bool {
    // Linux uses the lower half of a descriptor's argument.
    let [directory, ..] = arguments.map(|it| it & u64::from(u32::MAX));
    let is_relative_to_own = call == "open" || directory == u64::from(AT_FDCWD);
    let is_below = path.starts_with("/tmp/") || path == "/tmp";
    let is_relative = !path.starts_with('/') && is_relative_to_own;
    (is_below || is_relative) && !path.split('/').any(|part| part == "..")
}

impl AsFd for Listener {
    /// Readable when a call waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_tmp_are_absolute_or_relative_to_it() {
        let at = |directory: u32, path: &str| {
            is_in_tmp(path, "openat", [u64::from(directory), 0, 0, 0, 0, 0])
        };
        for path in ["/tmp", "/tmp/x", "x", "./x", "dir/x", "..x"] {
            assert!(at(AT_FDCWD, path) && is_in_tmp(path, "open", [0; 6]), "{path}");
            assert!(is_in_tmp(path, "openat", [u64::MAX - 99, 0, 0, 0, 0, 0]), "{path}");
        }
        for path in ["/tmpx", "/tmp/../x", "../x", "dir/../../x", "/usr/lib/x"] {
            assert!(!at(AT_FDCWD, path) && !is_in_tmp(path, "open", [0; 6]), "{path}");
        }
        assert!(at(5, "/tmp/x") && !at(5, "x"), "5 may be any directory");
    }
}
