//! Requests: written by the HTTP interface, read by apps.

use thiserror::Error;

use crate::{
    LONGEST_METHOD, LONGEST_TARGET, MOST_HEADER_BYTES, MOST_HEADERS, MOST_REQUEST_BODY, put_text,
    take_text, take_u16,
};

/// An HTTP request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// The method, such as `GET`.
    pub method: &'a str,
    /// The path behind the app's name, from its slash on, and the query, as the client sent them.
    pub target: &'a str,
    /// The headers, without those that identify a user.
    pub headers: HeaderList<'a>,
    /// The whole body.
    pub body: &'a [u8],
}

/// The part of a request that is too long for an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RequestTooLong {
    /// The method.
    #[error("the method is longer than {LONGEST_METHOD} bytes")]
    Method,
    /// The path and the query.
    #[error("path and query are longer than {LONGEST_TARGET} bytes")]
    Target,
    /// The headers.
    #[error(
        "there are more than {MOST_HEADERS} headers, or more than {MOST_HEADER_BYTES} bytes of them"
    )]
    Headers,
    /// The body.
    #[error("the body is longer than {MOST_REQUEST_BODY} bytes")]
    Body,
}

impl<'a> Request<'a> {
    /// Writes a request.
    ///
    /// # Errors
    /// [`RequestTooLong`].
    pub fn encode<'h>(
        method: &str,
        target: &str,
        headers: &[(&'h str, &'h str)],
        body: &[u8],
    ) -> Result<Vec<u8>, RequestTooLong> {
        if method.len() > LONGEST_METHOD {
            return Err(RequestTooLong::Method);
        }
        if target.len() > LONGEST_TARGET {
            return Err(RequestTooLong::Target);
        }
        if body.len() > MOST_REQUEST_BODY {
            return Err(RequestTooLong::Body);
        }
        let size: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let count = u16::try_from(headers.len()).ok().filter(|_| headers.len() <= MOST_HEADERS);
        let count = count.filter(|_| size <= MOST_HEADER_BYTES).ok_or(RequestTooLong::Headers)?;
        let mut out = Vec::new();
        put_text(&mut out, method);
        put_text(&mut out, target);
        out.extend(count.to_le_bytes());
        for (name, value) in headers {
            put_text(&mut out, name);
            put_text(&mut out, value);
        }
        out.extend(body);
        Ok(out)
    }

    /// Reads a request; `None` if it is malformed.
    pub fn decode(mut bytes: &'a [u8]) -> Option<Self> {
        let method = take_text(&mut bytes)?;
        let target = take_text(&mut bytes)?;
        let count = take_u16(&mut bytes)?;
        let start = bytes;
        for _ in 0..count {
            take_text(&mut bytes)?;
            take_text(&mut bytes)?;
        }
        let headers = start.get(..start.len() - bytes.len())?;
        Some(Self { method, target, headers: HeaderList(headers), body: bytes })
    }

    /// Returns the path without the query, as the client sent it.
    pub fn path(&self) -> &'a str {
        self.target.split_once('?').map_or(self.target, |(path, _)| path)
    }

    /// Returns the query behind the question mark, as the client sent it; empty if there is none.
    pub fn query(&self) -> &'a str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    /// Returns the value of the first header of this name, in any case.
    pub fn header(&self, name: &str) -> Option<&'a str> {
        self.headers.iter().find(|(it, _)| it.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// The headers of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderList<'a>(&'a [u8]);

impl<'a> HeaderList<'a> {
    /// Returns the names, in lower case, and the values.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut rest = self.0;
        std::iter::from_fn(move || Some((take_text(&mut rest)?, take_text(&mut rest)?)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn request_is_read_as_it_was_written() {
        let headers = [("accept", "text/html"), ("x-forwarded-prefix", "/apps/a")];
        let bytes = Request::encode("POST", "/a/b?c=d?", &headers, b"body").unwrap();
        let request = Request::decode(&bytes).unwrap();
        assert_eq!((request.method, request.path(), request.query()), ("POST", "/a/b", "c=d?"));
        assert!(request.headers.iter().eq(headers));
        assert_eq!(request.header("Accept"), Some("text/html"));
        assert_eq!((request.header("cookie"), request.body), (None, &b"body"[..]));
    }

    #[test]
    fn longest_request_fits_and_longer_ones_do_not() {
        let encode = |method: usize, target: usize, headers: (usize, usize), body: usize| {
            let value = "v".repeat(headers.1);
            let headers = vec![("", value.as_str()); headers.0];
            let (method, target) = ("M".repeat(method), "/".repeat(target));
            Request::encode(&method, &target, &headers, &vec![0; body])
        };
        let longest = encode(
            LONGEST_METHOD,
            LONGEST_TARGET,
            (MOST_HEADERS, MOST_HEADER_BYTES / MOST_HEADERS),
            MOST_REQUEST_BODY,
        );
        assert!(longest.unwrap().len() <= crate::PART);
        for (result, expected) in [
            (encode(LONGEST_METHOD + 1, 1, (0, 0), 0), RequestTooLong::Method),
            (encode(1, LONGEST_TARGET + 1, (0, 0), 0), RequestTooLong::Target),
            (encode(1, 1, (MOST_HEADERS + 1, 0), 0), RequestTooLong::Headers),
            (encode(1, 1, (1, MOST_HEADER_BYTES + 1), 0), RequestTooLong::Headers),
            (encode(1, 1, (0, 0), MOST_REQUEST_BODY + 1), RequestTooLong::Body),
        ] {
            assert_eq!(result, Err(expected));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(request) = Request::decode(&bytes) {
                request.headers.iter().for_each(drop);
            }
        }
    }
}
