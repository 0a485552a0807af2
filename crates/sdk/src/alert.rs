//! Defines the alerts that an application gets when it nears a resource limit (*Rosemary Fig. 11*).

use crate::abi::{Record, RecordKind};

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

/// An application exceeds a soft limit or has reached a hard one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alert {
    /// Which limit; `None` if this SDK does not know it.
    pub limit: Option<Limit>,
    /// How much the application uses, in the unit of the limit.
    pub value: u64,
    /// The soft limit: an alert is sent above it.
    pub soft: u64,
    /// The hard limit, which cannot be exceeded: the call fails, the message is refused, or the application ends.
    pub hard: u64,
}

/// Bytes of an alert's body.
const BODY: u16 = 24;

impl Alert {
    /// Reads a record.
    pub(crate) fn of(record: &Record, body: &[u8]) -> Option<Self> {
        let (numbers, _) = body.first_chunk::<{ BODY as usize }>()?.as_chunks::<8>();
        let [value, soft, hard] = [0, 1, 2].map(|number| u64::from_le_bytes(numbers[number]));
        Some(Self { limit: Limit::from_wire(record.reason), value, soft, hard })
    }

    /// The head and the body of a record, for who hosts an application; `limit` is its number.
    pub fn to_record(limit: u8, [value, soft, hard]: [u64; 3]) -> (Record, [u8; BODY as usize]) {
        let mut body = [0; BODY as usize];
        for (place, number) in body.as_chunks_mut().0.iter_mut().zip([value, soft, hard]) {
            *place = number.to_le_bytes();
        }
        (Record { reason: limit, body_size: BODY, ..Record::new(RecordKind::Alert, 0, 0, 0) }, body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;

    #[test]
    fn alert_survives_as_a_record() {
        for limit in Limit::ALL {
            let (record, body) = Alert::to_record(limit as u8, [60, 48, u64::MAX]);
            let alert = Alert { limit: Some(limit), value: 60, soft: 48, hard: u64::MAX };
            assert_eq!(Event::of(&record, &body), Some(Event::Alert(alert)));
            assert_eq!(Event::of(&record, &body[..23]), None);
        }
        let (record, body) = Alert::to_record(200, [1, 2, 3]);
        assert!(matches!(Event::of(&record, &body), Some(Event::Alert(Alert { limit: None, .. }))));
    }

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
