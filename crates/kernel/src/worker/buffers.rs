//! Buffers that wait for switches are bounded, all together ([`memory`](crate::memory)).

use std::time::Instant;

use super::Worker;
use crate::ids::ConnId;

/// Why a connection was closed for another.
const GAVE_WAY: &str = "too many connections wait with unfinished messages or unsent output, and this one has waited longest";

impl Worker {
    /// Notes the buffers of a connection. Where there is no room for them, the connections that have waited
    /// longest are closed, which may be this one.
    #[inline]
    pub(super) fn hold_buffers(&mut self, key: ConnId, now: Instant) {
        let Some(connection) = self.connections.get_mut(key.0) else { return };
        if !connection.hold_buffers() {
            self.make_room(key, now);
        }
    }

    #[cold]
    fn make_room(&mut self, key: ConnId, now: Instant) {
        while let Some(connection) = self.connections.get_mut(key.0)
            && !connection.hold_buffers()
        {
            let waiting = self.connections.iter().filter_map(|(index, connection)| {
                connection.buffers_since().map(|since| (since, ConnId(index)))
            });
            // Without one that waits longer here, others took all with other workers.
            let oldest = waiting.min().map_or(key, |(_, oldest)| oldest);
            self.close(oldest, GAVE_WAY, now);
        }
    }
}
