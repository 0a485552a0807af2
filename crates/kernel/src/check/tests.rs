//! One test per rule.

use openflow::{
    Bucket, Experimenter, FlowMod, FlowModCommand, GroupKind, GroupModCommand, Match, PortNo,
    append,
};

use super::*;
use control::policy::{Grant, Stage};

mod lldp;
mod missing;
mod nicira;
mod outputs;
mod ownership;
mod requests;
mod scopes;

const APP: AppId = AppId(7);
const VERSIONS: [Version; Version::COUNT] =
    [Version::V1_0, Version::V1_1, Version::V1_2, Version::V1_3, Version::V1_4, Version::V1_5];
const OUT: [Action; 1] = [Action::Output { port: PortNo(2), max_len: 0 }];

fn policy(capabilities: Vec<Grant>) -> Policy {
    let band = Band { lowest: 100, highest: 199 };
    Policy { stage: Stage::Control, band, capabilities, ..Policy::default() }
}

fn rights(capabilities: &[Capability]) -> Rights {
    Rights::of(APP, &policy(Grant::unscoped(capabilities)), None)
}

fn usual() -> Rights {
    rights(&[Capability::PacketOut, Capability::FlowWrite])
}

/// Everything that can be granted.
fn all() -> Rights {
    rights(&[
        Capability::PacketOut,
        Capability::PacketOutReserved,
        Capability::FlowRead,
        Capability::FlowWriteAny,
        Capability::GroupWrite,
        Capability::MeterWrite,
        Capability::StatsRead,
        Capability::SwitchConfig,
        Capability::TopologyProbe,
        Capability::Experimenter(0x2320),
    ])
}

fn bytes(encode: impl Fn(&mut [u8]) -> Result<usize, openflow::EncodeError>) -> Vec<u8> {
    let mut out = Vec::new();
    append(&mut out, encode).unwrap();
    out
}

fn check(rights: &Rights, version: Version, message: &[u8]) -> Result<Allowed, Refusal> {
    let checked = rights.check(version, message)?;
    assert_eq!(checked.version, version);
    allow(checked.buffer_id(message).is_none_or(|buffer| buffer == 5), Refusal::Buffer)?;
    Ok(checked.allowed)
}

fn flow_mod(rights: &Rights, version: Version, flow_mod: &FlowMod<'_>) -> Result<Allowed, Refusal> {
    check(rights, version, &bytes(|out| flow_mod.encode(version, 0, out)))
}

/// Whether an allowed flow-mod may have changed the table-miss entry.
fn sweeps(allowed: Result<Allowed, Refusal>) -> Result<bool, Refusal> {
    allowed.map(|allowed| match allowed {
        Allowed::FlowMod { sweeps, .. } => sweeps.is_some(),
        other => panic!("{other:?}"),
    })
}

fn own() -> FlowMod<'static> {
    FlowMod::add(Match::new().in_port(PortNo(1))).priority(150).apply(&OUT)
}

#[test]
fn admitted_flow_carries_the_apps_number() {
    for (version, at) in [(Version::V1_0, 48), (Version::V1_3, 8)] {
        let mut message = bytes(|out| own().cookie(0xabc).encode(version, 0, out));
        let checked = usual().check(version, &message).unwrap();
        assert_eq!(
            checked.allowed,
            Allowed::FlowMod { sweeps: None, adds_to: Some(0), deletes: false }
        );
        checked.mark(APP, &mut message);
        assert_eq!(message[at..at + 8], [0, 7, 0, 0, 0, 0, 0x0a, 0xbc]);
        assert_eq!(FlowMod::decode(&message).unwrap().cookie, 0x0007_0000_0000_0abc);
    }
}

#[test]
fn wrong_version_or_length_is_refused() {
    let message = bytes(|out| own().encode(Version::V1_3, 0, out));
    assert_eq!(check(&usual(), Version::V1_0, &message), Err(Refusal::Shape));
    for size in 0..message.len() {
        assert_eq!(check(&usual(), Version::V1_3, &message[..size]), Err(Refusal::Shape));
    }
    let longer = [&message[..], &[0; 8]].concat();
    assert_eq!(check(&usual(), Version::V1_3, &longer), Err(Refusal::Shape));
    assert_eq!(check(&usual(), Version::V1_3, &[4, 200, 0, 8, 0, 0, 0, 0]), Err(Refusal::Shape));
}

#[test]
fn kinds_that_are_the_kernels_own_are_refused() {
    for kind in [
        Kind::Hello,
        Kind::EchoRequest,
        Kind::EchoReply,
        Kind::Error,
        Kind::FeaturesRequest,
        Kind::SetConfig,
        Kind::RoleRequest,
        Kind::GetAsyncRequest,
        Kind::SetAsync,
        Kind::PacketIn,
        Kind::MultipartReply,
    ] {
        let kind = kind.to_wire(Version::V1_3).unwrap();
        let message = [4, kind, 0, 8, 0, 0, 0, 0];
        assert_eq!(check(&all(), Version::V1_3, &message), Err(Refusal::Kind));
    }
}

#[test]
fn what_was_not_granted_is_refused() {
    let none = rights(&[]);
    for version in VERSIONS {
        assert_eq!(flow_mod(&none, version, &own()), Err(Refusal::Capability));
        let packet_out = PacketOut::new(PortNo(1), &OUT, &[0; 14]);
        let packet_out = bytes(|out| packet_out.encode(version, 0, out));
        assert_eq!(check(&none, version, &packet_out), Err(Refusal::Capability));
        assert_eq!(check(&usual(), version, &packet_out), Ok(Allowed::PacketOut));
    }
}

#[test]
fn priority_outside_the_band_is_refused() {
    for version in VERSIONS {
        for (priority, allowed) in [(0, false), (99, false), (100, true), (199, true), (200, false)]
        {
            let is = flow_mod(&usual(), version, &own().priority(priority)).is_ok();
            assert_eq!(is, allowed, "{priority} in {version}");
            let strict =
                FlowMod { command: FlowModCommand::DeleteStrict, ..own().priority(priority) };
            assert_eq!(flow_mod(&usual(), version, &strict).is_ok(), allowed);
        }
    }
}

#[test]
fn flow_mod_of_1_0_without_wildcards_needs_priority_65535() {
    use FlowModCommand::{Add, Delete, DeleteStrict, Modify, ModifyStrict};
    let (mut top, any) = (usual(), rights(&[Capability::FlowWriteAny]));
    top.band.highest = u16::MAX;
    for command in [Add, Modify, ModifyStrict, Delete, DeleteStrict] {
        // Bits above `OFPFW_ALL` have no meaning, so a match with them is exact too.
        for (wildcards, exact) in [(0, true), (0xffc0_0000, true), (1 << 8, false), (1, false)] {
            let flow_mod = FlowMod { command, ..own() };
            let mut message = bytes(|out| flow_mod.encode(Version::V1_0, 0, out));
            message[8..12].copy_from_slice(&u32::to_be_bytes(wildcards));
            let covers_all = matches!(command, Modify | Delete);
            let names = command != Delete;
            let expected = match (names && exact, covers_all) {
                (true, _) => Err(Refusal::Priority),
                (false, true) => Err(Refusal::Foreign),
                (false, false) => Ok(false),
            };
            let found = sweeps(check(&usual(), Version::V1_0, &message));
            assert_eq!(found, expected, "{command:?} {wildcards:#x}");
            let found = check(&top, Version::V1_0, &message);
            assert_eq!(found.is_ok(), !covers_all, "{command:?} {wildcards:#x}");
            let found = check(&any, Version::V1_0, &message).is_ok();
            assert_eq!(found, !(names && exact), "{command:?} {wildcards:#x}");
        }
    }
}

#[test]
fn emergency_flow_of_1_0_is_refused() {
    let emergency = own().flags(FlowModFlags::EMERGENCY);
    assert_eq!(flow_mod(&all(), Version::V1_0, &emergency), Err(Refusal::Action));
    let usual_flags = FlowModFlags::SEND_FLOW_REM | FlowModFlags::CHECK_OVERLAP;
    assert!(flow_mod(&all(), Version::V1_0, &own().flags(usual_flags)).is_ok());
}

#[test]
fn cookie_of_more_than_48_bits_is_refused_not_cut() {
    for version in VERSIONS {
        let large = own().cookie(1 << 48);
        assert_eq!(flow_mod(&usual(), version, &large), Err(Refusal::Cookie));
    }
    let mask = FlowMod::delete(Match::new()).only_cookie(0, 1 << 63);
    assert_eq!(flow_mod(&usual(), Version::V1_3, &mask), Err(Refusal::Cookie));
}

#[test]
fn modify_and_delete_of_1_3_are_narrowed_to_its_own_flows() {
    for command in [FlowModCommand::Modify, FlowModCommand::Delete, FlowModCommand::DeleteStrict] {
        let any = FlowMod { command, ..own() };
        let mut message = bytes(|out| any.encode(Version::V1_3, 0, out));
        usual().check(Version::V1_3, &message).unwrap().mark(APP, &mut message);
        let narrowed = FlowMod::decode(&message).unwrap();
        assert_eq!(narrowed.cookie, 7 << 48);
        assert_eq!(narrowed.cookie_mask, 0xffff << 48);
    }
    let any = rights(&[Capability::FlowWriteAny]);
    let mut message = bytes(|out| FlowMod::delete(Match::new()).encode(Version::V1_3, 0, out));
    any.check(Version::V1_3, &message).unwrap().mark(APP, &mut message);
    assert_eq!(FlowMod::decode(&message).unwrap().cookie_mask, 0);
}

#[test]
fn table_miss_is_restored_after_sweeping_messages() {
    use FlowModCommand::{Add, Delete, DeleteStrict, Modify, ModifyStrict};
    let any = rights(&[Capability::FlowWriteAny]);
    let alone = Rights { alone: true, ..usual() };
    for (rights, version, touch) in [
        (&any, Version::V1_3, &[Modify, Delete, DeleteStrict][..]),
        (&any, Version::V1_0, &[Modify, Delete, DeleteStrict]),
        (&usual(), Version::V1_3, &[]), // narrowed to its own
        (&alone, Version::V1_3, &[]),
        (&alone, Version::V1_0, &[Modify, Delete]), // the strict one would need another priority
    ] {
        for command in [Add, Modify, ModifyStrict, Delete, DeleteStrict] {
            let allowed = flow_mod(rights, version, &FlowMod { command, ..own() });
            let expected = Ok(touch.contains(&command));
            assert_eq!(sweeps(allowed), expected, "{version} {command:?}");
        }
    }
}

#[test]
fn only_a_delete_of_everything_certainly_sweeps() {
    let alone = Rights { alone: true, ..usual() };
    let sweep = |version, delete: &FlowMod<'_>| match flow_mod(&alone, version, delete) {
        Ok(Allowed::FlowMod { sweeps, .. }) => sweeps,
        other => panic!("{other:?}"),
    };
    let all = FlowMod::delete(Match::new());
    assert_eq!(sweep(Version::V1_0, &all), Some(Sweep::Certain));
    let to_us = FlowMod { out_port: PortNo::CONTROLLER, ..all.clone() };
    assert_eq!(sweep(Version::V1_0, &to_us), Some(Sweep::Certain));
    let to_one = FlowMod { out_port: PortNo(1), ..all.clone() };
    let of_one = FlowMod::delete(Match::new().in_port(PortNo(1)));
    let modify = FlowMod { command: FlowModCommand::Modify, ..own() };
    for other in [to_one, of_one, modify] {
        assert_eq!(sweep(Version::V1_0, &other), Some(Sweep::Possible), "{other:?}");
    }
    assert_eq!(sweep(Version::V1_3, &all), None, "narrowed to its own");
}

#[test]
fn delete_of_1_0_that_could_touch_others_flows_needs_a_grant_or_nobody_there() {
    let delete = FlowMod::delete(Match::new());
    assert_eq!(flow_mod(&usual(), Version::V1_0, &delete), Err(Refusal::Foreign));
    assert!(flow_mod(&rights(&[Capability::FlowWriteAny]), Version::V1_0, &delete).is_ok());
    let alone = Rights { alone: true, ..usual() };
    assert!(flow_mod(&alone, Version::V1_0, &delete).is_ok());
}

#[test]
fn buffer_that_it_was_not_given_is_refused() {
    for version in VERSIONS {
        for (buffer, allowed) in [(5, true), (6, false)] {
            let add = own().buffer_id(Some(buffer));
            assert_eq!(flow_mod(&usual(), version, &add).is_ok(), allowed);
            let packet_out = PacketOut::buffered(PortNo(1), &OUT, buffer);
            let packet_out = bytes(|out| packet_out.encode(version, 0, out));
            assert_eq!(check(&usual(), version, &packet_out).is_ok(), allowed);
        }
    }
}

#[test]
fn experimenter_action_needs_its_grant() {
    let data: Box<[u8]> = vec![0, 8, 0, 0].into(); // Open vSwitch's note begins like this
    let note = [Action::Experimenter { experimenter: 0x2320, data }];
    for version in VERSIONS {
        let add = FlowMod::add(Match::new()).priority(150).apply(&note);
        assert_eq!(flow_mod(&usual(), version, &add), Err(Refusal::Action));
        let granted = rights(&[Capability::FlowWrite, Capability::Experimenter(0x2320)]);
        assert!(flow_mod(&granted, version, &add).is_ok());
        let other = rights(&[Capability::FlowWrite, Capability::Experimenter(0x2321)]);
        assert_eq!(flow_mod(&other, version, &add), Err(Refusal::Action));
    }
}

#[test]
fn what_writes_flows_past_the_checks_has_no_grant() {
    let granted = rights(&[
        Capability::FlowWrite,
        Capability::PacketOut,
        Capability::Experimenter(0x2320),
        Capability::Experimenter(0x4f4e_4600),
    ]);
    let data: Box<[u8]> = vec![0, 16, 0, 0].into(); // Open vSwitch's learn begins like this
    let learn = [Action::Experimenter { experimenter: 0x2320, data }];
    for version in VERSIONS {
        let add = FlowMod::add(Match::new()).priority(150).apply(&learn);
        assert_eq!(flow_mod(&granted, version, &add), Err(Refusal::Action));
        let packet_out = PacketOut::new(PortNo(1), &learn, &[0; 60]);
        let packet_out = bytes(|out| packet_out.encode(version, 0, out));
        assert_eq!(check(&granted, version, &packet_out), Err(Refusal::Action));
        for (experimenter, subtype) in [(0x2320, 13_u32), (0x4f4e_4600, 2301)] {
            let data = [&subtype.to_be_bytes()[..], &[0; 8]].concat();
            let message = Experimenter { experimenter, data: &data };
            let message = bytes(|out| message.encode(version, 0, out));
            let is_refused = experimenter == 0x2320 || version == Version::V1_3;
            assert_eq!(check(&granted, version, &message).is_err(), is_refused);
        }
    }
}

#[test]
fn groups_are_the_apps_own() {
    let group = |group_id, to: &[Action]| {
        let group_mod = GroupMod {
            command: GroupModCommand::Add,
            kind: GroupKind::All,
            group_id,
            buckets: vec![Bucket::new(to)],
        };
        bytes(|out| group_mod.encode(Version::V1_3, 0, out))
    };
    let own = 7 << 16 | 1;
    let writer = rights(&[Capability::FlowWrite, Capability::GroupWrite]);
    let check = |message: &[u8]| check(&writer, Version::V1_3, message);
    assert_eq!(check(&group(own, &OUT)), Ok(Allowed::GroupMod { deletes: false }));
    assert_eq!(check(&group(8 << 16, &OUT)), Err(Refusal::Id));
    assert_eq!(check(&group(own, &[Action::Group(8 << 16)])), Err(Refusal::Id));
    let all = GroupMod {
        command: GroupModCommand::Delete,
        kind: GroupKind::All,
        group_id: GroupMod::ALL_GROUPS,
        buckets: vec![],
    };
    assert_eq!(check(&bytes(|out| all.encode(Version::V1_3, 0, out))), Err(Refusal::Id));
    let delete = GroupMod { group_id: own, ..all };
    let deleted = check(&bytes(|out| delete.encode(Version::V1_3, 0, out)));
    assert_eq!(deleted.map(Allowed::removals), Ok((true, None)), "its flows go, too");
    let through = [Action::Group(8 << 16)];
    let add = FlowMod::add(Match::new()).priority(150).apply(&through);
    assert_eq!(flow_mod(&writer, Version::V1_3, &add), Err(Refusal::Id));
    assert_eq!(usual().check(Version::V1_3, &group(own, &OUT)), Err(Refusal::Capability));
}

#[test]
fn garbage_in_a_flow_mod_is_an_answer_not_a_panic() {
    let message =
        bytes(|out| own().cookie(1).buffer_id(Some(5)).apply(&OUT).encode(Version::V1_3, 0, out));
    for at in 4..message.len() - 1 {
        for value in [0_u16, 1, 7, 8, 0xffff] {
            let mut garbled = message.clone();
            garbled[at..at + 2].copy_from_slice(&value.to_be_bytes());
            let _ = check(&usual(), Version::V1_3, &garbled);
        }
    }
}

#[test]
fn flow_mod_that_may_add_names_its_table() {
    let commands = [
        Command::Add,
        Command::Modify,
        Command::ModifyStrict,
        Command::Delete,
        Command::DeleteStrict,
    ];
    let table_of = |version, command| {
        let table = if version == Version::V1_0 { 0 } else { 9 };
        let message = FlowMod::new(command, Match::new()).table(table).priority(150);
        match flow_mod(&all(), version, &message) {
            Ok(Allowed::FlowMod { adds_to, .. }) => adds_to,
            other => panic!("{other:?}"),
        }
    };
    let of = |version| commands.map(|command| table_of(version, command));
    assert_eq!(of(Version::V1_0), [Some(0), Some(0), Some(0), None, None]);
    assert_eq!(of(Version::V1_3), [Some(9), None, None, None, None]);
}

#[test]
fn messages_that_differ_in_buffers_only_are_alike() {
    let flow_mod = |version, command, buffer| {
        let flow_mod = FlowMod::new(command, Match::new().in_port(PortNo(1)));
        let flow_mod = flow_mod.priority(150).buffer_id(buffer);
        let message = bytes(|out| flow_mod.encode(version, 0, out));
        let checked = usual().check(version, &message).unwrap();
        assert_eq!(checked.buffer_id(&message), buffer);
        checked
    };
    let packet_out = |version, buffer_id| {
        let packet_out = PacketOut { buffer_id, ..PacketOut::new(PortNo(1), &OUT, &[]) };
        let message = bytes(|out| packet_out.encode(version, 0, out));
        let checked = usual().check(version, &message).unwrap();
        assert_eq!(checked.buffer_id(&message), buffer_id);
        checked
    };
    for version in Version::ALL.iter().copied() {
        let add = flow_mod(version, Command::Add, Some(5));
        assert!(add.is_alike(&flow_mod(version, Command::Add, None)));
        assert!(packet_out(version, Some(5)).is_alike(&packet_out(version, Some(7))));
        assert!(!add.is_alike(&packet_out(version, Some(5))));
        let delete = flow_mod(version, Command::DeleteStrict, Some(5));
        assert!(!add.is_alike(&delete));
        assert!(add.uses_buffer() && !delete.uses_buffer());
    }
    let barrier = [4, 20, 0, 8, 0, 0, 0, 0];
    let barrier = usual().check(Version::V1_3, &barrier).unwrap();
    assert!(!barrier.is_alike(&barrier), "each has a transaction of its own");
}
