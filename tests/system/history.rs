//! Tests the history with a real switch: its figures are those of the network, they survive a killed process, and a damaged file is set
//! aside. Without its table in the configuration there is no history.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use rosemary_tests::apps::configure;
use rosemary_tests::http::request;
use rosemary_tests::net::{INTERVAL, SOON};
use rosemary_tests::{in_a_lab, kill, rosemary_binary, schema};
use rustix::process::Signal;
use serde_json::Value;

const FILE: &str = "/var/lib/rosemary/history.redb";

const HISTORY: &str = "[history]\ninterval-seconds = 1\n";

const APPS: &str = "[[app]]\nname = \"learning-switch\"\n\
    [[app]]\nname = \"stats\"\nconfig = \"/etc/rosemary/stats.toml\"\n";

fn start(lab: &Lab, with_history: bool) -> anyhow::Result<Rosemary<'_>> {
    configure(&[if with_history { HISTORY } else { "" }, APPS])?;
    fs::write("/etc/rosemary/stats.toml", "interval = 1\n")?;
    Ok(Rosemary::start(lab, &rosemary_binary(), &[])?)
}

fn ask(lab: &Lab, args: &[&str]) -> anyhow::Result<Output> {
    let mut command = lab.command(rosemary_binary());
    Ok(command.args(["stats", "history"]).args(args).stdin(Stdio::null()).output()?)
}

/// Returns the points of a metric; `None` while there are none.
fn points(lab: &Lab, args: &[&str], metric: &str) -> anyhow::Result<Option<Vec<Value>>> {
    let output = ask(lab, &[args, &["--metric", metric, "--step", "1s", "--json"]].concat())?;
    if !output.status.success() {
        return Ok(None);
    }
    let json = String::from_utf8(output.stdout)?;
    schema::check("history", &json)?;
    let all: Value = serde_json::from_str(&json)?;
    let points = all[0]["points"].as_array().filter(|it| !it.is_empty());
    Ok(points.cloned())
}

fn history_pid(rosemary: &Rosemary<'_>) -> anyhow::Result<Option<u32>> {
    let status = rosemary.status()?.context("it runs")?;
    let mut services = status.programs.services.iter();
    Ok(services.find(|it| it.name == "history").and_then(|it| it.pid))
}

#[test]
fn history_survives_kills_and_a_damaged_file() {
    in_a_lab(|lab| {
        let mut rosemary = start(lab, true)?;
        let s1 = lab.switch("s1", Of::V1_3)?;
        let (h1, h2) = (lab.host("h1", &s1)?, lab.host("h2", &s1)?);
        rosemary.wait_for_switch(&s1)?;
        let pings = h1.ping_in_background(&h2, 100, INTERVAL)?;
        let port = ["--switch", "1", "--port", "1"];
        let busy = rosemary.wait_for("the port has a rate", SOON, |_| {
            let points = points(lab, &port, "rx-bits").ok()??;
            points.into_iter().find(|it| it["max"].as_u64() > Some(10_000))
        })?;
        pings.finish()?;
        for args in [&["--program", "kernel"][..], &["--app", "stats"]] {
            let memory = points(lab, args, "memory")?.context("memory is known")?;
            ensure!(memory[0]["min"].as_u64() > Some(100_000), "{memory:?}");
        }
        let packet_ins = points(lab, &["--switch", "1"], "packet-ins")?.context("packet-ins")?;
        ensure!(packet_ins.iter().any(|it| it["sum"].as_u64() > Some(0)), "{packet_ins:?}");
        let list = ask(lab, &["--list", "--json"])?;
        schema::check("history-series", &String::from_utf8(list.stdout)?)?;
        let table = String::from_utf8(ask(lab, &port)?.stdout)?;
        ensure!(table.contains("rx-bits"), "{table}");
        let csv = String::from_utf8(ask(lab, &["--csv"])?.stdout)?;
        ensure!(csv.lines().any(|it| it.starts_with("network switches,20")), "{csv}");

        let get = |query: &str| request("GET", &format!("/api/v1/history{query}"), &[], b"");
        let answer = get("/points?series=network%20switches&step=1")?;
        let json = answer.json();
        ensure!(answer.status == 200 && json["points"][0]["samples"] == 1, "{json}");
        ensure!(get("?subject=network")?.status == 200);
        ensure!(get("/points?series=network%20nothing")?.status == 404);
        ensure!(get("/points?series=network%20hosts&from=9&to=9")?.status == 400);

        let pid = history_pid(&rosemary)?.context("it runs")?;
        kill(pid)?;
        rosemary.wait_for("it runs again and has the old point", SOON, |it| {
            history_pid(it).ok()?.filter(|it| *it != pid)?;
            points(lab, &port, "rx-bits").ok()??.into_iter().find(|it| *it == busy)
        })?;

        rosemary.stop(Signal::TERM)?;
        fs::write(FILE, [7; 8192])?;
        let mut rosemary = start(lab, true)?;
        rosemary.wait_for_log(&["set a damaged file aside"], SOON)?;
        rosemary
            .wait_for("a new history begins", SOON, |_| points(lab, &[], "switches").ok()?)?;
        ensure!(fs::read(format!("{FILE}.damaged"))? == [7; 8192]);
        Ok(())
    });
}

#[test]
fn history_is_off_by_default() {
    in_a_lab(|lab| {
        let mut rosemary = start(lab, false)?;
        rosemary.wait_for("it answers", SOON, |it| it.status().ok().flatten())?;
        ensure!(history_pid(&rosemary)?.is_none() && !Path::new(FILE).exists());
        let output = ask(lab, &[])?;
        let text = String::from_utf8(output.stderr)?;
        ensure!(output.status.code() == Some(1) && text.contains("[history]"), "{text}");
        Ok(())
    });
}
