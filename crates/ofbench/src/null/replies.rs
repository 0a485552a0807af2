//! Prebuilt answers to packet-ins.

use openflow::{Action, FlowMod, MacAddr, Match, PacketOut, PortNo, Version};

use crate::answer::NO_BUFFER;

/// Byte offsets in messages; see [`crate::packet_ins`] for packet-ins and the codec for the others.
trait Layout {
    /// In a packet-in: the lower half of the in-port.
    const QUESTION_PORT: usize;
    /// In a flow-mod: buffer id, lower half of the in-port, and the two addresses.
    const BUFFER_ID: usize;
    const IN_PORT: usize;
    const ETH_SRC: usize;
    const ETH_DST: usize;
    /// In a packet-out: the lower half of the in-port.
    const SENT_PORT: usize;
}

struct V1_0;

impl Layout for V1_0 {
    const QUESTION_PORT: usize = 14;
    const BUFFER_ID: usize = 64;
    const IN_PORT: usize = 12;
    const ETH_SRC: usize = 14;
    const ETH_DST: usize = 20;
    const SENT_PORT: usize = 12;
}

/// The match holds in-port (8 bytes, the port in the last four), destination (10), source (10).
struct V1_3;

impl Layout for V1_3 {
    const QUESTION_PORT: usize = 34;
    const BUFFER_ID: usize = 32;
    const IN_PORT: usize = 58;
    const ETH_SRC: usize = 74;
    const ETH_DST: usize = 64;
    const SENT_PORT: usize = 14;
}

/// The match of a flow-mod has all fields: in-port after its type and length (4), then wildcards, the source with its mask (12), the
/// destination.
struct V1_1;

impl Layout for V1_1 {
    const QUESTION_PORT: usize = 14;
    const BUFFER_ID: usize = 32;
    const IN_PORT: usize = 54;
    const ETH_SRC: usize = 60;
    const ETH_DST: usize = 72;
    const SENT_PORT: usize = 14;
}

/// Like OpenFlow 1.3, with a packet-in that has no cookie.
struct V1_2;

impl Layout for V1_2 {
    const QUESTION_PORT: usize = 26;
    const BUFFER_ID: usize = V1_3::BUFFER_ID;
    const IN_PORT: usize = V1_3::IN_PORT;
    const ETH_SRC: usize = V1_3::ETH_SRC;
    const ETH_DST: usize = V1_3::ETH_DST;
    const SENT_PORT: usize = V1_3::SENT_PORT;
}

/// Like OpenFlow 1.3, with a packet-out that has its in-port in a match.
struct V1_5;

impl Layout for V1_5 {
    const QUESTION_PORT: usize = V1_3::QUESTION_PORT;
    const BUFFER_ID: usize = V1_3::BUFFER_ID;
    const IN_PORT: usize = V1_3::IN_PORT;
    const ETH_SRC: usize = V1_3::ETH_SRC;
    const ETH_DST: usize = V1_3::ETH_DST;
    const SENT_PORT: usize = 26;
}

/// Why encoding cannot fail.
const ENCODABLE: &str = "every version can say this";

/// Answers to the packet-ins of one read.
#[derive(Debug)]
pub(super) struct Replies {
    version: Version,
    flow_mod: Vec<u8>,
    /// The packet-out without its frame.
    packet_out: Vec<u8>,
    out: Vec<u8>,
}

impl Replies {
    pub(super) fn new(version: Version) -> Self {
        let flood = [Action::output(PortNo::FLOOD)];
        let match_ =
            Match::new().in_port(PortNo(1)).eth_src(MacAddr([0; 6])).eth_dst(MacAddr([0; 6]));
        let flow_mod = FlowMod::add(match_).idle_timeout(60).priority(1).apply(&flood);
        let packet_out = PacketOut::new(PortNo(1), &flood, &[]);
        let encode = |encoded: &dyn Fn(&mut [u8]) -> usize| {
            let mut room = [0; 256];
            let size = encoded(&mut room);
            room[..size].to_vec()
        };
        Self {
            version,
            flow_mod: encode(&|room| flow_mod.encode(version, 0, room).expect(ENCODABLE)),
            packet_out: encode(&|room| packet_out.encode(version, 0, room).expect(ENCODABLE)),
            out: Vec::new(),
        }
    }

    /// Returns the answers collected since [`clear`](Self::clear).
    pub(super) fn gathered(&self) -> &[u8] {
        &self.out
    }

    pub(super) fn clear(&mut self) {
        self.out.clear();
    }

    /// Answers a packet-in. A packet-in of another shape is ignored.
    #[inline]
    pub(super) fn answer(&mut self, packet_in: &[u8]) {
        let _ = match self.version {
            Version::V1_0 => self.answer_by::<V1_0, 18, 80>(packet_in),
            Version::V1_3 | Version::V1_4 => self.answer_by::<V1_3, 42, 104>(packet_in),
            Version::V1_1 => self.answer_by::<V1_1, 24, 160>(packet_in),
            Version::V1_2 => self.answer_by::<V1_2, 34, 104>(packet_in),
            Version::V1_5 => self.answer_by::<V1_5, 42, 104>(packet_in),
        };
    }

    /// `FRAME` is the offset of the packet-in's frame, `FLOW_MOD` the size of the flow-mod.
    #[inline]
    fn answer_by<L: Layout, const FRAME: usize, const FLOW_MOD: usize>(
        &mut self,
        packet_in: &[u8],
    ) -> Option<()> {
        let mut flow_mod: [u8; FLOW_MOD] = *self.flow_mod.first_chunk()?;
        let (head, frame) = packet_in.split_first_chunk::<FRAME>()?;
        let [d0, d1, d2, d3, d4, d5, src @ ..] = *frame.first_chunk::<12>()?;
        let buffer_id = [head[8], head[9], head[10], head[11]];
        let port = [head[L::QUESTION_PORT], head[L::QUESTION_PORT + 1]];
        *flow_mod[L::BUFFER_ID..].first_chunk_mut()? = buffer_id;
        *flow_mod[L::IN_PORT..].first_chunk_mut()? = port;
        *flow_mod[L::ETH_SRC..].first_chunk_mut::<6>()? = src;
        *flow_mod[L::ETH_DST..].first_chunk_mut()? = [d0, d1, d2, d3, d4, d5];
        self.out.extend_from_slice(&flow_mod);
        if buffer_id == NO_BUFFER.to_be_bytes() {
            self.send_frame::<L>(port, frame)?;
        }
        Some(())
    }

    fn send_frame<L: Layout>(&mut self, port: [u8; 2], frame: &[u8]) -> Option<()> {
        let start = self.out.len();
        let size = u16::try_from(self.packet_out.len() + frame.len()).ok()?;
        self.out.extend_from_slice(&self.packet_out);
        let head = &mut self.out[start..];
        *head[2..].first_chunk_mut()? = size.to_be_bytes();
        *head[L::SENT_PORT..].first_chunk_mut()? = port;
        self.out.extend_from_slice(frame);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use openflow::Header;

    use super::*;
    use crate::checker::{AnswerChecker, AnsweredBy, Counts};
    use crate::hosts::Hosts;
    use crate::packet_ins::{PacketInTemplate, PendingPacketIns};

    #[test]
    fn answers_are_right_and_flood() {
        for &version in Version::ALL {
            for buffered in [true, false] {
                let mut template = PacketInTemplate::new(version, buffered, 64).unwrap();
                let hosts = Hosts::new(3, 20, 4).of_switch(1);
                let by = AnsweredBy::default();
                let mut checker =
                    AnswerChecker::new(version, &template, by, hosts, PendingPacketIns::new(50));
                let mut replies = Replies::new(version);
                let size = template.size();
                for packet_in in checker.ask(&mut template, 50).chunks(size) {
                    replies.answer(packet_in);
                }
                let mut rest = replies.gathered();
                while !rest.is_empty() {
                    let size = Header::decode(rest).unwrap().length;
                    let (answer, others) = rest.split_at(size.into());
                    match answer[1] {
                        14 => checker.flow_mod(answer).unwrap(),
                        _ => checker.packet_out(answer).unwrap(),
                    };
                    rest = others;
                }
                let packet_outs = if buffered { 0 } else { 50 };
                let counted = Counts {
                    asked: 50,
                    answered: 50,
                    flow_mods: 50,
                    packet_outs,
                    floods: 50 + packet_outs,
                    ..Counts::default()
                };
                assert_eq!(checker.counts(), counted);
            }
        }
    }

    #[test]
    fn packet_in_of_another_shape_is_ignored() {
        let mut replies = Replies::new(Version::V1_0);
        for size in 8..30 {
            replies.answer(&vec![1; size]);
        }
        assert!(replies.gathered().is_empty());
    }
}
