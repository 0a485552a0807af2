//! Flow monitors: changes that others make to the flows of a switch are noticed at once and without requests; a switch that
//! refuses a monitor, pauses it or floods it harms no other switch.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{LabError, Of, Rosemary, Running};
use control::query::{FlowMonitorState, SwitchStatus};
use openflow::{Header, Kind, Version};
use rosemary_tests::apps::configure;
use rosemary_tests::emulated::Emulated;
use rosemary_tests::fake::Fake;
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, over_versions, rosemary_binary};
use rustix::process::{Pid, Signal, kill_process};

const APPS: &str = "[[app]]\nname = \"firewall\"\nstage = \"guard\"\nconfig = \"firewall.toml\"\n\
                    capabilities = [\"flow.write\", \"stats.read\"]\n\
                    [[app]]\nname = \"learning-switch\"\n";

const RULES: &str = "[[deny]]\nto = \"10.0.0.2\"\nprotocol = \"udp\"\nto-port = [9000]\n";

/// A flow without an app.
const FOREIGN: &str = "cookie=0x7b00000000000001,priority=5,in_port=9,actions=drop";

/// Number of deletes, and the time between them: a restoration follows the one before after a second at the earliest.
const DELETES: usize = 10;
const PAUSE: Duration = Duration::from_millis(1300);

/// Longest time until the flows are back. A tenth of it is expected.
const HEALED: Duration = Duration::from_millis(500);

/// Requests that a flow monitor saves.
const SAVED: [&str; 5] = ["heal", "orphans", "count", "bands", "check"];

/// Prints each change of the switch's flows, with the time.
fn observe(net: &Net<'_>) -> anyhow::Result<Running> {
    let mut command = net.lab.command("ovs-ofctl");
    let version = format!("OpenFlow{}", net.s1.of().name().replace('.', ""));
    command.args(["-O", &version, "--timestamp", "monitor", net.s1.name(), "watch:!initial"]);
    Ok(net.lab.start("observer", command)?)
}

/// Returns the times from each delete of all flows until both the firewall's flow and the table-miss entry are back.
fn times(observed: &str) -> Vec<Duration> {
    let (mut now, mut deleted, mut times) = (Duration::ZERO, None, Vec::new());
    let (mut has_rule, mut has_entry) = (true, true);
    for line in observed.lines() {
        now = time(line).unwrap_or(now);
        let is_rule = line.contains("tp_dst=9000");
        let is_entry = line.contains("priority=0") || line.contains("CONTROLLER");
        if line.contains("event=DELETED") && (is_rule || line.contains("cookie=0xffff")) {
            deleted = deleted.or(Some(now));
            has_rule &= !is_rule;
            has_entry &= is_rule;
        } else if line.contains("event=ADDED") {
            has_rule |= is_rule;
            has_entry |= is_entry && !is_rule;
        }
        if has_rule
            && has_entry
            && let Some(deleted) = deleted.take_if(|_| has_rule && has_entry)
        {
            times.push(now.saturating_sub(deleted));
        }
    }
    times
}

/// The time of day in a line such as `2026-11-29 20:15:30.123: NXST_FLOW_MONITOR reply`.
fn time(line: &str) -> Option<Duration> {
    let clock = line.split_whitespace().nth(1)?.strip_suffix(':')?;
    let mut parts = clock.split(':');
    let hours: f64 = parts.next()?.parse().ok()?;
    let minutes: f64 = parts.next()?.parse().ok()?;
    let seconds: f64 = parts.next()?.parse().ok()?;
    Some(Duration::from_secs_f64(hours * 3600.0 + minutes * 60.0 + seconds))
}

fn monitored(rosemary: &mut Rosemary<'_>, dpid: &str) -> anyhow::Result<SwitchStatus> {
    let is_on = |it: &&SwitchStatus| it.dpid == dpid && it.flow_monitor == FlowMonitorState::On;
    Ok(rosemary.wait_for("the switch reports its flows", SOON, |status| {
        status.switches.iter().flatten().find(is_on).cloned()
    })?)
}

fn foreign_changes_are_noticed_without_requests(of: Of) {
    in_a_lab(move |lab| {
        configure(&[APPS])?;
        fs::write("/etc/rosemary/firewall.toml", RULES)?;
        let mut net = Net::start(lab, of)?;
        let dpid = net.s1.dpid();
        monitored(&mut net.rosemary, &dpid)?;
        ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.received >= 4);
        lab.wait_for("the rule is there", SOON, |_| {
            Ok(net.s1.dump_flows()?.iter().any(|it| it.contains("tp_dst=9000")).then_some(()))
        })?;
        let observer = observe(&net)?;
        lab.pause(PAUSE)?;
        for _ in 0..DELETES {
            net.s1.ofctl(&["del-flows"])?;
            lab.pause(PAUSE)?;
        }
        let reported = [observer.stdout(), observer.stderr()].concat();
        let mut times = times(&reported);
        times.sort();
        println!("OpenFlow {of}: flows are back after {times:?}");
        ensure!(times.len() == DELETES, "{} of {DELETES}: {reported}", times.len());
        ensure!(times.last() < Some(&HEALED), "{times:?}: {reported}");
        numbers_are_present(&mut net)?;
        let rosemary = rosemary_binary().display().to_string();
        println!("{}", lab.run(&rosemary, &["flows", "--orphans"])?);
        let status = monitored(&mut net.rosemary, &dpid)?;
        let saved = SAVED.map(|reason| (reason, status.requests.get(reason).copied()));
        ensure!(saved.iter().all(|(_, count)| *count == Some(0)), "{:?}", status.requests);
        println!("OpenFlow {of}: {:?}", status.requests);
        Ok(())
    });
}

/// Compares the numbers of flows with those of the switch, after others have added and removed some.
fn numbers_are_present(net: &mut Net<'_>) -> anyhow::Result<()> {
    net.s1.ofctl(&["add-flow", FOREIGN])?;
    for foreign in [1, 0] {
        let Net { rosemary, s1, lab, .. } = &mut *net;
        lab.wait_for("the numbers are those of the switch", SOON, |evidence| {
            let flows = s1.dump_flows()?.len() as u64;
            let status = rosemary.wait_for_switch(s1)?;
            evidence.0 = format!("{flows} flows, {foreign} of others: {status:?}");
            let is_right = status.flows == Some(flows) && status.foreign_flows == foreign;
            Ok(is_right.then_some(()))
        })?;
        s1.ofctl(&["del-flows", "in_port=9"])?;
    }
    Ok(())
}

over_versions!(foreign_changes_are_noticed_in_each_version, |of| {
    foreign_changes_are_noticed_without_requests(of);
});

/// A foreign change of a guard's flow removes nothing, so only a flow monitor shows it.
fn changed_flow_of_a_guard_is_restored(of: Of) {
    in_a_lab(move |lab| {
        configure(&[APPS])?;
        fs::write("/etc/rosemary/firewall.toml", RULES)?;
        let mut net = Net::start(lab, of)?;
        let dpid = net.s1.dpid();
        monitored(&mut net.rosemary, &dpid)?;
        let drops = |net: &Net<'_>| -> Result<bool, LabError> {
            let is_rule = |it: &String| it.contains("tp_dst=9000") && it.ends_with("drop");
            Ok(net.s1.dump_flows()?.iter().any(is_rule))
        };
        lab.wait_for("the rule is there", SOON, |_| Ok(drops(&net)?.then_some(())))?;
        lab.pause(Duration::from_millis(2500))?; // longer than the guard's own messages count
        net.s1.ofctl(&["mod-flows", "udp,tp_dst=9000,actions=normal"])?;
        let changed = Instant::now();
        lab.wait_for("the rule drops again", SOON, |_| Ok(drops(&net)?.then_some(())))?;
        println!("the rule drops again after {:?}", changed.elapsed());
        net.rosemary.wait_for_log(&["flows were missing on a switch", "firewall"], SOON)?;
        Ok(())
    });
}

over_versions!(changed_flow_of_a_guard_is_restored_in_each_version, |of| {
    changed_flow_of_a_guard_is_restored(of);
});

#[test]
fn switch_that_refuses_a_monitor_is_polled() {
    in_a_lab(|lab| {
        configure(&["[[app]]\nname = \"learning-switch\"\n"])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let _switch = Emulated::connect(7)?;
        let status = rosemary.wait_for("the flows are requested", SOON, |status| {
            let mut switches = status.switches.iter().flatten();
            let is_polled = |it: &&SwitchStatus| it.requests.get("heal") > Some(&0);
            switches.find(is_polled).cloned()
        })?;
        ensure!(status.flow_monitor == FlowMonitorState::Off, "{status:?}");
        let why = status.flow_monitor_off.unwrap_or_default();
        ensure!(why.contains("refused the request"), "{why}");
        lab.pause(Duration::from_secs(2))?;
        let said = rosemary.log().matches("does not report changes of its flows").count();
        ensure!(said == 1, "it is said {said} times");
        Ok(())
    });
}

/// A switch of OpenFlow 1.4 whose monitor the test plays.
struct PlayedSwitch {
    fake: Fake,
    /// The transaction id of the last request for a monitor.
    asked: u32,
}

impl PlayedSwitch {
    fn connect(dpid: u64) -> anyhow::Result<Self> {
        Ok(Self { fake: Fake::connect(Version::V1_4, dpid)?, asked: 0 })
    }

    /// Waits for the next request for a monitor.
    fn wait_for_request(&mut self) -> anyhow::Result<()> {
        let give_up = Instant::now() + SOON;
        while Instant::now() < give_up {
            ensure!(self.fake.answer_for(INTERVAL), "the connection was closed");
            let is_request = |message: &&Vec<u8>| {
                let kind = Kind::from_wire(Version::V1_4, message[1]);
                // Multipart type 16, and the command of the first monitor is "add".
                kind == Ok(Kind::MultipartRequest)
                    && message[9] == 16
                    && message.get(31) == Some(&0)
            };
            let mut xids = self.fake.received.iter().filter(is_request);
            let xid = xids.next_back().and_then(|message| Some(Header::decode(message).ok()?.xid));
            if let Some(xid) = xid.filter(|xid| *xid != self.asked) {
                self.asked = xid;
                return Ok(());
            }
        }
        anyhow::bail!("no request for a monitor came")
    }

    /// Sends updates, as the list that was requested if `is_list`.
    fn send(&mut self, is_list: bool, updates: &[u8]) -> anyhow::Result<()> {
        let xid = if is_list { self.asked } else { 0 };
        let mut message = vec![5, 19, 0, 0];
        message.extend(xid.to_be_bytes());
        message.extend([0, 16, 0, 0, 0, 0, 0, 0]);
        message.extend_from_slice(updates);
        let size = u16::try_from(message.len())?;
        message[2..4].copy_from_slice(&size.to_be_bytes());
        Ok(self.fake.send(&message)?)
    }
}

/// An update of OpenFlow 1.4 about a flow from this port: event 1 adds it, 2 removes it.
fn update(event: u8, port: u32) -> Vec<u8> {
    let mut update = vec![0, 40, 0, event, 0, 2, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0];
    update.extend([0, 9, 0, 0, 0, 0, 0, 1]); // the cookie of an app that does not exist
    update.extend([0, 1, 0, 12, 0x80, 0, 0, 4]);
    update.extend(port.to_be_bytes());
    update.extend([0; 4]);
    update
}

const PAUSED: [u8; 8] = [0, 8, 0, 5, 0, 0, 0, 0];
const RESUMED: [u8; 8] = [0, 8, 0, 6, 0, 0, 0, 0];

fn wait_for_state(
    rosemary: &mut Rosemary<'_>,
    played: &mut PlayedSwitch,
    state: FlowMonitorState,
) -> anyhow::Result<SwitchStatus> {
    let dpid = played.fake.dpid();
    Ok(rosemary.wait_for("the monitor is in this state", SOON, |status| {
        played.fake.answer_for(INTERVAL);
        let mut switches = status.switches.iter().flatten();
        switches.find(|it| it.dpid == dpid && it.flow_monitor == state).cloned()
    })?)
}

#[test]
fn paused_monitor_is_polled_and_listed_again_once() {
    in_a_lab(|lab| {
        configure(&["[[app]]\nname = \"learning-switch\"\n"])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let mut switch = PlayedSwitch::connect(7)?;
        switch.wait_for_request()?;
        switch.send(true, &[update(0, 1), update(0, 2)].concat())?;
        let status = wait_for_state(&mut rosemary, &mut switch, FlowMonitorState::On)?;
        ensure!(status.requests.get("monitor") == Some(&1), "{:?}", status.requests);
        switch.send(false, &PAUSED)?;
        wait_for_state(&mut rosemary, &mut switch, FlowMonitorState::Paused)?;
        for _ in 0..1000 {
            switch.send(false, &RESUMED)?;
        }
        switch.wait_for_request()?;
        switch.send(true, &update(0, 3))?;
        let status = wait_for_state(&mut rosemary, &mut switch, FlowMonitorState::On)?;
        ensure!(status.requests.get("monitor") == Some(&2), "{:?}", status.requests);
        let status = rosemary.wait_for("the new list counts", SOON, |status| {
            status.switches.iter().flatten().find(|it| it.foreign_flows == 1).cloned()
        })?;
        ensure!(status.flows == Some(1), "{status:?}");
        Ok(())
    });
}

/// Open vSwitch pauses a monitor whose reports wait: the kernel is stopped while flows come and go.
#[test]
fn open_vswitch_that_pauses_is_known_again() {
    in_a_lab(|lab| {
        configure(&["[[app]]\nname = \"learning-switch\"\n"])?;
        let mut net = Net::start(lab, Of::V1_3)?;
        let dpid = net.s1.dpid();
        monitored(&mut net.rosemary, &dpid)?;
        let flow = |number: u32| {
            let [_, a, b, c] = number.to_be_bytes();
            format!("priority=7,ip,nw_src=10.{a}.{b}.{c},actions=drop\n")
        };
        let file = lab.files().join("flows");
        fs::write(&file, (0..60_000).map(flow).collect::<String>())?;
        let kernel = net.status()?.programs.kernel.pid.context("the kernel runs")?;
        let kernel = Pid::from_raw(kernel.try_into()?).context("a process has a number")?;
        kill_process(kernel, Signal::STOP)?;
        net.s1.ofctl(&["add-flows", &file.display().to_string()])?;
        net.s1.ofctl(&["del-flows", "ip,nw_src=10.0.128.0/17"])?;
        kill_process(kernel, Signal::CONT)?;
        net.rosemary.wait_for_log(&["paused the reports about its flows"], SOON)?;
        let s1 = &net.s1;
        let rosemary = &mut net.rosemary;
        lab.wait_for("the numbers are those of the switch", 3 * SOON, |evidence| {
            let status = rosemary.wait_for_switch(s1)?;
            let flows = s1.dump_flows()?.len() as u64;
            evidence.0 = format!("{flows} flows: {status:?}");
            let is_on = status.flow_monitor == FlowMonitorState::On;
            Ok((is_on && status.flows == Some(flows)).then_some(()))
        })?;
        Ok(())
    });
}

/// A hostile switch lists more flows than are kept, and reports removals of flows that never were.
#[test]
fn flood_of_reports_ends_the_monitor_and_delays_no_other_switch() {
    in_a_lab(|lab| {
        configure(&["[[app]]\nname = \"learning-switch\"\n"])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let mut other = Emulated::connect(8)?;
        let mut hostile = PlayedSwitch::connect(7)?;
        hostile.wait_for_request()?;
        hostile.send(true, &[])?;
        wait_for_state(&mut rosemary, &mut hostile, FlowMonitorState::On)?;
        let mut slowest = Duration::ZERO;
        for part in 0..300_u32 {
            let removed = (0..500).map(|at| update(2, 0x0100_0000 + part * 500 + at));
            hostile.send(false, &removed.collect::<Vec<_>>().concat())?;
            slowest = slowest.max(other.echo()?);
        }
        let status = wait_for_state(&mut rosemary, &mut hostile, FlowMonitorState::On)?;
        ensure!(status.flows.unwrap_or(0) == 0, "{status:?}");
        for part in 0..300_u32 {
            let added = (0..1000).map(|at| update(1, part * 1000 + at));
            hostile.send(false, &added.collect::<Vec<_>>().concat())?;
            slowest = slowest.max(other.echo()?);
        }
        let status = wait_for_state(&mut rosemary, &mut hostile, FlowMonitorState::Off)?;
        let why = status.flow_monitor_off.unwrap_or_default();
        ensure!(why.contains("more flows than Rosemary keeps"), "{why}");
        println!("the other switch has waited {slowest:?} for an echo");
        ensure!(slowest < Duration::from_secs(1), "{slowest:?}");
        ensure!(!rosemary.log().contains("flows were missing"), "no loss was believed");
        Ok(())
    });
}
