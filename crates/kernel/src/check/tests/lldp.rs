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
fn packet_out_of_lldp_needs_a_grant_behind_every_encapsulation() {
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
fn action_that_makes_another_type_of_a_packet_must_not_make_lldp() {
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
fn flow_that_names_lldp_needs_a_grant_unless_it_only_reports() {
    let lldp = || Match::new().in_port(PortNo(1)).eth_type(LLDP);
    let report = [Action::output(PortNo::CONTROLLER)];
    let cut = [Action::Output { port: PortNo::CONTROLLER, max_len: 0 }];
    let both = [Action::output(PortNo::CONTROLLER), Action::output(PortNo(2))];
    let rewrite =
        [Action::SetField(Field::EthDst(openflow::MacAddr([2; 6]).into())), report[0].clone()];
    for version in VERSIONS {
        for (actions, is_free) in [
            (&report[..], true),
            (&[], false),
            (&OUT, false),
            (&cut, false),
            (&both, false),
            (&rewrite, false),
        ] {
            for command in
                [FlowModCommand::Add, FlowModCommand::Modify, FlowModCommand::ModifyStrict]
            {
                let modify = |match_| FlowMod::new(command, match_).priority(150).apply(actions);
                let expected = if is_free { Ok(()) } else { Err(Refusal::Capability) };
                let mut rights = other();
                rights.alone = true; // so that a modify of 1.0 is refused for nothing else
                let found = flow_mod(&rights, version, &modify(lldp())).map(drop);
                assert_eq!(found, expected, "{command:?} {actions:?} in {version}");
                let ipv4 = modify(Match::new().in_port(PortNo(1)).eth_type(0x0800));
                assert!(flow_mod(&rights, version, &ipv4).is_ok());
                let mut prober = prober();
                prober.alone = true;
                assert!(flow_mod(&prober, version, &modify(lldp())).is_ok());
            }
        }
        let delete = FlowMod::new(FlowModCommand::DeleteStrict, lldp()).priority(150);
        assert!(flow_mod(&other(), version, &delete).is_ok(), "of its own");
    }
    let add = || FlowMod::add(lldp()).priority(150);
    let hidden = [
        add().apply(&report).goto_table(1),
        add().apply(&report).meter(7 << 8),
        add().goto_table(1),
    ];
    for flow in hidden
        .into_iter()
        .chain([add().write(&OUT).apply(&report), add().apply(&[Action::Group(7 << 16)])])
    {
        assert_eq!(flow_mod(&other(), Version::V1_3, &flow), Err(Refusal::Capability), "{flow:?}");
    }
    assert!(flow_mod(&other(), Version::V1_3, &add().write(&report)).is_ok());
    // A mask of ones is no mask.
    let masked = |eth_type: [u8; 2]| {
        let mut message = bytes(|out| add().encode(Version::V1_3, 0, out));
        let at = message.windows(4).position(|it| it == [0x80, 0, 0x0a, 2]).unwrap();
        message[at + 2..at + 4].copy_from_slice(&[0x0b, 4]);
        message.splice(at + 4..at + 6, [eth_type, [0xff; 2]].concat());
        message[51] += 2; // 22 of 24 bytes become 24: the match has no padding any more
        message.truncate(72);
        check(&other(), Version::V1_3, &message).map(drop)
    };
    assert_eq!(masked([0x88, 0xcc]), Err(Refusal::Capability));
    assert_eq!(masked([0x08, 0x00]), Ok(()));
}
