//! Random histories: whatever happens, the switches have what is wanted.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rosemary_sdk::Switch;
use rosemary_sdk::abi::RecordKind;
use rosemary_sdk::testing::AlignedRecord;
use rosemary_sdk::wanted::MARK;

use crate::fake;
use crate::world::{VERSIONS, World};

/// A step of a random history.
#[derive(Debug, Clone)]
enum Step {
    Want {
        at: u8,
        number: u16,
        variation: u8,
    },
    Drop {
        at: u8,
        number: u16,
    },
    RestartApp,
    RestartKernel,
    Reconnect {
        index: usize,
        wipe: bool,
    },
    /// Someone deletes a flow and nobody says so.
    Delete {
        index: usize,
        place: usize,
    },
    /// A flow of another owner, which the library must ignore.
    Reactive {
        index: usize,
        number: u16,
    },
    /// All flows are deleted, and the kernel notices.
    Lose {
        index: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u8..3, 0_u16..6, 0_u8..3).prop_map(|(at, number, variation)| Step::Want { at, number, variation }),
        2 => (0_u8..3, 0_u16..6).prop_map(|(at, number)| Step::Drop { at, number }),
        1 => Just(Step::RestartApp),
        1 => Just(Step::RestartKernel),
        1 => (0_usize..2, any::<bool>()).prop_map(|(index, wipe)| Step::Reconnect { index, wipe }),
        1 => (0_usize..2, 0_usize..6).prop_map(|(index, place)| Step::Delete { index, place }),
        1 => (0_usize..2, 100_u16..104).prop_map(|(index, number)| Step::Reactive { index, number }),
        1 => (0_usize..2).prop_map(|index| Step::Lose { index }),
    ];
    prop::collection::vec(step, 1..24)
}

/// The flows that switch `index` must have: variations by number.
fn expected(wanted: &BTreeMap<(u8, u16), u8>, index: usize) -> BTreeMap<u16, u32> {
    let dpid = u8::try_from(index + 1).unwrap();
    let mut all: BTreeMap<u16, u32> = BTreeMap::new();
    for scope in [0, dpid] {
        let of = wanted.iter().filter(|((at, _), _)| *at == scope);
        all.extend(of.map(|((_, number), variation)| (*number, u32::from(*variation))));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn switches_have_what_is_wanted_after_any_history(
        steps in steps(),
        at_once in any::<bool>(),
        older in 0..VERSIONS.len() / 2,
    ) {
        let versions = [VERSIONS[older], VERSIONS[older + VERSIONS.len() / 2]];
        let mut world = World::start(if at_once { "at-once" } else { "" }, &versions);
        let mut wanted: BTreeMap<(u8, u16), u8> = BTreeMap::new();
        let mut reactive = [0_usize; 2];
        for step in steps {
            let before: Vec<_> = world.switches.iter().map(|it| it.flows.clone()).collect();
            let is_restart = matches!(step, Step::RestartApp | Step::RestartKernel | Step::Reconnect { wipe: false, .. });
            match step {
                Step::Want { at, number, variation } => {
                    wanted.insert((at, number), variation);
                    world.tell(0, at, number, variation);
                }
                Step::Drop { at, number } => {
                    wanted.remove(&(at, number));
                    world.tell(1, at, number, 0);
                }
                Step::RestartApp => world.restart_app(),
                Step::RestartKernel => world.restart_kernel(),
                Step::Reconnect { index, wipe } => {
                    reactive[index] *= usize::from(!wipe);
                    world.reconnect(index, wipe);
                }
                Step::Delete { index, place } => {
                    let flows = &mut world.switches[index].flows;
                    if flows.get(place).is_some_and(|flow| flow.flow_mod().cookie & MARK != 0) {
                        flows.remove(place);
                    }
                    world.tell(9, u8::try_from(index + 1).unwrap(), 0, 0);
                }
                Step::Reactive { index, number } => {
                    world.add_other(index, number, number.into());
                    let is_other = |flow: &&fake::Flow| flow.flow_mod().cookie & MARK == 0;
                    reactive[index] = world.switches[index].flows.iter().filter(is_other).count();
                }
                Step::Lose { index } => {
                    world.switches[index].wipe();
                    reactive[index] = 0;
                    let at: Switch = world.switches[index].at;
                    world.deliver(vec![AlignedRecord::about(RecordKind::FlowsMissing, at)]);
                }
            }
            for (index, before) in before.into_iter().enumerate() {
                prop_assert_eq!(world.present(index), expected(&wanted, index));
                let others = world.switches[index].flows.iter();
                let others = others.filter(|flow| flow.flow_mod().cookie & MARK == 0).count();
                prop_assert_eq!(others, reactive[index], "flows of others stay, and are not restored");
                if is_restart && !at_once {
                    prop_assert_eq!(&world.switches[index].flows, &before, "a restart touches nothing");
                }
            }
        }
        prop_assert!(!world.has_logged("does not have"), "{:?}", world.log);
    }
}
