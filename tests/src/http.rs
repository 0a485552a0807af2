//! Speaks HTTP/1.1 with the HTTP interface, well or badly.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(40);

/// The default address of the interface.
pub const API: &str = "127.0.0.1:8181";

/// The default address of the routes of apps.
pub const APP_ROUTES: &str = "127.0.0.1:8182";

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The head, in lower case.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find(|line| line.starts_with(&format!("{name}:")))?;
        Some(line.split_once(':')?.1.trim())
    }
}

/// Sends a request with these headers and this body to `API`, and receives the answer.
///
/// # Errors
/// The connection fails, or the answer is malformed.
pub fn request(
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> anyhow::Result<Answer> {
    request_at(API, (method, path), headers, body)
}

/// Sends a request with this method and path to another address.
///
/// # Errors
/// As [`request`].
pub fn request_at(
    address: &str,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: &[u8],
) -> anyhow::Result<Answer> {
    let mut lines = vec![format!("{method} {path} HTTP/1.1")];
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        lines.push(format!("Host: {address}"));
    }
    lines.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
    if !body.is_empty() {
        lines.push(format!("Content-Length: {}", body.len()));
    }
    lines.push("Connection: close\r\n\r\n".into());
    let head = lines.join("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend(body);
    exchange_with(connect_to(address)?, &bytes)
}

/// Sends bytes and receives the answer.
///
/// # Errors
/// As [`request`].
pub fn exchange(bytes: &[u8]) -> anyhow::Result<Answer> {
    exchange_with(connect()?, bytes)
}

fn exchange_with(mut stream: TcpStream, bytes: &[u8]) -> anyhow::Result<Answer> {
    // The server may answer and close before it has read everything.
    let _ = stream.write_all(bytes);
    let mut received = Vec::new();
    match stream.read_to_end(&mut received) {
        Err(error) if received.is_empty() => return Err(error.into()),
        _ => {}
    }
    parse(&received).context("the answer is malformed")
}

/// Connects to the interface.
///
/// # Errors
/// It does not accept the connection.
pub fn connect() -> io::Result<TcpStream> {
    connect_to(API)
}

fn connect_to(address: &str) -> io::Result<TcpStream> {
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    let stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    Ok(stream)
}

fn parse(received: &[u8]) -> Option<Answer> {
    let end = received.windows(4).position(|it| it == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(received.get(..end)?).to_ascii_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let rest = received.get(end + 4..)?;
    let body =
        if head.contains("transfer-encoding: chunked") { unchunked(rest) } else { rest.to_vec() };
    Some(Answer { status, head, body })
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|it| it == b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).ok();
        let Some(size) = size.and_then(|it| usize::from_str_radix(it, 16).ok()) else { break };
        let from = end + 2;
        let Some(chunk) = rest.get(from..from + size).filter(|it| !it.is_empty()) else { break };
        body.extend(chunk);
        rest = rest.get(from + size + 2..).unwrap_or_default();
    }
    body
}
