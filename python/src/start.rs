//! Confines the interpreter's process before any code of the app is read.

use std::sync::Arc;

use control::hosting::Hosting;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use sys::sandbox::seccomp::Profile;
use zone::run::{self, ZoneError, ZoneProgram};

use crate::zone::Zone;

/// The program whose apps are modules in Python.
const OF_MODULES: ZoneProgram = ZoneProgram {
    profile: Profile::Python,
    hosts: &[Hosting::PYTHON, Hosting::RYU],
    has_watched: true,
    maps_sealed: false,
};

/// Receives the app from the monitor and confines this process. Returns the zone, or `None` if the monitor wanted to know
/// only what this machine supports.
///
/// The process has one thread: the interpreter has just started, and `rosemary/_boot.py` calls this first.
///
/// # Errors
/// The process was not started by the monitor, or it could not be confined. It must end.
#[pyfunction]
pub(crate) fn start(py: Python<'_>) -> PyResult<Option<Zone>> {
    let monitor = sys::program::begin_as_child(sys::log::to_monitor);
    let monitor = monitor.map_err(|why| PyRuntimeError::new_err(why.to_string()))?;
    sys::stdout::wait_for_reader().map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    let confined = py.detach(|| run::reported(&monitor, run::confine(&monitor, &OF_MODULES)));
    let failed = |error: ZoneError| PyRuntimeError::new_err(error.to_string());
    let Some(confined) = confined.map_err(failed)? else { return Ok(None) };
    let monitor = Arc::new(monitor);
    Zone::new(py, monitor, confined.host, &confined.code, confined.guest).map(Some)
}
