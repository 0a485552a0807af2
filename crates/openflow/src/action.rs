//! Version-independent actions on packets.
//!
//! OpenFlow 1.3.5 §7.2.5, OpenFlow 1.0.2 §5.2.4, OpenFlow 1.5.1 §7.2.6. [`Action::SetField`] sets a header field in every
//! version; OpenFlow 1.0 and 1.1 encode it as one of their specific actions.

use crate::matching::Field;
use crate::nicira::NiciraAction;
use crate::v1_3::convert::{read_action, write_action};
use crate::v1_3::table::OxmId;
use crate::wire::{List, ListIter};
use crate::{EncodeError, PortNo, Version, Writer, v1_0, v1_1, v1_2, v1_3, v1_4, v1_5};

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
    /// Sets a header field. Before OpenFlow 1.5 the field has no mask, unless its class is not the specification's.
    ///
    /// For `VlanVid`, OpenFlow 1.0 adds a tag if there is none, while 1.3 requires one.
    SetField(Field),
    /// Sets the source port of the transport header. OpenFlow 1.0 and 1.1 only.
    SetTpSrc(u16),
    /// Sets the destination port of the transport header. OpenFlow 1.0 and 1.1 only.
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
    /// Copies bits of a field to another. From OpenFlow 1.5 on.
    CopyField {
        /// Number of bits to copy.
        n_bits: u16,
        /// The source.
        from: CopiedField,
        /// The destination.
        to: CopiedField,
    },
    /// Sends the packet through a meter. From OpenFlow 1.5 on; before, that is an instruction.
    Meter(u32),
    /// An action of Open vSwitch.
    Nicira(
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::display"))]
        Box<NiciraAction>,
    ),
    /// Experimenter-defined: the raw bytes after the id. A valid action of Open vSwitch is an [`Action::Nicira`].
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

/// Where [`Action::CopyField`] reads or writes. OpenFlow 1.5.1 §7.2.6.9.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CopiedField {
    /// The field.
    pub field: OxmId,
    /// The first bit in it.
    pub offset: u16,
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
            Version::V1_1 => write_action::<2>(self, to),
            Version::V1_2 => write_action::<3>(self, to),
            Version::V1_3 => write_action::<4>(self, to),
            Version::V1_4 => write_action::<5>(self, to),
            Version::V1_5 => write_action::<6>(self, to),
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
    V1_1(List<'a, v1_1::Action<'a>>),
    V1_2(List<'a, v1_2::Action<'a>>),
    V1_3(List<'a, v1_3::Action<'a>>),
    V1_4(List<'a, v1_4::Action<'a>>),
    V1_5(List<'a, v1_5::Action<'a>>),
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

/// Evaluates an expression with the list of any version from 1.1 on, and another with each other form.
macro_rules! later {
    ($repr:expr, { $($slice:pat => $value:expr,)* } $list:ident => $later:expr) => {
        match $repr {
            $($slice => $value,)*
            Repr::V1_1($list) => $later,
            Repr::V1_2($list) => $later,
            Repr::V1_3($list) => $later,
            Repr::V1_4($list) => $later,
            Repr::V1_5($list) => $later,
        }
    };
}

/// Makes the lists of a version convert.
macro_rules! of_version {
    ($($variant:ident($version:ident);)*) => {
        $(
            impl<'a> From<List<'a, $version::Action<'a>>> for Actions<'a> {
                fn from(actions: List<'a, $version::Action<'a>>) -> Self {
                    Self { repr: Repr::$variant(actions) }
                }
            }
        )*
    };
}
of_version! {
    V1_1(v1_1);
    V1_2(v1_2);
    V1_3(v1_3);
    V1_4(v1_4);
    V1_5(v1_5);
}

/// The actions of a list in order.
#[derive(Clone)]
enum Iter<'a> {
    Slice(core::slice::Iter<'a, Action>),
    V1_0(ListIter<'a, v1_0::Action<'a>>),
    V1_1(ListIter<'a, v1_1::Action<'a>>),
    V1_2(ListIter<'a, v1_2::Action<'a>>),
    V1_3(ListIter<'a, v1_3::Action<'a>>),
    V1_4(ListIter<'a, v1_4::Action<'a>>),
    V1_5(ListIter<'a, v1_5::Action<'a>>),
}

impl Iterator for Iter<'_> {
    type Item = Action;

    #[inline]
    fn next(&mut self) -> Option<Action> {
        Some(match self {
            Self::Slice(slice) => slice.next()?.clone(),
            Self::V1_0(list) => v1_0::convert::read_action(&list.next()?),
            Self::V1_1(list) => read_action(&list.next()?),
            Self::V1_2(list) => read_action(&list.next()?),
            Self::V1_3(list) => read_action(&list.next()?),
            Self::V1_4(list) => read_action(&list.next()?),
            Self::V1_5(list) => read_action(&list.next()?),
        })
    }
}

impl<'a> Actions<'a> {
    /// Returns the actions in order.
    pub fn iter(&self) -> impl Iterator<Item = Action> + use<'a> {
        match self.repr {
            Repr::Slice(slice) => Iter::Slice(slice.iter()),
            Repr::V1_0(list) => Iter::V1_0(list.iter()),
            Repr::V1_1(list) => Iter::V1_1(list.iter()),
            Repr::V1_2(list) => Iter::V1_2(list.iter()),
            Repr::V1_3(list) => Iter::V1_3(list.iter()),
            Repr::V1_4(list) => Iter::V1_4(list.iter()),
            Repr::V1_5(list) => Iter::V1_5(list.iter()),
        }
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
        let allowed = later!(self.repr, {
            Repr::Slice(slice) => Some(slice.iter().all(is_allowed)),
            Repr::V1_0(list) => {
                list.received().map(|bytes| are_outputs::<8>(bytes, |it| allows(port_1_0(*it))))
            },
        } list => {
            list.received().map(|bytes| are_outputs::<16>(bytes, |it| allows(port_1_3(it))))
        });
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
        later!(self.repr, {
            Repr::Slice(slice) => slice.is_empty(),
            Repr::V1_0(list) => list.is_empty(),
        } list => list.is_empty())
    }

    /// Whether an action refers to a group.
    #[inline]
    pub fn name_a_group(&self) -> bool {
        use crate::v1_3::action::Action as Wired;
        later!(self.repr, {
            Repr::Slice(slice) => slice.iter().any(|action| matches!(action, Action::Group(_))),
            Repr::V1_0(_) => false, // OpenFlow 1.0 has no groups
        } list => list.iter().any(|action| matches!(action, Wired::Group(_))))
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
