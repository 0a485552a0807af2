//! Tests a driver with an invented protocol: a worker serves any protocol through `dal`'s traits.
//!
//! A message is its size, a letter and a body:
//!
//! ```text
//!  switch: H datapath id    I am here       controller: ? -              are you there?
//!          P port, frame    a packet                    O port, frame    send this packet
//!          ! -              I am there
//! ```

use dal::drivers::openflow::framing;
use dal::{Closed, Driver, Event, Inbound, Session, SwitchInfo, Taken, Timing};
use openflow::Action;

use super::*;

#[derive(Debug)]
struct Letters;

impl Driver for Letters {
    fn open(&self, now: Instant, timing: Timing) -> Box<dyn Session> {
        Box::new(LetterSession {
            opened: now,
            received: now,
            timing,
            up: false,
            asked: false,
            xid: 1,
        })
    }
}

/// A session of [`Letters`].
#[derive(Debug)]
struct LetterSession {
    opened: Instant,
    received: Instant,
    timing: Timing,
    up: bool,
    asked: bool,
    xid: u32,
}

impl Session for LetterSession {
    fn take<'m>(
        &mut self,
        bytes: &'m mut [u8],
        room: &'m mut Vec<u8>,
        _: &mut Vec<u8>,
    ) -> Result<Option<Taken<'m>>, Closed> {
        let size = bytes.first().map(|size| usize::from(*size));
        if let Some(0 | 1) = size {
            return Err(Closed::NotOpenFlow("a message without a letter".into()));
        }
        let Some(message) = size.and_then(|size| bytes.get(..size)) else { return Ok(None) };
        let inbound = match (message[1], &message[2..]) {
            (b'H', dpid) => {
                let dpid = dpid.try_into().expect("a datapath id has eight bytes");
                let dpid = Dpid(u64::from_be_bytes(dpid));
                self.up = true;
                let ports = Vec::new();
                let info = SwitchInfo {
                    version: OF,
                    dpid,
                    n_tables: 1,
                    n_buffers: 0,
                    capabilities: openflow::Capabilities(0),
                    actions: 0,
                    no_packets: None,
                    ports,
                };
                Inbound::Message(Event::Up(info), message)
            }
            (b'P', [port, frame @ ..]) => {
                let packet_in = PacketIn::new(PortNo((*port).into()), frame);
                room.clear();
                append(room, |out| packet_in.encode(OF, 0, out)).expect("OpenFlow has packet-ins");
                Inbound::PacketIns(room)
            }
            (b'!', _) => {
                self.asked = false;
                Inbound::Nothing
            }
            _ => Inbound::Nothing,
        };
        Ok(Some(Taken { size: Some(message.len()), inbound }))
    }

    fn configure(&mut self, _: &mut Vec<u8>) -> u32 {
        self.xids(1)
    }

    fn seal(&mut self, out: &mut Vec<u8>, from: usize) {
        let messages = out.split_off(from);
        let mut rest = &messages[..];
        while let Ok(Some((message, after))) = framing::cut(rest) {
            rest = after;
            let kind = Header::decode(message).map(|header| Kind::from_wire(OF, header.kind));
            if let Ok(packet_out) = PacketOut::decode(message) {
                let port = packet_out.actions.iter().find_map(|action| match action {
                    Action::Output { port, .. } => u8::try_from(port.0).ok(),
                    _ => None,
                });
                let size = u8::try_from(packet_out.data.len() + 3).expect("the test's are short");
                out.extend([size, b'O', port.unwrap_or(0)]);
                out.extend(packet_out.data);
            } else if kind == Ok(Ok(Kind::EchoRequest)) {
                out.extend([2, b'?']);
            } // the protocol has no flows
        }
        assert!(rest.is_empty(), "the kernel appends whole messages");
    }

    fn tick(&mut self, now: Instant, _: &mut Vec<u8>) -> Result<(), Closed> {
        if self.up && now.saturating_duration_since(self.received) >= self.timing.gone {
            return Err(Closed::Silent(self.timing.gone));
        }
        self.check_deadline(now)
    }

    fn check_deadline(&self, now: Instant) -> Result<(), Closed> {
        let late = now.saturating_duration_since(self.opened) >= self.timing.handshake;
        if late && !self.up { Err(Closed::Handshake(self.timing.handshake)) } else { Ok(()) }
    }

    fn note_received(&mut self, now: Instant) {
        self.received = now;
    }

    fn last_received(&self) -> Instant {
        self.received
    }

    fn has_greeted(&self) -> bool {
        false // the switch sends first
    }

    fn described_ports(&self) -> usize {
        0
    }

    fn probe(&mut self, out: &mut Vec<u8>) {
        self.asked = true;
        let xid = self.xids(1);
        append(out, |out| Kind::EchoRequest.encode_empty(OF, xid, out)).expect("OpenFlow has it");
    }

    fn has_answered(&self) -> bool {
        !self.asked
    }

    fn request_tables(&mut self, _: &mut Vec<u8>) {}

    fn xids(&mut self, count: u32) -> u32 {
        let xid = self.xid;
        self.xid = self.xid.wrapping_add(count);
        xid
    }
}

/// The next message of the controller.
fn read(socket: &mut TcpStream) -> Vec<u8> {
    let mut size = [0];
    socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    socket.read_exact(&mut size).unwrap();
    let mut rest = vec![0; usize::from(size[0]) - 1];
    socket.read_exact(&mut rest).unwrap();
    rest
}

fn hello(dpid: u64) -> Vec<u8> {
    [&[10, b'H'][..], &dpid.to_be_bytes()].concat()
}

#[test]
fn switch_of_another_protocol_receives_answers() {
    let mut bench = Bench::driven(1, || Box::new(Letters));
    let mut zone = bench.attach();
    zone.snapshot();
    let mut switch = TcpStream::connect(bench.address).unwrap();
    // Messages that are cut anywhere, also within a packet.
    let stream = [&hello(7)[..], &[7, b'P', 1, 0, 0, 0, 1, 7, b'P', 1, 0, 0]].concat();
    switch.write_all(&stream[..5]).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    switch.write_all(&stream[5..]).unwrap();
    let seen = wait_for("the switch and a packet are there", || {
        let seen = zone.peek(0);
        (seen.len() >= 2).then_some(seen)
    });
    assert_eq!((seen[0].kind, seen[0].dpid), (UP, 7));
    assert!(seen[1].is_packet() && (seen[1].dpid, seen[1].number) == (7, 1), "{seen:?}");
    switch.write_all(&[0, 2]).unwrap();
    wait_for("the other packet is there", || (zone.peek(0).len() == 3).then_some(()));
    let epoch = seen[1].epoch;
    zone.handle(0, |seen| seen.is_packet().then_some((7, epoch, seen.number + 40)));
    assert_eq!(read(&mut switch), [b'O', 0, 0, 0, 0, 41]);
    assert_eq!(read(&mut switch), [b'O', 0, 0, 0, 0, 42]);
    let status = bench.switches().remove(0);
    assert_eq!((status.packet_ins, status.packet_outs, status.dropped), (2, 2, 0));
    bench.stop();
}

#[test]
fn second_claim_of_a_datapath_probes_the_first() {
    let bench = Bench::driven(1, || Box::new(Letters));
    let mut first = TcpStream::connect(bench.address).unwrap();
    first.write_all(&hello(7)).unwrap();
    wait_for("the switch is there", || (!bench.switches().is_empty()).then_some(()));
    let mut second = TcpStream::connect(bench.address).unwrap();
    second.write_all(&hello(7)).unwrap();
    assert_eq!(read(&mut first), b"?");
    first.write_all(&[2, b'!']).unwrap();
    second.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    assert_eq!(second.read(&mut [0; 8]).unwrap(), 0, "the kernel closes the second");
    assert_eq!(bench.switches().len(), 1);
    bench.stop();
}

#[test]
fn connection_with_invalid_framing_is_closed() {
    let bench = Bench::driven(1, || Box::new(Letters));
    let mut switch = TcpStream::connect(bench.address).unwrap();
    switch.write_all(&[0, 0]).unwrap();
    switch.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    assert_eq!(switch.read(&mut [0; 8]).unwrap(), 0);
    assert!(bench.switches().is_empty());
    bench.stop();
}
