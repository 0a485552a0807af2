//! Forwards messages of apps to the worker that has the switch.

use std::time::Instant;

use sdk::Refusal;

use super::{Worker, WorkerChannels};
use crate::app_port::Alike;
use crate::ids::WorkerId;
use crate::pool::{ForwardQueue, Head, WorkerPool};

/// Messages on their way between this worker and others.
#[derive(Debug, Default)]
pub(super) struct Forwarder {
    /// A bit for each worker to which something was posted since the last wake-up.
    posted: u32,
    /// Messages that came from another worker; kept for its capacity.
    queue: ForwardQueue,
}

impl Forwarder {
    /// Posts a message to the worker that has given its epoch.
    pub(super) fn forward(
        &mut self,
        channels: &WorkerChannels,
        head: Head,
        message: &[u8],
    ) -> Result<(), Refusal> {
        let (pool, me) = (&channels.pool, channels.me);
        let owner = pool.owner(head.epoch);
        if owner == me {
            return Err(Refusal::NoSwitch);
        }
        if !pool.post(me, owner, head, message) {
            return Err(Refusal::Full);
        }
        self.posted |= 1 << owner.0;
        Ok(())
    }

    /// Wakes the workers to which something was posted.
    pub(super) fn wake(&mut self, pool: &WorkerPool) {
        while self.posted != 0 {
            pool.wake(WorkerId(self.posted.trailing_zeros() as usize));
            self.posted &= self.posted - 1;
        }
    }
}

impl Worker {
    /// Checks and sends the messages that other workers have posted for switches of this one.
    pub(super) fn take_forwarded(&mut self, now: Instant) {
        let mut queue = std::mem::take(&mut self.forwarder.queue);
        let me = self.channels.me;
        let others = (0..self.channels.pool.workers()).map(WorkerId).filter(|other| *other != me);
        for from in others {
            self.channels.pool.collect(from, me, &mut queue);
            for number in 0..queue.len() {
                let Some((head, message)) = queue.get(number) else { break };
                let Head { app, dpid, epoch, is_set } = head;
                // Every worker knows the same apps by the time that one of them can send.
                let Some(slot) = self.slot_of(app) else { continue };
                if is_set {
                    self.send_change_set(slot, (dpid, epoch), message, now);
                    continue;
                }
                // Checked here again: only the message itself is forwarded.
                let rights = self.dispatch.app_ports[slot].rights.at(dpid);
                let checked = rights.check_message(message);
                let only = Alike::one((dpid, epoch), checked, (0, &*message));
                self.send_run(slot, &[only], message, now);
            }
            queue.clear();
        }
        self.forwarder.queue = queue;
    }
}
