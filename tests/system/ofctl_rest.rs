//! Ryu's REST interface, the API's writes, and the metrics, with a real switch: examples of the documentation of Ryu 4.34.

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of};
use rosemary_tests::developer::must_be_audited;
use rosemary_tests::in_a_lab;
use rosemary_tests::net::{Net, SOON};
use serde_json::{Value, json};

const RYU: &str = "http://127.0.0.1:8080";
const API: &str = "http://127.0.0.1:8181/api/v1";

/// Sends a request; returns the status and the body.
fn http(lab: &Lab, method: &str, url: &str, args: &[&str]) -> anyhow::Result<(u16, String)> {
    let base = ["-s", "-m", "20", "-w", "\n%{http_code}", "-X", method, url];
    let output = lab.run("curl", &[&base[..], args].concat())?;
    let (body, status) = output.trim_end().rsplit_once('\n').unwrap_or(("", output.trim()));
    Ok((status.trim().parse().with_context(|| output.clone())?, body.to_owned()))
}

fn get(lab: &Lab, path: &str) -> anyhow::Result<Value> {
    let (status, body) = http(lab, "GET", &format!("{RYU}{path}"), &[])?;
    ensure!(status == 200, "{path}: {status} {body}");
    serde_json::from_str(&body).with_context(|| body)
}

#[track_caller]
fn post(lab: &Lab, path: &str, body: &Value) -> anyhow::Result<u16> {
    let (status, answer) = http(lab, "POST", &format!("{RYU}{path}"), &["-d", &body.to_string()])?;
    println!("POST {path}: {status} {answer}");
    Ok(status)
}

/// The flows of the interface's owner that a switch has, as the interface shows them.
fn shown(lab: &Lab, priority: u16) -> anyhow::Result<Vec<Value>> {
    let flows = get(lab, "/stats/flow/1")?;
    let flows = flows["1"].as_array().context("a list")?.clone();
    Ok(flows.into_iter().filter(|it| it["priority"] == priority).collect())
}

fn start(lab: &Lab, of: Of) -> anyhow::Result<Net<'_>> {
    let mut net = Net::start_with(lab, of, &["--ofctl-rest"])?;
    net.rosemary.wait_for_log(&["EVERY USER OF THIS MACHINE"], SOON)?;
    lab.wait_for("the owner of the flows answers", SOON, |evidence| {
        let answer = http(lab, "GET", &format!("{RYU}/stats/desc/1"), &[]);
        evidence.0 = format!("{answer:?}");
        Ok(matches!(answer, Ok((200, _))).then_some(()))
    })?;
    Ok(net)
}

fn flow(of: Of, net: &Net<'_>, lab: &Lab) -> anyhow::Result<()> {
    ensure!(get(lab, "/stats/switches")? == json!([1]));
    let desc = get(lab, "/stats/desc/1")?;
    ensure!(desc["1"]["mfr_desc"].as_str().is_some_and(|it| it.contains("Nicira")), "{desc}");
    let mut add = json!({
        "dpid": 1, "cookie": 1, "cookie_mask": 1, "table_id": 0, "idle_timeout": 0, "hard_timeout": 0,
        "priority": 11111, "match": {"in_port": 1}, "actions": [{"type": "OUTPUT", "port": 2}],
    });
    ensure!(post(lab, "/stats/flowentry/add", &add)? == 200);
    let record = "user 0: add a flow to 00:00:00:00:00:00:00:01: none -> priority=...in_port=1 cookie:0x1 actions=output:2";
    must_be_audited(lab, &[record])?;
    let flows = shown(lab, 11_111)?;
    ensure!(flows.len() == 1, "{flows:?}");
    ensure!(
        flows[0]["actions"] == json!(["OUTPUT:2"]) && flows[0]["match"] == json!({"in_port": 1})
    );
    ensure!(
        net.s1.dump_flows()?.iter().any(|it| it.contains("priority=49")),
        "in the owner's band"
    );
    let filter = json!({"priority": 11111, "match": {"in_port": 1}});
    let (status, filtered) =
        http(lab, "POST", &format!("{RYU}/stats/flow/1"), &["-d", &filter.to_string()])?;
    ensure!(status == 200 && filtered.contains("11111"), "{filtered}");
    add["actions"] = json!([{"type": "OUTPUT", "port": 3}]);
    ensure!(post(lab, "/stats/flowentry/modify", &add)? == 200);
    ensure!(shown(lab, 11_111)?[0]["actions"] == json!(["OUTPUT:3"]));
    ensure!(post(lab, "/stats/flowentry/modify_strict", &add)? == 200);
    ensure!(post(lab, "/stats/flowentry/delete_strict", &add)? == 200);
    ensure!(shown(lab, 11_111)?.is_empty());
    for priority in [1, 2, 65_535] {
        add["priority"] = priority.into();
        ensure!(post(lab, "/stats/flowentry/add", &add)? == 200);
        ensure!(shown(lab, priority)?.len() == 1, "{priority}");
    }
    ensure!(
        post(lab, "/stats/flowentry/delete", &json!({"dpid": 1, "match": {"in_port": 1}}))? == 200
    );
    ensure!(shown(lab, 2)?.is_empty());
    add["priority"] = 3.into();
    ensure!(post(lab, "/stats/flowentry/add", &add)? == 200);
    let (status, _) = http(lab, "DELETE", &format!("{RYU}/stats/flowentry/clear/1"), &[])?;
    ensure!(status == 200 && shown(lab, 3)?.is_empty());
    let aggregate = get(lab, "/stats/aggregateflow/1")?;
    ensure!(aggregate["1"][0]["flow_count"].is_u64(), "{aggregate}");
    for path in [
        "/stats/table/1",
        "/stats/port/1",
        "/stats/port/1/1",
        "/stats/portdesc/1",
        "/stats/queue/1",
    ] {
        ensure!(get(lab, path)?["1"].is_array(), "{path}");
    }
    ensure!(get(lab, "/stats/role/1")?["1"][0]["role"] == "EQUAL");
    let port = json!({"dpid": 1, "port_no": 3, "config": 1, "mask": 1});
    ensure!(post(lab, "/stats/portdesc/modify", &port)? == 200);
    for (path, body, expected) in [
        ("/stats/flowentry/add", json!({"dpid": 7}), 404),
        ("/stats/flowentry/fly", json!({"dpid": 1}), 404),
        ("/stats/flowentry/add", json!({"dpid": "x"}), 400),
        ("/stats/flowentry/add", json!({"dpid": 1, "match": {"nonsense": 1}}), 400),
        ("/stats/experimenter/1", json!({"dpid": 1}), 501),
        ("/stats/role", json!({"dpid": 1, "role": "MASTER"}), 501),
    ] {
        ensure!(post(lab, path, &body)? == expected, "{path} {body}");
    }
    if of == Of::V1_0 {
        ensure!(http(lab, "GET", &format!("{RYU}/stats/group/1"), &[])?.0 == 501);
    }
    // A page of another origin, and another name of this machine.
    let url = format!("{RYU}/stats/switches");
    ensure!(http(lab, "GET", &url, &["-H", "Origin: http://attacker.example"])?.0 == 403);
    ensure!(http(lab, "GET", &url, &["-H", "Host: attacker.example"])?.0 == 421);
    Ok(())
}

#[test]
fn examples_of_ryus_documentation_work_over_openflow_1_0() {
    in_a_lab(|lab| {
        let net = start(lab, Of::V1_0)?;
        flow(Of::V1_0, &net, lab)
    });
}

#[test]
fn examples_of_ryus_documentation_work_over_openflow_1_3() {
    in_a_lab(|lab| {
        let net = start(lab, Of::V1_3)?;
        flow(Of::V1_3, &net, lab)?;
        let mut group = json!({"dpid": 1, "type": "ALL", "group_id": 1,
                               "buckets": [{"actions": [{"type": "OUTPUT", "port": 1}]}]});
        ensure!(post(lab, "/stats/groupentry/add", &group)? == 200);
        ensure!(get(lab, "/stats/groupdesc/1")?["1"][0]["group_id"] == 1);
        ensure!(get(lab, "/stats/group/1")?["1"][0]["group_id"] == 1);
        group["buckets"][0]["actions"][0]["port"] = 2.into();
        ensure!(post(lab, "/stats/groupentry/modify", &group)? == 200);
        let desc = get(lab, "/stats/groupdesc/1")?;
        ensure!(desc["1"][0]["buckets"][0]["actions"] == json!(["OUTPUT:2"]), "{desc}");
        let meter = json!({"dpid": 1, "flags": "KBPS", "meter_id": 1,
                           "bands": [{"type": "DROP", "rate": 1000}]});
        ensure!(post(lab, "/stats/meterentry/add", &meter)? == 200);
        ensure!(get(lab, "/stats/meterconfig/1")?["1"][0]["meter_id"] == 1);
        ensure!(get(lab, "/stats/meter/1")?["1"][0]["meter_id"] == 1);
        for (priority, actions) in [
            (22_222, json!([{"type": "GOTO_TABLE", "table_id": 1}])),
            (33_333, json!([{"type": "WRITE_METADATA", "metadata": 1, "metadata_mask": 1}])),
            (44_444, json!([{"type": "METER", "meter_id": 1}])),
            (55_555, json!([{"type": "GROUP", "group_id": 1}])),
        ] {
            let flow = json!({"dpid": 1, "priority": priority, "match": {"in_port": 1}, "actions": actions});
            ensure!(post(lab, "/stats/flowentry/add", &flow)? == 200, "{flow}");
            ensure!(shown(lab, priority)?.len() == 1, "{flow}");
        }
        // A mebibyte in many messages, more than the ring of an app holds.
        let features = get(lab, "/stats/tablefeatures/1")?;
        let tables = features["1"].as_array().context("a list")?;
        ensure!(tables.len() > 200 && tables[0]["table_id"] == 0, "{} tables", tables.len());
        let types = tables[0]["properties"].to_string();
        ensure!(types.contains("\"MATCH\"") && types.contains("\"eth_type\""), "{types}");
        for path in ["/stats/groupfeatures/1", "/stats/meterfeatures/1"] {
            ensure!(get(lab, path)?["1"].is_array(), "{path}");
        }
        ensure!(post(lab, "/stats/meterentry/delete", &json!({"dpid": 1, "meter_id": 1}))? == 200);
        ensure!(post(lab, "/stats/groupentry/delete", &json!({"dpid": 1, "group_id": 1}))? == 200);
        ensure!(get(lab, "/stats/groupdesc/1")?["1"] == json!([]));
        Ok(())
    });
}

#[test]
fn api_writes_flows_and_prometheus_understands_the_metrics() {
    in_a_lab(|lab| {
        let net = Net::start(lab, Of::V1_3)?;
        let body = json!({"priority": 49_600, "match": {"in_port": 1}, "actions": [{"type": "OUTPUT", "port": 2}]});
        let json_type = ["-H", "Content-Type: application/json", "-d"];
        let url = format!("{API}/switches/1/flows");
        let body = body.to_string();
        let answer = lab.wait_for("the API is ready", SOON, |evidence| {
            let answer = http(lab, "POST", &url, &[&json_type[..], &[&body]].concat());
            evidence.0 = format!("{answer:?}");
            Ok(answer.ok().filter(|(status, _)| *status == 200))
        })?;
        ensure!(answer.1.contains("\"applied\"") && answer.1.contains("49600"), "{answer:?}");
        let flows = net.s1.dump_flows()?;
        ensure!(flows.iter().any(|it| it.contains("priority=49600,in_port=")), "{flows:?}");
        let outside = r#"{"priority":5}"#;
        let (status, answer) = http(lab, "POST", &url, &[&json_type[..], &[outside]].concat())?;
        ensure!(status == 409 && answer.contains("49536 to 49663"), "{status} {answer}");
        let (status, answer) = http(lab, "DELETE", &url, &[&json_type[..], &["{}"]].concat())?;
        ensure!(status == 200, "{status} {answer}");
        ensure!(!net.s1.dump_flows()?.iter().any(|it| it.contains("priority=49600")));

        for address in ["127.0.0.1:9302", "127.0.0.1:8181"] {
            let (status, text) = http(lab, "GET", &format!("http://{address}/metrics"), &[])?;
            ensure!(
                status == 200 && text.contains("rosemary_source_up{source=\"kernel\"} 1"),
                "{text}"
            );
            ensure!(text.contains("rosemary_app_packet_ins_total{app=\"operator\"}"), "{text}");
        }
        lab.run("sh", &["-c", "curl -s http://127.0.0.1:9302/metrics | promtool check metrics"])?;
        Ok(())
    });
}

#[test]
fn thousands_of_flows_are_shown() {
    in_a_lab(|lab| {
        let _net = start(lab, Of::V1_3)?;
        let own = json!({"dpid": 1, "priority": 11111, "cookie": 99, "match": {"in_port": 1}});
        ensure!(post(lab, "/stats/flowentry/add", &own)? == 200);
        let flows = (0..20_000_u32).map(|number| {
            let [_, a, b, c] = number.to_be_bytes();
            format!(
                "table=3,priority=7,cookie={number},ip,nw_dst=10.{a}.{b}.{c},actions=output:1\n"
            )
        });
        std::fs::write("/run/lab/flows", flows.collect::<String>())?;
        lab.run("ovs-ofctl", &["-O", "OpenFlow13", "add-flows", "s1", "/run/lab/flows"])?;
        ensure!(shown(lab, 7)?.len() == 20_000);
        let own = shown(lab, 11_111)?;
        ensure!(own.len() == 1 && own[0]["cookie"] == 99, "{own:?}");
        // Ryu's filter by priority alone, and one by a match, which the switch applies.
        for (filter, count) in [
            (json!({"priority": 7}), 20_000),
            (json!({"priority": 11111}), 1),
            (json!({"match": {"in_port": 1}}), 1),
        ] {
            let url = format!("{RYU}/stats/flow/1");
            let (status, text) = http(lab, "POST", &url, &["-d", &filter.to_string()])?;
            let flows: Value = serde_json::from_str(&text)?;
            let found = flows["1"].as_array().map(Vec::len);
            ensure!(status == 200 && found == Some(count), "{filter}: {status} {found:?}");
            ensure!(count > 1 || flows["1"][0]["cookie"] == 99, "{flows}");
        }
        Ok(())
    });
}
