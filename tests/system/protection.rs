//! `protection` on real switches: it drains the switch that an app harms, or throttles the app, and undoes both.

use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Host, Lab, Of, Rosemary, Switch};
use rosemary_tests::apps::{configure, in_rust};
use rosemary_tests::{in_a_lab_without_capture_for, rosemary_binary, schema};
use serde_json::Value;

/// These tests measure rates, so they do not run beside each other.
static ALONE: Mutex<()> = Mutex::new(());

/// The time between two pings that observe a move.
const INTERVAL: Duration = Duration::from_millis(50);

/// Within this time after its first flow-mod an app is suspected.
const FOUND: Duration = Duration::from_secs(2);

/// How long a test without a capture may take.
const LIMIT: Duration = Duration::from_secs(300);

/// Time limit of a step on a busy machine.
const LATE: Duration = Duration::from_secs(60);

/// A ring of four switches with hosts at the first and the third.
struct Ring<'lab> {
    lab: &'lab Lab,
    rosemary: Rosemary<'lab>,
    h1: Host<'lab>,
    h3: Host<'lab>,
    _switches: [Switch<'lab>; 4],
}

impl<'lab> Ring<'lab> {
    /// Starts all of it, with these settings of `protection`, and waits until the hosts reach each other.
    fn start(lab: &'lab Lab, settings: &str, rights: &str) -> anyhow::Result<Self> {
        let protection = format!(
            "[[app]]\nname = \"protection\"\nconfig = \"/etc/rosemary/protection.toml\"\n\
             capabilities = [\"packet-in\", \"stats.read\", \"topology.read\", \"topology.drain\", \"apps.read\"{rights}]\n"
        );
        let changer = in_rust("changer", "config = \"/etc/rosemary/changer.txt\"\n");
        let forwarding = "[[app]]\nname = \"forwarding\"\n";
        configure(&[forwarding, &protection, &changer])?;
        fs::write("/etc/rosemary/protection.toml", settings)?;
        fs::write("/etc/rosemary/changer.txt", "1 0\n")?;
        let switch = |name: &str| lab.switch(name, Of::V1_3);
        let switches = [switch("s1")?, switch("s2")?, switch("s3")?, switch("s4")?];
        let (h1, h3) = (lab.host("h1", &switches[0])?, lab.host("h3", &switches[2])?);
        for (at, one) in switches.iter().enumerate() {
            one.link_to(&switches[(at + 1) % 4])?;
        }
        let rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let ring = Self { lab, rosemary, h1, h3, _switches: switches };
        lab.wait_for("all links are found", LATE, |_| {
            let links = ring.json(&["links"]).ok();
            Ok(links.filter(|it| it.as_array().map(Vec::len) == Some(8)).map(|_| ()))
        })?;
        lab.wait_for("h1 reaches h3", LATE, |_| {
            Ok((ring.h1.ping(&ring.h3, 3, INTERVAL * 2)?.received == 3).then_some(()))
        })?;
        Ok(ring)
    }

    fn run(&self, args: &[&str]) -> anyhow::Result<String> {
        let output = self.lab.command(rosemary_binary()).args(args).output()?;
        ensure!(output.status.success(), "{args:?}: {output:?}");
        Ok(String::from_utf8(output.stdout)?)
    }

    fn json(&self, args: &[&str]) -> anyhow::Result<Value> {
        let text = self.run(&[args, &["--json"]].concat())?;
        schema::check(args[0], &text)?;
        Ok(serde_json::from_str(&text)?)
    }

    /// The switch in the middle of the path of a ping from h1 to h3.
    fn middle(&self) -> anyhow::Result<String> {
        let (from, to) = (self.h1.mac(), self.h3.mac());
        let (source, destination) = (self.h1.address(), self.h3.address());
        let packet = format!(
            "eth_src={from},eth_dst={to},eth_type=0x0800,ipv4_src={source},ipv4_dst={destination},ip_proto=1"
        );
        let port = self.h1.port().to_string();
        let trace = self.json(&["trace", "1", &packet, "--in-port", &port])?;
        let hops = trace["hops"].as_array().context("hops")?;
        let hops: Vec<&str> = hops.iter().filter_map(|hop| hop["switch"].as_str()).collect();
        ensure!(hops.len() == 3, "{hops:?}");
        Ok(hops[1].to_owned())
    }

    /// The same, once the flows of the first pings are there.
    fn first_middle(&self) -> anyhow::Result<String> {
        Ok(self.lab.wait_for("the path is known", LATE, |_| Ok(self.middle().ok()))?)
    }

    /// Lets the app `changer` send this number of flow-mods per second to a switch. Returns when it was suspected.
    fn attack(&mut self, dpid: &str, rate: u32) -> anyhow::Result<()> {
        fs::write("/etc/rosemary/changer.txt", format!("{dpid} {rate}\n"))?;
        self.run(&["app", "restart", "changer"])?;
        // From its first flow-mod on, as the switch has it.
        let seen = self.lab.wait_for("it sends flow-mods", LATE, |_| {
            Ok(self.usage("changer").ok().filter(|rate| *rate > 0).map(|_| ()))
        });
        seen.with_context(|| {
            format!("{:?} {:?}", self.run(&["apps", "changer"]), self.usage("changer"))
        })?;
        let began = Instant::now();
        self.rosemary.wait_for_log(&["changer is suspected", dpid], LATE)?;
        let took = began.elapsed();
        println!("changer was suspected {took:?} after its first flow-mods were seen");
        ensure!(took < FOUND * 2, "{took:?}"); // the test itself takes part of the time on a busy machine
        Ok(())
    }

    /// Flow-mods of an app per second.
    fn usage(&self, app: &str) -> anyhow::Result<u64> {
        let top = self.json(&["top"])?;
        let program = top.as_array().into_iter().flatten().find(|it| it["name"] == app);
        let uses = program.and_then(|it| it["uses"].as_array()).cloned().unwrap_or_default();
        let rate = uses.iter().find(|it| it["limit"] == "flow-mods-per-second");
        Ok(rate.and_then(|it| it["value"].as_u64()).unwrap_or_default())
    }

    /// Waits for an incident about `program` whose record contains these words.
    fn incident(&self, program: &str, words: &[&str]) -> anyhow::Result<Value> {
        let found = self.lab.wait_for("there is an incident", LATE, |_| {
            let incidents = self.json(&["incidents"]).unwrap_or_default();
            let mut all = incidents.as_array().into_iter().flatten();
            let is_it = |it: &&Value| {
                let text = it.to_string();
                it["program"]["name"] == program && words.iter().all(|word| text.contains(word))
            };
            Ok(all.find(is_it).cloned())
        });
        found
            .with_context(|| format!("{words:?}: {}", self.run(&["incidents"]).unwrap_or_default()))
    }
}

/// The path leaves the switch that an app harms, and returns when the app stops. No packet is lost.
fn attacked_switch_is_drained(lab: &Lab) -> anyhow::Result<()> {
    let mut ring = Ring::start(lab, "quiet = 3\n", "")?;
    let middle = ring.first_middle()?;
    // Calm times, to compare with.
    lab.pause(Duration::from_secs(12))?;
    let mut pings = ring.h1.ping_in_background(&ring.h3, 300, INTERVAL)?;
    pings.wait_for(20, LATE)?;
    ring.attack(&middle, 20_000)?;
    ring.incident("protection", &["changer harms", &middle, "is drained", "flow-mods/s"])?;
    lab.wait_for("the path avoids the switch", LATE, |_| {
        Ok(ring.middle().ok().filter(|now| *now != middle).map(|_| ()))
    })?;
    let topology = ring.json(&["topology"])?;
    ensure!(topology.to_string().contains("\"drained\":true"), "{topology}");
    ring.run(&["app", "stop", "changer"])?;
    ring.incident("protection", &["harms", "no longer", "is not drained any more"])?;
    lab.wait_for("no switch is drained", LATE, |_| {
        let topology = ring.json(&["topology"]).unwrap_or_default().to_string();
        Ok((!topology.contains("\"drained\":true")).then_some(()))
    })?;
    let report = pings.finish()?;
    println!("{} of {} pings were lost", report.lost(), report.lost() + report.received);
    ensure!(report.lost() == 0, "{} pings were lost", report.lost());
    ring.rosemary.must_run()?;
    Ok(())
}

/// The app that harms a switch is throttled, which is an incident of it, until it stops pressing.
fn attacker_is_throttled(lab: &Lab) -> anyhow::Result<()> {
    let settings = "action = \"throttle\"\npace = 20\nquiet = 3\n";
    let mut ring = Ring::start(lab, settings, ", \"apps.limit:changer\"")?;
    let middle = ring.first_middle()?;
    // The process that a reload starts has all connections of its predecessor.
    fs::write("/etc/rosemary/protection.toml", format!("{settings}# changed\n"))?;
    let steps = ring.run(&["reload"])?;
    ensure!(steps.contains("replace") && steps.contains("app protection"), "{steps}");
    lab.pause(Duration::from_secs(12))?;
    ring.attack(&middle, 20_000)?;
    ring.incident("protection", &["changer harms", "throttled to 20 flow-mods/s"])?;
    let limited =
        ring.incident("changer", &["limited-by-app", "\"by\":\"protection\"", "\"pace\":20"])?;
    ensure!(limited["open"] == true, "{limited}");
    let state = ring.run(&["apps", "--wide"])?;
    ensure!(
        state.contains("throttled to 20 flow-mods/s for each switch, by protection"),
        "{state}"
    );
    // Once the queue is full, the kernel admits messages at the pace.
    let admitted = lab.wait_for("it is slow", LATE, |_| {
        Ok(ring.usage("changer").ok().filter(|rate| *rate <= 40))
    })?;
    println!("{admitted} flow-mods/s are admitted");
    let apps = ring.json(&["apps"])?;
    let changer = apps.as_array().into_iter().flatten().find(|it| it["name"] == "changer");
    let changer = changer.context("it is there")?;
    ensure!(
        changer["delayed"].as_u64() > Some(100) && changer["paced"].as_u64() > Some(0),
        "{changer}"
    );
    ring.run(&["app", "stop", "changer"])?;
    ring.incident("protection", &["harms", "no longer", "its limit ends"])?;
    let ended = ring.incident("changer", &["limited-by-app", "app protection ended the limit"])?;
    ensure!(ended["open"] == false, "{ended}");
    ring.rosemary.must_run()?;
    Ok(())
}

#[test]
fn attacked_switch_is_drained_without_loss() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    in_a_lab_without_capture_for(LIMIT, attacked_switch_is_drained);
}

#[test]
fn attacker_is_throttled_until_it_stops() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    in_a_lab_without_capture_for(LIMIT, attacker_is_throttled);
}
