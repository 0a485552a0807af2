//! Tests the numbers of an image and its judgements, over chosen and random changes.

use super::*;
use crate::memory::Memory;

const ONE: AppId = AppId(1);
const TWO: AppId = AppId(2);

fn image() -> FlowImage {
    FlowImage::new(Memory::new(0).flows())
}

fn entry(event: FlowEvent, owner: AppId, priority: u16, fields: &[u8]) -> FlowEntryView<'_> {
    let (cookie, reason) = (u64::from(owner.0) << 48 | 7, FlowRemovedReason::Delete);
    FlowEntryView { event, reason, table_id: 0, priority, cookie, match_fields: fields }
}

fn report(image: &mut FlowImage, event: FlowEvent, owner: AppId, fields: &[u8]) -> Judgement {
    image.report(&entry(event, owner, 5, fields)).unwrap()
}

/// An image that knows these flows of two owners.
fn listed(flows: &[(AppId, &[u8])]) -> FlowImage {
    let mut image = image();
    image.begin_list();
    for (owner, fields) in flows {
        report(&mut image, FlowEvent::Initial, *owner, fields);
    }
    assert_eq!((image.end_list(), image.is_complete()), (BTreeSet::new(), true));
    image
}

#[test]
fn removal_by_anybody_is_a_loss_of_the_owner_once() {
    let mut image = listed(&[(ONE, b"a"), (TWO, b"b")]);
    let removed = report(&mut image, FlowEvent::Removed, ONE, b"a");
    assert_eq!(removed, Judgement::Removed(ONE));
    assert_eq!(report(&mut image, FlowEvent::Removed, ONE, b"a"), Judgement::Nothing);
    assert_eq!((image.count_of(ONE), image.count_of(TWO)), (0, 1));
}

#[test]
fn expired_flow_is_no_loss() {
    for reason in [
        FlowRemovedReason::IdleTimeout,
        FlowRemovedReason::HardTimeout,
        FlowRemovedReason::EVICTION,
    ] {
        let mut image = listed(&[(ONE, b"a")]);
        let removed = FlowEntryView { reason, ..entry(FlowEvent::Removed, ONE, 5, b"a") };
        assert_eq!(image.report(&removed), Ok(Judgement::Nothing));
        assert_eq!(image.count_of(ONE), 0);
    }
}

#[test]
fn flow_of_another_owner_in_its_place_is_a_loss() {
    let mut image = listed(&[(ONE, b"a")]);
    assert_eq!(report(&mut image, FlowEvent::Added, ONE, b"a"), Judgement::Nothing);
    assert_eq!(report(&mut image, FlowEvent::Modified, ONE, b"a"), Judgement::Changed(ONE));
    assert_eq!(report(&mut image, FlowEvent::Added, TWO, b"a"), Judgement::Changed(ONE));
    assert_eq!((image.count_of(ONE), image.count_of(TWO)), (0, 1));
    let other_priority = entry(FlowEvent::Added, ONE, 6, b"a");
    assert_eq!(image.report(&other_priority), Ok(Judgement::Nothing), "it is another flow");
}

#[test]
fn list_replaces_the_image_and_shows_losses() {
    let mut image = listed(&[(ONE, b"a"), (ONE, b"b"), (TWO, b"c")]);
    image.begin_list();
    report(&mut image, FlowEvent::Initial, ONE, b"a");
    report(&mut image, FlowEvent::Initial, TWO, b"d");
    assert_eq!(image.count_of(ONE), 2, "until the end");
    assert_eq!(image.end_list(), BTreeSet::from([ONE, TWO]));
    assert_eq!((image.count_of(ONE), image.count_of(TWO)), (1, 1));
}

#[test]
fn list_shows_no_losses_without_reports_of_own_changes() {
    let mut image = listed(&[(ONE, b"a")]);
    image.sees_others_only = true;
    image.begin_list();
    assert_eq!(image.end_list(), BTreeSet::new());
}

#[test]
fn map_shrinks_with_its_flows() {
    let mut image = listed(&[]);
    let fields = (0..10_000_u32).map(u32::to_be_bytes);
    for fields in fields.clone() {
        report(&mut image, FlowEvent::Added, ONE, &fields);
    }
    for fields in fields {
        report(&mut image, FlowEvent::Removed, ONE, &fields);
    }
    assert!(image.known.by_hash.capacity() <= 64, "{}", image.known.by_hash.capacity());
}

#[test]
fn change_during_a_list_applies_to_it() {
    let mut image = listed(&[(ONE, b"a"), (ONE, b"b")]);
    image.begin_list();
    report(&mut image, FlowEvent::Initial, ONE, b"a");
    let removed = report(&mut image, FlowEvent::Removed, ONE, b"a");
    assert_eq!(removed, Judgement::Removed(ONE));
    report(&mut image, FlowEvent::Initial, ONE, b"b");
    assert_eq!(image.end_list(), BTreeSet::new());
    assert_eq!(image.count_of(ONE), 1);
}

#[test]
fn endless_reports_end_at_the_bound() {
    let mut image = image();
    image.begin_list();
    let mut accepted = 0_u32;
    while accepted < u32::MAX {
        let fields = accepted.to_be_bytes();
        if image.report(&entry(FlowEvent::Initial, ONE, 5, &fields)).is_err() {
            break;
        }
        accepted += 1;
    }
    assert_eq!(usize::try_from(accepted).unwrap(), MOST_FLOWS);
    assert!(!image.is_complete());
}

/// Compares the numbers with a table that keeps the flows themselves, over random changes.
#[test]
fn numbers_are_those_of_the_switch_for_any_changes() {
    for seed in 1..=50_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = |below: u8| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            u8::try_from(state % u64::from(below)).expect("it is below a byte")
        };
        let mut image = listed(&[]);
        let mut table: BTreeMap<(u8, u16, u8), AppId> = BTreeMap::new();
        for _ in 0..2_000 {
            let (table_id, priority) = (random(3), u16::from(random(4)));
            let (fields, app) = ([random(20)], AppId(random(4).into()));
            let place = (table_id, priority, fields[0]);
            let is_known = table.contains_key(&place);
            let event = match random(3) {
                0 if is_known => FlowEvent::Removed,
                1 if is_known => FlowEvent::Modified,
                _ => FlowEvent::Added,
            };
            let app = if event == FlowEvent::Removed { table[&place] } else { app };
            let entry = FlowEntryView { table_id, ..entry(event, app, priority, &fields) };
            image.report(&entry).unwrap();
            if event == FlowEvent::Removed {
                table.remove(&place);
            } else {
                table.insert(place, app);
            }
            for app in (0..4).map(AppId) {
                let expected = table.values().filter(|owner| **owner == app).count();
                assert_eq!(image.count_of(app) as usize, expected, "seed {seed}");
            }
        }
        for (number, count) in image.tables() {
            let expected = table.keys().filter(|(table, ..)| *table == number).count();
            assert_eq!(count as usize, expected, "seed {seed}");
        }
    }
}
