//! The contract between whoever carries out effects and the supervisor: which events may follow which effects.
//!
//! | effect | events |
//! | --- | --- |
//! | `Spawn` | exactly one of `Started` and `NotStarted`; after `Started` any others, and `Ended` at last |
//! | `Kill` | `Ended` |
//! | `Abandon`, `Forget` | none any more, except for the answer to a `Spawn` of the same turn |
//! | `Count` | at most one of `Counted` and `NotCounted`, unless the kernel ends before |
//! | `Backtrace` | at most one `Backtrace`, also after the end of the kernel |
//! | `Schedule` | at most one `Scheduled`, none if the process has ended |
//! | `ForwardLog` | `LogSilent`, any number of times |
//!
//! The monitor checks its own processes by it, in a build for tests, and the simulator its invented ones.

use std::collections::BTreeMap;

use crate::effects::{Effect, ProcessEvent, ProgramId};

/// The processes and requests so far.
#[derive(Debug, Default)]
pub struct Contract {
    programs: BTreeMap<ProgramId, State>,
    /// Backtraces that are being made.
    backtraces: usize,
    /// Requests to schedule threads without an answer.
    schedules: BTreeMap<ProgramId, usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is to be started.
    Asked,
    Runs {
        is_asked_for_counters: bool,
    },
    /// It was forgotten before the answer to its start.
    Forgotten,
}

impl Contract {
    /// The supervisor has decided on an effect.
    ///
    /// # Errors
    /// The supervisor may not, as a phrase.
    pub fn effect(&mut self, program: ProgramId, effect: &Effect) -> Result<(), String> {
        let state = self.programs.get_mut(&program);
        match (effect, state) {
            (Effect::Spawn(_), None) => {
                self.programs.insert(program, State::Asked);
            }
            (Effect::Spawn(spawn), Some(state)) => {
                return Err(format!("{} is started and is {state:?} already", spawn.name));
            }
            (Effect::Count, Some(State::Runs { is_asked_for_counters })) => {
                *is_asked_for_counters = true;
            }
            (Effect::Backtrace(_), _) => self.backtraces += 1,
            (Effect::Schedule(_), _) => *self.schedules.entry(program).or_default() += 1,
            (Effect::Forget, Some(state @ State::Asked)) => *state = State::Forgotten,
            (Effect::Forget | Effect::Abandon, _) => {
                self.programs.remove(&program);
            }
            _ => {}
        }
        Ok(())
    }

    /// Something has happened to the process of a program.
    ///
    /// # Errors
    /// It may not happen now, as a phrase.
    pub fn event(&mut self, program: ProgramId, event: &ProcessEvent) -> Result<(), String> {
        let state = self.programs.get_mut(&program);
        let is_allowed = match (event, state) {
            (ProcessEvent::Started(_), Some(state @ State::Asked)) => {
                *state = State::Runs { is_asked_for_counters: false };
                true
            }
            (ProcessEvent::NotStarted(_), Some(State::Asked | State::Forgotten))
            | (ProcessEvent::Started(_), Some(State::Forgotten))
            | (ProcessEvent::Ended(..), Some(State::Runs { .. })) => {
                self.programs.remove(&program);
                self.schedules.remove(&program);
                true
            }
            (
                ProcessEvent::Counted(_) | ProcessEvent::NotCounted,
                Some(State::Runs { is_asked_for_counters }),
            ) => std::mem::take(is_asked_for_counters),
            (ProcessEvent::Backtrace(..), _) => {
                let was_asked = self.backtraces > 0;
                self.backtraces = self.backtraces.saturating_sub(1);
                was_asked
            }
            (ProcessEvent::Scheduled(_), _) => {
                let asked = self.schedules.entry(program).or_default();
                let was_asked = *asked > 0;
                *asked = asked.saturating_sub(1);
                was_asked
            }
            (ProcessEvent::Found(_), Some(State::Runs { .. }))
            | (ProcessEvent::Received(..), Some(State::Runs { .. }))
            | (ProcessEvent::Closed, Some(State::Runs { .. }))
            // A message that cannot be sent is reported for a process that was forgotten in the same turn, too.
            | (ProcessEvent::Broken(_) | ProcessEvent::LogSilent(_), _) => true,
            _ => false,
        };
        if is_allowed { Ok(()) } else { Err(format!("{event:?} must not happen to {program:?}")) }
    }

    /// The programs that have a process, or are to get one.
    pub fn programs(&self) -> impl Iterator<Item = ProgramId> {
        let has_process = |(program, state): (&ProgramId, &State)| {
            (*state != State::Forgotten).then_some(*program)
        };
        self.programs.iter().filter_map(has_process)
    }
}

#[cfg(test)]
mod tests {
    use control::incident::Cause;

    use super::*;
    use crate::effects::Effects;

    fn ended() -> ProcessEvent {
        ProcessEvent::Ended("exited with status 0".into(), Cause::Exit { code: 0 }, None)
    }

    #[test]
    fn process_has_one_start_and_one_end() {
        let (mut contract, program) = (Contract::default(), Effects::default().new_program());
        assert!(contract.event(program, &ProcessEvent::Started(1)).is_err());
        contract.programs.insert(program, State::Asked);
        assert!(contract.event(program, &ended()).is_err(), "it has not started");
        contract.event(program, &ProcessEvent::Started(1)).unwrap();
        assert!(contract.event(program, &ProcessEvent::Started(1)).is_err());
        assert!(contract.event(program, &ProcessEvent::NotCounted).is_err(), "without a request");
        contract.effect(program, &Effect::Count).unwrap();
        contract.event(program, &ProcessEvent::NotCounted).unwrap();
        contract.event(program, &ended()).unwrap();
        assert!(contract.event(program, &ended()).is_err());
        assert_eq!(contract.programs().count(), 0);
    }

    #[test]
    fn forgotten_process_may_still_answer_its_start() {
        let (mut contract, program) = (Contract::default(), Effects::default().new_program());
        contract.programs.insert(program, State::Asked);
        contract.effect(program, &Effect::Forget).unwrap();
        assert_eq!(contract.programs().count(), 0);
        contract.event(program, &ProcessEvent::Started(1)).unwrap();
        assert!(contract.event(program, &ended()).is_err());
    }
}
