//! A zone and the kernel's ends of its rings, with two workers.

use std::cell::RefCell;

use openflow::{Header, Version};
use sdk::abi::Record;
use sdk::{App, Event, Network};
use sys::ring::{Down, KernelEnd, Room};

use super::*;
use crate::control::Numbers;

const CAPACITY: u32 = 4096;

thread_local! {
    /// What the app was told: the kind of each event and its datapath, 0 for a wake-up.
    static TOLD: RefCell<Vec<(u16, u64)>> = const { RefCell::new(Vec::new()) };
}

/// Answers each packet by itself, and is woken once by the first snapshot.
struct Echo;

impl App for Echo {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        let told = match event {
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
        TOLD.with_borrow_mut(|all| all.push((told.0 as u16, told.1)));
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        TOLD.with_borrow_mut(|all| all.push((0, 0)));
        let to = sdk::Switch { dpid: openflow::Dpid(99), epoch: 1, version: Version::V1_3 };
        let packet_out = openflow::PacketOut::new(openflow::PortNo(1), &[], &[]);
        network.packet_out(to, &packet_out).unwrap();
    }
}

fn host() -> ZoneHost {
    let numbers = Numbers { band: (1, 65_535), groups: (0, 0), meters: (0, 0) };
    ZoneHost::new("echo".into(), numbers, Vec::new(), Services::named(&[]))
}

/// The zone, and the kernel's end of each ring.
struct Bench {
    zone: Zone,
    kernel: Vec<KernelEnd>,
    _bells: Vec<Doorbell>,
}

impl Bench {
    fn new(rings: usize) -> Self {
        Self::of(HostedApp::linked::<Echo>(host()).unwrap(), rings)
    }

    fn of(app: HostedApp<ZoneHost>, rings: usize) -> Self {
        let mut zone = Zone::of(app);
        let (_, hears) = Ringer::new().unwrap();
        let (mut fds, mut kernel, mut bells) = (vec![hears], Vec::new(), Vec::new());
        for _ in 0..rings {
            let (end, ring_fds) = KernelEnd::create(CAPACITY).unwrap();
            let (bell, rings) = Doorbell::new().unwrap();
            fds.extend([ring_fds.up, ring_fds.down, rings]);
            kernel.push(end);
            bells.push(bell);
        }
        zone.take_rings(CAPACITY, fds).unwrap();
        Self { zone, kernel, _bells: bells }
    }

    /// One whose app was told an empty snapshot and woken.
    fn live(rings: usize) -> Self {
        let mut bench = Self::new(rings);
        bench.tell(0, RecordKind::SnapshotBegin, 0);
        for ring in 1..rings {
            bench.tell(ring - 1, RecordKind::SnapshotPart, 0);
        }
        bench.tell(rings - 1, RecordKind::SnapshotEnd, 0);
        bench.work();
        for ring in 0..rings {
            bench.heard(ring);
        }
        bench
    }

    fn tell(&mut self, ring: usize, kind: RecordKind, dpid: u64) -> bool {
        let record = Record::new(kind, Version::V1_3.wire(), dpid, 1);
        let pushed = self.kernel[ring].push(&record.words(), &[], Room::All);
        self.kernel[ring].publish();
        pushed
    }

    /// Lets the zone work until there is nothing to do; what the app was told.
    fn work(&mut self) -> Vec<(u16, u64)> {
        while self.zone.turn().unwrap() {}
        TOLD.take()
    }

    /// What came by a ring: how many records are done, and to which datapaths messages go.
    fn heard(&mut self, ring: usize) -> (u32, Vec<u64>) {
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
fn snapshot_of_several_workers_is_told_ring_after_ring_and_before_everything_else() {
    let mut bench = Bench::new(3);
    bench.tell(1, RecordKind::SwitchUp, 2);
    bench.tell(1, RecordKind::SnapshotPart, 0);
    bench.tell(1, RecordKind::PacketIn, 2);
    assert_eq!(bench.work(), [], "the first has told nothing");
    bench.tell(0, RecordKind::SnapshotBegin, 0);
    bench.tell(0, RecordKind::SwitchUp, 1);
    bench.tell(0, RecordKind::SnapshotPart, 0);
    bench.tell(0, RecordKind::PacketIn, 1);
    assert_eq!(bench.work(), [BEGIN, up(1), up(2)], "the last has told nothing");
    bench.tell(2, RecordKind::SwitchUp, 3);
    assert_eq!(bench.work(), [up(3)]);
    bench.tell(2, RecordKind::SnapshotEnd, 0);
    bench.tell(2, RecordKind::PacketIn, 3);
    assert_eq!(bench.work(), [END, WOKEN, packet(1), packet(2), packet(3)]);
}

#[test]
fn batch_is_answered_and_done_by_the_ring_that_it_came_by() {
    let mut bench = Bench::live(2);
    bench.tell(1, RecordKind::PacketIn, 7);
    bench.tell(1, RecordKind::PacketIn, 8);
    bench.tell(0, RecordKind::PacketIn, 9);
    bench.work();
    assert_eq!(bench.heard(0), (1, vec![9]));
    assert_eq!(bench.heard(1), (2, vec![7, 8]));
}

#[test]
fn app_is_called_with_no_more_than_the_operator_wants() {
    let mut bench = Bench::live(1);
    bench.zone.batch = 2;
    for dpid in 1..=3 {
        bench.tell(0, RecordKind::PacketIn, dpid);
    }
    assert!(bench.zone.turn().unwrap());
    assert_eq!(bench.heard(0).0, 2);
    assert_eq!(bench.work().len(), 3);
    assert_eq!(bench.heard(0).0, 1);
}

#[test]
fn wake_up_sends_by_the_first_ring() {
    let mut bench = Bench::new(2);
    bench.tell(0, RecordKind::SnapshotBegin, 0);
    bench.tell(0, RecordKind::SnapshotPart, 0);
    bench.tell(1, RecordKind::SnapshotEnd, 0);
    assert_eq!(bench.work(), [BEGIN, END, WOKEN]);
    assert_eq!(bench.heard(0), (2, vec![99]));
    assert_eq!(bench.heard(1), (1, vec![]));
}

#[test]
fn app_is_woken_when_it_is_time_though_its_ring_always_has_something() {
    let mut bench = Bench::new(1);
    bench.tell(0, RecordKind::SnapshotBegin, 0);
    bench.tell(0, RecordKind::SnapshotEnd, 0);
    let turns = (0..10).position(|_| {
        bench.tell(0, RecordKind::PacketIn, 1);
        assert!(bench.zone.turn().unwrap());
        TOLD.take().contains(&WOKEN)
    });
    assert_eq!(turns, Some(1), "in the turn after that in which it asked for it");
}

/// Wants to be woken again, each time at once.
struct Restless;

impl App for Restless {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        network.wake_at(Duration::ZERO);
        if let Event::PacketIn(packet_in) = event {
            TOLD.with_borrow_mut(|all| all.push(packet(packet_in.switch.dpid.0)));
        }
    }

    fn on_wake(&mut self, network: &mut Network<'_>) {
        network.wake_at(Duration::ZERO);
        TOLD.with_borrow_mut(|all| all.push(WOKEN));
    }
}

#[test]
fn app_that_is_always_to_be_woken_gets_its_packets_all_the_same() {
    let mut bench = Bench::of(HostedApp::linked::<Restless>(host()).unwrap(), 1);
    bench.tell(0, RecordKind::SnapshotBegin, 0);
    bench.tell(0, RecordKind::SnapshotEnd, 0);
    for dpid in 1..=3 {
        (0..2).for_each(|_| assert!(bench.zone.turn().unwrap()));
        bench.tell(0, RecordKind::PacketIn, dpid);
    }
    (0..2).for_each(|_| assert!(bench.zone.turn().unwrap()));
    let told = TOLD.take();
    assert_eq!(told, [WOKEN, packet(1), WOKEN, packet(2), WOKEN, packet(3), WOKEN]);
}

#[test]
fn ring_that_always_has_something_leaves_the_others_their_turns() {
    let mut bench = Bench::live(2);
    bench.tell(1, RecordKind::PacketIn, 2);
    let turns = (0..10).position(|_| {
        bench.tell(0, RecordKind::PacketIn, 1);
        assert!(bench.zone.turn().unwrap());
        TOLD.take().contains(&packet(2))
    });
    assert!(turns.is_some_and(|turns| turns <= 1), "{turns:?}");
}

#[test]
fn ring_without_room_for_messages_does_not_hold_up_the_others() {
    let mut bench = Bench::live(2);
    let mut told = 0;
    while told < 400 && bench.tell(0, RecordKind::PacketIn, 1) {
        told += 1;
        bench.zone.turn().unwrap();
    }
    assert!(told < 400, "its ring is full, as nobody takes its messages");
    let Turn::NeedsRoom { .. } = bench.zone.rings[0].turn else { panic!("it has room") };
    TOLD.take();
    bench.tell(1, RecordKind::PacketIn, 2);
    assert_eq!(bench.work(), [packet(2)]);
    assert_eq!(bench.heard(1), (1, vec![2]));
    bench.heard(0);
    assert!(!bench.work().is_empty(), "it goes on where there is room again");
}

#[test]
fn rings_without_all_their_descriptors_are_out_of_order() {
    let host = host();
    let mut zone = Zone::of(HostedApp::linked::<Echo>(host).unwrap());
    for count in [0, 1, 2, 3, 5] {
        let fds = (0..count).map(|_| Doorbell::new().unwrap().1).collect();
        assert!(zone.take_rings(CAPACITY, fds).is_err(), "{count} descriptors");
    }
}
