//! Hostile servers: the command ends with an error in time and within its memory.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of};
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, rosemary_binary};

use super::errors;

/// Memory that the command may map, in KiB.
const ADDRESS_SPACE: u32 = 512 * 1024;

/// Bytes that a hostile server sends after it has read the first request, in pieces, and then again and again.
pub(super) type Attack = fn(piece: u32) -> Option<Vec<u8>>;

fn chunk(byte: u8) -> Vec<u8> {
    vec![byte; 64 * 1024]
}

fn once(piece: u32, text: &str) -> Option<Vec<u8>> {
    (piece == 0).then(|| text.as_bytes().to_vec())
}

/// The attacks, with a word of the error.
pub(super) const ATTACKS: [(&str, Attack, &str); 15] = [
    ("nothing", |_| None, "closed the connection"),
    ("a TLS record", |it| once(it, "\x16\x03\x01\x02\x00"), "begins no JSON object"),
    ("HTTP", |it| once(it, "HTTP/1.1 400 Bad Request\r\n\r\n"), "begins no JSON object"),
    (
        "deep JSON",
        |it| Some(if it == 0 { b"{\"id\":1,\"result\":".to_vec() } else { chunk(b'[') }),
        "inside each other",
    ),
    ("an endless string", |it| Some(if it == 0 { b"{\"".to_vec() } else { chunk(b'x') }), "bytes"),
    (
        "many values",
        |it| {
            Some(if it == 0 {
                b"{\"id\":1,\"result\":[0".to_vec()
            } else {
                b",0".repeat(32 * 1024)
            })
        },
        "values",
    ),
    ("brackets that do not fit", |it| once(it, "{]"), "no JSON"),
    ("no UTF-8", |it| (it == 0).then(|| b"{\"id\":1,\"result\":[\"\xff\"]}".to_vec()), "no JSON"),
    (
        "an answer to nothing",
        |it| once(it, r#"{"id":9,"result":[],"error":null}"#),
        "belongs to no request",
    ),
    ("another type", |it| once(it, r#"{"id":1,"result":{},"error":null}"#), "list_dbs"),
    ("no database", |it| once(it, r#"{"id":1,"result":["x"],"error":null}"#), "no database"),
    (
        "a refusal",
        |it| once(it, r#"{"id":1,"result":null,"error":{"error":"no","details":"way"}}"#),
        "no: way",
    ),
    (
        "a schema that is none",
        |it| {
            once(
                it,
                r#"{"id":1,"result":["Open_vSwitch"],"error":null}{"id":2,"result":[1],"error":null}"#,
            )
        },
        "schema",
    ),
    (
        "another schema",
        |it| {
            once(
                it,
                r#"{"id":1,"result":["Open_vSwitch"],"error":null}
        {"id":2,"result":{"name":"Open_vSwitch","version":"1.0.0","tables":{"Bridge":{"columns":{"name":{"type":"integer"}}}}},"error":null}"#,
            )
        },
        "Open_vSwitch.bridges",
    ),
    ("endless echoes", |_| Some(br#"{"id":1,"method":"echo","params":["x"]}"#.repeat(1024)), ""),
];

/// Serves one connection. It ends with the attack or when the client closes.
pub(super) fn serve(listener: &TcpListener, attack: Attack) -> std::io::Result<()> {
    let (mut client, _) = listener.accept()?;
    let _size = client.read(&mut [0; 4096])?;
    for piece in 0.. {
        let Some(bytes) = attack(piece) else { break };
        client.write_all(&bytes)?;
    }
    client.shutdown(Shutdown::Write)?;
    client.read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Runs the command in bounded memory.
fn command(lab: &Lab, port: u16) -> anyhow::Result<Output> {
    let script = format!(
        "ulimit -v {ADDRESS_SPACE} && exec \"$0\" switch ovsdb tcp:127.0.0.1:{port} --timeout 3"
    );
    let mut shell = lab.command("sh");
    shell.args(["-c", &script]).arg(rosemary_binary()).stdin(Stdio::null());
    Ok(shell.output()?)
}

#[test]
fn hostile_server_costs_bounded_memory_and_time() {
    in_a_lab(|lab| {
        let mut net = Net::start(lab, Of::V1_3)?;
        // While the app learns the hosts, a busy machine may lose one.
        lab.wait_for("the hosts reach each other", SOON, |_| {
            Ok((net.h1.ping(&net.h2, 5, INTERVAL)?.lost() == 0).then_some(()))
        })?;
        let pinging = net.h1.ping_in_background(&net.h2, 10_000, INTERVAL)?;
        for (name, attack, word) in ATTACKS {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let port = listener.local_addr()?.port();
            let server = thread::spawn(move || serve(&listener, attack));
            let start = Instant::now();
            let output = command(lab, port)?;
            let took = start.elapsed();
            let error = errors(&output);
            ensure!(output.status.code() == Some(1), "{name}: {output:?}");
            ensure!(error.contains(word) && error.len() < 2000, "{name}: {error}");
            ensure!(took < Duration::from_secs(10), "{name}: {took:?}");
            drop(server); // it ends when the client's end is closed
        }
        let report = pinging.end()?;
        ensure!(report.lost() == 0, "pings are lost: {report:?}");
        net.rosemary.must_run()?;
        Ok(())
    });
}

#[test]
fn silent_server_is_left_in_time() {
    in_a_lab(|lab| {
        lab.start_open_vswitch()?; // the lab's network alone
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let silent = thread::spawn(move || listener.accept());
        let start = Instant::now();
        let output = command(lab, port)?;
        ensure!(output.status.code() == Some(1), "{output:?}");
        ensure!(errors(&output).contains("no answer within 3 s"), "{output:?}");
        ensure!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
        let _: TcpStream = silent.join().ok().context("a thread")??.0;
        Ok(())
    });
}
