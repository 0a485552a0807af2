//! Defines the alerts that an application gets when it nears a resource limit (*Rosemary Fig. 11*).

use names::Limit;

use crate::abi::{Record, RecordKind};

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
}
