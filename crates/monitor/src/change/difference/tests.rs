//! Tests of the difference between two configurations.

use control::policy::{Band, Capability, Fail, Policy, Stage};
use control::service::ClientRights;

use super::*;
use crate::choice::Origin;
use config::{Limits, OnStop};
use control::log::LogLevel;

fn settings() -> AppSettings {
    AppSettings {
        policy: Policy::default(),
        host: Hosting::User,
        origin: Origin::Shipped,
        object: "/a.so".into(),
        config: None,
        services: Vec::new(),
        rights: ClientRights::default(),
        limits: Limits::none(),
        read: Vec::new(),
        env: config::Environment::new(),
        hang: std::time::Duration::from_secs(1),
        restart: config::RestartPolicy::default(),
        on_stop: OnStop::default(),
        log_level: None,
        python: None,
    }
}

fn guard() -> AppSettings {
    let policy = Policy { stage: Stage::Guard(Fail::Closed), ..Policy::default() };
    AppSettings { policy, ..settings() }
}

fn files(config: &str) -> Fingerprint {
    Fingerprint::new("ab".into(), config.into())
}

fn present(name: &str, settings: AppSettings) -> Present {
    Present { name: name.into(), settings, files: files("one"), is_stopped: false }
}

fn wanted(name: &str, settings: AppSettings) -> Wanted {
    Wanted { name: name.into(), settings, files: Ok(files("one")) }
}

fn compare(old: &[Present], new: &[Wanted]) -> Difference {
    difference(old, new)
}

fn steps(difference: &Difference) -> Vec<(&str, Action)> {
    difference.steps.iter().map(|step| (step.app.as_str(), step.action)).collect()
}

#[test]
fn equal_configurations_need_no_step() {
    let old = [present("a", settings()), present("g", guard())];
    let new = [wanted("g", guard()), wanted("a", settings())];
    assert_eq!(compare(&old, &new), Difference::default());
}

#[test]
fn guards_come_first_and_leave_last() {
    let old = [present("old-guard", guard()), present("old", settings())];
    let new = [wanted("new", settings()), wanted("new-guard", guard())];
    let expected = [
        ("new-guard", Action::Start),
        ("new", Action::Start),
        ("old", Action::Stop),
        ("old-guard", Action::Stop),
    ];
    assert_eq!(steps(&compare(&old, &new)), expected);
}

#[test]
fn only_what_the_process_knows_replaces_it() {
    let mut rights = settings();
    rights.policy.capabilities = vec![Capability::FlowWrite.into()];
    let difference = compare(&[present("a", settings())], &[wanted("a", rights)]);
    assert_eq!(steps(&difference), [("a", Action::Update)]);
    assert_eq!(difference.steps[0].why, "changed: capabilities");
    let mut band = settings();
    band.policy.band = Band { lowest: 7, highest: 9 };
    let difference = compare(&[present("a", settings())], &[wanted("a", band)]);
    assert_eq!(steps(&difference), [("a", Action::Replace)]);
    assert!(!difference.restarts_kernel());
    let env = [("APP_A".to_owned(), "1".to_owned())].into();
    let old = [present("a", settings()), present("b", settings())];
    let new = [wanted("a", AppSettings { env, ..settings() }), wanted("b", settings())];
    let difference = compare(&old, &new);
    assert_eq!(steps(&difference), [("a", Action::Replace)]);
    assert_eq!(difference.steps[0].why, "changed: env");
}

#[test]
fn changed_files_replace_the_process() {
    let new = Wanted { files: Ok(files("two")), ..wanted("a", settings()) };
    let difference = compare(&[present("a", settings())], &[new]);
    assert_eq!(difference.steps[0].why, "changed: its configuration");
    assert_eq!(steps(&difference), [("a", Action::Replace)]);
}

#[test]
fn unreadable_files_keep_the_running_app() {
    let unreadable = || Err("could not read /a".to_owned());
    let new = Wanted { files: unreadable(), ..wanted("a", settings()) };
    let difference = compare(&[present("a", settings())], &[new]);
    assert!(difference.steps.is_empty() && difference.obstacles.is_empty());
    assert_eq!(difference.notices, ["a goes on with its last files: could not read /a."]);
    let new = Wanted { files: unreadable(), ..wanted("b", settings()) };
    let difference = compare(&[], &[new]);
    assert_eq!(difference.obstacles, ["the app b cannot start: could not read /a"]);
}

#[test]
fn stopped_app_takes_new_settings_without_a_start() {
    let old = Present { is_stopped: true, ..present("a", settings()) };
    let new = AppSettings { hang: std::time::Duration::from_secs(2), ..settings() };
    assert_eq!(steps(&compare(&[old], &[wanted("a", new)])), [("a", Action::Update)]);
}

#[test]
fn log_level_changes_while_any_host_runs_the_app() {
    for host in [Hosting::User, Hosting::Kernel] {
        let old = || AppSettings { host, ..settings() };
        let new = || AppSettings { log_level: Some(LogLevel::Debug), ..old() };
        let difference = compare(&[present("a", old())], &[wanted("a", new())]);
        assert_eq!(steps(&difference), [("a", Action::Update)]);
        assert_eq!(difference.steps[0].why, "changed: log-level");
        assert!(!difference.restarts_kernel());
    }
    let old = AppSettings { host: Hosting::Kernel, ..settings() };
    let new =
        AppSettings { log_level: Some(LogLevel::Debug), on_stop: OnStop::Remove, ..old.clone() };
    assert!(compare(&[present("a", old)], &[wanted("a", new)]).restarts_kernel());
}

#[test]
fn app_in_the_kernel_restarts_it() {
    let in_kernel = || AppSettings { host: Hosting::Kernel, ..settings() };
    let difference = compare(&[present("a", settings())], &[wanted("a", in_kernel())]);
    assert!(difference.restarts_kernel());
    let shown = difference.shown();
    assert_eq!(shown.last().unwrap().program, "kernel");
    assert!(compare(&[present("a", in_kernel())], &[]).restarts_kernel());
}

#[test]
fn settings_of_rosemary_itself_are_obstacles() {
    let fixed = |listen: &str| vec![("listen", listen.to_owned()), ("workers", "1".to_owned())];
    let obstacles = fixed_obstacles(&fixed("a"), &fixed("b"), &[]);
    assert_eq!(obstacles, ["listen has changed, which needs a restart of Rosemary"]);
}

#[test]
fn change_of_one_app_leaves_pending_changes_of_others() {
    let with = |lowest| {
        let band = Band { lowest, highest: lowest + 9 };
        AppSettings { policy: Policy { band, ..Policy::default() }, ..settings() }
    };
    let mut present = vec![
        present("a", with(10)),
        present("b", with(20)),
        present("c", with(30)),
        present("d", with(50)),
        present("gone", with(60)),
    ];
    let mut wanted = vec![
        Wanted { files: Ok(files("two")), ..wanted("b", with(20)) },
        wanted("c", with(31)),
        Wanted { files: Err("no such file".into()), ..wanted("d", with(50)) },
    ];
    let scope = Scope {
        apps: ["a", "c"].map(Into::into).into(),
        changed_file: Some("/rosemary.toml".into()),
        mistakes: vec![("gone".into(), "its object is missing".into())],
    };
    let Rest { notices, obstacles } = narrow(&scope, &mut present, &mut wanted);
    let expected = [
        "/rosemary.toml has changed; the change waits for `rosemary reload`.",
        "b: a change waits for `rosemary reload` (changed: its configuration).",
        "gone: a change waits for `rosemary reload`, and has a mistake: its object is missing.",
        "d goes on with its last files: no such file.",
    ];
    assert_eq!(notices, expected);
    assert_eq!(obstacles, [""; 0]);
    let difference = compare(&present, &wanted);
    assert_eq!(steps(&difference), [("c", Action::Replace), ("a", Action::Stop)]);
}

#[test]
fn change_of_one_app_waits_for_priorities_of_another() {
    let band = |lowest, highest| Policy { band: Band { lowest, highest }, ..Policy::default() };
    let with = |lowest, highest| AppSettings { policy: band(lowest, highest), ..settings() };
    let scope = Scope { apps: ["a".into()].into(), changed_file: None, mistakes: Vec::new() };
    let mut present = vec![present("b", with(1, 65_535)), present("reader", with(0, 0))];
    // A package of the app `b` has been replaced: it will have a smaller band.
    let mut wanted = vec![wanted("a", with(100, 199)), wanted("b", with(200, 299))];
    let rest = narrow(&scope, &mut present, &mut wanted);
    let expected = "a is to have priorities that b has until a change of it is applied; type `rosemary reload` first";
    assert_eq!(rest.obstacles, [expected]);
}
