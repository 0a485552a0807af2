//! The broker, and listeners on this machine.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::{socket_recv_buffer_size, socket_send_buffer_size};
use sys::packets::Packets;

use super::*;
use crate::control::{Client, Rights};

struct Bench {
    broker: Broker,
    clients: Clients,
    client: ClientId,
    app: Packets,
}

/// With an app that was granted these.
fn bench(hosts: &[(&str, u16)]) -> Bench {
    let hosts = hosts.iter().map(|(name, port)| Host { name: (*name).into(), port: *port });
    let rights = Rights { hosts: hosts.collect(), ..Rights::default() };
    let (app, theirs) = Packets::pair().unwrap();
    let mut clients = Clients::default();
    let client = clients.add(Client { app: 1, name: "app".into(), rights }, theirs.into_fd());
    Bench { broker: Broker::open(None, Quotas::default()).unwrap(), clients, client, app }
}

impl Bench {
    fn ask(&mut self, id: u64, host: &str, port: u16) {
        let request = Request { host, port }.encode();
        let asked = Asked { client: self.client, id, request };
        self.broker.serve(vec![asked], &mut self.clients);
    }

    /// The next answer: to which request, what, and what came with it.
    fn answer(&mut self) -> (u64, Vec<u8>, Option<OwnedFd>) {
        let mut room = [0; 1024];
        loop {
            if let Ok((size, fd)) = self.app.receive(&mut room) {
                let id = u64::from_le_bytes(*room.first_chunk().unwrap());
                return (id, room[9..size].to_vec(), fd);
            }
            let bell = self.broker.bell().unwrap();
            poll(&mut [PollFd::from_borrowed_fd(bell, PollFlags::IN)], None).unwrap();
            self.broker.serve(Vec::new(), &mut self.clients);
        }
    }
}

#[test]
fn host_that_is_granted_is_connected_and_bytes_pass() {
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
fn what_is_not_granted_exactly_is_refused_without_a_look() {
    let mut bench = bench(&[("127.0.0.1", 80)]);
    for (host, port) in [("127.0.0.1", 81), ("127.0.0.2", 80), ("127.1", 80), ("localhost", 80)] {
        bench.ask(1, host, port);
        let (_, answer, fd) = bench.answer();
        assert_eq!((Answer::decode(&answer), fd.is_none()), (Some(Answer::NotGranted), true));
    }
    assert_eq!(bench.broker.threads, 0);
}

#[test]
fn port_where_nobody_listens_is_told_with_the_reason() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut bench = bench(&[("127.0.0.1", port)]);
    bench.ask(1, "127.0.0.1", port);
    let (_, answer, _) = bench.answer();
    let Some(Answer::Failed(why)) = Answer::decode(&answer) else { panic!("{answer:?}") };
    assert!(why.contains("refused"), "{why}");
    assert_eq!((bench.broker.threads, bench.broker.underway.len()), (0, 0));
}

#[test]
fn connection_that_takes_too_long_is_given_up_and_only_a_few_are_made_at_once() {
    // Of a network for documentation, RFC 5737: packets to it are lost, or refused at once.
    let mut bench = bench(&[("192.0.2.1", 9)]);
    for id in 1..=5 {
        bench.ask(id, "192.0.2.1", 9);
    }
    let waiting = bench.broker.underway.len();
    assert!(waiting <= PER_CLIENT);
    for it in &mut bench.broker.underway {
        it.until = Instant::now();
    }
    bench.broker.serve(Vec::new(), &mut bench.clients);
    assert!(bench.broker.underway.is_empty());
    assert_eq!(bench.broker.wake_at(), None);
    let mut told: Vec<u64> = (0..5).map(|_| bench.answer().0).collect();
    told.sort_unstable();
    assert_eq!(told, [1, 2, 3, 4, 5], "each once");
}

#[test]
fn nonsense_is_no_request() {
    let mut bench = bench(&[]);
    let asked = Asked { client: bench.client, id: 3, request: vec![0xff; 100] };
    bench.broker.serve(vec![asked], &mut bench.clients);
    assert_eq!(bench.answer().1, Answer::Refused.encode());
}
