//! Changes that belong together are one change set.

use openflow::{PortNo, Version};
use rosemary_sdk::abi::{Record, RecordKind};
use rosemary_sdk::testing::{AlignedRecord, Bench};

use crate::fake;
use crate::world::{VERSIONS, Wisher, World, three, with_three};

/// Wants three flows, then only others.
fn exchanged(version: Version, config: &str) -> World {
    let mut world = World::start(&format!("{config} all"), &[version]);
    (0..3).for_each(|number| world.tell(0, 0, number, 0));
    world.switches[0].sets.clear();
    world.storage = fake::FakeStorage::default();
    world.config = format!("{config} all forget");
    world.bench = Bench::configured::<Wisher>(&world.config).unwrap();
    world
}

/// Declares flows 10 to 13 in a starting application.
fn declare_others(world: &mut World) {
    let at = world.switches[0].at;
    for number in 10..14 {
        world.bench.event(AlignedRecord::packet_in(at, PortNo(1), &[0, 0, 0, number, 1]));
    }
}

#[test]
fn new_flows_replace_those_of_an_earlier_instance_in_one_set() {
    for version in VERSIONS {
        for config in ["", "at-once"] {
            let mut world = exchanged(version, config);
            declare_others(&mut world);
            world.snapshot();
            let numbers = world.present(0);
            assert!(numbers.keys().copied().eq(10..14), "{version} {config}: {numbers:?}");
            let has_bundles = version >= Version::V1_3;
            let expected = if has_bundles { vec![7] } else { vec![] };
            assert_eq!(world.switches[0].sets, expected, "{version} {config}");
        }
    }
}

#[test]
fn guard_without_an_answer_sends_its_flows_soon() {
    let mut world = exchanged(Version::V1_3, "at-once");
    declare_others(&mut world);
    let begin = AlignedRecord::new(Record::new(RecordKind::SnapshotBegin, 0, 0, 0), &[]);
    let at = world.switches[0].at;
    let (_, sent) =
        world.bench.batch(&[begin, AlignedRecord::about(RecordKind::SwitchUp, at)]).unwrap();
    assert_eq!(sent.len(), 1, "the request for the flows");
    let mut waits = 0;
    let sent = loop {
        let (_, sent) = world.bench.batch(&[]).unwrap(); // a millisecond
        if !sent.is_empty() {
            break sent;
        }
        waits += 1;
    };
    assert!((400..600).contains(&waits), "{waits} ms");
    assert_eq!(sent.len(), 5, "four flows and a barrier");
}

#[test]
fn single_change_is_a_single_message() {
    let mut world = with_three("", &[Version::V1_5]);
    world.tell(0, 0, 1, 5);
    world.tell(1, 0, 2, 0);
    assert_eq!(world.present(0), [(0, 0), (1, 5)].into());
    assert!(world.switches[0].sets.is_empty());
}

#[test]
fn new_flows_alone_are_single_messages() {
    let mut world = World::start("declare forget", &[Version::V1_5]);
    assert_eq!((world.present(0).len(), world.switches[0].sets.len()), (5, 0));
    world.reconnect(0, true);
    assert_eq!((world.present(0).len(), world.switches[0].sets.len()), (5, 0));
}

#[test]
fn refused_set_is_divided() {
    let mut world = exchanged(Version::V1_4, "");
    declare_others(&mut world);
    world.switches[0].capacity = 3; // two of the four do not fit beside the three, and one not at all
    world.snapshot();
    for _ in 0..150 {
        world.deliver(Vec::new());
    }
    assert!(world.has_logged("the flow table is full"), "{:#?}", world.log);
    assert_eq!(world.present(0).len(), 3);
    assert!(world.present(0).keys().all(|number| *number >= 10), "{:?}", world.present(0));
}

#[test]
fn full_table_takes_a_set_that_frees_its_room() {
    let mut world = exchanged(Version::V1_4, "");
    let at = world.switches[0].at;
    for number in 10..13 {
        world.bench.event(AlignedRecord::packet_in(at, PortNo(1), &[0, 0, 0, number, 1]));
    }
    world.switches[0].capacity = 3;
    world.snapshot();
    assert!(world.present(0).keys().copied().eq(10..13), "{:?}", world.present(0));
    assert_eq!(world.switches[0].sets, [6_usize]);
}

#[test]
fn outcome_that_never_comes_is_replaced_by_a_reading() {
    let mut world = exchanged(Version::V1_4, "");
    declare_others(&mut world);
    world.switches[0].is_silent = true;
    world.snapshot();
    assert_eq!(world.present(0), three());
    world.switches[0].is_silent = false;
    for _ in 0..250 {
        world.deliver(Vec::new());
    }
    assert!(world.present(0).keys().copied().eq(10..14), "{:?}", world.present(0));
}
