//! An app port whose app runs in this process: batches, their messages, and a panic.

use std::cell::Cell;

use dal::SwitchInfo;
use openflow::{Dpid, Version};
use sdk::abi::RecordKind;
use sdk::abi::host::HostedApp;
use sdk::{App, Event, Network, PacketIn};

use sys::packets::{PacketError, Packets};

use super::super::guest;
use super::super::guest::bytes::BYTES;
use super::super::messages::Messages;
use super::*;
use crate::ids::AppSlot;
use crate::pool::idle;
use crate::record::switch_record;
use crate::switch::Switch;
use control::app::AppId;
use control::kernel::{HostedCode, Tuning};

thread_local! {
    /// How often the app was woken.
    static WOKEN: Cell<u32> = const { Cell::new(0) };
    /// How many answers of the storage the app got.
    static ANSWERS: Cell<u32> = const { Cell::new(0) };
}

/// Answers a packet whose first byte is even by itself, stops one of 0, panics over 13. Asks the storage for a packet of 99,
/// and answers its answer.
struct Echo;

impl App for Echo {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        if let Event::Storage { answer, .. } = event {
            ANSWERS.set(ANSWERS.get() + 1);
            assert!(answer.is_ok(), "a service that ended");
        }
        let Event::PacketIn(PacketIn { switch, message, .. }) = event else { return };
        let number = message[0];
        if number == 99 {
            network.storage().get(b"key").unwrap();
        }
        assert_ne!(number, 13, "an unlucky number");
        if number % 2 == 0 {
            let packet_out = openflow::PacketOut::new(openflow::PortNo(1), &[], message);
            network.packet_out(switch, &packet_out).unwrap();
        }
        if number == 0 {
            network.stop();
        }
        network.wake_at(std::time::Duration::from_nanos(77));
    }

    fn on_wake(&mut self, _network: &mut Network<'_>) {
        WOKEN.set(WOKEN.get() + 1);
    }
}

impl AppPort {
    /// Makes an instance of an app that is linked into the tests.
    pub(crate) fn host_linked<A: App>(&mut self) {
        self.host_by(|host| Ok(Box::new(HostedApp::linked::<A>(host).unwrap()))).unwrap();
    }
}

struct Bench {
    app_port: AppPort,
    switch: Switch,
    /// The packets that it sent in its last call.
    sent: Vec<u8>,
    verdicts: Vec<Verdict>,
}

impl Bench {
    fn live() -> Self {
        let mut bench = Self::with(Tuning { ring: 64 * 1024, ..Tuning::default() });
        assert_eq!(bench.call(), Ok(3), "the snapshot, with the switch in it");
        bench
    }

    /// With a snapshot that waits.
    fn with(tuning: Tuning) -> Self {
        Self::hosting(tuning, AppPort::host_linked::<Echo>)
    }

    /// With a snapshot that waits for an instance that `host` makes.
    fn hosting(tuning: Tuning, host: impl FnOnce(&mut AppPort)) -> Self {
        let mut app_port = AppPort::new(
            AppId(1),
            "echo".into(),
            AppSlot::new(0),
            tuning,
            idle(1).shared_quota(AppId(1)),
        );
        host(&mut app_port);
        let info = SwitchInfo {
            version: Version::V1_3,
            dpid: Dpid(7),
            n_tables: 1,
            n_buffers: 0,
            capabilities: openflow::Capabilities(0),
            actions: 0,
            no_packets: None,
            ports: Vec::new(),
        };
        let switch = Switch::new(info, 1);
        let mut bench = Self { app_port, switch, sent: Vec::new(), verdicts: Vec::new() };
        bench.app_port.pump(std::iter::once(&mut bench.switch), |_, _| true);
        bench
    }

    fn packet(&mut self, number: u8, ticket: u64) -> bool {
        let record = switch_record(RecordKind::PacketIn, &self.switch);
        let ticket = Ticket(ticket);
        self.app_port.packet_in(&mut self.switch, &record, &[number; 20], ticket)
    }

    fn call(&mut self) -> Result<usize, String> {
        let called = self.app_port.call(0, &mut self.verdicts, Instant::now()).unwrap();
        let mut messages = Messages::default();
        self.sent.clear();
        while called.is_ok()
            && self.app_port.receive(&mut messages, &mut self.verdicts).unwrap() > 0
        {
            let (messages, bytes) = messages.parts();
            for message in messages {
                assert_eq!((message.dpid, message.epoch), (7, 1));
                for range in message.ranges() {
                    let packet_out = openflow::PacketOut::decode(&bytes[range]);
                    self.sent.push(packet_out.unwrap().data[0]);
                }
            }
        }
        called
    }

    fn sent(&self) -> Vec<u8> {
        self.sent.clone()
    }
}

/// A bench whose app is connected to the storage, and the storage's end of the socket.
fn with_storage() -> (Bench, Packets) {
    let mut bench = Bench::live();
    let host = bench.app_port.delivery.hosted_mut().unwrap().app.host();
    host.services = Services::from_names(&["storage".to_owned()]);
    let (ours, theirs) = Packets::pair().unwrap();
    bench.app_port.connect_service("storage", ours.into_fd(), None);
    assert!(bench.app_port.has_answers(), "the service is up");
    assert_eq!(bench.app_port.call_with_answers(0), Some(Ok(1)));
    assert!(!bench.app_port.has_answers());
    (bench, theirs)
}

/// The code of an app of the test hosting.
fn bytes(list: &[u8]) -> Arc<dyn Artifact> {
    let object = guest::Code::Sealed(sys::shm::sealed_copy("object", list).unwrap());
    let hostings = guest::Hostings { further: &[] };
    hostings.load(BYTES, object, &HostedCode::default()).unwrap().into()
}

/// Makes an instance of an app of the test hosting.
fn host_bytes(app_port: &mut AppPort, list: &[u8]) -> Result<(), String> {
    app_port.host(&bytes(list), b"", LogLevel::Info, &[])
}

#[test]
fn app_of_another_hosting_runs_and_fails_as_others_do() {
    let tuning = Tuning { ring: 64 * 1024, ..Tuning::default() };
    let mut bench = Bench::hosting(tuning, |app_port| host_bytes(app_port, &[2, 5]).unwrap());
    assert_eq!(bench.app_port.version(), Some("2"));
    assert_eq!(bench.call(), Ok(3), "the snapshot, with the switch in it");
    for number in [2, 3, 5] {
        assert!(bench.packet(number, 0));
    }
    assert_eq!((bench.call(), bench.sent()), (Ok(3), vec![2, 5]));
    for number in [2, 13] {
        assert!(bench.packet(number, 0));
    }
    assert!(bench.call().is_err() && bench.sent().is_empty(), "a batch has all effects or none");
    bench.app_port.disable();
    assert!(bench.app_port.call(0, &mut bench.verdicts, Instant::now()).is_none());
    assert!(!bench.app_port.is_attached());
    assert_eq!(host_bytes(&mut bench.app_port, &[]), Err("it has no bytes".into()));
}

/// The first bytes of the packets that wait, in their order.
fn waiting_packets(bench: &Bench) -> Vec<u8> {
    let records = bench.app_port.delivery.hosted().unwrap().records.iter();
    let bodies = records.filter_map(|record| crate::app_port::split(record));
    let packets =
        bodies.filter(|(words, _)| words[0] >> 32 & 0xffff == RecordKind::PacketIn as u64);
    packets.map(|(_, body)| body[0]).collect()
}

#[test]
fn contained_app_is_replaced_and_loses_one_record() {
    let tuning = Tuning { ring: 64 * 1024, ..Tuning::default() };
    let mut bench = Bench::hosting(tuning, |app_port| host_bytes(app_port, &[2, 5, 200]).unwrap());
    assert_eq!(bench.call(), Ok(3), "the snapshot");
    for number in [2, 13, 5] {
        assert!(bench.packet(number, 0));
    }
    let now = Instant::now();
    assert!(bench.call().is_err());
    assert_eq!(bench.app_port.end_instance(now), Some(None), "it may have been any of the three");
    assert_eq!(bench.app_port.successor_due(), Some(now));
    assert!(!bench.app_port.is_attached());
    assert!(bench.packet(2, 0), "it waits");
    let mut handled = Vec::new();
    let mut culprit = None;
    bench.app_port.host_successor(now).unwrap();
    for _ in 0..10 {
        bench.app_port.pump(std::iter::once(&mut bench.switch), |_, _| true);
        handled.extend(waiting_packets(&bench));
        if bench.call().is_err() {
            culprit = bench.app_port.end_instance(now).unwrap();
            bench.app_port.host_successor(now).unwrap();
        }
    }
    assert_eq!(culprit.map(|record| record[sdk::abi::RECORD_HEAD]), Some(13));
    assert_eq!(handled, [2, 13, 5, 2], "one at a time, in their order");
    assert_eq!(bench.app_port.waiting_here(), 0);
    assert!(bench.packet(5, 0));
    assert_eq!((bench.call(), bench.sent()), (Ok(1), vec![5]));
}

#[test]
fn app_that_is_not_contained_has_no_successor() {
    let mut bench = Bench::live();
    assert!(bench.packet(13, 0));
    assert!(bench.call().is_err());
    assert_eq!(bench.app_port.end_instance(Instant::now()), None);
    assert_eq!(bench.app_port.successor_due(), None);
}

#[test]
fn disabled_app_has_no_further_instance() {
    let tuning = Tuning { ring: 64 * 1024, ..Tuning::default() };
    let mut bench = Bench::hosting(tuning, |app_port| host_bytes(app_port, &[200]).unwrap());
    assert_eq!(bench.call(), Ok(3));
    assert!(bench.packet(13, 0));
    assert!(bench.call().is_err());
    bench.app_port.end_instance(Instant::now());
    bench.app_port.disable();
    assert_eq!(bench.app_port.successor_due(), None);
    let mut record = Vec::new();
    assert!(bench.app_port.backlog.oldest(&mut record).is_some(), "the record waits for the zone");
}

#[test]
fn request_to_a_service_is_answered() {
    let (mut bench, storage) = with_storage();
    assert!(bench.packet(99, 0));
    let mut room = [0; 64];
    assert!(storage.receive(&mut room).is_err(), "the app was not called");
    assert_eq!(bench.call(), Ok(1));
    storage.receive(&mut room).unwrap();
    let id = &room[..8];
    storage
        .send(&[id, &[0], &sdk::services::storage::Answer::Nothing.encode()[..]].concat())
        .unwrap();
    bench.app_port.exchange_with_services();
    assert!(bench.app_port.has_answers());
    assert_eq!(bench.app_port.call_with_answers(0), Some(Ok(1)));
    assert_eq!(ANSWERS.get(), 1);
}

#[test]
fn failed_app_leaves_its_services() {
    let (mut bench, storage) = with_storage();
    assert!(bench.packet(99, 0));
    assert_eq!(bench.call(), Ok(1));
    storage.receive(&mut [0; 64]).unwrap();
    bench.app_port.disable();
    assert!(matches!(storage.receive(&mut [0; 64]), Err(PacketError::Closed)));
    assert_eq!(bench.app_port.call_with_answers(0), None, "it is not called again");
}

#[test]
fn panic_over_an_answer_is_reported() {
    let (mut bench, storage) = with_storage();
    assert!(bench.packet(99, 0));
    assert_eq!(bench.call(), Ok(1));
    drop(storage);
    bench.app_port.exchange_with_services();
    assert!(bench.app_port.call_with_answers(0).unwrap().is_err(), "it panicked");
}

#[test]
fn messages_of_a_batch_are_complete_after_its_call() {
    let mut bench = Bench::live();
    for number in [2, 3, 4] {
        assert!(bench.packet(number, 0));
    }
    assert_eq!(bench.app_port.waiting_here(), 3);
    assert_eq!(bench.call(), Ok(3));
    assert_eq!(bench.sent(), [2, 4]);
    assert_eq!((bench.app_port.waiting_here(), bench.app_port.wake_at_ns()), (0, Some(77)));
    assert_eq!(bench.call(), Ok(0), "a wake-up");
    assert_eq!((bench.sent(), bench.app_port.wake_at_ns()), (vec![], None));
}

#[test]
fn batch_is_bounded_by_the_operators_setting() {
    let mut bench = Bench::with(Tuning { batch: 2, ..Tuning::default() });
    assert_eq!([bench.call(), bench.call()], [Ok(2), Ok(1)], "the snapshot, with the switch in it");
    for (number, waits) in [(2, false), (4, true), (6, true)] {
        assert!(bench.packet(number, 0));
        assert_eq!(bench.app_port.batch_waits(), waits, "{number}");
    }
    assert_eq!((bench.call(), bench.sent()), (Ok(2), vec![2, 4]));
    assert_eq!((bench.call(), bench.sent()), (Ok(1), vec![6]));
}

#[test]
fn timer_expires_while_records_always_wait() {
    let mut bench = Bench::live();
    for (now_ns, woken) in [(0, 0), (76, 0), (77, 1), (78, 2)] {
        assert!(bench.packet(2, 0));
        let called = bench.app_port.call(now_ns, &mut bench.verdicts, Instant::now());
        assert_eq!((called, WOKEN.get()), (Some(Ok(1)), woken), "at {now_ns} ns");
    }
}

#[test]
fn verdicts_go_with_the_tickets_of_their_records() {
    let mut bench = Bench::live();
    for (number, ticket) in [(0, 5), (1, 0), (0, 0), (1, 6)] {
        assert!(bench.packet(number, ticket));
    }
    bench.call().unwrap();
    assert_eq!(bench.verdicts, [(Ticket(5), true), (Ticket(6), false)]);
}

#[test]
fn full_outbox_splits_a_batch_without_repeats() {
    let mut bench = Bench::live();
    let record = switch_record(RecordKind::PacketIn, &bench.switch);
    for number in 0..5 {
        let body = vec![number * 2 + 2; 7_000];
        assert!(bench.app_port.packet_in(&mut bench.switch, &record, &body, Ticket::NONE));
    }
    assert_eq!(bench.call(), Ok(5), "it has room");
    let mut sent = Vec::new();
    for number in 0..5 {
        let body = vec![number * 2 + 2; 7_000];
        assert!(bench.app_port.packet_in(&mut bench.switch, &record, &body, Ticket::NONE));
    }
    let hosted = bench.app_port.delivery.hosted_mut().unwrap();
    hosted.app.host().outbox = Outbox::with_capacity(30_000);
    while bench.app_port.waiting_here() > 0 {
        bench.call().unwrap();
        sent.extend(bench.sent());
    }
    assert_eq!(sent, [2, 4, 6, 8, 10]);
}

#[test]
fn panic_voids_the_batch_for_a_zone() {
    let mut bench = Bench::live();
    for number in [2, 13, 4] {
        assert!(bench.packet(number, 0));
    }
    let why = bench.call().unwrap_err();
    assert_eq!(why, "the app panicked or gave up in on_batch");
    bench.app_port.disable();
    assert!(!bench.app_port.is_attached());
    assert!(bench.packet(6, 0), "waits as for any app that is down");
    let mut numbers = Vec::new();
    let mut record = Vec::new();
    while let Some((_, seen)) = bench.app_port.backlog.oldest(&mut record) {
        numbers.push((record[sdk::abi::RECORD_HEAD], seen));
        bench.app_port.backlog.drop_oldest();
    }
    assert_eq!(numbers, [(2, true), (13, true), (4, true), (6, false)]);
}

#[test]
fn full_queue_still_takes_announcements() {
    let mut bench = Bench::live();
    let mut taken = 0;
    while bench.packet(1, 0) {
        taken += 1;
    }
    assert_eq!(taken, 64 * 1024 * 5 / 8 / (48 + 24));
    let before = bench.app_port.waiting_here();
    bench.app_port.switch_down(&bench.switch);
    assert_eq!(bench.app_port.waiting_here(), before + 1);
}

#[test]
fn run_ends_where_the_app_must_be_called() {
    let mut bench = Bench::live();
    let (packet_in, mut bytes) =
        (openflow::PacketIn::new(openflow::PortNo(1), &[7; 5000]), Vec::new());
    for _ in 0..6 {
        openflow::append(&mut bytes, |out| packet_in.encode(Version::V1_3, 0, out)).unwrap();
    }
    let one = bytes.len() / 6;
    // A quarter of 64 KiB: three of them.
    assert_eq!(bench.app_port.packet_ins(&mut bench.switch, &mut bytes), 3 * one);
    assert!(!bench.app_port.batch_waits(), "there is room for a short one");
    assert_eq!(bench.app_port.packet_ins(&mut bench.switch, &mut bytes[3 * one..]), 0);
    let message = &bytes[3 * one..4 * one];
    let view = openflow::PacketIn::decode(message).unwrap();
    let record = crate::record::packet_in_record(&bench.switch, &view, message).unwrap();
    assert!(bench.app_port.packet_in(&mut bench.switch, &record, message, Ticket::NONE));
    assert!(bench.app_port.batch_waits());
    assert_eq!(bench.app_port.packet_ins(&mut bench.switch, &mut bytes[4 * one..]), 0);
    assert_eq!(bench.call(), Ok(4));
    assert_eq!(bench.app_port.packet_ins(&mut bench.switch, &mut bytes[4 * one..]), 2 * one);
}
