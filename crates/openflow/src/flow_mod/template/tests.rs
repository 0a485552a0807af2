//! Compares filled templates with encoded flow-mods.

use super::*;
use crate::PacketOut;

#[test]
fn filled_template_equals_the_encoded_flow_mod() {
    let add = FlowMod::add(Match::new()).priority(9).idle_timeout(60).cookie(0x1234);
    for version in Version::ALL.iter().copied() {
        let template = FlowModTemplate::new(&add, version).unwrap();
        for (number, buffer_id) in [(1_u8, None), (200, Some(77)), (7, Some(0))] {
            let blanks = Blanks {
                in_port: PortNo(number.into()),
                eth_dst: MacAddr([2, 0, 0, 0, 1, number]),
                eth_src: MacAddr([2, 0, 0, 0, 2, number]),
                buffer_id,
                output: PortNo(3),
            };
            let pair = Match::new()
                .in_port(blanks.in_port)
                .eth_dst(blanks.eth_dst)
                .eth_src(blanks.eth_src);
            let output = [Action::output(blanks.output)];
            let plain = FlowMod { match_: pair, ..add.clone() };
            let plain = plain.buffer_id(buffer_id).apply(&output);
            let (mut filled, mut encoded) = ([0; 200], [0; 200]);
            let size = plain.encode(version, 5, &mut encoded).unwrap();
            assert_eq!(template.fill(&blanks, 5, &mut filled), Ok(size));
            assert_eq!(filled, encoded);
            let mut appended = vec![7];
            let next = plain.encode(version, 6, &mut encoded).map(|_| &encoded[..size]);
            assert_eq!(template.append_all([blanks, blanks], 5, &mut appended), 2);
            assert_eq!(appended[1..], [&filled[..size], next.unwrap()].concat());
            appended.clear();
            assert_eq!(template.append_all([blanks, blanks], u32::MAX, &mut appended), 2);
            assert_eq!(
                (&appended[4..8], &appended[size + 4..size + 8]),
                (&[255; 4][..], &[0; 4][..])
            );
            let no_room = EncodeError::NoRoom { need: size, size: size - 1 };
            assert_eq!(template.fill(&blanks, 5, &mut filled[..size - 1]), Err(no_room));
        }
    }
}

#[test]
fn appended_packet_out_equals_the_encoded_one() {
    let sizes: &[usize] =
        if cfg!(miri) { &[0, 60] } else { &[0, 1, 60, 0xffcf, 0xffd0, 0xffd7, 0xffd8] };
    let add = FlowMod::add(Match::new());
    for version in Version::ALL.iter().copied() {
        let template = FlowModTemplate::new(&add, version).unwrap();
        for size in sizes {
            for (in_port, output) in
                [(1, 2), (0xffff_fffe, 0xffff_fffb), (0x1_0000, 1), (1, 0x1_0000)]
            {
                let (in_port, output) = (PortNo(in_port), PortNo(output));
                let (eth_dst, eth_src) = (MacAddr([2; 6]), MacAddr([4; 6]));
                let blanks = Blanks { in_port, eth_dst, eth_src, buffer_id: Some(7), output };
                let (actions, data) = ([Action::output(output)], vec![7; *size]);
                let (mut room, mut out) = (vec![0; 1 << 17], vec![9]);
                let plain = PacketOut::new(in_port, &actions, &data);
                let encoded = plain.encode(version, 0x0102_0304, &mut room);
                let said = template.append_packet_out(&blanks, &data, 0x0102_0304, &mut out);
                assert_eq!(said, encoded.map(|_| ()));
                assert_eq!(out[1..], room[..encoded.unwrap_or(0)], "{size} {version}");
            }
        }
    }
}

#[test]
fn template_is_recognised_from_its_message_only() {
    let add = FlowMod::add(Match::new()).priority(9).idle_timeout(60).cookie(0x1234);
    let add = add.flags(FlowModFlags::SEND_FLOW_REM);
    for version in Version::ALL.iter().copied() {
        let template = FlowModTemplate::new(&add, version).unwrap();
        let message = template.message();
        let known = FlowModTemplate::of_message(message).expect("a template");
        assert_eq!(known.message(), message);
        let said = FlowMod::decode(message).unwrap();
        // For each changed bit: if the message is still recognised, only free fields differ,
        // not the kinds of the match or actions; if the bit belongs to a blank, the message
        // stays well-formed.
        let mut filled = [0; 200];
        let all = Blanks {
            in_port: PortNo(!1),
            eth_dst: MacAddr([0xff; 6]),
            eth_src: MacAddr([0xff; 6]),
            buffer_id: Some(0),
            output: PortNo(!1),
        };
        template.fill(&all, u32::MAX, &mut filled).unwrap();
        let is_blank = |place: usize| filled[place] != message[place];
        for place in 0..message.len() {
            for bit in 0..8 {
                let mut other = message.to_vec();
                other[place] ^= 1 << bit;
                if FlowModTemplate::of_message(&other).is_none() {
                    continue;
                }
                let decoded = FlowMod::decode(&other);
                assert!(decoded.is_ok() || !is_blank(place), "{place}");
                let Ok(decoded) = decoded else { continue };
                assert_eq!(decoded.command, said.command, "{place}");
                let fields = |flow_mod: &FlowMod<'_>| -> Vec<_> {
                    flow_mod.match_.fields().map(|field| std::mem::discriminant(&field)).collect()
                };
                assert_eq!(fields(&decoded), fields(&said), "{place}");
                assert_eq!(decoded.instructions.apply.iter().count(), 1, "{place}");
                assert!(decoded.instructions.apply.only_output(), "{place}");
            }
            assert!(FlowModTemplate::of_message(&message[..place]).is_none());
        }
        let mut elsewhere = message.to_vec();
        let output = match version {
            Version::V1_0 => 76..78,
            Version::V1_1 => 148..152,
            _ => 92..96,
        };
        elsewhere[output].fill(0xff);
        assert_eq!(FlowModTemplate::of_message(&elsewhere).unwrap().message(), message);
        let longer = [message, &[0; 8]].concat();
        assert!(FlowModTemplate::of_message(&longer).is_none());
        let modify = FlowMod { command: crate::FlowModCommand::Modify, ..add.clone() };
        let modify = FlowModTemplate::new(&modify, version).unwrap();
        assert!(FlowModTemplate::of_message(modify.message()).is_none());
    }
}

#[test]
fn unsupported_port_and_table_are_named() {
    let add = FlowMod::add(Match::new());
    let template = FlowModTemplate::new(&add, Version::V1_0).unwrap();
    let none = MacAddr([0; 6]);
    let (in_port, output) = (PortNo(1), PortNo(0x1_0000));
    let blanks = Blanks { in_port, eth_dst: none, eth_src: none, buffer_id: None, output };
    let error = template.fill(&blanks, 0, &mut [0; 200]).unwrap_err();
    assert_eq!(error.to_string(), "OpenFlow 1.0 cannot express action.output.port");
    let (said, mut out) = (Blanks { output: PortNo(1), ..blanks }, Vec::new());
    assert_eq!((template.has_ports(&said), template.has_ports(&blanks)), (true, false));
    assert_eq!(template.append_all([said, blanks, said], 0, &mut out), 1);
    assert_eq!(out.len(), template.message().len());
    assert!(FlowModTemplate::new(&add.table(1), Version::V1_0).is_err());
}
