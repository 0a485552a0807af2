//! Apps in Python that use the broker, the service `apps`, drains and meters.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use rosemary_tests::apps::configure;
use rosemary_tests::greeter::Greeter;
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::{developer, in_a_lab, kill};

/// Returns the `[[app]]` of an app in Python in `tests/apps`; `keys` are further lines.
fn app_of(name: &str, file: &str, keys: &str) -> String {
    let object = format!("{}/apps/{file}.py", env!("CARGO_MANIFEST_DIR"));
    format!("[[app]]\nname = \"{name}\"\nobject = \"{object}\"\nstage = \"observe\"\n{keys}\n")
}

/// Waits for a line of each of these, of this app.
fn logged(rosemary: &mut Rosemary<'_>, app: &str, lines: &[&str]) -> anyhow::Result<()> {
    for line in lines {
        println!("{}", rosemary.wait_for_log(&[app, line], SOON)?);
    }
    Ok(())
}

#[test]
fn app_in_python_connects_through_the_broker() {
    in_a_lab(|lab| {
        let keys = "services = [\"broker\"]\n\
                    capabilities = [\"packet-in\", \"flow.write\", \"net.connect:127.0.0.1:7007\", \
                    \"net.connect:127.0.0.1:7008\"]";
        configure(&[&app_of("connecting", "connecting", keys)])?;
        let greeter = Greeter::listen()?;
        let mut net = Net::start_with(lab, Of::V1_3, &[])?;
        greeter.welcome()?;
        let lines = [
            "heard: welcome",
            "localhost:7007: BrokerRefused: the operator has not granted this host and port",
            "127.0.0.1:7008: ConnectionError:",
            "another thread: flow-mod: another thread uses the network",
            "another thread: request: another thread uses the network",
        ];
        logged(&mut net.rosemary, "connecting", &lines)?;
        // Requests wait for a stopped broker, so that its end leaves some without an answer.
        let services = net.status()?.programs.services;
        let broker = services.iter().find(|it| it.name == "broker").and_then(|it| it.pid);
        let broker = broker.context("it runs")?;
        let stopped = rustix::process::Pid::from_raw(broker.try_into()?).context("a number")?;
        rustix::process::kill_process(stopped, rustix::process::Signal::STOP)?;
        lab.pause(Duration::from_millis(300))?;
        kill(broker)?;
        logged(
            &mut net.rosemary,
            "connecting",
            &["127.0.0.1:7008: Unavailable: the service broker"],
        )?;
        greeter.welcome()?;
        let log = net.rosemary.log();
        ensure!(!log.contains("refused a system call"), "{log}");
        ensure!(net.status()?.app("connecting").is_some_and(|app| app.restarts == 0), "{log}");
        Ok(())
    });
}

#[test]
fn app_in_python_limits_another_app() {
    in_a_lab(|lab| {
        let keys = "services = [\"apps\"]\n\
                    capabilities = [\"packet-in\", \"apps.read\", \"apps.limit:learning-switch\"]";
        let limited = "[[app]]\nname = \"learning-switch\"\n";
        configure(&[limited, &app_of("limiting", "limiting", keys)])?;
        let mut net = Net::start_with(lab, Of::V1_3, &[])?;
        assert!(net.h1.ping(&net.h2, 5, INTERVAL)?.received > 0);
        let lines = [
            "apps: learning-switch limiting, limits: none",
            "suspend hosts: AppsRefused: the operator has not granted apps.limit:hosts",
            "throttle: done",
            "limits: learning-switch is throttled to 20 flow-mods/s for each switch",
        ];
        logged(&mut net.rosemary, "limiting", &lines)?;
        let shown = developer::rosemary(lab, &["apps", "--wide"])?;
        let limit = "throttled to 20 flow-mods/s for each switch, by limiting";
        assert!(shown.contains(limit), "{shown}");
        let lines = ["release: done", "senders: learning-switch at 1"];
        logged(&mut net.rosemary, "limiting", &lines)?;
        let shown = developer::rosemary(lab, &["apps", "--wide"])?;
        assert!(!shown.contains(limit), "{shown}");
        Ok(())
    });
}

#[test]
fn app_in_python_drains_a_switch_if_granted() {
    in_a_lab(|lab| {
        let keys = |more: &str| {
            format!(
                "services = [\"topology\"]\ncapabilities = [\"packet-in\", \"topology.read\"{more}]"
            )
        };
        let draining = app_of("draining", "draining", &keys(", \"topology.drain\""));
        let other = app_of("not-granted", "draining", &keys(""));
        configure(&["[[app]]\nname = \"learning-switch\"\n", &draining, &other])?;
        let mut net = Net::start_with(lab, Of::V1_3, &[])?;
        let s2 = lab.switch("s2", Of::V1_3)?;
        net.s1.link_to(&s2)?;
        s2.connect_to("tcp:127.0.0.1:6653")?;
        let lines = [
            "switch 2 is drained: False",
            "drain True: done",
            "switch 2 is drained: True",
            "drain False: done",
        ];
        logged(&mut net.rosemary, "draining", &lines)?;
        let refused = "DrainRefused: the operator has not granted topology.drain";
        logged(&mut net.rosemary, "not-granted", &[refused])?;
        Ok(())
    });
}

#[test]
fn app_in_python_wants_a_meter() {
    in_a_lab(|lab| {
        let keys = "services = [\"storage\"]\n\
                    capabilities = [\"packet-in\", \"flow.write\", \"meter.write\", \"stats.read\"]";
        configure(&[&app_of("metering", "metering", keys)])?;
        let mut net = Net::start_with(lab, Of::V1_3, &[])?;
        let wait = |what: &str| {
            lab.wait_for(what, SOON, |evidence| {
                let meters = net.s1.ofctl(&["dump-meters"]).unwrap_or_default();
                let flows = net.s1.ofctl(&["dump-flows"]).unwrap_or_default();
                evidence.0 = format!("{meters}\n{flows}");
                let is_there = meters.contains("type=drop rate=4000 burst_size=64")
                    && flows.lines().any(|it| it.contains("0x88b5") && it.contains("meter:"));
                Ok(is_there.then_some(meters))
            })
        };
        wait("the meter and its flow are in the switch")?;
        let own = "type=drop rate=77";
        lab.wait_for("the app's own meter is in the switch", SOON, |evidence| {
            evidence.0 = net.s1.ofctl(&["dump-meters"]).unwrap_or_default();
            Ok(evidence.0.contains(own).then_some(()))
        })?;
        // A switch that has lost them gets those that are wanted.
        net.s1.connect_to("tcp:127.0.0.1:1")?;
        net.s1.ofctl(&["del-flows"])?;
        net.s1.ofctl(&["del-meters"])?;
        net.s1.connect_to("tcp:127.0.0.1:6653")?;
        wait("both are back")?;
        logged(&mut net.rosemary, "metering", &["too high: meter 2147483648: this app has 0 to"])?;
        Ok(())
    });
}

/// Runs the app that sends change sets. Returns the flows of the switch.
fn commit(lab: &Lab, of: Of, lines: &[&str]) -> anyhow::Result<String> {
    let keys = "capabilities = [\"flow.write\", \"group.write\", \"meter.write\"]";
    configure(&[&app_of("committing", "committing", keys)])?;
    let mut net = Net::start_with(lab, of, &[])?;
    let refused = [
        "to NORMAL: refused False 1",
        "was not applied, change 1: ",
        "nothing: ValueError",
        "a word: TypeError: a change set has FlowMod, GroupMod and MeterMod, and this is a str",
    ];
    logged(&mut net.rosemary, "committing", &refused)?;
    logged(&mut net.rosemary, "committing", lines)?;
    let flows = net.s1.ofctl(&["dump-flows"])?;
    ensure!(flows.contains("0x88b5") && flows.contains("0x88b6"), "{flows}");
    ensure!(!flows.contains("0x88b7") && !flows.contains("0x88b8"), "{flows}");
    Ok(flows)
}

#[test]
fn app_in_python_commits_change_sets() {
    in_a_lab(|lab| {
        let lines = [
            "two flows: atomic True None None",
            "a group: atomic True None None",
            "a meter: failed False 0 None",
        ];
        let flows = commit(lab, Of::V1_3, &lines)?;
        ensure!(flows.contains("0x88b9"), "{flows}");
        Ok(())
    });
}

#[test]
fn app_in_python_learns_what_an_old_version_lacks() {
    in_a_lab(|lab| {
        let lines = ["two flows: ordered True None None", "version 1, a meter: ValueError: "];
        commit(lab, Of::V1_0, &lines).map(drop)
    });
}
