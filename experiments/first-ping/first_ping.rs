//! Measures the delay of the first ping between two hosts behind Open vSwitch: with Rosemary and its learning
//! switch in a zone, and with `ovs-testcontroller`.
//!
//! ```text
//! h1 --\                 /-- 127.0.0.1:6653  Rosemary
//!       s1 (OVS) --------
//! h2 --/                 \-- 127.0.0.1:6654  ovs-testcontroller
//! ```
//!
//! Before each ping both hosts get new Ethernet addresses and empty ARP tables. So the ping waits for an ARP
//! request, its reply, an echo request and its reply, and each of them is a packet-in. The controllers take
//! turns, a block of pings each.

#![forbid(unsafe_code)]

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use cli::lab::{self, Host, Lab, Of, Rosemary, Switch};
use rosemary_tests::experiment::note;
use rosemary_tests::rosemary_binary;

const ROSEMARY: &str = "tcp:127.0.0.1:6653";
const OTHER: &str = "tcp:127.0.0.1:6654";

/// Number of pings per block.
const BLOCK: usize = 20;

/// Time limit for a connection. Open vSwitch retries after a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// The results of one controller.
struct Pings {
    name: &'static str,
    at: &'static str,
    times: Vec<Duration>,
}

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let pings: usize = match &words[..] {
        [] => 200,
        [number] => number.parse().context("expected a number of pings")?,
        _ => bail!("usage: first_ping [PINGS]"),
    };
    lab::require(&["ovs-testcontroller"])?;
    let lab = Lab::enter()?;
    let mut rosemary = Rosemary::start(&lab, &rosemary_binary(), &[])?;
    let mut other = lab.command("ovs-testcontroller");
    other.arg("ptcp:6654:127.0.0.1");
    let mut other = lab.start("ovs-testcontroller", other)?;
    let mut controllers = [
        Pings { name: "Rosemary, user app", at: ROSEMARY, times: Vec::new() },
        Pings { name: "ovs-testcontroller", at: OTHER, times: Vec::new() },
    ];
    let mut text = String::new();
    for of in [Of::V1_0, Of::V1_3] {
        let switch = lab.switch(if of == Of::V1_0 { "s0" } else { "s3" }, of)?;
        let hosts = [
            lab.host(&format!("{}-a", switch.name()), &switch)?,
            lab.host(&format!("{}-b", switch.name()), &switch)?,
        ];
        let mut fresh = 0;
        while controllers.iter().any(|controller| controller.times.len() < pings) {
            for controller in &mut controllers {
                rosemary.must_run()?;
                other.must_run()?;
                connect(&lab, &switch, controller.at)?;
                for _ in 0..BLOCK.min(pings) {
                    fresh += 1;
                    controller.times.push(first_ping(&hosts, fresh)?);
                }
                let (name, done) = (controller.name, controller.times.len());
                note(format_args!("OpenFlow {of}, {name}: {done} of {pings} pings"));
            }
        }
        for controller in &mut controllers {
            text += &row(of, controller);
            controller.times.clear();
        }
        switch.stand_alone()?;
    }
    let head = "| first ping, in ms | pings | median | p90 | longest |\n| --- | ---: | ---: | ---: | ---: |\n";
    std::io::stdout().write_all(format!("{head}{text}").as_bytes())?;
    Ok(())
}

/// Empties the switch, connects it to a controller and waits for the controller's flows.
fn connect(lab: &Lab, switch: &Switch<'_>, controller: &str) -> anyhow::Result<()> {
    switch.connect_to("ptcp:6699:127.0.0.1")?; // disconnects it from both
    switch.ofctl(&["del-flows"])?;
    switch.connect_to(controller)?;
    lab.wait_for(format!("{controller} installs flows"), PATIENCE, |evidence| {
        let bridges = lab.run("ovs-vsctl", &["--db=unix:/run/lab/db.sock", "show"])?;
        let connected = bridges.contains("is_connected: true");
        evidence.0 = bridges;
        Ok(connected.then_some(()))
    })?;
    // The switch reports the connection before the end of the handshake, and Rosemary's learning switch
    // receives its event later.
    Ok(lab.pause(Duration::from_millis(500))?)
}

/// Gives the hosts new addresses and makes the first ping the second.
fn first_ping(hosts: &[Host<'_>; 2], fresh: u16) -> anyhow::Result<Duration> {
    let [high, low] = fresh.to_be_bytes();
    for (host, number) in hosts.iter().zip(1_u8..) {
        let mac = format!("02:00:{number:02x}:00:{high:02x}:{low:02x}");
        host.run("ip", &["link", "set", "eth0", "address", &mac])?;
        host.run("ip", &["neighbour", "flush", "dev", "eth0"])?;
    }
    let [first, second] = hosts;
    let report = first.ping(second, 1, Duration::from_secs(1))?;
    report.rtts().first().copied().context("a ping was lost")
}

fn row(of: Of, controller: &Pings) -> String {
    let mut times = controller.times.clone();
    times.sort_unstable();
    let ms = |at: usize| times[at.min(times.len() - 1)].as_secs_f64() * 1000.0;
    let (count, name) = (times.len(), controller.name);
    let (median, p90, longest) = (ms(count / 2), ms(count * 9 / 10), ms(count - 1));
    format!("| OpenFlow {of}, {name} | {count} | {median:.2} | {p90:.2} | {longest:.2} |\n")
}
