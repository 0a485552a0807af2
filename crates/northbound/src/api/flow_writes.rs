//! Writes flows, groups and meters as the operator's own owner, the app `operator`.
//!
//! The bodies have the names that Ryu's REST interface has for OpenFlow 1.3, which `ofctl` translates. Priorities are those on the
//! switch. The first write starts the app.

use std::sync::Arc;

use axum::http::StatusCode;
use control::northbound::Role;
use openflow::{Dpid, FlowMod, FlowModCommand, GroupModCommand, MeterModCommand, Version};
use sdk::services::Service;
use sdk::services::operator::{Answer as OwnerAnswer, Request};
use serde_json::{Value, json};
use view::client::ClientError;

use crate::call::Call;
use crate::owner;
use crate::problem::Problem;
use crate::reply;
use crate::route::{Answer, Content, Form, Param, Route, Verb};
use crate::state::Api;

pub(crate) fn routes() -> Vec<Route> {
    let modify = [Param::new("modify", Form::Flag, "Replaces an entry that exists")];
    let change = |route: Route, about| {
        route
            .role(Role::Operator)
            .about(about)
            .answer(200, Content::Json("Written"), "The switch has the change")
            .answer(
                202,
                Content::Json("Written"),
                "The change is kept, and the switch gets it later",
            )
            .problems(&[404, 409, 503, 504])
    };
    let (flows, groups, meters) = (
        "/api/v1/switches/{dpid}/flows",
        "/api/v1/switches/{dpid}/groups",
        "/api/v1/switches/{dpid}/meters",
    );
    vec![
        change(
            Route::new(Verb::Post, flows, "addFlow", |api, call| flow(api, call, true)),
            "Adds a flow of the operator, or replaces the one with its table, match and priority",
        )
        .json_body("FlowEntry", true),
        change(
            Route::new(Verb::Delete, flows, "deleteFlows", |api, call| flow(api, call, false)),
            "Deletes the flows of the operator that the match covers; with a priority, the one with this match",
        )
        .json_body("FlowEntry", true),
        change(
            Route::new(Verb::Post, groups, "addGroup", |api, call| group(api, call, true)),
            "Adds a group of the operator, who counts groups from 0",
        )
        .query(&modify)
        .json_body("GroupEntry", true),
        change(
            Route::new(Verb::Delete, groups, "deleteGroup", |api, call| group(api, call, false)),
            "Deletes a group of the operator, and the flows that use it",
        )
        .json_body("GroupEntry", true),
        change(
            Route::new(Verb::Post, meters, "addMeter", |api, call| meter(api, call, true)),
            "Adds a meter of the operator, who counts meters from 0",
        )
        .query(&modify)
        .json_body("MeterEntry", true),
        change(
            Route::new(Verb::Delete, meters, "deleteMeter", |api, call| meter(api, call, false)),
            "Deletes a meter of the operator, and the flows that use it",
        )
        .json_body("MeterEntry", true),
    ]
}

async fn flow(api: Arc<Api>, call: Call, adds: bool) -> Answer {
    let dpid = call.dpid()?;
    let mut body: Value = call.json().await?;
    let has_priority = body.get("priority").is_some();
    let command = match (adds, has_priority) {
        (true, _) => FlowModCommand::Add,
        (false, true) => FlowModCommand::DeleteStrict,
        (false, false) => FlowModCommand::Delete,
    };
    if let Some(members) = body.as_object_mut() {
        if adds && !has_priority {
            // The owner takes the middle of its band.
            members.insert("priority".into(), FlowMod::DEFAULT_PRIORITY.into());
        }
        if !adds {
            members.entry("table_id").or_insert(FlowMod::ALL_TABLES.into());
            if members.contains_key("cookie") {
                members.entry("cookie_mask").or_insert(u64::MAX.into());
            }
        }
    }
    let message = ::ofctl::flow_mod(Version::PREFERRED, &body, command).map_err(wrong)?;
    write(api, call.principal.who.clone(), dpid, message).await
}

async fn group(api: Arc<Api>, call: Call, adds: bool) -> Answer {
    let dpid = call.dpid()?;
    let body: Value = call.json().await?;
    let command = match (adds, call.flag("modify")) {
        (false, _) => GroupModCommand::Delete,
        (true, true) => GroupModCommand::Modify,
        (true, false) => GroupModCommand::Add,
    };
    let message = ::ofctl::group_mod(Version::PREFERRED, &body, command).map_err(wrong)?;
    write(api, call.principal.who.clone(), dpid, message).await
}

async fn meter(api: Arc<Api>, call: Call, adds: bool) -> Answer {
    let dpid = call.dpid()?;
    let body: Value = call.json().await?;
    let command = match (adds, call.flag("modify")) {
        (false, _) => MeterModCommand::Delete,
        (true, true) => MeterModCommand::Modify,
        (true, false) => MeterModCommand::Add,
    };
    let message = ::ofctl::meter_mod(Version::PREFERRED, &body, command).map_err(wrong)?;
    write(api, call.principal.who.clone(), dpid, message).await
}

#[expect(clippy::needless_pass_by_value, reason = "it is used with `map_err`")]
fn wrong(error: ::ofctl::OfctlError) -> Problem {
    Problem::invalid(error.to_string(), "see docs/northbound.md for the members of the body")
}

async fn write(api: Arc<Api>, who: String, dpid: Dpid, message: Vec<u8>) -> Answer {
    let answer = api
        .wait(move |api| {
            let request = Request::Change { dpid: dpid.0, message: &message };
            match owner::request(api, Service::Operator, &who, &request) {
                Err(ClientError::Unavailable(_)) => {
                    owner::start(api, &who)?;
                    owner::request(api, Service::Operator, &who, &request)
                }
                answer => answer,
            }
        })
        .await?;
    let written = match answer {
        OwnerAnswer::Refused { refused, why } => return Err(owner::problem(refused, why)),
        OwnerAnswer::Later { why } => Some(why),
        OwnerAnswer::Done { priority } => {
            let answer = json!({"state": "applied", "priority": priority});
            return reply::done(StatusCode::OK, &answer);
        }
        _ => {
            let why = "the app operator sent an answer of another kind";
            return Err(Problem::internal(
                why,
                "install programs of one version, and restart Rosemary",
            ));
        }
    };
    reply::done(StatusCode::ACCEPTED, &json!({"state": "pending", "why": written}))
}
