//! Many flow-mods that differ in a pair of hosts and their ports alone, said as one and what differs; and the packets
//! that asked for them, where they came whole.
//!
//! ```text
//! 0            80 (OpenFlow 1.0) or 104 (1.3)
//! +------------+-----------+-----------+----
//! | flow-mod   | blanks    | blanks    | ...       its match: in-port, destination, source; its action: output
//! +------------+-----------+-----------+----
//!              0         4        8           12        18        24
//! blanks:      +---------+--------+-----------+---------+---------+
//!              | in_port | output | buffer_id | eth_dst | eth_src |
//!              +---------+--------+-----------+---------+---------+
//!
//! with packets:
//! +------------+-----------+------+--------+-----------+------+--------+----
//! | flow-mod   | blanks    | size | packet | blanks    | size | packet | ...     size: 4 bytes
//! +------------+-----------+------+--------+-----------+------+--------+----
//! ```
//!
//! Which of the two it is, its size says. Numbers are in the machine's byte order, which is little endian; the
//! flow-mod is raw OpenFlow. What stands in the flow-mod's own blanks means nothing. Behind a flow-mod goes its packet,
//! if that is not empty, in a packet-out by the same ports. The flow-mod's transaction id is that of the first message;
//! those of the others count up.

use std::ops::Range;

use openflow::{Blanks, FlowModTemplate, Header, MacAddr, PortNo};

use crate::FlowAndPacket;

/// Bytes of the blanks of one flow-mod.
pub const BLANKS_SIZE: usize = 24;

/// Most flow-mods in a series.
pub const MAX_SERIES: usize = 64;

/// Bytes of a packet, at most: a packet-out must hold it in every version.
const MAX_PACKET: usize = 0xffff - 40;

/// Bytes of the size of a packet.
pub(super) const PACKET_SIZE: usize = 4;

/// The number of no buffer.
const NO_BUFFER: u32 = u32::MAX;

/// Blanks, as in a series. Written field by field, and read so: nobody puts them together from bytes.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Written {
    in_port: u32,
    output: u32,
    buffer_id: u32,
    eth_dst: [u8; 6],
    eth_src: [u8; 6],
}

const _: () = assert!(size_of::<Written>() == BLANKS_SIZE, "no padding");

impl From<&Blanks> for Written {
    #[inline]
    fn from(blanks: &Blanks) -> Self {
        Self {
            in_port: blanks.in_port.0.to_le(),
            output: blanks.output.0.to_le(),
            buffer_id: blanks.buffer_id.unwrap_or(NO_BUFFER).to_le(),
            eth_dst: blanks.eth_dst.0,
            eth_src: blanks.eth_src.0,
        }
    }
}

/// The blanks of a flow-mod in a series.
#[inline]
fn read(bytes: &[u8; BLANKS_SIZE]) -> Blanks {
    let number = |at: usize| u32::from_le_bytes(*bytes[at..].first_chunk().expect("it is inside"));
    let address = |at: usize| MacAddr(*bytes[at..].first_chunk().expect("it is inside"));
    let buffer_id = number(8);
    Blanks {
        in_port: PortNo(number(0)),
        eth_dst: address(12),
        eth_src: address(18),
        buffer_id: (buffer_id != NO_BUFFER).then_some(buffer_id),
        output: PortNo(number(4)),
    }
}

/// A series, as it came from an application.
#[derive(Debug, Clone)]
pub struct Series<'a> {
    template: FlowModTemplate,
    first: u32,
    said: Said<'a>,
}

/// What is behind the flow-mod.
#[derive(Debug, Clone, Copy)]
enum Said<'a> {
    /// Blanks alone.
    Blanks(&'a [[u8; BLANKS_SIZE]]),
    /// Blanks and packets, all of them whole; so many messages.
    WithPackets(&'a [u8], usize),
}

/// One message of a series.
#[derive(Debug, Clone, Copy)]
enum Part<'a> {
    FlowMod(Blanks),
    PacketOut(Blanks, &'a [u8]),
}

impl<'a> Series<'a> {
    /// Reads the series of `count` flow-mods that `said` is; `None` if it is none.
    pub fn read(said: &'a [u8], count: u32) -> Option<Self> {
        let count = count as usize;
        if count == 0 || count > MAX_SERIES {
            return None;
        }
        let Header { length, xid: first, .. } = Header::decode(said).ok()?;
        let (flow_mod, rest) = said.split_at_checked(length.into())?;
        let template = FlowModTemplate::of_message(flow_mod)?;
        let said = if rest.len() == count * BLANKS_SIZE {
            Said::Blanks(rest.as_chunks().0)
        } else {
            Said::WithPackets(rest, messages(rest, count)?)
        };
        Some(Self { template, first, said })
    }

    /// How many messages it is.
    #[inline]
    pub fn len(&self) -> usize {
        match self.said {
            Said::Blanks(blanks) => blanks.len(),
            Said::WithPackets(_, messages) => messages,
        }
    }

    /// Whether it is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What its flow-mods are made from.
    #[inline]
    pub fn template(&self) -> &FlowModTemplate {
        &self.template
    }

    /// The flow-mod that they are made from, to be changed as [`FlowModTemplate::message_mut`] says.
    #[inline]
    pub fn flow_mod_mut(&mut self) -> &mut [u8] {
        self.template.message_mut()
    }

    /// The transaction id that the application gave to the first message; those of the others count up.
    #[inline]
    pub fn first_xid(&self) -> u32 {
        self.first
    }

    /// Whether packets go with its flow-mods.
    #[inline]
    pub fn has_packets(&self) -> bool {
        matches!(self.said, Said::WithPackets(..))
    }

    /// Its blanks, if it has no packets.
    #[inline]
    fn blanks(&self) -> &'a [[u8; BLANKS_SIZE]] {
        match self.said {
            Said::Blanks(blanks) => blanks,
            Said::WithPackets(..) => &[],
        }
    }

    /// What one of its flows is, if it has no packets.
    pub fn flow(&self, number: usize) -> Option<Blanks> {
        self.blanks().get(number).map(read)
    }

    /// Appends those with these numbers to `out`, if it has no packets, with transaction ids that count up from `xid`,
    /// up to the first that `may` not be sent, or which cannot be said in its version. Returns how many.
    ///
    /// `may` is called once for each that is appended, and for the first that is not.
    #[inline]
    pub fn append(
        &self,
        numbers: Range<usize>,
        xid: u32,
        may: impl FnMut(&Blanks) -> bool,
        out: &mut Vec<u8>,
    ) -> usize {
        let each = self.blanks().get(numbers).unwrap_or_default().iter().map(read);
        self.template.append_all(each.take_while(may), xid, out)
    }

    /// Its flows, each with its packet, which may be empty.
    #[inline]
    pub fn flows_and_packets(&self) -> impl Iterator<Item = FlowAndPacket<'a>> + use<'a> {
        let (blanks, mut rest) = match self.said {
            Said::Blanks(blanks) => (blanks, &[][..]),
            Said::WithPackets(rest, _) => (&[][..], rest),
        };
        let with_packets = std::iter::from_fn(move || {
            let (blanks, packet, others) = split_first(rest)?;
            rest = others;
            Some(FlowAndPacket { flow: read(blanks), packet })
        });
        let alone = |blanks| FlowAndPacket { flow: read(blanks), packet: &[] };
        blanks.iter().map(alone).chain(with_packets)
    }

    /// Each of its messages as if it had been sent alone. One with a port that its version has not is an error, with
    /// port 0 in that place for those who are told of it.
    pub fn messages(&self) -> impl Iterator<Item = Result<Vec<u8>, Vec<u8>>> {
        self.parts().map(|(part, xid)| self.encode(part, xid))
    }

    /// Those with these numbers, which count up, for who is told of them.
    pub fn quotes(
        &self,
        numbers: impl IntoIterator<Item = usize>,
    ) -> impl Iterator<Item = Vec<u8>> {
        let mut parts = (0..).zip(self.parts());
        numbers.into_iter().map_while(move |number| {
            let (_, (part, xid)) = parts.find(|(each, _)| *each == number)?;
            Some(self.encode(part, xid).unwrap_or_else(|quote| quote))
        })
    }

    /// Its messages and their transaction ids.
    fn parts(&self) -> impl Iterator<Item = (Part<'a>, u32)> + use<'a> {
        let each = self.flows_and_packets().flat_map(|FlowAndPacket { flow, packet }| {
            let packet_out = Part::PacketOut(flow, packet);
            [Some(Part::FlowMod(flow)), (!packet.is_empty()).then_some(packet_out)]
        });
        let xids = std::iter::successors(Some(self.first), |xid| Some(xid.wrapping_add(1)));
        each.flatten().zip(xids)
    }

    fn encode(&self, part: Part<'_>, xid: u32) -> Result<Vec<u8>, Vec<u8>> {
        let mut out = Vec::new();
        let mut append = |without_ports: bool| {
            let (Part::FlowMod(mut flow) | Part::PacketOut(mut flow, _)) = part;
            if without_ports {
                (flow.in_port, flow.output) = (PortNo(0), PortNo(0));
            }
            match part {
                Part::FlowMod(_) => self.template.append_all([flow], xid, &mut out) == 1,
                Part::PacketOut(_, packet) => {
                    self.template.append_packet_out(&flow, packet, xid, &mut out).is_ok()
                }
            }
        };
        let is_said = append(false);
        if !is_said {
            append(true);
        }
        if is_said { Ok(out) } else { Err(out) }
    }
}

/// Blanks, their packet, and what is behind it; `None` if there are none whole.
#[inline]
fn split_first(said: &[u8]) -> Option<(&[u8; BLANKS_SIZE], &[u8], &[u8])> {
    let (blanks, rest) = said.split_first_chunk()?;
    let (size, rest) = rest.split_first_chunk::<PACKET_SIZE>()?;
    let (packet, rest) = rest.split_at_checked(u32::from_le_bytes(*size) as usize)?;
    Some((blanks, packet, rest))
}

/// How many messages `count` flows with their packets are, if that is what is said.
fn messages(said: &[u8], count: usize) -> Option<usize> {
    let (mut rest, mut messages) = (said, 0);
    for _ in 0..count {
        let (_, packet, others) = split_first(rest)?;
        if packet.len() > MAX_PACKET {
            return None;
        }
        messages += 1 + usize::from(!packet.is_empty());
        rest = others;
    }
    rest.is_empty().then_some(messages)
}

#[cfg(test)]
mod tests {
    use openflow::{FlowMod, Match, PacketOut, Version};

    use super::*;

    fn blanks(number: u8) -> Blanks {
        Blanks {
            in_port: PortNo(number.into()),
            eth_dst: MacAddr([2, 0, 0, 1, 2, number]),
            eth_src: MacAddr([4, 5, 6, 7, 8, number]),
            buffer_id: (number != 2).then_some(0x0102_0304),
            output: PortNo(0xffff_fffb),
        }
    }

    fn written(blanks: &Blanks) -> [u8; BLANKS_SIZE] {
        // SAFETY: four bytes three times, and twelve: no padding.
        unsafe { std::mem::transmute(Written::from(blanks)) }
    }

    #[test]
    fn series_is_read_as_what_was_said() {
        for version in [Version::V1_0, Version::V1_3] {
            let add = FlowMod::add(Match::new()).cookie(9);
            let template = FlowModTemplate::new(&add, version).unwrap();
            let mut said = template.message().to_vec();
            said[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
            for number in 1..=3 {
                let bytes = written(&blanks(number));
                assert_eq!(read(&bytes), blanks(number));
                said.extend_from_slice(&bytes);
            }
            let series = Series::read(&said, 3).unwrap();
            let mut expected = vec![0; template.message().len()];
            for (message, (number, xid)) in series.messages().zip((1..).zip([u32::MAX, 0, 1])) {
                template.fill(&blanks(number), xid, &mut expected).unwrap();
                assert_eq!(message.as_ref(), Ok(&expected));
            }
            assert_eq!(series.messages().count(), 3);
            for (size, count) in [(said.len(), 2), (said.len(), 4), (said.len() - 1, 3), (3, 1)] {
                assert!(Series::read(&said[..size], count).is_none(), "{size} {count}");
            }
            assert!(Series::read(&said, u32::MAX).is_none());
        }
    }

    /// Blanks and packets as an app writes them, behind a flow-mod.
    fn with_packets(template: &FlowModTemplate, packets: &[&[u8]]) -> Vec<u8> {
        let mut said = template.message().to_vec();
        for (number, packet) in (1..).zip(packets) {
            said.extend(written(&blanks(number)));
            said.extend(u32::try_from(packet.len()).unwrap().to_le_bytes());
            said.extend_from_slice(packet);
        }
        said
    }

    #[test]
    fn series_with_packets_is_a_packet_out_behind_each_flow_mod_that_has_one() {
        for version in [Version::V1_0, Version::V1_3] {
            let template = FlowModTemplate::new(&FlowMod::add(Match::new()), version).unwrap();
            let packets = [&[7; 60][..], &[], &[8]];
            let said = with_packets(&template, &packets);
            let series = Series::read(&said, 3).unwrap();
            assert!(series.has_packets());
            let mut expected = Vec::new();
            for (number, packet) in (1..).zip(packets) {
                let (flow, xid) = (blanks(number), u32::try_from(expected.len()).unwrap());
                let mut message = Vec::new();
                assert_eq!(template.append_all([flow], xid, &mut message), 1);
                expected.push(message);
                if packet.is_empty() {
                    continue;
                }
                let (mut message, xid) = (vec![0; 128], u32::try_from(expected.len()).unwrap());
                let actions = [openflow::Action::output(flow.output)];
                let packet_out = PacketOut::new(flow.in_port, &actions, packet);
                let size = packet_out.encode(version, xid, &mut message).unwrap();
                message.truncate(size);
                expected.push(message);
            }
            assert_eq!((series.len(), expected.len()), (5, 5));
            let messages: Vec<_> = series.messages().map(Result::unwrap).collect();
            assert_eq!(messages, expected);
            assert!(series.quotes(0..6).eq(expected.iter().cloned()));
            let some: Vec<_> = series.quotes([1, 4]).collect();
            assert_eq!(some, [&expected[1], &expected[4]].map(Clone::clone));
            for (size, count) in [(said.len(), 2), (said.len(), 4), (said.len() - 1, 3)] {
                assert!(Series::read(&said[..size], count).is_none(), "{size} {count}");
            }
        }
    }

    #[test]
    fn packet_that_no_packet_out_holds_is_none_of_a_series() {
        let template = FlowModTemplate::new(&FlowMod::add(Match::new()), Version::V1_3).unwrap();
        for (size, is_one) in [(MAX_PACKET, true), (MAX_PACKET + 1, false)] {
            let said = with_packets(&template, &[&vec![1; size]]);
            let series = Series::read(&said, 1);
            assert_eq!(series.is_some(), is_one, "{size}");
            assert!(series.is_none_or(|series| series.messages().all(|message| message.is_ok())));
        }
    }

    #[test]
    fn port_that_the_version_has_not_is_only_quoted() {
        let template = FlowModTemplate::new(&FlowMod::add(Match::new()), Version::V1_0).unwrap();
        let mut said = template.message().to_vec();
        said.extend(written(&Blanks { output: PortNo(0x1_0000), ..blanks(1) }));
        said.extend(written(&blanks(3)));
        let series = Series::read(&said, 2).unwrap();
        let messages: Vec<_> = series.messages().collect();
        let quotes: Vec<_> = series.quotes(0..3).collect();
        let quote = FlowMod::decode(&quotes[0]).unwrap().match_.to_string();
        assert_eq!(quote, "in_port=0,eth_dst=02:00:00:01:02:01,eth_src=04:05:06:07:08:01");
        assert_eq!(messages, [Err(quotes[0].clone()), Ok(quotes[1].clone())]);
        assert_eq!(quotes.len(), 2);
        let mut said = with_packets(&template, &[&[7; 3], &[8]]);
        said[84..88].copy_from_slice(&0x1_0000_u32.to_le_bytes());
        let series = Series::read(&said, 2).unwrap();
        let quote = series.quotes([1]).next().unwrap();
        let packet_out = PacketOut::decode(&quote).unwrap();
        assert_eq!((packet_out.in_port, packet_out.data), (PortNo(0), &[7; 3][..]));
        let messages: Vec<_> = series.messages().collect();
        assert_eq!((messages.len(), &messages[1]), (4, &Err(quote)));
        assert!(messages[0].is_err() && messages[2].is_ok() && messages[3].is_ok());
    }

    #[test]
    fn whatever_bytes_come_each_message_is_an_add_of_a_pair() {
        let add = FlowMod::add(Match::new()).priority(7);
        let step = if cfg!(miri) { 61 } else { 1 };
        for version in [Version::V1_0, Version::V1_3] {
            let template = FlowModTemplate::new(&add, version).unwrap();
            let alone = [template.message(), &[1; 3 * BLANKS_SIZE]].concat();
            let with_packets = with_packets(&template, &[&[1; 9], &[1; 2], &[1; 30]]);
            for whole in [alone, with_packets] {
                let mut read = 0;
                for place in (0..whole.len() * 8).step_by(step) {
                    let mut said = whole.clone();
                    said[place / 8] ^= 1 << (place % 8);
                    let Some(series) = Series::read(&said, 3) else { continue };
                    read += 1;
                    for message in series.messages().flatten() {
                        if message[1] == 13 {
                            let packet_out = PacketOut::decode(&message).unwrap();
                            assert!(packet_out.actions.only_output());
                            continue;
                        }
                        let Ok(flow_mod) = FlowMod::decode(&message) else { continue };
                        assert_eq!(flow_mod.command, openflow::FlowModCommand::Add);
                        assert_eq!(flow_mod.match_.fields().count(), 3);
                    }
                }
                assert!(read * step > 3 * BLANKS_SIZE * 8, "{read}: whatever is in the blanks");
            }
        }
    }
}
