//! Checks that tshark finds nothing malformed in messages of every kind, except for what its dissectors get wrong:
//! [`faults`] lists that with the reasons.
//!
//! The messages are generated from the same seed in each run, and the golden ones of `tests/golden`. tshark has dissectors
//! for OpenFlow 1.0, 1.3, 1.4 and 1.5; the list was made with tshark 4.0.17.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that says what it skips, and modules shared between test programs"
)]

mod faults;
#[path = "../generate/mod.rs"]
mod generate;
mod pcap;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::{env, fmt, fs};

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use rosemary_openflow::{Action, FlowMod, Header, Kind, Match, Message, PortNo, Version, append};

/// Number of generated messages, over all versions.
const GENERATED: usize = 6000;

/// A message, and what tells which fault may concern it.
#[derive(Debug)]
pub struct Sample {
    bytes: Vec<u8>,
    class: Class,
    /// The decoded message as debug output.
    text: String,
}

/// The kind of a message, and the type of a multipart message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    kind: &'static str,
    multipart: Option<u16>,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)?;
        self.multipart.map_or(Ok(()), |multipart| write!(f, " {multipart}"))
    }
}

impl Sample {
    /// Returns `None` for a message that no dissector can know: its type or a type in it is unknown, or Open vSwitch got the
    /// message wrong.
    fn new(bytes: Vec<u8>) -> Option<(Version, Self)> {
        let header = Header::decode(&bytes).unwrap();
        let version = Version::from_wire(header.version).unwrap();
        let kind = Kind::from_wire(version, header.kind).ok()?;
        let text = format!("{:?}", Message::decode(&bytes).ok()?);
        let is_multipart = matches!(kind, Kind::MultipartRequest | Kind::MultipartReply);
        let multipart = is_multipart.then(|| u16::from_be_bytes([bytes[8], bytes[9]]));
        let class = Class { kind: kind.name(), multipart };
        let is_known = !text.contains("Unknown") && bytes.len() <= pcap::MAX_MESSAGE;
        is_known.then_some((version, Self { bytes, class, text }))
    }
}

/// Returns messages of all kinds and versions.
fn samples() -> BTreeMap<Version, Vec<Sample>> {
    let (mut runner, messages) = (TestRunner::deterministic(), generate::message());
    let generated = (0..GENERATED).map(|_| messages.new_tree(&mut runner).unwrap().current());
    let mut samples: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (version, sample) in generated.chain(golden()).filter_map(Sample::new) {
        samples.entry(version).or_default().push(sample);
    }
    samples
}

/// Returns the golden messages of all versions.
fn golden() -> impl Iterator<Item = Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    (10..=15).flat_map(move |version| {
        let text = fs::read_to_string(folder.join(format!("of{version}.hex"))).unwrap();
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let byte = |line: &str, at| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
        let bytes = |line: &str| (0..line.len()).step_by(2).map(|at| byte(line, at)).collect();
        lines.map(bytes).collect::<Vec<_>>()
    })
}

/// Returns the fields that tshark prints of each message: protocols, and marks of malformed parts. `None`, with a note, if
/// it is not installed.
///
/// `name` is part of a file's name, because tests run at once.
fn read_by_tshark(name: &str, messages: &[&[u8]]) -> Option<Vec<[String; 2]>> {
    let file = env::temp_dir().join(format!("openflow-{name}-{}.pcap", std::process::id()));
    fs::write(&file, pcap::capture(messages.iter().copied())).unwrap();
    let output = Command::new("tshark")
        .arg("-r")
        .arg(&file)
        // Packets in messages are random bytes, and lists are deep.
        .args(["-d", "tcp.port==6653,openflow", "--disable-protocol", "eth"])
        .args(["-o", "gui.max_tree_depth:100000", "-T", "fields"])
        .args(["-e", "frame.number", "-e", "frame.protocols", "-e", "_ws.malformed"])
        .output();
    fs::remove_file(&file).unwrap();
    let Ok(output) = output else {
        assert!(
            env::var_os("ROSEMARY_REQUIRE_ALL").is_none(),
            "tshark is not installed, and nothing may be skipped"
        );
        println!("SKIPPED: tshark is not installed; type: apt-get install tshark");
        return None;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    let lines = text.lines().zip(1_usize..).map(|(line, number)| {
        let fields: Vec<_> = line.split('\t').map(str::to_owned).collect();
        let [frame, protocols, malformed] = fields.try_into().unwrap();
        assert_eq!(frame, number.to_string());
        [protocols, malformed]
    });
    let lines: Vec<_> = lines.collect();
    assert_eq!(lines.len(), messages.len(), "{error}");
    Some(lines)
}

#[test]
fn tshark_finds_nothing_malformed() {
    let mut wrong = Vec::new();
    for (version, samples) in samples() {
        let Some(name) = faults::dissector(version) else {
            println!("OpenFlow {version}: tshark has no dissector; {} messages", samples.len());
            continue;
        };
        let messages: Vec<&[u8]> = samples.iter().map(|sample| &sample.bytes[..]).collect();
        let Some(read) = read_by_tshark(version.name(), &messages) else { return };
        let (mut decoded, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let (mut count, mut excused) = (0, BTreeMap::new());
        for (sample, [protocols, malformed]) in samples.iter().zip(read) {
            seen.insert(sample.class);
            if malformed.is_empty() && protocols.split(':').any(|it| it == name) {
                decoded.insert(sample.class);
                count += 1;
            } else if let Some(fault) = faults::of(version, sample) {
                *excused.entry((sample.class, fault.reason)).or_insert(0) += 1;
            } else {
                wrong.push(format!("OpenFlow {version}: {malformed}: {sample:?}"));
            }
        }
        println!("OpenFlow {version}: tshark decoded {count} messages");
        for ((class, reason), count) in excused {
            println!("    {count} {class} not: {reason}");
        }
        for &kind in Kind::ALL.iter().filter(|kind| kind.to_wire(version).is_some()) {
            assert!(seen.iter().any(|class| class.kind == kind.name()), "no {}", kind.name());
        }
        for class in seen.difference(&decoded).filter(|class| !faults::is_whole(version, **class)) {
            wrong.push(format!("OpenFlow {version}: no {class} was decoded"));
        }
    }
    for text in &wrong {
        println!("{text}");
    }
    assert!(wrong.is_empty(), "{} faults", wrong.len());
}

#[test]
fn cut_message_is_noticed() {
    let actions = [Action::output(PortNo(1))];
    for version in [Version::V1_0, Version::V1_3, Version::V1_4, Version::V1_5] {
        let mut whole = Vec::new();
        let flow_mod = FlowMod::add(Match::new()).apply(&actions);
        append(&mut whole, |room| flow_mod.encode(version, 1, room)).unwrap();
        let mut cut = whole[..whole.len() - 4].to_vec();
        cut[3] -= 4;
        let name = format!("cut-{version}");
        let Some(read) = read_by_tshark(&name, &[&whole, &cut]) else { return };
        assert!(read[0][1].is_empty() && !read[1][1].is_empty(), "OpenFlow {version}: {read:?}");
    }
}
