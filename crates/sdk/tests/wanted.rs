//! Tests the library for wanted flows with an application on a bench, switches with flow tables, and a storage.
#![cfg(feature = "host")]
#![allow(clippy::unwrap_used, reason = "messages of a test fit")]

#[path = "wanted/fake.rs"]
mod fake;
#[path = "wanted/histories.rs"]
mod histories;
#[path = "wanted/sets.rs"]
mod sets;
#[path = "wanted/world.rs"]
mod world;

use openflow::{GroupMod, MeterBand, MeterMod, PortNo, Version};
use rosemary_sdk::abi::{Record, RecordKind, Refusal};
use rosemary_sdk::services::{Outcome, RequestId, Service};
use rosemary_sdk::testing::{AlignedRecord, Bench};
use rosemary_sdk::wanted::MARK;

use fake::FakeSwitch;
use world::{PAIR, VERSIONS, Wisher, World, group_of, meter_of, out, three, with_three};

#[test]
fn switch_without_flows_gets_them_back() {
    let mut world = with_three("", &PAIR);
    for index in [0, 1] {
        assert_eq!(world.present(index), three());
        world.reconnect(index, true);
        assert_eq!(world.present(index), three());
    }
    assert!(world.has_logged("restored 3, changed 0, removed 0, kept 0"), "{:#?}", world.log);
}

#[test]
fn restarts_touch_no_flow_that_is_there() {
    for config in ["", "at-once"] {
        let mut world = with_three(config, &PAIR);
        for switch in &mut world.switches {
            switch.flows.iter_mut().for_each(|flow| flow.packets = 7);
        }
        let before = world.switches.iter().map(|it| it.flows.clone()).collect::<Vec<_>>();
        world.restart_app();
        world.restart_kernel();
        world.reconnect(0, false);
        world.reconnect(1, false);
        for (switch, before) in world.switches.iter().zip(before) {
            if config.is_empty() {
                assert_eq!((switch.changes, &switch.flows), (3, &before));
            } else {
                let counts = switch.flows.iter().map(|flow| flow.packets);
                assert!(counts.eq([7; 3]), "counters go on: {:?}", switch.flows);
                assert!(switch.at.version > Version::V1_0 || switch.flows == before);
            }
        }
    }
}

#[test]
fn application_need_not_declare_again() {
    let mut world = with_three("", &PAIR);
    world.switches.iter_mut().for_each(FakeSwitch::wipe);
    world.restart_app();
    assert_eq!((world.present(0), world.present(1)), (three(), three()));
    assert!(world.has_logged("read 3 wanted entries from the storage"), "{:#?}", world.log);
}

#[test]
fn only_own_strays_are_removed() {
    let mut world = with_three("", &PAIR);
    world.add_other(1, 77, 0x77);
    world.add_other(1, 78, MARK | 0x78);
    world.reconnect(1, false);
    let left = world.switches[1].flows.iter().map(|flow| flow.flow_mod().cookie & !MARK);
    assert!(left.eq([0, 1, 2, 0x77]), "{:?}", world.switches[1].flows);
}

#[test]
fn all_flows_of_the_app_are_strays_if_it_says_so() {
    let mut world = with_three("all except", &PAIR);
    world.add_other(0, 77, 0x77);
    world.add_other(0, 78, 0x88);
    world.reconnect(0, false);
    let left = world.switches[0].flows.iter().map(|flow| flow.flow_mod().cookie);
    assert!(left.eq([0, 1, 2, 0x77]), "{:?}", world.switches[0].flows);
}

#[test]
fn entry_dropped_while_a_switch_is_away_is_removed() {
    let mut world = with_three("", &PAIR);
    let down = AlignedRecord::about(RecordKind::SwitchDown, world.switches[0].at);
    world.deliver(vec![down]);
    world.tell(1, 0, 1, 0);
    assert_eq!((world.present(0).len(), world.present(1).len()), (3, 2));
    world.restart_app();
    assert_eq!(
        (world.present(0), world.present(1)),
        ([(0, 0), (2, 0)].into(), [(0, 0), (2, 0)].into())
    );
}

#[test]
fn changed_entry_keeps_its_counters() {
    let mut world = with_three("", &PAIR);
    for switch in &mut world.switches {
        switch.flows.iter_mut().for_each(|flow| flow.packets = 7);
    }
    world.tell(0, 0, 1, 5);
    for index in [0, 1] {
        assert_eq!(world.present(index).get(&1), Some(&5));
        assert!(world.switches[index].flows.iter().all(|flow| flow.packets == 7));
        // Someone else changes it.
        world.switches[index].flows.retain(|flow| flow.flow_mod().cookie & 0xff != 2);
        world.tell(9, u8::try_from(index + 1).unwrap(), 0, 0);
        assert_eq!(world.present(index), [(0, 0), (1, 5), (2, 0)].into());
    }
}

#[test]
fn entry_for_one_switch_replaces_the_one_for_all() {
    let mut world = with_three("", &PAIR);
    world.tell(0, 2, 1, 9);
    assert_eq!((world.present(0)[&1], world.present(1)[&1]), (0, 9));
    world.restart_app();
    assert_eq!((world.present(0)[&1], world.present(1)[&1]), (0, 9));
    world.tell(1, 2, 1, 0);
    assert_eq!((world.present(0)[&1], world.present(1)[&1]), (0, 0));
}

#[test]
fn groups_and_meters_precede_the_flows_that_use_them() {
    let mut world = World::start("", &[Version::V1_3]);
    world.tell(2, 0, 5, 1);
    world.tell(4, 0, 1, 100);
    world.tell(6, 0, 5, 0);
    assert_eq!(world.switches[0].flows.len(), 1, "{:#?}", world.log);
    world.reconnect(0, true);
    let switch = &world.switches[0];
    let (group, meter) = (0x1_0005, 0x101);
    assert!(switch.groups.contains_key(&group) && switch.meters.contains_key(&meter));
    assert_eq!(switch.flows.len(), 1, "{:#?}", world.log);
    let changes = switch.changes;
    world.restart_app();
    assert_eq!(world.switches[0].changes, changes, "nothing is touched");

    // Changed by the application, then by someone else.
    world.tell(2, 0, 5, 2);
    assert_eq!(world.switches[0].groups[&group].buckets[0].actions, out(2));
    world.switches[0].groups.get_mut(&group).unwrap().buckets.clear();
    world.tell(9, 1, 0, 0);
    assert_eq!(world.switches[0].groups[&group].buckets[0].actions, out(2));

    // Groups that were never wanted stay, those that were wanted once go, also in a later life.
    let other = GroupMod { group_id: 0x1_0009, ..group_of(0, 1) };
    world.switches[0].groups.insert(0x1_0009, other);
    let down = AlignedRecord::about(RecordKind::SwitchDown, world.switches[0].at);
    world.deliver(vec![down]);
    world.tell(1, 0, 5, 0);
    world.tell(3, 0, 5, 0);
    world.restart_app();
    assert!(world.switches[0].groups.keys().eq(&[0x1_0009]), "{:?}", world.switches[0].groups);
    assert!(!world.has_logged("does not have"), "{:#?}", world.log);
}

#[test]
fn meters_are_restored_corrected_and_removed() {
    let mut world = World::start("", &[Version::V1_3]);
    world.tell(2, 0, 5, 1);
    world.tell(4, 0, 1, 100);
    world.tell(6, 0, 5, 0);
    let (meter, other) = (0x101, 0x109);
    let rate_of = |world: &World| match world.switches[0].meters[&meter].bands[..] {
        [MeterBand::Drop { rate, .. }] => rate,
        ref bands => panic!("{bands:?}"),
    };
    let before = world.switches[0].changes;
    for step in [World::restart_app, World::restart_kernel] {
        step(&mut world);
        assert_eq!(world.switches[0].changes, before, "a restart touches nothing");
    }

    // The application changes its rate, then somebody else does.
    world.tell(4, 0, 1, 50);
    assert_eq!(rate_of(&world), 50);
    world.switches[0].meters.get_mut(&meter).unwrap().bands = meter_of(1, 7).bands;
    world.tell(9, 1, 0, 0);
    assert_eq!(rate_of(&world), 50);

    // Somebody deletes the meter, and the switch the flow with it.
    world.switches[0].meters.clear();
    world.switches[0].flows.clear();
    world.tell(9, 1, 0, 0);
    assert_eq!((rate_of(&world), world.switches[0].flows.len()), (50, 1));

    // It is dropped while the switch is away, and removed in a later life. One that was never wanted stays.
    world.switches[0].meters.insert(other, MeterMod { meter_id: other, ..meter_of(0, 3) });
    let down = AlignedRecord::about(RecordKind::SwitchDown, world.switches[0].at);
    world.deliver(vec![down]);
    world.tell(5, 0, 1, 0);
    world.restart_app();
    assert!(world.switches[0].meters.keys().eq(&[other]), "{:?}", world.switches[0].meters);
}

#[test]
fn full_table_is_reported_in_words_and_tried_again() {
    for version in VERSIONS {
        let mut world = World::start("declare forget", &[version]);
        world.switches[0].capacity = 3;
        world.reconnect(0, true);
        assert_eq!(world.switches[0].flows.len(), 3);
        assert!(
            world.has_logged("has no room for 2 wanted entries: the flow table is full"),
            "{:#?}",
            world.log
        );
        world.switches[0].capacity = 10;
        for _ in 0..150 {
            world.deliver(Vec::new());
        }
        assert_eq!(world.switches[0].flows.len(), 5);
    }
}

/// The kernel's listing, which may be older than the entries that were sent at once, does not count as a proof that they are there.
#[test]
fn full_table_is_not_reported_as_reconciled() {
    for version in VERSIONS {
        let mut world = World::start("at-once declare forget", &[version]);
        world.switches[0].capacity = 3;
        world.log.clear();
        let switch = &mut world.switches[0];
        let down = AlignedRecord::about(RecordKind::SwitchDown, switch.at);
        switch.at.epoch += 1;
        switch.wipe();
        let (up, earlier) = (AlignedRecord::about(RecordKind::SwitchUp, switch.at), switch.kept());
        world.deliver(vec![down, up]);
        world.deliver(earlier);
        for _ in 0..20 {
            world.deliver(Vec::new());
        }
        let said = |line: &String, words: &str| line.contains(words);
        assert!(world.log.iter().any(|it| said(it, "has no room for 2 wanted entries")));
        let is_empty = |it: &&String| said(it, "restored 0, changed 0, removed 0");
        assert_eq!(world.log.iter().find(is_empty), None, "{:#?}", world.log);
        world.switches[0].capacity = 10;
        for _ in 0..150 {
            world.deliver(Vec::new());
        }
        assert_eq!(world.switches[0].flows.len(), 5);
        assert!(world.log.iter().any(|it| said(it, "restored")), "{:#?}", world.log);
    }
}

#[test]
fn inexpressible_entry_is_reported_once() {
    let mut world = World::start("", &PAIR);
    world.tell(8, 0, 7, 4);
    assert_eq!((world.switches[0].flows.len(), world.switches[1].flows.len()), (0, 1));
    world.reconnect(1, false);
    world.tell(9, 1, 0, 0);
    let failures = world.log.iter().filter(|line| line.contains("does not have the wanted"));
    let failures: Vec<_> = failures.collect();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(
        failures[0].contains("00:00:00:00:00:00:00:01") && failures[0].contains("OpenFlow 1.0")
    );
}

#[test]
fn flow_that_a_switch_lists_otherwise_stays() {
    let mut world = World::start("", &[Version::V1_3]);
    world.switches[0].hides_vlans = true;
    world.tell(8, 0, 7, 0);
    for _ in 0..2 {
        world.tell(9, 1, 0, 0);
    }
    let (flows, changes) = (world.switches[0].flows.clone(), world.switches[0].changes);
    assert_eq!(flows.len(), 1, "{:#?}", world.log);
    world.tell(9, 1, 0, 0);
    assert_eq!((&world.switches[0].flows, world.switches[0].changes), (&flows, changes));
    world.switches[0].flows.clear();
    world.tell(9, 1, 0, 0);
    assert_eq!(world.switches[0].flows.len(), 1, "it is restored");
}

#[test]
fn dry_run_shows_the_difference_and_sends_nothing() {
    let mut world = with_three("", &PAIR);
    world.switches[1].flows.remove(0);
    world.add_other(1, 78, MARK | 0x78);
    world.config = "dry-run".into();
    let changes = world.switches[1].changes;
    world.log.clear();
    world.restart_app();
    assert_eq!(world.switches[1].changes, changes);
    let seen = world.log.join("\n");
    let missing = "+ flow table=0,priority=3,eth_type=0x0800,ipv4_dst=10.0.0.0";
    let stray = "- flow table=0,priority=5,eth_type=0x0800,ipv4_dst=10.0.0.78";
    assert!(seen.contains(missing) && seen.contains(stray), "{seen}");
    assert!(seen.contains("= 2 entries stay") && seen.contains("= 3 entries stay"), "{seen}");
}

#[test]
fn lost_flows_are_restored() {
    for (version, config) in VERSIONS.into_iter().flat_map(|it| [(it, ""), (it, "at-once")]) {
        let mut world = with_three(config, &[version]);
        world.switches[0].wipe();
        let missing = AlignedRecord::about(RecordKind::FlowsMissing, world.switches[0].at);
        if config.is_empty() {
            world.deliver(vec![missing]);
        } else {
            let (_, sent) = world.bench.batch(&[missing]).unwrap();
            let sets = world.bench.commits();
            let has_bundles = version >= Version::V1_3;
            assert_eq!((sets.len(), sent.len() >= 3), (has_bundles.into(), !has_bundles));
            for sent in sent {
                let answers = world.switches[0].handle(&sent.message);
                world.deliver(answers);
            }
            for set in sets {
                assert_eq!(set.messages.len(), 3, "a guard sends all while it handles the event");
                let answers = world.switches[0].commit(&set);
                world.deliver(answers);
            }
        }
        assert_eq!(world.present(0), three());
    }
}

#[test]
fn deleted_flow_is_restored_at_once() {
    for version in VERSIONS {
        for config in ["", "all", "at-once"] {
            let mut world = with_three(config, &[version]);
            let report = world.switches[0].remove(1).expect("the flow asks for a report");
            world.deliver(vec![report]);
            assert_eq!(world.present(0), three(), "{version} {config}");
        }
    }
}

#[test]
fn own_removal_causes_no_reading() {
    let mut world = with_three("", &[Version::V1_3]);
    let readings = world.switches[0].readings;
    world.tell(1, 0, 1, 0);
    assert_eq!(world.present(0).len(), 2);
    assert_eq!(world.switches[0].readings, readings);
}

#[test]
fn flow_of_an_earlier_version_is_reported_from_now_on() {
    let mut world = with_three("", &[Version::V1_3]);
    world.switches[0].report_none();
    let changes = world.switches[0].changes;
    world.restart_app();
    (0..3).for_each(|number| world.tell(0, 0, number, 0));
    assert_eq!(world.switches[0].changes, changes + 3);
    assert!(world.switches[0].remove(0).is_some());
}

#[test]
fn switch_that_lists_no_flags_is_left_alone_soon() {
    let mut world = with_three("", &[Version::V1_3]);
    world.switches[0].lists_flags = false;
    (0..3).for_each(|_| world.tell(9, 1, 0, 0));
    let changes = world.switches[0].changes;
    world.tell(9, 1, 0, 0);
    assert_eq!(world.switches[0].changes, changes);
}

#[test]
fn unread_switch_is_read_by_the_library() {
    let mut world = World::new("declare forget", &[Version::V1_3]);
    world.delivers = false;
    world.snapshot();
    for _ in 0..80 {
        world.deliver(Vec::new());
    }
    assert_eq!(world.present(0).len(), 5);
}

#[test]
fn missing_capability_is_reported_and_entries_are_added() {
    let mut world = World::new("declare forget", &[Version::V1_3]);
    let at = world.switches[0].at;
    world.bench.event(AlignedRecord::about(RecordKind::SwitchUp, at));
    let request = (0..20_000).find_map(|_| world.bench.batch(&[]).unwrap().1.into_iter().next());
    let head = Record {
        reason: Refusal::Capability as u8,
        ..Record::new(RecordKind::Refused, at.version.wire(), at.dpid.0, at.epoch)
    };
    world.deliver(vec![AlignedRecord::new(head, &request.unwrap().message)]);
    assert_eq!(world.present(0).len(), 5);
    assert!(world.has_logged("add \"stats.read\" to its capabilities"), "{:?}", world.log);
}

#[test]
fn refusal_because_of_a_limit_is_tried_again() {
    let mut world = World::new("declare forget at-once", &[Version::V1_3]);
    let at = world.switches[0].at;
    let sent = world.bench.event(AlignedRecord::about(RecordKind::SwitchUp, at));
    assert_eq!(sent.len(), 6, "five flows and a barrier");
    let refused = |message: &[u8]| {
        let head = Record {
            reason: Refusal::Quota as u8,
            ..Record::new(RecordKind::Refused, at.version.wire(), at.dpid.0, at.epoch)
        };
        AlignedRecord::new(head, message)
    };
    world.deliver(sent.iter().map(|sent| refused(&sent.message)).collect());
    (0..8).for_each(|_| world.deliver(Vec::new()));
    assert_eq!(world.present(0).len(), 5);
}

#[test]
fn entries_that_were_not_declared_again_can_be_dropped() {
    let mut world = with_three("", &PAIR);
    world.tell(0, 0, 40, 0);
    world.config = "declare".into(); // 0 to 4
    world.restart_app();
    assert_eq!(world.present(0).len(), 6);
    world.tell(7, 0, 0, 0);
    assert!(world.present(0).keys().copied().eq(0..5));
}

#[test]
fn malformed_storage_is_ignored() {
    let mut world = with_three("", &PAIR);
    for value in world.storage.values.values_mut() {
        value.truncate(value.len() - 1);
    }
    world.storage.values.insert(b"wanted/xyz".to_vec(), vec![1, 2, 3]);
    world.restart_app();
    assert!(world.has_logged("and forgot 1 malformed"), "{:?}", world.log);
    assert_eq!(world.present(0).len(), 2);
}

#[test]
fn storage_that_comes_later_is_read_then() {
    let mut world = with_three("", &PAIR);
    world.switches.iter_mut().for_each(FakeSwitch::wipe);
    world.bench = Bench::configured::<Wisher>("").unwrap();
    let at = world.switches[0].at;
    world.bench.event(AlignedRecord::about(RecordKind::SwitchUp, at));
    let asked = world.bench.asked();
    let request: RequestId = asked[0].id;
    let gone = AlignedRecord::service(Service::Storage, Outcome::Unavailable, request, &[]);
    let mut records = vec![gone];
    world.add_other(0, 78, MARK | 0x78);
    records.extend(world.switches[0].kept());
    world.deliver(records);
    assert_eq!(world.switches[0].flows.len(), 1, "what is not known yet is no stray");
    let up = AlignedRecord::service(Service::Storage, Outcome::Up, RequestId(0), &[]);
    world.deliver(vec![up]);
    assert_eq!((world.present(0), world.switches[0].flows.len()), (three(), 3));
}

#[test]
fn many_flows_are_paced() {
    let mut world = World::start("", &[Version::V1_3]);
    for number in 0..3_000 {
        let [high, low] = u16::to_be_bytes(number);
        let record =
            AlignedRecord::packet_in(world.switches[0].at, PortNo(1), &[0, 0, high, low, 0]);
        let (_, sent) = world.bench.batch(&[record]).unwrap();
        for sent in sent {
            world.switches[0].handle(&sent.message);
        }
    }
    world.deliver(Vec::new());
    world.restart_kernel();
    assert_eq!(world.present(0).len(), 3_000);
    assert!(world.storage.values.len() < 40, "{} keys", world.storage.values.len());
    world.reconnect(0, true);
    assert_eq!(world.present(0).len(), 3_000);
    assert!(world.most_in_a_turn <= 258, "{} messages in a turn", world.most_in_a_turn);
    let changes = world.switches[0].changes;
    world.restart_app();
    assert_eq!(world.switches[0].changes, changes);
}
