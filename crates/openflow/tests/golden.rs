//! Compares golden messages, which a real Open vSwitch sent and received. `golden/of10.hex` to
//! `golden/of15.hex` contain them with the output of `ovs-ofctl` as a comment below each
//! (`golden/make.sh` wrote them). Our output is in `golden/of10.txt` to `of15.txt`, a line per
//! message, compared by eye with the comments; `UPDATE_GOLDEN=1` rewrites it.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::PathBuf;
use std::{env, fs};

use rosemary_openflow::{DecodeError, Header, Kind, Message, Version, append};

const FILES: [(&str, Version); 6] = [
    ("of10", Version::V1_0),
    ("of11", Version::V1_1),
    ("of12", Version::V1_2),
    ("of13", Version::V1_3),
    ("of14", Version::V1_4),
    ("of15", Version::V1_5),
];

/// Messages that contradict the specification and are errors: file, and the field that the error names. Of an OpenFlow 1.1
/// match Open vSwitch writes its own type with its own fields; of the features of meters it leaves out what OpenFlow 1.5 added.
const REFUSED: [(&str, &str); 2] =
    [("of11", "match.type at byte 64"), ("of15", "meter_features.features at byte 32")];

/// Whether the error is one of [`REFUSED`].
fn is_known(name: &str, error: &DecodeError) -> bool {
    REFUSED.iter().any(|(file, what)| *file == name && error.to_string().starts_with(what))
}

fn path(name: &str, extension: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    folder.join(name).with_extension(extension)
}

/// Reads the messages of a file, each with its line number.
fn messages(name: &str) -> Vec<(usize, Vec<u8>)> {
    let text = fs::read_to_string(path(name, "hex")).unwrap();
    let lines =
        text.lines().zip(1..).filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    let byte = |line: &str, at| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
    lines
        .map(|(line, number)| {
            (number, (0..line.len()).step_by(2).map(|at| byte(line, at)).collect())
        })
        .collect()
}

#[test]
fn golden_messages_reencode_byte_for_byte() {
    for (name, _) in FILES {
        for (line, bytes) in messages(name) {
            let message = match Message::decode(&bytes) {
                Ok(message) => message,
                Err(error) if is_known(name, &error) => continue,
                Err(error) => panic!("{name}:{line}: {error}"),
            };
            let mut out = Vec::new();
            append(&mut out, |room| message.encode(room)).unwrap();
            assert_eq!(out, bytes, "{name}:{line}");
        }
    }
}

#[test]
fn golden_messages_print_unchanged() {
    for (name, _) in FILES {
        let ours: String = messages(name)
            .iter()
            .map(|(line, bytes)| match Message::decode(bytes) {
                Ok(message) => format!("{message}\n"),
                Err(error) if is_known(name, &error) => format!("refused: {error}\n"),
                Err(error) => panic!("{name}:{line}: {error}"),
            })
            .collect();
        if env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(path(name, "txt"), &ours).unwrap();
        }
        let kept = fs::read_to_string(path(name, "txt")).unwrap_or_default();
        for ((ours, kept), (line, _)) in ours.lines().zip(kept.lines()).zip(messages(name)) {
            assert_eq!(ours, kept, "{name}.hex:{line}");
        }
        assert_eq!(ours.lines().count(), kept.lines().count(), "{name}");
    }
}

#[test]
fn golden_messages_cover_nearly_every_kind() {
    for (name, version) in FILES {
        let messages = messages(name);
        let headers: Vec<_> =
            messages.iter().map(|(_, bytes)| Header::decode(bytes).unwrap()).collect();
        // Open vSwitch has no controller status.
        for &kind in Kind::ALL.iter().filter(|it| **it != Kind::ControllerStatus) {
            let Some(wire) = kind.to_wire(version) else { continue };
            let there = headers.iter().any(|h| h.version == version.wire() && h.kind == wire);
            assert!(there, "{name}.hex has no {}", kind.name());
        }
    }
}
