//! Decides when all kernel apps leave the kernel, and when each of them returns.
//!
//! Some faults name no app: a thread that an app started leaks, or an app damages memory that other code uses later. After two
//! ends of the kernel without an explanation, its apps run in zones, where a crash or a leak is of one app alone.
//!
//! ```text
//! two unexplained ends (Rule)
//!        |
//!        v                 the kernel runs for `trial`                  the kernel runs with it for `trial`
//! all apps in zones -----------------------------> Return(app) --------------------------------> Passed(app) --> next app
//!     |         |                                      |
//!     |         +-- a zone fails or leaks: Keep(app)   +-- the kernel ends: Keep(app) --> next app
//!     +-- the kernel ends without them: ReturnAll
//! ```
//!
//! Pure: the caller passes the time and what it sees, and performs the steps.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::usage::leak::LeakDetector;

/// The time within which two unexplained ends belong together. Two leaks of the default window fit in.
const WINDOW: Duration = Duration::from_secs(3600);

/// The longest trial.
const LONGEST_TRIAL: Duration = Duration::from_secs(3600);

/// Counts the ends of the kernel that no evidence explains.
#[derive(Debug, Default)]
pub struct Rule {
    /// When the last one was, and how long that kernel had run.
    last: Option<(Instant, Duration)>,
}

impl Rule {
    /// A kernel that had run for `ran` ended `now` without an explanation. Returns the time of a trial if its apps must leave
    /// it: twice as long as the fault took, and at least `health`.
    pub fn kernel_ended(
        &mut self,
        ran: Duration,
        health: Duration,
        now: Instant,
    ) -> Option<Duration> {
        let last = self.last.replace((now, ran));
        let (_, before) = last.filter(|(at, _)| now.saturating_duration_since(*at) < WINDOW)?;
        self.last = None;
        Some((2 * ran.max(before)).clamp(health, LONGEST_TRIAL.max(health)))
    }
}

/// A step for the caller.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Keep this app out of the kernel until the operator promotes it, for this reason.
    Keep(String, String),
    /// Restart the kernel with this app. Its trial begins.
    Return(String),
    /// Nothing: this app passed its trial.
    Passed(String),
    /// Restart the kernel with these apps, without which it ended as well.
    ReturnAll(Vec<String>),
    /// Nothing: all apps had their trial.
    Complete,
}

/// The state of the programs on which the next step depends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// Whether the kernel runs.
    pub kernel_runs: bool,
    /// Whether the app on trial is loaded in the kernel.
    pub is_loaded: bool,
    /// Whether the app on trial is no longer to run in the kernel: it failed, or an operator stopped or removed it.
    pub has_left: bool,
}

/// An app that waits for its return.
#[derive(Debug)]
struct Waiting {
    app: String,
    /// Watches the memory of its zone.
    leak: LeakDetector,
}

#[derive(Debug)]
enum Stage {
    /// All apps that wait run in zones.
    Zones,
    /// This app has returned.
    OnTrial(String),
    /// The next app may return.
    Between,
}

/// One pass through the apps that left the kernel.
#[derive(Debug)]
pub struct Comeback {
    trial: Duration,
    waiting: VecDeque<Waiting>,
    stage: Stage,
    /// Since when the programs on trial run.
    healthy_since: Option<Instant>,
}

impl Comeback {
    /// Begins with `apps` in zones. A zone leaks if its memory grows by the bytes of `leak` within the time of `leak`.
    pub fn new(apps: Vec<String>, trial: Duration, leak: (u64, Duration)) -> Self {
        let waiting = |app| Waiting { app, leak: LeakDetector::new(leak.0, leak.1) };
        let waiting = apps.into_iter().map(waiting).collect();
        Self { trial, waiting, stage: Stage::Zones, healthy_since: None }
    }

    /// The app on trial.
    pub fn on_trial(&self) -> Option<&str> {
        if let Stage::OnTrial(app) = &self.stage { Some(app) } else { None }
    }

    /// The apps that wait in zones.
    #[cfg(test)]
    fn waiting(&self) -> impl Iterator<Item = &str> {
        self.waiting.iter().map(|it| it.app.as_str())
    }

    /// When [`advance`](Self::advance) is due, if no program changes before.
    pub fn next_due(&self) -> Option<Instant> {
        Some(self.healthy_since? + self.trial)
    }

    /// Returns the next step, if one is due. The sequence assumes that the caller performs it.
    pub fn advance(&mut self, seen: Seen, now: Instant) -> Option<Step> {
        let is_healthy = match self.stage {
            Stage::Between => {
                self.healthy_since = None;
                return seen.kernel_runs.then(|| self.next());
            }
            Stage::OnTrial(_) if seen.has_left => {
                self.stage = Stage::Between;
                return self.advance(seen, now);
            }
            Stage::OnTrial(_) => seen.kernel_runs && seen.is_loaded,
            Stage::Zones => seen.kernel_runs,
        };
        if !is_healthy {
            self.healthy_since = None;
            return None;
        }
        if now < *self.healthy_since.get_or_insert(now) + self.trial {
            return None;
        }
        match std::mem::replace(&mut self.stage, Stage::Between) {
            Stage::OnTrial(app) => Some(Step::Passed(app)),
            Stage::Zones | Stage::Between => Some(self.next()),
        }
    }

    fn next(&mut self) -> Step {
        self.healthy_since = None;
        let Some(Waiting { app, .. }) = self.waiting.pop_front() else { return Step::Complete };
        self.stage = Stage::OnTrial(app.clone());
        Step::Return(app)
    }

    /// The zone of a waiting app has this much memory. Returns a step if it leaks.
    pub fn measured(&mut self, app: &str, memory: u64, now: Instant) -> Option<Step> {
        let waiting = self.waiting.iter_mut().find(|it| it.app == app)?;
        let leak = waiting.leak.measure(now, memory)?;
        self.failed(app, &leak.to_string())
    }

    /// The zone of a waiting app has failed.
    pub fn failed(&mut self, app: &str, why: &str) -> Option<Step> {
        let place = self.waiting.iter().position(|it| it.app == app)?;
        self.waiting.remove(place);
        Some(Step::Keep(app.to_owned(), format!("it failed in a zone as well: {why}")))
    }

    /// The kernel has ended without an explanation.
    pub fn kernel_ended(&mut self, how: &str) -> Step {
        self.healthy_since = None;
        match std::mem::replace(&mut self.stage, Stage::Between) {
            Stage::OnTrial(app) => {
                let why = format!("the kernel ended with it and ran without it: {how}");
                Step::Keep(app, why)
            }
            Stage::Zones | Stage::Between => {
                Step::ReturnAll(self.waiting.drain(..).map(|it| it.app).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: Seen = Seen { kernel_runs: true, is_loaded: false, has_left: false };
    const LOADED: Seen = Seen { is_loaded: true, ..RUNS };
    const AWAY: Seen = Seen { kernel_runs: false, ..RUNS };

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn comeback(apps: &[&str]) -> Comeback {
        let apps = apps.iter().map(|&app| app.to_owned()).collect();
        Comeback::new(apps, s(10), (1 << 20, s(8)))
    }

    #[test]
    fn second_unexplained_end_begins_a_trial() {
        let (mut rule, now) = (Rule::default(), Instant::now());
        assert_eq!(rule.kernel_ended(s(30), s(5), now), None);
        assert_eq!(rule.kernel_ended(s(1), s(5), now + s(100)), Some(s(60)));
        assert_eq!(rule.kernel_ended(s(1), s(5), now + s(101)), None, "the count begins again");
        assert_eq!(rule.kernel_ended(s(1), s(5), now + s(102)), Some(s(5)), "at least `health`");
        assert_eq!(rule.kernel_ended(s(9000), s(5), now + s(200)), None);
        assert_eq!(rule.kernel_ended(s(9000), s(5), now + s(300)), Some(LONGEST_TRIAL));
    }

    #[test]
    fn ends_hours_apart_count_singly() {
        let (mut rule, now) = (Rule::default(), Instant::now());
        for end in 0..100 {
            assert_eq!(rule.kernel_ended(s(1), s(5), now + WINDOW * end), None);
        }
    }

    #[test]
    fn apps_return_one_by_one() {
        let (mut comeback, now) = (comeback(&["a", "b"]), Instant::now());
        assert_eq!(comeback.advance(AWAY, now), None);
        assert_eq!(comeback.advance(RUNS, now + s(1)), None);
        assert_eq!(comeback.next_due(), Some(now + s(11)));
        assert_eq!(comeback.advance(RUNS, now + s(11)), Some(Step::Return("a".into())));
        assert_eq!(comeback.advance(RUNS, now + s(30)), None, "it is not loaded");
        assert_eq!(comeback.advance(LOADED, now + s(31)), None);
        assert_eq!(comeback.advance(LOADED, now + s(41)), Some(Step::Passed("a".into())));
        assert_eq!(comeback.advance(LOADED, now + s(41)), Some(Step::Return("b".into())));
        assert_eq!((comeback.on_trial(), comeback.waiting().count()), (Some("b"), 0));
        comeback.advance(LOADED, now + s(42));
        assert_eq!(comeback.advance(LOADED, now + s(52)), Some(Step::Passed("b".into())));
        assert_eq!(comeback.advance(LOADED, now + s(52)), Some(Step::Complete));
    }

    #[test]
    fn end_of_the_kernel_names_the_app_on_trial() {
        let (mut comeback, now) = (comeback(&["a", "b"]), Instant::now());
        comeback.advance(RUNS, now);
        comeback.advance(RUNS, now + s(10));
        let Step::Keep(app, why) = comeback.kernel_ended("killed by SIGABRT") else { panic!() };
        assert_eq!(app, "a");
        assert_eq!(why, "the kernel ended with it and ran without it: killed by SIGABRT");
        assert_eq!(comeback.advance(AWAY, now + s(11)), None, "the kernel must run first");
        assert_eq!(comeback.advance(RUNS, now + s(12)), Some(Step::Return("b".into())));
    }

    #[test]
    fn kernel_that_ends_without_apps_clears_them() {
        let mut comeback = comeback(&["a", "b"]);
        comeback.advance(RUNS, Instant::now());
        let all = Step::ReturnAll(vec!["a".into(), "b".into()]);
        assert_eq!(comeback.kernel_ended("killed by SIGABRT"), all);
        assert_eq!(comeback.advance(RUNS, Instant::now()), Some(Step::Complete));
    }

    #[test]
    fn zone_that_fails_or_leaks_names_its_app() {
        let (mut comeback, now) = (comeback(&["a", "b", "c"]), Instant::now());
        let Some(Step::Keep(app, why)) = comeback.failed("b", "killed by SIGSEGV") else {
            panic!()
        };
        assert_eq!((&*app, &*why), ("b", "it failed in a zone as well: killed by SIGSEGV"));
        assert_eq!(comeback.failed("b", "again"), None);
        let leak = (0..20).find_map(|second| {
            assert_eq!(comeback.measured("c", 5, now + s(second)), None);
            comeback.measured("a", second << 19, now + s(second))
        });
        let Some(Step::Keep(app, why)) = leak else { panic!("{leak:?}") };
        assert!(app == "a" && why.contains("it leaks memory: "), "{why}");
        assert_eq!(comeback.waiting().collect::<Vec<_>>(), ["c"]);
    }

    #[test]
    fn app_that_left_the_kernel_ends_its_trial() {
        let (mut comeback, now) = (comeback(&["a", "b"]), Instant::now());
        comeback.advance(RUNS, now);
        comeback.advance(RUNS, now + s(10));
        let left = Seen { has_left: true, ..RUNS };
        assert_eq!(comeback.advance(left, now + s(11)), Some(Step::Return("b".into())));
    }
}
