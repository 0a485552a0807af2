//! The configuration: reads it without its secrets, checks a text, plans it and applies it; its history.

use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;

use axum::http::{StatusCode, header};
use config::{Config, reserved};
use control::change::{Change, ChangeReport, ChangeRequest};
use serde::Serialize;
use utoipa::ToSchema;
use view::client::Monitor;

use super::changes;
use crate::call::Call;
use crate::limits;
use crate::problem::Problem;
use crate::reply;
use crate::route::{Answer, Form, Param, Route, Verb};
use crate::state::Api;

/// The media type of TOML.
const TOML: &str = "application/toml";

/// The name of a text that is not the file's yet.
const NAME: &str = "rosemary.toml";

/// A mistake in a text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Mistake {
    /// The mistake and the expected value, with file, line and column.
    what: String,
}

/// The result of a check.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Checked {
    /// Whether the text could be applied as far as the text alone shows.
    valid: bool,
    /// All mistakes, in the order of the text; with more than 100, the last one says so.
    mistakes: Vec<Mistake>,
    /// The keys that it changes and that only the file itself can change.
    reserved: Vec<String>,
}

pub(crate) fn routes() -> Vec<Route> {
    let if_match = "The SHA-256 of the configuration that the change is based on, in quotes: the `ETag` of GET";
    vec![
        Route::get("/api/v1/config", "config", show)
            .about("Shows the configuration without its secrets; the `ETag` is the SHA-256 of the file")
            .json("Config"),
        Route::new(Verb::Post, "/api/v1/config/validate", "checkConfig", check)
            .role(control::northbound::Role::Viewer)
            .about("Checks a text as a configuration, and changes nothing")
            .raw_body(TOML, limits::CONFIG)
            .json("Checked"),
        Route::new(Verb::Post, "/api/v1/config/plan", "planConfig", plan)
            .about("Reports what a text would change as the configuration, and changes nothing")
            .raw_body(TOML, limits::CONFIG)
            .change(),
        Route::new(Verb::Put, "/api/v1/config", "applyConfig", apply)
            .about("Applies a text as the configuration, and stores it in the file")
            .header("If-Match", if_match)
            .query(&[
                Param::new("confirmed", Form::Flag, "Whether the kernel may restart"),
                changes::CONFIRM_WITHIN,
            ])
            .raw_body(TOML, limits::CONFIG)
            .change()
            .problems(&[412, 428]),
        Route::get("/api/v1/config/changes", "configChanges", list)
            .about("Lists the last changes of the configuration, the newest first")
            .list("ConfigChange"),
        Route::get("/api/v1/config/changes/{id}", "configChange", one)
            .about("Shows the difference that a change of the configuration has made")
            .json("ConfigChange"),
        Route::new(Verb::Post, "/api/v1/config/changes/{id}/undo", "undoConfigChange", undo)
            .about("Applies the configuration before a change, and stores it in the file; reserved keys must not differ")
            .query(&[
                changes::DRY_RUN,
                changes::CONFIRM_WITHIN,
                Param::new(
                    "force",
                    Form::Flag,
                    "Whether to replace the file also if it was edited since it was loaded",
                ),
            ])
            .json_body("Confirmation", false)
            .change(),
        Route::new(Verb::Post, "/api/v1/config/confirm", "confirmConfig", confirm)
            .about("Keeps the configuration that waits for a confirmation")
            .change(),
    ]
}

async fn show(api: Arc<Api>, call: Call) -> Answer {
    let config = api.monitor(Monitor::config).await?;
    let bytes = serde_json::to_vec(&config)
        .map_err(|error| Problem::internal(error.to_string(), "see `rosemary logs`"))?;
    reply::tagged(&call, &format!("\"{}\"", config.sha256), bytes)
}

async fn list(api: Arc<Api>, call: Call) -> Answer {
    let mut all = api.monitor(|monitor| monitor.config_changes(0)).await?;
    all.reverse();
    reply::list(&call, &all)
}

async fn one(api: Arc<Api>, call: Call) -> Answer {
    let id: u64 = call.number("id")?;
    let changes = api.monitor(move |monitor| monitor.config_changes(id)).await?;
    let change = changes.into_iter().find(|it| it.id == id).ok_or_else(|| {
        let what = format!("there is no change {id} of the configuration");
        Problem::not_found(what, "GET /api/v1/config/changes lists them")
    })?;
    reply::json(&call, &change)
}

async fn undo(api: Arc<Api>, call: Call) -> Answer {
    let id: u64 = call.number("id")?;
    let confirmation = call.json().await?;
    let (dry_run, force) = (call.flag("dry_run"), call.flag("force"));
    let change = Change::Undo { id, dry_run, confirm: changes::confirm_within(&call), force };
    changes::make(&api, &call, change, confirmation).await
}

async fn confirm(api: Arc<Api>, call: Call) -> Answer {
    changes::make(&api, &call, Change::Confirm, changes::Confirmation::default()).await
}

async fn text(call: &Call) -> Result<String, Problem> {
    let hint = "send the configuration as TOML in UTF-8";
    let bytes = call.body().await?;
    String::from_utf8(bytes.into())
        .map_err(|_| Problem::invalid("the body is not UTF-8 text", hint))
}

async fn check(api: Arc<Api>, call: Call) -> Answer {
    let text = text(&call).await?;
    let shown = api.monitor(Monitor::config).await?;
    let file = shown.file.unwrap_or_else(|| NAME.into());
    // A long text takes a while.
    let checked = api.wait(move |_| Ok::<_, Problem>(checked(file, text, &shown.toml))).await?;
    reply::done(StatusCode::OK, &checked)
}

fn checked(file: PathBuf, text: String, old: &str) -> Checked {
    // Hidden values are equal in both texts, so they count as unchanged.
    let reserved = reserved::differing(old, &text).unwrap_or_default();
    let mistakes = Config::parse_all(file, text).err().unwrap_or_default();
    let mistakes: Vec<_> =
        mistakes.iter().map(|mistake| Mistake { what: mistake.to_string() }).collect();
    Checked { valid: mistakes.is_empty() && reserved.is_empty(), mistakes, reserved }
}

async fn plan(api: Arc<Api>, call: Call) -> Answer {
    let text = text(&call).await?;
    let expected = api.monitor(Monitor::config).await?.sha256;
    let change = Change::Configure { expected, dry_run: true, confirm: None };
    let report = send(&api, &call, change, text.into_bytes(), false).await?;
    changes::answer(&api, &call, report).await
}

async fn apply(api: Arc<Api>, call: Call) -> Answer {
    let given = call.headers().get(header::IF_MATCH).and_then(|it| it.to_str().ok());
    let hint = "GET /api/v1/config, and send its `ETag` as `If-Match`";
    let missing = || Problem::precondition_required("the header If-Match is missing", hint);
    let expected = given.ok_or_else(missing)?.trim().trim_matches('"').to_owned();
    let text = text(&call).await?;
    if api.monitor(Monitor::config).await?.sha256 != expected {
        return Err(Problem::precondition("the configuration is another one now", hint));
    }
    let confirm = changes::confirm_within(&call);
    let change = Change::Configure { expected, dry_run: false, confirm };
    let report = send(&api, &call, change, text.into_bytes(), call.flag("confirmed")).await?;
    changes::answer(&api, &call, report).await
}

/// Requests a change in the name of the client, with a content in sealed memory.
pub(crate) async fn send(
    api: &Arc<Api>,
    call: &Call,
    change: Change,
    content: Vec<u8>,
    confirmed: bool,
) -> Result<ChangeReport, Problem> {
    let who = call.principal.who.clone();
    let request = ChangeRequest { change, confirmed };
    let report = api
        .wait(move |api| -> Result<ChangeReport, Problem> {
            let memory = sealed("configuration", &content)?;
            let fds = [memory.as_fd()];
            Ok(api.ask_monitor(|monitor| monitor.change_with(&who, request, &fds))?)
        })
        .await;
    report.map_err(|problem| match problem.status() {
        // The monitor makes one change at a time.
        StatusCode::SERVICE_UNAVAILABLE => problem.into_conflict(),
        _ => problem,
    })
}

/// Copies bytes into memory that nobody can change.
pub(crate) fn sealed(name: &str, bytes: &[u8]) -> Result<std::os::fd::OwnedFd, Problem> {
    sys::shm::sealed_copy(name, bytes).map_err(|error| {
        Problem::unavailable(format!("there is no memory for the body: {error}"), "try again later")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_mistakes_of_a_text_are_reported() {
        let text = "[controller]\nworkers = \"two\"\nlistn = 1\n[zones]\nrequire = \"some\"\n";
        let checked = checked("/r.toml".into(), text.into(), "");
        let places = checked.mistakes.iter().map(|mistake| mistake.what.split(' ').next());
        let places: Vec<_> = places.flatten().collect();
        assert!(!checked.valid);
        assert_eq!(places, ["/r.toml:2:11:", "/r.toml:3:1:", "/r.toml:5:11:"]);
    }

    #[test]
    fn text_without_mistakes_is_valid() {
        let text = "[controller]\nworkers = 2\n";
        let checked = checked("/r.toml".into(), text.into(), text);
        assert!(checked.valid && checked.mistakes.is_empty() && checked.reserved.is_empty());
    }
}
