//! Hosts reach each other through flows of the learning switch.

use cli::lab::{Lab, Of};
use rosemary_tests::in_a_lab;
use rosemary_tests::net::{INTERVAL, Net, Over, SOON};
use rosemary_tests::over_versions;

over_versions!(hosts_ping_through_installed_flows_in_each_version, |of| in_a_lab(move |lab| {
    hosts_ping_through_installed_flows(lab, of, Over::Tcp)
}));

over_versions!(hosts_ping_through_installed_flows_and_tls, |of| in_a_lab(move |lab| {
    hosts_ping_through_installed_flows(lab, of, Over::Tls)
}));

over_versions!(unknown_destination_is_flooded_to_the_other_hosts, |of| in_a_lab(move |lab| {
    unknown_destination_is_flooded(lab, of)
}));

fn hosts_ping_through_installed_flows(lab: &Lab, of: Of, over: Over) -> anyhow::Result<()> {
    let mut net = Net::start_over_with(lab, of, over, &[])?;
    let switch = net.switch_status()?;
    assert_eq!(switch.transport.starts_with("tls"), over == Over::Tls, "{switch:?}");
    assert_eq!(switch.version, of.to_string());
    assert_eq!(switch.dpid, "00:00:00:00:00:00:00:01");

    let first = net.h1.ping(&net.h2, 5, INTERVAL)?;
    assert_eq!(first.lost(), 0, "{first:?}");
    let flows = net.s1.dump_flows()?;
    println!("{}", flows.join("\n"));
    for host in [&net.h1, &net.h2] {
        assert_eq!(net.flows_to(host)?.len(), 1, "to {}: {flows:#?}", host.name());
    }

    // With flows installed, packets no longer reach Rosemary.
    let before = net.switch_status()?;
    let more = net.h1.ping(&net.h2, 100, INTERVAL / 4)?;
    assert_eq!(more.lost(), 0, "{more:?}");
    let after = net.switch_status()?;
    let asked = after.packet_ins - before.packet_ins;
    println!("median {:?}; {asked} packet-ins for 100 pings", more.median_rtt());
    assert!(asked < 10, "{before:?} {after:?}");
    assert_eq!(after.refused, 0, "{after:?}");
    Ok(())
}

fn unknown_destination_is_flooded(lab: &Lab, of: Of) -> anyhow::Result<()> {
    let net = Net::start(lab, of)?;
    let (at_h1, at_h2, at_h3) = (net.h1.watch()?, net.h2.watch()?, net.h3.watch()?);
    // h3 has a static ARP entry for h2, so its first packet is unicast to an unknown host.
    net.h3.knows(&net.h2)?;
    let lost = net.h3.ping(&net.h2, 1, INTERVAL)?;
    assert_eq!(lost.sent, 1);
    let echo = ["10.0.0.3 > 10.0.0.2", "ICMP echo request"];
    println!("h1 saw: {}", at_h1.wait_for(&echo, SOON)?);
    println!("h2 saw: {}", at_h2.wait_for(&echo, SOON)?);
    assert_eq!(at_h3.seen(&echo), [""; 0], "not to where it came from");
    Ok(())
}

over_versions!(reserved_in_port_is_not_learned, |of| in_a_lab(move |lab| {
    host_behind_a_reserved_port_is_not_learned(lab, of)
}));

/// An operator sends a packet through the flow tables: the app receives it with in-port
/// `CONTROLLER`.
fn host_behind_a_reserved_port_is_not_learned(lab: &Lab, of: Of) -> anyhow::Result<()> {
    const X: &str = "0200000000aa";
    const Y: &str = "0200000000bb";
    let mut net = Net::start(lab, of)?;
    let at_h2 = net.h2.watch()?;
    let inject = |in_port: &str, dst: &str, src: &str| {
        let frame = format!("{dst}{src}0800{}", "00".repeat(46));
        let packet_out = format!("in_port={in_port} packet={frame} actions=table");
        net.s1.ofctl(&["packet-out", &packet_out])
    };
    inject("controller", Y, X)?;
    at_h2.wait_for(&["02:00:00:00:00:aa > 02:00:00:00:00:bb"], SOON)?;
    inject("1", X, Y)?;
    // A loop would cause about a thousand packet-ins in this time; the hosts alone cause fewer than
    // ten.
    lab.pause(INTERVAL * 25)?;
    let status = net.switch_status()?;
    println!("{} packet-ins, {} refused", status.packet_ins, status.refused);
    assert!(status.packet_ins < 100, "{status:?}");
    assert_eq!(status.refused, 0, "{status:?}");
    at_h2.wait_for(&["02:00:00:00:00:bb > 02:00:00:00:00:aa"], SOON)?;
    let flows = net.s1.dump_flows()?;
    assert!(!flows.iter().any(|flow| flow.contains("dl_dst=02:00:00:00:00:aa")), "{flows:#?}");
    Ok(())
}
