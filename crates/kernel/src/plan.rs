//! Chooses the apps that see a packet-in, and their order. The plan is made from the apps' policies whenever an app is
//! added.
//!
//! A set of apps is a bit for each [`AppSlot`] in a `u64`.

use openflow::ethernet;

use crate::ids::AppSlot;
use control::policy::{Capability, Fail, Policy, Stage};
use control::sabotage::{self, Sabotage};

/// Most apps: a bit each in a [`Set`].
pub(crate) const MAX_APPS: usize = 64;

/// A set of apps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Set(pub(crate) u64);

impl Set {
    pub(crate) const EMPTY: Self = Self(0);

    pub(crate) fn of(app: AppSlot) -> Self {
        Self(1 << app.index())
    }

    pub(crate) fn has(self, app: AppSlot) -> bool {
        self.0 & 1 << app.index() != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn is_at_most_one(self) -> bool {
        self.0 & self.0.wrapping_sub(1) == 0
    }

    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The apps, in the order of their slots.
    pub(crate) fn iter(self) -> impl Iterator<Item = AppSlot> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let next = rest.lowest()?;
            rest.0 &= rest.0 - 1;
            Some(next)
        })
    }

    /// The app with the lowest slot.
    #[inline]
    fn lowest(self) -> Option<AppSlot> {
        (!self.is_empty()).then(|| AppSlot::new(self.0.trailing_zeros() as usize))
    }
}

/// The packet-ins that an app receives: those that its filter selects, of the switches for which it has `packet-in`.
#[derive(Debug)]
struct Selection {
    /// Empty for all.
    ethertypes: Vec<u16>,
    /// The switches, in ascending order; `None` for all.
    dpids: Option<Vec<u64>>,
}

impl Selection {
    /// No packet-in.
    const NOTHING: Self = Self { ethertypes: Vec::new(), dpids: Some(Vec::new()) };

    fn of(policy: &Policy) -> Self {
        let grants =
            || policy.capabilities.iter().filter(|grant| grant.capability == Capability::PacketIn);
        let filter = &policy.filter;
        let mut dpids = if grants().any(|grant| grant.dpids.is_empty()) {
            (!filter.dpids.is_empty()).then(|| filter.dpids.clone())
        } else {
            let granted = grants().flat_map(|grant| grant.dpids.iter().copied());
            let is_selected = |dpid: &u64| filter.dpids.is_empty() || filter.dpids.contains(dpid);
            Some(granted.filter(is_selected).collect())
        };
        if let Some(dpids) = &mut dpids {
            dpids.sort_unstable();
        }
        Self { ethertypes: filter.ethertypes.clone(), dpids }
    }

    fn has_switch(&self, dpid: u64) -> bool {
        self.dpids.as_ref().is_none_or(|dpids| dpids.binary_search(&dpid).is_ok())
    }
}

/// The stages, and each app's selection of packets.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    selections: Vec<Selection>,
    guards: Set,
    /// Guards without whose verdict a packet ends.
    fail_closed: Set,
    controls: Set,
    /// The control apps in the operator's order, each after its rank.
    order: Vec<(u16, AppSlot)>,
    observers: Set,
    /// Whether some app receives certain ethertypes only.
    ethertypes_matter: bool,
    /// Whether some app does not receive all packets.
    selections_matter: bool,
}

/// The apps that receive a packet, by stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) guards: Set,
    pub(crate) controls: Set,
    pub(crate) observers: Set,
}

impl Plan {
    /// Makes the plan from the policies of all apps, attached or not, in the order of their slots; `None` for an app that
    /// receives nothing because it was stopped or removed.
    pub(crate) fn of<'p>(policies: impl Iterator<Item = Option<&'p Policy>>) -> Self {
        let mut plan = Self::default();
        for (index, policy) in policies.enumerate() {
            let slot = AppSlot::new(index);
            let Some(policy) = policy else {
                plan.selections.push(Selection::NOTHING);
                continue;
            };
            let set = Set::of(slot);
            match policy.stage {
                Stage::Guard(fail) => {
                    plan.guards = plan.guards.with(set);
                    if fail == Fail::Closed && !sabotage::is(Sabotage::FailOpen) {
                        plan.fail_closed = plan.fail_closed.with(set);
                    }
                }
                Stage::Control => {
                    plan.controls = plan.controls.with(set);
                    plan.order.push((policy.order, slot));
                }
                Stage::Observe => plan.observers = plan.observers.with(set),
            }
            let selection = Selection::of(policy);
            plan.ethertypes_matter |= !selection.ethertypes.is_empty();
            plan.selections_matter |= plan.ethertypes_matter || selection.dpids.is_some();
            plan.selections.push(selection);
        }
        plan.order.sort_unstable();
        plan
    }

    /// Returns the apps that are to receive this frame of this switch.
    #[inline]
    pub(crate) fn wanted(&self, dpid: u64, frame: &[u8]) -> Wanted {
        if !self.selections_matter {
            let Self { guards, controls, observers, .. } = *self;
            return Wanted { guards, controls, observers };
        }
        self.filtered(dpid, frame)
    }

    fn filtered(&self, dpid: u64, frame: &[u8]) -> Wanted {
        let packet = if self.ethertypes_matter { ethernet::packet(frame) } else { None };
        let mut wants = Set::EMPTY;
        for (index, selection) in self.selections.iter().enumerate() {
            let ethertypes = &selection.ethertypes;
            let type_fits = ethertypes.is_empty()
                || packet.is_some_and(|packet| ethertypes.contains(&packet.ethertype));
            if type_fits && selection.has_switch(dpid) {
                wants = wants.with(Set::of(AppSlot::new(index)));
            }
        }
        Wanted {
            guards: Set(wants.0 & self.guards.0),
            controls: Set(wants.0 & self.controls.0),
            observers: Set(wants.0 & self.observers.0),
        }
    }

    /// Returns the apps that are to receive packets of this switch.
    pub(crate) fn feeds(&self, dpid: u64) -> Set {
        let fed = self.selections.iter().enumerate().filter(|(_, it)| it.has_switch(dpid));
        let fed = fed.fold(Set::EMPTY, |fed, (index, _)| fed.with(Set::of(AppSlot::new(index))));
        let present = self.guards.with(self.controls).with(self.observers);
        Set(fed.0 & present.0)
    }

    /// Returns the guards and control apps among `fed`: their speed decides how much is read at once. Observers send no
    /// answers, so a switch that waits for them is served by nobody meanwhile.
    pub(crate) fn pacing(&self, fed: Set) -> Set {
        fed.without(self.observers)
    }

    /// Whether a packet for `wanted` may have to wait for the verdict of one of them.
    pub(crate) fn holds(&self, wanted: Set) -> bool {
        !Set(wanted.0 & self.guards.0).is_empty()
            || !Set(wanted.0 & self.controls.0).is_at_most_one()
    }

    /// The first of `controls` in the operator's order.
    pub(crate) fn first(&self, controls: Set) -> Option<AppSlot> {
        self.order.iter().map(|(_, slot)| *slot).find(|slot| controls.has(*slot))
    }

    /// Returns the control app that receives every packet of every switch, if no other app receives packets.
    #[inline]
    pub(crate) fn only(&self) -> Option<AppSlot> {
        let Self { guards, controls, observers, selections_matter, .. } = *self;
        let is_alone = !selections_matter
            && guards.is_empty()
            && observers.is_empty()
            && controls.is_at_most_one();
        if is_alone { controls.lowest() } else { None }
    }

    /// All control apps.
    pub(crate) fn controls(&self) -> Set {
        self.controls
    }

    /// Whether a packet goes on without a verdict of this guard.
    pub(crate) fn goes_on_without(&self, guard: AppSlot) -> bool {
        !self.fail_closed.has(guard)
    }
}

#[cfg(test)]
mod tests {
    use control::policy::{Filter, Grant};

    use super::*;

    #[test]
    fn set_is_walked_in_order() {
        let set = Set::of(AppSlot(63)).with(Set::of(AppSlot(0))).with(Set::of(AppSlot(7)));
        assert!(set.iter().eq([0, 7, 63].map(AppSlot)));
        assert!(set.without(Set::of(AppSlot(7))).iter().eq([0, 63].map(AppSlot)));
    }

    #[test]
    fn filters_choose_by_switch_and_by_ethertype_behind_tags() {
        let arp = Filter { ethertypes: vec![0x0806], dpids: vec![] };
        let one = Filter { ethertypes: vec![], dpids: vec![1] };
        let policies = [
            Policy { filter: arp, stage: Stage::Observe, ..Policy::default() },
            Policy { filter: one, ..Policy::default() },
            Policy { stage: Stage::Guard(Fail::Open), ..Policy::default() },
        ];
        let plan = Plan::of(policies.iter().map(Some));
        let mut frame = [0; 22];
        frame[12..14].copy_from_slice(&[0x81, 0]);
        frame[16..18].copy_from_slice(&[0x08, 0x06]);
        let wanted = plan.wanted(2, &frame);
        assert_eq!((wanted.guards, wanted.controls), (Set::of(AppSlot(2)), Set::EMPTY));
        assert_eq!(wanted.observers, Set::of(AppSlot(0)));
        frame[16] = 0x86;
        let wanted = plan.wanted(1, &frame);
        assert_eq!((wanted.controls, wanted.observers), (Set::of(AppSlot(1)), Set::EMPTY));
        assert_eq!(plan.wanted(1, &frame[..13]).observers, Set::EMPTY);
        assert_eq!(plan.feeds(2), Set::of(AppSlot(0)).with(Set::of(AppSlot(2))));
        assert_eq!(
            plan.feeds(1),
            Set::of(AppSlot(0)).with(Set::of(AppSlot(1))).with(Set::of(AppSlot(2)))
        );
    }

    #[test]
    fn packets_come_from_switches_of_the_grant_only() {
        let granted = |dpids: &[u64]| {
            let grant = Grant { dpids: dpids.to_vec(), ..Capability::PacketIn.into() };
            Policy { capabilities: vec![grant], ..Policy::default() }
        };
        let mut filtered = granted(&[1, 2]);
        filtered.filter.dpids = vec![3, 2];
        let none = Policy { capabilities: vec![], ..Policy::default() };
        for (policy, dpids) in [(granted(&[2, 1]), &[1, 2][..]), (filtered, &[2]), (none, &[])] {
            let plan = Plan::of([Some(&policy)].into_iter());
            assert_eq!(plan.only(), None);
            for dpid in 0..4 {
                let is_fed = dpids.contains(&dpid);
                assert_eq!(!plan.feeds(dpid).is_empty(), is_fed, "{dpid}");
                assert_eq!(!plan.wanted(dpid, &[0; 60]).controls.is_empty(), is_fed, "{dpid}");
            }
        }
    }

    #[test]
    fn only_app_is_a_control_app_without_a_filter() {
        let control = || Policy::default();
        let observer = || Policy { stage: Stage::Observe, ..Policy::default() };
        let filter = Filter { ethertypes: vec![], dpids: vec![1] };
        let filtered = || Policy { filter: filter.clone(), ..Policy::default() };
        let only = |policies: &[Policy]| Plan::of(policies.iter().map(Some)).only();
        assert_eq!(only(&[control()]), Some(AppSlot(0)));
        for others in [
            &[][..],
            &[observer()],
            &[filtered()],
            &[control(), control()],
            &[control(), observer()],
            &[control(), filtered()],
            &[control(), Policy { stage: Stage::Guard(Fail::Open), ..Policy::default() }],
        ] {
            assert_eq!(only(others), None, "{others:?}");
        }
    }

    #[test]
    fn absent_app_receives_nothing() {
        let guard = Policy { stage: Stage::Guard(Fail::Closed), ..Policy::default() };
        let (control, observer) =
            (Policy::default(), Policy { stage: Stage::Observe, ..Policy::default() });
        let plan = Plan::of([None, Some(&control), None].into_iter());
        assert_eq!((plan.only(), plan.feeds(1)), (Some(AppSlot(1)), Set::of(AppSlot(1))));
        let plan = Plan::of([Some(&guard), None, Some(&observer)].into_iter());
        let wanted = plan.wanted(1, &[0; 14]);
        assert_eq!((wanted.guards, wanted.controls), (Set::of(AppSlot(0)), Set::EMPTY));
        assert_eq!(plan.feeds(1), Set::of(AppSlot(0)).with(Set::of(AppSlot(2))));
    }

    #[test]
    fn control_apps_come_in_the_operators_order() {
        let at = |order| Policy { order, ..Policy::default() };
        let policies = [at(7), at(3), at(5)];
        let plan = Plan::of(policies.iter().map(Some));
        assert_eq!(plan.first(plan.controls()), Some(AppSlot(1)));
        assert_eq!(plan.first(plan.controls().without(Set::of(AppSlot(1)))), Some(AppSlot(2)));
        assert_eq!(plan.first(Set::EMPTY), None);
    }
}
