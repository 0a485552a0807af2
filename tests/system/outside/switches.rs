//! Hostile switches: refusals, lies, replies that never end, floods and storms. They share the one worker of the kernel with a real
//! switch and a good one, whose answers are timed.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use openflow::{FlowStats, Instructions, Kind, Match, PortNo};
use rosemary_tests::fake::features;
use rosemary_tests::in_a_lab_without_capture_for;
use rosemary_tests::net::{Net, SOON};
use rosemary_tests::random::Random;

use super::beside::{Beside, lines, named, run};
use super::rogue::{
    FLOWS, PORT_STATS, Rogue, VERSION, flows, frame, message, multipart_of, part, ports, refusal,
    xid_of,
};

const LIMIT: Duration = Duration::from_secs(400);

/// The apps: `stats` asks the switches without end, and the learning switch answers packets.
const APPS: &str = "[[app]]\nname = \"learning-switch\"\n\n[[app]]\nname = \"stats\"\n";

/// Most lines about one kind of event that an attack of some seconds may cause.
const MOST_LINES: usize = 200;

/// `OFPET_FLOW_MOD_FAILED` and `OFPFMFC_TABLE_FULL` (OpenFlow 1.3.5 §7.4.4).
const TABLE_FULL: (u16, u16) = (5, 1);

/// Number of switches whose replies never end: more than a worker reads at once.
const ENDLESS: u64 = 20;

#[test]
#[ignore = "an attack of `make hostile`"]
fn lying_switches_harm_nobody() {
    in_a_lab_without_capture_for(LIMIT, |lab| {
        let mut beside = Beside::start(lab, APPS)?;
        refusals_without_end(&mut beside)?;
        full_tables(&mut beside)?;
        false_statistics(&mut beside)?;
        endless_statistics(&mut beside)?;
        endless_flows(&mut beside)?;
        million_flows(&mut beside)?;
        replies_to_nobody(&mut beside)?;
        unanswered_barriers(&mut beside)?;
        lies_about_roles(&mut beside)?;
        new_features(&mut beside)?;
        beside.finish()
    });
}

/// Each message is refused, and errors about messages that do not exist come without end.
fn refusals_without_end(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |_: &mut Net<'_>| {
        let answer = |kind, received: &[u8], out: &mut Vec<u8>| {
            let served = matches!(kind, Kind::Hello | Kind::FeaturesRequest | Kind::EchoRequest)
                || kind == Kind::MultipartRequest && multipart_of(received) == 13;
            let refused = !served;
            if refused {
                out.extend(refusal(TABLE_FULL.0, TABLE_FULL.1, received));
            }
            refused
        };
        let mut rogue = Rogue::connect(0xbad1, ports(2), Box::new(answer))?;
        rogue.is_served()?;
        let mut random = Random::seeded();
        rogue.repeat(Duration::from_millis(1), move |_| {
            let about = |bits: u64| {
                let (xid, [kind, code, ..]) = (bits.to_be_bytes(), bits.to_le_bytes());
                let about = [&[4, 14, 0, 80], &xid[4..], &[0; 72]].concat();
                refusal((kind % 14).into(), (code % 20).into(), &about)
            };
            (0..200).flat_map(|_| about(random.bits())).collect()
        });
        Ok(rogue)
    };
    beside.attacked("refusals without end", begin, |net, rogue| {
        let reason = named(net, &rogue.dpid())?;
        let count = lines(net, &["switch sent an error"]);
        ensure!(count < MOST_LINES, "{count} lines about errors");
        Ok(format!("{count} lines, status: {reason}"))
    })
}

/// Twelve switches have no room for any flow, and send packets that need flows.
fn full_tables(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |_: &mut Net<'_>| {
        let rogue = |dpid| -> anyhow::Result<Rogue> {
            let answer = |kind, received: &[u8], out: &mut Vec<u8>| {
                if kind == Kind::FlowMod {
                    out.extend(refusal(TABLE_FULL.0, TABLE_FULL.1, received));
                }
                kind == Kind::FlowMod
            };
            let mut rogue = Rogue::connect(dpid, ports(2), Box::new(answer))?;
            rogue.is_served()?;
            rogue.packet_in(&frame(1, 2));
            rogue.repeat(Duration::from_millis(10), |number| {
                let (frame, pairs) = (frame(2, number % 7), [PortNo(1), PortNo(2)]);
                let packet_in = |port| openflow::PacketIn::new(port, &frame);
                let of = |port| message(|out| packet_in(port).encode(VERSION, 0, out));
                pairs.map(of).concat()
            });
            Ok(rogue)
        };
        (0xf000..0xf00c).map(rogue).collect::<anyhow::Result<Vec<_>>>()
    };
    beside.attacked("full tables", begin, |net, rogues| {
        let reason = named(net, &rogues[0].dpid())?;
        let asked: u64 = rogues.iter().map(Rogue::flow_mods).sum();
        let count = net.lab.wait_for("there is an incident", SOON * 3, |_| {
            let (_, incidents) = run(net.lab, &["incidents", "--wide"]).unwrap_or_default();
            let count = incidents.matches("does not carry out").count();
            Ok((count > 0).then_some(count))
        })?;
        ensure!(count <= 40, "{count} incidents");
        Ok(format!("{asked} flow-mods refused, {count} incidents, status: {reason}"))
    })
}

/// Counters jump, go back, have no end, and belong to ports that do not exist.
fn false_statistics(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |_: &mut Net<'_>| {
        let mut random = Random::seeded();
        let answer = move |kind, received: &[u8], out: &mut Vec<u8>| {
            let lies = kind == Kind::MultipartRequest && multipart_of(received) == PORT_STATS;
            if lies {
                let entry = |port: u32, random: &mut Random| {
                    let mut entry = [&port.to_be_bytes()[..], &[0; 4]].concat();
                    (0..12).for_each(|_| entry.extend(random.bits().to_be_bytes()));
                    entry.extend([0; 8]);
                    entry
                };
                let all = [1, 1, 2, 77, 0, 0xffff_ffff, 0xffff_fffd];
                let body: Vec<u8> = all.iter().flat_map(|it| entry(*it, &mut random)).collect();
                out.extend(part(PORT_STATS, xid_of(received), false, &body));
            }
            lies
        };
        let rogue = Rogue::connect(0x11e5, ports(2), Box::new(answer))?;
        rogue.is_served()?;
        thread::sleep(Duration::from_secs(8)); // some polls
        Ok(rogue)
    };
    beside.attacked("false statistics", begin, |net, rogue| {
        let (_, json) = run(net.lab, &["stats", "--json"])?;
        let report: serde_json::Value = serde_json::from_str(&json)?;
        let all = report["ports"].as_array().context("a list")?;
        let of = |dpid: String| all.iter().filter(move |line| line["dpid"] == dpid.as_str());
        let rates: Vec<_> = of(rogue.dpid())
            .filter(|it| {
                it["state"] == "current" && it["rx_bps"].as_u64().is_some_and(|it| it > 1 << 50)
            })
            .collect();
        ensure!(rates.is_empty(), "impossible rates are shown: {rates:?}");
        let good = of(net.s1.dpid()).filter(|it| it["state"] == "current").count();
        ensure!(good >= 3, "the figures of the real switch: {json}");
        let false_ports = of(rogue.dpid()).count();
        ensure!(false_ports <= 8, "{false_ports}");
        Ok(format!("{false_ports} ports of the liar, none with an impossible rate"))
    })
}

/// The reply to each request of `stats` never ends, as fast as the connection takes it.
fn endless_statistics(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |_: &mut Net<'_>| {
        let (told, asked) = std::sync::mpsc::channel();
        let answer = move |kind, received: &[u8], _: &mut Vec<u8>| {
            let is = kind == Kind::MultipartRequest && multipart_of(received) == PORT_STATS;
            is && told.send(xid_of(received)).is_ok()
        };
        let mut rogue = Rogue::connect(0xe4d1, ports(2), Box::new(answer))?;
        let xid = asked.recv_timeout(SOON).context("stats asks")?;
        let mut entry = [0; 112];
        entry[3] = 1;
        let body = entry.repeat(100);
        let one = part(PORT_STATS, xid, true, &body);
        rogue.repeat(Duration::ZERO, move |_| one.clone());
        Ok((rogue, asked, Instant::now()))
    };
    beside.attacked("multipart replies without end", begin, |net, (rogue, ..)| {
        let (code, json) = run(net.lab, &["stats", "--json"])?;
        ensure!(code == Some(0) && json.contains(&net.s1.dpid()), "{json}");
        let state = if rogue.is_closed() { "disconnected" } else { "still connected" };
        Ok(format!("the switch is {state}"))
    })
}

/// Twenty switches send small parts of replies about flows without end. The kernel must still read the flows of another switch.
fn endless_flows(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |net: &mut Net<'_>| {
        let drip = |dpid| -> anyhow::Result<Rogue> {
            let (told, asked) = std::sync::mpsc::channel();
            let answer = move |kind, received: &[u8], out: &mut Vec<u8>| {
                let is = kind == Kind::MultipartRequest && multipart_of(received) == FLOWS;
                if is {
                    out.extend(flows(xid_of(received), true, Vec::new()));
                    let _ = told.send(xid_of(received)); // fails at the end of the test
                }
                is
            };
            let rogue = Rogue::connect(dpid, ports(2), Box::new(answer))?;
            rogue.is_served()?;
            let wire = rogue.wire();
            thread::spawn(move || {
                let mut xids = Vec::new();
                loop {
                    xids.extend(asked.try_iter());
                    let parts = xids.iter().map(|xid| flows(*xid, true, Vec::new()));
                    if !wire.write(&parts.collect::<Vec<_>>().concat()) {
                        return;
                    }
                    thread::sleep(Duration::from_millis(50));
                }
            });
            Ok(rogue)
        };
        // Beside the switches, lower and higher than the real one.
        let rogues = (0xd000..0xd000 + ENDLESS).map(drip).collect::<anyhow::Result<Vec<_>>>()?;
        run(net.lab, &["flows", "--orphans"])?; // begins readings of all
        let foreign = "priority=7,tcp,tp_dst=7,cookie=0x1234000000000000,actions=drop";
        net.s1.ofctl(&["add-flow", foreign])?;
        Ok(rogues)
    };
    beside.attacked("endless replies about flows", begin, |net, _| {
        let start = Instant::now();
        run(net.lab, &["flows", "s1", "--orphans"])?;
        let command = start.elapsed();
        ensure!(command < SOON / 2, "the command took {command:?}");
        let dpid = net.s1.dpid();
        net.rosemary.wait_for("the real switch is read", SOON, |status| {
            status.switch(&dpid).filter(|it| it.foreign_flows > 0).map(drop)
        })?;
        let took = start.elapsed();
        net.s1.ofctl(&["del-flows", "cookie=0x1234000000000000/-1"])?;
        Ok(format!("the real switch was read after {took:?}"))
    })
}

/// A switch reports a million flows, to an operator and to the kernel's own reading.
fn million_flows(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |_: &mut Net<'_>| {
        let answer = |kind, received: &[u8], out: &mut Vec<u8>| {
            let is = kind == Kind::MultipartRequest && multipart_of(received) == FLOWS;
            if is {
                let entry = |number: u32| FlowStats {
                    table_id: 0,
                    duration: Duration::from_secs(1),
                    importance: 0,
                    priority: 9,
                    idle_timeout: 0,
                    hard_timeout: 0,
                    flags: openflow::FlowModFlags::default(),
                    cookie: number.into(),
                    packet_count: 0,
                    byte_count: 0,
                    match_: Match::new().in_port(PortNo(number)),
                    instructions: Instructions::default(),
                };
                let one = flows(xid_of(received), true, (0..1000).map(entry).collect());
                (0..1000).for_each(|_| out.extend(&one));
                out.extend(flows(xid_of(received), false, Vec::new()));
            }
            is
        };
        let rogue = Rogue::connect(0x1_0000_0000, ports(2), Box::new(answer))?;
        rogue.is_served()?;
        Ok(rogue)
    };
    beside.attacked("a million flow entries", begin, |net, rogue| {
        let (code, text) = run(net.lab, &["flows", &rogue.dpid()])?;
        let reasons = ["longer than can be shown", "does not answer"];
        let is_said = reasons.iter().any(|reason| text.contains(reason));
        ensure!(code == Some(1) && is_said, "{code:?} {text}");
        let (code, _) = run(net.lab, &["flows", &rogue.dpid(), "--orphans"])?;
        let status = net.status()?;
        let foreign = status.switch(&rogue.dpid()).context("it is connected")?.foreign_flows;
        let (shown, _) = run(net.lab, &["flows", "s1"])?;
        ensure!(shown == Some(0), "flows of the real switch");
        Ok(format!("{foreign} foreign flows counted, orphans {code:?}"))
    })
}

/// A switch sends replies of all kinds with each transaction id, from 0 on.
fn replies_to_nobody(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |_: &mut Net<'_>| {
        let mut rogue = Rogue::obedient(0x0b0d)?;
        rogue.is_served()?;
        rogue.repeat(Duration::from_millis(1), |number| {
            let forged = b"forged".repeat(4);
            let one = |xid: u32| -> Vec<u8> {
                let barrier = message(|out| Kind::BarrierReply.encode_empty(VERSION, xid, out));
                let config = [&[4, 8, 0, 12], &xid.to_be_bytes()[..], &[0, 0, 0, 1]].concat();
                let desc = part(0, xid, number % 2 == 0, &[b'x'; 1056]);
                let experimenter = [&[4, 4, 0, 32], &xid.to_be_bytes()[..], &forged].concat();
                [barrier, config, desc, experimenter, flows(xid, false, Vec::new())].concat()
            };
            (number * 20..(number + 1) * 20).flat_map(one).collect()
        });
        Ok(rogue)
    };
    beside.attacked("unrequested replies", begin, |net, rogue| {
        let (code, shown) = run(net.lab, &["flows", "s1"])?;
        ensure!(code == Some(0) && shown.contains("learning-switch"), "{shown}");
        ensure!(!shown.contains("forged"), "{shown}");
        ensure!(!rogue.is_closed(), "it lies, and breaks no rule of the stream");
        Ok("the real switch's flows are its own".to_owned())
    })
}

/// Nothing is answered except echoes: no barrier, no configuration, no statistics.
fn unanswered_barriers(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |_: &mut Net<'_>| {
        let silent = |dpid| -> anyhow::Result<Rogue> {
            let answer = |kind, received: &[u8], _: &mut Vec<u8>| {
                kind == Kind::BarrierRequest
                    || kind == Kind::GetConfigRequest
                    || kind == Kind::MultipartRequest && multipart_of(received) != 13
            };
            let rogue = Rogue::connect(dpid, ports(2), Box::new(answer))?;
            rogue.is_served()?;
            Ok(rogue)
        };
        (0x51_0000..0x51_0010).map(silent).collect::<anyhow::Result<Vec<_>>>()
    };
    beside.attacked("barriers never answered", begin, |net, rogues| {
        let reason = named(net, &rogues[0].dpid())?;
        let (code, _) = run(net.lab, &["flows", "s1", "--orphans"])?;
        ensure!(code.is_some(), "the command ends");
        Ok(format!("status: {reason}"))
    })
}

/// A switch sends unrequested role replies, and errors that call the controller a slave.
fn lies_about_roles(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |_: &mut Net<'_>| {
        let mut rogue = Rogue::obedient(0x201e)?;
        rogue.is_served()?;
        rogue.repeat(Duration::from_millis(2), |number| {
            let role = |role: u8| {
                let xid = number.to_be_bytes();
                let generation = [0xff; 8];
                [&[4, 25, 0, 24], &xid[..], &[0, 0, 0, role, 0, 0, 0, 0], &generation].concat()
            };
            let slave = refusal(1, 10, &[4, 14, 0, 80, 0, 0, 0, 9]);
            [role(1), role(2), role(3), role(99), slave].concat()
        });
        Ok(rogue)
    };
    beside.attacked("lies about roles", begin, |net, rogue| {
        let reason = named(net, &rogue.dpid())?;
        let (_, incidents) = run(net.lab, &["incidents", "--json"])?;
        let count = incidents.matches(&rogue.dpid()).count();
        ensure!(count <= 30, "{count} mentions in incidents");
        let flows = net.s1.dump_flows()?;
        ensure!(flows.iter().any(|flow| flow.contains("CONTROLLER")), "{flows:?}");
        Ok(format!("status: {reason}"))
    })
}

/// A switch sends an unrequested features reply with another datapath id.
fn new_features(beside: &mut Beside<'_>) -> anyhow::Result<()> {
    let begin = |net: &mut Net<'_>| {
        let (taken, mut rogues) = (net.switch_status()?.dpid, Vec::new());
        let taken = u64::from_str_radix(&taken.replace(':', ""), 16)?;
        for (dpid, claimed) in [(0xfea1, taken), (0xfea2, 0xfea3), (0xfea4, 0xfea4)] {
            let rogue = Rogue::obedient(dpid)?;
            rogue.is_served()?;
            let features = features(openflow::Dpid(claimed));
            rogue.say(&message(|out| features.encode(VERSION, 3, out)));
            rogues.push(rogue);
        }
        Ok(rogues)
    };
    beside.attacked("features that change", begin, |net, rogues| {
        ensure!(rogues.iter().all(Rogue::is_closed), "all of them are disconnected");
        let status = net.status()?;
        let present = status.switches.iter().flatten().map(|it| it.dpid.clone());
        let present: Vec<String> = present.filter(|it| it.contains("fe:a")).collect();
        ensure!(present.is_empty(), "{present:?}");
        Ok("all three connections were closed".to_owned())
    })
}
