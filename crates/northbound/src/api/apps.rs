//! Apps: their state, and what operators do with them.

use std::sync::Arc;

use control::change::{AppVerb, Change};
use control::log::LogLevel;
use control::northbound::Role;
use control::operator::{InactiveApp, Status};
use serde::Deserialize;
use utoipa::ToSchema;
use view::apps::{FullApp, Line, ListedApp};
use view::client::{Kernel, Monitor};

use super::changes::{self, Confirmation};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply;
use crate::route::{Answer, Form, Param, Route, Verb};
use crate::state::Api;

/// The verbs, with the roles that they need.
const VERBS: [(AppVerb, &str, &str, Role, &str); 8] = [
    (
        AppVerb::Start,
        "/api/v1/apps/{name}/start",
        "startApp",
        Role::Operator,
        "Starts an app after a stop",
    ),
    (
        AppVerb::Stop,
        "/api/v1/apps/{name}/stop",
        "stopApp",
        Role::Operator,
        "Stops an app until it is started",
    ),
    (
        AppVerb::Restart,
        "/api/v1/apps/{name}/restart",
        "restartApp",
        Role::Operator,
        "Restarts an app with its files as they are now",
    ),
    (
        AppVerb::Enable,
        "/api/v1/apps/{name}/enable",
        "enableApp",
        Role::Operator,
        "Runs an app from now on, whatever the configuration says",
    ),
    (
        AppVerb::Disable,
        "/api/v1/apps/{name}/disable",
        "disableApp",
        Role::Operator,
        "Runs an app no more, whatever the configuration says",
    ),
    (
        AppVerb::Promote,
        "/api/v1/apps/{name}/promote",
        "promoteApp",
        Role::Admin,
        "Lets the kernel host an app again after a demotion",
    ),
    (
        AppVerb::Upgrade,
        "/api/v1/apps/{name}/upgrade",
        "upgradeApp",
        Role::Admin,
        "Runs the version of an app that was uploaded",
    ),
    (
        AppVerb::Rollback,
        "/api/v1/apps/{name}/rollback",
        "rollbackApp",
        Role::Admin,
        "Runs the version of an app before the last upgrade",
    ),
];

/// The level of an app's log.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Level {
    /// The level; null for the configured one.
    #[schema(value_type = Option<String>, pattern = "^(error|warn|info|debug)$")]
    level: Option<LogLevel>,
}

pub(crate) fn routes() -> Vec<Route> {
    let mut routes = vec![
        Route::get("/api/v1/apps", "apps", list)
            .about("Lists the apps, including stopped ones")
            .query(&[Param::new("state", Form::Text, "Only apps in this state")])
            .list("App"),
        Route::get("/api/v1/apps/{name}", "app", one)
            .about("Describes an app: its files, rights, limits and incidents")
            .json("FullApp"),
        Route::new(Verb::Put, "/api/v1/apps/{name}/log-level", "setLogLevel", set_level)
            .role(Role::Operator)
            .about("Changes the level of an app's log while it runs")
            .json_body("Level", true)
            .change(),
    ];
    routes.extend(VERBS.map(|(verb, path, id, role, about)| {
        let handler = move |api, call| act(api, call, verb);
        Route::new(Verb::Post, path, id, handler)
            .role(role)
            .about(about)
            .json_body("Confirmation", false)
            .change()
    }));
    routes
}

async fn list(api: Arc<Api>, call: Call) -> Answer {
    let Status { apps, inactive, .. } = api.monitor(Monitor::status).await?;
    // While the kernel restarts, the counters are unknown.
    let counters = api.kernel(Kernel::apps).await.unwrap_or_default();
    let lines: Vec<Line> = apps.into_iter().map(|app| Line::of(app, &counters)).collect();
    let mut entries: Vec<ListedApp<'_>> = lines
        .iter()
        .map(ListedApp::Active)
        .chain(inactive.iter().map(ListedApp::Inactive))
        .collect();
    if let Some(state) = call.query("state") {
        entries.retain(|entry| match entry {
            ListedApp::Active(line) => line.app.state.to_string() == state,
            ListedApp::Inactive(app) => app.state.to_string() == state,
        });
    }
    reply::list(&call, &entries)
}

async fn one(api: Arc<Api>, call: Call) -> Answer {
    let name = call.path("name").to_owned();
    let status = api.monitor(Monitor::status).await?;
    must_run(&name, &status)?;
    let counters = api.kernel(Kernel::apps).await.unwrap_or_default();
    let full = api.monitor(move |monitor| FullApp::query(monitor, &name, &counters)).await?;
    reply::json(&call, &full)
}

/// Checks that Rosemary is to run the app.
fn must_run(name: &str, status: &Status) -> Result<(), Problem> {
    if status.apps.iter().any(|app| app.name == name) {
        return Ok(());
    }
    if let Some(InactiveApp { state, .. }) = status.inactive.iter().find(|app| app.name == name) {
        let hint = format!("POST /api/v1/apps/{name}/enable runs it");
        return Err(Problem::not_found(format!("the app {name} is {state}"), hint));
    }
    Err(no_app(name))
}

fn no_app(name: &str) -> Problem {
    let name: String = name.chars().take(64).collect();
    Problem::not_found(format!("there is no app {name:?}"), "GET /api/v1/apps lists the apps")
}

/// Checks that there is an app of this name, whether it runs or not.
pub(crate) async fn must_exist(api: &Arc<Api>, name: &str) -> Result<(), Problem> {
    let status = api.monitor(Monitor::status).await?;
    let mut names =
        status.apps.iter().map(|it| &it.name).chain(status.inactive.iter().map(|it| &it.name));
    if names.any(|it| it == name) { Ok(()) } else { Err(no_app(name)) }
}

async fn act(api: Arc<Api>, call: Call, verb: AppVerb) -> Answer {
    let confirmation: Confirmation = call.json().await?;
    let app = call.path("name").to_owned();
    if verb != AppVerb::Enable {
        must_exist(&api, &app).await?;
    } else if !config::is_name(&app) {
        return Err(no_app(&app));
    }
    changes::make(&api, &call, Change::App { app, verb }, confirmation).await
}

async fn set_level(api: Arc<Api>, call: Call) -> Answer {
    let Level { level } = call.json().await?;
    let app = call.path("name").to_owned();
    must_exist(&api, &app).await?;
    let change = Change::LogLevel { app, level };
    changes::make(&api, &call, change, Confirmation::default()).await
}
