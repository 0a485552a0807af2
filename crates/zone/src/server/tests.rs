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
