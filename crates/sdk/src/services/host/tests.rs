//! Tests requests and answers with the other end of the socket as the service.

use std::os::fd::AsFd as _;

use super::*;

/// The services, and the other end of the storage's socket.
fn connected() -> (Services, Packets) {
    let mut services = Services::from_names(&["storage".into()]);
    let (ours, theirs) = Packets::passing_pair().unwrap();
    services.connect("storage", ours.into_fd(), None);
    assert_eq!(received(&mut services), [(Outcome::Up as u8, 0)]);
    (services, theirs)
}

/// The outcomes and requests of all answers, which the app handles.
fn received(services: &mut Services) -> Vec<(u8, u64)> {
    let answers = services.lend_answers();
    let count = answers.len();
    let received = answers.iter().map(|record| {
        assert_eq!(record[40], Service::Storage as u8);
        (record[41], u64::from_le_bytes(*record[32..].first_chunk().unwrap()))
    });
    let received = received.collect();
    services.give_back(answers, count);
    received
}

fn answer(id: u64, more: u8, body: &[u8]) -> Vec<u8> {
    [&id.to_le_bytes(), &[more][..], body].concat()
}

#[test]
fn request_is_sent_at_the_end_of_its_batch() {
    let (mut services, theirs) = connected();
    let id = services.ask(Service::Storage, b"what").unwrap();
    let mut room = [0; 64];
    assert!(matches!(theirs.receive(&mut room), Err(PacketError::WouldBlock)), "the batch goes on");
    services.send();
    let (size, _) = theirs.receive(&mut room).unwrap();
    assert_eq!(room[..size], [&id.0.to_le_bytes(), &b"what"[..]].concat());
    theirs.send(&answer(id.0, 0, b"that")).unwrap();
    services.exchange();
    assert_eq!(received(&mut services), [(Outcome::Answered as u8, id.0)]);
    assert!(services.clients[0].pending.is_empty());
}

#[test]
fn unnamed_service_is_refused_and_absent_one_is_unavailable() {
    let mut services = Services::from_names(&["storage".into()]);
    assert_eq!(services.ask(Service::Broker, b""), Err(AskError::NotNamed));
    let id = services.ask(Service::Storage, b"").unwrap();
    services.send();
    assert_eq!(received(&mut services), [(Outcome::Unavailable as u8, id.0)]);
}

#[test]
fn requests_of_an_ended_service_are_unavailable() {
    let (mut services, theirs) = connected();
    let ids: Vec<u64> = (0..3).map(|_| services.ask(Service::Storage, b"x").unwrap().0).collect();
    services.send();
    theirs.send(&answer(ids[1], 0, b"")).unwrap();
    drop(theirs);
    services.exchange();
    let gone = Outcome::Unavailable as u8;
    let expected = [(Outcome::Answered as u8, ids[1]), (gone, ids[0]), (gone, ids[2])];
    assert_eq!(received(&mut services), expected);
    let (ours, theirs) = Packets::pair().unwrap();
    services.connect("storage", ours.into_fd(), None);
    let id = services.ask(Service::Storage, b"again").unwrap();
    assert!(!ids.contains(&id.0));
    services.send();
    assert!(theirs.receive(&mut [0; 64]).is_ok());
    assert_eq!(received(&mut services), [(Outcome::Up as u8, 0)]);
}

#[test]
fn answer_that_was_not_announced_closes_socket() {
    let (mut services, theirs) = connected();
    let id = services.ask(Service::Storage, b"watch").unwrap().0;
    for more in [1, 1, 0, 0] {
        theirs.send(&answer(id, more, b"")).unwrap();
    }
    services.exchange();
    let answered = (Outcome::Answered as u8, id);
    assert_eq!(received(&mut services), [answered; 3]);
    assert!(services.clients[0].socket.is_none(), "the third did not announce a fourth");
}

#[test]
fn malformed_answer_closes_the_socket() {
    for packet in [&b"short"[..], &answer(77, 0, b""), &vec![0; ANSWER_HEAD + MAX_MESSAGE + 1]] {
        let (mut services, theirs) = connected();
        let id = services.ask(Service::Storage, b"").unwrap();
        services.send();
        theirs.send(packet).unwrap();
        services.exchange();
        assert_eq!(received(&mut services), [(Outcome::Unavailable as u8, id.0)]);
    }
}

#[test]
fn invalid_answer_has_its_own_reason() {
    let (mut client, mut inbox) = (ServiceClient::new(Service::Storage), Inbox::default());
    let mut why = |answer: &[u8]| client.accept_answer(answer, None, &mut inbox).unwrap_err();
    assert!(matches!(why(b"short"), InvalidAnswer::Malformed));
    assert!(matches!(why(&answer(77, 0, b"")), InvalidAnswer::NotPending));
}

#[test]
fn requests_beyond_the_limit_are_refused() {
    let (mut services, _theirs) = connected();
    for _ in 0..MAX_WAITING {
        services.ask(Service::Storage, &vec![0; MAX_MESSAGE]).unwrap();
        services.send();
    }
    assert_eq!(services.ask(Service::Storage, b""), Err(AskError::TooMany));
    assert!(!services.clients[0].to_send.is_empty(), "the socket holds less than that");
    let wants_out = services.fds().count();
    assert_eq!(wants_out, 1);
}

#[test]
fn descriptor_of_an_answer_is_taken_once_or_closed() {
    let (mut services, theirs) = connected();
    let (probe, passed) = Packets::pair().unwrap();
    for take in [true, false] {
        let id = services.ask(Service::Storage, b"").unwrap();
        theirs.send_with(&answer(id.0, 0, b""), passed.as_fd()).unwrap();
        services.exchange();
        if take {
            assert!(services.take_fd(id).is_some());
            assert!(services.take_fd(id).is_none());
        }
        received(&mut services);
        assert!(services.take_fd(id).is_none());
    }
    drop(passed);
    assert!(matches!(probe.receive(&mut [0; 8]), Err(PacketError::Closed)), "one is still open");
}

/// The topology's client, the other end of its socket, and the writer of its table.
fn attached() -> (Services, Packets, sys::table::TableWriter) {
    let mut services = Services::from_names(&["topology".into()]);
    let slots = Service::Topology.table_slots().unwrap();
    let memory = sys::table::memory(slots).unwrap();
    let writer = sys::table::TableWriter::map(&memory, slots).unwrap();
    let (ours, theirs) = Packets::pair().unwrap();
    services.connect("topology", ours.into_fd(), Some(&memory));
    (services, theirs, writer)
}

/// The kinds of all records, with the news in them, which the app handles.
fn news(services: &mut Services) -> Vec<(u16, u8)> {
    let records = services.lend_answers();
    let kind = |record: &[u8]| (u16::from_le_bytes([record[4], record[5]]), record[41]);
    let news = records.iter().map(kind).collect();
    let count = records.len();
    services.give_back(records, count);
    news
}

#[test]
fn table_is_read_once_the_service_answers_the_watch() {
    let (mut services, theirs, mut writer) = attached();
    writer.write(5, &[7; 7]);
    writer.write(300, &[8; 7]);
    let mut room = [0; 64];
    let (size, _) = theirs.receive(&mut room).unwrap();
    assert_eq!(room[8..size], [WATCH]);
    let id = u64::from_le_bytes(*room.first_chunk().unwrap());
    assert_eq!(services.read_table(Service::Topology, 0, &mut []), None, "changes could be missed");
    theirs.send(&answer(id, 1, &[NewsKind::Attached as u8])).unwrap();
    services.exchange();
    let (service, table) = (RecordKind::Service as u16, RecordKind::Table as u16);
    let attached = NewsKind::Attached as u8;
    assert_eq!(news(&mut services), [(service, Outcome::Up as u8), (table, attached)]);
    let mut records = vec![[0; 7]; 301];
    assert_eq!(services.read_table(Service::Topology, 0, &mut records), Some(2));
    assert_eq!([records[4], records[5], records[300]], [[0; 7], [7; 7], [8; 7]]);
    assert_eq!(services.read_table(Service::Topology, u32::MAX, &mut records[..2]), Some(2));
    theirs.send(&answer(id, 1, &[NewsKind::Rescan as u8])).unwrap();
    drop(theirs);
    services.exchange();
    let (rescan, gone) = (NewsKind::Rescan as u8, NewsKind::Gone as u8);
    assert_eq!(news(&mut services), [(table, rescan), (table, gone)]);
    assert_eq!(services.read_table(Service::Topology, 0, &mut []), None);
}

#[test]
fn service_with_a_table_that_breaks_the_protocol_is_disconnected() {
    for body in [&[NewsKind::Changed as u8][..], &[NewsKind::Gone as u8], &[9], &[]] {
        let (mut services, theirs, _writer) = attached();
        let mut room = [0; 64];
        theirs.receive(&mut room).unwrap();
        theirs.send(&answer(1, 1, body)).unwrap();
        services.exchange();
        assert!(services.clients[0].socket.is_none() && news(&mut services).is_empty());
    }
}
