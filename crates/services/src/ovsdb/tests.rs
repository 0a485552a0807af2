//! Tests the service with servers that are absent, silent or hostile. `tests/system/ovsdb` has real ones.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use control::app::Installation;
use control::service::{ClientRights, ServiceClient};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sdk::services::ovsdb::RowId;
use sys::packets::Packets;

use super::*;

/// The service with one database and one app.
struct Bench {
    service: Databases,
    clients: Clients,
    client: ClientId,
    app: Packets,
}

impl Bench {
    fn of(address: &str) -> Self {
        let databases = vec![OvsdbDatabase { name: "edge".into(), address: address.into() }];
        let start = OvsdbStart { databases, tls: false, installation: Installation(1) };
        let startup = Startup { ovsdb: Some(start), ..Startup::default() };
        let mut service = Databases::open(startup).unwrap();
        let (app, theirs) = Packets::pair().unwrap();
        let mut clients = Clients::default();
        let rights = ClientRights::default();
        let client =
            clients.add(ServiceClient { app: 1, name: "app".into(), rights }, theirs.into_fd());
        service.set_apps(vec!["app".into()]);
        Self { service, clients, client, app }
    }

    fn ask(&mut self, id: u64, request: &Request<'_>) {
        let asked = ClientRequest { client: self.client, id, request: request.encode() };
        self.service.serve(vec![asked], &mut self.clients);
    }

    /// Returns the next answer.
    fn answer(&mut self) -> (u64, Answer) {
        let mut room = vec![0; 64 * 1024];
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Ok((size, _)) = self.app.receive(&mut room) {
                let id = u64::from_le_bytes(*room.first_chunk().unwrap());
                return (id, Answer::decode(&room[9..size]).unwrap());
            }
            assert!(Instant::now() < deadline, "no answer");
            let wake = self.service.wake_fd().unwrap();
            let time = Timespec { tv_sec: 1, tv_nsec: 0 };
            poll(&mut [PollFd::from_borrowed_fd(wake, PollFlags::IN)], Some(&time)).unwrap();
            self.service.serve(Vec::new(), &mut self.clients);
        }
    }

    fn reason(&mut self, id: u64, request: &Request<'_>) -> (Reason, String) {
        self.ask(id, request);
        match self.answer() {
            (of, Answer::Refused { reason, why }) if of == id => (reason, why),
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the database is not connected for this reason.
    fn until_down(&mut self, word: &str) {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            self.ask(1, &Request::Databases);
            let (_, Answer::Databases { owner, databases: list }) = self.answer() else {
                panic!("no list")
            };
            assert_eq!(owner, "000000000001/app");
            let [Database { is_connected: false, why, address, .. }] = &list[..] else {
                panic!("{list:?}")
            };
            assert!(address.starts_with("tcp:") || address.starts_with("ssl:"), "{address}");
            if why.contains(word) {
                assert!(why.len() < 3000, "{why}");
                return;
            }
            assert!(Instant::now() < deadline, "{why}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn read_of(database: &str) -> Request<'_> {
    Request::Read { database, table: "Port", after: RowId::default() }
}

fn want(rows: Vec<WantedRow>, is_first: bool, is_last: bool) -> Request<'static> {
    Request::Want { database: "edge", is_first, is_last, rows }
}

#[test]
fn absent_server_is_named_with_its_reason() {
    let mut bench = Bench::of("tcp:127.0.0.1:1");
    bench.until_down("cannot connect to tcp:127.0.0.1:1");
    assert_eq!(bench.reason(2, &read_of("edge")).0, Reason::NotConnected);
    bench.ask(3, &want(vec![WantedRow::new("Queue", "q")], true, true));
    let (3, Answer::Wanted { is_done: false, refused }) = bench.answer() else {
        panic!("another answer")
    };
    assert!(refused[0].why.contains("done later"), "{refused:?}");
}

#[test]
fn mistakes_of_apps_are_refused() {
    let mut bench = Bench::of("tcp:127.0.0.1:1");
    let (reason, why) = bench.reason(1, &read_of("core"));
    assert!(reason == Reason::UnknownDatabase && why.contains("add [[ovsdb]]"), "{why}");
    let rows = |count: usize| (0..count).map(|it| WantedRow::new("Queue", format!("q{it}")));
    let (reason, why) = bench.reason(2, &want(rows(MOST_ROWS + 1).collect(), true, true));
    assert!(reason == Reason::TooMany && why.contains("want fewer"), "{why}");
    // Parts add up, and a refused set is forgotten.
    bench.ask(3, &want(rows(MOST_ROWS).collect(), true, false));
    assert_eq!(bench.answer(), (3, Answer::Part));
    assert_eq!(bench.reason(4, &want(rows(1).collect(), false, true)).0, Reason::TooMany);
    let long = WantedRow::new("Queue", "q").with("external_ids", "x".repeat(30_000));
    for id in 0..MOST_BYTES as u64 / 30_000 {
        bench.ask(id, &want(vec![long.clone()], id == 0, false));
        assert_eq!(bench.answer(), (id, Answer::Part));
    }
    let many = vec![long.clone(), long];
    assert_eq!(bench.reason(99, &want(many, false, true)).0, Reason::TooMany);
    let malformed = ClientRequest { client: bench.client, id: 7, request: vec![9] };
    bench.service.serve(vec![malformed], &mut bench.clients);
    assert!(matches!(bench.answer(), (7, Answer::Refused { reason: Reason::Malformed, .. })));
}

#[test]
fn tls_without_keys_is_named_with_a_remedy() {
    let mut bench = Bench::of("ssl:127.0.0.1:1");
    bench.until_down("rosemary pki init");
}

#[test]
fn pending_requests_of_a_client_are_bounded() {
    // The server accepts and never answers, so that requests wait.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp:{}", listener.local_addr().unwrap());
    let mut bench = Bench::of(&address);
    let read = read_of("edge");
    let _silent = listener.accept().unwrap();
    let watch = Request::Watch { database: "edge" };
    for id in 0..MOST_PENDING as u64 {
        bench.ask(id, if id % 2 == 0 { &watch } else { &read });
    }
    assert_eq!(bench.reason(998, &read).0, Reason::Busy);
    assert_eq!(bench.reason(999, &watch).0, Reason::Busy);
}

#[test]
fn parents_of_wanted_rows_count() {
    let mut bench = Bench::of("tcp:127.0.0.1:1");
    let long = WantedRow::new("Queue", "q").under("Port", "x".repeat(20_000), "x".repeat(10_000));
    for id in 0..MOST_BYTES as u64 / 30_000 {
        bench.ask(id, &want(vec![long.clone()], id == 0, false));
        assert_eq!(bench.answer(), (id, Answer::Part));
    }
    assert_eq!(bench.reason(99, &want(vec![long], false, true)).0, Reason::TooMany);
}

#[test]
fn long_names_are_refused_with_short_reasons() {
    let long = "\u{1}".repeat(40_000);
    let mut bench = Bench::of("tcp:127.0.0.1:1");
    let (reason, why) = bench.reason(1, &read_of(&long));
    assert!(reason == Reason::UnknownDatabase && why.len() < 1000, "{}", why.len());
}

#[test]
fn hostile_servers_end_the_connection_only() {
    for (bytes, word) in [
        (
            b"{\"id\":1,\"result\":".iter().copied().chain([b'['; 100]).collect::<Vec<u8>>(),
            "inside",
        ),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "begins no JSON object"),
        (br#"{"id":1,"result":["x"],"error":null}"#.to_vec(), "no database"),
        (br#"{"id":9,"result":[],"error":null}"#.to_vec(), "belongs to no request"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("tcp:{}", listener.local_addr().unwrap());
        let mut bench = Bench::of(&address);
        let (mut server, _) = listener.accept().unwrap();
        let _size = server.read(&mut [0; 4096]).unwrap();
        server.write_all(&bytes).unwrap();
        bench.until_down(word);
    }
}
