//! The version-independent instructions of a flow entry.
//!
//! OpenFlow 1.3.5 §5.9, §7.2.4; 1.5.1 §5.5, §7.2.5. OpenFlow 1.0 has a list of actions instead.

use crate::action::Actions;
use crate::v1_3::action::Action as Wire;
use crate::v1_3::instruction::{self, Instruction as Wired};
use crate::v1_5::instruction::StatTrigger;
use crate::wire::{List, ListIter, Pad, WireFormat};
use crate::write::put;
use crate::{
    DecodeError, EncodeError, PortNo, Reader, Version, Writer, v1_1, v1_2, v1_3, v1_4, v1_5,
};

/// The instructions of a flow entry: at most one of each kind, executed in this order (OpenFlow
/// 1.3.5 §5.9).
///
/// OpenFlow 1.0 supports only `apply`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Instructions<'a> {
    /// Sends the packet through this meter. From OpenFlow 1.3 on. In 1.5 it is the first of the applied actions on the wire.
    pub meter: Option<u32>,
    /// Applies these actions immediately.
    pub apply: Actions<'a>,
    /// Empties the action set.
    pub clear: bool,
    /// Merges these actions into the action set.
    pub write: Actions<'a>,
    /// Writes metadata: value and mask.
    pub metadata: Option<(u64, u64)>,
    /// Continues in this table.
    pub goto_table: Option<u8>,
    /// Sends the entry's statistics when they reach thresholds. From OpenFlow 1.5 on.
    pub stat_trigger: Option<StatTrigger<'a>>,
    /// Experimenter and unknown instructions. Not in OpenFlow 1.0.
    pub others: OtherInstructions<'a>,
}

/// Instructions without a version-independent form: experimenter and unknown ones.
#[derive(Clone, Copy)]
pub struct OtherInstructions<'a> {
    /// All instructions of the entry; iteration skips those with a version-independent form.
    all: All<'a>,
}

#[derive(Clone, Copy)]
enum All<'a> {
    V1_1(List<'a, v1_1::Instruction<'a>>),
    V1_2(List<'a, v1_2::Instruction<'a>>),
    V1_3(List<'a, v1_3::Instruction<'a>>),
    V1_4(List<'a, v1_4::Instruction<'a>>),
    V1_5(List<'a, v1_5::Instruction<'a>>),
}

impl Default for OtherInstructions<'_> {
    #[inline]
    fn default() -> Self {
        Self { all: All::V1_3(List::default()) }
    }
}

/// The lists of a version become version-independent.
///
/// It is implemented for the version bytes 2 to 6, which are OpenFlow 1.1 to 1.5.
pub trait OfVersion<const V: u8> {
    /// Wraps actions of the version.
    fn actions<'a>(list: List<'a, v1_3::action::Action<'a, V>>) -> Actions<'a>;

    /// Wraps instructions of the version. Those with a version-independent form are skipped.
    fn other_instructions<'a>(list: List<'a, Wired<'a, V>>) -> OtherInstructions<'a>;
}

/// Implements [`OfVersion`] for each version.
#[derive(Debug)]
pub struct Lists;

/// The instructions of a list in order.
enum Iter<'a> {
    V1_1(ListIter<'a, v1_1::Instruction<'a>>),
    V1_2(ListIter<'a, v1_2::Instruction<'a>>),
    V1_3(ListIter<'a, v1_3::Instruction<'a>>),
    V1_4(ListIter<'a, v1_4::Instruction<'a>>),
    V1_5(ListIter<'a, v1_5::Instruction<'a>>),
}

macro_rules! of_version {
    ($($variant:ident = $v:literal;)*) => {
        $(
            impl OfVersion<$v> for Lists {
                #[inline]
                fn actions<'a>(list: List<'a, v1_3::action::Action<'a, $v>>) -> Actions<'a> {
                    list.into()
                }
                #[inline]
                fn other_instructions<'a>(list: List<'a, Wired<'a, $v>>) -> OtherInstructions<'a> {
                    OtherInstructions { all: All::$variant(list) }
                }
            }
        )*

        impl<'a> All<'a> {
            fn iter(self) -> Iter<'a> {
                match self {
                    $( Self::$variant(list) => Iter::$variant(list.iter()), )*
                }
            }

            fn is_empty(self) -> bool {
                match self {
                    $( Self::$variant(list) => list.is_empty(), )*
                }
            }
        }

        impl<'a> Iterator for Iter<'a> {
            type Item = v1_3::Instruction<'a>;

            /// Returns the next instruction without a version-independent form.
            fn next(&mut self) -> Option<v1_3::Instruction<'a>> {
                match self {
                    $( Self::$variant(list) => list.find_map(without_form), )*
                }
            }
        }
    };
}
of_version! {
    V1_1 = 2;
    V1_2 = 3;
    V1_3 = 4;
    V1_4 = 5;
    V1_5 = 6;
}

/// Returns an instruction that has no version-independent form.
fn without_form<const V: u8>(instruction: Wired<'_, V>) -> Option<v1_3::Instruction<'_>> {
    match instruction {
        Wired::Experimenter(it) => Some(Wired::Experimenter(it)),
        Wired::Unknown { kind, body } => Some(Wired::Unknown { kind, body }),
        _ => None,
    }
}

impl<'a> From<List<'a, v1_3::Instruction<'a>>> for OtherInstructions<'a> {
    /// Instructions that the specification defines are skipped.
    fn from(all: List<'a, v1_3::Instruction<'a>>) -> Self {
        Self { all: All::V1_3(all) }
    }
}

impl<'a> OtherInstructions<'a> {
    /// Iterates over the instructions in order.
    pub fn iter(&self) -> impl Iterator<Item = v1_3::Instruction<'a>> + use<'a> {
        self.all.iter()
    }

    /// Iterates over the experimenters whose instructions these are; an unknown instruction has none.
    pub fn experimenters(&self) -> impl Iterator<Item = Option<u32>> + use<'a> {
        self.iter().map(|instruction| match instruction {
            v1_3::Instruction::Experimenter(it) => Some(it.experimenter),
            _ => None,
        })
    }

    /// Whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() || self.iter().next().is_none()
    }
}

impl PartialEq for OtherInstructions<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}
impl Eq for OtherInstructions<'_> {}

impl core::fmt::Debug for OtherInstructions<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> Instructions<'a> {
    /// Reads the instructions of the version byte `V` up to the end of the message. `at` is a place in the message for errors.
    ///
    /// # Errors
    /// As of the list of the instructions, and as [`from_wire`](Self::from_wire).
    #[inline]
    pub(crate) fn read<const V: u8>(from: &mut Reader<'a>, at: usize) -> Result<Self, DecodeError>
    where
        Lists: OfVersion<V>,
    {
        // Nearly all flows have this instruction alone: it applies actions.
        if let [0, 4, high, low, _, _, _, _, actions @ ..] = from.peek()
            && usize::from(u16::from_be_bytes([*high, *low])) == from.left()
            && let Some(actions) = List::of_valid(actions)
        {
            from.rest();
            let (meter, actions) = split_meter::<V>(actions);
            return Ok(Self { meter, apply: Lists::actions(actions), ..Self::default() });
        }
        Self::from_wire::<V>(List::read(from, "flow_mod.instructions")?, at)
    }

    /// Converts the instructions of the version byte `V`.
    ///
    /// # Errors
    /// [`DecodeError::BadValue`] if one is repeated: the specification does not define its meaning.
    pub(crate) fn from_wire<const V: u8>(
        wire: List<'a, Wired<'a, V>>,
        at: usize,
    ) -> Result<Self, DecodeError>
    where
        Lists: OfVersion<V>,
    {
        let mut found = Self::default();
        let mut seen = 0_u8;
        for instruction in wire {
            let kind = instruction.kind();
            match instruction {
                Wired::GotoTable(goto) => found.goto_table = Some(goto.table_id),
                Wired::WriteMetadata(write) => {
                    found.metadata = Some((write.metadata, write.metadata_mask));
                }
                Wired::WriteActions(write) => found.write = Lists::actions(write.actions),
                Wired::ApplyActions(apply) => {
                    let (meter, actions) = split_meter::<V>(apply.actions);
                    found.meter = found.meter.or(meter);
                    found.apply = Lists::actions(actions);
                }
                Wired::ClearActions(_) => found.clear = true,
                Wired::Meter(meter) => found.meter = Some(meter),
                Wired::StatTrigger(trigger) => found.stat_trigger = Some(trigger),
                Wired::Experimenter(_) | Wired::Unknown { .. } => {
                    found.others = Lists::other_instructions(wire);
                    continue;
                }
            }
            let bit = 1_u8.checked_shl(kind.into()).unwrap_or(0);
            if seen & bit != 0 {
                return Err(DecodeError::BadValue {
                    field: "instruction.type",
                    offset: at,
                    found: kind.into(),
                    expected: "no instruction twice",
                });
            }
            seen |= bit;
        }
        Ok(found)
    }

    /// Returns the port, if the only instruction applies one output of whole packets.
    #[inline]
    pub(crate) fn only_output(&self) -> Option<PortNo> {
        let is_alone = self.meter.is_none()
            && !self.clear
            && self.write.is_empty()
            && self.metadata.is_none()
            && self.goto_table.is_none()
            && self.stat_trigger.is_none()
            && self.others.is_empty();
        self.apply.single_output().filter(|_| is_alone)
    }

    /// Writes the instructions for the version byte `V`.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] if the version cannot express one.
    #[inline]
    pub(crate) fn write_since_1_1<const V: u8>(
        &self,
        to: &mut Writer<'_>,
    ) -> Result<(), EncodeError> {
        let unsupported =
            |field| Err(EncodeError::Unsupported { field, version: Version::of::<V>() });
        if let Some(meter) = self.meter {
            match V {
                4..=5 => Wired::<V>::Meter(meter).write(to),
                6 => {}
                _ => return unsupported("instruction meter"),
            }
        }
        let meter = self.meter.filter(|_| V == 6);
        if !self.apply.is_empty() || meter.is_some() {
            write_actions::<V>(4, meter, self.apply, to)?;
        }
        if self.clear {
            write_actions::<V>(5, None, Actions::default(), to)?;
        }
        if !self.write.is_empty() {
            write_actions::<V>(3, None, self.write, to)?;
        }
        if let Some((metadata, metadata_mask)) = self.metadata {
            let pad = Pad::default();
            Wired::<V>::WriteMetadata(instruction::WriteMetadata { pad, metadata, metadata_mask })
                .write(to);
        }
        if let Some(table_id) = self.goto_table {
            Wired::<V>::GotoTable(instruction::GotoTable { table_id, pad: Pad::default() })
                .write(to);
        }
        if let Some(trigger) = self.stat_trigger {
            if V < 6 {
                return unsupported("instruction stat_trigger");
            }
            Wired::<V>::StatTrigger(trigger).write(to);
        }
        if !self.others.is_empty() {
            self.others.iter().for_each(|instruction| instruction.write(to));
        }
        Ok(())
    }

    /// Writes the instructions in a version's format.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] if the version cannot express one.
    pub(crate) fn write(&self, version: Version, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        match version {
            Version::V1_0 => self.write_v1_0(to),
            Version::V1_1 => self.write_since_1_1::<2>(to),
            Version::V1_2 => self.write_since_1_1::<3>(to),
            Version::V1_3 => self.write_since_1_1::<4>(to),
            Version::V1_4 => self.write_since_1_1::<5>(to),
            Version::V1_5 => self.write_since_1_1::<6>(to),
        }
    }

    #[inline]
    pub(crate) fn write_v1_0(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        let unsupported = |field| Err(EncodeError::Unsupported { field, version: Version::V1_0 });
        if self.meter.is_some() {
            return unsupported("instruction meter");
        }
        if self.clear {
            return unsupported("instruction clear_actions");
        }
        if !self.write.is_empty() {
            return unsupported("instruction write_actions");
        }
        if self.metadata.is_some() {
            return unsupported("instruction write_metadata");
        }
        if self.goto_table.is_some() {
            return unsupported("instruction goto_table");
        }
        if self.stat_trigger.is_some() {
            return unsupported("instruction stat_trigger");
        }
        if !self.others.is_empty() {
            return unsupported("an experimenter's instruction");
        }
        self.apply.write(Version::V1_0, to)
    }
}

/// Type and size of a meter action. OpenFlow 1.5.1 §7.2.6.
const METER: [u8; 4] = [0, 29, 0, 8];

/// Splits a meter off the beginning of received actions. Only OpenFlow 1.5 has meters among the actions.
fn split_meter<'a, const V: u8>(
    actions: List<'a, Wire<'a, V>>,
) -> (Option<u32>, List<'a, Wire<'a, V>>) {
    let split = actions.received().and_then(|bytes| bytes.split_first_chunk::<8>());
    match split {
        Some(([kind @ .., a, b, c, d], rest)) if V == 6 && *kind == METER => {
            (Some(u32::from_be_bytes([*a, *b, *c, *d])), List::checked(rest))
        }
        _ => (None, actions),
    }
}

/// Writes an instruction that contains actions (`ofp_instruction_actions`, OpenFlow 1.3.5 §7.2.4).
#[inline]
fn write_actions<const V: u8>(
    kind: u16,
    meter: Option<u32>,
    actions: Actions<'_>,
    to: &mut Writer<'_>,
) -> Result<(), EncodeError> {
    let start = to.position();
    if let Some(room) = to.array::<8>() {
        put(room, 0, kind.to_be_bytes());
        put(room, 2, [0; 6]); // len, and the padding
    }
    if let Some(meter) = meter {
        Wire::<V>::Meter(meter).write(to);
    }
    actions.write(Version::of::<V>(), to)?;
    to.patch_size(start + 2, start);
    Ok(())
}
