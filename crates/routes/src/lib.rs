//! Defines the messages between the HTTP interface and an app that publishes routes: requests, and answers in parts.
//!
//! The HTTP interface writes requests and reads answers; an app does the reverse. Each side may be hostile to the other, so
//! every length is checked, and nothing here does I/O. Numbers are little endian.
//!
//! ```text
//! request       method: u16, bytes | target: u16, bytes | headers | the body
//! first part    status: u16 | headers | the beginning of the body
//! further part  the body goes on
//! headers       their number: u16 | for each its name: u16, bytes | its value: u16, bytes
//! ```
//!
//! Each of these is one packet of a socket, behind the number of the request. A part also states whether another one follows.

#![forbid(unsafe_code)]

mod answer;
mod request;

pub use answer::{BadAnswer, Collector, Response, is_name, is_value};
pub use request::{HeaderList, Request, RequestTooLong};

/// The most bytes of a request or of a part of an answer.
pub const PART: usize = 40 * 1024;

/// The longest method, in bytes.
pub const LONGEST_METHOD: usize = 16;

/// The longest target, path and query, in bytes.
pub const LONGEST_TARGET: usize = 4 * 1024;

/// The most headers of a request or an answer.
pub const MOST_HEADERS: usize = 64;

/// The most bytes of all names and values of headers.
pub const MOST_HEADER_BYTES: usize = 8 * 1024;

/// The most bytes of a request's body. A whole request fits in [`PART`].
pub const MOST_REQUEST_BODY: usize = 24 * 1024;

/// The most bytes of an answer's body.
pub const MOST_ANSWER_BODY: usize = 512 * 1024;

/// The most parts of an answer. An answer that fills its parts has fewer.
pub const MOST_PARTS: u32 = 64;

const _: () = assert!(
    LONGEST_METHOD + LONGEST_TARGET + MOST_HEADER_BYTES + 4 * MOST_HEADERS + MOST_REQUEST_BODY + 6
        <= PART
);
const _: () = assert!(MOST_ANSWER_BODY / (PART / 2) < MOST_PARTS as usize);

/// Takes the next two bytes as a number.
fn take_u16(bytes: &mut &[u8]) -> Option<u16> {
    let (head, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u16::from_le_bytes(*head))
}

/// Takes the next text, which stands behind its length.
fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let size = usize::from(take_u16(bytes)?);
    let (text, rest) = bytes.split_at_checked(size)?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
}

/// Writes a text behind its length. The caller has checked that it is short.
fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes());
    out.extend(text.as_bytes());
}
