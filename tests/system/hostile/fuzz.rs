//! Fuzzing from inside a zone: `fuzz/fuzz.c` sends valid and nearly valid messages of both versions
//! through the kernel, to switches that contain flows, groups and meters of another app.
//!
//! Emulated switches check each message against the ownership model ([`Judge`]). In Open vSwitch,
//! everything of the other app must be unchanged at the end. `ROSEMARY_FUZZ_MESSAGES` sets the
//! number of messages for the former, `ROSEMARY_SEED` the random seed.

use std::env;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of, Rosemary, Switch};
use control::app::AppId;
use openflow::{
    Action, Bucket, FlowMod, GroupKind, GroupMod, GroupModCommand, Kind, MacAddr, Match, MeterBand,
    MeterFlags, MeterMod, MeterModCommand, PortNo, Version, append,
};
use rosemary_tests::apps::{configure, in_c_with};
use rosemary_tests::flow_table::Owner;
use rosemary_tests::judge::Judge;
use rosemary_tests::net::SOON;
use rosemary_tests::random::Random;
use rosemary_tests::{in_a_lab_for, rosemary_binary};

const VARIABLE: &str = "ROSEMARY_FUZZ_MESSAGES";

/// Default number of messages, also for Open vSwitch.
const MESSAGES: u64 = 20_000;

/// Not the captured port.
const ADDRESS: &str = "127.0.0.1:6633";

/// The app's band, and the number of the other app, whose flows exist already. `messages.h` tries
/// that number too.
const BAND: (u16, u16) = (20_000, 20_099);
const OTHER: u16 = 3;

/// The app's capabilities: all except those that grant others' flows, switch settings, LLDP or
/// experimenter messages.
const GRANTED: &str = "stage = \"observe\"\nband = [20000, 20099]\n\
    capabilities = [\"packet-out\", \"flow.write\", \"group.write\", \"meter.write\", \"stats.read\"]";

/// Time per message (at least a thousand per second), and for everything else.
const MOST: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn fuzzing_affects_no_other_app_in_emulated_switches() {
    let text = env::var(VARIABLE);
    let messages = text.map_or(MESSAGES, |text| text.parse().expect("the variable is a number"));
    let limit = LIMIT + MOST * u32::try_from(messages).unwrap_or(u32::MAX);
    in_a_lab_for(limit, move |lab| emulated(lab, messages, limit));
}

#[test]
fn fuzzing_affects_no_other_app_in_open_vswitch() {
    in_a_lab_for(LIMIT, open_vswitch);
}

/// Starts Rosemary with the fuzzing app, which waits for two switches; also returns the app's
/// number.
fn start<'lab>(
    lab: &'lab Lab,
    messages: u64,
    random: &mut Random,
) -> anyhow::Result<(Rosemary<'lab>, u16)> {
    let defined = [
        "-std=gnu11".to_owned(),
        "-O2".to_owned(),
        "-DSWITCHES=2".to_owned(),
        format!("-DMESSAGES={}u", messages / 2), // for each
        format!("-DSEED={}ull", random.bits()),
    ];
    let source = "../crates/apps/hostile/fuzz/fuzz.c";
    let fuzz = in_c_with(lab, "fuzz", source, GRANTED, &defined.each_ref().map(String::as_str))?;
    // The learning switch writes flows too: otherwise no other flows would exist for OpenFlow 1.0.
    configure(&["[[app]]\nname = \"learning-switch\"\n", &fuzz])?;
    // A random first number could have the other app's meters, as they share places.
    fs::create_dir_all("/var/lib/rosemary")?;
    let numbers = r#"{ "format": 1, "installation": 1, "first": 5000, "apps": [] }"#;
    fs::write("/var/lib/rosemary/apps.json", numbers)?;
    let mut rosemary = Rosemary::start(lab, &rosemary_binary(), &["--listen", ADDRESS])?;
    let number = rosemary.wait_for("the app has a number", SOON, |status| {
        let app = status.app("fuzz")?;
        app.pid.is_some().then_some(app.number)
    })?;
    ensure!(number != OTHER, "the other app's number is free");
    let [own, other] = [number, OTHER].map(|it| AppId(it).meters());
    ensure!(own != other, "the other app's meters are its own");
    Ok((rosemary, number))
}

/// Returns the app's last log line.
fn last_words(log: &str) -> Option<Vec<String>> {
    let said = log.lines().filter(|line| line.contains(" app: fuzz: "));
    let said: Vec<String> = said.map(ToOwned::to_owned).collect();
    said.iter().any(|line| line.contains("DONE")).then_some(said)
}

fn emulated(lab: &Lab, messages: u64, limit: Duration) -> anyhow::Result<()> {
    let mut random = Random::seeded();
    let (rosemary, app) = start(lab, messages, &mut random)?;
    let owner = Owner { app, band: BAND, any: false };
    let begun = Instant::now();
    let mut sessions = Vec::new();
    for (version, dpid) in [(Version::V1_0, 1), (Version::V1_3, 2)] {
        let others = others(version, &mut random);
        sessions.push((version, Judge::new(version, owner, &others)?.connect(ADDRESS, dpid)?));
    }
    let said = lab.wait_for("all messages are sent", limit, |_| {
        if sessions.iter().any(|(_, session)| session.is_over()) {
            return Ok(Some(Vec::new()));
        }
        lab.pause(Duration::from_millis(100))?; // parsing the long log takes time
        Ok(last_words(&rosemary.log()))
    })?;
    let took = begun.elapsed();
    for (version, session) in sessions {
        let judge = session.end()?;
        let count = |kind: Kind| {
            let kind = kind.to_wire(version);
            kind.and_then(|kind| judge.received.get(&kind)).copied().unwrap_or_default()
        };
        let received: u64 = judge.received.values().sum();
        let [flow_mods, packet_outs] = [Kind::FlowMod, Kind::PacketOut].map(count);
        println!(
            "OpenFlow {version}: {received} messages came, {flow_mods} flow-mods, {packet_outs} packet-outs; \
             {} flows, groups and meters touched, all its own; the switch refused {}",
            judge.effects, judge.refused
        );
        ensure!(flow_mods > messages / 100 && packet_outs > messages / 100, "{:?}", judge.received);
        ensure!(judge.effects > messages / 200, "hardly any message had an effect");
    }
    ensure!(!said.is_empty(), "a connection was closed before the app was done");
    println!("{messages} messages took {took:?}");
    println!("{}", said.join("\n"));
    Ok(())
}

/// Flows, groups and meters of another app, with ids that would collide with the fuzzing app's if
/// they were not separated.
fn others(version: Version, random: &mut Random) -> Vec<(u16, Vec<u8>)> {
    let mut messages = Vec::new();
    let mut push = |encode: &dyn Fn(&mut [u8]) -> Result<usize, openflow::EncodeError>| {
        let mut message = Vec::new();
        append(&mut message, encode).expect("the version can say it");
        messages.push((OTHER, message));
    };
    let cookie = u64::from(OTHER) << 48;
    let priorities = [1, BAND.0 - 1, BAND.1 + 1, u16::MAX];
    if version == Version::V1_0 {
        let to = [Action::output(PortNo(1))];
        for priority in priorities {
            for match_ in [Match::new(), Match::new().in_port(PortNo(1))] {
                let add = FlowMod::add(match_).priority(priority).cookie(cookie).apply(&to);
                push(&|out| add.encode(version, 0, out));
            }
        }
        let mut exact: Vec<u8> = Vec::new();
        let add = FlowMod::add(Match::new()).priority(u16::MAX).cookie(cookie).apply(&to);
        append(&mut exact, |out| add.encode(version, 0, out)).expect("1.0 can say it");
        let mut all = std::collections::BTreeSet::new();
        for _ in 0..200 {
            exact[8..48].copy_from_slice(&exact_match(random));
            all.insert(exact.clone());
        }
        messages.extend(all.into_iter().map(|message| (OTHER, message)));
        return messages;
    }
    let (group_id, meter_id) = (u32::from(OTHER) << 16 | 1, u32::from(OTHER) << 8 | 1);
    let buckets = vec![Bucket::new([Action::output(PortNo(1))])];
    let (command, kind) = (GroupModCommand::Add, GroupKind::All);
    push(&|out| {
        GroupMod { command, kind, group_id, buckets: buckets.clone() }.encode(version, 0, out)
    });
    let meter = MeterMod {
        command: MeterModCommand::Add,
        flags: MeterFlags::KBPS,
        meter_id,
        bands: vec![MeterBand::Drop { rate: 1000, burst_size: 0 }],
    };
    push(&|out| meter.encode(version, 0, out));
    let through = [Action::Group(group_id)];
    let addresses = [1, 2].map(|last| MacAddr([0, 0, 0, 0, 0, last]));
    for priority in priorities {
        for table in [0, 1] {
            let mut matches = vec![Match::new(), Match::new().eth_type(0x0800)];
            matches.extend((1..=2).map(|port| Match::new().in_port(PortNo(port))));
            matches.extend(addresses.map(|mac| Match::new().eth_dst(mac)));
            for match_ in matches {
                let add = FlowMod::add(match_).priority(priority).cookie(cookie).table(table);
                push(&|out| add.clone().apply(&through).meter(meter_id).encode(version, 0, out));
            }
        }
    }
    messages
}

/// Builds a match without wildcards, like `messages.h`.
fn exact_match(random: &mut Random) -> [u8; 40] {
    let mut bytes = [0; 40];
    let mut one =
        |of: &[u16]| of[usize::from(random.bits().to_be_bytes()[0]) % of.len()].to_be_bytes();
    for (at, of) in [
        (4, &[1, 2, 3][..]),     // port
        (10, &[1, 2]),           // source
        (16, &[1, 2]),           // destination
        (18, &[0xffff, 5]),      // VLAN
        (20, &[0, 3 << 8]),      // its priority
        (22, &[0x0800, 0x0806]), // ethertype
        (24, &[1, 6, 17]),       // protocol
        (28, &[0x0a00]),         // addresses
        (30, &[1]),
        (32, &[0x0a00]),
        (34, &[2]),
        (36, &[0, 80]), // ports of TCP
        (38, &[80]),
    ] {
        bytes[at..at + 2].copy_from_slice(&one(of));
    }
    bytes
}

fn open_vswitch(lab: &Lab) -> anyhow::Result<()> {
    let mut random = Random::seeded();
    let switches = [lab.switch("s1", Of::V1_0)?, lab.switch("s2", Of::V1_3)?];
    for switch in &switches {
        add_others(lab, switch)?;
    }
    let before = [others_in(&switches[0])?, others_in(&switches[1])?];
    ensure!(before.iter().all(|others| others.len() > 20), "they are there: {before:#?}");
    let (rosemary, app) = start(lab, MESSAGES, &mut random)?;
    for switch in &switches {
        switch.connect_to(&format!("tcp:{ADDRESS}"))?;
    }
    let said = lab.wait_for("all messages are sent", LIMIT, |evidence| {
        let log = rosemary.log();
        evidence.0.clone_from(&log);
        Ok(last_words(&log))
    })?;
    println!("{}", said.join("\n"));
    for (switch, before) in switches.iter().zip(before) {
        let after = others_in(switch)?;
        ensure!(after == before, "in {}: {before:#?} became {after:#?}", switch.name());
        let mut own = 0;
        for flow in switch.dump_flows()? {
            let cookie = number(&flow, "cookie=0x", 16)?;
            let owner = u16::try_from(cookie >> 48)?;
            let priority = flow
                .split_once("priority=")
                .map_or(Ok(0x8000), |_| number(&flow, "priority=", 10))?;
            let is_own = owner == app && (BAND.0.into()..=BAND.1.into()).contains(&priority);
            own += usize::from(is_own);
            ensure!(is_own || [OTHER, 0xffff].contains(&owner), "whose is {flow}");
        }
        println!("{}: {} of another, unchanged; {own} of the app", switch.name(), after.len());
        if switch.of() == Of::V1_0 {
            ensure!(own > 20, "the app has flows");
        }
    }
    Ok(())
}

/// Parses the number after `what` in a line.
fn number(line: &str, what: &str, base: u32) -> anyhow::Result<u64> {
    let (_, rest) = line.split_once(what).with_context(|| format!("no {what} in {line}"))?;
    let digits = rest.split(|it: char| !it.is_digit(base)).next().unwrap_or_default();
    Ok(u64::from_str_radix(digits, base)?)
}

fn add_others(lab: &Lab, switch: &Switch<'_>) -> anyhow::Result<()> {
    let cookie = format!("cookie={:#x}", u64::from(OTHER) << 48);
    let mut flows = Vec::new();
    let old = switch.of() == Of::V1_0;
    let to = if old { "output:1" } else { "meter:769,group:196609" };
    if !old {
        switch.ofctl(&["add-group", "group_id=196609,type=all,bucket=actions=output:1"])?;
        switch.ofctl(&["add-meter", "meter=769,kbps,band=type=drop,rate=1000"])?;
    }
    for priority in [1, BAND.0 - 1, BAND.1 + 1, u16::MAX] {
        for what in ["", ",in_port=1", ",in_port=2", ",dl_dst=00:00:00:00:00:01"] {
            flows.push(format!("{cookie},priority={priority}{what},actions={to}"));
        }
    }
    if old {
        // Without wildcards, like `messages.h`: all fields that apply to this ethertype.
        for (port, source, destination) in (1..=3).flat_map(|port| {
            (1..=2)
                .flat_map(move |source| (1..=2).map(move |destination| (port, source, destination)))
        }) {
            for tag in ["0x0000", "0x1005", "0x7005"] {
                flows.push(format!(
                    "{cookie},priority=65535,in_port={port},dl_src=00:00:00:00:00:0{source},\
                     dl_dst=00:00:00:00:00:0{destination},vlan_tci={tag},dl_type=0x88cc,actions={to}"
                ));
            }
        }
    } else {
        for table in [1, 2] {
            for what in ["19999", "65535", "20100,in_port=1"] {
                flows.push(format!("{cookie},table={table},priority={what},actions={to}"));
            }
        }
    }
    let file = lab.files().join(format!("flows-of-{}", switch.name()));
    fs::write(&file, flows.join("\n"))?;
    switch.ofctl(&["add-flows", &file.display().to_string()])?;
    Ok(())
}

/// Returns everything of the other app in a switch, without the counters that packets change.
fn others_in(switch: &Switch<'_>) -> anyhow::Result<Vec<String>> {
    let cookie = format!("cookie={:#x},", u64::from(OTHER) << 48);
    let mut others = Vec::new();
    for flow in switch.dump_flows()?.iter().filter(|flow| flow.contains(&cookie)) {
        let table = flow.split(", ").find(|part| part.starts_with("table=")).unwrap_or_default();
        // A flow with actions only has the default priority, which the output then omits.
        let rest = flow.find("priority=").map_or(&**flow, |at| &flow[at..]);
        others.push(format!("{table} {rest}"));
    }
    if switch.of() == Of::V1_3 {
        for what in ["dump-groups", "dump-meters"] {
            let text = switch.ofctl(&[what])?;
            let is_others = |line: &&str| line.contains("=196609,") || line.contains("meter=769");
            others.extend(text.lines().filter(is_others).map(|line| line.trim().to_owned()));
        }
    }
    others.sort();
    Ok(others)
}
