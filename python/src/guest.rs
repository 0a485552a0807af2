//! Calls the app's handler with the records of a batch.

use pyo3::prelude::*;
use sdk::abi::RecordKind;
use sdk::abi::host::Host as _;
use zone::host::ZoneHost;
use zone::run::{Answer, Guest, WholeRecord, ZoneError};

use crate::events::{self, Ready};
use crate::services::Batch;
use crate::zone::Zone;

/// The app, as the event loop calls it.
#[derive(Debug)]
pub(crate) struct PythonGuest {
    /// Taken during a call, in which the app's [`Zone`] has it.
    host: Option<Box<ZoneHost>>,
    zone: Py<Zone>,
    handler: Py<PyAny>,
    raised: Option<PyErr>,
}

impl PythonGuest {
    pub(crate) fn new(host: Box<ZoneHost>, zone: Py<Zone>, handler: Py<PyAny>) -> Self {
        Self { host: Some(host), zone, handler, raised: None }
    }

    /// Takes the exception that ended the app.
    pub(crate) fn take_raised(&mut self) -> Option<PyErr> {
        self.raised.take()
    }

    fn call(&mut self, py: Python<'_>, records: &[WholeRecord<'_>]) -> Result<Answer, PyErr> {
        let mut host = self.host.take();
        let news = host.as_mut().map(|host| host.watched.take_news()).unwrap_or_default();
        {
            let mut state = self.zone.get().state();
            if let Some(host) = &host {
                self.zone.get().set_log_level(host.log_level);
            }
            (state.host, state.in_batch, state.handled, state.stopped) = (host, true, None, 0);
            state.earlier_wake_ns = state.wake_at_ns.take();
            state.sizes.clear();
            state.sizes.extend(records.iter().map(|record| size_for_answers(record.bytes())));
        }
        let result = events::list(py, records).and_then(|list| {
            for (fd, events) in news {
                list.append(Ready::new(fd, events.bits()))?;
            }
            self.zone.get().state().batch = Batch::of(&list, records);
            self.handler.call1(py, (list,))?.extract::<Option<u64>>(py)
        });
        let mut state = self.zone.get().state();
        (self.host, state.in_batch) = (state.host.take(), false);
        let batch = std::mem::take(&mut state.batch);
        let handled = state.handled.map_or(records.len(), |count| count.min(records.len()));
        let (mut stopped, timer) = (state.stopped, state.wake_at_ns);
        let named = Some(state.timers.next_ns()).filter(|at| *at != u64::MAX);
        drop(state);
        drop(batch); // the last reference to an event: its objects may call the zone, which takes the state
        let wake_at_ns = result?.into_iter().chain(timer).chain(named).min();
        if let Some(host) = &mut self.host {
            while (stopped.trailing_zeros() as usize) < handled {
                host.stop(stopped.trailing_zeros() as usize);
                stopped &= stopped - 1;
            }
        }
        Ok(Answer { handled, wake_at_ns })
    }
}

/// The size of a record, by which room for answers to switches is reserved.
fn size_for_answers(record: &[u8]) -> usize {
    // That of an HTTP request says nothing about messages to switches.
    let is_http = record.get(4..6) == Some(&(RecordKind::Http as u16).to_le_bytes()[..]);
    if is_http { 0 } else { record.len() }
}

impl Guest for PythonGuest {
    fn host(&mut self) -> &mut ZoneHost {
        self.host.as_mut().expect("only a call takes it, and puts it back")
    }

    fn on_records(
        &mut self,
        _now_ns: u64,
        records: &[WholeRecord<'_>],
    ) -> Result<Answer, ZoneError> {
        Python::attach(|py| {
            self.call(py, records).map_err(|raised| {
                let text = raised.to_string();
                self.raised = Some(raised);
                ZoneError::Raised(text)
            })
        })
    }
}

/// The event loop runs without the interpreter's lock, and the handler with it.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<ZoneHost>();
    is_send::<std::sync::Arc<sys::channel::Channel>>();
};
