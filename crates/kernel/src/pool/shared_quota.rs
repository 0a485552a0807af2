//! Divides an app's quota per second among the workers.
//!
//! Workers take small portions, so that they rarely touch the same memory. The rest of a portion expires with the
//! second. With one worker the portion is the whole quota.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Kinds of messages that are counted apart.
pub(crate) const KINDS: usize = 3;

/// Portions for each worker in a second.
const PORTIONS: u32 = 16;

/// The quota of one app, which all workers share.
#[derive(Debug)]
pub(crate) struct SharedQuota {
    began: Instant,
    /// For each kind: the second in the upper half, the amount taken in it in the lower half.
    taken: [AtomicU64; KINDS],
    /// Offences ([`Throttle`](crate::app_port::Throttle)), in the same form.
    offences: AtomicU64,
    /// Number of portions of a second's quota.
    portions: u32,
}

impl SharedQuota {
    /// The quota of an app with rings to `workers` workers.
    pub(crate) fn new(workers: usize) -> Self {
        let workers = u32::try_from(workers).unwrap_or(u32::MAX);
        let portions = if workers == 1 { 1 } else { workers.saturating_mul(PORTIONS) };
        Self {
            began: Instant::now(),
            taken: [const { AtomicU64::new(0) }; KINDS],
            offences: AtomicU64::new(0),
            portions,
        }
    }

    /// The number of the current second.
    pub(crate) fn second(&self, now: Instant) -> u32 {
        let seconds = now.saturating_duration_since(self.began).as_secs();
        u32::try_from(seconds).unwrap_or(u32::MAX)
    }

    /// Adds offences to those of this second. Returns their sum.
    pub(crate) fn offend(&self, offences: u32, second: u32) -> u32 {
        let of_second = |word: u64| {
            let is_current = u32::try_from(word >> 32).is_ok_and(|of| of >= second);
            if is_current { u32::try_from(word & 0xffff_ffff).unwrap_or(u32::MAX) } else { 0 }
        };
        if offences == 0 {
            return of_second(self.offences.load(Ordering::Relaxed));
        }
        let add = |word: u64| {
            let of = (word >> 32).max(second.into());
            Some(of << 32 | u64::from(of_second(word).saturating_add(offences)))
        };
        let before = self.offences.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        of_second(before.unwrap_or_default()).saturating_add(offences)
    }

    /// Takes a portion of the rest of `most` in this second; 0 if it is used up.
    pub(crate) fn take(&self, kind: usize, most: u32, second: u32) -> u32 {
        let portion = (most / self.portions).max(1);
        let mut granted = 0;
        let take = |word: u64| {
            let of = u32::try_from(word >> 32).unwrap_or(u32::MAX);
            // Another worker may have begun the next second already: then the portion belongs to that one.
            let taken = if of >= second { u32::try_from(word & 0xffff_ffff).ok()? } else { 0 };
            granted = portion.min(most.saturating_sub(taken));
            let second = u64::from(of.max(second));
            (granted > 0).then(|| second << 32 | u64::from(taken + granted))
        };
        let _ = self.taken[kind].fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(shared_quota: &SharedQuota, most: u32, second: u32) -> u32 {
        std::iter::repeat_with(|| shared_quota.take(0, most, second)).take_while(|it| *it > 0).sum()
    }

    #[test]
    fn workers_together_take_the_quota_each_second() {
        for (workers, most) in [(1, 10), (2, 1), (2, 10), (4, 1_000), (16, u32::MAX), (2, 0)] {
            let shared_quota = SharedQuota::new(workers);
            assert_eq!(all(&shared_quota, most, 0), most, "{workers} workers");
            assert_eq!(shared_quota.take(0, most, 0), 0);
            assert_eq!(all(&shared_quota, most, 1), most);
            assert_eq!(shared_quota.take(1, 5, 1).min(1), 1, "kinds are counted apart");
        }
        assert_eq!(SharedQuota::new(1).take(0, 10, 0), 10);
        assert_eq!(SharedQuota::new(2).take(0, 320, 0), 10);
    }

    #[test]
    fn late_worker_takes_from_the_current_second() {
        let shared_quota = SharedQuota::new(2);
        assert_eq!(all(&shared_quota, 10, 5), 10);
        assert_eq!(shared_quota.take(0, 10, 4), 0);
    }
}
