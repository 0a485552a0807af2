//! `rosemary ofp`: shows and checks OpenFlow messages.
//!
//! `decode` reads any format that [`input`] recognises and prints one line per message. `check`
//! decodes and re-encodes messages and compares the bytes, which tests the codec with foreign
//! vectors.
//!
//! | module | what it does |
//! | --- | --- |
//! | `input` | opens and recognises: text, a stream, a capture |
//! | `hex` | messages written in digits, hexdumps among them |
//! | `capture` | packets, TCP connections, streams |
//! | `keylog` | from TLS in a capture to plain packets, by tshark |
//! | `framing` | from a stream to messages, and back into step |
//! | `decode`, `check` | the commands |
//!
//! All modules use bounded memory, whatever the size and origin of the input.

mod capture;
mod check;
mod decode;
mod framing;
mod hex;
mod input;
mod keylog;
mod output;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

/// Options of `rosemary ofp`.
#[derive(Debug, Args)]
pub struct OfpArgs {
    #[command(subcommand)]
    command: OfpCommand,
}

#[derive(Debug, Subcommand)]
enum OfpCommand {
    /// Print OpenFlow messages from hexadecimal lines, a stream or a capture, one per line
    #[command(long_about = ABOUT_DECODE, after_long_help = AFTER_DECODE)]
    Decode(DecodeArgs),
    /// Decode and re-encode messages, and compare the bytes
    #[command(long_about = ABOUT_CHECK, after_long_help = AFTER_CHECK)]
    Check(CheckArgs),
}

const ABOUT_DECODE: &str = "\
Print OpenFlow 1.0 to 1.5 messages, one per line.

The input is recognised by its content:
  text       lines with one or more messages in hexadecimal digits; blanks,
             commas, 0x and colons are ignored, # starts a comment, and the
             last of tab-separated columns counts; hexdumps
  OpenFlow   consecutive messages, as on a connection
  captures   pcap and pcapng: the TCP connections on ports 6653 and 6633, and
             those that start with a hello. Each line starts with the time
             (UTC), the source and the destination

For a message that does not decode, the line has \"error:\", the field, its offset, and the expected \
value; decoding continues after it.";

const AFTER_DECODE: &str = "\
Examples:
  rosemary ofp decode capture.pcapng
  tcpdump -i any -U -w - tcp port 6653 | rosemary ofp decode -
  echo 0400000800000001 | rosemary ofp decode -
  rosemary ofp decode --json capture.pcap | jq 'select(.error)'
  rosemary ofp decode --keylog keys.txt capture.pcap

Exit codes: 0 every message decoded, 1 some did not decode or bytes were missing, 2 wrong usage.";

const ABOUT_CHECK: &str = "\
Decode each message, encode it again, and compare the bytes.

The input is text as for \"rosemary ofp decode\": one or more messages per line. Each line of output \
starts with
  same       the bytes are the same
  differs    the bytes differ, and at which offset
  error:     the message does not decode, and why
Totals go to standard error.";

const AFTER_CHECK: &str = "\
Examples:
  rosemary ofp check messages.hex
  cut -f 4 vectors.tsv | rosemary ofp check -

Exit codes: 0 no message differs (errors do not count: malformed messages must not decode), 1 some \
differ or there is nothing to check, 2 wrong usage.";

/// Options of `rosemary ofp decode`.
#[derive(Debug, Args)]
struct DecodeArgs {
    /// The input; - is standard input
    #[arg(default_value = "-")]
    file: PathBuf,
    /// Print a JSON object per line
    #[arg(long)]
    json: bool,
    /// Decrypt the TLS connections of a capture with the secrets in this file, by tshark
    ///
    /// The file has the format of NSS key logs, which other programs write if the environment variable SSLKEYLOGFILE names it.
    /// Connections without TLS are left out.
    #[arg(long, value_name = "FILE")]
    keylog: Option<PathBuf>,
    /// In captures, also decode this TCP port (repeatable)
    #[arg(long, value_name = "PORT")]
    port: Vec<u16>,
}

/// Options of `rosemary ofp check`.
#[derive(Debug, Args)]
struct CheckArgs {
    /// Lines of hexadecimal digits; - is standard input
    file: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// The input cannot be read or has no known format.
pub fn run(args: &OfpArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        OfpCommand::Decode(args) => decode::run(args),
        OfpCommand::Check(args) => check::run(&args.file),
    }
}
