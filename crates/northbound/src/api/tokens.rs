//! Tokens: lists and revokes them. Only `rosemary token create` makes one, so that no secret passes a network.

use std::sync::Arc;

use control::northbound::{Role, TokenRecord};
use serde::Serialize;
use utoipa::ToSchema;
use view::client::Monitor;

use crate::call::Call;
use crate::problem::Problem;
use crate::reply;
use crate::route::{Answer, Content, Route, Verb};
use crate::state::Api;

/// A token, without its secret and its hash.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Token {
    /// Its identifier.
    id: String,
    /// Its name.
    name: String,
    /// Its role.
    #[schema(value_type = String)]
    role: Role,
    /// When it was made, in seconds since 1970.
    created: u64,
    /// When it ends, in seconds since 1970; null for never.
    expires: Option<u64>,
}

impl From<TokenRecord> for Token {
    fn from(record: TokenRecord) -> Self {
        let TokenRecord { id, name, role, created, expires, .. } = record;
        Self { id, name, role, created, expires }
    }
}

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/v1/tokens", "tokens", list)
            .role(Role::Admin)
            .about("Lists the valid tokens, without their secrets")
            .list("Token"),
        Route::new(Verb::Delete, "/api/v1/tokens/{name}", "revokeToken", revoke)
            .about("Revokes a token, by its identifier or its name; it is invalid at once")
            .answer(204, Content::Empty, "The token is revoked")
            .problems(&[503]),
    ]
}

async fn list(api: Arc<Api>, call: Call) -> Answer {
    let tokens: Vec<Token> =
        api.monitor(Monitor::tokens).await?.into_iter().map(Token::from).collect();
    reply::list(&call, &tokens)
}

async fn revoke(api: Arc<Api>, call: Call) -> Answer {
    let (which, who) = (call.path("name").to_owned(), call.principal.who.clone());
    let revoked = api.monitor(move |monitor| monitor.revoke_token(&which, Some(&who))).await?;
    if revoked == 0 {
        let hint = "GET /api/v1/tokens lists the tokens";
        return Err(Problem::not_found("there is no such token", hint));
    }
    Ok(reply::empty())
}
