//! All of Ryu's apps: `make ryu` runs these tests.
//!
//! Each test notes its result in `target/ryu/passed`; `make ryu` makes the table of `docs/ryu-apps.md` from these files.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Switch};
use rosemary_tests::net::{INTERVAL, Net};
use rosemary_tests::{in_a_lab_for, ryu};

use super::super::ovsdb::vsctl;
use super::{CONFIG, PORT, http, reaches, start};

/// Most time for one test: spanning trees need half a minute, and other tests may run beside it.
pub(super) const LIMIT: Duration = Duration::from_secs(240);

/// Time for what an app does by itself.
const WHILE: Duration = Duration::from_secs(60);

/// Runs a test with one app and its options, and notes its success.
fn with_app(
    name: &'static str,
    of: Of,
    options: &'static str,
    shows: &'static str,
    test: impl FnOnce(&Lab, &mut Net<'_>) -> anyhow::Result<()> + Send + 'static,
) {
    let dir = ryu::install().expect("Ryu is there");
    let packages = dir.clone();
    in_a_lab_for(LIMIT, move |lab| {
        let comma = if options.is_empty() { "" } else { ", " };
        let more = format!(
            "listen = [\"wsapi=127.0.0.1:{PORT}\"]\noptions = {{ wsapi-port = \"{PORT}\"{comma}{options} }}"
        );
        let mut net = start(lab, of, &[ryu::entry(&packages, name, &more)])?;
        let outcome = test(lab, &mut net);
        outcome.with_context(|| format!("the log was:\n{}", net.rosemary.log()))
    });
    let version = if of == Of::V1_0 { "1.0" } else { "1.3" };
    ryu::note(&dir, name, version, shows).expect("the result is noted");
}

/// Returns the switch's datapath id as Ryu's interfaces write it.
fn dpid(net: &Net<'_>) -> String {
    net.s1.dpid().replace(':', "")
}

#[test]
#[ignore = "make ryu runs it"]
fn simple_switch_of_ryu() {
    with_app("simple_switch", Of::V1_0, "", "hosts reach each other by flows", |_, net| {
        reaches(net)?;
        ensure!(net.flows_to(&net.h1)?.len() == 1, "{:?}", net.s1.dump_flows());
        Ok(())
    });
}

#[test]
#[ignore = "make ryu runs it"]
fn example_switch_13_of_ryu() {
    with_app("example_switch_13", Of::V1_3, "", "hosts reach each other", |_, net| reaches(net));
}

#[test]
#[ignore = "make ryu runs it"]
fn simple_monitor_13_of_ryu() {
    let shows = "its log has the statistics of flows and ports";
    with_app("simple_monitor_13", Of::V1_3, "", shows, |_, net| {
        reaches(net)?;
        net.rosemary.wait_for_log(&["rx-pkts  rx-bytes rx-error"], WHILE)?;
        let mac = net.h1.mac();
        net.rosemary.wait_for_log(&["0000000000000001", "2", &mac, "1"], WHILE)?;
        Ok(())
    });
}

/// Opens a WebSocket at a path of the app's web interface.
fn websocket(path: &str) -> anyhow::Result<TcpStream> {
    let end = Instant::now() + WHILE;
    let mut stream = loop {
        match TcpStream::connect(("127.0.0.1", PORT)) {
            Ok(stream) => break stream,
            Err(error) if Instant::now() > end => return Err(error.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    };
    stream.set_read_timeout(Some(WHILE))?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Origin: http://127.0.0.1:{PORT}\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
         Sec-WebSocket-Version: 13\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let head = read_until(&mut stream, "\r\n\r\n")?;
    ensure!(head.starts_with("HTTP/1.1 101"), "{head}");
    Ok(stream)
}

/// Reads until the text contains these words.
fn read_until(stream: &mut TcpStream, words: &str) -> anyhow::Result<String> {
    let (mut read, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let size = stream.read(&mut part).context(String::from_utf8_lossy(&read).into_owned())?;
        ensure!(size > 0, "the app closed the connection: {}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&part[..size]);
        let text = String::from_utf8_lossy(&read);
        if text.contains(words) {
            return Ok(text.into_owned());
        }
    }
}

#[test]
#[ignore = "make ryu runs it"]
fn simple_switch_websocket_13_of_ryu() {
    let shows = "a WebSocket receives the packets";
    with_app("simple_switch_websocket_13", Of::V1_3, "", shows, |_, net| {
        let mut stream = websocket("/simpleswitch/ws")?;
        reaches(net)?;
        let seen = read_until(&mut stream, "arp(")?;
        ensure!(seen.contains(&net.h1.mac()), "{seen}");
        stream.shutdown(Shutdown::Both)?;
        Ok(())
    });
}

#[test]
#[ignore = "make ryu runs it"]
fn ws_topology_of_ryu() {
    let shows = "a WebSocket receives new links";
    with_app("ws_topology", Of::V1_3, "observe-links = \"true\"", shows, |lab, _| {
        let mut stream = websocket("/v1.0/topology/ws")?;
        let (s2, s3) = (lab.switch("s2", Of::V1_3)?, lab.switch("s3", Of::V1_3)?);
        s2.link_to(&s3)?;
        read_until(&mut stream, "event_switch_enter")?;
        Ok(())
    });
}

#[test]
#[ignore = "make ryu runs it"]
fn rest_topology_of_ryu() {
    let shows = "its interface lists switches, ports and the links between them";
    with_app("rest_topology", Of::V1_3, "observe-links = \"true\"", shows, |lab, net| {
        let s2 = lab.switch("s2", Of::V1_3)?;
        net.s1.link_to(&s2)?;
        let links = lab.wait_for("both directions of the link are found", WHILE, |evidence| {
            evidence.0 = http(lab, "GET", "/v1.0/topology/links", "").unwrap_or_default();
            Ok((evidence.0.matches("\"src\"").count() == 2).then(|| evidence.0.clone()))
        })?;
        ensure!(links.contains("s1-s2") && links.contains("s2-s1"), "{links}");
        let switches = http(lab, "GET", "/v1.0/topology/switches", "")?;
        ensure!(switches.contains(&dpid(net)), "{switches}");
        Ok(())
    });
}

#[test]
#[ignore = "make ryu runs it"]
fn ofctl_rest_of_ryu() {
    let shows =
        "its interface writes, reads and deletes flows, groups and meters, and reads statistics";
    with_app("ofctl_rest", Of::V1_3, "", shows, |lab, net| {
        lab.wait_for("the app knows the switch", WHILE, |evidence| {
            evidence.0 = http(lab, "GET", "/stats/switches", "").unwrap_or_default();
            Ok((evidence.0 == "[1]").then_some(()))
        })?;
        let group = r#"{"dpid":1,"type":"ALL","group_id":7,"buckets":[{"actions":[{"type":"OUTPUT","port":2}]}]}"#;
        http(lab, "POST", "/stats/groupentry/add", group)?;
        let meter =
            r#"{"dpid":1,"flags":"KBPS","meter_id":3,"bands":[{"type":"DROP","rate":1000}]}"#;
        http(lab, "POST", "/stats/meterentry/add", meter)?;
        let flow = r#"{"dpid":1,"cookie":5,"priority":11111,"match":{"in_port":1},"actions":[{"type":"GROUP","group_id":7}]}"#;
        http(lab, "POST", "/stats/flowentry/add", flow)?;
        let flows = http(lab, "GET", "/stats/flow/1", "")?;
        ensure!(flows.contains("\"priority\": 11111") && flows.contains("GROUP:7"), "{flows}");
        ensure!(flows.contains("\"cookie\": 5,"), "{flows}");
        let groups = http(lab, "GET", "/stats/groupdesc/1", "")?;
        ensure!(groups.contains("\"group_id\": 7"), "{groups}");
        let meters = http(lab, "GET", "/stats/meterconfig/1", "")?;
        ensure!(meters.contains("\"meter_id\": 3"), "{meters}");
        ensure!(http(lab, "GET", "/stats/port/1", "")?.contains("rx_packets"));
        ensure!(http(lab, "GET", "/stats/desc/1", "")?.contains("Open vSwitch"));
        ensure!(http(lab, "GET", "/stats/role/1", "")?.contains("EQUAL"));
        http(lab, "DELETE", "/stats/flowentry/clear/1", "")?;
        let flows = http(lab, "GET", "/stats/flow/1", "")?;
        ensure!(flows == r#"{"1": []}"#, "{flows}");
        let left = net.s1.dump_flows()?;
        ensure!(
            left.iter().any(|flow| flow.contains("actions=CONTROLLER")),
            "the kernel's flow stays: {left:?}"
        );
        Ok(())
    });
}

#[test]
#[ignore = "make ryu runs it"]
fn rest_firewall_of_ryu() {
    let shows = "hosts reach each other after rules allow it, and not before";
    with_app("rest_firewall", Of::V1_3, "", shows, |lab, net| {
        net.rosemary.wait_for_log(&["Join as firewall."], WHILE)?;
        let dpid = dpid(net);
        http(lab, "PUT", &format!("/firewall/module/enable/{dpid}"), "")?;
        ensure!(http(lab, "GET", "/firewall/module/status", "")?.contains("\"enable\""));
        ensure!(net.h1.ping(&net.h2, 3, INTERVAL)?.received == 0, "nothing is allowed yet");
        for (from, to) in [(&net.h1, &net.h2), (&net.h2, &net.h1)] {
            let rule = format!(
                r#"{{"nw_src":"{}/32","nw_dst":"{}/32","nw_proto":"ICMP"}}"#,
                from.address(),
                to.address()
            );
            let answer = http(lab, "POST", &format!("/firewall/rules/{dpid}"), &rule)?;
            ensure!(answer.contains("success"), "{answer}");
        }
        reaches(net)?;
        ensure!(net.h1.ping(&net.h3, 3, INTERVAL)?.received == 0, "h3 is not allowed");
        let rules = http(lab, "GET", &format!("/firewall/rules/{dpid}"), "")?;
        ensure!(rules.matches("\"rule_id\"").count() == 2, "{rules}");
        Ok(())
    });
}

#[test]
#[ignore = "make ryu runs it"]
fn rest_router_of_ryu() {
    let shows =
        "hosts in two networks reach each other over two routers, by a static and a default route";
    with_app("rest_router", Of::V1_3, "", shows, |lab, net| {
        let s2 = lab.switch_without_controller("s2", Of::V1_3)?;
        let far = lab.host("h4", &s2)?;
        net.s1.link_to(&s2)?;
        net.s1.connect_to("tcp:127.0.0.1:6633")?; // again, with the new port
        s2.connect()?;
        lab.wait_for("three routers have joined", WHILE, |evidence| {
            evidence.0 = net.rosemary.log();
            Ok((evidence.0.matches("Join as router.").count() == 3).then_some(()))
        })?;

        let ids = [dpid(net), s2.dpid().replace(':', "")];
        for (router, settings) in [
            (0, r#"{"address":"10.0.0.254/24"}"#),
            (0, r#"{"address":"10.0.9.1/24"}"#),
            (1, r#"{"address":"10.0.1.254/24"}"#),
            (1, r#"{"address":"10.0.9.2/24"}"#),
            (0, r#"{"destination":"10.0.1.0/24","gateway":"10.0.9.2"}"#),
            (1, r#"{"gateway":"10.0.9.1"}"#),
        ] {
            let answer = http(lab, "POST", &format!("/router/{}", ids[router]), settings)?;
            ensure!(answer.contains("success"), "{settings}: {answer}");
        }
        far.run("ip", &["address", "flush", "dev", "eth0"])?;
        far.run("ip", &["address", "add", "10.0.1.4/24", "dev", "eth0"])?;
        for (host, gateway) in [(&net.h1, "10.0.0.254"), (&far, "10.0.1.254")] {
            host.run("ip", &["route", "add", "default", "via", gateway])?;
        }
        lab.wait_for("h1 reaches h4", WHILE, |evidence| {
            let ping = net.h1.run("ping", &["-c", "1", "-W", "2", "10.0.1.4"]);
            evidence.0 = format!("{ping:?}");
            Ok(ping.is_ok().then_some(()))
        })?;
        let last = net.h1.run("ping", &["-c", "10", "-i", "0.2", "-W", "2", "10.0.1.4"])?;
        ensure!(last.contains("10 received") && last.contains("ttl=62"), "{last}");
        Ok(())
    });
}

/// A file that starts `rest_qos` and the app that tells it the address of the database, in one process.
const QOS: &str = "from ryu.base import app_manager\n\
                   app_manager.require_app('ryu.app.rest_qos')\n\
                   app_manager.require_app('ryu.app.rest_conf_switch')\n\n\n\
                   class Qos(app_manager.RyuApp):\n    \
                   pass\n";

/// Returns the `QoS` of a port as `ovs-vsctl` shows it; `None` if it has none.
fn qos_of(lab: &Lab, port: &str) -> Option<String> {
    let qos = vsctl(lab, &["get", "port", port, "qos"]).ok()?;
    let qos = qos.trim();
    (qos != "[]").then(|| vsctl(lab, &["list", "qos", qos]).ok())?
}

/// Runs `rest_qos` and `rest_conf_switch` with a real database, and notes what they have shown.
#[test]
#[ignore = "make ryu runs it"]
fn rest_qos_and_rest_conf_switch_of_ryu() {
    let dir = ryu::install().expect("Ryu is there");
    let packages = dir.clone();
    in_a_lab_for(LIMIT, move |lab| {
        fs::write("/etc/rosemary/qos.py", QOS)?;
        let database = "[[ovsdb]]\nname = \"edge\"\naddress = \"tcp:127.0.0.1:6640\"\n";
        let rights = "\"ovsdb.read\", \"ovsdb.write:edge:s1:QoS\", \"ovsdb.write:edge:s1:Queue\", \
                      \"ovsdb.write:edge:s1:Port.qos\"]";
        let app = format!(
            "[[app]]\nname = \"qos\"\nobject = \"/etc/rosemary/qos.py\"\nhost = \"ryu\"\n\
             python-path = [\"{}\"]\nservices = [\"ovsdb\"]\ncapabilities = {}, {rights}\n\
             listen = [\"wsapi=127.0.0.1:{PORT}\"]\noptions = {{ wsapi-port = \"{PORT}\" }}\n",
            packages.display(),
            ryu::CAPABILITIES.trim_end_matches(']')
        );
        let other = "[[app]]\nname = \"learning-switch\"\nstage = \"observe\"\n";
        vsctl(lab, &["set-manager", "ptcp:6640:127.0.0.1"])?;
        let entries = [database.to_owned(), app, other.to_owned()];
        let mut net = start(lab, Of::V1_3, &entries)?;
        let outcome = queues_and_rules(lab, &mut net);
        outcome.with_context(|| format!("the log was:\n{}", net.rosemary.log()))?;

        // The rows of the app go with it.
        fs::write(CONFIG, [database, other].concat())?;
        super::super::ovsdb::rosemary(lab, &["reload"])?;
        lab.wait_for("the rows are removed", WHILE, |evidence| {
            evidence.0 = vsctl(lab, &["--columns=external_ids", "list", "qos"])?;
            Ok(evidence.0.trim().is_empty().then_some(()))
        })?;
        Ok(())
    });
    let shows = "its interface makes and deletes queues of ports, and a rule puts packets into a queue \
                 ([databases](ryu.md#databases-of-switches))";
    ryu::note(&dir, "rest_qos", "1.3", shows).expect("the result is noted");
    let shows = "its interface stores and returns settings, and connects `rest_qos` to the database of a switch";
    ryu::note(&dir, "rest_conf_switch", "1.3", shows).expect("the result is noted");
}

fn queues_and_rules(lab: &Lab, net: &mut Net<'_>) -> anyhow::Result<()> {
    net.rosemary.wait_for_log(&["Join qos switch."], WHILE)?;
    let dpid = dpid(net);
    let address = format!("/v1.0/conf/switches/{dpid}/ovsdb_addr");
    http(lab, "PUT", &address, "\"tcp:127.0.0.1:6640\"")?;
    let value = http(lab, "GET", &address, "")?;
    ensure!(value == "\"tcp:127.0.0.1:6640\"", "{value}");

    let ports = vsctl(lab, &["list-ports", "s1"])?;
    let port = ports.lines().next().context("the switch has ports")?;
    let (queues, rules) = (format!("/qos/queue/{dpid}"), format!("/qos/rules/{dpid}"));
    let body = format!(
        r#"{{"port_name":"{port}","type":"linux-htb","max_rate":"1000000","queues":[{{"max_rate":"500000"}},{{"min_rate":"800000"}}]}}"#
    );
    lab.wait_for("the queues are set", WHILE, |evidence| {
        evidence.0 = http(lab, "POST", &queues, &body)?;
        Ok(evidence.0.contains("success").then_some(()))
    })?;
    let qos = qos_of(lab, port).context("the port has a QoS")?;
    ensure!(qos.contains("linux-htb") && qos.contains("1000000") && qos.contains("/qos"), "{qos}");
    let made = vsctl(lab, &["--columns=other_config", "list", "queue"])?;
    ensure!(made.contains("500000") && made.contains("800000"), "{made}");
    ensure!(http(lab, "GET", &queues, "")?.contains("500000"), "the app lists its queues");

    let rule = r#"{"match":{"nw_dst":"10.0.0.1","nw_proto":"UDP","tp_dst":"5002"},"actions":{"queue":"1"}}"#;
    let answer = http(lab, "POST", &rules, rule)?;
    ensure!(answer.contains("success"), "{answer}");
    let flows = net.s1.dump_flows()?;
    ensure!(flows.iter().any(|flow| flow.contains("set_queue:1")), "{flows:#?}");
    ensure!(http(lab, "GET", &rules, "")?.contains("5002"), "the app lists its rule");

    // All ports, after the deletion of the first one's queues.
    ensure!(http(lab, "DELETE", &queues, "")?.contains("success"), "the queues are deleted");
    ensure!(qos_of(lab, port).is_none(), "{:?}", qos_of(lab, port));
    ensure!(vsctl(lab, &["list", "queue"])?.trim().is_empty(), "the queues are gone");
    let body = r#"{"queues":[{"max_rate":"300000"}]}"#;
    let answer = http(lab, "POST", &queues, body)?;
    ensure!(answer.contains("success"), "{answer}");
    for port in ports.lines() {
        ensure!(qos_of(lab, port).is_some(), "{port}");
    }
    Ok(())
}

#[test]
#[ignore = "make ryu runs it"]
fn simple_switch_stp_13_of_ryu() {
    with_app("simple_switch_stp_13", Of::V1_3, "", STP, spanning_tree);
}

#[test]
#[ignore = "make ryu runs it"]
fn simple_switch_stp_of_ryu() {
    // Its handler of packets calls `buffer`, which Python 3 does not have, so hosts do not reach each other. The spanning tree
    // is that of `ryu.lib.stplib`, which works.
    let shows =
        "a ring of three switches gets a spanning tree; its handler of packets needs Python 2";
    with_app("simple_switch_stp", Of::V1_0, "", shows, |lab, net| {
        let (s2, s3) = (lab.switch("s2", Of::V1_0)?, lab.switch("s3", Of::V1_0)?);
        ring(net, &s2, &s3)?;
        net.rosemary.wait_for_log(&["NON_DESIGNATED_PORT / BLOCK"], WHILE)?;
        net.rosemary.wait_for_log(&["ROOT_PORT           / FORWARD"], FORWARD_DELAYS + WHILE)?;
        net.h1.ping(&net.h2, 2, INTERVAL)?;
        net.rosemary.wait_for_log(&["NameError: name \\'buffer\\' is not defined"], WHILE)?;
        let log = net.rosemary.log();
        ensure!(!log.contains("has lost its flows"), "its own deletes count as a loss");
        Ok(())
    });
}

/// Two forward delays, while ports neither learn nor forward (IEEE 802.1D), and some time to elect a root.
const FORWARD_DELAYS: Duration = Duration::from_secs(40);

const STP: &str = "hosts in a ring of three switches reach each other, without a storm";

/// Links three switches to a ring.
fn ring(net: &Net<'_>, s2: &Switch<'_>, s3: &Switch<'_>) -> anyhow::Result<()> {
    net.s1.link_to(s2)?;
    s2.link_to(s3)?;
    s3.link_to(&net.s1)?;
    Ok(())
}

fn spanning_tree(lab: &Lab, net: &mut Net<'_>) -> anyhow::Result<()> {
    let of = net.s1.of();
    let (s2, s3) = (lab.switch("s2", of)?, lab.switch("s3", of)?);
    let far = lab.host("h4", &s2)?;
    ring(net, &s2, &s3)?;
    lab.wait_for("h1 reaches h4", FORWARD_DELAYS + WHILE, |evidence| {
        let ping = net.h1.ping(&far, 3, INTERVAL)?;
        evidence.0 = format!("{ping:?}");
        Ok((ping.received > 0).then_some(()))
    })?;
    let watch = net.h3.watch()?;
    net.h1.ping(&net.h2, 2, INTERVAL)?;
    let broadcasts = watch.seen(&["ff:ff:ff:ff:ff:ff"]).len();
    ensure!(broadcasts < 10, "{broadcasts} broadcasts reached h3: a storm");
    Ok(())
}

/// Sends a frame from a host, given in hexadecimal digits.
fn send_frame(host: &cli::lab::Host<'_>, frame: &str) -> anyhow::Result<()> {
    let script = format!(
        "import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('eth0', 0)); \
         s.send(bytes.fromhex('{frame}'))"
    );
    host.run("python3", &["-c", &script])?;
    Ok(())
}

#[test]
#[ignore = "make ryu runs it"]
fn simple_switch_lacp_13_of_ryu() {
    with_app("simple_switch_lacp_13", Of::V1_3, "", LACP, lacp);
}

#[test]
#[ignore = "make ryu runs it"]
fn simple_switch_lacp_of_ryu() {
    with_app("simple_switch_lacp", Of::V1_0, "", LACP, lacp);
}

const LACP: &str = "a bonding host's LACP frame is answered";

fn lacp(lab: &Lab, net: &mut Net<'_>) -> anyhow::Result<()> {
    let watch = net.h1.watch()?;
    // IEEE 802.1AX §6.4.2: version 1, the actor is active, aggregates, is in sync and wants fast frames.
    let actor = format!("0114ffff{}0001ff0000010f000000", net.h1.mac().replace(':', ""));
    let partner = format!("0214{}", "00".repeat(18));
    let collector = format!("0310{}", "00".repeat(14));
    let frame = format!(
        "0180c2000002{}88090101{actor}{partner}{collector}0000{}",
        net.h1.mac().replace(':', ""),
        "00".repeat(50)
    );
    lab.wait_for("an LACP frame comes back", WHILE, |evidence| {
        if let Err(error) = send_frame(&net.h1, &frame) {
            evidence.0 = format!("{error:#}");
        }
        std::thread::sleep(Duration::from_millis(500));
        Ok((!watch.seen(&["LACP"]).is_empty()).then_some(()))
    })?;
    net.rosemary.wait_for_log(&["LACP received"], WHILE)?;
    Ok(())
}

#[test]
#[ignore = "make ryu runs it"]
fn simple_switch_igmp_13_of_ryu() {
    with_app("simple_switch_igmp_13", Of::V1_3, "", IGMP, igmp);
}

#[test]
#[ignore = "make ryu runs it"]
fn simple_switch_igmp_of_ryu() {
    // Its handler of packets calls `buffer`, which Python 3 does not have, so hosts do not reach each other.
    with_app("simple_switch_igmp", Of::V1_0, "", "hosts receive its IGMP queries", |_, net| {
        net.h1.watch()?.wait_for(&["igmp query"], WHILE * 3)?;
        Ok(())
    });
}

const IGMP: &str = "hosts receive its IGMP queries, and reach each other";

fn igmp(_: &Lab, net: &mut Net<'_>) -> anyhow::Result<()> {
    let watch = net.h1.watch()?;
    watch.wait_for(&["igmp query"], WHILE)?;
    reaches(net)
}
