//! Tests of accounts: restarts, hours, bounds.

use super::*;
use crate::effects::Effects;

const HOUR: u64 = 1_000 * HOUR_S;

fn member(name: &str) -> Member {
    Member { session: "video".into(), name: name.into() }
}

fn used(cpu_ms: u64, memory: u64) -> Usage {
    Usage { cpu: Duration::from_millis(cpu_ms), memory }
}

/// The amounts of the member `a` since the hour of this time.
fn amounts(accounts: &Accounts, since: u64) -> Amounts {
    let (_, all) = accounts.since(since);
    all.into_iter().find(|it| it.member == "a").map_or(Amounts::default(), |it| it.amounts)
}

fn accounts() -> (Accounts, ProgramId, Instant) {
    let mut accounts = Accounts::default();
    accounts.set_time(HOUR + 5);
    (accounts, Effects::default().new_program(), Instant::now())
}

#[test]
fn restarts_lose_and_repeat_nothing() {
    let (mut accounts, program, start) = accounts();
    let at = |ms| start + Duration::from_millis(ms);
    accounts.used(program, &member("a"), used(100, 1_000), at(0));
    accounts.used(program, &member("a"), used(150, 1_000), at(2_000));
    accounts.ended(program, &member("a"), Some(Duration::from_millis(170)), at(2_100));
    accounts.used(program, &member("a"), used(30, 500), at(3_000));
    accounts.used(program, &member("a"), used(30, 500), at(4_000));
    let sum = amounts(&accounts, 0);
    assert_eq!((sum.cpu_ns, sum.memory_byte_seconds), (200_000_000, 2_500));
    accounts.ended(program, &member("a"), None, at(4_100));
    accounts.used(program, &member("a"), used(1, 0), at(5_000));
    assert_eq!(amounts(&accounts, 0).cpu_ns, 201_000_000);
}

#[test]
fn process_without_a_reported_end_is_forgotten() {
    let (mut accounts, program, now) = accounts();
    accounts.used(program, &member("a"), used(5, 0), now);
    accounts.forget_others(|it| it == program);
    accounts.used(program, &member("a"), used(6, 0), now);
    accounts.forget_others(|_| false);
    assert!(accounts.processes.is_empty());
    assert_eq!(amounts(&accounts, 0).cpu_ns, 6_000_000);
}

#[test]
fn messages_of_a_killed_kernel_are_kept() {
    let (mut accounts, ..) = accounts();
    let sent = |count: u64| {
        let messages = Messages { sent: count, sent_bytes: 80 * count, ..Messages::default() };
        Traffic::of([(AppId(7), messages)])
    };
    accounts.counted(sent(5), [(AppId(7), member("a"))]);
    // The app was removed before the last count.
    accounts.counted(sent(9), []);
    accounts.kernel_ended();
    accounts.counted(sent(2), [(AppId(7), member("a"))]);
    accounts.counted(Traffic::of([(AppId(8), Messages { sent: 1, ..Messages::default() })]), []);
    let sum = amounts(&accounts, 0);
    assert_eq!((sum.sent_messages, sum.sent_bytes), (11, 880));
    assert_eq!(accounts.since(0).1.len(), 1, "an unknown number has no account");
}

#[test]
fn stored_accounts_continue() {
    let (mut accounts, program, now) = accounts();
    accounts.used(program, &member("a"), used(5, 0), now);
    let first = accounts.take_unstored();
    assert_eq!((first.len(), first[0].hour, first[0].accounts.len()), (1, HOUR, 1));
    assert!(accounts.take_unstored().is_empty());
    accounts.used(program, &member("a"), used(7, 0), now);
    let mut next = Accounts::new(accounts.take_unstored());
    next.set_time(HOUR + HOUR_S);
    next.used(program, &member("a"), used(1, 0), now);
    assert_eq!(amounts(&next, 0).cpu_ns, 8_000_000);
    assert_eq!(next.take_unstored()[0].hour, HOUR + HOUR_S);
}

#[test]
fn since_begins_with_its_hour() {
    let (mut accounts, program, now) = accounts();
    accounts.used(program, &member("a"), used(1, 0), now);
    accounts.set_time(HOUR + HOUR_S);
    accounts.used(program, &member("a"), used(11, 0), now);
    assert_eq!(amounts(&accounts, 0).cpu_ns, 11_000_000);
    assert_eq!(accounts.since(0).0, None, "everything");
    assert_eq!(amounts(&accounts, HOUR + HOUR_S + 99).cpu_ns, 10_000_000);
    assert_eq!(accounts.since(HOUR + HOUR_S + 99).0, Some(HOUR + HOUR_S));
    assert_eq!(amounts(&accounts, HOUR + 99).cpu_ns, 11_000_000);
    assert_eq!(accounts.since(HOUR + 99).0, Some(HOUR));
    assert_eq!(amounts(&accounts, HOUR + 2 * HOUR_S), Amounts::default());
}

#[test]
fn early_hours_become_a_sum() {
    let (mut accounts, program, now) = accounts();
    let hours = MOST_HOURS as u64 + 50;
    let mut stored = BTreeMap::new();
    for hour in 0..hours {
        accounts.set_time(HOUR + hour * HOUR_S);
        accounts.used(program, &member("a"), used(hour + 1, 0), now);
        stored.extend(accounts.take_unstored().into_iter().map(|it| (it.hour, it)));
    }
    assert_eq!(accounts.hours.len(), 1 + MOST_HOURS);
    assert_eq!(amounts(&accounts, 0).cpu_ns, hours * 1_000_000);
    assert_eq!(accounts.since(HOUR + 3 * HOUR_S).0, None, "the hour is a part of the sum");
    // No file was removed, as after a kill.
    assert_eq!(stored.len() as u64, 1 + hours);
    let next = Accounts::new(stored.into_values());
    assert_eq!(amounts(&next, 0).cpu_ns, hours * 1_000_000);
}

#[test]
fn clock_that_is_set_back_repeats_nothing() {
    let (mut accounts, program, now) = accounts();
    accounts.through = HOUR;
    accounts.set_time(5);
    accounts.used(program, &member("a"), used(1, 0), now);
    assert_eq!(accounts.take_unstored()[0].hour, HOUR + HOUR_S);
}

#[test]
fn members_are_bounded() {
    let (mut accounts, ..) = accounts();
    let (effects, now) = (Effects::default(), Instant::now());
    for number in 0..MOST_MEMBERS + 9 {
        let program = effects.new_program();
        accounts.used(program, &member(&format!("a{number}")), used(1, 0), now);
    }
    let (_, all) = accounts.since(0);
    assert_eq!(all.len(), MOST_MEMBERS + 1);
    let others = all.iter().find(|it| it.member == OTHERS).unwrap();
    assert_eq!(others.amounts.cpu_ns, 9_000_000);
}

#[test]
fn members_of_the_sum_are_bounded() {
    let (mut accounts, ..) = accounts();
    let (effects, now) = (Effects::default(), Instant::now());
    let hours = MOST_HOURS + MOST_MEMBERS + 9;
    for hour in 0..hours {
        accounts.set_time(HOUR + hour as u64 * HOUR_S);
        accounts.used(effects.new_program(), &member(&format!("a{hour}")), used(1, 0), now);
    }
    assert_eq!(accounts.hours[&EARLIER].len(), MOST_MEMBERS + 1);
    let sum: u64 = accounts.since(0).1.iter().map(|it| it.amounts.cpu_ns).sum();
    assert_eq!(sum, hours as u64 * 1_000_000);
}
