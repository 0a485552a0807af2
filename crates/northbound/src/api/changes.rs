//! Changes of a running Rosemary: requests one from the monitor, waits a little, and answers with its report.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderValue, StatusCode, header};
use control::change::{Change, ChangeReport, ChangeRequest, ChangeState, LONGEST_CONFIRMATION_S};
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::call::Call;
use crate::problem::Problem;
use crate::reply;
use crate::route::{Answer, Content, Form, Param, Route, Verb};
use crate::state::Api;

/// How long an answer waits for the end of the change, if the client does not say.
const WAIT_S: u64 = 10;

/// The time between two questions.
const PAUSE: Duration = Duration::from_millis(50);

/// The parameter of all changes.
pub(crate) const WAIT: Param = Param::new(
    "wait",
    Form::Number(0, 30),
    "Seconds for which the answer waits for the end of the change; 10 without it",
);

/// The parameter of changes that can be planned.
pub(crate) const DRY_RUN: Param =
    Param::new("dry_run", Form::Flag, "Whether only to report the steps");

/// The parameter of changes of the configuration.
pub(crate) const CONFIRM_WITHIN: Param = Param::new(
    "confirm_within",
    Form::Number(1, LONGEST_CONFIRMATION_S as u64),
    "Seconds after which the configuration before returns, without POST /api/v1/config/confirm",
);

/// The time for a confirmation, if the client requests one.
pub(crate) fn confirm_within(call: &Call) -> Option<u32> {
    call.query_number("confirm_within").and_then(|it| u32::try_from(it).ok())
}

/// The consequences that the client accepts.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Confirmation {
    /// Whether the kernel may restart. Without this a change that needs it is not made.
    pub(crate) confirmed: bool,
}

impl Route {
    /// Declares the parameter and the answers of changes.
    pub(crate) fn change(self) -> Self {
        self.query(&[WAIT])
            .answer(200, Content::Json("Change"), "The change is made")
            .answer(
                202,
                Content::Json("Change"),
                "The change is not finished; `Location` has its report",
            )
            .problems(&[409, 503])
    }
}

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/v1/changes/{id}", "changeReport", one)
            .about("Reports a change that was requested before")
            .json("Change"),
        Route::new(Verb::Post, "/api/v1/reload", "reload", reload)
            .about("Applies the configuration file as it is now, or only reports the steps")
            .query(&[DRY_RUN, CONFIRM_WITHIN])
            .json_body("Confirmation", false)
            .change(),
        Route::new(Verb::Delete, "/api/v1/safe-mode", "leaveSafeMode", leave_safe_mode)
            .about("Ends safe mode: all apps run as configured")
            .change(),
    ]
}

async fn one(api: Arc<Api>, call: Call) -> Answer {
    let id: u64 = call.number("id")?;
    let report = api.monitor(move |monitor| monitor.change_so_far(id)).await;
    let report = report.map_err(|problem| match problem.status() {
        StatusCode::SERVICE_UNAVAILABLE => Problem::not_found(
            format!("there is no report of change {id}"),
            "reports of the last 16 changes are kept",
        ),
        _ => problem,
    })?;
    reply::json(&call, &report)
}

async fn reload(api: Arc<Api>, call: Call) -> Answer {
    let confirmation = call.json().await?;
    let dry_run = call.flag("dry_run");
    let change = Change::Reload { dry_run, confirm: confirm_within(&call) };
    make(&api, &call, change, confirmation).await
}

async fn leave_safe_mode(api: Arc<Api>, call: Call) -> Answer {
    make(&api, &call, Change::LeaveSafeMode, Confirmation::default()).await
}

/// Requests a change in the name of the client, and waits for its end.
///
/// # Errors
/// The change is not made.
pub(crate) async fn make(
    api: &Arc<Api>,
    call: &Call,
    change: Change,
    Confirmation { confirmed }: Confirmation,
) -> Answer {
    let who = call.principal.who.clone();
    let request = ChangeRequest { change, confirmed };
    let report = api.monitor(move |monitor| monitor.change_for(&who, request)).await;
    let report = report.map_err(|problem| match problem.status() {
        // The monitor makes one change at a time.
        StatusCode::SERVICE_UNAVAILABLE => problem.into_conflict(),
        _ => problem,
    })?;
    answer(api, call, report).await
}

/// Waits for the end of a change, and answers with its report.
///
/// # Errors
/// The change is not made.
pub(crate) async fn answer(api: &Arc<Api>, call: &Call, mut report: ChangeReport) -> Answer {
    let wait = Duration::from_secs(call.query_number("wait").unwrap_or(WAIT_S));
    let deadline = Instant::now() + wait;
    let id = report.id;
    while !report.state.is_over() && Instant::now() < deadline {
        tokio::time::sleep(PAUSE).await;
        report = api.monitor(move |monitor| monitor.change_so_far(id)).await?;
    }
    let failed =
        |why: &str, hint: &str| Err(Problem::conflict(why, hint).with("change", json!(report)));
    match &report.state {
        ChangeState::Running => {
            api.events.watch_change(id);
            let mut response = reply::done(StatusCode::ACCEPTED, &report)?;
            if let Ok(location) = HeaderValue::from_str(&format!("/api/v1/changes/{id}")) {
                response.headers_mut().insert(header::LOCATION, location);
            }
            Ok(response)
        }
        ChangeState::Watching | ChangeState::Done | ChangeState::Planned => {
            reply::done(StatusCode::OK, &report)
        }
        ChangeState::Unconfirmed => {
            failed("the change restarts the kernel", "send {\"confirmed\": true} to accept that")
        }
        ChangeState::Refused { why } => failed(why, "correct that, and request the change again"),
        ChangeState::Undone { why } => {
            failed(why, "the state before the change is back; see GET /api/v1/incidents")
        }
        ChangeState::Incomplete { why } => {
            failed(why, "see GET /api/v1/status and GET /api/v1/incidents")
        }
    }
}
