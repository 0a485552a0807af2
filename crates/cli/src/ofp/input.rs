//! Opens the input and recognises its format by its first bytes.

use std::fs::File;
use std::io::{self, Cursor, IsTerminal as _, Read, stdin};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::capture::Format;
use super::framing::plausible;
use super::hex;

/// Number of bytes used to recognise the format.
const PREFIX_SIZE: usize = 64 << 10;

/// Why the input cannot be decoded.
#[derive(Debug, Error)]
pub(super) enum InputError {
    #[error("cannot open {path}: {error}", path = path.display())]
    Open { path: PathBuf, error: io::Error },
    #[error("{} is a directory; name a file in it", .0.display())]
    Directory(PathBuf),
    #[error("cannot read {name}: {error}")]
    Read { name: String, error: io::Error },
    #[error("{0} is empty: there is nothing to decode")]
    Empty(String),
    #[error(
        "{0} is text, but its first lines hold no message in hexadecimal digits, such as \
         0400000800000001"
    )]
    NoHex(String),
    #[error("{name} is compressed; type: {tool} {name} | rosemary ofp decode -")]
    Compressed { name: String, tool: &'static str },
    #[error(
        "{name} is neither hexadecimal lines nor OpenFlow nor a pcap or pcapng file: it begins \
         with {first}"
    )]
    Unknown { name: String, first: String },
}

/// Format of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Lines of text.
    Text,
    /// Consecutive OpenFlow messages.
    Stream,
    /// Captured packets.
    Capture(Format),
}

/// An open input.
pub(super) struct Input {
    /// Its name in messages.
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Whether the whole input is available, so that output may be buffered.
    pub(super) is_file: bool,
    pub(super) bytes: Box<dyn Read>,
}

impl Input {
    /// Opens a file, or standard input for `-`, and recognises its format.
    ///
    /// # Errors
    /// [`InputError`].
    pub(super) fn open(path: &Path) -> Result<Self, InputError> {
        if path == Path::new("-") {
            if stdin().is_terminal() {
                crate::say::note("reading from the terminal; Ctrl-D ends it");
            }
            return Self::recognise("standard input".to_owned(), false, stdin());
        }
        let cannot_open = |error| InputError::Open { path: path.into(), error };
        let file = File::open(path).map_err(cannot_open)?;
        let metadata = file.metadata().map_err(cannot_open)?;
        if metadata.is_dir() {
            return Err(InputError::Directory(path.into()));
        }
        Self::recognise(path.display().to_string(), metadata.is_file(), file)
    }

    /// The plaintext of a capture, as a pcap file.
    pub(super) fn decrypted(path: &Path, plaintext: impl Read + 'static) -> Self {
        let is_file = path != Path::new("-");
        let kind = Kind::Capture(Format::Pcap);
        Self { name: path.display().to_string(), kind, is_file, bytes: Box::new(plaintext) }
    }

    fn recognise(
        name: String,
        is_file: bool,
        mut bytes: impl Read + 'static,
    ) -> Result<Self, InputError> {
        let prefix = match read_prefix(&mut bytes, is_file) {
            Ok(prefix) => prefix,
            Err(error) => return Err(InputError::Read { name, error }),
        };
        let kind = recognise(&name, &prefix)?;
        let bytes = Box::new(Cursor::new(prefix).chain(bytes));
        Ok(Self { name, kind, is_file, bytes })
    }
}

/// Reads enough to recognise the format; from a pipe no more than that, because the rest may come
/// late.
fn read_prefix(from: &mut impl Read, is_file: bool) -> io::Result<Vec<u8>> {
    let mut prefix = vec![0; PREFIX_SIZE];
    let mut size = 0;
    let enough = |bytes: &[u8]| !is_file && (bytes.contains(&b'\n') || bytes.len() >= 24);
    while size < PREFIX_SIZE && !enough(&prefix[..size]) {
        match from.read(&mut prefix[size..]) {
            Ok(0) => break,
            Ok(more) => size += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    prefix.truncate(size);
    Ok(prefix)
}

fn recognise(name: &str, prefix: &[u8]) -> Result<Kind, InputError> {
    if prefix.is_empty() {
        return Err(InputError::Empty(name.to_owned()));
    }
    let compressed = |tool| Err(InputError::Compressed { name: name.to_owned(), tool });
    match *prefix {
        // Microseconds and nanoseconds, in both byte orders.
        [0xa1, 0xb2, 0xc3, 0xd4, ..]
        | [0xd4, 0xc3, 0xb2, 0xa1, ..]
        | [0xa1, 0xb2, 0x3c, 0x4d, ..]
        | [0x4d, 0x3c, 0xb2, 0xa1, ..] => Ok(Kind::Capture(Format::Pcap)),
        [0x0a, 0x0d, 0x0d, 0x0a, ..] => Ok(Kind::Capture(Format::PcapNg)),
        [0x1f, 0x8b, ..] => compressed("zcat"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => compressed("zstdcat"),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => compressed("xzcat"),
        _ if is_text(prefix) => {
            if hex::may_hold_messages(prefix) {
                Ok(Kind::Text)
            } else {
                Err(InputError::NoHex(name.to_owned()))
            }
        }
        _ if plausible(prefix, None) => Ok(Kind::Stream),
        _ => {
            let first = prefix.iter().take(8).map(|byte| format!("{byte:02x}"));
            let first = first.collect::<Vec<_>>().join(" ");
            Err(InputError::Unknown { name: name.to_owned(), first })
        }
    }
}

/// Whether the bytes contain no control characters other than white space.
fn is_text(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c | 0x20..=0x7e | 0x80..))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(prefix: &[u8]) -> Result<Kind, String> {
        recognise("it", prefix).map_err(|error| error.to_string())
    }

    #[test]
    fn format_is_recognised_by_first_bytes() {
        assert_eq!(kind(b"# hello\n0400000800000001\n"), Ok(Kind::Text));
        assert_eq!(kind(&[4, 0, 0, 8, 0, 0, 0, 1]), Ok(Kind::Stream));
        assert_eq!(kind(&[6, 0, 0, 8, 0, 0, 0, 1]), Ok(Kind::Stream));
        assert_eq!(kind(&[0xd4, 0xc3, 0xb2, 0xa1, 2]), Ok(Kind::Capture(Format::Pcap)));
        assert_eq!(kind(&[10, 13, 13, 10, 2]), Ok(Kind::Capture(Format::PcapNg)));
    }

    #[test]
    fn unknown_format_quotes_its_first_bytes() {
        let error = kind(b"\x7fELF\x02\x01\x01\x00\x00").unwrap_err();
        assert!(error.ends_with("it begins with 7f 45 4c 46 02 01 01 00"), "{error}");
        assert!(kind(b"").unwrap_err().contains("is empty"));
        assert!(kind(b"Dear operator,\nplease\n").unwrap_err().contains("is text, but"));
        assert!(kind(&[0x1f, 0x8b, 8]).unwrap_err().contains("zcat it |"));
    }
}
