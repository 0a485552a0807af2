//! The answers of the service `topology` to requests for drains.

use pyo3::prelude::*;
use sdk::services::{RequestId, Unavailable as RawUnavailable};
use sdk::topology::Topology;

use crate::services::{done_event, unavailable};

pyo3::create_exception!(
    _native,
    DrainRefused,
    pyo3::exceptions::PyException,
    "The topology service refused to begin or end a drain; nothing was done."
);

done_event! {
    /// The topology service answered a request of `Topology.drain`, or ended before it did. `result` raises `DrainRefused` or
    /// `Unavailable`.
    DrainEvent, "drain"
}

impl DrainEvent {
    /// Reads an answer; `None` if it is malformed.
    pub(crate) fn of(request: RequestId, answer: Result<&[u8], RawUnavailable>) -> Option<Self> {
        let result = match answer {
            Ok(body) => {
                Topology::drain_answer(body)?.map_err(|why| DrainRefused::new_err(why.to_string()))
            }
            Err(RawUnavailable) => Err(unavailable("topology")),
        };
        Some(Self::new(request, result))
    }
}

/// Adds the classes to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("DrainRefused", module.py().get_type::<DrainRefused>())?;
    module.add_class::<DrainEvent>()
}
