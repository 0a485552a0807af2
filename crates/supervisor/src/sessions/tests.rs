//! Tests admission and shares: ways to over-commit, and random rows with a seed.

use config::{SessionConfig, Sessions as SessionKeys};
use control::session::{
    CpuReservation, PROCESSOR, Reservation, Resource, SessionId, SessionShare, SessionShares,
};
use proptest::prelude::*;

use super::Sessions;
use super::admission::{Machine, Row, kept};
use super::schedule::{Deadline, ORDINARY, Share, shares, weight};

const MACHINE: Machine = Machine {
    processors: 2,
    workers: 2,
    memory: 8 << 30,
    storage: 100 << 30,
    descriptors: 1_000_000,
    rings: 512 << 20,
    tick: None,
};

fn row(name: &str, values: &[(&str, u64)]) -> SessionConfig {
    let reservation = Reservation::default().with(values.iter().copied()).unwrap();
    SessionConfig { name: name.into(), reservation }
}

fn keys(rows: Vec<SessionConfig>) -> SessionKeys {
    SessionKeys { rows, ..SessionKeys::default() }
}

fn cpu(percent: u64) -> [(&'static str, u64); 2] {
    [("runtime-us", percent * 100), ("period-us", 10_000)]
}

fn owned(values: &[(&str, u64)]) -> Vec<(String, u64)> {
    values.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect()
}

/// The session of Rosemary's own programs.
fn system(sessions: &Sessions) -> &Row {
    &sessions.rows()[0]
}

/// The sum of what is reserved never exceeds the machine.
fn check(sessions: &Sessions) {
    for resource in Resource::ALL {
        let reports = |row| {
            let all = sessions.resources(row);
            all.into_iter().find(|it| it.resource == resource).unwrap()
        };
        let all: Vec<_> = sessions.rows().iter().map(reports).collect();
        let reserved: u128 = all.iter().map(|it| u128::from(it.reserved)).sum();
        let capacity = u128::from(all[0].capacity);
        assert!(reserved <= capacity, "{resource}: {reserved} of {capacity}");
        assert_eq!(capacity - reserved, u128::from(all[0].free), "{resource}");
    }
}

/// The amounts by which a resource is over-committed: one more than free, much more, and a number near an overflow.
fn too_much(resource: Resource) -> Vec<Vec<(&'static str, u64)>> {
    let free = {
        let none = Sessions::new(MACHINE, SessionKeys::default()).unwrap();
        let report = none.resources(system(&none));
        report.into_iter().find(|it| it.resource == resource).unwrap().free
    };
    match resource {
        Resource::Cpu => vec![
            cpu(86).to_vec(),
            cpu(100).to_vec(),
            [&cpu(60)[..], &[("processors", 3)]].concat(),
            [&cpu(85)[..], &[("processors", 64)]].concat(),
        ],
        Resource::PacketIns => {
            vec![vec![("packet-ins-percent", 96)], vec![("packet-ins-percent", 100)]]
        }
        other => {
            let (_, most) = control::session::key_range(other.name()).unwrap();
            let values = [free + 1, free * 2, most];
            values.map(|value| vec![(other.name(), value.min(most))]).to_vec()
        }
    }
}

/// Every way to over-commit: each resource by each amount, at the start, at a reload, at run time, and in two steps.
#[test]
fn forty_ways_to_over_commit_are_refused() {
    let mut tried = 0;
    let mut refused = |result: Result<(), String>, sessions: Option<(&Sessions, &Sessions)>| {
        tried += 1;
        let error = result.unwrap_err();
        assert!(error.contains("reserve less"), "{error}");
        if let Some((before, after)) = sessions {
            assert_eq!(before, after, "a refused change changes nothing");
        }
    };
    for resource in Resource::ALL {
        for values in too_much(resource) {
            let text = |it: super::Refusal| it.to_string();
            let start = Sessions::new(MACHINE, keys(vec![row("a", &values)]));
            refused(start.map(drop).map_err(text), None);

            let admitted =
                Sessions::new(MACHINE, keys(vec![row("a", &[]), row("b", &[])])).unwrap();
            let mut sessions = admitted.clone();
            let reload = sessions.replace(keys(vec![row("b", &[]), row("a", &values)]));
            refused(reload.map_err(text), Some((&admitted, &sessions)));

            let adjust = sessions.adjust("b", &owned(&values));
            refused(adjust, Some((&admitted, &sessions)));
        }
    }
    assert!(tried >= 40, "{tried}");
}

#[test]
fn half_and_half_of_too_much_is_refused() {
    for (first, second) in [(80, 85), (85, 81), (50, 85)] {
        let mut sessions =
            Sessions::new(MACHINE, keys(vec![row("a", &cpu(10)), row("b", &cpu(5))])).unwrap();
        sessions.adjust("a", &owned(&cpu(first))).unwrap();
        let before = sessions.clone();
        let fits = first + second <= 170;
        assert_eq!(sessions.adjust("b", &owned(&cpu(second))).is_ok(), fits, "{first} {second}");
        if !fits {
            assert_eq!(before, sessions);
        }
        check(&sessions);
    }
    // Two thirds twice, in two sessions of two processors each.
    let two = [&cpu(45)[..], &[("processors", 2)]].concat();
    assert!(Sessions::new(MACHINE, keys(vec![row("a", &two), row("b", &two)])).is_err());
}

#[test]
fn refusal_has_the_figures() {
    let error = Sessions::new(
        MACHINE,
        keys(vec![
            row("a", &cpu(60)),
            row("b", &[("processors", 2), ("runtime-us", 6_000), ("period-us", 10_000)]),
        ]),
    );
    let error = error.unwrap_err().to_string();
    assert_eq!(
        error,
        "the session b wants 1.200 processors of cpu, and 1.100 processors are free: of 2.000 processors other sessions have \
         0.800 processors, and 0.100 processors stay for best effort; reserve less"
    );
    let error = Sessions::new(MACHINE, keys(vec![row("a", &cpu(90))])).unwrap_err().to_string();
    assert!(error.contains("0.900 processors; at most 0.850 processors of each"), "{error}");
}

#[test]
fn unknown_and_built_in_sessions_are_not_adjusted() {
    let mut sessions = Sessions::new(MACHINE, keys(vec![row("a", &cpu(10))])).unwrap();
    for (name, values, expected) in [
        ("b", &[("memory", 1)][..], "the sessions are: system, best-effort, a"),
        ("best-effort", &[("memory", 1)], "best-effort-percent"),
        ("system", &[("processors", 1)], "the workers and the monitor"),
        ("a", &[("cpu", 1)], "no key of a session"),
    ] {
        let error = sessions.adjust(name, &owned(values)).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(sessions.system_cpu(), None, "an amount is kept free, and no thread is limited");
    sessions.adjust("system", &owned(&[("memory", 1 << 20)])).unwrap();
    assert_eq!(sessions.system_cpu(), None, "memory limits no thread");
    sessions.adjust("system", &owned(&cpu(10))).unwrap();
    assert_eq!(sessions.system_cpu().unwrap().processors, 3, "two workers and the monitor");
    let row = system(&sessions);
    assert_eq!((row.adjusted, row.reservation.of(Resource::Memory)), (true, 1 << 20));
    sessions.adjust("system", &owned(&[("runtime-us", 0)])).unwrap();
    assert_eq!(sessions.system_cpu(), None);
    let kept = system(&sessions).reservation.of(Resource::Cpu);
    assert_eq!(kept, PROCESSOR / 5, "a tenth of each processor stays free for it");
}

#[test]
fn best_effort_always_keeps_its_part() {
    let all = [&cpu(85)[..], &[("processors", 2), ("packet-ins-percent", 95)]].concat();
    let sessions = Sessions::new(MACHINE, keys(vec![row("a", &all)])).unwrap();
    assert_eq!(kept(&MACHINE, &sessions.keys, Resource::Cpu), PROCESSOR / 10);
    assert_eq!(kept(&MACHINE, &sessions.keys, Resource::PacketIns), 5);
    check(&sessions);
}

#[test]
fn virtual_processors_are_divided_among_members() {
    let cpu = CpuReservation { processors: 2, ..CpuReservation::new(6_000, 10_000) };
    let runtimes = |members| -> Vec<u128> {
        let share = |share| match share {
            Share::Reserved(Deadline { runtime, .. }) => runtime.as_micros(),
            other => panic!("{other:?}"),
        };
        shares(Some(cpu), members).into_iter().map(share).collect()
    };
    assert_eq!(runtimes(1), [6_000]);
    assert_eq!(runtimes(3), [3_000, 6_000, 3_000]);
    assert_eq!(runtimes(5), [2_000, 3_000, 2_000, 3_000, 2_000]);
    assert_eq!(shares(None, 2), [Share::Ordinary; 2]);
    let extra = CpuReservation { extra: 50, ..cpu };
    assert!(matches!(shares(Some(extra), 1)[..], [Share::Weighted { extra: 50, .. }]));
}

#[test]
fn weight_gives_the_share_beside_busy_programs() {
    for (share, all) in [(10, 60), (30, 60), (20, 20), (45, 85)] {
        let billionths = |percent: u64| percent * (PROCESSOR / 100);
        let others = 4 * ORDINARY + 300;
        let of = |share| weight(billionths(share), billionths(all), others);
        // All compete for one processor.
        let rest = if all > share { of(all - share) } else { 0 };
        let total = of(share) + rest + others;
        let part = f64::from(of(share)) / f64::from(total);
        let wanted = f64::from(u32::try_from(share).unwrap()) / 100.0;
        assert!(part + 0.001 >= wanted, "{part} of {wanted}");
    }
    assert_eq!(weight(PROCESSOR, u64::MAX, u32::MAX), 10_000, "bounded");
    assert_eq!(weight(0, 0, 0), ORDINARY, "as much as an app without a session");
    assert_eq!(weight(PROCESSOR / 100, PROCESSOR / 100, 600), ORDINARY);
}

fn any_row() -> impl Strategy<Value = Vec<(&'static str, u64)>> {
    let cpu = (50_u64..2_000_000, 1_000_u64..2_000_000, 1_u64..5);
    let cpu = cpu.prop_map(|(runtime, period, processors)| {
        vec![("runtime-us", runtime.min(period)), ("period-us", period), ("processors", processors)]
    });
    let others = prop::collection::vec((0_usize..8, 0_u64..100), 0..4);
    (prop::option::of(cpu), others).prop_map(|(cpu, others)| {
        let mut values = cpu.unwrap_or_default();
        for (place, percent) in others {
            let name = Resource::ALL[place + 1].name();
            let (_, most) = control::session::key_range(name).unwrap();
            let most = if name == "packet-ins-percent" { most } else { most >> 10 };
            values.push((name, most / 100 * percent));
        }
        values
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Whatever is granted in whatever order, the sum fits; whatever is refused changes nothing.
    #[test]
    fn sums_fit_after_any_changes(
        rows in prop::collection::vec(any_row(), 1..6),
        changes in prop::collection::vec((0_usize..6, any_row()), 0..12),
        processors in 1_u16..9,
    ) {
        let machine = Machine { processors, ..MACHINE };
        let names: Vec<String> = (0..rows.len()).map(|it| format!("s{it}")).collect();
        let rows = rows.iter().zip(&names).map(|(values, name)| row(name, values)).collect();
        let mut sessions = match Sessions::new(machine, keys(rows)) {
            Ok(sessions) => sessions,
            Err(refusal) => {
                prop_assert!(refusal.wanted > refusal.free);
                let empty = names.iter().map(|name| row(name, &[])).collect();
                Sessions::new(machine, keys(empty)).unwrap()
            }
        };
        check(&sessions);
        for (place, values) in changes {
            let before = sessions.clone();
            let name = &names[place % names.len()];
            if sessions.adjust(name, &owned(&values)).is_err() {
                prop_assert_eq!(&before, &sessions);
            }
            check(&sessions);
        }
    }

    /// The threads of a session never receive more than the session has.
    #[test]
    fn shares_never_exceed_the_session(
        runtime in 50_u64..1_000_000,
        period in 1_000_u64..1_000_000,
        processors in 1_u16..5,
        members in 0_usize..70,
    ) {
        let cpu = CpuReservation { processors, ..CpuReservation::new(runtime.min(period), period) };
        let all = shares(Some(cpu), members);
        prop_assert_eq!(all.len(), members);
        let sum: u128 = all.iter().map(|share| match share {
            Share::Reserved(deadline) => deadline.runtime.as_nanos(),
            _ => 0,
        }).sum();
        prop_assert!(sum <= u128::from(cpu.runtime_us) * 1_000 * u128::from(processors));
    }
}

#[test]
fn shares_are_those_of_sessions_that_reserve_work_of_the_kernel() {
    let none = Sessions::new(MACHINE, keys(vec![row("a", &cpu(10))])).unwrap();
    assert_eq!(none.shares(), SessionShares::default());
    let video = [("packet-ins-percent", 30), ("sent-bytes-per-second", 31_250_001), ("extra", 50)];
    let rows =
        vec![row("a", &cpu(10)), row("video", &video), row("b", &[("packet-ins-percent", 5)])];
    let mut sessions = Sessions::new(MACHINE, keys(rows)).unwrap();
    let share = |name, packet_ins_percent, sent_percent, extra| SessionShare {
        session: SessionId::of(name),
        packet_ins_percent,
        sent_percent,
        extra,
    };
    let expected = [share("video", 30, 26, 50), share("b", 5, 0, 0)];
    assert_eq!(sessions.shares().sessions, expected);
    assert_eq!(sessions.shares().best_effort_percent, 5);
    sessions.adjust("video", &owned(&[("packet-ins-percent", 40), ("extra", 0)])).unwrap();
    assert_eq!(sessions.shares().sessions[0], share("video", 40, 26, 0));
    assert!(sessions.adjust("b", &owned(&[("packet-ins-percent", 56)])).is_err());
}
