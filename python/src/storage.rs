//! The client of the service `storage`: values under keys.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sdk::services::storage::{self, Answer};
use sdk::services::{RequestId, Unavailable as RawUnavailable};

use crate::services::{exception, not_sent, unavailable};
use crate::zone::Zone;

pyo3::create_exception!(
    _native,
    StorageRefused,
    pyo3::exceptions::PyException,
    "The storage refused a request; nothing was done."
);

/// The present value that a write requires: `Expect.ANYTHING`, `Expect.NOTHING`, or `Expect.version(n)`.
#[pyclass(frozen, eq, from_py_object, module = "rosemary")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expect(storage::Expect);

#[pymethods]
impl Expect {
    /// Any value or none.
    #[classattr]
    const ANYTHING: Self = Self(storage::Expect::Anything);

    /// No value.
    #[classattr]
    const NOTHING: Self = Self(storage::Expect::Nothing);

    /// The value with this version.
    #[staticmethod]
    fn version(version: u64) -> Self {
        Self(storage::Expect::Version(version))
    }

    fn __repr__(&self) -> String {
        format!("Expect.{:?}", self.0)
    }
}

/// Sends requests to the storage. Each call returns the request's number; a `StorageEvent` with it is the answer.
#[pyclass(frozen, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct Storage {
    zone: Py<Zone>,
    namespace: String,
}

impl Storage {
    fn ask(
        &self,
        request: impl FnOnce(&mut storage::Client<'_>) -> Result<RequestId, sdk::services::AskError>,
    ) -> PyResult<u64> {
        let asked = self
            .zone
            .get()
            .with_network(|network| request(&mut network.storage().of(&self.namespace)))?;
        asked.map(|id| id.0).map_err(not_sent)
    }
}

#[pymethods]
impl Storage {
    /// Uses the namespace of the app of this name in place of the own one.
    fn of(&self, py: Python<'_>, app: String) -> Self {
        Self { zone: self.zone.clone_ref(py), namespace: app }
    }

    /// Reads the value under `key`: "value" or "nothing".
    fn get(&self, key: &[u8]) -> PyResult<u64> {
        self.ask(|storage| storage.get(key))
    }

    /// Writes `value` under `key` if the present value is the expected one: "done" or "conflict".
    #[pyo3(signature = (key, value, expect = Expect::ANYTHING))]
    fn put(&self, key: &[u8], value: &[u8], expect: Expect) -> PyResult<u64> {
        self.ask(|storage| storage.put(key, value, expect.0))
    }

    /// Deletes the value under `key` if it is the expected one: "done" or "conflict".
    #[pyo3(signature = (key, expect = Expect::ANYTHING))]
    fn delete(&self, key: &[u8], expect: Expect) -> PyResult<u64> {
        self.ask(|storage| storage.delete(key, expect.0))
    }

    /// Lists keys that begin with `prefix`, after the key `after`: "keys".
    #[pyo3(signature = (prefix, after = None))]
    fn list(&self, prefix: &[u8], after: Option<&[u8]>) -> PyResult<u64> {
        self.ask(|storage| storage.list(prefix, after.unwrap_or_default()))
    }

    /// Watches keys that begin with `prefix`: "watching", then a "changed" for each change.
    fn watch(&self, prefix: &[u8]) -> PyResult<u64> {
        self.ask(|storage| storage.watch(prefix))
    }

    /// Ends a watch: "done" to this request and to the watch's.
    fn unwatch(&self, watch: u64) -> PyResult<u64> {
        self.ask(|storage| storage.unwatch(RequestId(watch)))
    }
}

#[pymethods]
impl Zone {
    /// Returns the client through which the app uses the storage.
    fn storage(slf: Py<Self>) -> Storage {
        Storage { zone: slf, namespace: String::new() }
    }
}

/// An answer of the storage.
#[pyclass(frozen, get_all, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct StorageAnswer {
    /// "done", "value", "nothing", "conflict", "keys", "watching" or "changed".
    kind: String,
    /// The version of the value; 0 if there is none.
    version: u64,
    /// The value of "value".
    value: Py<PyBytes>,
    /// The key of "changed".
    key: Py<PyBytes>,
    /// The keys of "keys" in ascending order, with their versions.
    keys: Vec<(Py<PyBytes>, u64)>,
    /// Whether there are keys after the last of these.
    more: bool,
}

#[pymethods]
impl StorageAnswer {
    /// Makes one for a test of an app.
    #[new]
    #[pyo3(signature = (kind, *, version = 0, value = None, key = None, keys = Vec::new(), more = false))]
    fn new(
        py: Python<'_>,
        kind: String,
        version: u64,
        value: Option<Py<PyBytes>>,
        key: Option<Py<PyBytes>>,
        keys: Vec<(Py<PyBytes>, u64)>,
        more: bool,
    ) -> Self {
        let empty = || PyBytes::new(py, &[]).unbind();
        let (value, key) = (value.unwrap_or_else(empty), key.unwrap_or_else(empty));
        Self { kind, version, value, key, keys, more }
    }

    fn __repr__(&self) -> String {
        format!("StorageAnswer({:?}, version={})", self.kind, self.version)
    }
}

/// The storage answered a request, or ended before it did.
#[pyclass(frozen, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct StorageEvent {
    /// The request's number.
    #[pyo3(get)]
    request: u64,
    /// The answer, or the exception that stands for it.
    answer: Result<Py<StorageAnswer>, PyErr>,
}

impl StorageEvent {
    pub(crate) fn of(
        py: Python<'_>,
        request: RequestId,
        answer: Result<Answer<'_>, RawUnavailable>,
    ) -> PyResult<Self> {
        let answer = match answer {
            Err(RawUnavailable) => Err(unavailable("storage")),
            Ok(Answer::Refused(why)) => Err(StorageRefused::new_err(why.to_string())),
            Ok(answer) => Ok(Py::new(py, of_answer(py, &answer))?),
        };
        Ok(Self { request: request.0, answer })
    }
}

fn of_answer(py: Python<'_>, answer: &Answer<'_>) -> StorageAnswer {
    let bytes = |bytes: &[u8]| PyBytes::new(py, bytes).unbind();
    let (mut value, mut key) = (bytes(&[]), bytes(&[]));
    let (mut keys, mut is_cut) = (Vec::new(), false);
    let (kind, version) = match answer {
        Answer::Done { version } => ("done", *version),
        Answer::Value { version, value: found } => {
            value = bytes(found);
            ("value", *version)
        }
        Answer::Nothing => ("nothing", 0),
        Answer::Conflict { version } => ("conflict", *version),
        Answer::Keys(found) => {
            is_cut = found.more;
            keys = found.iter().map(|(key, version)| (bytes(key), version)).collect();
            ("keys", 0)
        }
        Answer::Watching => ("watching", 0),
        Answer::Changed { version, key: changed } => {
            key = bytes(changed);
            ("changed", *version)
        }
        // Refusals are exceptions.
        _ => ("unknown", 0),
    };
    StorageAnswer { kind: kind.to_owned(), version, value, key, keys, more: is_cut }
}

#[pymethods]
impl StorageEvent {
    #[classattr]
    #[allow(non_upper_case_globals, reason = "the name in Python")]
    const kind: &'static str = "storage";

    /// Makes one for a test of an app: with an answer, or with the exception that `result` raises.
    #[new]
    fn new(request: u64, answer: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(answer) = answer.cast::<StorageAnswer>() {
            return Ok(Self { request, answer: Ok(answer.clone().unbind()) });
        }
        Ok(Self { request, answer: Err(exception(answer)?) })
    }

    /// Returns the answer. Raises `Unavailable` if the storage ended before it answered, and `StorageRefused` if it refused
    /// the request.
    fn result(&self, py: Python<'_>) -> PyResult<Py<StorageAnswer>> {
        match &self.answer {
            Ok(answer) => Ok(answer.clone_ref(py)),
            Err(error) => Err(error.clone_ref(py)),
        }
    }

    fn __repr__(&self) -> String {
        format!("StorageEvent({})", self.request)
    }
}

/// Adds the classes to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("StorageRefused", module.py().get_type::<StorageRefused>())?;
    module.add_class::<Expect>()?;
    module.add_class::<Storage>()?;
    module.add_class::<StorageAnswer>()?;
    module.add_class::<StorageEvent>()
}
