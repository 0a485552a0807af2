use super::*;
use crate::config::Config;

const MS: Duration = Duration::from_millis(1);

/// Time goes by in looks, half a second each.
struct Story {
    meter: Meter,
    now: Instant,
    sample: Sample,
    counters: AppCounters,
}

impl Story {
    fn of(limits: &str, to_keep: &[Limit]) -> Self {
        let text = format!("[[app]]\nname = \"a\"\n[app.limits]\n{limits}");
        let config = Config::parse("/rosemary.toml".into(), text).unwrap();
        let limits = config.app("a").unwrap().limits.clone();
        let meter = Meter::new(limits, to_keep.to_vec());
        let (sample, counters) = (Sample::default(), AppCounters::default());
        let mut story = Self { meter, now: Instant::now(), sample, counters };
        assert_eq!(story.next(|_, _| ()), []);
        assert_eq!(story.next(|_, _| ()), []);
        story
    }

    fn next(&mut self, change: impl Fn(&mut Sample, &mut AppCounters)) -> Vec<News> {
        self.now += 500 * MS;
        change(&mut self.sample, &mut self.counters);
        self.meter.counted(self.now, &self.counters);
        self.meter.look(self.now, Some(self.sample))
    }

    /// All news of so many looks.
    fn next_times(
        &mut self,
        times: u32,
        change: impl Fn(&mut Sample, &mut AppCounters),
    ) -> Vec<News> {
        (0..times).flat_map(|_| self.next(&change)).collect()
    }
}

fn soft(limit: Limit, value: u64) -> News {
    News::Alert { limit, value, grade: Grade::Soft }
}

fn hard(limit: Limit, value: u64) -> News {
    News::Alert { limit, value, grade: Grade::Hard }
}

#[test]
fn value_above_its_soft_limit_is_told_once_and_again_when_it_was_below_for_a_while() {
    let mut story = Story::of("memory = { soft = \"40 MiB\", hard = \"64 MiB\" }", &[]);
    let has = |mib: u64| move |sample: &mut Sample, _: &mut AppCounters| sample.memory = mib << 20;
    assert_eq!(story.next(has(40)), []);
    assert_eq!(story.next(has(41)), [soft(Limit::Memory, 41 << 20)]);
    assert_eq!(story.meter.above(), [Limit::Memory]);
    assert_eq!(story.next_times(60, has(45)), []);
    // Not by going up and down around it,
    assert_eq!(story.next(has(39)), []);
    assert_eq!(story.next(has(45)), []);
    // but by having been well below.
    assert_eq!(story.next(has(30)), []);
    assert_eq!(story.meter.above(), []);
    assert_eq!(story.next(has(45)), [soft(Limit::Memory, 45 << 20)]);
    assert_eq!(story.next(has(30)), []);
    assert_eq!(story.next_times(15, has(45)), [], "not ten seconds after the last");
    assert_eq!(story.next_times(10, has(45)), [soft(Limit::Memory, 45 << 20)]);
}

#[test]
fn app_that_was_above_before_it_could_be_told_is_told_when_it_can() {
    let mut story = Story::of("memory = { soft = \"40 MiB\", hard = \"64 MiB\" }", &[]);
    let has = |mib: u64| move |sample: &mut Sample, _: &mut AppCounters| sample.memory = mib << 20;
    assert_eq!(story.next(has(41)), [soft(Limit::Memory, 41 << 20)], "while it is loaded");
    assert_eq!(story.next(has(41)), []);
    story.meter.tell_anew();
    assert_eq!(story.next(has(41)), [soft(Limit::Memory, 41 << 20)]);
    assert_eq!(story.next_times(60, has(41)), []);
}

#[test]
fn value_at_its_hard_limit_is_told_as_that_and_not_as_soft_too() {
    let mut story = Story::of("threads = 10\ndescriptors = 100", &[]);
    let news = story.next(|it, _| (it.threads, it.descriptors) = (10, Some(100)));
    assert_eq!(news, [hard(Limit::Descriptors, 100), hard(Limit::Threads, 10)]);
    assert_eq!(story.next_times(60, |_, _| ()), []);
    let mut story = Story::of("threads = 10", &[]);
    // It had some only between two looks; the system says that it refused more.
    assert_eq!(story.next(|it, _| it.refused_threads = 7), [hard(Limit::Threads, 0)]);
    let mut story = Story::of("threads = 1", &[]);
    assert_eq!(story.next(|it, _| it.threads = 1), [], "a program has one");
}

#[test]
fn rates_are_of_a_second_and_a_processor_held_at_its_limit_is_told() {
    let mut story = Story::of("cpu = 0.5\nflow-mods-per-second = 100", &[]);
    let news = story.next_times(2, |it, counters| {
        it.cpu += 150 * MS;
        counters.flow_mods += 30;
        counters.delivered += 1_000;
    });
    assert_eq!(news, []);
    assert_eq!(story.meter.value(Limit::Cpu), Some(300));
    assert_eq!(story.meter.value(Limit::FlowMods), Some(60));
    assert_eq!(story.meter.events(), Some(2_000));
    let news = story.next_times(2, |it, _| it.cpu += 245 * MS);
    assert_eq!(news, [hard(Limit::Cpu, 490)]);
    let news = story.next_times(2, |_, counters| counters.flow_mods += 45);
    assert_eq!(news, [soft(Limit::FlowMods, 90)]);
}

#[test]
fn what_may_not_be_done_at_all_is_told_when_it_is_tried_and_not_before() {
    let mut story = Story::of("packet-outs-per-second = 0", &[]);
    assert_eq!(story.next_times(10, |_, _| ()), []);
}

#[test]
fn log_that_is_cut_and_packets_that_are_dropped_are_at_the_limit() {
    let mut story = Story::of("", &[]);
    let news = story.next(|it, _| (it.log, it.log_left_out) = (100_000, 50));
    assert_eq!(news, [hard(Limit::Log, 100_000)]);
    let news = story.next(|_, counters| counters.queued = 280 << 10);
    assert_eq!(news, [soft(Limit::Queue, 280 << 10)]);
    assert_eq!(story.next(|_, counters| counters.dropped = 1), [hard(Limit::Queue, 280 << 10)]);
    story.next(|_, counters| counters.queued = 0);
    story.meter.begin();
    story.meter.tell_anew();
    let news = story.next(|it, _| *it = Sample::default());
    assert_eq!(news, [], "what was dropped before is no fault of the one that was started anew");
}

#[test]
fn memory_is_looked_at_more_often_near_the_limit() {
    let story = Story::of("memory = \"512 MiB\"", &[Limit::Memory]);
    let next = |mib: u64| story.meter.next_memory_look(mib << 20).as_millis();
    assert_eq!([0, 100, 400, 470, 512, 600].map(next), [200, 200, 58, 22, 20, 20]);
}

#[test]
fn page_cache_of_a_group_ends_no_app() {
    let mut story = Story::of("memory = \"64 MiB\"", &[Limit::Memory]);
    let news = story.next_times(5, |it, _| (it.memory, it.own_memory) = (80 << 20, 20 << 20));
    assert_eq!(news, [hard(Limit::Memory, 80 << 20)], "the operator sees it");
    let is_end = |news: &News| matches!(news, News::End { .. });
    let news = story.next(|it, _| (it.memory, it.own_memory) = (80 << 20, 65 << 20));
    assert!(news.iter().any(is_end), "{news:?}");
}

#[test]
fn who_passes_what_nothing_else_keeps_is_ended() {
    let mut story = Story::of("memory = \"64 MiB\"", &[Limit::Memory, Limit::Cpu]);
    let news = story.next(|it, _| it.own_memory = 65 << 20);
    let (limit, value, pause) = (Limit::Memory, 65 << 20, LEAST_PAUSE);
    assert_eq!(news[0], News::End { limit, value, pause });
    let mut story = Story::of("cpu = 0.5", &[Limit::Memory, Limit::Cpu]);
    // 0.7 for ten seconds, and nothing for four, are 0.5.
    let pause = Duration::from_secs(4);
    let is_end = |news: &News| *news == News::End { limit: Limit::Cpu, value: 700, pause };
    let news = story.next_times(15, |it, _| it.cpu += 350 * MS);
    assert!(!news.iter().any(is_end), "a burst is no offence: {news:?}");
    let news = story.next_times(10, |it, _| it.cpu += 350 * MS);
    assert!(!news.iter().any(is_end), "what it used before it was looked at counts little");
    let news = story.next_times(20, |it, _| it.cpu += 350 * MS);
    assert!(news.iter().any(is_end), "{news:?}");
    let mut story = Story::of("cpu = 0.5", &[Limit::Memory, Limit::Cpu]);
    let news = story.next_times(100, |it, _| it.cpu += 255 * MS);
    assert!(!news.iter().any(|it| matches!(it, News::End { .. })), "at it is not above: {news:?}");
}

#[test]
fn pause_makes_up_for_what_was_used_within_bounds() {
    let passed = Duration::from_secs(10);
    assert_eq!(pause(passed, 1_000, 100), Duration::from_secs(90));
    assert_eq!(pause(passed, 1_000, 999), LEAST_PAUSE);
    assert_eq!(pause(passed, 16_000, 1), LONGEST_PAUSE);
    assert_eq!(pause(passed, u64::MAX, 0), LONGEST_PAUSE);
}

#[test]
fn kernel_that_begins_anew_and_program_that_does_make_no_rates() {
    let mut story = Story::of("", &[]);
    story.next_times(3, |it, counters| {
        it.cpu += 100 * MS;
        counters.delivered += 500;
    });
    story.meter.begin();
    let news = story.next(|it, counters| (it.cpu, counters.delivered) = (Duration::ZERO, 0));
    assert_eq!(news, []);
    assert_eq!((story.meter.value(Limit::Cpu), story.meter.events()), (None, None));
    story.meter.look(story.now, None);
    assert_eq!(story.meter.value(Limit::Memory), None, "without a process there is nothing to see");
}
