//! Measures the time of a record in the up ring and of a message of the same size in the down ring, in one process.
//!
//! In each iteration the kernel's end pushes and publishes a batch of records of 128 bytes. The zone's end reads the
//! batch, writes a message of 128 bytes for each record, and closes the batch. The kernel's end takes all messages and
//! releases their room. There is no doorbell and no second core, so this measures the code and not the transfer of cache
//! lines between cores.

#[path = "../../openflow/benches/thread_time/mod.rs"]
mod thread_time;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_main};
use rosemary_sys::ring::{DEFAULT_CAPACITY, KernelEnd, MAX_BATCH, Room, ZoneEnd, memory_size};
use rosemary_sys::shm::on_heap;
use thread_time::ThreadTime;

const BODY: [u8; 128] = [7; 128];

fn mapped() -> (KernelEnd, ZoneEnd) {
    let (kernel, fds) = KernelEnd::create(DEFAULT_CAPACITY).expect("memory");
    let zone = ZoneEnd::map(&fds, DEFAULT_CAPACITY).expect("the kernel's rings");
    (kernel, zone)
}

fn heap() -> (KernelEnd, ZoneEnd) {
    let size = memory_size(DEFAULT_CAPACITY);
    let ((up, up_view), (down, down_view)) = (on_heap(size), on_heap(size));
    let zone = ZoneEnd::over(up_view, down, DEFAULT_CAPACITY);
    (KernelEnd::over(up, down_view, DEFAULT_CAPACITY), zone)
}

fn round_trip(kernel: &mut KernelEnd, zone: &mut ZoneEnd, records: usize, out: &mut Vec<u8>) {
    for number in 0..records {
        assert!(kernel.push(&[6 << 32, number as u64, 0], &BODY, Room::AllButReserve));
    }
    black_box(kernel.publish());
    let batch = zone.records.batch(MAX_BATCH).expect("an honest kernel");
    assert_eq!(batch.len(), records);
    for record in batch.iter() {
        let room = zone.messages.reserve(BODY.len()).expect("room");
        room.copy_from_slice(&record[24..]);
        assert!(zone.messages.commit(1, 1, BODY.len()));
    }
    black_box(zone.messages.done(&mut zone.records, records));
    out.clear();
    while let Some(down) = kernel.take(out).expect("an honest zone") {
        black_box(&down);
    }
    black_box(kernel.release());
}

fn rings(criterion: &mut Criterion<ThreadTime>) {
    let mut group = criterion.benchmark_group("ring");
    for (memory, make) in [("mapping", mapped as fn() -> _), ("heap", heap)] {
        for records in [1, MAX_BATCH] {
            let ((mut kernel, mut zone), mut out) = (make(), Vec::new());
            group.throughput(Throughput::Elements(records as u64));
            group.bench_function(format!("{memory}/batch of {records}"), |bencher| {
                bencher.iter(|| round_trip(&mut kernel, &mut zone, records, &mut out));
            });
        }
    }
    group.finish();
}

#[allow(missing_docs, reason = "the macro makes a public function")]
mod group {
    criterion::criterion_group! {
        name = benches;
        config = criterion::Criterion::default().with_measurement(super::ThreadTime);
        targets = super::rings
    }
}
use group::benches;
criterion_main!(benches);
