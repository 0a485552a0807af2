//! Queues messages of apps for switches of another worker.
//!
//! An app answers a record of one ring by the ring beside it, and may send to any switch. A message for
//! a switch of another worker is copied here, and checked there as if it had come by that worker's
//! own ring. Two messages to one switch that come by different rings have no order.

use control::app::AppId;

/// Most messages from one worker for another that wait, and most bytes of them.
const MOST: usize = 4096;
const MOST_BYTES: usize = 1 << 20;

/// The same of an app when that is reached: no app uses up the room of another.
const OWN: usize = 64;
const OWN_BYTES: usize = 32 * 1024;

/// What one worker has posted for another. Emptied and handed back, so that nothing is allocated
/// per message.
#[derive(Debug, Default)]
pub(crate) struct ForwardQueue {
    /// Each with the end of its message in `bytes`.
    heads: Vec<(Head, usize)>,
    bytes: Vec<u8>,
    /// How many of the messages, and of the bytes, are each app's.
    shares: Vec<(AppId, usize, usize)>,
}

/// Whose message it is and where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) app: AppId,
    pub(crate) dpid: u64,
    pub(crate) epoch: u32,
}

impl ForwardQueue {
    /// Appends a message. `false` if there is no room.
    pub(super) fn post(&mut self, head: Head, message: &[u8]) -> bool {
        let is_full = self.heads.len() >= MOST || self.bytes.len() + message.len() > MOST_BYTES;
        let place = self.shares.iter().position(|(app, ..)| *app == head.app);
        let place = place.unwrap_or_else(|| {
            self.shares.push((head.app, 0, 0));
            self.shares.len() - 1
        });
        let (_, messages, bytes) = &mut self.shares[place];
        if is_full && (*messages >= OWN || *bytes >= OWN_BYTES) {
            return false;
        }
        *messages += 1;
        *bytes += message.len();
        self.bytes.extend_from_slice(message);
        self.heads.push((head, self.bytes.len()));
        true
    }

    /// How many messages there are.
    pub(crate) fn len(&self) -> usize {
        self.heads.len()
    }

    /// Message `number`, oldest first.
    pub(crate) fn get(&mut self, number: usize) -> Option<(Head, &mut [u8])> {
        let start = number.checked_sub(1).map_or(0, |before| self.heads[before].1);
        let (head, end) = *self.heads.get(number)?;
        Some((head, &mut self.bytes[start..end]))
    }

    /// Empties it.
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
    fn mail_comes_out_as_it_was_posted_until_there_is_no_room() {
        let mut forward_queue = ForwardQueue::default();
        let head = |dpid| Head { app: AppId(1), dpid, epoch: 2 };
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
        assert_eq!((0..2 * MOST).filter(|_| forward_queue.post(head(1), &[0; 8])).count(), MOST);
        let other = Head { app: AppId(2), ..head(1) };
        let accepted = (0..2 * MOST).filter(|_| forward_queue.post(other, &[0; 8])).count();
        assert_eq!(accepted, OWN, "another app has room of its own");
    }
}
