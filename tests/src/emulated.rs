//! An emulated switch on top of the codec, whose thread answers the controller; the test sends
//! messages.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use openflow::{
    Dpid, Echo, EncodeError, ErrorMessage, Header, Hello, Kind, MacAddr, PacketIn, PortDesc,
    PortDescReply, PortNo, PortReason, PortStatus, Version, append, echo_reply,
};

use crate::fake::{PORT_DESC, features};

const CONTROLLER: &str = "127.0.0.1:6653";
const VERSION: Version = Version::V1_3;
const PORTS: u32 = 4;

/// The error that rejects multipart requests other than for ports (`OFPBRC_BAD_MULTIPART`, OpenFlow
/// 1.3.5 §7.4.4).
const BAD_MULTIPART: u16 = 2;

/// Number of packet-ins per write of a flood.
const MANY: usize = 256;

/// Time limit for a reply of a busy controller.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connected switch of OpenFlow 1.3. Its thread answers the requests that every switch answers.
#[derive(Debug)]
pub struct Emulated {
    shared: Arc<Shared>,
    heard: Receiver<(Instant, Vec<u8>)>,
    reading: Option<JoinHandle<()>>,
    xid: u32,
}

#[derive(Debug)]
struct Shared {
    stream: TcpStream,
    /// Held while whole messages are written.
    writing: Mutex<()>,
    /// Number of writers waiting for that lock beside a flood.
    waiting: AtomicU64,
    /// Whether a flood is running. Packet-outs are then only counted.
    flooding: AtomicBool,
    packet_ins: AtomicU64,
    packet_outs: AtomicU64,
}

impl Shared {
    fn write(&self, messages: &[u8]) -> io::Result<()> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let turn = self.writing.lock();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let result = (&self.stream).write_all(messages);
        drop(turn);
        result
    }
}

impl Emulated {
    /// Connects and completes the handshake, up to the first flow-mod.
    ///
    /// # Errors
    /// A step failed.
    pub fn connect(dpid: u64) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(CONTROLLER)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (tell, heard) = mpsc::channel();
        let shared = Arc::new(Shared {
            stream,
            writing: Mutex::default(),
            waiting: AtomicU64::default(),
            flooding: AtomicBool::default(),
            packet_ins: AtomicU64::default(),
            packet_outs: AtomicU64::default(),
        });
        let mut switch = Self { shared: Arc::clone(&shared), heard, reading: None, xid: 0 };
        switch.send(|xid, out| Hello::new(&[VERSION]).encode(xid, out))?;
        switch.reading = Some(thread::spawn(move || {
            let _ = read(&shared, Dpid(dpid), &tell); // the connection was closed
        }));
        switch.wait_for(Kind::FlowMod, |_| true).context("the table-miss entry")?;
        Ok(switch)
    }

    /// Sends an echo request; returns the time to its reply.
    ///
    /// # Errors
    /// None came.
    pub fn echo(&mut self) -> anyhow::Result<Duration> {
        let sent = Instant::now();
        let xid = self.send(|xid, out| {
            Echo { is_reply: false, xid, data: b"still there?" }.encode(VERSION, out)
        })?;
        let at = self.wait_for(Kind::EchoReply, |reply| reply[4..8] == xid.to_be_bytes())?;
        Ok(at.saturating_duration_since(sent))
    }

    /// Sends a packet-in.
    ///
    /// # Errors
    /// It cannot be sent.
    pub fn packet_in(&mut self, frame: &[u8]) -> anyhow::Result<()> {
        let packet_in = PacketIn::new(PortNo(1), frame);
        self.send(|xid, out| packet_in.encode(VERSION, xid, out)).map(drop)
    }

    /// Waits for a packet-out of this frame; returns its time of arrival.
    ///
    /// # Errors
    /// None came.
    pub fn wait_for_packet_out(&self, frame: &[u8]) -> anyhow::Result<Instant> {
        self.wait_for(Kind::PacketOut, |message| message.ends_with(frame))
    }

    /// Sends a port-status message that adds a port.
    ///
    /// # Errors
    /// It cannot be sent.
    pub fn add_port(&mut self, number: u32) -> anyhow::Result<()> {
        let status = PortStatus { reason: PortReason::Add, desc: port(number) };
        self.send(|xid, out| status.encode(VERSION, xid, out)).map(drop)
    }

    /// Sends packet-ins of `frame` as fast as the controller reads, until the returned value is
    /// stopped or dropped.
    ///
    /// # Errors
    /// `frame` is too long.
    pub fn flood(&self, frame: &[u8]) -> anyhow::Result<Flood> {
        let mut once = Vec::new();
        append(&mut once, |out| PacketIn::new(PortNo(1), frame).encode(VERSION, 0, out))?;
        let many = once.repeat(MANY);
        self.shared.flooding.store(true, Ordering::Relaxed);
        let shared = Arc::clone(&self.shared);
        let thread = thread::spawn(move || {
            while shared.flooding.load(Ordering::Relaxed) {
                if shared.waiting.load(Ordering::Relaxed) > 0 {
                    thread::yield_now();
                    continue;
                }
                shared.write(&many)?;
                shared.packet_ins.fetch_add(MANY as u64, Ordering::Relaxed);
            }
            Ok(())
        });
        Ok(Flood { shared: Arc::clone(&self.shared), thread: Some(thread) })
    }

    /// Returns the number of packet-outs received.
    pub fn packet_outs(&self) -> u64 {
        self.shared.packet_outs.load(Ordering::Relaxed)
    }

    fn send(
        &mut self,
        encode: impl Fn(u32, &mut [u8]) -> Result<usize, EncodeError>,
    ) -> anyhow::Result<u32> {
        self.xid += 1;
        let mut message = Vec::new();
        append(&mut message, |out| encode(self.xid, out))?;
        self.shared.write(&message)?;
        Ok(self.xid)
    }

    fn wait_for(&self, kind: Kind, is_it: impl Fn(&[u8]) -> bool) -> anyhow::Result<Instant> {
        let give_up = Instant::now() + PATIENCE;
        loop {
            let rest = give_up.saturating_duration_since(Instant::now());
            let Ok((at, message)) = self.heard.recv_timeout(rest) else {
                bail!("no {kind:?} came within {PATIENCE:?}, or the connection was closed");
            };
            if kind_of(&message) == Some(kind) && is_it(&message) {
                return Ok(at);
            }
        }
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        let _ = self.shared.stream.shutdown(Shutdown::Both); // ends the threads
        if let Some(reading) = self.reading.take() {
            let _ = reading.join();
        }
    }
}

/// A flood of packet-ins.
#[derive(Debug)]
pub struct Flood {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Flood {
    /// Returns the number of packet-ins that the socket accepted.
    pub fn sent(&self) -> u64 {
        self.shared.packet_ins.load(Ordering::Relaxed)
    }

    /// Stops after a complete message, so that the connection stays usable; returns the number of
    /// packet-ins sent.
    ///
    /// # Errors
    /// The connection was closed, or accepted nothing for a long time.
    pub fn stop(mut self) -> anyhow::Result<u64> {
        self.shared.flooding.store(false, Ordering::Relaxed);
        let thread = self.thread.take().context("it is stopped once")?;
        thread.join().ok().context("the flooding thread panicked")??;
        Ok(self.sent())
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.shared.flooding.store(false, Ordering::Relaxed);
    }
}

/// Reads until the connection ends, answers requests, and passes on the other messages.
fn read(shared: &Shared, dpid: Dpid, tell: &Sender<(Instant, Vec<u8>)>) -> anyhow::Result<()> {
    let mut reader = io::BufReader::with_capacity(1 << 16, &shared.stream);
    loop {
        let mut message = vec![0; Header::SIZE];
        reader.read_exact(&mut message)?;
        let header = Header::decode(&message)?;
        message.resize(usize::from(header.length).max(Header::SIZE), 0);
        reader.read_exact(&mut message[Header::SIZE..])?;
        let (xid, mut answer) = (header.xid, Vec::new());
        match kind_of(&message) {
            Some(Kind::EchoRequest) => append(&mut answer, |out| echo_reply(&message, out))?,
            Some(Kind::BarrierRequest) => {
                append(&mut answer, |out| Kind::BarrierReply.encode_empty(VERSION, xid, out))?
            }
            Some(Kind::FeaturesRequest) => {
                append(&mut answer, |out| features(dpid).encode(VERSION, xid, out))?
            }
            Some(Kind::MultipartRequest) if message.get(8..10) == Some(&PORT_DESC) => {
                let ports: Vec<_> = (1..=PORTS).map(port).collect();
                append(&mut answer, |out| PortDescReply::encode(&ports, false, VERSION, xid, out))?
            }
            Some(Kind::MultipartRequest | Kind::GetConfigRequest) => {
                let (kind, code) = (ErrorMessage::BAD_REQUEST, BAD_MULTIPART);
                let error = ErrorMessage { version: VERSION, kind, code, data: &message };
                append(&mut answer, |out| error.encode(xid, out))?
            }
            kind => {
                let packet_out = kind == Some(Kind::PacketOut);
                shared.packet_outs.fetch_add(packet_out.into(), Ordering::Relaxed);
                if !(packet_out && shared.flooding.load(Ordering::Relaxed)) {
                    tell.send((Instant::now(), message))?;
                }
                0
            }
        };
        if !answer.is_empty() {
            shared.write(&answer)?;
        }
    }
}

fn kind_of(message: &[u8]) -> Option<Kind> {
    Kind::from_wire(VERSION, *message.get(1)?).ok()
}

fn port(number: u32) -> PortDesc {
    PortDesc::new(PortNo(number), MacAddr([2, 0, 0, 0, 1, 0]), &format!("port{number}"))
}
