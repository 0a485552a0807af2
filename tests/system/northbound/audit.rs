//! Audit records: changes over the API and by commands say who did what, and the state before and after.

use anyhow::{Context as _, ensure};
use cli::lab::Lab;
use rosemary_tests::developer::{CONFIG, audit_records, must_be_audited, rosemary};
use rosemary_tests::http::request;
use rosemary_tests::in_a_lab;
use serde_json::{Value, json};

use super::{get_json, start};

/// Sends a change with a token; null is no body. Returns the status.
fn send(token: &str, method: &str, path: &str, body: &Value) -> anyhow::Result<u16> {
    let bearer = format!("Bearer {token}");
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/json")];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    Ok(request(method, path, &headers, body.as_bytes())?.status)
}

fn token(lab: &Lab, name: &str, role: &str) -> anyhow::Result<String> {
    let made = rosemary(lab, &["token", "create", "--role", role, "--name", name])?;
    Ok(made.trim().to_owned())
}

#[test]
fn changes_of_apps_and_tokens_have_the_state_before_and_after() {
    in_a_lab(|lab| {
        let _rosemary = start(lab)?;
        let ci = token(lab, "ci", "admin")?;
        ensure!(send(&ci, "POST", "/api/v1/apps/observer/stop", &json!({}))? == 200);
        rosemary(lab, &["app", "start", "observer"])?;
        ensure!(send(&ci, "POST", "/api/v1/apps/observer/disable", &json!({}))? == 200);
        rosemary(lab, &["app", "enable", "observer"])?;
        rosemary(lab, &["app", "restart", "observer"])?;
        let id =
            get_json("/api/v1/tokens")?["items"][0]["id"].as_str().context("an id")?.to_owned();
        ensure!(send(&ci, "DELETE", &format!("/api/v1/tokens/{id}"), &Value::Null)? == 204);
        ensure!(send(&ci, "POST", "/api/v1/apps/observer/stop", &json!({}))? == 401);
        let ci = format!("token ci ({id})");
        must_be_audited(
            lab,
            &[
                &format!("user 0 made the token \"ci\" ({id}): none -> role admin, without an end"),
                &format!("{ci} requested: stop observer (change 1)"),
                &format!(
                    "{ci}: stop observer (change 1) is done: app observer: state running -> stopped"
                ),
                "user 0: start observer (change 2) is done: app observer: restarts 0 -> 1, state stopped -> running",
                &format!(
                    "{ci}: disable observer (change 3) is done: app observer: enabled as configured -> no, by an operator, \
                          state running -> does not run, version ... -> none"
                ),
                "user 0: enable observer (change 4) is done: app observer: enabled no, by an operator -> by an operator, \
                 state does not run -> running, version none -> ...",
                "user 0: restart observer (change 5) is done: app observer: restarts 0 -> 1",
                &format!(
                    "{ci} revoked the token \"ci\" ({id}): role admin, without an end -> none"
                ),
            ],
        )
    });
}

#[test]
fn configuration_has_the_changed_keys_without_secrets() {
    in_a_lab(|lab| {
        let _rosemary = start(lab)?;
        let text = std::fs::read_to_string(CONFIG)?;
        let at = text.find("\n[[app]]\nname = \"topology\"").context("the second app")?;
        let (first, others) = text.split_at(at);
        let secret = "hunter2-is-secret";
        let env = format!("\nenv = {{ APP_PASSWORD = \"{secret}\" }}");
        std::fs::write(CONFIG, format!("{first}{env}{others}"))?;
        rosemary(lab, &["reload"])?;
        let shown = get_json("/api/v1/config")?;
        let tag = format!("\"{}\"", shown["sha256"].as_str().context("a hash")?);
        let text = shown["toml"].as_str().context("a text")?;
        let new = format!(
            "{text}\n[[app]]\nname = \"learning-switch\"\nenabled = false\n\n[[app]]\nname = \"firewall\"\nenabled = false\n"
        );
        let headers = [("Content-Type", "application/toml"), ("If-Match", tag.as_str())];
        let answer = request("PUT", "/api/v1/config", &headers, new.as_bytes())?;
        ensure!(answer.status == 200, "{answer:?}");
        must_be_audited(
            lab,
            &[
                "user 0: reload (change 1) is done: ...app.observer.env.APP_PASSWORD none -> (redacted)",
                "user 0: apply another configuration (change 2) is done: app.firewall.enabled none -> false; app.firewall.name none -> \
                 \"firewall\"; app.learning-switch.enabled none -> false; app.learning-switch.name none -> \"learning-switch\"",
            ],
        )?;
        let log = rosemary(lab, &["logs", "audit"])?;
        ensure!(!log.contains(secret), "{log}");
        Ok(())
    });
}

#[test]
fn flows_of_operators_have_the_entries_before_and_after() {
    in_a_lab(|lab| {
        let _rosemary = start(lab)?;
        let name = "x\") requested: forged";
        let ops = token(lab, name, "operator")?;
        let flow = |port: u32| json!({"match": {"in_port": 1}, "priority": 49600, "actions": [{"type": "OUTPUT", "port": port}]});
        let flows = "/api/v1/switches/1/flows";
        ensure!(send(&ops, "POST", flows, &flow(2))? == 200);
        ensure!(send(&ops, "POST", flows, &flow(3))? == 200);
        let group = json!({"group_id": 5, "type": "ALL", "buckets": [{"actions": [{"type": "OUTPUT", "port": 1}]}]});
        ensure!(send(&ops, "POST", "/api/v1/switches/1/groups", &group)? == 200);
        for port in 10..14 {
            let match_ = format!("in_port={port}");
            rosemary(lab, &["flows", "add", "1", "--match", &match_, "--priority", "49601"])?;
        }
        rosemary(lab, &["flows", "add", "1", "--match", "in_port=9", "--hard-timeout", "60"])?;
        rosemary(lab, &["flows", "delete", "1"])?;
        let id =
            get_json("/api/v1/tokens")?["items"][0]["id"].as_str().context("an id")?.to_owned();
        let ops = format!("token {name:?} ({id})");
        let dpid = "00:00:00:00:00:00:00:01";
        let one = "priority=49600,in_port=1 actions=output:2";
        let two = "priority=49600,in_port=1 actions=output:3";
        must_be_audited(
            lab,
            &[
                &format!("{ops} requested: enable operator (change 1)"),
                &format!("{ops}: add a flow to {dpid}: none -> {one}"),
                &format!("{ops}: add a flow to {dpid}: {one} -> {two}"),
                &format!("{ops}: add group 5 of {dpid}: none -> group_id=...output:1..."),
                &format!(
                    "user 0: add a flow to {dpid}: unknown -> ...in_port=9 hard:60 actions=drop"
                ),
                &format!(
                    "user 0: delete flows of {dpid}: priority=... | priority=... | 3 more -> none"
                ),
            ],
        )?;
        // No record has the name of the token where a user's name stands.
        let records = audit_records(lab);
        ensure!(
            records.iter().all(|it| it.starts_with("user 0") || it.starts_with(&ops)),
            "{records:#?}"
        );
        Ok(())
    });
}
