//! Tests what a reload does with a change of each key of the configuration: it applies the change, or refuses it and names the key.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use config::{
    APP_KEYS, CONTROLLER_KEYS, Config, HISTORY_KEYS, LIMITS_KEYS, LOG_KEYS, NORTHBOUND_KEYS,
    RESTART_KEYS, SAFE_MODE_KEYS, SESSIONS_KEYS, START_KEYS, STORAGE_KEYS, SUPERVISION_KEYS,
    TOP_KEYS, TRUST_KEYS, ZONES_KEYS,
};
use control::app::AppId;
use control::session::SESSION_KEYS;

use supervisor::change::difference::{Present, Wanted, difference, fixed_obstacles};
use supervisor::files::Fingerprint;
use supervisor::spec::{AppSpec, Origin};

use super::planner::Planner;
use crate::choice::{self, App};
use crate::installation::Installation;
use crate::object::Object;

/// The effect of a reload on a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It refuses the change and names the key.
    Refused,
    /// It replaces, updates, starts or stops an app.
    App,
    /// The monitor reads the value when it needs it: [`Config`] has the new one from then on.
    Known,
}
use Outcome::{App as Apps, Known, Refused};

const KEY: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
const OTHER: &str = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO4";

/// A key of a table that occurs once, another value than the default, and the outcome.
#[rustfmt::skip]
const TABLES: [(&str, &str, &str, Outcome); 49] = [
    ("controller", "listen", "[\"127.0.0.1:7000\"]", Refused),
    ("controller", "vtep-listen", "[\"127.0.0.1:7004\"]", Refused),
    ("controller", "openflow", "[\"1.3\"]", Refused),
    ("controller", "plain", "\"never\"", Refused),
    ("controller", "tls-dir", "\"/keys\"", Refused),
    ("controller", "workers", "3", Refused),
    ("controller", "pin", "false", Refused),
    ("controller", "read-bytes", "\"128 KiB\"", Refused),
    ("controller", "ring-bytes", "\"1 MiB\"", Refused),
    ("controller", "batch", "7", Refused),
    ("controller", "switch-ports", "1000", Refused),
    ("controller", "orphans", "\"keep\"", Known), // the next reload decides by it
    ("controller", "runtime-dir", "\"/other/run\"", Refused),
    ("controller", "state-dir", "\"/other/state\"", Refused),
    ("zones", "require", "\"full\"", Refused),
    ("zones", "hang-seconds", "9", Apps),
    ("start", "verify", "\"report\"", Refused),
    ("supervision", "min-run-seconds", "2", Refused),
    ("supervision", "longest-pause-seconds", "31", Refused),
    ("supervision", "restarts", "7", Refused),
    ("supervision", "window-seconds", "99", Refused),
    ("supervision", "kernel", "{ min-run-seconds = 2 }", Refused),
    ("supervision", "log", "{ restarts = 7 }", Refused),
    ("supervision", "storage", "{ restarts = 7 }", Refused),
    ("supervision", "broker", "{ restarts = 7 }", Refused),
    ("supervision", "ovsdb", "{ restarts = 7 }", Refused),
    ("supervision", "history", "{ restarts = 7 }", Refused),
    ("supervision", "hang-seconds", "11", Refused),
    ("supervision", "leak-growth", "\"99 MiB\"", Refused),
    ("supervision", "leak-window-seconds", "99", Refused),
    ("supervision", "failed-services", "3", Refused),
    ("supervision", "failed-services-seconds", "11", Refused),
    ("supervision", "upgrade-watch-seconds", "9", Known), // the next upgrade is watched for this time
    ("safe-mode", "apps", "[\"a\"]", Refused),
    ("safe-mode", "kernel-restarts", "6", Refused),
    ("safe-mode", "window-seconds", "61", Refused),
    ("safe-mode", "health-seconds", "6", Refused),
    ("storage", "bytes-per-app", "\"17 MiB\"", Refused),
    ("storage", "keys-per-app", "99", Refused),
    ("log", "bytes-per-program", "\"5 MiB\"", Refused),
    ("history", "enabled", "true", Refused),
    ("history", "bytes", "\"2 GiB\"", Refused),
    ("history", "series", "7000", Refused),
    ("history", "interval-seconds", "7", Refused),
    ("northbound", "enabled", "false", Refused),
    ("northbound", "api", "\"127.0.0.1:7001\"", Refused),
    ("northbound", "loopback", "\"none\"", Refused),
    ("northbound", "names", "[\"c.example\"]", Refused),
    ("northbound", "ofctl-rest", "\"read\"", Refused),
    ("northbound", "app-routes", "\"127.0.0.1:7002\"", Refused),
    ("sessions", "partition", "true", Refused),
    ("sessions", "best-effort-percent", "6", Known), // the sessions are admitted by it
    ("sessions", "control-bytes-per-second", "7000", Known), // the same
    ("sessions", "packet-outs-per-second", "7", Known), // the same
];

/// A key of an app, a value and another one.
#[rustfmt::skip]
const OF_APPS: [(&str, &str, &str); 35] = [
    ("name", "name = \"a\"", "name = \"b\""),
    ("object", "object = \"/a.so\"", "object = \"/b.so\""),
    ("config", "", "config = \"/a.toml\""),
    ("host", "", "host = \"kernel\""),
    ("enabled", "", "enabled = false"),
    ("session", "", "session = \"video\""),
    ("stage", "", "stage = \"observe\""),
    ("fail", "stage = \"guard\"", "stage = \"guard\"\nfail = \"open\""),
    ("ethertypes", "", "ethertypes = [0x0800]"),
    ("dpids", "", "dpids = [\"00:00:00:00:00:00:00:01\"]"),
    ("band", "", "band = [5, 6]"),
    ("capabilities", "", "capabilities = [\"packet-in\"]"),
    ("flows", "", "flows = 7"),
    ("pace", "", "pace = 7"),
    ("services", "", "services = [\"storage\"]"),
    ("env", "", "env = { TZ = \"UTC\" }"),
    ("hang-seconds", "", "hang-seconds = 7"),
    ("on-stop", "", "on-stop = \"remove\""),
    ("log-level", "", "log-level = \"debug\""),
    ("python-path", "host = \"python\"", "host = \"python\"\npython-path = [\"/lib\"]"),
    ("options", "host = \"python\"", "host = \"python\"\noptions = { a = \"b\" }"),
    ("listen", "host = \"python\"", "host = \"python\"\nlisten = [\"w=127.0.0.1:7003\"]"),
    ("restart", "", "restart = { min-run-seconds = 2 }"),
    ("restart", "", "restart = { longest-pause-seconds = 31 }"),
    ("restart", "", "restart = { restarts = 7 }"),
    ("restart", "", "restart = { window-seconds = 99 }"),
    ("limits", "", "limits = { memory = \"100 MiB\" }"),
    ("limits", "", "limits = { cpu = 0.3 }"),
    ("limits", "", "limits = { descriptors = 100 }"),
    ("limits", "", "limits = { threads = 7 }"),
    ("limits", "", "limits = { flow-mods-per-second = 7 }"),
    ("limits", "", "limits = { packet-outs-per-second = 7 }"),
    ("limits", "", "limits = { requests-per-second = 7 }"),
    ("limits", "", "limits = { log-bytes-per-second = \"9 KiB\" }"),
    ("limits", "", "limits = { queue-bytes = { soft = \"9 KiB\" } }"),
];

/// A key of an app by which the next change judges whether the apps fit together; the app itself is not touched.
const JUDGED: [(&str, &str); 2] =
    [("role", "role = \"guard\""), ("allow", "allow = [\"two-forwarders\"]")];

/// A key of a developer and another value; the next look at a package decides by it.
#[rustfmt::skip]
const OF_TRUST: [(&str, &str); 9] = [
    ("name", "name = \"eve\""),
    ("key", ""),
    ("apps", "apps = [\"hub\"]"),
    ("stages", "stages = [\"guard\"]"),
    ("capabilities", "capabilities = [\"packet-out\"]"),
    ("services", "services = [\"storage\"]"),
    ("limits", "limits = { threads = 7 }"),
    ("revoked", "revoked = true"),
    ("revoked-packages", "revoked-packages = [\"0000000000000000000000000000000000000000000000000000000000000000\"]"),
];

fn parse(text: &str) -> Config {
    let file = PathBuf::from("/rosemary.toml");
    Config::parse(file, text.into()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn planner() -> Planner {
    Planner {
        options: crate::options::tests::parse(&[]).unwrap(),
        installation: Installation::of("/nowhere"),
        state_dir: "/state".into(),
        own: Vec::new(),
        never: Arc::default(),
    }
}

/// The specifications of the apps, as a plan has them.
fn specs(config: &Config) -> Vec<AppSpec> {
    let planner = planner();
    let apps: Vec<_> = config.apps.iter().flatten().filter(|app| app.enabled).cloned().collect();
    let policies = config.policies(&apps).unwrap();
    let mut apps: Vec<App> = apps
        .into_iter()
        .zip(policies)
        .map(|(mut app, policy)| {
            let path = app.object.clone().unwrap_or_default();
            let found = (Object::Unusable { path, why: String::new() }, Origin::Unsigned);
            // The test needs no interpreter on this machine.
            let host = std::mem::take(&mut app.host);
            let mut app = App::of(app, policy, found, config, &planner.installation).unwrap();
            (app.spec.keys.host, app.spec.runtime.host) = (host, host.outside());
            app
        })
        .collect();
    let numbers: Vec<AppId> = (1..).map(AppId).take(apps.len()).collect();
    choice::give_rights(&numbers, &mut apps);
    apps.into_iter().map(|app| app.spec).collect()
}

/// Returns the effect of a reload from one text to another one. A refusal must contain `key`.
fn reload(old: &str, new: &str, key: &str) -> Option<Outcome> {
    let (before, after, planner) = (parse(old), parse(new), planner());
    let changes = config::changes(old, new).unwrap();
    let obstacles = fixed_obstacles(&planner.fixed(&before), &planner.fixed(&after), &changes);
    if !obstacles.is_empty() {
        let [why] = &obstacles[..] else { panic!("{key}: {obstacles:?}") };
        assert!(why.contains(key), "{key}: {why}");
        return Some(Refused);
    }
    let files = Fingerprint::default;
    let present =
        specs(&before).into_iter().map(|spec| Present { spec, files: files(), is_stopped: false });
    let wanted = specs(&after).into_iter().map(|spec| Wanted { spec, files: Ok(files()) });
    let difference = difference(&present.collect::<Vec<_>>(), &wanted.collect::<Vec<_>>());
    if !difference.steps.is_empty() {
        return Some(Apps);
    }
    let judged = |config: &Config| -> Vec<_> {
        config.apps.iter().flatten().map(|app| (app.role, app.allow.clone())).collect()
    };
    let known = |config: &Config| {
        let sessions = config.sessions.clone();
        (config.orphans, config.supervision, config.trust.clone(), sessions, judged(config))
    };
    (known(&before) != known(&after)).then_some(Known)
}

/// Checks that the tests have each key of these tables, and no other.
fn covers<'k>(tested: impl Iterator<Item = &'k str>, keys: impl Iterator<Item = &'k &'k str>) {
    let tested: BTreeSet<&str> = tested.collect();
    let keys: BTreeSet<&str> = keys.copied().collect();
    assert_eq!(tested, keys, "add a row for a new key");
}

#[test]
fn change_of_each_key_of_a_table_is_applied_or_refused_by_name() {
    for (table, key, value, expected) in TABLES {
        let app = "[[app]]\nname = \"a\"\n";
        let outcome = reload(app, &format!("[{table}]\n{key} = {value}\n{app}"), key);
        assert_eq!(outcome, Some(expected), "{table}.{key}");
    }
    let tables: [(&str, &[&str]); 10] = [
        ("controller", &CONTROLLER_KEYS),
        ("zones", &ZONES_KEYS),
        ("start", &START_KEYS),
        ("supervision", &SUPERVISION_KEYS),
        ("safe-mode", &SAFE_MODE_KEYS),
        ("storage", &STORAGE_KEYS),
        ("log", &LOG_KEYS),
        ("history", &HISTORY_KEYS),
        ("northbound", &NORTHBOUND_KEYS),
        ("sessions", &SESSIONS_KEYS),
    ];
    for (table, keys) in tables {
        covers(TABLES.iter().filter(|it| it.0 == table).map(|it| it.1), keys.iter());
    }
    covers(
        tables.iter().map(|it| it.0).chain(["session", "trust", "ovsdb", "app"]),
        TOP_KEYS.iter(),
    );
}

#[test]
fn change_of_each_key_of_an_app_is_applied() {
    for (key, old, new) in OF_APPS {
        let app = |text: &str| {
            let name = if key == "name" { "" } else { "name = \"a\"\n" };
            format!("[session.video]\n[[app]]\n{name}{text}\n")
        };
        assert_eq!(reload(&app(old), &app(new), key), Some(Apps), "{key}: {new}");
    }
    for (key, new) in JUDGED {
        let app = "[[app]]\nname = \"a\"\n";
        assert_eq!(reload(app, &format!("{app}{new}\n"), key), Some(Known), "{key}");
    }
    let tested = OF_APPS.iter().map(|it| it.0).chain(JUDGED.iter().map(|it| it.0));
    covers(tested, APP_KEYS.iter());
    let inside = |outer: &'static str| {
        OF_APPS.iter().filter(move |it| it.0 == outer).map(|it| {
            let (_, table) = it.2.split_once("{ ").unwrap();
            table.split(" = ").next().unwrap()
        })
    };
    covers(inside("limits"), LIMITS_KEYS.iter());
    covers(inside("restart"), RESTART_KEYS.iter());
}

/// A key of a session, and a value beside `runtime-us` and `period-us`.
const OF_SESSIONS: [(&str, &str); 12] = [
    ("runtime-us", "3000"),
    ("period-us", "30000"),
    ("processors", "2"),
    ("extra", "7"),
    ("packet-ins-percent", "7"),
    ("received-bytes-per-second", "7"),
    ("sent-bytes-per-second", "7"),
    ("packet-outs-per-second", "7"),
    ("ring-bytes", "7"),
    ("memory", "\"1 MiB\""),
    ("storage", "7"),
    ("descriptors", "7"),
];

#[test]
fn change_of_each_key_of_a_session_is_known() {
    let app = "[[app]]\nname = \"a\"\n";
    for name in ["video", "system"] {
        let session = |keys: &[(&str, &str)]| {
            let keys: Vec<String> =
                keys.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
            let keys = keys.concat();
            format!("[session.{name}]\n{keys}{app}")
        };
        let base = [("runtime-us", "2000"), ("period-us", "20000")];
        for (key, value) in OF_SESSIONS {
            if (name, key) == ("system", "processors") {
                continue; // refused when the file is read
            }
            let mut keys: Vec<_> = base.into_iter().filter(|it| it.0 != key).collect();
            keys.push((key, value));
            assert_eq!(reload(&session(&base), &session(&keys), key), Some(Known), "{key}");
        }
        assert_eq!(reload(app, &session(&base), name), Some(Known));
    }
    covers(OF_SESSIONS.iter().map(|it| it.0), SESSION_KEYS.iter());
}

#[test]
fn change_of_each_key_of_a_developer_is_known() {
    for (key, other) in OF_TRUST {
        let developer = |key: &str, name: &str, text: &str| {
            format!("[[trust]]\nkey = \"{key}\"\n{name}\n{text}\n")
        };
        let joe = "name = \"joe\"";
        let new = match key {
            "name" => developer(KEY, other, ""),
            "key" => developer(OTHER, joe, ""),
            _ => developer(KEY, joe, other),
        };
        assert_eq!(reload(&developer(KEY, joe, ""), &new, key), Some(Known), "{key}");
    }
    covers(OF_TRUST.iter().map(|it| it.0), TRUST_KEYS.iter());
}

#[test]
fn change_of_databases_is_refused() {
    let database = |name: &str, address: &str| {
        format!("[[ovsdb]]\nname = \"{name}\"\naddress = \"{address}\"\n")
    };
    let old = database("a", "tcp:127.0.0.1:1");
    for new in [database("b", "tcp:127.0.0.1:1"), database("a", "tcp:127.0.0.1:2"), String::new()] {
        assert_eq!(reload(&old, &new, "ovsdb"), Some(Refused), "{new}");
    }
}

#[test]
fn order_of_apps_is_applied() {
    let (a, b) = ("[[app]]\nname = \"a\"\n", "[[app]]\nname = \"b\"\n");
    assert_eq!(reload(&format!("{a}{b}"), &format!("{b}{a}"), ""), Some(Apps));
}
