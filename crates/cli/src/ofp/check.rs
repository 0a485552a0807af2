//! `rosemary ofp check`: decodes messages, encodes them again and compares the bytes.

use std::fmt;
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use openflow::{DecodeError, Message, append};

use super::framing::Messages;
use super::hex::Items;
use super::input::{Input, Kind};
use super::output::Output;
use crate::say;

/// Result of a line.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Same,
    Differs {
        /// Offset of the first differing byte in the line.
        at: usize,
        /// Number of input bytes, and of output bytes.
        sizes: (usize, usize),
    },
    Error(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => f.write_str("same"),
            Self::Differs { at, sizes: (in_, out) } if in_ == out => {
                write!(f, "differs at byte {at}")
            }
            Self::Differs { at, sizes: (in_, out) } => {
                write!(f, "differs at byte {at}: {in_} bytes became {out}")
            }
            Self::Error(why) => write!(f, "error: {why}"),
        }
    }
}

/// Runs `rosemary ofp check`.
///
/// # Errors
/// The input is not readable text.
pub(super) fn run(file: &Path) -> anyhow::Result<ExitCode> {
    let input = Input::open(file)?;
    if input.kind != Kind::Text {
        bail!(
            "{} is not text; \"rosemary ofp check\" reads lines of hexadecimal digits, \"rosemary \
             ofp decode\" streams and captures too",
            input.name
        );
    }
    let mut output = Output::new(!input.is_file);
    let (mut same, mut differ, mut errors) = (0_u64, 0_u64, 0_u64);
    let mut items = Items::new(BufReader::new(input.bytes));
    let mut written = Ok(());
    loop {
        let item = match items.next() {
            Ok(Some(item)) => item,
            Ok(None) => break,
            Err(error) => bail!("cannot read {}: {error}", input.name),
        };
        let verdict = item.bytes.map_or_else(Verdict::Error, |bytes| check(&bytes));
        match verdict {
            Verdict::Same => same += 1,
            Verdict::Differs { .. } => differ += 1,
            Verdict::Error(_) => errors += 1,
        }
        written = output.line(format_args!("{verdict}"));
        if written.is_err() {
            break;
        }
    }
    say::written(written.and_then(|()| output.finish()))?;
    say::note(format_args!("{same} same, {differ} differ, {errors} errors"));
    Ok(if differ == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks one or more consecutive messages.
fn check(bytes: &[u8]) -> Verdict {
    let mut out = Vec::with_capacity(bytes.len());
    for (at, message) in Messages::of(bytes) {
        if let Err(why) = there_and_back(message, &mut out) {
            return Verdict::Error(if at == 0 {
                why
            } else {
                format!("in the message at byte {at}: {why}")
            });
        }
    }
    if out == bytes {
        return Verdict::Same;
    }
    let at = out.iter().zip(bytes).take_while(|(a, b)| a == b).count();
    Verdict::Differs { at, sizes: (bytes.len(), out.len()) }
}

fn there_and_back(message: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let decoded = Message::decode(message).map_err(|error: DecodeError| error.to_string())?;
    match append(out, |room| decoded.encode(room)) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("decoded but cannot be encoded: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: [u8; 8] = [4, 0, 0, 8, 0, 0, 0, 1];

    #[test]
    fn reencoded_message_is_the_same() {
        assert_eq!(check(&HELLO), Verdict::Same);
        assert_eq!(check(&[HELLO, HELLO].concat()), Verdict::Same);
    }

    #[test]
    fn undecodable_message_names_the_reason() {
        let said = check(&[7, 0, 0, 8, 0, 0, 0, 1]).to_string();
        assert!(said.starts_with("error: unsupported version"), "{said}");
        let said = check(&[4, 0, 0, 9, 0, 0, 0, 1]).to_string();
        assert!(said.starts_with("error: "), "{said}");
        let said =
            check(&[&HELLO[..], &[4, 13, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0]].concat()).to_string();
        assert!(said.starts_with("error: in the message at byte 8: "), "{said}");
    }

    #[test]
    fn first_differing_byte_is_named() {
        let said = Verdict::Differs { at: 9, sizes: (16, 16) }.to_string();
        assert_eq!(said, "differs at byte 9");
        let said = Verdict::Differs { at: 9, sizes: (16, 24) }.to_string();
        assert_eq!(said, "differs at byte 9: 16 bytes became 24");
    }
}
