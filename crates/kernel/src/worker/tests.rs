//! Tests workers with real sockets: the tests play the switches, the zones and the server.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use dal::Driver;
use dal::drivers::openflow::OpenFlow;
use openflow::{Dpid, Header, Kind, PacketIn, PacketOut, PortNo, Version, append};
use sdk::abi::{RECORD_HEAD, RecordKind};
use sys::doorbell::DoorbellSender;
use sys::ring::{MAX_BATCH, RingFds, ZoneEnd};

use super::*;
use crate::app_port::part;
use crate::ids::WorkerId;
use control::app::{AppId, Installation};
use control::hosting::Hosting;
use control::kernel::{AnnouncedApp, PlainTcp, Tuning};
use control::policy::Policy;
use control::query::{AppCounters, SwitchStatus};

mod changes;
mod claims;
mod drivers;
mod hosted;
mod latency;
mod own_messages;
mod paced;
mod peers;
mod runs;
mod slow;
mod unfinished;

use self::peers::{FakeSwitch, FakeZone, SeenRecord, packet_in};

const OF: Version = Version::V1_3;
const APP: AppId = AppId(1);
const INSTALLATION: Installation = Installation(0xabc);
const CAPACITY: u32 = 64 * 1024;

/// Time limit of each wait in a test.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Calls `try_it` until it returns something.
fn wait_for<T>(what: &str, mut try_it: impl FnMut() -> Option<T>) -> T {
    let give_up = Instant::now() + TEST_TIMEOUT;
    loop {
        if let Some(it) = try_it() {
            return it;
        }
        assert!(Instant::now() < give_up, "gave up waiting until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Workers whose server is the test.
struct Bench {
    server: ServerChannels,
    address: SocketAddr,
    threads: Vec<JoinHandle<io::Result<()>>>,
    attempts: u64,
    /// The workers' events, except those that a test waited for.
    other_events: Vec<WorkerEvent>,
}

impl Bench {
    fn new(workers: usize) -> Self {
        Self::with(workers, |_| {})
    }

    /// The same, but calls `prepare` on each worker before it runs.
    fn with(workers: usize, prepare: fn(&mut Worker)) -> Self {
        Self::prepared(workers, || Box::new(OpenFlow::default()), prepare)
    }

    /// The same for switches of another protocol.
    fn driven(workers: usize, driver: fn() -> Box<dyn Driver>) -> Self {
        Self::prepared(workers, driver, |_| {})
    }

    fn prepared(workers: usize, driver: fn() -> Box<dyn Driver>, prepare: fn(&mut Worker)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (channels, server) =
            connect(workers, Tuning { ring: CAPACITY, ..Tuning::default() }, INSTALLATION).unwrap();
        let mut listeners = Some(vec![(listener, driver())]);
        let app = AnnouncedApp {
            app: APP,
            name: "app".into(),
            policy: Policy::default(),
            host: Hosting::USER,
            log_level: control::log::LogLevel::default(),
            config_size: 0,
            services: Vec::new(),
            code: control::kernel::HostedCode::default(),
        };
        let threads = channels.into_iter().map(|channels| {
            let listeners = listeners.take().unwrap_or_default();
            let transport = TransportPolicy { plain: PlainTcp::Loopback, tls: None };
            let apps =
                Apps { apps: vec![Known { app: app.clone(), object: None }], flight_slot: None };
            std::thread::spawn(move || {
                let mut worker = Worker::new(listeners, apps, transport, channels)?;
                prepare(&mut worker);
                worker.run()
            })
        });
        let threads = threads.collect();
        Self { server, address, threads, attempts: 0, other_events: Vec::new() }
    }

    fn each(&self, command: impl Fn() -> Command) {
        self.server.commander.send_all(command);
    }

    /// Attaches a new zone.
    fn attach(&mut self) -> FakeZone {
        self.attach_with(&Policy::default())
    }

    /// The same for an app with this policy.
    fn attach_with(&mut self, policy: &Policy) -> FakeZone {
        self.attach_as(APP, policy)
    }

    /// The same for any app.
    fn attach_as(&mut self, app: AppId, policy: &Policy) -> FakeZone {
        let (parts, fds) = part::make(&self.server.pool, CAPACITY).unwrap();
        self.attempts += 1;
        let workers = parts.len();
        for (worker, part) in parts.into_iter().enumerate() {
            let (name, policy) = (format!("app-{}", app.0), policy.clone());
            let (attempt, part) = (self.attempts, Box::new(part));
            let attach = Command::Attach { attempt, app, name, policy, part };
            self.server.commander.send(WorkerId(worker), attach);
        }
        let mut silent = workers;
        while silent > 0 {
            let notice = wait_for("each worker attached", || self.server.events.try_recv().ok());
            match notice {
                WorkerEvent::Attached { attempt, result } => {
                    assert_eq!((attempt, result), (self.attempts, Ok(())));
                    silent -= 1;
                }
                notice => self.other_events.push(notice),
            }
        }
        let mut fds = fds.into_iter().skip(1);
        let mut ends = Vec::new();
        while let (Some(up), Some(down), Some(down_bell)) = (fds.next(), fds.next(), fds.next()) {
            let end = ZoneEnd::map(&RingFds { up, down }, CAPACITY).unwrap();
            ends.push((end, DoorbellSender::from_fd(down_bell)));
        }
        FakeZone { ends }
    }

    /// Reports the zone's death to the workers.
    fn detach(&mut self, zone: FakeZone) {
        drop(zone);
        self.each(|| Command::Detach { app: APP });
        self.switches(); // waits until the workers have handled it
    }

    fn switches(&self) -> Vec<SwitchStatus> {
        let (reply, answers) = std::sync::mpsc::channel();
        self.each(|| Command::Switches { after: None, reply: reply.clone() });
        drop(reply);
        let mut all: Vec<_> = answers.iter().flat_map(|(switches, _)| switches).collect();
        all.sort_by(|one, other| one.dpid.cmp(&other.dpid));
        all
    }

    /// The first worker's counters for the app.
    fn counters(&self) -> AppCounters {
        self.all_counters().remove(0)
    }

    /// The same of all apps.
    fn all_counters(&self) -> Vec<AppCounters> {
        let (reply, answers) = std::sync::mpsc::channel();
        self.server.commander.send(WorkerId(0), Command::Apps { reply });
        answers.recv().unwrap()
    }

    /// Connects switches with these DPIDs, one after the other.
    fn connect(&self, dpids: impl IntoIterator<Item = u64>) -> Vec<FakeSwitch> {
        let connect = |dpid| {
            let before = self.switches().len();
            let fake = FakeSwitch::connect(self.address, dpid);
            wait_for("the switch is there", || (self.switches().len() > before).then_some(()));
            fake
        };
        dpids.into_iter().map(connect).collect()
    }

    fn stop(mut self) {
        self.each(|| Command::Stop);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap().unwrap());
    }
}

fn back(seen: SeenRecord) -> Option<(u64, u32, u32)> {
    seen.is_packet().then_some((seen.dpid, seen.epoch, seen.number))
}

const BEGIN: u16 = RecordKind::SnapshotBegin as u16;
const SNAPSHOT_END: u16 = RecordKind::SnapshotEnd as u16;
const SNAPSHOT_PART: u16 = RecordKind::SnapshotPart as u16;
const UP: u16 = RecordKind::SwitchUp as u16;
const DOWN: u16 = RecordKind::SwitchDown as u16;

#[test]
fn switches_are_spread_over_workers_and_in_one_snapshot() {
    let mut bench = Bench::new(2);
    let fakes = bench.connect(1..=4);
    let epochs: Vec<u32> = bench.switches().iter().map(|switch| switch.epoch).collect();
    assert_eq!(epochs, [2, 1, 4, 3], "two each, alternating; the epoch identifies the worker");
    let mut zone = bench.attach();
    let snapshot = zone.snapshot();
    let of = |range: std::ops::Range<usize>| {
        let mut part = snapshot[range].to_vec();
        part.sort_unstable();
        part
    };
    assert_eq!((snapshot.len(), snapshot[0]), (7, (BEGIN, 0)));
    assert_eq!(of(1..3), [(UP, 1), (UP, 3)]);
    assert_eq!(snapshot[3], (SNAPSHOT_PART, 0));
    assert_eq!(of(4..6), [(UP, 2), (UP, 4)]);
    assert_eq!(snapshot[6], (SNAPSHOT_END, 0));
    drop(fakes);
    bench.stop();
}

#[test]
fn message_for_another_workers_switch_is_forwarded() {
    let mut bench = Bench::new(2);
    let mut fakes = bench.connect([1, 2]);
    let epochs: Vec<u32> = bench.switches().iter().map(|switch| switch.epoch).collect();
    let mut zone = bench.attach();
    zone.snapshot();
    for number in 0..100 {
        fakes[0].send_packet_in(number);
    }
    let mut handled = 0;
    wait_for("all packets came", || {
        let other = |seen: SeenRecord| seen.is_packet().then_some((2, epochs[1], seen.number));
        handled += zone.handle(0, other).len();
        (handled == 100).then_some(())
    });
    assert_eq!(fakes[1].packet_outs(100), (0..100).collect::<Vec<_>>(), "in their order");
    fakes[0].send_packet_in(100);
    wait_for("the packet came", || {
        (!zone.handle(0, |_| Some((2, epochs[1] + 2, 7))).is_empty()).then_some(())
    });
    let refused = wait_for("the refusal came", || zone.handle(1, |_| None).first().copied());
    assert_eq!((refused.kind, refused.dpid), (RecordKind::Refused as u16, 2));
    let refused: Vec<u64> = bench.switches().iter().map(|switch| switch.refused).collect();
    assert_eq!(refused, [0, 1]);
    bench.stop();
}

#[test]
fn reconnected_datapath_returns_to_its_worker() {
    let mut bench = Bench::new(2);
    let mut fakes = bench.connect([1, 2]);
    let before = bench.switches();
    let mut zone = bench.attach();
    zone.snapshot();
    // The next connection comes to worker 0; datapath 2 lives with worker 1.
    let impostor = FakeSwitch::connect(bench.address, 2);
    assert!(wait_for("it was decided", || impostor.wait_until_closed().then_some(true)));
    assert_eq!(bench.switches().len(), 2);
    fakes[1].send_packet_in(5);
    wait_for("the packet came", || zone.handle(1, back).iter().find(|it| it.is_packet()).copied());
    assert_eq!(fakes[1].packet_outs(1), [5], "on the same connection");
    drop(fakes.pop());
    wait_for("the switch is gone", || (bench.switches().len() == 1).then_some(()));
    // Either worker accepts the connection. Worker 0 hands it over with the bytes that it has read.
    let again = FakeSwitch::connect_and_send(bench.address, 2, &packet_in(6));
    let mut received = Vec::new();
    wait_for("the packet came", || {
        received.extend(zone.handle(1, back));
        received.iter().any(|seen| seen.is_packet()).then_some(())
    });
    let kinds: Vec<u16> = received.iter().map(|seen| seen.kind).collect();
    assert_eq!(kinds, [DOWN, UP, RecordKind::PacketIn as u16], "in order, by one ring");
    let after = &bench.switches()[1];
    assert_eq!(after.epoch, before[1].epoch + 2);
    assert_eq!(again.packet_outs(1), [6]);
    bench.stop();
}

#[test]
fn records_of_two_rings_are_replayed_one_at_a_time() {
    let mut bench = Bench::new(2);
    let mut fakes = bench.connect([1, 2]);
    let mut zone = bench.attach();
    zone.snapshot();
    for number in 0..3 {
        fakes[0].send_packet_in(number);
        fakes[1].send_packet_in(10 + number);
    }
    wait_for("all came", || (zone.peek(0).len() == 3 && zone.peek(1).len() == 3).then_some(()));
    bench.detach(zone);
    fakes[0].send_packet_in(3); // while nobody is there
    let mut zone = bench.attach();
    zone.snapshot();
    let mut again = Vec::new();
    wait_for("all came again", || {
        let waiting: Vec<usize> = (0..2).map(|ring| zone.peek(ring).len()).collect();
        let repeated = (0..2).flat_map(|ring| zone.peek(ring)).filter(|seen| seen.again).count();
        assert!(repeated <= 1, "{waiting:?}");
        let both = (0..2).flat_map(|ring| zone.handle(ring, back));
        again.extend(both.map(|seen| (seen.number, seen.again)));
        (again.len() == 7).then_some(())
    });
    let expected =
        [(0, true), (1, true), (2, true), (10, true), (11, true), (12, true), (3, false)];
    assert_eq!(again, expected);
    assert_eq!(fakes[0].packet_outs(4), [0, 1, 2, 3]);
    assert_eq!(fakes[1].packet_outs(3), [10, 11, 12]);
    bench.stop();
}

#[test]
fn record_that_ends_the_zone_twice_is_set_aside() {
    let mut bench = Bench::new(2);
    let mut fakes = bench.connect([1, 2]);
    let mut zone = bench.attach();
    zone.snapshot();
    fakes[0].send_packet_in(1);
    fakes[1].send_packet_in(2);
    wait_for("both came", || (zone.peek(0).len() == 1 && zone.peek(1).len() == 1).then_some(()));
    bench.detach(zone);
    let mut zone = bench.attach();
    zone.snapshot();
    wait_for("one came again", || (zone.peek(0).len() == 1).then_some(()));
    assert_eq!(zone.peek(1), []);
    bench.detach(zone);
    let mut zone = bench.attach();
    let set_aside = bench.other_events.iter().filter_map(|notice| match notice {
        WorkerEvent::SetAside { record, .. } => Some(SeenRecord::of(record).number),
        _ => None,
    });
    assert_eq!(set_aside.collect::<Vec<_>>(), [1]);
    zone.snapshot();
    let again = wait_for("the other came again", || zone.handle(1, back).first().copied());
    assert_eq!((again.number, again.again), (2, true));
    assert_eq!(fakes[1].packet_outs(1), [2]);
    bench.stop();
}

#[test]
fn zone_that_dies_repeatedly_loses_and_doubles_no_record() {
    let mut bench = Bench::new(2);
    let mut fakes = bench.connect([1, 2]);
    let mut sent = 0;
    for round in 0..20_usize {
        let mut zone = bench.attach();
        zone.snapshot();
        for number in sent..sent + 10 {
            fakes[0].send_packet_in(number);
            fakes[1].send_packet_in(number);
        }
        sent += 10;
        // Handles some of each, more or less of one ring, and dies.
        for turn in 0..round % 7 {
            zone.handle((turn + round) % 2, back);
            std::thread::sleep(Duration::from_millis(1));
        }
        bench.detach(zone);
    }
    let mut zone = bench.attach();
    zone.snapshot();
    let (answers, done) = std::sync::mpsc::channel();
    // The record that was in flight alone at its death must not be delivered again.
    let set_aside = |dpid| -> Vec<u32> {
        let records = bench.other_events.iter().filter_map(|notice| match notice {
            WorkerEvent::SetAside { record, .. } => Some(SeenRecord::of(record)),
            _ => None,
        });
        records.filter(|seen| seen.dpid == dpid).map(|seen| seen.number).collect()
    };
    assert!(set_aside(1).len() + set_aside(2).len() < 20, "at most one at each death");
    std::thread::scope(|scope| {
        for fake in &mut fakes {
            let (answers, count) = (answers.clone(), sent as usize - set_aside(fake.dpid).len());
            scope.spawn(move || answers.send((fake.dpid, fake.packet_outs(count))).unwrap());
        }
        let mut got = Vec::new();
        wait_for("all were answered", || {
            (0..2).for_each(|ring| drop(zone.handle(ring, back)));
            got.extend(done.try_recv());
            (got.len() == 2).then_some(())
        });
        for (dpid, numbers) in got {
            let mut all = [numbers, set_aside(dpid)].concat();
            all.sort_unstable();
            assert_eq!(all, (0..sent).collect::<Vec<_>>(), "of switch {dpid}");
        }
    });
    bench.stop();
}

#[test]
fn reply_of_another_type_is_reported_to_the_operator() {
    let bench = Bench::new(1);
    // It answers every multipart request with port descriptions.
    let _fake = bench.connect([1]);
    bench.each(|| Command::Flows { dpid: 1, question: 5, subject: Subject::Flows });
    let why = wait_for("the answer came", || match bench.server.events.try_recv() {
        Ok(WorkerEvent::Flows { question: 5, part: Part::Failed(why) }) => Some(why),
        _ => None,
    });
    let expected = "the switch answered with multipart_reply of type 13 (port descriptions) instead of \
                    multipart_reply of type 1 (flows)";
    assert_eq!(why, expected);
    bench.stop();
}
