//! Tests that a message that never ends keeps no connection alive, with simulated time.

use openflow::{Features, Hello, PortDescReply};

use super::*;

/// A worker that the test calls, with the connection of one switch.
struct Still {
    worker: Worker,
    server: ServerChannels,
    address: SocketAddr,
    switch: TcpStream,
    id: ConnId,
}

impl Still {
    fn new(now: Instant) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (channels, server) = connect(1, Tuning::default(), INSTALLATION).unwrap();
        let transport = TransportPolicy { plain: PlainTcp::Loopback, tls: None };
        let apps = Apps { apps: Vec::new(), flight_slot: None };
        let channels = channels.into_iter().next().unwrap();
        let mut worker =
            Worker::new(vec![(listener, Box::new(OpenFlow::default()))], apps, transport, channels)
                .unwrap();
        let switch = TcpStream::connect(address).unwrap();
        let id = accepted(&mut worker, now);
        Self { worker, server, address, switch, id }
    }

    /// Has the switch connect again after its connection was closed.
    fn connect(&mut self, now: Instant) {
        self.switch = TcpStream::connect(self.address).unwrap();
        self.id = accepted(&mut self.worker, now);
    }

    /// Has the switch send bytes, and the worker read them at this time.
    fn send(&mut self, bytes: &[u8], now: Instant) {
        self.switch.write_all(bytes).unwrap();
        let mut buffer = vec![0; 512 * 1024];
        wait_for("the bytes are read", || {
            (self.worker.serve(self.id, &mut buffer, now).size > 0).then_some(())
        });
    }

    fn complete_handshake(&mut self, version: Version, now: Instant) {
        let mut hello = Vec::new();
        append(&mut hello, |out| Hello::new(&[version]).encode(1, out)).unwrap();
        self.send(&hello, now);
        let features = Features {
            dpid: Dpid(7),
            n_buffers: 0,
            n_tables: 1,
            auxiliary_id: 0,
            capabilities: openflow::Capabilities(0),
            actions: 0,
            ports: Vec::new(),
        };
        let mut reply = Vec::new();
        append(&mut reply, |out| features.encode(version, 2, out)).unwrap();
        if version.features().port_desc {
            append(&mut reply, |out| PortDescReply::encode(&[], false, version, 3, out)).unwrap();
        }
        self.send(&reply, now);
        assert_eq!(self.worker.switches.roster.iter().count(), 1);
    }

    fn is_connected(&self) -> bool {
        self.worker.switches.get(self.id).is_some()
    }
}

fn accepted(worker: &mut Worker, now: Instant) -> ConnId {
    wait_for("it is accepted", || {
        worker.accept(0, now);
        worker.switches.iter().next().map(|(id, _)| id)
    })
}

#[test]
fn message_without_end_is_no_sign_of_life() {
    for version in openflow::OfferedVersions::default().versions() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut still = Still::new(start);
        still.complete_handshake(version, start);
        let stuck = [&[version.wire(), 2, 0xff, 0xff, 0, 0, 0, 1][..], &[b'x'; 400]].concat();
        still.send(&stuck, at(1));
        let echo = [version.wire(), 3, 0, 8, 0, 0, 0, 9];
        for second in 2..15 {
            still.send(&echo, at(second));
            still.worker.tick(at(second));
            assert!(still.is_connected(), "{version}: {second} s");
        }
        still.send(&echo, at(15));
        still.worker.tick(at(15));
        assert!(!still.is_connected(), "{version}: the last whole message is 15 s ago");
    }
}

#[test]
fn slow_message_that_ends_is_a_sign_of_life() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let mut still = Still::new(start);
    still.complete_handshake(Version::V1_3, start);
    for second in 1..40 {
        let message = [4, 3, 0, 9, 0, 0, 0, 9, b'x'];
        let byte = message[usize::try_from(second - 1).unwrap() % message.len()];
        still.send(&[byte], at(second));
        still.worker.tick(at(second));
        assert!(still.is_connected(), "{second} s");
    }
}

#[test]
fn reset_of_a_known_switch_is_no_refusal() {
    use rustix::net::sockopt::set_socket_linger;

    let start = Instant::now();
    for is_reset in [true, false] {
        let mut still = Still::new(start);
        still.complete_handshake(Version::V1_3, start);
        still.worker.close(still.id, "the test wants it", start);
        still.connect(start);
        let mut hello = Vec::new();
        append(&mut hello, |out| Hello::new(&[Version::V1_3]).encode(1, out)).unwrap();
        still.send(&hello, start);
        if is_reset {
            set_socket_linger(&still.switch, Some(Duration::ZERO)).unwrap();
            still.switch = TcpStream::connect(still.address).unwrap(); // the former one is reset
        } else {
            still.switch.shutdown(std::net::Shutdown::Write).unwrap();
        }
        let mut buffer = vec![0; 512 * 1024];
        wait_for("the end is read", || {
            still.worker.serve(still.id, &mut buffer, start);
            (!still.is_connected()).then_some(())
        });
        let events = std::iter::from_fn(|| still.server.events.try_recv().ok());
        let refused = events.filter(|it| matches!(it, WorkerEvent::SwitchRefused(_))).count();
        assert_eq!(refused, usize::from(!is_reset), "reset: {is_reset}");
    }
}
