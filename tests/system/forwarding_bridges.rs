//! Tests `forwarding` with a bridge of Linux between switches: the bridge drops the probes that find links.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Host, Lab, Of, Rosemary, Switch};
use rosemary_tests::apps::configure;
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab_without_capture_for, rosemary_binary, schema};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);

const FORWARDING: &str = "[[app]]\nname = \"forwarding\"\n";

const INTERVAL: Duration = Duration::from_millis(50);

/// Makes a bridge in a namespace of its own.
fn bridge(lab: &Lab) -> anyhow::Result<()> {
    lab.run("ip", &["netns", "add", "br"])?;
    lab.run("ip", &["-n", "br", "link", "add", "br0", "type", "bridge"])?;
    lab.run("ip", &["-n", "br", "link", "set", "br0", "addrgenmode", "none", "up"])?;
    Ok(())
}

/// Puts an interface of the namespace into the bridge.
fn enslave(lab: &Lab, interface: &str) -> anyhow::Result<()> {
    let quiet = ["-n", "br", "link", "set", interface, "addrgenmode", "none"];
    let _ = lab.run("ip", &quiet); // it fails without IPv6, which is fine
    lab.run("ip", &["-n", "br", "link", "set", interface, "master", "br0", "up"])?;
    Ok(())
}

/// Plugs the bridge into a switch.
fn join(lab: &Lab, switch: &Switch<'_>) -> anyhow::Result<()> {
    let (here, there) = (format!("{}-br", switch.name()), format!("br-{}", switch.name()));
    let veth = ["link", "add", &here, "type", "veth", "peer", "name", &there, "netns", "br"];
    lab.run("ip", &veth)?;
    let _ = lab.run("ip", &["link", "set", &here, "addrgenmode", "none"]);
    lab.run("ip", &["link", "set", &here, "up"])?;
    enslave(lab, &there)?;
    switch.plug(&here)?;
    Ok(())
}

/// Moves the cable of a host from its switch to the bridge.
fn behind_bridge<'lab>(
    lab: &'lab Lab,
    name: &str,
    switch: &Switch<'lab>,
) -> anyhow::Result<Host<'lab>> {
    let host = lab.host(name, switch)?;
    let plug = format!("{}-{name}", switch.name());
    lab.run("ovs-vsctl", &["--timeout=10", "del-port", switch.name(), &plug])?;
    lab.run("ip", &["link", "set", &plug, "netns", "br"])?;
    enslave(lab, &plug)?;
    Ok(host)
}

fn links(lab: &Lab) -> Option<usize> {
    let output = lab.command(rosemary_binary()).args(["links", "--json"]).output().ok()?;
    Some(serde_json::from_slice::<Vec<Value>>(&output.stdout).ok()?.len())
}

fn incidents(lab: &Lab) -> anyhow::Result<String> {
    Ok(lab.run(&rosemary_binary().display().to_string(), &["incidents", "--json"])?)
}

/// Runs a command of an operator, and returns its data and its notes.
fn shown(lab: &Lab, args: &[&str]) -> anyhow::Result<(String, String)> {
    let output = lab.command(rosemary_binary()).args(args).output()?;
    ensure!(output.status.success(), "{args:?}: {output:?}");
    Ok((String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?))
}

/// Checks the number of links between two hosts, as `rosemary path` finds it, and returns the notes.
fn path(lab: &Lab, from: &Host<'_>, to: &Host<'_>, links: usize) -> anyhow::Result<String> {
    let (from, to) = (from.address(), to.address());
    let (json, _) = shown(lab, &["path", &from, &to, "--json"])?;
    schema::check("path", &json)?;
    let paths: Vec<Value> = serde_json::from_str(&json)?;
    ensure!(paths[0]["hops"].as_array().map(Vec::len) == Some(links), "{from} to {to}: {json}");
    Ok(shown(lab, &["path", &from, &to])?.1)
}

/// The ports that `rosemary topology --json` marks as joined by a bridge, and those that are not used.
fn shared_ports(lab: &Lab) -> anyhow::Result<(usize, usize)> {
    let (json, _) = shown(lab, &["topology", "--json"])?;
    schema::check("topology", &json)?;
    let topology: Value = serde_json::from_str(&json)?;
    let switches = topology["switches"].as_array().context("switches")?.iter();
    let ports = switches.filter_map(|switch| switch["ports"].as_array()).flatten();
    let shared: Vec<&Value> = ports.filter(|port| port["shared"] == true).collect();
    let unused = shared.iter().filter(|port| port["edge"] == false && port["link"] == false);
    Ok((shared.len(), unused.count()))
}

/// Packets that the bridge has received.
fn bridged(lab: &Lab) -> anyhow::Result<u64> {
    let text = lab.run("ip", &["-n", "br", "-s", "-j", "link", "show", "master", "br0"])?;
    let ports: Vec<Value> = serde_json::from_str(&text)?;
    let packets = ports.iter().map(|port| port["stats64"]["rx"]["packets"].as_u64());
    packets.sum::<Option<u64>>().with_context(|| text.clone())
}

/// Each host reaches each other, by ARP and ping. One ping of five may be lost.
fn all_reach_all(hosts: &[&Host<'_>]) -> anyhow::Result<()> {
    for from in hosts {
        from.run("ip", &["neigh", "flush", "all"])?;
        for to in hosts.iter().filter(|to| to.name() != from.name()) {
            let report = from.ping(to, 5, INTERVAL)?;
            let (from, to) = (from.name(), to.name());
            ensure!(report.received >= 4, "from {from} to {to}: {report:?}");
        }
    }
    Ok(())
}

#[test]
fn bridge_that_alone_joins_two_switches_carries_their_traffic() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        configure(&[FORWARDING])?;
        let (s1, s2) = (lab.switch("s1", Of::V1_3)?, lab.switch("s2", Of::V1_3)?);
        let (h1, h2) = (lab.host("h1", &s1)?, lab.host("h2", &s2)?);
        bridge(lab)?;
        let h3 = behind_bridge(lab, "h3", &s1)?;
        join(lab, &s1)?;
        join(lab, &s2)?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        lab.wait_for("the bridge is a link", SOON * 3, |_| {
            Ok((links(lab) == Some(2)).then_some(()))
        })?;
        lab.wait_for("h1 reaches h2", SOON * 2, |_| {
            Ok((h1.ping(&h2, 2, INTERVAL)?.received == 2).then_some(()))
        })?;
        all_reach_all(&[&h1, &h2, &h3])?;
        let notes = path(lab, &h1, &h2, 1)?;
        ensure!(notes.contains("is a bridge without OpenFlow"), "{notes}");
        for host in [&h1, &h2] {
            let notes = path(lab, host, &h3, 0)?;
            ensure!(notes.contains("is at the bridge without OpenFlow between switch"), "{notes}");
        }
        ensure!(shared_ports(lab)? == (2, 0));
        // The bridge begins to forward LLDP: the ports stay joined.
        lab.run(
            "ip",
            &["-n", "br", "link", "set", "br0", "type", "bridge", "group_fwd_mask", "16384"],
        )?;
        std::thread::sleep(Duration::from_secs(5));
        all_reach_all(&[&h1, &h2, &h3])?;
        let incidents = incidents(lab)?;
        ensure!(incidents.contains("a bridge without OpenFlow joins"), "{incidents}");
        for wrong in ["second port", "refused a link", "storm"] {
            ensure!(!incidents.contains(wrong), "{wrong}: {incidents}");
        }
        rosemary.must_run()?;
        Ok(())
    });
}

#[test]
fn bridge_at_two_switches_of_a_ring_causes_no_storm() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        configure(&[FORWARDING])?;
        let switch = |name: &str| lab.switch(name, Of::V1_0);
        let switches = [switch("s1")?, switch("s2")?, switch("s3")?];
        let host = |name: &str, at: usize| lab.host(name, &switches[at]);
        let (h1, h2, h3) = (host("h1", 0)?, host("h2", 1)?, host("h3", 2)?);
        bridge(lab)?;
        let h4 = behind_bridge(lab, "h4", &switches[0])?;
        join(lab, &switches[0])?;
        join(lab, &switches[1])?;
        for (at, one) in switches.iter().enumerate() {
            one.link_to(&switches[(at + 1) % 3])?;
        }
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        lab.wait_for("all links are found", SOON * 3, |_| {
            Ok((links(lab) == Some(6)).then_some(()))
        })?;
        lab.wait_for("h1 reaches h4", SOON * 2, |_| {
            Ok((h1.ping(&h4, 2, INTERVAL)?.received == 2).then_some(()))
        })?;
        let (begin, before) = (Instant::now(), bridged(lab)?);
        all_reach_all(&[&h1, &h2, &h3, &h4])?;
        // h4 is at the first switch, although the bridge also leads to the second.
        path(lab, &h2, &h4, 1)?;
        path(lab, &h1, &h4, 0)?;
        ensure!(shared_ports(lab)? == (2, 1));
        let (_, notes) = shown(lab, &["topology"])?;
        ensure!(notes.contains("00:00:00:00:00:00:00:02 port"), "{notes}");
        ensure!(notes.contains("is not used, because another port of the same bridge"), "{notes}");
        h4.run("ping", &["-c", "20", "-i", "0.05", "-b", "-W", "1", "10.0.0.255"]).ok();
        std::thread::sleep(Duration::from_secs(2));
        let packets = bridged(lab)? - before;
        println!("the bridge received {packets} packets in {:?}", begin.elapsed());
        ensure!(packets < 2000, "{packets} packets: a storm");
        let incidents = incidents(lab)?;
        ensure!(incidents.contains("loop behind 00:00:00:00:00:00:00:02"), "{incidents}");
        for wrong in ["second port", "refused a link", "storm"] {
            ensure!(!incidents.contains(wrong), "{wrong}: {incidents}");
        }
        rosemary.must_run()?;
        Ok(())
    });
}
