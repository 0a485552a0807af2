//! Actions and fields of Open vSwitch: each is checked like the standard action with the same effect.

use std::collections::BTreeSet;

use openflow::nicira::{
    Bundle, BundleAlgorithm, Controller2, Ct, FieldId, HashFields, Learn, Multipath,
    MultipathAlgorithm, Nat, NiciraAction, SAME_TABLE, Subfield,
};

use super::*;

const NICIRA: Capability = Capability::Experimenter(0x2320);

/// The versions in which Open vSwitch has each of these actions. In 1.5 standard actions replace some.
fn before_1_5() -> impl Iterator<Item = Version> {
    VERSIONS.into_iter().filter(|version| !version.features().egress_tables)
}

/// Of an app with these capabilities and tables 0 to 3.
fn app(more: &[Capability]) -> Rights {
    let usual = [Capability::PacketOut, Capability::GroupWrite, Capability::MeterWrite, NICIRA];
    let mut grants = Grant::unscoped(&[&usual, more].concat());
    let tables = vec![0, 1, 2, 3];
    grants.push(Grant { capability: Capability::FlowWrite, dpids: Vec::new(), tables });
    Rights::of(APP, &policy(grants), None)
}

fn in_flow(rights: &Rights, version: Version, action: &Action) -> Result<(), Refusal> {
    let flow = own().apply(std::slice::from_ref(action));
    flow_mod(rights, version, &flow).map(drop)
}

fn in_packet_out(rights: &Rights, version: Version, action: &Action) -> Result<(), Refusal> {
    let packet_out = PacketOut::new(PortNo(1), std::slice::from_ref(action), &[0; 60]);
    check(rights, version, &bytes(|out| packet_out.encode(version, 0, out))).map(drop)
}

fn in_bucket(rights: &Rights, action: &Action) -> Result<(), Refusal> {
    let group_mod = GroupMod {
        command: GroupModCommand::Add,
        kind: GroupKind::All,
        group_id: 7 << 16,
        buckets: vec![Bucket::new(vec![action.clone()])],
    };
    check(rights, Version::V1_3, &bytes(|out| group_mod.encode(Version::V1_3, 0, out))).map(drop)
}

fn field(name: &str) -> FieldId {
    FieldId::by_name(name).unwrap()
}

fn reg(number: u8) -> Subfield {
    FieldId::reg(number).into()
}

fn to_table(table: u8) -> NiciraAction {
    NiciraAction::ResubmitTable { in_port: PortNo::IN_PORT, table, ct: false }
}

fn load(name: &str, value: u64) -> NiciraAction {
    NiciraAction::Load { to: field(name).into(), value }
}

fn bundle(members: &[PortNo], to: Option<Subfield>) -> NiciraAction {
    let (fields, algorithm) = (HashFields::EthSrc, BundleAlgorithm::Hrw);
    NiciraAction::Bundle(Bundle { fields, basis: 0, algorithm, members: members.to_vec(), to })
}

/// The need of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Needs {
    Nothing,
    /// `packet-out.reserved`.
    Reserved,
    /// `packet-out.reserved` in a packet-out and in a bucket.
    ReservedOutsideFlows,
    /// No grant allows it.
    Refused,
    /// It names a thing of another app.
    NotOwn,
}

/// Each action with what it needs.
fn actions() -> Vec<(NiciraAction, Needs)> {
    use Needs::{NotOwn, Nothing, Refused, Reserved, ReservedOutsideFlows};
    let multipath = Multipath {
        fields: HashFields::EthSrc,
        basis: 0,
        algorithm: MultipathAlgorithm::Hrw,
        max_link: 3,
        arg: 0,
        to: reg(1),
    };
    let ct =
        |table, actions| NiciraAction::Ct(Ct { commit: true, table, actions, ..Ct::default() });
    let nat = NiciraAction::Nat(Nat { src: true, ..Nat::default() });
    let other_port = |table| NiciraAction::ResubmitTable { in_port: PortNo(4), table, ct: false };
    let trunc = |port| NiciraAction::OutputTrunc { port, max_len: 100 };
    let controller = |it| NiciraAction::Controller2(it);
    let plain = Controller2::default;
    let clone = |inner: NiciraAction| NiciraAction::Clone(vec![inner.into()]);
    vec![
        (NiciraAction::Resubmit { in_port: PortNo::IN_PORT }, ReservedOutsideFlows),
        (NiciraAction::Resubmit { in_port: PortNo(4) }, Reserved),
        (to_table(SAME_TABLE), ReservedOutsideFlows),
        (to_table(3), ReservedOutsideFlows),
        (other_port(3), Reserved),
        (ct(Some(3), vec![]), ReservedOutsideFlows),
        (ct(None, vec![]), Nothing),
        (ct(None, vec![nat.into(), load("ct_mark", 1).into()]), Nothing),
        (ct(None, vec![Action::output(PortNo::NORMAL)]), Reserved),
        (NiciraAction::CtClear, Nothing),
        (load("reg0", 1), Nothing),
        (load("NXM_OF_IN_PORT", 1), Reserved),
        (NiciraAction::Move { from: reg(0), to: field("OXM_OF_IN_PORT").into() }, Reserved),
        (NiciraAction::LoadField(Field::InPort(PortNo(3))), Reserved),
        (NiciraAction::Pop(field("NXM_OF_IN_PORT").into()), Reserved),
        (NiciraAction::Push(field("NXM_OF_IN_PORT").into()), Nothing),
        (NiciraAction::OutputReg { from: reg(0), max_len: 0 }, Reserved),
        (trunc(PortNo(2)), Nothing),
        (trunc(PortNo::NORMAL), Reserved),
        (trunc(PortNo::CONTROLLER), ReservedOutsideFlows),
        (bundle(&[PortNo(1), PortNo(2)], None), Nothing),
        (bundle(&[PortNo(1), PortNo::NORMAL], None), Reserved),
        (bundle(&[PortNo(1), PortNo::NORMAL], Some(reg(0))), Nothing),
        (bundle(&[PortNo(1)], Some(field("NXM_OF_IN_PORT").into())), Reserved),
        (NiciraAction::Multipath(multipath), Nothing),
        (
            NiciraAction::Controller { max_len: 0, controller_id: 0, reason: 1 },
            ReservedOutsideFlows,
        ),
        (NiciraAction::Controller { max_len: 0, controller_id: 0, reason: 0 }, Reserved),
        (NiciraAction::Controller { max_len: 0, controller_id: 9, reason: 1 }, Refused),
        (controller(Controller2 { userdata: [1].into(), ..plain() }), ReservedOutsideFlows),
        (controller(Controller2 { pause: true, ..plain() }), Refused),
        (controller(Controller2 { meter: Some(8 << 8), ..plain() }), NotOwn),
        (NiciraAction::DecTtlControllers(vec![0]), Nothing),
        (NiciraAction::DecTtlControllers(vec![0, 1]), Refused),
        (NiciraAction::Learn(Box::new(Learn { table: 1, ..Learn::default() })), Refused),
        (clone(NiciraAction::Learn(Box::new(Learn { limit: 1, ..Learn::default() }))), Refused),
        (clone(to_table(2)), ReservedOutsideFlows),
        (clone(clone(NiciraAction::OutputReg { from: reg(0), max_len: 0 })), Reserved),
        (NiciraAction::Clone(vec![Action::output(PortNo(2))]), Nothing),
        (NiciraAction::Conjunction { clause: 0, n_clauses: 2, id: 1 }, Nothing),
        (NiciraAction::Note([1; 6].into()), Nothing),
        (NiciraAction::Exit, Nothing),
        (NiciraAction::PopQueue, Nothing),
        (NiciraAction::SetTunnel64(5), Nothing),
        (NiciraAction::FinTimeout { idle: 1, hard: 1 }, Nothing),
        (NiciraAction::WriteMetadata { value: 1, mask: 1 }, Nothing),
        (
            NiciraAction::CheckPktLarger { pkt_len: 9, to: Subfield::part(FieldId::reg(0), 0, 1) },
            Nothing,
        ),
        (NiciraAction::DeleteField(field("tun_metadata3")), Nothing),
    ]
}

#[test]
fn each_action_is_checked_as_its_counterpart() {
    let (usual, reserved) = (app(&[]), app(&[Capability::PacketOutReserved]));
    let everything = app(&[Capability::PacketOutReserved, Capability::TopologyProbe]);
    for (action, needs) in actions() {
        let action = Action::from(action);
        for version in before_1_5() {
            let flow = |rights| in_flow(rights, version, &action);
            let packet_out = |rights| in_packet_out(rights, version, &action);
            let (of_flow, of_packet_out) = match needs {
                Needs::Nothing => (Ok(()), Ok(())),
                Needs::Reserved => (Err(Refusal::Capability), Err(Refusal::Capability)),
                Needs::ReservedOutsideFlows => (Ok(()), Err(Refusal::Capability)),
                Needs::Refused => (Err(Refusal::Action), Err(Refusal::Action)),
                Needs::NotOwn => (Err(Refusal::Id), Err(Refusal::Capability)),
            };
            assert_eq!(flow(&usual), of_flow, "{action} in a flow of {version}");
            assert_eq!(packet_out(&usual), of_packet_out, "{action} in a packet-out of {version}");
            if version == Version::V1_3 {
                assert_eq!(in_bucket(&usual, &action), of_packet_out, "{action} in a bucket");
            }
            let granted = match needs {
                Needs::Refused => Err(Refusal::Action),
                Needs::NotOwn => Err(Refusal::Id),
                _ => Ok(()),
            };
            for rights in [&reserved, &everything] {
                assert_eq!(flow(rights), granted, "{action} in a flow of {version}");
                assert_eq!(packet_out(rights), granted, "{action} in a packet-out of {version}");
            }
        }
    }
}

#[test]
fn every_action_needs_the_grant() {
    let without = rights(&[
        Capability::PacketOut,
        Capability::PacketOutReserved,
        Capability::FlowWriteAny,
        Capability::GroupWrite,
        Capability::Experimenter(0x4f4e_4600),
    ]);
    for (action, _) in actions() {
        let action = Action::from(action);
        for version in before_1_5() {
            assert_eq!(in_flow(&without, version, &action), Err(Refusal::Action), "{action}");
            assert_eq!(in_packet_out(&without, version, &action), Err(Refusal::Action));
        }
    }
}

#[test]
fn lookups_are_in_tables_of_the_app() {
    let rights = app(&[Capability::PacketOutReserved]);
    let mut allowed = BTreeSet::new();
    for table in 0..=u8::MAX {
        let ct = NiciraAction::Ct(Ct { table: Some(table), ..Ct::default() });
        let both =
            if table == SAME_TABLE { vec![to_table(table)] } else { vec![to_table(table), ct] };
        for action in both {
            let action = Action::from(action);
            let found = in_flow(&rights, Version::V1_3, &action);
            assert_eq!(in_packet_out(&rights, Version::V1_3, &action), found, "{action}");
            match found {
                Ok(()) => _ = allowed.insert(table),
                Err(why) => assert_eq!(why, Refusal::Capability, "{action}"),
            }
        }
    }
    assert_eq!(allowed, BTreeSet::from([0, 1, 2, 3, SAME_TABLE]));
}

#[test]
fn what_is_not_decoded_is_refused() {
    let rights = app(&[Capability::PacketOutReserved, Capability::TopologyProbe]);
    for data in [
        vec![0, 29, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], // sample
        vec![0, 46, 0, 0, 0, 1, 0x89, 0x4f],                   // encap
        vec![0, 16, 0, 0],                                     // learn, cut
        vec![0, 1, 0, 5, 0, 0, 0, 1],                          // resubmit with padding
        vec![1, 0, 0, 0, 0, 0, 0, 0],                          // unknown
    ] {
        let action = Action::Experimenter { experimenter: 0x2320, data: data.into() };
        for version in before_1_5() {
            assert_eq!(in_flow(&rights, version, &action), Err(Refusal::Action), "{action}");
        }
    }
}

#[test]
fn queues_and_groups_of_1_0_are_checked_alike() {
    let rights = app(&[]);
    let check = |action: NiciraAction| in_flow(&rights, Version::V1_0, &action.into());
    assert_eq!(check(NiciraAction::SetQueue(1)), Ok(()));
    assert_eq!(check(NiciraAction::Group(7 << 16)), Ok(()));
    assert_eq!(check(NiciraAction::Group(8 << 16)), Err(Refusal::Id));
    assert_eq!(check(NiciraAction::PopMpls(0x0800)), Ok(()));
    assert_eq!(check(NiciraAction::PopMpls(0x88cc)), Err(Refusal::Capability), "LLDP");
}

#[test]
fn fields_of_other_classes_hide_neither_ports_nor_lldp() {
    let (usual, prober) = (app(&[]), app(&[Capability::TopologyProbe]));
    let value = |name: &str, value| field(name).with_value(value, None).unwrap();
    let forge = Action::SetField(value("NXM_OF_IN_PORT", 3));
    assert_eq!(in_flow(&usual, Version::V1_3, &forge), Err(Refusal::Capability));
    assert_eq!(in_flow(&app(&[Capability::PacketOutReserved]), Version::V1_3, &forge), Ok(()));
    let relabel = Action::SetField(value("NXM_OF_ETH_TYPE", 0x88cc));
    assert_eq!(in_flow(&usual, Version::V1_3, &relabel), Err(Refusal::Capability));
    let mark = Action::SetField(value("reg0", 3));
    assert_eq!(in_flow(&usual, Version::V1_3, &mark), Ok(()));
    for (eth_type, is_lldp) in [(0x88cc, true), (0x0800, false)] {
        let flow = FlowMod::add(Match::new().with(&value("NXM_OF_ETH_TYPE", eth_type)));
        let flow = flow.priority(150).apply(&OUT);
        assert_eq!(flow_mod(&usual, Version::V1_3, &flow).is_err(), is_lldp);
        assert!(flow_mod(&prober, Version::V1_3, &flow).is_ok());
        let delete = FlowMod { command: FlowModCommand::Delete, ..flow };
        assert!(flow_mod(&usual, Version::V1_3, &delete).is_ok());
    }
}

#[test]
fn registers_are_matched_with_the_grant() {
    let matching = Match::new().with(&field("reg0").with_value(1, Some(1)).unwrap());
    let flow = FlowMod::add(matching).priority(150).apply(&OUT);
    assert!(flow_mod(&app(&[]), Version::V1_3, &flow).is_ok());
    assert_eq!(flow_mod(&usual(), Version::V1_3, &flow).map(drop), Err(Refusal::Action));
    let policy = policy(Grant::unscoped(&[Capability::FlowWrite]));
    let message = bytes(|out| flow.encode(Version::V1_3, 0, out));
    let missing = AppRights::of(APP, &policy).missing(2, Refusal::Action, &message).unwrap();
    assert_eq!(missing.names(), "experimenter:0x00002320");
}
