//! Tests the text of snapshots, and the documents about the metrics.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::{LinkDown, Links, METRICS, MOST_LINKS_DOWN, MOST_PORTS, MetricKind, PortTraffic};

fn switch(dpid: u64) -> SwitchStatus {
    let switch = json!({
        "dpid": format!("00:00:00:00:00:00:00:{dpid:02x}"), "version": "1.3", "address": "127.0.0.1:1",
        "transport": "tls 1.3", "epoch": 1, "ports": 3, "flows": 9, "packet_ins": 10, "dropped": 1,
        "guarded": 2, "flow_mods": 3, "packet_outs": 4, "refused": 5, "errors": 6, "requests": {"heal": 2},
        "fullest": {"table": 0, "flows": 9, "size": 10, "nearly_full": true, "app": null},
    });
    serde_json::from_value(switch).unwrap()
}

fn status() -> Status {
    let app = json!({
        "name": "forwarding", "number": 1, "stage": "control", "band": [1, 2], "host": "user",
        "demoted": null, "version": null, "sha256": null, "origin": "shipped", "signed_by": null,
        "pid": 1, "uid": 1, "state": "running", "restarts": 2, "last_exit": null,
    });
    let status = json!({
        "version": "0.1.0", "monitor": {"pid": 1, "uptime_seconds": 5.5},
        "kernel": {"pid": 1, "uid": 1, "state": "held", "restarts": 1, "last_exit": null, "listen": []},
        "services": [], "apps": [app], "rejected": "line 1",
    });
    serde_json::from_value(status).unwrap()
}

fn accounts() -> Vec<Account> {
    let amounts = Amounts {
        cpu_ns: 1_500_000_000,
        memory_byte_seconds: 9,
        received_messages: 5,
        received_bytes: 500,
        sent_messages: 2,
        sent_bytes: 160,
    };
    vec![Account { session: "video".into(), member: "forwarding".into(), amounts }]
}

fn usage() -> Vec<ProgramUsage> {
    let amount = json!({"limit": "memory", "value": 7, "soft": 5, "hard": null});
    let usage = json!([{
        "name": "forwarding", "kind": "kernel app", "state": "running", "pid": 1, "restarts": 0,
        "uses": [amount], "above": ["memory"], "events_per_second": null, "dropped": null, "refused": null,
    }]);
    serde_json::from_value(usage).unwrap()
}

fn incidents() -> IncidentCounts {
    let incident = |id: u64, open: bool| {
        json!({
            "version": 1, "id": id, "time": 1, "program": {"kind": "app", "name": "x"},
            "cause": {"kind": "signal", "signal": 9}, "count": 1, "evidence": control::incident::Evidence::default(),
            "reaction": [], "open": open, "duration_ms": if open { Value::Null } else { json!(250) },
        })
    };
    let mut counts = IncidentCounts::default();
    let list = |incidents: Vec<Value>| serde_json::from_value::<Vec<_>>(incidents.into()).unwrap();
    counts.count(&list(vec![incident(1, false), incident(2, true)]));
    assert_eq!(counts.from(), control::incident::IncidentId(2));
    counts.count(&list(vec![incident(2, true), incident(3, true)]));
    counts.count(&list(vec![incident(2, false), incident(3, true)]));
    counts
}

/// A network with more links that are down, and more ports, than have series.
fn network() -> Network {
    let down = |number: usize| LinkDown {
        labels: ["1", &number.to_string(), "2", "4", "port-down"].map(ToOwned::to_owned),
        seconds: 60,
    };
    let traffic = |number: usize| PortTraffic {
        port: ["1".to_owned(), number.to_string()],
        bytes: [Some(10), None],
        packets: [Some(1), Some(2)],
    };
    let links =
        Links { ports_up: 5, up: 2, down: (0..103).map(down).collect(), ..Links::default() };
    Network {
        links: Some(links),
        hosts: Some([("1".to_owned(), 3), ("2".to_owned(), 4)].into()),
        traffic: Some((0..2_001).map(traffic).collect()),
    }
}

fn whole(switches: &[SwitchStatus]) -> String {
    let mut kernel_queries = Histogram::new(Histogram::ANSWERS);
    kernel_queries.observe(Duration::from_micros(200));
    let mut app = AppCounters { name: "a\"\\\nb".into(), delivered: 12, ..AppCounters::default() };
    (app.latencies.counts[7], app.latencies.counts[16], app.latencies.sum_us) = (2, 1, 20_500_000);
    text(&Snapshot {
        version: "0.1.0",
        status: Some(&status()),
        usage: &usage(),
        accounts: &accounts(),
        network: &network(),
        kernel: Some((switches, &[app])),
        incidents: &incidents(),
        config: Some("abc"),
        kernel_queries: &kernel_queries,
    })
}

#[test]
fn every_metric_has_a_sample() {
    let text = whole(&[switch(1)]);
    for line in [
        "rosemary_build_info{version=\"0.1.0\"} 1",
        "rosemary_uptime_seconds 5.5",
        "rosemary_source_up{source=\"kernel\"} 1",
        "rosemary_config_rejected 1",
        "rosemary_program_up{kind=\"app\",program=\"forwarding\"} 1",
        "rosemary_program_held{kind=\"kernel\",program=\"kernel\"} 1",
        "rosemary_limit_use{kind=\"kernel_app\",program=\"forwarding\",limit=\"memory\"} 7",
        "rosemary_limit_exceeded{kind=\"kernel_app\",program=\"forwarding\",limit=\"memory\"} 1",
        "rosemary_incidents_total{kind=\"app\",cause=\"signal\"} 3",
        "rosemary_account_cpu_seconds_total{session=\"video\",member=\"forwarding\"} 1.5",
        "rosemary_account_bytes_total{session=\"video\",member=\"forwarding\",direction=\"sent\"} 160",
        "rosemary_incidents_open 1",
        "rosemary_incident_duration_seconds_count 2",
        "rosemary_switches{version=\"1.3\",transport=\"tls 1.3\"} 1",
        "rosemary_switch_table_fill_ratio{dpid=\"00:00:00:00:00:00:00:01\",table=\"0\"} 0.9",
        "rosemary_switch_messages_total{dpid=\"00:00:00:00:00:00:00:01\",type=\"error\"} 6",
        "rosemary_switch_packet_ins_dropped_total{dpid=\"00:00:00:00:00:00:00:01\",reason=\"guard\"} 2",
        "rosemary_app_packet_ins_total{app=\"a\\\"\\\\\\nb\"} 12",
        "rosemary_app_packet_in_duration_seconds_bucket{app=\"a\\\"\\\\\\nb\",le=\"0.01\"} 0",
        "rosemary_app_packet_in_duration_seconds_bucket{app=\"a\\\"\\\\\\nb\",le=\"0.025\"} 2",
        "rosemary_app_packet_in_duration_seconds_bucket{app=\"a\\\"\\\\\\nb\",le=\"+Inf\"} 3",
        "rosemary_app_packet_in_duration_seconds_sum{app=\"a\\\"\\\\\\nb\"} 20.5",
        "rosemary_app_packet_in_duration_seconds_count{app=\"a\\\"\\\\\\nb\"} 3",
        "rosemary_ports{state=\"up\"} 5",
        "rosemary_links{state=\"up\"} 2",
        "rosemary_links{state=\"down\"} 103",
        "rosemary_link_down_seconds{dpid=\"1\",port=\"99\",to_dpid=\"2\",to_port=\"4\",reason=\"port-down\"} 60",
        "rosemary_links_down_omitted 3",
        "rosemary_hosts 7",
        "rosemary_switch_hosts{dpid=\"2\"} 4",
        "rosemary_port_bytes_total{dpid=\"1\",port=\"7\",direction=\"rx\"} 10",
        "rosemary_port_packets_total{dpid=\"1\",port=\"7\",direction=\"tx\"} 2",
        "rosemary_ports_omitted 1",
        "rosemary_kernel_query_duration_seconds_bucket{le=\"0.0003\"} 1",
        "rosemary_kernel_query_duration_seconds_bucket{le=\"+Inf\"} 1",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
    let missing: Vec<_> =
        METRICS.iter().filter(|it| !text.contains(&format!("# TYPE {} ", it.name))).collect();
    let is_hard = |it: &&&crate::Metric| it.name == "rosemary_limit_hard"; // none is set here
    assert!(missing.iter().all(is_hard), "{missing:?}");
}

#[test]
fn silent_programs_are_shown_as_down() {
    let text = text(&Snapshot {
        version: "0.1.0",
        status: None,
        usage: &[],
        accounts: &[],
        network: &Network::default(),
        kernel: None,
        incidents: &IncidentCounts::default(),
        config: None,
        kernel_queries: &Histogram::new(Histogram::ANSWERS),
    });
    assert!(text.contains("rosemary_source_up{source=\"monitor\"} 0"), "{text}");
    assert!(text.contains("rosemary_source_up{source=\"kernel\"} 0"), "{text}");
    assert!(!text.contains("rosemary_switches"), "{text}");
}

#[test]
fn series_of_switches_are_bounded() {
    let one = switch(1);
    let switches: Vec<SwitchStatus> = (0..MOST_SWITCHES + 7)
        .map(|dpid| SwitchStatus { dpid: dpid.to_string(), ..one.clone() })
        .collect();
    let text = whole(&switches);
    assert!(text.contains("rosemary_switches_omitted 7"));
    let series = text.lines().filter(|line| line.starts_with("rosemary_switch_ports{"));
    assert_eq!(series.count(), MOST_SWITCHES);
    let series = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(series("rosemary_link_down_seconds{"), MOST_LINKS_DOWN);
    assert_eq!(series("rosemary_port_packets_total{"), 2 * MOST_PORTS);
}

#[test]
fn names_follow_the_conventions() {
    for metric in METRICS {
        let name = metric.name;
        assert!(name.starts_with("rosemary_") && metric.help.ends_with('.'), "{metric:?}");
        assert_eq!(metric.kind == MetricKind::Counter, name.ends_with("_total"), "{name}");
        assert_eq!(METRICS.iter().filter(|it| it.name == name).count(), 1, "{name}");
    }
}

#[test]
fn every_metric_is_documented() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let page = std::fs::read_to_string(file).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `rosemary_")).collect();
    let expected: Vec<String> = METRICS
        .iter()
        .map(|it| {
            let labels: Vec<String> = it.labels.iter().map(|label| format!("`{label}`")).collect();
            let labels = if labels.is_empty() { "-".to_owned() } else { labels.join(", ") };
            let (name, kind, help) = (it.name, it.kind.name(), it.help.trim_end_matches('.'));
            format!("| `{name}` | {kind} | {labels} | {help} |")
        })
        .collect();
    assert_eq!(
        rows,
        expected,
        "docs/metrics.md lists all metrics in their order:\n{}",
        expected.join("\n")
    );
}
