//! Floods, storms and unfinished connections of hostile switches, beside a real switch and a good one on the same worker.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::Of;
use openflow::{
    Echo, FlowRemoved, FlowRemovedReason, Hello, Kind, MacAddr, Match, PacketIn, PortDesc, PortNo,
    PortReason, PortStatus,
};
use rosemary_tests::fake::features;
use rosemary_tests::in_a_lab_without_capture_for;
use rosemary_tests::net::{Net, SOON};

use super::beside::{Beside, lines, run};
use super::rogue::{Rogue, VERSION, frame, message, multipart_of, part, ports, xid_of};

const LIMIT: Duration = Duration::from_secs(400);

const SWITCH: &str = "[[app]]\nname = \"learning-switch\"\n\n[[app]]\nname = \"stats\"\n\n";

/// Most lines about one kind of event that an attack of some seconds may cause.
const MOST_LINES: usize = 200;

/// Multipart type of port descriptions.
const PORT_DESC: u16 = 13;

/// Time in which an unfinished connection must end; the handshake has 10 s.
const UNFINISHED: Duration = Duration::from_secs(25);

#[test]
#[ignore = "an attack of `make hostile`"]
fn flooding_switches_harm_nobody() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let mut beside = Beside::start(lab, SWITCH)?;
        removed_flows(&mut beside)?;
        large_echoes(&mut beside)?;
        storm_of_ports(&mut beside)?;
        false_packets(&mut beside)?;
        visitors(&mut beside)?;
        endless_ports(&mut beside)?;
        slow_hellos(&mut beside)?;
        beside.finish()
    });
}

/// A switch sends flow-removed messages with the cookies of the kernel, of an app and of no program.
fn removed_flows(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |_: &mut Net<'_>| {
        let mut rogue = Rogue::obedient(0xf10d)?;
        rogue.is_served()?;
        let app = apps_number("learning-switch")?;
        let own = |owner: u64, reason| FlowRemoved {
            match_: Match::new(),
            cookie: owner << 48 | 7,
            priority: 0,
            reason,
            table_id: 0,
            duration: Duration::MAX,
            idle_timeout: 0,
            hard_timeout: 0,
            packet_count: u64::MAX,
            byte_count: 0,
        };
        let kinds = [FlowRemovedReason::Delete, FlowRemovedReason::Other(77)];
        let all = [0xffff, app, 0].into_iter().flat_map(|owner| kinds.map(|kind| own(owner, kind)));
        let all: Vec<u8> = all.flat_map(|it| message(|out| it.encode(VERSION, 0, out))).collect();
        let all = all.repeat(40);
        rogue.repeat(Duration::from_millis(1), move |_| all.clone());
        Ok(rogue)
    };
    beside.attacked("flow-removed flood", begin, |net, rogue| {
        let (_, incidents) = run(net.lab, &["incidents", "--json"])?;
        let count = incidents.matches(&rogue.dpid()).count();
        ensure!(count <= 30, "{count} mentions in incidents");
        let sent = rogue.flow_mods();
        ensure!(sent < 2000, "{sent} flow-mods were caused");
        Ok(format!("{sent} flow-mods caused, {count} mentions in incidents"))
    })
}

/// The number of an app in cookies, from the state directory.
fn apps_number(app: &str) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/var/lib/rosemary/apps.json")?;
    let all: serde_json::Value = serde_json::from_str(&text)?;
    let all_apps = all["apps"].as_array().into_iter().flatten();
    let found = all_apps.filter(|it| it["name"] == app).find_map(|it| it["number"].as_u64());
    found.with_context(|| format!("no {app} in {text}"))
}

/// Echo requests of 60 KB: first with the replies read, then without.
fn large_echoes(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |_: &mut Net<'_>| {
        let data = vec![7; 60_000];
        let echo = Echo { is_reply: false, xid: 9, data: &data };
        let echo = message(|out| echo.encode(VERSION, out));
        let mut reads = Rogue::obedient(0xec40)?;
        reads.is_served()?;
        let one = echo.clone();
        reads.repeat(Duration::from_millis(1), move |_| one.clone());
        let mut ignores = TcpStream::connect("127.0.0.1:6653")?;
        ignores.set_write_timeout(Some(Duration::from_secs(1)))?;
        ignores.write_all(&introduction(0xec41))?;
        let ignoring = thread::spawn(move || while ignores.write_all(&echo).is_ok() {});
        Ok((reads, ignoring))
    };
    beside.attacked("large echo requests", begin, |_, (reads, ignoring)| {
        ensure!(!reads.is_closed(), "who reads its replies stays");
        ensure!(ignoring.is_finished(), "who does not read is not read either");
        Ok(format!("{} replies were read", reads.received()))
    })
}

/// Hello, features and no ports, in the name of a switch.
fn introduction(dpid: u64) -> Vec<u8> {
    let mut bytes = message(|out| Hello::new(&[VERSION]).encode(1, out));
    bytes.extend(message(|out| features(openflow::Dpid(dpid)).encode(VERSION, 1, out)));
    bytes.extend(part(PORT_DESC, 2, false, &[]));
    bytes
}

/// Ports come, change and go a thousand times a second, with names that a terminal or a log would obey.
fn storm_of_ports(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    const NAMES: [&[u8; 16]; 6] = [
        b"\x1b[2J\x1b[31mowned\x07\0",
        b"\nERROR kernel: \0",
        b"\xff\xfe\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80abcde",
        b"%s%n\"},{\"a\":\"\0\0\0",
        b"\xe2\x80\xae\xe2\x80\x8f txt.exe\0\0",
        b"<script>x(1)</sc",
    ];
    let begin = |_: &mut Net<'_>| {
        let mut rogue = Rogue::obedient(0x9024)?;
        rogue.is_served()?;
        rogue.repeat(Duration::from_millis(1), |number| {
            let reasons = [PortReason::Add, PortReason::Modify, PortReason::Delete];
            let one = |reason| {
                let desc = PortDesc::new(PortNo(1 + number % 50), MacAddr([0xff; 6]), "evil");
                let mut bytes = message(|out| PortStatus { reason, desc }.encode(VERSION, 0, out));
                let at = bytes.windows(4).position(|it| it == b"evil").expect("the name");
                let name = NAMES[number as usize % NAMES.len()];
                bytes[at..at + 16].copy_from_slice(name);
                bytes
            };
            reasons.map(one)[..if number % 5 == 0 { 3 } else { 2 }].concat()
        });
        Ok(rogue)
    };
    beside.attacked("port storm with hostile names", begin, |net, rogue| {
        let count = lines(net, &["port changed"]);
        ensure!(count < MOST_LINES, "{count} lines about ports");
        let mut shown = net.rosemary.log();
        for args in
            [&["ports", &rogue.dpid()][..], &["switches"], &["ports", &rogue.dpid(), "--json"]]
        {
            shown.push_str(&run(net.lab, args)?.1);
        }
        let bad = |it: &char| it.is_control() && *it != '\n' || *it == '\u{202e}';
        let found: Vec<char> = shown.chars().filter(bad).take(5).collect();
        ensure!(found.is_empty(), "control characters reach the terminal: {found:?}");
        let forged = shown.lines().filter(|line| line.starts_with("ERROR kernel:")).count();
        ensure!(forged == 0, "a name has forged a line");
        Ok(format!("{count} lines, names are shown harmless"))
    })
}

/// Packet-ins with impossible ports, sizes, buffers and tables, and cut ones.
fn false_packets(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |_: &mut Net<'_>| {
        let mut rogue = Rogue::obedient(0xfa15)?;
        rogue.is_served()?;
        rogue.repeat(Duration::from_millis(2), |number| {
            let frames = [frame(1, 2), Vec::new(), vec![0xff; 13], vec![0; 14], vec![0xff; 60_000]];
            let at = [0, 0xffff_fffd, 0xffff_fffe, 0xffff_ffff, 0xffff_fff8, 77];
            let mut out = Vec::new();
            for (frame, port) in frames.iter().zip(at.iter().cycle().skip(number as usize % 6)) {
                let packet_in = PacketIn::new(PortNo(*port), frame);
                let mut one = message(|out| packet_in.encode(VERSION, 0, out));
                match number % 4 {
                    0 => one[8..12].copy_from_slice(&number.to_be_bytes()), // a buffer
                    1 => one[12..14].copy_from_slice(&[0xff, 0xff]),        // total_len
                    2 => one[26..28].copy_from_slice(&[0xff, 0xf0]), // the length of the match
                    _ => one[15] = 0xff,                             // the table
                }
                out.extend(one);
            }
            out
        });
        Ok(rogue)
    };
    beside.attacked("impossible packet-ins", begin, |net, _| {
        let status = net.status()?;
        let app = status.app("learning-switch").context("it runs")?;
        ensure!(app.restarts == 0, "{app:?}");
        let count = lines(net, &["ignored a malformed message"]);
        ensure!(count < MOST_LINES, "{count} lines");
        Ok(format!("{count} lines about malformed messages"))
    })
}

/// Hundreds of switches connect, send a packet and leave.
fn visitors(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |_: &mut Net<'_>| {
        Ok(Some(thread::spawn(|| -> anyhow::Result<u64> {
            let begin = Instant::now();
            let mut number = 0;
            while begin.elapsed() < Duration::from_secs(4) {
                let mut peer = TcpStream::connect("127.0.0.1:6653")?;
                let mut bytes = introduction(0x7_0000 + number);
                let packet_in = PacketIn::new(PortNo(1), &[2; 60]);
                bytes.extend(message(|out| packet_in.encode(VERSION, 0, out)));
                let _ = peer.write_all(&bytes); // it may be refused
                thread::sleep(Duration::from_millis(3));
                number += 1;
            }
            Ok(number)
        })))
    };
    beside.attacked("switches that come and go", begin, |net, visits| {
        let visits = visits.take().context("once")?.join().ok().context("no panic")??;
        let gone = |status: &cli::status::Report| {
            let mut all = status.switches.iter().flatten();
            (!all.any(|it| it.dpid.contains(":00:07:"))).then_some(())
        };
        net.rosemary.wait_for("all have left", SOON, gone)?;
        let count = lines(net, &["switch connected"]);
        ensure!(count < MOST_LINES, "{count} lines");
        Ok(format!("{visits} visits, {count} lines about connections"))
    })
}

/// The descriptions of ports in the handshake never end: each part is empty and says that more follow.
fn endless_ports(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |_: &mut Net<'_>| {
        let endless = |dpid| -> anyhow::Result<Rogue> {
            let answer = |kind, received: &[u8], out: &mut Vec<u8>| {
                let is = kind == Kind::MultipartRequest && multipart_of(received) == PORT_DESC;
                if is {
                    out.extend(part(PORT_DESC, xid_of(received), true, &[]));
                }
                is
            };
            let mut rogue = Rogue::connect(dpid, ports(1), Box::new(answer))?;
            let more: Vec<u8> = (1..6).flat_map(|xid| part(PORT_DESC, xid, true, &[])).collect();
            thread::sleep(Duration::from_millis(20));
            rogue.repeat(Duration::from_millis(5), move |_| more.repeat(20));
            Ok(rogue)
        };
        (0xe9d0..0xe9d8).map(endless).collect::<anyhow::Result<Vec<_>>>()
    };
    beside.attacked("port descriptions without end", begin, |_, rogues| {
        let begin = Instant::now();
        while !rogues.iter().all(Rogue::is_closed) {
            ensure!(begin.elapsed() < UNFINISHED, "the handshake never ends");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(format!("closed {:?} later", begin.elapsed()))
    })
}

/// 1,200 connections send hellos and TLS hellos a byte at a time. A new switch connects at the same time.
fn slow_hellos(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |_: &mut Net<'_>| {
        let hello = message(|out| Hello::new(&[VERSION]).encode(1, out));
        let tls = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
        let drip = move || -> anyhow::Result<usize> {
            let connect = |_| TcpStream::connect("127.0.0.1:6653");
            let mut peers = (0..1200).map(connect).collect::<Result<Vec<_>, _>>()?;
            let mut bytes: Vec<(u8, u8)> = hello.iter().copied().zip(tls).collect();
            bytes.truncate(7);
            for (plain, tls) in bytes {
                let mut number = 0;
                peers.retain_mut(|peer| {
                    number += 1;
                    peer.write_all(&[if number % 2 == 0 { plain } else { tls }]).is_ok()
                });
                thread::sleep(Duration::from_millis(1800));
            }
            let mut open = 0;
            for peer in &mut peers {
                peer.set_read_timeout(Some(Duration::from_millis(1)))?;
                let read = peer.read(&mut [0; 64]).map_err(|error| error.kind());
                open += usize::from(matches!(read, Err(std::io::ErrorKind::WouldBlock)));
            }
            Ok(open)
        };
        Ok(Some(thread::spawn(drip)))
    };
    beside.attacked("slow hellos over TCP and TLS", begin, |net, dripping| {
        let start = Instant::now();
        let s2 = net.lab.switch("s2", Of::V1_3)?;
        net.rosemary.wait_for_switch(&s2)?;
        let connected = start.elapsed();
        let open = dripping.take().context("once")?.join().ok().context("no panic")??;
        ensure!(open < 20, "{open} are still open after 12 s");
        Ok(format!("a real switch connected in {connected:?}; {open} are open after 12 s"))
    })
}
