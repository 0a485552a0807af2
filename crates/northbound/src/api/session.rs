//! Says who the client is, and exchanges a one-time token for a session.

use std::sync::Arc;

use axum::http::StatusCode;
use control::northbound::Role;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::auth::session::{LIFETIME_S, Session};
use crate::auth::tokens;
use crate::call::Call;
use crate::guard::now_s;
use crate::problem::Problem;
use crate::reply;
use crate::route::{Answer, Content, Route, Verb};
use crate::state::Api;

/// Who the client is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Who {
    /// The user.
    user: String,
    /// The role; null for a client that may do nothing.
    #[schema(value_type = Option<String>)]
    role: Option<Role>,
    /// How the user is known: `token`, `session`, `certificate`, `unix`, `loopback` or `nobody`.
    how: String,
    /// The version of Rosemary.
    version: String,
}

/// A request for a session.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    /// The token that `rosemary ui` printed.
    #[schema(max_length = 512)]
    one_time_token: String,
}

/// A new session.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NewSession {
    /// Its token, for `Authorization: Bearer`.
    token: String,
    /// Its role.
    #[schema(value_type = String)]
    role: Role,
    /// How long it lasts.
    expires_seconds: u64,
}

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/v1/session", "whoAmI", who)
            .anyone()
            .about("Says who the client is, and which role it has")
            .json("Who"),
        Route::new(Verb::Post, "/api/v1/session", "beginSession", begin)
            .anyone()
            .about("Exchanges the token that `rosemary ui` printed for a session")
            .json_body("Login", true)
            .answer(201, Content::Json("NewSession"), "The session")
            .problems(&[401]),
        Route::new(Verb::Delete, "/api/v1/session", "endSession", end)
            .anyone()
            .about("Ends the session whose token the request has")
            .answer(204, Content::Empty, "The session ended, or there was none"),
    ]
}

async fn who(_api: Arc<Api>, call: Call) -> Answer {
    let principal = &call.principal;
    let who = Who {
        user: principal.who.clone(),
        role: principal.role,
        how: principal.how.name().into(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    reply::json(&call, &who)
}

async fn begin(api: Arc<Api>, call: Call) -> Answer {
    let login: Login = call.json().await?;
    let credentials = api.credentials();
    let token = tokens::find(&credentials, &login.one_time_token, now_s(), true);
    let unknown = || {
        Problem::unauthorized(
            "the one-time token is unknown, expired or used",
            "type `rosemary ui` again, and open the address that it prints within a minute",
        )
    };
    let record = token.ok_or_else(unknown)?;
    if !api.use_once(&record.id) {
        return Err(unknown());
    }
    api.report_used(&record.id).await;
    let session =
        Session { id: record.id.clone(), role: record.role, expires: now_s() + LIFETIME_S };
    let failed = || Problem::unavailable("there is no key for sessions", "restart Rosemary");
    let token = session.token(&credentials.session_key).ok_or_else(failed)?;
    let new = NewSession { token, role: session.role, expires_seconds: LIFETIME_S };
    reply::done(StatusCode::CREATED, &new)
}

async fn end(api: Arc<Api>, call: Call) -> Answer {
    if let Some(id) = &call.principal.session {
        api.end_session(id, now_s());
    }
    Ok(reply::empty())
}
