use std::time::Duration;

use control::incident::{Cause, Evidence, IncidentId, Program};

use super::super::Incidents;
use super::super::records::MOST;
use super::*;

const LONG: Duration = Duration::from_secs(20);

fn add(incidents: &Incidents, app: &str) -> IncidentId {
    incidents.open(Program::app(app), Cause::Panic, Evidence::fact("it did"))
}

/// Every incident, as operators see them.
fn all(incidents: &Incidents) -> Vec<Incident> {
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
    let incidents = Incidents::load(dir.path());
    let (closed, lasting) = (add(&incidents, "a"), add(&incidents, "b"));
    incidents.reaction(closed, "restarted at once");
    incidents.close(closed, Some(Duration::from_millis(15)));
    incidents.flush(LONG);
    let before = all(&incidents);
    drop(incidents);
    let incidents = Incidents::load(dir.path());
    let after = all(&incidents);
    assert_eq!(after[0], before[0]);
    assert_eq!((after[0].duration_ms, after[1].open), (Some(15), false));
    assert_eq!(after[1].id, lasting);
    assert!(add(&incidents, "c") > lasting, "numbers are not used twice");
}

#[test]
fn torn_tail_loses_only_the_last_line() {
    let dir = tempfile::tempdir().unwrap();
    let incidents = Incidents::load(dir.path());
    let ids: Vec<IncidentId> = (0..3).map(|_| add(&incidents, "a")).collect();
    for id in &ids {
        incidents.close(*id, None);
    }
    incidents.flush(LONG);
    drop(incidents);
    let path = dir.path().join(DIR).join(FILE);
    let whole = std::fs::read(&path).unwrap();
    let last_line = whole.strip_suffix(b"\n").unwrap().iter().rposition(|it| *it == b'\n').unwrap();
    for cut in [last_line + 2, last_line + 30, whole.len() - 1] {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let incidents = Incidents::load(dir.path());
        let found = all(&incidents);
        assert_eq!(found.iter().map(|it| it.id).collect::<Vec<_>>(), ids, "cut at {cut}");
        let new = add(&incidents, "b");
        incidents.flush(LONG);
        drop(incidents);
        // The next line does not continue the torn one.
        assert_eq!(parse(&std::fs::read(&path).unwrap()).1, 0);
        assert_eq!(all(&Incidents::load(dir.path())).last().map(|it| it.id), Some(new));
    }
}

#[test]
fn damaged_lines_are_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let incidents = Incidents::load(dir.path());
    let ids = [add(&incidents, "a"), add(&incidents, "b")];
    incidents.flush(LONG);
    drop(incidents);
    let path = dir.path().join(DIR).join(FILE);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[40] ^= 1;
    bytes.splice(0..0, b"\xff\xfe nonsense\n\n".iter().copied());
    std::fs::write(&path, &bytes).unwrap();
    let found = all(&Incidents::load(dir.path()));
    assert_eq!(found.iter().map(|it| it.id).collect::<Vec<_>>(), ids[1..]);
}

#[test]
fn file_and_number_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let incidents = Incidents::load(dir.path());
    for round in 0..4 * MOST {
        let id = add(&incidents, &format!("app-{}", round % 20));
        incidents.close(id, None);
        if round % 64 == 0 {
            incidents.flush(LONG);
        }
    }
    incidents.flush(LONG);
    assert_eq!(all(&incidents).len(), MOST);
    let size = std::fs::metadata(dir.path().join(DIR).join(FILE)).unwrap().len();
    let bytes = incidents.0.borrow().records.bytes() + 10 * MOST;
    assert!(size <= (2 * bytes + OUTDATED) as u64, "{size} for {bytes}");
    drop(incidents);
    assert_eq!(all(&Incidents::load(dir.path())).len(), MOST);
}

#[test]
fn incidents_of_a_full_disk_are_stored_later() {
    let dir = tempfile::tempdir().unwrap();
    // No file can be made below a file, for root neither.
    let blocked = dir.path().join(DIR);
    let incidents = Incidents::load(dir.path());
    std::fs::write(&blocked, "in the way").unwrap();
    let first = add(&incidents, "a");
    incidents.flush(LONG);
    assert_eq!(all(&incidents).len(), 1, "operators see it");
    std::fs::remove_file(&blocked).unwrap();
    let second = add(&incidents, "b");
    incidents.flush(LONG);
    drop(incidents);
    let found = all(&Incidents::load(dir.path()));
    assert_eq!(found.iter().map(|it| it.id).collect::<Vec<_>>(), [first, second]);
}

#[test]
fn unreadable_file_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join(DIR).join(FILE)).unwrap();
    let incidents = Incidents::load(dir.path());
    let id = add(&incidents, "a");
    incidents.flush(LONG);
    assert_eq!(all(&incidents)[0].id, id);
    assert!(dir.path().join(DIR).join(FILE).is_dir());
}
