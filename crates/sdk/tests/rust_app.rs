//! Apps in Rust, through the ABI and back. These run under Miri too (`make miri`).
#![cfg(feature = "host")]

use openflow::{PortNo, Version};
use rosemary_sdk::abi::host::{Failed, HostedApp, LoadError};
use rosemary_sdk::testing::{AlignedRecord, Bench, Recorder};
use rosemary_sdk::{Action, App, Event, Network};

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

struct Panics;

impl App for Panics {
    fn create() -> Self {
        Self
    }

    fn on_event(&mut self, _: Event<'_>, _: &mut Network<'_>) {
        panic!("of a test");
    }
}

#[test]
fn app_that_panics_has_failed_with_its_words_in_the_log() {
    let mut bench = Bench::new::<Panics>();
    assert_eq!(bench.batch(&packets::<1>()).unwrap_err(), Failed::GaveUp);
    assert_eq!(bench.log(), ["Error: panicked in on_batch: of a test"]);
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
