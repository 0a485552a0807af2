//! What an app sent, until it is checked: messages one behind the other.

use sdk::abi::series::{BLANKS_SIZE, Series};
use sys::ring::{Down, PeerFault};

use super::AppPort;
use super::tickets::Verdict;

/// Things that a zone said, and bytes of messages, that are taken together: they stay in the core's
/// first cache.
const TOGETHER: usize = 128;
const TOGETHER_BYTES: usize = 16 * 1024;

/// Bytes of a message that are as much work as another message.
const LONG: usize = 1024;

/// See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    /// Used up to `used`.
    bytes: Vec<u8>,
    used: usize,
    sent: Vec<Sent>,
}

/// One message, or a series of them: where it goes, and where it is among the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) dpid: u64,
    pub(crate) epoch: u32,
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Of how many flow-mods it says to be a series; 0 if it is one message.
    pub(crate) series: u32,
}

impl Sent {
    /// It, or each message of it; and whether it can be said, which what claims to be a series and is none
    /// cannot.
    pub(crate) fn each_message(&self, bytes: &[u8], mut each: impl FnMut(&[u8], bool)) {
        let said = &bytes[self.start..self.end];
        let Some(series) = Series::read(said, self.series) else {
            return each(said, self.series == 0);
        };
        for said in series.messages() {
            match said {
                Ok(message) => each(&message, true),
                Err(quote) => each(&quote, false),
            }
        }
    }
}

impl Messages {
    /// With room for so many bytes.
    pub(super) fn with_room(bytes: usize) -> Self {
        Self { bytes: vec![0; bytes], ..Self::default() }
    }

    /// The messages, and the bytes in which they are.
    pub(crate) fn parts(&mut self) -> (&[Sent], &mut [u8]) {
        (&self.sent, &mut self.bytes)
    }

    /// Bytes for which there is room.
    pub(super) fn room(&self) -> usize {
        self.bytes.len() - self.used
    }

    /// Room for a message of up to `size` bytes.
    #[inline]
    pub(super) fn reserve(&mut self, size: usize) -> Option<&mut [u8]> {
        self.bytes.get_mut(self.used..)?.get_mut(..size)
    }

    /// Makes the first `size` bytes of that room a message, or a series of so many if `series` is not 0.
    /// `false` if there was no such room.
    #[inline]
    pub(super) fn commit(&mut self, dpid: u64, epoch: u32, size: usize, series: u32) -> bool {
        let (start, end) = (self.used, self.used.saturating_add(size));
        if end > self.bytes.len() {
            return false;
        }
        self.sent.push(Sent { dpid, epoch, start, end, series });
        self.used = end;
        true
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Forgets the messages; the room stays.
    pub(super) fn clear(&mut self) {
        self.used = 0;
        self.sent.clear();
    }
}

impl AppPort {
    /// Takes some of what the zone said: its messages, in place of those in `messages`, and what it said
    /// of tickets, which is appended to `verdicts`. Returns how many things that were; 0 if it said
    /// nothing more.
    ///
    /// # Errors
    /// [`PeerFault`]: the zone lied, behind what was taken.
    pub(crate) fn gather(
        &mut self,
        messages: &mut Messages,
        verdicts: &mut Vec<Verdict>,
    ) -> Result<usize, PeerFault> {
        messages.clear();
        messages.bytes.clear();
        let mut taken = 0;
        while taken < TOGETHER && messages.used <= TOGETHER_BYTES {
            match self.take(&mut messages.bytes, verdicts)? {
                Some(Down::Send { epoch, dpid, number, message }) => {
                    let size = message.len();
                    messages.commit(dpid, epoch, size, number);
                    // A series is as much work as what it stands for, with packets two messages for each flow-mod, and
                    // no more than its bytes say.
                    taken += (2 * number as usize).min(size / BLANKS_SIZE);
                    taken += size / LONG;
                    self.throttle.sent();
                }
                Some(Down::Done(count)) => self.throttle.done(count),
                Some(Down::Stop(_)) => {}
                None => return Ok(taken),
            }
            taken += 1;
        }
        Ok(taken)
    }
}
