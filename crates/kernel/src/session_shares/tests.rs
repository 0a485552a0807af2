//! Tests of the shares by invented switches. Each seed has its own sessions, apps, weights and reads.

use super::*;

/// Bytes of the longest invented read beyond which a turn of a switch ends.
const TURN: usize = 256 * 1024;

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, below: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % below
    }
}

fn share(name: &str, percent: u8, extra: u16) -> SessionShare {
    let session = SessionId::of(name);
    SessionShare { session, packet_ins_percent: percent, sent_percent: percent, extra }
}

/// Sessions with these percentages and weights, called "0", "1" and so on.
fn shares(of: &[(u8, u16)]) -> Shares {
    let sessions = of.iter().enumerate();
    let sessions =
        sessions.map(|(name, (percent, extra))| share(&name.to_string(), *percent, *extra));
    let shares = SessionShares { best_effort_percent: 5, sessions: sessions.collect() };
    Shares::new(&shares).unwrap()
}

/// A worker with invented switches.
struct Bench {
    shares: Shares,
    /// Bytes that wait for each payer; `usize::MAX` without an end.
    waiting: [usize; Payer::COUNT],
    /// Bytes that were read for each payer.
    read: [u64; Payer::COUNT],
    random: Random,
}

impl Bench {
    fn new(shares: Shares, seed: u64) -> Self {
        Self { shares, waiting: [0; Payer::COUNT], read: [0; Payer::COUNT], random: Random(seed) }
    }

    fn app(&mut self, slot: usize, session: Option<usize>, waiting: usize) {
        let id = session.map_or(SessionId::BEST_EFFORT, |it| SessionId::of(&it.to_string()));
        self.shares.assign(AppSlot::new(slot), id);
        self.waiting[slot] = waiting;
    }

    fn begin(&mut self) {
        let waiting = self.waiting;
        self.shares.begin_round(|payer| waiting[payer.index()] > 0);
    }

    /// Reads once; returns the payer and the size.
    fn read(&mut self) -> Option<(Payer, usize)> {
        let waiting = self.waiting;
        let payer = self.shares.next(|payer| waiting[payer.index()] > 0)?;
        // The apps' pace and the end of a switch's bytes cut reads short.
        let turn = if self.random.below(3) == 0 { 1 + self.random.below(TURN) } else { TURN };
        let size = self.shares.allowance(payer).min(turn).min(waiting[payer.index()]);
        // A read may end with the rest of a message that was read in part.
        let handled = size + self.random.below(2_000);
        let own = (payer != Payer::NONE).then_some((AppSlot(payer.0), handled as u64));
        self.shares.charge(payer, handled, own);
        self.read[payer.index()] += handled as u64;
        if self.waiting[payer.index()] != usize::MAX {
            self.waiting[payer.index()] -= size;
        }
        Some((payer, handled))
    }

    /// Works for some rounds; returns the bytes of the longest.
    fn rounds(&mut self, count: usize) -> usize {
        let round = |bench: &mut Self| {
            bench.begin();
            std::iter::from_fn(|| bench.read()).map(|(_, size)| size).sum()
        };
        (0..count).map(|_| round(self)).max().unwrap()
    }
}

fn assert_near(got: u64, expected: f64, tolerance: f64, what: &str) {
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let ratio = got as f64 / expected;
    assert!((1.0 - tolerance..=1.0 + tolerance).contains(&ratio), "{what}: {got}, not {expected}");
}

#[test]
fn busy_sessions_have_their_shares_within_two_percent() {
    for seed in 1..=100 {
        let mut random = Random(seed);
        let sessions = 1 + random.below(6);
        let mut percents: Vec<u8> = (0..sessions)
            .map(|_| u8::try_from(2 + random.below(90 / sessions - 1)).unwrap())
            .collect();
        percents[0] = percents[0].max(5);
        let of: Vec<_> = percents.iter().map(|percent| (*percent, 0)).collect();
        let mut bench = Bench::new(shares(&of), seed);
        let mut apps = vec![0; sessions + 1];
        for slot in 0..sessions + 1 + random.below(12) {
            let session = slot % (sessions + 1);
            bench.app(slot, session.checked_sub(1), usize::MAX);
            apps[session] += 1;
        }
        bench.rounds(500);
        let all: u64 = bench.read.iter().sum();
        let reserved: f64 = percents.iter().map(|it| f64::from(*it)).sum();
        for (session, apps) in apps.into_iter().enumerate() {
            let slots = (session..MAX_APPS).step_by(sessions + 1);
            let percent = session.checked_sub(1).map_or(100.0 - reserved, |it| percents[it].into());
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let expected = all as f64 * percent / 100.0;
            let read = slots.clone().map(|slot| bench.read[slot]).sum();
            assert_near(read, expected, 0.02, &format!("seed {seed}, session {session}"));
            for slot in slots.take(apps) {
                let of_app = expected / f64::from(u32::try_from(apps).unwrap());
                assert_near(bench.read[slot], of_app, 0.05, &format!("seed {seed}, app {slot}"));
            }
        }
    }
}

#[test]
fn many_apps_of_a_session_have_no_more_than_its_share() {
    let mut bench = Bench::new(shares(&[(90, 0)]), 1);
    for slot in 0..60 {
        bench.app(slot, (slot == 0).then_some(0), usize::MAX);
    }
    bench.rounds(2_000);
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let all = bench.read.iter().sum::<u64>() as f64;
    assert_near(bench.read[0], all * 0.9, 0.02, "59 apps share a tenth");
}

#[test]
fn unused_shares_go_to_sessions_with_extra() {
    // Session 0 is idle with 50 %. Sessions 1 and 2 have 10 % each; best effort has one app.
    let mut bench = Bench::new(shares(&[(50, 0), (10, 0), (10, 300)]), 1);
    for (slot, session, waiting) in
        [(0, Some(0), 0), (1, Some(1), usize::MAX), (2, Some(2), usize::MAX), (3, None, usize::MAX)]
    {
        bench.app(slot, session, waiting);
    }
    bench.rounds(1_000);
    let all = bench.read.iter().sum::<u64>();
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let percent = |it: f64| all as f64 * it / 100.0;
    // 75 % are left: three quarters for session 2, one for best effort.
    assert_eq!(bench.read[0], 0);
    assert_near(bench.read[1], percent(10.0), 0.02, "no extra");
    assert_near(bench.read[2], percent(10.0 + 56.25), 0.02, "extra");
    assert_near(bench.read[3], percent(5.0 + 18.75), 0.02, "best effort");
}

#[test]
fn rounds_are_whole_whoever_is_idle() {
    for seed in 1..=100 {
        let mut random = Random(seed);
        let of: Vec<(u8, u16)> = (0..4)
            .map(|_| {
                (
                    u8::try_from(1 + random.below(23)).unwrap(),
                    u16::try_from(random.below(2) * 50).unwrap(),
                )
            })
            .collect();
        let mut bench = Bench::new(shares(&of), seed);
        let mut is_busy = false;
        for slot in 0..5 {
            let waits = random.below(2) == 0;
            is_busy |= waits;
            bench.app(slot, slot.checked_sub(1), if waits { usize::MAX } else { 0 });
        }
        if !is_busy {
            bench.waiting[Payer::NONE.index()] = usize::MAX;
        }
        let rounds = 200;
        bench.rounds(rounds);
        let all: u64 = bench.read.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "small")]
        assert_near(all, (rounds * ROUND) as f64, 0.02, &format!("seed {seed}"));
        bench.begin();
        assert!(bench.read().is_some(), "seed {seed}: a waiting switch is always read");
    }
}

#[test]
fn best_effort_keeps_its_five_percent() {
    let mut bench = Bench::new(shares(&[(95, 10_000)]), 1);
    bench.app(0, Some(0), usize::MAX);
    bench.app(1, None, usize::MAX);
    bench.rounds(1_000);
    #[expect(clippy::cast_precision_loss, reason = "small")]
    let all = bench.read.iter().sum::<u64>() as f64;
    assert_near(bench.read[1], all * 0.05, 0.02, "best effort");
}

#[test]
fn every_waiting_app_is_served_within_64_rounds() {
    for seed in 1..=20 {
        let mut bench = Bench::new(shares(&[(90, 10_000), (1, 0)]), seed);
        for slot in 0..MAX_APPS {
            let session = [Some(0), Some(1), None][slot % 3];
            bench.app(slot, session, usize::MAX);
        }
        bench.waiting[Payer::NONE.index()] = usize::MAX;
        for _ in 0..5 {
            let before = bench.read;
            let longest = bench.rounds(64);
            assert!(
                before.iter().zip(bench.read).all(|(before, after)| *before < after),
                "seed {seed}"
            );
            assert!(longest < 2 * (ROUND + Payer::COUNT * 3_000), "seed {seed}: {longest}");
            assert!(bench.shares.order.capacity() <= Payer::COUNT);
        }
    }
}

#[test]
fn flood_delays_another_session_by_a_quantum_at_most() {
    for seed in 1..=200 {
        let mut random = Random(seed);
        let mut bench = Bench::new(shares(&[(30, 0), (40, 100)]), seed);
        for slot in 0..12 {
            let session = [None, Some(1)][slot % 2];
            bench.app(slot, session, usize::MAX); // both flood
        }
        bench.app(20, Some(0), 0);
        bench.rounds(1 + random.below(20));
        bench.begin();
        for _ in 0..random.below(10) {
            bench.read();
        }
        let before = bench.read;
        bench.waiting[20] = 200;
        while bench.read().is_some() {} // the worker sees it after the present round
        bench.begin();
        let quanta: Vec<i64> =
            bench.shares.accounts.iter().map(|it| it.quantum.max(LEAST)).collect();
        assert_eq!(bench.read().unwrap().0, Payer(20), "seed {seed}: it is first");
        for slot in 0..12 {
            let read = i64::try_from(bench.read[slot] - before[slot]).unwrap();
            assert!(read <= 2 * quanta[slot] + 2_000, "seed {seed}: app {slot} read {read}");
        }
        let read: u64 = (0..12).map(|slot| bench.read[slot] - before[slot]).sum();
        assert!(read <= ROUND as u64 * 2, "seed {seed}: {read}");
    }
}

#[test]
fn shared_packet_ins_are_charged_to_each_app_that_gets_them() {
    let mut bench = Bench::new(shares(&[(40, 0), (20, 0)]), 1);
    bench.app(0, Some(0), usize::MAX);
    bench.app(1, Some(1), usize::MAX);
    bench.app(2, None, usize::MAX);
    let both = Set::of(AppSlot(1)).with(Set::of(AppSlot(0)));
    assert_eq!(bench.shares.payer(both), Payer(0), "the session with the larger reservation");
    assert_eq!(bench.shares.payer(Set::EMPTY), Payer::NONE);
    bench.begin();
    let deficits = |bench: &Bench| [0, 1, 2].map(|slot: usize| bench.shares.accounts[slot].deficit);
    let before = deficits(&bench);
    bench.shares.charge(Payer(0), 1_000, [(AppSlot(0), 1_000), (AppSlot(1), 1_000)]);
    let after = deficits(&bench);
    assert_eq!([0, 1, 2].map(|it: usize| before[it] - after[it]), [1_000, 1_000, 0]);
    // A flood for the other app alone, which the payer's switch sends, is on that app's account up to a debt of a quantum.
    let debt = 2 * bench.shares.accounts[1].quantum - 1_000;
    let size = usize::try_from(debt).unwrap() + 500;
    bench.shares.charge(Payer(0), size, [(AppSlot(1), size as u64)]);
    assert_eq!(deficits(&bench), [after[0] - 500, after[1] - debt, after[2]]);
    assert_eq!(bench.shares.accounts[1].deficit, -bench.shares.accounts[1].quantum);
}

#[test]
fn portions_of_all_apps_are_one_turn() {
    let mut bench = Bench::new(shares(&[(40, 0), (20, 0)]), 1);
    for (slot, session) in [(0, Some(0)), (1, Some(0)), (2, Some(1)), (3, None), (4, None)] {
        bench.app(slot, session, 0);
    }
    let portions = [0, 1, 2, 3, 4].map(|slot| bench.shares.portion(AppSlot(slot), 5, 4_000));
    assert_eq!(portions, [800, 800, 800, 800, 800]);
    let mut bench = Bench::new(shares(&[(95, 0)]), 1);
    bench.app(0, Some(0), 0);
    assert_eq!(bench.shares.portion(AppSlot(0), 64, 4_000), 3_800);
    assert_eq!(bench.shares.portion(AppSlot(1), 64, 4_000), LEAST_PORTION, "63 apps share 5 %");
}

#[test]
fn without_configured_sessions_there_is_nothing_to_divide() {
    for sessions in [vec![], vec![share("a", 0, 100)]] {
        assert!(Shares::new(&SessionShares { best_effort_percent: 5, sessions }).is_none());
    }
    let mut some = shares(&[(0, 100), (10, 0)]);
    some.assign(AppSlot(0), SessionId::of("0"));
    some.assign(AppSlot(1), SessionId::of("1"));
    let places = [0, 1].map(|slot: usize| some.accounts[slot].session);
    assert_eq!(places, [0, 1], "a session that reserves no packet-ins is served with best effort");
}
