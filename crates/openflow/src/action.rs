//! Version-independent actions on packets.
//!
//! OpenFlow 1.3.5 §7.2.5, OpenFlow 1.0.2 §5.2.4. [`Action::SetField`] sets a header field in every
//! version; OpenFlow 1.0 encodes it as one of its specific actions.

use crate::matching::Field;
use crate::wire::List;
use crate::{EncodeError, PortNo, Version, Writer, v1_0, v1_3};

/// An action on a packet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Action {
    /// Outputs the packet to a port.
    Output {
        /// Output port.
        port: PortNo,
        /// Maximum number of bytes to send if `port` is the controller; [`Action::NO_BUFFER`] means
        /// all.
        max_len: u16,
    },
    /// Outputs the packet to a queue of a port. OpenFlow 1.0 only: later versions set the queue
    /// first and then output.
    Enqueue {
        /// Output port.
        port: PortNo,
        /// Number of the queue at that port.
        queue_id: u32,
    },
    /// Sets a header field. The field has no mask, unless its class is not the specification's.
    ///
    /// For `VlanVid`, OpenFlow 1.0 adds a tag if there is none, while 1.3 requires one.
    SetField(Field),
    /// Sets the source port of the transport header. OpenFlow 1.0 only.
    SetTpSrc(u16),
    /// Sets the destination port of the transport header. OpenFlow 1.0 only.
    SetTpDst(u16),
    /// Pushes a VLAN tag of this ethertype, `0x8100` or `0x88a8`.
    PushVlan(u16),
    /// Pops the outer VLAN tag.
    PopVlan,
    /// Pushes an MPLS label of this ethertype, `0x8847` or `0x8848`.
    PushMpls(u16),
    /// Pops the outer MPLS label; the argument is the ethertype below it.
    PopMpls(u16),
    /// Pushes a PBB service tag of this ethertype.
    PushPbb(u16),
    /// Pops the PBB service tag.
    PopPbb,
    /// Sets the queue that outputs use.
    SetQueue(u32),
    /// Processes the packet with a group.
    Group(u32),
    /// Sets the IP TTL or hop limit.
    SetNwTtl(u8),
    /// Decrements the IP TTL or hop limit.
    DecNwTtl,
    /// Sets the MPLS TTL.
    SetMplsTtl(u8),
    /// Decrements the MPLS TTL.
    DecMplsTtl,
    /// Copies the TTL outwards.
    CopyTtlOut,
    /// Copies the TTL inwards.
    CopyTtlIn,
    /// Experimenter-defined: the raw bytes after the id.
    Experimenter {
        /// Experimenter id.
        experimenter: u32,
        /// Data; encoding pads the action with zeros to a multiple of 8 bytes.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
        data: Box<[u8]>,
    },
    /// A type that the version does not define, as raw bytes.
    Unknown {
        /// The type.
        kind: u16,
        /// The bytes after the element's header.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
        body: Box<[u8]>,
    },
}

impl Action {
    /// `max_len` that sends the whole packet and buffers none of it (`OFPCML_NO_BUFFER`).
    pub const NO_BUFFER: u16 = 0xffff;

    /// Outputs the packet to `port`; to the controller, without truncation.
    #[inline]
    pub fn output(port: PortNo) -> Self {
        Self::Output { port, max_len: Self::NO_BUFFER }
    }

    /// Sets a header field.
    #[inline]
    pub fn set_field(field: Field) -> Self {
        Self::SetField(field)
    }

    /// Writes the action in a version's format.
    #[inline]
    pub(crate) fn write(&self, version: Version, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        match version {
            Version::V1_0 => v1_0::convert::write_action(self, to),
            Version::V1_3 => v1_3::convert::write_action(self, to),
        }
    }
}

/// A list of actions: a slice of the caller, or the actions of a decoded message.
///
/// A slice or array of [`Action`]s converts with `into()`.
#[derive(Clone, Copy)]
pub struct Actions<'a> {
    repr: Repr<'a>,
}

#[derive(Clone, Copy)]
enum Repr<'a> {
    Slice(&'a [Action]),
    V1_0(List<'a, v1_0::Action<'a>>),
    V1_3(List<'a, v1_3::Action<'a>>),
}

impl Default for Actions<'_> {
    #[inline]
    fn default() -> Self {
        Self { repr: Repr::Slice(&[]) }
    }
}

impl<'a> From<&'a [Action]> for Actions<'a> {
    #[inline]
    fn from(actions: &'a [Action]) -> Self {
        Self { repr: Repr::Slice(actions) }
    }
}

impl<'a, const N: usize> From<&'a [Action; N]> for Actions<'a> {
    #[inline]
    fn from(actions: &'a [Action; N]) -> Self {
        Self { repr: Repr::Slice(actions) }
    }
}

impl<'a> From<&'a Vec<Action>> for Actions<'a> {
    fn from(actions: &'a Vec<Action>) -> Self {
        Self { repr: Repr::Slice(actions) }
    }
}

impl<'a> From<List<'a, v1_0::Action<'a>>> for Actions<'a> {
    fn from(actions: List<'a, v1_0::Action<'a>>) -> Self {
        Self { repr: Repr::V1_0(actions) }
    }
}

impl<'a> From<List<'a, v1_3::Action<'a>>> for Actions<'a> {
    fn from(actions: List<'a, v1_3::Action<'a>>) -> Self {
        Self { repr: Repr::V1_3(actions) }
    }
}

impl<'a> Actions<'a> {
    /// Returns the actions in order.
    pub fn iter(&self) -> impl Iterator<Item = Action> + use<'a> {
        let (slice, old, new) = match self.repr {
            Repr::Slice(slice) => (slice, List::default(), List::default()),
            Repr::V1_0(list) => (&[][..], list, List::default()),
            Repr::V1_3(list) => (&[][..], List::default(), list),
        };
        slice
            .iter()
            .cloned()
            .chain(old.iter().map(|action| v1_0::convert::read_action(&action)))
            .chain(new.iter().map(|action| v1_3::convert::read_action(&action)))
    }

    /// Whether all actions are outputs.
    #[inline]
    pub fn only_output(&self) -> bool {
        self.only_output_to(|_| true)
    }

    /// Whether all actions are outputs to ports accepted by `allows`.
    #[inline]
    pub fn only_output_to(&self, allows: impl Fn(PortNo) -> bool) -> bool {
        let is_allowed = |it: &Action| matches!(it, Action::Output { port, .. } if allows(*port));
        let allowed = match self.repr {
            Repr::Slice(slice) => Some(slice.iter().all(is_allowed)),
            Repr::V1_0(list) => {
                list.received().map(|bytes| are_outputs::<8>(bytes, |it| allows(port_1_0(*it))))
            }
            Repr::V1_3(list) => {
                list.received().map(|bytes| are_outputs::<16>(bytes, |it| allows(port_1_3(it))))
            }
        };
        allowed.unwrap_or_else(|| self.iter().all(|it| is_allowed(&it)))
    }

    /// Returns the port, if the actions are a slice of one output of whole packets.
    #[inline]
    pub(crate) fn single_output(&self) -> Option<PortNo> {
        match self.repr {
            Repr::Slice([Action::Output { port, max_len: Action::NO_BUFFER }]) => Some(*port),
            _ => None,
        }
    }

    /// Whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        match self.repr {
            Repr::Slice(slice) => slice.is_empty(),
            Repr::V1_0(list) => list.is_empty(),
            Repr::V1_3(list) => list.is_empty(),
        }
    }

    /// Whether an action refers to a group.
    #[inline]
    pub fn name_a_group(&self) -> bool {
        match self.repr {
            Repr::Slice(slice) => slice.iter().any(|action| matches!(action, Action::Group(_))),
            Repr::V1_0(_) => false, // OpenFlow 1.0 has no groups
            Repr::V1_3(list) => list.iter().any(|action| matches!(action, v1_3::Action::Group(_))),
        }
    }

    /// Writes the actions in a version's format.
    #[inline]
    pub(crate) fn write(&self, version: Version, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        if let Repr::Slice(slice) = self.repr {
            return slice.iter().try_for_each(|action| action.write(version, to));
        }
        self.iter().try_for_each(|action| action.write(version, to))
    }
}

/// Whether the bytes are elements of type 0 with `SIZE` bytes, each accepted by `allows`, and
/// nothing else.
#[inline]
fn are_outputs<const SIZE: usize>(bytes: &[u8], allows: impl Fn(&[u8; SIZE]) -> bool) -> bool {
    let (outputs, rest) = bytes.as_chunks::<SIZE>();
    let is_output = |output: &[u8; SIZE]| output[..3] == [0; 3] && usize::from(output[3]) == SIZE;
    rest.is_empty() && outputs.iter().all(|output| is_output(output) && allows(output))
}

/// Returns the port of an output (`ofp_action_output`), OpenFlow 1.0.2 §5.2.4.
#[inline]
fn port_1_0([.., high, low, _, _]: [u8; 8]) -> PortNo {
    v1_0::port_from_wire(u16::from_be_bytes([high, low]))
}

/// Returns the port of an output, OpenFlow 1.3.5 §7.2.5.
#[inline]
fn port_1_3([_, _, _, _, a, b, c, d, ..]: &[u8; 16]) -> PortNo {
    PortNo(u32::from_be_bytes([*a, *b, *c, *d]))
}

impl PartialEq for Actions<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}
impl Eq for Actions<'_> {}

impl core::fmt::Debug for Actions<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
