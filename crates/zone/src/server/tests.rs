//! Tests the provider's side with the other ends of the sockets as clients.

use control::service::ClientRights;
use sdk::services::table::{CHANGE_SIZE, WORDS};
use sys::packets::Packets;
use sys::table::TableReader;

use super::*;

const SLOT: Slot = [1; WORDS];

fn server() -> (Server, TableReader) {
    let slots = Service::Topology.table_slots().unwrap();
    let memory = sys::table::memory(slots).unwrap();
    let server = Server::new(Service::Topology, &memory).unwrap();
    (server, TableReader::map(&memory, slots).unwrap())
}

fn client(server: &mut Server, rights: &[&str]) -> Packets {
    let (ours, theirs) = Packets::pair().unwrap();
    let names = rights.iter().map(|it| (*it).to_owned()).collect();
    let rights = ClientRights { names, ..ClientRights::default() };
    let client = ServiceClient { app: 7, name: "client".into(), rights };
    server.connect(client, theirs.into_fd());
    ours
}

fn send(client: &Packets, server: &mut Server, id: u64, request: &[u8]) {
    client.send(&[&id.to_le_bytes(), request].concat()).unwrap();
    server.exchange();
}

/// The next answer, without its request's number.
fn answer(client: &Packets) -> Option<Vec<u8>> {
    let mut room = vec![0; 40 * 1024];
    let (size, _) = client.receive(&mut room).ok()?;
    room.truncate(size);
    Some(room.split_off(8))
}

#[test]
fn watcher_gets_the_changes_of_each_batch() {
    let (mut server, table) = server();
    server.publish(3, &SLOT);
    server.notify();
    let client = client(&mut server, &["topology.read"]);
    send(&client, &mut server, 9, &[WATCH]);
    assert_eq!(answer(&client), Some(vec![1, NewsKind::Attached as u8]));
    assert_eq!(table.read(3), SLOT);
    assert!(server.publish(3, &EMPTY) && server.publish(4, &SLOT) && server.publish(4, &SLOT));
    assert_eq!(answer(&client), None, "the batch goes on");
    server.notify();
    let news = answer(&client).unwrap();
    assert_eq!(news[..2], [1, NewsKind::Changed as u8]);
    assert_eq!(news.len(), 2 + 2 * CHANGE_SIZE, "the third call changed nothing");
    let first = Change { slot: 3, before: SLOT, after: EMPTY };
    assert_eq!(news[2..2 + CHANGE_SIZE], first.to_bytes());
}

#[test]
fn client_without_the_right_gets_no_changes() {
    let (mut server, _) = server();
    let client = client(&mut server, &["hosts.read"]);
    send(&client, &mut server, 1, &[WATCH]);
    assert_eq!(answer(&client), Some(vec![0, NewsKind::Gone as u8]));
    server.publish(0, &SLOT);
    server.notify();
    assert_eq!(answer(&client), None);
}

#[test]
fn slow_client_gets_one_rescan_once_it_reads() {
    let (mut server, _) = server();
    let client = client(&mut server, &[OPERATOR]);
    send(&client, &mut server, 1, &[WATCH]);
    assert!(answer(&client).is_some());
    for number in 1..200_000_u64 {
        server.publish(u32::try_from(number % 1_000).unwrap(), &[number; WORDS]);
        if number % 100 == 0 {
            server.notify();
        }
    }
    let queued = server.clients.waiting();
    assert!((1..=MOST_QUEUED).contains(&queued), "{queued}");
    let mut last = Vec::new();
    while let Some(news) = answer(&client) {
        last = news;
        server.exchange();
    }
    assert_eq!(last, [1, NewsKind::Rescan as u8]);
    server.publish(0, &SLOT);
    server.notify();
    assert_eq!(answer(&client).unwrap()[1], NewsKind::Changed as u8, "it follows again");
}

#[test]
fn batch_with_too_many_changes_is_a_rescan() {
    let (mut server, _) = server();
    let client = client(&mut server, &["topology.read"]);
    send(&client, &mut server, 1, &[WATCH]);
    assert!(answer(&client).is_some());
    (0..=u32::try_from(MOST_PENDING).unwrap())
        .for_each(|slot| assert!(server.publish(slot, &SLOT)));
    server.notify();
    assert_eq!(answer(&client), Some(vec![1, NewsKind::Rescan as u8]));
}

#[test]
fn other_requests_reach_the_app_which_answers_them() {
    let (mut server, _) = server();
    let client = client(&mut server, &[]);
    send(&client, &mut server, 5, &[REQUEST_OF_APP, b'x']);
    let records = server.lend();
    let kinds: Vec<u8> = records.iter().map(|record| record[40]).collect();
    assert_eq!(kinds, [ClientNews::Connected as u8, ClientNews::Request as u8]);
    server.give_back(Gathered::default());
    let request = serving::ClientRequest { client: serving::ClientId(0), id: 5 };
    server.answer(request, false, b"y");
    assert_eq!(answer(&client), Some(vec![0, b'y']));
    drop(client);
    server.exchange();
    assert_eq!(server.lend().iter().map(|record| record[40]).collect::<Vec<_>>(), [2]);
}

#[test]
fn flood_of_requests_waits_in_the_socket() {
    let (mut server, _) = server();
    let client = client(&mut server, &[]);
    let long = [&1_u64.to_le_bytes()[..], &[REQUEST_OF_APP], &vec![7; 30_000]].concat();
    for _ in 0..1_000 {
        while client.send(&long).is_ok() {}
        server.exchange();
    }
    assert!(server.records().size() < MAX_INBOX + REQUESTS_PER_TURN * 31_000);
    assert_eq!(server.fds().count(), 0, "the app has enough to do");
}

#[test]
fn slots_outside_the_table_are_refused() {
    let (mut server, _) = server();
    assert!(!server.publish(1 << 17, &SLOT) && !server.publish(u32::MAX, &SLOT));
}

fn http_interface(server: &mut Server) -> Packets {
    let (ours, theirs) = Packets::pair().unwrap();
    server.connect(ServiceClient::http_interface(), theirs.into_fd());
    ours
}

/// The kinds and bodies of the records that wait for the app.
fn records(server: &Server) -> Vec<(u16, Vec<u8>)> {
    let body = |bytes: &[u8]| bytes[sdk::abi::RECORD_HEAD..].to_vec();
    let kind = |bytes: &[u8]| u16::from_le_bytes([bytes[4], bytes[5]]);
    let records = server.records().records();
    records.map(|it| (kind(it.bytes()), body(it.bytes()))).collect()
}

#[test]
fn only_the_http_interface_sends_http_requests() {
    let (mut server, _) = server();
    let other = client(&mut server, &["topology.read", "http.serve", "http"]);
    let northbound = http_interface(&mut server);
    server.lend();
    send(&other, &mut server, 1, &[HTTP_REQUEST, 7]);
    assert_eq!(records(&server), []);
    assert_eq!(answer(&other), Some(vec![0, NewsKind::Gone as u8]));
    send(&northbound, &mut server, 2, &[HTTP_REQUEST, 8]);
    send(&northbound, &mut server, 3, &[REQUEST_OF_APP, 9]);
    send(&northbound, &mut server, 4, &[WATCH]);
    assert_eq!(records(&server), [(RecordKind::Http as u16, vec![8])]);
}

#[test]
fn app_without_a_service_has_the_http_interface_as_its_only_client() {
    let mut server = Server::default();
    let other = client(&mut server, &["operator"]);
    assert!(matches!(other.receive(&mut [0; 8]), Err(sys::packets::PacketError::Closed)));
    assert!(!server.publish(0, &SLOT));
    let northbound = http_interface(&mut server);
    send(&northbound, &mut server, 5, &[HTTP_REQUEST, 6]);
    assert_eq!(records(&server).len(), 1);
    drop(northbound);
    server.lend();
    server.exchange();
    assert_eq!(records(&server), [], "the app does not know this client");
}

#[test]
fn longest_answers_to_all_requests_wait() {
    let mut server = Server::default();
    let northbound = http_interface(&mut server);
    send(&northbound, &mut server, 0, &[HTTP_REQUEST]);
    let client = serving::ClientId(0);
    let parts = MOST_REQUESTS * MOST_ANSWER_BODY / 32_768;
    for _ in 0..parts {
        server.answer(serving::ClientRequest { client, id: 0 }, true, &vec![0; 32_768]);
    }
    let mut received = 0;
    loop {
        server.exchange();
        let before = received;
        while answer(&northbound).is_some() {
            received += 1;
        }
        if received == before {
            break;
        }
    }
    assert_eq!(received, parts);
}
