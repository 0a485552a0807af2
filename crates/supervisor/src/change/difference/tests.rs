//! Tests of the difference between two configurations.

use control::policy::{Band, Capability, Fail, Policy, Stage};
use control::service::ClientRights;

use super::*;
use crate::spec::{Origin, Runtime};
use config::{AppConfig, Limits, OnStop};
use control::hosting::Hosting;
use control::log::LogLevel;

fn spec() -> AppSpec {
    let mut keys = AppConfig::defaults("a");
    keys.limits = Limits::none();
    AppSpec {
        keys,
        policy: Policy::default(),
        origin: Origin::Shipped,
        object: "/a.so".into(),
        rights: ClientRights::default(),
        hang: std::time::Duration::from_secs(1),
        restart: config::RestartPolicy::default(),
        runtime: Runtime::of_program(Hosting::USER, "/zone".into()),
    }
}

/// The specification of an app with changed keys.
fn with(change: impl FnOnce(&mut AppConfig)) -> AppSpec {
    let mut spec = spec();
    change(&mut spec.keys);
    spec
}

fn guard() -> AppSpec {
    let policy = Policy { stage: Stage::Guard(Fail::Closed), ..Policy::default() };
    AppSpec { policy, ..spec() }
}

fn files(config: &str) -> Fingerprint {
    Fingerprint { sha256: "ab".into(), config: config.into(), ..Fingerprint::default() }
}

/// The specification with another name.
fn named(name: &str, mut spec: AppSpec) -> AppSpec {
    spec.keys.name = name.into();
    spec
}

fn present(name: &str, spec: AppSpec) -> Present {
    Present { spec: named(name, spec), files: files("one"), is_stopped: false }
}

fn wanted(name: &str, spec: AppSpec) -> Wanted {
    Wanted { spec: named(name, spec), files: Ok(files("one")) }
}

fn compare(old: &[Present], new: &[Wanted]) -> Difference {
    difference(old, new)
}

fn steps(difference: &Difference) -> Vec<(&str, Action)> {
    difference.steps.iter().map(|step| (step.app.as_str(), step.action)).collect()
}

#[test]
fn equal_configurations_need_no_step() {
    let old = [present("a", spec()), present("g", guard())];
    let new = [wanted("g", guard()), wanted("a", spec())];
    assert_eq!(compare(&old, &new), Difference::default());
}

#[test]
fn guards_come_first_and_leave_last() {
    let old = [present("old-guard", guard()), present("old", spec())];
    let new = [wanted("new", spec()), wanted("new-guard", guard())];
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
    let mut rights = spec();
    rights.policy.capabilities = vec![Capability::FlowWrite.into()];
    let difference = compare(&[present("a", spec())], &[wanted("a", rights)]);
    assert_eq!(steps(&difference), [("a", Action::Update)]);
    assert_eq!(difference.steps[0].why, "changed: capabilities");
    let mut band = spec();
    band.policy.band = Band { lowest: 7, highest: 9 };
    let difference = compare(&[present("a", spec())], &[wanted("a", band)]);
    assert_eq!(steps(&difference), [("a", Action::Replace)]);
    assert!(!difference.restarts_kernel());
    let env = [("APP_A".to_owned(), "1".to_owned())].into();
    let old = [present("a", spec()), present("b", spec())];
    let new = [wanted("a", with(|keys| keys.env = env)), wanted("b", spec())];
    let difference = compare(&old, &new);
    assert_eq!(steps(&difference), [("a", Action::Replace)]);
    assert_eq!(difference.steps[0].why, "changed: env");
}

#[test]
fn changed_files_replace_the_process() {
    let new = Wanted { files: Ok(files("two")), ..wanted("a", spec()) };
    let difference = compare(&[present("a", spec())], &[new]);
    assert_eq!(difference.steps[0].why, "changed: its configuration");
    assert_eq!(steps(&difference), [("a", Action::Replace)]);
}

#[test]
fn unreadable_files_keep_the_running_app() {
    let unreadable = || Err("could not read /a".to_owned());
    let new = Wanted { files: unreadable(), ..wanted("a", spec()) };
    let difference = compare(&[present("a", spec())], &[new]);
    assert!(difference.steps.is_empty() && difference.obstacles.is_empty());
    assert_eq!(difference.notices, ["a goes on with its last files: could not read /a."]);
    let new = Wanted { files: unreadable(), ..wanted("b", spec()) };
    let difference = compare(&[], &[new]);
    assert_eq!(difference.obstacles, ["the app b cannot start: could not read /a"]);
}

#[test]
fn stopped_app_takes_new_settings_without_a_start() {
    let old = Present { is_stopped: true, ..present("a", spec()) };
    let new = AppSpec { hang: std::time::Duration::from_secs(2), ..spec() };
    assert_eq!(steps(&compare(&[old], &[wanted("a", new)])), [("a", Action::Update)]);
}

#[test]
fn log_level_changes_while_any_host_runs_the_app() {
    for host in [Hosting::USER, Hosting::KERNEL] {
        let old = || with(|keys| keys.host = host);
        let new = || with(|keys| (keys.host, keys.log_level) = (host, Some(LogLevel::Debug)));
        let difference = compare(&[present("a", old())], &[wanted("a", new())]);
        assert_eq!(steps(&difference), [("a", Action::Update)]);
        assert_eq!(difference.steps[0].why, "changed: log-level");
        assert!(!difference.restarts_kernel());
    }
    let old = with(|keys| keys.host = Hosting::KERNEL);
    let new = with(|keys| {
        (keys.host, keys.log_level) = (Hosting::KERNEL, Some(LogLevel::Debug));
        keys.on_stop = OnStop::Remove;
    });
    assert!(compare(&[present("a", old)], &[wanted("a", new)]).restarts_kernel());
}

#[test]
fn other_hosting_names_the_key() {
    let hosted_by = |host: Hosting| {
        let mut spec = with(|keys| keys.host = host);
        spec.runtime.host = host.outside();
        spec
    };
    let [user, kernel, python, ryu] =
        [Hosting::USER, Hosting::KERNEL, Hosting::PYTHON, Hosting::RYU].map(hosted_by);
    let in_a_zone = "host, python-path, options or listen";
    for (old, new, expected) in [
        (&user, &kernel, vec!["host"]),
        (&user, &python, vec![in_a_zone]),
        (&python, &ryu, vec![in_a_zone]),
        (&ryu, &kernel, vec!["host", in_a_zone]),
    ] {
        assert_eq!(old.differ_for_process(new), expected);
        assert_eq!(new.differ_for_process(old), expected);
    }
    let shared = |host| AppSpec { runtime: user.runtime.clone(), ..hosted_by(host) };
    assert_eq!(shared(Hosting::USER).differ_for_process(&shared(Hosting::PYTHON)), [in_a_zone]);
}

#[test]
fn app_in_the_kernel_restarts_it() {
    let in_kernel = || with(|keys| keys.host = Hosting::KERNEL);
    let difference = compare(&[present("a", spec())], &[wanted("a", in_kernel())]);
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
        AppSpec { policy: Policy { band, ..Policy::default() }, ..spec() }
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
    let in_band = |lowest, highest| AppSpec { policy: band(lowest, highest), ..spec() };
    let scope = Scope { apps: ["a".into()].into(), changed_file: None, mistakes: Vec::new() };
    let mut present = vec![present("b", in_band(1, 65_535)), present("reader", in_band(0, 0))];
    // A package of the app `b` has been replaced: it will have a smaller band.
    let mut wanted = vec![wanted("a", in_band(100, 199)), wanted("b", in_band(200, 299))];
    let rest = narrow(&scope, &mut present, &mut wanted);
    let expected = "a is to have priorities that b has until a change of it is applied; type `rosemary reload` first";
    assert_eq!(rest.obstacles, [expected]);
}
