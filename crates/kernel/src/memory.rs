//! Bounds the memory that the kernel keeps for switches, for all connections together.
//!
//! Each connection has a small amount of each kind of its own. It takes more from a [`Pool`], which the connections of
//! all workers share. So a switch that needs much memory never keeps out switches that need little. There are two
//! kinds:
//!
//! * ports. They stay as long as the switch does, so the kernel refuses a switch for which the pool has no room.
//!   `switch-ports` in `[controller]` is the pool's size;
//! * buffers: the beginning of an incomplete message, and output that the switch does not read. When the pool is empty, the
//!   kernel closes the connection whose buffers have waited longest;
//! * flows in the images of switches with a flow monitor. When the pool is empty, the kernel ends the monitor of the switch, and
//!   requests its flows now and then.
//!
//! Freed memory stays with the allocator until [`Memory::trim`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Ports that each switch may have without taking from the pool.
pub(crate) const OWN_PORTS: usize = 64;

/// Bytes of buffers that each connection may hold without taking from the pool.
const OWN_BUFFERS: usize = 8 * 1024;

/// Size of the pool of buffers, in bytes: about a thousand messages of the greatest length.
const BUFFERS: usize = 64 << 20;

/// Unit in which buffers are taken from the pool, in bytes: large, so that workers rarely touch the shared counter.
const UNIT: usize = 4 * 1024;

/// Flows that each image may have without taking from the pool.
const OWN_FLOWS: usize = 1024;

/// Size of the pool of flows: some 100 MiB.
const FLOWS: usize = 3 << 20;

/// Unit in which flows are taken from the pool.
const FLOW_UNIT: usize = 256;

/// Approximate memory of a flow in an image, in bytes.
const FLOW_SIZE: usize = 32;

/// Approximate memory of one port, in bytes.
const PORT_SIZE: usize = 72;

/// Bytes returned to the pools after which memory is returned to the system.
const TRIM: usize = 4 << 20;

/// The pools of all connections; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    ports: Arc<Pool>,
    buffers: Arc<Pool>,
    flows: Arc<Pool>,
}

/// An amount that connections share.
#[derive(Debug)]
struct Pool {
    size: usize,
    taken: AtomicUsize,
    /// The amount returned since the last trim.
    returned: AtomicUsize,
}

/// The memory of one kind that one connection holds.
#[derive(Debug)]
pub(crate) struct Share {
    pool: Arc<Pool>,
    own: usize,
    unit: usize,
    taken: usize,
}

impl Memory {
    /// Pools with room for this number of ports.
    pub(crate) fn new(ports: usize) -> Self {
        let pool = |size| {
            let (taken, returned) = (AtomicUsize::new(0), AtomicUsize::new(0));
            Arc::new(Pool { size, taken, returned })
        };
        Self { ports: pool(ports), buffers: pool(BUFFERS), flows: pool(FLOWS) }
    }

    /// A connection's ports.
    pub(crate) fn ports(&self) -> Share {
        Share { pool: self.ports.clone(), own: OWN_PORTS, unit: 1, taken: 0 }
    }

    /// A connection's buffers, in bytes.
    pub(crate) fn buffers(&self) -> Share {
        Share { pool: self.buffers.clone(), own: OWN_BUFFERS, unit: UNIT, taken: 0 }
    }

    /// The flows of a switch's image.
    pub(crate) fn flows(&self) -> Share {
        Share { pool: self.flows.clone(), own: OWN_FLOWS, unit: FLOW_UNIT, taken: 0 }
    }

    /// Notes that a worker has freed this number of bytes of output buffers.
    pub(crate) fn freed(&self, bytes: usize) {
        if bytes > 0 {
            self.buffers.returned.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Returns freed memory of connections to the system, if there is a lot. That takes some milliseconds, so no
    /// worker calls this.
    pub(crate) fn trim(&self) {
        let returned = |pool: &Pool| pool.returned.load(Ordering::Relaxed);
        let flows = returned(&self.flows) * FLOW_SIZE;
        if returned(&self.ports) * PORT_SIZE + returned(&self.buffers) + flows >= TRIM {
            self.ports.returned.store(0, Ordering::Relaxed);
            self.flows.returned.store(0, Ordering::Relaxed);
            self.buffers.returned.store(0, Ordering::Relaxed);
            sys::memory::trim();
        }
    }
}

impl Share {
    /// Changes the amount that the connection holds to `amount`. `false`, without a change, if the pool has no room.
    #[inline]
    pub(crate) fn hold(&mut self, amount: usize) -> bool {
        let beyond = amount.saturating_sub(self.own).next_multiple_of(self.unit);
        beyond == self.taken || self.change(beyond)
    }

    #[inline(never)]
    fn change(&mut self, beyond: usize) -> bool {
        if let Some(returned) = self.taken.checked_sub(beyond) {
            self.pool.taken.fetch_sub(returned, Ordering::Relaxed);
            self.pool.returned.fetch_add(returned, Ordering::Relaxed);
            self.taken = beyond;
            return true;
        }
        let more = beyond - self.taken;
        let fits = |taken: usize| taken.checked_add(more).filter(|taken| *taken <= self.pool.size);
        let order = Ordering::Relaxed;
        let may = self.pool.taken.fetch_update(order, order, fits).is_ok();
        if may {
            self.taken = beyond;
        }
        may
    }

    /// Whether nothing is taken from the pool.
    pub(crate) fn is_small(&self) -> bool {
        self.taken == 0
    }

    /// The size of the pool.
    pub(crate) fn most(&self) -> usize {
        self.pool.size
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.hold(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_bounds_what_is_beyond_each_share_and_takes_it_back() {
        let memory = Memory::new(100);
        let (mut one, mut other) = (memory.ports(), memory.ports());
        assert!(one.hold(OWN_PORTS + 60) && other.hold(OWN_PORTS + 40));
        assert!(!other.hold(OWN_PORTS + 41), "the pool is empty");
        assert!(memory.ports().hold(OWN_PORTS), "a small share needs no pool");
        assert!(one.hold(OWN_PORTS + 59) && other.hold(OWN_PORTS + 41));
        drop(one);
        assert!(other.hold(OWN_PORTS + 100) && !other.hold(usize::MAX));
        drop(other);
        assert_eq!(memory.ports.taken.load(Ordering::Relaxed), 0);
        assert!(memory.ports.returned.load(Ordering::Relaxed) >= 160);
    }

    #[test]
    fn shares_of_many_threads_never_exceed_the_pool() {
        let memory = Memory::new(1000);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let memory = &memory;
                scope.spawn(move || {
                    let mut shares: Vec<Share> = (0..10).map(|_| memory.ports()).collect();
                    for turn in 0..10_000 {
                        shares[turn % 10].hold(OWN_PORTS + (turn * (thread + 7)) % 200);
                        assert!(memory.ports.taken.load(Ordering::Relaxed) <= 1000);
                    }
                });
            }
        });
        assert_eq!(memory.ports.taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn buffers_are_taken_in_units() {
        let memory = Memory::new(0);
        let mut share = memory.buffers();
        assert!(share.hold(OWN_BUFFERS) && share.is_small());
        assert!(share.hold(OWN_BUFFERS + 1) && !share.is_small());
        assert_eq!(memory.buffers.taken.load(Ordering::Relaxed), UNIT);
        assert!(!share.hold(OWN_BUFFERS + BUFFERS + 1));
        assert_eq!(memory.buffers.taken.load(Ordering::Relaxed), UNIT);
    }
}
