//! Which flows a modify, a delete or a request for statistics covers (OpenFlow 1.3.5 §6.4).

use openflow::{Field, FlowMod, FlowStatsRequest, MacAddr, Match, PortNo};

use super::device::Entry;

/// The conditions of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selection {
    match_: Match,
    /// Only the flow with exactly this match and this priority.
    strict: Option<u16>,
    cookie: u64,
    cookie_mask: u64,
    out_port: PortNo,
    out_group: u32,
    table_id: u8,
}

impl Selection {
    /// Of a modify or delete.
    pub(super) fn of_flow_mod(flow_mod: &FlowMod<'_>, is_strict: bool) -> Self {
        // Only a delete is limited by its outputs.
        let is_delete = flow_mod.command.is_delete();
        Self {
            match_: flow_mod.match_.clone(),
            strict: is_strict.then_some(flow_mod.priority),
            cookie: flow_mod.cookie,
            cookie_mask: flow_mod.cookie_mask,
            out_port: if is_delete { flow_mod.out_port } else { PortNo::ANY },
            out_group: if is_delete { flow_mod.out_group } else { FlowMod::ANY_GROUP },
            table_id: flow_mod.table_id,
        }
    }

    /// Of a request for flow statistics.
    pub(super) fn of_request(request: &FlowStatsRequest) -> Self {
        Self {
            match_: request.match_.clone(),
            strict: None,
            cookie: request.cookie,
            cookie_mask: request.cookie_mask,
            out_port: request.out_port,
            out_group: request.out_group,
            table_id: request.table_id,
        }
    }

    /// Whether it covers a flow.
    pub(super) fn covers(&self, entry: &Entry) -> bool {
        let listed = entry.listed();
        let match_ = entry.rule.key().to_match();
        let outputs = || {
            entry.rule.actions().into_iter().any(|action| {
                matches!(action, openflow::Action::Output { port, .. } if port == self.out_port)
            })
        };
        matches!(self.table_id, 0 | FlowMod::ALL_TABLES)
            && (listed.cookie ^ self.cookie) & self.cookie_mask == 0
            && match self.strict {
                Some(priority) => listed.priority == priority && match_ == self.match_,
                None => is_within(&match_, &self.match_),
            }
            && self.out_group == FlowMod::ANY_GROUP
            && (self.out_port == PortNo::ANY || outputs())
    }
}

/// Whether each frame of `narrow`, whose fields have no masks, matches `wide`.
fn is_within(narrow: &Match, wide: &Match) -> bool {
    wide.fields().all(|wide| narrow.fields().any(|narrow| is_field_within(&narrow, &wide)))
}

fn is_field_within(narrow: &Field, wide: &Field) -> bool {
    let number =
        |mac: MacAddr| mac.0.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    let is_within = |narrow: u64, (value, mask): (u64, Option<u64>)| {
        (narrow ^ value) & mask.unwrap_or(u64::MAX) == 0
    };
    match (narrow, wide) {
        (Field::EthDst(narrow), Field::EthDst(wide)) => {
            is_within(number(narrow.value), (number(wide.value), wide.mask.map(number)))
        }
        (Field::TunnelId(narrow), Field::TunnelId(wide)) => {
            is_within(narrow.value, (wide.value, wide.mask))
        }
        (narrow, wide) => narrow == wide,
    }
}
