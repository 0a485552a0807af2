//! A switch without datapath and thread: it reads and answers only when the test calls it, sends
//! the test's messages, and keeps every received message. [`crate::emulated`] is the autonomous
//! counterpart.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use openflow::{
    Capabilities, Dpid, EncodeError, Features, Header, Hello, Kind, PacketIn, PortDescReply,
    PortNo, Version, append, echo_reply,
};

/// Time limit of one read.
const READ: Duration = Duration::from_millis(20);

/// `OFPMP_PORT_DESC` (OpenFlow 1.3.5 §7.3.5).
pub(crate) const PORT_DESC: [u8; 2] = [0, 13];

/// Returns the features of a switch without datapath.
pub fn features(dpid: Dpid) -> Features {
    Features {
        dpid,
        n_buffers: 0,
        n_tables: 1,
        auxiliary_id: 0,
        capabilities: Capabilities::default(),
        actions: 0,
        ports: Vec::new(),
    }
}

/// A manually driven switch; see the module's documentation.
#[derive(Debug)]
pub struct Fake {
    socket: TcpStream,
    version: Version,
    dpid: Dpid,
    unread: Vec<u8>,
    /// Received messages that the test has not removed, oldest first.
    pub received: Vec<Vec<u8>>,
}

impl Fake {
    /// Connects and sends a hello.
    ///
    /// # Errors
    /// No controller listens.
    pub fn connect(version: Version, dpid: u64) -> io::Result<Self> {
        let socket = TcpStream::connect("127.0.0.1:6653")?;
        socket.set_read_timeout(Some(READ))?;
        socket.set_nodelay(true)?;
        let dpid = Dpid(dpid);
        let mut fake = Self { socket, version, dpid, unread: Vec::new(), received: Vec::new() };
        fake.say(|out| Hello::new(&[version]).encode(1, out))?;
        Ok(fake)
    }

    /// Returns its datapath id as Rosemary prints it.
    pub fn dpid(&self) -> String {
        self.dpid.to_string()
    }

    /// Returns its OpenFlow version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns its socket.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Reads and answers requests for this time. Returns `false` once the connection is closed.
    pub fn answer_for(&mut self, time: Duration) -> bool {
        let end = Instant::now() + time;
        let mut buffer = [0; 4096];
        while Instant::now() < end {
            match self.socket.read(&mut buffer) {
                Ok(0) => return false,
                Ok(size) => self.unread.extend_from_slice(&buffer[..size]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
            if self.answer().is_err() {
                return false;
            }
        }
        true
    }

    /// Sends a packet-in with this whole frame, unbuffered.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn packet_in(&mut self, frame: &[u8]) -> io::Result<()> {
        let version = self.version;
        self.say(|out| PacketIn::new(PortNo(1), frame).encode(version, 0, out))
    }

    /// Replies to the oldest barrier that has come. `false` if none has.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn confirm(&mut self) -> io::Result<bool> {
        let version = self.version;
        let mut headers = self.received.iter().filter_map(|message| Header::decode(message).ok());
        let barrier = headers
            .find(|header| Kind::from_wire(version, header.kind) == Ok(Kind::BarrierRequest));
        let Some(Header { xid, .. }) = barrier else { return Ok(false) };
        self.say(|out| Kind::BarrierReply.encode_empty(version, xid, out))?;
        Ok(true)
    }

    /// Sends raw bytes.
    ///
    /// # Errors
    /// The connection is closed.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)
    }

    fn say(&mut self, encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>) -> io::Result<()> {
        let mut message = Vec::new();
        append(&mut message, encode).map_err(io::Error::other)?;
        self.socket.write_all(&message)
    }

    fn answer(&mut self) -> io::Result<()> {
        while let Ok(header) = Header::decode(&self.unread) {
            let size = usize::from(header.length);
            if self.unread.len() < size {
                break;
            }
            let message: Vec<u8> = self.unread.drain(..size).collect();
            let (version, dpid) = (self.version, self.dpid);
            match Kind::from_wire(version, header.kind) {
                Ok(Kind::FeaturesRequest) => {
                    self.say(|out| features(dpid).encode(version, header.xid, out))?;
                }
                Ok(Kind::MultipartRequest) if message.get(8..10) == Some(&PORT_DESC) => {
                    self.say(|out| PortDescReply::encode(&[], false, version, header.xid, out))?;
                }
                Ok(Kind::EchoRequest) => self.say(|out| echo_reply(&message, out))?,
                _ => {}
            }
            self.received.push(message);
        }
        Ok(())
    }
}
