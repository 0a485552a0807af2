//! Tests the broker with listeners on this machine.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::{socket_recv_buffer_size, socket_send_buffer_size};
use sys::packets::Packets;

use super::*;
use control::service::{ClientRights, ServiceClient};

struct Bench {
    broker: Broker,
    clients: Clients,
    client: ClientId,
    app: Packets,
}

/// Creates a broker with an app that was granted these hosts.
fn bench(hosts: &[(&str, u16)]) -> Bench {
    let hosts = hosts.iter().map(|(name, port)| Destination { name: (*name).into(), port: *port });
    let rights = ClientRights { hosts: hosts.collect(), ..ClientRights::default() };
    let (app, theirs) = Packets::passing_pair().unwrap();
    let mut clients = Clients::default();
    let client =
        clients.add(ServiceClient { app: 1, name: "app".into(), rights }, theirs.into_fd());
    Bench { broker: Broker::open(Startup::default()).unwrap(), clients, client, app }
}

impl Bench {
    fn ask(&mut self, id: u64, host: &str, port: u16) {
        let request = Request { host, port }.encode();
        let asked = ClientRequest { client: self.client, id, request };
        self.broker.serve(vec![asked], &mut self.clients);
    }

    /// Returns the next answer: request id, body and descriptor.
    fn answer(&mut self) -> (u64, Vec<u8>, Option<OwnedFd>) {
        let mut room = [0; 1024];
        loop {
            if let Ok((size, fd)) = self.app.receive(&mut room) {
                let id = u64::from_le_bytes(*room.first_chunk().unwrap());
                return (id, room[9..size].to_vec(), fd);
            }
            let wake = self.broker.wake_fd().unwrap();
            poll(&mut [PollFd::from_borrowed_fd(wake, PollFlags::IN)], None).unwrap();
            self.broker.serve(Vec::new(), &mut self.clients);
        }
    }
}

#[test]
fn granted_host_is_connected() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut bench = bench(&[("localhost", port), ("127.0.0.1", port)]);
    for host in ["127.0.0.1", "localhost"] {
        bench.ask(7, host, port);
        let (id, answer, fd) = bench.answer();
        assert_eq!((id, Answer::decode(&answer)), (7, Some(Answer::Connected)));
        let (mut peer, _) = listener.accept().unwrap();
        let fd = fd.unwrap();
        let buffers =
            [socket_send_buffer_size(&fd).unwrap(), socket_recv_buffer_size(&fd).unwrap()];
        assert!(buffers.into_iter().all(|size| size <= 2 * BUFFER), "{buffers:?}");
        let mut ours = File::from(fd);
        assert_eq!(ours.read(&mut [0; 4]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        ours.write_all(b"ping").unwrap();
        let mut room = [0; 4];
        peer.read_exact(&mut room).unwrap();
        assert_eq!(&room, b"ping");
    }
}

#[test]
fn host_without_exact_grant_is_rejected() {
    let mut bench = bench(&[("127.0.0.1", 80)]);
    for (host, port) in [("127.0.0.1", 81), ("127.0.0.2", 80), ("127.1", 80), ("localhost", 80)] {
        bench.ask(1, host, port);
        let (_, answer, fd) = bench.answer();
        assert_eq!((Answer::decode(&answer), fd.is_none()), (Some(Answer::NotGranted), true));
    }
    assert_eq!(bench.broker.threads, 0);
}

#[test]
fn closed_port_is_reported_with_the_reason() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut bench = bench(&[("127.0.0.1", port)]);
    bench.ask(1, "127.0.0.1", port);
    let (_, answer, _) = bench.answer();
    let Some(Answer::Failed(why)) = Answer::decode(&answer) else { panic!("{answer:?}") };
    assert!(why.contains("refused"), "{why}");
    assert_eq!((bench.broker.threads, bench.broker.pending.len()), (0, 0));
}

#[test]
fn slow_connections_time_out_and_are_bounded() {
    // An address for documentation (RFC 5737): packets to it are lost, or rejected immediately.
    let mut bench = bench(&[("192.0.2.1", 9)]);
    for id in 1..=5 {
        bench.ask(id, "192.0.2.1", 9);
    }
    let waiting = bench.broker.pending.len();
    assert!(waiting <= MAX_PER_CLIENT);
    for it in &mut bench.broker.pending {
        it.until = Instant::now();
    }
    bench.broker.serve(Vec::new(), &mut bench.clients);
    assert!(bench.broker.pending.is_empty());
    assert_eq!(bench.broker.wake_at(), None);
    let mut replies: Vec<u64> = (0..5).map(|_| bench.answer().0).collect();
    replies.sort_unstable();
    assert_eq!(replies, [1, 2, 3, 4, 5], "each once");
}

#[test]
fn malformed_request_is_rejected() {
    let mut bench = bench(&[]);
    let asked = ClientRequest { client: bench.client, id: 3, request: vec![0xff; 100] };
    bench.broker.serve(vec![asked], &mut bench.clients);
    assert_eq!(bench.answer().1, Answer::Refused.encode());
}

#[test]
fn names_do_not_lead_to_this_machine_or_its_link() {
    let near = [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.1.1",
        "::127.0.0.1",
    ];
    for address in near {
        let address: IpAddr = address.parse().unwrap();
        assert!(!covers("db.example", address), "{address}");
        assert!(!covers("localhost.example", address), "{address}");
        assert!(covers(&address.to_string(), address), "{address}, granted as it is");
    }
    for address in ["192.0.2.1", "10.0.0.1", "2001:db8::1", "fd00::1"] {
        let address: IpAddr = address.parse().unwrap();
        assert!(covers("db.example", address) && !covers("localhost", address), "{address}");
    }
    assert!(
        covers("localhost", [127, 0, 0, 1].into()) && covers("LOCALHOST.", [127, 0, 0, 1].into())
    );
}
