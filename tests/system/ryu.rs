//! Ryu's own apps, unmodified, on Open vSwitch: each does what its documentation shows.

mod all;
mod client;

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use cli::lab::{Lab, Of};
use rosemary_tests::http::{APP_ROUTES, request_at};
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, kill, ryu};

/// Where the lab's own `/etc` has the configuration.
const CONFIG: &str = "/etc/rosemary/ryu.toml";

/// The port of web interfaces.
const PORT: u16 = 18080;

/// Starts Rosemary with these entries for apps, a switch and three hosts.
fn start<'lab>(lab: &'lab Lab, of: Of, entries: &[String]) -> anyhow::Result<Net<'lab>> {
    fs::write(CONFIG, entries.join("\n"))?;
    Ok(Net::start_with(lab, of, &["--config", CONFIG])?)
}

/// Has a host ping another until all of some pings are answered: the first ones may be sent before the app has started.
fn reaches(net: &Net<'_>) -> anyhow::Result<()> {
    let mut last = None;
    for _ in 0..20 {
        let report = net.h1.ping(&net.h2, 3, INTERVAL)?;
        if report.lost() == 0 {
            return Ok(());
        }
        last = Some(report);
    }
    anyhow::bail!("h1 does not reach h2: {last:?}\n{}", net.rosemary.log())
}

/// Sends a request to an app's web interface and returns the answer.
fn http(lab: &Lab, method: &str, path: &str, body: &str) -> anyhow::Result<String> {
    let url = format!("http://127.0.0.1:{PORT}{path}");
    let args =
        ["--silent", "--show-error", "--max-time", "20", "--retry", "10", "--retry-connrefused"];
    let args = [&args[..], &["--request", method, "--data", body, &url]].concat();
    Ok(lab.run("curl", &args)?)
}

fn with_ryu(test: impl FnOnce(&Lab, &Path) -> anyhow::Result<()> + Send + 'static) {
    let ryu = ryu::install().expect("Ryu is there");
    in_a_lab(move |lab| test(lab, &ryu));
}

#[test]
fn simple_switch_13_of_ryu_learns_and_survives_its_end() {
    with_ryu(|lab, ryu| {
        let mut net = start(lab, Of::V1_3, &[ryu::entry(ryu, "simple_switch_13", "")])?;
        reaches(&net)?;
        for host in [&net.h1, &net.h2] {
            let flows = net.flows_to(host)?;
            assert_eq!(flows.len(), 1, "to {}: {flows:#?}", host.name());
        }
        let misses = net.s1.dump_flows()?;
        assert!(
            misses.iter().filter(|flow| flow.contains("CONTROLLER")).count() <= 1,
            "{misses:#?}"
        );
        // Killed and restarted, it receives the switch again, and goes on.
        let status = net.status()?;
        let pid = status.app("simple-switch-13").and_then(|app| app.pid).context("it runs")?;
        let pings = net.h1.ping_in_background(&net.h2, 100, INTERVAL)?;
        kill(pid)?;
        net.rosemary.wait_for("the app is back", SOON, |status| {
            status.app("simple-switch-13")?.pid.filter(|new| *new != pid)
        })?;
        assert_eq!(pings.finish()?.lost(), 0, "established flows stay");
        let other = net.h1.ping(&net.h3, 20, INTERVAL)?;
        assert!(other.received > 0, "{other:?}");
        assert_eq!(net.switch_status()?.refused, 0, "{}", net.rosemary.log());
        Ok(())
    });
}

#[test]
fn simple_switch_rest_13_of_ryu_answers_requests() {
    with_ryu(|lab, ryu| {
        let listen = format!(
            "listen = [\"wsapi=127.0.0.1:{PORT}\"]\noptions = {{ wsapi-port = \"{PORT}\" }}"
        );
        let net = start(lab, Of::V1_3, &[ryu::entry(ryu, "simple_switch_rest_13", &listen)])?;
        reaches(&net)?;
        let dpid = net.s1.dpid().replace(':', "");
        let table = http(lab, "GET", &format!("/simpleswitch/mactable/{dpid}"), "")?;
        for host in [&net.h1, &net.h2] {
            assert!(table.contains(&format!("\"{}\": {}", host.mac(), host.port())), "{table}");
        }
        Ok(())
    });
}

#[test]
fn web_interface_of_an_app_of_ryu_needs_no_port() {
    with_ryu(|lab, ryu| {
        let entry = ryu::entry(ryu, "simple_switch_rest_13", "");
        let entry = entry.replace("\"topology.probe\"]", "\"topology.probe\", \"http.serve\"]");
        let net = start(lab, Of::V1_3, &[entry])?;
        reaches(&net)?;
        let dpid = net.s1.dpid().replace(':', "");
        let path = format!("/apps/simple-switch-rest-13/simpleswitch/mactable/{dpid}");
        let table = request_at(APP_ROUTES, ("GET", &path), &[], b"")?;
        let text = String::from_utf8_lossy(&table.body);
        for host in [&net.h1, &net.h2] {
            assert!(text.contains(&format!("\"{}\": {}", host.mac(), host.port())), "{table:?}");
        }
        assert_eq!(table.header("content-type"), Some("application/json"), "{table:?}");
        let unknown = request_at(APP_ROUTES, ("GET", "/apps/simple-switch-rest-13/x"), &[], b"")?;
        assert_eq!(unknown.status, 404, "{unknown:?}");
        Ok(())
    });
}
