//! The message `NXT_FLOW_MOD` (13), which gives OpenFlow 1.0 the extensible match.
//!
//! Offsets are from the experimenter id on.
//!
//! ```text
//!   0 0x00002320   4 13         8 cookie (8)    16 table, if the connection uses it   17 command
//!  18 idle        20 hard      22 priority      24 buffer id (4)   28 out_port   30 flags
//!  32 match_len   34 padding (6)                40 match fields, padded to a multiple of 8; then actions
//! ```
//!
//! A match field has the layout of [`oxm`](crate::oxm). `NXM_NX_COOKIE` (class 1, number 30, 8 bytes, with a mask 16) is about the
//! flows that a message changes and not about packets.

use super::body::Body;
use super::fault::Fault;
use super::packet_in::{body, fields};
use super::{NICIRA, missing_prerequisite, nested};
use crate::matching::Masked;
use crate::v1_0::{port_from_wire, port_to_wire};
use crate::{
    Action, EncodeError, Experimenter, FlowModCommand, FlowModFlags, Match, PortNo, Version,
};

const FLOW_MOD: u32 = 13;

/// The header of `NXM_NX_COOKIE` without its mask bit and length.
const COOKIE: [u8; 3] = [0, 1, 30 << 1];

/// The match of Nicira's flow-mod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NxMatch {
    /// The cookies of the flows to change or delete.
    pub cookie: Option<Masked<u64>>,
    /// The packets.
    pub packets: Match,
}

impl NxMatch {
    /// Decodes match fields.
    ///
    /// # Errors
    /// The rule that the bytes break, also for an unknown field and for one without its prerequisite.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let (mut from, mut packets, mut cookie) = (Body(bytes), Vec::new(), None);
        while !from.0.is_empty() {
            let head = from.array("a match field")?;
            let [a, b, field, length] = head;
            let mut value = Body(from.take(length.into())?);
            // `NXM_NX_MPLS_TTL` has the same number and one byte.
            if [a, b, field & !1] != COOKIE || length < 8 {
                packets.extend(head);
                packets.extend_from_slice(value.0);
                continue;
            }
            let mask = |value: &mut Body<'_>| {
                if field & 1 == 0 { Ok(None) } else { value.u64().map(Some) }
            };
            let found = Masked { value: value.u64()?, mask: mask(&mut value)? };
            value.end(1)?;
            if cookie.replace(found).is_some()
                || found.mask.is_some_and(|it| found.value & !it != 0)
            {
                return Err(Fault("one cookie, in its mask"));
            }
        }
        let packets = fields(&packets)?;
        match missing_prerequisite(&packets) {
            None => Ok(Self { cookie, packets }),
            Some(_) => Err(Fault("match fields with their prerequisites")),
        }
    }

    /// Encodes match fields.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = self.packets.to_bytes().to_vec();
        if let Some(Masked { value, mask }) = self.cookie {
            to.extend(COOKIE.map(|byte| byte | u8::from(mask.is_some() && byte == 30 << 1)));
            to.push(if mask.is_some() { 16 } else { 8 });
            to.extend(value.to_be_bytes());
            to.extend(mask.iter().flat_map(|mask| mask.to_be_bytes()));
        }
        to
    }
}

/// Nicira's flow-mod. Rosemary's kernel sends none: it checks the flow-mods of the specification only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NxFlowMod {
    /// The cookie of an added or modified flow.
    pub cookie: u64,
    /// The table, if the connection was switched to tables in commands; else 0.
    pub table_id: u8,
    /// The command.
    pub command: FlowModCommand,
    /// Idle timeout, in seconds; 0 for none.
    pub idle_timeout: u16,
    /// Hard timeout, in seconds; 0 for none.
    pub hard_timeout: u16,
    /// The priority.
    pub priority: u16,
    /// Id of a buffered packet.
    pub buffer_id: Option<u32>,
    /// Of a delete: the port that the flows output to; [`PortNo::ANY`] for all.
    pub out_port: PortNo,
    /// Flags of OpenFlow 1.0.
    pub flags: FlowModFlags,
    /// The match.
    pub matching: NxMatch,
    /// The actions.
    pub actions: Vec<Action>,
}

impl NxFlowMod {
    /// Decodes a whole message.
    ///
    /// # Errors
    /// The rule that the bytes break, also for another message.
    pub fn decode(message: &[u8]) -> Result<Self, Fault> {
        let version = message.first().and_then(|version| Version::from_wire(*version).ok());
        let version = version.ok_or(Fault("a version of OpenFlow"))?;
        let mut from = Body(body(message, FLOW_MOD)?);
        let cookie = from.u64()?;
        let (table_id, command) = (from.u8()?, from.u8()?);
        let command =
            FlowModCommand::from_wire(command.into(), 0).map_err(|_| Fault("a command"))?;
        let (idle_timeout, hard_timeout, priority) = (from.u16()?, from.u16()?, from.u16()?);
        let (buffer_id, out_port, flags) = (from.u32()?, from.u16()?, from.u16()?);
        let flags =
            FlowModFlags::from_v1_0(flags, 0).map_err(|_| Fault("flags of OpenFlow 1.0"))?;
        let size = usize::from(from.u16()?);
        from.zeros(6)?;
        let matching = NxMatch::decode(from.take(size)?)?;
        from.zeros(size.next_multiple_of(8) - size)?;
        let actions = nested::read(version, from.0, super::DEEPEST + 1)?;
        Ok(Self {
            cookie,
            table_id,
            command,
            idle_timeout,
            hard_timeout,
            priority,
            buffer_id: (buffer_id != u32::MAX).then_some(buffer_id),
            out_port: port_from_wire(out_port),
            flags,
            matching,
            actions,
        })
    }

    /// Encodes the message for a version; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] for an action or a port that the version or the message cannot express,
    /// [`EncodeError::NoRoom`] if `out` is too small, [`EncodeError::TooLong`] if no message can hold it.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let field = "a port of more than 16 bits";
        let out_port =
            port_to_wire(self.out_port).ok_or(EncodeError::Unsupported { field, version })?;
        let matching = self.matching.encode();
        let size = u16::try_from(matching.len()).map_err(|_| EncodeError::TooLong {
            field: "nx_match",
            size: matching.len(),
            max: 0xffff,
        })?;
        let mut to = FLOW_MOD.to_be_bytes().to_vec();
        to.extend(self.cookie.to_be_bytes());
        to.extend([self.table_id, self.command.wire()]);
        for number in [self.idle_timeout, self.hard_timeout, self.priority] {
            to.extend(number.to_be_bytes());
        }
        to.extend(self.buffer_id.unwrap_or(u32::MAX).to_be_bytes());
        for number in [out_port, self.flags.to_v1_0()?, size, 0, 0, 0] {
            to.extend(number.to_be_bytes());
        }
        to.extend_from_slice(&matching);
        to.resize(to.len() + matching.len().next_multiple_of(8) - matching.len(), 0);
        for action in &self.actions {
            if let Action::Nicira(nicira) = action {
                nicira.encode(version)?;
            }
        }
        nested::write(version, &self.actions, &mut to)?;
        Experimenter { experimenter: NICIRA, data: &to }.encode(version, xid, out)
    }
}
