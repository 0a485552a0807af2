//! Reads an app's resource limits: the table `limits` of an `[[app]]` and of a package's `app.toml`.
//!
//! ```toml
//! [limits]
//! memory = "64 MiB"                        # the hard limit; the soft one is four fifths of it
//! cpu = { soft = 0.2, hard = 0.5 }         # of a processor
//! flow-mods-per-second = 1000
//! ```
//!
//! The operator's `[[app]]` overrides the app's own `app.toml`, which overrides [`Limits::default`].

use control::kernel::{MAX_DESCRIPTORS, MAX_THREADS, Tuning};
use names::Limit;
use sys::ring::{DEFAULT_CAPACITY, Room};

use super::value::{Table, Value};

/// The keys of `limits`.
pub const LIMITS_KEYS: [&str; Limit::ALL.len()] = [
    "memory",
    "cpu",
    "descriptors",
    "threads",
    "flow-mods-per-second",
    "packet-outs-per-second",
    "requests-per-second",
    "log-bytes-per-second",
    "queue-bytes",
];

/// The keys of a limit with both values.
const BOTH: [&str; 2] = ["soft", "hard"];

/// The limits of the kernel that an operator can set.
const KERNEL_LIMITS: [Limit; 2] = [Limit::Memory, Limit::Cpu];

/// Bytes of memory above which the kernel is reported by default.
const KERNEL_MEMORY: u64 = 4 << 30;

/// No limit.
pub const NONE: u64 = u64::MAX;

/// A limit: above `soft` the app and the operator receive an alert; `hard` cannot be exceeded. In the unit
/// of its [`Limit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Above this amount an alert is raised.
    pub soft: u64,
    /// The most that the app can use.
    pub hard: u64,
}

impl Bound {
    /// Returns a limit with this hard value, and four fifths of it as the soft one.
    const fn hard(hard: u64) -> Self {
        Self { soft: if hard == NONE { NONE } else { hard - hard / 5 }, hard }
    }
}

/// The limits of an app, or of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits([Bound; Limit::ALL.len()]);

impl Default for Limits {
    /// Returns limits that suffice for a large network, refuse no messages, and keep an app from
    /// exhausting the machine.
    fn default() -> Self {
        Self(Limit::ALL.map(|limit| {
            Bound::hard(match limit {
                Limit::Memory => 512 << 20,
                Limit::Cpu => 1_000,
                Limit::Descriptors => 512,
                Limit::Threads => 64,
                Limit::FlowMods | Limit::PacketOuts | Limit::Requests => NONE,
                Limit::Log => 4 << 10,
                Limit::Queue => QUEUE,
            })
        }))
    }
}

/// Bytes of packet-ins that can wait for an app in the ring of one worker, with rings of the default size.
const QUEUE: u64 = (DEFAULT_CAPACITY - DEFAULT_CAPACITY / 8 * 3) as u64;

/// Bytes of packet-ins that can wait in the largest possible ring.
const QUEUE_MOST: u64 = *Tuning::RING.end() as u64 / 8 * 5;

impl Limits {
    /// Returns no limits, for Rosemary's own programs.
    pub fn none() -> Self {
        Self([Bound::hard(NONE); Limit::ALL.len()])
    }

    /// Returns the limits of the kernel: alerts, and the descriptors and threads that its own limits allow. No memory or
    /// processor time is a hard limit, because the network would stop.
    pub fn of_kernel() -> Self {
        let mut limits = Self::none();
        limits.0[place(Limit::Memory)].soft = KERNEL_MEMORY;
        limits.0[place(Limit::Descriptors)] = Bound::hard(MAX_DESCRIPTORS);
        limits.0[place(Limit::Threads)] = Bound::hard(MAX_THREADS);
        limits
    }

    /// Reads the table `value` of the limits of the kernel.
    pub(super) fn read_of_kernel(value: Value<'_>) -> Self {
        let mut limits = Self::of_kernel();
        let keys = KERNEL_LIMITS.map(Limit::name);
        let Some(table) = value.table("limits of the kernel", &keys) else { return limits };
        for limit in KERNEL_LIMITS {
            if let Some(value) = table.get(limit.name()) {
                limits.0[place(limit)] = bound(limit, value, limits.of(limit));
            }
        }
        limits
    }

    /// Returns the limit on `what`.
    pub fn of(&self, what: Limit) -> Bound {
        self.0[place(what)]
    }

    /// Adapts the limits to rings of `ring` bytes: these bound the waiting packet-ins, and a soft limit above that
    /// bound becomes four fifths of it.
    #[must_use]
    pub fn with_rings(mut self, ring: u32) -> Self {
        let Bound { soft, hard } = &mut self.0[place(Limit::Queue)];
        let all = Bound::hard(Room::Ordinary.of(ring) as u64);
        *hard = all.hard;
        if *soft > all.hard {
            *soft = all.soft;
        }
        self
    }

    /// Reads the table `value`; `before` has the values of missing keys.
    pub(super) fn read(value: Value<'_>, before: &Self) -> Self {
        let mut limits = *before;
        let Some(table) = value.table("limits", &LIMITS_KEYS) else { return limits };
        for (limit, key) in Limit::ALL.into_iter().zip(LIMITS_KEYS) {
            if let Some(value) = table.get(key) {
                limits.0[place(limit)] = bound(limit, value, limits.of(limit));
            }
        }
        limits
    }
}

/// Returns the index of a limit among all.
fn place(limit: Limit) -> usize {
    limit as usize - 1
}

/// Reads a limit from `value`; `before` has the missing value.
fn bound(limit: Limit, value: Value<'_>, before: Bound) -> Bound {
    let (least, most) = range(limit);
    let expected =
        format!("{}, from {} to {}", unit(limit), shown(limit, least), shown(limit, most));
    if limit == Limit::Queue {
        if !value.is_table() {
            value.refuse("{ soft = ... }: ring-bytes determines the hard limit");
            return before;
        }
        let Some(table) = value.table(limit.name(), &["soft"]) else { return before };
        let soft = table.read("soft", &expected, |it| amount(limit, it, least, most));
        return Bound { soft: soft.unwrap_or(before.soft), ..before };
    }
    let bound = if value.is_table() {
        let Some(table) = value.table(limit.name(), &BOTH) else { return before };
        let read = |table: Table<'_>, key, least| {
            table.read(key, &expected, |it| amount(limit, it, least, most))
        };
        let (soft, hard) = (read(table, "soft", 0), read(table, "hard", least));
        if table.is_refused("hard", hard.as_ref()) {
            return before;
        }
        match (soft, hard) {
            (Some(soft), hard) => Bound { soft, hard: hard.unwrap_or(before.hard) },
            (None, hard) => hard.map_or(before, Bound::hard),
        }
    } else {
        let expected = format!("{expected}; or {{ soft = ..., hard = ... }}");
        value.read(&expected, |it| amount(limit, it, least, most)).map_or(before, Bound::hard)
    };
    if bound.soft > bound.hard {
        value.refuse_as(format!(
            "{limit} has a soft limit of {}, which is above its hard limit of {}; expected it below",
            limit.shown(bound.soft),
            limit.shown(bound.hard)
        ));
    }
    bound
}

/// Returns the valid hard limits; below, no app could start. For waiting packet-ins, the valid soft ones.
fn range(limit: Limit) -> (u64, u64) {
    match limit {
        Limit::Memory => (8 << 20, 1 << 50),
        Limit::Cpu => (100, 1_000_000),
        Limit::Descriptors => (64, 1 << 20),
        Limit::Threads => (1, 1 << 20),
        Limit::FlowMods | Limit::PacketOuts | Limit::Requests => (0, u32::MAX.into()),
        Limit::Log => (0, 1 << 30),
        Limit::Queue => (0, QUEUE_MOST),
    }
}

fn unit(limit: Limit) -> &'static str {
    match limit {
        Limit::Memory | Limit::Queue => "bytes, such as \"64 MiB\"",
        Limit::Log => "bytes per second, such as \"4 KiB\"",
        Limit::Cpu => "processors, such as 0.5",
        Limit::Descriptors => "descriptors",
        Limit::Threads => "threads",
        Limit::FlowMods | Limit::PacketOuts | Limit::Requests => "messages per second",
    }
}

/// Formats a bound of the range as in the file.
fn shown(limit: Limit, amount: u64) -> String {
    match limit {
        Limit::Memory | Limit::Queue | Limit::Log | Limit::Cpu => limit.shown(amount),
        _ => amount.to_string(),
    }
}

/// Reads an amount within the range.
fn amount(limit: Limit, value: &Value<'_>, least: u64, most: u64) -> Option<u64> {
    let amount = match limit {
        Limit::Memory | Limit::Queue | Limit::Log => {
            value.number().or_else(|| bytes(value.text()?))?
        }
        Limit::Cpu => thousandths(value.decimal()?)?,
        _ => value.number()?,
    };
    (least..=most).contains(&amount).then_some(amount)
}

/// Parses sizes such as `64 MiB`.
pub fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|char: char| !char.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let unit: u64 = match unit.trim_start_matches(' ') {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be between 0 and a million thousandths"
)]
fn thousandths(number: f64) -> Option<u64> {
    (0.0..=1e6).contains(&number).then(|| (number * 1_000.0).round() as u64)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::{AppConfig, Config};

    fn app(limits: &str) -> Result<AppConfig, String> {
        let text = format!("[[app]]\nname = \"a\"\n{limits}");
        let config = Config::parse("/rosemary.toml".into(), text);
        config.map(|it| it.apps.unwrap().remove(0)).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_are_the_names_of_the_limits() {
        assert_eq!(LIMITS_KEYS, Limit::ALL.map(Limit::name));
        assert_eq!(QUEUE, Room::Ordinary.of(DEFAULT_CAPACITY) as u64);
        for limit in Limit::ALL {
            let (least, most) = range(limit);
            let hard = Limits::default().of(limit).hard;
            assert!(hard == NONE || (least..=most).contains(&hard), "{limit}");
        }
    }

    #[test]
    fn app_without_limits_has_the_defaults() {
        assert_eq!(app("").unwrap().limits, Limits::default());
        let memory = Limits::default().of(Limit::Memory);
        assert_eq!((memory.soft * 10 / memory.hard, memory.hard), (8, 512 << 20));
        assert_eq!(Bound::hard(0), Bound { soft: 0, hard: 0 });
        assert_eq!(Bound::hard(5), Bound { soft: 4, hard: 5 });
        assert_eq!(Bound::hard(1), Bound { soft: 1, hard: 1 });
    }

    #[test]
    fn kernel_has_limits_of_its_own() {
        let kernel = |text: &str| {
            let text = format!("[supervision.kernel]\n{text}");
            let config = Config::parse("/rosemary.toml".into(), text);
            config.map(|it| it.supervision.kernel_limits).map_err(|error| error.to_string())
        };
        let of = |limits: Limits, limit| (limits.of(limit).soft, limits.of(limit).hard);
        let default = kernel("").unwrap();
        assert_eq!(of(default, Limit::Memory), (4 << 30, NONE));
        assert_eq!(of(default, Limit::Descriptors), ((1 << 20) - (1 << 20) / 5, 1 << 20));
        assert_eq!(of(default, Limit::Cpu), (NONE, NONE));
        let set = kernel("limits = { memory = { soft = \"1 GiB\", hard = \"2 GiB\" }, cpu = 2 }");
        assert_eq!(of(set.clone().unwrap(), Limit::Memory), (1 << 30, 2 << 30));
        assert_eq!(of(set.unwrap(), Limit::Cpu), (1_600, 2_000));
        let error = kernel("limits = { threads = 3 }").unwrap_err();
        assert!(error.contains("\"threads\"") && error.contains("memory, cpu"), "{error}");
    }

    #[test]
    fn queue_limit_follows_ring_size() {
        let queue = |limits: Limits, ring| limits.with_rings(ring).of(Limit::Queue);
        let kib = |soft: u64, hard: u64| Bound { soft: soft << 10, hard: hard << 10 };
        assert_eq!(queue(Limits::default(), DEFAULT_CAPACITY), Bound::hard(QUEUE));
        assert_eq!(
            queue(Limits::default(), 256 << 10),
            kib(128, 160),
            "at most what the rings hold"
        );
        assert_eq!(queue(Limits::default(), 1 << 20), kib(256, 640));
        let said = app("[app.limits]\nqueue-bytes = { soft = \"150 KiB\" }").unwrap().limits;
        assert_eq!(queue(said, 1 << 20), kib(150, 640));
        let said = app("[app.limits]\nqueue-bytes = { soft = \"1 MiB\" }").unwrap().limits;
        assert_eq!(queue(said, 4 << 20), kib(1024, 2560));
    }

    #[test]
    fn amounts_are_read_in_their_units() {
        let limits = app("[app.limits]\nmemory = \"64 MiB\"\ncpu = { soft = 0.25, hard = 2 }\n\
             descriptors = { soft = 10 }\nthreads = 1\nlog-bytes-per-second = 1024\n\
             queue-bytes = { soft = \"10KiB\" }\nflow-mods-per-second = { hard = 0x64 }\n");
        let limits = limits.unwrap().limits;
        let of = |limit| (limits.of(limit).soft, limits.of(limit).hard);
        assert_eq!(of(Limit::Memory), ((64 << 20) - (64 << 20) / 5, 64 << 20));
        assert_eq!(of(Limit::Cpu), (250, 2_000));
        assert_eq!(of(Limit::Descriptors), (10, 512));
        assert_eq!(of(Limit::Threads), (1, 1));
        assert_eq!(of(Limit::Log), (820, 1024));
        assert_eq!(of(Limit::Queue), (10 << 10, QUEUE));
        assert_eq!(of(Limit::FlowMods), (80, 100));
        assert_eq!(of(Limit::PacketOuts), (NONE, NONE));
    }

    #[test]
    fn mistake_names_found_and_expected_value() {
        for (limits, found, expected) in [
            ("memory = \"64 MB\"", "\"64 MB\"", "bytes, such as \"64 MiB\", from 8 MiB"),
            ("memory = 1000", "1000", "from 8 MiB"),
            ("memory = -1", "-1", "bytes"),
            ("memory = \"99999999999999999999 GiB\"", "9999", "bytes"),
            ("memory = { soft = 1, hard = \"x\" }", "hard is \"x\"", "bytes"),
            ("memory = { low = 1 }", "\"low\"", "soft, hard"),
            ("memory = { soft = \"2 GiB\" }", "a soft limit of 2 GiB", "below"),
            ("cpu = 0.05", "0.05", "processors, such as 0.5, from 0.1 to 1000"),
            ("cpu = nan", "nan", "processors"),
            ("cpu = \"1\"", "\"1\"", "processors"),
            ("descriptors = 3", "is 3", "from 64"),
            ("threads = 0", "is 0", "from 1"),
            ("queue-bytes = 1", "is 1", "{ soft = ... }: ring-bytes determines the hard limit"),
            ("queue-bytes = { hard = 1 }", "\"hard\"", "soft"),
            ("queue-bytes = { soft = \"3 MiB\" }", "3 MiB", "from 0 B to 2.5 MiB"),
            ("flow-mods-per-second = -1", "-1", "messages per second"),
            ("packet-outs-per-second = 5000000000", "5000000000", "0 to 4294967295"),
            ("thread = 4", "\"thread\"", "did you mean `threads`"),
        ] {
            let error = app(&format!("[app.limits]\n{limits}")).unwrap_err();
            assert!(error.starts_with("/rosemary.toml:4:"), "{error}");
            assert!(error.contains(found) && error.contains(expected), "{error}");
        }
        let error = app("limits = 7").unwrap_err();
        assert!(error.contains("limits is 7"), "{error}");
    }
}
