//! Keeps the scheduling of threads in step with the sessions, and reports the sessions.
//!
//! ```text
//! sessions, running members --> wanted share of each process --> Effect::Schedule --> Scheduled(result)
//!                                                                    ^                     |
//!                                      a weight instead  <-----------+-- refused <---------+
//! ```
//!
//! Nothing happens here while no session reserves processor time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use control::session::{HeldBy, MemberReport, SessionId, SessionReport};
use tracing::{info, warn};

use super::Programs;
use crate::app::App;
use crate::effects::{Effect, Effects, ProgramId, Schedule, Threads};
use crate::program::Program;
use crate::sessions::Sessions;
use crate::sessions::admission::Row;
use crate::sessions::schedule::{Deadline, OF_KERNEL, ORDINARY, Share, shares, weight};

/// Time until a reservation that the system refused is requested again.
const RETRY: Duration = Duration::from_secs(10);

/// Why a session with `extra` has a weight.
const WITH_EXTRA: &str =
    "the session has extra, and Linux gives a thread no time beyond a deadline reservation";

/// The sessions, and how the threads of their members are scheduled.
#[derive(Debug)]
pub(super) struct Scheduling {
    sessions: Sessions,
    /// Why reserved threads have no processors of their own although the operator wants that, if so.
    without_partition: Option<String>,
    threads: BTreeMap<ProgramId, Scheduled>,
}

/// The scheduling of one process.
#[derive(Debug)]
struct Scheduled {
    name: String,
    share: Share,
    /// The last request, and its result once there is one.
    request: Schedule,
    result: Option<Result<(), String>>,
    /// Why the system refused the reservation, if it did, and when it is requested again.
    refused: Option<(String, Instant)>,
}

/// The share that a process is to have.
#[derive(Debug)]
struct Wanted {
    program: ProgramId,
    name: String,
    threads: Threads,
    share: Share,
}

impl Scheduling {
    /// Nothing is scheduled yet. `without_partition` says why there is no partition although the operator wants one.
    pub(super) fn new(sessions: Sessions, without_partition: Option<String>) -> Self {
        Self { sessions, without_partition, threads: BTreeMap::new() }
    }

    /// Requests the shares that differ from the present ones. `others` is the weight of all programs without a share;
    /// `lives` says whether a process still exists.
    fn settle(
        &mut self,
        wanted: Vec<Wanted>,
        others: u32,
        lives: impl Fn(ProgramId) -> bool,
        (effects, now): (&Effects, Instant),
    ) {
        let is_wanted = |program: ProgramId| wanted.iter().any(|it| it.program == program);
        // First, as bandwidth becomes free by it.
        let left: Vec<ProgramId> =
            self.threads.keys().copied().filter(|program| !is_wanted(*program)).collect();
        for program in left {
            let scheduled = self.threads.remove(&program);
            if let Some(scheduled) = scheduled.filter(|_| lives(program)) {
                let threads = scheduled.request.threads;
                let request = Schedule { threads, deadline: None, weight: Some(ORDINARY) };
                effects.add(program, Effect::Schedule(request));
            }
        }
        for Wanted { program, name, threads, share } in wanted {
            let before = self.threads.get(&program);
            let before = before.filter(|it| it.share == share && it.request.threads == threads);
            let refused = before.and_then(|it| it.refused.clone());
            let refused = refused.filter(|(_, retry)| now < *retry);
            let request = self.request(threads, share, refused.is_some(), others);
            if before.is_some_and(|it| it.request == request && it.refused == refused) {
                continue;
            }
            let scheduled = Scheduled { name, share, request, result: None, refused };
            self.threads.insert(program, scheduled);
            effects.add(program, Effect::Schedule(request));
        }
    }

    /// The request for a share; a weight if the system has refused the reservation.
    fn request(&self, threads: Threads, share: Share, is_refused: bool, others: u32) -> Schedule {
        let weight = |deadline: Deadline, extra: u32| {
            let all = self.sessions.reserved_cpu();
            Some(weight(deadline.share(), all, others).saturating_add(extra))
        };
        match share {
            Share::Ordinary => Schedule { threads, deadline: None, weight: Some(ORDINARY) },
            Share::Reserved(deadline) if !is_refused => {
                Schedule { threads, deadline: Some(deadline), weight: Some(ORDINARY) }
            }
            // The kernel has a large weight anyway, and the monitor has no group.
            Share::Reserved(_) if threads != Threads::Main => {
                Schedule { threads, deadline: None, weight: None }
            }
            Share::Reserved(deadline) => {
                Schedule { threads, deadline: None, weight: weight(deadline, 0) }
            }
            Share::Weighted { deadline, extra } => {
                Schedule { threads, deadline: None, weight: weight(deadline, extra) }
            }
        }
    }

    /// The result of a request.
    fn scheduled(&mut self, program: ProgramId, result: Result<(), String>, now: Instant) {
        let Some(scheduled) = self.threads.get_mut(&program) else { return };
        let name = &scheduled.name;
        match (&result, scheduled.request.deadline) {
            (Ok(()), Some(deadline)) => {
                let Deadline { runtime, period } = deadline;
                info!(program = name, ?runtime, ?period, "reserved processor time");
                scheduled.refused = None;
            }
            (Err(why), Some(_)) => {
                warn!(
                    program = name,
                    why, "could not reserve processor time; it has a weight instead"
                );
                scheduled.refused = Some((why.clone(), now + RETRY));
            }
            (Err(why), None) => warn!(program = name, why, "could not set the weight of a program"),
            (Ok(()), None) => {}
        }
        scheduled.result = Some(result);
    }

    /// What holds the share of a process.
    fn held(&self, program: ProgramId) -> Option<HeldBy> {
        let Scheduled { request, result, refused, share, .. } = self.threads.get(&program)?;
        let why = match (refused, share) {
            (Some((why, _)), _) => why.clone(),
            (None, Share::Weighted { .. }) => WITH_EXTRA.to_owned(),
            (None, _) => "the system has not answered yet".to_owned(),
        };
        Some(match (result, request) {
            (Some(Ok(())), Schedule { deadline: Some(deadline), .. }) => {
                let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
                let (runtime_us, period_us) = (us(deadline.runtime), us(deadline.period));
                HeldBy::Deadline { runtime_us, period_us }
            }
            (Some(Ok(())), Schedule { weight: Some(weight), .. }) => {
                HeldBy::Weight { weight: *weight, why }
            }
            (Some(Err(weightless)), _) if refused.is_some() => {
                HeldBy::Nothing { why: format!("{why}; {weightless}") }
            }
            (Some(Err(why)), _) => HeldBy::Nothing { why: why.clone() },
            (Some(Ok(())) | None, _) => HeldBy::Nothing { why },
        })
    }
}

impl Programs {
    /// The sessions.
    pub fn sessions(&self) -> &Sessions {
        &self.scheduling.sessions
    }

    /// The sessions, to change them.
    pub fn sessions_mut(&mut self) -> &mut Sessions {
        &mut self.scheduling.sessions
    }

    /// The system's answer to a request for a thread.
    pub(super) fn thread_was_scheduled(
        &mut self,
        program: ProgramId,
        result: Result<(), String>,
        now: Instant,
    ) {
        self.scheduling.scheduled(program, result, now);
        // A refused reservation becomes a weight at once.
        self.advance_scheduling(now);
    }

    /// Sends the kernel the shares of sessions if it has others.
    pub(super) fn advance_shares(&mut self) {
        let sessions = &self.scheduling.sessions;
        if !self.kernel.divides_work() && sessions.configured().is_empty() {
            return;
        }
        self.kernel.set_shares(sessions.shares());
    }

    /// Requests the scheduling of threads that the sessions demand.
    pub(super) fn advance_scheduling(&mut self, now: Instant) {
        if self.is_stopping()
            || !self.scheduling.sessions.schedules() && self.scheduling.threads.is_empty()
        {
            return;
        }
        let wanted = self.wanted_shares();
        let others = self.weight_of_others(&wanted);
        let lives = self.live_programs();
        let outbox = (&self.effects, now);
        self.scheduling.settle(wanted, others, |program| lives.contains(&program), outbox);
    }

    /// When a refused reservation is requested again.
    pub(super) fn scheduling_due(&self) -> Option<Instant> {
        let refused = self.scheduling.threads.values().filter_map(|it| it.refused.as_ref());
        refused.map(|(_, retry)| *retry).min()
    }

    /// The processes whose threads can be scheduled.
    fn live_programs(&self) -> Vec<ProgramId> {
        let zones = self.apps.iter().filter_map(App::program);
        let programs = zones.chain([&self.kernel.program]);
        let lives = programs.filter(|program| program.pid().is_some()).map(Program::id);
        lives.chain([ProgramId::MONITOR]).collect()
    }

    /// The members of a session that have a process of their own and serve, or load before they do.
    fn members(&self, id: SessionId) -> impl Iterator<Item = &App> {
        let is_member = move |app: &&App| app.spec().policy.session == id && app.role().serves();
        self.apps.iter().filter(is_member)
    }

    fn wanted_shares(&self) -> Vec<Wanted> {
        let sessions = &self.scheduling.sessions;
        let mut wanted = Vec::new();
        for row in sessions.configured() {
            let Some(cpu) = row.reservation.cpu else { continue };
            let members: Vec<&Program> = self
                .members(row.id())
                .filter(|app| app.is_loaded())
                .filter_map(App::program)
                .collect();
            let shares = shares(Some(cpu), members.len());
            wanted.extend(members.into_iter().zip(shares).map(|(program, share)| Wanted {
                program: program.id(),
                name: program.name().to_owned(),
                threads: Threads::Main,
                share,
            }));
        }
        if let Some(cpu) = sessions.system_cpu() {
            let deadline = Deadline { runtime: cpu.runtime(), period: cpu.period() };
            let share = Share::Reserved(deadline);
            let workers = Threads::Workers(sessions.machine().workers);
            let kernel = &self.kernel.program;
            let of = |program, name: &str, threads| Wanted {
                program,
                name: name.to_owned(),
                threads,
                share,
            };
            wanted.extend(kernel.is_running().then(|| of(kernel.id(), "kernel", workers)));
            wanted.push(of(ProgramId::MONITOR, "monitor", Threads::Own));
        }
        wanted
    }

    /// The sum of the weights of all programs whose processor time no session reserves.
    fn weight_of_others(&self, wanted: &[Wanted]) -> u32 {
        let is_other = |program: &ProgramId| {
            *program != self.kernel.program.id() && !wanted.iter().any(|it| it.program == *program)
        };
        let others = self.program_ids().filter(is_other).count();
        let others = u32::try_from(others).unwrap_or(u32::MAX);
        others.saturating_mul(ORDINARY).saturating_add(OF_KERNEL)
    }

    /// The sessions for operators.
    pub fn session_reports(&self) -> Vec<SessionReport> {
        let sessions = &self.scheduling.sessions;
        sessions.rows().iter().map(|row| self.session_report(row)).collect()
    }

    fn session_report(&self, row: &Row) -> SessionReport {
        let members = self.member_reports(row);
        let tick = self.scheduling.sessions.machine().tick;
        let guarantee = guarantee(row, &members, tick);
        SessionReport {
            name: row.name.clone(),
            cpu: row.reservation.cpu,
            extra: row.reservation.extra,
            adjusted: row.adjusted,
            resources: self.scheduling.sessions.resources(row),
            members,
            guarantee,
        }
    }

    fn member_reports(&self, row: &Row) -> Vec<MemberReport> {
        match row.id() {
            SessionId::SYSTEM => self.system_members(),
            id => self.members(id).map(|app| self.member(app, row)).collect(),
        }
    }

    fn member(&self, app: &App, row: &Row) -> MemberReport {
        let held = match app.program() {
            _ if row.reservation.cpu.is_none() => None,
            Some(program) => self.scheduling.held(program.id()),
            None => Some(HeldBy::Nothing {
                why: "the kernel hosts it, and its workers serve all apps".into(),
            }),
        };
        MemberReport { name: app.name.clone(), held }
    }

    fn system_members(&self) -> Vec<MemberReport> {
        let member = |name: &str, program| MemberReport {
            name: name.to_owned(),
            held: self.scheduling.held(program),
        };
        vec![member("kernel", self.kernel.program.id()), member("monitor", ProgramId::MONITOR)]
    }

    /// The reservations that are not held as they were promised, as phrases.
    pub fn unheld_reservations(&self) -> Vec<String> {
        let partition = self.scheduling.without_partition.iter();
        let mut phrases: Vec<String> = partition
            .map(|why| format!("reserved threads have no processors of their own: {why}"))
            .collect();
        for row in self.scheduling.sessions.rows() {
            for MemberReport { name, held } in self.member_reports(row) {
                let why = match held {
                    Some(HeldBy::Weight { why, .. }) if why != WITH_EXTRA => {
                        format!(
                            "{name} has a weight instead of the reservation of session {}: {why}",
                            row.name
                        )
                    }
                    // A request that was just sent has its answer in this turn.
                    Some(HeldBy::Nothing { why }) => {
                        format!(
                            "nothing holds the reservation of session {} for {name}: {why}",
                            row.name
                        )
                    }
                    _ => continue,
                };
                phrases.push(why);
            }
        }
        phrases
    }
}

/// The guarantee of a session's processor time, as a sentence.
fn guarantee(row: &Row, members: &[MemberReport], tick: Option<Duration>) -> String {
    let held = || members.iter().filter_map(|member| member.held.as_ref());
    let text = match row.id() {
        SessionId::BEST_EFFORT => {
            "The processor time that reserved threads leave, in equal parts; a part of each processor always stays."
        }
        SessionId::SYSTEM if row.is_kept_free => {
            "An amount that no other session can reserve, and four times the weight of an app for the kernel."
        }
        _ if row.reservation.cpu.is_none() => "No processor time is reserved.",
        _ if held().next().is_none() => "No member runs.",
        _ if held().all(|held| matches!(held, HeldBy::Deadline { .. })) => {
            let tick = tick.map_or_else(String::new, |tick| format!(" of {tick:?}"));
            return format!(
                "Each thread receives its runtime on average, whatever other programs do, and no more. In a single period it can have up \
                 to a tick{tick} more, which it then lacks in the next; `rosemary doctor` says whether this system ends runtimes \
                 between ticks."
            );
        }
        _ if held().any(|held| matches!(held, HeldBy::Nothing { .. })) => {
            "Nothing holds the reservation of a member."
        }
        _ => {
            "A share among Rosemary's programs while these are busy; other programs of the machine can reduce it."
        }
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use config::{SessionConfig, Sessions as SessionKeys};
    use control::session::Reservation;

    use super::*;
    use crate::sessions::admission::Machine;

    fn scheduling() -> Scheduling {
        let machine = Machine {
            processors: 2,
            workers: 2,
            memory: 1 << 30,
            storage: 1 << 30,
            descriptors: 1_000,
            rings: 1 << 20,
            tick: None,
        };
        let values = [("runtime-us", 2_000), ("period-us", 10_000)];
        let reservation = Reservation::default().with(values).unwrap();
        let rows = vec![SessionConfig { name: "video".into(), reservation }];
        let keys = SessionKeys { rows, ..SessionKeys::default() };
        Scheduling::new(Sessions::new(machine, keys).unwrap(), None)
    }

    fn reserved(runtime_ms: u64) -> Share {
        let (runtime, period) = (Duration::from_millis(runtime_ms), Duration::from_millis(10));
        Share::Reserved(Deadline { runtime, period })
    }

    struct Test {
        scheduling: Scheduling,
        effects: Effects,
        program: ProgramId,
        now: Instant,
    }

    impl Test {
        fn new() -> Self {
            let effects = Effects::default();
            let program = effects.new_program();
            Self { scheduling: scheduling(), effects, program, now: Instant::now() }
        }

        /// Settles with this share of the program, and returns the requests.
        fn settle(&mut self, share: Option<Share>, lives: bool) -> Vec<Schedule> {
            let wanted = share.map(|share| Wanted {
                program: self.program,
                name: "app a".into(),
                threads: Threads::Main,
                share,
            });
            let outbox = (&self.effects, self.now);
            self.scheduling.settle(wanted.into_iter().collect(), 600, |_| lives, outbox);
            let request = |(_, effect)| match effect {
                Effect::Schedule(request) => request,
                other => panic!("{other:?}"),
            };
            self.effects.take().into_iter().map(request).collect()
        }

        fn answer(&mut self, result: Result<(), &str>) {
            let result = result.map_err(str::to_owned);
            self.scheduling.scheduled(self.program, result, self.now);
        }

        fn held(&self) -> Option<HeldBy> {
            self.scheduling.held(self.program)
        }
    }

    #[test]
    fn share_is_requested_once_and_undone() {
        let mut test = Test::new();
        let [request] = test.settle(Some(reserved(2)), true)[..] else { panic!("one") };
        assert_eq!(request.deadline.unwrap().runtime, Duration::from_millis(2));
        test.answer(Ok(()));
        assert_eq!(test.held(), Some(HeldBy::Deadline { runtime_us: 2_000, period_us: 10_000 }));
        assert!(test.settle(Some(reserved(2)), true).is_empty());
        assert_eq!(test.settle(Some(reserved(1)), true).len(), 1, "another member joined");
        test.answer(Ok(()));
        let [undone] = test.settle(None, true)[..] else { panic!("one") };
        assert_eq!((undone.deadline, undone.weight), (None, Some(ORDINARY)));
        assert_eq!(test.held(), None);
    }

    #[test]
    fn process_that_ended_is_not_undone() {
        let mut test = Test::new();
        test.settle(Some(reserved(2)), true);
        assert!(test.settle(None, false).is_empty());
    }

    #[test]
    fn refused_reservation_becomes_weight_and_is_retried() {
        let mut test = Test::new();
        test.settle(Some(reserved(2)), true);
        test.answer(Err("no privilege"));
        let [request] = test.settle(Some(reserved(2)), true)[..] else { panic!("one") };
        assert_eq!(request.deadline, None);
        // 600 * 0.2 / (1 - 0.2), rounded up.
        assert_eq!(request.weight, Some(150));
        test.answer(Ok(()));
        let why = "no privilege".to_owned();
        assert_eq!(test.held(), Some(HeldBy::Weight { weight: 150, why }));
        assert!(test.settle(Some(reserved(2)), true).is_empty());
        test.now += RETRY;
        let [again] = test.settle(Some(reserved(2)), true)[..] else { panic!("one") };
        assert!(again.deadline.is_some());
        test.answer(Err("no privilege"));
        test.settle(Some(reserved(2)), true);
        test.answer(Err("no group"));
        let why = "no privilege; no group".to_owned();
        assert_eq!(test.held(), Some(HeldBy::Nothing { why }));
    }

    #[test]
    fn extra_is_a_weight() {
        let mut test = Test::new();
        let Share::Reserved(deadline) = reserved(2) else { panic!() };
        let [request] = test.settle(Some(Share::Weighted { deadline, extra: 50 }), true)[..] else {
            panic!("one")
        };
        assert_eq!((request.deadline, request.weight), (None, Some(200)));
        test.answer(Ok(()));
        assert!(matches!(test.held(), Some(HeldBy::Weight { weight: 200, .. })));
    }
}
