//! Tests when flows count as lost, and the order in which they are put back.

use control::policy::Fail;

use super::super::own_writes::OWN_PATIENCE;
use super::*;

fn guard() -> Policy {
    Policy { stage: Stage::Guard(Fail::Closed), ..Policy::default() }
}

fn waiting() -> Waiting {
    Waiting { slot: AppSlot::new(0), life: 1, handled: 7 }
}

#[test]
fn other_apps_wait_until_guards_have_answered() {
    let (mut healing, now) = (Healing::default(), Instant::now());
    assert!(!healing.holds_back(&Policy::default()) && !healing.begin(now));
    healing.note_loss(Loss::Reported, now);
    assert!(healing.holds_back(&Policy::default()) && !healing.holds_back(&guard()));
    assert!(healing.begin(now) && !healing.begin(now));
    healing.wait_for(waiting());
    assert!(!healing.end(|_| false, now));
    assert!(healing.holds_back(&Policy::default()));
    let later = now + Duration::from_millis(3);
    assert!(healing.end(|guard| guard.handled == 7, later));
    assert!(!healing.holds_back(&Policy::default()));
    assert!(!healing.end(|_| true, later));
}

#[test]
fn restoration_is_reported_once_the_switch_has_stayed() {
    let (mut healing, now) = (Healing::default(), Instant::now());
    healing.note_loss(Loss::Reported, now);
    healing.begin(now);
    let ended = now + Duration::from_millis(3);
    healing.end(|_| true, ended);
    assert_eq!(healing.take_report(ended + GRACE / 2), None);
    let report = healing.take_report(ended + GRACE).map(|it| (it.loss, it.time));
    assert_eq!(report, Some((Loss::Reported, Duration::from_millis(3))));
    assert_eq!(healing.take_report(ended + GRACE), None);
}

#[test]
fn removals_by_the_only_app_are_no_loss() {
    let (mut healing, now) = (Healing::default(), Instant::now());
    healing.expect_removal(now);
    healing.expect_removal(now);
    for _ in 0..2 {
        healing.note_loss(Loss::Reported, now);
        assert!(!healing.begin(now));
    }
    healing.note_loss(Loss::Reported, now);
    assert!(healing.begin(now), "a third one is");
}

#[test]
fn expected_report_that_never_comes_hides_a_loss_for_a_bounded_time() {
    let (mut healing, now) = (Healing::default(), Instant::now());
    healing.expect_removal(now);
    healing.note_loss(Loss::NotListed, now);
    assert!(healing.begin(now), "the switch does not list the entry");
    healing.end(|_| true, now);
    healing.barrier_passed();
    let later = now + INTERVAL + REPORT_PATIENCE;
    healing.note_loss(Loss::Reported, later);
    assert!(healing.begin(later));
}

#[test]
fn unanswered_removals_in_a_row_do_not_hide_a_loss() {
    let (mut healing, start) = (Healing::default(), Instant::now());
    for second in 0..60 {
        healing.expect_removal(start + Duration::from_secs(second));
    }
    // The reports of the last two seconds can still come.
    let now = start + Duration::from_secs(60);
    for _ in 0..3 {
        healing.note_loss(Loss::Reported, now);
    }
    assert!(healing.begin(now));
}

#[test]
fn silent_guard_delays_the_end_for_a_bounded_time() {
    let (mut healing, now) = (Healing::default(), Instant::now());
    healing.note_loss(Loss::NotListed, now);
    healing.begin(now);
    healing.wait_for(waiting());
    assert!(!healing.end(|_| false, now + PATIENCE / 2));
    assert!(healing.end(|_| false, now + PATIENCE));
}

#[test]
fn repeated_losses_are_restored_once_per_interval() {
    let (mut healing, start) = (Healing::default(), Instant::now());
    let step = Duration::from_millis(10);
    let mut begun = 0;
    for now in (0..1000).map(|tick| start + step * tick) {
        healing.note_loss(Loss::Reported, now);
        begun += u32::from(healing.begin(now));
        healing.barrier_passed();
        healing.end(|_| true, now);
    }
    assert_eq!(begun, 10, "in ten seconds");
}

/// Returns the restorations that are reported after `now`.
fn reports(healing: &mut Healing, now: Instant) -> Vec<(Loss, u64)> {
    let later = now + GRACE;
    std::iter::from_fn(|| healing.take_report(later)).map(|it| (it.loss, it.flows())).collect()
}

#[test]
fn loss_during_a_restoration_causes_another() {
    let (mut healing, now) = (Healing::default(), Instant::now());
    healing.note_loss(Loss::Reported, now);
    healing.begin(now);
    healing.barrier_passed();
    healing.note_loss(Loss::Reported, now);
    healing.note_loss(Loss::NotListed, now);
    assert!(healing.end(|_| true, now));
    assert!(healing.holds_back(&Policy::default()), "the next one is noticed");
    assert!(!healing.begin(now) && healing.begin(now + INTERVAL));
    assert!(healing.end(|_| true, now));
    let restored = [(Loss::Reported, 1); 2];
    assert_eq!(reports(&mut healing, now), restored, "the kernel has one entry");
}

#[test]
fn reports_of_one_delete_cause_one_restoration() {
    let (mut healing, now) = (Healing::default(), Instant::now());
    let of_guard = Loss::Guard(AppSlot::new(0));
    healing.note_loss(of_guard, now);
    assert!(healing.begin(now));
    healing.note_loss(of_guard, now);
    assert!(healing.end(|_| true, now));
    healing.note_loss(Loss::Reported, now); // behind the guard's answer and before the reply to the barrier
    healing.note_loss(of_guard, now);
    healing.barrier_passed();
    assert!(!healing.holds_back(&Policy::default()) && !healing.begin(now + INTERVAL));
    assert_eq!(reports(&mut healing, now), [(Loss::Reported, 4)]);
    healing.note_loss(of_guard, now + INTERVAL);
    assert!(healing.begin(now + INTERVAL), "another delete");
    assert!(healing.end(|_| true, now + INTERVAL));
    assert_eq!(reports(&mut healing, now + INTERVAL), [(of_guard, 1)]);
}

#[test]
fn repeated_report_about_the_entry_counts_once() {
    let (mut healing, now) = (Healing::default(), Instant::now());
    (0..1000).for_each(|_| healing.note_loss(Loss::Reported, now));
    assert!(healing.begin(now));
    (0..1000).for_each(|_| healing.note_loss(Loss::Reported, now));
    assert!(healing.end(|_| true, now));
    assert_eq!(reports(&mut healing, now), [(Loss::Reported, 1)]);
}

#[test]
fn missing_reply_to_the_barrier_hides_a_loss_for_a_bounded_time() {
    let (mut healing, now) = (Healing::default(), Instant::now());
    healing.note_loss(Loss::Reported, now);
    assert!(healing.begin(now) && healing.end(|_| true, now));
    let later = now + BARRIER_PATIENCE;
    healing.note_loss(Loss::Guard(AppSlot::new(0)), later);
    assert!(healing.begin(later));
}

#[test]
fn flows_that_a_guard_deletes_are_no_loss() {
    let (mut healing, now) = (Healing::default(), Instant::now());
    healing.note_delete(now);
    let of_guard = Loss::Guard(AppSlot::new(0));
    healing.note_loss(of_guard, now + OWN_PATIENCE / 2);
    assert!(!healing.begin(now + OWN_PATIENCE / 2));
    healing.note_loss(Loss::Reported, now);
    assert!(healing.begin(now), "the kernel's entry is not the guard's");
    healing.end(|_| true, now);
    healing.barrier_passed();
    healing.note_loss(of_guard, now + OWN_PATIENCE);
    assert!(healing.begin(now + OWN_PATIENCE));
}

#[test]
fn changed_flow_is_lost_unless_its_guard_writes() {
    let (mut healing, now) = (Healing::default(), Instant::now());
    let of_guard = Loss::Guard(AppSlot::new(0));
    healing.note_write();
    healing.note_change(of_guard, now);
    assert!(!healing.begin(now));
    assert!(healing.take_own_barrier(now) && !healing.take_own_barrier(now));
    healing.own_writes_passed();
    let later = now + Duration::from_millis(1);
    assert!(healing.take_own_barrier(later), "it was sent at the same moment");
    healing.own_writes_passed();
    healing.note_change(of_guard, later);
    assert!(healing.begin(later) && healing.is_under_way());
}

#[test]
fn entry_that_is_never_listed_is_lost() {
    let (mut check, now) = (EntryCheck::default(), Instant::now());
    let parts = [(false, true), (false, false), (false, true), (false, true), (true, true)];
    let listings = parts.map(|(lists_entry, is_last)| check.part(lists_entry, is_last, now));
    let never = Listing::NeverListed;
    assert_eq!(listings, [Listing::Unknown, Listing::Unknown, never, never, Listing::Listed]);
}

#[test]
fn entry_is_missing_only_if_it_was_listed_before() {
    let (mut check, start) = (EntryCheck::default(), Instant::now());
    assert!(!check.is_due(7, start));
    let mut now = start + CHECK_EVERY + Duration::from_millis(1);
    for (parts, listing) in [
        (&[false][..], Listing::Unknown),
        (&[false, true], Listing::Listed),
        (&[true, false], Listing::Listed),
        (&[false, false], Listing::Gone),
        (&[true], Listing::Listed),
    ] {
        assert!(check.is_due(7, now) && !check.is_due(7, now));
        let count = parts.len();
        let told =
            parts.iter().zip(1..).map(|(part, number)| check.part(*part, number == count, now));
        assert_eq!(told.collect::<Vec<_>>().last(), Some(&listing), "{parts:?}");
        now += CHECK_EVERY;
    }
    assert!(check.is_due(7, now));
    assert!(!check.is_due(7, now + CHECK_EVERY), "the reply is outstanding");
    assert!(check.is_due(7, now + CHECK_PATIENCE));
}

#[test]
fn first_checks_of_switches_are_spread() {
    let start = Instant::now();
    let due = |dpid| {
        let mut check = EntryCheck::default();
        check.is_due(dpid, start);
        check.is_due(dpid, start + CHECK_EVERY / 2)
    };
    let early = (1..=100).filter(|dpid| due(*dpid)).count();
    assert!((20..80).contains(&early), "{early}");
}
