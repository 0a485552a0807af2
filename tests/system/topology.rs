//! The topology service: it finds all links of large and of real networks, none that is false, and reports the published attacks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use config::instance::InstancePaths;
use ofbench::emulate::{self, Target};
use ofbench::fabric::Fabric;
use ofbench::topology::Topology;
use openflow::{
    Action, Dpid, Header, Kind, MacAddr, PacketIn, PacketOut, PortDesc, PortNo, PortReason,
    PortState, PortStatus, Version, append,
};
use rosemary_sdk::packet::lldp::NEAREST_BRIDGE;
use rosemary_sdk::services::Service;
use rosemary_sdk::services::table::Table as _;
use rosemary_sdk::services::topology::{Endpoint, Record};
use rosemary_sdk::topology::Graph;
use rosemary_tests::apps::configure;
use rosemary_tests::fake::Fake;
use rosemary_tests::net::{INTERVAL, SOON};
use rosemary_tests::{LIMIT, in_a_lab, in_a_lab_for, kill, over_versions, rosemary_binary, schema};

const TOPOLOGY: &str = "[zones]\nrequire = \"full\"\n\n[[app]]\nname = \"topology\"\n";

/// Not the captured port, because the load is many messages.
const ADDRESS: &str = "127.0.0.1:6654";

/// The time in which all links of 245 switches have to be found.
const DISCOVERY: Duration = Duration::from_secs(5);

/// Number of runs. At least one must succeed.
const RUNS: usize = 3;

/// The time in which a busy machine is given up.
const PATIENCE: Duration = Duration::from_secs(60);

type Link = (Endpoint, Endpoint);

fn end(dpid: u64, port: u32) -> Endpoint {
    Endpoint { dpid: Dpid(dpid), port: PortNo(port) }
}

/// Reads the table.
fn graph() -> anyhow::Result<Graph> {
    let table = cli::client::connect(&InstancePaths::default())?.service(Service::Topology)?;
    Ok(Graph::of(table.records().map(|(_, record)| record)))
}

fn links(graph: &Graph) -> BTreeSet<Link> {
    graph.links().map(|link| (link.from, link.to)).collect()
}

/// Polls the table until `look` returns a value.
fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut(&Graph) -> Option<T>,
) -> anyhow::Result<T> {
    let begin = Instant::now();
    loop {
        let graph = graph()?;
        if let Some(found) = look(&graph) {
            return Ok(found);
        }
        let links = links(&graph).len();
        ensure!(begin.elapsed() < limit, "{what}: not within {limit:?}, there are {links} links");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Both directions of each link of an emulated network.
fn expected(topology: &Topology) -> BTreeSet<Link> {
    let at = |it: &ofbench::topology::LinkEnd| end(it.switch as u64 + 1, it.port.into());
    topology.links().iter().flat_map(|[a, b]| [(at(a), at(b)), (at(b), at(a))]).collect()
}

/// Connects the switches of a network until the returned flag is set.
fn emulate(topology: &Topology) -> (Arc<AtomicBool>, thread::JoinHandle<()>) {
    let stop = Arc::new(AtomicBool::new(false));
    let (flag, topology) = (Arc::clone(&stop), topology.clone());
    let thread = thread::spawn(move || {
        let mut fabric = Fabric::new(&topology, Version::V1_3, 1, 2);
        let controller = ADDRESS.parse().expect("an address");
        let target = Target { controller, tls: None, until: None };
        if let Err(failure) = emulate::run(&mut fabric, target, &flag, |_| {}) {
            println!("emulated switches: {failure}");
        }
    });
    (stop, thread)
}

/// Finds the links of a network; returns the time, and the incidents.
fn discover(lab: &Lab, name: &str) -> anyhow::Result<(Duration, Vec<String>)> {
    configure(&[TOPOLOGY])?;
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &["--listen", ADDRESS])?;
    let topology = Topology::named(name)?;
    let expected = expected(&topology);
    let begin = Instant::now();
    let (stop, switches) = emulate(&topology);
    wait_for("all links are found", PATIENCE, |graph| (links(graph) == expected).then_some(()))?;
    let took = begin.elapsed();
    println!(
        "{name}: {} links of {} switches after {took:?}",
        expected.len() / 2,
        topology.switches()
    );
    // Edges are known afterwards, and no link is lost or false.
    let edges = wait_for("all ports are probed", PATIENCE, |graph| {
        let edges =
            graph.switches().flat_map(|it| graph.ports(it.dpid)).filter(|port| port.edge).count();
        (graph.is_settled() && edges == 2 * topology.switches()).then_some(edges)
    })?;
    println!("{edges} edge ports after {:?}", begin.elapsed());
    thread::sleep(Duration::from_secs(8));
    ensure!(links(&graph()?) == expected, "links are kept");
    stop.store(true, Ordering::Relaxed);
    let _ = switches.join();
    wait_for("all switches are gone", SOON, |graph| {
        (graph.is_empty() && graph.link_count() == 0).then_some(())
    })?;
    rosemary.must_run()?;
    let log = rosemary.log();
    let reports = log.lines().filter(|line| line.contains("app reported an incident"));
    Ok((took, reports.map(ToOwned::to_owned).collect()))
}

#[test]
fn fat_tree_of_245_switches_is_found_in_time() {
    in_a_lab_for(3 * LIMIT, |lab| {
        // A busy machine delays everything, and then probes are late. Links are never false or lost.
        for _ in 0..RUNS {
            let (took, incidents) = discover(lab, "fat-tree:14")?;
            if took <= DISCOVERY && incidents.is_empty() {
                return Ok(());
            }
            println!("{took:?}, {incidents:?}");
        }
        anyhow::bail!("no run of {RUNS} found all links in time and without incidents")
    });
}

/// Links of Open vSwitch come and go; the commands show them; a drain outlives the service.
fn real_switches(lab: &Lab, of: Of) -> anyhow::Result<()> {
    configure(&[TOPOLOGY, "\n[[app]]\nname = \"learning-switch\"\n"])?;
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
    let (s1, s2) = (lab.switch("s1", of)?, lab.switch("s2", of)?);
    let (h1, h2) = (lab.host("h1", &s1)?, lab.host("h2", &s2)?);
    s1.link_to(&s2)?;
    let link = [(end(1, 2), end(2, 2)), (end(2, 2), end(1, 2))];
    let link = BTreeSet::from(link);
    wait_for("the link is found", PATIENCE, |graph| (links(graph) == link).then_some(()))?;
    let edge = |graph: &Graph| graph.port(end(1, 1)).is_some_and(|port| port.edge);
    wait_for("the host's port is an edge", PATIENCE, |graph| edge(graph).then_some(()))?;
    // Probes do not disturb other traffic.
    ensure!(h1.ping(&h2, 20, INTERVAL)?.received >= 19);

    let run = |args: &[&str]| -> anyhow::Result<String> {
        let output = lab.command(rosemary_binary()).args(args).output()?;
        ensure!(output.status.success(), "{args:?}: {output:?}");
        Ok(String::from_utf8(output.stdout)?)
    };
    schema::check("topology", &run(&["topology", "--json"])?)?;
    schema::check("links", &run(&["links", "--json"])?)?;
    schema::check("path", &run(&["path", "s1", "s2", "--json"])?)?;
    let shown =
        [run(&["topology"])?, run(&["links", "--wide"])?, run(&["path", "1", "2", "--wide"])?];
    for text in &shown {
        ensure!(text.contains(&s1.dpid()) && text.contains(&s2.dpid()), "{text}");
    }
    ensure!(shown[1].contains("s1-s2") && shown[2].contains("s2-s1"), "{shown:?}");
    ensure!(run(&["topology", "--dot"])?.contains(" -- "));
    ensure!(run(&["topology", "--svg"])?.matches("<line").count() == 1);

    run(&["switch", "drain", "s2"])?;
    ensure!(graph()?.is_drained(Dpid(2)) && run(&["topology"])?.contains("drained"));
    let status = rosemary.status()?.context("it answers")?;
    let pid = status.app("topology").and_then(|app| app.pid).context("topology runs")?;
    kill(pid)?;
    let is_back = |rosemary: &Rosemary<'_>| {
        let status = rosemary.status().ok()??;
        status.app("topology").and_then(|app| app.pid).filter(|now| *now != pid)
    };
    let deadline = Instant::now() + SOON;
    while is_back(&rosemary).is_none() {
        ensure!(Instant::now() < deadline, "topology is restarted");
        thread::sleep(Duration::from_millis(50));
    }
    let deadline = Instant::now() + PATIENCE;
    while !graph().is_ok_and(|graph| links(&graph) == link && graph.is_drained(Dpid(2))) {
        ensure!(Instant::now() < deadline, "links and the drain are back");
        thread::sleep(Duration::from_millis(50));
    }
    run(&["switch", "undrain", "2"])?;
    ensure!(!graph()?.is_drained(Dpid(2)));

    s1.unlink_from(&s2)?;
    wait_for("the link is gone", SOON, |graph| links(graph).is_empty().then_some(()))?;
    let json = run(&["links", "--down", "--json"])?;
    schema::check("links-down", &json)?;
    let down: serde_json::Value = serde_json::from_str(&json)?;
    let down = down.as_array().context("it is a list")?;
    let of_a_port = |why: &serde_json::Value| why == "port-down" || why == "port-removed";
    ensure!(down.len() == 2 && down.iter().all(|link| of_a_port(&link["why"])), "{json}");
    schema::check("topology", &run(&["topology", "--json"])?)?;
    ensure!(run(&["links", "--wide"])?.contains("down for "));
    ensure!(
        lab.command(rosemary_binary()).args(["path", "1", "2"]).output()?.status.code() == Some(1)
    );
    rosemary.must_run()?;
    Ok(())
}

over_versions!(links_of_real_switches_are_found, |of| in_a_lab(move |lab| real_switches(lab, of)));

/// A switch whose packets the test moves.
struct Attacker {
    switch: Fake,
    dpid: u64,
}

impl Attacker {
    /// Connects a switch with ports 1 to 3.
    fn connect(dpid: u64) -> anyhow::Result<Self> {
        let mut attacker = Self { switch: Fake::connect(Version::V1_3, dpid)?, dpid };
        let deadline = Instant::now() + PATIENCE;
        let is_flow_mod = |message: &Vec<u8>| {
            Header::decode(message)
                .is_ok_and(|it| Some(it.kind) == Kind::FlowMod.to_wire(Version::V1_3))
        };
        while !attacker.switch.received.iter().any(is_flow_mod) {
            ensure!(Instant::now() < deadline, "switch {dpid} is not served");
            attacker.answer(Duration::from_millis(50))?;
        }
        for number in 1..=3 {
            attacker.set_port(number, PortState::default())?;
        }
        Ok(attacker)
    }

    fn answer(&mut self, time: Duration) -> anyhow::Result<()> {
        ensure!(self.switch.answer_for(time), "switch {} is disconnected", self.dpid);
        Ok(())
    }

    fn set_port(&mut self, number: u32, state: PortState) -> anyhow::Result<()> {
        let address = MacAddr([2, 0, 0, 0, 0, u8::try_from(number % 251)?]);
        let mut desc = PortDesc::new(PortNo(number), address, &format!("port{number}"));
        desc.state = state;
        let status = PortStatus { reason: PortReason::Modify, desc };
        let mut message = Vec::new();
        append(&mut message, |out| status.encode(Version::V1_3, 9, out))?;
        Ok(self.switch.send(&message)?)
    }

    fn packet_in(&mut self, number: u32, frame: &[u8]) -> anyhow::Result<()> {
        let mut message = Vec::new();
        let packet_in = PacketIn::new(PortNo(number), frame);
        append(&mut message, |out| packet_in.encode(Version::V1_3, 0, out))?;
        Ok(self.switch.send(&message)?)
    }

    /// Takes a port down and up, and waits for the probe that follows.
    fn fresh_probe(&mut self, number: u32) -> anyhow::Result<Vec<u8>> {
        self.set_port(number, PortState::LINK_DOWN)?;
        self.answer(Duration::from_millis(100))?;
        self.switch.received.clear();
        self.set_port(number, PortState::default())?;
        self.probe(number, &mut None)
    }

    /// Waits for a probe of a port. `other` is kept connected meanwhile.
    fn probe(&mut self, number: u32, other: &mut Option<&mut Self>) -> anyhow::Result<Vec<u8>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.answer(Duration::from_millis(30))?;
            if let Some(other) = other {
                other.answer(Duration::from_millis(30))?;
            }
            let probe = self.switch.received.iter().rev().find_map(|message| {
                let packet_out = PacketOut::decode(message).ok()?;
                let is_out =
                    packet_out.actions.iter().next() == Some(Action::output(PortNo(number)));
                (is_out && packet_out.data.starts_with(&NEAREST_BRIDGE.0))
                    .then(|| packet_out.data.to_vec())
            });
            self.switch.received.clear();
            if let Some(probe) = probe {
                return Ok(probe);
            }
            ensure!(Instant::now() < deadline, "no probe of port {number}");
        }
    }
}

/// An ARP request of a host.
fn arp(from: u8) -> Vec<u8> {
    let source = [2, 0, 0, 0, 9, from];
    let mut frame = [&[0xff; 6][..], &source, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &source].concat();
    frame.extend([10, 0, 0, from, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1]);
    frame.resize(60, 0);
    frame
}

/// The published attacks on link discovery, by switches and hosts that are both the test's: forged, replayed, reflected and
/// relayed LLDP, and "port amnesia".
#[test]
fn false_probes_make_no_link_and_are_reported() {
    in_a_lab(|lab| {
        configure(&[TOPOLOGY])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let (mut one, mut two) = (Attacker::connect(1)?, Attacker::connect(2)?);
        let mut incident = |what: &str, switches: [&mut Attacker; 2]| -> anyhow::Result<()> {
            let deadline = Instant::now() + SOON;
            let is_it =
                |line: &str| line.contains("app reported an incident") && line.contains(what);
            while !rosemary.log().lines().any(is_it) {
                ensure!(Instant::now() < deadline, "no incident {what:?}: {}", rosemary.log());
                thread::sleep(Duration::from_millis(20));
            }
            for switch in switches {
                switch.answer(Duration::from_millis(30))?;
            }
            rosemary.must_run()?;
            Ok(())
        };
        // Fresh from its port, a probe makes the link: to the controller that is a cable.
        let probe = one.fresh_probe(1)?;
        two.packet_in(1, &probe)?;
        let link = BTreeSet::from([(end(1, 1), end(2, 1))]);
        wait_for("the link is found", SOON, |graph| (links(graph) == link).then_some(()))?;

        // Replayed at another port: the switch fabricates a link.
        two.packet_in(2, &probe)?;
        incident("arrived at 00:00:00:00:00:00:00:02 port 2 a second time", [&mut one, &mut two])?;
        // Sent back.
        let probe = one.fresh_probe(2)?;
        one.packet_in(2, &probe)?;
        incident("came back to 00:00:00:00:00:00:00:01 port 2", [&mut one, &mut two])?;
        // Changed: another port in place of the true one.
        let mut forged = one.fresh_probe(3)?;
        let (kept, place) = (forged.clone(), forged.len() - 2 - 16 - 9);
        forged[place] ^= 1;
        for _ in 0..10 {
            one.answer(Duration::from_millis(300))?;
            two.answer(Duration::from_millis(300))?;
        }
        two.packet_in(3, &forged)?;
        incident("forged LLDP arrived at 00:00:00:00:00:00:00:02 port 3", [&mut one, &mut two])?;
        // Kept back.
        two.packet_in(3, &kept)?;
        incident("an old probe of 00:00:00:00:00:00:00:01 port 3", [&mut one, &mut two])?;

        // Relayed between ports where hosts are known.
        let both_are_edges = |graph: &Graph| {
            let is_edge = |at| graph.port(at).is_some_and(|port| port.edge);
            is_edge(end(1, 3)) && is_edge(end(2, 2))
        };
        let deadline = Instant::now() + PATIENCE;
        while !both_are_edges(&graph()?) {
            ensure!(Instant::now() < deadline, "both ports are edges");
            one.answer(Duration::from_millis(50))?;
            two.answer(Duration::from_millis(50))?;
        }
        one.packet_in(3, &arp(7))?;
        two.packet_in(2, &arp(8))?;
        one.switch.received.clear();
        let probe = one.probe(3, &mut Some(&mut two))?;
        two.packet_in(2, &probe)?;
        incident("hosts are known at", [&mut one, &mut two])?;
        // The port flaps to be forgotten; the probe from before is worth nothing.
        two.set_port(2, PortState::LINK_DOWN)?;
        two.set_port(2, PortState::default())?;
        two.packet_in(2, &probe)?;
        two.answer(Duration::from_millis(500))?;

        let found = links(&graph()?);
        ensure!(found.iter().all(|it| link.contains(it)), "{found:?}");
        rosemary.must_run()?;
        let shown = lab.command(rosemary_binary()).arg("incidents").output()?;
        let shown = String::from_utf8(shown.stdout)?;
        ensure!(shown.contains("topology"), "{shown}");
        Ok(())
    });
}

/// A port that changes 100 times a second, and a switch with more ports than are followed: the others do not notice.
#[test]
fn flapping_and_endless_ports_delay_nobody() {
    in_a_lab(|lab| {
        configure(&[TOPOLOGY])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let flaps = thread::spawn(move || {
            let change = |switch: &mut Attacker, number: &mut u32| -> anyhow::Result<()> {
                switch.set_port(1, PortState::LINK_DOWN)?;
                switch.set_port(1, PortState::default())?;
                for _ in 0..100 {
                    *number += 1;
                    switch.set_port(*number, PortState::default())?;
                }
                switch.answer(Duration::from_millis(10))
            };
            let (mut number, mut steps) = (4, 0);
            while !flag.load(Ordering::Relaxed) {
                // Rosemary may disconnect it.
                let Ok(mut switch) = Attacker::connect(9) else { continue };
                while !flag.load(Ordering::Relaxed) && change(&mut switch, &mut number).is_ok() {
                    steps += 1;
                }
            }
            steps
        });
        thread::sleep(Duration::from_secs(1));
        let (mut one, mut two) = (Attacker::connect(1)?, Attacker::connect(2)?);
        let begin = Instant::now();
        let mut took = PATIENCE;
        let is_found = |graph: &Graph| links(graph).contains(&(end(1, 1), end(2, 1)));
        // On a busy machine a probe may be too old when it has been read and sent.
        while !is_found(&graph()?) {
            ensure!(begin.elapsed() < PATIENCE, "the link is found");
            let asked = Instant::now();
            let probe = one.fresh_probe(1)?;
            took = took.min(asked.elapsed());
            two.packet_in(1, &probe)?;
            two.answer(Duration::from_millis(300))?;
        }
        println!("probed after {took:?}, found after {:?}", begin.elapsed());
        stop.store(true, Ordering::Relaxed);
        let steps = flaps.join().ok().context("no panic")?;
        ensure!(steps > 10, "{steps}");
        let ports = graph()?.ports(Dpid(9)).count();
        ensure!(ports <= 4096, "{ports}");
        ensure!(took < DISCOVERY, "{took:?}");
        rosemary.must_run()?;
        Ok(())
    });
}

/// The table has a place for what it must hold: 980 switches with 28 ports and 10,976 links.
#[test]
fn table_has_room_for_a_large_network() {
    let slots = Service::Topology.table_slots().unwrap_or(0);
    assert!(slots > 980 + 980 * 28 + 2 * 10_976);
    let status = Record::Status { settled: true }.encode();
    assert!(Graph::of([status]).is_settled());
}
