//! The version-independent configuration of a flow table: table-mod, description, and table-status. Not in OpenFlow 1.0.
//!
//! OpenFlow 1.3.5 §7.3.3; eviction and vacancy: OpenFlow 1.4.1 §5.11, §7.3.3, §7.3.5.16, §7.4.5.

use crate::header::{begin, open};
use crate::port::bits;
use crate::v1_4::property::Properties;
use crate::v1_4::table::{self, TableModProperty};
use crate::wire::{Pad, WireFormat};
use crate::{DecodeError, EncodeError, Header, Kind, Version, Writer, v1_3, v1_4};

bits! {
    /// What determines which entries a switch evicts (`ofp_table_mod_prop_eviction_flag`).
    pub struct Eviction(u32) {
        /// Factors of the switch.
        OTHER = 1 << 0;
        /// The importance of entries.
        IMPORTANCE = 1 << 1;
        /// The remaining lifetime of entries.
        LIFETIME = 1 << 2;
    }
}

/// When a switch reports how much room a table has, in percent of its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Vacancy {
    /// The switch sends a table-status message when less room than this is left.
    pub down: u8,
    /// The switch sends a table-status message when more room than this is left again.
    pub up: u8,
    /// The room that is left; 0 in a table-mod.
    pub now: u8,
}

/// The configuration of a table: a table-mod, or an item of a multipart reply.
///
/// OpenFlow 1.1 and 1.2 use `config` for packets without a matching entry; 1.3 deprecates all its bits, and 1.4 gives it
/// others. Experimenters' properties are out; [`v1_4::TableMod`] has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TableMod {
    /// Table number; 0xff means every table.
    pub table_id: u8,
    /// `ofp_table_config`.
    pub config: u32,
    /// What determines which entries the switch evicts. From OpenFlow 1.4 on.
    pub eviction: Option<Eviction>,
    /// When the switch reports how much room is left. From OpenFlow 1.4 on.
    pub vacancy: Option<Vacancy>,
}

impl TableMod {
    /// The switch may evict entries. From OpenFlow 1.4 on.
    pub const EVICTION: u32 = 1 << 2;
    /// The switch reports how much room is left. From OpenFlow 1.4 on.
    pub const VACANCY_EVENTS: u32 = 1 << 3;

    /// Creates a table-mod without eviction and vacancy.
    pub fn new(table_id: u8, config: u32) -> Self {
        Self { table_id, config, eviction: None, vacancy: None }
    }

    /// Decodes a whole table-mod.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one table-mod.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let (version, _, mut body) = open(message, Kind::TableMod)?;
        let table_mod = match version {
            Version::V1_4 | Version::V1_5 => {
                Self::from_v1_4(&v1_4::TableMod::read(&mut body, "table_mod")?)
            }
            _ => {
                let wire = v1_3::TableMod::read(&mut body, "table_mod")?;
                Self::new(wire.table_id, wire.config)
            }
        };
        body.finish("table_mod")?;
        Ok(table_mod)
    }

    pub(crate) fn from_v1_4(wire: &v1_4::TableMod<'_>) -> Self {
        Self::of(wire.table_id, wire.config, wire.properties)
    }

    pub(crate) fn from_desc(wire: &v1_4::TableDesc<'_>) -> Self {
        Self::of(wire.table_id, wire.config, wire.properties)
    }

    fn of(table_id: u8, config: u32, properties: Properties<'_, TableModProperty<'_>>) -> Self {
        let eviction = properties.iter().find_map(|property| match property.item {
            TableModProperty::Eviction(flags) => Some(Eviction(flags)),
            _ => None,
        });
        let vacancy = properties.iter().find_map(|property| match property.item {
            TableModProperty::Vacancy(it) => {
                Some(Vacancy { down: it.vacancy_down, up: it.vacancy_up, now: it.vacancy })
            }
            _ => None,
        });
        Self { table_id, config, eviction, vacancy }
    }

    /// Encodes the table-mod for a version; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] in OpenFlow 1.0, and for eviction and vacancy before OpenFlow 1.4;
    /// [`EncodeError::NoRoom`] if `out` is too small.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = begin(Kind::TableMod, version, xid, out)?;
        if !version.features().bundles && (self.eviction.is_some() || self.vacancy.is_some()) {
            let field = "table_mod: eviction or vacancy";
            return Err(EncodeError::Unsupported { field, version });
        }
        v1_3::TableMod { table_id: self.table_id, pad: Pad::default(), config: self.config }
            .write(&mut to);
        self.write_properties(&mut to);
        to.finish()
    }

    /// Writes the table as an item of a multipart reply, and in a table-status message (`ofp_table_desc`).
    pub(crate) fn write_desc(&self, to: &mut Writer<'_>) {
        let start = to.position();
        to.u16(0);
        to.u8(self.table_id);
        to.u8(0);
        to.u32(self.config);
        self.write_properties(to);
        to.patch_size(start, start);
    }

    fn write_properties(&self, to: &mut Writer<'_>) {
        if let Some(Eviction(flags)) = self.eviction {
            TableModProperty::Eviction(flags).write(to);
        }
        if let Some(Vacancy { down, up, now }) = self.vacancy {
            TableModProperty::Vacancy(table::Vacancy {
                vacancy_down: down,
                vacancy_up: up,
                vacancy: now,
                pad: Pad::default(),
            })
            .write(to);
        }
    }
}

/// Reason of a table-status message (`ofp_table_reason`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum TableReason {
    /// Less room than the limit is left.
    VacancyDown,
    /// More room than the limit is left again.
    VacancyUp,
}

/// A table-status message. From OpenFlow 1.4 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TableStatus {
    /// The reason.
    pub reason: TableReason,
    /// The table.
    pub table: TableMod,
}

impl TableStatus {
    /// Decodes a whole table-status message.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not exactly one table-status message.
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let (_, _, mut body) = open(message, Kind::TableStatus)?;
        let status = Self::from_v1_4(&v1_4::TableStatus::read(&mut body, "table_status")?)?;
        body.finish("table_status")?;
        Ok(status)
    }

    pub(crate) fn from_v1_4(wire: &v1_4::TableStatus<'_>) -> Result<Self, DecodeError> {
        let reason = match wire.reason {
            3 => TableReason::VacancyDown,
            4 => TableReason::VacancyUp,
            found => {
                return Err(DecodeError::BadValue {
                    field: "table_status.reason",
                    offset: Header::SIZE,
                    found: found.into(),
                    expected: "3 (vacancy down) or 4 (vacancy up)",
                });
            }
        };
        Ok(Self { reason, table: TableMod::from_desc(&wire.table) })
    }

    /// Encodes the message for a version, as a switch would; returns its size.
    ///
    /// # Errors
    /// [`EncodeError::Unsupported`] before OpenFlow 1.4, [`EncodeError::NoRoom`] if `out` is too small.
    pub fn encode(&self, version: Version, xid: u32, out: &mut [u8]) -> Result<usize, EncodeError> {
        let mut to = begin(Kind::TableStatus, version, xid, out)?;
        to.u8(match self.reason {
            TableReason::VacancyDown => 3,
            TableReason::VacancyUp => 4,
        });
        to.zeros(7);
        self.table.write_desc(&mut to);
        to.finish()
    }
}
