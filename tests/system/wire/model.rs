//! Compares the model of flow tables ([`rosemary_tests::flow_table`]) with Open vSwitch: both
//! receive the same random messages, must reject the same ones, and must have the same flows,
//! groups and meters afterwards.

use std::net::Ipv4Addr;

use anyhow::{Context as _, ensure};
use cli::lab::{Lab, Of};
use openflow::{
    Action, Bucket, Field, FlowMod, FlowModCommand, FlowModFlags, FlowStatsRequest, GroupKind,
    GroupMod, GroupModCommand, Kind, MacAddr, Masked, Match, MeterBand, MeterFlags, MeterMod,
    MeterModCommand, MultipartReply, MultipartRequest, PortNo, ReplyBody, Version, append,
};
use rosemary_tests::controller::Controller;
use rosemary_tests::flow_table::FlowTable;
use rosemary_tests::in_a_lab;
use rosemary_tests::random::Random;

/// Number of messages, and the number after which the tables are compared.
const MESSAGES: usize = 1500;
const TOGETHER: usize = 25;

/// `OFPVID_PRESENT`, OpenFlow 1.3.5 §7.2.3.7.
const VLAN_PRESENT: u16 = 0x1000;

#[test]
fn flow_table_model_equals_open_vswitch_over_openflow_1_0() {
    in_a_lab(|lab| compare(lab, Of::V1_0, Version::V1_0));
}

#[test]
fn flow_table_model_equals_open_vswitch_over_openflow_1_3() {
    in_a_lab(|lab| compare(lab, Of::V1_3, Version::V1_3));
}

fn compare(lab: &Lab, of: Of, version: Version) -> anyhow::Result<()> {
    let switch = lab.switch("s1", of)?;
    let [h1, h2, h3] = ["h1", "h2", "h3"].map(|name| lab.host(name, &switch));
    let _hosts = [h1?, h2?, h3?];
    let mut controller = Controller::call(lab, &switch)?;
    let mut random = Random::seeded();
    let mut table = FlowTable::new(version, true);
    let (mut done, mut refused, mut most) = (0, 0, 0);
    for _ in 0..MESSAGES / TOGETHER {
        let mut expected = Vec::new();
        for _ in 0..TOGETHER {
            let message = message(version, &mut random);
            let xid = controller.send_bytes(message.clone())?;
            let result = match Kind::from_wire(version, message[1])? {
                Kind::GroupMod => table.group_mod(1, &message),
                Kind::MeterMod => table.meter_mod(1, &message),
                _ => table.flow_mod(1, &message),
            };
            match result {
                Ok(effects) => done += effects.len(),
                Err(error) => expected.push((xid, format!("{error:?}: {message:02x?}"))),
            }
        }
        let errors = controller.barrier()?;
        let only = |one: &[(u32, String)], other: &[(u32, String)]| -> Vec<(u32, String)> {
            let is_there = |xid| other.iter().any(|(it, _)| *it == xid);
            one.iter().filter(|(xid, _)| !is_there(*xid)).cloned().collect()
        };
        let (by_switch, by_model) = (only(&errors, &expected), only(&expected, &errors));
        ensure!(
            by_switch.is_empty() && by_model.is_empty(),
            "the switch alone refused {by_switch:#?}, the model alone {by_model:#?}"
        );
        refused += expected.len();
        most = most.max(table.flows().len());
        compare_flows(&mut controller, version, &table)?;
    }
    println!("{MESSAGES} messages: {done} effects, {refused} refused, at most {most} flows");
    ensure!(
        done > MESSAGES / 2 && refused > MESSAGES / 50 && most > 20,
        "hardly any message had an effect"
    );
    Ok(())
}

fn compare_flows(
    controller: &mut Controller,
    version: Version,
    table: &FlowTable,
) -> anyhow::Result<()> {
    let request = FlowStatsRequest::new(Match::new());
    let parts = controller.ask(&MultipartRequest::Flow(request))?;
    let mut theirs = Vec::new();
    for part in &parts {
        let ReplyBody::Flow(flows) = MultipartReply::decode(part)?.body else {
            anyhow::bail!("not flow statistics: {part:02x?}");
        };
        let mut rest = part.get(if version == Version::V1_0 { 12 } else { 16 }..).context("cut")?;
        for flow in &flows {
            let size = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
            let (entry, behind) = rest.split_at_checked(size).context("an entry is cut")?;
            rest = behind;
            // The match has the same offset as in a flow-mod; in 1.0 four bytes earlier.
            let before = if version == Version::V1_0 { &[0; 4][..] } else { &[] };
            let fields = table.fields(&[before, entry].concat()).context("it has a match")?;
            let actions: Vec<Action> = flow.instructions.apply.iter().collect();
            let (fields, meter) = (fields.iter().collect::<Vec<_>>(), flow.instructions.meter);
            let rest = (flow.cookie, actions, meter);
            theirs.push(format!("{} {} {fields:?} {rest:?}", flow.table_id, flow.priority));
        }
    }
    let mut ours: Vec<String> = Vec::new();
    for flow in table.flows() {
        let fields: Vec<_> = flow.shown().collect();
        let rest = (flow.cookie, &flow.actions, flow.meter);
        ours.push(format!("{} {} {fields:?} {rest:?}", flow.table, flow.priority));
    }
    // A match of 1.0 that only requires Ethernet packets is shown as a match of all.
    for each in [&mut theirs, &mut ours] {
        for line in each.iter_mut() {
            *line = line.replace(", MatchField { key: 100, value: 0, mask: 1 }", "");
        }
        each.sort();
    }
    let only = |one: &[String], other: &[String]| -> Vec<String> {
        one.iter().filter(|it| !other.contains(it)).cloned().collect()
    };
    let (in_switch, in_model) = (only(&theirs, &ours), only(&ours, &theirs));
    ensure!(
        theirs == ours,
        "in the switch alone: {in_switch:#?}, in the model alone: {in_model:#?}"
    );
    Ok(())
}

fn one<T: Copy>(random: &mut Random, of: &[T]) -> T {
    let place = random.bits() % u64::try_from(of.len()).unwrap_or(1);
    of[usize::try_from(place).unwrap_or_default()]
}

fn message(version: Version, random: &mut Random) -> Vec<u8> {
    let kind = if version == Version::V1_0 { 9 } else { random.bits() % 10 };
    let mut message = Vec::new();
    let result = match kind {
        0 => {
            let group_mod = group_mod(random);
            append(&mut message, |out| group_mod.encode(version, 0, out))
        }
        1 => {
            let meter_mod = meter_mod(random);
            append(&mut message, |out| meter_mod.encode(version, 0, out))
        }
        _ => {
            let actions = [if version > Version::V1_0 && random.bits().is_multiple_of(6) {
                Action::Group(one(random, &[1, 2]))
            } else {
                Action::output(PortNo(one(random, &[1, 2, 3])))
            }];
            let flow_mod = flow_mod(version, random, &actions);
            append(&mut message, |out| flow_mod.encode(version, 0, out))
        }
    };
    result.expect("the version can express it");
    if version == Version::V1_0 {
        match_1_0(random, &mut message);
    }
    message
}

fn flow_mod<'a>(version: Version, random: &mut Random, actions: &'a [Action]) -> FlowMod<'a> {
    use FlowModCommand::{Add, Delete, DeleteStrict, Modify, ModifyStrict};
    let command = one(random, &[Add, Add, Add, Add, Modify, ModifyStrict, Delete, DeleteStrict]);
    let old = version == Version::V1_0;
    let match_ = if old { Match::new() } else { match_1_3(random) };
    let mut flow_mod = FlowMod::new(command, match_)
        .priority(one(random, &[1, 2, 2, 65_535]))
        .cookie(random.bits() % 4)
        .apply(actions);
    if random.bits().is_multiple_of(8) {
        flow_mod = flow_mod.flags(FlowModFlags::CHECK_OVERLAP);
    }
    if random.bits().is_multiple_of(3) {
        flow_mod = flow_mod.out_port(PortNo(one(random, &[1, 2, 3])));
    }
    if old {
        let is_rare = random.bits().is_multiple_of(20);
        return if is_rare { flow_mod.flags(FlowModFlags::EMERGENCY) } else { flow_mod };
    }
    flow_mod.cookie_mask = one(random, &[0, 0, 1, 3, u64::MAX]);
    flow_mod.table_id = one(random, &[0, 0, 0, 1, 1, FlowMod::ALL_TABLES]);
    if random.bits().is_multiple_of(6) {
        flow_mod = flow_mod.meter(one(random, &[1, 2]));
    }
    if command.is_delete() && random.bits().is_multiple_of(8) {
        flow_mod.out_group = one(random, &[1, 2]);
    }
    flow_mod
}

/// Overwrites the match of a flow-mod with few values per field, with and without meaning.
fn match_1_0(random: &mut Random, message: &mut [u8]) {
    let open = match random.bits() % 8 {
        0 | 1 => 0,
        2 => 0xffc0_0000,
        3 => 0x003f_ffff,
        4 => 0x0010_0000 << (random.bits() % 12),
        5 => u32::try_from(random.bits() >> 32).unwrap_or_default(),
        // All fields except some.
        _ => 0x0038_20ff ^ (1 << (random.bits() % 22)) ^ (1 << (random.bits() % 22)),
    };
    message[8..12].copy_from_slice(&open.to_be_bytes());
    message[12..14].copy_from_slice(&one(random, &[1_u16, 2]).to_be_bytes());
    message[19] = one(random, &[1, 2]); // source
    message[25] = one(random, &[1, 2]); // destination
    let vlan = one(random, &[0xffff_u16, 5, 5 | VLAN_PRESENT, 6]);
    message[26..28].copy_from_slice(&vlan.to_be_bytes());
    message[28] = one(random, &[0, 3, 0x0b]);
    let ethertype = one(random, &[0x0800_u16, 0x0800, 0x0806, 0x8035, 0x86dd, 0x8847, 0x05ff]);
    message[30..32].copy_from_slice(&ethertype.to_be_bytes());
    message[32] = one(random, &[0, 0x40, 0x43]);
    message[33] = one(random, &[1, 6, 17, 58, 99, 132]);
    message[36..40].copy_from_slice(&one(random, &[[10, 0, 0, 1], [10, 0, 0, 2]]));
    message[40..44].copy_from_slice(&one(random, &[[10, 0, 0, 1], [10, 0, 128, 2]]));
    message[45] = one(random, &[0, 8]);
    message[47] = one(random, &[0, 80]);
}

fn match_1_3(random: &mut Random) -> Match {
    let mut fields = Match::new();
    let bits = random.bits();
    let has = |bit: u32| bits >> bit & 1 != 0;
    if has(0) && has(1) {
        fields = fields.in_port(PortNo(one(random, &[1, 2])));
    }
    if has(2) && has(3) {
        let mask =
            one(random, &[None, Some(MacAddr([1, 0, 0, 0, 0, 0])), Some(MacAddr([0xff; 6]))]);
        fields = fields.with(&Field::EthDst(Masked { value: MacAddr([1, 0, 0, 0, 0, 7]), mask }));
    }
    if has(4) && has(5) {
        let (value, mask) = one(
            random,
            &[
                (0, None),
                (VLAN_PRESENT | 5, None),
                (VLAN_PRESENT, Some(VLAN_PRESENT)),
                (VLAN_PRESENT | 5, Some(0x1fff)),
            ],
        );
        fields = fields.with(&Field::VlanVid(Masked { value, mask }));
    }
    if has(6) {
        let mask = one(random, &[None, Some(1), Some(3), Some(0)]);
        let value = (random.bits() % 4) & mask.unwrap_or(u64::MAX);
        fields = fields.with(&Field::Metadata(Masked { value, mask }));
    }
    if has(7) {
        fields = fields.eth_type(0x0800);
        if has(8) {
            let (value, mask) = (Ipv4Addr::new(10, 0, 0, 0), Ipv4Addr::new(255, 0, 0, 0));
            fields = fields.with(&Field::Ipv4Src(Masked { value, mask: Some(mask) }));
        }
        if has(9) {
            fields = fields.ip_proto(6);
            if has(10) {
                fields = fields.tcp_dst(one(random, &[80, 81]));
            }
        }
    }
    fields
}

fn group_mod(random: &mut Random) -> GroupMod {
    use GroupModCommand::{Add, Delete, Modify};
    let command = one(random, &[Add, Add, Modify, Delete]);
    let group_id = match command {
        Delete => one(random, &[1, 2, GroupMod::ALL_GROUPS]),
        _ => one(random, &[1, 2]),
    };
    let buckets =
        if command == Delete { vec![] } else { vec![Bucket::new([Action::output(PortNo(1))])] };
    GroupMod { command, kind: GroupKind::All, group_id, buckets }
}

fn meter_mod(random: &mut Random) -> MeterMod {
    use MeterModCommand::{Add, Delete, Modify};
    let command = one(random, &[Add, Add, Modify, Delete]);
    let meter_id = match command {
        Delete => one(random, &[1, 2, MeterMod::ALL_METERS]),
        _ => one(random, &[1, 2]),
    };
    let bands = match command {
        Delete => vec![],
        _ => vec![MeterBand::Drop { rate: 1000, burst_size: 0 }],
    };
    MeterMod { command, flags: MeterFlags::KBPS, meter_id, bands }
}
