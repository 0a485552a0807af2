//! `forwarding` on real switches while an operator looks at paths, drains a switch, and a host floods the controller.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Host, Lab, Of, Rosemary, Switch};
use rosemary_tests::apps::configure;
use rosemary_tests::http::request;
use rosemary_tests::net::SOON;
use rosemary_tests::{
    in_a_lab, in_a_lab_without_capture_for, over_versions, rosemary_binary, schema,
};
use serde_json::Value;

const FORWARDING: &str = "[[app]]\nname = \"forwarding\"\n";

/// The time between two pings that observe a move.
const INTERVAL: Duration = Duration::from_millis(10);

/// How long a test without a capture may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Sends 1000 packets at once, eight times. The default budget of a host is 600 at once, and 300 per second.
const STORM: &str = "for i in 1 2 3 4 5 6 7 8; do ping -q -f -l 1000 -c 1000 -w 1 10.0.0.99; done";

/// A ring of four switches. The hosts at the first and third have two equal paths; the second has a host, too.
struct Ring<'lab> {
    lab: &'lab Lab,
    rosemary: Rosemary<'lab>,
    switches: [Switch<'lab>; 4],
    h1: Host<'lab>,
    h2: Host<'lab>,
    h3: Host<'lab>,
}

impl<'lab> Ring<'lab> {
    /// Starts all of it and waits until the hosts reach each other.
    fn start(lab: &'lab Lab, of: Of) -> anyhow::Result<Self> {
        configure(&[FORWARDING])?;
        let switch = |name: &str| lab.switch(name, of);
        let switches = [switch("s1")?, switch("s2")?, switch("s3")?, switch("s4")?];
        let host = |name: &str, at: usize| lab.host(name, &switches[at]);
        let (h1, h2, h3) = (host("h1", 0)?, host("h2", 1)?, host("h3", 2)?);
        for (at, one) in switches.iter().enumerate() {
            one.link_to(&switches[(at + 1) % 4])?;
        }
        let rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let ring = Self { lab, rosemary, switches, h1, h2, h3 };
        ring.lab.wait_for("all links are found", SOON * 3, |_| {
            let links = ring.run(&["links", "--json"]).ok();
            let links = links.and_then(|text| serde_json::from_str::<Vec<Value>>(&text).ok());
            Ok(links.filter(|links| links.len() == 8).map(|_| ()))
        })?;
        ring.lab.wait_for("h1 reaches h3", SOON * 2, |_| {
            Ok((ring.h1.ping(&ring.h3, 3, INTERVAL * 10)?.received == 3).then_some(()))
        })?;
        Ok(ring)
    }

    fn run(&self, args: &[&str]) -> anyhow::Result<String> {
        let output = self.lab.command(rosemary_binary()).args(args).output()?;
        ensure!(output.status.success(), "{args:?}: {output:?}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The lines for the operator that a command writes beside its data.
    fn notes(&self, args: &[&str]) -> anyhow::Result<String> {
        let output = self.lab.command(rosemary_binary()).args(args).output()?;
        ensure!(output.status.success(), "{args:?}: {output:?}");
        Ok(String::from_utf8(output.stderr)?)
    }

    /// The datapath ids of the switches that a ping from h1 to h3 passes, by `rosemary trace`.
    fn traced(&self) -> anyhow::Result<Vec<String>> {
        let (from, to) = (self.h1.mac(), self.h3.mac());
        let (source, destination) = (self.h1.address(), self.h3.address());
        let packet = format!(
            "eth_src={from},eth_dst={to},eth_type=0x0800,ipv4_src={source},ipv4_dst={destination},ip_proto=1"
        );
        let in_port = self.h1.port().to_string();
        let text = self.run(&["trace", "s1", &packet, "--in-port", &in_port, "--json"])?;
        schema::check("trace", &text)?;
        let trace: Value = serde_json::from_str(&text)?;
        let hops = trace["hops"].as_array().context("hops")?;
        Ok(hops.iter().filter_map(|hop| hop["switch"].as_str().map(ToOwned::to_owned)).collect())
    }
}

fn drained_switch_loses_its_paths(lab: &Lab, of: Of) -> anyhow::Result<()> {
    let mut ring = Ring::start(lab, of)?;
    // The path by addresses of hosts has two links; the packet passes three switches.
    let path = ring.run(&["path", &ring.h1.address(), &ring.h3.address(), "--json"])?;
    schema::check("path", &path)?;
    let path: Value = serde_json::from_str(&path)?;
    assert_eq!(path[0]["hops"].as_array().map(Vec::len), Some(2), "{path}");
    // The second switch has a host, which is to be known.
    ring.lab.wait_for("h2 reaches h1", SOON * 2, |_| {
        Ok((ring.h2.ping(&ring.h1, 1, INTERVAL)?.received == 1).then_some(()))
    })?;
    let before = ring.traced()?;
    assert_eq!(before.len(), 3, "{before:?}");
    let middle =
        ring.switches.iter().find(|it| it.dpid() == before[1]).context("it is one of four")?;
    let middle = middle.dpid();

    let mut pings = ring.h1.ping_in_background(&ring.h3, 4000, INTERVAL)?;
    pings.wait_for(50, SOON)?;
    // The service knows the hosts of before, although their packets do not reach the controller.
    ring.run(&["app", "restart", "hosts"])?;
    let began = Instant::now();
    let notes = ring.notes(&["switch", "drain", &middle])?;
    ensure!(
        notes.contains(&format!("switch {middle} is drained: no traffic of others")),
        "{notes}"
    );
    let now = ring.traced()?;
    ensure!(now.len() == 3 && !now.contains(&middle), "it is said too early: {now:?}");
    let has_host = middle == ring.switches[1].dpid();
    ensure!(
        notes.contains("traffic remains: 1 host is attached to it, at port") == has_host,
        "{notes}"
    );
    ensure!(!notes.contains("no other path") && !notes.contains("warning"), "{notes}");
    ring.lab.wait_for("the path avoids the switch", SOON, |_| {
        let now = ring.traced().unwrap_or_default();
        Ok((now.len() == 3 && !now.contains(&middle)).then_some(()))
    })?;
    println!("path moved {:?} after the drain over OpenFlow {of:?}", began.elapsed());
    let drained = ring.switches.iter().find(|it| it.dpid() == middle).context("it is there")?;
    ring.lab.wait_for("no route is left on the switch", SOON, |_| {
        let flows = drained.dump_flows()?;
        let is_route = |flow: &String| flow.contains("dl_dst=") && flow.contains(&ring.h3.mac());
        Ok((!flows.iter().any(is_route)).then_some(()))
    })?;
    let notes = ring.notes(&["topology"])?;
    let named = format!("switch {middle} is drained, and traffic remains: 1 host");
    ensure!(notes.contains(&named) == has_host, "{notes}");
    // A drain of the switch on the other side is in its way: then no other path is left.
    let other = ring.switches.iter().map(Switch::dpid).find(|it| !before.contains(it));
    let other = other.context("a fourth switch")?;
    let output = lab.command(rosemary_binary()).args(["switch", "drain", &other]).output()?;
    let notes = String::from_utf8_lossy(&output.stderr);
    ensure!(notes.contains("traffic remains: no other path leads from"), "{notes}");
    let is_named = ["is not drained yet", "packets per second of others pass it"];
    if is_named.iter().all(|it| notes.contains(it)) {
        ensure!(output.status.code() == Some(1) && !notes.contains("is drained:"), "{output:?}");
        let path = format!("/api/v1/switches/{other}/drain");
        let answer = request("POST", &path, &[], b"")?.json();
        let first = answer["remaining"][0].as_str().unwrap_or_default();
        ensure!(answer["empty"] == false && first.contains(is_named[1]), "{answer}");
        let carrier = "packets per second by a flow of forwarding: priority";
        ensure!(
            notes.contains(carrier) && answer["remaining"].to_string().contains(carrier),
            "{notes}{answer}"
        );
    } else {
        // Each pair has one of two equal paths in OpenFlow 1.0; it has taken the one over the first drained switch again.
        ensure!(of == Of::V1_0 && notes.contains("is drained:"), "{notes}");
        ensure!(!ring.traced()?.contains(&other), "it is said, and packets pass");
    }
    schema::check("topology", &ring.run(&["topology", "--json"])?)?;
    ring.run(&["switch", "undrain", &other])?;
    ring.run(&["switch", "undrain", &middle])?;
    let notes = ring.notes(&["switch", "drain", "0x99"])?;
    ensure!(notes.contains("warning: no switch 00:00:00:00:00:00:00:99 is connected"), "{notes}");
    ring.run(&["switch", "undrain", "0x99"])?;
    let report = pings.end()?;
    // The last request may have had no time for its reply.
    let sent = report.replies.last().map_or(0, |reply| reply.seq);
    let lost = sent - u32::try_from(report.replies.len())?;
    ensure!(lost == 0 && sent > 200, "a drain loses nothing, and {lost} of {sent} pings were lost");
    ring.rosemary.must_run()?;
    Ok(())
}

over_versions!(drained_switch_loses_its_paths_and_no_packet, |of| in_a_lab(move |lab| {
    drained_switch_loses_its_paths(lab, of)
}));

/// A host sends thousands of packets to a host that does not exist; another host opens new connections meanwhile.
fn storm_is_stopped(lab: &Lab, of: Of) -> anyhow::Result<()> {
    let mut ring = Ring::start(lab, of)?;
    let h2 = &ring.h2;
    ring.lab.wait_for("h2 reaches h3", SOON * 2, |_| {
        Ok((h2.ping(&ring.h3, 1, INTERVAL)?.received == 1).then_some(()))
    })?;
    let established = h2.ping_in_background(&ring.h3, 200, INTERVAL)?;
    let entry = ["neigh", "replace", "10.0.0.99", "lladdr", "02:00:00:00:00:99", "dev", "eth0"];
    ring.h1.run("ip", &entry)?;
    let mut storm = ring.h1.command("sh");
    storm.args(["-c", STORM]);
    let storm = ring.lab.start("storm", storm)?;
    ring.lab.wait_for("an incident names the host", SOON, |_| {
        let text = ring.run(&["incidents", "--json"]).unwrap_or_default();
        Ok((text.contains("storm from") && text.contains(&ring.h1.mac())).then_some(()))
    })?;
    ring.lab.wait_for("a flow drops its packets", SOON, |_| {
        let flows = ring.switches[0].dump_flows()?;
        let mac = ring.h1.mac();
        let drops = |flow: &String| flow.contains(&mac) && flow.ends_with("actions=drop");
        Ok(flows.iter().any(drops).then_some(()))
    })?;
    // Somebody else's first packets still get an answer.
    h2.run("ip", &["neigh", "flush", "all"])?;
    let first = h2.ping(&ring.h3, 5, INTERVAL * 20)?;
    ensure!(first.received >= 4, "others are served: {first:?}");
    drop(storm);
    let established = established.finish()?;
    // Open vSwitch in user space shares one thread among all packets, so the storm may delay some beyond their time.
    ensure!(established.lost() < 10, "{} pings of others were lost", established.lost());
    ring.rosemary.must_run()?;
    Ok(())
}

// tshark 4.0 reads the second output of a packet-out of OpenFlow 1.0 as data.
over_versions!(storm_of_a_host_is_stopped, |of| in_a_lab_without_capture_for(LIMIT, move |lab| {
    storm_is_stopped(lab, of)
}));

/// Hosts that nobody knows yet send to each other at the same time, without ARP: their packets are flooded until the hosts are
/// known, in the middle of a flood. In each round they have other addresses.
#[test]
fn packets_between_unknown_hosts_arrive_once() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let mut ring = Ring::start(lab, Of::V1_3)?;
        let mut replies = 0;
        for round in 11..=30 {
            let hosts = [&ring.h1, &ring.h2, &ring.h3];
            let address = |at: usize| format!("10.{round}.0.{}", at + 1);
            let mac = |at: usize| format!("02:00:00:00:{round}:{:02}", at + 1);
            let mut pings = Vec::new();
            for (at, host) in hosts.iter().enumerate() {
                host.run("ip", &["address", "flush", "dev", "eth0"])?;
                host.run("ip", &["link", "set", "eth0", "address", &mac(at)])?;
                let prefix = format!("{}/24", address(at));
                host.run("ip", &["address", "add", &prefix, "dev", "eth0"])?;
                let others: Vec<usize> = (0..hosts.len()).filter(|it| *it != at).collect();
                for other in &others {
                    let (to, mac) = (address(*other), mac(*other));
                    host.run("ip", &["neigh", "replace", &to, "lladdr", &mac, "dev", "eth0"])?;
                }
                let ping = |it: &usize| format!("ping -n -c 5 -i 0.01 -W 1 {} & ", address(*it));
                pings.push(others.iter().map(ping).collect::<String>() + "wait");
            }
            let begin = |(host, script): (&&Host<'_>, &String)| {
                let mut command = host.command("sh");
                command.args(["-c", script]).stdout(Stdio::piped()).spawn()
            };
            let running: Vec<_> = hosts.iter().zip(&pings).map(begin).collect::<Result<_, _>>()?;
            for ping in running {
                let text = String::from_utf8(ping.wait_with_output()?.stdout)?;
                ensure!(!text.contains("DUP!"), "round {round}: {text}");
                replies += text.matches("icmp_seq=").count();
            }
        }
        println!("{replies} of 600 pings were answered");
        ensure!(replies > 540, "{replies} of 600 pings were answered");
        ring.rosemary.must_run()?;
        Ok(())
    });
}
