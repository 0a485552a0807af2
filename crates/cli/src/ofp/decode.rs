//! `rosemary ofp decode`: prints one line per message.

use std::fmt;
use std::io::{self, BufReader, Read};
use std::process::ExitCode;

use anyhow::Context as _;
use openflow::Message;
use serde::Serialize;

use super::DecodeArgs;
use super::capture::{self, Ends, Summary, Time};
use super::framing::{Frame, Framer, Messages};
use super::hex::{self, Items};
use super::input::{Input, Kind};
use super::keylog::Plaintext;
use super::output::Output;
use crate::say;

/// Size of reads from a stream.
const CHUNK_SIZE: usize = 64 << 10;
/// Maximum number of bytes shown of an undecodable message.
const MAX_SHOWN: usize = 1024;

/// Runs `rosemary ofp decode`.
///
/// # Errors
/// The input cannot be read or has no known format.
pub(super) fn run(args: &DecodeArgs) -> anyhow::Result<ExitCode> {
    let input = match &args.keylog {
        None => Input::open(&args.file)?,
        Some(keys) => Input::decrypted(&args.file, Plaintext::of(&args.file, keys, &args.port)?),
    };
    let name = input.name;
    let mut lines =
        LineWriter { to: Output::new(!input.is_file), json: args.json, messages: 0, errors: 0 };
    let outcome = match input.kind {
        Kind::Text => text(input.bytes, &mut lines),
        Kind::Stream => stream(input.bytes, &mut lines),
        Kind::Capture(format) => {
            let mut give = |time, ends, frame: Frame<'_>| {
                lines.frame(&Position::Packet { time, ends }, &frame)
            };
            let summary = capture::read(format, &args.port, input.bytes, &mut give);
            summary.map_err(Failure::Write).map(|summary| lines.errors += report(&name, &summary))
        }
    };
    let failed = lines.errors > 0;
    let written = match outcome {
        Ok(()) => lines.to.finish(),
        Err(Failure::Write(error)) => Err(error),
        Err(Failure::Read(error)) => {
            let _ = lines.to.finish();
            return Err(error).with_context(|| format!("cannot read the rest of {name}"));
        }
    };
    say::written(written)?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The side whose failure ended the work.
enum Failure {
    Read(io::Error),
    Write(io::Error),
}

fn text(input: Box<dyn Read>, lines: &mut LineWriter) -> Result<(), Failure> {
    let mut items = Items::new(BufReader::with_capacity(CHUNK_SIZE, input));
    while let Some(item) = items.next().map_err(Failure::Read)? {
        let line = item.line;
        match item.bytes {
            Err(why) => lines.error(&Position::Line { line, byte: 0 }, &why, &[]),
            Ok(bytes) => Messages::of(&bytes).try_for_each(|(byte, message)| {
                lines.message(&Position::Line { line, byte }, message)
            }),
        }
        .map_err(Failure::Write)?;
    }
    Ok(())
}

fn stream(mut input: Box<dyn Read>, lines: &mut LineWriter) -> Result<(), Failure> {
    let mut framer = Framer::from_start();
    let mut chunk = vec![0; CHUNK_SIZE];
    let mut byte = 0;
    loop {
        let size = match input.read(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(Failure::Read)?,
        };
        let mut outcome = Ok(());
        let mut give = |frame: Frame<'_>| {
            if outcome.is_ok() {
                outcome = lines.frame(&Position::Stream { byte }, &frame);
                byte += frame.size();
            }
        };
        match size {
            0 => framer.end(&mut give),
            size => framer.data(&chunk[..size], &mut give),
        }
        outcome.map_err(Failure::Write)?;
        if size == 0 {
            return Ok(());
        }
    }
}

/// Reports the problems of a capture on standard error; returns their number.
fn report(name: &str, summary: &Summary) -> u64 {
    let mut errors = 0;
    if let Some(why) = &summary.broken {
        say::note(format_args!("{name}, after {} packets: {why}", summary.packets));
        errors += 1;
    }
    if let Some((count, link)) = summary.unknown_link {
        say::note(format_args!("ignored {count} packets with unsupported link type {link}"));
    }
    if summary.fragments > 0 {
        say::note(format_args!("ignored {} fragments of IP packets", summary.fragments));
    }
    if summary.connections == 0 && errors == 0 {
        say::note(format_args!(
            "no OpenFlow in {} packets: no TCP connection is on port 6653 or 6633 (--port adds \
             others) or begins with a hello",
            summary.packets
        ));
    }
    errors
}

/// Where a message was found.
enum Position {
    Line { line: u64, byte: usize },
    Stream { byte: u64 },
    Packet { time: Time, ends: Ends },
}

/// The prefix of a line.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packet { time, ends: (from, to) } => write!(f, "{time} {from} > {to} "),
            _ => Ok(()),
        }
    }
}

/// Position in an error message; for packets, the prefix of [`Position`] contains it already.
struct At<'p>(&'p Position);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Position::Line { line, byte: 0 } => write!(f, "line {line}: "),
            Position::Line { line, byte } => write!(f, "line {line}, the message at byte {byte}: "),
            Position::Stream { byte } => write!(f, "the message at byte {byte}: "),
            Position::Packet { .. } => Ok(()),
        }
    }
}

/// A line of `--json`.
#[derive(Serialize)]
struct Json<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// Offset of the message in the line or the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    byte: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// The undecodable bytes or their beginning, in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
}

/// Writes the output lines and counts messages and errors.
struct LineWriter {
    to: Output,
    json: bool,
    messages: u64,
    errors: u64,
}

impl LineWriter {
    fn frame(&mut self, place: &Position, frame: &Frame<'_>) -> io::Result<()> {
        let why = match frame {
            Frame::Message(message) => return self.message(place, message),
            Frame::Incomplete { size: Some(size), have } => {
                format!("only {have} of {size} bytes of a message are present")
            }
            Frame::Incomplete { size: None, have } => {
                format!("only the first {have} bytes of a message are present")
            }
            Frame::Missing(bytes) => format!("{bytes} bytes were sent here but not captured"),
            Frame::Skipped(bytes) => format!("skipped {bytes} bytes that are not a message"),
            Frame::Tls => "the connection is encrypted (TLS) and cannot be decoded".to_owned(),
        };
        self.error(place, &why, &[])
    }

    fn message(&mut self, place: &Position, bytes: &[u8]) -> io::Result<()> {
        let message = match Message::decode(bytes) {
            Ok(message) => message,
            Err(error) => return self.error(place, &error.to_string(), bytes),
        };
        self.messages += 1;
        if self.json {
            let json = Json { message: Some(&message), ..place.json() };
            return self.json(&json);
        }
        self.to.line(format_args!("{place}{message}"))
    }

    fn error(&mut self, place: &Position, why: &str, bytes: &[u8]) -> io::Result<()> {
        self.errors += 1;
        if self.json {
            let shown = bytes.get(..MAX_SHOWN).unwrap_or(bytes);
            let bytes = (!shown.is_empty()).then(|| hex::digits_of(shown));
            return self.json(&Json { error: Some(why), bytes, ..place.json() });
        }
        self.to.line(format_args!("{place}error: {}{why}", At(place)))
    }

    fn json(&mut self, json: &Json<'_>) -> io::Result<()> {
        let line = serde_json::to_string(json).map_err(io::Error::other)?;
        self.to.line(format_args!("{line}"))
    }
}

impl Position {
    fn json(&self) -> Json<'static> {
        let nowhere = Json {
            time: None,
            from: None,
            to: None,
            line: None,
            byte: None,
            message: None,
            error: None,
            bytes: None,
        };
        match self {
            Self::Line { line, byte } => {
                Json { line: Some(*line), byte: Some(*byte as u64), ..nowhere }
            }
            Self::Stream { byte } => Json { byte: Some(*byte), ..nowhere },
            Self::Packet { time, ends: (from, to) } => Json {
                time: Some(time.to_string()),
                from: Some(from.to_string()),
                to: Some(to.to_string()),
                ..nowhere
            },
        }
    }
}
