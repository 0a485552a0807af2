//! Runs public test vectors, which are not part of this repository. The environment variable
//! `OPENFLOW_VECTORS` names their folder, with files such as `valid-of13.tsv`. A line contains
//! source, kind, detail and the message in hexadecimal, separated by tabs.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a test that says what it skips"
)]

mod checks;

use rosemary_openflow::DecodeError;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{iter, thread};

struct Vector {
    line: String,
    bytes: Vec<u8>,
}

/// Reads the vectors of a file; empty, with a note, if this machine has none.
fn vectors(file: &str) -> Vec<Vector> {
    let Some(folder) = std::env::var_os("OPENFLOW_VECTORS") else {
        println!("SKIPPED: OPENFLOW_VECTORS is not set, {file} was not tried");
        return Vec::new();
    };
    let path = PathBuf::from(folder).join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines()
        .map(|line| {
            let hex = line.rsplit('\t').next().unwrap();
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            Vector {
                line: line.chars().take(400).collect(),
                bytes: (0..hex.len()).step_by(2).map(byte).collect(),
            }
        })
        .collect()
}

/// Fails if `check` reports a fault in any vector of the files. Every processor has a thread, and the threads share the
/// vectors of a file, because one slow test takes most of the time.
fn all(files: &[&str], check: impl Fn(&[u8]) -> Option<String> + Sync) {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    for file in files {
        let vectors = vectors(file);
        let next = AtomicUsize::new(0);
        let faults_of_thread = || {
            let own = iter::from_fn(|| vectors.get(next.fetch_add(1, Ordering::Relaxed)));
            own.filter_map(|vector| Some((check(&vector.bytes)?, &vector.line))).collect::<Vec<_>>()
        };
        let wrong: Vec<_> = thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(faults_of_thread)).collect();
            running.into_iter().flat_map(|it| it.join().unwrap()).collect()
        });
        for (what, line) in &wrong {
            println!("{what}: {line}");
        }
        assert!(wrong.is_empty(), "{file}: {} of {} are wrong", wrong.len(), vectors.len());
        println!("{file}: {} vectors hold", vectors.len());
    }
}

/// The files of valid and of malformed vectors. There are no malformed ones of OpenFlow 1.5.
const VALID: [&str; 6] = [
    "valid-of10.tsv",
    "valid-of11.tsv",
    "valid-of12.tsv",
    "valid-of13.tsv",
    "valid-of14.tsv",
    "valid-of15.tsv",
];
const MALFORMED: [&str; 5] = [
    "malformed-of10.tsv",
    "malformed-of11.tsv",
    "malformed-of12.tsv",
    "malformed-of13.tsv",
    "malformed-of14.tsv",
];

#[test]
fn valid_vectors_reencode_byte_for_byte() {
    all(&VALID, |bytes| checks::raw_comes_back(bytes).err().map(|error| error.to_string()));
}

#[test]
fn valid_vectors_keep_their_meaning() {
    all(&VALID, |bytes| {
        // Some contain numbers that no specification defines; these are rejected as values.
        match checks::meaning_comes_back(bytes) {
            Ok(()) | Err(DecodeError::BadValue { .. } | DecodeError::UnknownKind { .. }) => None,
            Err(error) => Some(error.to_string()),
        }
    });
}

#[test]
fn malformed_vectors_are_errors() {
    all(&MALFORMED, |bytes| {
        let decoded = checks::raw_comes_back(bytes).or(checks::meaning_comes_back(bytes));
        decoded.is_ok().then(|| "decoded".to_owned())
    });
}

#[test]
fn valid_vectors_cut_anywhere_are_errors_and_do_not_panic() {
    all(&VALID, |bytes| {
        // The last bytes matter as much as the first ones.
        let tail = bytes.len().saturating_sub(400);
        (0..tail.min(400)).chain(tail..bytes.len()).find_map(|size| {
            let mut cut = bytes[..size].to_vec();
            let _ = checks::meaning_comes_back(&cut);
            if checks::raw_comes_back(&cut).is_ok() {
                return Some(format!("{size} bytes are a message"));
            }
            if let Some(length) = cut.get_mut(2..4) {
                length.copy_from_slice(&u16::try_from(size).unwrap().to_be_bytes());
            }
            let _ = checks::raw_comes_back(&cut);
            let _ = checks::meaning_comes_back(&cut);
            None
        })
    });
}

#[test]
fn valid_vectors_with_other_lengths_never_panic() {
    all(&VALID, |bytes| {
        // Each pair of bytes may be a length: one and four less and more, all ones and zero. Of a large message fewer
        // pairs are changed, because decoding it takes longer.
        let pairs = (50_000 / bytes.len()).clamp(40, 400);
        for at in 2..(bytes.len() - 1).min(pairs) {
            let pair = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            let near =
                [1, 4].into_iter().flat_map(|by| [pair.wrapping_sub(by), pair.wrapping_add(by)]);
            // Of a pair of zeros, two of these are equal and one is the pair itself.
            let others: BTreeSet<u16> =
                near.chain([u16::MAX, 0]).filter(|other| *other != pair).collect();
            for other in others {
                let mut changed = bytes.to_vec();
                changed[at..at + 2].copy_from_slice(&other.to_be_bytes());
                // A message that decodes encodes to the same bytes, or these checks panic.
                let _ = checks::raw_comes_back(&changed);
                let _ = checks::meaning_comes_back(&changed);
            }
        }
        None
    });
}

#[cfg(feature = "serde")]
#[test]
fn valid_vectors_serialize_as_json() {
    all(&VALID, |bytes| {
        let message = rosemary_openflow::Message::decode(bytes).unwrap();
        serde_json::to_string(&message).err().map(|error| error.to_string())
    });
}
