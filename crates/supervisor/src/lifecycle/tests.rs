//! Plays the lives of programs with simulated times.

use super::*;

const MS: Duration = Duration::from_millis(1);

struct Program {
    lifecycle: Lifecycle,
    begin: Instant,
}

impl Program {
    fn started() -> Self {
        let begin = Instant::now();
        let mut lifecycle = Lifecycle::new(Limits::default());
        lifecycle.start(begin);
        assert_eq!(lifecycle.due(begin, || None), Some(Due::Start));
        lifecycle.started(begin);
        Self { lifecycle, begin }
    }

    fn running() -> Self {
        let mut program = Self::started();
        assert!(program.lifecycle.ready());
        program
    }

    fn at(&self, ms: u32) -> Instant {
        self.begin + ms * MS
    }

    fn due(&mut self, ms: u32) -> Option<Due> {
        self.lifecycle.due(self.at(ms), || None)
    }

    fn ended(&mut self, ms: u32) -> Ended {
        self.lifecycle.ended(self.at(ms), "exited with code 1".into())
    }

    fn state(&self) -> ProgramState {
        self.lifecycle.state()
    }
}

#[test]
fn unwanted_program_is_never_due() {
    let mut lifecycle = Lifecycle::new(Limits::default());
    assert_eq!(lifecycle.state(), ProgramState::Stopped);
    assert_eq!(lifecycle.due(Instant::now(), || None), None);
    assert_eq!(lifecycle.next_due(), None);
}

#[test]
fn program_that_ran_long_restarts_at_once() {
    let mut program = Program::running();
    let ended = program.ended(1_000);
    assert_eq!(ended, Ended { ran: 1_000 * MS, next: Next::StartAtOnce });
    assert_eq!(program.due(1_000), Some(Due::Start));
    program.lifecycle.started(program.at(1_000));
    assert_eq!(program.lifecycle.restarts(), 1);
    assert_eq!(program.lifecycle.last_exit(), Some("exited with code 1"));
    program.lifecycle.explain_end("the app raised ValueError");
    let explained = "exited with code 1: the app raised ValueError";
    assert_eq!(program.lifecycle.last_exit(), Some(explained));
}

#[test]
fn program_that_ran_briefly_waits_before_restart() {
    let mut program = Program::running();
    let ended = program.ended(300);
    assert_eq!(ended, Ended { ran: 300 * MS, next: Next::StartAfter(700 * MS) });
    assert_eq!(program.state(), ProgramState::Waiting);
    assert_eq!(program.due(999), None);
    assert_eq!(program.lifecycle.next_due(), Some(program.at(1_000)));
    assert_eq!(program.due(1_000), Some(Due::Start));
}

/// Lets a program end `ran_ms` after each of its starts for 24 hours. Returns its starts, the number of times that it was
/// held for its restarts, and the longest time between two starts.
fn crashing_for_a_day(policy: RestartPolicy, ran_ms: u32) -> (u64, u64, Duration) {
    let begin = Instant::now();
    let end = begin + Duration::from_secs(86_400);
    let mut lifecycle = Lifecycle::new(Limits { restart: policy, ..Limits::default() });
    lifecycle.start(begin);
    let (mut held, mut last, mut longest) = (0, begin, Duration::ZERO);
    while let Some(now) = lifecycle.next_due().filter(|at| *at < end) {
        assert_eq!(lifecycle.due(now, || None), Some(Due::Start));
        lifecycle.started(now);
        longest = longest.max(now - last);
        last = now;
        assert!(lifecycle.ready());
        let ended = lifecycle.ended(now + ran_ms * MS, "killed by SIGSEGV".into());
        held += u64::from(matches!(ended.next, Next::HeldForRestarts(_)));
    }
    (lifecycle.starts(), held, longest)
}

#[test]
fn day_of_crashes_costs_few_starts() {
    let policy = RestartPolicy::default();
    let held = (policy.window, policy.longest_pause);
    // At once: 51 ends take 51 starts with pauses up to 30 s, then the window of an hour, and so on.
    let (starts, holds, longest) = crashing_for_a_day(policy, 0);
    assert_eq!((starts, holds, longest), (51 * 18, 18, held.0));
    // Long enough to be restarted at once.
    let (starts, holds, _) = crashing_for_a_day(policy, 1_500);
    assert!(starts <= 51 * 24 && holds >= 23, "{starts} {holds}");
    // A program that is never held, such as the kernel.
    let never = RestartPolicy { restarts: None, ..policy };
    let (starts, holds, longest) = crashing_for_a_day(never, 0);
    assert_eq!((starts, holds, longest), (6 + 2_879, 0, held.1));
}

#[test]
fn held_program_starts_with_a_clean_record() {
    let mut program = Program::running();
    let mut ended = program.ended(1_000);
    for second in 2..=51 {
        program.lifecycle.started(program.at((second - 1) * 1_000));
        ended = program.ended(second * 1_000);
    }
    let Next::HeldForRestarts(why) = ended.next else { panic!("{ended:?}") };
    assert_eq!(
        (program.lifecycle.too_many_restarts(), program.state()),
        (Some(why), ProgramState::Held)
    );
    program.lifecycle.started(program.at(60_000));
    assert_eq!(program.lifecycle.too_many_restarts(), None);
    assert_eq!(program.ended(61_000).next, Next::StartAtOnce);
}

#[test]
fn excused_end_does_not_count() {
    let mut program = Program::running();
    for _ in 0..200 {
        assert!(program.lifecycle.restart(program.at(1)));
        assert_eq!(program.ended(1).next, Next::StartAtOnce);
        program.lifecycle.started(program.at(1));
    }
    assert_eq!(program.ended(1).next, Next::StartAfter(1_000 * MS), "only the last end counts");
    assert!(!program.lifecycle.restart(program.at(2)), "it waits");
    program.lifecycle.started(program.at(1_001));
    assert_eq!(program.ended(1_001).next, Next::StartAfter(1_000 * MS), "it was not excused");
}

#[test]
fn failed_start_is_retried_after_minimum_run_time() {
    let begin = Instant::now();
    let mut lifecycle = Lifecycle::new(Limits::default());
    lifecycle.start(begin);
    assert_eq!(lifecycle.due(begin, || None), Some(Due::Start));
    let ended = lifecycle.ended(begin, "no such file".into());
    assert_eq!(ended.next, Next::StartAfter(1_000 * MS));
    assert_eq!(lifecycle.restarts(), 0);
}

#[test]
fn program_not_ready_in_time_is_restarted() {
    let mut program = Program::started();
    assert_eq!(program.due(9_999), None);
    assert_eq!(program.due(10_000), Some(Due::KillUnready));
    assert_eq!(program.due(10_001), None);
    assert_eq!(program.state(), ProgramState::Stopping);
    assert_eq!(program.ended(10_002).next, Next::StartAtOnce);
}

#[test]
fn throttled_program_has_longer_to_start() {
    let mut program = Program::started();
    let mut due = |s: u32, received_ms: u32| {
        let now = program.begin + s * 1_000 * MS;
        let due = program.lifecycle.due(now, || Some(received_ms * MS));
        (due, program.lifecycle.next_due().map(|at| at - program.begin))
    };
    let s = |s: u32| Some(s * 1_000 * MS);
    assert_eq!(due(10, 1_000), (None, s(19)), "a tenth of a processor");
    assert_eq!(due(19, 1_900), (None, Some(27_100 * MS)));
    assert_eq!(due(98, 9_990), (None, Some(98_100 * MS)), "a check at most every 100 ms");
    assert_eq!(due(99, 10_000).0, Some(Due::KillUnready));
    assert_eq!(program.state(), ProgramState::Stopping);
}

#[test]
fn idle_start_ends_by_the_clock() {
    let mut program = Program::started();
    let mut due =
        |s: u32| program.lifecycle.due(program.begin + s * 1_000 * MS, || Some(Duration::ZERO));
    assert_eq!((due(10), due(199)), (None, None));
    assert_eq!(due(200), Some(Due::KillUnready));
}

#[test]
fn program_above_limit_restarts_after_pause() {
    let mut program = Program::running();
    program.lifecycle.pause(program.at(90_000));
    program.lifecycle.killed();
    assert_eq!(program.ended(10_000).next, Next::StartAfter(80_000 * MS));
    assert_eq!((program.due(89_999), program.due(90_000)), (None, Some(Due::Start)));
    program.lifecycle.started(program.at(90_000));
    assert_eq!(program.ended(95_000).next, Next::StartAtOnce, "the pause is over");
}

#[test]
fn unfit_program_is_held_after_its_end() {
    let mut program = Program::started();
    program.lifecycle.unfit(program.at(5));
    assert_eq!((program.ended(10).next, program.state()), (Next::Held, ProgramState::Held));
    assert_eq!(
        (program.due(999), program.due(1_000)),
        (None, Some(Due::Start)),
        "the files may have changed"
    );
    program.lifecycle.started(program.at(1_000));
    assert_eq!(program.ended(1_010).next, Next::StartAfter(990 * MS), "it was not unfit this time");
}

#[test]
fn readiness_counts_once_and_before_kill() {
    let mut program = Program::running();
    assert!(!program.lifecycle.ready());
    program.lifecycle.killed();
    assert!(!program.lifecycle.ready());
    assert_eq!(program.state(), ProgramState::Stopping);
}

#[test]
fn stopped_program_that_ends_stays_stopped() {
    let mut program = Program::running();
    assert!(program.lifecycle.stop(program.at(5_000)));
    assert_eq!(program.due(5_999), None);
    assert_eq!(program.ended(5_999).next, Next::Stay);
    assert_eq!(program.state(), ProgramState::Stopped);
    assert_eq!(program.due(60_000), None);
}

#[test]
fn stopped_program_that_runs_on_is_killed() {
    let mut program = Program::running();
    program.lifecycle.stop(program.at(0));
    assert!(program.lifecycle.stop(program.at(900)), "a second request changes nothing");
    assert_eq!(program.due(1_000), Some(Due::KillUnended));
    assert_eq!(program.due(1_001), None);
    assert_eq!(program.ended(1_002).next, Next::Stay);
}

#[test]
fn crash_while_stopping_causes_no_restart() {
    let mut program = Program::running();
    program.lifecycle.stop(program.at(5_000));
    assert_eq!(program.ended(5_001).next, Next::Stay);
    assert_eq!(program.due(9_000), None);
}

#[test]
fn held_program_is_retried_until_started_or_stopped() {
    let mut program = Program::started();
    program.ended(10);
    for ms in [10, 1_010, 2_010] {
        program.lifecycle.hold(program.at(ms), "line 1".into());
        assert_eq!((program.state(), program.due(ms + 999)), (ProgramState::Held, None));
        assert_eq!(program.due(ms + 1_000), Some(Due::Start));
    }
    assert_eq!((program.lifecycle.restarts(), program.lifecycle.last_exit()), (0, Some("line 1")));
    program.lifecycle.started(program.at(3_010));
    assert_eq!(program.state(), ProgramState::Starting);
    program.ended(3_020);
    program.lifecycle.hold(program.at(3_020), "line 2".into());
    assert!(!program.lifecycle.stop(program.at(3_030)));
    program.lifecycle.hold(program.at(3_040), "late".into());
    assert_eq!(program.state(), ProgramState::Stopped);
}

#[test]
fn stopped_while_waiting_causes_no_start() {
    let mut program = Program::running();
    program.ended(1);
    assert!(!program.lifecycle.stop(program.at(2)));
    assert_eq!(program.state(), ProgramState::Stopped);
    assert_eq!(program.due(2_000), None);
}

#[test]
fn program_that_announces_end_is_killed_if_late() {
    let mut program = Program::running();
    assert!(program.lifecycle.ending(program.at(5_000)));
    assert_eq!(program.due(6_000), Some(Due::KillUnended));
    assert_eq!(program.ended(6_001).next, Next::StartAtOnce);
}
