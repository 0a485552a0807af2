//! Tests 24 simulated hours of apps that crash again and again: the starts, and the sizes of the incidents that they leave.

use std::fs;
use std::time::{Duration, Instant};

use config::RestartPolicy;
use control::incident::{Cause, Incident, IncidentId, Program};

use supervisor::incidents::{MOST, MOST_BYTES, ProgramIncidents};

use super::IncidentStore;
use supervisor::lifecycle::{Due, Lifecycle, Limits, Next};

const DAY: Duration = Duration::from_secs(86_400);

/// A program that ends a fixed time after each of its starts.
struct Crasher {
    lifecycle: Lifecycle,
    incidents: ProgramIncidents,
    runs: Duration,
    /// How often it was held for its restarts.
    holds: u32,
}

impl Crasher {
    fn new(
        program: Program,
        policy: RestartPolicy,
        runs_ms: u64,
        incidents: &IncidentStore,
    ) -> Self {
        Self {
            lifecycle: Lifecycle::new(Limits { restart: policy, ..Limits::default() }),
            incidents: ProgramIncidents::new(incidents.incidents().clone(), program),
            runs: Duration::from_millis(runs_ms),
            holds: 0,
        }
    }

    /// Starts the program, which is due, and lets it end.
    fn run_once(&mut self, now: Instant) {
        assert_eq!(self.lifecycle.due(now, || None), Some(Due::Start));
        self.lifecycle.started(now);
        self.incidents.started();
        assert!(self.lifecycle.ready());
        self.incidents.runs(now);
        let ended = self.lifecycle.ended(now + self.runs, "killed by SIGSEGV".into());
        let facts = vec![format!("it ran for {:?}", ended.ran)];
        let reaction = format!("{:?}", ended.next);
        self.incidents.ended(Cause::Signal { signal: 11 }, facts, reaction, now + self.runs);
        if let Next::HeldForRestarts(why) = ended.next {
            self.holds += 1;
            let facts = vec![why.to_string()];
            self.incidents.ended(Cause::TooManyRestarts, facts, "held".into(), now + self.runs);
        }
    }
}

fn all(incidents: &IncidentStore) -> Vec<Incident> {
    let (mut all, mut from) = (Vec::new(), IncidentId(0));
    loop {
        let (page, more) = incidents.page(from);
        all.extend(page);
        if !more {
            return all;
        }
        from = IncidentId(all.last().unwrap().id.0 + 1);
    }
}

#[test]
fn day_of_crashing_apps_leaves_bounded_incidents() {
    let dir = tempfile::tempdir().unwrap();
    let mut incidents = IncidentStore::load(dir.path());
    let policy = RestartPolicy::default();
    let never_held = RestartPolicy { restarts: None, ..policy };
    let mut crashers = vec![Crasher::new(Program::kernel(), never_held, 0, &incidents)];
    for (app, runs_ms) in [("at-once", 0), ("after-2s", 2_000), ("after-1m", 60_000)] {
        crashers.push(Crasher::new(Program::app(app), policy, runs_ms, &incidents));
    }
    let begin = Instant::now();
    // The one incident of a program that crashes once.
    let mut quiet = ProgramIncidents::new(incidents.incidents().clone(), Program::app("quiet"));
    quiet.ended(Cause::Hang, vec!["once".into()], "restarted".into(), begin);
    quiet.runs(begin);
    for it in &mut crashers {
        it.lifecycle.start(begin);
    }
    let next = |crashers: &[Crasher]| {
        let due = crashers.iter().enumerate();
        due.filter_map(|(i, it)| Some((it.lifecycle.next_due()?, i))).min()
    };
    let mut largest = 0;
    for round in 0.. {
        let Some((now, i)) = next(&crashers).filter(|(at, _)| *at < begin + DAY) else { break };
        crashers[i].run_once(now);
        if round % 100 == 0 {
            incidents.flush(Duration::from_secs(10));
            let file = fs::metadata(dir.path().join("incidents/incidents.log")).unwrap();
            largest = largest.max(file.len());
        }
    }
    // Back-off and hold: see `lifecycle/tests.rs` for how these figures come about.
    let [kernel, at_once, briefly, slowly] = &crashers[..] else { panic!("four") };
    assert_eq!((kernel.lifecycle.starts(), kernel.holds), (6 + 2_879, 0));
    assert_eq!((at_once.lifecycle.starts(), at_once.holds), (51 * 18, 18));
    assert!((51 * 23..=51 * 24).contains(&briefly.lifecycle.starts()) && briefly.holds >= 23);
    assert!((51 * 12..=51 * 13).contains(&slowly.lifecycle.starts()) && slowly.holds >= 12);
    let starts: u64 = crashers.iter().map(|it| it.lifecycle.starts()).sum();
    assert!(starts > 10 * MOST as u64, "more than are kept: {starts}");
    // Incidents: bounded in number and bytes, in memory and on the disk, and every program is among them.
    let kept = all(&incidents);
    assert_eq!(kept.len(), MOST);
    assert!(serde_json::to_vec(&kept).unwrap().len() <= MOST_BYTES);
    assert!(largest <= 2 * MOST_BYTES as u64, "{largest}");
    let of = |name: &str| kept.iter().filter(|it| it.program.name == name).count();
    for name in ["quiet", "kernel", "at-once", "after-2s", "after-1m"] {
        assert!(of(name) >= 1, "{name}");
    }
    assert_eq!(of("quiet"), 1);
    // A restart of Rosemary finds the same ones.
    incidents.flush(Duration::from_secs(10));
    let ids = |incidents: &[Incident]| incidents.iter().map(|it| it.id).collect::<Vec<_>>();
    assert_eq!(ids(&all(&IncidentStore::load(dir.path()))), ids(&kept));
}
