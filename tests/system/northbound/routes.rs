//! Routes that change something or keep a connection: groups, meters, drains, reloads, log levels, packages, events, and the
//! topology as Ryu shows it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use rosemary_tests::apps::{configure, in_rust};
use rosemary_tests::developer::{CONFIG, Developer, Quality, must_have_audited, rosemary, trust};
use rosemary_tests::http::{API, Answer, connect, request};
use rosemary_tests::net::{INTERVAL, SOON};
use rosemary_tests::{in_a_lab, rosemary_binary};
use serde_json::{Value, json};

use super::{get, get_json, post, start, wait_for_api};

const LATER: Duration = Duration::from_secs(30);

fn send(method: &str, path: &str, body: &Value) -> anyhow::Result<Answer> {
    let json = [("Content-Type", "application/json")];
    request(method, path, &json, body.to_string().as_bytes())
}

/// Sends a change until the answer is 200, as an app that just started may not be ready.
fn eventually(lab: &Lab, method: &str, path: &str, body: &Value) -> anyhow::Result<Answer> {
    Ok(lab.wait_for(format!("{method} {path}"), LATER, |evidence| {
        let answer = send(method, path, body);
        evidence.0 = format!("{answer:?}");
        Ok(answer.ok().filter(|answer| answer.status == 200))
    })?)
}

#[test]
fn groups_and_meters_are_listed_with_their_owner() {
    in_a_lab(|lab| {
        let _rosemary = start(lab)?;
        let (groups, meters) = ("/api/v1/switches/1/groups", "/api/v1/switches/1/meters");
        ensure!(get_json(groups)?["total"] == 0 && get_json(meters)?["total"] == 0);
        let bucket = |port: u32| json!([{"actions": [{"type": "OUTPUT", "port": port}]}]);
        let group = |port| json!({"group_id": 5, "type": "ALL", "buckets": bucket(port)});
        eventually(lab, "POST", groups, &group(1))?;
        let again = send("POST", groups, &group(2))?;
        ensure!(again.status == 409, "it exists: {again:?}");
        let list = get_json(groups)?;
        let first = &list["items"][0];
        ensure!(
            list["total"] == 1 && first["owner"] == "operator" && first["own_id"] == 5,
            "{list}"
        );
        let number = first["group_id"].as_u64().context("a number")?;
        ensure!(number & 0xffff == 5 && number > 0xffff, "in the range of its owner: {list}");
        ensure!(first["type"] == "all", "{list}");
        ensure!(first["buckets"][0].as_str().is_some_and(|it| it.contains("output:1")), "{list}");
        let shown = lab.run("ovs-ofctl", &["-O", "OpenFlow13", "dump-groups", "s1"])?;
        ensure!(shown.contains(&format!("group_id={number},")), "{shown}");
        ensure!(send("POST", &format!("{groups}?modify=true"), &group(2))?.status == 200);
        let list = get_json(&format!("{groups}?owner=operator"))?;
        ensure!(list["items"][0]["buckets"][0].to_string().contains("output:2"), "{list}");
        ensure!(get_json(&format!("{groups}?owner=other"))?["total"] == 0);

        let meter = |rate: u32| json!({"meter_id": 3, "flags": "KBPS", "bands": [{"type": "DROP", "rate": rate}]});
        ensure!(send("POST", meters, &meter(1000))?.status == 200);
        ensure!(send("POST", &format!("{meters}?modify=true"), &meter(2000))?.status == 200);
        let list = get_json(meters)?;
        let first = &list["items"][0];
        ensure!(
            list["total"] == 1 && first["owner"] == "operator" && first["own_id"] == 3,
            "{list}"
        );
        ensure!(first["flags"].to_string().contains("kbps"), "{list}");
        ensure!(first["bands"][0].as_str().is_some_and(|it| it.contains("rate=2000")), "{list}");

        // Entries that nobody here made.
        let group = "group_id=7,type=select,bucket=output:1";
        lab.run("ovs-ofctl", &["-O", "OpenFlow13", "add-group", "s1", group])?;
        let list = get_json(&format!("{groups}?owner=other"))?;
        ensure!(list["total"] == 1 && list["items"][0]["group_id"] == 7, "{list}");

        ensure!(send("DELETE", groups, &json!({"group_id": 5}))?.status == 200);
        ensure!(send("DELETE", meters, &json!({"meter_id": 3}))?.status == 200);
        ensure!(get_json(&format!("{groups}?owner=operator"))?["total"] == 0);
        ensure!(get_json(meters)?["total"] == 0);
        ensure!(get("/api/v1/switches/77/groups")?.status == 404);
        ensure!(get("/api/v1/switches/77/meters")?.status == 404);
        let wrong = send("POST", groups, &json!({"group_id": 1, "type": "SOME"}))?;
        ensure!(wrong.status == 400, "{wrong:?}");
        Ok(())
    });
}

#[test]
fn groups_of_openflow_1_0_do_not_exist() {
    in_a_lab(|lab| {
        configure(&[&in_rust("observer", "stage = \"observe\"")])?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary.wait_for_switch(&lab.switch("s1", Of::V1_0)?)?;
        wait_for_api()?;
        for what in ["groups", "meters"] {
            let answer = get(&format!("/api/v1/switches/1/{what}"))?;
            let text = answer.json()["detail"].to_string();
            ensure!(answer.status == 409 && text.contains("OpenFlow 1.0"), "{answer:?}");
        }
        Ok(())
    });
}

#[test]
fn switch_is_drained_and_undrained() {
    in_a_lab(|lab| {
        let _rosemary = start(lab)?;
        let drained = || -> anyhow::Result<bool> {
            let switches = &get_json("/api/v1/topology")?["switches"];
            Ok(switches[0]["drained"] == true)
        };
        lab.wait_for("the topology has the switch", LATER, |_| {
            let topology = get_json("/api/v1/topology").unwrap_or_default();
            Ok(topology["switches"][0].is_object().then_some(()))
        })?;
        ensure!(!drained()?);
        for (verb, on) in [("drain", true), ("drain", true), ("undrain", false)] {
            let answer = send("POST", &format!("/api/v1/switches/1/{verb}"), &Value::Null);
            ensure!(answer?.status == 400, "it has no body");
            let answer = request("POST", &format!("/api/v1/switches/1/{verb}"), &[], b"")?;
            ensure!(answer.status == 200, "{answer:?}");
            let json = answer.json();
            ensure!(json["drained"] == on && json["connected"] == true, "{json}");
            // No link leads to it, so nobody else's packets pass.
            ensure!(json["empty"] == if on { json!(true) } else { json!(null) }, "{json}");
            let remaining = json["remaining"].as_array().context("a list")?;
            ensure!(on || remaining.is_empty(), "{json}");
            lab.wait_for("the topology says so", SOON, |_| {
                Ok((drained().ok() == Some(on)).then_some(()))
            })?;
        }
        let absent = request("POST", "/api/v1/switches/153/drain", &[], b"")?.json();
        ensure!(absent["connected"] == false && absent["remaining"] == json!([]), "{absent}");
        ensure!(absent["empty"] == json!(null), "{absent}");
        request("POST", "/api/v1/switches/153/undrain", &[], b"")?;
        // The drain is requested until the app is ready.
        lab.wait_for("the audit records say so", SOON, |evidence| {
            evidence.0 = rosemary(lab, &["logs", "audit"]).unwrap_or_default();
            let dpid = "00:00:00:00:00:00:00:01";
            let has = |what: &str| evidence.0.contains(&format!("user 0: {what}"));
            let drained = has(&format!("drain {dpid}: not drained -> drained"));
            Ok((drained && has(&format!("undrain {dpid}: drained -> not drained"))).then_some(()))
        })?;
        Ok(())
    });
}

#[test]
fn configuration_file_is_reloaded() {
    in_a_lab(|lab| {
        let _rosemary = start(lab)?;
        let before = std::fs::read_to_string(CONFIG)?;
        std::fs::write(CONFIG, format!("{before}\n[[app]]\nname = \"learning-switch\"\n"))?;
        let none = json!({});
        let planned = send("POST", "/api/v1/reload?dry_run=true", &none)?;
        ensure!(planned.status == 200, "{planned:?}");
        let plan = planned.json();
        ensure!(plan["state"]["state"] == "planned", "{plan}");
        ensure!(plan.to_string().contains("learning-switch"), "{plan}");
        ensure!(get("/api/v1/apps/learning-switch")?.status == 404, "nothing was changed");
        let done = send("POST", "/api/v1/reload", &none)?;
        ensure!(done.status == 200, "{done:?}");
        ensure!(get_json("/api/v1/apps/learning-switch")?["state"] == "running");
        let id = done.json()["id"].as_u64().context("a number")?;
        ensure!(get_json(&format!("/api/v1/changes/{id}"))?["id"] == id);

        std::fs::write(CONFIG, format!("{before}\nnonsense"))?;
        let wrong = send("POST", "/api/v1/reload", &none)?;
        ensure!(wrong.status == 409, "{wrong:?}");
        ensure!(get_json("/api/v1/apps/learning-switch")?["state"] == "running");
        Ok(())
    });
}

#[test]
fn log_level_changes_while_the_app_runs() {
    in_a_lab(|lab| {
        let _rosemary = start(lab)?;
        let path = "/api/v1/apps/observer/log-level";
        let pid = get_json("/api/v1/apps/observer")?["pid"].clone();
        for level in [json!("debug"), json!("error"), Value::Null] {
            let answer = send("PUT", path, &json!({ "level": level }))?;
            ensure!(answer.status == 200, "{level}: {answer:?}");
            let app = get_json("/api/v1/apps/observer")?;
            ensure!(app["pid"] == pid, "it was not restarted: {app}");
            let expected = if level.is_null() { json!("info") } else { level };
            ensure!(app["log_level"] == expected, "{app}");
        }
        for wrong in [json!({"level": "loud"}), json!({"level": 1}), json!({"levels": "info"})] {
            ensure!(send("PUT", path, &wrong)?.status == 400, "{wrong}");
        }
        let missing = send("PUT", "/api/v1/apps/nothing/log-level", &json!({"level": "info"}))?;
        ensure!(missing.status == 404, "{missing:?}");
        Ok(())
    });
}

#[test]
fn uploaded_package_is_run_by_an_upgrade() {
    in_a_lab(|lab| {
        let (joe, eve) = (Developer::new(lab, "joe")?, Developer::new(lab, "eve")?);
        joe.package(lab, "hub", "")?;
        let first = joe.version(lab, "0.1.0", Quality::Good)?;
        let second = joe.version(lab, "0.2.0", Quality::Good)?;
        eve.package(lab, "hub", "")?;
        let foreign = eve.version(lab, "0.3.0", Quality::Good)?;
        trust(&[&joe.trust("")], "[[app]]\nname = \"hub\"\n")?;
        rosemary(lab, &["app", "install", &first])?;
        let _rosemary = Rosemary::start_with(lab, &rosemary_binary(), &[])?;
        wait_for_api()?;
        let version = || Ok::<_, anyhow::Error>(get_json("/api/v1/apps/hub")?["version"].clone());
        ensure!(version()? == "0.1.0");
        let upload = |package: &str, signature: &str| -> anyhow::Result<Answer> {
            let signature = lab.run("base64", &["-w0", &format!("{signature}.minisig")])?;
            let headers = [
                ("Content-Type", "application/octet-stream"),
                ("Rosemary-Signature", signature.trim()),
            ];
            request("PUT", "/api/v1/apps/hub/package", &headers, &std::fs::read(package)?)
        };
        for (package, signature, why) in [
            (&foreign, &foreign, "another developer"),
            (&second, &first, "another package's signature"),
        ] {
            let answer = upload(package, signature)?;
            ensure!(answer.status == 409, "{why}: {answer:?}");
        }
        let kind = [("Content-Type", "application/octet-stream")];
        let unsigned = request("PUT", "/api/v1/apps/hub/package", &kind, &std::fs::read(&second)?)?;
        ensure!(unsigned.status == 400, "{unsigned:?}");
        let early = post("/api/v1/apps/hub/upgrade", &json!({}))?;
        ensure!(early.status == 409, "nothing was uploaded: {early:?}");
        let staged = upload(&second, &second)?;
        ensure!(staged.status == 200, "{staged:?}");
        ensure!(version()? == "0.1.0", "it is not run yet");
        let upgraded = post("/api/v1/apps/hub/upgrade", &json!({}))?;
        ensure!(upgraded.status == 200, "{upgraded:?}");
        lab.wait_for("the new version runs", SOON, |evidence| {
            let app = get_json("/api/v1/apps/hub").unwrap_or_default();
            evidence.0 = app.to_string();
            Ok((app["version"] == "0.2.0" && app["state"] == "running").then_some(()))
        })?;
        let back = post("/api/v1/apps/hub/rollback", &json!({}))?;
        ensure!(back.status == 200, "{back:?}");
        lab.wait_for("the old version is back", SOON, |_| {
            let app = get_json("/api/v1/apps/hub").unwrap_or_default();
            Ok((app["version"] == "0.1.0" && app["state"] == "running").then_some(()))
        })?;
        let expected = [
            "user 0 requested: stage a package of hub (change 1)", // the foreign one
            "user 0: stage a package of hub (change 1) was refused: ...",
            "user 0 requested: stage a package of hub (change 2)", // the wrong signature
            "user 0: stage a package of hub (change 2) was refused: ...",
            "user 0 requested: upgrade hub (change 3)", // too early
            "user 0: upgrade hub (change 3) was refused: ...",
            "user 0 requested: stage a package of hub (change 4)",
            "user 0: stage a package of hub (change 4) is done: app hub: staged package no -> yes",
            "user 0 requested: upgrade hub (change 5)",
            "user 0: upgrade hub (change 5) is done, and watched: app hub: ...sha256 ... -> ..., staged package yes -> no, \
             version 0.1.0 -> 0.2.0",
            "user 0 requested: rollback hub (change 6)",
            "user 0: rollback hub (change 6) is done: app hub: ...version 0.2.0 -> 0.1.0",
        ];
        must_have_audited(lab, &expected)?;
        // What became of each change.
        for (id, state) in
            ["refused", "refused", "refused", "done", "done", "done"].iter().enumerate()
        {
            let report = get_json(&format!("/api/v1/changes/{}", id + 1))?;
            ensure!(report["state"]["state"] == *state, "{report}");
        }
        Ok(())
    });
}

/// A WebSocket that receives events.
struct Socket(TcpStream);

impl Socket {
    /// Opens it, and checks the answer of the server (RFC 6455, section 4.2.2).
    fn open(query: &str) -> anyhow::Result<Self> {
        let mut stream = connect()?;
        write!(
            stream,
            "GET /api/v1/events{query} HTTP/1.1\r\nHost: {API}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Protocol: rosemary.v1\r\n\r\n"
        )?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.extend(byte);
        }
        let head = String::from_utf8(head)?.to_ascii_lowercase();
        ensure!(head.starts_with("http/1.1 101"), "{head}");
        // The value of the RFC's example.
        let accept = "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=";
        ensure!(head.contains(accept) && head.contains("rosemary.v1"), "{head}");
        Ok(Self(stream))
    }

    /// Receives the next event: a text frame of the server, which is not masked (section 5.2).
    fn next(&mut self) -> anyhow::Result<Value> {
        loop {
            let mut begin = [0; 2];
            self.0.read_exact(&mut begin)?;
            let size = match begin[1] {
                126 => {
                    let mut size = [0; 2];
                    self.0.read_exact(&mut size)?;
                    u16::from_be_bytes(size).into()
                }
                size @ 0..=125 => usize::from(size),
                size => anyhow::bail!("a frame of size {size}"),
            };
            let mut payload = vec![0; size];
            self.0.read_exact(&mut payload)?;
            match begin[0] {
                0x81 => return Ok(serde_json::from_slice(&payload)?),
                0x89 => {} // a ping
                other => anyhow::bail!("a frame of kind {other:#x}"),
            }
        }
    }

    fn wait_for(&mut self, kind: &str, wanted: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
        let deadline = Instant::now() + LATER;
        loop {
            let event = self.next()?;
            if event["kind"] == kind && wanted(&event["data"]) {
                return Ok(event);
            }
            ensure!(Instant::now() < deadline, "the last event: {event}");
        }
    }
}

#[test]
fn events_arrive_over_a_web_socket() {
    in_a_lab(|lab| {
        let _rosemary = start(lab)?;
        let mut all = Socket::open("")?;
        let mut apps = Socket::open("?kinds=app,change")?;
        for socket in [&mut all, &mut apps] {
            let hello = socket.next()?;
            ensure!(hello["kind"] == "hello" && hello["data"]["last"].is_u64(), "{hello}");
        }
        std::thread::sleep(Duration::from_millis(700));
        ensure!(post("/api/v1/apps/observer/stop", &json!({}))?.status == 200);
        let is_stopped = |data: &Value| {
            data["name"] == "observer" && data["state"].to_string().contains("stopped")
        };
        let event = all.wait_for("app", is_stopped)?;
        let same = apps.wait_for("app", is_stopped)?;
        ensure!(event["id"] == same["id"] && event["time"].is_u64(), "{event} {same}");
        let _other = lab.switch("s2", Of::V1_3)?;
        let up = all.wait_for("switch", |data| data["connected"] == true)?;
        ensure!(up["data"]["dpid"] == "00:00:00:00:00:00:00:02", "{up}");
        // A client that comes back learns what it missed, and nothing before.
        ensure!(post("/api/v1/apps/observer/start", &json!({}))?.status == 200);
        drop(apps);
        let id = event["id"].as_u64().context("a number")?;
        let mut again = Socket::open(&format!("?kinds=app&last={id}"))?;
        ensure!(again.next()?["kind"] == "hello");
        let next = again.next()?;
        ensure!(next["id"].as_u64() > Some(id) && next["kind"] == "app", "{next}");
        let wrong = get("/api/v1/events?kinds=nothing")?;
        ensure!(wrong.status == 400, "{wrong:?}");
        Ok(())
    });
}

#[test]
fn topology_is_shown_as_ryu_shows_it() {
    in_a_lab(|lab| {
        configure(&["[[app]]\nname = \"forwarding\"\n"])?;
        let (s1, s2) = (lab.switch("s1", Of::V1_3)?, lab.switch("s2", Of::V1_3)?);
        let (h1, h2) = (lab.host("h1", &s1)?, lab.host("h2", &s2)?);
        s1.link_to(&s2)?;
        let _rosemary = Rosemary::start(lab, &rosemary_binary(), &["--ofctl-rest"])?;
        let ryu = |path: &str| -> anyhow::Result<Value> {
            let url = format!("http://127.0.0.1:8080/v1.0/topology/{path}");
            let text = lab.run("curl", &["-sf", "-m", "10", &url])?;
            serde_json::from_str(&text).context(text)
        };
        lab.wait_for("both directions of the link are found", LATER, |evidence| {
            let links = ryu("links").unwrap_or_default();
            evidence.0 = links.to_string();
            Ok((links.as_array().map(Vec::len) == Some(2)).then_some(()))
        })?;
        lab.wait_for("h1 reaches h2", LATER, |_| {
            Ok((h1.ping(&h2, 3, INTERVAL)?.received == 3).then_some(()))
        })?;
        let (one, two) = ("0000000000000001", "0000000000000002");
        let switches = ryu("switches")?;
        ensure!(switches.as_array().map(Vec::len) == Some(2), "{switches}");
        let first = ryu(&format!("switches/{one}"))?;
        ensure!(first[0]["dpid"] == one && first.as_array().map(Vec::len) == Some(1), "{first}");
        let port = &first[0]["ports"][0];
        for key in ["dpid", "port_no", "hw_addr", "name"] {
            ensure!(port[key].is_string(), "{key}: {first}");
        }
        let links = ryu(&format!("links/{one}"))?;
        ensure!(links.as_array().map(Vec::len) == Some(1), "{links}");
        let (from, to) = (&links[0]["src"], &links[0]["dst"]);
        ensure!(from["dpid"] == one && to["dpid"] == two, "{links}");
        ensure!(from["port_no"] == "00000002" && to["port_no"] == "00000002", "{links}");
        let hosts = lab.wait_for("the host is known", LATER, |evidence| {
            let hosts = ryu(&format!("hosts/{one}")).unwrap_or_default();
            evidence.0 = hosts.to_string();
            let is_there = hosts[0]["ipv4"] == json!([h1.address()]);
            Ok(is_there.then_some(hosts))
        })?;
        ensure!(hosts.as_array().map(Vec::len) == Some(1), "{hosts}");
        ensure!(hosts[0]["mac"] == h1.mac() && hosts[0]["ipv6"].is_array(), "{hosts}");
        ensure!(hosts[0]["port"]["port_no"] == "00000001", "{hosts}");
        ensure!(ryu("hosts")?.as_array().map(Vec::len) == Some(2));
        ensure!(ryu("switches/0000000000000009")? == json!([]));
        for path in ["switches/1", "links/x", "nothing"] {
            ensure!(ryu(path).is_err(), "{path}");
        }
        Ok(())
    });
}
