//! Changes over the interface: apps, configuration, and what it never changes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rosemary_tests::http::{API, connect, request};
use rosemary_tests::{in_a_lab, kill, rosemary_binary};
use serde_json::json;

use super::{SOON, get, get_json, post, start};

const CONFIG: &str = "/etc/rosemary/rosemary.toml";

#[test]
fn app_is_stopped_and_started_and_events_say_so() {
    in_a_lab(|lab| {
        let rosemary = start(lab)?;
        let mut events = connect()?;
        write!(events, "GET /api/v1/events?kinds=app HTTP/1.1\r\nHost: {API}\r\n\r\n")?;
        let mut lines = BufReader::new(events).lines();
        let mut wait_for = |what: &str| -> anyhow::Result<String> {
            loop {
                let line = lines.next().context("the stream ended")??;
                if line.contains(what) {
                    return Ok(line);
                }
            }
        };
        wait_for("event: hello")?;
        let mut command = lab.command(rosemary_binary());
        command.args(["events", "--kinds=app,switch"]);
        let follower = lab.start("rosemary events", command)?;
        std::thread::sleep(Duration::from_millis(700));
        let stopped = post("/api/v1/apps/observer/stop", &json!({}))?;
        ensure!(stopped.status == 200, "{stopped:?}");
        ensure!(get_json("/api/v1/apps/observer")?["state"] == "stopped");
        let event = wait_for("\"observer\"")?;
        ensure!(event.contains("stopped"), "{event}");
        ensure!(post("/api/v1/apps/observer/start", &json!({}))?.status == 200);
        ensure!(get_json("/api/v1/apps/observer")?["state"] == "running");
        ensure!(post("/api/v1/apps/no-such/start", &json!({}))?.status == 404);
        lab.wait_for("the command shows both events", SOON, |evidence| {
            evidence.0 = format!("{}\n{}", follower.stdout(), follower.stderr());
            let shows = |fact: &str| follower.stdout().contains(fact);
            let both = shows("app observer is stopped") && shows("app observer is running");
            Ok(both.then_some(()))
        })?;
        let northbound = rosemary.status()?.context("it answers")?;
        let northbound = northbound.programs.services.iter().find(|it| it.name == "northbound");
        kill(northbound.and_then(|it| it.pid).context("it runs")?)?;
        lab.wait_for("the command resumes after the end of the interface", SOON, |evidence| {
            evidence.0 = format!("{}\n{}", follower.stdout(), follower.stderr());
            Ok(follower.stderr().contains("the HTTP interface has restarted").then_some(()))
        })?;
        Ok(())
    });
}

#[test]
fn history_has_no_secrets_and_reserved_keys_do_not_return() {
    in_a_lab(|lab| {
        let _rosemary = start(lab)?;
        let before = std::fs::read_to_string(CONFIG)?;
        let at = before.find("\n[[app]]\nname = \"topology\"").context("the second app")?;
        let (first, others) = before.split_at(at);
        let secret = "hunter2-is-secret";
        let env = format!("\nenv = {{ APP_PASSWORD = \"{secret}\" }}");
        std::fs::write(CONFIG, format!("{first}{env}{others}"))?;
        let refused = post("/api/v1/reload?confirm_within=600", &json!({}))?;
        ensure!(refused.status == 409, "it would take a reserved key back: {refused:?}");
        ensure!(post("/api/v1/reload", &json!({}))?.status == 200);
        for path in ["/api/v1/config/changes", "/api/v1/config/changes/2"] {
            let shown = get_json(path)?.to_string();
            ensure!(shown.contains("env.APP_PASSWORD none -> (redacted)"), "{shown}");
            ensure!(!shown.contains(secret), "{shown}");
        }
        let refused = post("/api/v1/config/changes/2/undo?force=true", &json!({}))?;
        ensure!(refused.status == 409, "{refused:?}");
        ensure!(refused.json().to_string().contains("app.observer.env"), "{refused:?}");

        std::fs::write(CONFIG, format!("{first}{env}\nlog-level = \"debug\"{others}"))?;
        let waits = post("/api/v1/reload?confirm_within=600", &json!({}))?;
        ensure!(waits.status == 200, "{waits:?}");
        ensure!(get_json("/api/v1/status")?["unconfirmed"]["id"] == 3);
        ensure!(post("/api/v1/reload", &json!({}))?.status == 409, "one waits");
        ensure!(request("POST", "/api/v1/config/confirm", &[], b"")?.status == 200);
        ensure!(get_json("/api/v1/config/changes/3")?["outcome"] == "confirmed");
        let undone = post("/api/v1/config/changes/3/undo", &json!({}))?;
        ensure!(undone.status == 200, "{undone:?}");
        let text = std::fs::read_to_string(CONFIG)?;
        assert_eq!(text, format!("{first}{env}{others}"));
        Ok(())
    });
}

#[test]
fn configuration_is_applied_and_stored_and_reserved_keys_are_not() {
    in_a_lab(|lab| {
        let _rosemary = start(lab)?;
        let toml = [("Content-Type", "application/toml")];
        let before = std::fs::read_to_string(CONFIG)?;
        let answer = get("/api/v1/config")?;
        let tag = answer.header("etag").context("a tag")?.to_owned();
        let shown = answer.json()["toml"].as_str().context("a text")?.to_owned();
        ensure!(shown == before, "there is no secret in it: {shown}");

        for (more, key) in [
            ("[[app]]\nname = \"evil\"\nobject = \"/tmp/evil.so\"\n", "app.evil.object"),
            ("[northbound]\nloopback = \"none\"\n", "northbound"),
            (
                "[[trust]]\nname = \"me\"\nkey = \"RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\"\n",
                "trust",
            ),
            (
                "[[app]]\nname = \"learning-switch\"\nhost = \"kernel\"\n",
                "app.learning-switch.host",
            ),
            (
                "[[app]]\nname = \"learning-switch\"\ncapabilities = [\"fs.read:/etc/shadow\"]\n",
                "app.learning-switch.capabilities",
            ),
        ] {
            let text = format!("{shown}\n{more}");
            let checked = request("POST", "/api/v1/config/validate", &toml, text.as_bytes())?;
            ensure!(checked.status == 200 && checked.json()["valid"] == false, "{checked:?}");
            ensure!(checked.json()["reserved"].to_string().contains(key), "{key}: {checked:?}");
            let headers = [toml[0], ("If-Match", tag.as_str())];
            let applied = request("PUT", "/api/v1/config", &headers, text.as_bytes())?;
            ensure!(applied.status == 409, "{key}: {applied:?}");
            ensure!(std::fs::read_to_string(CONFIG)? == before, "{key}");
        }

        let text = "[controller]\nworkers = \"two\"\nlistn = 1\n[zones]\nrequire = \"some\"\n";
        let checked = request("POST", "/api/v1/config/validate", &toml, text.as_bytes())?;
        let body = checked.json();
        let mistakes = body["mistakes"].as_array().context("a list")?;
        let places = mistakes.iter().map(|mistake| mistake["what"].to_string());
        ensure!(places.clone().count() == 3 && body["valid"] == false, "{checked:?}");
        for (line, mistake) in [2, 3, 5].iter().zip(places) {
            ensure!(mistake.contains(&format!("{CONFIG}:{line}:")), "{mistake}");
        }
        let planned = request("POST", "/api/v1/config/plan", &toml, text.as_bytes())?;
        let detail = planned.json()["detail"].to_string();
        let has_all = [2, 3, 5].iter().all(|line| detail.contains(&format!("{CONFIG}:{line}:")));
        ensure!(planned.status == 409 && has_all, "{planned:?}");

        let text = format!("# mine\n{shown}\n[[app]]\nname = \"learning-switch\"\n");
        let planned = request("POST", "/api/v1/config/plan", &toml, text.as_bytes())?;
        ensure!(
            planned.status == 200 && planned.json()["state"]["state"] == "planned",
            "{planned:?}"
        );
        ensure!(std::fs::read_to_string(CONFIG)? == before);
        ensure!(request("PUT", "/api/v1/config", &toml, text.as_bytes())?.status == 428);
        let headers = [toml[0], ("If-Match", tag.as_str())];
        let applied = request("PUT", "/api/v1/config", &headers, text.as_bytes())?;
        ensure!(applied.status == 200, "{applied:?}");
        ensure!(std::fs::read_to_string(CONFIG)? == text);
        ensure!(get_json("/api/v1/apps/learning-switch")?["state"] == "running");
        let late = request("PUT", "/api/v1/config", &headers, text.as_bytes())?;
        ensure!(late.status == 412, "{late:?}");
        Ok(())
    });
}
