//! Change sets: `network.commit`, the changes of groups and meters in a set, and the event with the outcome.

use openflow::{
    GroupKind, GroupMod as RawGroupMod, GroupModCommand, MeterMod as RawMeterMod, Version,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use sdk::abi::host::Host as _;
use sdk::changes::{CHANGE_SET, SetWriter};
use sdk::own::Own;
use sdk::{Change, CommitId, Committed as RawCommitted, Guarantee, NotApplied};

use crate::events::{Committed, Switch};
use crate::flow::{Bucket, FlowMod, value_error};
use crate::meter::{MeterBand, meter_mod, usual_flags};
use crate::network::{COMMANDS, own, unknown_word, version_of};
use crate::zone::{Zone, full};

/// Adds, modifies or deletes a group, in a change set: the arguments are those of `network.group_mod`.
#[pyclass(frozen, module = "rosemary")]
#[derive(Debug, Clone)]
pub(crate) struct GroupMod(RawGroupMod);

/// Adds, modifies or deletes a meter, in a change set: the arguments are those of `network.meter_mod`.
#[pyclass(frozen, module = "rosemary")]
#[derive(Debug, Clone)]
pub(crate) struct MeterMod(RawMeterMod);

/// Makes a group-mod of a call's arguments.
pub(crate) fn group_mod(
    command: &str,
    group_id: u32,
    buckets: &[PyRef<'_, Bucket>],
    group_type: &str,
) -> PyResult<RawGroupMod> {
    let command = match command {
        "add" => GroupModCommand::Add,
        "modify" => GroupModCommand::Modify,
        "delete" => GroupModCommand::Delete,
        other => return Err(unknown_word(other, "command for a group", COMMANDS)),
    };
    let kind = group_kind(group_type)?;
    let buckets = buckets.iter().map(|bucket| bucket.0.clone()).collect();
    Ok(RawGroupMod { command, kind, group_id, buckets })
}

/// Returns the group type of this name.
pub(crate) fn group_kind(name: &str) -> PyResult<GroupKind> {
    Ok(match name {
        "all" => GroupKind::All,
        "select" => GroupKind::Select,
        "indirect" => GroupKind::Indirect,
        "fast-failover" => GroupKind::FastFailover,
        other => {
            let words = "\"all\", \"select\", \"indirect\" or \"fast-failover\"";
            return Err(unknown_word(other, "type of a group", words));
        }
    })
}

#[pymethods]
impl GroupMod {
    #[new]
    #[pyo3(signature = (command, group_id, buckets = Vec::new(), group_type = "all"))]
    fn new(
        command: &str,
        group_id: u32,
        buckets: Vec<PyRef<'_, Bucket>>,
        group_type: &str,
    ) -> PyResult<Self> {
        group_mod(command, group_id, &buckets, group_type).map(Self)
    }

    fn __repr__(&self) -> String {
        let RawGroupMod { command, group_id, .. } = self.0;
        format!("GroupMod({:?}, {group_id})", format!("{command:?}").to_lowercase())
    }
}

#[pymethods]
impl MeterMod {
    #[new]
    #[pyo3(signature = (command, meter_id, bands = Vec::new(), flags = usual_flags()))]
    fn new(
        command: &str,
        meter_id: u32,
        bands: Vec<PyRef<'_, MeterBand>>,
        flags: Vec<String>,
    ) -> PyResult<Self> {
        meter_mod(command, meter_id, &bands, &flags).map(Self)
    }

    fn __repr__(&self) -> String {
        let RawMeterMod { command, meter_id, .. } = self.0;
        format!("MeterMod({:?}, {meter_id})", format!("{command:?}").to_lowercase())
    }
}

#[pymethods]
impl Zone {
    /// Sends `FlowMod`, `GroupMod` and `MeterMod` objects as one change set. A switch with bundles applies it wholly or not at all.
    /// Returns the number of the set; the event `Committed` with this `commit` has the outcome.
    fn commit(&self, to: Switch, changes: Vec<Bound<'_, PyAny>>) -> PyResult<u32> {
        let version = version_of(to)?;
        self.sending(|host, xid| {
            let own = own(host);
            let commit = CommitId(xid.wrapping_add(1));
            let mut set = SetWriter::new(commit);
            for change in &changes {
                add(&mut set, change, &own, version)?;
            }
            let bytes = set.finish().map_err(|it| value_error(&it))?;
            let room = host.reserve(bytes.len()).ok_or_else(full)?;
            room[..bytes.len()].copy_from_slice(&bytes);
            if !host.commit(to.dpid, to.epoch, bytes.len(), CHANGE_SET) {
                return Err(full());
            }
            *xid = commit.0;
            Ok(commit.0)
        })
    }
}

/// Appends a change to a set.
fn add(
    set: &mut SetWriter,
    change: &Bound<'_, PyAny>,
    own: &Own,
    version: Version,
) -> PyResult<()> {
    let added = if let Ok(flow_mod) = change.cast::<FlowMod>() {
        set.add(&Change::Flow(flow_mod.get().wire()), own, version)
    } else if let Ok(group_mod) = change.cast::<GroupMod>() {
        set.add(&Change::Group(group_mod.get().0.clone()), own, version)
    } else if let Ok(meter_mod) = change.cast::<MeterMod>() {
        set.add(&Change::Meter(meter_mod.get().0.clone()), own, version)
    } else {
        let name = change.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "a change set has FlowMod, GroupMod and MeterMod, and this is a {name}"
        )));
    };
    added.map_err(|it| value_error(&it))
}

impl Committed {
    /// Makes the event of an outcome.
    pub(crate) fn of(committed: &RawCommitted<'_>) -> Self {
        let mut event = Self {
            switch: committed.switch.into(),
            commit: committed.commit.0,
            outcome: String::new(),
            outside: 0,
            index: None,
            why: None,
            remedy: None,
            error: None,
            is_partial: false,
        };
        let index = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        let outcome = match committed.outcome {
            Ok(applied) => {
                event.outside = applied.outside;
                match applied.guarantee {
                    Guarantee::Atomic => "atomic",
                    Guarantee::Ordered => "ordered",
                }
            }
            Err(NotApplied::Refused { index: at, why, remedy }) => {
                event.index = Some(index(at));
                let unknown = || "for an unknown reason".to_owned();
                event.why = Some(why.map_or_else(unknown, |why| why.to_string()));
                event.remedy = remedy.map(ToOwned::to_owned);
                "refused"
            }
            Err(NotApplied::Failed { index: at, error, is_partial }) => {
                (event.index, event.is_partial) = (at.map(index), is_partial);
                event.error = Some((error.kind, error.code));
                event.why = Some(format!("the switch answered {error}"));
                "failed"
            }
            Err(NotApplied::Unanswered { is_partial }) => {
                event.is_partial = is_partial;
                event.why = Some("the switch did not answer".to_owned());
                "unanswered"
            }
        };
        outcome.clone_into(&mut event.outcome);
        event
    }
}

#[pymethods]
impl Committed {
    /// Whether the switch has applied all changes.
    #[getter]
    fn is_applied(&self) -> bool {
        self.why.is_none()
    }
}

/// Adds the classes to the module.
pub(crate) fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<GroupMod>()?;
    module.add_class::<MeterMod>()
}
