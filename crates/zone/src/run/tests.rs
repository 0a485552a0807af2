//! Tests the event loop of a zone with the kernel's ends of its rings.

use std::cell::RefCell;
use std::time::Duration;

use control::service::ServiceClient;
use control::zone::SwitchNumbers;
use openflow::{Header, Version};
use sdk::abi::Record;
use sdk::http::{HTTP_REQUEST, HttpRequest, Request, Response};
use sdk::services::host::Services;
use sdk::{App, Event, Network};
use sys::packets::Packets;
use sys::ring::{Down, KernelEnd, Room};

use super::*;

const CAPACITY: u32 = 4096;

thread_local! {
    /// The events that the app received: kind and datapath, 0 for the timer.
    static RECEIVED: RefCell<Vec<(u16, u64)>> = const { RefCell::new(Vec::new()) };
}

/// Answers each packet, and sets its timer once, at the first snapshot.
struct Echo;

impl App for Echo {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        let received = match event {
            Event::SnapshotBegin => (RecordKind::SnapshotBegin, 0),
            Event::SnapshotEnd => {
                network.wake_at(Duration::ZERO);
                (RecordKind::SnapshotEnd, 0)
            }
            Event::SwitchUp(switch) => (RecordKind::SwitchUp, switch.dpid.0),
            Event::PacketIn(packet_in) => {
                network.packet_out_for(&packet_in, &[]).unwrap();
                (RecordKind::PacketIn, packet_in.switch.dpid.0)
            }
            _ => return,
        };
        RECEIVED.with_borrow_mut(|all| all.push((received.0 as u16, received.1)));
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        RECEIVED.with_borrow_mut(|all| all.push((0, 0)));
        let to = sdk::Switch { dpid: openflow::Dpid(99), epoch: 1, version: Version::V1_3 };
        let packet_out = openflow::PacketOut::new(openflow::PortNo(1), &[], &[]);
        network.packet_out(to, &packet_out).unwrap();
    }
}

fn host() -> ZoneHost {
    let numbers = SwitchNumbers { band: (1, 65_535), groups: (0, 0), meters: (0, 0) };
    ZoneHost::new("echo".into(), numbers, Vec::new(), Services::from_names(&[]))
}

/// The zone, and the kernel's end of each ring.
struct Bench {
    zone: Zone,
    kernel: Vec<KernelEnd>,
    bells: Vec<Doorbell>,
}

impl Bench {
    fn new(rings: usize) -> Self {
        Self::of(HostedApp::linked::<Echo>(host()).unwrap(), rings)
    }

    fn of(app: HostedApp<ZoneHost>, rings: usize) -> Self {
        let mut bench = Self { zone: Zone::of(app), kernel: Vec::new(), bells: Vec::new() };
        bench.start_kernel(rings);
        bench
    }

    /// Passes the zone the rings of a kernel, the first or the next.
    fn start_kernel(&mut self, rings: usize) {
        let (_, hears) = DoorbellSender::new().unwrap();
        let mut fds = vec![hears];
        (self.kernel, self.bells) = (Vec::new(), Vec::new());
        for _ in 0..rings {
            let (end, ring_fds) = KernelEnd::create(CAPACITY).unwrap();
            let (bell, rings) = Doorbell::new().unwrap();
            fds.extend([ring_fds.up, ring_fds.down, rings]);
            self.kernel.push(end);
            self.bells.push(bell);
        }
        self.zone.use_rings(CAPACITY, fds).unwrap();
    }

    /// A bench whose app has received an empty snapshot and a timer event.
    fn after_snapshot(rings: usize) -> Self {
        let mut bench = Self::new(rings);
        bench.push(0, RecordKind::SnapshotBegin, 0);
        for ring in 1..rings {
            bench.push(ring - 1, RecordKind::SnapshotPart, 0);
        }
        bench.push(rings - 1, RecordKind::SnapshotEnd, 0);
        bench.work();
        for ring in 0..rings {
            bench.sent(ring);
        }
        bench
    }

    fn push(&mut self, ring: usize, kind: RecordKind, dpid: u64) -> bool {
        let record = Record::new(kind, Version::V1_3.wire(), dpid, 1);
        let pushed = self.kernel[ring].push(&record.words(), &[], Room::All);
        self.kernel[ring].publish();
        pushed
    }

    /// Lets the zone work until there is nothing to do. Returns the events that the app received.
    fn work(&mut self) -> Vec<(u16, u64)> {
        while self.zone.turn().unwrap() {}
        RECEIVED.take()
    }

    /// Takes the records of a down ring. Returns the number of handled records, and the datapaths of the messages.
    fn sent(&mut self, ring: usize) -> (u32, Vec<u64>) {
        let (mut done, mut sent, mut out) = (0, Vec::new(), Vec::new());
        while let Some(down) = self.kernel[ring].take(&mut out).unwrap() {
            match down {
                Down::Send { dpid, message, .. } => {
                    assert_eq!(Header::decode(message).unwrap().version, Version::V1_3.wire());
                    sent.push(dpid);
                }
                Down::Done(count) => done += count,
                Down::Stop(_) => panic!("it stops nothing"),
            }
        }
        self.kernel[ring].release();
        (done, sent)
    }
}

const BEGIN: (u16, u64) = (RecordKind::SnapshotBegin as u16, 0);
const END: (u16, u64) = (RecordKind::SnapshotEnd as u16, 0);
const WOKEN: (u16, u64) = (0, 0);

fn up(dpid: u64) -> (u16, u64) {
    (RecordKind::SwitchUp as u16, dpid)
}

fn packet(dpid: u64) -> (u16, u64) {
    (RecordKind::PacketIn as u16, dpid)
}

#[test]
fn snapshot_is_read_ring_after_ring_before_other_events() {
    let mut bench = Bench::new(3);
    bench.push(1, RecordKind::SwitchUp, 2);
    bench.push(1, RecordKind::SnapshotPart, 0);
    bench.push(1, RecordKind::PacketIn, 2);
    assert_eq!(bench.work(), [], "the first ring has no part yet");
    bench.push(0, RecordKind::SnapshotBegin, 0);
    bench.push(0, RecordKind::SwitchUp, 1);
    bench.push(0, RecordKind::SnapshotPart, 0);
    bench.push(0, RecordKind::PacketIn, 1);
    assert_eq!(bench.work(), [BEGIN, up(1), up(2)], "the last ring has no part yet");
    bench.push(2, RecordKind::SwitchUp, 3);
    assert_eq!(bench.work(), [up(3)]);
    bench.push(2, RecordKind::SnapshotEnd, 0);
    bench.push(2, RecordKind::PacketIn, 3);
    assert_eq!(bench.work(), [END, WOKEN, packet(1), packet(2), packet(3)]);
}

#[test]
fn batch_is_answered_by_the_ring_that_it_came_by() {
    let mut bench = Bench::after_snapshot(2);
    bench.push(1, RecordKind::PacketIn, 7);
    bench.push(1, RecordKind::PacketIn, 8);
    bench.push(0, RecordKind::PacketIn, 9);
    bench.work();
    assert_eq!(bench.sent(0), (1, vec![9]));
    assert_eq!(bench.sent(1), (2, vec![7, 8]));
}

#[test]
fn app_gets_at_most_the_configured_batch() {
    let mut bench = Bench::after_snapshot(1);
    bench.zone.batch = 2;
    for dpid in 1..=3 {
        bench.push(0, RecordKind::PacketIn, dpid);
    }
    assert!(bench.zone.turn().unwrap());
    assert_eq!(bench.sent(0).0, 2);
    assert_eq!(bench.work().len(), 3);
    assert_eq!(bench.sent(0).0, 1);
}

#[test]
fn wake_up_sends_by_the_first_ring() {
    let mut bench = Bench::new(2);
    bench.push(0, RecordKind::SnapshotBegin, 0);
    bench.push(0, RecordKind::SnapshotPart, 0);
    bench.push(1, RecordKind::SnapshotEnd, 0);
    assert_eq!(bench.work(), [BEGIN, END, WOKEN]);
    assert_eq!(bench.sent(0), (2, vec![99]));
    assert_eq!(bench.sent(1), (1, vec![]));
}

#[test]
fn timer_expires_though_a_ring_is_never_empty() {
    let mut bench = Bench::new(1);
    bench.push(0, RecordKind::SnapshotBegin, 0);
    bench.push(0, RecordKind::SnapshotEnd, 0);
    let turns = (0..10).position(|_| {
        bench.push(0, RecordKind::PacketIn, 1);
        assert!(bench.zone.turn().unwrap());
        RECEIVED.take().contains(&WOKEN)
    });
    assert_eq!(turns, Some(1), "in the turn after that in which it asked for it");
}

/// Sets its timer again each time, to expire at once.
struct AlwaysWaking;

impl App for AlwaysWaking {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        network.wake_at(Duration::ZERO);
        if let Event::PacketIn(packet_in) = event {
            RECEIVED.with_borrow_mut(|all| all.push(packet(packet_in.switch.dpid.0)));
        }
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        network.wake_at(Duration::ZERO);
        RECEIVED.with_borrow_mut(|all| all.push(WOKEN));
    }
}

#[test]
fn app_with_an_expired_timer_gets_its_packets() {
    let mut bench = Bench::of(HostedApp::linked::<AlwaysWaking>(host()).unwrap(), 1);
    bench.push(0, RecordKind::SnapshotBegin, 0);
    bench.push(0, RecordKind::SnapshotEnd, 0);
    for dpid in 1..=3 {
        (0..2).for_each(|_| assert!(bench.zone.turn().unwrap()));
        bench.push(0, RecordKind::PacketIn, dpid);
    }
    (0..2).for_each(|_| assert!(bench.zone.turn().unwrap()));
    let received = RECEIVED.take();
    assert_eq!(received, [WOKEN, packet(1), WOKEN, packet(2), WOKEN, packet(3), WOKEN]);
}

#[test]
fn full_ring_leaves_the_others_their_turns() {
    let mut bench = Bench::after_snapshot(2);
    bench.push(1, RecordKind::PacketIn, 2);
    let turns = (0..10).position(|_| {
        bench.push(0, RecordKind::PacketIn, 1);
        assert!(bench.zone.turn().unwrap());
        RECEIVED.take().contains(&packet(2))
    });
    assert!(turns.is_some_and(|turns| turns <= 1), "{turns:?}");
}

#[test]
fn ring_without_room_does_not_block_the_others() {
    let mut bench = Bench::after_snapshot(2);
    let mut pushed = 0;
    while pushed < 400 && bench.push(0, RecordKind::PacketIn, 1) {
        pushed += 1;
        bench.zone.turn().unwrap();
    }
    assert!(pushed < 400, "its ring is full, as nobody takes its messages");
    let Turn::NeedsRoom { .. } = bench.zone.rings[0].turn else { panic!("it has room") };
    RECEIVED.take();
    bench.push(1, RecordKind::PacketIn, 2);
    assert_eq!(bench.work(), [packet(2)]);
    assert_eq!(bench.sent(1), (1, vec![2]));
    bench.sent(0);
    assert!(!bench.work().is_empty(), "it goes on where there is room again");
}

#[test]
fn rings_without_all_their_descriptors_are_out_of_order() {
    let host = host();
    let mut zone = Zone::of(HostedApp::linked::<Echo>(host).unwrap());
    for count in [0, 1, 2, 3, 5] {
        let fds = (0..count).map(|_| Doorbell::new().unwrap().1).collect();
        assert!(zone.use_rings(CAPACITY, fds).is_err(), "{count} descriptors");
    }
}

/// Sends a barrier request for each packet, and notes the transaction ids of lost ones.
struct Asker;

impl App for Asker {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        match event {
            Event::Port { switch, .. } | Event::SwitchUp(switch) => {
                network.barrier(switch).unwrap();
            }
            Event::RequestLost { switch, xid, .. } => {
                RECEIVED
                    .with_borrow_mut(|all| all.push((0, switch.dpid.0 << 32 | u64::from(xid.0))));
            }
            _ => {}
        }
    }
}

#[test]
fn requests_are_lost_once_after_the_snapshot_of_the_next_kernel() {
    let mut bench = Bench::of(HostedApp::linked::<Asker>(host()).unwrap(), 2);
    bench.push(0, RecordKind::SnapshotBegin, 0);
    for dpid in 0..100 {
        bench.push(0, RecordKind::SwitchUp, dpid);
        bench.work();
        bench.sent(0);
    }
    bench.start_kernel(2);
    assert_eq!(bench.work(), []);
    bench.push(0, RecordKind::SnapshotBegin, 0);
    bench.push(0, RecordKind::SnapshotPart, 0);
    assert_eq!(bench.work(), [], "the snapshot is first");
    // A third kernel, before the app has heard of the second one's snapshot.
    bench.start_kernel(2);
    bench.push(0, RecordKind::SnapshotBegin, 0);
    bench.push(0, RecordKind::SnapshotPart, 0);
    bench.push(1, RecordKind::SnapshotEnd, 0);
    let lost: Vec<u64> = bench.work().into_iter().map(|(_, request)| request).collect();
    assert_eq!(lost, (0..100).map(|dpid| dpid << 32 | (dpid + 1)).collect::<Vec<_>>());
    assert_eq!(bench.work(), []);
}

/// Notes HTTP requests and packets.
struct Served;

impl App for Served {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, event: Event<'_>, _: &mut Network<'_>) {
        if let Event::PacketIn(packet_in) = event {
            RECEIVED.with_borrow_mut(|all| all.push(packet(packet_in.switch.dpid.0)));
        }
    }

    fn on_http_request(&mut self, _: &HttpRequest<'_>, _: &mut Network<'_>) -> Option<Response> {
        RECEIVED.with_borrow_mut(|all| all.push((RecordKind::Http as u16, 0)));
        Some(Response::new(204))
    }
}

#[test]
fn http_request_is_answered_although_a_ring_is_never_empty() {
    let mut bench = Bench::of(HostedApp::linked::<Served>(host()).unwrap(), 1);
    bench.push(0, RecordKind::SnapshotBegin, 0);
    bench.push(0, RecordKind::SnapshotEnd, 0);
    bench.work();
    let (northbound, ours) = Packets::pair().unwrap();
    let server = &mut bench.zone.app.host().server;
    server.connect(ServiceClient::http_interface(), ours.into_fd());
    let request = Request::encode("GET", "/", &[], &[]).unwrap();
    northbound.send(&[&7_u64.to_le_bytes()[..], &[HTTP_REQUEST], &request].concat()).unwrap();
    server.exchange();
    bench.push(0, RecordKind::PacketIn, 1);
    bench.zone.note_exchange();
    assert!(bench.zone.turn().unwrap());
    assert_eq!(RECEIVED.take(), [(RecordKind::Http as u16, 0)]);
    assert!(bench.zone.turn().unwrap());
    assert_eq!(RECEIVED.take(), [packet(1)]);
    let mut room = [0; 64];
    let (size, _) = northbound.receive(&mut room).unwrap();
    assert_eq!(&room[..size], [&7_u64.to_le_bytes()[..], &[0, 204, 0, 0, 0]].concat());
}

#[test]
fn packet_is_handled_although_there_is_always_a_request() {
    let mut bench = Bench::of(HostedApp::linked::<Served>(host()).unwrap(), 1);
    bench.push(0, RecordKind::SnapshotBegin, 0);
    bench.push(0, RecordKind::SnapshotEnd, 0);
    bench.work();
    let (northbound, ours) = Packets::pair().unwrap();
    bench.zone.app.host().server.connect(ServiceClient::http_interface(), ours.into_fd());
    let request = Request::encode("GET", "/", &[], &[]).unwrap();
    let mut room = [0; 64];
    let mut turns = Vec::new();
    for number in 0..4_u64 {
        // After a long call the zone reads the control socket.
        northbound.send(&[&number.to_le_bytes()[..], &[HTTP_REQUEST], &request].concat()).unwrap();
        bench.zone.app.host().server.exchange();
        bench.push(0, RecordKind::PacketIn, 1);
        bench.zone.note_exchange();
        assert!(bench.zone.turn().unwrap());
        turns.extend(RECEIVED.take());
        let _ = northbound.receive(&mut room);
    }
    let requests = (RecordKind::Http as u16, 0);
    assert!(turns.contains(&requests) && turns.contains(&packet(1)), "{turns:?}");
}
