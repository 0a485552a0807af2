//! Tests of the report about one app.

use control::app_report::AppReport;
use control::incident::IncidentId;
use control::log::LogLevel;
use control::operator::{AppStatus, ProgramState, ProgramUsage};
use control::policy::{Band, Capability, Fail, Filter, Grant, Policy, Stage};
use control::query::AppCounters;
use control::service::{ClientRights, Destination, Namespace};

use super::*;

fn report() -> AppReport {
    let status = AppStatus {
        name: "firewall".into(),
        number: 7,
        stage: "guard".into(),
        band: Some([63_488, 65_535]),
        host: "user".into(),
        demoted: None,
        version: Some("0.1.0".into()),
        sha256: Some("0123456789abcdef".repeat(4)),
        origin: "package".into(),
        signed_by: Some("acme".into()),
        pid: Some(42),
        uid: 1_879_048_199,
        state: ProgramState::Running,
        restarts: 2,
        last_exit: Some("killed by SIGSEGV".into()),
        kept: None,
        problem: None,
        limited: Some("throttled to 50 flow-mods/s for each switch, by protection".into()),
    };
    let write = Grant { dpids: vec![1], tables: vec![0, 1], ..Capability::FlowWrite.into() };
    let policy = Policy {
        stage: Stage::Guard(Fail::Closed),
        order: 1,
        filter: Filter { ethertypes: vec![0x806], dpids: vec![2] },
        band: Band { lowest: 63_488, highest: 65_535 },
        capabilities: vec![Capability::PacketIn.into(), write],
        flows: 1000,
        pace: Some(200),
        ..Policy::default()
    };
    let namespace = Namespace { name: "keeper".into(), app: 3, read: true, write: false };
    let host = Destination { name: "db.example".into(), port: 5432 };
    let memory = Amount {
        limit: "memory".into(),
        value: Some(50 << 20),
        soft: Some(40 << 20),
        hard: Some(64 << 20),
    };
    let outs =
        Amount { limit: "packet-outs-per-second".into(), value: None, soft: None, hard: Some(100) };
    AppReport {
        policy,
        services: vec!["storage".into()],
        rights: ClientRights {
            namespaces: vec![namespace],
            hosts: vec![host],
            log: None,
            history: false,
            ovsdb: Vec::new(),
            names: Vec::new(),
        },
        read: vec!["/etc/hosts".into()],
        object: "/lib/libfirewall.so".into(),
        config: Some("/etc/firewall.toml".into()),
        hang_seconds: 5,
        restart: RestartRule {
            min_run_ms: 1000,
            longest_pause_ms: 30_000,
            restarts: Some(50),
            window_seconds: 3600,
        },
        removes_flows: true,
        routes: Some("http://127.0.0.1:8182/apps/firewall/".into()),
        log_level: LogLevel::Info,
        usage: ProgramUsage {
            name: "firewall".into(),
            kind: "app".into(),
            state: ProgramState::Running,
            pid: Some(42),
            restarts: 2,
            uses: vec![memory, outs],
            above: vec!["memory".into()],
            events_per_second: None,
            dropped: None,
            refused: None,
            delayed: None,
        },
        status,
    }
}

#[test]
fn app_in_full_has_scopes_limits_and_incidents() {
    let counters =
        AppCounters { name: "firewall".into(), delivered: 9, delayed: 70, ..<_>::default() };
    let full = AppText(FullApp::of(report(), &[counters], vec![IncidentId(3), IncidentId(8)]));
    assert_eq!(
        full.text(),
        "\
app          firewall, number 7
state        running, throttled to 50 flow-mods/s for each switch, by protection
host         user
process      42, a zone of user 1879048199
version      0.1.0
from         acme
object       /lib/libfirewall.so
sha-256      0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
config       /etc/firewall.toml
stage        guard, fails closed, position 1
packet-ins   0x0806 of 00:00:00:00:00:00:00:02
flows        priorities 63488 to 65535, at most 1000 per switch, 200 flow-mods/s per switch
groups       0x70000 to 0x7ffff
meters       0x700 to 0x7ff
on-stop      remove its flows, groups and meters
routes       http://127.0.0.1:8182/apps/firewall/
capabilities packet-in
             { flow.write = { dpids = [\"00:00:00:00:00:00:00:01\"], tables = [0, 1] } }
services     storage
also         storage.read:keeper
             net.connect:db.example:5432
             fs.read:/etc/hosts
counters     9 delivered, 0 dropped, 0 refused, 0 lost, 70 flow-mods delayed
restarts     2
restart      at once after 1000 ms, else within 30000 ms
held         after 50 restarts in 3600 s
hangs        after 5 s of processor time in a call
log level    info
last exit    killed by SIGSEGV
incidents    3, 8 (`rosemary incidents show ID`)

LIMIT                   USED  SOFT  HARD
memory                  50M!  40M   64M
packet-outs-per-second  -     -     100
"
    );
}

#[test]
fn json_has_scopes_as_lists() {
    let json = serde_json::to_value(FullApp::of(report(), &[], Vec::new())).unwrap();
    let write = &json["capabilities"][1];
    assert_eq!(write["capability"], "flow.write");
    assert_eq!(write["dpids"][0], "00:00:00:00:00:00:00:01");
    assert_eq!(write["tables"], serde_json::json!([0, 1]));
    assert_eq!(json["fail"], "closed");
    assert_eq!(json["delivered"], serde_json::Value::Null, "the kernel did not answer");
    assert_eq!(json["limits"][0]["soft"], 40 << 20);
}
