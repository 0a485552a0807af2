use std::fs;
use std::time::{Duration, Instant};

use config::RestartPolicy;
use control::incident::{Cause, Evidence, IncidentId, Program};

use super::*;
use supervisor::incidents::{MOST, ProgramIncidents};
use supervisor::lifecycle::{Lifecycle, Limits, Next};

const LONG: Duration = Duration::from_secs(20);

fn add(incidents: &IncidentStore, app: &str) -> IncidentId {
    incidents.open(Program::app(app), Cause::Panic, Evidence::fact("it did"))
}

/// Every incident, as operators see them.
fn all(incidents: &IncidentStore) -> Vec<Incident> {
    let (mut all, mut from) = (Vec::new(), IncidentId(0));
    loop {
        let (page, more) = incidents.page(from);
        all.extend(page);
        match all.last() {
            Some(last) if more => from = IncidentId(last.id.0 + 1),
            _ => return all,
        }
    }
}

#[test]
fn crc_is_that_of_the_standard() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
}

#[test]
fn incidents_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut incidents = IncidentStore::load(dir.path());
    let (closed, lasting) = (add(&incidents, "a"), add(&incidents, "b"));
    incidents.reaction(closed, "restarted at once");
    incidents.close(closed, Some(Duration::from_millis(15)));
    incidents.flush(LONG);
    let before = all(&incidents);
    drop(incidents);
    let incidents = IncidentStore::load(dir.path());
    let after = all(&incidents);
    assert_eq!(after[0], before[0]);
    assert_eq!((after[0].duration_ms, after[1].open), (Some(15), false));
    assert_eq!(after[1].id, lasting);
    assert!(add(&incidents, "c") > lasting, "numbers are not used twice");
}

#[test]
fn torn_tail_loses_only_the_last_line() {
    let dir = tempfile::tempdir().unwrap();
    let mut incidents = IncidentStore::load(dir.path());
    let ids: Vec<IncidentId> = (0..3).map(|_| add(&incidents, "a")).collect();
    for id in &ids {
        incidents.close(*id, None);
    }
    incidents.flush(LONG);
    drop(incidents);
    let path = dir.path().join(DIR).join(FILE);
    let whole = fs::read(&path).unwrap();
    let last_line = whole.strip_suffix(b"\n").unwrap().iter().rposition(|it| *it == b'\n').unwrap();
    for cut in [last_line + 2, last_line + 30, whole.len() - 1] {
        fs::write(&path, &whole[..cut]).unwrap();
        let mut incidents = IncidentStore::load(dir.path());
        let found = all(&incidents);
        assert_eq!(found.iter().map(|it| it.id).collect::<Vec<_>>(), ids, "cut at {cut}");
        let new = add(&incidents, "b");
        incidents.flush(LONG);
        drop(incidents);
        // The next line does not continue the torn one.
        assert_eq!(parse(&fs::read(&path).unwrap()).1, 0);
        assert_eq!(all(&IncidentStore::load(dir.path())).last().map(|it| it.id), Some(new));
    }
}

#[test]
fn damaged_lines_are_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let mut incidents = IncidentStore::load(dir.path());
    let ids = [add(&incidents, "a"), add(&incidents, "b")];
    incidents.flush(LONG);
    drop(incidents);
    let path = dir.path().join(DIR).join(FILE);
    let mut bytes = fs::read(&path).unwrap();
    bytes[40] ^= 1;
    bytes.splice(0..0, b"\xff\xfe nonsense\n\n".iter().copied());
    fs::write(&path, &bytes).unwrap();
    let found = all(&IncidentStore::load(dir.path()));
    assert_eq!(found.iter().map(|it| it.id).collect::<Vec<_>>(), ids[1..]);
}

#[test]
fn file_and_number_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let mut incidents = IncidentStore::load(dir.path());
    for round in 0..4 * MOST {
        let id = add(&incidents, &format!("app-{}", round % 20));
        incidents.close(id, None);
        if round % 64 == 0 {
            incidents.flush(LONG);
        }
    }
    incidents.flush(LONG);
    assert_eq!(all(&incidents).len(), MOST);
    let size = fs::metadata(dir.path().join(DIR).join(FILE)).unwrap().len();
    let bytes = incidents.records().bytes() + 10 * MOST;
    assert!(size <= (2 * bytes + OUTDATED) as u64, "{size} for {bytes}");
    drop(incidents);
    assert_eq!(all(&IncidentStore::load(dir.path())).len(), MOST);
}

#[test]
fn incidents_of_a_full_disk_are_stored_later() {
    let dir = tempfile::tempdir().unwrap();
    // No file can be made below a file, for root neither.
    let blocked = dir.path().join(DIR);
    let mut incidents = IncidentStore::load(dir.path());
    fs::write(&blocked, "in the way").unwrap();
    let first = add(&incidents, "a");
    incidents.flush(LONG);
    assert_eq!(all(&incidents).len(), 1, "operators see it");
    fs::remove_file(&blocked).unwrap();
    let second = add(&incidents, "b");
    incidents.flush(LONG);
    drop(incidents);
    let found = all(&IncidentStore::load(dir.path()));
    assert_eq!(found.iter().map(|it| it.id).collect::<Vec<_>>(), [first, second]);
}

#[test]
fn unreadable_file_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join(DIR).join(FILE)).unwrap();
    let mut incidents = IncidentStore::load(dir.path());
    let id = add(&incidents, "a");
    incidents.flush(LONG);
    assert_eq!(all(&incidents)[0].id, id);
    assert!(dir.path().join(DIR).join(FILE).is_dir());
}

/// Lets a program that crashes at each start live for a day, without a clock. Returns how often it was held.
fn crash_for_a_day(incidents: &IncidentStore, program: Program, rules: RestartPolicy) -> usize {
    let begin = Instant::now();
    let mut of_program = ProgramIncidents::new(incidents.incidents().clone(), program);
    let mut lifecycle = Lifecycle::new(Limits { restart: rules, ..Limits::default() });
    lifecycle.start(begin);
    let (mut held, end) = (0, begin + Duration::from_secs(86_400));
    while let Some(now) = lifecycle.next_due().filter(|at| *at < end) {
        of_program.started();
        lifecycle.started(now);
        lifecycle.ready();
        of_program.runs(now);
        let exit = "killed by SIGSEGV".to_owned();
        let facts = vec![exit.clone(), "process 4711 ran 0.000 s".into()];
        let ended = lifecycle.ended(now, exit);
        let reaction = format!("{:?}", ended.next);
        of_program.ended(Cause::Signal { signal: 11 }, facts, reaction, now);
        if let Next::HeldForRestarts(why) = ended.next {
            of_program.ended(Cause::TooManyRestarts, vec![why.to_string()], "held".into(), now);
            held += 1;
        }
    }
    held
}

#[test]
fn day_of_crashes_fits_its_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let mut incidents = IncidentStore::load(dir.path());
    let rules = RestartPolicy::default();
    for app in ["a", "b", "c"] {
        assert_eq!(crash_for_a_day(&incidents, Program::app(app), rules), 18);
    }
    let never = RestartPolicy { restarts: None, ..rules };
    assert_eq!(crash_for_a_day(&incidents, Program::kernel(), never), 0);
    incidents.flush(LONG);
    let all = all(&incidents);
    assert_eq!(all.len(), MOST, "2885 crashes of the kernel and 972 of each app");
    let bytes: usize = all.iter().map(|it| serde_json::to_vec(it).unwrap().len()).sum();
    assert!(bytes <= MOST_BYTES, "{bytes}");
    let size = fs::metadata(dir.path().join(DIR).join(FILE)).unwrap().len();
    let most = u64::try_from(2 * bytes + OUTDATED + all.len() * 10).unwrap();
    println!("{} incidents, {bytes} bytes, a file of {size} bytes", all.len());
    assert!(size <= most, "{size} > {most}");
    for app in ["a", "b", "c"] {
        let is_hold =
            |it: &&Incident| it.program == Program::app(app) && it.cause == Cause::TooManyRestarts;
        let holds: Vec<_> = all.iter().filter(is_hold).collect();
        let last = holds.last().unwrap();
        assert!(last.evidence.facts[0].contains("it ended 51 times in 3600 s"), "{last:?}");
    }
}
