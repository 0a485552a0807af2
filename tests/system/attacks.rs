//! Attacks on the OpenFlow port: connected switches are not affected, and memory stays bounded.
//! `malformed_input.rs` tests malformed input, `tls.rs` invalid TLS.
//!
//! During each attack two hosts ping each other on a flow of a real switch. No ping may be lost,
//! the switch must stay on its connection, and new flows must work afterwards. `attacks/memory.rs`
//! contains attacks that exhaust memory.

mod memory;

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of};
use openflow::{Hello, PacketIn, PortNo, Version, append};
use rosemary_tests::apps::configure;
use rosemary_tests::fake::Fake;
use rosemary_tests::in_a_lab;
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::random::Random;

const PORT: &str = "127.0.0.1:6653";

/// Limit of the kernel's growth during an attack, in KiB.
const MOST: u64 = 32 * 1024;

/// Time limit until an incomplete connection is closed; the handshake timeout is 10 s.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `attack` while two hosts ping each other for about `time`, then checks that nothing else
/// has changed.
fn attacked(
    time: Duration,
    attack: impl FnOnce(&Lab, &mut Net<'_>) -> anyhow::Result<()> + Send + 'static,
) {
    attacked_within("", MOST, time, attack);
}

/// Like [`attacked`], with a configuration; the kernel may grow by `most` KiB.
fn attacked_within(
    config: &'static str,
    most: u64,
    time: Duration,
    attack: impl FnOnce(&Lab, &mut Net<'_>) -> anyhow::Result<()> + Send + 'static,
) {
    in_a_lab(move |lab| {
        sys::process::raise_descriptor_limit()?;
        configure(&[config])?;
        let mut net = Net::start(lab, Of::V1_3)?;
        ensure!(net.h1.ping(&net.h2, 3, INTERVAL)?.lost() == 0, "there is a flow");
        let before = net.status()?.programs.kernel;
        let (epoch, pid) = (net.switch_status()?.epoch, before.pid.context("the kernel runs")?);
        let memory = Memory::of(pid)?;
        let count = u32::try_from(time.as_millis() / INTERVAL.as_millis())?;
        let mut pings = net.h1.ping_in_background(&net.h2, count, INTERVAL)?;
        pings.wait_for(5, SOON)?;

        let start = Instant::now();
        attack(lab, &mut net)?;
        let took = start.elapsed();
        let pings = pings.finish()?;
        let after = Memory::of(pid)?;
        println!(
            "{took:?}; {} of {} pings; the kernel's memory: {} KiB before, {} at most, {} after",
            pings.received, pings.sent, memory.now_kib, after.most_kib, after.now_kib
        );
        ensure!(pings.lost() == 0, "{pings:?}");
        ensure!(net.status()?.programs.kernel == before, "the kernel was not restarted");
        ensure!(net.switch_status()?.epoch == epoch, "the switch is on the same connection");
        ensure!(after.most_kib < memory.most_kib + most, "{after:?}");
        ensure!(net.h1.ping(&net.h3, 10, INTERVAL)?.received > 0, "new flows work");
        Ok(())
    });
}

#[test]
fn random_bytes_on_many_connections_affect_no_switch() {
    attacked(Duration::from_secs(8), |_, net| {
        let mut random = Random::seeded();
        let mut hello = Vec::new();
        append(&mut hello, |out| Hello::new(&[Version::V1_3]).encode(1, out))?;
        for number in 0..400 {
            let mut peer = TcpStream::connect(PORT)?;
            peer.set_nonblocking(true)?; // output that does not fit is skipped
            if number % 2 == 0 {
                let _ = peer.write_all(&hello);
            }
            let size = usize::try_from(random.bits() % 20_000)?;
            let mut bytes = random.bytes(size);
            if number % 4 == 0 && size > 2 {
                (bytes[0], bytes[1]) = (4, bytes[1] % 30); // a plausible header, so that it is decoded
            }
            let _ = peer.write_all(&bytes);
        }
        net.rosemary
            .wait_for_log(&["connection closed before its handshake was complete"], SOON)?;
        Ok(())
    });
}

#[test]
fn half_open_connections_are_closed() {
    attacked(Duration::from_secs(14), |_, _| {
        let mut peers = Vec::new();
        for number in 0..600 {
            let mut peer = TcpStream::connect(PORT)?;
            match number % 3 {
                0 => peer.write_all(&[4, 0, 0])?, // the beginning of a hello
                1 => peer.shutdown(Shutdown::Write)?,
                _ => {} // it stays silent
            }
            peers.push(peer);
        }
        for peer in &mut peers {
            wait_until_closed(peer)?;
        }
        Ok(())
    });
}

#[test]
fn slow_connections_are_closed() {
    attacked(Duration::from_secs(16), |_, _| {
        let mut hello = Vec::new();
        append(&mut hello, |out| Hello::new(&[Version::V1_3]).encode(1, out))?;
        hello.extend([4, 6, 0, 32].iter().chain([0; 28].iter())); // the start of a features reply
        let peers = (0..50).map(|_| TcpStream::connect(PORT)).collect::<Result<Vec<_>, _>>()?;
        let (start, mut open) = (Instant::now(), peers);
        for byte in hello {
            open.retain_mut(|peer| peer.write_all(&[byte]).is_ok());
            thread::sleep(Duration::from_secs(1));
            if open.is_empty() || start.elapsed() > PATIENCE {
                break;
            }
        }
        println!("the last was closed after {:?}", start.elapsed());
        ensure!(open.is_empty(), "{} are open after {:?}", open.len(), start.elapsed());
        Ok(())
    });
}

#[test]
fn many_connections_block_no_switch() {
    attacked(Duration::from_secs(8), |lab, net| {
        let start = Instant::now();
        let peers = (0..2_000).map(|_| TcpStream::connect(PORT)).collect::<Result<Vec<_>, _>>()?;
        println!("2,000 connections after {:?}", start.elapsed());
        let s2 = lab.switch("s2", Of::V1_0)?;
        net.rosemary.wait_for_switch(&s2)?;
        println!("another switch is in after {:?}", start.elapsed());
        drop(peers);
        Ok(())
    });
}

#[test]
fn switch_that_never_reads_is_disconnected() {
    attacked(Duration::from_secs(18), |_, net| {
        let mut fake = connected(net)?;
        fake.socket().set_write_timeout(Some(Duration::from_secs(1)))?;
        // The app floods packets for an unknown host, so each causes a packet-out that is never
        // read.
        let burst = packet_ins(40, 1400)?;
        let start = Instant::now();
        while start.elapsed() < PATIENCE && fake.send(&burst).is_ok() {}
        let dpid = fake.dpid();
        println!("{}", net.rosemary.wait_for_log(&["disconnected", &dpid, "not read"], PATIENCE)?);
        Ok(())
    });
}

#[test]
fn flooding_switch_affects_no_other() {
    attacked(Duration::from_secs(8), |_, net| {
        let mut fake = connected(net)?;
        // It reads its input, so that no output queue fills.
        let mut reads = fake.socket().try_clone()?;
        let reading = thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(1..) = reads.read(&mut buffer) {}
        });
        let burst = packet_ins(500, 60)?;
        let (start, mut sent) = (Instant::now(), 0);
        fake.socket().set_write_timeout(Some(Duration::from_secs(1)))?;
        while start.elapsed() < Duration::from_secs(5) {
            match fake.send(&burst) {
                Ok(()) => sent += 500,
                // The write stopped inside a message: later bytes would be invalid.
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        let dpid = fake.dpid();
        let status = net.status()?.switch(&dpid).cloned();
        println!("{sent} packet-ins in {:?}; then: {status:?}", start.elapsed());
        fake.socket().shutdown(Shutdown::Both)?;
        let _ = reading.join();
        ensure!(sent > 0, "it flooded");
        Ok(())
    });
}

/// Connects a switch without datapath and completes its handshake.
fn connected(net: &mut Net<'_>) -> anyhow::Result<Fake> {
    let mut fake = Fake::connect(Version::V1_3, 0x2a)?;
    let dpid = fake.dpid();
    net.rosemary.wait_for("it connects", SOON, |status| {
        fake.answer_for(Duration::from_millis(50));
        status.switch(&dpid).map(drop)
    })?;
    Ok(fake)
}

/// Builds packet-ins for one write, of packets from different hosts to an unknown one.
fn packet_ins(count: u32, size: usize) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for number in 0..count {
        let mut frame = vec![2; 12];
        frame[8..12].copy_from_slice(&number.to_be_bytes());
        frame.extend([0x08, 0x00]);
        frame.resize(size, 0);
        let packet_in = PacketIn::new(PortNo(1), &frame);
        append(&mut bytes, |out| packet_in.encode(Version::V1_3, 0, out))?;
    }
    Ok(bytes)
}

fn wait_until_closed(peer: &mut TcpStream) -> anyhow::Result<()> {
    peer.set_read_timeout(Some(PATIENCE))?;
    let mut bytes = [0; 4096];
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        match peer.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error).context("it is still open"),
        }
    }
    anyhow::bail!("the connection is still open")
}

/// Private memory of a process, from `/proc` (`proc_pid_status(5)`).
#[derive(Debug)]
struct Memory {
    now_kib: u64,
    most_kib: u64,
}

impl Memory {
    fn of(pid: u32) -> anyhow::Result<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let field = |name: &str| -> anyhow::Result<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let value = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            value.with_context(|| format!("no {name} of {pid}"))
        };
        Ok(Self { now_kib: field("VmRSS")?, most_kib: field("VmHWM")? })
    }
}
