//! Turns the difference between what is wanted and what a switch has into messages.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::super::difference::{Change, Difference, Plan, Stray};
use super::super::entry::{Content, Key};
use super::super::notice::Notice;
use super::super::set::{EntryId, WantedSet};
use super::super::window::Op;
use super::{CHECK_SOON, Listed, Site, Turn, Work};

impl Site {
    /// Queues the messages of a plan, or reports them in a dry run.
    pub(super) fn adopt(&mut self, mut plan: Plan, is_own: bool, turn: &mut Turn<'_, '_, '_>) {
        (self.is_blind, self.first_look) = (false, None);
        if !turn.is_loaded {
            plan.stray.clear();
        }
        let before = plan.missing.len();
        plan.missing.retain(|id| !self.known.unlisted.contains(id));
        if plan.missing.len() < before {
            self.check_by(turn.now() + CHECK_SOON);
        }
        if is_own {
            self.find_listed_otherwise(&mut plan, turn.set);
        }
        self.leave_listed_otherwise(&mut plan);
        if turn.settings.dry_run {
            let (switch, difference) = (self.switch, Difference::of(&plan, turn.set));
            return turn.notices.push(Notice::Difference { switch, difference });
        }
        self.work = Work {
            is_open: true,
            since: turn.now(),
            kept: plan.kept,
            missing: plan.missing.iter().copied().collect(),
            ..Work::default()
        };
        self.enqueue(plan, turn.set);
    }

    /// Finds entries that the switch has confirmed and then lists in another form, such as a match without a field that
    /// it ignores. Removing that flow as a stray would remove the wanted one. The first time may be the work of somebody
    /// else, so the entry is sent again; the second time, the switch lists it so.
    pub(super) fn find_listed_otherwise(&mut self, plan: &mut Plan, set: &WantedSet) {
        let mut found = Vec::new();
        for (id, change) in &plan.changed {
            if let Change::Instructions(listed) | Change::Unreported(listed) = change {
                found.push((*id, Listed::Content(*listed)));
            }
        }
        let taken: HashSet<&Key> = self.known.as_listed.values().filter_map(Listed::key).collect();
        // The strays that may be another form of a missing flow, by what a switch does not change.
        let mut strays: HashMap<(u64, u8, u16), Vec<&Stray>> = HashMap::new();
        for stray in plan.stray.iter().rev().filter(|stray| !taken.contains(&stray.key)) {
            if let Key::Flow { table, priority, .. } = stray.key {
                strays.entry((stray.cookie, table, priority)).or_default().push(stray);
            }
        }
        for id in &plan.missing {
            let Some(entry) = set.get(*id) else { continue };
            let (Content::Flow(flow), Key::Flow { table, priority, .. }) =
                (entry.content(), &entry.key)
            else {
                continue;
            };
            let similar = strays.get_mut(&(flow.cookie, *table, *priority));
            if let Some(stray) = similar.and_then(Vec::pop) {
                found.push((*id, Listed::Flow(stray.clone())));
            }
        }
        let mut left = HashSet::new();
        for (id, listed) in found {
            if self.known.suspected.get(&id) == Some(&listed) {
                self.known.as_listed.insert(id, listed);
                continue;
            }
            if let Listed::Flow(stray) = &listed {
                left.insert(stray.key.clone());
            }
            self.known.suspected.insert(id, listed);
        }
        if !left.is_empty() {
            plan.stray.retain(|stray| !left.contains(&stray.key));
            self.check_by(Duration::ZERO);
        }
    }

    /// Removes from a plan the entries that failed, and those that the switch has as it lists them.
    pub(super) fn leave_listed_otherwise(&mut self, plan: &mut Plan) {
        let is_listed = |id: &EntryId, stray: &[Stray]| match self.known.as_listed.get(id) {
            Some(Listed::Flow(listed)) => stray.contains(listed),
            _ => false,
        };
        plan.missing.retain(|id| !self.known.failed.contains(id) && !is_listed(id, &plan.stray));
        plan.changed.retain(|(id, change)| {
            let is_usual = match (change, self.known.as_listed.get(id)) {
                (
                    Change::Instructions(now) | Change::Unreported(now),
                    Some(Listed::Content(before)),
                ) => now == before,
                _ => false,
            };
            !self.known.failed.contains(id) && !is_usual
        });
        let listed: HashSet<&Key> = self.known.as_listed.values().filter_map(Listed::key).collect();
        plan.stray.retain(|stray| !listed.contains(&stray.key));
    }

    /// Queues a plan: meters and groups before the flows that use them, additions before removals, so that no packet finds
    /// neither the old nor the new flow.
    pub(super) fn enqueue(&mut self, plan: Plan, set: &WantedSet) {
        if !plan.changed.is_empty() || !plan.stray.is_empty() {
            self.sets.join();
        }
        let rank = |id: &EntryId| match set.get(*id).map(|entry| &entry.key) {
            Some(Key::Meter(_)) => 0,
            Some(Key::Group(_)) => 1,
            _ => 2,
        };
        let missing = plan.missing.into_iter().map(|id| (rank(&id), id, Op::Put(id)));
        let changed = plan.changed.into_iter().map(|(id, change)| match change {
            Change::Instructions(_) => (rank(&id), id, Op::Modify(id)),
            Change::Whole | Change::Unreported(_) => (rank(&id), id, Op::Put(id)),
            Change::Timeouts => (rank(&id), id, Op::Replace(id)),
        });
        let mut puts: Vec<_> = missing.chain(changed).collect();
        puts.sort_by_key(|(rank, id, _)| (*rank, *id));
        self.queue.extend(puts.into_iter().map(|(.., op)| op));
        let (flows, others): (Vec<_>, Vec<_>) =
            plan.stray.into_iter().partition(|stray| matches!(stray.key, Key::Flow { .. }));
        self.queue.extend(flows.into_iter().chain(others).map(Op::Remove));
    }
}
