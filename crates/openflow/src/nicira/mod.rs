//! The extensions of Open vSwitch under Nicira's experimenter id: actions, match fields and messages.
//!
//! Source: Open vSwitch, `include/openflow/nicira-ext.h`, `lib/ofp-actions.c` and `include/openvswitch/meta-flow.h`. The types are
//! independent of the OpenFlow version; encoding for a version that lacks an action is an error.
//!
//! An action is an experimenter's (in OpenFlow 1.0 a vendor's) action. The numbers are the subtypes:
//!
//! ```text
//!  0        2     4            8         10
//! +--------+-----+------------+---------+------------------+
//! | 0xffff | len | 0x00002320 | subtype | as the file says |   len is a multiple of 8, padded with zeros
//! +--------+-----+------------+---------+------------------+
//! ```
//!
//! | file | actions |
//! | --- | --- |
//! | `registers.rs` | move 6, load 7, `output_reg` 15 and 32, push 27, pop 28, `load_field` 33, `check_pkt_larger` 49, `delete_field` 50 |
//! | `lookup.rs` | resubmit 1, note 8, `resubmit_table` 14 and 44, exit 17, `fin_timeout` 19, `write_metadata` 22, conjunction 34 |
//! | `plain.rs` | counterparts of standard actions: 2, 4, 5, 9, 18, 21, 23 to 26, 30, 31, 39, 40, 48 |
//! | `tracking.rs` | ct 35, nat 36, clone 42, `ct_clear` 43 |
//! | `spread.rs` | multipath 10, bundle 12, `bundle_load` 13 |
//! | `controller.rs` | controller 20, controller2 37 |
//! | `learn.rs` | learn 16, learn2 45 |
//!
//! `field.rs` and `table.rs` have the fields, `packet_in.rs` the message `NXT_PACKET_IN2`, and `flow_mod.rs` `NXT_FLOW_MOD`.
//!
//! Decoding is strict: an action with a wrong length, padding, reserved bit, field or value remains an
//! [`Action::Experimenter`], and so does an unknown subtype. Not decoded are `sample` (29, 38, 41, 51), `encap` (46) and
//! `decap` (47). Actions that contain actions are decoded to a depth of [`DEEPEST`].

mod body;
mod controller;
mod display;
mod fault;
mod field;
mod flow_mod;
mod learn;
mod lookup;
mod nested;
mod packet_in;
mod plain;
mod registers;
mod spread;
mod table;
mod tracking;

use crate::{Action, EncodeError, Field, PortNo, Version, Writer};

use body::Body;

pub use controller::Controller2;
pub use fault::Fault;
pub use field::{FieldId, Prerequisite, Subfield, missing_prerequisite};
pub use flow_mod::{NxFlowMod, NxMatch};
pub use learn::{Learn, LearnDestination, LearnSource, LearnSpec};
pub use packet_in::{PacketIn2, PacketInFormat};
pub use spread::{Bundle, BundleAlgorithm, HashFields, Multipath, MultipathAlgorithm};
pub use tracking::{Ct, CtZone, Nat, NatRange};

pub(crate) use field::display as display_field;

/// The experimenter id of Nicira, which Open vSwitch uses.
pub const NICIRA: u32 = 0x2320;

/// The most actions inside of each other that are decoded.
pub const DEEPEST: usize = 4;

/// `table` of a resubmit that stays in the present table.
pub const SAME_TABLE: u8 = 0xff;

/// An action of Open vSwitch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NiciraAction {
    /// Looks the packet up again in the present table, as from this port.
    Resubmit {
        /// The in-port of the look-up; [`PortNo::IN_PORT`] leaves it.
        in_port: PortNo,
    },
    /// Looks the packet up in a table, and continues with the next action after the actions of the flow found there.
    ResubmitTable {
        /// The in-port of the look-up; [`PortNo::IN_PORT`] leaves it.
        in_port: PortNo,
        /// The table; [`SAME_TABLE`] is the present one.
        table: u8,
        /// Whether the look-up compares the addresses and ports of the tracked connection's first packet.
        ct: bool,
    },
    /// Sets the tunnel id, 32 bits.
    SetTunnel(u32),
    /// Sets the tunnel id, 64 bits.
    SetTunnel64(u64),
    /// Sets the queue that outputs use. OpenFlow 1.0 only.
    SetQueue(u32),
    /// Gives outputs the queue that they had at first.
    PopQueue,
    /// Copies bits of a field to another. Until OpenFlow 1.4; later [`Action::CopyField`].
    Move {
        /// The source.
        from: Subfield,
        /// The destination, with as many bits.
        to: Subfield,
    },
    /// Writes a number into at most 64 bits of a field. Until OpenFlow 1.4; later [`Action::SetField`].
    Load {
        /// The destination.
        to: Subfield,
        /// The number.
        value: u64,
    },
    /// Writes a field, or the bits of it that a mask has. Until OpenFlow 1.4; later [`Action::SetField`].
    LoadField(Field),
    /// Does nothing. The data is for people and programs that read flows; it is a multiple of 8 and 6 bytes.
    Note(Box<[u8]>),
    /// Writes the number of a link, chosen by a hash, into a field.
    Multipath(Multipath),
    /// Outputs to one of several ports, or writes its number into a field.
    Bundle(Bundle),
    /// Outputs to the port whose number a field has.
    OutputReg {
        /// Where the number is.
        from: Subfield,
        /// Maximum number of bytes to send if the port is the controller.
        max_len: u16,
    },
    /// Writes a flow.
    Learn(Box<Learn>),
    /// Ends the processing of the packet.
    Exit,
    /// Decrements the TTL or hop limit. OpenFlow 1.0 only.
    DecTtl,
    /// Decrements the TTL, and sends packets whose TTL is over to the controllers with these ids.
    DecTtlControllers(Vec<u16>),
    /// Shortens the timeouts of this flow when a TCP connection ends, in seconds; 0 leaves one.
    FinTimeout {
        /// The idle timeout.
        idle: u16,
        /// The hard timeout.
        hard: u16,
    },
    /// Sends the packet to the controller with an id.
    Controller {
        /// Maximum number of bytes to send.
        max_len: u16,
        /// The id of the controller's connection; 0 is that of all that have chosen none.
        controller_id: u16,
        /// The reason that the packet-in states.
        reason: u8,
    },
    /// Sends the packet to the controller, with data of the flow's.
    Controller2(Controller2),
    /// Writes the bits of the metadata that the mask has.
    WriteMetadata {
        /// The value.
        value: u64,
        /// The mask.
        mask: u64,
    },
    /// Pushes an MPLS label of this ethertype. OpenFlow 1.0 only.
    PushMpls(u16),
    /// Pops the outer MPLS label; the argument is the ethertype below it. OpenFlow 1.0 only.
    PopMpls(u16),
    /// Sets the MPLS TTL. OpenFlow 1.0 only.
    SetMplsTtl(u8),
    /// Decrements the MPLS TTL. OpenFlow 1.0 only.
    DecMplsTtl,
    /// Sets the MPLS label, 20 bits. OpenFlow 1.0 only.
    SetMplsLabel(u32),
    /// Sets the MPLS traffic class, 3 bits. OpenFlow 1.0 only.
    SetMplsTc(u8),
    /// Pushes bits of a field on the stack of the packet.
    Push(Subfield),
    /// Pops bits from the stack of the packet into a field.
    Pop(Subfield),
    /// Makes the flow one dimension of a conjunctive match.
    Conjunction {
        /// The number of the dimension, from 0 on.
        clause: u8,
        /// The number of dimensions, 2 to 64.
        n_clauses: u8,
        /// The conjunction, which a flow with `conj_id` names.
        id: u32,
    },
    /// Sends the packet through connection tracking.
    Ct(Ct),
    /// Translates addresses and ports. In [`Ct`] only.
    Nat(Nat),
    /// Removes the state of connection tracking from the packet.
    CtClear,
    /// Outputs the first bytes of the packet to a port.
    OutputTrunc {
        /// Output port.
        port: PortNo,
        /// Maximum number of bytes, at least 14.
        max_len: u32,
    },
    /// Processes the packet with a group. OpenFlow 1.0 only.
    Group(u32),
    /// Applies actions to a copy of the packet, so the packet itself keeps its fields.
    Clone(Vec<Action>),
    /// Decrements the TTL of the network service header. From OpenFlow 1.3 on.
    DecNshTtl,
    /// Writes a bit: whether the packet is longer than this.
    CheckPktLarger {
        /// The length, in bytes.
        pkt_len: u16,
        /// The bit.
        to: Subfield,
    },
    /// Removes a field of tunnel metadata.
    DeleteField(FieldId),
}

/// The first and the last version byte that have an action with this subtype.
fn versions(subtype: u16) -> (u8, u8) {
    match subtype {
        4 | 18 | 23..=26 | 30 | 31 | 40 => (1, 1),
        6 | 7 | 33 => (1, 5),
        48 => (4, u8::MAX),
        _ => (1, u8::MAX),
    }
}

fn has(version: Version, subtype: u16) -> bool {
    let (first, last) = versions(subtype);
    (first..=last).contains(&version.wire())
}

impl NiciraAction {
    /// Decodes an action from the bytes after the experimenter id.
    ///
    /// # Errors
    /// The rule that the bytes break, also for an unknown subtype and for one of another version.
    pub fn decode(version: Version, data: &[u8]) -> Result<Self, Fault> {
        Self::decode_within(version, data, DEEPEST)
    }

    /// Like [`decode`](Self::decode), in `DEEPEST - depth` other actions.
    fn decode_within(version: Version, data: &[u8], depth: usize) -> Result<Self, Fault> {
        if data.is_empty() || !data.len().is_multiple_of(8) {
            return Err(Fault("a length that is a multiple of 8"));
        }
        let mut from = Body(data);
        let subtype = from.u16()?;
        if !has(version, subtype) {
            return Err(Fault("an action of this version"));
        }
        match subtype {
            6 | 7 | 15 | 27 | 28 | 32 | 33 | 49 | 50 => registers::read(subtype, from),
            1 | 8 | 14 | 17 | 19 | 22 | 34 | 44 => lookup::read(subtype, from),
            2 | 4 | 5 | 9 | 18 | 21 | 23..=26 | 30 | 31 | 39 | 40 | 48 => {
                plain::read(subtype, from)
            }
            35 | 36 | 42 | 43 => tracking::read(subtype, version, from, depth),
            10 | 12 | 13 => spread::read(subtype, from),
            20 | 37 => controller::read(subtype, from),
            16 | 45 => Ok(Self::Learn(Box::new(Learn::read(subtype, from)?))),
            _ => Err(Fault("a known subtype")),
        }
    }

    /// Returns the bytes after the experimenter id. Whether the values fit is not checked.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] if the version does not have the action or one in it.
    fn unchecked(&self, version: Version) -> Result<Vec<u8>, EncodeError> {
        let mut to = Vec::new();
        let families = [
            registers::write,
            lookup::write,
            plain::write,
            spread::write,
            controller::write,
            learn::write,
        ];
        if !families.into_iter().any(|write| write(self, &mut to)) {
            tracking::write(self, version, &mut to)?;
        }
        let subtype = to.first_chunk().map_or(0, |it| u16::from_be_bytes(*it));
        if !has(version, subtype) {
            return Err(EncodeError::Unsupported { field: self.name(), version });
        }
        to.resize(to.len().next_multiple_of(8), 0);
        Ok(to)
    }

    /// Encodes the bytes after the experimenter id for a version.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] if the version does not have the action or one in it, [`EncodeError::Invalid`] if a value
    /// does not fit.
    pub fn encode(&self, version: Version) -> Result<Vec<u8>, EncodeError> {
        let body = self.unchecked(version)?;
        // One check for both directions: bytes that would not decode to this action are not sent.
        match Self::decode(version, &body) {
            Ok(decoded) if decoded == *self => Ok(body),
            Ok(_) => Err(EncodeError::Invalid { field: self.name(), expected: "values that fit" }),
            Err(Fault(expected)) => Err(EncodeError::Invalid { field: self.name(), expected }),
        }
    }

    /// Writes the whole action.
    pub(crate) fn write(&self, version: Version, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        write_body(&self.encode(version)?, to)
    }

    /// Writes the whole action inside of another one, which is checked as a whole.
    fn write_nested(&self, version: Version, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        write_body(&self.unchecked(version)?, to)
    }

    /// Returns the actions inside of this one.
    pub fn nested(&self) -> &[Action] {
        match self {
            Self::Ct(Ct { actions, .. }) | Self::Clone(actions) => actions,
            _ => &[],
        }
    }

    /// Returns the standard action with the same effect, if there is one.
    pub fn plain(&self) -> Option<Action> {
        plain::standard(self)
    }

    /// Returns the field that the action writes, itself and not by actions inside of it.
    pub fn destination(&self) -> Option<FieldId> {
        match self {
            Self::Move { to, .. }
            | Self::Load { to, .. }
            | Self::Pop(to)
            | Self::CheckPktLarger { to, .. }
            | Self::Multipath(Multipath { to, .. })
            | Self::Bundle(Bundle { to: Some(to), .. }) => Some(to.field),
            Self::LoadField(field) => FieldId::of_field(field).map(|(id, ..)| id),
            Self::Learn(learn) => learn.result.map(|result| result.field),
            Self::DeleteField(field) => Some(*field),
            _ => None,
        }
    }
}

/// Writes an action with these bytes after the experimenter id.
fn write_body(body: &[u8], to: &mut Writer<'_>) -> Result<(), EncodeError> {
    let size = body.len() + 8;
    let len = u16::try_from(size).map_err(|_| EncodeError::TooLong {
        field: "action",
        size,
        max: 0xffff,
    })?;
    to.u16(0xffff);
    to.u16(len);
    to.u32(NICIRA);
    to.bytes(body);
    Ok(())
}

impl From<NiciraAction> for Action {
    fn from(action: NiciraAction) -> Self {
        Self::Nicira(Box::new(action))
    }
}

/// Returns an experimenter's action: decoded if it is one of Open vSwitch's.
pub(crate) fn action(version: Version, experimenter: u32, data: &[u8]) -> Action {
    action_within(version, experimenter, data, DEEPEST)
}

fn action_within(version: Version, experimenter: u32, data: &[u8], depth: usize) -> Action {
    let decode = |()| NiciraAction::decode_within(version, data, depth).ok();
    match Some(()).filter(|()| experimenter == NICIRA).and_then(decode) {
        Some(action) => action.into(),
        None => Action::Experimenter { experimenter, data: data.into() },
    }
}
