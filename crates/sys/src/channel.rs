//! Sends and receives typed messages with descriptors over control sockets.
//!
//! A control socket is a seqpacket socket pair between two processes of Rosemary, or the connected socket of an
//! operator. A packet is one JSON document of at most [`MAX_MESSAGE`] bytes with at most [`MAX_FDS`] descriptors.
//! Control traffic is rare, so it is readable in `strace` rather than compact. The descriptor identifies the peer; no
//! message says who sent it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg,
    send, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::closing::{self, ClosedElsewhere};
use crate::socket;

/// Most bytes in a message.
pub const MAX_MESSAGE: usize = 128 * 1024;

/// Most descriptors in a message: those that a kernel is started with. Linux allows 253.
pub const MAX_FDS: usize = 84;

/// Why a message was not sent or received.
#[derive(Debug, Error)]
pub enum ChannelError {
    /// The peer has closed its end.
    #[error("the other end of the control socket is closed")]
    Closed,
    /// No message has arrived, or the peer does not read.
    #[error("the control socket would block")]
    WouldBlock,
    /// The peer sent a malformed message, which is its fault.
    #[error("the peer sent a malformed message: {0}")]
    Malformed(String),
    /// A message arrived without some of its descriptors, because this process may open no more.
    #[error("a message arrived without its descriptors: this process may open no more of them")]
    OutOfDescriptors(CutMessage),
    /// The message is too long for one packet, which is the sender's fault.
    #[error("a message of {size} bytes is longer than {MAX_MESSAGE}")]
    TooLong {
        /// Its length in bytes.
        size: usize,
    },
    /// A system call failed.
    #[error("control socket: {0}")]
    System(#[from] io::Error),
}

/// A message whose descriptors are lost.
#[derive(Debug)]
pub struct CutMessage(Vec<u8>);

impl CutMessage {
    /// Decodes the message.
    ///
    /// # Errors
    /// [`ChannelError::Malformed`] if it is not a `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ChannelError> {
        parse(&self.0)
    }
}

/// One end of a control socket.
#[derive(Debug)]
pub struct Channel(ClosedElsewhere);

impl Channel {
    /// Makes a connected pair for messages without descriptors: since Linux 6.16, the system refuses to send some. Both ends
    /// close on exec and do not block.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (ours, theirs) = Self::passing_pair()?;
        ours.refuse_descriptors();
        theirs.refuse_descriptors();
        Ok((ours, theirs))
    }

    /// Makes a connected pair for messages with descriptors, like [`pair`](Self::pair) otherwise.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn passing_pair() -> io::Result<(Self, Self)> {
        let (ours, theirs) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        Ok((Self::from_fd(ours), Self::from_fd(theirs)))
    }

    /// Takes a connected seqpacket socket that was passed in.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(ClosedElsewhere::new(fd))
    }

    /// The control socket that a child is started with: its standard input.
    ///
    /// # Errors
    /// Standard input is not open.
    pub fn from_stdin() -> io::Result<Self> {
        let fd = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        Ok(Self::from_fd(fd))
    }

    /// The descriptor, to pass it to another process.
    pub fn into_fd(self) -> OwnedFd {
        self.0.into_fd()
    }

    /// Makes the system refuse descriptors of the peer from now on, since Linux 6.16. Such a peer cannot make this
    /// process block in the close of a descriptor.
    pub fn refuse_descriptors(&self) {
        socket::refuse_descriptors(self);
    }

    /// Whether unread messages use more than a quarter of the space in the peer's socket. Only important
    /// messages should follow then.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        socket::is_crowded(self)
    }

    /// Sends `message` with `fds`, completely or not at all. Without descriptors it calls only send(2), which every confined
    /// process may make.
    ///
    /// # Errors
    /// [`ChannelError::Closed`], [`ChannelError::WouldBlock`] if the peer does not read,
    /// [`ChannelError::TooLong`], or a system error.
    ///
    /// # Panics
    /// If JSON cannot express `message`, or there are more than [`MAX_FDS`] descriptors.
    pub fn send<T: Serialize>(
        &self,
        message: &T,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), ChannelError> {
        assert!(fds.len() <= MAX_FDS, "a message carries at most {MAX_FDS} descriptors");
        let bytes = serde_json::to_vec(message).expect("our own messages have string keys only");
        if bytes.len() > MAX_MESSAGE {
            return Err(ChannelError::TooLong { size: bytes.len() });
        }
        let sent = if fds.is_empty() {
            send(&self.0, &bytes, SendFlags::NOSIGNAL)
        } else {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
            sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)
        };
        match sent {
            Ok(_) => Ok(()),
            Err(rustix::io::Errno::AGAIN) => Err(ChannelError::WouldBlock),
            Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => {
                Err(ChannelError::Closed)
            }
            Err(error) => Err(ChannelError::System(error.into())),
        }
    }

    /// Receives in the same way as [`receive`](Self::receive), and waits for the message even on a non-blocking socket.
    ///
    /// # Errors
    /// As `receive`, `WouldBlock` aside.
    pub fn wait<T: DeserializeOwned>(&self) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        loop {
            match self.receive() {
                Err(ChannelError::WouldBlock) => {
                    let _ = poll(&mut [PollFd::new(self, PollFlags::IN)], None); // then again
                }
                result => return result,
            }
        }
    }

    /// Receives one message and its descriptors.
    ///
    /// # Errors
    /// [`ChannelError::WouldBlock`] if none has arrived on a non-blocking socket, [`ChannelError::Closed`] after the
    /// peer has closed its end, [`ChannelError::Malformed`] if the message is no `T` (its descriptors are closed),
    /// [`ChannelError::OutOfDescriptors`] if this process could not take its descriptors, or a system error.
    pub fn receive<T: DeserializeOwned>(&self) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        let (bytes, fds) = self.receive_bytes()?;
        Ok((parse(&bytes)?, fds))
    }

    fn receive_bytes(&self) -> Result<(Vec<u8>, Vec<OwnedFd>), ChannelError> {
        let mut bytes = vec![0; self.next_size()?.min(MAX_MESSAGE)];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = retry(|| {
            let mut parts = [IoSliceMut::new(&mut bytes)];
            recvmsg(&self.0, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        })?;
        let fds: Vec<ClosedElsewhere> = ancillary
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => Some(fds),
                _ => None,
            })
            .flatten()
            .map(ClosedElsewhere::new)
            .collect();
        if received.bytes == 0 {
            return Err(ChannelError::Closed); // end of file: no program of Rosemary sends empty packets
        }
        let too_many = received.flags.contains(ReturnFlags::CTRUNC) && fds.len() >= MAX_FDS;
        if received.flags.contains(ReturnFlags::TRUNC) || too_many {
            return Err(ChannelError::Malformed(format!(
                "longer than {MAX_MESSAGE} bytes or {MAX_FDS} descriptors"
            )));
        }
        bytes.truncate(received.bytes);
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(ChannelError::OutOfDescriptors(CutMessage(bytes)));
        }
        Ok((bytes, fds.into_iter().map(ClosedElsewhere::into_fd).collect()))
    }

    /// Receives one message that has no descriptors.
    ///
    /// # Errors
    /// As [`receive`](Self::receive). A message with descriptors is malformed; [`closing`] closes them.
    pub fn receive_alone<T: DeserializeOwned>(&self) -> Result<T, ChannelError> {
        self.receive_if(|_| false).map(|(message, _none)| message)
    }

    /// Receives one message whose descriptors can be closed without blocking, see [`closing::is_immediate`].
    ///
    /// # Errors
    /// As [`receive`](Self::receive). A message with another descriptor is malformed; [`closing`] closes them.
    pub fn receive_immediate<T: DeserializeOwned>(
        &self,
    ) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        self.receive_if(closing::is_immediate)
    }

    fn receive_if<T: DeserializeOwned>(
        &self,
        is_expected: impl Fn(&OwnedFd) -> bool,
    ) -> Result<(T, Vec<OwnedFd>), ChannelError> {
        let (bytes, fds) = self.receive_bytes()?;
        if fds.iter().all(is_expected) {
            return Ok((parse(&bytes)?, fds));
        }
        fds.into_iter().for_each(closing::close);
        Err(ChannelError::Malformed("its protocol does not have these descriptors".into()))
    }

    /// The size of the waiting packet in bytes, so that the buffer need not have room for the longest.
    fn next_size(&self) -> Result<usize, ChannelError> {
        let flags = RecvFlags::PEEK | RecvFlags::TRUNC;
        // With one byte of room: Linux may return from a read of 0 bytes without looking at the packet.
        retry(|| recv(&self.0, &mut [0_u8; 1], flags)).map(|(_, size)| size)
    }
}

/// Receives, and repeats the call if a signal interrupted it. If the peer closed its end before it read all messages,
/// Linux reports that once as ECONNRESET, before the peer's last messages.
fn retry<T>(mut receive: impl FnMut() -> rustix::io::Result<T>) -> Result<T, ChannelError> {
    loop {
        match receive() {
            Ok(received) => return Ok(received),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNRESET) => {}
            Err(rustix::io::Errno::AGAIN) => return Err(ChannelError::WouldBlock),
            Err(error) => return Err(ChannelError::System(error.into())),
        }
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ChannelError> {
    serde_json::from_slice(bytes).map_err(|error| ChannelError::Malformed(error.to_string()))
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Ping {
        Hello(String),
    }

    #[test]
    fn message_arrives_whole_with_its_descriptors() {
        let (a, b) = Channel::passing_pair().unwrap();
        let (bell, _) = crate::doorbell::Doorbell::new().unwrap();
        a.send(&Ping::Hello("there".into()), &[bell.as_fd(), bell.as_fd()]).unwrap();
        let (message, fds) = b.receive::<Ping>().unwrap();
        assert_eq!(message, Ping::Hello("there".into()));
        assert_eq!(fds.len(), 2);
        assert!(matches!(b.receive::<Ping>(), Err(ChannelError::WouldBlock)));
    }

    #[test]
    fn channel_is_crowded_long_before_it_is_full() {
        let (a, b) = Channel::passing_pair().unwrap();
        assert!(!a.is_crowded());
        let mut crowded_after = None;
        let full = (0..10_000).find(|sent| {
            crowded_after = crowded_after.or(a.is_crowded().then_some(*sent));
            a.send(&Ping::Hello("unread".into()), &[a.as_fd()]).is_err()
        });
        let (crowded_after, full) = (crowded_after.unwrap(), full.unwrap());
        assert!(crowded_after * 2 < full, "{crowded_after} of {full}");
        while b.receive::<Ping>().is_ok() {}
        assert!(!a.is_crowded());
    }

    #[test]
    fn message_of_another_type_is_malformed_and_the_next_one_still_arrives() {
        let (a, b) = Channel::pair().unwrap();
        a.send(&[1, 2, 3], &[]).unwrap();
        a.send(&Ping::Hello("again".into()), &[]).unwrap();
        assert!(matches!(b.receive::<Ping>(), Err(ChannelError::Malformed(_))));
        assert!(b.receive::<Ping>().is_ok());
    }

    #[test]
    fn system_refuses_descriptors_in_a_plain_pair() {
        let (a, b) = Channel::pair().unwrap();
        if !socket::can_refuse_descriptors(&a) {
            return;
        }
        for (from, to) in [(&a, &b), (&b, &a)] {
            let sent = from.send(&1, &[from.as_fd()]);
            assert!(matches!(sent, Err(ChannelError::System(_))), "{sent:?}");
            from.send(&2, &[]).unwrap();
            assert_eq!(to.receive_alone::<u8>().unwrap(), 2);
        }
    }

    #[test]
    fn unexpected_descriptor_makes_a_message_malformed() {
        let (a, b) = Channel::passing_pair().unwrap();
        let memory = crate::shm::sealed_copy("memory", b"").unwrap();
        for fds in [&[a.as_fd()][..], &[memory.as_fd()], &[memory.as_fd(), a.as_fd()]] {
            a.send(&1, fds).unwrap();
            assert!(matches!(b.receive_alone::<u8>(), Err(ChannelError::Malformed(_))));
            a.send(&1, fds).unwrap();
            let received = b.receive_immediate::<u8>();
            match fds {
                [_memory] if fds[0].as_raw_fd() == memory.as_raw_fd() => {
                    assert_eq!(received.unwrap().1.len(), 1);
                }
                _ => assert!(matches!(received, Err(ChannelError::Malformed(_))), "{fds:?}"),
            }
        }
        drop(a);
        assert!(matches!(b.receive_alone::<u8>(), Err(ChannelError::Closed)), "none stayed open");
    }

    #[test]
    fn closed_peer_is_reported_to_sender_and_receiver() {
        let (a, b) = Channel::pair().unwrap();
        drop(b);
        assert!(matches!(a.receive::<Ping>(), Err(ChannelError::Closed)));
        let sent = a.send(&Ping::Hello(String::new()), &[]);
        assert!(matches!(sent, Err(ChannelError::Closed)));
    }

    #[test]
    fn last_message_of_a_peer_with_unread_messages_arrives() {
        let (a, b) = Channel::pair().unwrap();
        a.send(&Ping::Hello("unread".into()), &[]).unwrap();
        b.send(&Ping::Hello("last words".into()), &[]).unwrap();
        drop(b);
        assert_eq!(a.receive::<Ping>().unwrap().0, Ping::Hello("last words".into()));
        assert!(matches!(a.receive::<Ping>(), Err(ChannelError::Closed)));
    }

    #[test]
    fn longest_message_arrives_and_a_longer_one_is_malformed() {
        let (a, b) = Channel::pair().unwrap();
        let longest = "x".repeat(MAX_MESSAGE - r#"{"Hello":""}"#.len());
        a.send(&Ping::Hello(longest.clone()), &[]).unwrap();
        assert_eq!(b.receive::<Ping>().unwrap().0, Ping::Hello(longest.clone()));
        let too_long = format!(r#"{{"Hello":"{longest}x"}}"#);
        send(&a, too_long.as_bytes(), SendFlags::empty()).unwrap();
        a.send(&Ping::Hello("next".into()), &[]).unwrap();
        assert!(matches!(b.receive::<Ping>(), Err(ChannelError::Malformed(_))));
        assert_eq!(b.receive::<Ping>().unwrap().0, Ping::Hello("next".into()));
    }

    #[test]
    fn too_many_descriptors_are_malformed() {
        let (a, b) = Channel::passing_pair().unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3 * MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds = [a.as_fd(); 3 * MAX_FDS];
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
        let hello = [IoSlice::new(br#"{"Hello":""}"#)];
        sendmsg(&a, &hello, &mut ancillary, SendFlags::empty()).unwrap();
        assert!(matches!(b.receive::<Ping>(), Err(ChannelError::Malformed(_))));
    }

    /// The test runs in a process of its own: the limit applies to the whole process, and other tests open descriptors.
    #[test]
    fn process_out_of_descriptors_gets_the_message_alone() {
        const NAME: &str = "channel::tests::process_out_of_descriptors_gets_the_message_alone";
        if std::env::var_os("ROSEMARY_TEST_ALONE").is_none() {
            let output = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", NAME])
                .env("ROSEMARY_TEST_ALONE", "1")
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            return assert!(output.status.success() && said.contains("1 passed"), "{said}");
        }
        let (a, b) = Channel::passing_pair().unwrap();
        let fds = [a.as_fd(), a.as_fd()];
        a.send(&Ping::Hello("none".into()), &fds).unwrap();
        a.send(&Ping::Hello("one".into()), &fds).unwrap();
        a.send(&Ping::Hello("both".into()), &fds).unwrap();
        let mut open: Vec<OwnedFd> = Vec::new();
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let few = rustix::process::Rlimit { current: Some(64), ..limit };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, few).unwrap();
        open.extend(std::iter::from_fn(|| a.as_fd().try_clone_to_owned().ok()));
        for said in ["none", "one"] {
            let Err(ChannelError::OutOfDescriptors(message)) = b.receive::<Ping>() else {
                panic!("it had no descriptors left");
            };
            assert_eq!(message.read::<Ping>().unwrap(), Ping::Hello(said.into()));
            open.pop();
        }
        let (message, fds) = b.receive::<Ping>().unwrap();
        assert_eq!((message, fds.len()), (Ping::Hello("both".into()), 2));
    }

    #[test]
    fn send_to_a_peer_that_does_not_read_would_block() {
        let (a, _b) = Channel::pair().unwrap();
        let long = Ping::Hello("x".repeat(60_000));
        let full = (0..1_000).find_map(|_| a.send(&long, &[]).err());
        assert!(matches!(full, Some(ChannelError::WouldBlock)));
    }

    #[test]
    fn wait_returns_the_message_or_the_end() {
        let (ours, theirs) = Channel::pair().unwrap();
        assert!(matches!(ours.receive::<String>(), Err(ChannelError::WouldBlock)));
        let sender = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            theirs.send(&"late", &[]).unwrap();
        });
        assert_eq!(ours.wait::<String>().unwrap().0, "late");
        assert!(matches!(ours.wait::<String>(), Err(ChannelError::Closed)));
        sender.join().unwrap();
    }
}
