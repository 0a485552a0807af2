//! Tests that the time of packet-ins is measured between the worker's turns.

use control::query::{LATENCY_BOUNDS_US, Latencies};

use super::*;

/// How long the app takes for each packet-in.
const TIME: Duration = Duration::from_millis(20);

#[test]
fn slow_app_is_in_the_buckets_of_its_time() {
    let mut bench = Bench::new(1);
    let mut fake = bench.connect([1]).pop().unwrap();
    let mut zone = bench.attach();
    zone.snapshot();
    let samples = |bench: &Bench| bench.counters().latencies;
    assert_eq!(samples(&bench), Latencies::default(), "a snapshot is no packet-in");
    for number in 0..5 {
        fake.send_packet_in(number);
        wait_for("the packet-in came", || {
            zone.peek(0).iter().any(|seen| seen.is_packet()).then_some(())
        });
        std::thread::sleep(TIME);
        zone.handle(0, |_| None);
        wait_for("the worker has noticed", || {
            let count: u64 = samples(&bench).counts.iter().sum();
            (count > number.into()).then_some(())
        });
    }
    let Latencies { counts, sum_us } = samples(&bench);
    assert_eq!(counts.iter().sum::<u64>(), 5);
    let is_too_short = |bound: &u64| *bound < 20_000;
    let short = LATENCY_BOUNDS_US.iter().zip(counts).filter(|(bound, _)| is_too_short(bound));
    assert_eq!(short.map(|(_, count)| count).sum::<u64>(), 0, "{counts:?}");
    // Not the tick of the worker: the zone's doorbell wakes it.
    assert!(sum_us >= 100_000 && counts[7] + counts[8] > 0, "{counts:?}");
    bench.stop();
}
