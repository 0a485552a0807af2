//! Sends and receives packets of bytes between a zone and a service, without blocking.
//!
//! The packets have the service's own layout and carry at most one descriptor. The [control sockets](crate::channel)
//! are for rare, typed, readable messages. The socket identifies the peer.

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

use crate::closing::ClosedElsewhere;
use crate::socket;

/// Why a packet was not sent or received.
#[derive(Debug, Error)]
pub enum PacketError {
    /// The peer has closed its end.
    #[error("the other end of the socket is closed")]
    Closed,
    /// No packet has arrived, or the peer does not read.
    #[error("the socket would block")]
    WouldBlock,
    /// The packet was longer than the buffer, or carried more than one descriptor, which is the peer's fault. It was
    /// discarded.
    #[error("a packet is longer than it may be, or carries more than one descriptor")]
    TooLong,
    /// A system call failed.
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
pub struct Packets(ClosedElsewhere);

impl Packets {
    /// Makes a connected pair for packets without descriptors: since Linux 6.16, the system refuses to send some. Both ends
    /// close on exec and do not block.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = Self::passing_pair()?;
        socket::refuse_descriptors(&one);
        Ok((one, other))
    }

    /// Makes a connected pair whose second end may send descriptors to the first, like [`pair`](Self::pair) otherwise.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn passing_pair() -> io::Result<(Self, Self)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        socket::refuse_descriptors(&other);
        Ok((Self::from_fd(one), Self::from_fd(other)))
    }

    /// Takes an end that another process passed.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(ClosedElsewhere::new(fd))
    }

    /// Makes the send buffer as small as the system allows, about six packets. A peer that does not read then holds few
    /// of the descriptors in flight that Linux allows a user.
    ///
    /// # Errors
    /// The system refuses.
    pub fn send_little_ahead(&self) -> io::Result<()> {
        Ok(rustix::net::sockopt::set_socket_send_buffer_size(&self.0, 0)?)
    }

    /// The descriptor, to pass it to another process.
    pub fn into_fd(self) -> OwnedFd {
        self.0.into_fd()
    }

    /// Sends a packet, completely or not at all. Calls only send(2), which a zone may make.
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

    /// Sends a packet with a descriptor, completely or not at all.
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

    /// Receives a packet into `room`. Returns its size and its descriptor.
    ///
    /// # Errors
    /// [`PacketError`].
    pub fn receive(&self, room: &mut [u8]) -> Result<(usize, Option<OwnedFd>), PacketError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut parts = [IoSliceMut::new(room)];
            match recvmsg(&self.0, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                // ECONNRESET: the peer closed its end before it read all packets. Linux reports that once, before the
                // peer's last packets.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                result => break result?,
            }
        };
        // Further descriptors are closed here.
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
    fn packet_arrives_with_its_descriptor() {
        let (b, a) = Packets::passing_pair().unwrap();
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
    fn packet_that_is_too_long_is_discarded() {
        let (a, b) = Packets::pair().unwrap();
        a.send(&[1; 9]).unwrap();
        a.send(&[2; 8]).unwrap();
        let mut room = [0; 8];
        assert!(matches!(b.receive(&mut room), Err(PacketError::TooLong)));
        assert_eq!(b.receive(&mut room).unwrap().0, 8);
        assert_eq!(room, [2; 8]);
    }

    #[test]
    fn refused_descriptors_are_not_sent() {
        let (one, other) = Packets::pair().unwrap();
        let (receiver, sender) = Packets::passing_pair().unwrap();
        if !socket::can_refuse_descriptors(&one) {
            return;
        }
        let mut room = [0; 8];
        for (from, to) in [(&one, &other), (&other, &one), (&receiver, &sender)] {
            let sent = from.send_with(b"x", from.as_fd());
            assert!(matches!(sent, Err(PacketError::System(_))), "{sent:?}");
            from.send(b"y").unwrap();
            assert!(matches!(to.receive(&mut room), Ok((1, None))));
        }
        sender.send_with(b"z", sender.as_fd()).unwrap();
        assert!(matches!(receiver.receive(&mut room), Ok((1, Some(_)))), "this way they pass");
    }

    #[test]
    fn small_send_buffer_holds_few_descriptors() {
        let (_b, a) = Packets::passing_pair().unwrap();
        a.send_little_ahead().unwrap();
        let sent = (0..1_000).take_while(|_| a.send_with(&[7; 300], a.as_fd()).is_ok()).count();
        assert!((1..=8).contains(&sent), "{sent}");
    }

    #[test]
    fn flood_of_descriptors_leaves_none_open() {
        let (b, a) = Packets::passing_pair().unwrap();
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
