//! Tracks which rings a zone holds, from an `Attach` to its `Attached`.
//!
//! The kernel replies to each `Attach` once, in order: with `Attached`, or with `NotAttached` if it has no room for more
//! rings. After a `NotAttached` the monitor sends another `Attach` a moment later. Between `Attach` and reply the zone may
//! have died, and a new one may have been loaded. So only the reply to the last `Attach` counts, and only if that was sent
//! for the current process. The same holds for faults: until the kernel has replied to the `Attach` of the current zone,
//! a fault that it reports belongs to the previous zone.

use std::time::{Duration, Instant};

/// The time from a failed attempt to the next.
const RETRY: Duration = Duration::from_secs(1);

/// The state between one zone and one kernel.
#[derive(Debug, Default)]
pub struct Attachment {
    /// The number of `Attach` messages without a reply.
    unanswered: u32,
    /// Whether an `Attach` was sent for the current process.
    requested: bool,
    connected: bool,
    /// When to send another `Attach` after a failure.
    retry_at: Option<Instant>,
}

/// The subject of a reply to an `Attach`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyFor {
    /// The current zone.
    CurrentZone,
    /// A zone that has ended, or rings that were replaced. The monitor closes the rings.
    EarlierZone,
    /// No request: the kernel breaks the protocol.
    NoRequest,
}

impl Attachment {
    /// An `Attach` was sent for the current zone.
    pub fn requested(&mut self) {
        self.unanswered += 1;
        self.requested = true;
        self.connected = false;
        self.retry_at = None;
    }

    /// An `Attached` arrived with its rings.
    pub fn attached(&mut self) -> ReplyFor {
        let reply = self.count_reply();
        self.connected |= reply == ReplyFor::CurrentZone;
        reply
    }

    /// A `NotAttached` arrived, or an `Attached` whose rings were lost on the way.
    pub fn not_attached(&mut self, now: Instant) -> ReplyFor {
        let reply = self.count_reply();
        if reply == ReplyFor::CurrentZone {
            self.requested = false;
            self.retry_at = Some(now + RETRY);
        }
        reply
    }

    fn count_reply(&mut self) -> ReplyFor {
        let Some(rest) = self.unanswered.checked_sub(1) else { return ReplyFor::NoRequest };
        self.unanswered = rest;
        if rest > 0 || !self.requested { ReplyFor::EarlierZone } else { ReplyFor::CurrentZone }
    }

    /// When [`take_retry`](Self::take_retry) is due, after a failure.
    pub fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Returns once, at the time of a retry, that another `Attach` must be sent.
    ///
    /// If the zone or the kernel is not ready at that time, the `Attach` follows when both are.
    pub fn take_retry(&mut self, now: Instant) -> bool {
        self.retry_at.take_if(|at| *at <= now).is_some()
    }

    /// Returns whether a fault that the kernel reports now concerns the current zone.
    pub fn is_connected(&self) -> bool {
        self.connected
    }

    /// Whether the kernel has replied to every `Attach`, and the current process has no rings.
    pub fn is_settled(&self) -> bool {
        self.unanswered == 0 && !self.requested
    }

    /// The zone has ended. Returns whether the kernel must receive a `Detach`.
    pub fn zone_ended(&mut self) -> bool {
        self.connected = false;
        self.retry_at = None;
        std::mem::take(&mut self.requested)
    }

    /// The kernel has ended, so no outstanding request gets a reply.
    pub fn kernel_ended(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requested_rings_connect_the_zone() {
        let mut attachment = Attachment::default();
        attachment.requested();
        assert!(!attachment.is_connected());
        assert_eq!(attachment.attached(), ReplyFor::CurrentZone);
        assert!(attachment.is_connected());
    }

    #[test]
    fn rings_of_ended_zone_do_not_reach_its_successor() {
        let mut attachment = Attachment::default();
        attachment.requested();
        assert!(attachment.zone_ended());
        attachment.requested();
        assert_eq!(attachment.attached(), ReplyFor::EarlierZone);
        assert!(!attachment.is_connected(), "a fault now concerns the old zone");
        assert_eq!(attachment.attached(), ReplyFor::CurrentZone);
    }

    #[test]
    fn rings_of_ended_zone_are_stale() {
        let mut attachment = Attachment::default();
        attachment.requested();
        attachment.zone_ended();
        assert_eq!(attachment.attached(), ReplyFor::EarlierZone);
    }

    #[test]
    fn rings_without_request_break_the_protocol() {
        assert_eq!(Attachment::default().attached(), ReplyFor::NoRequest);
        assert_eq!(Attachment::default().not_attached(Instant::now()), ReplyFor::NoRequest);
    }

    #[test]
    fn failed_attempt_is_retried() {
        let (mut attachment, now) = (Attachment::default(), Instant::now());
        attachment.requested();
        assert_eq!(attachment.not_attached(now), ReplyFor::CurrentZone);
        assert_eq!(attachment.retry_at(), Some(now + RETRY));
        assert!(!attachment.zone_ended(), "the kernel does not know the zone");
        assert_eq!(attachment.retry_at(), None);
        attachment.requested();
        assert_eq!(attachment.not_attached(now), ReplyFor::CurrentZone);
        assert!(!attachment.take_retry(now));
        assert!(attachment.take_retry(now + RETRY) && !attachment.take_retry(now + RETRY));
        attachment.requested();
        assert_eq!(attachment.attached(), ReplyFor::CurrentZone);
    }

    #[test]
    fn failed_attempt_for_ended_zone_is_not_retried() {
        let (mut attachment, now) = (Attachment::default(), Instant::now());
        attachment.requested();
        attachment.zone_ended();
        assert_eq!(attachment.not_attached(now), ReplyFor::EarlierZone);
        assert_eq!(attachment.retry_at(), None);
    }

    #[test]
    fn kernel_receives_detach_only_for_known_zone() {
        let mut attachment = Attachment::default();
        assert!(!attachment.zone_ended());
        attachment.requested();
        attachment.kernel_ended();
        assert!(!attachment.zone_ended());
    }
}
