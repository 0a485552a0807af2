//! Every route with every role, from the API's own description.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, ensure};
use rosemary_tests::developer::must_have_audited;
use rosemary_tests::http::request;
use rosemary_tests::{in_a_lab_for, rosemary_binary};
use serde_json::Value;

use super::{get, get_json, post, start};

const ROLES: [&str; 3] = ["viewer", "operator", "admin"];

/// Replaces the parameters in a path by values that name nothing.
fn concrete(path: &str) -> String {
    path.replace("{dpid}", "00:00:00:00:00:00:99:99")
        .replace("{name}", "no-such-thing")
        .replace("{id}", "999999")
        .replace("{port}", "77")
}

/// Method, path, role and description of an operation.
type Operation = (String, String, Option<String>, Value);

/// The operations of the description, with the roles that they need.
fn operations(description: &Value) -> anyhow::Result<Vec<Operation>> {
    let mut all = Vec::new();
    for (path, item) in description["paths"].as_object().context("paths")? {
        for (method, operation) in item.as_object().context("operations")? {
            let role = operation["x-role"].as_str().map(str::to_owned);
            all.push((method.to_uppercase(), path.clone(), role, operation.clone()));
        }
    }
    Ok(all)
}

fn token(role: &str) -> anyhow::Result<String> {
    let args = ["token", "create", "--role", role, "--expires", "1h", "--name", role];
    let output = std::process::Command::new(rosemary_binary()).args(args).output()?;
    ensure!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout)?;
    ensure!(text.lines().count() == 1, "the token alone is printed: {text:?}");
    Ok(text.trim().to_owned())
}

/// Sends a request that names nothing, and returns its status.
fn status(method: &str, path: &str, token: Option<&str>) -> anyhow::Result<u16> {
    let bearer = token.map(|it| format!("Bearer {it}"));
    let mut headers: Vec<(&str, &str)> = vec![("Content-Type", "application/json")];
    headers.extend(bearer.as_deref().map(|it| ("Authorization", it)));
    // The stream of events never ends; its first bytes have the status.
    let path =
        if path == "/api/v1/events" { "/api/v1/events?kinds=x".into() } else { concrete(path) };
    Ok(request(method, &path, &headers, b"")?.status)
}

#[test]
fn every_route_admits_exactly_its_roles() {
    in_a_lab_for(std::time::Duration::from_secs(300), |lab| {
        let _rosemary = start(lab)?;
        let description = get_json("/api/v1/openapi.json")?;
        let operations = operations(&description)?;
        ensure!(operations.len() > 40, "{}", operations.len());
        let tokens: BTreeMap<&str, String> =
            ROLES.into_iter().map(|it| Ok((it, token(it)?))).collect::<anyhow::Result<_>>()?;
        for (method, path, needed, operation) in &operations {
            for (rank, role) in ROLES.iter().enumerate() {
                // These would change what the other requests need.
                if *role == "admin"
                    && ["/api/v1/reload", "/api/v1/safe-mode"].contains(&path.as_str())
                    && method != "GET"
                {
                    continue;
                }
                let status = status(method, path, Some(&tokens[role]))?;
                let least = needed
                    .as_deref()
                    .map_or(0, |needed| ROLES.iter().position(|it| *it == needed).unwrap_or(9));
                let is_refused = status == 403;
                ensure!(
                    is_refused == (rank < least),
                    "{method} {path} as {role}: {status}, needs {needed:?}"
                );
                let known = &operation["responses"][status.to_string()];
                ensure!(
                    !known.is_null(),
                    "{method} {path} answered {status}, which is not described"
                );
                ensure!(status < 500 || status == 503, "{method} {path} as {role}: {status}");
            }
            let forged = status(method, path, Some("rsm1_0123456789abcdef"));
            ensure!(forged? == 401, "{method} {path} with a forged token");
        }
        for path in ["/api/v1/nothing", "/api/v1/apps/x/y/z", "/nothing"] {
            let forged = status("GET", path, Some("x"))?;
            ensure!(forged == 401, "{path}: 401 comes before 404, not {forged}");
            ensure!(status("GET", path, Some(&tokens["viewer"]))? == 404, "{path}");
        }
        Ok(())
    });
}

#[test]
fn tokens_are_hashed_listed_and_revoked_at_once() {
    in_a_lab_for(std::time::Duration::from_secs(120), |lab| {
        let _rosemary = start(lab)?;
        let secret = token("operator")?;
        ensure!(status("GET", "/api/v1/apps", Some(&secret))? == 200);
        let stored = std::fs::read_to_string("/var/lib/rosemary/tokens.json")?;
        ensure!(!stored.contains(&secret[5..]) && stored.contains("operator"), "{stored}");
        let list = get_json("/api/v1/tokens")?;
        ensure!(list["total"] == 1 && !list.to_string().contains(&secret[5..]), "{list}");
        let revoke =
            lab.run(&rosemary_binary().display().to_string(), &["token", "revoke", "operator"]);
        revoke?;
        ensure!(status("GET", "/api/v1/apps", Some(&secret))? == 401);
        let expected = [
            "user 0 made the token \"operator\" (...): none -> role operator, valid for 3600 s",
            "user 0 revoked the token \"operator\" (...): role operator, valid for 3600 s -> none",
        ];
        must_have_audited(lab, &expected)?;
        // No request is admitted by a token once `token revoke` has returned, whatever the processes do meanwhile.
        for _ in 0..15 {
            let secret = token("viewer")?;
            ensure!(status("GET", "/api/v1/apps", Some(&secret))? == 200);
            lab.run(&rosemary_binary().display().to_string(), &["token", "revoke", "viewer"])?;
            ensure!(status("GET", "/api/v1/apps", Some(&secret))? == 401);
        }
        Ok(())
    });
}

#[test]
fn page_exchanges_its_token_once() {
    in_a_lab_for(std::time::Duration::from_secs(120), |lab| {
        let _rosemary = start(lab)?;
        let address =
            lab.run(&rosemary_binary().display().to_string(), &["ui", "--role", "viewer"])?;
        let (_, secret) = address.trim().split_once("#login=").context("a token")?;
        ensure!(status("GET", "/api/v1/apps", Some(secret))? == 401, "it is no bearer token");
        let login = serde_json::json!({ "one_time_token": secret });
        let session = post("/api/v1/session", &login)?;
        ensure!(session.status == 201, "{session:?}");
        let session = session.json()["token"].as_str().context("a session")?.to_owned();
        ensure!(post("/api/v1/session", &login)?.status == 401, "used twice");
        ensure!(status("GET", "/api/v1/apps", Some(&session))? == 200);
        ensure!(status("POST", "/api/v1/reload", Some(&session))? == 403);
        ensure!(status("GET", "/api/v1/apps", Some(&session.replace("viewer", "admin")))? == 401);
        ensure!(status("DELETE", "/api/v1/session", Some(&session))? == 204);
        ensure!(status("GET", "/api/v1/apps", Some(&session))? == 401, "ended");
        Ok(())
    });
}

/// Sends requests that stop an app, each with the end of its connection in the same segment.
const CLOSES_AT_ONCE: &str = "
import socket, time
request = b'POST /api/v1/apps/observer/stop HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: 0\\r\\n\\r\\n'
for _ in range(50):
    client = socket.create_connection(('127.0.0.1', 8181))
    client.send(request, socket.MSG_MORE)
    client.close()
time.sleep(1)
";

#[test]
fn other_local_users_only_read() {
    in_a_lab_for(std::time::Duration::from_secs(120), |lab| {
        let _rosemary = start(lab)?;
        let curl = |user: &str, method: &str, path: &str| {
            let url = format!("http://127.0.0.1:8181{path}");
            let args = [
                "--reuid",
                user,
                "--clear-groups",
                "--",
                "curl",
                "-s",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                "-X",
                method,
                &url,
            ];
            lab.run("setpriv", &args)
        };
        ensure!(curl("65534", "GET", "/api/v1/apps")? == "200");
        ensure!(curl("65534", "POST", "/api/v1/apps/observer/restart")? == "403");
        ensure!(curl("65534", "POST", "/api/v1/apps/nothing/restart")? == "403", "before 404");
        ensure!(curl("0", "POST", "/api/v1/apps/observer/restart")? == "200");
        ensure!(curl("1879048193", "GET", "/api/v1/apps")? == "401", "an app's user");
        // A request whose sender has closed the socket has no user, and is not one of root.
        let args =
            ["--reuid", "65534", "--clear-groups", "--", "/usr/bin/python3", "-c", CLOSES_AT_ONCE];
        lab.run("setpriv", &args)?;
        ensure!(get("/api/v1/apps/observer")?.json()["state"] == "running");
        ensure!(Path::new("/run/rosemary/api.sock").exists());
        let socket =
            ["-s", "--unix-socket", "/run/rosemary/api.sock", "http://localhost/api/v1/session"];
        let own = lab.run("curl", &socket)?;
        ensure!(own.contains("\"role\":\"admin\"") && own.contains("unix"), "{own}");
        Ok(())
    });
}
