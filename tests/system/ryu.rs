//! Ryu's own apps, unmodified, on Open vSwitch: each does what its documentation shows.

mod all;
mod client;
mod own;
mod versions;

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use cli::lab::{Lab, Of, Rosemary};
use openflow::{FlowMod, Kind, PacketIn, PacketOut, PortNo, Version, append};
use rosemary_tests::developer::{self, Developer};
use rosemary_tests::fake::Fake;
use rosemary_tests::http::{APP_ROUTES, request_at};
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, kill, rosemary_binary, ryu};

/// Where the lab's own `/etc` has the configuration.
const CONFIG: &str = "/etc/rosemary/ryu.toml";

/// The port of web interfaces.
const PORT: u16 = 18080;

/// Starts Rosemary with these entries for apps, a switch and three hosts.
fn start<'lab>(lab: &'lab Lab, of: Of, entries: &[String]) -> anyhow::Result<Net<'lab>> {
    fs::write(CONFIG, entries.join("\n"))?;
    let rosemary = Rosemary::start(lab, &rosemary_binary(), &["--config", CONFIG])?;
    // Some apps, as rest_router, read the ports only when a switch connects.
    Ok(Net::with_known_ports(lab, of, rosemary)?)
}

/// Has a host ping another until all of some pings are answered: the first ones may be sent before the app has started.
fn reaches(net: &Net<'_>) -> anyhow::Result<()> {
    let mut last = None;
    for _ in 0..20 {
        let report = net.h1.ping(&net.h2, 3, INTERVAL)?;
        if report.lost() == 0 {
            return Ok(());
        }
        last = Some(report);
    }
    anyhow::bail!("h1 does not reach h2: {last:?}\n{}", net.rosemary.log())
}

/// Sends a request to an app's web interface and returns the answer.
fn http(lab: &Lab, method: &str, path: &str, body: &str) -> anyhow::Result<String> {
    let url = format!("http://127.0.0.1:{PORT}{path}");
    let args =
        ["--silent", "--show-error", "--max-time", "20", "--retry", "10", "--retry-connrefused"];
    let args = [&args[..], &["--request", method, "--data", body, &url]].concat();
    Ok(lab.run("curl", &args)?)
}

fn with_ryu(test: impl FnOnce(&Lab, &Path) -> anyhow::Result<()> + Send + 'static) {
    let ryu = ryu::install().expect("Ryu is there");
    in_a_lab(move |lab| test(lab, &ryu));
}

#[test]
fn simple_switch_13_of_ryu_learns_and_survives_its_end() {
    with_ryu(|lab, ryu| {
        let mut net = start(lab, Of::V1_3, &[ryu::entry(ryu, "simple_switch_13", "")])?;
        reaches(&net)?;
        for host in [&net.h1, &net.h2] {
            let flows = net.flows_to(host)?;
            assert_eq!(flows.len(), 1, "to {}: {flows:#?}", host.name());
        }
        let misses = net.s1.dump_flows()?;
        assert!(
            misses.iter().filter(|flow| flow.contains("CONTROLLER")).count() <= 1,
            "{misses:#?}"
        );
        // Killed and restarted, it receives the switch again, and goes on.
        let status = net.status()?;
        let pid = status.app("simple-switch-13").and_then(|app| app.pid).context("it runs")?;
        let pings = net.h1.ping_in_background(&net.h2, 100, INTERVAL)?;
        kill(pid)?;
        net.rosemary.wait_for("the app is back", SOON, |status| {
            status.app("simple-switch-13")?.pid.filter(|new| *new != pid)
        })?;
        assert_eq!(pings.finish()?.lost(), 0, "established flows stay");
        let other = net.h1.ping(&net.h3, 20, INTERVAL)?;
        assert!(other.received > 0, "{other:?}");
        assert_eq!(net.switch_status()?.refused, 0, "{}", net.rosemary.log());
        Ok(())
    });
}

#[test]
fn file_of_an_app_of_ryu_needs_no_configuration() {
    with_ryu(|lab, ryu| {
        let app = format!("{}:ryu", ryu.join("ryu/app/simple_switch_13.py").display());
        let mut net = Net::start_with(lab, Of::V1_3, &["--app", &app])?;
        reaches(&net)?;
        assert_eq!(net.switch_status()?.refused, 0, "{}", net.rosemary.log());
        Ok(())
    });
}

#[test]
fn verbose_logs_the_details_of_an_app_of_ryu() {
    in_a_lab(|lab| {
        let app = "/etc/rosemary/chatty.py";
        let source = "from ryu.base import app_manager\n\n\nclass Chatty(app_manager.RyuApp):\n    def __init__(self, *args, \
                      **kwargs):\n        super().__init__(*args, **kwargs)\n        self.logger.debug('a small detail')\n        \
                      self.logger.info('all of it')\n";
        fs::write(app, source)?;
        for (option, is_logged) in [("--verbose", true), ("--noverbose", false)] {
            let rosemary = rosemary_binary().display().to_string();
            fs::write(CONFIG, lab.run(&rosemary, &["ryu", "--print-config", option, app])?)?;
            let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &["--config", CONFIG])?;
            rosemary.wait_for_log(&["chatty: all of it"], SOON)?;
            let log = rosemary.log();
            assert_eq!(log.contains("chatty: a small detail"), is_logged, "{option}: {log}");
        }
        Ok(())
    });
}

#[test]
fn options_of_ryu_manager_reach_an_app_with_its_file() {
    in_a_lab(|lab| {
        let app = "/etc/rosemary/slow.py";
        let source = "from ryu import cfg\nfrom ryu.base import app_manager\n\ncfg.CONF.register_opts([cfg.IntOpt('poll', default=2)])\n\n\n\
                      class Slow(app_manager.RyuApp):\n    def __init__(self, *args, **kwargs):\n        \
                      super().__init__(*args, **kwargs)\n        \
                      self.logger.info('polls every %d, %s', cfg.CONF.poll, cfg.CONF.pid_file)\n";
        fs::write(app, source)?;
        fs::write("/etc/rosemary/ryu.conf", "[DEFAULT]\npoll = 17\n")?;
        let rosemary = rosemary_binary().display().to_string();
        let file = "--config-file=/etc/../etc/rosemary/ryu.conf";
        let numbers = ["default-log-level", "ofp-ssl-listen-port", "ofp-switch-connect-interval"];
        let texts = "pid-file log-dir log-file log-file-mode log-config-file ctl-privkey ctl-cert ca-certs ciphers";
        let options = numbers.into_iter().chain(texts.split(' ')).map(|it| format!("--{it}=20"));
        let options: Vec<String> =
            options.chain(["--ofp-switch-address-list=127.0.0.1:6633".into()]).collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let args = [&["ryu", "--print-config", file, "--app-lists", app], &*options].concat();
        fs::write(CONFIG, lab.run(&rosemary, &args)?)?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &["--config", CONFIG])?;
        rosemary.wait_for_log(&["slow: polls every 17, 20"], SOON)?;
        Ok(())
    });
}

#[test]
fn signed_package_of_an_app_of_ryu_installs_and_runs() {
    with_ryu(|lab, ryu| {
        let joe = Developer::new(lab, "joe")?;
        let dir = joe.dir("hub").display().to_string();
        developer::rosemary(lab, &["app", "new", "hub", "--python", "--dir", &dir])?;
        let app = joe.dir("hub").join("app.py");
        fs::write(app, fs::read(ryu.join("ryu/app/simple_switch_13.py"))?)?;
        let requested = ryu::CAPABILITIES.replace(", \"topology.probe\"", "");
        let manifest = format!("name = \"hub\"\nversion = \"0.1.0\"\ncapabilities = {requested}\n");
        fs::write(joe.dir("hub").join("app.toml"), manifest)?;
        let home = joe.home.display().to_string();
        let package = developer::rosemary(lab, &["app", "build", &dir, "--out", &home])?;
        let package = package.trim();
        joe.sign(lab, package)?;
        let trust =
            developer::entry("joe", &joe.public()?, &format!("capabilities = {requested}\n"));
        developer::trust(&[&trust], "")?;
        developer::rosemary(lab, &["app", "install", package])?;
        developer::trust(&[&trust], "[[app]]\nname = \"hub\"\nhost = \"ryu\"\n")?;
        let up = Rosemary::start_with(lab, &rosemary_binary(), &[])?;
        let net = Net::with_known_ports(lab, Of::V1_3, up)?;
        reaches(&net)?;
        let log = net.rosemary.log();
        assert!(!log.contains("UNSIGNED"), "{log}");
        Ok(())
    });
}

#[test]
fn simple_switch_rest_13_of_ryu_answers_requests() {
    with_ryu(|lab, ryu| {
        let listen = format!(
            "listen = [\"wsapi=127.0.0.1:{PORT}\"]\noptions = {{ wsapi-port = \"{PORT}\" }}"
        );
        let net = start(lab, Of::V1_3, &[ryu::entry(ryu, "simple_switch_rest_13", &listen)])?;
        reaches(&net)?;
        let dpid = net.s1.dpid().replace(':', "");
        let table = http(lab, "GET", &format!("/simpleswitch/mactable/{dpid}"), "")?;
        for host in [&net.h1, &net.h2] {
            assert!(table.contains(&format!("\"{}\": {}", host.mac(), host.port())), "{table}");
        }
        Ok(())
    });
}

#[test]
fn web_interface_of_an_app_of_ryu_needs_no_port() {
    with_ryu(|lab, ryu| {
        let entry = ryu::entry(ryu, "simple_switch_rest_13", "");
        let entry = entry.replace("\"topology.probe\"]", "\"topology.probe\", \"http.serve\"]");
        let net = start(lab, Of::V1_3, &[entry])?;
        reaches(&net)?;
        let dpid = net.s1.dpid().replace(':', "");
        let path = format!("/apps/simple-switch-rest-13/simpleswitch/mactable/{dpid}");
        let table = request_at(APP_ROUTES, ("GET", &path), &[], b"")?;
        let text = String::from_utf8_lossy(&table.body);
        for host in [&net.h1, &net.h2] {
            assert!(text.contains(&format!("\"{}\": {}", host.mac(), host.port())), "{table:?}");
        }
        assert_eq!(table.header("content-type"), Some("application/json"), "{table:?}");
        let unknown = request_at(APP_ROUTES, ("GET", "/apps/simple-switch-rest-13/x"), &[], b"")?;
        assert_eq!(unknown.status, 404, "{unknown:?}");
        Ok(())
    });
}

/// Writes the configuration that `rosemary ryu` makes for two of Ryu's apps, as two bundles.
fn two_bundles(lab: &Lab, ryu: &Path) -> anyhow::Result<()> {
    let rosemary = rosemary_binary().display().to_string();
    let path = format!("--python-path={}", ryu.display());
    let apps = ["ryu.app.simple_monitor_13", "ryu.app.simple_switch_13"];
    let args = [&["ryu", "--print-config", &path][..], &apps].concat();
    let config = lab.run(&rosemary, &args)?;
    assert_eq!(config.matches("[[app]]").count(), 2, "{config}");
    Ok(fs::write(CONFIG, config)?)
}

#[test]
fn two_bundles_of_ryu_share_a_switch() {
    with_ryu(|lab, ryu| {
        two_bundles(lab, ryu)?;
        let mut net = Net::start_with(lab, Of::V1_3, &["--config", CONFIG])?;
        reaches(&net)?;
        let in_port = net.h1.port().to_string();
        for app in ["simple-monitor-13", "simple-switch-13"] {
            // Both receive the packet-ins of one packet: datapath, source, destination and port.
            let words = ["packet in", &net.h1.mac(), &net.h2.mac(), &in_port, app];
            println!("{}", net.rosemary.wait_for_log(&words, SOON)?);
        }
        // Both add their flows, in bands of their own.
        for host in [&net.h1, &net.h2] {
            let flows = net.flows_to(host)?;
            let priorities: std::collections::BTreeSet<_> = flows
                .iter()
                .filter_map(|flow| flow.split_once("priority=")?.1.split(',').next())
                .collect();
            assert_eq!((flows.len(), priorities.len()), (2, 2), "to {}: {flows:#?}", host.name());
        }
        // The monitor prints the counters of ports, and of its own flows alone.
        net.rosemary.wait_for_log(&["simple-monitor-13", "in-port  eth-dst"], SOON)?;
        net.rosemary.wait_for_log(&["simple-monitor-13", "rx-pkts"], SOON)?;
        // The end of one does not concern the other.
        let pings = net.h1.ping_in_background(&net.h2, 60, INTERVAL)?;
        let status = net.status()?;
        kill(status.app("simple-monitor-13").and_then(|app| app.pid).context("it runs")?)?;
        let new = net.h3.ping(&net.h1, 10, INTERVAL)?;
        assert!(new.lost() <= 1, "{new:?}");
        assert_eq!(pings.finish()?.lost(), 0);
        let after = net.status()?;
        assert_eq!(after.app("simple-switch-13").map(|app| app.restarts), Some(0));
        Ok(())
    });
}

/// Open vSwitch keeps no packets in buffers, so a switch of the test does.
#[test]
fn buffered_packet_reaches_two_bundles_of_ryu_and_both_act() {
    with_ryu(|lab, ryu| {
        two_bundles(lab, ryu)?;
        let args = ["--config", CONFIG];
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &args)?;
        for app in ["simple-monitor-13", "simple-switch-13"] {
            rosemary.wait_for_log(&["app was connected to the kernel", app], SOON)?;
        }
        let mut fake = Fake::connect(Version::V1_3, 1)?;
        assert!(fake.answer_for(std::time::Duration::from_secs(2)), "{}", rosemary.log());
        rosemary.wait_for_log(&["switch connected", "dpid=00:00:00:00:00:00:00:01"], SOON)?;
        let frame = |to: u8, from: u8| {
            let mut frame = vec![0; 60];
            (frame[0], frame[5], frame[6], frame[11]) = (2, to, 2, from);
            frame[12..14].copy_from_slice(&[0x08, 0x00]);
            frame
        };
        let send = |fake: &mut Fake, port: u32, buffer: u32, frame: &[u8]| -> anyhow::Result<()> {
            let packet_in =
                PacketIn { buffer_id: Some(buffer), ..PacketIn::new(PortNo(port), frame) };
            let mut message = Vec::new();
            append(&mut message, |out| packet_in.encode(Version::V1_3, 0, out))?;
            fake.received.clear();
            fake.send(&message)?;
            assert!(fake.answer_for(std::time::Duration::from_secs(3)), "it is connected");
            Ok(())
        };
        let kinds = |fake: &Fake, wanted: Kind| -> Vec<Vec<u8>> {
            let is_it = |it: &&Vec<u8>| Kind::from_wire(Version::V1_3, it[1]).ok() == Some(wanted);
            fake.received.iter().filter(is_it).cloned().collect()
        };
        // An unknown destination: each floods. The first uses the buffer up.
        send(&mut fake, 1, 77, &frame(2, 1))?;
        let outs = kinds(&fake, Kind::PacketOut);
        let used: Vec<_> = outs
            .iter()
            .map(|it| PacketOut::decode(it).map(|it| it.buffer_id))
            .collect::<Result<_, _>>()?;
        assert_eq!(used, [Some(77)], "{}", rosemary.log());
        rosemary.wait_for_log(&["Rosemary refused a message", "its buffer was not given"], SOON)?;
        // A known one: each adds its flow, and one of them sends the packet.
        send(&mut fake, 2, 78, &frame(1, 2))?;
        let flows = kinds(&fake, Kind::FlowMod);
        let flows: Vec<_> = flows.iter().map(|it| FlowMod::decode(it)).collect::<Result<_, _>>()?;
        let mut buffers: Vec<_> = flows.iter().map(|it| it.buffer_id).collect();
        buffers.sort();
        assert_eq!(buffers, [None, Some(78)], "{flows:#?}\n{}", rosemary.log());
        assert_ne!(flows[0].priority, flows[1].priority);
        let same = flows.iter().all(|it| it.match_ == flows[0].match_);
        assert!(same && !flows[0].match_.is_empty(), "{flows:#?}");
        Ok(())
    });
}
