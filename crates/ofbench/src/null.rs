//! The null controller: what this machine's sockets allow at most.
//!
//! The same accept, epoll, read, write loop as in Rosemary's kernel, and no thought: each packet-in is
//! answered with messages made ahead, into which buffer, in-port and addresses are copied. They
//! flood, as nothing was learned; in all else they fit, so that a generator which checks answers
//! works as hard against this as against a controller.
//!
//! A buffered packet-in is answered by one flow-mod that uses the buffer, another by a flow-mod and a
//! packet-out with the frame, as a learning switch would.

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
use crate::connection::{BUFFER, Connection, Input, NoMessage, cut};

/// Events taken from epoll at once.
const EVENTS: usize = 256;

/// Epoll's user data of the listener.
const LISTENER: u64 = u64::MAX;

/// How often it looks whether it is to stop.
const TICK: Duration = Duration::from_millis(100);

/// Output that may wait in a connection before its switch is no longer read, in bytes.
const FULL: usize = 1 << 20;

/// See the module's description.
#[derive(Debug)]
pub struct Null {
    listener: TcpListener,
    epoll: OwnedFd,
    versions: Vec<Version>,
    peers: Slab<Peer>,
    replies: [Replies; 2],
}

/// A switch that connected.
#[derive(Debug)]
struct Peer {
    connection: Connection,
    version: Option<Version>,
    /// What epoll was asked to tell.
    watched: EventFlags,
}

/// Why a switch is dropped.
#[derive(Debug)]
struct Hopeless;

impl From<NoMessage> for Hopeless {
    fn from(_: NoMessage) -> Self {
        Self
    }
}

impl Null {
    /// A null controller that listens at an address and speaks these versions.
    ///
    /// # Errors
    /// Something else listens there, or it is no address of this machine.
    pub fn bind(listen: SocketAddr, versions: &[Version]) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        Ok(Self {
            listener,
            epoll,
            versions: versions.to_vec(),
            peers: Slab::new(),
            replies: [Replies::new(Version::V1_0), Replies::new(Version::V1_3)],
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Works until told to stop.
    ///
    /// # Errors
    /// Epoll failed.
    ///
    /// # Panics
    /// Never; what epoll returns was given to it.
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
            let Ok(mut connection) = Connection::accepted(socket) else { continue };
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

    fn serve(&mut self, key: usize, buffer: &mut [u8]) -> Result<(), Hopeless> {
        let Some(peer) = self.peers.get_mut(key) else { return Ok(()) };
        let connection = &mut peer.connection;
        connection.flush().map_err(|_| Hopeless)?;
        if connection.out().len() < FULL {
            match connection.read(buffer) {
                Ok(Input::Bytes(size)) => {
                    let Self { versions, replies, .. } = self;
                    let rest = cut(&buffer[..size], |message| {
                        hear(message, &mut peer.version, versions, replies, connection)
                    })?;
                    connection.keep(rest);
                    for replies in replies {
                        connection.write(replies.gathered()).map_err(|_| Hopeless)?;
                        replies.clear();
                    }
                    connection.flush().map_err(|_| Hopeless)?;
                }
                Ok(Input::Nothing) => {}
                Ok(Input::End) | Err(_) => return Err(Hopeless),
            }
        }
        // A switch that does not read is not read either.
        let mut wanted = EventFlags::empty();
        wanted.set(EventFlags::IN, connection.out().len() < FULL);
        wanted.set(EventFlags::OUT, !connection.is_drained());
        if wanted != peer.watched {
            let data = EventData::new_u64(key as u64);
            epoll::modify(&self.epoll, connection.socket(), data, wanted).map_err(|_| Hopeless)?;
            peer.watched = wanted;
        }
        Ok(())
    }
}

/// Takes in a message. Answers to packet-ins are gathered in `replies`, others in the connection.
#[inline]
fn hear(
    message: &[u8],
    version: &mut Option<Version>,
    versions: &[Version],
    replies: &mut [Replies; 2],
    connection: &mut Connection,
) -> Result<(), Hopeless> {
    if let Some(spoken) = *version
        && message[..2] == [spoken.wire(), PACKET_IN]
    {
        replies[usize::from(spoken == Version::V1_3)].answer(message);
        return Ok(());
    }
    converse(message, version, versions, connection.out())
}

/// The type of packet-ins, in every version.
const PACKET_IN: u8 = 10;

#[cold]
fn converse(
    message: &[u8],
    version: &mut Option<Version>,
    versions: &[Version],
    out: &mut Vec<u8>,
) -> Result<(), Hopeless> {
    let header = Header::decode(message).map_err(|_| Hopeless)?;
    match (header.kind, *version) {
        (0, None) => {
            let hello = Hello::decode(message).map_err(|_| Hopeless)?;
            let spoken = hello.negotiate(versions).map_err(|_| Hopeless)?;
            *version = Some(spoken);
            say(out, |room| Kind::FeaturesRequest.encode_empty(spoken, 1, room));
            let config = SwitchConfig { flags: 0, miss_send_len: 128 };
            say(out, |room| config.encode_set(spoken, 2, room));
            if spoken == Version::V1_3 {
                let controller = [Action::output(PortNo::CONTROLLER)];
                let miss = FlowMod::add(Match::new()).priority(0).apply(&controller);
                say(out, |room| miss.encode(spoken, 3, room));
            }
            Ok(())
        }
        (_, None) => Err(Hopeless),
        (2, Some(_)) => {
            say(out, |room| echo_reply(message, room));
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Appends a message that can be said.
fn say(out: &mut Vec<u8>, encode: impl Fn(&mut [u8]) -> Result<usize, openflow::EncodeError>) {
    append(out, encode).expect("what a controller asks can be said in its version");
}
