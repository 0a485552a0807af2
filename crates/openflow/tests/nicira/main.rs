//! Compares actions and match fields of Open vSwitch with the real `ovs-ofctl`: it encodes a flow from text for a switch that
//! this test plays, and prints the messages that this crate encodes.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test that says what it skips")]

mod cases;
mod hostile;
mod messages;
mod switch;

use cases::{Case, cases, fields};
use rosemary_openflow::nicira::{FieldId, NxFlowMod, NxMatch, missing_prerequisite};
use rosemary_openflow::{
    Action, FlowMod, FlowModCommand, FlowModFlags, Match, NiciraAction, PortNo, Version, append,
};

/// Returns the cases that a version has.
fn of_version(version: Version) -> Vec<Case> {
    cases().into_iter().filter(|case| case.versions.contains(&version)).collect()
}

/// Encodes a flow of table 0 with the action of a case, as `ovs-ofctl` does by default. In OpenFlow 1.0 it is Nicira's
/// flow-mod, which has the matches of all cases.
fn encode(version: Version, case: &Case) -> Vec<u8> {
    let mut bytes = Vec::new();
    let actions = std::slice::from_ref(&case.action);
    if version == Version::V1_0 {
        let flow_mod = NxFlowMod {
            cookie: 0,
            table_id: 0,
            command: FlowModCommand::Add,
            idle_timeout: 0,
            hard_timeout: 0,
            priority: 0x8000,
            buffer_id: None,
            out_port: PortNo::ANY,
            flags: FlowModFlags::default(),
            matching: NxMatch { cookie: None, packets: case.nxm() },
            actions: actions.to_vec(),
        };
        append(&mut bytes, |out| flow_mod.encode(version, 0, out)).unwrap();
    } else {
        let flow_mod = FlowMod::add(case.matching()).priority(0x8000).apply(actions);
        append(&mut bytes, |out| flow_mod.encode(version, 0, out)).unwrap();
    }
    bytes
}

/// Returns the actions of a flow-mod.
fn actions(version: Version, message: &[u8]) -> Vec<Action> {
    match version {
        Version::V1_0 => NxFlowMod::decode(message).unwrap().actions,
        _ => FlowMod::decode(message).unwrap().instructions.apply.iter().collect(),
    }
}

#[test]
fn ovs_ofctl_encodes_each_action_alike() {
    for version in [Version::V1_0, Version::V1_3, Version::V1_4, Version::V1_5] {
        let mut cases = of_version(version);
        cases.retain(|case| !case.text.is_empty());
        let format = if version == Version::V1_0 { "NXM" } else { "any" };
        let texts = cases.iter().map(Case::flow);
        let Some(theirs) = switch::flows_of(version, format, texts) else { return };
        assert_eq!(theirs.len(), cases.len(), "{version}");
        for (case, theirs) in cases.iter().zip(theirs) {
            let text = case.text;
            assert_eq!(hex(&encode(version, case)), hex(&theirs), "{text} in {version}");
            assert_eq!(
                actions(version, &theirs),
                std::slice::from_ref(&case.action),
                "{text} in {version}"
            );
        }
    }
}

#[test]
fn ovs_ofctl_prints_each_action_alike() {
    for version in [Version::V1_0, Version::V1_3] {
        let cases = of_version(version);
        let messages = cases.iter().map(|case| encode(version, case));
        let Some(printed) = switch::print(&messages.collect::<Vec<_>>()) else { return };
        assert_eq!(printed.len(), cases.len(), "{printed:?}");
        for (case, printed) in cases.iter().zip(printed) {
            let (_, actions) = printed
                .split_once("actions=")
                .unwrap_or_else(|| panic!("{}: {printed}", case.text));
            assert_eq!(case.action.to_string(), actions, "{} in {version}", case.text);
        }
    }
}

#[test]
fn ovs_ofctl_encodes_each_match_field_alike() {
    let fields = fields();
    for version in [Version::V1_0, Version::V1_3] {
        let texts = fields.iter().map(|field| format!("{},actions=drop", field.text));
        let Some(theirs) = switch::flows_of(version, "any", texts) else { return };
        assert_eq!(theirs.len(), fields.len(), "{version}");
        for (field, theirs) in fields.iter().zip(theirs) {
            let found = match version {
                Version::V1_0 => NxFlowMod::decode(&theirs).unwrap().matching.packets,
                _ => FlowMod::decode(&theirs).unwrap().match_,
            };
            let set: Vec<_> = found.fields().collect();
            let own = field.field();
            assert!(set.contains(&own), "{} in {version}: {found}", field.text);
            assert_eq!(missing_prerequisite(&found), None, "{}", field.text);
            // Alone, it lacks what the others give it.
            let lacks = missing_prerequisite(&Match::new().with(&own)).is_some();
            assert_eq!(lacks, set.len() > 1, "{}", field.text);
            let mut again = Vec::new();
            if version == Version::V1_0 {
                let flow_mod = NxFlowMod::decode(&theirs).unwrap();
                append(&mut again, |out| flow_mod.encode(version, 0, out)).unwrap();
            } else {
                let flow_mod = FlowMod::decode(&theirs).unwrap();
                append(&mut again, |out| flow_mod.encode(version, 0, out)).unwrap();
            }
            assert_eq!(again.len(), theirs.len(), "{} in {version}", field.text);
        }
    }
}

#[test]
fn actions_of_other_versions_are_refused() {
    for case in cases() {
        for version in Version::ALL.iter().copied() {
            let Action::Nicira(action) = &case.action else { continue };
            let has = case.versions.contains(&version)
                || ["write_metadata", "set_tunnel"].iter().any(|it| case.text.starts_with(it));
            // `ovs-ofctl` has standard forms of two actions in later versions, and 1.1 and 1.2 have what 1.0 and 1.3 both have.
            if ![Version::V1_1, Version::V1_2].contains(&version) {
                assert_eq!(action.encode(version).is_ok(), has, "{} in {version}", case.text);
            }
        }
    }
}

#[test]
fn fields_have_names_sizes_and_rights() {
    let field = |name: &str| FieldId::by_name(name).unwrap();
    assert_eq!(field("reg3"), FieldId::reg(3));
    assert_eq!(field("NXM_NX_REG3"), FieldId::reg(3));
    for (name, bits, writes, masks) in [
        ("reg15", 32, true, true),
        ("xreg1", 64, true, true),
        ("xxreg3", 128, true, true),
        ("NXM_OF_IN_PORT", 16, true, false),
        ("NXM_OF_ETH_TYPE", 16, false, false),
        ("OXM_OF_ETH_TYPE", 16, false, true),
        ("ct_state", 32, false, true),
        ("ct_label", 128, true, true),
        ("conj_id", 32, false, false),
        ("metadata", 64, true, true),
        ("tun_metadata5", 992, true, true),
    ] {
        let field = field(name);
        assert_eq!(
            (field.bits(), field.is_writable(), field.is_maskable()),
            (bits, writes, masks),
            "{name}"
        );
    }
    assert_eq!(FieldId::by_name("reg16"), None);
    assert_eq!(FieldId::by_name("tun_metadata64"), None);
    assert!(FieldId::reg(0).with_value(1 << 32, None).is_err(), "too large");
    assert!(field("conj_id").with_value(1, Some(1)).is_err(), "has no mask");
    assert_eq!(
        Match::new().with(&FieldId::reg(0).with_value(5, Some(0xff)).unwrap()).to_string(),
        "reg0=0x5/0xff"
    );
}

#[test]
fn values_that_do_not_fit_are_not_encoded() {
    use rosemary_openflow::nicira::Subfield;
    let reg = FieldId::reg(0);
    for action in [
        NiciraAction::Load { to: reg.into(), value: 1 << 32 },
        NiciraAction::Load { to: Subfield::part(reg, 30, 3), value: 0 },
        NiciraAction::Load { to: Subfield::part(reg, 0, 0), value: 0 },
        NiciraAction::Load { to: FieldId::by_name("xxreg0").unwrap().into(), value: 0 },
        NiciraAction::Load { to: FieldId::by_name("ct_state").unwrap().into(), value: 0 },
        NiciraAction::Note([1, 2, 3].into()),
        NiciraAction::Conjunction { clause: 2, n_clauses: 2, id: 1 },
        NiciraAction::Resubmit { in_port: PortNo(0x1_0000) },
        NiciraAction::WriteMetadata { value: 2, mask: 1 },
        NiciraAction::Move { from: Subfield::part(reg, 0, 8), to: Subfield::part(reg, 0, 9) },
        NiciraAction::DecTtlControllers(Vec::new()),
    ] {
        assert!(action.encode(Version::V1_3).is_err(), "{action}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}
