//! Packets of bytes between an app's zone and a service: a seqpacket socket, never waited for.
//!
//! Beside the [control sockets](crate::channel), whose typed messages are rare and for people to read,
//! this one carries what apps send and are sent, in a layout of the service's, and at most one descriptor.
//! Who is at the other end is known by the socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, send,
    sendmsg, socketpair,
};
use thiserror::Error;

use crate::socket;

/// Why a packet was not sent or received.
#[derive(Debug, Error)]
pub enum PacketError {
    /// The peer is gone.
    #[error("the other end of the socket is closed")]
    Closed,
    /// None has come, or the peer does not read.
    #[error("the socket would block")]
    WouldBlock,
    /// The packet is longer than what there is room for, or carries more than one descriptor: the
    /// peer's fault. It is gone.
    #[error("a packet is longer than it may be, or carries more than one descriptor")]
    TooLong,
    /// The system refused.
    #[error("socket: {0}")]
    System(io::Error),
}

impl From<Errno> for PacketError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::AGAIN => Self::WouldBlock,
            Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => Self::Closed,
            error => Self::System(error.into()),
        }
    }
}

/// One end of such a socket.
#[derive(Debug)]
pub struct Packets(OwnedFd);

impl Packets {
    /// Makes a connected pair. Both ends close on exec and do not block.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok((Self(one), Self(other)))
    }

    /// Takes an end that was passed in.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Lets the peer pass no descriptors from now on, since Linux 6.16, as
    /// [`Channel::refuse_descriptors`](crate::channel::Channel::refuse_descriptors) does.
    pub fn refuse_descriptors(&self) {
        socket::refuse_descriptors(self);
    }

    /// Lets this end send as little as the system allows, some six packets, before the peer reads. So a peer
    /// that does not read holds few of the descriptors that may be underway for one user.
    ///
    /// # Errors
    /// The system refuses.
    pub fn send_little_ahead(&self) -> io::Result<()> {
        Ok(rustix::net::sockopt::set_socket_send_buffer_size(&self.0, 0)?)
    }

    /// Gives up the end, to pass it on.
    pub fn into_fd(self) -> OwnedFd {
        self.0
    }

    /// Sends a packet, whole or not at all. It takes send(2) only, which a zone may call.
    ///
    /// # Errors
    /// [`PacketError`]; nothing was sent.
    pub fn send(&self, packet: &[u8]) -> Result<(), PacketError> {
        loop {
            match send(&self.0, packet, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                result => return Ok(result.map(drop)?),
            }
        }
    }

    /// Sends a packet with a descriptor, whole or not at all.
    ///
    /// # Errors
    /// [`PacketError`]; nothing was sent.
    pub fn send_with(&self, packet: &[u8], fd: BorrowedFd<'_>) -> Result<(), PacketError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds = [fd];
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        loop {
            let parts = [IoSlice::new(packet)];
            match sendmsg(&self.0, &parts, &mut ancillary, SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                result => return Ok(result.map(drop)?),
            }
        }
    }

    /// Receives a packet into `room`; returns its size, and the descriptor that came with it.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn receive(&self, room: &mut [u8]) -> Result<(usize, Option<OwnedFd>), PacketError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut parts = [IoSliceMut::new(room)];
            match recvmsg(&self.0, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                // A peer that ended with packets of ours unread is told once, in front of those that
                // it sent before.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                result => break result?,
            }
        };
        // Those that are not taken here are closed.
        let fd = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        if received.bytes == 0 {
            return Err(PacketError::Closed);
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(PacketError::TooLong);
        }
        Ok((received.bytes, fd))
    }
}

impl AsFd for Packets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_arrives_whole_with_its_descriptor_and_the_next_one_without() {
        let (a, b) = Packets::pair().unwrap();
        a.send_with(b"one", a.as_fd()).unwrap();
        a.send(b"two").unwrap();
        let mut room = [0; 8];
        let (size, fd) = b.receive(&mut room).unwrap();
        assert_eq!((&room[..size], fd.is_some()), (&b"one"[..], true));
        drop(fd); // the other end itself, which is to be closed below
        let (size, fd) = b.receive(&mut room).unwrap();
        assert_eq!((&room[..size], fd.is_some()), (&b"two"[..], false));
        assert!(matches!(b.receive(&mut room), Err(PacketError::WouldBlock)));
        drop(a);
        assert!(matches!(b.receive(&mut room), Err(PacketError::Closed)));
        assert!(matches!(b.send(b"x"), Err(PacketError::Closed)));
    }

    #[test]
    fn packet_that_is_too_long_is_the_peers_fault_and_the_next_one_arrives() {
        let (a, b) = Packets::pair().unwrap();
        a.send(&[1; 9]).unwrap();
        a.send(&[2; 8]).unwrap();
        let mut room = [0; 8];
        assert!(matches!(b.receive(&mut room), Err(PacketError::TooLong)));
        assert_eq!(b.receive(&mut room).unwrap().0, 8);
        assert_eq!(room, [2; 8]);
    }

    #[test]
    fn end_that_refuses_descriptors_is_not_sent_any() {
        let (a, b) = Packets::pair().unwrap();
        if !socket::can_refuse_descriptors(&b) {
            return;
        }
        b.refuse_descriptors();
        let sent = a.send_with(b"x", a.as_fd());
        a.send(b"y").unwrap();
        let mut room = [0; 8];
        assert!(matches!(sent, Err(PacketError::System(_))), "{sent:?}");
        assert!(matches!(b.receive(&mut room), Ok((1, None))));
        b.send_with(b"z", b.as_fd()).unwrap();
        assert!(matches!(a.receive(&mut room), Ok((1, Some(_)))), "the other way they pass");
    }

    #[test]
    fn end_that_sends_little_ahead_stops_after_few_descriptors() {
        let (a, _b) = Packets::pair().unwrap();
        a.send_little_ahead().unwrap();
        let sent = (0..1_000).take_while(|_| a.send_with(&[7; 300], a.as_fd()).is_ok()).count();
        assert!((1..=8).contains(&sent), "{sent}");
    }

    #[test]
    fn flood_of_descriptors_is_the_peers_fault_and_leaves_none_open() {
        let (a, b) = Packets::pair().unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(200))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let (probe, watched) = Packets::pair().unwrap();
        let fds = [watched.as_fd(); 200];
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(&a, &[IoSlice::new(b"x")], &mut ancillary, SendFlags::empty()).unwrap();
        assert!(matches!(b.receive(&mut [0; 8]), Err(PacketError::TooLong)));
        drop(watched);
        assert!(matches!(probe.receive(&mut [0; 8]), Err(PacketError::Closed)), "one is open");
    }
}
