//! Reads *series*: many flow-mods that differ in a pair of hosts and their ports only, which an application sends as one
//! record; optionally with the packets that caused them.
//!
//! The record comes from an application that may be hostile. The kernel copies it out of the ring, reads it here, and
//! handles the messages that [`Series::expand`] makes of it as if the application had sent each alone.
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
//! The size of the record tells the two forms apart. Numbers are in the machine's byte order, which is little endian;
//! the flow-mod is raw OpenFlow, and its own blanks are ignored. All flow-mods come first. Each
//! packet that is not empty becomes a packet-out behind them, with the in-port and output of its flow-mod. The first
//! message has the flow-mod's transaction id; those of the others count up.

#![forbid(unsafe_code)]

use openflow::{Blanks, FlowModTemplate, Header, MacAddr, PortNo};

/// Bytes of the blanks of one flow-mod.
pub const BLANKS_SIZE: usize = 24;

/// Most flow-mods in a series.
pub const MAX_SERIES: usize = 64;

/// Bytes of a packet, at most: a packet-out must hold it in every version.
const MAX_PACKET: usize = 0xffff - 40;

/// Bytes of the size of a packet.
pub const PACKET_SIZE: usize = 4;

/// The number of no buffer.
const NO_BUFFER: u32 = u32::MAX;

/// A flow for a pair of hosts, and the whole packet that caused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowAndPacket<'p> {
    /// The values for the template's blanks.
    pub flow: Blanks,
    /// The packet from its Ethernet header on, which goes out after the flow-mod through the flow's output. Empty if no
    /// packet is to go out, as when the switch keeps it in the flow's buffer.
    pub packet: &'p [u8],
}

/// The blanks of one flow-mod as the record holds them.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Written {
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

/// A series whose record was read.
#[derive(Debug, Clone)]
pub struct Series<'a> {
    template: FlowModTemplate,
    first_xid: u32,
    flows: Flows<'a>,
}

/// The part of the record behind the flow-mod.
#[derive(Debug, Clone, Copy)]
enum Flows<'a> {
    /// Blanks alone.
    Blanks(&'a [[u8; BLANKS_SIZE]]),
    /// Blanks, each with a packet; all of them are whole.
    WithPackets(&'a [u8]),
}

/// The rights of an application that decide about single messages of a series.
pub trait Limits {
    /// Returns whether its flows may output to this port.
    fn may_output(&self, port: PortNo) -> bool;

    /// Returns whether it may send this packet through `output` in a packet-out with this in-port.
    fn may_send(&self, in_port: PortNo, output: PortNo, packet: &[u8]) -> bool;
}

/// Messages of a series that [`Series::expand`] has written one behind the other: of one kind and size, and with
/// transaction ids that count up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expanded {
    /// Where the first begins in the output.
    pub start: usize,
    /// Bytes of each.
    pub size: usize,
    /// Their number, at least 1.
    pub count: u32,
    /// Their kind.
    pub kind: ExpandedKind,
    /// Why it must not be sent; then it is one message.
    pub problem: Option<Problem>,
}

/// The kind of messages that a series was expanded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpandedKind {
    /// Flow-mods. They differ from the series' own in their match's values, buffer and output only.
    FlowMod,
    /// Packet-outs of a packet to one port.
    PacketOut,
}

/// Why a message of a series must not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// The [`Limits`] do not allow it.
    Forbidden,
    /// Its version does not have one of its ports. It is written with port 0 for a report.
    Inexpressible,
}

impl<'a> Series<'a> {
    /// Reads a record that claims to be a series of `count` flow-mods; `None` if it is not.
    pub fn read(record: &'a [u8], count: u32) -> Option<Self> {
        let count = count as usize;
        if count == 0 || count > MAX_SERIES {
            return None;
        }
        let Header { length, xid: first_xid, .. } = Header::decode(record).ok()?;
        let (flow_mod, rest) = record.split_at_checked(length.into())?;
        let template = FlowModTemplate::of_message(flow_mod)?;
        let flows = if rest.len() == count * BLANKS_SIZE {
            Flows::Blanks(rest.as_chunks().0)
        } else if are_whole(rest, count) {
            Flows::WithPackets(rest)
        } else {
            return None;
        };
        Some(Self { template, first_xid, flows })
    }

    /// The flow-mod that is the model of all others; it outputs to port 1.
    #[inline]
    pub fn flow_mod(&self) -> &[u8] {
        self.template.message()
    }

    /// Appends all messages to `out`, and calls `each` with all of them in their order, and their bytes.
    #[inline]
    pub fn expand(
        &self,
        limits: &impl Limits,
        out: &mut Vec<u8>,
        each: impl FnMut(Expanded, &[u8]),
    ) {
        let mut to = Output { template: &self.template, limits, out, xid: self.first_xid, each };
        match self.flows {
            Flows::Blanks(blanks) => to.append_flow_mods(blanks.iter().map(decode_blanks)),
            Flows::WithPackets(record) => {
                let flows = core::iter::successors(split_first(record), |it| split_first(it.rest));
                to.append_flow_mods(flows.clone().map(|it| decode_blanks(it.blanks)));
                to.append_packet_outs(flows.filter(|it| !it.packet.is_empty()));
            }
        }
    }
}

/// Takes the messages of a series.
struct Output<'o, L, Each> {
    template: &'o FlowModTemplate,
    limits: &'o L,
    out: &'o mut Vec<u8>,
    /// The next transaction id.
    xid: u32,
    each: Each,
}

impl<L: Limits, Each: FnMut(Expanded, &[u8])> Output<'_, L, Each> {
    #[inline]
    fn append_flow_mods(&mut self, mut flows: impl Iterator<Item = Blanks> + Clone) {
        let size = self.template.message().len();
        loop {
            // One loop for all that can be sent: nearly always all can.
            let start = self.out.len();
            let allowed = flows.clone().take_while(|flow| self.limits.may_output(flow.output));
            let count = self.template.append_all(allowed, self.xid, self.out);
            self.report(ExpandedKind::FlowMod, start, size, count);
            let Some(flow) = flows.nth(count) else { return };
            let (template, xid) = (self.template, self.xid);
            self.append_problem(ExpandedKind::FlowMod, &flow, |flow, out| {
                template.append_all([*flow], xid, out) == 1
            });
        }
    }

    #[inline]
    fn append_packet_outs<'p>(&mut self, flows: impl Iterator<Item = WithPacket<'p>>) {
        let (mut start, mut size, mut count) = (self.out.len(), 0, 0);
        for WithPacket { blanks, packet, .. } in flows {
            let (flow, before) = (decode_blanks(blanks), self.out.len());
            let (template, xid) = (self.template, self.xid.wrapping_add(to_u32(count)));
            let append = |flow: &Blanks, out: &mut Vec<u8>| {
                template.append_packet_out(flow, packet, xid, out).is_ok()
            };
            let is_sent =
                self.limits.may_send(flow.in_port, flow.output, packet) && append(&flow, self.out);
            let appended = self.out.len() - before;
            if is_sent && appended == size {
                count += 1;
                continue;
            }
            self.report(ExpandedKind::PacketOut, start, size, count);
            (start, size, count) = (before, appended, 1);
            if !is_sent {
                self.append_problem(ExpandedKind::PacketOut, &flow, append);
                (start, size, count) = (self.out.len(), 0, 0);
            }
        }
        self.report(ExpandedKind::PacketOut, start, size, count);
    }

    /// Appends a message that must not be sent, with port 0 in place of ports that the version does not have. `append`
    /// returns whether the version has the ports.
    #[cold]
    fn append_problem(
        &mut self,
        kind: ExpandedKind,
        flow: &Blanks,
        append: impl Fn(&Blanks, &mut Vec<u8>) -> bool,
    ) {
        let start = self.out.len();
        let problem = if append(flow, self.out) {
            Problem::Forbidden
        } else {
            let without_ports = Blanks { in_port: PortNo(0), output: PortNo(0), ..*flow };
            append(&without_ports, self.out); // succeeds: every version has port 0, and the size was checked
            Problem::Inexpressible
        };
        self.xid = self.xid.wrapping_add(1);
        let size = self.out.len() - start;
        let one = Expanded { start, size, count: 1, kind, problem: Some(problem) };
        (self.each)(one, &self.out[start..]);
    }

    /// Reports messages that were appended from `start` on, if there are some.
    #[inline]
    fn report(&mut self, kind: ExpandedKind, start: usize, size: usize, count: usize) {
        if count > 0 {
            let count = to_u32(count);
            self.xid = self.xid.wrapping_add(count);
            let all = Expanded { start, size, count, kind, problem: None };
            (self.each)(all, &self.out[start..][..size * count as usize]);
        }
    }
}

fn to_u32(count: usize) -> u32 {
    u32::try_from(count).expect("a series is short")
}

#[inline]
fn decode_blanks(bytes: &[u8; BLANKS_SIZE]) -> Blanks {
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

/// The blanks of one flow-mod with its packet, at the beginning of a record.
#[derive(Debug, Clone, Copy)]
struct WithPacket<'a> {
    blanks: &'a [u8; BLANKS_SIZE],
    packet: &'a [u8],
    rest: &'a [u8],
}

/// Splits off the first blanks and their packet; `None` if they are cut short.
#[inline]
fn split_first(record: &[u8]) -> Option<WithPacket<'_>> {
    let (blanks, rest) = record.split_first_chunk()?;
    let (size, rest) = rest.split_first_chunk::<PACKET_SIZE>()?;
    let (packet, rest) = rest.split_at_checked(u32::from_le_bytes(*size) as usize)?;
    Some(WithPacket { blanks, packet, rest })
}

/// Whether the bytes are `count` blanks, each with a packet that a packet-out can hold, and nothing behind them.
fn are_whole(record: &[u8], count: usize) -> bool {
    let mut rest = record;
    for _ in 0..count {
        match split_first(rest) {
            Some(it) if it.packet.len() <= MAX_PACKET => rest = it.rest,
            _ => return false,
        }
    }
    rest.is_empty()
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
        let Written { in_port, output, buffer_id, eth_dst, eth_src } = Written::from(blanks);
        let mut bytes = [in_port, output, buffer_id].map(u32::to_ne_bytes).concat();
        bytes.extend(eth_dst.iter().chain(&eth_src));
        bytes.try_into().expect("24 bytes")
    }

    /// A port that applications may not use in these tests, and the first byte of a packet that they may not send.
    const FORBIDDEN: PortNo = PortNo(99);
    const SECRET: u8 = 42;

    struct TestLimits;

    impl Limits for TestLimits {
        fn may_output(&self, port: PortNo) -> bool {
            port != FORBIDDEN
        }

        fn may_send(&self, _: PortNo, output: PortNo, packet: &[u8]) -> bool {
            output != FORBIDDEN && packet[0] != SECRET
        }
    }

    type Message = Result<Vec<u8>, (Problem, Vec<u8>)>;

    /// The messages, each an error if it must not be sent.
    fn messages(series: &Series<'_>) -> Vec<Message> {
        let (mut out, mut all, mut end) = (vec![7; 3], Vec::new(), 3);
        series.expand(&TestLimits, &mut out, |expanded, bytes| {
            let Expanded { start, size, count, problem, .. } = expanded;
            assert_eq!((start, bytes.len()), (end, size * count as usize), "one behind the other");
            assert!(problem.is_none() || count == 1);
            end += bytes.len();
            let each = bytes.chunks_exact(size).map(<[u8]>::to_vec);
            all.extend(each.map(|message| match problem {
                None => Ok(message),
                Some(problem) => Err((problem, message)),
            }));
        });
        assert_eq!(end, out.len());
        all
    }

    #[test]
    fn series_expands_to_its_flow_mods() {
        for version in Version::ALL.iter().copied() {
            let add = FlowMod::add(Match::new()).cookie(9);
            let template = FlowModTemplate::new(&add, version).unwrap();
            let mut record = template.message().to_vec();
            record[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
            for number in 1..=3 {
                let bytes = written(&blanks(number));
                assert_eq!(decode_blanks(&bytes), blanks(number));
                record.extend_from_slice(&bytes);
            }
            let series = Series::read(&record, 3).unwrap();
            let expected = (1..=3).zip([u32::MAX, 0, 1]).map(|(number, xid)| {
                let mut message = vec![0; template.message().len()];
                template.fill(&blanks(number), xid, &mut message).unwrap();
                Ok(message)
            });
            assert_eq!(messages(&series), expected.collect::<Vec<_>>());
            for (size, count) in
                [(record.len(), 2), (record.len(), 4), (record.len() - 1, 3), (3, 1)]
            {
                assert!(Series::read(&record[..size], count).is_none(), "{size} {count}");
            }
            assert!(Series::read(&record, u32::MAX).is_none());
        }
    }

    /// Blanks and packets as an app writes them, behind a flow-mod.
    fn with_packets(template: &FlowModTemplate, packets: &[&[u8]]) -> Vec<u8> {
        let mut record = template.message().to_vec();
        for (number, packet) in (1..).zip(packets) {
            record.extend(written(&blanks(number)));
            record.extend(u32::try_from(packet.len()).unwrap().to_le_bytes());
            record.extend_from_slice(packet);
        }
        record
    }

    #[test]
    fn packets_become_packet_outs_behind_the_flow_mods() {
        for version in Version::ALL.iter().copied() {
            let template = FlowModTemplate::new(&FlowMod::add(Match::new()), version).unwrap();
            let packets = [&[7; 60][..], &[], &[8]];
            let record = with_packets(&template, &packets);
            let mut expected = Vec::new();
            for number in 1..=3 {
                let (mut message, xid) = (Vec::new(), u32::from(number) - 1);
                assert_eq!(template.append_all([blanks(number)], xid, &mut message), 1);
                expected.push(Ok(message));
            }
            for (number, packet) in (1..).zip(packets).filter(|(_, packet)| !packet.is_empty()) {
                let flow = blanks(number);
                let (mut message, xid) = (vec![0; 128], u32::try_from(expected.len()).unwrap());
                let actions = [openflow::Action::output(flow.output)];
                let packet_out = PacketOut::new(flow.in_port, &actions, packet);
                let size = packet_out.encode(version, xid, &mut message).unwrap();
                message.truncate(size);
                expected.push(Ok(message));
            }
            assert_eq!(messages(&Series::read(&record, 3).unwrap()), expected);
            for (size, count) in [(record.len(), 2), (record.len(), 4), (record.len() - 1, 3)] {
                assert!(Series::read(&record[..size], count).is_none(), "{size} {count}");
            }
        }
    }

    #[test]
    fn packet_longer_than_a_packet_out_makes_no_series() {
        let template = FlowModTemplate::new(&FlowMod::add(Match::new()), Version::V1_3).unwrap();
        for (size, is_one) in [(MAX_PACKET, true), (MAX_PACKET + 1, false)] {
            let record = with_packets(&template, &[&vec![1; size]]);
            let series = Series::read(&record, 1);
            assert_eq!(series.is_some(), is_one, "{size}");
            assert!(series.is_none_or(|series| messages(&series).iter().all(Result::is_ok)));
        }
    }

    #[test]
    fn port_that_the_version_lacks_is_not_expressible() {
        let template = FlowModTemplate::new(&FlowMod::add(Match::new()), Version::V1_0).unwrap();
        let mut record = template.message().to_vec();
        record.extend(written(&blanks(3)));
        record.extend(written(&Blanks { output: PortNo(0x1_0000), ..blanks(1) }));
        record.extend(written(&blanks(3)));
        let all = messages(&Series::read(&record, 3).unwrap());
        assert_eq!(all.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
        let (problem, quote) = all[1].clone().unwrap_err();
        assert_eq!(problem, Problem::Inexpressible);
        assert_eq!(quote[4..8], [0, 0, 0, 1]);
        let quote = FlowMod::decode(&quote).unwrap().match_.to_string();
        assert_eq!(quote, "in_port=0,eth_dst=02:00:00:01:02:01,eth_src=04:05:06:07:08:01");
        let mut record = with_packets(&template, &[&[7; 3], &[8]]);
        record[84..88].copy_from_slice(&0x1_0000_u32.to_le_bytes());
        let all = messages(&Series::read(&record, 2).unwrap());
        let are_ok: Vec<_> = all.iter().map(Result::is_ok).collect();
        assert_eq!(are_ok, [false, true, false, true]);
        let (_, packet_out) = all[2].clone().unwrap_err();
        let packet_out = PacketOut::decode(&packet_out).unwrap();
        assert_eq!((packet_out.in_port, packet_out.data), (PortNo(0), &[7; 3][..]));
    }

    /// Whether each message is sent; checks that the transaction ids count up from 0.
    fn are_sent(series: &Series<'_>) -> Vec<bool> {
        let all = messages(series);
        for (xid, message) in all.iter().enumerate() {
            let (Ok(bytes) | Err((_, bytes))) = message;
            assert_eq!(usize::from(bytes[7]), xid);
            assert!(!matches!(message, Err((problem, _)) if *problem != Problem::Forbidden));
        }
        all.iter().map(Result::is_ok).collect()
    }

    #[test]
    fn forbidden_message_divides_a_series() {
        for version in Version::ALL.iter().copied() {
            let template = FlowModTemplate::new(&FlowMod::add(Match::new()), version).unwrap();
            let mut record = template.message().to_vec();
            for number in 1..=4 {
                let output = if number == 3 { FORBIDDEN } else { PortNo(1) };
                record.extend(written(&Blanks { output, ..blanks(number) }));
            }
            let series = Series::read(&record, 4).unwrap();
            assert_eq!(are_sent(&series), [true, true, false, true]);
            let packets = [&[1, 2][..], &[1, 3], &[SECRET, 4], &[1, 5], &[1, 6, 7]];
            let record = with_packets(&template, &packets);
            let are_sent = are_sent(&Series::read(&record, 5).unwrap());
            assert_eq!(are_sent[5..], [true, true, false, true, true]);
        }
    }

    #[test]
    fn any_bytes_expand_to_adds_of_a_pair_only() {
        let add = FlowMod::add(Match::new()).priority(7);
        let step = if cfg!(miri) { 61 } else { 1 };
        for version in Version::ALL.iter().copied() {
            let template = FlowModTemplate::new(&add, version).unwrap();
            let alone = [template.message(), &[1; 3 * BLANKS_SIZE]].concat();
            let with_packets = with_packets(&template, &[&[1; 9], &[1; 2], &[1; 30]]);
            for whole in [alone, with_packets] {
                let mut read = 0;
                for place in (0..whole.len() * 8).step_by(step) {
                    let mut record = whole.clone();
                    record[place / 8] ^= 1 << (place % 8);
                    let Some(series) = Series::read(&record, 3) else { continue };
                    read += 1;
                    for message in messages(&series).into_iter().flatten() {
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
