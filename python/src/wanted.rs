//! `Wanted`: keeps the flows, groups and meters that an app wants in its switches.

use openflow::{GroupKind, GroupMod, GroupModCommand};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sdk::Dpid;
use sdk::wanted::{self as raw, Exception, Notice as RawNotice, Owns, Settings};

use crate::changes::group_kind;
use crate::events::Switch;
use crate::flow::{Bucket, FlowMod, value_error};
use crate::matching::Match;
use crate::meter::{self, MeterBand, usual_flags};
use crate::services::seconds;
use crate::zone::Zone;

/// A table, and a cookie with its mask; `None` stands for all.
type TableAndCookie = (Option<u8>, Option<(u64, u64)>);

/// Where an entry is wanted: `At.ALL`, or `At.one(dpid)`.
#[pyclass(frozen, eq, hash, from_py_object, module = "rosemary")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct At(raw::At);

#[pymethods]
impl At {
    /// In every switch.
    #[classattr]
    const ALL: Self = Self(raw::At::All);

    /// In one switch. An entry for it replaces one for all switches.
    #[staticmethod]
    fn one(dpid: u64) -> Self {
        Self(raw::At::One(Dpid(dpid)))
    }

    fn __repr__(&self) -> String {
        match self.0 {
            raw::At::All => "At.ALL".to_owned(),
            raw::At::One(dpid) => format!("At.one({:#x})", dpid.0),
        }
    }
}

/// Something that an app may log or act on. `str` describes it in words.
#[pyclass(frozen, get_all, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct Notice {
    /// "reconciled", "difference", "failed", "full", "blind", "not-kept" or "loaded".
    kind: String,
    /// The switch, of all except "not-kept" and "loaded".
    switch: Option<Switch>,
    /// The entry of "failed".
    entry: Option<String>,
    /// Numbers of entries by name: "restored", "changed", "removed" and "kept" of "reconciled"; "missing", "changed",
    /// "stray" and "kept" of "difference"; "missing" of "full"; "entries" and "malformed" of "loaded".
    counts: std::collections::HashMap<String, usize>,
    /// The description.
    text: String,
}

#[pymethods]
impl Notice {
    /// Makes one for a test of an app.
    #[new]
    #[pyo3(signature = (kind, switch = None, entry = None, counts = std::collections::HashMap::new(), text = String::new()))]
    fn new(
        kind: String,
        switch: Option<Switch>,
        entry: Option<String>,
        counts: std::collections::HashMap<String, usize>,
        text: String,
    ) -> Self {
        Self { kind, switch, entry, counts, text }
    }

    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("Notice({:?}, {:?})", self.kind, self.text)
    }
}

impl From<RawNotice> for Notice {
    fn from(notice: RawNotice) -> Self {
        let text = notice.to_string();
        let (kind, switch, counts): (_, _, Vec<(&str, usize)>) = match &notice {
            RawNotice::Reconciled { switch, restored, changed, removed, kept, .. } => {
                let counts = [("restored", *restored), ("changed", *changed)];
                let others = [("removed", *removed), ("kept", *kept)];
                ("reconciled", Some(*switch), [counts, others].concat())
            }
            RawNotice::Difference { switch, difference } => {
                let lists = [
                    ("missing", &difference.missing),
                    ("changed", &difference.changed),
                    ("stray", &difference.stray),
                ];
                let counts = lists.iter().map(|(name, list)| (*name, list.len()));
                let kept = std::iter::once(("kept", difference.kept));
                ("difference", Some(*switch), counts.chain(kept).collect())
            }
            RawNotice::Failed { switch, .. } => ("failed", Some(*switch), Vec::new()),
            RawNotice::Full { switch, missing, .. } => {
                ("full", Some(*switch), vec![("missing", *missing)])
            }
            RawNotice::Blind { switch, .. } => ("blind", Some(*switch), Vec::new()),
            RawNotice::NotKept { .. } => ("not-kept", None, Vec::new()),
            RawNotice::Loaded { entries, malformed } => {
                ("loaded", None, vec![("entries", *entries), ("malformed", *malformed)])
            }
            _ => ("other", None, Vec::new()),
        };
        let counts = counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
        let entry = match notice {
            RawNotice::Failed { entry, .. } => Some(entry),
            _ => None,
        };
        Self { kind: kind.to_owned(), switch: switch.map(Switch::from), entry, counts, text }
    }
}

/// The entries that an app wants, and the switches that shall have them.
///
/// The app declares each once; the library adds it to the switches, keeps it in the service `storage`, and restores it after
/// a restart of a switch, of the app or of Rosemary. The app needs the capabilities `flow.write` and `stats.read`, `group.write` for groups,
/// `meter.write` for meters, and `services = ["storage"]`.
#[pyclass(unsendable, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct Wanted(raw::Wanted);

#[pymethods]
impl Wanted {
    /// `owns` is "declared" or "all": which flows of the app are removed if they are not wanted. `exceptions` names flows that
    /// are never removed, each by its table and a pair of a cookie and a mask, or `None`. `check_every` is in seconds.
    #[new]
    #[pyo3(signature = (*, owns = "declared", exceptions = Vec::new(), groups_and_meters = false, keep = true,
                        check_every = None, at_once = false, dry_run = false, messages_per_turn = 256))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    #[allow(clippy::fn_params_excessive_bools, reason = "each is a choice of the app")]
    fn new(
        owns: &str,
        exceptions: Vec<TableAndCookie>,
        groups_and_meters: bool,
        keep: bool,
        check_every: Option<f64>,
        at_once: bool,
        dry_run: bool,
        messages_per_turn: usize,
    ) -> PyResult<Self> {
        let owns = match owns {
            "declared" => Owns::Declared,
            "all" => Owns::All,
            other => {
                let why = format!("owns is {other:?}; expected \"declared\" or \"all\"");
                return Err(PyValueError::new_err(why));
            }
        };
        let exceptions =
            exceptions.into_iter().map(|(table, cookie)| Exception { table, cookie }).collect();
        let check_every = check_every.map(seconds).transpose()?;
        Ok(Self(raw::Wanted::new(Settings {
            owns,
            exceptions,
            groups_and_meters,
            keep,
            check_every,
            at_once,
            dry_run,
            messages_per_turn,
        })))
    }

    /// Declares a flow by the flow-mod that adds it; replaces a wanted flow of the same table, priority and match. Returns
    /// whether that changes anything.
    fn flow(&mut self, at: At, flow: PyRef<'_, FlowMod>) -> PyResult<bool> {
        self.0.flow(at.0, &flow.wire()).map_err(|it| value_error(&it))
    }

    /// Declares a group, as `network.group_mod(..., "add", ...)` adds it. Returns whether that changes anything.
    #[pyo3(signature = (at, group_id, buckets = Vec::new(), group_type = "all"))]
    fn group(
        &mut self,
        at: At,
        group_id: u32,
        buckets: Vec<PyRef<'_, Bucket>>,
        group_type: &str,
    ) -> PyResult<bool> {
        let kind: GroupKind = group_kind(group_type)?;
        let buckets = buckets.iter().map(|bucket| bucket.0.clone()).collect();
        let group = GroupMod { command: GroupModCommand::Add, kind, group_id, buckets };
        self.0.group(at.0, &group).map_err(|it| value_error(&it))
    }

    /// Declares a meter, as `network.meter_mod(..., "add", ...)` adds it. Returns whether that changes anything.
    #[pyo3(signature = (at, meter_id, bands = Vec::new(), flags = usual_flags()))]
    fn meter(
        &mut self,
        at: At,
        meter_id: u32,
        bands: Vec<PyRef<'_, MeterBand>>,
        flags: Vec<String>,
    ) -> PyResult<bool> {
        let meter = meter::meter_mod("add", meter_id, &bands, &flags)?;
        self.0.meter(at.0, &meter).map_err(|it| value_error(&it))
    }

    /// No longer wants a flow; the library removes it from the switches. Returns whether it was wanted.
    #[pyo3(signature = (at, table, priority, matching = None))]
    fn drop_flow(
        &mut self,
        at: At,
        table: u8,
        priority: u16,
        matching: Option<PyRef<'_, Match>>,
    ) -> bool {
        let matching = matching.map(|it| it.0.clone()).unwrap_or_default();
        self.0.drop_flow(at.0, table, priority, &matching)
    }

    /// No longer wants a group; the library removes it from the switches. Returns whether it was wanted.
    fn drop_group(&mut self, at: At, number: u32) -> bool {
        self.0.drop_group(at.0, number)
    }

    /// No longer wants a meter; the library removes it from the switches. Returns whether it was wanted.
    fn drop_meter(&mut self, at: At, number: u32) -> bool {
        self.0.drop_meter(at.0, number)
    }

    /// No longer wants the entries that the app has not declared since it started. An app calls it after the notice "loaded".
    fn keep_only_declared(&mut self) {
        self.0.keep_only_declared();
    }

    /// Whether the switch is connected and has confirmed all wanted entries.
    fn is_settled(&self, dpid: u64) -> bool {
        self.0.is_settled(Dpid(dpid))
    }

    /// Whether the entries that earlier instances have kept are known.
    fn is_loaded(&self) -> bool {
        self.0.is_loaded()
    }

    /// Whether every declaration is in the storage.
    fn is_saved(&self) -> bool {
        self.0.is_saved()
    }

    /// Why the storage refused the last request; `None` if it did not.
    fn save_failure(&self) -> Option<&str> {
        self.0.save_failure()
    }

    /// Reads a switch soon, and restores the difference.
    fn check(&mut self, dpid: u64, network: &Bound<'_, Zone>) -> PyResult<()> {
        network.get().with_network(|network| self.0.check(Dpid(dpid), network))
    }

    /// Handles an event. Returns what the app may want to know. `App.follow` has it called for every event.
    fn on_event(
        &mut self,
        event: &Bound<'_, PyAny>,
        network: &Bound<'_, Zone>,
    ) -> PyResult<Vec<Notice>> {
        let wanted = &mut self.0;
        let notices =
            network.get().with_event(event, |event, network| wanted.on_event(event, network))?;
        Ok(notices.unwrap_or_default().into_iter().map(Notice::from).collect())
    }

    /// Continues the work that waited for room or time. `App.follow` has it called after every batch.
    fn on_wake(&mut self, network: &Bound<'_, Zone>) -> PyResult<Vec<Notice>> {
        let notices = network.get().with_network(|network| self.0.on_wake(network))?;
        Ok(notices.into_iter().map(Notice::from).collect())
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __repr__(&self) -> String {
        format!("Wanted({} entries)", self.0.len())
    }
}

/// Adds the classes to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<At>()?;
    module.add_class::<Notice>()?;
    module.add_class::<Wanted>()
}
