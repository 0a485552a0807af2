//! Accounts: the resources that the members of sessions have used, in hours.
//!
//! An app's account counts the processor time and the memory of its zone, and its messages in the kernel. The programs of Rosemary have
//! accounts in the session `system`. `supervisor::accounts` adds the amounts up, the monitor stores them.

use serde::{Deserialize, Serialize};

/// Amounts that were used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amounts {
    /// Processor time in nanoseconds.
    pub cpu_ns: u64,
    /// Memory in bytes, times the seconds for which it was used.
    pub memory_byte_seconds: u64,
    /// Packet-ins that the app received.
    pub received_messages: u64,
    /// The bytes of these packet-ins.
    pub received_bytes: u64,
    /// The app's messages that the kernel admitted for switches.
    pub sent_messages: u64,
    /// The bytes of these messages.
    pub sent_bytes: u64,
}

impl Amounts {
    /// Adds other amounts.
    pub fn add(&mut self, other: &Self) {
        // Without `..`, so that an amount that is added later cannot be forgotten here.
        let Self {
            cpu_ns,
            memory_byte_seconds,
            received_messages,
            received_bytes,
            sent_messages,
            sent_bytes,
        } = *other;
        for (sum, amount) in [
            (&mut self.cpu_ns, cpu_ns),
            (&mut self.memory_byte_seconds, memory_byte_seconds),
            (&mut self.received_messages, received_messages),
            (&mut self.received_bytes, received_bytes),
            (&mut self.sent_messages, sent_messages),
            (&mut self.sent_bytes, sent_bytes),
        ] {
            *sum = sum.saturating_add(amount);
        }
    }
}

/// The account of one member of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The session.
    pub session: String,
    /// The app; in the session `system` a program of Rosemary.
    pub member: String,
    /// The amounts that it has used.
    #[serde(flatten)]
    pub amounts: Amounts,
}

/// The accounts of an hour, as they are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredHour {
    /// The beginning of the hour in seconds since 1970; 0 for the sum of earlier hours.
    pub hour: u64,
    /// The last hour that is a part of the sum of earlier hours; 0 for none.
    pub through: u64,
    /// The accounts.
    pub accounts: Vec<Account>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_do_not_overflow() {
        let mut sum = Amounts { cpu_ns: u64::MAX, sent_bytes: 1, ..Amounts::default() };
        sum.add(&Amounts { cpu_ns: 1, sent_bytes: 2, sent_messages: 3, ..Amounts::default() });
        assert_eq!((sum.cpu_ns, sum.sent_bytes, sum.sent_messages), (u64::MAX, 3, 3));
    }

    #[test]
    fn account_is_flat_json() {
        let account =
            Account { session: "video".into(), member: "a".into(), amounts: Amounts::default() };
        let json = serde_json::to_value(account).unwrap();
        assert_eq!((&json["member"], &json["cpu_ns"]), (&"a".into(), &0.into()));
    }
}
