//! The HTTP interface: what it serves, whom it admits, and what hostile clients achieve.

mod app_routes;
mod audit;
mod changes;
mod hostile;
mod kills;
mod metrics;
mod roles;
mod routes;
mod sockets;
mod streams;
mod tls;

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use rosemary_tests::apps::{configure, in_rust};
use rosemary_tests::http::{Answer, request};
use rosemary_tests::{in_a_lab, rosemary_binary};
use serde_json::{Value, json};

/// How long the interface may take to start.
const SOON: Duration = Duration::from_secs(20);

/// Waits until the interface answers.
fn wait_for_api() -> anyhow::Result<()> {
    let deadline = Instant::now() + SOON;
    loop {
        match request("GET", "/livez", &[], b"") {
            Ok(answer) if answer.status == 200 => return Ok(()),
            result if Instant::now() > deadline => {
                result.context("the interface does not answer")?;
                anyhow::bail!("the interface is not alive");
            }
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn get(path: &str) -> anyhow::Result<Answer> {
    request("GET", path, &[], b"")
}

/// Sends a GET and returns the JSON of a good answer.
fn get_json(path: &str) -> anyhow::Result<Value> {
    let answer = get(path)?;
    ensure!(answer.status == 200, "{path}: {answer:?}");
    Ok(answer.json())
}

fn post(path: &str, body: &Value) -> anyhow::Result<Answer> {
    let json = [("Content-Type", "application/json")];
    request("POST", path, &json, body.to_string().as_bytes())
}

/// Starts Rosemary with the services that know the network, and a switch.
fn start(lab: &Lab) -> anyhow::Result<Rosemary<'_>> {
    let apps = ["topology", "hosts", "stats"].map(|name| format!("[[app]]\nname = \"{name}\"\n"));
    configure(&[&in_rust("observer", "stage = \"observe\""), &apps[0], &apps[1], &apps[2]])?;
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
    let switch = lab.switch("s1", Of::V1_3)?;
    rosemary.wait_for_switch(&switch)?;
    wait_for_api()?;
    Ok(rosemary)
}

#[test]
fn network_and_programs_are_shown() {
    in_a_lab(|lab| {
        let rosemary = start(lab)?;
        let switches = get_json("/api/v1/switches")?;
        ensure!(switches["total"] == 1, "{switches}");
        let dpid = switches["items"][0]["dpid"].as_str().context("a datapath id")?.to_owned();
        let report = serde_json::to_value(rosemary.status()?.context("it answers")?)?;
        ensure!(report["switches"][0]["dpid"] == dpid.as_str(), "{report}");
        let full = get_json(&format!("/api/v1/switches/{dpid}"))?;
        ensure!(full["description"]["manufacturer"] == "Nicira, Inc.", "{full}");
        let flows = get_json(&format!("/api/v1/switches/{dpid}/flows?owner=kernel"))?;
        ensure!(flows["total"].as_u64() >= Some(1), "{flows}");
        for path in ["ports", "tables"] {
            let list = get_json(&format!("/api/v1/switches/{dpid}/{path}"))?;
            ensure!(list["total"].as_u64() >= Some(1), "{list}");
        }
        let deadline = Instant::now() + SOON;
        while get_json("/api/v1/topology")?["switches"][0]["dpid"] != dpid.as_str() {
            ensure!(Instant::now() < deadline, "the topology lacks the switch");
            std::thread::sleep(Duration::from_millis(100));
        }
        let paths = get_json(&format!("/api/v1/paths?from={dpid}&to={dpid}"))?;
        ensure!(paths["items"][0]["cost"] == 0, "{paths}");
        let trace =
            format!("/api/v1/trace?dpid={dpid}&packet=in_port%3D1,dl_src%3D02:00:00:00:00:01");
        ensure!(get_json(&trace)?["hops"][0]["switch"] == dpid.as_str(), "{trace}");
        let local = get_json(&format!("/api/v1/trace?dpid={dpid}&packet=icmp&in_port=local"))?;
        ensure!(local["hops"][0]["in_port"] == 0xffff_fffe_u32, "{local}");
        for path in
            ["hosts", "links", "stats", "apps", "incidents", "usage", "logs", "status", "config"]
        {
            get_json(&format!("/api/v1/{path}"))?;
        }
        ensure!(get("/api/v1/switches/2")?.status == 404);
        ensure!(get("/api/v1/switches/x")?.status == 400);
        ensure!(get("/readyz")?.json()["ready"] == true);
        Ok(())
    });
}

#[test]
fn lists_have_pages_and_answers_have_tags() {
    in_a_lab(|lab| {
        let _rosemary = start(lab)?;
        let first = get_json("/api/v1/apps?limit=1")?;
        ensure!(
            first["items"].as_array().map(Vec::len) == Some(1) && first["next"] == 1,
            "{first}"
        );
        let second = get_json("/api/v1/apps?limit=1&after=1")?;
        ensure!(first["items"] != second["items"], "{second}");
        let answer = get("/api/v1/openapi.json")?;
        let tag = answer.header("etag").context("a tag")?;
        let again = request("GET", "/api/v1/openapi.json", &[("If-None-Match", tag)], b"")?;
        ensure!(again.status == 304 && again.body.is_empty(), "{again:?}");
        for query in ["limit=0", "limit=x", "limit=1&limit=2", "limitt=1", "after=-1", "limit=%zz"]
        {
            let answer = get(&format!("/api/v1/apps?{query}"))?;
            ensure!(answer.status == 400, "{query}: {answer:?}");
            ensure!(
                answer.header("content-type") == Some("application/problem+json"),
                "{answer:?}"
            );
            ensure!(answer.json()["hint"].as_str().is_some_and(|it| !it.is_empty()), "{answer:?}");
        }
        Ok(())
    });
}

#[test]
fn taken_default_port_is_a_warning_and_taken_chosen_one_an_error() {
    in_a_lab(|lab| {
        let _taken = std::net::TcpListener::bind(rosemary_tests::http::API)?;
        configure(&[&in_rust("observer", "stage = \"observe\"")])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_log(&["the HTTP interface", "--api"], SOON)?;
        rosemary.stop(rustix::process::Signal::TERM)?;
        let mut up = lab.command(rosemary_binary());
        let output =
            up.args(["up", "--allow-unsigned", "--api", rosemary_tests::http::API]).output()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!output.status.success() && text.contains("--api"), "{text}");
        let mut up = lab.command(rosemary_binary());
        let output = up.args(["up", "--allow-unsigned", "--api", "0.0.0.0:8181"]).output()?;
        ensure!(output.status.code() == Some(78), "{output:?}");
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &["--no-northbound"])?;
        let status = rosemary.status()?.context("it answers")?;
        ensure!(status.programs.services.iter().all(|it| it.name != "northbound"));
        rosemary.must_run()?;
        Ok(())
    });
}

#[test]
fn unknown_body_members_are_refused() {
    in_a_lab(|lab| {
        let _rosemary = start(lab)?;
        let answer = post("/api/v1/apps/observer/restart", &json!({ "sure": true }))?;
        ensure!(answer.status == 400, "{answer:?}");
        let form = [("Content-Type", "application/x-www-form-urlencoded")];
        let answer = request("POST", "/api/v1/apps/observer/restart", &form, b"confirmed=true")?;
        ensure!(answer.status == 415, "{answer:?}");
        Ok(())
    });
}
