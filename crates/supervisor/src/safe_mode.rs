//! Decides when safe mode begins, and in which order it starts the apps.
//!
//! Source: *Rosemary* §3.2.6. Pure: the caller passes the time and what it sees, and performs the steps.
//!
//! ```text
//! kernel ended too often (Rule), or --safe-mode
//!        |
//!        v             kernel and services run        it and the kernel run for `health`
//! no app runs ---------------> Start(app) -------------------------> Passed(app) ---+
//!                                  |                                                |
//!                                  +-- it or the kernel ends --> Suspected(app) ----+--> next app, or Complete
//! ```
//!
//! One app at a time is on trial, so the end of a kernel that ran well before points to this app.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use control::operator::{SafeModeStatus, Suspect};

/// Counts the ends of the kernel that nobody requested.
#[derive(Debug)]
pub struct Rule {
    /// The number of ends within `window` that begins safe mode.
    most: u32,
    window: Duration,
    /// The ends within the window, at most `most`.
    ends: VecDeque<Instant>,
}

impl Rule {
    /// The rule of the operator.
    pub fn new(settings: &config::SafeMode) -> Self {
        Self { most: settings.kernel_restarts, window: settings.window, ends: VecDeque::new() }
    }

    /// The kernel ended `now`. Returns the reason for which safe mode begins, as a phrase; `None` if it does not begin.
    pub fn kernel_ended(&mut self, now: Instant) -> Option<String> {
        self.ends.push_back(now);
        let is_old = |end: &Instant| now.saturating_duration_since(*end) >= self.window;
        while self.ends.front().is_some_and(is_old) {
            self.ends.pop_front();
        }
        if self.ends.len() < self.most as usize {
            return None;
        }
        self.ends.clear();
        let times = if self.most == 1 { "once".into() } else { format!("{} times", self.most) };
        Some(format!("the kernel ended {times} in {} s", self.window.as_secs_f64()))
    }
}

/// The state of the programs on which the sequence depends.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Whether the kernel and the services run.
    pub basics_run: bool,
    /// How often the kernel has ended without a request.
    pub kernel_ends: u64,
    /// How the kernel ended last, as a phrase.
    pub kernel_exit: String,
    /// Whether the app on trial runs and has its rings.
    pub app_runs: bool,
    /// Why the app on trial failed, as a phrase, if it did.
    pub app_failure: Option<String>,
}

/// A step for the caller.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Start this app. Its trial begins.
    Start(String),
    /// Nothing: this app passed its trial.
    Passed(String),
    /// Hold this app: its start or its traffic brought the fault back.
    Suspected(Suspect),
    /// Nothing: all apps had their trial.
    Complete,
}

/// The app that was started last.
#[derive(Debug)]
struct Trial {
    app: String,
    /// The kernel's ends before.
    kernel_ends: u64,
    /// Since when it and the kernel run.
    healthy_since: Option<Instant>,
}

/// One pass through the list of apps.
#[derive(Debug)]
pub struct Sequence {
    health: Duration,
    why: String,
    since: Instant,
    waiting: VecDeque<String>,
    trial: Option<Trial>,
    passed: Vec<String>,
    suspects: Vec<Suspect>,
    is_complete: bool,
}

impl Sequence {
    /// Begins with no app running. `why` says why, as a phrase; `apps` are in the order of their start.
    pub fn new(apps: Vec<String>, why: String, health: Duration, now: Instant) -> Self {
        Self {
            health,
            why,
            since: now,
            waiting: apps.into(),
            trial: None,
            passed: Vec::new(),
            suspects: Vec::new(),
            is_complete: false,
        }
    }

    /// Begins again, without the apps that are suspected already.
    #[must_use]
    pub fn again(self, apps: Vec<String>, why: String, now: Instant) -> Self {
        let mut next = Self::new(apps, why, self.health, now);
        next.waiting.retain(|app| !self.suspects.iter().any(|it| it.app == *app));
        Self { suspects: self.suspects, since: self.since, ..next }
    }

    /// Returns the next step, if one is due. The sequence assumes that the caller performs it.
    pub fn advance(&mut self, seen: &Seen, now: Instant) -> Option<Step> {
        let Some(trial) = &mut self.trial else { return self.start_next(seen) };
        let kernel_ended = trial.kernel_ends != seen.kernel_ends;
        let failure = match &seen.app_failure {
            _ if kernel_ended => Some(format!("the kernel ended: {}", seen.kernel_exit)),
            failure => failure.clone(),
        };
        if let Some(why) = failure {
            let app = self.trial.take()?.app;
            let suspect = Suspect { app, why };
            self.suspects.push(suspect.clone());
            return Some(Step::Suspected(suspect));
        }
        if !seen.basics_run || !seen.app_runs {
            trial.healthy_since = None;
            return None;
        }
        let since = *trial.healthy_since.get_or_insert(now);
        if now < since + self.health {
            return None;
        }
        let app = self.trial.take()?.app;
        self.passed.push(app.clone());
        Some(Step::Passed(app))
    }

    fn start_next(&mut self, seen: &Seen) -> Option<Step> {
        if self.is_complete || !seen.basics_run {
            return None;
        }
        let Some(app) = self.waiting.pop_front() else {
            self.is_complete = true;
            return Some(Step::Complete);
        };
        let trial = Trial { app: app.clone(), kernel_ends: seen.kernel_ends, healthy_since: None };
        self.trial = Some(trial);
        Some(Step::Start(app))
    }

    /// When [`advance`](Self::advance) is due, if no program changes before.
    pub fn next_due(&self) -> Option<Instant> {
        Some(self.trial.as_ref()?.healthy_since? + self.health)
    }

    /// The app on trial.
    pub fn on_trial(&self) -> Option<&str> {
        self.trial.as_ref().map(|trial| trial.app.as_str())
    }

    /// Whether all apps had their trial.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Since when safe mode lasts.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// The apps that are held because a fault came back with them.
    pub fn suspects(&self) -> &[Suspect] {
        &self.suspects
    }

    /// The sequence for operators.
    pub fn status(&self) -> SafeModeStatus {
        SafeModeStatus {
            why: self.why.clone(),
            complete: self.is_complete,
            on_trial: self.on_trial().map(Into::into),
            passed: self.passed.clone(),
            waiting: self.waiting.iter().cloned().collect(),
            suspects: self.suspects.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn rule(most: u32) -> Rule {
        let window = s(60);
        Rule::new(&config::SafeMode { kernel_restarts: most, window, ..Default::default() })
    }

    fn sequence(apps: &[&str], now: Instant) -> Sequence {
        let apps = apps.iter().map(|&app| app.to_owned()).collect();
        Sequence::new(apps, "a test".into(), s(5), now)
    }

    fn running() -> Seen {
        Seen { basics_run: true, app_runs: true, ..Seen::default() }
    }

    #[test]
    fn ends_within_window_begin_safe_mode() {
        let (mut rule, now) = (rule(3), Instant::now());
        assert_eq!(rule.kernel_ended(now), None);
        assert_eq!(rule.kernel_ended(now + s(1)), None);
        let why = rule.kernel_ended(now + s(59));
        assert_eq!(why.as_deref(), Some("the kernel ended 3 times in 60 s"));
        assert_eq!(rule.kernel_ended(now + s(59)), None, "the count begins again");
    }

    #[test]
    fn ends_over_a_long_time_do_not_count() {
        let (mut rule, now) = (rule(3), Instant::now());
        for end in 0..1_000 {
            assert_eq!(rule.kernel_ended(now + s(30) * end), None, "{end}");
            assert!(rule.ends.len() <= 2);
        }
    }

    #[test]
    fn apps_start_one_at_a_time_in_order() {
        let now = Instant::now();
        let mut sequence = sequence(&["a", "b"], now);
        let away = Seen::default();
        assert_eq!(sequence.advance(&away, now), None, "the kernel does not run");
        assert_eq!(sequence.advance(&running(), now), Some(Step::Start("a".into())));
        assert_eq!(sequence.advance(&running(), now + s(1)), None);
        assert_eq!(sequence.next_due(), Some(now + s(6)));
        assert_eq!(sequence.advance(&running(), now + s(5)), None, "it ran for 4 s");
        let passed = sequence.advance(&running(), now + s(6));
        assert_eq!(passed, Some(Step::Passed("a".into())));
        assert_eq!(sequence.advance(&running(), now + s(6)), Some(Step::Start("b".into())));
        assert_eq!(sequence.advance(&running(), now + s(6)), None);
        let passed = sequence.advance(&running(), now + s(11));
        assert_eq!(passed, Some(Step::Passed("b".into())));
        assert_eq!(sequence.advance(&running(), now + s(11)), Some(Step::Complete));
        assert_eq!(sequence.advance(&running(), now + s(99)), None);
        assert_eq!(sequence.status().passed, ["a", "b"]);
    }

    #[test]
    fn end_of_the_kernel_names_the_app_on_trial() {
        let now = Instant::now();
        let mut sequence = sequence(&["a", "b"], now);
        sequence.advance(&running(), now);
        sequence.advance(&running(), now);
        let exit = "killed by SIGSEGV".to_owned();
        let ended = Seen { kernel_ends: 1, kernel_exit: exit, ..Seen::default() };
        let Some(Step::Suspected(suspect)) = sequence.advance(&ended, now + s(4)) else {
            panic!("{sequence:?}")
        };
        assert_eq!(suspect.app, "a");
        assert_eq!(suspect.why, "the kernel ended: killed by SIGSEGV");
        assert_eq!(sequence.advance(&ended, now + s(4)), None, "the kernel must run first");
        let back = Seen { kernel_ends: 1, ..running() };
        assert_eq!(sequence.advance(&back, now + s(5)), Some(Step::Start("b".into())));
        assert_eq!(sequence.advance(&back, now + s(5)), None, "the earlier end is not b's");
        assert_eq!(sequence.advance(&back, now + s(10)), Some(Step::Passed("b".into())));
    }

    #[test]
    fn failing_app_is_suspected() {
        let now = Instant::now();
        let mut sequence = sequence(&["a"], now);
        sequence.advance(&running(), now);
        let failed = Seen { app_failure: Some("killed by SIGABRT".into()), ..running() };
        let suspect = Suspect { app: "a".into(), why: "killed by SIGABRT".into() };
        assert_eq!(sequence.advance(&failed, now), Some(Step::Suspected(suspect.clone())));
        assert_eq!(sequence.suspects(), [suspect]);
        assert_eq!(sequence.advance(&running(), now), Some(Step::Complete));
    }

    #[test]
    fn pause_of_the_app_begins_its_trial_again() {
        let now = Instant::now();
        let mut sequence = sequence(&["a"], now);
        sequence.advance(&running(), now);
        sequence.advance(&running(), now);
        let unconnected = Seen { app_runs: false, ..running() };
        assert_eq!(sequence.advance(&unconnected, now + s(4)), None);
        assert_eq!(sequence.advance(&running(), now + s(5)), None);
        assert_eq!(sequence.advance(&running(), now + s(9)), None);
        assert!(sequence.advance(&running(), now + s(10)).is_some());
    }

    #[test]
    fn second_pass_leaves_suspects_out() {
        let now = Instant::now();
        let mut sequence = sequence(&["a", "b"], now);
        sequence.advance(&running(), now);
        let failed = Seen { app_failure: Some("it ended".into()), ..running() };
        sequence.advance(&failed, now);
        let sequence = sequence.again(vec!["a".into(), "b".into()], "again".into(), now + s(9));
        let status = sequence.status();
        assert_eq!((status.waiting.as_slice(), status.suspects.len()), (&["b".to_owned()][..], 1));
        assert_eq!((status.why.as_str(), sequence.since()), ("again", now));
    }
}
