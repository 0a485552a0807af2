use super::*;
use crate::{Config, Manifest, Manifests};

/// The faults of a file: the name of each, whether it is an error, and the apps that it names.
fn faults_over(text: &str, manifests: &Manifests) -> Vec<(&'static str, bool, String)> {
    let config = Config::parse("/rosemary.toml".into(), text.into()).unwrap();
    let config = config.over(manifests).unwrap();
    let apps = config.apps.clone().unwrap_or_default();
    let policies = config.policies(&apps).unwrap();
    let faults = config.judge(&apps, &policies).into_iter();
    faults.map(|(it, _)| (it.fault.name(), it.is_error, it.apps.join(" "))).collect()
}

fn faults(text: &str) -> Vec<(&'static str, bool, String)> {
    faults_over(text, &Manifests::new())
}

fn app(name: &str, keys: &str) -> String {
    format!("[[app]]\nname = \"{name}\"\n{keys}\n")
}

fn firewall(keys: &str) -> String {
    app("firewall", &format!("config = \"f.toml\"\n{keys}"))
}

#[test]
fn firewall_guards_without_a_stage_of_its_own() {
    let text = app("forwarding", "") + &firewall("");
    assert_eq!(faults(&text), []);
    let config = Config::parse("/rosemary.toml".into(), text).unwrap();
    assert!(matches!(config.app("firewall").unwrap().stage, Stage::Guard(_)));
}

#[test]
fn guard_in_another_stage_is_an_error() {
    for stage in ["control", "observe"] {
        let guard = firewall(&format!("stage = \"{stage}\""));
        let expected = [("guard-stage", true, "firewall".to_owned())];
        assert_eq!(faults(&(app("forwarding", "") + &guard)), expected, "{stage}");
        assert_eq!(faults(&(guard + &app("forwarding", ""))), expected, "{stage}");
    }
    let meant = firewall("stage = \"control\"\nallow = [\"guard-stage\"]");
    assert_eq!(faults(&(meant + &app("forwarding", ""))), []);
}

#[test]
fn guard_without_what_it_needs_is_an_error() {
    let expected = [("missing-need", true, "firewall".to_owned())];
    assert_eq!(faults(&(app("firewall", "") + &app("forwarding", ""))), expected);
    let blind = firewall("capabilities = [\"packet-in\"]");
    assert_eq!(faults(&(blind + &app("forwarding", ""))), expected);
}

#[test]
fn app_without_its_service_is_a_warning() {
    let text = app("forwarding", "") + &app("hosts", "enabled = false");
    assert_eq!(faults(&text), [("missing-need", false, "forwarding".to_owned())]);
    let text = app("learning-switch", "capabilities = [\"packet-in\", \"flow.write\"]");
    assert_eq!(faults(&text), [("missing-need", false, "learning-switch".to_owned())]);
}

#[test]
fn guard_without_a_forwarder_is_a_warning() {
    let expected = [("no-forwarder", false, "firewall".to_owned())];
    assert_eq!(faults(&firewall("")), expected);
    assert_eq!(faults(&(firewall("") + &app("forwarding", "enabled = false"))), expected);
    // An app without a stated role may forward, and so may an operator's flows.
    assert_eq!(faults(&(firewall("") + &app("mine", "object = \"/mine.so\""))), []);
    assert_eq!(faults(&(firewall("") + &app("operator", ""))), []);
}

#[test]
fn two_forwarders_of_the_same_packets_are_an_error() {
    let two = |first: &str, second: &str| {
        faults(&(app("learning-switch", first) + &app("forwarding", second)))
    };
    let expected = [("two-forwarders", true, "forwarding learning-switch".to_owned())];
    assert_eq!(two("", ""), expected);
    assert_eq!(two("dpids = [1, 2]", "dpids = [2, 3]"), expected);
    assert_eq!(two("", "dpids = [2]"), expected);
    for (first, second) in [
        ("dpids = [1]", "dpids = [2]"),
        ("ethertypes = [0x0800]", "ethertypes = [0x0806]"),
        (
            "capabilities = [{ packet-in = { dpids = [2] } }, \"packet-out\", \"flow.write\"]",
            "dpids = [1]",
        ),
        ("", "enabled = false"),
        ("", "allow = [\"two-forwarders\"]"),
        ("allow = [\"two-forwarders\"]", ""),
    ] {
        assert_eq!(two(first, second), [], "{first} {second}");
    }
}

#[test]
fn forwarder_beside_the_control_stage_is_an_error_if_it_sends() {
    let guard = app("learning-switch", "stage = \"guard\"");
    assert_eq!(faults(&guard)[0], ("forwarder-stage", true, "learning-switch".to_owned()));
    let observer = app("learning-switch", "stage = \"observe\"");
    assert_eq!(faults(&observer), [("forwarder-stage", true, "learning-switch".to_owned())]);
    let silent = app(
        "learning-switch",
        "stage = \"observe\"\ncapabilities = [\"packet-in\"]\nallow = [\"missing-need\"]",
    );
    assert_eq!(faults(&silent), [("forwarder-stage", false, "learning-switch".to_owned())]);
}

#[test]
fn band_above_that_of_a_guard_is_an_error() {
    let above = |guard: &str, other: &str| faults(&(firewall(guard) + &app("forwarding", other)));
    let expected = [("above-guard", true, "forwarding firewall".to_owned())];
    assert_eq!(above("band = [1000, 2000]", "band = [3000, 4000]"), expected);
    assert_eq!(above("band = [1000, 2000]", ""), expected);
    assert_eq!(above("band = [3000, 4000]", "band = [1000, 2000]"), []);
    assert_eq!(above("", ""), []);
    let by_hand = firewall("band = [40000, 49000]") + &app("operator", "band = [49500, 49600]");
    assert_eq!(faults(&by_hand), [("above-guard", true, "operator firewall".to_owned())]);
}

#[test]
fn guard_beside_all_packets_is_a_warning() {
    let mine = |keys: &str| app("mine", &format!("object = \"/m.so\"\nstage = \"guard\"\n{keys}"));
    let forwarder = app("forwarding", "dpids = [2]");
    let reads = "capabilities = [\"packet-in\"]";
    let expected = [("guards-nothing", false, "mine".to_owned())];
    assert_eq!(faults(&(mine(&format!("dpids = [1]\n{reads}")) + &forwarder)), expected);
    assert_eq!(faults(&(mine(&format!("dpids = [2]\n{reads}")) + &forwarder)), []);
    assert_eq!(faults(&(mine("dpids = [1]") + &forwarder)), [], "its flows guard");
}

#[test]
fn app_behind_a_forwarder_is_a_warning() {
    let mine = |keys: &str| app("mine", &format!("object = \"/m.so\"\n{keys}"));
    let expected = [("after-forwarder", false, "mine forwarding".to_owned())];
    assert_eq!(faults(&(app("forwarding", "") + &mine(""))), expected);
    assert_eq!(faults(&(mine("") + &app("forwarding", ""))), []);
    assert_eq!(faults(&(app("forwarding", "dpids = [1]") + &mine("dpids = [1, 2]"))), []);
}

#[test]
fn role_of_an_app_comes_from_its_manifest_or_the_operator() {
    let manifest = |keys: &str| {
        let text = format!("name = \"hub\"\nversion = \"1\"\n{keys}");
        let manifest = Manifest::parse(&text).map_err(|error| error.to_string())?;
        Ok::<_, String>(Manifests::from([("hub".to_owned(), manifest.app)]))
    };
    let sends = "capabilities = [\"packet-out\"]";
    let text = app("hub", "") + &app("forwarding", "");
    let forwarder = manifest(&format!("role = \"forwarder\"\n{sends}")).unwrap();
    let twice = [("two-forwarders", true, "forwarding hub".to_owned())];
    assert_eq!(faults_over(&text, &forwarder), twice);
    assert_eq!(faults_over(&text, &manifest(sends).unwrap()), []);
    let own = app("hub", "object = \"/h.so\"\nrole = \"forwarder\"");
    assert_eq!(faults(&(own + &app("forwarding", ""))), twice);
    let guard = manifest("stage = \"guard\"\nneeds = [\"config\"]").unwrap();
    let text = app("hub", "stage = \"control\"\nconfig = \"c\"") + &app("forwarding", "");
    assert_eq!(faults_over(&text, &guard), [("guard-stage", true, "hub".to_owned())]);
    let text = app("hub", "") + &app("forwarding", "");
    assert_eq!(faults_over(&text, &guard), [("missing-need", true, "hub".to_owned())]);
    let error = manifest("needs = [\"config\", \"flow.write\"]").unwrap_err();
    assert!(error.contains("the capability flow.write, which this manifest does not request"));
}

#[test]
fn every_fault_can_be_allowed_by_its_name() {
    let names: Vec<String> = Fault::ALL.iter().map(|it| format!("{:?}", it.name())).collect();
    let text = app("hub", &format!("allow = [{}]", names.join(", ")));
    let config = Config::parse("/rosemary.toml".into(), text).unwrap();
    assert_eq!(config.app("hub").unwrap().allow, Fault::ALL);
    let error = Config::parse("/r.toml".into(), app("hub", "allow = [\"two-forwarder\"]"));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("did you mean \"two-forwarders\"?"), "{error}");
}

#[test]
fn app_that_needs_packets_of_a_silent_device_is_an_error() {
    let device = "dpids = [\"56:54:57:0a:49:75:4f:8d\", \"00:00:00:00:00:00:00:01\"]";
    let expected = [("no-packets", true, "learning-switch".to_owned())];
    assert_eq!(faults(&app("learning-switch", device)), expected);
    let scope = "capabilities = [\"flow.write\", \"packet-out\", { packet-in = { dpids = [\"56:54:00:00:00:00:00:01\"] } }]";
    assert_eq!(faults(&app("learning-switch", scope)), expected);
    let meant = format!("{device}\nallow = [\"no-packets\"]");
    assert_eq!(faults(&app("learning-switch", &meant)), []);
    assert_eq!(faults(&app("stats", device)), [], "an observer needs no packets");
    assert_eq!(faults(&app("learning-switch", "")), [], "it has other switches, too");
}
