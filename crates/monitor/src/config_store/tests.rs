use std::os::unix::fs::MetadataExt as _;

use super::*;

const ONE: &str = "[controller]\nworkers = 1\n";
const TWO: &str = "[controller]\nworkers = 2\n";
const MINUTE: Duration = Duration::from_secs(60);

/// A state directory, and the file of a configuration.
struct Place(tempfile::TempDir);

impl Place {
    fn new(text: &str) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.edit(text);
        place
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("rosemary.toml")
    }

    fn edit(&self, text: &str) {
        fs::write(self.file(), text).unwrap();
    }

    fn text(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    fn start(&self) -> Started {
        let config = Config::load(Some(&self.file())).unwrap();
        start(config, self.0.path(), |_| Ok(()))
    }

    fn await_confirmation(&self, before: u64, time: Duration) {
        Confirmation::new(before, time, &Clocks::now()).store(self.0.path()).unwrap();
    }

    fn waits(&self) -> bool {
        self.0.path().join(UNCONFIRMED).exists()
    }
}

fn clocks(wall_s: u64, boot_s: u64, boot: &str) -> Clocks {
    Clocks { wall_ms: wall_s * 1_000, boot_ms: boot_s * 1_000, boot: Some(boot.into()) }
}

#[test]
fn history_survives_a_restart() {
    let place = Place::new(ONE);
    assert_eq!(place.start().history.last().unwrap().change.what, "first start");
    assert_eq!(place.start().history.texts().count(), 1, "nothing has changed");
    place.edit(TWO);
    let started = place.start();
    let last = started.history.last().unwrap();
    assert_eq!((last.change.id, last.previous), (2, Some(1)));
    assert_eq!(last.change.difference, ["controller.workers 1 -> 2"]);
    assert_eq!(&*started.history.before(2).unwrap().text, ONE);
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&dir(place.0.path())), 0o700);
    assert_eq!(mode(&file(place.0.path(), 1)), 0o600);
}

#[test]
fn damaged_files_are_put_aside() {
    let place = Place::new(ONE);
    place.start();
    place.edit(TWO);
    place.start();
    fs::write(file(place.0.path(), 2), "{").unwrap();
    fs::write(place.0.path().join(UNCONFIRMED), "[]").unwrap();
    let started = place.start();
    assert!(started.unconfirmed.is_none());
    assert!(dir(place.0.path()).join("2.json.damaged").exists());
    assert!(place.0.path().join("unconfirmed.json.damaged").exists());
    let last = started.history.last().unwrap();
    assert_eq!((last.change.id, last.previous), (3, Some(1)), "2 is not used again");
    assert_eq!(place.start().history.last().unwrap().change.id, 3);
}

#[test]
fn only_the_last_hundred_files_are_kept() {
    let place = Place::new(ONE);
    for number in 0..103 {
        place.edit(&format!("# {number}\n{ONE}"));
        place.start();
    }
    let files = fs::read_dir(dir(place.0.path())).unwrap().count();
    assert_eq!(files, MOST);
}

#[test]
fn time_goes_on_after_a_restart_of_the_monitor() {
    let place = Place::new(ONE);
    place.start();
    place.await_confirmation(1, MINUTE);
    place.edit(TWO);
    let started = place.start();
    let unconfirmed = started.unconfirmed.unwrap();
    assert_eq!((unconfirmed.id, unconfirmed.before), (2, 1));
    let left = unconfirmed.until - Instant::now();
    assert!(Duration::from_secs(50) < left && left <= MINUTE, "{left:?}");
    assert_eq!(started.history.last().unwrap().change.outcome, Outcome::Waiting);
    assert_eq!((place.text(), place.waits()), (TWO.into(), true));
}

#[test]
fn configuration_before_returns_at_a_start_after_the_time() {
    let place = Place::new(ONE);
    place.start();
    place.await_confirmation(1, Duration::ZERO);
    place.edit(TWO);
    let started = place.start();
    assert_eq!((started.config.workers, started.unconfirmed), (Some(1), None));
    assert_eq!((place.text(), place.waits()), (ONE.into(), false));
    // Nobody edited that file without a reload; this start just never had it in the history.
    assert_eq!(started.history.last().unwrap().change.id, 1);
    let edited = place.0.path().join("rosemary.toml.edited");
    assert_eq!(fs::read_to_string(edited).unwrap(), TWO);
}

#[test]
fn configuration_that_was_recorded_is_taken_back() {
    let place = Place::new(ONE);
    place.start();
    place.await_confirmation(1, MINUTE);
    place.edit(TWO);
    place.start();
    place.await_confirmation(1, Duration::ZERO);
    let history = place.start().history;
    let outcome = history.get(2).unwrap().change.outcome;
    let last = history.last().unwrap();
    assert_eq!((outcome, last.change.id, &*last.text), (Outcome::TakenBack, 3, ONE));
    assert!(!place.0.path().join("rosemary.toml.edited").exists(), "nobody edited it");
}

#[test]
fn unfit_configuration_does_not_return_at_the_start() {
    let place = Place::new(ONE);
    place.start();
    place.await_confirmation(1, Duration::ZERO);
    place.edit(TWO);
    let config = Config::load(Some(&place.file())).unwrap();
    let started = start(config, place.0.path(), |_| Err("no".into()));
    assert_eq!(started.config.workers, Some(2));
    assert!(started.unconfirmed.is_some(), "the supervisor tries again");
    assert_eq!((place.text(), place.waits()), (TWO.into(), true));
}

#[test]
fn time_of_a_change_that_was_not_applied_is_forgotten() {
    let place = Place::new(ONE);
    place.start();
    place.await_confirmation(1, Duration::ZERO);
    assert!(place.start().unconfirmed.is_none());
    assert!(!place.waits());
    place.await_confirmation(77, MINUTE);
    place.edit(TWO);
    assert!(place.start().unconfirmed.is_none(), "77 is lost");
    assert!(!place.waits());
}

#[test]
fn clock_of_the_boot_counts_unless_the_machine_restarted() {
    let confirmation = Confirmation::new(1, MINUTE, &clocks(1_000, 50, "a"));
    let left = |clocks: &Clocks| confirmation.left(clocks).as_secs();
    assert_eq!(left(&clocks(1_010, 60, "a")), 50);
    assert_eq!(left(&clocks(90_000, 60, "a")), 50, "somebody has set the wall clock");
    assert_eq!(left(&clocks(3, 111, "a")), 0);
    assert_eq!(left(&clocks(1_010, 2, "b")), 50, "the machine restarted");
    assert_eq!(left(&clocks(1_061, 2, "b")), 0);
    assert_eq!(left(&clocks(3, 2, "b")), 60, "never longer than the whole time");
    let unknown = Clocks { boot: None, ..clocks(1_020, 2, "") };
    assert_eq!(left(&unknown), 40);
}
