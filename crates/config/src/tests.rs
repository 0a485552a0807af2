//! Tests of whole files, and of the documents that describe their keys.

use std::path::{Path, PathBuf};

use control::hosting::Hosting;
use control::kernel::PlainTcp;
use control::log::LogLevel;
use control::policy::{Band, Capability, Fail, Grant, Policy, Quota, Stage};
use control::service::ServiceQuotas;
use control::session::SESSION_KEYS;

use super::tuning::DEPRECATED;
use super::*;

fn parse(text: &str) -> Result<Config, String> {
    let file = PathBuf::from("/etc/rosemary/rosemary.toml");
    Config::parse(file, text.into()).map_err(|error| error.to_string())
}

fn policies(text: &str) -> Vec<Policy> {
    let config = parse(text).unwrap();
    config.policies(config.apps.as_deref().unwrap_or_default()).unwrap()
}

fn bands_of(text: &str) -> Vec<(u16, u16)> {
    policies(text).iter().map(|it| (it.band.lowest, it.band.highest)).collect()
}

/// Apps with these names, each with more keys.
fn apps(apps: &[(&str, &str)]) -> String {
    let app = |(name, keys): &(&str, &str)| format!("[[app]]\nname = \"{name}\"\n{keys}\n");
    apps.iter().map(app).collect()
}

#[test]
fn file_of_comments_has_the_defaults() {
    let config = parse("# nothing\n").unwrap();
    assert_eq!((config.apps, config.listen), (None, vec![]));
    assert_eq!(parse("").unwrap().runtime_dir, None);
}

#[test]
fn app_with_only_a_name_has_the_defaults() {
    assert_eq!(policies(&apps(&[("a", "")])), [Policy::default()]);
}

#[test]
fn every_key_is_read() {
    let config = parse(
        r#"
        [controller]
        listen = ["0.0.0.0:6653", "[::1]:6633"]
        plain = "never"
        tls-dir = "keys"
        workers = 3
        runtime-dir = "/run/r"
        state-dir = "s"

        [[app]]
        name = "firewall"
        object = "target/debug/libfirewall.so"
        host = "kernel"
        enabled = false
        log-level = "Debug"
        stage = "guard"
        fail = "open"
        ethertypes = [0x0806, 2048]
        dpids = ["00:00:00:00:00:00:00:0a", "000000000000000B", "of:000000000000000c", "0xd", "14", 15]
        band = [60000, 61000]
        capabilities = ["packet-out", "flow.write.any", "experimenter:0x00002320"]
        limits = { flow-mods-per-second = 100, packet-outs-per-second = 0, requests-per-second = 50 }
        "#,
    )
    .unwrap();
    assert_eq!(config.listen.len(), 2);
    assert_eq!(config.plain, Some(PlainTcp::Never));
    assert_eq!(config.tls_dir.as_deref(), Some(Path::new("/etc/rosemary/keys")));
    assert_eq!(config.workers, Some(3));
    assert_eq!(config.runtime_dir.as_deref(), Some(Path::new("/run/r")));
    assert_eq!(config.state_dir.as_deref(), Some(Path::new("/etc/rosemary/s")));
    let [app] = config.apps.as_deref().unwrap() else { panic!("one app") };
    let object = Path::new("/etc/rosemary/target/debug/libfirewall.so");
    assert_eq!((app.object.as_deref(), app.enabled), (Some(object), false));
    assert_eq!((app.host, app.log_level), (Hosting::KERNEL, Some(LogLevel::Debug)));
    let policy = &config.policies(std::slice::from_ref(app)).unwrap()[0];
    assert_eq!(policy.stage, Stage::Guard(Fail::Open));
    assert_eq!(policy.filter.ethertypes, [0x0806, 0x0800]);
    assert_eq!(policy.filter.dpids, [10, 11, 12, 13, 14, 15]);
    assert_eq!(policy.band, Band { lowest: 60_000, highest: 61_000 });
    let experimenter = Capability::Experimenter(0x2320);
    let packet_in = Capability::PacketIn; // implied
    let capabilities = [packet_in, Capability::PacketOut, Capability::FlowWriteAny, experimenter];
    assert_eq!(policy.capabilities, Grant::unscoped(&capabilities));
    assert_eq!(policy.quota, Quota { flow_mods: 100, packet_outs: 0, requests: 50 });
}

#[test]
fn guards_and_observers_have_safe_defaults() {
    let text = apps(&[("g", "stage = \"guard\""), ("o", "stage = \"observe\"")]);
    let [guard, observer] = &policies(&text)[..] else { panic!("two") };
    assert_eq!(guard.stage, Stage::Guard(Fail::Closed));
    assert_eq!(observer.capabilities, [Capability::PacketIn.into()]);
    assert_eq!(observer.band, Band::NONE);
    assert_eq!((guard.order, observer.order), (0, 1));
}

#[test]
fn mistake_names_line_found_and_expected_value() {
    let app = |keys: &str| format!("# a comment\n[[app]]\nname = \"a\"\n{keys}\n");
    for (text, line, found, expected) in [
        ("[[app".into(), 1, "not TOML", ""),
        ("a = 1\na = 2".into(), 2, "duplicate key", ""),
        ("[controler]".into(), 1, "controler", "did you mean `controller`"),
        (
            "listen = [\"127.0.0.1:1\"]".into(),
            1,
            "\"listen\"",
            "it belongs into [controller] of rosemary.toml",
        ),
        (app("workers = 2"), 4, "\"workers\"", "it belongs into [controller] of rosemary.toml"),
        (
            "[controller]\nrequire = \"full\"".into(),
            2,
            "\"require\"",
            "it belongs into [zones] of rosemary.toml",
        ),
        (
            "[controller]\nport = 1".into(),
            2,
            "port",
            "listen, openflow, plain, tls-dir, workers, pin, read-bytes, ring-bytes, batch, switch-ports, orphans, runtime-dir, state-dir",
        ),
        ("controller = 7".into(), 1, "controller is 7", "[controller]"),
        ("[controller]\nlisten = \"127.0.0.1:1\"".into(), 2, "listen is \"127", "a list in"),
        ("[controller]\nlisten = [\n\"[::]:1\",\n6653]".into(), 4, "listen is 6653", "[::1]:6653"),
        ("[controller]\nplain = \"all\"".into(), 2, "plain is \"all\"", "\"never\""),
        ("[controller]\nplain = true".into(), 2, "plain is true", "\"loopback\""),
        ("[controller]\nworkers = 0".into(), 2, "workers is 0", "from 1 to 16"),
        ("[controller]\nworkers = 17".into(), 2, "workers is 17", "from 1 to 16"),
        ("[controller]\nworkers = \"2\"".into(), 2, "workers is \"2\"", "from 1 to 16"),
        ("[controller]\ntls-dir = 1".into(), 2, "tls-dir is 1", "the path of a directory"),
        ("[controller]\nruntime-dir = \"\"".into(), 2, "\"\"", "the path of a directory"),
        ("[app]\nname = \"a\"".into(), 1, "app is a table", "[[app]]"),
        ("[[app]]\nstage = \"guard\"".into(), 1, "without a name", "lower-case"),
        ("[[app]]\nname = \"A b\"".into(), 2, "name is \"A b\"", "lower-case"),
        (
            app("satge = \"guard\""),
            4,
            "\"satge\"",
            "did you mean `stage`? the valid keys are: name,",
        ),
        (
            app("stage = \"gaurd\""),
            4,
            "stage is \"gaurd\"",
            "\"guard\", \"control\" or \"observe\"",
        ),
        (app("stage = 1.5"), 4, "stage is 1.5", "\"guard\""),
        (app("fail = \"open\""), 4, "fail", "stage = \"guard\""),
        (app("stage = \"guard\"\nfail = true"), 5, "fail is true", "\"open\" or \"closed\""),
        (app("host = \"moon\""), 4, "\"moon\"", "\"user\", \"kernel\", \"python\", \"ryu\" or"),
        (app("enabled = \"yes\""), 4, "enabled is \"yes\"", "true or false"),
        (app("ethertypes = [0x0806, 1]"), 4, "ethertypes is 1;", "0x0806 for ARP"),
        (app("ethertypes = []"), 4, "an empty list", "remove the key"),
        (app("dpids = [\"s1\"]"), 4, "dpids is \"s1\"", "00:00:00:00:00:00:00:01"),
        (app("dpids = [-1]"), 4, "dpids is -1", "00:00:00:00:00:00:00:01"),
        (app("dpids = [\"0000:00:00:00:00:00:01a\"]"), 4, "dpids", "datapath ids"),
        (app("dpids = [\"+000000000000001\"]"), 4, "dpids", "datapath ids"),
        (app("band = [0, 10]"), 4, "band is a list", "from 1 to 65535"),
        (app("band = [10, 9]"), 4, "band is a list", "the lower one first"),
        (app("band = 10"), 4, "band is 10", "[LOWEST, HIGHEST]"),
        (app("capabilities = [\"flow.writ\"]"), 4, "\"flow.writ\"", "\"flow.write\", "),
        (app("capabilities = [\"experimenter\"]"), 4, "\"experimenter\"", "experimenter:0x"),
        (app("capabilities = \"flow.write\""), 4, "\"flow.write\"", "a list in brackets"),
        (app("object = 7"), 4, "object is 7", "the path of a file"),
        (apps(&[("a", ""), ("b", ""), ("a", "")]), 7, "in line 1", "a different name"),
    ] {
        let error = parse(&text).unwrap_err();
        let place = format!("/etc/rosemary/rosemary.toml:{line}:");
        assert!(error.starts_with(&place), "line {line}: {error}");
        assert!(error.contains(found) && error.contains(expected), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

/// Returns the places and the texts of all mistakes.
fn mistakes(text: &str) -> Vec<(String, String)> {
    let mistakes = Config::parse_all("/r.toml".into(), text.into()).unwrap_err();
    let mistakes = mistakes.iter().map(|mistake| {
        let text = mistake.to_string();
        let (place, what) = text.strip_prefix("/r.toml:").unwrap().split_once(": ").unwrap();
        (place.to_owned(), what.to_owned())
    });
    mistakes.collect()
}

fn places(text: &str) -> Vec<String> {
    mistakes(text).into_iter().map(|(place, _)| place).collect()
}

#[test]
fn all_mistakes_are_found() {
    let text = "[controler]\n[controller]\nworkers = 0\nplain = 1\nlisten = [\"a\", \"[::1]:1\", 7]\n\
                port = 1\n[zones]\nhang-seconds = 0\nrequire = 1\n[log]\nx = 1\ny = 2\n\
                [supervision]\nkernel = { restarts = 1, min-run-seconds = 0 }\nleak-growth = 1\n\
                [[app]]\nstage = 1\nenabled = 2\nlimits = { threads = 0, memory = \"1\" }\n\
                [[app]]\nname = \"b\"\nhost = 2\npace = 0\ncapabilities = [\"x\", \"y\", { flow.write = { tables = [256], a = 1 } }]\n\
                [[app]]\nname = \"b\"\n";
    let expected = [
        "1:2", "3:11", "4:9", "5:11", "5:27", "6:1", "8:16", "9:11", "11:1", "12:1", "14:12",
        "14:44", "15:15", "16:1", "17:9", "18:11", "19:22", "19:34", "22:8", "23:8", "24:17",
        "24:22", "24:54", "24:60", "25:1",
    ];
    assert_eq!(places(text), expected);
}

#[test]
fn one_mistake_is_reported_once() {
    for (text, expected) in [
        // The refused value could be one with which the other keys are valid.
        ("stage = \"gaurd\"\nfail = \"open\"", "3:9"),
        ("host = \"pyton\"\npython-path = [\"a\"]\noptions = { a = \"1\" }", "3:8"),
        ("services = [\"topology\"]\ncapabilities = [\"topology.raed\"]", "4:17"),
        ("services = [\"storge\"]\ncapabilities = [\"storage.read:b\"]", "3:13"),
        ("limits = { memory = { soft = \"1 GiB\", hard = \"2 G\" } }", "3:46"),
        ("fail = 1", "3:8"),
        ("ethertypes = [1]", "3:15"),
        ("capabilities = [{ experimenter = { ids = [-1] } }]", "3:43"),
        ("band = [2, 1]\n[[app]]\nname = \"b\"\nband = [1, 2]", "3:8"),
    ] {
        assert_eq!(places(&format!("[[app]]\nname = \"a\"\n{text}")), [expected], "{text}");
    }
}

#[test]
fn each_overlap_is_found() {
    let band = "band = [10, 20]";
    let text = apps(&[("a", band), ("b", band), ("c", ""), ("d", band)]);
    assert_eq!(places(&format!("[controller]\nworkers = 0\n{text}")), ["2:11", "8:8", "14:8"]);
}

#[test]
fn each_line_that_is_no_toml_is_found() {
    let text = "[[app]]\nname = 'x\nstage = \"control\nfail = tru e\nenabled = 2\n= 4\n[zones\n";
    let mistakes = mistakes(text);
    let lines: Vec<&str> = mistakes.iter().filter_map(|(at, _)| at.split(':').next()).collect();
    assert_eq!(lines, ["2", "3", "4", "6", "7"], "and no other mistakes");
    assert!(mistakes.iter().all(|(_, what)| what.starts_with("this is not TOML: ")));
}

#[test]
fn long_or_strange_value_is_shown_on_one_line() {
    let text = format!("[[app]]\nname = \"a\\n\\u001b[31m{}\"", "x".repeat(1000));
    let error = parse(&text).unwrap_err();
    assert!(error.contains(r"a\n\u{1b}[31mxxx"), "{error}");
    assert!(error.len() < 300, "{error}");
}

#[test]
fn app_65_is_one_too_many() {
    let names: Vec<String> = (0..65).map(|i| format!("a{i}")).collect();
    let all: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
    assert_eq!(bands_of(&apps(&all[..64])).len(), 64);
    let error = parse(&apps(&all)).unwrap_err();
    assert!(error.contains("toml:193:1: this is app number 65; expected at most 64"), "{error}");
}

#[test]
fn longest_lists_fit_into_one_message() {
    let names: Vec<String> = (0..64).map(|i| format!("{i:0>39}").replacen('0', "a", 1)).collect();
    let dpids = ["\"ff:ff:ff:ff:ff:ff:ff:ff\""; 8].join(", ");
    let one = format!("dpids = [{dpids}]\ncapabilities = [\"packet-in\", ");
    let longest = ["\"packet-out.reserved\""; 39].join(", ");
    let keys = format!("{one}{longest}]\n");
    let all: Vec<_> = names.iter().map(|name| (name.as_str(), keys.as_str())).collect();
    let policies = policies(&apps(&all));
    let services = names::Service::ALL.into_iter().filter(|it| it.is_for_apps());
    let app = |(name, policy): (&String, Policy)| control::kernel::AnnouncedApp {
        app: control::app::AppId(u16::MAX),
        name: name.clone(),
        policy,
        host: Hosting::KERNEL,
        log_level: LogLevel::default(),
        config_size: u32::MAX,
        services: services.clone().map(|it| it.name().to_owned()).collect(),
        code: control::kernel::HostedCode::default(),
    };
    let told: Vec<_> = names.iter().zip(policies).map(app).collect();
    let size = serde_json::to_vec(&told).unwrap().len();
    assert!(size + 8 * 1024 < sys::channel::MAX_MESSAGE, "{size}"); // addresses and the rest
    let longer = format!("{}, \"packet-out\"]\n", keys.trim_end_matches([']', '\n']));
    let more = format!("{}{}", apps(&all[1..]), apps(&[("a", &longer)]));
    assert!(parse(&more).unwrap_err().contains("have 3073 elements in all; expected at most 3072"));
}

#[test]
fn sole_writer_of_flows_has_all_priorities() {
    let observer = ("o", "stage = \"observe\"");
    let off = ("off", "enabled = false\nband = [100, 200]");
    assert_eq!(bands_of(&apps(&[("a", ""), observer, off])), [(1, 65_535), (0, 0), (100, 200)]);
    assert_eq!(bands_of(&apps(&[("a", "band = [7, 9]")])), [(7, 9)]);
}

#[test]
fn bands_follow_stage_and_position() {
    let guard = "stage = \"guard\"";
    let text = apps(&[("c1", ""), ("g1", guard), ("c2", ""), ("g2", guard)]);
    let [c1, g1, c2, g2] = bands_of(&text)[..] else { panic!("four") };
    assert!(g1 > g2 && g2 > c1 && c1 > c2, "{g1:?} {g2:?} {c1:?} {c2:?}");
}

#[test]
fn added_or_disabled_app_moves_no_band() {
    let two = bands_of(&apps(&[("a", ""), ("b", "")]));
    let off = ("c", "enabled = false");
    let more = [("a", ""), ("b", ""), off, ("d", ""), ("g", "stage = \"guard\"")];
    let more = bands_of(&apps(&more));
    assert_eq!(more[..2], two);
    let given = bands_of(&apps(&[("a", "band = [1, 5]"), ("b", "")]));
    assert_eq!(given, [(1, 5), two[1]]);
}

#[test]
fn overlapping_bands_are_refused() {
    let error = parse(&apps(&[("a", "band = [10, 20]"), ("b", "band = [20, 30]")])).unwrap_err();
    let expected =
        "toml:6:8: band is [20, 30], which overlaps [10, 20] of the app \"a\", given in line 3";
    assert!(error.contains(expected), "{error}");
    let error = parse(&apps(&[("a", "band = [40000, 41000]"), ("b", "")])).unwrap_err();
    assert!(error.contains("toml:3:8: band is [40000, 41000], which overlaps [4"), "{error}");
    assert!(error.contains("\"b\", assigned by its position"), "{error}");
    let error = parse(&apps(&[("a", ""), ("b", "band = [48000, 48001]")])).unwrap_err();
    assert!(error.contains("toml:6:8: band is [48000, 48001]"), "{error}");
}

/// The default file with its keys uncommented.
fn default_file_switched_on() -> String {
    let text = include_str!("../../../etc/rosemary.toml");
    let is_key = |line: &str| {
        line.strip_prefix('#').is_some_and(|it| !it.is_empty() && !it.starts_with(' '))
    };
    text.lines()
        .map(|line| if is_key(line) { &line[1..] } else { line })
        .fold(String::new(), |text, line| text + line + "\n")
}

#[test]
fn default_file_has_every_key_commented_out() {
    let config = parse(include_str!("../../../etc/rosemary.toml")).unwrap();
    assert_eq!((config.listen.len(), config.apps), (0, None));
    assert_eq!((config.plain, config.tls_dir), (None, None));
    let text = default_file_switched_on();
    let config = parse(&text).unwrap();
    let [switch, firewall, python] = config.apps.as_deref().unwrap() else { panic!("three") };
    assert_eq!((python.host, python.host_keys.path.len()), (Hosting::PYTHON, 1));
    assert_eq!(*switch, AppConfig { at: switch.at, ..AppConfig::named("learning-switch") });
    assert_eq!(config.quotas, ServiceQuotas::default());
    let defaults = Sessions { rows: config.sessions.rows.clone(), ..Sessions::default() };
    assert_eq!((&config.sessions, config.sessions.rows.len()), (&defaults, 1));
    assert!(firewall.band.is_some() && matches!(firewall.stage, Stage::Guard(Fail::Closed)));
    let keys = CONTROLLER_KEYS.iter().chain(&ZONES_KEYS).chain(&TRUST_KEYS).chain(&APP_KEYS);
    let keys = keys
        .chain(&LIMITS_KEYS)
        .chain(&STORAGE_KEYS)
        .chain(&LOG_KEYS)
        .chain(&HISTORY_KEYS)
        .chain(&NORTHBOUND_KEYS);
    let keys = keys.chain(&SUPERVISION_KEYS).chain(&SAFE_MODE_KEYS);
    let keys = keys.chain(&SESSIONS_KEYS).chain(&SESSION_KEYS).chain(&OVSDB_KEYS);
    let is_deprecated = |key: &str| DEPRECATED.iter().any(|(deprecated, _)| *deprecated == key);
    for key in keys.filter(|key| !is_deprecated(key)) {
        let given = text
            .lines()
            .any(|line| line.starts_with(&format!("{key} = ")) || line == format!("[app.{key}]"));
        assert!(given, "{key} is not in etc/rosemary.toml");
    }
}

#[test]
fn every_key_and_every_capability_is_documented() {
    let manual = include_str!("../../../docs/configuration.md");
    let keys = CONTROLLER_KEYS.iter().chain(&ZONES_KEYS).chain(&TRUST_KEYS).chain(&APP_KEYS);
    let keys = keys
        .chain(&LIMITS_KEYS)
        .chain(&STORAGE_KEYS)
        .chain(&LOG_KEYS)
        .chain(&HISTORY_KEYS)
        .chain(&NORTHBOUND_KEYS);
    let keys = keys.chain(&SUPERVISION_KEYS).chain(&SAFE_MODE_KEYS);
    let keys = keys.chain(&SESSIONS_KEYS).chain(&SESSION_KEYS).chain(&OVSDB_KEYS);
    let is_deprecated = |key: &str| DEPRECATED.iter().any(|(deprecated, _)| *deprecated == key);
    for name in keys.copied().chain(Capability::NAMED.iter().map(|(name, _)| *name)) {
        let form = if is_deprecated(name) { format!("`{name}`") } else { format!("| `{name}` |") };
        assert!(manual.contains(&form), "{name} is not in docs/configuration.md");
    }
    let manual = include_str!("../../../docs/packages.md");
    for name in MANIFEST_KEYS {
        assert!(manual.contains(&format!("`{name}`")), "{name} is not in docs/packages.md");
    }
}
