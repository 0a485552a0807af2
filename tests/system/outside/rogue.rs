//! A hostile switch of OpenFlow 1.3: a thread answers the controller as every switch does, unless the attack answers otherwise.

use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::ensure;
use openflow::{
    Dpid, EncodeError, ErrorMessage, Header, Hello, Kind, MacAddr, MultipartReply, PacketIn,
    PortDesc, PortDescReply, PortNo, ReplyBody, Version, append, echo_reply,
};
use rosemary_tests::fake::features;
use rosemary_tests::net::SOON;

pub(super) const VERSION: Version = Version::V1_3;

/// The types of multipart messages (OpenFlow 1.3.5 §7.3.5).
pub(super) const FLOWS: u16 = 1;
pub(super) const PORT_STATS: u16 = 4;
const PORT_DESC: u16 = 13;

/// `OFPBRC_BAD_MULTIPART` (OpenFlow 1.3.5 §7.4.4).
const BAD_MULTIPART: u16 = 2;

/// Answers a message in place of the switch: appends to the output and returns `true`, or `false` for the usual answer.
pub(super) type Answer = Box<dyn FnMut(Kind, &[u8], &mut Vec<u8>) -> bool + Send>;

/// A connected hostile switch; dropping it closes the connection.
pub(super) struct Rogue {
    wire: Arc<Writer>,
    threads: Vec<JoinHandle<()>>,
    dpid: Dpid,
}

/// The connection, which several threads write.
pub(super) struct Writer {
    stream: TcpStream,
    writing: Mutex<()>,
    closed: AtomicBool,
    /// Number of messages of the controller.
    received: AtomicU64,
    /// Number of flow-mods among them.
    flow_mods: AtomicU64,
}

impl Writer {
    /// Writes whole messages. `false` once the connection is closed.
    pub(super) fn write(&self, messages: &[u8]) -> bool {
        let turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let is_written = (&self.stream).write_all(messages).is_ok();
        drop(turn);
        self.closed.fetch_or(!is_written, Ordering::Relaxed);
        is_written && !self.is_closed()
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}

impl Rogue {
    /// Connects a switch with these ports, and answers in its name.
    pub(super) fn connect(dpid: u64, ports: Vec<PortDesc>, answer: Answer) -> io::Result<Self> {
        let stream = TcpStream::connect("127.0.0.1:6653")?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(Duration::from_secs(20)))?;
        let wire = Arc::new(Writer {
            stream,
            writing: Mutex::default(),
            closed: AtomicBool::default(),
            received: AtomicU64::default(),
            flow_mods: AtomicU64::default(),
        });
        wire.write(&message(|out| Hello::new(&[VERSION]).encode(1, out)));
        let (inner, dpid) = (Arc::clone(&wire), Dpid(dpid));
        let reading = thread::spawn(move || {
            let _ = serve(&inner, dpid, &ports, answer); // the connection was closed
            inner.closed.store(true, Ordering::Relaxed);
        });
        Ok(Self { wire, threads: vec![reading], dpid })
    }

    /// Connects a switch with two ports that answers as every switch does.
    pub(super) fn obedient(dpid: u64) -> io::Result<Self> {
        Self::connect(dpid, ports(2), Box::new(|_, _, _| false))
    }

    /// Waits until the controller has sent a flow-mod: the switch is connected.
    pub(super) fn is_served(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + SOON * 2;
        while self.flow_mods() == 0 {
            ensure!(!self.is_closed(), "switch {} was disconnected", self.dpid);
            ensure!(Instant::now() < deadline, "switch {} is not served", self.dpid);
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    pub(super) fn dpid(&self) -> String {
        self.dpid.to_string()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.wire.is_closed()
    }

    pub(super) fn received(&self) -> u64 {
        self.wire.received.load(Ordering::Relaxed)
    }

    pub(super) fn flow_mods(&self) -> u64 {
        self.wire.flow_mods.load(Ordering::Relaxed)
    }

    /// Writes whole messages. `false` once the connection is closed.
    pub(super) fn say(&self, messages: &[u8]) -> bool {
        self.wire.write(messages)
    }

    /// Sends a packet-in of this frame at port 1.
    pub(super) fn packet_in(&self, frame: &[u8]) -> bool {
        let packet_in = PacketIn::new(PortNo(1), frame);
        self.say(&message(|out| packet_in.encode(VERSION, 0, out)))
    }

    /// Writes what `next` returns, as fast as the controller reads, until the connection ends; with pauses of `pause`.
    pub(super) fn repeat(
        &mut self,
        pause: Duration,
        mut next: impl FnMut(u32) -> Vec<u8> + Send + 'static,
    ) {
        let wire = Arc::clone(&self.wire);
        self.threads.push(thread::spawn(move || {
            for number in 0.. {
                if !wire.write(&next(number)) {
                    return;
                }
                thread::sleep(pause);
            }
        }));
    }

    /// The connection, for a thread of the test that sends further parts of an answer.
    pub(super) fn wire(&self) -> Arc<Writer> {
        Arc::clone(&self.wire)
    }
}

impl Drop for Rogue {
    fn drop(&mut self) {
        self.wire.closed.store(true, Ordering::Relaxed);
        let _ = self.wire.stream.shutdown(Shutdown::Both); // ends the threads
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn serve(wire: &Writer, dpid: Dpid, ports: &[PortDesc], mut answer: Answer) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(1 << 16, &wire.stream);
    loop {
        let mut received = vec![0; Header::SIZE];
        reader.read_exact(&mut received)?;
        let header = Header::decode(&received).map_err(io::Error::other)?;
        received.resize(usize::from(header.length).max(Header::SIZE), 0);
        reader.read_exact(&mut received[Header::SIZE..])?;
        let Ok(kind) = Kind::from_wire(VERSION, header.kind) else { continue };
        let mut out = Vec::new();
        if !answer(kind, &received, &mut out) {
            out.extend(usual(kind, &received, dpid, ports));
        }
        wire.received.fetch_add(1, Ordering::Relaxed);
        wire.flow_mods.fetch_add((kind == Kind::FlowMod).into(), Ordering::Relaxed);
        if !out.is_empty() && !wire.write(&out) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
    }
}

/// The answer of every switch.
fn usual(kind: Kind, received: &[u8], dpid: Dpid, ports: &[PortDesc]) -> Vec<u8> {
    let xid = xid_of(received);
    match kind {
        Kind::EchoRequest => message(|out| echo_reply(received, out)),
        Kind::FeaturesRequest => message(|out| features(dpid).encode(VERSION, xid, out)),
        Kind::BarrierRequest => message(|out| Kind::BarrierReply.encode_empty(VERSION, xid, out)),
        Kind::MultipartRequest if multipart_of(received) == PORT_DESC => {
            message(|out| PortDescReply::encode(ports, false, VERSION, xid, out))
        }
        Kind::MultipartRequest if multipart_of(received) == FLOWS => flows(xid, false, Vec::new()),
        Kind::MultipartRequest | Kind::GetConfigRequest => {
            refusal(ErrorMessage::BAD_REQUEST, BAD_MULTIPART, received)
        }
        _ => Vec::new(),
    }
}

/// Encodes a message.
pub(super) fn message(encode: impl Fn(&mut [u8]) -> Result<usize, EncodeError>) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(&mut bytes, encode).expect("the version has this message");
    bytes
}

/// Encodes a part of a reply about flows.
pub(super) fn flows(xid: u32, more: bool, flows: Vec<openflow::FlowStats<'_>>) -> Vec<u8> {
    let reply = MultipartReply { more, body: ReplyBody::Flow(flows) };
    message(|out| reply.encode(VERSION, xid, out))
}

/// Encodes a multipart reply of any type with these bytes.
pub(super) fn part(what: u16, xid: u32, more: bool, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(16 + body.len()).expect("a message is short");
    let mut bytes = vec![4, 19];
    bytes.extend(size.to_be_bytes());
    bytes.extend(xid.to_be_bytes());
    bytes.extend(what.to_be_bytes());
    bytes.extend([0, u8::from(more), 0, 0, 0, 0]);
    bytes.extend(body);
    bytes
}

/// Encodes an error about a message.
pub(super) fn refusal(kind: u16, code: u16, about: &[u8]) -> Vec<u8> {
    let data = about.get(..64).unwrap_or(about);
    let error = ErrorMessage { version: VERSION, kind, code, data };
    message(|out| error.encode(xid_of(about), out))
}

pub(super) fn xid_of(message: &[u8]) -> u32 {
    message.get(4..).and_then(|rest| rest.first_chunk().copied()).map_or(0, u32::from_be_bytes)
}

/// The type of a multipart message.
pub(super) fn multipart_of(message: &[u8]) -> u16 {
    message.get(8..).and_then(|rest| rest.first_chunk().copied()).map_or(0, u16::from_be_bytes)
}

/// Ports 1 to `count`.
pub(super) fn ports(count: u32) -> Vec<PortDesc> {
    (1..=count).map(|number| port(number, &format!("port{number}"))).collect()
}

pub(super) fn port(number: u32, name: &str) -> PortDesc {
    PortDesc::new(PortNo(number), MacAddr([2, 0, 0, 0, 1, 0]), name)
}

/// Builds a frame between two Ethernet addresses with these last bytes.
pub(super) fn frame(to: u32, from: u32) -> Vec<u8> {
    let mut frame = vec![2, 0x66];
    frame.extend(to.to_be_bytes());
    frame.extend([2, 0x67]);
    frame.extend(from.to_be_bytes());
    frame.extend([0x08, 0x00]);
    frame.resize(60, 0);
    frame
}
