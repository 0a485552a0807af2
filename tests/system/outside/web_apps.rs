//! Attacks on the web interface of an app of Ryu, and on its `WebSocket`s: they harm that app at most.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of};
use cli::status::Report;
use rosemary_tests::apps::{configure, in_python};
use rosemary_tests::net::{INTERVAL, Net};
use rosemary_tests::verdicts::Verdicts;
use rosemary_tests::{in_a_lab_without_capture_for, rosemary_binary};
use rustix::net::sockopt::set_socket_linger;

use super::beside::{memory_kib, pid, raw_characters};

const LIMIT: Duration = Duration::from_secs(500);

const SWITCH: &str = "[[app]]\nname = \"learning-switch\"\n\n";

/// The ports of the app that is attacked, and of another one.
const WEB: u16 = 18080;
const OTHER: u16 = 18081;

/// The memory limit of both, in MiB.
const MEMORY: u64 = 192;

/// Mapped files of the interpreter, in MiB: its process has them, and the limit does not count them.
const MAPPED: u64 = 64;

/// How long the attackers stay.
const HELD: Duration = Duration::from_secs(3);

/// The longest wait of a client for a connection, or for a part of an answer.
const PATIENCE: Duration = Duration::from_secs(4);

/// The longest time after which the app answers again, with a restart on a busy machine.
const AGAIN: Duration = Duration::from_secs(30);

/// The largest chunk of data that an attacker sends at once, in bytes.
const CHUNK: usize = 1 << 16;

/// The app that is attacked, and the others beside it.
struct Bed<'lab> {
    net: Net<'lab>,
    verdicts: Verdicts,
}

impl<'lab> Bed<'lab> {
    fn start(lab: &'lab Lab) -> anyhow::Result<Self> {
        sys::process::raise_descriptor_limit()?;
        let web = |name: &str, port: u16| {
            let keys = format!(
                "host = \"ryu\"\nstage = \"observe\"\ncapabilities = [\"packet-in\"]\nlisten = [\"wsapi=127.0.0.1:{port}\"]\n\
                 limits = {{ memory = \"{MEMORY} MiB\", log-bytes-per-second = \"64 KiB\" }}"
            );
            in_python(name, "system/outside/apps/web.py", &keys)
        };
        configure(&[SWITCH, &web("web", WEB), &web("other", OTHER)])?;
        let net = Net::start(lab, Of::V1_3)?;
        ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.received > 0, "there is a flow");
        answers_again(WEB)?;
        answers_again(OTHER)?;
        Ok(Self { net, verdicts: Verdicts::default() })
    }

    /// Runs an attack on the app `web` beside the others. The attackers stay for a while after it, and then leave.
    fn attacked<A>(&mut self, name: &str, attack: impl FnOnce() -> anyhow::Result<(String, A)>) {
        self.verdicts.beside(&mut self.net, name, |net| {
            let (before, is_over) = (net.status()?, AtomicBool::new(false));
            let (attacked, seen) = thread::scope(|scope| {
                let observing = scope.spawn(|| observe(&is_over));
                let attacked = attack();
                thread::sleep(HELD);
                is_over.store(true, Ordering::Relaxed);
                (attacked, observing.join())
            });
            let (said, attackers) = attacked?;
            let seen = seen.ok().context("the observing thread panicked")??;
            ensure!(net.h3.ping(&net.h1, 3, INTERVAL)?.received > 0, "h3 does not reach h1");
            drop(attackers);
            let again = answers_again(WEB)?;
            let after = net.status()?;
            for app in ["other", "learning-switch"] {
                ensure!(pid(&after, app)? == pid(&before, app)?, "{app} was restarted");
            }
            ensure!(seen.largest >> 10 < MEMORY + MAPPED, "the app has {} KiB", seen.largest);
            let restarts = |status: &Report| status.app("web").map_or(0, |app| app.restarts);
            Ok(format!(
                "{said}; the app: {} restarts, at most {} MiB, answered again after {again:.1?}; the other app answered in at most {:.0?}",
                restarts(&after) - restarts(&before),
                seen.largest >> 10,
                seen.slowest
            ))
        });
    }
}

/// Measurements during an attack.
#[derive(Default)]
struct Seen {
    /// The longest time of an answer of the other app.
    slowest: Duration,
    /// The most memory of the app that is attacked, in KiB.
    largest: u64,
}

fn observe(is_over: &AtomicBool) -> anyhow::Result<Seen> {
    let mut seen = Seen::default();
    while !is_over.load(Ordering::Relaxed) {
        let output =
            std::process::Command::new(rosemary_binary()).args(["status", "--json"]).output()?;
        let status: Report = serde_json::from_slice(&output.stdout)?;
        let web = status.app("web").and_then(|app| app.pid);
        for _ in 0..10 {
            seen.slowest = seen.slowest.max(hello(OTHER).context("the other app does not answer")?);
            // The app may end.
            seen.largest = seen.largest.max(web.and_then(|pid| memory_kib(pid).ok()).unwrap_or(0));
            thread::sleep(INTERVAL);
        }
    }
    Ok(seen)
}

fn connect(port: u16, patience: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), patience)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Asks an app for a page, and returns the time of the answer.
fn hello(port: u16) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    let mut stream = connect(port, PATIENCE)?;
    stream.write_all(b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let text = String::from_utf8_lossy(&answer);
    ensure!(text.starts_with("HTTP/1.1 200") && text.ends_with("hello\n"), "{text:?}");
    Ok(begin.elapsed())
}

/// Waits until an app answers, and returns how long that took.
fn answers_again(port: u16) -> anyhow::Result<Duration> {
    let begin = Instant::now();
    while let Err(error) = hello(port) {
        ensure!(begin.elapsed() < AGAIN, "the app at port {port} does not answer: {error:#}");
        thread::sleep(INTERVAL * 5);
    }
    Ok(begin.elapsed())
}

/// Opens connections to the attacked app, and begins each with these bytes. Stops when no more are accepted.
fn many(count: usize, begin: &[u8]) -> Vec<TcpStream> {
    let (mut open, mut refused) = (Vec::new(), 0);
    while open.len() < count && refused < 10 {
        match connect(WEB, Duration::from_millis(100)) {
            Ok(stream) if (&stream).write_all(begin).is_ok() => open.push(stream),
            _ => refused += 1,
        }
    }
    open
}

/// Sends the same bytes again and again through all connections. Returns how many bytes were sent, and how many connections are open.
fn pour(streams: &[TcpStream], bytes: &[u8], time: Duration) -> anyhow::Result<(usize, usize)> {
    let (begin, mut sent) = (Instant::now(), 0);
    let mut open: Vec<(&TcpStream, usize)> = streams.iter().map(|it| (it, 0)).collect();
    for stream in streams {
        stream.set_nonblocking(true)?;
    }
    while begin.elapsed() < time && !open.is_empty() {
        let before = sent;
        open.retain_mut(|(stream, at)| match stream.write(&bytes[*at..]) {
            Ok(size) => {
                sent += size;
                *at = (*at + size) % bytes.len();
                true
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        });
        if sent == before {
            thread::sleep(Duration::from_millis(2));
        }
    }
    Ok((sent, open.len()))
}

/// Sends bytes and returns everything that is received until the end of the connection, or until nothing more comes.
fn exchange(bytes: &[u8]) -> anyhow::Result<(Vec<u8>, bool)> {
    let mut stream = connect(WEB, PATIENCE)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let _ = stream.write_all(bytes); // the app may close before it has read all of them
    let mut received = Vec::new();
    let is_closed = match stream.read_to_end(&mut received) {
        Ok(_) => true,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    };
    Ok((received, is_closed))
}

#[test]
#[ignore = "an attack of `make hostile`"]
fn clients_of_a_web_interface_harm_its_app_only() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let mut bed = Bed::start(lab)?;
        bed.attacked("connections of Ryu's web server that never send a request", half_open);
        bed.attacked("headers for Ryu's web server that never end", endless_headers);
        bed.attacked("bodies for Ryu's web server that never come or never end", bodies);
        bed.attacked("requests inside of requests, and thousands in a row", smuggled);
        let log = bed.net.rosemary.log();
        let outcome = raw_characters(&log).map_or_else(
            || Ok("none is in the log".to_owned()),
            |line| Err(anyhow::anyhow!("a raw or forged line: {line:?}")),
        );
        bed.verdicts.judge("control characters in requests", outcome);
        bed.attacked("clients of Ryu's web server that never read", unread);
        bed.attacked("connections of Ryu's web server that are reset", resets);
        bed.verdicts.finish()
    });
}

fn half_open() -> anyhow::Result<(String, Vec<TcpStream>)> {
    let mut open = many(700, b"");
    open.extend(many(700, b"GET /hello HTTP/1.1\r\nHost: x\r\nX-Slow: "));
    ensure!(open.len() > 200, "{} connections", open.len());
    Ok((format!("{} connections", open.len()), open))
}

fn endless_headers() -> anyhow::Result<(String, Vec<TcpStream>)> {
    let lines = many(50, b"GET /hello HTTP/1.1\r\n");
    let line = many(50, b"GET /hello HTTP/1.1\r\nX: ");
    let request = many(50, b"GET /");
    let (mut sent, mut left) = (0, 0);
    let endless = format!("X-{}: {}\r\n", "a".repeat(100), "b".repeat(1000));
    for (streams, bytes) in [(&lines, &*endless), (&line, "aaaa"), (&request, "aaaa")] {
        let (size, open) = pour(streams, bytes.repeat(50).as_bytes(), Duration::from_secs(2))?;
        (sent, left) = (sent + size, left + open);
    }
    Ok((
        format!("{sent} bytes sent, {left} of 150 still open"),
        [lines, line, request].into_iter().flatten().collect(),
    ))
}

fn bodies() -> anyhow::Result<(String, Vec<TcpStream>)> {
    let head = "POST /body HTTP/1.1\r\nHost: x\r\n";
    let mut open = Vec::new();
    let lengths = ["1073741824", "4611686018427387904", "-1", "0x10", "1_0", "+5", "5,50"];
    let lengths =
        lengths.into_iter().map(str::to_owned).chain([4000, 8000].map(|it| "9".repeat(it)));
    for length in lengths {
        open.extend(many(10, format!("{head}Content-Length: {length}\r\n\r\nx").as_bytes()));
    }
    for chunk in ["FFFFFFFFFFFFFFFF", "-5", "zz", "", &"F".repeat(10_000)] {
        let request = format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunk}\r\n");
        open.extend(many(10, request.as_bytes()));
    }
    let large = many(4, format!("{head}Content-Length: {}\r\n\r\n", 1_u64 << 40).as_bytes());
    let (sent, left) = pour(&large, &vec![b'x'; CHUNK], Duration::from_secs(5))?;
    let chunk = format!("{CHUNK:x}\r\n{}\r\n", "x".repeat(CHUNK));
    let chunked = many(4, format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes());
    let (more, left_too) = pour(&chunked, chunk.as_bytes(), Duration::from_secs(5))?;
    open.extend(large.into_iter().chain(chunked));
    let said = format!(
        "{} announced; {} MiB of 8 endless ones sent, {} still open",
        open.len(),
        (sent + more) >> 20,
        left + left_too
    );
    Ok((said, open))
}

fn smuggled() -> anyhow::Result<(String, ())> {
    let inner = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
    let answers = |received: &[u8]| {
        received.windows(9).filter(|it| it == b"HTTP/1.1 ").count()
            + received.windows(9).filter(|it| it == b"HTTP/1.0 ").count()
    };
    let mut counts = String::new();
    for headers in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 5\r\nTransfer-Encoding: identity, chunked",
        "Content-Length: 5\r\nTransfer-Encoding : chunked",
        "Content-Length: 5\r\nContent-Length: 0",
        "Content-Length: 5\r\n Transfer-Encoding: chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: \tchunked",
        "Transfer-Encoding: xchunked",
    ] {
        let request =
            format!("POST /body HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n0\r\n\r\n{inner}");
        let (received, _) = exchange(request.as_bytes())?;
        let count = answers(&received);
        write!(counts, "{count} ")?;
        let both =
            headers.contains("Content-Length: 5") && headers.contains("\nTransfer-Encoding: ");
        ensure!(!both || count == 1, "{headers:?}: {count} answers");
    }
    for line in [
        "GET /\x1b]0;owned\x07\x1b[2J HTTP/1.1",
        "GET /\rforged: HTTP/1.1",
        "GET /\0 HTTP/1.1",
        "G\u{9b}2JT / HTTP/1.1",
        "GET /%0aforged:%0a%1b[2J HTTP/1.1",
        "GET / HTTP/9999999999999.1",
        "GET / HTTP/1.1\r\n\x1b[2J: x",
        "\x1b[2J",
        "GET /\u{202e}\u{200b} HTTP/1.1\r\nX-Forwarded-For: \x1b[2J\rforged",
        "GET http://[::/hello HTTP/1.1",
        "GET //// HTTP/0.9",
    ] {
        exchange(format!("{line}\r\nHost: \x1b[2J\r\n\r\n").as_bytes())?;
    }
    let count = 3000;
    let stream = connect(WEB, PATIENCE)?;
    let mut sending = stream.try_clone()?;
    let requests = inner.repeat(count);
    let writing = thread::spawn(move || sending.write_all(requests.as_bytes()).is_ok());
    let (mut reading, mut found, mut part) = (stream, 0, vec![0; CHUNK]);
    while found < count {
        let Ok(size @ 1..) = reading.read(&mut part) else { break };
        found += part[..size].windows(6).filter(|it| it == b"hello\n").count();
    }
    let _ = writing.join();
    Ok((format!("{counts}answers to 2 requests in 1; {found} of {count} in a row"), ()))
}

fn unread() -> anyhow::Result<(String, Vec<TcpStream>)> {
    let open = many(180, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n".repeat(50).as_bytes());
    ensure!(open.len() > 100, "{} connections", open.len());
    Ok((format!("{} connections wait for 50 MiB each", open.len()), open))
}

fn resets() -> anyhow::Result<(String, ())> {
    let parts: [&[u8]; 4] =
        [b"", b"GET /la", b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /echo HTTP/1.1\r\n\r\n"];
    let (end, mut count) = (Instant::now() + Duration::from_secs(5), 0);
    while Instant::now() < end && count < 5000 {
        for part in parts {
            let Ok(mut stream) = connect(WEB, Duration::from_millis(100)) else { continue };
            let _ = stream.write_all(part); // the app may be starting
            set_socket_linger(&stream, Some(Duration::ZERO))?; // its end is a reset
            count += 1;
        }
    }
    ensure!(count > 100, "{count} connections");
    Ok((format!("{count} resets"), ()))
}

/// The request for a WebSocket.
fn handshake(path: &str, more: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nOrigin: http://x\r\n\
         Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n{more}\r\n"
    )
}

/// Opens a WebSocket.
fn websocket(path: &str, more: &str) -> anyhow::Result<TcpStream> {
    let mut stream = connect(WEB, PATIENCE)?;
    stream.write_all(handshake(path, more).as_bytes())?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    ensure!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    Ok(stream)
}

/// A frame of a client, with the mask 0. `length` is the announced one.
fn frame(first: u8, length: u64, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    if length < 126 {
        frame.push(0x80 | u8::try_from(length).unwrap_or(0));
    } else if let Ok(length) = u16::try_from(length) {
        frame.push(0x80 | 0x7e);
        frame.extend(length.to_be_bytes());
    } else {
        frame.push(0x80 | 0x7f);
        frame.extend(length.to_be_bytes());
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

#[test]
#[ignore = "an attack of `make hostile`"]
fn clients_of_websockets_harm_their_app_only() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let mut bed = Bed::start(lab)?;
        let script = "import sys, zlib; it = zlib.compressobj(9, zlib.DEFLATED, -15); data = it.compress(bytes(1 << 27)); \
                      sys.stdout.buffer.write(data + it.flush(zlib.Z_SYNC_FLUSH)[:-4])";
        let bomb = lab.command("python3").args(["-c", script]).output()?.stdout;
        bed.attacked("frames that break the rules of WebSockets", broken_frames);
        bed.attacked("fragments of a message that never ends", endless_fragments);
        bed.attacked("compressed messages of 128 MiB", || bombs(&bomb));
        bed.attacked("thousands of WebSockets", thousands);
        bed.attacked("clients of WebSockets that never read", unread_messages);
        bed.verdicts.finish()
    });
}

fn broken_frames() -> anyhow::Result<(String, ())> {
    let close = |code: u16| frame(0x88, 2, &code.to_be_bytes());
    let mut frames = vec![
        ("2^63-1 bytes", frame(0x82, (1 << 63) - 1, b"x")),
        ("2^64-1 bytes", frame(0x81, u64::MAX, b"x")),
        ("9 MiB", frame(0x82, 9 << 20, b"x")),
        ("unmasked", b"\x81\x05hello".to_vec()),
        ("unmasked and large", b"\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xffx".to_vec()),
        ("ping of 126 bytes", frame(0x89, 126, &[b'x'; 126])),
        ("ping of 64 KiB", frame(0x89, 65536, &[b'x'; 65536])),
        ("ping of 2^63-1 bytes", frame(0x89, (1 << 63) - 1, b"x")),
        ("ping in parts", frame(0x09, 1, b"x")),
        ("continuation of nothing", frame(0x80, 1, b"x")),
        ("message within a message", [frame(0x01, 1, b"x"), frame(0x81, 1, b"x")].concat()),
        ("reserved bits", frame(0xf1, 1, b"x")),
        ("text that is no UTF-8", frame(0x81, 2, b"\xff\xfe")),
        ("close of 1 byte", frame(0x88, 1, b"x")),
        ("close with text that is no UTF-8", frame(0x88, 4, b"\x03\xe8\xff\xfe")),
        ("two closes", [close(1000), close(1000)].concat()),
        (
            "noise",
            (0..2000_u32).flat_map(|it| it.wrapping_mul(2_654_435_761).to_be_bytes()).collect(),
        ),
    ];
    frames.extend([3, 4, 7, 0xb, 0xf].map(|it| ("unknown kind", frame(0x80 | it, 1, b"x"))));
    let codes = [0, 1, 999, 1004, 1005, 1006, 1012, 1015, 2999, 5000, 0xffff];
    frames.extend(codes.map(|code| ("wrong close code", close(code))));
    let mut open = Vec::new();
    for (name, frame) in &frames {
        let mut stream = websocket("/echo", "").with_context(|| (*name).to_owned())?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        let _ = stream.write_all(frame); // the app may close before it has read all of it
        let end = stream.read_to_end(&mut Vec::new());
        if end.is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            open.push(*name);
        }
    }
    Ok((format!("{} kinds, still open: {open:?}", frames.len()), ()))
}

fn endless_fragments() -> anyhow::Result<(String, Vec<TcpStream>)> {
    let mut open = Vec::new();
    for _ in 0..8 {
        let mut stream = websocket("/echo", "")?;
        stream.write_all(&frame(0x02, 1, b"x"))?;
        open.push(stream);
    }
    let small = frame(0x00, 0, b"").repeat(CHUNK / 6);
    let large = frame(0x00, CHUNK as u64, &vec![b'x'; CHUNK]);
    let (mut sent, mut left) = (0, 0);
    for (streams, bytes) in [(&open[..4], large), (&open[4..], small)] {
        let (size, more) = pour(streams, &bytes, Duration::from_secs(6))?;
        (sent, left) = (sent + size, left + more);
    }
    Ok((format!("{} MiB sent, {left} of 8 still open", sent >> 20), open))
}

fn bombs(bomb: &[u8]) -> anyhow::Result<(String, Vec<TcpStream>)> {
    ensure!(bomb.len() > 1000, "python3 compresses");
    let mut open = Vec::new();
    for _ in 0..10 {
        let mut stream = websocket("/echo", "Sec-WebSocket-Extensions: permessage-deflate\r\n")?;
        // Bit 0x40: compressed.
        let _ = stream.write_all(&frame(0xc2, bomb.len() as u64, bomb)); // the app may end
        open.push(stream);
    }
    Ok((format!("10 messages of {} bytes", bomb.len()), open))
}

fn thousands() -> anyhow::Result<(String, Vec<TcpStream>)> {
    let open = many(3000, handshake("/echo", "").as_bytes());
    ensure!(open.len() > 200, "{} connections", open.len());
    Ok((format!("{} requests for WebSockets", open.len()), open))
}

fn unread_messages() -> anyhow::Result<(String, Vec<TcpStream>)> {
    let open = many(180, handshake("/flood", "").as_bytes());
    ensure!(open.len() > 100, "{} connections", open.len());
    let pings = frame(0x89, 125, &[b'x'; 125]).repeat(100);
    let (sent, left) = pour(&open, &pings, HELD)?;
    Ok((format!("{} WebSockets, {} KiB of pings, {left} still open", open.len(), sent >> 10), open))
}
