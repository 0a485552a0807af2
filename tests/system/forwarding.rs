//! Tests `forwarding` in topologies with loops: every first ping arrives, nothing storms, and links may fail.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary};
use rosemary_tests::apps::configure;
use rosemary_tests::capture::is_installed;
use rosemary_tests::net::{INTERVAL, SOON};
use rosemary_tests::{
    in_a_lab, in_a_lab_without_capture_for, kill, mininet, rosemary_binary, skip,
};

const LIMIT: Duration = Duration::from_secs(200);

/// The versions that run in each topology.
const VERSIONS: [Of; 4] = [Of::V1_3, Of::V1_0, Of::V1_4, Of::V1_5];

/// Runs commands in Mininet with `--app forwarding`; `None` without Mininet.
fn forwarding(
    lab: &Lab,
    of: Of,
    topo: &str,
    commands: &[String],
) -> anyhow::Result<Option<String>> {
    with_app(lab, of, topo, commands, "forwarding")
}

fn with_app(
    lab: &Lab,
    of: Of,
    topo: &str,
    commands: &[String],
    app: &str,
) -> anyhow::Result<Option<String>> {
    if !is_installed("mn") {
        skip(&anyhow::anyhow!("Mininet is not installed; type: apt-get install mininet"));
        return Ok(None);
    }
    lab.start_open_vswitch()?;
    let rosemary = Rosemary::start(lab, &rosemary_binary(), &["--app", app])?;
    let said = mininet::run(lab, of, topo, commands, 190);
    let said = said.with_context(|| format!("the log of Rosemary:\n{}", rosemary.log()))?;
    println!("{said}");
    let log = rosemary.log();
    println!("{log}");
    let mut connected = log.lines().filter(|line| line.contains("switch connected")).peekable();
    ensure!(connected.peek().is_some(), "no switch has connected");
    let version = format!("version={of} ");
    ensure!(connected.all(|line| line.contains(&version)), "a switch speaks another version");
    Ok(Some(said))
}

/// Commands that give each host an IPv6 address and ping each from each.
fn ping_all_v6(hosts: usize) -> Vec<String> {
    let address = |n| format!("h{n} ip -6 address add fd00::{n}/64 dev h{n}-eth0 nodad");
    let pings = |n| {
        let all = (1..=hosts).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        format!("h{n} for i in {all}; do ping -6 -c1 -W8 fd00::$i | grep received; done")
    };
    (1..=hosts).map(address).chain((1..=hosts).map(pings)).collect()
}

/// A command that prints `NAME COUNT`, the packets that all switches have sent.
fn count_packets(name: &str) -> String {
    // The eleventh column of /proc/net/dev.
    format!(
        "sh awk '/s[0-9x]*-eth/ {{ sum += $11 }} END {{ print \"{name}\", sum }}' /proc/net/dev"
    )
}

/// Reads the number after a word at the begin of a line.
fn number(said: &str, name: &str) -> anyhow::Result<u64> {
    let line =
        said.lines().find_map(|line| line.trim_start_matches("mininet> ").strip_prefix(name));
    line.and_then(|rest| rest.trim().parse().ok()).with_context(|| format!("no {name} in: {said}"))
}

/// Returns the longest run of requests of `ping` without a reply, as time. The clock would count the load of the machine, too.
fn longest_outage(said: &str, interval: Duration) -> anyhow::Result<Duration> {
    let number = |line: &str| -> Option<u32> {
        line.split_once("icmp_seq=")?.1.split_whitespace().next()?.parse().ok()
    };
    let replies: Vec<u32> = said.lines().filter_map(number).collect();
    ensure!(replies.len() > 100, "{} replies: {said}", replies.len());
    let longest = replies.windows(2).map(|pair| pair[1].saturating_sub(pair[0] + 1)).max();
    Ok(interval * longest.unwrap_or(0))
}

/// What must hold in every topology.
fn reaches_all(lab: &Lab, of: Of, topo: &str, hosts: usize) -> anyhow::Result<()> {
    let mut commands = vec!["pingall".to_owned(), count_packets("AFTER")];
    commands.push("sh sleep 2".to_owned());
    commands.push(count_packets("LATER"));
    commands.extend(ping_all_v6(hosts));
    commands.push(count_packets("END"));
    let Some(said) = forwarding(lab, of, topo, &commands)? else { return Ok(()) };
    check_reach(&said, hosts, 1)
}

/// Checks the output of this number of `pingall`, of IPv6 pings, and of the counts of packets.
fn check_reach(said: &str, hosts: usize, pingalls: usize) -> anyhow::Result<()> {
    mininet::nothing_was_dropped(said, pingalls)?;
    let v6 = said.matches("1 received").count();
    ensure!(v6 == hosts * hosts, "IPv6: {v6} of {}: {said}", hosts * hosts);
    let [after, later, end] = ["AFTER", "LATER", "END"].map(|name| number(said, name));
    let (after, later, end) = (after?, later?, end?);
    println!("packets of all switches: {after} after pingall, {later} later, {end} at the end");
    let pairs = (hosts * hosts) as u64;
    ensure!(later - after < 400, "{} packets in 2 s without traffic", later - after);
    ensure!(end < pairs * 200 + 4000, "{end} packets for {pairs} pairs twice");
    Ok(())
}

#[test]
fn ring_of_six_loses_nothing_and_survives_a_cut_in_1_3() {
    in_a_lab_without_capture_for(LIMIT, |lab| ring(lab, Of::V1_3, Duration::from_millis(50)));
}

#[test]
#[ignore = "half a minute or more: make soak runs it"]
fn ring_of_six_loses_nothing_and_survives_a_cut_in_other_versions() {
    let promised = |of| Duration::from_millis(if of == Of::V1_0 { 300 } else { 50 });
    for of in VERSIONS.into_iter().filter(|of| *of != Of::V1_3) {
        in_a_lab_without_capture_for(LIMIT, move |lab| ring(lab, of, promised(of)));
    }
}

/// `promised` is the longest outage that is promised on an idle machine.
fn ring(lab: &Lab, of: Of, promised: Duration) -> anyhow::Result<()> {
    let hosts = 6;
    let mut commands = vec!["pingall".to_owned(), count_packets("AFTER")];
    commands.push("sh sleep 2".to_owned());
    commands.push(count_packets("LATER"));
    commands.extend(ping_all_v6(hosts));
    commands.push(count_packets("END"));
    let file = lab.files().join("ping");
    // From h1 to h3 through s2, whose link to s3 fails.
    commands.push(format!("h1 ping -D -n -i 0.01 -c 500 10.0.0.3 > {} &", file.display()));
    commands.push("sh sleep 2".to_owned());
    commands.push("link s2 s3 down".to_owned());
    commands.push("sh sleep 4".to_owned());
    commands.push("pingall".to_owned());
    let Some(said) = forwarding(lab, of, "ring,6", &commands)? else { return Ok(()) };
    let pings = fs::read_to_string(&file)?;
    let outage = longest_outage(&pings, Duration::from_millis(10))?;
    println!("a link of the ring failed: {outage:?} without a reply over OpenFlow {of:?}");
    check_reach(&said, hosts, 2)?;
    ensure!(outage < promised * 10, "{outage:?}: {pings}");
    Ok(())
}

#[test]
#[ignore = "half a minute or more: make soak runs it"]
fn other_topologies_lose_nothing() {
    for (topo, hosts) in [("tree,3", 8), ("mesh,3", 9)] {
        for of in VERSIONS {
            in_a_lab_without_capture_for(LIMIT, move |lab| reaches_all(lab, of, topo, hosts));
        }
    }
}

#[test]
#[ignore = "half a minute or more: make soak runs it"]
fn torus_loses_nothing() {
    for of in VERSIONS {
        in_a_lab_without_capture_for(LIMIT, move |lab| {
            let commands = ["pingall".to_owned(), count_packets("END")];
            let said = forwarding(lab, of, "torus,3,3", &commands)?;
            let Some(said) = said else { return Ok(()) };
            mininet::nothing_was_dropped(&said, 1)?;
            let sent = number(&said, "END")?;
            println!("torus: {sent} packets of all switches for {} pings", 9 * 8);
            ensure!(sent < 20_000, "{sent} packets");
            Ok(())
        });
    }
}

#[test]
#[ignore = "half a minute or more: make soak runs it"]
fn learning_switch_stops_a_loop_with_an_incident() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let mut commands = vec!["h1 ping -c 3 -W 1 10.0.0.2".to_owned(), "sh sleep 3".to_owned()];
        commands.push(count_packets("AFTER"));
        commands.push("sh sleep 2".to_owned());
        commands.push(count_packets("LATER"));
        let said = with_app(lab, Of::V1_3, "ring,3", &commands, "learning-switch")?;
        let Some(said) = said else { return Ok(()) };
        let (after, later) = (number(&said, "AFTER")?, number(&said, "LATER")?);
        ensure!(later - after < 400, "the loop goes on: {} packets in 2 s", later - after);
        Ok(())
    });
}

/// The firewall before `forwarding`.
const FIREWALL: &str = "[[app]]\nname = \"firewall\"\nstage = \"guard\"\nfail = \"closed\"\n\
                        config = \"firewall.toml\"\n\
                        capabilities = [\"packet-in\", \"flow.write\", \"stats.read\"]\n\
                        [[app]]\nname = \"forwarding\"\n";

#[test]
fn denied_packet_never_arrives_with_the_firewall_killed() {
    in_a_lab(|lab| {
        configure(&[FIREWALL])?;
        fs::write(
            "/etc/rosemary/firewall.toml",
            "[[deny]]\nto = \"10.0.0.2\"\nprotocol = \"icmp\"\n",
        )?;
        let (s1, s2) = (lab.switch("s1", Of::V1_3)?, lab.switch("s2", Of::V1_3)?);
        let hosts = (lab.host("h1", &s1)?, lab.host("h2", &s2)?, lab.host("h3", &s2)?);
        let (h1, h2, h3) = &hosts;
        assert_eq!(h2.address(), "10.0.0.2");
        s1.link_to(&s2)?;
        for other in [h2, h3] {
            h1.knows(other)?;
            other.knows(h1)?;
        }
        let watch = h2.watch()?;
        // From before Rosemary starts until after its firewall was killed.
        let denied = h1.ping_in_background(h2, 500, INTERVAL)?;
        let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &[])?;
        lab.wait_for("h1 reaches h3", SOON * 2, |_| {
            Ok((h1.ping(h3, 1, INTERVAL)?.received == 1).then_some(()))
        })?;
        let mut allowed = h1.ping_in_background(h3, 200, INTERVAL)?;
        allowed.wait_for(20, SOON)?;
        let pid = rosemary.wait_for("it runs", SOON, |status| status.app("firewall")?.pid)?;
        kill(pid)?;
        rosemary.wait_for("the firewall runs again", SOON, |status| {
            status.app("firewall")?.pid.filter(|now| *now != pid)
        })?;
        let (denied, allowed) = (denied.finish()?, allowed.finish()?);
        assert_eq!(denied.received, 0, "{denied:?}");
        assert_eq!(watch.seen(&["> 10.0.0.2: ICMP echo request"]), [""; 0], "denied packets");
        ensure!(allowed.lost() == 0, "established traffic: {allowed:?}");
        Ok(())
    });
}
