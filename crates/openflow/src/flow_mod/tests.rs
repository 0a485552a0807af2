//! Compares flow-mods with bytes written by hand from the specification's figures.

use super::*;
use crate::oxs::Stats;
use crate::{Field, MacAddr};

/// Add, table 2, priority 100, in-port 1 and IPv4: output to port 2.
#[rustfmt::skip]
const V1_3: [u8; 96] = [
    4, 14, 0, 96, 0, 0, 0, 7,
    0, 0, 0, 0, 0, 0, 0x12, 0x34, 0, 0, 0, 0, 0, 0, 0, 0, // cookie, mask
    2, 0, 0, 60, 1, 0x2c, 0, 100, // table, add, idle 60, hard 300, priority
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, // no buffer, any port
    0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0, // any group, SEND_FLOW_REM
    0, 1, 0, 18, 0x80, 0, 0, 4, 0, 0, 0, 1, 0x80, 0, 10, 2, // match: in_port=1,
    8, 0, 0, 0, 0, 0, 0, 0, // eth_type=0x800, padded from 18 to 24
    0, 4, 0, 24, 0, 0, 0, 0, // apply
    0, 0, 0, 16, 0, 0, 0, 2, 0xff, 0xff, 0, 0, 0, 0, 0, 0, // output:2
];

/// The same in OpenFlow 1.0, without the table.
#[rustfmt::skip]
const V1_0: [u8; 80] = [
    1, 14, 0, 80, 0, 0, 0, 7,
    0, 0x38, 0x20, 0xee, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // all but in_port, dl_type
    0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0x12, 0x34,
    0, 0, 0, 60, 1, 0x2c, 0, 100, // add, idle 60, hard 300, priority
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 1, // no buffer, no port, SEND_FLOW_REM
    0, 0, 0, 8, 0, 2, 0xff, 0xff, // output:2
];

fn example(actions: &[Action]) -> FlowMod<'_> {
    FlowMod::add(Match::new().in_port(PortNo(1)).eth_type(0x800))
        .cookie(0x1234)
        .priority(100)
        .idle_timeout(60)
        .hard_timeout(300)
        .flags(FlowModFlags::SEND_FLOW_REM)
        .apply(actions)
}

#[test]
fn flow_mod_encodes_to_the_bytes_written_by_hand() {
    let actions = [Action::output(PortNo(2))];
    let mut out = [0xaa; 96];
    assert_eq!(example(&actions).table(2).encode(Version::V1_3, 7, &mut out), Ok(96));
    assert_eq!(out, V1_3);
    let mut out = [0xaa; 80];
    assert_eq!(example(&actions).encode(Version::V1_0, 7, &mut out), Ok(80));
    assert_eq!(out, V1_0);
}

#[test]
fn flow_mod_decodes_every_field() {
    let actions = [Action::output(PortNo(2))];
    assert_eq!(FlowMod::decode(&V1_3), Ok(example(&actions).table(2)));
    assert_eq!(FlowMod::decode(&V1_0), Ok(example(&actions)));
}

#[test]
fn flow_mod_cut_anywhere_is_an_error() {
    for whole in [&V1_3[..], &V1_0[..]] {
        for len in 0..whole.len() {
            let mut cut = whole[..len].to_vec();
            assert!(FlowMod::decode(&cut).is_err(), "cut at {len}");
            // The same with a matching length in the header. Where only actions are cut off, the
            // rest may be a valid flow-mod.
            if let Some(length) = cut.get_mut(2..4) {
                length.copy_from_slice(&u16::try_from(len).unwrap().to_be_bytes());
                let bare = [72, 72 + 8].contains(&len);
                assert!(FlowMod::decode(&cut).is_err() || bare, "cut at {len}");
            }
        }
    }
}

#[test]
fn any_16_bits_set_to_any_value_never_panic() {
    for whole in [&V1_3[..], &V1_0[..]] {
        for at in 0..whole.len() - 1 {
            for value in (0..=0xffff_u16).step_by(251).chain([0xffff]) {
                let mut bytes = whole.to_vec();
                bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
                if let Ok(flow_mod) = FlowMod::decode(&bytes) {
                    flow_mod.instructions.apply.iter().for_each(drop);
                }
            }
        }
    }
}

#[test]
fn small_buffer_reports_the_needed_size() {
    let actions = [Action::output(PortNo(2))];
    let error = example(&actions).encode(Version::V1_3, 7, &mut [0; 10]).unwrap_err();
    assert_eq!(error, EncodeError::NoRoom { need: 96, size: 10 });
}

#[test]
fn encoding_is_independent_of_the_buffer_size() {
    let actions =
        [Action::SetField(Field::EthSrc(MacAddr([6; 6]).into())), Action::output(PortNo(2))];
    let web = Match::new().in_port(PortNo(1)).eth_type(0x800).ip_proto(6).tcp_dst(80);
    for match_ in [Match::new(), Match::new().eth_src(MacAddr([2; 6])), web.vlan_vid(7)] {
        let flow_mod = FlowMod::add(match_).idle_timeout(60).apply(&actions);
        for version in Version::ALL.iter().copied() {
            let mut wide = [0xaa; 512];
            let need = flow_mod.encode(version, 7, &mut wide).unwrap();
            assert_eq!(FlowMod::decode(&wide[..need]).as_ref(), Ok(&flow_mod));
            for size in 0..need + 100 {
                let mut out = vec![0xaa; size];
                let encoded = flow_mod.encode(version, 7, &mut out);
                if size < need {
                    assert_eq!(encoded, Err(EncodeError::NoRoom { need, size }));
                } else {
                    assert_eq!((encoded, &out[..need]), (Ok(need), &wide[..need]));
                }
            }
        }
    }
}

#[test]
fn flow_of_a_pair_encodes_as_any_other() {
    let pair = |in_port| {
        let (src, dst) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([4, 5, 6, 7, 8, 9]));
        Match::new().in_port(PortNo(in_port)).eth_src(src).eth_dst(dst)
    };
    let ports = [PortNo(7), PortNo::LOCAL, PortNo::CONTROLLER, PortNo(0x1_0000)];
    let outputs = ports.map(|port| [Action::output(port)]);
    let cut = [Action::Output { port: PortNo(7), max_len: 128 }];
    let trigger = Some(v1_5::instruction::StatTrigger { flags: 1, thresholds: Stats::default() });
    let triggered = |apply| Instructions { stat_trigger: trigger, ..apply };
    let mut flow_mods = vec![FlowMod::add(pair(3)), FlowMod::add(pair(3)).apply(&cut)];
    for output in &outputs {
        let add = FlowMod::add(pair(3)).apply(output);
        let delete = FlowMod { command: FlowModCommand::DeleteStrict, ..add.clone() };
        let all_flags = FlowModFlags(FlowModFlags::of_version::<4>().0);
        flow_mods.extend([
            add.clone().priority(9).cookie(0x1234_5678_9abc).idle_timeout(60).hard_timeout(300),
            add.clone().buffer_id(Some(77)).flags(FlowModFlags::SEND_FLOW_REM),
            add.clone().flags(FlowModFlags::EMERGENCY),
            add.clone().flags(all_flags),
            add.clone().table(3).only_cookie(5, 0xff),
            add.clone().importance(2),
            add.clone().goto_table(4),
            add.clone().write(&cut),
            FlowMod::add(pair(PortNo::LOCAL.0)).apply(output),
            FlowMod::add(pair(0x1_0000)).apply(output),
            FlowMod::add(pair(3).eth_type(0x800)).apply(output),
            delete.clone().out_port(PortNo(2)).table(FlowMod::ALL_TABLES),
            FlowMod { out_group: 5, ..delete },
            FlowMod { instructions: triggered(add.instructions), ..add },
        ]);
    }
    for flow_mod in &flow_mods {
        for &version in Version::ALL {
            for size in [0, 7, 60, 79, 80, 103, 104, 200] {
                let (mut here, mut there) = (vec![0xaa; size], vec![0xaa; size]);
                let encoded = flow_mod.encode_with_priority(11, version, 7, &mut here);
                assert_eq!(encoded, flow_mod.encode_any(11, version, 7, &mut there));
                let size = encoded.unwrap_or(0);
                assert_eq!(here[..size], there[..size], "{version} {flow_mod:?}");
            }
        }
    }
}

#[test]
fn encode_with_priority_overrides_the_priority() {
    for version in Version::ALL.iter().copied() {
        let flow_mod = FlowMod::add(Match::new().in_port(PortNo(1))).priority(1);
        let (mut with, mut has) = ([0; 256], [0; 256]);
        let size = flow_mod.encode_with_priority(0x1234, version, 7, &mut with).unwrap();
        assert_eq!(flow_mod.priority(0x1234).encode(version, 7, &mut has), Ok(size));
        assert_eq!(with[..size], has[..size]);
    }
}

#[test]
fn feature_missing_in_1_0_is_named() {
    let said = |flow_mod: FlowMod<'_>| {
        flow_mod.encode(Version::V1_0, 0, &mut [0; 200]).unwrap_err().to_string()
    };
    let all = Match::new();
    assert_eq!(
        said(FlowMod::add(all.clone()).table(1)),
        "OpenFlow 1.0 cannot express flow_mod.table_id"
    );
    assert_eq!(
        said(FlowMod::add(all.clone()).goto_table(1)),
        "OpenFlow 1.0 cannot express instruction goto_table"
    );
    assert_eq!(
        said(FlowMod::add(all.clone().tcp_dst(80))),
        "OpenFlow 1.0 cannot express a match field without the ethertype or IP protocol it needs"
    );
    assert_eq!(
        said(FlowMod::add(all.clone().ipv6_src("::1".parse().unwrap()))),
        "OpenFlow 1.0 cannot express ipv6_src"
    );
    assert_eq!(
        said(FlowMod::add(all).apply(&[Action::Group(1)])),
        "OpenFlow 1.0 cannot express action group"
    );
}

#[test]
fn match_of_twelve_fields_round_trips_in_1_0() {
    let match_ = Match::new()
        .in_port(PortNo::LOCAL)
        .eth_src(MacAddr([2, 0, 0, 0, 0, 1]))
        .eth_dst(MacAddr::BROADCAST)
        .vlan_vid(77)
        .vlan_pcp(5)
        .eth_type(0x800)
        .ip_dscp(46)
        .ip_proto(17)
        .ipv4_src("10.0.0.1".parse().unwrap())
        .ipv4_dst("10.0.0.2".parse().unwrap())
        .udp_src(53)
        .udp_dst(1024);
    let flow_mod = FlowMod::add(match_);
    let mut out = [0; 72];
    flow_mod.encode(Version::V1_0, 0, &mut out).unwrap();
    assert_eq!(out[8..12], [0, 0, 0, 0], "no wildcards");
    assert_eq!(FlowMod::decode(&out), Ok(flow_mod));
}

#[test]
fn repeated_instruction_is_rejected() {
    let mut twice = V1_3.to_vec();
    twice.extend_from_slice(&V1_3[72..]);
    twice[3] = u8::try_from(twice.len()).unwrap();
    let error = FlowMod::decode(&twice).unwrap_err();
    assert!(error.to_string().contains("no instruction twice"), "{error}");
}

#[test]
fn impossible_action_lengths_are_bad_length() {
    for (bytes, at) in [(&V1_3[..], 82), (&V1_0[..], 74)] {
        for len in [0_u16, 1, 3, 4, 7, 9, 15, 24, 0xfff8, 0xffff] {
            let mut bytes = bytes.to_vec();
            bytes[at..at + 2].copy_from_slice(&len.to_be_bytes());
            let error = FlowMod::decode(&bytes).unwrap_err();
            assert!(
                matches!(error, DecodeError::BadLength { .. } | DecodeError::Truncated { .. }),
                "{len}: {error}"
            );
        }
    }
}
