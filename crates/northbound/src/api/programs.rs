//! The state of all programs, and what they use.

use std::sync::Arc;

use control::operator::SafeModeStatus;
use serde::Serialize;
use view::status::Report;

use view::client::Monitor;

use crate::call::Call;
use crate::reply;
use crate::route::{Answer, Route};
use crate::state::Api;

/// As `rosemary safe-mode status --json`.
#[derive(Debug, Serialize)]
struct SafeMode {
    active: bool,
    safe_mode: Option<Box<SafeModeStatus>>,
}

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/v1/status", "status", status)
            .about("Reports the programs, the switches, and whether all is well")
            .json("Status"),
        Route::get("/api/v1/usage", "usage", usage)
            .about("Lists the use of limited resources by all programs")
            .list("Usage"),
        Route::get("/api/v1/safe-mode", "safeMode", safe_mode)
            .about("Reports safe mode")
            .json("SafeMode"),
    ]
}

async fn status(api: Arc<Api>, call: Call) -> Answer {
    let report = api.monitor(Report::query).await?;
    reply::json(&call, &report)
}

async fn usage(api: Arc<Api>, call: Call) -> Answer {
    let usage = api.monitor(Monitor::usage).await?;
    reply::list(&call, &usage)
}

async fn safe_mode(api: Arc<Api>, call: Call) -> Answer {
    let safe_mode = api.monitor(Monitor::status).await?.safe_mode;
    reply::json(&call, &SafeMode { active: safe_mode.is_some(), safe_mode })
}
