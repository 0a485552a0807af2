//! Apps in Rust, through the ABI and back. These run under Miri too (`make miri`).
#![cfg(feature = "host")]

use openflow::{PortNo, Version};
use rosemary_sdk::abi::host::{Failed, HostedApp, LoadError};
use rosemary_sdk::testing::{AlignedRecord, Bench, Recorder};
use rosemary_sdk::{Action, App, Batch, Event, Network};

fn packets<const N: usize>() -> [AlignedRecord; N] {
    let at = Bench::switch(7, Version::V1_3);
    [(); N].map(|()| AlignedRecord::packet_in(at, PortNo(3), b"a whole frame"))
}

/// Floods, stops and reports each packet.
struct Busy;

impl App for Busy {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, event: Event<'_>, network: &mut Network<'_>) {
        if let Event::PacketIn(packet_in) = event {
            network
                .packet_out_for(&packet_in, &[Action::output(PortNo::FLOOD)])
                .expect("there is room");
            network.stop();
            network.info("flooded");
        }
    }
}

#[test]
fn app_and_host_share_the_state_over_many_calls_and_moves() {
    let mut bench = Bench::new::<Busy>();
    for _ in 0..3 {
        let (answer, sent) = bench.batch(&packets::<2>()).unwrap();
        assert_eq!((answer.handled, sent.len()), (2, 2));
        assert_eq!(bench.stopped(), [0, 1]);
        assert_eq!(bench.log(), ["Info: flooded", "Info: flooded"]);
        bench = std::hint::black_box(bench); // moves it
    }
}

/// Says `stop` far more often than there are records, and of records that there are not.
struct Stubborn {
    handles: usize,
}

impl App for Stubborn {
    fn create() -> Self {
        Self { handles: 2 }
    }

    fn on_event(&mut self, _: Event<'_>, _: &mut Network<'_>) {}

    fn on_batch(&mut self, batch: &Batch<'_>, network: &mut Network<'_>) -> usize {
        for _ in 0..1000 {
            for number in [1, 2, 3, 63, 64, usize::MAX] {
                network.stop_event(number);
            }
        }
        self.handles.min(batch.len())
    }
}

#[test]
fn stops_said_again_or_of_records_that_were_not_handled_count_nothing() {
    let mut bench = Bench::new::<Stubborn>();
    bench.batch(&packets::<3>()).unwrap();
    assert_eq!(bench.stopped(), [1]);
    bench.batch(&[]).unwrap();
    assert!(bench.stopped().is_empty());
    bench.batch(&packets::<64>()).unwrap();
    assert_eq!(bench.stopped(), [1]);
}

struct Panics;

impl App for Panics {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, _: Event<'_>, network: &mut Network<'_>) {
        network.stop();
        panic!("of a test");
    }
}

#[test]
fn app_that_panics_has_failed_with_its_words_in_the_log_and_its_stops_forgotten() {
    let mut bench = Bench::new::<Panics>();
    assert_eq!(bench.batch(&packets::<1>()).unwrap_err(), Failed::GaveUp);
    assert_eq!(bench.log(), ["Error: panicked in on_batch: of a test"]);
    assert!(bench.stopped().is_empty());
}

struct Stillborn;

impl App for Stillborn {
    fn create() -> Self {
        panic!("of a test");
    }

    fn on_event(&mut self, _: Event<'_>, _: &mut Network<'_>) {}
}

#[test]
fn app_that_cannot_be_created_is_not_destroyed() {
    let error = HostedApp::linked::<Stillborn>(Recorder::default()).unwrap_err();
    assert!(matches!(error, LoadError::Create), "{error}");
}
