//! The actions that write a flow: `learn` and `learn2`.
//!
//! Offsets are from the subtype on, which has bytes 0 and 1.
//!
//! ```text
//!  learn 16   2 idle  4 hard  6 priority  8 cookie (8)  16 flags  18 table  19 padding  20 fin idle  22 fin hard
//!             24 specs, padding
//!  learn2 45  the same up to 24, then  24 limit (4)  28 offset of the result  30 padding (2)
//!             32 header of the result's field with flag 4, specs, padding
//!
//!  flags      1 send_flow_rem   2 delete_learned   4 write the result (learn2)
//!
//!  spec       0 bit 13: the source is a number; bits 11 and 12: destination 0 match, 1 load, 2 output; bits 0 to 9: n_bits
//!             2 source: header (4), offset (2); or the number, in 2 bytes for each 16 bits
//!               destination, but of an output: header (4), offset (2)
//! ```
//!
//! A spec of zeros ends the list.

use super::NiciraAction;
use super::body::Body;
use super::fault::Fault;
use super::field::{FieldId, Subfield};

/// Writes a flow when a packet comes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Learn {
    /// Idle timeout of the flow, in seconds.
    pub idle_timeout: u16,
    /// Hard timeout of the flow, in seconds.
    pub hard_timeout: u16,
    /// Priority of the flow.
    pub priority: u16,
    /// Cookie of the flow.
    pub cookie: u64,
    /// Table of the flow, below 255.
    pub table: u8,
    /// Idle timeout after the end of a TCP connection, in seconds; 0 for none.
    pub fin_idle_timeout: u16,
    /// Hard timeout after the end of a TCP connection, in seconds; 0 for none.
    pub fin_hard_timeout: u16,
    /// Whether the switch reports the end of the flow.
    pub send_flow_rem: bool,
    /// Whether the flow goes with the flow that has this action.
    pub delete_learned: bool,
    /// Most flows with this cookie and table; 0 for no limit.
    pub limit: u32,
    /// The bit that says whether a flow was written.
    pub result: Option<Subfield>,
    /// Match and actions of the flow.
    pub specs: Vec<LearnSpec>,
}

/// One condition or action of a learned flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LearnSpec {
    /// Number of bits, 1 to 1023, of a number at most 128.
    pub n_bits: u16,
    /// Where the value comes from.
    pub from: LearnSource,
    /// Where it goes.
    pub to: LearnDestination,
}

/// The value of a [`LearnSpec`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LearnSource {
    /// Bits of a field of the packet.
    Field {
        /// The field.
        field: FieldId,
        /// The lowest bit.
        offset: u16,
    },
    /// A number.
    Number(u128),
}

/// The use of the value of a [`LearnSpec`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LearnDestination {
    /// The flow matches it.
    Match {
        /// The field.
        field: FieldId,
        /// The lowest bit.
        offset: u16,
    },
    /// The flow writes it.
    Load {
        /// The field.
        field: FieldId,
        /// The lowest bit.
        offset: u16,
    },
    /// The flow outputs to the port with this number; not of a [`LearnSource::Number`].
    Output,
}

const IS_NUMBER: u16 = 1 << 13;
const DESTINATION: u16 = 3 << 11;
const LOAD: u16 = 1 << 11;
const OUTPUT: u16 = 2 << 11;
const N_BITS: u16 = 0x3ff;

const SEND_FLOW_REM: u16 = 1;
const DELETE_LEARNED: u16 = 2;
const WRITE_RESULT: u16 = 4;

impl Learn {
    pub(super) fn read(subtype: u16, mut from: Body<'_>) -> Result<Self, Fault> {
        let is_second = subtype == 45;
        let mut learn = Self {
            idle_timeout: from.u16()?,
            hard_timeout: from.u16()?,
            priority: from.u16()?,
            cookie: from.u64()?,
            ..Self::default()
        };
        let flags = from.u16()?;
        learn.table = from.u8()?;
        from.zeros(1)?;
        (learn.fin_idle_timeout, learn.fin_hard_timeout) = (from.u16()?, from.u16()?);
        let known = SEND_FLOW_REM | DELETE_LEARNED | if is_second { WRITE_RESULT } else { 0 };
        if flags & !known != 0 || learn.table == 0xff {
            return Err(Fault("flags of learn, and a table below 255"));
        }
        learn.send_flow_rem = flags & SEND_FLOW_REM != 0;
        learn.delete_learned = flags & DELETE_LEARNED != 0;
        if is_second {
            learn.limit = from.u32()?;
            let offset = from.u16()?;
            from.zeros(2)?;
            if flags & WRITE_RESULT != 0 {
                let bit = Subfield { field: FieldId::read(&mut from)?, offset, n_bits: 1 };
                learn.result = Some(bit.checked()?);
            } else if offset != 0 {
                return Err(Fault("the offset of the result only with a result"));
            }
            // Without both, it is the first form.
            if learn.result.is_some_and(|it| !it.field.is_writable())
                || learn.limit == 0 && learn.result.is_none()
            {
                return Err(Fault("learn2 with a limit or a result that can be written"));
            }
        }
        while from.0.first_chunk().is_some_and(|head: &[u8; 2]| *head != [0; 2]) {
            learn.specs.push(LearnSpec::read(&mut from)?);
        }
        from.end(8)?;
        Ok(learn)
    }

    fn write(&self, to: &mut Vec<u8>) {
        let is_second = self.limit != 0 || self.result.is_some();
        let flags = (u16::from(self.send_flow_rem) * SEND_FLOW_REM)
            | (u16::from(self.delete_learned) * DELETE_LEARNED)
            | (u16::from(self.result.is_some()) * WRITE_RESULT);
        let numbers = |to: &mut Vec<u8>, numbers: &[u16]| {
            for number in numbers {
                to.extend(number.to_be_bytes());
            }
        };
        let subtype = if is_second { 45 } else { 16 };
        numbers(to, &[subtype, self.idle_timeout, self.hard_timeout, self.priority]);
        to.extend(self.cookie.to_be_bytes());
        numbers(to, &[flags, u16::from(self.table) << 8]);
        numbers(to, &[self.fin_idle_timeout, self.fin_hard_timeout]);
        if is_second {
            to.extend(self.limit.to_be_bytes());
            numbers(to, &[self.result.map_or(0, |bit| bit.offset), 0]);
            if let Some(bit) = self.result {
                bit.field.write(to);
            }
        }
        self.specs.iter().for_each(|spec| spec.write(to));
    }
}

impl LearnSpec {
    fn read(from: &mut Body<'_>) -> Result<Self, Fault> {
        let head = from.u16()?;
        let n_bits = head & N_BITS;
        if head & !(IS_NUMBER | DESTINATION | N_BITS) != 0 || n_bits == 0 {
            return Err(Fault("a spec with at least one bit"));
        }
        let source = if head & IS_NUMBER == 0 {
            let (field, offset) = bits(n_bits, from)?;
            LearnSource::Field { field, offset }
        } else {
            LearnSource::Number(number(n_bits, from)?)
        };
        let to = match (head & DESTINATION, head & IS_NUMBER) {
            (0, _) => {
                let (field, offset) = bits(n_bits, from)?;
                LearnDestination::Match { field, offset }
            }
            (LOAD, _) => {
                let (field, offset) = bits(n_bits, from)?;
                if !field.is_writable() {
                    return Err(Fault("a field that can be written"));
                }
                LearnDestination::Load { field, offset }
            }
            (OUTPUT, 0) => LearnDestination::Output,
            _ => return Err(Fault("a destination of a spec")),
        };
        Ok(Self { n_bits, from: source, to })
    }

    fn write(&self, to: &mut Vec<u8>) {
        let bits = |to: &mut Vec<u8>, field: FieldId, offset: u16| {
            field.write(to);
            to.extend(offset.to_be_bytes());
        };
        let kind = match self.to {
            LearnDestination::Match { .. } => 0,
            LearnDestination::Load { .. } => LOAD,
            LearnDestination::Output => OUTPUT,
        };
        let is_number = matches!(self.from, LearnSource::Number(_));
        let head = kind | (u16::from(is_number) * IS_NUMBER) | self.n_bits & N_BITS;
        to.extend(head.to_be_bytes());
        match self.from {
            LearnSource::Field { field, offset } => bits(to, field, offset),
            LearnSource::Number(number) => {
                let all = number.to_be_bytes();
                let size = 2 * usize::from(self.n_bits.div_ceil(16));
                to.extend(all.get(all.len().saturating_sub(size)..).unwrap_or_default());
            }
        }
        if let LearnDestination::Match { field, offset }
        | LearnDestination::Load { field, offset } = self.to
        {
            bits(to, field, offset);
        }
    }
}

/// Reads where bits of a field are.
fn bits(n_bits: u16, from: &mut Body<'_>) -> Result<(FieldId, u16), Fault> {
    let field = FieldId::read_short(from)?;
    let offset = from.u16()?;
    Subfield { field, offset, n_bits }.checked()?;
    Ok((field, offset))
}

/// Reads a number of this many bits.
fn number(n_bits: u16, from: &mut Body<'_>) -> Result<u128, Fault> {
    if n_bits > 128 {
        return Err(Fault("a number of at most 128 bits"));
    }
    let bytes = from.take(2 * usize::from(n_bits.div_ceil(16)))?;
    let number = bytes.iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
    if n_bits < 128 && number >> n_bits != 0 {
        return Err(Fault("a number that fits in the bits"));
    }
    Ok(number)
}

/// Writes an action of this file. Returns `false` for another one.
pub(super) fn write(action: &NiciraAction, to: &mut Vec<u8>) -> bool {
    let NiciraAction::Learn(learn) = action else { return false };
    learn.write(to);
    true
}
