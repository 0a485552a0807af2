//! The history of figures.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use control::history::SeriesName;
use view::client::{ClientError, Monitor};
use view::history::{Series, SeriesLine};

use crate::call::Call;
use crate::problem::Problem;
use crate::reply;
use crate::route::{Answer, Content, Form, Param, Route};
use crate::state::Api;

/// The most points of an answer.
const MOST_POINTS: u64 = 2_000;

/// The time before `to` at which an answer begins, if the client does not say, in seconds.
const SECONDS: u64 = 3_600;

/// The points of an answer, if the client does not say.
const POINTS: u64 = 240;

/// The latest time, in seconds since 1970.
const LATEST: u64 = 1 << 40;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/v1/history", "history", series)
            .about("Lists the series of the history, in the order of their names")
            .query(&[Param::new(
                "subject",
                Form::Text,
                "Only series of this subject, such as `network` or `switch 00:00:00:00:00:00:00:01`",
            )])
            .list("HistorySeries")
            .problems(&[503, 504]),
        Route::get("/api/v1/history/points", "historyPoints", points)
            .about("Reads a series in a span of time. Times without samples have no point")
            .query(&[
                Param::required(
                    "series",
                    Form::Text,
                    "The name of the series, such as `network hosts`; GET /api/v1/history lists them",
                ),
                Param::new(
                    "from",
                    Form::Number(0, LATEST),
                    "The first second, since 1970; an hour before `to` without it",
                ),
                Param::new(
                    "to",
                    Form::Number(0, LATEST),
                    "The second after the last one; now without it",
                ),
                Param::new(
                    "step",
                    Form::Number(1, LATEST),
                    "Seconds of a point. The answer has longer ones if there would be more than 2000 points, or if the history has only \
                     minutes or hours of that time",
                ),
            ])
            .answer(200, Content::Json("History"), "The series")
            .problems(&[404, 503, 504]),
    ]
}

async fn series(api: Arc<Api>, call: Call) -> Answer {
    let names = api
        .wait(|api| -> Result<_, ClientError> { api.ask_monitor(Monitor::history)?.series() })
        .await?;
    let mut lines: Vec<SeriesLine> = names.iter().map(SeriesLine::from).collect();
    if let Some(subject) = call.query("subject") {
        lines.retain(|it| it.subject == subject);
    }
    reply::list(&call, &lines)
}

async fn points(api: Arc<Api>, call: Call) -> Answer {
    let text = call.query("series").unwrap_or_default();
    let hint = "GET /api/v1/history lists the series";
    let missing = || Problem::not_found(format!("there is no history of {text:?}"), hint);
    let name: SeriesName = text.parse().map_err(|_| missing())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let to = call.query_number("to").unwrap_or(now + 1); // the present second is not over yet
    let from = call.query_number("from").unwrap_or(to.saturating_sub(SECONDS));
    if from >= to {
        let why = "the time ends before it begins";
        return Err(Problem::invalid(why, "give `from` a time before `to`"));
    }
    let step = call.query_number("step").unwrap_or_else(|| ((to - from) / POINTS).max(1));
    let read = api
        .wait(move |api| -> Result<_, ClientError> {
            let history = api.ask_monitor(Monitor::history)?;
            Series::read(&history, &name, (from, to), (step, MOST_POINTS))
        })
        .await?;
    reply::json(&call, &read.ok_or_else(missing)?)
}
