//! Hostile hosts in a network of `forwarding`: false links, forged and replayed probes, frames of other protocols, stolen addresses,
//! and as many hosts and flows as a host can pretend.
//!
//! Two hosts of two switches ping each other during each attack. `frames.py` sends the attackers' frames.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Host, Lab, Of, Rosemary, Running, Switch, Watch};
use cli::status::Report;
use rosemary_tests::apps::configure;
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab_without_capture_for, rosemary_binary};
use serde_json::Value;

use super::beside::{memory_kib, run};

const LIMIT: Duration = Duration::from_secs(600);

/// Time between two pings.
const INTERVAL: Duration = Duration::from_millis(20);

/// Limit of the growth of the kernel and each app during an attack, in KiB.
const GROWTH: u64 = 64 * 1024;

/// Most flows of a switch under attack.
const MOST_FLOWS: usize = 5_000;

/// The network: a victim and an attacker at each of two switches.
struct Bed<'lab> {
    lab: &'lab Lab,
    rosemary: Rosemary<'lab>,
    s1: Switch<'lab>,
    s2: Switch<'lab>,
    h1: Host<'lab>,
    h2: Host<'lab>,
    evil1: Host<'lab>,
    evil2: Host<'lab>,
    escaped: Vec<String>,
}

/// What no attack may change.
#[derive(Debug, PartialEq)]
struct State {
    links: BTreeSet<String>,
    places: BTreeSet<String>,
    pids: Vec<(String, Option<u32>)>,
}

impl<'lab> Bed<'lab> {
    fn start(lab: &'lab Lab) -> anyhow::Result<Self> {
        configure(&["[[app]]\nname = \"forwarding\"\n"])?;
        let (s1, s2) = (lab.switch("s1", Of::V1_3)?, lab.switch("s2", Of::V1_3)?);
        let (h1, h2) = (lab.host("h1", &s1)?, lab.host("h2", &s2)?);
        let (evil1, evil2) = (lab.host("evil1", &s1)?, lab.host("evil2", &s2)?);
        s1.link_to(&s2)?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_switch(&s1)?;
        rosemary.wait_for_switch(&s2)?;
        let bed = Self { lab, rosemary, s1, s2, h1, h2, evil1, evil2, escaped: Vec::new() };
        for (from, to) in [(&bed.h1, &bed.h2), (&bed.evil1, &bed.evil2)] {
            lab.wait_for("the hosts reach each other", SOON * 3, |_| {
                Ok((from.ping(to, 2, INTERVAL)?.received == 2).then_some(()))
            })?;
        }
        lab.wait_for("links and hosts are known", SOON * 3, |_| {
            let state = bed.state().ok();
            Ok(state.filter(|it| it.links.len() == 2 && it.places.len() == 2))
        })?;
        Ok(bed)
    }

    fn json(&self, args: &[&str]) -> anyhow::Result<Vec<Value>> {
        let (_, text) = run(self.lab, args)?;
        let value: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
        value.as_array().cloned().context("a list")
    }

    fn state(&self) -> anyhow::Result<State> {
        let all = self.json(&["links", "--json"])?;
        let up = all.iter().filter(|link| link["why"].is_null());
        let links = up.map(|link| format!("{} {}", link["from"], link["to"])).collect();
        let victims = [self.h1.mac(), self.h2.mac()];
        let hosts = self.json(&["hosts", "--json"])?;
        let hosts = hosts.iter().filter(|it| victims.iter().any(|mac| it["mac"] == mac.as_str()));
        let place =
            |it: &Value| format!("{} {} {} {}", it["mac"], it["dpid"], it["port"], it["addresses"]);
        let places = hosts.map(place).collect();
        let status = self.rosemary.status()?.context("it answers")?;
        Ok(State { links, places, pids: pids(&status) })
    }

    /// Starts `frames.py` at a host.
    fn frames(&self, host: &Host<'lab>, attack: &str, args: &[&str]) -> anyhow::Result<Running> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("system/outside/frames.py");
        let mut command = host.command("python3");
        command.arg(script).arg(attack).args(args);
        Ok(self.lab.start(&format!("{attack}-{}", host.name()), command)?)
    }

    /// Runs an attack of both attackers beside the victims; `harm` looks at what else it would change. An incident must contain
    /// `words`, if there are any.
    fn attacked(
        &mut self,
        (name, attack, args): (&str, &str, &[&str]),
        words: &[&str],
        harm: impl FnOnce(&mut Self) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        let outcome = self.observed((attack, args), words, harm);
        match outcome {
            Ok(seen) => println!("outside: {name}: contained ({seen})"),
            Err(error) => {
                println!("outside: {name}: escaped ({error:#})");
                self.escaped.push(format!("{name}: {error:#}"));
            }
        }
        Ok(self.rosemary.must_run()?)
    }

    fn observed(
        &mut self,
        (attack, args): (&str, &[&str]),
        words: &[&str],
        harm: impl FnOnce(&mut Self) -> anyhow::Result<String>,
    ) -> anyhow::Result<String> {
        let (before, memory) = (self.state()?, self.memory()?);
        let incidents = self.incidents(words)?;
        let mut pings = self.h1.ping_in_background(&self.h2, 20_000, INTERVAL)?;
        pings.wait_for(5, SOON)?;
        let mut running =
            [self.frames(&self.evil1, attack, args)?, self.frames(&self.evil2, attack, args)?];
        let asked = self.asked()?;
        for one in &mut running {
            let status = one.wait(Duration::from_secs(150)).context("the frames do not end")?;
            ensure!(status.success(), "{}", one.stderr());
        }
        let sent: u64 =
            running.iter().filter_map(|it| it.stdout().trim().parse::<u64>().ok()).sum();
        ensure!(sent > 0, "nothing was sent");
        let seen = harm(self)?;
        let report = pings.end()?;
        let count = report.replies.last().map_or(0, |reply| reply.seq);
        let lost = count.saturating_sub(u32::try_from(report.replies.len())?);
        // The user-space switch shares one thread among all packets, those of a flood too.
        ensure!(lost <= count / 50 && count > 20, "{lost} of {count} pings were lost");
        let after = self.state()?;
        ensure!(after == before, "{after:?} after {before:?}");
        let grown =
            self.memory()?.iter().zip(&memory).map(|(now, old)| now.1.saturating_sub(old.1)).max();
        ensure!(grown < Some(GROWTH), "grown by {grown:?} KiB: {:?}", self.memory()?);
        let reported = self.incidents(words)?;
        ensure!(words.is_empty() || reported > incidents, "no incident with {words:?}");
        ensure!(reported <= incidents + 60, "{reported} incidents");
        Ok(format!(
            "{sent} frames, {lost} of {count} pings lost, {} incidents, {seen}; at most {} KiB more, {asked} of 3 hosts found",
            reported - incidents,
            grown.unwrap_or(0)
        ))
    }

    /// Looks a host up by ARP, which the controller answers, three times; returns how often it was found.
    fn asked(&self) -> anyhow::Result<u32> {
        let mut found = 0;
        for _ in 0..3 {
            self.h2.run("ip", &["neigh", "flush", "all"])?;
            found += self.h2.ping(&self.h1, 2, INTERVAL)?.received.min(1);
        }
        ensure!(found > 0, "no host was found during the attack");
        Ok(found)
    }

    /// Memory of the kernel and the apps, in KiB.
    fn memory(&self) -> anyhow::Result<Vec<(String, u64)>> {
        let status = self.rosemary.status()?.context("it answers")?;
        let all = pids(&status).into_iter();
        all.map(|(name, pid)| Ok((name, memory_kib(pid.context("it runs")?)?))).collect()
    }

    /// Number of incidents that contain all words; with no words, of all.
    fn incidents(&self, words: &[&str]) -> anyhow::Result<usize> {
        let all = self.json(&["incidents", "--json"])?;
        let texts = all.iter().map(Value::to_string);
        Ok(texts.filter(|text| words.iter().all(|word| text.contains(word))).count())
    }

    fn flows(&self) -> anyhow::Result<usize> {
        Ok(self.s1.dump_flows()?.len().max(self.s2.dump_flows()?.len()))
    }
}

/// The processes that no attack may end.
fn pids(status: &Report) -> Vec<(String, Option<u32>)> {
    let apps = status.programs.apps.iter().map(|app| (app.name.clone(), app.pid));
    [("kernel".to_owned(), status.programs.kernel.pid)].into_iter().chain(apps).collect()
}

#[test]
#[ignore = "an attack of `make hostile`"]
fn false_links_and_frames_change_nothing() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let mut bed = Bed::start(lab)?;
        let probes = lab.files().join("probes").display().to_string();
        let capture = bed.frames(&bed.evil1, "capture", &["25", &probes])?;
        let (mut capture, h1_mac, h2_mac) = (capture, bed.h1.mac(), bed.h2.mac());
        capture.wait(SOON * 4).context("no probes")?;
        ensure!(capture.stdout().trim() != "0", "no probe came to a host");
        // First, while no other attack has used up the incidents of a minute.
        relayed(&mut bed)?;
        let nothing = |_: &mut Bed<'_>| Ok("links and hosts as before".to_owned());
        bed.attacked(("replayed probes", "replay", &["6", &probes]), &["topology"], nothing)?;
        bed.attacked(("forged probes", "forge", &["6", &probes]), &["LLDP"], nothing)?;
        not_forwarded(&mut bed, "spanning-tree frames", "spanning-tree", &["01:80:c2:00:00:00"])?;
        let reserved = ["01:80:c2:00:00:01", "01:80:c2:00:00:02", "01:80:c2:00:00:03"];
        not_forwarded(&mut bed, "frames to other reserved addresses", "reserved", &reserved)?;
        let mac = [h1_mac.as_str(), &h2_mac];
        bed.attacked(
            ("a stolen Ethernet address", "mac", &["6", mac[0], mac[1]]),
            &["second port claimed"],
            nothing,
        )?;
        stolen_address(&mut bed)?;
        bed.attacked(
            (
                "forged neighbour advertisements",
                "neighbours",
                &["6", "fd000000000000000000000000000001"],
            ),
            &[],
            nothing,
        )?;
        ensure!(bed.escaped.is_empty(), "{:#?}", bed.escaped);
        Ok(())
    });
}

/// The attackers join their ports by a cable of their own, and copy each frame.
fn relayed(bed: &mut Bed<'_>) -> anyhow::Result<()> {
    let cable = [
        "link", "add", "cable", "netns", "evil1", "type", "veth", "peer", "name", "cable", "netns",
        "evil2",
    ];
    bed.lab.run("ip", &cable)?;
    for host in [&bed.evil1, &bed.evil2] {
        host.run("ip", &["link", "set", "cable", "up", "promisc", "on"])?;
        host.run("ip", &["link", "set", "eth0", "promisc", "on"])?;
    }
    let attack = ("probes relayed between two hosts", "relay", &["15", "eth0", "cable"][..]);
    bed.attacked(attack, &["topology"], |bed| {
        bed.lab.run("ip", &["-n", "evil1", "link", "del", "cable"])?;
        Ok("no link between the hosts".to_owned())
    })
}

/// Frames that no bridge forwards do not arrive at another host.
fn not_forwarded(
    bed: &mut Bed<'_>,
    name: &str,
    attack: &str,
    addresses: &[&str],
) -> anyhow::Result<()> {
    let watches: Vec<Watch<'_>> = vec![bed.h1.watch()?, bed.h2.watch()?];
    bed.attacked((name, attack, &["5"]), &[], |_| {
        for (watch, address) in
            watches.iter().flat_map(|it| addresses.iter().map(move |at| (it, at)))
        {
            let seen = watch.seen(&[address]);
            ensure!(seen.is_empty(), "{} frames were forwarded: {}", seen.len(), seen[0]);
        }
        Ok("none was forwarded".to_owned())
    })
}

/// ARP says that the address of h2 belongs to the attackers; h1 then looks h2 up. Rosemary does not keep forged ARP from the caches of
/// the hosts themselves: a fixed entry of h1 does, as long as the attack lasts.
fn stolen_address(bed: &mut Bed<'_>) -> anyhow::Result<()> {
    let (ip, peer, peer_ip) = (bed.h2.address(), bed.h1.mac(), bed.h1.address());
    let args = ["6", &ip, &peer, &peer_ip];
    bed.h1.knows(&bed.h2)?;
    bed.attacked(("a stolen IP address", "arp", &args), &["second host claimed"], |bed| {
        bed.h1.run("ip", &["neigh", "del", &bed.h2.address(), "dev", "eth0"])?;
        bed.h1.ping(&bed.h2, 1, INTERVAL)?;
        let known = bed.h1.run("ip", &["neigh", "show", &bed.h2.address()])?;
        ensure!(known.contains(&bed.h2.mac()), "h1 was given {known}");
        Ok("ARP answers with the true address".to_owned())
    })
}

#[test]
#[ignore = "an attack of `make hostile`"]
fn millions_of_hosts_and_flows_take_bounded_room() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let mut bed = Bed::start(lab)?;
        let bounded = |bed: &mut Bed<'_>| {
            let (flows, hosts) = (bed.flows()?, bed.json(&["hosts", "--json"])?.len());
            ensure!(flows < MOST_FLOWS, "{flows} flows");
            ensure!(hosts <= 2 * 4096 + 4, "{hosts} hosts");
            Ok(format!("{flows} flows, {hosts} hosts"))
        };
        let ip = bed.evil1.address();
        bed.attacked(("false source addresses", "sources", &["5"]), &[], |bed| {
            let hosts = bed.json(&["hosts", "--json"])?;
            let is_false = |it: &&Value| {
                let mac = it["mac"].as_str().unwrap_or_default();
                !mac.starts_with("02:") || mac.starts_with("ff:")
            };
            let found: Vec<_> = hosts.iter().filter(is_false).collect();
            ensure!(found.is_empty(), "{found:?}");
            bounded(bed)
        })?;
        bed.attacked(("frames of noise", "noise", &["6"]), &[], bounded)?;
        bed.attacked(("tags of all VLANs", "vlans", &["6"]), &[], bounded)?;
        bed.attacked(("thousands of addresses of one host", "addresses", &["6"]), &[], |bed| {
            let hosts = bed.json(&["hosts", "--json"])?;
            let most = hosts.iter().filter_map(|it| Some(it["addresses"].as_array()?.len())).max();
            ensure!(most <= Some(64), "{most:?} addresses of a host");
            bounded(bed)
        })?;
        bed.attacked(("flows to a million addresses", "flows", &["30", &ip]), &[], bounded)?;
        bed.attacked(("a million hosts", "hosts", &["40"]), &[], bounded)?;
        ensure!(bed.escaped.is_empty(), "{:#?}", bed.escaped);
        Ok(())
    });
}
