//! Hostile peers at the address for devices: each is disconnected, the kernel's memory stays bounded, and switches do not notice.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use cli::lab::Of;
use rosemary_tests::in_a_lab;
use rosemary_tests::net::{INTERVAL, Net, SOON};

use super::configure;

/// Memory by which the kernel may grow, in KiB: the bounds of a few devices.
const GROWTH: u64 = 160 * 1024;

/// The time after which every handshake is over, with slack.
const ENDS: Duration = Duration::from_secs(20);

/// Bytes that a peer sends, in pieces.
type Attack = fn(piece: u32) -> Option<Vec<u8>>;

fn once(piece: u32, text: &str) -> Option<Vec<u8>> {
    (piece == 0).then(|| text.as_bytes().to_vec())
}

fn endless(piece: u32, start: &str, byte: u8) -> Vec<u8> {
    if piece == 0 { start.as_bytes().to_vec() } else { vec![byte; 64 * 1024] }
}

const DATABASES: &str = r#"{"id":1,"result":["hardware_vtep"],"error":null}"#;

/// The attacks, and words of the log line.
const ATTACKS: [(&str, Attack, &str); 9] = [
    ("OpenFlow", |it| once(it, "\x04\x00\x00\x08\x00\x00\x00\x01"), "begins no JSON object"),
    ("deep JSON", |it| Some(endless(it, "{\"id\":1,\"result\":", b'[')), "inside each other"),
    ("a huge row", |it| Some(endless(it, "{\"id\":1,\"result\":\"", b'x')), "bytes"),
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
    ("wrong types", |it| once(it, r#"{"id":1,"result":{"a":1},"error":null}"#), "list_dbs"),
    (
        "another database",
        |it| once(it, r#"{"id":1,"result":["Open_vSwitch"],"error":null}"#),
        "no database hardware_vtep",
    ),
    (
        "a schema without tables",
        |it| {
            match it {
        0 => Some(DATABASES.into()),
        1 => Some(r#"{"id":2,"result":{"name":"hardware_vtep","version":"1","tables":{}},"error":null}"#.into()),
        _ => None,
    }
        },
        "lacks",
    ),
    ("a cut stream", |it| once(it, r#"{"id":1,"resu"#), "not complete"),
    ("silence", |_| None, "not complete"),
];

/// Attacks once. Returns when the kernel has closed the connection.
fn attack(attack: Attack) -> std::io::Result<()> {
    let mut peer = TcpStream::connect("127.0.0.1:6640")?;
    peer.set_read_timeout(Some(ENDS))?;
    peer.set_write_timeout(Some(ENDS))?;
    let _ = peer.read(&mut [0; 4096])?; // the request
    for piece in 0.. {
        let Some(bytes) = attack(piece) else { break };
        if peer.write_all(&bytes).is_err() {
            return Ok(());
        }
    }
    let mut rest = [0; 4096];
    loop {
        match peer.read(&mut rest) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// The resident memory of a process, in KiB.
fn resident(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let size = line.and_then(|it| it.trim().trim_end_matches(" kB").parse().ok());
    size.ok_or_else(|| anyhow::anyhow!("no VmRSS: {status}"))
}

#[test]
fn hostile_devices_harm_no_switch() {
    in_a_lab(|lab| {
        configure(
            "[controller]\nvtep-listen = [\"127.0.0.1:6640\"]\n[[app]]\nname = \"learning-switch\"\n",
        )?;
        let mut net = Net::start(lab, Of::V1_3)?;
        ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost() <= 1, "the first may be lost");
        let pid =
            net.rosemary.wait_for("the kernel runs", SOON, |status| status.programs.kernel.pid)?;
        let before = resident(pid)?;
        let pinging = net.h1.ping_in_background(&net.h2, 2_000, INTERVAL)?;
        let begin = Instant::now();
        let attackers: Vec<_> = ATTACKS
            .iter()
            .map(|(name, bytes, _)| (name, thread::spawn(|| attack(*bytes))))
            .collect();
        let mut most = before;
        for (name, attacker) in attackers {
            while !attacker.is_finished() {
                ensure!(begin.elapsed() < 2 * ENDS, "{name}: the connection is still open");
                most = most.max(resident(pid)?);
                thread::sleep(Duration::from_millis(20));
            }
            let ended = attacker.join().map_err(|_| anyhow::anyhow!("{name}: it panicked"))?;
            ended.map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
        }
        ensure!(most < before + GROWTH, "the kernel grew from {before} to {most} KiB");
        let log = net.rosemary.log();
        for (name, _, words) in ATTACKS {
            ensure!(log.contains(words), "{name}: no line with {words:?}:\n{log}");
        }
        let still = net.rosemary.wait_for("the kernel runs", SOON, |it| it.programs.kernel.pid)?;
        ensure!(still == pid, "the kernel was restarted");
        ensure!(pinging.end()?.lost() == 0, "pings were lost");
        net.rosemary.wait_for_switch(&net.s1)?;
        println!("the kernel grew from {before} to at most {most} KiB in {:?}", begin.elapsed());
        Ok(())
    });
}
