//! What confined processes tried and were refused: seccomp user notification, `seccomp_unotify(2)`.
//!
//! The caller of a watched call stands still until its [`Listener`] has answered; so one that tries
//! again and again waits for the monitor, not the monitor for it. The answer is EPERM. The one
//! exception is a file that a zone opens in its `/tmp` to write, or one whose path cannot be read: it goes
//! on, and the file system and Landlock decide, as they do about every call; what is read here of the
//! caller's memory decides nothing, since the caller could change it.

mod memory;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::c_long;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub use self::memory::TargetReader;
use super::seccomp::watched;

/// A watched call, and what was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedCall {
    /// Its name.
    pub call: &'static str,
    /// Its arguments, as numbers.
    pub arguments: [u64; 6],
    /// The path or address it was about.
    pub about: Target,
    /// Whether the file system decides. If not, it was refused.
    pub goes_on: bool,
}

impl WatchedCall {
    /// The arguments, all six, as a list of hexadecimal numbers.
    pub fn arguments_in_hex(&self) -> String {
        let arguments: Vec<String> = self.arguments.iter().map(|it| format!("{it:#x}")).collect();
        arguments.join(" ")
    }
}

/// The path or address that a call was about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// It was about none.
    None,
    /// It could not be read: the system does not let us, it is not there, or it did not come in time.
    Unreadable,
    /// Nobody looked: reading those before took all the time that there is for it.
    NotRead,
    /// This one. Any bytes: to be escaped before it is shown.
    Path(String),
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
}

impl Listener {
    /// Takes what [`confine`](super::Sandbox::confine) returned, in another process.
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

    /// The oldest call that waits, answered; `None` if none does. Waits for nobody but, for as long as it
    /// has patience, for `reader`.
    ///
    /// # Errors
    /// [`io::ErrorKind::BrokenPipe`]: the process and all it started are gone.
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
            // One that is readable has something: only we take from it.
            let Some(told) = self.receive()? else { continue };
            let (arguments, id) = (told.data.args, told.id);
            let call = watched().find(|it| it.number == c_long::from(told.data.nr));
            let call = call.map_or("unknown", |it| it.name);
            let mut about = reader.look(told.pid, call, arguments);
            if !self.is_valid(id) && matches!(about, Target::Path(_)) {
                about = Target::Unreadable; // it may be another's by now
            }
            let may = match &about {
                Target::None => false,
                Target::Unreadable | Target::NotRead => true,
                Target::Path(path) => {
                    path.starts_with("/tmp/") && !path.split('/').any(|part| part == "..")
                }
            };
            let goes_on = self.has_tmp && ["open", "openat"].contains(&call) && may;
            self.answer(id, goes_on);
            return Ok(Some(WatchedCall { call, arguments, about, goes_on }));
        }
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
