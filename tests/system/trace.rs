//! `rosemary trace`, compared with `ofproto/trace` of Open vSwitch: the same entries and the same outputs for each packet.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of};
use rosemary_tests::net::{INTERVAL, Net};
use rosemary_tests::{in_a_lab, over_versions, rosemary_binary, schema};
use serde_json::Value;

/// Flows and groups that use what the simulation knows.
const FLOWS_1_3: [&str; 16] = [
    "table=0,priority=500,in_port=1,arp,actions=flood",
    "table=0,priority=400,icmp,nw_dst=10.9.0.0/16,actions=set_field:2->ip_dscp,output:2,output:3",
    "table=0,priority=300,tcp,actions=write_actions(output:2),write_metadata:0x5/0xff,goto_table:2",
    "table=0,priority=200,udp,tp_dst=53,actions=drop",
    "table=0,priority=190,udp,actions=group:1",
    "table=0,priority=180,dl_vlan=7,actions=pop_vlan,output:3",
    "table=0,priority=170,ipv6,actions=group:2",
    "table=0,priority=160,dl_type=0x1234,actions=write_actions(group:3,output:1),goto_table:2",
    "table=0,priority=600,in_port=3,ip,actions=load:0x12->NXM_NX_REG0[4..11],move:NXM_NX_REG0[4..11]->NXM_NX_REG1[0..7],\
     resubmit(,5),resubmit(4,6),output:NXM_NX_REG2[]",
    "table=5,priority=70,reg0=0x120,reg1=0x10/0xf0,actions=load:2->NXM_NX_REG2[],clone(load:1->NXM_NX_REG2[],output:NXM_NX_REG2[])",
    "table=5,priority=60,actions=output:1",
    "table=6,priority=90,in_port=4,actions=load:0xffff->NXM_NX_XXREG0[0..15],resubmit(,7)",
    "table=7,priority=80,xreg1=0x20000ffff/0xfff0000ffff,actions=drop",
    "table=2,priority=50,metadata=0x5,tcp,tp_dst=80,actions=write_actions(output:3)",
    "table=2,priority=40,metadata=0x5,tcp,tp_dst=81,actions=clear_actions",
    "table=2,priority=1,dl_type=0x1234,actions=push_vlan:0x8100,set_field:4105->vlan_vid,output:2",
];

const GROUPS: [&str; 3] = [
    "group_id=1,type=all,bucket=output:2,bucket=set_field:02:00:00:00:00:99->dl_dst,output:3",
    "group_id=2,type=ff,bucket=watch_port:3,output:3,bucket=watch_port:2,output:2",
    "group_id=3,type=indirect,bucket=output:2",
];

const FLOWS_1_0: [&str; 6] = [
    "priority=500,in_port=1,arp,actions=flood",
    "priority=400,icmp,nw_dst=10.9.0.0/16,actions=mod_nw_tos:8,output:2,output:3",
    "priority=300,tcp,tp_dst=80,actions=mod_tp_dst:8080,output:3,output:1",
    "priority=200,udp,actions=drop",
    "priority=180,dl_vlan=7,actions=strip_vlan,output:3",
    "priority=160,dl_type=0x1234,actions=mod_vlan_vid:9,output:2",
];

/// Packets, each for all tables.
const PACKETS: [&str; 17] = [
    "in_port=1,arp,dl_src=02:00:00:00:00:01,arp_op=1,arp_spa=10.0.0.1,arp_tpa=10.0.0.2",
    "in_port=2,arp,dl_src=02:00:00:00:00:01,arp_op=1,arp_spa=10.0.0.1,arp_tpa=10.0.0.2",
    "in_port=1,icmp,nw_src=10.0.0.1,nw_dst=10.9.3.4,nw_ttl=64",
    "in_port=2,icmp,nw_src=10.0.0.1,nw_dst=10.9.3.4,nw_ttl=64",
    "in_port=1,icmp,nw_src=10.0.0.1,nw_dst=10.8.3.4,nw_ttl=64",
    "in_port=1,tcp,nw_dst=10.0.0.2,tp_dst=80,nw_ttl=64",
    "in_port=1,tcp,nw_dst=10.0.0.2,tp_dst=81,nw_ttl=64",
    "in_port=1,tcp,nw_dst=10.0.0.2,tp_dst=90,nw_ttl=64",
    "in_port=1,udp,nw_dst=10.0.0.2,udp_dst=53,nw_ttl=64",
    "in_port=1,udp,nw_dst=10.0.0.2,udp_dst=54,nw_ttl=64",
    "in_port=2,udp,nw_dst=10.0.0.2,udp_dst=54,nw_ttl=64",
    "in_port=1,dl_vlan=7,dl_vlan_pcp=2,dl_type=0x9999",
    "in_port=1,udp6,ipv6_src=fe80::1,ipv6_dst=fe80::2,udp_dst=9,nw_ttl=64",
    "in_port=1,dl_src=02:00:00:00:00:01,dl_type=0x1234",
    "in_port=3,tcp,nw_dst=10.0.0.2,tp_dst=80,nw_ttl=64",
    "in_port=LOCAL,udp,nw_dst=10.0.0.2,udp_dst=54,nw_ttl=64",
    "in_port=local,icmp,nw_src=10.0.0.1,nw_dst=10.9.3.4,nw_ttl=64",
];

/// The priorities of the entries and the ports of the outputs.
type Seen = (Vec<Option<u64>>, Vec<String>);

/// Reads `ofproto/trace`: ` 0. priority 400`, ` 2. No match.`, `    output:2`, `    CONTROLLER:65535`, `>> ...` are notes.
fn of_ovs(lab: &Lab, packet: &str) -> anyhow::Result<Seen> {
    let is_control = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("ovs-vswitchd.") && name.ends_with(".ctl")
    };
    let mut files = fs::read_dir(lab.files())?.filter_map(|file| Some(file.ok()?.path()));
    let control = files.find(is_control).context("ovs-vswitchd listens")?.display().to_string();
    let text = lab.run("ovs-appctl", &["-t", &control, "ofproto/trace", "s1", packet])?;
    let (mut entries, mut outputs) = (Vec::new(), Vec::<String>::new());
    let mut last: Option<String> = None;
    for line in text.lines().map(str::trim).take_while(|line| !line.starts_with("Final flow")) {
        let head = line.split_once(". ").filter(|(table, _)| table.parse::<u8>().is_ok());
        if let Some((_, rule)) = head {
            let priority = rule.split_once("priority ").map(|(_, rest)| rest);
            let digits = priority.map(|it| it.chars().take_while(char::is_ascii_digit).collect());
            entries.push(match digits {
                Some::<String>(digits) => Some(digits.parse()?),
                None if rule.starts_with("No match") => None,
                None => Some(32_768),
            });
        } else if let Some(port) = line.strip_prefix("output:") {
            outputs.extend(last.replace(port.to_owned()));
        } else if let Some(port) = line.strip_prefix("-> output port is ") {
            last = Some(port.to_owned());
        } else if line.contains("skipping output") {
            last = None;
        } else if line.starts_with("CONTROLLER") {
            outputs.extend(last.replace("controller".into()));
        }
    }
    outputs.extend(last);
    // A flood is one line; the switch's ports are 1 to 3, and the packet's own is left out.
    if text.lines().any(|line| line.trim() == "FLOOD") {
        let in_port = packet.trim_start_matches("in_port=").split(',').next().unwrap_or_default();
        outputs
            .extend(["1", "2", "3"].iter().filter(|it| **it != in_port).map(ToString::to_string));
    }
    Ok((entries, outputs))
}

fn of_rosemary(lab: &Lab, packet: &str) -> anyhow::Result<(Seen, Value)> {
    let binary = rosemary_binary().display().to_string();
    // It matches no field about the time to live.
    let packet = packet.replace(",nw_ttl=64", "");
    let json = lab.run(&binary, &["trace", "1", &packet, "--json"])?;
    schema::check("trace", &json)?;
    let value: Value = serde_json::from_str(&json)?;
    let hop = value["hops"][0].clone();
    let lookups = hop["lookups"].as_array().context("look-ups")?;
    let entries = lookups.iter().map(|it| it["entry"]["priority"].as_u64()).collect();
    let outputs = hop["outputs"].as_array().context("outputs")?;
    let outputs = outputs.iter().filter_map(|it| it["port"].as_str().map(ToOwned::to_owned));
    Ok(((entries, outputs.collect()), hop))
}

fn traces_agree(of: Of) {
    in_a_lab(move |lab| {
        let net = Net::start(lab, of)?;
        if of == Of::V1_3 {
            for group in GROUPS {
                net.s1.ofctl(&["add-group", group])?;
            }
        }
        let flows: &[&str] = if of == Of::V1_3 { &FLOWS_1_3 } else { &FLOWS_1_0 };
        for flow in flows {
            net.s1.ofctl(&["add-flow", flow])?;
        }
        for packet in PACKETS {
            let mut theirs = of_ovs(lab, packet)?;
            let (mut ours, hop) = of_rosemary(lab, packet)?;
            ours.1.sort_unstable();
            theirs.1.sort_unstable();
            println!("OpenFlow {of}: {packet}: {theirs:?}");
            ensure!(ours == theirs, "{packet}: {ours:?} is not {theirs:?}: {hop:#}");
        }
        // Owners: the learning switch's entry for a ping, and the kernel's for a stranger.
        if of == Of::V1_3 {
            ensure!(net.h1.ping(&net.h2, 5, INTERVAL)?.received > 0);
            let packet = format!("in_port=1,dl_src={},dl_dst={},icmp", net.h1.mac(), net.h2.mac());
            let (_, hop) = of_rosemary(lab, &packet)?;
            assert_eq!(hop["lookups"][0]["entry"]["owner"], "learning-switch", "{hop:#}");
            assert_eq!(hop["outputs"][0]["port"], "2", "{hop:#}");
        }
        let (_, hop) = of_rosemary(lab, "in_port=1,dl_type=0x7777")?;
        assert_eq!(hop["lookups"][0]["entry"]["owner"], "kernel", "{hop:#}");
        Ok(())
    });
}

over_versions!(trace_agrees_with_open_vswitch, |of| traces_agree(of));
