//! Simulated peers of a worker: a switch that speaks OpenFlow over TCP, and the zone of an app with its rings.

use std::io::{Read as _, Write as _};
use std::mem::offset_of;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use openflow::{
    Capabilities, Dpid, Features, Header, Hello, Kind, PacketIn, PacketOut, PortDescReply, PortNo,
    append, echo_reply,
};
use sdk::abi::{RECORD_HEAD, REPEATED, Record, RecordKind};
use sys::doorbell::DoorbellSender;
use sys::ring::{MAX_BATCH, ZoneEnd};

use super::{OF, SNAPSHOT_END, SNAPSHOT_PART, TEST_TIMEOUT, wait_for};

/// The time in which the controller closes a connection that it rejects.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A switch. A thread answers the controller's requests and collects all its messages.
pub(super) struct FakeSwitch {
    pub(super) socket: TcpStream,
    pub(super) dpid: u64,
    /// All messages of the controller, those that the thread answered included.
    pub(super) received: Receiver<Vec<u8>>,
    /// While it is set, the switch sends no replies. It goes on reading.
    pub(super) is_mute: Arc<AtomicBool>,
    /// While it is set, the switch does not read. The thread may have read one more header before it notices.
    pub(super) is_deaf: Arc<AtomicBool>,
}

impl FakeSwitch {
    /// Connects a switch without ports.
    pub(super) fn connect(address: SocketAddr, dpid: u64) -> Self {
        Self::connect_and_send(address, dpid, &[])
    }

    /// Connects a switch that sends `more` in the same write as its first multipart reply, which completes the handshake.
    pub(super) fn connect_and_send(address: SocketAddr, dpid: u64, more: &[u8]) -> Self {
        let mut socket = TcpStream::connect(address).unwrap();
        let mut hello = Vec::new();
        append(&mut hello, |out| Hello::new(&[OF]).encode(1, out)).unwrap();
        socket.write_all(&hello).unwrap();
        let (collect, received) = channel();
        let (mut stream, mut more) = (socket.try_clone().unwrap(), more.to_vec());
        let is_mute = Arc::new(AtomicBool::new(false));
        let mute = Arc::clone(&is_mute);
        let is_deaf = Arc::new(AtomicBool::new(false));
        let deaf = Arc::clone(&is_deaf);
        std::thread::spawn(move || {
            let mut message = vec![0; Header::SIZE];
            while stream.read_exact(&mut message[..Header::SIZE]).is_ok() {
                let header = Header::decode(&message).unwrap();
                message.resize(header.length.into(), 0);
                while deaf.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                if stream.read_exact(&mut message[Header::SIZE..]).is_err() {
                    break;
                }
                let mut reply = reply_to(header, &message, dpid);
                if Kind::from_wire(OF, header.kind) == Ok(Kind::MultipartRequest) {
                    // This empties `more`, so only the first multipart reply carries it. The first request is that
                    // for the ports, the last of the handshake.
                    reply.append(&mut more);
                }
                if mute.load(Ordering::Relaxed) {
                    reply.clear();
                }
                if stream.write_all(&reply).is_err() || collect.send(message.clone()).is_err() {
                    break;
                }
            }
        });
        Self { socket, dpid, received, is_mute, is_deaf }
    }

    /// Sends a packet-in whose payload is `number`.
    pub(super) fn send_packet_in(&mut self, number: u32) {
        self.socket.write_all(&packet_in(number)).unwrap();
    }

    /// Waits for `count` packet-outs, and returns the numbers in their payloads. Other messages are discarded.
    pub(super) fn packet_outs(&self, count: usize) -> Vec<u32> {
        let (mut numbers, deadline) = (Vec::new(), Instant::now() + TEST_TIMEOUT);
        while numbers.len() < count {
            let rest = deadline.saturating_duration_since(Instant::now());
            let message = self.received.recv_timeout(rest);
            let message = message.unwrap_or_else(|_| panic!("{count} packet-outs: {numbers:?}"));
            if let Ok(packet_out) = PacketOut::decode(&message) {
                numbers.push(u32::from_be_bytes(packet_out.data.try_into().unwrap()));
            }
        }
        numbers
    }

    /// Waits until the controller closes the connection, and discards its messages until then. `false` if the connection
    /// is still open after a second.
    pub(super) fn wait_until_closed(&self) -> bool {
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        loop {
            match self.received.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(_) => {}
                Err(error) => return error == RecvTimeoutError::Disconnected,
            }
        }
    }
}

impl Drop for FakeSwitch {
    fn drop(&mut self) {
        // The thread has a clone of the socket, so dropping this one alone would not close the connection.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// Encodes a packet-in whose payload is `number`.
pub(super) fn packet_in(number: u32) -> Vec<u8> {
    let (mut message, data) = (Vec::new(), number.to_be_bytes());
    let packet_in = PacketIn::new(PortNo(1), &data);
    append(&mut message, |out| packet_in.encode(OF, 0, out)).unwrap();
    message
}

/// Encodes the reply of a switch without ports to a message of the controller; empty if the message needs none.
///
/// Every multipart request gets a reply with port descriptions, whatever it asks for.
fn reply_to(header: Header, message: &[u8], dpid: u64) -> Vec<u8> {
    let mut reply = Vec::new();
    let encoded = match Kind::from_wire(OF, header.kind) {
        Ok(Kind::FeaturesRequest) => append(&mut reply, |out| {
            let features = Features {
                dpid: Dpid(dpid),
                n_buffers: 0,
                n_tables: 1,
                auxiliary_id: 0,
                capabilities: Capabilities(0),
                actions: 0,
                ports: Vec::new(),
            };
            features.encode(OF, header.xid, out)
        }),
        Ok(Kind::MultipartRequest) => {
            append(&mut reply, |out| PortDescReply::encode(&[], false, OF, header.xid, out))
        }
        Ok(Kind::EchoRequest) => append(&mut reply, |out| echo_reply(message, out)),
        _ => Ok(0),
    };
    encoded.unwrap();
    reply
}

/// The zone of an app.
pub(super) struct FakeZone {
    /// By worker, as a zone has a pair of rings with each: the zone's end of that pair, and the doorbell of the worker.
    pub(super) ends: Vec<(ZoneEnd, DoorbellSender)>,
}

/// The parts of a record that tests compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeenRecord {
    /// A [`RecordKind`].
    pub(super) kind: u16,
    /// The switch.
    pub(super) dpid: u64,
    /// The switch's connection.
    pub(super) epoch: u32,
    /// The last four bytes of the body, as the payload of [`packet_in`]; 0 if the body is shorter.
    pub(super) number: u32,
    /// Whether an instance of the app that died may have handled the record ([`REPEATED`]).
    pub(super) again: bool,
}

impl SeenRecord {
    /// Reads a record, whose head has the layout of [`Record`].
    pub(super) fn of(record: &[u8]) -> Self {
        let last = record.len().saturating_sub(4).max(RECORD_HEAD);
        let number = record.get(last..).and_then(|it| it.first_chunk().copied());
        Self {
            kind: u16::from_le_bytes(*record[offset_of!(Record, kind)..].first_chunk().unwrap()),
            dpid: u64::from_le_bytes(*record[offset_of!(Record, dpid)..].first_chunk().unwrap()),
            epoch: u32::from_le_bytes(*record[offset_of!(Record, epoch)..].first_chunk().unwrap()),
            number: number.map_or(0, u32::from_be_bytes),
            again: record[offset_of!(Record, flags)] & REPEATED != 0,
        }
    }

    /// Whether it is a packet-in.
    pub(super) fn is_packet(self) -> bool {
        self.kind == RecordKind::PacketIn as u16
    }
}

impl FakeZone {
    /// Returns the records in a ring without consuming them.
    pub(super) fn peek(&mut self, ring: usize) -> Vec<SeenRecord> {
        let batch = self.ends[ring].0.records.batch(MAX_BATCH).unwrap();
        batch.iter().map(SeenRecord::of).collect()
    }

    /// Consumes the records in a ring and returns them. `answer` chooses for each record whether a packet-out is sent: to
    /// which switch, which epoch of it, and with which number.
    pub(super) fn handle(
        &mut self,
        ring: usize,
        answer: impl Fn(SeenRecord) -> Option<(u64, u32, u32)>,
    ) -> Vec<SeenRecord> {
        let seen = self.peek(ring);
        let messages = &mut self.ends[ring].0.messages;
        for (dpid, epoch, number) in seen.iter().filter_map(|seen| answer(*seen)) {
            let (mut message, data) = (Vec::new(), number.to_be_bytes());
            let packet_out = PacketOut::new(PortNo(1), &[], &data);
            append(&mut message, |out| packet_out.encode(OF, 0, out)).unwrap();
            messages.reserve(message.len()).unwrap().copy_from_slice(&message);
            assert!(messages.commit(dpid, epoch, message.len()));
        }
        self.consume(ring, seen.len());
        seen
    }

    /// Consumes the oldest `count` records of the last [`peek`](Self::peek), and publishes the messages.
    fn consume(&mut self, ring: usize, count: usize) {
        let (ZoneEnd { records, messages }, doorbell) = &mut self.ends[ring];
        if messages.done(records, count) {
            doorbell.ring();
        }
    }

    /// Consumes the records of a ring up to the last one of its part of the snapshot, and returns them.
    ///
    /// Each worker writes the state of its switches into its own ring. The last part ends with [`SNAPSHOT_END`], each
    /// other part with [`SNAPSHOT_PART`].
    fn read_snapshot_part(&mut self, ring: usize) -> Vec<SeenRecord> {
        let mut all = Vec::new();
        wait_for("the part of the snapshot came", || {
            let mut seen = self.peek(ring);
            let is_last = |seen: &SeenRecord| [SNAPSHOT_END, SNAPSHOT_PART].contains(&seen.kind);
            let last = seen.iter().position(is_last);
            seen.truncate(last.map_or(seen.len(), |last| last + 1));
            self.consume(ring, seen.len());
            all.extend(seen);
            last
        });
        all
    }

    /// Consumes the snapshot in all rings. Returns the kinds and switches of its records, ring after ring.
    pub(super) fn snapshot(&mut self) -> Vec<(u16, u64)> {
        let rings = 0..self.ends.len();
        let records = rings.flat_map(|ring| self.read_snapshot_part(ring));
        records.map(|seen| (seen.kind, seen.dpid)).collect()
    }
}
