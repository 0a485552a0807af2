//! Tests the store on files: what a year, a restart, a jumping clock, a full disk and a small budget leave of the samples.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use control::history::{Metric, Subject};
use proptest::prelude::*;
use redb::StorageBackend;
use sdk::{Dpid, PortNo};

use super::*;
use crate::disk::small::SmallDisk;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// The beginning of an hour, and of a day, in 2026.
const BEGIN: u64 = 20_500 * DAY;

const BOUNDS: Bounds = Bounds { bytes: 1 << 30, series: 100 };

/// A file whose writes are not synced, so that years pass quickly.
#[derive(Debug)]
struct Unsynced(File);

#[derive(Debug)]
struct UnsyncedFile<B>(B);

impl Disk for Unsynced {
    fn backend(&self) -> io::Result<impl StorageBackend> {
        self.0.backend().map(UnsyncedFile)
    }
}

impl<B: StorageBackend> StorageBackend for UnsyncedFile<B> {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }
}

fn file() -> File {
    tempfile::tempfile().unwrap()
}

fn store(file: &File, bounds: Bounds) -> Store<Unsynced> {
    Store::new(Unsynced(file.try_clone().unwrap()), bounds)
}

fn name(port: u32) -> SeriesName {
    SeriesName { subject: Subject::Port(Dpid(1), PortNo(port)), metric: Metric::RxBits }
}

fn sample(port: u32, value: u64) -> Sample {
    Sample { name: name(port), value, is_used: true }
}

/// Reads all pages.
fn read<D: Disk>(
    store: &mut Store<D>,
    port: u32,
    (mut from, to): (u64, u64),
    step: u64,
) -> (u64, Points) {
    let (mut all, mut step) = (Points::new(), step);
    loop {
        let page = store.read(&name(port), (from, to), step).unwrap().unwrap();
        assert!(page.points.len() <= MAX_POINTS);
        assert!(page.points.keys().all(|at| !all.contains_key(at)), "pages do not overlap");
        step = page.step;
        all.extend(page.points);
        match page.next {
            Some(next) => {
                assert!(next > from, "reading would not terminate");
                from = next;
            }
            None => return (step, all),
        }
    }
}

fn total(points: &Points) -> (u64, u64) {
    points.values().fold((0, 0), |(count, sum), it| (count + u64::from(it.count), sum + it.sum))
}

#[test]
fn samples_are_read_in_each_resolution() {
    let mut store = store(&file(), BOUNDS);
    for i in 0..720 {
        store.record(BEGIN + i * 10, &[sample(1, i), sample(2, 5)]).unwrap();
    }
    let range = (BEGIN, BEGIN + 2 * HOUR);
    let (step, raw) = read(&mut store, 1, range, 1);
    assert_eq!((step, raw.len(), raw[&(BEGIN + 70)]), (1, 720, Sums::of(7)));
    let (step, minutes) = read(&mut store, 1, range, 60);
    let first = Sums { count: 6, min: 0, max: 5, sum: 15 };
    assert_eq!((step, minutes.len(), minutes[&BEGIN]), (60, 120, first));
    let (step, hours) = read(&mut store, 1, range, HOUR);
    let second = Sums { count: 360, min: 360, max: 719, sum: (360..720).sum() };
    assert_eq!((step, hours.len(), hours[&(BEGIN + HOUR)]), (HOUR, 2, second));
    // Any step, and a range that begins between two points.
    let (step, halves) = read(&mut store, 2, (BEGIN + 1_799, range.1), 1_800);
    assert_eq!((step, halves.len()), (1_800, 4));
    assert_eq!(store.read(&name(3), range, 60).unwrap(), None);
    let (names, more) = store.series("", 1).unwrap();
    assert_eq!((names.as_slice(), more), ([name(1).to_string()].as_slice(), true));
    assert_eq!(store.series(&names[0], 9).unwrap(), (vec![name(2).to_string()], false));
}

#[test]
fn gap_has_no_points() {
    let mut store = store(&file(), BOUNDS);
    for at in [0, 10, 20, 3_000, 3_010] {
        store.record(BEGIN + at, &[sample(1, 1)]).unwrap();
    }
    let (_, minutes) = read(&mut store, 1, (BEGIN, BEGIN + DAY), 60);
    assert_eq!(minutes.keys().map(|at| at - BEGIN).collect::<Vec<_>>(), [0, 3_000]);
}

#[test]
fn restart_keeps_samples_that_are_not_sealed() {
    let file = file();
    for i in 0..300 {
        // Each sample has a process of its own, as if all were killed.
        let mut store = store(&file, BOUNDS);
        store.record(BEGIN + i * 10, &[sample(1, i)]).unwrap();
    }
    let mut store = store(&file, BOUNDS);
    for step in [1, 60, HOUR] {
        let (_, points) = read(&mut store, 1, (BEGIN, BEGIN + HOUR), step);
        assert_eq!(total(&points), (300, (0..300).sum()));
    }
}

#[test]
fn old_samples_become_minutes_and_hours() {
    let mut store = store(&file(), BOUNDS);
    // Four samples per day for a year, and one per hour for the last 40 days.
    let end = BEGIN + 400 * DAY;
    let old = (BEGIN..end - 40 * DAY).step_by(6 * 3_600);
    for at in old.chain((end - 40 * DAY..end).step_by(3_600)) {
        store.record(at, &[sample(1, at % 7)]).unwrap();
    }
    let counted = |store: &mut Store<Unsynced>, back: u64, days: u64, step| {
        let from = end - back * DAY;
        let (step, points) = read(store, 1, (from, from + days * DAY), step);
        (step, total(&points).0)
    };
    assert_eq!(counted(&mut store, 1, 1, 10), (10, 24));
    assert_eq!(counted(&mut store, 10, 1, 10), (60, 24), "there are minutes");
    assert_eq!(counted(&mut store, 30, 5, 60), (60, 120));
    assert_eq!(counted(&mut store, 40, 5, 60), (HOUR, 120), "there are hours");
    let begun = Instant::now();
    let (step, year) = read(&mut store, 1, (end - 365 * DAY, end), HOUR);
    let took = begun.elapsed();
    assert_eq!((step, year.len()), (HOUR, 325 * 4 + 40 * 24));
    assert!(took < Duration::from_secs(1), "a year took {took:?}");
    // All of time is an answer of bounded size, which begins with the first hour that is left.
    let (step, all) = read(&mut store, 1, (0, u64::MAX), 1);
    assert!(step >= HOUR && all.len() as u64 <= MAX_POINTS_IN_ALL, "{step}");
    assert!(total(&all).0 >= year.len() as u64);
    assert!(*all.keys().next().unwrap() > BEGIN, "the oldest hours went");
}

#[test]
fn jumping_clock_loses_only_what_it_displaces() {
    let mut store = store(&file(), BOUNDS);
    let record = |store: &mut Store<Unsynced>, from: u64| {
        for i in 0..100 {
            store.record(from + i * 10, &[sample(1, 3)]).unwrap();
        }
    };
    record(&mut store, BEGIN);
    record(&mut store, BEGIN + 70 * 365 * DAY); // far ahead
    record(&mut store, 5); // 1970
    record(&mut store, u64::MAX - 5_000);
    record(&mut store, BEGIN); // the same seconds again
    record(&mut store, BEGIN + 1_000);
    for step in [1, 60, HOUR] {
        let (its, points) = read(&mut store, 1, (BEGIN, BEGIN + 2_000), step);
        assert_eq!((its, total(&points)), (step, (300, 900)), "step {step}");
    }
    let (_, points) = read(&mut store, 1, (0, 2_000), 60);
    assert_eq!(total(&points).0, 100);
}

#[test]
fn budget_bounds_the_file_and_the_finest_goes_first() {
    let (file, bounds) = (file(), Bounds { bytes: 3 << 20, series: 100 });
    let mut store = store(&file, bounds);
    let mut noise = 1_u64;
    let (mut largest, days) = (0, 4);
    for i in 0..days * 144 {
        let samples: Vec<Sample> = (0..100)
            .map(|port| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                sample(port, noise >> 30)
            })
            .collect();
        store.record(BEGIN + i * 600, &samples).unwrap();
        largest = largest.max(file.metadata().unwrap().len());
    }
    assert!(largest <= bounds.bytes, "the file had {largest} bytes");
    let end = BEGIN + days * DAY;
    let mut counted = |back: u64, step| {
        let (step, points) = read(&mut store, 7, (end - back, end), step);
        (step, total(&points).0)
    };
    assert_eq!(counted(HOUR, 1), (1, 6), "the last hour of samples stays");
    assert_eq!(counted(days * DAY, HOUR), (HOUR, days * 144), "all hours stay");
    let (step, _) = counted(days * DAY, 60);
    assert_eq!(step, HOUR, "the oldest minutes went");
}

#[test]
fn full_disk_refuses_samples_and_recovers() {
    let (disk, capacity) = SmallDisk::new(0);
    let mut store = Store::new(disk, BOUNDS);
    assert!(matches!(store.record(BEGIN, &[sample(1, 1)]), Err(DiskError::Full)));
    capacity.store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
    for i in 1..=100 {
        store.record(BEGIN + i * 10, &[sample(1, 1)]).unwrap();
    }
    capacity.store(0, std::sync::atomic::Ordering::Relaxed);
    for i in 101..=200 {
        assert!(store.record(BEGIN + i * 10, &[sample(1, 1)]).is_err());
    }
    capacity.store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
    store.record(BEGIN + 2_010, &[sample(1, 1)]).unwrap();
    let (_, points) = read(&mut store, 1, (BEGIN, BEGIN + HOUR), 1);
    assert_eq!(total(&points).0, 101);
}

#[test]
fn foreign_file_is_damaged() {
    let file = file();
    std::os::unix::fs::FileExt::write_all_at(&file, &[7; 8192], 0).unwrap();
    assert!(matches!(store(&file, BOUNDS).open(), Err(DiskError::Damaged(_))));
}

#[derive(Debug, Clone)]
enum Step {
    /// Seconds by which the clock advances, number of series with a sample, value.
    Sample(u64, u32, u64),
    /// Seconds by which the clock jumps.
    Jump(i64),
    /// The process is killed.
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (1_u64..400, 0_u32..4, 0_u64..1_000).prop_map(|(it, ports, value)| Step::Sample(it, ports, value)),
        1 => (-20_000_i64..20_000).prop_map(Step::Jump),
        1 => Just(Step::Kill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever the clock does, and whenever the process ends, all resolutions have the samples of a model.
    #[test]
    fn history_is_that_of_a_model(steps in proptest::collection::vec(step(), 1..120)) {
        let (file, mut now) = (file(), BEGIN);
        let mut store = super::tests::store(&file, BOUNDS);
        let mut model: BTreeMap<u32, Points> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Sample(seconds, ports, value) => {
                    now += seconds;
                    let samples: Vec<Sample> =
                        (0..ports).map(|port| sample(port, value + u64::from(port))).collect();
                    store.record(now, &samples).unwrap();
                    for port in 0..ports {
                        add(model.entry(port).or_default(), now, Sums::of(value + u64::from(port)));
                    }
                }
                Step::Jump(seconds) => now = now.saturating_add_signed(seconds),
                Step::Kill => store = super::tests::store(&file, BOUNDS),
            }
        }
        for (port, raw) in &model {
            for step in [1, 60, 900, HOUR] {
                let (its, points) = read(&mut store, *port, (BEGIN - DAY, BEGIN + 3 * DAY), step);
                // The raw samples of four days are more points than one answer has.
                let rolled = roll_up(raw, its);
                prop_assert_eq!(&points, &rolled, "step {}", step);
            }
        }
        prop_assert_eq!(store.state.unwrap().unreadable, 0);
    }
}

/// A year of a few series, for the figures of the documentation: samples every 10 s for the last day, every 30 s for 31 days, and every
/// quarter of an hour before.
#[test]
#[ignore = "minutes; prints the size of a year of a series, and the time of a question"]
fn size_of_a_year() {
    const SERIES: usize = 8;
    let file = file();
    let mut store = store(&file, BOUNDS);
    let (mut noise, mut values, end) = (1_u64, [0_u64; SERIES], BEGIN + 366 * DAY);
    let mut at = BEGIN;
    while at < end {
        for (port, value) in values.iter_mut().enumerate() {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // A quarter of the ports is still, the others vary by a fifth.
            if port % 4 > 0 {
                *value = (50_000_000 + (noise >> 33) % 10_000_000) * (1 + at / 36_000 % 5);
            }
        }
        let samples: Vec<Sample> = (0..).zip(values).map(|(port, it)| sample(port, it)).collect();
        store.record(at, &samples).unwrap();
        at += match end - at {
            ..=DAY => 10,
            left if left <= 31 * DAY => 30,
            _ => 900,
        };
    }
    for (port, days, step) in
        [(0, 365, HOUR), (1, 365, HOUR), (2, 365, DAY), (3, 6, 60), (1, 1, 10)]
    {
        let begun = Instant::now();
        let (step, points) = read(&mut store, port, (end - days * DAY, end), step);
        let took = begun.elapsed();
        eprintln!(
            "{days} days of series {port} in steps of {step} s: {} points, {took:?}",
            points.len()
        );
    }
    let state = store.state.as_ref().unwrap();
    for (level, blocks) in [(Level::Raw, 144), (Level::Minutes, 744), (Level::Hours, 6)] {
        let windows = state.windows.range((level, 0)..=(level, u32::MAX)).rev().take(blocks);
        let size: u64 = windows.map(|it| it.1.size()).sum();
        eprintln!(
            "the last {blocks} blocks of {level:?}: {} bytes per series",
            size / SERIES as u64
        );
    }
    eprintln!("all blocks {} bytes, file {} bytes", state.size(), file.metadata().unwrap().len());
}
