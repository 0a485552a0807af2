//! Measures the hosts app with 100,000 hosts: memory per host, the time to learn and to hear one, and the time of a client to
//! look one up and to read all.
//!
//! ```text
//! cargo build --release -p rosemary-apps --examples && cargo bench -p rosemary-apps --bench hosts
//! ```
//!
//! Times are of the processor. The bench loads and calls the object as a zone does. The table is in a memfd, which the bench also maps as a client. Each
//! host sends an ARP packet and has an IPv4 address. `HOSTS` sets the number of hosts, up to 160,000.

#![expect(clippy::print_stdout, reason = "a measurement prints its figures")]

use std::fs::{File, read_to_string};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use openflow::{Dpid, MacAddr, PortNo, Version};
use rosemary_sdk::abi::host::{Host, HostedApp, WholeRecord};
use rosemary_sdk::abi::{Level, MAX_BATCH, RecordKind};
use rosemary_sdk::packet::Arp;
use rosemary_sdk::services::Service;
use rosemary_sdk::services::hosts::{UNTAGGED, find_address, find_host, records};
use rosemary_sdk::services::table::{EMPTY, NewsKind, Slot, Table};
use rosemary_sdk::services::topology::{Endpoint, PortRecord, Record};
use rosemary_sdk::testing::{AlignedRecord, Bench};
use rustix::time::{ClockId, clock_gettime};
use sys::object::Object;
use sys::table::{TableReader, TableWriter, memory};

/// Edge ports of the one switch.
const PORTS: u32 = 100;

/// The zone's side: the table of the app, and that of the topology service.
struct Zone {
    table: TableWriter,
    topology: Vec<Slot>,
}

impl Host for Zone {
    fn reserve(&mut self, _: usize) -> Option<&mut [u8]> {
        None
    }
    fn commit(&mut self, _: u64, _: u32, _: usize, _: u32) -> bool {
        false
    }
    fn room(&self) -> usize {
        1 << 20
    }
    fn band(&self) -> (u16, u16) {
        (0, 0)
    }
    fn groups(&self) -> (u32, u32) {
        (0, 0)
    }
    fn meters(&self) -> (u32, u32) {
        (0, 0)
    }
    fn config(&self) -> &[u8] {
        &[]
    }
    fn stop(&mut self, _: usize) {}
    fn log(&mut self, level: Level, text: &str) {
        panic!("{level:?}: {text}");
    }
    fn read_table(&self, service: Service, first: u32, records: &mut [Slot]) -> Option<u64> {
        for (slot, record) in (first..).zip(records) {
            *record = if service == Service::Topology { self.topology.read(slot) } else { EMPTY };
        }
        Some(0)
    }
    fn publish(&mut self, slot: u32, record: &Slot) -> bool {
        self.table.write(slot, record).is_some()
    }
    fn report_incident(&mut self, summary: &str, evidence: &str) {
        panic!("{summary}: {evidence}");
    }
}

/// The client's side.
struct Client(TableReader);

impl Table for Client {
    fn slots(&self) -> u32 {
        self.0.slots()
    }
    fn version(&self) -> u64 {
        self.0.version()
    }
    fn read(&self, slot: u32) -> Slot {
        self.0.read(slot)
    }
}

fn mac(number: u32) -> MacAddr {
    let [a, b, c, d] = number.wrapping_mul(0x9e37_79b1).to_be_bytes();
    MacAddr([2, 0, a, b, c, d])
}

fn ip(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 + number + 1)
}

/// Returns the processor time of this thread so far: other programs disturb it less than the time of day.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Returns KiB of this process's memory: its own, and what it shares.
fn resident() -> (u64, u64) {
    let status = read_to_string("/proc/self/status").expect("/proc is mounted");
    let of = |name: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(name)).expect("it is listed");
        line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
    };
    (of("RssAnon:"), of("RssShmem:"))
}

/// Calls the app with a batch.
fn call(app: &mut HostedApp<Zone>, records: &[AlignedRecord]) -> Duration {
    let start = now();
    let records = records.iter().map(AlignedRecord::bytes).map(WholeRecord::of);
    let answer = app.on_batch(1_000_000_000_000, records).expect("it goes on");
    assert_ne!(answer.handled, 0);
    now().saturating_sub(start)
}

/// Each host sends its ARP packet; returns the time in the app.
fn speak(app: &mut HostedApp<Zone>, hosts: u32) -> Duration {
    let switch = Bench::switch(1, Version::V1_3);
    let numbers: Vec<u32> = (0..hosts).collect();
    let batch = |numbers: &[u32]| -> Vec<AlignedRecord> {
        let packet = |number: &u32| {
            let (sender_mac, sender_ip) = (mac(*number), ip(*number));
            let (operation, target_mac) = (Arp::REQUEST, MacAddr([0; 6]));
            let target_ip = Ipv4Addr::new(10, 255, 0, 1);
            let arp = Arp { operation, sender_mac, sender_ip, target_mac, target_ip };
            let port = PortNo(1 + number % PORTS);
            AlignedRecord::packet_in(switch, port, &arp.frame(MacAddr([0xff; 6])))
        };
        numbers.iter().map(packet).collect()
    };
    numbers.chunks(MAX_BATCH).map(|numbers| call(app, &batch(numbers))).sum()
}

fn topology() -> Vec<Slot> {
    let port = |port| {
        let at = Endpoint { dpid: Dpid(1), port: PortNo(port) };
        let (hw_addr, name) = (MacAddr([2; 6]), [0; 16]);
        let (live, edge, link, shared) = (true, true, false, false);
        Record::Port(PortRecord { at, hw_addr, speed_kbps: 0, name, live, edge, link, shared })
            .encode()
    };
    (1..=PORTS).map(port).collect()
}

/// Returns the nanoseconds of one of `count`.
fn each(time: Duration, count: u32) -> u128 {
    time.as_nanos() / u128::from(count.max(1))
}

fn main() {
    let hosts: u32 =
        std::env::var("HOSTS").map_or(100_000, |hosts| hosts.parse().expect("a number of hosts"));
    let here = std::env::current_exe().expect("a program has a path");
    let built = here.ancestors().nth(2).expect("it is in target/release/deps");
    let object = File::open(built.join("examples/libhosts.so")).expect("build it first, see above");
    let object = Object::load(object.into()).expect("an object for this machine");
    let slots = Service::Hosts.table_slots().expect("it has a table");
    let fd = memory(slots).expect("memory for the table");
    let table = TableWriter::map(&fd, slots).expect("a table");
    let zone = Zone { table, topology: topology() };
    let mut app = HostedApp::create(&object, zone).expect("it is an app");

    let switch = Bench::switch(1, Version::V1_3);
    call(&mut app, &[AlignedRecord::about(RecordKind::SwitchUp, switch)]);
    for port in 1..=PORTS {
        call(&mut app, &[AlignedRecord::port(switch, 0, PortNo(port), 0)]);
    }
    call(&mut app, &[AlignedRecord::table(Service::Topology, NewsKind::Attached, &[])]);

    let (own_before, shared_before) = resident();
    let learned = speak(&mut app, hosts);
    let (own, shared) = resident();
    let heard = speak(&mut app, hosts);

    let client = Client(TableReader::map(&fd, slots).expect("the same table"));
    let numbers: Vec<u32> = (0..hosts).map(|number| number.wrapping_mul(7919) % hosts).collect();
    let start = now();
    let found =
        numbers.iter().filter(|it| find_host(&client, mac(**it), UNTAGGED).is_some()).count();
    let by_mac = now().saturating_sub(start);
    let start = now();
    let addresses =
        numbers.iter().filter(|it| find_address(&client, ip(**it).into(), UNTAGGED).is_some());
    let addresses = addresses.count();
    let by_ip = now().saturating_sub(start);
    let start = now();
    let missing = (0..hosts).filter(|number| {
        let nobody = IpAddr::V4(Ipv4Addr::from(0xc000_0000 + number));
        find_address(&client, nobody, UNTAGGED).is_some()
    });
    assert_eq!(missing.count(), 0);
    let absent = now().saturating_sub(start);
    let start = now();
    let all = black_box(records(&client).count());
    let read_all = now().saturating_sub(start);

    let bytes = |kib: u64| kib * 1024 / u64::from(hosts.max(1));
    println!("hosts                      {found} of {hosts}, {addresses} with their address");
    println!("slots                      {slots}, {all} records");
    println!("memory of the app          {} bytes per host", bytes(own - own_before));
    println!("memory of the table        {} bytes per host", bytes(shared - shared_before));
    println!("packet of a new host       {} ns", each(learned, hosts));
    println!("packet of a known host     {} ns", each(heard, hosts));
    println!("look-up by MAC             {} ns", each(by_mac, hosts));
    println!("look-up by IP              {} ns", each(by_ip, hosts));
    println!("look-up of an unknown IP   {} ns", each(absent, hosts));
    println!("reading the whole table    {} us", read_all.as_micros());
}
