//! Splits a byte stream into OpenFlow messages, and resynchronises after missing or invalid bytes.
//!
//! The header contains a message's length (OpenFlow 1.3.5 §7.1), which suffices for a complete
//! stream. If a capture lacks bytes, there are two cases. If the gap ends inside the message in
//! which it starts, that message's length gives the start of the next one. Otherwise the next start
//! is searched: the first byte from which headers follow one another.

use openflow::{Header, Kind, Version};

/// Maximum size of a message: its length field has 16 bits.
const MAX_MESSAGE_SIZE: usize = 0xffff;

/// An element of the stream, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// A message that is complete according to its header.
    Message(&'a [u8]),
    /// An incomplete message of `size` bytes.
    Incomplete {
        /// Its size; `None` if the length field is missing too.
        size: Option<usize>,
        /// Number of its bytes before the gap or the end.
        have: usize,
    },
    /// Number of missing bytes at this position.
    Missing(u64),
    /// Number of skipped bytes that are not OpenFlow.
    Skipped(u64),
    /// The stream is encrypted.
    Tls,
}

impl Frame<'_> {
    /// Returns its number of bytes in the stream.
    pub(super) fn size(&self) -> u64 {
        match *self {
            Self::Message(message) => message.len() as u64,
            Self::Incomplete { have, .. } => have as u64,
            Self::Missing(bytes) | Self::Skipped(bytes) => bytes,
            Self::Tls => 0,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum FramingState {
    /// The next byte starts a message.
    InStep,
    /// This many more bytes belong to a lost message.
    Passing(usize),
    /// The start of the next message is unknown; a search is worthwhile once this many bytes are
    /// available.
    Searching { worthwhile: usize },
    /// The stream contains nothing to decode.
    Ignoring,
}

/// Splits one stream into messages.
#[derive(Debug)]
pub(super) struct Framer {
    /// Bytes of an incomplete message, or to be searched.
    buffer: Vec<u8>,
    state: FramingState,
    /// Version byte of this stream's messages.
    version: Option<u8>,
    at_start: bool,
    skipped: u64,
}

impl Framer {
    /// Creates a framer for a stream that starts with a message.
    pub(super) fn from_start() -> Self {
        let state = FramingState::InStep;
        Self { buffer: Vec::new(), state, version: None, at_start: true, skipped: 0 }
    }

    /// Creates a framer for a stream that may start anywhere.
    pub(super) fn from_within() -> Self {
        Self { state: FramingState::Searching { worthwhile: 0 }, ..Self::from_start() }
    }

    /// Handles the next bytes of the stream.
    pub(super) fn data(&mut self, mut bytes: &[u8], give: &mut dyn FnMut(Frame<'_>)) {
        if let FramingState::Passing(left) = &mut self.state {
            let pass = (*left).min(bytes.len());
            bytes = &bytes[pass..];
            *left -= pass;
            if *left > 0 {
                return;
            }
            self.state = FramingState::InStep;
        }
        if self.state == FramingState::Ignoring {
            return;
        }
        self.buffer.extend_from_slice(bytes);
        if self.at_start && self.buffer.len() >= 3 {
            self.at_start = false;
            // A TLS record of type handshake, version 3.x.
            if self.buffer[..2] == [0x16, 3] && self.buffer[2] <= 4 {
                self.state = FramingState::Ignoring;
                self.buffer = Vec::new();
                return give(Frame::Tls);
            }
        }
        self.cut(false, give);
    }

    /// Handles a gap in the stream.
    pub(super) fn missing(&mut self, bytes: u64, give: &mut dyn FnMut(Frame<'_>)) {
        self.at_start = false;
        let gap = usize::try_from(bytes).unwrap_or(usize::MAX);
        let lost = match &self.state {
            FramingState::Ignoring => return,
            FramingState::Passing(left) => Some(*left),
            FramingState::Searching { .. } => {
                self.settle(give);
                None
            }
            FramingState::InStep if self.buffer.is_empty() => None,
            FramingState::InStep => {
                let size = self.size_of_first();
                give(Frame::Incomplete { size, have: self.buffer.len() });
                size.map(|size| size - self.buffer.len())
            }
        };
        give(Frame::Missing(bytes));
        self.buffer.clear();
        self.state = match lost {
            Some(lost) if gap < lost => FramingState::Passing(lost - gap),
            Some(lost) if gap == lost => FramingState::InStep,
            _ => FramingState::Searching { worthwhile: 0 },
        };
    }

    /// Handles the end of the stream.
    pub(super) fn end(&mut self, give: &mut dyn FnMut(Frame<'_>)) {
        match self.state {
            FramingState::Searching { .. } => self.settle(give),
            FramingState::InStep if !self.buffer.is_empty() => {
                give(Frame::Incomplete { size: self.size_of_first(), have: self.buffer.len() });
            }
            _ => {}
        }
        self.buffer.clear();
    }

    /// Ends a search with the available bytes.
    fn settle(&mut self, give: &mut dyn FnMut(Frame<'_>)) {
        self.cut(true, give);
        if matches!(self.state, FramingState::InStep) && !self.buffer.is_empty() {
            give(Frame::Incomplete { size: self.size_of_first(), have: self.buffer.len() });
            self.buffer.clear();
        }
        self.skipped += self.buffer.len() as u64;
        self.buffer.clear();
        self.emit_skipped(give);
    }

    /// Passes on the complete messages in the buffer and keeps the rest.
    fn cut(&mut self, last: bool, give: &mut dyn FnMut(Frame<'_>)) {
        let buffer = std::mem::take(&mut self.buffer);
        let mut at = 0;
        loop {
            if let FramingState::Searching { worthwhile } = self.state {
                let rest = &buffer[at..];
                if rest.len() < worthwhile && !last {
                    break;
                }
                match search(rest, self.version, last) {
                    Search::Found(offset) => {
                        self.skipped += offset as u64;
                        at += offset;
                        self.emit_skipped(give);
                        self.state = FramingState::InStep;
                    }
                    Search::Not { skip, worthwhile } => {
                        self.skipped += skip as u64;
                        at += skip;
                        self.state = FramingState::Searching { worthwhile };
                        break;
                    }
                }
            }
            let rest = &buffer[at..];
            let Some(size) = claimed_size(rest) else { break };
            if !plausible(rest, None) {
                // Not a header: the first byte cannot start a message, but the second might.
                self.skipped += 1;
                at += 1;
                self.state = FramingState::Searching { worthwhile: 0 };
                continue;
            }
            let Some(message) = rest.get(..size) else { break };
            self.version = Some(message[0]);
            give(Frame::Message(message));
            at += size;
        }
        self.buffer = buffer;
        self.buffer.drain(..at);
    }

    fn emit_skipped(&mut self, give: &mut dyn FnMut(Frame<'_>)) {
        if self.skipped > 0 {
            give(Frame::Skipped(std::mem::take(&mut self.skipped)));
        }
    }

    /// Returns the size of the message whose first bytes are in the buffer.
    fn size_of_first(&self) -> Option<usize> {
        claimed_size(&self.buffer).filter(|&size| size > self.buffer.len())
    }
}

/// Returns the length field of the header at the start of `bytes`, if present.
fn claimed_size(bytes: &[u8]) -> Option<usize> {
    let length = bytes.get(2..4)?;
    Some(usize::from(u16::from_be_bytes([length[0], length[1]])))
}

/// Whether `bytes`, at least 4, may start with a header of any OpenFlow version, or of `version`
/// only.
pub(super) fn plausible(bytes: &[u8], version: Option<u8>) -> bool {
    let Some(&[found, kind, ..]) = bytes.get(..4) else { return false };
    let known = Version::from_wire(found).is_ok_and(|it| Kind::from_wire(it, kind).is_ok());
    let size = claimed_size(bytes).unwrap_or(0);
    known && size >= Header::SIZE && version.is_none_or(|version| version == found)
}

enum Search {
    /// A message starts at this offset.
    Found(usize),
    /// No message starts in the first `skip` bytes; a further search needs `worthwhile` bytes after
    /// them.
    Not { skip: usize, worthwhile: usize },
}

/// Finds the first byte from which headers follow one another up to the end of the bytes, or for
/// two headers. `last` means that no more bytes follow.
fn search(bytes: &[u8], version: Option<u8>, last: bool) -> Search {
    for offset in 0..bytes.len() {
        let rest = &bytes[offset..];
        if rest.len() < Header::SIZE && !last {
            return Search::Not { skip: offset, worthwhile: Header::SIZE };
        }
        if !plausible(rest, version) {
            continue;
        }
        let size = claimed_size(rest).unwrap_or(MAX_MESSAGE_SIZE);
        match rest.get(size..) {
            Some([]) => return Search::Found(offset),
            Some(next) if next.len() >= 4 => {
                if plausible(next, Some(rest[0])) {
                    return Search::Found(offset);
                }
            }
            _ if last => {}
            Some(_) => return Search::Not { skip: offset, worthwhile: size + 4 },
            None => return Search::Not { skip: offset, worthwhile: size },
        }
    }
    Search::Not { skip: bytes.len(), worthwhile: 0 }
}

/// Iterates over consecutive messages with their offsets. Faults are left to the decoder: each
/// piece is as long as its header says, within bounds.
#[derive(Debug)]
pub(super) struct Messages<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Messages<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let start = self.at;
        let size = claimed_size(rest).unwrap_or(rest.len());
        // Only split where the following bytes look like a header; otherwise the rest is one piece.
        let message = match rest.get(size..) {
            Some(next) if size >= Header::SIZE && plausible(next, None) => &rest[..size],
            _ => rest,
        };
        self.at += message.len();
        Some((start, message))
    }
}

#[cfg(test)]
#[path = "framing/tests.rs"]
mod tests;
