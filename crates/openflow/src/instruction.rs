//! The version-independent instructions of a flow entry.
//!
//! OpenFlow 1.3.5 §5.9, §7.2.4. OpenFlow 1.0 has a list of actions instead.

use crate::action::Actions;
use crate::wire::{List, Pad, WireFormat};
use crate::write::put;
use crate::{DecodeError, EncodeError, PortNo, Reader, Version, Writer, v1_3};

/// The instructions of a flow entry: at most one of each kind, executed in this order (OpenFlow
/// 1.3.5 §5.9).
///
/// OpenFlow 1.0 supports only `apply`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Instructions<'a> {
    /// Sends the packet through this meter.
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
    /// Experimenter and unknown instructions. OpenFlow 1.3 only.
    pub others: OtherInstructions<'a>,
}

/// Instructions without a version-independent form: experimenter and unknown ones.
#[derive(Clone, Copy, Default)]
pub struct OtherInstructions<'a> {
    /// All instructions of the entry; iteration skips those with a version-independent form.
    all: List<'a, v1_3::Instruction<'a>>,
}

impl<'a> From<List<'a, v1_3::Instruction<'a>>> for OtherInstructions<'a> {
    /// Instructions that the specification defines are skipped.
    fn from(all: List<'a, v1_3::Instruction<'a>>) -> Self {
        Self { all }
    }
}

impl<'a> OtherInstructions<'a> {
    /// Iterates over the instructions in order.
    pub fn iter(&self) -> impl Iterator<Item = v1_3::Instruction<'a>> + use<'a> {
        self.all.iter().filter(|instruction| {
            matches!(
                instruction,
                v1_3::Instruction::Experimenter(_) | v1_3::Instruction::Unknown { .. }
            )
        })
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
    /// Reads the instructions of OpenFlow 1.3 up to the end of the message. `at` is a place in the message for errors.
    ///
    /// # Errors
    /// As of the list of the instructions, and as [`from_v1_3`](Self::from_v1_3).
    #[inline]
    pub(crate) fn read_v1_3(from: &mut Reader<'a>, at: usize) -> Result<Self, DecodeError> {
        // Nearly all flows have this instruction alone: it applies actions.
        if let [0, 4, high, low, _, _, _, _, actions @ ..] = from.peek()
            && usize::from(u16::from_be_bytes([*high, *low])) == from.left()
            && let Some(actions) = List::<v1_3::Action<'_>>::of_valid(actions)
        {
            from.rest();
            return Ok(Self { apply: actions.into(), ..Self::default() });
        }
        Self::from_v1_3(List::read(from, "flow_mod.instructions")?, at)
    }

    /// Converts the instructions of OpenFlow 1.3.
    ///
    /// # Errors
    /// [`DecodeError::BadValue`] if one is repeated: the specification does not define its meaning.
    pub(crate) fn from_v1_3(
        wire: List<'a, v1_3::Instruction<'a>>,
        at: usize,
    ) -> Result<Self, DecodeError> {
        use v1_3::Instruction as Wired;
        let mut found = Self::default();
        let mut seen = 0_u8;
        for instruction in wire {
            let kind = instruction.kind();
            match instruction {
                Wired::GotoTable(goto) => found.goto_table = Some(goto.table_id),
                Wired::WriteMetadata(write) => {
                    found.metadata = Some((write.metadata, write.metadata_mask));
                }
                Wired::WriteActions(write) => found.write = write.actions.into(),
                Wired::ApplyActions(apply) => found.apply = apply.actions.into(),
                Wired::ClearActions(_) => found.clear = true,
                Wired::Meter(meter) => found.meter = Some(meter),
                Wired::Experimenter(_) | Wired::Unknown { .. } => {
                    found.others = wire.into();
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
            && self.others.is_empty();
        self.apply.single_output().filter(|_| is_alone)
    }

    #[inline]
    pub(crate) fn write_v1_3(&self, to: &mut Writer<'_>) -> Result<(), EncodeError> {
        use v1_3::Instruction as Wired;
        use v1_3::instruction;
        if let Some(meter) = self.meter {
            Wired::Meter(meter).write(to);
        }
        if !self.apply.is_empty() {
            write_actions(4, self.apply, to)?;
        }
        if self.clear {
            write_actions(5, Actions::default(), to)?;
        }
        if !self.write.is_empty() {
            write_actions(3, self.write, to)?;
        }
        if let Some((metadata, metadata_mask)) = self.metadata {
            let pad = Pad::default();
            Wired::WriteMetadata(instruction::WriteMetadata { pad, metadata, metadata_mask })
                .write(to);
        }
        if let Some(table_id) = self.goto_table {
            Wired::GotoTable(instruction::GotoTable { table_id, pad: Pad::default() }).write(to);
        }
        if !self.others.is_empty() {
            self.others.iter().for_each(|instruction| instruction.write(to));
        }
        Ok(())
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
        if !self.others.is_empty() {
            return unsupported("an experimenter's instruction");
        }
        self.apply.write(Version::V1_0, to)
    }
}

/// Writes an OpenFlow 1.3 instruction that contains actions (`ofp_instruction_actions`, §7.2.4).
#[inline]
fn write_actions(kind: u16, actions: Actions<'_>, to: &mut Writer<'_>) -> Result<(), EncodeError> {
    let start = to.position();
    if let Some(room) = to.array::<8>() {
        put(room, 0, kind.to_be_bytes());
        put(room, 2, [0; 6]); // len, and the padding
    }
    actions.write(Version::V1_3, to)?;
    to.patch_size(start + 2, start);
    Ok(())
}
