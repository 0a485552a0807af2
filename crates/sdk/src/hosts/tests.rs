//! The table against a `HashMap`, its bounds, its ages, and addresses that somebody chose.

use std::collections::HashMap;

use openflow::Dpid;
use proptest::prelude::*;

use super::*;

const SWITCH: Dpid = Dpid(1);

fn host(number: u64) -> MacAddr {
    let [_, _, address @ ..] = number.to_be_bytes();
    MacAddr(address)
}

fn port(number: u64) -> PortNo {
    PortNo(u32::try_from(number % 23).expect("it is below 23") + 1)
}

/// What can be done to a table.
#[derive(Debug, Clone)]
enum Step {
    Learn(u64, u64, u64),
    Remove(u64, u64),
    RemoveValue(u64, u64),
    RemoveScope(u64),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (scope, address) = (0..4_u64, 0..60_u64);
    let step = prop_oneof![
        20 => (scope.clone(), address.clone(), 0..5_u64).prop_map(|(s, a, v)| Step::Learn(s, a, v)),
        2 => (scope.clone(), address).prop_map(|(s, a)| Step::Remove(s, a)),
        1 => (scope.clone(), 0..5_u64).prop_map(|(s, v)| Step::RemoveValue(s, v)),
        1 => scope.prop_map(Step::RemoveScope),
        4 => (0..30_u64).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 0..300)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// With an age of 40 s, and ticks of 10 s therefore.
    #[test]
    fn table_does_what_a_map_does(steps in steps(), ages in any::<bool>()) {
        let mut table = HostTable::new();
        if ages {
            table = table.with_max_age(Duration::from_secs(40));
        }
        // A host's value, and the tick in which it was learned.
        let (mut model, mut now) = (HashMap::<(u64, u64), (u64, u64)>::new(), 0);
        for step in steps {
            match step {
                Step::Learn(scope, address, value) => {
                    let expected = match model.insert((scope, address), (value, now / 10)) {
                        None => Learned::New,
                        Some((from, _)) if from == value => Learned::Known,
                        Some((from, _)) => Learned::Moved { from },
                    };
                    let hosts = table.scope(scope);
                    let is_fresh = hosts.is_some_and(|it| it.is_fresh(host(address), value));
                    prop_assert!(!is_fresh || expected == Learned::Known);
                    prop_assert_eq!(table.learn(scope, host(address), value), expected);
                    prop_assert!(table.scope(scope).unwrap().is_fresh(host(address), value));
                }
                Step::Remove(scope, address) => {
                    let removed = model.remove(&(scope, address)).map(|(value, _)| value);
                    prop_assert_eq!(table.remove(scope, host(address)), removed);
                }
                Step::RemoveValue(scope, value) => {
                    model.retain(|(in_scope, _), (is, _)| (*in_scope, *is) != (scope, value));
                    table.remove_value(scope, value);
                }
                Step::RemoveScope(scope) => {
                    model.retain(|(in_scope, _), _| *in_scope != scope);
                    table.remove_scope(scope);
                }
                Step::Wait(seconds) => {
                    now += seconds;
                    table.advance_to(Duration::from_secs(now));
                    model.retain(|_, (_, learned)| !ages || now / 10 - *learned <= 4);
                }
            }
            for (scope, address) in (0..4).flat_map(|scope| (0..60).map(move |it| (scope, it))) {
                let known = model.get(&(scope, address)).map(|(value, _)| *value);
                prop_assert_eq!(table.get(scope, host(address)), known);
            }
            prop_assert!(table.len() >= model.len());
            prop_assert!(ages || table.len() == model.len());
        }
    }
}

#[test]
fn chosen_addresses_crowd_nothing() {
    // In steps; turned round, so that the highest bits differ; in pairs that are each other's inverse; with few
    // bits that are 1, far apart.
    let in_steps = |step: u64| move |number: u64| number.wrapping_mul(step);
    let shapes: [Box<dyn Fn(u64) -> u64>; 9] = [
        Box::new(in_steps(1)),
        Box::new(in_steps(2)),
        Box::new(in_steps(0x100)),
        Box::new(in_steps(0x1_0000)),
        Box::new(in_steps(0x100_0001)),
        Box::new(in_steps(0x9e37_79b9_7f4b)),
        Box::new(|number| number.reverse_bits() >> 16),
        Box::new(|number| if number & 1 == 0 { number } else { !number }),
        Box::new(|number| (0..17).map(|bit| (number >> bit & 1) << (bit * 14 % 47)).sum()),
    ];
    for (number, shape) in shapes.iter().enumerate() {
        let (mut table, mut model) = (HostTable::new(), HashMap::new());
        for number in 0..100_000_u64 {
            let host = host(shape(number) & 0xffff_ffff_ffff);
            model.insert(host, port(number));
            table.learn(SWITCH, host, port(number));
        }
        let lost = model.iter().filter(|(host, port)| table.get(SWITCH, **host) != Some(**port));
        assert_eq!(lost.count(), 0, "shape {number}");
        assert_eq!(table.len(), model.len());
    }
}

#[test]
fn tables_hash_with_keys_of_their_own() {
    let keys = [HashKey::random(), HashKey::random()];
    let hashes = |key: &HashKey| (0..8).map(|it| key.of(host(it)).hash).collect::<Vec<_>>();
    assert_ne!(hashes(&keys[0]), hashes(&keys[1]));
    assert_eq!(format!("{:?}", keys[0]), "HashKey", "nobody reads it in a log");
}

#[test]
fn flood_spares_hosts_that_speak() {
    const BOUND: usize = 7 * 1024;
    let mut table = HostTable::new().with_hosts_per_scope(BOUND);
    let residents: Vec<MacAddr> = (0..100).map(|number| host(1 << 40 | number)).collect();
    for number in 0..30_000 {
        table.learn(SWITCH, host(number), PortNo(1));
        // Each resident speaks once while a hundred strangers do.
        let resident = residents[usize::try_from(number % 100).unwrap()];
        table.learn(SWITCH, resident, PortNo(2));
        assert!(table.len() <= BOUND + 7 * 7);
    }
    let kept = residents.iter().filter(|host| table.get(SWITCH, **host) == Some(PortNo(2)));
    assert!(kept.count() >= 98);
}

#[test]
fn flood_in_one_scope_takes_nothing_from_another() {
    let mut table = HostTable::new().with_hosts_per_scope(56).with_max_scopes(2);
    for number in 0..50 {
        table.learn(Dpid(2), host(number), PortNo(2));
    }
    for number in 0..1000 {
        table.learn(SWITCH, host(number), PortNo(1));
    }
    assert!((0..50).all(|number| table.get(Dpid(2), host(number)) == Some(PortNo(2))));
}

#[test]
fn hosts_beyond_the_scopes_and_values_are_not_learned() {
    let mut table = HostTable::new().with_max_scopes(2);
    assert_eq!(table.learn(Dpid(2), host(0), 0), Learned::New);
    assert_eq!(table.learn(Dpid(3), host(0), 0), Learned::New);
    assert_eq!(table.learn(Dpid(1), host(0), 0), Learned::NoRoom);
    table.remove_scope(Dpid(2));
    assert_eq!(table.learn(Dpid(1), host(0), 0), Learned::New);
    for value in 1..MAX_VALUES {
        table.learn(Dpid(1), host(0), value);
    }
    assert_eq!(table.learn(Dpid(1), host(1), MAX_VALUES), Learned::NoRoom);
    assert_eq!(table.get(Dpid(1), host(0)), Some(MAX_VALUES - 1));
    assert_eq!(table.learn(Dpid(1), host(0), MAX_VALUES), Learned::NoRoom);
    assert_eq!(table.get(Dpid(1), host(0)), None, "it has moved to where it cannot be learned");
}

#[test]
fn silent_host_is_forgotten_after_its_age() {
    let mut table = HostTable::new().with_max_age(Duration::from_secs(300));
    let at = |table: &mut HostTable<_, _>, seconds| table.advance_to(Duration::from_secs(seconds));
    at(&mut table, 1000);
    table.learn(SWITCH, host(1), PortNo(1));
    at(&mut table, 1299);
    assert_eq!(table.get(SWITCH, host(1)), Some(PortNo(1)));
    table.learn(SWITCH, host(1), PortNo(1));
    at(&mut table, 1200); // which is ignored
    at(&mut table, 1598);
    assert_eq!(table.get(SWITCH, host(1)), Some(PortNo(1)), "it spoke in between");
    at(&mut table, 1675);
    assert_eq!(table.get(SWITCH, host(1)), None);
    table.learn(SWITCH, host(2), PortNo(1));
    assert_eq!(table.len(), 1, "its room is free");
    at(&mut table, 1_000_000);
    assert_eq!(table.get(SWITCH, host(2)), None, "however long nobody asked");
}

#[test]
fn prefetch_changes_nothing() {
    let mut table = HostTable::new();
    for number in 0..10_000 {
        table.learn(SWITCH, host(number), port(number));
    }
    assert!(table.has_large);
    let before = table.len();
    table.prefetch((0..64).map(|number| (Dpid(number % 3), (host(number), host(1 << 40)))));
    assert_eq!(table.len(), before);
    assert!((0..10_000).all(|number| table.get(SWITCH, host(number)) == Some(port(number))));
}
