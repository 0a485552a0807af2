//! No message passes the scope of a grant: another switch, another table.

use openflow::{FlowStatsRequest, MultipartRequest};

use super::*;
use Capability::{FlowRead, FlowWrite, FlowWriteAny, PacketOutReserved, StatsRead, TopologyProbe};

fn scoped(capability: Capability, dpids: &[u64], tables: &[u8]) -> Grant {
    Grant { capability, dpids: dpids.to_vec(), tables: tables.to_vec() }
}

fn app(capabilities: Vec<Grant>) -> AppRights {
    AppRights::of(APP, &policy(capabilities))
}

fn encoded(version: Version, flow_mod: &FlowMod<'_>) -> Vec<u8> {
    bytes(|out| flow_mod.encode(version, 0, out))
}

fn asked(version: Version, request: &MultipartRequest<'_>) -> Vec<u8> {
    bytes(|out| request.encode(version, 0, out))
}

/// A message that each capability admits, given the others in the list.
fn messages() -> Vec<(Capability, Vec<Capability>, Vec<u8>)> {
    let new = Version::V1_3;
    let controller = [Action::output(PortNo::CONTROLLER)];
    let packet_out = |actions: &[Action]| {
        let packet_out = PacketOut::new(PortNo(1), actions, &[0; 60]);
        bytes(|out| packet_out.encode(new, 0, out))
    };
    let group = GroupMod {
        command: GroupModCommand::Add,
        kind: GroupKind::All,
        group_id: 7 << 16,
        buckets: vec![Bucket::new(OUT)],
    };
    let meter = openflow::MeterMod {
        command: openflow::MeterModCommand::Add,
        flags: openflow::MeterFlags::KBPS,
        meter_id: 7 << 8,
        bands: vec![],
    };
    let table_mod = openflow::TableMod::new(0, 0);
    let vendor = Experimenter { experimenter: 9, data: &[0, 0, 0, 12] };
    let mpls = own().apply(&[Action::PopMpls(0x88cc)]);
    vec![
        (Capability::PacketOut, vec![], packet_out(&OUT)),
        (PacketOutReserved, vec![Capability::PacketOut], packet_out(&controller)),
        (FlowWrite, vec![], encoded(new, &own())),
        (FlowWriteAny, vec![], encoded(new, &own())),
        (Capability::GroupWrite, vec![], bytes(|out| group.encode(new, 0, out))),
        (Capability::MeterWrite, vec![], bytes(|out| meter.encode(new, 0, out))),
        (StatsRead, vec![], asked(new, &MultipartRequest::Table)),
        (FlowRead, vec![StatsRead], asked(new, &MultipartRequest::GroupDesc)),
        (Capability::SwitchConfig, vec![], bytes(|out| table_mod.encode(new, 0, out))),
        (TopologyProbe, vec![FlowWrite], encoded(new, &mpls)),
        (Capability::Experimenter(9), vec![], bytes(|out| vendor.encode(new, 0, out))),
    ]
}

#[test]
fn capability_ends_at_its_switches() {
    for (capability, others, message) in messages() {
        let mut grants = Grant::unscoped(&others);
        grants.push(scoped(capability, &[5, 2], &[]));
        let app = app(grants);
        for (dpid, is_allowed) in [(1, false), (2, true), (3, false), (5, true), (u64::MAX, false)]
        {
            let checked = app.at(dpid).check(Version::V1_3, &message);
            assert_eq!(checked.is_ok(), is_allowed, "{capability} at {dpid}: {checked:?}");
        }
    }
    let messages = messages();
    let all: Vec<_> =
        Capability::NAMED.into_iter().filter(|(name, _)| *name != "packet-in").collect();
    assert!(all.iter().all(|(_, it)| messages.iter().any(|(tested, ..)| tested == it)));
}

#[test]
fn flow_mod_ends_at_its_tables() {
    use FlowModCommand::{Add, Delete, DeleteStrict, Modify, ModifyStrict};
    let app = app(vec![scoped(FlowWrite, &[], &[1]), scoped(FlowWrite, &[4], &[3])]);
    let checked = |dpid, version, command, table_id| {
        let flow_mod = FlowMod { command, table_id, ..own() };
        app.at(dpid).check(version, &encoded(version, &flow_mod)).map(drop)
    };
    for command in [Add, Modify, ModifyStrict, Delete, DeleteStrict] {
        for table in 0..=u8::MAX {
            let is_allowed = |dpid| table == 1 || table == 3 && dpid == 4;
            for dpid in [2, 4] {
                let checked = checked(dpid, Version::V1_3, command, table);
                assert_eq!(checked.is_ok(), is_allowed(dpid), "{command:?} {table}");
            }
        }
        assert_eq!(checked(2, Version::V1_0, command, 0), Err(Refusal::Capability));
    }
}

#[test]
fn flow_mod_of_1_0_with_tables_only_adds() {
    use FlowModCommand::{Add, Delete, DeleteStrict, Modify, ModifyStrict};
    let mut app = app(vec![scoped(FlowWrite, &[], &[0])]);
    app.set_alone(true); // so that nothing else is refused
    for command in [Add, Modify, ModifyStrict, Delete, DeleteStrict] {
        let message = encoded(Version::V1_0, &FlowMod { command, ..own() });
        let checked = app.at(1).check(Version::V1_0, &message);
        assert_eq!(checked.is_ok(), command == Add, "{command:?}");
    }
}

#[test]
fn others_flows_are_touched_in_granted_tables_only() {
    let app = app(vec![FlowWrite.into(), scoped(FlowWriteAny, &[], &[2])]);
    for (table_id, narrows) in [(1, true), (2, false), (FlowMod::ALL_TABLES, true)] {
        let delete = FlowMod { command: FlowModCommand::Delete, table_id, ..own() };
        let mut message = encoded(Version::V1_3, &delete);
        app.at(1).check(Version::V1_3, &message).unwrap().mark(APP, &mut message);
        let mask = FlowMod::decode(&message).unwrap().cookie_mask;
        assert_eq!(mask >> APP_SHIFT == 0xffff, narrows, "{table_id}");
    }
    let delete = FlowMod { command: FlowModCommand::Delete, ..own() };
    let old = app.at(1).check(Version::V1_0, &encoded(Version::V1_0, &delete));
    assert_eq!(old.err(), Some(Refusal::Foreign));
}

#[test]
fn flow_statistics_end_at_readable_tables() {
    let app = app(vec![StatsRead.into(), scoped(FlowRead, &[], &[2])]);
    let flows = |table_id| FlowStatsRequest { table_id, ..FlowStatsRequest::new(Match::new()) };
    let ask = |request| app.at(1).check(Version::V1_3, &asked(Version::V1_3, &request)).err();
    assert_eq!(ask(MultipartRequest::Flow(flows(2))), None);
    assert_eq!(ask(MultipartRequest::Flow(flows(FlowMod::ALL_TABLES))), None, "some is there");
    assert_eq!(ask(MultipartRequest::Aggregate(flows(2))), None);
    for refused in [
        MultipartRequest::Flow(flows(1)),
        MultipartRequest::Aggregate(flows(1)),
        MultipartRequest::Aggregate(flows(FlowMod::ALL_TABLES)),
        MultipartRequest::GroupDesc,
        MultipartRequest::Meter(openflow::MeterMod::ALL_METERS),
    ] {
        assert_eq!(ask(refused), Some(Refusal::Capability));
    }
}
