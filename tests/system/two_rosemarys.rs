//! Two Rosemarys command the same switches: each says so, and neither accuses the network.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use rosemary_tests::apps::configure;
use rosemary_tests::net::SOON;
use rosemary_tests::{in_a_lab_without_capture, rosemary_binary};
use rustix::process::Signal;
use serde_json::Value;

/// The phrase of the status.
const OTHER: &str = "another controller commands switch";

/// The time in which a fault repeats several times, if it does.
const A_WHILE: Duration = Duration::from_secs(12);

/// Returns the incidents of the instance whose processes share this directory.
fn incidents(lab: &Lab, runtime_dir: &str) -> anyhow::Result<Vec<Value>> {
    let rosemary = rosemary_binary().display().to_string();
    let text = lab.run(&rosemary, &["incidents", "--json", "--runtime-dir", runtime_dir])?;
    serde_json::from_str(&text).context("it is JSON")
}

#[test]
fn two_rosemarys_at_one_network_name_each_other() {
    in_a_lab_without_capture(|lab| {
        configure(&["[[app]]\nname = \"forwarding\"\n"])?;
        let files = lab.files().display().to_string();
        let [state, runtime] = ["state", "run"].map(|name| format!("{files}/second-{name}"));
        let (one, other) = (lab.switch("s1", Of::V1_3)?, lab.switch("s2", Of::V1_3)?);
        let (h1, h2) = (lab.host("h1", &one)?, lab.host("h2", &other)?);
        one.link_to(&other)?;
        let mut first = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let mut up = lab.command(rosemary_binary());
        up.args(["up", "--allow-unsigned", "--listen", "127.0.0.1:7653"]);
        up.args(["--api", "127.0.0.1:8282", "--state-dir", &state, "--runtime-dir", &runtime]);
        let mut second = lab.start("second", up)?;
        for switch in ["s1", "s2"] {
            let controllers = ["tcp:127.0.0.1:6653", "tcp:127.0.0.1:7653"];
            lab.run("ovs-vsctl", &[&["set-controller", switch], &controllers[..]].concat())?;
        }
        first.wait_for("it names the other", SOON * 6, |status| {
            let reasons = &status.health.reasons;
            reasons.iter().any(|it| it.contains(OTHER)).then_some(())
        })?;
        let rosemary = rosemary_binary().display().to_string();
        lab.wait_for("the second names the first", SOON * 6, |evidence| {
            let mut status = lab.command(&rosemary);
            let output = status.args(["status", "--runtime-dir", &runtime]).output();
            let shown = output.map(|it| it.stdout).unwrap_or_default();
            evidence.0 = String::from_utf8_lossy(&shown).into_owned();
            Ok(evidence.0.contains(OTHER).then_some(()))
        })?;
        lab.pause(A_WHILE)?;
        for dir in ["/run/rosemary", &runtime] {
            let incidents = incidents(lab, dir)?;
            let about =
                |what: &str| incidents.iter().filter(|it| it.to_string().contains(what)).count();
            ensure!(about("other-controller") == 1, "one incident: {incidents:#?}");
            ensure!(about("forged") == 0, "the other's probes are no attack: {incidents:#?}");
        }
        ensure!(h1.ping(&h2, 5, Duration::from_millis(200))?.lost() < 5, "packets pass");
        second.signal(Signal::TERM);
        ensure!(second.wait(SOON).is_some_and(|it| it.success()), "it ends");
        Ok(())
    });
}
