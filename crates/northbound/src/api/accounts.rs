//! Accounts: the resources that apps and Rosemary's programs have used.

use std::sync::Arc;

use crate::call::Call;
use crate::reply;
use crate::route::{Answer, Form, Param, Route};
use crate::state::Api;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/v1/accounts", "accounts", accounts)
            .about("Reports the resources that each member of a session has used")
            .query(&[Param::new(
                "since",
                Form::Number(0, u64::MAX),
                "Only use since the hour of this time, in seconds since 1970",
            )])
            .json("Accounts"),
    ]
}

async fn accounts(api: Arc<Api>, call: Call) -> Answer {
    let since = call.query_number("since").unwrap_or(0);
    let accounts = api.monitor(move |monitor| monitor.accounts(since)).await?;
    reply::json(&call, &accounts)
}
