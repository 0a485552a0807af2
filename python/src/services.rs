//! What all services have in common: their events, the exceptions, and how a client of the SDK uses the zone.

use std::time::Duration;

use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use sdk::abi::RecordKind;
use sdk::abi::host::WholeRecord;
use sdk::abi::lent::{Returned, lend};
use sdk::services::AskError as RawAskError;
use sdk::{Event, Network};

use crate::zone::{Zone, ZoneState};

pyo3::create_exception!(
    _native,
    Unavailable,
    PyException,
    "The service does not run, or ended before it answered: it may or may not have carried out the request."
);
pyo3::create_exception!(_native, AskError, PyException, "A request to a service was not sent.");

/// A service of the app has started, also again. Its earlier watches and requests have ended.
#[pyclass(frozen, get_all, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct ServiceUp {
    /// The service's name in the configuration.
    pub(crate) service: String,
}

#[pymethods]
impl ServiceUp {
    #[classattr]
    #[allow(non_upper_case_globals, reason = "the name in Python")]
    const kind: &'static str = "service-up";

    #[new]
    fn new(service: String) -> Self {
        Self { service }
    }

    fn __repr__(&self) -> String {
        format!("ServiceUp({:?})", self.service)
    }
}

/// The table of a service was attached, changed, or has gone. The client of the service reads it.
#[pyclass(frozen, get_all, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct TableNews {
    /// The service's name in the configuration.
    pub(crate) service: String,
}

#[pymethods]
impl TableNews {
    #[classattr]
    #[allow(non_upper_case_globals, reason = "the name in Python")]
    const kind: &'static str = "table-news";

    #[new]
    fn new(service: String) -> Self {
        Self { service }
    }

    fn __repr__(&self) -> String {
        format!("TableNews({:?})", self.service)
    }
}

/// Makes the class of an event that answers a request with success or an exception.
macro_rules! done_event {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[pyclass(frozen, module = "rosemary")]
        #[derive(Debug)]
        pub(crate) struct $name {
            /// The request's number.
            #[pyo3(get)]
            request: u64,
            /// The exception that `result` raises.
            error: Option<PyErr>,
        }

        impl $name {
            fn new(request: sdk::services::RequestId, result: PyResult<()>) -> Self {
                Self { request: request.0, error: result.err() }
            }
        }

        #[pymethods]
        impl $name {
            #[classattr]
            #[allow(non_upper_case_globals, reason = "the name in Python")]
            const kind: &'static str = $kind;

            /// Makes one for a test of an app: of a request that was done, or with the exception that `result` raises.
            #[new]
            #[pyo3(signature = (request, error = None))]
            fn for_tests(request: u64, error: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
                let error = error.map(crate::services::exception).transpose()?;
                Ok(Self { request, error })
            }

            /// Returns if the service has done what the app requested, and raises the reason if not.
            fn result(&self, py: Python<'_>) -> PyResult<()> {
                self.error.as_ref().map_or(Ok(()), |error| Err(error.clone_ref(py)))
            }

            fn __repr__(&self) -> String {
                format!(concat!(stringify!($name), "({})"), self.request)
            }
        }
    };
}

pub(crate) use done_event;

/// Reads the exception of an event that a test makes.
pub(crate) fn exception(value: &Bound<'_, PyAny>) -> PyResult<PyErr> {
    if value.is_instance_of::<PyException>() {
        return Ok(PyErr::from_value(value.clone()));
    }
    Err(PyValueError::new_err("the second argument is an answer or an exception"))
}

/// The records of the batch that is being handled, for clients that read them.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// A copy, as the app may change its list.
    events: Option<Py<PyTuple>>,
    /// One for each event but those of descriptors, which are the last. Empty for packet-ins and HTTP requests, which no
    /// client reads.
    records: Vec<Box<[u8]>>,
}

impl Batch {
    pub(crate) fn of(events: &Bound<'_, PyList>, records: &[WholeRecord<'_>]) -> Self {
        let unread = [RecordKind::PacketIn, RecordKind::Http].map(|it| (it as u16).to_le_bytes());
        let copied = records.iter().map(|record| {
            let bytes = record.bytes();
            let is_unread = unread.iter().any(|kind| bytes.get(4..6) == Some(kind));
            if is_unread { Box::default() } else { bytes.into() }
        });
        Self { records: copied.collect(), events: Some(events.to_tuple().unbind()) }
    }

    /// Returns the record of an event of this batch; `None` if the event is of another batch.
    fn record(&self, event: &Bound<'_, PyAny>, number: usize) -> Option<Box<[u8]>> {
        let events = self.events.as_ref()?.bind(event.py());
        let is_it = |number: &usize| events.get_item(*number).is_ok_and(|it| it.is(event));
        let number = Some(number).filter(is_it).or_else(|| (0..events.len()).find(is_it))?;
        Some(self.records.get(number).cloned().unwrap_or_default())
    }
}

impl Zone {
    /// Calls `with` with the network that clients of the SDK use.
    pub(crate) fn with_network<T>(&self, with: impl FnOnce(&mut Network<'_>) -> T) -> PyResult<T> {
        self.check_thread()?;
        let mut state = self.state();
        let ZoneState { host, in_batch, xid, wake_at_ns, .. } = &mut *state;
        let Some(lent) = host.take_if(|_| *in_batch) else {
            return Err(PyRuntimeError::new_err(
                "services can be used only while an event or the timer is handled",
            ));
        };
        let returned = lend(lent, xid, sys::clock::now_ns(), with);
        let Returned { host: lent, result, wake_at_ns: timer } = returned;
        *host = Some(lent);
        *wake_at_ns = wake_at_ns.iter().copied().chain(timer).min();
        Ok(result)
    }

    /// Calls `with` with an event of the batch that is being handled, and the network; returns `None` for a packet-in and for
    /// other events that no client reads.
    pub(crate) fn with_event<T>(
        &self,
        event: &Bound<'_, PyAny>,
        with: impl FnOnce(&Event<'_>, &mut Network<'_>) -> T,
    ) -> PyResult<Option<T>> {
        let record = {
            let state = self.state();
            state.batch.record(event, state.handling)
        };
        let record = record.ok_or_else(|| {
            PyValueError::new_err("an event can be passed to a client only while it is handled")
        })?;
        let Some(event) = Event::of_bytes(&record) else { return Ok(None) };
        self.with_network(|network| with(&event, network)).map(Some)
    }
}

/// Makes Python's exception of a request that was not sent.
pub(crate) fn not_sent(error: RawAskError) -> PyErr {
    AskError::new_err(error.to_string())
}

/// Returns the exception of a service that does not run.
pub(crate) fn unavailable(service: &str) -> PyErr {
    Unavailable::new_err(format!("the service {service} is not available"))
}

/// Reads an Ethernet address: 6 bytes, or text such as `02:00:00:00:00:01`.
pub(crate) fn mac(value: &Bound<'_, PyAny>) -> PyResult<sdk::MacAddr> {
    if let Ok(bytes) = value.extract::<[u8; 6]>() {
        return Ok(sdk::MacAddr(bytes));
    }
    let text = value.extract::<String>().unwrap_or_default();
    text.parse().map_err(|_| {
        PyValueError::new_err("an Ethernet address is 6 bytes or text such as 02:00:00:00:00:01")
    })
}

/// Reads a time in seconds.
pub(crate) fn seconds(value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value).map_err(|it| crate::flow::value_error(&it))
}

/// Adds the classes to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Unavailable", module.py().get_type::<Unavailable>())?;
    module.add("AskError", module.py().get_type::<AskError>())?;
    module.add_class::<ServiceUp>()?;
    module.add_class::<TableNews>()
}
