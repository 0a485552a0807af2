//! Change sets at a real switch: packets meet one of two sets of flows and no mixture, also when the app or the kernel is killed.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Host, Lab, Of};
use rosemary_tests::apps::{configure, in_rust};
use rosemary_tests::net::{Net, SOON};
use rosemary_tests::random::Random;
use rosemary_tests::sockets::socket_on;
use rosemary_tests::{in_a_lab_for, in_a_lab_without_capture_for, kill};

const LIMIT: Duration = Duration::from_secs(180);

/// Exchanges under traffic, and deaths of each program, in `make test`. `make soak` sets others.
const EXCHANGES: u32 = 50;
const DEATHS: u32 = 3;

/// Flows of a set, and the destination ports of the packets that they handle.
const FLOWS: usize = 500;
const PORTS: std::ops::Range<u16> = 10_000..10_250;

const SET: [u64; 2] = [101, 102];

fn number(variable: &str, otherwise: u32) -> u32 {
    std::env::var(variable).ok().and_then(|it| it.parse().ok()).unwrap_or(otherwise)
}

/// Packets from one host to another, whose marks the receiver compares.
struct Traffic {
    is_over: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    /// Packets that met set 101 alone, and set 102 alone.
    whole: [AtomicU64; 2],
    /// Packets that met flows of both.
    mixed: AtomicU64,
}

impl Traffic {
    fn start(from: &Host<'_>, to: &Host<'_>) -> anyhow::Result<Self> {
        from.knows(to)?;
        let to_address = to.address();
        let (is_over, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let counts = Arc::<Counts>::default();
        let mut threads = Vec::new();
        // A few of the ports are listened to; all are used.
        let socket = socket_on(from, "0.0.0.0", 7)?;
        for port in PORTS.step_by(10) {
            let receiver = socket_on(to, "0.0.0.0", port)?;
            let (is_over, counts) = (Arc::clone(&is_over), Arc::clone(&counts));
            receiver.set_read_timeout(Some(Duration::from_millis(50)))?;
            threads.push(thread::spawn(move || receive(&receiver, &is_over, &counts)));
        }
        threads.push(thread::spawn({
            let (is_over, sent) = (Arc::clone(&is_over), Arc::clone(&sent));
            move || {
                while !is_over.load(Ordering::Relaxed) {
                    for port in PORTS.step_by(10) {
                        let _ = socket.send_to(b"packet", (to_address.as_str(), port));
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                    thread::sleep(Duration::from_millis(2)); // 10,000 packets a second
                }
            }
        }));
        Ok(Self { is_over, sent, threads, counts })
    }

    /// Ends the traffic. Returns the packets that were sent, that met each whole set, and that met a mixture.
    fn finish(self) -> (u64, [u64; 2], u64) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("no thread panicked");
        }
        let whole = self.counts.whole.each_ref().map(|it| it.load(Ordering::Relaxed));
        (self.sent.load(Ordering::Relaxed), whole, self.counts.mixed.load(Ordering::Relaxed))
    }
}

fn receive(socket: &UdpSocket, is_over: &AtomicBool, counts: &Counts) {
    let mut buffer = [0; 64];
    while !is_over.load(Ordering::Relaxed) {
        let Ok((_, from)) = socket.recv_from(&mut buffer) else { continue };
        let address = from.to_string();
        let set = SET.iter().position(|set| address == format!("10.0.0.{set}:{set}"));
        match set {
            Some(set) => counts.whole[set].fetch_add(1, Ordering::Relaxed),
            None => counts.mixed.fetch_add(1, Ordering::Relaxed),
        };
    }
}

/// Configures the app.
fn exchanger(how: &str) -> anyhow::Result<()> {
    let keys = "config = \"exchanger.txt\"\ncapabilities = [\"flow.write\"]\n";
    let supervision = "[supervision]\nmin-run-seconds = 0.1\nrestarts = 100000\n\
                       [safe-mode]\nkernel-restarts = 100000\n";
    configure(&[supervision, &in_rust("exchanger", keys)])?;
    std::fs::write("/etc/rosemary/exchanger.txt", how)?;
    Ok(())
}

/// Exchanges the sets under traffic. Returns the packets that were sent, that met each whole set, and that met a mixture.
fn exchange(lab: &Lab, of: Of, how: &str, words: &str) -> anyhow::Result<(u64, [u64; 2], u64)> {
    exchanger(&format!("{how} 20"))?;
    let mut net = Net::with_known_ports(lab, of, start(lab)?)?;
    net.rosemary.wait_for_log(&["exchanges: 1,", words], SOON)?;
    let traffic = Traffic::start(&net.h1, &net.h2)?;
    let exchanges = number("ROSEMARY_EXCHANGES", EXCHANGES).next_multiple_of(50);
    let limit = SOON + Duration::from_millis(400) * exchanges;
    net.rosemary.wait_for_log(&[&format!("exchanges: {exchanges},"), words], limit)?;
    let counted = traffic.finish();
    let log = net.rosemary.log();
    ensure!(!log.contains("not applied") && !log.contains("refused"), "{log}");
    let (sent, whole, mixed) = counted;
    println!("OpenFlow {of}, {how}: {sent} packets, {whole:?} met one set, {mixed} a mixture");
    ensure!(whole.iter().all(|packets| *packets > 100), "packets met both sets: {counted:?}");
    Ok(counted)
}

fn start(lab: &Lab) -> anyhow::Result<cli::lab::Rosemary<'_>> {
    Ok(cli::lab::Rosemary::start(lab, &rosemary_tests::rosemary_binary(), &[])?)
}

fn no_packet_meets_a_mixture(of: Of) {
    let exchanges = number("ROSEMARY_EXCHANGES", EXCHANGES);
    let limit = LIMIT + Duration::from_millis(500) * exchanges;
    in_a_lab_without_capture_for(limit, move |lab| {
        let (.., mixed) = exchange(lab, of, "commit", "atomic")?;
        ensure!(mixed == 0, "{mixed} packets met flows of both sets");
        Ok(())
    });
}

#[test]
fn no_packet_meets_a_mixture_in_1_3() {
    no_packet_meets_a_mixture(Of::V1_3);
}

#[test]
fn no_packet_meets_a_mixture_in_1_4() {
    no_packet_meets_a_mixture(Of::V1_4);
}

#[test]
fn no_packet_meets_a_mixture_in_1_5() {
    no_packet_meets_a_mixture(Of::V1_5);
}

/// The same exchange without a change set: the test above would see a mixture.
#[test]
fn mixture_of_single_messages_is_seen() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let (.., mixed) = exchange(lab, Of::V1_3, "single", "one by one")?;
        ensure!(mixed > 0, "no packet met a mixture, so the traffic shows nothing");
        Ok(())
    });
}

/// The flows of each set at the switch.
fn flows(net: &Net<'_>) -> anyhow::Result<BTreeMap<u64, usize>> {
    let mut flows = BTreeMap::new();
    for flow in net.s1.dump_flows()? {
        let cookie = flow.split("cookie=0x").nth(1).and_then(|it| it.split(',').next());
        let cookie = u64::from_str_radix(cookie.context("a cookie")?, 16)?;
        if cookie >> 48 != 0xffff {
            *flows.entry(cookie & 0xffff_ffff_ffff).or_default() += 1;
        }
    }
    Ok(flows)
}

/// Checks that the switch has one of the sets, whole.
fn is_whole(net: &Net<'_>) -> anyhow::Result<()> {
    let flows = flows(net)?;
    let is_one = |set: u64| flows == BTreeMap::from([(set, FLOWS)]);
    ensure!(SET.into_iter().any(is_one), "flows by set: {flows:?}");
    Ok(())
}

/// Kills the app and the kernel at random moments of exchanges. Each leaves one set, whole.
fn killed_programs_leave_a_whole_set(of: Of) {
    let deaths = number("ROSEMARY_DEATHS", DEATHS);
    in_a_lab_for(LIMIT + SOON * 2 * deaths, move |lab| {
        exchanger("commit 0")?;
        let mut net = Net::with_known_ports(lab, of, start(lab)?)?;
        net.rosemary.wait_for_log(&["exchanges: 50,", "atomic"], SOON * 2)?;
        let (mut random, dpid) = (Random::seeded(), net.s1.dpid());
        for death in 0..2 * deaths {
            let pid_of = |status: &cli::status::Report| match death % 2 {
                0 => status.app("exchanger").and_then(|app| app.pid),
                _ => status.programs.kernel.pid,
            };
            let before = pid_of(&net.status()?).context("it runs")?;
            lab.pause(random.up_to(Duration::from_millis(300)))?;
            kill(before)?;
            let killed = Instant::now();
            while killed.elapsed() < Duration::from_millis(200) {
                is_whole(&net)?;
            }
            net.rosemary.wait_for("it runs again", SOON, |status| {
                let is_other = pid_of(status).is_some_and(|now| now != before);
                (is_other && status.switch(&dpid).is_some()).then_some(())
            })?;
            for _ in 0..10 {
                is_whole(&net)?;
            }
        }
        let log = net.rosemary.log();
        ensure!(!log.contains("not applied") && !log.contains("could not be sent"), "{log}");
        Ok(())
    });
}

#[test]
fn killed_programs_leave_a_whole_set_in_1_3() {
    killed_programs_leave_a_whole_set(Of::V1_3);
}

#[test]
fn killed_programs_leave_a_whole_set_in_1_5() {
    killed_programs_leave_a_whole_set(Of::V1_5);
}
