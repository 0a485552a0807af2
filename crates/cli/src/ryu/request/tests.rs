//! Tests requests to run apps of Ryu.

use config::{Config, Limit};
use control::log::LogLevel;

use super::*;

fn config(line: &str) -> Config {
    let arguments: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
    let text = Request::parse(&arguments).unwrap().config().unwrap();
    Config::parse("/rosemary.toml".into(), text.clone())
        .unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn options_of_ryu_manager_become_a_configuration() {
    let line = "ryu.app.rest_topology ryu.app.simple_switch_13 --observe-links --verbose --wsapi-port 8080 \
                --ofp-tcp-listen-port=6634 --ofp-listen-host ::1 --default-log-level 10 --python-path /usr/lib";
    let config = config(line);
    assert_eq!(config.listen, ["[::1]:6634".parse().unwrap()]);
    let apps = config.apps.unwrap();
    let names: Vec<_> = apps.iter().map(|app| app.name.as_str()).collect();
    assert_eq!(names, ["rest-topology", "simple-switch-13"]);
    let python: Vec<_> = apps.iter().map(|app| &app.host_keys).collect();
    let listen: Vec<_> = python.iter().map(|it| it.listen[0].1.port()).collect();
    assert_eq!(listen, [8080, 8081]);
    assert_eq!(python[0].module.as_deref(), Some("ryu.app.rest_topology"));
    assert_eq!(python[1].options["default-log-level"], "10");
    assert_eq!(python[1].options["observe-links"], "true");
    let bands: Vec<_> = apps.iter().map(|app| app.band.unwrap()).collect();
    assert_eq!((bands[0].highest, bands[1].lowest), (u16::MAX, 1));
    assert_eq!(bands[0].lowest, bands[1].highest + 1);
    assert!(apps[0].capabilities.iter().any(|it| it.to_string() == "topology.probe"));
    assert!(apps.iter().all(|app| app.log_level == Some(LogLevel::Debug)));
    let log = apps.iter().map(|app| app.limits.of(Limit::Log).hard);
    assert_eq!(log.collect::<Vec<_>>(), [64 << 10; 2]);
}

#[test]
fn app_alone_has_all_priorities_and_no_further_right() {
    let apps = config("ryu.app.simple_switch --noverbose").apps.unwrap();
    let band = apps[0].band.unwrap();
    assert_eq!((band.lowest, band.highest), (1, u16::MAX));
    assert_eq!(apps[0].capabilities.len(), Hosting::RYU.capabilities.len());
    let python = &apps[0].host_keys;
    assert_eq!((python.listen.len(), &*python.options["verbose"]), (0, "false"));
    assert_eq!(apps[0].log_level, None);
}

#[test]
fn file_of_options_is_absolute_and_may_be_read() {
    let own = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = own.path().canonicalize().unwrap().join("ryu.conf");
    std::fs::write(&file, "").unwrap();
    // A relative path, which leads to the file from any directory.
    let up = "../".repeat(std::env::current_dir().unwrap().components().count());
    let relative = format!("{up}{}", file.strip_prefix("/").unwrap().display());
    for line in [format!("--config-file {relative}"), format!("--config-file={relative}")] {
        let app = config(&format!("ryu.app.x {line}")).apps.unwrap().remove(0);
        assert_eq!(app.read, std::slice::from_ref(&file));
        assert_eq!(app.host_keys.options["config-file"], file.to_str().unwrap());
    }
}

#[test]
fn listed_apps_come_first() {
    let line =
        "ryu.app.c --app-lists ryu.app.a,ryu.app.b --app-lists=ryu.app.d --verbose --noverbose";
    let apps = config(line).apps.unwrap();
    let names: Vec<_> = apps.iter().map(|app| app.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "d", "c"]);
    let options = apps.into_iter().map(|app| app.host_keys.options);
    assert!(options.into_iter().all(|it| it["verbose"] == "false"), "the last one counts");
}

#[test]
fn watch_is_passed_on() {
    let arguments = ["--watch", "ryu.app.simple_switch"].map(ToOwned::to_owned);
    let request = Request::parse(&arguments).unwrap();
    assert_eq!((request.up, request.apps.len()), (vec!["--watch".into()], 1));
    assert!(request.options.is_empty());
}

#[test]
fn variables_reach_the_apps() {
    let app = config("ryu.app.x --env API_KEY=a=b --env=PATH").apps.unwrap().remove(0);
    assert_eq!(app.env["API_KEY"], "a=b");
    assert_eq!(app.env["PATH"], std::env::var("PATH").unwrap());
}

#[test]
fn several_apps_with_ports_are_announced() {
    let request = |line: &str| {
        let arguments: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
        Request::parse(&arguments).unwrap()
    };
    let about = |line: &str| request(line).about_ports().unwrap();
    let line = about("ryu.app.a ryu.app.b --wsapi-port 8080").unwrap();
    assert!(line.contains("alone: a at 127.0.0.1:8080, b at 127.0.0.1:8081;"), "{line}");
    assert_eq!(about("ryu.app.a --wsapi-port 8080"), None);
    assert_eq!(about("ryu.app.a ryu.app.b"), None);
}

#[test]
fn web_interfaces_have_the_first_ports() {
    let line = "ryu.app.switch ryu.app.rest_a ryu.app.rest_b --wsapi-port 8080";
    let arguments: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
    let mut request = Request::parse(&arguments).unwrap();
    request.web = Some(vec!["ryu.app.rest_b".into(), "ryu.app.rest_a".into()]);
    let line = request.about_ports().unwrap().unwrap();
    let addresses = "rest-a at http://127.0.0.1:8080, rest-b at http://127.0.0.1:8081, \
                     switch has 127.0.0.1:8082 and does not import ryu.app.wsgi;";
    assert!(line.contains(addresses), "{line}");
    let config = Config::parse("/rosemary.toml".into(), request.config().unwrap()).unwrap();
    let apps = config.apps.unwrap();
    let ports = apps.iter().map(|app| app.host_keys.listen[0].1.port());
    assert_eq!(ports.collect::<Vec<_>>(), [8082, 8080, 8081]);
}

#[test]
fn versions_of_the_apps_are_those_of_the_controller() {
    let arguments =
        ["ryu.app.simple_switch_14", "--ofp-tcp-listen-port=6633"].map(ToOwned::to_owned);
    let mut request = Request::parse(&arguments).unwrap();
    assert_eq!(request.about_versions(), None);
    request.openflow = vec!["1.0".into(), "1.4".into()];
    let line = request.about_versions().unwrap();
    assert!(line.contains("(--openflow 1.0,1.4)"), "{line}");
    assert!(line.ends_with("protocols=OpenFlow10,OpenFlow14"), "{line}");
    let config = Config::parse("/rosemary.toml".into(), request.config().unwrap()).unwrap();
    assert_eq!(config.tuning.openflow.unwrap().to_string(), "1.0, 1.4");
    assert_eq!(config.listen.len(), 1);
}

#[test]
fn versions_that_the_command_names_are_passed_on() {
    let arguments = ["--openflow", "1.4", "ryu.app.simple_switch_14"].map(ToOwned::to_owned);
    let request = Request::parse(&arguments).unwrap();
    assert!(request.names_versions());
    assert_eq!(request.up, ["--openflow", "1.4"]);
}

#[test]
fn wrong_arguments_are_refused() {
    let wrong = |line: &str| {
        let arguments: Vec<String> = line.split(' ').map(ToOwned::to_owned).collect();
        Request::parse(&arguments).and_then(|it| it.config()).unwrap_err().to_string()
    };
    assert!(wrong("--verbose").contains("name an app"));
    assert!(wrong("a.py").contains("missing"));
    assert!(wrong("x/y").contains("neither"));
    assert!(wrong("ryu.app.x --wsapi-port http").contains("expected a port"));
    assert!(wrong("ryu.app.x --wsapi-port").contains("needs a value"));
    assert!(wrong("ryu.app.x os_ken.app.x").contains("two apps"));
    assert!(wrong("ryu.app.x --no-such-option 5").contains("--no-such-option is no option"));
    assert!(wrong("ryu.app.x --wsapi-prot 5").contains("did you mean --wsapi-port?"));
    assert!(wrong("ryu.app.x --user-flags x.py").contains("--config-file"));
    assert!(wrong("ryu.app.x --env NO_SUCH_VARIABLE").contains("--env NO_SUCH_VARIABLE=VALUE"));
    assert!(wrong("ryu.app.x --env LD_PRELOAD=x").contains("\"LD_PRELOAD\" is no variable"));
    assert!(wrong("ryu.app.x --env A=1 --env A=2").contains("given twice"));
    assert!(wrong("ryu.app.x -v").contains("such as --verbose"));
    assert!(wrong("ryu.app.x --config-file /no/ryu.conf").contains("ryu.conf is missing"));
    let twice = "ryu.app.x --config-file /etc/passwd --config-file /etc/group";
    assert!(wrong(twice).contains("given twice"));
    assert!(wrong("ryu.app.x --python-path /nowhere").contains("/nowhere is missing"));
    let hidden = wrong("ryu.app.x --python-path /tmp");
    assert!(hidden.contains("to another directory"), "{hidden}");
}
