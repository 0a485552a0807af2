use super::*;
use config::Config;

const MS: Duration = Duration::from_millis(1);

/// A meter with a simulated clock: half a second passes between two measurements.
struct Fixture {
    meter: Meter,
    now: Instant,
    sample: Sample,
    counters: AppCounters,
}

impl Fixture {
    fn of(limits: &str, enforced: &[Limit]) -> Self {
        let text = format!("[[app]]\nname = \"a\"\n[app.limits]\n{limits}");
        let config = Config::parse("/rosemary.toml".into(), text).unwrap();
        let limits = config.app("a").unwrap().limits;
        let meter = Meter::new(limits, enforced.to_vec());
        let (sample, counters) = (Sample::default(), AppCounters::default());
        let mut fixture = Self { meter, now: Instant::now(), sample, counters };
        assert_eq!(fixture.next(|_, _| ()), []);
        assert_eq!(fixture.next(|_, _| ()), []);
        fixture
    }

    fn next(&mut self, change: impl Fn(&mut Sample, &mut AppCounters)) -> Vec<LimitEvent> {
        self.now += 500 * MS;
        change(&mut self.sample, &mut self.counters);
        self.meter.counted(self.now, &self.counters);
        self.meter.measure(self.now, Some(self.sample))
    }

    /// All events of `times` measurements.
    fn next_times(
        &mut self,
        times: u32,
        change: impl Fn(&mut Sample, &mut AppCounters),
    ) -> Vec<LimitEvent> {
        (0..times).flat_map(|_| self.next(&change)).collect()
    }
}

fn soft(limit: Limit, value: u64) -> LimitEvent {
    LimitEvent::Alert { limit, value, severity: Severity::Soft }
}

fn hard(limit: Limit, value: u64) -> LimitEvent {
    LimitEvent::Alert { limit, value, severity: Severity::Hard }
}

#[test]
fn alert_repeats_after_value_was_below() {
    let mut fixture = Fixture::of("memory = { soft = \"40 MiB\", hard = \"64 MiB\" }", &[]);
    let has = |mib: u64| move |sample: &mut Sample, _: &mut AppCounters| sample.memory = mib << 20;
    assert_eq!(fixture.next(has(40)), []);
    assert_eq!(fixture.next(has(41)), [soft(Limit::Memory, 41 << 20)]);
    assert_eq!(fixture.meter.above(), [Limit::Memory]);
    assert_eq!(fixture.next_times(60, has(45)), []);
    // A swing around the bound does not repeat the alert,
    assert_eq!(fixture.next(has(39)), []);
    assert_eq!(fixture.next(has(45)), []);
    // a value well below the bound does.
    assert_eq!(fixture.next(has(30)), []);
    assert_eq!(fixture.meter.above(), []);
    assert_eq!(fixture.next(has(45)), [soft(Limit::Memory, 45 << 20)]);
    assert_eq!(fixture.next(has(30)), []);
    assert_eq!(fixture.next_times(15, has(45)), [], "within ten seconds of the last");
    assert_eq!(fixture.next_times(10, has(45)), [soft(Limit::Memory, 45 << 20)]);
}

#[test]
fn alert_repeats_when_app_is_loaded() {
    let mut fixture = Fixture::of("memory = { soft = \"40 MiB\", hard = \"64 MiB\" }", &[]);
    let has = |mib: u64| move |sample: &mut Sample, _: &mut AppCounters| sample.memory = mib << 20;
    assert_eq!(fixture.next(has(41)), [soft(Limit::Memory, 41 << 20)], "while it is loaded");
    assert_eq!(fixture.next(has(41)), []);
    fixture.meter.reset_alerts();
    assert_eq!(fixture.next(has(41)), [soft(Limit::Memory, 41 << 20)]);
    assert_eq!(fixture.next_times(60, has(41)), []);
}

#[test]
fn value_at_hard_limit_raises_one_alert() {
    let mut fixture = Fixture::of("threads = 10\ndescriptors = 100", &[]);
    let events = fixture.next(|it, _| (it.threads, it.descriptors) = (10, Some(100)));
    assert_eq!(events, [hard(Limit::Descriptors, 100), hard(Limit::Threads, 10)]);
    assert_eq!(fixture.next_times(60, |_, _| ()), []);
    let mut fixture = Fixture::of("threads = 10", &[]);
    // The threads existed between two measurements only; the system reports that it refused more.
    assert_eq!(fixture.next(|it, _| it.refused_threads = 7), [hard(Limit::Threads, 0)]);
    let mut fixture = Fixture::of("threads = 1", &[]);
    assert_eq!(fixture.next(|it, _| it.threads = 1), [], "every program has one");
}

#[test]
fn throttled_processor_raises_hard_alert() {
    let mut fixture = Fixture::of("cpu = 0.5\nflow-mods-per-second = 100", &[]);
    let events = fixture.next_times(2, |it, counters| {
        it.cpu += 150 * MS;
        counters.flow_mods += 30;
        counters.delivered += 1_000;
    });
    assert_eq!(events, []);
    assert_eq!(fixture.meter.value(Limit::Cpu), Some(300));
    assert_eq!(fixture.meter.value(Limit::FlowMods), Some(60));
    assert_eq!(fixture.meter.events(), Some(2_000));
    let events = fixture.next_times(2, |it, _| it.cpu += 245 * MS);
    assert_eq!(events, [hard(Limit::Cpu, 490)]);
    let events = fixture.next_times(2, |_, counters| counters.flow_mods += 45);
    assert_eq!(events, [soft(Limit::FlowMods, 90)]);
}

#[test]
fn unused_limit_of_zero_raises_no_alert() {
    let mut fixture = Fixture::of("packet-outs-per-second = 0", &[]);
    assert_eq!(fixture.next_times(10, |_, _| ()), []);
}

#[test]
fn dropped_lines_and_packets_raise_hard_alert() {
    let mut fixture = Fixture::of("", &[]);
    let events = fixture.next(|it, _| (it.log, it.log_left_out) = (100_000, 50));
    assert_eq!(events, [hard(Limit::Log, 100_000)]);
    let events = fixture.next(|_, counters| counters.queued = 280 << 10);
    assert_eq!(events, [soft(Limit::Queue, 280 << 10)]);
    assert_eq!(fixture.next(|_, counters| counters.dropped = 1), [hard(Limit::Queue, 280 << 10)]);
    fixture.next(|_, counters| counters.queued = 0);
    fixture.meter.restart();
    fixture.meter.reset_alerts();
    let events = fixture.next(|it, _| *it = Sample::default());
    assert_eq!(events, [], "packets dropped before the restart do not count");
}

#[test]
fn memory_near_limit_is_checked_more_often() {
    let fixture = Fixture::of("memory = \"512 MiB\"", &[Limit::Memory]);
    let next = |mib: u64| fixture.meter.next_memory_check(mib << 20).as_millis();
    assert_eq!([0, 100, 400, 470, 512, 600].map(next), [200, 200, 58, 22, 20, 20]);
}

#[test]
fn page_cache_kills_no_app() {
    let mut fixture = Fixture::of("memory = \"64 MiB\"", &[Limit::Memory]);
    let events = fixture.next_times(5, |it, _| (it.memory, it.own_memory) = (80 << 20, 20 << 20));
    assert_eq!(events, [hard(Limit::Memory, 80 << 20)], "the operator sees it");
    let is_kill = |events: &LimitEvent| matches!(events, LimitEvent::Kill { .. });
    let events = fixture.next(|it, _| (it.memory, it.own_memory) = (80 << 20, 65 << 20));
    assert!(events.iter().any(is_kill), "{events:?}");
}

#[test]
fn exceeding_limit_of_monitor_kills_program() {
    let mut fixture = Fixture::of("memory = \"64 MiB\"", &[Limit::Memory, Limit::Cpu]);
    let events = fixture.next(|it, _| it.own_memory = 65 << 20);
    let (limit, value, pause) = (Limit::Memory, 65 << 20, LEAST_PAUSE);
    assert_eq!(events[0], LimitEvent::Kill { limit, value, pause });
    let mut fixture = Fixture::of("cpu = 0.5", &[Limit::Memory, Limit::Cpu]);
    // 0.7 for ten seconds and 0 for four seconds average 0.5.
    let pause = Duration::from_secs(4);
    let is_kill =
        |events: &LimitEvent| *events == LimitEvent::Kill { limit: Limit::Cpu, value: 700, pause };
    let events = fixture.next_times(15, |it, _| it.cpu += 350 * MS);
    assert!(!events.iter().any(is_kill), "a burst is no offence: {events:?}");
    let events = fixture.next_times(10, |it, _| it.cpu += 350 * MS);
    assert!(!events.iter().any(is_kill), "the window begins with the first measurement");
    let events = fixture.next_times(20, |it, _| it.cpu += 350 * MS);
    assert!(events.iter().any(is_kill), "{events:?}");
    let mut fixture = Fixture::of("cpu = 0.5", &[Limit::Memory, Limit::Cpu]);
    let events = fixture.next_times(100, |it, _| it.cpu += 255 * MS);
    assert!(
        !events.iter().any(|it| matches!(it, LimitEvent::Kill { .. })),
        "at the limit is not above: {events:?}"
    );
}

#[test]
fn pause_makes_up_for_excess() {
    let passed = Duration::from_secs(10);
    assert_eq!(pause(passed, 1_000, 100), Duration::from_secs(90));
    assert_eq!(pause(passed, 1_000, 999), LEAST_PAUSE);
    assert_eq!(pause(passed, 16_000, 1), LONGEST_PAUSE);
    assert_eq!(pause(passed, u64::MAX, 0), LONGEST_PAUSE);
}

#[test]
fn restarts_make_no_rates() {
    let mut fixture = Fixture::of("", &[]);
    fixture.next_times(3, |it, counters| {
        it.cpu += 100 * MS;
        counters.delivered += 500;
    });
    fixture.meter.restart();
    let events = fixture.next(|it, counters| (it.cpu, counters.delivered) = (Duration::ZERO, 0));
    assert_eq!(events, []);
    assert_eq!((fixture.meter.value(Limit::Cpu), fixture.meter.events()), (None, None));
    fixture.meter.measure(fixture.now, None);
    assert_eq!(fixture.meter.value(Limit::Memory), None, "there is no process");
}
