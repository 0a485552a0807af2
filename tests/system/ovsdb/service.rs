//! The service of databases with real Open vSwitch: apps read ports, and own `QoS` and queues.

use std::fs::{self, Permissions};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary, database};
use cli::status::Report;
use control::operator::ProgramState;
use rosemary_tests::apps::{configure, in_c, in_python, in_rust};
use rosemary_tests::net::{INTERVAL, Net, SOON};
use rosemary_tests::pki::Pki;
use rosemary_tests::{in_a_lab, kill, rosemary_binary};

use super::hostile::{ATTACKS, serve};
use super::{rosemary, vsctl};

const FULL: &str = "[zones]\nrequire = \"full\"\n\n";

const EDGE: &str = "[[ovsdb]]\nname = \"edge\"\naddress = \"tcp:127.0.0.1:6640\"\n\n";

/// The service, and rights for all but the mirror.
const SHAPER: &str = "stage = \"observe\"\nservices = [\"ovsdb\"]\ncapabilities = [\"packet-in\", \"ovsdb.read\", \
                      \"ovsdb.write:edge:s1:QoS\", \"ovsdb.write:*:*:Queue\", \"ovsdb.write:edge:s1:Port.qos\"]";

/// The missing rights.
const MIRROR: [&str; 2] = ["ovsdb.write:edge:s1:Mirror", "ovsdb.write:edge:s1:Bridge.mirrors"];

fn shaper(keys: &str) -> String {
    in_rust("shaper", keys)
}

/// An app that uses no database.
fn observer() -> String {
    in_rust("observer", "stage = \"observe\"")
}

/// Adds a port to the switch `s1`, and lets the database listen.
fn prepare(lab: &Lab) -> anyhow::Result<()> {
    vsctl(lab, &["add-port", "s1", "p1", "--", "set", "interface", "p1", "type=dummy"])?;
    vsctl(lab, &["set-manager", "ptcp:6640:127.0.0.1"])?;
    lab.wait_for("the database listens", SOON, |_| {
        Ok(TcpStream::connect("127.0.0.1:6640").is_ok().then_some(()))
    })?;
    Ok(())
}

/// Returns the `QoS` of the port, and the queues that its owner has there; `None` if one is missing.
fn shape(lab: &Lab) -> anyhow::Result<Option<(String, Vec<String>)>> {
    let qos = vsctl(lab, &["get", "port", "p1", "qos"])?.trim().to_owned();
    if qos == "[]" {
        return Ok(None);
    }
    let queues = vsctl(lab, &["get", "qos", &qos, "queues:0", "queues:1"])?;
    let mut queues: Vec<String> = queues.lines().map(str::to_owned).collect();
    queues.sort();
    Ok(Some((qos, queues)))
}

fn wait_for_shape(lab: &Lab) -> anyhow::Result<(String, Vec<String>)> {
    Ok(lab.wait_for("the port has its QoS", SOON, |_| {
        Ok(shape(lab).ok().flatten()) // a row may be gone between two commands
    })?)
}

fn service(status: &Report) -> Option<(u32, u64)> {
    let service = status.programs.services.iter().find(|it| it.name == "ovsdb")?;
    (service.state == ProgramState::Running).then_some((service.pid?, service.restarts))
}

/// Waits until no row names an owner.
fn wait_until_removed(lab: &Lab) -> anyhow::Result<()> {
    lab.wait_for("the rows are removed", SOON, |_| {
        let left = vsctl(lab, &["--bare", "--columns=_uuid", "list", "qos"]);
        let queues = vsctl(lab, &["--bare", "--columns=_uuid", "list", "queue"]);
        let is_empty = |rows: anyhow::Result<String>| rows.is_ok_and(|it| it.trim().is_empty());
        Ok((is_empty(left) && is_empty(queues)).then_some(()))
    })?;
    Ok(())
}

#[test]
fn app_reads_ports_and_owns_rows() {
    in_a_lab(|lab| {
        let _s1 = lab.switch_without_controller("s1", Of::V1_3)?;
        prepare(lab)?;
        configure(&[FULL, EDGE, &shaper(SHAPER), &observer()])?;
        let mut rosemary_up = Rosemary::start(lab, &rosemary_binary(), &[])?;
        rosemary_up.wait_for_log(&["shaper", "edge has Interface p1: Some("], SOON)?;

        // The database lacks only the row without a grant.
        let (qos, queues) = wait_for_shape(lab)?;
        rosemary_up.wait_for_log(&["shaper: refused watch", MIRROR[0], MIRROR[1]], SOON)?;
        rosemary_up.wait_for_log(&["denied an app", "ovsdb.write:edge:s1:Mirror"], SOON)?;
        let shown = vsctl(lab, &["get", "qos", &qos, "type", "other_config:max-rate"])?;
        ensure!(shown.contains("linux-htb") && shown.contains("1000000"), "{shown}");
        let owner = vsctl(lab, &["get", "qos", &qos, "external_ids:rosemary-owner"])?;
        ensure!(owner.trim().trim_matches('"').ends_with("/shaper"), "{owner}");
        ensure!(vsctl(lab, &["list", "mirror"])?.trim().is_empty(), "no mirror");

        // Foreign changes are repaired, and foreign rows stay.
        let foreign = vsctl(lab, &["create", "queue", "dscp=7"])?;
        let start = Instant::now();
        vsctl(lab, &["clear", "port", "p1", "qos", "--", "destroy", "qos", &qos])?;
        let (second, same) = wait_for_shape(lab)?;
        println!("repaired after {:?}", start.elapsed());
        ensure!(second != qos && same == queues, "{second} {same:?} {queues:?}");
        vsctl(lab, &["set", "queue", &queues[0], "other_config:max-rate=7"])?;
        lab.wait_for("the rate is repaired", SOON, |_| {
            let rate = vsctl(lab, &["get", "queue", &queues[0], "other_config:max-rate"]);
            Ok(rate.is_ok_and(|it| it.trim() != "\"7\"").then_some(()))
        })?;
        rosemary_up.wait_for_log(&["repaired rows", "edge", "shaper"], SOON)?;

        // The rows outlive the service and the app.
        let before = wait_for_shape(lab)?;
        let status = rosemary_up.status()?.context("it answers")?;
        kill(service(&status).context("it runs")?.0)?;
        rosemary_up.wait_for("the service runs again", SOON, |status| {
            service(status).filter(|(_, restarts)| *restarts == 1)
        })?;
        let status = rosemary_up.status()?.context("it answers")?;
        kill(status.app("shaper").and_then(|app| app.pid).context("it runs")?)?;
        rosemary_up.wait_for("the app runs again", SOON, |status| {
            status
                .app("shaper")
                .filter(|app| app.restarts == 1 && app.state == ProgramState::Running)?
                .pid
        })?;
        thread::sleep(Duration::from_millis(500));
        ensure!(shape(lab)? == Some(before), "the same rows");
        let log = rosemary_up.log();
        ensure!(!log.contains("removed the rows"), "{log}");

        // Without the app there are no rows of it.
        vsctl(lab, &["destroy", "queue", foreign.trim()])?;
        configure(&[FULL, EDGE, &observer()])?;
        let reload = rosemary(lab, &["reload"])?;
        ensure!(reload.status.success(), "{reload:?}");
        wait_until_removed(lab)?;
        rosemary_up.wait_for_log(&["removed the rows of an app that is gone", "shaper"], SOON)?;
        Ok(())
    });
}

/// Returns the queue with this number in the `QoS` of a port; `None` if there is none.
fn queue(lab: &Lab, port: &str, number: &str) -> Option<String> {
    let qos = vsctl(lab, &["get", "port", port, "qos"]).ok()?;
    let queue = vsctl(lab, &["get", "qos", qos.trim(), &format!("queues:{number}")]).ok()?;
    Some(queue.trim().to_owned())
}

#[test]
fn apps_in_c_and_python_own_rows() {
    in_a_lab(|lab| {
        let _s1 = lab.switch_without_controller("s1", Of::V1_3)?;
        prepare(lab)?;
        vsctl(lab, &["add-port", "s1", "p2", "--", "set", "interface", "p2", "type=dummy"])?;
        let c = in_c(lab, "in-c", "apps/queueing.c", SHAPER)?;
        let python = in_python("in-python", "apps/queueing.py", SHAPER);
        configure(&[FULL, EDGE, &c, &python, &observer()])?;
        let mut rosemary_up = Rosemary::start(lab, &rosemary_binary(), &[])?;
        for (app, port, number, rate) in
            [("in-c", "p1", "3", "300000"), ("in-python", "p2", "4", "400000")]
        {
            let queue = lab.wait_for(format!("{port} has the queue"), SOON, |_| {
                Ok(queue(lab, port, number))
            })?;
            let shown = vsctl(lab, &["get", "queue", &queue, "other_config:max-rate"])?;
            ensure!(shown.trim() == format!("\"{rate}\""), "{shown}");
            let owner = vsctl(lab, &["get", "queue", &queue, "external_ids:rosemary-owner"])?;
            let owner = owner.trim().trim_matches('"').to_owned();
            ensure!(owner.ends_with(&format!("/{app}")), "{owner}");
            // The apps know their owner's name, and the reason of what is missing.
            rosemary_up.wait_for_log(&[app, &format!("owner {owner}")], SOON)?;
            rosemary_up.wait_for_log(&[app, "refused watch", MIRROR[0], MIRROR[1]], SOON)?;
        }
        rosemary_up.wait_for_log(&["in-c", "a queue of", "/in-c"], SOON)?;
        rosemary_up.wait_for_log(&["in-c", "its rate is 300000"], SOON)?;
        rosemary_up.wait_for_log(&["in-python", "own queues: [{'max-rate': '400000'}]"], SOON)?;
        rosemary_up.wait_for_log(&["in-python", "refused as unknown-database: "], SOON)?;
        rosemary_up.wait_for_log(&["in-python", "refused as unknown-table: "], SOON)?;
        rosemary_up.wait_for_log(&["in-python", "changed: ", "QoS"], SOON)?;

        // Each app's rows go with it, and only these.
        configure(&[FULL, EDGE, &c, &observer()])?;
        ensure!(rosemary(lab, &["reload"])?.status.success(), "the configuration is reloaded");
        lab.wait_for("the rows of the app in Python are removed", SOON, |_| {
            Ok(vsctl(lab, &["get", "port", "p2", "qos"])
                .is_ok_and(|it| it.trim() == "[]")
                .then_some(()))
        })?;
        ensure!(queue(lab, "p1", "3").is_some(), "the rows of the app in C stay");
        configure(&[FULL, EDGE, &observer()])?;
        ensure!(rosemary(lab, &["reload"])?.status.success(), "the configuration is reloaded");
        wait_until_removed(lab)
    });
}

#[test]
fn rows_of_an_app_that_left_meanwhile_are_removed() {
    in_a_lab(|lab| {
        let _s1 = lab.switch_without_controller("s1", Of::V1_3)?;
        prepare(lab)?;
        configure(&[EDGE, &shaper(SHAPER), &observer()])?;
        let rosemary_up = Rosemary::start(lab, &rosemary_binary(), &[])?;
        wait_for_shape(lab)?;
        rosemary_up.stop(rustix::process::Signal::TERM)?;
        ensure!(shape(lab)?.is_some(), "rows stay while Rosemary does not run");
        configure(&[EDGE, &observer()])?;
        let rosemary_up = Rosemary::start(lab, &rosemary_binary(), &[])?;
        wait_until_removed(lab)?;
        rosemary_up.stop(rustix::process::Signal::TERM)?;
        // Without a database there is no process.
        configure(&[&observer()])?;
        let rosemary_up = Rosemary::start(lab, &rosemary_binary(), &[])?;
        let status = rosemary_up.status()?.context("it answers")?;
        ensure!(service(&status).is_none(), "{:?}", status.programs.services);
        Ok(())
    });
}

/// Runs Rosemary with the database at an address, and has it repair rows there.
fn rows_are_kept_at(lab: &Lab, address: &str) -> anyhow::Result<()> {
    let edge = format!("[[ovsdb]]\nname = \"edge\"\naddress = \"{address}\"\n\n");
    configure(&[FULL, &edge, &shaper(SHAPER)])?;
    let rosemary_up = Rosemary::start(lab, &rosemary_binary(), &[])?;
    let outcome = wait_for_shape(lab).and_then(|(qos, _)| {
        vsctl(lab, &["clear", "port", "p1", "qos", "--", "destroy", "qos", &qos])?;
        wait_for_shape(lab)
    });
    let log = rosemary_up.log();
    let (again, _) = outcome.with_context(|| format!("at {address}; the log was:\n{log}"))?;
    ensure!(!again.is_empty() && !log.contains("database was not connected"), "{log}");
    rosemary_up.stop(rustix::process::Signal::TERM)?;
    Ok(())
}

#[test]
fn rows_are_kept_over_tls_and_a_unix_socket() {
    in_a_lab(|lab| {
        let init = rosemary(lab, &["pki", "init"])?;
        ensure!(init.status.success(), "{init:?}");
        let s1 = lab.switch_without_controller("s1", Of::V1_3)?;
        let keys = Pki::default_dir(lab).switch("s1", &["--dpid", &s1.dpid()])?;
        let paths = [&keys.key, &keys.cert, &keys.ca_cert].map(|it| it.display().to_string());
        vsctl(lab, &["set-ssl", &paths[0], &paths[1], &paths[2]])?;
        vsctl(lab, &["add-port", "s1", "p1", "--", "set", "interface", "p1", "type=dummy"])?;
        vsctl(lab, &["set-manager", "pssl:6640:127.0.0.1"])?;
        lab.wait_for("the database listens", SOON, |_| {
            Ok(TcpStream::connect("127.0.0.1:6640").is_ok().then_some(()))
        })?;
        rows_are_kept_at(lab, "ssl:127.0.0.1:6640")?;
        // The service has a user of its own, which may open this socket.
        let address = database();
        let socket = Path::new(address.trim_start_matches("unix:"));
        fs::set_permissions(socket, Permissions::from_mode(0o777))?;
        rows_are_kept_at(lab, &address)?;
        Ok(())
    });
}

#[test]
fn hostile_database_harms_nothing_else() {
    in_a_lab(|lab| {
        // A database for each attack. Each begins with its attack and is silent afterwards; the last one is silent from the beginning.
        let attacks = ATTACKS.map(|(_, attack, _)| Some(attack)).into_iter().chain([None]);
        let (mut config, mut evil) = (vec![FULL.to_owned(), EDGE.to_owned()], Vec::new());
        for (number, attack) in attacks.enumerate() {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let address = listener.local_addr()?;
            config.push(format!(
                "[[ovsdb]]\nname = \"evil-{number}\"\naddress = \"tcp:{address}\"\n\n"
            ));
            evil.push((listener, attack));
        }
        config.extend([shaper(SHAPER), "[[app]]\nname = \"learning-switch\"\n".to_owned()]);
        configure(&config.iter().map(String::as_str).collect::<Vec<_>>())?;
        let mut net = Net::start(lab, Of::V1_3)?;
        prepare(lab)?;
        for (listener, attack) in evil {
            thread::spawn(move || {
                if let Some(attack) = attack {
                    let _ended = serve(&listener, attack);
                }
                let _silent: Vec<TcpStream> = listener.incoming().flatten().collect();
            });
        }
        net.h1.ping(&net.h2, 5, INTERVAL)?;
        let pinging = net.h1.ping_in_background(&net.h2, 20_000, INTERVAL)?;
        wait_for_shape(lab)?;
        for _ in 0..10 {
            let (qos, _) = wait_for_shape(lab)?;
            vsctl(lab, &["clear", "port", "p1", "qos", "--", "destroy", "qos", &qos])?;
            let start = Instant::now();
            wait_for_shape(lab)?;
            ensure!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
            thread::sleep(Duration::from_millis(300));
        }
        let report = pinging.end()?;
        ensure!(report.lost() == 0, "pings are lost: {report:?}");
        for (number, (_, _, why)) in ATTACKS.iter().enumerate() {
            let name = format!("database=\"evil-{number}\"");
            net.rosemary.wait_for_log(&["database was not connected", &name, why], SOON)?;
        }
        let status = net.rosemary.status()?.context("it answers")?;
        let (pid, restarts) = service(&status).context("it runs")?;
        ensure!(restarts == 0, "it was restarted {restarts} times");
        let memory = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let peak =
            memory.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("its peak")?;
        let peak: u64 = peak.trim().trim_end_matches(" kB").parse()?;
        println!("the service took {peak} KiB");
        ensure!(peak < 200 * 1024, "{peak} KiB");
        Ok(())
    });
}
