//! Divides the processor time of sessions among the threads of their members.
//!
//! A session has virtual processors. Each takes members in turn, and divides its runtime evenly among them. A thread with
//! `SCHED_DEADLINE` receives its runtime in each period and waits for the next one when it has used that (sched(7)): Linux gives no thread
//! both a reservation and best-effort time beyond it. So a session with `extra` has a weight instead
//! (`docs/decisions/0013-reservations-of-processor-time.md`), and so has every session where the system refuses a reservation.

use std::time::Duration;

use control::session::{CpuReservation, PROCESSOR};

use super::Sessions;

/// The weight of an app without a session.
pub const ORDINARY: u32 = 100;

/// The weight of the kernel among Rosemary's programs.
pub const OF_KERNEL: u32 = 400;

/// The largest weight that both versions of cgroups know.
const MOST_WEIGHT: u64 = 10_000;

/// A reservation of one thread: it receives `runtime` in each `period`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// Processor time per period.
    pub runtime: Duration,
    /// The period.
    pub period: Duration,
}

impl Deadline {
    /// The share in billionths of a processor, rounded up.
    pub fn share(&self) -> u64 {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        CpuReservation::new(us(self.runtime), us(self.period)).share()
    }
}

/// How the thread of a member that receives its events is to be scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// As every other thread.
    Ordinary,
    /// It has a reservation, and no more than that.
    Reserved(Deadline),
    /// It has a weight for this reservation, and `extra` beyond it.
    Weighted {
        /// The reservation that the weight stands for.
        deadline: Deadline,
        /// The weight beyond the reservation.
        extra: u32,
    },
}

/// The shares of `members` threads of a session, in their order.
pub fn shares(cpu: Option<CpuReservation>, members: usize) -> Vec<Share> {
    let Some(cpu) = cpu else { return vec![Share::Ordinary; members] };
    let processors = usize::from(cpu.processors.max(1));
    let share = |place: usize| {
        let processor = place % processors;
        // Members of the same virtual processor: `processor`, `processor + processors`, ...
        let sharing = (members - processor).div_ceil(processors);
        let sharing = u32::try_from(sharing).unwrap_or(u32::MAX).max(1);
        let deadline = Deadline { runtime: cpu.runtime() / sharing, period: cpu.period() };
        match cpu.extra {
            0 => Share::Reserved(deadline),
            extra => Share::Weighted { deadline, extra: extra.into() },
        }
    };
    (0..members).map(share).collect()
}

/// The weight of a group that stands in for a reservation of `share` billionths of a processor, beside reservations of `all` together.
/// `others` is the sum of the weights of all programs without a reservation.
///
/// With it the group receives its share even if all programs are busy on the same processor, as long as `all` is at most 19 of 20 parts of
/// one. The weight does not concern processes outside of Rosemary's cgroup. It is at least that of an app without a session, so a
/// session never receives less than none.
pub fn weight(share: u64, all: u64, others: u32) -> u32 {
    let all = all.min(PROCESSOR / 20 * 19);
    let wanted = u128::from(others) * u128::from(share);
    let weight = wanted.div_ceil(u128::from(PROCESSOR - all));
    let weight = u64::try_from(weight).unwrap_or(MOST_WEIGHT).clamp(ORDINARY.into(), MOST_WEIGHT);
    u32::try_from(weight).unwrap_or(u32::MAX)
}

impl Sessions {
    /// The sum of all configured reservations of processor time, in billionths of a processor.
    pub fn reserved_cpu(&self) -> u64 {
        let rows = self.rows.iter().skip(2);
        rows.fold(0, |sum, row| {
            sum.saturating_add(row.reservation.of(control::session::Resource::Cpu))
        })
    }
}
