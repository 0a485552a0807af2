//! Links, paths, hosts and counters, which services know that apps provide.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use openflow::{Dpid, PortNo};
use sdk::services::layout::records;
use sdk::services::stats::{self, History, HistoryRequest};
use sdk::services::topology::{Request, decode_answer};
use sdk::services::user::for_user;
use sdk::services::{Service, table::Table as _};
use sdk::topology::Graph;
use serde::Serialize;
use utoipa::ToSchema;
use view::carriers::{CARRIED, Carrier, carriers};
use view::client::{ClientError, Provided};
use view::drain::{BETWEEN, Verdict, Watch, link_ports};
use view::hosts::{AtSwitch, HostName};
use view::topology::{Attachment, Link, PathEnd, PathLine};

use crate::call::Call;
use crate::problem::Problem;
use crate::reply;
use crate::route::{Answer, Form, Param, Route, Verb};
use crate::state::Api;
use axum::http::StatusCode;
use control::northbound::Role;

/// The most paths of an answer.
const MOST_PATHS: u64 = 64;

/// The result of a drain.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_field_names, reason = "the topology calls it so, too")]
pub(crate) struct Drained {
    /// The switch.
    dpid: String,
    /// Whether traffic is to be kept away from it.
    drained: bool,
    /// Whether its own counters show, after at most six seconds, that no packet of others passes it; null if it is not to be drained,
    /// is not connected, or its counters cannot be read.
    empty: Option<bool>,
    /// Whether it is connected. If not, the drain begins when it connects.
    connected: bool,
    /// Why it carries traffic although it is drained, as phrases that say what to do; empty if it need not carry any.
    remaining: Vec<String>,
}

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("/api/v1/topology", "topology", topology)
            .about("Describes the switches, their ports, and the links between them")
            .json("Topology")
            .problems(&[503]),
        Route::get("/api/v1/links", "links", links)
            .about("Lists the links between switches, each direction by itself")
            .list("Link")
            .problems(&[503]),
        Route::get("/api/v1/links/down", "links_down", links_down)
            .about("Lists the links that were there and are down, each direction by itself, with the reason")
            .list("LinkDown")
            .problems(&[503]),
        Route::get("/api/v1/paths", "paths", paths)
            .about("Lists the best paths between two places of the network")
            .query(&[
                Param::required(
                    "from",
                    Form::Text,
                    "The datapath id of a switch, or the address of a host",
                ),
                Param::required("to", Form::Text, "The same for the end"),
                Param::new("count", Form::Number(1, MOST_PATHS), "Most paths; 1 without it"),
                Param::new("disjoint", Form::Flag, "Whether the paths must have no link in common"),
            ])
            .list("Path")
            .problems(&[404, 503]),
        Route::get("/api/v1/hosts", "hosts", hosts)
            .about("Lists the hosts, where they are, and their addresses")
            .query(&[
                Param::new("dpid", Form::Dpid, "Only hosts at this switch"),
                Param::new("address", Form::Text, "Only the host with this Ethernet or IP address"),
            ])
            .list("Host")
            .problems(&[503]),
        Route::get("/api/v1/stats", "stats", stats)
            .about("Reports counters and rates of ports, tables, groups and meters")
            .query(&[Param::new("dpid", Form::Dpid, "Only those of this switch")])
            .json("Stats")
            .problems(&[503]),
        Route::get("/api/v1/stats/{dpid}/ports/{port}/history", "history", history)
            .about("Lists the rates of a port over the last minutes")
            .list("Sample")
            .problems(&[503]),
        Route::new(Verb::Post, "/api/v1/switches/{dpid}/drain", "drain", drain)
            .role(Role::Operator)
            .about("Keeps traffic away from a switch, except that of its own hosts")
            .json("Drained")
            .problems(&[409, 503]),
        Route::new(Verb::Post, "/api/v1/switches/{dpid}/undrain", "undrain", undrain)
            .role(Role::Operator)
            .about("Ends the drain of a switch")
            .json("Drained")
            .problems(&[409, 503]),
    ]
}

/// Runs `read` with the topology, which stays on one thread.
async fn with_graph<T: Send + 'static>(
    api: &Arc<Api>,
    read: impl FnOnce(&Graph) -> T + Send + 'static,
) -> Result<T, Problem> {
    api.service(Service::Topology, |table| Ok(read(&graph(table)))).await
}

fn graph(table: &Provided) -> Graph {
    Graph::of(table.records().map(|(_, record)| record))
}

async fn topology(api: Arc<Api>, call: Call) -> Answer {
    let topology = api.wait(|api| -> Result<_, ClientError> {
        let hosts = hosts_by_switch(api);
        api.ask_service(Service::Topology, |table| {
            Ok(view::topology::topology(&graph(table), hosts.as_ref(), sys::clock::now_ns()))
        })
    });
    reply::json(&call, &topology.await?)
}

/// Returns the hosts at each switch; `None` if the service `hosts` does not run.
fn hosts_by_switch(api: &Api) -> Option<BTreeMap<Dpid, AtSwitch>> {
    api.ask_service(Service::Hosts, |table| Ok(view::hosts::by_switch(table))).ok()
}

async fn links(api: Arc<Api>, call: Call) -> Answer {
    let links = with_graph(&api, |graph| -> Vec<Link> {
        let all = view::topology::directions(graph);
        all.iter().map(|it| Link::of(it, graph)).collect()
    });
    reply::list(&call, &links.await?)
}

async fn links_down(api: Arc<Api>, call: Call) -> Answer {
    let now_ns = sys::clock::now_ns();
    let links = with_graph(&api, move |graph| view::topology::links_down(graph, now_ns));
    reply::list(&call, &links.await?)
}

async fn paths(api: Arc<Api>, call: Call) -> Answer {
    let hint = "name a connected switch, or a host that GET /api/v1/hosts lists";
    let end = |name| call.query(name).unwrap_or_default().parse::<PathEnd>();
    let end = |name| end(name).map_err(|why| Problem::invalid(why, hint));
    let ends = [end("from")?, end("to")?];
    let count = call.query_number("count").and_then(|it| usize::try_from(it).ok()).unwrap_or(1);
    let disjoint = call.flag("disjoint");
    let paths = api.wait(move |api| -> Result<Vec<PathLine>, Problem> {
        let place = |end| match end {
            PathEnd::Switch(dpid) => Ok(Attachment::Switch(dpid)),
            PathEnd::Host(name) => {
                let found = api.ask_service(Service::Hosts, |table| {
                    Ok(view::topology::host_at(name, table))
                })?;
                found.map(Attachment::Host).map_err(|why| Problem::not_found(why, hint))
            }
        };
        let ends = [place(ends[0])?, place(ends[1])?];
        api.ask_service(Service::Topology, |table| {
            let graph = graph(table);
            let switches = ends.map(Attachment::dpid);
            if let Some(absent) = switches.into_iter().find(|it| graph.switch(*it).is_none()) {
                let detail = format!("switch {absent} is not connected");
                return Ok(Err(Problem::not_found(detail, hint)));
            }
            let paths = view::topology::paths(&graph, ends, count, disjoint);
            Ok(Ok(paths.iter().map(PathLine::from).collect()))
        })?
    });
    reply::list(&call, &paths.await?)
}

async fn hosts(api: Arc<Api>, call: Call) -> Answer {
    let address = call.query("address").map(HostName::parse).transpose();
    let address = address.map_err(|why| Problem::invalid(why, "write one address"))?;
    let now_s = sys::clock::now_ns() / 1_000_000_000;
    let mut hosts =
        api.service(Service::Hosts, move |table| Ok(view::hosts::lines(table, now_s))).await?;
    if let Some(dpid) = call.query_dpid("dpid") {
        let dpid = dpid.to_string();
        hosts.retain(|it| it.dpid == dpid);
    }
    if let Some(address) = address {
        hosts.retain(|it| it.is(address));
    }
    reply::list(&call, &hosts)
}

async fn stats(api: Arc<Api>, call: Call) -> Answer {
    let only = call.query_dpid("dpid");
    let now_ms = sys::clock::now_ns() / 1_000_000;
    let report = api
        .service(Service::Stats, move |table| {
            let all = records(table).filter_map(|slot| stats::Record::of_slot(&slot));
            Ok(view::stats::report(all.collect(), only, now_ms))
        })
        .await?;
    reply::json(&call, &report)
}

async fn history(api: Arc<Api>, call: Call) -> Answer {
    let (dpid, port) = (call.dpid()?, PortNo(call.number("port")?));
    let answer = api
        .service(Service::Stats, move |service| {
            service.request(&HistoryRequest { dpid, port }.encode())
        })
        .await?;
    let samples = match History::decode(&answer) {
        Some(History::Samples(samples)) => samples,
        Some(History::Unknown) => {
            let detail = format!("there are no figures of port {port} of {dpid}");
            return Err(Problem::not_found(detail, "GET /api/v1/stats lists the ports"));
        }
        Some(History::Malformed) | None => {
            return Err(ClientError::Unexpected { peer: "the service stats" }.into());
        }
    };
    let now_s = sys::clock::now_ns() / 1_000_000_000;
    let lines: Vec<_> = samples.iter().map(|it| view::stats::sample(it, now_s)).collect();
    reply::list(&call, &lines)
}

async fn drain(api: Arc<Api>, call: Call) -> Answer {
    set_drain(api, call, true).await
}

async fn undrain(api: Arc<Api>, call: Call) -> Answer {
    set_drain(api, call, false).await
}

async fn set_drain(api: Arc<Api>, call: Call, on: bool) -> Answer {
    let dpid = call.dpid()?;
    let request = for_user(&call.principal.who, &Request::Drain { dpid, on }.encode());
    let done = api.wait(move |api| -> Result<_, ClientError> {
        api.ask_service(Service::Topology, |service| {
            let answer = service.request(&request)?;
            let graph = graph(service);
            Ok((answer, graph.switch(dpid).is_some(), link_ports(dpid, &graph)))
        })
    });
    let (answer, connected, links) = done.await?;
    match decode_answer(&answer) {
        Some(Ok(())) => {}
        Some(Err(refused)) => {
            let hint = "see `rosemary logs app topology`";
            return Err(Problem::conflict(refused.to_string(), hint));
        }
        None => return Err(ClientError::Unexpected { peer: "the topology service" }.into()),
    }
    let (mut empty, mut remaining) = (None, Vec::new());
    if on && connected {
        match watch(&api, dpid, links.clone()).await {
            Ok(Verdict::Empty) => empty = Some(true),
            Ok(Verdict::Passing(passing)) => {
                empty = Some(false);
                let phrase = passing.phrase();
                remaining.push(format!("{phrase}; drain it again to compare the counters again"));
                remaining.extend(carrying(&api, dpid, &links).await.iter().map(Carrier::phrase));
            }
            Err(why) => {
                remaining.push(format!("whether traffic of others passes it is not known: {why}"));
            }
        }
        let reasons = api.wait(move |api| -> Result<_, ClientError> {
            let hosts = hosts_by_switch(api);
            api.ask_service(Service::Topology, |service| {
                Ok(view::topology::remaining(dpid, &graph(service), hosts.as_ref()))
            })
        });
        remaining.extend(reasons.await?);
    }
    let drained = Drained { dpid: dpid.to_string(), drained: on, empty, connected, remaining };
    reply::done(StatusCode::OK, &drained)
}

/// Returns the flows that carry traffic of others; none if they cannot be read.
async fn carrying(api: &Arc<Api>, dpid: Dpid, links: &[String]) -> Vec<Carrier> {
    let read =
        || async move { api.kernel(move |kernel| kernel.flows(dpid.0)).await.ok().flatten() };
    let Some(before) = read().await else { return Vec::new() };
    tokio::time::sleep(CARRIED).await;
    let after = read().await.unwrap_or_default();
    carriers(&before, &after, CARRIED.as_secs_f64(), links)
}

/// Reads the counters of a switch until they show whether traffic of others passes it.
///
/// # Errors
/// A phrase: they cannot be read.
async fn watch(api: &Arc<Api>, dpid: Dpid, links: Vec<String>) -> Result<Verdict, String> {
    let read = || async move {
        let ports = api.kernel(move |kernel| kernel.ports(dpid.0)).await;
        let ports = ports.map_err(|problem| problem.detail().to_owned())?;
        Ok::<_, String>((Instant::now(), ports.ok_or("it has disconnected")?))
    };
    let (now, ports) = read().await?;
    let mut watch = Watch::new(links, now, ports);
    loop {
        tokio::time::sleep(BETWEEN).await;
        let (now, ports) = read().await?;
        if let Some(verdict) = watch.read(now, ports)? {
            return Ok(verdict);
        }
    }
}
