//! The log of all programs, and of one app.

use std::sync::Arc;

use control::log::{LogFilter, LogLevel, LogLine};
use serde::Serialize;
use view::client::{ClientError, Monitor};

use super::apps;
use crate::call::Call;
use crate::reply;
use crate::route::{Answer, Content, Form, Param, Route};
use crate::state::Api;

/// The most lines of an answer.
const MOST_LINES: u64 = 1_000;

/// The lines of an answer, if the client does not say.
const LINES: u64 = 100;

/// The most parts of the log that are read for one answer.
const MOST_READS: usize = 64;

/// A part of the log.
#[derive(Debug, Serialize)]
struct Page {
    items: Vec<LogLine>,
    /// The number at which the next page starts.
    next: u64,
    /// Whether no further lines exist now.
    end: bool,
}

const QUERY: [Param; 4] = [
    Param::new(
        "level",
        Form::Choice(&["error", "warn", "info", "debug"]),
        "Only lines at least as severe as this",
    ),
    Param::new("contains", Form::Text, "Only lines that contain this text"),
    Param::new("limit", Form::Number(1, MOST_LINES), "Most lines of the answer; 100 without it"),
    Param::new(
        "after",
        Form::Number(0, u64::MAX),
        "The `next` of the page before; the newest lines without it",
    ),
];

pub(crate) fn routes() -> Vec<Route> {
    let about = "Lists lines of the log, the oldest first";
    vec![
        Route::get("/api/v1/logs", "logs", all)
            .about(about)
            .query(&[Param::new(
                "program",
                Form::Text,
                "Only lines of this program, such as `kernel` or `app firewall`",
            )])
            .query(&QUERY)
            .answer(200, Content::Json("Logs"), "A part of the log")
            .problems(&[503, 504]),
        Route::get("/api/v1/apps/{name}/logs", "logsOfApp", of_app)
            .about("Lists lines of an app's log, the oldest first")
            .query(&QUERY)
            .answer(200, Content::Json("Logs"), "A part of the log")
            .problems(&[503, 504]),
    ]
}

async fn all(api: Arc<Api>, call: Call) -> Answer {
    let programs = call.query("program").map(str::to_owned).into_iter().collect();
    read(&api, &call, programs).await
}

async fn of_app(api: Arc<Api>, call: Call) -> Answer {
    let name = call.path("name");
    apps::must_exist(&api, name).await?;
    read(&api, &call, vec![format!("app {name}")]).await
}

async fn read(api: &Arc<Api>, call: &Call, programs: Vec<String>) -> Answer {
    let level = match call.query("level") {
        None | Some("debug") => LogLevel::Debug,
        Some("info") => LogLevel::Info,
        Some("warn") => LogLevel::Warn,
        Some(_) => LogLevel::Error,
    };
    let filter = LogFilter { programs, since: 0, level };
    let (limit, after) = (call.query_number("limit").unwrap_or(LINES), call.query_number("after"));
    let part = call.query("contains").map(str::to_owned);
    let page = api
        .wait(move |api| -> Result<Page, ClientError> {
            let log = api.ask_monitor(Monitor::log)?;
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let mut next = match after {
                Some(after) => after,
                None => log.last(u32::try_from(limit).unwrap_or(u32::MAX), &filter)?,
            };
            let mut page = Page { items: Vec::new(), next, end: false };
            for _ in 0..MOST_READS {
                let read = log.read(next, &filter)?;
                for line in read.lines {
                    if page.items.len() == limit {
                        return Ok(page);
                    }
                    page.next = line.number + 1;
                    if part.as_ref().is_none_or(|part| line.text.contains(part.as_str())) {
                        page.items.push(line);
                    }
                }
                (next, page.next, page.end) = (read.next, read.next, read.end);
                if page.end || page.items.len() == limit {
                    break;
                }
            }
            Ok(page)
        })
        .await?;
    reply::json(call, &page)
}
