//! To which ports an app may output.

use super::*;

/// The message that an output belongs to.
const CONTEXTS: [Context; 3] = [Context::Flow, Context::Bucket, Context::PacketOut];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Context {
    Flow,
    Bucket,
    PacketOut,
}

fn packet_out(
    rights: &Rights,
    version: Version,
    in_port: PortNo,
    actions: &[Action],
) -> Result<Allowed, Refusal> {
    let packet_out = PacketOut::new(in_port, actions, &[0; 60]);
    check(rights, version, &bytes(|out| packet_out.encode(version, 0, out)))
}

fn send(
    rights: &Rights,
    version: Version,
    context: Context,
    actions: &[Action],
) -> Result<Allowed, Refusal> {
    match context {
        Context::Flow => flow_mod(rights, version, &own().apply(actions)),
        Context::PacketOut => packet_out(rights, version, PortNo(1), actions),
        Context::Bucket => group_mod(rights, GroupModCommand::Add, actions),
    }
}

fn group_mod(
    rights: &Rights,
    command: GroupModCommand,
    actions: &[Action],
) -> Result<Allowed, Refusal> {
    let buckets = vec![Bucket::new(OUT), Bucket::new(actions)];
    let group_mod = GroupMod { command, kind: GroupKind::All, group_id: 7 << 16, buckets };
    check(rights, Version::V1_3, &bytes(|out| group_mod.encode(Version::V1_3, 0, out)))
}

fn writer(more: &[Capability]) -> Rights {
    let usual = [Capability::PacketOut, Capability::FlowWrite, Capability::GroupWrite];
    rights(&[&usual, more].concat())
}

/// As an action of its own, and behind another one: the check has a fast path for outputs alone.
fn outputs(version: Version, port: PortNo) -> Vec<Vec<Action>> {
    let mut outputs = vec![
        vec![Action::output(port)],
        vec![Action::output(PortNo(2)), Action::output(port)],
        vec![Action::PopVlan, Action::output(port)],
    ];
    if version == Version::V1_0 {
        outputs.push(vec![Action::Enqueue { port, queue_id: 1 }]);
    } else {
        outputs.push(vec![Action::SetQueue(1), Action::output(port)]);
    }
    outputs
}

#[test]
fn outputs_to_reserved_ports_need_a_grant() {
    // Physical and logical ports, and those that stand for them.
    let everybody =
        [PortNo(1), PortNo(0xfeff), PortNo::LOCAL, PortNo::IN_PORT, PortNo::FLOOD, PortNo::ALL];
    let nobody = [PortNo::TABLE, PortNo::NORMAL, PortNo::ANY, PortNo(0), PortNo(0xffff_ff01)];
    let (usual, granted) = (writer(&[]), writer(&[Capability::PacketOutReserved]));
    for version in VERSIONS {
        let contexts =
            CONTEXTS.into_iter().filter(|it| *it != Context::Bucket || version == Version::V1_3);
        for context in contexts {
            let of_flow = context == Context::Flow;
            let ports = everybody.map(|port| (port, true)).into_iter();
            let ports = ports.chain(nobody.map(|port| (port, false)));
            for (port, is_free) in ports.chain([(PortNo::CONTROLLER, of_flow)]) {
                for actions in outputs(version, port) {
                    let case = format!("{actions:?} in a {context:?} of {version}");
                    let expected = if is_free { Ok(()) } else { Err(Refusal::Capability) };
                    assert_eq!(
                        send(&usual, version, context, &actions).map(drop),
                        expected,
                        "{case}"
                    );
                    assert_eq!(
                        send(&granted, version, context, &actions).map(drop),
                        Ok(()),
                        "{case}"
                    );
                }
            }
        }
    }
    let in_1_3_only = [Action::output(PortNo(0xfff9)), Action::output(PortNo::MAX)];
    assert!(packet_out(&usual, Version::V1_3, PortNo(1), &in_1_3_only).is_ok(), "physical there");
}

#[test]
fn outputs_of_the_action_set_are_checked() {
    let (normal, controller) =
        ([Action::output(PortNo::NORMAL)], [Action::output(PortNo::CONTROLLER)]);
    let flow = |actions| FlowMod::add(Match::new()).priority(150).write(actions);
    assert_eq!(flow_mod(&usual(), Version::V1_3, &flow(&normal)), Err(Refusal::Capability));
    assert!(flow_mod(&usual(), Version::V1_3, &flow(&controller)).is_ok());
}

#[test]
fn bucket_that_is_changed_later_is_checked_again() {
    let controller = [Action::output(PortNo::CONTROLLER)];
    for command in [GroupModCommand::Add, GroupModCommand::Modify] {
        assert!(group_mod(&writer(&[]), command, &OUT).is_ok());
        assert_eq!(group_mod(&writer(&[]), command, &controller), Err(Refusal::Capability));
    }
}

#[test]
fn in_port_of_a_packet_out_is_a_port_or_none() {
    for version in VERSIONS {
        for in_port in [PortNo(1), PortNo::LOCAL, PortNo::CONTROLLER, PortNo::ANY] {
            assert!(packet_out(&usual(), version, in_port, &OUT).is_ok(), "{in_port} in {version}");
        }
        for in_port in [PortNo::TABLE, PortNo::NORMAL, PortNo::FLOOD, PortNo::IN_PORT, PortNo::ALL]
            .into_iter()
            .chain((version == Version::V1_3).then_some(PortNo(0xffff_ff01)))
        {
            for actions in [&OUT[..], &[Action::PopVlan, OUT[0].clone()]] {
                let refused = packet_out(&all(), version, in_port, actions);
                assert_eq!(refused, Err(Refusal::Shape), "{in_port} in {version}");
            }
        }
    }
}

#[test]
fn output_to_in_port_uses_the_named_port() {
    let back = [Action::output(PortNo::IN_PORT)];
    for version in VERSIONS {
        for (in_port, expected) in [
            (PortNo(1), Ok(Allowed::PacketOut)),
            (PortNo::LOCAL, Ok(Allowed::PacketOut)),
            (PortNo::CONTROLLER, Err(Refusal::Capability)),
            (PortNo::ANY, Err(Refusal::Capability)),
        ] {
            assert_eq!(packet_out(&usual(), version, in_port, &back), expected, "{in_port}");
        }
    }
}

#[test]
fn in_port_0_leads_nowhere() {
    let back = [Action::output(PortNo::IN_PORT)];
    for version in VERSIONS {
        for actions in [&OUT[..], &[Action::output(PortNo::FLOOD)], &[Action::PopVlan]] {
            assert!(packet_out(&usual(), version, PortNo(0), actions).is_ok(), "{actions:?}");
        }
        let refused = packet_out(&usual(), version, PortNo(0), &back);
        assert_eq!(refused, Err(Refusal::Capability), "in {version}");
    }
}

#[test]
fn group_of_a_packet_out_may_use_its_in_port() {
    let (usual, granted) = (writer(&[]), writer(&[Capability::PacketOutReserved]));
    let back = [Action::output(PortNo::IN_PORT)];
    assert!(group_mod(&usual, GroupModCommand::Add, &back).is_ok(), "for a flow to use");
    let own = Action::Group(7 << 16);
    for actions in [&[own.clone()][..], &[OUT[0].clone(), Action::PopVlan, own.clone()]] {
        for (in_port, is_free) in [
            (PortNo(1), true),
            (PortNo::LOCAL, true),
            (PortNo(0), false),
            (PortNo::CONTROLLER, false),
            (PortNo::ANY, false),
        ] {
            let send = |rights| packet_out(rights, Version::V1_3, in_port, actions).map(drop);
            let expected = if is_free { Ok(()) } else { Err(Refusal::Capability) };
            assert_eq!(send(&usual), expected, "{actions:?} from {in_port}");
            assert_eq!(send(&granted), Ok(()), "{actions:?} from {in_port}");
        }
    }
    let foreign = [Action::Group(8 << 16)];
    assert_eq!(packet_out(&granted, Version::V1_3, PortNo(1), &foreign), Err(Refusal::Id));
    let flow = super::own().apply(std::slice::from_ref(&own));
    assert!(flow_mod(&usual, Version::V1_3, &flow).is_ok(), "its in-port is the real one");
}

#[test]
fn in_port_of_a_packet_is_changed_with_a_grant_only() {
    let (usual, granted) = (writer(&[]), writer(&[Capability::PacketOutReserved]));
    for field in [Field::InPort(PortNo(3)), Field::InPhyPort(PortNo(3))] {
        let forge = [Action::SetField(field), Action::output(PortNo(2))];
        for context in CONTEXTS {
            let refused = send(&usual, Version::V1_3, context, &forge);
            assert_eq!(refused, Err(Refusal::Capability), "{forge:?} in a {context:?}");
            assert!(send(&granted, Version::V1_3, context, &forge).is_ok());
        }
    }
}
