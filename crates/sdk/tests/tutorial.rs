//! Compiles the code of `docs/tutorial` and runs it on the bench, in Rust and in C, with the same checks for both. The apps in
//! Rust share one target directory and are built offline.
#![cfg(feature = "host")]
#![allow(clippy::unwrap_used, reason = "the files of a test are there")]

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use openflow::{FlowMod, MacAddr, Match, MultipartReply, PacketOut, PortNo, ReplyBody, Version};
use rosemary_sdk::abi::RecordKind;
use rosemary_sdk::abi::host::HostedApp;
use rosemary_sdk::packet::PacketBuilder;
use rosemary_sdk::services::storage::{Answer, Request};
use rosemary_sdk::services::{Outcome, RequestId, Service};
use rosemary_sdk::testing::{AlignedRecord, Bench, Recorder};
use sys::object::Object;

/// A page, and the check of its app.
type Step = (&'static str, fn(Bench));

const STEPS: [Step; 6] = [
    ("1-hub", hub),
    ("2-learning-switch", learning_switch),
    ("3-blocking", blocking),
    ("4-statistics", statistics),
    ("5-storage", storage),
    ("6-guard", guard),
];

const ALICE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const BOB: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn frame(to: [u8; 6], from: [u8; 6]) -> Vec<u8> {
    [&to[..], &from, &[8, 0], b"a packet"].concat()
}

fn packet_in(version: Version, in_port: u32, frame: &[u8]) -> AlignedRecord {
    AlignedRecord::packet_in(Bench::switch(1, version), PortNo(in_port), frame)
}

fn hub(mut bench: Bench) {
    for version in Version::ALL.iter().copied() {
        let sent = bench.event(packet_in(version, 3, &frame(BOB, ALICE)));
        let out = PacketOut::decode(&sent[0].message).unwrap();
        assert_eq!((sent.len(), out.in_port, out.data), (1, PortNo(3), &frame(BOB, ALICE)[..]));
    }
}

fn learning_switch(mut bench: Bench) {
    for version in Version::ALL.iter().copied() {
        bench.event(packet_in(version, 1, &frame([0xff; 6], ALICE)));
        let sent = bench.event(packet_in(version, 2, &frame(ALICE, BOB)));
        let flow = FlowMod::decode(&sent[0].message).unwrap();
        let pair = Match::new().in_port(PortNo(2)).eth_src(MacAddr(BOB)).eth_dst(MacAddr(ALICE));
        assert_eq!((flow.match_, flow.idle_timeout), (pair, 60));
        assert!(flow.instructions.apply.only_output_to(|port| port == PortNo(1)));
        let out = PacketOut::decode(&sent[1].message).unwrap();
        assert!(out.actions.only_output_to(|port| port == PortNo(1)));
    }
}

fn blocking(mut bench: Bench) {
    for _ in 0..100 {
        let sent = bench.event(packet_in(Version::V1_3, 1, &frame(BOB, ALICE)));
        PacketOut::decode(&sent[0].message).unwrap();
    }
    let sent = bench.event(packet_in(Version::V1_3, 1, &frame(BOB, ALICE)));
    let flow = FlowMod::decode(&sent[0].message).unwrap();
    assert_eq!(flow.match_, Match::new().eth_src(MacAddr(ALICE)));
    assert_eq!((sent.len(), flow.hard_timeout, flow.priority), (1, 60, 101));
    assert_eq!(flow.instructions.apply.iter().count(), 0, "it drops");
    assert_eq!(bench.log(), ["Info: blocked 02:00:00:00:00:01"]);
    let sent = bench.event(packet_in(Version::V1_3, 1, &frame(ALICE, BOB)));
    PacketOut::decode(&sent[0].message).unwrap();
}

fn statistics(mut bench: Bench) {
    let switch = Bench::switch(1, Version::V1_3);
    let sent = bench.event(AlignedRecord::about(RecordKind::SwitchUp, switch));
    assert_eq!((sent.len(), sent[0].message[1]), (1, 18), "a multipart request");
    let mut counters = vec![0; 112];
    (counters[3], counters[15]) = (7, 42); // the port's number, and packets received
    let head = [4, 19, 0, 128, 0, 0, 0, 1, 0, 4, 0, 0, 0, 0, 0, 0];
    let reply = [&head[..], &counters].concat();
    assert!(matches!(MultipartReply::decode(&reply).unwrap().body, ReplyBody::PortStats(_)));
    bench.event(AlignedRecord::answer(RecordKind::Reply, switch, &reply));
    assert_eq!(bench.log(), ["Info: port 7: 42 packets received"]);
    let (answer, sent) = bench.batch(&[]).unwrap();
    assert!(sent.is_empty() && answer.wake_at_ns.is_some(), "it waits for its timer");
}

fn storage(mut bench: Bench) {
    let event = |outcome, request, answer: &[u8]| {
        AlignedRecord::service(Service::Storage, outcome, RequestId(request), answer)
    };
    for (answer, starts) in
        [(Answer::Nothing, &b"1"[..]), (Answer::Value { version: 5, value: b"9" }, b"10")]
    {
        bench.event(event(Outcome::Up, 0, &[]));
        let get = &bench.asked()[0];
        let key = &b"starts"[..];
        assert_eq!(Request::decode(&get.request), Some(Request::Get { namespace: "", key }));
        bench.event(event(Outcome::Answered, get.id.0, &answer.encode()));
        let put = &bench.asked()[0].request;
        assert!(
            matches!(Request::decode(put), Some(Request::Put { value, .. }) if value == starts)
        );
    }
    assert_eq!(bench.log(), ["Info: start 1", "Info: start 10"]);
}

fn guard(mut bench: Bench) {
    for version in Version::ALL.iter().copied() {
        let switch = Bench::switch(1, version);
        let sent = bench.event(AlignedRecord::about(RecordKind::SwitchUp, switch));
        let flow = FlowMod::decode(&sent[0].message).unwrap();
        assert_eq!(flow.match_, Match::new().eth_type(0x0800).ip_proto(6).tcp_dst(23));
        assert_eq!(flow.instructions.apply.iter().count(), 0, "it drops");
    }
    for (port, stopped) in [(23, 1), (80, 0)] {
        let tcp = PacketBuilder::ethernet2(ALICE, BOB).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        let mut frame = Vec::new();
        tcp.tcp(40_000, port, 1, 512).write(&mut frame, &[]).unwrap();
        bench.event(packet_in(Version::V1_3, 1, &frame));
        assert_eq!(bench.stopped().len(), stopped, "port {port}");
    }
}

/// Returns the blocks of code of a page in a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorial");
    let text = fs::read_to_string(docs.join(format!("{page}.md"))).unwrap();
    let start = format!("```{language}\n");
    let blocks = text.split(&start).skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// Runs a command, which must succeed.
fn run(command: &mut Command) {
    let output = command.output().expect("it is installed");
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

fn load(object: &Path) -> Bench {
    let object = Object::load(OwnedFd::from(fs::File::open(object).unwrap())).unwrap();
    Bench::of(HostedApp::create(&object, Recorder::default()).unwrap())
}

#[test]
fn steps_have_five_to_sixty_lines() {
    for (page, _) in STEPS {
        for language in ["rust", "c"] {
            let blocks = blocks(page, language);
            let lines = blocks[0].lines().filter(|line| !line.trim().is_empty()).count();
            assert!((5..=60).contains(&lines), "{page}, {language}: {lines}");
        }
    }
}

#[test]
fn steps_in_c_run() {
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("c");
    for (page, check) in STEPS {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(page);
        fs::create_dir_all(&dir).unwrap();
        let blocks = blocks(page, "c");
        fs::write(dir.join("tutorial.c"), &blocks[0]).unwrap();
        let cc = |options: &[&str]| {
            let mut cc = Command::new("cc");
            cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(&headers);
            run(cc.args(options).current_dir(&dir));
        };
        let object = format!("libtutorial_{}.so", page.replace('-', "_"));
        cc(&["-shared", "-fPIC", "-o", &object, "tutorial.c"]);
        check(load(&dir.join(object)));
        // The first steps pass the test of the template from which the reader began.
        let of_hub = include_str!("../../cli/src/scaffold/hub/test.c.txt");
        let of_hub = of_hub.replace("@LIB@", "tutorial");
        let steps = ["1-hub", "2-learning-switch", "3-blocking"];
        let test = blocks.get(1).or_else(|| steps.contains(&page).then_some(&of_hub));
        if let Some(test) = test {
            fs::write(dir.join("test.c"), test).unwrap();
            cc(&["-o", "test", "test.c"]);
            run(&mut Command::new(dir.join("test")));
        }
    }
    assert_eq!(blocks("6-guard", "c").len(), 2, "the last page has a test");
}

#[test]
fn steps_in_rust_run() {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tutorial");
    let sdk = env!("CARGO_MANIFEST_DIR");
    let members: Vec<String> = STEPS.iter().map(|(page, _)| format!("step-{page}")).collect();
    for (member, (page, _)) in members.iter().zip(STEPS) {
        let manifest = format!(
            "[package]\nname = \"{member}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
             [lib]\ncrate-type = [\"cdylib\"]\n\n\
             [dependencies]\nrosemary-sdk = {{ path = {sdk:?}, features = [\"host\"] }}\n"
        );
        fs::create_dir_all(root.join(member).join("src")).unwrap();
        fs::write(root.join(member).join("Cargo.toml"), manifest).unwrap();
        fs::write(root.join(member).join("src/lib.rs"), blocks(page, "rust").join("\n")).unwrap();
    }
    let workspace = format!("[workspace]\nresolver = \"3\"\nmembers = {members:?}\n");
    fs::write(root.join("Cargo.toml"), workspace).unwrap();
    fs::copy(Path::new(sdk).join("../../Cargo.lock"), root.join("Cargo.lock")).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../apps");
    let cargo = |arguments: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(arguments).arg("--offline").env("CARGO_TARGET_DIR", &target);
        run(cargo.current_dir(&root));
    };
    cargo(&["build", "--workspace"]);
    for (member, (_, check)) in members.iter().zip(STEPS) {
        check(load(&target.join(format!("debug/lib{}.so", member.replace('-', "_")))));
    }
    cargo(&["test", "--package", "step-6-guard"]);
}
