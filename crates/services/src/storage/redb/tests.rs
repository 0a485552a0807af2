//! Tests the engine with single operations, on a disk that fills up, and against a model.
//!
//! A test calls [`Engine::run`] with operations that one transaction carries out. [`Expect::Nothing`] is a condition of a
//! write: the key must not exist. [`Outcome::Nothing`] is the result of a read: the key does not exist.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use sdk::services::storage::Answer;

use super::*;
use crate::disk::small::SmallDisk;

/// Numbers of two apps, each with a namespace of its own.
const APP: u16 = 1;
const OTHER_APP: u16 = 2;

fn engine() -> Redb<File> {
    Redb::open(tempfile::tempfile().unwrap(), ServiceQuotas::default()).unwrap()
}

fn put<'a>(key: &'a [u8], value: &'a [u8], expect: Expect) -> Op<'a> {
    Op::Put { space: APP, key, expect, value }
}

/// A write that had an effect. The version of a delete is 0.
fn done(version: u64) -> Outcome {
    Outcome::Done { version, changed: true }
}

/// Returns the keys of a page of a list, and whether another page follows.
fn keys_of(outcome: &Outcome) -> (Vec<Vec<u8>>, bool) {
    let Outcome::Keys(body) = outcome else { panic!("{outcome:?}") };
    let Some(Answer::Keys(keys)) = Answer::decode(body) else { panic!() };
    (keys.iter().map(|(key, _)| key.to_vec()).collect(), keys.more)
}

#[test]
fn operation_sees_earlier_ones_of_its_run() {
    let mut engine = engine();
    let ops = [
        Op::Get { space: APP, key: b"k" },
        put(b"k", b"one", Expect::Nothing),
        Op::Get { space: APP, key: b"k" },
        put(b"k", b"two", Expect::Nothing),
        put(b"k", b"two", Expect::Version(1)),
        Op::Get { space: OTHER_APP, key: b"k" },
        Op::Delete { space: APP, key: b"k", expect: Expect::Version(1) },
        Op::Delete { space: APP, key: b"k", expect: Expect::Version(2) },
        put(b"k", b"three", Expect::Version(2)),
        put(b"k", b"three", Expect::Nothing),
    ];
    let expected = [
        Outcome::Nothing,
        done(1),
        Outcome::Value { version: 1, value: b"one".to_vec() },
        Outcome::Conflict { version: 1 },
        done(2),
        Outcome::Nothing,
        Outcome::Conflict { version: 2 },
        done(0),
        Outcome::Conflict { version: 0 },
        done(4), // not 3: the delete was the third write, and versions are unique
    ];
    assert_eq!(engine.run(&ops).unwrap(), expected);
}

#[test]
fn keys_are_listed_by_prefix_in_pages() {
    let mut engine = engine();
    // The padding makes the keys longer than one page of the answer, which is at most `MAX_MESSAGE`.
    let keys: Vec<Vec<u8>> =
        (0..1_000_u32).map(|it| [b"p/", &it.to_be_bytes()[..], &[7; 100]].concat()).collect();
    for chunk in keys.chunks(100) {
        let ops: Vec<Op<'_>> = chunk.iter().map(|key| put(key, b"v", Expect::Anything)).collect();
        engine.run(&ops).unwrap();
    }
    // Neighbours of the prefix "p/" in the order of keys: "p" sorts before it, and "p0" after it, as 0 follows /.
    let others = [put(b"p", b"", Expect::Anything), put(b"p0", b"", Expect::Anything)];
    engine.run(&others).unwrap();
    let (mut found, mut after, mut pages) = (Vec::new(), Vec::new(), 0);
    loop {
        let op = Op::List { space: APP, prefix: b"p/", after: &after };
        let (page, more) = keys_of(&engine.run(&[op]).unwrap()[0]);
        pages += 1;
        after = page.last().cloned().unwrap();
        found.extend(page);
        if !more {
            break;
        }
    }
    assert!(found == keys && pages > 2, "{pages}");
    let other = Op::List { space: OTHER_APP, prefix: b"", after: b"" };
    assert_eq!(keys_of(&engine.run(&[other]).unwrap()[0]), (vec![], false));
}

#[test]
fn quota_is_enforced_and_freed_by_deleting() {
    let mut engine = engine();
    let value = vec![1; 32 * 1024];
    // 600 values are more than the quota of 16 MiB.
    let keys: Vec<[u8; 2]> = (0..600_u16).map(u16::to_be_bytes).collect();
    let ops: Vec<Op<'_>> = keys.iter().map(|key| put(key, &value, Expect::Anything)).collect();
    let outcomes = engine.run(&ops).unwrap();
    let refused = outcomes.iter().position(|it| *it == Outcome::OverQuota).unwrap();
    let size = value.len() + keys[0].len(); // keys count, too
    assert_eq!(refused as u64, ServiceQuotas::default().storage_bytes / size as u64);
    let other = Op::Put { space: OTHER_APP, key: b"k", expect: Expect::Anything, value: &value };
    assert_eq!(engine.run(&[other]).unwrap(), [done(1)], "other namespaces are unaffected");
    let delete = Op::Delete { space: APP, key: &keys[0], expect: Expect::Anything };
    let again = engine.run(&[delete, put(b"new", &value, Expect::Anything)]).unwrap();
    assert!(matches!(again[..], [Outcome::Done { .. }, Outcome::Done { version: 1.., .. }]));
}

#[test]
fn lowered_quota_keeps_existing_data() {
    let file = tempfile::tempfile().unwrap();
    let open = |storage_bytes, storage_keys| {
        let quotas = ServiceQuotas { storage_bytes, storage_keys, ..ServiceQuotas::default() };
        Redb::open(file.try_clone().unwrap(), quotas).unwrap()
    };
    let mut engine = open(100, 2);
    let ops = [
        put(b"a", &[1; 60], Expect::Anything),
        put(b"b", &[1; 60], Expect::Anything),
        put(b"b", &[1; 9], Expect::Anything),
        put(b"c", b"", Expect::Anything),
        put(b"a", &[1; 61], Expect::Anything),
    ];
    // With the key, the first takes 61 of 100 bytes. The second would make them 122. The third key would exceed the
    // quota of 2 keys. The last write replaces the first value.
    let expected = [done(1), Outcome::OverQuota, done(2), Outcome::OverQuota, done(3)];
    assert_eq!(engine.run(&ops).unwrap(), expected);
    drop(engine);
    let mut engine = open(50, 1);
    let ops = [
        put(b"b", &[1; 10], Expect::Anything), // more than before
        put(b"a", &[1; 55], Expect::Anything), // less than before, though still above the quota
        put(b"b", &[2; 9], Expect::Anything),
        Op::Get { space: APP, key: b"a" },
    ];
    let value = Outcome::Value { version: 4, value: vec![1; 55] };
    assert_eq!(engine.run(&ops).unwrap(), [Outcome::OverQuota, done(4), done(5), value]);
}

#[test]
fn full_disk_loses_nothing_and_recovers() {
    let (disk, capacity) = SmallDisk::new(2 << 20);
    let mut engine = Redb::open(disk, ServiceQuotas::default()).unwrap();
    let value = vec![1; 32 * 1024];
    let (mut written, mut failures) = (0_u16, 0);
    for key in 0..200_u16 {
        match engine.run(&[put(&key.to_be_bytes(), &value, Expect::Anything)]) {
            Ok(outcome) => {
                assert_eq!(outcome, [done(u64::from(key) + 1)]);
                written = key + 1;
            }
            Err(DiskError::Full) => failures += 1,
            Err(error) => panic!("{error}"),
        }
        // Several failures, as one alone would not show that a failed write leaves the engine usable.
        if failures == 5 {
            break;
        }
    }
    assert!(written > 10 && failures == 5, "{written} {failures}");
    for key in 0..written {
        let got = engine.run(&[Op::Get { space: APP, key: &key.to_be_bytes() }]).unwrap();
        let version = u64::from(key) + 1;
        assert_eq!(got, [Outcome::Value { version, value: value.clone() }], "{key}");
    }
    let none = engine.run(&[Op::Get { space: APP, key: &written.to_be_bytes() }]).unwrap();
    assert_eq!(none, [Outcome::Nothing]);
    capacity.store(u64::MAX, Ordering::Relaxed);
    let again = engine.run(&[put(b"again", &value, Expect::Nothing)]).unwrap();
    assert_eq!(again, [done(u64::from(written) + 1)]);
}

#[test]
fn foreign_file_is_an_error() {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(&vec![7; 100_000], 0).unwrap();
    assert!(matches!(Redb::open(file, ServiceQuotas::default()), Err(DiskError::Damaged(_))));
}

#[test]
fn file_not_created_on_full_disk_is_created_later() {
    let (disk, capacity) = SmallDisk::new(4096);
    let mut store = DiskStore::new(disk, SCHEMA);
    assert!(matches!(store.with(|_| Ok(())), Err(DiskError::Full)));
    capacity.store(u64::MAX, Ordering::Relaxed);
    store.with(|_| Ok(())).unwrap();
}

#[test]
fn file_with_unfinished_header_is_recreated() {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(b"red", 0).unwrap(); // the beginning of "redb", the file's first bytes
    Redb::open(file, ServiceQuotas::default()).unwrap();
}

/// The contents that the engine must have.
#[derive(Debug, Default)]
struct Model {
    /// The version and the value, by app and key.
    values: BTreeMap<(u16, Vec<u8>), (u64, Vec<u8>)>,
    /// The number of writes and deletes, by app: the last version.
    last: BTreeMap<u16, u64>,
}

impl Model {
    fn run(&mut self, op: &Op<'_>) -> Outcome {
        let (space, key) = op.namespace_and_key();
        let stored = self.values.get(&(space, key.to_vec())).cloned();
        let version = stored.as_ref().map_or(0, |(version, _)| *version);
        let (expect, value) = match *op {
            Op::Put { expect, value, .. } => (expect, Some(value)),
            Op::Delete { expect, .. } => (expect, None),
            Op::Get { .. } => {
                let value = |(version, value)| Outcome::Value { version, value };
                return stored.map_or(Outcome::Nothing, value);
            }
            Op::List { .. } => unreachable!("not generated"),
        };
        let is_expected = match expect {
            Expect::Anything => true,
            Expect::Nothing => stored.is_none(),
            Expect::Version(expected) => stored.is_some() && expected == version,
        };
        if !is_expected {
            return Outcome::Conflict { version };
        }
        if value.is_none() && stored.is_none() {
            return Outcome::Done { version: 0, changed: false };
        }
        let last = self.last.entry(space).or_default();
        *last += 1;
        if let Some(value) = value {
            self.values.insert((space, key.to_vec()), (*last, value.to_vec()));
            done(*last)
        } else {
            self.values.remove(&(space, key.to_vec()));
            done(0)
        }
    }
}

/// An operation that owns its key and value.
#[derive(Debug, Clone)]
struct GeneratedOp {
    space: u16,
    key: [u8; 1],
    action: Action,
}

#[derive(Debug, Clone)]
enum Action {
    Get,
    Put { expect: Expect, value: [u8; 1] },
    Delete { expect: Expect },
}

impl GeneratedOp {
    fn as_op(&self) -> Op<'_> {
        let (space, key) = (self.space, &self.key[..]);
        match &self.action {
            Action::Get => Op::Get { space, key },
            Action::Put { expect, value } => Op::Put { space, key, expect: *expect, value },
            Action::Delete { expect } => Op::Delete { space, key, expect: *expect },
        }
    }
}

/// Generates operations on few keys, so that they meet each other.
fn any_op() -> impl Strategy<Value = GeneratedOp> {
    let any_expect = || {
        prop_oneof![
            2 => Just(Expect::Anything),
            1 => Just(Expect::Nothing),
            3 => (1..=3_u64).prop_map(Expect::Version),
        ]
    };
    // Any value, so that a read of a stale one is noticed.
    let put = (any_expect(), any::<[u8; 1]>());
    let action = prop_oneof![
        1 => Just(Action::Get),
        1 => any_expect().prop_map(|expect| Action::Delete { expect }),
        2 => put.prop_map(|(expect, value)| Action::Put { expect, value }),
    ];
    (APP..=OTHER_APP, 0..3_u8, action).prop_map(|(space, key, action)| GeneratedOp {
        space,
        key: [key],
        action,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn engine_equals_its_model_across_reopening(
        runs in prop::collection::vec(prop::collection::vec(any_op(), 1..8), 1..6)
    ) {
        let file = tempfile::tempfile().unwrap();
        let mut model = Model::default();
        for run in runs {
            let mut engine = Redb::open(file.try_clone().unwrap(), ServiceQuotas::default()).unwrap();
            let ops: Vec<Op<'_>> = run.iter().map(GeneratedOp::as_op).collect();
            let expected: Vec<Outcome> = ops.iter().map(|op| model.run(op)).collect();
            prop_assert_eq!(engine.run(&ops).unwrap(), expected);
        }
    }
}
