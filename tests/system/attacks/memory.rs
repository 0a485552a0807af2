//! Switches that make the kernel allocate as much as possible. `ROSEMARY_HOSTILE=all`, as in `make
//! hostile`, uses more of them.

use openflow::{Dpid, Echo, MacAddr, PortDesc, PortDescReply};
use rosemary_tests::fake::features;

use super::*;

/// Number of ports that each switch claims, and maximum number of ports per message.
const CLAIM: u32 = 8_184;
const IN_ONE: u32 = 1_023;

/// The port limit of these tests.
const PORTS: u64 = 65_536;
const CONFIG: &str = "[controller]\nswitch-ports = 65536\n";

/// Limit of memory that is not released, in KiB.
const LEFT: u64 = 16 * 1024;

/// Returns `usual`, or `all` for the full-size attack.
fn count(usual: u64, all: u64) -> u64 {
    let is_full = std::env::var_os("ROSEMARY_HOSTILE").is_some_and(|which| which == "all");
    if is_full { all } else { usual }
}

/// Returns hello and features reply, and the start of the port descriptions.
fn introduction(dpid: u64) -> anyhow::Result<Vec<u8>> {
    let mut out = Vec::new();
    append(&mut out, |out| Hello::new(&[Version::V1_3]).encode(1, out))?;
    append(&mut out, |out| features(Dpid(dpid)).encode(Version::V1_3, 2, out))?;
    Ok(out)
}

/// Returns the descriptions of this number of ports, in one or more messages.
fn descriptions(ports: u32) -> anyhow::Result<Vec<u8>> {
    let mut out = Vec::new();
    let all: Vec<PortDesc> =
        (1..=ports).map(|number| PortDesc::new(PortNo(number), MacAddr([2; 6]), "port")).collect();
    let mut chunks = all.chunks(IN_ONE as usize).peekable();
    loop {
        let ports = chunks.next().unwrap_or_default();
        let more = chunks.peek().is_some();
        append(&mut out, |out| PortDescReply::encode(ports, more, Version::V1_3, 3, out))?;
        if !more {
            return Ok(out);
        }
    }
}

/// Opens `count` connections that each send their introduction and `rest`, as far as possible.
fn connect(count: u64, rest: &[u8]) -> anyhow::Result<Vec<TcpStream>> {
    let mut peers = Vec::new();
    for number in 0..count {
        let mut peer = TcpStream::connect(PORT)?;
        peer.set_write_timeout(Some(Duration::from_millis(500)))?;
        // A rejected connection is closed while it still sends.
        let _ = peer.write_all(&introduction(0x1000 + number)?).and_then(|()| peer.write_all(rest));
        peers.push(peer);
    }
    Ok(peers)
}

/// Waits until the kernel has released the memory allocated since `before`.
fn wait_until_given_back(net: &Net<'_>, pid: u32, before: &Memory) -> anyhow::Result<()> {
    let start = Instant::now();
    net.lab.wait_for("the memory is given back", SOON * 3, |_| {
        let now = Memory::of(pid).map_or(u64::MAX, |memory| memory.now_kib);
        Ok((now < before.now_kib + LEFT).then_some(()))
    })?;
    println!("memory was given back after {:?}", start.elapsed());
    Ok(())
}

#[test]
fn switches_with_thousands_of_ports_take_bounded_memory() {
    // The pool, twice during a handshake, and slack.
    attacked_within(CONFIG, 4 * PORTS * 72 / 1024 + MOST, Duration::from_secs(3), |lab, net| {
        let pid = net.status()?.programs.kernel.pid.context("the kernel runs")?;
        let before = Memory::of(pid)?;
        let peers = connect(count(200, 4_000), &descriptions(CLAIM)?)?;
        let refused = ["there is no room for its ports", "`switch-ports` in [controller]"];
        println!("{}", net.rosemary.wait_for_log(&refused, SOON)?);
        // A switch with few ports can still connect.
        let s2 = lab.switch("s2", Of::V1_3)?;
        net.rosemary.wait_for_switch(&s2)?;
        println!("with {} connections: {:?}", peers.len(), Memory::of(pid)?);
        drop(peers);
        wait_until_given_back(net, pid, &before)
    });
}

#[test]
fn unfinished_messages_and_unread_output_take_bounded_memory() {
    // The pool of 64 MiB, two workers' output buffers, and the memory of the switches.
    attacked_within("", 64 * 1024 + 2 * MOST, Duration::from_secs(3), |_, net| {
        let pid = net.status()?.programs.kernel.pid.context("the kernel runs")?;
        let before = Memory::of(pid)?;
        let mut rest = descriptions(0)?;
        rest.extend([4, 10, 0xff, 0xff, 0, 0, 0, 1]);
        rest.resize(rest.len() + 65_000, 0);
        let peers = connect(count(2_600, 8_000), &rest)?;
        net.rosemary.wait_for_log(&["this one has waited longest"], SOON)?;
        println!("with {} connections: {:?}", peers.len(), Memory::of(pid)?);
        drop(peers);

        // Requests with replies, from peers that do not read.
        let mut echoes = descriptions(0)?;
        let data = vec![7; 65_000];
        for _ in 0..60 {
            let echo = Echo { is_reply: false, xid: 1, data: &data };
            append(&mut echoes, |out| echo.encode(Version::V1_3, out))?;
        }
        let peers = connect(count(40, 100), &echoes)?;
        println!("with {} connections that do not read: {:?}", peers.len(), Memory::of(pid)?);
        drop(peers);
        wait_until_given_back(net, pid, &before)
    });
}
