//! The messages `NXT_PACKET_IN2` (30) and `NXT_SET_PACKET_IN_FORMAT` (16).
//!
//! Offsets are from the experimenter id on. A property has the layout that `controller.rs` shows.
//!
//! ```text
//!  packet_in2     0 0x00002320   4 30   8 properties
//!  set_format     0 0x00002320   4 16   8 format: 0 of the specification, 1 NXT_PACKET_IN, 2 NXT_PACKET_IN2
//!
//!  0 packet   1 full length (4)   2 buffer id (4)   3 table (1)   4 cookie (4 padding, 8)   5 reason (1)
//!  6 fields, as OXMs   7 userdata   8 continuation (4 padding, data)
//! ```

use super::NICIRA;
use super::body::Body;
use super::controller::{properties, put_property};
use super::fault::Fault;
use super::field::FieldId;
use crate::oxm::Oxm;
use crate::wire::{List, WireFormat};
use crate::{EncodeError, Experimenter, Match, Reader, Version};

const PACKET_IN2: u32 = 30;
const SET_FORMAT: u32 = 16;

/// A packet-in with properties.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PacketIn2 {
    /// The packet, or the first bytes of it.
    pub packet: Box<[u8]>,
    /// The length of the whole packet, if `packet` is not.
    pub full_len: Option<u32>,
    /// Id of the buffered packet.
    pub buffer_id: Option<u32>,
    /// The table of the flow.
    pub table_id: u8,
    /// The cookie of the flow; `None` if no flow matched.
    pub cookie: Option<u64>,
    /// Why the switch sent it, as in [`PacketInReason`](crate::PacketInReason).
    pub reason: u8,
    /// In-port, registers, tunnel and metadata.
    pub fields: Match,
    /// The data of the action [`Controller2`](super::Controller2).
    pub userdata: Box<[u8]>,
    /// The state of a paused packet, which only the switch understands.
    pub continuation: Option<Box<[u8]>>,
}

impl PacketIn2 {
    /// Decodes a whole message of any version.
    ///
    /// # Errors
    /// The rule that the bytes break, also for another message.
    pub fn decode(message: &[u8]) -> Result<Self, Fault> {
        let mut found = Self::default();
        properties(Body(body(message, PACKET_IN2)?), |kind, value| {
            match kind {
                0 => found.packet = std::mem::take(&mut value.0).into(),
                1 => found.full_len = Some(value.u32()?),
                2 => found.buffer_id = Some(value.u32()?),
                3 => found.table_id = value.u8()?,
                4 => {
                    value.zeros(4)?;
                    found.cookie = Some(value.u64()?);
                }
                5 => found.reason = value.u8()?,
                6 => found.fields = fields(std::mem::take(&mut value.0))?,
                7 => found.userdata = std::mem::take(&mut value.0).into(),
                8 => {
                    value.zeros(4)?;
                    found.continuation = Some(std::mem::take(&mut value.0).into());
                }
                _ => return Err(Fault("a known property")),
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Encodes the message for a version; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`] if `out` is too small, [`EncodeError::TooLong`] if no message can hold it.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = PACKET_IN2.to_be_bytes().to_vec();
        let number = |kind, number: Option<u32>, to: &mut Vec<u8>| {
            if let Some(number) = number {
                put_property(kind, &number.to_be_bytes(), to);
            }
        };
        put_property(0, &self.packet, &mut to);
        number(1, self.full_len, &mut to);
        number(2, self.buffer_id, &mut to);
        put_property(3, &[self.table_id], &mut to);
        if let Some(cookie) = self.cookie {
            put_property(4, &[&[0; 4][..], &cookie.to_be_bytes()].concat(), &mut to);
        }
        put_property(5, &[self.reason], &mut to);
        put_property(6, &self.fields.to_bytes(), &mut to);
        if !self.userdata.is_empty() {
            put_property(7, &self.userdata, &mut to);
        }
        if let Some(state) = &self.continuation {
            put_property(8, &[&[0; 4][..], state].concat(), &mut to);
        }
        Experimenter { experimenter: NICIRA, data: &to }.encode(version, xid, out)
    }
}

/// The format of the packet-ins of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketInFormat {
    /// That of the specification.
    Standard,
    /// `NXT_PACKET_IN`, which this crate does not decode.
    Nxt,
    /// [`PacketIn2`].
    Nxt2,
}

impl PacketInFormat {
    /// Decodes a whole message `NXT_SET_PACKET_IN_FORMAT` of any version.
    ///
    /// # Errors
    /// The rule that the bytes break, also for another message.
    pub fn decode(message: &[u8]) -> Result<Self, Fault> {
        let mut from = Body(body(message, SET_FORMAT)?);
        let format = from.u32()?;
        from.end(1)?;
        match format {
            0 => Ok(Self::Standard),
            1 => Ok(Self::Nxt),
            2 => Ok(Self::Nxt2),
            _ => Err(Fault("a known format")),
        }
    }

    /// Encodes the message for a version; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`] if `out` is too small.
    pub fn encode(self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let format = match self {
            Self::Standard => 0_u32,
            Self::Nxt => 1,
            Self::Nxt2 => 2,
        };
        let data = [SET_FORMAT.to_be_bytes(), format.to_be_bytes()].concat();
        Experimenter { experimenter: NICIRA, data: &data }.encode(version, xid, out)
    }
}

/// Returns the bytes after the type of one of Nicira's messages.
pub(super) fn body(message: &[u8], kind: u32) -> Result<&[u8], Fault> {
    let Experimenter { experimenter, data } =
        Experimenter::decode(message).map_err(|_| Fault("an experimenter's message"))?;
    let found = data.split_first_chunk().filter(|_| experimenter == NICIRA);
    found
        .filter(|(found, _)| **found == kind.to_be_bytes())
        .map(|(_, body)| body)
        .ok_or(Fault("this message of Nicira's"))
}

/// Reads known fields only.
pub(super) fn fields(bytes: &[u8]) -> Result<Match, Fault> {
    let oxms: List<'_, Oxm<'_>> = List::read(&mut Reader::new(bytes, 0), "nx_match")
        .map_err(|_| Fault("whole match fields"))?;
    for oxm in oxms {
        let (id, value, mask) = FieldId::of_oxm(&oxm).ok_or(Fault("known match fields"))?;
        if mask.is_some_and(|mask| !id.is_maskable() || value & !mask != 0) {
            return Err(Fault("a mask only where a field has one, and the value in it"));
        }
    }
    Match::from_oxms(oxms, 0).map_err(|_| Fault("no match field twice"))
}
