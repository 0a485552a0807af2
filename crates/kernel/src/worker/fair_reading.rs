//! Keeps the ready connections in a queue for each payer, and chooses among the queues by the shares of sessions.
//!
//! It exists only while sessions reserve packet-ins. Otherwise all ready connections are in one queue ([`super::reading`]).

use std::collections::VecDeque;

use super::switches::Switches;
use crate::app_port::AppPort;
use crate::connection::{Connection, Reading};
use crate::dispatch::Dispatch;
use crate::ids::{AppSlot, ConnId};
use crate::plan::MAX_APPS;
use crate::session_shares::{Payer, Shares};

/// The queues of connections that may be read, and the shares by which they are read.
#[derive(Debug)]
pub(super) struct FairQueues {
    shares: Shares,
    /// By [`Payer::index`].
    queues: [Queue; Payer::COUNT],
    /// Bytes of packet-ins that each app had received before the present read.
    received: [u64; MAX_APPS],
}

#[derive(Debug, Default)]
struct Queue {
    /// In the order of their turns.
    ready: VecDeque<ConnId>,
    /// Connections that this round has yet to read once.
    turns: usize,
}

impl FairQueues {
    /// Empty queues. The caller adds the connections that are ready.
    pub(super) fn new(shares: Shares) -> Self {
        let queues = std::array::from_fn(|_| Queue::default());
        Self { shares, queues, received: [0; MAX_APPS] }
    }

    /// Makes each app a member of its session, and names the payer of each switch.
    pub(super) fn assign(&mut self, switches: &mut Switches, dispatch: &Dispatch) {
        for (index, app_port) in dispatch.app_ports.iter().enumerate() {
            self.shares.assign(AppSlot::new(index), app_port.policy.session);
        }
        for (id, connection) in switches.iter_mut() {
            self.classify(id, connection, dispatch);
        }
    }

    /// Names the payer of a connection, which may be ready.
    pub(super) fn classify(
        &mut self,
        id: ConnId,
        connection: &mut Connection,
        dispatch: &Dispatch,
    ) {
        let fed = connection.switch().map(|switch| dispatch.feeds(switch.dpid.0));
        let payer = fed.map_or(Payer::NONE, |fed| self.shares.payer(fed));
        if payer == connection.payer {
            return;
        }
        let is_ready = connection.reading == Reading::Ready;
        if is_ready {
            self.forget(id, connection.payer);
        }
        connection.payer = payer;
        if is_ready {
            self.push_back(id, payer);
        }
    }

    pub(super) fn forget(&mut self, id: ConnId, payer: Payer) {
        self.queues[payer.index()].ready.retain(|other| *other != id);
    }

    pub(super) fn push_back(&mut self, id: ConnId, payer: Payer) {
        self.queues[payer.index()].ready.push_back(id);
    }

    /// Lists a connection as the next of its payer, in the middle of its turn.
    pub(super) fn push_front(&mut self, id: ConnId, payer: Payer) {
        let queue = &mut self.queues[payer.index()];
        queue.ready.push_front(id);
        queue.turns += 1;
    }

    /// Takes all ready connections out of the queues.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = ConnId> {
        self.queues.iter_mut().flat_map(|queue| queue.ready.drain(..))
    }

    /// Whether a connection may be read at once.
    pub(super) fn has_ready(&self) -> bool {
        self.queues.iter().any(|queue| !queue.ready.is_empty())
    }

    /// The number of ready connections with the same payer.
    pub(super) fn ready_of(&self, payer: Payer) -> usize {
        self.queues[payer.index()].ready.len()
    }

    /// Bytes that may be read from a connection of this payer.
    pub(super) fn allowance(&self, payer: Payer) -> usize {
        self.shares.allowance(payer)
    }

    /// The part of `all` records that an app may have handled in a turn of the worker.
    pub(super) fn portion(&self, slot: AppSlot, members: usize, all: usize) -> usize {
        self.shares.portion(slot, members, all)
    }

    /// Begins a round: each connection that is ready now is read at most once.
    pub(super) fn begin_round(&mut self) {
        for queue in &mut self.queues {
            queue.turns = queue.ready.len();
        }
        let queues = &self.queues;
        self.shares.begin_round(|payer| queues[payer.index()].turns > 0);
    }

    /// The connection to be read next; `None` at the end of the round.
    pub(super) fn next(&mut self) -> Option<ConnId> {
        let queues = &mut self.queues;
        let waits = |payer: Payer| {
            let queue = &queues[payer.index()];
            queue.turns > 0 && !queue.ready.is_empty()
        };
        let queue = &mut self.queues[self.shares.next(waits)?.index()];
        queue.turns -= 1;
        queue.ready.pop_front()
    }

    /// Whether the round ended before each connection was read.
    pub(super) fn is_cut_short(&self) -> bool {
        self.queues.iter().any(|queue| queue.turns > 0 && !queue.ready.is_empty())
    }

    /// Notes what the apps have received before a read.
    pub(super) fn begin_read(&mut self, app_ports: &[AppPort]) {
        for (received, app_port) in self.received.iter_mut().zip(app_ports) {
            *received = app_port.counts.delivered_bytes;
        }
    }

    /// Charges a read of `size` bytes, which the apps have received since [`begin_read`](Self::begin_read).
    pub(super) fn charge(&mut self, payer: Payer, size: usize, app_ports: &[AppPort]) {
        let received = self.received.iter().zip(app_ports).enumerate();
        let taken = received.filter_map(|(index, (before, app_port))| {
            let bytes = app_port.counts.delivered_bytes - before;
            (bytes > 0).then_some((AppSlot::new(index), bytes))
        });
        self.shares.charge(payer, size, taken);
    }
}
