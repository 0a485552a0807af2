//! The flows, groups and meters of a switch.

use std::sync::Arc;

use openflow::{Dpid, Version};
use serde::Serialize;
use view::client::{ClientError, Kernel};

use crate::api::switches::{not_connected, status_of};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply;
use crate::route::{Answer, Form, Param, Route};
use crate::state::Api;

pub(crate) fn routes() -> Vec<Route> {
    let filter = [
        Param::new("owner", Form::Text, "Only flows of this app, of `kernel` or of `other`"),
        Param::new("table", Form::Number(0, 255), "Only flows of this table"),
        Param::new("match", Form::Text, "Only flows whose match contains this text"),
    ];
    let owner = [Param::new("owner", Form::Text, "Only entries of this app or of `other`")];
    vec![
        Route::get("/api/v1/switches/{dpid}/flows", "flows", list)
            .about("Lists the flows of a switch and their owners, in the order of the switch")
            .query(&filter)
            .list("Flow")
            .problems(&[503, 504]),
        Route::get("/api/v1/switches/{dpid}/groups", "groups", groups)
            .about("Lists the groups of a switch and their owners")
            .query(&owner)
            .list("Group")
            .problems(&[409, 503, 504]),
        Route::get("/api/v1/switches/{dpid}/meters", "meters", meters)
            .about("Lists the meters of a switch and their owners")
            .query(&owner)
            .list("Meter")
            .problems(&[409, 503, 504]),
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

/// Checks that the OpenFlow version of a switch has groups and meters.
async fn must_have_groups(api: &Arc<Api>, dpid: Dpid) -> Result<(), Problem> {
    let version = status_of(api, dpid).await?.version.parse().unwrap_or(Version::PREFERRED);
    if version.features().groups && version.features().meters {
        return Ok(());
    }
    let detail =
        format!("switch {dpid} speaks OpenFlow {version}, which has neither groups nor meters");
    let help = format!("let the switch speak OpenFlow {}", Version::PREFERRED);
    Err(Problem::conflict(detail, help))
}

async fn groups(api: Arc<Api>, call: Call) -> Answer {
    entries(&api, &call, Kernel::groups, |it| &it.owner).await
}

async fn meters(api: Arc<Api>, call: Call) -> Answer {
    entries(&api, &call, Kernel::meters, |it| &it.owner).await
}

/// Reads the groups or the meters of a switch; `None` if it is not connected.
type Read<T> = fn(&Kernel, u64) -> Result<Option<Vec<T>>, ClientError>;

/// Lists the groups or the meters of a switch, as `read` returns them.
async fn entries<T: Serialize + Send + 'static>(
    api: &Arc<Api>,
    call: &Call,
    read: Read<T>,
    owner_of: fn(&T) -> &str,
) -> Answer {
    let dpid = call.dpid()?;
    must_have_groups(api, dpid).await?;
    let entries = api.kernel(move |kernel| read(kernel, dpid.0)).await?;
    let mut entries = entries.ok_or_else(|| not_connected(dpid))?;
    if let Some(owner) = call.query("owner") {
        entries.retain(|it| owner_of(it) == owner);
    }
    reply::list(call, &entries)
}
