//! Counts the memory that a connection takes from the pools of all connections ([`memory`](crate::memory)).

use std::time::Instant;

use dal::{Closed, MAX_PORTS};

use super::Connection;
use crate::memory::OWN_PORTS;

impl Connection {
    /// Notes the ports that are kept of it, and `more` that are about to be.
    ///
    /// # Errors
    /// [`Closed`]: all switches together, or this one, would have too many.
    pub(crate) fn hold_ports(&mut self, more: usize) -> Result<(), Closed> {
        let claimed =
            self.phase.claim().map_or(0, |claim| claim.info.ports.len() + claim.ports.len());
        let known = self.switch().map_or(0, |switch| switch.ports.len());
        let ports = self.session.described_ports() + claimed + known + more;
        if known + more > MAX_PORTS {
            return Err(Closed::TooManyPorts);
        }
        if !self.ports.hold(ports) {
            return Err(Closed::PortsOfAll { ports, own: OWN_PORTS, most: self.ports.most() });
        }
        Ok(())
    }

    /// Notes the buffers that wait for the other side: a message that is not whole, and output while the
    /// socket is full. `false` if there is no room for them.
    #[inline]
    pub(crate) fn hold_buffers(&mut self) -> bool {
        let is_blocked = self.output.blocked_since().is_some();
        let unsent =
            if is_blocked { self.out.capacity() + self.output.queue_capacity() } else { 0 };
        self.buffers.hold(self.partial.bytes.capacity() + unsent)
    }

    /// Since when its buffers have waited, if they take more than each connection may have.
    pub(crate) fn buffers_since(&self) -> Option<Instant> {
        let since = self.partial.since.into_iter().chain(self.output.blocked_since()).min();
        since.filter(|_| !self.buffers.is_small())
    }
}
