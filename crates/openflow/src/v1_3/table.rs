//! Flow tables: configuration and features. OpenFlow 1.3.5 §7.3.3, §7.3.5.5.
//!
//! The table-mod has the same layout in OpenFlow 1.1 and 1.2 (§A.3.3), the features of a table in 1.4 (1.4.1
//! §7.3.5.5). [`TableProperty`] is the table of 1.3 to 1.5 (1.5.1 §7.3.5.18).

use crate::oxm::{EXPERIMENTER, Oxm};
use crate::text::Text;
use crate::tlv::tlv_enum;
use crate::wire::{List, Pad, Padded, WireFormat, sized_struct, wire_struct};
use crate::{DecodeError, Reader, Writer};

wire_struct! {
    /// The body of a table-mod (`ofp_table_mod`).
    pub struct TableMod = "table_mod" {
        /// Table number; `0xff` means every table.
        table_id: u8,
        /// Padding.
        pad: Pad<3>,
        /// `ofp_table_config`, deprecated and without effect in OpenFlow 1.3.
        config: u32,
    }

    /// The content of an experimenter property (`ofp_table_feature_prop_experimenter`).
    pub struct Experimenter<'a> = "table_feature_prop_experimenter" {
        /// Experimenter id.
        experimenter: u32,
        /// Experimenter-defined type.
        exp_type: u32,
        /// Data of the experimenter or vendor.
        data: &'a [u8],
    }
}

sized_struct! {
    /// Properties and capabilities of a table (`ofp_table_features`).
    pub struct TableFeatures<'a, V> = "table_features" {
        before {}
        after {
            /// Table number.
            table_id: u8,
            /// Padding.
            pad: Pad<5>,
            /// Its name.
            name: Text<32>,
            /// Metadata bits that it can match.
            metadata_match: u64,
            /// Metadata bits that it can write.
            metadata_write: u64,
            /// `ofp_table_config`.
            config: u32,
            /// Maximum number of entries.
            max_entries: u32,
            /// Its capabilities.
            properties: List<'a, Padded<TableProperty<'a, V>>>,
        }
    }
}

tlv_enum! {
    /// A table property (`ofp_table_feature_prop_header`). The "miss" variants are about the
    /// table-miss entry; without them, both have the same properties.
    pub enum TableProperty<'a, V> = "table_feature_prop", align 1 {
        /// Instructions.
        Instructions(List<'a, FeatureId<'a>>) = 0,
        /// Instructions of the table-miss entry.
        InstructionsMiss(List<'a, FeatureId<'a>>) = 1,
        /// Tables that it can go to.
        NextTables(List<'a, u8>) = 2,
        /// Tables that its table-miss entry can go to.
        NextTablesMiss(List<'a, u8>) = 3,
        /// Actions in write-actions.
        WriteActions(List<'a, FeatureId<'a>>) = 4,
        /// Actions in write-actions of the table-miss entry.
        WriteActionsMiss(List<'a, FeatureId<'a>>) = 5,
        /// Actions in apply-actions.
        ApplyActions(List<'a, FeatureId<'a>>) = 6,
        /// Actions in apply-actions of the table-miss entry.
        ApplyActionsMiss(List<'a, FeatureId<'a>>) = 7,
        /// Fields that it can match.
        Match(List<'a, OxmId>) = 8,
        /// Fields that it can wildcard.
        Wildcards(List<'a, OxmId>) = 10,
        /// Fields that it can set in write-actions.
        WriteSetField(List<'a, OxmId>) = 12,
        /// Fields that its table-miss entry can set in write-actions.
        WriteSetFieldMiss(List<'a, OxmId>) = 13,
        /// Fields that it can set in apply-actions.
        ApplySetField(List<'a, OxmId>) = 14,
        /// Fields that its table-miss entry can set in apply-actions.
        ApplySetFieldMiss(List<'a, OxmId>) = 15,
        /// Tables with which it is synchronised.
        TableSyncFrom(List<'a, u8>) = 16 in 5..=6,
        /// Fields that it can copy in write-actions.
        WriteCopyField(List<'a, OxmId>) = 18 in 6..=6,
        /// Fields that its table-miss entry can copy in write-actions.
        WriteCopyFieldMiss(List<'a, OxmId>) = 19 in 6..=6,
        /// Fields that it can copy in apply-actions.
        ApplyCopyField(List<'a, OxmId>) = 20 in 6..=6,
        /// Fields that its table-miss entry can copy in apply-actions.
        ApplyCopyFieldMiss(List<'a, OxmId>) = 21 in 6..=6,
        /// Types of packets that it accepts.
        PacketTypes(List<'a, Oxm<'a>>) = 22 in 6..=6,
        /// Experimenter-defined.
        Experimenter(Experimenter<'a>) = 0xfffe,
        /// Experimenter-defined, for the table-miss entry.
        ExperimenterMiss(Experimenter<'a>) = 0xffff,
    }
}

/// The type of experimenters' instructions and actions.
const EXPERIMENTER_ID: u16 = 0xffff;

/// An instruction or action that a table supports, without its arguments.
///
/// The specification's have 4 bytes, a header only (OpenFlow 1.3.5 §7.3.5.5.2). Some switches send
/// the 8 bytes of the smallest instruction or action, or all of its fields: `data` keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FeatureId<'a> {
    /// The type of the instruction or action.
    pub kind: u16,
    /// Content after the header: of an experimenter's, its id and data; otherwise usually empty.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
    pub data: &'a [u8],
}

impl<'a> WireFormat<'a> for FeatureId<'a> {
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        const TYPE: &str = "table_feature_prop.id.type";
        const LEN: &str = "table_feature_prop.id.len";
        let at = from.offset();
        let (kind, mut body) = crate::tlv::read_head(from, TYPE, LEN, 1)?;
        let bad = |expected| DecodeError::BadLength {
            field: LEN,
            offset: at + 2,
            found: body.left() + 4,
            expected,
        };
        match (kind, body.left()) {
            (EXPERIMENTER_ID, 0..4) => Err(bad("at least 8 with an experimenter's id")),
            _ => Ok(Self { kind, data: body.rest() }),
        }
    }
    fn write(&self, to: &mut Writer<'_>) {
        let start = to.position();
        to.u16(self.kind);
        to.u16(0);
        to.bytes(self.data);
        to.patch_size(start + 2, start);
    }
}

/// The header of a field that a table can match or set, without its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct OxmId {
    /// Class: who defined the field.
    pub class: u16,
    /// Its number, 7 bits.
    pub field: u8,
    /// Whether it can be masked.
    pub has_mask: bool,
    /// Length of a value.
    pub length: u8,
    /// Experimenter id, in the experimenter class.
    pub experimenter: Option<u32>,
}

impl<'a> WireFormat<'a> for OxmId {
    fn read(from: &mut Reader<'a>, _field: &'static str) -> Result<Self, DecodeError> {
        let class = from.u16("oxm_id.class")?;
        let field_and_has_mask = from.u8("oxm_id.field")?;
        let length = from.u8("oxm_id.length")?;
        let experimenter = match class {
            EXPERIMENTER => Some(from.u32("oxm_id.experimenter")?),
            _ => None,
        };
        Ok(Self {
            class,
            field: field_and_has_mask >> 1,
            has_mask: field_and_has_mask & 1 != 0,
            length,
            experimenter,
        })
    }
    fn write(&self, to: &mut Writer<'_>) {
        to.u16(self.class);
        to.u8(self.field << 1 | u8::from(self.has_mask));
        to.u8(self.length);
        if let (EXPERIMENTER, id) = (self.class, self.experimenter) {
            to.u32(id.unwrap_or(0));
        }
    }
}
