//! Switches, their ports and tables.

use std::sync::Arc;

use control::details::{PortDetails, SwitchDescription, TableStatus};
use control::query::SwitchStatus;
use openflow::Dpid;
use serde::Serialize;
use view::client::Kernel;

use crate::call::{Call, parse_dpid};
use crate::problem::Problem;
use crate::reply;
use crate::route::{Answer, Form, Param, Route};
use crate::state::Api;

/// As `rosemary switches SWITCH --json`.
#[derive(Debug, Serialize)]
struct FullSwitch {
    #[serde(flatten)]
    status: SwitchStatus,
    description: Option<SwitchDescription>,
    tables: Option<Vec<TableStatus>>,
    port_list: Option<Vec<PortDetails>>,
}

/// As an element of `rosemary ports --json`.
#[derive(Debug, Serialize)]
struct Port {
    dpid: String,
    #[serde(flatten)]
    port: PortDetails,
}

pub(crate) fn routes() -> Vec<Route> {
    let filter = [
        Param::new(
            "version",
            Form::Choice(openflow::Version::NAMES),
            "Only switches that speak this version of OpenFlow",
        ),
        Param::new(
            "transport",
            Form::Choice(&["tcp", "tls"]),
            "Only switches that are connected in this way",
        ),
    ];
    vec![
        Route::get("/api/v1/switches", "switches", list)
            .about("Lists the connected switches, by their datapath ids")
            .query(&filter)
            .list("Switch")
            .problems(&[503]),
        Route::get("/api/v1/switches/{dpid}", "switch", one)
            .about("Describes a switch, its tables and its ports")
            .json("FullSwitch")
            .problems(&[503]),
        Route::get("/api/v1/switches/{dpid}/ports", "portsOfSwitch", ports_of)
            .about("Lists the ports of a switch")
            .list("Port")
            .problems(&[503, 504]),
        Route::get("/api/v1/switches/{dpid}/tables", "tables", tables)
            .about("Lists the flow tables of a switch")
            .list("Table")
            .problems(&[503, 504]),
        Route::get("/api/v1/ports", "ports", ports)
            .about("Lists the ports of all switches that answer, or of one")
            .query(&[
                Param::new("dpid", Form::Dpid, "Only ports of this switch"),
                Param::new("up", Form::Flag, "Only ports that are up, or only ports that are down"),
            ])
            .list("Port")
            .problems(&[503]),
    ]
}

async fn list(api: Arc<Api>, call: Call) -> Answer {
    let mut switches = api.kernel(Kernel::switches).await?;
    if let Some(version) = call.query("version") {
        switches.retain(|it| it.version == version);
    }
    if let Some(transport) = call.query("transport") {
        switches.retain(|it| it.transport.split(' ').next() == Some(transport));
    }
    reply::list(&call, &switches)
}

async fn one(api: Arc<Api>, call: Call) -> Answer {
    let dpid = call.dpid()?;
    let status = status_of(&api, dpid).await?;
    let full = api
        .kernel(move |kernel| {
            Ok(FullSwitch {
                status: status.clone(),
                // A switch need not answer all questions.
                description: kernel.description(dpid.0).ok().flatten(),
                tables: kernel.tables(dpid.0).ok().flatten(),
                port_list: kernel.ports(dpid.0).ok().flatten(),
            })
        })
        .await?;
    reply::json(&call, &full)
}

/// The status of a connected switch.
pub(crate) async fn status_of(api: &Arc<Api>, dpid: Dpid) -> Result<SwitchStatus, Problem> {
    let text = dpid.to_string();
    let switches = api.kernel(Kernel::switches).await?;
    switches.into_iter().find(|it| it.dpid == text).ok_or_else(|| not_connected(dpid))
}

/// The problem of a switch that is not connected.
pub(crate) fn not_connected(dpid: Dpid) -> Problem {
    Problem::not_found(
        format!("switch {dpid} is not connected"),
        "GET /api/v1/switches lists the connected switches",
    )
}

async fn ports_of(api: Arc<Api>, call: Call) -> Answer {
    let dpid = call.dpid()?;
    let ports = api.kernel(move |kernel| kernel.ports(dpid.0)).await?;
    let ports = ports.ok_or_else(|| not_connected(dpid))?;
    reply::list(&call, &named(dpid, ports).collect::<Vec<_>>())
}

fn named(dpid: Dpid, ports: Vec<PortDetails>) -> impl Iterator<Item = Port> {
    ports.into_iter().map(move |port| Port { dpid: dpid.to_string(), port })
}

async fn tables(api: Arc<Api>, call: Call) -> Answer {
    let dpid = call.dpid()?;
    let tables = api.kernel(move |kernel| kernel.tables(dpid.0)).await?;
    reply::list(&call, &tables.ok_or_else(|| not_connected(dpid))?)
}

async fn ports(api: Arc<Api>, call: Call) -> Answer {
    let dpids = if let Some(dpid) = call.query_dpid("dpid") {
        vec![dpid]
    } else {
        let switches = api.kernel(Kernel::switches).await?;
        let dpids = switches.iter().map(|it| parse_dpid(&it.dpid));
        dpids.collect::<Result<Vec<_>, _>>()?
    };
    let mut all = Vec::new();
    for dpid in dpids {
        // A switch that does not answer must not hide the others.
        if let Ok(Some(ports)) = api.kernel(move |kernel| kernel.ports(dpid.0)).await {
            all.extend(named(dpid, ports));
        }
    }
    if let Some(up) = call.query("up") {
        all.retain(|it| it.port.up == (up == "true"));
    }
    reply::list(&call, &all)
}
