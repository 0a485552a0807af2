//! `FlowMod` and `Bucket`: flows and groups, with the names of the Rust SDK.

use openflow::{FlowModCommand, FlowModFlags, PortNo, Version};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::action::{Action, actions};
use crate::matching::Match;
use crate::number::{self, number, number_or_none};

/// Adds, modifies or deletes flows.
///
/// `FlowMod.add(Match(in_port=1), priority=100, apply=[Action.output(2)])`. Priorities, groups and meters count from the
/// app's first.
#[pyclass(frozen, module = "rosemary")]
#[derive(Debug, Clone)]
pub(crate) struct FlowMod {
    command: FlowModCommand,
    matching: openflow::Match,
    pub(crate) priority: u16,
    table_id: u8,
    cookie: u64,
    cookie_mask: u64,
    idle_timeout: u16,
    hard_timeout: u16,
    buffer_id: Option<u32>,
    out_port: u32,
    out_group: u32,
    flags: u16,
    apply: Vec<openflow::Action>,
    write: Vec<openflow::Action>,
    clear: bool,
    meter: Option<u32>,
    metadata: Option<(u64, u64)>,
    goto_table: Option<u8>,
}

impl FlowMod {
    fn make(
        command: FlowModCommand,
        matching: Option<PyRef<'_, Match>>,
        arguments: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut made = Self {
            command,
            matching: matching.map(|it| it.0.clone()).unwrap_or_default(),
            priority: openflow::FlowMod::DEFAULT_PRIORITY,
            table_id: if command.is_delete() { openflow::FlowMod::ALL_TABLES } else { 0 },
            cookie: 0,
            cookie_mask: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            buffer_id: None,
            out_port: PortNo::ANY.0,
            out_group: openflow::FlowMod::ANY_GROUP,
            flags: 0,
            apply: Vec::new(),
            write: Vec::new(),
            clear: false,
            meter: None,
            metadata: None,
            goto_table: None,
        };
        for (name, value) in arguments.into_iter().flatten() {
            made.set(&name.extract::<String>()?, &value)?;
        }
        Ok(made)
    }

    fn set(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let list = || Ok::<_, PyErr>(actions(&value.extract::<Vec<PyRef<'_, Action>>>()?));
        match name {
            "priority" => self.priority = number(name, value)?,
            "table_id" => self.table_id = number(name, value)?,
            "cookie" => self.cookie = number(name, value)?,
            "cookie_mask" => self.cookie_mask = number(name, value)?,
            "idle_timeout" => self.idle_timeout = number(name, value)?,
            "hard_timeout" => self.hard_timeout = number(name, value)?,
            "buffer_id" => self.buffer_id = number_or_none(name, value)?,
            "out_port" => self.out_port = number(name, value)?,
            "out_group" => self.out_group = number(name, value)?,
            "flags" => self.flags = number(name, value)?,
            "apply" => self.apply = list()?,
            "write" => self.write = list()?,
            "clear" => self.clear = value.extract()?,
            "meter" => self.meter = number_or_none(name, value)?,
            "metadata" => self.metadata = value.extract()?,
            "goto_table" => self.goto_table = number_or_none(name, value)?,
            _ => {
                return Err(PyTypeError::new_err(format!(
                    "a flow-mod has no {name:?}; it has priority, table_id, cookie, cookie_mask, idle_timeout, \
                     hard_timeout, buffer_id, out_port, out_group, flags, apply, write, clear, meter, metadata, \
                     goto_table"
                )));
            }
        }
        Ok(())
    }

    /// The flow-mod of the codec.
    pub(crate) fn wire(&self) -> openflow::FlowMod<'_> {
        let mut flow_mod = openflow::FlowMod::new(self.command, self.matching.clone());
        flow_mod.priority = self.priority;
        flow_mod.table_id = self.table_id;
        flow_mod.cookie = self.cookie;
        flow_mod.cookie_mask = self.cookie_mask;
        flow_mod.idle_timeout = self.idle_timeout;
        flow_mod.hard_timeout = self.hard_timeout;
        flow_mod.buffer_id = self.buffer_id;
        flow_mod.out_port = PortNo(self.out_port);
        flow_mod.out_group = self.out_group;
        flow_mod.flags = FlowModFlags(self.flags);
        flow_mod.instructions.apply = self.apply.as_slice().into();
        flow_mod.instructions.write = self.write.as_slice().into();
        flow_mod.instructions.clear = self.clear;
        flow_mod.instructions.meter = self.meter;
        flow_mod.instructions.metadata = self.metadata;
        flow_mod.instructions.goto_table = self.goto_table;
        flow_mod
    }
}

#[pymethods]
impl FlowMod {
    /// Adds a flow, or replaces one of the same match and priority.
    #[staticmethod]
    #[pyo3(signature = (matching = None, **arguments))]
    fn add(
        matching: Option<PyRef<'_, Match>>,
        arguments: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        Self::make(FlowModCommand::Add, matching, arguments)
    }

    /// Modifies the flows that the match covers; with `strict=True` only the one of this match and priority.
    #[staticmethod]
    #[pyo3(signature = (matching = None, *, strict = false, **arguments))]
    fn modify(
        matching: Option<PyRef<'_, Match>>,
        strict: bool,
        arguments: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let command = if strict { FlowModCommand::ModifyStrict } else { FlowModCommand::Modify };
        Self::make(command, matching, arguments)
    }

    /// Deletes the app's flows that the match covers; with `strict=True` only the one of this match and priority.
    #[staticmethod]
    #[pyo3(signature = (matching = None, *, strict = false, **arguments))]
    fn delete(
        matching: Option<PyRef<'_, Match>>,
        strict: bool,
        arguments: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let command = if strict { FlowModCommand::DeleteStrict } else { FlowModCommand::Delete };
        Self::make(command, matching, arguments)
    }

    /// Encodes the message as it is, for tools and tests.
    #[pyo3(signature = (version = 4, xid = 0))]
    fn encode<'py>(&self, py: Python<'py>, version: u8, xid: u32) -> PyResult<Bound<'py, PyBytes>> {
        let version = Version::from_wire(version).map_err(|it| value_error(&it))?;
        let mut out = Vec::new();
        let flow_mod = self.wire();
        openflow::append(&mut out, |out| flow_mod.encode(version, xid, out))
            .map_err(|it| value_error(&it))?;
        Ok(PyBytes::new(py, &out))
    }

    fn __repr__(&self) -> String {
        format!("FlowMod.{:?}({}, priority={})", self.command, self.matching, self.priority)
    }
}

/// A bucket of a group.
#[pyclass(frozen, module = "rosemary")]
#[derive(Debug, Clone)]
pub(crate) struct Bucket(pub(crate) openflow::Bucket);

#[pymethods]
impl Bucket {
    #[new]
    #[pyo3(signature = (actions, *, weight = 0, watch_port = None, watch_group = None))]
    fn new(
        actions: Vec<PyRef<'_, Action>>,
        #[pyo3(from_py_with = number::weight)] weight: u16,
        watch_port: Option<u32>,
        watch_group: Option<u32>,
    ) -> Self {
        let usual = openflow::Bucket::new(self::actions(&actions));
        Self(openflow::Bucket {
            weight,
            watch_port: watch_port.map_or(usual.watch_port, PortNo),
            watch_group: watch_group.unwrap_or(usual.watch_group),
            ..usual
        })
    }
}

/// Makes Python's `ValueError`.
pub(crate) fn value_error(error: &dyn std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
