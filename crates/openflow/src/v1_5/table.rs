//! Features of flow tables. OpenFlow 1.5.1 §7.3.5.18.

use crate::text::Text;
use crate::v1_3::table::TableProperty;
use crate::wire::{List, Padded, sized_struct};

sized_struct! {
    /// Properties and capabilities of a table (`ofp_table_features`).
    pub struct TableFeatures<'a> = "table_features" {
        before {}
        after {
            /// Table number.
            table_id: u8,
            /// The command of a request: `ofp_table_features_command`.
            command: u8,
            /// Whether it is a table of ingress or egress: `ofp_table_feature_flag`.
            features: u32,
            /// Its name.
            name: Text<32>,
            /// Metadata bits that it can match.
            metadata_match: u64,
            /// Metadata bits that it can write.
            metadata_write: u64,
            /// Supported bits of `ofp_table_config`.
            capabilities: u32,
            /// Maximum number of entries.
            max_entries: u32,
            /// Its capabilities.
            properties: List<'a, Padded<TableProperty<'a, 6>>>,
        }
    }
}
