//! The flows of a switch.

use std::sync::Arc;

use crate::api::switches::not_connected;
use crate::call::Call;
use crate::reply;
use crate::route::{Answer, Form, Param, Route};
use crate::state::Api;

pub(crate) fn routes() -> Vec<Route> {
    let filter = [
        Param::new("owner", Form::Text, "Only flows of this app, of `kernel` or of `other`"),
        Param::new("table", Form::Number(0, 255), "Only flows of this table"),
        Param::new("match", Form::Text, "Only flows whose match contains this text"),
    ];
    vec![
        Route::get("/api/v1/switches/{dpid}/flows", "flows", list)
            .about("Lists the flows of a switch and their owners, in the order of the switch")
            .query(&filter)
            .list("Flow")
            .problems(&[503, 504]),
    ]
}

async fn list(api: Arc<Api>, call: Call) -> Answer {
    let dpid = call.dpid()?;
    let flows = api.kernel(move |kernel| kernel.flows(dpid.0)).await?;
    let mut flows = flows.ok_or_else(|| not_connected(dpid))?;
    if let Some(owner) = call.query("owner") {
        flows.retain(|it| it.owner == owner);
    }
    if let Some(table) = call.query_number("table") {
        flows.retain(|it| u64::from(it.table) == table);
    }
    if let Some(part) = call.query("match") {
        flows.retain(|it| it.match_.contains(part));
    }
    reply::list(&call, &flows)
}
