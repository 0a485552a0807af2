//! Chooses the apps that see a packet-in, and their order. The plan is made from the apps' policies whenever an app is
//! added.
//!
//! App ports are named by their place in the worker's list; a set of app ports is a bit each in a `u64`.

use openflow::ethernet;

use control::policy::{Fail, Filter, Policy, Stage};

/// Most apps: a bit each in a [`Set`].
pub(crate) const MAX_LINKS: usize = 64;

/// A set of app ports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Set(pub(crate) u64);

impl Set {
    pub(crate) const EMPTY: Self = Self(0);

    pub(crate) fn of(app_port: usize) -> Self {
        Self(1 << app_port)
    }

    pub(crate) fn has(self, app_port: usize) -> bool {
        self.0 & 1 << app_port != 0
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

    /// The app ports, in the order of their places.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let next = (left != 0).then_some(left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(next)
        })
    }
}

/// The stages, and each app's filter.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    filters: Vec<Filter>,
    guards: Set,
    /// Guards whose silence ends a packet.
    fail_closed: Set,
    controls: Set,
    /// The control apps in the operator's order, behind their place in it.
    order: Vec<(u16, usize)>,
    observers: Set,
    /// Whether some filter asks for ethertypes.
    ethertypes_matter: bool,
    /// Whether some filter asks for anything.
    filters_matter: bool,
}

/// Who wants a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) guards: Set,
    pub(crate) controls: Set,
    pub(crate) observers: Set,
}

impl Plan {
    /// Of the apps there are, connected or not.
    pub(crate) fn of<'p>(policies: impl Iterator<Item = &'p Policy>) -> Self {
        let mut plan = Self::default();
        for (place, policy) in policies.enumerate() {
            let set = Set::of(place);
            match policy.stage {
                Stage::Guard(fail) => {
                    plan.guards = plan.guards.with(set);
                    if fail == Fail::Closed {
                        plan.fail_closed = plan.fail_closed.with(set);
                    }
                }
                Stage::Control => {
                    plan.controls = plan.controls.with(set);
                    plan.order.push((policy.order, place));
                }
                Stage::Observe => plan.observers = plan.observers.with(set),
            }
            plan.filters_matter |= policy.filter != Filter::default();
            plan.ethertypes_matter |= !policy.filter.ethertypes.is_empty();
            plan.filters.push(policy.filter.clone());
        }
        plan.order.sort_unstable();
        plan
    }

    /// Who wants a packet of this switch with this frame.
    #[inline]
    pub(crate) fn wanted(&self, dpid: u64, frame: &[u8]) -> Wanted {
        if !self.filters_matter {
            let Self { guards, controls, observers, .. } = *self;
            return Wanted { guards, controls, observers };
        }
        self.filtered(dpid, frame)
    }

    fn filtered(&self, dpid: u64, frame: &[u8]) -> Wanted {
        let packet = if self.ethertypes_matter { ethernet::packet(frame) } else { None };
        let mut wants = Set::EMPTY;
        for (place, filter) in self.filters.iter().enumerate() {
            let dpid_fits = filter.dpids.is_empty() || filter.dpids.contains(&dpid);
            let type_fits = filter.ethertypes.is_empty()
                || packet.is_some_and(|packet| filter.ethertypes.contains(&packet.ethertype));
            if dpid_fits && type_fits {
                wants = wants.with(Set::of(place));
            }
        }
        Wanted {
            guards: Set(wants.0 & self.guards.0),
            controls: Set(wants.0 & self.controls.0),
            observers: Set(wants.0 & self.observers.0),
        }
    }

    /// Who wants any packet of this switch.
    pub(crate) fn feeds(&self, dpid: u64) -> Set {
        let fits = |filter: &Filter| filter.dpids.is_empty() || filter.dpids.contains(&dpid);
        let fed = self.filters.iter().enumerate().filter(|(_, filter)| fits(filter));
        fed.fold(Set::EMPTY, |fed, (place, _)| fed.with(Set::of(place)))
    }

    /// Those of these apps whose speed decides how much is read at once: guards and control apps. Observers answer
    /// nothing, so a switch that waited long for them would hear nothing meanwhile.
    pub(crate) fn pacing(&self, fed: Set) -> Set {
        fed.without(self.observers)
    }

    /// Whether packets for all of these may have to wait for what one of them says.
    pub(crate) fn holds(&self, wanted: Set) -> bool {
        !Set(wanted.0 & self.guards.0).is_empty()
            || !Set(wanted.0 & self.controls.0).is_at_most_one()
    }

    /// The first of `controls` in the operator's order.
    pub(crate) fn first(&self, controls: Set) -> Option<usize> {
        self.order.iter().map(|(_, place)| *place).find(|place| controls.has(*place))
    }

    /// The app that gets every packet of every switch, if no other gets any.
    #[inline]
    pub(crate) fn only(&self) -> Option<usize> {
        let Self { guards, controls, observers, filters_matter, .. } = *self;
        let is = !filters_matter && guards.is_empty() && observers.is_empty();
        (is && !controls.is_empty() && controls.is_at_most_one())
            .then(|| controls.0.trailing_zeros() as usize)
    }

    /// All control apps.
    pub(crate) fn controls(&self) -> Set {
        self.controls
    }

    /// Whether a packet goes on if this guard says nothing about it.
    pub(crate) fn goes_on_without(&self, guard: usize) -> bool {
        !self.fail_closed.has(guard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn set_is_walked_in_order() {
        let set = Set::of(63).with(Set::of(0)).with(Set::of(7));
        assert!(set.iter().eq([0, 7, 63]));
        assert!(set.without(Set::of(7)).iter().eq([0, 63]));
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
        let plan = Plan::of(policies.iter());
        let mut frame = [0; 22];
        frame[12..14].copy_from_slice(&[0x81, 0]);
        frame[16..18].copy_from_slice(&[0x08, 0x06]);
        let wanted = plan.wanted(2, &frame);
        assert_eq!((wanted.guards, wanted.controls), (Set::of(2), Set::EMPTY));
        assert_eq!(wanted.observers, Set::of(0));
        frame[16] = 0x86;
        let wanted = plan.wanted(1, &frame);
        assert_eq!((wanted.controls, wanted.observers), (Set::of(1), Set::EMPTY));
        assert_eq!(plan.wanted(1, &frame[..13]).observers, Set::EMPTY);
        assert_eq!(plan.feeds(2), Set::of(0).with(Set::of(2)));
        assert_eq!(plan.feeds(1), Set::of(0).with(Set::of(1)).with(Set::of(2)));
    }

    #[test]
    fn only_app_is_a_control_app_without_a_filter() {
        let control = || Policy::default();
        let observer = || Policy { stage: Stage::Observe, ..Policy::default() };
        let filter = Filter { ethertypes: vec![], dpids: vec![1] };
        let filtered = || Policy { filter: filter.clone(), ..Policy::default() };
        let only = |policies: &[Policy]| Plan::of(policies.iter()).only();
        assert_eq!(only(&[control()]), Some(0));
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
    fn control_apps_come_in_the_operators_order() {
        let at = |order| Policy { order, ..Policy::default() };
        let policies = [at(7), at(3), at(5)];
        let plan = Plan::of(policies.iter());
        assert_eq!(plan.first(plan.controls()), Some(1));
        assert_eq!(plan.first(plan.controls().without(Set::of(1))), Some(2));
        assert_eq!(plan.first(Set::EMPTY), None);
    }
}
