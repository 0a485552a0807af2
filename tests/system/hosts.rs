//! Tests the service `hosts` with real switches: hosts appear, move and go, and attacks on their places and addresses are
//! reported and do not succeed.

use std::fmt::Write as _;
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use cli::lab::{Host, Lab, Of, Rosemary, Switch};
use rosemary_sdk::MacAddr;
use rosemary_sdk::packet::Arp;
use rosemary_tests::apps::configure;
use rosemary_tests::net::{INTERVAL, SOON};
use rosemary_tests::{in_a_lab, over_versions, rosemary_binary, schema};
use serde_json::Value;

/// The learning switch names the service, so the monitor starts `hosts`, and `topology` for it.
const CONFIG: &str = "[[app]]\nname = \"learning-switch\"\nservices = [\"hosts\"]\n\
    capabilities = [\"packet-in\", \"packet-out\", \"flow.write\", \"hosts.read\"]\n";

/// Runs `rosemary` with these arguments; returns whether it succeeded, and its output.
fn rosemary(lab: &Lab, args: &[&str]) -> anyhow::Result<(bool, String)> {
    let output = lab.command(rosemary_binary()).args(args).stdin(Stdio::null()).output()?;
    Ok((output.status.success(), String::from_utf8(output.stdout)?))
}

/// Returns the hosts that Rosemary knows.
fn hosts(lab: &Lab) -> anyhow::Result<Vec<Value>> {
    let (is_done, json) = rosemary(lab, &["hosts", "--json"])?;
    if !is_done {
        return Ok(Vec::new()); // the service is starting
    }
    schema::check("hosts", &json)?;
    Ok(serde_json::from_str(&json)?)
}

/// Returns where Rosemary knows a host to be, with its addresses.
fn place(lab: &Lab, mac: &str) -> anyhow::Result<Option<(String, String, Vec<String>)>> {
    let hosts = hosts(lab)?;
    let Some(host) = hosts.iter().find(|it| it["mac"] == mac) else { return Ok(None) };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let addresses = host["addresses"].as_array().context("a list")?.iter().filter_map(text);
    let (dpid, port) = (text(&host["dpid"]), text(&host["port"]));
    Ok(Some((dpid.context("a text")?, port.context("a text")?, addresses.collect())))
}

/// Waits until a host is known at this port with its address.
fn wait_for_host(
    rosemary: &mut Rosemary<'_>,
    lab: &Lab,
    host: &Host<'_>,
    (switch, port): (&Switch<'_>, u16),
) -> anyhow::Result<()> {
    let wanted = (switch.dpid(), port.to_string(), vec![host.address()]);
    let mut last = None;
    let found = rosemary.wait_for("a host is known", SOON, |_| {
        last = place(lab, &host.mac()).unwrap_or(None);
        (last.as_ref() == Some(&wanted)).then_some(())
    });
    found.with_context(|| format!("{} is at {last:?}; expected {wanted:?}", host.name()))
}

/// Has the switch send a packet to Rosemary that seems to come in at a port.
fn inject(switch: &Switch<'_>, port: u16, frame: &[u8]) -> anyhow::Result<()> {
    let hex = frame.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    let packet = format!("in_port={port} packet={hex} actions=controller");
    switch.ofctl(&["packet-out", &packet]).map(drop).map_err(Into::into)
}

fn arp(sender_mac: &str, sender_ip: &str) -> anyhow::Result<Vec<u8>> {
    let (sender_mac, sender_ip): (MacAddr, _) = (sender_mac.parse()?, sender_ip.parse()?);
    let (operation, target_mac) = (Arp::REPLY, MacAddr([0xff; 6]));
    let target_ip = sender_ip;
    Ok(Arp { operation, sender_mac, sender_ip, target_mac, target_ip }.frame(target_mac))
}

fn wait_for_incident(
    rosemary_: &mut Rosemary<'_>,
    lab: &Lab,
    words: &[&str],
) -> anyhow::Result<()> {
    let mut last = String::new();
    let found = rosemary_.wait_for("an incident is recorded", SOON, |_| {
        last = rosemary(lab, &["incidents", "--json"]).map(|(_, json)| json).unwrap_or_default();
        let incidents: Vec<Value> = serde_json::from_str(&last).unwrap_or_default();
        let texts = incidents.iter().map(ToString::to_string);
        let is_it = |text: String| words.iter().all(|word| text.contains(word));
        texts.into_iter().any(is_it).then_some(())
    });
    found.with_context(|| format!("{words:?} in {last}"))
}

fn hosts_appear_move_and_go(lab: &Lab, of: Of) -> anyhow::Result<()> {
    configure(&[CONFIG])?;
    let mut rosemary_ = Rosemary::start(lab, &rosemary_binary(), &[])?;
    let (s1, s2) = (lab.switch("s1", of)?, lab.switch("s2", of)?);
    let (h1, h2) = (lab.host("h1", &s1)?, lab.host("h2", &s2)?);
    s1.link_to(&s2)?;
    for switch in [&s1, &s2] {
        rosemary_.wait_for_switch(switch)?;
    }
    h1.ping(&h2, 20, INTERVAL)?;
    wait_for_host(&mut rosemary_, lab, &h1, (&s1, h1.port()))?;
    wait_for_host(&mut rosemary_, lab, &h2, (&s2, h2.port()))?;
    for host in hosts(lab)? {
        // The link has the next port on both switches.
        ensure!(host["port"] != "2", "a host is behind the link: {host}");
    }
    for name in [h1.address(), h1.mac()] {
        let (is_done, shown) = rosemary(lab, &["hosts", &name])?;
        ensure!(is_done && shown.contains(&h1.mac()) && shown.contains(&s1.dpid()), "{shown}");
    }
    ensure!(!rosemary(lab, &["hosts", "10.9.9.9"])?.0, "no such host");

    let (plug, port) = ("s1-h1", 7);
    lab.run("ovs-vsctl", &["del-port", "s1", plug])?;
    let request = format!("ofport_request={port}");
    lab.run("ovs-vsctl", &["add-port", "s2", plug, "--", "set", "interface", plug, &request])?;
    h1.ping(&h2, 20, INTERVAL)?;
    wait_for_host(&mut rosemary_, lab, &h1, (&s2, port))?;

    lab.run("ip", &["link", "set", plug, "down"])?;
    rosemary_.wait_for("a host is gone", SOON, |_| {
        place(lab, &h1.mac()).is_ok_and(|place| place.is_none()).then_some(())
    })?;
    let (_, incidents) = rosemary(lab, &["incidents", "--json"])?;
    ensure!(!incidents.contains("moved"), "a move after port-down is no incident: {incidents}");
    Ok(())
}

over_versions!(hosts_appear_move_and_go_in_each_version, |of| in_a_lab(move |lab| {
    hosts_appear_move_and_go(lab, of)
}));

#[test]
fn attacks_on_hosts_are_reported_and_fail() {
    in_a_lab(|lab| {
        configure(&[CONFIG])?;
        let mut rosemary_ = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let s1 = lab.switch("s1", Of::V1_3)?;
        let (h1, h2) = (lab.host("h1", &s1)?, lab.host("h2", &s1)?);
        let h3 = lab.host("h3", &s1)?;
        rosemary_.wait_for_switch(&s1)?;
        h1.ping(&h2, 5, INTERVAL)?;
        h3.ping(&h2, 5, INTERVAL)?;
        for host in [&h1, &h2, &h3] {
            wait_for_host(&mut rosemary_, lab, host, (&s1, host.port()))?;
        }

        // Host location hijack: a packet with the address of h1 at the port of h3.
        inject(&s1, h3.port(), &arp(&h1.mac(), &h1.address())?)?;
        let words = ["a second port claimed", &h1.mac(), "it is still at"];
        wait_for_incident(&mut rosemary_, lab, &words)?;
        wait_for_host(&mut rosemary_, lab, &h1, (&s1, h1.port()))?;

        // ARP spoofing: h3 says that it has the address of h2.
        inject(&s1, h3.port(), &arp(&h3.mac(), &h2.address())?)?;
        let claimant = format!("{} at {} port {}", h3.mac(), s1.dpid(), h3.port());
        let words = ["a second host claimed the IP address", &claimant, &h2.address(), &h2.mac()];
        wait_for_incident(&mut rosemary_, lab, &words)?;
        wait_for_host(&mut rosemary_, lab, &h2, (&s1, h2.port()))?;
        wait_for_host(&mut rosemary_, lab, &h3, (&s1, h3.port()))?;

        // ARP in the name of another: Ethernet source and sender differ.
        let mut forged = arp(&h2.mac(), &h2.address())?;
        forged[6..12].copy_from_slice(&h3.mac().parse::<MacAddr>()?.0);
        inject(&s1, h3.port(), &forged)?;
        let words = ["another Ethernet address than its own", &h3.mac(), &h2.mac()];
        wait_for_incident(&mut rosemary_, lab, &words)?;
        wait_for_host(&mut rosemary_, lab, &h2, (&s1, h2.port()))?;

        // A silent host can be replaced, and that is reported, too. It answered just now, so it is not asked again for 10 s.
        h1.run("ip", &["link", "set", "eth0", "arp", "off"])?;
        h1.run("ip", &["address", "flush", "dev", "eth0"])?;
        inject(&s1, h3.port(), &arp(&h1.mac(), &h1.address())?)?;
        rosemary_.wait_for("a silent host has moved", 3 * SOON, |_| {
            let place = place(lab, &h1.mac()).unwrap_or(None);
            let port = h3.port().to_string();
            if place.is_some_and(|(_, at, _)| at == port) {
                return Some(());
            }
            let again = arp(&h1.mac(), &h1.address()).and_then(|arp| inject(&s1, h3.port(), &arp));
            again.expect("the switch runs");
            None
        })?;
        wait_for_incident(&mut rosemary_, lab, &["its former port is up", &h1.mac()])
    });
}

/// `forwarding` sends a false statement about an address to no host, and a true one to all.
#[test]
fn forged_announcement_reaches_no_host() {
    in_a_lab(|lab| {
        configure(&["[[app]]\nname = \"forwarding\"\n"])?;
        let mut rosemary_ = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let s1 = lab.switch("s1", Of::V1_3)?;
        let (h1, h2) = (lab.host("h1", &s1)?, lab.host("h2", &s1)?);
        let h3 = lab.host("h3", &s1)?;
        rosemary_.wait_for_switch(&s1)?;
        for (from, to) in [(&h1, &h2), (&h3, &h2)] {
            lab.wait_for("hosts reach each other", SOON, |_| {
                Ok((from.ping(to, 1, INTERVAL)?.received == 1).then_some(()))
            })?;
        }
        for host in [&h1, &h2, &h3] {
            wait_for_host(&mut rosemary_, lab, host, (&s1, host.port()))?;
        }
        let believed = || h1.run("ip", &["neigh", "show", &h2.address()]);
        ensure!(believed()?.contains(&h2.mac()), "{}", believed()?);

        inject(&s1, h3.port(), &arp(&h3.mac(), &h2.address())?)?;
        let claimant = format!("{} at {} port {}", h3.mac(), s1.dpid(), h3.port());
        let words = ["a second host claimed the IP address", &claimant, &h2.mac()];
        wait_for_incident(&mut rosemary_, lab, &words)?;
        ensure!(believed()?.contains(&h2.mac()), "{}", believed()?);

        // The address moves to h3: h2 does not answer for it any more.
        h2.run("ip", &["address", "flush", "dev", "eth0"])?;
        inject(&s1, h3.port(), &arp(&h3.mac(), &h2.address())?)?;
        lab.wait_for("h1 believes the announcement", SOON, |_| {
            Ok(believed()?.contains(&h3.mac()).then_some(()))
        })?;
        rosemary_.must_run()?;
        Ok(())
    });
}
