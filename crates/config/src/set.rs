//! Judges whether the apps that are to run fit together: whether a guard guards, and whether packets are forwarded once.
//!
//! Each app may be valid by itself while all of them together let denied packets pass or send packets twice. The role
//! and the needs of an app stand in its manifest, in [`shipped`](super::shipped) or in its `[[app]]` ([`role`](super::role)).
//!
//! A fault is an error where denied packets would pass or packets would double. It is a warning where the network may not do what was
//! meant. `allow` in the `[[app]]` of an app that the fault names makes it neither.

use control::policy::{Band, Capability, Policy, Stage};
use names::{Service, Southbound};
use openflow::Dpid;

use super::app::AppConfig;
use super::role::{Need, Role};

/// A way in which apps do not fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An app that guards is in another stage than the guards.
    GuardStage,
    /// An app that forwards is not in the stage `control`.
    ForwarderStage,
    /// Two apps forward the same packets.
    TwoForwarders,
    /// Flows of an app precede those of a guard.
    AboveGuard,
    /// An app lacks what it needs.
    MissingNeed,
    /// There is a guard, and no app forwards what it passes.
    NoForwarder,
    /// A guard receives no packet that an app forwards, and writes no flows.
    GuardsNothing,
    /// An app comes after a forwarder of all its packets.
    AfterForwarder,
    /// An app that decides about packets names a switch that sends none.
    NoPackets,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 9] = [
        Self::GuardStage,
        Self::ForwarderStage,
        Self::TwoForwarders,
        Self::AboveGuard,
        Self::MissingNeed,
        Self::NoForwarder,
        Self::GuardsNothing,
        Self::AfterForwarder,
        Self::NoPackets,
    ];

    /// Its name in `allow`.
    pub fn name(self) -> &'static str {
        match self {
            Self::GuardStage => "guard-stage",
            Self::ForwarderStage => "forwarder-stage",
            Self::TwoForwarders => "two-forwarders",
            Self::AboveGuard => "above-guard",
            Self::MissingNeed => "missing-need",
            Self::NoForwarder => "no-forwarder",
            Self::GuardsNothing => "guards-nothing",
            Self::AfterForwarder => "after-forwarder",
            Self::NoPackets => "no-packets",
        }
    }

    /// Returns the fault with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// The key in the `[[app]]` that the operator most likely changes.
    pub fn key(self) -> &'static str {
        match self {
            Self::GuardStage | Self::ForwarderStage => "stage",
            Self::AboveGuard => "band",
            Self::NoPackets => "dpids",
            _ => "name",
        }
    }
}

/// A fault of the apps that are to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetFault {
    /// Its kind.
    pub fault: Fault,
    /// Whether denied packets would pass or packets would double; otherwise it is a warning.
    pub is_error: bool,
    /// The apps that it names, the one to change first.
    pub apps: Vec<String>,
    /// What would happen, and what to do, as a phrase.
    pub what: String,
}

impl std::fmt::Display for SetFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let app = self.apps.first().map_or("", String::as_str);
        let allow = self.fault.name();
        write!(
            f,
            "{}; if you mean it, write allow = [{allow:?}] into the [[app]] of {app}",
            self.what
        )
    }
}

/// The apps that are to run, in their order.
struct Set<'a> {
    all: &'a [AppConfig],
    running: Vec<Member<'a>>,
}

/// An app that is to run.
#[derive(Clone, Copy)]
struct Member<'a> {
    app: &'a AppConfig,
    band: Band,
}

/// Returns the faults of the enabled apps among `apps`. `policies` has the policy of each app.
pub(super) fn judge(apps: &[AppConfig], policies: &[Policy]) -> Vec<SetFault> {
    let enabled = apps.iter().zip(policies).filter(|(app, _)| app.enabled);
    let running = enabled.map(|(app, policy)| Member { app, band: policy.band }).collect();
    let set = Set { all: apps, running };
    let mut faults = set.wrong_stages();
    faults.extend(set.two_forwarders());
    faults.extend(set.above_guards());
    faults.extend(set.missing_needs());
    faults.extend(set.useless_guards());
    faults.extend(set.after_forwarders());
    faults.extend(set.without_packets());
    let is_allowed = |fault: &SetFault| {
        let allows = |app: &&AppConfig| fault.apps.contains(&app.name);
        apps.iter().filter(allows).any(|app| app.allow.contains(&fault.fault))
    };
    faults.retain(|fault| !is_allowed(fault));
    faults
}

impl<'a> Set<'a> {
    fn guards(&self) -> impl Iterator<Item = Member<'a>> {
        self.running.iter().copied().filter(Member::is_in_guard_stage)
    }

    fn forwarders(&self) -> impl Iterator<Item = Member<'a>> {
        self.running.iter().copied().filter(|it| it.app.role == Role::Forwarder && it.can_send())
    }

    /// The apps that may forward packets: forwarders, and apps whose role is unknown.
    fn may_forward(&self) -> impl Iterator<Item = Member<'a>> {
        let may = |it: &Member<'_>| match it.app.stage {
            Stage::Guard(_) => false,
            Stage::Control => it.app.role != Role::Guard && it.can_send(),
            Stage::Observe => it.app.writes_flows(),
        };
        self.running.iter().copied().filter(may)
    }

    /// Guards beside the guards' stage, and forwarders beside the control stage.
    fn wrong_stages(&self) -> Vec<SetFault> {
        let mut faults = Vec::new();
        for it in &self.running {
            let name = &it.app.name;
            if it.app.role == Role::Guard && !it.is_in_guard_stage() {
                let what = format!(
                    "{name} is a guard and not in the stage of the guards, so packets that it denies would pass: before it in the \
                     order, in flows of higher priority, and while it does not run; write stage = \"guard\""
                );
                faults.push(SetFault::error(Fault::GuardStage, &[it], what));
            }
            let is_misplaced = it.app.role == Role::Forwarder && it.app.stage != Stage::Control;
            if is_misplaced && it.can_send() {
                let what = format!(
                    "{name} forwards packets and is not in the stage \"control\", so it would forward packets that guards \
                     deny, or that another app forwards, too; remove `stage`"
                );
                faults.push(SetFault::error(Fault::ForwarderStage, &[it], what));
            } else if is_misplaced {
                let what =
                    format!("{name} forwards packets, and an observer sends none; remove `stage`");
                faults.push(SetFault::warning(Fault::ForwarderStage, &[it], what));
            }
        }
        faults
    }

    fn two_forwarders(&self) -> Vec<SetFault> {
        let forwarders: Vec<Member<'_>> =
            self.forwarders().filter(|it| it.app.stage == Stage::Control).collect();
        let mut faults = Vec::new();
        for (place, second) in forwarders.iter().enumerate() {
            let both = |first: &&Member<'_>| first.reach().meets(&second.reach());
            if let Some(first) = forwarders.iter().take(place).find(both) {
                let what = format!(
                    "{} and {} both forward packets, so packets would be duplicated, on a ring without end; disable one of them, \
                     or give them different switches with `dpids`",
                    second.app.name, first.app.name
                );
                faults.push(SetFault::error(Fault::TwoForwarders, &[second, first], what));
            }
        }
        faults
    }

    fn above_guards(&self) -> Vec<SetFault> {
        let mut faults = Vec::new();
        let others =
            self.running.iter().filter(|it| !it.is_in_guard_stage() && it.app.writes_flows());
        for other in others {
            let is_below = |guard: &Member<'_>| {
                guard.app.writes_flows()
                    && guard.band != Band::NONE
                    && guard.band.highest < other.band.highest
                    && guard.switches_of_flows().meets(&other.switches_of_flows())
            };
            if let Some(guard) = self.guards().find(is_below) {
                let what = format!(
                    "the flows of {} have the priorities {} to {} and precede those of the guard {}, {} to {}, so packets that it \
                     denies would pass; give the guard the higher `band`",
                    other.app.name,
                    other.band.lowest,
                    other.band.highest,
                    guard.app.name,
                    guard.band.lowest,
                    guard.band.highest
                );
                faults.push(SetFault::error(Fault::AboveGuard, &[other, &guard], what));
            }
        }
        faults
    }

    /// Apps that lack what they need. Without it, packets that a guard denies would pass; other apps are only of no use.
    fn missing_needs(&self) -> Vec<SetFault> {
        let mut faults = Vec::new();
        for it in &self.running {
            let name = &it.app.name;
            for need in &it.app.needs {
                let what = if !need.is_met_by(it.app) {
                    format!("{name} needs {need} and does not have it")
                } else if self.is_disabled(*need) {
                    format!("{name} needs {need}, whose app is disabled")
                } else {
                    continue;
                };
                let is_guard = it.app.role == Role::Guard || it.is_in_guard_stage();
                faults.push(if is_guard {
                    let what = format!("{what}, so packets that it is to deny would pass; add it");
                    SetFault::error(Fault::MissingNeed, &[it], what)
                } else {
                    let what = format!("{what}, so it cannot do its work; add it");
                    SetFault::warning(Fault::MissingNeed, &[it], what)
                });
            }
        }
        faults
    }

    /// Whether the operator has disabled the app that provides a service.
    fn is_disabled(&self, need: Need) -> bool {
        let Need::Service(service) = need else { return false };
        let provider = service.table_slots().map(|_| Service::name(service));
        provider.is_some_and(|name| self.all.iter().any(|app| app.name == name && !app.enabled))
    }

    fn useless_guards(&self) -> Vec<SetFault> {
        let mut faults = Vec::new();
        let is_passive = self.may_forward().next().is_none();
        for guard in self.guards() {
            let name = &guard.app.name;
            if is_passive {
                let what = format!(
                    "no app forwards the packets that the guard {name} passes, so switches drop them; add an [[app]] that forwards, \
                     such as \"forwarding\""
                );
                faults.push(SetFault::warning(Fault::NoForwarder, &[&guard], what));
            } else if !guard.app.writes_flows()
                && !self.may_forward().any(|it| it.reach().meets(&guard.reach()))
            {
                let what = format!(
                    "the guard {name} receives no packet that an app forwards, so it guards nothing; correct its `dpids` or `ethertypes`"
                );
                faults.push(SetFault::warning(Fault::GuardsNothing, &[&guard], what));
            }
        }
        faults
    }

    fn after_forwarders(&self) -> Vec<SetFault> {
        let mut faults = Vec::new();
        let control: Vec<&Member<'_>> =
            self.running.iter().filter(|it| it.app.stage == Stage::Control).collect();
        for (place, it) in control.iter().enumerate().filter(|(_, it)| it.app.role == Role::Other) {
            let covers = |first: &&&Member<'_>| {
                first.app.role == Role::Forwarder && first.reach().covers(&it.reach())
            };
            if let Some(first) = control.iter().take(place).find(covers) {
                let (name, first_name) = (&it.app.name, &first.app.name);
                let what = format!(
                    "{name} follows {first_name}, so it receives no packet that {first_name} forwards, and its flows have lower \
                     priorities; move its [[app]] before that of {first_name}"
                );
                faults.push(SetFault::warning(Fault::AfterForwarder, &[it, first], what));
            }
        }
        faults
    }
}

impl Set<'_> {
    /// Apps that need packet-ins of a device that sends none.
    fn without_packets(&self) -> Vec<SetFault> {
        let mut faults = Vec::new();
        for it in &self.running {
            let probes =
                |grant: &control::policy::Grant| grant.capability == Capability::TopologyProbe;
            let needs = it.app.stage != Stage::Observe || it.app.capabilities.iter().any(probes);
            let Selection::These(dpids) = it.reach().dpids else { continue };
            let silent = dpids.into_iter().find(|it| Southbound::of_datapath(*it).is_some());
            if let Some(dpid) = silent.filter(|_| needs) {
                let (name, dpid) = (&it.app.name, Dpid(dpid));
                let what = format!(
                    "{name} needs packet-ins of {dpid}, a hardware_vtep device, which sends no packets to a controller and takes none \
                     from it; remove the device from its `dpids` and from the scope of \"packet-in\""
                );
                faults.push(SetFault::error(Fault::NoPackets, &[it], what));
            }
        }
        faults
    }
}

impl Member<'_> {
    fn is_in_guard_stage(&self) -> bool {
        matches!(self.app.stage, Stage::Guard(_))
    }

    /// Whether it has a capability with which packets reach a destination.
    fn can_send(&self) -> bool {
        let sends = |it: &control::policy::Grant| it.capability == Capability::PacketOut;
        self.app.writes_flows() || self.app.capabilities.iter().any(sends)
    }

    /// The packets that it receives.
    fn reach(&self) -> Reach {
        let packet_in = Some(Capability::PacketIn);
        let granted = self.switches_of(|it| Some(it) == packet_in);
        let chosen = Selection::of(&self.app.filter.dpids);
        Reach {
            dpids: granted.and(&chosen),
            ethertypes: Selection::of(&self.app.filter.ethertypes),
        }
    }

    /// The switches whose flows it may write.
    fn switches_of_flows(&self) -> Selection<u64> {
        self.switches_of(|it| matches!(it, Capability::FlowWrite | Capability::FlowWriteAny))
    }

    /// The switches for which it has one of these capabilities.
    fn switches_of(&self, is_it: impl Fn(Capability) -> bool) -> Selection<u64> {
        let grants = self.app.capabilities.iter().filter(|it| is_it(it.capability));
        let mut dpids = Vec::new();
        for grant in grants {
            if grant.dpids.is_empty() {
                return Selection::All;
            }
            dpids.extend_from_slice(&grant.dpids);
        }
        Selection::These(dpids)
    }
}

/// The packets that an app receives.
struct Reach {
    dpids: Selection<u64>,
    ethertypes: Selection<u16>,
}

impl Reach {
    fn meets(&self, other: &Self) -> bool {
        self.dpids.meets(&other.dpids) && self.ethertypes.meets(&other.ethertypes)
    }

    fn covers(&self, other: &Self) -> bool {
        self.dpids.covers(&other.dpids) && self.ethertypes.covers(&other.ethertypes)
    }
}

/// Some or all values of a kind.
enum Selection<T> {
    All,
    These(Vec<T>),
}

impl<T: Copy + PartialEq> Selection<T> {
    /// The values of a filter, in which an empty list means all.
    fn of(list: &[T]) -> Self {
        if list.is_empty() { Self::All } else { Self::These(list.to_vec()) }
    }

    fn has(&self, value: T) -> bool {
        match self {
            Self::All => true,
            Self::These(values) => values.contains(&value),
        }
    }

    fn and(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, Self::All) => Self::All,
            (Self::These(values), set) | (set, Self::These(values)) => {
                Self::These(values.iter().copied().filter(|it| set.has(*it)).collect())
            }
        }
    }

    fn meets(&self, other: &Self) -> bool {
        !matches!(self.and(other), Self::These(values) if values.is_empty())
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (Self::These(_), Self::All) => false,
            (_, Self::These(values)) => values.iter().all(|it| self.has(*it)),
        }
    }
}

impl SetFault {
    fn error(fault: Fault, apps: &[&Member<'_>], what: String) -> Self {
        Self { fault, is_error: true, apps: names(apps), what }
    }

    fn warning(fault: Fault, apps: &[&Member<'_>], what: String) -> Self {
        Self { fault, is_error: false, apps: names(apps), what }
    }
}

fn names(apps: &[&Member<'_>]) -> Vec<String> {
    apps.iter().map(|it| it.app.name.clone()).collect()
}

#[cfg(test)]
#[path = "set/tests.rs"]
mod tests;
