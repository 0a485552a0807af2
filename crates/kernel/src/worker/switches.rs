//! Owns the worker's connections: a slab of all, the index of switches by datapath, and the admission of connections
//! that are not switches yet.

use std::ops::{Index, IndexMut};
use std::time::Instant;

use slab::Slab;

use super::own_messages::guard_name;
use super::roster::Roster;
use crate::admission::Admission;
use crate::connection::Connection;
use crate::dispatch::Dispatch;
use crate::ids::ConnId;
use crate::outcomes::Purpose;
use crate::switch::Switch;
use control::query::{PAGE, SwitchStatus};

/// The connections of a worker.
#[derive(Debug)]
pub(super) struct Switches {
    connections: Slab<Connection>,
    /// The switches, by datapath.
    pub(super) roster: Roster,
    /// The connections that are not switches yet.
    pub(super) admission: Admission,
    /// The epoch of the next connection that becomes a switch.
    pub(super) next_epoch: u32,
}

impl Switches {
    /// No connections, for one of `workers` workers.
    pub(super) fn new(workers: usize, first_epoch: u32) -> Self {
        Self {
            connections: Slab::new(),
            roster: Roster::default(),
            admission: Admission::new(workers),
            next_epoch: first_epoch,
        }
    }

    /// The id that [`insert`](Self::insert) gives next.
    pub(super) fn next_id(&self) -> ConnId {
        ConnId(self.connections.vacant_key())
    }

    /// Adds a connection that is not a switch yet.
    pub(super) fn insert(&mut self, connection: Connection) -> ConnId {
        let (source, progress) = (connection.address.ip(), connection.phase.progress());
        let id = ConnId(self.connections.insert(connection));
        self.admission.enter(source, id, progress);
        id
    }

    /// Removes a connection.
    ///
    /// # Panics
    /// If there is none with this id.
    pub(super) fn remove(&mut self, id: ConnId) -> Connection {
        self.admission.leave(id);
        self.connections.remove(id.0)
    }

    #[inline]
    pub(super) fn get(&self, id: ConnId) -> Option<&Connection> {
        self.connections.get(id.0)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: ConnId) -> Option<&mut Connection> {
        self.connections.get_mut(id.0)
    }

    /// The switch of a connection, if it is up.
    #[inline]
    pub(super) fn switch_mut(&mut self, id: ConnId) -> Option<&mut Switch> {
        self.get_mut(id)?.switch_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ConnId, &Connection)> {
        self.connections.iter().map(|(index, connection)| (ConnId(index), connection))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (ConnId, &mut Connection)> {
        self.connections.iter_mut().map(|(index, connection)| (ConnId(index), connection))
    }

    /// All switches, and the roster that names their epochs.
    pub(super) fn all(&mut self) -> (impl Iterator<Item = &mut Switch>, &Roster) {
        let switches = self.connections.iter_mut();
        (switches.filter_map(|(_, connection)| connection.switch_mut()), &self.roster)
    }

    /// The connections that claim a datapath.
    pub(super) fn claims(&self) -> Vec<ConnId> {
        let claims = self.iter().filter(|(_, connection)| connection.phase.claim().is_some());
        claims.map(|(id, _)| id).collect()
    }

    /// The connection whose buffers have waited longest, among those that use the shared pool.
    pub(super) fn longest_waiting(&self) -> Option<ConnId> {
        let waiting = self
            .iter()
            .filter_map(|(id, connection)| connection.buffers_since().map(|since| (since, id)));
        waiting.min().map(|(_, id): (Instant, _)| id)
    }

    /// The status of at most [`PAGE`] switches with a greater datapath id than `after`, and whether there are more.
    pub(super) fn status(
        &self,
        after: Option<u64>,
        dispatch: &Dispatch,
        now: Instant,
    ) -> (Vec<SwitchStatus>, bool) {
        let mut dpids: Vec<(u64, ConnId)> = self
            .roster
            .iter()
            .map(|(dpid, entry)| (dpid, entry.key))
            .filter(|(dpid, _)| after.is_none_or(|after| *dpid > after))
            .collect();
        dpids.sort_unstable();
        let more = dpids.len() > PAGE;
        let page = dpids.iter().take(PAGE).filter_map(|(_, id)| {
            let connection = self.get(*id)?;
            let switch = connection.switch()?;
            let fullest = super::flows::table_usage::fullest(switch, dispatch);
            let (address, unsent) = (connection.address, connection.unsent());
            let name = |slot| guard_name(Purpose::Guard(slot), &dispatch.app_ports);
            let failing = switch.outcomes.failing(name, now);
            let shown = (fullest, failing);
            let mut status = switch.status(address, connection.transport(), shown, unsent);
            let session = &connection.session;
            status.no_packets = dispatch.no_packets(switch);
            status.role = session.role().map(|role| role.to_string());
            status.requests.insert("description".to_owned(), session.table_requests());
            Some(status)
        });
        (page.collect(), more)
    }
}

impl Index<ConnId> for Switches {
    type Output = Connection;

    #[inline]
    fn index(&self, id: ConnId) -> &Connection {
        &self.connections[id.0]
    }
}

impl IndexMut<ConnId> for Switches {
    #[inline]
    fn index_mut(&mut self, id: ConnId) -> &mut Connection {
        &mut self.connections[id.0]
    }
}
