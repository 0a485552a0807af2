//! Events: what changes in the network and in Rosemary, for clients that stay connected.
//!
//! One task asks the monitor and the kernel twice per second, compares, and publishes the differences. All clients share one ring of
//! the newest events, so clients cost no memory each: a slow client receives the number of events that it missed. While no client is
//! connected, nothing is asked.

mod poller;
mod stream;
mod topology;

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::{Notify, broadcast};

pub(crate) use self::poller::poll;
pub(crate) use self::stream::routes;
use crate::state::lock;

/// The most events that a slow client can be behind.
const RING: usize = 256;

/// The number of events from which a reconnecting client can resume.
const KEPT: usize = 1024;

/// How long the task goes on after the last client has left, so that clients can resume.
const LINGER: Duration = Duration::from_secs(60);

/// The most changes that are watched at once.
const MOST_CHANGES: usize = 64;

/// The kinds of events.
pub(crate) const KINDS: [&str; 8] =
    ["hello", "switch", "app", "program", "incident", "topology", "hosts", "change"];

/// An event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Event {
    pub(crate) id: u64,
    pub(crate) kind: &'static str,
    /// Nanoseconds since 1970.
    pub(crate) time: u64,
    pub(crate) data: Value,
}

/// The publisher of events.
#[derive(Debug)]
pub(crate) struct Events {
    sender: broadcast::Sender<Arc<Event>>,
    kept: Mutex<Kept>,
    /// Wakes the task when a client comes.
    wake: Notify,
    /// The changes that clients of this process have requested and that are not over.
    changes: Mutex<BTreeSet<u64>>,
}

/// The newest events.
#[derive(Debug)]
struct Kept {
    events: VecDeque<Arc<Event>>,
    next: u64,
    last_client: Option<Instant>,
}

impl Default for Events {
    fn default() -> Self {
        let kept = Kept { events: VecDeque::new(), next: 1, last_client: None };
        Self {
            sender: broadcast::channel(RING).0,
            kept: Mutex::new(kept),
            wake: Notify::new(),
            changes: Mutex::default(),
        }
    }
}

/// The first event of a client that connects.
pub(crate) struct Subscription {
    /// The number of the newest event.
    pub(crate) last: u64,
    /// The events since the one that the client saw last.
    pub(crate) missed: Vec<Arc<Event>>,
    /// The number of events that are lost for it.
    pub(crate) lost: u64,
    pub(crate) receiver: broadcast::Receiver<Arc<Event>>,
}

impl Events {
    /// Publishes an event.
    pub(crate) fn publish(&self, kind: &'static str, data: Value) {
        let mut kept = lock(&self.kept);
        let event = Arc::new(Event { id: kept.next, kind, time: now_ns(), data });
        kept.next += 1;
        if kept.events.len() >= KEPT {
            kept.events.pop_front();
        }
        kept.events.push_back(event.clone());
        // Without a client this fails, as it should.
        let _ = self.sender.send(event);
    }

    /// Subscribes a client, which saw event number `seen` last.
    pub(crate) fn subscribe(&self, seen: Option<u64>) -> Subscription {
        let mut kept = lock(&self.kept);
        // Under the lock, so that no event is missing or doubled.
        let receiver = self.sender.subscribe();
        kept.last_client = Some(Instant::now());
        self.wake.notify_one();
        let newest = kept.next - 1;
        let Some(seen) = seen.filter(|seen| *seen <= newest) else {
            return Subscription { last: newest, missed: Vec::new(), lost: 0, receiver };
        };
        let missed: Vec<_> = kept.events.iter().filter(|event| event.id > seen).cloned().collect();
        let lost = (newest - seen).saturating_sub(missed.len() as u64);
        Subscription { last: newest, missed, lost, receiver }
    }

    /// Watches a change until it is over.
    pub(crate) fn watch_change(&self, id: u64) {
        let mut changes = lock(&self.changes);
        if changes.len() >= MOST_CHANGES {
            changes.pop_first();
        }
        changes.insert(id);
    }

    /// Whether the task must go on.
    fn is_wanted(&self, now: Instant) -> bool {
        let mut kept = lock(&self.kept);
        if self.sender.receiver_count() > 0 {
            kept.last_client = Some(now);
        }
        kept.last_client.is_some_and(|at| now.saturating_duration_since(at) < LINGER)
    }

    /// Forgets the events, as those of a time follow that nobody watched. A client that resumes learns that it missed some.
    fn begin_again(&self) {
        let mut kept = lock(&self.kept);
        kept.events.clear();
        if kept.next > 1 {
            kept.next += 1;
        }
    }
}

fn now_ns() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.ok().and_then(|it| u64::try_from(it.as_nanos()).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::sync::broadcast::error::TryRecvError;

    use super::*;

    fn publish(events: &Events, count: usize) {
        for _ in 0..count {
            events.publish("app", json!({}));
        }
    }

    #[test]
    fn client_resumes_after_the_last_event_that_it_saw() {
        let events = Events::default();
        publish(&events, 5);
        let subscription = events.subscribe(Some(3));
        let ids: Vec<u64> = subscription.missed.iter().map(|it| it.id).collect();
        assert_eq!((subscription.last, subscription.lost, ids), (5, 0, vec![4, 5]));
        assert!(events.subscribe(None).missed.is_empty());
        assert!(events.subscribe(Some(99)).missed.is_empty(), "of another process");
    }

    #[test]
    fn client_that_comes_back_late_learns_what_it_missed() {
        let events = Events::default();
        publish(&events, KEPT + 10);
        let subscription = events.subscribe(Some(0));
        assert_eq!((subscription.missed.len(), subscription.lost), (KEPT, 10));
        events.begin_again();
        assert_eq!(events.subscribe(Some(KEPT as u64 + 10)).lost, 1);
    }

    #[test]
    fn slow_client_learns_how_much_it_missed() {
        let events = Events::default();
        let mut subscription = events.subscribe(None);
        publish(&events, RING + 7);
        assert_eq!(subscription.receiver.try_recv().unwrap_err(), TryRecvError::Lagged(7));
        assert_eq!(subscription.receiver.try_recv().unwrap().id, 8);
    }
}
