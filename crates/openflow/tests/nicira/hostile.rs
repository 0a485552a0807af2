//! Changes of valid actions: cuts, other lengths, other bytes. Each is refused or means what its bytes say.

use rosemary_openflow::nicira::{NICIRA, NiciraAction};
use rosemary_openflow::{Action, Version};

use crate::cases::cases;

/// An action that decodes is the action of its bytes: it encodes to an action that is equal, and shows no padding.
fn refused_or_equal(version: Version, data: &[u8]) {
    let Ok(action) = NiciraAction::decode(version, data) else { return };
    let again = action.encode(version).unwrap_or_else(|error| panic!("{action}: {error}"));
    assert_eq!(NiciraAction::decode(version, &again).as_ref(), Ok(&action));
    assert!(!action.to_string().contains('\n'));
    let _ = (action.plain(), action.destination(), action.nested().len());
}

fn encoded() -> impl Iterator<Item = (Version, Vec<u8>)> {
    cases().into_iter().flat_map(|case| {
        let Action::Nicira(action) = case.action else { unreachable!("all cases are Nicira's") };
        let versions = [Version::V1_0, Version::V1_3, Version::V1_5];
        versions
            .into_iter()
            .filter_map(move |version| Some((version, action.encode(version).ok()?)))
    })
}

#[test]
fn cut_actions_are_refused_or_equal() {
    for (version, data) in encoded() {
        for size in 0..data.len() {
            refused_or_equal(version, &data[..size]);
            assert!(size % 8 == 0 || NiciraAction::decode(version, &data[..size]).is_err());
        }
        for more in [1, 4, 8, 16] {
            refused_or_equal(version, &[&data[..], &vec![0; more]].concat());
            refused_or_equal(version, &[&data[..], &vec![0xff; more]].concat());
        }
    }
}

#[test]
fn changed_actions_are_refused_or_equal() {
    for (version, data) in encoded() {
        for at in 0..data.len() {
            for bit in 0..8 {
                let mut changed = data.clone();
                changed[at] ^= 1 << bit;
                refused_or_equal(version, &changed);
            }
            let Some(pair) = data.get(at..at + 2) else { continue };
            let number = u16::from_be_bytes([pair[0], pair[1]]);
            let near = [1, 4].map(|by| [number.wrapping_add(by), number.wrapping_sub(by)]);
            for other in near.concat().into_iter().chain([0, u16::MAX]) {
                let mut changed = data.clone();
                changed[at..at + 2].copy_from_slice(&other.to_be_bytes());
                refused_or_equal(version, &changed);
            }
        }
    }
}

#[test]
fn padding_must_be_zero() {
    // (an action, the places of its padding)
    for (data, padding) in [
        (vec![0, 1, 0, 5, 0, 0, 0, 0], 4..8),
        (vec![0, 14, 0, 5, 2, 0, 0, 0], 5..8),
        (vec![0, 2, 0, 0, 0, 0, 0, 7], 2..4),
        (vec![0, 17, 0, 0, 0, 0, 0, 0], 2..8),
        (vec![0, 43, 0, 0, 0, 0, 0, 0], 2..8),
        (vec![0, 36, 0, 0, 0, 0, 0, 0], 2..4),
    ] {
        assert!(NiciraAction::decode(Version::V1_3, &data).is_ok());
        for at in padding {
            let mut changed = data.clone();
            changed[at] = 1;
            assert!(NiciraAction::decode(Version::V1_3, &changed).is_err(), "{data:?} at {at}");
        }
    }
}

#[test]
fn deep_nesting_is_left_undecoded() {
    let wrap = |inner: Action| Action::from(NiciraAction::Clone(vec![inner]));
    let deep = |depth: usize| (1..depth).fold(wrap(NiciraAction::Exit.into()), |it, _| wrap(it));
    let Action::Nicira(most) = deep(rosemary_openflow::nicira::DEEPEST) else { unreachable!() };
    assert!(most.encode(Version::V1_3).is_ok());
    let Action::Nicira(more) = deep(rosemary_openflow::nicira::DEEPEST + 1) else { unreachable!() };
    assert!(more.encode(Version::V1_3).is_err());
    // On the wire there can be 4,000 of them: the inner ones are not decoded.
    let mut data = vec![0, 42, 0, 0, 0, 0, 0, 0];
    for size in (0..4000_u16).map(|depth| 16 + 16 * depth) {
        let head = [[0xff, 0xff], size.to_be_bytes()].concat();
        data = [&[0, 42, 0, 0, 0, 0, 0, 0][..], &head, &NICIRA.to_be_bytes(), &data].concat();
    }
    let found = NiciraAction::decode(Version::V1_3, &data).unwrap();
    let mut depth = 0;
    let mut inner = found.nested();
    while let [Action::Nicira(next)] = inner {
        (depth, inner) = (depth + 1, next.nested());
    }
    assert_eq!(depth, rosemary_openflow::nicira::DEEPEST - 1);
    assert!(matches!(inner, [Action::Experimenter { experimenter: NICIRA, .. }]));
    refused_or_equal(Version::V1_3, &data);
}
