//! Ryu's apps for further versions of OpenFlow: `rosemary ryu` has switches speak the version that the app supports.

use std::fs;

use anyhow::ensure;
use cli::lab::{Of, Rosemary};
use rosemary_tests::net::Net;
use rosemary_tests::{in_a_lab_for, rosemary_binary, ryu};

use super::all::LIMIT;
use super::{CONFIG, reaches};

/// Runs an app that supports one version beside a switch that prefers OpenFlow 1.3, and notes its success.
fn learns_over(name: &'static str, of: Of, version: &'static str) {
    let dir = ryu::install().expect("Ryu is there");
    let packages = dir.display().to_string();
    in_a_lab_for(LIMIT, move |lab| {
        let (rosemary, app) = (rosemary_binary().display().to_string(), format!("ryu.app.{name}"));
        let config =
            lab.run(&rosemary, &["ryu", "--print-config", "--python-path", &packages, &app])?;
        ensure!(config.contains(&format!("openflow = [\"{version}\"]")), "{config}");
        fs::write(CONFIG, config)?;
        let rosemary = Rosemary::start(lab, &rosemary_binary(), &["--config", CONFIG])?;
        let mut net = Net::with_known_ports(lab, of, rosemary)?;
        reaches(&net)?;
        for host in [&net.h1, &net.h2] {
            let flows = net.flows_to(host)?;
            ensure!(flows.len() == 1, "to {}: {flows:#?}", host.name());
        }
        ensure!(net.switch_status()?.refused == 0, "{}", net.rosemary.log());
        // It is offered OpenFlow 1.3, too, and does not choose it.
        let protocols = format!("protocols=OpenFlow13,OpenFlow{}", version.replace('.', ""));
        lab.run("ovs-vsctl", &["--timeout=10", "set", "bridge", net.s1.name(), &protocols])?;
        reaches(&net)?;
        let log = net.rosemary.log();
        ensure!(!log.contains("but this app supports only"), "{log}");
        Ok(())
    });
    ryu::note(&dir, name, version, "hosts reach each other by flows").expect("the result is noted");
}

#[test]
#[ignore = "make ryu runs it"]
fn simple_switch_12_of_ryu_learns_over_openflow_1_2() {
    learns_over("simple_switch_12", Of::V1_2, "1.2");
}

#[test]
fn simple_switch_14_of_ryu_learns_over_openflow_1_4() {
    learns_over("simple_switch_14", Of::V1_4, "1.4");
}

#[test]
#[ignore = "make ryu runs it"]
fn simple_switch_15_of_ryu_learns_over_openflow_1_5() {
    learns_over("simple_switch_15", Of::V1_5, "1.5");
}
