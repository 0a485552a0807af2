//! Fuzzes series of flow-mods from an app, with packets or without.
//!
//! No panic, no hang. A decoded series has as many messages as it claims. Each message adds a flow for a pair
//! of hosts or sends a packet to one port, and its size matches its header. No message is sent that the limits
//! forbid.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use rosemary_openflow::{
    Action, Actions, FlowMod, FlowModCommand, FlowModTemplate, Header, Match, PacketOut, PortNo, Version,
};
use rosemary_series::{Expanded, ExpandedKind, Limits, Problem, Series};

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
    limits: NoPort,
}

/// Forbids one port, in flows and packet-outs.
#[derive(Debug, Arbitrary)]
struct NoPort(Option<u32>);

impl Limits for NoPort {
    fn may_output(&self, port: PortNo) -> bool {
        self.0 != Some(port.0)
    }

    fn may_send(&self, _in_port: PortNo, output: PortNo, _packet: &[u8]) -> bool {
        self.may_output(output)
    }
}

/// Returns the only output of a message's actions.
fn output(actions: Actions<'_>) -> PortNo {
    let mut actions = actions.iter();
    let (Some(Action::Output { port, .. }), None) = (actions.next(), actions.next()) else {
        panic!("one output");
    };
    port
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
    let (mut out, mut runs): (_, Vec<Expanded>) = (Vec::new(), Vec::new());
    series.expand(&said.limits, &mut out, |run, bytes| {
        assert_eq!(bytes.len(), run.size * run.count as usize);
        runs.push(run);
    });
    let first_xid = Header::decode(&bytes).unwrap().xid;
    let (mut end, mut packets_size, mut messages, mut flow_mods) = (0, 0, 0, 0);
    for run in &runs {
        assert_eq!(run.start, end);
        assert!(run.count == 1 || run.count > 1 && run.problem.is_none());
        end += run.size * run.count as usize;
        for message in out[run.start..end].chunks(run.size) {
            let header = Header::decode(message).unwrap();
            assert_eq!(usize::from(header.length), message.len());
            assert_eq!(header.xid, first_xid.wrapping_add(messages));
            messages += 1;
            let port = match run.kind {
                ExpandedKind::FlowMod => {
                    flow_mods += 1;
                    assert!(packets_size == 0, "flow-mods come first");
                    // The kernel checks the other bytes of the app's flow-mod, such as flags.
                    let Ok(flow_mod) = FlowMod::decode(message) else { continue };
                    assert_eq!(flow_mod.command, FlowModCommand::Add);
                    assert_eq!(flow_mod.match_.fields().count(), 3);
                    output(flow_mod.instructions.apply)
                }
                ExpandedKind::PacketOut => {
                    let packet_out = PacketOut::decode(message).unwrap();
                    assert!(packet_out.buffer_id.is_none());
                    packets_size += packet_out.data.len();
                    output(packet_out.actions)
                }
            };
            // A message with a port that the version does not have is written with port 0.
            if run.problem != Some(Problem::Inexpressible) {
                assert_eq!(said.limits.may_output(port), run.problem.is_none());
            }
        }
    }
    assert_eq!((end, flow_mods), (out.len(), u32::from(said.count)));
    assert!(packets_size <= bytes.len() && messages <= 2 * u32::from(said.count));
});
