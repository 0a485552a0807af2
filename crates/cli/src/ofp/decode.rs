//! `rosemary ofp decode`: a line per message.

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
use super::output::Output;
use crate::say;

/// How much of a stream is read at a time.
const CHUNK_SIZE: usize = 64 << 10;
/// How much of what did not decode is shown, in bytes.
const MOST_SHOWN: usize = 1024;

/// Runs `rosemary ofp decode`.
///
/// # Errors
/// The input cannot be read, or is nothing that can be decoded.
pub(super) fn run(args: &DecodeArgs) -> anyhow::Result<ExitCode> {
    let input = Input::open(&args.file)?;
    let name = input.name;
    let mut lines =
        Lines { to: Output::new(!input.is_file), json: args.json, messages: 0, errors: 0 };
    let outcome = match input.kind {
        Kind::Text => text(input.bytes, &mut lines),
        Kind::Stream => stream(input.bytes, &mut lines),
        Kind::Capture(format) => {
            let mut give =
                |time, ends, frame: Frame<'_>| lines.frame(&Place::Packet { time, ends }, &frame);
            let summary = capture::read(format, &args.port, input.bytes, &mut give);
            summary.map_err(Failure::Write).map(|summary| lines.errors += tell(&name, &summary))
        }
    };
    let failed = lines.errors > 0;
    let written = match outcome {
        Ok(()) => lines.to.finish(),
        Err(Failure::Write(error)) => Err(error),
        Err(Failure::Read(error)) => {
            let _ = lines.to.finish();
            return Err(error).with_context(|| format!("cannot read {name} on"));
        }
    };
    say::written(written)?;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Which side ended the work.
enum Failure {
    Read(io::Error),
    Write(io::Error),
}

fn text(input: Box<dyn Read>, lines: &mut Lines) -> Result<(), Failure> {
    let mut items = Items::new(BufReader::with_capacity(CHUNK_SIZE, input));
    while let Some(item) = items.next().map_err(Failure::Read)? {
        let line = item.line;
        match item.bytes {
            Err(why) => lines.error(&Place::Line { line, byte: 0 }, &why, &[]),
            Ok(bytes) => Messages::of(&bytes).try_for_each(|(byte, message)| {
                lines.message(&Place::Line { line, byte }, message)
            }),
        }
        .map_err(Failure::Write)?;
    }
    Ok(())
}

fn stream(mut input: Box<dyn Read>, lines: &mut Lines) -> Result<(), Failure> {
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
                outcome = lines.frame(&Place::Stream { byte }, &frame);
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

/// Says on standard error what there is to say about a capture as a whole; returns how many
/// errors that is.
fn tell(name: &str, summary: &Summary) -> u64 {
    let mut errors = 0;
    if let Some(why) = &summary.broken {
        say::note(format_args!("{name}, after {} packets: {why}", summary.packets));
        errors += 1;
    }
    if let Some((count, link)) = summary.unknown_link {
        say::note(format_args!("{count} packets are of link type {link}, which is not known here"));
    }
    if summary.fragments > 0 {
        say::note(format_args!(
            "{} fragments of IP packets were not looked into",
            summary.fragments
        ));
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

/// Where a message comes from.
enum Place {
    Line { line: u64, byte: usize },
    Stream { byte: u64 },
    Packet { time: Time, ends: Ends },
}

/// What goes in front of a line.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packet { time, ends: (from, to) } => write!(f, "{time} {from} > {to} "),
            _ => Ok(()),
        }
    }
}

/// Where an error is; what [`Place`] puts in front of a line says it for packets.
struct At<'p>(&'p Place);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Place::Line { line, byte: 0 } => write!(f, "line {line}: "),
            Place::Line { line, byte } => write!(f, "line {line}, the message at byte {byte}: "),
            Place::Stream { byte } => write!(f, "the message at byte {byte}: "),
            Place::Packet { .. } => Ok(()),
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
    /// Where the message begins, in the line or the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    byte: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a Message<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// What did not decode, or its beginning, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
}

/// The lines that are written, and what is counted of them.
struct Lines {
    to: Output,
    json: bool,
    messages: u64,
    errors: u64,
}

impl Lines {
    fn frame(&mut self, place: &Place, frame: &Frame<'_>) -> io::Result<()> {
        let why = match frame {
            Frame::Message(message) => return self.message(place, message),
            Frame::Incomplete { size: Some(size), have } => {
                format!("only {have} of {size} bytes of a message are there")
            }
            Frame::Incomplete { size: None, have } => {
                format!("only the first {have} bytes of a message are there")
            }
            Frame::Missing(bytes) => format!("{bytes} bytes were sent here and not captured"),
            Frame::Skipped(bytes) => format!("{bytes} bytes that are no message are passed over"),
            Frame::Tls => {
                "the connection is encrypted (TLS); nothing of it can be shown".to_owned()
            }
        };
        self.error(place, &why, &[])
    }

    fn message(&mut self, place: &Place, bytes: &[u8]) -> io::Result<()> {
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

    fn error(&mut self, place: &Place, why: &str, bytes: &[u8]) -> io::Result<()> {
        self.errors += 1;
        if self.json {
            let shown = bytes.get(..MOST_SHOWN).unwrap_or(bytes);
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

impl Place {
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
