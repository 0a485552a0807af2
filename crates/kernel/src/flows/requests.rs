//! Counts the requests for flows and tables that the kernel sends to a switch, by their reasons.

use std::collections::BTreeMap;

/// Why the kernel requests flows or tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// To know whether its table-miss entry is there.
    Heal,
    /// To find flows of absent apps and of others.
    Orphans,
    /// To know how many flows tables or an app have.
    Count,
    /// To inform apps of their flows.
    Apps,
    /// To remove flows that apps wrote before their bands moved.
    Bands,
    /// To compare the image of the flows.
    Check,
    /// To begin a flow monitor, or to resume it after a pause.
    Monitor,
    /// For an operator.
    Operator,
}

impl Reason {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Heal, "heal"),
        (Self::Orphans, "orphans"),
        (Self::Count, "count"),
        (Self::Apps, "apps"),
        (Self::Bands, "bands"),
        (Self::Check, "check"),
        (Self::Monitor, "monitor"),
        (Self::Operator, "operator"),
    ];
}

/// The numbers of requests on one connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Requests([u64; Reason::ALL.len()]);

impl Requests {
    /// Counts a request.
    pub(crate) fn count(&mut self, reason: Reason) {
        self.0[reason as usize] += 1;
    }

    /// Returns the number of requests for each reason, by its name.
    pub(crate) fn by_name(&self) -> BTreeMap<String, u64> {
        let named = Reason::ALL.iter().map(|(reason, name)| (*name, self.0[*reason as usize]));
        named.map(|(name, count)| (name.to_owned(), count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_counted_under_its_name() {
        for (place, (reason, name)) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
            let mut requests = Requests::default();
            requests.count(reason);
            let counted: Vec<_> = requests.by_name().into_iter().filter(|it| it.1 > 0).collect();
            assert_eq!(counted, [(name.to_owned(), 1)]);
        }
    }
}
