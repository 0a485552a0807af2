//! Groups and meters: encoded, installed in Open vSwitch, and read back. OpenFlow 1.0 has neither.

use anyhow::{Context as _, bail};
use cli::lab::Of;
use openflow::{
    Action, Bucket, Field, GroupDesc, GroupKind, GroupMod, GroupModCommand, MeterBand, MeterConfig,
    MeterFlags, MeterMod, MeterModCommand, MultipartReply, MultipartRequest, PortNo, ReplyBody,
};
use rosemary_tests::controller::Controller;
use rosemary_tests::in_a_lab;

use super::CapturedSession;

fn out(port: u32) -> Action {
    Action::output(PortNo(port))
}

fn groups() -> Vec<(GroupMod, &'static str)> {
    let dst = Action::set_field(Field::Ipv4Dst(std::net::Ipv4Addr::new(10, 0, 0, 9).into()));
    let weighted = |weight, actions: &[Action]| Bucket { weight, ..Bucket::new(actions) };
    let watching = |port, group, actions: &[Action]| Bucket {
        watch_port: PortNo(port),
        watch_group: group,
        ..Bucket::new(actions)
    };
    let any_group = Bucket::ANY_GROUP;
    let group = |group_id, kind, buckets: Vec<Bucket>| GroupMod {
        command: GroupModCommand::Add,
        kind,
        group_id,
        buckets,
    };
    vec![
        (
            group(
                1,
                GroupKind::All,
                vec![Bucket::new([out(1)]), Bucket::new([Action::DecNwTtl, out(2)])],
            ),
            "group_id=1,type=all,bucket=actions=output:1,bucket=actions=dec_ttl,output:2",
        ),
        (
            group(
                2,
                GroupKind::Select,
                vec![weighted(10, &[out(1)]), weighted(65535, &[dst, out(2)])],
            ),
            "group_id=2,type=select,bucket=weight:10,actions=output:1,\
             bucket=weight:65535,actions=set_field:10.0.0.9->ip_dst,output:2",
        ),
        (
            group(3, GroupKind::Indirect, vec![Bucket::new([out(3)])]),
            "group_id=3,type=indirect,bucket=actions=output:3",
        ),
        (
            group(
                4,
                GroupKind::FastFailover,
                vec![
                    watching(1, any_group, &[out(1)]),
                    watching(2, 3, &[out(2)]),
                    watching(PortNo::ANY.0, 1, &[Action::Group(3)]),
                ],
            ),
            "group_id=4,type=ff,bucket=watch_port:1,actions=output:1,\
             bucket=watch_port:2,watch_group:3,actions=output:2,\
             bucket=watch_group:1,actions=group:3",
        ),
        (group(0xffff_ff00, GroupKind::All, Vec::new()), "group_id=4294967040,type=all"),
    ]
}

fn meters() -> Vec<(MeterMod, &'static [&'static str])> {
    let meter =
        |meter_id, flags, bands| MeterMod { command: MeterModCommand::Add, flags, meter_id, bands };
    let drop = |rate, burst_size| MeterBand::Drop { rate, burst_size };
    vec![
        (
            meter(1, MeterFlags::KBPS | MeterFlags::BURST, vec![drop(1000, 100)]),
            &["meter=1 kbps burst bands=", "type=drop rate=1000 burst_size=100"],
        ),
        (
            meter(
                2,
                MeterFlags::PKTPS | MeterFlags::BURST | MeterFlags::STATS,
                vec![drop(500, 50), drop(70_000, 1)],
            ),
            &[
                "meter=2 pktps burst stats bands=",
                "type=drop rate=500 burst_size=50",
                "type=drop rate=70000 burst_size=1",
            ],
        ),
    ]
}

/// Adds the groups and meters.
pub(super) fn add(controller: &mut Controller) -> anyhow::Result<()> {
    for (group, _) in groups() {
        controller.send(|version, xid, out| group.encode(version, xid, out))?;
    }
    for (meter, _) in meters() {
        controller.send(|version, xid, out| meter.encode(version, xid, out))?;
    }
    controller.must_all_be_accepted().context("adding groups and meters")
}

fn group_descs(controller: &mut Controller) -> anyhow::Result<Vec<GroupDesc>> {
    let mut found = Vec::new();
    for part in controller.ask(&MultipartRequest::GroupDesc)? {
        match MultipartReply::decode(&part)?.body {
            ReplyBody::GroupDesc(groups) => found.extend(groups),
            other => bail!("not groups: {other:?}"),
        }
    }
    found.sort_by_key(|group| group.group_id);
    Ok(found)
}

fn meter_configs(controller: &mut Controller) -> anyhow::Result<Vec<MeterConfig>> {
    let mut found = Vec::new();
    for part in controller.ask(&MultipartRequest::MeterConfig(MeterMod::ALL_METERS))? {
        match MultipartReply::decode(&part)?.body {
            ReplyBody::MeterConfig(meters) => found.extend(meters),
            other => bail!("not meters: {other:?}"),
        }
    }
    found.sort_by_key(|meter| meter.meter_id);
    Ok(found)
}

fn as_told(group: &GroupMod) -> GroupDesc {
    GroupDesc { kind: group.kind, group_id: group.group_id, buckets: group.buckets.clone() }
}

#[test]
fn groups_round_trip() {
    in_a_lab(|lab| {
        let mut wire = CapturedSession::start(lab, Of::V1_3)?;
        add(&mut wire.controller)?;
        let expected: Vec<_> = groups().iter().map(|(group, _)| as_told(group)).collect();
        assert_eq!(group_descs(&mut wire.controller)?, expected);
        let dumped = wire.switch.ofctl(&["dump-groups"])?;
        for (_, text) in groups() {
            assert!(dumped.lines().any(|line| line.trim() == text), "{text} is not in\n{dumped}");
        }

        // Counters: a group per bucket, and the number of references.
        let parts = wire.controller.ask(&MultipartRequest::Group(GroupMod::ALL_GROUPS))?;
        let ReplyBody::Group(counted) = MultipartReply::decode(&parts[0])?.body else {
            bail!("not group statistics");
        };
        for (group, _) in groups() {
            let counters = counted.iter().find(|counters| counters.group_id == group.group_id);
            let counters = counters.context("a group is not counted")?;
            assert_eq!(counters.buckets.len(), group.buckets.len(), "{counters:?}");
        }

        // Changed, then deleted.
        let changed = GroupMod {
            command: GroupModCommand::Modify,
            kind: GroupKind::All,
            group_id: 1,
            buckets: vec![Bucket::new([out(3)])],
        };
        let gone = GroupMod {
            command: GroupModCommand::Delete,
            kind: GroupKind::All,
            group_id: 2,
            buckets: Vec::new(),
        };
        for group in [&changed, &gone] {
            wire.controller.send(|version, xid, out| group.encode(version, xid, out))?;
        }
        wire.controller.must_all_be_accepted()?;
        let left = group_descs(&mut wire.controller)?;
        assert_eq!(left[0], as_told(&changed));
        assert!(left.iter().all(|group| group.group_id != 2), "{left:?}");
        wire.read_capture().map(drop)
    });
}

#[test]
fn meters_round_trip() {
    in_a_lab(|lab| {
        let mut wire = CapturedSession::start(lab, Of::V1_3)?;
        add(&mut wire.controller)?;
        let expected: Vec<_> = meters()
            .iter()
            .map(|(meter, _)| MeterConfig {
                flags: meter.flags,
                meter_id: meter.meter_id,
                bands: meter.bands.clone(),
            })
            .collect();
        assert_eq!(meter_configs(&mut wire.controller)?, expected);
        let dumped = wire.switch.ofctl(&["dump-meters"])?;
        for text in meters().iter().flat_map(|(_, texts)| *texts) {
            assert!(dumped.lines().any(|line| line.trim() == *text), "{text} is not in\n{dumped}");
        }

        // The userspace datapath does not support DSCP bands; it must decode the rejected one.
        let remark = MeterMod {
            command: MeterModCommand::Add,
            flags: MeterFlags::KBPS,
            meter_id: 3,
            bands: vec![MeterBand::DscpRemark { rate: 100, burst_size: 0, prec_level: 1 }],
        };
        wire.controller.send(|version, xid, out| remark.encode(version, xid, out))?;
        let errors = wire.controller.barrier()?;
        let [(_, error)] = &errors[..] else { bail!("one error was expected: {errors:?}") };
        assert!(error.contains("METER_MOD_FAILED/BAD_BAND"), "{error}");

        let changed = MeterMod {
            command: MeterModCommand::Modify,
            bands: vec![MeterBand::Drop { rate: 7, burst_size: 9 }],
            ..meters().swap_remove(0).0
        };
        let gone = MeterMod {
            command: MeterModCommand::Delete,
            flags: MeterFlags::default(),
            meter_id: 2,
            bands: Vec::new(),
        };
        for meter in [&changed, &gone] {
            wire.controller.send(|version, xid, out| meter.encode(version, xid, out))?;
        }
        wire.controller.must_all_be_accepted()?;
        let left = meter_configs(&mut wire.controller)?;
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(left[0].bands, changed.bands);
        if let Some(read) = wire.read_capture()? {
            assert!(read.contains("OFPMBT_DSCP_REMARK"), "tshark names the band");
        }
        Ok(())
    });
}
