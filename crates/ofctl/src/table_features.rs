//! Writes the features of a table (OpenFlow 1.3.5 §7.3.5.5).

use openflow::Field;
use openflow::oxm::OPENFLOW_BASIC;
use openflow::v1_3::table::{FeatureId, OxmId};
use openflow::v1_3::{TableFeatures, TableProperty};
use openflow::wire::List;
use serde_json::{Value, json};

/// Writes a table.
pub(crate) fn json(table: &TableFeatures<'_>) -> Value {
    let properties: Vec<Value> = table.properties.iter().map(|it| property(&it.item)).collect();
    json!({
        "table_id": table.table_id,
        "name": String::from_utf8_lossy(table.name.as_bytes()),
        "metadata_match": table.metadata_match,
        "metadata_write": table.metadata_write,
        "config": table.config,
        "max_entries": table.max_entries,
        "properties": properties,
    })
}

fn property(property: &TableProperty<'_>) -> Value {
    use TableProperty as P;
    match property {
        P::Instructions(ids) => json!({"type": "INSTRUCTIONS", "instruction_ids": elements(ids)}),
        P::InstructionsMiss(ids) => {
            json!({"type": "INSTRUCTIONS_MISS", "instruction_ids": elements(ids)})
        }
        P::NextTables(tables) => json!({"type": "NEXT_TABLES", "table_ids": numbers(tables)}),
        P::NextTablesMiss(tables) => {
            json!({"type": "NEXT_TABLES_MISS", "table_ids": numbers(tables)})
        }
        P::WriteActions(ids) => json!({"type": "WRITE_ACTIONS", "action_ids": elements(ids)}),
        P::WriteActionsMiss(ids) => {
            json!({"type": "WRITE_ACTIONS_MISS", "action_ids": elements(ids)})
        }
        P::ApplyActions(ids) => json!({"type": "APPLY_ACTIONS", "action_ids": elements(ids)}),
        P::ApplyActionsMiss(ids) => {
            json!({"type": "APPLY_ACTIONS_MISS", "action_ids": elements(ids)})
        }
        P::Match(ids) => json!({"type": "MATCH", "oxm_ids": oxms(ids)}),
        P::Wildcards(ids) => json!({"type": "WILDCARDS", "oxm_ids": oxms(ids)}),
        P::WriteSetField(ids) => json!({"type": "WRITE_SETFIELD", "oxm_ids": oxms(ids)}),
        P::WriteSetFieldMiss(ids) => json!({"type": "WRITE_SETFIELD_MISS", "oxm_ids": oxms(ids)}),
        P::ApplySetField(ids) => json!({"type": "APPLY_SETFIELD", "oxm_ids": oxms(ids)}),
        P::ApplySetFieldMiss(ids) => json!({"type": "APPLY_SETFIELD_MISS", "oxm_ids": oxms(ids)}),
        P::Experimenter(_) => json!({"type": "EXPERIMENTER"}),
        P::ExperimenterMiss(_) => json!({"type": "EXPERIMENTER_MISS"}),
        _ => json!({"type": "UNKNOWN"}),
    }
}

fn elements(ids: &List<'_, FeatureId<'_>>) -> Vec<Value> {
    ids.iter().map(|id| json!({"type": id.kind, "len": 4 + id.data.len()})).collect()
}

fn numbers(tables: &List<'_, u8>) -> Vec<u8> {
    tables.iter().collect()
}

fn oxms(ids: &List<'_, OxmId>) -> Vec<Value> {
    let oxm = |id: OxmId| {
        let known = Field::name_of(id.field).filter(|_| id.class == OPENFLOW_BASIC);
        let kind = known.map_or_else(
            || format!("field_{}", u32::from(id.class) << 7 | u32::from(id.field)),
            ToString::to_string,
        );
        json!({"type": kind, "hasmask": u8::from(id.has_mask), "length": id.length})
    };
    ids.iter().map(oxm).collect()
}
