//! Tests the service `stats` with real switches: its figures agree with those of the switch, and a switch that does not
//! answer has none.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary, Switch};
use openflow::Version;
use rosemary_tests::apps::configure;
use rosemary_tests::fake::Fake;
use rosemary_tests::net::{INTERVAL, SOON};
use rosemary_tests::{in_a_lab, over_versions, rosemary_binary, schema};
use serde_json::Value;

const CONFIG: &str = "[[app]]\nname = \"learning-switch\"\n\
    [[app]]\nname = \"stats\"\nconfig = \"/etc/rosemary/stats.toml\"\n";

fn start(lab: &Lab) -> anyhow::Result<Rosemary<'_>> {
    configure(&[CONFIG])?;
    fs::write("/etc/rosemary/stats.toml", "interval = 1\n")?;
    Ok(Rosemary::start(lab, &rosemary_binary(), &[])?)
}

/// Returns the figures; `None` while the service starts.
fn stats(lab: &Lab, args: &[&str]) -> anyhow::Result<Option<Value>> {
    let mut command = lab.command(rosemary_binary());
    let output = command.arg("stats").args(args).arg("--json").stdin(Stdio::null()).output()?;
    if !output.status.success() {
        return Ok(None);
    }
    let json = String::from_utf8(output.stdout)?;
    schema::check(if args.is_empty() { "stats" } else { "stats-history" }, &json)?;
    Ok(Some(serde_json::from_str(&json)?))
}

/// Returns packets and bytes in and out that the switch reports of a port.
fn counters(switch: &Switch<'_>, port: u16) -> anyhow::Result<[u64; 4]> {
    let number = port.to_string();
    let text = switch.ofctl(&["dump-ports", &number])?;
    let of = |line: &str, name: &str| -> anyhow::Result<u64> {
        let line = text.lines().find(|it| it.contains(line)).context("a line")?;
        let (_, rest) = line.split_once(&format!("{name}=")).context("a counter")?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Ok(digits.parse()?)
    };
    Ok([of("rx ", "pkts")?, of("tx ", "pkts")?, of("rx ", "bytes")?, of("tx ", "bytes")?])
}

fn figures_agree(lab: &Lab, of: Of) -> anyhow::Result<()> {
    let mut rosemary = start(lab)?;
    let s1 = lab.switch("s1", of)?;
    let (h1, h2) = (lab.host("h1", &s1)?, lab.host("h2", &s1)?);
    rosemary.wait_for_switch(&s1)?;
    let pings = h1.ping_in_background(&h2, 250, INTERVAL)?;
    rosemary.wait_for("there is a rate", SOON, |_| {
        let Ok(Some(stats)) = stats(lab, &[]) else { return None };
        let mut ports = stats["ports"].as_array().into_iter().flatten();
        let port = ports.find(|it| it["port"] == "1");
        // 50 packets of 98 bytes per second in each direction, or a little less on a busy machine.
        let rate = port.and_then(|it| it["rx_bps"].as_u64()).unwrap_or_default();
        (10_000..80_000).contains(&rate).then_some(())
    })?;
    pings.finish()?;
    for host in [&h1, &h2] {
        let (port, number) = (host.port(), host.port().to_string());
        let mut last = (None, [0; 4]);
        let agree = rosemary.wait_for("the figures agree", SOON, |_| {
            let Ok(Some(stats)) = stats(lab, &[]) else { return None };
            let ports = stats["ports"].as_array().cloned().unwrap_or_default();
            let known = ports.into_iter().find(|it| it["port"] == number.as_str());
            let real = counters(&s1, port).unwrap_or_default();
            let of = |name: &str| known.as_ref().and_then(|it| it[name].as_u64());
            let all = ["rx_packets", "tx_packets", "rx_bytes", "tx_bytes"].map(of);
            let is_current = known.as_ref().is_some_and(|it| it["state"] == "current");
            let agree = is_current && all == real.map(Some);
            last = (known, real);
            agree.then_some(())
        });
        agree.with_context(|| format!("{last:?}"))?;
    }
    let flows = s1.dump_flows()?.len();
    rosemary.wait_for("the flows agree", SOON, |_| {
        let Ok(Some(stats)) = stats(lab, &[]) else { return None };
        (stats["switches"][0]["flows"] == flows).then_some(())
    })?;
    let history = stats(lab, &["1", "--history", "1"])?.context("a history")?;
    let samples = history.as_array().context("a list")?;
    ensure!(samples.iter().any(|it| it["rx_pps"].as_u64() > Some(20)), "{samples:?}");
    ensure!(stats(lab, &["1", "--history", "77"])?.is_none(), "there is no such port");
    Ok(())
}

over_versions!(figures_agree_with_the_switch, |of| in_a_lab(move |lab| figures_agree(lab, of)));

#[test]
fn switch_that_does_not_answer_has_no_figures() {
    in_a_lab(|lab| {
        let mut rosemary = start(lab)?;
        let mut fake = Fake::connect(Version::V1_3, 9)?;
        rosemary.wait_for("the switch is stale", Duration::from_secs(40), |_| {
            fake.answer_for(Duration::from_millis(100)); // the handshake and echoes
            let Ok(Some(stats)) = stats(lab, &[]) else { return None };
            let switch = &stats["switches"][0];
            assert_eq!(stats["ports"].as_array().map(Vec::len), Some(0), "{stats}");
            assert!(switch["flows"].is_null(), "{stats}");
            (switch["state"] == "stale").then_some(())
        })?;
        Ok(())
    });
}
