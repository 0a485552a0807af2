//! Plays a switch and a zone.

use super::*;

/// A switch in a thread: answers the controller's requests and collects its messages.
pub(super) struct Fake {
    pub(super) socket: TcpStream,
    pub(super) dpid: u64,
    pub(super) received: std::sync::mpsc::Receiver<Vec<u8>>,
    /// Whether it has ceased to answer.
    pub(super) is_mute: Arc<AtomicBool>,
    /// Whether it reads nothing.
    pub(super) is_deaf: Arc<AtomicBool>,
}

impl Fake {
    pub(super) fn connect(address: SocketAddr, dpid: u64) -> Self {
        Self::connect_and_send(address, dpid, &[])
    }

    /// The same, but sends `more` in one write with the last message of its handshake.
    pub(super) fn connect_and_send(address: SocketAddr, dpid: u64, more: &[u8]) -> Self {
        let mut socket = TcpStream::connect(address).unwrap();
        let mut hello = Vec::new();
        append(&mut hello, |out| Hello::new(&[OF]).encode(1, out)).unwrap();
        socket.write_all(&hello).unwrap();
        let (forward, received) = std::sync::mpsc::channel();
        let (mut own, mut more) = (socket.try_clone().unwrap(), more.to_vec());
        let is_mute = Arc::new(AtomicBool::new(false));
        let mute = Arc::clone(&is_mute);
        let is_deaf = Arc::new(AtomicBool::new(false));
        let deaf = Arc::clone(&is_deaf);
        std::thread::spawn(move || {
            let mut message = vec![0; 8];
            while own.read_exact(&mut message[..8]).is_ok() {
                let header = Header::decode(&message).unwrap();
                message.resize(header.length.into(), 0);
                while deaf.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                if own.read_exact(&mut message[8..]).is_err() {
                    break;
                }
                let mut answer = answer(header, &message, dpid);
                if Kind::from_wire(OF, header.kind) == Ok(Kind::MultipartRequest) {
                    answer.append(&mut more); // to the first: for its ports
                }
                if mute.load(Ordering::Relaxed) {
                    answer.clear();
                }
                if own.write_all(&answer).is_err() || forward.send(message.clone()).is_err() {
                    break;
                }
            }
        });
        Self { socket, dpid, received, is_mute, is_deaf }
    }

    /// Sends a packet-in whose packet is this number.
    pub(super) fn packet(&mut self, number: u32) {
        self.socket.write_all(&packet_in(number)).unwrap();
    }

    /// Returns the content of the packet-outs that arrived, after a given number of them.
    pub(super) fn packet_outs(&self, count: usize) -> Vec<u32> {
        let (mut numbers, give_up) = (Vec::new(), Instant::now() + PATIENCE);
        while numbers.len() < count {
            let rest = give_up.saturating_duration_since(Instant::now());
            let message = self.received.recv_timeout(rest);
            let message = message.unwrap_or_else(|_| panic!("{count} packet-outs: {numbers:?}"));
            if let Ok(packet_out) = PacketOut::decode(&message) {
                numbers.push(u32::from_be_bytes(packet_out.data.try_into().unwrap()));
            }
        }
        numbers
    }

    /// Whether the controller has closed the connection, within a second.
    pub(super) fn is_closed(&self) -> bool {
        let give_up = Instant::now() + Duration::from_secs(1);
        loop {
            match self.received.recv_timeout(give_up.saturating_duration_since(Instant::now())) {
                Ok(_) => {}
                Err(error) => return error == std::sync::mpsc::RecvTimeoutError::Disconnected,
            }
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

pub(super) fn packet_in(number: u32) -> Vec<u8> {
    let (mut message, data) = (Vec::new(), number.to_be_bytes());
    let packet_in = PacketIn::new(PortNo(1), &data);
    append(&mut message, |out| packet_in.encode(OF, 0, out)).unwrap();
    message
}

pub(super) fn answer(header: Header, message: &[u8], dpid: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let encoded = match Kind::from_wire(OF, header.kind) {
        Ok(Kind::FeaturesRequest) => append(&mut out, |out| {
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
            append(&mut out, |out| PortDescReply::encode(&[], false, OF, header.xid, out))
        }
        Ok(Kind::EchoRequest) => append(&mut out, |out| echo_reply(message, out)),
        _ => Ok(0),
    };
    encoded.unwrap();
    out
}

/// A zone's ends of its rings.
pub(super) struct Zone {
    pub(super) ends: Vec<(ZoneEnd, DoorbellSender)>,
}

/// A record: its kind, the switch, the epoch, the packet's number and whether it came again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) kind: u16,
    pub(super) dpid: u64,
    pub(super) epoch: u32,
    pub(super) number: u32,
    pub(super) again: bool,
}

impl Seen {
    pub(super) fn of(record: &[u8]) -> Self {
        let last = record.len().saturating_sub(4).max(RECORD_HEAD);
        let number = record.get(last..).and_then(|it| it.first_chunk().copied());
        Self {
            kind: u16::from_le_bytes(record[4..6].try_into().unwrap()),
            dpid: u64::from_le_bytes(record[8..16].try_into().unwrap()),
            epoch: u32::from_le_bytes(record[16..20].try_into().unwrap()),
            number: number.map_or(0, u32::from_be_bytes),
            again: record[7] & REPEATED != 0,
        }
    }

    pub(super) fn is_packet(self) -> bool {
        self.kind == RecordKind::PacketIn as u16
    }
}

impl Zone {
    /// Returns the records in a ring without consuming them.
    pub(super) fn peek(&mut self, ring: usize) -> Vec<Seen> {
        let batch = self.ends[ring].0.records.batch(MAX_BATCH).unwrap();
        batch.iter().map(Seen::of).collect()
    }

    /// Consumes the records in a ring. `answer` returns the switch, the epoch and the number to send back for each.
    pub(super) fn handle(
        &mut self,
        ring: usize,
        answer: impl Fn(Seen) -> Option<(u64, u32, u32)>,
    ) -> Vec<Seen> {
        let seen = self.peek(ring);
        let (ZoneEnd { records, messages }, bell) = &mut self.ends[ring];
        for (dpid, epoch, number) in seen.iter().filter_map(|seen| answer(*seen)) {
            let (mut message, data) = (Vec::new(), number.to_be_bytes());
            let packet_out = PacketOut::new(PortNo(1), &[], &data);
            append(&mut message, |out| packet_out.encode(OF, 0, out)).unwrap();
            messages.reserve(message.len()).unwrap().copy_from_slice(&message);
            assert!(messages.commit(dpid, epoch, message.len()));
        }
        if messages.done(records, seen.len()) {
            bell.ring();
        }
        seen
    }

    /// Reads a ring to the end of its part of the snapshot.
    pub(super) fn part(&mut self, ring: usize) -> Vec<Seen> {
        let mut all = Vec::new();
        wait_for("the part of the snapshot came", || {
            let mut seen = self.peek(ring);
            let end = seen.iter().position(|seen| [END, PART].contains(&seen.kind));
            seen.truncate(end.map_or(seen.len(), |end| end + 1));
            let (ZoneEnd { records, messages }, bell) = &mut self.ends[ring];
            if messages.done(records, seen.len()) {
                bell.ring();
            }
            all.extend(seen);
            end
        });
        all
    }

    /// Reads the snapshot: the kinds and switches of its records, ring after ring.
    pub(super) fn snapshot(&mut self) -> Vec<(u16, u64)> {
        let rings = 0..self.ends.len();
        rings.flat_map(|ring| self.part(ring)).map(|seen| (seen.kind, seen.dpid)).collect()
    }
}
