//! Actions that send the packet to the controller, and properties.
//!
//! Offsets are from the subtype on, which has bytes 0 and 1.
//!
//! ```text
//!  controller 20   2 max_len   4 controller id   6 reason   7 padding
//!  controller2 37  2 padding (6)   8 properties
//!
//!  property        0 type   2 length, its padding aside   4 value, padded to a multiple of 8
//!  0 max_len (2) and padding (2)   1 controller id, the same   2 reason (1)   3 userdata   4 pause (0)   5 meter (4)
//! ```

use super::NiciraAction;
use super::body::Body;
use super::fault::Fault;

/// `max_len` of the whole packet.
const WHOLE: u16 = 0xffff;

/// The reason of a packet-in that an action sends (`OFPR_ACTION`).
const ACTION: u8 = 1;

/// Sends the packet to the controller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Controller2 {
    /// Maximum number of bytes to send.
    pub max_len: u16,
    /// The id of the controller's connection; 0 is that of all that have chosen none.
    pub controller_id: u16,
    /// The reason that the packet-in states.
    pub reason: u8,
    /// Data that the packet-in has if the connection uses [`PacketIn2`](super::PacketIn2).
    pub userdata: Box<[u8]>,
    /// Whether processing stops until the controller resumes it.
    pub pause: bool,
    /// The meter that limits such packet-ins.
    pub meter: Option<u32>,
}

impl Default for Controller2 {
    /// Sends the whole packet, with the reason "action".
    fn default() -> Self {
        Self {
            max_len: WHOLE,
            controller_id: 0,
            reason: ACTION,
            userdata: Box::default(),
            pause: false,
            meter: None,
        }
    }
}

pub(super) fn read(subtype: u16, mut from: Body<'_>) -> Result<NiciraAction, Fault> {
    if subtype == 20 {
        let (max_len, controller_id, reason) = (from.u16()?, from.u16()?, from.u8()?);
        from.zeros(1)?;
        from.end(1)?;
        return Ok(NiciraAction::Controller { max_len, controller_id, reason });
    }
    from.zeros(6)?;
    let mut action = Controller2::default();
    properties(from, |kind, value| {
        match kind {
            0 | 1 => {
                let number = value.u16()?;
                value.zeros(2)?;
                if kind == 0 { action.max_len = number } else { action.controller_id = number }
            }
            2 => action.reason = value.u8()?,
            3 => action.userdata = std::mem::take(&mut value.0).into(),
            4 => action.pause = true,
            5 => action.meter = Some(value.u32()?),
            _ => return Err(Fault("a known property")),
        }
        Ok(())
    })?;
    Ok(NiciraAction::Controller2(action))
}

/// Reads properties, of which each type occurs at most once and in ascending order. `read` takes the type and the value of one,
/// and leaves no byte of the value.
pub(super) fn properties<'a>(
    mut from: Body<'a>,
    mut read: impl FnMut(u16, &mut Body<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut last = None;
    while !from.0.is_empty() {
        let (kind, mut value) = property(&mut from)?;
        if last >= Some(kind) {
            return Err(Fault("each property once, in ascending order"));
        }
        last = Some(kind);
        read(kind, &mut value)?;
        value.end(1)?;
    }
    Ok(())
}

/// Reads a property: its type and its value.
fn property<'a>(from: &mut Body<'a>) -> Result<(u16, Body<'a>), Fault> {
    let (kind, length) = (from.u16()?, usize::from(from.u16()?));
    let size = length.checked_sub(4).ok_or(Fault("a property of at least 4 bytes"))?;
    let value = from.take(size)?;
    from.zeros(length.next_multiple_of(8) - length)?;
    Ok((kind, Body(value)))
}

/// Appends a property.
pub(super) fn put_property(kind: u16, value: &[u8], to: &mut Vec<u8>) {
    let length = value.len() + 4;
    to.extend(kind.to_be_bytes());
    to.extend(u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
    to.extend_from_slice(value);
    to.resize(to.len() + length.next_multiple_of(8) - length, 0);
}

/// A number of 16 bits as the value of a property.
fn padded(number: u16) -> [u8; 4] {
    (u32::from(number) << 16).to_be_bytes()
}

/// Writes an action of this file. Returns `false` for another one.
pub(super) fn write(action: &NiciraAction, to: &mut Vec<u8>) -> bool {
    match action {
        NiciraAction::Controller { max_len, controller_id, reason } => {
            to.extend(20_u16.to_be_bytes());
            to.extend(max_len.to_be_bytes());
            to.extend(controller_id.to_be_bytes());
            to.push(*reason);
        }
        NiciraAction::Controller2(it) => {
            to.extend(37_u16.to_be_bytes());
            to.extend([0; 6]);
            if it.max_len != WHOLE {
                put_property(0, &padded(it.max_len), to);
            }
            if it.controller_id != 0 {
                put_property(1, &padded(it.controller_id), to);
            }
            if it.reason != ACTION {
                put_property(2, &[it.reason], to);
            }
            if !it.userdata.is_empty() {
                put_property(3, &it.userdata, to);
            }
            if it.pause {
                put_property(4, &[], to);
            }
            if let Some(meter) = it.meter {
                put_property(5, &meter.to_be_bytes(), to);
            }
        }
        _ => return false,
    }
    true
}
