//! Tests input formats and the errors for unreadable input.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use super::ofp;

const HELLO: [u8; 8] = [4, 0, 0, 8, 0, 0, 0, 1];

#[test]
fn consecutive_messages_are_a_line_each() {
    let text = "# two, and one\n04000008 00000001 0400000800000002\n\n0x04, 0x14, 0, 8\n";
    let run = ofp(&["decode"], text.as_bytes());
    let lines: Vec<_> = run.out.lines().collect();
    assert!(lines[0].starts_with("OFPT_HELLO (OF1.3) (xid=0x1)"), "{lines:#?}");
    assert!(lines[1].starts_with("OFPT_HELLO (OF1.3) (xid=0x2)"), "{lines:#?}");
    assert!(lines[2].starts_with("error: line 4: "), "{lines:#?}");
    assert_eq!((lines.len(), run.code), (3, Some(1)));
}

#[test]
fn stream_reports_where_it_is_not_openflow() {
    let stream = [&HELLO[..], &[0xff; 16], &HELLO, &HELLO, &HELLO[..5]].concat();
    let run = ofp(&["decode", "-"], &stream);
    let lines: Vec<_> = run.out.lines().collect();
    assert_eq!(lines.len(), 5, "{lines:#?}");
    assert_eq!(lines[1], "error: the message at byte 8: skipped 16 bytes that are not a message");
    assert_eq!(
        lines[4],
        "error: the message at byte 40: only 5 of 8 bytes of a message are present"
    );
    assert_eq!(run.code, Some(1));
}

#[test]
fn undecodable_input_names_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let in_folder = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let cases = [
        (in_folder("empty", b""), "is empty"),
        (in_folder("letter", b"Dear operator,\n"), "is text, but its first lines hold no"),
        (in_folder("program", b"\x7fELF\x02\x01\x01\0\0\0"), "it begins with 7f 45 4c 46"),
        (in_folder("zip", &[0x1f, 0x8b, 8, 0]), "zcat"),
        (folder.path().to_str().unwrap().to_owned(), "is a directory"),
        ("/nowhere/at/all".to_owned(), "cannot open /nowhere/at/all: No such file"),
    ];
    for (path, expected) in cases {
        for command in ["decode", "check"] {
            let run = ofp(&[command, &path], b"");
            assert!(run.err.contains(expected), "{path}: {}", run.err);
            assert_eq!((run.out.as_str(), run.code), ("", Some(1)), "{path}");
        }
    }
    let run = ofp(&["check", &in_folder("stream", &HELLO)], b"");
    assert!(run.err.contains("is not text"), "{}", run.err);
    assert_eq!(ofp(&["decode", "--jsn"], b"").code, Some(2));
    assert_eq!(ofp(&["check"], b"").code, Some(2));
}

#[test]
fn check_reports_each_line() {
    let run = ofp(&["check", "-"], b"0400000800000001\n0700000800000001\nhello\n");
    let lines: Vec<_> = run.out.lines().collect();
    assert_eq!(lines[0], "same");
    assert!(lines[1].starts_with("error: unsupported version"), "{lines:#?}");
    assert!(lines[2].starts_with("error: 'h' is not a hexadecimal digit"), "{lines:#?}");
    assert_eq!(run.err, "rosemary: 1 same, 0 differ, 2 errors\n");
    assert_eq!(run.code, Some(0), "errors alone do not fail");
}

#[test]
fn closed_pipe_ends_quietly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rosemary"))
        .args(["ofp", "decode", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let feed = std::thread::spawn(move || while stdin.write_all(&HELLO.repeat(1000)).is_ok() {});
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("OFPT_HELLO"), "{first}");
    // Its output is closed now, so it ends although its input does not.
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.stderr.as_slice(), output.status.code()), (&b""[..], Some(0)));
    feed.join().unwrap();
}

#[test]
fn slow_input_is_answered_line_by_line() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rosemary"))
        .args(["ofp", "decode"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        stdin.write_all(b"0400000800000001\n").unwrap();
        assert!(lines.next().unwrap().unwrap().starts_with("OFPT_HELLO"));
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn large_input_uses_little_memory() {
    /// Address space limit in KiB, including code.
    const LIMIT: u32 = 64 << 10;
    const SIZE: usize = 96 << 20;
    let stream = [4, 2, 0xff, 0xff, 0, 0, 0, 1].iter().copied().chain(vec![0x41; 0xfff7]);
    let stream: Vec<u8> = stream.collect();
    let pcap_of_one_huge_packet =
        [&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0][..], &[0; 12], &[1, 0, 0, 0], &vec![0xee; 1 << 16]]
            .concat();
    let kinds: [(&str, &[u8]); 4] = [
        ("a stream", &stream),
        ("one line", &vec![b'0'; 1 << 16]),
        ("rubbish behind a header", &vec![1; 1 << 16]),
        ("a packet without end", &pcap_of_one_huge_packet),
    ];
    for (what, chunk) in kinds {
        let mut child = Command::new("sh")
            .args(["-c", &format!("ulimit -v {LIMIT}; exec \"$0\" ofp decode -")])
            .arg(env!("CARGO_BIN_EXE_rosemary"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        for _ in 0..SIZE / chunk.len() {
            if stdin.write_all(chunk).is_err() {
                break; // the program has stopped reading
            }
        }
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code().is_some_and(|code| code < 2), "{what}: {said}");
        assert!(!said.contains("memory"), "{what}: {said}");
    }
}
