//! Knows which requests of the app switches have not answered, so that each ends as lost when the kernel is restarted.
//!
//! A request is *pending* from the app's call until the app has handled the last part of its reply, an error or a refusal
//! with its transaction id. An app may use a transaction id again: each answer then ends one request. The requests to a
//! switch end with its connection, as the app learns from the record about that.
//!
//! The kernel has a table of its own (`transactions.rs` there), which ends with the kernel.

use std::collections::{BTreeMap, VecDeque};

use sdk::abi::host::Gathered;
use sdk::abi::{RECORD_HEAD, Record, RecordKind};

/// The most pending requests of one connection: more than the kernel accepts. Of more, the oldest are forgotten, which the
/// kernel has refused or given up.
const MOST_PENDING: usize = 256;

/// The most connections with pending requests: more than a kernel has.
const MOST_CONNECTIONS: usize = 4096;

/// The head of an OpenFlow message (OpenFlow 1.3.5 §7.1): version, type, length, transaction id.
pub type Head = [u8; 8];

/// A connection of a switch: its datapath id and epoch.
type Connection = (u64, u32);

/// The app's pending requests.
#[derive(Debug, Default)]
pub struct PendingRequests(BTreeMap<Connection, VecDeque<Head>>);

impl PendingRequests {
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes that the app sends the message with this head.
    #[inline]
    pub fn sent(&mut self, dpid: u64, epoch: u32, head: Head) {
        if is_request(head) {
            self.begin((dpid, epoch), head);
        }
    }

    #[cold]
    fn begin(&mut self, connection: Connection, head: Head) {
        if self.0.len() >= MOST_CONNECTIONS && !self.0.contains_key(&connection) {
            self.0.pop_first();
        }
        let requests = self.0.entry(connection).or_default();
        if requests.len() >= MOST_PENDING {
            requests.pop_front();
        }
        requests.push_back(head);
    }

    /// Notes that the app has handled these records.
    pub fn handled<'r>(&mut self, records: impl Iterator<Item = &'r [u8]>) {
        for record in records {
            let Some((kind, connection, message)) = split(record) else { continue };
            if kind == RecordKind::SwitchDown as u16 {
                self.0.remove(&connection);
            } else if kind == RecordKind::Refused as u16 {
                self.end(connection, |head| message.starts_with(head));
            } else if kind == RecordKind::Error as u16
                || kind == RecordKind::RequestLost as u16
                || kind == RecordKind::Reply as u16 && !has_more_parts(message)
            {
                self.end(connection, |head| message.get(4..8) == Some(&head[4..]));
            }
        }
    }

    /// Ends the oldest request with such a head.
    fn end(&mut self, connection: Connection, is_it: impl Fn(&Head) -> bool) {
        let Some(requests) = self.0.get_mut(&connection) else { return };
        if let Some(at) = requests.iter().position(is_it) {
            requests.remove(at);
        }
        if requests.is_empty() {
            self.0.remove(&connection);
        }
    }

    /// Ends all requests: adds a record for each to `records`, those to one switch in the order of the app's calls.
    pub fn lose(&mut self, records: &mut Gathered) {
        for ((dpid, epoch), requests) in std::mem::take(&mut self.0) {
            for head in requests {
                let record = Record::new(RecordKind::RequestLost, head[0], dpid, epoch);
                records.push(&record.words(), &head);
            }
        }
    }
}

/// The kind, the connection and the body of a record (`Record`).
fn split(record: &[u8]) -> Option<(u16, Connection, &[u8])> {
    let kind = u16::from_le_bytes(*record.get(4..6)?.first_chunk()?);
    let dpid = u64::from_le_bytes(*record.get(8..16)?.first_chunk()?);
    let epoch = u32::from_le_bytes(*record.get(16..20)?.first_chunk()?);
    Some((kind, (dpid, epoch), record.get(RECORD_HEAD..)?))
}

/// Whether a switch answers a message with this head: requests about its configuration, statistics and queues, and barriers
/// (OpenFlow 1.0 §5.1, 1.3.5 §7.1). An experimenter's message may be answered or not, so it is none.
#[inline]
fn is_request(head: Head) -> bool {
    matches!((head[0], head[1]), (1, 7 | 16 | 18 | 20) | (4, 7 | 18 | 20 | 22))
}

/// Whether a reply is a part of a multipart reply that others follow: bit 0 of its flags, in both versions.
fn has_more_parts(reply: &[u8]) -> bool {
    let is_multipart =
        matches!((reply.first(), reply.get(1)), (Some(1), Some(17)) | (Some(4), Some(19)));
    is_multipart && reply.get(11).is_some_and(|flags| flags & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARRIER: u8 = 20;

    fn head(kind: u8, xid: u32) -> Head {
        let [a, b, c, d] = xid.to_be_bytes();
        [4, kind, 0, 8, a, b, c, d]
    }

    /// A record about the switch 7 on connection 1 with this message.
    fn record(kind: RecordKind, message: &[u8]) -> Vec<u8> {
        let mut gathered = Gathered::default();
        gathered.push(&Record::new(kind, 4, 7, 1).words(), message);
        gathered.iter().next().unwrap().to_vec()
    }

    fn pending(xids: &[u32]) -> PendingRequests {
        let mut pending = PendingRequests::default();
        for xid in xids {
            pending.sent(7, 1, head(BARRIER, *xid));
        }
        pending
    }

    /// The transaction ids that are lost now.
    fn lost(pending: &mut PendingRequests) -> Vec<u32> {
        let mut records = Gathered::default();
        pending.lose(&mut records);
        assert!(pending.is_empty());
        let xid = |record: &[u8]| {
            let (kind, connection, body) = split(record).unwrap();
            assert_eq!((kind, connection), (RecordKind::RequestLost as u16, (7, 1)));
            u32::from_be_bytes(*body.last_chunk().unwrap())
        };
        records.iter().map(xid).collect()
    }

    #[test]
    fn requests_without_an_answer_are_lost_once() {
        let mut pending = pending(&[1, 2, 3, 4]);
        let reply = record(RecordKind::Reply, &head(21, 1));
        let error = record(RecordKind::Error, &head(1, 3));
        let malformed = record(RecordKind::RequestLost, &head(18, 4));
        pending.handled([&*reply, &*error, &*malformed].into_iter());
        assert_eq!(lost(&mut pending), [2]);
        assert_eq!(lost(&mut pending), [0; 0]);
    }

    #[test]
    fn only_requests_are_pending() {
        let mut pending = PendingRequests::default();
        for kind in [0, 2, 3, 4, 13, 14, 15] {
            pending.sent(7, 1, head(kind, 1));
        }
        assert!(pending.is_empty());
        for kind in [7, 18, 20, 22] {
            pending.sent(7, 1, head(kind, kind.into()));
        }
        assert_eq!(lost(&mut pending), [7, 18, 20, 22]);
    }

    #[test]
    fn refusal_of_another_message_ends_no_request() {
        let mut pending = pending(&[5, 5]);
        pending.handled([&*record(RecordKind::Refused, &head(14, 5))].into_iter());
        pending.handled([&*record(RecordKind::Refused, &head(BARRIER, 5))].into_iter());
        assert_eq!(lost(&mut pending), [5], "one of two with the same id");
    }

    #[test]
    fn last_part_of_a_reply_ends_its_request() {
        let part = |more: u8| [head(19, 9).as_slice(), &[0, 1, 0, more, 0, 0, 0, 0]].concat();
        let mut requests = PendingRequests::default();
        requests.sent(7, 1, head(18, 9));
        requests.handled([&*record(RecordKind::Reply, &part(1))].into_iter());
        assert!(!requests.is_empty());
        requests.handled([&*record(RecordKind::Reply, &part(0))].into_iter());
        assert!(requests.is_empty());
    }

    #[test]
    fn disconnected_switch_ends_its_requests() {
        let mut pending = pending(&[1]);
        pending.sent(7, 2, head(BARRIER, 2));
        pending.handled([&*record(RecordKind::SwitchDown, &[])].into_iter());
        assert_eq!(pending.0.keys().collect::<Vec<_>>(), [&(7, 2)]);
    }

    #[test]
    fn table_is_bounded() {
        let mut pending = PendingRequests::default();
        for xid in 0..1000 {
            pending.sent(7, 1, head(BARRIER, xid));
        }
        assert_eq!(lost(&mut pending), (744..1000).collect::<Vec<_>>());
        for dpid in 0..10_000 {
            pending.sent(dpid, 1, head(BARRIER, 1));
        }
        assert_eq!(pending.0.len(), MOST_CONNECTIONS);
    }
}
