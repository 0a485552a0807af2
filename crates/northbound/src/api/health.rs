//! Tells load balancers and service managers whether the process lives, and whether Rosemary serves switches.

use std::sync::Arc;

use axum::http::StatusCode;
use control::operator::{ProgramState, Status};
use serde::Serialize;
use utoipa::ToSchema;

use crate::call::Call;
use crate::guard::From;
use crate::reply;
use crate::route::{Answer, Content, Route};
use crate::state::Api;

/// Whether the process lives.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Live {
    /// Always true: a dead process does not answer.
    live: bool,
}

/// Whether Rosemary serves switches.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ready {
    /// Whether it does.
    ready: bool,
    /// Why it does not, as phrases. Only for clients on this machine, and for those with a role.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reasons: Option<Vec<String>>,
}

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/livez", "live", live)
            .anyone()
            .about("Says whether the HTTP interface lives")
            .json("Live"),
        Route::get("/readyz", "ready", ready)
            .anyone()
            .about("Says whether the kernel serves switches and each app runs, and why not")
            .json("Ready")
            .answer(503, Content::Json("Ready"), "Rosemary is not ready"),
    ]
}

async fn live(_api: Arc<Api>, _call: Call) -> Answer {
    reply::done(StatusCode::OK, &Live { live: true })
}

async fn ready(api: Arc<Api>, call: Call) -> Answer {
    let reasons = match api.recent_status().await {
        Some(status) => reasons(&status),
        None => vec!["the monitor does not answer".to_owned()],
    };
    // The reasons name the apps, which is nothing for strangers.
    let is_known = !matches!(call.from, From::Tls { .. }) || call.principal.role.is_some();
    let ready = Ready { ready: reasons.is_empty(), reasons: is_known.then_some(reasons) };
    let status = if ready.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    reply::done(status, &ready)
}

fn reasons(status: &Status) -> Vec<String> {
    let mut reasons = Vec::new();
    if status.kernel.state != ProgramState::Running {
        reasons.push(format!("the kernel is {}", status.kernel.state));
    }
    for app in &status.apps {
        if !matches!(app.state, ProgramState::Running | ProgramState::Stopped) {
            reasons.push(format!("the app {} is {}", app.name, app.state));
        }
    }
    reasons
}
