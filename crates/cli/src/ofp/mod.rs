//! `rosemary ofp`: OpenFlow for people: what is in this capture, what does this message say.
//!
//! `decode` reads what [`input`] recognises and writes a line per message; `check` decodes and
//! encodes messages and says whether they came back the same, which is how a codec is held against
//! vectors from elsewhere.
//!
//! | module | what it does |
//! | --- | --- |
//! | `input` | opens and recognises: text, a stream, a capture |
//! | `hex` | messages written in digits, hexdumps among them |
//! | `capture` | packets, TCP connections, streams |
//! | `framing` | from a stream to messages, and back into step |
//! | `decode`, `check` | the commands |
//!
//! All of it runs in bounded memory, whatever the size of the input and whoever made it.

mod capture;
mod check;
mod decode;
mod framing;
mod hex;
mod input;
mod output;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

/// `rosemary ofp`.
#[derive(Debug, Args)]
pub struct OfpArgs {
    #[command(subcommand)]
    command: OfpCommand,
}

#[derive(Debug, Subcommand)]
enum OfpCommand {
    /// Print OpenFlow messages, a line each, from hexadecimal lines, a stream, or a capture
    #[command(long_about = ABOUT_DECODE, after_long_help = AFTER_DECODE)]
    Decode(DecodeArgs),
    /// Decode messages, encode them again, and say whether the bytes are the same
    #[command(long_about = ABOUT_CHECK, after_long_help = AFTER_CHECK)]
    Check(CheckArgs),
}

const ABOUT_DECODE: &str = "\
Print OpenFlow 1.0 and 1.3 messages, a line each.

The input is recognised by its content:
  text       a message, or several in a row, per line in hexadecimal digits; blanks, commas, 0x and \
colons do not matter, # begins a comment, of columns with tabs between them the last counts; \
hexdumps
  OpenFlow   message after message, as on a connection
  captures   pcap and pcapng: the TCP connections on ports 6653 and 6633, and those that begin with \
a hello. Each line begins with the time (UTC), and who sent it to whom

What does not decode is a line with \"error:\" in place of a message, what stands where, and what was \
expected; the rest is still decoded.";

const AFTER_DECODE: &str = "\
Examples:
  rosemary ofp decode capture.pcapng
  tcpdump -i any -U -w - tcp port 6653 | rosemary ofp decode -
  echo 0400000800000001 | rosemary ofp decode -
  rosemary ofp decode --json capture.pcap | jq 'select(.error)'

Exit codes: 0 every message decoded, 1 some did not, or bytes were missing, 2 wrong usage.";

const ABOUT_CHECK: &str = "\
Decode each message, encode it again, and compare.

The input is text as for \"rosemary ofp decode\": a message, or several in a row, per line. For each \
there is a line of output that begins with
  same       it came back as it was
  differs    it did not; the line says at which byte
  error:     it is not a message of OpenFlow 1.0 or 1.3, and why
Totals go to standard error.";

const AFTER_CHECK: &str = "\
Examples:
  rosemary ofp check messages.hex
  cut -f 4 vectors.tsv | rosemary ofp check -

Exit codes: 0 none differs (errors do not count: what is malformed must not decode), 1 some do, or \
there is nothing to check, 2 wrong usage.";

/// `rosemary ofp decode`.
#[derive(Debug, Args)]
struct DecodeArgs {
    /// What to decode; - is standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Print a JSON object per line
    #[arg(long)]
    json: bool,
    /// In captures, look at this TCP port too (may be given more than once)
    #[arg(long, value_name = "PORT")]
    port: Vec<u16>,
}

/// `rosemary ofp check`.
#[derive(Debug, Args)]
struct CheckArgs {
    /// Lines of hexadecimal digits; - is standard input
    file: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// The input cannot be read, or is nothing that can be decoded.
pub fn run(args: &OfpArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        OfpCommand::Decode(args) => decode::run(args),
        OfpCommand::Check(args) => check::run(&args.file),
    }
}
