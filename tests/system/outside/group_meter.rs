//! Hostile switches that lie about groups and meters: counters without sense, groups that lead to each other or that do not exist,
//! malformed entries, and errors about each group and meter.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use openflow::{Action, FlowStats, Instructions, Kind, Match};
use rosemary_tests::apps::in_rust;
use rosemary_tests::in_a_lab_without_capture_for;
use rosemary_tests::net::Net;
use rosemary_tests::random::Random;

use super::beside::{Beside, lines, run};
use super::rogue::{FLOWS, PORT_STATS, Rogue, flows, multipart_of, part, ports, refusal, xid_of};

const LIMIT: Duration = Duration::from_secs(300);

/// The types of multipart messages (OpenFlow 1.3.5 §7.3.5).
const GROUP: u16 = 6;
const GROUP_DESC: u16 = 7;
const METER: u16 = 9;
const METER_CONFIG: u16 = 10;

/// `OFPET_GROUP_MOD_FAILED` and `OFPET_METER_MOD_FAILED` (OpenFlow 1.3.5 §7.4.4).
const GROUP_MOD_FAILED: u16 = 6;
const METER_MOD_FAILED: u16 = 12;

/// Most time of a command about a hostile switch.
const SHORT: Duration = Duration::from_secs(20);

/// Time in which `stats` asks for groups and meters.
const POLLED: Duration = Duration::from_secs(8);

/// Most lines about one kind of event that an attack may cause.
const MOST_LINES: usize = 200;

const APPS: &str =
    "[[app]]\nname = \"learning-switch\"\n\n[[app]]\nname = \"stats\"\nconfig = \"stats.toml\"\n";

const WANTER: &str = "config = \"wanter.conf\"\nservices = [\"storage\"]\n\
                      capabilities = [\"flow.write\", \"group.write\", \"meter.write\", \"stats.read\"]";

#[test]
#[ignore = "an attack of `make hostile`"]
fn lies_about_groups_and_meters_harm_nobody() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        fs::write("/etc/rosemary/stats.toml", "interval = 1\n")?;
        fs::write("/etc/rosemary/wanter.conf", "count = 1 metered\n")?;
        let apps = format!("{APPS}\n{}", in_rust("wanter", WANTER));
        let mut beside = Beside::start(lab, &apps)?;
        false_counters(&mut beside)?;
        malformed_entries(&mut beside)?;
        multiplying_groups(&mut beside)?;
        foreign_groups(&mut beside)?;
        refused_groups(&mut beside)?;
        beside.finish()
    });
}

/// Runs `rosemary` about the hostile switch. Returns the exit code, the output and the time.
fn timed(net: &Net<'_>, args: &[&str]) -> anyhow::Result<(Option<i32>, String, Duration)> {
    let begin = Instant::now();
    let (code, said) = run(net.lab, args)?;
    let took = begin.elapsed();
    ensure!(took < SHORT, "{args:?} took {took:?}");
    ensure!(code.is_some() && !said.contains("panicked"), "{args:?}: {code:?} {said}");
    Ok((code, said, took))
}

/// The figures of the real switch are shown.
fn real_figures(net: &Net<'_>) -> anyhow::Result<()> {
    let (code, json, _) = timed(net, &["stats", "--json"])?;
    ensure!(code == Some(0) && json.contains(&net.s1.dpid()), "{code:?} {json}");
    Ok(())
}

/// Statistics of groups and meters that jump, are the largest numbers, and are of numbers that do not exist, many times.
fn false_counters(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |_: &mut Net<'_>| {
        let mut random = Random::from(9);
        let answer = move |kind, received: &[u8], out: &mut Vec<u8>| {
            let what = multipart_of(received);
            let is = kind == Kind::MultipartRequest && [GROUP, METER].contains(&what);
            if is {
                for round in 0..4_u32 {
                    let ids = (0..1_500).map(|it| round * 1_000 + it).chain([u32::MAX, 0, 7, 7]);
                    let entry = |id: u32| {
                        let mut entry = match what {
                            GROUP => [&[0, 40, 0, 0][..], &id.to_be_bytes()].concat(),
                            _ => [&id.to_be_bytes()[..], &[0, 40, 0, 0]].concat(),
                        };
                        (0..4).for_each(|_| entry.extend(random.bits().to_be_bytes()));
                        entry
                    };
                    let body: Vec<u8> = ids.flat_map(entry).collect();
                    out.extend(part(what, xid_of(received), round < 3, &body));
                }
            }
            is
        };
        let rogue = Rogue::connect(0x6001, ports(2), Box::new(answer))?;
        rogue.is_served()?;
        thread::sleep(POLLED);
        Ok(rogue)
    };
    beside.attacked("absurd counters of groups and meters", begin, |net, rogue| {
        let (code, json, _) = timed(net, &["stats", &rogue.dpid(), "--json"])?;
        ensure!(code == Some(0), "{code:?}");
        let report: serde_json::Value = serde_json::from_str(&json)?;
        let count = |name: &str| report[name].as_array().map_or(0, Vec::len);
        let (groups, meters) = (count("groups"), count("meters"));
        ensure!(groups + meters < 4_000, "{groups} groups, {meters} meters");
        real_figures(net)?;
        Ok(format!("{groups} groups and {meters} meters are shown"))
    })
}

/// Entries whose lengths are 0, too long, or odd, for all requests about groups and meters.
fn malformed_entries(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |_: &mut Net<'_>| {
        let rogue = |length: u16| -> anyhow::Result<Rogue> {
            let answer = move |kind, received: &[u8], out: &mut Vec<u8>| {
                let what = multipart_of(received);
                let is = kind == Kind::MultipartRequest && (GROUP..=11).contains(&what);
                if is {
                    let [high, low] = length.to_be_bytes();
                    let body = [high, low, 0, 0, 0, 0, 0, 1, high, low, high, low, 0, 0, 0, 0];
                    out.extend(part(what, xid_of(received), false, &body.repeat(2_000)));
                }
                is
            };
            let rogue = Rogue::connect(0x6100 + u64::from(length), ports(2), Box::new(answer))?;
            rogue.is_served()?;
            Ok(rogue)
        };
        let lengths = [0, 1, 7, 8, 9, 16, 24, 0x7fff, 0xffff];
        let rogues = lengths.map(rogue).into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        thread::sleep(POLLED);
        Ok(rogues)
    };
    beside.attacked("malformed groups and meters", begin, |net, rogues| {
        for rogue in rogues.iter() {
            timed(net, &["flows", &rogue.dpid()])?;
            timed(net, &["stats", &rogue.dpid()])?;
        }
        real_figures(net)?;
        let open = rogues.iter().filter(|it| !it.is_closed()).count();
        let count = lines(net, &["malformed"]);
        ensure!(count < MOST_LINES, "{count} lines");
        Ok(format!("{open} of {} still connected, {count} lines", rogues.len()))
    })
}

/// Each bucket of each group leads to groups again. A trace must end.
fn multiplying_groups(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |_: &mut Net<'_>| {
        let answer = |kind, received: &[u8], out: &mut Vec<u8>| {
            let what = multipart_of(received);
            let is_list = [FLOWS, PORT_STATS, GROUP_DESC].contains(&what);
            let is = kind == Kind::MultipartRequest && is_list;
            if is && what == PORT_STATS {
                out.extend(part(PORT_STATS, xid_of(received), false, &[]));
            } else if is && what == FLOWS {
                let to = [Action::Group(1)];
                let flow = FlowStats {
                    table_id: 0,
                    duration: Duration::from_secs(1),
                    importance: 0,
                    priority: 9,
                    idle_timeout: 0,
                    hard_timeout: 0,
                    flags: openflow::FlowModFlags::default(),
                    cookie: 1,
                    packet_count: 0,
                    byte_count: 0,
                    match_: Match::new(),
                    instructions: Instructions { apply: (&to).into(), ..Instructions::default() },
                };
                out.extend(flows(xid_of(received), false, vec![flow]));
            } else if is {
                let bucket = |to: u8| {
                    let any = [0xff; 8]; // watches nothing
                    let head = [0, 24, 0, 1];
                    [&head[..], &any, &[0; 4], &[0, 22, 0, 8, 0, 0, 0, to]].concat()
                };
                let group = |id: u8| {
                    let buckets: Vec<u8> = (1..=100).flat_map(|_| bucket(id % 16 + 1)).collect();
                    let size = u16::try_from(8 + buckets.len()).unwrap_or(0).to_be_bytes();
                    [&size[..], &[0, 0, 0, 0, 0, id], &buckets].concat()
                };
                let body: Vec<u8> = (1..=16).flat_map(group).collect();
                out.extend(part(GROUP_DESC, xid_of(received), false, &body));
            }
            is
        };
        let rogue = Rogue::connect(0x6002, ports(2), Box::new(answer))?;
        rogue.is_served()?;
        Ok(rogue)
    };
    beside.attacked("groups whose buckets lead to each other", begin, |net, rogue| {
        let (code, said, took) = timed(net, &["trace", &rogue.dpid(), "in_port=1,icmp"])?;
        ensure!(code == Some(0) && said.contains("incomplete"), "{code:?} {said}");
        Ok(format!("the trace says that it is incomplete, after {took:.1?}"))
    })
}

/// A switch claims groups and meters of all apps, those of `wanter` among them, without end.
fn foreign_groups(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |_: &mut Net<'_>| {
        let answer = |kind, received: &[u8], out: &mut Vec<u8>| {
            let what = multipart_of(received);
            let is = kind == Kind::MultipartRequest && [GROUP_DESC, METER_CONFIG].contains(&what);
            if is {
                for app in 0..13_u32 {
                    let one = |number: u32| {
                        let id = (app << 16 | number).to_be_bytes();
                        let head = if what == GROUP_DESC { [0, 8, 0, 0] } else { [0, 8, 0, 1] };
                        [&head[..], &id].concat()
                    };
                    let body: Vec<u8> = (0..8_000).flat_map(one).collect();
                    out.extend(part(what, xid_of(received), app < 12, &body));
                }
            }
            is
        };
        let rogue = Rogue::connect(0x6003, ports(2), Box::new(answer))?;
        rogue.is_served()?;
        thread::sleep(POLLED);
        Ok(rogue)
    };
    beside.attacked("100,000 groups and meters that no app made", begin, |net, rogue| {
        let (code, said, took) = timed(net, &["flows", &rogue.dpid(), "--orphans"])?;
        ensure!(said.len() < 100_000, "{} bytes were said", said.len());
        let app = net.status()?.app("wanter").and_then(|app| app.pid);
        app.context("wanter runs")?;
        let real = net.s1.ofctl(&["dump-groups"])?.matches("group_id=").count();
        ensure!(real == 1, "{real} groups of the real switch");
        let begin: String = said.trim().chars().take(120).collect();
        let sent = rogue.received();
        Ok(format!("orphans {code:?} in {took:.1?}: {begin:?}, {sent} messages were sent"))
    })
}

/// Each group-mod and meter-mod is refused, with all codes.
fn refused_groups(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |_: &mut Net<'_>| {
        let mut code = 0;
        let answer = move |kind, received: &[u8], out: &mut Vec<u8>| {
            let is = [Kind::GroupMod, Kind::MeterMod].contains(&kind);
            if is {
                let failed =
                    if kind == Kind::GroupMod { GROUP_MOD_FAILED } else { METER_MOD_FAILED };
                out.extend(refusal(failed, code % 16, received).repeat(3));
                code += 1;
            }
            let what = multipart_of(received);
            let lists = [GROUP_DESC, METER_CONFIG].contains(&what);
            let is_list = kind == Kind::MultipartRequest && lists;
            if is_list {
                out.extend(part(what, xid_of(received), false, &[]));
            }
            is || is_list
        };
        let rogue = Rogue::connect(0x6004, ports(2), Box::new(answer))?;
        rogue.is_served()?;
        thread::sleep(POLLED);
        Ok(rogue)
    };
    beside.attacked("each group and meter is refused", begin, |net, rogue| {
        let received = rogue.received();
        ensure!(received < 5_000, "{received} messages were sent");
        let count = lines(net, &[&rogue.dpid()]);
        ensure!(count < MOST_LINES, "{count} lines");
        Ok(format!("{received} messages were sent, {count} lines"))
    })
}
