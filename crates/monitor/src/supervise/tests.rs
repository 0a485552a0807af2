//! Programs that start, end and are waited for, with the times said.

use super::*;

const MS: Duration = Duration::from_millis(1);

struct Story {
    supervision: Supervision,
    begin: Instant,
}

impl Story {
    fn started() -> Self {
        let begin = Instant::now();
        let mut supervision = Supervision::new(Limits::default());
        supervision.start(begin);
        assert_eq!(supervision.due(begin, || None), Some(Due::Start));
        supervision.started(begin);
        Self { supervision, begin }
    }

    fn running() -> Self {
        let mut story = Self::started();
        assert!(story.supervision.ready());
        story
    }

    fn at(&self, ms: u32) -> Instant {
        self.begin + ms * MS
    }

    fn due(&mut self, ms: u32) -> Option<Due> {
        self.supervision.due(self.at(ms), || None)
    }

    fn ended(&mut self, ms: u32) -> Ended {
        self.supervision.ended(self.at(ms), "exited with code 1".into())
    }

    fn state(&self) -> State {
        self.supervision.state()
    }
}

#[test]
fn program_nobody_wants_is_never_due() {
    let mut supervision = Supervision::new(Limits::default());
    assert_eq!(supervision.state(), State::Stopped);
    assert_eq!(supervision.due(Instant::now(), || None), None);
    assert_eq!(supervision.next_due(), None);
}

#[test]
fn program_that_ran_long_is_started_again_at_once() {
    let mut story = Story::running();
    let ended = story.ended(1_000);
    assert_eq!(ended, Ended { ran: 1_000 * MS, next: Next::StartAtOnce });
    assert_eq!(story.due(1_000), Some(Due::Start));
    story.supervision.started(story.at(1_000));
    assert_eq!(story.supervision.restarts(), 1);
    assert_eq!(story.supervision.last_exit(), Some("exited with code 1"));
}

#[test]
fn program_that_ran_shorter_than_its_minimum_waits_for_the_rest_of_it() {
    let mut story = Story::running();
    let ended = story.ended(300);
    assert_eq!(ended, Ended { ran: 300 * MS, next: Next::StartAfter(700 * MS) });
    assert_eq!(story.state(), State::Waiting);
    assert_eq!(story.due(999), None);
    assert_eq!(story.supervision.next_due(), Some(story.at(1_000)));
    assert_eq!(story.due(1_000), Some(Due::Start));
}

#[test]
fn program_that_ends_at_once_again_and_again_is_started_once_a_second() {
    let mut story = Story::started();
    let mut starts = 1;
    for ms in 1..=10_000 {
        if story.due(ms) == Some(Due::Start) {
            story.supervision.started(story.at(ms));
            story.ended(ms);
            starts += 1;
        } else if ms == 1 {
            story.ended(ms);
        }
    }
    assert_eq!(starts, 11);
}

#[test]
fn program_that_cannot_be_started_is_tried_again_after_its_minimum_run_time() {
    let begin = Instant::now();
    let mut supervision = Supervision::new(Limits::default());
    supervision.start(begin);
    assert_eq!(supervision.due(begin, || None), Some(Due::Start));
    let ended = supervision.ended(begin, "no such file".into());
    assert_eq!(ended.next, Next::StartAfter(1_000 * MS));
    assert_eq!(supervision.restarts(), 0);
}

#[test]
fn program_that_is_not_ready_in_time_is_killed_once_and_started_again() {
    let mut story = Story::started();
    assert_eq!(story.due(9_999), None);
    assert_eq!(story.due(10_000), Some(Due::KillUnready));
    assert_eq!(story.due(10_001), None);
    assert_eq!(story.state(), State::Stopping);
    assert_eq!(story.ended(10_002).next, Next::StartAtOnce);
}

#[test]
fn program_that_receives_little_processor_time_has_longer_to_get_ready() {
    let mut story = Story::started();
    let mut due = |s: u32, received_ms: u32| {
        let now = story.begin + s * 1_000 * MS;
        let due = story.supervision.due(now, || Some(received_ms * MS));
        (due, story.supervision.next_due().map(|at| at - story.begin))
    };
    let s = |s: u32| Some(s * 1_000 * MS);
    assert_eq!(due(10, 1_000), (None, s(19)), "a tenth of a processor");
    assert_eq!(due(19, 1_900), (None, Some(27_100 * MS)));
    assert_eq!(due(98, 9_990), (None, Some(98_100 * MS)), "not at once again");
    assert_eq!(due(99, 10_000).0, Some(Due::KillUnready));
    assert_eq!(story.state(), State::Stopping);
}

#[test]
fn program_that_receives_nothing_has_not_for_ever_to_get_ready() {
    let mut story = Story::started();
    let mut due =
        |s: u32| story.supervision.due(story.begin + s * 1_000 * MS, || Some(Duration::ZERO));
    assert_eq!((due(10), due(199)), (None, None));
    assert_eq!(due(200), Some(Due::KillUnready));
}

#[test]
fn program_that_took_too_much_is_started_again_after_its_pause() {
    let mut story = Story::running();
    story.supervision.pause(story.at(90_000));
    story.supervision.killed();
    assert_eq!(story.ended(10_000).next, Next::StartAfter(80_000 * MS));
    assert_eq!((story.due(89_999), story.due(90_000)), (None, Some(Due::Start)));
    story.supervision.started(story.at(90_000));
    assert_eq!(story.ended(95_000).next, Next::StartAtOnce, "that was then");
}

#[test]
fn program_that_says_that_it_cannot_run_is_held_once_it_has_ended() {
    let mut story = Story::started();
    story.supervision.unfit(story.at(5));
    assert_eq!((story.ended(10).next, story.state()), (Next::Held, State::Held));
    assert_eq!((story.due(999), story.due(1_000)), (None, Some(Due::Start)), "is it changed?");
    story.supervision.started(story.at(1_000));
    assert_eq!(story.ended(1_010).next, Next::StartAfter(990 * MS), "it said nothing this time");
}

#[test]
fn readiness_counts_once_and_not_after_a_kill() {
    let mut story = Story::running();
    assert!(!story.supervision.ready());
    story.supervision.killed();
    assert!(!story.supervision.ready());
    assert_eq!(story.state(), State::Stopping);
}

#[test]
fn stopped_program_that_ends_in_time_is_not_killed_and_stays_stopped() {
    let mut story = Story::running();
    assert!(story.supervision.stop(story.at(5_000)));
    assert_eq!(story.due(5_999), None);
    assert_eq!(story.ended(5_999).next, Next::Stay);
    assert_eq!(story.state(), State::Stopped);
    assert_eq!(story.due(60_000), None);
}

#[test]
fn stopped_program_that_does_not_end_is_killed_once() {
    let mut story = Story::running();
    story.supervision.stop(story.at(0));
    assert!(story.supervision.stop(story.at(900)), "a second request moves nothing");
    assert_eq!(story.due(1_000), Some(Due::KillUnended));
    assert_eq!(story.due(1_001), None);
    assert_eq!(story.ended(1_002).next, Next::Stay);
}

#[test]
fn program_that_crashes_while_stopping_is_not_started_again() {
    let mut story = Story::running();
    story.supervision.stop(story.at(5_000));
    assert_eq!(story.ended(5_001).next, Next::Stay);
    assert_eq!(story.due(9_000), None);
}

#[test]
fn held_program_is_looked_at_again_and_again_until_it_is_started_or_stopped() {
    let mut story = Story::started();
    story.ended(10);
    for ms in [10, 1_010, 2_010] {
        story.supervision.hold(story.at(ms), "line 1".into());
        assert_eq!((story.state(), story.due(ms + 999)), (State::Held, None));
        assert_eq!(story.due(ms + 1_000), Some(Due::Start));
    }
    assert_eq!((story.supervision.restarts(), story.supervision.last_exit()), (0, Some("line 1")));
    story.supervision.started(story.at(3_010));
    assert_eq!(story.state(), State::Starting);
    story.ended(3_020);
    story.supervision.hold(story.at(3_020), "line 2".into());
    assert!(!story.supervision.stop(story.at(3_030)));
    story.supervision.hold(story.at(3_040), "late".into());
    assert_eq!(story.state(), State::Stopped);
}

#[test]
fn waiting_program_that_is_stopped_is_not_started() {
    let mut story = Story::running();
    story.ended(1);
    assert!(!story.supervision.stop(story.at(2)));
    assert_eq!(story.state(), State::Stopped);
    assert_eq!(story.due(2_000), None);
}

#[test]
fn program_that_says_it_will_end_and_does_not_is_killed_and_started_again() {
    let mut story = Story::running();
    assert!(story.supervision.ending(story.at(5_000)));
    assert_eq!(story.due(6_000), Some(Due::KillUnended));
    assert_eq!(story.ended(6_001).next, Next::StartAtOnce);
}
