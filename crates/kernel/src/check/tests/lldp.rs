//! LLDP, which is for apps with `topology.probe`: sent, made of something else, matched.

use super::*;

const LLDP: u16 = 0x88cc;

fn prober() -> Rights {
    rights(&[
        Capability::PacketOut,
        Capability::FlowWrite,
        Capability::GroupWrite,
        Capability::TopologyProbe,
    ])
}

/// All that the usual app may do here, without `topology.probe`.
fn other() -> Rights {
    rights(&[Capability::PacketOut, Capability::FlowWrite, Capability::GroupWrite])
}

/// What may stand before the type field of LLDP.
fn encapsulations() -> Vec<Vec<u8>> {
    const SNAP: [u8; 8] = [0, 0x2a, 0xaa, 0xaa, 3, 0, 0, 0];
    const BRIDGE_TUNNEL: [u8; 8] = [0, 0x2a, 0xaa, 0xaa, 3, 0, 0, 0xf8];
    let tag = |tpid: u16| [tpid.to_be_bytes(), [0, 7]].concat();
    let pbb = [&[0x88, 0xe7, 0, 0, 0, 1][..], &[2; 12]].concat();
    let mut all = vec![vec![], SNAP.to_vec(), BRIDGE_TUNNEL.to_vec(), pbb.clone()];
    for tpid in [0x8100, 0x88a8, 0x9100, 0x9200, 0x9300] {
        all.push(tag(tpid));
        all.push([tag(tpid), SNAP.to_vec()].concat());
        all.push([tag(0x88a8), tag(tpid), SNAP.to_vec()].concat());
        all.push([SNAP.to_vec(), tag(tpid)].concat());
        all.push([pbb.clone(), tag(tpid), SNAP.to_vec()].concat());
    }
    all
}

fn frame(before: &[u8], ethertype: u16) -> Vec<u8> {
    [&[2; 12], before, &ethertype.to_be_bytes(), &[2, 7, 4, 2, 0, 0, 0, 0, 9, 0, 0]].concat()
}

#[test]
fn encapsulated_lldp_packet_out_needs_a_grant() {
    let pops = [Action::PopVlan, Action::PopPbb, OUT[0].clone()];
    for before in encapsulations() {
        for (version, actions) in
            [(Version::V1_0, &OUT[..]), (Version::V1_3, &OUT), (Version::V1_3, &pops)]
        {
            for (ethertype, expected) in
                [(LLDP, Err(Refusal::Capability)), (0x0800, Ok(Allowed::PacketOut))]
            {
                let frame = frame(&before, ethertype);
                let packet_out = PacketOut::new(PortNo(1), actions, &frame);
                let message = bytes(|out| packet_out.encode(version, 0, out));
                assert_eq!(check(&other(), version, &message), expected, "{before:02x?}");
                assert_eq!(other().packet(&frame).is_ok(), expected.is_ok(), "in a series");
                assert_eq!(check(&prober(), version, &message), Ok(Allowed::PacketOut));
            }
        }
    }
}

#[test]
fn action_must_not_make_lldp() {
    type Make = fn(u16) -> Action;
    let makes: [(Make, &[u16]); 5] = [
        (Action::PopMpls, &[0x0800, 0x86dd, 0x8847]),
        (|it| Action::SetField(Field::EthType(it)), &[0x0800, 0x86dd]),
        (Action::PushVlan, &[0x8100, 0x88a8, 0x9100]),
        (Action::PushMpls, &[0x8847, 0x8848]),
        (Action::PushPbb, &[0x88e7]),
    ];
    for (number, (make, harmless)) in makes.into_iter().enumerate() {
        // LLDP, a tag, PBB, and a length behind which there may be SNAP.
        for ethertype in [LLDP, 0x8100, 0x88a8, 0x9100, 0x88e7, 0x002a, 0x05ff, 0]
            .into_iter()
            .chain(harmless.iter().copied())
        {
            let actions = [make(ethertype), OUT[0].clone()];
            let expected =
                if harmless.contains(&ethertype) { Ok(()) } else { Err(Refusal::Capability) };
            let packet_out = PacketOut::new(PortNo(1), &actions, &[0x11; 60]);
            let bucket = GroupMod {
                command: GroupModCommand::Modify,
                kind: GroupKind::Indirect,
                group_id: 7 << 16,
                buckets: vec![Bucket::new(actions.clone())],
            };
            for message in [
                bytes(|out| packet_out.encode(Version::V1_3, 0, out)),
                bytes(|out| own().apply(&actions).encode(Version::V1_3, 0, out)),
                bytes(|out| own().write(&actions).encode(Version::V1_3, 0, out)),
                bytes(|out| bucket.encode(Version::V1_3, 0, out)),
            ] {
                let found = check(&other(), Version::V1_3, &message).map(drop);
                assert_eq!(found, expected, "{number}: {ethertype:#06x}");
                assert!(check(&prober(), Version::V1_3, &message).is_ok());
            }
        }
    }
}

#[test]
fn flow_that_names_lldp_needs_a_grant_whatever_it_does() {
    let lldp = || Match::new().in_port(PortNo(1)).eth_type(LLDP);
    let report = [Action::output(PortNo::CONTROLLER)];
    let (mut usual, mut prober) = (other(), prober());
    (usual.alone, prober.alone) = (true, true); // so that a modify of 1.0 is refused for nothing else
    for version in VERSIONS {
        for actions in [&report[..], &[], &OUT] {
            for command in
                [FlowModCommand::Add, FlowModCommand::Modify, FlowModCommand::ModifyStrict]
            {
                let write = |match_| FlowMod::new(command, match_).priority(150).apply(actions);
                let case = format!("{command:?} {actions:?} in {version}");
                let refused = flow_mod(&usual, version, &write(lldp()));
                assert_eq!(refused, Err(Refusal::Capability), "{case}");
                let ipv4 = write(Match::new().in_port(PortNo(1)).eth_type(0x0800));
                assert!(flow_mod(&usual, version, &ipv4).is_ok(), "{case}");
                assert!(flow_mod(&prober, version, &write(lldp())).is_ok(), "{case}");
            }
        }
        let delete = FlowMod::new(FlowModCommand::DeleteStrict, lldp()).priority(150);
        assert!(flow_mod(&usual, version, &delete).is_ok(), "of its own");
    }
    let add = || FlowMod::add(lldp()).priority(150);
    for flow in [add().goto_table(1), add().write(&report)] {
        assert_eq!(flow_mod(&usual, Version::V1_3, &flow), Err(Refusal::Capability), "{flow:?}");
    }
    // A mask of ones is no mask.
    let masked = |eth_type: [u8; 2]| {
        let mut message = bytes(|out| add().encode(Version::V1_3, 0, out));
        let at = message.windows(4).position(|it| it == [0x80, 0, 0x0a, 2]).unwrap();
        message[at + 2..at + 4].copy_from_slice(&[0x0b, 4]);
        message.splice(at + 4..at + 6, [eth_type, [0xff; 2]].concat());
        message[51] += 2; // 22 of 24 bytes become 24: the match has no padding any more
        message.truncate(72);
        check(&usual, Version::V1_3, &message).map(drop)
    };
    assert_eq!(masked([0x88, 0xcc]), Err(Refusal::Capability));
    assert_eq!(masked([0x08, 0x00]), Ok(()));
}

#[test]
fn wide_modify_redirects_no_lldp_flow() {
    let report = [Action::output(PortNo::CONTROLLER)];
    let lldp = || Match::new().in_port(PortNo(1)).eth_type(LLDP);
    let mut rights = other();
    rights.alone = true;
    for version in VERSIONS {
        let reporting = FlowMod::add(lldp()).priority(150).apply(&report);
        let reports = flow_mod(&rights, version, &reporting).is_ok();
        for match_ in [Match::new(), Match::new().in_port(PortNo(1))] {
            for actions in [&OUT[..], &[]] {
                let modify = FlowMod::new(FlowModCommand::Modify, match_.clone());
                let modify = modify.priority(150).apply(actions);
                let redirects = flow_mod(&rights, version, &modify).is_ok();
                assert!(!(reports && redirects), "{match_:?} {actions:?} in {version}");
            }
        }
    }
}
