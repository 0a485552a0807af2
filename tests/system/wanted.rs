//! Wanted flows, groups and meters with a real switch: they return to a switch that has lost them, and no restart touches
//! one that is there.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary, Switch};
use rosemary_tests::apps::{configure, in_c_with, in_rust};
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, kill, over_versions, rosemary_binary};
use rustix::process::Signal;

const KEYS: &str = "config = \"wanter.conf\"\nservices = [\"storage\"]\n\
                    capabilities = [\"flow.write\", \"stats.read\"]";

const METERED_KEYS: &str = "config = \"wanter.conf\"\nservices = [\"storage\"]\n\
                    capabilities = [\"flow.write\", \"group.write\", \"meter.write\", \"stats.read\"]";

/// Time for many flows on a busy machine.
const LATER: Duration = Duration::from_secs(60);

/// Writes the configuration of an app that wants two flows to flood, and `count` that drop.
fn want(count: u32) -> anyhow::Result<()> {
    fs::write("/etc/rosemary/wanter.conf", format!("count = {count}\n"))?;
    Ok(configure(&[&in_rust("wanter", KEYS)])?)
}

/// The wanted flows of a switch: those that drop, and the two that flood.
fn wanted(s1: &Switch<'_>) -> anyhow::Result<Vec<String>> {
    let mut flows = s1.dump_flows()?;
    flows.retain(|flow| flow.ends_with("actions=drop") || flow.ends_with("actions=FLOOD"));
    Ok(flows)
}

fn wait_for_flows(lab: &Lab, s1: &Switch<'_>, count: usize) -> anyhow::Result<()> {
    lab.wait_for("the wanted flows are in the switch", LATER, |evidence| {
        let found = wanted(s1).unwrap_or_default();
        evidence.0 = format!("{} flows", found.len());
        Ok((found.len() == count).then_some(()))
    })?;
    Ok(())
}

/// Returns the digits behind `name` in a line of `ovs-ofctl`.
fn digits<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    let (_, rest) = line.split_once(name)?;
    rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()
}

/// Returns the number behind `name` in a line of `ovs-ofctl`.
fn number(line: &str, name: &str) -> anyhow::Result<f64> {
    Ok(digits(line, name).with_context(|| format!("{name} in {line}"))?.parse()?)
}

/// Writes the configuration of an app that wants two flows to flood, and with this number also one through a group and a
/// meter. 0 means that it declares nothing.
fn want_metered(count: u32) -> anyhow::Result<()> {
    fs::write("/etc/rosemary/wanter.conf", format!("count = {count} metered\n"))?;
    Ok(configure(&[&in_rust("wanter", METERED_KEYS)])?)
}

/// The entries of a switch that the app wants besides flows of its own: meters, groups, and the flow that uses both.
struct Metered {
    meters: Vec<String>,
    groups: Vec<String>,
    flows: Vec<String>,
}

impl Metered {
    fn read(s1: &Switch<'_>) -> anyhow::Result<Self> {
        let of = |text: String, word: &str| -> Vec<String> {
            text.lines().filter(|line| line.contains(word)).map(|it| it.trim().to_owned()).collect()
        };
        Ok(Self {
            // Each meter has a second line, with its band.
            meters: of(s1.ofctl(&["dump-meters"])?.replace("\ntype=", " type="), "meter="),
            groups: of(s1.ofctl(&["dump-groups"])?, "group_id="),
            flows: of(s1.ofctl(&["dump-flows"])?, "meter:"),
        })
    }

    /// Whether all three are there, and the flow names the numbers of the meter and of the group.
    fn is_complete(&self) -> bool {
        let Self { meters, groups, flows } = self;
        let ([meter], [group], [flow]) = (&meters[..], &groups[..], &flows[..]) else {
            return false;
        };
        meter.contains("rate=4000")
            && group.contains("type=all")
            && flow.contains("ipv6")
            && digits(meter, "meter=").is_some_and(|it| Some(it) == digits(flow, "meter:"))
            && digits(group, "group_id=").is_some_and(|it| Some(it) == digits(flow, "group:"))
    }
}

fn wait_for_metered(lab: &Lab, s1: &Switch<'_>) -> anyhow::Result<()> {
    lab.wait_for("the meter, the group and their flow are in the switch", LATER, |evidence| {
        let Ok(found) = Metered::read(s1) else { return Ok(None) };
        evidence.0 = format!("{:?} {:?} {:?}", found.meters, found.groups, found.flows);
        Ok(found.is_complete().then_some(()))
    })?;
    Ok(())
}

/// Ages of all wanted flows, and packets of the flow that floods IPv4.
fn ages_and_packets(lab: &Lab, s1: &Switch<'_>) -> anyhow::Result<(Vec<f64>, f64)> {
    // A busy machine may end the first attempt.
    let flows = lab.wait_for("the switch lists its flows", SOON, |_| Ok(wanted(s1).ok()))?;
    let ages = flows.iter().map(|flow| number(flow, "duration=")).collect::<Result<_, _>>()?;
    let is_flood = |flow: &&String| flow.contains(",ip") && flow.ends_with("actions=FLOOD");
    let flood = flows.iter().find(is_flood).context("a flow that floods IPv4")?;
    Ok((ages, number(flood, "n_packets=")?))
}

fn switch_restarts(of: Of) {
    in_a_lab(move |lab| {
        want(20)?;
        let mut net = Net::start(lab, of)?;
        wait_for_flows(lab, &net.s1, 22)?;
        // From now on the app declares nothing: what it wants is in the storage.
        want(0)?;
        kill(net.rosemary.wait_for("it runs", SOON, |status| status.app("wanter")?.pid)?)?;
        net.rosemary.wait_for_log(&["wanter", "read 22 wanted entries"], SOON)?;
        for _ in 0..2 {
            net.s1.connect_to("tcp:127.0.0.1:1")?;
            net.s1.ofctl(&["del-flows"])?;
            ensure!(wanted(&net.s1)?.is_empty());
            net.s1.connect_to("tcp:127.0.0.1:6653")?;
            let connecting = Instant::now();
            wait_for_flows(lab, &net.s1, 22)?;
            println!("over OpenFlow {of}: wanted flows are back after {:?}", connecting.elapsed());
            ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.received == 5);
        }
        // Someone deletes them from a switch that stays connected.
        net.s1.ofctl(&["del-flows"])?;
        wait_for_flows(lab, &net.s1, 22)?;
        assert_eq!(net.switch_status()?.errors, 0);
        Ok(())
    });
}

over_versions!(wanted_flows_return_to_a_restarted_switch, |of| switch_restarts(of));

#[test]
fn wanted_groups_and_meters_return_to_a_restarted_switch() {
    in_a_lab(|lab| {
        want_metered(1)?;
        let mut net = Net::start(lab, Of::V1_3)?;
        wait_for_metered(lab, &net.s1)?;
        // From now on the app declares nothing: what it wants is in the storage.
        want_metered(0)?;
        kill(net.rosemary.wait_for("it runs", SOON, |status| status.app("wanter")?.pid)?)?;
        net.rosemary.wait_for_log(&["wanter", "read 6 wanted entries"], SOON)?;
        for _ in 0..2 {
            net.s1.connect_to("tcp:127.0.0.1:1")?;
            for command in ["del-flows", "del-groups", "del-meters"] {
                net.s1.ofctl(&[command])?;
            }
            let left = Metered::read(&net.s1)?;
            ensure!(left.meters.is_empty() && left.groups.is_empty() && left.flows.is_empty());
            net.s1.connect_to("tcp:127.0.0.1:6653")?;
            let connecting = Instant::now();
            wait_for_metered(lab, &net.s1)?;
            println!("group, meter and flow are back after {:?}", connecting.elapsed());
        }
        // Somebody changes the meter and deletes the group, and with it the flow, on a switch that then reconnects.
        let found = Metered::read(&net.s1)?;
        let meter = number(&found.meters[0], "meter=")?;
        net.s1.connect_to("tcp:127.0.0.1:1")?;
        net.s1.ofctl(&["mod-meter", &format!("meter={meter},kbps,band=type=drop,rate=7")])?;
        net.s1.ofctl(&["del-groups"])?;
        net.s1.connect_to("tcp:127.0.0.1:6653")?;
        wait_for_metered(lab, &net.s1)?;
        assert_eq!(net.switch_status()?.errors, 0);
        Ok(())
    });
}

#[test]
fn killed_controller_touches_no_wanted_group_or_meter() {
    in_a_lab(|lab| {
        want_metered(1)?;
        let Net { rosemary, s1, h1, h2, h3, .. } = Net::start(lab, Of::V1_3)?;
        wait_for_metered(lab, &s1)?;
        want_metered(0)?;
        // Both count for as long as they exist.
        let ages = || -> anyhow::Result<[f64; 2]> {
            Ok([
                number(&s1.ofctl(&["meter-stats"])?, "duration:")?,
                number(&s1.ofctl(&["dump-group-stats"])?, "duration=")?,
            ])
        };
        let (before, began) = (ages()?, Instant::now());
        rosemary.stop(Signal::KILL)?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_switch(&s1)?;
        rosemary.wait_for_log(&["wanter", "restored 0, changed 0, removed 0, kept 6"], LATER)?;
        let passed = began.elapsed().as_secs_f64();
        for (before, after) in before.iter().zip(ages()?) {
            ensure!(after - before > passed - 0.5, "{before} s, and {after} s {passed} s later");
        }
        drop((h1, h2, h3));
        Ok(())
    });
}

fn controller_is_killed(of: Of) {
    in_a_lab(move |lab| {
        want(20)?;
        let Net { rosemary, s1, h1, h2, h3, .. } = Net::start(lab, of)?;
        wait_for_flows(lab, &s1, 22)?;
        ensure!(h1.ping(&h2, 5, INTERVAL)?.received == 5);
        want(0)?;
        // At long intervals, because a busy machine delays each ping.
        let mut pings = h1.ping_in_background(&h2, 300, Duration::from_millis(60))?;
        pings.wait_for(10, SOON)?;
        let (before, packets) = ages_and_packets(lab, &s1)?;
        let began = Instant::now();
        rosemary.stop(Signal::KILL)?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_switch(&s1)?;
        let line = rosemary
            .wait_for_log(&["wanter", "restored 0, changed 0, removed 0, kept 22"], LATER)?;
        println!("over OpenFlow {of}: {line}");
        let passed = began.elapsed().as_secs_f64();
        let (after, later_packets) = ages_and_packets(lab, &s1)?;
        assert_eq!(after.len(), before.len());
        for (before, after) in before.iter().zip(&after) {
            ensure!(
                after - before > passed - 0.5,
                "a flow of {before} s is {after} s old, {passed} s later"
            );
        }
        ensure!(later_packets > packets, "{later_packets} after {packets}");
        let result = pings.finish()?;
        assert_eq!(result.lost(), 0, "{result:?}");
        drop(h3);
        Ok(())
    });
}

over_versions!(killed_controller_touches_no_wanted_flow, |of| controller_is_killed(of));

#[test]
fn ten_thousand_wanted_flows_are_reconciled() {
    in_a_lab(|lab| {
        want(9_998)?;
        let mut net = Net::start(lab, Of::V1_3)?;
        wait_for_flows(lab, &net.s1, 10_000)?;
        let line = net.rosemary.wait_for_log(&["restored 10000"], LATER)?;
        println!("restored all: {line}");
        let began = Instant::now();
        let pid = net.status()?.programs.kernel.pid.context("the kernel runs")?;
        kill(pid)?;
        let line = net.rosemary.wait_for_log(&["restored 0", "kept 10000"], LATER)?;
        println!(
            "found all after a restart of the kernel, {:?} after its end: {line}",
            began.elapsed()
        );
        Ok(())
    });
}

/// The firewall's flows continue to count, too, though it sends them at once to each switch that connects.
fn firewall_continues(of: Of) {
    in_a_lab(move |lab| {
        configure(&[
            "[[app]]\nname = \"firewall\"\nstage = \"guard\"\nconfig = \"firewall.toml\"\n\
                     capabilities = [\"flow.write\", \"stats.read\"]\n\
                     [[app]]\nname = \"learning-switch\"\n",
        ])?;
        fs::write(
            "/etc/rosemary/firewall.toml",
            "[[deny]]\nto = \"10.0.0.2\"\nprotocol = \"icmp\"\n",
        )?;
        let Net { rosemary, s1, h1, h2, h3, .. } = Net::start(lab, of)?;
        let drops = || -> anyhow::Result<f64> {
            let flows = s1.dump_flows()?;
            let drop = flows.iter().find(|flow| flow.ends_with("actions=drop"));
            number(drop.context("the rule's flow")?, "n_packets=")
        };
        assert_eq!(h1.ping(&h2, 5, INTERVAL)?.received, 0);
        lab.wait_for("the switch counts", SOON, |_| {
            Ok((drops().unwrap_or(0.0) >= 3.0).then_some(()))
        })?;
        let before = drops()?;
        rosemary.stop(Signal::KILL)?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_switch(&s1)?;
        assert_eq!(h1.ping(&h2, 5, INTERVAL)?.received, 0);
        lab.wait_for("the count goes on", SOON, |evidence| {
            let now = drops().unwrap_or(0.0);
            evidence.0 = format!("{now} after {before}");
            Ok((now >= before + 3.0).then_some(()))
        })?;
        drop(h3);
        Ok(())
    });
}

over_versions!(firewall_flows_continue_to_count, |of| firewall_continues(of));

/// The flow of `apps/mirror.c`.
fn mirror(s1: &Switch<'_>) -> Option<String> {
    let mut flows = s1.dump_flows().ok()?;
    flows.retain(|flow| flow.contains("in_port=") && flow.contains("actions=output:"));
    flows.pop().filter(|_| flows.is_empty())
}

fn app_in_c_wants_a_flow(of: Of) {
    in_a_lab(move |lab| {
        let keys = "services = [\"storage\"]\ncapabilities = [\"flow.write\", \"stats.read\"]";
        let programs = rosemary_binary();
        let libraries = programs.parent().context("a directory of programs")?.join("examples");
        let libraries = format!("-L{}", libraries.display());
        let link = [&libraries, "-lrosemary_wanted", "-Wl,--gc-sections", "-Wl,--no-undefined"];
        configure(&[&in_c_with(lab, "mirror", "apps/mirror.c", keys, &link)?])?;
        let mut net = Net::start(lab, of)?;
        let flow = lab.wait_for("the flow is there", SOON, |_| Ok(mirror(&net.s1)))?;
        let age = |flow: &str| number(flow, "duration=");
        let before = (age(&flow)?, Instant::now());
        let app = |status: &cli::status::Report| status.app("mirror")?.pid;
        let first = app(&net.status()?).context("the app runs")?;
        kill(first)?;
        net.rosemary.wait_for("another process runs", SOON, |status| {
            app(status).filter(|pid| *pid != first).map(drop)
        })?;
        lab.pause(INTERVAL * 50)?;
        let flow = mirror(&net.s1).context("the flow stayed")?;
        let (was, since) = before;
        ensure!(age(&flow)? >= was + since.elapsed().as_secs_f64() - 0.5, "it was written: {flow}");
        net.s1.ofctl(&["del-flows", "in_port=1"])?;
        lab.wait_for("the flow is there again", SOON, |_| Ok(mirror(&net.s1)))?;
        Ok(())
    });
}

over_versions!(app_in_c_wants_a_flow_in_each_version, |of| app_in_c_wants_a_flow(of));
