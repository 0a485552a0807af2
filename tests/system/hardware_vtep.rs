//! Devices with the schema `hardware_vtep`: an operator's flows join two of them, and nothing that they send harms others.

mod hostile;

use std::fs;
use std::time::Duration;

use anyhow::ensure;
use cli::lab::{Lab, Rosemary};
use cli::status::Report;
use rosemary_tests::net::SOON;
use rosemary_tests::vtep::Device;
use rosemary_tests::{in_a_lab, in_a_lab_for, rosemary_binary};
use rustix::process::Signal;

const LATER: Duration = Duration::from_secs(60);

const CONFIG: &str = "[controller]\nvtep-listen = [\"127.0.0.1:6640\"]\n\
                      [[app]]\nname = \"forwarding\"\n[[app]]\nname = \"operator\"\n";

/// Writes the configuration that Rosemary uses by default.
fn configure(text: &str) -> anyhow::Result<()> {
    fs::write(config::SYSTEM_CONFIG, text)?;
    Ok(())
}

fn rosemary(lab: &Lab, args: &[&str]) -> anyhow::Result<String> {
    Ok(lab.run(&rosemary_binary().display().to_string(), args)?)
}

/// Runs `rosemary`, which must fail. Returns its error.
fn refused(lab: &Lab, args: &[&str]) -> anyhow::Result<String> {
    match rosemary(lab, args) {
        Ok(output) => anyhow::bail!("{args:?} should fail: {output}"),
        Err(error) => Ok(format!("{error:#}")),
    }
}

/// Whether both devices are connected.
fn both(status: &Report) -> Option<()> {
    let switches = status.switches.as_ref()?;
    (switches.len() == 2 && switches.iter().all(|it| it.version == "1.3")).then_some(())
}

/// Waits until the output of `rosemary ARGS...` has `words`.
fn wait_for_words(lab: &Lab, args: &[&str], words: &[&str]) -> anyhow::Result<String> {
    Ok(lab.wait_for("the command shows it", LATER, |evidence| {
        let output = rosemary(lab, args).unwrap_or_else(|error| format!("{error:#}"));
        evidence.0.clone_from(&output);
        Ok(words.iter().all(|word| output.contains(word)).then_some(output))
    })?)
}

/// Adds the flows that join a device's port to the network 5000, and that to the other device.
fn join(lab: &Lab, here: &Device<'_>, there: &Device<'_>) -> anyhow::Result<()> {
    let (name, tunnel) = (here.name(), format!("output:{}", there.tunnel()));
    let address = format!("eth_dst={},tunnel_id=5000", there.host_mac());
    for (match_, actions) in [
        ("in_port=4096", "set_field:tunnel_id=5000,output:FLOOD"),
        ("tunnel_id=5000", &tunnel),
        (&address, &tunnel),
    ] {
        rosemary(lab, &["flows", "add", &name, "--match", match_, "--actions", actions])?;
    }
    Ok(())
}

#[test]
fn operators_flows_join_two_devices() {
    in_a_lab_for(Duration::from_secs(180), |lab| {
        configure(CONFIG)?;
        let mut up = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let devices = Device::pair(lab)?;
        let [one, two] = &devices;
        devices
            .iter()
            .try_for_each(|it| it.ctl(&["set-manager", "tcp:127.0.0.1:6640"]).map(drop))?;
        up.wait_for("both devices are connected", LATER, both)?;

        join(lab, one, two)?;
        join(lab, two, one)?;
        one.ping(two, 5, LATER)?;
        let remote = one.ctl(&["list-remote-macs", "rosemary-5000"])?;
        for row in [
            "02:00:00:00:00:02 -> vxlan_over_ipv4/10.9.0.2",
            "unknown-dst -> vxlan_over_ipv4/10.9.0.2",
        ] {
            ensure!(remote.contains(row), "{remote}");
        }

        // Operators see it like any switch, with what it lacks.
        let switches = wait_for_words(lab, &["switches"], &["leaf1", "leaf2"])?;
        ensure!(switches.contains("56:54:57:0a:49:75:4f:8d"), "{switches}");
        let listed = rosemary(lab, &["flows", "leaf1"])?;
        ensure!(listed.contains("operator") && listed.contains("tunnel_id=0x1388"), "{listed}");
        let ports = rosemary(lab, &["ports", "leaf1"])?;
        ensure!(["eth1", "eth1.0", "10.9.0.2"].iter().all(|it| ports.contains(it)), "{ports}");
        // Apps that need packet-ins do not get the device, and the reason is named.
        let status = up.status()?.map(|it| it.switches.unwrap_or_default()).unwrap_or_default();
        let lacks = status.iter().find_map(|it| it.no_packets.clone());
        let lacks = lacks.ok_or_else(|| anyhow::anyhow!("no reason: {status:?}"))?;
        ensure!(lacks.apps.contains(&"forwarding".to_owned()), "{lacks:?}");
        ensure!(lacks.why.contains("sends no packets to a controller"), "{lacks:?}");
        up.wait_for_log(&["apps that need packet-ins do not get the switch", "forwarding"], SOON)?;

        // Learned addresses are hosts.
        let hosts = [&*one.host_mac(), &two.host_mac(), "56:54:57:0a:49:75:4f:8d"];
        wait_for_words(lab, &["hosts"], &hosts)?;

        // Impossible flows are refused with the reason.
        for (match_, actions, words) in [
            ("eth_type=0x800", "output:1", "flows of three forms"),
            ("tunnel_id=5000", "output:1", "port 1 is no tunnel"),
            ("in_port=36864", "set_field:tunnel_id=5000,output:FLOOD", "no physical port 9"),
        ] {
            let error =
                refused(lab, &["flows", "add", "leaf1", "--match", match_, "--actions", actions])?;
            ensure!(error.contains(words), "{error}");
        }

        // Another manager's row stays, and a lost one returns.
        one.ctl(&["add-ucast-remote", "rosemary-5000", "02:00:00:00:00:77", "10.9.0.2"])?;
        one.ctl(&["del-ucast-remote", "rosemary-5000", "02:00:00:00:00:02"])?;
        lab.wait_for("the row is restored", LATER, |evidence| {
            evidence.0 = one.ctl(&["list-remote-macs", "rosemary-5000"]).unwrap_or_default();
            Ok(evidence.0.contains("02:00:00:00:00:02").then_some(()))
        })?;

        // A restart changes nothing that the hosts see. While Rosemary is away, a row is lost.
        up.stop(Signal::TERM)?;
        one.ping(two, 5, SOON)?;
        two.ctl(&["del-ucast-remote", "rosemary-5000", "02:00:00:00:00:01"])?;
        let mut up = Rosemary::start(lab, &rosemary_binary(), &[])?;
        up.wait_for("both devices are connected again", LATER, both)?;
        lab.wait_for("the lost row is restored", LATER, |evidence| {
            evidence.0 = two.ctl(&["list-remote-macs", "rosemary-5000"]).unwrap_or_default();
            Ok(evidence.0.contains("02:00:00:00:00:01").then_some(()))
        })?;
        one.ping(two, 5, LATER)?;
        wait_for_words(lab, &["flows", "leaf1"], &["operator"])?;

        // The operator's flows go, the other manager's row stays.
        rosemary(lab, &["flows", "delete", "leaf1"])?;
        lab.wait_for("the operator's rows are gone", LATER, |evidence| {
            evidence.0 = one.ctl(&["list-remote-macs", "rosemary-5000"]).unwrap_or_default();
            let is_gone =
                !evidence.0.contains("02:00:00:00:00:02") && !evidence.0.contains("unknown-dst");
            Ok((is_gone && evidence.0.contains("02:00:00:00:00:77")).then_some(()))
        })?;
        up.must_run()?;
        Ok(())
    });
}

#[test]
fn app_that_needs_packets_of_a_device_is_refused() {
    in_a_lab(|lab| {
        let app = "[[app]]\nname = \"learning-switch\"\ndpids = [\"56:54:57:0a:49:75:4f:8d\"]\n";
        configure(app)?;
        let error = refused(lab, &["up", "--check", "--allow-unsigned"])?;
        ensure!(error.contains("rosemary.toml:3"), "{error}");
        ensure!(error.contains("which sends no packets to a controller"), "{error}");
        Ok(())
    });
}
