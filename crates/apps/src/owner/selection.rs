//! Decides which flows a modify or delete covers.
//!
//! OpenFlow 1.3.5 §6.4: a strict command covers the flow with exactly its match and priority; another covers each flow whose
//! match is as specific as its own or more. The table, the cookie and, for a delete, an output restrict it further.

use rosemary_sdk::openflow::FlowModCommand;
use rosemary_sdk::openflow::oxm::Oxm;
use rosemary_sdk::{Action, FlowMod, Match, PortNo};

/// Whether `request`, a modify or delete, covers `flow`. Both have priorities of the same numbering.
pub(super) fn covers(request: &FlowMod<'_>, flow: &FlowMod<'_>) -> bool {
    let is_strict =
        matches!(request.command, FlowModCommand::ModifyStrict | FlowModCommand::DeleteStrict);
    let is_table = request.table_id == flow.table_id
        || request.command.is_delete() && request.table_id == FlowMod::ALL_TABLES;
    let is_match = if is_strict {
        request.priority == flow.priority && request.match_ == flow.match_
    } else {
        is_within(&flow.match_, &request.match_)
    };
    let is_cookie = (request.cookie ^ flow.cookie) & request.cookie_mask == 0;
    is_table && is_match && is_cookie && (!request.command.is_delete() || has_output(request, flow))
}

/// Whether a flow has the output to which a delete is restricted.
fn has_output(request: &FlowMod<'_>, flow: &FlowMod<'_>) -> bool {
    let instructions = &flow.instructions;
    let mut actions = instructions.apply.iter().chain(instructions.write.iter());
    if request.out_port != PortNo::ANY {
        return actions.any(|action| match action {
            Action::Output { port, .. } | Action::Enqueue { port, .. } => port == request.out_port,
            _ => false,
        });
    }
    request.out_group == FlowMod::ANY_GROUP
        || actions.any(|action| action == Action::Group(request.out_group))
}

/// Whether every packet that `one` accepts is accepted by `other`, as far as their fields tell.
fn is_within(one: &Match, other: &Match) -> bool {
    other.oxms().all(|wide| {
        let is_it = |oxm: &Oxm<'_>| (oxm.class, oxm.field) == (wide.class, wide.field);
        one.oxms().find(is_it).is_some_and(|narrow| is_narrower(&narrow, &wide))
    })
}

/// Whether a condition on a field implies another on the same field.
fn is_narrower(narrow: &Oxm<'_>, wide: &Oxm<'_>) -> bool {
    let ((value, mask), (wide_value, wide_mask)) = (narrow.value_and_mask(), wide.value_and_mask());
    let byte =
        |mask: Option<&[u8]>, at: usize| mask.map_or(Some(0xff), |mask| mask.get(at).copied());
    value.len() == wide_value.len()
        && value.iter().zip(wide_value).enumerate().all(|(at, (value, wide_value))| {
            let (Some(mask), Some(wide_mask)) = (byte(mask, at), byte(wide_mask, at)) else {
                return false;
            };
            wide_mask & !mask == 0 && (value ^ wide_value) & wide_mask == 0
        })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use rosemary_sdk::openflow::{Field, Masked};

    use super::*;

    fn net(last: u8, mask: [u8; 4]) -> Match {
        let masked = Masked::new(Ipv4Addr::new(10, 0, 0, last), Ipv4Addr::from(mask));
        Match::new().eth_type(0x800).with(&Field::Ipv4Dst(masked))
    }

    #[test]
    fn wider_match_covers_narrower_one() {
        let (wide, narrow) = (net(0, [255, 255, 255, 0]), net(1, [255; 4]));
        let add = FlowMod::add(narrow.clone()).priority(7).cookie(5);
        for (request, is_covered) in [
            (FlowMod::delete(Match::new()), true),
            (FlowMod::delete(wide.clone()), true),
            (FlowMod::delete(wide.clone()).table(1), false),
            (FlowMod::delete(wide.clone()).table(FlowMod::ALL_TABLES), true),
            (FlowMod::delete(wide.clone()).only_cookie(4, 4), true),
            (FlowMod::delete(wide.clone()).only_cookie(2, 2), false),
            (FlowMod::delete(net(2, [255; 4])), false),
            (FlowMod::delete(narrow.clone().in_port(PortNo(1))), false),
            (FlowMod::new(FlowModCommand::Modify, wide.clone()), true),
            (FlowMod::new(FlowModCommand::DeleteStrict, narrow.clone()).priority(7), true),
            (FlowMod::new(FlowModCommand::DeleteStrict, narrow.clone()).priority(8), false),
            (FlowMod::new(FlowModCommand::ModifyStrict, wide.clone()).priority(7), false),
        ] {
            assert_eq!(covers(&request, &add), is_covered, "{request:?}");
        }
        let wide_flow = FlowMod::add(wide);
        assert!(!covers(&FlowMod::delete(narrow), &wide_flow), "the flow is wider");
    }

    #[test]
    fn delete_may_be_restricted_to_an_output() {
        let out = [Action::output(PortNo(2)), Action::Group(3)];
        let flow = FlowMod::add(Match::new()).apply(&out);
        let all = FlowMod::delete(Match::new());
        assert!(covers(&all.clone().out_port(PortNo(2)), &flow));
        assert!(!covers(&all.clone().out_port(PortNo(3)), &flow));
        assert!(covers(&FlowMod { out_group: 3, ..all.clone() }, &flow));
        assert!(!covers(&FlowMod { out_group: 4, ..all }, &flow));
    }
}
