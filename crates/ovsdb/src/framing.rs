//! Cuts a stream of bytes into JSON objects (RFC 7047 §4), before any of them is parsed.
//!
//! OVSDB sends one JSON object after the other, without lengths. The splitter looks at each byte once and counts brackets outside of
//! strings. It trusts nothing: the size of a message, its depth and the number of its values are bounded, so that a parser
//! that allocates for each value stays bounded too.

use thiserror::Error;

/// The bounds of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    /// Most bytes of a message.
    pub size: usize,
    /// Most brackets that are open at once.
    pub depth: usize,
    /// Most values of a message, names of members included. Parsed, each takes at most some 100 bytes beside its text.
    pub values: usize,
}

impl Default for FrameLimits {
    fn default() -> Self {
        Self { size: 8 << 20, depth: 64, values: 1 << 19 }
    }
}

/// The bytes are no messages, or a message exceeds a bound.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FrameError {
    /// Something else than an object stands between two messages.
    #[error(
        "byte {0:#04x} begins no JSON object; name the address of an OVSDB server, with ssl: if it expects TLS"
    )]
    NoObject(u8),
    /// A message exceeds [`FrameLimits::size`].
    #[error("a message has more than {0} bytes; select fewer tables or columns")]
    TooLarge(usize),
    /// A message exceeds [`FrameLimits::depth`].
    #[error("a message has more than {0} brackets inside each other, which no OVSDB server sends")]
    TooDeep(usize),
    /// A message exceeds [`FrameLimits::values`].
    #[error("a message has more than {0} values; select fewer tables or columns")]
    TooManyValues(usize),
}

/// Collects the bytes of one message at a time.
#[derive(Debug)]
pub struct Splitter {
    limits: FrameLimits,
    partial: Vec<u8>,
    depth: usize,
    values: usize,
    position: Position,
}

/// Where in the text of JSON the next byte stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Outside of strings.
    Outside,
    /// Inside a string.
    Text,
    /// Inside a string, behind a backslash.
    Escape,
}

impl Splitter {
    /// Creates a splitter at the beginning of a stream.
    pub fn new(limits: FrameLimits) -> Self {
        Self { limits, partial: Vec::new(), depth: 0, values: 0, position: Position::Outside }
    }

    /// Returns the next whole message, and removes its bytes from the beginning of `input`. Returns `None` once all of `input` is
    /// consumed and the rest of the message is in the next bytes.
    ///
    /// The result is one object by its brackets; only a parser can tell whether it is JSON.
    ///
    /// # Errors
    /// [`FrameError`]: the stream cannot be continued.
    pub fn take(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, FrameError> {
        if self.depth == 0 {
            *input = input.trim_ascii_start();
        }
        let mut end = None;
        for (at, byte) in input.iter().enumerate() {
            if self.partial.len() + at >= self.limits.size {
                return Err(FrameError::TooLarge(self.limits.size));
            }
            if self.is_end(*byte)? {
                end = Some(at + 1);
                break;
            }
        }
        let (taken, rest) = input.split_at(end.unwrap_or(input.len()));
        self.partial.extend_from_slice(taken);
        *input = rest;
        Ok(end.map(|_| {
            self.values = 0;
            std::mem::take(&mut self.partial)
        }))
    }

    /// Whether bytes of an unfinished message are kept.
    pub fn is_inside_message(&self) -> bool {
        self.depth > 0
    }

    /// Handles one byte; returns true if it closes the message.
    fn is_end(&mut self, byte: u8) -> Result<bool, FrameError> {
        self.position = match (self.position, byte) {
            (Position::Text, b'\\') => Position::Escape,
            (Position::Text, b'"') => Position::Outside,
            (Position::Text | Position::Escape, _) => Position::Text,
            (Position::Outside, _) => return self.is_end_outside(byte),
        };
        Ok(false)
    }

    /// Handles one byte outside of strings.
    fn is_end_outside(&mut self, byte: u8) -> Result<bool, FrameError> {
        match byte {
            b'{' => self.open()?,
            _ if self.depth == 0 => return Err(FrameError::NoObject(byte)),
            b'[' => self.open()?,
            b'"' => self.position = Position::Text,
            b',' | b':' => self.count()?,
            b'}' | b']' => {
                self.depth -= 1;
                return Ok(self.depth == 0);
            }
            _ => {}
        }
        Ok(false)
    }

    fn open(&mut self) -> Result<(), FrameError> {
        self.depth += 1;
        if self.depth > self.limits.depth {
            return Err(FrameError::TooDeep(self.limits.depth));
        }
        self.count()
    }

    fn count(&mut self) -> Result<(), FrameError> {
        self.values += 1;
        if self.values > self.limits.values {
            return Err(FrameError::TooManyValues(self.limits.values));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = br#" {"a":"}\"{","b":[1,{"c":[]}]}
        {"d":"\\"}{}"#;

    fn all(splitter: &mut Splitter, mut input: &[u8]) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        while let Some(message) = splitter.take(&mut input).unwrap() {
            messages.push(message);
        }
        assert_eq!(input, b"");
        messages
    }

    #[test]
    fn messages_are_the_same_however_the_stream_is_cut() {
        let expected = [&br#"{"a":"}\"{","b":[1,{"c":[]}]}"#[..], br#"{"d":"\\"}"#, b"{}"];
        for cut in 0..=STREAM.len() {
            let mut splitter = Splitter::new(FrameLimits::default());
            let (first, second) = STREAM.split_at(cut);
            let mut messages = all(&mut splitter, first);
            messages.extend(all(&mut splitter, second));
            assert_eq!(messages, expected, "cut at {cut}");
            assert!(!splitter.is_inside_message());
        }
    }

    #[test]
    fn every_bound_is_an_error() {
        let limits = FrameLimits { size: 32, depth: 4, values: 8 };
        let take = |mut input: &[u8]| Splitter::new(limits).take(&mut input);
        assert_eq!(take(b"{\"aaaaaaaaaaaaaaaaaaaaaaaaaa\":1}").unwrap().unwrap().len(), 32);
        assert_eq!(take(&[b"{\"".as_slice(), &[b'a'; 40]].concat()), Err(FrameError::TooLarge(32)));
        assert_eq!(take(b"{[[[["), Err(FrameError::TooDeep(4)));
        assert_eq!(take(b"{[0,0,0,0,0,0,0,0"), Err(FrameError::TooManyValues(8)));
        assert_eq!(take(b"\x16\x03\x01"), Err(FrameError::NoObject(0x16)), "a TLS handshake");
        assert_eq!(take(b"[]"), Err(FrameError::NoObject(b'[')));
    }

    #[test]
    fn endless_string_is_kept_up_to_the_bound_only() {
        let limits = FrameLimits { size: 1 << 20, ..FrameLimits::default() };
        let mut splitter = Splitter::new(limits);
        let mut input: &[u8] = b"{\"";
        assert_eq!(splitter.take(&mut input), Ok(None));
        let chunk = [b'\\'; 4096];
        let failed = (0..1000).find(|_| splitter.take(&mut &chunk[..]).is_err());
        assert_eq!(failed, Some(255), "1 MiB of chunks");
        assert!(splitter.partial.capacity() <= 2 << 20);
    }
}
