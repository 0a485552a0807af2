//! A controller that answers packet-ins without learning: an upper bound for this machine's
//! sockets.
//!
//! It runs the same accept, epoll, read, write loop as Rosemary's kernel. Each packet-in is
//! answered with prebuilt messages into which buffer id, in-port and addresses are copied. The
//! answers flood, since nothing is learned; they are otherwise right, so a generator that checks
//! answers does the same work as against a real controller.
//!
//! A buffered packet-in gets one flow-mod that uses the buffer. An unbuffered one gets a flow-mod
//! and a packet-out with the frame, as from a learning switch.

mod replies;

use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openflow::{
    Action, FlowMod, Header, Hello, Kind, Match, PortNo, SwitchConfig, Version, append, echo_reply,
};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use slab::Slab;

use self::replies::Replies;
use crate::connection::{BUFFER, Connection, InvalidHeader, ReadResult, cut};
use crate::tls::Server;

/// Maximum number of events per epoll call.
const EVENTS: usize = 256;

/// Epoll user data of the listener.
const LISTENER: u64 = u64::MAX;

/// Interval at which the stop flag is checked.
const TICK: Duration = Duration::from_millis(100);

/// Queued output of a connection above which its switch is no longer read, in bytes.
const FULL: usize = 1 << 20;

/// A null controller; see the module's documentation.
#[derive(Debug)]
pub struct NullController {
    listener: TcpListener,
    epoll: OwnedFd,
    versions: Vec<Version>,
    tls: Option<Server>,
    peers: Slab<Peer>,
    /// In the order of [`Version::ALL`].
    replies: [Replies; Version::COUNT],
}

/// A connected switch.
#[derive(Debug)]
struct Peer {
    connection: Connection,
    version: Option<Version>,
    /// Events registered with epoll.
    watched: EventFlags,
}

/// The connection must be closed.
#[derive(Debug)]
struct Disconnect;

impl From<InvalidHeader> for Disconnect {
    fn from(_: InvalidHeader) -> Self {
        Self
    }
}

impl NullController {
    /// Creates a null controller that listens on `listen` and speaks these versions.
    ///
    /// # Errors
    /// The address is in use or not local.
    pub fn bind(listen: SocketAddr, versions: &[Version]) -> io::Result<Self> {
        Self::bind_with(listen, versions, None)
    }

    /// Like [`bind`](Self::bind), over TLS if there are settings for it.
    ///
    /// # Errors
    /// The address is in use or not local.
    pub fn bind_with(
        listen: SocketAddr,
        versions: &[Version],
        tls: Option<Server>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        Ok(Self {
            listener,
            epoll,
            versions: versions.to_vec(),
            tls,
            peers: Slab::new(),
            replies: Version::each(Replies::new),
        })
    }

    /// Returns the listen address.
    ///
    /// # Errors
    /// The system call failed.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves switches until `stop` is set.
    ///
    /// # Errors
    /// Epoll failed.
    ///
    /// # Panics
    /// Never: every event's user data is a key that this function registered.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER].into_boxed_slice();
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS];
        let timeout: Timespec = TICK.try_into().expect("a tick is short");
        while !stop.load(Ordering::Relaxed) {
            let (ready, _) = match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
                Err(rustix::io::Errno::INTR) => continue,
                result => result?,
            };
            for event in ready {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    key => {
                        let key = usize::try_from(key).expect("it is an index of ours");
                        if self.serve(key, &mut buffer).is_err() {
                            self.peers.remove(key);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self) {
        while let Ok((socket, _)) = self.listener.accept() {
            // A connection that fails already is dropped; the switch connects again.
            let Ok(mut connection) = Connection::accepted(socket, self.tls.as_ref()) else {
                continue;
            };
            say(connection.out(), |room| Hello::new(&self.versions).encode(0, room));
            let entry = self.peers.vacant_entry();
            let data = EventData::new_u64(entry.key() as u64);
            let watched = EventFlags::IN;
            if connection.flush().is_ok()
                && epoll::add(&self.epoll, connection.socket(), data, watched).is_ok()
            {
                entry.insert(Peer { connection, version: None, watched });
            }
        }
    }

    fn serve(&mut self, key: usize, buffer: &mut [u8]) -> Result<(), Disconnect> {
        let Some(peer) = self.peers.get_mut(key) else { return Ok(()) };
        let connection = &mut peer.connection;
        connection.flush().map_err(|_| Disconnect)?;
        if connection.out().len() < FULL {
            match connection.read(buffer) {
                Ok(ReadResult::Bytes(size)) => {
                    let Self { versions, replies, .. } = self;
                    let rest = cut(&buffer[..size], |message| {
                        hear(message, &mut peer.version, versions, replies, connection)
                    })?;
                    connection.keep(rest);
                    for replies in replies {
                        connection.write(replies.gathered()).map_err(|_| Disconnect)?;
                        replies.clear();
                    }
                    connection.flush().map_err(|_| Disconnect)?;
                }
                Ok(ReadResult::WouldBlock) => {}
                Ok(ReadResult::Closed) | Err(_) => return Err(Disconnect),
            }
        }
        // Back-pressure: a switch that does not read is not read either.
        let mut wanted = EventFlags::empty();
        wanted.set(EventFlags::IN, connection.out().len() < FULL);
        wanted.set(EventFlags::OUT, !connection.is_output_empty());
        if wanted != peer.watched {
            let data = EventData::new_u64(key as u64);
            epoll::modify(&self.epoll, connection.socket(), data, wanted)
                .map_err(|_| Disconnect)?;
            peer.watched = wanted;
        }
        Ok(())
    }
}

/// Handles a message. Answers to packet-ins are collected in `replies`, all others in the
/// connection.
#[inline]
fn hear(
    message: &[u8],
    version: &mut Option<Version>,
    versions: &[Version],
    replies: &mut [Replies; Version::COUNT],
    connection: &mut Connection,
) -> Result<(), Disconnect> {
    if let Some(spoken) = *version
        && message[..2] == [spoken.wire(), PACKET_IN]
    {
        replies[spoken.index()].answer(message);
        return Ok(());
    }
    converse(message, version, versions, connection.out())
}

/// Message type of packet-ins in every version.
const PACKET_IN: u8 = 10;

#[cold]
fn converse(
    message: &[u8],
    version: &mut Option<Version>,
    versions: &[Version],
    out: &mut Vec<u8>,
) -> Result<(), Disconnect> {
    let header = Header::decode(message).map_err(|_| Disconnect)?;
    match (header.kind, *version) {
        (0, None) => {
            let hello = Hello::decode(message).map_err(|_| Disconnect)?;
            let spoken = hello.negotiate(versions).map_err(|_| Disconnect)?;
            *version = Some(spoken);
            say(out, |room| Kind::FeaturesRequest.encode_empty(spoken, 1, room));
            let config = SwitchConfig { flags: 0, miss_send_len: 128 };
            say(out, |room| config.encode_set(spoken, 2, room));
            if !spoken.features().miss_to_controller {
                let controller = [Action::output(PortNo::CONTROLLER)];
                let miss = FlowMod::add(Match::new()).priority(0).apply(&controller);
                say(out, |room| miss.encode(spoken, 3, room));
            }
            Ok(())
        }
        (_, None) => Err(Disconnect),
        (2, Some(_)) => {
            say(out, |room| echo_reply(message, room));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Appends a message that its version can express.
fn say(out: &mut Vec<u8>, encode: impl Fn(&mut [u8]) -> Result<usize, openflow::EncodeError>) {
    append(out, encode).expect("the version can express the message");
}
