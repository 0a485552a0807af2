//! Checks a controller's answers against the packet-ins that a switch sent.
//!
//! The first flow-mod or packet-out that uses a packet-in's buffer **answers** it. If the switch
//! does not buffer, the packet-out that carries the frame answers it or, with
//! [`AnsweredBy::FlowMod`], the flow-mod that matches its addresses: some controllers send nothing
//! else. A flow-mod that precedes the answering packet-out is checked and counted but answers
//! nothing.
//!
//! An answer is right if
//! * its buffer id, or the number in its frame, belongs to a pending packet-in that was not
//!   answered before; a frame equals the one sent, to the last byte;
//! * every in-port and address in its match equals the packet's;
//! * it outputs to the port of the destination, or floods. A flow with one output port must match
//!   the destination.
//!
//! Floods are counted, because a controller may have forgotten a host. Unrelated messages (entries
//! for other packets, LLDP) are counted and ignored.

use std::fmt::Write as _;

use openflow::{DecodeError, Message, PortNo, Version};
use thiserror::Error;

use crate::answer::{
    CommonFlowMod, Egress, FlowModFields, NO_BUFFER, PacketOutFields, address_to_u64,
};
use crate::hosts::{Pair, SwitchHosts, address};
use crate::packet_ins::{AnswerState, MIN_FRAME, NUMBER_AT, PacketInTemplate, PendingPacketIns};

/// Counters of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packet-ins sent.
    pub asked: u64,
    /// Packet-ins answered.
    pub answered: u64,
    /// Flow-mods about the switch's hosts.
    pub flow_mods: u64,
    /// Packet-outs of the switch's packets.
    pub packet_outs: u64,
    /// Answers that flood a packet.
    pub floods: u64,
    /// Flow-mods and packet-outs unrelated to any packet-in.
    pub others: u64,
    /// Answers to packet-ins that had been given up.
    pub late: u64,
    /// Packet-ins given up without an answer.
    pub unanswered: u64,
}

impl Counts {
    /// Returns the difference to the earlier counters `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            asked: self.asked - before.asked,
            answered: self.answered - before.answered,
            flow_mods: self.flow_mods - before.flow_mods,
            packet_outs: self.packet_outs - before.packet_outs,
            floods: self.floods - before.floods,
            others: self.others - before.others,
            late: self.late - before.late,
            unanswered: self.unanswered - before.unanswered,
        }
    }

    /// Adds the counters of another switch or interval.
    pub fn add(&mut self, other: &Self) {
        self.asked += other.asked;
        self.answered += other.answered;
        self.flow_mods += other.flow_mods;
        self.packet_outs += other.packet_outs;
        self.floods += other.floods;
        self.others += other.others;
        self.late += other.late;
        self.unanswered += other.unanswered;
    }
}

/// A wrong answer, with both messages as text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{why}\n  answer:    {answer}\n  packet-in: {packet_in}")]
pub struct WrongAnswer {
    /// The mistake.
    pub why: String,
    /// The controller's message.
    pub answer: String,
    /// The packet-in, if it is known.
    pub packet_in: String,
}

/// A mistake before it is formatted.
#[derive(Debug, Clone, Copy)]
enum Mismatch {
    Undecodable(DecodeError),
    UnknownBuffer(u32),
    UnknownFrame(u32),
    Frame,
    InPort,
    Source,
    Destination,
    NoDestination,
    Dropped,
    Port(u32, u16),
    Several,
    UnknownHost,
}

/// The kind of a correct message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The answer to the packet-in with this sequence number.
    Answer(u64),
    /// A message that answers no packet-in.
    Other,
}

/// Which message answers a packet-in that is not buffered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnsweredBy {
    /// The packet-out that carries its frame.
    #[default]
    PacketOut,
    /// The flow-mod that matches its addresses.
    FlowMod,
}

/// Checks the answers of one switch; see the module's documentation.
#[derive(Debug, Clone)]
pub struct AnswerChecker {
    version: Version,
    buffered: bool,
    answered_by: AnsweredBy,
    /// Size of a packet-in, in bytes.
    size: usize,
    frame: Box<[u8]>,
    hosts: SwitchHosts,
    pending: PendingPacketIns,
    counts: Counts,
}

impl AnswerChecker {
    /// Creates the checker of a switch with these hosts; `pending` tracks its pending packet-ins.
    pub fn new(
        version: Version,
        template: &PacketInTemplate,
        answered_by: AnsweredBy,
        hosts: SwitchHosts,
        pending: PendingPacketIns,
    ) -> Self {
        Self {
            version,
            buffered: template.is_buffered(),
            answered_by,
            size: template.size(),
            frame: template.frame().into(),
            hosts,
            pending,
            counts: Counts::default(),
        }
    }

    /// Returns the counters.
    pub fn counts(&self) -> Counts {
        let unanswered = self.counts.unanswered + self.pending.overtaken();
        Counts { unanswered, ..self.counts }
    }

    /// Returns the number of answered packet-ins.
    #[inline]
    pub fn answered(&self) -> u64 {
        self.counts.answered
    }

    /// Returns the pending packet-ins.
    pub fn pending(&self) -> &PendingPacketIns {
        &self.pending
    }

    /// Registers at most `count` new packet-ins and returns their bytes.
    pub fn ask<'t>(&mut self, template: &'t mut PacketInTemplate, count: usize) -> &'t [u8] {
        let bytes = template.ask(count, &mut self.hosts, &mut self.pending);
        self.counts.asked += (bytes.len() / self.size) as u64;
        bytes
    }

    /// Gives up all pending packet-ins; returns their number.
    pub fn give_up(&mut self) -> usize {
        let given_up = self.pending.give_up_all();
        self.counts.unanswered += given_up as u64;
        given_up
    }

    /// Checks a complete flow-mod.
    ///
    /// # Errors
    /// [`WrongAnswer`] if the answer is wrong.
    #[inline]
    pub fn flow_mod(&mut self, message: &[u8]) -> Result<Verdict, Box<WrongAnswer>> {
        match self.common_flow_mod(message) {
            Some(seq) => Ok(Verdict::Answer(seq)),
            None => self.check_uncommon_flow(message),
        }
    }

    /// Checks a flow-mod of the most frequent shape. Returns `None`, without a state change, if it
    /// has another shape or is wrong: the slow path then finds the reason.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the decoded fields stay in registers")]
    fn common_flow_mod(&mut self, message: &[u8]) -> Option<u64> {
        let flow = CommonFlowMod::read(self.version, message)?;
        let seq = self.pending.get(flow.buffer_id)?;
        let pair = self.hosts.pair(seq);
        let different = (flow.eth_src ^ pair.eth_src())
            | (flow.eth_dst ^ pair.eth_dst())
            | u64::from(flow.in_port ^ u32::from(pair.in_port()));
        let flooded = flow.out_port == PortNo::FLOOD.0;
        if different != 0 || !(flooded || flow.out_port == u32::from(pair.out_port())) {
            return None;
        }
        self.pending.remove(seq);
        self.counts.flow_mods += 1;
        self.counts.answered += 1;
        self.counts.floods += u64::from(flooded);
        Some(seq)
    }

    fn check_uncommon_flow(&mut self, message: &[u8]) -> Result<Verdict, Box<WrongAnswer>> {
        let flow = match FlowModFields::decode_fast(self.version, message) {
            Some(flow) => Ok(flow),
            None => FlowModFields::decode(message),
        };
        match flow {
            Ok(flow) => self.check_flow(&flow, message),
            Err(error) => Err(explain(message, None, Mismatch::Undecodable(error))),
        }
    }

    fn check_flow(
        &mut self,
        flow: &FlowModFields,
        message: &[u8],
    ) -> Result<Verdict, Box<WrongAnswer>> {
        if flow.buffer_id == NO_BUFFER || flow.deletes {
            return self.unbuffered_flow(flow, message);
        }
        match self.pending.answer(flow.buffer_id) {
            AnswerState::Pending(seq) => {
                let pair = self.hosts.pair(seq);
                self.counts.flow_mods += 1;
                self.counts.answered += 1;
                match check_match(flow, pair) {
                    Ok(flooded) => self.counts.floods += u64::from(flooded),
                    Err(mismatch) => return Err(explain(message, Some(pair), mismatch)),
                }
                Ok(Verdict::Answer(seq))
            }
            AnswerState::Late => {
                self.counts.late += 1;
                Ok(Verdict::Other)
            }
            AnswerState::Unknown => {
                Err(explain(message, None, Mismatch::UnknownBuffer(flow.buffer_id)))
            }
        }
    }

    /// Checks a flow-mod without a buffer against the host table.
    fn unbuffered_flow(
        &mut self,
        flow: &FlowModFields,
        message: &[u8],
    ) -> Result<Verdict, Box<WrongAnswer>> {
        let [src, dst] =
            [flow.eth_src, flow.eth_dst].map(|host| host.filter(|host| is_host(*host)));
        // Entries that send to the controller, to group addresses or to all hosts are installed in
        // advance and answer nothing.
        if flow.deletes || flow.out == Egress::Controller || (src.is_none() && dst.is_none()) {
            self.counts.others += 1;
            return Ok(Verdict::Other);
        }
        let wrong = |mismatch| explain(message, None, mismatch);
        let in_port =
            src.map(|src| self.hosts.port_of(src).ok_or_else(|| wrong(Mismatch::UnknownHost)));
        let out_port =
            dst.map(|dst| self.hosts.port_of(dst).ok_or_else(|| wrong(Mismatch::UnknownHost)));
        let (in_port, out_port) = (in_port.transpose()?, out_port.transpose()?);
        if let (Some(said), Some(is)) = (flow.in_port, in_port)
            && said != u32::from(is)
        {
            return Err(wrong(Mismatch::InPort));
        }
        let flooded = check_egress(flow.out, out_port).map_err(wrong)?;
        self.counts.floods += u64::from(flooded);
        self.counts.flow_mods += 1;
        if self.answered_by == AnsweredBy::FlowMod
            && !self.buffered
            && let Some(number) =
                self.pending.find_oldest(|at| check_match(flow, self.hosts.pair(at)).is_ok())
            && let AnswerState::Pending(seq) = self.pending.answer(number)
        {
            self.counts.answered += 1;
            return Ok(Verdict::Answer(seq));
        }
        Ok(Verdict::Other)
    }

    /// Checks a complete packet-out.
    ///
    /// # Errors
    /// [`WrongAnswer`] if the answer is wrong.
    #[inline]
    pub fn packet_out(&mut self, message: &[u8]) -> Result<Verdict, Box<WrongAnswer>> {
        match PacketOutFields::decode_fast(self.version, message) {
            Some(sent) => self.check_packet_out(&sent, message),
            None => self.check_uncommon_packet_out(message),
        }
    }

    #[cold]
    fn check_uncommon_packet_out(&mut self, message: &[u8]) -> Result<Verdict, Box<WrongAnswer>> {
        match PacketOutFields::decode(message) {
            Ok(sent) => self.check_packet_out(&sent, message),
            Err(error) => Err(explain(message, None, Mismatch::Undecodable(error))),
        }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the decoded fields stay in registers")]
    fn check_packet_out(
        &mut self,
        sent: &PacketOutFields<'_>,
        message: &[u8],
    ) -> Result<Verdict, Box<WrongAnswer>> {
        let number = if sent.buffer_id != NO_BUFFER {
            sent.buffer_id
        } else if let Some(number) = self.number_in_frame(sent.frame) {
            number
        } else {
            self.counts.others += 1;
            return Ok(Verdict::Other);
        };
        if self.answered_by == AnsweredBy::FlowMod && !self.buffered {
            self.counts.packet_outs += 1;
            return Ok(Verdict::Other);
        }
        let seq = match self.pending.answer(number) {
            AnswerState::Pending(seq) => seq,
            AnswerState::Late => {
                self.counts.late += 1;
                return Ok(Verdict::Other);
            }
            AnswerState::Unknown if sent.buffer_id == NO_BUFFER => {
                return Err(explain(message, None, Mismatch::UnknownFrame(number)));
            }
            AnswerState::Unknown => {
                return Err(explain(message, None, Mismatch::UnknownBuffer(number)));
            }
        };
        let pair = self.hosts.pair(seq);
        self.counts.packet_outs += 1;
        self.counts.answered += 1;
        match self.check_packet(sent, pair) {
            Ok(flooded) => self.counts.floods += u64::from(flooded),
            Err(mismatch) => return Err(explain(message, Some(pair), mismatch)),
        }
        Ok(Verdict::Answer(seq))
    }

    /// Returns the packet-in number in a frame, if one of the switch's hosts sent it.
    #[inline]
    fn number_in_frame(&self, frame: &[u8]) -> Option<u32> {
        let frame = frame.first_chunk::<MIN_FRAME>()?;
        let src: &[u8; 6] = frame[6..].first_chunk()?;
        self.hosts.port_of(address_to_u64(*src))?;
        Some(u32::from_be_bytes(*frame[NUMBER_AT..].first_chunk()?))
    }

    /// Checks in-port, frame and output of a packet-out; returns whether it floods.
    #[inline]
    fn check_packet(&self, sent: &PacketOutFields<'_>, pair: Pair) -> Result<bool, Mismatch> {
        let port_known = sent.in_port < 0xffff_ff00;
        if port_known && sent.in_port != u32::from(pair.in_port()) {
            return Err(Mismatch::InPort);
        }
        if sent.buffer_id == NO_BUFFER && !self.is_sent_frame(sent.frame, pair) {
            return Err(Mismatch::Frame);
        }
        check_egress(sent.out, Some(pair.out_port()))
    }

    /// Whether `frame` equals the frame that was sent, to the last byte.
    #[inline]
    fn is_sent_frame(&self, frame: &[u8], pair: Pair) -> bool {
        const AFTER: usize = NUMBER_AT + 4;
        frame.len() == self.frame.len()
            && frame.starts_with(&pair.addresses())
            && frame[12..NUMBER_AT] == self.frame[12..NUMBER_AT]
            && frame[AFTER..] == self.frame[AFTER..]
    }
}

/// Whether an address identifies one host.
fn is_host(address: u64) -> bool {
    address & 1 == 0
}

/// Checks that a flow matches a packet and outputs it correctly; returns whether it floods.
#[inline]
fn check_match(flow: &FlowModFields, pair: Pair) -> Result<bool, Mismatch> {
    if flow.in_port.is_some_and(|port| port != u32::from(pair.in_port())) {
        return Err(Mismatch::InPort);
    }
    if flow.eth_src.is_some_and(|src| src != pair.eth_src()) {
        return Err(Mismatch::Source);
    }
    // A flow that outputs to more than the destination's port would flood each packet of the pair.
    if matches!(flow.out, Egress::Ports(_)) {
        return Err(Mismatch::Several);
    }
    match flow.eth_dst {
        Some(dst) if dst != pair.eth_dst() => Err(Mismatch::Destination),
        Some(_) => check_egress(flow.out, Some(pair.out_port())),
        None => check_egress(flow.out, None),
    }
}

/// Checks that packets reach the destination's port; returns whether they are flooded.
#[inline]
fn check_egress(out: Egress, out_port: Option<u16>) -> Result<bool, Mismatch> {
    match (out, out_port) {
        (Egress::Flood, _) => Ok(true),
        (Egress::Ports(ports), Some(right))
            if ports & 1_u64.checked_shl(right.into()).unwrap_or(0) != 0 =>
        {
            Ok(true)
        }
        (Egress::Port(port), Some(right)) if port == u32::from(right) => Ok(false),
        (Egress::Port(port), Some(right)) => Err(Mismatch::Port(port, right)),
        (Egress::Port(_), None) => Err(Mismatch::NoDestination),
        (Egress::Nowhere | Egress::Controller, _) => Err(Mismatch::Dropped),
        (Egress::Ports(_) | Egress::Several, _) => Err(Mismatch::Several),
    }
}

#[cold]
#[expect(clippy::unnecessary_box_returns, reason = "the Result of the hot path stays small")]
fn explain(message: &[u8], pair: Option<Pair>, mismatch: Mismatch) -> Box<WrongAnswer> {
    let answer = match Message::decode(message) {
        Ok(message) => message.to_string(),
        Err(_) => message.iter().take(128).fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        }),
    };
    let packet_in = pair.map_or_else(
        || "unknown".to_owned(),
        |pair| {
            let (src, dst) = (address(pair.eth_src()), address(pair.eth_dst()));
            let (from, to) = (pair.in_port(), pair.out_port());
            format!("a packet from {src} on port {from} to {dst} on port {to}")
        },
    );
    Box::new(WrongAnswer { why: mismatch.describe(), answer, packet_in })
}

impl Mismatch {
    fn describe(self) -> String {
        match self {
            Self::Undecodable(error) => format!("a message cannot be decoded: {error}"),
            Self::UnknownBuffer(number) => format!(
                "an answer uses buffer {number:#x}, which holds no packet: it was used before or never allocated"
            ),
            Self::UnknownFrame(number) => {
                format!("a packet-out carries frame {number}, which was answered before")
            }
            Self::Frame => {
                "the frame of a packet-out differs from the frame that the switch sent".into()
            }
            Self::InPort => "the in-port of an answer differs from the packet's".into(),
            Self::Source => "the source of a flow differs from the packet's".into(),
            Self::Destination => "the destination of a flow differs from the packet's".into(),
            Self::NoDestination => {
                "a flow outputs to one port without matching the destination".into()
            }
            Self::Dropped => "an answer drops the packet".into(),
            Self::Port(port, right) => {
                format!("an answer outputs to port {port}, but the destination is on port {right}")
            }
            Self::Several => "an answer outputs to several ports, a group or a table".into(),
            Self::UnknownHost => "a flow matches an address that no host has".into(),
        }
    }
}

#[cfg(test)]
mod tests;
