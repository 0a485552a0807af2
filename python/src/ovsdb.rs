//! The client of the service `ovsdb`: the databases of switches, and the rows that an app wants there.
//!
//! | in Rust | in Python |
//! | --- | --- |
//! | a set | a list; in a wanted row also a value alone, a tuple or a set, and `None` for no element |
//! | a map | a dict |
//! | an identifier | `uuid.UUID` |
//! | `Atom::Wanted`, `Atom::Port` | `Ref` |

use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyTuple};
use sdk::services::ovsdb::{self as raw, Answer, Atom, Columns, Reason, RowId, Value};
use sdk::services::{RequestId, Unavailable as RawUnavailable};

use crate::services::{exception, not_sent, unavailable};
use crate::zone::Zone;

pyo3::create_exception!(
    _native,
    OvsdbRefused,
    PyException,
    "The service ovsdb refused a request; nothing was done. `reason` is the reason as a word."
);

/// A reference in a wanted row: `Ref.wanted(key)` or `Ref.port(name)`.
#[pyclass(frozen, eq, hash, from_py_object, module = "rosemary")]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Ref {
    is_port: bool,
    name: String,
}

#[pymethods]
impl Ref {
    /// The row that the same app wants with this key.
    #[staticmethod]
    fn wanted(key: String) -> Self {
        Self { is_port: false, name: key }
    }

    /// The port with this name, whichever row it is at the time.
    #[staticmethod]
    fn port(name: String) -> Self {
        Self { is_port: true, name }
    }

    fn __repr__(&self) -> String {
        let word = if self.is_port { "port" } else { "wanted" };
        format!("Ref.{word}({:?})", self.name)
    }
}

/// Reads an identifier of a row.
fn row_id(value: &Bound<'_, PyAny>) -> PyResult<RowId> {
    Ok(RowId(value.getattr("bytes")?.extract()?))
}

fn is_uuid(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    value.is_instance(&value.py().import("uuid")?.getattr("UUID")?)
}

/// Reads an element of a column.
fn atom(column: &str, value: &Bound<'_, PyAny>) -> PyResult<Atom> {
    // A truth value is a number in Python, too.
    if value.is_instance_of::<PyBool>() {
        return Ok(Atom::Boolean(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        return Ok(Atom::Integer(value.extract()?));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Atom::Real(value.extract()?));
    }
    if let Ok(text) = value.extract::<String>() {
        return Ok(Atom::Text(text));
    }
    if let Ok(reference) = value.extract::<Ref>() {
        let Ref { is_port, name } = reference;
        return Ok(if is_port { Atom::Port(name) } else { Atom::Wanted(name) });
    }
    if is_uuid(value)? {
        return row_id(value).map(Atom::Row);
    }
    Err(PyTypeError::new_err(format!(
        "{column} has a {}; an element of a column is an int, a float, a bool, a str, a uuid.UUID or a Ref",
        value.get_type().name()?
    )))
}

/// Reads the value of a column.
fn value_of(column: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_none() {
        return Ok(Value::Set(Vec::new()));
    }
    if let Ok(pairs) = value.cast::<PyDict>() {
        let pairs = pairs.iter();
        let pairs = pairs.map(|(key, value)| Ok((atom(column, &key)?, atom(column, &value)?)));
        return Ok(Value::Map(pairs.collect::<PyResult<_>>()?));
    }
    let is_set = value.is_instance_of::<PyList>()
        || value.is_instance_of::<PyTuple>()
        || value.is_instance_of::<PySet>()
        || value.is_instance_of::<PyFrozenSet>();
    if !is_set {
        return Ok(Value::Set(vec![atom(column, value)?]));
    }
    let atoms = value.try_iter()?.map(|it| atom(column, &it?));
    Ok(Value::Set(atoms.collect::<PyResult<_>>()?))
}

fn columns_of(given: Option<&Bound<'_, PyDict>>) -> PyResult<Columns> {
    let mut columns = Columns::new();
    for (name, value) in given.into_iter().flat_map(|it| it.iter()) {
        let name: String = name.extract()?;
        let value = value_of(&name, &value)?;
        columns.insert(name, value);
    }
    Ok(columns)
}

fn uuid<'py>(py: Python<'py>, id: RowId) -> PyResult<Bound<'py, PyAny>> {
    let arguments = PyDict::new(py);
    arguments.set_item("bytes", PyBytes::new(py, &id.0))?;
    py.import("uuid")?.call_method("UUID", (), Some(&arguments))
}

/// Makes Python's object of an element.
fn of_atom<'py>(py: Python<'py>, atom: &Atom) -> PyResult<Bound<'py, PyAny>> {
    match atom {
        Atom::Integer(number) => number.into_bound_py_any(py),
        Atom::Real(number) => number.into_bound_py_any(py),
        Atom::Boolean(is) => is.into_bound_py_any(py),
        Atom::Text(text) => text.into_bound_py_any(py),
        Atom::Row(id) => uuid(py, *id),
        Atom::Wanted(key) => Ref::wanted(key.clone()).into_bound_py_any(py),
        Atom::Port(name) => Ref::port(name.clone()).into_bound_py_any(py),
        _ => Err(PyTypeError::new_err("an element is of an unknown kind; update Rosemary")),
    }
}

fn of_columns(py: Python<'_>, columns: &Columns) -> PyResult<Py<PyDict>> {
    let made = PyDict::new(py);
    for (name, value) in columns {
        match value {
            Value::Set(atoms) => {
                let list = PyList::empty(py);
                for atom in atoms {
                    list.append(of_atom(py, atom)?)?;
                }
                made.set_item(name, list)?;
            }
            Value::Map(pairs) => {
                let map = PyDict::new(py);
                for (key, value) in pairs {
                    map.set_item(of_atom(py, key)?, of_atom(py, value)?)?;
                }
                made.set_item(name, map)?;
            }
            _ => {
                return Err(PyTypeError::new_err("a value is of an unknown kind; update Rosemary"));
            }
        }
    }
    Ok(made.unbind())
}

/// A row that an app wants in a database.
#[pyclass(frozen, eq, from_py_object, module = "rosemary")]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WantedRow(raw::WantedRow);

#[pymethods]
impl WantedRow {
    /// `key` is the row's name among all rows that the app wants of this database: a letter or an underscore, then also digits.
    /// Columns that are not named keep the server's values. `under` is a table, the value of the column `name` of a row there, and
    /// its column that must refer to this row.
    #[new]
    #[pyo3(signature = (table, key, columns = None, *, under = None))]
    fn new(
        table: String,
        key: String,
        columns: Option<&Bound<'_, PyDict>>,
        under: Option<(String, String, String)>,
    ) -> PyResult<Self> {
        let mut row = raw::WantedRow::new(table, key);
        row.columns = columns_of(columns)?;
        if let Some((table, name, column)) = under {
            row = row.under(table, name, column);
        }
        Ok(Self(row))
    }

    /// The table.
    #[getter]
    fn table(&self) -> &str {
        &self.0.table
    }

    /// The row's name among all rows that the app wants of the database.
    #[getter]
    fn key(&self) -> &str {
        &self.0.key
    }

    /// The columns: lists and dicts.
    #[getter]
    fn columns(&self, py: Python<'_>) -> PyResult<Py<PyDict>> {
        of_columns(py, &self.0.columns)
    }

    /// The table, name and column of the row that must refer to this one.
    #[getter]
    fn under(&self) -> Option<(&str, &str, &str)> {
        self.0.parent.as_ref().map(|it| (&*it.table, &*it.name, &*it.column))
    }

    fn __repr__(&self) -> String {
        format!("WantedRow({:?}, {:?})", self.0.table, self.0.key)
    }
}

/// A row of a database.
#[pyclass(frozen, get_all, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct DatabaseRow {
    /// Its identifier, a `uuid.UUID`.
    id: Py<PyAny>,
    /// Its columns that the server has and Rosemary knows: lists and dicts.
    columns: Py<PyDict>,
    /// Whether columns are missing because the row is too long for a message.
    cut: bool,
}

#[pymethods]
impl DatabaseRow {
    /// Makes one for a test of an app.
    #[new]
    #[pyo3(signature = (id, columns = None, *, cut = false))]
    fn new(
        id: &Bound<'_, PyAny>,
        columns: Option<&Bound<'_, PyDict>>,
        cut: bool,
    ) -> PyResult<Self> {
        let py = id.py();
        let columns = of_columns(py, &columns_of(columns)?)?;
        Ok(Self { id: uuid(py, row_id(id)?)?.unbind(), columns, cut })
    }

    /// Returns the only element of a column; `None` if it has none or several.
    fn one<'py>(&self, py: Python<'py>, column: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(value) = self.columns.bind(py).get_item(column)? else { return Ok(None) };
        let only = value.cast::<PyList>().ok().filter(|list| list.len() == 1);
        only.map(|list| list.get_item(0)).transpose()
    }

    /// Returns the value of a key in a map; `None` if there is none.
    fn entry<'py>(
        &self,
        py: Python<'py>,
        column: &str,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(value) = self.columns.bind(py).get_item(column)? else { return Ok(None) };
        value.cast::<PyDict>().ok().map_or(Ok(None), |map| map.get_item(key))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("DatabaseRow({}, {})", self.id.bind(py).str()?, self.columns.bind(py).repr()?))
    }
}

impl DatabaseRow {
    fn of(py: Python<'_>, row: &raw::Row) -> PyResult<Self> {
        let (id, columns) = (uuid(py, row.id)?.unbind(), of_columns(py, &row.columns)?);
        Ok(Self { id, columns, cut: row.is_cut })
    }
}

/// A database that the operator has named.
#[pyclass(frozen, get_all, eq, from_py_object, module = "rosemary")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Database {
    /// Its name in the configuration.
    name: String,
    /// Its address in the configuration, such as `ssl:192.0.2.7:6640`.
    address: String,
    /// Whether the service is connected to it.
    connected: bool,
    /// Why it is not; empty if it is.
    why: String,
}

#[pymethods]
impl Database {
    /// Makes one for a test of an app.
    #[new]
    #[pyo3(signature = (name, *, address = String::new(), connected = true, why = String::new()))]
    fn new(name: String, address: String, connected: bool, why: String) -> Self {
        Self { name, address, connected, why }
    }

    fn __repr__(&self) -> String {
        format!(
            "Database({:?}, connected={})",
            self.name,
            if self.connected { "True" } else { "False" }
        )
    }
}

/// An answer of the service `ovsdb`.
#[pyclass(frozen, get_all, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct OvsdbAnswer {
    /// "databases", "rows", "part", "wanted" or "changed".
    kind: String,
    /// Of "databases": the value of `rosemary-owner` in `external_ids` of the app's own rows.
    owner: String,
    /// Of "databases".
    databases: Vec<Database>,
    /// Of "rows".
    rows: Vec<Py<DatabaseRow>>,
    /// Of "rows": whether rows follow the last one.
    more: bool,
    /// Of "wanted": whether the database has all rows that are not refused. If not, it is not connected, and gets them later.
    done: bool,
    /// Of "wanted": the refused rows, as keys and reasons. The service tries to bring them about after changes of the database.
    refused: Vec<(String, String)>,
    /// Of "changed": whether the database is connected.
    connected: bool,
    /// Of "changed": the tables whose rows have changed.
    tables: Vec<String>,
}

#[pymethods]
impl OvsdbAnswer {
    /// Makes one for a test of an app.
    #[new]
    #[pyo3(signature = (
        kind, *, owner = String::new(), databases = Vec::new(), rows = Vec::new(), more = false, done = true,
        refused = Vec::new(), connected = true, tables = Vec::new(),
    ))]
    #[allow(clippy::too_many_arguments, reason = "the arguments are those of Python")]
    #[allow(clippy::fn_params_excessive_bools, reason = "the arguments are those of Python")]
    fn new(
        kind: String,
        owner: String,
        databases: Vec<Database>,
        rows: Vec<Py<DatabaseRow>>,
        more: bool,
        done: bool,
        refused: Vec<(String, String)>,
        connected: bool,
        tables: Vec<String>,
    ) -> Self {
        Self { kind, owner, databases, rows, more, done, refused, connected, tables }
    }

    fn __repr__(&self) -> String {
        format!("OvsdbAnswer({:?})", self.kind)
    }
}

impl OvsdbAnswer {
    fn empty(kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            owner: String::new(),
            databases: Vec::new(),
            rows: Vec::new(),
            more: false,
            done: false,
            refused: Vec::new(),
            connected: false,
            tables: Vec::new(),
        }
    }

    /// Converts an answer; a refusal is an exception.
    fn of(py: Python<'_>, answer: Answer) -> PyResult<Self> {
        Ok(match answer {
            Answer::Databases { owner, databases } => {
                let of = |it: raw::Database| Database {
                    name: it.name,
                    address: it.address,
                    connected: it.is_connected,
                    why: it.why,
                };
                let databases = databases.into_iter().map(of).collect();
                Self { owner, databases, ..Self::empty("databases") }
            }
            Answer::Rows { rows, more } => {
                let rows = rows.iter().map(|row| Py::new(py, DatabaseRow::of(py, row)?));
                Self { rows: rows.collect::<PyResult<_>>()?, more, ..Self::empty("rows") }
            }
            Answer::Part => Self::empty("part"),
            Answer::Wanted { is_done, refused } => {
                let refused = refused.into_iter().map(|it| (it.key, it.why)).collect();
                Self { done: is_done, refused, ..Self::empty("wanted") }
            }
            Answer::Changed { is_connected, tables } => {
                Self { connected: is_connected, tables, ..Self::empty("changed") }
            }
            Answer::Refused { reason, why } => {
                let error = OvsdbRefused::new_err(why);
                error.value(py).setattr("reason", word(reason))?;
                return Err(error);
            }
            _ => return Err(OvsdbRefused::new_err("the answer is of an unknown kind")),
        })
    }
}

/// The word for a reason.
fn word(reason: Reason) -> &'static str {
    match reason {
        Reason::Malformed => "malformed",
        Reason::UnknownDatabase => "unknown-database",
        Reason::NotConnected => "not-connected",
        Reason::UnknownTable => "unknown-table",
        Reason::TooMany => "too-many",
        Reason::Busy => "busy",
        _ => "unknown",
    }
}

/// The service `ovsdb` answered a request, or ended before it did. A request for notices has many answers.
#[pyclass(frozen, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct OvsdbEvent {
    /// The request's number.
    #[pyo3(get)]
    request: u64,
    /// The answer, or the exception that stands for it.
    answer: Result<Py<OvsdbAnswer>, PyErr>,
}

impl OvsdbEvent {
    /// Reads an answer; `None` if it is malformed.
    pub(crate) fn of(
        py: Python<'_>,
        request: RequestId,
        answer: Result<&[u8], RawUnavailable>,
    ) -> Option<Self> {
        let answer = match answer {
            Err(RawUnavailable) => Err(unavailable("ovsdb")),
            Ok(body) => {
                let answer = Answer::decode(body)?;
                OvsdbAnswer::of(py, answer).and_then(|answer| Py::new(py, answer))
            }
        };
        Some(Self { request: request.0, answer })
    }
}

#[pymethods]
impl OvsdbEvent {
    #[classattr]
    #[allow(non_upper_case_globals, reason = "the name in Python")]
    const kind: &'static str = "ovsdb";

    /// Makes one for a test of an app: with an answer, or with the exception that `result` raises.
    #[new]
    fn new(request: u64, answer: &Bound<'_, PyAny>) -> PyResult<Self> {
        let answer = match answer.cast::<OvsdbAnswer>() {
            Ok(answer) => Ok(answer.clone().unbind()),
            Err(_) => Err(exception(answer)?),
        };
        Ok(Self { request, answer })
    }

    /// Returns the answer. Raises `Unavailable` if the service ended before it answered, and `OvsdbRefused` if it refused the
    /// request.
    fn result(&self, py: Python<'_>) -> PyResult<Py<OvsdbAnswer>> {
        match &self.answer {
            Ok(answer) => Ok(answer.clone_ref(py)),
            Err(error) => Err(error.clone_ref(py)),
        }
    }

    fn __repr__(&self) -> String {
        format!("OvsdbEvent({})", self.request)
    }
}

#[pymethods]
impl Zone {
    /// Requests the list of databases: "databases". Returns the request's number; an `OvsdbEvent` with it is the answer.
    #[allow(
        clippy::redundant_closure_for_method_calls,
        reason = "the method has the lifetime of one network, and the closure that of any"
    )]
    fn databases(&self) -> PyResult<u64> {
        let asked = self.with_network(|network| network.databases())?;
        asked.map(|id| id.0).map_err(not_sent)
    }

    /// Requests rows of a table behind the row `after`: "rows".
    #[pyo3(signature = (database, table, after = None))]
    fn database_rows(
        &self,
        database: &str,
        table: &str,
        after: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<u64> {
        let after = after.map(row_id).transpose()?.unwrap_or_default();
        let asked = self.with_network(|network| network.database_rows(database, table, after))?;
        asked.map(|id| id.0).map_err(not_sent)
    }

    /// States all rows that the app wants of a database: "wanted". They replace the rows that it wanted before.
    fn want_rows(&self, database: &str, rows: Vec<WantedRow>) -> PyResult<u64> {
        let rows: Vec<raw::WantedRow> = rows.into_iter().map(|row| row.0).collect();
        let asked = self.with_network(|network| network.want_rows(database, &rows))?;
        asked.map(|id| id.0).map_err(not_sent)
    }

    /// Requests a notice of each change of a database, at most one each second: "changed".
    fn watch_database(&self, database: &str) -> PyResult<u64> {
        let asked = self.with_network(|network| network.watch_database(database))?;
        asked.map(|id| id.0).map_err(not_sent)
    }
}

/// Adds the classes to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("OvsdbRefused", module.py().get_type::<OvsdbRefused>())?;
    module.add_class::<Ref>()?;
    module.add_class::<WantedRow>()?;
    module.add_class::<DatabaseRow>()?;
    module.add_class::<Database>()?;
    module.add_class::<OvsdbAnswer>()?;
    module.add_class::<OvsdbEvent>()
}
