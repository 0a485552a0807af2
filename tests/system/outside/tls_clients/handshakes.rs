//! Handshakes that are broken, huge, or never end.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use rosemary_tests::in_a_lab_without_capture_for;
use rosemary_tests::net::{Net, SOON};
use rosemary_tests::pki::Pki;
use rosemary_tests::random::Random;
use rosemary_tests::verdicts::Verdicts;

use super::super::beside::lines;
use super::{Bed, Certificate, LIMIT, claim, start, unharmed};
use crate::tls::{PORT, client_hello};

/// Longest time after which an unfinished handshake has ended.
const HANDSHAKE: Duration = Duration::from_secs(15);

#[test]
#[ignore = "an attack of `make hostile`"]
fn broken_and_endless_handshakes_delay_no_switch() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let Bed { mut net, pki } = start(lab)?;
        let mut verdicts = Verdicts::default();
        let mut attack = |name: &str, attack: &dyn Fn(&mut Net<'_>) -> anyhow::Result<String>| {
            verdicts.beside(&mut net, name, |net| unharmed(net, attack));
        };
        attack("bytes of other protocols at the port of TLS", &plain);
        attack("huge ClientHellos, and garbage behind a good one", &garbage);
        attack("600 half handshakes that stay open", &|net| half_open(net, &pki));
        attack("key updates and renegotiations without end", &|net| updates(net, &pki));
        verdicts.finish()
    });
}

/// How a connection ends after these bytes: `None` if it does not within the time of a handshake.
fn end_of(bytes: &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
    let mut stream = TcpStream::connect(PORT)?;
    stream.set_read_timeout(Some(HANDSHAKE))?;
    stream.set_write_timeout(Some(HANDSHAKE))?;
    let _ = stream.write_all(bytes); // it may be closed by now
    let mut received = Vec::new();
    match stream.read_to_end(&mut received) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        _ => Ok(Some(received)),
    }
}

/// Sends each text on a connection of its own, all at once. Each must end without a byte of OpenFlow.
fn all_end(texts: Vec<(&'static str, Vec<u8>)>) -> anyhow::Result<String> {
    let count = texts.len();
    let threads: Vec<_> = texts
        .into_iter()
        .map(|(name, bytes)| (name, thread::spawn(move || end_of(&bytes))))
        .collect();
    for (name, thread) in threads {
        let end = thread.join().ok().context("a thread panicked")??;
        let received = end.with_context(|| format!("{name}: the connection stays open"))?;
        let is_openflow = received.first().is_some_and(|it| (1..=6).contains(it));
        ensure!(!is_openflow, "{name}: OpenFlow was received: {received:?}");
    }
    Ok(format!("{count} connections ended"))
}

fn plain(net: &mut Net<'_>) -> anyhow::Result<String> {
    let hello = [4, 0, 0, 8, 0, 0, 0, 1];
    let features = [4, 6, 0, 32, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0];
    let random = Random::from(5).bytes(4_000);
    let seen = all_end(vec![
        ("OpenFlow", [&hello[..], &features, &[0; 8]].concat()),
        ("the largest OpenFlow message", [&[4, 0, 0xff, 0xff][..], &[0; 100_000]].concat()),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("SSH", b"SSH-2.0-OpenSSH_9.9\r\n".to_vec()),
        ("SSL 2", vec![0x80, 0x2e, 1, 3, 1, 0, 0x15, 0, 0, 0, 0x10, 1, 0, 0x80]),
        ("NUL", vec![0; 20_000]),
        ("0xff", vec![0xff; 20_000]),
        ("random bytes", random),
        ("nothing but the first byte", vec![0x16]),
        ("a proxy's line", b"PROXY TCP4 127.0.0.1 127.0.0.1 1 6653\r\n".to_vec()),
        ("JSON-RPC", b"{\"method\":\"echo\",\"params\":[],\"id\":0}".to_vec()),
    ])?;
    let count = lines(net, &["connection refused"]) + lines(net, &["during the TLS handshake"]);
    Ok(format!("{seen}, {count} lines"))
}

/// A `ClientHello` with this much padding in records of 16 KiB (RFC 7685, RFC 8446 §5.1).
fn padded(size: usize) -> Vec<u8> {
    let hello = client_hello();
    let mut body = hello[9..].to_vec();
    // The extensions are the last 28 bytes, behind their size.
    let old = 28;
    let length = u16::try_from(old + 4 + size).unwrap_or(u16::MAX).to_be_bytes();
    let extensions = body.len() - old;
    body.splice(extensions - 2..extensions, length);
    body.extend([0, 21]);
    body.extend(u16::try_from(size).unwrap_or(u16::MAX).to_be_bytes());
    body.extend(vec![0; size]);
    let mut message = vec![1];
    message.extend(&u32::try_from(body.len()).unwrap_or(0).to_be_bytes()[1..]);
    message.extend(body);
    let record = |part: &[u8]| {
        let size = u16::try_from(part.len()).unwrap_or(0).to_be_bytes();
        [&[0x16, 3, 1][..], &size, part].concat()
    };
    message.chunks(0x4000).flat_map(record).collect()
}

fn garbage(_: &mut Net<'_>) -> anyhow::Result<String> {
    let hello = client_hello();
    let with = |more: &[u8]| [&hello[..], more].concat();
    let record = |kind: u8, body: &[u8]| {
        let size = u16::try_from(body.len()).unwrap_or(0).to_be_bytes();
        [&[kind, 3, 3][..], &size, body].concat()
    };
    all_end(vec![
        ("a hello of 60 KB", padded(60_000)),
        ("a hello of 20 KB, then silence", padded(20_000)),
        (
            "a hello in records of a byte",
            hello[5..].iter().flat_map(|it| record(22, &[*it])).collect(),
        ),
        ("a message of 16 MiB", record(22, &[1, 0xff, 0xff, 0xff]).repeat(20_000)),
        ("records without content", record(22, &[]).repeat(40_000)),
        ("a record of 65,535 bytes", [&[0x16, 3, 1, 0xff, 0xff][..], &[0; 65_535]].concat()),
        ("random bytes behind a hello", with(&Random::from(6).bytes(50_000))),
        ("data before the handshake", with(&record(23, &[4, 0, 0, 8, 0, 0, 0, 1]))),
        ("alerts without end", with(&record(21, &[1, 90]).repeat(20_000))),
        ("changes of the cipher without end", with(&record(20, &[1]).repeat(20_000))),
        ("heartbeats", with(&record(24, &[1, 0x40, 0]).repeat(500))),
        ("a second hello", with(&hello)),
        (
            "a finished message",
            with(&record(22, &[20, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])),
        ),
    ])
}

/// Hundreds of peers send half of a hello, or a whole one, and then nothing. A switch connects beside them.
fn half_open(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let hello = client_hello();
    let mut peers = Vec::new();
    for number in 0..600 {
        let mut peer = TcpStream::connect(PORT)?;
        let size = [0, 1, 5, hello.len() / 2, hello.len()][number % 5];
        let _ = peer.write_all(&hello[..size]);
        peers.push(peer);
    }
    let late = pki.switch("late", &["--dpid", "0x88"])?;
    let begin = Instant::now();
    let shown = Certificate { cert: late.cert, key: late.key };
    let seen = claim(net.lab, &shown, &["0000000000000088"])?;
    let took = begin.elapsed();
    ensure!(seen == ["admitted"], "a good switch: {seen:?} after {took:?}");
    ensure!(took < Duration::from_secs(5), "a good switch waited for {took:?}");
    let end = Instant::now() + HANDSHAKE + SOON;
    let mut open = 0;
    for mut peer in peers {
        let rest = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(10));
        peer.set_read_timeout(Some(rest))?;
        let ended = peer.read_to_end(&mut Vec::new());
        open += usize::from(ended.is_err_and(|it| it.kind() == ErrorKind::WouldBlock));
    }
    ensure!(open == 0, "{open} of 600 connections stay open");
    Ok(format!("a good switch was admitted in {took:.1?}, all 600 ended"))
}

/// Clients with a good certificate change their keys, or begin another handshake, as fast as they can.
fn updates(net: &mut Net<'_>, pki: &Pki<'_>) -> anyhow::Result<String> {
    let made = pki.switch("updating", &["--dpid", "0x99"])?;
    let mut seen = Vec::new();
    let attacks = [
        ("-tls1_3", "K\n", "key updates that request one"),
        ("-tls1_3", "k\n", "key updates"),
        ("-tls1_2", "R\n", "renegotiations"),
    ];
    for (version, command, name) in attacks {
        let mut client = net.lab.command("openssl");
        client.args(["s_client", version, "-connect", PORT]).arg("-cert").arg(&made.cert);
        client.arg("-key").arg(&made.key);
        client.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut client = client.spawn()?;
        let mut input = client.stdin.take().context("an input")?;
        let end = Instant::now() + Duration::from_secs(6);
        let mut sent = 0;
        while Instant::now() < end && client.try_wait()?.is_none() {
            if input.write_all(command.as_bytes()).is_err() {
                break;
            }
            sent += 1;
            thread::sleep(Duration::from_millis(1));
        }
        let is_over = client.try_wait()?.is_some();
        drop(input);
        let _ = client.kill(); // it may have ended
        client.wait()?;
        ensure!(is_over, "{name}: the connection stays open after {sent} attempts");
        seen.push(format!("{name}: closed after at most {sent}"));
    }
    net.rosemary.wait_for("only s1 is known", SOON * 2, |status| {
        (status.switches.as_ref()?.len() == 1).then_some(())
    })?;
    Ok(seen.join(", "))
}
