//! The client of the service `apps`: counters of other apps, and limits for them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sdk::services::apps::{self, Answer};
use sdk::services::{RequestId, Unavailable as RawUnavailable};

use crate::services::{exception, not_sent, unavailable};
use crate::zone::Zone;

pyo3::create_exception!(
    _native,
    AppsRefused,
    pyo3::exceptions::PyException,
    "The service apps refused a request; nothing was done."
);

/// A limit for an app: `Measure.throttle(pace)`, or `Measure.SUSPEND`. `str` describes it in words.
#[pyclass(frozen, eq, from_py_object, module = "rosemary")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Measure(apps::Measure);

#[pymethods]
#[allow(clippy::trivially_copy_pass_by_ref, reason = "Python shares the object")]
impl Measure {
    /// The kernel refuses the app's flow-mods and all other messages that change a switch.
    #[classattr]
    const SUSPEND: Self = Self(apps::Measure::Suspend);

    /// Each switch receives at most `pace` flow-mods per second of the app, at least 1; the others wait.
    #[staticmethod]
    fn throttle(pace: u32) -> PyResult<Self> {
        if pace == 0 {
            return Err(PyValueError::new_err(
                "a pace is at least 1; Measure.SUSPEND admits no flow-mod",
            ));
        }
        Ok(Self(apps::Measure::Throttle(pace)))
    }

    /// Flow-mods per second for each switch; `None` if the app is suspended.
    #[getter]
    fn pace(&self) -> Option<u32> {
        match self.0 {
            apps::Measure::Throttle(pace) => Some(pace),
            apps::Measure::Suspend => None,
        }
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        match self.0 {
            apps::Measure::Throttle(pace) => format!("Measure.throttle({pace})"),
            apps::Measure::Suspend => "Measure.SUSPEND".to_owned(),
        }
    }
}

/// Counters of an app, since the kernel started.
#[pyclass(frozen, get_all, eq, module = "rosemary")]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AppCounters {
    /// Its number, which never changes.
    number: u16,
    /// Its name.
    name: String,
    /// Packet-ins that it received, of all switches.
    delivered: u64,
    /// Flow-mods and other messages that change switches, which the kernel admitted.
    flow_mods: u64,
    /// Its messages that the kernel refused.
    refused: u64,
    /// Its flow-mods that waited because of its pace.
    delayed: u64,
    /// The limit that an app has set.
    limit: Option<Measure>,
}

#[pymethods]
impl AppCounters {
    /// Makes one for a test of an app.
    #[new]
    #[pyo3(signature = (number, name, *, delivered = 0, flow_mods = 0, refused = 0, delayed = 0, limit = None))]
    fn new(
        number: u16,
        name: String,
        delivered: u64,
        flow_mods: u64,
        refused: u64,
        delayed: u64,
        limit: Option<Measure>,
    ) -> Self {
        Self { number, name, delivered, flow_mods, refused, delayed, limit }
    }

    fn __repr__(&self) -> String {
        format!("AppCounters({}, {:?})", self.number, self.name)
    }
}

/// Messages of an app to a switch, on the switch's present connection.
#[pyclass(frozen, get_all, eq, module = "rosemary")]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    /// The switch's datapath id.
    dpid: u64,
    /// The number of its connection. Counters begin at 0 with a connection.
    epoch: u32,
    /// The app's number.
    app: u16,
    /// Flow-mods and other messages that change the switch, which the kernel admitted.
    flow_mods: u64,
}

#[pymethods]
impl Sender {
    /// Makes one for a test of an app.
    #[new]
    fn new(dpid: u64, epoch: u32, app: u16, flow_mods: u64) -> Self {
        Self { dpid, epoch, app, flow_mods }
    }

    fn __repr__(&self) -> String {
        format!("Sender(dpid={:#x}, app={}, flow_mods={})", self.dpid, self.app, self.flow_mods)
    }
}

/// An answer of the service `apps`.
#[pyclass(frozen, get_all, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct AppsAnswer {
    /// "done": the limit was set or released. "apps" and then "senders": the counters.
    kind: String,
    /// The apps of "apps".
    apps: Vec<Py<AppCounters>>,
    /// The pairs of an app and a switch of "senders".
    senders: Vec<Py<Sender>>,
    /// Whether another answer to this request follows "senders". One always follows "apps".
    more: bool,
}

#[pymethods]
impl AppsAnswer {
    /// Makes one for a test of an app.
    #[new]
    #[pyo3(signature = (kind, *, apps = Vec::new(), senders = Vec::new(), more = false))]
    fn new(kind: String, apps: Vec<Py<AppCounters>>, senders: Vec<Py<Sender>>, more: bool) -> Self {
        Self { kind, apps, senders, more }
    }

    fn __repr__(&self) -> String {
        format!("AppsAnswer({:?})", self.kind)
    }
}

impl AppsAnswer {
    /// Converts an answer; a refusal is an exception.
    fn of(py: Python<'_>, answer: Answer) -> PyResult<Self> {
        let (mut apps, mut senders, mut is_cut) = (Vec::new(), Vec::new(), false);
        let kind = match answer {
            Answer::Done => "done",
            Answer::Refused(why) => return Err(AppsRefused::new_err(why)),
            Answer::Apps(found) => {
                for it in found {
                    let counters = AppCounters {
                        number: it.number,
                        name: it.name,
                        delivered: it.delivered,
                        flow_mods: it.flow_mods,
                        refused: it.refused,
                        delayed: it.delayed,
                        limit: it.limit.map(Measure),
                    };
                    apps.push(Py::new(py, counters)?);
                }
                is_cut = true;
                "apps"
            }
            Answer::Senders { senders: found, more } => {
                for it in found {
                    let (dpid, epoch) = (it.dpid.0, it.epoch);
                    let sender = Sender { dpid, epoch, app: it.app, flow_mods: it.flow_mods };
                    senders.push(Py::new(py, sender)?);
                }
                is_cut = more;
                "senders"
            }
        };
        Ok(Self { kind: kind.to_owned(), apps, senders, more: is_cut })
    }
}

/// The service `apps` answered a request, or ended before it did. A request for counters has several answers.
#[pyclass(frozen, module = "rosemary")]
#[derive(Debug)]
pub(crate) struct AppsEvent {
    /// The request's number.
    #[pyo3(get)]
    request: u64,
    /// The answer, or the exception that stands for it.
    answer: Result<Py<AppsAnswer>, PyErr>,
}

impl AppsEvent {
    /// Reads an answer; `None` if it is malformed.
    pub(crate) fn of(
        py: Python<'_>,
        request: RequestId,
        answer: Result<&[u8], RawUnavailable>,
    ) -> Option<Self> {
        let answer = match answer {
            Err(RawUnavailable) => Err(unavailable("apps")),
            Ok(body) => {
                let answer = Answer::decode(body)?;
                AppsAnswer::of(py, answer).and_then(|answer| Py::new(py, answer))
            }
        };
        Some(Self { request: request.0, answer })
    }
}

#[pymethods]
impl AppsEvent {
    #[classattr]
    #[allow(non_upper_case_globals, reason = "the name in Python")]
    const kind: &'static str = "apps";

    /// Makes one for a test of an app: with an answer, or with the exception that `result` raises.
    #[new]
    fn new(request: u64, answer: &Bound<'_, PyAny>) -> PyResult<Self> {
        let answer = match answer.cast::<AppsAnswer>() {
            Ok(answer) => Ok(answer.clone().unbind()),
            Err(_) => Err(exception(answer)?),
        };
        Ok(Self { request, answer })
    }

    /// Returns the answer. Raises `Unavailable` if the service ended before it answered, and `AppsRefused` if it refused the
    /// request.
    fn result(&self, py: Python<'_>) -> PyResult<Py<AppsAnswer>> {
        match &self.answer {
            Ok(answer) => Ok(answer.clone_ref(py)),
            Err(error) => Err(error.clone_ref(py)),
        }
    }

    fn __repr__(&self) -> String {
        format!("AppsEvent({})", self.request)
    }
}

#[pymethods]
impl Zone {
    /// Requests the counters of all apps: an answer "apps", then one or more "senders". Needs the capability `apps.read`. Returns
    /// the request's number; an `AppsEvent` with it is the answer.
    #[allow(
        clippy::redundant_closure_for_method_calls,
        reason = "the method has the lifetime of one network, and the closure that of any"
    )]
    fn app_counters(&self) -> PyResult<u64> {
        let asked = self.with_network(|network| network.app_counters())?;
        asked.map(|id| id.0).map_err(not_sent)
    }

    /// Limits an app for 1 to 3600 seconds, or renews its limit: "done". The operator gets an incident with the reason `why`, of
    /// which 400 bytes are kept. Needs the capability `apps.limit:APP`.
    fn limit_app(&self, app: &str, measure: Measure, seconds: u16, why: &str) -> PyResult<u64> {
        let asked = self.with_network(|network| network.limit_app(app, measure.0, seconds, why))?;
        asked.map(|id| id.0).map_err(not_sent)
    }

    /// Ends the limit of an app: "done".
    fn release_app(&self, app: &str) -> PyResult<u64> {
        let asked = self.with_network(|network| network.release_app(app))?;
        asked.map(|id| id.0).map_err(not_sent)
    }
}

/// Adds the classes to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("AppsRefused", module.py().get_type::<AppsRefused>())?;
    module.add_class::<Measure>()?;
    module.add_class::<AppCounters>()?;
    module.add_class::<Sender>()?;
    module.add_class::<AppsAnswer>()?;
    module.add_class::<AppsEvent>()
}
