//! Tests `rosemary ofp` as a program: output and exit codes.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests, which say what they skip")]

mod captures;
mod inputs;
mod keylog;
mod pcap;
mod vectors;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Output and exit code of a run.
struct Run {
    out: String,
    err: String,
    code: Option<i32>,
}

/// Runs `rosemary ofp ARGS` with this standard input.
fn ofp(args: &[&str], input: &[u8]) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rosemary"))
        .arg("ofp")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // The program may end before it has read everything.
        scope.spawn(move || stdin.write_all(input));
        let output = child.wait_with_output().unwrap();
        Run {
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code(),
        }
    })
}

/// Returns the path of a file with the codec's golden messages.
fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../openflow/tests/golden").join(name)
}

/// The files of golden messages, one per version, and how many of their messages contradict the specification: those
/// are errors, in lines that begin with `refused: ` in the codec's output.
const GOLDEN: [(&str, usize); 6] =
    [("of10", 0), ("of11", 0), ("of12", 0), ("of13", 0), ("of14", 0), ("of15", 1)];

#[test]
fn golden_messages_decode_and_check() {
    for (name, refused) in GOLDEN {
        let hex = golden(name).with_extension("hex");
        let text = std::fs::read_to_string(golden(name).with_extension("txt")).unwrap();
        let run = ofp(&["decode", hex.to_str().unwrap()], b"");
        for (ours, golden) in run.out.lines().zip(text.lines()) {
            match golden.strip_prefix("refused: ") {
                Some(error) => {
                    assert!(ours.starts_with("error: line ") && ours.ends_with(error), "{ours}");
                }
                None => assert_eq!(ours, golden, "{name}"),
            }
        }
        let messages = text.lines().count();
        assert_eq!(run.out.lines().count(), messages, "{name}");
        let code = Some(i32::from(refused > 0));
        assert_eq!(run.code, code, "{name}: {}", run.err);

        let run = ofp(&["check", hex.to_str().unwrap()], b"");
        let same = run.out.lines().filter(|line| *line == "same").count();
        assert_eq!((same, run.out.lines().count()), (messages - refused, messages), "{name}");
        assert_eq!(run.err, format!("rosemary: {same} same, 0 differ, {refused} errors\n"));
        assert_eq!(run.code, Some(0));
    }
}

#[test]
fn golden_messages_print_as_json_lines() {
    for (name, refused) in GOLDEN {
        let hex = golden(name).with_extension("hex");
        let run = ofp(&["decode", "--json", hex.to_str().unwrap()], b"");
        let objects: Vec<serde_json::Value> =
            run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let text = std::fs::read_to_string(golden(name).with_extension("txt")).unwrap();
        assert_eq!(objects.len(), text.lines().count());
        let mut errors = 0;
        for object in objects {
            assert!(object["line"].is_u64(), "{object}");
            assert!(object["message"]["xid"].is_u64() || object["error"].is_string(), "{object}");
            errors += usize::from(object["error"].is_string());
        }
        assert_eq!(errors, refused, "{name}");
    }
}
