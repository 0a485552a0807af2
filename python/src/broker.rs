//! The client of the service `broker`: TCP connections to hosts that the operator grants.

use std::os::fd::{AsRawFd as _, IntoRawFd as _};

use pyo3::exceptions::PyConnectionError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sdk::services::broker::Answer;
use sdk::services::{RequestId, Unavailable as RawUnavailable};

use crate::services::{done_event, not_sent, unavailable};
use crate::zone::Zone;

pyo3::create_exception!(
    _native,
    BrokerRefused,
    pyo3::exceptions::PyException,
    "The broker refused a request: the operator has not granted the host and port, or too many requests are underway."
);

done_event! {
    /// The broker answered a request of `network.connect`, or ended before it did.
    ///
    /// While the app handles it, `network.take(event.request)` returns the connection. `result` raises `ConnectionError` if the
    /// connection failed, `BrokerRefused`, or `Unavailable`.
    BrokerEvent, "broker"
}

impl BrokerEvent {
    pub(crate) fn of(request: RequestId, answer: Result<Answer<'_>, RawUnavailable>) -> Self {
        let result = match answer {
            Ok(Answer::Connected) => Ok(()),
            Ok(Answer::Failed(why)) => Err(PyConnectionError::new_err(why.to_owned())),
            Ok(Answer::NotGranted) => Err(BrokerRefused::new_err(
                "the operator has not granted this host and port: add \"net.connect:HOST:PORT\" to `capabilities` \
                 in the app's [[app]]",
            )),
            Ok(Answer::Refused) => Err(BrokerRefused::new_err(
                "the host's name is malformed, or too many requests of this app are underway",
            )),
            Ok(_) => Err(BrokerRefused::new_err("the broker's answer is of an unknown kind")),
            Err(RawUnavailable) => Err(unavailable("broker")),
        };
        Self::new(request, result)
    }
}

#[pymethods]
impl Zone {
    /// Requests a TCP connection from the broker. Returns the request's number; a `BrokerEvent` with it is the answer.
    fn connect(&self, host: &str, port: u16) -> PyResult<u64> {
        let asked = self.with_network(|network| network.connect(host, port))?;
        asked.map(|id| id.0).map_err(not_sent)
    }

    /// Returns the connection of the answer that the app handles now, a `socket.socket` that does not block; `None` if there is
    /// none or it was already taken.
    fn take<'py>(&self, py: Python<'py>, request: u64) -> PyResult<Option<Bound<'py, PyAny>>> {
        let taken = self.with_network(|network| network.take(RequestId(request)))?;
        let Some(fd) = taken else { return Ok(None) };
        let arguments = PyDict::new(py);
        arguments.set_item("fileno", fd.as_raw_fd())?;
        let socket = py.import("socket")?.call_method("socket", (), Some(&arguments))?;
        let _ = fd.into_raw_fd(); // the socket object closes it
        socket.call_method1("setblocking", (false,))?;
        Ok(Some(socket))
    }
}

/// Adds the classes to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("BrokerRefused", module.py().get_type::<BrokerRefused>())?;
    module.add_class::<BrokerEvent>()
}
