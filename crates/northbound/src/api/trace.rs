//! Follows a packet through the network.

use std::sync::Arc;

use sdk::services::Service;
use sdk::services::table::Table as _;
use sdk::topology::Graph;
use view::client::Monitor;
use view::trace::{Packet, TraceError};

use crate::api::switches::not_connected;
use crate::call::{Call, parse_dpid};
use crate::problem::Problem;
use crate::reply;
use crate::route::{Answer, Form, Param, Route};
use crate::state::Api;

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/v1/trace", "trace", trace)
            .about("Finds the entries that a packet takes across the network, and their owners; no packet is sent")
            .query(&[
                Param::required("dpid", Form::Dpid, "The switch that the packet enters"),
                Param::required("packet", Form::Text, "The packet as key=value text, or the hexadecimal digits of a frame"),
                Param::new("in_port", Form::Text, "The port that it comes in through: its number, or LOCAL for the switch itself"),
            ])
            .json("Trace")
            .problems(&[404, 503, 504]),
    ]
}

async fn trace(api: Arc<Api>, call: Call) -> Answer {
    let dpid = parse_dpid(call.query("dpid").unwrap_or_default())?;
    let hint = "write it as in `in_port=1,dl_src=02:00:00:00:00:01,icmp,nw_dst=10.0.0.2`";
    let in_port = call.query("in_port").filter(|it| !it.is_empty()).map(str::parse).transpose();
    let in_port =
        in_port.map_err(|why: String| Problem::invalid(format!("in_port: {why}"), hint))?;
    let packet = Packet::read(call.query("packet").unwrap_or_default(), in_port);
    let packet = packet.map_err(|why| Problem::invalid(why, hint))?;
    let way = api
        .wait(move |api| {
            let graph = api.ask_service(Service::Topology, |table| {
                Ok(Graph::of(table.records().map(|(_, record)| record)))
            });
            let kernel = api.ask_monitor(Monitor::kernel)?;
            let switches = kernel.switches()?;
            if !switches.iter().any(|it| it.dpid == dpid.to_string()) {
                return Ok(None);
            }
            view::trace::trace(dpid, &packet, kernel, switches, graph.ok()).map(Some)
        })
        .await?;
    reply::json(&call, &way.ok_or_else(|| not_connected(dpid))?)
}

impl From<TraceError> for Problem {
    fn from(error: TraceError) -> Self {
        match error {
            TraceError::Client(error) => error.into(),
            TraceError::Failed(why) => Self::timeout(why, "try again once the switch answers"),
        }
    }
}
