//! Records incidents, and keeps the newest in memory.
//!
//! The caller stores what changes, and says what time it is.

mod of_program;
mod records;

use std::cell::{Ref, RefCell};
use std::rc::Rc;
use std::time::Duration;

use control::incident::{Cause, Evidence, Incident, IncidentId, Program};

pub use self::of_program::ProgramIncidents;
pub use self::records::{Change, MOST, MOST_BYTES, Records};

/// The incidents of this instance and of earlier ones with the same state directory. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Incidents(Rc<RefCell<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    records: Records,
    /// The changes since the last [`Incidents::take_changes`].
    changes: Vec<Change>,
    /// Nanoseconds since 1970.
    time: u64,
}

impl Incidents {
    /// Goes on with stored incidents. Those that still lasted are closed, because the instance that recorded them has ended.
    pub fn new(records: Records) -> Self {
        let inner = Inner { records, ..Inner::default() };
        let incidents = Self(Rc::new(RefCell::new(inner)));
        incidents.change(Records::close_lost);
        incidents
    }

    /// Says that the time is now `time` nanoseconds after the beginning of 1970.
    pub fn set_time(&self, time: u64) {
        self.0.borrow_mut().time = time;
    }

    /// The time that was set last, in nanoseconds since 1970.
    pub fn time(&self) -> u64 {
        self.0.borrow().time
    }

    /// The changes since the last call, for the store.
    pub fn take_changes(&self) -> Vec<Change> {
        std::mem::take(&mut self.0.borrow_mut().changes)
    }

    /// All incidents, for the store.
    pub fn records(&self) -> Ref<'_, Records> {
        Ref::map(self.0.borrow(), |inner| &inner.records)
    }

    /// Records an incident that begins now and lasts until [`close`](Self::close).
    pub fn open(&self, program: Program, cause: Cause, evidence: Evidence) -> IncidentId {
        let time = self.0.borrow().time;
        let mut id = IncidentId(0);
        self.change(|records| {
            let (new, changes) = records.open(time, program, cause, evidence);
            id = new;
            changes
        });
        id
    }

    /// The program of incident `id` ended again in the same way before it ran.
    pub fn repeated(&self, id: IncidentId) {
        self.change(|records| {
            records.update(id, |incident| incident.count = incident.count.saturating_add(1))
        });
    }

    /// Adds what Rosemary did, as a phrase.
    pub fn reaction(&self, id: IncidentId, reaction: impl Into<String>) {
        let reaction = reaction.into();
        self.change(|records| records.update(id, |incident| incident.reaction.push(reaction)));
    }

    /// Changes the evidence.
    pub fn amend(&self, id: IncidentId, amend: impl FnOnce(&mut Evidence)) {
        self.change(|records| records.update(id, |incident| amend(&mut incident.evidence)));
    }

    /// The incident is over, after `duration`; `None` if that is unknown.
    pub fn close(&self, id: IncidentId, duration: Option<Duration>) {
        let duration = duration.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX));
        self.change(|records| {
            records.update(id, |incident| {
                (incident.open, incident.duration_ms) = (false, duration);
            })
        });
    }

    /// The incidents from number `from` on that fit into one message, and whether there are more.
    pub fn page(&self, from: IncidentId) -> (Vec<Incident>, bool) {
        self.0.borrow().records.page(from)
    }

    /// Applies `change` to the records, and keeps the changed ones for the store.
    fn change(&self, change: impl FnOnce(&mut Records) -> Vec<Change>) {
        let inner = &mut *self.0.borrow_mut();
        let changes = change(&mut inner.records);
        inner.changes.extend(changes);
    }
}
