//! Streams of events end with the token, session or certificate that opened them.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rosemary_tests::developer::rosemary;
use rosemary_tests::http::{API, connect, request};
use rosemary_tests::in_a_lab;
use serde_json::json;

use super::{post, start};

/// How long after the end of its credential a stream may last.
const SOON_AFTER: Duration = Duration::from_secs(1);

/// The code in the close frame with which a WebSocket ends: 1008 (RFC 6455, sections 5.5.1 and 7.4.1).
const CLOSE_CODE: [u8; 2] = 1008_u16.to_be_bytes();

/// A client that receives events.
struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    /// Opens a stream with a token, or without one, and receives its first event.
    fn open(token: Option<&str>, is_socket: bool) -> anyhow::Result<Self> {
        let mut stream = connect()?;
        stream.set_read_timeout(Some(Duration::from_millis(50)))?;
        let token = token.map(|it| format!("Authorization: Bearer {it}\r\n")).unwrap_or_default();
        let kind = if is_socket {
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        } else {
            "Connection: close\r\n"
        };
        write!(stream, "GET /api/v1/events HTTP/1.1\r\nHost: {API}\r\n{token}{kind}\r\n")?;
        let mut client = Self { stream, received: Vec::new() };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !client.text().contains("hello") {
            ensure!(Instant::now() < deadline && client.is_open()?, "{}", client.text());
        }
        Ok(client)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.received).into_owned()
    }

    /// Receives for a moment. Returns whether the server has not ended the stream.
    fn is_open(&mut self) -> anyhow::Result<bool> {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => Ok(false),
            Ok(size) => {
                self.received.extend(&bytes[..size]);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the server ends the stream.
    fn must_end_by(&mut self, deadline: Instant) -> anyhow::Result<()> {
        while self.is_open()? {
            ensure!(Instant::now() < deadline, "it is open: {}", self.text());
        }
        Ok(())
    }
}

#[test]
fn event_streams_end_with_their_tokens() {
    in_a_lab(|lab| {
        let _rosemary = start(lab)?;
        let new = |name: &str, more: &[&str]| -> anyhow::Result<String> {
            let args = ["token", "create", "--role", "viewer", "--name", name];
            Ok(rosemary(lab, &[&args, more].concat())?.trim().to_owned())
        };
        let (ci, other) = (new("ci", &[])?, new("other", &[])?);
        let mut events = Client::open(Some(&ci), false)?;
        let mut socket = Client::open(Some(&ci), true)?;
        let mut others = [
            Client::open(Some(&other), false)?,
            Client::open(Some(&other), true)?,
            Client::open(None, false)?,
        ];
        ensure!(events.is_open()? && socket.is_open()?);
        rosemary(lab, &["token", "revoke", "ci"])?;
        let deadline = Instant::now() + SOON_AFTER;
        events.must_end_by(deadline)?;
        ensure!(events.received.ends_with(b"\r\n0\r\n\r\n"), "a complete body: {}", events.text());
        socket.must_end_by(deadline)?;
        let close = socket.received.windows(4).find(|it| it[0] == 0x88);
        ensure!(close.is_some_and(|it| it[2..] == CLOSE_CODE), "{:?}", socket.received);

        // A token that expires, and a session that its user ends.
        let short = new("short", &["--expires", "3s"])?;
        let expires = Instant::now() + Duration::from_secs(3);
        let mut short = [Client::open(Some(&short), false)?, Client::open(Some(&short), true)?];
        let address = rosemary(lab, &["ui", "--no-open", "--role", "viewer"])?;
        let (_, once) = address.trim().split_once("#login=").context("a token")?;
        let session = post("/api/v1/session", &json!({ "one_time_token": once }))?.json();
        let session = session["token"].as_str().context("a session")?.to_owned();
        let mut page = Client::open(Some(&session), false)?;
        ensure!(page.is_open()?);
        let bearer = format!("Bearer {session}");
        let end = request("DELETE", "/api/v1/session", &[("Authorization", &bearer)], b"")?;
        ensure!(end.status == 204, "{end:?}");
        page.must_end_by(Instant::now() + SOON_AFTER)?;
        for client in &mut short {
            client.must_end_by(expires + SOON_AFTER)?;
        }
        for client in &mut others {
            ensure!(client.is_open()?, "{}", client.text());
        }
        Ok(())
    });
}
