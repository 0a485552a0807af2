//! The last events of each worker: a ring of [`EVENTS`] events. A new event overwrites the oldest.
//!
//! ```text
//! word 0    when the turn began in which it happened, in nanoseconds of the monotonic clock
//!      1    the header of the OpenFlow message as on the wire, 0 for a call
//!      2    the datapath id of the switch, 0 if it is unknown
//!      3    the number of the event, the number of messages, the app's number, the kind; 16 bits each
//! ```
//!
//! The worker writes an event with four plain stores. Messages that arrived or were admitted together are one event with
//! the header of the first, so that the cost per message is small. The body of a message is never noted.

use std::num::NonZeroU16;
use std::sync::atomic::Ordering;

use sys::shm::Word;

/// The events of each worker.
pub const EVENTS: usize = 32;

/// Words of an event.
const EVENT_WORDS: usize = 4;

/// Words of a worker's ring.
pub(super) const RING_WORDS: usize = EVENTS * EVENT_WORDS;

/// Bytes of the header of an OpenFlow message.
const HEADER: usize = 8;

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Messages of a switch arrived.
    Received = 1,
    /// Messages of an app were admitted for a switch.
    Sent = 2,
    /// The worker called an app.
    Called = 3,
}

/// An event of a worker. An app in the kernel can forge it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecentEvent {
    /// When the turn of the worker's loop began in which it happened, in nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// The kind.
    pub kind: EventKind,
    /// The number of messages; 0 for a call. The other fields describe the first.
    pub count: u16,
    /// The OpenFlow version of the message as on the wire; 0 for a call.
    pub version: u8,
    /// The type of the message as on the wire.
    pub message_type: u8,
    /// The size of the message in bytes.
    pub size: u16,
    /// The transaction id of the message.
    pub xid: u32,
    /// The datapath id of the switch; 0 if it is unknown.
    pub dpid: u64,
    /// The app that was called, or that sent the message.
    pub app: Option<NonZeroU16>,
}

/// Messages of one switch, for the writer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Noted<'m> {
    /// The first message, or more.
    pub messages: &'m [u8],
    /// The number of messages.
    pub count: u16,
    /// The switch's datapath id, 0 if it is unknown.
    pub dpid: u64,
    /// The number of the app that sent them or is called, otherwise 0.
    pub app: u16,
}

/// The writing end of a worker's ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecentWriter {
    /// The time of the events that follow.
    pub(super) time_ns: u64,
    /// The number of the last event.
    last: u16,
}

impl RecentWriter {
    /// Without an event yet. Those before the first turn have the time `time_ns`.
    pub(super) fn starting_at(time_ns: u64) -> Self {
        Self { time_ns, last: 0 }
    }

    /// Writes an event into `ring`.
    #[inline]
    pub(super) fn note(&mut self, ring: &[Word], kind: EventKind, noted: &Noted<'_>) {
        self.last = self.last.wrapping_add(1);
        let first = usize::from(self.last) % EVENTS * EVENT_WORDS;
        let Some([time, head, dpid, rest]) = ring.get(first..first + EVENT_WORDS) else { return };
        let header = noted.messages.first_chunk::<HEADER>().copied().unwrap_or_default();
        time.store(self.time_ns, Ordering::Relaxed);
        head.store(u64::from_be_bytes(header), Ordering::Relaxed);
        dpid.store(noted.dpid, Ordering::Relaxed);
        let of = u64::from(noted.count) << 16 | u64::from(noted.app) << 32 | (kind as u64) << 48;
        rest.store(u64::from(self.last) | of, Ordering::Relaxed);
    }
}

/// Reads a worker's ring through `word`, the oldest event first. Any content is valid.
pub(super) fn read(word: impl Fn(usize) -> u64) -> Vec<RecentEvent> {
    let event = |number: usize| {
        let [time_ns, head, dpid, rest] =
            std::array::from_fn(|index| word(number * EVENT_WORDS + index));
        let kind = match rest >> 48 {
            1 => EventKind::Received,
            2 => EventKind::Sent,
            3 => EventKind::Called,
            _ => return None,
        };
        let [version, message_type, high, low, xid @ ..] = head.to_be_bytes();
        let [_, _, app_high, app_low, count_high, count_low, number @ ..] = rest.to_be_bytes();
        let event = RecentEvent {
            time_ns,
            kind,
            count: u16::from_be_bytes([count_high, count_low]),
            version,
            message_type,
            size: u16::from_be_bytes([high, low]),
            xid: u32::from_be_bytes(xid),
            dpid,
            app: NonZeroU16::new(u16::from_be_bytes([app_high, app_low])),
        };
        Some((u16::from_be_bytes(number), event))
    };
    let mut events: Vec<(u16, RecentEvent)> = (0..EVENTS).filter_map(event).collect();
    events.sort_by_key(|(number, _)| *number);
    // The numbers begin again after 2^16 events.
    let wrapped = events.windows(2).position(|pair| pair[1].0 - pair[0].0 > u16::MAX / 2);
    events.rotate_left(wrapped.map_or(0, |before| before + 1));
    events.into_iter().map(|(_, event)| event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring() -> Vec<Word> {
        (0..RING_WORDS).map(|_| Word::new(0)).collect()
    }

    fn events(ring: &[Word]) -> Vec<RecentEvent> {
        read(|word| ring[word].load(Ordering::Relaxed))
    }

    #[test]
    fn event_is_read_as_written() {
        let (ring, mut writer) = (ring(), RecentWriter { time_ns: 9, last: 0 });
        assert_eq!(events(&ring), []);
        let messages = &[4, 14, 0, 80, 0, 0, 1, 2, 77];
        writer.note(&ring, EventKind::Sent, &Noted { messages, count: 3, dpid: 5, app: 7 });
        writer.note(&ring, EventKind::Called, &Noted { app: 0xffff, ..Noted::default() });
        let sent = RecentEvent {
            time_ns: 9,
            kind: EventKind::Sent,
            count: 3,
            version: 4,
            message_type: 14,
            size: 80,
            xid: 0x102,
            dpid: 5,
            app: NonZeroU16::new(7),
        };
        let called = RecentEvent {
            kind: EventKind::Called,
            count: 0,
            version: 0,
            message_type: 0,
            size: 0,
            xid: 0,
            dpid: 0,
            app: NonZeroU16::new(0xffff),
            ..sent
        };
        assert_eq!(events(&ring), [sent, called]);
    }

    #[test]
    fn last_events_remain_in_order() {
        for first in [0, 100, u16::MAX - 10] {
            let (ring, mut writer) = (ring(), RecentWriter { time_ns: 0, last: first });
            for dpid in 1..=100 {
                writer.note(&ring, EventKind::Received, &Noted { dpid, ..Noted::default() });
            }
            let dpids: Vec<u64> = events(&ring).iter().map(|it| it.dpid).collect();
            assert_eq!(dpids, (101 - EVENTS as u64..=100).collect::<Vec<_>>(), "{first}");
        }
    }

    #[test]
    fn hostile_ring_is_bounded() {
        for byte in 0..=u8::MAX {
            assert!(read(|_| u64::from_ne_bytes([byte; 8])).len() <= EVENTS);
            assert!(read(|word| (word as u64) << 13 | u64::from(byte) << 48).len() <= EVENTS);
        }
    }
}
