//! `rosemary.toml`: several apps, and app numbers that persist across runs.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use control::operator::AppStatus;
use rosemary_tests::apps::in_c;
use rosemary_tests::net::{APP, INTERVAL, Net, SOON};
use rosemary_tests::{in_a_lab, over_versions, rosemary_binary};
use rustix::process::Signal;

/// The configuration of root's Rosemary.
const CONFIG: &str = "/etc/rosemary/rosemary.toml";

const SWITCH: &str = "[[app]]\nname = \"learning-switch\"\n";

over_versions!(two_apps_receive_packet_ins, |of| in_a_lab(
    move |lab| two_apps_both_get_packet_ins(lab, of)
));

#[test]
fn flows_behind_a_guard_are_in_their_apps_band() {
    in_a_lab(|lab| {
        let guard = watcher(lab)?.replace("\"observe\"", "\"guard\"");
        fs::write(CONFIG, [SWITCH, &guard].concat())?;
        let mut net = Net::start(lab, Of::V1_0)?;
        assert_eq!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost(), 0);
        net.rosemary.wait_for_log(&["watcher", "saw a packet on port 1"], SOON)?;
        let flows = net.flows_to(&net.h2)?;
        println!("{}", flows.join("\n"));
        // The first control app's band, and the learning switch's own priority of 1.
        assert!(flows.len() == 1 && flows[0].contains("priority=45057,"), "{flows:?}");
        Ok(())
    });
}

#[test]
fn app_numbers_survive_reordering() {
    in_a_lab(|lab| {
        let watcher = watcher(lab)?;
        let orders = [[SWITCH, &watcher], [&watcher, SWITCH]];
        let mut seen = Vec::new();
        for order in orders {
            fs::write(CONFIG, order.concat())?;
            let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
            seen.push(numbers(&mut rosemary)?);
            rosemary.stop(Signal::KILL)?;
        }
        let mut only = Rosemary::start(lab, &rosemary_binary(), &["--app", "watcher:user"])?;
        let [first, mut second] = <[_; 2]>::try_from(seen).expect("two orders");
        // An installation has a random first number.
        let number = first[0].1;
        assert_eq!(first, [(APP.to_owned(), number), ("watcher".to_owned(), number + 1)]);
        assert_eq!(numbers(&mut only)?, first[1..]);
        second.reverse();
        assert_eq!(first, second);
        Ok(())
    });
}

#[test]
fn configuration_sets_tls_policy_and_key_directory() {
    in_a_lab(|lab| {
        fs::write(CONFIG, "[controller]\nplain = \"never\"\ntls-dir = \"keys\"\n")?;
        let rosemary = rosemary_binary().display().to_string();
        let refused = lab.run(&rosemary, &["up"]).expect_err("the configured keys are missing");
        assert!(refused.to_string().contains("/etc/rosemary/keys"), "{refused}");
        lab.run(&rosemary, &["pki", "init"])?;
        let mut up = Rosemary::start(lab, &rosemary_binary(), &[])?;
        up.wait_for_log(&["TLS was set up", "/etc/rosemary/keys"], SOON)?;
        let mut plain = TcpStream::connect("127.0.0.1:6653")?;
        plain.set_read_timeout(Some(SOON))?;
        plain.write_all(&[4, 0, 0, 8, 0, 0, 0, 1])?; // a hello
        let mut answer = Vec::new();
        let _ = plain.read_to_end(&mut answer); // closed, or reset because the hello was not read
        assert_eq!(answer, [0; 0], "not even a hello");
        Ok(())
    });
}

fn two_apps_both_get_packet_ins(lab: &Lab, of: Of) -> anyhow::Result<()> {
    fs::write(CONFIG, [SWITCH, &watcher(lab)?].concat())?;
    let mut net = Net::start(lab, of)?;
    assert_eq!(net.h1.ping(&net.h2, 5, INTERVAL)?.lost(), 0);
    assert_eq!(net.flows_to(&net.h2)?.len(), 1, "the learning switch got it");
    for port in [net.h1.port(), net.h2.port()] {
        let saw = format!("saw a packet on port {port}");
        println!("{}", net.rosemary.wait_for_log(&["watcher", &saw], SOON)?);
    }

    let apps = lab.run(&rosemary_binary().display().to_string(), &["apps", "--wide"])?;
    println!("{apps}");
    let line = |name: &str| apps.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    ensure!(line("learning-switch").contains("control  1-65535"), "{apps}");
    ensure!(line("watcher").contains("observe  -"), "{apps}");
    let json = lab.run(&rosemary_binary().display().to_string(), &["apps", "--json"])?;
    let apps: Vec<AppStatus> = serde_json::from_str(&json)?;
    let sum = lab.run("sha256sum", &[&object(lab).display().to_string()])?;
    let watcher = apps.iter().find(|app| app.name == "watcher").context("the app is listed")?;
    assert_eq!(watcher.sha256.as_deref(), sum.split_whitespace().next());
    assert_eq!(watcher.version.as_deref(), Some("0.1.0"));
    assert_ne!(apps[0].uid, apps[1].uid, "a user each");

    let switches = lab.run(&rosemary_binary().display().to_string(), &["switches", "--json"])?;
    let switches: Vec<control::query::SwitchStatus> = serde_json::from_str(&switches)?;
    assert_eq!((switches.len(), &switches[0].version), (1, &of.to_string()));
    assert_eq!(net.switch_status()?.refused, 0);
    Ok(())
}

fn numbers(rosemary: &mut Rosemary<'_>) -> anyhow::Result<Vec<(String, u16)>> {
    let status = rosemary.wait_for("it answers", SOON, |status| Some(status.clone()))?;
    Ok(status.programs.apps.into_iter().map(|app| (app.name, app.number)).collect())
}

fn object(lab: &Lab) -> PathBuf {
    lab.files().join("watcher.so")
}

/// Builds the observing app; returns its configuration entry.
fn watcher(lab: &Lab) -> anyhow::Result<String> {
    Ok(in_c(lab, "watcher", "apps/watcher.c", "stage = \"observe\"")?)
}
