//! Answers: written by apps, read by the HTTP interface.

use thiserror::Error;

use crate::{
    MOST_ANSWER_BODY, MOST_HEADER_BYTES, MOST_HEADERS, MOST_PARTS, PART, put_text, take_u16,
};

/// The longest name of a header, in bytes.
const LONGEST_NAME: usize = 64;

/// An app's answer to an HTTP request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The status, from 200 to 599.
    pub status: u16,
    /// Names and values of headers. The HTTP interface passes those on that concern the content alone.
    pub headers: Vec<(String, String)>,
    /// The body, at most [`MOST_ANSWER_BODY`] bytes.
    pub body: Vec<u8>,
}

impl Response {
    /// Makes an answer without headers and body.
    pub fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    /// Makes an answer of plain text.
    pub fn text(status: u16, text: impl Into<String>) -> Self {
        Self::of(status, "text/plain; charset=utf-8", text.into().into_bytes())
    }

    /// Makes an answer of HTML. A browser runs no script in it and loads nothing for it.
    pub fn html(status: u16, html: impl Into<String>) -> Self {
        Self::of(status, "text/html; charset=utf-8", html.into().into_bytes())
    }

    /// Makes an answer of a text in JSON.
    pub fn json(status: u16, json: impl Into<String>) -> Self {
        Self::of(status, "application/json", json.into().into_bytes())
    }

    /// Makes an answer of another media type.
    pub fn of(status: u16, media_type: &str, body: Vec<u8>) -> Self {
        Self { body, ..Self::new(status).header("content-type", media_type) }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes the answer as parts, each of at most [`PART`] bytes; there is at least one.
    ///
    /// # Errors
    /// [`BadAnswer`]: the HTTP interface would not accept it.
    pub fn parts(&self) -> Result<Vec<Vec<u8>>, BadAnswer> {
        check_status(self.status)?;
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut size = 0;
        for (name, value) in headers.clone() {
            check_header(name, value, &mut size)?;
        }
        let count = u16::try_from(self.headers.len()).map_err(|_| BadAnswer::Headers)?;
        if self.headers.len() > MOST_HEADERS {
            return Err(BadAnswer::Headers);
        }
        if self.body.len() > MOST_ANSWER_BODY {
            return Err(BadAnswer::Body);
        }
        let mut first = [self.status.to_le_bytes(), count.to_le_bytes()].concat();
        for (name, value) in headers {
            put_text(&mut first, name);
            put_text(&mut first, value);
        }
        let (beginning, rest) = self.body.split_at(self.body.len().min(PART - first.len()));
        first.extend(beginning);
        Ok(std::iter::once(first).chain(rest.chunks(PART).map(<[u8]>::to_vec)).collect())
    }
}

/// Why an answer is not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadAnswer {
    /// It does not have the layout.
    #[error("it is malformed")]
    Malformed,
    /// The status is none of a final answer.
    #[error("its status {0} is not from 200 to 599")]
    Status(u16),
    /// A header has a name or a value that HTTP does not allow, such as a line break.
    #[error("a header has a character that HTTP does not allow there")]
    Header,
    /// There are too many headers.
    #[error(
        "it has more than {MOST_HEADERS} headers, or more than {MOST_HEADER_BYTES} bytes of them"
    )]
    Headers,
    /// The body is too long.
    #[error("its body is longer than {MOST_ANSWER_BODY} bytes")]
    Body,
    /// It has too many parts.
    #[error("it has more than {MOST_PARTS} parts")]
    Parts,
}

/// Joins the parts of an answer.
#[derive(Debug, Default)]
pub struct Collector {
    answer: Option<Response>,
    parts: u32,
}

impl Collector {
    /// Adds the next part. Returns the answer if no part follows.
    ///
    /// # Errors
    /// [`BadAnswer`]: the answer cannot become valid any more.
    pub fn add(&mut self, part: &[u8], more: bool) -> Result<Option<Response>, BadAnswer> {
        self.parts += 1;
        if self.parts > MOST_PARTS {
            return Err(BadAnswer::Parts);
        }
        let answer = match &mut self.answer {
            None => self.answer.insert(first(part)?),
            Some(answer) => {
                if answer.body.len() + part.len() > MOST_ANSWER_BODY {
                    return Err(BadAnswer::Body);
                }
                answer.body.extend(part);
                answer
            }
        };
        if answer.body.len() > MOST_ANSWER_BODY {
            return Err(BadAnswer::Body);
        }
        Ok(if more { None } else { self.answer.take() })
    }
}

/// Reads the first part.
fn first(mut bytes: &[u8]) -> Result<Response, BadAnswer> {
    let status = take_u16(&mut bytes).ok_or(BadAnswer::Malformed)?;
    check_status(status)?;
    let count = usize::from(take_u16(&mut bytes).ok_or(BadAnswer::Malformed)?);
    if count > MOST_HEADERS {
        return Err(BadAnswer::Headers);
    }
    let mut answer = Response::new(status);
    let mut size = 0;
    let mut text = || {
        let size = usize::from(take_u16(&mut bytes)?);
        let (text, rest) = bytes.split_at_checked(size)?;
        bytes = rest;
        Some(text)
    };
    for _ in 0..count {
        let (name, value) = text().zip(text()).ok_or(BadAnswer::Malformed)?;
        let utf8 = |bytes| std::str::from_utf8(bytes).map_err(|_| BadAnswer::Header);
        let (name, value) = (utf8(name)?, utf8(value)?);
        check_header(name, value, &mut size)?;
        answer.headers.push((name.to_owned(), value.to_owned()));
    }
    answer.body = bytes.to_vec();
    Ok(answer)
}

fn check_status(status: u16) -> Result<(), BadAnswer> {
    if (200..=599).contains(&status) { Ok(()) } else { Err(BadAnswer::Status(status)) }
}

/// Checks a header, and adds its bytes to `size`.
fn check_header(name: &str, value: &str, size: &mut usize) -> Result<(), BadAnswer> {
    if !is_name(name) || !is_value(value) {
        return Err(BadAnswer::Header);
    }
    *size += name.len() + value.len();
    if *size > MOST_HEADER_BYTES { Err(BadAnswer::Headers) } else { Ok(()) }
}

/// Returns whether a header can have this name (RFC 9110 §5.6.2, a token).
pub fn is_name(text: &str) -> bool {
    let is_mark = |it: u8| b"!#$%&'*+-.^_`|~".contains(&it);
    (1..=LONGEST_NAME).contains(&text.len())
        && text.bytes().all(|it| it.is_ascii_alphanumeric() || is_mark(it))
}

/// Returns whether a header can have this value (RFC 9110 §5.5, without the obsolete bytes): visible ASCII, spaces and tabs
/// between.
pub fn is_value(text: &str) -> bool {
    let is_allowed = |it: u8| it == b'\t' || (b' '..=b'~').contains(&it);
    let is_trimmed = |it: Option<&u8>| it.is_none_or(u8::is_ascii_graphic);
    let bytes = text.as_bytes();
    bytes.iter().all(|it| is_allowed(*it)) && is_trimmed(bytes.first()) && is_trimmed(bytes.last())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Joins parts as the HTTP interface does.
    fn collect(parts: &[Vec<u8>]) -> Result<Option<Response>, BadAnswer> {
        let mut collector = Collector::default();
        for (number, part) in parts.iter().enumerate() {
            let answer = collector.add(part, number + 1 < parts.len())?;
            if answer.is_some() {
                return Ok(answer);
            }
        }
        Ok(None)
    }

    /// A first part with these headers.
    fn part(status: u16, headers: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut out = status.to_le_bytes().to_vec();
        out.extend(u16::try_from(headers.len()).unwrap().to_le_bytes());
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            out.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
            out.extend(*text);
        }
        out
    }

    #[test]
    fn answers_of_all_sizes_arrive() {
        for size in [0, 1, PART - 100, PART, 3 * PART, MOST_ANSWER_BODY] {
            let body = (0..size).map(|it| u8::try_from(it % 251).unwrap()).collect();
            let answer = Response::of(201, "image/png", body).header("etag", "\"x y\"");
            let parts = answer.parts().unwrap();
            assert!(parts.iter().all(|part| part.len() <= PART));
            assert_eq!(collect(&parts), Ok(Some(answer)), "{size}");
        }
    }

    #[test]
    fn invalid_answers_are_refused_on_both_sides() {
        let long = "v".repeat(MOST_HEADER_BYTES);
        let many = (0..=MOST_HEADERS).fold(Response::new(200), |it, _| it.header("a", "b"));
        for (answer, expected) in [
            (Response::new(0), BadAnswer::Status(0)),
            (Response::new(101), BadAnswer::Status(101)),
            (Response::new(600), BadAnswer::Status(600)),
            (Response::new(200).header("a", "b\r\nset-cookie: c"), BadAnswer::Header),
            (Response::new(200).header("a\r\nb", "c"), BadAnswer::Header),
            (Response::new(200).header("a b", "c"), BadAnswer::Header),
            (Response::new(200).header("", "c"), BadAnswer::Header),
            (Response::new(200).header("a", "\0"), BadAnswer::Header),
            (Response::new(200).header("a", "ä"), BadAnswer::Header),
            (Response::new(200).header("a", " b"), BadAnswer::Header),
            (Response::new(200).header("a", &long), BadAnswer::Headers),
            (many, BadAnswer::Headers),
            (Response::of(200, "a/b", vec![0; MOST_ANSWER_BODY + 1]), BadAnswer::Body),
        ] {
            assert_eq!(answer.parts(), Err(expected));
            if expected != BadAnswer::Body {
                let headers: Vec<(&[u8], &[u8])> = answer
                    .headers
                    .iter()
                    .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
                    .collect();
                let read = Collector::default().add(&part(answer.status, &headers), false);
                assert_eq!(read, Err(expected));
            }
        }
    }

    #[test]
    fn endless_answers_are_refused() {
        let mut long = Collector::default();
        let result = (0..MOST_PARTS).find_map(|number| {
            let bytes = if number == 0 { part(200, &[]) } else { vec![0; PART] };
            long.add(&bytes, true).err()
        });
        assert_eq!(result, Some(BadAnswer::Body));
        let mut empty = Collector::default();
        empty.add(&part(200, &[]), true).unwrap();
        let result = (0..MOST_PARTS).find_map(|_| empty.add(&[], true).err());
        assert_eq!(result, Some(BadAnswer::Parts));
    }

    #[test]
    fn malformed_parts_are_refused() {
        for bytes in [
            &[][..],
            &[200],
            &[200, 0],
            &[200, 0, 1],
            &[200, 0, 1, 0],
            &[200, 0, 1, 0, 1, 0, b'a'],
            &[200, 0, 1, 0, 255, 255, b'a'],
        ] {
            assert_eq!(Collector::default().add(bytes, false), Err(BadAnswer::Malformed));
        }
        assert_eq!(
            Collector::default().add(&part(200, &[(b"a", &[0xff])]), false),
            Err(BadAnswer::Header)
        );
    }

    proptest! {
        #[test]
        fn accepted_answers_are_within_all_bounds(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..5),
            status in 0..700_u16,
        ) {
            let mut parts = parts;
            if let [low, high, ..] = &mut parts[0][..] {
                [*low, *high] = status.to_le_bytes();
            }
            if let Ok(Some(answer)) = collect(&parts) {
                prop_assert!(answer.parts().is_ok());
            }
        }
    }
}
