//! Fuzzes series of flow-mods from an app, with packets or without.
//!
//! No panic, no hang. A decoded series has as many messages as it claims. Each message adds a flow for a pair
//! of hosts or sends a packet to one port, and its size matches its header.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use rosemary_openflow::{
    FlowMod, FlowModCommand, FlowModTemplate, Header, Match, PacketOut, Version,
};
use rosemary_series::Series;

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    is_1_3: bool,
    /// Changed bytes of the flow-mod: offset and value.
    changes: Vec<(u8, u8)>,
    count: u8,
    flows: Vec<([u8; 24], &'a [u8])>,
    has_packets: bool,
    /// Bytes after the flows.
    rest: &'a [u8],
}

fuzz_target!(|said: Input<'_>| {
    let version = if said.is_1_3 { Version::V1_3 } else { Version::V1_0 };
    let template = FlowModTemplate::new(&FlowMod::add(Match::new()), version).unwrap();
    let mut bytes = template.message().to_vec();
    for (place, byte) in said.changes {
        let place = usize::from(place) % bytes.len();
        bytes[place] = byte;
    }
    for (blanks, packet) in &said.flows {
        bytes.extend_from_slice(blanks);
        if said.has_packets {
            bytes.extend_from_slice(&(packet.len() as u32).to_le_bytes());
            bytes.extend_from_slice(packet);
        }
    }
    bytes.extend_from_slice(said.rest);
    let Some(series) = Series::read(&bytes, said.count.into()) else { return };
    let (mut out, mut messages) = (Vec::new(), Vec::new());
    series.expand(&mut out, |expanded, _| messages.push(expanded));
    let first_xid = Header::decode(&bytes).unwrap().xid;
    let (mut end, mut size) = (0, 0);
    for (number, expanded) in messages.iter().enumerate() {
        assert_eq!(expanded.range.start, end);
        end = expanded.range.end;
        let message = &out[expanded.range.clone()];
        let header = Header::decode(message).unwrap();
        assert_eq!(usize::from(header.length), message.len());
        assert_eq!(header.xid, first_xid.wrapping_add(number as u32));
        if header.kind == 13 {
            let packet_out = PacketOut::decode(message).unwrap();
            assert!(packet_out.actions.only_output() && packet_out.buffer_id.is_none());
            size += packet_out.data.len();
        } else if let Ok(flow_mod) = FlowMod::decode(message) {
            assert_eq!(flow_mod.command, FlowModCommand::Add);
            assert_eq!(flow_mod.match_.fields().count(), 3);
            assert!(flow_mod.instructions.apply.only_output());
        }
    }
    assert_eq!(end, out.len());
    assert!(size <= bytes.len() && messages.len() <= 2 * usize::from(said.count));
});
