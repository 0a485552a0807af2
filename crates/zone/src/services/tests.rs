//! The zone's end of a service's socket, and a service that is played.

use std::os::fd::AsFd as _;

use super::*;

/// The services, and the other end of the storage's socket.
fn connected() -> (Services, Packets) {
    let mut services = Services::named(&["storage".into()]);
    let (ours, theirs) = Packets::pair().unwrap();
    services.connect("storage", ours.into_fd());
    assert_eq!(told(&mut services), [(Outcome::Up as u8, 0)]);
    (services, theirs)
}

/// What the application is told: the outcomes and their requests. It handles all.
fn told(services: &mut Services) -> Vec<(u8, u64)> {
    let answers = services.lend_answers();
    let count = answers.len();
    let told = answers.iter().map(|record| {
        assert_eq!(record[40], Service::Storage as u8);
        (record[41], u64::from_le_bytes(*record[32..].first_chunk().unwrap()))
    });
    let told = told.collect();
    services.give_back(answers, count);
    told
}

fn answer(id: u64, more: u8, body: &[u8]) -> Vec<u8> {
    [&id.to_le_bytes(), &[more][..], body].concat()
}

#[test]
fn request_is_sent_with_its_batch_and_its_answer_is_a_record() {
    let (mut services, theirs) = connected();
    let id = services.ask(Service::Storage, b"what").unwrap();
    let mut room = [0; 64];
    assert!(matches!(theirs.receive(&mut room), Err(PacketError::WouldBlock)), "the batch goes on");
    services.send();
    let (size, _) = theirs.receive(&mut room).unwrap();
    assert_eq!(room[..size], [&id.0.to_le_bytes(), &b"what"[..]].concat());
    theirs.send(&answer(id.0, 0, b"that")).unwrap();
    services.hear();
    assert_eq!(told(&mut services), [(Outcome::Answered as u8, id.0)]);
    assert!(services.lines[0].waiting.is_empty());
}

#[test]
fn service_that_is_not_named_cannot_be_asked_and_one_that_is_not_there_is_unavailable() {
    let mut services = Services::named(&["storage".into()]);
    assert_eq!(services.ask(Service::Broker, b""), Err(AskError::NotNamed));
    let id = services.ask(Service::Storage, b"").unwrap();
    services.send();
    assert_eq!(told(&mut services), [(Outcome::Unavailable as u8, id.0)]);
}

#[test]
fn requests_of_a_service_that_ends_are_unavailable_and_the_next_one_is_told() {
    let (mut services, theirs) = connected();
    let ids: Vec<u64> = (0..3).map(|_| services.ask(Service::Storage, b"x").unwrap().0).collect();
    services.send();
    theirs.send(&answer(ids[1], 0, b"")).unwrap();
    drop(theirs);
    services.hear();
    let gone = Outcome::Unavailable as u8;
    let expected = [(Outcome::Answered as u8, ids[1]), (gone, ids[0]), (gone, ids[2])];
    assert_eq!(told(&mut services), expected);
    let (ours, theirs) = Packets::pair().unwrap();
    services.connect("storage", ours.into_fd());
    let id = services.ask(Service::Storage, b"again").unwrap();
    assert!(!ids.contains(&id.0));
    services.send();
    assert!(theirs.receive(&mut [0; 64]).is_ok());
    assert_eq!(told(&mut services), [(Outcome::Up as u8, 0)]);
}

#[test]
fn request_may_be_answered_again_only_if_the_answer_said_so() {
    let (mut services, theirs) = connected();
    let id = services.ask(Service::Storage, b"watch").unwrap().0;
    for more in [1, 1, 0, 0] {
        theirs.send(&answer(id, more, b"")).unwrap();
    }
    services.hear();
    let answered = (Outcome::Answered as u8, id);
    assert_eq!(told(&mut services), [answered; 3]);
    assert!(services.lines[0].socket.is_none(), "nobody had asked for the fourth");
}

#[test]
fn packet_that_is_no_answer_ends_the_socket() {
    for packet in [&b"short"[..], &answer(77, 0, b""), &vec![0; ANSWER_HEAD + MAX_MESSAGE + 1]] {
        let (mut services, theirs) = connected();
        let id = services.ask(Service::Storage, b"").unwrap();
        services.send();
        theirs.send(packet).unwrap();
        services.hear();
        assert_eq!(told(&mut services), [(Outcome::Unavailable as u8, id.0)]);
    }
}

#[test]
fn more_requests_than_may_wait_are_refused_also_if_the_service_reads_none() {
    let (mut services, _theirs) = connected();
    for _ in 0..MAX_WAITING {
        services.ask(Service::Storage, &vec![0; MAX_MESSAGE]).unwrap();
        services.send();
    }
    assert_eq!(services.ask(Service::Storage, b""), Err(AskError::TooMany));
    assert!(!services.lines[0].to_send.is_empty(), "the socket holds less than that");
    let wants_out = services.fds().count();
    assert_eq!(wants_out, 1);
}

#[test]
fn descriptor_of_an_answer_is_taken_once_and_closed_if_it_is_not() {
    let (mut services, theirs) = connected();
    let (probe, passed) = Packets::pair().unwrap();
    for take in [true, false] {
        let id = services.ask(Service::Storage, b"").unwrap();
        theirs.send_with(&answer(id.0, 0, b""), passed.as_fd()).unwrap();
        services.hear();
        if take {
            assert!(services.take(id).is_some());
            assert!(services.take(id).is_none());
        }
        told(&mut services);
        assert!(services.take(id).is_none());
    }
    drop(passed);
    assert!(matches!(probe.receive(&mut [0; 8]), Err(PacketError::Closed)), "one is still open");
}
