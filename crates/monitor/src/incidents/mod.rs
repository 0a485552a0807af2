//! Records incidents, keeps the newest in memory and stores them durably.
//!
//! | file | contents |
//! | --- | --- |
//! | `records.rs` | the incidents in memory, bounded in number and bytes |
//! | `store.rs` | the file `incidents/incidents.log` of the state directory, and the thread that writes it |
//! | `of_program.rs` | the incidents of one program, from its end until it runs again |
//!
//! The event loop only changes memory and queues lines. The writer's thread writes them and syncs the file, so a slow
//! or full disk delays no program.

#[cfg(test)]
mod day;
mod of_program;
mod records;
mod store;

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use control::incident::{Cause, Evidence, Incident, IncidentId, Program};

pub(crate) use self::of_program::ProgramIncidents;
use self::records::{Change, Records};
use self::store::Store;

/// The incidents of this instance and of earlier ones with the same state directory. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Incidents(Rc<RefCell<Inner>>);

#[derive(Debug)]
struct Inner {
    records: Records,
    /// If incidents are kept in memory only, why, as a phrase with a remedy.
    store: Result<Store, String>,
}

impl Incidents {
    /// Loads the incidents in `state_dir`, and stores further ones there.
    ///
    /// Incidents that still lasted when the earlier instance ended are closed. If the file cannot be read, the log says
    /// so, and incidents are kept in memory only.
    pub(crate) fn load(state_dir: &Path) -> Self {
        let (records, store) = store::load(state_dir);
        let incidents = Self(Rc::new(RefCell::new(Inner { records, store })));
        incidents.change(Records::close_lost);
        incidents
    }

    /// Keeps incidents in memory only.
    #[cfg(test)]
    pub(crate) fn in_memory() -> Self {
        let store = Err("a test keeps them in memory".into());
        Self(Rc::new(RefCell::new(Inner { records: Records::default(), store })))
    }

    /// Records an incident that begins now and lasts until [`close`](Self::close).
    pub(crate) fn open(&self, program: Program, cause: Cause, evidence: Evidence) -> IncidentId {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let mut id = IncidentId(0);
        self.change(|records| {
            let (new, changes) = records.open(time, program, cause, evidence);
            id = new;
            changes
        });
        id
    }

    /// The program of incident `id` ended again in the same way before it ran.
    pub(crate) fn repeated(&self, id: IncidentId) {
        self.change(|records| {
            records.update(id, |incident| incident.count = incident.count.saturating_add(1))
        });
    }

    /// Adds what Rosemary did, as a phrase.
    pub(crate) fn reaction(&self, id: IncidentId, reaction: impl Into<String>) {
        let reaction = reaction.into();
        self.change(|records| records.update(id, |incident| incident.reaction.push(reaction)));
    }

    /// Changes the evidence.
    pub(crate) fn amend(&self, id: IncidentId, amend: impl FnOnce(&mut Evidence)) {
        self.change(|records| records.update(id, |incident| amend(&mut incident.evidence)));
    }

    /// The incident is over, after `duration`; `None` if that is unknown.
    pub(crate) fn close(&self, id: IncidentId, duration: Option<Duration>) {
        let duration = duration.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX));
        self.change(|records| {
            records.update(id, |incident| {
                (incident.open, incident.duration_ms) = (false, duration);
            })
        });
    }

    /// The incidents from number `from` on that fit into one message, and whether there are more.
    pub(crate) fn page(&self, from: IncidentId) -> (Vec<Incident>, bool) {
        self.0.borrow().records.page(from)
    }

    /// Why incidents cannot be stored now, as a phrase with a remedy, if so.
    pub(crate) fn not_stored(&self) -> Option<String> {
        let why = match &self.0.borrow().store {
            Ok(store) => store.failure()?,
            Err(why) => why.clone(),
        };
        Some(format!("incidents cannot be stored: {why}"))
    }

    /// Waits until all incidents are stored, for at most `most`.
    pub(crate) fn flush(&self, most: Duration) {
        if let Ok(store) = &mut self.0.borrow_mut().store {
            store.flush(most);
        }
    }

    /// Applies `change` to the records, and stores the changed ones.
    fn change(&self, change: impl FnOnce(&mut Records) -> Vec<Change>) {
        let inner = &mut *self.0.borrow_mut();
        let changes = change(&mut inner.records);
        if let Ok(store) = &mut inner.store {
            store.write(&changes, &inner.records);
        }
    }
}
