//! Translates actions and instructions.
//!
//! Ryu has one list for both: `{"type": "GOTO_TABLE", "table_id": 1}` stands beside `{"type": "OUTPUT", "port": 2}`. Actions on their own
//! are applied at once.

use openflow::matching::VLAN_PRESENT;
use openflow::nicira::NICIRA;
use openflow::{Action, Field, FlowMod, Instructions, Version};
use serde_json::{Value, json};

use crate::matching::{address, field, ipv4, plain};
use crate::number::{
    GROUPS, LENGTHS, METERS, Own, QUEUES, TABLES, integer, narrow, of_key, port_json, port_of_key,
    text,
};
use crate::{OfctlError, has_old_names, invalid};

/// The instructions of a request.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Program {
    apply: Vec<Action>,
    write: Vec<Action>,
    clear: bool,
    goto_table: Option<u8>,
    metadata: Option<(u64, u64)>,
    meter: Option<u32>,
}

impl Program {
    /// Reads the list `actions` of a request.
    pub(crate) fn read(list: Option<&Value>, version: Version) -> Result<Self, OfctlError> {
        let mut program = Self::default();
        for item in elements("actions", list)? {
            let kind = kind(item)?;
            if has_old_names(version) {
                program.apply.push(action_1_0(kind, item, version)?);
                continue;
            }
            match kind {
                "WRITE_ACTIONS" => {
                    for item in elements("actions", item.get("actions"))? {
                        program.write.push(action(item, version)?);
                    }
                }
                "CLEAR_ACTIONS" => program.clear = true,
                "GOTO_TABLE" => {
                    let table = TABLES.read("table_id", needed(item, "table_id")?)?;
                    program.goto_table = Some(narrow("table_id", &table.into())?);
                }
                "WRITE_METADATA" => {
                    let metadata = integer("metadata", needed(item, "metadata")?)?;
                    program.metadata = Some((metadata, of_key(item, "metadata_mask", u64::MAX)?));
                }
                "METER" => {
                    program.meter = Some(METERS.read("meter_id", needed(item, "meter_id")?)?);
                }
                _ => program.apply.push(action(item, version)?),
            }
        }
        Ok(program)
    }

    /// Makes the instructions of a flow-mod of them.
    pub(crate) fn put<'p>(&'p self, flow: FlowMod<'p>) -> FlowMod<'p> {
        let instructions = Instructions {
            meter: self.meter,
            apply: (&self.apply).into(),
            clear: self.clear,
            write: (&self.write).into(),
            metadata: self.metadata,
            goto_table: self.goto_table,
            ..Instructions::default()
        };
        FlowMod { instructions, ..flow }
    }
}

/// Returns the elements of a list that may be absent.
pub(crate) fn elements<'v>(what: &str, list: Option<&'v Value>) -> Result<&'v [Value], OfctlError> {
    match list {
        None => Ok(&[]),
        Some(Value::Array(elements)) => Ok(elements),
        Some(other) => invalid(format!("{what} is {other}; expected a list")),
    }
}

fn needed<'v>(item: &'v Value, key: &str) -> Result<&'v Value, OfctlError> {
    item.get(key).ok_or_else(|| OfctlError::Invalid(format!("{item} has no {key}")))
}

fn kind(item: &Value) -> Result<&str, OfctlError> {
    let kind = item.get("type").and_then(Value::as_str);
    kind.ok_or_else(|| OfctlError::Invalid(format!("{item} has no type, such as \"OUTPUT\"")))
}

/// Reads an action of a version with OXM.
pub(crate) fn action(item: &Value, version: Version) -> Result<Action, OfctlError> {
    let ethertype = || narrow("ethertype", needed(item, "ethertype")?);
    Ok(match kind(item)? {
        "OUTPUT" => {
            let port = port_of_key(item, "port", version)?;
            let max_len = item.get("max_len").map(|it| LENGTHS.read("max_len", it)).transpose()?;
            let max_len = narrow("max_len", &max_len.unwrap_or(0xffe5).into())?;
            Action::Output { port, max_len }
        }
        "COPY_TTL_OUT" => Action::CopyTtlOut,
        "COPY_TTL_IN" => Action::CopyTtlIn,
        "SET_MPLS_TTL" => Action::SetMplsTtl(narrow("mpls_ttl", needed(item, "mpls_ttl")?)?),
        "DEC_MPLS_TTL" => Action::DecMplsTtl,
        "PUSH_VLAN" => Action::PushVlan(ethertype()?),
        "POP_VLAN" => Action::PopVlan,
        "PUSH_MPLS" => Action::PushMpls(ethertype()?),
        "POP_MPLS" => Action::PopMpls(ethertype()?),
        "PUSH_PBB" => Action::PushPbb(ethertype()?),
        "POP_PBB" => Action::PopPbb,
        "SET_QUEUE" => Action::SetQueue(QUEUES.read("queue_id", needed(item, "queue_id")?)?),
        "GROUP" => Action::Group(GROUPS.read("group_id", needed(item, "group_id")?)?),
        "SET_NW_TTL" => Action::SetNwTtl(narrow("nw_ttl", needed(item, "nw_ttl")?)?),
        "DEC_NW_TTL" => Action::DecNwTtl,
        "SET_FIELD" => Action::SetField(set_field(item, version)?),
        "EXPERIMENTER" => {
            return invalid(
                "EXPERIMENTER: no experimenter's action is granted to clients of this interface",
            );
        }
        other => return invalid(format!("{other} is no action of OpenFlow 1.3 that Ryu knows")),
    })
}

/// Reads the field of a `SET_FIELD`, whose VLAN id has the bit of a tag in every form.
fn set_field(item: &Value, version: Version) -> Result<Field, OfctlError> {
    let name = needed(item, "field")?;
    let Some(name) = name.as_str() else {
        return invalid(format!("field is {name}; expected a name such as \"eth_dst\""));
    };
    let value = needed(item, "value")?;
    if name == "vlan_vid" {
        return Ok(Field::VlanVid(narrow::<u16>(name, value)?.into()));
    }
    if value.as_str().is_some_and(|text| text.contains('/')) {
        return invalid(format!(
            "SET_FIELD {name}: {value} has a mask, which OpenFlow 1.3 does not have here"
        ));
    }
    field(name, (name, value), version)
}

/// Reads an action of OpenFlow 1.0.
fn action_1_0(kind: &str, item: &Value, version: Version) -> Result<Action, OfctlError> {
    let address = |key| Ok::<_, OfctlError>(address(key, needed(item, key)?)?.value);
    let ip = |key| Ok::<_, OfctlError>(ipv4(key, needed(item, key)?)?.value);
    Ok(match kind {
        "OUTPUT" => Action::Output {
            port: port_of_key(item, "port", version)?,
            max_len: of_key(item, "max_len", 0xffe5)?,
        },
        "SET_VLAN_VID" => {
            let vid: u16 = of_key(item, "vlan_vid", 0xffff)?;
            if vid >= VLAN_PRESENT {
                return invalid(format!("SET_VLAN_VID: {vid} has more than 12 bits"));
            }
            Action::SetField(Field::VlanVid((vid | VLAN_PRESENT).into()))
        }
        "SET_VLAN_PCP" => Action::SetField(Field::VlanPcp(of_key(item, "vlan_pcp", 0)?)),
        "STRIP_VLAN" => Action::PopVlan,
        "SET_DL_SRC" => Action::SetField(Field::EthSrc(address("dl_src")?.into())),
        "SET_DL_DST" => Action::SetField(Field::EthDst(address("dl_dst")?.into())),
        "SET_NW_SRC" => Action::SetField(Field::Ipv4Src(ip("nw_src")?.into())),
        "SET_NW_DST" => Action::SetField(Field::Ipv4Dst(ip("nw_dst")?.into())),
        "SET_NW_TOS" => Action::SetField(Field::IpDscp(of_key::<u8>(item, "nw_tos", 0)? >> 2)),
        "SET_TP_SRC" => Action::SetTpSrc(of_key(item, "tp_src", 0)?),
        "SET_TP_DST" => Action::SetTpDst(of_key(item, "tp_dst", 0)?),
        "ENQUEUE" => Action::Enqueue {
            port: port_of_key(item, "port", version)?,
            queue_id: of_key(item, "queue_id", 0)?,
        },
        other => return invalid(format!("{other} is no action of OpenFlow 1.0 that Ryu knows")),
    })
}

/// Writes the instructions of a flow.
pub(crate) fn json(instructions: &Instructions<'_>, version: Version, own: &Own) -> Value {
    let written = |action: Action| Value::from(action_text(&action, version, own));
    let mut list: Vec<Value> = Vec::new();
    if let Some(meter) = instructions.meter {
        list.push(format!("METER:{}", text(&METERS.write(own.meter(meter)))).into());
    }
    list.extend(instructions.apply.iter().map(written));
    if instructions.clear {
        list.push("CLEAR_ACTIONS".into());
    }
    let write: Vec<Value> = instructions.write.iter().map(written).collect();
    if !write.is_empty() {
        list.push(json!({ "WRITE_ACTIONS": write }));
    }
    match instructions.metadata {
        Some((metadata, 0)) => list.push(format!("WRITE_METADATA:{metadata:#x}").into()),
        Some((metadata, mask)) => {
            list.push(format!("WRITE_METADATA:{metadata:#x}/{mask:#x}").into());
        }
        None => {}
    }
    if let Some(table) = instructions.goto_table {
        list.push(format!("GOTO_TABLE:{}", text(&TABLES.write(table.into()))).into());
    }
    Value::Array(list)
}

/// Writes an action as Ryu does: `OUTPUT:2`.
pub(crate) fn action_text(action: &Action, version: Version, own: &Own) -> String {
    match (action, has_old_names(version)) {
        (Action::Output { port, .. }, _) => format!("OUTPUT:{}", text(&port_json(*port, version))),
        (Action::Enqueue { port, queue_id }, _) => {
            let (port, queue) = (port_json(*port, version), QUEUES.write(*queue_id));
            format!("ENQUEUE:{}:{}", text(&port), text(&queue))
        }
        (Action::PopVlan, true) => "STRIP_VLAN".into(),
        (Action::SetField(field), true) => field_1_0(field),
        (Action::SetField(field), false) => {
            format!("SET_FIELD: {{{}:{}}}", field.name(), text(&plain(field)))
        }
        (Action::SetTpSrc(port), _) => format!("SET_TP_SRC:{port}"),
        (Action::SetTpDst(port), _) => format!("SET_TP_DST:{port}"),
        (Action::CopyTtlOut, _) => "COPY_TTL_OUT".into(),
        (Action::CopyTtlIn, _) => "COPY_TTL_IN".into(),
        (Action::SetMplsTtl(ttl), _) => format!("SET_MPLS_TTL:{ttl}"),
        (Action::DecMplsTtl, _) => "DEC_MPLS_TTL".into(),
        (Action::PushVlan(ethertype), _) => format!("PUSH_VLAN:{ethertype}"),
        (Action::PopVlan, false) => "POP_VLAN".into(),
        (Action::PushMpls(ethertype), _) => format!("PUSH_MPLS:{ethertype}"),
        (Action::PopMpls(ethertype), _) => format!("POP_MPLS:{ethertype}"),
        (Action::PushPbb(ethertype), _) => format!("PUSH_PBB:{ethertype}"),
        (Action::PopPbb, _) => "POP_PBB".into(),
        (Action::SetQueue(queue), _) => format!("SET_QUEUE:{}", text(&QUEUES.write(*queue))),
        (Action::Group(group), _) => format!("GROUP:{}", text(&GROUPS.write(own.group(*group)))),
        (Action::SetNwTtl(ttl), _) => format!("SET_NW_TTL:{ttl}"),
        (Action::DecNwTtl, _) => "DEC_NW_TTL".into(),
        (Action::Experimenter { .. } | Action::Nicira(_), true) => "VENDOR".into(),
        (Action::Nicira(_), _) => format!("EXPERIMENTER: {{experimenter:{NICIRA}}}"),
        (Action::Experimenter { experimenter, .. }, _) => {
            format!("EXPERIMENTER: {{experimenter:{experimenter}}}")
        }
        _ => "UNKNOWN".into(),
    }
}

fn field_1_0(field: &Field) -> String {
    match field {
        Field::VlanVid(vid) => format!("SET_VLAN_VID:{}", vid.value & !VLAN_PRESENT),
        Field::VlanPcp(pcp) => format!("SET_VLAN_PCP:{pcp}"),
        Field::EthSrc(it) => format!("SET_DL_SRC:{}", it.value),
        Field::EthDst(it) => format!("SET_DL_DST:{}", it.value),
        Field::Ipv4Src(it) => format!("SET_NW_SRC:{}", it.value),
        Field::Ipv4Dst(it) => format!("SET_NW_DST:{}", it.value),
        Field::IpDscp(dscp) => format!("SET_NW_TOS:{}", dscp << 2),
        _ => "UNKNOWN".into(),
    }
}

#[cfg(test)]
mod tests {
    use openflow::Match;

    use super::*;

    fn round(actions: &Value, version: Version) -> Value {
        let program = Program::read(Some(actions), version).unwrap();
        let flow = program.put(FlowMod::add(Match::new()));
        let mut message = Vec::new();
        openflow::append(&mut message, |room| flow.encode(version, 0, room)).unwrap();
        let flow = FlowMod::decode(&message).unwrap();
        json(&flow.instructions, version, &Own::default())
    }

    #[test]
    fn actions_of_1_3_survive() {
        let actions = json!([
            {"type": "OUTPUT", "port": 2},
            {"type": "OUTPUT", "port": "CONTROLLER", "max_len": "NO_BUFFER"},
            {"type": "COPY_TTL_OUT"}, {"type": "COPY_TTL_IN"},
            {"type": "SET_MPLS_TTL", "mpls_ttl": 64}, {"type": "DEC_MPLS_TTL"},
            {"type": "PUSH_VLAN", "ethertype": 33024}, {"type": "POP_VLAN"},
            {"type": "PUSH_MPLS", "ethertype": "0x8847"}, {"type": "POP_MPLS", "ethertype": 2054},
            {"type": "SET_QUEUE", "queue_id": 7}, {"type": "GROUP", "group_id": 5},
            {"type": "SET_NW_TTL", "nw_ttl": 64}, {"type": "DEC_NW_TTL"},
            {"type": "SET_FIELD", "field": "vlan_vid", "value": 4102},
            {"type": "SET_FIELD", "field": "eth_dst", "value": "aa:bb:cc:dd:ee:ff"},
            {"type": "PUSH_PBB", "ethertype": 35047}, {"type": "POP_PBB"},
            {"type": "GOTO_TABLE", "table_id": 8}, {"type": "METER", "meter_id": 3},
            {"type": "WRITE_METADATA", "metadata": 3, "metadata_mask": "0x3"},
            {"type": "CLEAR_ACTIONS"},
            {"type": "WRITE_ACTIONS", "actions": [{"type": "OUTPUT", "port": 1}]},
        ]);
        let answer = json!([
            "METER:3", "OUTPUT:2", "OUTPUT:CONTROLLER", "COPY_TTL_OUT", "COPY_TTL_IN",
            "SET_MPLS_TTL:64", "DEC_MPLS_TTL", "PUSH_VLAN:33024", "POP_VLAN", "PUSH_MPLS:34887",
            "POP_MPLS:2054", "SET_QUEUE:7", "GROUP:5", "SET_NW_TTL:64", "DEC_NW_TTL",
            "SET_FIELD: {vlan_vid:4102}", "SET_FIELD: {eth_dst:aa:bb:cc:dd:ee:ff}",
            "PUSH_PBB:35047", "POP_PBB", "CLEAR_ACTIONS", {"WRITE_ACTIONS": ["OUTPUT:1"]},
            "WRITE_METADATA:0x3/0x3", "GOTO_TABLE:8",
        ]);
        assert_eq!(round(&actions, Version::V1_3), answer);
    }

    #[test]
    fn actions_of_1_0_survive() {
        let actions = json!([
            {"type": "SET_VLAN_VID", "vlan_vid": 5}, {"type": "SET_VLAN_PCP", "vlan_pcp": 3},
            {"type": "STRIP_VLAN"}, {"type": "SET_DL_SRC", "dl_src": "aa:bb:cc:11:22:33"},
            {"type": "SET_DL_DST", "dl_dst": "aa:bb:cc:11:22:33"},
            {"type": "SET_NW_SRC", "nw_src": "10.0.0.1"}, {"type": "SET_NW_DST", "nw_dst": "10.0.0.1"},
            {"type": "SET_NW_TOS", "nw_tos": 184}, {"type": "SET_TP_SRC", "tp_src": 8080},
            {"type": "SET_TP_DST", "tp_dst": 8080}, {"type": "ENQUEUE", "port": 3, "queue_id": 1},
            {"type": "OUTPUT", "port": 65534},
        ]);
        let answer = json!([
            "SET_VLAN_VID:5",
            "SET_VLAN_PCP:3",
            "STRIP_VLAN",
            "SET_DL_SRC:aa:bb:cc:11:22:33",
            "SET_DL_DST:aa:bb:cc:11:22:33",
            "SET_NW_SRC:10.0.0.1",
            "SET_NW_DST:10.0.0.1",
            "SET_NW_TOS:184",
            "SET_TP_SRC:8080",
            "SET_TP_DST:8080",
            "ENQUEUE:3:1",
            "OUTPUT:LOCAL",
        ]);
        assert_eq!(round(&actions, Version::V1_0), answer);
    }

    #[test]
    fn wrong_actions_are_refused() {
        let wrong = [
            (Version::V1_3, json!({})),
            (Version::V1_3, json!([{"port": 1}])),
            (Version::V1_3, json!([{"type": "FLY"}])),
            (Version::V1_3, json!([{"type": "PUSH_VLAN"}])),
            (Version::V1_3, json!([{"type": "EXPERIMENTER", "experimenter": 8992, "data": "x"}])),
            (Version::V1_3, json!([{"type": "SET_FIELD", "field": "eth_dst", "value": "x/y"}])),
            (Version::V1_3, json!([{"type": "STRIP_VLAN"}])),
            (Version::V1_0, json!([{"type": "POP_VLAN"}])),
            (Version::V1_0, json!([{"type": "SET_VLAN_VID", "vlan_vid": 4096}])),
        ];
        for (version, actions) in wrong {
            assert!(Program::read(Some(&actions), version).is_err(), "{actions}");
        }
    }
}
