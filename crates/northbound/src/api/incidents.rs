//! Incidents: what went wrong, why, and how Rosemary reacted.

use std::sync::Arc;

use control::incident::{Incident, IncidentId};
use view::apps::is_about;

use crate::call::Call;
use crate::problem::Problem;
use crate::reply;
use crate::route::{Answer, Form, Param, Route};
use crate::state::Api;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/v1/incidents", "incidents", list)
            .about("Lists the incidents, the newest first")
            .query(&[
                Param::new(
                    "program",
                    Form::Text,
                    "Only incidents of this program, and those for which this app is to blame",
                ),
                Param::new("open", Form::Flag, "Only incidents that last, or only past ones"),
                Param::new(
                    "since",
                    Form::Number(0, u64::MAX),
                    "Only incidents from this time on, in nanoseconds since 1970",
                ),
            ])
            .list("Incident"),
        Route::get("/api/v1/incidents/{id}", "incident", one)
            .about("Describes an incident with its evidence")
            .json("FullIncident"),
    ]
}

async fn list(api: Arc<Api>, call: Call) -> Answer {
    let mut all = api.monitor(|monitor| monitor.incidents(IncidentId(0))).await?;
    if let Some(program) = call.query("program") {
        let is_its_own = |it: &Incident| it.program.name == program || is_about(it, program);
        all.retain(is_its_own);
    }
    if let Some(open) = call.query("open") {
        all.retain(|it| it.open == (open == "true"));
    }
    if let Some(since) = call.query_number("since") {
        all.retain(|it| it.time >= since);
    }
    all.reverse();
    reply::list(&call, &all)
}

async fn one(api: Arc<Api>, call: Call) -> Answer {
    let id: u64 = call.number("id")?;
    let incidents = api.monitor(move |monitor| monitor.incidents(IncidentId(id))).await?;
    let incident = incidents.into_iter().find(|it| it.id.0 == id).ok_or_else(|| {
        Problem::not_found(format!("there is no incident {id}"), "GET /api/v1/incidents lists them")
    })?;
    reply::json(&call, &incident)
}
