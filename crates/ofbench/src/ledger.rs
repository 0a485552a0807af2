//! What a switch asked, what it was answered, and whether the answers fit.
//!
//! A question (a packet-in) is **answered** by the first flow-mod or packet-out that uses its buffer;
//! or, where the switch keeps no packets, by the packet-out that carries its frame (or, if it was
//! said so, the flow-mod with its addresses: there are controllers that send nothing else). A
//! flow-mod in front of a packet-out is checked and counted, and answers nothing.
//!
//! An answer fits if
//! * its buffer, or the number in its frame, is that of a question that waits, and this is the
//!   first answer to it; a frame is the one that was sent, to the last byte;
//! * what its match says of in-port and addresses is so of the packet;
//! * the packet goes to the port behind which its destination is, or is flooded. A flow that sends
//!   to one port looks at the destination.
//!
//! Floods are counted, as a controller may have forgotten a host. What a controller sends besides
//! (entries for other packets, LLDP) is counted and left alone.

use std::fmt::Write as _;

use openflow::{DecodeError, Message, PortNo, Version};
use thiserror::Error;

use crate::answer::{Flow, NO_BUFFER, Out, Sent, UsualFlow, number};
use crate::hosts::{Pair, SwitchHosts, address};
use crate::question::{Closed, LEAST_FRAME, NUMBER_AT, Open, Template};

/// What was counted of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packet-ins sent.
    pub asked: u64,
    /// Packet-ins answered.
    pub answered: u64,
    /// Flow-mods that concern the switch's hosts.
    pub flow_mods: u64,
    /// Packet-outs of the switch's packets.
    pub packet_outs: u64,
    /// Answers that flood a packet.
    pub floods: u64,
    /// Flow-mods and packet-outs that concern nothing that was asked.
    pub others: u64,
    /// Answers to what had been given up.
    pub late: u64,
    /// Packet-ins that were given up as not answered.
    pub unanswered: u64,
}

impl Counts {
    /// What was counted since `before`.
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

    /// Adds what was counted elsewhere.
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

/// An answer that does not fit, with both messages as people read them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{why}\n  it sent: {answer}\n  asked:   {question}")]
pub struct Wrong {
    /// What does not fit.
    pub why: String,
    /// The controller's message.
    pub answer: String,
    /// The question, if it is known.
    pub question: String,
}

/// What does not fit, before it is put into words.
#[derive(Debug, Clone, Copy)]
enum Misfit {
    NotThat(DecodeError),
    UnknownBuffer(u32),
    UnknownFrame(u32),
    Frame,
    InPort,
    Source,
    Destination,
    Blind,
    Dropped,
    Port(u32, u16),
    Several,
    Nobody,
}

/// What an answer was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// The answer to this question.
    Answer(u64),
    /// Something else.
    Other,
}

/// By what a question is answered where the switch keeps no packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnsweredBy {
    /// The packet-out with its frame.
    #[default]
    PacketOut,
    /// The flow-mod with its addresses.
    FlowMod,
}

/// See the module's description.
#[derive(Debug, Clone)]
pub struct Ledger {
    version: Version,
    buffered: bool,
    answered_by: AnsweredBy,
    /// Bytes of a question.
    size: usize,
    frame: Box<[u8]>,
    hosts: SwitchHosts,
    open: Open,
    counts: Counts,
}

impl Ledger {
    /// A switch with these hosts that asks questions of this form, which wait in `open`.
    pub fn new(
        version: Version,
        template: &Template,
        answered_by: AnsweredBy,
        hosts: SwitchHosts,
        open: Open,
    ) -> Self {
        Self {
            version,
            buffered: template.is_buffered(),
            answered_by,
            size: template.size(),
            frame: template.frame().into(),
            hosts,
            open,
            counts: Counts::default(),
        }
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        let unanswered = self.counts.unanswered + self.open.overtaken();
        Counts { unanswered, ..self.counts }
    }

    /// Packet-ins answered.
    #[inline]
    pub fn answered(&self) -> u64 {
        self.counts.answered
    }

    /// The questions that wait.
    pub fn open(&self) -> &Open {
        &self.open
    }

    /// Asks at most `count` questions; returns them.
    pub fn ask<'t>(&mut self, template: &'t mut Template, count: usize) -> &'t [u8] {
        let bytes = template.ask(count, &mut self.hosts, &mut self.open);
        self.counts.asked += (bytes.len() / self.size) as u64;
        bytes
    }

    /// Gives up what waits; returns how many questions that were.
    pub fn give_up(&mut self) -> usize {
        let given_up = self.open.expire();
        self.counts.unanswered += given_up as u64;
        given_up
    }

    /// Takes in a whole flow-mod.
    ///
    /// # Errors
    /// [`Wrong`] if it does not fit.
    #[inline]
    pub fn flow_mod(&mut self, message: &[u8]) -> Result<Heard, Box<Wrong>> {
        match self.usual_flow(message) {
            Some(question) => Ok(Heard::Answer(question)),
            None => self.other_flow(message),
        }
    }

    /// Takes in a flow-mod of the most frequent shape that fits; `None`, and nothing has happened, if
    /// it is another or does not fit.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "what is read stays in registers only then")]
    fn usual_flow(&mut self, message: &[u8]) -> Option<u64> {
        let flow = UsualFlow::read(self.version, message)?;
        let question = self.open.get(flow.buffer_id)?;
        let pair = self.hosts.talk(question);
        let different = (flow.eth_src ^ pair.eth_src())
            | (flow.eth_dst ^ pair.eth_dst())
            | u64::from(flow.in_port ^ u32::from(pair.in_port()));
        let flooded = flow.out_port == PortNo::FLOOD.0;
        if different != 0 || !(flooded || flow.out_port == u32::from(pair.out_port())) {
            return None;
        }
        self.open.close_waiting(question);
        self.counts.flow_mods += 1;
        self.counts.answered += 1;
        self.counts.floods += u64::from(flooded);
        Some(question)
    }

    fn other_flow(&mut self, message: &[u8]) -> Result<Heard, Box<Wrong>> {
        let flow = match Flow::quick(self.version, message) {
            Some(flow) => Ok(flow),
            None => Flow::decode(message),
        };
        match flow {
            Ok(flow) => self.judge_flow(&flow, message),
            Err(error) => Err(explain(message, None, Misfit::NotThat(error))),
        }
    }

    fn judge_flow(&mut self, flow: &Flow, message: &[u8]) -> Result<Heard, Box<Wrong>> {
        if flow.buffer_id == NO_BUFFER || flow.deletes {
            return self.unbuffered_flow(flow, message);
        }
        match self.open.close(flow.buffer_id) {
            Closed::Now(question) => {
                let pair = self.hosts.talk(question);
                self.counts.flow_mods += 1;
                self.counts.answered += 1;
                match fits(flow, pair) {
                    Ok(flooded) => self.counts.floods += u64::from(flooded),
                    Err(misfit) => return Err(explain(message, Some(pair), misfit)),
                }
                Ok(Heard::Answer(question))
            }
            Closed::Late => {
                self.counts.late += 1;
                Ok(Heard::Other)
            }
            Closed::Never => Err(explain(message, None, Misfit::UnknownBuffer(flow.buffer_id))),
        }
    }

    /// A flow-mod that uses no buffer: checked against what is known of the hosts.
    fn unbuffered_flow(&mut self, flow: &Flow, message: &[u8]) -> Result<Heard, Box<Wrong>> {
        let [src, dst] =
            [flow.eth_src, flow.eth_dst].map(|host| host.filter(|host| is_host(*host)));
        // Towards the controller or a group of hosts, and for all hosts: entries made ahead.
        if flow.deletes || flow.out == Out::Controller || (src.is_none() && dst.is_none()) {
            self.counts.others += 1;
            return Ok(Heard::Other);
        }
        let wrong = |misfit| explain(message, None, misfit);
        let in_port = src.map(|src| self.hosts.port_of(src).ok_or_else(|| wrong(Misfit::Nobody)));
        let out_port = dst.map(|dst| self.hosts.port_of(dst).ok_or_else(|| wrong(Misfit::Nobody)));
        let (in_port, out_port) = (in_port.transpose()?, out_port.transpose()?);
        if let (Some(said), Some(is)) = (flow.in_port, in_port)
            && said != u32::from(is)
        {
            return Err(wrong(Misfit::InPort));
        }
        let flooded = goes_right(flow.out, out_port).map_err(wrong)?;
        self.counts.floods += u64::from(flooded);
        self.counts.flow_mods += 1;
        if self.answered_by == AnsweredBy::FlowMod
            && !self.buffered
            && let Some(number) = self.open.find(|at| fits(flow, self.hosts.talk(at)).is_ok())
            && let Closed::Now(question) = self.open.close(number)
        {
            self.counts.answered += 1;
            return Ok(Heard::Answer(question));
        }
        Ok(Heard::Other)
    }

    /// Takes in a whole packet-out.
    ///
    /// # Errors
    /// [`Wrong`] if it does not fit.
    #[inline]
    pub fn packet_out(&mut self, message: &[u8]) -> Result<Heard, Box<Wrong>> {
        match Sent::quick(self.version, message) {
            Some(sent) => self.judge_sent(&sent, message),
            None => self.packet_out_of_other_shape(message),
        }
    }

    #[cold]
    fn packet_out_of_other_shape(&mut self, message: &[u8]) -> Result<Heard, Box<Wrong>> {
        match Sent::decode(message) {
            Ok(sent) => self.judge_sent(&sent, message),
            Err(error) => Err(explain(message, None, Misfit::NotThat(error))),
        }
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "what was read stays in registers only then")]
    fn judge_sent(&mut self, sent: &Sent<'_>, message: &[u8]) -> Result<Heard, Box<Wrong>> {
        let number = if sent.buffer_id != NO_BUFFER {
            sent.buffer_id
        } else if let Some(number) = self.number_in(sent.frame) {
            number
        } else {
            self.counts.others += 1;
            return Ok(Heard::Other);
        };
        if self.answered_by == AnsweredBy::FlowMod && !self.buffered {
            self.counts.packet_outs += 1;
            return Ok(Heard::Other);
        }
        let question = match self.open.close(number) {
            Closed::Now(question) => question,
            Closed::Late => {
                self.counts.late += 1;
                return Ok(Heard::Other);
            }
            Closed::Never if sent.buffer_id == NO_BUFFER => {
                return Err(explain(message, None, Misfit::UnknownFrame(number)));
            }
            Closed::Never => return Err(explain(message, None, Misfit::UnknownBuffer(number))),
        };
        let pair = self.hosts.talk(question);
        self.counts.packet_outs += 1;
        self.counts.answered += 1;
        match self.leaves_right(sent, pair) {
            Ok(flooded) => self.counts.floods += u64::from(flooded),
            Err(misfit) => return Err(explain(message, Some(pair), misfit)),
        }
        Ok(Heard::Answer(question))
    }

    /// The number in a frame, if it comes from one of our hosts.
    #[inline]
    fn number_in(&self, frame: &[u8]) -> Option<u32> {
        let frame = frame.first_chunk::<LEAST_FRAME>()?;
        let src: &[u8; 6] = frame[6..].first_chunk()?;
        self.hosts.port_of(number(*src))?;
        Some(u32::from_be_bytes(*frame[NUMBER_AT..].first_chunk()?))
    }

    /// Whether a packet-out has the packet it should and sends it where it should.
    #[inline]
    fn leaves_right(&self, sent: &Sent<'_>, pair: Pair) -> Result<bool, Misfit> {
        let port_known = sent.in_port < 0xffff_ff00;
        if port_known && sent.in_port != u32::from(pair.in_port()) {
            return Err(Misfit::InPort);
        }
        if sent.buffer_id == NO_BUFFER && !self.is_frame(sent.frame, pair) {
            return Err(Misfit::Frame);
        }
        goes_right(sent.out, Some(pair.out_port()))
    }

    /// Whether it is, to the last byte, the frame that was sent.
    #[inline]
    fn is_frame(&self, frame: &[u8], pair: Pair) -> bool {
        const AFTER: usize = NUMBER_AT + 4;
        frame.len() == self.frame.len()
            && frame.starts_with(&pair.addresses())
            && frame[12..NUMBER_AT] == self.frame[12..NUMBER_AT]
            && frame[AFTER..] == self.frame[AFTER..]
    }
}

/// Whether an address names one host.
fn is_host(address: u64) -> bool {
    address & 1 == 0
}

/// Whether a flow would take a packet, and where to; whether it floods.
#[inline]
fn fits(flow: &Flow, pair: Pair) -> Result<bool, Misfit> {
    if flow.in_port.is_some_and(|port| port != u32::from(pair.in_port())) {
        return Err(Misfit::InPort);
    }
    if flow.eth_src.is_some_and(|src| src != pair.eth_src()) {
        return Err(Misfit::Source);
    }
    match flow.eth_dst {
        Some(dst) if dst != pair.eth_dst() => Err(Misfit::Destination),
        Some(_) => goes_right(flow.out, Some(pair.out_port())),
        None => goes_right(flow.out, None),
    }
}

/// Whether packets go where their destination is, if that is looked at; whether they are flooded.
#[inline]
fn goes_right(out: Out, out_port: Option<u16>) -> Result<bool, Misfit> {
    match (out, out_port) {
        (Out::Flood, _) => Ok(true),
        (Out::Port(port), Some(right)) if port == u32::from(right) => Ok(false),
        (Out::Port(port), Some(right)) => Err(Misfit::Port(port, right)),
        (Out::Port(_), None) => Err(Misfit::Blind),
        (Out::Nowhere | Out::Controller, _) => Err(Misfit::Dropped),
        (Out::Several, _) => Err(Misfit::Several),
    }
}

#[cold]
#[expect(clippy::unnecessary_box_returns, reason = "what is returned by the million stays small")]
fn explain(message: &[u8], question: Option<Pair>, misfit: Misfit) -> Box<Wrong> {
    let answer = match Message::decode(message) {
        Ok(message) => message.to_string(),
        Err(_) => message.iter().take(128).fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        }),
    };
    let question = question.map_or_else(
        || "not known".to_owned(),
        |pair| {
            let (src, dst) = (address(pair.eth_src()), address(pair.eth_dst()));
            let (from, to) = (pair.in_port(), pair.out_port());
            format!("a packet from {src} at port {from} to {dst}, who is at port {to}")
        },
    );
    Box::new(Wrong { why: misfit.words(), answer, question })
}

impl Misfit {
    fn words(self) -> String {
        match self {
            Self::NotThat(error) => format!("a message cannot be decoded: {error}"),
            Self::UnknownBuffer(number) => format!(
                "an answer uses buffer {number:#x}, which holds no packet: it was used before, or never given"
            ),
            Self::UnknownFrame(number) => {
                format!("a packet-out carries frame {number}, which was sent back before")
            }
            Self::Frame => "a packet-out carries another frame than the switch sent".into(),
            Self::InPort => "an answer has another in-port than the packet".into(),
            Self::Source => "a flow matches another source than the packet has".into(),
            Self::Destination => "a flow matches another destination than the packet has".into(),
            Self::Blind => "a flow sends to one port without looking at the destination".into(),
            Self::Dropped => "an answer drops the packet".into(),
            Self::Port(port, right) => {
                format!("an answer sends to port {port}, and the destination is at port {right}")
            }
            Self::Several => "an answer sends to several ports, a group or a table".into(),
            Self::Nobody => "a flow is for an address that no host has".into(),
        }
    }
}

#[cfg(test)]
mod tests;
