//! Tests wanted flows of an app in C (`rosemary_wanted.h`, `librosemary_wanted.a`). The switches and the storage are the same as
//! in the tests of the library in Rust.

#![cfg(feature = "host")]
#![allow(clippy::unwrap_used, reason = "messages of a test fit")]
#![allow(dead_code, reason = "the tests in Rust use more of the world")]

mod in_c;

#[path = "wanted/fake.rs"]
mod fake;
#[path = "wanted/world.rs"]
mod world;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use openflow::{FlowMod, PortNo, Version};
use rosemary_sdk::Switch;
use rosemary_sdk::abi::RecordKind;
use rosemary_sdk::abi::host::HostedApp;
use rosemary_sdk::testing::{AlignedRecord, Bench, Recorder, Sent};
use rosemary_sdk::wanted::MARK;

use fake::FakeSwitch;
use world::{PAIR, VERSIONS, World, three};

use in_c::{SHARED, made};

/// Compiles a source against the headers, and links it with the library as `docs/apps.md` says.
fn compile(name: &str, source: &Path, more: &[&str]) -> PathBuf {
    let object = made(name);
    let test = env::current_exe().unwrap();
    let libraries = test.ancestors().nth(2).unwrap().join("examples");
    let library = libraries.join("librosemary_wanted.a");
    assert!(library.is_file(), "{} is missing; type: cargo build --examples", library.display());
    let libraries = format!("-L{}", libraries.display());
    in_c::compile(source, &object, &[&SHARED, &[&*libraries][..], more].concat());
    object
}

const LINKED: [&str; 4] =
    ["-lrosemary_wanted", "-Wl,--gc-sections", "-Wl,--exclude-libs,ALL", "-Wl,--no-undefined"];

fn load(object: &Path, config: &str) -> Bench {
    Bench::of(HostedApp::create(&in_c::load(object), Recorder::with_config(config)).unwrap())
}

/// The app of `c_wanted.c`.
fn wisher(config: &str) -> Bench {
    static OBJECT: OnceLock<PathBuf> = OnceLock::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c_wanted.c");
    load(OBJECT.get_or_init(|| compile("libwisher.so", &source, &LINKED)), config)
}

fn start(config: &str, versions: &[Version]) -> World {
    let mut world = World::of(wisher, config, versions);
    world.snapshot();
    world
}

fn with_three(config: &str, versions: &[Version]) -> World {
    let mut world = start(config, versions);
    (0..3).for_each(|number| world.tell(0, 0, number, 0));
    world
}

/// Connects a switch without flows; returns the messages to it.
fn connect(bench: &mut Bench, switch: Switch) -> Vec<Sent> {
    let mut sent = bench.event(AlignedRecord::about(RecordKind::SwitchUp, switch));
    for record in FakeSwitch::new(switch.dpid.0, switch.version).kept() {
        sent.extend(bench.event(record));
    }
    sent
}

#[test]
fn lost_flows_of_an_app_in_c_return() {
    let mut world = with_three("", &PAIR);
    for index in [0, 1] {
        assert_eq!(world.present(index), three(), "{:#?}", world.log);
        world.reconnect(index, true);
        assert_eq!(world.present(index), three());
        world.switches[index].wipe();
        let at = world.switches[index].at;
        world.deliver(vec![AlignedRecord::about(RecordKind::FlowsMissing, at)]);
        assert_eq!(world.present(index), three());
        let removed = world.switches[index].remove(1).unwrap();
        world.deliver(vec![removed]);
        assert_eq!(world.present(index), three());
    }
    assert!(
        world.has_logged("kind 1 of 1: 00:00:00:00:00:00:00:01: restored 3"),
        "{:#?}",
        world.log
    );
}

#[test]
fn restarted_app_in_c_touches_no_flow() {
    let mut world = with_three("", &PAIR);
    let before = world.switches.iter().map(|it| it.flows.clone()).collect::<Vec<_>>();
    world.restart_app();
    world.restart_kernel();
    for (switch, before) in world.switches.iter().zip(before) {
        assert_eq!((switch.changes, &switch.flows), (3, &before));
    }
    assert!(world.has_logged("read 3 wanted entries from the storage"), "{:#?}", world.log);
    world.tell(8, 1, 0, 0);
    let state = "settled 1 loaded 1 saved 1 count 3 failure none";
    assert!(world.has_logged(state), "{:#?}", world.log);
}

#[test]
fn dropped_flows_of_an_app_in_c_go() {
    let mut world = with_three("", &PAIR);
    world.tell(1, 0, 1, 0);
    world.tell(0, 2, 2, 9);
    assert_eq!(world.present(0), [(0, 0), (2, 0)].into());
    assert_eq!(world.present(1), [(0, 0), (2, 9)].into());
}

#[test]
fn callback_in_c_drops_undeclared_flows() {
    let mut world = with_three("declare only", &PAIR);
    assert_eq!(world.present(0), three());
    world.restart_app();
    assert_eq!(world.present(0), [(0, 0), (1, 0)].into(), "{:#?}", world.log);
    assert_eq!(world.present(1), [(0, 0), (1, 0)].into());
}

#[test]
fn groups_and_meters_in_c_precede_their_flow() {
    let mut world = start("", &[Version::V1_3]);
    world.tell(2, 0, 5, 1);
    world.tell(4, 0, 1, 100);
    world.tell(6, 0, 5, 0);
    world.reconnect(0, true);
    let switch = &world.switches[0];
    assert!(switch.groups.contains_key(&0x1_0005) && switch.meters.contains_key(&0x101));
    assert_eq!(switch.flows.len(), 1, "{:#?}", world.log);
    world.tell(1, 0, 5, 0);
    world.tell(3, 0, 5, 0);
    world.tell(5, 0, 1, 0);
    let switch = &world.switches[0];
    assert!(switch.groups.is_empty() && switch.meters.is_empty(), "{:#?}", world.log);
}

#[test]
fn settings_in_c_reach_the_library() {
    let mut world = with_three("all except", &PAIR);
    world.add_other(0, 77, 0x77);
    world.add_other(0, 78, 0x88);
    world.reconnect(0, false);
    let left = world.switches[0].flows.iter().map(|flow| flow.flow_mod().cookie);
    assert!(left.eq([0, 1, 2, 0x77]), "{:?}", world.switches[0].flows);

    let mut world = with_three("dry-run forget", &PAIR);
    world.tell(9, 1, 0, 0);
    assert!(world.has_logged("kind 2 of 1: ") && world.present(0).is_empty(), "{:#?}", world.log);
    assert_eq!(world.storage.writes, 0);
}

#[test]
fn notices_are_logged_without_a_callback() {
    let world = with_three("quiet", &PAIR);
    let lines: Vec<_> = world.log.iter().filter(|line| line.contains("restored")).collect();
    assert!(
        !lines.is_empty() && lines.iter().all(|line| line.starts_with("Info: 00:")),
        "{lines:?}"
    );
}

#[test]
fn transaction_ids_of_app_and_library_differ() {
    let mut bench = wisher("");
    let switch = Bench::switch(1, Version::V1_3);
    bench.event(AlignedRecord::packet_in(switch, PortNo(1), &[0, 0, 0, 1, 0]));
    let sent = connect(&mut bench, switch);
    assert!(!sent.is_empty() && sent.iter().all(|it| it.message[4] & 0x80 != 0), "{sent:?}");
}

#[test]
fn mistakes_in_c_are_explained() {
    let mut bench = wisher("");
    let switch = Bench::switch(1, Version::V1_3);
    bench.event(AlignedRecord::packet_in(switch, PortNo(1), b"wrong"[..1].into()));
    let log = bench.log();
    let result = |what: &str| {
        let prefix = format!("Info: {what}: ");
        let found = log.iter().find_map(|line| line.strip_prefix(&prefix));
        found.unwrap_or_else(|| panic!("{what}: {log:#?}"))
    };
    let expected = [
        ("NULL message", "the message is NULL; pass an encoded message"),
        ("no flow", "the message is NULL; pass an encoded message"),
        ("empty", "pass exactly one flow-mod"),
        ("longer", "pass exactly one flow-mod"),
        ("too long", "70000 bytes are more than a message"),
        ("flow as group", "pass exactly one group-mod"),
        ("flow as meter", "pass exactly one meter-mod"),
        ("version", "pass exactly one flow-mod"),
        ("delete", "declared with the message that adds it; correct"),
        ("timeout", "a wanted flow has no timeouts"),
        ("match", "pass exactly one flow-mod"),
        ("short record", "shorter than its head, or not aligned; pass one of the batch"),
        ("no wake", "pass turn->wake_at_ns"),
    ];
    for (what, why) in expected {
        assert!(result(what).starts_with("-2, ") && result(what).contains(why), "{}", result(what));
    }
    assert!(result("no library").starts_with("-2, ") && result("count").starts_with("0, "));
    let errors: Vec<_> = log.iter().filter(|line| line.starts_with("Error: ")).collect();
    let is_known =
        |line: &&&String| line.starts_with("Error: rosemary_wanted_") && line.contains("; ");
    let unknown: Vec<_> = errors.iter().filter(|line| !is_known(line)).collect();
    let settings = [
        "the settings have 55 bytes, expected 56; begin with rosemary_wanted_usual()",
        "owns is 2; set ROSEMARY_OWNS_DECLARED",
        "keep is 2; set 0 or 1",
        "exceptions is no array; pass 1",
        "an exception has table 256; set 0 to 254",
        "1025 exceptions; pass 1024 at most",
    ];
    for why in settings {
        assert!(errors.iter().any(|line| line.contains(why)), "{why}: {errors:#?}");
    }
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn example_of_the_documentation_works() {
    let page = include_str!("../../../docs/apps.md");
    let code = page.split("```c\n").find(|it| it.starts_with("#include \"rosemary_wanted.h\""));
    let (code, _) = code.expect("the page has the example").split_once("```").unwrap();
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mirror.c");
    fs::write(&source, code).unwrap();
    let mut bench = load(&compile("libmirror.so", &source, &LINKED), "");
    for version in VERSIONS {
        let switch = Bench::switch(version.wire().into(), version);
        let sent = connect(&mut bench, switch);
        let mut flows = sent.iter().filter_map(|it| FlowMod::decode(&it.message).ok());
        let flow = flows.next().expect("the flow is added");
        assert!(flow.instructions.apply.only_output_to(|port| port == PortNo(2)));
        assert_eq!((flow.priority, flow.cookie & MARK), (8, MARK));
    }
}

#[test]
fn app_without_the_library_links_without_it() {
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("without.c");
    let code = "#include \"rosemary_wanted.h\"\n#include \"hub.c\"\n";
    fs::write(&source, code).unwrap();
    load(&compile("libwithout.so", &source, &["-Wl,--no-undefined", "-Wno-conversion"]), "");
}
