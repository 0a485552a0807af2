//! Back-pressure: switches are left unread while the apps that they feed are full (design §5).
//!
//! How long is decided by [`Pause`](crate::pause::Pause), by what [`Dispatch`](crate::dispatch) says of the
//! apps. A switch that is to wait is taken out of what epoll watches for input, so that neither it nor
//! anything else is looked at again for its sake before an app has room, or before its time is up. Only
//! switches that have sent something are ever paused.

use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use tracing::{info, warn};

use super::{CONNECTION, Worker};
use crate::connection::Connection;
use crate::link::News;

/// Switches that are not read, and when to look after them.
#[derive(Debug, Default)]
pub(super) struct Paused {
    /// Where they are.
    keys: Vec<usize>,
    /// When the first of them has waited long enough.
    until: Option<Instant>,
}

impl Paused {
    /// When [`Worker::resume`] has something to do, whatever else happens.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Forgets a connection.
    pub(super) fn forget(&mut self, key: usize) {
        self.keys.retain(|other| *other != key);
    }
}

/// What epoll is to tell of a connection.
///
/// Nothing about input while it is paused, its end included: that stands behind what is unread.
pub(super) fn interest(connection: &Connection) -> EventFlags {
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN | EventFlags::RDHUP, !connection.pause.listed);
    flags.set(EventFlags::OUT, connection.is_blocked());
    flags
}

impl Worker {
    /// How many bytes may be read of a connection that has sent something; `None` if it is to wait.
    ///
    /// A connection that is `broken` is read to its end: epoll would tell of it for ever.
    pub(super) fn may_read(&mut self, key: usize, broken: bool, now: Instant) -> Option<usize> {
        let connection = &mut self.connections[key];
        let Some(switch) = &mut connection.switch else { return Some(usize::MAX) };
        let pressure = self.dispatch.pressure(switch, now);
        if !broken && let Some(until) = connection.pause.wait(pressure.full, now) {
            // What it has sent is a sign of life, read or not.
            connection.session.heard(now);
            if !connection.pause.listed {
                connection.pause.listed = true;
                switch.counters.pauses += 1;
                self.paused.keys.push(key);
                self.watch(key);
            }
            self.paused.until = Some(self.paused.until.map_or(until, |other| other.min(until)));
            return None;
        }
        connection.pause.read();
        switch.vital.refresh(now);
        Some(pressure.room)
    }

    /// Lets epoll tell again of switches that have waited long enough, or whose apps have room.
    pub(super) fn resume(&mut self, now: Instant) {
        let room_came = self.dispatch.room_came(now);
        let Some(until) = self.paused.until else { return };
        if !room_came && now < until {
            return;
        }
        self.paused.until = None;
        for key in std::mem::take(&mut self.paused.keys) {
            let Some(connection) = self.connections.get_mut(key) else { continue };
            let Some(switch) = &connection.switch else { continue };
            let full = self.dispatch.pressure(switch, now).full;
            if let Some(until) = connection.pause.wait(full, now) {
                self.paused.keys.push(key);
                self.paused.until = Some(self.paused.until.map_or(until, |other| other.min(until)));
            } else {
                // Those that have waited longest come first in epoll's list, too.
                connection.pause.listed = false;
                self.watch(key);
            }
        }
    }

    /// Tells epoll what it is to tell of a connection.
    pub(super) fn watch(&self, key: usize) {
        let Some(connection) = self.connections.get(key) else { return };
        let data = EventData::new_u64(CONNECTION | key as u64);
        // Fails only for a socket that is not in the set; ours is.
        let _ = epoll::modify(&self.epoll, &connection.socket, data, interest(connection));
    }

    /// Tells the operator which apps have begun to lose packet-ins, and which no longer do.
    pub(super) fn tell_drops(&mut self, now: Instant) {
        for link in &mut self.dispatch.links {
            let app = &link.name;
            match link.counts.news(now) {
                Some(News::Began) if link.is_attached() => {
                    warn!(app, "the app does not keep up; packet-ins for it are dropped");
                }
                Some(News::Began) => {
                    warn!(
                        app,
                        "the app is away and too many wait for it; packet-ins for it are dropped"
                    );
                }
                Some(News::Ended { dropped, took }) => {
                    info!(app, dropped, ?took, "packet-ins for the app are no longer dropped");
                }
                None => {}
            }
        }
    }
}
