//! Reads server-sent events from the HTTP interface over its Unix socket.
//!
//! The request is HTTP/1.0, so the answer is the plain stream of lines until the server closes it. Each line has a bound. The
//! interface sends a comment every 15 s without an event, so a longer silence means that the connection is dead.

use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

/// A silence after which the connection is dead.
const SILENCE: Duration = Duration::from_secs(40);

/// The longest wait of a read, after which the caller learns that time has passed.
const READ_TIMEOUT: Duration = Duration::from_millis(500);

/// The time for the head of the answer.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of a line in bytes. An incident with its evidence is the largest event.
const MAX_LINE: usize = 1 << 20;

/// Maximum number of lines in the head of the answer.
const MAX_HEAD_LINES: usize = 100;

/// Maximum size of the body of a refusal in bytes.
const MAX_PROBLEM: u64 = 64 << 10;

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Event {
    /// Its number; `None` for an event of this connection alone.
    pub(super) id: Option<u64>,
    pub(super) kind: String,
    /// Nanoseconds since the Unix epoch.
    pub(super) time: u64,
    pub(super) data: Value,
}

/// Why there are no events.
#[derive(Debug, Error)]
pub(super) enum StreamError {
    /// The socket does not exist.
    #[error("the HTTP interface does not run (no {path})")]
    NoSocket {
        /// The socket.
        path: PathBuf,
    },
    /// The interface has answered with an error.
    #[error("the HTTP interface refused: {problem}")]
    Refused {
        /// Its reason.
        problem: String,
    },
    /// The interface ended the stream, as it does when it stops.
    #[error("the HTTP interface has ended the stream")]
    Ended,
    /// The interface sent neither an event nor a sign of life.
    #[error("the HTTP interface is silent")]
    Silent,
    /// A line is no part of a stream of events.
    #[error("the HTTP interface sent {0}")]
    Malformed(&'static str),
    /// The connection failed.
    #[error("the connection to the HTTP interface failed: {0}")]
    Io(#[from] io::Error),
}

/// A connection.
#[derive(Debug)]
pub(super) struct Stream {
    reader: BufReader<UnixStream>,
    lines: Lines,
    /// When a byte was last received.
    heard: Instant,
}

impl Stream {
    /// Connects, and resumes after event number `last`.
    ///
    /// # Errors
    /// [`StreamError`].
    pub(super) fn open(
        socket: &Path,
        kinds: &[&str],
        last: Option<u64>,
    ) -> Result<Self, StreamError> {
        let mut stream = UnixStream::connect(socket).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StreamError::NoSocket { path: socket.to_owned() },
            _ => error.into(),
        })?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        stream.set_write_timeout(Some(HEAD_TIMEOUT))?;
        let last = last.map(|last| format!("&last={last}")).unwrap_or_default();
        let path = format!("/api/v1/events?kinds={}{last}", kinds.join(","));
        write!(
            stream,
            "GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        )?;
        let (reader, lines) = (BufReader::new(stream), Lines::default());
        let mut stream = Self { reader, lines, heard: Instant::now() };
        stream.read_head()?;
        Ok(stream)
    }

    /// Reads the head of the answer, and the body if it is a refusal.
    fn read_head(&mut self) -> Result<(), StreamError> {
        let deadline = Instant::now() + HEAD_TIMEOUT;
        let mut status = None;
        for _ in 0..MAX_HEAD_LINES {
            let line = loop {
                if let Some(line) = self.read_line()? {
                    break line;
                }
                if Instant::now() >= deadline {
                    return Err(StreamError::Silent);
                }
            };
            match &status {
                None => status = Some(line),
                Some(status) if line.is_empty() => {
                    return match status.split(' ').nth(1) {
                        Some("200") => Ok(()),
                        Some(_) => Err(self.refusal(status)),
                        None => Err(StreamError::Malformed("no HTTP answer")),
                    };
                }
                Some(_) => {}
            }
        }
        Err(StreamError::Malformed("an endless head"))
    }

    /// Reads the body of a refusal, a problem as JSON (RFC 9457).
    fn refusal(&mut self, status: &str) -> StreamError {
        let mut body = Vec::new();
        // A body that is cut, or comes too late, leaves the status alone.
        let _ = (&mut self.reader).take(MAX_PROBLEM).read_to_end(&mut body);
        let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
        let text = |field: &str| problem[field].as_str();
        let problem = match (text("detail"), text("hint")) {
            (Some(detail), Some(hint)) => format!("{detail}; {hint}"),
            (Some(detail), None) => detail.to_owned(),
            (None, _) => status.to_owned(),
        };
        StreamError::Refused { problem }
    }

    /// Waits for the next event. `None` if half a second, or the time until `end`, passed without one.
    ///
    /// # Errors
    /// [`StreamError`]; the stream is of no use afterwards.
    pub(super) fn next(&mut self, end: Option<Instant>) -> Result<Option<Event>, StreamError> {
        loop {
            match self.read_line()? {
                Some(line) => {
                    if let Some(event) = self.lines.push(&line, now_ns())? {
                        return Ok(Some(event));
                    }
                }
                None if self.heard.elapsed() > SILENCE => return Err(StreamError::Silent),
                None => return Ok(None),
            }
            if end.is_some_and(|end| end <= Instant::now()) {
                return Ok(None);
            }
        }
    }

    /// Reads a line without its end; `None` if it is not complete yet.
    fn read_line(&mut self) -> Result<Option<String>, StreamError> {
        let partial = &mut self.lines.partial;
        let room = u64::try_from((MAX_LINE + 1).saturating_sub(partial.len())).unwrap_or(0);
        let size_before = partial.len();
        let outcome = (&mut self.reader).take(room).read_until(b'\n', partial);
        if partial.len() > size_before {
            self.heard = Instant::now();
        }
        match outcome {
            Err(error) if is_timeout(&error) => return Ok(None),
            Err(error) => return Err(error.into()),
            Ok(_) if partial.ends_with(b"\n") => {}
            Ok(_) if partial.len() > MAX_LINE => {
                return Err(StreamError::Malformed("an endless line"));
            }
            Ok(_) => return Err(StreamError::Ended),
        }
        partial.pop();
        if partial.ends_with(b"\r") {
            partial.pop();
        }
        let line = String::from_utf8(std::mem::take(partial));
        line.map(Some).map_err(|_| StreamError::Malformed("a line that is no UTF-8"))
    }
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// Makes events of lines (HTML Standard §9.2.6).
#[derive(Debug, Default)]
struct Lines {
    /// The bytes of a line that is not complete.
    partial: Vec<u8>,
    id: Option<u64>,
    kind: Option<String>,
    time: Option<u64>,
    data: Option<String>,
}

impl Lines {
    /// Takes a line, and returns the event that it completes. `now` is the time of an event without one, in nanoseconds since
    /// the Unix epoch.
    fn push(&mut self, line: &str, now: u64) -> Result<Option<Event>, StreamError> {
        if line.is_empty() {
            let Self { id, kind, time, data, .. } = std::mem::take(self);
            let Some(data) = data else { return Ok(None) };
            let data = serde_json::from_str(&data)
                .map_err(|_| StreamError::Malformed("an event that is no JSON"))?;
            let kind = kind.ok_or(StreamError::Malformed("an event without a kind"))?;
            return Ok(Some(Event { id, kind, time: time.unwrap_or(now), data }));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.id = value.parse().ok(),
            "event" => self.kind = Some(value.to_owned()),
            "time" => self.time = value.parse().ok(),
            // The interface writes the data of an event as one line.
            "data" => self.data = Some(value.to_owned()),
            _ => {} // a comment, or a field of a newer interface
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use serde_json::json;

    use super::*;

    /// Serves `answer` to one client, and returns the client's stream and the server's thread, which returns the request.
    fn serve(
        answer: &'static [u8],
        last: Option<u64>,
    ) -> (Result<Stream, StreamError>, std::thread::JoinHandle<String>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("api.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let server = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                client.read_exact(&mut byte).unwrap();
                request.extend(byte);
            }
            let _ = client.write_all(answer); // the client may be closed
            String::from_utf8(request).unwrap()
        });
        (Stream::open(&path, &["switch", "app"], last), server)
    }

    #[test]
    fn events_are_read_until_the_stream_ends() {
        let answer = b"HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n\
            id: 4\nevent: hello\ntime: 7\ndata: {\"last\":4}\n\n: still here\n\n\
            event: lost\ntime: 8\ndata: {\"missed\":2}\n\nid: 5\nevent: switch\nnew: x\ntime: 9\ndata: {\"dpid\":\"1\"}\n\n";
        let (stream, server) = serve(answer, Some(3));
        let mut stream = stream.unwrap();
        let mut seen = Vec::new();
        let error = loop {
            match stream.next(None) {
                Ok(event) => seen.extend(event.map(|it| (it.id, it.kind, it.time, it.data))),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, StreamError::Ended), "{error}");
        let expected = [
            (Some(4), "hello".to_owned(), 7, json!({ "last": 4 })),
            (None, "lost".to_owned(), 8, json!({ "missed": 2 })),
            (Some(5), "switch".to_owned(), 9, json!({ "dpid": "1" })),
        ];
        assert_eq!(seen, expected);
        let request = server.join().unwrap();
        assert!(request.starts_with("GET /api/v1/events?kinds=switch,app&last=3 HTTP/1.0\r\n"));
    }

    #[test]
    fn refusal_shows_reason_and_remedy() {
        let answer = b"HTTP/1.0 403 Forbidden\r\n\r\n{\"detail\":\"you have no role\",\"hint\":\"ask root\"}";
        let (stream, server) = serve(answer, None);
        let error = stream.unwrap_err().to_string();
        assert_eq!(error, "the HTTP interface refused: you have no role; ask root");
        server.join().unwrap();
    }

    #[test]
    fn answers_without_end_are_refused() {
        let head = b"HTTP/1.0 200 OK\r\n\r\n";
        for (answer, expected) in [
            (vec![b'x'; MAX_LINE + 2], "an endless line"),
            (b"a: b\r\n".repeat(MAX_HEAD_LINES + 1), "an endless head"),
            ([&head[..], &vec![b'x'; MAX_LINE + 2]].concat(), "an endless line"),
            ([&head[..], b"data: x\n\n"].concat(), "no JSON"),
            ([&head[..], b"\xff\n"].concat(), "no UTF-8"),
        ] {
            let (stream, server) = serve(answer.leak(), None);
            let error = stream.and_then(|mut it| it.next(None)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            server.join().unwrap();
        }
    }

    #[test]
    fn missing_socket_is_named() {
        let error = Stream::open(Path::new("/nowhere/api.sock"), &[], None).unwrap_err();
        assert!(matches!(error, StreamError::NoSocket { .. }), "{error}");
    }
}
