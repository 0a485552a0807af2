//! Runs every mode against the null controller, and checks the errors without a controller or with
//! a broken one.
#![expect(clippy::unwrap_used, reason = "a test may")]

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ofbench::checker::AnsweredBy;
use ofbench::emulate::{self, Target};
use ofbench::fabric::Fabric;
use ofbench::hosts::Addresses;
use ofbench::load::{self, FailureKind, Pace, Plan, connect, flood, idle};
use ofbench::null::NullController;
use ofbench::switch::Switch;
use ofbench::topology::Topology;
use openflow::Version;

/// A null controller in its own thread.
struct Controller {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Controller {
    fn start() -> Self {
        let null = NullController::bind("127.0.0.1:0".parse().unwrap(), Version::ALL).unwrap();
        let (address, stop) = (null.address().unwrap(), Arc::new(AtomicBool::new(false)));
        let its = stop.clone();
        let thread = Some(thread::spawn(move || null.run(&its)));
        Self { address, stop, thread }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join().unwrap();
        assert!(ended.is_ok() || thread::panicking(), "{ended:?}");
    }
}

fn plan(controller: SocketAddr, version: Version) -> Plan {
    Plan {
        controller,
        tls: None,
        version,
        switches: 5,
        first_dpid: 1,
        ports: 4,
        macs: 50,
        addresses: Addresses::Random,
        seed: 1,
        buffered: true,
        buffer_ids: ofbench::packet_ins::MAX_IDS,
        claimed_buffers: None,
        frame: 64,
        answered_by: AnsweredBy::PacketOut,
        pace: Pace::Window(100),
        fairness: false,
        timed: false,
        keep_flows: false,
        max_flows: 100_000,
        threads: 1,
        pin: false,
        patience: Duration::from_secs(20),
        give_up: Duration::from_secs(10),
        settle: Duration::ZERO,
        interval: Duration::from_millis(150),
        intervals: 2,
    }
}

#[test]
fn throughput_counts_answers_without_loss() {
    let controller = Controller::start();
    for &version in Version::ALL {
        for (buffered, threads) in [(true, 1), (false, 2)] {
            let plan = Plan { buffered, threads, ..plan(controller.address, version) };
            let measured = load::run(&plan, |_| {}).unwrap();
            assert_eq!(measured.intervals.len(), 2);
            for interval in &measured.intervals {
                assert!(interval.counts.answered > 0 && interval.answered_per_second > 0.0);
                assert!(interval.per_switch.0 > 0.0, "a switch got no answer: {interval:?}");
            }
            let total = measured.total;
            assert_eq!((total.asked, total.unanswered, total.late), (total.answered, 0, 0));
            assert_eq!(total.flow_mods, total.answered);
            assert_eq!(total.packet_outs, if buffered { 0 } else { total.answered });
            assert_eq!((measured.errors.0, total.others), (0, 0));
        }
    }
}

#[test]
fn flow_mods_alone_answer_if_configured() {
    let controller = Controller::start();
    let plan = Plan {
        buffered: false,
        answered_by: AnsweredBy::FlowMod,
        ..plan(controller.address, Version::V1_3)
    };
    let total = load::run(&plan, |_| {}).unwrap().total;
    assert_eq!((total.asked, total.flow_mods), (total.answered, total.answered));
}

#[test]
fn alike_addresses_are_answered() {
    let controller = Controller::start();
    let plan = Plan {
        addresses: Addresses::Alike,
        buffered: false,
        ..plan(controller.address, Version::V1_3)
    };
    let total = load::run(&plan, |_| {}).unwrap().total;
    assert!(total.answered > 0);
    assert_eq!(total.asked, total.answered);
}

#[test]
fn idle_switches_stay_and_receive_nothing() {
    let controller = Controller::start();
    for &version in Version::ALL {
        let idle = idle::run(&plan(controller.address, version), |_| {}).unwrap();
        assert!(idle.all_settled > Duration::ZERO && idle.length >= Duration::from_millis(300));
        assert_eq!(idle.messages_per_second, [0.0, 0.0]);
    }
}

#[test]
fn flood_and_quiet_switches_are_answered() {
    let controller = Controller::start();
    for &version in Version::ALL {
        let plan = Plan {
            give_up: Duration::from_millis(20),
            interval: Duration::from_millis(400),
            ..plan(controller.address, version)
        };
        let flooded = flood::run(&plan, |_| {}).unwrap();
        for served in [&flooded.alone, &flooded.beside] {
            assert!(!served.echo.is_empty() && !served.arp.is_empty());
            assert!(!served.handshake.is_empty());
            assert!(served.port.is_empty(), "the null controller deletes no flows");
        }
        assert!(flooded.answered_per_second.iter().all(|answered| *answered > 0.0));
        assert!(flooded.arps > 0 && flooded.arps_answered <= flooded.arps);
    }
}

#[test]
fn latency_records_each_answer() {
    let controller = Controller::start();
    let plan =
        Plan { pace: Pace::Window(1), timed: true, ..plan(controller.address, Version::V1_0) };
    let measured = load::run(&plan, |_| {}).unwrap();
    for interval in &measured.intervals {
        assert_eq!(interval.latency.len(), interval.counts.answered);
        assert!(interval.latency.min() > 0);
        assert!(interval.counts.asked.abs_diff(interval.counts.answered) <= 5);
    }
}

#[test]
fn rate_sends_on_schedule() {
    let controller = Controller::start();
    let plan = Plan {
        pace: Pace::Rate(2000.0),
        timed: true,
        interval: Duration::from_millis(300),
        ..plan(controller.address, Version::V1_3)
    };
    let measured = load::run(&plan, |_| {}).unwrap();
    // Two intervals of at least 300 ms at 2000 per second, and the warm-up.
    let length: Duration = measured.intervals.iter().map(|interval| interval.length).sum();
    let asked = measured.total.asked - 250;
    // One packet-in is due every half millisecond.
    let due = length.as_micros() / 500 + 2;
    assert!(u128::from(asked) <= due && asked > 0, "{asked} of {due}");
    assert_eq!(measured.total.asked, measured.total.answered);
}

#[test]
fn flow_mod_mode_keeps_the_flows() {
    let controller = Controller::start();
    let plan = Plan { keep_flows: true, ..plan(controller.address, Version::V1_3) };
    let measured = load::run(&plan, |_| {}).unwrap();
    // At least 50 hosts on each of 5 switches have sent, and each switch has a table-miss entry.
    assert!(measured.flows >= 5 * 51, "{}", measured.flows);
    assert!(measured.total.flow_mods >= measured.flows - 5);
}

#[test]
fn connect_counts_handshakes() {
    let controller = Controller::start();
    for &version in Version::ALL {
        let connected = connect::run(&plan(controller.address, version), |_| {}).unwrap();
        assert!(connected.all_settled > Duration::ZERO);
        assert_eq!(connected.per_second.len(), 2);
        assert!(connected.handshakes > 0);
        assert_eq!(connected.times.len(), connected.handshakes);
    }
}

#[test]
fn switches_of_a_network_settle() {
    let controller = Controller::start();
    for &version in Version::ALL {
        let topology = Topology::named("ring:4").unwrap();
        let mut fabric = Fabric::new(&topology, version, 1, 1);
        let stop = AtomicBool::new(false);
        let until = Some(Instant::now() + Duration::from_secs(20));
        let target = Target { controller: controller.address, tls: None, until };
        emulate::run(&mut fabric, target, &stop, |fabric| {
            if fabric.switches().iter().all(Switch::is_settled) {
                stop.store(true, Ordering::Relaxed);
            }
        })
        .unwrap();
        assert!(fabric.switches().iter().all(Switch::is_settled));
        assert_eq!(fabric.counters().errors, 0);
    }
}

#[test]
fn missing_controller_is_reported_with_its_address() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let plan = plan(free, Version::V1_3);
    let mut fabric = Fabric::new(&Topology::line(2), Version::V1_3, 1, 1);
    let target = Target { controller: free, tls: None, until: None };
    let emulated = emulate::run(&mut fabric, target, &AtomicBool::new(false), |_| {});
    let loaded = load::run(&plan, |_| {}).map(|_| ());
    for failure in [loaded, connect::run(&plan, |_| {}).map(|_| ()), emulated] {
        let text = failure.unwrap_err().to_string();
        assert!(text.contains(&free.to_string()) && text.contains("listening"), "{text}");
    }
}

/// Returns the error of a run against a server that sends `bytes` and closes each connection.
fn said_of(bytes: &'static [u8], version: Version) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let _ = socket.write_all(bytes);
            let _ = socket.shutdown(Shutdown::Write);
            while socket.read(&mut [0; 1024]).is_ok_and(|size| size > 0) {}
        }
    });
    let plan = Plan { patience: Duration::from_secs(5), ..plan(address, version) };
    load::run(&plan, |_| {}).unwrap_err().to_string()
}

#[test]
fn protocol_violation_is_quoted() {
    // A hello, a features request, and the end of the stream.
    let text = said_of(&[1, 0, 0, 8, 0, 0, 0, 0, 1, 5, 0, 8, 0, 0, 0, 1], Version::V1_0);
    assert!(text.contains("closed") && text.contains("features_request"), "{text}");
    let text = said_of(&[1, 0, 0, 8, 0, 0, 0, 0], Version::V1_3);
    assert!(text.contains("does not speak OpenFlow 1.3"), "{text}");
    let text = said_of(b"HTTP/1.1 400 Bad Request\r\n\r\n", Version::V1_3);
    assert!(text.contains("incomplete message") && text.contains("HTTP/1.1 400"), "{text}");
    let text = said_of(&[4, 1, 0, 14, 0, 0, 0, 0, 0, 0, 0, 0, b'n', b'o'], Version::V1_3);
    assert!(text.contains("HELLO_FAILED") && text.contains("no"), "{text}");
}

#[test]
fn controller_that_does_not_read_ends_the_run() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let hello = [1, 0, 0, 8, 0, 0, 0, 0];
        // Each requests a description of 1068 bytes.
        let asks = [1, 16, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0].repeat(4096);
        let mut sent = socket.write_all(&hello);
        while sent.is_ok() {
            sent = socket.write_all(&asks);
        }
    });
    let plan = Plan { switches: 1, ..plan(address, Version::V1_0) };
    let failure = load::run(&plan, |_| {}).unwrap_err();
    assert!(matches!(failure.kind, FailureKind::NotReading(_)), "{failure}");
}

#[test]
fn silent_controller_ends_the_run() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let plan = Plan {
        patience: Duration::from_millis(300),
        ..plan(listener.local_addr().unwrap(), Version::V1_3)
    };
    let failure = load::run(&plan, |_| {}).unwrap_err();
    assert!(matches!(failure.kind, FailureKind::NotSettled { settled: 0, of: 5, .. }), "{failure}");
    assert!(connect::run(&plan, |_| {}).is_err());
}
