//! Hostile clients: nothing passes, memory stays bounded, and others are served.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rosemary_tests::http::{API, connect, exchange, request};
use rosemary_tests::in_a_lab_for;

use super::{get, start};

const LIMIT: Duration = Duration::from_secs(180);

/// Resident memory of the interface, in KiB.
pub(super) fn memory(rosemary: &cli::lab::Rosemary<'_>) -> anyhow::Result<u64> {
    let status = rosemary.status()?.context("it answers")?;
    let service = status.programs.services.iter().find(|it| it.name == "northbound");
    let pid = service.and_then(|it| it.pid).context("it runs")?;
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find(|it| it.starts_with("VmRSS:")).context("VmRSS")?;
    Ok(line.split_whitespace().nth(1).context("a number")?.parse()?)
}

#[test]
fn pages_of_other_origins_and_names_are_refused() {
    in_a_lab_for(LIMIT, |lab| {
        let _rosemary = start(lab)?;
        let stop = |headers: &[(&str, &str)]| {
            request("POST", "/api/v1/apps/observer/stop", headers, b"").map(|it| it.status)
        };
        for headers in [
            [("Origin", "http://attacker.example")],
            [("Origin", "null")],
            [("Origin", "http://127.0.0.1:9999")],
            [("Sec-Fetch-Site", "cross-site")],
            [("Sec-Fetch-Site", "same-site")],
        ] {
            ensure!(stop(&headers)? == 403, "{headers:?}");
        }
        // DNS rebinding: the attacker's name leads to this machine.
        let rebound =
            [("Host", "attacker.example:8181"), ("Origin", "http://attacker.example:8181")];
        ensure!(stop(&rebound)? == 421);
        ensure!(
            request("GET", "/api/v1/apps", &[("Host", "attacker.example")], b"")?.status == 421
        );
        let socket = [
            ("Origin", "http://attacker.example"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        ensure!(request("GET", "/api/v1/events", &socket, b"")?.status == 403);
        for (kind, status) in [("text/plain", 415), ("multipart/form-data; boundary=x", 415)] {
            let answer =
                request("POST", "/api/v1/apps/observer/stop", &[("Content-Type", kind)], b"{}")?;
            ensure!(answer.status == status, "{kind}: {answer:?}");
        }
        let preflight =
            [("Origin", "http://attacker.example"), ("Access-Control-Request-Method", "POST")];
        let answer = request("OPTIONS", "/api/v1/reload", &preflight, b"")?;
        ensure!(
            answer.status == 403 && !answer.head.contains("access-control-allow"),
            "{answer:?}"
        );
        ensure!(get("/api/v1/apps/observer")?.json()["state"] == "running");
        Ok(())
    });
}

#[test]
fn malformed_requests_are_refused() {
    in_a_lab_for(LIMIT, |lab| {
        let rosemary = start(lab)?;
        for path in [
            "/../etc/passwd",
            "/api/v1/../../etc/shadow",
            "/api/v1/apps/%2e%2e",
            "/api/v1/apps/..%2f..",
            "//api/v1/apps",
            "/api/v1/apps/%00",
            "/api/v1/apps/%ff",
            "/api/v1/apps/a%2Fb",
            "/%c0%ae%c0%ae/",
        ] {
            let answer = request("GET", path, &[], b"")?;
            ensure!(matches!(answer.status, 400 | 404), "{path}: {answer:?}");
        }
        let long = "x".repeat(100_000);
        for (bytes, statuses) in [
            (format!("GET /{long} HTTP/1.1\r\nHost: {API}\r\n\r\n"), &[400, 404, 414, 431][..]),
            (format!("GET / HTTP/1.1\r\nHost: {API}\r\nX: {long}\r\n\r\n"), &[400, 431]),
            (
                format!("GET / HTTP/1.1\r\nHost: {API}\r\n{}\r\n", "X: y\r\n".repeat(10_000)),
                &[400, 431],
            ),
            ("nonsense\r\n\r\n".into(), &[400]),
            (
                format!(
                    "GET /api/v1/apps HTTP/1.1\r\nHost: {API}\r\nHost: evil\r\nConnection: close\r\n\r\n"
                ),
                &[400, 421],
            ),
            ("GET /api/v1/apps HTTP/1.1\r\nConnection: close\r\n\r\n".into(), &[400, 421]),
            (
                format!(
                    "POST /api/v1/reload HTTP/1.1\r\nHost: {API}\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n{{}}"
                ),
                &[413],
            ),
            (
                format!(
                    "POST /api/v1/apps/nothing/stop HTTP/1.1\r\nHost: {API}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
                ),
                &[400, 404],
            ),
            (
                format!(
                    "POST /api/v1/reload HTTP/1.1\r\nHost: {API}\r\nContent-Type: application/json\r\nContent-Length: -1\r\n\r\n"
                ),
                &[400],
            ),
        ] {
            // A connection that is closed at once is a refusal, too.
            if let Ok(answer) = exchange(bytes.as_bytes()) {
                let start: String = bytes.chars().take(60).collect();
                ensure!(statuses.contains(&answer.status), "{start:?}: {}", answer.status);
            }
        }
        ensure!(memory(&rosemary)? < 200_000);
        ensure!(get("/api/v1/apps")?.status == 200);
        Ok(())
    });
}

#[test]
fn endless_body_ends_at_the_limit() {
    in_a_lab_for(LIMIT, |lab| {
        let rosemary = start(lab)?;
        let mut stream = connect()?;
        write!(
            stream,
            "POST /api/v1/reload HTTP/1.1\r\nHost: {API}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )?;
        let chunk = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
        let mut sent = 0;
        while sent < 256 << 20 && stream.write_all(chunk.as_bytes()).is_ok() {
            sent += 0x10000;
        }
        ensure!(sent < 64 << 20, "{sent} bytes were accepted");
        let mut answer = [0; 64];
        if let Ok(size @ 1..) = stream.read(&mut answer) {
            let text = String::from_utf8_lossy(&answer[..size]).into_owned();
            ensure!(text.starts_with("HTTP/1.1 413"), "{text}");
        }
        ensure!(memory(&rosemary)? < 200_000);
        Ok(())
    });
}

#[test]
fn slow_requests_end_and_others_are_served() {
    in_a_lab_for(LIMIT, |lab| {
        let rosemary = start(lab)?;
        let mut slow: Vec<TcpStream> = Vec::new();
        // Fewer than one user may have.
        for _ in 0..450 {
            let mut stream = connect()?;
            write!(stream, "GET /api/v1/apps HTTP/1.1\r\nHost: {API}\r\nX-")?;
            slow.push(stream);
        }
        let began = Instant::now();
        ensure!(get("/api/v1/apps")?.status == 200, "others are served");
        ensure!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        // One byte at a time does not extend the time.
        let mut first = slow.swap_remove(0);
        let deadline = Instant::now() + Duration::from_secs(40);
        while first.write_all(b"a").is_ok() {
            ensure!(Instant::now() < deadline, "a slow request lasts");
            std::thread::sleep(Duration::from_millis(500));
        }
        ensure!(memory(&rosemary)? < 200_000);
        Ok(())
    });
}

#[test]
fn thousands_of_connections_take_bounded_memory() {
    in_a_lab_for(LIMIT, |lab| {
        let rosemary = start(lab)?;
        let before = memory(&rosemary)?;
        let (_, most) = raise_descriptors()?;
        let wanted = 10_000.min(usize::try_from(most)? - 500);
        let mut held = Vec::new();
        for _ in 0..wanted {
            held.extend(connect().ok());
        }
        let after = memory(&rosemary)?;
        ensure!(after < before + 150_000, "{before} KiB became {after} KiB");
        // Local operators have places of their own.
        let socket = [
            "-s",
            "--max-time",
            "5",
            "--unix-socket",
            "/run/rosemary/api.sock",
            "http://localhost/api/v1/session",
        ];
        ensure!(lab.run("curl", &socket)?.contains("admin"));
        // Other users have places too: the user who holds these connections has a share of them only.
        let args = [
            "--reuid",
            "65534",
            "--clear-groups",
            "--",
            "curl",
            "-s",
            "--max-time",
            "5",
            "http://127.0.0.1:8181/api/v1/session",
        ];
        ensure!(lab.run("setpriv", &args)?.contains("viewer"));
        drop(held);
        let deadline = Instant::now() + Duration::from_secs(30);
        while get("/livez").map(|it| it.status).ok() != Some(200) {
            ensure!(Instant::now() < deadline, "the interface does not recover");
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    });
}

/// Raises the limit of descriptors of this process. Returns the limits before and after.
fn raise_descriptors() -> anyhow::Result<(u64, u64)> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let before = getrlimit(Resource::Nofile);
    let most = before.maximum.unwrap_or(1 << 20);
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: before.maximum })?;
    Ok((before.current.unwrap_or(most), most))
}
