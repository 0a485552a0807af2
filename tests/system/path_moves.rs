//! `forwarding` moves paths while every packet is counted: a switch in the middle is drained, and the traffic loses, repeats and
//! loops none.
//!
//! ```text
//!          s2
//!        /    \
//! h1 - s1      s3 - h3        w1 sees what returns to s1, w3 what leaves s3 for the ring: the packets that loop.
//!  w1 /  \    /  \ w3
//!          s4
//! ```

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Host, Lab, Of, Rosemary, Switch};
use rosemary_tests::apps::configure;
use rosemary_tests::net::SOON;
use rosemary_tests::sockets::socket_on;
use rosemary_tests::{in_a_lab_without_capture_for, over_versions, rosemary_binary};

/// The moves of a run in `make test`; `ROSEMARY_MOVES` sets others.
const MOVES: u32 = 8;

/// The port of the packets.
const PORT: u16 = 7;

/// The time between two packets.
const INTERVAL: Duration = Duration::from_millis(1);

const FORWARDING: &str = "[[app]]\nname = \"forwarding\"\n";

fn moves() -> u32 {
    std::env::var("ROSEMARY_MOVES").ok().and_then(|it| it.parse().ok()).unwrap_or(MOVES)
}

/// Sends numbered packets until the end. Returns their number.
fn send(socket: &UdpSocket, to: &str, is_over: &AtomicBool) -> u32 {
    let mut sent = 0_u32;
    let begin = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        if socket.send_to(&sent.to_be_bytes(), (to, PORT)).is_ok() {
            sent += 1;
        }
        // A late packet does not make the later ones late.
        thread::sleep((begin + INTERVAL * sent).saturating_duration_since(Instant::now()));
    }
    sent
}

/// Counts how often each packet arrives, until none comes for a second after the end.
fn receive(socket: &UdpSocket, is_over: &AtomicBool) -> Vec<u8> {
    let mut times = Vec::new();
    let mut buffer = [0; 64];
    loop {
        let was_over = is_over.load(Ordering::Relaxed);
        match socket.recv(&mut buffer) {
            Ok(4) => {
                let number = u32::from_be_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]);
                let number = usize::try_from(number).expect("32 bits fit");
                if times.len() <= number {
                    times.resize(number + 1, 0_u8);
                }
                times[number] = times[number].saturating_add(1);
            }
            Err(_) if was_over => return times,
            _ => {}
        }
    }
}

/// The runs of packets that did not arrive, each with its first number and its length.
fn lost_runs(times: &[u8]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (number, _) in times.iter().enumerate().filter(|(_, times)| **times == 0) {
        match runs.last_mut() {
            Some((first, length)) if *first + *length == number => *length += 1,
            _ => runs.push((number, 1)),
        }
    }
    runs
}

/// Has `watcher` receive a copy of the packets between a switch and its neighbours in the ring, in one direction.
fn mirror(
    lab: &Lab,
    at: &Switch<'_>,
    ring: [&str; 2],
    way: &str,
    watcher: &Host<'_>,
) -> anyhow::Result<()> {
    let name = at.name();
    let bridge = lab.run("ovs-vsctl", &["--timeout=10", "list-ports", name])?;
    let ports_of_ring: Vec<String> = ring.iter().map(|other| format!("{name}-{other}")).collect();
    let output = bridge.lines().find(|port| port.contains(watcher.name()));
    let output = output.with_context(|| format!("the port of {}: {bridge}", watcher.name()))?;
    let [one, other] = [0, 1].map(|at| format!("--id=@p{at}"));
    let ports = format!("{way}=@p0,@p1");
    lab.run(
        "ovs-vsctl",
        &[
            "--timeout=10",
            "--",
            &one,
            "get",
            "port",
            &ports_of_ring[0],
            "--",
            &other,
            "get",
            "port",
            &ports_of_ring[1],
            "--",
            "--id=@w",
            "get",
            "port",
            output,
            "--",
            "--id=@m",
            "create",
            "mirror",
            "name=loops",
            &ports,
            "output-port=@w",
            "--",
            "set",
            "bridge",
            name,
            "mirrors=@m",
        ],
    )?;
    Ok(())
}

fn paths_move(lab: &Lab, of: Of) -> anyhow::Result<()> {
    configure(&[FORWARDING])?;
    let switch = |name: &str| lab.switch(name, of);
    let switches = [switch("s1")?, switch("s2")?, switch("s3")?, switch("s4")?];
    let (h1, h3) = (lab.host("h1", &switches[0])?, lab.host("h3", &switches[2])?);
    let (w1, w3) = (lab.host("w1", &switches[0])?, lab.host("w3", &switches[2])?);
    for (at, one) in switches.iter().enumerate() {
        one.link_to(&switches[(at + 1) % 4])?;
    }
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
    let run = |args: &[&str]| lab.run(&rosemary_binary().display().to_string(), args);
    lab.wait_for("all links are found", SOON * 3, |_| {
        let links = run(&["links", "--json"]).ok();
        let links =
            links.and_then(|text| serde_json::from_str::<Vec<serde_json::Value>>(&text).ok());
        Ok(links.filter(|links| links.len() == 8).map(|_| ()))
    })?;
    h1.knows(&h3)?;
    h3.knows(&h1)?;
    lab.wait_for("h1 reaches h3", SOON * 2, |_| {
        Ok((h1.ping(&h3, 3, Duration::from_millis(100))?.received == 3).then_some(()))
    })?;
    mirror(lab, &switches[0], ["s2", "s4"], "select_src_port", &w1)?;
    mirror(lab, &switches[2], ["s2", "s4"], "select_dst_port", &w3)?;
    let watches = [w1.watch()?, w3.watch()?];

    let is_over = Arc::<AtomicBool>::default();
    let (from, to) = (socket_on(&h1, "0.0.0.0", 0)?, socket_on(&h3, "0.0.0.0", PORT)?);
    to.set_read_timeout(Some(Duration::from_secs(1)))?;
    let sender = thread::spawn({
        let (is_over, to) = (Arc::clone(&is_over), h3.address());
        move || send(&from, &to, &is_over)
    });
    let receiver = thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || receive(&to, &is_over)
    });
    let moved = (0..moves()).try_for_each(|count| -> anyhow::Result<()> {
        let [drained, other] =
            if count % 2 == 0 { [1, 3] } else { [3, 1] }.map(|at| switches[at].dpid());
        run(&["switch", "undrain", &other])?;
        run(&["switch", "drain", &drained])?;
        Ok(())
    });
    is_over.store(true, Ordering::Relaxed);
    let sent = sender.join().ok().context("the sender does not panic")?;
    let times = receiver.join().ok().context("the receiver does not panic")?;
    moved?;
    let arrived = times.iter().filter(|it| **it > 0).count();
    let lost = usize::try_from(sent)? - arrived;
    let repeated = times.iter().filter(|it| **it > 1).count();
    let udp = format!("{} > {}", h1.address(), h3.address());
    let looped: usize = watches.iter().map(|it| it.seen(&[&udp]).len()).sum();
    let probes = watches.each_ref().map(|it| it.seen(&["LLDP"]).len());
    ensure!(probes.iter().all(|seen| *seen > 0), "the mirrors show nothing: {probes:?}");
    println!(
        "OpenFlow {of}: {} moves, {sent} packets, {lost} lost, {repeated} repeated, {looped} looped",
        moves()
    );
    ensure!(
        (lost, repeated, looped) == (0, 0, 0),
        "{lost} lost, {repeated} repeated, {looped} looped; runs of lost packets (first, length): {:?}",
        lost_runs(&times)
    );
    rosemary.must_run()?;
    Ok(())
}

over_versions!(moved_paths_lose_repeat_and_loop_no_packet, |of| {
    in_a_lab_without_capture_for(SOON * 20 + Duration::from_secs(5) * moves(), move |lab| {
        paths_move(lab, of)
    });
});
