//! Names the resources of an application that the operator limits (*Rosemary Fig. 11*).

/// A resource that the operator limits for an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Limit {
    /// Bytes of memory.
    Memory = 1,
    /// Processor time, in thousandths of a processor.
    Cpu = 2,
    /// Descriptors open at once.
    Descriptors = 3,
    /// Threads at once.
    Threads = 4,
    /// Flow-mods, group-mods, meter-mods, port-mods and table-mods in a second.
    FlowMods = 5,
    /// Packet-outs in a second.
    PacketOuts = 6,
    /// Requests to switches in a second.
    Requests = 7,
    /// Bytes of the log in a second.
    Log = 8,
    /// Bytes of events that wait for the application.
    Queue = 9,
}

impl Limit {
    /// All limits, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Memory,
        Self::Cpu,
        Self::Descriptors,
        Self::Threads,
        Self::FlowMods,
        Self::PacketOuts,
        Self::Requests,
        Self::Log,
        Self::Queue,
    ];

    /// Returns the limit with this number in a record, or `None` if this SDK does not know it.
    pub fn from_wire(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|limit| *limit as u8 == number)
    }

    /// Returns its name, as in `[limits]` of `app.toml`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Descriptors => "descriptors",
            Self::Threads => "threads",
            Self::FlowMods => "flow-mods-per-second",
            Self::PacketOuts => "packet-outs-per-second",
            Self::Requests => "requests-per-second",
            Self::Log => "log-bytes-per-second",
            Self::Queue => "queue-bytes",
        }
    }

    /// Formats an amount of it for people: `64 MiB`, `0.25`, `100`.
    pub fn shown(self, amount: u64) -> String {
        const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        if amount == u64::MAX {
            return "none".to_owned();
        }
        match self {
            Self::Memory | Self::Log | Self::Queue => {
                let Some((unit, name)) = UNITS.into_iter().find(|(unit, _)| amount >= *unit) else {
                    return format!("{amount} B");
                };
                let (whole, tenths) = (amount / unit, amount % unit * 10 / unit);
                if tenths == 0 {
                    format!("{whole} {name}")
                } else {
                    format!("{whole}.{tenths} {name}")
                }
            }
            Self::Cpu => {
                let text = format!("{}.{:03}", amount / 1_000, amount % 1_000);
                text.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
            _ => amount.to_string(),
        }
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_as_people_say_them() {
        for (limit, amount, shown) in [
            (Limit::Memory, 64 << 20, "64 MiB"),
            (Limit::Memory, (1 << 30) + (200 << 20), "1.1 GiB"),
            (Limit::Log, 1_023, "1023 B"),
            (Limit::Queue, 1_536, "1.5 KiB"),
            (Limit::Cpu, 250, "0.25"),
            (Limit::Cpu, 2_000, "2"),
            (Limit::Threads, 100, "100"),
            (Limit::FlowMods, u64::MAX, "none"),
        ] {
            assert_eq!(limit.shown(amount), shown);
        }
    }
}
