//! Closes descriptors that other processes chose on a thread of its own, because a close can block.
//!
//! The close of a TCP socket with `SO_LINGER` waits as long as the sender of the socket has chosen, and the close of a file can
//! wait for a file server. The last close of a local socket also closes the descriptors that wait unread in it. A process that
//! must not block calls [`start`]. The sockets of [`channel`](crate::channel) and [`packets`](crate::packets) are closed on that
//! thread from then on. In other processes their close is an ordinary one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd as _, OwnedFd};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use rustix::fs::{FileType, fcntl_get_seals, fstat};
use tracing::error;

/// The most descriptors that wait for the thread.
const WAITING: usize = 1024;

static THREAD: OnceLock<SyncSender<OwnedFd>> = OnceLock::new();

/// Starts the thread, unless it runs.
///
/// # Errors
/// The system starts no thread.
pub fn start() -> io::Result<()> {
    let (sender, receiver) = sync_channel(WAITING);
    if THREAD.set(sender).is_ok() {
        std::thread::Builder::new().name("closing".into()).spawn(move || run(&receiver))?;
    }
    Ok(())
}

fn run(waiting: &Receiver<OwnedFd>) {
    while let Ok(fd) = waiting.recv() {
        drop(fd);
    }
}

/// Closes a descriptor on the thread, or here if [`start`] was not called.
///
/// While a close blocks and the queue is full, further descriptors stay open until this process ends.
pub fn close(fd: OwnedFd) {
    let Some(thread) = THREAD.get() else { return };
    hand_over(thread, fd);
}

fn hand_over(thread: &SyncSender<OwnedFd>, fd: OwnedFd) {
    if let Err(TrySendError::Full(fd) | TrySendError::Disconnected(fd)) = thread.try_send(fd) {
        let fd = fd.into_raw_fd();
        error!(fd, "left a descriptor open, because the close of another one blocks");
    }
}

/// Returns whether the close of this descriptor cannot block: it is memory, a pipe, or an anonymous inode, such as that of seccomp(2).
pub fn is_immediate(fd: &OwnedFd) -> bool {
    let kind = fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
    match kind {
        Ok(FileType::RegularFile) => fcntl_get_seals(fd).is_ok(), // only memory has seals
        // An anonymous inode has no type.
        Ok(FileType::Fifo | FileType::Unknown) => true,
        _ => false,
    }
}

/// A descriptor that [`close`] closes.
#[derive(Debug)]
pub(crate) struct ClosedElsewhere(Option<OwnedFd>);

impl ClosedElsewhere {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self(Some(fd))
    }

    /// The descriptor, which the caller closes.
    pub(crate) fn into_fd(mut self) -> OwnedFd {
        self.0.take().expect("only this method and the destructor take it")
    }
}

impl AsFd for ClosedElsewhere {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_ref().expect("as in `into_fd`").as_fd()
    }
}

impl Drop for ClosedElsewhere {
    fn drop(&mut self) {
        if let Some(fd) = self.0.take() {
            close(fd);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::channel::Channel;

    /// A connected socket whose close takes seconds: it lingers, and its peer reads nothing.
    fn lingering() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (theirs, _) = listener.accept().unwrap();
        ours.set_nonblocking(true).unwrap();
        while ours.write(&[0; 16_384]).is_ok() {}
        rustix::net::sockopt::set_socket_linger(&ours, Some(Duration::from_secs(5))).unwrap();
        (ours.into(), theirs)
    }

    #[test]
    fn lingering_sockets_do_not_block_the_caller() {
        let (thread, waiting) = sync_channel(2);
        let began = Instant::now();
        let closing = std::thread::spawn(move || run(&waiting));
        for _ in 0..4 {
            let (socket, peer) = lingering();
            hand_over(&thread, socket);
            drop(peer); // only after the hand-over: from now on the close does not block
        }
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        drop(thread);
        closing.join().unwrap();
    }

    #[test]
    fn descriptor_stays_open_while_the_queue_is_full() {
        let (thread, waiting) = sync_channel(1);
        let (ours, theirs) = Channel::pair().unwrap();
        let (other, others) = Channel::pair().unwrap();
        hand_over(&thread, ours.into_fd());
        hand_over(&thread, other.into_fd());
        drop(waiting);
        let closed = |channel: &Channel| {
            matches!(channel.receive::<u8>(), Err(crate::channel::ChannelError::Closed))
        };
        assert!(closed(&theirs) && !closed(&others));
    }

    #[test]
    fn sockets_and_files_are_not_immediate() {
        let (socket, peer) = lingering();
        assert!(!is_immediate(&socket));
        drop(peer);
        let (one, _other) = Channel::pair().unwrap();
        assert!(!is_immediate(&one.into_fd()));
        assert!(!is_immediate(&std::fs::File::open("/proc/self/stat").unwrap().into()));
        assert!(!is_immediate(&std::fs::File::open("/").unwrap().into()));
        assert!(!is_immediate(&std::fs::File::open("/dev/null").unwrap().into()));
        assert!(is_immediate(&crate::shm::sealed_copy("memory", b"").unwrap()));
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        assert!(is_immediate(&event));
        let (_, pipe) = crate::doorbell::Doorbell::new().unwrap();
        assert!(is_immediate(&pipe));
    }
}
