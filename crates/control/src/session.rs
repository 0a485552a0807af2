//! Sessions: what is reserved for a group of apps, the keys by which it is set, and the reports about it.
//!
//! A session is a row of reservations with members (RCANE, "The Price of Safety in an Active Network", sections II and IV). Two always
//! exist: `system` for Rosemary's own programs, and `best-effort` for apps without a session. `supervisor::sessions` admits and refuses.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The session of Rosemary's own programs.
pub const SYSTEM: &str = "system";

/// The session of apps that name none.
pub const BEST_EFFORT: &str = "best-effort";

/// Maximum number of configured sessions.
pub const MOST_SESSIONS: usize = 32;

/// The number of a session, computed from its name. So a session keeps its number when others are added or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SessionId(u32);

impl SessionId {
    /// Rosemary's own programs.
    pub const SYSTEM: Self = Self::of(SYSTEM);

    /// The apps without a session.
    pub const BEST_EFFORT: Self = Self::of(BEST_EFFORT);

    /// The number of the session with this name: FNV-1a of 32 bits. The configuration refuses two names with the same number.
    pub const fn of(name: &str) -> Self {
        let bytes = name.as_bytes();
        let mut hash: u32 = 0x811c_9dc5;
        let mut at = 0;
        // A `const fn` has no iterators.
        while at < bytes.len() {
            hash = (hash ^ bytes[at] as u32).wrapping_mul(0x0100_0193);
            at += 1;
        }
        Self(hash)
    }
}

impl Default for SessionId {
    fn default() -> Self {
        Self::BEST_EFFORT
    }
}

/// A resource that sessions can reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Resource {
    /// Processor time, in [billionths](PROCESSOR) of a processor.
    #[serde(rename = "cpu")]
    Cpu,
    /// Packet-ins, in percent of all.
    #[serde(rename = "packet-ins-percent")]
    PacketIns,
    /// Bytes per second from switches.
    #[serde(rename = "received-bytes-per-second")]
    Received,
    /// Bytes per second to switches.
    #[serde(rename = "sent-bytes-per-second")]
    Sent,
    /// Packet-outs per second.
    #[serde(rename = "packet-outs-per-second")]
    PacketOuts,
    /// Bytes of rings.
    #[serde(rename = "ring-bytes")]
    Rings,
    /// Bytes of memory.
    #[serde(rename = "memory")]
    Memory,
    /// Bytes on the disk of the state directory.
    #[serde(rename = "storage")]
    Storage,
    /// Open descriptors.
    #[serde(rename = "descriptors")]
    Descriptors,
}

/// The amount of [`Resource::Cpu`] that is one processor.
pub const PROCESSOR: u64 = 1_000_000_000;

impl Resource {
    /// All resources.
    pub const ALL: [Self; 9] = [
        Self::Cpu,
        Self::PacketIns,
        Self::Received,
        Self::Sent,
        Self::PacketOuts,
        Self::Rings,
        Self::Memory,
        Self::Storage,
        Self::Descriptors,
    ];

    /// The name; for all but processor time the key in `[session.NAME]`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::PacketIns => "packet-ins-percent",
            Self::Received => "received-bytes-per-second",
            Self::Sent => "sent-bytes-per-second",
            Self::PacketOuts => "packet-outs-per-second",
            Self::Rings => "ring-bytes",
            Self::Memory => "memory",
            Self::Storage => "storage",
            Self::Descriptors => "descriptors",
        }
    }

    /// The resource with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Whether the session receives what it reserves. The other amounts are admitted, and only an app's limits bound its use.
    pub fn is_enforced(self) -> bool {
        matches!(self, Self::Cpu | Self::PacketIns | Self::Sent)
    }

    /// Whether amounts are bytes, or bytes per second.
    pub fn is_bytes(self) -> bool {
        matches!(self, Self::Received | Self::Sent | Self::Rings | Self::Memory | Self::Storage)
    }

    /// An amount for people.
    pub fn shown(self, amount: u64) -> String {
        match self {
            Self::Cpu => {
                let thousandths = amount / (PROCESSOR / 1_000);
                format!("{}.{:03} processors", thousandths / 1_000, thousandths % 1_000)
            }
            Self::PacketIns => format!("{amount} %"),
            _ if self.is_bytes() => bytes(amount),
            _ => amount.to_string(),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Formats bytes in the largest unit in which the number is whole.
fn bytes(amount: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = |(shift, _): &(u32, &str)| amount > 0 && amount.is_multiple_of(1 << shift);
    match units.into_iter().find(whole) {
        Some((shift, unit)) => format!("{} {unit}", amount >> shift),
        None => format!("{amount} B"),
    }
}

/// Reserved processor time: each virtual processor of the session receives `runtime_us` in each `period_us`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuReservation {
    /// Microseconds of processor time per period.
    pub runtime_us: u64,
    /// The period in microseconds.
    pub period_us: u64,
    /// The number of virtual processors.
    pub processors: u16,
    /// The weight of the session for best-effort time beyond the reservation, where 100 is that of an app without a session;
    /// 0 for none. It is that of the whole reservation.
    pub extra: u16,
}

impl CpuReservation {
    /// One virtual processor without time beyond the reservation.
    pub fn new(runtime_us: u64, period_us: u64) -> Self {
        Self { runtime_us, period_us, processors: 1, extra: 0 }
    }

    /// The share of one virtual processor in billionths of a processor, rounded up.
    pub fn share(&self) -> u64 {
        let share = u128::from(self.runtime_us) * u128::from(PROCESSOR);
        let share = share.div_ceil(u128::from(self.period_us.max(1)));
        u64::try_from(share).unwrap_or(u64::MAX)
    }

    /// The shares of all virtual processors together.
    pub fn total(&self) -> u64 {
        self.share().saturating_mul(self.processors.into())
    }

    /// Processor time per period.
    pub fn runtime(&self) -> Duration {
        Duration::from_micros(self.runtime_us)
    }

    /// The period.
    pub fn period(&self) -> Duration {
        Duration::from_micros(self.period_us)
    }
}

/// The keys of `[session.NAME]` and of `rosemary session set`.
pub const SESSION_KEYS: [&str; 12] = [
    "runtime-us",
    "period-us",
    "processors",
    "extra",
    "packet-ins-percent",
    "received-bytes-per-second",
    "sent-bytes-per-second",
    "packet-outs-per-second",
    "ring-bytes",
    "memory",
    "storage",
    "descriptors",
];

/// Returns the unit and the highest value of a key of a session; `None` for an unknown key.
pub fn key_range(key: &str) -> Option<(&'static str, u64)> {
    Some(match key {
        // Linux refuses longer periods by default (sched_deadline_period_max_us).
        "runtime-us" | "period-us" => ("microseconds", 4_000_000),
        "processors" => ("virtual processors", 64),
        "extra" => ("a weight, 100 for that of one app without a session", 10_000),
        "packet-ins-percent" => ("percent of all packet-ins", 100),
        "packet-outs-per-second" => ("packet-outs per second", u32::MAX.into()),
        "descriptors" => ("descriptors", 1 << 30),
        _ if takes_size(key) => ("bytes, such as \"64 MiB\"", 1 << 50),
        _ => return None,
    })
}

/// The refusal of a key that sessions do not have.
pub fn unknown_key(key: &str) -> String {
    format!("{key:?} is no key of a session; the keys are: {}", SESSION_KEYS.join(", "))
}

/// Whether the value of a key is bytes, so that it can be written as a size.
pub fn takes_size(key: &str) -> bool {
    Resource::named(key).is_some_and(Resource::is_bytes)
}

/// The least period. Below, the system would spend the time on switching threads.
const LEAST_PERIOD_US: u64 = 1_000;

/// The least runtime, which Linux can still measure.
const LEAST_RUNTIME_US: u64 = 50;

/// The resources that are reserved for a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Processor time; `None` for none.
    pub cpu: Option<CpuReservation>,
    /// The weight for what other sessions leave, where 100 is that of an app without a session; 0 for none.
    #[serde(default)]
    pub extra: u16,
    /// The amounts of the other resources. A missing one is 0.
    pub amounts: BTreeMap<Resource, u64>,
}

impl Reservation {
    /// Returns the reservation with these keys and values, over those of `self`.
    ///
    /// # Errors
    /// An unknown key, a value out of range, or keys that do not fit together, as a phrase.
    pub fn with<'k>(
        &self,
        values: impl IntoIterator<Item = (&'k str, u64)>,
    ) -> Result<Self, String> {
        let mut new = self.clone();
        let unset = CpuReservation { extra: self.extra, ..CpuReservation::new(0, 0) };
        let mut cpu = self.cpu.unwrap_or(unset);
        for (key, value) in values {
            let (unit, most) = key_range(key).ok_or_else(|| unknown_key(key))?;
            if value > most {
                return Err(format!("{key} is {value}; expected {unit}, at most {most}"));
            }
            match key {
                "runtime-us" => cpu.runtime_us = value,
                "period-us" => cpu.period_us = value,
                "processors" => cpu.processors = u16::try_from(value).unwrap_or(u16::MAX),
                "extra" => cpu.extra = u16::try_from(value).unwrap_or(u16::MAX),
                _ => {
                    if let Some(resource) = Resource::named(key) {
                        new.set(resource, value);
                    }
                }
            }
        }
        new.extra = cpu.extra;
        if cpu.runtime_us == 0 {
            if self.cpu.is_none() && (cpu.period_us, cpu.processors) != (0, 1) {
                return Err("period-us and processors need runtime-us".into());
            }
            new.cpu = None;
            return Ok(new);
        }
        new.cpu = Some(cpu);
        check_cpu(&cpu)?;
        Ok(new)
    }

    fn set(&mut self, resource: Resource, amount: u64) {
        if amount == 0 {
            self.amounts.remove(&resource);
        } else {
            self.amounts.insert(resource, amount);
        }
    }

    /// The reserved amount of a resource.
    pub fn of(&self, resource: Resource) -> u64 {
        match resource {
            Resource::Cpu => self.cpu.map_or(0, |cpu| cpu.total()),
            other => self.amounts.get(&other).copied().unwrap_or(0),
        }
    }
}

/// Checks the keys of processor time.
fn check_cpu(cpu: &CpuReservation) -> Result<(), String> {
    let CpuReservation { runtime_us, period_us, processors, .. } = *cpu;
    if period_us < LEAST_PERIOD_US {
        return Err(format!(
            "runtime-us needs period-us, at least {LEAST_PERIOD_US}; it is {period_us}"
        ));
    }
    if runtime_us < LEAST_RUNTIME_US {
        return Err(format!("runtime-us is {runtime_us}; expected at least {LEAST_RUNTIME_US}"));
    }
    if runtime_us > period_us {
        return Err(format!(
            "runtime-us is {runtime_us}, above period-us, which is {period_us}; a virtual processor \
             is at most one processor, and processors sets their number"
        ));
    }
    if processors == 0 {
        return Err("processors is 0; expected at least 1".into());
    }
    Ok(())
}

/// The share of a session in the work of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionShare {
    /// The session.
    pub session: SessionId,
    /// Percent of the packet-ins that a worker reads, while it cannot read all.
    pub packet_ins_percent: u8,
    /// Percent of the bytes to a switch, while the switch does not accept all.
    pub sent_percent: u8,
    /// The weight for what other sessions leave, where 100 is that of an app without a session; 0 for none.
    pub extra: u16,
}

/// The shares of all sessions in the work of the kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionShares {
    /// Percent that always stay for apps without a session.
    pub best_effort_percent: u8,
    /// The configured sessions, at most [`MOST_SESSIONS`]; empty if only the two exist that always do.
    pub sessions: Vec<SessionShare>,
}

/// What holds the processor time of one thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "by")]
pub enum HeldBy {
    /// `SCHED_DEADLINE`: the thread receives its runtime in each period, whatever others do, and no more.
    Deadline {
        /// Microseconds of processor time per period.
        runtime_us: u64,
        /// The period in microseconds.
        period_us: u64,
    },
    /// The weight of its cgroup, which gives it the share among Rosemary's programs only.
    Weight {
        /// The weight, 100 for that of an app without a session.
        weight: u32,
        /// Why it is not `SCHED_DEADLINE`, as a phrase.
        why: String,
    },
    /// Nothing.
    Nothing {
        /// Why, as a phrase.
        why: String,
    },
}

/// A member of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberReport {
    /// The app's name; for `system` the name of a program.
    pub name: String,
    /// What holds its processor time. `None` while it does not run, or if the session reserves none.
    pub held: Option<HeldBy>,
}

/// How much of a resource a session has reserved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceReport {
    /// The resource.
    pub resource: Resource,
    /// The amount that is reserved for the session.
    pub reserved: u64,
    /// The amount that is free for further reservations of any session.
    pub free: u64,
    /// The amount of the machine.
    pub capacity: u64,
}

/// A session. Its JSON is stable (`docs/schemas/sessions.schema.json`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionReport {
    /// Its name.
    pub name: String,
    /// Its reserved processor time; `None` for none.
    pub cpu: Option<CpuReservation>,
    /// Its weight for what other sessions leave; 0 for none.
    pub extra: u16,
    /// Whether `rosemary session set` has changed it since the configuration was applied.
    pub adjusted: bool,
    /// Each resource.
    pub resources: Vec<ResourceReport>,
    /// Its members.
    pub members: Vec<MemberReport>,
    /// The present guarantee of the processor time, as a sentence.
    pub guarantee: String,
}

impl SessionReport {
    /// What holds the processor time of its members, in a few words. The programs of `system` are always members: if nothing limits
    /// them, admission keeps an amount free.
    pub fn held(&self) -> String {
        let mut held: Vec<&str> =
            self.members.iter().filter_map(|it| it.held.as_ref()).map(word).collect();
        held.sort_unstable();
        held.dedup();
        match (self.cpu, held.is_empty()) {
            (None, true) => "-".to_owned(),
            (Some(_), true) if self.name == SYSTEM => "admission".to_owned(),
            (Some(_), true) => "not running".to_owned(),
            _ => held.join(", "),
        }
    }
}

fn word(held: &HeldBy) -> &'static str {
    match held {
        HeldBy::Deadline { .. } => "deadline",
        HeldBy::Weight { .. } => "weight",
        HeldBy::Nothing { .. } => "nothing",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(values: &[(&'static str, u64)]) -> Result<Reservation, String> {
        Reservation::default().with(values.iter().copied())
    }

    #[test]
    fn every_key_has_a_range() {
        for key in SESSION_KEYS {
            assert!(key_range(key).is_some(), "{key}");
        }
        assert!(key_range("cpu").is_none());
        for resource in Resource::ALL {
            assert_eq!(Resource::named(resource.name()), Some(resource));
            let json = serde_json::to_string(&resource).unwrap();
            assert_eq!(json, format!("{:?}", resource.name()));
        }
    }

    #[test]
    fn shares_are_rounded_up() {
        let third = CpuReservation { processors: 3, ..CpuReservation::new(1_000, 3_000) };
        assert_eq!((third.share(), third.total()), (333_333_334, 1_000_000_002));
    }

    #[test]
    fn keys_are_set_over_earlier_ones() {
        let one = with(&[("runtime-us", 2_000), ("period-us", 10_000), ("memory", 7)]).unwrap();
        assert_eq!(one.of(Resource::Cpu), PROCESSOR / 5);
        let two = one.with([("runtime-us", 1_000), ("memory", 0)]).unwrap();
        assert_eq!((two.of(Resource::Cpu), two.of(Resource::Memory)), (PROCESSOR / 10, 0));
        assert_eq!(two.with([("runtime-us", 0)]).unwrap(), Reservation::default());
    }

    #[test]
    fn mistake_names_key_and_bound() {
        for (values, expected) in [
            (&[("cpu", 1)][..], "no key of a session"),
            (&[("packet-ins-percent", 101)], "at most 100"),
            (&[("runtime-us", 100)], "needs period-us"),
            (&[("period-us", 10_000)], "need runtime-us"),
            (&[("processors", 5)], "need runtime-us"),
            (&[("runtime-us", 20_000), ("period-us", 10_000)], "above period-us"),
            (&[("runtime-us", 10), ("period-us", 10_000)], "at least 50"),
            (&[("runtime-us", 100), ("period-us", 10_000), ("processors", 0)], "processors is 0"),
        ] {
            let error = with(values).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn amounts_are_shown_with_units() {
        assert_eq!(Resource::Cpu.shown(PROCESSOR / 4), "0.250 processors");
        assert_eq!(Resource::Memory.shown(64 << 20), "64 MiB");
        assert_eq!(Resource::Sent.shown(1_500), "1500 B");
        assert_eq!(Resource::Descriptors.shown(7), "7");
    }

    #[test]
    fn mechanisms_are_named_once() {
        let member = |held| MemberReport { name: "a".into(), held };
        let deadline = || Some(HeldBy::Deadline { runtime_us: 1, period_us: 2 });
        let mut session = SessionReport {
            extra: 0,
            name: "video".into(),
            cpu: Some(CpuReservation::new(100, 1_000)),
            adjusted: false,
            guarantee: String::new(),
            members: vec![member(None)],
            resources: Vec::new(),
        };
        assert_eq!(session.held(), "not running");
        session.name = SYSTEM.into();
        assert_eq!(session.held(), "admission");
        session.members.extend([member(deadline()), member(deadline())]);
        assert_eq!(session.held(), "deadline");
        session.members.push(member(Some(HeldBy::Nothing { why: "x".into() })));
        assert_eq!(session.held(), "deadline, nothing");
        session.cpu = None;
        session.members.clear();
        assert_eq!(session.held(), "-");
    }
}
