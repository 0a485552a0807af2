//! Queues messages of apps for switches of another worker.
//!
//! An app answers records by the rings of the same worker, and may send to any switch. A message for a switch of
//! another worker is copied here, and that worker checks it like a message from its own ring. Messages to one switch
//! that arrive by different rings have no defined order.

use control::app::AppId;

/// Most messages from one worker that wait for another, and most bytes of them.
const MOST_MESSAGES: usize = 4096;
const MOST_BYTES: usize = 1 << 20;

/// The messages and bytes that each app may have beyond that, so that no app uses up the room of another.
const OWN: usize = 64;
const OWN_BYTES: usize = 32 * 1024;

/// The messages from one worker for another. The receiver swaps it for an empty one, so that no message costs an
/// allocation.
#[derive(Debug, Default)]
pub(crate) struct ForwardQueue {
    /// The heads, each with the end of its message in `bytes`.
    heads: Vec<(Head, usize)>,
    bytes: Vec<u8>,
    /// Number of messages and bytes of each app.
    shares: Vec<(AppId, usize, usize)>,
}

/// The sender and the destination of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) app: AppId,
    pub(crate) dpid: u64,
    pub(crate) epoch: u32,
    /// Whether the message is a change set.
    pub(crate) is_set: bool,
}

impl ForwardQueue {
    /// Appends a message. `false` if there is no room.
    pub(super) fn post(&mut self, head: Head, message: &[u8]) -> bool {
        let is_full =
            self.heads.len() >= MOST_MESSAGES || self.bytes.len() + message.len() > MOST_BYTES;
        let share = self.shares.iter().position(|(app, ..)| *app == head.app);
        let share = share.unwrap_or_else(|| {
            self.shares.push((head.app, 0, 0));
            self.shares.len() - 1
        });
        let (_, messages, bytes) = &mut self.shares[share];
        if is_full && (*messages >= OWN || *bytes >= OWN_BYTES) {
            return false;
        }
        *messages += 1;
        *bytes += message.len();
        self.bytes.extend_from_slice(message);
        self.heads.push((head, self.bytes.len()));
        true
    }

    /// Number of messages.
    pub(crate) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Message `number`, oldest first.
    pub(crate) fn get(&mut self, number: usize) -> Option<(Head, &mut [u8])> {
        let start = number.checked_sub(1).map_or(0, |before| self.heads[before].1);
        let (head, end) = *self.heads.get(number)?;
        Some((head, &mut self.bytes[start..end]))
    }

    /// Removes all messages.
    pub(crate) fn clear(&mut self) {
        self.heads.clear();
        self.bytes.clear();
        self.shares.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_their_order_and_are_bounded() {
        let mut forward_queue = ForwardQueue::default();
        let head = |dpid| Head { app: AppId(1), dpid, epoch: 2, is_set: false };
        assert!(forward_queue.post(head(1), &[1, 2, 3]) && forward_queue.post(head(2), &[]));
        assert!(forward_queue.post(head(3), &[4]));
        assert_eq!(forward_queue.get(0).unwrap(), (head(1), &mut [1, 2, 3][..]));
        assert_eq!(forward_queue.get(1).unwrap(), (head(2), &mut [][..]));
        assert_eq!(forward_queue.get(2).unwrap(), (head(3), &mut [4][..]));
        assert_eq!(forward_queue.get(3), None);
        assert_eq!(forward_queue.len(), 3);
        forward_queue.clear();
        assert_eq!(forward_queue.len(), 0);
        let long = vec![0; 1 << 16];
        assert_eq!((0..100).filter(|_| forward_queue.post(head(1), &long)).count(), 16);
        forward_queue.clear();
        assert_eq!(
            (0..2 * MOST_MESSAGES).filter(|_| forward_queue.post(head(1), &[0; 8])).count(),
            MOST_MESSAGES
        );
        let other = Head { app: AppId(2), ..head(1) };
        let accepted =
            (0..2 * MOST_MESSAGES).filter(|_| forward_queue.post(other, &[0; 8])).count();
        assert_eq!(accepted, OWN, "another app has room of its own");
    }
}
