//! Flow tables: their configuration and what they can do. OpenFlow 1.3.5 §7.3.3, §7.3.5.5.

use crate::oxm::EXPERIMENTER;
use crate::text::Text;
use crate::tlv::tlv_enum;
use crate::wire::{List, Pad, Padded, Wire, sized_struct, wire_struct};
use crate::{DecodeError, Reader, Writer};

wire_struct! {
    /// The body of a table-mod (`ofp_table_mod`).
    pub struct TableMod = "table_mod" {
        /// Which table; `0xff` is every one.
        table_id: u8,
        /// Padding.
        pad: Pad<3>,
        /// `ofp_table_config`, deprecated and without use in OpenFlow 1.3.
        config: u32,
    }

    /// What follows the head of an experimenter's property
    /// (`ofp_table_feature_prop_experimenter`).
    pub struct Experimenter<'a> = "table_feature_prop_experimenter" {
        /// Whose it is.
        experimenter: u32,
        /// What it is, as the experimenter counts.
        exp_type: u32,
        /// What it says.
        data: &'a [u8],
    }
}

sized_struct! {
    /// What a table is and can do (`ofp_table_features`).
    pub struct TableFeatures<'a> = "table_features" {
        before {}
        after {
            /// Which table.
            table_id: u8,
            /// Padding.
            pad: Pad<5>,
            /// Its name.
            name: Text<32>,
            /// Which bits of the metadata it can match.
            metadata_match: u64,
            /// Which bits of the metadata it can write.
            metadata_write: u64,
            /// `ofp_table_config`.
            config: u32,
            /// How many entries it can hold.
            max_entries: u32,
            /// What it can do.
            properties: List<'a, Padded<TableProperty<'a>>>,
        }
    }
}

tlv_enum! {
    /// Something a table can do (`ofp_table_feature_prop_header`). "Miss" is what its table-miss
    /// entry can do; if left out, it is the same.
    pub enum TableProperty<'a> = "table_feature_prop", align 1 {
        /// Instructions.
        Instructions(List<'a, FeatureId<'a>>) = 0,
        /// Instructions of the table-miss entry.
        InstructionsMiss(List<'a, FeatureId<'a>>) = 1,
        /// Tables it can go to.
        NextTables(List<'a, u8>) = 2,
        /// Tables its table-miss entry can go to.
        NextTablesMiss(List<'a, u8>) = 3,
        /// Actions in write-actions.
        WriteActions(List<'a, FeatureId<'a>>) = 4,
        /// Actions in write-actions of the table-miss entry.
        WriteActionsMiss(List<'a, FeatureId<'a>>) = 5,
        /// Actions in apply-actions.
        ApplyActions(List<'a, FeatureId<'a>>) = 6,
        /// Actions in apply-actions of the table-miss entry.
        ApplyActionsMiss(List<'a, FeatureId<'a>>) = 7,
        /// Fields it can match.
        Match(List<'a, OxmId>) = 8,
        /// Fields it can leave out of a match.
        Wildcards(List<'a, OxmId>) = 10,
        /// Fields it can set in write-actions.
        WriteSetField(List<'a, OxmId>) = 12,
        /// Fields its table-miss entry can set in write-actions.
        WriteSetFieldMiss(List<'a, OxmId>) = 13,
        /// Fields it can set in apply-actions.
        ApplySetField(List<'a, OxmId>) = 14,
        /// Fields its table-miss entry can set in apply-actions.
        ApplySetFieldMiss(List<'a, OxmId>) = 15,
        /// An experimenter's own.
        Experimenter(Experimenter<'a>) = 0xfffe,
        /// An experimenter's own, of the table-miss entry.
        ExperimenterMiss(Experimenter<'a>) = 0xffff,
    }
}

/// The type of experimenters' instructions and actions.
const EXPERIMENTER_ID: u16 = 0xffff;

/// An instruction or action that a table can do, without its arguments.
///
/// The specification's have 4 bytes, a head only (OpenFlow 1.3.5 §7.3.5.5.2). Some switches send the
/// 8 bytes of the smallest instruction or action, or all of its fields: `data` keeps them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FeatureId<'a> {
    /// The type of the instruction or action.
    pub kind: u16,
    /// What follows the head. Of an experimenter's: its id and its own bytes. Else mostly nothing.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::json::hex"))]
    pub data: &'a [u8],
}

impl<'a> Wire<'a> for FeatureId<'a> {
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

/// The head of a field that a table can match or set, without its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct OxmId {
    /// Who defined the field.
    pub class: u16,
    /// Its number, 7 bits.
    pub field: u8,
    /// Whether it can be masked.
    pub has_mask: bool,
    /// The length a value would have.
    pub length: u8,
    /// Whose field it is, in the experimenters' class.
    pub experimenter: Option<u32>,
}

impl<'a> Wire<'a> for OxmId {
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
